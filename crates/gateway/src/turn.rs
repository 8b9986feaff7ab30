//! A turn on hot keys: a transaction that WATCH opens and EXEC commits (G7 of docs/gateway.md).
//!
//! It is a task of its own. Dropping the turn rolls it back. It ends by itself when its time is over, or when it is given way: then
//! the connection still has what WATCH saw, and EXEC checks that, in another turn if it gets one soon.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use claret::{Store, Tx, TxOptions};
use claret_types::{Bytes, Operation, Reply};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::fault::Fault;
use crate::transactions::{Ended, Plan, Told, digest};

/// What is done within a turn.
enum Step {
    Read { key: Bytes, op: Operation, answer: oneshot::Sender<Reply> },
    Exec(Plan),
}

/// See the module's text.
pub(crate) struct Turn {
    keys: Vec<Bytes>,
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
    keys: Vec<Bytes>,
    steps: mpsc::UnboundedReceiver<Step>,
    begun: oneshot::Sender<Vec<Reply>>,
}

impl Turn {
    /// Queues for keys, and answers with the turn and what each of them is, once it has them all. `None` when that takes too long.
    pub(crate) async fn take(store: &Store, keys: Vec<Bytes>, time: Duration) -> Option<(Turn, Vec<Reply>)> {
        let (steps, receiver) = mpsc::unbounded_channel();
        let (sender, begun) = oneshot::channel();
        let begin = Begin { keys: keys.clone(), steps: receiver, begun: sender };
        let task = tokio::task::spawn_local(run(store.clone(), begin, time));
        let turn = Turn { keys, steps, task: Some(task) };
        let digests = timeout(time, begun).await.ok()?.ok()?;
        Some((turn, digests))
    }

    pub(crate) fn keys(&self) -> &[Bytes] {
        &self.keys
    }

    pub(crate) fn holds(&self, key: &Bytes) -> bool {
        self.keys.contains(key) && !self.is_over()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.task.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Reads a key within it; `None` if it is over.
    pub(crate) async fn read(&self, key: Bytes, op: Operation) -> Option<Reply> {
        let (answer, answered) = oneshot::channel();
        self.steps.send(Step::Read { key, op, answer }).ok()?;
        answered.await.ok()
    }

    /// Carries out a plan and commits; `None` if it was over before.
    pub(crate) async fn exec(mut self, plan: Plan) -> Option<Ended> {
        self.steps.send(Step::Exec(plan)).ok()?;
        match self.task.take()?.await {
            Ok(Err(Fault::TurnOver)) => None,
            // It panicked, or the runtime ends: who knows how far it came.
            Err(_) => Some(Err(Fault::told(
                "UNKNOWN the gateway failed while it carried this out; look whether it was done",
            ))),
            Ok(ended) => Some(ended.and_then(Told::all)),
        }
    }
}

async fn run(store: Store, begin: Begin, time: Duration) -> Result<Told, Fault> {
    let begin = Rc::new(RefCell::new(Some(begin)));
    // Waiting for the keys, and holding them; and room for the commit.
    let options = TxOptions::new().attempts(1).deadline(2 * time + Duration::from_secs(5));
    store
        .try_transaction_with(options, |tx| {
            let begin = begin.borrow_mut().take();
            async move {
                match begin {
                    Some(begin) => turn(&tx, begin, time).await,
                    None => Err(Fault::TurnOver),
                }
            }
        })
        .await
}

async fn turn(tx: &Tx, begin: Begin, time: Duration) -> Result<Told, Fault> {
    let Begin { keys, mut steps, begun } = begin;
    let mut digests = Vec::new();
    for key in keys {
        digests.push(tx.execute_for_update(key, digest()).await?);
    }
    begun.send(digests).map_err(|_| Fault::TurnOver)?;
    let until = Instant::now() + time;
    loop {
        match timeout_at(until, steps.recv()).await {
            Err(_) | Ok(None) => return Err(Fault::TurnOver),
            Ok(Some(Step::Read { key, op, answer })) => {
                let reply = tx.execute(key, op).await?;
                let _ = answer.send(reply);
            }
            Ok(Some(Step::Exec(plan))) => return plan.run(tx).await,
        }
    }
}
