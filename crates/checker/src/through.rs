//! Clients of gateways: each speaks plain Redis on a connection of its own, to one of the gateways. Transactions by `MULTI`, by
//! `WATCH` and `MULTI`, by scripts, single commands, and the bank, over any shards.

use std::time::Duration;

use claret::{Reply, Store};
use claret_redis::{Command, Dedicated, ServerError};
use rand::RngExt;

use crate::bank::{Bank, sum, two_of};
use crate::gateways::{Gateways, count};
use crate::history::{History, Outcome, Step, Why};
use crate::intent::{Action, Intent, Kind};
use crate::plain::command;
use crate::plan::Progress;
use crate::traffic::{Client, meant, pause};

/// Operations of a transaction, at most.
const OPERATIONS_MAX: usize = 4;

/// How often a loop of WATCH runs, at most, while EXEC answers nil.
const LOOPS_MAX: u32 = 20;

/// How long a client waits for the answer of an EXEC that it is going to leave.
const LEFT_AFTER: Duration = Duration::from_micros(300);

/// Carries out the commands among its arguments, each behind the number of its words.
const SCRIPT: &str = "local all, at = {}, 1 \
     while at <= #ARGV do \
       local count = tonumber(ARGV[at]) \
       all[#all + 1] = redis.call(unpack(ARGV, at + 1, at + count)) \
       at = at + count + 1 \
     end \
     return all";

/// How a transaction ended, and what it showed.
type Ended = Result<(Outcome, Vec<Step>), String>;

/// How one attempt ended.
enum Attempt {
    /// EXEC answered with this.
    Done(Vec<Reply>),
    /// What was watched has changed.
    Nil,
    /// It was not done, or nobody knows.
    Not(Outcome),
}

/// One client's connection.
struct Speaker<'a> {
    gateways: &'a Gateways,
    url: String,
    open: Option<Dedicated>,
    /// It goes away where others end a transaction, this time.
    leaves: bool,
}

/// Works until the time is over, at the gateway of this number.
pub(super) async fn work(
    mut client: Client,
    (gateways, number): (&Gateways, usize),
    bank: &Bank,
    progress: &Progress,
) -> Result<History, String> {
    let mut history = History::default();
    let mut speaker = Speaker { gateways, url: gateways.url(number), open: None, leaves: false };
    while !client.is_over(progress) {
        speaker.leaves = client.random.random_range(0..50) == 0;
        let choice = client.random.random_range(0..8);
        let mut intents = match choice {
            0 | 1 => Vec::new(),
            _ => client.draw().into_iter().map(Intent::answering).collect(),
        };
        intents.truncate(if choice == 2 { 1 } else { OPERATIONS_MAX });
        let began = client.begin(meant(&intents)).await;
        let (outcome, steps) = match choice {
            0 | 1 => speaker.at_the_bank(&mut client, bank).await?,
            2 => speaker.one(&intents[0]).await?,
            3 | 4 => speaker.multi(&intents).await?,
            5 => speaker.script(&intents).await?,
            _ => speaker.watched(&intents, &mut client).await?,
        };
        if outcome == Outcome::Committed {
            count(&gateways.counts.committed);
        }
        client.note(&mut history, began, outcome, steps);
        progress.ended.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        tokio::task::yield_now().await;
    }
    Ok(history)
}

