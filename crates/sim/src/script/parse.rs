//! Parses the commands of a script. It does not know what they do.

use claret_core::ways::ProcessWay;
use claret_core::{SessionId, ShardId, Survives};

use super::selector::{MessageKind, Selector};
use crate::ways;

/// What a line of a script asks for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Command {
    Limits(Vec<(String, u64)>),
    Switches(Vec<(String, String)>),
    Shards(u32),
    Place(Vec<String>, ShardId),
    Given(Vec<String>),
    ScriptClient(SessionId, Option<ProcessWay>),
    Begin(SessionId, Vec<String>),
    Execute {
        tx: String,
        words: Vec<String>,
        for_update: bool,
    },
    Buffer(String, Vec<String>),
    Commit(String),
    Abort(String),
    Restart(String),
    /// Everything, and what comes of it, but these.
    DeliverBut(Vec<Selector>),
    Deliver(Selector),
    Hold(Selector),
    Lose(Selector),
    Double(Selector),
    Reorder,
    Time(u64),
    Kill(SessionId),
    RestartShard(ShardId, Survives),
    Reconnect(SessionId, ShardId),
    Heartbeat(SessionId, Option<ShardId>),
    Ask(SessionId, String, ShardId),
    ForgeAbort(String, ShardId),
    Show(Shown),
    Leaves,
}

/// What `show` shows.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shown {
    Locks,
    Records,
    Messages,
    Shard(ShardId),
    ScriptClient(SessionId),
    /// What each shard has written for an attempt.
    Written {
        tx: String,
        attempt: Option<u32>,
    },
}

/// All commands, with what they do: what a mistake is answered with, and the help.
const COMMANDS: &[(&str, &str)] = &[
    ("limits NAME=NUMBER ...", "other bounds than the usual ones; before 'shards'"),
    (
        "switches NAME=VALUE ...",
        "phasing=on|off, locks=abstract|reader-writer, delivery=network|direct; likewise",
    ),
    ("shards N", "makes shards s0, s1, ..."),
    ("key KEY ... on sN", "places records; with one shard they are all there"),
    ("given OPERATION", "done at once, before the story begins: given SADD x a b"),
    ("client cN [WAY]", "a client process, connected to all shards, whose transactions go a way to commit"),
    (
        "cN begin T ...",
        "begins transactions, the first one the eldest; a name has a capital message in front",
    ),
    ("T execute OPERATION [for update]", "sends an operation whose answer is wanted: T1 execute GET x"),
    ("T buffer OPERATION", "keeps an operation until the commit"),
    ("T commit | T abort | T restart", "what its user wants next"),
    ("deliver", "delivers all messages, oldest first, and those that come of them"),
    ("deliver but WHICH [but WHICH]", "the same, but leaves these on their way"),
    ("deliver WHICH", "delivers those that are on their way now, and nothing that comes of them"),
    ("hold WHICH", "keeps messages back until 'deliver held'"),
    ("lose WHICH", "they never arrive"),
    ("double WHICH", "keeps a copy of each back until 'deliver held'"),
    ("reorder", "turns the order of all that is on its way around"),
    ("time +N(us|ms|s)", "lets time pass, and timers fire"),
    ("kill cN", "the client dies"),
    (
        "restart sN with votes | records | nothing",
        "the shard goes on as its next incarnation, and this survives",
    ),
    ("reconnect cN sN", "a new connection, with a heartbeat first"),
    ("heartbeat cN [sN]", "the client says what is live and how far its low-water mark is"),
    ("ask cN T sN", "the client asks the shard what became of a transaction's last attempt"),
    ("forge abort T to sN", "an abort that names no refusal, as no coordinator sends it after a prepare"),
    ("show locks | records | messages | sN | cN", "what is there"),
    ("show T", "what each shard has written for the last attempt of T; T/1 for its first"),
    ("leaves", "says what is left behind at the end, which is a fault otherwise"),
];

/// Which messages are meant.
const WHICH: &str = "WHICH is, in any order: first or last; held; a kind (execute, prepare, voted, ...); a \
    transaction T or an attempt T/2; from cN or sN; to cN or sN; cN->sN. Nothing at all is everything.";

/// The commands of scripts, one a line.
pub fn help() -> String {
    let rows = COMMANDS.iter().map(|(usage, what)| format!("  {usage}\n      {what}\n"));
    rows.collect::<String>() + WHICH
}

/// Reads one line.
pub(super) fn command(line: &str) -> Result<Command, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let parsed = match words[..] {
        [first, ref rest @ ..] if is_name(first) => of_transaction(first, rest),
        [client, "begin", ref names @ ..] if !names.is_empty() => begin(client, names),
        _ => set_up(&words).or_else(|| of_network(&words)).or_else(|| of_people(&words)).transpose(),
    };
    match parsed {
        Ok(Some(command)) => Ok(command),
        Ok(None) => Err(unknown(&words)),
        Err(error) => Err(error),
    }
}

