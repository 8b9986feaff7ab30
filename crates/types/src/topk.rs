//! TopK: the best k members by score. Native Redis type: zset, with k in a string beside it.
//!
//! A member keeps the highest score it was ever given; the record keeps the k best members and nothing else.
//! Best is the highest score and, among equals, the bytewise greatest member: the order in which
//! `ZRANGE ... REV` lists the zset. So what a record holds is a function of the set of all adds, in whatever
//! order they came: a member that fell out had k better ones above it, and these only get better.
//!
//! # Commutativity specification
//!
//! An add is *inert* when it changes nothing: it is not above the member's own score, or the record is full and it is
//! not above the lowest. The record only gets better, so the add stays inert, whatever else is applied. An add that
//! is not inert claims several modes, one for each part that it may change:
//!
//! | operation | when | claims, on the record unless said |
//! |---|---|---|
//! | `TOPK.ADD` (void) | inert | `pin` |
//! | | not inert | `add` |
//! | | and above the best | and `top` |
//! | | and a new member while there is space | and `grow` |
//! | | no record yet | and `digit-0` to `digit-3`, on the elements 0 to 7 |
//! | `TOPK.LIST n` | n > 1 | `read-all` |
//! | | n <= 1 | `read-max` |
//! | `TOPK.MAX` | | `read-max` |
//! | `TOPK.COUNT` | full / not full | `pin` / `read-count` |
//!
//! | | add | top | grow | pin | digit-i | read-max | read-count | read-all |
//! |---|---|---|---|---|---|---|---|---|
//! | add | | | | | | | | x |
//! | top | | | | | | x | | |
//! | grow | | | | | | | x | |
//! | pin | | | | | | | | |
//! | digit-j | | | | | x if i != j | | | |
//! | read-max | | x | | | | | | |
//! | read-count | | | x | | | | | |
//! | read-all | x | | | | | | | |
//!
//! All adds commute, with one exception: adds that would create the record with different capacities. Each claims the
//! eight base-4 digits of its capacity, digit i on element i, and two capacities differ in at least one digit. An add
//! with another capacity than the record's is refused; the error names both.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::builtin::{BuiltIn, Native, scored};
use crate::data_type::{
    Access, Arguments, DataType, Examples, Execution, Few, Method, Unique, arguments, few,
};
use crate::exact::one_zero;
use crate::ranking::{Ranking, Score};
use crate::words::{malformed, ranking};
use crate::{Bytes, Claims, Mode, Modes, OpError, Reply, Scope, modes};

/// The best k members by score. All additions share the lock; an addition that is no better than what is kept shares it with
/// reads, too.
///
/// `docs/types.md` says for each operation what it shares the lock with.
pub struct TopK;

/// Operations of [`TopK`].
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum TopKOp {
    Add { capacity: u32, score: f64, member: Bytes },
    Max,
    List { count: u64 },
    Count,
}

/// The content of a TopK.
///
/// Invariant: at most `capacity` members; none, and a capacity of 0, when the record is absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Best {
    capacity: u32,
    ranking: Ranking,
}

/// A change of a TopK.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum TopKEffect {
    /// Offers a member: it is taken if it is good enough.
    Offer { capacity: u32, score: f64, member: Bytes },
    /// Puts back what was there: undoes an offer. Never pending.
    Restore { capacity: u32, scores: Few<(Bytes, Option<f64>)> },
}

type Op = TopKOp;
type Effect = TopKEffect;

/// The largest capacity: what eight base-4 digits can say.
const CAPACITY_MAX: u32 = 65_535;
const DIGITS: u32 = 8;

const ADD: Mode = Mode(0);
const TOP: Mode = Mode(1);
const GROW: Mode = Mode(2);
const PIN: Mode = Mode(3);
const DIGIT: [Mode; 4] = [Mode(4), Mode(5), Mode(6), Mode(7)];
const READ_MAX: Mode = Mode(8);
const READ_COUNT: Mode = Mode(9);
const READ_ALL: Mode = Mode(10);

const METHODS: &[Method] = &[
    Method {
        name: "TOPK.ADD",
        arguments: "capacity score member",
        summary: "offers a member; the best 'capacity' of all are kept",
        access: Access::Write,
        returns: false,
        complexity: "O(log k)",
    },
    Method {
        name: "TOPK.MAX",
        arguments: "",
        summary: "the best member and its score",
        access: Access::Read,
        returns: true,
        complexity: "O(log k)",
    },
    Method {
        name: "TOPK.LIST",
        arguments: "count",
        summary: "the best members with their scores, best first",
        access: Access::Read,
        returns: true,
        complexity: "O(log k + count)",
    },
    Method {
        name: "TOPK.COUNT",
        arguments: "",
        summary: "how many members are kept",
        access: Access::Read,
        returns: true,
        complexity: "O(1)",
    },
];

