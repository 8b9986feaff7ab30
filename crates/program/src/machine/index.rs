//! Reading and writing keys, with what metatables say.

use crate::fault::{Fatal, Raise};
use crate::value::Value;

use super::script::Flow;
use super::{Deliver, Event, Machine};

/// Metatables that name each other at most.
const CHAIN_MAX: usize = 100;

impl Machine {
    /// Refuses a value that is not known yet.
    ///
    /// # Errors
    ///
    /// It is such a value. No script catches that.
    #[inline]
    pub(crate) fn looked(&self, value: Value) -> Result<(), Raise> {
        match value {
            Value::Later(ticket) => Err(Raise::Fatal(Fatal::Looked(ticket))),
            _ => Ok(()),
        }
    }

    /// Reads a key to a place of the stack.
    pub(super) fn index(&mut self, object: Value, key: Value, to: usize) -> Result<Flow, Raise> {
        self.looked(key)?;
        let mut object = object;
        for chain in 0..CHAIN_MAX {
            let handler = match object {
                Value::Table(id) => {
                    let value = self.heap.of(id).get(key);
                    let handler =
                        if value.is_nil() { self.metamethod(object, Event::Index) } else { Value::Nil };
                    if handler.is_nil() {
                        if value.is_nil() && id == self.globals {
                            return Err(self.no_global(key));
                        }
                        self.put(to, value);
                        return Ok(Flow::Next);
                    }
                    handler
                }
                other => {
                    self.looked(other)?;
                    let handler = self.metamethod(other, Event::Index);
                    if handler.is_nil() {
                        return Err(self.wrong_operand("index", other, if chain == 0 { 0 } else { u8::MAX }));
                    }
                    handler
                }
            };
            if matches!(handler, Value::Closure(_) | Value::Native(_)) {
                self.call_values(handler, &[object, key], Deliver::Registers { to, count: 1 })?;
                return Ok(Flow::Away);
            }
            self.charge(1)?;
            object = handler;
        }
        Err(Raise::text("loop in gettable"))
    }

    pub(super) fn get_global(&mut self, name: Value, to: usize) -> Result<Flow, Raise> {
        let value = self.heap.of(self.globals).get(name);
        if value.is_nil() {
            return Err(self.no_global(name));
        }
        self.put(to, value);
        Ok(Flow::Next)
    }

    fn no_global(&self, name: Value) -> Raise {
        let name = match name {
            Value::Text(id) => String::from_utf8_lossy(self.heap.bytes(id)).into_owned(),
            Value::Number(number) => crate::number::to_text(number),
            _ => "(null)".to_owned(),
        };
        Raise::text(format!("Script attempted to access nonexistent global variable '{name}'"))
    }

    /// Writes a key.
    pub(super) fn set_index(&mut self, object: Value, key: Value, value: Value) -> Result<Flow, Raise> {
        self.looked(key)?;
        let mut object = object;
        for chain in 0..CHAIN_MAX {
            let handler = match object {
                Value::Table(id) => {
                    let table = self.heap.of(id);
                    let handler = if table.metatable.is_some() && table.get(key).is_nil() {
                        self.metamethod(object, Event::NewIndex)
                    } else {
                        Value::Nil
                    };
                    if handler.is_nil() {
                        self.set_raw(object, key, value)?;
                        return Ok(Flow::Next);
                    }
                    handler
                }
                other => {
                    self.looked(other)?;
                    let handler = self.metamethod(other, Event::NewIndex);
                    if handler.is_nil() {
                        return Err(self.wrong_operand("index", other, if chain == 0 { 0 } else { u8::MAX }));
                    }
                    handler
                }
            };
            if matches!(handler, Value::Closure(_) | Value::Native(_)) {
                self.call_values(handler, &[object, key, value], Deliver::Nowhere)?;
                return Ok(Flow::Away);
            }
            self.charge(1)?;
            object = handler;
        }
        Err(Raise::text("loop in settable"))
    }

    /// Writes a key of a table without asking its metatable.
    ///
    /// # Errors
    ///
    /// The table is protected, or there is no such key, or no memory.
    pub(crate) fn set_raw(&mut self, table: Value, key: Value, value: Value) -> Result<(), Raise> {
        self.looked(key)?;
        let Value::Table(id) = table else { return Err(Raise::Fatal(Fatal::Program("no table"))) };
        if self.heap.of(id).is_readonly {
            return Err(Raise::text("Attempt to modify a readonly table"));
        }
        self.heap.set(id, key, value)
    }
}
