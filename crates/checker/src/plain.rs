//! Clients that know nothing of Claret and use plain commands on the same hot records: single commands, and reads and
//! transfers in the bank's drawer by one command, by a script and by `MULTI`.

use std::sync::atomic::Ordering;

use claret::{Bytes, Reply};
use claret_redis::{Cluster, Command, CommandError, Dedicated};
use rand::RngExt;

use crate::bank::{Bank, sum, two_of};
use crate::history::{History, Outcome, Step, Why};
use crate::intent::Intent;
use crate::plan::Progress;
use crate::traffic::Client;

/// Works until the time is over.
pub(super) async fn work(
    mut client: Client,
    plain: &Cluster,
    bank: &Bank,
    progress: &Progress,
) -> Result<History, String> {
    let mut history = History::default();
    // For MULTI; made anew when it breaks.
    let mut own = None;
    while !client.is_over(progress) {
        let (began, outcome, steps) = if client.random.random_range(0..8) == 0 {
            let began = client.begin(Vec::new()).await;
            let (outcome, steps) = at_the_drawer(&mut client, plain, &mut own, bank).await?;
            (began, outcome, steps)
        } else {
            let intent = client.draw_one(client.clock.now(), false).answering();
            let began = client.begin(intent.meant()).await;
            let (outcome, steps) = match plain.ask(command(&intent)).await {
                Ok(reply) => (Outcome::Committed, intent.steps(&reply)?),
                Err(error) => (outcome_of(&error)?, intent.meant()),
            };
            (began, outcome, steps)
        };
        client.note(&mut history, began, outcome, steps);
        progress.ended.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
    }
    Ok(history)
}

pub(super) fn command(intent: &Intent) -> Command {
    let mut words = intent.command().into_iter();
    let name = words.next().expect("a name");
    let command = Command::new(name).key(words.next().expect("a key"));
    words.fold(command, Command::arg)
}

/// # Errors
/// One that says that the run itself is wrong.
fn outcome_of(error: &CommandError) -> Result<Outcome, String> {
    match error {
        CommandError::Lost { .. } => Ok(Outcome::Unknown),
        CommandError::Away(_) => Ok(Outcome::Void(Why::Later)),
        CommandError::Server(error) => match error.code() {
            "TRYAGAIN" | "EXECABORT" | "MOVED" | "ASK" | "CLUSTERDOWN" | "NOTREADY" => {
                Ok(Outcome::Void(Why::Later))
            }
            "NOPERM" => Ok(Outcome::Void(Why::Denied)),
            "OOM" => Ok(Outcome::Void(Why::NoMemory)),
            "BUSY" => Ok(Outcome::Void(Why::Busy)),
            _ => Err(format!("an error that nobody expects: {error}")),
        },
        other => Err(format!("an error that nobody expects: {other}")),
    }
}

const SCRIPT: &str = "redis.call('DECRBY', KEYS[1], ARGV[1]) redis.call('INCRBY', KEYS[2], ARGV[1]) return 1";

/// One look or transfer, and what it showed.
async fn at_the_drawer(
    client: &mut Client,
    plain: &Cluster,
    own: &mut Option<Dedicated>,
    bank: &Bank,
) -> Result<(Outcome, Vec<Step>), String> {
    let (from, to) = two_of(bank.drawer(), &mut client.random);
    let amount = client.random.random_range(1..100).to_string();
    let choice = client.random.random_range(0..6);
    let answer = match choice {
        0 => plain.ask(bank.drawer().iter().fold(Command::new("MGET"), |it, key| it.key(key.as_str()))).await,
        1 => plain.ask(exec(bank.drawer().iter().map(|key| ("GET", key.as_str(), None)))).await,
        2 => multi(plain, own, bank.drawer().iter().map(|key| Command::new("GET").key(key.as_str()))).await,
        3 => {
            let script = Command::new("EVAL").arg(SCRIPT).arg("2").key(from).key(to).arg(amount.as_str());
            plain.ask(script).await
        }
        4 => {
            let back = format!("-{amount}");
            let moves = [("INCRBY", from, Some(back.as_str())), ("INCRBY", to, Some(amount.as_str()))];
            plain.ask(exec(moves.into_iter())).await
        }
        _ => {
            let moves = [("DECRBY", from), ("INCRBY", to)];
            multi(
                plain,
                own,
                moves.map(|(name, key)| Command::new(name).key(key).arg(amount.as_str())).into_iter(),
            )
            .await
        }
    };
    let total = |balances: &[Reply]| Ok(vec![Step::Total(bank.names()[1].clone(), sum(balances)?)]);
    match (answer, choice) {
        (Ok(Reply::Array(balances)), 0..=2) => total(&balances).map(|steps| (Outcome::Committed, steps)),
        // EXEC says so when it did nothing.
        (Ok(Reply::Nil), 2 | 5) => Ok((Outcome::Void(Why::Later), Vec::new())),
        (Ok(_), 3..) => Ok((Outcome::Committed, vec![Step::Moved])),
        (Ok(other), _) => Err(format!("the drawer's accounts hold {other}")),
        (Err(error), _) => outcome_of(&error).map(|outcome| (outcome, Vec::new())),
    }
}

/// `CLARET.EXEC` of these operations.
fn exec<'a>(calls: impl Iterator<Item = (&'a str, &'a str, Option<&'a str>)>) -> Command {
    calls.fold(Command::new("CLARET.EXEC"), |command, (name, key, argument)| {
        let words = 2 + usize::from(argument.is_some());
        let command = command.arg(Bytes::from(words.to_string())).arg(name).key(key);
        argument.into_iter().fold(command, Command::arg)
    })
}

/// The reply to `EXEC`.
async fn multi(
    plain: &Cluster,
    own: &mut Option<Dedicated>,
    commands: impl Iterator<Item = Command>,
) -> Result<Reply, CommandError> {
    let mut all = vec![Command::new("MULTI")];
    all.extend(commands);
    all.push(Command::new("EXEC"));
    let mut open = match own.take() {
        Some(open) => open,
        None => plain.dedicated(all[1].words()[1].clone()).await.map_err(CommandError::Away)?,
    };
    let reply = open.run(&all).await?.pop().expect("a reply to each command");
    // After an error another connection: the key may be elsewhere now.
    let reply = reply.map_err(CommandError::Server)?;
    *own = Some(open);
    Ok(reply)
}
