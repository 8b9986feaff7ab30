//! Dict: fields, each with a value. Native Redis type: hash.
//!
//! # Commutativity specification
//!
//! Conflicts depend on the field and on what the hash holds when the lock is granted. "f in" means that the field is
//! there, including the transaction's own earlier changes.
//!
//! | operation | when | claims |
//! |---|---|---|
//! | `HSET f v` (void), `HSET.RETURNING f v` | f not in | `put` on f |
//! | `HSET f v` (void), `HSET.RETURNING f v` | f in, with another value | `overwrite` on f |
//! | `HSET f v` (void), `HSET.RETURNING f v` | f in, with this value | `read` on f |
//! | `HDEL f` (void) / `HDEL.RETURNING f` | f in | `remove` / `remove-seen` on f |
//! | `HDEL f` (void), `HDEL.RETURNING f` | f not in | `pin-absent` on f |
//! | `HINCRBY f n` (void) | f in / not in | `add` / `add-new` on f, drawing n up or down |
//! | `HINCRBY.RETURNING f n` | f in / not in | `overwrite` / `put` on f |
//! | `HGET f`, `HMGET f` | f in / not in | `read` / `pin-absent` on f |
//! | `HEXISTS f` | f in / not in | `pin-present` / `pin-absent` on f |
//! | `HLEN`, `HKEYS` | | `read-fields` on the record |
//! | `HGETALL` | | `read-all` on the record |
//!
//! Claims on different fields never conflict. On one field, or with the record:
//!
//! | | put | overwrite | remove | remove-seen | add | add-new | pin-present | pin-absent | read | read-fields | read-all |
//! |---|---|---|---|---|---|---|---|---|---|---|---|
//! | put | x | x | x | x | x | x | | x | x | x | x |
//! | overwrite | x | x | x | x | x | x | | x | x | | x |
//! | remove | x | x | | x | x | x | x | | x | x | x |
//! | remove-seen | x | x | x | x | x | x | x | x | x | x | x |
//! | add | x | x | x | x | | | | x | x | | x |
//! | add-new | x | x | x | x | | | | x | x | x | x |
//! | pin-present | | | x | x | | | | | | | |
//! | pin-absent | x | x | | x | x | x | | | | | |
//! | read | x | x | x | x | x | x | | | | | |
//! | read-fields | x | | x | x | | x | | | | | |
//! | read-all | x | x | x | x | x | x | | | | | |
//!
//! `HLEN` commutes with everything that changes only values: an `HSET` or `HINCRBY` of a field that is in.
//!
//! **Overflow.** Draws are summed over the record, not by field, against a constant room of `NEAR` each way. While a
//! field is within `NEAR` of zero, no pending increments can overflow it. On a field further out, an increment draws
//! all the room both ways: it is then the only increment of the record, and the state it was checked against stays.
//! An increment of more than `NEAR` draws all the room in its direction: others in the same direction come before or
//! after it.

use std::collections::BTreeSet;
use std::fmt;

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

use crate::builtin::{BuiltIn, Native};
use crate::data_type::{
    Access, Arguments, DataType, Examples, Execution, Few, Method, Unique, arguments, few,
};
use crate::text::integer_of;
use crate::words;
use crate::{Bytes, Claims, Draw, Mode, Modes, OpError, Reply, Room, Scope, modes};

/// Fields, each with a value. Operations on different fields share the lock, and so do additions to one field.
///
/// `docs/types.md` says for each operation what it shares the lock with.
pub struct Dict;

/// Operations of [`Dict`].
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum DictOp {
    Set(Few<(Bytes, Bytes)>),
    SetReturning(Few<(Bytes, Bytes)>),
    Remove(Few<Bytes>),
    RemoveReturning(Few<Bytes>),
    Add(Bytes, i64),
    AddReturning(Bytes, i64),
    Get(Bytes),
    GetMany(Few<Bytes>),
    Contains(Bytes),
    Len,
    Fields,
    All,
}

/// What a field holds. Two values are equal when they read the same, such as a counted integer and the same one
/// written as text.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum DictValue {
    /// An integer that was written by counting: no parsing, no allocation.
    Int(i64),
    /// Anything else.
    Bytes(Bytes),
}

