//! One mode of a comparison, the subject of a measurement: its store, its run of the workload, its clients.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use claret::{
    Store,
    lab::{Limits, Mode, StoreLab},
    stats::Stats,
};
use claret_sim::model::INTERVALS;

use crate::baseline::mutex::{self, MutexBaseline};
use crate::baseline::redis::RedisBaseline;
use crate::baseline::sqlite::SqliteBaseline;
use crate::looking::Looking;
use crate::measure::{Check, Counts, Figures, Kinds, Setting, Slice, Summary};
use crate::mode::{BenchMode, Engine, Scheme};
use crate::observer::Observer;
use crate::over_time::Intervals;
use crate::plan::{Place, Plan};
use crate::runner::Runner;
use crate::schedule::Schedule;
use crate::servers::Servers;
use crate::threads::{ClientThreads, Reach};
use crate::ways;
use crate::workload::{Call, Promise, Run, VIOLATIONS_MAX, Violation, Workload, tpcc};

/// How long after the last transaction something may still be open.
const SETTLE_TIME: Duration = Duration::from_secs(2);

/// How often it is looked whether something is.
const LOOK: Duration = Duration::from_millis(5);

/// The pauses of the mode `sinfonia`, unless others are asked for, in microseconds.
const ITEMS_BACKOFF_US: (u64, u64) = (100, 10_000);

/// As a store on a cluster has it: how long until what is not answered is sent again, in microseconds.
const RESEND_US: u64 = 500_000;

/// What a mode runs on.
enum Instance {
    /// A store for each process.
    Store {
        stores: Vec<Store>,
        run: Box<dyn Run>,
    },
    Mutex(Box<dyn MutexBaseline>),
    Sqlite {
        baseline: SqliteBaseline,
        run: Box<dyn Run>,
    },
    /// The same for baselines.
    Redis {
        baselines: Vec<Arc<RedisBaseline>>,
        run: Box<dyn Run>,
    },
}

/// Waits for locks and attempts that began again, so far.
#[derive(Clone, Copy, Default)]
struct Troubles {
    restarts: u64,
    lock_waits: u64,
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
    kinds: Kinds,
    before: Troubles,
    /// Last: connections end on the threads that they were made on.
    threads: ClientThreads,
}

