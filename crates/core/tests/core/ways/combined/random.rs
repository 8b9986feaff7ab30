//! Many transactions of two processes over two shards, with random scheduling from a seed. All committed transactions
//! are replayed one after another, in the order of the decisions: every answer and the final content must be the
//! same. Members of one group have one decision; they commute, so both orders must give the same.

use std::collections::BTreeMap;

use super::rig::{COMBINING, COMBINING_FAR, Rig, Who, add, contains, count, get, incr, members, remove};
use claret_core::ways::combined::Stats;
use claret_core::{CallNo, Discipline, Event, Switches};
use claret_types::{Operation, Reply, State, Unique};

const KEYS: [&str; 4] = ["k1", "k2", "n3", "n4"];
const TRANSACTIONS: usize = 120;
const RUNNING: usize = 12;
const STEPS: usize = 1_000_000;

/// Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % bound
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    fn op(&mut self) -> (&'static str, Operation) {
        let key = KEYS[self.below(KEYS.len())];
        let element = ["x", "y", "z"][self.below(3)];
        let is_set = key.starts_with('k') != self.one_in(60);
        let op = match (is_set, self.below(8)) {
            (true, 0 | 1) => count(),
            (true, 2) => members(),
            (true, 3 | 4) => contains(element),
            (true, 5 | 6) => add(element),
            (true, _) => remove(element),
            (false, 0..4) => get(),
            (false, 4..7) => incr(self.below(5) as i64 - 2, false),
            (false, _) => incr(1, true),
        };
        (key, op)
    }
}

/// A transaction of the application's: what it will do, and what it heard in this attempt.
struct Client {
    tx: Who,
    script: Vec<(&'static str, Operation, bool)>,
    aborts: bool,
    at: usize,
    calls: Vec<CallNo>,
    replies: BTreeMap<CallNo, Reply>,
    heard: usize,
    committing: bool,
    done: bool,
}

impl Client {
    fn new(random: &mut Random, tx: Who) -> Self {
        let steps = 1 + random.below(4);
        let script = (0..steps)
            .map(|_| {
                let (key, op) = random.op();
                // What returns something may be buffered as well: it is answered with the commit.
                let executed = op.returns() && !random.one_in(8);
                (key, op, executed)
            })
            .collect();
        let aborts = random.one_in(15);
        Client {
            tx,
            script,
            aborts,
            at: 0,
            calls: Vec::new(),
            replies: BTreeMap::new(),
            heard: 0,
            committing: false,
            done: false,
        }
    }

    /// Whether it waits for an answer or for its end.
    fn waits(&self) -> bool {
        let answered =
            |(call, step): (&CallNo, &(&str, Operation, bool))| !step.2 || self.replies.contains_key(call);
        self.done || self.committing || !self.calls.iter().zip(&self.script).all(answered)
    }

    fn step(&mut self, rig: &mut Rig) {
        if self.at == self.script.len() {
            self.committing = true;
            return if self.aborts { rig.abort(self.tx) } else { rig.commit(self.tx) };
        }
        let (key, op, executed) = self.script[self.at].clone();
        self.at += 1;
        let no = match executed {
            true => rig.execute(self.tx, key, op),
            false => rig.buffer(self.tx, key, op),
        };
        self.calls.push(no);
    }

