//! A run of a program, as its host sees it.

use std::sync::Arc;

use crate::answer::Answer;
use crate::code::Unit;
use crate::fault::{Fatal, Raise};
use crate::functions::Library;
use crate::machine::{Awaited, Deliver, Failed, Machine, Stop};
use crate::program::Program;
use crate::value::Value;

/// What a run may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Steps in sum. An instruction is one; work on many bytes or elements takes more.
    pub steps: u64,
    /// Bytes of memory at once.
    pub bytes: u64,
    /// Calls in each other.
    pub depth: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { steps: 100_000_000, bytes: 64 << 20, depth: 10_000 }
    }
}

/// What a run begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// `KEYS`.
    pub keys: Vec<Vec<u8>>,
    /// `ARGV`.
    pub args: Vec<Vec<u8>>,
    /// What it may use.
    pub limits: Limits,
    /// What random numbers begin with, unless the script seeds them itself.
    pub seed: u32,
}

/// A command that the script calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its words, its name first.
    pub words: Vec<Vec<u8>>,
    /// Where the script calls it.
    pub line: u32,
    /// Whether the script drops the answer: the call is a statement.
    pub is_dropped: bool,
    /// Whether an error need not end the script: it takes one as a value (`redis.pcall`), or calls the command within `pcall`.
    pub is_tried: bool,
}

/// What kind of failure ended a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// An error that the script raised or a command answered.
    Error,
    /// All its steps are used.
    Steps,
    /// It needs more memory than it may have.
    Memory,
    /// It looked at an answer that is not known yet.
    Looked,
}

/// Why a run ended without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What Redis answers, up to ` script: `: its code comes first.
    pub message: String,
    /// The line of the script, 0 if it is not known.
    pub line: u32,
    /// The code: the first word of the message.
    pub code: String,
    /// What kind it is.
    pub kind: FailureKind,
}

/// Why a run stopped.
#[derive(Clone, Debug, PartialEq)]
pub enum Pause {
    /// The steps it was given are used. It goes on when it is resumed.
    Rested,
    /// It waits for the answer of a command: [`Run::answered`].
    Call(Call),
    /// It is done.
    Done(Answer),
    /// It failed.
    Failed(Failure),
}

#[derive(Debug)]
enum State {
    Runs,
    /// The library's text runs first, then the function.
    Loads {
        name: Vec<u8>,
    },
    Ended(Pause),
}

/// One run: a program, where it is, and all it has made.
#[derive(Debug)]
pub struct Run {
    machine: Option<Box<Machine>>,
    state: State,
    start: Start,
    /// The command that answers later, by ticket.
    later: Vec<(u32, String)>,
    last_command: String,
    /// How errors name the text.
    chunk: &'static str,
}

impl Run {
    /// A run of a script.
    #[must_use]
    pub fn new(program: Arc<Program>, start: Start) -> Run {
        Run::begin(Arc::clone(&program.unit), start, State::Runs)
    }

    /// A run of a function of a library. Its text runs first, so the state of its variables is new. `None`: there is no such function.
    #[must_use]
    pub fn function(library: Arc<Library>, name: &str, start: Start) -> Option<Run> {
        library.functions().iter().find(|function| function.name.eq_ignore_ascii_case(name))?;
        let state = State::Loads { name: name.to_ascii_lowercase().into_bytes() };
        Some(Run::begin(Arc::clone(&library.unit), start, state))
    }

    /// A run of a library's text alone.
    pub(crate) fn loading(unit: Arc<Unit>, limits: Limits) -> Run {
        let start = Start { limits, ..Start::default() };
        Run::begin(unit, start, State::Loads { name: Vec::new() })
    }

