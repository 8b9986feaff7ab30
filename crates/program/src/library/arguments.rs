//! Arguments of native functions: what they must be, and what is said if they are not.

use crate::fault::{Fatal, Raise};
use crate::machine::{Deliver, Machine, Replied};
use crate::number;
use crate::value::{TableId, TextId, Value};

/// The arguments of a call, on the stack of the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arguments {
    pub place: usize,
    pub count: usize,
    /// What becomes of the results.
    pub deliver: Deliver,
}

impl Machine {
    /// An argument, from 1. Nil if it is not given.
    pub(crate) fn given(&self, given: Arguments, index: usize) -> Value {
        if index > given.count {
            return Value::Nil;
        }
        self.stack.get(given.place + index - 1).copied().unwrap_or_default()
    }

    /// All arguments from one on.
    pub(crate) fn all_given(&self, given: Arguments, from: usize) -> Vec<Value> {
        (from..=given.count).map(|index| self.given(given, index)).collect()
    }

    /// That an argument is of another type.
    pub(crate) fn wrong_type(&self, given: Arguments, index: usize, expected: &str) -> Raise {
        match self.given(given, index) {
            Value::Later(ticket) => Raise::Fatal(Fatal::Looked(ticket)),
            value => {
                let found = if index > given.count { "no value" } else { value.type_name() };
                Raise::argument(index, format!("{expected} expected, got {found}"))
            }
        }
    }

    /// An argument of any kind that must be given.
    ///
    /// # Errors
    ///
    /// It is not given.
    pub(crate) fn any_given(&self, given: Arguments, index: usize) -> Result<Value, Raise> {
        if index > given.count {
            return Err(Raise::argument(index, "value expected"));
        }
        Ok(self.given(given, index))
    }

    /// An argument that must be a string, or a number.
    ///
    /// # Errors
    ///
    /// It is neither.
    pub(crate) fn text_given(&mut self, given: Arguments, index: usize) -> Result<TextId, Raise> {
        match self.text_in(self.given(given, index))? {
            Some(text) => Ok(text),
            None => Err(self.wrong_type(given, index, "string")),
        }
    }

    /// An argument that must be a number, or a string that is one.
    ///
    /// # Errors
    ///
    /// It is neither.
    pub(crate) fn number_given(&mut self, given: Arguments, index: usize) -> Result<f64, Raise> {
        match self.number_in(self.given(given, index)) {
            Some(number) => Ok(number),
            None => Err(self.wrong_type(given, index, "number")),
        }
    }

    /// A number as an integer, as C casts it.
    ///
    /// # Errors
    ///
    /// It is no number.
    pub(crate) fn integer_given(&mut self, given: Arguments, index: usize) -> Result<i64, Raise> {
        self.number_given(given, index).map(number::signed)
    }

    /// An integer that need not be given.
    ///
    /// # Errors
    ///
    /// It is given and no number.
    pub(crate) fn integer_or(&mut self, given: Arguments, index: usize, default: i64) -> Result<i64, Raise> {
        if self.given(given, index).is_nil() { Ok(default) } else { self.integer_given(given, index) }
    }

    /// An argument that must be a table.
    ///
    /// # Errors
    ///
    /// It is none.
    pub(crate) fn table_given(&self, given: Arguments, index: usize) -> Result<TableId, Raise> {
        match self.given(given, index) {
            Value::Table(table) => Ok(table),
            _ => Err(self.wrong_type(given, index, "table")),
        }
    }

    /// An argument that must be a function.
    ///
    /// # Errors
    ///
    /// It is none.
    pub(crate) fn function_given(&self, given: Arguments, index: usize) -> Result<Value, Raise> {
        match self.given(given, index) {
            value @ (Value::Closure(_) | Value::Native(_)) => Ok(value),
            _ => Err(self.wrong_type(given, index, "function")),
        }
    }

    /// The function answers one value.
    pub(crate) fn one_result(&mut self, value: Value) -> Result<Replied, Raise> {
        self.results.push(value);
        Ok(Replied::Now)
    }

    /// The function answers a string.
    ///
    /// # Errors
    ///
    /// Not enough memory.
    pub(crate) fn text_result(&mut self, bytes: &[u8]) -> Result<Replied, Raise> {
        let value = self.text_value(bytes)?;
        self.one_result(value)
    }

    /// A value as `tostring` shows it, without metamethods.
    pub(crate) fn shown(&self, value: Value) -> Vec<u8> {
        match value {
            Value::Nil => b"nil".to_vec(),
            Value::Null => b"userdata: (nil)".to_vec(),
            Value::Bool(bool) => bool.to_string().into_bytes(),
            Value::Number(number) => number::to_text(number).into_bytes(),
            Value::Text(text) => self.heap.bytes(text).to_vec(),
            Value::Table(id) => {
                format!("table: 0x{:012x}", 0x5500_0000_0000_u64 + u64::from(id.0) * 64).into_bytes()
            }
            Value::Closure(id) => {
                format!("function: 0x{:012x}", 0x5600_0000_0000_u64 + u64::from(id.0) * 64).into_bytes()
            }
            Value::Native(native) => format!("function: builtin: {native:?}").into_bytes(),
            Value::Later(_) => b"userdata".to_vec(),
        }
    }
}
