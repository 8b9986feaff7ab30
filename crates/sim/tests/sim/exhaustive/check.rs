//! What must hold in every state.

use std::collections::BTreeMap;

use claret_core::message::Status;
use claret_core::{AttemptId, ShardId, Survives};
use claret_types::{Counter, CounterOp, Reply, State, Unique};
use stateright::{Model, Property};

use super::client::Fate;
use super::plan::{KEYS, Plan, Step};
use super::world::{Action, Field, World};

pub(crate) const TOLD: &str = "nobody is told of a commit that is none";
pub(crate) const TORN: &str = "what is applied or committed is refused nowhere";
pub(crate) const SERIAL: &str = "an order explains every answer";
pub(crate) const LEFT: &str = "nothing is left at the end";

impl Model for Field {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        world.actions(self, actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        world.after(self, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("the machines' own invariants hold", |_, world: &World| world.broken.is_none()),
            Property::always(TOLD, told_is_committed),
            Property::always(TORN, all_or_nothing),
            Property::always("one attempt of a transaction commits", one_attempt),
            Property::always("records are the sum of what was applied", contents_add_up),
            Property::always(SERIAL, is_serial),
            Property::always("restarts come to an end", restarts_end),
            Property::always(LEFT, ends_well),
        ]
    }
}

impl World {
    fn is_torn_by_restart(&self, attempt: AttemptId) -> bool {
        self.lost.iter().any(|lost| lost.attempt == attempt)
    }
}

fn told_is_committed(_: &Field, world: &World) -> bool {
    world.clients.iter().all(|client| match client.it.fate {
        Fate::Told(number) => {
            let attempt = client.it.attempt(number);
            world.committed.contains(&attempt) || world.is_torn_by_restart(attempt)
        }
        Fate::Open | Fate::GaveUp | Fate::Unknown | Fate::Dead => true,
    })
}

/// P3 and P6. The one exception is a shard that lost the yes it had written (P25).
fn all_or_nothing(Field { plan, .. }: &Field, world: &World) -> bool {
    let attempts = world.clients.iter().zip(&plan.programs);
    attempts.flat_map(|(client, program)| client.it.all_attempts().map(move |it| (it, program))).all(
        |(attempt, program)| {
            let written = || program.iter().map(|step| world.shards[step.shard].it.written(attempt));
            let applied = written().any(|it| it == Some(Status::Applied));
            let refused = written().any(|it| it == Some(Status::Refused));
            let committed = world.committed.contains(&attempt);
            // Nobody applies before all have written yes.
            let torn = applied && !committed || committed && refused;
            !torn || world.is_torn_by_restart(attempt)
        },
    )
}

/// Whatever is lost: what may have been done is not done again.
fn one_attempt(Field { plan, .. }: &Field, world: &World) -> bool {
    world.clients.iter().zip(&plan.programs).all(|(client, program)| {
        let applied = |attempt: &AttemptId| {
            let here = |step: &Step| world.shards[step.shard].it.written(*attempt) == Some(Status::Applied);
            program.iter().any(here) || world.lost.iter().any(|it| it.attempt == *attempt && it.applied)
        };
        // That all had written yes is nothing firm where one of them has lost it since.
        let firm = |attempt: &AttemptId| {
            world.committed.contains(attempt) && !world.is_torn_by_restart(*attempt)
                || client.it.fate == Fate::Told(attempt.attempt)
        };
        let done = |attempt: &AttemptId| firm(attempt) || applied(attempt);
        client.it.all_attempts().filter(done).count() <= 1
    })
}

fn contents_add_up(Field { plan, .. }: &Field, world: &World) -> bool {
    world.shards.iter().enumerate().all(|(at, shard)| {
        let applied = |attempt: AttemptId| {
            shard.it.written(attempt) == Some(Status::Applied)
                || plan.survives == Survives::Records
                    && world.lost.iter().any(|it| it.shard == at && it.attempt == attempt && it.applied)
        };
        let clients = world.clients.iter().zip(&plan.programs);
        let sum: i64 = clients
            .map(|(client, program)| {
                let times = client.it.all_attempts().filter(|attempt| applied(*attempt)).count();
                let adds: i64 = program.iter().filter(|step| step.shard == at).map(added).sum();
                adds * times as i64
            })
            .sum();
        let content = shard.it.state(KEYS[at].as_bytes());
        let value = content.and_then(State::downcast::<Counter>).map_or(Ok(0), claret_types::Text::as_int);
        value.is_ok_and(|value| value == sum)
    })
}

