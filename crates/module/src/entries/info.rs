//! `INFO claret`: flat numbers, declared once; `docs/commands.md` lists them from here.

use std::ffi::{CString, c_int};

use claret_core::{Shard, Stats};
use redis_module::raw;

use super::{ways, with_node};
use crate::ffi::{Ctx, Rejected, alloc, api, guarded};
use crate::node::{Node, SERVED, settings};

/// One number.
pub(crate) struct Field {
    /// Shown with `claret_` before it.
    pub(crate) name: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "the page shows it"))]
    pub(crate) summary: &'static str,
    read: fn(&Node, &Stats) -> u64,
}

pub(super) const fn field(
    name: &'static str,
    summary: &'static str,
    read: fn(&Node, &Stats) -> u64,
) -> Field {
    Field { name, summary, read }
}

fn of_shard(node: &Node, read: fn(&Shard) -> usize) -> u64 {
    node.shard.as_ref().map_or(0, read) as u64
}

/// All numbers, in the order in which they are shown.
pub(super) fn fields() -> impl Iterator<Item = &'static Field> {
    FIELDS.iter().chain(ways::FIELDS.iter().copied().flatten())
}

/// Those that are of no way to commit.
const FIELDS: &[Field] = &[
    field("serving", "1 while transactions are served here; 0: `claret_state` says why not", |node, _| {
        u64::from(node.not_served().is_none())
    }),
    field("shard", "its number: the first eight digits of the node's id", |node, _| {
        node.shard.as_ref().map_or(0, |shard| u64::from(shard.id().0))
    }),
    field("incarnation", "its incarnation", |node, _| node.shard.as_ref().map_or(0, |it| it.incarnation().0)),
    field("incarnations", "incarnations since the module was loaded", |node, _| node.counts.incarnations),
    field("strict", "1 in the durability `strict`", |_, _| u64::from(settings::is_strict())),
    field(
        "replicas_there",
        "replicas that are connected and acknowledge, in the durability `strict`",
        |node, _| node.replicas_seen(),
    ),
    field(
        "replicas_know",
        "1 while all configured replicas know what the shard remembers, but for what is on its way: this node may die",
        |node, _| u64::from(node.do_replicas_know()),
    ),
    field("batches_told", "batches of changes that replicas were told", |node, _| node.counts.batches_told),
    field("batches_waiting", "of these, those that some replica has not acknowledged", |node, _| {
        node.batches_waiting()
    }),
    field("batches_taken", "batches of changes that this node was told, as a replica", |node, _| {
        node.counts.batches_taken
    }),
    field("answers_waiting", "answers that wait for replicas", |node, _| of_shard(node, Shard::unreplicated)),
    field("backup_votes", "votes of its primary that this node knows, as a replica", |node, _| {
        node.strict.following.votes() as u64
    }),
    field("schema_prefixes", "prefixes that `claret.schema` has", |_, _| settings::SCHEMA.prefixes()),
    field(
        "slots_stranded",
        "slots that were on their way when the primary died, and are served to no transaction",
        |node, _| node.slots_stranded(),
    ),
    field("panics", "panics that were caught; each begins a new incarnation", |node, _| node.counts.panics),
    field(
        "checks",
        "periodic checks of the module; a server without a cluster and without sessions needs none",
        |node, _| node.counts.checks,
    ),
    field("memory_bytes", "bytes that the module holds; maxmemory does not count them", |_, _| {
        alloc::in_use() as u64
    }),
    field("sessions", "known client processes", |node, _| node.sessions.len() as u64),
    field("open_attempts", "attempts here that are not decided", |node, _| {
        of_shard(node, Shard::open_attempts)
    }),
    field("sleeping_calls", "calls here that sleep until their record has something for them", |node, _| {
        of_shard(node, Shard::sleepers)
    }),
    field("in_doubt", "of these, those that have voted and wait for the decision", |node, _| {
        of_shard(node, Shard::voted_attempts)
    }),
    field("held_keys", "keys that somebody holds or waits for", |node, _| {
        of_shard(node, Shard::locked_records)
    }),
    field("remembered", "decisions kept until the sessions' low-water marks pass them", |node, _| {
        of_shard(node, Shard::remembered)
    }),
    field("sessions_remembered", "sessions about which the shard remembers anything", |node, _| {
        of_shard(node, Shard::sessions)
    }),
    field(
        "sessions_departed",
        "of these, those that are gone and about which other nodes may still ask",
        |node, _| of_shard(node, Shard::departed),
    ),
    field(
        "kept_bytes",
        "bytes of open transactions and of what is remembered of finished ones",
        |node, _| of_shard(node, Shard::kept_bytes),
    ),
    field("unanswered", "questions of other nodes that were not answered for lack of room", |_, stats| {
        stats.unanswered
    }),
    field("asks_for_timestamps", "1 while the node asks for timestamps, to order calls", |node, _| {
        node.shard.as_ref().is_some_and(Shard::asks_for_timestamps).into()
    }),
    field("order_trials", "trials of the other one of locks and order that were compared", |_, stats| {
        stats.trials.compared
    }),
    field(
        "order_trials_mixed",
        "trials that said nothing, since not everything was locked or ordered as tried",
        |_, stats| stats.trials.mixed,
    ),
    field(
        "order_trials_unequal",
        "trials that said nothing, since the load changed meanwhile",
        |_, stats| stats.trials.unequal,
    ),
    field("order_changes", "times that the node began to ask for timestamps, or stopped", |_, stats| {
        stats.trials.changes
    }),
    field("looks", "executions to check whether a lock is free", |_, stats| stats.looks),
    field("grants", "operations that got their lock", |_, stats| stats.grants),
    field("waits", "operations that had to wait for their lock", |_, stats| stats.waits),
    field("phases", "phases that began with waiters", |_, stats| stats.phases),
    field(
        "replays",
        "effects of a transaction's earlier calls that were applied again to execute a later one",
        |_, stats| stats.replays,
    ),
    field("elements_read", "elements of keys that were read for operations, or answered", |_, stats| {
        stats.elements_read
    }),
    field("bytes_read", "bytes of keys that were read for operations, or answered", |_, stats| {
        stats.bytes_read
    }),
    field("put_off", "times that a long transaction was put off to let others run", |_, stats| stats.put_off),
    field("commits", "attempts applied here", |_, stats| stats.commits),
    field(
        "transactions",
        "of these, those that are counted here: of its nodes one counts a transaction, so the sum over all nodes is how many there were",
        |_, stats| stats.transactions,
    ),
    field("aborts", "attempts refused or aborted here", |_, stats| stats.aborts),
    field("recoveries", "attempts in doubt that were resolved by asking the others", |_, stats| {
        stats.recoveries
    }),
    field("resolved", "attempts in doubt that an operator resolved", |node, _| node.counts.resolved),
    field("give_ways_told", "holders told that an elder waits: possible deadlocks", |node, _| {
        node.counts.elders_told
    }),
    field("deserted", "sessions whose last connection closed", |node, _| node.counts.deserted),
    field("frames", "frames taken", |node, _| node.counts.frames),
    field("frame_bytes", "bytes in them", |node, _| node.counts.frame_bytes),
    field("requests", "requests in them", |node, _| node.counts.requests),
    field("operations", "operations in them", |node, _| node.counts.operations),
    field("operations_per_frame", "the mean, rounded", |node, _| {
        (node.counts.operations + node.counts.frames / 2).checked_div(node.counts.frames).unwrap_or(0)
    }),
    field("replies", "responses that were sent back with a frame", |node, _| node.counts.replies),
    field("pushes", "messages pushed", |node, _| node.counts.pushes),
    field("pushes_unheard", "of these, those to which nobody was subscribed", |node, _| {
        node.counts.pushes_unheard
    }),
    field("polls", "polls", |node, _| node.counts.polls),
    field("outbox", "responses that wait to be pushed or polled", |node, _| node.sessions.waiting() as u64),
    field("outbox_bytes", "bytes of these", |node, _| node.sessions.waiting_bytes() as u64),
    field("outbox_dropped", "responses dropped from full outboxes", |node, _| node.sessions.dropped),
    field("execs", "transactions by CLARET.EXEC", |node, _| node.one_shots.count),
    field("execs_open", "of these, those that wait", |node, _| node.one_shots.len() as u64),
    field("errands", "transactions by CLARET.DO with keys at other nodes", |node, _| {
        node.plain.errands.count
    }),
    field("errands_open", "of these, those that have not ended", |node, _| node.plain.errands.len() as u64),
    field("errands_unknown", "of these, those of which nobody knew whether they were done", |node, _| {
        node.plain.errands.unknown
    }),
    field("letters_in", "frames of errands, and their answers, from other nodes", |node, _| {
        node.counts.letters_in
    }),
    field("letters_out", "the same, to other nodes", |node, _| node.counts.letters_out),
    field(
        "plain_guarded",
        "plain commands that were checked against locks because a key was held",
        |node, _| node.counts.guarded,
    ),
    field("plain_waits", "plain commands and reservations that queued for keys", |node, _| {
        node.plain.queue.waited
    }),
    field("plain_open", "of these, those that wait now", |node, _| node.plain.queue.len() as u64),
    field("plain_try_again", "plain commands answered -TRYAGAIN", |node, _| node.counts.try_again),
    field("multis_open", "open MULTIs whose keys are noted; on Redis 7.0, 1 if there are any", |node, _| {
        node.plain.open_multis.len() as u64
    }),
    field("versions", "keys whose version was asked for and that have not changed since", |node, _| {
        node.keyspace.versions(|versions| versions.len() as u64)
    }),
    field("versions_bytes", "bytes of these", |node, _| node.keyspace.versions(|it| it.bytes() as u64)),
    field(
        "versions_evicted",
        "versions that were forgotten for lack of room: who demands one runs once more, or hears that the key changed",
        |node, _| node.keyspace.versions(claret_core::Versions::evicted),
    ),
    field("exec_aborts", "EXECs refused because a key was held", |node, _| node.counts.exec_aborts),
    field("peer_messages_in", "messages of other shards", |node, _| node.counts.peer_messages_in),
    field("peer_messages_out", "messages to other shards", |node, _| node.counts.peer_messages_out),
    field(
        "peer_envelopes_out",
        "messages on the cluster bus in which messages to another shard went together",
        |node, _| node.counts.peer_envelopes_out,
    ),
    field("peer_links_quick", "links to other nodes on which small messages leave at once", |node, _| {
        node.quick_links() as u64
    }),
    field("peer_messages_unsent", "of these, messages whose shard had no node", |node, _| {
        node.counts.peer_messages_unsent
    }),
    field(
        "peer_messages_refused",
        "messages that could not be read, or arrived while nothing could be written",
        |node, _| node.counts.peer_messages_refused,
    ),
];

