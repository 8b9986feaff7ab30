//! The digest of a coordinator: see `crates/core/src/digest.rs`.

use super::Coordinator;
use crate::digest::digest;

impl Coordinator {
    /// The same for coordinators that behave alike.
    pub fn digest(&self) -> u64 {
        digest(&self.content())
    }

    pub(super) fn content(&self) -> impl std::fmt::Debug + '_ {
        let Coordinator {
            birth,
            number,
            switches: _,
            limits: _,
            state,
            participants,
            met,
            outstanding,
            buffered,
            touched,
            reserves,
            listed,
            members,
            next_call,
            inside,
            only_checked,
            chaining,
            in_turn,
            suggested,
            placed_at,
            told_at,
            horizon,
            failure,
            lost_answers,
            first,
            elder,
            blocked_since,
            resend_at,
            backoff_at,
            tries,
            jitter,
            replies,
            closing,
            sends,
            events,
        } = self;
        let attempt =
            (birth, number, state, participants, met, outstanding, buffered, touched, reserves.content());
        let round = (
            listed,
            members,
            (next_call, inside, only_checked),
            (in_turn, first, chaining),
            elder,
            replies,
            closing,
            sends,
            events,
        );
        let round = (round, (suggested, placed_at, told_at, horizon, (failure, lost_answers)));
        (attempt, round, (blocked_since, resend_at, backoff_at, tries, jitter))
    }
}
