//! Operations that must give a certain answer, and cannot be done otherwise: that of a conditional batch (a mini-transaction of
//! Sinfonia, SOSP 2007, over all types), the one that an optimistic transaction has seen (O3 of `docs/optimistic.md`), or anything but
//! nothing, for which it waits (P91).
//!
//! Such an operation is carried, locked and executed as the one in it. So everything that takes an operation takes it.
//!
//! An answer is compared as bytes. Those of a long one are their SHA-256 digest: whoever chooses values cannot make two that are
//! taken for each other.

use std::any::Any;
use std::fmt;

use sha2::{Digest, Sha256};

use crate::data_type::{Execution, Few, Method, Unique};
use crate::erased::{AnyOp, Executed, Operation, State, TypeInfo};
use crate::{Bytes, Claims, Mode, OpError, Reply, Room};

/// Longer answers are compared by their digest.
const WHOLE_MAX: usize = 40;

/// How deep answers are compared; those of the built-in types are nested once.
const NESTING_MAX: usize = 16;

/// What begins the bytes of an answer, and those of an error.
const WHOLE: u8 = 0;
const DIGEST: u8 = 1;
const ERROR: u8 = 5;

/// The flags of what may answer anything.
const ANY: u8 = 8;

/// The flags of what waits until it answers something.
const SOMETHING: u8 = 16;

/// What an operation must answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    /// It was seen, and another answer means that it changed.
    is_seen: bool,
    /// It is that the operation cannot be done.
    is_error: bool,
    /// Anything, also that it cannot be done.
    is_any: bool,
    /// Anything but nothing: [`Reply::Nil`], or an empty array.
    is_something: bool,
    /// The number that went into it.
    unique: Option<u64>,
    /// [`WHOLE`] and the bytes, or [`DIGEST`] and theirs.
    answer: Bytes,
}

impl Expected {
    fn of(answer: Result<&Reply, &OpError>, is_seen: bool, unique: Option<u64>) -> Self {
        let (is_error, answer) = (answer.is_err(), as_bytes(answer));
        Expected { is_seen, is_error, is_any: false, is_something: false, unique, answer }
    }

    /// Whatever it is.
    fn any() -> Self {
        let answer = Bytes::from(vec![WHOLE]);
        Expected { is_seen: false, is_error: false, is_any: true, is_something: false, unique: None, answer }
    }

    /// Whatever it is, if it is anything.
    fn something() -> Self {
        Expected { is_any: false, is_something: true, ..Expected::any() }
    }

    /// Whether an error takes the place of an answer.
    fn is_met(&self, answer: Result<&Reply, &OpError>) -> bool {
        self.answer == as_bytes(answer)
    }

    /// As an argument more of the operation.
    pub(crate) fn to_argument(&self) -> Bytes {
        let flags =
            u8::from(self.is_seen) | u8::from(self.is_error) << 1 | u8::from(self.unique.is_some()) << 2;
        let flags = flags | u8::from(self.is_any) << 3 | u8::from(self.is_something) << 4;
        let mut bytes = vec![flags];
        if let Some(unique) = self.unique {
            bytes.extend_from_slice(&unique.to_le_bytes());
        }
        bytes.extend_from_slice(&self.answer);
        Bytes::from(bytes)
    }

    /// `None`: this is none.
    pub(crate) fn of_argument(bytes: &[u8]) -> Option<Self> {
        let (&flags, rest) = bytes.split_first()?;
        match flags {
            ANY => return (*rest == [WHOLE]).then(Expected::any),
            SOMETHING => return (*rest == [WHOLE]).then(Expected::something),
            0..8 => {}
            _ => return None,
        }
        let (unique, answer) = match flags & 4 {
            0 => (None, rest),
            _ => {
                let (unique, answer) = rest.split_first_chunk::<8>()?;
                (Some(u64::from_le_bytes(*unique)), answer)
            }
        };
        let is_right = match answer.split_first()? {
            (&WHOLE, rest) => rest.len() <= WHOLE_MAX,
            (&DIGEST, rest) => rest.len() == 32,
            _ => false,
        };
        let (is_seen, is_error) = (flags & 1 > 0, flags & 2 > 0);
        let says_error = answer.strip_prefix(&[WHOLE]).is_some_and(|rest| rest.first() == Some(&ERROR));
        let agrees = is_error == says_error || is_error && answer.first() == Some(&DIGEST);
        (is_right && agrees).then(|| Expected {
            is_seen,
            is_error,
            is_any: false,
            is_something: false,
            unique,
            answer: Bytes::copy_from(answer),
        })
    }
}

