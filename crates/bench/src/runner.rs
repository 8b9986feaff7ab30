//! Runs a client: one transaction after another until the slice is over.
//!
//! A runner lives as long as its mode; between slices it has no open transaction. Its loop reads the clock once for each
//! transaction if the runner has its thread to itself, and twice if it yields to others after each: the same in all modes.

mod mini;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use claret::{Abort, AtCommit, Error, Reply, Store, Tx};
use smallvec::SmallVec;

use crate::baseline::mutex::MutexClient;
use crate::baseline::redis::{Backoff, RedisBaseline, RedisRunner};
use crate::baseline::sqlite::SqliteRunner;
use crate::items;
use crate::looking::{Looking, values};
use crate::measure::Counts;
use crate::pace::{Pace, think, think_between};
use crate::schedule::{Outcome, Schedule};
use crate::workload::{Call, Client, Stage};

/// A client, whatever it runs on.
pub(super) enum Runner {
    Store(Box<StoreRunner>),
    Mutex(Box<MutexRunner>),
    Sqlite(Box<SqliteRunner>),
    Redis(Box<RedisRunner>),
}

pub(super) struct StoreRunner {
    store: Store,
    work: Work,
    looking: Looking,
    /// Transactions look that are [better off](Client::looks) so.
    looks_where_it_should: bool,
    /// Of who tries again by itself.
    backoff: Option<Backoff>,
    counts: Counts,
}

/// What the attempts of a transaction share.
struct Work {
    client: Box<dyn Client>,
    calls: Vec<Call>,
    stage: Stage,
    replies: Vec<Reply>,
    attempts: u32,
}

pub(super) struct MutexRunner {
    client: Box<dyn MutexClient>,
    counts: Counts,
}

impl Runner {
    pub(super) fn on_store(store: Store, client: Box<dyn Client>, looking: Looking, kinds: usize) -> Self {
        let work = Work { client, calls: Vec::new(), stage: Stage::Read, replies: Vec::new(), attempts: 0 };
        Runner::Store(Box::new(StoreRunner {
            store,
            work,
            looking,
            looks_where_it_should: false,
            backoff: None,
            counts: Counts::new(kinds),
        }))
    }

    /// Transactions may look that are [better off](Client::looks) so.
    pub(super) fn looks_where_it_should(mut self) -> Self {
        if let Runner::Store(runner) = &mut self {
            runner.looks_where_it_should = true;
        }
        self
    }

    /// Of the mode `sinfonia`.
    pub(super) fn on_items(
        store: Store,
        client: Box<dyn Client>,
        (seed, backoff): (u64, (u64, u64)),
        kinds: usize,
    ) -> Self {
        let mut runner = Runner::on_store(store, client, Looking::AtItems, kinds);
        if let Runner::Store(runner) = &mut runner {
            runner.backoff = Some(Backoff::new(seed, backoff));
        }
        runner
    }

    pub(super) fn on_mutex(client: Box<dyn MutexClient>, kinds: usize) -> Self {
        Runner::Mutex(Box::new(MutexRunner { client, counts: Counts::new(kinds) }))
    }

    pub(super) fn on_sqlite(runner: SqliteRunner) -> Self {
        Runner::Sqlite(Box::new(runner))
    }

    pub(super) fn on_redis(
        baseline: Arc<RedisBaseline>,
        client: Box<dyn Client>,
        seed: u64,
        kinds: usize,
    ) -> Self {
        Runner::Redis(Box::new(RedisRunner::new(baseline, client, seed, kinds)))
    }

