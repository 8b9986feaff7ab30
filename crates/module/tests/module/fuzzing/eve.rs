//! A user with few rights: a session of its own, and frames that are right, nearly right and wrong.

use claret_core::message::{Asks, Call, KeyedCall, Listed, Members, Request};
use claret_core::{
    AttemptId, Birth, CallNo, Incarnation, Member, Sequence, SessionId, ShardId, Time, Timestamp, TxId, wire,
};
use claret_types::{BUILTIN, Bytes, Claims, Draw, Mode, Operation, Scope};

use super::dice::Dice;
use super::keys::Keys;
use super::link::Link;
use crate::common::{birth, example, identity, shard, statement, told};
use redis::Value;

/// So many of its attempts are spoken of again.
const ATTEMPTS_MAX: usize = 6;

/// Words that operations are tried with.
const WORDS: [&str; 18] = [
    "1",
    "0",
    "-1",
    "2",
    "m",
    "n",
    "f",
    "9223372036854775807",
    "-9223372036854775808",
    "1.5",
    "-0.0",
    "inf",
    "(1",
    "REV",
    "WITHSCORES",
    "1e308",
    "65535",
    "a longer value that no listpack keeps in one of its smallest forms, for it is too long by far",
];

/// Operations of every type, with arguments that they take.
pub(crate) fn operations(dice: &mut Dice) -> Vec<Operation> {
    let mut all = Vec::new();
    for kind in BUILTIN {
        for method in kind.methods {
            let words = example(kind, method);
            let words = words.split(' ').skip(1).map(Bytes::from).collect::<Vec<_>>();
            all.extend((kind.parse)(method.name, &words));
            for _ in 0..24 {
                let words: Vec<Bytes> = (0..dice.roll(5)).map(|_| Bytes::from(*dice.pick(&WORDS))).collect();
                all.extend((kind.parse)(method.name, &words));
            }
        }
    }
    all
}

/// See the module's text.
pub(crate) struct Eve {
    pub(crate) session: SessionId,
    person: u64,
    shard: ShardId,
    /// Another shard that there is, or none.
    other: ShardId,
    incarnation: Incarnation,
    next: u64,
    attempts: Vec<(AttemptId, u32)>,
    operations: Vec<Operation>,
}

impl Eve {
    /// Says hello.
    pub(crate) fn hello(
        link: &mut Link,
        person: u64,
        other: ShardId,
        way: &[&str],
        dice: &mut Dice,
    ) -> Result<Eve, String> {
        let identity = identity(person);
        let (version, key) = (wire::VERSION.to_string(), identity.public().to_string());
        let mut words = vec!["CLARET.HELLO", &version, &key, "1"];
        words.extend(way);
        let asked = link.ask(&words)?;
        let Value::Array(_) = asked else { return Err(format!("a hello is answered with {asked:?}")) };
        let proof = identity.sign(&statement(&identity, &asked, 1, way).as_statement()).to_string();
        words.extend(["PROOF", &proof]);
        let welcome = link.ask(&words)?;
        let Value::Array(_) = welcome else { return Err(format!("a proof is answered with {welcome:?}")) };
        let Value::Int(incarnation) = told(&welcome, "incarnation") else {
            return Err("no incarnation".to_owned());
        };
        Ok(Eve {
            session: identity.session(),
            person,
            shard: shard(&asked),
            other,
            incarnation: Incarnation(*incarnation as u64),
            next: 1,
            attempts: Vec::new(),
            operations: operations(dice),
        })
    }

    pub(crate) fn person(&self) -> u64 {
        self.person
    }

