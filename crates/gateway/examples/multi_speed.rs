//! Measures transactions of four keys on four shards: `multi_speed rust|gateway STORE-URL GATEWAY-PORT SECONDS CLIENTS`. `rust` commits
//! them as batches of the Rust client, `gateway` by MULTI and EXEC of a plain client. It prints a line of JSON. tools/gateway-speed runs it.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use claret::{Records, Reply, Store};
use claret_redis::{Command, slot_of};
use tokio::task::JoinSet;

type Failed = Box<dyn Error + Send + Sync>;

/// Four keys of one client, one for each quarter of the slots.
fn keys(client: usize) -> [String; 4] {
    let of = |quarter: u16| {
        let mut tries = (0..).map(|no| format!("multi:{client}:{no}"));
        tries.find(|key| slot_of(key.as_bytes()) / 4096 == quarter).expect("there is one")
    };
    [of(0), of(1), of(2), of(3)]
}

async fn by_batches(store: Arc<Store>, client: usize, until: Instant) -> Result<Vec<Duration>, Failed> {
    let keys = keys(client);
    let mut times = Vec::new();
    while Instant::now() < until {
        let since = Instant::now();
        let batch = store.batch();
        let tickets = keys.each_ref().map(|key| batch.counter(key.as_str()).add_returning(1));
        let done = batch.commit().await?;
        for ticket in tickets {
            done.get(ticket)?;
        }
        times.push(since.elapsed());
    }
    Ok(times)
}

async fn by_multi(port: u16, client: usize, until: Instant) -> Result<Vec<Duration>, Failed> {
    let mut connection =
        Store::cluster(format!("redis://127.0.0.1:{port}")).connections().dedicated(None).await?;
    let keys = keys(client);
    let delete = keys.iter().fold(Command::new("DEL"), |command, key| command.key(key.as_str()));
    connection.ask(&delete).await?;
    let mut multi = vec![Command::new("MULTI")];
    multi.extend(keys.iter().map(|key| Command::new("INCR").key(key.as_str())));
    multi.push(Command::new("EXEC"));
    let mut times = Vec::new();
    while Instant::now() < until {
        let since = Instant::now();
        let answers = connection.run(&multi).await?;
        let done = answers.into_iter().next_back().expect("one answer each")?;
        assert!(matches!(&done, Reply::Array(all) if all.len() == 4), "{done}");
        times.push(since.elapsed());
    }
    Ok(times)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failed> {
    let words: Vec<String> = std::env::args().collect();
    let [_, mode, url, port, seconds, count] = &words[..] else {
        return Err("multi_speed rust|gateway STORE-URL GATEWAY-PORT SECONDS CLIENTS".into());
    };
    let (port, seconds, count): (u16, f64, usize) = (port.parse()?, seconds.parse()?, count.parse()?);
    let store = Arc::new(Store::connect(url.as_str()).await?);
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    let mut clients = JoinSet::new();
    for client in 0..count {
        match mode.as_str() {
            "rust" => drop(clients.spawn(by_batches(Arc::clone(&store), client, until))),
            "gateway" => drop(clients.spawn(by_multi(port, client, until))),
            other => return Err(format!("'{other}' is neither rust nor gateway").into()),
        }
    }
    let mut times = Vec::new();
    while let Some(client) = clients.join_next().await {
        times.extend(client??);
    }
    times.sort_unstable();
    let p50 = times[times.len() / 2].as_secs_f64() * 1e3;
    println!("{{\"per_second\": {}, \"p50_ms\": {p50}}}", times.len() as f64 / seconds);
    Ok(())
}
