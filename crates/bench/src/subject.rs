//! One mode of a comparison, the subject of a measurement: its store, its run of the workload, its clients.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use claret::{Mode, Stats, Store};
use claret_sim::model::INTERVALS;

use crate::baseline::mutex::{self, MutexBaseline};
use crate::baseline::redis::RedisBaseline;
use crate::measure::{Check, Counts, Figures, Setting, Slice, Summary};
use crate::mode::{BenchMode, Engine, Scheme};
use crate::observer::Observer;
use crate::over_time::Intervals;
use crate::plan::{Place, Plan};
use crate::runner::Runner;
use crate::schedule::Schedule;
use crate::servers::Servers;
use crate::threads::{ClientThreads, Reach};
use crate::workload::{Call, Promise, Run, VIOLATIONS_MAX, Violation, Workload};

/// How long after the last transaction something may still be open.
const SETTLE_TIME: Duration = Duration::from_secs(2);

/// How often it is looked whether something is.
const LOOK: Duration = Duration::from_millis(5);

/// What a mode runs on.
enum Instance {
    Store { store: Store, run: Box<dyn Run> },
    Mutex(Box<dyn MutexBaseline>),
    Redis { baseline: Arc<RedisBaseline>, run: Box<dyn Run> },
}

/// One mode of a comparison, while it runs.
pub struct Subject {
    mode: BenchMode,
    setting: Setting,
    instance: Instance,
    workload: Arc<dyn Workload>,
    /// The clients, by the thread that runs them.
    runners: Vec<Vec<Runner>>,
    slices: Vec<Slice>,
    /// How long it was measured.
    measured: Duration,
    intervals: Intervals,
    /// Commits in each of them.
    committed: [u64; INTERVALS],
    kinds: Vec<u64>,
    before: Stats,
    /// Last: connections end on the threads that they were made on.
    threads: ClientThreads,
}

impl Subject {
    /// The one with this number among the plan's modes.
    pub(super) fn new(number: usize, plan: &Plan, workload: Arc<dyn Workload>) -> Result<Self, String> {
        let mode = plan.modes[number];
        let reach = match &plan.place {
            Place::Embedded => Reach::Process,
            Place::Servers(_) => Reach::Network,
        };
        let mut threads = ClientThreads::new(plan.threads, reach);
        let instance = instance(mode, plan, workload.as_ref(), &mut threads)
            .map_err(|error| format!("mode {}: {error}", mode.name))?;
        let kinds = workload.kinds().len();
        let mut runners: Vec<Vec<Runner>> = (0..plan.threads).map(|_| Vec::new()).collect();
        for number in 0..plan.clients {
            let seed = plan.seed.wrapping_mul(1_000_003).wrapping_add(number as u64);
            runners[number % plan.threads].push(match &instance {
                Instance::Store { store, run } => Runner::on_store(store.clone(), run.client(seed), kinds),
                Instance::Mutex(mutex) => Runner::on_mutex(mutex.client(seed), kinds),
                Instance::Redis { baseline, run } => {
                    Runner::on_redis(Arc::clone(baseline), run.client(seed), seed, kinds)
                }
            });
        }
        let setting = Setting {
            workload: workload.name(),
            mode: mode.name,
            store: plan.place.name(),
            shards: shards(mode, plan),
            clients: plan.clients,
            threads: plan.threads,
        };
        Ok(Subject {
            mode,
            setting,
            instance,
            workload,
            runners,
            slices: Vec::new(),
            measured: Duration::ZERO,
            intervals: plan.intervals(),
            committed: [0; INTERVALS],
            kinds: vec![0; kinds],
            before: Stats::default(),
            threads,
        })
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.mode.name
    }

    /// Its store, unless it is a baseline.
    pub fn store(&self) -> Option<&Store> {
        match &self.instance {
            Instance::Store { store, .. } => Some(store),
            Instance::Mutex(_) | Instance::Redis { .. } => None,
        }
    }

    /// What was measured so far.
    pub fn slices(&self) -> &[Slice] {
        &self.slices
    }

    fn stats(&self) -> Stats {
        match &self.instance {
            Instance::Store { store, .. } => store.stats(),
            Instance::Mutex(_) => Stats::default(),
            Instance::Redis { baseline, .. } => {
                let (restarts, lock_waits) = baseline.counts();
                let mut stats = Stats::default();
                (stats.restarts, stats.lock_waits) = (restarts, lock_waits);
                stats
            }
        }
    }