/// A change of a dict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum DictEffect {
    /// Fields that are written and fields that go, disjoint: `HSET` and `HDEL`.
    Change {
        /// What is written.
        put: Few<(Bytes, DictValue)>,
        /// What goes.
        removed: Few<Bytes>,
    },
    /// Adds to a field: `HINCRBY`.
    Add(Bytes, i64),
}

/// The content of a dict, or a partial state of it.
#[derive(Clone, Default, PartialEq)]
pub struct DictState {
    values: HashMap<Bytes, DictValue, foldhash::fast::FixedState>,
    /// Fields that are not in `values`; none in a whole dict.
    elsewhere: usize,
}

type Fields = DictState;

impl DictState {
    /// A part of a dict: some of its fields with their values, and how many more it has.
    ///
    /// What it must hold: of the fields that the operation names, and of those that its owner's effects write, add to
    /// or remove, those that are there. For `HLEN` that is none but what the effects name; for `HKEYS` and `HGETALL` it
    /// is all. With all fields it is the whole dict. Values may be [`DictValue::Bytes`], numbers too.
    pub fn partial(fields: impl IntoIterator<Item = (Bytes, DictValue)>, elsewhere: usize) -> Self {
        DictState { values: fields.into_iter().collect(), elsewhere }
    }

    /// How many fields. O(1).
    pub fn len(&self) -> usize {
        self.values.len() + self.elsewhere
    }

    /// Whether there are none. O(1).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a field, as far as the partial state says. O(1).
    pub fn get(&self, field: &[u8]) -> Option<&DictValue> {
        self.values.get(field)
    }

    /// The fields that are here with their values, in bytewise order of the fields. O(n log n).
    #[expect(clippy::disallowed_methods, reason = "sorted before anybody looks")]
    pub fn sorted(&self) -> Vec<(&Bytes, &DictValue)> {
        let mut list: Vec<_> = self.values.iter().collect();
        list.sort_unstable_by_key(|(field, _)| *field);
        list
    }

    fn contains_key(&self, field: &[u8]) -> bool {
        self.values.contains_key(field)
    }
}

impl FromIterator<(Bytes, DictValue)> for DictState {
    fn from_iter<I: IntoIterator<Item = (Bytes, DictValue)>>(fields: I) -> Self {
        DictState::partial(fields, 0)
    }
}

impl fmt::Debug for DictState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_map();
        shown.entries(&self.values);
        if self.elsewhere > 0 {
            shown.entry(&format_args!("elsewhere"), &self.elsewhere);
        }
        shown.finish()
    }
}

/// How far from zero increments of one field share its lock: 2^61. From there, 2^61 more of pending
/// increments leave room for one owner's own, and the sum still fits in 64 bits.
const NEAR: u64 = 1 << 61;

const PUT: Mode = Mode(0);
const OVERWRITE: Mode = Mode(1);
const REMOVE: Mode = Mode(2);
const REMOVE_SEEN: Mode = Mode(3);
const ADD: Mode = Mode(4);
const ADD_NEW: Mode = Mode(5);
const PIN_PRESENT: Mode = Mode(6);
const PIN_ABSENT: Mode = Mode(7);
const READ: Mode = Mode(8);
const READ_FIELDS: Mode = Mode(9);
const READ_ALL: Mode = Mode(10);

const WRITES: u16 = modes(&[PUT, OVERWRITE, REMOVE, REMOVE_SEEN, ADD, ADD_NEW]);
const NAMES: &[&str] = &[
    "put",
    "overwrite",
    "remove",
    "remove-seen",
    "add",
    "add-new",
    "pin-present",
    "pin-absent",
    "read",
    "read-fields",
    "read-all",
];

