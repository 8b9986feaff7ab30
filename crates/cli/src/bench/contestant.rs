//! One mode in a comparison: its own store, its own run of the workload, its own clients.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use claret::{Mode, Stats, Store};
use serde::Serialize;
use tokio::runtime::{Builder, Runtime};

use super::drive::Plan;
use super::measure::{Counted, Figures, Setting, Slice, Summary};
use super::mode::{BenchMode, Contender};
use super::mutex::ByHand;
use super::session::{Session, Shift};
use crate::workload::{Call, Promise, Run, VIOLATIONS_MAX, Violation};

/// What a mode runs on.
enum Host {
    Store { store: Store, run: Box<dyn Run> },
    ByHand(Box<dyn ByHand>),
}

/// See the module's text.
pub struct Contestant {
    mode: BenchMode,
    setting: Setting,
    host: Host,
    /// The clients, by the thread that runs them.
    sessions: Vec<Vec<Session>>,
    slices: Vec<Slice>,
    kinds: Vec<u64>,
    before: Stats,
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

/// A runtime for one thread. Tokio's runtime for several halves the gain of running many clients on one
/// connection or store: its hops cost more than they give.
pub(super) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().expect("the system has room for a timer")
}

impl Contestant {
    pub(super) fn new(mode: BenchMode, plan: &Plan) -> Self {
        let kinds = plan.workload.kinds().len();
        let host = match mode.contender {
            Contender::Store(store_mode) => Host::Store {
                store: Store::builder().shards(plan.shards).mode(store_mode).build(),
                run: plan.workload.run(),
            },
            Contender::Mutex => Host::ByHand((plan.by_hand.as_ref().expect("the plan was checked"))()),
        };
        let mut sessions: Vec<Vec<Session>> = (0..plan.threads).map(|_| Vec::new()).collect();
        for number in 0..plan.clients {
            let seed = plan.seed.wrapping_mul(1_000_003).wrapping_add(number as u64);
            sessions[number % plan.threads].push(match &host {
                Host::Store { store, run } => Session::on_store(store.clone(), run.client(seed), kinds),
                Host::ByHand(by_hand) => Session::by_hand(by_hand.client(seed), kinds),
            });
        }
        let setting = Setting {
            workload: plan.workload.name(),
            mode: mode.name,
            store: "embedded",
            shards: if mode.contender == Contender::Mutex { 0 } else { plan.shards },
            clients: plan.clients,
            threads: plan.threads,
        };
        let kinds = vec![0; kinds];
        Contestant { mode, setting, host, sessions, slices: Vec::new(), kinds, before: Stats::default() }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.mode.name
    }

    /// Its store, unless it is `mutex`.
    pub fn store(&self) -> Option<&Store> {
        match &self.host {
            Host::Store { store, .. } => Some(store),
            Host::ByHand(_) => None,
        }
    }

    /// What was measured so far.
    pub fn slices(&self) -> &[Slice] {
        &self.slices
    }

    fn stats(&self) -> Stats {
        self.store().map(Store::stats).unwrap_or_default()
    }

    /// Loads calls, each alone or all in one: nothing else is running.
    pub(super) fn load(&mut self, runtime: &Runtime, calls: Vec<Call>) -> Result<(), String> {
        let Host::Store { store, .. } = &self.host else { return Ok(()) };
        let calls = calls.into_iter().map(|call| (call.key, call.op));
        runtime.block_on(store.run_all(calls)).map_err(|error| format!("loading: {error}"))?;
        Ok(())
    }

    /// Forgets what was counted while loading.
    pub(super) fn loaded(&mut self) {
        self.before = self.stats();
    }

    /// Runs all its clients for a slice. The error is one that no client expected.
    pub(super) fn run_slice(&mut self, plan: &Plan, stop: &Arc<AtomicBool>) -> Result<(), String> {
        let barrier = Barrier::new(self.sessions.len());
        let sessions = std::mem::take(&mut self.sessions);
        let (ended, spans): (Vec<_>, Vec<_>) = std::thread::scope(|scope| {
            let work = |sessions| scope.spawn(|| run_thread(sessions, plan, stop, &barrier));
            let threads: Vec<_> = sessions.into_iter().map(work).collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined.map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).unzip()
        });
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
    pub(super) fn check(&mut self, runtime: &Runtime) -> Check {
        for session in self.sessions.drain(..).flatten() {
            session.finish();
        }
        let promise = match self.mode.contender {
            Contender::Store(Mode::None) | Contender::Mutex => Promise::Operations,
            Contender::Store(_) => Promise::Transactions,
        };
        let violations = match &self.host {
            Host::ByHand(by_hand) => lines(&by_hand.verify()),
            Host::Store { store, run } => verify(store, run.as_ref(), promise, runtime),
        };
        Check::new(self.mode.name, promise, violations)
    }
}

fn lines(violations: &[Violation]) -> Vec<String> {
    violations.iter().take(VIOLATIONS_MAX).map(ToString::to_string).collect()
}

/// A record that is locked now would be for ever: that is a violation of its own, and its content cannot be read.
fn verify(store: &Store, run: &dyn Run, promise: Promise, runtime: &Runtime) -> Vec<String> {
    let Stats { locked_records, open_attempts, .. } = store.stats();
    if (locked_records, open_attempts) != (0, 0) {
        return vec![format!(
            "{open_attempts} transactions still hold something and {locked_records} records are locked"
        )];
    }
    let mut read = |call: Call| {
        let replies = runtime.block_on(store.run_all([(call.key, call.op)]));
        replies.expect("nothing is locked and the record is of this type").remove(0)
    };
    lines(&run.verify(promise, &mut read))
}

/// Runs the clients of one thread until the slice is over; how long that was.
fn run_thread(
    sessions: Vec<Session>,
    plan: &Plan,
    stop: &Arc<AtomicBool>,
    barrier: &Barrier,
) -> (Vec<Session>, Duration) {
    let runtime = runtime();
    barrier.wait();
    let began = Instant::now();
    let shift = Shift {
        deadline: began + plan.slice,
        stop: Arc::clone(stop),
        shares_thread: sessions.len() > 1,
        pace: plan.pace,
    };
    let ended = runtime.block_on(async {
        let mut tasks = Vec::with_capacity(sessions.len());
        for session in sessions {
            tasks.push(tokio::spawn(session.run(shift.clone())));
        }
        let mut ended = Vec::with_capacity(tasks.len());
        for task in tasks {
            ended.push(task.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())));
        }
        ended
    });
    (ended, began.elapsed())
}
