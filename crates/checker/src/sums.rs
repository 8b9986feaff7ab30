//! Judges bounded counters, unique numbers and the bank's totals, by sums and the real time of each transaction.

use std::collections::BTreeMap;

use crate::bank::Bank;
use crate::history::{Entry, History, Outcome, Step};
use crate::intent::BOUNDED;

/// All violations, in words.
pub(super) fn judge_sums(history: &History) -> Vec<String> {
    let ends = history.ends();
    let mut anomalies = judge_totals(history, &ends);
    anomalies.extend(judge_ids(history, &ends));
    anomalies.extend(judge_bounded_counters(history, &ends));
    anomalies
}

type Ends<'a> = BTreeMap<&'a str, Vec<&'a Entry>>;

fn committed(history: &History) -> impl Iterator<Item = &Entry> {
    history.entries.iter().filter(|entry| entry.outcome == Outcome::Committed && !entry.is_end())
}

fn ends_of<'a>(ends: &'a Ends<'_>, key: &str) -> &'a [&'a Entry] {
    ends.get(key).map(Vec::as_slice).unwrap_or_default()
}

/// Until accounts are flushed the total is what was paid in, and afterwards it is again the same for all, whatever it is.
fn judge_totals(history: &History, ends: &Ends<'_>) -> Vec<String> {
    let mut later: BTreeMap<(&str, usize), i64> = BTreeMap::new();
    let mut anomalies = Vec::new();
    for entry in committed(history) {
        for step in &entry.steps {
            let Step::Total(bank, total) = step else { continue };
            let ends = ends_of(ends, bank);
            let passed = ends.iter().filter(|end| end.is_before(entry)).count();
            if ends.iter().any(|end| !end.is_before(entry) && !entry.is_before(end)) {
                continue;
            }
            let expected = match passed {
                0 => Bank::total(),
                passed => *later.entry((bank, passed)).or_insert(*total),
            };
            if *total != expected {
                let client = entry.client;
                anomalies.push(format!(
                    "the bank holds {total}, not {expected}, for client {client}: a transfer was seen by half"
                ));
            }
        }
    }
    anomalies.truncate(1);
    anomalies
}

/// A number comes once, unless its generator was flushed in between.
fn judge_ids(history: &History, ends: &Ends<'_>) -> Vec<String> {
    let mut seen: BTreeMap<(&str, u64), &Entry> = BTreeMap::new();
    for entry in committed(history) {
        for step in &entry.steps {
            let Step::Id(key, number) = step else { continue };
            let Some(other) = seen.insert((key, *number), entry) else { continue };
            let lies_between = |end: &&&Entry| {
                !(end.is_before(other) || entry.is_before(end)) || {
                    !(end.is_before(entry) || other.is_before(end))
                }
            };
            if ends_of(ends, key).iter().find(lies_between).is_none() {
                let (one, two) = (other.client, entry.client);
                return vec![format!(
                    "the number {number} of '{key}' came to client {one} and to client {two}"
                )];
            }
        }
    }
    Vec::new()
}

/// A change of a bounded counter, as far as others can count on it.
#[derive(Clone, Copy)]
struct Change {
    began: u64,
    over: u64,
    /// What it may take, and what it may add; both the same amount where it is certain.
    least: i64,
    most: i64,
}

/// Sums of changes, up to any moment.
struct Sums {
    /// By the moment at which they were over: how much they changed.
    over: Vec<(u64, i64)>,
    /// By the moment at which they began: the least and the most that all changes up to it can have come to.
    began: Vec<(u64, i64, i64)>,
    /// The same of changes that were over.
    part: Vec<(u64, i64, i64)>,
}

