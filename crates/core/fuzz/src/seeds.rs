//! Writes what the fuzzers begin with: every message that the tests of the wire know, each in a file of
//! `corpus/TARGET`.

#[path = "../../tests/core/wire/samples.rs"]
#[allow(dead_code, reason = "the tests use the others")]
mod samples;
#[path = "../../tests/core/wire/told.rs"]
mod told;

use std::path::Path;

use claret_core::wire::{encode_peer, encode_requests, encode_responses};

fn write(target: &str, frames: impl Iterator<Item = Vec<u8>>) -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    std::fs::create_dir_all(&folder)?;
    for (no, frame) in frames.enumerate() {
        std::fs::write(folder.join(format!("sample-{no:03}")), frame)?;
    }
    Ok(())
}

fn main() -> std::io::Result<()> {
    let requests = samples::requests();
    // Two at a time, too: what the second does depends on the first.
    let pairs = requests.windows(2).map(encode_requests);
    write("requests", requests.iter().map(|it| encode_requests(std::slice::from_ref(it))).chain(pairs))?;
    write("responses", samples::responses().into_iter().map(|it| encode_responses(&[it])))?;
    write("changes", told::all().into_iter())?;
    write("peer", samples::peers().iter().map(encode_peer))
}