    fn listen(&mut self, rig: &mut Rig, random: &mut Random) {
        while let Some(event) = rig.events.get(&self.tx).and_then(|events| events.get(self.heard)).cloned() {
            self.heard += 1;
            match event {
                Event::Answer { no, reply } => {
                    self.replies.insert(no, reply);
                }
                Event::Committed { replies } => {
                    self.replies.extend(replies);
                    self.done = true;
                }
                Event::Aborted | Event::Failed { .. } | Event::Unknown => self.done = true,
                Event::Behind { .. } | Event::Seen { .. } => {}
                Event::Restart { .. } => {
                    (self.at, self.committing) = (0, false);
                    self.calls.clear();
                    self.replies.clear();
                    if random.one_in(20) {
                        rig.abort(self.tx);
                    } else {
                        rig.restart(self.tx);
                    }
                }
            }
        }
    }
}

struct Committed {
    decision: u64,
    client: usize,
}

struct Run {
    rig: Rig,
    clients: Vec<Client>,
    committed: Vec<Committed>,
}

fn run(seed: u64, switches: Switches) -> Run {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut rig = Rig::with(2, switches);
    let mut clients: Vec<Client> = Vec::new();
    let mut committed = Vec::new();
    let mut attempts = BTreeMap::new();
    for step in 0.. {
        let open: Vec<usize> = (0..clients.len()).filter(|at| !clients[*at].done).collect();
        assert!(step < STEPS, "seed {seed}: stuck");
        if open.is_empty() && clients.len() == TRANSACTIONS {
            break;
        }
        if open.len() < RUNNING && clients.len() < TRANSACTIONS && random.one_in(3) {
            let tx = rig.begin(random.below(2));
            clients.push(Client::new(&mut random, tx));
        }
        match random.below(10) {
            0..3 if !open.is_empty() => {
                let client = &mut clients[open[random.below(open.len())]];
                if !client.waits() {
                    client.step(&mut rig);
                }
            }
            3..6 => {
                rig.deliver_request((random.below(2), random.below(2)));
            }
            6..9 => {
                rig.deliver_response((random.below(2), random.below(2)));
            }
            _ => rig.tick(random.below(120) as u64),
        }
        for at in open {
            let client = &mut clients[at];
            client.listen(&mut rig, &mut random);
            if rig.committed(client.tx) {
                let decision = rig.decided[&attempts[&at]];
                committed.push(Committed { decision, client: at });
            } else if let Some(attempt) = rig.clients[client.tx.0].attempt(client.tx.1) {
                attempts.insert(at, attempt);
            }
        }
    }
    rig.pump();
    (0..10).for_each(|_| rig.advance(rig.limits.resend_us));
    Run { rig, clients, committed }
}

/// Does again, one after the other, what was committed.
fn replay(seed: u64, run: &Run, order: &[&Committed]) {
    let mut contents: BTreeMap<&str, Option<State>> = BTreeMap::new();
    for it in order {
        let client = &run.clients[it.client];
        for ((key, op, _), no) in client.script.iter().zip(&client.calls) {
            let state = contents.entry(key).or_default();
            let executed = op.execute(state.as_ref(), Unique(0)).expect("it committed");
            if op.returns() {
                let heard = &client.replies[no];
                assert_eq!(heard, &executed.reply, "seed {seed}: {:?} {op:?} on {key}", client.tx);
            }
            if let Some(effect) = executed.effect {
                effect.apply(state);
            }
        }
    }
    for key in KEYS {
        let held = run.rig.shards[super::rig::shard_of(key)].state(key.as_bytes());
        let replayed = contents.get(key).and_then(Option::as_ref);
        assert_eq!(held, replayed, "seed {seed}: content of {key}");
    }
}

/// What several runs came to.
#[derive(Debug, Default)]
struct Sum {
    committed: usize,
    shared: u64,
    stats: Stats,
}

fn check(seeds: std::ops::Range<u64>, switches: Switches) -> Sum {
    let mut sum = Sum::default();
    for seed in seeds {
        let run = run(seed, switches);
        run.rig.assert_quiet();
        let mut order: Vec<&Committed> = run.committed.iter().collect();
        order.sort_by_key(|it| (it.decision, it.client));
        replay(seed, &run, &order);
        order.sort_by_key(|it| (it.decision, std::cmp::Reverse(it.client)));
        replay(seed, &run, &order);
        sum.committed += run.committed.len();
        for client in &run.rig.clients {
            sum.shared += client.combined();
            let Stats { joined, parted, group_commits } = client.combining().unwrap_or_default();
            sum.stats.joined += joined;
            sum.stats.parted += parted;
            sum.stats.group_commits += group_commits;
        }
    }
    sum
}

fn assert_exercised(sum: Sum) {
    let Stats { joined, parted, group_commits } = sum.stats;
    assert!(sum.committed > 0 && sum.shared > 0 && joined > 0 && parted > 0 && group_commits > 0, "{sum:?}");
}

#[test]
fn whatever_the_schedule_a_sequential_replay_agrees() {
    assert_exercised(check(0..50, COMBINING));
}

#[test]
fn the_same_over_a_network_that_keeps_links_in_order() {
    assert_exercised(check(1000..1040, COMBINING_FAR));
}

#[test]
fn the_same_without_combining() {
    let sum = check(4000..4010, Switches::in_process(Discipline::AbstractPhased));
    assert!(sum.committed > 0);
    assert_eq!((sum.shared, sum.stats), (0, Stats::default()));
}
