//! What can be done to a record of any type: whether it is there, when it expires, its end. Redis calls the commands
//! so, too (`@keyspace`).
//!
//! # Commutativity specification
//!
//! The modes are universal: locks of every type have them ([`Mode::PRESENT`] and so on), so these operations share a
//! record's lock with those of its type.
//!
//! | operation | when | claims |
//! |---|---|---|
//! | any | there is no record | `shared` |
//! | `EXISTS` | there is a record | `present` |
//! | `TTL`, `PTTL`, `PEXPIRETIME` | there is a record | `read-expiry` |
//! | `EXPIRE t` and its kin | there is a record | `read-expiry`, `extend-expiry` |
//! | `EXPIRE t GT` and its kin (void) | there is a record | `extend-expiry` |
//! | `PERSIST` | there is a record without expiry | `read-expiry` |
//! | `PERSIST` | there is a record with one | `read-expiry`, `extend-expiry` |
//! | `DEL`, an `EXPIRE` whose time is over | there is a record | `exclusive` |
//! | `RECORD.CONTENT`, `RECORD.DIGEST`, `RECORD.VERSION`, `RECORD.ASK` | there is a record | `shared` |
//! | `PSETEX`, `SETEX`, `RECORD.PUT` | there is a record, or none | `exclusive` |
//! | `RECORD.RUN`, `RECORD.RUN_RO` | there is a record, or none | `exclusive`, `shared` |
//!
//! | | own, beside | own, clearing | own, removing | present | read-expiry | extend-expiry | shared | exclusive |
//! |---|---|---|---|---|---|---|---|---|
//! | present | | | x | | | | x | x |
//! | read-expiry | | x | x | | | x | x | x |
//! | extend-expiry | | x | x | | x | | x | x |
//!
//! *Own* are the modes of the record's type: those that may empty the record and so remove it ([`Modes::removing`]:
//! `SREM`), those that may clear its expiry ([`Modes::clearing`]: `SET`), and the rest. So an expiry is set and put off
//! beside counting, and beside adding to a set; `SREM` waits for it.
//!
//! A record that is emptied loses its expiry, and one that comes back has none: where a record has an expiry, `SREM` and
//! `SADD` do not commute. So what may empty a record that has one claims `exclusive` besides. An operation of a type
//! that claims nothing claims that there is a record (`present`), or that there is none (`shared`). `shared` is enough for a digest,
//! though the expiry is in it: what sets an expiry, puts it off or clears it conflicts with `shared`.
//!
//! # Times
//!
//! An expiry is a time in milliseconds since 1970, at the clock of the record's shard. What a caller says relative to
//! now, and what is answered so, is made absolute once, when it reaches the shard ([`Operation::resolve`]): from then
//! on an operation is a function of the record. A record whose time is over vanishes by itself (P36); that is the
//! host's part.

use std::any::{Any, TypeId};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::content::{self, Content};
use crate::data_type::arguments::{int, of_unsigned, unsigned};
use crate::data_type::{Access, Arguments, Execution, Few, Method, Unique, few, method_named};
use crate::erased::{AnyEffect, AnyOp, Effect, Executed, OF_ANY, Operation, State, TypeInfo};
use crate::version;
use crate::{
    Bytes, Claims, Command, Expiry, Mode, Modes, Moment, OpError, Register, Reply, Room, Run, Scope, Text,
};

