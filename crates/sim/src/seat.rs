//! The clients of a [`Scenario`](crate::Scenario), and how far each is in its transaction: each stage becomes steps of its program once
//! the answers to the one before are there.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use claret_types::Reply;

use crate::config::ProgramConfig;
use crate::model::{Call, Client, Stage};
use crate::random::Random;
use crate::scenario::Scenario;
use crate::workload::{Action, Ending, Program, Step};

/// How many of a thousand transactions issue the calls of a stage one by one, and how many of a thousand stages follow a pause.
const SLOW_PERMILLE: u64 = 200;

/// The scenario of a run, and how many clients it has so far.
#[derive(Debug, Default)]
pub(crate) struct Stageplay {
    pub(crate) scenario: Option<Arc<dyn Scenario>>,
    clients: u64,
}

impl Stageplay {
    pub(crate) fn of(scenario: Option<Arc<dyn Scenario>>) -> Self {
        Stageplay { scenario, clients: 0 }
    }

    /// Somebody of the scenario who begins a transaction, if there is a scenario: who is idle, or another one.
    pub(crate) fn seat(
        &mut self,
        idle: Option<Box<dyn Client>>,
        config: &ProgramConfig,
        random: &mut Random,
    ) -> Option<Seat> {
        let scenario = self.scenario.as_ref()?;
        let manner = Manner::random(config, random);
        let mut client = idle.unwrap_or_else(|| {
            self.clients += 1;
            scenario.client(self.clients, random.number())
        });
        client.draw();
        Some(Seat { client, is_last: false, calls: 0..0, manner })
    }
}

/// A client of a scenario, and how far its transaction is.
pub(crate) struct Seat {
    client: Box<dyn Client>,
    /// The last stage is issued.
    pub(crate) is_last: bool,
    /// Where the calls of the stage stand in the run's notes.
    pub(crate) calls: Range<usize>,
    manner: Manner,
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat").field("is_last", &self.is_last).finish_non_exhaustive()
    }
}

/// How a transaction goes, in each of its runs.
#[derive(Clone, Copy, Debug)]
struct Manner {
    /// Each call is answered before the next one is issued.
    one_by_one: bool,
    /// What the last stage asks is answered by the commit.
    asks_late: bool,
    /// What its user does between two stages, in microseconds.
    think_us: u64,
    ending: Ending,
}

impl Manner {
    fn random(config: &ProgramConfig, random: &mut Random) -> Manner {
        let think_us = if random.chance(SLOW_PERMILLE) { random.below(config.think_us_max + 1) } else { 0 };
        let ending = if random.chance(config.abort_permille) {
            let late = Ending::CommitThenAbort(random.below(2_000));
            *random.pick(&[Ending::Abort, late])
        } else {
            Ending::Commit
        };
        let asks_late = !random.chance(config.interactive_permille);
        Manner { one_by_one: random.chance(SLOW_PERMILLE), asks_late, think_us, ending }
    }
}

impl Seat {
    /// The transaction from its start, for another run.
    pub(crate) fn begin_again(&mut self) {
        (self.is_last, self.calls) = (false, 0..0);
        self.client.restart();
    }

    /// Adds the next stage to a program, whose calls stand behind the `issued` ones.
    pub(crate) fn add_stage(&mut self, replies: &[Reply], issued: usize, program: &mut Program) {
        let mut calls = Vec::new();
        self.is_last = self.client.stage(replies, &mut calls) == Stage::Commit;
        self.calls = issued..issued + calls.len();
        let Manner { one_by_one, asks_late, think_us, ending } = self.manner;
        if issued > 0 && think_us > 0 {
            program.steps.push(Step::Think(think_us));
        }
        let actions = calls.into_iter().map(|Call { key, op }| Action::fixed(key, op));
        if self.is_last && asks_late {
            program.steps.extend(actions.map(Step::Buffer));
        } else if one_by_one {
            program.steps.extend(actions.map(|action| Step::Execute(vec![action])));
        } else {
            program.steps.push(Step::Execute(actions.collect()));
        }
        program.ending = if self.is_last && self.client.rolls_back() { Ending::Abort } else { ending };
    }

    /// The transaction is over: it committed with these answers, or did not. Returns whoever may begin another one.
    pub(crate) fn leave(mut self, committed: Option<&[Reply]>) -> Box<dyn Client> {
        match committed {
            Some(replies) => self.client.committed(replies),
            None => self.client.gave_up(),
        }
        self.client
    }
}
