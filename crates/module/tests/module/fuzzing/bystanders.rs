//! What must hold while somebody sends anything: the server answers, its tables are bounded, what belongs to others stays as it is,
//! and the transactions of others commit.

use std::thread::sleep;
use std::time::{Duration, Instant};

use claret_core::message::{Asks, KeyedCall, Listed, Members, Refusal, Request, Response};
use claret_core::{AttemptId, Sequence};
use claret_rig::{Server, field, query};
use redis::Connection;

use super::keys::{Keys, SENTINELS};
use crate::common::{Process, birth, call, operation};

/// How long a PING may take on a machine with much else to do.
const PING_TIME: Duration = Duration::from_secs(5);

/// Until so long after the user has left, all that it held must be free.
const SETTLE_TIME: Duration = Duration::from_secs(20);

/// What all records and the module may take together.
const MEMORY_MAX: u64 = 512 << 20;

/// What the module may hold.
const MODULE_MEMORY_MAX: u64 = 96 << 20;

/// The same when the user has left: tables keep their room.
const MODULE_MEMORY_LEFT: u64 = 24 << 20;

const ACCOUNTS: u64 = 8;
const MONEY: i64 = 1_000;

/// Tables that are as before when the user has left.
const TABLES: [&str; 12] = [
    "open_attempts",
    "in_doubt",
    "held_keys",
    "outbox",
    "outbox_bytes",
    "execs_open",
    "plain_open",
    "multis_open",
    "sessions",
    "sessions_remembered",
    "remembered",
    "kept_bytes",
];

/// The node's own sessions come with the first command that waits.
const OWN_SESSIONS: u64 = 2;

/// Those of which more than before is too much, and fewer is not.
const MAY_FALL: [&str; 3] = ["sessions_remembered", "remembered", "kept_bytes"];

/// See the module's text.
pub(crate) struct Bystanders {
    admins: Vec<Connection>,
    banks: Vec<Process>,
    /// Of each node its accounts' keys begin so.
    accounts: Vec<String>,
    sentinels: Vec<(String, Vec<u8>)>,
    tables: Vec<Vec<u64>>,
    pub(crate) transfers: u64,
    pub(crate) refused: u64,
}

fn asked<T: redis::FromRedisValue>(connection: &mut Connection, words: &[&str]) -> Result<T, String> {
    query(connection, words).map_err(|error| error.to_string())
}

/// The same of a key: what somebody has ordered on it may have to be settled first.
fn read<T: redis::FromRedisValue>(connection: &mut Connection, words: &[&str]) -> Result<T, String> {
    let until = Instant::now() + PING_TIME;
    loop {
        match asked(connection, words) {
            Err(error) if error.contains("TryAgain") && Instant::now() < until => {}
            answer => return answer,
        }
    }
}

impl Bystanders {
    /// Sets up what others have at these nodes; the first one is that of the user.
    pub(crate) fn at(servers: &[&Server], keys: &Keys, far: Option<String>) -> Result<Bystanders, String> {
        let mut admins = Vec::new();
        let mut banks = Vec::new();
        for server in servers {
            admins.push(server.connection().map_err(|error| error.to_string())?);
            let connection = server.connection().map_err(|error| error.to_string())?;
            banks.push(Process::over(connection, 7, 1, &["POLL"]));
        }
        let accounts: Vec<String> = [Some(keys.named("bank:")), far].into_iter().flatten().collect();
        for (admin, accounts) in admins.iter_mut().zip(&accounts) {
            for number in 0..ACCOUNTS {
                asked::<()>(admin, &["SET", &format!("{accounts}{number}"), &MONEY.to_string()])?;
            }
        }
        let mut sentinels = Vec::new();
        for (name, made) in SENTINELS {
            let name = keys.named(name);
            let line = made.replace("KEY", &name);
            asked::<redis::Value>(&mut admins[0], &line.split(' ').collect::<Vec<_>>())?;
            let dump: Vec<u8> = asked(&mut admins[0], &["DUMP", &name])?;
            sentinels.push((name, dump));
        }
        let (transfers, refused) = (0, 0);
        let mut all =
            Bystanders { admins, banks, accounts, sentinels, tables: Vec::new(), transfers, refused };
        all.low_water();
        for node in 0..all.admins.len() {
            let (info, _) = all.info(node)?;
            all.tables.push(TABLES.iter().map(|name| number(&info, name)).collect());
        }
        Ok(all)
    }

