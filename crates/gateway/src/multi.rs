//! MULTI, EXEC, DISCARD and UNWATCH of a client (G3 to G8 of docs/gateway.md).

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;

use claret::errors::{CommitError, ExecuteError};
use claret::{Caller, Error, Store};
use claret_commands::{Answer, Evaluation, Plan};
use claret_planted::{Bug, is_planted};
use claret_types::{Bytes, Operation};

use crate::client::Client;
use crate::fault::{Ended, Fault};
use crate::finding::Finder;
use crate::metrics::Metrics;
use crate::once::once;
use crate::passthrough;
use crate::place::{self, Place};
use crate::publish::{publish, publish_all};
use crate::queue::{Queue, Queued, is_of_connection};
use crate::replies::late_at_node;
use crate::resp::Protocol;
use crate::scripts::ScriptsMode;
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
        let is_here = self.session.as_ref().is_some_and(|session| session.nodes().is_none());
        let scripts_here = is_here || self.shared.modes.scripts != ScriptsMode::Node;
        self.state.queue = Some(Queue::new(scripts_here));
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
        let had_name = queue.sets_name().then(|| self.entry.name());
        let ended = match Box::pin(self.make_exec(queue, &watch)).await {
            Ok(exec) => self.until_gone(Box::pin(exec.run(&mut watch))).await,
            Err(fault) => Err(fault),
        };
        if let (Err(_), Some(name)) = (&ended, had_name) {
            // All or nothing.
            self.entry.set_name(&name);
        }
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

    async fn make_exec(&mut self, queue: Queue, watch: &Watch) -> Result<Exec, Fault> {
        let plans = match queue.of_node {
            Some(_) => VecDeque::new(),
            None => {
                let wait = self.shared.times.wait;
                let asked = async {
                    let told = self.of_connection(&queue).await?;
                    Ok::<_, Fault>((told, self.evaluations(&queue).await?))
                };
                let late = |_| Fault::Late(late_at_node(true, wait));
                let asked = tokio::time::timeout(wait, Box::pin(asked)).await;
                let (mut told, evaluations) = asked.map_err(late)??;
                let here = |queued: &Queued| match is_of_connection(queued.command, queued.words()) {
                    true => told.pop_front().expect("it was asked"),
                    false => self.answer_of_here(queued.command, queued.words()),
                };
                queue.plans(watch.expected(), here, evaluations)?
            }
        };
        let session = self.session.clone().expect("it was admitted");
        Ok(Exec {
            shared: Rc::clone(&self.shared),
            session: Rc::clone(&session),
            protocol: self.state.protocol,
            caller: self.caller.clone(),
            id: self.entry.id,
            finder: self.finds(&session),
            queue,
            plans,
            work: self.work.clone(),
        })
    }

    /// What the gateway answers of the connection and of itself.
    async fn of_connection(&mut self, queue: &Queue) -> Result<VecDeque<Answer>, Fault> {
        let mut told = VecDeque::new();
        for queued in queue.of_connection() {
            let answer = self.local(queued.command, queued.words()).await.unwrap_or(Answer::Nil);
            if let Answer::Error(text) = answer {
                return Err(Fault::Told(text));
            }
            self.work.keep(answer.bytes_up_to(usize::MAX / 2))?;
            told.push_back(answer);
        }
        Ok(told)
    }

    /// What the scripts are that were queued.
    async fn evaluations(&mut self, queue: &Queue) -> Result<VecDeque<Evaluation>, Fault> {
        let session = self.session.clone().expect("it was admitted");
        let mut all = VecDeque::new();
        for queued in queue.scripts() {
            self.may_evaluate(&session, queued.command).await?;
            let evaluation = self.evaluation(&session, queued.command, queued.words()).await?;
            let unseen = || Fault::told("ERR Function not found, or this user may not see it: FUNCTION LIST");
            all.push_back(evaluation.ok_or_else(unseen)?);
        }
        Ok(all)
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
    /// Asks nodes of all keys.
    finder: Rc<Finder>,
    caller: Caller,
    id: Id,
    /// What was queued.
    queue: Queue,
    /// The same as it is carried out, if it is no node's: a plan, and one behind each flush.
    plans: VecDeque<Plan>,
    /// Whose it is.
    work: Work,
}