const METHODS: &[Method] = &[
    Method {
        name: "HSET",
        arguments: "field value [field value ...]",
        summary: "writes fields",
        access: Access::Write,
        returns: false,
        complexity: "O(fields given)",
    },
    Method {
        name: "HSET.RETURNING",
        arguments: "field value [field value ...]",
        summary: "writes fields; how many were new",
        access: Access::Write,
        returns: true,
        complexity: "O(fields given)",
    },
    Method {
        name: "HDEL",
        arguments: "field [field ...]",
        summary: "removes fields",
        access: Access::Write,
        returns: false,
        complexity: "O(fields given)",
    },
    Method {
        name: "HDEL.RETURNING",
        arguments: "field [field ...]",
        summary: "removes fields; how many there were",
        access: Access::Write,
        returns: true,
        complexity: "O(fields given)",
    },
    Method {
        name: "HINCRBY",
        arguments: "field increment",
        summary: "adds to the integer in a field",
        access: Access::Write,
        returns: false,
        complexity: "O(1)",
    },
    Method {
        name: "HINCRBY.RETURNING",
        arguments: "field increment",
        summary: "adds to the integer in a field; the sum",
        access: Access::Write,
        returns: true,
        complexity: "O(1)",
    },
    Method {
        name: "HGET",
        arguments: "field",
        summary: "the value of a field",
        access: Access::Read,
        returns: true,
        complexity: "O(1)",
    },
    Method {
        name: "HMGET",
        arguments: "field [field ...]",
        summary: "the values of fields, in the order asked",
        access: Access::Read,
        returns: true,
        complexity: "O(fields given)",
    },
    Method {
        name: "HEXISTS",
        arguments: "field",
        summary: "1 if the field is there, else 0",
        access: Access::Read,
        returns: true,
        complexity: "O(1)",
    },
    Method {
        name: "HLEN",
        arguments: "",
        summary: "how many fields",
        access: Access::Read,
        returns: true,
        complexity: "O(1)",
    },
    Method {
        name: "HKEYS",
        arguments: "",
        summary: "all fields, in bytewise order",
        access: Access::Read,
        returns: true,
        complexity: "O(n log n)",
    },
    Method {
        name: "HGETALL",
        arguments: "",
        summary: "all fields and their values, in bytewise order of the fields",
        access: Access::Read,
        returns: true,
        complexity: "O(n log n)",
    },
];

impl DataType for Dict {
    const NAME: &'static str = "dict";
    const SUMMARY: &'static str = "fields with a value each";
    const NATIVE: &'static str = "hash";
    const METHODS: &'static [Method] = METHODS;
    const MODES: Modes = Modes {
        names: NAMES,
        conflicts: &[
            WRITES | modes(&[PIN_ABSENT, READ, READ_FIELDS, READ_ALL]),
            WRITES | modes(&[PIN_ABSENT, READ, READ_ALL]),
            modes(&[PUT, OVERWRITE, REMOVE_SEEN, ADD, ADD_NEW, PIN_PRESENT, READ, READ_FIELDS, READ_ALL]),
            WRITES | modes(&[PIN_PRESENT, PIN_ABSENT, READ, READ_FIELDS, READ_ALL]),
            modes(&[PUT, OVERWRITE, REMOVE, REMOVE_SEEN, PIN_ABSENT, READ, READ_ALL]),
            modes(&[PUT, OVERWRITE, REMOVE, REMOVE_SEEN, PIN_ABSENT, READ, READ_FIELDS, READ_ALL]),
            modes(&[REMOVE, REMOVE_SEEN]),
            modes(&[PUT, OVERWRITE, REMOVE_SEEN, ADD, ADD_NEW]),
            WRITES,
            modes(&[PUT, REMOVE, REMOVE_SEEN, ADD_NEW]),
            WRITES,
        ],
        removing: modes(&[REMOVE, REMOVE_SEEN]),
        clearing: 0,
    };

    type State = Fields;
    type Op = DictOp;
    type Effect = DictEffect;

    fn parse(method: &str, given: Arguments<'_>) -> Result<DictOp, OpError> {
        let op = match (method, given) {
            ("HSET", [_, _, ..]) if given.len().is_multiple_of(2) => DictOp::Set(pairs(given)),
            ("HSET.RETURNING", [_, _, ..]) if given.len().is_multiple_of(2) => {
                DictOp::SetReturning(pairs(given))
            }
            ("HDEL", [_, ..]) => DictOp::Remove(given.into()),
            ("HDEL.RETURNING", [_, ..]) => DictOp::RemoveReturning(given.into()),
            ("HINCRBY", [field, amount]) => DictOp::Add(field.clone(), arguments::int(amount)?),
            ("HINCRBY.RETURNING", [field, amount]) => {
                DictOp::AddReturning(field.clone(), arguments::int(amount)?)
            }
            ("HGET", [field]) => DictOp::Get(field.clone()),
            ("HMGET", [_, ..]) => DictOp::GetMany(given.into()),
            ("HEXISTS", [field]) => DictOp::Contains(field.clone()),
            ("HLEN", []) => DictOp::Len,
            ("HKEYS", []) => DictOp::Fields,
            ("HGETALL", []) => DictOp::All,
            _ => return Err(OpError::misuse(METHODS, method)),
        };
        Ok(op)
    }

