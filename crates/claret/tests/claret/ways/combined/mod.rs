//! Combining.

use std::sync::Arc;

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
                    store
                        .transaction(|tx| {
                            let ready = Arc::clone(&ready);
                            async move {
                                let size = tx.set("tags").len().await?;
                                ready.wait().await;
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
