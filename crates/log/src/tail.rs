//! The end of the log: what shards have noted and nobody has written yet.
//!
//! A host has one, behind a lock that it takes while it has the shards whose journal it hands over. So what conflicts stands in
//! the log in the order in which it took effect (D3), and each entry has a position before anybody sees what it did.

use std::collections::{BTreeSet, HashMap};

use claret_core::{AttemptId, Journal, Noted, ShardId};
use claret_planted::{Bug, is_planted};
use claret_types::Bytes;

use crate::entry::{Part, put_applied, put_commit, put_opened, put_unique, put_vanished};
use crate::lives::Lives;
use crate::recovery::Recovered;

/// Unique numbers are reserved by so many, and more are reserved when fewer than half of them are left (D9).
const UNIQUE_RESERVED: u64 = 1 << 22;

/// What was gathered since the last time: the body of the next group.
#[derive(Debug, Default)]
pub struct Gathered {
    /// Entries.
    pub bytes: Vec<u8>,
    /// The position of the first byte.
    pub position: u64,
}

/// What an attempt is going to do at a shard.
#[derive(Debug)]
struct Vote {
    shard: u32,
    effects: Vec<u8>,
    /// Records that have vanished since.
    vanished: Vec<Bytes>,
}

/// The end of the log, in memory: what shards have noted and nobody has written yet.
#[derive(Debug)]
pub struct Tail {
    gathered: Vec<u8>,
    /// Where `gathered` begins.
    begin: u64,
    /// What those do who have voted and are not decided.
    voted: HashMap<AttemptId, Vec<Vote>>,
    /// Those that are committed and not carried out everywhere: where the log says so, and the shards whose part is left.
    committing: HashMap<AttemptId, (u64, Vec<u32>)>,
    /// Positions of these commits.
    open: BTreeSet<u64>,
    /// Up to this count unique numbers may be given.
    unique: u64,
    lives: Lives,
}

impl Tail {
    /// That of a new store, or the one behind what was read.
    pub fn new(read: Option<&Recovered>) -> Self {
        let mut gathered = Vec::new();
        // They took place when the store was read, before whatever comes now.
        let read_again = read.filter(|_| !is_planted(Bug::PartsAtEndAgain));
        for (commit, shard) in read_again.into_iter().flat_map(|read| &read.parts_at_end) {
            put_applied(&mut gathered, *commit, *shard);
        }
        Tail {
            gathered,
            begin: read.map_or(0, |read| read.position),
            voted: HashMap::new(),
            committing: HashMap::new(),
            open: BTreeSet::new(),
            unique: read.map_or(0, |read| read.unique),
            lives: read.map(|read| read.lives.clone()).unwrap_or_default(),
        }
    }

    /// The store goes on as this life, a number that no other has. Before anything is noted.
    pub fn open(&mut self, life: u64) {
        self.lives.add(life, self.begin);
        put_opened(&mut self.gathered, life, self.begin);
    }

    /// All lives, with this one.
    pub fn lives(&self) -> &Lives {
        &self.lives
    }

    /// Says once more which lives there were, for the log behind a snapshot: from where on it is needed for that.
    pub fn say_lives(&mut self) -> u64 {
        let from = self.position();
        for (life, at) in self.lives.iter() {
            put_opened(&mut self.gathered, life, at);
        }
        from
    }

    /// The position of the next entry.
    pub fn position(&self) -> u64 {
        self.begin + self.gathered.len() as u64
    }

    /// Up to this count unique numbers may be given.
    pub fn unique(&self) -> u64 {
        self.unique
    }

    /// Bytes that nobody has taken.
    pub fn waiting(&self) -> usize {
        self.gathered.len()
    }

    /// Everything from here on has not taken place in the shards, as far as the log says (D6).
    pub fn open_since(&self) -> u64 {
        let first = self.open.first().copied().filter(|_| !is_planted(Bug::CutPassesOpenCommit));
        first.unwrap_or_else(|| self.position())
    }