/// Operations on a record of any type.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyspaceOp {
    /// Removes the record.
    Delete {
        /// Whether it answers how many there were: 1 or 0.
        returning: bool,
    },
    /// Whether there is a record: 1 or 0.
    Exists,
    /// Sets when the record expires.
    Expire {
        /// When.
        at: Moment,
        /// Only if that is later than when it expires now; one that does not expire stays so.
        only_later: bool,
        /// Whether it answers: 1 if the expiry was set, 0 if not.
        returning: bool,
    },
    /// The record does not expire any more.
    Persist {
        /// Whether it answers: 1 if it would have expired, 0 if not.
        returning: bool,
    },
    /// How much time is left, in milliseconds; -1: it does not expire, -2: there is no record.
    TimeLeft {
        /// Rounded to seconds.
        in_seconds: bool,
        /// Now, in milliseconds since 1970: the host says it ([`Operation::resolve`]).
        now: Option<u64>,
    },
    /// When it expires, in milliseconds since 1970; -1 and -2 as for [`KeyspaceOp::TimeLeft`].
    ExpiryTime,
    /// The content in words, from which [`KeyspaceOp::Put`] makes the same record; nil when there is none.
    Content,
    /// 32 bytes that tell the record's type, content and expiry from any other; nil when there is none.
    Digest,
    /// A value that is another one after every change, also of a record that is not there: only its host knows it
    /// ([`State::of_version`]).
    Version,
    /// Puts a record of this content in place of what there is. It does not expire.
    Put(Content),
    /// Writes a string that expires.
    SetUntil {
        /// The string.
        value: Bytes,
        /// When it expires. A time that is over when the shard hears of it becomes [`Moment::OVER`]: then there is no
        /// record.
        at: Moment,
    },
    /// A command of the server that is no operation of any type: it is carried out with the commit, and answers then.
    Run(Command),
    /// What a command of the server that only reads answers now.
    Ask(Command),
}

/// What an operation of [`KeyspaceOp`] changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum KeyspaceEffect {
    /// Removes the record.
    Remove,
    /// Sets its expiry.
    ExpireAt(Expiry),
    /// Sets its expiry if it has one and that is earlier.
    Extend(Expiry),
    /// Clears its expiry.
    Persist,
    /// Puts this in place of the record.
    Put(State),
    /// Carries out a command of the server.
    Run(Run),
}

const fn method(
    name: &'static str,
    arguments: &'static str,
    summary: &'static str,
    access: Access,
    returns: bool,
) -> Method {
    Method { name, arguments, summary, access, returns, complexity: "O(1)" }
}

const METHODS: &[Method] = &[
    of_size(method("DEL", "", "removes the record, of whatever type", Access::Write, false)),
    of_size(method(
        "DEL.RETURNING",
        "",
        "removes the record; 1 if there was one, else 0",
        Access::Write,
        true,
    )),
    method("EXISTS", "", "1 if there is a record, else 0", Access::Read, true),
    method("EXPIRE", "seconds [GT]", "sets when the record expires", Access::Write, false),
    method("EXPIRE.RETURNING", "seconds [GT]", "the same; 1 if it was set, else 0", Access::Write, true),
    method("PEXPIRE", "milliseconds [GT]", "sets when the record expires", Access::Write, false),
    method(
        "PEXPIRE.RETURNING",
        "milliseconds [GT]",
        "the same; 1 if it was set, else 0",
        Access::Write,
        true,
    ),
    method("PEXPIREAT", "unix-milliseconds [GT]", "sets when the record expires", Access::Write, false),
    method(
        "PEXPIREAT.RETURNING",
        "unix-milliseconds [GT]",
        "the same; 1 if it was set, else 0",
        Access::Write,
        true,
    ),
    method("PERSIST", "", "the record does not expire any more", Access::Write, false),
    method("PERSIST.RETURNING", "", "the same; 1 if it would have expired, else 0", Access::Write, true),
    method("TTL", "", "seconds until it expires; -1: never, -2: there is no record", Access::Read, true),
    method(
        "PTTL",
        "",
        "milliseconds until it expires; -1: never, -2: there is no record",
        Access::Read,
        true,
    ),
    method("PEXPIRETIME", "", "when it expires, in Unix milliseconds; or -1, -2", Access::Read, true),
    of_size(method("SETEX", "seconds value", "writes a string that expires", Access::Write, false)),
    of_size(method("PSETEX", "milliseconds value", "writes a string that expires", Access::Write, false)),
    of_size(method(
        "PSETEXAT",
        "unix-milliseconds value",
        "writes a string that expires",
        Access::Write,
        false,
    )),
    of_size(method(
        "RECORD.CONTENT",
        "",
        "the content of the record in words, a type first; at most 1 MiB of it",
        Access::Read,
        true,
    )),
    of_size(method(
        "RECORD.PUT",
        "type words",
        "puts a record of this content in place of what there is",
        Access::Write,
        false,
    )),
    of_size(method(
        "RECORD.DIGEST",
        "",
        "SHA-256 over the record's type, content and expiry; nil if there is none",
        Access::Read,
        true,
    )),
    method("RECORD.VERSION", "", "a value that is another one after every change", Access::Read, true),
    of_size(method(
        "RECORD.RUN",
        "command [argument ...]",
        "a command of the server that writes, with its key; answers with the commit",
        Access::Write,
        true,
    )),
    of_size(method(
        "RECORD.RUN_RO",
        "command [argument ...]",
        "the same of one that only reads",
        Access::Read,
        true,
    )),
    of_size(method(
        "RECORD.ASK",
        "command [argument ...]",
        "what a command of the server that only reads answers now",
        Access::Read,
        true,
    )),
];

