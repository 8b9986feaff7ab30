//! Plain commands and commands of the module as random words.

use super::dice::Dice;
use super::eve::Eve;
use super::keys::Keys;
use super::link::Batch;
use crate::common::identity;

/// Commands: `k` is a key, `v` a value, `m` a member or field, `n` a number, `f` a float, `t` a short time in seconds or
/// milliseconds; anything else is what it says.
const PLAIN: &[&str] = &[
    "GET k",
    "SET k v",
    "SET k v NX GET",
    "SET k v EX n",
    "SETNX k v",
    "SETEX k n v",
    "PSETEX k n v",
    "GETSET k v",
    "GETDEL k",
    "GETEX k PX n",
    "APPEND k v",
    "STRLEN k",
    "SETRANGE k n v",
    "GETRANGE k n n",
    "SUBSTR k n n",
    "INCR k",
    "DECR k",
    "INCRBY k n",
    "DECRBY k n",
    "INCRBYFLOAT k f",
    "SETBIT k n 1",
    "GETBIT k n",
    "BITCOUNT k",
    "BITPOS k 1",
    "BITOP AND k k k",
    "BITFIELD k SET u8 n n",
    "BITFIELD_RO k GET u8 n",
    "MGET k k k",
    "MSET k v k v",
    "MSETNX k v k v",
    "LCS k k",
    "PFADD k m m",
    "PFCOUNT k k",
    "PFMERGE k k k",
    "DEL k",
    "DEL k k k",
    "UNLINK k k",
    "EXISTS k k",
    "TYPE k",
    "DUMP k",
    "TOUCH k k",
    "EXPIRE k n",
    "PEXPIRE k n NX",
    "EXPIREAT k n",
    "PEXPIREAT k n",
    "PERSIST k",
    "TTL k",
    "PTTL k",
    "EXPIRETIME k",
    "RENAME k k",
    "RENAMENX k k",
    "COPY k k REPLACE",
    "COPY k k DB n",
    "MOVE k n",
    "SORT k ALPHA",
    "SORT k BY m STORE k",
    "SORT_RO k ALPHA LIMIT n n",
    "OBJECT ENCODING k",
    "OBJECT FREQ k",
    "RESTORE k n v REPLACE",
    "LPUSH k m m",
    "RPUSH k m",
    "LPUSHX k m",
    "RPUSHX k m",
    "LPOP k",
    "LPOP k n",
    "RPOP k",
    "RPOP k n",
    "LLEN k",
    "LRANGE k n n",
    "LINDEX k n",
    "LSET k n v",
    "LINSERT k BEFORE m v",
    "LREM k n m",
    "LTRIM k n n",
    "LPOS k m COUNT n",
    "LMOVE k k LEFT RIGHT",
    "RPOPLPUSH k k",
    "LMPOP 2 k k LEFT COUNT n",
    "SADD k m m",
    "SREM k m",
    "SISMEMBER k m",
    "SMISMEMBER k m m",
    "SMEMBERS k",
    "SCARD k",
    "SPOP k",
    "SPOP k n",
    "SRANDMEMBER k -3",
    "SMOVE k k m",
    "SINTER k k",
    "SINTERCARD 2 k k LIMIT n",
    "SINTERSTORE k k k",
    "SUNION k k",
    "SUNIONSTORE k k k",
    "SDIFF k k",
    "SDIFFSTORE k k k",
    "SSCAN k 0 COUNT n",
    "HSET k m v m v",
    "HSETNX k m v",
    "HMSET k m v",
    "HGET k m",
    "HMGET k m m",
    "HGETALL k",
    "HDEL k m",
    "HLEN k",
    "HKEYS k",
    "HVALS k",
    "HEXISTS k m",
    "HSTRLEN k m",
    "HINCRBY k m n",
    "HINCRBYFLOAT k m f",
    "HRANDFIELD k -3 WITHVALUES",
    "HSCAN k 0 MATCH m",
    "ZADD k f m",
    "ZADD k GT CH f m f m",
    "ZADD k NX INCR f m",
    "ZINCRBY k f m",
    "ZREM k m",
    "ZSCORE k m",
    "ZMSCORE k m m",
    "ZRANK k m",
    "ZREVRANK k m",
    "ZCARD k",
    "ZCOUNT k f f",
    "ZLEXCOUNT k - +",
    "ZRANGE k n n WITHSCORES",
    "ZRANGE k f f BYSCORE REV LIMIT n n",
    "ZRANGESTORE k k n n",
    "ZRANGEBYSCORE k f f",
    "ZREVRANGE k n n",
    "ZRANGEBYLEX k - +",
    "ZREMRANGEBYRANK k n n",
    "ZREMRANGEBYSCORE k f f",
    "ZREMRANGEBYLEX k - +",
    "ZPOPMIN k",
    "ZPOPMAX k n",
    "ZMPOP 1 k MIN COUNT n",
    "ZRANDMEMBER k -3",
    "ZUNION 2 k k",
    "ZUNIONSTORE k 2 k k WEIGHTS f f",
    "ZINTER 2 k k",
    "ZINTERSTORE k 2 k k AGGREGATE MAX",
    "ZDIFF 2 k k",
    "ZDIFFSTORE k 2 k k",
    "ZSCAN k 0",
    "GEOADD k 1 2 m",
    "GEOPOS k m",
    "GEOSEARCHSTORE k k FROMLONLAT 1 2 BYRADIUS n m",
    "XADD k * m v",
    "XADD k MAXLEN n * m v",
    "XLEN k",
    "XRANGE k - + COUNT n",
    "XDEL k 1-1",
    "XTRIM k MAXLEN n",
    "XGROUP CREATE k g 0",
    "XREADGROUP GROUP g c STREAMS k >",
    "XACK k g 1-1",
    "XREAD STREAMS k 0",
    "SCAN 0 MATCH eve:* COUNT n",
    "DBSIZE",
    "RANDOMKEY",
];

