//! The mode `sqlite` of a program without the feature of that name: there is none, and a plan with it is refused.

use std::path::Path;

use claret::Reply;

use crate::measure::Counts;
use crate::pace::Pace;
use crate::schedule::Schedule;
use crate::workload::{Call, Client};

/// Whether this program has it.
pub(crate) const IS_BUILT: bool = false;

/// Nothing is one.
pub(crate) enum SqliteBaseline {}

/// Nothing is one.
pub(crate) enum SqliteRunner {}

impl SqliteBaseline {
    pub(crate) fn create(_: &Path, _: Pace) -> Result<Self, String> {
        Err("it is not in this program".into())
    }

    pub(crate) fn runner(&self, _: Box<dyn Client>, _: usize) -> Result<SqliteRunner, String> {
        match *self {}
    }

    pub(crate) fn waits(&self) -> u64 {
        match *self {}
    }

    pub(crate) fn run_all(&self, _: &[Call]) -> Result<Vec<Reply>, String> {
        match *self {}
    }
}

impl SqliteRunner {
    pub(crate) fn run(&mut self, _: &Schedule) {
        match *self {}
    }

    pub(crate) fn counts(&mut self) -> &mut Counts {
        match *self {}
    }

    pub(crate) fn finish(self) {
        match self {}
    }
}
