//! The server's functions, made safe to call: the only place, with `lib.rs`, that knows pointers.
//!
//! Rules that many `unsafe` blocks rely on, by name:
//!
//! - **Function rule.** `api!` reads a pointer that the server wrote while the module was loaded, before anything
//!   else ran, and that nobody writes again. Where a server may lack the function, the pointer is checked first;
//!   elsewhere `api!` panics.
//! - **Thread rule.** The server calls a module from its main thread, or from a thread of a module's that holds the server's
//!   lock, and this module starts none: no two threads are ever here at a time.
//! - **Context rule.** Only an entry makes a [`Ctx`], from what the server just called it with, and
//!   [`Ctx::detached`]. It is `Copy` and is handed down, never stored beyond the entry: code that has one runs within
//!   the entry that made it. A detached one is never freed, and is only asked questions.
//! - **String rule.** A [`Text`] owns one reference count of a server's string, which its `Drop` releases; an [`Arg`]
//!   borrows one for `'a`, the time of the command that it came with. Nobody writes to either.
//! - **Callback rule.** The server keeps calling functions that it was given once. They stay valid, because
//!   `RedisModule_OnUnload` refuses: the module is never unloaded.

pub(crate) mod alloc;
mod bus;
mod call;
mod client;
mod ctx;
mod entry;
mod filter;
mod key;
mod links;
mod main_thread;
mod moment;
mod saved;
mod string;
mod user;

pub(crate) use call::Answer;
pub(crate) use client::ClientInfo;
pub(crate) use ctx::{Blocked, Ctx, Flag, Log, Rejected, Timer, TimerProc};
pub(crate) use entry::{caught, guarded};
pub(crate) use filter::{Answered, Filtered, Place};
pub(crate) use key::{Key, Kind, Side};
pub(crate) use links::Links;
pub(crate) use main_thread::OnMainThread;
pub(crate) use saved::{Loaded, Saved};
pub(crate) use string::{Arg, Text};
pub(crate) use user::{Denial, User};

/// A function of the server's, within `unsafe` (function rule). Those that this module needs are there in every server that it
/// loads into: loading checks it.
macro_rules! api {
    ($name:ident) => {
        redis_module::raw::$name.expect(concat!(stringify!($name), " is part of Redis 7.0"))
    };
}
pub(crate) use api;