    fn method(op: &DictOp) -> &'static Method {
        match op {
            DictOp::Set(_) => &METHODS[0],
            DictOp::SetReturning(_) => &METHODS[1],
            DictOp::Remove(_) => &METHODS[2],
            DictOp::RemoveReturning(_) => &METHODS[3],
            DictOp::Add(..) => &METHODS[4],
            DictOp::AddReturning(..) => &METHODS[5],
            DictOp::Get(_) => &METHODS[6],
            DictOp::GetMany(_) => &METHODS[7],
            DictOp::Contains(_) => &METHODS[8],
            DictOp::Len => &METHODS[9],
            DictOp::Fields => &METHODS[10],
            DictOp::All => &METHODS[11],
        }
    }

    fn arguments(op: &DictOp) -> Few<Bytes> {
        match op {
            DictOp::Set(list) | DictOp::SetReturning(list) => {
                let mut flat = Few::with_capacity(2 * list.len());
                for (field, value) in list {
                    flat.push(field.clone());
                    flat.push(value.clone());
                }
                flat
            }
            DictOp::Remove(list) | DictOp::RemoveReturning(list) | DictOp::GetMany(list) => list.clone(),
            DictOp::Add(field, amount) | DictOp::AddReturning(field, amount) => {
                few([field.clone(), arguments::of_int(*amount)])
            }
            DictOp::Get(field) | DictOp::Contains(field) => few([field.clone()]),
            DictOp::Len | DictOp::Fields | DictOp::All => Few::new(),
        }
    }

    fn size(op: &DictOp) -> usize {
        match op {
            DictOp::Set(list) | DictOp::SetReturning(list) => {
                list.iter().map(|(field, value)| field.len().max(value.len())).max().unwrap_or(0)
            }
            DictOp::Remove(list) | DictOp::RemoveReturning(list) | DictOp::GetMany(list) => {
                list.iter().map(|field| field.len()).max().unwrap_or(0)
            }
            DictOp::Add(field, _)
            | DictOp::AddReturning(field, _)
            | DictOp::Get(field)
            | DictOp::Contains(field) => field.len(),
            DictOp::Len | DictOp::Fields | DictOp::All => 0,
        }
    }

    fn is_absent(state: &Fields) -> bool {
        state.is_empty()
    }

    fn is_total(op: &DictOp) -> bool {
        // A sum may be too large, and a field no number.
        !matches!(op, DictOp::Add(..) | DictOp::AddReturning(..))
    }

    fn is_blind(op: &DictOp) -> bool {
        matches!(op, DictOp::Set(_))
    }

    fn footprint(op: &DictOp) -> Claims {
        let one = |field: &Bytes, modes: &[Mode]| each(std::iter::once(field), modes);
        match op {
            DictOp::Set(list) | DictOp::SetReturning(list) => {
                each(list.iter().map(|(field, _)| field), &[PUT, OVERWRITE, READ])
            }
            DictOp::Remove(list) => each(list.iter(), &[REMOVE, PIN_ABSENT]),
            DictOp::RemoveReturning(list) => each(list.iter(), &[REMOVE_SEEN, PIN_ABSENT]),
            DictOp::Add(field, _) => one(field, &[ADD, ADD_NEW]).drawing(Draw { down: NEAR, up: NEAR }),
            DictOp::AddReturning(field, _) => one(field, &[PUT, OVERWRITE]),
            DictOp::Get(field) => one(field, &[READ, PIN_ABSENT]),
            DictOp::GetMany(list) => each(list.iter(), &[READ, PIN_ABSENT]),
            DictOp::Contains(field) => one(field, &[PIN_PRESENT, PIN_ABSENT]),
            DictOp::Len | DictOp::Fields => Claims::record(READ_FIELDS),
            DictOp::All => Claims::record(READ_ALL),
        }
    }

    fn execute(state: &Fields, op: &DictOp, _: Unique) -> Result<Execution<DictEffect>, OpError> {
        let execution = match op {
            DictOp::Set(list) => Execution { reply: Reply::Ok, ..put(state, list) },
            DictOp::SetReturning(list) => put(state, list),
            DictOp::Remove(list) => Execution { reply: Reply::Ok, ..remove(state, list, REMOVE) },
            DictOp::RemoveReturning(list) => remove(state, list, REMOVE_SEEN),
            DictOp::Add(field, amount) => add(state, field, *amount)?,
            DictOp::AddReturning(field, amount) => {
                let mode = if state.contains_key(field) { OVERWRITE } else { PUT };
                let reply = Reply::Int(sum(state, field, *amount)?);
                let effect = DictEffect::Add(field.clone(), *amount);
                Execution::returning(reply, effect, Claims::element(field, mode))
            }
            DictOp::Get(field) => {
                let mut claims = Claims::none();
                Execution::read(value(state, field, &mut claims), claims)
            }
            DictOp::GetMany(list) => {
                let mut claims = Claims::none();
                let values = list.iter().map(|field| value(state, field, &mut claims)).collect();
                Execution::read(Reply::Array(values), claims)
            }
            DictOp::Contains(field) => {
                let is_in = state.contains_key(field);
                let pin = if is_in { PIN_PRESENT } else { PIN_ABSENT };
                Execution::read(Reply::bool(is_in), Claims::element(field, pin))
            }
            DictOp::Len => Execution::read(Reply::count(state.len()), Claims::record(READ_FIELDS)),
            DictOp::Fields => {
                let fields = all(state).into_iter().map(|(field, _)| Reply::Bytes(field.clone()));
                Execution::read(Reply::Array(fields.collect()), Claims::record(READ_FIELDS))
            }
            DictOp::All => {
                let pairs = all(state)
                    .into_iter()
                    .flat_map(|(field, value)| [Reply::Bytes(field.clone()), Reply::Bytes(value.to_bytes())]);
                Execution::read(Reply::Array(pairs.collect()), Claims::record(READ_ALL))
            }
        };
        Ok(execution)
    }

    fn room(_: &Fields) -> Room {
        Room { down: NEAR, up: NEAR }
    }

    fn apply(state: &mut Fields, effect: DictEffect) -> DictEffect {
        let (mut restored, mut unmade) = (Few::new(), Few::new());
        let mut undo = |field: Bytes, before: Option<DictValue>| match before {
            Some(value) => restored.push((field, value)),
            None => unmade.push(field),
        };
        match effect {
            DictEffect::Add(field, amount) => {
                let sum = sum(state, &field, amount).expect("the draw kept the room");
                let before = state.values.insert(field.clone(), DictValue::Int(sum));
                undo(field, before);
            }
            DictEffect::Change { put, removed } => {
                // Of two transactions that remove one field, the second finds it gone: nothing to undo.
                for field in removed {
                    if let Some(before) = state.values.remove(&field) {
                        undo(field, Some(before));
                    }
                }
                for (field, value) in put {
                    let before = state.values.insert(field.clone(), value);
                    undo(field, before);
                }
            }
        }
        DictEffect::Change { put: restored, removed: unmade }
    }

    fn combine(held: &DictOp, answer: &Reply, op: &DictOp) -> Option<Reply> {
        match (held, op, answer) {
            _ if held == op => Some(answer.clone()),
            (DictOp::All, _, Reply::Array(flat)) => combine_all(flat, op),
            (DictOp::Fields, DictOp::Len, Reply::Array(fields)) => Some(Reply::count(fields.len())),
            (DictOp::Fields, DictOp::Contains(field), Reply::Array(fields)) => {
                Some(Reply::bool(fields.contains(&Reply::Bytes(field.clone()))))
            }
            (DictOp::Get(read), DictOp::Contains(field), _) if read == field => {
                Some(Reply::bool(*answer != Reply::Nil))
            }
            _ => None,
        }
    }
}