impl Speaker<'_> {
    /// Says all of these in one piece: their replies; or why there are none, and then the connection is gone.
    async fn say(&mut self, commands: &[Command]) -> Result<Vec<Result<Reply, ServerError>>, Outcome> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => match Store::cluster(&self.url).connections().dedicated(None).await {
                Ok(open) => open,
                Err(_) => {
                    // It begins again soon.
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    return Err(Outcome::Void(Why::Later));
                }
            },
        };
        let replies = open.run(commands).await.map_err(|_| Outcome::Unknown)?;
        self.open = Some(open);
        Ok(replies)
    }

    /// One reply.
    ///
    /// # Errors
    /// It is an error that nobody expects.
    async fn ask(&mut self, command: Command) -> Result<Result<Reply, Outcome>, String> {
        match self.say(&[command]).await {
            Err(outcome) => Ok(Err(outcome)),
            Ok(mut replies) => match replies.pop().expect("a reply to each command") {
                Ok(reply) => Ok(Ok(reply)),
                Err(error) => Ok(Err(outcome_of(&error.to_string())?)),
            },
        }
    }

    /// A single command.
    async fn one(&mut self, intent: &Intent) -> Ended {
        match self.ask(command(intent)).await? {
            Ok(reply) => Ok((Outcome::Committed, intent.steps(&reply)?)),
            Err(outcome) => Ok((outcome, intent.meant())),
        }
    }

    /// These as one transaction.
    async fn multi(&mut self, intents: &[Intent]) -> Ended {
        match self.exec(intents.iter().map(command).collect()).await? {
            Attempt::Done(replies) => {
                count(&self.gateways.counts.multi);
                Ok((Outcome::Committed, steps(intents, &replies)?))
            }
            Attempt::Nil => Err("EXEC answered nil, and nothing was watched".to_owned()),
            Attempt::Not(outcome) => Ok((outcome, meant(intents))),
        }
    }

    /// These as one script, which has its commands, and so its keys, among its arguments.
    async fn script(&mut self, intents: &[Intent]) -> Ended {
        // Lua's numbers do not hold those of counters and generators.
        let is_large =
            |it: &Intent| matches!(it.kind, Kind::Counter | Kind::Generator) && it.action != Action::Read;
        if intents.iter().any(is_large) {
            return self.multi(intents).await;
        }
        let mut script = Command::new("EVAL").arg(SCRIPT).arg("0");
        for command in intents.iter().map(command) {
            let words = command.words();
            script = script.arg(words.len().to_string());
            script = words.iter().fold(script, |script, word| script.arg(word.clone()));
        }
        if self.leaves && self.open.is_some() {
            count(&self.gateways.counts.left);
            let _ = tokio::time::timeout(LEFT_AFTER, self.say(&[script])).await;
            self.open = None;
            return Ok((Outcome::Unknown, meant(intents)));
        }
        match self.ask(script).await? {
            Ok(Reply::Array(replies)) if replies.len() == intents.len() => {
                count(&self.gateways.counts.scripts);
                Ok((Outcome::Committed, steps(intents, &replies)?))
            }
            Ok(other) => Err(format!("a script of {} commands answered {other}", intents.len())),
            Err(outcome) => Ok((outcome, meant(intents))),
        }
    }

    /// These as one transaction: what reads, between WATCH and MULTI, and what writes, behind MULTI.
    async fn watched(&mut self, intents: &[Intent], client: &mut Client) -> Ended {
        let (reads, writes): (Vec<Intent>, Vec<Intent>) =
            intents.iter().cloned().partition(|intent| intent.action == Action::Read);
        // Some of what is written is watched, and not read.
        let mut keys: Vec<&str> = reads.iter().map(|intent| intent.key.as_str()).collect();
        keys.extend(writes.iter().take(client.random.random_range(0..2)).map(|intent| intent.key.as_str()));
        if keys.is_empty() {
            return self.multi(&writes).await;
        }
        for _ in 0..LOOPS_MAX {
            let in_one_piece = client.random.random();
            let commands = reads.iter().map(command).collect();
            let seen = match self.look(&keys, commands, in_one_piece).await? {
                Ok(seen) => steps(&reads, &seen)?,
                Err(outcome) => return Ok((never_written(outcome), Vec::new())),
            };
            pause(client.keys.draw_pause(&mut client.random)).await;
            match self.exec(writes.iter().map(command).collect()).await? {
                Attempt::Done(replies) => {
                    count(&self.gateways.counts.watch);
                    let mut all = seen;
                    all.extend(steps(&writes, &replies)?);
                    return Ok((Outcome::Committed, all));
                }
                Attempt::Nil => count(&self.gateways.counts.nil),
                Attempt::Not(outcome) => return Ok((outcome, meant(intents))),
            }
        }
        Ok((Outcome::Void(Why::Later), meant(intents)))
    }

    /// WATCH of these, and what these commands answer behind it.
    async fn look(
        &mut self,
        keys: &[&str],
        commands: Vec<Command>,
        in_one_piece: bool,
    ) -> Result<Result<Vec<Reply>, Outcome>, String> {
        let watch = keys.iter().fold(Command::new("WATCH"), |watch, key| watch.key(*key));
        let mut all = vec![watch];
        all.extend(commands);
        let pieces: Vec<&[Command]> = if in_one_piece { vec![&all[..]] } else { all.chunks(1).collect() };
        let mut replies = Vec::new();
        for piece in pieces {
            match self.say(piece).await {
                Ok(some) => replies.extend(some),
                Err(outcome) => return Ok(Err(outcome)),
            }
        }
        let mut seen = Vec::new();
        for reply in replies {
            match reply {
                Ok(reply) => seen.push(reply),
                Err(error) => {
                    // What was watched goes with the connection.
                    self.open = None;
                    return Ok(Err(outcome_of(&error.to_string())?));
                }
            }
        }
        match seen.remove(0) {
            Reply::Ok => Ok(Ok(seen)),
            other => Err(format!("WATCH answered {other}")),
        }
    }

    /// These between MULTI and EXEC, all in one piece.
    async fn exec(&mut self, commands: Vec<Command>) -> Result<Attempt, String> {
        let expected = commands.len();
        let mut all = vec![Command::new("MULTI")];
        all.extend(commands);
        if self.leaves && self.open.is_some() {
            count(&self.gateways.counts.left);
            if expected.is_multiple_of(2) {
                // Before EXEC: nothing of it is done.
                let _ = self.say(&all).await;
                self.open = None;
                return Ok(Attempt::Not(Outcome::Void(Why::Later)));
            }
            all.push(Command::new("EXEC"));
            let _ = tokio::time::timeout(LEFT_AFTER, self.say(&all)).await;
            self.open = None;
            return Ok(Attempt::Not(Outcome::Unknown));
        }
        all.push(Command::new("EXEC"));
        let mut replies = match self.say(&all).await {
            Ok(replies) => replies,
            Err(outcome) => return Ok(Attempt::Not(outcome)),
        };
        let last = replies.pop().expect("a reply to each command");
        if let Some(Err(error)) = replies.iter().find(|reply| reply.is_err()) {
            return Err(format!("between MULTI and EXEC: {error}"));
        }
        match last {
            Ok(Reply::Nil) => Ok(Attempt::Nil),
            Ok(Reply::Array(items)) if items.len() == expected => Ok(Attempt::Done(items)),
            Ok(other) => Err(format!("EXEC of {expected} commands answered {other}")),
            Err(error) => Ok(Attempt::Not(outcome_of(&error.to_string())?)),
        }
    }

    /// A transfer or a look, in the drawer or over all shards.
    async fn at_the_bank(&mut self, client: &mut Client, bank: &Bank) -> Ended {
        let in_drawer = client.random.random_range(0..4) == 0;
        let accounts = if in_drawer { bank.drawer() } else { bank.accounts() };
        let name = bank.names()[usize::from(in_drawer)];
        let get = |key: &String| Command::new("GET").key(key.as_str());
        let total =
            |balances: &[Reply]| Ok((Outcome::Committed, vec![Step::Total(name.clone(), sum(balances)?)]));
        let (from, to) = two_of(accounts, &mut client.random);
        let amount = client.random.random_range(1..100);
        match client.random.random_range(0..6) {
            0 => {
                let all = accounts.iter().fold(Command::new("MGET"), |it, key| it.key(key.as_str()));
                match self.ask(all).await? {
                    Ok(Reply::Array(balances)) => total(&balances),
                    Ok(other) => Err(format!("MGET answered {other}")),
                    Err(outcome) => Ok((never_written(outcome), Vec::new())),
                }
            }
            1 => match self.exec(accounts.iter().map(get).collect()).await? {
                Attempt::Done(balances) => total(&balances),
                Attempt::Nil => Err("EXEC answered nil, and nothing was watched".to_owned()),
                Attempt::Not(outcome) => Ok((never_written(outcome), Vec::new())),
            },
            2 => {
                let keys: Vec<&str> = accounts.iter().map(String::as_str).collect();
                match self.look(&keys, accounts.iter().map(get).collect(), false).await? {
                    Err(outcome) => Ok((never_written(outcome), Vec::new())),
                    Ok(balances) => match self.exec(Vec::new()).await? {
                        Attempt::Done(_) => total(&balances),
                        Attempt::Nil => self.gave_up(),
                        Attempt::Not(outcome) => Ok((never_written(outcome), Vec::new())),
                    },
                }
            }
            3 => {
                let moves = [("DECRBY", from), ("INCRBY", to)];
                let moves = moves.map(|(name, key)| Command::new(name).key(key).arg(amount.to_string()));
                match self.exec(moves.to_vec()).await? {
                    Attempt::Done(_) => Ok((Outcome::Committed, vec![Step::Moved])),
                    Attempt::Nil => Err("EXEC answered nil, and nothing was watched".to_owned()),
                    Attempt::Not(outcome) => Ok((outcome, Vec::new())),
                }
            }
            _ => self.overwrite(client, (from, to), amount).await,
        }
    }

    /// Reads both balances and writes what they shall be, by a loop of WATCH.
    async fn overwrite(&mut self, client: &mut Client, (from, to): (&str, &str), amount: i64) -> Ended {
        for _ in 0..LOOPS_MAX {
            let gets = [from, to].map(|key| Command::new("GET").key(key));
            let balances = match self.look(&[from, to], gets.to_vec(), client.random.random()).await? {
                Ok(balances) => balances,
                Err(outcome) => return Ok((never_written(outcome), Vec::new())),
            };
            pause(client.keys.draw_pause(&mut client.random)).await;
            let sets = [(from, sum(&balances[..1])? - amount), (to, sum(&balances[1..])? + amount)];
            let sets = sets.map(|(key, balance)| Command::new("SET").key(key).arg(balance.to_string()));
            match self.exec(sets.to_vec()).await? {
                Attempt::Done(_) => {
                    count(&self.gateways.counts.watch);
                    return Ok((Outcome::Committed, vec![Step::Moved]));
                }
                Attempt::Nil => count(&self.gateways.counts.nil),
                Attempt::Not(outcome) => return Ok((outcome, Vec::new())),
            }
        }
        Ok((Outcome::Void(Why::Later), Vec::new()))
    }

    fn gave_up(&self) -> Ended {
        count(&self.gateways.counts.nil);
        Ok((Outcome::Void(Why::Later), Vec::new()))
    }
}

