//! EXEC, apart from its connection, so that it can be told that its client has left: where it is carried out, and in which turn.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use claret::errors::CommitError;
use claret::{Caller, Error};
use claret_commands::Plan;
use claret_planted::{Bug, is_planted};

use crate::fault::Fault;
use crate::metrics::Metrics;
use crate::passthrough;
use crate::place;
use crate::queue::{Queue, Queued};
use crate::resp::Protocol;
use crate::session::Session;
use crate::shared::Shared;
use crate::transactions::{self, Ended};
use crate::turns::{Id, Turns};
use crate::watch::Watch;
use crate::work::Work;

/// What an EXEC needs.
pub(crate) struct Exec {
    pub(crate) shared: Rc<Shared>,
    pub(crate) session: Rc<Session>,
    pub(crate) protocol: Protocol,
    pub(crate) caller: Caller,
    pub(crate) id: Id,
    /// What was queued.
    pub(crate) queue: Queue,
    /// The same as it is carried out, if it is no node's.
    pub(crate) plan: Option<Plan>,
    /// Whose it is.
    pub(crate) work: Work,
}

impl Exec {
    /// Carries it out. `watch`: what is watched. Its turn, if it has one, ends with it.
    pub(crate) async fn run(self, watch: &mut Watch) -> Ended {
        let Some(plan) = self.plan else {
            watch.turn = None;
            let seen = (watch.seen(), watch.expected());
            let at_most = passthrough::Patience::new(self.shared.times.wait, &self.caller);
            let done = passthrough::exec(&self.session, self.protocol, &self.queue, &seen, &at_most);
            return Box::pin(done).await;
        };
        let store = self.shared.store_for(&self.session, &self.caller).await?;
        if let Some(id) = self.queue.once.as_ref().filter(|_| !is_planted(Bug::IdForgotten)) {
            watch.turn = None;
            return Box::pin(transactions::once(&store, id, &plan, self.protocol, &self.work)).await;
        }
        let (expected, began) = (plan.expected().to_vec(), Instant::now());
        let ended = match watch.turn.take() {
            Some(turn) => {
                let again = plan.again();
                match Box::pin(turn.exec(plan)).await {
                    Some(ended) if !is_given_way(&ended) => ended,
                    // It was over, or has given way, and nothing of it was done: what WATCH saw may still be so. It has what is left
                    // of its time.
                    tried => {
                        Metrics::count(&self.shared.metrics.watch_given_up);
                        let left = self.shared.deadline().saturating_sub(began.elapsed());
                        match tried {
                            Some(too_late) if left.is_zero() || self.caller.is_gone() => too_late,
                            _ => {
                                Ok(again.commit(&self.shared.for_the_rest(&store, began), &self.work).await?)
                            }
                        }
                    }
                }
            }
            None => {
                let turns = &self.session.turns;
                let time = self.shared.times.passing();
                match pass_locks(turns, (self.id, &self.caller), &self.queue.all, time).await? {
                    true => plan.commit(&self.shared.for_the_rest(&store, began), &self.work).await,
                    false => plan.commit(&store, &self.work).await,
                }
                .map_err(Fault::from)
            }
        };
        match ended {
            Ok(done) => Ok(done),
            failed => Box::pin(transactions::change_or(failed, &store, expected)).await,
        }
    }
}

/// Waits while a connection of this gateway has locks on keys that these commands use: in the store it would wait for them, too, and hold
/// others' keys meanwhile. As [`place::pass`].
async fn pass_locks(
    turns: &RefCell<Turns>,
    whom: (Id, &Caller),
    queued: &[Queued],
    time: Duration,
) -> Result<bool, Fault> {
    let keys = || queued.iter().flat_map(|queued| queued.command.keys_in(queued.words()));
    place::pass(turns, whom, keys, time).await
}

/// Whether a transaction had to give way, or was too late: nothing of it was done.
fn is_given_way(ended: &Ended) -> bool {
    matches!(
        ended,
        Err(Fault::Store(
            Error::Restart | Error::Commit(CommitError::Attempts { .. } | CommitError::Deadline { .. })
        ))
    )
}
