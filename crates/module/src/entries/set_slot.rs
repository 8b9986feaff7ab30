//! `CLUSTER SETSLOT`, where it takes a slot away: not while keys of it are held, of which the other node would not know
//! (trap 17).
//!
//! The slot is closed to newcomers first, and the command waits until nobody uses a key of it. Valkey 8 makes the client of
//! this very command wait for the replicas, which it cannot do to a command of a module's: it would end. There the server
//! runs the command itself, and only the slot is closed, from the look at the command until it has been carried out;
//! where it had to wait its client has to send it again, and finds the slot closed and free.

use std::ffi::c_int;

use claret_core::{Shard, Time};
use claret_types::{Access, Bytes};
use redis_module::raw;

use crate::entries::config;
use crate::ffi::{Answer, Arg, Blocked, Ctx, Filtered, Flag, Text, User, guarded};
use crate::node::admission::Caller;
use crate::node::mend;
use crate::node::{HOST, Host};
use crate::parts::error::{Error, Outcome};
use crate::parts::slots::{self, SLOTS, slot_of};

/// From this version on the server may make a client wait in `CLUSTER SETSLOT`.
const WAITS_SINCE: i32 = 8;

/// Slots that are closed, since they are about to leave.
#[derive(Default)]
pub(crate) struct Leaving {
    list: Vec<Leave>,
    last: u64,
}

struct Leave {
    number: u64,
    slot: Closed,
    until: Time,
    stage: Stage,
}

/// A slot is closed for as long as this lives, however it ends.
struct Closed(u16);

impl Closed {
    fn close(slot: u16) -> Self {
        slots::close(slot);
        Closed(slot)
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        slots::reopen(self.0);
    }
}

enum Stage {
    /// The command's client waits; this key was in use when that was last looked at.
    Waits(Blocked, Bytes),
    /// It is let go, and its answer runs soon, unless it is gone before.
    Released(Blocked),
    /// The server runs the command of this client, at once or when replicas have acknowledged it.
    Server(u64),
    /// The command may be sent again.
    Again,
}

impl Leaving {
    pub(crate) fn is_any(&self) -> bool {
        !self.list.is_empty()
    }

    fn begin(&mut self, slot: u16, until: Time, stage: Stage) {
        self.last += 1;
        self.list.push(Leave { number: self.last, slot: Closed::close(slot), until, stage });
    }

    fn take(&mut self, number: u64) -> Option<Leave> {
        let at = self.list.iter().position(|leave| leave.number == number)?;
        Some(self.list.swap_remove(at))
    }

    /// Its client is gone. Whether it still waited: one that was let go already is not answered any more.
    fn leave(&mut self, client: Blocked) -> bool {
        let is_its = |leave: &mut Leave| match &leave.stage {
            Stage::Waits(blocked, _) | Stage::Released(blocked) => *blocked == client,
            Stage::Server(_) | Stage::Again => false,
        };
        let left: Vec<Leave> = self.list.extract_if(.., is_its).collect();
        left.iter().any(|leave| matches!(leave.stage, Stage::Waits(..)))
    }
}

/// The slot that a command takes away from whoever has it, if it is such a one.
fn slot_that_leaves<'a>(word: impl Fn(usize) -> Option<&'a [u8]>) -> Option<u16> {
    let is =
        |at: usize, known: &str| word(at).is_some_and(|word| word.eq_ignore_ascii_case(known.as_bytes()));
    if !is(1, "SETSLOT") || !is(3, "MIGRATING") && !is(3, "NODE") {
        return None;
    }
    let slot: usize = std::str::from_utf8(word(2)?).ok()?.parse().ok()?;
    u16::try_from(slot).ok().filter(|_| slot < SLOTS)
}

/// A key of the slot that is held, or is about to be.
fn key_in_use(shard: &Shard, slot: u16) -> Option<Bytes> {
    shard.keys_in_use().find(|key| slot_of(key) == slot).cloned()
}

