//! Checks besides histories: the modes, the footprints, and how much concurrency a specification gives away.

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::naming;
use super::orders::{Unit, walk};
use super::report::{Counterexample, Law, Lost, Stop};
use super::state_space::{OutcomeId, StateId, StateSpace};
use crate::data_type::{DataType, Examples, Execution, Unique};
use crate::{Claims, Held, Mode, Modes};

/// In how many of the states that were met, the nearest to the examples first, footprints are held
/// against what operations do.
const STATES_MAX: usize = 256;

/// Checks that modes conflict symmetrically.
pub(super) fn modes(modes: &Modes) -> Option<Counterexample> {
    if modes.is_symmetric() {
        return None;
    }
    let count = modes.names.len().min(modes.conflicts.len());
    let one_sided = (0..count)
        .flat_map(|a| (0..count).map(move |b| (a, b)))
        .find(|&(a, b)| (modes.conflicts[a] >> b) & 1 != 0 && (modes.conflicts[b] >> a) & 1 == 0);
    let difference = match one_sided {
        Some((a, b)) => format!(
            "'{}' conflicts with '{}', and '{}' does not conflict with '{}'",
            modes.names[a], modes.names[b], modes.names[b], modes.names[a]
        ),
        None => format!(
            "{} names and {} rows, or a row that names a mode that is not there",
            modes.names.len(),
            modes.conflicts.len()
        ),
    };
    Some(stateless(Law::Modes, Vec::new(), difference))
}

/// Checks that operations come back from their names and arguments, which is how they travel.
pub(super) fn arguments<T: Examples>() -> Option<Counterexample> {
    T::operations().into_iter().find_map(|op| {
        let (method, arguments) = (T::method(&op), T::arguments(&op));
        let difference = match T::parse(method.name, &arguments) {
            Err(error) => format!("parse refuses that: {error}"),
            Ok(other) if other != op => format!("parse makes another operation of that: {other:?}"),
            Ok(_) if T::METHODS.iter().all(|known| known.name != method.name) => {
                format!("{} is not in METHODS", method.name)
            }
            Ok(_) => return None,
        };
        let written: String = arguments.iter().map(|argument| format!(" \"{argument}\"")).collect();
        let history = vec![format!("{op:?} is written {}{written}", method.name)];
        Some(stateless(Law::Arguments, history, difference))
    })
}

fn stateless(law: Law, history: Vec<String>, difference: String) -> Counterexample {
    let (state, orders) = (String::new(), Vec::new());
    Counterexample { law, pending: 0, steps: 0, state, history, orders, difference }
}

/// Checks that footprints cover all claims that were met, and that operations whose footprints do not
/// conflict commute. Two operations that both draw are left out: which of them fits is for escrow to say,
/// which sees the state, so whoever goes by footprints alone has to keep them apart.
pub(super) fn footprints<T: Examples>(space: &mut StateSpace<T>) -> Result<(), Stop> {
    let footprints: Vec<Claims> =
        (0..space.operations()).map(|op| T::footprint(space.operation(op))).collect();
    covering(space, &footprints)?;
    for state in space.nearest(STATES_MAX) {
        for a in 0..footprints.len() {
            for b in a..footprints.len() {
                let both_draw = draws(&footprints[a]) && draws(&footprints[b]);
                if !both_draw && !footprints[a].conflict_with(&footprints[b], &T::MODES) {
                    in_both_orders(space, state, (a, b))?;
                    space.stop()?;
                }
            }
        }
    }
    Ok(())
}

fn draws(claims: &Claims) -> bool {
    claims.draw.down > 0 || claims.draw.up > 0
}