    /// An attempt of its own, mostly: a new one, or one that it spoke of before.
    pub(crate) fn attempt(&mut self, dice: &mut Dice) -> (AttemptId, u32) {
        if dice.once_in(30) {
            let session = *dice.pick(&[self.session, SessionId(0), SessionId(dice.clone().next())]);
            let tx = TxId { session, sequence: Sequence(dice.number()) };
            return (AttemptId { tx, attempt: dice.number() as u32 }, 0);
        }
        if !self.attempts.is_empty() && !dice.once_in(3) {
            let at = dice.roll(self.attempts.len());
            let (mut attempt, calls) = self.attempts[at];
            if dice.once_in(12) {
                attempt.attempt += 1;
                self.attempts[at] = (attempt, 0);
            }
            return (attempt, calls);
        }
        let tx = TxId { session: self.session, sequence: Sequence(self.next) };
        self.next += 1;
        if self.attempts.len() == ATTEMPTS_MAX {
            self.attempts.remove(0);
        }
        self.attempts.push((AttemptId { tx, attempt: 1 }, 0));
        (AttemptId { tx, attempt: 1 }, 0)
    }

    fn call(&self, no: u32, dice: &mut Dice) -> Call {
        let op = dice.pick(&self.operations).clone();
        let no = CallNo(if dice.once_in(40) { dice.number() as u32 } else { no });
        let member = Member(if dice.once_in(20) { dice.number() as u16 } else { 0 });
        let reserve = dice.once_in(8).then(|| Box::new(claims(dice)));
        Call { no, op, member, reserve }
    }

    fn called(&mut self, attempt: AttemptId, count: u32) {
        if let Some((_, calls)) = self.attempts.iter_mut().find(|(known, _)| *known == attempt) {
            *calls += count;
        }
    }

    /// What a client process may say.
    pub(crate) fn request(&mut self, keys: &Keys, dice: &mut Dice) -> Request {
        let (attempt, calls) = self.attempt(dice);
        let mut birth = birth(attempt);
        if dice.once_in(10) {
            birth = Birth { time: Time(dice.number()), tx: attempt.tx };
        }
        let incarnation = match dice.roll(12) {
            0 => None,
            1 => Some(Incarnation(dice.number())),
            _ => Some(self.incarnation),
        };
        match dice.roll(14) {
            0..=4 => {
                let count = 1 + dice.roll(2) as u32;
                let key = keys.one(dice);
                self.called(attempt, count);
                let calls = (1..=count).map(|no| self.call(calls + no, dice)).collect();
                Request::Execute {
                    attempt,
                    birth,
                    incarnation,
                    key: key.as_slice().into(),
                    calls,
                    undone: Default::default(),
                }
            }
            5..=8 => {
                let relies_on = if dice.once_in(20) { dice.number() as u32 } else { calls };
                let calls = (1..=dice.roll(4) as u32)
                    .map(|no| KeyedCall {
                        key: keys.one(dice).as_slice().into(),
                        call: self.call(calls + no, dice),
                    })
                    .collect();
                let participants = self.participants(incarnation, dice);
                let members = match dice.roll(10) {
                    0 => Members::Only((0..dice.roll(3)).map(|it| Member(it as u16)).collect()),
                    _ => Members::All,
                };
                let place = Asks::Place(Timestamp(dice.number()));
                let (number, body) = (dice.roll(4) as u8, Vec::new().into());
                let way = Asks::Way { decides: dice.once_in(2), number, body };
                let asks = [Asks::Decision, Asks::Decision, Asks::Vote, Asks::Vote, way, place];
                let asks = dice.pick(&asks).clone();
                Request::Prepare {
                    attempt,
                    birth,
                    participants,
                    relies_on,
                    calls,
                    members,
                    asks,
                    undone: Default::default(),
                }
            }
            _ => self.other_request(attempt, dice),
        }
    }

    fn participants(
        &self,
        incarnation: Option<Incarnation>,
        dice: &mut Dice,
    ) -> claret_core::message::Participants {
        let own = Listed { shard: self.shard, incarnation };
        let other =
            Listed { shard: self.other, incarnation: *dice.pick(&[None, Some(Incarnation(1 << 50))]) };
        let nobody = Listed { shard: ShardId(dice.number() as u32), incarnation: None };
        let lists: [&[Listed]; 6] = [&[own], &[own], &[own], &[own, other], &[other, own], &[own, nobody]];
        lists[dice.roll(lists.len())].into()
    }

