//! One session: at most one transaction at a time, driven from outside through the closure that
//! [`Store::tx`] runs.
//!
//! The closure takes [`Step`]s from one channel and puts answers into another; its future is this session's task.
//! It is polled by [`Session::run`], whenever its waker was called, on the thread of the shell: with an embedded
//! store everything that can happen to a session is the consequence of some line, so that nothing needs to run
//! in between, and the same lines give the same output in the same order. On a cluster wakers are called by the
//! thread that reads what the servers say, and the shell waits a moment for it.
//!
//! A transaction is attempted once: what a person has read cannot be read again behind their back. Dropping the
//! future aborts it (and leaves its queue, if it waits).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use claret::{
    Abort, Error, Savepoint, Store, Tx, TxOptions,
    errors::{ExecuteError, HandleError, NestError},
};
use claret_types::{Bytes, Operation, Reply};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A person at a prompt is not in a hurry, and a waiter shall not time out under their eyes.
const PATIENCE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// What happened to the statement that a session was working on.
#[derive(Debug)]
pub(crate) struct Happened {
    /// The statement.
    pub(crate) text: String,
    /// Whether it had to wait, and the user was told so.
    pub(crate) waited: bool,
    /// What came of it.
    pub(crate) outcome: Outcome,
}

/// What came of a statement.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// An answer.
    Answer(Reply),
    /// The operation will be done at commit.
    Queued,
    /// It was not done, and the transaction goes on.
    Refused(Error),
    /// The transaction is committed.
    Committed,
    /// The transaction is over, and nothing of it was applied.
    Failed {
        /// Why.
        error: Error,
        /// Whether it was one of BEGIN and COMMIT, not a single operation.
        of_many: bool,
    },
}

/// Something to do, in a transaction or as one of its own.
#[derive(Debug)]
pub(crate) enum Deed {
    /// An operation on a key.
    Operation(Bytes, Operation),
    /// `RENAME`: from one key to another.
    Rename(Bytes, Bytes),
    /// `SAVEPOINT`, by its name.
    Savepoint(String),
    /// `ROLLBACK TO` the latest savepoint of this name.
    RollbackTo(String),
    /// `RELEASE` it, and those made later.
    Release(String),
    /// `SETTLE`: execute what waits for the commit.
    Settle,
}

/// The savepoints of a transaction that are open, with their names.
type Savepoints = Vec<(String, Savepoint)>;

impl Deed {
    async fn within(self, tx: &Tx, points: &mut Savepoints) -> Result<Reply, Error> {
        match self {
            Deed::Savepoint(name) => {
                points.push((name, tx.savepoint()?));
                Ok(Reply::Ok)
            }
            Deed::RollbackTo(name) => {
                let at = place_of(points, &name)?;
                tx.rollback_to(&points[at].1)?;
                points.truncate(at + 1);
                Ok(Reply::Ok)
            }
            Deed::Release(name) => {
                let at = place_of(points, &name)?;
                tx.release(&points[at].1)?;
                points.truncate(at);
                Ok(Reply::Ok)
            }
            Deed::Settle => tx.settle().await.map(|()| Reply::Ok),
            Deed::Operation(key, op) if op.returns() => tx.execute(key, op).await,
            Deed::Operation(key, op) => tx.issue(key, op).map(|()| Reply::Ok),
            Deed::Rename(from, to) => tx.rename(from, to).await.map(Reply::bool),
        }
    }

    async fn alone(self, store: &Store) -> Result<Reply, Error> {
        match self {
            Deed::Operation(key, op) => {
                let mut replies = store.run_all([(key, op)]).await?;
                Ok(replies.pop().expect("one operation, one answer"))
            }
            Deed::Rename(from, to) => store.rename(from, to).await.map(Reply::bool),
            // The shell lets none of them in without a transaction.
            Deed::Savepoint(_) | Deed::RollbackTo(_) | Deed::Release(_) | Deed::Settle => {
                Err(Error::Nest(NestError::NoSavepoint))
            }
        }
    }
}