    pub(super) async fn run(self, schedule: Schedule) -> Self {
        match self {
            Runner::Redis(mut runner) => {
                runner.run(&schedule).await;
                Runner::Redis(runner)
            }
            Runner::Store(mut runner) => {
                runner.run(&schedule).await;
                Runner::Store(runner)
            }
            Runner::Mutex(mut runner) => {
                runner.run(&schedule).await;
                Runner::Mutex(runner)
            }
            Runner::Sqlite(mut runner) => {
                // It waits for the disk and for others, on a thread of its own.
                let run = move || {
                    runner.run(&schedule);
                    runner
                };
                let ended = tokio::task::spawn_blocking(run).await;
                Runner::Sqlite(ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())))
            }
        }
    }

    pub(super) fn counts(&mut self) -> &mut Counts {
        match self {
            Runner::Store(runner) => &mut runner.counts,
            Runner::Mutex(runner) => &mut runner.counts,
            Runner::Sqlite(runner) => runner.counts(),
            Runner::Redis(runner) => &mut runner.counts,
        }
    }

    /// Hands over what it was told to its run.
    pub(super) fn finish(self) {
        match self {
            Runner::Store(runner) => runner.work.client.finish(),
            Runner::Mutex(runner) => runner.client.finish(),
            Runner::Sqlite(runner) => runner.finish(),
            Runner::Redis(runner) => runner.finish(),
        }
    }
}

impl MutexRunner {
    async fn run(&mut self, schedule: &Schedule) {
        let issue = schedule.pace.on_mutex();
        let mut began = Instant::now();
        loop {
            self.client.transaction(issue);
            match schedule
                .next(began, Outcome::Committed { kind: 0, attempts: Some(1) }, &mut self.counts)
                .await
            {
                Some(next) => began = next,
                None => return,
            }
        }
    }
}

impl StoreRunner {
    async fn run(&mut self, schedule: &Schedule) {
        let mut began = Instant::now();
        loop {
            let ended = self.transaction(schedule.pace).await;
            match schedule.next(began, ended, &mut self.counts).await {
                Some(next) => began = next,
                None => return,
            }
        }
    }

    async fn transaction(&mut self, pace: Pace) -> Outcome {
        if self.looking == Looking::AtItems {
            return self.mini_transaction(pace).await;
        }
        let work = &mut self.work;
        let kind = work.client.draw();
        work.calls.clear();
        work.stage = work.client.stage(&[], &mut work.calls);
        let (result, attempts) = if pace == Pace::Together && work.stage == Stage::Commit {
            let calls = work.calls.drain(..).map(|call| (call.key, call.op));
            let result = self.store.run_all(calls).await;
            (result.map(|replies| work.client.committed(&replies)), None)
        } else {
            work.attempts = 0;
            let looks = self.looks_where_it_should && work.client.looks();
            let looking = if looks { Looking::AtAnswers } else { self.looking };
            let shared = Mutex::new(&mut *work);
            let body = |tx| attempt(tx, &shared, (pace, looking));
            let result = self.store.tx().options(looking.options()).run(body).await;
            // Those of the last stage, if it ran with the commit.
            let told = |last: Option<AtCommit>| {
                if let Some(last) = last {
                    work.replies = last.replies()?.into_inner();
                }
                work.client.committed(&work.replies);
                Ok(())
            };
            (result.and_then(told), Some(work.attempts))
        };
        match result {
            Ok(()) => Outcome::Committed { kind, attempts },
            Err(Error::Aborted(_)) if work.client.rolls_back() => {
                work.client.gave_up();
                Outcome::Committed { kind, attempts }
            }
            Err(error) => self.ended_badly(error),
        }
    }

    fn ended_badly(&mut self, error: Error) -> Outcome {
        let client = &mut self.work.client;
        if matches!(error, Error::Unknown(_)) {
            client.unknown();
            return Outcome::Aborted;
        }
        client.gave_up();
        if error.is_retryable() {
            return Outcome::Aborted;
        }
        self.counts.broken.get_or_insert_with(|| error.to_string());
        Outcome::Broken
    }
}

