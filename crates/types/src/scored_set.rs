//! ScoredSet: distinct members, each with a score, in the order of scores. Native Redis type: zset.
//!
//! # Commutativity specification
//!
//! "In" means: in the set when the lock is granted, including the transaction's own earlier changes. *Exact* means an
//! integer of at most 2^52 either way (`exact.rs`). A call with several members claims for each. If `ZADD` names a
//! member twice, the last score counts.
//!
//! | operation | when | claims |
//! |---|---|---|
//! | `ZADD m` (void or returning) | m not in | `change` on m |
//! | | m in with another score | `rescore` on m |
//! | | m in with this score | `pin-score` on m |
//! | `ZREM m` (void) | m in / not in | `remove` / `pin-absent` on m |
//! | `ZREM.RETURNING m` | m in: 1 / not in: 0 | `change` / `pin-absent` on m |
//! | `ZINCRBY n m` (void), n exact | m in / not in | `shift` / `shift-new` on m; draws n, or all the room when m's score is not exact |
//! | `ZINCRBY n m`, n not exact; `ZINCRBY.RETURNING` | m in / not in | `rescore` / `change` on m |
//! | | m in, the sum is its score | `pin-score` on m |
//! | `ZSCORE m` | m in / not in | `pin-score` / `pin-absent` on m |
//! | `ZRANK m` | m in / not in | `read-all` on the record / `pin-absent` on m |
//! | `ZCARD` | | `read-card` on the record |
//! | `ZRANGE`, `ZRANGEBYSCORE`, `ZCOUNT` | | `read-all` on the record |
//!
//! Claims on different elements never conflict. On one element, or with the record:
//!
//! | | change | rescore | remove | shift | shift-new | pin-score | pin-absent | read-card | read-all |
//! |---|---|---|---|---|---|---|---|---|---|
//! | change | x | x | x | x | x | x | x | x | x |
//! | rescore | x | x | x | x | x | x | x | | x |
//! | remove | x | x | | x | x | x | | x | x |
//! | shift | x | x | x | | | x | x | | x |
//! | shift-new | x | x | x | | | x | x | x | x |
//! | pin-score | x | x | x | x | x | | | | |
//! | pin-absent | x | x | | x | x | | | | |
//! | read-card | x | | x | | x | | | | |
//! | read-all | x | x | x | x | x | | | | |
//!
//! `ZCARD` commutes with everything that does not change who is in: new scores of members that are in, removals of
//! members that are not. Void increments of one member commute while their sums are exact, and the draws keep them
//! exact. An increment of a score that is not exact draws the whole room, which excludes every other increment. Two
//! transactions cannot hold the pins of a present and an absent member at once, because the change between them
//! conflicts with both.

use std::collections::BTreeSet;
use std::ops::Range;

use hashbrown::HashSet;
use serde::{Deserialize, Serialize};

use crate::builtin::{BuiltIn, Native};
use crate::data_type::{
    Access, Arguments, DataType, Examples, Execution, Few, Method, Unique, arguments, few, method_named,
};
use crate::exact::{EXACT_DRAW, EXACT_ROOM, exact_draw, is_exact, one_zero};
use crate::ranking::{Entry, Ranking, ScoreBound};
use crate::span::{span, within};
use crate::words;
use crate::{Bytes, Claim, Claims, Mode, Modes, OpError, Reply, Room, Scope, modes};

/// Distinct members in the order of their scores. Operations on different members share the lock, and so do whole increments of
/// one; ranges and ranks exclude changes.
///
/// `docs/types.md` says for each operation what it shares the lock with.
pub struct ScoredSet;

/// Operations of [`ScoredSet`].
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum ScoredSetOp {
    Add(Few<(Bytes, f64)>),
    AddReturning(Few<(Bytes, f64)>),
    Remove(Few<Bytes>),
    RemoveReturning(Few<Bytes>),
    Increment { by: f64, member: Bytes },
    IncrementReturning { by: f64, member: Bytes },
    Score(Bytes),
    Len,
    Range { start: i64, stop: i64, reverse: bool, scores: bool },
    RangeByScore { min: ScoreBound, max: ScoreBound, scores: bool },
    Count { min: ScoreBound, max: ScoreBound },
    Rank(Bytes),
}

