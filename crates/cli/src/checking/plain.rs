//! Clients that know nothing of Claret: plain commands on the same hot records, each a transaction of one, and plain
//! looks at the bank's drawer and transfers in it, by one command, by a script and by `MULTI`.

use std::sync::atomic::Ordering;

use claret::cluster::{Command, Dedicated, Plain, PlainError, ServerError};
use claret::{Bytes, Reply};
use rand::RngExt;

use super::bank::{expect, two_of};
use super::history::{Outcome, Step};
use super::plan::{Kind, Planned};
use super::traffic::{Client, writes};
use super::{Bank, History, Progress};

/// Works until the time is over.
pub(super) async fn work(
    mut client: Client,
    plain: &Plain,
    bank: &Bank,
    progress: &Progress,
) -> Result<History, String> {
    let mut history = History::default();
    // For MULTI; made anew when it breaks.
    let mut own = None;
    while !client.is_over(progress) {
        if client.random.random_range(0..8) == 0 {
            history.plain +=
                u64::from(at_the_drawer(&mut client, plain, &mut own, bank, &mut history).await?);
        } else {
            let planned = client.draw_one(client.clock.now(), false);
            let began = client.begin().await;
            let (outcome, steps) = match plain.ask(command(&planned)).await {
                Ok(reply) => (Outcome::Committed, steps(&planned, &reply)?),
                Err(error) => (outcome_of(&error)?, writes(&[planned])),
            };
            history.plain += u64::from(outcome == Outcome::Committed);
            client.note(&mut history, began, outcome, steps);
        }
        progress.ended.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
    }
    Ok(history)
}

fn command(planned: &Planned) -> Command {
    let mut words = planned.command().into_iter();
    let name = words.next().expect("a name");
    let command = Command::new(name).key(words.next().expect("a key"));
    words.fold(command, Command::arg)
}

/// What a command showed. A counter says what it holds when it is added to, too.
fn steps(planned: &Planned, reply: &Reply) -> Result<Vec<Step>, String> {
    let mut steps = vec![planned.step(reply)?];
    if planned.kind == Kind::Counter && planned.write.is_some() {
        steps.push(Planned { write: None, ..planned.clone() }.step(reply)?);
    }
    Ok(steps)
}

/// # Errors
/// One that says that the run itself is wrong.
fn outcome_of(error: &PlainError) -> Result<Outcome, String> {
    match error {
        PlainError::Lost { .. } => Ok(Outcome::Unknown),
        PlainError::Away(_) => Ok(Outcome::Void),
        PlainError::Server(ServerError(text)) if is_later(text) => Ok(Outcome::Void),
        other => Err(format!("an error that nobody expects: {other}")),
    }
}

/// Whether nothing was done, and it may be tried again.
fn is_later(text: &str) -> bool {
    text.starts_with("TRYAGAIN") || text.starts_with("EXECABORT")
}

const SCRIPT: &str = "redis.call('DECRBY', KEYS[1], ARGV[1]) redis.call('INCRBY', KEYS[2], ARGV[1]) return 1";

/// One look or transfer. Returns whether it was carried out.
async fn at_the_drawer(
    client: &mut Client,
    plain: &Plain,
    own: &mut Option<Dedicated>,
    bank: &Bank,
    history: &mut History,
) -> Result<bool, String> {
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
    match (answer, choice) {
        (Ok(Reply::Array(balances)), 0..=2) => {
            expect(&balances)?;
            history.totals += 1;
        }
        (Ok(Reply::Nil), 2 | 5) => return Ok(false),
        (Ok(_), 3..) => history.transfers += 1,
        (Ok(other), _) => return Err(format!("the drawer's accounts hold {other}")),
        (Err(error), _) => return outcome_of(&error).map(|_| false),
    }
    Ok(true)
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
    plain: &Plain,
    own: &mut Option<Dedicated>,
    commands: impl Iterator<Item = Command>,
) -> Result<Reply, PlainError> {
    let mut all = vec![Command::new("MULTI")];
    all.extend(commands);
    all.push(Command::new("EXEC"));
    let mut open = match own.take() {
        Some(open) => open,
        None => plain.dedicated(all[1].words()[1].clone()).await.map_err(PlainError::Away)?,
    };
    let reply = open.run(&all).await?.pop().expect("a reply to each command");
    *own = Some(open);
    reply.map_err(PlainError::Server)
}
