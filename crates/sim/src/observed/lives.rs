//! Records that end, and are empty afterwards: each period between two ends is a life of the record.
//!
//! Within a life a record only grows. So two reads that are not empty are of one life if, and only if, they share an
//! element, and lives follow from what was seen, without the clock. An end lies between two lives. A read that lacks
//! an element, and belongs to no known life, is ordered if time and the known ends allow only one explanation; if
//! they allow several, nothing is concluded.

use std::collections::{BTreeMap, BTreeSet};

use claret_types::Bytes;

use super::{Act, Judge, Reason};

impl<'a> Judge<'a> {
    /// The life of an element; 0 of all elements of a record that did not end. What nobody saw whose transaction counts is of a
    /// life of its own.
    pub(super) fn life(&self, key: &Bytes, element: u64) -> u64 {
        if !self.ends.contains_key(key) {
            return 0;
        }
        self.lives.get(key).and_then(|lives| lives.get(&element)).copied().unwrap_or(element)
    }

    /// Whether an element was there in the life of these others. In a record without an end all were.
    pub(super) fn shares_life(&self, key: &Bytes, element: u64, others: &BTreeSet<u64>) -> bool {
        let Some(lives) = self.lives.get(key) else { return true };
        let other = others.first().and_then(|other| lives.get(other));
        other.is_some_and(|other| lives.get(&element) == Some(other))
    }

    /// Puts what was seen together into one life.
    pub(super) fn find_lives(&mut self) -> Result<(), String> {
        for at in self.counted() {
            for (key, act) in &self.history[at].acts {
                let (Act::Read(_) | Act::List(_)) = act else { continue };
                if !self.ends.contains_key(key) {
                    continue;
                }
                let lives = self.lives.entry(key).or_default();
                let elements = act.shown().unwrap_or_default();
                let Some(first) = elements.first() else { continue };
                let life = lives.get(first).copied().unwrap_or(*first);
                for element in elements {
                    let other = lives.insert(element, life);
                    if let Some(other) = other.filter(|other| *other != life) {
                        lives.values_mut().filter(|it| **it == other).for_each(|it| *it = life);
                    }
                }
            }
        }
        Ok(())
    }

    /// Lives come one after another, with an end between two; and who comes after an end sees nothing from before it.
    pub(super) fn add_lives(&mut self) -> Result<(), String> {
        for (key, ends) in self.ends.clone() {
            self.order_after(key, &ends);
            let members = self.members_of(key)?;
            if members.len() > ends.len() + 1 {
                let (lives, ends) = (members.len(), ends.len());
                return Err(format!("'{key}' began anew {lives} times, and ended {ends} times at most"));
            }
            let all: Vec<&BTreeSet<usize>> = members.values().collect();
            for (number, one) in all.iter().enumerate() {
                for other in &all[number + 1..] {
                    self.order_lives(key, &ends, one, other)?;
                }
                let certain = ends.iter().filter(|(_, is_certain)| *is_certain);
                certain.for_each(|(end, _)| self.order_around(key, *end, one));
            }
        }
        Ok(())
    }

    /// Whoever comes to a record when it has ended comes after the end. Others may not: a transaction that had voted
    /// comes before it, and may be decided later (P36).
    fn order_after(&mut self, key: &Bytes, ends: &[(usize, bool)]) {
        let users: Vec<usize> = self.counted();
        let users = users.into_iter().filter(|at| self.history[*at].acts.iter().any(|(on, _)| on == key));
        for user in users.collect::<Vec<_>>() {
            for (end, _) in ends {
                if self.counts(*end) && self.is_before(*end, user) {
                    self.edge(*end, user, Reason::Ended(key.clone()));
                }
            }
        }
    }

    /// Who saw or wrote something in each life.
    fn members_of(&self, key: &Bytes) -> Result<BTreeMap<u64, BTreeSet<usize>>, String> {
        let mut members: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
        let Some(lives) = self.lives.get(key) else { return Ok(members) };
        for (element, life) in lives {
            members.entry(*life).or_default().insert(self.writers[key][element]);
        }
        for at in self.counted() {
            let mut own = None;
            for (_, act) in self.history[at].acts.iter().filter(|(on, _)| on == key) {
                let (Act::Read(_) | Act::List(_)) = act else { continue };
                let Some(first) = act.shown().and_then(|shown| shown.first().copied()) else { continue };
                let life = lives[&first];
                if own.replace(life).is_some_and(|before| before != life) {
                    let name = &self.history[at].name;
                    return Err(format!("{name} sees '{key}' before and after it ended"));
                }
                members.entry(life).or_default().insert(at);
            }
        }
        Ok(members)
    }

    /// Which of two lives was first, as far as time tells, and which end lies between them.
    fn order_lives(
        &mut self,
        key: &Bytes,
        ends: &[(usize, bool)],
        one: &BTreeSet<usize>,
        other: &BTreeSet<usize>,
    ) -> Result<(), String> {
        let is_first = |judge: &Self, one: &BTreeSet<usize>, other: &BTreeSet<usize>| {
            one.iter().any(|one| other.iter().any(|other| judge.is_before(*one, *other)))
        };
        let (first, second) = match (is_first(self, one, other), is_first(self, other, one)) {
            (true, true) => {
                return Err(format!("what was in '{key}' came back after it had ended: two lives in turn"));
            }
            (true, false) => (one, other),
            (false, true) => (other, one),
            (false, false) => return Ok(()),
        };
        let fits = |end: usize| {
            !first.iter().any(|it| self.is_before(end, *it))
                && !second.iter().any(|it| self.is_before(*it, end))
        };
        let between: Vec<usize> = ends.iter().map(|(end, _)| *end).filter(|end| fits(*end)).collect();
        match between.as_slice() {
            [] => return Err(format!("'{key}' began anew, and did not end at that time")),
            [end] => {
                first.iter().for_each(|it| self.edge(*it, *end, Reason::Ended(key.clone())));
                second.iter().for_each(|it| self.edge(*end, *it, Reason::Ended(key.clone())));
            }
            _ => {
                for one in first {
                    second.iter().for_each(|other| self.edge(*one, *other, Reason::Ended(key.clone())));
                }
            }
        }
        Ok(())
    }

    /// A life of which one was over before the end began is over with it, and the other way round.
    pub(super) fn order_around(&mut self, key: &Bytes, end: usize, life: &BTreeSet<usize>) {
        if life.iter().any(|it| self.is_before(*it, end)) {
            life.iter().for_each(|it| self.edge(*it, end, Reason::Ended(key.clone())));
        }
        if life.iter().any(|it| self.is_before(end, *it)) {
            life.iter().for_each(|it| self.edge(end, *it, Reason::Ended(key.clone())));
        }
    }

    /// A reader lacks what a writer wrote, and it is not known that they are of one life: it comes before the writer, or
    /// an end lies between them.
    pub(super) fn miss(&mut self, reader: usize, key: &Bytes, element: u64, writer: usize) {
        if reader == writer {
            return;
        }
        let ends = self.ends.get(key).map(Vec::as_slice).unwrap_or_default();
        let fits = |end: &usize| !self.is_before(*end, writer) && !self.is_before(reader, *end);
        let between: Vec<usize> = ends.iter().map(|(end, _)| *end).filter(fits).collect();
        match between.as_slice() {
            [] => self.edge(reader, writer, Reason::Missed(key.clone(), element)),
            [end] if self.is_before(writer, reader) => {
                self.edge(writer, *end, Reason::Ended(key.clone()));
                self.edge(*end, reader, Reason::Ended(key.clone()));
            }
            _ => {}
        }
    }
}
