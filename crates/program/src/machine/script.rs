//! Instructions of a function of the script, one after the other.

use crate::code::{CONSTANTS_FROM, OPEN, Op, Operand};
use crate::fault::{Fatal, Raise};
use crate::heap::Cell;
use crate::value::{ClosureId, Value};

use super::{Deliver, Event, Frame, Linked, Machine};

/// Where to go on behind an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Next,
    Skip,
    To(u32),
    /// Another frame runs, or the machine stops: this one goes on behind the instruction.
    Away,
    /// This frame is no more.
    Gone,
}

/// What instructions of one function refer to.
#[derive(Clone, Copy)]
pub(super) struct Here<'a> {
    pub base: usize,
    pub closure: ClosureId,
    pub constants: &'a [Value],
}

impl Machine {
    /// Runs the function of the last frame until another frame is the last, or it is time to rest.
    pub(super) fn run_script(&mut self, linked: &Linked) -> Result<(), Raise> {
        let Some(Frame::Script(frame)) = self.frames.last() else { return Ok(()) };
        let number = frame.function as usize;
        let (Some(function), Some(constants)) =
            (linked.unit.functions.get(number), linked.constants.get(number))
        else {
            return Err(Raise::Fatal(Fatal::Program("no function")));
        };
        let here = Here { base: frame.base, closure: frame.closure, constants };
        let mut at = frame.at + usize::from(frame.skips);
        let depth = self.frames.len();
        if let Some(Frame::Script(frame)) = self.frames.last_mut() {
            frame.skips = false;
        }
        let ended = loop {
            if self.meter.left <= self.meter.rest_at {
                break Ok(());
            }
            self.meter.left -= 1;
            let Some(op) = function.code.get(at).copied() else {
                break Err(Raise::Fatal(Fatal::Program("no instruction")));
            };
            at += 1;
            match self.one(op, here) {
                Ok(Flow::Next) => {}
                Ok(Flow::Skip) => at += 1,
                Ok(Flow::To(target)) => at = target as usize,
                Ok(Flow::Away) => {
                    if self.frames.len() == depth
                        && self.awaited.is_none()
                        && let Some(Frame::Script(frame)) = self.frames.last_mut()
                    {
                        // A native function answered at once.
                        at += usize::from(std::mem::take(&mut frame.skips));
                        continue;
                    }
                    break Ok(());
                }
                Ok(Flow::Gone) => return Ok(()),
                Err(raise) => break Err(raise),
            }
        };
        if let Some(Frame::Script(frame)) = self.frames.get_mut(depth - 1) {
            frame.at = at;
        }
        ended
    }
}

impl Machine {
    #[inline]
    pub(super) fn get(&self, place: usize) -> Value {
        self.stack.get(place).copied().unwrap_or_default()
    }

    #[inline]
    pub(super) fn put(&mut self, place: usize, value: Value) {
        if let Some(register) = self.stack.get_mut(place) {
            *register = value;
        }
    }

    #[inline]
    fn operand(&self, operand: Operand, here: Here<'_>) -> Value {
        match operand.0.checked_sub(CONSTANTS_FROM) {
            None => self.get(here.base + usize::from(operand.0)),
            Some(constant) => constant_at(here, u32::from(constant)),
        }
    }

    /// Whether a value is true.
    ///
    /// # Errors
    ///
    /// It is not known yet.
    #[inline]
    pub(crate) fn truth(&self, value: Value) -> Result<bool, Raise> {
        match value {
            Value::Nil | Value::Bool(false) => Ok(false),
            Value::Later(ticket) => Err(Raise::Fatal(Fatal::Looked(ticket))),
            _ => Ok(true),
        }
    }

