//! Strict serializability, judged from observed results alone, without trusting the store.
//!
//! It works for operations whose answers tell who was there before: every element of a set is added once, every bit
//! of a counter is added once, every item of a list is appended once, and reads see the whole record. Then each
//! answer says, for each writer of its record, whether the writer came before the reader or after it; the order of a
//! list's items says in which order their writers came; and what was acknowledged before another began, came before
//! it. A cycle among these "must precede" edges is a violation, and so is an answer that shows what nobody wrote,
//! what was aborted, or that lacks the reader's own writes. The method is that of Adya's graphs as Elle applies them
//! to list-append, with sets and counters added, since appends alone never share a lock.
//!
//! **Registers** hold one value at a time, each written once. A reader comes after the writer of what it saw, and
//! before every transaction that overwrote it. Two transactions that swapped the same value for their own have lost
//! an update (`registers.rs`).
//!
//! **Records that end** (they expire, or are flushed): an end is a transaction of its own, which leaves nothing. A read
//! that lacks an element then comes before its writer, or after an end that comes after its writer. Only what is certain
//! becomes an edge, so nothing that was right is called wrong (`lives.rs`).
//!
//! It sees nothing of records that nobody reads. Complexity: O(reads x writers) for each record.

mod lives;
mod registers;

use std::collections::{BTreeMap, BTreeSet};

use claret_types::Bytes;

/// How one transaction ended, for those outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Acknowledged at this moment.
    Committed(u64),
    /// Given up: nobody may ever see it.
    Void,
    /// Nobody was told. It counts as committed if its writes are seen.
    Unknown,
}

/// One operation with what it showed, on a record of one of the four kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// An element was added to a set, or a bit to a counter, by this transaction alone.
    Add(u64),
    /// All elements that were there.
    Read(BTreeSet<u64>),
    /// An item was appended to a list.
    Append(u64),
    /// All items, in order.
    List(Vec<u64>),
    /// The answer of an append: this item made the list so long.
    Stands(u64, u64),
    /// A value was put into a register, whatever was there.
    Put(u64),
    /// The same, and what was there.
    Swap {
        /// What was there.
        old: Option<u64>,
        /// What is there now.
        new: u64,
    },
    /// What a register holds.
    Get(Option<u64>),
    /// The record ended: it is certain that whatever was there is gone.
    End,
    /// The record may have ended.
    MayEnd,
}

impl Act {
    /// What it writes.
    fn written(&self) -> Option<u64> {
        match self {
            Act::Add(value) | Act::Append(value) | Act::Put(value) | Act::Swap { new: value, .. } => {
                Some(*value)
            }
            Act::Read(_) | Act::List(_) | Act::Stands(..) | Act::Get(_) | Act::End | Act::MayEnd => None,
        }
    }

    /// What it shows, if it shows a record.
    fn shown(&self) -> Option<Vec<u64>> {
        match self {
            Act::Read(elements) => Some(elements.iter().copied().collect()),
            Act::List(items) => Some(items.clone()),
            Act::Get(value) | Act::Swap { old: value, .. } => Some(value.iter().copied().collect()),
            Act::Add(_) | Act::Append(_) | Act::Stands(..) | Act::Put(_) | Act::End | Act::MayEnd => None,
        }
    }

    fn is_of_register(&self) -> bool {
        matches!(self, Act::Put(_) | Act::Swap { .. } | Act::Get(_))
    }
}

/// One transaction as it was observed.
#[derive(Clone, Debug)]
pub struct Observed {
    /// For messages.
    pub name: String,
    /// When it began.
    pub began: u64,
    /// How it ended.
    pub known: Known,
    /// What it did, in order.
    pub acts: Vec<(Bytes, Act)>,
}

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// Transactions that committed.
    pub transactions: u64,
    /// Edges between them.
    pub edges: u64,
}

/// Why one comes before another.
#[derive(Clone, Debug)]
enum Reason {
    /// The second saw what the first wrote.
    Saw(Bytes, u64),
    /// The first did not see what the second wrote.
    Missed(Bytes, u64),
    /// The first item stands before the second.
    Order(Bytes, u64, u64),
    /// The first saw a value that the second put another over.
    Rewrote(Bytes, u64),
    /// The record ended in between.
    Ended(Bytes),
    /// Acknowledged before the other began (through a moment in time).
    Time,
}

/// Of so many cycles the shortest is told.
const CYCLES_MAX: usize = 200;

