//! Timers that the node sets.

use std::ffi::c_void;

use redis_module::raw;

use super::{moment, with_node};
use crate::ffi::Ctx;
use crate::node::TimerProcs;

/// What the node's timers call.
pub(super) const PROCS: TimerProcs = TimerProcs { deadline, soon, tick, check, replicas, ack, mail };

unsafe extern "C" fn deadline(ctx: *mut raw::RedisModuleCtx, _: *mut c_void) {
    // SAFETY: it is what the server just called with, and does not leave this call (context rule).
    let ctx = unsafe { Ctx::new(ctx) };
    moment(ctx, "a timer", |ctx| with_node(|node| node.deadline_fired(ctx)));
}

unsafe extern "C" fn soon(ctx: *mut raw::RedisModuleCtx, _: *mut c_void) {
    // SAFETY: it is what the server just called with, and does not leave this call (context rule).
    let ctx = unsafe { Ctx::new(ctx) };
    moment(ctx, "a timer", |ctx| with_node(|node| node.soon_fired(ctx)));
}

unsafe extern "C" fn replicas(ctx: *mut raw::RedisModuleCtx, _: *mut c_void) {
    // SAFETY: it is what the server just called with, and does not leave this call (context rule).
    let ctx = unsafe { Ctx::new(ctx) };
    moment(ctx, "the replicas' timer", |ctx| with_node(|node| node.replicas_fired(ctx)));
}

unsafe extern "C" fn ack(ctx: *mut raw::RedisModuleCtx, _: *mut c_void) {
    // SAFETY: it is what the server just called with, and does not leave this call (context rule).
    let ctx = unsafe { Ctx::new(ctx) };
    moment(ctx, "the primary's timer", |ctx| with_node(|node| node.ack_fired(ctx)));
}

unsafe extern "C" fn mail(ctx: *mut raw::RedisModuleCtx, _: *mut c_void) {
    // SAFETY: it is what the server just called with, and does not leave this call (context rule).
    let ctx = unsafe { Ctx::new(ctx) };
    moment(ctx, "the timer of what is for other nodes", |ctx| with_node(|node| node.mail_fired(ctx)));
    // Also after a panic: there is a next time.
    moment(ctx, "the timer of what is for other nodes", |ctx| with_node(|node| node.mail_left(ctx)));
}

unsafe extern "C" fn tick(ctx: *mut raw::RedisModuleCtx, _: *mut c_void) {
    // SAFETY: it is what the server just called with, and does not leave this call (context rule).
    let ctx = unsafe { Ctx::new(ctx) };
    moment(ctx, "the guard's timer", |ctx| {
        let free = with_node(|node| node.tick(ctx));
        // Whoever is served runs a command, and so nobody may be at the node.
        for key in free.unwrap_or_default() {
            ctx.signal(&key);
        }
    });
}

unsafe extern "C" fn check(ctx: *mut raw::RedisModuleCtx, _: *mut c_void) {
    // SAFETY: it is what the server just called with, and does not leave this call (context rule).
    let ctx = unsafe { Ctx::new(ctx) };
    moment(ctx, "the periodic check", |ctx| with_node(|node| node.check(ctx)));
    // Also after a panic: the next check comes.
    moment(ctx, "the periodic check", |ctx| with_node(|node| node.checked(ctx)));
}
