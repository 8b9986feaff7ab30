//! Which commands of a transaction the servers of their keys carry out, with its commit (A19, A22).

use std::collections::BTreeSet;

use claret_planted::{Bug, is_planted};
use claret_types::{Access, Bytes, KeyspaceOp, Operation, Reply};
use smallvec::SmallVec;

use crate::answer::Answer;
use crate::fault::Fault;
use crate::table::Command;
use crate::words::is;

/// What servers carry out for one command: on each key one.
pub(crate) type Run = SmallVec<[(Bytes, Operation); 1]>;

/// Keys on which servers carry out commands: whatever comes behind them there is carried out by servers, too.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByServer {
    run_on: BTreeSet<Bytes>,
    /// Keys that the transaction may have changed otherwise.
    changed: BTreeSet<Bytes>,
}

impl ByServer {
    /// The command as servers carry it out, if they do: since no operation is that, or since it comes behind such a one on its key
    /// (A22). It is one on one key, or one on each of several (A34).
    ///
    /// # Errors
    /// It would have to be, and cannot be.
    pub(crate) fn step(&mut self, command: &Command, words: &[Bytes]) -> Result<Option<Run>, Fault> {
        if !command.is_run_by_server() && self.run_on.is_empty() {
            return Ok(None); // Mostly.
        }
        let mut all = vec![Bytes::from(command.name)];
        all.extend_from_slice(words);
        let keys: BTreeSet<Bytes> = command.keys_in(&all).map(Bytes::copy_from).collect();
        let is_behind =
            !is_planted(Bug::CommandsPassCommands) && keys.iter().any(|key| self.run_on.contains(key));
        if !command.is_run_by_server() && !is_behind {
            return Ok(None);
        }
        let shown = command.name.to_ascii_lowercase();
        if command.is_own {
            return Err(Fault::told(format!(
                "ERR '{shown}' is an operation of Claret, and an earlier command of this transaction is carried out by the server of its \
                 key: use another key, or another transaction"
            )));
        }
        let steps = match each_stream(command, &all) {
            Some(steps) => steps,
            None if keys.len() == 1 => keys.into_iter().map(|key| (key, all.clone())).collect(),
            None => {
                return Err(Fault::told(format!(
                    "ERR '{shown}' has several keys, and a step that is carried out by the server of its key has one: send it for each \
                     key, or use another transaction"
                )));
            }
        };
        // It may keep what it has counted in the record.
        let reads = !command.writes && command.name != "PFCOUNT";
        let access = if reads { Access::Read } else { Access::Write };
        let run = |(key, words): (Bytes, Vec<Bytes>)| {
            self.note(&key);
            (key, Operation::from(KeyspaceOp::Run(claret_types::Command::new(access, &words))))
        };
        Ok(Some(steps.into_iter().map(run).collect()))
    }

    /// The command as a question to the server of its key, if one is asked now: it only reads, is no operation, and the transaction has
    /// not changed the key, of which the server would know nothing (A18).
    pub(crate) fn question(&self, command: &Command, words: &[Bytes]) -> Option<(Bytes, Operation)> {
        if command.writes || !command.is_run_by_server() {
            return None; // Mostly.
        }
        let mut all = vec![Bytes::from(command.name)];
        all.extend_from_slice(words);
        let key = match command.keys_in(&all).collect::<BTreeSet<&[u8]>>().into_iter().collect::<Vec<_>>()[..]
        {
            [key] => Bytes::copy_from(key),
            _ => return None,
        };
        (!self.has_changed(&key) || is_planted(Bug::AsksBehindWrites)).then(|| {
            let asked = claret_types::Command::new(Access::Read, &all);
            (key, Operation::from(KeyspaceOp::Ask(asked)))
        })
    }

    /// Whether the transaction may have changed this key.
    pub(crate) fn has_changed(&self, key: &Bytes) -> bool {
        self.run_on.contains(key) || self.changed.contains(key)
    }

    /// The transaction may have changed this key.
    pub(crate) fn note_changed(&mut self, key: Bytes) {
        self.changed.insert(key);
    }

    /// The first of these keys on which a server carries out a command.
    pub(crate) fn first_of<'a>(&self, keys: &'a [Bytes]) -> Option<&'a Bytes> {
        keys.iter().find(|key| self.run_on.contains(*key))
    }

    /// A server carries out a command on this key.
    pub(crate) fn note(&mut self, key: &Bytes) {
        self.run_on.insert(key.clone());
    }
}

/// A command on streams as one on each, in which none waits: the key, and the words. `None`: it is no such command.
fn each_stream(command: &Command, words: &[Bytes]) -> Option<Vec<(Bytes, Vec<Bytes>)>> {
    let places: Vec<usize> =
        command.is_of_streams().then(|| command.keys.of(words)).and_then(Result::ok)?.collect();
    let ids = *places.last()? + 1;
    let before = without_block(&words[..places[0]]);
    let step = |(no, at): (usize, &usize)| {
        let own = [words[*at].clone(), words[ids + no].clone()];
        (own[0].clone(), before.iter().cloned().chain(own).collect())
    };
    Some(places.iter().enumerate().map(step).collect())
}

/// The same without `BLOCK` and its time.
fn without_block(words: &[Bytes]) -> Vec<Bytes> {
    // Behind the names of a group and a consumer, which may be anything.
    let first = if words.first().is_some_and(|name| is(name, "XREADGROUP")) { 4 } else { 1 };
    match words.iter().skip(first).position(|word| is(word, "BLOCK")) {
        Some(at) => [&words[..first + at], words.get(first + at + 2..).unwrap_or_default()].concat(),
        None => words.to_vec(),
    }
}

/// What a command answers that was carried out on each of its streams.
pub(crate) fn joined(replies: impl IntoIterator<Item = Reply>) -> Answer {
    let mut replies = replies.into_iter();
    let first = replies.next().map_or(Answer::Nil, Answer::from);
    replies.map(Answer::from).fold(first, |all, next| match (all, next) {
        (Answer::Array(mut all), Answer::Array(next)) => {
            all.extend(next);
            Answer::Array(all)
        }
        (error @ Answer::Error(_), _) | (_, error @ Answer::Error(_)) => error,
        (Answer::Array(all), _) | (_, Answer::Array(all)) => Answer::Array(all),
        (all, _) => all,
    })
}
