//! Drawing commands.

use rand::RngExt;
use rand::rngs::StdRng;

/// All keys; the letter says which type they mostly hold.
pub(super) const KEYS: [&str; 15] =
    ["s1", "s2", "s3", "h1", "h2", "h3", "l1", "l2", "l3", "e1", "e2", "e3", "z1", "z2", "z3"];

/// Keys that some commands have besides, and words that may stand where a key is.
pub(super) const OTHER_KEYS: [&str; 9] =
    ["lex", "big", "bighash", "x", "99999999999999999999", "1.5x", "NX", "~", "WITHSCORES"];

/// Commands: the letter of the keys that they are mostly for, and their words. `k` is a key, `v` a value, `m` a member or a field,
/// `i` an index, `n` a count, `s` a score, `b` a bound of scores, `x` a bound of members, `t` a time in seconds, `p` a pattern;
/// `{a|b c|}` one of these, `<...>` once to three times.
const COMMANDS: &[(char, &str)] = &[
    ('s', "SET k v"),
    ('s', "SET k v"),
    ('s', "SET k i"),
    ('s', "SET k v {NX|XX|} {GET|} {KEEPTTL|EX t|PX t|EXAT 9t|PXAT 9t000|PXAT 1|}"),
    ('s', "SET k v {NX|XX|GET|KEEPTTL|EX t} {NX|XX|GET|KEEPTTL|EX t}"),
    ('s', "GET k"),
    ('s', "GETSET k v"),
    ('s', "GETDEL k"),
    ('s', "GETEX k {PERSIST|EX t|PX t|EXAT 9t|PXAT 1|EX 0|PERSIST EX t|}"),
    ('s', "SETNX k v"),
    ('s', "SETEX k {t|0|-1} v"),
    ('s', "PSETEX k {t000|0|-1} v"),
    ('s', "MSETNX <k v>"),
    ('s', "MSET <k v>"),
    ('s', "MGET <k>"),
    ('s', "APPEND k v"),
    ('s', "STRLEN k"),
    ('s', "GETRANGE k i i"),
    ('s', "SUBSTR k i i"),
    ('s', "SETRANGE k i v"),
    ('s', "INCR k"),
    ('s', "DECR k"),
    ('s', "INCRBY {k|k|big} i"),
    ('s', "{INCRBY|DECRBY} big {i|9223372036854775800|-9223372036854775800}"),
    ('s', "DECRBY k {i|-9223372036854775808}"),
    ('s', "INCRBYFLOAT k {i|0.5|-0.25|1e2|inf|nan}"),
    ('s', "GETBIT k {n|1n|-1}"),
    ('s', "SETBIT k {n|1n|-1} {0|1|2}"),
    ('s', "BITCOUNT k {i i|i i BIT|i i BYTE|i i WHAT|}"),
    ('s', "BITPOS k {0|1|2} {i|i i|i i BIT|i i BYTE|}"),
    ('s', "BITOP {AND|OR|XOR|NOT|WHAT} k <k>"),
    ('s', "LCS k k {LEN|IDX|IDX WITHMATCHLEN|IDX MINMATCHLEN n|LEN IDX|WHAT|}"),
    ('h', "HSET k <m v>"),
    ('h', "HSET k <m v>"),
    ('h', "HSET k m i"),
    ('h', "HSET k m v m"),
    ('h', "HMSET k <m v>"),
    ('h', "HSETNX k m v"),
    ('h', "HGET k m"),
    ('h', "HMGET k <m>"),
    ('h', "HDEL k <m>"),
    ('h', "HEXISTS k m"),
    ('h', "HLEN k"),
    ('h', "HKEYS k"),
    ('h', "HVALS k"),
    ('h', "HGETALL k"),
    ('h', "HSTRLEN k m"),
    ('h', "HINCRBY k m {i|x}"),
    ('h', "HINCRBY bighash m {i|9223372036854775800|-9223372036854775800}"),
    ('h', "HINCRBYFLOAT k m {i|0.5|-0.25|inf|x}"),
    ('h', "HRANDFIELD k {i|i WITHVALUES|n WITHVALUES|i WHAT|}"),
    ('h', "HSCAN k {0|x} {MATCH p|COUNT 100|COUNT 0|MATCH|}"),
    ('l', "LPUSH k <v>"),
    ('l', "RPUSH k <v>"),
    ('l', "RPUSH k <v>"),
    ('l', "LPUSHX k <v>"),
    ('l', "RPUSHX k <v>"),
    ('l', "LPOP k {n|i|}"),
    ('l', "RPOP k {n|i|}"),
    ('l', "LLEN k"),
    ('l', "LINDEX k {i|i|x}"),
    ('l', "LRANGE k i i"),
    ('l', "LSET k {i|i|i|x} v"),
    ('l', "LINSERT k {BEFORE|AFTER|before|WHAT} v v"),
    ('l', "LREM k i v"),
    ('l', "LTRIM k i i"),
    ('l', "LPOS k v {RANK i|COUNT n|RANK i COUNT n|COUNT n MAXLEN n|COUNT -1|RANK|}"),
    ('l', "LMOVE k k {LEFT|RIGHT|WHAT} {LEFT|RIGHT}"),
    ('l', "RPOPLPUSH k k"),
    ('l', "LMPOP {1 k|2 k k|0 k|2 k} {LEFT|RIGHT} {COUNT n|}"),
    ('e', "SADD k <m>"),
    ('e', "SADD k <m>"),
    ('e', "SADD k <n>"),
    ('e', "SREM k <m>"),
    ('e', "SISMEMBER k m"),
    ('e', "SMISMEMBER k <m>"),
    ('e', "SCARD k"),
    ('e', "SMEMBERS k"),
    ('e', "SPOP k {n|i|}"),
    ('e', "SRANDMEMBER k {i|n|x|}"),
    ('e', "SMOVE k k m"),
    ('e', "{SINTER|SUNION|SDIFF} <k>"),
    ('e', "{SINTERSTORE|SUNIONSTORE|SDIFFSTORE} k <k>"),
    ('e', "SINTERCARD {1 k|2 k k|0 k|3 k} {LIMIT n|LIMIT -1|}"),
    ('e', "SSCAN k {0|x} {MATCH p|COUNT 100|NOVALUES|}"),
    ('z', "ZADD k <s m>"),
    ('z', "ZADD k <s m>"),
    ('z', "ZADD k {NX|XX|GT|LT|CH} {CH|XX|GT|} <s m>"),
    ('z', "ZADD k {NX|XX|GT|LT|CH|INCR} {INCR|NX|LT|} s m"),
    ('z', "ZREM k <m>"),
    ('z', "ZINCRBY k {s|x} m"),
    ('z', "ZSCORE k m"),
    ('z', "ZMSCORE k <m>"),
    ('z', "ZCARD k"),
    ('z', "ZCOUNT k b b"),
    ('z', "ZRANGE k i i {REV|} {WITHSCORES|}"),
    ('z', "ZRANGE k b b BYSCORE {REV|} {LIMIT n n|LIMIT n -1|} {WITHSCORES|}"),
    ('z', "ZRANGE k i i {LIMIT 0 1|BYLEX|WHAT|REV REV}"),
    ('z', "ZRANGESTORE k k {i i|i i REV|b b BYSCORE|b b BYSCORE LIMIT n n}"),
    ('z', "ZREVRANGE k i i {WITHSCORES|REV|}"),
    ('z', "ZRANGEBYSCORE k b b {WITHSCORES|LIMIT n n|LIMIT n|}"),
    ('z', "ZREVRANGEBYSCORE k b b {WITHSCORES|LIMIT n n|}"),
    ('z', "{ZRANK|ZREVRANK} k m"),
    ('z', "ZREMRANGEBYRANK k i i"),
    ('z', "ZREMRANGEBYSCORE k b b"),
    ('z', "{ZPOPMIN|ZPOPMAX} k {n|i|}"),
    ('z', "ZMPOP {1 k|2 k k|0 k|2 k} {MIN|MAX|WHAT} {COUNT n|}"),
    ('z', "ZRANDMEMBER k {i|i WITHSCORES|n WITHSCORES|i WHAT|}"),
    (
        'z',
        "{ZUNION|ZINTER} 2 k k {WEIGHTS i i|WEIGHTS x 1|} {AGGREGATE SUM|AGGREGATE MIN|AGGREGATE MAX|} {WITHSCORES|}",
    ),
    ('z', "{ZUNION|ZINTER|ZDIFF} {0 k|3 k|x k|1 k} {WITHSCORES|}"),
    ('z', "ZDIFF 2 k k {WITHSCORES|}"),
    ('z', "{ZUNIONSTORE|ZINTERSTORE} k 2 k k {WEIGHTS i i|} {AGGREGATE MIN|AGGREGATE MAX|AGGREGATE WHAT|}"),
    ('z', "ZDIFFSTORE k 2 k k"),
    ('z', "ZINTERCARD 2 k k {LIMIT n|LIMIT -1|}"),
    ('z', "ZSCAN k 0 {MATCH p|COUNT 100|}"),
    ('e', "ZUNION 2 k z1 WITHSCORES"),
    ('z', "{ZLEXCOUNT|ZRANGEBYLEX|ZREVRANGEBYLEX|ZREMRANGEBYLEX} lex x x"),
    ('z', "ZADD lex <0 m>"),
    ('z', "ZRANGE lex x x BYLEX {REV|} {LIMIT n n|}"),
    ('z', "ZRANGEBYLEX lex x x LIMIT n n"),
    ('*', "DEL <k>"),
    ('*', "UNLINK k"),
    ('*', "EXISTS <k>"),
    ('*', "TOUCH <k>"),
    ('*', "TYPE k"),
    ('*', "EXPIRE k {t|t|t|0|-1|x} {NX|XX|GT|LT|XX GT|NX GT|WHAT|}"),
    ('*', "PEXPIRE k {t000|t000|-5|9223372036854775807|9200000000000000000} {NX|XX|GT|LT|}"),
    ('*', "EXPIREAT k {9t|9t|1} {NX|XX|GT|LT|GT LT|}"),
    ('*', "PEXPIREAT k {9t000|1|316516204800000|9223372036854775000} {NX|XX|GT|LT|}"),
    ('*', "{TTL|PTTL|EXPIRETIME|PEXPIRETIME} k"),
    ('*', "PERSIST k"),
    ('*', "RENAME k k"),
    ('*', "RENAMENX k k"),
    ('*', "COPY k k {REPLACE|DB 0|WHAT|}"),
    ('l', "SORT k {LIMIT n n|LIMIT i i|} {DESC|ASC|} {ALPHA|}"),
    ('e', "{SORT|SORT_RO} k {ALPHA|DESC|}"),
    ('z', "SORT k {ALPHA|BY nosort|BY nosort DESC|ALPHA DESC}"),
    ('l', "SORT k ALPHA {STORE k|LIMIT n n STORE k}"),
    ('l', "SORT k BY nosort GET {#|s*|h*->a|x} {GET #|GET s*|STORE k|}"),
    ('z', "SORT k BY {s*|h*->a} {GET #|GET s*|DESC}"),
];