/// Those that may have to wait for something that does not come.
const BLOCKING: &[&str] = &[
    "BLPOP k k t",
    "BRPOP k t",
    "BLMOVE k k LEFT LEFT t",
    "BRPOPLPUSH k k t",
    "BLMPOP t 2 k k RIGHT COUNT n",
    "BZPOPMIN k k t",
    "BZPOPMAX k t",
    "BZMPOP t 1 k MAX",
    "XREAD BLOCK 1 STREAMS k $",
    "XREADGROUP GROUP g c BLOCK 1 STREAMS k >",
    "WAIT 1 1",
    "CLARET.POLL s n",
];

/// The same, for somebody who will not wait for the answer.
const FOR_EVER: &[&str] = &[
    "BLPOP k k 0",
    "BRPOP k 0",
    "BLMOVE k k LEFT LEFT 0",
    "BZPOPMIN k k 0",
    "XREAD BLOCK 0 STREAMS k $",
    "BLMPOP 0 2 k k LEFT",
    "WAIT 3 0",
    "CLARET.WRITE-ANY BLPOP k 0",
];

/// What a connection does with itself. What would give it other rights or another number of answers is not here: nor is `AUTH`, since Valkey
/// 8.0 does not answer a wrong one behind which other answers wait, also without the module.
const OWN_AFFAIRS: &[&str] = &[
    "PING",
    "ECHO v",
    "CLIENT ID",
    "CLIENT SETNAME m",
    "CLIENT GETNAME",
    "CLIENT INFO",
    "CLIENT NO-EVICT on",
    "CLIENT TRACKING on",
    "CLIENT TRACKING off",
    "CLIENT CACHING yes",
    "CLIENT TRACKINGINFO",
    "SELECT n",
    "SELECT 0",
    "SELECT 0",
    "COMMAND COUNT",
    "COMMAND GETKEYS CLARET.EXEC 3 SET k v",
    "COMMAND GETKEYS CLARET.WRITE-ANY SET k v",
    "COMMAND INFO claret.frame",
    "COMMAND DOCS claret.exec",
    "TIME",
    "ASKING",
    "READONLY",
    "READWRITE",
    "CLUSTER KEYSLOT k",
    "CLUSTER INFO",
    "ACL WHOAMI",
    "FLUSHALL",
    "FLUSHDB",
    "SWAPDB 0 1",
    "CONFIG SET claret.drain 1",
    "DEBUG SLEEP 9",
    "MODULE UNLOAD claret",
    "SHUTDOWN",
    "REPLICAOF NO ONE",
    "CLUSTER FAILOVER",
    "PSYNC ? -1",
    "SPUBLISH claret:eve:x v",
    "PUBLISH claret:other:x v",
    "PUBSUB SHARDCHANNELS",
    "FUNCTION LIST",
    "SCRIPT EXISTS m",
    "MIGRATE 127.0.0.1 1 k 0 n",
    "LATENCY LATEST",
    "SLOWLOG GET",
    "MEMORY USAGE k",
];

