//! What is queued between MULTI and EXEC.

use bytes::Bytes as Word;
use claret_commands::{Answer, Command, NoKeys, Plan, Way};
use claret_types::{Bytes, Operation};

use crate::fault::Fault;
use crate::limits::GatewayLimits;
use crate::request::Request;
use crate::request::arguments;

/// An id is part of the names of keys.
const ONCE_BYTES_MAX: usize = 512;

fn is_once(command: &Command, words: &[Word]) -> bool {
    command.name == "GATEWAY" && words.len() == 3 && words[1].eq_ignore_ascii_case(b"ONCE")
}

/// A queued command.
pub(crate) struct Queued {
    pub(crate) command: &'static Command,
    pub(crate) request: Request,
}

impl Queued {
    pub(crate) fn words(&self) -> &[Word] {
        &self.request.words
    }
}

/// What a command costs that is kept, in bytes.
pub(crate) fn kept_bytes(request: &Request) -> usize {
    request.raw.len() + 64 + 32 * request.words.len()
}

/// The slots of keys so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Slots {
    #[default]
    None,
    One(u16),
    Several,
}

impl Slots {
    fn with(self, other: Result<Option<u16>, NoKeys>) -> Self {
        match (self, other) {
            (_, Err(NoKeys::SeveralSlots)) => Slots::Several,
            (slots, Ok(None) | Err(NoKeys::Malformed)) => slots,
            (Slots::None, Ok(Some(slot))) => Slots::One(slot),
            (Slots::One(known), Ok(Some(slot))) if known == slot => self,
            (_, Ok(Some(_))) => Slots::Several,
        }
    }
}

/// See the module's text.
#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) all: Vec<Queued>,
    pub(crate) slots: Slots,
    /// The first that a node has to carry out.
    pub(crate) of_node: Option<&'static Command>,
    /// All of it is done at most once for this (`GATEWAY ONCE`).
    pub(crate) once: Option<Word>,
    bytes: usize,
    has_failed: bool,
}

impl Queue {
    /// What is not queued, but done at once.
    pub(crate) fn is_for_now(name: &str) -> bool {
        matches!(name, "MULTI" | "EXEC" | "DISCARD" | "WATCH" | "QUIT" | "RESET")
    }

    /// What is queued as it is carried out, if what these operations demand is so. `here`: what the gateway answers by itself.
    ///
    /// # Errors
    /// A command has words that it cannot have.
    pub(crate) fn plan(
        &self,
        expected: Vec<(Bytes, Operation)>,
        here: impl Fn(&Queued) -> Answer,
    ) -> Result<Plan, Fault> {
        let mut plan = Plan::new(expected, self.all.len());
        for queued in &self.all {
            match queued.command.way {
                Way::Local => plan.answered(here(queued)),
                _ => plan.command(queued.command, arguments(queued.words()))?,
            }
        }
        Ok(plan)
    }

    /// Bytes of all commands.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A command was not taken: EXEC does nothing.
    pub(crate) fn fail(&mut self) {
        self.has_failed = true;
        self.all = Vec::new();
        self.bytes = 0;
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed
    }

    fn note_once(&mut self, id: Word) -> Result<(), Fault> {
        if self.once.as_ref().is_some_and(|known| *known != id) {
            return Err(Fault::told("ERR GATEWAY ONCE has an id already in this MULTI: give one"));
        }
        if std::str::from_utf8(&id).is_err() || id.is_empty() || id.len() > ONCE_BYTES_MAX {
            return Err(Fault::told(format!(
                "ERR the id of GATEWAY ONCE is text of 1 to {ONCE_BYTES_MAX} bytes: an order number, a UUID"
            )));
        }
        self.once = Some(id);
        Ok(())
    }

    /// Queues a command.
    ///
    /// # Errors
    /// It cannot be in this transaction: why, and what would help.
    pub(crate) fn add(
        &mut self,
        command: &'static Command,
        request: Request,
        limits: &GatewayLimits,
        is_at_nodes: bool,
    ) -> Result<(), Fault> {
        if self.has_failed {
            return Ok(());
        }
        let shown = || command.name.to_ascii_lowercase();
        let is_answered =
            matches!(command.name, "PING" | "ECHO" | "SELECT" | "TIME" | "LOLWUT" | "UNWATCH" | "COMMAND")
                || is_once(command, &request.words);
        if matches!(command.way, Way::FanOut | Way::PubSub) || (command.way == Way::Local && !is_answered) {
            return Err(Fault::told(format!("ERR Command not allowed inside a transaction: '{}'", shown())));
        }
        let bytes = kept_bytes(&request);
        if self.all.len() >= limits.queued_max || self.bytes + bytes > limits.queued_bytes_max {
            return Err(Fault::told(format!(
                "ERR over {} commands or {} bytes between MULTI and EXEC: split the transaction",
                limits.queued_max, limits.queued_bytes_max
            )));
        }
        let request = request.detached();
        let slots = self.slots.with(command.slot(&request.words));
        // No operation of Claret's types is on the empty key.
        let is_on_empty_key = || {
            let mut places = command.keys.of(&request.words).ok()?;
            Some(places.any(|at| request.words[at].is_empty()))
        };
        let needs_node = matches!(command.way, Way::Node | Way::Blocking | Way::Script)
            || is_at_nodes && command.way.is_transactional() && is_on_empty_key() == Some(true);
        let needs_node = needs_node.then_some(command);
        let of_node = self.of_node.or(needs_node);
        if let Some(of_node) = of_node
            && slots == Slots::Several
        {
            return Err(Fault::told(format!(
                "CROSSSLOT '{}' is done by one node, and this MULTI has keys of other slots: give all its keys a common {{tag}}, or \
                 leave it out",
                of_node.name.to_ascii_lowercase()
            )));
        }
        if of_node.is_some() && (command.is_own || self.all.iter().any(|queued| queued.command.is_own)) {
            return Err(Fault::told(format!(
                "ERR '{}' is an operation of the gateway, and this MULTI is done by one node as it is: leave one of the two out",
                shown()
            )));
        }
        let is_local = |command: &Command| {
            command.way == Way::Local && !matches!(command.name, "PING" | "ECHO" | "TIME")
        };
        if of_node.is_some() && (is_local(command) || self.all.iter().any(|queued| is_local(queued.command)))
        {
            return Err(Fault::told(format!(
                "ERR '{}' is answered by the gateway, and this MULTI is done by one node as it is: leave one of the two out",
                shown()
            )));
        }
        if is_once(command, &request.words) {
            self.note_once(request.words[2].clone())?;
        }
        (self.slots, self.of_node) = (slots, of_node);
        self.bytes += bytes;
        self.all.push(Queued { command, request });
        Ok(())
    }
}
