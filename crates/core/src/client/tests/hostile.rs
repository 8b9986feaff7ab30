//! A hostile node answers anything, to its own transactions and to those that it was not asked about. The seeds are
//! fixed.

use claret_types::OpError;

use super::*;
use crate::message::Status;
use crate::wire;

/// Numbers that look random, and are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }

    fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.roll(all.len())]
    }
}

/// A response of any kind, mostly about an attempt that there is.
fn response(dice: &mut Dice) -> Response {
    let small = |dice: &mut Dice| *dice.one_of(&[0_u32, 1, 2, 3, 7, u32::MAX]);
    let tx = TxId { session: SESSION, sequence: Sequence(dice.roll(4) as u64) };
    let attempt = AttemptId { tx, attempt: 1 + dice.roll(2) as u32 };
    let shard = ShardId(dice.roll(3) as u32);
    let since = Incarnation(*dice.one_of(&[0, 4, 5, 6, u64::MAX]));
    let reply = dice.one_of(&[Reply::Nil, Reply::Ok, Reply::Int(i64::MIN), Reply::Bytes("x".into())]).clone();
    let replies = (0..dice.roll(4)).map(|_| (CallNo(small(dice)), reply.clone())).collect();
    let key = || "k".into();
    let refusals = [
        Refusal::Operation { key: key(), error: OpError::Told("no".into()).into() },
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
    match dice.roll(11) {
        0 | 1 => {
            let (no, granted) = (CallNo(small(dice)), small(dice));
            Response::Granted { attempt, no, reply, granted, incarnation: since }
        }
        2 => Response::Queued { attempt, no: None },
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
        9 => Response::Behind {
            attempt,
            records: (0..dice.roll(12)).map(|_| (key(), Some(attempt))).collect(),
        },
        _ => Response::Asked { attempt, status: dice.one_of(&statuses).clone(), since },
    }
}

#[test]
fn whatever_a_shard_answers_the_client_goes_on() {
    let unphased = Switches::over_network(Discipline::Abstract);
    for switches in all_switches().chain([unphased]) {
        for seed in 0..4_000 {
            let mut dice = Dice(0x5eed_1000 + seed);
            let mut client = Client::new(SESSION, switches, Limits::default(), 2, Pacing::default());
            client.adopt(Time(0), vec![range(SLOT, "a"), range(OTHER_SLOT, "b")]);
            client.connected(Time(0), 1, &node("a"), (SHARD, INCARNATION), 1_000_000);
            client.connected(Time(0), 2, &node("b"), (OTHER, INCARNATION), 1_000_000);
            let mut now = Time(1);
            let mut open = Vec::new();
            for _ in 0..1 + dice.roll(3) {
                let tx = client.begin(now, 1);
                let (name, place) = ((tx, 1), (SLOT, "k".into()));
                if dice.roll(2) == 0 {
                    client.buffer(now, name, place, add_returning()).expect("it runs");
                    client.commit(now, name).expect("it runs");
                } else {
                    client.execute(now, name, place, add_returning(), None).expect("it runs");
                }
                open.push(tx);
            }
            client.settle(now);
            for _ in 0..dice.roll(40) {
                now = Time(now.0 + dice.roll(20_000) as u64);
                let tx = *dice.one_of(&open);
                match dice.roll(8) {
                    0 => client.abandon(now, tx),
                    1 => client.handle_timeout(now),
                    2 => {
                        client.take(SHARD, 1, &mut Vec::new());
                    }
                    _ => {
                        let responses = vec![response(&mut dice)];
                        let frame = wire::encode_responses(&responses);
                        let said = wire::decode_responses(&frame).expect("a frame").into_iter();
                        let shard = dice.roll(2) as u32;
                        client.deliver(now, (ShardId(shard), shard + 1), dice.roll(3), said);
                    }
                }
                client.settle(now);
                client.check_invariants();
            }
        }
    }
}
