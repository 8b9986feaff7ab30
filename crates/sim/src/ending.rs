//! How a run ends: nothing is left behind, and all that happened is judged.

use std::collections::BTreeMap;

use claret_core::message::{Link, Request};
use claret_core::{AttemptId, Client, Sequence, SessionId, ShardId};

use crate::check::{LedgerEnd, Violation};
use crate::host::Host;
use crate::observed::judge;
use crate::plant::Plant;
use crate::probe;
use crate::reference::Reference;
use crate::world::World;

impl World {
    /// Raises all low-water marks, and checks that nothing is left.
    pub(crate) fn leave_nothing(&mut self) -> Result<(), Violation> {
        let ids: Vec<SessionId> = self.processes.keys().copied().collect();
        for number in 0..self.config.shards {
            let id = ShardId(number);
            if self.cluster.has_left(id) {
                continue;
            }
            for session in &ids {
                self.say_farewell(*session, id);
            }
            self.drain_shard(id)?;
            let shard = &self.host(id).shard;
            let (locked, open) = (shard.locked_records(), shard.open_attempts());
            let remembered = shard.remembered();
            if locked + open + remembered > 0 {
                return Err(format!(
                    "{id} ends with {locked} records locked, {open} attempts open and {remembered} decisions \
                     remembered\n{}",
                    self.picture()
                ));
            }
        }
        Ok(())
    }

    /// Checks that everything was serializable, and sums up.
    pub(crate) fn finish(&mut self) -> Result<(), Violation> {
        self.check_end()?;
        self.judge_results()?;
        let recoveries = |host: &Host| host.recoveries + host.shard.stats().recoveries;
        self.outcome.recoveries = self.cluster.hosts().iter().map(recoveries).sum();
        self.outcome.committed = self.ledger.committed() as u64;
        let clients = self.processes.values().filter_map(|process| process.client.as_ref());
        self.outcome.combined += clients.map(Client::combined).sum::<u64>();
        self.outcome.torn = self.ledger.torn() as u64;
        self.outcome.faults += self.lines.network.faults;
        self.outcome.micros = self.now.0;
        self.trace.note(self.now, &[self.outcome.committed, self.outcome.messages], || "done".to_owned());
        self.outcome.trace_hash = self.trace.hash();
        Ok(())
    }

    /// A last heartbeat; of a dead client, that its session is closed.
    fn say_farewell(&mut self, session: SessionId, to: ShardId) {
        if self.config.direct {
            return;
        }
        let process = &self.processes[&session];
        let low_water = process.client.as_ref().map_or(Sequence(u64::MAX), Client::low_water);
        let connection = process.dialled + 1;
        let now = self.shard_time(to);
        let request = Request::Heartbeat { live: Vec::new(), low_water };
        self.host(to).shard.handle(now, Link { session, connection }, request);
    }

    pub(crate) fn check_serial(&self) -> Result<(), Violation> {
        let reference = match self.faults.plant {
            Plant::ForgetEffects => Reference::forgetful(7),
            _ => Reference::default(),
        };
        let contents = self.cluster.contents();
        self.ledger.check_serial(LedgerEnd {
            reference,
            records: contents.iter().collect(),
            place: &|key| self.shard_of(key),
            is_carried_out: &|shard, attempt, key| self.cluster.shard(shard).has_carried_out(attempt, key),
            settled: !self.config.faults.endless,
        })
    }

    /// Judges what users saw, without the shards' word. Where votes or records were lost, there may be no order.
    fn judge_results(&mut self) -> Result<(), Violation> {
        if self.ledger.torn() > 0 || self.ledger.is_wiped() {
            return Ok(());
        }
        let contents = (!self.config.faults.endless).then(|| self.cluster.contents());
        let contents = contents.as_ref().map(BTreeMap::iter);
        let is_replicated = self.config.is_replicated();
        let history = probe::history(
            self.ledger.runs(),
            &self.workload.probes(),
            self.ledger.ends(),
            contents,
            is_replicated,
        );
        let judged = judge(&history)?;
        (self.outcome.judged, self.outcome.edges) = (judged.transactions, judged.edges);
        Ok(())
    }

    /// Who waits for whom, for a failure.
    pub(crate) fn picture(&self) -> String {
        let mut lines = Vec::new();
        let list =
            |attempts: &[AttemptId]| attempts.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        for host in self.cluster.hosts() {
            for wait in host.shard.waits() {
                let (holders, waiters) = (list(&wait.holders), list(&wait.waiters));
                lines.push(format!(
                    "  {} '{}': held by [{holders}], wanted by [{waiters}]",
                    host.shard.id(),
                    wait.key
                ));
            }
        }
        for (id, process) in &self.processes {
            let live = process.client.as_ref().map(Client::live).unwrap_or_default();
            lines.push(format!("  c{}: at shards [{}], due {:?}", id.0, list(&live), process.timer));
            for (tx, transaction) in &process.transactions {
                lines.push(format!(
                    "  c{}.t{}/{}: at step {} of {}, {:?}",
                    id.0,
                    tx.0,
                    transaction.run,
                    transaction.at,
                    transaction.program.steps.len(),
                    transaction.stage,
                ));
            }
        }
        lines.join("\n")
    }
}
