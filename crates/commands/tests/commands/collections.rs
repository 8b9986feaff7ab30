//! Commands on hashes, lists, sets and sorted sets.

use super::*;

/// What is drawn of these beside a server: see `draw.rs`.
pub(super) const DRAWN: &[(char, &str)] = &[
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
];

#[test]
fn hashes() {
    script(
        &Store::in_memory(),
        "
        HSET h a 1 b 2 a 3 -> (2)
        HSET h a 4 -> (0)
        HSET h a -> ERR wrong number of arguments for 'hset' command
        HMSET h c 5
        HSETNX h c 6 -> (0)
        HSETNX h d 6 -> (1)
        HGET h c -> 5
        HGET h none -> (nil)
        HMGET h a none -> [4 (nil)]
        HDEL h d none -> (1)
        HEXISTS h a -> (1)
        HLEN h -> (3)
        HKEYS h -> [a b c]
        HVALS h -> [4 2 5]
        HGETALL h -> {a 4 b 2 c 5}
        HSTRLEN h a -> (1)
        HSTRLEN h none -> (0)
        HINCRBY h a 6 -> (10)
        HSET h t text -> (1)
        HINCRBY h t 1 -> ERR hash value is not an integer
        HINCRBYFLOAT h a 0.5 -> 10.5
        HINCRBYFLOAT h t 1 -> ERR hash value is not a float
        HINCRBYFLOAT h a inf -> ERR value is NaN or Infinity
        HRANDFIELD none -> (nil)
        HRANDFIELD none 3 -> []
        HDEL h a b c -> (3)
        HRANDFIELD h -> t
        HRANDFIELD h 5 WITHVALUES -> pairs[t text]
        HRANDFIELD h -2 -> [t t]
        HRANDFIELD h 2 WHAT -> ERR syntax error
        HSCAN h 0 -> [0 [t text]]
        HSCAN h 0 MATCH x* -> [0 []]
        HSCAN h 0 NOVALUES -> [0 [t]]
        HSCAN h x -> ERR invalid cursor
        SET s v
        HGET s a -> WRONGTYPE Operation against a key holding the wrong kind of value
        ",
    );
}

#[test]
fn ends_of_lists() {
    script(
        &Store::in_memory(),
        "
        LPUSHX l a -> (0)
        RPUSHX l a -> (0)
        RPUSH l b c -> (2)
        LPUSH l a z -> (4)
        LPUSHX l y -> (5)
        LLEN l -> (5)
        LRANGE l 0 -1 -> [y z a b c]
        LINDEX l -1 -> c
        LINDEX l x -> ERR value is not an integer or out of range
        LINDEX none x -> (nil)
        LPOP l -> y
        RPOP l -> c
        LPOP l 2 -> [z a]
        LPOP l 0 -> []
        LPOP none 0 -> (no array)
        RPOP none 2 -> (no array)
        LPOP l -1 -> ERR value is out of range, must be positive
        RPOP l 9 -> [b]
        EXISTS l -> (0)
        LPOP l -> (nil)
        RPUSH a 1 2 3 -> (3)
        RPOPLPUSH a b -> 3
        LMOVE a b LEFT RIGHT -> 1
        LRANGE b 0 -1 -> [3 1]
        LMOVE none b LEFT RIGHT -> (nil)
        LMOVE a b LEFT WHAT -> ERR syntax error
        EXPIRE a 100 -> (1)
        LMOVE a a LEFT RIGHT -> 2
        TTL a -> (100)
        RPOPLPUSH b b -> 1
        LRANGE b 0 -1 -> [1 3]
        LMPOP 2 none b LEFT COUNT 5 -> [b [1 3]]
        LMPOP 1 none LEFT -> (no array)
        LMPOP 0 b LEFT -> ERR numkeys should be greater than 0
        LMPOP 1 b LEFT COUNT 0 -> ERR count should be greater than 0
        SET s v
        LMOVE a s LEFT LEFT -> WRONGTYPE Operation against a key holding the wrong kind of value
        LLEN a -> (1)
        ",
    );
}

