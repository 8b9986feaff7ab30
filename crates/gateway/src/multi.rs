//! MULTI, EXEC, DISCARD, WATCH and UNWATCH of a client (G3 to G8 of docs/gateway.md).

use std::collections::HashSet;
use std::time::Instant;

use bytes::Bytes as Word;
use claret::{Error, Store};
use claret_types::{Bytes, Reply};
use parking_lot::Mutex;

use crate::answer::Answer;
use crate::client::Client;
use crate::commands::{self, Direct};
use crate::fault::Fault;
use crate::metrics::Metrics;
use crate::queue::{Queue, Queued};
use crate::table::Command;
use crate::transactions::{self, Ended, Plan, digest};
use crate::turn::Turn;

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
        self.state.watch.forget();
        Answer::Ok
    }

    pub(crate) fn unwatch(&mut self) -> Answer {
        self.state.watch.forget();
        Answer::Ok
    }

    pub(crate) async fn exec(&mut self) -> Answer {
        let Some(queue) = self.state.queue.take() else {
            return Answer::error("ERR EXEC without MULTI");
        };
        if queue.has_failed() {
            self.state.watch.forget();
            return Answer::error("EXECABORT Transaction discarded because of previous errors.");
        }
        let ended = self.carry_out_all(queue).await;
        self.state.watch.forget();
        match ended {
            Ok(answers) => Answer::Array(answers),
            Err(Fault::Changed(key)) => {
                Metrics::count(&self.shared.metrics.exec_nil);
                if let Some(session) = &self.session {
                    session.hot.borrow_mut().note_failure(&key, Instant::now());
                }
                Answer::NilArray
            }
            Err(Fault::Done(answer)) => *answer,
            Err(fault) => {
                Metrics::count(&self.shared.metrics.exec_aborted);
                let told = aborted(&fault);
                if told.starts_with("UNKNOWN ") {
                    Metrics::count(&self.shared.metrics.unknown);
                }
                Answer::Error(told)
            }
        }
    }

    async fn carry_out_all(&mut self, queue: Queue) -> Ended {
        if self.state.watch.is_broken {
            return Err(Fault::Changed(self.state.watch.first_key()));
        }
        let session = self.session.clone().expect("it was admitted");
        if queue.of_node.is_some() {
            self.state.watch.turn = None;
            let watched: Vec<_> =
                self.state.watch.keys().iter().map(|it| (it.key.clone(), it.digest.clone())).collect();
            let expected = self.state.watch.expected();
            return Box::pin(self.carry_out_on_node(&session, &queue, &watched, &expected)).await;
        }
        let store = session.store().await.map_err(no_store)?;
        if self.state.watch.turn.is_some() {
            // What the turn does not hold is still to be as it was.
            let plan = self.plan(&queue.all)?;
            let expected = plan.expected.clone();
            let turn = self.state.watch.turn.take().expect("there is one");
            let keys = turn.keys().to_vec();
            match Box::pin(turn.exec(plan)).await {
                Some(ended) if !is_given_way(&ended) => {
                    return Box::pin(transactions::change_or(ended, store, expected)).await;
                }
                // It was over, or has given way, and nothing of it was done: what WATCH saw may still be so.
                _ => Metrics::count(&self.shared.metrics.watch_given_up),
            }
            // It queues once more. Without, it would hold other keys while it waits for these, and the next turn would give way for it.
            let plan = self.plan(&queue.all)?;
            let expected = plan.expected.clone();
            if let Some((turn, _)) = Box::pin(Turn::take(store, keys, self.shared.watch)).await
                && let Some(ended) = Box::pin(turn.exec(plan)).await
                && !is_given_way(&ended)
            {
                return Box::pin(transactions::change_or(ended, store, expected)).await;
            }
        }
        let plan = self.plan(&queue.all)?;
        let expected = plan.expected.clone();
        let ended = plan.commit(store).await;
        transactions::change_or(ended, store, expected).await
    }

    fn plan(&self, queued: &[Queued]) -> Result<Plan, Fault> {
        Plan::of(queued, self.state.watch.expected(), |queued| {
            self.answer_of_here(queued.command, queued.words())
        })
    }

    /// WATCH: looks at the keys, or queues for those that are hot.
    pub(crate) async fn watch(&mut self, words: &[Word]) -> Answer {
        if let Some(queue) = &mut self.state.queue {
            queue.fail();
            return Answer::error("ERR WATCH inside MULTI is not allowed");
        }
        let (count_max, bytes_max) = (self.shared.limits.watched_max, self.shared.limits.watched_bytes_max);
        let (mut count, mut bytes) = self.state.watch.size();
        let mut keys: HashSet<Bytes> = HashSet::new();
        for word in words[1..].iter().filter(|word| !self.state.watch.has(word)) {
            if keys.insert(Bytes::copy_from(word)) {
                (count, bytes) = (count + 1, bytes + word.len());
            }
            if count > count_max || bytes > bytes_max {
                return Answer::Error(format!(
                    "ERR over {count_max} keys or {bytes_max} bytes of them watched by one connection: watch fewer"
                ));
            }
        }
        let session = self.session.clone().expect("it was admitted");
        let store = match session.store().await {
            Ok(store) => store,
            Err(error) => return no_store(error).into(),
        };
        let now = Instant::now();
        let is_hot = |key: &Bytes| session.hot.borrow().is_hot(key, now);
        let takes = self.state.watch.is_empty() && !self.shared.watch.is_zero();
        let (mut hot, mut cold): (Vec<_>, Vec<_>) = keys.into_iter().partition(|key| takes && is_hot(key));
        // All take their turns in the same order.
        hot.sort();
        if !hot.is_empty()
            && let Err(keys) = self.take_turn(store, hot).await
        {
            cold.extend(keys);
        }
        match self.look(store, cold).await {
            Ok(()) => Answer::Ok,
            Err(fault) => {
                self.state.watch.forget();
                fault.into()
            }
        }
    }

    /// Queues for hot keys; gives them back if that takes too long.
    async fn take_turn(&mut self, store: &Store, keys: Vec<Bytes>) -> Result<(), Vec<Bytes>> {
        Metrics::count(&self.shared.metrics.watch_queued);
        let asked = Instant::now();
        let time = self.shared.watch;
        let taken = self.unless_gone(Turn::take(store, keys.clone(), time)).await;
        let now = Instant::now();
        if let Some(session) = &self.session {
            // Whoever gets it at once was alone.
            if now - asked > ALONE {
                keys.iter().for_each(|key| session.hot.borrow_mut().note_wait(key, now));
            }
        }
        let Some((turn, digests)) = taken.flatten() else {
            Metrics::count(&self.shared.metrics.watch_given_up);
            return Err(keys);
        };
        for (key, digest) in keys.into_iter().zip(digests) {
            self.state.watch.add(key, digest);
        }
        self.state.watch.turn = Some(turn);
        Ok(())
    }

    /// Looks at keys, all at one moment.
    async fn look(&mut self, store: &Store, keys: Vec<Bytes>) -> Result<(), Fault> {
        if keys.is_empty() {
            return Ok(());
        }
        let digests = store.run_all(keys.iter().map(|key| (key.clone(), digest()))).await?;
        for (key, digest) in keys.into_iter().zip(digests) {
            self.state.watch.add(key, digest);
        }
        Ok(())
    }

    /// A command between WATCH and MULTI that uses what is watched; `None`: it goes as any other.
    pub(crate) async fn between_watch_and_multi(
        &mut self,
        command: &'static Command,
        words: &[Word],
    ) -> Option<Result<Answer, Fault>> {
        let session = self.session.clone()?;
        let keys = self.state.watch.of_command(command, words);
        let is_of_turn = keys.iter().any(|key| self.state.watch.holds(key));
        // What takes a record as a whole is done by its node, if that is one: it can do more (streams, large records).
        let is_of_node = matches!(command.name, "RENAME" | "RENAMENX" | "COPY")
            && session.nodes().is_some()
            && matches!(command.slot(words), Ok(Some(_)));
        if !command.way.is_transactional() || is_of_node {
            self.state.watch.note_whole(&keys);
            // It must not wait for this connection itself.
            self.end_turn_if(is_of_turn);
            if command.may_wait(words) {
                return None;
            }
            return Some(self.at_node_as_watched(&session, command, words, &keys).await);
        }
        let store = match session.store().await {
            Ok(store) => store,
            Err(error) => return Some(Err(no_store(error))),
        };
        let answered = match commands::direct(command.name, &transactions::arguments(words)) {
            Some(Ok(direct)) if !command.writes && self.can_be_seen(&direct) => {
                self.see(store, &direct).await
            }
            _ => {
                self.end_turn_if(is_of_turn);
                self.with_digests(store, command, words, &keys).await
            }
        };
        if answered.is_err() {
            self.state.watch.note_whole(&keys);
        }
        Some(answered)
    }

    /// Whether a read is one operation whose answer is a function of what is there, and can be kept.
    fn can_be_seen(&self, direct: &Direct) -> bool {
        match &direct.calls[..] {
            [(key, op)] => !op.expects() && !op.is_timed() && self.state.watch.has_room(key, op),
            _ => false,
        }
    }

    /// Reads a watched key by one operation, and keeps what it answered.
    async fn see(&mut self, store: &Store, direct: &Direct) -> Result<Answer, Fault> {
        let (key, op) = direct.calls[0].clone();
        let reply = match &self.state.watch.turn {
            Some(turn) if turn.holds(&key) => turn.read(key.clone(), op.clone()).await,
            _ => None,
        };
        let reply = match reply {
            Some(reply) => reply,
            None => {
                let is_of_turn = self.state.watch.holds(&key);
                self.end_turn_if(is_of_turn);
                let mut replies = store.run_all([(key.clone(), op.clone())]).await?;
                replies.pop().expect("one operation, one answer")
            }
        };
        self.state.watch.note_seen(&key, &op, &reply);
        Ok(direct.answer(vec![reply]))
    }

    /// Uses watched keys otherwise; a write takes effect now, outside of the transaction. What the command shows has to be of what WATCH
    /// saw, at that moment: the digest alone would not tell of what was changed and changed back.
    async fn with_digests(
        &mut self,
        store: &Store,
        command: &'static Command,
        words: &[Word],
        keys: &[Bytes],
    ) -> Result<Answer, Fault> {
        self.state.watch.note_whole(keys);
        let words = transactions::arguments(words);
        // Also of a command that fails: that tells something, too.
        let digests = Mutex::new(Vec::new());
        let answer = store
            .try_transaction(|tx| {
                let (words, digests) = (words.clone(), &digests);
                async move {
                    let asked: Vec<_> = keys.iter().map(|key| tx.execute(key.clone(), digest())).collect();
                    let mut found = Vec::with_capacity(asked.len());
                    for digest in asked {
                        found.push(digest.await?);
                    }
                    *digests.lock() = found;
                    transactions::step(&tx, command.name, &words).await
                }
            })
            .await;
        let is_as_watched = |(key, digest): (&Bytes, &Reply)| self.state.watch.digest_of(key) == Some(digest);
        let is_changed = !keys.iter().zip(&*digests.lock()).all(is_as_watched);
        self.state.watch.is_broken |= is_changed;
        answer
    }

    /// The connection stands in nobody's way any more. What was seen under the locks is checked by EXEC, as anything else.
    pub(crate) fn end_turn_if(&mut self, is_meant: bool) {
        if is_meant && self.state.watch.turn.take().is_some() {
            Metrics::count(&self.shared.metrics.watch_given_up);
        }
    }
}

/// A WATCH that has its turn sooner was alone.
const ALONE: std::time::Duration = std::time::Duration::from_micros(1_000);

fn no_store(error: claret::cluster::ConnectError) -> Fault {
    Fault::told(format!("CLUSTERDOWN {error}"))
}

/// Whether a transaction had to give way, or was too late: nothing of it was done.
fn is_given_way(ended: &Ended) -> bool {
    matches!(ended, Err(Fault::Store(Error::Restart | Error::Attempts { .. } | Error::Deadline { .. })))
}

/// EXEC did nothing: why. What may succeed later, and what is not known, keep their codes.
fn aborted(fault: &Fault) -> String {
    let text = fault.text();
    match text.split(' ').next() {
        Some("TRYAGAIN" | "UNKNOWN" | "CLUSTERDOWN" | "NOPERM" | "OOM" | "CROSSSLOT" | "EXECABORT") => text,
        _ => format!("EXECABORT Transaction discarded because of: {text}"),
    }
}