    /// Loads what the workload begins with: nothing else is running. What was counted meanwhile is forgotten.
    pub(super) fn load(&mut self, observer: &mut dyn Observer, stop: &AtomicBool) -> Result<(), String> {
        let workload = Arc::clone(&self.workload);
        let mut loaded = Ok(());
        for batch in workload.load() {
            if stop.load(Ordering::Relaxed) || loaded.is_err() {
                break;
            }
            observer.loaded(batch.len());
            loaded = self.load_batch(batch);
        }
        self.before = self.stats();
        loaded.map_err(|error| format!("mode {}: loading: {error}", self.mode.name))
    }

    /// Loads calls, each alone or all in one.
    fn load_batch(&mut self, calls: Vec<Call>) -> Result<(), String> {
        match &self.instance {
            Instance::Mutex(_) => Ok(()),
            Instance::Store { store, .. } => {
                let store = store.clone();
                let load = async move { store.run_all(calls.into_iter().map(|it| (it.key, it.op))).await };
                self.threads.run(load).map(drop).map_err(|error| error.to_string())
            }
            Instance::Redis { baseline, .. } => {
                let baseline = Arc::clone(baseline);
                self.threads.run(async move { baseline.run_alone(&calls).await }).map(drop)
            }
        }
    }

    /// Runs all its clients for a slice. The error is one that no client expected.
    pub(super) fn run_slice(&mut self, plan: &Plan, stop: &Arc<AtomicBool>) -> Result<(), String> {
        let barrier = Arc::new(Barrier::new(self.runners.len()));
        let (pace, slice) = (plan.pace, plan.slice);
        let (before, intervals) = (self.measured, self.intervals);
        let work = std::mem::take(&mut self.runners).into_iter().map(|runners| {
            let (stop, shares_thread) = (Arc::clone(stop), runners.len() > 1);
            let schedule = move |began| {
                let deadline = began + slice;
                Schedule { began, deadline, before, intervals, stop, shares_thread, pace }
            };
            run_thread(runners, schedule, Arc::clone(&barrier))
        });
        let (ended, spans): (Vec<_>, Vec<_>) = self.threads.run_all(work).into_iter().unzip();
        self.runners = ended;
        let longest = spans.into_iter().max().unwrap_or_default();
        self.note_slice(longest.min(plan.slice))
    }

    fn note_slice(&mut self, time: Duration) -> Result<(), String> {
        let mut sum = Counts::new(self.kinds.len());
        for runner in self.runners.iter_mut().flatten() {
            sum.take(runner.counts());
        }
        let now = self.stats();
        let (restarts, waits) =
            (now.restarts - self.before.restarts, now.lock_waits - self.before.lock_waits);
        self.before = now;
        self.measured += time;
        let figures = Figures::new(&sum, time, restarts, waits);
        let (setting, number) = (self.setting.clone(), self.slices.len() + 1);
        self.slices.push(Slice { kind: "slice", setting, slice: number, figures });
        let by_interval = self.committed.iter_mut().zip(sum.intervals);
        for (total, more) in by_interval.chain(self.kinds.iter_mut().zip(sum.kinds)) {
            *total += more;
        }
        sum.broken.map_or(Ok(()), |why| Err(format!("mode {}: {why}", self.mode.name)))
    }

    /// Medians and sums.
    pub(super) fn summary(&self, interrupted: bool) -> Summary {
        let names = self.workload.kinds().iter().map(|kind| kind.name);
        Summary {
            kind: "summary",
            setting: self.setting.clone(),
            slices: self.slices.len(),
            figures: Figures::summed(&self.slices),
            over_time: self.intervals.over_time(&self.committed, self.measured),
            kinds: names.zip(self.kinds.iter().copied()).collect(),
            interrupted,
        }
    }

    /// Ends the clients and compares what the store holds with what they were told.
    pub(super) fn check(&mut self) -> Check {
        for runner in self.runners.drain(..).flatten() {
            runner.finish();
        }
        let promise = match (self.mode.engine, &self.instance) {
            (Engine::Store(Mode::None) | Engine::Mutex, _) => Promise::Operations,
            (_, Instance::Redis { baseline, .. }) => baseline.promise(),
            (Engine::Store(_) | Engine::Redis(_) | Engine::OneServer, _) => Promise::Transactions,
        };
        let threads = &mut self.threads;
        let violations = match &self.instance {
            Instance::Mutex(mutex) => lines(&mutex.verify()),
            Instance::Store { store, run } => verify(store, run.as_ref(), promise, threads),
            Instance::Redis { baseline, run } => {
                let mut read = |call: Call| {
                    let baseline = Arc::clone(baseline);
                    let replies = threads.run(async move { baseline.run_alone(&[call]).await });
                    replies.expect("the server answers and the record is of this type").remove(0)
                };
                lines(&run.verify(promise, &mut read))
            }
        };
        if let (Instance::Store { store, .. }, Reach::Network) = (&self.instance, self.threads.reach()) {
            // The servers hear that this process is done, before its keys are deleted.
            let store = store.clone();
            self.threads.run(store.close());
        }
        Check::new(self.mode.name, promise, violations)
    }
}

