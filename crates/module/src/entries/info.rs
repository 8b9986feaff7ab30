//! `INFO claret`: flat numbers, declared once; the page lists them from here.

use std::ffi::{CString, c_int};

use claret_core::{Shard, Stats};
use redis_module::raw;

use crate::ffi::alloc;
use crate::ffi::{Ctx, api, guarded};
use crate::node::{HOST, Host};

/// One number.
pub(crate) struct Field {
    /// Shown with `claret_` before it.
    pub(crate) name: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "the page shows it"))]
    pub(crate) summary: &'static str,
    read: fn(&Host, &Stats) -> u64,
}

const fn field(name: &'static str, summary: &'static str, read: fn(&Host, &Stats) -> u64) -> Field {
    Field { name, summary, read }
}

fn of_shard(host: &Host, read: fn(&Shard) -> usize) -> u64 {
    host.shard.as_ref().map_or(0, read) as u64
}

/// All numbers, in the order in which they are shown.
pub(crate) const FIELDS: &[Field] = &[
    field("serving", "1 while a shard is at work here", |host, _| u64::from(host.shard.is_some())),
    field("shard", "its number: the first eight digits of the node's id", |host, _| {
        host.shard.as_ref().map_or(0, |shard| u64::from(shard.id().0))
    }),
    field("incarnation", "its incarnation", |host, _| host.shard.as_ref().map_or(0, |it| it.incarnation().0)),
    field("incarnations", "incarnations since the module was loaded", |host, _| host.counts.incarnations),
    field("panics", "panics that were caught; each begins an incarnation", |host, _| host.counts.panics),
    field(
        "patrols",
        "times that the module looked around by itself; a server without a cluster and without sessions stays as it is",
        |host, _| host.counts.patrols,
    ),
    field("memory_bytes", "bytes that the module holds; maxmemory does not count them", |_, _| {
        alloc::in_use() as u64
    }),
    field("sessions", "client processes that are known", |host, _| host.sessions.len() as u64),
    field("open_attempts", "attempts that are here and not decided", |host, _| {
        of_shard(host, Shard::open_attempts)
    }),
    field("in_doubt", "of these, those that have voted and wait for the decision", |host, _| {
        of_shard(host, Shard::voted_attempts)
    }),
    field("held_keys", "keys that somebody holds or waits for", |host, _| {
        of_shard(host, Shard::locked_records)
    }),
    field("remembered", "decisions kept until the sessions' floors pass them", |host, _| {
        of_shard(host, Shard::remembered)
    }),
    field("sessions_remembered", "sessions of which the shard remembers anything", |host, _| {
        of_shard(host, Shard::sessions)
    }),
    field(
        "sessions_departed",
        "of these, those that are gone, and of which other nodes may still ask",
        |host, _| of_shard(host, Shard::departed),
    ),
    field("kept_bytes", "bytes of open transactions and of what is remembered of others", |host, _| {
        of_shard(host, Shard::kept_bytes)
    }),
    field("unanswered", "questions of other nodes for whose answers there was no room", |_, stats| {
        stats.unanswered
    }),
    field("looks", "executions to see whether a lock is free", |_, stats| stats.looks),
    field("grants", "operations that got their lock", |_, stats| stats.grants),
    field("waits", "operations that had to wait for it", |_, stats| stats.waits),
    field("phases", "phases that began with waiters", |_, stats| stats.phases),
    field(
        "replays",
        "effects of a transaction's earlier calls that were looked at again for a later one",
        |_, stats| stats.replays,
    ),
    field("put_off", "turns that a long transaction left to others", |_, stats| stats.put_off),
    field("commits", "attempts applied here", |_, stats| stats.commits),
    field("aborts", "attempts refused or aborted here", |_, stats| stats.aborts),
    field("recoveries", "attempts in doubt that were resolved by asking the others", |_, stats| {
        stats.recoveries
    }),
    field("resolved", "attempts in doubt that an operator resolved", |host, _| host.counts.resolved),
    field("give_ways_told", "holders told that an elder waits: possible deadlocks", |host, _| {
        host.counts.elders_told
    }),
    field("deserted", "sessions whose last connection closed", |host, _| host.counts.deserted),
    field("frames", "frames taken", |host, _| host.counts.frames),
    field("frame_bytes", "bytes in them", |host, _| host.counts.frame_bytes),
    field("requests", "requests in them", |host, _| host.counts.requests),
    field("operations", "operations in them", |host, _| host.counts.operations),
    field("operations_per_frame", "the mean, rounded", |host, _| {
        (host.counts.operations + host.counts.frames / 2).checked_div(host.counts.frames).unwrap_or(0)
    }),
    field("replies", "responses that went back with a frame", |host, _| host.counts.replies),
    field("pushes", "messages pushed", |host, _| host.counts.pushes),
    field("pushes_unheard", "of these, those to which nobody was subscribed", |host, _| {
        host.counts.pushes_unheard
    }),
    field("polls", "polls", |host, _| host.counts.polls),
    field("outbox", "responses that wait to be pushed or polled", |host, _| host.sessions.waiting() as u64),
    field("outbox_bytes", "bytes of these", |host, _| host.sessions.waiting_bytes() as u64),
    field("outbox_dropped", "responses dropped from full outboxes", |host, _| host.sessions.dropped),
    field("execs", "transactions by CLARET.EXEC", |host, _| host.oneshots.count),
    field("execs_open", "of these, those that wait", |host, _| host.oneshots.len() as u64),
    field("plain_guarded", "plain commands that were looked at twice: a key was held", |host, _| {
        host.guard.counts().guarded
    }),
    field("plain_waits", "plain commands and reservations that queued for keys", |host, _| {
        host.guard.counts().waited
    }),
    field("plain_open", "of these, those that wait now", |host, _| host.guard.len() as u64),
    field("plain_try_again", "plain commands answered -TRYAGAIN", |host, _| host.guard.counts().try_again),
    field(
        "multis_open",
        "MULTIs of clients whose keys are noted; on Redis 7.0, whether there are any",
        |host, _| host.guard.multis() as u64,
    ),
    field("exec_aborts", "EXECs refused since a key was held", |host, _| host.guard.counts().exec_aborts),
    field("peer_messages_in", "messages of other shards", |host, _| host.counts.peer_messages_in),
    field("peer_messages_out", "messages to other shards", |host, _| host.counts.peer_messages_out),
    field("peer_messages_unsent", "of these, those whose shard had no node", |host, _| {
        host.counts.peer_messages_unsent
    }),
    field(
        "peer_messages_refused",
        "messages that could not be read, or came while nothing could be written",
        |host, _| host.counts.peer_messages_refused,
    ),
];

