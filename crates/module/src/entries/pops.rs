//! Commands that wait for something to take (`BLPOP` and its kin), beside transactions.
//!
//! The server serves them at the end of the command that brought something, without asking the guard. An item that a
//! transaction has taken and not yet removed would then go to two clients. So once transactions come to this node,
//! such commands wait here: when the server wakes one, the module checks it first, and it stays asleep while its key
//! is held in conflict. A held key that was passed over is signalled again when it is free.
//! [`crate::parts::blocked_clients`] handles pops that slept before that.

use std::ffi::c_int;

use claret_planted::{Bug, is_planted};
use claret_types::{Access, Bytes};
use redis_module::raw;

use super::{entry, keyspace, with_node};
use crate::ffi::{Answered, Arg, Ctx, Flag, Kind, Text, User};
use crate::parts::error::{Error, Outcome};
use crate::parts::plain::is_move;

/// Takes something if there is something to take; otherwise waits for it. `words` are the plain command's.
pub(super) fn pop(ctx: Ctx, words: &[Arg<'_>]) -> Outcome {
    let keys = keys_of(ctx, words);
    let free = is_free(ctx, &keys);
    let may_wait = ![Flag::Multi, Flag::Lua, Flag::DenyBlocking].into_iter().any(|flag| ctx.is(flag));
    if !may_wait {
        if !free {
            return Err(Error::HeldKey(keys.into_iter().next().map(|(key, _)| key).unwrap_or_default()));
        }
        ctx.run_for_client(words, None);
        return Ok(());
    }
    let Some(millis) = time_of(words) else {
        // The server says what is wrong with it.
        ctx.run_for_client(words, None);
        return Ok(());
    };
    // Of a long time the server may say that it is out of range.
    let runs = millis >= LONG || !finds_nothing(ctx, words, &keys);
    if free && runs && ctx.run_for_client(words, Some(Answered::Nil)) != Answered::Nil {
        return Ok(());
    }
    if keys.is_empty() {
        // Nothing would ever wake it, and the server ends when its connection closes.
        return Err(Error::NoKeys);
    }
    let keys: Vec<Text> = keys.iter().map(|(key, _)| Text::new(key)).collect();
    ctx.block_on_keys(&keys, Some(woken), Some(late), if millis < LONG { millis } else { 0 });
    Ok(())
}

/// Whether it is sure that it would find nothing, and not be refused: then it is not run in vain, and counted.
fn finds_nothing(ctx: Ctx, words: &[Arg<'_>], keys: &[(Bytes, Access)]) -> bool {
    if [Flag::OutOfMemory, Flag::ReadOnly, Flag::Replica].into_iter().any(|flag| ctx.is(flag)) {
        return false;
    }
    let Some(name) = words.first() else { return false };
    let is_side = |word: &Arg<'_>| word.is("LEFT") || word.is("RIGHT");
    let is_well_formed = match name.is("BLMOVE") {
        true => words.iter().skip(3).take(2).all(is_side),
        // Of those with more words the server says more.
        false => !name.is("BLMPOP") && !name.is("BZMPOP"),
    };
    if !is_well_formed || keys.is_empty() {
        return false;
    }
    let sources = if is_move(name.bytes()) { 1 } else { keys.len() };
    let is_absent = |(key, _): &(Bytes, Access)| ctx.open(&Text::new(key)).is_none();
    let texts: Vec<Text> = words.iter().map(|word| Text::new(word.bytes())).collect();
    keys.iter().take(sources).all(is_absent)
        && User::named(&ctx.user()).is_some_and(|user| user.may_run(&texts.iter().collect::<Vec<_>>()))
}

/// Half of what the server counts milliseconds to. It adds the time of day to a time, which has to fit: these are millions
/// of years, and for ever, if the server takes them.
const LONG: u64 = i64::MAX as u64 / 2;

/// How long it waits in milliseconds, 0 for ever; `None` when no server takes it.
fn time_of(words: &[Arg<'_>]) -> Option<u64> {
    let name = words.first()?;
    let is_first = name.is("BLMPOP") || name.is("BZMPOP");
    let seconds = if is_first { words.get(1)? } else { words.last()? }.float()?;
    (0.0..=i64::MAX as f64 / 1e3).contains(&seconds).then(|| {
        let ms = seconds * 1e3;
        (if is_planted(Bug::ShortPopsWaitForEver) { ms } else { ms.ceil() }) as u64
    })
}

fn keys_of(ctx: Ctx, words: &[Arg<'_>]) -> Vec<(Bytes, Access)> {
    let words: Vec<Text> = words.iter().map(|word| Text::of(*word)).collect();
    let row = words.first().and_then(|name| keyspace().row(name.bytes()));
    let keys = row.map_or_else(Vec::new, |row| row.keys(&words, |words| ctx.keys_of(words)));
    keys.into_iter().map(|(key, access)| (Bytes::copy_from(key), access)).collect()
}

/// Whether no key is held in conflict; those that are will be signalled.
fn is_free(ctx: Ctx, keys: &[(Bytes, Access)]) -> bool {
    ctx.database() != 0 || with_node(|node| node.may_pop(ctx, keys)).unwrap_or(true)
}

/// Something happened to one of the keys. The result says whether the client was served.
unsafe extern "C" fn woken(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: they are what the server just called with, and do not leave this call (context and string rules).
    let (ctx, arguments) = unsafe { (Ctx::new(ctx), Ctx::arguments(argv, argc)) };
    let served = entry(ctx, "a blocked pop", |ctx| {
        let words = arguments.get(1..).unwrap_or_default();
        let keys = keys_of(ctx, words);
        wakes(ctx, words) && is_free(ctx, &keys) && serve(ctx, words, &keys)
    });
    if served == Some(true) { raw::REDISMODULE_OK as c_int } else { raw::REDISMODULE_ERR as c_int }
}

/// Whether the key that is ready has something of the kind that is popped. Any other is slept through.
fn wakes(ctx: Ctx, words: &[Arg<'_>]) -> bool {
    let Some(name) = words.first() else { return false };
    let is_of_sets = name.bytes().get(1).is_some_and(|envelope| envelope.eq_ignore_ascii_case(&b'z'));
    let kind = if is_of_sets { Kind::Zset } else { Kind::List };
    let ready = ctx.ready_key().map(|key| Text::new(key.bytes()));
    ready
        .and_then(|key| ctx.open(&key))
        .is_some_and(|key| key.kind() == kind || is_planted(Bug::AnyKindWakesPop))
}

/// Runs the command again. Redis 7.0 serves from the key that is ready, whatever else there is by now; later servers
/// begin with the first key again.
fn serve(ctx: Ctx, words: &[Arg<'_>], keys: &[(Bytes, Access)]) -> bool {
    let is_move = words.first().is_some_and(|name| is_move(name.bytes()));
    let ready = ctx.ready_key().filter(|_| Ctx::is_before_7_2() && keys.len() > 1 && !is_move);
    let Some(ready) = ready else { return ctx.run_for_blocked_client(words) };
    let (name, last) = (words[0], words[words.len() - 1]);
    if name.is("BLMPOP") || name.is("BZMPOP") {
        // timeout numkeys key [key ...] LEFT|RIGHT [COUNT count]
        let Some(places) = words.get(2).and_then(|count| count.number::<usize>()) else { return false };
        let count = Text::new(b"1");
        let rest = words.iter().skip(3 + places).copied();
        let one: Vec<Arg<'_>> = [name, words[1], count.arg(), ready].into_iter().chain(rest).collect();
        return ctx.run_for_blocked_client(&one);
    }
    ctx.run_for_blocked_client(&[name, ready, last])
}

/// The time is over.
unsafe extern "C" fn late(
    ctx: *mut raw::RedisModuleCtx,
    _: *mut *mut raw::RedisModuleString,
    _: c_int,
) -> c_int {
    // SAFETY: it is what the server just called with, and does not leave this call (context rule).
    let ctx = unsafe { Ctx::new(ctx) };
    ctx.reply_nil_array();
    raw::REDISMODULE_OK as c_int
}
