//! What nodes say to each other, sealed with a secret of theirs (S12 of `docs/replication.md`).
//!
//! Whoever reaches the port of the cluster bus can send there what looks like a message of any node. So each envelope is signed for
//! one receiver and for one life of it, a process from its start to its end, and is numbered: it counts once, or not at all. A
//! greeting says which life its sender lives, and needs to know nothing of the receiver. It says nothing that could not be said
//! again.

use std::collections::{BTreeMap, VecDeque};

use claret_core::{Incarnation, ShardId};
use claret_identity::PeerSecret;
use claret_planted::{Bug, is_planted};

/// The form of envelopes, of what a primary tells its replicas, and of what is in files (`claret_core::Change`): another one for each
/// change of any. A replica with another form is not heard, and so it does not count as one.
pub(crate) const FORM: u8 = 5;

/// Incarnations count microseconds. One as large as this is none.
const INCARNATION_END: u64 = 1 << 62;

/// So many earlier lives of another node are remembered, whose envelopes count no more.
const PAST_LIVES_MAX: usize = 64;

const SIGNATURE_BYTES: usize = 32;

/// What a node says of itself, to everybody who may hear it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Greeting {
    /// It keeps what a strict primary tells it.
    pub(crate) is_strict: bool,
    /// The shard that it is, and its incarnation.
    pub(crate) bears: Option<(ShardId, Incarnation)>,
    /// It takes letters for errands (E10 of docs/errands.md).
    pub(crate) takes_errands: bool,
    /// The number of its question to its replicas: what they know.
    pub(crate) asks: u64,
}

/// What comes between nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Envelope {
    Greeting(Greeting),
    /// A message of a shard to a shard.
    Peer(Vec<u8>),
    /// Several, one after another.
    Peers(Vec<u8>),
    /// A replica says how much of its primary's shard it knows, in answer to a question; `None`: it has no whole of it.
    Knows {
        position: Option<Position>,
        asked: u64,
    },
    /// A primary that knows less than a replica tells it to take its place.
    TakeOver,
    /// A home writes to a shard, or a shard to a home (docs/errands.md).
    Letter(Vec<u8>),
}

/// How much somebody knows of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    /// The incarnation that told it.
    pub(crate) incarnation: Incarnation,
    /// Its last batch.
    pub(crate) batch: u64,
}

impl Position {
    /// A primary without a shard only asks whether its replicas are there. No shard has this incarnation.
    pub(crate) fn of_no_shard(batch: u64) -> Position {
        Position { incarnation: Incarnation(0), batch }
    }

    pub(crate) fn is_of_no_shard(self) -> bool {
        self.incarnation == Incarnation(0)
    }

    /// `None`: no later incarnation could follow.
    pub(crate) fn of(incarnation: u64, batch: u64) -> Option<Position> {
        (incarnation < INCARNATION_END).then_some(Position { incarnation: Incarnation(incarnation), batch })
    }
}

/// Why an envelope does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It has another form: of a node without a secret, or with another version.
    Form,
    /// The signature is of another secret, sender, receiver or text.
    Signature,
    /// It is for an earlier life of the receiver, of an earlier one of its sender, or came before.
    Late,
}

#[derive(Debug, Default)]
struct Peer {
    life: u64,
    /// The number of the last envelope of this life that counted.
    heard: u64,
    past: VecDeque<u64>,
    greeting: Option<Greeting>,
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Seals {
    secret: PeerSecret,
    /// This node's life: a random number.
    life: u64,
    sent: u64,
    peers: BTreeMap<String, Peer>,
}

impl Seals {
    pub(crate) fn new(secret: PeerSecret, life: u64) -> Self {
        Seals { secret, life, sent: 0, peers: BTreeMap::new() }
    }

    /// Seals an envelope from the node `own` to the node `to`; `None`: that one was not heard of yet, and could not know that it is
    /// meant.
    pub(crate) fn seal(&mut self, own: &str, to: &str, envelope: &Envelope) -> Option<Vec<u8>> {
        let is_greeting = matches!(envelope, Envelope::Greeting(_));
        let life_of_it = self.peers.get(to).map_or(0, |peer| peer.life);
        if life_of_it == 0 && !is_greeting {
            return None;
        }
        self.sent += 1;
        let mut sealed = vec![FORM];
        for number in [self.life, life_of_it, self.sent] {
            sealed.extend_from_slice(&number.to_le_bytes());
        }
        write(envelope, &mut sealed);
        let signature = self.secret.sign(own.as_bytes(), to.as_bytes(), &sealed);
        sealed.extend_from_slice(&signature);
        Some(sealed)
    }

