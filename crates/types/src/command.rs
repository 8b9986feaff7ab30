//! Commands of the server that are no operation of any type, as steps of a transaction (A19 to A26 of `docs/scripts.md`): `XADD`,
//! `PFADD`, `GEOADD`. Such a one claims its record whole, is carried out by the server when the transaction is applied, and answers then.
//!
//! Who keeps records in memory has no server. There those on streams have a meaning (`stream.rs`), and two on strings, `APPEND` and `STRLEN`,
//! so that the protocol can be tested with answers that only the state at apply tells.

use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::bounded_serde::long_list;
use crate::data_type::Access;
use crate::erased::State;
use crate::stream;
use crate::{Bytes, Claims, Expiry, Mode, OpError, Register, Reply, Text};

/// A command of the server, whole, its key among its words.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    words: Arc<[Bytes]>,
    access: Access,
}

/// Carrying out a command: the effect of [`Command`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The number of its call in its attempt: its answer goes by it, and those of one shard are carried out in this order.
    pub no: u32,
    /// Whether it may change the record.
    pub writes: bool,
    /// The command, whole.
    #[serde(deserialize_with = "words")]
    pub words: Vec<Bytes>,
}

/// Words of another process: a name, and what follows.
fn words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Bytes>, D::Error> {
    let words: Vec<Bytes> = long_list(deserializer)?;
    if words.is_empty() { Err(D::Error::custom("a command without a name")) } else { Ok(words) }
}

impl Command {
    /// A command that writes or only reads; its name is the first of the words.
    pub fn new(access: Access, words: &[Bytes]) -> Self {
        Command { words: words.into(), access }
    }

    /// Its name, and what follows.
    pub fn words(&self) -> &[Bytes] {
        &self.words
    }

    /// Whether it may write.
    pub fn access(&self) -> Access {
        self.access
    }

    /// The same with the time, where it would be another command whenever it is carried out; `None`: it would not.
    pub(crate) fn at_time(&self, now: impl FnOnce() -> u64) -> Option<Command> {
        let words = match self.words.first().and_then(Bytes::as_str)?.to_ascii_uppercase().as_str() {
            "XADD" => stream::at_time(&self.words, now),
            name @ ("EXPIRE" | "PEXPIRE" | "EXPIREAT") => ends_at(name, &self.words, now),
            _ => None,
        };
        Some(Command { words: words?.into(), access: self.access })
    }

    /// It has a name, or whoever it is sent to could not read it, nor what comes with it.
    pub(crate) fn check(&self) -> Result<(), OpError> {
        let without_name = || OpError::Argument {
            given: String::new(),
            expected: "a command: its name, its key and what follows".into(),
        };
        if self.words.is_empty() { Err(without_name()) } else { Ok(()) }
    }

    pub(crate) fn size(&self) -> usize {
        self.words.iter().map(|word| word.len()).sum()
    }

    /// The whole record: nobody knows what a command depends on, or changes.
    pub(crate) fn claims(&self) -> Claims {
        Claims::record(match self.access {
            Access::Read => Mode::SHARED,
            Access::Write => Mode::EXCLUSIVE,
        })
    }

    /// Whether it can be done, and what it would answer. A host that has a server has looked itself, and shows an
    /// [opaque](State::opaque) record.
    pub(crate) fn answer(&self, state: Option<&State>) -> Result<Reply, OpError> {
        match state {
            Some(state) if state.is_opaque() => Ok(Reply::Nil),
            state => carry_out(&mut state.cloned(), &self.words),
        }
    }

    /// What it answers now, where nothing is carried out. A host that has a server has asked it, and shows
    /// [its answer](State::of_answer).
    pub(crate) fn told(&self, state: Option<&State>) -> Result<Reply, OpError> {
        match state.and_then(State::answer) {
            Some(answer) => Ok(answer.clone()),
            None => carry_out(&mut state.cloned(), &self.words),
        }
    }

    /// What is done at the commit, by the call of no number so far.
    pub(crate) fn run(&self) -> Run {
        Run { no: 0, writes: self.access == Access::Write, words: self.words.to_vec() }
    }
}

impl Run {
    /// Whether an earlier command on the same record need not be looked at to tell whether a later one can be done, with this one between
    /// them: it has the same name, and so leaves the same type, or nothing. Those that make groups tell which.
    pub fn stands_for(&self, earlier: &Run) -> bool {
        let (Some(name), Some(earlier_name)) = (self.words.first(), earlier.words.first()) else {
            return false;
        };
        self.writes == earlier.writes
            && name.eq_ignore_ascii_case(earlier_name)
            && !name.eq_ignore_ascii_case(b"XGROUP")
    }

