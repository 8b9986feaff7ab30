//! Claret's abstract data types: everything that the author of a custom type needs, and nothing more.
//!
//! A type says what its operations do (execute, apply) and which of them commute (modes, claims, draws). From that
//! the store derives abstract locks, phases and combining. Start at [`DataType`]. [`Set`] is an example with
//! conflicts by element, [`Counter`] one with escrow.
//!
//! This crate names no clock, thread, socket, random source, log or async runtime.

mod bounded_counter;
mod bounded_serde;
mod builtin;
mod bytes;
pub mod carried;
mod claim;
mod command;
mod content;
mod counter;
mod data_type;
mod dict;
mod document;
mod erased;
mod error;
mod exact;
mod expecting;
mod expiry;
mod float_counter;
mod keyspace;
mod list;
mod method;
mod moment;
pub mod oracle;
mod ranking;
mod register;
mod registry;
mod reply;
mod rows;
mod run;
mod schema;
mod scored_set;
mod set;
mod span;
mod stored;
mod stream;
mod summary_bag;
mod text;
mod topk;
mod uid;
mod version;
mod words;

pub use bounded_counter::{Bounded, BoundedCounter, BoundedCounterEffect, BoundedCounterOp};
pub use builtin::{BuiltIn, Native};
pub use bytes::Bytes;
pub use claim::{Claim, Claims, Draw, Held, MODES_MAX, Mode, Modes, Room, Scope, modes};
pub use command::{Command, Run, is_done_in_memory};
pub use content::{
    CONTENT_BYTES_MAX, CONTENT_ELEMENTS_MAX, Content, DIGEST_BYTES_MAX, DIGEST_ELEMENTS_MAX, check_digestible,
};
pub use counter::{Counter, CounterEffect, CounterOp};
pub use data_type::{
    Access, Arguments, DataType, Examples, Execution, Few, Method, Unique, arguments, few, method_named,
};
pub use dict::{Dict, DictEffect, DictOp, DictState, DictValue};
pub use document::{
    DEPTH_MAX as DOCUMENT_DEPTH_MAX, Document, DocumentEffect, DocumentOp, DocumentState, Json as JsonValue,
    Node as DocumentNode, Number as JsonNumber, PATH_BYTES_MAX as DOCUMENT_PATH_BYTES_MAX,
    Path as DocumentPath,
};
pub use erased::{Effect, Executed, Operation, State, TypeInfo};
pub use error::OpError;
pub use expiry::Expiry;
pub use float_counter::{FloatCounter, FloatCounterEffect, FloatCounterOp};
pub use keyspace::{KeyspaceEffect, KeyspaceOp};
pub use list::{End, List, ListEffect, ListOp, ListState};
pub use moment::{ExpiresAt, Moment, Ttl};
pub use ranking::{Ranking, ScoreBound};
pub use register::{Register, RegisterEffect, RegisterOp};
pub use registry::{BUILTIN, builtin_types};
pub use reply::{FromReply, Pairs, Reply};
pub use rows::builtin_examples;
pub use schema::{
    FieldType, SCHEMA_BYTES_MAX, SCHEMA_PREFIX_BYTES_MAX, SCHEMA_PREFIXES_MAX, Schema, SchemaDigest,
    SchemaError, TypeName,
};
pub use scored_set::{ScoredSet, ScoredSetEffect, ScoredSetOp};
pub use set::{Set, SetEffect, SetOp, SetState};
pub use stream::{Entries, Stream};
pub use summary_bag::{Summary, SummaryBag, SummaryBagEffect, SummaryBagOp};
pub use text::{Text, is_canonical_integer, no_number};
pub use topk::{Best, TopK, TopKEffect, TopKOp};
pub use uid::{Issued, UidEffect, UidGenerator, UidOp};

/// The registry: calls the macro `$then!` with all built-in types, each with its place on the wire (the place that is left out is that
/// of operations on records of any type). Add types at the end.
#[doc(hidden)]
#[macro_export]
macro_rules! with_types {
    ($then:ident) => {
        $then! {
            0 Register,
            1 Counter,
            2 FloatCounter,
            3 BoundedCounter,
            4 Set,
            5 Dict,
            6 ScoredSet,
            7 TopK,
            8 SummaryBag,
            9 List,
            10 UidGenerator,
            12 Document,
        }
    };
}
