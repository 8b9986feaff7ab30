//! What may have cost acknowledged transactions, where the store's promise allows that: failovers of a cluster that keeps what
//! Redis keeps, and deaths of a process whose store syncs now and then.

use std::collections::BTreeSet;

use claret_rig::slot_of;

use super::records::CLIENTS_MAX;
use crate::history::{Entry, Outcome, Step};

/// A failover or a restart of a node may cost what is seen so shortly after.
const MARGIN_US: u64 = 1_000_000;

/// The same of what was acknowledged so shortly before. While a sync of its append-only file takes long, a server puts writing to it off,
/// for up to three seconds by its own clock (`appendfsync everysec`).
const BEFORE_US: u64 = 4_000_000;

/// A transaction of unknown outcome may be decided so late.
const DOUBT_US: u64 = 30_000_000;

/// First and last of some slots.
pub(super) type Slots = (u16, u16);

/// Shards lost their memory, or what a replica had not heard.
#[derive(Clone, Debug)]
struct Hit {
    began: u64,
    ended: u64,
    slots: Vec<Slots>,
}

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(super) struct Waivers {
    hits: Vec<Hit>,
    /// Processes that died: which, and from when on what it had reported may be lost.
    deaths: Vec<(u64, u64)>,
}

impl Waivers {
    /// These slots were served by a node that died or was replaced in this time.
    pub(super) fn note_hit(&mut self, (began, ended): (u64, u64), slots: Vec<Slots>) {
        self.hits.push(Hit { began, ended, slots });
    }

    /// A process was killed; what it reported from this moment on may be lost.
    pub(super) fn note_death(&mut self, life: u64, since: u64) {
        self.deaths.push((life, since));
    }

    /// What of these transactions' records was hit while they ran, or while the outcome of one that wrote there may have been open.
    pub(super) fn hits_of(&self, entries: &[Entry]) -> Hits {
        let Some(began) = entries.iter().map(|entry| entry.began).min() else { return Hits::default() };
        let ends = entries.iter().map(|entry| if entry.ended < u64::MAX { entry.ended } else { entry.began });
        let ended = ends.max().unwrap_or(began) + BEFORE_US;
        let meets = |hit: &Hit, began: u64, ended: u64| hit.began <= ended && began <= hit.ended + MARGIN_US;
        let met = self.hits.iter().filter(|hit| meets(hit, began, ended));
        let mut hits = Hits { slots: met.flat_map(|hit| hit.slots.clone()).collect(), ..Hits::default() };
        for open in entries.iter().filter(|entry| entry.outcome == Outcome::Unknown) {
            let keys = keys_of(open);
            let is_meant = |hit: &Hit| keys.iter().any(|key| is_in(&hit.slots, key));
            let mut late = self.hits.iter().filter(|hit| meets(hit, open.began, open.began + DOUBT_US));
            if late.any(is_meant) {
                hits.keys.extend(keys.into_iter().map(str::to_owned));
            }
        }
        hits
    }

    /// Whether what this client reported then may be lost, because its process died soon after.
    pub(super) fn is_before_death(&self, entry: &Entry) -> bool {
        let life = entry.client / CLIENTS_MAX;
        self.deaths.iter().any(|(died, since)| *died == life && entry.ended >= *since)
    }
}

/// What was hit of a generation.
#[derive(Clone, Debug, Default)]
pub(super) struct Hits {
    /// Of nodes that died or were replaced while its transactions ran.
    slots: Vec<Slots>,
    /// Written by transactions of unknown outcome, one of whose nodes died or was replaced later.
    keys: BTreeSet<String>,
}

impl Hits {
    /// Whether nothing was hit.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.keys.is_empty()
    }

    /// Whether what it showed may come from a loss.
    pub(super) fn has(&self, key: &str) -> bool {
        self.keys.contains(key) || is_in(&self.slots, key)
    }

    /// Whether anything that a transaction used was hit.
    pub(super) fn meets(&self, entry: &Entry) -> bool {
        keys_of(entry).iter().any(|key| self.has(key))
    }

    /// Whether a transaction may be lost, or half of it: it used a node that died or was replaced.
    pub(super) fn may_cost(&self, entry: &Entry) -> bool {
        keys_of(entry).iter().any(|key| is_in(&self.slots, key))
    }
}

/// The keys that a transaction used.
fn keys_of(entry: &Entry) -> Vec<&str> {
    let mut keys = Vec::new();
    for step in &entry.steps {
        match step {
            Step::Paid(from, to, _) => keys.extend([from.as_str(), to.as_str()]),
            step => keys.extend(step.key()),
        }
    }
    keys
}

/// Whether a key is in one of these slots.
fn is_in(slots: &[Slots], key: &str) -> bool {
    let slot = slot_of(key);
    slots.iter().any(|(first, last)| (*first..=*last).contains(&slot))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(span: (u64, u64), outcome: Outcome) -> Entry {
        Entry { client: 0, began: span.0, ended: span.1, outcome, plain: false, steps: Vec::new() }
    }

    #[test]
    fn a_hit_waives_those_it_met_and_who_was_in_doubt() {
        let mut waivers = Waivers::default();
        waivers.note_hit((20_000_000, 21_000_000), vec![(0, 9)]);
        let done = entry((10_000_000, 11_000_000), Outcome::Committed);
        assert!(waivers.hits_of(std::slice::from_ref(&done)).is_empty());
        let near = entry((21_500_000, 23_000_000), Outcome::Committed);
        assert_eq!(waivers.hits_of(&[near]).slots, [(0, 9)]);
    }

    #[test]
    fn of_who_was_in_doubt_at_a_hit_the_records_count_as_hit() {
        let (slot, mut waivers) = (slot_of("a"), Waivers::default());
        waivers.note_hit((20_000_000, 21_000_000), vec![(slot, slot)]);
        let done = entry((10_000_000, 11_000_000), Outcome::Committed);
        let open = |keys: &[&str]| {
            let steps = keys.iter().map(|key| Step::Add((*key).into(), 1)).collect();
            Entry { steps, ..entry((10_000_000, u64::MAX), Outcome::Unknown) }
        };
        let hits = waivers.hits_of(&[done.clone(), open(&["a", "b"])]);
        assert!(hits.has("a") && hits.has("b") && !hits.has("c") && !hits.may_cost(&open(&["b"])));
        assert!(waivers.hits_of(&[done, open(&["b"])]).is_empty());
    }

    #[test]
    fn a_death_waives_the_last_of_its_process() {
        let mut waivers = Waivers::default();
        waivers.note_death(0, 50);
        let of = |client, ended| Entry { client, ..entry((1, ended), Outcome::Committed) };
        assert!(waivers.is_before_death(&of(3, 50)));
        assert!(!waivers.is_before_death(&of(3, 49)));
        assert!(!waivers.is_before_death(&of(CLIENTS_MAX, 50)));
    }
}
