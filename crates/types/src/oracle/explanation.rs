//! Counterexamples in words: who did what, with which reply and claims, and the results of the two orders.
//!
//! Runs only after a check has failed; nothing here decides.

use super::naming::{claims, operation};
use super::orders::{Disagreement, Order, Unit, What};
use super::report::{Counterexample, Law};
use super::state_space::{OutcomeId, StateId, StateSpace};
use super::units::{Step, UnitId, Units};
use crate::data_type::{DataType, Examples};

/// An owner that has something pending, by its name.
struct Owner {
    name: String,
    holds: UnitId,
}

/// The counterexample that an admitted set does not commute. `start` is where the history begins, `now` the
/// committed state that it leads to.
pub(super) fn not_commuting<T: Examples>(
    space: &mut StateSpace<T>,
    units: &Units,
    start: StateId,
    steps: &[Step],
    now: StateId,
    disagreement: &Disagreement,
) -> Counterexample {
    let (history, mut owners) = tell_history(space, units, steps);
    owners.sort_by_key(|owner| owner.holds);
    let pending: Vec<(String, Unit)> =
        owners.iter().map(|owner| (owner.name.clone(), units.get(owner.holds).clone())).collect();
    let wrong = completed(&disagreement.order, pending.len());
    let last = *disagreement.order.last().expect("an order that goes wrong has gone somewhere");
    let contrast = match disagreement.what {
        What::State | What::Effects => completed(&Order::new(), pending.len()),
        What::Reply(_) | What::Error(_) | What::Panic(_) => {
            completed(&Order::from_slice(&[last]), pending.len())
        }
    };
    let mut orders = vec![tell_order(space, &pending, now, &wrong)];
    if contrast != wrong {
        orders.push(tell_order(space, &pending, now, &contrast));
    }
    Counterexample {
        law: Law::Commutativity,
        pending: pending.iter().map(|(_, unit)| unit.len()).sum(),
        steps: steps.len(),
        state: format!("{:?}", space.content(start)),
        history,
        orders,
        difference: difference(space, &pending[last as usize].0, disagreement),
    }
}

fn difference<T: DataType>(space: &StateSpace<T>, owner: &str, disagreement: &Disagreement) -> String {
    let named = |outcome: OutcomeId| operation::<T>(space.op(space.call_of(outcome)));
    match &disagreement.what {
        What::Reply(granted) => format!(
            "in the first order, {owner}'s {} no longer answers {}, which it was granted with",
            named(*granted),
            space.execution(*granted).reply
        ),
        What::Error(granted) => {
            format!("in the first order, {owner}'s {} is an error, though it was granted", named(*granted))
        }
        What::Panic(granted) => {
            format!("in the first order, applying {owner}'s {} panics", named(*granted))
        }
        What::State => "the two orders leave different states".to_owned(),
        What::Effects => {
            "the recorded effects leave another state than executing and applying one after another"
                .to_owned()
        }
    }
}

/// `start` and then everybody else, in turn.
fn completed(start: &Order, count: usize) -> Order {
    let mut order = start.clone();
    for at in 0..count as u8 {
        if !order.contains(&at) {
            order.push(at);
        }
    }
    order
}

fn tell_history<T: Examples>(
    space: &StateSpace<T>,
    units: &Units,
    steps: &[Step],
) -> (Vec<String>, Vec<Owner>) {
    let mut owners: Vec<Owner> = Vec::new();
    let mut lines = Vec::new();
    let mut born = 0;
    let find = |owners: &[Owner], unit: UnitId| {
        owners.iter().position(|owner| owner.holds == unit).expect("a step is about someone pending")
    };
    let said = |unit: UnitId| {
        let outcome = *units.get(unit).last().expect("a unit has an operation");
        let execution = space.execution(outcome);
        let op = operation::<T>(space.op(space.call_of(outcome)));
        format!("{op}: {}; holds {}", execution.reply, claims::<T>(&execution.claims))
    };
    for step in steps {
        match *step {
            Step::Start => {}
            Step::Grant(unit) => {
                born += 1;
                let name = format!("T{born}");
                lines.push(format!("{name} executes {}", said(unit)));
                owners.push(Owner { name, holds: unit });
            }
            Step::Extend { from, to } => {
                let at = find(&owners, from);
                owners[at].holds = to;
                lines.push(format!("{} executes {} besides", owners[at].name, said(to)));
            }
            Step::Combine { from, to } => {
                let at = find(&owners, from);
                owners[at].holds = to;
                lines.push(format!("a read combines with {}: {} of its own", owners[at].name, said(to)));
            }
            Step::Apply(unit) => {
                let owner = owners.swap_remove(find(&owners, unit));
                lines.push(format!("{} is applied", owner.name));
            }
            Step::Abort(unit) => {
                let owner = owners.swap_remove(find(&owners, unit));
                lines.push(format!("{} aborts", owner.name));
            }
        }
    }
    (lines, owners)
}

fn tell_order<T: DataType>(
    space: &mut StateSpace<T>,
    pending: &[(String, Unit)],
    now: StateId,
    order: &Order,
) -> String {
    let mut executed = Some(now);
    let mut recorded = Some(now);
    let mut answers = Vec::new();
    for &at in order {
        let (name, unit) = &pending[at as usize];
        for &granted in unit {
            recorded = recorded.and_then(|state| space.apply(state, granted));
            let Some(state) = executed else { continue };
            let call = space.call_of(granted);
            match space.execute(state, call) {
                Some(outcome) => {
                    answers.push(format!("{name} answers {}", space.execution(outcome).reply));
                    executed = space.apply(state, outcome);
                }
                None => {
                    let error = space.error(state, call).map(|error| error.to_string());
                    answers.push(format!("{name} fails ({})", error.unwrap_or_default()));
                }
            }
        }
    }
    let names: Vec<&str> = order.iter().map(|&at| pending[at as usize].0.as_str()).collect();
    let shown = |state: Option<StateId>| match state {
        Some(state) => format!("{:?}", space.content(state)),
        None => "a panic".to_owned(),
    };
    format!(
        "order {}: {}; leaves {}; the recorded effects leave {}",
        names.join(", "),
        answers.join(", "),
        shown(executed),
        shown(recorded)
    )
}
