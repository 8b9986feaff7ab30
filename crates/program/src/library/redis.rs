//! `redis`.

use sha1::{Digest, Sha1};

use crate::fault::Raise;
use crate::json::JsonOptions;
use crate::machine::{Awaited, Machine, Replied};
use crate::number;
use crate::shebang::ScriptFlags;
use crate::value::Value;

use super::Arguments;

/// What scripts are told the server is.
pub(super) const VERSION: &str = "7.0.15";

/// Lines of `redis.log` that are kept for the host.
const LOG_MAX: usize = 100;

/// A function of a library.
#[derive(Clone, Debug)]
pub(crate) struct Registered {
    pub name: String,
    pub description: Option<String>,
    pub flags: ScriptFlags,
    pub callback: Value,
}

/// What `redis` and other libraries keep for a run.
#[derive(Debug)]
pub(crate) struct Redis {
    /// The protocol in whose terms commands answer.
    pub resp: u8,
    pub random: u64,
    pub log: Vec<(u8, Vec<u8>)>,
    pub json: JsonOptions,
    /// Whether functions may be registered now.
    pub registers: bool,
    pub functions: Vec<Registered>,
}

impl Redis {
    /// Has random numbers begin as `math.randomseed` of this does.
    pub(crate) fn seed(&mut self, seed: u32) {
        self.random = (u64::from(seed) << 16) + 0x330E;
    }
}

impl Default for Redis {
    fn default() -> Redis {
        Redis {
            resp: 2,
            random: 0x330E,
            log: Vec::new(),
            json: JsonOptions::default(),
            registers: false,
            functions: Vec::new(),
        }
    }
}

/// A function of `redis`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RedisFunction {
    Call,
    Pcall,
    ErrorReply,
    StatusReply,
    Sha1Hex,
    Log,
    SetResp,
    ReplicateCommands,
    SetRepl,
    Breakpoint,
    Debug,
    AclCheckCmd,
    RegisterFunction,
}

pub(super) const FUNCTIONS: &[(&str, RedisFunction)] = &[
    ("call", RedisFunction::Call),
    ("pcall", RedisFunction::Pcall),
    ("error_reply", RedisFunction::ErrorReply),
    ("status_reply", RedisFunction::StatusReply),
    ("sha1hex", RedisFunction::Sha1Hex),
    ("log", RedisFunction::Log),
    ("setresp", RedisFunction::SetResp),
    ("replicate_commands", RedisFunction::ReplicateCommands),
    ("set_repl", RedisFunction::SetRepl),
    ("breakpoint", RedisFunction::Breakpoint),
    ("debug", RedisFunction::Debug),
    ("acl_check_cmd", RedisFunction::AclCheckCmd),
    ("register_function", RedisFunction::RegisterFunction),
];

pub(super) const NUMBERS: &[(&str, f64)] = &[
    ("LOG_DEBUG", 0.0),
    ("LOG_VERBOSE", 1.0),
    ("LOG_NOTICE", 2.0),
    ("LOG_WARNING", 3.0),
    ("REPL_NONE", 0.0),
    ("REPL_AOF", 1.0),
    ("REPL_SLAVE", 2.0),
    ("REPL_REPLICA", 2.0),
    ("REPL_ALL", 3.0),
    ("REDIS_VERSION_NUM", 458_767.0),
];

