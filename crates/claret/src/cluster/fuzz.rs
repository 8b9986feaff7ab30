//! Random and damaged bytes for everything that reads the words of a server. Whatever comes out, it is an error or
//! something sound: no panic, no bound exceeded, the same however it was cut into pieces. The seeds are fixed.

use std::sync::Arc;
use std::task::Waker;

use claret_core::message::{Refusal, Response, Status};
use claret_core::{
    AttemptId, CallNo, Delivery, Incarnation, Limits, Sequence, SessionId, ShardId, Time, TxId, wire,
};
use claret_types::{Counter, CounterOp, OpError, Operation, Reply};

use super::bounds::ReplyLimits;
use super::desk::Desk;
use super::options::Address;
use super::resp::{Reader, Said, Unreadable};
use super::topology::Topology;
use crate::host::Mode;

/// Numbers that look random, and are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }

    fn one_of<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.roll(of.len())]
    }
}

const LIMITS: ReplyLimits = ReplyLimits {
    reply_bytes_max: 4_096,
    reply_elements_max: 256,
    reply_depth_max: 8,
    line_bytes_max: 512,
    login_bytes_max: 512,
    login_elements_max: 64,
    topology_bytes_max: 4_096,
    topology_elements_max: 256,
    topology_nodes_max: 16,
    pushes_max: 4,
};

/// What servers say.
fn samples() -> Vec<Vec<u8>> {
    let of = |text: &str| text.as_bytes().to_vec();
    vec![
        of("%2\r\n+server\r\n+redis\r\n+modules\r\n*1\r\n%1\r\n+name\r\n$6\r\nclaret\r\n"),
        of(
            "*2\r\n*3\r\n:0\r\n:8191\r\n*3\r\n$1\r\nh\r\n:7000\r\n$40\r\n0000000000000000000000000000000000000000\r\n*3\r\n:8192\r\n:16383\r\n*3\r\n$1\r\ni\r\n:7001\r\n$40\r\n0000000000000000000000000000000000000000\r\n",
        ),
        of(
            "*14\r\n+server\r\n+7.0\r\n+wire\r\n:3\r\n+shard\r\n:1\r\n+lease_us\r\n:10000000\r\n+a\r\n:1\r\n+b\r\n:2\r\n+c\r\n:3\r\n",
        ),
        of(">3\r\n$8\r\nsmessage\r\n$1\r\nc\r\n$2\r\nxy\r\n+OK\r\n-MOVED 5 h:1\r\n"),
        of(
            "~2\r\n#t\r\n,1.5\r\n(123456789012345678901234567890\r\n=7\r\ntxt:abc\r\n!5\r\nERR x\r\n_\r\n|1\r\n+k\r\n+v\r\n:7\r\n",
        ),
    ]
}

/// Bytes, cut out, doubled, overwritten and put together anew.
fn damaged(dice: &mut Dice, samples: &[Vec<u8>]) -> Vec<u8> {
    const SIGNS: &[u8] = b"*$+-:_#,(%~>|=!;.\r\n0123456789?Hx";
    let mut bytes = dice.one_of(samples).clone();
    for _ in 0..1 + dice.roll(6) {
        let at = dice.roll(bytes.len().max(1));
        match dice.roll(6) {
            0 if at < bytes.len() => bytes[at] = dice.roll(256) as u8,
            1 if at < bytes.len() => bytes[at] = *dice.one_of(SIGNS),
            2 => bytes.truncate(at),
            3 => {
                let other = dice.one_of(samples).clone();
                bytes.splice(at.min(bytes.len()).., other);
            }
            4 => bytes.insert(at.min(bytes.len()), *dice.one_of(SIGNS)),
            _ => {
                let piece = bytes[at.min(bytes.len())..].to_vec();
                (0..dice.roll(8)).for_each(|_| bytes.extend_from_slice(&piece[..piece.len().min(300)]));
            }
        }
    }
    bytes
}

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

fn text_of(said: &Said<'_>) -> String {
    match said {
        // A map has its pairs in any order.
        Said::Reply(value) => match value.reply() {
            Ok(Reply::Array(items)) => format!("array of {}", items.len()),
            other => format!("{other:?}"),
        },
        Said::Push(values) => format!("push of {}", values.len()),
    }
}