impl Best {
    /// From the record's native form: its capacity and its members, of which the best are kept.
    pub fn new(capacity: u32, members: impl IntoIterator<Item = (Bytes, f64)>) -> Self {
        let mut best = Best { capacity, ranking: members.into_iter().collect() };
        while best.ranking.len() > capacity as usize {
            best.drop_lowest();
        }
        best
    }

    /// A part of a TopK: its capacity, and some of its members.
    ///
    /// What `members` must hold, where the operation's owner has `n` effects on the record: the `n + 1` lowest members;
    /// the highest one, for `TOPK.LIST` as many of the highest as it asks for; of the member that the operation offers and
    /// of those that the effects offer, those that are in. `below` has no meaning, and is 0. An effect is carried out
    /// on such a partial state for its offer: what [`Effect::apply`](crate::Effect::apply) returns names the members that have another
    /// score then, or none.
    pub fn partial(capacity: u32, members: Ranking) -> Self {
        Best { capacity, ranking: members }
    }

    /// How many members it can hold; 0 when the record is absent.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The members, the lowest first, as far as a partial state has them.
    pub fn ranking(&self) -> &Ranking {
        &self.ranking
    }

    fn is_full(&self) -> bool {
        self.ranking.len() >= self.capacity as usize
    }

    /// Whether an offer changes nothing. O(log k).
    fn is_inert(&self, score: f64, member: &Bytes) -> bool {
        let below_all = || {
            let entry = (Score::new(score), member);
            self.ranking.lowest().is_some_and(|(lowest, holder)| entry <= (*lowest, holder))
        };
        self.capacity > 0
            && (self.is_full() && below_all()
                || self.ranking.score(member).is_some_and(|before| score <= before))
    }

    fn is_above_all(&self, score: f64, member: &Bytes) -> bool {
        let entry = (Score::new(score), member);
        self.ranking.highest().is_none_or(|(highest, holder)| entry > (*highest, holder))
    }

    fn drop_lowest(&mut self) -> Option<(Bytes, f64)> {
        let member = self.ranking.lowest()?.1.clone();
        let score = self.ranking.set(member.clone(), None)?;
        Some((member, score))
    }
}

impl DataType for TopK {
    const NAME: &'static str = "topk";
    const SUMMARY: &'static str = "the best k members by score";
    const NATIVE: &'static str = "zset";
    const METHODS: &'static [Method] = METHODS;
    const MODES: Modes = Modes {
        names: &[
            "add",
            "top",
            "grow",
            "pin",
            "digit-0",
            "digit-1",
            "digit-2",
            "digit-3",
            "read-max",
            "read-count",
            "read-all",
        ],
        conflicts: &[
            modes(&[READ_ALL]),
            modes(&[READ_MAX]),
            modes(&[READ_COUNT]),
            modes(&[]),
            modes(&[DIGIT[1], DIGIT[2], DIGIT[3]]),
            modes(&[DIGIT[0], DIGIT[2], DIGIT[3]]),
            modes(&[DIGIT[0], DIGIT[1], DIGIT[3]]),
            modes(&[DIGIT[0], DIGIT[1], DIGIT[2]]),
            modes(&[TOP]),
            modes(&[GROW]),
            modes(&[ADD]),
        ],
        removing: 0,
        clearing: 0,
    };

    type State = Best;
    type Op = Op;
    type Effect = Effect;

    fn parse(method: &str, given: Arguments<'_>) -> Result<Op, OpError> {
        match (method, given) {
            ("TOPK.ADD", [capacity, score, member]) => {
                let asked = arguments::unsigned(capacity)?;
                let capacity = u32::try_from(asked).map_err(|_| refused_capacity(asked))?;
                let op =
                    Op::Add { capacity, score: arguments::float(score, "score")?, member: member.clone() };
                Self::check(&op)?;
                Ok(op)
            }
            ("TOPK.MAX", []) => Ok(Op::Max),
            ("TOPK.LIST", [count]) => Ok(Op::List { count: arguments::unsigned(count)? }),
            ("TOPK.COUNT", []) => Ok(Op::Count),
            _ => Err(OpError::misuse(METHODS, method)),
        }
    }