    fn one(&mut self, op: Op, here: Here<'_>) -> Result<Flow, Raise> {
        let at = |register: u8| here.base + usize::from(register);
        match op {
            Op::Move { to, from } => self.put(at(to), self.get(at(from))),
            Op::Constant { to, index } => self.put(at(to), constant_at(here, index)),
            Op::Bool { to, value } => self.put(at(to), Value::Bool(value)),
            Op::Nil { from, count } => {
                let from = at(from);
                if let Some(places) = self.stack.get_mut(from..from + usize::from(count)) {
                    places.fill(Value::Nil);
                }
            }
            Op::GetIndex { to, table, key } => {
                let (table, key) = (self.get(at(table)), self.operand(key, here));
                if let Value::Table(id) = table
                    && let value = self.heap.of(id).get(key)
                    && !value.is_nil()
                {
                    self.put(at(to), value);
                } else {
                    return self.index(table, key, at(to));
                }
            }
            Op::SetIndex { table, key, value } => {
                let (key, value) = (self.operand(key, here), self.operand(value, here));
                return self.set_index(self.get(at(table)), key, value);
            }
            Op::GetGlobal { to, name } => return self.get_global(constant_at(here, name), at(to)),
            Op::SetGlobal { from, name } => {
                return self.set_index(
                    Value::Table(self.globals),
                    constant_at(here, name),
                    self.get(at(from)),
                );
            }
            Op::GetUpvalue { to, index } => {
                let value = match self.heap.cell_of(self.upvalue(here.closure, index)) {
                    Cell::Open(place) => self.get(place),
                    Cell::Closed(value) => value,
                };
                self.put(at(to), value);
            }
            Op::SetUpvalue { index, from } => {
                let (cell, value) = (self.upvalue(here.closure, index), self.get(at(from)));
                match self.heap.cell_of(cell) {
                    Cell::Open(place) => self.put(place, value),
                    Cell::Closed(_) => self.heap.set_cell(cell, Cell::Closed(value)),
                }
            }
            Op::Method { to, object, name } => {
                let object = self.get(at(object));
                self.put(at(to) + 1, object);
                return self.index(object, constant_at(here, name), at(to));
            }
            Op::Not { to, from } => {
                let is_true = self.truth(self.get(at(from)))?;
                self.put(at(to), Value::Bool(!is_true));
            }
            _ => return self.other(op, here),
        }
        Ok(Flow::Next)
    }

    /// Arithmetic and comparisons.
    fn other(&mut self, op: Op, here: Here<'_>) -> Result<Flow, Raise> {
        let at = |register: u8| here.base + usize::from(register);
        let (event, to, left, right) = match op {
            Op::Add { to, left, right } => (Event::Add, to, left, right),
            Op::Subtract { to, left, right } => (Event::Subtract, to, left, right),
            Op::Multiply { to, left, right } => (Event::Multiply, to, left, right),
            Op::Divide { to, left, right } => (Event::Divide, to, left, right),
            Op::Modulo { to, left, right } => (Event::Modulo, to, left, right),
            Op::Power { to, left, right } => (Event::Power, to, left, right),
            Op::Equal { when, left, right } => {
                return self.equal(self.operand(left, here), self.operand(right, here), when);
            }
            Op::Less { when, left, right } => {
                return self.less(self.operand(left, here), self.operand(right, here), when);
            }
            Op::LessEqual { when, left, right } => {
                return self.less_equal(self.operand(left, here), self.operand(right, here), when);
            }
            Op::Negate { to, from } => return self.negate(self.get(at(from)), at(to)),
            Op::Length { to, from } => return self.length(self.get(at(from)), at(to)),
            _ => return self.control(op, here),
        };
        let (left, right) = (self.operand(left, here), self.operand(right, here));
        self.arithmetic(event, left, right, at(to))
    }

    /// Jumps, loops and calls.
    fn control(&mut self, op: Op, here: Here<'_>) -> Result<Flow, Raise> {
        let at = |register: u8| here.base + usize::from(register);
        match op {
            Op::Jump { target } => Ok(Flow::To(target)),
            Op::JumpIf { test, when, target } => {
                Ok(if self.truth(self.get(at(test)))? == when { Flow::To(target) } else { Flow::Next })
            }
            Op::ForStart { base, target } => self.for_start(at(base)).map(|()| Flow::To(target)),
            Op::ForNext { base, target } => self.for_next(at(base), target),
            Op::Call { function, arguments, results } => {
                let count = self.count(at(function) + 1, arguments);
                self.call(at(function), count, Deliver::Registers { to: at(function), count: results })?;
                Ok(Flow::Away)
            }
            Op::TailCall { function, arguments } => {
                let count = self.count(at(function) + 1, arguments);
                Ok(if self.tail_call(at(function), count)? { Flow::Gone } else { Flow::Away })
            }
            Op::Return { from, count } => {
                let count = self.count(at(from), count);
                self.leave(at(from), count).map(|()| Flow::Gone)
            }
            Op::IterCall { base, count } => {
                let base = at(base);
                self.extend(self.stack.len().max(base + 6))?;
                self.stack.copy_within(base..base + 3, base + 3);
                self.call(base + 3, 2, Deliver::Registers { to: base + 3, count })?;
                Ok(Flow::Away)
            }
            Op::IterNext { base, target } => {
                let value = self.get(at(base) + 3);
                if value.is_nil() {
                    return Ok(Flow::Next);
                }
                self.put(at(base) + 2, value);
                Ok(Flow::To(target))
            }
            _ => self.making(op, here),
        }
    }

