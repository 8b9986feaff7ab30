//! Strictly serializable, interactive transactions over typed records. Operations that commute share a lock, so transactions
//! that add to one set, count one counter or buy from one stock run side by side.
//!
//! A [`Store`] is in memory in this process ([`Store::in_memory`]), in a folder of it ([`Store::open`]), or on a Redis or Valkey
//! cluster whose nodes load Claret's module ([`Store::connect`](Store#method.connect)). All have the same API and promise the same,
//! except how long what was reported lasts: with the process; as the disk; as Redis keeps it, or, in the durability `strict`, over
//! failovers. The page `docs/guarantees.md` has every fault.
//!
//! # A transaction
//!
//! ```
//! # pollster::block_on(async {
//! use claret::{Abort, Records, Store};
//!
//! let store = Store::in_memory();
//! store.bounded_counter("seats:42").create(100, 0, 100).await?;
//!
//! store
//!     .transaction(async |tx| {
//!         if !tx.bounded_counter("seats:42").try_take(2).await? {
//!             return Err(Abort::because("sold out"));
//!         }
//!         tx.set("guests:42").add("ada")?;
//!         tx.counter("income:cents").add(11_800)?;
//!         Ok(())
//!     })
//!     .await?;
//!
//! assert_eq!(store.bounded_counter("seats:42").get().await?, Some(98));
//! # Ok::<_, claret::Error>(()) }).unwrap();
//! ```
//!
//! The closure runs on the store's records by a handle, [`Tx`], and reads its own writes. It commits as a whole when it
//! answers `Ok`, and leaves no trace when it answers `Err`, panics or is dropped. The store **runs it again** when another
//! transaction is in its way, so keep side effects out of it.
//!
//! - [`Records`] has the handles by type: registers, counters, sets, lists and others. Stores, transactions and batches have
//!   it, so `store.counter("hits").add(1)` is a transaction of its own.
//! - Operations that answer nothing, such as `add`, are sent with the commit and cost no round trip. Those that answer are
//!   awaited.
//! - [`Batch`] is for operations that are all known up front: it commits in one step.
//! - [`blocking`] is the same for plain threads.
//! - [`Store::tx`] is a transaction with a deadline and a number of attempts of its own; [`TxOptions`] sets them for a store.
//! - [`Store::stats`] counts what happened, and [`Tx::attempt`] says which attempt a closure is.
//! - [`Store::tx`] with [`once`](TxBuilder::once) commits at most once for an id of yours, such as an order's number.
//!
//! Embedded stores work under any async runtime, stores on a cluster under tokio.
//!
//! # On a cluster
//!
#![cfg_attr(feature = "cluster", doc = "```no_run")]
#![cfg_attr(not(feature = "cluster"), doc = "```ignore")]
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use claret::{Records, Store};
//!
//! let store = Store::connect("redis://shop:secret@10.0.0.1:7000,10.0.0.2:7000").await?;
//! store
//!     .transaction(async |tx| {
//!         tx.counter("account:ada").add(-30)?;
//!         tx.counter("account:bob").add(30)?;
//!         Ok(())
//!     })
//!     .await?;
//! # Ok(()) }
//! ```
//!
//! Keys may be on any nodes. `rediss://` is TLS; [`ClusterBuilder`](./cluster/struct.ClusterBuilder.html) has the parameters of
//! such an address. Records are ordinary Redis values under ordinary keys. `claret cluster start`, of the crate
//! `claret-cli`, starts a cluster on your machine to try this with.
//!
//! # Errors and retries
//!
//! Operations, batches and transactions answer the same [`Error`], so `?` leads through all of them. The store has already
//! tried again where that could help, up to the deadline. What is left:
//!
//! | it says | then |
//! |---|---|
//! | [`Error::Aborted`] | your closure said so, by [`Abort::because`]: its reason is in it |
//! | [`Error::is_retryable`] | nothing is done; the same may succeed later |
//! | [`Error::Unknown`] | a node was lost while it committed, or its log was not written in time: ask [`Store::outcome`], look, or use [`TxBuilder::once`], which can be run again |
//! | another one | nothing is done, and trying again does not help: the error says what would |
//!
//! A closure that returns an error type of your own takes [`Store::try_transaction`]:
//!
//! ```
//! # pollster::block_on(async {
//! # use claret::{Error, Records, Store};
//! # #[derive(Debug)]
//! enum Refused {
//!     SoldOut,
//!     Store(Error),
//! }
//!
//! impl From<Error> for Refused {
//!     fn from(error: Error) -> Self {
//!         Refused::Store(error)
//!     }
//! }
//!
//! # let store = Store::in_memory();
//! # store.bounded_counter("seats").create(1, 0, 1).await.unwrap();
//! let bought = store.try_transaction(async |tx| {
//!     match tx.bounded_counter("seats").try_take(2).await? {
//!         true => Ok(()),
//!         false => Err(Refused::SoldOut),
//!     }
//! });
//! assert!(matches!(bought.await, Err(Refused::SoldOut)));
//! # });
//! ```
//!
//! # Features
//!
//! | feature | | what |
//! |---|---|---|
//! | `json` | on by default | `Json<T>`: values as JSON, by serde |
//! | `tracing` | | spans and events of transactions, for a subscriber of `tracing` |
//! | `metrics` | | counters of transactions, for a recorder of the crate `metrics`. Install it before you open a store |
//! | `cluster` | on by default | [`Store::connect`](Store#method.connect) and the module [`cluster`](./cluster/index.html): TLS, tokio and what else a client needs |
//!
//! Without features there is the embedded store, with few dependencies.
//!
//! # More
//!
//! In the repository, `docs/types.md` says of every operation what it costs and what it commutes with, `docs/howto` shows how to
//! do common things, and `docs/operations.md` how to run a cluster. To write a type of your own, begin at [`DataType`].

