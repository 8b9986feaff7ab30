//! Commands that wait for something to take (`BLPOP` and its kin), beside transactions.
//!
//! The server serves them at the end of whatever command brought something, without a look at the guard: an item that a
//! transaction has taken and not yet removed would go to two. So they are always waited for here: what the server
//! wakes is looked at first, and stays asleep while its key is held in conflict. A held key that was passed over is
//! signalled again when it is free.

use std::collections::BTreeSet;
use std::ffi::c_int;

use claret_types::{Access, Bytes};
use redis_module::raw;

use super::{GUARD_TABLE, conflict_of};
use crate::commands::Outcome;
use crate::ffi::{Arg, Ctx, Flag, Text, guarded};
use crate::host::{HOST, mend};

/// Keys that were passed over, to be signalled when they are free.
#[derive(Default)]
pub(super) struct PassedOver(BTreeSet<Bytes>);

impl PassedOver {
    pub(super) fn is_any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Takes those that are free now.
    pub(super) fn take(&mut self, is_free: impl Fn(&Bytes) -> bool) -> Vec<Bytes> {
        let free: Vec<Bytes> = self.0.iter().filter(|key| is_free(key)).cloned().collect();
        for key in &free {
            self.0.remove(key);
        }
        free
    }
}

/// Takes something if there is something to take; otherwise waits for it. `words` are the plain command's.
pub(super) fn pop(ctx: Ctx, words: &[Arg<'_>]) -> Outcome {
    let Some(millis) = time_of(words) else {
        // The server says what is wrong with it.
        ctx.run_for_client(words, false);
        return Ok(());
    };
    let keys = keys_of(ctx, words);
    let free = note_held(ctx, &keys);
    let may_wait = ![Flag::Multi, Flag::Lua, Flag::DenyBlocking].into_iter().any(|flag| ctx.is(flag));
    if free && ctx.run_for_client(words, may_wait) {
        return Ok(());
    }
    if !may_wait {
        if !free {
            return Err(super::try_again(&keys));
        }
        return Ok(());
    }
    let keys: Vec<Text> = keys.iter().map(|(key, _)| Text::new(key)).collect();
    ctx.block_on_keys(&keys, Some(woken), Some(late), millis);
    Ok(())
}

/// How long it waits in milliseconds, 0 for ever; `None` when that cannot be read.
fn time_of(words: &[Arg<'_>]) -> Option<u64> {
    let name = words.first()?;
    let is_first = name.is("BLMPOP") || name.is("BZMPOP");
    let seconds: f64 = if is_first { words.get(1)? } else { words.last()? }.number()?;
    (0.0..1e12).contains(&seconds).then(|| if seconds > 0.0 { (seconds * 1e3).ceil() as u64 } else { 0 })
}

fn keys_of(ctx: Ctx, words: &[Arg<'_>]) -> Vec<(Bytes, Access)> {
    let words: Vec<Text> = words.iter().map(|word| Text::new(word.bytes())).collect();
    let row = GUARD_TABLE.with(|table| table.find(words.first()?.bytes())).flatten();
    row.map_or_else(Vec::new, |row| row.keys(ctx, &words))
}

/// Whether no key is held in conflict; those that are will be signalled.
fn note_held(ctx: Ctx, keys: &[(Bytes, Access)]) -> bool {
    if ctx.database() != 0 {
        return true;
    }
    // A write would end the server.
    let is_paused = Ctx::must_not_write() && ctx.blocked_answers();
    let noted = HOST.with(|host| {
        let held: Vec<Bytes> = keys
            .iter()
            .filter(|(key, access)| is_paused || conflict_of(host, key, *access))
            .map(|(key, _)| key.clone())
            .collect();
        let free = held.is_empty();
        host.guard.passed_over.0.extend(held);
        host.guard.come_back(ctx);
        free
    });
    noted.unwrap_or(true)
}

/// Something happened to one of the keys. The result says whether the client was served.
unsafe extern "C" fn woken(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: the server's context and arguments, for the time of this call.
    let (ctx, arguments) = unsafe { (Ctx::new(ctx), Ctx::arguments(argv, argc)) };
    let served = guarded(ctx, "a blocked pop", mend, |ctx| {
        let words = arguments.get(1..).unwrap_or_default();
        let keys = keys_of(ctx, words);
        note_held(ctx, &keys) && ctx.run_for_client(words, true)
    });
    if served == Some(true) { raw::REDISMODULE_OK as c_int } else { raw::REDISMODULE_ERR as c_int }
}

/// The time is over.
unsafe extern "C" fn late(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: the server's context and arguments, for the time of this call.
    let (ctx, arguments) = unsafe { (Ctx::new(ctx), Ctx::arguments(argv, argc)) };
    let moves = arguments.get(1).is_some_and(|name| name.is("BLMOVE") || name.is("BRPOPLPUSH"));
    if moves {
        ctx.reply_nil()
    } else {
        ctx.reply_nil_array()
    }
    raw::REDISMODULE_OK as c_int
}
