//! Runs the clients of a [`Scenario`](crate::Scenario): each stage of a transaction becomes steps of its program once its answers are
//! there. At the end the scenario looks at the records.

use std::fmt;
use std::sync::Arc;

use claret_core::SessionId;
use claret_types::{Bytes, Reply, State, Unique};

use crate::check::Violation;
use crate::config::ProgramConfig;
use crate::model::{Call, Client, Stage};
use crate::process::Transaction;
use crate::random::Random;
use crate::run::{RunId, Told};
use crate::scenario::Scenario;
use crate::workload::{Action, Ending, Program, Step, Workload};
use crate::world::World;

/// Why the records at the end of a run say nothing of a workload's conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    /// The run was cut off.
    CutOff,
    /// A transaction is torn: a vote was lost with a node that left, or that restarted.
    Torn,
    /// A shard lost its records.
    Lost,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LeftOut::CutOff => "the run was cut off",
            LeftOut::Torn => "a transaction is torn",
            LeftOut::Lost => "a shard lost its records",
        })
    }
}

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
}

/// A client of a scenario, and how far its transaction is.
pub(crate) struct Seat {
    client: Box<dyn Client>,
    /// The last stage is issued.
    is_last: bool,
    /// Where the calls of the stage stand in the run's notes.
    calls: std::ops::Range<usize>,
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
    fn begin_again(&mut self) {
        (self.is_last, self.calls) = (false, 0..0);
        self.client.restart();
    }

    /// Adds the next stage to a program, whose calls stand behind the `issued` ones.
    fn add_stage(&mut self, replies: &[Reply], issued: usize, program: &mut Program) {
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
}

impl Transaction {
    /// Its client begins again, whose stages are not known yet.
    pub(crate) fn rewind_stages(&mut self) {
        if let Some(seat) = &mut self.seat {
            self.program.steps.clear();
            seat.begin_again();
        }
    }
}

impl World {
    /// The records of a scenario, if there is one, instead of those that a seed draws.
    pub(crate) fn load_scenario(&mut self) {
        let Some(scenario) = self.stageplay.scenario.clone() else { return };
        let mut keys: Vec<Bytes> = Vec::new();
        for Call { key, op } in scenario.load() {
            let shard = self.shard_of(&key);
            assert!(self.host(shard).prepare(&key, &op), "'{key}' cannot be loaded: {op:?}");
            self.ledger.note_preparation(&key, &op);
            keys.push(key);
        }
        keys.sort_unstable();
        keys.dedup();
        self.workload = Workload::of_keys(keys);
    }

    /// Somebody of the scenario who begins a transaction, if there is a scenario.
    pub(crate) fn take_seat(&mut self, session: SessionId, random: &mut Random) -> Option<Seat> {
        let scenario = self.stageplay.scenario.as_ref()?;
        let manner = Manner::random(&self.config.programs, random);
        let idle = self.processes.get_mut(&session).and_then(|process| process.idle.pop());
        let mut client = idle.unwrap_or_else(|| {
            self.stageplay.clients += 1;
            scenario.client(self.stageplay.clients, random.number())
        });
        client.draw();
        Some(Seat { client, is_last: false, calls: 0..0, manner })
    }

    /// The program of a run has no more steps: adds those of the next stage. False if there is none.
    pub(crate) fn add_stage(&mut self, run: RunId) -> bool {
        let issued = self.ledger.issued(run);
        let Some(seat) = self.running(run).and_then(|it| it.seat.as_mut()).filter(|seat| !seat.is_last)
        else {
            return false;
        };
        let calls = seat.calls.clone();
        let replies = self.replies(run, calls);
        let Some(transaction) = self.running(run) else { return false };
        transaction.at = transaction.program.steps.len();
        if let Some(seat) = &mut transaction.seat {
            seat.add_stage(&replies, issued, &mut transaction.program);
        }
        true
    }

    /// What a run heard; what answers nothing is done.
    fn replies(&self, run: RunId, calls: std::ops::Range<usize>) -> Vec<Reply> {
        let issued = self.ledger.runs().get(&run).map_or(&[][..], |log| &log.issued);
        issued[calls].iter().map(|it| it.reply.clone().unwrap_or(Reply::Ok)).collect()
    }

    /// A transaction is over for its user, who may begin another one.
    pub(crate) fn leave_seat(&mut self, run: RunId, transaction: Transaction) {
        let Some(mut seat) = transaction.seat else { return };
        match self.ledger.runs().get(&run).map(|log| log.told) {
            Some(Told::Committed(_)) => {
                let replies = self.replies(run, seat.calls);
                seat.client.committed(&replies);
            }
            _ => seat.client.gave_up(),
        }
        if let Some(process) = self.processes.get_mut(&run.session) {
            process.idle.push(seat.client);
        }
    }

    /// Checks that everything was serializable, and what the scenario says of the records.
    pub(crate) fn check_end(&mut self) -> Result<(), Violation> {
        let serial = self.check_serial();
        let broken = self.check_scenario()?;
        match serial {
            serial if broken.is_empty() => serial,
            Ok(()) => Err(broken.join("\n")),
            Err(why) => Err(format!("{}\n{why}", broken.join("\n"))),
        }
    }

    fn why_left_out(&self) -> Option<LeftOut> {
        if self.config.faults.endless {
            Some(LeftOut::CutOff)
        } else if self.ledger.torn() > 0 {
            Some(LeftOut::Torn)
        } else {
            self.ledger.is_wiped().then_some(LeftOut::Lost)
        }
    }

    /// What does not hold of the records. Where the run was cut off, or votes or records were lost, they say nothing.
    fn check_scenario(&mut self) -> Result<Vec<String>, Violation> {
        let Some(scenario) = self.stageplay.scenario.clone() else { return Ok(Vec::new()) };
        self.outcome.conditions_left = self.why_left_out();
        if self.outcome.conditions_left.is_some() {
            return Ok(Vec::new());
        }
        self.outcome.conditions_checked = 1;
        let records = self.contents();
        scenario.check(&mut |call| {
            let state: Option<&State> = records.get(&call.key);
            let executed = call.op.execute(state, Unique(0));
            executed.map(|it| it.reply).map_err(|error| format!("'{}' cannot be read: {error}", call.key))
        })
    }
}
