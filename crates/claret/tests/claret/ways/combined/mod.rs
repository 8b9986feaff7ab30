//! Combining.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};

use claret::{
    Records, Store,
    lab::{Mode, StoreLab},
};

use crate::transactions::assert_idle;

fn combining() -> Mode {
    let is_it = |mode: &Mode| matches!(mode, Mode::Way(way) if way.name() == "boost+phase+combine");
    Mode::ways().find(is_it).expect("it is there")
}

#[tokio::test]
async fn transactions_that_read_the_same_share_the_answer_and_commit_together() {
    for (mode, shares) in [(combining(), true), (Mode::CommutingPhased, false)] {
        let store = Store::builder().mode(mode).build();
        store.set("tags").add("red").await.unwrap();
        let ready = Arc::new(tokio::sync::Barrier::new(3));
        let readers: Vec<_> = (0..3)
            .map(|reader: i64| {
                let (store, ready) = (store.clone(), Arc::clone(&ready));
                tokio::spawn(async move {
                    // A further attempt meets nobody: the others may be done.
                    let has_met = std::sync::atomic::AtomicBool::new(false);
                    store
                        .transaction(|tx| {
                            let (ready, meets) = (
                                Arc::clone(&ready),
                                !has_met.swap(true, std::sync::atomic::Ordering::Relaxed),
                            );
                            async move {
                                let size = tx.set("tags").len().await?;
                                if meets {
                                    ready.wait().await;
                                }
                                tx.counter(format!("seen:{reader}")).add(size as i64)?;
                                Ok(())
                            }
                        })
                        .await
                        .unwrap();
                })
            })
            .collect();
        for reader in readers {
            reader.await.unwrap();
        }
        for reader in 0..3 {
            assert_eq!(store.counter(format!("seen:{reader}")).get().await.unwrap(), 1);
        }
        assert_eq!(store.stats().combined, if shares { 2 } else { 0 }, "{mode:?}");
        assert_idle(&store);
    }
}

/// How often a task was woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Bug: for what came due, here the patience of a group (C10), waited nobody but who had brought it about. Consequence: where that one did not
/// wait, having its answer or being done, the others slept until their deadlines. Mend: everybody who waits hears of it.
#[test]
fn who_waits_hears_of_what_is_due_sooner() {
    let store = Store::builder().mode(combining()).build();
    let (ready, gate) = tokio::sync::oneshot::channel::<()>();
    let gate = std::sync::Mutex::new(Some(gate));
    let mut holder = pin!(store.transaction(|tx| async move {
        tx.register("held").replace::<claret::Bytes>("x").await?;
        std::future::pending::<()>().await;
        Ok(())
    }));
    let mut first = pin!(store.transaction(|tx| {
        let gate = gate.lock().expect("one at a time").take();
        async move {
            tx.set("tags").len().await?;
            if let Some(gate) = gate {
                gate.await.expect("it is opened");
            }
            Ok(())
        }
    }));
    let mut second = pin!(store.transaction(|tx| async move {
        tx.set("tags").len().await?;
        tx.register("held").get::<claret::Bytes>().await?;
        Ok(())
    }));
    let idle = &mut Context::from_waker(Waker::noop());
    assert!(holder.as_mut().poll(idle).is_pending() && first.as_mut().poll(idle).is_pending());
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    assert!(second.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert_eq!((store.stats().combined, woken.0.load(Ordering::Relaxed)), (1, 0));
    ready.send(()).expect("it waits");
    assert!(first.as_mut().poll(idle).is_pending(), "the other one of its group is not done");
    assert!(woken.0.load(Ordering::Relaxed) > 0);
}
