//! Measures how long a store in a folder takes to open, and whether a snapshot stops those who commit (D6, D7).
//!
//! It makes a store of so many operations, each committed by itself, on a tenth as many records (counters, sets and dicts), and opens
//! it: once with all of it in the log, and once with a snapshot and the log since, as it is by default. Then threads commit until a
//! snapshot was made, some times, once without waiting for the disk and once with: the times that commits took, and the longest time
//! that nobody's ended, while a snapshot was made and otherwise.
//!
//! ```sh
//! cargo run --release -p claret --example recovery -- FOLDER 10000000
//! ```

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use claret::{Error, Records, Store, StoreBuilder, durability::SyncPolicy};

type Failed = Box<dyn std::error::Error>;

/// Those who make the store, and those whose time is taken.
const THREADS: u64 = 2;

/// How often it is opened for a snapshot, which comes when the log has grown by so many bytes.
const SNAPSHOTS: usize = 3;
const SNAPSHOT_AFTER: u64 = 4 << 20;

/// Commits are timed for so long at least, and at most.
const TIME_MIN: Duration = Duration::from_secs(5);
const TIME_MAX: Duration = Duration::from_secs(300);

fn main() -> Result<(), Failed> {
    let mut words = std::env::args().skip(1);
    let folder = words.next().ok_or("name a folder, which must not be there")?;
    let operations: u64 = words.next().map_or(Ok(10_000_000), |word| word.parse())?;
    let folder = Path::new(&folder);
    if folder.exists() {
        return Err(format!("'{}' is there already; name another folder", folder.display()).into());
    }
    for (name, builder) in [
        ("all in the log", Store::builder().snapshot_after(u64::MAX)),
        ("a snapshot and the log since", Store::builder()),
    ] {
        let builder = builder.sync(SyncPolicy::Every(Duration::from_millis(100)));
        make(&builder, folder, operations)?;
        open(name, &builder, folder)?;
        if name == "all in the log" {
            std::fs::remove_dir_all(folder)?;
        }
    }
    for (name, sync) in [
        ("do not wait for the disk", SyncPolicy::Every(Duration::from_millis(100))),
        ("wait for it", SyncPolicy::EachGroup),
    ] {
        let mut seen = [Kind::default(), Kind::default()];
        for _ in 0..SNAPSHOTS {
            let store = Store::builder().sync(sync).snapshot_after(SNAPSHOT_AFTER).open(folder)?;
            commit(&store, folder, operations, &mut seen)?;
            pollster::block_on(store.close()).expect("it closes");
        }
        println!("{THREADS} threads commit and {name}:");
        let [otherwise, in_snapshot] = seen;
        otherwise.print("otherwise");
        in_snapshot.print("in a snapshot");
    }
    Ok(std::fs::remove_dir_all(folder)?)
}

/// One operation, on the record that its number says.
fn operation(store: &Store, number: u64, records: u64) -> Result<(), Error> {
    let record = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % records;
    pollster::block_on(async {
        match record % 3 {
            0 => store.counter(format!("counter:{record}")).add(1).await,
            1 => store.set(format!("set:{record}")).add(format!("member:{number}")).await,
            _ => {
                store.dict(format!("dict:{record}")).set(format!("{}", number % 16), number.to_string()).await
            }
        }
    })
}

fn make(builder: &StoreBuilder, folder: &Path, operations: u64) -> Result<(), Failed> {
    let store = builder.clone().open(folder)?;
    let began = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let store = &store;
                scope.spawn(move || {
                    let mut numbers = (thread..operations).step_by(THREADS as usize);
                    numbers.try_for_each(|number| operation(store, number, operations / 10))
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
    })?;
    pollster::block_on(store.close()).expect("it closes");
    println!("{operations} operations committed in {:.1} s", began.elapsed().as_secs_f64());
    Ok(())
}

