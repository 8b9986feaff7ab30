//! Values of a run. They are small and copied; what is large is in the heap, and a value names it.

use crate::library::Native;

/// A string in the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TextId(pub u32);

/// A table in the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TableId(pub u32);

/// A closure in the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClosureId(pub u32);

/// A captured variable in the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CellId(pub u32);

/// A value. Equality is that of Lua without metamethods: equal strings are one string of the heap.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Value {
    #[default]
    Nil,
    /// `cjson.null`.
    Null,
    Bool(bool),
    Number(f64),
    Text(TextId),
    Table(TableId),
    Closure(ClosureId),
    Native(Native),
    /// What a command will answer when the script has ended.
    Later(u32),
}

impl Value {
    /// What `type` says of it.
    pub(crate) fn type_name(self) -> &'static str {
        match self {
            Value::Nil => "nil",
            Value::Null | Value::Later(_) => "userdata",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::Text(_) => "string",
            Value::Table(_) => "table",
            Value::Closure(_) | Value::Native(_) => "function",
        }
    }

    pub(crate) fn is_nil(self) -> bool {
        self == Value::Nil
    }
}