impl Subject {
    /// The one with this number among the plan's modes.
    pub(super) fn new(number: usize, plan: &Plan, workload: Arc<dyn Workload>) -> Result<Self, String> {
        let mode = plan.modes[number];
        let reach = match &plan.place {
            Place::Embedded | Place::Folder(_) => Reach::Process,
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
                Instance::Store { stores, run } if mode.engine == Engine::Sinfonia => Runner::on_items(
                    stores[number % plan.processes].clone(),
                    run.client(seed),
                    (seed, plan.backoff().unwrap_or(ITEMS_BACKOFF_US)),
                    kinds,
                ),
                Instance::Store { stores, run } => {
                    let looking = match mode.engine {
                        Engine::Optimistic => plan.looking,
                        _ => Looking::Never,
                    };
                    let store = stores[number % plan.processes].clone();
                    let runner = Runner::on_store(store, run.client(seed), looking, kinds);
                    match mode.engine {
                        Engine::Store(Mode::CommutingPhased) | Engine::InWay(_) => {
                            runner.looks_where_it_should()
                        }
                        _ => runner,
                    }
                }
                Instance::Mutex(mutex) => Runner::on_mutex(mutex.client(seed), kinds),
                Instance::Sqlite { baseline, run } => {
                    Runner::on_sqlite(baseline.runner(run.client(seed), kinds)?)
                }
                Instance::Redis { baselines, run } => Runner::on_redis(
                    Arc::clone(&baselines[number % plan.processes]),
                    run.client(seed),
                    seed,
                    kinds,
                ),
            });
        }
        let setting = Setting {
            workload: workload.name(),
            mode: mode.name,
            store: plan.place.name(),
            shards: shards(mode, plan),
            clients: plan.clients,
            threads: plan.threads,
            processes: plan.processes,
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
            kinds: Kinds::new(kinds),
            before: Troubles::default(),
            threads,
        })
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.mode.name
    }

    /// Its store, of the first process, unless it is a baseline.
    pub fn store(&self) -> Option<&Store> {
        match &self.instance {
            Instance::Store { stores, .. } => stores.first(),
            Instance::Mutex(_) | Instance::Sqlite { .. } | Instance::Redis { .. } => None,
        }
    }

    /// What was measured so far.
    pub fn slices(&self) -> &[Slice] {
        &self.slices
    }

    fn troubles(&self) -> Troubles {
        let each: Vec<(u64, u64)> = match &self.instance {
            Instance::Store { stores, .. } => {
                let stats = stores.iter().map(Store::stats);
                stats.map(|Stats { restarts, lock_waits, .. }| (restarts, lock_waits)).collect()
            }
            Instance::Mutex(_) => Vec::new(),
            Instance::Sqlite { baseline, .. } => vec![(0, baseline.waits())],
            Instance::Redis { baselines, .. } => baselines.iter().map(|it| it.counts()).collect(),
        };
        let add = |sum: Troubles, (restarts, lock_waits)| Troubles {
            restarts: sum.restarts + restarts,
            lock_waits: sum.lock_waits + lock_waits,
        };
        each.into_iter().fold(Troubles::default(), add)
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
        self.before = self.troubles();
        loaded.map_err(|error| format!("mode {}: loading: {error}", self.mode.name))
    }

    /// Loads calls, each alone or all in one.
    fn load_batch(&mut self, calls: Vec<Call>) -> Result<(), String> {
        match &self.instance {
            Instance::Mutex(_) => Ok(()),
            Instance::Sqlite { baseline, .. } => baseline.run_all(&calls).map(drop),
            Instance::Store { stores, .. } => {
                let store = stores[0].clone();
                let load = async move { store.run_all(calls.into_iter().map(|it| (it.key, it.op))).await };
                self.threads.run(load).map(drop).map_err(|error| error.to_string())
            }
            Instance::Redis { baselines, .. } => {
                let baseline = Arc::clone(&baselines[0]);
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
        let now = self.troubles();
        let (restarts, waits) =
            (now.restarts - self.before.restarts + sum.begun_again, now.lock_waits - self.before.lock_waits);
        self.before = now;
        self.measured += time;
        let figures = Figures::new(&sum, time, restarts, waits);
        let (setting, number) = (self.setting.clone(), self.slices.len() + 1);
        self.slices.push(Slice { kind: "slice", setting, slice: number, figures });
        for (total, more) in self.committed.iter_mut().zip(sum.intervals) {
            *total += more;
        }
        self.kinds.add(&sum);
        sum.broken.map_or(Ok(()), |why| Err(format!("mode {}: {why}", self.mode.name)))
    }

    /// Medians and sums.
    pub(super) fn summary(&self, interrupted: bool) -> Summary {
        let names = || self.workload.kinds().iter().map(|kind| kind.name);
        let figures = Figures::summed(&self.slices);
        let kinds: BTreeMap<_, _> = names().zip(self.kinds.committed()).collect();
        // The share of those that ended after a slice is the same.
        let all = kinds.values().sum::<u64>().max(1) as f64;
        let new_orders =
            kinds.get(tpcc::NEW_ORDER).map(|count| *count as f64 / all * figures.throughput * 60.0);
        Summary {
            kind: "summary",
            setting: self.setting.clone(),
            slices: self.slices.len(),
            figures,
            over_time: self.intervals.over_time(&self.committed, self.measured),
            kinds,
            by_kind: names().zip(self.kinds.summaries(self.measured)).collect(),
            new_orders_per_minute: new_orders,
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
            (_, Instance::Redis { baselines, .. }) => baselines[0].promise(),
            (
                Engine::Store(_)
                | Engine::Claret
                | Engine::Optimistic
                | Engine::InWay(_)
                | Engine::Sinfonia
                | Engine::Sqlite
                | Engine::Redis(_)
                | Engine::OneServer,
                _,
            ) => Promise::Transactions,
        };
        let threads = &mut self.threads;
        let violations = match &self.instance {
            Instance::Mutex(mutex) => lines(&mutex.verify()),
            Instance::Sqlite { baseline, run } => {
                let mut read = |call: Call| {
                    let replies = baseline.run_all(&[call]);
                    replies.expect("the file can be read").remove(0)
                };
                lines(&run.verify(promise, &mut read))
            }
            Instance::Store { stores, run } => verify(stores, run.as_ref(), promise, threads),
            Instance::Redis { baselines, run } => {
                let mut read = |call: Call| {
                    let baseline = Arc::clone(&baselines[0]);
                    let replies = threads.run(async move { baseline.run_alone(&[call]).await });
                    replies.expect("the server answers and the record is of this type").remove(0)
                };
                lines(&run.verify(promise, &mut read))
            }
        };
        if let (Instance::Store { stores, .. }, Reach::Network) = (&self.instance, self.threads.reach()) {
            // The servers hear that these processes are done, before their keys are deleted.
            let stores = stores.clone();
            self.threads.run_all(stores.into_iter().map(|store| async move {
                store.close().await.expect("a store on a cluster closes");
            }));
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
    let isolation = mode.store_mode().unwrap_or_default();
    let own = || Store::builder().shards(plan.shards).mode(isolation).protocol_limits(limits(mode));
    match (mode.engine, &plan.place) {
        (_, Place::Embedded | Place::Folder(_)) if plan.processes > 1 => {
            Err("an embedded store is of one process: several are of real servers".into())
        }
        (Engine::Mutex, _) => {
            let mutex = mutex::baseline(&plan.workload).expect("the plan was checked");
            Ok(Instance::Mutex(mutex))
        }
        (Engine::InWay(_), Place::Embedded | Place::Folder(_)) => {
            Err("its transactions go over a network: say --store cluster, redis://HOST:PORT or sim".into())
        }
        (Engine::Store(_) | Engine::Optimistic | Engine::Sinfonia, Place::Embedded) => {
            Ok(Instance::Store { stores: vec![own().build()], run: workload.run() })
        }
        (Engine::Store(_) | Engine::Optimistic | Engine::Sinfonia, Place::Folder(folder)) => {
            let store = own().open(new_folder(folder, mode)?);
            let store = store.map_err(|error| error.to_string())?;
            Ok(Instance::Store { stores: vec![store], run: workload.run() })
        }
        (Engine::Sqlite, Place::Folder(folder)) => {
            let baseline = SqliteBaseline::create(&new_folder(folder, mode)?, plan.pace)?;
            Ok(Instance::Sqlite { baseline, run: workload.run() })
        }
        (Engine::Sqlite, Place::Embedded | Place::Servers(_)) => Err("it needs a folder".into()),
        (
            Engine::Store(_) | Engine::Optimistic | Engine::InWay(_) | Engine::Sinfonia,
            Place::Servers(servers),
        ) => {
            let url = servers.url.clone().expect("there is a cluster for those who need it");
            let connect = || {
                let url = url.clone();
                async move {
                    let store = Store::cluster(url).mode(isolation);
                    let store = match mode.engine {
                        Engine::Sinfonia => {
                            store.protocol_limits(Limits { resend_us: RESEND_US, ..limits(mode) })
                        }
                        Engine::InWay(way) => ways::set(way, store),
                        _ => store,
                    };
                    store.connect().await
                }
            };
            let stores = threads.run_all((0..plan.processes).map(|_| connect()));
            let stores: Result<Vec<Store>, _> = stores.into_iter().collect();
            Ok(Instance::Store { stores: stores.map_err(|error| error.to_string())?, run: workload.run() })
        }
        (Engine::Redis(scheme), Place::Servers(servers)) => {
            let (url, backoff) = (redis_url(scheme, servers), servers.backoff);
            let connect = || RedisBaseline::connect(scheme, url.clone(), backoff);
            let baselines = threads.run_all((0..plan.processes).map(|_| connect()));
            let baselines: Result<Vec<_>, _> = baselines.into_iter().collect();
            let baselines = baselines?.into_iter().map(Arc::new).collect();
            Ok(Instance::Redis { baselines, run: workload.run() })
        }
        (Engine::Redis(_), Place::Embedded | Place::Folder(_)) => Err("it needs real servers".into()),
        (Engine::OneServer | Engine::Claret, _) => Err("it is of the model".into()),
    }
}

/// The bounds of a store in this mode. Whom a lock refuses gives all back in the mode `sinfonia`.
fn limits(mode: BenchMode) -> Limits {
    match mode.engine {
        Engine::Sinfonia => Limits { lock_tries_max: 0, ..Limits::default() },
        _ => Limits::default(),
    }
}

/// A mode's folder, which is not there yet.
fn new_folder(folder: &Path, mode: BenchMode) -> Result<PathBuf, String> {
    let folder = folder.join(mode.name);
    match folder.exists() {
        false => Ok(folder),
        true => {
            let folder = folder.display();
            Err(format!("'{folder}' is there already; name another folder, or remove it"))
        }
    }
}

fn redis_url(scheme: Scheme, servers: &Servers) -> String {
    let url = if scheme.is_single() { &servers.single } else { &servers.url };
    url.clone().expect("there are servers for those who need them")
}

fn shards(mode: BenchMode, plan: &Plan) -> u32 {
    match (mode.engine, &plan.place) {
        (Engine::Mutex | Engine::Sqlite, _) => 0,
        (Engine::Redis(scheme), _) if scheme.is_single() => 1,
        (_, Place::Embedded | Place::Folder(_)) => plan.shards,
        (_, Place::Servers(servers)) => servers.shards,
    }
}

fn lines(violations: &[Violation]) -> Vec<String> {
    violations.iter().take(VIOLATIONS_MAX).map(ToString::to_string).collect()
}

/// Locked records and open attempts. The clients have ended, but on a cluster the last applies may be on their way.
fn left_open(stores: &[Store]) -> (u64, u64) {
    let began = Instant::now();
    let add = |sum: (u64, u64), store: &Store| {
        let Stats { locked_records, open_attempts, .. } = store.stats();
        (sum.0 + locked_records, sum.1 + open_attempts)
    };
    loop {
        let (locked_records, open_attempts) = stores.iter().fold((0, 0), add);
        if (locked_records, open_attempts) == (0, 0) || began.elapsed() > SETTLE_TIME {
            return (locked_records, open_attempts);
        }
        std::thread::sleep(LOOK);
    }
}

/// A record that is locked now would be for ever: that is a violation of its own, and its content cannot be read.
fn verify(stores: &[Store], run: &dyn Run, promise: Promise, threads: &mut ClientThreads) -> Vec<String> {
    let (locked_records, open_attempts) = left_open(stores);
    if (locked_records, open_attempts) != (0, 0) {
        return vec![format!(
            "{open_attempts} transactions still hold something and {locked_records} records are locked"
        )];
    }
    let mut read = |call: Call| {
        let store = stores[0].clone();
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
