//! Any bytes as a message between shards: refused, or the same when it is sent on; and a shard takes it.
#![no_main]

use claret_core::wire::{decode_peer, encode_peer};
use claret_core::{Incarnation, Limits, Shard, ShardId, Switches, Time};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(message) = decode_peer(bytes) else { return };
    assert_eq!(decode_peer(&encode_peer(&message)).expect("it was a message"), message);
    let mut shard = Shard::new(ShardId(0), Incarnation(1), Switches::CLARET, Limits::default());
    shard.handle_peer(Time(1), message);
    shard.check_invariants();
});
