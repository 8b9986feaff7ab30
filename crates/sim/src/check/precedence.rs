//! What must come before what, where the serial order alone does not show that it agrees with real time (P64).
//!
//! Timestamps order what conflicts. Whoever met no conflict is told before its timestamp has passed everywhere (P78), so a later
//! one may have a smaller timestamp. That is right as long as nothing forces the two into that order: the edges "conflicts with,
//! and has the larger timestamp" and "began after the other's user was told" must have no circle.

use std::collections::BTreeMap;

use claret_core::Time;
use claret_types::{Bytes, Claims, TypeInfo};

use super::violation::Violation;

/// Something that has its place in the serial order.
#[derive(Debug)]
struct Node {
    name: String,
    began: Time,
    /// When its user heard of its end.
    told: Option<Time>,
}

/// What a node did on a record.
#[derive(Debug)]
enum Use {
    /// An error, which tells of all of the record, and commutes with other errors.
    Error,
    /// The end of the record, which commutes with nothing.
    End,
    Claims(&'static TypeInfo, Claims),
}

/// Nodes in the order of timestamps, and what each did.
#[derive(Debug, Default)]
pub(super) struct Precedence {
    nodes: Vec<Node>,
    uses: BTreeMap<Bytes, Vec<(usize, Use)>>,
}

impl Precedence {
    /// The next one in the order. `span`: when it began, and when its end was told.
    pub(super) fn add(&mut self, name: String, span: (Time, Option<Time>)) {
        self.nodes.push(Node { name, began: span.0, told: span.1 });
    }

    /// A run that failed for what it found in a record.
    pub(super) fn add_error(&mut self, name: String, span: (Time, Option<Time>), key: &Bytes) {
        self.add(name, span);
        self.note_use(key, Use::Error);
    }

    /// The last one found in a record that something cannot be done.
    pub(super) fn note_error(&mut self, key: &Bytes) {
        self.note_use(key, Use::Error);
    }

    /// A record vanished.
    pub(super) fn add_end(&mut self, key: &Bytes) {
        self.add(format!("the end of '{key}'"), (Time(0), None));
        self.note_use(key, Use::End);
    }

    /// The last one used a record so.
    fn note_use(&mut self, key: &Bytes, what: Use) {
        let last = self.nodes.len() - 1;
        self.uses.entry(key.clone()).or_default().push((last, what));
    }

    /// The last one claims this of a record.
    pub(super) fn claim(&mut self, key: &Bytes, kind: &'static TypeInfo, claims: Claims) {
        self.note_use(key, Use::Claims(kind, claims));
    }

    /// Looks for a circle. O(nodes squared).
    pub(super) fn check(&self) -> Result<(), Violation> {
        let next = self.edges();
        // A circle has an edge backwards in the order, and only real time has these: from there it must not come back.
        for (from, node) in self.nodes.iter().enumerate() {
            let Some(told) = node.told else { continue };
            let earlier = (0..from).filter(|to| self.nodes[*to].began > told);
            for to in earlier {
                if let Some(way) = self.way(&next, to, from) {
                    let names: Vec<&str> = way.iter().map(|at| &*self.nodes[*at].name).collect();
                    return Err(format!(
                        "{} began after {} was told, and has to come before it: {}",
                        self.nodes[to].name,
                        node.name,
                        names.join(" -> ")
                    ));
                }
            }
        }
        Ok(())
    }

    /// Conflicts, and what real time says forwards.
    fn edges(&self) -> Vec<Vec<usize>> {
        let mut next: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        for uses in self.uses.values() {
            for (place, (from, one)) in uses.iter().enumerate() {
                let later = uses[place + 1..].iter().filter(|(to, other)| to != from && conflict(one, other));
                next[*from].extend(later.map(|(to, _)| *to));
            }
        }
        for (from, node) in self.nodes.iter().enumerate() {
            let Some(told) = node.told else { continue };
            let later = self.nodes.iter().enumerate().filter(|(_, it)| it.began > told);
            next[from].extend(later.map(|(to, _)| to));
        }
        next
    }

    /// A way from one to another.
    fn way(&self, next: &[Vec<usize>], from: usize, to: usize) -> Option<Vec<usize>> {
        let mut before: Vec<Option<usize>> = vec![None; self.nodes.len()];
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            if at == to {
                let mut way = vec![to];
                while let Some(at) = way.last().copied().filter(|at| *at != from) {
                    way.push(before[at].expect("it was reached"));
                }
                way.reverse();
                return Some(way);
            }
            for after in &next[at] {
                if *after != from && before[*after].is_none() {
                    before[*after] = Some(at);
                    open.push(*after);
                }
            }
        }
        None
    }
}

fn conflict(one: &Use, other: &Use) -> bool {
    match (one, other) {
        (Use::Error, Use::Error) => false,
        (Use::Claims(one_kind, one), Use::Claims(other_kind, other)) => {
            let modes = one_kind.common_modes(other_kind);
            modes.is_none_or(|modes| one.conflict_with(other, modes))
        }
        _ => true,
    }
}
