//! Plain commands before which the filter put `CLARET.READ-ANY`, `CLARET.WRITE-ANY` or the forms without `-ANY`: they run
//! when no transaction holds their keys in conflict. `docs/plain-commands.md` has the rules, command by command.

use std::ffi::c_int;

use redis_module::raw;

use super::{closed, entry, keyspace, moment, pops, set_slot, with_node};
use crate::ffi::{Arg, Ctx, Flag, Text};
use crate::node::{Judged, Waited};
use crate::parts::command_table::{Row, Special};
use crate::parts::error::{Error, Outcome};
use crate::parts::queue::Left;
use crate::parts::verdict::{Asker, Standing};

/// Which of the commands it is that are put before others.
#[derive(Clone, Copy)]
struct Form {
    /// What only reads may stand behind it.
    only_reads: bool,
    /// Every user may send it, once it is known who that is.
    is_anybodys: bool,
}

/// `CLARET.READ command [argument ...]`
pub(super) fn read(ctx: Ctx, arguments: &[Arg<'_>]) -> Outcome {
    plain(ctx, arguments, Form { only_reads: true, is_anybodys: false })
}

/// `CLARET.WRITE command [argument ...]`
pub(super) fn write(ctx: Ctx, arguments: &[Arg<'_>]) -> Outcome {
    plain(ctx, arguments, Form { only_reads: false, is_anybodys: false })
}

/// `CLARET.READ-ANY command [argument ...]`
pub(super) fn read_any(ctx: Ctx, arguments: &[Arg<'_>]) -> Outcome {
    plain(ctx, arguments, Form { only_reads: true, is_anybodys: true })
}

/// `CLARET.WRITE-ANY command [argument ...]`
pub(super) fn write_any(ctx: Ctx, arguments: &[Arg<'_>]) -> Outcome {
    plain(ctx, arguments, Form { only_reads: false, is_anybodys: true })
}

fn plain(ctx: Ctx, arguments: &[Arg<'_>], form: Form) -> Outcome {
    let words = arguments.get(1..).unwrap_or_default();
    // Before anything else is said: the server lets in here who has not said who it is.
    let is_known = !form.is_anybodys || ctx.asks_for_keys() || keyspace().is_known(ctx);
    if !is_known {
        return Err(Error::NoAuth);
    }
    let Some(name) = words.first() else { return Err(Error::NoCommand) };
    // The server may ask for the keys while the filter looks at this command, and so is the node at work.
    let row = keyspace().row(name.bytes());
    let second = words.get(1).map(|word| word.bytes());
    let row = row.filter(|row| row.waits(second)).ok_or_else(|| Error::NotWaiting(name.to_bytes()))?;
    let texts: Vec<Text> = words.iter().map(|word| Text::of(*word)).collect();
    if ctx.asks_for_keys() {
        // With the uses that the command itself has for them, so its user needs no other rights.
        ctx.keys_of(&texts).into_iter().for_each(|place| ctx.key_at(place, 1));
        return Ok(());
    }
    let standing = standing(ctx, form, is_known, row, &texts);
    match with_node(|node| node.judge(ctx, row, &texts, standing)).unwrap_or(Judged::Runs) {
        Judged::Runs => {
            keyspace().runs(ctx, row, &texts);
            ctx.run_for_client(words, None);
        }
        Judged::Pops => return pops::pop(ctx, words),
        Judged::TakesSlot => return set_slot::set_slot(ctx, words),
        Judged::Refused(error) => return Err(error),
        Judged::Decided(number) => {
            finish(ctx, words, number);
            with_node(|node| node.plain_ends(ctx, number));
        }
        Judged::Waits(number) => {
            let client = ctx.block(Some(answer));
            client.on_disconnect(Some(gone));
            with_node(|node| node.plain_waits(number, client));
        }
    }
    Ok(())
}

/// In what circumstances a command is run. Who may not run it is asked only where that matters: it takes a while.
fn standing(ctx: Ctx, form: Form, is_known: bool, row: Row, words: &[Text]) -> Standing {
    let in_script = ctx.is(Flag::Lua);
    let in_exec = ctx.is(Flag::Multi) && !in_script;
    let asker = Asker::Command { only_reads: form.only_reads, is_known };
    Standing {
        asker,
        in_exec,
        in_script,
        may_wait: !ctx.is(Flag::Multi) && !in_script && !ctx.is(Flag::DenyBlocking),
        is_allowed: in_exec && row.special != Special::Cluster || keyspace().caller(ctx).may(words),
        pops_wait_here: true,
    }
}

/// Runs what was waited for, if it was granted. Then it is to let everything go.
fn finish(ctx: Ctx, words: &[Arg<'_>], number: u64) {
    match with_node(|node| node.plain_granted(ctx, number)) {
        Some(Waited::Granted) => {
            let texts: Vec<Text> = words.iter().map(|word| Text::of(*word)).collect();
            let row = texts.first().and_then(|name| keyspace().row(name.bytes()));
            row.into_iter().for_each(|row| keyspace().runs(ctx, row, &texts));
            // It may be a script, whose commands the filter sees: nobody is at the node.
            ctx.run_for_client(words, None);
            with_node(|node| node.plain_ran(number));
        }
        Some(Waited::Refused(error)) => ctx.reply_error(&error.line()),
        None => ctx.reply_error(&Error::NotReady.line()),
    }
}

/// All keys are granted, or will not be.
unsafe extern "C" fn answer(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: they are what the server just called with, and do not leave this call (context and string rules).
    let (ctx, arguments) = unsafe { (Ctx::new(ctx), Ctx::arguments(argv, argc)) };
    let number = ctx.released_with();
    let words = arguments.get(1..).unwrap_or_default();
    match entry(ctx, "a plain command", |ctx| finish(ctx, words, number)) {
        Some(()) => {
            moment(ctx, "the end of a plain command", |ctx| with_node(|node| node.plain_ends(ctx, number)));
        }
        None => ctx.reply_error(&Error::PanickedWaiting.line()),
    }
    raw::REDISMODULE_OK as c_int
}

/// The connection closed.
unsafe extern "C" fn gone(ctx: *mut raw::RedisModuleCtx, client: *mut raw::RedisModuleBlockedClient) {
    // SAFETY: they are what the server just called with, and do not leave this call (context rule).
    unsafe {
        closed(ctx, client, "a plain command", |node, ctx, client| {
            node.plain_left(ctx, client) == Left::Waiting
        })
    }
}
