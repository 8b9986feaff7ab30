//! What a transaction asks that is not about a key of its own: how many keys there are, which, a setting, a connection.
//!
//! Whoever runs the transaction finds the answer outside of it, beforehand. It is not isolated: others may change it meanwhile. But
//! what the transaction itself has written by then counts, as on one server: keys that it made are there, and keys that it removed are not.

use std::collections::{BTreeMap, HashMap, HashSet};

use claret::Tx;
use claret_planted::{Bug, is_planted};
use claret_types::{Access, Bytes, KeyspaceOp, Operation, Reply};

use crate::answer::Answer;
use crate::fault::Fault;
use crate::runner::Runner;
use crate::table::{Command, named};

/// A question, and what was found outside of the transaction.
#[derive(Clone, Debug)]
pub struct Question {
    command: &'static Command,
    words: Vec<Bytes>,
    found: Answer,
}

/// Keys that a transaction has written, and whether each was there before, where that was looked at.
#[derive(Debug, Default)]
pub(crate) struct Written {
    were_there: BTreeMap<Bytes, Option<bool>>,
    /// Whether those are there on which servers carry out commands with the commit, as far as these tell.
    run: HashMap<Bytes, bool>,
}

/// What has become of them by now.
#[derive(Default)]
struct Changed {
    made: Vec<Bytes>,
    removed: HashSet<Bytes>,
    /// Those that are there, whether or not they were before.
    there: Vec<Bytes>,
    /// So many more are there than before, of those that were looked at then.
    more: i64,
}

impl Question {
    /// With the words behind its name; nothing is found so far.
    pub(crate) fn new(command: &'static Command, words: Vec<Bytes>) -> Self {
        Question { command, words, found: Answer::Nil }
    }

    /// What is asked.
    pub fn command(&self) -> &'static Command {
        self.command
    }

    /// The words behind its name.
    pub fn words(&self) -> &[Bytes] {
        &self.words
    }

    /// What was found outside of the transaction. Lists of keys are arrays of strings, numbers integers, and of `RANDOMKEY` there are
    /// several, of which one that stays is the answer.
    pub fn tell(&mut self, found: Answer) {
        self.found = found;
    }

    /// What was found, where what the transaction writes does not matter.
    pub(crate) fn found(&self) -> Option<&Answer> {
        (!self.is_of_keys()).then_some(&self.found)
    }

    /// Whether the answer depends on which keys there are.
    pub(crate) fn is_of_keys(&self) -> bool {
        is_of_keys(self.command)
    }

    /// Its answer within a transaction that has written some keys.
    ///
    /// # Errors
    /// Why the transaction cannot go on.
    pub(crate) async fn answer(
        &self,
        tx: &Tx,
        runner: &dyn Runner,
        written: &Written,
    ) -> Result<Answer, Fault> {
        if !self.is_of_keys() || is_planted(Bug::KeysAsFound) {
            return Ok(self.found.clone());
        }
        let mut changed = written.changed(tx).await?;
        if let Some(kind) = self.option(b"TYPE") {
            changed.made = of_kind(tx, runner, changed.made, kind).await?;
        }
        Ok(self.with(changed))
    }

    fn with(&self, changed: Changed) -> Answer {
        let Changed { mut made, removed, mut there, more } = changed;
        let pattern = match self.command.name {
            "KEYS" => self.words.first(),
            _ => self.option(b"MATCH"),
        };
        if let Some(pattern) = pattern {
            made.retain(|key| claret::keys::matches_pattern(pattern, key));
            there.retain(|key| claret::keys::matches_pattern(pattern, key));
        }
        let listed = |found: &[Answer], made: Vec<Bytes>| {
            if made.is_empty() && removed.is_empty() {
                return Answer::Array(found.to_vec()); // Mostly.
            }
            let stays = |key: &&Answer| !matches!(key, Answer::Bulk(key) if removed.contains(key));
            let stay = found.iter().filter(stays).cloned();
            // Somebody else may have made it meanwhile.
            let known: HashSet<&Bytes> = found.iter().filter_map(of_bulk).collect();
            let more: Vec<Answer> =
                made.into_iter().filter(|key| !known.contains(key)).map(Answer::Bulk).collect();
            Answer::Array(stay.chain(more).collect())
        };
        match (self.command.name, &self.found) {
            // Others make and remove keys meanwhile.
            ("DBSIZE", Answer::Int(count)) => Answer::Int((count + more).max(0)),
            ("KEYS", Answer::Array(found)) => listed(found, there),
            ("SCAN", Answer::Array(page)) => match &page[..] {
                [next, Answer::Array(found)] => {
                    // What was made is on the last page.
                    let is_last = matches!(next, Answer::Bulk(next) if &next[..] == b"0");
                    let made = if is_last { made } else { Vec::new() };
                    Answer::Array(vec![next.clone(), listed(found, made)])
                }
                _ => self.found.clone(),
            },
            ("RANDOMKEY", Answer::Array(found)) => {
                let stays = found.iter().filter_map(of_bulk).find(|key| !removed.contains(*key));
                stays.cloned().or_else(|| there.into_iter().next()).map_or(Answer::Nil, Answer::Bulk)
            }
            _ => self.found.clone(),
        }
    }

    /// The word behind an option.
    fn option(&self, name: &[u8]) -> Option<&Bytes> {
        // Behind a cursor they stand in pairs.
        let mut pairs = self.words.get(1..)?.chunks_exact(2);
        pairs.find(|pair| pair[0].eq_ignore_ascii_case(name)).map(|pair| &pair[1])
    }
}