const SUBSCRIPTIONS: &[&str] = &[
    "SSUBSCRIBE claret:eve:CH",
    "SUNSUBSCRIBE claret:eve:CH",
    "SSUBSCRIBE claret:other:1",
    "SUBSCRIBE claret:eve:x",
    "PSUBSCRIBE claret:eve:*",
    "UNSUBSCRIBE",
    "PUNSUBSCRIBE",
    "SUNSUBSCRIBE",
    "SPUBLISH claret:eve:CH v",
    "CLIENT REPLY ON",
];

/// Commands of the module with arguments of every sort; `w` is anything, `a` an attempt, `c` a plain command of several words.
const MODULE: &[&str] = &[
    "CLARET.EXEC n GET k",
    "CLARET.EXEC 2 INCR k",
    "CLARET.EXEC 3 SET k v 2 GET k",
    "CLARET.EXEC 3 SADD k m 3 SREM k m 2 DEL k",
    "CLARET.EXEC 4 HSET k m v 3 LPUSH k m",
    "CLARET.EXEC 5 TOPK.ADD k 3 f m",
    "CLARET.EXEC n n n",
    "CLARET.EXEC w w w w",
    "CLARET.EXEC",
    "CLARET.EXEC 5 BCREATE k n n n 3 BINCRBY k n",
    "CLARET.EXEC 4 ZADD k f m 3 ZSCORE k m",
    "CLARET.EXEC 2 UID.NEXT k",
    "CLARET.EXEC 3 BAG.ADD k f",
    "CLARET.EXEC 3 RPUSH k m 2 LPOP k 4 LRANGE k n n",
    "CLARET.READ c",
    "CLARET.WRITE c",
    "CLARET.READ-ANY c",
    "CLARET.WRITE-ANY c",
    "CLARET.WRITE-ANY CLARET.WRITE-ANY c",
    "CLARET.WRITE-ANY CLARET.EXEC 3 SET k v",
    "CLARET.WRITE-ANY EVAL n 1 k",
    "CLARET.WRITE-ANY MULTI",
    "CLARET.READ-ANY EXEC",
    "CLARET.WRITE-ANY SUBSCRIBE m",
    "CLARET.READ-ANY",
    "CLARET.OUTCOME a",
    "CLARET.OUTCOME w",
    "CLARET.LOCKS",
    "CLARET.LOCKS k",
    "CLARET.TOP",
    "CLARET.TOP COUNT n",
    "CLARET.TOP w w",
    "CLARET.RESOLVE a COMMIT",
    "CLARET.RESOLVE a ABORT",
    "CLARET.RESOLVE USER eve ABORT",
    "CLARET.RESOLVE USER default ABORT",
    "CLARET.RESOLVE w w w",
    "CLARET.CHANGES n w n n w",
    "CLARET.CHANGES 1 node 1 1 v",
    "CLARET.CHANGES w",
    "CLARET.TAKE RESTORE-ASKING k n v",
    "CLARET.TAKE w k",
    "CLARET.UNPROVEN",
    "CLARET.UNPROVEN w w",
    "CLARET.POLL s 0",
    "CLARET.POLL n n",
    "CLARET.POLL w",
    "CLARET.HELLO n w n",
    "CLARET.HELLO 9 p n",
    "CLARET.HELLO 9 p 2 POLL",
    "CLARET.HELLO 9 p 2 PUSH claret:eve:x",
    "CLARET.HELLO 9 p 2 PUSH m",
    "CLARET.HELLO 9 p 2 w",
    "CLARET.HELLO 9 p 1 PROOF p",
    "CLARET.HELLO w w w w w w",
    "CLARET.FRAME",
    "CLARET.FRAME w w",
    "CLARET.FRAME v",
];

