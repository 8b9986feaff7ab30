//! Encodings: the server stores what Claret writes as it stores what plain commands write.

use crate::common::beside::run;
use crate::common::{Server, wait_until};
use redis::{Connection, Value};

/// One operation, `CLARET.EXEC` without the key and the number of words; and the plain command that does the same.
struct Pair {
    exec: Vec<String>,
    plain: Vec<String>,
}

fn pair(exec: &str, plain: &str) -> Pair {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect();
    Pair { exec: words(exec), plain: words(plain) }
}

fn same(line: &str) -> Pair {
    pair(line, line)
}

/// What is done to one key, one after the other.
fn cases() -> Vec<Vec<Pair>> {
    let long = |length: usize| "x".repeat(length);
    let numbers = ["0", "1", "9999", "12345", "-7", "9223372036854775807", "-9223372036854775808"];
    let texts = ["007", "+1", "1.5", "9223372036854775808", "short", "12345678901234567890123", ""];
    let mut values: Vec<String> = numbers.into_iter().chain(texts).map(str::to_owned).collect();
    values.extend([20, 21, 43, 44, 45, 64, 65, 100, 2_000].map(long));
    let mut cases = Vec::new();
    for value in &values {
        for method in ["SET", "GETSET", "SETNX", "SETNX.RETURNING", "APPEND", "LPUSH", "RPUSH", "SADD"] {
            let plain = method.trim_end_matches(".RETURNING");
            cases.push(vec![pair(&format!("{method} {value}"), &format!("{plain} {value}"))]);
        }
        cases.push(vec![same(&format!("SET {value}")), same(&format!("SET {value}"))]);
        cases.push(vec![same("SET some"), same(&format!("APPEND {value}"))]);
        cases.push(vec![same("SET 5"), same(&format!("SET {value}"))]);
        cases.push(vec![same(&format!("HSET f {value}"))]);
        cases.push(vec![same(&format!("HSET {value} f"))]);
        cases.push(vec![same(&format!("ZADD 1.5 {value}"))]);
        cases.push(vec![same(&format!("SADD 1 {value}"))]);
        cases.push(vec![same(&format!("RPUSH a {value}")), same("LPOP")]);
    }
    for line in ["INCR", "DECR", "INCRBY 5", "DECRBY 5", "INCRBY.RETURNING 7", "INCRBY 10000000000"] {
        let plain = line.replace(".RETURNING", "");
        cases.push(vec![pair(line, &plain)]);
        cases.push(vec![same("SET 10"), pair(line, &plain)]);
        cases.push(vec![same("SET 10"), pair(line, &plain), pair(line, &plain)]);
    }
    for amount in ["1.5", "2", "1e10", "0.1"] {
        let add = format!("INCRBYFLOAT {amount}");
        cases.push(vec![same(&add)]);
        cases.push(vec![same(&add), same(&add)]);
        cases.push(vec![same("SET 10"), same(&add)]);
    }
    cases.push(vec![same("HINCRBY f 1"), same("HINCRBY f 1")]);
    cases.push(vec![same("HSET f a g b"), same("HDEL f")]);
    cases.push(vec![same("SADD 1 2 3 a"), same("SREM a")]);
    cases.push(vec![same("ZADD 1 a 2 b"), same("ZREM a"), same("ZINCRBY 2 b")]);
    cases.push(vec![pair("BCREATE 5 0 10", "HSET value 5 min 0 max 10")]);
    cases.push(vec![pair("UID.NEXT", "INCR")]);
    // More than fits the compact encodings.
    let many =
        |count: usize, item: &dyn Fn(usize) -> String| (0..count).map(item).collect::<Vec<_>>().join(" ");
    for count in [100, 128, 129, 512, 513, 600] {
        cases.push(vec![same(&format!("SADD {}", many(count, &|at| at.to_string())))]);
        cases.push(vec![same(&format!("SADD {}", many(count, &|at| format!("m{at}"))))]);
        cases.push(vec![same(&format!("HSET {}", many(count, &|at| format!("f{at} {at}"))))]);
        cases.push(vec![same(&format!("ZADD {}", many(count, &|at| format!("{at} m{at}"))))]);
        cases.push(vec![same(&format!("RPUSH {}", many(count, &|at| format!("{at}{}", long(60)))))]);
    }
    cases
}

fn done(connection: &mut Connection, key: &str, words: &[String], before: &[String]) {
    let mut command = redis::cmd(before.first().map_or(&words[0], |first| first));
    command.arg(&before[before.len().min(1)..]);
    if !before.is_empty() {
        command.arg(&words[0]);
    }
    let answer = command.arg(key).arg(&words[1..]).query::<Value>(connection);
    assert!(answer.is_ok(), "{words:?}: {answer:?}");
}

/// Bug: the module kept a hand on the values that it wrote, and the server makes nothing compact of what another holds.
/// Consequence: numbers were kept as text, longer than they are after the plain command.
#[test]
fn what_is_written_is_kept_as_after_the_plain_command() {
    let server = Server::start(&[]);
    let mut plain = server.connect();
    wait_until("the shard begins", || run(&mut plain, "CLARET.EXEC 2 INCR begun").is_ok());
    for (at, case) in cases().iter().enumerate() {
        let keys = [format!("c:{at}"), format!("p:{at}")];
        for step in case {
            let words = (step.exec.len() + 1).to_string();
            done(&mut plain, &keys[0], &step.exec, &["CLARET.EXEC".to_owned(), words]);
            done(&mut plain, &keys[1], &step.plain, &[]);
        }
        let shown: Vec<String> = case.iter().map(|step| step.plain.join(" ")).collect();
        let shown: String = shown.join(", ").chars().take(80).collect();
        let [own, other] = keys.each_ref().map(|key| {
            let of = |line: &str| run(&mut server.connect(), &format!("{line} {key}"));
            let value = of("DUMP").expect("a dump");
            (of("OBJECT ENCODING"), value)
        });
        assert_eq!(own.0, other.0, "{shown}");
        assert_eq!(own.1, other.1, "{shown}: another value");
    }
}
