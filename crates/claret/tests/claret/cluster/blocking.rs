//! The blocking mirror of a store whose runtime has one thread.

use claret::{Error, Records, Store, errors::BeginError};

use super::rig::{prefix, shared};

#[tokio::test]
async fn a_blocking_call_on_the_only_thread_of_a_runtime_is_refused_before_anything_is_sent() {
    let store = Store::connect(&shared().url()).await.expect("a store");
    let (blocking, key) = (store.blocking(), prefix());
    assert_eq!(blocking.counter(&key).add_returning(1).unwrap_err(), Error::Begin(BeginError::BlocksRuntime));
    assert_eq!(blocking.counter(&key).add(1).unwrap_err(), Error::Begin(BeginError::BlocksRuntime));
    let refused = blocking.transaction(|tx| -> Result<(), _> { panic!("it is not called: {tx:?}") });
    assert_eq!(refused.unwrap_err(), Error::Begin(BeginError::BlocksRuntime));
    let batch = blocking.batch();
    batch.counter(&key).add(1);
    assert_eq!(batch.commit().unwrap_err(), Error::Begin(BeginError::BlocksRuntime));

    let same = key.clone();
    let added = tokio::task::spawn_blocking(move || blocking.counter(same).add_returning(1));
    assert_eq!(added.await.expect("no panic").expect("committed"), 1, "a thread that may wait");
    assert_eq!(store.counter(&key).get().await.expect("read"), 1, "nothing else was done");
}
