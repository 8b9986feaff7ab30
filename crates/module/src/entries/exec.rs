//! `CLARET.EXEC`: a one-shot transaction on keys of this node, for any client and for `redis-cli`; and `CLARET.DO`, the same on keys of
//! any nodes.

use std::ffi::c_int;

use claret_types::{BUILTIN, Bytes, OpError, Operation};
use redis_module::raw;

use super::frame::in_first_database;
use super::{closed, entry, keyspace, with_node};
use crate::ffi::{Arg, Ctx, Flag};
use crate::node::caller::Caller;
use crate::node::{Begun, Node, check_placement, limits};
use crate::parts::errands::{BYTES_MAX, CALLS_MAX, Once};
use crate::parts::error::{Error, Outcome};
use crate::parts::one_shots::{Calls, Ended};

/// `CLARET.EXEC words operation key [argument ...] [words operation key [argument ...] ...]`
pub(super) fn exec(ctx: Ctx, arguments: &[Arg<'_>]) -> Outcome {
    in_first_database(ctx)?;
    let calls = parse(&arguments[1..])?;
    let caller = keyspace().caller(ctx);
    keyspace().view(|slots| check_placement(slots, &calls)).unwrap_or(Ok(()))?;
    keyspace().may_write(ctx)?;
    run_here(ctx, calls, &caller)
}

/// Whether a client can be made to wait.
fn may_wait(caller: &Caller) -> bool {
    !caller.is(Flag::Multi) && !caller.is(Flag::Lua) && !caller.is(Flag::DenyBlocking)
}

/// Runs operations whose keys are all here.
fn run_here(ctx: Ctx, calls: Calls, caller: &Caller) -> Outcome {
    match with_node(|node| node.exec(ctx, calls, caller, may_wait(caller))) {
        None => Err(Error::NotReady),
        Some(Begun::Ended(ended)) => reply(ctx, ended),
        Some(Begun::Waits(number)) => {
            let client = ctx.block(Some(answer));
            client.on_disconnect(Some(gone));
            with_node(|node| node.exec_waits(ctx, number, client));
            Ok(())
        }
    }
}

/// `CLARET.DO [ONCE id] words operation key [argument ...] [words operation key [argument ...] ...]`
pub(super) fn errand(ctx: Ctx, arguments: &[Arg<'_>]) -> Outcome {
    in_first_database(ctx)?;
    let (once, words) = match &arguments[1..] {
        [word, id, words @ ..] if word.bytes().eq_ignore_ascii_case(b"once") => (Some(id), words),
        words => (None, words),
    };
    let once = once.map(|id| Once::new(id.to_bytes(), Ctx::unix_ms(), &limits())).transpose()?;
    let calls = parse(words)?;
    let caller = keyspace().caller(ctx);
    keyspace().may_write(ctx)?;
    if once.is_none() && with_node(|node| node.has_all(ctx, &calls)).ok_or(Error::NotReady)? {
        return run_here(ctx, calls, &caller);
    }
    let bytes: usize = arguments[1..].iter().map(|word| word.bytes().len()).sum();
    if calls.len() > CALLS_MAX || bytes > BYTES_MAX {
        let (calls, calls_max, bytes_max) = (calls.len(), CALLS_MAX, BYTES_MAX);
        return Err(Error::ErrandTooLarge { calls, bytes, calls_max, bytes_max });
    }
    let begun = with_node(|node| node.begin_errand(ctx, (once, calls), &caller, may_wait(&caller)));
    let number = begun.unwrap_or(Err(Error::NotReady))?;
    let client = ctx.block(Some(answer_errand));
    client.on_disconnect(Some(giver_gone));
    with_node(|node| node.errand_waits(ctx, number, client));
    Ok(())
}

fn reply(ctx: Ctx, ended: Ended) -> Outcome {
    let replies = ended?;
    ctx.reply_array(replies.len());
    replies.iter().for_each(|reply| ctx.reply(reply));
    Ok(())
}

fn parse(mut words: &[Arg<'_>]) -> Result<Calls, Error> {
    let limits = limits();
    let mut calls = Calls::new();
    while let [count, rest @ ..] = words {
        let count: Option<usize> = count.number();
        let count = count.filter(|count| (2..=rest.len()).contains(count)).ok_or(Error::ExecWords)?;
        let (one, others) = rest.split_at(count);
        words = others;
        let key = one[1].to_bytes();
        let op = operation(one, limits.value_bytes_max).map_err(Error::Operation)?;
        if key.is_empty() {
            return Err(Error::Operation(OpError::EmptyKey));
        }
        if key.len() > limits.key_bytes_max {
            let (size, limit) = (key.len(), limits.key_bytes_max);
            return Err(Error::Operation(OpError::TooLarge { what: "key".into(), size, limit }));
        }
        calls.push((key, op));
        if calls.len() as u64 > u64::from(limits.calls_max) {
            return Err(Error::TooManyCalls(limits.calls_max));
        }
    }
    if calls.is_empty() { Err(Error::ExecEmpty) } else { Ok(calls) }
}

/// By its name; where several types have it, that of the first.
fn operation(words: &[Arg<'_>], value_bytes_max: usize) -> Result<Operation, OpError> {
    let name = words[0].text().unwrap_or_default().to_ascii_uppercase();
    let arguments: Vec<Bytes> = words[2..].iter().map(|word| word.to_bytes()).collect();
    let kind = BUILTIN.iter().find(|kind| kind.methods.iter().any(|method| method.name == name));
    let kind = kind.ok_or_else(|| OpError::UnknownMethod(words[0].to_bytes().to_string()))?;
    let mut op = (kind.parse)(&name, &arguments)?;
    op.resolve(Ctx::unix_ms);
    op.check(value_bytes_max)?;
    Ok(op)
}

/// It ended while its client waited, or its time is over.
unsafe extern "C" fn answer(
    ctx: *mut raw::RedisModuleCtx,
    _: *mut *mut raw::RedisModuleString,
    _: c_int,
) -> c_int {
    // SAFETY: it is what the server just called with, and does not leave this call (context rule).
    let ctx = unsafe { Ctx::new(ctx) };
    answer_with(ctx, Node::exec_ended)
}

fn answer_with(ctx: Ctx, ended: impl FnOnce(&mut Node, u64) -> Ended) -> c_int {
    let number = ctx.released_with();
    let ended = entry(ctx, "an answer", |_| with_node(|node| ended(node, number))).flatten();
    if let Err(error) = reply(ctx, ended.unwrap_or(Err(Error::NotReady))) {
        ctx.reply_error(&error.line());
    }
    raw::REDISMODULE_OK as c_int
}

/// The same of an errand.
unsafe extern "C" fn answer_errand(
    ctx: *mut raw::RedisModuleCtx,
    _: *mut *mut raw::RedisModuleString,
    _: c_int,
) -> c_int {
    // SAFETY: it is what the server just called with, and does not leave this call (context rule).
    let ctx = unsafe { Ctx::new(ctx) };
    answer_with(ctx, Node::errand_ended)
}

/// The connection of whoever gave one closed.
unsafe extern "C" fn giver_gone(ctx: *mut raw::RedisModuleCtx, client: *mut raw::RedisModuleBlockedClient) {
    // SAFETY: they are what the server just called with, and do not leave this call (context rule).
    unsafe { closed(ctx, client, "a closing client", |node, ctx, client| node.errand_left(ctx, client)) }
}

/// Its connection closed.
unsafe extern "C" fn gone(ctx: *mut raw::RedisModuleCtx, client: *mut raw::RedisModuleBlockedClient) {
    // SAFETY: they are what the server just called with, and do not leave this call (context rule).
    unsafe { closed(ctx, client, "a closing client", |node, ctx, client| node.exec_left(ctx, client)) }
}