/// A change of a scored set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ScoredSetEffect {
    /// Gives members these scores, or takes them out, distinct members: `ZADD` and `ZREM`.
    Set(Few<(Bytes, Option<f64>)>),
    /// Adds to a member's score, which is 0 where it is not in: `ZINCRBY`.
    Shift(Bytes, f64),
}

type Op = ScoredSetOp;
type Effect = ScoredSetEffect;

const CHANGE: Mode = Mode(0);
const RESCORE: Mode = Mode(1);
const REMOVE: Mode = Mode(2);
const SHIFT: Mode = Mode(3);
const SHIFT_NEW: Mode = Mode(4);
const PIN_SCORE: Mode = Mode(5);
const PIN_ABSENT: Mode = Mode(6);
const READ_CARD: Mode = Mode(7);
const READ_ALL: Mode = Mode(8);

const fn write(
    name: &'static str,
    arguments: &'static str,
    summary: &'static str,
    returns: bool,
    complexity: &'static str,
) -> Method {
    Method { name, arguments, summary, access: Access::Write, returns, complexity }
}

const fn read(
    name: &'static str,
    arguments: &'static str,
    summary: &'static str,
    complexity: &'static str,
) -> Method {
    Method { name, arguments, summary, access: Access::Read, returns: true, complexity }
}

const METHODS: &[Method] = &[
    write("ZADD", "score member [score member ...]", "sets scores", false, "O(members log n)"),
    write(
        "ZADD.RETURNING",
        "score member [score member ...]",
        "sets scores; how many members were new",
        true,
        "O(members log n)",
    ),
    write("ZREM", "member [member ...]", "removes members", false, "O(members log n)"),
    write(
        "ZREM.RETURNING",
        "member [member ...]",
        "removes members; how many there were",
        true,
        "O(members log n)",
    ),
    write("ZINCRBY", "increment member", "adds to a score", false, "O(log n)"),
    write("ZINCRBY.RETURNING", "increment member", "adds to a score; the sum", true, "O(log n)"),
    read("ZSCORE", "member", "its score, if it is a member", "O(1)"),
    read("ZCARD", "", "how many members", "O(1)"),
    read(
        "ZRANGE",
        "start stop [REV] [WITHSCORES]",
        "members by position, negative ones from the end",
        "O(log n + results + distance from the nearer end)",
    ),
    read("ZRANGEBYSCORE", "min max [WITHSCORES]", "members by score; '(5' excludes 5", "O(log n + results)"),
    read("ZCOUNT", "min max", "how many members have such scores", "O(log n + counted)"),
    read("ZRANK", "member", "its position from the lowest score", "O(log n + distance from the nearer end)"),
];

impl DataType for ScoredSet {
    const NAME: &'static str = "scored-set";
    const SUMMARY: &'static str = "distinct members in the order of their scores";
    const NATIVE: &'static str = "zset";
    const METHODS: &'static [Method] = METHODS;
    const MODES: Modes = Modes {
        names: &[
            "change",
            "rescore",
            "remove",
            "shift",
            "shift-new",
            "pin-score",
            "pin-absent",
            "read-card",
            "read-all",
        ],
        conflicts: &[
            modes(&[CHANGE, RESCORE, REMOVE, SHIFT, SHIFT_NEW, PIN_SCORE, PIN_ABSENT, READ_CARD, READ_ALL]),
            modes(&[CHANGE, RESCORE, REMOVE, SHIFT, SHIFT_NEW, PIN_SCORE, PIN_ABSENT, READ_ALL]),
            modes(&[CHANGE, RESCORE, SHIFT, SHIFT_NEW, PIN_SCORE, READ_CARD, READ_ALL]),
            modes(&[CHANGE, RESCORE, REMOVE, PIN_SCORE, PIN_ABSENT, READ_ALL]),
            modes(&[CHANGE, RESCORE, REMOVE, PIN_SCORE, PIN_ABSENT, READ_CARD, READ_ALL]),
            modes(&[CHANGE, RESCORE, REMOVE, SHIFT, SHIFT_NEW]),
            modes(&[CHANGE, RESCORE, SHIFT, SHIFT_NEW]),
            modes(&[CHANGE, REMOVE, SHIFT_NEW]),
            modes(&[CHANGE, RESCORE, REMOVE, SHIFT, SHIFT_NEW]),
        ],
        removing: modes(&[CHANGE, REMOVE]),
        clearing: 0,
    };