/// Equal for equal answers alone.
fn as_bytes(answer: Result<&Reply, &OpError>) -> Bytes {
    let mut bytes = vec![WHOLE];
    match answer {
        Ok(reply) => append(reply, NESTING_MAX, &mut bytes),
        Err(error) => {
            bytes.push(ERROR);
            // As it looks behind a wire (`bounded_serde::one_line`).
            bytes.extend_from_slice(error.to_string().replace(char::is_control, " ").as_bytes());
        }
    }
    if bytes.len() > WHOLE_MAX {
        let digest = Sha256::digest(&bytes);
        bytes.clear();
        bytes.push(DIGEST);
        bytes.extend_from_slice(&digest);
    }
    Bytes::from(bytes)
}

fn append(reply: &Reply, depth: usize, bytes: &mut Vec<u8>) {
    let mut put = |tag: u8, value: &[u8]| {
        bytes.push(tag);
        bytes.extend_from_slice(value);
    };
    match reply {
        Reply::Nil => put(0, &[]),
        Reply::Ok => put(1, &[]),
        Reply::Int(value) => put(2, &value.to_le_bytes()),
        Reply::Float(value) => put(3, &value.to_bits().to_le_bytes()),
        Reply::Bytes(value) => {
            put(4, &(value.len() as u64).to_le_bytes());
            bytes.extend_from_slice(value);
        }
        // Nothing that is compared answers so.
        Reply::Failed(error) => put(7, error.to_string().as_bytes()),
        Reply::Array(items) => {
            put(6, &(items.len() as u64).to_le_bytes());
            // No type answers so deep.
            if depth > 0 {
                items.iter().for_each(|item| append(item, depth - 1, bytes));
            }
        }
    }
}

/// Whether an operation finds something whenever there is anything in a record of its type.
fn takes_anything(op: &Operation) -> bool {
    let (kind, arguments) = (op.type_info().name, op.arguments());
    let zero = |at: usize| arguments.get(at).is_some_and(|argument| &argument[..] == b"0");
    match (kind, op.method().name) {
        ("list", "LPOP" | "RPOP") => true,
        ("list", "LRANGE") | ("scored-set", "ZRANGE") => zero(0) && zero(1),
        _ => false,
    }
}

