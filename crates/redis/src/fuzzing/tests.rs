//! Random and damaged bytes for everything that parses what a server sends. The result is an error or a valid value:
//! no panic, no bound exceeded, and the same however the bytes were cut into pieces.

use claret_types::Reply;

use super::*;
use crate::address::Address;
use crate::resp::{Measured, Message, Protocol, Reader, Unreadable};
use crate::topology::Topology;

/// What was read, as far as it goes: each thing with its length, or the error at its end.
fn read(bytes: &[u8], piece: usize) -> (Vec<(String, usize)>, Option<Unreadable>) {
    let mut reader = Reader::new(LIMITS.of_work());
    let (mut things, mut begin, mut end) = (Vec::new(), 0, 0);
    loop {
        match reader.next(&bytes[begin..end]) {
            Ok(Some((said, length))) => {
                assert!(0 < length && length <= LIMITS.reply_bytes_max);
                things.push((text_of(&said), length));
                begin += length;
            }
            Ok(None) if end == bytes.len() => return (things, None),
            Ok(None) => end = (end + piece).min(bytes.len()),
            Err(error) => return (things, Some(error)),
        }
    }
}

/// The same as it came: whether each is a push, and its length.
fn read_raw(protocol: Protocol, bytes: &[u8], piece: usize) -> (Vec<Measured>, Option<Unreadable>) {
    let mut reader = Reader::of(protocol, LIMITS.of_work());
    let (mut things, mut begin, mut end) = (Vec::new(), 0, 0);
    loop {
        match reader.next_raw(&bytes[begin..end]) {
            Ok(Some(measured)) => {
                assert!(0 < measured.length && measured.length <= LIMITS.reply_bytes_max);
                begin += measured.length;
                things.push(measured);
            }
            Ok(None) if end == bytes.len() => return (things, None),
            Ok(None) => end = (end + piece).min(bytes.len()),
            Err(error) => return (things, Some(error)),
        }
    }
}

fn text_of(said: &Message<'_>) -> String {
    match said {
        // A map has its pairs in any order.
        Message::Reply(value) => match value.reply() {
            Ok(Reply::Array(items)) => format!("array of {}", items.len()),
            other => format!("{other:?}"),
        },
        Message::Push(values) => format!("push of {}", values.len()),
    }
}

#[test]
fn damaged_replies_are_read_the_same_however_they_are_cut() {
    let (samples, mut dice) = (samples(), Dice::new(0x5eed_0001));
    let (mut read_well, mut refused) = (0, 0);
    for _ in 0..60_000 {
        let bytes = damaged(&mut dice, &samples);
        let whole = read(&bytes, usize::MAX / 2);
        let cut = read(&bytes, 1 + dice.roll(9));
        // A bound may be seen to be exceeded before, or instead of, what is wrong behind.
        assert_eq!(whole.0, cut.0, "{}", bytes.escape_ascii());
        assert_eq!(whole.1.is_some(), cut.1.is_some(), "{}", bytes.escape_ascii());
        read_well += whole.0.len();
        refused += usize::from(whole.1.is_some());
    }
    assert!(read_well > 10_000 && refused > 10_000, "{read_well} {refused}");
}

/// What is not decoded has the lengths of what is, as far as that can be decoded, however the bytes are cut.
#[test]
fn damaged_replies_are_measured_as_they_are_decoded() {
    let (mut samples, mut dice) = (samples(), Dice::new(0x5eed_0004));
    let nothing = b"*3\r\n$-1\r\n*-1\r\n*1\r\n$1\r\nx\r\n$-1\r\n*-1\r\n:5\r\n-ERR x\r\n";
    samples.push(nothing.to_vec());
    let mut agreed = 0;
    for _ in 0..60_000 {
        let bytes = damaged(&mut dice, &samples);
        let piece = 1 + dice.roll(9);
        let (decoded, error) = read(&bytes, piece);
        let (raw, raw_error) = read_raw(Protocol::Resp3, &bytes, piece);
        assert!(raw.len() >= decoded.len(), "{}", bytes.escape_ascii());
        for ((text, length), measured) in decoded.iter().zip(&raw) {
            assert_eq!(*length, measured.length, "{}", bytes.escape_ascii());
            assert_eq!(text.starts_with("push of"), measured.is_push, "{}", bytes.escape_ascii());
        }
        assert!(error.is_some() || raw.len() == decoded.len(), "{}", bytes.escape_ascii());
        assert!(error.is_some() || raw_error.is_none(), "{}", bytes.escape_ascii());
        agreed += decoded.len();
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            let (whole, cut) =
                (read_raw(protocol, &bytes, usize::MAX / 2), read_raw(protocol, &bytes, piece));
            assert_eq!((&whole.0, whole.1.is_some()), (&cut.0, cut.1.is_some()), "{}", bytes.escape_ascii());
        }
    }
    assert!(agreed > 10_000, "{agreed}");
}

#[test]
fn random_bytes_are_read_without_harm() {
    let mut dice = Dice::new(0x5eed_0002);
    for _ in 0..60_000 {
        let bytes: Vec<u8> = (0..dice.roll(64)).map(|_| dice.roll(256) as u8).collect();
        read(&bytes, 1 + dice.roll(9));
        read_raw(*dice.one_of(&[Protocol::Resp2, Protocol::Resp3]), &bytes, 1 + dice.roll(9));
    }
}

#[test]
fn damaged_replies_to_cluster_slots_are_sound_topologies_or_none() {
    let (samples, mut dice) = (samples(), Dice::new(0x5eed_0003));
    let asked = Address::new("h", 1);
    let mut taken = 0;
    for _ in 0..60_000 {
        let bytes = damaged(&mut dice, &samples[1..2]);
        let Ok(Some((Message::Reply(value), _))) = Reader::new(LIMITS.of_topology()).next(&bytes) else {
            continue;
        };
        let Ok(reply) = value.reply() else { continue };
        let Ok(topology) = Topology::parse(&reply, &asked, &LIMITS) else { continue };
        taken += 1;
        let covered: usize = topology.ranges.iter().map(|it| usize::from(it.last - it.first) + 1).sum();
        let missing: usize = topology.missing().iter().map(|it| usize::from(it.1 - it.0) + 1).sum();
        assert_eq!(covered + missing, 16_384);
    }
    assert!(taken > 1_000, "{taken}");
}
