//! Native functions that wait for functions of the script.

use crate::fault::{Fatal, Place, Raise};
use crate::value::Value;

use super::{Deliver, Frame, Machine, NativeState, Visit};

impl NativeState {
    /// What it holds in memory besides the heap's objects.
    pub(super) fn held(&self) -> u64 {
        match self {
            NativeState::Sort(sort) => sort.held(),
            NativeState::Substitute(substitution) => substitution.held(),
            _ => 0,
        }
    }
}

impl Machine {
    /// Goes on with the native function of the last frame: what it waited for is in `results`.
    ///
    /// # Errors
    ///
    /// What the native function raises, which then has ended, or what it calls.
    pub(super) fn step_native(&mut self) -> Result<(), Raise> {
        let Err(raise) = self.step_busy() else { return Ok(()) };
        if let Some(Frame::Native(frame)) = self.frames.last()
            && matches!(frame.state, NativeState::Busy)
        {
            self.stack.truncate(frame.place);
            self.frames.pop();
            if let Raise::Text { message, place: Place::Here } = raise {
                return Err(Raise::Text { message, place: Place::None });
            }
        }
        Err(raise)
    }

    fn step_busy(&mut self) -> Result<(), Raise> {
        let Some(Frame::Native(frame)) = self.frames.last_mut() else { return Ok(()) };
        let (place, deliver) = (frame.place, frame.deliver);
        self.meter.left -= 1;
        match std::mem::replace(&mut frame.state, NativeState::Busy) {
            NativeState::Try { is_handling, .. } => {
                if is_handling {
                    self.results.truncate(1);
                    self.results.resize(1, Value::Nil);
                }
                self.results.insert(0, Value::Bool(!is_handling));
                self.leave_native(place, deliver)
            }
            NativeState::Text => {
                let text = self.results.first().copied().unwrap_or_default();
                self.looked(text)?;
                self.results.truncate(1);
                self.results.resize(1, Value::Nil);
                self.leave_native(place, deliver)
            }
            NativeState::Concat { first, left } => self.step_concat(first, left, place, deliver),
            NativeState::Sort(sort) => self.step_sort(sort, place, deliver),
            NativeState::Substitute(substitution) => self.step_substitution(substitution, place, deliver),
            NativeState::Visit { table, function, visit, is_first } => {
                let answer = self.results.first().copied().unwrap_or_default();
                if !is_first && !answer.is_nil() {
                    self.results.truncate(1);
                    return self.leave_native(place, deliver);
                }
                self.step_visit(Value::Table(table), function, visit, place, deliver)
            }
            NativeState::Busy => Err(Raise::Fatal(Fatal::Program("a native function"))),
        }
    }

    /// Puts the state of the last frame back.
    pub(super) fn keep(&mut self, kept: NativeState) {
        if let Some(Frame::Native(frame)) = self.frames.last_mut() {
            frame.state = kept;
        }
    }

    fn step_concat(
        &mut self,
        first: usize,
        left: usize,
        place: usize,
        deliver: Deliver,
    ) -> Result<(), Raise> {
        let joined = self.results.first().copied().unwrap_or_default();
        self.put((first + left).saturating_sub(2), joined);
        let left = self.fold(first, left.saturating_sub(1))?;
        if left > 1 {
            self.keep(NativeState::Concat { first, left });
            return self.call_concat(first, left);
        }
        self.results.clear();
        self.results.push(self.get(first));
        self.leave_native(place, deliver)
    }

    fn step_visit(
        &mut self,
        table: Value,
        function: Value,
        visit: Visit,
        place: usize,
        deliver: Deliver,
    ) -> Result<(), Raise> {
        let Value::Table(id) = table else { return Ok(()) };
        let (entry, visit) = match visit {
            Visit::All(key) => {
                let Some((entry, looked)) = self.heap.of(id).next(key) else {
                    return Err(Raise::text("invalid key to 'next'"));
                };
                self.charge(looked as u64)?;
                (entry, Visit::All(entry.map(|(key, _)| key).unwrap_or_default()))
            }
            Visit::Elements(index, last) => {
                let index = index + 1;
                let entry =
                    (index <= last).then(|| (Value::Number(index as f64), self.heap.of(id).at(index)));
                (entry, Visit::Elements(index, last))
            }
        };
        let Some((key, value)) = entry else {
            self.results.clear();
            return self.leave_native(place, deliver);
        };
        self.keep(NativeState::Visit { table: id, function, visit, is_first: false });
        self.call_values(function, &[key, value], Deliver::Native)
    }
}
