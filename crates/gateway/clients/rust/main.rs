//! The client redis-rs at work: transfers, sales under `WATCH`, and a tour of types. `../README.md` has the contract.

mod defaults;
mod types;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use redis::{Client, Commands, Connection, RedisError, RedisResult};

/// A server that does not answer for so long is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long until something is tried again.
const PAUSE: Duration = Duration::from_millis(20);

/// Words of errors after which nothing was done and trying again is right.
const TRY_AGAIN: [&str; 4] = ["TRYAGAIN", "LOADING", "CLUSTERDOWN", "MASTERDOWN"];

/// The line that each run prints.
#[derive(Default)]
struct Report {
    committed: u64,
    attempts: u64,
    unknown_ids: Vec<String>,
    errors: Vec<String>,
}

/// What is counted, and the connection.
struct Run<'a> {
    client: Client,
    connection: Connection,
    report: &'a mut Report,
    deadline: Instant,
}

/// Whether an answer did not come, as opposed to one that is an error.
fn is_lost(error: &RedisError) -> bool {
    error.is_io_error() || error.is_unrecoverable_error()
}

fn may_try_again(error: &RedisError) -> bool {
    let text = error.to_string();
    TRY_AGAIN.iter().any(|word| error.code() == Some(word) || text.contains(word))
}

impl<'a> Run<'a> {
    fn begin(url: &str, report: &'a mut Report) -> Result<Self, String> {
        let client = Client::open(url).map_err(|error| error.to_string())?;
        let connection = until_connected(&client)?;
        Ok(Run { client, connection, report, deadline: Instant::now() + PATIENCE })
    }

    /// One piece of work until it is done or nobody knows. An attempt sets its flag when `EXEC` may have gone out.
    fn until_done(
        &mut self,
        id: &str,
        mut attempt: impl FnMut(&mut Connection, &mut u64, &mut bool) -> RedisResult<Result<(), String>>,
    ) -> Result<(), String> {
        loop {
            if Instant::now() > self.deadline {
                return Err(format!("no commit in {PATIENCE:?}"));
            }
            let mut sent = false;
            match attempt(&mut self.connection, &mut self.report.attempts, &mut sent) {
                Ok(right) => {
                    right?;
                    self.report.committed += 1;
                    self.deadline = Instant::now() + PATIENCE;
                    return Ok(());
                }
                Err(error) if is_lost(&error) => {
                    self.connection = until_connected(&self.client)?;
                    if sent {
                        self.report.unknown_ids.push(id.to_owned());
                        return Ok(());
                    }
                }
                Err(error) if error.code() == Some("UNKNOWN") => {
                    self.report.unknown_ids.push(id.to_owned());
                    return Ok(());
                }
                Err(error) if may_try_again(&error) => std::thread::sleep(PAUSE),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn transfer_all(&mut self, count: u64, worker: &str) -> Result<(), String> {
        let total = self.read_total()?;
        for number in 0..count {
            let id = format!("{worker}-{number}");
            self.transfer(&id, total, amount())?;
        }
        Ok(())
    }

    fn read_total(&mut self) -> Result<i64, String> {
        loop {
            let mut reading = redis::pipe();
            reading.atomic().get("account:ada").get("account:bob");
            match reading.query::<(i64, i64)>(&mut self.connection) {
                Ok((ada, bob)) => return Ok(ada + bob),
                Err(error) if is_lost(&error) => self.connection = until_connected(&self.client)?,
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn transfer(&mut self, id: &str, total: i64, amount: i64) -> Result<(), String> {
        self.until_done(id, |connection, attempts, sent| {
            *attempts += 1;
            *sent = true;
            let (ada, bob, is_new): (i64, i64, i64) = redis::pipe()
                .atomic()
                .decr("account:ada", amount)
                .incr("account:bob", amount)
                .hset("ledger", id, amount)
                .rpush("transfers", id)
                .ignore()
                .query(connection)?;
            Ok(match (ada + bob == total, is_new) {
                (false, _) => Err(format!("{id} saw {ada} and {bob}, which do not make {total}")),
                (true, 1) => Ok(()),
                (true, _) => Err(format!("{id} was in the ledger before")),
            })
        })
    }

    fn sell_all(&mut self, count: u64, worker: &str) -> Result<(), String> {
        for number in 0..count {
            let id = format!("{worker}-{number}");
            self.until_done(&id, |connection, attempts, sent| {
                redis::transaction(connection, &["stock:1"], |connection, pipe| {
                    *attempts += 1;
                    *sent = false;
                    let stock: i64 = connection.get("stock:1")?;
                    if stock < 1 {
                        return Ok(Some(Err("sold out".to_owned())));
                    }
                    pipe.set("stock:1", stock - 1)
                        .ignore()
                        .incr("sold:1", 1)
                        .ignore()
                        .rpush("sales", &id)
                        .ignore();
                    *sent = true;
                    let sold: Option<()> = pipe.query(connection)?;
                    Ok(sold.map(Ok))
                })
            })?;
        }
        Ok(())
    }
}

/// A connection, once the server answers on one.
fn until_connected(client: &Client) -> Result<Connection, String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let connected = connect(client).and_then(|mut connection| {
            redis::cmd("PING").exec(&mut connection)?;
            Ok(connection)
        });
        match connected {
            Ok(connection) => return Ok(connection),
            Err(error) if Instant::now() > deadline => {
                return Err(format!("the server does not come back: {error}"));
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// A connection on which nothing is waited for without end.
fn connect(client: &Client) -> RedisResult<Connection> {
    let connection = client.get_connection_with_timeout(PATIENCE)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    Ok(connection)
}

/// -10 to 10, by the hasher's own randomness.
fn amount() -> i64 {
    use std::hash::BuildHasher;
    let random = std::collections::hash_map::RandomState::new().hash_one(0u8);
    i64::try_from(random % 21).expect("at most 20") - 10
}

fn work(arguments: &[&str], report: &mut Report) -> Result<(), String> {
    let count = |text: &str| text.parse::<u64>().map_err(|_| format!("COUNT is a number, not {text:?}"));
    match arguments {
        [host, port, "types", prefix] => {
            types::tour(host, port, prefix, report);
            Ok(())
        }
        [host, port, "transfer", number, worker] => {
            let number = count(number)?;
            Run::begin(&format!("redis://{host}:{port}/"), report)?.transfer_all(number, worker)
        }
        [host, port, "watch", number, worker] => {
            let number = count(number)?;
            Run::begin(&format!("redis://{host}:{port}/"), report)?.sell_all(number, worker)
        }
        _ => Err("usage: HOST PORT (transfer | watch) COUNT WORKER, HOST PORT types PREFIX, or \
                  HOST PORT defaults (multi | watch | pipeline) PREFIX"
            .to_owned()),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let [host, port, "defaults", kind, prefix] = words[..] {
        return match defaults::run(host, port, kind, prefix) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    let mut report = Report::default();
    if let Err(error) = work(&words, &mut report) {
        report.errors.push(error);
    }
    let line = serde_json::json!({
        "client": format!("redis-rs {}", types::VERSION),
        "mode": words.get(2),
        "committed": report.committed,
        "unknown": report.unknown_ids.len(),
        "attempts": report.attempts,
        "unknown_ids": report.unknown_ids,
        "errors": report.errors,
    });
    println!("{line}");
    if report.errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
