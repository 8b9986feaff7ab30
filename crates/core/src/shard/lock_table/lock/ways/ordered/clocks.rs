//! The clocks of records (P73): for each mode the largest timestamp that was voted, final or carried out.
//!
//! They are kept by the hash of the key and by mode, without elements: two that share one are only ordered more than they
//! need be. So are those who draw, among each other: that two fit may be owed to somebody between them. Old ones are forgotten by generations, and [`Clocks::floor`] says up to which timestamp anything may be.

use claret_types::{Mode, TypeInfo};
use hashbrown::HashMap;
use smallvec::{SmallVec, smallvec};

use super::used::Used;
use crate::ids::Timestamp;
use crate::planted::{Bug, is_planted};

/// A generation is not forgotten for its size before it has so many records.
const RECORDS_MAX: usize = 1 << 14;

/// What is younger is not forgotten: whoever votes now would stand behind something that is hardly settled yet, and its caller
/// would wait for that. In microseconds.
const KEPT_US: u64 = 20_000;

/// What is older by the shard's clock is forgotten though nobody knows whether it is settled. In microseconds.
const KEPT_US_MAX: u64 = 1_000_000;

/// The clocks of one record.
#[derive(Clone, Debug)]
struct RecordClocks {
    /// The type of which the modes are.
    kind: &'static TypeInfo,
    by_mode: SmallVec<[(Mode, Timestamp); 2]>,
    /// The largest of those who drew: whether two fit in together depends on what was between them.
    drawn: Timestamp,
    /// The largest of those who drew little where the bounds were far. Among each other they fit in any order.
    drawn_little: Timestamp,
}

impl RecordClocks {
    fn latest(&self) -> Timestamp {
        self.by_mode.iter().map(|(_, at)| *at).max().unwrap_or_default()
    }

    /// What conflicts with that use, of a type. All of it, if the types have no modes in common (P14).
    fn before(&self, kind: &TypeInfo, used: Used) -> Timestamp {
        let Some(modes) = self.kind.common_modes(kind) else {
            return if is_planted(Bug::OtherTypeUnordered) { Timestamp::default() } else { self.latest() };
        };
        let in_conflict = |(mode, _): &&(Mode, Timestamp)| modes.conflicts_of(*mode) & used.modes != 0;
        let before = self.by_mode.iter().filter(in_conflict).map(|(_, at)| *at).max().unwrap_or_default();
        let draws = used.draws || used.draws_little && !is_planted(Bug::LittleDrawsUnordered);
        let drawn = if draws { self.drawn } else { Timestamp::default() };
        let drawn_little = if used.draws { self.drawn_little } else { Timestamp::default() };
        before.max(drawn).max(drawn_little)
    }

    fn raise(&mut self, kind: &'static TypeInfo, used: Used, at: Timestamp) {
        if self.kind.common_modes(kind).is_none() {
            // Whoever comes conflicts with all of what was of another type.
            self.by_mode = smallvec![(Mode::EXCLUSIVE, self.latest())];
            self.kind = kind;
        } else if self.kind.is_of_any() {
            self.kind = kind;
        }
        if used.draws {
            self.drawn = self.drawn.max(at);
        }
        if used.draws_little {
            self.drawn_little = self.drawn_little.max(at);
        }
        let mut modes = used.modes;
        while modes != 0 {
            let mode = Mode(modes.trailing_zeros() as u8);
            modes &= modes - 1;
            match self.by_mode.iter_mut().find(|(known, _)| *known == mode) {
                Some((_, known)) => *known = at.max(*known),
                None => self.by_mode.push((mode, at)),
            }
        }
    }
}

/// Some records' clocks.
#[derive(Clone, Debug, Default)]
struct Generation {
    clocks: HashMap<u64, RecordClocks, foldhash::fast::FixedState>,
    latest: Timestamp,
}

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clocks {
    young: Generation,
    old: Generation,
    /// The largest timestamp that was forgotten.
    floor: Timestamp,
    /// The largest timestamp that was used here since the shard began.
    used: Timestamp,
}