/// Judges a history.
///
/// # Errors
/// The first violation found, in words: of a cycle, every edge with its reason.
pub fn judge(history: &[Observed]) -> Result<Judged, String> {
    let mut judge = Judge::new(history);
    judge.find_writers()?;
    judge.find_seen()?;
    judge.find_lives()?;
    judge.find_lists()?;
    judge.add_reads()?;
    judge.add_registers()?;
    judge.add_lives()?;
    judge.add_real_time();
    judge.find_cycle()?;
    let is_transaction = |at: &usize| judge.counts(*at) && !judge.is_end(*at);
    let counted = (0..history.len()).filter(is_transaction).count();
    Ok(Judged { transactions: counted as u64, edges: judge.edge_count })
}

struct Judge<'a> {
    history: &'a [Observed],
    /// Who wrote each element, by record.
    writers: BTreeMap<&'a Bytes, BTreeMap<u64, usize>>,
    /// The longest list seen, by record and life.
    lists: BTreeMap<(&'a Bytes, u64), Vec<u64>>,
    /// Who ended each record, and whether it is certain.
    ends: BTreeMap<&'a Bytes, Vec<(usize, bool)>>,
    /// The life of each element that was seen, named by one of them, for records that ended.
    lives: BTreeMap<&'a Bytes, BTreeMap<u64, u64>>,
    /// Unknown ones of which something was seen.
    seen: BTreeSet<usize>,
    /// Transactions first, then moments in time.
    edges: Vec<Vec<(usize, Reason)>>,
    edge_count: u64,
}

impl<'a> Judge<'a> {
    fn new(history: &'a [Observed]) -> Self {
        Judge {
            history,
            writers: BTreeMap::new(),
            lists: BTreeMap::new(),
            ends: BTreeMap::new(),
            lives: BTreeMap::new(),
            seen: BTreeSet::new(),
            edges: vec![Vec::new(); history.len()],
            edge_count: 0,
        }
    }

    fn counts(&self, at: usize) -> bool {
        match self.history[at].known {
            Known::Committed(_) => true,
            Known::Void => false,
            Known::Unknown => self.seen.contains(&at) || self.is_end(at),
        }
    }

    fn is_end(&self, at: usize) -> bool {
        matches!(self.history[at].acts.first(), Some((_, Act::End | Act::MayEnd)))
    }

    /// All that count, in the order of the history.
    fn counted(&self) -> Vec<usize> {
        (0..self.history.len()).filter(|at| self.counts(*at)).collect()
    }

    /// When it was certainly over.
    fn ended(&self, at: usize) -> u64 {
        match self.history[at].known {
            Known::Committed(ended) => ended,
            Known::Void | Known::Unknown => u64::MAX,
        }
    }

    /// Whether one was over when another began.
    fn is_before(&self, one: usize, other: usize) -> bool {
        self.ended(one) < self.history[other].began
    }

    fn edge(&mut self, from: usize, to: usize, reason: Reason) {
        if from != to {
            self.edge_count += 1;
            self.edges[from].push((to, reason));
        }
    }

