//! Any bytes as a frame of responses: refused, or the same when they are sent on.
#![no_main]

use claret_core::wire::{decode_responses, encode_responses};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(responses) = decode_responses(bytes) else { return };
    // A NaN is not equal to itself, so the bytes are compared.
    let again = encode_responses(&responses);
    assert_eq!(encode_responses(&decode_responses(&again).expect("it was a frame")), again);
});