impl Sums {
    fn of(changes: &[Change]) -> Self {
        let low = |change: &Change| change.least.min(0);
        let high = |change: &Change| change.most.max(0);
        let mut by_end: Vec<&Change> = changes.iter().filter(|it| it.over < u64::MAX).collect();
        by_end.sort_by_key(|change| change.over);
        let mut by_begin: Vec<&Change> = changes.iter().collect();
        by_begin.sort_by_key(|change| change.began);
        let mut sums = Sums { over: vec![(0, 0)], began: vec![(0, 0, 0)], part: vec![(0, 0, 0)] };
        let (mut total, mut least, mut most) = (0, 0, 0);
        for change in by_end {
            total += change.least;
            (least, most) = (least + low(change), most + high(change));
            sums.over.push((change.over, total));
            sums.part.push((change.over, least, most));
        }
        (least, most) = (0, 0);
        for change in by_begin {
            (least, most) = (least + low(change), most + high(change));
            sums.began.push((change.began, least, most));
        }
        sums
    }

    /// The least and the most that others can have made of the beginning for a transaction.
    fn around(&self, entry: &Entry) -> (i64, i64) {
        let certain = self.over[self.over.partition_point(|it| it.0 < entry.began) - 1].1;
        let (_, begun_least, begun_most) =
            self.began[self.began.partition_point(|it| it.0 <= entry.ended) - 1];
        let (_, over_least, over_most) = self.part[self.part.partition_point(|it| it.0 < entry.began) - 1];
        (BOUNDED.0 + certain + begun_least - over_least, BOUNDED.0 + certain + begun_most - over_most)
    }
}

/// What a bounded counter holds is its beginning and all changes that were made, and never beyond its bounds; what was
/// refused cannot have fitted, what was done can have.
fn judge_bounded_counters(history: &History, ends: &Ends<'_>) -> Vec<String> {
    let mut uses: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
    for entry in history.entries.iter().filter(|entry| !matches!(entry.outcome, Outcome::Void(_))) {
        let mut keys: Vec<&str> = entry
            .steps
            .iter()
            .filter_map(|step| match step {
                Step::Change(key, ..) | Step::Level(key, _) => Some(key.as_str()),
                _ => None,
            })
            .collect();
        keys.sort_unstable();
        keys.dedup();
        keys.into_iter().for_each(|key| uses.entry(key).or_default().push(entry));
    }
    uses.iter()
        .find_map(|(key, uses)| judge_bounded_counter(key, uses, ends_of(ends, key)).err())
        .into_iter()
        .collect()
}

fn judge_bounded_counter(key: &str, uses: &[&Entry], ends: &[&Entry]) -> Result<(), String> {
    let changes: Vec<Change> = uses.iter().flat_map(|entry| changes_of(key, entry)).collect();
    let sums = Sums::of(&changes);
    let (_, min, max) = BOUNDED;
    let lives =
        |entry: &&&Entry| entry.outcome == Outcome::Committed && ends.iter().all(|end| entry.is_before(end));
    for entry in uses.iter().filter(lives) {
        // Its own changes are among those that were begun and not over.
        let own: Vec<Change> = changes_of(key, entry).collect();
        let (own_least, own_most) =
            own.iter().fold((0, 0), |sum, it| (sum.0 + it.least.min(0), sum.1 + it.most.max(0)));
        let (least, most) = sums.around(entry);
        let (mut least, mut most) = (least - own_least, most - own_most);
        for step in entry.steps.iter().filter(|step| step.key() == Some(key)) {
            let (low, high) = (least.max(min), most.min(max));
            let wrong = |what: String| {
                let client = entry.client;
                Err(format!("'{key}': client {client} {what}, and it held from {low} to {high} then"))
            };
            match *step {
                Step::Level(_, level) if level < low || level > high => {
                    return wrong(format!("read {level}"));
                }
                Step::Change(_, by, Some(true)) if high + by < min || low + by > max => {
                    return wrong(format!("was let change it by {by}"));
                }
                Step::Change(_, by, Some(false)) if low + by >= min && high + by <= max => {
                    return wrong(format!("was not let change it by {by}"));
                }
                Step::Change(_, by, Some(true)) => (least, most) = (least + by, most + by),
                _ => {}
            }
        }
    }
    Ok(())
}

