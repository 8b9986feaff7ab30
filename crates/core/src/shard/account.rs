//! How many bytes a shard keeps for its users (P60): calls and answers of open attempts, decisions, and answers of
//! what is applied. It counts them for each account, which is a user of the host, and for all.
//!
//! With direct delivery nothing is counted: the caller of the shard is in the process that pays for it.

use super::{AttemptId, Call, Delivery, Limits, Shard};
use crate::message::{Bound, Refusal, Undone};

/// About what an attempt takes that has no calls.
const ATTEMPT_BYTES: usize = 1_024;

/// About what a call takes besides its words: its claims and its effect, and that it came.
const CALL_BYTES: usize = 512;

/// What a call takes.
fn bytes_of(key: &[u8], call: &Call) -> usize {
    let reserved = call.reserve.as_ref().map_or(0, |claims| size_of_val(&claims.list[..]));
    CALL_BYTES + key.len() + call.op.size() + reserved
}

/// How many calls, and what they take in bytes.
pub(super) struct Taken {
    count: usize,
    bytes: usize,
}

impl Shard {
    /// Other bounds from now on: of calls, of bytes, and of strangers.
    pub fn set_bounds(&mut self, limits: Limits) {
        let Limits { calls_max, user_bytes_max, shard_bytes_max, strangers_max, ordered_meets_min, .. } =
            limits;
        self.limits = Limits {
            calls_max,
            user_bytes_max,
            shard_bytes_max,
            strangers_max,
            ordered_meets_min,
            ..self.limits
        };
        self.table.set_meets_min(ordered_meets_min);
    }

    /// Bytes that are kept for all.
    pub fn kept_bytes(&self) -> usize {
        self.kept
    }

    /// Bytes that are kept for one.
    pub fn kept_bytes_of(&self, account: u64) -> usize {
        self.accounts.get(&account).copied().unwrap_or_default()
    }

    /// What was so much is so much now.
    pub(super) fn recount(&mut self, account: u64, before: usize, after: usize) {
        if before == after {
            return;
        }
        let kept = self.accounts.entry(account).or_default();
        *kept = (*kept + after).saturating_sub(before);
        self.kept = (self.kept + after).saturating_sub(before);
    }

    /// Forgets an account under which nothing is kept.
    pub(super) fn close_account(&mut self, account: u64) {
        if self.kept_bytes_of(account) == 0 {
            self.accounts.remove(&account);
        }
    }

    /// The bound that is reached for an account. What is the node's own (account 0) is bounded by its clients.
    pub(super) fn full(&self, account: u64) -> Option<Refusal> {
        let (user, all) = (self.limits.user_bytes_max, self.limits.shard_bytes_max);
        if account == 0 {
            return None;
        }
        let refusal = |bound, limit| Refusal::TooMuch { bound, limit: limit as u64 };
        if self.kept_bytes_of(account) >= user {
            return Some(refusal(Bound::UserBytes, user));
        }
        (self.kept >= all).then(|| refusal(Bound::ShardBytes, all))
    }

    /// What calls take, as far as that is counted.
    pub(super) fn size_up<'a>(&self, calls: impl ExactSizeIterator<Item = (&'a [u8], &'a Call)>) -> Taken {
        let count = calls.len();
        match self.switches.delivery {
            Delivery::Direct => Taken { count, bytes: 0 },
            Delivery::Network => Taken { count, bytes: calls.map(|(key, call)| bytes_of(key, call)).sum() },
        }
    }

    /// What ranges of undone calls take.
    pub(super) fn size_up_undone(&self, ranges: usize) -> Taken {
        Taken { count: 0, bytes: ranges * size_of::<Undone>() }
    }

    /// Counts calls that an open attempt makes, unless they are too many.
    pub(super) fn take_in(&mut self, attempt: AttemptId, taken: Taken) -> Result<(), Refusal> {
        if self.switches.delivery == Delivery::Direct {
            return Ok(());
        }
        let calls_max = self.limits.calls_max as usize;
        let Some(participant) = self.attempts.get_mut(&attempt) else { return Ok(()) };
        let count = participant.calls + taken.count;
        if count > calls_max {
            return Err(Refusal::TooMuch { bound: Bound::Calls, limit: calls_max as u64 });
        }
        let begun = if participant.bytes == 0 { ATTEMPT_BYTES } else { 0 };
        let more = begun + taken.bytes;
        // A commit that brings nothing more ends what it holds.
        let is_bounded = participant.account != 0 && more > 0;
        let of_one = self.accounts.entry(participant.account).or_default();
        let (user_max, all_max) = (self.limits.user_bytes_max, self.limits.shard_bytes_max);
        if is_bounded && *of_one + more > user_max {
            return Err(Refusal::TooMuch { bound: Bound::UserBytes, limit: user_max as u64 });
        }
        if is_bounded && self.kept + more > all_max {
            return Err(Refusal::TooMuch { bound: Bound::ShardBytes, limit: all_max as u64 });
        }
        participant.calls = count;
        participant.bytes += more;
        *of_one += more;
        self.kept += more;
        Ok(())
    }
}