#![cfg_attr(docsrs, feature(doc_cfg))]

mod answer;
mod at_commit;
mod backend;
mod batch;
pub mod blocking;
mod by_call;
mod call;
mod caller;
#[cfg(feature = "cluster")]
pub mod cluster;
mod coarse_timer;
mod deadline;
mod decode;
pub mod durability;
mod embedded;
mod error;
mod glob;
pub mod keys;
#[doc(hidden)]
pub mod lab;
mod limits;
mod mailbox;
mod mode;
mod nesting;
mod observe;
mod once;
mod open;
mod open_url;
mod options;
mod outcome;
mod pages;
mod records;
mod rename;
mod runtime;
pub mod stats;
mod store;
mod tx;
mod tx_builder;
mod value;

pub use answer::Answer;
pub use at_commit::AtCommit;
pub use batch::{Batch, Replies, Ticket};
pub use caller::Caller;
pub use claret_types as types;
pub use claret_types::{Bytes, DataType, OpError, Operation, Reply, Schema};
pub use error::{Abort, Error};
pub use limits::Limits;
pub use once::{OnceBuilder, OnceOutcome};
pub use open::StoreBuilder;
pub use options::TxOptions;
pub use outcome::{Outcome, OutcomeId};
pub use records::{AsyncScope, BlockingScope, Records, handles};
pub use store::Store;
pub use tx::{Savepoint, Tx};
pub use tx_builder::TxBuilder;
#[cfg(feature = "json")]
pub use value::Json;
pub use value::{FromValue, IntoValue};

/// Errors by what a program was about, of which [`Error`] is made, and those of single functions.
pub mod errors {
    pub use crate::error::{
        AttemptError, BeginError, BlockedOn, CommitError, ExecuteError, HandleError, NestError, Reason,
    };
    pub use crate::open_url::OpenUrlError;
    pub use crate::outcome::NoOutcomeId;
    pub use crate::value::ValueError;
}

/// The examples of documents, which are compiled and run as tests.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../README.md")]
    struct Readme;

    #[doc = include_str!("../../../docs/howto/keep-transactions-short.md")]
    struct KeepTransactionsShort;

    #[doc = include_str!("../../../docs/howto/move-from-multi-and-watch.md")]
    struct MoveFromMultiAndWatch;

    #[cfg(feature = "metrics")]
    #[doc = include_str!("../../../docs/howto/observe.md")]
    struct Observe;

    #[doc = include_str!("../../../docs/schemas.md")]
    struct Schemas;

    #[doc = include_str!("../../../docs/scripts.md")]
    struct Scripts;

    #[doc = include_str!("../../../docs/unknown-outcomes.md")]
    struct UnknownOutcomes;

    #[doc = include_str!("../../../docs/howto/write-a-type.md")]
    struct WriteAType;
}