    /// What needs no call.
    fn other_request(&self, attempt: AttemptId, dice: &mut Dice) -> Request {
        match dice.roll(9) {
            0 | 1 => Request::Apply { attempt },
            2 | 3 => Request::Withdraw { attempt },
            4 => Request::Abort {
                attempt,
                refused_by: *dice.pick(&[None, Some(self.shard), Some(ShardId(9))]),
            },
            5 => {
                let live = self.attempts.iter().map(|(attempt, _)| *attempt).take(dice.roll(9)).collect();
                let eldest = self.attempts.first().map_or(0, |(attempt, _)| attempt.tx.sequence.0);
                // One that is too high ends all that the session could still do.
                let low_water = if dice.once_in(3_000) { dice.number() } else { eldest };
                Request::Heartbeat { live, low_water: Sequence(low_water) }
            }
            6 => Request::Ask { attempt },
            7 => Request::AskBehind { attempt },
            _ if dice.once_in(2) => Request::ApplyAt { attempt, at: Timestamp(dice.number()) },
            _ => Request::Tick { want: Timestamp(dice.number()) },
        }
    }

    /// A frame of a transaction on one record: it commits, or reads and lets go.
    pub(crate) fn frame_on(&mut self, key: &[u8], dice: &mut Dice) -> Vec<u8> {
        let tx = TxId { session: self.session, sequence: Sequence(self.next) };
        self.next += 1;
        let attempt = AttemptId { tx, attempt: 1 };
        let (birth, incarnation) = (birth(attempt), Some(self.incarnation));
        let executes = dice.roll(3) as u32;
        let call = |no, dice: &mut Dice| {
            let op = dice.pick(&self.operations).clone();
            Call { no: CallNo(no), op, member: Member(0), reserve: None }
        };
        let mut requests: Vec<Request> = (1..=executes)
            .map(|no| {
                let calls = [call(no, dice)].into_iter().collect();
                Request::Execute {
                    attempt,
                    birth,
                    incarnation,
                    key: key.into(),
                    calls,
                    undone: Default::default(),
                }
            })
            .collect();
        let calls = (1..=dice.roll(3) as u32)
            .map(|no| KeyedCall { key: key.into(), call: call(executes + no, dice) });
        let calls: Vec<KeyedCall> = calls.collect();
        requests.push(Request::Prepare {
            attempt,
            birth,
            participants: [Listed { shard: self.shard, incarnation }].into_iter().collect(),
            relies_on: executes,
            calls,
            members: Members::All,
            asks: Asks::Decision,
            undone: Default::default(),
        });
        // Whoever could not commit lets go; and what is over need not be remembered.
        requests.push(Request::Withdraw { attempt });
        requests.push(Request::Heartbeat { live: Vec::new(), low_water: Sequence(self.next) });
        wire::encode_requests(&requests)
    }

    /// A frame, as bytes: right, damaged, or noise.
    pub(crate) fn frame(&mut self, keys: &Keys, dice: &mut Dice) -> Vec<u8> {
        if dice.once_in(25) {
            let length = dice.roll(200);
            return dice.bytes(length);
        }
        let requests: Vec<Request> = (0..=dice.roll(3)).map(|_| self.request(keys, dice)).collect();
        let mut bytes = wire::encode_requests(&requests);
        if dice.once_in(2) {
            dice.mutate(&mut bytes);
        }
        bytes
    }
}

/// What a call may want to hold beside what it needs.
fn claims(dice: &mut Dice) -> Claims {
    let mode = |dice: &mut Dice| match dice.roll(6) {
        0 => Mode::EXCLUSIVE,
        1 => Mode::SHARED,
        2 => Mode(dice.number() as u8),
        _ => Mode(dice.roll(5) as u8),
    };
    let first = mode(dice);
    let claims = Claims::record(first).and(Scope::Element(dice.number()), mode(dice));
    match dice.roll(3) {
        0 => claims.drawing(Draw { down: dice.number(), up: dice.number() }),
        _ => claims,
    }
}