/// Whatever conflicts with claims that an operation made also conflicts with its footprint, and the
/// footprint draws no less.
fn covering<T: Examples>(space: &StateSpace<T>, footprints: &[Claims]) -> Result<(), Stop> {
    let mut met: Vec<Claims> =
        [Mode::SHARED, Mode::EXCLUSIVE].into_iter().map(Claims::record).chain(footprints.to_vec()).collect();
    let mut made: Vec<(OutcomeId, Claims)> = Vec::new();
    for outcome in space.outcomes() {
        let claims = &space.execution(outcome).claims;
        if !met.contains(claims) {
            met.push(claims.clone());
        }
        let op = space.op(space.call_of(outcome));
        let is_new =
            |(other, known): &(OutcomeId, Claims)| known != claims || space.op(space.call_of(*other)) != op;
        if made.iter().all(is_new) {
            made.push((outcome, claims.clone()));
        }
    }
    for (outcome, claims) in &made {
        let op = space.op(space.call_of(*outcome));
        let footprint = T::footprint(op);
        let missed = met.iter().find(|other| {
            claims.conflict_with(other, &T::MODES) && !footprint.conflict_with(other, &T::MODES)
        });
        let (draw, most) = (claims.draw, footprint.draw);
        let difference = match missed {
            Some(other) => {
                format!("its claims conflict with {}, its footprint does not", naming::claims::<T>(other))
            }
            None if draw.down > most.down || draw.up > most.up => {
                "it draws more than its footprint".to_owned()
            }
            None => continue,
        };
        let name = naming::operation::<T>(op);
        let history = vec![
            format!("{name}: {}; holds {}", space.execution(*outcome).reply, naming::claims::<T>(claims)),
            format!("its footprint is {}", naming::claims::<T>(&footprint)),
        ];
        return Err(refused(String::new(), 1, history, Vec::new(), difference));
    }
    Ok(())
}

/// Operations `a` and `b`, both possible in `state`, answer the same in both orders and leave one state.
fn in_both_orders<T: Examples>(
    space: &mut StateSpace<T>,
    state: StateId,
    (a, b): (usize, usize),
) -> Result<(), Stop> {
    let calls = [space.call(a, 0), space.call(b, 1)];
    if calls.iter().any(|call| space.execute(state, *call).is_none()) {
        return Ok(());
    }
    let mut told = Vec::new();
    let mut seen = Vec::new();
    for [first, second] in [[0, 1], [1, 0]] {
        let mut at = Some(state);
        let mut replies = [None, None];
        for which in [first, second] {
            let outcome = at.and_then(|at| space.execute(at, calls[which]));
            replies[which] = outcome.map(|outcome| space.execution(outcome).reply.clone());
            at = match (at, outcome) {
                (Some(at), Some(outcome)) => space.apply(at, outcome),
                _ => None,
            };
        }
        let answer =
            |which: usize| replies[which].as_ref().map_or("an error".to_owned(), |reply| reply.to_string());
        let left = at.map_or("nothing".to_owned(), |at| format!("{:?}", space.content(at)));
        told.push(format!(
            "order T{}, T{}: T1 answers {}, T2 answers {}; leaves {left}",
            first + 1,
            second + 1,
            answer(0),
            answer(1)
        ));
        seen.push((replies, at));
    }
    let agree = match (seen[0].1, seen[1].1) {
        (Some(one), Some(other)) => seen[0].0 == seen[1].0 && space.same(one, other),
        _ => false,
    };
    if agree {
        return Ok(());
    }
    let history = [a, b]
        .iter()
        .enumerate()
        .map(|(i, op)| {
            let op = space.operation(*op);
            let footprint = naming::claims::<T>(&T::footprint(op));
            format!("T{} is {}; its footprint is {footprint}", i + 1, naming::operation::<T>(op))
        })
        .collect();
    let difference = "footprints that do not conflict, of operations that do not commute";
    let state = format!("{:?}", space.content(state));
    Err(refused(state, 2, history, told, difference.to_owned()))
}

