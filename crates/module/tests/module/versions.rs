//! `RECORD.VERSION` on a real server (O10 of `docs/optimistic.md`): whatever changes a key, its version is another one.

use std::collections::BTreeSet;

use crate::common::beside::{Waits, number, ok, run};
use crate::common::{Server, cluster, wait_until};
use redis::{Connection, Value};

/// Where what is told of a key cannot be another one by chance.
fn version(connection: &mut Connection, key: &str) -> Vec<u8> {
    let told: Vec<Vec<u8>> =
        redis::cmd("CLARET.EXEC").arg(&["2", "RECORD.VERSION", key]).query(connection).expect("a version");
    assert!(told.len() == 1 && told[0].len() == 16, "{told:?}");
    told[0].clone()
}

fn begun(options: &[&str]) -> (Server, Connection) {
    let server = Server::start(options);
    let mut plain = server.connect();
    wait_until("the shard begins", || run(&mut plain, "CLARET.EXEC 2 EXISTS k").is_ok());
    (server, plain)
}

/// What the server keeps of a key, and until when.
fn kept(connection: &mut Connection, key: &str) -> (Value, Value) {
    (ok(connection, &format!("DUMP {key}")), ok(connection, &format!("PEXPIRETIME {key}")))
}

/// A stream with an entry that one consumer has and has not acknowledged.
const STREAM: &str = "XADD k 1-1 a b;XGROUP CREATE k g 0;XREADGROUP GROUP g c STREAMS k >";

/// The same, with another entry, and another consumer who has none.
const STREAM_OF_TWO: &str = "XADD k 1-1 a b;XGROUP CREATE k g 0;XREADGROUP GROUP g c STREAMS k >;\
                             XGROUP CREATECONSUMER k g d;XADD k 2-1 a b";

