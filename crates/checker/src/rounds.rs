//! Runs a plan, round by round.
//!
//! In a round clients work while faults strike. Then the clients stop, all locks must become free, every record is read,
//! and the history is judged. A run without faults has one round.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use claret::Store;
use claret_redis::Cluster;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, block_in_place, spawn_blocking};

use crate::bank::Bank;
use crate::clients::{self, Shared};
use crate::clock::Clock;
use crate::fault::Fault;
use crate::gateways::Gateways;
use crate::history::History;
use crate::injection::{FaultyCluster, Injected, Injector, LEASE, add_ends};
use crate::intent::Keys;
use crate::journal::Journal;
use crate::plan::{Plan, Progress, Settings};
use crate::processes::{Processes, StartWorker, rounds_of_parent, say_ready, say_rested};
use crate::report::{Report, Tally};
use crate::target::Target;

/// How long locks may be held when all clients have come to rest: a lease, and a round of asking, on a machine with other
/// things to do.
const FREE_TIME: Duration = LEASE.saturating_add(Duration::from_secs(5));

/// How long the clients of a round work, in milliseconds: from, to.
const ROUND_MS: (u64, u64) = (2_500, 4_000);

/// How many times its time a run may last until every planted anomaly had a place.
const PLANTING: u32 = 2;

/// How long another process may take until there is a connection.
const CONNECT_TRIES: u32 = 20;

/// A run.
struct Run<'a> {
    plan: &'a Plan,
    /// Hears what the run waits for.
    say: &'a dyn Fn(&'static str),
    store: Store,
    plain: Option<Cluster>,
    cluster: Option<Arc<FaultyCluster>>,
    gateways: Option<Arc<Gateways>>,
    clock: Clock,
    processes: Arc<Mutex<Processes>>,
    progress: Arc<Progress>,
    random: SmallRng,
    /// Faults that have not struck since all have.
    remaining: Vec<Fault>,
    tally: Tally,
}