const fn of_size(method: Method) -> Method {
    Method { complexity: "O(size)", ..method }
}

const SECOND: u64 = 1000;

/// What the protocol knows of these operations as a type.
pub(crate) const KEYSPACE: TypeInfo = TypeInfo {
    name: "keyspace",
    summary: "records of any type: whether they are there, and when they expire",
    native: OF_ANY,
    modes: Modes { names: &[], conflicts: &[], removing: 0, clearing: 0 },
    methods: METHODS,
    parse: |method, given| parse(method, given).map(KeyspaceOp::into),
    id: TypeId::of::<KeyspaceOp>(),
};

impl TypeInfo {
    /// For `erased.rs`, which imports nothing of this file.
    pub(crate) const KEYSPACE: &'static TypeInfo = &KEYSPACE;
}

fn parse(method: &str, given: Arguments<'_>) -> Result<KeyspaceOp, OpError> {
    let (name, returning) = match method.strip_suffix(".RETURNING") {
        Some(name) => (name, true),
        None => (method, false),
    };
    match (name, given) {
        ("DEL", []) => Ok(KeyspaceOp::Delete { returning }),
        ("EXISTS", []) if !returning => Ok(KeyspaceOp::Exists),
        ("EXPIRE" | "PEXPIRE" | "PEXPIREAT", [time]) => {
            Ok(KeyspaceOp::Expire { at: moment(name, time)?, only_later: false, returning })
        }
        ("EXPIRE" | "PEXPIRE" | "PEXPIREAT", [time, option]) if option.eq_ignore_ascii_case(b"GT") => {
            Ok(KeyspaceOp::Expire { at: moment(name, time)?, only_later: true, returning })
        }
        ("EXPIRE" | "PEXPIRE" | "PEXPIREAT", [_, option]) => {
            Err(OpError::Argument { given: option.to_string(), expected: "GT, the only option".into() })
        }
        ("PERSIST", []) => Ok(KeyspaceOp::Persist { returning }),
        ("TTL" | "PTTL", []) if !returning => {
            Ok(KeyspaceOp::TimeLeft { in_seconds: name == "TTL", now: None })
        }
        ("PEXPIRETIME", []) if !returning => Ok(KeyspaceOp::ExpiryTime),
        ("SETEX" | "PSETEX" | "PSETEXAT", [time, value]) if !returning => {
            Ok(KeyspaceOp::SetUntil { value: value.clone(), at: moment(name, time)? })
        }
        ("RECORD.CONTENT", []) => Ok(KeyspaceOp::Content),
        ("RECORD.DIGEST", []) => Ok(KeyspaceOp::Digest),
        ("RECORD.VERSION", []) => Ok(KeyspaceOp::Version),
        ("RECORD.PUT", [_, _, ..]) => Content::of_words(given).map(KeyspaceOp::Put),
        ("RECORD.RUN", [_, ..]) => Ok(KeyspaceOp::Run(Command::new(Access::Write, given))),
        ("RECORD.RUN_RO", [_, ..]) => Ok(KeyspaceOp::Run(Command::new(Access::Read, given))),
        ("RECORD.ASK", [_, ..]) => Ok(KeyspaceOp::Ask(Command::new(Access::Read, given))),
        _ => Err(OpError::misuse(METHODS, method)),
    }
}

