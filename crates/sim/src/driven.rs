//! Runs the clients of a [`Scenario`](crate::Scenario) (`seat.rs`) in the simulated world. At the end the scenario looks at the records.

use std::ops::Range;

use claret_core::SessionId;
use claret_types::{Bytes, Reply, State, Unique};

use crate::check::Violation;
use crate::model::Call;
use crate::outcome::LeftOut;
use crate::process::Transaction;
use crate::random::Random;
use crate::run::{RunId, RunLog, Told};
use crate::seat::Seat;
use crate::workload::Workload;
use crate::world::World;

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
        let idle = self.processes.get_mut(&session).and_then(|process| process.idle.pop());
        self.stageplay.seat(idle, &self.config.programs, random)
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
    fn replies(&self, run: RunId, calls: Range<usize>) -> Vec<Reply> {
        let issued = self.ledger.runs().get(&run).map_or(&[][..], |log| &log.issued);
        issued[calls].iter().map(|it| it.reply.clone().unwrap_or(Reply::Ok)).collect()
    }

    /// A transaction is over for its user, who may begin another one.
    pub(crate) fn leave_seat(&mut self, run: RunId, transaction: Transaction) {
        let Some(seat) = transaction.seat else { return };
        let is_committed = |log: &RunLog| matches!(log.told, Told::Committed(_));
        let is_committed = self.ledger.runs().get(&run).is_some_and(is_committed);
        let replies = is_committed.then(|| self.replies(run, seat.calls.clone()));
        let client = seat.leave(replies.as_deref());
        if let Some(process) = self.processes.get_mut(&run.session) {
            process.idle.push(client);
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
        let records = self.cluster.contents();
        scenario.check(&mut |call| {
            let state: Option<&State> = records.get(&call.key);
            let executed = call.op.execute(state, Unique(0));
            executed.map(|it| it.reply).map_err(|error| format!("'{}' cannot be read: {error}", call.key))
        })
    }
}
