//! What the fuzzer shares with its seeds: letters as inputs, and what must hold when they are opened.
//!
//! The module is no library that others can use, so its letters are compiled here once more, from the same file.

#[allow(dead_code, unreachable_pub, reason = "the module uses the rest")]
mod parts;

use claret_core::{Incarnation, ShardId};
use claret_identity::PeerSecret;

use parts::seals::{Greeting, Letter, Position, Refused, Seals};

/// A letter of an input: a byte of options, two bytes that are its length, and what is said.
const HEAD: usize = 3;

/// The letter goes as it is, without a right signature.
const UNSIGNED: u8 = 1;

/// The nodes that the letters are said to come from; none is known before its first letter.
const NODES: [&str; 4] = ["a", "b", "c", "\u{fc}"];

const OWN: &str = "own";

fn secret() -> PeerSecret {
    PeerSecret::new(b"sesame opens this one").expect("it is long enough")
}

/// Opens the letters of an input, one after the other.
///
/// # Panics
/// A letter counts twice or is another one when it is sent on; what cannot be read counts.
pub fn open(input: &[u8]) {
    let mut own = Seals::new(secret(), 7);
    let mut rest = input;
    while let [options, low, high, behind @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(behind.len());
        let (said, next) = behind.split_at(length);
        rest = next;
        let from = NODES[usize::from(options >> 1) % NODES.len()];
        let mut sealed = said.to_vec();
        if options & UNSIGNED == 0 {
            sealed.extend_from_slice(&secret().sign(from.as_bytes(), OWN.as_bytes(), said));
        }
        let before = own.greeting_of(from);
        match own.open(OWN, from, &sealed) {
            Ok((letter, _)) => counted(&mut own, from, &letter, &sealed),
            Err(_) => assert_eq!(own.greeting_of(from), before, "what is refused says nothing"),
        }
    }
    own.keep(|node| node == NODES[0]);
    assert!(NODES[1..].iter().all(|node| own.greeting_of(node).is_none()));
}

/// What holds of a letter that counted.
fn counted(own: &mut Seals, from: &str, letter: &Letter, sealed: &[u8]) {
    assert_eq!(own.open(OWN, from, sealed), Err(Refused::Late), "again");
    if let Letter::Greeting(greeting) = letter {
        assert_eq!(own.greeting_of(from), Some(*greeting));
    }
    let sent_on = own.seal(OWN, from, letter).expect("it was heard of");
    let life = u64::from_le_bytes(*sealed[1..].first_chunk().expect("it was read"));
    let mut sender = Seals::new(secret(), life);
    // To a node that never heard of this one a greeting counts, and nothing else would if it was meant for another life.
    match sender.open(from, OWN, &sent_on) {
        Ok((again, is_news)) => assert_eq!((&again, is_news), (letter, true)),
        Err(refused) => panic!("{letter:?} is refused: {refused:?}"),
    }
}

/// A letter of each kind, as inputs.
pub fn samples() -> Vec<Vec<u8>> {
    let greeting = |bears| Letter::Greeting(Greeting { is_strict: true, bears, asks: 9 });
    let position = Position { incarnation: Incarnation(7), batch: 9 };
    let letters = [
        greeting(None),
        greeting(Some((ShardId(5), Incarnation(6)))),
        Letter::Peer(b"to a shard".to_vec()),
        Letter::Knows { position: Some(position), asked: 3 },
        Letter::Knows { position: None, asked: 4 },
        Letter::TakeOver,
    ];
    let (mut own, mut other) = (Seals::new(secret(), 7), Seals::new(secret(), 8));
    let hello = own.seal(OWN, NODES[0], &greeting(None)).expect("a greeting needs nothing");
    other.open(NODES[0], OWN, &hello).expect("it is signed");
    let sealed = letters.iter().map(|letter| other.seal(NODES[0], OWN, letter).expect("they know each other"));
    let signature = secret().sign(b"", b"", b"").len();
    sealed.map(|sealed| input(&sealed[..sealed.len() - signature])).collect()
}

fn input(said: &[u8]) -> Vec<u8> {
    let mut input = vec![0; HEAD];
    input[1..].copy_from_slice(&(said.len() as u16).to_le_bytes());
    input.extend_from_slice(said);
    input
}