/// Commands that change something, behind those that prepare it: of each command of the server that writes one at least. `{dump}` is
/// what `DUMP` says of a list, `{port}` where another server is.
const EXAMPLES: &[(&str, &str)] = &[
    // strings
    ("", "APPEND k v"),
    ("", "BITFIELD k SET u8 0 255"),
    ("SET a x", "BITOP NOT k a"),
    ("", "DECR k"),
    ("", "DECRBY k 2"),
    ("SET k x", "GETDEL k"),
    ("SET k x", "GETEX k EX 100"),
    ("SET k x EX 100", "GETEX k PERSIST"),
    ("SET k x", "GETSET k y"),
    ("", "INCR k"),
    ("", "INCRBY k 2"),
    ("", "INCRBYFLOAT k 1.5"),
    ("", "MSET a v k v"),
    ("", "MSETNX a v k v"),
    ("", "PSETEX k 100000 v"),
    ("", "SET k v"),
    ("SET k v", "SET k v EX 100"),
    ("", "SETBIT k 1 1"),
    ("", "SETEX k 100 v"),
    ("", "SETNX k v"),
    ("SET k abc", "SETRANGE k 1 x"),
    // their logs
    ("", "PFADD k x"),
    ("PFADD k x", "PFCOUNT k"),
    ("PFADD k x", "PFDEBUG TODENSE k"),
    ("PFADD a x;PFADD k y", "PFMERGE k a"),
    // lists
    ("RPUSH a 1", "BLMOVE a k LEFT RIGHT 1"),
    ("RPUSH k 1 2", "BLMPOP 1 1 k LEFT"),
    ("RPUSH k 1 2", "BLPOP k 1"),
    ("RPUSH k 1 2", "BRPOP k 1"),
    ("RPUSH a 1", "BRPOPLPUSH a k 1"),
    ("RPUSH k 1 2", "LINSERT k BEFORE 1 0"),
    ("RPUSH a 1", "LMOVE a k LEFT RIGHT"),
    ("RPUSH k 1 2", "LMPOP 1 k LEFT"),
    ("RPUSH k 1", "LPOP k"),
    ("", "LPUSH k 1"),
    ("RPUSH k 1", "LPUSHX k 1"),
    ("RPUSH k 1 2", "LREM k 0 1"),
    ("RPUSH k 1 2", "LSET k 0 x"),
    ("RPUSH k 1 2", "LTRIM k 1 -1"),
    ("RPUSH k 1 2", "RPOP k"),
    ("RPUSH a 1", "RPOPLPUSH a k"),
    ("", "RPUSH k 1"),
    ("RPUSH k 1", "RPUSHX k 1"),
    ("RPUSH a 2 1", "SORT a STORE k"),
    ("RPUSH k 2 1", "SORT none STORE k"),
    // sets
    ("", "SADD k x"),
    ("SADD a x", "SDIFFSTORE k a"),
    ("SADD a x", "SINTERSTORE k a"),
    ("SADD k x", "SINTERSTORE k none"),
    ("SADD a x", "SMOVE a k x"),
    ("SADD k x", "SPOP k"),
    ("SADD k x y z", "SPOP k 2"),
    ("SADD k x y", "SREM k x"),
    ("SADD a x", "SUNIONSTORE k a"),
    // hashes
    ("HSET k f 1 g 2", "HDEL k f"),
    ("", "HINCRBY k f 1"),
    ("", "HINCRBYFLOAT k f 1.5"),
    ("", "HMSET k f v"),
    ("", "HSET k f v"),
    ("", "HSETNX k f v"),
    // sorted sets
    ("ZADD k 1 x 2 y", "BZMPOP 1 1 k MIN"),
    ("ZADD k 1 x 2 y", "BZPOPMAX k 1"),
    ("ZADD k 1 x 2 y", "BZPOPMIN k 1"),
    ("", "GEOADD k 1 1 x"),
    ("GEOADD a 1 1 x", "GEORADIUS a 1 1 10 km STORE k"),
    ("GEOADD a 1 1 x", "GEORADIUSBYMEMBER a x 10 km STORE k"),
    ("GEOADD a 1 1 x", "GEOSEARCHSTORE k a FROMMEMBER x BYRADIUS 10 km"),
    ("", "ZADD k 1 x"),
    ("ZADD k 1 x", "ZADD k 2 x"),
    ("ZADD a 1 x", "ZDIFFSTORE k 1 a"),
    ("", "ZINCRBY k 1 x"),
    ("ZADD a 1 x", "ZINTERSTORE k 1 a"),
    ("ZADD k 1 x", "ZMPOP 1 k MIN"),
    ("ZADD k 1 x 2 y", "ZPOPMAX k"),
    ("ZADD k 1 x 2 y", "ZPOPMIN k"),
    ("ZADD a 1 x", "ZRANGESTORE k a 0 -1"),
    ("ZADD k 1 x 2 y", "ZREM k x"),
    ("ZADD k 0 x 0 y", "ZREMRANGEBYLEX k [x [x"),
    ("ZADD k 1 x 2 y", "ZREMRANGEBYRANK k 0 0"),
    ("ZADD k 1 x 2 y", "ZREMRANGEBYSCORE k 1 1"),
    ("ZADD a 1 x", "ZUNIONSTORE k 1 a"),
    // streams
    (STREAM, "XACK k g 1-1"),
    ("", "XADD k 1-1 a b"),
    (STREAM_OF_TWO, "XAUTOCLAIM k g d 0 0"),
    (STREAM_OF_TWO, "XCLAIM k g d 0 1-1"),
    ("XADD k 1-1 a b", "XDEL k 1-1"),
    ("XADD k 1-1 a b", "XGROUP CREATE k g 0"),
    (STREAM, "XGROUP CREATECONSUMER k g d"),
    (STREAM, "XGROUP DELCONSUMER k g c"),
    (STREAM, "XGROUP DESTROY k g"),
    (STREAM, "XGROUP SETID k g 0"),
    ("XADD k 1-1 a b;XGROUP CREATE k g 0", "XREADGROUP GROUP g c STREAMS k >"),
    (STREAM_OF_TWO, "XREADGROUP GROUP g d STREAMS k >"),
    (STREAM_OF_TWO, "XREADGROUP GROUP g d COUNT 1 BLOCK 1000 STREAMS k >"),
    ("XADD k 1-1 a b", "XSETID k 5-5"),
    ("XADD k 1-1 a b;XADD k 2-1 a b", "XTRIM k MAXLEN 1"),
    // any
    ("SET a x", "COPY a k"),
    ("SET k x", "DEL k"),
    ("SET k x", "EXPIRE k 100"),
    ("SET k x", "EXPIRE k -1"),
    ("SET k x", "EXPIREAT k 4102444800"),
    ("SET k x", "FLUSHALL"),
    ("SET k x", "FLUSHDB"),
    ("SET k x", "MIGRATE 127.0.0.1 {port} k 0 1000"),
    ("SET k x", "MOVE k 1"),
    ("SET k x EX 100", "PERSIST k"),
    ("SET k x", "PEXPIRE k 100000"),
    ("SET k x", "PEXPIREAT k 4102444800000"),
    ("SET a x", "RENAME a k"),
    ("SET a x", "RENAMENX a k"),
    ("RPUSH dumped 1 2", "RESTORE k 0 {dump}"),
    ("RPUSH dumped 1 2", "RESTORE-ASKING k 0 {dump}"),
    ("SET k x", "SWAPDB 0 1"),
    ("SET k x", "UNLINK k"),
    // those that do not say that they write, or run others
    ("", "DEBUG POPULATE 1 k 5"),
    ("SET k x", "EVAL return{redis.call('del',KEYS[1])} 1 k"),
    ("", "CLARET.EXEC 3 SADD k x"),
    ("SADD k x", "CLARET.EXEC 3 SREM k x"),
    ("", "CLARET.EXEC 3 INCRBY k 5"),
    ("SET k x", "CLARET.EXEC 3 EXPIRE k 100"),
];

