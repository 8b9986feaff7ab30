//! Deleting the keys of a run from servers that may hold somebody's records besides.

use std::time::Duration;

use redis::RedisError;

use crate::{RigError, connect, nodes};

/// How many keys a step of the deletion looks at.
const SCAN_COUNT: usize = 1_000;

/// How long a server may take to look at so many keys.
const SCAN_TIME: Duration = Duration::from_secs(30);

/// Deletes the keys that match a pattern of `SCAN` from every node of a cluster. O(all keys).
///
/// # Errors
/// A server does not answer; what it held is still there.
pub fn delete_keys_everywhere(url: &str, pattern: &str) -> Result<(), RigError> {
    let view = connect(url).and_then(|mut open| nodes(&mut open))?;
    for node in view.iter().filter(|node| !node.slots.is_empty()) {
        // A node that has met no other one does not know its own host: it is the one that was asked.
        match node.host.as_str() {
            "" => delete_keys(url, pattern)?,
            host => delete_keys(&at(url, host, node.port), pattern)?,
        }
    }
    Ok(())
}

/// Deletes the keys that match a pattern of `SCAN` from one server. O(all its keys).
///
/// # Errors
/// It does not answer; what it held is still there.
pub fn delete_keys(url: &str, pattern: &str) -> Result<(), RigError> {
    let failed =
        |error: RedisError| RigError::Redis { what: format!("deleting the keys of the run at {url}"), error };
    let mut open = connect(url)?;
    open.set_read_timeout(Some(SCAN_TIME)).map_err(failed)?;
    let mut cursor = 0_u64;
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(SCAN_COUNT);
        let (next, keys): (u64, Vec<Vec<u8>>) = scan.query(&mut open).map_err(failed)?;
        let mut unlinks = redis::pipe();
        for key in &keys {
            unlinks.cmd("UNLINK").arg(key).ignore();
        }
        if !keys.is_empty() {
            unlinks.query::<()>(&mut open).map_err(failed)?;
        }
        cursor = next;
        if cursor == 0 {
            return Ok(());
        }
    }
}

/// The URL of another node: the same user, password and parameters.
fn at(url: &str, host: &str, port: u16) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("redis", url));
    let (authority, tail) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let login = authority.rsplit_once('@').map_or(String::new(), |(login, _)| format!("{login}@"));
    format!("{scheme}://{login}{host}:{port}{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_nodes_are_reached_like_the_first() {
        assert_eq!(at("redis://a:1", "b", 2), "redis://b:2");
        assert_eq!(at("rediss://me:word@a:1/0?x=y", "b", 2), "rediss://me:word@b:2/0?x=y");
    }
}