/// What a line that is no command should have been.
fn unknown(words: &[&str]) -> String {
    let verb = words.iter().find(|word| !is_name(word) && client(word).is_err()).unwrap_or(&"");
    let near: Vec<&str> = COMMANDS
        .iter()
        .filter(|(usage, _)| usage.split(['|', ' ']).any(|word| word == *verb))
        .map(|(usage, _)| *usage)
        .collect();
    match near.as_slice() {
        [] => format!("'{}' is no command; the commands are:\n{}", words.join(" "), help()),
        usages => format!("'{}' lacks something; it is used so: {}", words.join(" "), usages.join("; ")),
    }
}

type Parsed = Option<Result<Command, String>>;

fn set_up(words: &[&str]) -> Parsed {
    Some(match *words {
        ["limits", ref pairs @ ..] if !pairs.is_empty() => {
            pairs.iter().map(|pair| limit(pair)).collect::<Result<_, _>>().map(Command::Limits)
        }
        ["switches", ref pairs @ ..] if !pairs.is_empty() => {
            let pair = |word: &&str| {
                let (name, value) =
                    word.split_once('=').ok_or_else(|| format!("'{word}' is no NAME=VALUE"))?;
                Ok((name.to_owned(), value.to_owned()))
            };
            pairs.iter().map(pair).collect::<Result<_, _>>().map(Command::Switches)
        }
        ["shards", count] => match count.parse() {
            Ok(count @ 1..=16) => Ok(Command::Shards(count)),
            _ => Err(format!("'{count}' is no number of shards; there may be 1 to 16")),
        },
        ["key", ref keys @ .., "on", at] if !keys.is_empty() => {
            shard(at).map(|at| Command::Place(owned(keys), at))
        }
        ["given", ref words @ ..] if !words.is_empty() => Ok(Command::Given(owned(words))),
        ["client", name] => client(name).map(|session| Command::ScriptClient(session, None)),
        ["client", name, way] => client(name).and_then(|session| {
            let way = ways::of_word(way).ok_or_else(|| format!("'{way}' is no way to commit"))?;
            Ok(Command::ScriptClient(session, Some(way)))
        }),
        ["leaves"] => Ok(Command::Leaves),
        _ => return None,
    })
}

fn of_network(words: &[&str]) -> Parsed {
    Some(match *words {
        ["deliver"] => Ok(Command::DeliverBut(Vec::new())),
        ["deliver", "but", ref rest @ ..] => {
            rest.split(|word| *word == "but").map(selector).collect::<Result<_, _>>().map(Command::DeliverBut)
        }
        ["deliver", ref which @ ..] => selector(which).map(Command::Deliver),
        ["hold", ref which @ ..] => selector(which).map(Command::Hold),
        ["lose", ref which @ ..] => selector(which).map(Command::Lose),
        ["double", ref which @ ..] => selector(which).map(Command::Double),
        ["reorder"] => Ok(Command::Reorder),
        _ => return None,
    })
}

fn of_people(words: &[&str]) -> Parsed {
    Some(match *words {
        ["time", by] => duration(by).map(Command::Time),
        ["kill", name] => client(name).map(Command::Kill),
        ["restart", name, "with", survives] => {
            shard(name).and_then(|at| Ok(Command::RestartShard(at, survivors(survives)?)))
        }
        ["reconnect", from, to] => {
            client(from).and_then(|session| Ok(Command::Reconnect(session, shard(to)?)))
        }
        ["heartbeat", from] => client(from).map(|session| Command::Heartbeat(session, None)),
        ["heartbeat", from, to] => {
            client(from).and_then(|session| Ok(Command::Heartbeat(session, Some(shard(to)?))))
        }
        ["ask", from, tx, to] if is_name(tx) => {
            client(from).and_then(|session| Ok(Command::Ask(session, tx.to_owned(), shard(to)?)))
        }
        ["forge", "abort", tx, "to", at] if is_name(tx) => {
            shard(at).map(|at| Command::ForgeAbort(tx.to_owned(), at))
        }
        ["show", what] => show(what).map(Command::Show),
        _ => return None,
    })
}

fn of_transaction(tx: &str, rest: &[&str]) -> Result<Option<Command>, String> {
    let tx = tx.to_owned();
    Ok(Some(match *rest {
        ["execute", ref op @ .., "for", "update"] if !op.is_empty() => {
            Command::Execute { tx, words: owned(op), for_update: true }
        }
        ["execute", ref op @ ..] if !op.is_empty() => {
            Command::Execute { tx, words: owned(op), for_update: false }
        }
        ["buffer", ref op @ ..] if !op.is_empty() => Command::Buffer(tx, owned(op)),
        ["commit"] => Command::Commit(tx),
        ["abort"] => Command::Abort(tx),
        ["restart"] => Command::Restart(tx),
        _ => return Ok(None),
    }))
}