/// Where the latest savepoint of a name is.
fn place_of(points: &Savepoints, name: &str) -> Result<usize, Error> {
    points.iter().rposition(|(known, _)| known == name).ok_or(Error::Nest(NestError::NoSavepoint))
}

#[derive(Debug)]
enum Step {
    Deed(Deed),
    Commit,
}

/// Set by the task's waker, which also rouses the shell, if it waits for a server.
#[derive(Debug)]
struct Woken {
    is_woken: AtomicBool,
    shell: Thread,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.shell.unpark();
    }
}

/// The statement whose answer is awaited.
#[derive(Debug)]
struct Pending {
    text: String,
    told: bool,
    void: bool,
}

/// A transaction in progress.
struct Work {
    future: Pin<Box<dyn Future<Output = Result<(), Error>>>>,
    woken: Arc<Woken>,
    steps: UnboundedSender<Step>,
    answers: UnboundedReceiver<Result<Reply, Error>>,
    pending: Option<Pending>,
    /// Which types it used on which keys.
    used: Vec<(Bytes, &'static str)>,
    operations: usize,
    of_many: bool,
}

/// One session. See the module's text.
#[derive(Default)]
pub(crate) struct Session {
    work: Option<Work>,
}

impl Session {
    // --- getters ---

    /// Whether a transaction is open (single operations do not count).
    pub(crate) fn is_open(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.of_many)
    }

    /// Whether its task has something to do.
    pub(crate) fn is_woken(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.woken.is_woken.load(Ordering::Acquire))
    }

    /// How many operations the transaction in progress has.
    pub(crate) fn operations(&self) -> usize {
        self.work.as_ref().map_or(0, |work| work.operations)
    }

    /// The statement that it waits with.
    pub(crate) fn waits_with(&self) -> Option<&str> {
        self.work.as_ref()?.pending.as_ref().map(|pending| pending.text.as_str())
    }

    /// The type that the transaction in progress used last on a key.
    pub(crate) fn used_on(&self, key: &Bytes) -> Option<&'static str> {
        let used = &self.work.as_ref()?.used;
        used.iter().rev().find(|(known, _)| known == key).map(|(_, kind)| *kind)
    }

    // --- what the user does; only when it does not wait ---

    /// Opens a transaction.
    pub(crate) fn begin(&mut self, store: &Store, options: TxOptions) {
        let (steps, orders) = unbounded_channel();
        let (replies, answers) = unbounded_channel();
        let future = Box::pin(transaction(store.clone(), options, orders, replies));
        self.work = Some(Work::new(future, steps, answers, true));
    }

    /// Does something, in the open transaction or as one of its own.
    pub(crate) fn issue(&mut self, store: &Store, deed: Deed, text: String) {
        let open = self.work.is_some();
        let is_void = matches!(&deed, Deed::Operation(_, op) if !op.returns());
        let pending = Pending { text, told: false, void: open && is_void };
        let work = if open {
            let work = self.work.as_mut().expect("just seen");
            if let Deed::Operation(key, op) = &deed {
                work.used.push((key.clone(), op.type_info().name));
            }
            work.tell(Step::Deed(deed));
            work
        } else {
            let (steps, _) = unbounded_channel();
            let (replies, answers) = unbounded_channel();
            let future = Box::pin(single(store.clone(), deed, replies));
            self.work.insert(Work::new(future, steps, answers, false))
        };
        work.operations += 1;
        work.pending = Some(pending);
    }

    /// Commits the open transaction.
    pub(crate) fn commit(&mut self, text: String) {
        let work = self.work.as_mut().expect("a transaction is open");
        work.pending = Some(Pending { text, told: false, void: false });
        work.tell(Step::Commit);
    }

    /// Drops whatever is in progress.
    pub(crate) fn abort(&mut self) {
        self.work = None;
    }

    /// Takes note that the user was told of the wait.
    pub(crate) fn told(&mut self) {
        if let Some(pending) = self.work.as_mut().and_then(|work| work.pending.as_mut()) {
            pending.told = true;
        }
    }

    // --- its task ---

    /// Runs the task as far as it goes, if it was woken. Returns what came of the statement in progress.
    pub(crate) fn run(&mut self) -> Option<Happened> {
        let work = self.work.as_mut()?;
        let waker = Waker::from(Arc::clone(&work.woken));
        let mut ended = None;
        while ended.is_none() && work.woken.is_woken.swap(false, Ordering::Acquire) {
            if let Poll::Ready(result) = work.future.as_mut().poll(&mut Context::from_waker(&waker)) {
                ended = Some(result);
            }
        }
        let answer = work.answers.try_recv().ok();
        let of_many = work.of_many;
        let outcome = match (ended, answer) {
            (None, None) => return None,
            (Some(Err(error)), _) => Outcome::Failed { error, of_many },
            (_, Some(Err(error))) => Outcome::Refused(error),
            (_, Some(Ok(_))) if work.pending.as_ref().is_some_and(|pending| pending.void) => Outcome::Queued,
            (_, Some(Ok(reply))) => Outcome::Answer(reply),
            (Some(Ok(())), None) => Outcome::Committed,
        };
        let pending = work.pending.take();
        if matches!(outcome, Outcome::Failed { .. } | Outcome::Committed) || !of_many {
            self.work = None;
        }
        let Pending { text, told, .. } = pending.expect("it ends, or answers, only what it was asked");
        Some(Happened { text, waited: told, outcome })
    }
}

