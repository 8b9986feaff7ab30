//! Users who go on with a run that is over: their code did something else when the end came, ignores errors, or has
//! kept a handle. Nothing that they call, now or much later, is taken (P61).

use claret_core::Closed;
use claret_types::{Counter, CounterOp, Operation};

use crate::check::Violation;
use crate::event::SimEvent;
use crate::run::RunId;
use crate::world::World;

/// So many times one user goes on, at most.
const TIMES_MAX: u64 = 4;

impl World {
    /// A run is over; its user may go on with it all the same.
    pub(crate) fn keep_handle(&mut self, run: RunId) {
        if self.draws.stale.chance(self.config.programs.stale_permille) {
            let times = self.draws.stale.between(1, TIMES_MAX) as u32;
            self.go_on_later(run, times);
        }
    }

    /// At once, in a moment, or when its next run is under way, or another transaction in its place.
    fn go_on_later(&mut self, run: RunId, times: u32) {
        let most = *self.draws.stale.pick(&[1, 300, 20_000]);
        let at = self.now.plus(self.draws.stale.below(most));
        self.schedule(at, SimEvent::Stale(run, times));
    }

    /// The user calls something in the name of the run, or commits it.
    pub(crate) fn go_on_though_over(&mut self, run: RunId, left: u32) -> Result<(), Violation> {
        let now = self.local(run.session);
        let key = self.draws.stale.pick(&self.workload.keys).name.clone();
        let (place, name) = ((self.cluster.slots.of(&key), key), (run.tx, run.run));
        let what = self.draws.stale.below(3);
        let Some(client) = self.client(run.session) else { return Ok(()) };
        let op = |op| Operation::new::<Counter>(op);
        let (called, taken) = match what {
            0 => ("a call", client.execute(now, name, place, op(CounterOp::AddReturning(1)), None).is_ok()),
            1 => ("a void call", client.buffer(now, name, place, op(CounterOp::Add(1))).is_ok()),
            _ => ("a commit", client.commit(now, name) != Err(Closed)),
        };
        if taken {
            return Err(format!("{run}: it is over, and {called} in its name was taken"));
        }
        if left > 1 {
            self.go_on_later(run, left - 1);
        }
        Ok(())
    }
}
