//! Whether an operation may be done here at all: asked when it arrives, before it queues. What is promised later, with
//! a vote, cannot fail for any of this.
//!
//! The rules are those of the plain command that does the same: the calling user needs the permission for it and for
//! the key (R18), `maxmemory` refuses it if it may add, a server that takes no writes refuses it if it writes.

use std::cell::RefCell;
use std::ffi::c_int;

use claret_core::message::Refusal;
use claret_types::{Access, Bytes, Operation, TopK, TopKOp};
use redis_module::raw;

use crate::ffi::{Ctx, Flag, Text, User};
use crate::native::side_key;

/// Who calls, and how the server is, for the time of one command.
pub(crate) struct Caller {
    user: User,
    name: String,
    flags: u32,
}