    pub(crate) fn admin(&mut self) -> &mut Connection {
        &mut self.admins[0]
    }

    fn info(&mut self, node: usize) -> Result<(String, u64), String> {
        let info: String = asked(&mut self.admins[node], &["INFO", "claret"])?;
        let memory: String = asked(&mut self.admins[node], &["INFO", "memory"])?;
        let used = field(&memory, "used_memory").and_then(|used| used.parse().ok());
        Ok((info, used.ok_or("no used_memory")?))
    }

    /// Checks what holds at any moment.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        for node in 0..self.admins.len() {
            let began = Instant::now();
            asked::<String>(&mut self.admins[node], &["PING"])?;
            if began.elapsed() > PING_TIME {
                return Err(format!("a PING took {:?}", began.elapsed()));
            }
            let (info, used) = self.info(node)?;
            let held = number(&info, "memory_bytes");
            for (what, is, bound) in [
                ("panics", number(&info, "panics"), 0),
                ("incarnations", number(&info, "incarnations"), 1),
                ("used_memory", used, MEMORY_MAX),
                ("claret_memory_bytes", held, MODULE_MEMORY_MAX),
            ] {
                if is > bound {
                    return Err(format!("{what} is {is}, more than {bound}"));
                }
            }
        }
        for (name, dump) in &self.sentinels {
            let now: Option<Vec<u8>> = read(&mut self.admins[0], &["DUMP", name])?;
            if now.as_ref() != Some(dump) {
                let (now, dump) = (now.unwrap_or_default(), dump.escape_ascii());
                let now = now.escape_ascii();
                return Err(format!("{name} changed from {dump} to {now}, and the user may not write it"));
            }
        }
        for number in 0..3 {
            self.transfer(number)?;
        }
        self.low_water();
        self.sum()
    }

    /// No key was made that the user may not make.
    pub(crate) fn check_keys(&mut self) -> Result<(), String> {
        let known: Vec<Vec<u8>> = asked(&mut self.admins[0], &["KEYS", "*"])?;
        let is_known = |key: &[u8]| {
            let mut sentinels = self.sentinels.iter();
            Keys::may_be_the_users(key)
                || self.accounts.iter().any(|accounts| key.starts_with(accounts.as_bytes()))
                || sentinels.any(|(name, _)| name.as_bytes() == key)
        };
        match known.iter().find(|key| !is_known(key)) {
            Some(key) => Err(format!("{} is there, and the user may not write it", key.escape_ascii())),
            None => Ok(()),
        }
    }

    fn sum(&mut self) -> Result<(), String> {
        let mut sum = 0;
        for (admin, accounts) in self.admins.iter_mut().zip(&self.accounts) {
            for number in 0..ACCOUNTS {
                sum += read::<i64>(admin, &["GET", &format!("{accounts}{number}")])?;
            }
        }
        let right = MONEY * (ACCOUNTS as usize * self.accounts.len()) as i64;
        if sum == right { Ok(()) } else { Err(format!("the bank has {sum} instead of {right}")) }
    }

    /// Moves money between two accounts, of two nodes if there are two.
    fn transfer(&mut self, number: u64) -> Result<(), String> {
        let attempt = self.banks[0].begin();
        let listed: Vec<_> = self
            .banks
            .iter()
            .map(|it| Listed { shard: it.shard, incarnation: Some(it.incarnation) })
            .collect();
        let last = self.accounts.len() - 1;
        let (from, to) =
            (format!("{}{number}", self.accounts[0]), format!("{}{}", self.accounts[last], number + 3));
        let mut parts = vec![Vec::new(); self.banks.len()];
        parts[0].push((from, format!("INCRBY -{}", number + 1)));
        parts[last].push((to, format!("INCRBY {}", number + 1)));
        let mut has_committed = true;
        for (bank, calls) in self.banks.iter_mut().zip(&parts) {
            let answers = bank
                .try_frame(&[prepare(attempt, calls, &listed)])
                .map_err(|error| format!("a transfer: {error}"))?;
            match &answers[..] {
                [Response::Committed { .. } | Response::Voted { .. }] => {}
                // The machine is slow, and its lease is over; or calls are ordered, which this client does not ask for.
                [
                    ..,
                    Response::Refused {
                        refusal: Refusal::LeaseExpired | Refusal::Recovered | Refusal::Unstamped,
                        ..
                    },
                ] => has_committed = false,
                other => return Err(format!("a transfer is answered with {other:?}")),
            }
        }
        if self.banks.len() > 1 {
            let end = if has_committed {
                Request::Apply { attempt }
            } else {
                Request::Abort { attempt, refused_by: None }
            };
            for bank in &mut self.banks {
                bank.try_frame(std::slice::from_ref(&end))
                    .map_err(|error| format!("the end of a transfer: {error}"))?;
            }
        }
        *if has_committed { &mut self.transfers } else { &mut self.refused } += 1;
        Ok(())
    }

    /// What is over need not be remembered.
    fn low_water(&mut self) {
        let low_water = Sequence(self.banks[0].next);
        for bank in &mut self.banks {
            let _ = bank.try_frame(&[Request::Heartbeat { live: Vec::new(), low_water }]);
        }
    }

    /// The user has left: waits until nothing of it is left but its records, and removes these.
    pub(crate) fn settle(&mut self) -> Result<(), String> {
        let until = Instant::now() + SETTLE_TIME;
        for node in 0..self.admins.len() {
            loop {
                let (info, _) = self.info(node)?;
                let is_more = |(at, name): (usize, &&str)| {
                    let (now, mut before) = (number(&info, name), self.tables[node][at]);
                    before += if *name == "sessions_remembered" { OWN_SESSIONS } else { 0 };
                    let is_so = now > before || now < before && !MAY_FALL.contains(name);
                    is_so.then(|| format!("{name} is {now}, and was {before}"))
                };
                let differs: Vec<String> = TABLES.iter().enumerate().filter_map(is_more).collect();
                let held = number(&info, "memory_bytes");
                if differs.is_empty() && held <= MODULE_MEMORY_LEFT {
                    break;
                }
                if Instant::now() > until {
                    let locks: redis::Value = asked(&mut self.admins[node], &["CLARET.LOCKS"])?;
                    return Err(format!(
                        "the user has left, and {}; {held} bytes are held; locks: {locks:?}",
                        differs.join(", ")
                    ));
                }
                sleep(Duration::from_millis(5));
            }
        }
        self.check_keys()?;
        self.clear()
    }

    fn clear(&mut self) -> Result<(), String> {
        let databases = if self.admins.len() > 1 { 1 } else { 16 };
        for database in (0..databases).rev() {
            if self.admins.len() == 1 {
                asked::<()>(&mut self.admins[0], &["SELECT", &database.to_string()])?;
            }
            let known: Vec<Vec<u8>> = asked(&mut self.admins[0], &["KEYS", "*"])?;
            for key in known.iter().filter(|key| Keys::may_be_the_users(key)) {
                let gone: redis::RedisResult<u64> = redis::cmd("DEL").arg(key).query(&mut self.admins[0]);
                gone.map_err(|error| error.to_string())?;
            }
        }
        asked(&mut self.admins[0], &["ACL", "LOG", "RESET"])
    }
}

fn prepare(attempt: AttemptId, calls: &[(String, String)], listed: &[Listed]) -> Request {
    let calls = (1..).zip(calls);
    Request::Prepare {
        attempt,
        birth: birth(attempt),
        participants: listed.iter().copied().collect(),
        relies_on: 0,
        calls: calls
            .map(|(no, (key, words))| KeyedCall {
                key: key.as_str().into(),
                call: call(no, operation(words)),
            })
            .collect(),
        members: Members::All,
        asks: if listed.len() == 1 { Asks::Decision } else { Asks::Vote },
        undone: Default::default(),
    }
}

/// A number of `INFO claret`.
pub(crate) fn number(info: &str, name: &str) -> u64 {
    let shown = field(info, &format!("claret_{name}"));
    shown.and_then(|shown| shown.parse().ok()).unwrap_or_else(|| panic!("no claret_{name} in {info}"))
}
