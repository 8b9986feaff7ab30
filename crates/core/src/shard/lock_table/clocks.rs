//! The clocks of records (P73): for each mode the largest timestamp that was voted, final or carried out.
//!
//! They are kept by the hash of the key and by mode, without elements: two that share one are only ordered more than they
//! need be. Old ones are forgotten by generations, and [`Clocks::floor`] says up to which timestamp anything may be.

use claret_types::{Claims, Mode, Modes};
use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::ids::Timestamp;

/// The largest timestamp of each mode that was used.
type ByMode = SmallVec<[(Mode, Timestamp); 2]>;

/// A generation is not forgotten for its size before it has so many records.
const RECORDS_MAX: usize = 1 << 14;

/// What is younger is not forgotten: whoever votes now would stand behind something that is hardly settled yet, and its caller
/// would wait for that. In microseconds.
const KEPT_US: u64 = 20_000;

/// Some records' clocks.
#[derive(Clone, Debug, Default, PartialEq)]
struct Generation {
    clocks: HashMap<u64, ByMode, foldhash::fast::FixedState>,
    latest: Timestamp,
}

/// See the module's text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Clocks {
    young: Generation,
    old: Generation,
    /// The largest timestamp that was forgotten.
    floor: Timestamp,
}

impl Clocks {
    /// The largest clock of a record for the modes that conflict with these claims. O(claims x modes).
    pub(super) fn before<'a>(
        &self,
        hash: u64,
        modes: &Modes,
        claims: impl Iterator<Item = &'a Claims>,
    ) -> Timestamp {
        let conflicting = claims
            .flat_map(|claims| &claims.list)
            .fold(0, |bits, claim| bits | modes.conflicts_of(claim.mode));
        let of = |generation: &Generation| {
            let clocks = generation.clocks.get(&hash).into_iter().flatten();
            let conflict = clocks.filter(|(mode, _)| conflicting & (1 << mode.0) != 0);
            conflict.map(|(_, at)| *at).max().unwrap_or_default()
        };
        of(&self.young).max(of(&self.old)).max(self.floor)
    }

    /// These claims were voted on, or got their final place.
    pub(super) fn raise<'a>(&mut self, hash: u64, claims: impl Iterator<Item = &'a Claims>, at: Timestamp) {
        let young = &mut self.young;
        young.latest = young.latest.max(at);
        let clocks = young.clocks.entry(hash).or_default();
        for claim in claims.flat_map(|claims| &claims.list) {
            match clocks.iter_mut().find(|(mode, _)| *mode == claim.mode) {
                Some((_, known)) => *known = at.max(*known),
                None => clocks.push((claim.mode, at)),
            }
        }
    }

    /// Forgets what the shard's clock passed some time ago, and more if there are too many. Up to the returned one the shard's
    /// clock has to be now.
    pub(crate) fn forget(&mut self, clock: Timestamp) -> Timestamp {
        let is_past = |generation: &Generation| generation.latest.0.saturating_add(KEPT_US) <= clock.0;
        let is_due = is_past(&self.old) && !(self.old.clocks.is_empty() && self.young.clocks.is_empty());
        if is_due || self.young.clocks.len() > RECORDS_MAX {
            self.floor = self.floor.max(self.old.latest);
            self.old = std::mem::take(&mut self.young);
        }
        self.floor
    }

    /// All of it, in order: for digests.
    pub(crate) fn content(&self) -> impl std::fmt::Debug + '_ {
        let of = |generation: &'_ Generation| {
            let mut clocks: Vec<_> = Vec::new();
            // In any order: sorted below.
            for (hash, by_mode) in &generation.clocks {
                let mut by_mode = by_mode.clone();
                by_mode.sort_unstable();
                clocks.push((*hash, by_mode));
            }
            clocks.sort_unstable();
            (clocks, generation.latest)
        };
        (of(&self.young), of(&self.old), self.floor)
    }
}
