//! What commands answer, as values of a script, and what a script returns, as an answer.

use crate::fault::{Fatal, Raise};
use crate::machine::Machine;
use crate::number;
use crate::value::{TableId, TextId, Value};

/// Tables in each other that an answer may have.
const DEPTH_MAX: usize = 200;

/// What an element of an answer takes, for the count of memory.
const ELEMENT_BYTES: u64 = 48;

/// An answer, of a command or of a script.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Nothing.
    Nil,
    /// A number.
    Int(i64),
    /// A status, such as `OK`.
    Status(Vec<u8>),
    /// An error with its code in front.
    Error(Vec<u8>),
    /// A string.
    Bulk(Vec<u8>),
    /// Several answers.
    Array(Vec<Answer>),
    /// Pairs (RESP3).
    Map(Vec<(Answer, Answer)>),
    /// A set (RESP3).
    Set(Vec<Answer>),
    /// A floating-point number (RESP3).
    Double(f64),
    /// True or false (RESP3).
    Bool(bool),
    /// A number of any size (RESP3).
    BigNumber(Vec<u8>),
    /// A text with its format (RESP3).
    Verbatim {
        /// Three letters, such as `txt`.
        format: [u8; 3],
        /// The text.
        text: Vec<u8>,
    },
    /// Nothing (RESP3).
    Null3,
    /// What a command will answer when the script has ended; the number is the host's.
    Later(u32),
}

impl Machine {
    /// An answer of a command as a value of the script.
    ///
    /// # Errors
    ///
    /// Not enough memory, or more answers in each other than there may be.
    pub(crate) fn value_of(&mut self, answer: Answer, depth: usize) -> Result<Value, Raise> {
        if depth > DEPTH_MAX {
            return Err(Raise::called("an answer nests too deep"));
        }
        self.charge(1)?;
        let is_new = self.redis.resp >= 3;
        Ok(match answer {
            Answer::Nil | Answer::Null3 => {
                if is_new {
                    Value::Nil
                } else {
                    Value::Bool(false)
                }
            }
            Answer::Int(number) => Value::Number(number as f64),
            Answer::Bulk(text) => self.text_value(&text)?,
            Answer::Status(text) => self.tagged(b"ok", &text)?,
            Answer::Error(text) => self.error_value(&text)?,
            Answer::Array(answers) => self.list_of(answers, depth)?,
            Answer::Later(ticket) => Value::Later(ticket),
            Answer::Map(pairs) if is_new => {
                let inner = self.heap.table(0, pairs.len())?;
                for (key, value) in pairs {
                    let key = self.value_of(key, depth + 1)?;
                    let value = self.value_of(value, depth + 1)?;
                    self.heap.set(inner, key, value)?;
                }
                self.wrapped(b"map", Value::Table(inner))?
            }
            Answer::Map(pairs) => {
                let flat = pairs.into_iter().flat_map(|(key, value)| [key, value]).collect();
                self.list_of(flat, depth)?
            }
            Answer::Set(answers) if is_new => {
                let inner = self.heap.table(0, answers.len())?;
                for answer in answers {
                    let key = self.value_of(answer, depth + 1)?;
                    self.heap.set(inner, key, Value::Bool(true))?;
                }
                self.wrapped(b"set", Value::Table(inner))?
            }
            Answer::Set(answers) => self.list_of(answers, depth)?,
            Answer::Double(number) if is_new => self.wrapped(b"double", Value::Number(number))?,
            Answer::Double(number) => self.text_value(number::general(number, 17).as_bytes())?,
            Answer::Bool(bool) if is_new => Value::Bool(bool),
            Answer::Bool(bool) => Value::Number(f64::from(u8::from(bool))),
            Answer::BigNumber(text) if is_new => self.tagged(b"big_number", &text)?,
            Answer::BigNumber(text) | Answer::Verbatim { text, .. } if !is_new => self.text_value(&text)?,
            Answer::Verbatim { format, text } => {
                let inner = self.heap.table(0, 2)?;
                for (name, value) in [(b"format".as_slice(), format.as_slice()), (b"string", &text)] {
                    let (name, value) = (self.text_value(name)?, self.text_value(value)?);
                    self.heap.set(inner, name, value)?;
                }
                self.wrapped(b"verbatim_string", Value::Table(inner))?
            }
            Answer::BigNumber(text) => self.text_value(&text)?,
        })
    }

    /// A string.
    ///
    /// # Errors
    ///
    /// Not enough memory.
    pub(crate) fn text_value(&mut self, bytes: &[u8]) -> Result<Value, Raise> {
        self.charge_bytes(bytes.len())?;
        self.heap.text(bytes).map(Value::Text)
    }

    /// A table with one field, a string.
    ///
    /// # Errors
    ///
    /// Not enough memory.
    pub(crate) fn tagged(&mut self, name: &[u8], text: &[u8]) -> Result<Value, Raise> {
        let text = self.text_value(text)?;
        self.wrapped(name, text)
    }