impl DictValue {
    /// The bytes that `HGET` shows.
    pub fn to_bytes(&self) -> Bytes {
        match self {
            DictValue::Int(value) => Bytes::from(value.to_string()),
            DictValue::Bytes(bytes) => bytes.clone(),
        }
    }

    fn as_int(&self) -> Result<i64, OpError> {
        match self {
            DictValue::Int(value) => Ok(*value),
            DictValue::Bytes(bytes) => integer_of(bytes),
        }
    }

    fn reads(&self, bytes: &Bytes) -> bool {
        match self {
            DictValue::Int(value) => integer_of(bytes) == Ok(*value),
            DictValue::Bytes(own) => own == bytes,
        }
    }
}

impl PartialEq for DictValue {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (DictValue::Int(a), DictValue::Int(b)) => a == b,
            (value, DictValue::Bytes(bytes)) | (DictValue::Bytes(bytes), value) => value.reads(bytes),
        }
    }
}

impl<T: Into<Bytes>> From<T> for DictValue {
    fn from(bytes: T) -> Self {
        DictValue::Bytes(bytes.into())
    }
}

/// Of an even number of arguments.
fn pairs(given: &[Bytes]) -> Few<(Bytes, Bytes)> {
    given.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}

fn each<'a>(fields: impl Iterator<Item = &'a Bytes>, modes: &[Mode]) -> Claims {
    let mut claims = Claims::none();
    for field in fields {
        for mode in modes {
            claims.push(Scope::element(field), *mode);
        }
    }
    claims
}