/// Keys that the examples change.
const KEYS: [&str; 3] = ["k", "a", "k:0"];

/// How a command comes to be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Alone,
    /// The version is asked for between the command and the EXEC.
    Multi,
    Script,
}

struct Bench {
    plain: Connection,
    /// Asks for versions.
    asks: Connection,
    port: u16,
}

impl Bench {
    fn words(&mut self, line: &str) -> Vec<Vec<u8>> {
        let dump: Option<Vec<u8>> =
            redis::cmd("DUMP").arg("dumped").query(&mut self.plain).expect("what is kept");
        let word = |word: &str| match word {
            "{dump}" => dump.clone().expect("it is there"),
            "{port}" => self.port.to_string().into_bytes(),
            word => word.as_bytes().to_vec(),
        };
        line.split(' ').map(word).collect()
    }

    fn told(&mut self) -> Vec<((Value, Value), Vec<u8>)> {
        KEYS.map(|key| (kept(&mut self.plain, key), version(&mut self.asks, key))).into()
    }

    /// Runs an example. Whether anything changed.
    fn run(&mut self, (before, line): (&str, &str), way: Way) -> bool {
        ok(&mut self.plain, "FLUSHALL");
        for line in before.split(';').filter(|line| !line.is_empty()) {
            ok(&mut self.plain, line);
        }
        let words = self.words(line);
        let command = |words: &[Vec<u8>]| {
            let mut command = redis::cmd(std::str::from_utf8(&words[0]).expect("a name"));
            command.arg(&words[1..]);
            command
        };
        let first = self.told();
        let done = match way {
            Way::Alone => command(&words).query::<Value>(&mut self.plain),
            Way::Multi => {
                ok(&mut self.plain, "MULTI");
                let queued = command(&words).query::<Value>(&mut self.plain);
                assert!(queued.is_ok(), "{line}: {queued:?}");
                // What it was told before it is carried out.
                let between = KEYS.map(|key| version(&mut self.asks, key));
                let done = redis::cmd("EXEC").query::<Value>(&mut self.plain);
                self.compare(line, way, &first, &between);
                done
            }
            Way::Script => {
                let mut eval = redis::cmd("EVAL");
                eval.arg("redis.call(unpack(ARGV))").arg(0).arg(&words);
                eval.query::<Value>(&mut self.plain)
            }
        };
        assert!(done.is_ok(), "{line} ({way:?}): {done:?}");
        let versions: Vec<Vec<u8>> = first.iter().map(|(_, version)| version.clone()).collect();
        self.compare(line, way, &first, &versions)
    }