impl Clocks {
    /// The largest clock of a record for what conflicts with that use of it. O(modes).
    pub(in crate::shard::lock_table) fn before(&self, hash: u64, kind: &TypeInfo, used: Used) -> Timestamp {
        let of = |generation: &Generation| {
            generation.clocks.get(&hash).map_or(Timestamp::default(), |it| it.before(kind, used))
        };
        of(&self.young).max(of(&self.old)).max(self.floor)
    }

    /// A record was so used by somebody who voted, or whose place is final.
    pub(in crate::shard::lock_table) fn raise(
        &mut self,
        hash: u64,
        kind: &'static TypeInfo,
        used: Used,
        at: Timestamp,
    ) {
        self.used = self.used.max(at);
        let young = &mut self.young;
        young.latest = young.latest.max(at);
        let fresh = || RecordClocks {
            kind,
            by_mode: SmallVec::new(),
            drawn: Timestamp::default(),
            drawn_little: Timestamp::default(),
        };
        young.clocks.entry(hash).or_insert_with(fresh).raise(kind, used, at);
    }

    /// Forgets what the safe time passed some time ago or the shard's clock long ago, and more if there are too many: what is forgotten
    /// is every record's clock from then on. Up to the returned one the shard's clock has to be now.
    pub(crate) fn forget(&mut self, clock: Timestamp, safe_time: Timestamp) -> Timestamp {
        let is_past = |generation: &Generation| {
            generation.latest.0.saturating_add(KEPT_US) <= safe_time.0
                || generation.latest.0.saturating_add(KEPT_US_MAX) <= clock.0
        };
        let is_due = is_past(&self.old) && !(self.old.clocks.is_empty() && self.young.clocks.is_empty());
        if is_due || self.young.clocks.len() > RECORDS_MAX {
            // Up to there anything may have been used of records whose clocks are forgotten.
            if !is_planted(Bug::NoFloor) {
                self.floor = self.floor.max(self.old.latest);
            }
            self.old = std::mem::take(&mut self.young);
        }
        self.floor
    }

    /// The largest clock of a record. An error tells of all of it.
    pub(crate) fn latest(&self, hash: u64) -> Timestamp {
        let of = |generation: &Generation| generation.clocks.get(&hash).map(RecordClocks::latest);
        of(&self.young).max(of(&self.old)).unwrap_or_default().max(self.floor)
    }

    /// A record vanished: whoever comes now comes behind all that was used of it, whatever the modes (P86).
    pub(crate) fn seal(&mut self, hash: u64) {
        if is_planted(Bug::VanishedUnsealed) {
            return;
        }
        for generation in [&mut self.young, &mut self.old] {
            if let Some(clocks) = generation.clocks.get_mut(&hash) {
                clocks.by_mode = smallvec![(Mode::EXCLUSIVE, clocks.latest())];
            }
        }
    }

    /// The largest timestamp that was used here since the shard began.
    #[inline]
    pub(crate) fn used(&self) -> Timestamp {
        self.used
    }

    /// The largest timestamp that was used on any record.
    pub(crate) fn latest_of_all(&self) -> Timestamp {
        self.young.latest.max(self.old.latest).max(self.floor)
    }

    /// The shard begins anew: nobody knows what was used up to here, and whether that is settled.
    pub(crate) fn begin_at(&mut self, at: Timestamp) {
        self.forget_up_to(at);
        self.used = self.used.max(at);
    }

    /// Nobody knows what was used up to here.
    pub(crate) fn forget_up_to(&mut self, at: Timestamp) {
        self.floor = self.floor.max(at);
    }

    /// All of it, in order: for digests.
    pub(crate) fn content(&self) -> impl std::fmt::Debug + '_ {
        let of = |generation: &'_ Generation| {
            let mut clocks: Vec<_> = Vec::new();
            // In any order: sorted below.
            for (hash, RecordClocks { kind, by_mode, drawn, drawn_little }) in &generation.clocks {
                let mut by_mode = by_mode.clone();
                by_mode.sort_unstable();
                clocks.push((*hash, kind.name, by_mode, *drawn, *drawn_little));
            }
            clocks.sort_unstable();
            (clocks, generation.latest)
        };
        (of(&self.young), of(&self.old), self.floor, self.used)
    }
}