/// Scripts; `K` is a key that is not declared.
const SCRIPTS: &[&str] = &[
    "return redis.call('SET',KEYS[1],ARGV[1])",
    "return redis.pcall('INCRBY',KEYS[1],ARGV[1])",
    "return redis.pcall('GET','K')",
    "redis.pcall('LPUSH','K',1) return redis.pcall('LRANGE',KEYS[1],0,-1)",
    "return redis.pcall('CLARET.EXEC',3,'SET',KEYS[1],'x')",
    "return redis.pcall('CLARET.EXEC',2,'INCR','K',2,'INCR',KEYS[1])",
    "return redis.pcall('CLARET.FRAME',ARGV[1])",
    "return redis.pcall('CLARET.POLL',1,1000)",
    "return redis.pcall('CLARET.WRITE-ANY','BLPOP',KEYS[1],0)",
    "return redis.pcall('CLARET.CHANGES',1,'node',1,1,ARGV[1])",
    "return redis.pcall('CLARET.OUTCOME','1.1/1')",
    "for i=1,20 do redis.pcall('SADD',KEYS[1],i) end return redis.pcall('SPOP',KEYS[1],3)",
    "redis.setresp(3) return redis.pcall('HGETALL',KEYS[1])",
    "return {KEYS[1],redis.pcall('TYPE',KEYS[1]),redis.pcall('DEL',KEYS[1])}",
    "#!lua flags=no-writes\nreturn redis.pcall('GET',KEYS[1])",
    "return redis.error_reply(ARGV[1])",
];

/// What takes the place of a placeholder.
fn word(template: &str, keys: &Keys, eve: &mut Eve, dice: &mut Dice) -> Vec<u8> {
    match template {
        "k" => keys.one(dice),
        "v" => match dice.roll(8) {
            0 => dice.bytes(9),
            1 => vec![b'x'; 20 + dice.roll(3_000)],
            2 => dice.number().to_string().into_bytes(),
            _ => format!("v{}", dice.roll(9)).into_bytes(),
        },
        "m" => match dice.roll(20) {
            0 => dice.bytes(3),
            1 => Vec::new(),
            2 => vec![b'm'; 100],
            _ => format!("{}", dice.roll(12)).into_bytes(),
        },
        "n" => match dice.roll(9) {
            0 => (dice.number() as i64).to_string().into_bytes(),
            1 => dice.number().to_string().into_bytes(),
            2 => format!("-{}", dice.number()).into_bytes(),
            3 => dice.pick(&["", "x", "1.5", " 1", "+1", "1e3", "0x10", "\u{fc}"]).as_bytes().to_vec(),
            _ => dice.roll(6).to_string().into_bytes(),
        },
        "f" => dice
            .pick(&[
                "0", "1", "-1", "1.5", "-0.0", "inf", "-inf", "nan", "1e308", "5e-324", "(2", "0.1", "1e400",
            ])
            .as_bytes()
            .to_vec(),
        "t" => dice.pick(&["0.001", "0.002", "0.0001", "-1", "x", "nan"]).as_bytes().to_vec(),
        "a" => eve.attempt(dice).0.to_string().into_bytes(),
        "s" => eve.session.0.to_string().into_bytes(),
        "p" => identity(*dice.pick(&[eve.person(), 7, 99])).public().to_string().into_bytes(),
        "w" => {
            let kind = *dice.pick(&["k", "v", "m", "n", "f", "a", "s", "p"]);
            word(kind, keys, eve, dice)
        }
        said => said.as_bytes().to_vec(),
    }
}

fn words(template: &str, keys: &Keys, eve: &mut Eve, dice: &mut Dice) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for part in template.split(' ') {
        match part {
            "c" => all.extend(words(dice.one_of(PLAIN), keys, eve, dice)),
            part => all.push(word(part, keys, eve, dice)),
        }
    }
    all
}

