//! What the server must have: the commands that the module runs, each under its own name.
//!
//! `rename-command` removes a command or gives it another name. The filter would not know that name, and would miss
//! what a client does to held keys with it.

use claret_types::Bytes;

use super::load::Unfit;
use crate::ffi::{Answer, Ctx, Flag, Text};

/// The commands that the module runs for itself (`docs/plain-commands.md`); first the one that finds the others.
const NEEDED: [&str; 38] = [
    "COMMAND",
    "ACL",
    "APPEND",
    "CLIENT",
    "CONFIG",
    "DEL",
    "DUMP",
    "GET",
    "GETRANGE",
    "HDEL",
    "HGETALL",
    "HINCRBY",
    "HSET",
    "INCRBY",
    "INFO",
    "LPOP",
    "LPUSH",
    "LRANGE",
    "MEMORY",
    "PERSIST",
    "PEXPIREAT",
    "RPOP",
    "RPUSH",
    "SADD",
    "SET",
    "SETRANGE",
    "SMEMBERS",
    "SMISMEMBER",
    "SREM",
    "TYPE",
    "ZADD",
    "ZCOUNT",
    "ZINCRBY",
    "ZRANGE",
    "ZRANGEBYSCORE",
    "ZRANK",
    "ZREM",
    "ZREMRANGEBYRANK",
];

/// The same of what the durability `strict` runs.
pub(super) fn check_strict(ctx: Ctx) -> Result<(), Unfit> {
    let needed = ["ROLE", "REPLCONF"];
    let names: Vec<Text> = needed.iter().map(|name| Text::new(name.as_bytes())).collect();
    missing(ctx, &names).map_or(Ok(()), |missing| Err(Unfit::Missing(needed[missing])))
}

/// Refuses to load beside `rename-command`, where that matters.
pub(super) fn check(ctx: Ctx) -> Result<(), Unfit> {
    let cluster = ctx.is(Flag::Cluster).then_some("CLUSTER");
    let needed: Vec<&str> = NEEDED.into_iter().chain(cluster).collect();
    let names: Vec<Text> = needed.iter().map(|name| Text::new(name.as_bytes())).collect();
    if let Some(missing) = missing(ctx, &names) {
        return Err(Unfit::Missing(needed[missing]));
    }
    // The server lists each by the name that it was made with, and finds it by the one that it has.
    let listed: Vec<Bytes> = ctx
        .call(c"COMMAND", c"E", &[])
        .items()
        .into_iter()
        .filter_map(|command| command.items().into_iter().next()?.bytes())
        .collect();
    let names: Vec<Text> = listed.iter().map(|name| Text::new(name)).collect();
    missing(ctx, &names).map_or(Ok(()), |renamed| Err(Unfit::Renamed(listed[renamed].to_string())))
}

/// The place of the first that the server does not find.
fn missing(ctx: Ctx, names: &[Text]) -> Option<usize> {
    let about = ctx.call(c"COMMAND", c"Ev", std::iter::once(&Text::new(b"INFO")).chain(names)).items();
    let is_there = |at: usize| matches!(about.get(at), Some(Answer::Array(parts)) if !parts.is_empty());
    (0..names.len()).find(|at| !is_there(*at))
}
