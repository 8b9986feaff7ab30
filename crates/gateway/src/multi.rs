//! MULTI, EXEC, DISCARD and UNWATCH of a client (G3 to G8 of docs/gateway.md).

use std::rc::Rc;
use std::time::Instant;

use claret::errors::{CommitError, ExecuteError};
use claret::{Caller, Error, Store};
use claret_commands::{Answer, Plan};
use claret_planted::{Bug, is_planted};
use claret_types::{Bytes, Operation};

use crate::client::Client;
use crate::fault::{Ended, Fault};
use crate::metrics::Metrics;
use crate::once::once;
use crate::passthrough;
use crate::place::{self, Place};
use crate::queue::{Queue, Queued};
use crate::resp::Protocol;
use crate::session::Session;
use crate::shared::Shared;
use crate::turns::{Id, Tries};
use crate::watch::Watch;
use crate::work::Work;

impl Client {
    pub(crate) fn multi(&mut self) -> Answer {
        if let Some(queue) = &mut self.state.queue {
            // As Valkey: a command that was not taken, so EXEC does nothing.
            queue.fail();
            return Answer::error("ERR MULTI calls can not be nested");
        }
        self.state.queue = Some(Queue::default());
        Answer::Ok
    }

    pub(crate) fn discard(&mut self) -> Answer {
        if self.state.queue.take().is_none() {
            return Answer::error("ERR DISCARD without MULTI");
        }
        self.unwatch()
    }

    pub(crate) fn unwatch(&mut self) -> Answer {
        self.state.watch.forget();
        self.end_tries();
        Answer::Ok
    }

    /// It has done what it tried, or tries it no more.
    fn end_tries(&mut self) {
        self.state.tries = Tries::default();
        self.caller.ends();
    }

    pub(crate) async fn exec(&mut self) -> Answer {
        let Some(queue) = self.state.queue.take() else {
            return Answer::error("ERR EXEC without MULTI");
        };
        if queue.has_failed() {
            // A program that is wrong is not served before others.
            self.unwatch();
            return Answer::error("EXECABORT Transaction discarded because of previous errors.");
        }
        let mut watch = self.state.watch.take();
        let had_turn = watch.place.as_ref().is_some_and(Place::is_there);
        let had_locks = watch.turn.is_some();
        let ended = match self.to_exec(queue, &watch) {
            Ok(exec) => self.until_gone(Box::pin(exec.run(&mut watch))).await,
            Err(fault) => Err(fault),
        };
        if ended.is_ok()
            && had_turn
            && let Some(session) = &self.session
        {
            session.turns.borrow_mut().note_done(&watch.names());
        }
        // Whoever is next begins when it is over.
        drop(watch);
        match ended {
            Ok(answers) => {
                self.note_done(had_locks);
                Answer::Array(answers)
            }
            Err(Fault::Changed(key)) => {
                self.note_lost(&key, had_turn);
                Answer::NilArray
            }
            Err(Fault::Done(answer)) => {
                self.note_done(had_locks);
                *answer
            }
            Err(fault) => {
                Metrics::count(&self.shared.metrics.exec_aborted);
                self.shared.note_fault(&fault);
                let told = aborted(&fault);
                if told.starts_with("UNKNOWN ") {
                    Metrics::count(&self.shared.metrics.unknown);
                }
                Answer::Error(told)
            }
        }
    }

    fn to_exec(&self, queue: Queue, watch: &Watch) -> Result<Exec, Fault> {
        let plan = match queue.of_node {
            Some(_) => None,
            None => {
                let here = |queued: &Queued| self.answer_of_here(queued.command, queued.words());
                Some(queue.plan(watch.expected(), here)?)
            }
        };
        Ok(Exec {
            shared: Rc::clone(&self.shared),
            session: self.session.clone().expect("it was admitted"),
            protocol: self.state.protocol,
            caller: self.caller.clone(),
            id: self.entry.id,
            queue,
            plan,
            work: self.work.clone(),
        })
    }

    fn note_done(&mut self, had_locks: bool) {
        if self.state.tries.since().is_none() {
            return;
        }
        self.end_tries();
        // Where locks were needed, they will be soon again.
        self.state.tries.lost_in_turn = u32::from(had_locks);
    }

