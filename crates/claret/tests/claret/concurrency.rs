//! Many transactions at once on threads, checked from their results alone. Bounded by counts, not by the clock.

mod history;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use claret::{
    Abort, Bytes, Records, Store, Tx, TxOptions,
    lab::{Limits, Mode, StoreLab},
};
use history::Done;
use tokio::task::yield_now;

const TRANSACTIONAL: [Mode; 4] =
    [Mode::CommutingPhased, Mode::Commuting, Mode::ReaderWriterPhased, Mode::ReaderWriter];

fn store(mode: Mode) -> Store {
    // Without phases nothing but luck ends a fight for a lock: many attempts, and time for them.
    let options = TxOptions::new().attempts(100_000).deadline(Duration::from_secs(30));
    let limits = Limits { backoff_us_max: 1_000, ..Limits::default() };
    Store::builder().mode(mode).shards(4).protocol_limits(limits).transactions(options).build()
}

/// Runs `tasks` tasks to their ends and gathers what they return.
async fn together<T, F>(tasks: u64, task: impl Fn(u64) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let running: Vec<_> = (0..tasks).map(|number| tokio::spawn(task(number))).collect();
    let mut results = Vec::new();
    for task in running {
        results.push(task.await.expect("no task panics"));
    }
    results
}

fn assert_idle(store: &Store) {
    let stats = store.stats();
    assert_eq!((stats.locked_records, stats.open_attempts), (0, 0), "{stats:?}");
    store.check_invariants();
}

/// Numbers that look random, the same in every run (xorshift).
struct Numbers(u64);

