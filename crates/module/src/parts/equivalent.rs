//! Which plain command does the same as an operation: the right to run it is the right to the operation.

use claret_planted::{Bug, is_planted};

/// The plain command that does the same as an operation; and what is done to the key beside it, for a TopK.
pub(crate) fn equivalent(method: &'static str) -> (&'static str, Option<&'static str>) {
    let command = match method {
        "BCREATE" | "BRESIZE" | "BDECRBY.WRAP" | "BAG.ADD" => "HSET",
        "BINCRBY" | "BINCRBY.RETURNING" | "BDECRBY" | "BDECRBY.RETURNING" => "HINCRBY",
        "BGET" => "HGET",
        "BBOUNDS" | "BAG.COUNT" | "BAG.SUM" | "BAG.MEAN" | "BAG.MIN" | "BAG.MAX" | "BAG.SUMMARY" => "HMGET",
        "JSON.SET" | "JSON.MERGE" => "HSET",
        "JSON.STRAPPEND" | "JSON.STRAPPEND.RETURNING" | "JSON.ARRAPPEND" | "JSON.ARRAPPEND.RETURNING" => {
            "HSET"
        }
        "JSON.NUMINCRBY" | "JSON.NUMINCRBY.RETURNING" => "HINCRBY",
        "JSON.DEL" | "JSON.DEL.RETURNING" => "HDEL",
        "JSON.GET" => "HGETALL",
        "JSON.TYPE" => "HGET",
        "JSON.OBJKEYS" => "HKEYS",
        "TOPK.ADD" => return ("ZADD", Some("SET")),
        "TOPK.MAX" | "TOPK.LIST" => return ("ZRANGE", Some("GET")),
        "TOPK.COUNT" => return ("ZCARD", Some("GET")),
        "UID.NEXT" => "INCR",
        "UID.ISSUED" => "GET",
        "SETEX" | "PSETEX" | "PSETEXAT" => "SET",
        "RECORD.CONTENT" | "RECORD.DIGEST" => "DUMP",
        "RECORD.VERSION" => "WATCH",
        "RECORD.PUT" => "RESTORE",
        plain => plain.strip_suffix(".RETURNING").unwrap_or(plain),
    };
    (command, None)
}

/// Another command on the key itself that an operation may be as well, depending on the record: who calls needs both rights.
pub(crate) fn also(method: &'static str) -> Option<&'static str> {
    match method {
        // What is in the place before goes.
        "JSON.SET" | "JSON.MERGE" => Some("HDEL"),
        // The expiry is in it.
        "RECORD.DIGEST" => Some("PEXPIRETIME"),
        // A float is written.
        "JSON.NUMINCRBY" | "JSON.NUMINCRBY.RETURNING" => Some("HSET"),
        _ => None,
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

    use super::{adds, equivalent};

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
        for method in BUILTIN.iter().flat_map(|kind| kind.methods) {
            let (command, _) = equivalent(method.name);
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