/// The time that a method of this name takes.
fn moment(name: &str, given: &Bytes) -> Result<Moment, OpError> {
    let bound = |expected: &'static str| OpError::Bound {
        what: "a time to live".into(),
        given: given.to_string(),
        expected: expected.into(),
    };
    let out_of_range = || bound(IN_RANGE);
    // A negative one is a bound, not a matter of form.
    if int(given).is_ok_and(|number| number < 0) {
        return Err(bound("zero or more; DEL removes a record"));
    }
    let number = unsigned(given)?;
    let number = match name {
        "EXPIRE" | "SETEX" => number.checked_mul(SECOND).ok_or_else(out_of_range)?,
        _ => number,
    };
    let moment = if name.ends_with("AT") { Moment::At(number) } else { Moment::In(number) };
    check_moment(moment)?;
    Ok(moment)
}

/// Which times to live there are.
const IN_RANGE: &str = "one that ends at most 9223372036854775807 milliseconds after 1970";

fn check_moment(moment: Moment) -> Result<(), OpError> {
    let (Moment::In(ms) | Moment::At(ms)) = moment;
    if ms > Expiry::MAX.ms() {
        return Err(OpError::Bound {
            what: "a time to live".into(),
            given: format!("{ms} ms"),
            expected: IN_RANGE.into(),
        });
    }
    Ok(())
}

impl KeyspaceOp {
    /// The name that the operation travels under.
    fn name(&self) -> &'static str {
        match self {
            KeyspaceOp::Delete { returning: false } => "DEL",
            KeyspaceOp::Delete { returning: true } => "DEL.RETURNING",
            KeyspaceOp::Exists => "EXISTS",
            KeyspaceOp::Expire { at: Moment::In(_), returning: false, .. } => "PEXPIRE",
            KeyspaceOp::Expire { at: Moment::In(_), returning: true, .. } => "PEXPIRE.RETURNING",
            KeyspaceOp::Expire { at: Moment::At(_), returning: false, .. } => "PEXPIREAT",
            KeyspaceOp::Expire { at: Moment::At(_), returning: true, .. } => "PEXPIREAT.RETURNING",
            KeyspaceOp::Persist { returning: false } => "PERSIST",
            KeyspaceOp::Persist { returning: true } => "PERSIST.RETURNING",
            KeyspaceOp::TimeLeft { in_seconds: true, .. } => "TTL",
            KeyspaceOp::TimeLeft { in_seconds: false, .. } => "PTTL",
            KeyspaceOp::ExpiryTime => "PEXPIRETIME",
            KeyspaceOp::Content => "RECORD.CONTENT",
            KeyspaceOp::Digest => "RECORD.DIGEST",
            KeyspaceOp::Version => "RECORD.VERSION",
            KeyspaceOp::Put(_) => "RECORD.PUT",
            KeyspaceOp::SetUntil { at: Moment::In(_), .. } => "PSETEX",
            KeyspaceOp::SetUntil { at: Moment::At(_), .. } => "PSETEXAT",
            KeyspaceOp::Run(command) => match command.access() {
                Access::Write => "RECORD.RUN",
                Access::Read => "RECORD.RUN_RO",
            },
            KeyspaceOp::Ask(_) => "RECORD.ASK",
        }
    }

    fn arguments(&self) -> Few<Bytes> {
        let time = |at: &Moment| match at {
            Moment::In(ms) | Moment::At(ms) => of_unsigned(*ms),
        };
        match self {
            KeyspaceOp::Expire { at, only_later: false, .. } => few([time(at)]),
            KeyspaceOp::Expire { at, only_later: true, .. } => few([time(at), "GT".into()]),
            KeyspaceOp::SetUntil { value, at } => few([time(at), value.clone()]),
            KeyspaceOp::Put(content) => content.words().into(),
            KeyspaceOp::Run(command) | KeyspaceOp::Ask(command) => command.words().into(),
            KeyspaceOp::Delete { .. }
            | KeyspaceOp::Exists
            | KeyspaceOp::Persist { .. }
            | KeyspaceOp::TimeLeft { .. }
            | KeyspaceOp::ExpiryTime
            | KeyspaceOp::Content
            | KeyspaceOp::Digest
            | KeyspaceOp::Version => Few::new(),
        }
    }

    /// With times that are absolute; `None` when they are.
    fn resolved(&self, now: u64) -> Option<KeyspaceOp> {
        let absolute = |at: &Moment| match at {
            Moment::In(ms) => now.saturating_add(*ms),
            Moment::At(ms) => *ms,
        };
        match self {
            KeyspaceOp::Expire { at, only_later: false, returning } if absolute(at) <= now => {
                Some(KeyspaceOp::Delete { returning: *returning })
            }
            KeyspaceOp::Expire { at: at @ Moment::In(_), only_later, returning } => {
                Some(KeyspaceOp::Expire {
                    at: Moment::At(absolute(at)),
                    only_later: *only_later,
                    returning: *returning,
                })
            }
            KeyspaceOp::SetUntil { value, at } if absolute(at) <= now => {
                Some(KeyspaceOp::SetUntil { value: value.clone(), at: Moment::OVER })
            }
            KeyspaceOp::SetUntil { value, at: at @ Moment::In(_) } => {
                Some(KeyspaceOp::SetUntil { value: value.clone(), at: Moment::At(absolute(at)) })
            }
            KeyspaceOp::TimeLeft { in_seconds, now: None } => {
                Some(KeyspaceOp::TimeLeft { in_seconds: *in_seconds, now: Some(now) })
            }
            _ => None,
        }
    }
}