    fn begin(unit: Arc<Unit>, start: Start, state: State) -> Run {
        let limits = start.limits;
        let (later, last_command, chunk) = (Vec::new(), String::new(), unit.chunk());
        let mut run = Run { machine: None, state, start, later, last_command, chunk };
        let prepared = Machine::new(unit, limits.steps, limits.bytes, limits.depth).and_then(|machine| {
            let mut machine = Box::new(machine);
            machine.redis.seed(run.start.seed);
            run.prepare(&mut machine)?;
            Ok(machine)
        });
        match prepared {
            Ok(machine) => run.machine = Some(machine),
            Err(_) => run.state = State::Ended(Pause::Failed(run.failure(Fatal::Memory, 0, ""))),
        }
        run
    }

    fn prepare(&mut self, machine: &mut Machine) -> Result<(), Raise> {
        if let State::Loads { .. } = self.state {
            machine.redis.registers = true;
        } else {
            for (name, words) in [(b"KEYS".as_slice(), &self.start.keys), (b"ARGV", &self.start.args)] {
                let list = list(machine, words)?;
                let name = machine.text_value(name)?;
                machine.heap.set(machine.globals, name, list)?;
            }
        }
        let entry = machine.entry()?;
        machine.start(entry, &[])
    }

    /// Goes on for at most so many steps. What is not divided, such as one search in a string, may take it beyond.
    pub fn resume(&mut self, steps: u64) -> Pause {
        if let State::Ended(pause) = &self.state {
            return pause.clone();
        }
        let rest = steps;
        loop {
            let Some(machine) = self.machine.as_deref_mut() else { return self.end_unknown() };
            let stopped = machine.run(rest);
            match stopped {
                Ok(Stop::Rested) => return Pause::Rested,
                Ok(Stop::Called) => return self.called(),
                Ok(Stop::Returned) => {
                    if let Some(pause) = self.returned() {
                        return pause;
                    }
                }
                Err(failed) => return self.failed(failed),
            }
        }
    }

    fn end_unknown(&mut self) -> Pause {
        self.end(Pause::Failed(self.failure(Fatal::Program("no machine"), 0, "")))
    }

    fn end(&mut self, pause: Pause) -> Pause {
        self.state = State::Ended(pause.clone());
        pause
    }

    fn called(&mut self) -> Pause {
        let Some(machine) = self.machine.as_deref() else { return self.end_unknown() };
        let Some(awaited) = &machine.awaited else { return self.end_unknown() };
        let call = Call {
            words: awaited.words.clone(),
            line: machine.line(),
            is_dropped: matches!(awaited.deliver, Deliver::Registers { count: 0, .. } | Deliver::Nowhere),
            is_tried: awaited.is_tried || machine.is_protected(),
        };
        self.last_command =
            call.words.first().map(|name| String::from_utf8_lossy(name).to_lowercase()).unwrap_or_default();
        Pause::Call(call)
    }

    /// Tells what the command answered for which the run waits. Else nothing happens.
    pub fn answered(&mut self, answer: Answer) {
        if let Answer::Later(ticket) = answer {
            self.later.push((ticket, self.last_command.clone()));
        }
        let Some(machine) = self.machine.as_deref_mut() else { return };
        let Some(awaited) = machine.awaited.take() else { return };
        if let Err(raise) = give(machine, &awaited, answer)
            && let Err(failed) = machine.raise_answer(raise)
        {
            self.failed(failed);
        }
    }

    /// The script returned. `None`: it goes on with the function of its library.
    fn returned(&mut self) -> Option<Pause> {
        let machine = self.machine.as_deref_mut()?;
        if let State::Loads { name } = &self.state {
            machine.redis.registers = false;
            let found = machine
                .redis
                .functions
                .iter()
                .find(|function| function.name.as_bytes().eq_ignore_ascii_case(name));
            let Some(callback) = found.map(|function| function.callback) else {
                return Some(self.end(Pause::Done(Answer::Nil)));
            };
            self.state = State::Runs;
            let begun = list(machine, &self.start.keys).and_then(|keys| {
                machine.kept.push(keys);
                let args = list(machine, &self.start.args)?;
                machine.start(callback, &[keys, args])
            });
            return match begun {
                Ok(()) => None,
                Err(_) => Some(self.end(Pause::Failed(self.failure(Fatal::Memory, 0, "")))),
            };
        }
        let value = machine.results.first().copied().unwrap_or(Value::Nil);
        let answer = machine.answer_of(value, 0);
        let pause = match answer {
            Ok(answer) => Pause::Done(answer),
            Err(Raise::Fatal(fatal)) => Pause::Failed(self.failure(fatal, 0, "")),
            Err(_) => Pause::Failed(self.failure(Fatal::Memory, 0, "")),
        };
        Some(self.end(pause))
    }

