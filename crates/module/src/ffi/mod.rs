//! The server's functions, made safe to call: the only place, with `lib.rs`, that knows pointers.
//!
//! Everything happens on the server's main thread. A [`Ctx`] is handed in by the server and valid until the call that
//! brought it returns; none is ever kept.

pub(crate) mod alloc;
mod bus;
mod call;
mod client;
mod ctx;
mod entry;
mod filter;
mod key;
mod main_thread;
mod string;
mod user;

pub(crate) use call::Answer;
pub(crate) use client::ClientInfo;
pub(crate) use ctx::{Blocked, Ctx, Flag, Log, Rejected, Timer, TimerProc};
pub(crate) use entry::{caught, guarded};
pub(crate) use filter::{Filtered, Place};
pub(crate) use key::{Key, Kind, Side};
pub(crate) use main_thread::OnMainThread;
pub(crate) use string::{Arg, Text};
pub(crate) use user::{Denial, User};

/// A function of the server's, within `unsafe`. The pointer is written once, before anything else runs. Those that this
/// module needs are there in every server that it loads into: loading checks it.
macro_rules! api {
    ($name:ident) => {
        redis_module::raw::$name.expect(concat!(stringify!($name), " is part of Redis 7.0"))
    };
}
pub(crate) use api;
