//! Cuts partial states out of whole states, as small as each type's documentation allows: what a host that has the records
//! elsewhere loads for an operation whose owner has effects on the record. One function a type.

use std::collections::BTreeSet;

use claret_types::{
    Best, BoundedCounter, Bytes, Counter, DataType, Dict, DictEffect, DictOp, DictState, Document,
    DocumentEffect, DocumentNode, DocumentOp, DocumentState, Effect, End, FloatCounter, List, ListEffect,
    ListOp, ListState, Operation, Ranking, Register, ScoreBound, ScoredSet, ScoredSetEffect, ScoredSetOp,
    Set, SetEffect, SetOp, SetState, State, SummaryBag, TopK, TopKEffect, TopKOp, UidGenerator,
};

/// A type whose records can be held in part.
pub(crate) trait Cut: DataType {
    /// The part of `whole` in which `op` executes as in all of it, once `own` are added.
    fn cut(whole: &Self::State, op: &Self::Op, own: &[&Self::Effect]) -> Self::State;
}

type Names<'a> = BTreeSet<&'a Bytes>;

/// The same for states whose type is forgotten. The whole state where types are mixed.
pub(crate) fn cut(whole: &State, op: &Operation, own: &[&Effect]) -> State {
    fn of<T: Cut>(whole: &State, op: &Operation, own: &[&Effect]) -> Option<State> {
        let own: Option<Vec<&T::Effect>> = own.iter().map(|effect| effect.downcast::<T>()).collect();
        Some(State::new::<T>(T::cut(whole.downcast::<T>()?, op.downcast::<T>()?, &own?)))
    }
    let cuts = [
        of::<Register>,
        of::<Counter>,
        of::<FloatCounter>,
        of::<BoundedCounter>,
        of::<Set>,
        of::<Dict>,
        of::<Document>,
        of::<ScoredSet>,
        of::<TopK>,
        of::<SummaryBag>,
        of::<List>,
        of::<UidGenerator>,
    ];
    let part = cuts.iter().find_map(|cut| cut(whole, op, own)).unwrap_or_else(|| whole.clone());
    part.expiring(whole.expiry())
}

/// Small records are loaded as they are.
macro_rules! whole {
    ($($kind:ty),+) => {$(
        impl Cut for $kind {
            fn cut(whole: &Self::State, _: &Self::Op, _: &[&Self::Effect]) -> Self::State {
                whole.clone()
            }
        }
    )+};
}

whole!(Register, Counter, FloatCounter, BoundedCounter, SummaryBag, UidGenerator);

impl Cut for Set {
    fn cut(whole: &SetState, op: &SetOp, own: &[&SetEffect]) -> SetState {
        let mut names: Names<'_> = match op {
            SetOp::Add(list)
            | SetOp::AddReturning(list)
            | SetOp::Remove(list)
            | SetOp::RemoveReturning(list) => list.iter().collect(),
            SetOp::Contains(member) => Names::from([member]),
            SetOp::Len => Names::new(),
            SetOp::Members => return whole.clone(),
        };
        names.extend(own.iter().flat_map(|effect| effect.added().iter().chain(effect.removed())));
        let here: Vec<Bytes> = names.into_iter().filter(|name| whole.contains(name)).cloned().collect();
        let elsewhere = whole.len() - here.len();
        SetState::partial(here, elsewhere)
    }
}

impl Cut for Dict {
    fn cut(whole: &DictState, op: &DictOp, own: &[&DictEffect]) -> DictState {
        let mut names: Names<'_> = match op {
            DictOp::Set(list) | DictOp::SetReturning(list) => list.iter().map(|(field, _)| field).collect(),
            DictOp::Remove(list) | DictOp::RemoveReturning(list) | DictOp::GetMany(list) => {
                list.iter().collect()
            }
            DictOp::Add(field, _)
            | DictOp::AddReturning(field, _)
            | DictOp::Get(field)
            | DictOp::Contains(field) => Names::from([field]),
            DictOp::Len => Names::new(),
            DictOp::Fields | DictOp::All => return whole.clone(),
        };
        for effect in own {
            match effect {
                DictEffect::Add(field, _) => drop(names.insert(field)),
                DictEffect::Change { put, removed } => {
                    names.extend(put.iter().map(|(field, _)| field).chain(removed));
                }
            }
        }
        let here: Vec<_> =
            names.into_iter().filter_map(|name| Some((name.clone(), whole.get(name)?.clone()))).collect();
        let elsewhere = whole.len() - here.len();
        DictState::partial(here, elsewhere)
    }
}

impl Cut for Document {
    fn cut(whole: &DocumentState, op: &DocumentOp, own: &[&DocumentEffect]) -> DocumentState {
        let looks_at = op.looks_at();
        let is_object = |field: &Bytes| whole.get(field) == Some(&DocumentNode::Object);
        if looks_at.iter().any(|(field, within)| *within && is_object(field)) {
            return whole.clone();
        }
        let root = Bytes::from("$");
        let mut names: Names<'_> = looks_at.iter().map(|(field, _)| field).chain([&root]).collect();
        for effect in own {
            match effect {
                DocumentEffect::Add(field, _) => drop(names.insert(field)),
                DocumentEffect::Change { put, removed } => {
                    names.extend(put.iter().map(|(field, _)| field).chain(removed));
                }
            }
        }
        whole.only(|field| names.contains(field))
    }
}

