//! One mode in a comparison: its own store, its own run of the workload, its own clients.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use claret::{Mode, Stats, Store};
use serde::Serialize;

use super::crew::{Crew, Reach};
use super::drive::{Observer, Place, Plan};
use super::measure::{Counted, Figures, Setting, Slice, Summary};
use super::mode::{BenchMode, Contender};
use super::mutex::ByHand;
use super::pace::Pace;
use super::rival::{Rival, RivalKind};
use super::servers::Servers;
use super::session::{Session, Shift};
use crate::workload::{Call, Promise, Run, VIOLATIONS_MAX, Violation, Workload};

/// How long after the last transaction something may still be open.
const SETTLE_TIME: Duration = Duration::from_secs(2);

/// How often it is looked whether something is.
const LOOK: Duration = Duration::from_millis(5);

/// What a mode runs on.
enum Host {
    Store { store: Store, run: Box<dyn Run> },
    ByHand(Box<dyn ByHand>),
    Rival { rival: Arc<Rival>, run: Box<dyn Run> },
}

/// See the module's text.
pub struct Contestant {
    mode: BenchMode,
    setting: Setting,
    host: Host,
    /// Its workload, where its keys are its own.
    own: Option<Box<dyn Workload>>,
    /// The clients, by the thread that runs them.
    sessions: Vec<Vec<Session>>,
    slices: Vec<Slice>,
    kinds: Vec<u64>,
    before: Stats,
    /// Last: connections end on the threads that they were made on.
    crew: Crew,
}

/// What the check of one mode came to.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// The mode.
    pub mode: &'static str,
    /// What was checked: `transactions`, or `operations` where there are no transactions.
    pub promise: &'static str,
    /// Whether all is as acknowledged.
    pub passed: bool,
    /// What is not, the first of them.
    pub violations: Vec<String>,
}

impl Check {
    pub(super) fn new(mode: &'static str, promise: Promise, violations: Vec<String>) -> Self {
        let promise = match promise {
            Promise::Transactions => "transactions",
            Promise::Operations => "operations",
        };
        Check { mode, promise, passed: violations.is_empty(), violations }
    }
}

impl Contestant {
    /// The one with this number among the plan's modes.
    pub(super) fn new(number: usize, plan: &Plan) -> Result<Self, String> {
        let mode = plan.modes[number];
        let (own, reach) = match &plan.place {
            Place::Embedded => (None, Reach::Process),
            Place::Servers(servers) => (Some(servers.workload(number)), Reach::Network),
        };
        let mut crew = Crew::new(plan.threads, reach);
        let workload = own.as_ref().unwrap_or(&plan.workload);
        let host = host(mode, plan, workload.as_ref(), &mut crew)
            .map_err(|error| format!("mode {}: {error}", mode.name))?;
        let kinds = workload.kinds().len();
        let mut sessions: Vec<Vec<Session>> = (0..plan.threads).map(|_| Vec::new()).collect();
        for number in 0..plan.clients {
            let seed = plan.seed.wrapping_mul(1_000_003).wrapping_add(number as u64);
            sessions[number % plan.threads].push(match &host {
                Host::Store { store, run } => Session::on_store(store.clone(), run.client(seed), kinds),
                Host::ByHand(by_hand) => Session::by_hand(by_hand.client(seed), kinds),
                Host::Rival { rival, run } => {
                    Session::of_rival(Arc::clone(rival), run.client(seed), seed, kinds)
                }
            });
        }
        let setting = Setting {
            workload: plan.workload.name(),
            mode: mode.name,
            store: plan.place.name(),
            shards: shards(mode, plan),
            clients: plan.clients,
            threads: plan.threads,
        };
        let (slices, kinds, before) = (Vec::new(), vec![0; kinds], Stats::default());
        Ok(Contestant { mode, setting, host, own, sessions, slices, kinds, before, crew })
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.mode.name
    }

    /// Its store, unless it is `mutex` or a rival.
    pub fn store(&self) -> Option<&Store> {
        match &self.host {
            Host::Store { store, .. } => Some(store),
            Host::ByHand(_) | Host::Rival { .. } => None,
        }
    }