/// What was to read alone has written nothing, whatever became of its answer.
fn never_written(outcome: Outcome) -> Outcome {
    if outcome == Outcome::Unknown { Outcome::Void(Why::Later) } else { outcome }
}

/// # Errors
/// An answer that cannot be.
fn steps(intents: &[Intent], replies: &[Reply]) -> Result<Vec<Step>, String> {
    let all = intents.iter().zip(replies).map(|(intent, reply)| intent.steps(reply));
    Ok(all.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// # Errors
/// One that says that the run itself is wrong.
fn outcome_of(error: &str) -> Result<Outcome, String> {
    let told = error.strip_prefix("EXECABORT Transaction discarded because of: ").unwrap_or(error);
    match told.split(' ').next().unwrap_or_default() {
        "UNKNOWN" => Ok(Outcome::Unknown),
        _ if told.contains("NOPERM") => Ok(Outcome::Void(Why::Denied)),
        "TRYAGAIN" | "CLUSTERDOWN" | "MOVED" | "ASK" | "NOTREADY" => Ok(Outcome::Void(Why::Later)),
        "OOM" => Ok(Outcome::Void(Why::NoMemory)),
        "BUSY" => Ok(Outcome::Void(Why::Busy)),
        _ if told.contains("no memory") => Ok(Outcome::Void(Why::NoMemory)),
        _ if told.contains("create it first") => Ok(Outcome::Void(Why::Missing)),
        _ => Err(format!("a gateway answered with an error that nobody expects: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_gateway_says_is_known_by_its_code() {
        let void = |why| Ok(Outcome::Void(why));
        assert_eq!(outcome_of("UNKNOWN it is not known; ask with GATEWAY OUTCOME 1-2"), Ok(Outcome::Unknown));
        assert_eq!(outcome_of("TRYAGAIN the turn is over"), void(Why::Later));
        let missing = "EXECABORT Transaction discarded because of: ERR BGET works on a record that exists; create it first: BCREATE";
        assert_eq!(outcome_of(missing), void(Why::Missing));
        assert_eq!(outcome_of("NOPERM no permissions"), void(Why::Denied));
        assert!(outcome_of("EXECABORT Transaction discarded because of previous errors.").is_err());
        assert!(outcome_of("ERR no").is_err());
    }
}
