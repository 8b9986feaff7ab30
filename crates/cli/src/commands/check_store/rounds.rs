//! The rounds of a run: clients work, come to rest, everything is read, and what they saw is judged. A run without
//! faults has one.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::processes::{Processes, rounds_of_parent, say_ready, say_rested};
use super::{
    Args, Clock, Journal, Place, Progress, ProgressBar, Settings, Tally, checking, keep_watch, save, watch,
};

/// Runs all rounds.
pub(super) async fn work(
    args: &Args,
    place: &Place,
    settings: &Settings,
    time: Duration,
) -> Result<Tally, String> {
    let (store, plain) = place.open(settings).await?;
    let clock = Clock::new(None);
    let mut processes = Processes::start(args, place.url.as_deref(), settings, clock)?;
    let progress = Arc::new(Progress::default());
    let bar = watch(time);
    let watcher = tokio::spawn(keep_watch(bar.clone(), Arc::clone(&progress), time, clock));
    let mut tally = Tally::new(false);
    let mut settings = settings.clone();
    checking::begin(&store, &settings).await?;
    settings.until = processes.begin(settings.round, time)?;
    let mut history = checking::run(&store, plain.as_ref(), &settings, clock, (&progress, None)).await?;
    if progress.stop.load(Ordering::Relaxed) {
        processes.stop();
    }
    bar.set_message("waiting for the other processes");
    processes.rest()?.into_iter().for_each(|part| history.take(part));
    bar.set_message("reading everything");
    if history.broken.is_none() {
        checking::finish(&store, &settings, clock, &mut history).await?;
    }
    bar.set_message("judging");
    save(args, &history)?;
    tally.judge(&history);
    watcher.abort();
    bar.finish_and_clear();
    store.close().await;
    Ok(tally)
}

/// Takes part in the rounds of the process that started this one, until that one is gone.
pub(super) async fn take_part(args: &Args, place: &Place, mut settings: Settings) -> Result<(), String> {
    let clock = Clock::new(args.epoch);
    let (store, plain) = place.open(&settings).await?;
    let progress = Arc::new(Progress::default());
    let mut rounds = rounds_of_parent(Arc::clone(&progress));
    tokio::spawn(keep_watch(ProgressBar::hidden(), Arc::clone(&progress), Duration::ZERO, clock));
    say_ready();
    while let Some(told) = rounds.recv().await {
        (settings.round, settings.until) = (told.round, told.until);
        let journal = Journal::begin(&told.file).map(Arc::new);
        let journal = journal.map_err(|error| format!("writing {}: {error}", told.file.display()))?;
        let history =
            checking::run(&store, plain.as_ref(), &settings, clock, (&progress, Some(&journal))).await?;
        journal.end().map_err(|error| format!("writing {}: {error}", told.file.display()))?;
        say_rested(history.broken.as_deref());
    }
    store.close().await;
    Ok(())
}
