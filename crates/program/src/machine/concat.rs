//! Concatenation of several parts at once.

use crate::fault::Raise;
use crate::number;
use crate::value::Value;

use super::script::Flow;
use super::{Deliver, Event, Frame, Machine, NativeFrame, NativeState};

impl Machine {
    /// Joins the parts from `first` on and puts the result `to`.
    pub(super) fn concat(&mut self, first: usize, count: usize, to: usize) -> Result<Flow, Raise> {
        if let Some(joined) = self.join(first, count)? {
            self.put(to, joined);
            return Ok(Flow::Next);
        }
        // A part has a function for it: the last two are joined first, as often as it takes.
        let place = self.stack.len();
        let frame = NativeFrame {
            state: NativeState::Concat { first, left: count },
            place,
            deliver: Deliver::Registers { to, count: 1 },
        };
        self.join_last(first, count)?;
        let left = self.fold(first, count)?;
        if left == 1 {
            let joined = self.get(first);
            self.put(to, joined);
            return Ok(Flow::Next);
        }
        self.push_frame(Frame::Native(NativeFrame { state: NativeState::Concat { first, left }, ..frame }))?;
        self.call_concat(first, left)?;
        Ok(Flow::Away)
    }

    /// All parts in one string, if all are strings and numbers.
    fn join(&mut self, first: usize, count: usize) -> Result<Option<Value>, Raise> {
        let mut length = 0usize;
        for place in first..first + count {
            length = length.saturating_add(match self.get(place) {
                Value::Text(text) => self.heap.bytes(text).len(),
                Value::Number(_) => 24,
                other => {
                    self.looked(other)?;
                    return Ok(None);
                }
            });
        }
        self.charge_bytes(length)?;
        if length as u64 > self.heap.left() {
            return Err(Raise::Fatal(crate::fault::Fatal::Memory));
        }
        let mut joined = Vec::with_capacity(length);
        for place in first..first + count {
            match self.get(place) {
                Value::Text(text) => joined.extend_from_slice(self.heap.bytes(text)),
                Value::Number(number) => joined.extend_from_slice(number::to_text(number).as_bytes()),
                _ => {}
            }
        }
        Ok(Some(Value::Text(self.heap.text(&joined)?)))
    }

    /// Refuses parts that can be joined in no way, beginning at the end as the joining does.
    fn join_last(&mut self, first: usize, count: usize) -> Result<(), Raise> {
        for place in first..first + count {
            let value = self.get(place);
            self.looked(value)?;
        }
        Ok(())
    }

    /// Joins plain parts from the end on, until two need a function. Answers how many are left.
    pub(super) fn fold(&mut self, first: usize, count: usize) -> Result<usize, Raise> {
        let mut left = count;
        while left > 1 {
            let last = first + left - 1;
            let Some(joined) = self.join(last - 1, 2)? else { break };
            self.put(last - 1, joined);
            left -= 1;
        }
        Ok(left)
    }

    /// Calls the function that joins the last two parts.
    pub(super) fn call_concat(&mut self, first: usize, left: usize) -> Result<(), Raise> {
        let last = first + left.saturating_sub(1);
        let (one, two) = (self.get(last.saturating_sub(1)), self.get(last));
        let handler = self.either(one, two, Event::Concat);
        if handler.is_nil() {
            let is_one = !matches!(one, Value::Text(_) | Value::Number(_));
            let (wrong, slot) = if is_one { (one, left.saturating_sub(2)) } else { (two, left - 1) };
            if let Some(Frame::Native(_)) = self.frames.last() {
                self.frames.pop();
            }
            return Err(self.wrong_operand("concatenate", wrong, u8::try_from(slot).unwrap_or(u8::MAX)));
        }
        self.call_values(handler, &[one, two], Deliver::Native)
    }
}