/// The expiry that a moment is, once a host has made it absolute.
fn expiry(at: Moment) -> Result<Expiry, OpError> {
    let ms = match at {
        Moment::At(ms) => ms,
        Moment::In(_) => return Err(unresolved()),
    };
    Expiry::at_ms(ms).ok_or_else(|| OpError::Bound {
        what: "a time to live".into(),
        given: format!("until {ms} ms"),
        expected: IN_RANGE.into(),
    })
}

/// A mistake of a host.
fn unresolved() -> OpError {
    OpError::Argument {
        given: "a time relative to now".into(),
        expected: "made absolute by this host".into(),
    }
}

impl From<KeyspaceOp> for Operation {
    fn from(op: KeyspaceOp) -> Self {
        let method = method_named(METHODS, op.name());
        Operation::from_any(Call { op, method })
    }
}

impl Operation {
    /// The operation, if it is one on records of any type.
    #[inline]
    pub fn keyspace(&self) -> Option<&KeyspaceOp> {
        if !self.type_info().is_of_any() {
            return None; // Mostly, and this is soon seen.
        }
        self.as_any().downcast_ref::<Call>().map(|call| &call.op)
    }

    /// Whether it may turn out to remove the record, once it reaches the shard: by then its time may be over.
    pub(crate) fn may_be_over(&self) -> bool {
        matches!(self.keyspace(), Some(KeyspaceOp::Expire { only_later: false, .. }))
    }

    /// Makes times absolute that are relative to now: `now` is in milliseconds since 1970, by the clock of the shard. A host
    /// does this once, when an operation arrives.
    pub fn resolve(&mut self, now: impl FnOnce() -> u64) {
        let timed = self.keyspace().filter(|_| self.is_timed());
        if let Some(resolved) = timed.and_then(|op| op.resolved(now())) {
            let resolved = Operation::from(resolved);
            *self = match self.expected() {
                None => resolved,
                Some(expected) => resolved.expecting(expected.clone()),
            };
        }
    }
}

/// What every operation here claims where there is no record.
fn absent(reply: i64) -> Executed {
    Execution::read(Reply::Int(reply), Claims::record(Mode::SHARED))
}

fn to_set_expiry() -> Claims {
    Claims::record(Mode::READ_EXPIRY).and(Scope::Record, Mode::EXTEND_EXPIRY)
}

