//! Arithmetic, comparisons, lengths.

use crate::fault::{Fatal, Raise};
use crate::number;
use crate::value::{TextId, Value};

use super::script::Flow;
use super::{Deliver, Event, Machine};

impl Machine {
    /// A value as a number: strings that are numbers count. Reading one costs as much as it is long.
    pub(crate) fn number_in(&mut self, value: Value) -> Option<f64> {
        match value {
            Value::Number(number) => Some(number),
            Value::Text(text) => {
                let bytes = self.heap.bytes(text);
                self.meter.left = self.meter.left.saturating_sub_unsigned(1 + bytes.len() as u64 / 4);
                number::from_text(bytes)
            }
            _ => None,
        }
    }

    /// A value as a string: numbers count.
    ///
    /// # Errors
    ///
    /// Not enough memory.
    pub(crate) fn text_in(&mut self, value: Value) -> Result<Option<TextId>, Raise> {
        match value {
            Value::Text(text) => Ok(Some(text)),
            Value::Number(number) => self.heap.text(number::to_text(number).as_bytes()).map(Some),
            _ => Ok(None),
        }
    }

    #[inline]
    pub(super) fn arithmetic(
        &mut self,
        event: Event,
        left: Value,
        right: Value,
        to: usize,
    ) -> Result<Flow, Raise> {
        if let (Value::Number(left), Value::Number(right)) = (left, right) {
            self.put(to, Value::Number(compute(event, left, right)));
            return Ok(Flow::Next);
        }
        self.looked(left)?;
        self.looked(right)?;
        if let (Some(left), Some(right)) = (self.number_in(left), self.number_in(right)) {
            self.put(to, Value::Number(compute(event, left, right)));
            return Ok(Flow::Next);
        }
        let handler = self.either(left, right, event);
        if handler.is_nil() {
            let (wrong, slot) = if self.number_in(left).is_none() { (left, 0) } else { (right, 1) };
            return Err(self.wrong_operand("perform arithmetic on", wrong, slot));
        }
        self.call_values(handler, &[left, right], Deliver::Registers { to, count: 1 })?;
        Ok(Flow::Away)
    }

    /// What the metatable of either says.
    pub(super) fn either(&self, left: Value, right: Value, event: Event) -> Value {
        match self.metamethod(left, event) {
            Value::Nil => self.metamethod(right, event),
            handler => handler,
        }
    }

    pub(super) fn negate(&mut self, value: Value, to: usize) -> Result<Flow, Raise> {
        self.looked(value)?;
        if let Some(number) = self.number_in(value) {
            self.put(to, Value::Number(-number));
            return Ok(Flow::Next);
        }
        let handler = self.metamethod(value, Event::Negate);
        if handler.is_nil() {
            return Err(self.wrong_operand("perform arithmetic on", value, 0));
        }
        self.call_values(handler, &[value, value], Deliver::Registers { to, count: 1 })?;
        Ok(Flow::Away)
    }

    pub(super) fn length(&mut self, value: Value, to: usize) -> Result<Flow, Raise> {
        let length = match value {
            Value::Text(text) => self.heap.bytes(text).len(),
            Value::Table(table) => self.heap.of(table).border(),
            other => {
                self.looked(other)?;
                return Err(self.wrong_operand("get length of", other, 0));
            }
        };
        self.put(to, Value::Number(length as f64));
        Ok(Flow::Next)
    }

    pub(super) fn equal(&mut self, left: Value, right: Value, when: bool) -> Result<Flow, Raise> {
        self.looked(left)?;
        self.looked(right)?;
        if left != right
            && let (Value::Table(_), Value::Table(_)) = (left, right)
        {
            let handler = self.metamethod(left, Event::Equal);
            if !handler.is_nil() && handler == self.metamethod(right, Event::Equal) {
                self.call_values(handler, &[left, right], Deliver::Compare { when })?;
                return Ok(Flow::Away);
            }
        }
        Ok(decided(left == right, when))
    }

    /// Whether the first is less, if that needs no function of the script.
    pub(super) fn less_plain(&mut self, left: Value, right: Value) -> Result<Option<bool>, Raise> {
        match (left, right) {
            (Value::Number(left), Value::Number(right)) => Ok(Some(left < right)),
            (Value::Text(left), Value::Text(right)) => {
                let (left, right) = (self.heap.bytes(left), self.heap.bytes(right));
                let (is_less, length) = (left < right, left.len().min(right.len()));
                self.charge_bytes(length)?;
                Ok(Some(is_less))
            }
            _ => {
                self.looked(left)?;
                self.looked(right)?;
                Ok(None)
            }
        }
    }

    /// The function of two metatables that decides a comparison. Both must have the same.
    pub(super) fn order(&self, left: Value, right: Value, event: Event) -> Value {
        if left.type_name() != right.type_name() {
            return Value::Nil;
        }
        match self.metamethod(left, event) {
            handler if handler == self.metamethod(right, event) => handler,
            _ => Value::Nil,
        }
    }

    pub(super) fn less(&mut self, left: Value, right: Value, when: bool) -> Result<Flow, Raise> {
        if let Some(is_less) = self.less_plain(left, right)? {
            return Ok(decided(is_less, when));
        }
        let handler = self.order(left, right, Event::Less);
        if handler.is_nil() {
            return Err(wrong_order(left, right));
        }
        self.call_values(handler, &[left, right], Deliver::Compare { when })?;
        Ok(Flow::Away)
    }

    pub(super) fn less_equal(&mut self, left: Value, right: Value, when: bool) -> Result<Flow, Raise> {
        if let (Value::Number(left), Value::Number(right)) = (left, right) {
            return Ok(decided(left <= right, when));
        }
        if let (Value::Text(_), Value::Text(_)) = (left, right) {
            let is_more = self.less_plain(right, left)?.unwrap_or_default();
            return Ok(decided(!is_more, when));
        }
        self.looked(left)?;
        self.looked(right)?;
        let handler = self.order(left, right, Event::LessEqual);
        if !handler.is_nil() {
            self.call_values(handler, &[left, right], Deliver::Compare { when })?;
            return Ok(Flow::Away);
        }
        let handler = self.order(right, left, Event::Less);
        if handler.is_nil() {
            return Err(wrong_order(left, right));
        }
        self.call_values(handler, &[right, left], Deliver::Compare { when: !when })?;
        Ok(Flow::Away)
    }
}

fn decided(is_so: bool, when: bool) -> Flow {
    if is_so == when { Flow::Next } else { Flow::Skip }
}

/// Values that have no order.
pub(super) fn wrong_order(left: Value, right: Value) -> Raise {
    for value in [left, right] {
        if let Value::Later(ticket) = value {
            return Raise::Fatal(Fatal::Looked(ticket));
        }
    }
    let (left, right) = (left.type_name(), right.type_name());
    if left == right {
        return Raise::text(format!("attempt to compare two {left} values"));
    }
    Raise::text(format!("attempt to compare {left} with {right}"))
}

#[inline]
fn compute(event: Event, left: f64, right: f64) -> f64 {
    match event {
        Event::Add => left + right,
        Event::Subtract => left - right,
        Event::Multiply => left * right,
        Event::Divide => left / right,
        Event::Modulo => left - (left / right).floor() * right,
        _ => left.powf(right),
    }
}
