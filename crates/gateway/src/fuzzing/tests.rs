//! A short run of the fuzzers, with damaged conversations from fixed seeds; and what they found.

use super::{behind_value, conversation, requests, seeds};

/// Numbers that look random, and are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }
}

/// Bytes, cut out, doubled, overwritten and put together anew.
fn damaged(dice: &mut Dice, seeds: &[Vec<u8>]) -> Vec<u8> {
    const SIGNS: &[u8] = b"*$-\r\n \"'\\0123456789kls";
    let mut bytes = seeds[dice.roll(seeds.len())].clone();
    for _ in 0..dice.roll(6) {
        let at = dice.roll(bytes.len().max(1));
        match dice.roll(6) {
            0 if at < bytes.len() => bytes[at] = dice.roll(256) as u8,
            1 if at < bytes.len() => bytes[at] = SIGNS[dice.roll(SIGNS.len())],
            2 => bytes.truncate(at),
            3 => {
                let other = &seeds[dice.roll(seeds.len())];
                let from = dice.roll(other.len());
                bytes.splice(at.min(bytes.len()).., other[from..].iter().copied());
            }
            4 => bytes.insert(at.min(bytes.len()), SIGNS[dice.roll(SIGNS.len())]),
            _ => {
                let piece = bytes[at.min(bytes.len())..].to_vec();
                bytes.extend_from_slice(&piece[..piece.len().min(100)]);
            }
        }
    }
    bytes
}

#[test]
fn damaged_requests_are_read_the_same_however_they_are_cut() {
    let (seeds, mut dice) = (seeds(), Dice(0x5eed_0001));
    seeds.iter().for_each(|seed| requests(seed));
    (0..20_000).for_each(|_| requests(&damaged(&mut dice, &seeds)));
}

#[test]
fn damaged_conversations_leave_nothing_locked() {
    let (seeds, mut dice) = (seeds(), Dice(0x5eed_0002));
    seeds.iter().for_each(|seed| conversation(seed));
    (0..1_000).for_each(|_| conversation(&damaged(&mut dice, &seeds)));
}

#[test]
fn a_line_that_is_no_request_ends_the_conversation() {
    // The line was skipped, and what follows was carried out.
    for piece in [0, 10, 127] {
        let said = b"PING\r\nCOPY j\"k\r\nSET k 1\r\nPING\r\n";
        conversation(&[&[piece][..], said].concat());
        conversation(&[&[0x80 | piece][..], said, said].concat());
    }
}

#[test]
fn a_count_is_as_long_in_one_piece_as_in_many() {
    requests(&[&b"+*"[..], &[0xff; 129], b"\r"].concat());
}

/// The place up to which a line had been looked through stayed, and was beyond what came next.
#[test]
fn what_follows_an_empty_array_is_looked_through_from_its_beginning() {
    for piece in 0..16 {
        let said = b"*0\r\nP\n*-1\r\nPING\r\n*0\r\n*1\r\n$4\r\nPING\r\n";
        requests(&[&[piece][..], said].concat());
        conversation(&[&[piece][..], said].concat());
    }
}

#[test]
fn a_value_is_whole_or_none() {
    for whole in [
        "+OK\r\n",
        ":-1\r\n",
        "$-1\r\n",
        "*2\r\n$1\r\na\r\n:1\r\n",
        "%1\r\n+a\r\n_\r\n",
        ",1.5\r\n",
        "=6\r\ntxt:hi\r\n",
    ] {
        assert_eq!(behind_value(whole.as_bytes(), 0), Some(&b""[..]), "{whole}");
        for end in 0..whole.len() {
            assert_eq!(behind_value(&whole.as_bytes()[..end], 0), None, "{whole} up to {end}");
        }
    }
}