    /// Whether anything changed since then: then the version of that is another one.
    fn compare(
        &mut self,
        line: &str,
        way: Way,
        before: &[((Value, Value), Vec<u8>)],
        versions: &[Vec<u8>],
    ) -> bool {
        let now = self.told();
        let mut any = false;
        for (((before, _), version), ((kept, now), key)) in
            before.iter().zip(versions).zip(now.iter().zip(KEYS))
        {
            if before != kept {
                any = true;
                assert_ne!(version, now, "{line} ({way:?}) changed '{key}', and its version did not");
            }
        }
        any
    }
}

/// Flags of a command, or of its subcommand.
fn flags(connection: &mut Connection, name: &str) -> BTreeSet<String> {
    let all: Vec<(String, i64, Vec<String>)> = described(connection);
    all.into_iter()
        .find(|(known, _, _)| known == name)
        .map(|(_, _, flags)| flags.into_iter().collect())
        .unwrap_or_default()
}

/// Each command of the server: its name, its arity, its flags.
fn described(connection: &mut Connection) -> Vec<(String, i64, Vec<String>)> {
    let all: Vec<Vec<Value>> = redis::cmd("COMMAND").query(connection).expect("its commands");
    let describe = |parts: Vec<Value>| {
        let mut parts = parts.into_iter();
        let mut next = || parts.next().expect("it is described");
        let name: String = redis::from_redis_value(next()).expect("a name");
        let arity: i64 = redis::from_redis_value(next()).expect("a number");
        let flags: Vec<String> = redis::from_redis_value(next()).expect("flags");
        (name, arity, flags)
    };
    all.into_iter().map(describe).collect()
}

/// Bug that this is about: a command of which the server tells the module nothing changes a key that somebody watches, and the
/// watcher's transaction is carried out on what is not there any more.
#[test]
fn every_command_that_writes_changes_the_version_of_what_it_changed() {
    let other = Server::start_without_module();
    let (server, mut plain) = begun(&["--enable-debug-command", "yes"]);
    let writes: BTreeSet<String> = described(&mut plain)
        .into_iter()
        .filter(|(name, _, flags)| flags.iter().any(|flag| flag == "write") && !name.starts_with("claret."))
        .map(|(name, ..)| name)
        .collect();
    let names: BTreeSet<String> =
        EXAMPLES.iter().map(|(_, line)| line.split(' ').next().expect("a name").to_lowercase()).collect();
    let missing: Vec<_> = writes.difference(&names).collect();
    assert!(missing.is_empty() && writes.len() > 80, "no examples of {missing:?}");
    let no_script: BTreeSet<String> = names
        .iter()
        .filter(|name| flags(&mut plain, name).contains("noscript") || name.starts_with("claret."))
        .cloned()
        .collect();
    let mut bench = Bench { plain, asks: server.connect(), port: other.port };
    for example in EXAMPLES {
        let name = example.1.split(' ').next().expect("a name").to_lowercase();
        for way in [Way::Alone, Way::Multi, Way::Script] {
            // A script does not block, and a server says so.
            if way == Way::Script && (no_script.contains(&name) || example.1.contains(" BLOCK ")) {
                continue;
            }
            ok(&mut other.connect(), "FLUSHALL");
            assert!(bench.run(*example, way), "{example:?} ({way:?}) changes something");
        }
    }
    // What only reads, and what changes nothing, changes no version.
    ok(&mut bench.plain, "FLUSHALL");
    ok(&mut bench.plain, "SADD k x");
    let before = version(&mut bench.asks, "k");
    for line in ["SMEMBERS k", "SADD k x", "SREM k y", "DUMP k", "DEL other", "TOUCH k", "OBJECT ENCODING k"]
    {
        ok(&mut bench.plain, line);
        assert_eq!(version(&mut bench.asks, "k"), before, "{line}");
    }
}