/// No guard is held across an await, and one task runs a runner: the lock is always free.
fn locked<'a, 'b>(work: &'a Mutex<&'b mut Work>) -> MutexGuard<'a, &'b mut Work> {
    work.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One attempt at a transaction whose first stage is in `calls`.
async fn attempt(
    tx: Tx,
    shared: &Mutex<&mut Work>,
    (pace, looking): (Pace, Looking),
) -> Result<Option<AtCommit>, Abort> {
    let (mut calls, mut stage) = locked(shared).begin();
    loop {
        if stage == Stage::Commit && locked(shared).client.rolls_back() {
            return Err(Abort::because("its user gave it up"));
        }
        let goes_along = matches!(looking, Looking::Never | Looking::AtAnswers) && pace == Pace::Together;
        if stage == Stage::Commit && goes_along {
            return Ok(Some(last(&tx, calls)));
        }
        if looking == Looking::AtValues {
            values(&tx, &calls).await?;
        }
        // They go out with the stage's own.
        let asked = match (looking, pace) {
            (Looking::AtItems, Pace::Together | Pace::Pause(_)) => items::ask(&tx, &calls),
            _ => Vec::new(),
        };
        let replies = match pace {
            Pace::Together => together(&tx, &calls).await?,
            Pace::Pause(time) => {
                let replies = together(&tx, &calls).await?;
                think(time).await;
                replies
            }
            Pace::Interactive(time) => one_by_one(&tx, &calls, (time, looking)).await?,
        };
        for answer in asked {
            answer.await?;
        }
        if stage == Stage::Commit {
            let mut work = locked(shared);
            (work.calls, work.replies) = (calls, replies);
            return Ok(None);
        }
        calls.clear();
        let thinks = {
            let client = &mut locked(shared).client;
            stage = client.stage(&replies, &mut calls);
            client.thinks()
        };
        think_between(thinks).await;
        if let Pace::Interactive(time) = pace {
            think(time).await;
        }
    }
}

impl Work {
    /// The first stage, of the first attempt or of another one.
    fn begin(&mut self) -> (Vec<Call>, Stage) {
        self.attempts += 1;
        if self.attempts > 1 {
            self.client.restart();
            self.calls.clear();
            self.stage = self.client.stage(&[], &mut self.calls);
        }
        (std::mem::take(&mut self.calls), self.stage)
    }
}

/// The last stage goes out with the commit, and is answered with it.
fn last(tx: &Tx, calls: Vec<Call>) -> AtCommit {
    let last = tx.at_commit();
    for call in calls {
        let _ = last.push::<Reply>(call.key, call.op);
    }
    last
}

/// All go out together. An operation that answers nothing is left to the commit, where it takes its lock,
/// unless an operation with an answer follows it on the same record.
async fn together(tx: &Tx, calls: &[Call]) -> Result<Vec<Reply>, Abort> {
    let mut replies = vec![Reply::Ok; calls.len()];
    let mut answers = SmallVec::<[_; 4]>::new();
    for (at, call) in calls.iter().enumerate() {
        if call.op.returns() {
            answers.push((at, tx.execute(call.key.clone(), call.op.clone())));
        } else {
            tx.issue(call.key.clone(), call.op.clone())?;
        }
    }
    for (at, answer) in answers {
        replies[at] = answer.await?;
    }
    Ok(replies)
}

/// Each operation is done before the next one is issued; the application works in between.
async fn one_by_one(
    tx: &Tx,
    calls: &[Call],
    (time, looking): (Duration, Looking),
) -> Result<Vec<Reply>, Abort> {
    let mut replies = Vec::with_capacity(calls.len());
    for (at, call) in calls.iter().enumerate() {
        if at > 0 {
            think(time).await;
        }
        if looking == Looking::AtItems {
            for answer in items::ask(tx, std::slice::from_ref(call)) {
                answer.await?;
            }
        }
        replies.push(if call.op.returns() {
            tx.execute(call.key.clone(), call.op.clone()).await?
        } else {
            tx.issue(call.key.clone(), call.op.clone())?;
            Reply::Ok
        });
    }
    Ok(replies)
}
