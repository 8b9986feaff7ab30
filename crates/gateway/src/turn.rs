//! A turn with locks in the store: a transaction that WATCH opens and EXEC commits (G7 of docs/gateway.md).
//!
//! It is a task of its own. Dropping the turn rolls it back. It ends by itself when its time is over, or when it is given way: then
//! the connection still has what WATCH saw, and EXEC checks that.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use claret::{Store, Tx, TxOptions};
use claret_commands::{Answer, Command, Plan, Told};
use claret_planted::{Bug, is_planted};
use claret_types::{Bytes, KeyspaceOp, Reply};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::fault::{Ended, Fault};
use crate::work::Work;

/// What is done within a turn.
enum Step {
    /// A command that only reads.
    Read {
        command: &'static Command,
        words: Vec<Bytes>,
        answer: oneshot::Sender<Answer>,
    },
    Exec(Plan),
}

/// See the module's text.
pub(crate) struct Turn {
    /// Sorted.
    keys: Rc<[Bytes]>,
    steps: mpsc::UnboundedSender<Step>,
    task: Option<JoinHandle<Result<Told, Fault>>>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

/// What the task begins with.
struct Begin {
    keys: Rc<[Bytes]>,
    steps: mpsc::UnboundedReceiver<Step>,
    begun: oneshot::Sender<Vec<Reply>>,
}

impl Turn {
    /// Takes locks on keys, which are sorted, all at once, and answers with the turn and what each of them is, once it has them all. `None` when that
    /// takes too long. `end` is called when they are gone.
    pub(crate) async fn take(
        store: &Store,
        work: &Work,
        keys: Rc<[Bytes]>,
        (time, wait): (Duration, Duration),
        end: impl FnOnce() + 'static,
    ) -> Option<(Turn, Vec<Reply>)> {
        let (steps, receiver) = mpsc::unbounded_channel();
        let (sender, begun) = oneshot::channel();
        let begin = Begin { keys: Rc::clone(&keys), steps: receiver, begun: sender };
        let (store, work, end) = (store.clone(), work.clone(), AtEnd(Some(end)));
        let task = tokio::task::spawn_local(async move {
            let ended = run(store, &work, begin, (time, wait)).await;
            drop(end);
            ended
        });
        let turn = Turn { keys, steps, task: Some(task) };
        let versions = timeout(time, begun).await.ok()?.ok()?;
        Some((turn, versions))
    }

    pub(crate) fn holds(&self, key: &Bytes) -> bool {
        self.has(key) && !self.is_over()
    }

    fn has(&self, key: &Bytes) -> bool {
        self.keys.binary_search(key).is_ok()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.task.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Carries out a command that only reads, within it. `None` if it is over, or ends because the command fails.
    pub(crate) async fn read(&self, command: &'static Command, words: Vec<Bytes>) -> Option<Answer> {
        let (answer, answered) = oneshot::channel();
        self.steps.send(Step::Read { command, words, answer }).ok()?;
        answered.await.ok()
    }

    /// Carries out a plan and commits; `None` if it was over before. What the plan expects of keys that it has locks on is so.
    pub(crate) async fn exec(mut self, mut plan: Plan) -> Option<Ended> {
        plan.trust(|key| self.has(key) || is_planted(Bug::TurnTrustsAll));
        self.steps.send(Step::Exec(plan)).ok()?;
        match self.task.take()?.await {
            Ok(Err(Fault::TurnOver)) => None,
            // It panicked, or the runtime ends: who knows how far it came.
            Err(_) => Some(Err(Fault::told(
                "UNKNOWN the gateway failed while it carried this out; look whether it was done",
            ))),
            Ok(ended) => Some(ended.and_then(|told| Ok(told.all()?))),
        }
    }
}

/// Calls something when it is dropped: also if its task is ended from outside.
struct AtEnd<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        if let Some(act) = self.0.take() {
            act();
        }
    }
}

async fn run(
    store: Store,
    work: &Work,
    begin: Begin,
    (time, wait): (Duration, Duration),
) -> Result<Told, Fault> {
    let begin = Rc::new(RefCell::new(Some(begin)));
    // Waiting for the keys, holding them, and the commit. As long as it has not all of them, it may have to give way.
    let options = TxOptions::new().deadline((wait * 3 / 4).max(3 * time));
    store
        .tx()
        .options(options)
        .try_run(|tx| {
            let begin = Rc::clone(&begin);
            async move { turn(&tx, work, &begin, time).await }
        })
        .await
}

async fn turn(tx: &Tx, work: &Work, begin: &RefCell<Option<Begin>>, time: Duration) -> Result<Told, Fault> {
    let Some(keys) = begin.borrow().as_ref().map(|begin| Rc::clone(&begin.keys)) else {
        // Its client has seen what it had before.
        return Err(Fault::TurnOver);
    };
    // All are asked before the first is waited for.
    let ask = |key: &Bytes| tx.execute_for_update(key.clone(), KeyspaceOp::Version.into());
    let asked: Vec<_> = keys.iter().map(ask).collect();
    let mut versions = Vec::with_capacity(asked.len());
    for version in asked {
        versions.push(version.await?);
    }
    let Some(Begin { mut steps, begun, .. }) = begin.borrow_mut().take() else { return Err(Fault::TurnOver) };
    begun.send(versions).map_err(|_| Fault::TurnOver)?;
    let until = Instant::now() + time;
    loop {
        match timeout_at(until, steps.recv()).await {
            Err(_) | Ok(None) => return Err(Fault::TurnOver),
            Ok(Some(Step::Read { command, words, answer })) => {
                let answered = command.run(tx, work, &words).await?;
                let _ = answer.send(answered);
            }
            Ok(Some(Step::Exec(plan))) => return Ok(plan.run(tx, work).await?),
        }
    }
}