fn is_nothing(reply: &Reply) -> bool {
    match reply {
        Reply::Nil => true,
        Reply::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Of what fails as it was seen to: it does nothing, and tells of all of the record (P15).
fn as_it_failed() -> Executed {
    Execution::read(Reply::Ok, Claims::record(Mode::EXCLUSIVE))
}

/// That it cannot be done is the answer, which tells of all of the record.
fn failed(error: OpError) -> Executed {
    Execution::read(Reply::Failed(Box::new(error)), Claims::record(Mode::EXCLUSIVE))
}

/// See the module's text.
pub(crate) struct Expecting {
    op: Operation,
    expected: Expected,
}

impl Operation {
    /// The same operation, which cannot be done unless it answers this: then the error is [`OpError::Unexpected`], with the answer
    /// that was found. What answers nothing answers [`Reply::Ok`].
    #[must_use]
    pub fn demanding(&self, answer: &Reply) -> Operation {
        self.expecting(Expected::of(Ok(answer), false, None))
    }

    /// The same operation, as it was seen: with another answer, or another error, it cannot be done, and the error is
    /// [`OpError::Changed`]. `unique` is the number that went into the answer. An error that is seen again is no error: then the
    /// operation does nothing and holds its record alone.
    #[must_use]
    pub fn seen(&self, answer: Result<&Reply, &OpError>, unique: Unique) -> Operation {
        self.expecting(Expected::of(answer, true, Some(unique.0)))
    }

    /// The same operation, whose answer says whether it can be done: it answers also where it returns nothing, and that it cannot
    /// be done is an answer, [`Reply::Failed`], for which it does nothing and claims its record alone (N5 of `docs/nesting.md`).
    #[must_use]
    pub fn tried(&self) -> Operation {
        self.expecting(Expected::any())
    }

    /// The same operation, which waits until it answers something: where it answers [`Reply::Nil`] or an empty array, or the record is of
    /// another type, it is not done now. Which ones sleep until then is what [`Self::finds_nothing`] says; others fail.
    #[must_use]
    pub fn waiting(&self) -> Operation {
        self.expecting(Expected::something())
    }

    /// Whether it is one that [waits](Self::waiting) until it answers something.
    pub fn is_waiting(&self) -> bool {
        self.expected().is_some_and(|expected| expected.is_something)
    }

    /// Whether it is [such a one](Self::waiting), and this error says that there is nothing for it. Only of those that find something
    /// whenever there is anything: `LPOP`, `RPOP`, `LRANGE 0 0` and `ZRANGE 0 0`. So of all that wait on a record one alone need be woken.
    pub fn finds_nothing(&self, error: &OpError) -> bool {
        self.is_waiting()
            && takes_anything(self)
            && matches!(error, OpError::Unexpected { .. } | OpError::WrongType { .. })
    }

    /// Whether it is one that is [tried](Self::tried).
    pub fn is_tried(&self) -> bool {
        self.expected().is_some_and(|expected| expected.is_any)
    }

    pub(crate) fn expecting(&self, expected: Expected) -> Operation {
        Operation::from_any(Expecting { op: self.plain().clone(), expected })
    }

    /// What it must answer, if anything.
    pub(crate) fn expected(&self) -> Option<&Expected> {
        self.any().expecting().map(|it| &it.expected)
    }

    /// Whether it must answer something.
    pub fn expects(&self) -> bool {
        self.expected().is_some()
    }

    /// Whether it must answer what was [seen](Self::seen).
    pub fn is_seen(&self) -> bool {
        self.expected().is_some_and(|expected| expected.is_seen)
    }

    /// What comes of it where it could not even be executed, for this error: nothing, if that was seen.
    ///
    /// # Errors
    /// That, or [`OpError::Changed`].
    pub fn not_executed(&self, error: OpError) -> Result<Executed, OpError> {
        match self.expected() {
            Some(expected) if expected.is_any => Ok(failed(error)),
            Some(expected) if expected.is_met(Err(&error)) => Ok(as_it_failed()),
            Some(expected) if expected.is_seen => Err(OpError::Changed),
            _ => Err(error),
        }
    }

    /// The operation, whatever it must answer.
    pub fn plain(&self) -> &Operation {
        self.any().expecting().map_or(self, |it| &it.op)
    }
}

impl AnyOp for Expecting {
    /// As the one in it, for whoever asks which one it is.
    fn as_any(&self) -> &dyn Any {
        self.op.as_any()
    }

    fn expecting(&self) -> Option<&Expecting> {
        Some(self)
    }

    fn type_info(&self) -> &'static TypeInfo {
        self.op.type_info()
    }

    fn method(&self) -> &'static Method {
        self.op.method()
    }

    fn arguments(&self) -> Few<Bytes> {
        self.op.arguments()
    }

    fn check(&self) -> Result<(), OpError> {
        self.op.any().check()
    }

    fn size(&self) -> usize {
        self.op.size() + self.expected.answer.len()
    }

    fn is_timed(&self) -> bool {
        self.op.is_timed()
    }

    fn is_command(&self) -> bool {
        self.op.is_command()
    }

    fn footprint(&self) -> Claims {
        if self.expected.is_error { Claims::record(Mode::EXCLUSIVE) } else { self.op.footprint() }
    }

    fn footprint_modes(&self) -> Option<u16> {
        if self.expected.is_error { None } else { self.op.footprint_modes() }
    }

    fn fits(&self, state: &State) -> bool {
        self.op.fits(state)
    }

    fn execute(&self, state: Option<&State>, unique: Unique) -> Result<Executed, OpError> {
        let unique = self.expected.unique.map_or(unique, Unique);
        let executed = self.op.execute(state, unique);
        if self.expected.is_any {
            return Ok(executed.unwrap_or_else(failed));
        }
        let is_met = match self.expected.is_something {
            true => executed.as_ref().is_ok_and(|executed| !is_nothing(&executed.reply)),
            false => self.expected.is_met(executed.as_ref().map(|executed| &executed.reply)),
        };
        match executed {
            // Nobody waits for what is known.
            Ok(executed) if is_met && self.expected.is_seen => Ok(Execution { reply: Reply::Ok, ..executed }),
            Ok(executed) if is_met => Ok(executed),
            Err(_) if is_met => Ok(as_it_failed()),
            _ if self.expected.is_seen => Err(OpError::Changed),
            Ok(executed) => {
                let found = Box::new(executed.reply);
                Err(OpError::Unexpected { method: self.method().name.into(), found })
            }
            Err(error) => Err(error),
        }
    }

    fn room(&self, state: Option<&State>) -> Room {
        self.op.room(state)
    }

    /// Nobody else's answer shows that it is met.
    fn combine(&self, _held: &dyn Any, _answer: &Reply) -> Option<Reply> {
        None
    }

    fn equals(&self, other: &dyn Any) -> bool {
        self.op.any().equals(other)
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match &self.expected {
            Expected { is_any: true, .. } => "tried",
            Expected { is_seen: true, .. } => "seen",
            Expected { is_something: true, .. } => "waiting",
            Expected { .. } => "demanded",
        };
        // All of it: who explores states tells operations apart by this text.
        write!(f, "{:?} ({word} {:?})", self.op, self.expected.to_argument())
    }
}