    type State = Ranking;
    type Op = Op;
    type Effect = Effect;

    fn parse(method: &str, given: Arguments<'_>) -> Result<Op, OpError> {
        let op = match (method, given) {
            ("ZADD", [_, _, ..]) if given.len().is_multiple_of(2) => Op::Add(pairs(given)?),
            ("ZADD.RETURNING", [_, _, ..]) if given.len().is_multiple_of(2) => {
                Op::AddReturning(pairs(given)?)
            }
            ("ZREM", [_, ..]) => Op::Remove(given.into()),
            ("ZREM.RETURNING", [_, ..]) => Op::RemoveReturning(given.into()),
            ("ZINCRBY", [by, member]) => {
                Op::Increment { by: arguments::float(by, "increment")?, member: member.clone() }
            }
            ("ZINCRBY.RETURNING", [by, member]) => {
                Op::IncrementReturning { by: arguments::float(by, "increment")?, member: member.clone() }
            }
            ("ZSCORE", [member]) => Op::Score(member.clone()),
            ("ZCARD", []) => Op::Len,
            ("ZRANGE", [start, stop, options @ ..]) if options.len() <= 2 => {
                let (start, stop) = (arguments::int(start)?, arguments::int(stop)?);
                let (reverse, scores) = range_options(options)?;
                Op::Range { start, stop, reverse, scores }
            }
            ("ZRANGEBYSCORE", [min, max, options @ ..]) if options.len() <= 1 => {
                let (min, max) = (bound(min)?, bound(max)?);
                Op::RangeByScore { min, max, scores: with_scores(options)? }
            }
            ("ZCOUNT", [min, max]) => Op::Count { min: bound(min)?, max: bound(max)? },
            ("ZRANK", [member]) => Op::Rank(member.clone()),
            _ => return Err(OpError::misuse(METHODS, method)),
        };
        Ok(op)
    }