/// Runs a plan on a store, on a runtime of several threads with timers and sockets. `say` hears what the run waits for;
/// `progress.stop` ends the run with the round. The keys of the run are deleted at its end.
///
/// # Errors
/// What keeps it from coming to a result: a server that does not answer, a clock that was set, a file that cannot be written.
pub async fn check(
    plan: &Plan,
    target: &Target,
    start: Arc<StartWorker>,
    progress: &Arc<Progress>,
    say: &dyn Fn(&'static str),
) -> Result<Report, String> {
    let checked = all_rounds(plan, target, start, progress, say).await;
    block_in_place(|| target.clean(&plan.prefix))?;
    checked
}

async fn all_rounds(
    plan: &Plan,
    target: &Target,
    start: Arc<StartWorker>,
    progress: &Arc<Progress>,
    say: &dyn Fn(&'static str),
) -> Result<Report, String> {
    let (store, plain) = target.open(plan.plain > 0).await?;
    let clock = Clock::new(None);
    let url = target.url().unwrap_or_default();
    let processes = Processes::start(plan.processes, start, url, &plan.prefix, clock)?;
    let gateways = match plan.gateways {
        0 => None,
        count => Some(Arc::new(block_in_place(|| Gateways::start(target.behind(&store), count as usize))?)),
    };
    let has_ends = plan.faults.iter().any(|fault| fault.ends_records());
    let mut run = Run {
        plan,
        say,
        store,
        plain,
        cluster: target.cluster(),
        gateways,
        clock,
        processes: Arc::new(Mutex::new(processes)),
        progress: Arc::clone(progress),
        random: SmallRng::seed_from_u64(plan.seed),
        remaining: Vec::new(),
        tally: Tally::new(plan.seed, has_ends),
    };
    let mut settings = plan.settings(0);
    loop {
        run.round(&mut settings).await?;
        settings.round += 1;
        let late = |times: u32| clock.now() >= (plan.time * times).as_micros() as u64;
        let have_struck = plan.faults.iter().all(|fault| run.tally.count_of(fault.name()) > 0);
        // Where few rounds end records, the one that shows them again may need another.
        let is_over = late(1) && have_struck && (!run.tally.has_unplanted() || late(PLANTING));
        let is_stopped = progress.stop.load(Ordering::Relaxed) || run.tally.has_anomalies();
        if is_over || is_stopped || plan.faults.is_empty() {
            break;
        }
    }
    let mut report = run.tally.into_report();
    if let Some(gateways) = &run.gateways {
        block_in_place(|| gateways.end());
        report.through_gateways = gateways.counts();
    }
    run.store.close().await.map_err(|error| error.to_string())?;
    Ok(report)
}

impl Run<'_> {
    async fn round(&mut self, settings: &mut Settings) -> Result<(), String> {
        clients::begin(&self.store, settings).await?;
        let length = match self.plan.faults.is_empty() {
            true => self.plan.time,
            false => Duration::from_millis(self.random.random_range(ROUND_MS.0..=ROUND_MS.1)),
        };
        let keys = Keys::new(settings);
        settings.until = block_in_place(|| self.processes().begin(settings.round, length))?;
        let running = self.inject(&keys);
        let restart = self.restart();
        let gateways = self.gateways.as_ref();
        let shared = Shared { keys: &keys, progress: &self.progress, journal: None, gateways };
        let mut history =
            clients::run(&self.store, self.plain.as_ref(), settings, self.clock, shared).await?;
        if self.progress.stop.load(Ordering::Relaxed) {
            self.processes().stop();
        }
        if let Some(restart) = restart {
            restart.await.map_err(|error| format!("starting a gateway again ended badly: {error}"))??;
        }
        let mut injected = Vec::new();
        for (fault, task) in running {
            let done = task.await.map_err(|error| format!("a fault ended badly: {error}"))?;
            injected.push((fault, done?));
        }
        (self.say)("waiting for the other processes");
        block_in_place(|| self.processes().rest())?.into_iter().for_each(|part| history.take(part));
        self.note_locks(&injected);
        (self.say)("reading everything");
        if history.broken.is_none() {
            let read = clients::finish(&self.store, settings, self.clock, &mut history).await;
            read.map_err(|error| match &self.cluster {
                Some(cluster) => format!("{error}\n{}", block_in_place(|| cluster.describe())),
                None => error,
            })?;
        }
        (self.say)("judging");
        let injected = injected.into_iter().map(|(_, injected)| injected).collect();
        add_ends(&mut history, &Bank::new(&settings.prefix, settings.round), injected);
        if let Some(path) = &self.plan.history {
            history.save(path).map_err(|error| format!("writing {}: {error}", path.display()))?;
        }
        block_in_place(|| self.tally.judge(&history));
        self.cluster.as_ref().map_or(Ok(()), |cluster| cluster.clear())
    }

    fn processes(&self) -> MutexGuard<'_, Processes> {
        self.processes.lock().expect("nobody panics with it")
    }

    /// Whatever became of the locks of a round is over within the bound.
    fn note_locks(&mut self, injected: &[(Fault, Injected)]) {
        let Some(cluster) = &self.cluster else { return };
        match block_in_place(|| cluster.wait_until_free(FREE_TIME)) {
            Ok(free_after) => {
                let did = injected.iter().filter(|(_, injected)| injected.did);
                did.for_each(|(fault, _)| self.tally.note_fault(fault.name(), free_after));
            }
            Err(error) => self.tally.note_anomaly(error),
        }
    }

    /// Where faults strike, one of the gateways ends in each round, and begins again.
    fn restart(&mut self) -> Option<JoinHandle<Result<(), String>>> {
        let gateways = self.gateways.clone().filter(|_| !self.plan.faults.is_empty())?;
        let wait = Duration::from_millis(self.random.random_range(0..ROUND_MS.0));
        let number = self.random.random_range(0..gateways.count());
        Some(tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            spawn_blocking(move || gateways.restart(number)).await.map_err(|error| error.to_string())?
        }))
    }

    /// Begins the faults of a round: the next one, and in every third round another beside it.
    fn inject(&mut self, keys: &Keys) -> Vec<(Fault, JoinHandle<Result<Injected, String>>)> {
        let (Some(cluster), Some(plain)) = (self.cluster.clone(), self.plain.clone()) else {
            return Vec::new();
        };
        if self.remaining.is_empty() {
            self.remaining.clone_from(&self.plan.faults);
        }
        let Some(last) = self.remaining.len().checked_sub(1) else { return Vec::new() };
        let first = self.remaining.swap_remove(self.random.random_range(0..=last));
        let faults = &self.plan.faults;
        let second = faults[self.random.random_range(0..faults.len())];
        let fits = second != first && !(second.is_of_clients() && first.is_of_clients());
        let mut faults = vec![first];
        if fits && self.random.random_range(0..3) == 0 {
            faults.push(second);
        }
        let injection = |fault: Fault| {
            let injector = Injector {
                cluster: Arc::clone(&cluster),
                processes: Arc::clone(&self.processes),
                plain: plain.clone(),
                keys: keys.clone(),
                clock: self.clock,
                random: SmallRng::seed_from_u64(self.random.random()),
                runtime: Handle::current(),
            };
            (fault, spawn_blocking(move || injector.inject(fault)))
        };
        faults.into_iter().map(injection).collect()
    }
}

/// Takes part in the rounds of the process that started this one, until that one is gone: the clients of process `number` of
/// the run that began at `epoch` ([`Worker`](crate::Worker)). Standard input and output are its.
///
/// # Errors
/// No server answers, or what clients see cannot be written down.
pub async fn take_part(
    plan: &Plan,
    target: &Target,
    (number, epoch): (u64, u64),
    progress: &Arc<Progress>,
) -> Result<(), String> {
    let clock = Clock::new(Some(epoch));
    let mut settings = plan.settings(number);
    let mut rounds = rounds_of_parent(Arc::clone(progress));
    // Whoever takes another's place may come while nodes do not answer.
    let mut tries = 0;
    let (store, plain) = loop {
        tries += 1;
        match target.open(plan.plain > 0).await {
            Err(error) if tries == CONNECT_TRIES => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            Ok(open) => break open,
        }
    };
    say_ready();
    while let Some(told) = rounds.recv().await {
        (settings.round, settings.until) = (told.round, told.until);
        let journal = Journal::begin(&told.file).map(Arc::new);
        let journal = journal.map_err(|error| format!("writing {}: {error}", told.file.display()))?;
        let keys = Keys::new(&settings);
        let shared = Shared { keys: &keys, progress, journal: Some(&journal), gateways: None };
        let history: History = clients::run(&store, plain.as_ref(), &settings, clock, shared).await?;
        journal.end().map_err(|error| format!("writing {}: {error}", told.file.display()))?;
        say_rested(history.broken.as_deref());
    }
    store.close().await.map_err(|error| error.to_string())?;
    Ok(())
}