#[test]
fn damaged_replies_are_read_the_same_however_they_are_cut() {
    let (samples, mut dice) = (samples(), Dice(0x5eed_0001));
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

#[test]
fn random_bytes_are_read_without_harm() {
    let mut dice = Dice(0x5eed_0002);
    for _ in 0..60_000 {
        let bytes: Vec<u8> = (0..dice.roll(64)).map(|_| dice.roll(256) as u8).collect();
        read(&bytes, 1 + dice.roll(9));
    }
}

#[test]
fn damaged_replies_to_cluster_slots_are_sound_topologies_or_none() {
    let (samples, mut dice) = (samples(), Dice(0x5eed_0003));
    let asked = Address { host: "h".into(), port: 1 };
    let mut taken = 0;
    for _ in 0..60_000 {
        let bytes = damaged(&mut dice, &samples[1..2]);
        let Ok(Some((Said::Reply(value), _))) = Reader::new(LIMITS.of_topology()).next(&bytes) else {
            continue;
        };
        let Ok(reply) = value.reply() else { continue };
        let Ok(topology) = Topology::parse(&reply, &asked, &LIMITS) else { continue };
        taken += 1;
        let mut desk = desk(Mode::BoostPhase);
        desk.adopt(Time(1), &topology);
        let covered: usize = topology.ranges.iter().map(|it| usize::from(it.last - it.first) + 1).sum();
        let missing: usize = topology.missing().iter().map(|it| usize::from(it.1 - it.0) + 1).sum();
        assert_eq!(covered + missing, 16_384);
    }
    assert!(taken > 1_000, "{taken}");
}

fn desk(mode: Mode) -> Desk {
    let mut desk = Desk::new(SessionId(7), mode.switches(Delivery::Network), Limits::default());
    let node = |port| Address { host: "h".into(), port };
    desk.adopt(Time(0), &Topology::alone(node(1)));
    desk.bind(Time(0), 1, &node(1), ShardId(0), Incarnation(5));
    desk.bind(Time(0), 2, &node(2), ShardId(1), Incarnation(5));
    desk
}

/// A response of any kind, mostly about an attempt that there is.
fn response(dice: &mut Dice) -> Response {
    let small = |dice: &mut Dice| *dice.one_of(&[0_u32, 1, 2, 3, 7, u32::MAX]);
    let tx = TxId { session: SessionId(7), sequence: Sequence(dice.roll(4) as u64) };
    let attempt = AttemptId { tx, attempt: 1 + dice.roll(2) as u32 };
    let shard = ShardId(dice.roll(3) as u32);
    let since = Incarnation(*dice.one_of(&[0, 4, 5, 6, u64::MAX]));
    let reply = dice.one_of(&[Reply::Nil, Reply::Ok, Reply::Int(i64::MIN), Reply::Bytes("x".into())]).clone();
    let replies = (0..dice.roll(4)).map(|_| (CallNo(small(dice)), reply.clone())).collect();
    let key = || "k".into();
    let refusals = [
        Refusal::Operation { key: key(), error: OpError::Told("no".into()) },
        Refusal::Withdrawn,
        Refusal::Recovered,
        Refusal::LostLocks,
        Refusal::Unknown,
        Refusal::Stale,
        Refusal::Crowded(key()),
        Refusal::Elsewhere { key: key() },
        Refusal::ReadOnly,
    ];
    let statuses = [Status::Prepared, Status::Applied, Status::Refused, Status::Forgotten, Status::Lost];
    match dice.roll(10) {
        0 | 1 => {
            let (no, granted) = (CallNo(small(dice)), small(dice));
            Response::Granted { attempt, no, reply, granted, incarnation: since }
        }
        2 => Response::Queued { attempt },
        3 => Response::Busy { attempt },
        4 => Response::Voted { attempt, shard, replies },
        5 => Response::Committed { attempt, replies },
        6 => Response::Refused { attempt, shard, refusal: dice.one_of(&refusals).clone(), since },
        7 => Response::Applied { attempt, shard },
        8 => {
            let birth = Time(*dice.one_of(&[0, 1, u64::MAX]));
            Response::Elder { attempt, shard, birth }
        }
        _ if dice.roll(2) == 0 => Response::Aborted { attempt, shard },
        _ => Response::Asked { attempt, status: dice.one_of(&statuses).clone(), since },
    }
}

/// One node answers what it likes, to transactions of its own and to those that it was not asked for.
#[test]
fn whatever_a_shard_answers_the_desk_goes_on() {
    for mode in [Mode::BoostPhase, Mode::Boost, Mode::BoostPhaseCombine] {
        for seed in 0..4_000 {
            let mut dice = Dice(0x5eed_1000 + seed);
            let mut desk = desk(mode);
            let mut now = Time(1);
            let mut open = Vec::new();
            for _ in 0..1 + dice.roll(3) {
                let (mailbox, op) = (Arc::default(), Operation::new::<Counter>(CounterOp::AddReturning(1)));
                let tx = desk.begin(now, &mailbox);
                if dice.roll(2) == 0 {
                    desk.book
                        .buffer(now, (tx, 1), std::iter::once((ShardId(0), "k".into(), op)))
                        .expect("it runs");
                    desk.book.commit(now, (tx, 1)).expect("it runs");
                } else {
                    desk.book.execute(now, (tx, 1), (ShardId(0), "k".into()), op, None).expect("it runs");
                }
                open.push((tx, mailbox));
            }
            desk.settle(now);
            for _ in 0..dice.roll(40) {
                now = Time(now.0 + dice.roll(20_000) as u64);
                let (tx, _) = open[dice.roll(open.len())];
                let is_known = desk.book.live().iter().any(|attempt| attempt.tx.sequence.0 == tx.0);
                match dice.roll(8) {
                    0 if is_known && mode != Mode::BoostPhaseCombine => desk.leave(now, tx),
                    1 => desk.handle_timeout(now),
                    2 => {
                        desk.take(ShardId(0), 1, Waker::noop(), &mut Vec::new());
                    }
                    _ => {
                        let responses = vec![response(&mut dice)];
                        let frame = wire::encode_responses(&responses);
                        let said = wire::decode_responses(&frame).expect("a frame").into_iter();
                        let shard = dice.roll(2) as u32;
                        desk.deliver(now, ShardId(shard), shard + 1, dice.roll(3), said);
                    }
                }
                desk.settle(now);
            }
            desk.book.check_invariants();
        }
    }
}