    fn method(op: &Op) -> &'static Method {
        match op {
            Op::Add { .. } => &METHODS[0],
            Op::Max => &METHODS[1],
            Op::List { .. } => &METHODS[2],
            Op::Count => &METHODS[3],
        }
    }

    fn arguments(op: &Op) -> Few<Bytes> {
        match op {
            Op::Add { capacity, score, member } => few([
                arguments::of_unsigned(u64::from(*capacity)),
                arguments::of_float(*score),
                member.clone(),
            ]),
            Op::List { count } => few([arguments::of_unsigned(*count)]),
            Op::Max | Op::Count => Few::new(),
        }
    }

    fn check(op: &Op) -> Result<(), OpError> {
        match op {
            Op::Add { capacity, .. } if !(1..=CAPACITY_MAX).contains(capacity) => {
                Err(refused_capacity(u64::from(*capacity)))
            }
            Op::Add { score, .. } if score.is_nan() => Err(OpError::NotANumber("score".into())),
            Op::Add { .. } | Op::Max | Op::List { .. } | Op::Count => Ok(()),
        }
    }

    fn size(op: &Op) -> usize {
        match op {
            Op::Add { member, .. } => member.len(),
            Op::Max | Op::List { .. } | Op::Count => 0,
        }
    }

    fn is_absent(state: &Best) -> bool {
        state.capacity == 0
    }

    fn is_total(op: &Op) -> bool {
        // An add fails where the record has another capacity.
        !matches!(op, Op::Add { .. })
    }

    fn footprint(op: &Op) -> Claims {
        match op {
            Op::Add { capacity, .. } => {
                let claims = Claims::record(ADD)
                    .and(Scope::Record, TOP)
                    .and(Scope::Record, GROW)
                    .and(Scope::Record, PIN);
                with_digits(claims, *capacity)
            }
            Op::Max => Claims::record(READ_MAX),
            Op::List { count } => Claims::record(list_mode(*count)),
            Op::Count => Claims::record(READ_COUNT).and(Scope::Record, PIN),
        }
    }

    fn execute(state: &Best, op: &Op, _: Unique) -> Result<Execution<Effect>, OpError> {
        let execution = match op {
            Op::Add { capacity, score, member } => return offer(state, *capacity, *score, member),
            Op::Max => {
                let best = state.ranking.highest();
                let reply = best.map_or(Reply::Nil, |(score, member)| {
                    Reply::Array(vec![Reply::Bytes(member.clone()), Reply::Float(score.value())])
                });
                Execution::read(reply, Claims::record(READ_MAX))
            }
            Op::List { count } => {
                let shown = usize::try_from(*count).unwrap_or(usize::MAX);
                let pairs = state.ranking.iter().rev().take(shown);
                let items = pairs
                    .flat_map(|(member, score)| [Reply::Bytes(member.clone()), Reply::Float(score)])
                    .collect();
                Execution::read(Reply::Array(items), Claims::record(list_mode(*count)))
            }
            Op::Count => {
                let is_settled = state.capacity > 0 && state.is_full();
                let mode = if is_settled { PIN } else { READ_COUNT };
                Execution::read(Reply::count(state.ranking.len()), Claims::record(mode))
            }
        };
        Ok(execution)
    }

    fn apply(state: &mut Best, effect: Effect) -> Effect {
        match effect {
            Effect::Offer { capacity, score, member } => {
                let mut inverse = Few::new();
                let before = state.capacity;
                if !state.is_inert(score, &member) {
                    state.capacity = capacity;
                    let own = state.ranking.set(member.clone(), Some(score));
                    inverse.push((member, own));
                    if state.ranking.len() > state.capacity as usize
                        && let Some((dropped, score)) = state.drop_lowest()
                    {
                        inverse.push((dropped, Some(score)));
                    }
                }
                Effect::Restore { capacity: before, scores: inverse }
            }
            Effect::Restore { capacity, scores } => {
                let before = state.capacity;
                state.capacity = capacity;
                let scores = scores
                    .into_iter()
                    .map(|(member, score)| (member.clone(), state.ranking.set(member, score)))
                    .collect();
                Effect::Restore { capacity: before, scores }
            }
        }
    }

    /// The best of a longer list, and the one best of any.
    fn combine(held: &Op, answer: &Reply, op: &Op) -> Option<Reply> {
        match (held, op, answer) {
            (Op::List { count: wide }, Op::List { count }, Reply::Array(items)) if count <= wide => {
                let shown = usize::try_from(*count).unwrap_or(usize::MAX).saturating_mul(2);
                Some(Reply::Array(items.iter().take(shown).cloned().collect()))
            }
            (Op::List { count: 1.. }, Op::Max, Reply::Array(items)) => Some(match items.get(..2) {
                Some(best) => Reply::Array(best.to_vec()),
                None => Reply::Nil,
            }),
            _ if held == op => Some(answer.clone()),
            _ => None,
        }
    }
}