/// Asks to be asked.
pub(crate) fn register(ctx: Ctx) -> Result<(), ()> {
    // SAFETY: the function stays as long as the module.
    Ctx::accepted(unsafe { api!(RedisModule_RegisterInfoFunc)(ctx.raw(), Some(show)) })
}

unsafe extern "C" fn show(info: *mut raw::RedisModuleInfoCtx, crashing: c_int) {
    // A server that dies may die within the shard.
    if crashing != 0 {
        return;
    }
    // SAFETY: needs no client; the log takes no context, too.
    let ctx = unsafe { Ctx::new(std::ptr::null_mut()) };
    guarded(ctx, "INFO", |_| {}, |_| HOST.with(|host| tell(info, host)));
}

fn tell(info: *mut raw::RedisModuleInfoCtx, host: &mut Host) {
    // SAFETY: the server's place for what is told; the section has the module's own name. Not wanted is an error here.
    if Ctx::accepted(unsafe { api!(RedisModule_InfoAddSection)(info, c"".as_ptr()) }).is_err() {
        return;
    }
    let stats = host.shard.as_ref().map(Shard::stats).unwrap_or_default();
    for field in FIELDS {
        let name = CString::new(field.name).expect("a constant without zeros");
        // SAFETY: the name is copied.
        unsafe { api!(RedisModule_InfoAddFieldULongLong)(info, name.as_ptr(), (field.read)(host, &stats)) };
    }
}
