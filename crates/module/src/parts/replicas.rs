//! Whether the replicas of this node have what its shard told them (S1, S9 to S11 of `docs/replication.md`).
//!
//! A batch of changes goes the way of all writes, and so it ends at a place in the server's replication stream. A replica says up to
//! which place it has carried out everything. What is known of the configured replicas comes from the server (`ROLE`) and from the
//! view of the cluster; nothing here asks or sends.

use std::collections::VecDeque;

use claret_core::Time;
use claret_planted::{Bug, is_planted};
use claret_types::Bytes;

use crate::ffi::Answer;

/// The replicas of this node at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Replicas {
    /// The end of the server's stream.
    pub(crate) offset: u64,
    /// Of each that follows this node, as the cluster has it: up to where it has carried out everything; `None`: it is not connected.
    pub(crate) acked: Vec<Option<u64>>,
}

impl Replicas {
    /// Of those who follow this node, by the addresses that the cluster has of them, and of what the server answered to `ROLE`. Who is
    /// connected like a replica, and follows nobody, does not count.
    pub(crate) fn of(role: Answer, followers: impl Iterator<Item = String>) -> Option<Replicas> {
        let mut words = role.items().into_iter();
        let is_primary = words.next()?.is("master");
        let offset = words.next()?.int().filter(|_| is_primary)?;
        let connected: Vec<(String, u64)> = words.next()?.items().into_iter().filter_map(connected).collect();
        let acked = |address: String| {
            // The newest connection, where an older one has not been given up yet.
            let found = connected.iter().rev().find(|(of, _)| *of == address);
            if is_planted(Bug::AnybodyCounts) {
                connected.first().map(|it| it.1)
            } else {
                found.map(|it| it.1)
            }
        };
        Some(Replicas { offset: u64::try_from(offset).ok()?, acked: followers.map(acked).collect() })
    }
}

/// `host`, `port` and up to where.
fn connected(replica: Answer) -> Option<(String, u64)> {
    let mut words = replica.list();
    let (host, port, acked) = (words.next()?, words.next()?, words.next()?);
    let text = |word: &Bytes| String::from_utf8_lossy(word).into_owned();
    Some((format!("{}:{}", text(&host), text(&port)), text(&acked).parse().ok()?))
}

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Batches of which it is not known that all replicas have them, and where each ends at the latest: `None` before the server has
    /// put it into its stream. In order.
    batches: VecDeque<(u64, Option<u64>)>,
    /// The last batch that was told.
    last: u64,
    /// All was told in this batch. Who came before that counts no more for what was told earlier.
    whole: u64,
    /// A replica came that may know nothing, and is told everything with the next batch.
    is_whole_due: bool,
    /// As seen last.
    seen: Replicas,
}

impl Told {
    /// A batch was handed to the server. `is_whole`: it says everything, and counts from then on.
    pub(crate) fn told(&mut self, batch: u64, is_whole: bool) {
        if is_whole {
            self.whole = batch;
            self.is_whole_due = false;
        }
        self.last = batch;
        self.batches.push_back((batch, None));
    }

    /// The last batch that was told.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// A replica came, which may know nothing.
    pub(crate) fn came(&mut self) {
        self.is_whole_due = !is_planted(Bug::NewcomerUntold);
    }

    /// Whether the next batch has to say everything.
    pub(crate) fn is_whole_due(&self) -> bool {
        self.is_whole_due
    }

    /// Whether a batch is not in the stream yet, as far as is known.
    pub(crate) fn is_place_sought(&self) -> bool {
        self.batches.back().is_some_and(|(_, end)| end.is_none())
    }

    /// Looks. `configured`: so many replicas must there be. Up to which batch all of them have what was told, if that is news.
    pub(crate) fn look(&mut self, seen: Replicas, configured: usize) -> Option<u64> {
        for (_, end) in self.batches.iter_mut().rev().take_while(|(_, end)| end.is_none()) {
            *end = Some(if is_planted(Bug::EndUnsought) { 0 } else { seen.offset });
        }
        self.seen = seen;
        if self.is_whole_due || !self.are_all_there(configured) {
            return None;
        }
        let acked = || self.seen.acked.iter().flatten().copied();
        let least = (if is_planted(Bug::FastestDecides) { acked().max() } else { acked().min() })?;
        let mut confirmed = None;
        while let Some((batch, _)) =
            self.batches.front().filter(|(_, end)| end.is_some_and(|end| end <= least))
        {
            confirmed = Some(*batch);
            self.batches.pop_front();
        }
        // What came before all was told counts with that alone.
        confirmed.filter(|batch| *batch >= if is_planted(Bug::WholeUncounted) { 0 } else { self.whole })
    }

    /// Whether so many follow this node at least, and all of them are connected.
    pub(crate) fn are_all_there(&self, configured: usize) -> bool {
        (self.seen.acked.len() >= configured || is_planted(Bug::ConfiguredIgnored))
            && (self.seen.acked.iter().all(Option::is_some) || is_planted(Bug::AwayUncounted))
    }

