//! What goes wrong in a run beside the network: planted bugs, deaths that are due, ends that stand still.

use std::collections::{BTreeMap, VecDeque};

use claret_core::Time;

use crate::network::Endpoint;
use crate::plant::Plant;
use crate::tamper::{Tamper, Tampering};

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Faults {
    pub(crate) plant: Plant,
    pub(crate) tamper: Tamper,
    /// Counts of sent messages at which the sender dies, in order.
    deaths: VecDeque<u64>,
    paused: BTreeMap<Endpoint, Time>,
}

impl Faults {
    pub(crate) fn new(plant: Plant, mut deaths: Vec<u64>) -> Self {
        deaths.sort_unstable();
        let tamper = Tamper::new(plant.tampering());
        Faults { plant, tamper, deaths: deaths.into(), paused: BTreeMap::new() }
    }

    /// Whether messages are tampered with in this way.
    pub(crate) fn is(&self, what: Tampering) -> bool {
        self.tamper.is(what)
    }

    /// Whether whoever sends the next message dies, after so many.
    pub(crate) fn kills_sender(&mut self, messages: u64) -> bool {
        let dies = self.deaths.front().is_some_and(|at| *at <= messages);
        if dies {
            self.deaths.pop_front();
        }
        dies
    }

    /// An end stands still, for the longest that any fault wants.
    pub(crate) fn pause(&mut self, end: Endpoint, until: Time) {
        let paused = self.paused.entry(end).or_insert(until);
        *paused = until.max(*paused);
    }

    /// Until when an end stands still, if it does.
    pub(crate) fn paused_until(&self, end: Endpoint, now: Time) -> Option<Time> {
        self.paused.get(&end).copied().filter(|until| *until > now)
    }
}
