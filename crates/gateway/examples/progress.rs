//! Measures whether loops of WATCH and the writers beside them get on: `progress PORT KEYS LOOPS WRITERS multi|plain THINK-MS
//! NETWORK-MS SECONDS`.
//!
//! Each loop watches KEYS accounts, reads them, thinks, and moves money between two of them by MULTI, SET and EXEC, again until EXEC does
//! not answer nil. Each writer moves money between two accounts at random: by a MULTI, or by plain commands one by one. One client
//! more uses other keys, at a steady pace. All are plain sockets, so that the load costs little; each waits for NETWORK-MS before it
//! sends, as if its server were not on the same machine: else it measures how fast a client is that nobody has. It prints a line of
//! JSON; tools/gateway-speed runs it, before a gateway and before one Redis.

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

/// What each account has in the beginning.
const START: i64 = 1_000_000_000;
/// What a loop moves, and what a writer moves.
const BY_LOOPS: i64 = 2;
const BY_WRITERS: i64 = 3;
/// The pace of the client of other keys, and how many it has, on all shards.
const PACE: Duration = Duration::from_millis(5);
const OTHER_KEYS: u64 = 16;
/// Who hears nothing for so long has lost its connection.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug)]
enum Reply {
    Text(Vec<u8>),
    Nil,
    All(Vec<Reply>),
    Error(String),
}

impl Reply {
    fn number(&self) -> i64 {
        match self {
            Reply::Text(digits) => String::from_utf8_lossy(digits).parse().expect("an account is a number"),
            other => panic!("an account is no {other:?}"),
        }
    }
}

/// A connection that sends what was written together, and knows the replies that come here.
struct Connection {
    stream: BufReader<TcpStream>,
    written: Vec<u8>,
    /// What a request and its reply take on the way.
    network: Duration,
}

impl Connection {
    async fn to(port: u16, network: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream: BufReader::new(stream), written: Vec::new(), network })
    }

    fn write(&mut self, words: &[&str]) {
        self.written.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            self.written.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
        }
    }

    /// Sends what was written; so many replies.
    async fn send(&mut self, replies: usize) -> io::Result<Vec<Reply>> {
        if !self.network.is_zero() {
            sleep(self.network).await;
        }
        self.stream.write_all(&self.written).await?;
        self.written.clear();
        let read = async {
            let mut all = Vec::with_capacity(replies);
            for _ in 0..replies {
                all.push(self.reply().await?);
            }
            Ok(all)
        };
        timeout(PATIENCE, read).await?
    }

    async fn ask(&mut self, words: &[&str]) -> io::Result<Reply> {
        self.write(words);
        Ok(self.send(1).await?.remove(0))
    }

    async fn reply(&mut self) -> io::Result<Reply> {
        let line = self.line().await?;
        if !line.starts_with('*') {
            return self.single(&line).await;
        }
        let Ok(count) = line[1..].parse::<usize>() else { return Ok(Reply::Nil) };
        let mut all = Vec::with_capacity(count);
        for _ in 0..count {
            let line = self.line().await?;
            all.push(self.single(&line).await?);
        }
        Ok(Reply::All(all))
    }

    /// A reply that is no array, after its first line.
    async fn single(&mut self, line: &str) -> io::Result<Reply> {
        match line.split_at(1) {
            ("+" | ":", text) => Ok(Reply::Text(text.as_bytes().to_vec())),
            ("-", text) => Ok(Reply::Error(text.to_owned())),
            ("$", length) => {
                let Ok(length) = length.parse::<usize>() else { return Ok(Reply::Nil) };
                let mut bytes = vec![0; length + 2];
                self.stream.read_exact(&mut bytes).await?;
                bytes.truncate(length);
                Ok(Reply::Text(bytes))
            }
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, format!("no reply: {line}"))),
        }
    }

    async fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        line.truncate(line.trim_end().len());
        match line.is_empty() {
            true => Err(io::Error::new(io::ErrorKind::InvalidData, "an empty line")),
            false => Ok(line),
        }
    }
}

/// What clients of one kind did.
struct Tally {
    times: Vec<Duration>,
    attempts: u64,
    /// The longest time without a commit, from the start to the end.
    longest: Duration,
    last: Instant,
    /// Codes of errors, and how many.
    errors: BTreeMap<String, u64>,
    /// What was committed, to each account.
    moved: Vec<i64>,
}

impl Tally {
    fn new(accounts: usize) -> Self {
        Tally {
            times: Vec::new(),
            attempts: 0,
            longest: Duration::ZERO,
            last: Instant::now(),
            errors: BTreeMap::new(),
            moved: vec![0; accounts],
        }
    }