/// A command; `is_new`: the server is of version 7.2 or later.
pub(super) fn command(random: &mut StdRng, is_new: bool) -> Vec<String> {
    let (kind, template) = pick(random, COMMANDS);
    let mut words = Vec::new();
    expand(random, *kind, template, &mut words);
    if is_new && random.random_range(0..3) == 0 && matches!(words[0].as_str(), "ZRANK" | "ZREVRANK") {
        words.push("WITHSCORE".to_owned());
    }
    // Bad arguments, behind the key.
    // Older servers look for the key before they read what follows.
    let is_exact = words[0].ends_with("FLOAT") || words[1] == "lex" || !is_new && words[0].starts_with("BIT");
    if words.len() > 2 && !is_exact && random.random_range(0..40) == 0 {
        let at = random.random_range(2..words.len());
        let bad: &str = pick::<&str>(random, &["x", "99999999999999999999", "1.5x", "NX", "~", ""]);
        // Claret has no empty key, and `ZINCRBY` is a `ZADD` in servers.
        let is_cursor = !is_new && words[0].ends_with("SCAN") && bad.is_empty();
        let is_key = bad.is_empty() && KEYS.contains(&words[at].as_str());
        let is_option = bad == "NX" && words[0] == "ZINCRBY";
        if !(is_cursor || is_key || is_option) {
            words[at] = bad.to_owned();
        }
    }
    if !is_new {
        // What older servers do not know, or look at later.
        let is_of_bits = words[0].starts_with("BIT");
        words.retain(|word| word != "NOVALUES" && !(is_of_bits && word == "WHAT"));
    }
    words
}

