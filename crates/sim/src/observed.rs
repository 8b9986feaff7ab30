//! Strict serializability judged from observed results alone, without a word from the store.
//!
//! It works for operations whose answers tell who was there before: every element of a set is added once, every bit
//! of a counter is added once, every item of a list is appended once, and reads see the whole record. Then each
//! answer says, for each writer of its record, whether the writer came before the reader or after it; the order of
//! a list's items says in which order their writers came; and what was acknowledged before another began, came
//! before it. A cycle among these "must precede" edges is a violation, and so is an answer that shows what nobody
//! wrote, what was given up, or that lacks the reader's own writes. The method is that of Adya's graphs as Elle
//! applies them to list-append, with sets and counters added, since appends alone never share a lock.
//!
//! What it does not see: anything about records that nobody reads. Complexity: O(reads x writers) a record.

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

/// One operation with what it showed, on a record of one of the three kinds.
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
    judge.find_lists()?;
    judge.add_reads()?;
    judge.add_real_time();
    judge.find_cycle()?;
    let counted = (0..history.len()).filter(|at| judge.counts(*at)).count();
    Ok(Judged { transactions: counted as u64, edges: judge.edge_count })
}

struct Judge<'a> {
    history: &'a [Observed],
    /// Who wrote each element, by record.
    writers: BTreeMap<&'a Bytes, BTreeMap<u64, usize>>,
    /// The longest list seen, by record.
    lists: BTreeMap<&'a Bytes, Vec<u64>>,
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
            seen: BTreeSet::new(),
            edges: vec![Vec::new(); history.len()],
            edge_count: 0,
        }
    }

    fn counts(&self, at: usize) -> bool {
        match self.history[at].known {
            Known::Committed(_) => true,
            Known::Void => false,
            Known::Unknown => self.seen.contains(&at),
        }
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
                if let Act::Add(element) | Act::Append(element) = act
                    && let Some(other) = self.writers.entry(key).or_default().insert(*element, at)
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

    /// Looks at everything that was seen: who wrote it, and which lists there were.
    fn find_lists(&mut self) -> Result<(), String> {
        for (at, transaction) in self.history.iter().enumerate() {
            if transaction.known == Known::Void {
                continue;
            }
            for (key, act) in &transaction.acts {
                let elements: Vec<u64> = match act {
                    Act::Read(elements) => elements.iter().copied().collect(),
                    Act::List(items) => items.clone(),
                    Act::Add(_) | Act::Append(_) => continue,
                };
                for element in &elements {
                    self.note_seen(at, key, *element)?;
                }
                if let Act::List(items) = act {
                    let others = self.without_own(at, key, items);
                    self.lengthen(at, key, others)?;
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
        let known = self.lists.entry(key).or_default();
        if known.iter().zip(&items).any(|(one, other)| one != other) {
            let name = &self.history[at].name;
            return Err(format!("{name} sees '{key}' as {items:?}, another as {known:?}: no order has both"));
        }
        if items.len() > known.len() {
            *known = items;
        }
        Ok(())
    }

    fn add_reads(&mut self) -> Result<(), String> {
        for at in (0..self.history.len()).filter(|at| self.counts(*at)).collect::<Vec<_>>() {
            let transaction = &self.history[at];
            for (place, (key, act)) in transaction.acts.iter().enumerate() {
                let elements: BTreeSet<u64> = match act {
                    Act::Read(elements) => elements.clone(),
                    Act::List(items) => items.iter().copied().collect(),
                    Act::Add(_) | Act::Append(_) => continue,
                };
                self.check_own(at, place, key, &elements)?;
                self.add_read(at, key, &elements);
            }
        }
        for (key, items) in std::mem::take(&mut self.lists) {
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
            } else if self.counts(writer) {
                self.edge(at, writer, Reason::Missed(key.clone(), element));
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
        for at in (0..self.history.len()).filter(|at| self.counts(*at)).collect::<Vec<_>>() {
            self.edges[nodes[&self.history[at].began]].push((at, Reason::Time));
            if let Known::Committed(ended) = self.history[at].known {
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
mod tests {
    use super::*;

    fn transaction(name: &str, began: u64, known: Known, acts: &[(&str, Act)]) -> Observed {
        let acts = acts.iter().map(|(key, act)| (Bytes::from(*key), act.clone())).collect();
        Observed { name: name.to_owned(), began, known, acts }
    }

    fn read(elements: &[u64]) -> Act {
        Act::Read(elements.iter().copied().collect())
    }

    const AT_5: Known = Known::Committed(5);

    fn refused(history: &[Observed], part: &str) {
        let error = judge(history).expect_err("an anomaly");
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn a_serial_history_passes() {
        let history = [
            transaction("w", 1, Known::Committed(2), &[("x", Act::Add(1)), ("l", Act::Append(7))]),
            transaction("v", 3, Known::Committed(4), &[("x", Act::Add(2)), ("l", Act::Append(8))]),
            transaction("r", 5, Known::Committed(6), &[("x", read(&[1, 2])), ("l", Act::List(vec![7, 8]))]),
            transaction("lost", 1, Known::Void, &[("x", Act::Add(3)), ("x", read(&[9]))]),
            transaction("unknown", 1, Known::Unknown, &[("x", Act::Add(4))]),
        ];
        assert_eq!(judge(&history).expect("it is serial").transactions, 3);
    }

    /// Write skew: each read what the other had not yet written.
    #[test]
    fn write_skew_is_a_cycle() {
        let a = transaction("a", 1, AT_5, &[("x", read(&[])), ("y", Act::Add(1))]);
        let b = transaction("b", 1, AT_5, &[("y", read(&[])), ("x", Act::Add(2))]);
        refused(&[a, b], "a did not see 2 of b in 'x'; b did not see 1 of a in 'y'");
    }

    /// A long fork: two readers see two writers in opposite orders.
    #[test]
    fn a_long_fork_is_a_cycle() {
        let history = [
            transaction("w", 1, AT_5, &[("x", Act::Add(1))]),
            transaction("v", 1, AT_5, &[("y", Act::Add(2))]),
            transaction("r", 1, AT_5, &[("x", read(&[1])), ("y", read(&[]))]),
            transaction("s", 1, AT_5, &[("x", read(&[])), ("y", read(&[2]))]),
        ];
        refused(&history, "no order explains");
    }

    /// Half of a transaction is seen.
    #[test]
    fn a_torn_transaction_is_a_cycle() {
        let w = transaction("w", 1, Known::Unknown, &[("x", Act::Add(1)), ("y", Act::Add(2))]);
        let r = transaction("r", 1, AT_5, &[("x", read(&[1])), ("y", read(&[]))]);
        refused(&[w, r], "r saw 1 of w in 'x'");
    }

    /// A read that began after an acknowledgement misses it: serializable, not strictly.
    #[test]
    fn a_stale_read_is_a_cycle_through_time() {
        let w = transaction("w", 1, Known::Committed(2), &[("x", Act::Add(1))]);
        let r = transaction("r", 3, AT_5, &[("x", read(&[]))]);
        refused(&[w.clone(), r], "w was acknowledged");
        let at_once = transaction("r", 2, AT_5, &[("x", read(&[]))]);
        assert!(judge(&[w, at_once]).is_ok(), "what ends and begins at one moment may be concurrent");
    }

    #[test]
    fn what_nobody_wrote_or_who_gave_up_is_not_seen() {
        let r = transaction("r", 1, AT_5, &[("x", read(&[1]))]);
        refused(std::slice::from_ref(&r), "which nobody wrote");
        let w = transaction("w", 1, Known::Void, &[("x", Act::Add(1))]);
        refused(&[w, r], "which w wrote and gave up");
    }

    #[test]
    fn own_writes_are_seen_and_no_sooner() {
        let blind = transaction("t", 1, AT_5, &[("x", Act::Add(1)), ("x", read(&[]))]);
        refused(&[blind], "does not see its own 1");
        let seer = transaction("t", 1, AT_5, &[("l", Act::List(vec![1])), ("l", Act::Append(1))]);
        refused(&[seer], "before it writes it");
    }

    #[test]
    fn two_lists_have_one_order() {
        let history = [
            transaction("w", 1, AT_5, &[("l", Act::Append(1))]),
            transaction("v", 1, AT_5, &[("l", Act::Append(2))]),
            transaction("r", 1, AT_5, &[("l", Act::List(vec![1, 2]))]),
            transaction("s", 1, AT_5, &[("l", Act::List(vec![2]))]),
        ];
        refused(&history, "no order has both");
    }

    /// Appends of two transactions to two lists, in opposite orders.
    #[test]
    fn items_in_opposite_orders_are_a_cycle() {
        let history = [
            transaction("a", 1, AT_5, &[("l", Act::Append(1)), ("m", Act::Append(2))]),
            transaction("b", 1, AT_5, &[("l", Act::Append(3)), ("m", Act::Append(4))]),
            transaction("r", 1, AT_5, &[("l", Act::List(vec![1, 3]))]),
            transaction("s", 1, AT_5, &[("m", Act::List(vec![4, 2]))]),
        ];
        refused(&history, "1 of a stands before 3 of b in 'l'");
    }
}