    fn committed(&mut self, since: Instant, moves: &[(usize, i64)]) {
        let now = Instant::now();
        self.times.push(now - since);
        self.longest = self.longest.max(now - self.last);
        self.last = now;
        for (account, by) in moves {
            self.moved[*account] += by;
        }
    }

    fn failed(&mut self, error: &str) {
        let code = error.split(' ').next().unwrap_or_default();
        *self.errors.entry(code.to_owned()).or_default() += 1;
    }

    /// When its client has ended, in the way of `with`.
    fn end(&mut self, with: io::Result<()>) {
        if let Err(error) = with {
            *self.errors.entry(format!("lost: {error}")).or_default() += 1;
        }
        self.longest = self.longest.max(self.last.elapsed());
    }

    fn add(&mut self, other: Tally) {
        self.times.extend(other.times);
        self.attempts += other.attempts;
        self.longest = self.longest.max(other.longest);
        for (code, count) in other.errors {
            *self.errors.entry(code).or_default() += count;
        }
        for (own, moved) in self.moved.iter_mut().zip(other.moved) {
            *own += moved;
        }
    }

    fn json(&mut self, seconds: f64) -> serde_json::Value {
        self.times.sort_unstable();
        let p99 = self.times.get(self.times.len() * 99 / 100).map(|time| time.as_secs_f64() * 1e3);
        let commits = self.times.len() as f64;
        json!({
            "per_second": commits / seconds,
            "attempts_per_commit": (commits > 0.0).then(|| self.attempts as f64 / commits),
            "p99_ms": p99,
            "longest_ms": self.longest.as_secs_f64() * 1e3,
            "errors": self.errors,
        })
    }
}

/// What is measured.
#[derive(Clone, Copy)]
struct Row {
    port: u16,
    keys: usize,
    think: Duration,
    network: Duration,
    by_multi: bool,
    until: Instant,
}

impl Row {
    /// A writer of two accounts meets a loop of one.
    fn accounts(&self) -> usize {
        self.keys.max(2)
    }

    /// Two of so many, at random and different.
    fn two(of: usize) -> (usize, usize) {
        let first = rand::random_range(0..of);
        (first, (first + rand::random_range(1..of)) % of)
    }

    async fn watch_loop(self, tally: &mut Tally) -> io::Result<()> {
        let mut connection = Connection::to(self.port, self.network).await?;
        let names: Vec<String> = (0..self.keys).map(account).collect();
        let words =
            |first| -> Vec<&str> { [first].into_iter().chain(names.iter().map(String::as_str)).collect() };
        let (watch, mget) = (words("WATCH"), words("MGET"));
        let mut since = Instant::now();
        while Instant::now() < self.until {
            tally.attempts += 1;
            if let Reply::Error(error) = connection.ask(&watch).await? {
                tally.failed(&error);
                continue;
            }
            let balances = match connection.ask(&mget).await? {
                Reply::All(balances) => balances,
                other => {
                    tally.failed(&text_of(&other));
                    connection.ask(&["UNWATCH"]).await?;
                    continue;
                }
            };
            if !self.think.is_zero() {
                sleep(self.think).await;
            }
            let moves = match self.keys {
                1 => vec![(0, -BY_LOOPS)],
                keys => {
                    let (from, to) = Row::two(keys);
                    vec![(from, -BY_LOOPS), (to, BY_LOOPS)]
                }
            };
            connection.write(&["MULTI"]);
            for (account, by) in &moves {
                connection.write(&["SET", &names[*account], &(balances[*account].number() + by).to_string()]);
            }
            connection.write(&["EXEC"]);
            match connection.send(moves.len() + 2).await?.pop() {
                Some(Reply::All(_)) => {
                    tally.committed(since, &moves);
                    since = Instant::now();
                }
                Some(Reply::Nil) => {}
                other => tally.failed(&other.map_or_else(String::new, |reply| text_of(&reply))),
            }
        }
        Ok(())
    }