fn offer(state: &Best, capacity: u32, score: f64, member: &Bytes) -> Result<Execution<Effect>, OpError> {
    if state.capacity != 0 && state.capacity != capacity {
        return Err(OpError::Mismatch(format!(
            "the TopK keeps {} members, not {capacity}; pass {}, or use another key",
            state.capacity, state.capacity
        )));
    }
    if state.is_inert(score, member) {
        return Ok(Execution::read(Reply::Ok, Claims::record(PIN)));
    }
    let mut claims = Claims::record(ADD);
    if state.is_above_all(score, member) {
        claims.push(Scope::Record, TOP);
    }
    if state.capacity == 0 || !state.is_full() && state.ranking.score(member).is_none() {
        claims.push(Scope::Record, GROW);
    }
    if state.capacity == 0 {
        claims = with_digits(claims, capacity);
    }
    let effect = Effect::Offer { capacity, score: one_zero(score), member: member.clone() };
    Ok(Execution::void(effect, claims))
}

/// Claims that conflict with the same for any other capacity.
fn with_digits(mut claims: Claims, capacity: u32) -> Claims {
    for place in 0..DIGITS {
        let digit = (capacity >> (2 * place)) & 3;
        claims.push(Scope::Element(u64::from(place)), DIGIT[digit as usize]);
    }
    claims
}

fn list_mode(count: u64) -> Mode {
    if count <= 1 { READ_MAX } else { READ_ALL }
}

fn refused_capacity(given: u64) -> OpError {
    OpError::Bound { what: "a capacity".into(), given: given.to_string(), expected: "from 1 to 65535".into() }
}

impl Examples for TopK {
    fn states() -> Vec<Best> {
        let best = |pairs: &[(&str, f64)]| {
            Best::new(2, pairs.iter().map(|(member, score)| ((*member).into(), *score)))
        };
        vec![
            Best::default(),
            best(&[("a", 2.0)]),
            best(&[("a", 2.0), ("b", 2.0)]),
            best(&[("a", 1.0), ("c", 3.0)]),
        ]
    }

    fn operations() -> Vec<Op> {
        let mut operations =
            vec![Op::Max, Op::Count, Op::List { count: 0 }, Op::List { count: 1 }, Op::List { count: 5 }];
        for (member, scores) in [("a", &[1.0, 2.0, 4.0][..]), ("b", &[2.0, 3.0]), ("c", &[-1.0, 3.0])] {
            for score in scores {
                operations.push(Op::Add { capacity: 2, score: *score, member: member.into() });
            }
        }
        operations.push(Op::Add { capacity: 3, score: 2.0, member: "a".into() });
        operations
    }
}

/// On a server the capacity is in a string beside the members.
impl BuiltIn for TopK {
    const SHARING: &'static str = "all adds";

    fn native(best: &Best) -> Native {
        Native::Zset(best.ranking().iter().map(|(member, score)| (member.clone(), score)).collect())
    }

    fn words(best: &Best) -> Vec<Bytes> {
        let mut words = vec![arguments::of_unsigned(best.capacity().into())];
        words.extend(scored(best.ranking().iter().map(|(member, score)| (member.clone(), score))));
        words
    }

    fn of_words(words: &[Bytes]) -> Result<Option<Best>, OpError> {
        let [capacity, members @ ..] = words else { return Ok(None) };
        if members.is_empty() {
            return Ok(None);
        }
        let asked = u32::try_from(arguments::unsigned(capacity)?).ok().filter(|it| (1..=65_535).contains(it));
        let capacity = asked.ok_or_else(|| malformed(format_args!("topk of capacity {capacity}")))?;
        let members = ranking(members)?;
        Ok(Some(Best::new(capacity, members.iter().map(|(member, score)| (member.clone(), score)))))
    }

    fn part(whole: &Best, op: &TopKOp, own: &[&TopKEffect]) -> Best {
        let ranking = whole.ranking();
        let shown = match op {
            TopKOp::List { count } => usize::try_from(*count).unwrap_or(usize::MAX),
            TopKOp::Add { .. } | TopKOp::Max | TopKOp::Count => 1,
        };
        let mut names: BTreeSet<&Bytes> =
            ranking.iter().rev().take(shown).map(|(member, _)| member).collect();
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
        Best::partial(whole.capacity(), ranking.only(names))
    }
}