fn open(name: &str, builder: &StoreBuilder, folder: &Path) -> Result<(), Failed> {
    let mut bytes = 0;
    for file in std::fs::read_dir(folder)? {
        bytes += file?.metadata()?.len();
    }
    let began = Instant::now();
    let mut read = None;
    let store = builder.clone().open_with_progress(folder, |progress| read = Some(progress))?;
    let (time, entries) = (began.elapsed().as_secs_f64(), read.map_or(0, |progress| progress.entries));
    println!(
        "opened ({name}; {:.1} MB, {entries} entries of the log carried out) in {time:.1} s",
        bytes as f64 / 1e6
    );
    pollster::block_on(store.close()).expect("it closes");
    Ok(())
}

/// What was seen while a snapshot was made, or otherwise: microseconds.
#[derive(Default)]
struct Kind {
    /// How long commits took.
    times: Vec<u32>,
    /// The longest time in which none ended.
    gap: u64,
}

impl Kind {
    fn print(mut self, name: &str) {
        self.times.sort_unstable();
        let ms = |us: f64| us / 1e3;
        let at = |share: f64| {
            let at = (self.times.len() as f64 * share) as usize;
            ms(self.times.get(at).or(self.times.last()).map_or(0.0, |us| f64::from(*us)))
        };
        println!(
            "  {name}: {} commits, p50 {:.3} ms, p99 {:.3} ms, p99.9 {:.3} ms, longest {:.3} ms; longest time without one {:.3} ms",
            self.times.len(),
            at(0.5),
            at(0.99),
            at(0.999),
            at(1.0),
            ms(self.gap as f64)
        );
    }
}

/// What the threads share.
struct Shared {
    began: Instant,
    /// When the last commit of all ended.
    last_us: AtomicU64,
    gaps_us: [AtomicU64; 2],
    in_snapshot: AtomicBool,
    is_over: AtomicBool,
}

fn commit(store: &Store, folder: &Path, operations: u64, seen: &mut [Kind; 2]) -> Result<(), Failed> {
    let shared = &Shared {
        began: Instant::now(),
        last_us: AtomicU64::new(0),
        gaps_us: Default::default(),
        in_snapshot: AtomicBool::new(false),
        is_over: AtomicBool::new(false),
    };
    let is_made = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || timed(store, shared, thread, operations)))
            .collect();
        let is_made = watch(store, folder, shared);
        shared.is_over.store(true, Ordering::Relaxed);
        for thread in threads {
            let more = thread.join().expect("it does not panic")?;
            seen.iter_mut().zip(more).for_each(|(kind, more)| kind.times.extend(more));
        }
        Ok::<_, Error>(is_made)
    })?;
    for (kind, gap) in seen.iter_mut().zip(&shared.gaps_us) {
        kind.gap = kind.gap.max(gap.load(Ordering::Relaxed));
    }
    if is_made { Ok(()) } else { Err("no snapshot was made".into()) }
}

/// Commits until it is over: how long each took, by whether a snapshot was made meanwhile.
fn timed(store: &Store, shared: &Shared, thread: u64, operations: u64) -> Result<[Vec<u32>; 2], Error> {
    let mut times = [Vec::new(), Vec::new()];
    let mut number = thread;
    while !shared.is_over.load(Ordering::Relaxed) {
        number += THREADS;
        let (before, began) = (shared.in_snapshot.load(Ordering::Relaxed), Instant::now());
        operation(store, number, operations / 10)?;
        let time = began.elapsed().as_micros() as u32;
        let kind = usize::from(before || shared.in_snapshot.load(Ordering::Relaxed));
        times[kind].push(time);
        let now = shared.began.elapsed().as_micros() as u64;
        let gap = now.saturating_sub(shared.last_us.swap(now, Ordering::Relaxed));
        shared.gaps_us[kind].fetch_max(gap, Ordering::Relaxed);
    }
    Ok(times)
}

/// Looks whether a snapshot is made, until one was.
fn watch(store: &Store, folder: &Path, shared: &Shared) -> bool {
    let unfinished = folder.join("snapshot.new");
    let position = || store.log_status().map(|status| status.snapshot);
    let before = position();
    while shared.began.elapsed() < TIME_MAX {
        shared.in_snapshot.store(unfinished.exists(), Ordering::Relaxed);
        if position() != before && shared.began.elapsed() > TIME_MIN {
            return true;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    false
}
