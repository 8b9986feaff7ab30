//! Judges the bank of a generation: each account holds what the transfers in the ledgers make of it.

use std::collections::BTreeMap;

use super::final_read::Contents;
use super::records::Records;
use crate::history::{Entry, Outcome, Step};

/// Everything that is wrong, in words.
pub(super) fn judge_bank(entries: &[Entry], contents: &Contents, records: &Records) -> Vec<String> {
    let mut wrong: Vec<String> = entries.iter().filter_map(wrong_total).take(1).collect();
    let payments: BTreeMap<u64, &Entry> =
        entries.iter().filter_map(|entry| Some((number_of(entry)?, entry))).collect();
    let mut expected: BTreeMap<&str, i64> = BTreeMap::new();
    for (ledger, numbers) in records.ledgers().filter_map(|key| contents.sets.get_key_value(&key)) {
        for number in numbers {
            let Some(entry) = payments.get(number) else {
                wrong.push(format!("'{ledger}' has the transfer {number}, which nobody made"));
                continue;
            };
            for step in &entry.steps {
                if let Step::Paid(from, to, amount) = step {
                    *expected.entry(from).or_default() -= amount;
                    *expected.entry(to).or_default() += amount;
                }
            }
        }
    }
    for (account, balance) in &contents.balances {
        let expected = expected.get(account.as_str()).copied().unwrap_or(0);
        if *balance != expected {
            wrong.push(format!(
                "'{account}' holds {balance}, and the transfers in the ledgers make {expected}: half of a transfer is there"
            ));
        }
    }
    wrong
}

fn wrong_total(entry: &Entry) -> Option<String> {
    let totals = entry.steps.iter().filter(|_| entry.outcome == Outcome::Committed);
    totals.into_iter().find_map(|step| match step {
        Step::Total(_, total) if *total != 0 => Some(format!(
            "all accounts together hold {total}, not 0, for client {}: a transfer was seen by half",
            entry.client
        )),
        _ => None,
    })
}

/// The number of a transfer.
fn number_of(entry: &Entry) -> Option<u64> {
    match entry.steps.as_slice() {
        [Step::Paid(..), Step::Add(_, number)] => Some(*number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer(number: u64, outcome: Outcome) -> Entry {
        let records = Records::new("x", 0);
        let paid = Step::Paid(records.account(0), records.account(1), 5);
        let steps = vec![paid, Step::Add(records.ledger(0), number)];
        Entry { client: 1, began: 1, ended: 2, outcome, plain: false, steps }
    }

    fn contents(numbers: &[u64], balances: [i64; 2]) -> Contents {
        let records = Records::new("x", 0);
        let mut contents = Contents::default();
        contents.sets.insert(records.ledger(0), numbers.iter().copied().collect());
        for (number, balance) in balances.into_iter().enumerate() {
            contents.balances.insert(records.account(number as u64), balance);
        }
        contents
    }

    fn judged(entries: &[Entry], contents: &Contents) -> Vec<String> {
        judge_bank(entries, contents, &Records::new("x", 0))
    }

    #[test]
    fn accounts_are_what_the_ledgers_make_of_them() {
        let entries = [transfer(1, Outcome::Committed), transfer(2, Outcome::Unknown)];
        assert!(judged(&entries, &contents(&[1], [-5, 5])).is_empty());
        assert!(judged(&entries, &contents(&[1, 2], [-10, 10])).is_empty());
        assert!(judged(&entries, &contents(&[1], [-10, 5]))[0].contains("half of a transfer"));
        assert!(judged(&entries, &contents(&[1, 7], [-5, 5]))[0].contains("which nobody made"));
    }

    #[test]
    fn a_total_that_is_not_zero_is_wrong() {
        let total = |it| {
            let steps = vec![Step::Total("a".into(), it)];
            Entry { steps, ..transfer(1, Outcome::Committed) }
        };
        assert!(judged(&[total(0)], &contents(&[], [0, 0])).is_empty());
        assert!(judged(&[total(5)], &contents(&[], [0, 0]))[0].contains("hold 5"));
    }
}
