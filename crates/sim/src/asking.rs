//! Somebody who only wants to know what became of attempts that dead processes left, or whose users heard that it is unknown. He
//! looks at one shard after another, so that what he knows of one is older than what he knows of the next, and ends nothing (P89).

use std::collections::VecDeque;

use claret_core::{Asked, Known, Shard, Told};

use crate::check::{Ledger, Violation};

/// So many attempts are looked at, at most: the latest.
const ASKED_MAX: usize = 8;

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Asking(VecDeque<Question>);

#[derive(Debug)]
struct Question {
    asked: Asked,
    told: Vec<Told>,
    /// What was concluded last, for good.
    known: Option<Known>,
}

impl Asking {
    /// From now on he asks about this one.
    pub(crate) fn begin(&mut self, asked: Option<Asked>) {
        if self.0.len() == ASKED_MAX {
            self.0.pop_front();
        }
        self.0.extend(asked.map(|asked| Question { asked, told: Vec::new(), known: None }));
    }

    /// He looks at a shard that has just done something.
    pub(crate) fn look(&mut self, shard: &Shard, ledger: &mut Ledger) -> Result<(), Violation> {
        let at = shard.id();
        for Question { asked, told, known } in &mut self.0 {
            if asked.participants.iter().all(|listed| listed.shard != at) {
                continue;
            }
            told.retain(|told| told.shard != at);
            told.push(shard.tell_written(asked.attempt, false));
            let concluded = asked.known(told);
            ledger.told_outcome(asked, told, *known)?;
            if matches!(concluded, Known::Committed | Known::Aborted) {
                *known = Some(concluded);
            }
        }
        Ok(())
    }
}
