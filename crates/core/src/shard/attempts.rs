//! The attempts that are here and not decided, and when the time of each is over.
//!
//! Invariant: the deadline of a participant is the one under which its attempt stands in [`Deadlines`].

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

use claret_types::Bytes;
use hashbrown::HashMap;

use super::config::Config;
use super::deadlines::Deadlines;
use super::lock_table::LockTable;
use super::participant::{Blocked, Participant, Stage};
use crate::ids::{AttemptId, SessionId, Time, Timestamp};

type Open = HashMap<AttemptId, Box<Participant>, foldhash::fast::FixedState>;

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempts {
    open: Open,
    deadlines: Deadlines,
    /// Those who have what they waited for, and records behind that. None between inputs.
    going_on: VecDeque<AttemptId>,
}

impl Index<AttemptId> for Attempts {
    type Output = Participant;

    #[inline]
    fn index(&self, attempt: AttemptId) -> &Participant {
        self.open.get(&attempt).expect("the attempt is here")
    }
}

impl IndexMut<AttemptId> for Attempts {
    #[inline]
    fn index_mut(&mut self, attempt: AttemptId) -> &mut Participant {
        self.open.get_mut(&attempt).expect("the attempt is here")
    }
}

/// Whether an attempt's time still runs until then.
fn runs(open: &Open) -> impl Fn(&(Time, AttemptId)) -> bool {
    |(due, attempt)| open.get(attempt).is_some_and(|it| it.deadline == Some(*due))
}

impl Attempts {
    #[inline]
    pub(super) fn get(&self, attempt: AttemptId) -> Option<&Participant> {
        self.open.get(&attempt).map(|participant| &**participant)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, attempt: AttemptId) -> Option<&mut Participant> {
        self.open.get_mut(&attempt).map(|participant| &mut **participant)
    }

    /// Whether an attempt is here and not decided.
    #[inline]
    pub(super) fn has(&self, attempt: AttemptId) -> bool {
        self.open.contains_key(&attempt)
    }

    /// Whether an attempt is here and has voted.
    pub(super) fn has_voted(&self, attempt: AttemptId) -> bool {
        self.get(attempt).is_some_and(Participant::is_prepared)
    }

    /// Whether an attempt is here and has not voted.
    pub(super) fn is_unvoted(&self, attempt: AttemptId) -> bool {
        self.get(attempt).is_some_and(|participant| !participant.is_prepared())
    }

    /// What a participant that asks hears of an attempt that has voted (P84).
    pub(super) fn voted_at(&self, attempt: AttemptId) -> Option<Timestamp> {
        match self.get(attempt)?.stage {
            Stage::Prepared { place: Some(place), .. } => Some(place.at),
            _ => None,
        }
    }

    /// The final timestamp of an attempt, while it waits for its turn.
    pub(super) fn placed_at(&self, attempt: AttemptId) -> Option<Timestamp> {
        match self.get(attempt)?.stage {
            Stage::Placed { at, .. } => Some(at),
            _ => None,
        }
    }

    /// Takes in an attempt, whose time does not run yet.
    pub(super) fn insert(&mut self, attempt: AttemptId, participant: Participant) {
        self.open.insert(attempt, Box::new(participant));
    }

    /// Takes out an attempt, and its time.
    pub(super) fn remove(&mut self, attempt: AttemptId) -> Option<Box<Participant>> {
        let participant = self.open.remove(&attempt)?;
        if let Some(deadline) = participant.deadline {
            self.deadlines.remove((deadline, attempt), runs(&self.open));
        }
        Some(participant)
    }

    // --- time ---

    /// When the time of one is over.
    pub(super) fn timeout_of(&self, attempt: AttemptId) -> Option<Time> {
        self.get(attempt)?.deadline
    }

