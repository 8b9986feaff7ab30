//! `CLARET.OUTCOME` on a real server: it tells what is written for an attempt, and ends nothing.

mod common;

use claret_core::message::{Request, Response};
use common::{Process, Server};
use redis::Value;

/// What the server says of an attempt.
fn outcome(server: &Server, attempt: &str) -> Result<String, redis::RedisError> {
    let mut plain = server.connect();
    let said: (i64, String, String) = redis::cmd("CLARET.OUTCOME").arg(attempt).query(&mut plain)?;
    Ok(said.2)
}
