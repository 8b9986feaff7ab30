//! Outcomes that were asked for: a client that heard that nobody knows what became of its transaction asks until it is told. What it
//! is told is what is there at the end.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use claret::{Error, Outcome as Answer, OutcomeId, Store};
use serde::{Deserialize, Serialize};

use super::waivers::Hits;
use crate::history::{Entry, Outcome, Why};

/// How long is asked. Nodes are back by then, and what is in doubt is decided.
const ASK_TIME: Duration = Duration::from_secs(30);

const ASK_PAUSE: Duration = Duration::from_millis(150);

/// What a client was told of one of its transactions, for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Told {
    pub(super) client: u64,
    /// When the transaction began, and when this was told.
    pub(super) began: u64,
    pub(super) told: u64,
    /// Else it was aborted.
    pub(super) committed: bool,
}

/// Asks until it is told, or nobody knows any more. `None`: it was not told.
///
/// # Errors
/// What no client should see.
pub(super) async fn ask(
    store: &Store,
    id: &OutcomeId,
    is_expected: impl Fn(&Error) -> Result<(), String>,
) -> Result<Option<bool>, String> {
    let since = Instant::now();
    while since.elapsed() < ASK_TIME {
        match store.outcome(id).await {
            Ok(Answer::Committed) => return Ok(Some(true)),
            Ok(Answer::Aborted) => return Ok(Some(false)),
            Ok(Answer::NotYet) => {}
            Ok(_) => return Ok(None),
            Err(error) => is_expected(&error)?,
        }
        tokio::time::sleep(ASK_PAUSE).await;
    }
    Ok(None)
}

/// Transactions of which clients were told count as what they were told. Where a shard was hit it may have forgotten what it said, so
/// they stay as they were. What is wrong, in words.
pub(super) fn heed(entries: &mut [Entry], told: &[Told], hit: &Hits) -> Vec<String> {
    let mut by_entry: BTreeMap<(u64, u64), Told> = BTreeMap::new();
    let mut both: Vec<Told> = Vec::new();
    for it in told {
        let first = *by_entry.entry((it.client, it.began)).or_insert(*it);
        both.extend((first.committed != it.committed).then_some(*it));
    }
    for entry in entries.iter_mut().filter(|entry| entry.outcome == Outcome::Unknown && !hit.meets(entry)) {
        if let Some(it) = by_entry.get(&(entry.client, entry.began)) {
            // It may have been decided after the client gave it up.
            entry.ended = it.told;
            entry.outcome = if it.committed { Outcome::Committed } else { Outcome::Void(Why::Later) };
        }
    }
    let is_hit = |it: &Told| {
        let mut its = entries.iter().filter(|entry| (entry.client, entry.began) == (it.client, it.began));
        its.any(|entry| hit.meets(entry))
    };
    let contradicts = |it: &Told| {
        let (client, began) = (it.client, it.began);
        format!(
            "client {client} was told of its transaction of {began} us that it had committed, and that it was aborted"
        )
    };
    both.iter().filter(|it| !is_hit(it)).map(contradicts).collect()
}

#[cfg(test)]
mod tests {
    use super::super::waivers::Waivers;
    use super::*;
    use crate::history::Step;

    fn open(client: u64) -> Entry {
        let steps = vec![Step::Add("a".into(), client)];
        Entry { client, began: 10, ended: 20, outcome: Outcome::Unknown, plain: false, steps }
    }

    fn told(client: u64, committed: bool) -> Told {
        Told { client, began: 10, told: 90, committed }
    }

    #[test]
    fn what_clients_were_told_counts() {
        let mut entries = vec![open(1), open(2), open(3)];
        let answers = [told(1, true), told(2, false), told(2, false)];
        assert!(heed(&mut entries, &answers, &Hits::default()).is_empty());
        let outcomes = entries.iter().map(|entry| (entry.outcome, entry.ended));
        let expected = [(Outcome::Committed, 90), (Outcome::Void(Why::Later), 90), (Outcome::Unknown, 20)];
        assert!(outcomes.eq(expected), "{entries:?}");
    }

    #[test]
    fn two_answers_that_contradict_each_other_are_wrong_unless_a_shard_was_hit() {
        let answers = [told(1, true), told(1, false)];
        let wrong = heed(&mut [open(1)], &answers, &Hits::default());
        assert!(wrong[0].contains("client 1 was told"), "{wrong:?}");
        let mut waivers = Waivers::default();
        waivers.note_hit((15, 16), vec![(0, u16::MAX)]);
        let mut entries = [open(1)];
        let hit = waivers.hits_of(&entries);
        assert!(heed(&mut entries, &answers, &hit).is_empty());
        assert_eq!(entries[0].outcome, Outcome::Unknown);
    }
}