    fn find_writers(&mut self) -> Result<(), String> {
        for (at, transaction) in self.history.iter().enumerate() {
            for (key, act) in &transaction.acts {
                if let Act::End | Act::MayEnd = act {
                    self.ends.entry(key).or_default().push((at, *act == Act::End));
                }
                if let Some(element) = act.written()
                    && let Some(other) = self.writers.entry(key).or_default().insert(element, at)
                {
                    let (one, two) = (&self.history[other].name, &transaction.name);
                    return Err(format!(
                        "the history is not usable: {one} and {two} both write {element} to '{key}'"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Looks at everything that was seen: who wrote it?
    fn find_seen(&mut self) -> Result<(), String> {
        let known = self.history.iter().enumerate().filter(|(_, it)| it.known != Known::Void);
        for (at, transaction) in known {
            for (key, act) in &transaction.acts {
                for element in act.shown().unwrap_or_default() {
                    self.note_seen(at, key, element)?;
                }
            }
        }
        Ok(())
    }

    /// Which lists there were, and whether what an append answered is true of them.
    fn find_lists(&mut self) -> Result<(), String> {
        for (at, transaction) in self.history.iter().enumerate() {
            for (key, act) in &transaction.acts {
                let Act::List(items) = act else { continue };
                // Of which life it is that nobody else saw is not known.
                let has_a_life = self.counts(at) || !self.ends.contains_key(key);
                if transaction.known != Known::Void && has_a_life {
                    let others = self.without_own(at, key, items);
                    self.lengthen(at, key, others)?;
                }
            }
        }
        for transaction in self.history.iter().filter(|it| matches!(it.known, Known::Committed(_))) {
            for (key, act) in &transaction.acts {
                let Act::Stands(item, length) = act else { continue };
                let list = self.lists.get(&(key, self.life(key, *item)));
                let place = list.and_then(|items| items.iter().position(|it| it == item));
                if let Some(place) = place.filter(|place| *place as u64 + 1 != *length) {
                    let name = &transaction.name;
                    return Err(format!(
                        "{name} heard that its {item} made '{key}' {length} long, and it stands at place {}",
                        place + 1
                    ));
                }
            }
        }
        Ok(())
    }

    fn note_seen(&mut self, reader: usize, key: &Bytes, element: u64) -> Result<(), String> {
        let name = &self.history[reader].name;
        let Some(writer) = self.writers.get(key).and_then(|writers| writers.get(&element)) else {
            return Err(format!("{name} sees {element} in '{key}', which nobody wrote"));
        };
        if *writer == reader {
            return Ok(());
        }
        match self.history[*writer].known {
            Known::Committed(_) => {}
            Known::Unknown => {
                self.seen.insert(*writer);
            }
            Known::Void => {
                let writer = &self.history[*writer].name;
                return Err(format!("{name} sees {element} in '{key}', which {writer} wrote and gave up"));
            }
        }
        Ok(())
    }

    /// One's own items are not committed yet and stand at the end.
    fn without_own(&self, at: usize, key: &Bytes, items: &[u64]) -> Vec<u64> {
        let writers = self.writers.get(key);
        let own = |item: &u64| writers.and_then(|writers| writers.get(item)) == Some(&at);
        let others = items.iter().rposition(|item| !own(item)).map_or(0, |last| last + 1);
        items[..others].to_vec()
    }

    fn lengthen(&mut self, at: usize, key: &'a Bytes, items: Vec<u64>) -> Result<(), String> {
        let Some(first) = items.first() else { return Ok(()) };
        let distinct: BTreeSet<&u64> = items.iter().collect();
        if distinct.len() < items.len() {
            let name = &self.history[at].name;
            return Err(format!("{name} sees an item of '{key}' twice: {items:?}"));
        }
        let known = self.lists.entry((key, self.life(key, *first))).or_default();
        if known.iter().zip(&items).any(|(one, other)| one != other) {
            let name = &self.history[at].name;
            return Err(format!("{name} sees '{key}' as {items:?}, another as {known:?}: no order has both"));
        }
        if items.len() > known.len() {
            *known = items;
        }
        Ok(())
    }
}

/// Edges.
impl<'a> Judge<'a> {
    fn add_reads(&mut self) -> Result<(), String> {
        for at in self.counted() {
            let transaction = &self.history[at];
            for (place, (key, act)) in transaction.acts.iter().enumerate() {
                let elements: BTreeSet<u64> = match act {
                    Act::Read(elements) => elements.clone(),
                    Act::List(items) => items.iter().copied().collect(),
                    _ => continue,
                };
                self.check_own(at, place, key, &elements)?;
                self.add_read(at, key, &elements);
            }
        }
        for ((key, _), items) in std::mem::take(&mut self.lists) {
            for pair in items.windows(2) {
                let (one, two) = (self.writers[key][&pair[0]], self.writers[key][&pair[1]]);
                self.edge(one, two, Reason::Order(key.clone(), pair[0], pair[1]));
            }
        }
        Ok(())
    }

    /// A transaction sees what it wrote before, and not what it writes afterwards.
    fn check_own(
        &self,
        at: usize,
        place: usize,
        key: &Bytes,
        elements: &BTreeSet<u64>,
    ) -> Result<(), String> {
        for (other, (_, act)) in self.history[at].acts.iter().enumerate().filter(|(_, (on, _))| on == key) {
            let (Act::Add(element) | Act::Append(element)) = act else { continue };
            let name = &self.history[at].name;
            match (other < place, elements.contains(element)) {
                (true, false) => return Err(format!("{name} does not see its own {element} in '{key}'")),
                (false, true) => return Err(format!("{name} sees {element} in '{key}' before it writes it")),
                (true, true) | (false, false) => {}
            }
        }
        Ok(())
    }

    fn add_read(&mut self, at: usize, key: &Bytes, elements: &BTreeSet<u64>) {
        let Some(writers) = self.writers.get(key) else { return };
        for (element, writer) in writers.clone() {
            if elements.contains(&element) {
                self.edge(writer, at, Reason::Saw(key.clone(), element));
            } else if self.counts(writer) && self.shares_life(key, element, elements) {
                self.edge(at, writer, Reason::Missed(key.clone(), element));
            } else if self.counts(writer) {
                self.miss(at, key, element, writer);
            }
        }
    }

    /// Moments in time are nodes of their own, in a chain: linear in the number of transactions.
    fn add_real_time(&mut self) {
        let mut moments: BTreeSet<u64> = BTreeSet::new();
        for at in (0..self.history.len()).filter(|at| self.counts(*at)) {
            moments.insert(self.history[at].began);
            if let Known::Committed(ended) = self.history[at].known {
                moments.insert(ended);
            }
        }
        let first = self.edges.len();
        let nodes: BTreeMap<u64, usize> =
            moments.iter().enumerate().map(|(number, moment)| (*moment, first + number)).collect();
        self.edges.resize(first + nodes.len(), Vec::new());
        for node in first + 1..self.edges.len() {
            self.edges[node - 1].push((node, Reason::Time));
        }
        for at in self.counted() {
            self.edges[nodes[&self.history[at].began]].push((at, Reason::Time));
            // An end is over for those who come to its record (`add_lives`): who voted before it may be decided after it.
            if let Known::Committed(ended) = self.history[at].known
                && !self.is_end(at)
            {
                // Strictly later: what ends and begins at one moment may be concurrent.
                if let Some((_, node)) = nodes.range(ended.saturating_add(1)..).next() {
                    self.edges[at].push((*node, Reason::Time));
                }
            }
        }
    }

    /// Takes away whoever nobody precedes, and then whoever precedes nobody, until nobody is left; otherwise there is a
    /// cycle. O(edges) where there is none.
    fn find_cycle(&self) -> Result<(), String> {
        let mut taken = vec![false; self.edges.len()];
        let forward = |at: usize| self.edges[at].iter().map(|(to, _)| *to).collect::<Vec<_>>();
        peel(&mut taken, forward);
        if taken.iter().all(|taken| *taken) {
            return Ok(());
        }
        let mut backward = vec![Vec::new(); self.edges.len()];
        for (from, edges) in self.edges.iter().enumerate() {
            edges.iter().for_each(|(to, _)| backward[*to].push(from));
        }
        peel(&mut taken, |at| backward[at].clone());
        let left = (0..self.history.len()).filter(|at| !taken[*at]);
        let cycles = left.filter_map(|at| self.cycle_through(at, &taken)).take(CYCLES_MAX);
        let shortest = cycles.min_by_key(Vec::len);
        Err(self.describe(&shortest.expect("what is left has a cycle through a transaction")))
    }

    /// The shortest way from a transaction back to itself.
    fn cycle_through(&self, start: usize, taken: &[bool]) -> Option<Vec<(usize, &Reason)>> {
        let mut came: BTreeMap<usize, (usize, &Reason)> = BTreeMap::new();
        let mut queue = std::collections::VecDeque::from([start]);
        while let Some(at) = queue.pop_front() {
            for (to, reason) in self.edges[at].iter().filter(|(to, _)| !taken[*to]) {
                if *to == start {
                    let mut cycle = vec![(at, reason)];
                    let mut back = at;
                    while back != start {
                        let (before, reason) = came[&back];
                        cycle.push((before, reason));
                        back = before;
                    }
                    cycle.reverse();
                    return Some(cycle);
                }
                if !came.contains_key(to) {
                    came.insert(*to, (at, reason));
                    queue.push_back(*to);
                }
            }
        }
        None
    }

    fn describe(&self, cycle: &[(usize, &Reason)]) -> String {
        let name = |at: usize| self.history.get(at).map(|transaction| transaction.name.as_str());
        let mut steps = Vec::new();
        for (number, (at, reason)) in cycle.iter().enumerate() {
            let next = name(cycle[(number + 1) % cycle.len()].0);
            let Some(from) = name(*at) else { continue };
            let to = next.unwrap_or("one that began later");
            steps.push(match reason {
                Reason::Saw(key, element) => format!("{to} saw {element} of {from} in '{key}'"),
                Reason::Missed(key, element) => format!("{from} did not see {element} of {to} in '{key}'"),
                Reason::Order(key, one, two) => {
                    format!("{one} of {from} stands before {two} of {to} in '{key}'")
                }
                Reason::Rewrote(key, value) => {
                    format!("{from} saw {value} in '{key}', over which {to} put another value")
                }
                Reason::Ended(key) => format!("{from} and then {to}: '{key}' ended in between"),
                Reason::Time => format!("{from} was acknowledged before a later one of these began"),
            });
        }
        format!("no order explains the results: {}", steps.join("; "))
    }
}

/// Takes away those that none of those left leads to, again and again. O(edges).
fn peel(taken: &mut [bool], successors: impl Fn(usize) -> Vec<usize>) {
    let mut incoming = vec![0usize; taken.len()];
    for at in (0..taken.len()).filter(|at| !taken[*at]) {
        successors(at).into_iter().for_each(|to| incoming[to] += 1);
    }
    let mut free: Vec<usize> = (0..taken.len()).filter(|at| !taken[*at] && incoming[*at] == 0).collect();
    while let Some(at) = free.pop() {
        taken[at] = true;
        for to in successors(at).into_iter().filter(|to| !taken[*to]) {
            incoming[to] -= 1;
            if incoming[to] == 0 {
                free.push(to);
            }
        }
    }
}

#[cfg(test)]
mod tests;