impl KeyspaceOp {
    /// Whether [`Operation::resolve`] may have something to do.
    fn is_timed(&self) -> bool {
        match self {
            KeyspaceOp::Expire { .. } | KeyspaceOp::SetUntil { .. } | KeyspaceOp::TimeLeft { .. } => true,
            KeyspaceOp::Delete { .. }
            | KeyspaceOp::Exists
            | KeyspaceOp::Persist { .. }
            | KeyspaceOp::Content
            | KeyspaceOp::Digest
            | KeyspaceOp::Version
            | KeyspaceOp::Put(_)
            | KeyspaceOp::Run(_)
            | KeyspaceOp::Ask(_)
            | KeyspaceOp::ExpiryTime => false,
        }
    }

    /// Decides it on a record that is there.
    fn on(&self, state: &State) -> Result<Executed, OpError> {
        let ends = state.expiry();
        let execution = match self {
            KeyspaceOp::Delete { .. } => changing(1, KeyspaceEffect::Remove, Claims::record(Mode::EXCLUSIVE)),
            KeyspaceOp::Exists => Execution::read(Reply::Int(1), Claims::record(Mode::PRESENT)),
            KeyspaceOp::Expire { at, only_later: false, .. } => {
                changing(1, KeyspaceEffect::ExpireAt(expiry(*at)?), to_set_expiry())
            }
            KeyspaceOp::Expire { at, only_later: true, returning } => {
                let later = if *at == Moment::OVER { Expiry::MIN } else { expiry(*at)? };
                // Nobody hears whether it did anything, so whatever others put off is no matter.
                let claims = match returning {
                    true => to_set_expiry(),
                    false => Claims::record(Mode::EXTEND_EXPIRY),
                };
                let extends = ends.is_some_and(|ends| ends < later);
                let effect = Effect::from(KeyspaceEffect::Extend(later));
                let effect = Some(effect).filter(|_| extends || !returning);
                Execution { reply: Reply::Int(extends.into()), effect, claims }
            }
            KeyspaceOp::Persist { .. } => match ends {
                Some(_) => changing(1, KeyspaceEffect::Persist, to_set_expiry()),
                None => Execution::read(Reply::Int(0), Claims::record(Mode::READ_EXPIRY)),
            },
            KeyspaceOp::TimeLeft { now: None, .. } => return Err(unresolved()),
            KeyspaceOp::TimeLeft { in_seconds, now: Some(now) } => {
                let left = |ends: Expiry| match in_seconds {
                    true => (ends.ms().saturating_sub(*now) + SECOND / 2) / SECOND,
                    false => ends.ms().saturating_sub(*now),
                };
                Execution::read(time(ends.map(left)), Claims::record(Mode::READ_EXPIRY))
            }
            KeyspaceOp::ExpiryTime => {
                Execution::read(time(ends.map(Expiry::ms)), Claims::record(Mode::READ_EXPIRY))
            }
            KeyspaceOp::Content => {
                let words = content::words_of(state)?.into_iter().map(Reply::Bytes).collect();
                Execution::read(Reply::Array(words), Claims::record(Mode::SHARED))
            }
            KeyspaceOp::Digest => {
                let digest = Bytes::copy_from(&content::digest_of(state)?);
                Execution::read(Reply::Bytes(digest), Claims::record(Mode::SHARED))
            }
            KeyspaceOp::Version => version::answered(Some(state))?,
            KeyspaceOp::Run(command) => run(command, Some(state))?,
            KeyspaceOp::Ask(command) => ask(command, Some(state))?,
            KeyspaceOp::Put(content) => replace(content.state()),
            KeyspaceOp::SetUntil { .. } if !is_string(state) => {
                let found = state.type_info().name;
                return Err(OpError::WrongType {
                    found: found.into(),
                    expected: "register".into(),
                    method: "PSETEX".into(),
                });
            }
            KeyspaceOp::SetUntil { at: Moment::OVER, .. } => {
                Execution::void(Effect::from(KeyspaceEffect::Remove), Claims::record(Mode::EXCLUSIVE))
            }
            KeyspaceOp::SetUntil { value, at } => put(value, *at)?,
        };
        Ok(execution)
    }
}

