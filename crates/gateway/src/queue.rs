//! What is queued between MULTI and EXEC.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes as Word;
use claret_commands::{Answer, Command, Evaluation, NoKeys, Plan, Way};
use claret_types::{Bytes, Operation};

use crate::fault::Fault;
use crate::limits::GatewayLimits;
use crate::request::Request;
use crate::request::arguments;
use crate::scripts::is_script;

/// So many commands of one MULTI are answered beside its transaction.
const BESIDE_MAX: usize = 16;

/// An id is part of the names of keys.
const ONCE_BYTES_MAX: usize = 512;

fn is_once(command: &Command, words: &[Word]) -> bool {
    command.name == "GATEWAY" && words.len() == 3 && words[1].eq_ignore_ascii_case(b"ONCE")
}

/// What is asked beside a transaction, and answered with what the transaction has written by then.
fn is_question(command: &Command, words: &[Word]) -> bool {
    let sub = |known: &[&str]| {
        words.get(1).is_some_and(|word| known.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes())))
    };
    match command.name {
        "DBSIZE" | "KEYS" | "SCAN" | "RANDOMKEY" | "LASTSAVE" => true,
        "CONFIG" => sub(&["GET"]),
        "ACL" => sub(&["WHOAMI"]),
        "SCRIPT" => sub(&["EXISTS"]),
        _ => false,
    }
}

/// What is answered by the gateway before the transaction begins.
pub(crate) fn is_of_connection(command: &Command, words: &[Word]) -> bool {
    let known = ["ID", "GETNAME", "SETNAME", "INFO", "LIST"];
    let is_known = |word: &Word| known.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()));
    command.name == "INFO" || command.name == "CLIENT" && words.get(1).is_some_and(is_known)
}

/// Whether it sends a message.
pub(crate) fn is_publish(command: &Command) -> bool {
    matches!(command.name, "PUBLISH" | "SPUBLISH")
}

/// What cuts a MULTI in two.
fn is_flush(command: &Command) -> bool {
    matches!(command.name, "FLUSHDB" | "FLUSHALL")
}

/// Whether the words of a flush are such: what is wrong shows before anything is done.
fn is_well(words: &[Word]) -> bool {
    match words {
        [_] => true,
        [_, how] => how.eq_ignore_ascii_case(b"ASYNC") || how.eq_ignore_ascii_case(b"SYNC"),
        _ => false,
    }
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
    /// Scripts run in the gateway.
    scripts_here: bool,
    /// All of it is done at most once for this (`GATEWAY ONCE`).
    pub(crate) once: Option<Word>,
    bytes: usize,
    has_failed: bool,
    /// Some of it is carried out by the servers of its keys (A19).
    has_steps: bool,
    /// By a flush.
    pub(crate) is_cut: bool,
    /// How many are answered beside it.
    beside: usize,
}

impl Queue {
    /// What is not queued, but done at once.
    pub(crate) fn is_for_now(name: &str) -> bool {
        matches!(name, "MULTI" | "EXEC" | "DISCARD" | "WATCH" | "QUIT" | "RESET")
    }

    /// Nothing so far. `scripts_here`: scripts run in the gateway.
    pub(crate) fn new(scripts_here: bool) -> Self {
        Queue { scripts_here, ..Queue::default() }
    }