    /// What was measured so far.
    pub fn slices(&self) -> &[Slice] {
        &self.slices
    }

    fn stats(&self) -> Stats {
        match &self.host {
            Host::Store { store, .. } => store.stats(),
            Host::ByHand(_) => Stats::default(),
            Host::Rival { rival, .. } => {
                let (restarts, lock_waits) = rival.counts();
                Stats { restarts, lock_waits, ..Stats::default() }
            }
        }
    }

    /// Loads what the workload begins with: nothing else is running. What was counted meanwhile is forgotten.
    pub(super) fn load(
        &mut self,
        plan: &Plan,
        observer: &mut dyn Observer,
        stop: &AtomicBool,
    ) -> Result<(), String> {
        let own = self.own.take();
        let mut loaded = Ok(());
        for batch in own.as_ref().unwrap_or(&plan.workload).load() {
            if stop.load(Ordering::Relaxed) || loaded.is_err() {
                break;
            }
            observer.loaded(batch.len());
            loaded = self.load_batch(batch);
        }
        self.own = own;
        self.before = self.stats();
        loaded.map_err(|error| format!("mode {}: loading: {error}", self.mode.name))
    }

    /// Loads calls, each alone or all in one.
    fn load_batch(&mut self, calls: Vec<Call>) -> Result<(), String> {
        match &self.host {
            Host::ByHand(_) => Ok(()),
            Host::Store { store, .. } => {
                let store = store.clone();
                let load = async move { store.run_all(calls.into_iter().map(|it| (it.key, it.op))).await };
                self.crew.run(load).map(drop).map_err(|error| error.to_string())
            }
            Host::Rival { rival, .. } => {
                let rival = Arc::clone(rival);
                self.crew.run(async move { rival.run_alone(&calls).await }).map(drop)
            }
        }
    }

    /// Runs all its clients for a slice. The error is one that no client expected.
    pub(super) fn run_slice(&mut self, plan: &Plan, stop: &Arc<AtomicBool>) -> Result<(), String> {
        let barrier = Arc::new(Barrier::new(self.sessions.len()));
        let (pace, slice) = (plan.pace, plan.slice);
        let work = std::mem::take(&mut self.sessions)
            .into_iter()
            .map(|sessions| run_thread(sessions, pace, slice, Arc::clone(stop), Arc::clone(&barrier)));
        let (ended, spans): (Vec<_>, Vec<_>) = self.crew.run_all(work).into_iter().unzip();
        self.sessions = ended;
        let longest = spans.into_iter().max().unwrap_or_default();
        self.note_slice(longest.min(plan.slice))
    }

    fn note_slice(&mut self, time: Duration) -> Result<(), String> {
        let mut sum = Counted::new(self.kinds.len());
        for session in self.sessions.iter_mut().flatten() {
            sum.take(session.counted());
        }
        let (now, before) = (self.stats(), self.before);
        self.before = now;
        let waits = now.lock_waits - before.lock_waits;
        let figures = Figures::new(&sum, time, now.restarts - before.restarts, waits);
        let (setting, number) = (self.setting.clone(), self.slices.len() + 1);
        self.slices.push(Slice { kind: "slice", setting, slice: number, figures });
        for (total, more) in self.kinds.iter_mut().zip(&sum.kinds) {
            *total += more;
        }
        sum.broken.map_or(Ok(()), |why| Err(format!("mode {}: {why}", self.mode.name)))
    }

    /// Medians and sums.
    pub(super) fn summary(&self, plan: &Plan, interrupted: bool) -> Summary {
        let names = plan.workload.kinds().iter().map(|kind| kind.name);
        Summary {
            kind: "summary",
            setting: self.setting.clone(),
            slices: self.slices.len(),
            figures: Figures::summed(&self.slices),
            kinds: names.zip(self.kinds.iter().copied()).collect(),
            interrupted,
        }
    }

