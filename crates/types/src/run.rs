//! Which operations and effects on records of any type are commands of the server (`command.rs`).

use crate::erased::{Effect, Operation};
use crate::{Command, KeyspaceEffect, KeyspaceOp, Run};

impl Operation {
    /// The command, if it is one that is carried out with the commit ([`Operation::is_command`]), or asked now ([`KeyspaceOp::Ask`]).
    pub fn command(&self) -> Option<&Command> {
        match self.keyspace() {
            Some(KeyspaceOp::Run(command) | KeyspaceOp::Ask(command)) => Some(command),
            _ => None,
        }
    }

    /// Has a command that is carried out in memory do the same whenever that is: `XADD ... *` is by the clock of whoever was given it. Not
    /// for hosts with servers.
    pub fn resolve_in_memory(&mut self, now: impl FnOnce() -> u64) {
        if let Some(KeyspaceOp::Run(command)) = self.keyspace()
            && let Some(command) = command.at_time(now)
        {
            *self = Operation::from(KeyspaceOp::Run(command));
        }
    }
}

impl Effect {
    /// The command that it carries out, if it is such a one.
    pub fn run(&self) -> Option<&Run> {
        match self.keyspace() {
            Some(KeyspaceEffect::Run(run)) => Some(run),
            _ => None,
        }
    }

    /// As the effect of the call of this number, if it carries out a command.
    #[must_use]
    pub fn numbered(self, no: u32) -> Effect {
        match self.run() {
            Some(run) => Effect::from(KeyspaceEffect::Run(Run { no, ..run.clone() })),
            None => self,
        }
    }
}
