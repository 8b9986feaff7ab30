//! The machine that runs a program. All it has is data: frames, registers and a heap, so it can stop between any two steps.

mod call;
mod concat;
mod event;
mod frame;
mod index;
mod natives;
mod operate;
mod raise;
mod script;
mod sort;
mod substitute;

use std::sync::Arc;

use crate::code::{Constant, Unit};
use crate::fault::{Fatal, Raise};
use crate::heap::{Closure, Heap};
use crate::library::{self, Redis};
use crate::value::{CellId, TableId, Value};

pub(crate) use call::Replied;
pub(crate) use event::Event;
pub(crate) use frame::{Deliver, Frame, NativeFrame, NativeState, Visit};
pub(crate) use raise::Failed;
pub(crate) use sort::Sort;
pub(crate) use substitute::{Replacement, Substitution, of_pattern};

use event::Events;

/// What a frame takes, for the count of memory.
const FRAME_BYTES: u64 = 96;

/// A program with its constants as values of this heap.
#[derive(Debug)]
pub(crate) struct Linked {
    pub unit: Arc<Unit>,
    pub constants: Vec<Box<[Value]>>,
}

/// Steps: how many are left, and where to rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    pub left: i64,
    pub rest_at: i64,
}

/// Why the machine stopped.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The slice of steps is used.
    Rested,
    /// A command is called. The answer is awaited.
    Called,
    /// The function that was started returned: its results are in `results`.
    Returned,
}

/// A command that was called.
#[derive(Debug)]
pub(crate) struct Awaited {
    pub words: Vec<Vec<u8>>,
    pub is_tried: bool,
    pub deliver: Deliver,
}

/// The machine.
#[derive(Debug)]
pub(crate) struct Machine {
    pub heap: Heap,
    pub stack: Vec<Value>,
    pub frames: Vec<Frame>,
    /// Captured variables that are still in registers, by register.
    pub open_cells: Vec<(usize, CellId)>,
    pub linked: Arc<Linked>,
    pub globals: TableId,
    pub text_metatable: Option<TableId>,
    pub events: Events,
    pub meter: Meter,
    pub depth: u32,
    /// What a function answered, on its way to who called it.
    pub results: Vec<Value>,
    pub awaited: Option<Awaited>,
    pub redis: Redis,
    /// Values that library functions keep.
    pub kept: Vec<Value>,
}

impl Machine {
    /// Whether an error would be caught: a `pcall` has begun and not ended.
    pub(crate) fn is_protected(&self) -> bool {
        let is_try = |frame: &Frame| match frame {
            Frame::Native(native) => matches!(native.state, NativeState::Try { is_handling: false, .. }),
            Frame::Script(_) => false,
        };
        self.frames.iter().any(is_try)
    }

    /// A machine with its libraries, that has run nothing.
    ///
    /// # Errors
    ///
    /// Not enough memory for the program's constants.
    pub(crate) fn new(unit: Arc<Unit>, steps: u64, bytes: u64, depth: u32) -> Result<Machine, Raise> {
        let mut heap = Heap::new(bytes);
        let events = Events::new(&mut heap)?;
        let globals = heap.table(0, 64)?;
        let mut constants = Vec::with_capacity(unit.functions.len());
        for function in &unit.functions {
            heap.take(function.constants.len() as u64 * 16)?;
            let linked: Result<Box<[Value]>, Raise> =
                function.constants.iter().map(|constant| link(&mut heap, constant)).collect();
            constants.push(linked?);
        }
        let left = i64::try_from(steps).unwrap_or(i64::MAX);
        let mut machine = Machine {
            heap,
            stack: Vec::new(),
            frames: Vec::new(),
            open_cells: Vec::new(),
            linked: Arc::new(Linked { unit, constants }),
            globals,
            text_metatable: None,
            events,
            meter: Meter { left, rest_at: left },
            depth,
            results: Vec::new(),
            awaited: None,
            redis: Redis::default(),
            kept: Vec::new(),
        };
        library::install(&mut machine)?;
        Ok(machine)
    }

    /// Begins a function with arguments. Nothing else runs.
    ///
    /// # Errors
    ///
    /// It cannot be called.
    pub(crate) fn start(&mut self, function: Value, arguments: &[Value]) -> Result<(), Raise> {
        self.stack.clear();
        self.stack.push(function);
        self.stack.extend_from_slice(arguments);
        self.call(0, arguments.len(), Deliver::Caller)
    }