    /// What is queued as it is carried out, if what these operations demand is so: a plan, and one more behind each flush. `here`: what
    /// the gateway answers by itself. `scripts`: what the scripts are, in their order.
    ///
    /// # Errors
    /// A command has words that it cannot have.
    pub(crate) fn plans(
        &self,
        expected: Vec<(Bytes, Operation)>,
        mut here: impl FnMut(&Queued) -> Answer,
        mut scripts: VecDeque<Evaluation>,
    ) -> Result<VecDeque<Plan>, Fault> {
        let mut plans = VecDeque::new();
        let mut plan = Plan::new(expected, self.all.len());
        for queued in &self.all {
            match queued.command.way {
                Way::Local => plan.answered(here(queued)),
                Way::FanOut if is_flush(queued.command) => {
                    plans.push_back(std::mem::replace(&mut plan, Plan::new(Vec::new(), 0)));
                }
                Way::Script => match scripts.pop_front() {
                    Some(script) => plan.script(script),
                    None => {
                        return Err(Fault::told(
                            "ERR a script of this MULTI is not known any more: send it again",
                        ));
                    }
                },
                // It leaves when all of it is done.
                Way::Node if is_publish(queued.command) => plan.answered(Answer::Nil),
                Way::FanOut => plan.question(queued.command, arguments(queued.words())),
                _ => plan.command(queued.command, arguments(queued.words()))?,
            }
        }
        plans.push_back(plan);
        Ok(plans)
    }

    /// Whether the connection has another name when all of it is done.
    pub(crate) fn sets_name(&self) -> bool {
        let sets = |queued: &Queued| {
            queued.command.name == "CLIENT" && queued.words()[1].eq_ignore_ascii_case(b"SETNAME")
        };
        self.beside > 0 && !self.is_cut && self.all.iter().any(sets)
    }

    /// What the gateway answers of the connection and of itself.
    pub(crate) fn of_connection(&self) -> impl Iterator<Item = &Queued> {
        let all = if self.beside > 0 { &self.all[..] } else { &[] };
        all.iter().filter(|queued| is_of_connection(queued.command, queued.words()))
    }

    /// The scripts.
    pub(crate) fn scripts(&self) -> impl Iterator<Item = &Queued> {
        self.all.iter().filter(|queued| queued.command.way == Way::Script)
    }

    /// What leaves when all of it is done, and which answer that has.
    pub(crate) fn published(&self) -> impl Iterator<Item = (usize, &Queued)> {
        self.all.iter().enumerate().filter(|(_, queued)| is_publish(queued.command))
    }

