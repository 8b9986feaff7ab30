//! Operations that demand an answer, as those of a conditional batch (O9 of `docs/optimistic.md`): some of a program's do, and it is the
//! right one or not.

use claret_types::{Operation, Reply, Unique};

use crate::random::Random;
use crate::workload::{Action, Program, Step};

/// The answer that an operation is to give.
#[derive(Clone, Debug)]
pub(crate) enum Demand {
    /// What the attempt was answered last.
    Last,
    Answer(Reply),
}

impl Demand {
    /// For an operation; `None`: its answer is nobody's to demand.
    fn draw(op: &Operation, random: &mut Random) -> Option<Demand> {
        // The number is the store's to choose, and the time is over when it is asked for.
        if !op.returns() || op.is_timed() || op.method().name == "UID.NEXT" {
            return None;
        }
        let of_nothing = || op.execute(None, Unique(0)).map_or(Reply::Nil, |executed| executed.reply);
        Some(match random.below(4) {
            0 | 1 => Demand::Answer(of_nothing()),
            2 => Demand::Last,
            _ => Demand::Answer(random.pick(&[Reply::Nil, Reply::Int(0), Reply::Int(1)]).clone()),
        })
    }

    /// The operation, which demands it.
    pub(crate) fn of(&self, op: &Operation, last: &Reply) -> Operation {
        match self {
            Demand::Last => op.demanding(last),
            Demand::Answer(answer) => op.demanding(answer),
        }
    }
}

impl Program {
    /// So many of a thousand operations demand an answer.
    pub(crate) fn demand(&mut self, permille: u64, random: &mut Random) {
        let mut draw = |action: &mut Action| {
            if random.chance(permille)
                && let Some(op) = action.known()
            {
                action.demand = Demand::draw(op, random);
            }
        };
        for step in &mut self.steps {
            match step {
                Step::Buffer(action) => draw(action),
                Step::Execute(actions) => actions.iter_mut().for_each(&mut draw),
                Step::Think(_) | Step::Pause(_) => {}
                Step::Savepoint | Step::RollBack(_) | Step::Release(_) | Step::Settle => {}
            }
        }
    }
}