impl Written {
    /// Looks at keys before they are written. Each is looked at once.
    ///
    /// # Errors
    /// Why the transaction cannot go on.
    pub(crate) async fn before(tx: &Tx, keys: impl Iterator<Item = Bytes>) -> Result<Self, Fault> {
        let mut known = HashSet::new();
        let keys: Vec<Bytes> = keys.filter(|key| known.insert(key.clone())).collect();
        let were_there = are_there(tx, &keys).await?.into_iter().map(Some);
        Ok(Written { were_there: keys.into_iter().zip(were_there).collect(), run: HashMap::new() })
    }

    /// These keys are written. `looks`: it is looked at whether they are there.
    ///
    /// # Errors
    /// Why the transaction cannot go on.
    pub(crate) async fn add(
        &mut self,
        tx: &Tx,
        keys: impl Iterator<Item = Bytes>,
        looks: bool,
    ) -> Result<(), Fault> {
        let keys: Vec<Bytes> = keys.filter(|key| !self.were_there.contains_key(key)).collect();
        let were_there = match looks {
            true => are_there(tx, &keys).await?.into_iter().map(Some).collect(),
            false => vec![None; keys.len()],
        };
        self.were_there.extend(keys.into_iter().zip(were_there));
        Ok(())
    }

    /// Whether it was looked at whether each was there.
    pub(crate) fn is_counted(&self) -> bool {
        self.were_there.values().all(Option::is_some)
    }

    /// A server is going to carry out a command on a key.
    pub(crate) fn note_run(&mut self, key: &Bytes, op: &Operation) {
        let words = op.command().map_or(&[][..], |command| command.words());
        let says = |word: &[u8]| words.iter().any(|it| it.eq_ignore_ascii_case(word));
        let is_there = match words.first().map(|name| name.to_ascii_uppercase()).as_deref() {
            Some(b"DEL" | b"UNLINK") => false,
            Some(b"XADD") if !says(b"NOMKSTREAM") => true,
            Some(b"XGROUP") if says(b"MKSTREAM") => true,
            Some(b"PFADD" | b"GEOADD" | b"BITFIELD" | b"RESTORE") => true,
            // A command that makes it again is like one of these.
            _ if self.run.get(key) == Some(&false) && op.method().access != Access::Read => true,
            _ => return, // It is there if it was.
        };
        self.run.insert(key.clone(), is_there);
    }

    async fn changed(&self, tx: &Tx) -> Result<Changed, Fault> {
        let mut changed = Changed::default();
        let keys: Vec<Bytes> = self.were_there.keys().cloned().collect();
        let are_there = are_there(tx, &keys).await?;
        for ((key, was), is) in self.were_there.iter().zip(are_there) {
            let is = self.run.get(key).copied().unwrap_or(is);
            if is {
                changed.there.push(key.clone());
            }
            changed.more += was.map_or(0, |was| i64::from(is) - i64::from(was));
            // Where nobody has looked: one that is listed twice is listed, and one that was not there is not.
            match (was, is) {
                (Some(false) | None, true) => changed.made.push(key.clone()),
                (Some(true) | None, false) => _ = changed.removed.insert(key.clone()),
                (Some(_), _) => {}
            }
        }
        Ok(changed)
    }
}

/// Whether the answer of a command depends on which keys there are.
pub(crate) fn is_of_keys(command: &Command) -> bool {
    matches!(command.name, "DBSIZE" | "KEYS" | "SCAN" | "RANDOMKEY")
}

async fn are_there(tx: &Tx, keys: &[Bytes]) -> Result<Vec<bool>, Fault> {
    // All are sent before the first is waited for.
    let asked: Vec<_> = keys.iter().map(|key| tx.execute(key.clone(), KeyspaceOp::Exists.into())).collect();
    let mut are_there = Vec::with_capacity(asked.len());
    for found in asked {
        are_there.push(found.await? == Reply::Int(1));
    }
    Ok(are_there)
}

/// Those of these keys that hold this kind of record.
async fn of_kind(tx: &Tx, runner: &dyn Runner, keys: Vec<Bytes>, kind: &Bytes) -> Result<Vec<Bytes>, Fault> {
    let type_of = named(b"TYPE").expect("a command");
    let mut of_kind = Vec::new();
    for key in keys {
        let its = type_of.run(tx, runner, std::slice::from_ref(&key)).await?;
        if matches!(its, Answer::Simple(its) if kind.eq_ignore_ascii_case(its.as_bytes())) {
            of_kind.push(key);
        }
    }
    Ok(of_kind)
}

fn of_bulk(answer: &Answer) -> Option<&Bytes> {
    match answer {
        Answer::Bulk(bytes) => Some(bytes),
        _ => None,
    }
}
