//! Commands on strings.

use super::*;

/// What is drawn of these beside a server: see `draw.rs`.
pub(super) const DRAWN: &[(char, &str)] = &[
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
    ('s', "PFMERGE k <k>"),
    ('s', "LCS k k {LEN|IDX|IDX WITHMATCHLEN|IDX MINMATCHLEN n|LEN IDX|WHAT|}"),
];

#[test]
fn set_and_its_options() {
    script(
        &Store::in_memory(),
        "
        SET k v
        GET k -> v
        SET k w NX -> (nil)
        SET k w XX GET -> v
        SET new w XX -> (nil)
        SET new w NX GET -> (nil)
        GET new -> w
        SET k x EX 100
        TTL k -> (100)
        SET k y KEEPTTL
        TTL k -> (100)
        SET k z
        TTL k -> (-1)
        SET k a IFEQ b -> (nil)
        SET k a IFEQ z
        SET k b IFEQ a GET -> a
        SET none b IFEQ a -> (nil)
        SET k gone PXAT 1
        GET k -> (nil)
        SET k v EX 0 -> ERR invalid expire time in 'set' command
        SET k v EX x -> ERR value is not an integer or out of range
        SET k v NX XX -> ERR syntax error
        SET k v EX -> ERR syntax error
        RPUSH list a -> (1)
        SET list v GET -> WRONGTYPE Operation against a key holding the wrong kind of value
        SET list v NX -> (nil)
        SET list v XX
        GET list -> v
        RPUSH other a -> (1)
        SET other v
        GET other -> v
        ",
    );
}

#[test]
fn kin_of_set_and_get() {
    script(
        &Store::in_memory(),
        "
        SETNX k v -> (1)
        SETNX k w -> (0)
        RPUSH list a -> (1)
        SETNX list w -> (0)
        SETEX k 100 v
        TTL k -> (100)
        SETEX k 0 v -> ERR invalid expire time in 'setex' command
        SETEX list 100 v
        GET list -> v
        PSETEX k 100000 v
        TTL k -> (100)
        GETSET k w -> v
        TTL k -> (-1)
        GETEX k EX 50 -> w
        TTL k -> (50)
        GETEX k PERSIST -> w
        TTL k -> (-1)
        GETEX k -> w
        GETEX k EX 0 -> ERR invalid expire time in 'getex' command
        GETEX none EX 0 -> (nil)
        GETEX k PXAT 1 -> w
        GETEX k -> (nil)
        SET k v
        GETDEL k -> v
        GETDEL k -> (nil)
        MSET a 1 b 2 a 3
        MGET a b none list -> [3 2 (nil) v]
        RPUSH other x -> (1)
        MGET a other -> [3 (nil)]
        MSETNX a 1 c 2 -> (0)
        MSETNX c 1 d 2 -> (1)
        GET d -> 2
        MSET a -> ERR wrong number of arguments for 'mset' command
        ",
    );
}

#[test]
fn numbers() {
    script(
        &Store::in_memory(),
        "
        INCR n -> (1)
        INCRBY n 10 -> (11)
        DECR n -> (10)
        DECRBY n 3 -> (7)
        DECRBY n -9223372036854775808 -> ERR decrement would overflow
        INCRBY n 9223372036854775807 -> ERR increment or decrement would overflow
        INCRBY n x -> ERR value is not an integer or out of range
        INCRBYFLOAT n 0.5 -> 7.5
        INCR n -> ERR value is not an integer or out of range
        INCRBYFLOAT n 2.5 -> 10
        INCRBYFLOAT n inf -> ERR increment would produce NaN or Infinity
        INCRBYFLOAT n nan -> ERR value is not a valid float
        EXPIRE n 100 -> (1)
        INCRBYFLOAT n 1 -> 11
        INCR n -> (12)
        TTL n -> (100)
        SET t text
        INCRBYFLOAT t 1 -> ERR value is not a valid float
        ",
    );
}

