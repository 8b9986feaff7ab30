//! Errors on their way: what they say, and who catches them.

use crate::fault::{Fatal, Place, Raise};
use crate::value::Value;

use super::{Deliver, Frame, Machine, NativeFrame, NativeState};

/// An error that ended the run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failed {
    pub message: Vec<u8>,
    pub line: u32,
    pub fatal: Option<Fatal>,
}

impl Machine {
    /// An operand that cannot do what an instruction wants of it.
    pub(crate) fn wrong_operand(&self, action: &'static str, value: Value, slot: u8) -> Raise {
        match value {
            Value::Later(ticket) => Raise::Fatal(Fatal::Looked(ticket)),
            other => Raise::Operand { action, type_name: other.type_name(), slot },
        }
    }

    /// The line where the script is.
    pub(crate) fn line(&self) -> u32 {
        let script = self.frames.iter().rev().find_map(|frame| match frame {
            Frame::Script(frame) => Some(frame),
            Frame::Native(_) => None,
        });
        script
            .and_then(|frame| {
                let function = self.linked.unit.functions.get(frame.function as usize)?;
                Some(function.line(frame.at.saturating_sub(1)))
            })
            .unwrap_or_default()
    }

    /// `user_script:1: ` or `user_function:1: ` for the function so many levels up, from 1; nothing if that is none of the script.
    fn position(&self, level: u32) -> String {
        let mut level = level;
        for frame in self.frames.iter().rev() {
            if level <= 1 {
                let Frame::Script(frame) = frame else { return String::new() };
                let line = self.linked.unit.functions.get(frame.function as usize);
                let line = line.map_or(0, |function| function.line(frame.at.saturating_sub(1)));
                return format!("{}:{line}: ", self.linked.unit.chunk());
            }
            level -= 1;
            // The function whose place it took counts, and is not known.
            if matches!(frame, Frame::Script(frame) if frame.is_tail) {
                if level <= 1 {
                    return String::new();
                }
                level -= 1;
            }
        }
        String::new()
    }

    /// How the instruction that runs calls an operand.
    fn operand_name(&self, slot: u8) -> Option<(&'static str, String)> {
        let Some(Frame::Script(frame)) = self.frames.last() else { return None };
        let function = self.linked.unit.functions.get(frame.function as usize)?;
        let name = function.name(frame.at.checked_sub(1)?, slot)?;
        // A byte 0 ends a name, as on a server.
        let bytes = name.name.split(|byte| *byte == 0).next().unwrap_or_default();
        Some((name.origin.word(), String::from_utf8_lossy(bytes).into_owned()))
    }

    /// What a script sees of an error.
    fn raised(&mut self, raise: Raise) -> Result<Value, Fatal> {
        let message = match raise {
            Raise::Fatal(fatal) => return Err(fatal),
            Raise::Value(value) => return Ok(value),
            Raise::Said { text, level } => {
                // Going up through the calls is work, as is the message itself.
                let levels = u64::from(level).min(self.frames.len() as u64);
                self.meter.left = self.meter.left.saturating_sub_unsigned(levels / 4);
                let mut message = self.position(level).into_bytes();
                message.extend_from_slice(self.heap.bytes(text));
                return self.text_value(&message).map_err(|raise| match raise {
                    Raise::Fatal(fatal) => fatal,
                    _ => Fatal::Memory,
                });
            }
            Raise::Text { message, place: Place::None } => message,
            Raise::Text { message, place: Place::Level(level) } => {
                format!("{}{message}", self.position(level))
            }
            Raise::Text { message, place: Place::Here } => format!("{}{message}", self.position(1)),
            Raise::Operand { action, type_name, slot } => {
                let place = self.position(1);
                match self.operand_name(slot) {
                    Some((kind, name)) => {
                        format!("{place}attempt to {action} {kind} '{name}' (a {type_name} value)")
                    }
                    None => format!("{place}attempt to {action} a {type_name} value"),
                }
            }
            Raise::Argument { index, message } => self.wrong_argument(index, &message),
        };
        match self.heap.text(message.as_bytes()) {
            Ok(text) => Ok(Value::Text(text)),
            Err(_) => Err(Fatal::Memory),
        }
    }

