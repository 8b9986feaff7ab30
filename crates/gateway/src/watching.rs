//! WATCH of a client, and its commands between WATCH and MULTI (G6, G7 of docs/gateway.md).

use std::collections::HashSet;
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes as Word;
use claret::{Store, TxOptions};
use claret_commands::{Answer, Calls, Command};
use claret_types::{Bytes, KeyspaceOp};

use crate::client::Client;
use crate::fault::Fault;
use crate::metrics::Metrics;
use crate::place::Place;
use crate::request::arguments;
use crate::session::Session;
use crate::turn::Turn;
use crate::watch::WatchMode;

impl Client {
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
        let keys: Rc<[Bytes]> = sorted(keys);
        match self.watch_keys(keys).await {
            Ok(()) => Answer::Ok,
            Err(fault) => {
                self.state.watch.forget();
                fault.into()
            }
        }
    }

    async fn watch_keys(&mut self, keys: Rc<[Bytes]>) -> Result<(), Fault> {
        let session = self.session.clone().expect("it was admitted");
        self.begin_round();
        let began = Instant::now();
        let store = self.shared.store_for(&session, &self.caller).await?;
        let may_take = self.state.watch.is_empty() && !self.shared.times.watch.is_zero();
        if may_take && self.wants_turn(&session, &keys) {
            let place = self.wait_for_turn(&session, &keys).await;
            let locks = match &place {
                Some(place) if self.state.tries.lost_in_turn >= LOCK_AFTER => {
                    self.unless_gone(place.lock()).await == Some(true)
                }
                _ => false,
            };
            let end = place.as_ref().filter(|_| locks).map(Place::unlocks);
            self.state.watch.place = place;
            if let Some(end) = end {
                let times = (self.shared.times.watch, self.shared.times.wait);
                if let Some((turn, versions)) =
                    Turn::take(&store, &self.work, Rc::clone(&keys), times, end).await
                {
                    keys.iter()
                        .zip(versions)
                        .for_each(|(key, version)| self.state.watch.add(key.clone(), version));
                    self.state.watch.turn = Some(turn);
                    return Ok(());
                }
                Metrics::count(&self.shared.metrics.watch_given_up);
            }
        }
        // It has waited for its turn: what is left of its time.
        let left = self.shared.deadline().saturating_sub(began.elapsed());
        self.look(&store.with_options(TxOptions::new().deadline(left)), &keys).await
    }

    /// A loop tries again, or something begins.
    fn begin_round(&mut self) {
        if self.state.tries.begin_round(Instant::now()) {
            self.caller.ends();
        }
        self.caller.tries();
    }

    fn wants_turn(&self, session: &Session, keys: &[Bytes]) -> bool {
        let now = Instant::now();
        let is_hot = || keys.iter().any(|key| session.hot.borrow().is_hot(key, now));
        (self.state.tries.lost >= TURN_AFTER || is_hot()) && session.turns.borrow().serves(keys, now)
    }

    /// Waits for its turn; without one it goes on all the same.
    async fn wait_for_turn(&mut self, session: &Session, keys: &Rc<[Bytes]>) -> Option<Place> {
        let since = self.state.tries.since().unwrap_or_else(Instant::now);
        let times = (self.shared.times.watch, self.shared.times.wait / QUEUE_FRACTION);
        let taking = Place::take(&session.turns, (self.entry.id, since), Rc::clone(keys), times);
        let (place, has_waited) = self.unless_gone(taking).await?;
        let now = Instant::now();
        self.state.tries.goes_on(now);
        if has_waited {
            Metrics::count(&self.shared.metrics.watch_queued);
            keys.iter().for_each(|key| session.hot.borrow_mut().note_wait(key, now));
        }
        if place.is_none() {
            Metrics::count(&self.shared.metrics.watch_given_up);
        }
        place
    }

    /// Looks at keys, all at one moment.
    async fn look(&mut self, store: &Store, keys: &[Bytes]) -> Result<(), Fault> {
        if keys.is_empty() {
            return Ok(());
        }
        let versions =
            store.run_all(keys.iter().map(|key| (key.clone(), KeyspaceOp::Version.into()))).await?;
        keys.iter().zip(versions).for_each(|(key, version)| self.state.watch.add(key.clone(), version));
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
        let is_of_turn = self.state.watch.holds_any(&keys);
        if is_of_turn && let Some(answer) = self.read_in_turn(command, words).await {
            self.state.watch.note_whole(&keys);
            return Some(Ok(answer));
        }
        // It must not wait for this connection itself.
        self.end_turn_if(is_of_turn);
        let Some(direct) = self.to_be_seen(command, words) else {
            // EXEC sees whether anything of the key has changed, whatever this shows.
            self.state.watch.note_whole(&keys);
            return None;
        };
        let answered = match self.shared.store_for(&session, &self.caller).await {
            Ok(store) => self.see(&store, &direct).await,
            Err(fault) => return Some(Err(fault)),
        };
        if answered.is_err() {
            self.state.watch.note_whole(&keys);
        }
        Some(answered)
    }

    /// Carries out a command that only reads what its turn has locks on. `None`: it is none, or the turn is over.
    async fn read_in_turn(&mut self, command: &'static Command, words: &[Word]) -> Option<Answer> {
        let turn = self.state.watch.turn.as_ref()?;
        let mut keys = command.keys_in(words);
        if command.writes || command.makes_keys(words) || !keys.all(|key| turn.holds(&Bytes::copy_from(key)))
        {
            return None;
        }
        turn.read(command, arguments(words)).await
    }

    /// A read of which the answer is watched, and not all of its key: one operation whose answer is a function of what is there, and is
    /// kept.
    fn to_be_seen(&self, command: &Command, words: &[Word]) -> Option<Calls> {
        let watch = &self.state.watch;
        if watch.mode == WatchMode::Keys || command.writes || !command.way.is_transactional() {
            return None;
        }
        let calls = command.calls(&arguments(words))?.ok()?;
        match calls.all() {
            [(key, op)] if !op.expects() && !op.is_timed() && watch.has_room(key, op) => Some(calls),
            _ => None,
        }
    }

    /// Reads a watched key by one operation, and keeps what it answered.
    async fn see(&mut self, store: &Store, calls: &Calls) -> Result<Answer, Fault> {
        let (key, op) = calls.all()[0].clone();
        let mut replies = store.run_all([(key.clone(), op.clone())]).await?;
        let reply = replies.pop().expect("one operation, one answer");
        self.state.watch.note_seen(&key, &op, &reply);
        Ok(calls.answer(vec![reply]))
    }

    /// The connection stands in nobody's way any more. What was seen under the locks is checked by EXEC, as anything else.
    pub(crate) fn end_turn_if(&mut self, is_meant: bool) {
        if is_meant && self.state.watch.turn.take().is_some() {
            Metrics::count(&self.shared.metrics.watch_given_up);
        }
    }
}

/// A loop that has lost so often waits for its turn, though nobody else has lost on its keys.
const TURN_AFTER: u32 = 2;

/// One that has lost so often though it had its turn takes locks.
const LOCK_AFTER: u32 = 2;

/// WATCH waits for its turn for this part of the time that a client waits at all.
const QUEUE_FRACTION: u32 = 3;

/// In one order, for all who want them.
fn sorted(keys: HashSet<Bytes>) -> Rc<[Bytes]> {
    let mut keys: Vec<Bytes> = keys.into_iter().collect();
    keys.sort();
    keys.into()
}
