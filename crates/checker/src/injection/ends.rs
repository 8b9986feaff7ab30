//! Adds the records that faults ended to a history, as entries of their own.

use std::collections::{BTreeMap, BTreeSet};

use claret_rig::slot_of;

use super::inject::{Flush, Injected};
use crate::bank::Bank;
use crate::history::{Entry, History, Outcome, Step};

/// Adds what faults did to what clients saw.
pub(crate) fn add_ends(history: &mut History, bank: &Bank, injected: Vec<Injected>) {
    let keys: BTreeSet<String> = {
        let steps = history.entries.iter().flat_map(|entry| &entry.steps);
        steps.filter_map(|step| step.key().map(str::to_owned)).collect()
    };
    let moves: Vec<(u16, u64, u64)> = injected.iter().flat_map(|it| it.moves.clone()).collect();
    let flushes: Vec<&Flush> = injected.iter().flat_map(|it| &it.flushes).collect();
    let mut all: Vec<Entry> = injected.iter().flat_map(|it| it.expiries.clone()).collect();
    let mut count: BTreeMap<String, u32> = BTreeMap::new();
    for key in all.iter().flat_map(|entry| &entry.steps).filter_map(Step::key) {
        *count.entry(key.to_owned()).or_default() += 1;
    }
    for entry in &mut all {
        let [Step::End(key, certain)] = entry.steps.as_mut_slice() else { continue };
        let slot = slot_of(key);
        // A record that moves takes what is left of its time with it, and the way takes time, too.
        if moves.iter().any(|(moved, ..)| *moved == slot) {
            entry.outcome = Outcome::Unknown;
            *certain = false;
        }
        *certain &= count[key] == 1 && !flushes.iter().any(|flush| flush.slots.contains(&slot));
    }
    all.extend(flushes.into_iter().flat_map(|flush| entries_of(flush, &keys, &moves, bank)));
    history.entries.extend(all);
    history.reasons.extend(injected.into_iter().flat_map(|it| it.reasons));
}

/// A flush ends all records of its node, each by itself, as if it had expired (P36): no transaction is promised to see
/// all of it or nothing.
fn entries_of(flush: &Flush, keys: &BTreeSet<String>, moves: &[(u16, u64, u64)], bank: &Bank) -> Vec<Entry> {
    let over = flush.ended.unwrap_or(u64::MAX);
    let outcome = if flush.ended.is_some() { Outcome::Committed } else { Outcome::Unknown };
    let step = |key: &String| {
        let slot = slot_of(key);
        let is_moving = moves
            .iter()
            .any(|(moved, began, ended)| *moved == slot && *began <= over && flush.began <= *ended);
        let is_here = flush.slots.contains(&slot);
        // The bank's accounts are everywhere.
        let is_bank = bank.names().contains(&key);
        (is_here || is_moving || is_bank)
            .then(|| Step::End(key.clone(), is_here && !is_moving && flush.ended.is_some()))
    };
    let entry = |step| {
        let steps = vec![step];
        Entry { client: u64::MAX, began: flush.began, ended: over, outcome, plain: true, steps }
    };
    keys.iter().filter_map(step).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(key: &str, span: (u64, u64)) -> Entry {
        let steps = vec![Step::End(key.into(), true)];
        let (outcome, (began, ended)) = (Outcome::Committed, span);
        Entry { client: 0, began, ended, outcome, plain: true, steps }
    }

    #[test]
    fn an_end_is_certain_where_nothing_else_ends_or_moves_the_record() {
        let seen =
            |key: &str| Entry { steps: vec![Step::Add(key.into(), 1)], plain: false, ..end(key, (0, 1)) };
        let with_ends = |injected: Injected| {
            let mut history = History { entries: vec![seen("a"), seen("b")], ..History::default() };
            add_ends(&mut history, &Bank::new("x", 0), vec![injected]);
            let ends = history.entries.into_iter().filter(Entry::is_end);
            ends.flat_map(|entry| entry.steps).collect::<Vec<_>>()
        };
        let ended = |key: &str, certain| Step::End(key.into(), certain);
        let expiries = vec![end("a", (10, 20))];
        assert_eq!(
            with_ends(Injected { expiries: expiries.clone(), ..Injected::default() }),
            [ended("a", true)]
        );
        let twice = vec![end("a", (10, 20)), end("a", (30, 40))];
        assert_eq!(
            with_ends(Injected { expiries: twice, ..Injected::default() }),
            [ended("a", false), ended("a", false)]
        );
        let flush = |ended| Flush { began: 15, ended, slots: BTreeSet::from([slot_of("a")]) };
        let flushes = vec![flush(Some(16))];
        let both = Injected { expiries: expiries.clone(), flushes, ..Injected::default() };
        assert_eq!(with_ends(both), [ended("a", false), ended("a", true)]);
        let unknown = Injected { flushes: vec![flush(None)], ..Injected::default() };
        assert_eq!(with_ends(unknown), [ended("a", false)]);
        let moves = vec![(slot_of("a"), 1, 15)];
        let moved = Injected { flushes: vec![flush(Some(16))], moves, ..Injected::default() };
        assert_eq!(with_ends(moved), [ended("a", false)]);
    }
}
