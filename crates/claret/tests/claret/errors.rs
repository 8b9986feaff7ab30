//! The table of errors on the embedded store, with what that one alone can give.

use claret::{
    Error, Limits, OpError, Operation, Records, Schema, Store, errors::ExecuteError, types::TypeName,
};
use tokio::sync::Notify;

use crate::any_host::errors::provoked::matched;
use crate::any_host::errors::table::{Ground, Host, Provoked, walk};
use crate::faulty::{Faulty, FaultyOp};

#[tokio::test]
async fn every_error_of_the_table_can_be_matched_in_the_process() {
    let small = Limits::new().calls_max(3).value_bytes_max(8);
    let (store, closing) = (Store::in_memory(), Store::in_memory());
    let small = Store::builder().limits(small).build();
    let ground = Ground { store: &store, small: &small, closing: &closing, prefix: String::new() };
    let own = vec![
        crowded().await,
        of_a_faulty_type(&store, FaultyOp::Panic).await,
        of_a_faulty_type(&store, FaultyOp::Refuse).await,
        against_schema().await,
    ];
    walk(Host::Embedded, &ground, own).await;
}

/// One waits for what another one holds, and there is no room for a second.
async fn crowded() -> Provoked {
    let store = Store::builder().limits(Limits::new().waiters_max(1)).build();
    let (is_held, is_over) = (Notify::new(), Notify::new());
    let holder = store.transaction(|tx| {
        let (is_held, is_over) = (&is_held, &is_over);
        async move {
            tx.counter("k").add_returning(1).await?;
            is_held.notify_one();
            is_over.notified().await;
            Ok(())
        }
    });
    let others = async {
        is_held.notified().await;
        let first = tokio::spawn({
            let store = store.clone();
            async move { store.counter("k").add(1).await }
        });
        tokio::task::yield_now().await;
        let refused = store.counter("k").add(1).await;
        is_over.notify_one();
        (first.await.expect("no panic"), refused)
    };
    let (held, (first, refused)) = tokio::join!(holder, others);
    held.expect("committed");
    first.expect("let in");
    let error = matched!(refused, Error::Execute(ExecuteError::Crowded(key)) if *key == "k".into());
    Provoked::new(error, ["key 'k'", "try again later"])
}

async fn against_schema() -> Provoked {
    let schema = Schema::new().prefix("seen:", TypeName::Set).expect("a schema");
    let store = Store::builder().schema(schema).build();
    let error = matched!(
        store.counter("seen:k").add(1).await,
        Error::Execute(ExecuteError::Invalid { key, error: OpError::AgainstSchema { prefix, .. } }) if *key == "seen:k".into() && **prefix == *"seen:"
    );
    Provoked::new(
        error,
        ["key 'seen:k'", "holds a set, and this is an operation of a counter", "change the schema"],
    )
}

async fn of_a_faulty_type(store: &Store, op: FaultyOp) -> Provoked {
    let result = store.transaction(|tx| {
        let op = Operation::new::<Faulty>(op.clone());
        async move { Ok(tx.issue("faulty", op)?) }
    });
    let error =
        matched!(result.await, Error::Execute(ExecuteError::Invalid { key, .. }) if *key == "faulty".into());
    match &error {
        Error::Execute(ExecuteError::Invalid { error: OpError::Panicked { method, message }, .. }) => {
            assert!(method == "FAULT" && message.contains("no such case"), "{error:?}");
            Provoked::new(error, ["key 'faulty'", "mend the type"])
        }
        Error::Execute(ExecuteError::Invalid { error: OpError::Custom(words), .. }) => {
            assert_eq!(words, "not today; come again tomorrow");
            Provoked::new(error, ["key 'faulty'", "come again tomorrow"])
        }
        other => panic!("{other:?}"),
    }
}
