//! Commands of the server that are no operation of any type, as steps of a transaction (A19 to A26 of `docs/scripts.md`): `XADD`,
//! `PFADD`, `GEOADD`. Such a one claims its record whole, is carried out by the server when the transaction is applied, and answers then.
//!
//! Who keeps records in memory has no server. There two commands have a meaning, `APPEND` and `STRLEN`, both on strings, so that the
//! protocol can be tested with answers that only the state at apply tells.

use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::bounded_serde::long_list;
use crate::data_type::Access;
use crate::erased::State;
use crate::{Bytes, Claims, Mode, OpError, Register, Reply, Text};

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
    /// Carries it out on a record in memory. The answer: also that it cannot be done, which was looked at before.
    pub fn carry_out(&self, slot: &mut Option<State>) -> Reply {
        if slot.as_ref().is_some_and(State::is_opaque) {
            return Reply::Nil;
        }
        carry_out(slot, &self.words).unwrap_or_else(|error| Reply::Failed(Box::new(error)))
    }
}

fn carry_out(slot: &mut Option<State>, words: &[Bytes]) -> Result<Reply, OpError> {
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

fn unknown(words: &[Bytes]) -> OpError {
    let name = words.first().map(Bytes::to_string).unwrap_or_default();
    OpError::Told(format!("ERR '{name}' is carried out by servers, and these records are in memory"))
}
