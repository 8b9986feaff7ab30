//! The digest of a shard: see `crates/core/src/digest.rs`.

use super::{AttemptId, Participant, RecordIx, Shard};
use crate::digest::digest;

impl Shard {
    /// The same for shards that behave alike.
    pub fn digest(&self) -> u64 {
        let Shard {
            id,
            incarnation,
            remembers_since,
            switches: _,
            limits: _,
            table,
            attempts,
            sessions,
            deadlines: _, // As the attempts have them.
            going_on: _,
            put_off,
            deserted,
            departed: _,
            refused: _, // With direct calls only.
            accounts: _,
            kept: _,
            at_once: _,
            held_off,
            clock,
            stamped,
            horizon,
            batons,
            awaited,
            again_bytes: _,
            heard_of: _,
            latest: _,
            outputs,
            replication,
            stats: _,
        } = self;
        let mut open: Vec<(&AttemptId, &Participant)> = Vec::new();
        // In any order: sorted below.
        for (attempt, participant) in attempts {
            open.push((attempt, participant));
        }
        open.sort_unstable_by_key(|(attempt, _)| **attempt);
        let open: Vec<_> = open.into_iter().map(|(_, participant)| self.content_of(participant)).collect();
        let sessions: Vec<_> = sessions.iter().filter(|(_, history)| !history.is_fresh()).collect();
        let turns: Vec<&AttemptId> = put_off.values().collect();
        let batons: Vec<_> = batons.waiting().collect();
        let due = (turns, deserted, held_off, (clock, stamped, horizon, batons, awaited.all()));
        digest(&(
            id,
            incarnation,
            remembers_since,
            open,
            table.content(),
            sessions,
            due,
            (outputs, replication),
        ))
    }

    fn content_of<'a>(&'a self, participant: &'a Participant) -> impl std::fmt::Debug + 'a {
        let Participant {
            owner,
            stage,
            held,
            blocked,
            behind,
            turn: _,
            granted,
            replies,
            seen,
            undone,
            deadline,
            account: _,
            met_as,
            calls: _,
            bytes: _,
        } = participant;
        let key = |record: &RecordIx| self.table.key(*record);
        let held: Vec<_> = held.iter().map(key).collect();
        // Where calls are is known by what is held and what waits.
        let undone = undone.as_ref().map_or(&[][..], |undone| undone.ranges());
        let blocked: Vec<_> = blocked.iter().map(|(key, it)| (key, &it.calls, it.is_put_off())).collect();
        (owner, stage, held, blocked, behind, granted, replies, seen, (deadline, met_as, undone))
    }
}
