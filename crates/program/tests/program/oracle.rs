//! Scripts on a Redis server and here: the same answers, and the same errors.

use std::env;
use std::sync::{Mutex, OnceLock};

use claret_rig::{Server, ServerOptions};
use redis::Value;

use crate::generator::Generator;
use crate::host::evaluated;
use crate::scripts::{DIFFERENT, SAME};

/// Random scripts, if nobody asks for more.
const SCRIPTS: u64 = 2_000;

fn server() -> &'static Mutex<redis::Connection> {
    static SERVER: OnceLock<(Server, Mutex<redis::Connection>)> = OnceLock::new();
    let (_, connection) = SERVER.get_or_init(|| {
        let server = ServerOptions::default().start().expect("a server");
        let connection = server.connection().expect("a connection");
        (server, Mutex::new(connection))
    });
    connection
}

/// What the server answers. Keys are deleted first, and scripts forgotten.
fn asked(script: &str) -> String {
    let mut connection = server().lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let deleted: Result<(), _> = redis::cmd("FLUSHALL").query(&mut connection);
    deleted.expect("an empty server");
    let answer: Result<Value, redis::RedisError> =
        redis::cmd("EVAL").arg(script).arg(1).arg("k1").arg("a1").query(&mut connection);
    match answer {
        Ok(value) => shown(&value),
        Err(error) => format!("-{}", told(&error)),
    }
}

fn told(error: &redis::RedisError) -> String {
    let code = error.code().unwrap_or_default().to_owned();
    let detail = error.detail().unwrap_or_default();
    let message = if detail.is_empty() { code } else { format!("{code} {detail}") };
    match message.rfind(" script: ") {
        Some(end) => message.get(..end).unwrap_or_default().to_owned(),
        None => message,
    }
}

fn shown(value: &Value) -> String {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    match value {
        Value::Nil => "nil".into(),
        Value::Int(number) => number.to_string(),
        Value::BulkString(bytes) => format!("\"{}\"", text(bytes)),
        Value::Array(values) => format!("[{}]", values.iter().map(shown).collect::<Vec<_>>().join(" ")),
        Value::SimpleString(status) => format!("+{}", text(status.as_bytes())),
        Value::Okay => "+OK".into(),
        Value::ServerError(error) => {
            let message = match error.details() {
                Some(detail) if !detail.is_empty() => format!("{} {detail}", error.code()),
                _ => error.code().to_owned(),
            };
            format!("-{message}")
        }
        other => format!("{other:?}"),
    }
}

#[test]
fn scripts_answer_as_on_a_server() {
    let mut wrong = Vec::new();
    for script in SAME {
        let (here, there) = (evaluated(script), asked(script));
        // What does not compile is said in other words.
        let is_same = here == there || (here.starts_with("(compile)") && there.contains("compiling script"));
        if !is_same {
            wrong.push(format!("{script}\n  here:  {here}\n  there: {there}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), SAME.len(), wrong.join("\n"));
}

#[test]
fn differences_are_those_that_are_named() {
    for (script, expected, reason) in DIFFERENT {
        assert_eq!(&evaluated(script), expected, "{script}: {reason}");
        assert_ne!(&asked(script), expected, "no difference any more: {script}: {reason}");
    }
}

#[test]
fn random_scripts_answer_as_on_a_server() {
    let count =
        env::var("CLARET_PROGRAM_SCRIPTS").ok().and_then(|count| count.parse().ok()).unwrap_or(SCRIPTS);
    let (mut wrong, mut failed) = (Vec::new(), 0);
    for seed in 0..count {
        let script = Generator::new(seed).script();
        let (here, there) = (evaluated(&script), asked(&script));
        failed += u64::from(here.starts_with('-'));
        if here != there {
            wrong.push(format!("seed {seed}: {script}\n  here:  {here}\n  there: {there}"));
        }
    }
    println!("{count} random scripts, {failed} of them end with an error");
    let shown = wrong.get(..wrong.len().min(10)).unwrap_or_default();
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), shown.join("\n"));
}
