//! Commands that wait for something to take (`BLPOP` and its kin), beside transactions.
//!
//! The server serves them at the end of whatever command brought something, without a look at the guard: an item that a
//! transaction has taken and not yet removed would go to two. So, once transactions come to this node, they are waited
//! for here: what the server wakes is looked at first, and stays asleep while its key is held in conflict. A held key
//! that was passed over is signalled again when it is free. Of those before, see [`crate::parts::sleepers`].

use std::collections::BTreeSet;
use std::ffi::c_int;

use claret_types::{Access, Bytes};
use redis_module::raw;

use crate::entries::plain::{GUARD_TABLE, conflict_of};
use crate::ffi::{Arg, Ctx, Filtered, Flag, Kind, Text, User, guarded};
use crate::node::{HOST, mend};
use crate::parts::command_table::Row;
use crate::parts::error::{Error, Outcome};

/// Keys that were passed over, to be signalled when they are free.
#[derive(Default)]
pub(crate) struct PassedOver(pub(crate) BTreeSet<Bytes>);

impl PassedOver {
    pub(crate) fn is_any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Takes those that are free now.
    pub(crate) fn take(&mut self, is_free: impl Fn(&Bytes) -> bool) -> Vec<Bytes> {
        let free: Vec<Bytes> = self.0.iter().filter(|key| is_free(key)).cloned().collect();
        for key in &free {
            self.0.remove(key);
        }
        free
    }
}

/// Whether a pop that a filter is shown has to wait in the module; one that may sleep in the server is noted.
pub(crate) fn sleeps_here(ctx: Ctx, filtered: &Filtered, row: Row) -> bool {
    if HOST.with(|host| host.guard.asleep.is_used()) == Some(true) {
        return true;
    }
    let moves = filtered.word(0).is_some_and(is_move);
    let words = filtered.words();
    let keys = row.keys(ctx, &words);
    HOST.with(|host| {
        for (at, (key, _)) in keys.iter().enumerate() {
            host.guard.asleep.note(key, moves && at > 0);
        }
    });
    false
}

fn is_move(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"BLMOVE") || name.eq_ignore_ascii_case(b"BRPOPLPUSH")
}

/// Takes something if there is something to take; otherwise waits for it. `words` are the plain command's.
pub(crate) fn pop(ctx: Ctx, words: &[Arg<'_>]) -> Outcome {
    let keys = keys_of(ctx, words);
    let free = note_held(ctx, &keys);
    let may_wait = ![Flag::Multi, Flag::Lua, Flag::DenyBlocking].into_iter().any(|flag| ctx.is(flag));
    if !may_wait {
        if !free {
            return Err(Error::HeldKey(keys.into_iter().next().map(|(key, _)| key).unwrap_or_default()));
        }
        ctx.run_for_client(words, false);
        return Ok(());
    }
    let Some(millis) = time_of(words) else {
        // The server says what is wrong with it.
        ctx.run_for_client(words, false);
        return Ok(());
    };
    // Of a long time the server may say that it is out of range.
    let runs = millis >= LONG || !finds_nothing(ctx, words, &keys);
    if free && runs && ctx.run_for_client(words, true) {
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
    (0.0..=i64::MAX as f64 / 1e3).contains(&seconds).then(|| (seconds * 1e3).ceil() as u64)
}

fn keys_of(ctx: Ctx, words: &[Arg<'_>]) -> Vec<(Bytes, Access)> {
    let words: Vec<Text> = words.iter().map(|word| Text::of(*word)).collect();
    let row = GUARD_TABLE.with(|table| table.find(words.first()?.bytes())).flatten();
    let keys = row.map_or_else(Vec::new, |row| row.keys(ctx, &words));
    keys.into_iter().map(|(key, access)| (Bytes::copy_from(key), access)).collect()
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
        wakes(ctx, words) && note_held(ctx, &keys) && serve(ctx, words, &keys)
    });
    if served == Some(true) { raw::REDISMODULE_OK as c_int } else { raw::REDISMODULE_ERR as c_int }
}

/// Whether the key that is ready has something of the kind that is popped. Any other is slept through.
fn wakes(ctx: Ctx, words: &[Arg<'_>]) -> bool {
    let Some(name) = words.first() else { return false };
    let is_of_sets = name.bytes().get(1).is_some_and(|letter| letter.eq_ignore_ascii_case(&b'z'));
    let kind = if is_of_sets { Kind::Zset } else { Kind::List };
    let ready = ctx.ready_key().map(|key| Text::new(key.bytes()));
    ready.and_then(|key| ctx.open(&key)).is_some_and(|key| key.kind() == kind)
}

/// Runs the command again. Redis 7.0 serves from the key that is ready, whatever else there is by now; later servers
/// begin with the first key again.
fn serve(ctx: Ctx, words: &[Arg<'_>], keys: &[(Bytes, Access)]) -> bool {
    let is_move = words.first().is_some_and(|name| is_move(name.bytes()));
    let ready = ctx.ready_key().filter(|_| Ctx::is_before_7_2() && keys.len() > 1 && !is_move);
    let Some(ready) = ready else { return ctx.run_for_sleeper(words) };
    let (name, last) = (words[0], words[words.len() - 1]);
    if name.is("BLMPOP") || name.is("BZMPOP") {
        // timeout numkeys key [key ...] LEFT|RIGHT [COUNT count]
        let Some(places) = words.get(2).and_then(|count| count.number::<usize>()) else { return false };
        let count = Text::new(b"1");
        let rest = words.iter().skip(3 + places).copied();
        let one: Vec<Arg<'_>> = [name, words[1], count.arg(), ready].into_iter().chain(rest).collect();
        return ctx.run_for_sleeper(&one);
    }
    ctx.run_for_sleeper(&[name, ready, last])
}

/// The time is over.
unsafe extern "C" fn late(
    ctx: *mut raw::RedisModuleCtx,
    _: *mut *mut raw::RedisModuleString,
    _: c_int,
) -> c_int {
    // SAFETY: the server's context, for the time of this call.
    let ctx = unsafe { Ctx::new(ctx) };
    ctx.reply_nil_array();
    raw::REDISMODULE_OK as c_int
}