    /// When the first time is over.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.deadlines.next()
    }

    /// Takes one whose time is over. Its deadline is to be set anew.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<AttemptId> {
        self.deadlines.pop_due(now, runs(&self.open))
    }

    /// Starts a lease anew.
    pub(super) fn renew(&mut self, now: Time, config: &Config, attempt: AttemptId) {
        if config.is_direct() {
            return;
        }
        let due = now.plus(config.limits().lease_us);
        // Mostly it is: who can vote does so in the step that lets it in.
        if self.timeout_of(attempt) != Some(due) {
            self.set_deadline(attempt, Some(due));
        }
    }

    /// When the time of an attempt that is here is over.
    pub(super) fn set_deadline(&mut self, attempt: AttemptId, deadline: Option<Time>) {
        let Some(participant) = self.open.get_mut(&attempt) else { return };
        let before = std::mem::replace(&mut participant.deadline, deadline);
        if let Some(before) = before {
            self.deadlines.remove((before, attempt), runs(&self.open));
        }
        if let Some(due) = deadline {
            self.deadlines.insert((due, attempt), self.open.len(), runs(&self.open));
        }
    }

    /// No time runs any more: another life begins, and with it new leases.
    #[expect(clippy::disallowed_methods, reason = "all of them")]
    pub(super) fn drop_deadlines(&mut self) {
        self.open.values_mut().for_each(|participant| participant.deadline = None);
        self.deadlines.clear();
    }

    // --- who goes on ---

    /// An attempt has what it waited for, and goes on to the records behind that.
    pub(super) fn let_go_on(&mut self, attempt: AttemptId) {
        self.going_on.push_back(attempt);
    }

    pub(super) fn next_to_go_on(&mut self) -> Option<AttemptId> {
        self.going_on.pop_front()
    }

    // --- all of them ---

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// How many of them are such.
    #[expect(clippy::disallowed_methods, reason = "they are counted")]
    pub(super) fn count(&self, is_such: impl Fn(&Participant) -> bool) -> usize {
        self.open.values().filter(|participant| is_such(participant)).count()
    }

    /// How many calls of them sleep.
    #[expect(clippy::disallowed_methods, reason = "they are counted")]
    pub(super) fn sleepers(&self) -> usize {
        self.open.values().flat_map(|it| it.blocked.values()).filter(|it| it.sleeps).count()
    }

    /// Those of one session that are not committed.
    #[expect(clippy::disallowed_methods, reason = "they are counted")]
    pub(super) fn uncommitted_of(&self, session: SessionId) -> usize {
        let own = self.open.iter().filter(|(attempt, _)| attempt.tx.session == session);
        own.filter(|(_, it)| !matches!(it.stage, Stage::Placed { .. })).count()
    }

    /// Those that are such, in order.
    pub(super) fn sorted(&self, is_such: impl Fn(&Participant) -> bool) -> Vec<AttemptId> {
        let mut such: Vec<AttemptId> = Vec::new();
        // In any order: sorted.
        for (attempt, participant) in &self.open {
            if is_such(participant) {
                such.push(*attempt);
            }
        }
        such.sort_unstable();
        such
    }

    /// The keys of records that prepares are going to lock when they have what they wait for.
    #[expect(clippy::disallowed_methods, reason = "in no useful order, as the records are")]
    pub(super) fn keys_behind(&self) -> impl Iterator<Item = &Bytes> {
        let behind = self.open.values().flat_map(|participant| participant.behind.as_slice());
        behind.map(|(key, _)| key)
    }

    /// What influences what comes next, for a digest.
    pub(super) fn content<'a>(&'a self, table: &'a LockTable) -> impl std::fmt::Debug + use<'a> {
        // Deadlines are as the attempts have them, and nobody goes on between inputs.
        let Attempts { open: _, deadlines: _, going_on: _ } = self;
        let open = self.sorted(|_| true).into_iter();
        open.map(|attempt| self[attempt].content(table)).collect::<Vec<_>>()
    }

    /// # Panics
    /// When an invariant does not hold.
    pub(super) fn check(
        &self,
        is_turn_of: impl Fn(u64, AttemptId) -> bool,
        is_decided: impl Fn(AttemptId) -> bool,
    ) {
        assert!(self.going_on.is_empty(), "somebody was not let go on");
        // In any order: all must hold.
        for (attempt, participant) in &self.open {
            assert!(
                !participant.is_prepared() || participant.blocked.is_empty(),
                "{attempt} voted and still waits"
            );
            assert!(
                participant.behind.len() == 0
                    || participant.waits_to_lock()
                    || !participant.blocked.is_empty()
                    || participant.turn.is_some(),
                "{attempt} waits for nothing and goes on no further"
            );
            assert!(
                !participant.blocked.values().any(Blocked::is_put_off) || participant.turn.is_some(),
                "{attempt} is put off for ever"
            );
            let has_turn = participant.turn.is_none_or(|turn| is_turn_of(turn, *attempt));
            assert!(has_turn, "{attempt} has a turn that never comes");
            assert!(!is_decided(*attempt), "{attempt} is decided and still here");
            if let Some(deadline) = participant.deadline {
                self.deadlines.check(&(deadline, *attempt));
            }
        }
        self.deadlines.check_all(runs(&self.open));
    }

    /// Bytes that calls and answers of all of them take.
    #[expect(clippy::disallowed_methods, reason = "a sum")]
    pub(super) fn bytes(&self) -> usize {
        self.open.values().map(|participant| participant.bytes).sum()
    }
}
