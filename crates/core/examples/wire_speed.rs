//! Measures what the wire costs: encoding and decoding a prepare of four operations and the vote that answers it.
//! `cargo run --release -p claret-core --example wire_speed`

#[path = "../tests/core/wire/samples.rs"]
#[allow(dead_code, reason = "the tests use the others")]
mod samples;

use std::hint::black_box;

use claret_core::Limits;
use claret_core::wire::{decode_requests, decode_responses, encode_requests, encode_responses};

const ROUNDS: u32 = 10_000;

#[expect(clippy::disallowed_types, reason = "it measures")]
fn measure(what: &str, mut run: impl FnMut()) {
    let mut best = f64::INFINITY;
    for _ in 0..100 {
        let began = std::time::Instant::now();
        (0..ROUNDS).for_each(|_| run());
        best = best.min(began.elapsed().as_secs_f64() / f64::from(ROUNDS) * 1e9);
    }
    println!("{what:<34} {best:7.0} ns");
}

fn main() {
    let limits = Limits::default();
    let prepare = [samples::typical_prepare()];
    let vote = [samples::typical_vote()];
    let (asked, answered) = (encode_requests(&prepare), encode_responses(&vote));
    println!("a prepare of 4 operations: {} bytes; its vote: {} bytes", asked.len(), answered.len());
    measure("prepare: encode", || drop(black_box(encode_requests(black_box(&prepare)))));
    measure("prepare: decode", || drop(black_box(decode_requests(black_box(&asked), &limits))));
    measure("vote: encode", || drop(black_box(encode_responses(black_box(&vote)))));
    measure("vote: decode", || drop(black_box(decode_responses(black_box(&answered)))));
    let many: Vec<_> = std::iter::repeat_n(samples::typical_prepare(), 16).collect();
    let frame = encode_requests(&many);
    measure("16 prepares in a frame: encode", || drop(black_box(encode_requests(black_box(&many)))));
    measure("16 prepares in a frame: decode", || {
        drop(black_box(decode_requests(black_box(&frame), &limits)))
    });
}