    async fn writer(self, tally: &mut Tally) -> io::Result<()> {
        let mut connection = Connection::to(self.port, self.network).await?;
        while Instant::now() < self.until {
            let (from, to) = Row::two(self.accounts());
            let since = Instant::now();
            if self.by_multi {
                connection.write(&["MULTI"]);
                connection.write(&["INCRBY", &account(from), &(-BY_WRITERS).to_string()]);
                connection.write(&["INCRBY", &account(to), &BY_WRITERS.to_string()]);
                connection.write(&["EXEC"]);
                tally.attempts += 1;
                match connection.send(4).await?.pop() {
                    Some(Reply::All(_)) => tally.committed(since, &[(from, -BY_WRITERS), (to, BY_WRITERS)]),
                    other => tally.failed(&other.map_or_else(String::new, |reply| text_of(&reply))),
                }
                continue;
            }
            for (no, by) in [(from, -BY_WRITERS), (to, BY_WRITERS)] {
                let since = Instant::now();
                tally.attempts += 1;
                match connection.ask(&["INCRBY", &account(no), &by.to_string()]).await? {
                    Reply::Text(_) => tally.committed(since, &[(no, by)]),
                    other => tally.failed(&text_of(&other)),
                }
            }
        }
        Ok(())
    }

    async fn of_other_keys(self, tally: &mut Tally) -> io::Result<()> {
        let mut connection = Connection::to(self.port, self.network).await?;
        let mut pace = interval(PACE);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while Instant::now() < self.until {
            pace.tick().await;
            let key = format!("other:{}", tally.attempts % OTHER_KEYS);
            tally.attempts += 1;
            let since = Instant::now();
            match connection.ask(&["INCR", &key]).await? {
                Reply::Text(_) => tally.committed(since, &[]),
                other => tally.failed(&text_of(&other)),
            }
        }
        Ok(())
    }
}

/// The key of an account.
fn account(number: usize) -> String {
    format!("account:{number}")
}

fn text_of(reply: &Reply) -> String {
    match reply {
        Reply::Error(error) => error.clone(),
        other => format!("{other:?}"),
    }
}

/// What the clients of each kind are called.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Loop,
    Writer,
    Other,
}

async fn measure(row: Row, loops: usize, writers: usize) -> Result<BTreeMap<Kind, Tally>, Box<dyn Error>> {
    let kinds = [(Kind::Loop, loops), (Kind::Writer, writers), (Kind::Other, 1)];
    let mut clients = JoinSet::new();
    for (kind, count) in kinds {
        for _ in 0..count {
            clients.spawn(async move {
                let mut tally = Tally::new(row.accounts());
                let ended = match kind {
                    Kind::Loop => row.watch_loop(&mut tally).await,
                    Kind::Writer => row.writer(&mut tally).await,
                    Kind::Other => row.of_other_keys(&mut tally).await,
                };
                tally.end(ended);
                (kind, tally)
            });
        }
    }
    let mut tallies: BTreeMap<Kind, Tally> =
        kinds.into_iter().map(|(kind, _)| (kind, Tally::new(row.accounts()))).collect();
    while let Some(client) = clients.join_next().await {
        let (kind, tally) = client?;
        tallies.entry(kind).and_modify(|all| all.add(tally));
    }
    Ok(tallies)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().collect();
    let [_, port, keys, loops, writers, how, think_ms, network_ms, seconds] = &words[..] else {
        return Err("progress PORT KEYS LOOPS WRITERS multi|plain THINK-MS NETWORK-MS SECONDS".into());
    };
    let by_multi = match how.as_str() {
        "multi" => true,
        "plain" => false,
        other => return Err(format!("'{other}' is neither multi nor plain").into()),
    };
    let (port, keys, seconds): (u16, usize, f64) = (port.parse()?, keys.parse()?, seconds.parse()?);
    if keys == 0 {
        return Err("a loop watches at least one key".into());
    }
    let think = Duration::from_millis(think_ms.parse()?);
    let network = Duration::from_millis(network_ms.parse()?);
    let mut bank = Connection::to(port, Duration::ZERO).await?;
    let names: Vec<String> = (0..keys.max(2)).map(account).collect();
    for name in &names {
        bank.ask(&["SET", name, &START.to_string()]).await?;
    }
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    let row = Row { port, keys, think, network, by_multi, until };
    let mut tallies = measure(row, loops.parse()?, writers.parse()?).await?;
    let mut lost_updates = Vec::new();
    for (no, name) in names.iter().enumerate() {
        let has = bank.ask(&["GET", name]).await?.number();
        let expected = START + tallies.values().map(|tally| tally.moved[no]).sum::<i64>();
        if has != expected {
            lost_updates.push(format!("{name} has {has} and not {expected}"));
        }
    }
    let mut of = |kind: Kind| tallies.get_mut(&kind).expect("each kind").json(seconds);
    let line = json!({
        "loops": of(Kind::Loop),
        "writers": of(Kind::Writer),
        "other": of(Kind::Other),
        "not_conserved": lost_updates,
    });
    println!("{line}");
    Ok(())
}
