//! Any bytes as a frame of requests: refused, or the same when they are sent on; and a shard takes them without a
//! panic and without losing track of its locks.
#![no_main]

use claret_core::message::Link;
use claret_core::wire::{decode_requests, encode_requests};
use claret_core::{Incarnation, Limits, SessionId, Shard, ShardId, Switches, Time};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits::default();
    let Ok(requests) = decode_requests(bytes, &limits) else { return };
    let again = encode_requests(&requests);
    assert_eq!(decode_requests(&again, &limits).expect("it was a frame"), requests);
    let mut shard = Shard::new(ShardId(0), Incarnation(1), Switches::CLARET, limits);
    let link = Link { session: SessionId(7), connection: 0 };
    for (step, request) in (1..).zip(requests) {
        shard.handle(Time(step * 1_000_000), link, request);
        while shard.poll_output().is_some() {}
    }
    shard.check_invariants();
    // Leases end: whoever has not voted lets go.
    shard.handle_timeout(Time(u64::MAX / 2));
    shard.check_invariants();
});
