//! Any bytes as what a client says to a gateway, or two at once: whole answers, and nothing is left locked.
#![no_main]

use claret_gateway::fuzzing::conversation;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| conversation(input));