#[test]
fn within_lists() {
    script(
        &Store::in_memory(),
        "
        LSET l 0 x -> ERR no such key
        RPUSH l a b c b a -> (5)
        EXPIRE l 100 -> (1)
        LSET l 2 C
        LSET l -1 A
        LSET l 9 x -> ERR index out of range
        LSET l x x -> ERR value is not an integer or out of range
        LRANGE l 0 -1 -> [a b C b A]
        LINSERT l BEFORE C x -> (6)
        LINSERT l AFTER A y -> (7)
        LINSERT l AFTER none y -> (-1)
        LINSERT none AFTER a y -> (0)
        LINSERT l WHAT a y -> ERR syntax error
        LRANGE l 0 -1 -> [a b x C b A y]
        LREM l 1 b -> (1)
        LREM l -1 x -> (1)
        LREM l 0 none -> (0)
        LRANGE l 0 -1 -> [a C b A y]
        LTRIM l 1 -2
        LRANGE l 0 -1 -> [C b A]
        TTL l -> (100)
        LPOS l b -> (1)
        LPOS l none -> (nil)
        RPUSH l b b -> (5)
        LPOS l b COUNT 0 -> [(1) (3) (4)]
        LPOS l b RANK -2 -> (3)
        LPOS l b COUNT 2 RANK -1 -> [(4) (3)]
        LPOS l b COUNT 0 MAXLEN 2 -> [(1)]
        LPOS l b COUNT -1 -> ERR COUNT can't be negative
        LTRIM l 5 9
        EXISTS l -> (0)
        LTRIM none 0 -1
        LREM none 0 a -> (0)
        ",
    );
}

/// Far from both ends a list is made anew, and keeps its expiry.
#[test]
fn the_middle_of_long_lists_changes_too() {
    let store = Store::in_memory();
    let values: Vec<String> = (0..1000).map(|at| at.to_string()).collect();
    script(&store, &format!("RPUSH l {} -> (1000)\n EXPIRE l 100 -> (1)", values.join(" ")));
    script(
        &store,
        "
        LSET l 500 middle
        LINDEX l 500 -> middle
        LREM l 0 600 -> (1)
        LINSERT l BEFORE middle x -> (1000)
        TTL l -> (100)
        LTRIM l 480 510
        LLEN l -> (31)
        LINDEX l 20 -> x
        TTL l -> (100)
        ",
    );
}

#[test]
fn sets() {
    script(
        &Store::in_memory(),
        "
        SADD a 1 2 3 1 -> (3)
        SADD b 2 3 4 -> (3)
        SREM a 1 none -> (1)
        SISMEMBER a 2 -> (1)
        SMISMEMBER a 2 9 -> [(1) (0)]
        SCARD a -> (2)
        SMEMBERS a -> <2 3>
        SINTER a b -> <2 3>
        SUNION a b -> <2 3 4>
        SDIFF b a -> <4>
        SINTER a none -> <>
        SINTERSTORE c a b -> (2)
        SUNIONSTORE c a b -> (3)
        SMEMBERS c -> <2 3 4>
        SDIFFSTORE c b a -> (1)
        SDIFFSTORE c a a -> (0)
        EXISTS c -> (0)
        SINTERCARD 2 a b -> (2)
        SINTERCARD 2 a b LIMIT 1 -> (1)
        SINTERCARD 3 a b -> ERR Number of keys can't be greater than number of args
        SINTERCARD 0 a -> ERR numkeys should be greater than 0
        SINTERCARD 1 a LIMIT -1 -> ERR LIMIT can't be negative
        SMOVE a b 2 -> (1)
        SMOVE a b none -> (0)
        SMOVE none b 2 -> (0)
        SMEMBERS a -> <3>
        SRANDMEMBER a -> 3
        SRANDMEMBER a 5 -> [3]
        SRANDMEMBER a -2 -> [3 3]
        SRANDMEMBER none -> (nil)
        SSCAN a 0 -> [0 [3]]
        SSCAN a 0 NOVALUES -> ERR NOVALUES option can only be used in HSCAN
        SPOP a -> 3
        SPOP a -> (nil)
        SPOP a 3 -> <>
        SREM b 2 3 -> (2)
        SPOP b 9 -> <4>
        SPOP b -1 -> ERR value is out of range, must be positive
        SET s v
        SINTERSTORE s s -> WRONGTYPE Operation against a key holding the wrong kind of value
        SADD e x -> (1)
        SUNIONSTORE s e -> (1)
        TYPE s -> +set
        ",
    );
}