#[test]
fn what_a_blocked_client_takes_is_a_change_though_nothing_is_left_of_it() {
    let (server, mut plain) = begun(&[]);
    let before = version(&mut plain, "list");
    let pop = Waits::on(&server, "BLPOP list 0");
    pop.still();
    assert_eq!(version(&mut plain, "list"), before, "nothing was there, and nothing is");
    ok(&mut plain, "RPUSH list x");
    pop.outcome().expect("served");
    assert_ne!(version(&mut plain, "list"), before);
    ok(&mut plain, "XGROUP CREATE stream g 0 MKSTREAM");
    let before = version(&mut plain, "stream");
    let read = Waits::on(&server, "XREADGROUP GROUP g c BLOCK 0 STREAMS stream >");
    read.still();
    ok(&mut plain, "XADD stream 1-1 a b");
    // With what was read of it.
    let added = version(&mut plain, "stream");
    read.outcome().expect("served");
    assert_ne!(added, before);
    let dump = ok(&mut plain, "DUMP stream");
    assert_eq!((version(&mut plain, "stream"), ok(&mut plain, "DUMP stream")), (added, dump));
}

#[test]
fn what_ends_by_time_or_for_want_of_memory_is_another_version() {
    let (_server, mut plain) = begun(&[]);
    ok(&mut plain, "SET k v PX 20");
    let before = version(&mut plain, "k");
    wait_until("it ends", || ok(&mut plain, "EXISTS k") == Value::Int(0));
    assert_ne!(version(&mut plain, "k"), before);
    ok(&mut plain, "SET k v");
    let before = version(&mut plain, "k");
    ok(&mut plain, "CONFIG SET maxmemory-policy allkeys-random");
    ok(&mut plain, "CONFIG SET maxmemory 1");
    wait_until("it is thrown away", || {
        let _ = run(&mut plain, "SET other v");
        ok(&mut plain, "EXISTS k") == Value::Int(0)
    });
    assert_ne!(version(&mut plain, "k"), before);
}

#[test]
fn a_node_that_was_a_replica_or_has_loaded_its_files_tells_other_versions() {
    let (server, mut plain) = begun(&["--enable-debug-command", "yes"]);
    ok(&mut plain, "SET k v");
    let first = version(&mut plain, "k");
    ok(&mut plain, "REPLICAOF 127.0.0.1 1");
    ok(&mut plain, "REPLICAOF NO ONE");
    wait_until("the shard begins", || run(&mut plain, "CLARET.EXEC 2 EXISTS k").is_ok());
    let second = version(&mut plain, "k");
    assert_ne!(second, first);
    ok(&mut plain, "DEBUG RELOAD");
    assert_ne!(version(&mut plain, "k"), second);
    drop(server);
}

#[test]
fn a_slot_that_left_and_came_back_has_other_versions() {
    let servers = cluster(2, &[]);
    let ids: Vec<String> = servers
        .iter()
        .map(|it| redis::cmd("CLUSTER").arg("MYID").query(&mut it.connect()).expect("its id"))
        .collect();
    let mut plain: Vec<Connection> = servers.iter().map(Server::connect).collect();
    // "bar" is of slot 5061, the first node's. It is not there, here or there.
    wait_until("the shard begins", || run(&mut plain[0], "CLARET.EXEC 2 EXISTS bar").is_ok());
    let before = version(&mut plain[0], "bar");
    let mut give = |from: usize, to: usize| {
        wait_until("the slot may leave", || {
            run(&mut plain[to], &format!("CLUSTER SETSLOT 5061 IMPORTING {}", ids[from])).is_ok()
                && run(&mut plain[from], &format!("CLUSTER SETSLOT 5061 MIGRATING {}", ids[to])).is_ok()
                && [to, from]
                    .iter()
                    .all(|at| run(&mut plain[*at], &format!("CLUSTER SETSLOT 5061 NODE {}", ids[to])).is_ok())
        });
        wait_until("it is there", || run(&mut plain[to], "CLARET.EXEC 2 EXISTS bar").is_ok());
        version(&mut plain[to], "bar")
    };
    let there = give(0, 1);
    assert_ne!(there, before);
    let back = give(1, 0);
    assert!(back != before && back != there, "another node may have made it and removed it");
}