impl Exec {
    /// Carries it out. `watch`: what is watched. Its turn, if it has one, ends with it.
    async fn run(mut self, watch: &mut Watch) -> Ended {
        let Some(plan) = self.plans.pop_front() else {
            watch.turn = None;
            let seen = (watch.seen(), watch.expected());
            let at_most = passthrough::Patience::new(self.shared.times.wait, &self.caller);
            let done = passthrough::exec(&self.session, self.protocol, &self.queue, &seen, &at_most);
            return Box::pin(done).await;
        };
        let began = Instant::now();
        let done = self.carry_out(plan, watch, began).await;
        if done.is_err() && is_planted(Bug::PublishedAnyway) {
            self.publish_all(&mut [], began).await;
        }
        let mut answers = done?;
        // What a part has said leaves, whatever becomes of those behind a flush.
        let mut messages = self.work.take_messages();
        let plans = std::mem::take(&mut self.plans);
        for (flush, plan) in self.queue.flushes().zip(plans) {
            let name = flush.command.name;
            let half_done = |fault| half_done(name, &fault);
            if self.caller.is_gone() {
                return Err(half_done(Fault::told("ERR the client has gone")));
            }
            answers
                .push(self.finder.ask(flush.command, flush.words(), false, began).await.map_err(half_done)?);
            let done = Box::pin(self.carry_out(plan, watch, began)).await;
            if done.is_err() {
                publish_all(&self.shared, &self.session, self.protocol, std::mem::take(&mut messages)).await;
            }
            answers.extend(done.map_err(half_done)?);
            messages.extend(self.work.take_messages());
        }
        self.publish_all(&mut answers, began).await;
        Box::pin(publish_all(&self.shared, &self.session, self.protocol, messages)).await;
        Ok(answers)
    }

    /// What leaves when all is done; `answers` are those of what was queued.
    async fn publish_all(&self, answers: &mut [Answer], began: Instant) {
        for (at, message) in self.queue.published() {
            let told = publish(&self.shared, &self.session, self.protocol, message.words(), began);
            let told = Box::pin(told).await;
            if let Some(answer) = answers.get_mut(at) {
                *answer = told;
            }
        }
    }

    /// Finds what a plan asks.
    async fn find(&self, plan: &mut Plan, began: Instant) -> Result<(), Fault> {
        let writes = plan.writes();
        for question in plan.questions() {
            let found = self.finder.find(question.command(), question.words(), writes, began).await?;
            self.work.keep(found.bytes_up_to(usize::MAX / 2))?;
            question.tell(found);
        }
        Ok(())
    }

    async fn carry_out(&self, mut plan: Plan, watch: &mut Watch, began: Instant) -> Ended {
        self.find(&mut plan, began).await?;
        let store = self.shared.store_for(&self.session, &self.caller).await?;
        if let Some(id) = self.queue.once.as_ref().filter(|_| !is_planted(Bug::IdForgotten)) {
            watch.turn = None;
            return Box::pin(once(&store, id, &plan, self.protocol, &self.work)).await;
        }
        let expected = plan.expected().to_vec();
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
            Ok(done) => {
                self.shared.here.over.notify_waiters();
                Ok(done)
            }
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

/// A MULTI that a flush cuts has failed behind it.
fn half_done(flush: &str, fault: &Fault) -> Fault {
    let text = fault.text();
    let told = match text.strip_prefix("UNKNOWN ") {
        Some(rest) => format!("UNKNOWN what stands before {flush} is done; {rest}"),
        None => format!(
            "EXECABORT what stands before {flush} is done, {flush} perhaps on some nodes, and what stands behind it is not: {text}"
        ),
    };
    if fault.is_late() { Fault::Late(told) } else { Fault::Told(told) }
}

/// EXEC did nothing: why. What may succeed later, and what is not known, keep their codes.
fn aborted(fault: &Fault) -> String {
    let text = fault.text();
    match text.split(' ').next() {
        Some("TRYAGAIN" | "UNKNOWN" | "CLUSTERDOWN" | "NOPERM" | "OOM" | "CROSSSLOT" | "EXECABORT") => text,
        _ => format!("EXECABORT Transaction discarded because of: {text}"),
    }
}