fn begin(name: &str, names: &[&str]) -> Result<Option<Command>, String> {
    let session = client(name)?;
    match names.iter().find(|name| !is_name(name)) {
        Some(bad) => Err(format!("'{bad}' is no name of a transaction; one is T1, with a capital in front")),
        None => Ok(Some(Command::Begin(session, owned(names)))),
    }
}

fn selector(words: &[&str]) -> Result<Selector, String> {
    let mut selector = Selector::default();
    let mut rest = words;
    while let [word, more @ ..] = rest {
        rest = more;
        match (*word, more) {
            ("first", _) => selector.first = true,
            ("last", _) => selector.last = true,
            ("held", _) => selector.held = true,
            ("from", [end, more @ ..]) => (selector.from, rest) = (Some(an_end(end)?), more),
            ("to", [end, more @ ..]) => (selector.to, rest) = (Some(an_end(end)?), more),
            (word, _) if is_name(word) => {
                let (tx, number) = attempt(word)?;
                (selector.tx, selector.attempt) = (Some(tx), number);
            }
            (word, _) => match (word.split_once("->"), MessageKind::named(word)) {
                (Some((from, to)), _) => {
                    (selector.from, selector.to) = (Some(an_end(from)?), Some(an_end(to)?));
                }
                (None, Some(kind)) => selector.kind = Some(kind),
                (None, None) => {
                    return Err(format!(
                        "'{word}' chooses no message; {WHICH} The kinds are {}",
                        MessageKind::names()
                    ));
                }
            },
        }
    }
    Ok(selector)
}

// --- words ---

fn show(what: &str) -> Result<Shown, String> {
    match what {
        "locks" => Ok(Shown::Locks),
        "records" => Ok(Shown::Records),
        "messages" => Ok(Shown::Messages),
        _ if is_name(what) => attempt(what).map(|(tx, attempt)| Shown::Written { tx, attempt }),
        _ => match (shard(what), client(what)) {
            (Ok(shard), _) => Ok(Shown::Shard(shard)),
            (_, Ok(client)) => Ok(Shown::ScriptClient(client)),
            _ => Err(format!("'{what}' cannot be shown; locks, records, messages, sN, cN and T can")),
        },
    }
}

/// Whether it names a transaction, or an attempt of one.
fn is_name(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_uppercase())
        && word.chars().all(|char| char.is_ascii_alphanumeric() || char == '/')
}

/// A transaction and, if it is said, the number of an attempt.
fn attempt(word: &str) -> Result<(String, Option<u32>), String> {
    let Some((tx, number)) = word.split_once('/') else { return Ok((word.to_owned(), None)) };
    let number = number.parse().map_err(|_| format!("'{word}' is no attempt; one is T1/2"))?;
    Ok((tx.to_owned(), Some(number)))
}

fn survivors(word: &str) -> Result<Survives, String> {
    match word {
        "votes" => Ok(Survives::Votes),
        "records" => Ok(Survives::Records),
        "nothing" => Ok(Survives::Nothing),
        _ => Err(format!("'{word}' cannot survive a restart; votes, records or nothing can")),
    }
}

fn numbered<T: std::str::FromStr>(word: &str, prefix: char) -> Option<T> {
    word.strip_prefix(prefix)?.parse().ok()
}

fn shard(word: &str) -> Result<ShardId, String> {
    numbered(word, 's').map(ShardId).ok_or_else(|| format!("'{word}' is no shard; they are s0, s1, ..."))
}

fn client(word: &str) -> Result<SessionId, String> {
    numbered(word, 'c').map(SessionId).ok_or_else(|| format!("'{word}' is no client; they are c1, c2, ..."))
}

fn an_end(word: &str) -> Result<String, String> {
    match (shard(word), client(word)) {
        (Err(_), Err(_)) => Err(format!("'{word}' is neither a client (c1) nor a shard (s0)")),
        _ => Ok(word.to_owned()),
    }
}

fn limit(word: &str) -> Result<(String, u64), String> {
    let parsed = word.split_once('=').and_then(|(name, value)| Some((name.to_owned(), value.parse().ok()?)));
    parsed.ok_or_else(|| format!("'{word}' is no NAME=NUMBER"))
}

fn duration(word: &str) -> Result<u64, String> {
    let micros = |digits: &str, unit: u64| digits.parse::<u64>().ok()?.checked_mul(unit);
    let parsed = word.strip_prefix('+').and_then(|rest| {
        let digits = rest.trim_end_matches(|char: char| !char.is_ascii_digit());
        match &rest[digits.len()..] {
            "us" => micros(digits, 1),
            "ms" => micros(digits, 1_000),
            "s" => micros(digits, 1_000_000),
            _ => None,
        }
    });
    parsed.ok_or_else(|| format!("'{word}' is no time; one is +200us, +5ms or +10s"))
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
