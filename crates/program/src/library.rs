//! The functions that scripts have.

mod arguments;
mod base;
mod bit;
mod codecs;
mod mathematics;
mod redis;
mod search;
mod tables;
mod texts;

use crate::fault::Raise;
use crate::machine::{Machine, Replied};
use crate::value::{TableId, Value};

pub(crate) use arguments::Arguments;
pub(crate) use redis::digest;
pub(crate) use redis::{Redis, Registered};

/// A function that is not of the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Native {
    Base(base::Base),
    Text(texts::TextFunction),
    Search(search::Search),
    Table(tables::TableFunction),
    Math(mathematics::Mathematics),
    Redis(redis::RedisFunction),
    Codec(codecs::Codec),
    Bit(bit::Bit),
    /// What `string.gmatch` gives.
    NextMatch,
    /// What `ipairs` gives.
    NextElement,
    /// What an index does.
    Index,
}

/// Answers a call of a native function.
///
/// # Errors
///
/// What the function raises.
pub(crate) fn reply(machine: &mut Machine, native: Native, given: Arguments) -> Result<Replied, Raise> {
    match native {
        Native::Base(function) => base::reply(machine, function, given),
        Native::Text(function) => texts::reply(machine, function, given),
        Native::Search(function) => search::reply(machine, function, given),
        Native::Table(function) => tables::reply(machine, function, given),
        Native::Math(function) => mathematics::reply(machine, function, given),
        Native::Redis(function) => redis::reply(machine, function, given),
        Native::Codec(function) => codecs::reply(machine, function, given),
        Native::Bit(function) => bit::reply(machine, function, given),
        Native::NextMatch => search::next_match(machine, given),
        Native::NextElement => base::next_element(machine, given),
        Native::Index => base::index(machine, given),
    }
}

/// Puts all libraries into the globals of a machine, and protects them.
///
/// # Errors
///
/// Not enough memory.
pub(crate) fn install(machine: &mut Machine) -> Result<(), Raise> {
    let globals = machine.globals;
    for (name, function) in base::FUNCTIONS {
        set(machine, globals, name, Value::Native(Native::Base(*function)))?;
    }
    set(machine, globals, "_G", Value::Table(globals))?;
    let version = machine.heap.text(b"Lua 5.1")?;
    set(machine, globals, "_VERSION", Value::Text(version))?;
    let texts = library(machine, "string", texts::FUNCTIONS, Native::Text)?;
    for (name, function) in search::FUNCTIONS {
        set(machine, texts, name, Value::Native(Native::Search(*function)))?;
    }
    library(machine, "table", tables::FUNCTIONS, Native::Table)?;
    let mathematics = library(machine, "math", mathematics::FUNCTIONS, Native::Math)?;
    set(machine, mathematics, "pi", Value::Number(std::f64::consts::PI))?;
    set(machine, mathematics, "huge", Value::Number(f64::INFINITY))?;
    library(machine, "bit", bit::FUNCTIONS, Native::Bit)?;
    let json = library(machine, "cjson", codecs::JSON, Native::Codec)?;
    set(machine, json, "null", Value::Null)?;
    library(machine, "cmsgpack", codecs::MSGPACK, Native::Codec)?;
    library(machine, "struct", codecs::STRUCT, Native::Codec)?;
    let redis = library(machine, "redis", redis::FUNCTIONS, Native::Redis)?;
    for (name, number) in redis::NUMBERS {
        set(machine, redis, name, Value::Number(*number))?;
    }
    // As Valkey names it.
    set(machine, globals, "server", Value::Table(redis))?;
    let version = machine.heap.text(redis::VERSION.as_bytes())?;
    set(machine, redis, "REDIS_VERSION", Value::Text(version))?;
    let metatable = machine.heap.table(0, 1)?;
    set(machine, metatable, "__index", Value::Table(texts))?;
    machine.heap.of_mut(metatable).is_readonly = true;
    machine.text_metatable = Some(metatable);
    machine.heap.of_mut(globals).is_readonly = true;
    Ok(())
}

fn library<F: Copy>(
    machine: &mut Machine,
    name: &str,
    functions: &[(&str, F)],
    native: fn(F) -> Native,
) -> Result<TableId, Raise> {
    let table = machine.heap.table(0, functions.len() + 2)?;
    for (name, function) in functions {
        set(machine, table, name, Value::Native(native(*function)))?;
    }
    machine.heap.of_mut(table).is_readonly = true;
    set(machine, machine.globals, name, Value::Table(table))?;
    Ok(table)
}

fn set(machine: &mut Machine, table: TableId, name: &str, value: Value) -> Result<(), Raise> {
    let name = machine.heap.text(name.as_bytes())?;
    machine.heap.set(table, Value::Text(name), value)
}