impl Numbers {
    fn new(seed: u64) -> Self {
        Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Adds `bit` to both counters; every third sees the sum, every fifth then thinks better of it. What it saw
/// committed, the bit among it.
async fn add_bit(store: Store, number: u64) -> Option<i64> {
    let bit = 1_i64 << number;
    let outcome = store
        .transaction(|tx| async move {
            tx.counter("a").add(bit)?;
            yield_now().await;
            let seen = if number.is_multiple_of(3) {
                tx.counter("b").add_returning(bit).await?
            } else {
                tx.counter("b").add(bit)?;
                0
            };
            yield_now().await;
            if number.is_multiple_of(5) { Err(Abort::because("thought better of it")) } else { Ok(seen) }
        })
        .await;
    assert_eq!(outcome.is_ok(), !number.is_multiple_of(5), "{store:?}: {outcome:?}");
    outcome.ok()
}

/// Sums of distinct powers of two say exactly which adds they hold.
async fn powers_of_two(mode: Mode, bits: u64) {
    let store = store(mode);
    let results = together(2 * bits, |number| {
        let store = store.clone();
        async move {
            if number % 2 == 0 {
                return add_bit(store, number / 2).await.filter(|sum| *sum != 0);
            }
            let both = store
                .transaction(|tx| async move {
                    let a = tx.counter("a").get().await?;
                    yield_now().await;
                    Ok((a, tx.counter("b").get().await?))
                })
                .await
                .unwrap_or_else(|error| panic!("{mode:?}: {error}"));
            assert_eq!(both.0, both.1, "half a transaction was seen");
            Some(both.0)
        }
    })
    .await;
    let all: i64 = (0..bits).filter(|bit| bit % 5 != 0).map(|bit| 1 << bit).sum();
    assert_eq!(store.counter("a").get().await.unwrap(), all);
    assert_eq!(store.counter("b").get().await.unwrap(), all);
    let mut sums: Vec<i64> = results.into_iter().flatten().collect();
    sums.sort_by_key(|sum| sum.count_ones());
    for pair in sums.windows(2) {
        assert_eq!(pair[0] & !pair[1], 0, "{:b} and {:b}: neither came first", pair[0], pair[1]);
    }
    assert_eq!(sums.last().copied().unwrap_or(0) & !all, 0, "an aborted add was seen");
    assert_idle(&store);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_of_powers_of_two_form_a_chain() {
    for mode in [Mode::CommutingPhased, Mode::ReaderWriterPhased].into_iter().chain(Mode::ways()) {
        for _ in 0..3 {
            powers_of_two(mode, 62).await;
        }
    }
    // Without phases a crowd of readers can keep writers out for as long as it likes, so fewer at a time.
    for mode in [Mode::Commuting, Mode::ReaderWriter] {
        for _ in 0..3 {
            powers_of_two(mode, 16).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_is_new_to_exactly_one() {
    for mode in TRANSACTIONAL.into_iter().chain(Mode::ways()) {
        let store = store(mode);
        let results = together(16, |task| {
            let store = store.clone();
            async move {
                let mut won = Vec::new();
                for member in 0..40 {
                    let is_new = store
                        .transaction(|tx| async move {
                            if task % 2 == 0 {
                                yield_now().await;
                            }
                            let is_new = tx.set("members").add_returning(format!("{member}")).await?;
                            tx.counter("won").add(i64::from(is_new))?;
                            Ok(is_new)
                        })
                        .await
                        .unwrap();
                    won.extend(is_new.then_some(member));
                }
                won
            }
        })
        .await;
        let mut won: Vec<u64> = results.into_iter().flatten().collect();
        won.sort_unstable();
        assert_eq!(won, (0..40).collect::<Vec<_>>(), "{mode:?}");
        assert_eq!(store.counter("won").get().await.unwrap(), 40);
        assert_idle(&store);
    }
}

fn numbers(list: Vec<Bytes>) -> Vec<u64> {
    list.iter().map(|value| value.as_str().and_then(|it| it.parse().ok()).expect("a number")).collect()
}

/// One transaction over two lists: reads some, appends to some (each value once), by the bits of `shape`.
async fn read_and_append(store: &Store, clock: &AtomicU64, shape: u64, value: u64) -> Done {
    let began = clock.fetch_add(1, Ordering::SeqCst);
    let mut done = store
        .transaction(|tx| async move {
            let mut done = Done::default();
            for turn in 0..2 {
                let key = (turn + shape as usize / 16) % 2;
                if shape >> key & 1 == 1 {
                    done.read.push((key, numbers(tx.list(format!("list:{key}")).all().await?)));
                    yield_now().await;
                }
                if shape >> (key + 2) & 1 == 1 {
                    tx.list(format!("list:{key}")).push_back(value.to_string())?;
                    done.appended.push((key, value));
                }
            }
            Ok(done)
        })
        .await
        .unwrap();
    done.began = began;
    done.ended = clock.fetch_add(1, Ordering::SeqCst);
    done
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appends_and_whole_reads_have_a_serial_order() {
    for mode in TRANSACTIONAL.into_iter().chain(Mode::ways()) {
        let store = store(mode);
        let clock = Arc::new(AtomicU64::new(0));
        let results = together(8, |task| {
            let (store, clock) = (store.clone(), Arc::clone(&clock));
            async move {
                let mut random = Numbers::new(task + 1);
                let mut mine = Vec::new();
                for round in 0..40 {
                    let shape = random.below(32);
                    mine.push(read_and_append(&store, &clock, shape, task * 1000 + round).await);
                }
                mine
            }
        })
        .await;
        let history: Vec<Done> = results.into_iter().flatten().collect();
        let mut last = Vec::new();
        for key in 0..2 {
            last.push(numbers(store.list(format!("list:{key}")).all().await.unwrap()));
        }
        assert!(last.iter().all(|list| list.len() > 50), "there is something to check");
        if let Err(wrong) = history::check(&history, &last) {
            panic!("{mode:?}: {wrong}");
        }
        assert_idle(&store);
    }
}

const ACCOUNTS: u64 = 6;
const STOCK: i64 = 200;

/// What a task has done that the end must show.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    sold: i64,
    queued: i64,
    taken: i64,
    marks: i64,
}

fn account(number: u64) -> String {
    format!("account:{number}")
}

/// Moves money between three accounts, in whatever order, looking at some of them.
async fn transfer(tx: &Tx, mut random: Numbers) -> Result<(), Abort> {
    let amount = random.below(10) as i64;
    for share in [-2 * amount, amount, amount] {
        let account = account(random.below(ACCOUNTS));
        match random.below(4) {
            0 => drop(tx.counter(account).add_returning(share).await?),
            1 => {
                tx.counter(account.clone()).get().await?;
                yield_now().await;
                tx.counter(account).add(share)?;
            }
            2 => {
                tx.counter(account.clone()).get_for_update().await?;
                tx.counter(account).add(share)?;
            }
            _ => tx.counter(account).add(share)?,
        }
        if random.below(2) == 0 {
            yield_now().await;
        }
    }
    Ok(())
}

/// Sells one of the stock, notes it in the queue, sometimes takes from the queue.
async fn sell(tx: &Tx, mut random: Numbers) -> Result<Tally, Abort> {
    let mut tally = Tally::default();
    if tx.bounded_counter("stock").try_take(1).await? {
        tally.sold = 1;
        if random.below(2) == 0 {
            yield_now().await;
        }
        tx.queue("queue").enqueue("one")?;
        tally.queued = 1;
    }
    if random.below(2) == 0 && tx.queue("queue").dequeue::<Bytes>().await?.is_some() {
        tally.taken = 1;
    }
    Ok(tally)
}

async fn random_transaction(store: &Store, random: &mut Numbers, number: u64) -> Tally {
    let seed = random.below(u64::MAX);
    match random.below(6) {
        0 | 1 => {
            let body = |tx: Tx| async move { transfer(&tx, Numbers::new(seed)).await };
            store.transaction(body).await.unwrap();
            Tally::default()
        }
        2 => {
            let body = |tx: Tx| async move { sell(&tx, Numbers::new(seed)).await };
            store.transaction(body).await.unwrap()
        }
        3 => {
            let batch = store.batch();
            batch.counter(account(seed % ACCOUNTS)).add(5);
            batch.counter(account(seed / ACCOUNTS % ACCOUNTS)).add(-5);
            batch.set("marks").add(format!("{number}"));
            let seen = batch.set("marks").contains(format!("{number}"));
            assert!(batch.commit().await.unwrap().get(seen).unwrap(), "a batch reads its own writes");
            Tally { marks: 1, ..Tally::default() }
        }
        4 => {
            store.set("marks").add(format!("{number}")).await.unwrap();
            Tally { marks: 1, ..Tally::default() }
        }
        _ => {
            let total = store.transaction(|tx| async move { total(&tx).await }).await.unwrap();
            assert_eq!(total, 0, "money was made or lost");
            Tally::default()
        }
    }
}

async fn total(tx: &Tx) -> Result<i64, Abort> {
    let mut total = 0;
    for number in 0..ACCOUNTS {
        total += tx.counter(account(number)).get().await?;
        if number == ACCOUNTS / 2 {
            yield_now().await;
        }
    }
    Ok(total)
}

async fn stress(mode: Mode, tasks: u64, rounds: u64) {
    let store = store(mode);
    store.bounded_counter("stock").create(STOCK, 0, STOCK).await.unwrap();
    let tallies = together(tasks, |task| {
        let store = store.clone();
        async move {
            let mut random = Numbers::new(1000 + task);
            let mut sum = Tally::default();
            for round in 0..rounds {
                let one = random_transaction(&store, &mut random, task * rounds + round).await;
                sum.sold += one.sold;
                sum.queued += one.queued;
                sum.taken += one.taken;
                sum.marks += one.marks;
            }
            sum
        }
    })
    .await;
    let sum = |of: fn(&Tally) -> i64| tallies.iter().map(of).sum::<i64>();
    let sold = sum(|it| it.sold);
    assert!(sold > 20, "there is something to check");
    assert_eq!(store.bounded_counter("stock").get().await.unwrap(), Some(STOCK - sold));
    let queued = sum(|it| it.queued) - sum(|it| it.taken);
    assert_eq!(store.queue("queue").len().await.unwrap() as i64, queued, "{mode:?}");
    assert_eq!(store.set("marks").len().await.unwrap() as i64, sum(|it| it.marks), "{mode:?}");
    assert_eq!(store.transaction(|tx| async move { total(&tx).await }).await.unwrap(), 0);
    assert_idle(&store);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_transactions_keep_their_invariants_with_phases() {
    for mode in [Mode::CommutingPhased, Mode::ReaderWriterPhased].into_iter().chain(Mode::ways()) {
        stress(mode, 32, 40).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_transactions_keep_their_invariants_without_phases() {
    for mode in [Mode::Commuting, Mode::ReaderWriter] {
        stress(mode, 8, 40).await;
    }
}