    fn method(op: &Op) -> &'static Method {
        let name = match op {
            Op::Add(_) => return &METHODS[0],
            Op::Remove(_) => return &METHODS[2],
            Op::Increment { .. } => return &METHODS[4],
            Op::AddReturning(_) => "ZADD.RETURNING",
            Op::RemoveReturning(_) => "ZREM.RETURNING",
            Op::IncrementReturning { .. } => "ZINCRBY.RETURNING",
            Op::Score(_) => "ZSCORE",
            Op::Len => "ZCARD",
            Op::Range { .. } => "ZRANGE",
            Op::RangeByScore { .. } => "ZRANGEBYSCORE",
            Op::Count { .. } => "ZCOUNT",
            Op::Rank(_) => "ZRANK",
        };
        method_named(METHODS, name)
    }

    fn arguments(op: &Op) -> Few<Bytes> {
        match op {
            Op::Add(list) | Op::AddReturning(list) => list
                .iter()
                .flat_map(|(member, score)| [arguments::of_float(*score), member.clone()])
                .collect(),
            Op::Remove(list) | Op::RemoveReturning(list) => list.clone(),
            Op::Increment { by, member } | Op::IncrementReturning { by, member } => {
                few([arguments::of_float(*by), member.clone()])
            }
            Op::Score(member) | Op::Rank(member) => few([member.clone()]),
            Op::Len => Few::new(),
            Op::Range { start, stop, reverse, scores } => {
                let options = [(*reverse, "REV"), (*scores, "WITHSCORES")];
                [arguments::of_int(*start), arguments::of_int(*stop)]
                    .into_iter()
                    .chain(chosen(options))
                    .collect()
            }
            Op::RangeByScore { min, max, scores } => {
                let options = [(*scores, "WITHSCORES")];
                [of_bound(*min), of_bound(*max)].into_iter().chain(chosen(options)).collect()
            }
            Op::Count { min, max } => few([of_bound(*min), of_bound(*max)]),
        }
    }

    fn check(op: &Op) -> Result<(), OpError> {
        let refuse = |is_nan: bool, what: &'static str| {
            if is_nan { Err(OpError::NotANumber(what.into())) } else { Ok(()) }
        };
        match op {
            Op::Add(list) | Op::AddReturning(list) => {
                refuse(list.iter().any(|(_, score)| score.is_nan()), "score")
            }
            Op::Increment { by, .. } | Op::IncrementReturning { by, .. } => refuse(by.is_nan(), "increment"),
            Op::RangeByScore { min, max, .. } | Op::Count { min, max } => {
                refuse(min.score().is_nan() || max.score().is_nan(), "bound of scores")
            }
            Op::Remove(_)
            | Op::RemoveReturning(_)
            | Op::Score(_)
            | Op::Len
            | Op::Range { .. }
            | Op::Rank(_) => Ok(()),
        }
    }

    fn size(op: &Op) -> usize {
        match op {
            Op::Add(list) | Op::AddReturning(list) => {
                list.iter().map(|(member, _)| member.len()).max().unwrap_or(0)
            }
            Op::Remove(list) | Op::RemoveReturning(list) => {
                list.iter().map(|member| member.len()).max().unwrap_or(0)
            }
            Op::Increment { member, .. }
            | Op::IncrementReturning { member, .. }
            | Op::Score(member)
            | Op::Rank(member) => member.len(),
            Op::Len | Op::Range { .. } | Op::RangeByScore { .. } | Op::Count { .. } => 0,
        }
    }

    fn is_absent(state: &Ranking) -> bool {
        state.is_empty()
    }

    fn is_total(op: &Op) -> bool {
        // A sum may be no number.
        !matches!(op, Op::Increment { .. } | Op::IncrementReturning { .. })
    }

    fn is_blind(op: &Op) -> bool {
        matches!(op, Op::Add(_))
    }

    fn footprint(op: &Op) -> Claims {
        match op {
            Op::Add(list) | Op::AddReturning(list) => {
                each(list.iter().map(|(member, _)| member), &[CHANGE, RESCORE, PIN_SCORE])
            }
            Op::Remove(list) => each(list, &[REMOVE, PIN_ABSENT]),
            Op::RemoveReturning(list) => each(list, &[CHANGE, PIN_ABSENT]),
            Op::Increment { by, member } if is_exact(*by) => {
                each([member], &[SHIFT, SHIFT_NEW]).drawing(EXACT_DRAW)
            }
            Op::Increment { member, .. } | Op::IncrementReturning { member, .. } => {
                each([member], &[RESCORE, CHANGE, PIN_SCORE])
            }
            Op::Score(member) => each([member], &[PIN_SCORE, PIN_ABSENT]),
            Op::Rank(member) => Claims::record(READ_ALL).and(Scope::element(member), PIN_ABSENT),
            Op::Len => Claims::record(READ_CARD),
            Op::Range { .. } | Op::RangeByScore { .. } | Op::Count { .. } => Claims::record(READ_ALL),
        }
    }

    fn execute(state: &Ranking, op: &Op, _: Unique) -> Result<Execution<Effect>, OpError> {
        let all = |reply| Execution::read(reply, Claims::record(READ_ALL));
        let absent = |member| Execution::read(Reply::Nil, Claims::element(member, PIN_ABSENT));
        let execution = match op {
            Op::Add(list) => put(state, list, false),
            Op::AddReturning(list) => put(state, list, true),
            Op::Remove(list) => remove(state, list, false),
            Op::RemoveReturning(list) => remove(state, list, true),
            Op::Increment { by, member } if is_exact(*by) => shift(state, member, *by),
            Op::Increment { by, member } => increment(state, member, *by, false)?,
            Op::IncrementReturning { by, member } => increment(state, member, *by, true)?,
            Op::Score(member) => match state.score(member) {
                Some(score) => Execution::read(Reply::Float(score), Claims::element(member, PIN_SCORE)),
                None => absent(member),
            },
            Op::Len => Execution::read(Reply::count(state.len()), Claims::record(READ_CARD)),
            Op::Range { start, stop, reverse, scores } => {
                all(listed(state.slice(span(*start, *stop, state.len()), *reverse), *scores))
            }
            Op::RangeByScore { min, max, scores } => all(listed(state.between(*min, *max), *scores)),
            Op::Count { min, max } => all(Reply::count(state.count_between(*min, *max))),
            Op::Rank(member) => match state.rank(member) {
                Some(rank) => all(Reply::count(rank)),
                None => absent(member),
            },
        };
        Ok(execution)
    }

    fn room(_: &Ranking) -> Room {
        EXACT_ROOM
    }

    fn apply(state: &mut Ranking, effect: Effect) -> Effect {
        let mut inverse = Few::new();
        match effect {
            Effect::Set(changes) => {
                for (member, score) in changes {
                    let before = state.set(member.clone(), score);
                    inverse.push((member, before));
                }
            }
            Effect::Shift(member, by) => {
                let sum = state.score(&member).unwrap_or(0.0) + by;
                let before = state.set(member.clone(), Some(sum));
                inverse.push((member, before));
            }
        }
        Effect::Set(inverse)
    }

    /// A narrower range from a wider one of the same direction and form (`claret-2015`, Figure 4), and the
    /// number of members from all of them.
    fn combine(held: &Op, answer: &Reply, op: &Op) -> Option<Reply> {
        let (Op::Range { start, stop, reverse, scores }, Reply::Array(items)) = (held, answer) else {
            return (held == op).then(|| answer.clone());
        };
        let width = if *scores { 2 } else { 1 };
        match op {
            Op::Range { start: from, stop: to, reverse: direction, scores: form }
                if direction == reverse && form == scores =>
            {
                if held == op {
                    return Some(answer.clone());
                }
                let part = within((*start, *stop), (*from, *to))?;
                let clamp = |position: usize| position.saturating_mul(width).min(items.len());
                Some(Reply::Array(items[clamp(part.start)..clamp(part.end)].to_vec()))
            }
            Op::Len if (*start, *stop) == (0, -1) => Some(Reply::count(items.len() / width)),
            _ => None,
        }
    }
}

