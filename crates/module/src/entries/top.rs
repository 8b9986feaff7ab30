//! `CLARET.TOP`: counters of this node, its hot keys, and who waits for whom. For operators; `claret top` shows it.
//!
//! Whose keys are shown, and to whom, is as in `CLARET.LOCKS`. What is answered is bounded, whatever is going on.

use claret_core::{Counted, Waited};

use super::{info, keyspace, locks, with_node};
use crate::ffi::{Arg, Ctx};
use crate::node::{HotKey, ShownWait, Top};
use crate::parts::error::{Error, Outcome};

/// How many keys are shown unless it is said otherwise, and at most.
const COUNT: usize = 16;
const COUNT_MAX: usize = 128;

const USAGE: Error = Error::Usage("CLARET.TOP [COUNT 1..128]");

/// What is counted here since the module was loaded; names and meanings are those of `INFO claret`.
const COUNTERS: [&str; 12] = [
    "transactions",
    "commits",
    "aborts",
    "operations",
    "frames",
    "requests",
    "execs",
    "grants",
    "waits",
    "phases",
    "give_ways_told",
    "plain_waits",
];

/// What there is now, also by the names of `INFO claret`. All of it is known without a search.
const GAUGES: [&str; 4] = ["open_attempts", "sessions", "execs_open", "plain_open"];

/// `CLARET.TOP [COUNT n]`
pub(super) fn top(ctx: Ctx, arguments: &[Arg<'_>]) -> Outcome {
    let count = match arguments {
        [_] => COUNT,
        [_, word, count] if word.is("COUNT") => {
            let count = count.text().and_then(|count| count.parse().ok());
            count.filter(|count| (1..=COUNT_MAX).contains(count)).ok_or(USAGE)?
        }
        _ => return Err(USAGE),
    };
    let caller = keyspace().caller(ctx);
    let (top, state, numbers) = with_node(|node| {
        node.see_whether_it_writes(ctx);
        let top = node.top(&caller, count)?;
        Ok((top, info::state(node), info::read(node, COUNTERS.into_iter().chain(GAUGES))))
    })
    .unwrap_or(Err(Error::NotReady))?;
    let (counters, gauges) = numbers.split_at(COUNTERS.len());
    let Top { shard, incarnation, now_us, known, looked_at, hidden, keys } = top;
    ctx.reply_array(20);
    ctx.reply_bytes(b"state");
    ctx.reply_bytes(state.as_bytes());
    for (name, value) in [("shard", shard), ("incarnation", incarnation), ("now_us", now_us)] {
        reply_number(ctx, name, value);
    }
    for (name, numbers) in [("counters", counters), ("gauges", gauges)] {
        ctx.reply_bytes(name.as_bytes());
        ctx.reply_array(numbers.len() * 2);
        numbers.iter().for_each(|(name, value)| reply_number(ctx, name, *value));
    }
    for (name, value) in [("held_keys", known), ("looked_at", looked_at), ("hidden", hidden)] {
        reply_number(ctx, name, value as u64);
    }
    ctx.reply_bytes(b"keys");
    ctx.reply_array(keys.len());
    keys.iter().for_each(|key| reply_key(ctx, key));
    Ok(())
}

fn reply_number(ctx: Ctx, name: &str, value: u64) {
    ctx.reply_bytes(name.as_bytes());
    ctx.reply_int(i64::try_from(value).unwrap_or(i64::MAX));
}

fn reply_key(ctx: Ctx, HotKey { record, behind }: &HotKey) {
    ctx.reply_array(22);
    ctx.reply_bytes(b"key");
    ctx.reply_bytes(&record.key);
    ctx.reply_bytes(b"type");
    record.kind.map_or_else(|| ctx.reply_nil(), |kind| ctx.reply_bytes(kind.as_bytes()));
    ctx.reply_bytes(b"waits");
    ctx.reply_array(record.waits.len());
    for Waited { method, recent, total } in &record.waits {
        ctx.reply_array(3);
        ctx.reply_bytes(method.as_bytes());
        ctx.reply_int(*recent as i64);
        ctx.reply_int(*total as i64);
    }
    for (name, counts) in [("held", &record.held), ("wanted", &record.wanted)] {
        ctx.reply_bytes(name.as_bytes());
        ctx.reply_array(counts.len());
        for Counted { mode, claims } in counts {
            ctx.reply_array(2);
            reply_number(ctx, mode, *claims);
        }
    }
    reply_number(ctx, "holders", record.holders as u64);
    reply_number(ctx, "waiters", record.waiters as u64);
    reply_number(ctx, "joined", record.joined.into());
    reply_number(ctx, "waited_us", record.waited_us);
    reply_number(ctx, "in_line", record.in_line as u64);
    ctx.reply_bytes(b"behind");
    ctx.reply_array(behind.len());
    for ShownWait { waiter, method, holder } in behind {
        ctx.reply_array(3);
        ctx.reply_bytes(locks::shown(ctx, waiter).as_bytes());
        ctx.reply_bytes(method.as_bytes());
        match holder {
            Some(holder) => ctx.reply_bytes(locks::shown(ctx, holder).as_bytes()),
            None => ctx.reply_nil(),
        }
    }
}