    /// Whether all configured replicas know what was told, but for what is on its way: this node may die.
    pub(crate) fn do_replicas_know(&self, configured: usize) -> bool {
        let is_whole_there = self.batches.front().is_none_or(|(batch, _)| *batch > self.whole);
        !self.is_whole_due && self.whole > 0 && is_whole_there && self.are_all_there(configured)
    }

    /// As seen last.
    pub(crate) fn seen(&self) -> &Replicas {
        &self.seen
    }

    /// So many batches wait.
    pub(crate) fn waiting(&self) -> usize {
        self.batches.len()
    }
}

/// What a primary keeps of what it tells.
#[derive(Default)]
pub(crate) struct Telling {
    pub(crate) told: Told,
    /// Since when something waits for replicas, and not all of it has been confirmed.
    pub(crate) waits_since: Option<Time>,
    /// Since when not all configured replicas are there, as seen last: also while nothing waits for them.
    pub(crate) missing_since: Option<Time>,
    /// It was logged that replicas are missing.
    pub(crate) is_said: bool,
}

#[cfg(test)]
mod tests {
    use claret_types::Bytes;

    use super::{Replicas, Told};
    use crate::ffi::Answer;

    fn seen(offset: u64, acked: &[u64]) -> Replicas {
        Replicas { offset, acked: acked.iter().map(|acked| Some(*acked)).collect() }
    }

    fn began() -> Told {
        let mut told = Told::default();
        told.told(1, true);
        assert_eq!(told.look(seen(100, &[100]), 1), Some(1));
        told
    }

    #[test]
    fn a_batch_counts_when_every_replica_has_all_up_to_its_end() {
        let mut told = began();
        told.told(2, false);
        assert!(told.is_place_sought());
        assert_eq!(told.look(seen(150, &[100]), 1), None, "it was just sent");
        told.told(3, false);
        assert_eq!(told.look(seen(200, &[150]), 1), Some(2));
        assert_eq!(told.look(seen(900, &[199]), 1), None);
        assert_eq!(told.look(seen(900, &[200]), 1), Some(3));
        assert_eq!(told.waiting(), 0);
    }

    #[test]
    fn the_slowest_of_all_decides_and_who_is_missing_decides_too() {
        let mut told = began();
        told.told(2, false);
        told.look(seen(150, &[100, 100]), 2);
        assert_eq!(told.look(seen(150, &[150, 149]), 2), None);
        let without = Replicas { offset: 150, acked: vec![Some(150), None] };
        assert_eq!(told.look(without, 1), None, "the cluster knows of another one");
        assert_eq!(told.look(seen(150, &[150]), 2), None, "the operator wants two");
        assert!(!told.are_all_there(2));
        assert_eq!(told.look(seen(150, &[150, 150]), 2), Some(2));
    }

    #[test]
    fn who_came_between_two_batches_counts_from_when_it_was_told_everything() {
        let mut told = began();
        told.told(2, false);
        told.look(Replicas { offset: 150, acked: vec![None] }, 1);
        told.came();
        assert_eq!(
            told.look(seen(150, &[150]), 1),
            None,
            "it has the records, and not what the shard remembers"
        );
        assert!(told.is_whole_due() && !told.do_replicas_know(1));
        told.told(3, true);
        assert!(!told.do_replicas_know(1));
        assert_eq!(told.look(seen(200, &[150]), 1), None);
        assert_eq!(told.look(seen(200, &[200]), 1), Some(3));
        assert!(told.do_replicas_know(1) && !told.do_replicas_know(2));
        told.told(4, false);
        assert!(told.do_replicas_know(1));
    }

    #[test]
    fn who_follows_is_found_among_those_who_are_connected() {
        let bytes = |text: &str| Answer::Bytes(Bytes::from(text));
        let of = |host, port, acked| Answer::Array(vec![bytes(host), bytes(port), bytes(acked)]);
        // One connection is older, and not given up yet.
        let connected = Answer::Array(vec![
            of("h", "1", "60"),
            of("h", "1", "70"),
            of("h", "9", "90"),
            of("h", "3", "rubbish"),
        ]);
        let role = Answer::Array(vec![bytes("master"), Answer::Int(100), connected]);
        let followers = ["h:1", "h:2", "h:3"].map(str::to_owned);
        let found = Replicas::of(role, followers.clone().into_iter());
        assert_eq!(found, Some(Replicas { offset: 100, acked: vec![Some(70), None, None] }));
        let replica = Answer::Array(vec![
            bytes("slave"),
            bytes("h"),
            Answer::Int(1),
            bytes("connected"),
            Answer::Int(5),
        ]);
        assert_eq!(Replicas::of(replica, followers.into_iter()), None);
    }
}