fn changing(reply: i64, effect: KeyspaceEffect, claims: Claims) -> Executed {
    Execution::returning(Reply::Int(reply), Effect::from(effect), claims)
}

/// A time in milliseconds or seconds; -1 for none.
fn time(of: Option<u64>) -> Reply {
    Reply::Int(of.map_or(-1, |time| time.cast_signed()))
}

/// Of a record of which nothing but its key is known, the host has looked.
fn is_string(state: &State) -> bool {
    state.downcast::<Register>().is_some() || state.is_opaque()
}

fn put(value: &Bytes, at: Moment) -> Result<Executed, OpError> {
    let state = State::new::<Register>(Text::Bytes(value.clone()));
    Ok(replace(state.expiring(Some(expiry(at)?))))
}

fn replace(state: State) -> Executed {
    Execution::void(Effect::from(KeyspaceEffect::Put(state)), Claims::record(Mode::EXCLUSIVE))
}

fn run(command: &Command, state: Option<&State>) -> Result<Executed, OpError> {
    let effect = Effect::from(KeyspaceEffect::Run(command.run()));
    Ok(Execution::returning(command.answer(state)?, effect, command.claims()))
}

fn ask(command: &Command, state: Option<&State>) -> Result<Executed, OpError> {
    Ok(Execution::read(command.told(state)?, command.claims()))
}

/// A call of one.
struct Call {
    op: KeyspaceOp,
    method: &'static Method,
}

impl AnyOp for Call {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn type_info(&self) -> &'static TypeInfo {
        &KEYSPACE
    }

    fn method(&self) -> &'static Method {
        self.method
    }

    fn arguments(&self) -> Few<Bytes> {
        self.op.arguments()
    }

    fn check(&self) -> Result<(), OpError> {
        match &self.op {
            KeyspaceOp::Expire { at, .. } | KeyspaceOp::SetUntil { at, .. } => check_moment(*at),
            KeyspaceOp::Run(command) | KeyspaceOp::Ask(command) => command.check(),
            KeyspaceOp::Delete { .. }
            | KeyspaceOp::Exists
            | KeyspaceOp::Content
            | KeyspaceOp::Digest
            | KeyspaceOp::Version
            | KeyspaceOp::Put(_)
            | KeyspaceOp::Persist { .. }
            | KeyspaceOp::TimeLeft { .. }
            | KeyspaceOp::ExpiryTime => Ok(()),
        }
    }

    fn size(&self) -> usize {
        match &self.op {
            KeyspaceOp::SetUntil { value, .. } => value.len(),
            KeyspaceOp::Put(content) => content.size(),
            KeyspaceOp::Run(command) | KeyspaceOp::Ask(command) => command.size(),
            _ => 0,
        }
    }

    fn is_timed(&self) -> bool {
        self.op.is_timed()
    }

    fn is_command(&self) -> bool {
        matches!(self.op, KeyspaceOp::Run(_))
    }

    fn footprint(&self) -> Claims {
        let present = match &self.op {
            KeyspaceOp::Run(command) | KeyspaceOp::Ask(command) => return command.claims(),
            KeyspaceOp::Delete { .. } | KeyspaceOp::SetUntil { .. } | KeyspaceOp::Put(_) => {
                return Claims::record(Mode::EXCLUSIVE);
            }
            KeyspaceOp::Content | KeyspaceOp::Digest | KeyspaceOp::Version => {
                return Claims::record(Mode::SHARED);
            }
            KeyspaceOp::Exists => Claims::record(Mode::PRESENT),
            KeyspaceOp::Expire { only_later: true, returning: false, .. } => {
                Claims::record(Mode::EXTEND_EXPIRY)
            }
            KeyspaceOp::Expire { .. } | KeyspaceOp::Persist { .. } => to_set_expiry(),
            KeyspaceOp::TimeLeft { .. } | KeyspaceOp::ExpiryTime => Claims::record(Mode::READ_EXPIRY),
        };
        present.and(Scope::Record, Mode::SHARED)
    }

    fn fits(&self, _: &State) -> bool {
        true
    }

    fn execute(&self, state: Option<&State>, _: Unique) -> Result<Executed, OpError> {
        self.check()?; // What was in range relative to now need not be, now that it is absolute.
        let mut execution = match (state, &self.op) {
            (Some(state), op) => op.on(state)?,
            (None, KeyspaceOp::SetUntil { at: Moment::OVER, .. }) => {
                Execution::read(Reply::Ok, Claims::record(Mode::EXCLUSIVE))
            }
            (None, KeyspaceOp::SetUntil { value, at }) => put(value, *at)?,
            (None, KeyspaceOp::Put(content)) => replace(content.state()),
            (None, KeyspaceOp::Content | KeyspaceOp::Digest) => {
                Execution::read(Reply::Nil, Claims::record(Mode::SHARED))
            }
            (None, KeyspaceOp::Version) => version::answered(None)?,
            (None, KeyspaceOp::Run(command)) => run(command, None)?,
            (None, KeyspaceOp::Ask(command)) => ask(command, None)?,
            (None, KeyspaceOp::TimeLeft { .. } | KeyspaceOp::ExpiryTime) => absent(-2),
            (None, _) => absent(0),
        };
        if !self.method.returns {
            execution.reply = Reply::Ok;
        }
        Ok(execution)
    }

    fn room(&self, _: Option<&State>) -> Room {
        Room::UNBOUNDED
    }

    fn combine(&self, held: &dyn Any, answer: &Reply) -> Option<Reply> {
        // What is left is another time for everybody, and what a command answers is not known yet.
        let is_of_now = matches!(self.op, KeyspaceOp::TimeLeft { .. } | KeyspaceOp::Run(_));
        (!is_of_now && self.equals(held)).then(|| answer.clone())
    }

    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<Self>().is_some_and(|other| other.op == self.op)
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.method.name, self.op)
    }
}

