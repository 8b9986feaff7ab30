//! Measures what scripts and steps take: `script_speed WHAT STORE-URL GATEWAY-PORT SECONDS CLIENTS`. Each transaction moves money from one
//! account to three others, on four shards, if there is enough; the first account is everybody's where the name ends with `-hot`, the
//! others are the client's own. `eval`: by a script through the gateway. `watch`: by WATCH, MULTI and EXEC there. `lock`: by locks
//! (`SET NX PX`) on all four accounts, at the nodes. `xadd` and `rpush` are a MULTI of three writes and one of these. It prints a line of
//! JSON. tools/gateway-speed runs it.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use claret::{Reply, Store};
use claret_redis::{Cluster, Command, Dedicated, slot_of};
use tokio::task::JoinSet;

type Failed = Box<dyn Error + Send + Sync>;

const SCRIPT: &str = "local has = tonumber(redis.call('GET', ARGV[1]) or 0) \
     if has < 3 then return redis.error_reply('ERR not enough') end \
     redis.call('DECRBY', ARGV[1], 3) \
     for i = 2, 4 do redis.call('INCRBY', ARGV[i], 1) end \
     return has - 3";

/// What the first account begins with.
const RICH: &str = "1000000000";

/// Four accounts, one for each quarter of the slots.
fn accounts(client: usize, is_hot: bool) -> [String; 4] {
    let of = |quarter: u16, owner: usize| {
        let mut tries = (0..).map(|no| format!("script:{owner}:{no}"));
        tries.find(|key| slot_of(key.as_bytes()) / 4096 == quarter).expect("there is one")
    };
    [of(0, if is_hot { 0 } else { client }), of(1, client), of(2, client), of(3, client)]
}

async fn by_script(open: &mut Dedicated, accounts: &[String; 4]) -> Result<(), Failed> {
    let script =
        accounts.iter().fold(Command::new("EVAL").arg(SCRIPT).arg("0"), |it, key| it.arg(key.as_str()));
    let done = open.ask(&script).await?;
    assert!(matches!(done, Reply::Int(_)), "{done}");
    Ok(())
}

fn moves(accounts: &[String; 4]) -> Vec<Command> {
    let add = |key: &String, amount: &str| Command::new("INCRBY").key(key.as_str()).arg(amount);
    let [from, rest @ ..] = accounts;
    std::iter::once(add(from, "-3")).chain(rest.iter().map(|key| add(key, "1"))).collect()
}

async fn by_watch(open: &mut Dedicated, accounts: &[String; 4]) -> Result<(), Failed> {
    loop {
        open.ask(&Command::new("WATCH").key(accounts[0].as_str())).await?;
        open.ask(&Command::new("GET").key(accounts[0].as_str())).await?;
        let mut all = vec![Command::new("MULTI")];
        all.extend(moves(accounts));
        all.push(Command::new("EXEC"));
        let done = open.run(&all).await?.pop().expect("an answer to each")?;
        if done != Reply::Nil {
            return Ok(());
        }
    }
}

async fn by_locks(plain: &Cluster, accounts: &[String; 4]) -> Result<(), Failed> {
    let lock = |key: &String| format!("{{{key}}}:lock");
    for key in accounts {
        let take = Command::new("SET").key(lock(key)).arg("me").arg("NX").arg("PX").arg("30000");
        while plain.ask(take.clone()).await? == Reply::Nil {
            tokio::time::sleep(Duration::from_micros(rand_us())).await;
        }
    }
    plain.ask(Command::new("GET").key(accounts[0].as_str())).await?;
    for step in moves(accounts) {
        plain.ask(step).await?;
    }
    for key in accounts {
        plain.ask(Command::new("DEL").key(lock(key))).await?;
    }
    Ok(())
}

/// A pause before the next try, in microseconds.
fn rand_us() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    200 + u64::from(now.subsec_nanos() / 100 % 800)
}

async fn by_multi(open: &mut Dedicated, accounts: &[String; 4], last: &str) -> Result<(), Failed> {
    let [log, rest @ ..] = accounts;
    let log = format!("{log}:{last}");
    let mut all = vec![Command::new("MULTI")];
    all.extend(rest.iter().map(|key| Command::new("INCR").key(key.as_str())));
    all.push(match last {
        "xadd" => Command::new("XADD").key(log).arg("MAXLEN").arg("~").arg("1000").arg("*").arg("f").arg("v"),
        _ => Command::new("RPUSH").key(log).arg("v"),
    });
    all.push(Command::new("EXEC"));
    let done = open.run(&all).await?.pop().expect("an answer to each")?;
    assert!(matches!(&done, Reply::Array(all) if all.len() == 4), "{done}");
    Ok(())
}

async fn client(
    what: String,
    plain: Arc<Cluster>,
    port: u16,
    number: usize,
    until: Instant,
) -> Result<Vec<Duration>, Failed> {
    let gateway = Store::cluster(format!("redis://127.0.0.1:{port}"));
    let mut open = gateway.connections().dedicated(None).await?;
    let (way, is_hot) = match what.strip_suffix("-hot") {
        Some(way) => (way, true),
        None => (what.as_str(), false),
    };
    let accounts = accounts(number, is_hot);
    let mut times = Vec::new();
    while Instant::now() < until {
        let since = Instant::now();
        match way {
            "eval" => by_script(&mut open, &accounts).await?,
            "watch" => by_watch(&mut open, &accounts).await?,
            "lock" => by_locks(&plain, &accounts).await?,
            "xadd" | "rpush" => by_multi(&mut open, &accounts, way).await?,
            other => return Err(format!("there is no '{other}'").into()),
        }
        times.push(since.elapsed());
    }
    Ok(times)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failed> {
    let words: Vec<String> = std::env::args().collect();
    let [_, what, url, port, seconds, count] = &words[..] else {
        return Err("script_speed WHAT STORE-URL GATEWAY-PORT SECONDS CLIENTS".into());
    };
    let (port, seconds, count): (u16, f64, usize) = (port.parse()?, seconds.parse()?, count.parse()?);
    let plain = Arc::new(Store::cluster(url.as_str()).connections().connect().await?);
    for number in 0..count {
        for (place, key) in accounts(number, false).iter().enumerate() {
            plain.ask(Command::new("DEL").key(format!("{{{key}}}:lock"))).await?;
            let amount = if place == 0 { RICH } else { "0" };
            plain.ask(Command::new("SET").key(key.as_str()).arg(amount)).await?;
        }
    }
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    let mut clients = JoinSet::new();
    for number in 0..count {
        clients.spawn(client(what.clone(), Arc::clone(&plain), port, number, until));
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