pub(super) fn reply(
    machine: &mut Machine,
    function: RedisFunction,
    given: Arguments,
) -> Result<Replied, Raise> {
    match function {
        RedisFunction::Call => call(machine, given, false),
        RedisFunction::Pcall => call(machine, given, true),
        RedisFunction::ErrorReply => tagged(machine, given, true),
        RedisFunction::StatusReply => tagged(machine, given, false),
        RedisFunction::Sha1Hex => sha1_hex(machine, given),
        RedisFunction::Log => log(machine, given),
        RedisFunction::SetResp => {
            if given.count != 1 {
                return raised(machine, "ERR redis.setresp() requires one argument.");
            }
            match machine.integer_given(given, 1)? {
                version @ (2 | 3) => machine.redis.resp = version as u8,
                _ => return raised(machine, "ERR RESP version must be 2 or 3."),
            }
            Ok(Replied::Now)
        }
        RedisFunction::ReplicateCommands => machine.one_result(Value::Bool(true)),
        RedisFunction::SetRepl => {
            if given.count != 1 {
                return raised(machine, "ERR redis.set_repl() requires two arguments.");
            }
            match machine.integer_given(given, 1)? {
                0..=3 => Ok(Replied::Now),
                _ => {
                    let wrong =
                        "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.";
                    raised(machine, wrong)
                }
            }
        }
        RedisFunction::Breakpoint => machine.one_result(Value::Bool(false)),
        RedisFunction::Debug => Ok(Replied::Now),
        RedisFunction::AclCheckCmd => {
            raised(machine, "ERR redis.acl_check_cmd is not there: the command itself says it")
        }
        RedisFunction::RegisterFunction => register(machine, given),
    }
}

/// Raises an error as a command would.
fn raised(machine: &mut Machine, message: &str) -> Result<Replied, Raise> {
    let error = machine.error_value(message.as_bytes())?;
    Err(Raise::Value(error))
}

fn call(machine: &mut Machine, given: Arguments, is_tried: bool) -> Result<Replied, Raise> {
    let wrong = |machine: &mut Machine, message: &str| {
        let error = machine.error_value(message.as_bytes())?;
        if is_tried { machine.one_result(error) } else { Err(Raise::Value(error)) }
    };
    if machine.redis.registers {
        let message = "ERR redis.call/pcall can only be called inside a script invocation";
        return Err(Raise::called(message));
    }
    if given.count == 0 {
        return wrong(machine, "ERR Please specify at least one argument for this redis lib call");
    }
    let mut words = Vec::with_capacity(given.count);
    let mut length = 0;
    for index in 1..=given.count {
        let word = match machine.given(given, index) {
            Value::Text(text) => machine.heap.bytes(text).to_vec(),
            Value::Number(number) => number_word(number),
            other => {
                machine.looked(other)?;
                return wrong(machine, "ERR Lua redis lib command arguments must be strings or integers");
            }
        };
        length += word.len();
        machine.charge_bytes(word.len())?;
        if length as u64 > machine.heap.left() {
            return Err(Raise::Fatal(crate::fault::Fatal::Memory));
        }
        words.push(word);
    }
    machine.awaited = Some(Awaited { words, is_tried, deliver: given.deliver });
    Ok(Replied::Later)
}

/// A number as a word of a command: whole numbers by their digits, others by 17 of them.
fn number_word(number: f64) -> Vec<u8> {
    let is_whole =
        number.trunc() == number && number.abs() < 1e17 && (number != 0.0 || number.is_sign_positive());
    if is_whole {
        return (number as i64).to_string().into_bytes();
    }
    number::general(number, 17).into_bytes()
}

fn tagged(machine: &mut Machine, given: Arguments, is_error: bool) -> Result<Replied, Raise> {
    machine.looked(machine.given(given, 1))?;
    let Value::Text(text) = machine.given(given, 1) else {
        let error = machine.error_value(b"ERR wrong number or type of arguments")?;
        return machine.one_result(error);
    };
    if given.count != 1 {
        let error = machine.error_value(b"ERR wrong number or type of arguments")?;
        return machine.one_result(error);
    }
    let bytes = machine.heap.bytes(text).to_vec();
    let value = match is_error {
        false => machine.tagged(b"ok", &bytes)?,
        true => {
            let text = bytes.strip_prefix(b"-").unwrap_or(&bytes);
            // Of several words the first is a code.
            match text.contains(&b' ') {
                true => machine.tagged(b"err", text)?,
                false => machine.tagged(b"err", &[b"ERR ", text].concat())?,
            }
        }
    };
    machine.one_result(value)
}