fn pairs(given: Arguments<'_>) -> Result<Few<(Bytes, f64)>, OpError> {
    given.chunks_exact(2).map(|pair| Ok((pair[1].clone(), arguments::float(&pair[0], "score")?))).collect()
}

fn range_options(options: &[Bytes]) -> Result<(bool, bool), OpError> {
    let (mut reverse, mut scores) = (false, false);
    for option in options {
        if option.eq_ignore_ascii_case(b"REV") {
            reverse = true;
        } else if option.eq_ignore_ascii_case(b"WITHSCORES") {
            scores = true;
        } else {
            return Err(OpError::Argument {
                given: option.to_string(),
                expected: "REV or WITHSCORES".into(),
            });
        }
    }
    Ok((reverse, scores))
}

fn with_scores(options: &[Bytes]) -> Result<bool, OpError> {
    match options {
        [] => Ok(false),
        [option, ..] if option.eq_ignore_ascii_case(b"WITHSCORES") => Ok(true),
        [option, ..] => Err(OpError::Argument { given: option.to_string(), expected: "WITHSCORES".into() }),
    }
}

fn bound(given: &Bytes) -> Result<ScoreBound, OpError> {
    let (text, bound): (&[u8], fn(f64) -> ScoreBound) = match given.strip_prefix(b"(") {
        Some(text) => (text, ScoreBound::Excluded),
        None => (given, ScoreBound::Included),
    };
    match arguments::float(&Bytes::copy_from(text), "bound of scores") {
        Ok(score) => Ok(bound(score)),
        Err(OpError::Argument { .. }) => Err(OpError::Argument {
            given: given.to_string(),
            expected: "a score, with '(' before it to leave it out".into(),
        }),
        Err(other) => Err(other),
    }
}

fn of_bound(bound: ScoreBound) -> Bytes {
    match bound {
        ScoreBound::Included(score) => arguments::of_float(score),
        ScoreBound::Excluded(score) => arguments::written(format_args!("({score:?}")),
    }
}

