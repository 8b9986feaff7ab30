//! What may have cost acknowledged transactions, where the store's promise allows that: failovers of a cluster that keeps what
//! Redis keeps, and deaths of a process whose store syncs now and then.

use claret_rig::slot_of;

use super::worker::CLIENTS_MAX;
use crate::history::{Entry, Outcome};

/// A failover or a restart of a node may cost what was acknowledged so shortly before, or is seen so shortly after.
const MARGIN_US: u64 = 1_000_000;

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
pub(super) struct Excuses {
    hits: Vec<Hit>,
    /// Processes that died: which, and from when on what it had reported may be lost.
    deaths: Vec<(u64, u64)>,
}

impl Excuses {
    /// These slots were served by a node that died or was replaced in this time.
    pub(super) fn note_hit(&mut self, (began, ended): (u64, u64), slots: Vec<Slots>) {
        self.hits.push(Hit { began, ended, slots });
    }

    /// A process was killed; what it reported from this moment on may be lost.
    pub(super) fn note_death(&mut self, life: u64, since: u64) {
        self.deaths.push((life, since));
    }

    /// The slots that were hit while these transactions ran, or while their outcome may have been open.
    pub(super) fn slots_of(&self, entries: &[Entry]) -> Vec<Slots> {
        let Some(began) = entries.iter().map(|entry| entry.began).min() else { return Vec::new() };
        let last = entries.iter().filter(|entry| entry.ended < u64::MAX).map(|entry| entry.ended).max();
        let last = last.unwrap_or(began).max(entries.iter().map(|entry| entry.began).max().unwrap_or(began));
        let is_open = entries.iter().any(|entry| entry.outcome == Outcome::Unknown);
        let ended = last + if is_open { DOUBT_US } else { MARGIN_US };
        let meets = |hit: &&Hit| hit.began <= ended && began <= hit.ended + MARGIN_US;
        self.hits.iter().filter(meets).flat_map(|hit| hit.slots.clone()).collect()
    }

    /// Whether what this client reported then may be lost, because its process died soon after.
    pub(super) fn is_before_death(&self, entry: &Entry) -> bool {
        let life = entry.client / CLIENTS_MAX;
        self.deaths.iter().any(|(died, since)| *died == life && entry.ended >= *since)
    }
}

/// Whether a key is in one of these slots.
pub(super) fn is_in(slots: &[Slots], key: &str) -> bool {
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
    fn a_hit_excuses_those_it_met_and_who_was_in_doubt() {
        let mut excuses = Excuses::default();
        excuses.note_hit((20_000_000, 21_000_000), vec![(0, 9)]);
        let done = entry((10_000_000, 11_000_000), Outcome::Committed);
        assert!(excuses.slots_of(std::slice::from_ref(&done)).is_empty());
        let open = entry((10_000_000, u64::MAX), Outcome::Unknown);
        assert_eq!(excuses.slots_of(&[done, open]), [(0, 9)]);
        assert_eq!(excuses.slots_of(&[entry((21_500_000, 23_000_000), Outcome::Committed)]), [(0, 9)]);
    }

    #[test]
    fn a_death_excuses_the_last_of_its_process() {
        let mut excuses = Excuses::default();
        excuses.note_death(0, 50);
        let of = |client, ended| Entry { client, ..entry((1, ended), Outcome::Committed) };
        assert!(excuses.is_before_death(&of(3, 50)));
        assert!(!excuses.is_before_death(&of(3, 49)));
        assert!(!excuses.is_before_death(&of(CLIENTS_MAX, 50)));
    }
}