#[test]
fn scores() {
    script(
        &Store::in_memory(),
        "
        ZADD z 1 a 2 b 3 c -> (3)
        ZADD z CH 1 a 5 c 7 d -> (2)
        ZADD z NX 9 a 9 e -> (1)
        ZADD z XX CH 2 a 9 f -> (1)
        ZADD z GT CH 1 a 3 b -> (1)
        ZADD z LT CH 9 a 2 b -> (1)
        ZADD z INCR 1 a -> (3.0)
        ZADD z NX INCR 1 a -> (nil)
        ZADD z NX XX 1 a -> ERR XX and NX options at the same time are not compatible
        ZADD z GT LT 1 a -> ERR GT, LT, and/or NX options at the same time are not compatible
        ZADD z INCR 1 a 2 b -> ERR INCR option supports a single increment-element pair
        ZADD z 1 -> ERR syntax error
        ZADD z x a -> ERR value is not a valid float
        ZREM z d e none -> (2)
        ZINCRBY z 0.5 b -> (2.5)
        ZSCORE z b -> (2.5)
        ZSCORE z none -> (nil)
        ZMSCORE z a none -> [(3.0) (nil)]
        ZCARD z -> (3)
        ZCOUNT z 2.5 (5 -> (2)
        ZCOUNT z x 5 -> ERR min or max is not a float
        ZRANK z a -> (1)
        ZREVRANK z a -> (1)
        ZREVRANK z none -> (nil)
        ZRANK z c WITHSCORE -> [(2) (5.0)]
        ZRANK z none WITHSCORE -> (no array)
        ZRANK z c WHAT -> ERR syntax error
        ZADD z inf i -> (1)
        ZINCRBY z -inf i -> ERR resulting score is not a number (NaN)
        ZPOPMIN z -> [b (2.5)]
        ZPOPMAX z 2 -> pairs[i (inf) c (5.0)]
        ZPOPMAX z 0 -> []
        ZMPOP 2 none z MIN -> [z [[a (3.0)]]]
        ZMPOP 1 z MAX COUNT 2 -> (no array)
        ZMPOP 1 z WHAT -> ERR syntax error
        ZPOPMIN z -> []
        ZADD z 1 a -> (1)
        ZRANDMEMBER z -> a
        ZRANDMEMBER z -2 WITHSCORES -> pairs[a (1.0) a (1.0)]
        ZRANDMEMBER none 2 -> []
        ZSCAN z 0 -> [0 [a 1]]
        ",
    );
}

#[test]
fn ranges() {
    script(
        &Store::in_memory(),
        "
        ZADD z 1 a 2 b 3 c 4 d -> (4)
        ZRANGE z 0 1 -> [a b]
        ZRANGE z 0 1 REV WITHSCORES -> pairs[d (4.0) c (3.0)]
        ZRANGE z (1 3 BYSCORE -> [b c]
        ZRANGE z 3 (1 BYSCORE REV -> [c b]
        ZRANGE z -inf +inf BYSCORE LIMIT 1 2 -> [b c]
        ZRANGE z 0 1 LIMIT 0 1 -> ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX
        ZRANGE z - + BYLEX WITHSCORES -> ERR syntax error, WITHSCORES not supported in combination with BYLEX
        ZRANGE z a b BYSCORE -> ERR min or max is not a float
        ZRANGE z a b BYLEX -> ERR min or max not valid string range item
        ZREVRANGE z 0 1 -> [d c]
        ZREVRANGE z 0 1 REV -> ERR syntax error
        ZRANGEBYSCORE z 2 3 WITHSCORES -> pairs[b (2.0) c (3.0)]
        ZRANGEBYSCORE z 2 3 LIMIT 1 5 -> [c]
        ZREVRANGEBYSCORE z 3 2 -> [c b]
        ZRANGESTORE t z 1 2 -> (2)
        ZRANGE t 0 -1 WITHSCORES -> pairs[b (2.0) c (3.0)]
        ZRANGESTORE t z 9 10 -> (0)
        EXISTS t -> (0)
        ZRANGESTORE t z 0 1 WITHSCORES -> ERR syntax error
        ZADD x 0 a 0 b 0 c 0 d -> (4)
        ZRANGEBYLEX x [b (d -> [b c]
        ZREVRANGEBYLEX x + [c -> [d c]
        ZRANGEBYLEX x - + LIMIT 1 2 -> [b c]
        ZLEXCOUNT x (a + -> (3)
        ZREMRANGEBYLEX x [a [b -> (2)
        ZREMRANGEBYRANK z 0 0 -> (1)
        ZREMRANGEBYSCORE z (2 3 -> (1)
        ZRANGE z 0 -1 -> [b d]
        ZREMRANGEBYRANK z 0 -1 -> (2)
        EXISTS z -> (0)
        ZREMRANGEBYRANK z x 0 -> ERR value is not an integer or out of range
        ",
    );
}

#[test]
fn combinations_of_scored_sets() {
    script(
        &Store::in_memory(),
        "
        ZADD a 1 x 2 y -> (2)
        ZADD b 10 y 20 z -> (2)
        SADD s x z -> (2)
        ZUNION 2 a b WITHSCORES -> pairs[x (1.0) y (12.0) z (20.0)]
        ZINTER 2 a b WITHSCORES -> pairs[y (12.0)]
        ZDIFF 2 a b -> [x]
        ZUNION 2 a s WITHSCORES -> pairs[z (1.0) x (2.0) y (2.0)]
        ZUNION 2 a b WEIGHTS 2 1 AGGREGATE MAX WITHSCORES -> pairs[x (2.0) y (10.0) z (20.0)]
        ZINTER 2 a b AGGREGATE MIN WITHSCORES -> pairs[y (2.0)]
        ZUNIONSTORE t 2 a b -> (3)
        ZINTERSTORE t 2 a b WEIGHTS 2 3 -> (1)
        ZSCORE t y -> (34.0)
        ZDIFFSTORE t 2 a a -> (0)
        EXISTS t -> (0)
        ZINTERCARD 2 a b LIMIT 5 -> (1)
        ZUNION 0 a -> ERR at least 1 input key is needed for 'zunion' command
        ZUNION 3 a b -> ERR syntax error
        ZUNION x a -> ERR value is not an integer or out of range
        ZUNION 2 a b WEIGHTS x 1 -> ERR weight value is not a float
        ZDIFF 2 a b AGGREGATE MAX -> ERR syntax error
        ZUNIONSTORE a 2 a b -> (3)
        ZCARD a -> (3)
        SET t v
        ZUNION 2 a t -> WRONGTYPE Operation against a key holding the wrong kind of value
        ZADD i inf m -> (1)
        ZADD j -inf m -> (1)
        ZUNION 2 i j WITHSCORES -> pairs[m (0.0)]
        ",
    );
}

/// The server of the places searches: see the gateway's tests.
#[test]
fn places_need_a_server() {
    script(
        &Store::in_memory(),
        "
        GEOSEARCHSTORE near places FROMLONLAT 1 1 BYRADIUS 1 km -> ERR GEOSEARCH is carried out by servers, and these records are in this process; use a cluster
        GEORADIUS places 1 1 1 km STORE near -> ERR GEORADIUS_RO is carried out by servers, and these records are in this process; use a cluster
        GEORADIUSBYMEMBER places me 1 km -> ERR GEORADIUSBYMEMBER_RO is carried out by servers, and these records are in this process; use a cluster
        GEORADIUS places 1 1 1 km STORE near WITHDIST -> ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options
    ",
    );
}

#[test]
fn a_wait_that_has_ended_takes_nothing() {
    let store = Store::in_memory();
    let waiting = Waiting::new();
    let given = words("queue 0");
    let mut wait = std::pin::pin!(known(&"BLPOP".into()).wait(&store, &Unbounded, &given, &waiting));
    let mut asleep = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(wait.as_mut().poll(&mut asleep).is_pending());
    assert!(!waiting.end(), "nothing is being taken");
    assert_eq!(shown(&answer(&store, "RPUSH queue x")), "(1)");
    assert_eq!(pollster::block_on(wait).expect("it ends"), None);
    assert_eq!(shown(&answer(&store, "LPOP queue")), "x");
}
