//! The rounds of a run: clients work, and faults strike; then the clients come to rest, all locks must be free,
//! everything is read, and what they saw is judged. A run without faults has one.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use claret::cluster::Plain;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, block_in_place, spawn_blocking};

use super::faults::{Fault, LEASE, Site, Striker, Struck, fold};
use super::processes::{Processes, rounds_of_parent, say_ready, say_rested};
use super::{Args, Clock, Journal, Place, Progress, ProgressBar, Settings, Tally, keep_watch, save, watch};
use claret_checker::{Bank, History, Keys, Shared};

/// How long locks may be held when all clients have come to rest: a lease, and a round of asking, on a machine with other
/// things to do.
const FREE_TIME: Duration = LEASE.saturating_add(Duration::from_secs(5));

/// How long the clients of a round work, in milliseconds: from, to.
const ROUND_MS: (u64, u64) = (2_500, 4_000);

/// How long another process may take until there is a connection.
const CONNECT_TRIES: u32 = 20;

/// A run.
struct Run<'a> {
    args: &'a Args,
    store: claret::Store,
    plain: Option<Plain>,
    site: Option<Arc<Site>>,
    clock: Clock,
    processes: Arc<Mutex<Processes>>,
    progress: Arc<Progress>,
    random: SmallRng,
    faults: Vec<Fault>,
    /// Those that have not struck since all have.
    deck: Vec<Fault>,
    tally: Tally,
}

/// Runs all rounds. Ctrl-C ends the run with the round.
pub(super) async fn work(
    args: &Args,
    place: &Place,
    settings: &Settings,
    (time, faults): (Duration, Vec<Fault>),
) -> Result<Tally, String> {
    let (store, plain) = place.open(settings).await?;
    let clock = Clock::new(None);
    let processes = Processes::start(args, place.url.as_deref(), settings, clock)?;
    let has_ends = faults.iter().any(|fault| fault.ends_records());
    let mut run = Run {
        args,
        store,
        plain,
        site: place.site.clone(),
        clock,
        processes: Arc::new(Mutex::new(processes)),
        progress: Arc::default(),
        random: SmallRng::seed_from_u64(args.seed()),
        faults,
        deck: Vec::new(),
        tally: Tally::new(args.seed(), has_ends),
    };
    let bar = watch(time);
    let watcher = tokio::spawn(keep_watch(bar.clone(), Arc::clone(&run.progress), time, clock));
    let mut settings = settings.clone();
    loop {
        run.round(&mut settings, time, &bar).await?;
        settings.round += 1;
        let is_late = clock.now() >= time.as_micros() as u64;
        let have_struck = run.faults.iter().all(|fault| run.tally.count_of(fault.name()) > 0);
        let is_stopped = run.progress.stop.load(Ordering::Relaxed) || run.tally.has_anomalies();
        if is_late && have_struck || is_stopped || run.faults.is_empty() {
            break;
        }
    }
    watcher.abort();
    bar.finish_and_clear();
    run.store.close().await;
    Ok(run.tally)
}

