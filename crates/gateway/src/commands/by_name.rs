//! Which commands are operations known up front, by their names: a transaction of such ones alone commits in one step.

use claret_types::{BoundedCounter, Bytes, DataType, TypeInfo, builtin_types};

use crate::commands::direct::{Direct, Directly, Shape};
use crate::commands::words::arity;
use crate::commands::{hashes, keys, lists, operation_of, scored, sets, strings};

/// The command as operations; `None`: it is none that is known up front. The name is in upper case.
pub(crate) fn direct(name: &str, words: &[Bytes]) -> Option<Directly> {
    let by_letter = match name.as_bytes().first()? {
        b'H' => hashes::direct(name, words),
        b'L' | b'R' => lists::direct(name, words),
        b'Z' => scored::direct(name, words),
        _ => None,
    };
    by_letter
        .or_else(|| strings::direct(name, words))
        .or_else(|| sets::direct(name, words))
        .or_else(|| keys::direct(name, words))
        .or_else(|| own(name, words))
}

/// The names of all commands that are operations known up front, at least with some words.
pub(super) const NAMES: &[&str] = &[
    "APPEND",
    "DECR",
    "DECRBY",
    "DEL",
    "EXISTS",
    "EXPIRE",
    "EXPIREAT",
    "EXPIRETIME",
    "GET",
    "GETDEL",
    "GETEX",
    "GETSET",
    "HDEL",
    "HEXISTS",
    "HGET",
    "HGETALL",
    "HINCRBY",
    "HKEYS",
    "HLEN",
    "HMGET",
    "HMSET",
    "HSET",
    "HSTRLEN",
    "HVALS",
    "INCR",
    "INCRBY",
    "INCRBYFLOAT",
    "LINDEX",
    "LLEN",
    "LPOP",
    "LPUSH",
    "LRANGE",
    "MGET",
    "MSET",
    "PERSIST",
    "PEXPIRE",
    "PEXPIREAT",
    "PEXPIRETIME",
    "PSETEX",
    "PTTL",
    "RPOP",
    "RPUSH",
    "SADD",
    "SCARD",
    "SET",
    "SETEX",
    "SETNX",
    "SISMEMBER",
    "SMEMBERS",
    "SMISMEMBER",
    "SREM",
    "STRLEN",
    "TOUCH",
    "TTL",
    "UNLINK",
    "ZADD",
    "ZCARD",
    "ZCOUNT",
    "ZINCRBY",
    "ZMSCORE",
    "ZRANGE",
    "ZRANGEBYLEX",
    "ZRANGEBYSCORE",
    "ZRANK",
    "ZREM",
    "ZREVRANGE",
    "ZREVRANGEBYLEX",
    "ZREVRANGEBYSCORE",
    "ZSCORE",
];

/// The type that has an operation of its own by this name, which is no command of servers.
pub(super) fn owner(name: &str) -> Option<&'static TypeInfo> {
    let has = |kind: &&&TypeInfo| kind.methods.iter().any(|method| method.name == name);
    let owner = builtin_types().iter().find(has)?;
    let is_own = name.contains('.') || name == "PSETEXAT" || owner.name == BoundedCounter::NAME;
    is_own.then_some(*owner)
}

/// An operation of Claret's by its own name.
fn own(name: &str, words: &[Bytes]) -> Option<Directly> {
    let owner = owner(name)?;
    Some(match words {
        [key, rest @ ..] => operation_of(owner, name, rest).and_then(|op| Direct::one(key, op, Shape::First)),
        [] => Err(arity(name)),
    })
}
