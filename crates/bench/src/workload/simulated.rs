//! A client of a workload, as `claret_sim` drives it: the performance model, and the simulator with faults.

use std::cell::Cell;
use std::rc::Rc;

use claret_sim::model;
use claret_types::Reply;

use super::{Call, Client, Stage};

/// See the module's text.
pub(crate) struct Simulated {
    client: Box<dyn Client>,
    calls: Vec<Call>,
    has_stages: Rc<Cell<bool>>,
}

impl Simulated {
    /// `has_stages` is set when one of its transactions has several stages with operations.
    pub(crate) fn new(client: Box<dyn Client>, has_stages: Rc<Cell<bool>>) -> Self {
        Simulated { client, calls: Vec::new(), has_stages }
    }
}

/// A call as `claret_sim` takes it.
pub(crate) fn given(call: Call) -> model::Call {
    model::Call { key: call.key, op: call.op }
}

impl model::Client for Simulated {
    fn draw(&mut self) -> usize {
        self.client.draw()
    }

    fn stage(&mut self, replies: &[Reply], calls: &mut Vec<model::Call>) -> model::Stage {
        let stage = self.client.stage(replies, &mut self.calls);
        if stage == Stage::Read && !self.calls.is_empty() {
            self.has_stages.set(true);
        }
        calls.extend(self.calls.drain(..).map(given));
        match stage {
            Stage::Read => model::Stage::Read,
            Stage::Commit => model::Stage::Commit,
        }
    }

    fn thinks(&self) -> u64 {
        self.client.thinks().as_micros() as u64
    }

    fn rolls_back(&self) -> bool {
        self.client.rolls_back()
    }

    fn restart(&mut self) {
        self.client.restart();
    }

    fn committed(&mut self, replies: &[Reply]) {
        self.client.committed(replies);
    }

    fn gave_up(&mut self) {
        self.client.gave_up();
    }

    fn finish(self: Box<Self>) {
        self.client.finish();
    }
}