    /// An EXEC answered nil.
    fn note_lost(&mut self, key: &Bytes, had_turn: bool) {
        Metrics::count(&self.shared.metrics.exec_nil);
        self.state.tries.goes_on(Instant::now());
        self.state.tries.lost += 1;
        if let Some(session) = &self.session {
            session.hot.borrow_mut().note_failure(key, had_turn, Instant::now());
        }
        if had_turn {
            self.state.tries.lost_in_turn += 1;
        }
    }
}

/// An EXEC, apart from its client, who may leave meanwhile ([`Client::until_gone`]).
struct Exec {
    shared: Rc<Shared>,
    session: Rc<Session>,
    protocol: Protocol,
    caller: Caller,
    id: Id,
    /// What was queued.
    queue: Queue,
    /// The same as it is carried out, if it is no node's.
    plan: Option<Plan>,
    /// Whose it is.
    work: Work,
}

impl Exec {
    /// Carries it out. `watch`: what is watched. Its turn, if it has one, ends with it.
    async fn run(mut self, watch: &mut Watch) -> Ended {
        let Some(plan) = self.plan.take() else {
            watch.turn = None;
            let seen = (watch.seen(), watch.expected());
            let at_most = passthrough::Patience::new(self.shared.times.wait, &self.caller);
            let done = passthrough::exec(&self.session, self.protocol, &self.queue, &seen, &at_most);
            return Box::pin(done).await;
        };
        let store = self.shared.store_for(&self.session, &self.caller).await?;
        if let Some(id) = self.queue.once.as_ref().filter(|_| !is_planted(Bug::IdForgotten)) {
            watch.turn = None;
            return Box::pin(once(&store, id, &plan, self.protocol, &self.work)).await;
        }
        let (expected, began) = (plan.expected().to_vec(), Instant::now());
        let ended = match watch.turn.take() {
            None => match self.pass_locks().await? {
                true => plan.commit(&self.shared.for_the_rest(&store, began), &self.work).await,
                false => plan.commit(&store, &self.work).await,
            }
            .map_err(Fault::from),
            // Its turn has the locks, and runs the plan in its transaction.
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
                                let rest = self.shared.for_the_rest(&store, began);
                                again.commit(&rest, &self.work).await.map_err(Fault::from)
                            }
                        }
                    }
                }
            }
        };
        match ended {
            Ok(done) => Ok(done),
            failed => Box::pin(change_or(failed, &store, expected)).await,
        }
    }

    /// Waits while a connection of this gateway has locks on keys that are used here: in the store it would wait for them, too, and hold
    /// others' keys meanwhile. As [`place::pass`].
    async fn pass_locks(&self) -> Result<bool, Fault> {
        let keys = || self.queue.all.iter().flat_map(|queued| queued.command.keys_in(queued.words()));
        place::pass(&self.session.turns, (self.id, &self.caller), keys, self.shared.times.passing()).await
    }
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

/// How an EXEC ended. An operation that demands an answer may fail in a way of its own, where its key holds another type now: so after an
/// error of one of these keys it is asked whether all that was expected is still so.
async fn change_or(ended: Ended, store: &Store, expected: Vec<(Bytes, Operation)>) -> Ended {
    let key = match &ended {
        Err(Fault::Store(Error::Execute(ExecuteError::Invalid { key, .. })))
            if expected.iter().any(|(known, _)| known == key) =>
        {
            key.clone()
        }
        _ => return ended,
    };
    match store.run_all(expected).await {
        Ok(_) => ended,
        Err(_) => Err(Fault::Changed(key)),
    }
}

/// EXEC did nothing: why. What may succeed later, and what is not known, keep their codes.
fn aborted(fault: &Fault) -> String {
    let text = fault.text();
    match text.split(' ').next() {
        Some("TRYAGAIN" | "UNKNOWN" | "CLUSTERDOWN" | "NOPERM" | "OOM" | "CROSSSLOT" | "EXECABORT") => text,
        _ => format!("EXECABORT Transaction discarded because of: {text}"),
    }
}