impl Run<'_> {
    async fn round(
        &mut self,
        settings: &mut Settings,
        time: Duration,
        bar: &ProgressBar,
    ) -> Result<(), String> {
        claret_checker::begin(&self.store, settings).await?;
        let length = match self.faults.is_empty() {
            true => time,
            false => Duration::from_millis(self.random.random_range(ROUND_MS.0..=ROUND_MS.1)),
        };
        let keys = Keys::new(settings);
        settings.until = block_in_place(|| self.processes().begin(settings.round, length))?;
        let strikes = self.strike(&keys);
        let shared = Shared { keys: &keys, progress: &self.progress, journal: None };
        let mut history =
            claret_checker::run(&self.store, self.plain.as_ref(), settings, self.clock, shared).await?;
        if self.progress.stop.load(Ordering::Relaxed) {
            self.processes().stop();
        }
        let mut struck = Vec::new();
        for (fault, strike) in strikes {
            let done = strike.await.map_err(|error| format!("a fault ended badly: {error}"))?;
            struck.push((fault, done?));
        }
        bar.set_message("waiting for the other processes");
        block_in_place(|| self.processes().rest())?.into_iter().for_each(|part| history.take(part));
        self.note_locks(&struck);
        bar.set_message("reading everything");
        if history.broken.is_none() {
            claret_checker::finish(&self.store, settings, self.clock, &mut history).await?;
        }
        bar.set_message("judging");
        let struck = struck.into_iter().map(|(_, struck)| struck).collect();
        fold(&mut history, &Bank::new(&settings.prefix, settings.round), struck);
        save(self.args, &history)?;
        block_in_place(|| self.tally.judge(&history));
        self.site.as_ref().map_or(Ok(()), |site| site.clear())
    }

    fn processes(&self) -> std::sync::MutexGuard<'_, Processes> {
        self.processes.lock().expect("nobody panics with it")
    }

    /// Whatever became of the locks of a round is over within the bound.
    fn note_locks(&mut self, struck: &[(Fault, Struck)]) {
        let Some(site) = &self.site else { return };
        match block_in_place(|| site.wait_until_free(FREE_TIME)) {
            Ok(free_after) => {
                let did = struck.iter().filter(|(_, struck)| struck.did);
                did.for_each(|(fault, _)| self.tally.note_fault(fault.name(), free_after));
            }
            Err(error) => self.tally.note_anomaly(error),
        }
    }

    /// Begins the faults of a round: the next one, and in every third round another beside it.
    fn strike(&mut self, keys: &Keys) -> Vec<(Fault, JoinHandle<Result<Struck, String>>)> {
        let (Some(site), Some(plain)) = (self.site.clone(), self.plain.clone()) else { return Vec::new() };
        if self.deck.is_empty() {
            self.deck.clone_from(&self.faults);
        }
        let Some(last) = self.deck.len().checked_sub(1) else { return Vec::new() };
        let first = self.deck.swap_remove(self.random.random_range(0..=last));
        let second = self.faults[self.random.random_range(0..self.faults.len())];
        let fits = second != first && !(second.is_of_clients() && first.is_of_clients());
        let mut faults = vec![first];
        if fits && self.random.random_range(0..3) == 0 {
            faults.push(second);
        }
        let strike = |fault: Fault| {
            let striker = Striker {
                site: Arc::clone(&site),
                processes: Arc::clone(&self.processes),
                plain: plain.clone(),
                keys: keys.clone(),
                clock: self.clock,
                random: SmallRng::seed_from_u64(self.random.random()),
                runtime: Handle::current(),
            };
            (fault, spawn_blocking(move || striker.strike(fault)))
        };
        faults.into_iter().map(strike).collect()
    }
}

/// Takes part in the rounds of the process that started this one, until that one is gone.
pub(super) async fn take_part(args: &Args, place: &Place, mut settings: Settings) -> Result<(), String> {
    let clock = Clock::new(args.epoch);
    let progress = Arc::new(Progress::default());
    let mut rounds = rounds_of_parent(Arc::clone(&progress));
    // Whoever takes another's place may come while nodes do not answer.
    let mut tries = 0;
    let (store, plain) = loop {
        tries += 1;
        match place.open(&settings).await {
            Err(error) if tries == CONNECT_TRIES => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            Ok(open) => break open,
        }
    };
    tokio::spawn(keep_watch(ProgressBar::hidden(), Arc::clone(&progress), Duration::ZERO, clock));
    say_ready();
    while let Some(told) = rounds.recv().await {
        (settings.round, settings.until) = (told.round, told.until);
        let journal = Journal::begin(&told.file).map(Arc::new);
        let journal = journal.map_err(|error| format!("writing {}: {error}", told.file.display()))?;
        let keys = Keys::new(&settings);
        let shared = Shared { keys: &keys, progress: &progress, journal: Some(&journal) };
        let history: History = claret_checker::run(&store, plain.as_ref(), &settings, clock, shared).await?;
        journal.end().map_err(|error| format!("writing {}: {error}", told.file.display()))?;
        say_rested(history.broken.as_deref());
    }
    store.close().await;
    Ok(())
}
