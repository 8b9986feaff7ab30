//! Claret's abstract data types: what an author of a custom type needs, and nothing more.
//!
//! A type says what its operations do (execute, apply) and which of them commute (modes, claims, draws).
//! From that the store derives abstract locks, phases and combining. Start at [`DataType`], see [`Set`]
//! for a type with element-level conflicts and [`Counter`] for one with escrow.
//!
//! This crate names no clock, thread, socket, random source, log or async runtime.

mod bytes;
mod claim;
mod counter;
mod data_type;
mod erased;
mod error;
pub mod oracle;
mod reply;
mod set;
mod text;

pub use bytes::Bytes;
pub use claim::{Claim, Claims, Draw, Held, MODES_MAX, Mode, Modes, Room, Scope, modes};
pub use counter::{Counter, CounterOp};
pub use data_type::{
    Access, Arguments, DataType, Examples, Execution, Few, Method, Unique, arguments, method_named,
};
pub use erased::{Effect, Executed, Operation, State, TypeInfo};
pub use error::OpError;
pub use reply::{FromReply, Pairs, Reply};
pub use set::{Set, SetOp};
pub use text::Text;
