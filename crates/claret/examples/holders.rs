//! Measures whether granting, checking and releasing grow with the number of holders of one record (P11).
//!
//! For 10 and for 10,000 transactions that hold the record in the same mode, it times, in turn: one more is granted
//! and released; one in a conflicting mode is checked, queued and taken back. Prints nanoseconds (medians of rounds)
//! and the ratios. Run it with `cargo run --release -p claret --example holders`.

use std::time::Instant;

use claret_core::message::{Call, Link, Request};
use claret_core::{
    AttemptId, Birth, CallNo, Discipline, Incarnation, Limits, Member, Sequence, SessionId, Shard, ShardId,
    Switches, Time, TxId,
};
use claret_types::{Bytes, Counter, CounterOp, Few, Operation, Set, SetOp};

const LINK: Link = Link { session: SessionId(1), connection: 0 };
const ROUNDS: usize = 61;
const REPEATS: u64 = 200;

struct Rig {
    shard: Shard,
    next: u64,
}

impl Rig {
    fn with_holders(holders: u64, op: &impl Fn(u64) -> Operation) -> Self {
        let switches = Switches::in_process(Discipline::AbstractPhased);
        let shard = Shard::new(ShardId(0), Incarnation(1), switches, Limits::default());
        let mut rig = Rig { shard, next: 1 };
        for _ in 0..holders {
            let number = rig.next;
            rig.execute(op(number));
        }
        rig
    }

    fn execute(&mut self, op: Operation) -> AttemptId {
        let tx = TxId { session: LINK.session, sequence: Sequence(self.next) };
        let attempt = AttemptId { tx, attempt: 1 };
        let birth = Birth { time: Time(self.next), tx };
        self.next += 1;
        let call = Call { no: CallNo(0), op, member: Member(0), reserve: None };
        let calls = [call].into_iter().collect();
        let key = Bytes::from("hot");
        self.shard.handle(
            Time(0),
            LINK,
            Request::Execute { attempt, birth, incarnation: None, key, calls, undone: Default::default() },
        );
        while self.shard.poll_output().is_some() {}
        attempt
    }

    fn abort(&mut self, attempt: AttemptId) {
        self.shard.handle(Time(0), LINK, Request::Abort { attempt, refused_by: None });
        while self.shard.poll_output().is_some() {}
    }

    /// Nanoseconds for one operation to be granted (or queued) and taken back.
    fn time(&mut self, op: &impl Fn(u64) -> Operation) -> f64 {
        let began = Instant::now();
        for _ in 0..REPEATS {
            let number = self.next;
            let attempt = self.execute(op(number));
            self.abort(attempt);
        }
        began.elapsed().as_nanos() as f64 / REPEATS as f64
    }
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn compare(name: &str, hold: impl Fn(u64) -> Operation, conflict: impl Fn(u64) -> Operation) {
    let mut rigs = [Rig::with_holders(10, &hold), Rig::with_holders(10_000, &hold)];
    let mut samples: [[Vec<f64>; 2]; 2] = Default::default();
    for _ in 0..ROUNDS {
        for (rig, samples) in rigs.iter_mut().zip(&mut samples) {
            samples[0].push(rig.time(&hold));
            samples[1].push(rig.time(&conflict));
        }
    }
    let [few, many] = samples.map(|of| of.map(median));
    for (what, few, many) in [("grant and release", few[0], many[0]), ("check and queue", few[1], many[1])] {
        println!("{name}, {what}: {few:.0} ns at 10 holders, {many:.0} ns at 10,000: {:.2}x", many / few);
    }
}

fn main() {
    let increment = |_| Operation::new::<Counter>(CounterOp::Add(1));
    compare("counter", increment, |_| Operation::new::<Counter>(CounterOp::Get));
    let member =
        |number: u64| Operation::new::<Set>(SetOp::Add(Few::from_elem(number.to_string().into(), 1)));
    compare("set", member, |_| Operation::new::<Set>(SetOp::Len));
}