/// The filter is shown a `CLUSTER` command.
pub(crate) fn look(ctx: Ctx, filtered: &Filtered, client: Option<u64>) {
    let Some(slot) = slot_that_leaves(|at| filtered.word(at)) else { return };
    if slots::view(|view| view.is_mine(slot)) != Some(true) {
        return;
    }
    let runs_itself = client.filter(|_| may_wait_by_itself(ctx) && !Ctx::filters_in_script());
    let is_left_alone = HOST.with(|host| {
        let Some(shard) = &host.shard else { return true };
        let Some(client) = runs_itself else { return false };
        if host.guard.open.is_open(Some(client)) || key_in_use(shard, slot).is_some() {
            return false;
        }
        // The server refuses whoever may not.
        if may_run(ctx, client, &filtered.words()) {
            let now = host.now();
            host.guard.leaving.begin(slot, now, Stage::Server(client));
            host.guard.come_back(ctx);
        }
        true
    });
    if is_left_alone == Some(false) {
        crate::entries::plain::put_before(ctx, filtered, client, Access::Write);
    }
}

fn may_run(ctx: Ctx, client: u64, words: &[Text]) -> bool {
    let user = ctx.user_of(client).and_then(|name| User::named(&name));
    user.is_some_and(|user| user.may_run(&words.iter().collect::<Vec<_>>()))
}

fn may_wait_by_itself(ctx: Ctx) -> bool {
    ctx.server_release() >= WAITS_SINCE
}

/// Whether the server would make the client of a `CLUSTER SETSLOT` wait now: if it has replicas.
fn would_wait(ctx: Ctx) -> bool {
    if !may_wait_by_itself(ctx) {
        return false;
    }
    let Answer::Bytes(info) = ctx.call(c"INFO", c"Ev", &[Text::new(b"replication")]) else { return true };
    !String::from_utf8_lossy(&info).lines().any(|line| line.trim_end() == "connected_slaves:0")
}

