//! Records that vanished by themselves, and where that stands in the order of decisions (P36).
//!
//! A transaction of its own removes the record. It comes after the transactions that had voted on the record by then,
//! and before those that got the record later, because these wait for the former. So its place is behind the last
//! decision of those that had voted; transactions that use the record after that are decided later.

use std::collections::{BTreeMap, BTreeSet};

use claret_core::message::Status;
use claret_core::{AttemptId, ShardId, Time, Timestamp};
use claret_types::Bytes;

use super::replay::Replay;
use super::{AttemptEntry, Ledger, Moment, Vanished, Violation};
use crate::run::Issued;

/// Records that vanish together; with each the millisecond, if only its time ended it.
pub(super) type Lost<'a> = BTreeMap<&'a Bytes, Option<u64>>;

impl Ledger {
    /// Records of a shard vanished, each by itself.
    /// `unheard`: who had voted there by then, though it did not say so.
    pub(crate) fn note_vanished(
        &mut self,
        shard: ShardId,
        (keys, unheard): (&[Bytes], &BTreeSet<AttemptId>),
        now: Time,
        by_time: Option<u64>,
    ) {
        for key in keys {
            let has_voted = |attempt: &AttemptId, entry: &AttemptEntry| {
                // Its slot may have been another shard's then. What has not left yet was voted on by nobody.
                let Some(site) = entry.sites.get(key) else { return false };
                let voted = entry.votes.was_yes(*site);
                let votes = *site == shard && unheard.contains(attempt);
                (voted || votes) && self.uses(entry, key)
            };
            let voted = self.attempts.iter().filter(|(attempt, entry)| has_voted(attempt, entry));
            let voted = voted.map(|(attempt, _)| *attempt).collect();
            let place = self.order.len();
            self.vanished.push(Vanished { shard, key: key.clone(), at: now, place, voted, by_time });
        }
    }

    /// Attempts of which a shard says that they have voted there: who is to be carried out in its place says nothing before.
    pub(crate) fn voted(&self, written: impl Fn(AttemptId) -> Option<Status>) -> BTreeSet<AttemptId> {
        let asked = self.attempts.keys().filter(|_| self.is_stamped).copied();
        asked.filter(|attempt| written(*attempt) == Some(Status::Prepared)).collect()
    }

    /// What is undone and was not answered uses nothing: it may come after the vote.
    pub(super) fn uses(&self, entry: &AttemptEntry, key: &Bytes) -> bool {
        let is_on = |issued: &Issued| issued.key == *key && !issued.is_unsent();
        let uses = |run| self.runs[run].issued.iter().any(is_on);
        entry.members.iter().any(uses)
    }

    /// Whether a record of the shard ever vanished.
    pub(super) fn has_vanished(&self, shard: ShardId, key: &Bytes) -> bool {
        self.vanished.iter().any(|it| it.shard == shard && it.key == *key)
    }

    /// Those who come before it. Where a shard forgot a vote before it carried it out, nobody waited for it; and where another shard
    /// did, it was given up here, unless it was carried out.
    fn remembered<'a>(&'a self, vanished: &'a Vanished) -> impl Iterator<Item = &'a AttemptEntry> {
        let entries = vanished.voted.iter().map(|attempt| &self.attempts[attempt]);
        entries.filter(|entry| {
            // Its slot may have been another shard's then.
            let site = entry.sites.get(&vanished.key).unwrap_or(&vanished.shard);
            let is_done = entry.applied.contains(site) || entry.carried_out.contains(&vanished.key);
            is_done || !entry.is_torn()
        })
    }

    /// Behind how many decisions, and by when, everybody was decided who comes before it.
    fn settled(&self, vanished: &Vanished) -> (usize, Time) {
        let Vanished { at, place, .. } = vanished;
        let decided = self.remembered(vanished).filter_map(|entry| entry.decided);
        decided
            .fold((*place, *at), |(place, at), decision| (place.max(decision.place + 1), at.max(decision.at)))
    }

    /// The records that vanished, by the number of decisions that come before; with each the millisecond, if only its time ended
    /// it.
    pub(super) fn vanished_by_place(&self) -> BTreeMap<usize, Lost<'_>> {
        let mut by_place: BTreeMap<usize, Lost<'_>> = BTreeMap::new();
        for vanished in &self.vanished {
            add(by_place.entry(self.settled(vanished).0).or_default(), vanished);
        }
        by_place
    }

    /// The same by timestamps: behind all that had voted on it by then. With each, the number of decisions that come before, as
    /// above.
    pub(super) fn vanished_by_timestamp(&self) -> impl Iterator<Item = (Timestamp, usize, Lost<'_>)> {
        self.vanished.iter().map(|vanished| {
            let finals = self.remembered(vanished).filter_map(|entry| self.final_of(entry));
            let seen = self.order[..vanished.place].iter().filter_map(|moment| match moment {
                Moment::Failed(_, key, behind) if *key == vanished.key => Some(*behind),
                _ => None,
            });
            let mut lost = Lost::new();
            add(&mut lost, vanished);
            // Those with a timestamp come first of those with the same anyway.
            let beside = self.remembered(vanished).filter(|entry| entry.stamps.is_beside());
            let places = beside.filter_map(|entry| entry.decided).map(|decision| decision.place + 1);
            let place = places.fold(vanished.place, usize::max);
            (finals.chain(seen).max().unwrap_or_default(), place, lost)
        })
    }

    /// These records are lost here. One that only its time ended must have one by then (P71): a transaction that was committed
    /// before may have put that off.
    pub(super) fn forget_vanished(&self, replay: &mut Replay<'_>, lost: Lost<'_>) -> Result<(), Violation> {
        for (key, by_time) in &lost {
            let Some(now_ms) = by_time.filter(|_| self.torn() == 0 && !self.is_wiped()) else { continue };
            let Some(state) = replay.reference.records().get(*key) else { continue };
            if state.expiry().is_none_or(|expiry| expiry.ms() > now_ms) {
                let until =
                    state.expiry().map_or("for ever".to_owned(), |expiry| format!("until {}", expiry.ms()));
                return Err(format!("'{key}' ended by its time at {now_ms} ms, and is to be there {until}"));
            }
        }
        for key in lost.keys() {
            replay.precedes(|it| it.add_end(key));
        }
        replay.reference.forget(|key| lost.contains_key(key));
        Ok(())
    }

    /// The records that vanished: when that began, and by when it was over.
    pub(crate) fn ends(&self) -> impl Iterator<Item = (&Bytes, Time, Time)> {
        self.vanished.iter().map(|it| (&it.key, it.at, self.settled(it).1))
    }
}

fn add<'a>(lost: &mut Lost<'a>, vanished: &'a Vanished) {
    let by_time = lost.entry(&vanished.key).or_insert(vanished.by_time);
    *by_time = by_time.and(vanished.by_time);
}