fn put(state: &Fields, list: &[(Bytes, Bytes)]) -> Execution<DictEffect> {
    let mut claims = Claims::none();
    let mut put: Few<(Bytes, DictValue)> = Few::new();
    let mut fresh = 0;
    for (i, (field, value)) in list.iter().enumerate() {
        // The last value of a field that is named twice counts.
        if list[i + 1..].iter().any(|(later, _)| later == field) {
            continue;
        }
        let mode = match state.get(field) {
            None => PUT,
            Some(held) if held.reads(value) => READ,
            Some(_) => OVERWRITE,
        };
        claims.push(Scope::element(field), mode);
        fresh += usize::from(mode == PUT);
        if mode != READ {
            put.push((field.clone(), DictValue::Bytes(value.clone())));
        }
    }
    let effect = (!put.is_empty()).then(|| DictEffect::Change { put, removed: Few::new() });
    Execution { reply: Reply::count(fresh), effect, claims }
}

fn remove(state: &Fields, list: &[Bytes], taken: Mode) -> Execution<DictEffect> {
    let mut claims = Claims::none();
    let mut removed = Few::new();
    for field in list {
        if !state.contains_key(field) {
            claims.push(Scope::element(field), PIN_ABSENT);
        } else if !removed.contains(field) {
            claims.push(Scope::element(field), taken);
            removed.push(field.clone());
        }
    }
    let reply = Reply::count(removed.len());
    let effect = (!removed.is_empty()).then(|| DictEffect::Change { put: Few::new(), removed });
    Execution { reply, effect, claims }
}

fn sum(state: &Fields, field: &Bytes, amount: i64) -> Result<i64, OpError> {
    let value = state.get(field).map_or(Ok(0), DictValue::as_int)?;
    value.checked_add(amount).ok_or_else(|| {
        OpError::Overflow("the field".into(), format!("'{field}' is {value}, adding {amount}"))
    })
}

fn add(state: &Fields, field: &Bytes, amount: i64) -> Result<Execution<DictEffect>, OpError> {
    let after = sum(state, field, amount)?;
    let value = after - amount;
    let distance = amount.unsigned_abs().min(NEAR);
    let draw = match amount {
        _ if value.unsigned_abs() > NEAR => Draw { down: NEAR, up: NEAR },
        0.. => Draw { down: 0, up: distance },
        _ => Draw { down: distance, up: 0 },
    };
    let mode = if state.contains_key(field) { ADD } else { ADD_NEW };
    let claims = Claims::element(field, mode).drawing(draw);
    Ok(Execution::void(DictEffect::Add(field.clone(), amount), claims))
}

fn value(state: &Fields, field: &Bytes, claims: &mut Claims) -> Reply {
    let (mode, reply) = match state.get(field) {
        Some(value) => (READ, Reply::Bytes(value.to_bytes())),
        None => (PIN_ABSENT, Reply::Nil),
    };
    claims.push(Scope::element(field), mode);
    reply
}

/// The fields of a whole dict.
fn all(state: &Fields) -> Vec<(&Bytes, &DictValue)> {
    assert_eq!(state.elsewhere, 0, "HKEYS and HGETALL read all fields");
    state.sorted()
}

/// Answers from what `HGETALL` answered.
fn combine_all(flat: &[Reply], op: &DictOp) -> Option<Reply> {
    let find = |field: &Bytes| {
        let mut pairs = flat.chunks_exact(2);
        pairs.find(|pair| pair[0] == Reply::Bytes(field.clone())).map(|pair| pair[1].clone())
    };
    match op {
        DictOp::Get(field) => Some(find(field).unwrap_or_default()),
        DictOp::GetMany(list) => {
            Some(Reply::Array(list.iter().map(|field| find(field).unwrap_or_default()).collect()))
        }
        DictOp::Contains(field) => Some(Reply::bool(find(field).is_some())),
        DictOp::Len => Some(Reply::count(flat.len() / 2)),
        DictOp::Fields => Some(Reply::Array(flat.iter().step_by(2).cloned().collect())),
        _ => None,
    }
}