/// Checks that total operations can be done wherever they may be executed, and draw nothing.
pub(super) fn total<T: Examples>(space: &mut StateSpace<T>) -> Result<(), Stop> {
    for op in (0..space.operations()).filter(|op| T::is_total(space.operation(*op))).collect::<Vec<_>>() {
        let absent = T::execute(&T::State::default(), space.operation(op), Unique(0)).is_err();
        let call = space.call(op, 0);
        let states = space.nearest(STATES_MAX);
        let fails = states.into_iter().find(|state| space.execute(*state, call).is_none());
        space.stop()?;
        let (state, difference) = match fails {
            Some(state) => (format!("{:?}", space.content(state)), "it cannot be done in this state"),
            None if absent => ("absent".to_owned(), "it cannot be done to a record that is not there"),
            None if draws(&T::footprint(space.operation(op))) => (String::new(), "it draws"),
            None => continue,
        };
        let history = vec![format!("{} is total", naming::operation::<T>(space.operation(op)))];
        let mut found = stateless(Law::Total, history, difference.to_owned());
        found.state = state;
        return Err(Stop::Refused(Box::new(found)));
    }
    Ok(())
}

/// Checks that what could be done where there was ample room can be done after any other operation (P82), and that a type has no total
/// operations beside such ones: so the first call of an attempt in line says whether it needs room.
pub(super) fn lasting<T: Examples>(space: &mut StateSpace<T>) -> Result<(), Stop> {
    for op in (0..space.operations()).filter(|op| T::is_lasting(space.operation(*op))).collect::<Vec<_>>() {
        let is_total = |op: &usize| T::is_total(space.operation(*op));
        if !is_total(&op) && (0..space.operations()).any(|other| is_total(&other)) {
            let history =
                vec![format!("{} is lasting and not total", naming::operation::<T>(space.operation(op)))];
            let found = stateless(Law::Lasting, history, "others of its type are total".to_owned());
            return Err(Stop::Refused(Box::new(found)));
        }
        let found = match T::footprint(space.operation(op)).draw.is_small() {
            true => ended_by(space, op).map(|(state, other)| {
                let other = naming::operation::<T>(space.operation(other));
                (format!("{:?}", space.content(state)), format!("after {other} it cannot be done"))
            }),
            false => Some((String::new(), "it draws much".to_owned())),
        };
        space.stop()?;
        if let Some((state, difference)) = found {
            let history = vec![format!("{} is lasting", naming::operation::<T>(space.operation(op)))];
            let found = stateless(Law::Lasting, history, difference);
            return Err(Stop::Refused(Box::new(Counterexample { state, ..found })));
        }
    }
    Ok(())
}

/// A state in which an operation can be done and has ample room, and another operation that draws little after which it cannot.
fn ended_by<T: Examples>(space: &mut StateSpace<T>, op: usize) -> Option<(StateId, usize)> {
    let call = space.call(op, 0);
    let draws = draws(&T::footprint(space.operation(op)));
    for state in space.nearest(STATES_MAX) {
        if space.execute(state, call).is_none() || draws && !space.room(state).is_ample() {
            continue;
        }
        for other in 0..space.operations() {
            let beside = space.call(other, 0);
            let Some(outcome) = space.execute(state, beside) else { continue };
            if space.execution(outcome).claims.draw.is_small()
                && let Some(after) = space.apply(state, outcome)
                && space.execute(after, call).is_none()
            {
                return Some((state, other));
            }
        }
    }
    None
}

/// Checks that what blind operations do to an absent record is what they do to every other one (K16).
pub(super) fn blind<T: Examples>(space: &mut StateSpace<T>) -> Result<(), Stop> {
    for op in (0..space.operations()).filter(|op| T::is_blind(space.operation(*op))).collect::<Vec<_>>() {
        let operation = space.operation(op);
        let blind = T::execute(&T::State::default(), operation, Unique(0));
        let effect = blind.ok().and_then(|it| it.effect).filter(|_| !T::method(operation).returns);
        let states = space.nearest(STATES_MAX);
        let differs = states.into_iter().find(|state| {
            let here = space.content(*state);
            let (mut looking, mut blind) = (here.clone(), here.clone());
            match T::execute(here, operation, Unique(0)) {
                Ok(Execution { effect: Some(seen), .. }) => drop(T::apply(&mut looking, seen)),
                Ok(Execution { effect: None, .. }) => {}
                Err(_) => return true,
            }
            let Some(effect) = effect.clone() else { return true };
            let inverse = T::apply(&mut blind, effect);
            let is_same = looking == blind;
            T::apply(&mut blind, inverse);
            !is_same || blind != *here
        });
        let (state, difference) = match differs {
            Some(state) => (format!("{:?}", space.content(state)), "what it does here is another thing"),
            None if !T::is_total(operation) => (String::new(), "it is not total"),
            None => continue,
        };
        let history = vec![format!("{} is blind", naming::operation::<T>(operation))];
        let mut found = stateless(Law::Blind, history, difference.to_owned());
        found.state = state;
        return Err(Stop::Refused(Box::new(found)));
    }
    Ok(())
}