    /// The script itself, as a function.
    ///
    /// # Errors
    ///
    /// Not enough memory.
    pub(crate) fn entry(&mut self) -> Result<Value, Raise> {
        let function = self.linked.unit.entry() as u32;
        Ok(Value::Closure(self.heap.closure(Closure::Script { function, cells: Box::default() })?))
    }

    /// Goes on until it has a reason to stop, for at most so many steps.
    ///
    /// # Errors
    ///
    /// An error that nothing in the script catches.
    pub(crate) fn run(&mut self, steps: u64) -> Result<Stop, Failed> {
        let slice = i64::try_from(steps.max(1)).unwrap_or(i64::MAX);
        self.meter.rest_at = self.meter.left.saturating_sub(slice).max(0);
        let linked = Arc::clone(&self.linked);
        loop {
            if self.awaited.is_some() {
                return Ok(Stop::Called);
            }
            let done = match self.frames.last() {
                None => return Ok(Stop::Returned),
                Some(_) if self.meter.left <= self.meter.rest_at => {
                    if self.meter.left > 0 {
                        return Ok(Stop::Rested);
                    }
                    Err(Raise::Fatal(Fatal::Steps))
                }
                Some(Frame::Script(_)) => self.run_script(&linked),
                Some(Frame::Native(_)) => self.step_native(),
            };
            if let Err(raise) = done {
                self.raise(raise)?;
            }
        }
    }

    /// Pays for work.
    ///
    /// # Errors
    ///
    /// There are no more steps.
    pub(crate) fn charge(&mut self, steps: u64) -> Result<(), Raise> {
        self.meter.left = self.meter.left.saturating_sub_unsigned(steps);
        if self.meter.left <= 0 { Err(Raise::Fatal(Fatal::Steps)) } else { Ok(()) }
    }

    /// Pays for work on so many bytes.
    ///
    /// # Errors
    ///
    /// There are no more steps.
    pub(crate) fn charge_bytes(&mut self, bytes: usize) -> Result<(), Raise> {
        self.charge(1 + bytes as u64 / 16)
    }

    /// Frees what nothing refers to, if enough was made.
    pub(crate) fn sweep_if_due(&mut self) {
        if self.heap.is_due() {
            self.sweep();
        }
    }

    fn sweep(&mut self) {
        let Machine { heap, stack, frames, open_cells, linked, .. } = self;
        for value in stack.iter().chain(&self.results).chain(&self.kept) {
            heap.mark(*value);
        }
        for constants in &linked.constants {
            for value in constants {
                heap.mark(*value);
            }
        }
        for frame in frames.iter() {
            frame.each(|value| heap.mark(value));
        }
        for (_, cell) in open_cells.iter() {
            heap.mark_cell(*cell);
        }
        self.events.each(|value| heap.mark(value));
        heap.mark(Value::Table(self.globals));
        if let Some(metatable) = self.text_metatable {
            heap.mark(Value::Table(metatable));
        }
        let swept = heap.sweep();
        self.meter.left = self.meter.left.saturating_sub_unsigned(swept / 8).max(1);
    }

    /// Gives the stack so many places.
    ///
    /// # Errors
    ///
    /// Not enough memory.
    pub(crate) fn extend(&mut self, length: usize) -> Result<(), Raise> {
        let before = self.stack.capacity();
        if length > before {
            let wanted = length.max(before.saturating_mul(2));
            self.heap.take((wanted - before) as u64 * 16)?;
            self.stack.reserve_exact(wanted - self.stack.len());
        }
        self.stack.resize(length, Value::Nil);
        Ok(())
    }

    /// Adds a frame.
    ///
    /// # Errors
    ///
    /// Too many calls in each other.
    pub(crate) fn push_frame(&mut self, frame: Frame) -> Result<(), Raise> {
        if self.frames.len() >= self.depth as usize {
            return Err(Raise::text("stack overflow"));
        }
        if self.frames.len() == self.frames.capacity() {
            self.heap.take(self.frames.capacity().max(4) as u64 * FRAME_BYTES)?;
        }
        self.frames.push(frame);
        Ok(())
    }
}

fn link(heap: &mut Heap, constant: &Constant) -> Result<Value, Raise> {
    Ok(match constant {
        Constant::Nil => Value::Nil,
        Constant::Bool(bool) => Value::Bool(*bool),
        Constant::Number(number) => Value::Number(*number),
        Constant::Text(text) => Value::Text(heap.text(text)?),
    })
}