    fn failed(&mut self, failed: Failed) -> Pause {
        let pause = match failed.fatal {
            Some(fatal) => {
                let command = match fatal {
                    Fatal::Looked(ticket) => self.later.iter().find(|(known, _)| *known == ticket),
                    _ => None,
                };
                self.failure(fatal, failed.line, command.map_or("", |(_, name)| name))
            }
            None => {
                let message = String::from_utf8_lossy(&failed.message).into_owned();
                let code = message.split(' ').next().unwrap_or_default().to_owned();
                Failure { message, line: failed.line, code, kind: FailureKind::Error }
            }
        };
        self.end(Pause::Failed(pause))
    }

    /// How many steps it has used.
    #[must_use]
    pub fn steps_used(&self) -> u64 {
        let left = self.machine.as_ref().map_or(0, |machine| machine.meter.left.max(0) as u64);
        self.start.limits.steps.saturating_sub(left)
    }

    /// How many bytes it has taken.
    #[must_use]
    pub fn bytes_used(&self) -> u64 {
        self.machine.as_ref().map_or(0, |machine| machine.heap.used())
    }

    /// What the script wrote by `redis.log`, with its level from 0 (debug) to 3 (warning). It is given once.
    pub fn take_log(&mut self) -> Vec<(u8, Vec<u8>)> {
        self.machine.as_mut().map(|machine| std::mem::take(&mut machine.redis.log)).unwrap_or_default()
    }

    fn failure(&self, fatal: Fatal, line: u32, command: &str) -> Failure {
        let chunk = self.chunk;
        let (kind, message) = match fatal {
            Fatal::Steps => (FailureKind::Steps, format!("ERR {chunk}:{line}: script took too many steps")),
            Fatal::Memory => (FailureKind::Memory, format!("ERR {chunk}:{line}: not enough memory")),
            Fatal::Looked(_) => {
                let what = "is known when the script has ended: it can be returned, not looked at";
                (FailureKind::Looked, format!("ERR {chunk}:{line}: the answer of '{command}' {what}"))
            }
            Fatal::Program(what) => {
                (FailureKind::Error, format!("ERR {chunk}:{line}: broken program: {what}"))
            }
        };
        Failure { message, line, code: "ERR".into(), kind }
    }

    /// The functions that a library's text registered.
    pub(crate) fn registered(&self) -> &[crate::library::Registered] {
        self.machine.as_ref().map_or(&[], |machine| &machine.redis.functions)
    }
}

fn give(machine: &mut Machine, awaited: &Awaited, answer: Answer) -> Result<(), Raise> {
    let is_error = matches!(answer, Answer::Error(_));
    let value = machine.value_of(answer, 0)?;
    if is_error && !awaited.is_tried {
        return Err(Raise::Value(value));
    }
    machine.results.clear();
    machine.results.push(value);
    machine.deliver(awaited.deliver)
}

fn list(machine: &mut Machine, words: &[Vec<u8>]) -> Result<Value, Raise> {
    let table = machine.heap.table(words.len(), 0)?;
    for (at, word) in words.iter().enumerate() {
        let text = machine.text_value(word)?;
        machine.heap.element(table, Value::Number((at + 1) as f64), text)?;
    }
    Ok(Value::Table(table))
}