    /// What makes tables, strings and closures.
    fn making(&mut self, op: Op, here: Here<'_>) -> Result<Flow, Raise> {
        let at = |register: u8| here.base + usize::from(register);
        self.sweep_if_due();
        match op {
            Op::NewTable { to, array, hash } => {
                let table = self.heap.table(usize::from(array), usize::from(hash))?;
                self.put(at(to), Value::Table(table));
            }
            Op::SetList { table, count, first } => {
                let count = self.count(at(table) + 1, count);
                let Value::Table(id) = self.get(at(table)) else {
                    return Err(Raise::Fatal(Fatal::Program("no table")));
                };
                self.charge(count as u64)?;
                self.heap.reserve(id, count)?;
                for offset in 0..count {
                    let key = Value::Number(f64::from(first) + offset as f64);
                    self.heap.element(id, key, self.get(at(table) + 1 + offset))?;
                }
            }
            Op::Concat { to, first, count } => {
                return self.concat(at(first), usize::from(count), at(to));
            }
            Op::Closure { to, function } => {
                let closure = self.close_over(function, here.base, here.closure)?;
                self.put(at(to), closure);
            }
            Op::Close { from } => self.close_cells(at(from)),
            Op::Varargs { to, count } => self.varargs(at(to), count)?,
            _ => return Err(Raise::Fatal(Fatal::Program("an instruction"))),
        }
        Ok(Flow::Next)
    }

    /// How many values there are from a place on: so many, or up to the top.
    fn count(&self, from: usize, count: u8) -> usize {
        if count != OPEN {
            return usize::from(count);
        }
        match self.frames.last() {
            Some(Frame::Script(frame)) => frame.top.min(self.stack.len()).saturating_sub(from),
            _ => 0,
        }
    }

    fn varargs(&mut self, to: usize, count: u8) -> Result<(), Raise> {
        let Some(Frame::Script(frame)) = self.frames.last() else { return Ok(()) };
        let (from, known) = (frame.place + 1, frame.varargs);
        let wanted = if count == OPEN { known } else { usize::from(count) };
        self.charge(wanted as u64 / 8)?;
        self.extend(self.stack.len().max(to + wanted))?;
        for offset in 0..wanted {
            let value = if offset < known { self.get(from + offset) } else { Value::Nil };
            self.put(to + offset, value);
        }
        if count == OPEN
            && let Some(Frame::Script(frame)) = self.frames.last_mut()
        {
            frame.top = to + wanted;
        }
        Ok(())
    }

    fn for_start(&mut self, base: usize) -> Result<(), Raise> {
        let mut numbers = [0.0; 3];
        for (offset, (number, what)) in numbers.iter_mut().zip(["initial value", "limit", "step"]).enumerate()
        {
            let value = self.get(base + offset);
            self.looked(value)?;
            *number =
                self.number_in(value).ok_or_else(|| Raise::text(format!("'for' {what} must be a number")))?;
            self.put(base + offset, Value::Number(*number));
        }
        let [start, _, step] = numbers;
        self.put(base, Value::Number(start - step));
        Ok(())
    }

    fn for_next(&mut self, base: usize, target: u32) -> Result<Flow, Raise> {
        let (Value::Number(index), Value::Number(limit), Value::Number(step)) =
            (self.get(base), self.get(base + 1), self.get(base + 2))
        else {
            return Err(Raise::Fatal(Fatal::Program("no loop")));
        };
        let next = index + step;
        if if step > 0.0 { next <= limit } else { limit <= next } {
            self.put(base, Value::Number(next));
            self.put(base + 3, Value::Number(next));
            return Ok(Flow::To(target));
        }
        Ok(Flow::Next)
    }
}

#[inline]
fn constant_at(here: Here<'_>, index: u32) -> Value {
    here.constants.get(index as usize).copied().unwrap_or_default()
}
