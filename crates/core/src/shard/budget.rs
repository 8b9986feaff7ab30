//! What one input may do, and who goes on later because it may do no more (P38).
//!
//! Invariant: an attempt that was put off has one turn, and no turn is of an attempt that is over.

use std::collections::BTreeMap;

use super::config::Config;
use super::participant::Participant;
use crate::ids::{AttemptId, SessionId, Time};

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(super) struct Budget {
    /// So many calls are still executed, or locks let go, before others get their turn.
    at_once: usize,
    /// So many bytes of answers are still said again.
    again_bytes: usize,
    /// So many commands of the host are about to run for which everybody who comes is put off (P63).
    held_off: usize,
    /// Those who have more calls than are executed at once, by turn. Each goes on with the next timeouts, and is here once.
    put_off: BTreeMap<u64, AttemptId>,
    /// Whose heartbeat came last in this input.
    heard_of: Option<SessionId>,
    /// The time of the latest input.
    latest: Time,
}

impl Budget {
    /// An input begins.
    pub(super) fn begin(&mut self, now: Time, config: &Config) {
        (self.latest, self.heard_of) = (now, None);
        // Who calls a shard directly waits for it, and nobody calls it when its time is over.
        let divides = config.has_phases() && !config.is_direct();
        self.at_once = match (self.held_off, divides) {
            (0, true) => config.limits().at_once_max,
            (0, false) => usize::MAX,
            _ => 0,
        };
        self.again_bytes = if divides { config.limits().again_bytes_max } else { usize::MAX };
    }

    /// The host says something at this time that does no work yet.
    pub(super) fn note_time(&mut self, now: Time) {
        self.latest = now;
    }

    /// The time of the latest input.
    pub(super) fn latest(&self) -> Time {
        self.latest
    }

    // --- calls ---

    /// How many calls are still executed.
    #[inline]
    pub(super) fn left(&self) -> usize {
        self.at_once
    }

    /// Whether others get their turn now.
    #[inline]
    pub(super) fn is_spent(&self) -> bool {
        self.at_once == 0
    }

    /// Counts what costs as much as so many calls.
    #[inline]
    pub(super) fn charge(&mut self, calls: usize) {
        self.at_once = self.at_once.saturating_sub(calls);
    }

    // --- answers that are said again ---

    /// How many bytes are still said again.
    pub(super) fn again_left(&self) -> usize {
        self.again_bytes
    }

    /// Whether anything is said again. If not, it is as if that word was lost, and nothing is copied for it.
    pub(super) fn says_again(&self) -> bool {
        self.again_bytes > 0
    }

    /// So many bytes are said again.
    pub(super) fn charge_again(&mut self, bytes: usize) {
        self.again_bytes = self.again_bytes.saturating_sub(bytes);
    }

    /// Whether a session's heartbeat is the first of it in this input. Another one costs as much again, and is as if it was lost.
    pub(super) fn hears_of(&mut self, session: SessionId) -> bool {
        self.heard_of.replace(session) != Some(session)
    }

    // --- turns ---

    /// Gives an attempt a turn after all others, unless it has one. Whether it had none.
    pub(super) fn put_off(&mut self, attempt: AttemptId, participant: &mut Participant) -> bool {
        if participant.turn.is_some() {
            return false;
        }
        let turn = self.put_off.last_key_value().map_or(0, |(last, _)| last + 1);
        participant.turn = Some(turn);
        self.put_off.insert(turn, attempt);
        true
    }

    /// An attempt has its turn no more.
    pub(super) fn drop_turn(&mut self, turn: Option<u64>) {
        if let Some(turn) = turn {
            self.put_off.remove(&turn);
        }
    }

    /// Whose turn it is, as long as this input may do more.
    pub(super) fn next_turn(&mut self) -> Option<AttemptId> {
        if self.at_once == 0 {
            return None;
        }
        self.put_off.pop_first().map(|(_, attempt)| attempt)
    }

    /// Whether somebody has a turn, and the host lets him have it.
    pub(super) fn has_turns(&self) -> bool {
        !self.put_off.is_empty() && self.lets_on()
    }

    /// Whether no command of the host is about to run.
    pub(super) fn lets_on(&self) -> bool {
        self.held_off == 0
    }

    /// A command of the host is about to run.
    pub(super) fn hold_off(&mut self) {
        self.held_off += 1;
        self.at_once = 0;
    }

    /// One has run.
    pub(super) fn let_on(&mut self) {
        self.held_off = self.held_off.saturating_sub(1);
    }

    /// Another life begins: nobody has a turn, and no command is about to run.
    pub(super) fn drop_turns(&mut self) {
        self.put_off.clear();
        self.held_off = 0;
    }

    /// What influences what comes next, for a digest.
    pub(super) fn content(&self) -> impl std::fmt::Debug + use<'_> {
        let Budget { at_once: _, again_bytes: _, held_off, put_off, heard_of: _, latest: _ } = self;
        (put_off.values().collect::<Vec<_>>(), held_off)
    }

    /// # Panics
    /// When an invariant does not hold. `turn_of`: which turn an attempt that is here has.
    pub(super) fn check(&self, turn_of: impl Fn(AttemptId) -> Option<u64>) {
        for (turn, attempt) in &self.put_off {
            let has = turn_of(*attempt) == Some(*turn);
            assert!(has, "{attempt} is gone, or has another turn");
        }
    }

    /// Whether an attempt that has a turn is going to get it.
    pub(super) fn is_turn_of(&self, turn: u64, attempt: AttemptId) -> bool {
        self.put_off.get(&turn) == Some(&attempt)
    }
}