impl Work {
    fn new(
        future: Pin<Box<dyn Future<Output = Result<(), Error>>>>,
        steps: UnboundedSender<Step>,
        answers: UnboundedReceiver<Result<Reply, Error>>,
        of_many: bool,
    ) -> Self {
        let woken = Woken { is_woken: AtomicBool::new(true), shell: std::thread::current() };
        let woken = Arc::new(woken);
        Work { future, woken, steps, answers, pending: None, used: Vec::new(), operations: 0, of_many }
    }

    fn tell(&self, step: Step) {
        self.steps.send(step).expect("the transaction listens until it ends");
    }
}

/// A transaction that does as it is told.
async fn transaction(
    store: Store,
    options: TxOptions,
    steps: UnboundedReceiver<Step>,
    answers: UnboundedSender<Result<Reply, Error>>,
) -> Result<(), Error> {
    let mut steps = Some(steps);
    store
        .tx()
        .options(options)
        .run(|tx| {
            let steps = steps.take().expect("it is attempted once");
            follow(tx, steps, answers.clone())
        })
        .await
}

async fn follow(
    tx: Tx,
    mut steps: UnboundedReceiver<Step>,
    answers: UnboundedSender<Result<Reply, Error>>,
) -> Result<(), Abort> {
    let mut points = Savepoints::new();
    loop {
        match steps.recv().await {
            Some(Step::Deed(deed)) => {
                let done = deed.within(&tx, &mut points).await;
                // What cannot be done ends no more than what came after the latest savepoint.
                let goes_on = match &done {
                    Err(Error::Nest(NestError::NoSavepoint | NestError::TooDeep { .. })) => true,
                    Err(Error::Execute(
                        ExecuteError::Invalid { .. }
                        | ExecuteError::Value { .. }
                        | ExecuteError::TooManyCalls { .. },
                    )) => !points.is_empty(),
                    _ => false,
                };
                let answer = if goes_on { done } else { Ok(done?) };
                if answers.send(answer).is_err() {
                    return Err(Abort::because("the session is gone"));
                }
            }
            Some(Step::Commit) => return Ok(()),
            None => return Err(Abort::because("the session is gone")),
        }
    }
}

/// A transaction of its own.
async fn single(
    store: Store,
    deed: Deed,
    answers: UnboundedSender<Result<Reply, Error>>,
) -> Result<(), Error> {
    answers.send(Ok(deed.alone(&store).await?)).map_err(|_| Error::Handle(HandleError::Finished))
}

/// Of a transaction that a person makes.
pub(crate) fn once() -> TxOptions {
    TxOptions::new().attempts(1).deadline(PATIENCE)
}

/// How long the store lets single operations wait.
pub(crate) fn patient() -> TxOptions {
    TxOptions::new().deadline(PATIENCE)
}