/// The one text, above the numbers.
pub(crate) const STATE: &str = "state";

#[cfg(test)]
pub(crate) const STATE_SUMMARY: &str = "a text: `ok`, or *no transactions are served here, because ...*";

/// Some of the numbers, by their names. Those that take a search are not for commands that are sent every second.
pub(super) fn read(node: &Node, names: impl IntoIterator<Item = &'static str>) -> Vec<(&'static str, u64)> {
    let stats = node.shard.as_ref().map(Shard::stats).unwrap_or_default();
    let field = |name: &'static str| fields().find(|field| field.name == name);
    let read = |name| field(name).map(|field| (field.name, (field.read)(node, &stats)));
    names.into_iter().filter_map(read).collect()
}

/// Whether transactions are served here, for people.
pub(super) fn state(node: &Node) -> String {
    node.not_served().unwrap_or_else(|| SERVED.to_owned())
}

/// Asks to be asked.
pub(super) fn register(ctx: Ctx) -> Result<(), Rejected> {
    // SAFETY: context and callback rules.
    Ctx::accepted(unsafe { api!(RedisModule_RegisterInfoFunc)(ctx.raw(), Some(show)) })
}

unsafe extern "C" fn show(info: *mut raw::RedisModuleInfoCtx, crashing: c_int) {
    // A server that dies may die within the shard.
    if crashing != 0 {
        return;
    }
    // SAFETY: no context is given here, and this one is used for the log alone, which takes null; nothing in `tell` asks for it.
    let ctx = unsafe { Ctx::new(std::ptr::null_mut()) };
    guarded(ctx, "INFO", |_| {}, |_| with_node(|node| tell(info, node)));
}

fn tell(info: *mut raw::RedisModuleInfoCtx, node: &mut Node) {
    // SAFETY: `info` is what the server just called with; the name ends in a zero, and is copied. The empty name is that of the
    // module itself; where the section is not wanted the answer is no.
    if Ctx::accepted(unsafe { api!(RedisModule_InfoAddSection)(info, c"".as_ptr()) }).is_err() {
        return;
    }
    let name = CString::new(STATE).expect("a constant without zeros");
    let state = CString::new(state(node)).unwrap_or_default();
    // SAFETY: `info` is what the server just called with; both texts end in a zero, and are copied.
    unsafe { api!(RedisModule_InfoAddFieldCString)(info, name.as_ptr(), state.as_ptr()) };
    let stats = node.shard.as_ref().map(Shard::stats).unwrap_or_default();
    for field in fields() {
        let name = CString::new(field.name).expect("a constant without zeros");
        // SAFETY: `info` is what the server just called with; the name ends in a zero, and is copied.
        unsafe { api!(RedisModule_InfoAddFieldULongLong)(info, name.as_ptr(), (field.read)(node, &stats)) };
    }
}