fn pick<'a, T>(random: &mut StdRng, all: &'a [T]) -> &'a T {
    &all[random.random_range(0..all.len())]
}

fn expand(random: &mut StdRng, kind: char, template: &str, words: &mut Vec<String>) {
    let mut rest = template.trim();
    while !rest.is_empty() {
        let close = match rest.as_bytes()[0] {
            b'{' => Some('}'),
            b'<' => Some('>'),
            _ => None,
        };
        let end = match close {
            Some(close) => rest.find(close).expect("it is closed") + 1,
            None => rest.find(' ').unwrap_or(rest.len()),
        };
        let (part, after) = rest.split_at(end);
        rest = after.trim_start();
        match close {
            Some('}') => {
                let alternatives: Vec<&str> = part[1..end - 1].split('|').collect();
                let chosen: &str = pick::<&str>(random, &alternatives);
                expand(random, kind, chosen, words);
            }
            Some(_) => {
                (0..random.random_range(1..4)).for_each(|_| expand(random, kind, &part[1..end - 1], words))
            }
            None => words.push(word(random, kind, part)),
        }
    }
}

/// What a sign stands for; other words are themselves.
fn word(random: &mut StdRng, kind: char, sign: &str) -> String {
    let number = |random: &mut StdRng| random.random_range(1000..90_000_000);
    match sign {
        "k" => {
            let own: Vec<&str> = KEYS.into_iter().filter(|key| key.starts_with(kind)).collect();
            let is_own = !own.is_empty() && random.random_range(0..12) > 0;
            (*pick(random, if is_own { &own[..] } else { &KEYS[..] })).to_owned()
        }
        "v" => (*pick(random, &["a", "b", "c", "10", "5", "hello", "", "-3", "0.5"])).to_owned(),
        "m" => (*pick(random, &["a", "b", "c", "d", "1", "22"])).to_owned(),
        "i" => random.random_range(-5..7).to_string(),
        "n" => random.random_range(0..5).to_string(),
        "1n" => format!("1{}", random.random_range(0..8)),
        "s" => (*pick(random, &["0", "1", "2", "-1", "1.5", "inf", "-inf", "3"])).to_owned(),
        "b" => (*pick(random, &["0", "1", "(1", "2", "-inf", "+inf", "(2", "1.5"])).to_owned(),
        "x" => (*pick(random, &["-", "+", "[a", "(a", "[b", "(c", "[d", "[1"])).to_owned(),
        "t" => number(random).to_string(),
        "t000" => format!("{}000", number(random)),
        "9t" => format!("9{:09}", number(random)),
        "9t000" => format!("9{:09}000", number(random)),
        "p" => (*pick(random, &["*", "a*", "?", "[ab]", "x"])).to_owned(),
        word => word.to_owned(),
    }
}
