//! Calls: functions of the script get frames, native functions answer at once or get frames too.

use crate::code::{Capture, OPEN};
use crate::fault::Raise;
use crate::heap::{Cell, Closure};
use crate::library::{self, Arguments, Native};
use crate::value::{CellId, ClosureId, Value};

use super::frame::ScriptFrame;
use super::{Deliver, Event, Frame, Machine};

/// What a native function did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replied {
    /// Its results are in `results`.
    Now,
    /// It has a frame, or waits for an answer: its results come later.
    Later,
}

impl Machine {
    /// Calls what is at a place of the stack with the arguments behind it.
    ///
    /// # Errors
    ///
    /// It is no function, or failed at once.
    pub(crate) fn call(&mut self, place: usize, count: usize, deliver: Deliver) -> Result<(), Raise> {
        let callee = self.stack.get(place).copied().unwrap_or_default();
        // Arguments are moved, and so are results.
        self.charge(count as u64 / 8)?;
        match callee {
            Value::Closure(closure) => self.call_closure(closure, place, count, deliver),
            Value::Native(native) => self.call_native(native, place, count, deliver),
            other => {
                self.looked(other)?;
                let handler = self.metamethod(other, Event::Call);
                if !matches!(handler, Value::Closure(_) | Value::Native(_)) {
                    return Err(self.wrong_operand("call", other, 0));
                }
                let length = self.stack.len();
                self.extend(length + 1)?;
                self.stack.copy_within(place..length, place + 1);
                if let Some(first) = self.stack.get_mut(place) {
                    *first = handler;
                }
                match handler {
                    Value::Closure(closure) => self.call_closure(closure, place, count + 1, deliver),
                    Value::Native(native) => self.call_native(native, place, count + 1, deliver),
                    _ => Ok(()),
                }
            }
        }
    }

    /// Calls a function with arguments, on a free part of the stack.
    ///
    /// # Errors
    ///
    /// It is no function, or failed at once.
    pub(crate) fn call_values(
        &mut self,
        function: Value,
        arguments: &[Value],
        deliver: Deliver,
    ) -> Result<(), Raise> {
        let place = self.stack.len();
        self.extend(place + 1 + arguments.len())?;
        if let Some((first, rest)) = self.stack.get_mut(place..).and_then(<[Value]>::split_first_mut) {
            *first = function;
            rest.copy_from_slice(arguments);
        }
        self.call(place, arguments.len(), deliver)
    }

    fn call_closure(
        &mut self,
        id: ClosureId,
        place: usize,
        count: usize,
        deliver: Deliver,
    ) -> Result<(), Raise> {
        let Closure::Script { function, .. } = self.heap.closure_of(id) else {
            return self.reply(Native::NextMatch, place, count, deliver);
        };
        let function = *function;
        let frame = self.enter(id, function, place, count, deliver)?;
        self.push_frame(Frame::Script(frame))
    }

    /// Prepares the registers of a function.
    fn enter(
        &mut self,
        closure: ClosureId,
        function: u32,
        place: usize,
        count: usize,
        deliver: Deliver,
    ) -> Result<ScriptFrame, Raise> {
        let linked = std::sync::Arc::clone(&self.linked);
        let Some(code) = linked.unit.functions.get(function as usize) else {
            return Err(Raise::text("no function"));
        };
        let parameters = usize::from(code.parameters);
        let end = place + 1 + count;
        let (mut base, mut varargs) = (place + 1, 0);
        if code.is_variadic {
            varargs = count.saturating_sub(parameters);
            base = end;
        }
        self.stack.truncate(end.min(self.stack.len()));
        if !code.is_variadic {
            // Arguments that nobody takes are not to be found in registers.
            self.stack.truncate(place + 1 + parameters);
        }
        self.extend(base + usize::from(code.registers).max(parameters))?;
        if code.is_variadic {
            let fixed = parameters.min(count);
            self.stack.copy_within(place + 1..place + 1 + fixed, base);
            if varargs > 0 {
                self.stack.copy_within(place + 1 + fixed..end, place + 1);
            }
        }
        Ok(ScriptFrame {
            function,
            closure,
            at: 0,
            base,
            place,
            varargs,
            top: base,
            deliver,
            skips: false,
            is_tail: false,
        })
    }

    fn call_native(
        &mut self,
        native: Native,
        place: usize,
        count: usize,
        deliver: Deliver,
    ) -> Result<(), Raise> {
        self.reply(native, place, count, deliver)
    }

    fn reply(&mut self, native: Native, place: usize, count: usize, deliver: Deliver) -> Result<(), Raise> {
        self.sweep_if_due();
        self.results.clear();
        let arguments = Arguments { place: place + 1, count, deliver };
        match library::reply(self, native, arguments) {
            Ok(Replied::Now) => self.deliver(deliver),
            Ok(Replied::Later) => Ok(()),
            // What an instruction could not do has its place; what a native function could not do the same way has none.
            Err(Raise::Text { message, place: crate::fault::Place::Here }) if message != "stack overflow" => {
                Err(Raise::Text { message, place: crate::fault::Place::None })
            }
            Err(raise) => Err(raise),
        }
    }
}

/// How calls end.
impl Machine {
    /// Brings `results` to who made the call. Its frame is the last.
    ///
    /// # Errors
    ///
    /// Not enough memory.
    pub(crate) fn deliver(&mut self, deliver: Deliver) -> Result<(), Raise> {
        match deliver {
            Deliver::Registers { to, count } => self.deliver_to(to, count),
            Deliver::Compare { when } => {
                let is_so = self.truth(self.results.first().copied().unwrap_or_default())?;
                if let Some(Frame::Script(frame)) = self.frames.last_mut()
                    && is_so != when
                {
                    frame.skips = true;
                }
                self.settle(0)
            }
            Deliver::Nowhere => self.settle(0),
            Deliver::Native | Deliver::Caller => Ok(()),
        }
    }