/// The options that are asked for, as words.
fn chosen<const N: usize>(options: [(bool, &'static str); N]) -> impl Iterator<Item = Bytes> {
    options.into_iter().filter(|(is_asked, _)| *is_asked).map(|(_, word)| Bytes::from(word))
}

fn each<'a>(members: impl IntoIterator<Item = &'a Bytes>, modes: &[Mode]) -> Claims {
    let mut claims = Claims::none();
    for member in members {
        for mode in modes {
            claims.push(Scope::element(member), *mode);
        }
    }
    claims
}

type Seen<'a> = HashSet<&'a Bytes, foldhash::fast::FixedState>;

fn set(reply: Reply, changes: Few<(Bytes, Option<f64>)>, claims: Claims) -> Execution<Effect> {
    let effect = (!changes.is_empty()).then_some(Effect::Set(changes));
    Execution { reply, effect, claims }
}

fn put(state: &Ranking, list: &[(Bytes, f64)], returns: bool) -> Execution<Effect> {
    let (mut claims, mut changes, mut seen) = (Claims::none(), Few::new(), Seen::default());
    let mut fresh = 0;
    for (member, score) in list.iter().rev() {
        if list.len() > 1 && !seen.insert(member) {
            continue;
        }
        let mode = match state.score(member) {
            Some(before) if before == *score => PIN_SCORE,
            Some(_) => RESCORE,
            None => CHANGE,
        };
        fresh += usize::from(mode == CHANGE);
        claims.list.push(Claim { scope: Scope::element(member), mode });
        if mode != PIN_SCORE {
            changes.push((member.clone(), Some(one_zero(*score))));
        }
    }
    set(if returns { Reply::count(fresh) } else { Reply::Ok }, changes, claims)
}

fn remove(state: &Ranking, list: &[Bytes], returns: bool) -> Execution<Effect> {
    let (mut claims, mut changes, mut seen) = (Claims::none(), Few::new(), Seen::default());
    let taken = if returns { CHANGE } else { REMOVE };
    for member in list {
        if list.len() > 1 && !seen.insert(member) {
            continue;
        }
        if state.score(member).is_some() {
            claims.list.push(Claim { scope: Scope::element(member), mode: taken });
            changes.push((member.clone(), None));
        } else {
            claims.list.push(Claim { scope: Scope::element(member), mode: PIN_ABSENT });
        }
    }
    set(if returns { Reply::count(changes.len()) } else { Reply::Ok }, changes, claims)
}

/// An exact increment that answers nothing.
fn shift(state: &Ranking, member: &Bytes, by: f64) -> Execution<Effect> {
    let before = state.score(member);
    let mode = if before.is_some() { SHIFT } else { SHIFT_NEW };
    let draw = if before.is_none_or(is_exact) { exact_draw(by) } else { EXACT_DRAW };
    Execution::void(Effect::Shift(member.clone(), by), Claims::element(member, mode).drawing(draw))
}

/// Any other increment: nobody else may touch the score.
fn increment(state: &Ranking, member: &Bytes, by: f64, returns: bool) -> Result<Execution<Effect>, OpError> {
    let before = state.score(member);
    let sum = one_zero(before.unwrap_or(0.0) + by);
    if sum.is_nan() {
        return Err(OpError::NotANumber("score (inf plus -inf)".into()));
    }
    let reply = if returns { Reply::Float(sum) } else { Reply::Ok };
    if before == Some(sum) {
        return Ok(Execution::read(reply, Claims::element(member, PIN_SCORE)));
    }
    let mode = if before.is_some() { RESCORE } else { CHANGE };
    let changes = Few::from_iter([(member.clone(), Some(sum))]);
    Ok(set(reply, changes, Claims::element(member, mode)))
}

fn listed<'a>(entries: impl IntoIterator<Item = &'a Entry>, scores: bool) -> Reply {
    let entries = entries.into_iter();
    let mut items = Vec::with_capacity(entries.size_hint().0 * if scores { 2 } else { 1 });
    for (score, member) in entries {
        items.push(Reply::Bytes(member.clone()));
        if scores {
            items.push(Reply::Float(score.value()));
        }
    }
    Reply::Array(items)
}

impl Examples for ScoredSet {
    fn states() -> Vec<Ranking> {
        let bound = (1_u64 << 52) as f64;
        let states = [
            &[][..],
            &[("x", 1.0)],
            &[("x", 1.0), ("y", 2.0)],
            &[("x", 0.5), ("y", 1.0)],
            &[("x", bound)],
            &[("x", 2.0 * bound)],
        ];
        states
            .iter()
            .map(|pairs| pairs.iter().map(|(member, score)| (Bytes::from(*member), *score)).collect())
            .collect()
    }