/// The changes of a transaction to one counter.
fn changes_of<'a>(key: &'a str, entry: &'a Entry) -> impl Iterator<Item = Change> + 'a {
    let (began, over) = (entry.began, entry.over());
    entry.steps.iter().filter_map(move |step| match step {
        Step::Change(on, by, Some(true)) if on == key => Some(Change { began, over, least: *by, most: *by }),
        Step::Change(on, by, None) if on == key => {
            Some(Change { began, over: u64::MAX, least: (*by).min(0), most: (*by).max(0) })
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(client: u64, (began, ended): (u64, u64), outcome: Outcome, steps: &[Step]) -> Entry {
        Entry { client, began, ended, outcome, plain: false, steps: steps.to_vec() }
    }

    fn judged(entries: &[Entry]) -> Vec<String> {
        judge_sums(&History { entries: entries.to_vec(), ..History::default() })
    }

    fn done(client: u64, span: (u64, u64), step: Step) -> Entry {
        entry(client, span, Outcome::Committed, &[step])
    }

    #[test]
    fn a_level_is_what_changes_make_of_it() {
        let change = |by, done| Step::Change("k0".into(), by, done);
        let level = |it| Step::Level("k0".into(), it);
        let one = done(1, (1, 2), change(-10, Some(true)));
        assert!(judged(&[one.clone(), done(2, (3, 4), level(30))]).is_empty());
        assert!(judged(&[one.clone(), done(2, (3, 4), level(40))])[0].contains("read 40"));
        let meanwhile = done(3, (1, 9), change(5, Some(true)));
        for (seen, is_right) in [(30, true), (35, true), (29, false), (36, false)] {
            let all = [one.clone(), meanwhile.clone(), done(2, (3, 4), level(seen))];
            assert_eq!(judged(&all).is_empty(), is_right, "{seen}");
        }
        let unknown = entry(3, (1, 9), Outcome::Unknown, &[change(5, None)]);
        assert!(judged(&[one.clone(), unknown.clone(), done(2, (30, 40), level(35))]).is_empty());
        assert!(!judged(&[one, unknown, done(2, (30, 40), level(36))]).is_empty());
    }

    #[test]
    fn what_is_refused_did_not_fit_and_what_is_done_did() {
        let change = |by, done| Step::Change("k0".into(), by, done);
        assert!(judged(&[done(1, (1, 2), change(-30, Some(false)))])[0].contains("was not let"));
        let first = done(1, (1, 2), change(-30, Some(true)));
        assert!(judged(&[first.clone(), done(2, (3, 4), change(-30, Some(false)))]).is_empty());
        assert!(judged(&[first, done(2, (3, 4), change(-30, Some(true)))])[0].contains("was let"));
        let all = [change(-30, Some(true)), change(-20, Some(false)), Step::Level("k0".into(), 10)];
        assert!(judged(&[entry(1, (1, 2), Outcome::Committed, &all)]).is_empty());
    }

    #[test]
    fn numbers_come_once_and_again_after_a_flush() {
        let id = Step::Id("u0".into(), 7);
        let [one, two] = [done(1, (1, 2), id.clone()), done(2, (30, 31), id)];
        assert!(judged(&[one.clone(), two.clone()])[0].contains("the number 7"));
        let end = done(9, (10, 20), Step::End("u0".into(), true));
        assert!(judged(&[one.clone(), end, two.clone()]).is_empty());
        let later = done(9, (40, 50), Step::End("u0".into(), true));
        assert_eq!(judged(&[one, two, later]).len(), 1);
    }

    #[test]
    fn totals_stay() {
        let total = |it| Step::Total("bank".into(), it);
        let right = done(1, (1, 2), total(Bank::total()));
        assert!(judged(&[right.clone(), done(2, (3, 4), total(Bank::total() - 1))])[0].contains("by half"));
        let end = done(9, (10, 20), Step::End("bank".into(), true));
        let meanwhile = done(2, (15, 16), total(1));
        let after = done(3, (30, 31), total(5));
        assert!(judged(&[right.clone(), end.clone(), meanwhile, after.clone()]).is_empty());
        assert_eq!(judged(&[right, end, after, done(4, (40, 41), total(6))]).len(), 1);
    }
}