/// The same with words that are changed, added, or left out; not the first one.
fn shaken(mut all: Vec<Vec<u8>>, keys: &Keys, eve: &mut Eve, dice: &mut Dice) -> Vec<Vec<u8>> {
    if dice.once_in(8) && all.len() > 1 {
        let at = 1 + dice.roll(all.len() - 1);
        match dice.roll(4) {
            0 => drop(all.remove(at)),
            1 => all.insert(at, word("w", keys, eve, dice)),
            2 => all[at] = word("w", keys, eve, dice),
            _ => dice.mutate(&mut all[at]),
        }
    }
    all
}

/// One command of those that have one answer each.
pub(crate) fn counted(batch: &mut Batch, keys: &Keys, eve: &mut Eve, dice: &mut Dice) {
    match dice.roll(100) {
        0..=39 => batch.add(&[b"CLARET.FRAME".to_vec(), eve.frame(keys, dice)]),
        40..=53 => {
            let all = words(dice.one_of(MODULE), keys, eve, dice);
            // A command that waits must not wait for ever.
            let may_block = all.iter().any(|word| word.starts_with(b"B") || word.starts_with(b"X"));
            batch.add(&if may_block { all } else { shaken(all, keys, eve, dice) });
        }
        54..=83 => {
            let all = words(dice.one_of(PLAIN), keys, eve, dice);
            let is_safe = !all[0].starts_with(b"X");
            batch.add(&if is_safe { shaken(all, keys, eve, dice) } else { all });
        }
        84..=91 => {
            let template = dice.pick(&[
                "MULTI",
                "MULTI",
                "MULTI",
                "EXEC",
                "EXEC",
                "WATCH k",
                "WATCH k k",
                "UNWATCH",
                "DISCARD",
            ]);
            batch.add(&words(template, keys, eve, dice));
        }
        92..=95 => script(batch, keys, eve, dice),
        96 if dice.once_in(20) => batch.add(&words(dice.one_of(BLOCKING), keys, eve, dice)),
        _ => batch.add(&words(dice.one_of(OWN_AFFAIRS), keys, eve, dice)),
    }
}

fn script(batch: &mut Batch, keys: &Keys, eve: &mut Eve, dice: &mut Dice) {
    let undeclared = String::from_utf8_lossy(dice.pick::<Vec<u8>>(keys.own())).into_owned();
    let text =
        dice.one_of(SCRIPTS).replace('K', "\u{1}").replace("\u{1}EYS", "KEYS").replace('\u{1}', &undeclared);
    let name = *dice.pick(&["EVAL", "EVAL", "EVAL", "EVAL_RO", "CLARET.WRITE-ANY"]);
    let mut all = vec![name.as_bytes().to_vec()];
    if name.starts_with("CLARET") {
        all.push(b"EVAL".to_vec());
    }
    all.extend([text.into_bytes(), b"1".to_vec(), keys.one(dice), word("n", keys, eve, dice)]);
    batch.add(&all);
}

/// One command of a connection that also listens.
pub(crate) fn loud(batch: &mut Batch, keys: &Keys, eve: &mut Eve, dice: &mut Dice) {
    if dice.once_in(3) {
        let line = dice.one_of(SUBSCRIPTIONS).replace("CH", &keys.named(""));
        batch.add(&words(&line, keys, eve, dice));
    } else {
        counted(batch, keys, eve, dice);
    }
}

/// Some commands of somebody who leaves without an answer: they may wait for ever, be cut, or be no commands.
pub(crate) fn abandoned(batch: &mut Batch, keys: &Keys, eve: &mut Eve, dice: &mut Dice) {
    for _ in 0..dice.roll(6) {
        counted(batch, keys, eve, dice);
    }
    batch.add(&words(dice.one_of(FOR_EVER), keys, eve, dice));
    match dice.roll(3) {
        0 => batch.bytes.truncate(batch.bytes.len() - 1 - dice.roll(9)),
        1 => {
            let noise = dice.bytes(20);
            batch.bytes.extend(noise);
        }
        _ => {}
    }
}
