//! Tokens that came before their prepares (K11 of `docs/chains.md`).
//!
//! Invariant: each that waits has its time, and is counted for its session.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::ids::{AttemptId, SessionId, ShardId, Time};

/// Tokens that wait for their prepares (K11), by attempt and by whom they come from: who has a right to one only the prepare tells.
#[derive(Clone, Default)]
pub(super) struct Tokens {
    waiting: BTreeMap<(AttemptId, ShardId), Waiting>,
    due: BTreeSet<(Time, AttemptId, ShardId)>,
    /// How many each session has here.
    of_sessions: BTreeMap<SessionId, usize>,
}

/// A token that waits: until when, and whom its attempt follows.
#[derive(Clone)]
struct Waiting {
    due: Time,
    follows: Vec<AttemptId>,
}

/// So many wait at a shard; one more is as if it was lost (K11).
const TOKENS_MAX: usize = 1 << 16;

/// So many of them are of one session: it costs nobody else his place.
const OF_SESSION_MAX: usize = TOKENS_MAX / 64;

impl Tokens {
    /// Keeps one, as long as there are not too many.
    pub(super) fn keep(&mut self, attempt: AttemptId, from: ShardId, due: Time, follows: Vec<AttemptId>) {
        let of_session = self.of_sessions.get(&attempt.tx.session).copied().unwrap_or_default();
        let has_room = self.waiting.len() < TOKENS_MAX && of_session < OF_SESSION_MAX;
        if has_room && !self.waiting.contains_key(&(attempt, from)) {
            *self.of_sessions.entry(attempt.tx.session).or_default() += 1;
            self.waiting.insert((attempt, from), Waiting { due, follows });
            self.due.insert((due, attempt, from));
        }
    }

    /// Takes out all of an attempt; who they came from, and whom it follows as these say.
    pub(super) fn take(&mut self, attempt: AttemptId) -> Vec<(ShardId, Vec<AttemptId>)> {
        if self.waiting.is_empty() {
            return Vec::new(); // Mostly.
        }
        let all = self.waiting.range((attempt, ShardId(0))..=(attempt, ShardId(u32::MAX)));
        let from: Vec<ShardId> = all.map(|((_, from), _)| *from).collect();
        let mut all = Vec::with_capacity(from.len());
        for from in from {
            let Some(Waiting { due, follows }) = self.waiting.remove(&(attempt, from)) else { continue };
            self.due.remove(&(due, attempt, from));
            all.push((from, follows));
        }
        if let Some(of_session) = self.of_sessions.get_mut(&attempt.tx.session) {
            *of_session = of_session.saturating_sub(all.len());
            if *of_session == 0 {
                self.of_sessions.remove(&attempt.tx.session);
            }
        }
        all
    }

    /// When the first has waited for long enough.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.due.first().map(|(due, ..)| *due)
    }

    pub(super) fn pop_due(&mut self, now: Time) -> Option<AttemptId> {
        let (_, attempt, _) = *self.due.first().filter(|(due, ..)| *due <= now)?;
        self.take(attempt);
        Some(attempt)
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Those that wait, and whom their attempts follow.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (&(AttemptId, ShardId), &[AttemptId])> {
        self.waiting.iter().map(|(place, it)| (place, &it.follows[..]))
    }

    /// # Panics
    /// When an invariant does not hold.
    pub(super) fn check(&self) {
        assert_eq!(self.waiting.len(), self.due.len(), "tokens that wait");
        assert!(self.waiting.len() <= TOKENS_MAX, "too many tokens wait");
        let of_sessions: usize = self.of_sessions.values().sum();
        assert_eq!(self.waiting.len(), of_sessions, "tokens of all sessions");
    }
}

/// For digests: when each has waited for long enough changes nothing that comes of it.
impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.waiting()).finish()
    }
}
