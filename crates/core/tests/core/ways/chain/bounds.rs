//! What chains keep is bounded, and goes.

use claret_core::message::{Request, Status};
use claret_core::ways::chain::WaitingTokens;
use claret_core::{Incarnation, Limits, SessionId, Shard};

use super::{CHAIN, token};
use crate::bounds::{FIRST, HERE, NOW, OTHER, attempt, fill, send};

/// Bug: a no was written for a range, and tokens of attempts in the range went on waiting. Consequence: they took the places of others,
/// and a shard that checks itself stopped. Mend: they go when the range comes to be theirs (K11).
#[test]
fn a_no_for_a_range_ends_the_tokens_in_it() {
    let limits = Limits { user_bytes_max: 20_000, ..Limits::default() };
    let mut shard = Shard::new(HERE, Incarnation(1), CHAIN, limits);
    shard.greet(SessionId(1), 7, FIRST);
    fill(&mut shard, 1);
    let end = |shard: &mut Shard, sequence| send(shard, Request::Withdraw { attempt: attempt(1, sequence) });
    (10_000..10_100).for_each(|sequence| drop(end(&mut shard, sequence)));
    for sequence in [20_000, 30_000] {
        shard.handle_peer(NOW, token(attempt(1, sequence), OTHER));
    }
    end(&mut shard, 19_999);
    assert_eq!(shard.waiting_tokens(), 2);
    end(&mut shard, 20_001);
    assert_eq!(shard.waiting_tokens(), 1, "one of them is refused by now");
    assert_eq!(shard.written(attempt(1, 20_000)), Some(Status::Refused));
    assert_eq!(shard.written(attempt(1, 30_000)), None);
}
