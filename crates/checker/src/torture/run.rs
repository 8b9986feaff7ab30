//! Runs it: faults strike while clients work; then everything is read and judged.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use claret::Store;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;

use super::children::Process;
use super::cluster::Servers;
use super::excuse::Excuses;
use super::judge::judge_generation;
use super::plan::{StartTortured, TorturePlan, TortureTarget, Tortured};
use super::records::Records;
use super::report::TortureReport;
use super::spool::Spool;
use super::worker::{CLIENTS_MAX, open};
use super::{folder, reread, url};
use crate::clock::Clock;

/// How often it is told how far it has come.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// How often processes are looked at.
const LOOK: Duration = Duration::from_millis(20);

/// What those who strike share.
pub(super) struct Run<'a> {
    pub(super) plan: &'a TorturePlan,
    start: &'a StartTortured<'a>,
    stop: &'a AtomicBool,
    say: &'a dyn Fn(&str),
    prefix: String,
    store: Result<PathBuf, String>,
    pub(super) clock: Clock,
    pub(super) spool: Arc<Spool>,
    pub(super) random: SmallRng,
    pub(super) excuses: Excuses,
    pub(super) failovers: u64,
    lives: u64,
    struck: BTreeMap<&'static str, u64>,
    faults: Vec<Struck>,
    began: Instant,
    last_told: Instant,
}

/// One fault, for who looks at the histories.
#[derive(Clone, Debug, Serialize)]
struct Struck {
    began_us: u64,
    ended_us: u64,
    fault: &'static str,
    whom: String,
}

/// Tortures a store. `say` hears how far it has come; `stop` ends the faults, and what happened until then is judged. The keys
/// of the run are deleted from a cluster that was there before.
///
/// # Errors
/// What keeps it from coming to a result: servers that do not start, a file that cannot be written, a clock that was set.
pub fn torture(
    plan: &TorturePlan,
    start: &StartTortured<'_>,
    stop: &AtomicBool,
    say: &dyn Fn(&str),
) -> Result<TortureReport, String> {
    let prefix = format!("torture-{:08x}", rand::rng().random::<u32>());
    let folder = plan.out.clone().unwrap_or_else(|| std::env::temp_dir().join(format!("claret-{prefix}")));
    let (mut servers, store) = match &plan.target {
        TortureTarget::Folder(folder) => (None, Ok(folder.clone())),
        TortureTarget::Url(url) => (None, Err(url.clone())),
        TortureTarget::Cluster { shards, replicas, server } => {
            say("starting the cluster");
            let servers = Servers::start(*shards, *replicas, server.as_deref(), plan.durability)?;
            let url = servers.url();
            (Some(servers), Err(url))
        }
    };
    let spool = Arc::new(Spool::new(&folder)?);
    let now = Instant::now();
    let mut run = Run {
        plan,
        start,
        stop,
        say,
        prefix,
        store,
        clock: Clock::new(None),
        spool,
        random: SmallRng::seed_from_u64(plan.seed),
        excuses: Excuses::default(),
        failovers: 0,
        lives: 0,
        struck: BTreeMap::new(),
        faults: Vec::new(),
        began: now,
        last_told: now,
    };
    let ended = match (&plan.target, &mut servers) {
        (TortureTarget::Folder(path), _) => folder::strike(&mut run, path),
        (_, Some(servers)) => servers.strike(&mut run),
        (_, None) => url::strike(&mut run),
    };
    let mut report = TortureReport { seed: plan.seed, ..TortureReport::default() };
    report.anomalies.extend(ended.err());
    run.finish(&mut report)?;
    if let (TortureTarget::Url(url), true) = (&plan.target, report.is_well()) {
        claret_rig::delete_keys_everywhere(url, &format!("{}:*", run.prefix)).map_err(|it| it.to_string())?;
    }
    let is_kept = plan.out.is_some() || !report.is_well();
    if is_kept {
        run.spool.keep("report.json", &report)?;
        report.histories = Some(folder);
    } else {
        let _ = std::fs::remove_dir_all(folder);
    }
    Ok(report)
}

impl Run<'_> {
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
        Process::launch(self.start, &tortured, &self.spool).map(|process| (process, tortured.life))
    }

    /// Starts one, and waits until its clients work.
    pub(super) fn start_process(&mut self) -> Result<(Process, u64), String> {
        let tortured = self.next_life();
        Process::start(self.start, &tortured, &self.spool).map(|process| (process, tortured.life))
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
        let counts = self.spool.counts();
        let faults: u64 = self.struck.values().sum();
        (self.say)(&format!(
            "{:4} s: {} committed, {} unknown, {} refused; {faults} faults, {} failovers",
            self.began.elapsed().as_secs(),
            counts.committed,
            counts.unknown,
            counts.void,
            self.failovers
        ));
    }

    /// A fault struck, and is over.
    pub(super) fn note(&mut self, fault: &'static str, began_us: u64, whom: impl Into<String>) {
        *self.struck.entry(fault).or_default() += 1;
        let ended_us = self.clock.now();
        self.faults.push(Struck { began_us, ended_us, fault, whom: whom.into() });
    }

    /// How many of something, at random.
    pub(super) fn below(&mut self, count: usize) -> usize {
        self.random.random_range(0..count)
    }

    /// Reads and judges everything.
    fn finish(&mut self, report: &mut TortureReport) -> Result<(), String> {
        report.take_counts(self.spool.counts(), self.began.elapsed());
        report.processes = self.lives;
        report.failovers = self.failovers;
        report.struck.clone_from(&self.struck);
        self.spool.keep("faults.json", &self.faults)?;
        let generations = self.spool.end()?;
        (self.say)(&format!("reading every key, and judging {} histories", generations.len()));
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("starting threads: {error}"))?;
        let reader = self.next_life();
        let store = match runtime.block_on(open(&reader)) {
            Ok(store) => store,
            Err(error) => {
                report.anomalies.push(error);
                return Ok(());
            }
        };
        let mut contents = BTreeMap::new();
        for generation in &generations {
            let (records, client) = (self.records(*generation), reader.life * CLIENTS_MAX);
            let read = reread::read(&store, &records, self.clock, client);
            match runtime.block_on(read) {
                Ok(read) => drop(contents.insert(*generation, read)),
                Err(error) => report.anomalies.push(format!("generation {generation}: {error}")),
            }
        }
        runtime.block_on(Store::close(store));
        self.clock.check()?;
        for (generation, contents) in &contents {
            self.spool.keep(&format!("read-{generation:04}.json"), &contents.entry)?;
            let entries = self.spool.read(*generation)?;
            let records = self.records(*generation);
            let judged = judge_generation(entries, contents, &records, &self.excuses);
            report.take(*generation, contents.keys(), judged);
        }
        Ok(())
    }

    fn records(&self, generation: u64) -> Records {
        Records::new(&self.prefix, generation)
    }
}
