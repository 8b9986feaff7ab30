//! Any bytes as requests, in pieces: the same as in one, and borne by the table and the operations.
#![no_main]

use claret_gateway::fuzzing::requests;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| requests(input));