    /// Opens what came from the node `from`. Whether its sender lives a life that is news; it is to be greeted then.
    pub(crate) fn open(&mut self, own: &str, from: &str, sealed: &[u8]) -> Result<(Envelope, bool), Refused> {
        let Some((said, signature)) = sealed.split_last_chunk::<SIGNATURE_BYTES>() else {
            return Err(Refused::Form);
        };
        if said.first() != Some(&FORM) {
            return Err(Refused::Form);
        }
        if !(self.secret.verify(from.as_bytes(), own.as_bytes(), said, signature)
            || is_planted(Bug::EnvelopeUnsigned))
        {
            return Err(Refused::Signature);
        }
        let mut rest = &said[1..];
        let mut number = || {
            let (number, behind) = rest.split_first_chunk::<8>().ok_or(Refused::Form)?;
            rest = behind;
            Ok(u64::from_le_bytes(*number))
        };
        let (life, meant, count) = (number()?, number()?, number()?);
        let envelope = read(rest).ok_or(Refused::Form)?;
        let is_greeting = matches!(envelope, Envelope::Greeting(_));
        let is_meant = meant == self.life || is_greeting || is_planted(Bug::OtherLifeMeant);
        let peer = self.peers.entry(from.to_owned()).or_default();
        let is_over = peer.past.contains(&life) && !is_planted(Bug::PastLifeCounts);
        let came_before = life == peer.life && count <= peer.heard && !is_planted(Bug::EnvelopeCountsAgain);
        if !is_meant || life == 0 || is_over || came_before {
            return Err(Refused::Late);
        }
        let is_news = peer.life != life;
        if is_news {
            if peer.life != 0 {
                peer.past.push_back(peer.life);
            }
            if peer.past.len() > PAST_LIVES_MAX {
                peer.past.pop_front();
            }
            (peer.life, peer.greeting) = (life, None);
        }
        peer.heard = count;
        if let Envelope::Greeting(greeting) = envelope {
            peer.greeting = Some(greeting);
        }
        Ok((envelope, is_news))
    }

    /// Forgets whoever is no node of the cluster any more.
    pub(crate) fn keep(&mut self, is_node: impl Fn(&str) -> bool) {
        self.peers.retain(|id, _| is_node(id));
    }