fn instance(
    mode: BenchMode,
    plan: &Plan,
    workload: &dyn Workload,
    threads: &mut ClientThreads,
) -> Result<Instance, String> {
    match (mode.engine, &plan.place) {
        (Engine::Mutex, _) => {
            let mutex = mutex::baseline(&plan.workload).expect("the plan was checked");
            Ok(Instance::Mutex(mutex))
        }
        (Engine::Store(mode), Place::Embedded) => {
            let store = Store::builder().shards(plan.shards).mode(mode).build();
            Ok(Instance::Store { store, run: workload.run() })
        }
        (Engine::Store(mode), Place::Servers(servers)) => {
            let url = servers.url.clone().expect("there is a cluster for those who need it");
            let store = threads.run(async move { Store::cluster(url).mode(mode).connect().await });
            Ok(Instance::Store { store: store.map_err(|error| error.to_string())?, run: workload.run() })
        }
        (Engine::Redis(scheme), Place::Servers(servers)) => {
            let baseline =
                threads.run(RedisBaseline::connect(scheme, redis_url(scheme, servers), servers.backoff))?;
            Ok(Instance::Redis { baseline: Arc::new(baseline), run: workload.run() })
        }
        (Engine::Redis(_), Place::Embedded) => Err("it needs real servers".into()),
        (Engine::OneServer, _) => Err("it is of the model".into()),
    }
}

fn redis_url(scheme: Scheme, servers: &Servers) -> String {
    let url = if scheme.is_single() { &servers.single } else { &servers.url };
    url.clone().expect("there are servers for those who need them")
}

fn shards(mode: BenchMode, plan: &Plan) -> u32 {
    match (mode.engine, &plan.place) {
        (Engine::Mutex, _) => 0,
        (Engine::Redis(scheme), _) if scheme.is_single() => 1,
        (_, Place::Embedded) => plan.shards,
        (_, Place::Servers(servers)) => servers.shards,
    }
}

fn lines(violations: &[Violation]) -> Vec<String> {
    violations.iter().take(VIOLATIONS_MAX).map(ToString::to_string).collect()
}

/// Locked records and open attempts. The clients have ended, but on a cluster the last applies may be on their way.
fn left_open(store: &Store) -> (u64, u64) {
    let began = Instant::now();
    loop {
        let Stats { locked_records, open_attempts, .. } = store.stats();
        if (locked_records, open_attempts) == (0, 0) || began.elapsed() > SETTLE_TIME {
            return (locked_records, open_attempts);
        }
        std::thread::sleep(LOOK);
    }
}

/// A record that is locked now would be for ever: that is a violation of its own, and its content cannot be read.
fn verify(store: &Store, run: &dyn Run, promise: Promise, threads: &mut ClientThreads) -> Vec<String> {
    let (locked_records, open_attempts) = left_open(store);
    if (locked_records, open_attempts) != (0, 0) {
        return vec![format!(
            "{open_attempts} transactions still hold something and {locked_records} records are locked"
        )];
    }
    let mut read = |call: Call| {
        let store = store.clone();
        let replies = threads.run(async move { store.run_all([(call.key, call.op)]).await });
        replies.expect("nothing is locked and the record is of this type").remove(0)
    };
    lines(&run.verify(promise, &mut read))
}

/// Runs the clients of one thread until the slice is over; how long that was.
async fn run_thread(
    runners: Vec<Runner>,
    schedule: impl FnOnce(Instant) -> Schedule,
    barrier: Arc<Barrier>,
) -> (Vec<Runner>, Duration) {
    barrier.wait();
    let began = Instant::now();
    let schedule = schedule(began);
    let mut tasks = Vec::with_capacity(runners.len());
    for runner in runners {
        tasks.push(tokio::spawn(runner.run(schedule.clone())));
    }
    let mut ended = Vec::with_capacity(tasks.len());
    for task in tasks {
        ended.push(task.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())));
    }
    (ended, began.elapsed())
}
