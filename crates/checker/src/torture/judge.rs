//! Judges one generation, when all of its keys were read: is everything there that was acknowledged, and does one serial order
//! explain what was seen?
//!
//! Where the store's promise allows a loss ([`Waivers`]), what was lost is counted, and the rest is judged without it:
//! - *A failover or a restart hit some slots.* Records in these slots are judged by what is lost of them and by nothing else. A
//!   transaction that wrote there counts at all other records as one of unknown outcome: its part there may be gone with it.
//! - *A process died whose store syncs now and then.* What it reported last may be gone, from some moment on: then whoever saw it
//!   is gone, too.

use std::collections::BTreeSet;

use super::answers::{Told, heed};
use super::final_read::Contents;
use super::ledger::judge_bank;
use super::records::Records;
use super::waivers::{Hits, Waivers};
use crate::history::{Entry, History, Outcome, Step, Why};
use crate::verdict::{Verdict, judge_orders};

/// So many losses are told one by one.
const TOLD_MAX: usize = 3;

/// What became of a generation.
#[derive(Clone, Debug, Default)]
pub(super) struct Judged {
    /// What is wrong, in words.
    pub(super) anomalies: Vec<String>,
    /// Acknowledged transactions that are gone, where that is allowed; of some, a part.
    pub(super) lost: u64,
    pub(super) lost_in_part: u64,
    /// A failover or a restart hit it, and some of its keys are judged by losses alone.
    pub(super) is_hit: bool,
    pub(super) verdict: Verdict,
}

/// Judges it.
pub(super) fn judge_generation(
    mut entries: Vec<Entry>,
    contents: &Contents,
    records: &Records,
    (waivers, told): (&Waivers, &[Told]),
) -> Judged {
    let hit = waivers.hits_of(&entries);
    let mut judged = Judged { is_hit: !hit.is_empty(), ..Judged::default() };
    judged.anomalies.extend(heed(&mut entries, told, &hit));
    judge_losses(&entries, contents, (waivers, &hit), &mut judged);
    if !records.accounts().chain(records.ledgers()).any(|key| hit.has(&key)) {
        judged.anomalies.extend(judge_bank(&entries, contents, records));
    }
    forget_lost(&mut entries, contents, waivers, &mut judged);
    entries.extend(contents.entry.clone());
    forget_hit(&mut entries, &hit);
    let history = History { entries, ..History::default() };
    judge_orders(&history, &mut judged.verdict);
    judged.anomalies.append(&mut judged.verdict.anomalies);
    judged
}

/// Everything that was acknowledged is there, or is counted as lost.
fn judge_losses(
    entries: &[Entry],
    contents: &Contents,
    (waivers, hit): (&Waivers, &Hits),
    judged: &mut Judged,
) {
    let mut told = 0;
    for entry in entries.iter().filter(|entry| entry.outcome == Outcome::Committed) {
        let there: Vec<bool> = entry.steps.iter().filter_map(|step| contents.has(step)).collect();
        let is_whole = there.iter().all(|it| *it);
        if is_whole {
            continue;
        }
        if hit.may_cost(entry) || waivers.is_before_death(entry) {
            match there.iter().any(|it| *it) {
                true => judged.lost_in_part += 1,
                false => judged.lost += 1,
            }
        } else {
            told += 1;
            let missing = entry.steps.iter().find(|step| contents.has(step) == Some(false));
            let (client, began, ended) = (entry.client, entry.began, entry.ended);
            judged.anomalies.push(format!(
                "lost: client {client} was told at {ended} us that its transaction of {began} us had committed, and {} \
                 is not there at the end",
                missing.map_or_else(String::new, describe)
            ));
        }
    }
    let unlisted = told - told.min(TOLD_MAX);
    if unlisted > 0 {
        judged.anomalies.truncate(TOLD_MAX);
        judged
            .anomalies
            .push(format!("{unlisted} more acknowledged transactions of this generation are lost"));
    }
}

fn describe(step: &Step) -> String {
    match step {
        Step::Add(key, element) => format!("the member {element} of '{key}'"),
        Step::Append(key, item) => format!("the item {item} of '{key}'"),
        other => format!("{other:?}"),
    }
}

/// What died with its process did not happen, nor did whoever saw it.
fn forget_lost(entries: &mut [Entry], contents: &Contents, waivers: &Waivers, judged: &mut Judged) {
    let is_lost = |entry: &Entry| {
        let mut there = entry.steps.iter().filter_map(|step| contents.has(step)).peekable();
        entry.outcome != Outcome::Void(Why::Later) && there.peek().is_some() && there.all(|it| !it)
    };
    let lost: Vec<usize> = (0..entries.len())
        .filter(|at| waivers.is_before_death(&entries[*at]) && is_lost(&entries[*at]))
        .collect();
    let mut gone: BTreeSet<(String, u64)> = BTreeSet::new();
    for at in lost {
        for step in &entries[at].steps {
            if let Step::Add(key, it) | Step::Append(key, it) = step {
                gone.insert((key.clone(), *it));
            }
        }
        entries[at].outcome = Outcome::Void(Why::Later);
    }
    for entry in entries.iter_mut().filter(|entry| entry.outcome == Outcome::Committed) {
        let saw = entry.steps.iter().any(|step| match step {
            Step::Read(key, elements) => elements.iter().any(|it| gone.contains(&(key.clone(), *it))),
            Step::List(key, items) => items.iter().any(|it| gone.contains(&(key.clone(), *it))),
            _ => false,
        });
        if !saw || !waivers.is_before_death(entry) {
            continue;
        }
        if entry.steps.iter().any(|step| contents.has(step) == Some(true)) {
            judged.anomalies.push(format!(
                "client {} saw what is lost, and what it wrote then at {} us is there",
                entry.client, entry.began
            ));
        }
        entry.outcome = Outcome::Void(Why::Later);
    }
}