    /// What a node said of itself in its present life.
    pub(crate) fn greeting_of(&self, node: &str) -> Option<Greeting> {
        self.peers.get(node)?.greeting
    }
}

fn write(envelope: &Envelope, out: &mut Vec<u8>) {
    let pair = |out: &mut Vec<u8>, pair: Option<(u64, u64)>| {
        out.push(u8::from(pair.is_some()));
        let (first, second) = pair.unwrap_or_default();
        out.extend_from_slice(&first.to_le_bytes());
        out.extend_from_slice(&second.to_le_bytes());
    };
    match envelope {
        Envelope::Greeting(Greeting { is_strict, bears, takes_errands, asks }) => {
            out.extend_from_slice(&[0, u8::from(*is_strict), u8::from(*takes_errands)]);
            out.extend_from_slice(&asks.to_le_bytes());
            pair(out, bears.map(|(shard, incarnation)| (u64::from(shard.0), incarnation.0)));
        }
        Envelope::Peer(bytes) => {
            out.push(1);
            out.extend_from_slice(bytes);
        }
        Envelope::Knows { position, asked } => {
            out.push(2);
            out.extend_from_slice(&asked.to_le_bytes());
            pair(out, position.map(|it| (it.incarnation.0, it.batch)));
        }
        Envelope::TakeOver => out.push(3),
        Envelope::Peers(bytes) => {
            out.push(4);
            out.extend_from_slice(bytes);
        }
        Envelope::Letter(bytes) => {
            out.push(5);
            out.extend_from_slice(bytes);
        }
    }
}

fn read(bytes: &[u8]) -> Option<Envelope> {
    let pair = |bytes: &[u8]| {
        let (&is_there, rest) = bytes.split_first()?;
        let (first, rest) = rest.split_first_chunk::<8>()?;
        let second: &[u8; 8] = rest.try_into().ok()?;
        let numbers = (u64::from_le_bytes(*first), u64::from_le_bytes(*second));
        Some((is_there == 1).then_some(numbers))
    };
    match bytes.split_first()? {
        (0, [is_strict, takes_errands, rest @ ..]) => {
            let (asks, rest) = rest.split_first_chunk::<8>()?;
            let bears = match pair(rest)? {
                Some((shard, incarnation)) => {
                    Some((ShardId(u32::try_from(shard).ok()?), Incarnation(incarnation)))
                }
                None => None,
            };
            let asks = u64::from_le_bytes(*asks);
            let (is_strict, takes_errands) = (*is_strict == 1, *takes_errands == 1);
            Some(Envelope::Greeting(Greeting { is_strict, bears, takes_errands, asks }))
        }
        (1, rest) => Some(Envelope::Peer(rest.to_vec())),
        (2, rest) => {
            let (asked, rest) = rest.split_first_chunk::<8>()?;
            let position = pair(rest)?
                .map(|(incarnation, batch)| Position { incarnation: Incarnation(incarnation), batch });
            Some(Envelope::Knows { position, asked: u64::from_le_bytes(*asked) })
        }
        (3, []) => Some(Envelope::TakeOver),
        (4, rest) => Some(Envelope::Peers(rest.to_vec())),
        (5, rest) => Some(Envelope::Letter(rest.to_vec())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use claret_core::{Incarnation, ShardId};
    use claret_identity::PeerSecret;

    use super::{Envelope, Greeting, Position, Refused, Seals};

    fn seals(life: u64) -> Seals {
        Seals::new(PeerSecret::new(b"sixteen bytes...").expect("long enough"), life)
    }

    fn greeting(bears: Option<(ShardId, Incarnation)>) -> Envelope {
        Envelope::Greeting(Greeting { is_strict: true, bears, takes_errands: true, asks: 8 })
    }

    /// Both have greeted each other.
    fn acquainted() -> (Seals, Seals) {
        let (mut a, mut b) = (seals(1), seals(2));
        let hello = a.seal("a", "b", &greeting(None)).expect("a greeting needs nothing");
        assert_eq!(b.open("b", "a", &hello), Ok((greeting(None), true)));
        let back = b.seal("b", "a", &greeting(None)).expect("a greeting needs nothing");
        assert_eq!(a.open("a", "b", &back), Ok((greeting(None), true)));
        (a, b)
    }

    #[test]
    fn every_envelope_is_the_same_when_it_is_opened() {
        let (mut a, mut b) = acquainted();
        let position = Position { incarnation: Incarnation(7), batch: 9 };
        for envelope in [
            greeting(Some((ShardId(5), Incarnation(6)))),
            Envelope::Peer(b"to a shard".to_vec()),
            Envelope::Peers(b"to a shard".to_vec()),
            Envelope::Letter(b"to a shard".to_vec()),
            Envelope::Knows { position: Some(position), asked: 3 },
            Envelope::Knows { position: None, asked: 4 },
            Envelope::TakeOver,
        ] {
            let sealed = a.seal("a", "b", &envelope).expect("they know each other");
            assert_eq!(b.open("b", "a", &sealed), Ok((envelope, false)));
        }
        assert_eq!(b.greeting_of("a").and_then(|it| it.bears), Some((ShardId(5), Incarnation(6))));
    }

    #[test]
    fn an_envelope_counts_once_for_one_node_and_from_one() {
        let (mut a, mut b) = acquainted();
        let sealed = a.seal("a", "b", &Envelope::TakeOver).expect("they know each other");
        assert_eq!(b.open("c", "a", &sealed), Err(Refused::Signature), "for another one");
        assert_eq!(b.open("b", "c", &sealed), Err(Refused::Signature), "from another one");
        let mut changed = sealed.clone();
        changed[30] ^= 1;
        assert!(b.open("b", "a", &changed).is_err());
        assert_eq!(b.open("b", "a", &[]), Err(Refused::Form));
        assert!(b.open("b", "a", &sealed).is_ok());
        assert_eq!(b.open("b", "a", &sealed), Err(Refused::Late), "again");
    }

    #[test]
    fn an_envelope_is_for_one_life_and_an_earlier_life_is_over() {
        let (mut a, mut b) = acquainted();
        let early = a.seal("a", "b", &Envelope::TakeOver).expect("they know each other");
        let mut b_again = seals(3);
        assert_eq!(b_again.open("b", "a", &early), Err(Refused::Late), "it was for an earlier life");
        let mut a_again = seals(4);
        let hello = a_again.seal("a", "b", &greeting(None)).expect("a greeting needs nothing");
        assert_eq!(b.open("b", "a", &hello), Ok((greeting(None), true)));
        assert_eq!(b.open("b", "a", &early), Err(Refused::Late), "it is of an earlier life");
        assert!(a_again.seal("a", "b", &Envelope::TakeOver).is_none(), "nobody told it whom it would reach");
    }

    #[test]
    fn rubbish_is_refused() {
        let (mut a, mut b) = acquainted();
        for rubbish in [&b""[..], b"\x00", b"\x00\x01\x01", b"\x02\x01short", b"\x03more", b"\x09"] {
            let mut sealed = a.seal("a", "b", &Envelope::Peer(Vec::new())).expect("they know each other");
            sealed.truncate(sealed.len() - 32 - 1);
            sealed.extend_from_slice(rubbish);
            let signature = a.secret.sign(b"a", b"b", &sealed);
            sealed.extend_from_slice(&signature);
            assert_eq!(b.open("b", "a", &sealed), Err(Refused::Form), "{rubbish:?}");
        }
    }
}