    /// The first argument of a method is its object, and does not count.
    fn wrong_argument(&self, index: usize, message: &str) -> String {
        let place = self.position(1);
        let (kind, name) = self.operand_name(0).unwrap_or(("", "?".to_owned()));
        match index.checked_sub(usize::from(kind == "method")) {
            Some(0) if kind == "method" => format!("{place}calling '{name}' on bad self ({message})"),
            Some(index) => format!("{place}bad argument #{index} to '{name}' ({message})"),
            None => format!("{place}bad argument to '{name}' ({message})"),
        }
    }

    /// Brings an error to who catches it.
    ///
    /// # Errors
    ///
    /// Nobody does.
    pub(super) fn raise(&mut self, raise: Raise) -> Result<(), Failed> {
        let line = self.line();
        let mut raise = raise;
        // Bringing it there may fail again, for want of memory.
        for _ in 0..2 {
            let value = match self.raised(raise) {
                Ok(value) => value,
                Err(fatal) => return Err(Failed { message: Vec::new(), line, fatal: Some(fatal) }),
            };
            match self.catch(value, line)? {
                Ok(()) => return Ok(()),
                Err(again) => raise = again,
            }
        }
        Err(Failed { message: Vec::new(), line, fatal: Some(Fatal::Memory) })
    }

    /// Ends frames until one catches.
    fn catch(&mut self, value: Value, line: u32) -> Result<Result<(), Raise>, Failed> {
        loop {
            let Some(frame) = self.frames.pop() else {
                return Err(Failed { message: self.told(value), line, fatal: None });
            };
            self.close_cells(frame.place());
            self.stack.truncate(frame.place());
            let Frame::Native(frame) = frame else { continue };
            self.heap.give_back(frame.state.held());
            let NativeState::Try { handler, is_handling } = frame.state else { continue };
            return Ok(match handler {
                Some(handler) if !is_handling => self.handle(handler, value, frame.place, frame.deliver),
                _ => {
                    let caught = if is_handling {
                        self.heap.text(b"error in error handling").map(Value::Text)
                    } else {
                        Ok(self.without_table(value))
                    };
                    caught.and_then(|caught| {
                        self.results.clear();
                        self.results.extend([Value::Bool(false), caught]);
                        self.deliver(frame.deliver)
                    })
                }
            });
        }
    }

    fn handle(&mut self, handler: Value, value: Value, place: usize, deliver: Deliver) -> Result<(), Raise> {
        let state = NativeState::Try { handler: Some(handler), is_handling: true };
        self.push_frame(Frame::Native(NativeFrame { state, place, deliver }))?;
        self.call_values(handler, &[value], Deliver::Native)
    }

    /// What `pcall` answers of an error: of a table with a message, the message.
    fn without_table(&mut self, value: Value) -> Value {
        match self.field(value, b"err") {
            text @ Value::Text(_) => text,
            _ => value,
        }
    }

    /// A field of a table, without its metatable.
    pub(crate) fn field(&mut self, value: Value, name: &[u8]) -> Value {
        let Value::Table(id) = value else { return Value::Nil };
        match self.heap.text(name) {
            Ok(name) => self.heap.of(id).get(Value::Text(name)),
            Err(_) => Value::Nil,
        }
    }

    /// The message of an error that nobody catches, with its code.
    fn told(&mut self, value: Value) -> Vec<u8> {
        if let Value::Table(_) = value {
            return match self.field(value, b"err") {
                Value::Text(text) => self.heap.bytes(text).to_vec(),
                Value::Number(number) => crate::number::to_text(number).into_bytes(),
                _ => b"ERR unknown error".to_vec(),
            };
        }
        let mut message = b"ERR ".to_vec();
        message.extend(self.shown(value));
        message
    }
}

impl Machine {
    /// Brings an error of a command to who catches it.
    ///
    /// # Errors
    ///
    /// Nobody does.
    pub(crate) fn raise_answer(&mut self, raise: Raise) -> Result<(), Failed> {
        self.raise(raise)
    }
}
