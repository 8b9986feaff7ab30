//! Any bytes as messages between shards: refused, or the same when they are sent on; and a shard takes them.
#![no_main]

use claret_core::wire::{append_peer, decode_peer, decode_peers, encode_peer};
use claret_core::ways::WaySwitches;
use claret_core::{Incarnation, Limits, Ordered, Shard, ShardId, Switches, Time};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(messages) = decode_peers(bytes) else { return };
    let mut again = Vec::new();
    messages.iter().for_each(|message| append_peer(message, &mut again));
    assert_eq!(decode_peers(&again).expect("they were messages"), messages);
    let switches = Switches::claret(Ordered::Never, false, WaySwitches::ALL);
    let mut shard = Shard::new(ShardId(0), Incarnation(1), switches, Limits::default());
    for message in messages {
        assert_eq!(decode_peer(&encode_peer(&message)).expect("it was a message"), message);
        shard.handle_peer(Time(1), message);
        shard.check_invariants();
    }
});