    fn operations() -> Vec<Op> {
        let few = |pairs: &[(&str, f64)]| pairs.iter().map(|(m, s)| (Bytes::from(*m), *s)).collect();
        let (x, y) = (Bytes::from("x"), Bytes::from("y"));
        let bound = (1_u64 << 52) as f64;
        vec![
            Op::Add(few(&[("x", 1.0)])),
            Op::Add(few(&[("x", 2.0), ("y", 1.0)])),
            Op::AddReturning(few(&[("y", 2.0)])),
            Op::AddReturning(few(&[("x", 3.0)])),
            Op::Remove(Few::from_iter([x.clone()])),
            Op::Remove(Few::from_iter([y.clone()])),
            Op::RemoveReturning(Few::from_iter([x.clone(), y.clone()])),
            Op::Increment { by: 1.0, member: x.clone() },
            Op::Increment { by: -1.0, member: y },
            Op::Increment { by: -1.0, member: x.clone() },
            Op::Increment { by: bound, member: x.clone() },
            Op::Increment { by: 0.1, member: x.clone() },
            Op::IncrementReturning { by: 1.0, member: x.clone() },
            Op::Score(x.clone()),
            Op::Len,
            Op::Range { start: 0, stop: 0, reverse: false, scores: false },
            Op::Range { start: 0, stop: -1, reverse: true, scores: true },
            Op::RangeByScore {
                min: ScoreBound::Excluded(1.0),
                max: ScoreBound::Included(3.0),
                scores: false,
            },
            Op::Count { min: ScoreBound::Included(1.0), max: ScoreBound::Excluded(f64::INFINITY) },
            Op::Rank(x),
        ]
    }
}

impl BuiltIn for ScoredSet {
    const SHARING: &'static str = "different members; whole increments of one";
    const READS_ALL: &'static [&'static str] = &["ZRANGE", "0", "-1"];

    fn native(ranking: &Ranking) -> Native {
        Native::Zset(ranking.iter().map(|(member, score)| (member.clone(), score)).collect())
    }

    fn of_words(words: &[Bytes]) -> Result<Option<Ranking>, OpError> {
        let ranking = words::ranking(words)?;
        Ok((!words.is_empty()).then_some(ranking))
    }

    fn elements(ranking: &Ranking) -> usize {
        ranking.len()
    }

    fn part(whole: &Ranking, op: &ScoredSetOp, own: &[&ScoredSetEffect]) -> Ranking {
        let mut names: BTreeSet<&Bytes> = match op {
            ScoredSetOp::Add(list) | ScoredSetOp::AddReturning(list) => {
                list.iter().map(|(member, _)| member).collect()
            }
            ScoredSetOp::Remove(list) | ScoredSetOp::RemoveReturning(list) => list.iter().collect(),
            ScoredSetOp::Increment { member, .. }
            | ScoredSetOp::IncrementReturning { member, .. }
            | ScoredSetOp::Score(member) => BTreeSet::from([member]),
            ScoredSetOp::Len => BTreeSet::new(),
            ScoredSetOp::RangeByScore { min, max, .. } | ScoredSetOp::Count { min, max } => {
                whole.between(*min, *max).map(|(_, member)| member).collect()
            }
            ScoredSetOp::Range { .. } | ScoredSetOp::Rank(_) if !own.is_empty() => return whole.clone(),
            ScoredSetOp::Range { start, stop, reverse, .. } => {
                return window(whole, span(*start, *stop, whole.len()), *reverse);
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
        whole.only(names)
    }
}

/// One run of positions, counted from the high end if `reverse`.
fn window(whole: &Ranking, span: Range<usize>, reverse: bool) -> Ranking {
    let below = if reverse { whole.len() - span.end } else { span.start };
    let here = whole.iter().skip(below).take(span.len());
    let here: Vec<_> = here.map(|(member, score)| (member.clone(), score)).collect();
    let elsewhere = whole.len() - here.len();
    Ranking::partial(here, below, elsewhere)
}