    /// Ends the clients and compares what the store holds with what they were told.
    pub(super) fn check(&mut self) -> Check {
        for session in self.sessions.drain(..).flatten() {
            session.finish();
        }
        let promise = match (self.mode.contender, &self.host) {
            (Contender::Store(Mode::None) | Contender::Mutex, _) => Promise::Operations,
            (_, Host::Rival { rival, .. }) => rival.promise(),
            (Contender::Store(_) | Contender::Rival(_), _) => Promise::Transactions,
        };
        let crew = &mut self.crew;
        let violations = match &self.host {
            Host::ByHand(by_hand) => lines(&by_hand.verify()),
            Host::Store { store, run } => verify(store, run.as_ref(), promise, crew),
            Host::Rival { rival, run } => {
                let mut read = |call: Call| {
                    let rival = Arc::clone(rival);
                    let replies = crew.run(async move { rival.run_alone(&[call]).await });
                    replies.expect("the server answers and the record is of this type").remove(0)
                };
                lines(&run.verify(promise, &mut read))
            }
        };
        if let (Host::Store { store, .. }, true) = (&self.host, self.own.is_some()) {
            // The servers hear that this process is done, before its keys are deleted.
            let store = store.clone();
            self.crew.run(store.close());
        }
        Check::new(self.mode.name, promise, violations)
    }
}

fn host(mode: BenchMode, plan: &Plan, workload: &dyn Workload, crew: &mut Crew) -> Result<Host, String> {
    match (mode.contender, &plan.place) {
        (Contender::Mutex, _) => Ok(Host::ByHand((plan.by_hand.as_ref().expect("the plan was checked"))())),
        (Contender::Store(mode), Place::Embedded) => {
            let store = Store::builder().shards(plan.shards).mode(mode).build();
            Ok(Host::Store { store, run: workload.run() })
        }
        (Contender::Store(mode), Place::Servers(servers)) => {
            let url = servers.url.clone().expect("there is a cluster for those who need it");
            let store = crew.run(async move { Store::cluster(url).mode(mode).connect().await });
            Ok(Host::Store { store: store.map_err(|error| error.to_string())?, run: workload.run() })
        }
        (Contender::Rival(kind), Place::Servers(servers)) => {
            let rival = crew.run(Rival::connect(kind, rival_url(kind, servers), servers.pauses))?;
            Ok(Host::Rival { rival: Arc::new(rival), run: workload.run() })
        }
        (Contender::Rival(_), Place::Embedded) => Err("it needs real servers".into()),
    }
}

fn rival_url(kind: RivalKind, servers: &Servers) -> String {
    let url = if kind.is_single() { &servers.single } else { &servers.url };
    url.clone().expect("there are servers for those who need them")
}

fn shards(mode: BenchMode, plan: &Plan) -> u32 {
    match (mode.contender, &plan.place) {
        (Contender::Mutex, _) => 0,
        (Contender::Rival(kind), _) if kind.is_single() => 1,
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
fn verify(store: &Store, run: &dyn Run, promise: Promise, crew: &mut Crew) -> Vec<String> {
    let (locked_records, open_attempts) = left_open(store);
    if (locked_records, open_attempts) != (0, 0) {
        return vec![format!(
            "{open_attempts} transactions still hold something and {locked_records} records are locked"
        )];
    }
    let mut read = |call: Call| {
        let store = store.clone();
        let replies = crew.run(async move { store.run_all([(call.key, call.op)]).await });
        replies.expect("nothing is locked and the record is of this type").remove(0)
    };
    lines(&run.verify(promise, &mut read))
}

/// Runs the clients of one thread until the slice is over; how long that was.
async fn run_thread(
    sessions: Vec<Session>,
    pace: Pace,
    slice: Duration,
    stop: Arc<AtomicBool>,
    barrier: Arc<Barrier>,
) -> (Vec<Session>, Duration) {
    barrier.wait();
    let began = Instant::now();
    let shift = Shift { deadline: began + slice, stop, shares_thread: sessions.len() > 1, pace };
    let mut tasks = Vec::with_capacity(sessions.len());
    for session in sessions {
        tasks.push(tokio::spawn(session.run(shift.clone())));
    }
    let mut ended = Vec::with_capacity(tasks.len());
    for task in tasks {
        ended.push(task.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())));
    }
    (ended, began.elapsed())
}