#[test]
fn where_the_next_change_would_not_be_seen_no_version_is_kept() {
    let (_server, mut plain) = begun(&[]);
    let kept = version(&mut plain, "k");
    let ask = "redis.call('CLARET.EXEC', '2', 'RECORD.VERSION', 'k')";
    let script = format!("return {{{ask}[1], {ask}[1]}}");
    let told: Vec<Vec<u8>> = redis::cmd("EVAL").arg(script).arg(0).query(&mut plain).expect("two versions");
    assert!(told.len() == 2 && told[0] != told[1] && !told.contains(&kept), "{told:?}");
    let (one, other): (Vec<Vec<u8>>, Vec<Vec<u8>>) = redis::pipe()
        .atomic()
        .cmd("CLARET.EXEC")
        .arg(&["2", "RECORD.VERSION", "k"])
        .cmd("CLARET.EXEC")
        .arg(&["2", "RECORD.VERSION", "k"])
        .query(&mut plain)
        .expect("two versions");
    assert!(one != other && one[0] != kept && other[0] != kept);
    assert_eq!(version(&mut plain, "k"), kept, "and nothing changed it");
}

#[test]
fn versions_are_bounded_and_counted_and_what_is_forgotten_is_as_if_it_had_changed() {
    let (_server, mut plain) = begun(&[]);
    let first = version(&mut plain, "key:0");
    for at in 1..100 {
        version(&mut plain, &format!("key:{at}"));
    }
    assert_eq!((number(&mut plain, "versions"), number(&mut plain, "versions_evicted")), (100, 0));
    let bytes = number(&mut plain, "versions_bytes");
    assert!(bytes >= 100 * 16, "{bytes}");
    assert_eq!(version(&mut plain, "key:0"), first);
    ok(&mut plain, "SET key:1 v");
    assert_eq!(number(&mut plain, "versions"), 99, "what changed is forgotten");
    ok(&mut plain, &format!("CONFIG SET claret.versions-bytes-max {}", bytes / 2));
    assert_eq!(version(&mut plain, "key:0"), first, "asked for last");
    let left = number(&mut plain, "versions");
    assert!((45..=50).contains(&left), "{left}");
    assert_eq!(number(&mut plain, "versions_evicted"), 99 - left);
    ok(&mut plain, "CONFIG SET claret.versions-bytes-max 0");
    let (one, other) = (version(&mut plain, "key:0"), version(&mut plain, "key:0"));
    assert!(one != first && one != other, "without room nothing is kept");
}

/// Bug: to see whether a set had changed its node read all of it.
#[test]
fn a_version_costs_no_command_of_the_server_whatever_is_in_the_key() {
    let (_server, mut plain) = begun(&[]);
    let members: Vec<String> = (0..20_000).map(|number| number.to_string()).collect();
    let () = redis::cmd("SADD").arg("k").arg(&members).query(&mut plain).expect("added");
    let first = version(&mut plain, "k");
    ok(&mut plain, "CONFIG RESETSTAT");
    for _ in 0..100 {
        assert_eq!(version(&mut plain, "k"), first);
    }
    let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut plain).expect("what was run");
    let run: Vec<&str> = stats.lines().filter_map(|line| line.strip_prefix("cmdstat_")).collect();
    // The node looks at the server's settings now and then, and has timers, whatever is asked of it: less than once for each version.
    let calls = |line: &str| {
        let (name, calls) = line.split_once(":calls=")?;
        ["config|get", "claret.due"].contains(&name).then(|| calls.split(',').next()?.parse::<u32>().ok())?
    };
    let is_expected = |line: &&str| {
        let is_own = line.starts_with("claret.exec:") || line.starts_with("config|resetstat:");
        is_own || calls(line).is_some_and(|calls| calls < 100)
    };
    let others: Vec<_> = run.iter().filter(|line| !is_expected(line)).collect();
    assert!(others.is_empty(), "{others:?}");
}
