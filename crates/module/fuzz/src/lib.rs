//! What the fuzzer shares with its seeds: envelopes as inputs, and what must hold when they are opened.
//!
//! The module is no library that others can use, so its envelopes are compiled here once more, from the same file.

#[allow(dead_code, unreachable_pub, reason = "the module uses the rest")]
mod parts;

use claret_core::{Incarnation, ShardId};
use claret_identity::PeerSecret;

use parts::seals::{Greeting, Envelope, Position, Refused, Seals};

/// An envelope of an input: a byte of options, two bytes that are its length, and what is said.
const HEAD: usize = 3;

/// The envelope goes as it is, without a right signature.
const UNSIGNED: u8 = 1;

/// The nodes that the envelopes are said to come from; none is known before its first envelope.
const NODES: [&str; 4] = ["a", "b", "c", "\u{fc}"];

const OWN: &str = "own";

fn secret() -> PeerSecret {
    PeerSecret::new(b"sesame opens this one").expect("it is long enough")
}

/// Opens the envelopes of an input, one after the other.
///
/// # Panics
/// An envelope counts twice or is another one when it is sent on; what cannot be read counts.
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
            Ok((envelope, _)) => counted(&mut own, from, &envelope, &sealed),
            Err(_) => assert_eq!(own.greeting_of(from), before, "what is refused says nothing"),
        }
    }
    own.keep(|node| node == NODES[0]);
    assert!(NODES[1..].iter().all(|node| own.greeting_of(node).is_none()));
}

/// What holds of an envelope that counted.
fn counted(own: &mut Seals, from: &str, envelope: &Envelope, sealed: &[u8]) {
    assert_eq!(own.open(OWN, from, sealed), Err(Refused::Late), "again");
    if let Envelope::Greeting(greeting) = envelope {
        assert_eq!(own.greeting_of(from), Some(*greeting));
    }
    let sent_on = own.seal(OWN, from, envelope).expect("it was heard of");
    let life = u64::from_le_bytes(*sealed[1..].first_chunk().expect("it was read"));
    let mut sender = Seals::new(secret(), life);
    // To a node that never heard of this one a greeting counts, and nothing else would if it was meant for another life.
    match sender.open(from, OWN, &sent_on) {
        Ok((again, is_news)) => assert_eq!((&again, is_news), (envelope, true)),
        Err(refused) => panic!("{envelope:?} is refused: {refused:?}"),
    }
}

/// An envelope of each kind, as inputs.
pub fn samples() -> Vec<Vec<u8>> {
    let greeting = |bears| Envelope::Greeting(Greeting { is_strict: true, bears, asks: 9 });
    let position = Position { incarnation: Incarnation(7), batch: 9 };
    let envelopes = [
        greeting(None),
        greeting(Some((ShardId(5), Incarnation(6)))),
        Envelope::Peer(b"to a shard".to_vec()),
        Envelope::Knows { position: Some(position), asked: 3 },
        Envelope::Knows { position: None, asked: 4 },
        Envelope::TakeOver,
    ];
    let (mut own, mut other) = (Seals::new(secret(), 7), Seals::new(secret(), 8));
    let hello = own.seal(OWN, NODES[0], &greeting(None)).expect("a greeting needs nothing");
    other.open(NODES[0], OWN, &hello).expect("it is signed");
    let sealed = envelopes.iter().map(|envelope| other.seal(NODES[0], OWN, envelope).expect("they know each other"));
    let signature = secret().sign(b"", b"", b"").len();
    sealed.map(|sealed| input(&sealed[..sealed.len() - signature])).collect()
}

fn input(said: &[u8]) -> Vec<u8> {
    let mut input = vec![0; HEAD];
    input[1..].copy_from_slice(&(said.len() as u16).to_le_bytes());
    input.extend_from_slice(said);
    input
}