    /// The count at which unique numbers begin that nobody was given: to be asked once, at the beginning.
    pub fn begin_unique(&mut self) -> u64 {
        let begin = self.unique;
        self.reserve_unique(begin);
        begin
    }

    /// A shard has given unique numbers up to this count.
    pub fn reserve_unique(&mut self, count: u64) {
        if count + UNIQUE_RESERVED / 2 >= self.unique {
            self.unique = count + UNIQUE_RESERVED;
            put_unique(&mut self.gathered, self.unique);
        }
    }

    /// Takes over what a shard noted. The caller has the shard.
    pub fn note(&mut self, shard: ShardId, journal: &mut Journal) {
        for (note, effects) in journal.notes() {
            match note {
                Noted::Done(_) => self.commit_at_once(effects),
                Noted::Voted(attempt, _) => {
                    let vote = Vote { shard: shard.0, effects: effects.to_vec(), vanished: Vec::new() };
                    self.voted.entry(*attempt).or_default().push(vote);
                }
                Noted::Committed(attempt, _) => self.commit(*attempt, effects),
                Noted::Vanished(key) => self.vanish(shard, key),
                Noted::Applied(attempt) => {
                    // All had voted, and the first of them is carried out.
                    if self.voted.contains_key(attempt) {
                        self.commit(*attempt, &[]);
                    }
                    self.apply(*attempt, shard);
                }
                Noted::Dropped(attempt) => self.drop_vote(*attempt, shard),
            }
        }
        journal.clear();
    }

    /// Takes over what was done at once, on several shards all of which the caller has: one transaction.
    pub fn note_together<'a>(&mut self, journals: impl Iterator<Item = &'a mut Journal>) {
        let mut effects = Vec::new();
        for journal in journals {
            journal.notes().for_each(|(_, done)| effects.extend_from_slice(done));
            journal.clear();
        }
        self.commit_at_once(&effects);
    }

    /// What is to be written next. Nothing waits after that.
    pub fn take(&mut self, into: &mut Gathered) {
        into.bytes.clear();
        into.position = self.begin;
        std::mem::swap(&mut into.bytes, &mut self.gathered);
        self.begin += into.bytes.len() as u64;
    }

    fn commit_at_once(&mut self, effects: &[u8]) {
        if !effects.is_empty() {
            put_commit(&mut self.gathered, effects, std::iter::empty());
        }
    }

    fn commit(&mut self, attempt: AttemptId, done: &[u8]) {
        let Some(parts) = self.voted.remove(&attempt) else { return self.commit_at_once(done) };
        let position = self.position();
        put_commit(&mut self.gathered, done, parts.iter().map(Vote::part));
        self.committing.insert(attempt, (position, parts.iter().map(|vote| vote.shard).collect()));
        self.open.insert(position);
    }

    fn apply(&mut self, attempt: AttemptId, shard: ShardId) {
        let Some((commit, left)) = self.committing.get_mut(&attempt) else { return };
        let Some(at) = left.iter().position(|of| *of == shard.0) else { return }; // It had only read there.
        left.swap_remove(at);
        let (commit, is_done) = (*commit, left.is_empty());
        put_applied(&mut self.gathered, commit, shard.0);
        if is_done {
            self.open.remove(&commit);
            self.committing.remove(&attempt);
        }
    }

    fn drop_vote(&mut self, attempt: AttemptId, shard: ShardId) {
        if let Some(parts) = self.voted.get_mut(&attempt) {
            parts.retain(|vote| vote.shard != shard.0);
            if parts.is_empty() {
                self.voted.remove(&attempt);
            }
        }
    }

    /// O(those who have voted and are not decided).
    fn vanish(&mut self, shard: ShardId, key: &Bytes) {
        // In any order: each by itself.
        for vote in self.voted.values_mut().flatten().filter(|vote| vote.shard == shard.0) {
            vote.vanished.push(key.clone());
        }
        put_vanished(&mut self.gathered, shard.0, key);
    }
}

impl Vote {
    fn part(&self) -> Part<'_> {
        let vanished = self.vanished.iter().map(|key| &key[..]).collect();
        Part { shard: self.shard, effects: &self.effects, vanished }
    }
}
