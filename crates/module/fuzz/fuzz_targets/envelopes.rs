//! Any bytes as envelopes of another node, as they are and with right signatures: refused, or counted once.
#![no_main]

use claret_module_fuzz::open;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| open(input));