    /// What cuts it, in order.
    pub(crate) fn flushes(&self) -> impl Iterator<Item = &Queued> {
        self.all.iter().filter(|queued| is_flush(queued.command))
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

    /// The slots with those of a command more, and the first that a node has to carry out.
    fn node_for(
        &self,
        command: &'static Command,
        words: &[Word],
        is_at_nodes: bool,
    ) -> Result<(Slots, Option<&'static Command>), Fault> {
        let slots = self.slots.with(command.slot(words));
        // No operation of Claret's types is on the empty key.
        let is_on_empty_key = || {
            let mut places = command.keys.of(words).ok()?;
            Some(places.any(|at| words[at].is_empty()))
        };
        let is_here = command.is_step(words)
            || command.is_waiting_pop()
            || is_publish(command)
            || is_script(command) && self.scripts_here;
        let needs_node = matches!(command.way, Way::Node | Way::Blocking | Way::Script)
            && !(is_here && is_on_empty_key() != Some(true))
            || is_at_nodes && command.way.is_transactional() && is_on_empty_key() == Some(true)
            || is_at_nodes && matches!(slots, Slots::One(_)) && self.is_behind_step(command, words);
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
        Ok((slots, of_node))
    }

    /// Whether it uses several keys, and a command before it on one of them is a step: so it is none (A22).
    fn is_behind_step(&self, command: &Command, words: &[Word]) -> bool {
        if !self.has_steps || command.is_own || command.is_of_streams() {
            return false;
        }
        let keys: BTreeSet<&[u8]> = command.keys_in(words).collect();
        let is_on_one = |queued: &Queued| {
            let words = queued.words();
            queued.command.is_step(words) && queued.command.keys_in(words).any(|key| keys.contains(key))
        };
        keys.len() > 1 && self.all.iter().any(is_on_one)
    }

    /// Whether a node can do all of it as it is, with a command more.
    fn is_all_for_a_node(&self, command: &Command) -> Result<(), Fault> {
        let shown = || command.name.to_ascii_lowercase();
        let commands = || self.all.iter().map(|queued| queued.command).chain([command]);
        if self.scripts_here && commands().any(is_script) {
            return Err(Fault::told(format!(
                "ERR a script runs in the gateway, and this MULTI is done by one node as it is for another command ('{}'): leave one of \
                 the two out",
                shown()
            )));
        }
        if commands().any(|it| it.is_own) {
            return Err(Fault::told(format!(
                "ERR '{}' is an operation of the gateway, and this MULTI is done by one node as it is: leave one of the two out",
                shown()
            )));
        }
        let is_local = |command: &Command| {
            command.way == Way::FanOut
                || command.way == Way::Local && !matches!(command.name, "PING" | "ECHO" | "TIME")
        };
        if commands().any(is_local) {
            return Err(Fault::told(format!(
                "ERR '{}' is answered by the gateway, and this MULTI is done by one node as it is: leave one of the two out",
                shown()
            )));
        }
        Ok(())
    }

    /// Whether flushes cut it, and how many are answered beside it, with a command more.
    fn beside(&self, command: &Command, words: &[Word], is_watching: bool) -> Result<(bool, usize), Fault> {
        let is_cut = self.is_cut || is_flush(command);
        if is_cut && (is_watching || self.once.is_some() || is_once(command, words)) {
            return Err(Fault::told(
                "ERR a flush cuts a MULTI in two: what stands before it commits, then the nodes are flushed. So it is not for a MULTI \
                 after WATCH, nor with GATEWAY ONCE: leave one of the two out",
            ));
        }
        if is_flush(command) && !is_well(words) {
            return Err(claret_commands::Fault::syntax().into());
        }
        let is_beside = is_question(command, words) || is_of_connection(command, words);
        let beside = self.beside + usize::from(is_beside);
        if beside > BESIDE_MAX {
            return Err(Fault::told(format!(
                "ERR over {BESIDE_MAX} commands of a MULTI that are answered beside it ('{}'): ask them outside of it",
                command.name.to_ascii_lowercase()
            )));
        }
        if beside > 0 && (self.once.is_some() || is_once(command, words)) {
            return Err(Fault::told(
                "ERR what is asked of the gateway or of all nodes is answered beside a MULTI, and GATEWAY ONCE keeps its answers: leave \
                 one of the two out",
            ));
        }
        Ok((is_cut, beside))
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
        is_watching: bool,
    ) -> Result<(), Fault> {
        if self.has_failed {
            return Ok(());
        }
        let shown = || command.name.to_ascii_lowercase();
        let is_answered =
            matches!(command.name, "PING" | "ECHO" | "SELECT" | "TIME" | "LOLWUT" | "UNWATCH" | "COMMAND")
                || is_once(command, &request.words);
        let is_told = match command.way {
            Way::Local => is_answered || is_of_connection(command, &request.words),
            Way::FanOut => is_question(command, &request.words) || is_flush(command),
            Way::PubSub => false,
            _ => true,
        };
        if !is_told {
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
        let (slots, of_node) = self.node_for(command, &request.words, is_at_nodes)?;
        let (is_cut, beside) = self.beside(command, &request.words, is_watching)?;
        if of_node.is_some() {
            self.is_all_for_a_node(command)?;
        }
        let has_steps =
            self.has_steps || command.is_step(&request.words) || is_publish(command) || is_script(command);
        if has_steps && (self.once.is_some() || is_once(command, &request.words)) {
            return Err(Fault::told(
                "ERR what the server of a key carries out, or publishes, is answered with the commit, and GATEWAY ONCE keeps the answers \
                 before it: leave one of the two out",
            ));
        }
        if is_once(command, &request.words) {
            self.note_once(request.words[2].clone())?;
        }
        (self.slots, self.of_node, self.is_cut, self.beside) = (slots, of_node, is_cut, beside);
        self.has_steps = has_steps;
        self.bytes += bytes;
        self.all.push(Queued { command, request });
        Ok(())
    }
}