fn sha1_hex(machine: &mut Machine, given: Arguments) -> Result<Replied, Raise> {
    if given.count != 1 {
        return raised(machine, "ERR wrong number of arguments");
    }
    let value = machine.given(given, 1);
    machine.looked(value)?;
    let bytes = match machine.text_in(value)? {
        Some(text) => machine.heap.bytes(text),
        None => &[],
    };
    let (digest, length) = (Sha1::digest(bytes), bytes.len());
    machine.charge_bytes(length.saturating_mul(2))?;
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    machine.text_result(hex.as_bytes())
}

fn log(machine: &mut Machine, given: Arguments) -> Result<Replied, Raise> {
    if given.count < 2 {
        return raised(machine, "ERR redis.log() requires two arguments or more.");
    }
    let Value::Number(level) = machine.given(given, 1) else {
        machine.looked(machine.given(given, 1))?;
        return raised(machine, "ERR First argument must be a number (log level).");
    };
    let level = number::signed(level);
    let Some(level) = u8::try_from(level).ok().filter(|level| *level <= 3) else {
        return raised(machine, "ERR Invalid debug level.");
    };
    let mut line = Vec::new();
    for index in 2..=given.count {
        let value = machine.given(given, index);
        machine.looked(value)?;
        if let Some(text) = machine.text_in(value)? {
            if index > 2 {
                line.push(b' ');
            }
            line.extend_from_slice(machine.heap.bytes(text));
        }
        line.truncate(1024);
    }
    machine.charge_bytes(line.len())?;
    if machine.redis.log.len() < LOG_MAX {
        machine.redis.log.push((level, line));
    }
    Ok(Replied::Now)
}

/// `register_function('name', callback)`, or a table with `function_name`, `callback`, `flags` and `description`.
fn register(machine: &mut Machine, given: Arguments) -> Result<Replied, Raise> {
    if !machine.redis.registers {
        return raised(machine, "ERR redis.register_function can only be called on FUNCTION LOAD command");
    }
    let (name, callback, description, flags) = match (given.count, machine.given(given, 1)) {
        (1, table @ Value::Table(_)) => {
            let flags = flags_of(machine, table)?;
            let description = machine.field(table, b"description");
            (machine.field(table, b"function_name"), machine.field(table, b"callback"), description, flags)
        }
        (2, name) => (name, machine.given(given, 2), Value::Nil, ScriptFlags::default()),
        _ => return raised(machine, "ERR wrong number of arguments to redis.register_function"),
    };
    let Value::Text(name) = name else {
        return raised(
            machine,
            "ERR function name argument given to redis.register_function must be a string",
        );
    };
    if !matches!(callback, Value::Closure(_)) {
        return raised(machine, "ERR callback argument given to redis.register_function must be a function");
    }
    let name = String::from_utf8_lossy(machine.heap.bytes(name)).into_owned();
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        let wrong = "ERR Function names can only contain letters, numbers, or underscores(_) and must be at least one character long";
        return raised(machine, wrong);
    }
    if machine.redis.functions.iter().any(|known| known.name.eq_ignore_ascii_case(&name)) {
        return raised(machine, "ERR Function already exists in the library");
    }
    let description = match description {
        Value::Text(text) => Some(String::from_utf8_lossy(machine.heap.bytes(text)).into_owned()),
        _ => None,
    };
    machine.heap.take(128 + name.len() as u64)?;
    machine.kept.push(callback);
    machine.redis.functions.push(Registered { name, description, flags, callback });
    Ok(Replied::Now)
}

fn flags_of(machine: &mut Machine, table: Value) -> Result<ScriptFlags, Raise> {
    let mut flags = ScriptFlags { is_given: true, ..ScriptFlags::default() };
    let Value::Table(list) = machine.field(table, b"flags") else { return Ok(flags) };
    for index in 1.. {
        let Value::Text(name) = machine.heap.of(list).at(index) else { break };
        let name = String::from_utf8_lossy(machine.heap.bytes(name)).into_owned();
        if flags.set(&name).is_err() {
            let error = machine.error_value(b"ERR unknown flag given")?;
            return Err(Raise::Value(error));
        }
        machine.charge(1)?;
    }
    Ok(flags)
}

/// The SHA-1 of bytes, in lower-case hexadecimal digits.
pub(crate) fn digest(bytes: &[u8]) -> String {
    Sha1::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