impl From<KeyspaceEffect> for Effect {
    fn from(effect: KeyspaceEffect) -> Self {
        Effect::from_any(Change(effect))
    }
}

impl Effect {
    /// The effect, if it is one on records of any type.
    #[inline]
    pub fn keyspace(&self) -> Option<&KeyspaceEffect> {
        if !self.type_info().is_of_any() {
            return None; // Mostly, and this is soon seen.
        }
        self.as_any().downcast_ref::<Change>().map(|change| &change.0)
    }
}

#[derive(Clone)]
struct Change(KeyspaceEffect);

impl AnyEffect for Change {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn type_info(&self) -> &'static TypeInfo {
        &KEYSPACE
    }

    /// The inverse puts the whole record back, or its expiry.
    fn apply(self: Box<Self>, slot: &mut Option<State>) -> Effect {
        match self.0 {
            KeyspaceEffect::Put(state) => return undoing(slot.replace(state)),
            KeyspaceEffect::Run(run) => {
                let before = slot.clone();
                drop(run.carry_out(slot));
                return undoing(before);
            }
            _ => {}
        }
        let Some(state) = slot else { return Effect::from(KeyspaceEffect::Remove) };
        let before = state.expiry();
        match self.0 {
            KeyspaceEffect::Remove => return undoing(slot.take()),
            KeyspaceEffect::ExpireAt(at) => state.set_expiry(Some(at)),
            KeyspaceEffect::Extend(at) => state.set_expiry(before.map(|before| before.max(at))),
            KeyspaceEffect::Persist => state.set_expiry(None),
            KeyspaceEffect::Put(_) | KeyspaceEffect::Run(_) => unreachable!("done above"),
        }
        Effect::from(before.map_or(KeyspaceEffect::Persist, KeyspaceEffect::ExpireAt))
    }

    fn duplicate(&self) -> Effect {
        Effect::from_any(self.clone())
    }

    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<Self>().is_some_and(|other| other.0 == self.0)
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// What brings a record back that was taken away, or nothing.
fn undoing(before: Option<State>) -> Effect {
    Effect::from(before.map_or(KeyspaceEffect::Remove, KeyspaceEffect::Put))
}
