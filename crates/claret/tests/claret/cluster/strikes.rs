//! Random transactions whose closures pause between their calls, while the records they hold expire and are flushed,
//! rights change, and connections break. Each happens as a whole or not at all, whatever its closure does with the
//! errors.
//!
//! `CLARET_SEED` says which programs (default 1). A failure prints the seed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use claret::{
    Abort, Bytes, Error, Records, Store, Tx, TxOptions,
    lab::{Mode, StoreLab},
};
use claret_rig::Cluster;

use super::conformance::{Random, number};
use super::rig::{change_rights, fresh, prefix};

const USERS: usize = 4;
/// Of each user.
const PROGRAMS: usize = 40;
/// Its records may vanish all at once, so it keeps no marks.
const FLUSHED: usize = 0;
/// Lists of marks, in turn on the other two shards.
const LISTS: usize = 4;

/// What ends an attempt that has not voted, or does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strike {
    /// Of a record that is held: set before it is.
    Expiry(u64),
    Flush,
    Rights,
    Connections,
}

impl Strike {
    fn pull(self, cluster: &Cluster, shard: usize) {
        let words: &[&str] = match self {
            Strike::Expiry(_) => return,
            Strike::Flush => &["FLUSHALL"],
            Strike::Rights => return change_rights(cluster, shard),
            Strike::Connections => &["CLIENT", "KILL", "TYPE", "pubsub"],
        };
        cluster.query::<()>(shard, words).expect("done");
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Writes to the counter of a shard, and reads it: it is held from then on.
    Hold(usize),
    /// Puts this attempt's mark into a list, at the commit or before the next reading.
    Mark(usize),
    Read(usize),
}

/// What a closure does.
#[derive(Debug)]
struct Program {
    name: String,
    /// First it holds a record.
    steps: Vec<(Step, Duration)>,
    /// In its first attempt alone, after that step: so all strikes come to an end, and nobody starves.
    strike: Option<(usize, Strike)>,
    /// How long it pauses then.
    until_word: Duration,
    /// It looks at no answer, and goes on.
    is_careless: bool,
    /// In the end it does not want to commit.
    is_abandoned: bool,
}

impl Program {
    fn draw(random: &mut Random, name: String) -> Self {
        let strike = match random.below(6) {
            0 => Some(Strike::Expiry(1 + random.below(20) as u64)),
            1 => Some(Strike::Flush),
            2 => Some(Strike::Rights),
            3 => Some(Strike::Connections),
            _ => None,
        };
        let held = if strike == Some(Strike::Flush) { FLUSHED } else { random.below(3) };
        // A mark on each of two shards at least.
        let mut steps = vec![Step::Mark(random.below(2) * 2), Step::Mark(random.below(2) * 2 + 1)];
        for _ in 0..random.below(4) {
            let step = match random.below(4) {
                0 => Step::Hold(random.below(3)),
                1 => Step::Mark(random.below(LISTS)),
                _ => Step::Read(random.below(LISTS)),
            };
            steps.insert(random.below(steps.len() + 1), step);
        }
        steps.insert(0, Step::Hold(held));
        let after = random.below(steps.len());
        Program {
            name,
            steps: steps.into_iter().map(|step| (step, random.pause())).collect(),
            strike: strike.map(|strike| (after, strike)),
            until_word: Duration::from_millis(random.below(20) as u64),
            is_careless: random.below(2) == 0,
            is_abandoned: random.below(8) == 0,
        }
    }

    fn held_first(&self) -> usize {
        match self.steps[0].0 {
            Step::Hold(shard) => shard,
            Step::Mark(_) | Step::Read(_) => unreachable!("first it holds a record"),
        }
    }
}

/// Where the programs run.
struct World {
    cluster: Cluster,
    counters: Vec<String>,
    lists: Vec<String>,
}

impl World {
    fn new(cluster: Cluster) -> Self {
        let prefix = prefix();
        let counters = (0..3).map(|shard| cluster.key_at(shard, &format!("{prefix}counter"))).collect();
        let list = |number: usize| cluster.key_at(1 + number % 2, &format!("{prefix}list{number}:"));
        World { counters, lists: (0..LISTS).map(list).collect(), cluster }
    }

    /// While it waits, others go on: it may be for them that it waits.
    async fn apart(self: &Arc<Self>, work: impl FnOnce(&World) + Send + 'static) {
        let world = Arc::clone(self);
        tokio::task::spawn_blocking(move || work(&world)).await.expect("done");
    }