fn added(step: &Step) -> i64 {
    match step.op.downcast::<Counter>() {
        Some(CounterOp::Add(amount) | CounterOp::AddReturning(amount)) => *amount,
        Some(CounterOp::Get) | None => 0,
    }
}

/// There is an order of all that is committed in which every client gets the answers that it was told.
fn is_serial(Field { plan, .. }: &Field, world: &World) -> bool {
    if !world.lost.is_empty() || world.clients.iter().all(|client| !matches!(client.it.fate, Fate::Told(_))) {
        return true;
    }
    let mut order: Vec<usize> = world.committed.iter().map(|attempt| attempt.tx.session.0 as usize).collect();
    explained(plan, world, &mut order, 0)
}

/// Tries every order of `order[from..]`.
fn explained(plan: &Plan, world: &World, order: &mut Vec<usize>, from: usize) -> bool {
    if from == order.len() {
        return replay(plan, world, order);
    }
    (from..order.len()).any(|next| {
        order.swap(from, next);
        let found = explained(plan, world, order, from + 1);
        order.swap(from, next);
        found
    })
}

fn replay(plan: &Plan, world: &World, order: &[usize]) -> bool {
    let mut records: BTreeMap<usize, Option<State>> = BTreeMap::new();
    // Real time: who began after another was told comes behind it.
    let place = |client: usize| order.iter().position(|it| *it == client);
    let is_late = |(later, first): &(usize, usize)| match (place(*later), place(*first)) {
        (Some(later), Some(first)) => later > first,
        (later, _) => later.is_none(),
    };
    if !plan.after.iter().all(is_late) {
        return false;
    }
    order.iter().all(|client| {
        let mut answers: Vec<(u32, Reply)> = Vec::new();
        for (no, step) in plan.programs[*client].iter().enumerate() {
            let record = records.entry(step.shard).or_default();
            let Ok(executed) = step.op.execute(record.as_ref(), Unique(0)) else { return false };
            if let Some(effect) = executed.effect {
                effect.apply(record);
            }
            if step.op.returns() {
                answers.push((no as u32, executed.reply));
            }
        }
        let client = &world.clients[*client].it;
        !matches!(client.fate, Fate::Told(_)) || client.answers == answers
    })
}

fn restarts_end(field: &Field, world: &World) -> bool {
    world.clients.iter().all(|client| client.it.attempts <= field.plan.attempts_seen_max)
}

/// Where nothing can happen any more, every client that lives is done, and no shard holds or remembers a lock.
fn ends_well(field: &Field, world: &World) -> bool {
    if world.broken.is_some() {
        return true; // Told by the first property.
    }
    let mut actions = Vec::new();
    world.actions(field, &mut actions);
    !actions.is_empty() || world.is_at_rest(&field.plan)
}

impl World {
    /// Everybody who lives is done, and nothing is open or locked.
    pub(crate) fn is_at_rest(&self, plan: &Plan) -> bool {
        let done = self.clients.iter().all(|client| match client.it.fate {
            Fate::Told(_) | Fate::Dead => client.it.coordinator.is_none(),
            Fate::GaveUp => client.it.coordinator.is_none() && !plan.all_commit(),
            // Only votes that are lost leave anybody in the dark.
            Fate::Unknown => client.it.coordinator.is_none() && plan.survives != Survives::Votes,
            Fate::Open => false,
        });
        let free = self.shards.iter().all(|it| it.it.open_attempts() == 0 && it.it.locked_records() == 0);
        // All or nothing, for all time: what one shard applied, the others have applied.
        let whole =
            self.committed.iter().filter(|attempt| !self.is_torn_by_restart(**attempt)).all(|attempt| {
                let client = attempt.tx.session.0 as usize;
                plan.programs[client]
                    .iter()
                    .all(|step| self.shards[step.shard].it.written(*attempt) == Some(Status::Applied))
            });
        self.messages.is_empty() && done && free && whole
    }

    /// Who holds and who waits, for people.
    pub(crate) fn picture(&self) -> String {
        let shard = |at: usize| {
            let waits: Vec<_> = self.shards[at].it.waits().collect();
            format!("{}: {} open, {waits:?}", ShardId(at as u32), self.shards[at].it.open_attempts())
        };
        let clients: Vec<_> = self.clients.iter().map(|client| client.it.fate).collect();
        format!("{}; {}; clients {clients:?}; committed {:?}", shard(0), shard(1), self.committed)
    }
}