    /// Carries it out on a record in memory. The answer: also that it cannot be done, which was looked at before.
    pub fn carry_out(&self, slot: &mut Option<State>) -> Reply {
        if slot.as_ref().is_some_and(State::is_opaque) {
            return Reply::Nil;
        }
        carry_out(slot, &self.words).unwrap_or_else(|error| Reply::Failed(Box::new(error)))
    }
}

fn carry_out(slot: &mut Option<State>, words: &[Bytes]) -> Result<Reply, OpError> {
    let is = |known: &[&str]| words.first().is_some_and(|name| is_one(name, known));
    if is(&stream::NAMES) {
        return stream::carry_out(slot, words);
    }
    if is(&OF_ANY) || is(&OF_TIME) {
        return on_any(slot, words);
    }
    let [name, _, arguments @ ..] = words else { return Err(unknown(words)) };
    let text = match slot {
        None => Bytes::default(),
        Some(state) => {
            let text = state.downcast::<Register>().and_then(Text::to_bytes);
            text.ok_or_else(|| OpError::WrongType {
                found: state.type_info().name.into(),
                expected: "register".into(),
                method: name.to_string().into(),
            })?
        }
    };
    match (&name[..], arguments) {
        (b"STRLEN", []) => Ok(Reply::count(text.len())),
        (b"APPEND", [more]) => {
            let text = [&text[..], more].concat();
            let (length, expiry) = (text.len(), slot.as_ref().and_then(State::expiry));
            *slot = Some(State::new::<Register>(Text::Bytes(Bytes::from(text))).expiring(expiry));
            Ok(Reply::count(length))
        }
        _ => Err(unknown(words)),
    }
}

/// The commands on any record that come behind such a one on its key, and so are carried out as well (A22).
const OF_ANY: [&str; 6] = ["DEL", "UNLINK", "EXISTS", "TYPE", "PEXPIREAT", "PERSIST"];

/// The same, until they are given the time.
const OF_TIME: [&str; 3] = ["EXPIRE", "PEXPIRE", "EXPIREAT"];

fn is_one(name: &[u8], known: &[&str]) -> bool {
    known.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// Whether a command of this name is carried out on records in memory.
pub fn is_done_in_memory(name: &[u8]) -> bool {
    is_one(name, &stream::NAMES) || is_one(name, &OF_ANY) || is_one(name, &OF_TIME)
}

/// `EXPIRE` and its kin as `PEXPIREAT`.
fn ends_at(name: &str, words: &[Bytes], now: impl FnOnce() -> u64) -> Option<Vec<Bytes>> {
    let [_, key, time] = words else { return None };
    let time: i64 = time.as_str()?.parse().ok()?;
    let ms = if name == "PEXPIRE" { time } else { time.checked_mul(1_000)? };
    let at = if name == "EXPIREAT" { ms } else { ms.checked_add_unsigned(now())? };
    Some(vec!["PEXPIREAT".into(), key.clone(), Bytes::from(at.to_string())])
}

fn on_any(slot: &mut Option<State>, words: &[Bytes]) -> Result<Reply, OpError> {
    let name = words[0].as_str().unwrap_or_default().to_ascii_uppercase();
    let is_there = slot.is_some();
    match (&name[..], &words[1..]) {
        ("EXISTS", [_]) => {}
        ("DEL" | "UNLINK", [_]) => *slot = None,
        ("TYPE", [_]) => {
            let name = slot.as_ref().map_or("none", |state| state.type_info().native);
            return Ok(Reply::Bytes(name.into()));
        }
        ("PERSIST", [_]) => {
            let had_end = slot.as_ref().is_some_and(|state| state.expiry().is_some());
            *slot = slot.take().map(|state| state.expiring(None));
            return Ok(Reply::Int(had_end.into()));
        }
        ("PEXPIREAT", [_, at]) => {
            let ms: Option<i64> = at.as_str().and_then(|at| at.parse().ok());
            let ms = ms.ok_or_else(|| OpError::Told("ERR value is not an integer or out of range".into()))?;
            // One that is over ends it as soon as anybody looks.
            let end = Expiry::at_ms(u64::try_from(ms).unwrap_or(0)).unwrap_or(Expiry::MIN);
            *slot = slot.take().map(|state| state.expiring(Some(end)));
        }
        _ => {
            let name = name.to_ascii_lowercase();
            return Err(OpError::Told(format!(
                "ERR wrong number of arguments for '{name}' command, or options that it has not where records are in memory"
            )));
        }
    }
    Ok(Reply::Int(is_there.into()))
}

fn unknown(words: &[Bytes]) -> OpError {
    let name = words.first().map(Bytes::to_string).unwrap_or_default();
    OpError::Told(format!("ERR '{name}' is carried out by servers, and these records are in memory"))
}