    /// The table that an error of a command is.
    ///
    /// # Errors
    ///
    /// Not enough memory.
    pub(crate) fn error_value(&mut self, text: &[u8]) -> Result<Value, Raise> {
        let error = self.tagged(b"err", text)?;
        let name = self.text_value(b"ignore_error_stats_update")?;
        self.set_raw(error, name, Value::Bool(true))?;
        Ok(error)
    }

    fn wrapped(&mut self, name: &[u8], value: Value) -> Result<Value, Raise> {
        let name = self.text_value(name)?;
        let table = self.heap.table(0, 1)?;
        self.heap.set(table, name, value)?;
        Ok(Value::Table(table))
    }

    fn list_of(&mut self, answers: Vec<Answer>, depth: usize) -> Result<Value, Raise> {
        let table = self.heap.table(answers.len(), 0)?;
        for (at, answer) in answers.into_iter().enumerate() {
            let value = self.value_of(answer, depth + 1)?;
            self.heap.element(table, Value::Number((at + 1) as f64), value)?;
        }
        Ok(Value::Table(table))
    }

    /// What the script returns, as an answer.
    ///
    /// # Errors
    ///
    /// It is larger than what may be had.
    pub(crate) fn answer_of(&mut self, value: Value, depth: usize) -> Result<Answer, Raise> {
        self.heap.take(ELEMENT_BYTES)?;
        self.charge(1)?;
        Ok(match value {
            Value::Text(text) => Answer::Bulk(self.copied(text)?),
            Value::Number(number) => Answer::Int(number::signed(number)),
            Value::Bool(bool) if self.redis.resp >= 3 => Answer::Bool(bool),
            Value::Bool(true) => Answer::Int(1),
            Value::Later(ticket) => Answer::Later(ticket),
            Value::Table(table) if depth >= DEPTH_MAX => {
                let _ = table;
                Answer::Error(b"ERR reached lua stack limit".to_vec())
            }
            Value::Table(table) => self.answer_of_table(table, depth)?,
            Value::Bool(false) | Value::Nil | Value::Null | Value::Closure(_) | Value::Native(_) => {
                Answer::Nil
            }
        })
    }

    /// A copy of a string, which counts.
    fn copied(&mut self, text: TextId) -> Result<Vec<u8>, Raise> {
        let length = self.heap.bytes(text).len();
        self.heap.take(length as u64)?;
        self.charge_bytes(length)?;
        Ok(self.heap.bytes(text).to_vec())
    }

    fn answer_of_table(&mut self, table: TableId, depth: usize) -> Result<Answer, Raise> {
        let value = Value::Table(table);
        if let Value::Text(text) = self.field(value, b"err") {
            return Ok(Answer::Error(one_line(self.copied(text)?)));
        }
        if let Value::Text(text) = self.field(value, b"ok") {
            return Ok(Answer::Status(one_line(self.copied(text)?)));
        }
        if let Value::Number(number) = self.field(value, b"double") {
            return Ok(Answer::Double(number));
        }
        if let Value::Table(inner) = self.field(value, b"map") {
            return self.pairs_of(inner, depth).map(Answer::Map);
        }
        if let Value::Table(inner) = self.field(value, b"set") {
            let pairs = self.pairs_of(inner, depth)?;
            return Ok(Answer::Set(pairs.into_iter().map(|(key, _)| key).collect()));
        }
        if let Value::Text(text) = self.field(value, b"big_number") {
            return Ok(Answer::BigNumber(one_line(self.copied(text)?)));
        }
        let verbatim = self.field(value, b"verbatim_string");
        if let (Value::Text(format), Value::Text(text)) =
            (self.field(verbatim, b"format"), self.field(verbatim, b"string"))
        {
            let mut letters = [b' '; 3];
            for (letter, byte) in letters.iter_mut().zip(self.heap.bytes(format)) {
                *letter = *byte;
            }
            return Ok(Answer::Verbatim { format: letters, text: self.copied(text)? });
        }
        let mut answers = Vec::new();
        loop {
            let element = self.heap.of(table).at(answers.len() + 1);
            if element.is_nil() {
                return Ok(Answer::Array(answers));
            }
            answers.push(self.answer_of(element, depth + 1)?);
        }
    }

    fn pairs_of(&mut self, table: TableId, depth: usize) -> Result<Vec<(Answer, Answer)>, Raise> {
        let mut pairs = Vec::new();
        let mut key = Value::Nil;
        while let Some((Some((next, value)), looked)) = self.heap.of(table).next(key) {
            self.charge(looked as u64)?;
            pairs.push((self.answer_of(next, depth + 1)?, self.answer_of(value, depth + 1)?));
            key = next;
        }
        if self.heap.left() == 0 { Err(Raise::Fatal(Fatal::Memory)) } else { Ok(pairs) }
    }
}

/// A status and an error are one line.
fn one_line(mut text: Vec<u8>) -> Vec<u8> {
    text.iter_mut().filter(|byte| matches!(byte, b'\r' | b'\n')).for_each(|byte| *byte = b' ');
    text
}
