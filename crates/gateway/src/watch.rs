//! WATCH: what was watched, what was seen of it, and the turn that a connection has (G6, G7 of docs/gateway.md).

use std::collections::HashMap;

use bytes::Bytes as Word;
use claret_commands::Command;
use claret_planted::{Bug, is_planted};
use claret_types::{Bytes, KeyspaceOp, Operation, Reply};

use crate::place::Place;
use crate::turn::Turn;

/// A key that is watched.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) key: Bytes,
    /// What the whole of it was when WATCH was answered.
    pub(crate) version: Reply,
    /// Whether the version counts though something was read: it was written, or not read by operations alone.
    is_version_checked: bool,
    /// What this connection read of it since: operations that demand the answers that they gave.
    seen: Vec<Operation>,
}

/// Bounds what is kept of what a connection reads from one key. After that the version counts.
const SEEN_MAX: usize = 16;

/// The same of one operation, in bytes.
const SEEN_BYTES_MAX: usize = 1_024;

/// What counts of a key that is watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchMode {
    /// All of it, as with any server.
    #[default]
    Keys,
    /// What the connection reads of it, where it reads it by operations between WATCH and MULTI; else all of it.
    Answers,
}

/// See the module's text. A turn is ended before its place is left: fields are dropped in their order.
#[derive(Default)]
pub(crate) struct Watch {
    keys: Vec<Watched>,
    places: HashMap<Bytes, usize>,
    /// Of all keys.
    bytes: usize,
    /// The transaction that has locks on them.
    pub(crate) turn: Option<Turn>,
    /// Its turn among the connections of this gateway.
    pub(crate) place: Option<Place>,
    pub(crate) mode: WatchMode,
}

