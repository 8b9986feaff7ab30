//! A run, as those see it who strike: its clients, its time, and what was done so far.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::children::Process;
use super::plan::{StartTortured, TorturePlan, Tortured};
use super::records::Records;
use super::report::TortureReport;
use super::strikes::Strikes;
use super::waivers::Waivers;
use super::worker_log::WorkerLog;
use crate::clock::Clock;

/// How often it is told how far it has come.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// How often processes are looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Between a run and whoever has it run.
pub(super) struct Ends<'a> {
    pub(super) start: &'a StartTortured<'a>,
    pub(super) stop: &'a AtomicBool,
    pub(super) say: &'a dyn Fn(&str),
}

/// What those who strike share.
pub(super) struct Run<'a> {
    pub(super) plan: &'a TorturePlan,
    start: &'a StartTortured<'a>,
    stop: &'a AtomicBool,
    pub(super) say: &'a dyn Fn(&str),
    pub(super) prefix: String,
    store: Result<PathBuf, String>,
    pub(super) clock: Clock,
    pub(super) worker_log: Arc<WorkerLog>,
    pub(super) random: SmallRng,
    pub(super) waivers: Waivers,
    pub(super) strikes: Strikes,
    lives: u64,
    began: Instant,
    last_told: Instant,
}

impl<'a> Run<'a> {
    /// Of this plan, on this store.
    pub(super) fn new(
        plan: &'a TorturePlan,
        Ends { start, stop, say }: Ends<'a>,
        (prefix, store): (String, Result<PathBuf, String>),
        worker_log: Arc<WorkerLog>,
    ) -> Self {
        let now = Instant::now();
        Run {
            plan,
            start,
            stop,
            say,
            prefix,
            store,
            clock: Clock::new(None),
            worker_log,
            random: SmallRng::seed_from_u64(plan.seed),
            waivers: Waivers::default(),
            strikes: Strikes::default(),
            lives: 0,
            began: now,
            last_told: now,
        }
    }

    /// Whether the time is over, or somebody said so.
    pub(super) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.began.elapsed() >= self.plan.time
    }

    /// What another process with clients must know.
    pub(super) fn next_life(&mut self) -> Tortured {
        let life = self.lives;
        self.lives += 1;
        Tortured {
            life,
            epoch: self.clock.epoch(),
            prefix: self.prefix.clone(),
            store: self.store.clone(),
            clients: self.plan.clients,
            seed: self.plan.seed,
            sync: self.plan.sync,
        }
    }

    /// Starts one and does not wait; which it is.
    pub(super) fn launch(&mut self) -> Result<(Process, u64), String> {
        let tortured = self.next_life();
        Process::launch(self.start, &tortured, &self.worker_log).map(|process| (process, tortured.life))
    }

    /// Starts one, and waits until its clients work.
    pub(super) fn start_process(&mut self) -> Result<(Process, u64), String> {
        let tortured = self.next_life();
        Process::start(self.start, &tortured, &self.worker_log).map(|process| (process, tortured.life))
    }

    /// Lets clients work for a while; not for long beyond the run's time.
    ///
    /// # Errors
    /// One of the processes ended, or says what is wrong.
    pub(super) fn rest(
        &mut self,
        (from_ms, to_ms): (u64, u64),
        processes: &mut [Process],
    ) -> Result<(), String> {
        let time = Duration::from_millis(self.random.random_range(from_ms..=to_ms));
        let since = Instant::now();
        loop {
            processes.iter_mut().try_for_each(Process::check)?;
            self.tell();
            let left = time.saturating_sub(since.elapsed());
            if left.is_zero() || self.is_over() {
                return Ok(());
            }
            std::thread::sleep(left.min(LOOK));
        }
    }

    /// Says how far it has come, now and then.
    pub(super) fn tell(&mut self) {
        if self.last_told.elapsed() < TELL_EVERY {
            return;
        }
        self.last_told = Instant::now();
        let counts = self.worker_log.counts();
        (self.say)(&format!(
            "{:4} s: {} committed, {} unknown, {} refused; {}",
            self.began.elapsed().as_secs(),
            counts.committed,
            counts.unknown,
            counts.void,
            self.strikes.summary()
        ));
    }

    /// A fault struck, and is over.
    pub(super) fn note(&mut self, fault: &'static str, began_us: u64, whom: impl Into<String>) {
        self.strikes.note(fault, (began_us, self.clock.now()), whom.into());
    }

    /// How many of something, at random.
    pub(super) fn below(&mut self, count: usize) -> usize {
        self.random.random_range(0..count)
    }

    /// Of all that struck.
    pub(super) fn take_faults(&self, report: &mut TortureReport) -> Result<(), String> {
        report.take_counts(self.worker_log.counts(), self.began.elapsed());
        report.processes = self.lives;
        self.strikes.take(report, &self.worker_log)
    }

    /// The keys of a generation.
    pub(super) fn records(&self, generation: u64) -> Records {
        Records::new(&self.prefix, generation)
    }
}
