//! EXEC, apart from its connection, so that it can be told that its client has left: where it is carried out, and in which turn.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes as Word;
use claret::{Caller, Error};
use claret_types::Bytes;
use tokio::time::timeout;

use crate::answer::Protocol;
use crate::fault::Fault;
use crate::metrics::Metrics;
use crate::on_node;
use crate::queue::{Queue, Queued};
use crate::session::Session;
use crate::shared::Shared;
use crate::table::Command;
use crate::transactions::{self, Ended, Plan};
use crate::turns::{Id, Turns};
use crate::watch::Watch;

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
}

impl Exec {
    /// Carries it out. `watch`: what is watched. Its turn, if it has one, ends with it.
    pub(crate) async fn run(self, watch: &mut Watch) -> Ended {
        if watch.is_broken {
            return Err(Fault::Changed(watch.first_key()));
        }
        let Some(plan) = self.plan else {
            watch.turn = None;
            let seen = (watch.seen(), watch.expected());
            let at_most = on_node::Patience::new(self.shared.wait, &self.caller);
            let done = on_node::exec(&self.session, self.protocol, &self.queue, &seen, &at_most);
            return Box::pin(done).await;
        };
        let store = self.shared.store_for(&self.session, &self.caller).await?;
        if let Some(id) = &self.queue.once {
            watch.turn = None;
            return transactions::once(&store, id, &plan, self.protocol).await;
        }
        let expected = plan.expected.clone();
        let ended = match watch.turn.take() {
            Some(turn) => {
                let again = plan.again();
                match Box::pin(turn.exec(plan)).await {
                    Some(ended) if !is_given_way(&ended) => ended,
                    // It was over, or has given way, and nothing of it was done: what WATCH saw may still be so.
                    _ => {
                        Metrics::count(&self.shared.metrics.watch_given_up);
                        again.commit(&store).await
                    }
                }
            }
            None => {
                let turns = &self.session.turns;
                pass_locks(turns, self.id, &self.queue.all, self.shared.watch).await;
                plan.commit(&store).await
            }
        };
        transactions::change_or(ended, &store, expected).await
    }
}

/// Waits while a connection of this gateway has locks on keys that these commands use: in the store it would wait for them, too, and hold
/// others' keys meanwhile. `time`: for how long a connection may have some.
async fn pass_locks(turns: &RefCell<Turns>, id: Id, queued: &[Queued], time: Duration) {
    let keys = || queued.iter().flat_map(|queued| keys_of(queued.command, queued.words()));
    pass(turns, id, keys, time).await;
}

/// The keys of a command, as far as they can be told.
pub(crate) fn keys_of<'a>(command: &'static Command, words: &'a [Word]) -> impl Iterator<Item = &'a [u8]> {
    command.keys.of(words).into_iter().flatten().map(|at| &words[at][..])
}

/// The same of any keys.
pub(crate) async fn pass<'a, I: Iterator<Item = &'a [u8]>>(
    turns: &RefCell<Turns>,
    id: Id,
    keys: impl Fn() -> I,
    time: Duration,
) {
    let until = Instant::now() + 2 * time;
    loop {
        let Some(end) = turns.borrow().locked(id, keys()) else { return };
        let left = until.saturating_duration_since(Instant::now());
        if timeout(left, end.notified()).await.is_err() {
            return;
        }
    }
}

/// Whether a transaction had to give way, or was too late: nothing of it was done.
fn is_given_way(ended: &Ended) -> bool {
    matches!(ended, Err(Fault::Store(Error::Restart | Error::Attempts { .. } | Error::Deadline { .. })))
}

/// A place among those who take turns, which is left when this is dropped.
pub(crate) struct Place {
    turns: Rc<RefCell<Turns>>,
    id: Id,
    since: Instant,
}

impl Place {
    /// Waits for a turn on keys; `hold`: whoever has one that others want has it for no longer. `None`: not within `time`. `true`:
    /// somebody was in the way.
    pub(crate) async fn take(
        turns: &Rc<RefCell<Turns>>,
        (id, since): (Id, Instant),
        keys: Rc<[Bytes]>,
        (hold, time): (Duration, Duration),
    ) -> (Option<Place>, bool) {
        let place = Place { turns: Rc::clone(turns), id, since };
        let asked = turns.borrow_mut().ask(id, since, keys, Instant::now());
        let Some(granted) = asked else { return (Some(place), false) };
        let until = Instant::now() + time;
        while !turns.borrow().has(id) {
            let now = Instant::now();
            let left = until.saturating_duration_since(now);
            if left.is_zero() {
                return (None, true);
            }
            // Whoever thinks for longer than a turn lasts has none any more.
            if timeout(left.min(hold), granted.notified()).await.is_err() {
                turns.borrow_mut().expire(Instant::now(), hold);
            }
        }
        (Some(place), true)
    }

    /// Whether it is this one's turn still.
    pub(crate) fn is_there(&self) -> bool {
        self.turns.borrow().has(self.id)
    }

    /// Whether locks may be taken now; then they are as good as taken.
    pub(crate) fn lock(&self) -> bool {
        self.turns.borrow_mut().lock(self.id, Instant::now())
    }

    /// What is called when they are gone.
    pub(crate) fn unlocks(&self) -> impl FnOnce() + use<> {
        let (turns, id) = (Rc::clone(&self.turns), self.id);
        move || turns.borrow_mut().unlock(id, Instant::now())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.turns.borrow_mut().leave(self.id, self.since, Instant::now());
    }
}
