//! Strictly serializable, interactive transactions over typed records, in which operations that commute share a
//! lock.
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
//! # Ok::<_, claret::TransactionError>(()) }).unwrap();
//! ```
//!
//! Begin at [`Store`]. Types and their commutativity are in `docs/types.md`, the protocol in `docs/protocol.md`.

mod batch;
pub mod blocking;
#[cfg(feature = "cluster")]
pub mod cluster;
mod conductor;
mod embedded;
mod error;
mod host;
mod records;
mod store;
mod timer;
mod tx;
mod wrong;

pub use batch::{Batch, Replies, Ticket};
pub use claret_core::Limits;
pub use claret_types as types;
pub use claret_types::{Bytes, DataType, FromReply, OpError, Operation, Pairs, Reply, ScoreBound, Summary};
pub use error::{Abort, OperationError, OtherTicket, TransactionError};
pub use host::Mode;
pub use records::{
    BoundedRecord, CounterRecord, DictRecord, FloatRecord, ListRecord, QueueRecord, Record, Records,
    RegisterRecord, Scope, ScoredSetRecord, SetRecord, Single, StackRecord, SummaryBagRecord, TopKRecord,
    UidRecord,
};
pub use store::{Stats, Store, StoreBuilder, TxOptions};
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
