//! Any bytes as a log, and any bodies with right checksums: refused, or a store.
#![no_main]

use claret_log_fuzz::{Files, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| read(Files::default().with("log", input)));