    fn deliver_to(&mut self, to: usize, count: u8) -> Result<(), Raise> {
        let end = to + if count == OPEN { self.results.len() } else { usize::from(count) };
        self.settle(end)?;
        if let Some(places) = self.stack.get_mut(to..end) {
            let known = self.results.len().min(places.len());
            let (filled, rest) = places.split_at_mut(known);
            filled.copy_from_slice(self.results.get(..known).unwrap_or_default());
            rest.fill(Value::Nil);
        }
        if count == OPEN
            && let Some(Frame::Script(frame)) = self.frames.last_mut()
        {
            frame.top = end;
        }
        Ok(())
    }

    /// Gives the stack the length that the last frame needs, and at least `end`.
    fn settle(&mut self, end: usize) -> Result<(), Raise> {
        let Some(Frame::Script(frame)) = self.frames.last() else { return Ok(()) };
        let registers =
            self.linked.unit.functions.get(frame.function as usize).map_or(0, |code| code.registers);
        let length = (frame.base + usize::from(registers)).max(end);
        self.extend(length)
    }

    /// Ends the last frame, which returns the values of a part of the stack.
    ///
    /// # Errors
    ///
    /// Not enough memory.
    pub(crate) fn leave(&mut self, from: usize, count: usize) -> Result<(), Raise> {
        self.charge(count as u64 / 8)?;
        let Some(frame) = self.frames.pop() else { return Ok(()) };
        self.close_cells(frame.place());
        let deliver = match &frame {
            Frame::Script(frame) => frame.deliver,
            Frame::Native(frame) => frame.deliver,
        };
        self.results.clear();
        self.results.extend_from_slice(self.stack.get(from..from + count).unwrap_or_default());
        self.stack.truncate(frame.place());
        self.deliver(deliver)
    }

    /// Ends the last frame, which is native and has put what it returns into `results`.
    ///
    /// # Errors
    ///
    /// Not enough memory.
    pub(crate) fn leave_native(&mut self, place: usize, deliver: Deliver) -> Result<(), Raise> {
        self.frames.pop();
        self.stack.truncate(place);
        self.deliver(deliver)
    }

    /// A call in the place of the function that makes it.
    ///
    /// # Errors
    ///
    /// It is no function, or failed at once.
    pub(crate) fn tail_call(&mut self, place: usize, count: usize) -> Result<bool, Raise> {
        let callee = self.stack.get(place).copied().unwrap_or_default();
        let Value::Closure(id) = callee else {
            self.call(place, count, Deliver::Registers { to: place, count: OPEN })?;
            return Ok(false);
        };
        let Closure::Script { function, .. } = self.heap.closure_of(id) else {
            self.call(place, count, Deliver::Registers { to: place, count: OPEN })?;
            return Ok(false);
        };
        let function = *function;
        let Some(Frame::Script(old)) = self.frames.last() else { return Ok(false) };
        let (to, deliver) = (old.place, old.deliver);
        self.close_cells(to);
        self.stack.copy_within(place..place + 1 + count, to);
        self.stack.truncate(to + 1 + count);
        let mut frame = self.enter(id, function, to, count, deliver)?;
        frame.is_tail = true;
        if let Some(last) = self.frames.last_mut() {
            *last = Frame::Script(frame);
        }
        Ok(true)
    }

    /// The captured variable that is in a place of the stack.
    fn cell_at(&mut self, place: usize) -> Result<CellId, Raise> {
        match self.open_cells.binary_search_by_key(&place, |(place, _)| *place) {
            Ok(found) => Ok(self.open_cells.get(found).map_or(CellId(0), |(_, cell)| *cell)),
            Err(at) => {
                let cell = self.heap.cell(Cell::Open(place))?;
                self.open_cells.insert(at, (place, cell));
                Ok(cell)
            }
        }
    }

    /// Captured variables from a place of the stack on get a place of their own.
    pub(crate) fn close_cells(&mut self, from: usize) {
        while let Some((place, cell)) = self.open_cells.last().copied()
            && place >= from
        {
            let value = self.stack.get(place).copied().unwrap_or_default();
            self.heap.set_cell(cell, Cell::Closed(value));
            self.open_cells.pop();
        }
    }

    /// A closure of a function, made by the one that runs.
    ///
    /// # Errors
    ///
    /// Not enough memory.
    pub(crate) fn close_over(
        &mut self,
        function: u32,
        base: usize,
        parent: ClosureId,
    ) -> Result<Value, Raise> {
        let linked = std::sync::Arc::clone(&self.linked);
        let captures = linked.unit.functions.get(function as usize).map(|code| code.captures.as_slice());
        let mut cells = Vec::with_capacity(captures.map_or(0, <[Capture]>::len));
        for capture in captures.unwrap_or_default() {
            cells.push(match *capture {
                Capture::Register(register) => self.cell_at(base + usize::from(register))?,
                Capture::Upvalue(index) => self.upvalue(parent, index),
            });
        }
        let closure = self.heap.closure(Closure::Script { function, cells: cells.into() })?;
        Ok(Value::Closure(closure))
    }

    /// What a closure has captured.
    pub(crate) fn upvalue(&self, closure: ClosureId, index: u8) -> CellId {
        match self.heap.closure_of(closure) {
            Closure::Script { cells, .. } => cells.get(usize::from(index)).copied().unwrap_or(CellId(0)),
            Closure::Matches { .. } => CellId(0),
        }
    }
}
