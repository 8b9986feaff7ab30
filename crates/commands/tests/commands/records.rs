//! Commands on keys, and operations of Claret's own.

use super::*;

/// What is drawn of these beside a server: see `draw.rs`.
pub(super) const DRAWN: &[(char, &str)] = &[
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

#[test]
fn keys_of_any_type() {
    script(
        &Store::in_memory(),
        "
        MSET a 1 b 2
        EXISTS a b a none -> (3)
        TOUCH a none -> (1)
        TYPE a -> +string
        TYPE none -> +none
        RPUSH l x -> (1)
        TYPE l -> +list
        SADD s x -> (1)
        TYPE s -> +set
        HSET h f v -> (1)
        TYPE h -> +hash
        ZADD z 1 x -> (1)
        TYPE z -> +zset
        BCREATE stock 5 0 10
        TYPE stock -> +hash
        TOPK.ADD best 3 1.5 ada
        TYPE best -> +zset
        RECORD.PUT ids uid-generator 3
        UID.ISSUED ids -> (3)
        TYPE ids -> +string
        DEL a none -> (1)
        UNLINK b l -> (2)
        EXISTS a b l -> (0)
        ",
    );
}

/// The year 12000, and the last millisecond that servers have.
#[test]
fn an_expiry_after_the_year_10889_is_taken_and_kept() {
    let store = Store::in_memory();
    for last in ["316516204800000", "9223372036854775807"] {
        script(
            &store,
            &format!(
                "
                SET k v PXAT {last}
                PEXPIRETIME k -> ({last})
                SET k w KEEPTTL
                PEXPIRETIME k -> ({last})
                PEXPIREAT k 9000000000000 -> (1)
                PEXPIREAT k {last} GT -> (1)
                PEXPIREAT k {last} GT -> (0)
                RENAME k there
                PEXPIRETIME there -> ({last})
                COPY there k -> (1)
                PEXPIRETIME k -> ({last})
                INCRBYFLOAT n 1.5 -> 1.5
                PEXPIREAT n {last} -> (1)
                INCRBYFLOAT n 1 -> 2.5
                PEXPIRETIME n -> ({last})
                GETEX k PXAT {last} -> w
                PEXPIRETIME k -> ({last})
                DEL k there n -> (3)
                "
            ),
        );
    }
    script(
        &store,
        "
        SET k v PXAT 9223372036854775807
        EXPIRETIME k -> (9223372036854776)
        EXPIREAT k 9223372036854775 -> (1)
        PEXPIRETIME k -> (9223372036854775000)
        EXPIREAT k 9223372036854776 -> ERR invalid expire time in 'expireat' command
        PEXPIREAT k 9223372036854775808 -> ERR value is not an integer or out of range
        PEXPIRE k 9223372036854775807 -> ERR invalid expire time in 'pexpire' command
        PEXPIRE none 9223372036854775807 -> ERR invalid expire time in 'pexpire' command
        SET k v PX 9223372036854775807 -> ERR invalid expire time in 'set' command
        SETEX k 9223372036854775 v -> ERR invalid expire time in 'setex' command
        SETEX k 9220000000000000 v
        EXPIRE k 9220000000000000 -> (1)
        ",
    );
}

#[test]
fn expiries() {
    script(
        &Store::in_memory(),
        "
        TTL k -> (-2)
        PTTL k -> (-2)
        EXPIRETIME k -> (-2)
        PEXPIRETIME k -> (-2)
        SET k v
        EXPIRETIME k -> (-1)
        EXPIRE k 100 XX -> (0)
        EXPIRE k 100 GT -> (0)
        EXPIRE k 100 NX -> (1)
        EXPIRE k 100 NX -> (0)
        TTL k -> (100)
        EXPIRE k 50 GT -> (0)
        EXPIRE k 200 GT -> (1)
        EXPIRE k 300 LT -> (0)
        EXPIRE k 150 LT -> (1)
        TTL k -> (150)
        PEXPIRE k 80000 -> (1)
        TTL k -> (80)
        PERSIST k -> (1)
        PERSIST k -> (0)
        EXPIREAT k 9000000000 -> (1)
        EXPIRETIME k -> (9000000000)
        PEXPIREAT k 9000000000500 XX -> (1)
        PEXPIRETIME k -> (9000000000500)
        PEXPIREAT k 9000000000500 GT -> (0)
        PEXPIREAT k 9000000000501 GT -> (1)
        EXPIRE k x -> ERR value is not an integer or out of range
        EXPIRE k 10 WHAT -> ERR Unsupported option WHAT
        EXPIRE k 9223372036854775807 -> ERR invalid expire time in 'expire' command
        EXPIRE none 10 -> (0)
        EXPIRE k -1 -> (1)
        EXISTS k -> (0)
        ",
    );
}

#[test]
fn moving_and_copying() {
    script(
        &Store::in_memory(),
        "
        RENAME a b -> ERR no such key
        RENAMENX a b -> ERR no such key
        RPUSH a x y -> (2)
        EXPIRE a 100 -> (1)
        SET b v
        RENAMENX a b -> (0)
        RENAME a b
        LRANGE b 0 -1 -> [x y]
        TTL b -> (100)
        RENAME b b
        RENAMENX b c -> (1)
        COPY c d -> (1)
        TTL d -> (100)
        COPY c d -> (0)
        COPY none d -> (0)
        SET d v
        COPY c d REPLACE -> (1)
        LRANGE d 0 -1 -> [x y]
        COPY c c -> ERR source and destination objects are the same
        COPY c e DB 1 -> ERR DB index is out of range
        COPY c e WHAT -> ERR syntax error
        BCREATE stock 5 0 10
        COPY stock stock2 -> (1)
        BBOUNDS stock2 -> [(0) (10)]
        ",
    );
}

#[test]
fn sorting() {
    script(
        &Store::in_memory(),
        "
        RPUSH l 10 9 2 1.5 -> (4)
        SORT l -> [1.5 2 9 10]
        SORT l DESC LIMIT 1 2 -> [9 2]
        SORT l ALPHA -> [1.5 10 2 9]
        SORT_RO l -> [1.5 2 9 10]
        SORT_RO l STORE x -> ERR syntax error
        SORT l BY nosort -> [10 9 2 1.5]
        SORT l STORE s -> (4)
        LRANGE s 0 -1 -> [1.5 2 9 10]
        SORT none STORE s -> (0)
        EXISTS s -> (0)
        SADD e b a -> (2)
        SORT e -> ERR One or more scores can't be converted into double
        SORT e ALPHA DESC -> [b a]
        SET t v
        SORT t -> WRONGTYPE Operation against a key holding the wrong kind of value
        SORT l GET # -> [1.5 2 9 10]
        ",
    );
}

#[test]
fn sorting_by_other_keys() {
    script(
        &Store::in_memory(),
        "
        RPUSH l a b c -> (3)
        MSET w_a 3 w_b 1 w_c 2
        SORT l BY w_* -> [b c a]
        SORT l BY w_* GET # GET w_* DESC LIMIT 0 2 -> [a 3 c 2]
        HSET o_a name ada -> (1)
        SORT l BY nosort GET o_*->name -> [ada (nil) (nil)]
        SORT l BY nosort GET o_* -> [(nil) (nil) (nil)]
        SORT l BY nosort GET w_*->name GET nothing LIMIT 0 1 -> [(nil) (nil)]
        SET w_b zz
        SORT l BY w_* -> ERR One or more scores can't be converted into double
        SORT l BY w_* ALPHA -> [c a b]
        SORT l BY v_* ALPHA -> [a b c]
        SORT l BY nosort GET o_*->name STORE t -> (3)
        LRANGE t 0 -1 -> [ada '' '']
        ",
    );
}

#[test]
fn operations_of_claret() {
    script(
        &Store::in_memory(),
        "
        BCREATE stock 5 0 10
        BDECRBY.RETURNING stock 1 -> (1)
        BDECRBY.RETURNING stock 9 -> (0)
        BGET stock -> (4)
        BINCRBY stock 2
        BGET stock -> (6)
        TOPK.ADD best 3 1.5 ada
        TOPK.MAX best -> [ada (1.5)]
        TOPK.COUNT best -> (1)
        JSON.SET cart $ {\"count\":2}
        JSON.GET cart $.count -> 2
        JSON.NUMINCRBY cart $.count 3
        JSON.GET cart -> {\\\"count\\\":5}
        BAG.ADD bag 4
        BAG.SUM bag -> (4.0)
        SADD.RETURNING s a b -> (2)
        RECORD.CONTENT s -> [set a b]
        PSETEXAT k 9000000000000 v
        PEXPIRETIME k -> (9000000000000)
        BDECRBY stock x -> ERR 'x' is not an integer
        ",
    );
    let told = shown(&answer(&Store::in_memory(), "BDECRBY none 1"));
    assert!(told.starts_with("ERR BDECRBY works on a record that exists"), "{told}");
}
