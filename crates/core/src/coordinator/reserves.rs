//! What earlier attempts needed on each record, so that a restart takes it at first touch (P22, trap 12).
//!
//! Only records on which an attempt did several things are kept; with one thing there is nothing to join. What one
//! attempt found stays for all later ones, because an attempt may end before it reaches the record.

use std::fmt;

use claret_types::{Bytes, Claims, Mode, Operation, TypeInfo};
use indexmap::IndexMap;

use crate::switches::Discipline;
use crate::wire::CLAIMS_MAX;

type ByKey<K, V> = IndexMap<K, V, foldhash::fast::FixedState>;

/// See the module's text.
#[derive(Clone, Default)]
pub(super) struct Reserves(ByKey<Bytes, Reserve>);

#[derive(Clone, Debug)]
struct Reserve {
    kind: &'static TypeInfo,
    claims: Claims,
    /// By this attempt.
    used: bool,
}

impl Reserves {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What to take besides an operation's own claims, if it is the attempt's first on the record.
    pub(super) fn take(&mut self, key: &Bytes, op: &Operation) -> Option<Claims> {
        let reserve = self.0.get_mut(key)?;
        if std::mem::replace(&mut reserve.used, true) {
            return None;
        }
        // Modes of two types do not mix.
        let same = reserve.kind.id == op.type_info().id;
        Some(if same { reserve.claims.clone() } else { Claims::record(Mode::EXCLUSIVE) })
    }

    /// An attempt is over that used these operations: notes what they would claim, by record.
    pub(super) fn note<'a>(
        &mut self,
        discipline: Discipline,
        operations: impl Iterator<Item = (&'a Bytes, &'a Operation)>,
    ) {
        let mut joined: ByKey<&Bytes, (u32, Reserve)> = ByKey::default();
        for (key, op) in operations {
            let kind = op.type_info();
            let fresh = || (0, Reserve { kind, claims: Claims::none(), used: false });
            let (calls, reserve) = joined.entry(key).or_insert_with(fresh);
            *calls += 1;
            reserve.join(kind, &state_free(discipline, op));
        }
        for (key, (calls, reserve)) in joined {
            if let Some(known) = self.0.get_mut(key) {
                known.join(reserve.kind, &reserve.claims);
            } else if calls > 1 {
                self.0.insert(key.clone(), reserve);
            }
        }
        self.0.values_mut().for_each(|reserve| reserve.used = false);
    }
}

/// By records' keys and types' names.
impl fmt::Debug for Reserves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.0.iter().map(|(key, it)| (key, it.kind.name, &it.claims, it.used));
        f.debug_list().entries(all).finish()
    }
}

impl Reserve {
    fn join(&mut self, kind: &'static TypeInfo, claims: &Claims) {
        if self.kind.id == kind.id {
            add_modes(&mut self.claims, claims);
        } else {
            self.claims = Claims::record(Mode::EXCLUSIVE);
        }
    }
}

/// Adds the modes of `more`; what it draws is drawn when it is executed.
pub(super) fn add_modes(claims: &mut Claims, more: &Claims) {
    more.list.iter().for_each(|claim| claims.push(claim.scope, claim.mode));
    if claims.list.len() > CLAIMS_MAX {
        *claims = Claims::record(Mode::EXCLUSIVE);
    }
}

/// The claims, or all of the record where there are too many to send.
pub(super) fn bounded(claims: Claims) -> Claims {
    if claims.list.len() > CLAIMS_MAX { Claims::record(Mode::EXCLUSIVE) } else { claims }
}

/// What an operation may claim, whatever the state.
pub(super) fn state_free(discipline: Discipline, op: &Operation) -> Claims {
    match discipline.is_abstract() {
        true => op.footprint(),
        false => op.reader_writer(),
    }
}