impl Examples for Dict {
    fn states() -> Vec<Fields> {
        let far = NEAR as i64;
        [
            &[][..],
            &[("x", DictValue::Int(1))],
            &[("x", "a".into())],
            &[("x", "1".into()), ("y", "a".into())],
            &[("x", DictValue::Int(far))],
            &[("x", DictValue::Int(i64::MAX - 2)), ("y", DictValue::Int(i64::MIN + 2))],
        ]
        .iter()
        .map(|list| list.iter().map(|(field, value)| (Bytes::from(*field), value.clone())).collect())
        .collect()
    }

    fn operations() -> Vec<DictOp> {
        let few = |list: &[&str]| list.iter().map(|field| Bytes::from(*field)).collect::<Few<Bytes>>();
        let pairs = |list: &[(&str, &str)]| {
            list.iter().map(|(field, value)| (Bytes::from(*field), Bytes::from(*value))).collect::<Few<_>>()
        };
        let mut operations = vec![DictOp::Len, DictOp::Fields, DictOp::All];
        for value in ["1", "a"] {
            operations.push(DictOp::Set(pairs(&[("x", value)])));
            operations.push(DictOp::SetReturning(pairs(&[("x", value)])));
        }
        for amount in [1, 2, -2, i64::MAX - 4] {
            operations.push(DictOp::Add("x".into(), amount));
        }
        for field in ["x", "y"] {
            operations.push(DictOp::Remove(few(&[field])));
            operations.push(DictOp::Get(field.into()));
            operations.push(DictOp::Contains(field.into()));
        }
        operations.push(DictOp::AddReturning("x".into(), 1));
        operations.push(DictOp::RemoveReturning(few(&["x"])));
        operations.push(DictOp::RemoveReturning(few(&["x", "y"])));
        operations.push(DictOp::Set(pairs(&[("x", "a"), ("y", "a")])));
        operations.push(DictOp::GetMany(few(&["x", "y"])));
        operations.push(DictOp::Add("y".into(), 1));
        operations
    }
}

impl BuiltIn for Dict {
    const SHARING: &'static str = "different fields; increments of one field";
    const READS_ALL: &'static [&'static str] = &["HGETALL"];

    fn native(state: &DictState) -> Native {
        let pairs = state.sorted().into_iter();
        Native::Hash(pairs.map(|(field, value)| (field.clone(), value.to_bytes())).collect())
    }

    fn of_words(words: &[Bytes]) -> Result<Option<DictState>, OpError> {
        let pair = |pair: &[Bytes]| (pair[0].clone(), DictValue::Bytes(pair[1].clone()));
        let state = DictState::partial(words::pairs(words)?.map(pair), 0);
        Ok((!words.is_empty()).then_some(state))
    }

    fn elements(state: &DictState) -> usize {
        state.len()
    }

    fn part(whole: &DictState, op: &DictOp, own: &[&DictEffect]) -> DictState {
        let mut names: BTreeSet<&Bytes> = match op {
            DictOp::Set(list) | DictOp::SetReturning(list) => list.iter().map(|(field, _)| field).collect(),
            DictOp::Remove(list) | DictOp::RemoveReturning(list) | DictOp::GetMany(list) => {
                list.iter().collect()
            }
            DictOp::Add(field, _)
            | DictOp::AddReturning(field, _)
            | DictOp::Get(field)
            | DictOp::Contains(field) => BTreeSet::from([field]),
            DictOp::Len => BTreeSet::new(),
            DictOp::Fields | DictOp::All => return whole.clone(),
        };
        for effect in own {
            match effect {
                DictEffect::Add(field, _) => drop(names.insert(field)),
                DictEffect::Change { put, removed } => {
                    names.extend(put.iter().map(|(field, _)| field).chain(removed));
                }
            }
        }
        let here: Vec<_> =
            names.into_iter().filter_map(|name| Some((name.clone(), whole.get(name)?.clone()))).collect();
        let elsewhere = whole.len() - here.len();
        DictState::partial(here, elsewhere)
    }
}
