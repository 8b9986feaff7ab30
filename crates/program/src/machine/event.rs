//! Names of metamethods, as strings of the heap.

use crate::fault::Raise;
use crate::heap::Heap;
use crate::value::{TextId, Value};

use super::Machine;

/// What a metatable may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Index,
    NewIndex,
    Call,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Power,
    Negate,
    Concat,
    Equal,
    Less,
    LessEqual,
    Text,
    Metatable,
}

const NAMES: [&[u8]; 16] = [
    b"__index",
    b"__newindex",
    b"__call",
    b"__add",
    b"__sub",
    b"__mul",
    b"__div",
    b"__mod",
    b"__pow",
    b"__unm",
    b"__concat",
    b"__eq",
    b"__lt",
    b"__le",
    b"__tostring",
    b"__metatable",
];

/// The names in the heap.
#[derive(Debug)]
pub(crate) struct Events([TextId; NAMES.len()]);

impl Events {
    /// Makes the names.
    ///
    /// # Errors
    ///
    /// Not enough memory.
    pub(crate) fn new(heap: &mut Heap) -> Result<Events, Raise> {
        let mut names = [TextId(0); NAMES.len()];
        for (id, name) in names.iter_mut().zip(NAMES) {
            *id = heap.text(name)?;
        }
        Ok(Events(names))
    }

    /// The names, as values.
    pub(crate) fn each(&self, mut mark: impl FnMut(Value)) {
        for id in self.0 {
            mark(Value::Text(id));
        }
    }

    fn name(&self, event: Event) -> Value {
        self.0.get(event as usize).map_or(Value::Nil, |id| Value::Text(*id))
    }
}

impl Machine {
    /// What the metatable of a value answers to an event. Nil: nothing.
    pub(crate) fn metamethod(&self, value: Value, event: Event) -> Value {
        let metatable = match value {
            Value::Table(table) => self.heap.of(table).metatable,
            Value::Text(_) => self.text_metatable,
            _ => None,
        };
        metatable.map_or(Value::Nil, |metatable| self.heap.of(metatable).get(self.events.name(event)))
    }
}
