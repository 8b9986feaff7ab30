//! Somebody for whom a store is used, and who may leave before it has answered: the client of a server.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use futures_timer::Delay;
use parking_lot::Mutex;

use claret_planted::{Bug, is_planted};

/// Somebody for whom transactions are run ([`Store::on_behalf_of`](crate::Store::on_behalf_of)), and who may leave before they are over, as the client of a server
/// does. A cheaply cloned handle.
#[derive(Clone, Debug, Default)]
pub struct Caller(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    has_left: AtomicBool,
    /// The last task that asked.
    waker: Mutex<Option<Waker>>,
    /// Since when it has tried what it tries.
    tries: Mutex<Option<Instant>>,
    /// Where it has left: when it is looked again whether what it began waits.
    look: Mutex<Option<Delay>>,
}

/// Where a caller has left, what it began is looked at so often: it ends once it waits for others.
const LOOK: Duration = Duration::from_millis(2);

impl Caller {
    /// Somebody who is there.
    pub fn new() -> Self {
        Caller::default()
    }

    /// Nobody will hear any more what becomes of what was begun for it.
    pub fn leave(&self) {
        self.0.has_left.store(true, Ordering::Release);
        if let Some(waker) = self.0.waker.lock().take() {
            waker.wake();
        }
    }

    /// From now on it tries something that takes several transactions, as a loop does that reads in one and writes in the next. Until
    /// [it ends](Self::ends), those that begin for it are as old as this, and older ones are served first.
    /// What it tries already goes on. A cluster takes nobody for older than a minute.
    pub fn tries(&self) {
        self.0.tries.lock().get_or_insert_with(Instant::now);
    }

    /// It has done, or given up, what it tried.
    pub fn ends(&self) {
        *self.0.tries.lock() = None;
    }

    /// For how long it has tried what it tries.
    pub fn tried_for(&self) -> Option<Duration> {
        self.0.tries.lock().map(|since| since.elapsed()).filter(|_| !is_planted(Bug::AgeOfCallerForgotten))
    }

    /// Whether it has left.
    pub fn is_gone(&self) -> bool {
        self.0.has_left.load(Ordering::Acquire) && !is_planted(Bug::GoneCallersServed)
    }

    /// What waits for nobody now may wait soon: then this task is woken.
    pub(crate) fn look_again(&self, cx: &mut Context<'_>) {
        let mut look = self.0.look.lock();
        let look = look.get_or_insert_with(|| Delay::new(LOOK));
        while Pin::new(&mut *look).poll(cx).is_ready() {
            look.reset(LOOK);
        }
    }

    /// Whether it has left; if not, this task is woken when it does.
    pub(crate) fn has_left(&self, waker: &Waker) -> bool {
        if self.is_gone() {
            return true;
        }
        *self.0.waker.lock() = Some(waker.clone());
        self.is_gone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::CommitError;
    use crate::{Error, Records, Store, TxOptions};

    /// What waits for a lock, alone and in a transaction, when its caller has left; with a deadline that never comes.
    #[test]
    fn what_waits_ends_without_effect_when_its_caller_has_left() {
        let store = Store::in_memory();
        let (caller, patient) = (Caller::new(), TxOptions::new().deadline(Duration::from_secs(86_400)));
        caller.leave();
        let theirs = store.on_behalf_of(&caller).with_options(patient);
        let is_late = |error: Error| matches!(error, Error::Commit(CommitError::Deadline { .. }));
        let waits = || {
            pollster::block_on(async {
                let alone = theirs.counter("held").add_returning(1).await.unwrap_err();
                let within = theirs.transaction(async |tx| {
                    tx.counter("free").add(1)?;
                    Ok(tx.counter("held").add_returning(1).await?)
                });
                assert!(is_late(alone) && is_late(within.await.unwrap_err()));
            });
        };
        pollster::block_on(async {
            let held = store.transaction(async |tx| {
                tx.counter("held").add_returning(1).await?;
                // On a thread of its own: it is no part of this transaction.
                std::thread::scope(|scope| scope.spawn(waits).join()).expect("it ends");
                Ok(())
            });
            held.await.unwrap();
            assert_eq!(
                theirs.counter("free").add_returning(1).await.unwrap(),
                1,
                "what waits for nobody is done"
            );
            assert_eq!(store.counter("held").get().await.unwrap(), 1);
        });
    }

    /// Of two who wait for a lock, the one whose caller has tried for longer has it first, though it came last.
    #[test]
    fn who_has_tried_for_longest_is_served_first() {
        let (store, elder, younger) = (Store::in_memory(), Caller::new(), Caller::new());
        elder.tries();
        let order = Mutex::new(Vec::new());
        let take = |caller: &Caller, name: &'static str| {
            let theirs = store.on_behalf_of(caller);
            let order = &order;
            move || {
                let taken = theirs.transaction(async |tx| {
                    tx.execute_for_update("held", claret_types::KeyspaceOp::Exists.into()).await?;
                    order.lock().push(name);
                    tx.counter("held").add(1)?;
                    Ok(())
                });
                pollster::block_on(taken).unwrap();
            }
        };
        std::thread::scope(|scope| {
            let held = store.transaction(async |tx| {
                tx.counter("held").add_returning(1).await?;
                let waiting = |count: u64| {
                    while store.stats().lock_waits < count {
                        std::thread::yield_now();
                    }
                };
                scope.spawn(take(&younger, "younger"));
                waiting(1);
                scope.spawn(take(&elder, "elder"));
                waiting(2);
                Ok(())
            });
            pollster::block_on(held).unwrap();
        });
        assert_eq!(*order.lock(), ["elder", "younger"]);
        elder.ends();
        assert_eq!(elder.tried_for(), None);
    }
}