    async fn step(&self, tx: &Tx, step: Step, mark: &str) -> Result<(), Error> {
        match step {
            Step::Hold(shard) => tx.counter(&self.counters[shard]).add_returning(1).await.map(drop),
            Step::Mark(list) => tx.list(&self.lists[list]).push_back(mark),
            Step::Read(list) => tx.list(&self.lists[list]).len().await.map(drop),
        }
    }

    /// Which attempt committed, if it was to.
    async fn run(self: &Arc<Self>, store: &Store, program: &Program) -> Option<u32> {
        let shard = program.held_first();
        if let Some((_, Strike::Expiry(time))) = program.strike {
            let set = move |world: &World| {
                let words = ["SET", &world.counters[shard], "0", "PX", &time.to_string()];
                world.cluster.query::<()>(shard, &words).expect("set");
            };
            self.apart(set).await;
        }
        let made = AtomicU32::new(0);
        let ended = store.transaction(|tx| {
            let attempt = made.fetch_add(1, Ordering::SeqCst) + 1;
            async move {
                let mark = format!("{}.{attempt}", program.name);
                for (at, (step, pause)) in program.steps.iter().enumerate() {
                    let done = self.step(&tx, *step, &mark).await;
                    if !program.is_careless {
                        done?;
                    }
                    match program.strike {
                        Some((after, strike)) if after == at && attempt == 1 => {
                            self.apart(move |world| strike.pull(&world.cluster, shard)).await;
                            // Word of it comes meanwhile, or not.
                            tokio::time::sleep(program.until_word).await;
                        }
                        _ if pause.is_zero() => {}
                        _ => tokio::time::sleep(*pause).await,
                    }
                }
                if program.is_abandoned { Err(Abort::because("abandoned")) } else { Ok(attempt) }
            }
        });
        match ended.await {
            Ok(attempt) => {
                let is_certain = matches!(program.strike, Some((_, Strike::Flush | Strike::Rights)));
                assert!(attempt > 1 || !is_certain, "it ended nothing: {program:?}");
                Some(attempt)
            }
            Err(Error::Aborted(_)) if program.is_abandoned => None,
            Err(error) => panic!("{error}: {program:?}"),
        }
    }
}

/// How often a list has a mark.
type Marks = BTreeMap<(Bytes, usize), usize>;

/// What one user's transactions committed, and how many attempts were in vain.
async fn use_store(world: Arc<World>, store: Store, seed: u64, user: usize) -> (Marks, u32) {
    let mut random = Random(seed * 1_000 + user as u64);
    let (mut marks, mut in_vain) = (Marks::new(), 0);
    for number in 0..PROGRAMS {
        let program = Program::draw(&mut random, format!("{user}.{number}"));
        let Some(attempt) = world.run(&store, &program).await else { continue };
        in_vain += attempt - 1;
        for (step, _) in &program.steps {
            if let Step::Mark(list) = step {
                *marks.entry((format!("{}.{attempt}", program.name).into(), *list)).or_default() += 1;
            }
        }
    }
    (marks, in_vain)
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_are_whole_or_not_at_all_whatever_strikes_while_their_closures_pause() {
    let _limit = super::limit::of_test();
    let seed = number("CLARET_SEED", 1);
    for mode in [Mode::CommutingPhased].into_iter().chain(Mode::ways()) {
        let world = Arc::new(World::new(fresh(3)));
        // A transaction that stalls ends by it, and is no success.
        let options = TxOptions::new().deadline(Duration::from_secs(120)).attempts(1_000_000);
        let store = Store::cluster(world.cluster.url()).mode(mode).transactions(options);
        let store = store.connect().await.expect("a store");
        let user = |user| tokio::spawn(use_store(Arc::clone(&world), store.clone(), seed, user));
        let users: Vec<_> = (0..USERS).map(user).collect();
        let (mut expected, mut in_vain) = (Marks::new(), 0);
        for user in users {
            let (marks, attempts) = user.await.expect("no transaction fails");
            expected.extend(marks);
            in_vain += attempts;
        }
        let mut found = Marks::new();
        for (number, list) in world.lists.iter().enumerate() {
            for mark in store.list(list).all().await.expect("read") {
                *found.entry((mark, number)).or_default() += 1;
            }
        }
        let differs =
            |(mark, times): &(&(Bytes, usize), &usize), other: &Marks| other.get(*mark) != Some(*times);
        let lost: Vec<_> = expected.iter().filter(|it| differs(it, &found)).collect();
        let stray: Vec<_> = found.iter().filter(|it| differs(it, &expected)).collect();
        assert!(lost.is_empty() && stray.is_empty(), "seed {seed}, {mode:?}: lost {lost:?}, stray {stray:?}");
        println!("{mode:?}: {} marks, {in_vain} attempts in vain", expected.len());
        store.close().await.expect("it closes");
    }
}
