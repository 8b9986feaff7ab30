//! Strictly serializable, interactive transactions over typed records. Operations that commute share a lock.
//!
//! ```
//! # pollster::block_on(async {
//! use claret::{Records, Store};
//!
//! let store = Store::in_memory();
//! store
//!     .transaction(|tx| async move {
//!         tx.set("bidders:42").add("ada")?;
//!         tx.counter("bids:42").add(1)?;
//!         Ok(())
//!     })
//!     .await?;
//! assert_eq!(store.counter("bids:42").get().await?, 1);
//! # Ok::<_, claret::Error>(()) }).unwrap();
//! ```
//!
//! Begin at [`Store`]. `docs/types.md` says which operations commute, `docs/protocol.md` describes the protocol.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod backend;
mod batch;
pub mod blocking;
mod by_call;
mod call;
#[cfg(feature = "cluster")]
pub mod cluster;
mod deadline;
mod embedded;
mod error;
mod mailbox;
mod mode;
mod open;
mod options;
mod planted;
mod records;
mod stats;
mod store;
mod tx;

pub use batch::{Batch, Replies, Ticket};
pub use claret_core::Limits;
pub use claret_types as types;
pub use claret_types::{Bytes, DataType, FromReply, OpError, Operation, Pairs, Reply, ScoreBound, Summary};
pub use error::{Abort, Error, Reason};
pub use mode::Mode;
pub use open::StoreBuilder;
pub use options::TxOptions;
pub use records::{
    BoundedRecord, CounterRecord, DictRecord, FloatRecord, ListRecord, QueueRecord, Record, Records,
    RegisterRecord, Scope, ScoredSetRecord, SetRecord, Single, StackRecord, SummaryBagRecord, TopKRecord,
    UidRecord,
};
pub use stats::Stats;
pub use store::Store;
pub use tx::{Answer, Tx};

/// The examples of documents, which are compiled and run as tests.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../README.md")]
    struct Readme;

    #[doc = include_str!("../../../docs/howto/keep-transactions-short.md")]
    struct KeepTransactionsShort;

    #[doc = include_str!("../../../docs/howto/move-from-multi-and-watch.md")]
    struct MoveFromMultiAndWatch;

    #[doc = include_str!("../../../docs/howto/unknown-outcome.md")]
    struct UnknownOutcome;
}
