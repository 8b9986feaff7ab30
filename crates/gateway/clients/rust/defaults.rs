//! What redis-rs does by default: one transaction, one loop of `WATCH` or one pipeline, as its documentation has it.

use std::error::Error;
use std::io::stdin;

use redis::{Client, Commands, Connection, RedisResult, pipe, transaction};
use serde_json::json;

use crate::types::VERSION;

/// Says what the settings are, and when it is told to, what came of the work.
pub(crate) fn run(host: &str, port: &str, kind: &str, prefix: &str) -> Result<(), Box<dyn Error>> {
    let client = Client::open(format!("redis://{host}:{port}/"))?;
    let mut connection = client.get_connection()?;
    redis::cmd("PING").exec(&mut connection)?;
    // A blocking connection has no getter of its time-outs: what they are shows in how long it waits.
    let protocol = format!("{:?}", client.get_connection_info().redis_settings().protocol());
    println!("{}", json!({ "client": format!("redis-rs {VERSION}"), "settings": { "protocol": protocol } }));
    stdin().read_line(&mut String::new())?;
    let (x, y) = (format!("{prefix}:x"), format!("{prefix}:y"));
    let line = match once(&mut connection, kind, &x, &y) {
        Ok((first, second)) => json!({ "ok": true, "heard": format!("{first} {second}") }),
        Err(error) => {
            json!({ "ok": false, "heard": format!("{}: {error}", error.code().unwrap_or("no code")) })
        }
    };
    println!("{line}");
    Ok(())
}

fn once(connection: &mut Connection, kind: &str, x: &str, y: &str) -> RedisResult<(i64, i64)> {
    match kind {
        "multi" => pipe().atomic().incr(x, 1).incr(y, 1).query(connection),
        "pipeline" => pipe().incr(x, 1).incr(y, 1).query(connection),
        _ => transaction(connection, &[x], |connection, pipe| {
            let value: Option<i64> = connection.get(x)?;
            let value = value.unwrap_or(0) + 1;
            let done: Option<(i64,)> = pipe.set(x, value).ignore().incr(y, 1).query(connection)?;
            Ok(done.map(|(sold,)| (value, sold)))
        }),
    }
}
