//! Which plain command does the same as an operation: the right to run it is the right to the operation.

use claret_planted::{Bug, is_planted};

/// The plain commands that do the same as an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Equivalent {
    /// The one on the key.
    pub(crate) command: &'static str,
    /// Another one on the key that it may be as well, depending on the record: who calls needs both rights.
    pub(crate) also: Option<&'static str>,
    /// What is done to the key beside it, for a TopK.
    pub(crate) beside: Option<&'static str>,
}

impl Equivalent {
    pub(crate) const fn of(command: &'static str) -> Self {
        Equivalent { command, also: None, beside: None }
    }

    /// The command of a method's own name.
    pub(crate) fn named(method: &'static str) -> Self {
        Equivalent::of(method.strip_suffix(".RETURNING").unwrap_or(method))
    }

    pub(crate) const fn and(self, also: &'static str) -> Self {
        Equivalent { also: Some(also), ..self }
    }

    pub(crate) const fn beside(self, command: &'static str) -> Self {
        Equivalent { beside: Some(command), ..self }
    }
}

/// That of a method on records of any type.
pub(crate) fn on_any(method: &'static str) -> Equivalent {
    match method {
        "SETEX" | "PSETEX" | "PSETEXAT" => Equivalent::of("SET"),
        "RECORD.CONTENT" => Equivalent::of("DUMP"),
        // The expiry is in it.
        "RECORD.DIGEST" => Equivalent::of("DUMP").and("PEXPIRETIME"),
        "RECORD.VERSION" => Equivalent::of("WATCH"),
        "RECORD.PUT" => Equivalent::of("RESTORE"),
        // Where its words are not known; a command is admitted by its words.
        "RECORD.RUN" => Equivalent::of("RESTORE"),
        "RECORD.RUN_RO" | "RECORD.ASK" => Equivalent::of("DUMP"),
        _ => Equivalent::named(method),
    }
}

/// Whether a plain command is refused over `maxmemory`.
pub(crate) fn adds(command: &str) -> bool {
    let adds = matches!(
        command,
        "SET" | "GETSET" | "APPEND" | "SETNX" | "INCR" | "INCRBY" | "INCRBYFLOAT" | "HSET" | "HINCRBY"
    ) || matches!(command, "SADD" | "ZADD" | "ZINCRBY" | "LPUSH" | "RPUSH" | "RESTORE");
    adds && !(is_planted(Bug::SortedSetsOverMemory) && command.starts_with('Z'))
}

#[cfg(test)]
mod tests {
    use claret_types::{Access, BUILTIN};

    use super::adds;
    use crate::parts::native::equivalent;

    #[test]
    fn every_method_has_a_plain_command_of_its_own_kind() {
        let reads = [
            "EXISTS",
            "TTL",
            "PTTL",
            "PEXPIRETIME",
            "DUMP",
            "WATCH",
            "GET",
            "STRLEN",
            "HGET",
            "HMGET",
            "HEXISTS",
            "HLEN",
            "HKEYS",
            "HGETALL",
            "SISMEMBER",
            "SCARD",
            "SMEMBERS",
            "ZSCORE",
            "ZCARD",
            "ZRANGE",
            "ZRANGEBYSCORE",
            "ZCOUNT",
            "ZRANK",
            "LLEN",
            "LRANGE",
            "LINDEX",
        ];
        let takes = ["DEL", "HDEL", "SREM", "ZREM", "LPOP", "RPOP", "DECR", "DECRBY"];
        let sets_expiry = ["EXPIRE", "PEXPIRE", "PEXPIREAT", "PERSIST"];
        for (kind, method) in BUILTIN.iter().flat_map(|kind| kind.methods.iter().map(move |it| (kind, it))) {
            let command = equivalent(kind, method.name).command;
            match method.access {
                Access::Read => assert!(reads.contains(&command), "{} reads with {command}", method.name),
                Access::Write => {
                    assert!(
                        adds(command) || takes.contains(&command) || sets_expiry.contains(&command),
                        "{} writes with {command}",
                        method.name
                    );
                }
            }
        }
    }
}