impl Watch {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// How many keys there are, and how many bytes they have.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.keys.len(), self.bytes)
    }

    pub(crate) fn has(&self, key: &[u8]) -> bool {
        self.places.contains_key(key)
    }

    pub(crate) fn add(&mut self, key: Bytes, version: Reply) {
        self.bytes += key.len();
        self.places.insert(key.clone(), self.keys.len());
        self.keys.push(Watched { key, version, is_version_checked: false, seen: Vec::new() });
    }

    /// The keys that a command uses and this watches, each once; all, if that cannot be told.
    pub(crate) fn of_command(&self, command: &Command, words: &[Word]) -> Vec<Bytes> {
        if command.makes_keys(words) {
            return self.keys.iter().map(|it| it.key.clone()).collect();
        }
        let Ok(places) = command.keys.of(words) else { return Vec::new() };
        if self.keys.is_empty() {
            return Vec::new();
        }
        let mut found: Vec<usize> =
            places.filter_map(|at| self.places.get(&words[at][..]).copied()).collect();
        found.sort_unstable();
        found.dedup();
        found.into_iter().map(|at| self.keys[at].key.clone()).collect()
    }

    /// Whether a command, sent as it is, would see or change what is watched.
    pub(crate) fn concerns(&self, command: &Command, words: &[Word]) -> bool {
        !self.keys.is_empty()
            && (self.mode == WatchMode::Answers || self.turn.is_some())
            && (command.makes_keys(words)
                || command.keys.of(words).is_ok_and(|mut places| places.any(|at| self.has(&words[at]))))
    }

    /// Forgets everything; a turn ends.
    pub(crate) fn forget(&mut self) {
        *self = Watch { mode: self.mode, ..Watch::default() };
    }

    /// All of them.
    pub(crate) fn names(&self) -> Vec<Bytes> {
        self.keys.iter().map(|it| it.key.clone()).collect()
    }

    /// What WATCH saw of each key.
    pub(crate) fn seen(&self) -> Vec<(Bytes, Reply)> {
        self.keys.iter().map(|it| (it.key.clone(), it.version.clone())).collect()
    }

    /// Takes it all, and leaves what is watched by nobody.
    pub(crate) fn take(&mut self) -> Watch {
        let mode = self.mode;
        std::mem::replace(self, Watch { mode, ..Watch::default() })
    }

    fn find(&mut self, key: &[u8]) -> Option<&mut Watched> {
        let at = *self.places.get(key)?;
        self.keys.get_mut(at)
    }

    /// Whether there is room for what one more operation sees of a key.
    pub(crate) fn has_room(&self, key: &[u8], op: &Operation) -> bool {
        let watched = self.places.get(key).map(|at| &self.keys[*at]);
        op.size() <= SEEN_BYTES_MAX && watched.is_some_and(|watched| watched.seen.len() < SEEN_MAX)
    }

    /// What an operation saw of a key.
    pub(crate) fn note_seen(&mut self, key: &[u8], op: &Operation, reply: &Reply) {
        if let Some(watched) = self.find(key) {
            watched.seen.push(op.demanding(reply));
        }
    }

    /// Something else than operations used a key: all of it counts, from WATCH on.
    pub(crate) fn note_whole(&mut self, keys: &[Bytes]) {
        for key in keys {
            if let Some(watched) = self.find(key) {
                watched.is_version_checked = true;
            }
        }
    }

    /// Whether its turn has locks on any of these keys.
    pub(crate) fn holds_any(&self, keys: &[Bytes]) -> bool {
        self.turn.as_ref().is_some_and(|turn| keys.iter().any(|key| turn.holds(key)))
    }

    /// What has to be so for the EXEC: operations that demand their answers.
    pub(crate) fn expected(&self) -> Vec<(Bytes, Operation)> {
        let mut all = Vec::new();
        for watched in &self.keys {
            if self.mode == WatchMode::Keys && !is_planted(Bug::AnswersAloneCount)
                || watched.is_version_checked
                || watched.seen.is_empty()
            {
                all.push((
                    watched.key.clone(),
                    Operation::from(KeyspaceOp::Version).demanding(&watched.version),
                ));
            }
            all.extend(watched.seen.iter().map(|op| (watched.key.clone(), op.clone())));
        }
        if is_planted(Bug::WatchChecksNothing) { Vec::new() } else { all }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<Word> {
        line.split(' ').map(|word| Word::copy_from_slice(word.as_bytes())).collect()
    }

    #[test]
    fn what_is_expected_is_what_was_seen_or_else_the_version() {
        let mut watch = Watch { mode: WatchMode::Answers, ..Watch::default() };
        watch.add("a".into(), Reply::Int(1));
        watch.add("b".into(), Reply::Int(2));
        let get = Operation::from(KeyspaceOp::Version);
        assert_eq!(watch.expected().len(), 2);
        watch.note_seen(b"a", &get, &Reply::Nil);
        watch.note_seen(b"a", &get, &Reply::Nil);
        assert_eq!(watch.expected().len(), 3, "two answers of one, the version of the other");
        watch.mode = WatchMode::Keys;
        assert_eq!(watch.expected().len(), 4, "all of each key counts, what was read besides");
        watch.mode = WatchMode::Answers;
        watch.note_whole(&["a".into()]);
        assert_eq!(watch.expected().len(), 4, "and of the first again");
        assert!(watch.expected().iter().all(|(_, op)| op.expects()));
        watch.mode = WatchMode::Keys;
        let mget = claret_commands::named(b"mget").expect("a command");
        assert!(!watch.concerns(mget, &words("MGET x b")), "it goes as any other");
        watch.mode = WatchMode::Answers;
        assert_eq!(watch.of_command(mget, &words("MGET b x b a")), [Bytes::from("a"), Bytes::from("b")]);
        assert!(watch.concerns(mget, &words("MGET x b")) && !watch.concerns(mget, &words("MGET x y")));
        (0..SEEN_MAX).for_each(|_| watch.note_seen(b"b", &get, &Reply::Nil));
        assert!(!watch.has_room(b"b", &get) && watch.has_room(b"a", &get));
        watch.forget();
        assert!(watch.expected().is_empty() && !watch.has(b"a"));
    }
}
