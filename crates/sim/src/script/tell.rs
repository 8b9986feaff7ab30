//! What a script's transcript says of events, of locks and of records.

use claret_core::{Cause, Event, Shard, ShardId};
use claret_types::{Bytes, State, TypeInfo, Unique, builtin_types};

use super::parse::Shown;
use super::playback::{Playback, Standing};
use super::selector::client_name;
use crate::event::{Wording, describe_replies};
use crate::ways;

/// What is in front of a line that is no message.
pub(super) const INDENT: &str = "    ";

/// The operation that shows all of a record, by type.
const READINGS: &[(&str, &str, &[&str])] = &[
    ("register", "GET", &[]),
    ("counter", "GET", &[]),
    ("float-counter", "GET", &[]),
    ("bounded-counter", "BGET", &[]),
    ("set", "SMEMBERS", &[]),
    ("dict", "HGETALL", &[]),
    ("list", "LRANGE", &["0", "-1"]),
];

/// What a user hears.
pub(super) fn event(tx: &str, event: &Event) -> String {
    match event {
        Event::Answer { no, reply } => format!("{INDENT}{tx} hears #{}: {reply}", no.0),
        Event::Committed { replies } => format!("{INDENT}{tx} is committed{}", describe_replies(replies)),
        Event::Aborted => format!("{INDENT}{tx} is aborted"),
        Event::Failed { refusal } => format!("{INDENT}{tx} fails: {refusal}"),
        Event::Unknown => format!("{INDENT}{tx} is over, and nobody knows how"),
        Event::Behind { record: Some((key, _)) } => format!("{INDENT}{tx} hears whom it waits for on {key}"),
        Event::Seen { seen, .. } => format!("{INDENT}{tx} has seen {seen:?}"),
        Event::Behind { record: None } => format!("{INDENT}{tx} hears that it waits for nobody"),
        Event::Restart { cause } => match cause {
            Cause::GaveWay => format!("{INDENT}{tx} restarts: it gave way to an elder"),
            Cause::Busy => format!("{INDENT}{tx} restarts: it was busy too often"),
            Cause::Parted => format!("{INDENT}{tx} restarts: it parted from its group"),
            Cause::Refused(refusal) => format!("{INDENT}{tx} restarts: {refusal}"),
        },
    }
}

impl Playback {
    pub(super) fn show(&mut self, what: Shown) -> Result<(), String> {
        let nothing = match what {
            Shown::Locks => "no record is locked",
            Shown::Records => "no record is there",
            Shown::Messages => "no message is on its way",
            Shown::Shard(_) | Shown::ScriptClient(_) | Shown::Written { .. } => "",
        };
        let lines = match what {
            Shown::Locks => self.shards.iter().flat_map(|shard| self.locks(shard)).collect(),
            Shown::Records => self.shards.iter().flat_map(records).collect(),
            Shown::Messages => self.under_way(),
            Shown::Written { tx, attempt } => vec![self.written(&tx, attempt)?],
            Shown::Shard(at) => {
                let shard = self.shard(at)?;
                vec![format!(
                    "{at}@{}: {} open, {} locked, {} remembered",
                    shard.incarnation().0,
                    count(shard.open_attempts(), "attempt"),
                    count(shard.locked_records(), "record"),
                    count(shard.remembered(), "decision"),
                )]
            }
            Shown::ScriptClient(session) => {
                let machine = self.machine(session)?;
                let (live, low_water, ways) = (machine.live(), machine.low_water(), ways::show(machine));
                let live: Vec<String> = live.into_iter().map(|attempt| self.names.attempt(attempt)).collect();
                let (name, live) = (client_name(session), live.join(" "));
                let own = format!("{name}: live [{live}], low-water mark {}", low_water.0);
                vec![[vec![own], ways].concat().join("; ")]
            }
        };
        let shown = if lines.is_empty() { vec![nothing.to_owned()] } else { lines };
        self.lines.extend(shown.into_iter().map(|line| INDENT.to_owned() + line.trim_start()));
        Ok(())
    }

    /// What each shard has written for an attempt.
    fn written(&self, tx: &str, number: Option<u32>) -> Result<String, String> {
        let mut attempt = self.txs[self.tx(tx)?].attempt;
        attempt.attempt = number.unwrap_or(attempt.attempt);
        let written = |shard: &Shard| match shard.written(attempt) {
            Some(status) => format!("{} {status:?}", shard.id()),
            None => format!("{} nothing", shard.id()),
        };
        let written: Vec<String> = self.shards.iter().map(written).collect();
        Ok(format!("written for {}: {}", self.names.attempt(attempt), written.join(", ")))
    }

    /// Who holds and who waits, by record.
    fn locks(&self, shard: &Shard) -> Vec<String> {
        let mut waits: Vec<_> = shard.waits().collect();
        waits.sort_by(|a, b| a.key.cmp(&b.key));
        let who = |mut attempts: Vec<claret_core::AttemptId>| {
            attempts.sort_unstable();
            attempts.iter().map(|attempt| self.names.attempt(*attempt)).collect::<Vec<_>>().join(" ")
        };
        let line = |wait: claret_core::Wait| {
            let waiters = match wait.waiters.is_empty() {
                true => String::new(),
                false => format!(", awaited by {}", who(wait.waiters)),
            };
            format!("{} '{}': held by {}{waiters}", shard.id(), wait.key, who(wait.holders))
        };
        waits.into_iter().map(line).collect()
    }

    /// What nobody would ever take away: none of it may be there at the end.
    pub(super) fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        for shard in &self.shards {
            let (open, locked) = (shard.open_attempts(), shard.locked_records());
            if (open, locked) != (0, 0) {
                let (open, locked) = (count(open, "attempt"), count(locked, "record"));
                left.push(format!("{}: {open} open, {locked} locked", shard.id()));
            }
        }
        for (session, client) in &self.clients {
            let Some(machine) = &client.machine else { continue };
            let mine = self.txs.iter().filter(|tx| tx.session == *session && tx.standing != Standing::Ended);
            left.extend(mine.map(|tx| format!("{} has not ended", tx.name)));
            let live = machine.live().into_iter().map(|attempt| self.names.attempt(attempt));
            left.extend(live.map(|attempt| format!("{}: {attempt} is live", client_name(*session))));
        }
        left.extend(self.under_way());
        left.into_iter().map(|line| INDENT.to_owned() + &line).collect()
    }
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// What is committed, by record.
fn records(shard: &Shard) -> Vec<String> {
    let mut all: Vec<(&Bytes, &State)> = shard.contents().collect();
    all.sort_by_key(|(key, _)| *key);
    let id: ShardId = shard.id();
    all.into_iter().map(|(key, state)| format!("{id} '{key}': {}", content(state))).collect()
}

/// All of a record, as an operation of its type answers it.
fn content(state: &State) -> String {
    let kind = state.type_info();
    let reading = READINGS.iter().find(|(name, ..)| *name == kind.name);
    let read = reading.and_then(|(name, method, arguments)| {
        let kind: &TypeInfo = builtin_types().iter().find(|it| it.name == *name)?;
        let arguments: Vec<Bytes> = arguments.iter().map(|argument| Bytes::from(*argument)).collect();
        let op = (kind.parse)(method, &arguments).ok()?;
        op.execute(Some(state), Unique(0)).ok()
    });
    read.map_or_else(|| format!("{state:?}"), |execution| execution.reply.to_string())
}