impl Cut for ScoredSet {
    fn cut(whole: &Ranking, op: &ScoredSetOp, own: &[&ScoredSetEffect]) -> Ranking {
        let mut names: Names<'_> = match op {
            ScoredSetOp::Add(list) | ScoredSetOp::AddReturning(list) => {
                list.iter().map(|(member, _)| member).collect()
            }
            ScoredSetOp::Remove(list) | ScoredSetOp::RemoveReturning(list) => list.iter().collect(),
            ScoredSetOp::Increment { member, .. }
            | ScoredSetOp::IncrementReturning { member, .. }
            | ScoredSetOp::Score(member) => Names::from([member]),
            ScoredSetOp::Len => Names::new(),
            ScoredSetOp::RangeByScore { min, max, .. } | ScoredSetOp::Count { min, max } => whole
                .iter()
                .filter(|(_, score)| within(*score, *min, *max))
                .map(|(member, _)| member)
                .collect(),
            ScoredSetOp::Range { .. } | ScoredSetOp::Rank(_) if !own.is_empty() => return whole.clone(),
            ScoredSetOp::Range { start, stop, reverse, .. } => {
                return window(whole, positions(*start, *stop, whole.len()), *reverse);
            }
            ScoredSetOp::Rank(member) => {
                let at = whole.iter().position(|(other, _)| other == member);
                return window(whole, at.map_or(0..0, |at| at..at + 1), false);
            }
        };
        for effect in own {
            match effect {
                ScoredSetEffect::Set(list) => names.extend(list.iter().map(|(member, _)| member)),
                ScoredSetEffect::Shift(member, _) => drop(names.insert(member)),
            }
        }
        scattered(whole, names)
    }
}

fn within(score: f64, min: ScoreBound, max: ScoreBound) -> bool {
    let from = match min {
        ScoreBound::Included(min) => min <= score,
        ScoreBound::Excluded(min) => min < score,
    };
    from && match max {
        ScoreBound::Included(max) => score <= max,
        ScoreBound::Excluded(max) => score < max,
    }
}

fn scattered(whole: &Ranking, names: Names<'_>) -> Ranking {
    let here: Vec<_> =
        names.into_iter().filter_map(|name| Some((name.clone(), whole.score(name)?))).collect();
    let elsewhere = whole.len() - here.len();
    Ranking::partial(here, 0, elsewhere)
}

/// One run of positions, counted from the high end if `reverse`.
fn window(whole: &Ranking, span: std::ops::Range<usize>, reverse: bool) -> Ranking {
    let below = if reverse { whole.len() - span.end } else { span.start };
    let here = whole.iter().skip(below).take(span.len());
    let here: Vec<_> = here.map(|(member, score)| (member.clone(), score)).collect();
    let elsewhere = whole.len() - here.len();
    Ranking::partial(here, below, elsewhere)
}

/// `start..=stop` as Redis counts.
fn positions(start: i64, stop: i64, len: usize) -> std::ops::Range<usize> {
    let from_front = |index: i64| if index < 0 { index + len as i64 } else { index };
    let (start, stop) = (from_front(start).max(0), from_front(stop).min(len as i64 - 1));
    if start > stop { 0..0 } else { start as usize..stop as usize + 1 }
}

impl Cut for TopK {
    fn cut(whole: &Best, op: &TopKOp, own: &[&TopKEffect]) -> Best {
        let ranking = whole.ranking();
        let shown = match op {
            TopKOp::List { count } => usize::try_from(*count).expect("few"),
            TopKOp::Add { .. } | TopKOp::Max | TopKOp::Count => 1,
        };
        let mut names: Names<'_> = ranking.iter().rev().take(shown).map(|(member, _)| member).collect();
        names.extend(ranking.iter().take(own.len() + 1).map(|(member, _)| member));
        if let TopKOp::Add { member, .. } = op {
            names.insert(member);
        }
        for effect in own {
            match effect {
                TopKEffect::Offer { member, .. } => drop(names.insert(member)),
                TopKEffect::Restore { .. } => unreachable!("never pending"),
            }
        }
        Best::partial(whole.capacity(), scattered(ranking, names))
    }
}

impl Cut for List {
    fn cut(whole: &ListState, op: &ListOp, own: &[&ListEffect]) -> ListState {
        let len = whole.len();
        let (mut left, mut right) = (0, 0);
        for effect in own {
            match effect {
                ListEffect::Take(End::Front, values) => left += values.len(),
                ListEffect::Take(End::Back, values) => right += values.len(),
                ListEffect::Push(..) => {}
            }
        }
        match op {
            ListOp::Push(..) | ListOp::PushReturning(..) | ListOp::Len => {}
            ListOp::Pop(End::Front) => left += 1,
            ListOp::Pop(End::Back) => right += 1,
            ListOp::Index(stop @ 0..) | ListOp::Range { start: 0.., stop: stop @ 0.. } => {
                left += *stop as usize + 1;
            }
            ListOp::Index(start) | ListOp::Range { start: start @ ..0, stop: ..0 } => {
                right += start.unsigned_abs() as usize;
            }
            ListOp::Range { .. } => left = len,
        }
        let left = left.min(len);
        let right = right.min(len - left);
        let values = || whole.iter().cloned();
        ListState::partial(values().take(left), len - left - right, values().skip(len - right))
    }
}
