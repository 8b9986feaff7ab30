//! A client at work: one transaction after another until the slice is over.
//!
//! A session lives over all slices of its mode; between them it has no transaction. One thread runs a
//! session at a time. The loop reads the clock once for each transaction where a session has its thread for
//! itself, and twice where it gives its turn to others after each: the same in all modes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use claret::{Abort, Reply, Store, TransactionError, Tx};
use smallvec::SmallVec;

use super::measure::Counted;
use super::mutex::ByHandClient;
use super::pace::{Pace, give_turn, think};
use super::rival::{Rival, RivalSession};
use crate::workload::{Call, Client, Stage};

/// When a session stops, and whether it shares its thread.
#[derive(Clone, Debug)]
pub(super) struct Shift {
    pub(super) deadline: Instant,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) shares_thread: bool,
    pub(super) pace: Pace,
}

/// A client, whatever it runs on.
pub(super) enum Session {
    Store(Box<StoreSession>),
    ByHand(Box<HandSession>),
    Rival(Box<RivalSession>),
}

pub(super) struct StoreSession {
    store: Store,
    work: Work,
    counted: Counted,
}

/// What the attempts of a transaction share.
struct Work {
    client: Box<dyn Client>,
    calls: Vec<Call>,
    stage: Stage,
    replies: Vec<Reply>,
    attempts: u32,
}

pub(super) struct HandSession {
    client: Box<dyn ByHandClient>,
    counted: Counted,
}

/// How a transaction ended, for the counts.
#[derive(Clone, Copy)]
pub(super) enum Ended {
    Committed(usize),
    Aborted,
    /// The run cannot go on.
    Broken,
}

impl Session {
    pub(super) fn on_store(store: Store, client: Box<dyn Client>, kinds: usize) -> Self {
        let work = Work { client, calls: Vec::new(), stage: Stage::Read, replies: Vec::new(), attempts: 0 };
        Session::Store(Box::new(StoreSession { store, work, counted: Counted::new(kinds) }))
    }

    pub(super) fn by_hand(client: Box<dyn ByHandClient>, kinds: usize) -> Self {
        Session::ByHand(Box::new(HandSession { client, counted: Counted::new(kinds) }))
    }

    pub(super) fn of_rival(rival: Arc<Rival>, client: Box<dyn Client>, seed: u64, kinds: usize) -> Self {
        Session::Rival(Box::new(RivalSession::new(rival, client, seed, kinds)))
    }

    pub(super) async fn run(self, shift: Shift) -> Self {
        match self {
            Session::Rival(mut session) => {
                session.run(&shift).await;
                Session::Rival(session)
            }
            Session::Store(mut session) => {
                session.run(&shift).await;
                Session::Store(session)
            }
            Session::ByHand(mut session) => {
                session.run(&shift).await;
                Session::ByHand(session)
            }
        }
    }

    pub(super) fn counted(&mut self) -> &mut Counted {
        match self {
            Session::Store(session) => &mut session.counted,
            Session::ByHand(session) => &mut session.counted,
            Session::Rival(session) => &mut session.counted,
        }
    }

    /// Hands over what it was told to its run.
    pub(super) fn finish(self) {
        match self {
            Session::Store(session) => session.work.client.finish(),
            Session::ByHand(session) => session.client.finish(),
            Session::Rival(session) => session.finish(),
        }
    }
}

impl Shift {
    /// Notes how a transaction ended. When the next one begins; `None` when there is to be none.
    pub(super) async fn next(&self, began: Instant, ended: Ended, counted: &mut Counted) -> Option<Instant> {
        let now = Instant::now();
        let in_time = now < self.deadline;
        match ended {
            Ended::Committed(kind) => counted.committed(kind, now - began, in_time),
            Ended::Aborted => counted.aborts += 1,
            Ended::Broken => return None,
        }
        if !in_time || self.stop.load(Ordering::Relaxed) {
            return None;
        }
        if !self.shares_thread {
            return Some(now);
        }
        give_turn().await;
        Some(Instant::now())
    }
}

impl HandSession {
    async fn run(&mut self, shift: &Shift) {
        let issue = shift.pace.by_hand();
        let mut began = Instant::now();
        loop {
            self.client.transaction(issue);
            match shift.next(began, Ended::Committed(0), &mut self.counted).await {
                Some(next) => began = next,
                None => return,
            }
        }
    }
}

impl StoreSession {
    async fn run(&mut self, shift: &Shift) {
        let mut began = Instant::now();
        loop {
            let ended = self.transaction(shift.pace).await;
            match shift.next(began, ended, &mut self.counted).await {
                Some(next) => began = next,
                None => return,
            }
        }
    }

    async fn transaction(&mut self, pace: Pace) -> Ended {
        let work = &mut self.work;
        let kind = work.client.draw();
        work.calls.clear();
        work.stage = work.client.stage(&[], &mut work.calls);
        let result = if pace == Pace::Together && work.stage == Stage::Commit {
            let calls = work.calls.drain(..).map(|call| (call.key, call.op));
            self.store.run_all(calls).await.map(|replies| work.client.committed(&replies))
        } else {
            work.attempts = 0;
            let shared = Mutex::new(&mut *work);
            let result = self.store.transaction(|tx| attempt(tx, &shared, pace)).await;
            result.map(|()| work.client.committed(&work.replies))
        };
        match result {
            Ok(()) => Ended::Committed(kind),
            Err(error) => self.ended_badly(error),
        }
    }

    fn ended_badly(&mut self, error: TransactionError) -> Ended {
        let client = &mut self.work.client;
        if matches!(error, TransactionError::Unknown) {
            client.unknown();
            return Ended::Aborted;
        }
        client.gave_up();
        if error.is_retryable() {
            return Ended::Aborted;
        }
        self.counted.broken.get_or_insert_with(|| error.to_string());
        Ended::Broken
    }
}

/// No guard is held across an await, and one task runs a session: the lock is always free.
fn locked<'a, 'b>(work: &'a Mutex<&'b mut Work>) -> MutexGuard<'a, &'b mut Work> {
    work.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One attempt at a transaction whose first stage is in `calls`.
async fn attempt(tx: Tx, shared: &Mutex<&mut Work>, pace: Pace) -> Result<(), Abort> {
    let (mut calls, mut stage) = locked(shared).begin();
    loop {
        let replies = match pace {
            Pace::Together => together(&tx, &calls).await?,
            Pace::Pause(time) => {
                let replies = together(&tx, &calls).await?;
                think(time).await;
                replies
            }
            Pace::Interactive(time) => one_by_one(&tx, &calls, time).await?,
        };
        if stage == Stage::Commit {
            let mut work = locked(shared);
            (work.calls, work.replies) = (calls, replies);
            return Ok(());
        }
        calls.clear();
        stage = locked(shared).client.stage(&replies, &mut calls);
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

/// All go out together. An operation that answers nothing is left to the commit, where it takes its lock (R5),
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
async fn one_by_one(tx: &Tx, calls: &[Call], time: Duration) -> Result<Vec<Reply>, Abort> {
    let mut replies = Vec::with_capacity(calls.len());
    for (at, call) in calls.iter().enumerate() {
        if at > 0 {
            think(time).await;
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
