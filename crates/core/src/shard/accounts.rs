//! How many bytes a shard keeps for its users (P60): calls and answers of open attempts, decisions, and answers of
//! what is applied. It counts them for each account, which is a user of the host, and for all.
//!
//! With direct delivery nothing is counted: the caller of the shard is in the process that pays for it.
//!
//! Invariants: the accounts add up to what is kept for all; that is what open attempts and histories take.

use hashbrown::HashMap;

use super::config::Config;
use super::participant::Participant;
use crate::message::{Bound, Call, Refusal, Undone};

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

impl Taken {
    /// What calls take, as far as that is counted.
    pub(super) fn by_calls<'a>(
        config: &Config,
        calls: impl ExactSizeIterator<Item = (&'a [u8], &'a Call)>,
    ) -> Self {
        let count = calls.len();
        match config.is_direct() {
            true => Taken { count, bytes: 0 },
            false => Taken { count, bytes: calls.map(|(key, call)| bytes_of(key, call)).sum() },
        }
    }

    /// What ranges of undone calls take.
    pub(super) fn by_ranges(ranges: usize) -> Self {
        Taken { count: 0, bytes: ranges * size_of::<Undone>() }
    }
}

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(super) struct Accounts {
    of: HashMap<u64, usize, foldhash::fast::FixedState>,
    kept: usize,
}

impl Accounts {
    /// Bytes that are kept for all.
    pub(super) fn kept(&self) -> usize {
        self.kept
    }

    /// Bytes that are kept for one.
    pub(super) fn kept_of(&self, account: u64) -> usize {
        self.of.get(&account).copied().unwrap_or_default()
    }

    /// What was so much is so much now.
    pub(super) fn recount(&mut self, account: u64, before: usize, after: usize) {
        if before == after {
            return;
        }
        let kept = self.of.entry(account).or_default();
        *kept = (*kept + after).saturating_sub(before);
        self.kept = (self.kept + after).saturating_sub(before);
    }

    /// An account is forgotten under which nothing is kept.
    pub(super) fn close(&mut self, account: u64) {
        if self.kept_of(account) == 0 {
            self.of.remove(&account);
        }
    }

    /// The bound that is reached for an account. What is the node's own (account 0) is bounded by its clients.
    pub(super) fn full(&self, config: &Config, account: u64) -> Option<Refusal> {
        let (user, all) = (config.limits().user_bytes_max, config.limits().shard_bytes_max);
        if account == 0 {
            return None;
        }
        let refusal = |bound, limit| Refusal::TooMuch { bound, limit: limit as u64 };
        if self.kept_of(account) >= user {
            return Some(refusal(Bound::UserBytes, user));
        }
        (self.kept >= all).then(|| refusal(Bound::ShardBytes, all))
    }

    /// Counts calls that an open attempt makes, unless they are too many.
    pub(super) fn take_in(
        &mut self,
        config: &Config,
        participant: &mut Participant,
        taken: Taken,
    ) -> Result<(), Refusal> {
        if config.is_direct() {
            return Ok(());
        }
        let limits = config.limits();
        let calls_max = limits.calls_max as usize;
        let count = participant.calls + taken.count;
        if count > calls_max {
            return Err(Refusal::TooMuch { bound: Bound::Calls, limit: calls_max as u64 });
        }
        let begun = if participant.bytes == 0 { ATTEMPT_BYTES } else { 0 };
        let more = begun + taken.bytes;
        // A commit that brings nothing more ends what it holds.
        let is_bounded = participant.account != 0 && more > 0;
        let of_one = self.of.entry(participant.account).or_default();
        let (user_max, all_max) = (limits.user_bytes_max, limits.shard_bytes_max);
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

    /// # Panics
    /// When the accounts do not add up to these bytes, which are all that is kept.
    pub(super) fn check(&self, kept: usize) {
        let mut counted = 0;
        // In any order: a sum.
        for account in &self.of {
            counted += account.1;
        }
        assert_eq!((self.kept, self.kept), (kept, counted), "what is kept does not add up");
    }
}