fn refused(
    state: String,
    pending: usize,
    history: Vec<String>,
    orders: Vec<String>,
    difference: String,
) -> Stop {
    let law = Law::Footprint;
    Stop::Refused(Box::new(Counterexample {
        law,
        pending,
        steps: pending,
        state,
        history,
        orders,
        difference,
    }))
}

/// How many pairs are admitted, and which others could have been.
pub(super) struct Concurrency {
    pub(super) pairs: u64,
    pub(super) admitted: u64,
    pub(super) lost: Vec<Lost>,
}

/// Counts the pairs of operations in the example states.
pub(super) fn concurrency<T: DataType>(space: &mut StateSpace<T>) -> Result<Concurrency, Stop> {
    let mut found = Concurrency { pairs: 0, admitted: 0, lost: Vec::new() };
    let mut groups: HashMap<(&str, &str), usize, foldhash::fast::FixedState> = HashMap::default();
    for state in space.examples() {
        for a in 0..space.operations() {
            for b in a..space.operations() {
                let calls = [space.call(a, 0), space.call(b, 1)];
                let outcomes: SmallVec<[OutcomeId; 2]> =
                    calls.iter().filter_map(|call| space.execute(state, *call)).collect();
                if outcomes.len() < 2 {
                    continue;
                }
                found.pairs += 1;
                if admitted(space, state, outcomes[0], outcomes[1]) {
                    found.admitted += 1;
                } else if commute(space, state, outcomes[0], outcomes[1]) {
                    lose(space, state, (a, b), &mut found.lost, &mut groups);
                }
            }
        }
    }
    space.stop()?;
    found.lost.sort_by(|a, b| b.count.cmp(&a.count).then(a.methods.cmp(&b.methods)));
    Ok(found)
}

fn admitted<T: DataType>(space: &StateSpace<T>, state: StateId, a: OutcomeId, b: OutcomeId) -> bool {
    let mut lock = Held::default();
    lock.add(&space.execution(a).claims);
    lock.admits(&T::MODES, &space.execution(b).claims, space.room(state), std::iter::empty())
}

fn commute<T: DataType>(space: &mut StateSpace<T>, state: StateId, a: OutcomeId, b: OutcomeId) -> bool {
    let (a, b) = (Unit::from_slice(&[a]), Unit::from_slice(&[b]));
    walk(space, state, &[&a, &b]).is_ok()
}

fn lose<T: DataType>(
    space: &StateSpace<T>,
    state: StateId,
    (a, b): (usize, usize),
    lost: &mut Vec<Lost>,
    groups: &mut HashMap<(&'static str, &'static str), usize, foldhash::fast::FixedState>,
) {
    let (a, b) = (space.operation(a), space.operation(b));
    let (first, second) = (T::method(a).name, T::method(b).name);
    let methods = if first <= second { (first, second) } else { (second, first) };
    let at = *groups.entry(methods).or_insert_with(|| {
        lost.push(Lost {
            methods,
            count: 0,
            state: format!("{:?}", space.content(state)),
            operations: (format!("{a:?}"), format!("{b:?}")),
        });
        lost.len() - 1
    });
    lost[at].count += 1;
}