/// Leaves out the records in slots that were hit, and what a transaction that wrote there did elsewhere may be gone.
fn forget_hit(entries: &mut [Entry], hit: &Hits) {
    if hit.is_empty() {
        return;
    }
    for entry in entries {
        let writes = |step: &Step| matches!(step, Step::Add(..) | Step::Append(..) | Step::Paid(..));
        if entry.outcome == Outcome::Committed && hit.may_cost(entry) && entry.steps.iter().any(writes) {
            entry.outcome = Outcome::Unknown;
            entry.steps.retain(writes);
        }
        entry.steps.retain(|step| step.key().is_some_and(|key| !hit.has(key)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::records::CLIENTS_MAX;
    use super::*;

    fn entry(client: u64, span: (u64, u64), steps: Vec<Step>) -> Entry {
        Entry { client, began: span.0, ended: span.1, outcome: Outcome::Committed, plain: false, steps }
    }

    fn contents(records: &Records, items: &[u64], elements: &[u64]) -> Contents {
        let elements: BTreeSet<u64> = elements.iter().copied().collect();
        let steps =
            vec![Step::List(records.list(0), items.to_vec()), Step::Read(records.set(0), elements.clone())];
        let mut contents = Contents { entry: Some(entry(99, (900, 901), steps)), ..Contents::default() };
        contents.lists.insert(records.list(0), items.to_vec());
        contents.sets.insert(records.set(0), elements);
        contents
    }

    #[test]
    fn what_was_acknowledged_and_is_gone_is_an_anomaly() {
        let records = Records::new("x", 0);
        let append = |it| entry(1, (it * 10, it * 10 + 5), vec![Step::Append(records.list(0), it)]);
        let entries = vec![append(1), append(2)];
        let judge = |entries: &[Entry], items: &[u64], waivers: &Waivers| {
            judge_generation(entries.to_vec(), &contents(&records, items, &[]), &records, (waivers, &[]))
        };
        assert!(judge(&entries, &[1, 2], &Waivers::default()).anomalies.is_empty());
        let lost = judge(&entries, &[1], &Waivers::default());
        assert!(lost.anomalies[0].contains("lost: client 1"), "{:?}", lost.anomalies);
        let mut waivers = Waivers::default();
        waivers.note_hit((20, 30), vec![(0, u16::MAX)]);
        let waived = judge(&entries, &[1], &waivers);
        assert!(waived.anomalies.is_empty() && waived.is_hit, "{:?}", waived.anomalies);
        assert_eq!((waived.lost, waived.lost_in_part), (1, 0));
    }

    #[test]
    fn the_order_of_slots_that_were_not_hit_is_judged() {
        let records = Records::new("x", 0);
        let slot = claret_rig::slot_of(&records.set(0));
        let both = vec![Step::Append(records.list(0), 1), Step::Add(records.set(0), 1)];
        let late = entry(2, (30, 35), vec![Step::List(records.list(0), vec![])]);
        let entries = vec![entry(1, (10, 15), both), late];
        let mut waivers = Waivers::default();
        waivers.note_hit((20, 30), vec![(slot, slot)]);
        let judge = |items: &[u64]| {
            judge_generation(entries.clone(), &contents(&records, items, &[]), &records, (&waivers, &[]))
        };
        // Its part at the list may be gone with the other.
        let gone = judge(&[]);
        assert!(gone.anomalies.is_empty(), "{:?}", gone.anomalies);
        assert_eq!((gone.lost, gone.lost_in_part), (1, 0));
        let half = judge(&[1]);
        assert_eq!((half.lost, half.lost_in_part), (0, 1));
        // Nobody made this.
        assert!(!judge(&[7]).anomalies.is_empty());
    }

    #[test]
    fn who_saw_what_died_with_its_process_died_too() {
        let records = Records::new("x", 0);
        let seen = |at, steps| entry(CLIENTS_MAX + 1, (at, at + 5), steps);
        let first = seen(10, vec![Step::Append(records.list(0), 1)]);
        let reader = seen(20, vec![Step::List(records.list(0), vec![1])]);
        let writer = seen(30, vec![Step::List(records.list(0), vec![1]), Step::Add(records.set(0), 2)]);
        let mut waivers = Waivers::default();
        waivers.note_death(1, 5);
        let judge = |entries: &[&Entry], elements: &[u64]| {
            let entries = entries.iter().map(|it| (*it).clone()).collect();
            judge_generation(entries, &contents(&records, &[], elements), &records, (&waivers, &[])).anomalies
        };
        assert!(judge(&[&first, &reader, &writer], &[]).is_empty());
        assert!(judge(&[&first, &reader, &writer], &[2])[0].contains("saw what is lost"));
    }
}