/// `CLARET.WRITE CLUSTER SETSLOT slot MIGRATING node | NODE node ...`
pub(crate) fn set_slot(ctx: Ctx, words: &[Arg<'_>]) -> Outcome {
    let slot = slot_that_leaves(|at| words.get(at).map(|word| word.bytes()));
    let texts: Vec<Text> = words.iter().map(|word| Text::new(word.bytes())).collect();
    let is_mine = |slot: &u16| slots::view(|view| view.is_mine(*slot)) == Some(true);
    // Who may not run it makes nobody wait: the server says so.
    let Some(slot) = slot.filter(is_mine).filter(|_| Caller::of(ctx).may(&texts)) else {
        return run(ctx, words);
    };
    let key = HOST.with(|host| key_in_use(host.shard.as_ref()?, slot)).flatten();
    let Some(key) = key else { return run(ctx, words) };
    if [Flag::Multi, Flag::Lua, Flag::DenyBlocking].into_iter().any(|flag| ctx.is(flag)) {
        return Err(Error::SlotInUse(key));
    }
    let client = ctx.block(Some(answer));
    client.on_disconnect(Some(gone));
    HOST.with(|host| {
        let until = host.now().plus(config::PLAIN_WAIT_MS.get() * 1_000);
        host.guard.leaving.begin(slot, until, Stage::Waits(client, key));
        host.guard.come_back(ctx);
    });
    Ok(())
}

/// Runs the command and looks what came of it.
fn run(ctx: Ctx, words: &[Arg<'_>]) -> Outcome {
    if would_wait(ctx) {
        return Err(Error::WaitsForReplicas);
    }
    ctx.run_for_client(words, false);
    HOST.with(|host| host.look_around(ctx));
    Ok(())
}

/// Nobody uses a key of the slot any more, or the time is over.
unsafe extern "C" fn answer(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: the server's context and arguments, for the time of this call.
    let (ctx, arguments) = unsafe { (Ctx::new(ctx), Ctx::arguments(argv, argc)) };
    let number = ctx.released_with();
    let words = arguments.get(1..).unwrap_or_default();
    let done = guarded(ctx, "a slot that leaves", mend, |ctx| finish(ctx, words, number));
    if let Some(Err(error)) = done {
        ctx.reply_error(&error.line());
    }
    raw::REDISMODULE_OK as c_int
}

fn finish(ctx: Ctx, words: &[Arg<'_>], number: u64) -> Outcome {
    let Some(Some(leave)) = HOST.with(|host| host.guard.leaving.take(number)) else {
        return Err(Error::NotReady);
    };
    let slot = leave.slot.0;
    let key = HOST.with(|host| key_in_use(host.shard.as_ref()?, slot)).flatten();
    // The slot is closed until this returns.
    match key {
        Some(key) => Err(Error::SlotInUse(key)),
        None if would_wait(ctx) => {
            let millis = config::PLAIN_WAIT_MS.get();
            HOST.with(|host| {
                let until = host.now().plus(millis * 1_000);
                host.guard.leaving.begin(slot, until, Stage::Again);
                host.guard.come_back(ctx);
            });
            Err(Error::SlotClosed(millis))
        }
        None => run(ctx, words),
    }
}

/// The connection closed.
unsafe extern "C" fn gone(ctx: *mut raw::RedisModuleCtx, client: *mut raw::RedisModuleBlockedClient) {
    // SAFETY: the server's context, for the time of this call.
    let ctx = unsafe { Ctx::new(ctx) };
    let client = Blocked::from_raw(client);
    let waited =
        guarded(ctx, "a slot that leaves", mend, |_| HOST.with(|host| host.guard.leaving.leave(client)));
    if waited.flatten() == Some(true) {
        client.release(0);
    }
}

impl Host {
    /// Lets those go whose slots are free, or whose time is over, and opens slots again whose commands have run.
    pub(crate) fn look_after_leaving(&mut self, ctx: Ctx) {
        let now = self.now();
        let mut over = Vec::new();
        for leave in &mut self.guard.leaving.list {
            let is_late = leave.until <= now;
            match &mut leave.stage {
                Stage::Waits(client, key) => {
                    let shard = self.shard.as_ref();
                    let still = shard.filter(|_| !is_late).and_then(|shard| {
                        // To find one among many takes long; mostly it is the same.
                        if shard.is_held(key) { Some(key.clone()) } else { key_in_use(shard, leave.slot.0) }
                    });
                    match still {
                        Some(still) => *key = still,
                        None => {
                            client.release(leave.number);
                            leave.stage = Stage::Released(*client);
                        }
                    }
                }
                Stage::Server(client) if !ctx.is_blocked(*client) => over.push(leave.number),
                Stage::Again if is_late => over.push(leave.number),
                Stage::Released(_) | Stage::Server(_) | Stage::Again => {}
            }
        }
        if over.is_empty() {
            return;
        }
        // First it is known where the slots are, then they are open again.
        self.look_around(ctx);
        self.guard.leaving.list.retain(|leave| !over.contains(&leave.number));
    }
}

#[cfg(test)]
mod tests {
    use claret_core::Time;
    use claret_types::Bytes;

    use super::{Blocked, Leaving, Stage, slot_that_leaves};

    /// Bug: a client that was let go, and freed before its answer ran, left its slot closed. Consequence: transactions on
    /// the slot are sent elsewhere until the process ends. Mend: whoever was let go and is gone opens it, too.
    #[test]
    fn who_is_gone_leaves_no_slot_closed_whether_it_was_let_go_or_not() {
        let client = |number: usize| Blocked::from_raw(std::ptr::without_provenance_mut(number));
        let mut leaving = Leaving::default();
        leaving.begin(1, Time(0), Stage::Waits(client(8), Bytes::from("k")));
        leaving.begin(2, Time(0), Stage::Released(client(16)));
        assert!(!leaving.leave(client(24)), "another one");
        assert!(!leaving.leave(client(16)), "it is not to be let go twice");
        assert_eq!(leaving.list.len(), 1);
        assert!(leaving.leave(client(8)));
        assert!(!leaving.is_any());
    }

    #[test]
    fn slots_leave_by_migrating_and_by_node_alone() {
        let slot = |line: &str| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            slot_that_leaves(|at| words.get(at).copied())
        };
        assert_eq!(slot("cluster setslot 7 migrating x"), Some(7));
        assert_eq!(slot("CLUSTER SETSLOT 16383 NODE x TIMEOUT 5"), Some(16_383));
        for line in
            ["CLUSTER SETSLOT 7 IMPORTING x", "CLUSTER SETSLOT 7 STABLE", "CLUSTER SETSLOT 16384 NODE x"]
        {
            assert_eq!(slot(line), None, "{line}");
        }
        assert_eq!(slot("CLUSTER SETSLOT x NODE y"), None);
        assert_eq!(slot("CLUSTER NODES"), None);
    }
}