#[test]
fn parts_of_strings() {
    script(
        &Store::in_memory(),
        "
        APPEND k hello -> (5)
        APPEND k world -> (10)
        STRLEN k -> (10)
        STRLEN none -> (0)
        GETRANGE k 0 4 -> hello
        GETRANGE k -5 -1 -> world
        SUBSTR k 3 5 -> low
        GETRANGE none 0 -1 -> ''
        EXPIRE k 100 -> (1)
        SETRANGE k 5 W -> (10)
        GET k -> helloWorld
        TTL k -> (100)
        SETRANGE none 3 '' -> (0)
        EXISTS none -> (0)
        SETRANGE none 2 ab -> (4)
        GET none -> \\x00\\x00ab
        SETRANGE k -1 x -> ERR offset is out of range
        SETRANGE k 999999999 x -> ERR string exceeds maximum allowed size (proto-max-bulk-len)
        LCS k none -> ''
        MSET a ohmytext b mynewtext
        LCS a b -> mytext
        LCS a b LEN -> (6)
        LCS a b IDX -> {matches [[[(4) (7)] [(5) (8)]] [[(2) (3)] [(0) (1)]]] len (6)}
        LCS a b IDX MINMATCHLEN 4 WITHMATCHLEN -> {matches [[[(4) (7)] [(5) (8)] (4)]] len (6)}
        LCS a b IDX LEN -> ERR If you want both the length and indexes, please just use IDX.
        RPUSH list x -> (1)
        LCS a list -> ERR The specified keys must contain string values
        ",
    );
}

#[test]
fn bits() {
    script(
        &Store::in_memory(),
        "
        SETBIT k 7 1 -> (0)
        SETBIT k 7 1 -> (1)
        GETBIT k 7 -> (1)
        GETBIT k 100 -> (0)
        GET k -> \\x01
        EXPIRE k 100 -> (1)
        SETBIT k 15 1 -> (0)
        TTL k -> (100)
        BITCOUNT k -> (2)
        BITCOUNT k 0 0 -> (1)
        BITCOUNT k 8 -1 BIT -> (1)
        BITCOUNT k 0 0 WHAT -> ERR syntax error
        BITCOUNT none -> (0)
        BITPOS k 1 -> (7)
        BITPOS k 0 -> (0)
        BITPOS k 1 1 -> (15)
        BITPOS k 1 8 -1 BIT -> (15)
        BITPOS none 1 -> (-1)
        BITPOS none 0 -> (0)
        BITPOS k 2 -> ERR The bit argument must be 1 or 0.
        MSET a abc b ab
        BITOP AND c a b -> (3)
        GET c -> ab\\x00
        BITOP OR c a b -> (3)
        GET c -> abc
        BITOP XOR c a a -> (3)
        GET c -> \\x00\\x00\\x00
        BITOP NOT c a -> (3)
        GET c -> \\x9e\\x9d\\x9c
        BITOP NOT c a b -> ERR BITOP NOT must be called with a single source key.
        BITOP AND c none -> (0)
        EXISTS c -> (0)
        SETBIT k x 1 -> ERR bit offset is not an integer or out of range
        SETBIT k 1 2 -> ERR bit is not an integer or out of range
        ",
    );
}

/// A string that is larger than what moves as a record's content.
#[test]
fn long_strings_are_written_over_what_is_there() {
    let store = Store::in_memory();
    script(&store, "RPUSH k a -> (1)");
    let long = "x".repeat(3 << 20);
    script(&store, &format!("SET k {long}"));
    script(&store, &format!("STRLEN k -> ({})", 3 << 20));
    script(&store, "SETRANGE k 0 yy -> (3145728)\n GETRANGE k 0 2 -> yyx\n EXPIRE k 50 -> (1)");
    script(&store, &format!("SET k {long} KEEPTTL\n TTL k -> (50)"));
}

/// Counts of different elements are strings; what a server counted is in the gateway's tests.
#[test]
fn counts_are_merged() {
    script(
        &Store::in_memory(),
        "
        PFCOUNT none -> (0)
        PFMERGE count none
        STRLEN count -> (18)
        PFCOUNT count none -> (0)
        EXPIRE count 100 -> (1)
        PFMERGE count count
        TTL count -> (100)
        SET text x
        PFCOUNT count text -> WRONGTYPE Key is not a valid HyperLogLog string value.
        PFMERGE text count -> WRONGTYPE Key is not a valid HyperLogLog string value.
        GETRANGE count 0 3 -> HYLL
        APPEND count x -> (19)
        PFCOUNT count -> INVALIDOBJ Corrupted HLL object detected
    ",
    );
}
