//! Document: a JSON value whose places are read and written one by one. Native Redis type: hash.
//!
//! The hash has a field for each value without members and one for each object, named by its path: an object stays when
//! its last member goes. An array is one value. The field `$`, the root, is in every document and tells it from other hashes.
//!
//! # Commutativity specification
//!
//! A call claims a mode on its place `p`, one on the object that `p` is in (*parent*), and one on each object around that
//! (*above*). So two calls meet where one's place is around the other's, and the modes there say what comes of it. "p in"
//! means that there is something at p, including the transaction's own earlier changes.
//!
//! | operation | when | on p | parent | above |
//! |---|---|---|---|---|
//! | `JSON.SET p v` (void) | p not in | `write` | `member` | `inner` |
//! | `JSON.SET p v` (void) | p in, with another value | `write` | `inner` | `inner` |
//! | `JSON.SET p v` (void) | p in, with this value | `read` | `through` | `through` |
//! | `JSON.DEL p` (void) / `JSON.DEL.RETURNING p` | p in | `remove` / `write` | `member` | `inner` |
//! | `JSON.DEL $`, `JSON.DEL.RETURNING $` | $ in | `end` | | |
//! | `JSON.DEL p`, `JSON.DEL.RETURNING p` | p not in | `pin-absent` | `through` | `through` |
//! | `JSON.NUMINCRBY p n` (void) | both are integers | `add`, drawing n up or down | `inner` | `inner` |
//! | `JSON.NUMINCRBY p n` (void) | one is a float | `write` | `inner` | `inner` |
//! | `JSON.NUMINCRBY.RETURNING p n` | | `write` | `inner` | `inner` |
//! | `JSON.STRAPPEND`, `JSON.ARRAPPEND` and theirs with `.RETURNING` | | `write` | `inner` | `inner` |
//! | `JSON.GET p` | p in / not in | `read` / `pin-absent` | `through` | `through` |
//! | `JSON.TYPE p` | p in / not in | `pin-kind` / `pin-absent` | `through` | `through` |
//! | `JSON.OBJKEYS p` | an object / another value / not in | `keys` / `pin-kind` / `pin-absent` | `through` | `through` |
//! | `JSON.MERGE p v` (void) | | for each place in v, what a `JSON.SET` or `JSON.DEL` of it claims; `pin-kind` where `{}` meets an object | | |
//!
//! A patch that counts for more than 512, an object with members as 1 and any other place as its depth, claims `write` on p, as
//! one that changes all of it. An append of nothing claims `read`.
//!
//! Claims on different places never conflict. On one:
//!
//! | | write | remove | add | read | pin-absent | pin-kind | keys | inner | member | through | end |
//! |---|---|---|---|---|---|---|---|---|---|---|---|
//! | write | x | x | x | x | x | x | x | x | x | x | x |
//! | remove | x | | x | x | | x | x | x | x | x | x |
//! | add | x | x | | x | x | | | | | | x |
//! | read | x | x | x | | | | | x | x | | x |
//! | pin-absent | x | | x | | | | | | | | x |
//! | pin-kind | x | x | | | | | | | | | x |
//! | keys | x | x | | | | | | | x | | x |
//! | inner | x | x | | x | | | | | | | x |
//! | member | x | x | | x | | | x | | | | x |
//! | through | x | x | | | | | | | | | x |
//! | end | x | x | x | x | x | x | x | x | x | x | x |
//!
//! **Parent and child.** `JSON.SET $.a 1` and `JSON.SET $.a.b 2` write two fields. `inner` on `$.a` is what keeps them apart.
//!
//! **The emptied object.** Two calls that remove the last two members of an object each remove their own field, and leave the
//! object's.
//!
//! **Overflow.** As in a [`Dict`](crate::Dict): draws are summed over the record, against 2^61 each way.

use serde::{Deserialize, Serialize};

use crate::data_type::{Access, Arguments, DataType, Execution, Few, Method, Unique, few};
use crate::{Bytes, Claims, Draw, Mode, Modes, OpError, Reply, Room, modes};

mod built_in;
mod deciding;
mod examples;
mod json;
mod path;
mod state;

pub use json::Json;
pub use path::{DEPTH_MAX, PATH_BYTES_MAX, Path};
pub use state::{DocumentState, Node};

/// A JSON value whose places are read and written one by one. Operations on different places share the lock, and so do
/// additions to one number.
///
/// `docs/types.md` says for each operation what it shares the lock with.
pub struct Document;

/// A number that is added.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Number {
    Int(i64),
    /// Finite.
    Float(f64),
}

impl Number {
    fn to_float(self) -> f64 {
        match self {
            Number::Int(value) => value as f64,
            Number::Float(value) => value,
        }
    }

    /// As JSON; `null` if it is not finite.
    pub fn to_text(self) -> Bytes {
        match self {
            Number::Int(value) => Json::Int(value),
            Number::Float(value) => Json::Float(value),
        }
        .to_text()
    }
}

impl From<i64> for Number {
    fn from(value: i64) -> Self {
        Number::Int(value)
    }
}

impl From<i32> for Number {
    fn from(value: i32) -> Self {
        Number::Int(value.into())
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Self {
        Number::Float(value)
    }
}

/// Operations of [`Document`]. [`DocumentOp::new`] makes them.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum DocumentOp {
    Set(Path, Json),
    Get(Path),
    Delete {
        path: Path,
        returning: bool,
    },
    Add {
        path: Path,
        amount: Number,
        returning: bool,
    },
    AppendText {
        path: Path,
        text: String,
        returning: bool,
    },
    AppendItems {
        path: Path,
        items: Vec<Json>,
        returning: bool,
    },
    Kind(Path),
    Keys(Path),
    Merge(Path, Json),
    /// A call whose arguments are wrong: it is refused before anything is sent.
    Refused {
        method: &'static str,
        error: OpError,
    },
}

/// A change of a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum DocumentEffect {
    /// Fields that are written and fields that go, disjoint.
    Change {
        /// What is written.
        put: Few<(Bytes, Node)>,
        /// What goes.
        removed: Few<Bytes>,
    },
    /// Adds to the integer of a field.
    Add(Bytes, i64),
}

impl DocumentOp {
    /// A call by its name and arguments, such as `JSON.SET` with a path and a JSON text. If the arguments are wrong, it is an
    /// operation that is refused with that error.
    ///
    /// # Panics
    /// If a document has no such method.
    pub fn new(method: &str, arguments: Arguments<'_>) -> Self {
        Document::parse(method, arguments).unwrap_or_else(|error| DocumentOp::Refused {
            method: METHODS.iter().find(|it| it.name == method).expect("a method of documents").name,
            error,
        })
    }

    /// The fields that it needs of a record, and whether with all that is in them if they are objects: for hosts that load
    /// records in part ([`DocumentState::partial`]). The root is always needed.
    pub fn looks_at(&self) -> Vec<(Bytes, bool)> {
        let parent = |path: &Path| path.ancestors().next().map(|parent| (Bytes::from(parent), false));
        let one =
            |path: &Path, within| parent(path).into_iter().chain([(path.text().clone(), within)]).collect();
        match self {
            DocumentOp::Set(path, _)
            | DocumentOp::Get(path)
            | DocumentOp::Delete { path, .. }
            | DocumentOp::Keys(path) => one(path, true),
            DocumentOp::Add { path, .. }
            | DocumentOp::AppendText { path, .. }
            | DocumentOp::AppendItems { path, .. }
            | DocumentOp::Kind(path) => one(path, false),
            DocumentOp::Merge(path, patch) => {
                let mut all = Vec::from_iter(parent(path));
                let mut each = |place: &Path, part: &Json| {
                    all.push((place.text().clone(), !matches!(part, Json::Object(_))));
                };
                deciding::visit(path, patch, &mut each).expect("it was read, so each path fits");
                all
            }
            DocumentOp::Refused { .. } => Vec::new(),
        }
    }
}

/// How far from zero increments of one number share its lock, as in a dict: 2^61.
const NEAR: u64 = 1 << 61;

const WRITE: Mode = Mode(0);
const REMOVE: Mode = Mode(1);
const ADD: Mode = Mode(2);
const READ: Mode = Mode(3);
const PIN_ABSENT: Mode = Mode(4);
const PIN_KIND: Mode = Mode(5);
const KEYS: Mode = Mode(6);
const INNER: Mode = Mode(7);
const MEMBER: Mode = Mode(8);
const THROUGH: Mode = Mode(9);
const END: Mode = Mode(10);

const ALL: u16 = modes(&[WRITE, REMOVE, ADD, READ, PIN_ABSENT, PIN_KIND, KEYS, INNER, MEMBER, THROUGH, END]);

const NAMES: &[&str] = &[
    "write",
    "remove",
    "add",
    "read",
    "pin-absent",
    "pin-kind",
    "keys",
    "inner",
    "member",
    "through",
    "end",
];

const fn method(
    name: &'static str,
    arguments: &'static str,
    summary: &'static str,
    (access, returns): (Access, bool),
    complexity: &'static str,
) -> Method {
    Method { name, arguments, summary, access, returns, complexity }
}

const VOID: (Access, bool) = (Access::Write, false);
const TELLS: (Access, bool) = (Access::Write, true);
const READS: (Access, bool) = (Access::Read, true);

const METHODS: &[Method] = &[
    method("JSON.SET", "path json", "writes a value at a place", VOID, "O(what is written and replaced)"),
    method("JSON.GET", "[path]", "the JSON at a place", READS, "O(what is there)"),
    method("JSON.DEL", "[path]", "removes a place and all in it", VOID, "O(what is there)"),
    method(
        "JSON.DEL.RETURNING",
        "[path]",
        "removes a place and all in it; 1 if there was something, else 0",
        TELLS,
        "O(what is there)",
    ),
    method("JSON.NUMINCRBY", "path number", "adds to the number at a place", VOID, "O(1)"),
    method(
        "JSON.NUMINCRBY.RETURNING",
        "path number",
        "adds to the number at a place; the sum",
        TELLS,
        "O(1)",
    ),
    method("JSON.STRAPPEND", "path json-string", "appends to the string at a place", VOID, "O(its length)"),
    method(
        "JSON.STRAPPEND.RETURNING",
        "path json-string",
        "appends to the string at a place; how many bytes it has",
        TELLS,
        "O(its length)",
    ),
    method(
        "JSON.ARRAPPEND",
        "path json [json ...]",
        "appends to the array at a place",
        VOID,
        "O(its length)",
    ),
    method(
        "JSON.ARRAPPEND.RETURNING",
        "path json [json ...]",
        "appends to the array at a place; how many elements it has",
        TELLS,
        "O(its length)",
    ),
    method("JSON.TYPE", "[path]", "the type of what is at a place", READS, "O(1)"),
    method(
        "JSON.OBJKEYS",
        "[path]",
        "the names in the object at a place, in bytewise order",
        READS,
        "O(what is there)",
    ),
    method(
        "JSON.MERGE",
        "path json",
        "merges JSON into a place: null removes",
        VOID,
        "O(what is merged and replaced)",
    ),
];

impl DataType for Document {
    const NAME: &'static str = "document";
    const SUMMARY: &'static str = "JSON whose places are read and written one by one";
    const NATIVE: &'static str = "hash";
    const METHODS: &'static [Method] = METHODS;
    const MODES: Modes = Modes {
        names: NAMES,
        conflicts: &[
            ALL,
            modes(&[WRITE, ADD, READ, PIN_KIND, KEYS, INNER, MEMBER, THROUGH, END]),
            modes(&[WRITE, REMOVE, READ, PIN_ABSENT, END]),
            modes(&[WRITE, REMOVE, ADD, INNER, MEMBER, END]),
            modes(&[WRITE, ADD, END]),
            modes(&[WRITE, REMOVE, END]),
            modes(&[WRITE, REMOVE, MEMBER, END]),
            modes(&[WRITE, REMOVE, READ, END]),
            modes(&[WRITE, REMOVE, READ, KEYS, END]),
            modes(&[WRITE, REMOVE, END]),
            ALL,
        ],
        removing: modes(&[END]),
        clearing: 0,
    };

    type State = DocumentState;
    type Op = DocumentOp;
    type Effect = DocumentEffect;

    fn parse(method: &str, given: Arguments<'_>) -> Result<DocumentOp, OpError> {
        let (name, returning) = match method.strip_suffix(".RETURNING") {
            Some(name) => (name, true),
            None => (method, false),
        };
        if !METHODS.iter().any(|known| known.name == method) {
            return Err(OpError::misuse(METHODS, method));
        }
        let op = match (name, given) {
            ("JSON.SET", [path, json]) => {
                let (path, value) = placed(path, json)?;
                DocumentOp::Set(path, value)
            }
            ("JSON.MERGE", [path, json]) => {
                let (path, patch) = placed(path, json)?;
                DocumentOp::Merge(path, patch)
            }
            ("JSON.NUMINCRBY", [path, amount]) => {
                DocumentOp::Add { path: Path::parse(path)?, amount: number(amount)?, returning }
            }
            ("JSON.STRAPPEND", [path, text]) => {
                DocumentOp::AppendText { path: Path::parse(path)?, text: string(text)?, returning }
            }
            ("JSON.ARRAPPEND", [path, items @ ..]) if !items.is_empty() => {
                let path = Path::parse(path)?;
                let items: Vec<Json> = items.iter().map(Json::parse).collect::<Result<_, _>>()?;
                items.iter().try_for_each(|item| check_item(&path, item))?;
                DocumentOp::AppendItems { path, items, returning }
            }
            ("JSON.GET", [] | [_]) => DocumentOp::Get(place(given)?),
            ("JSON.DEL", [] | [_]) => DocumentOp::Delete { path: place(given)?, returning },
            ("JSON.TYPE", [] | [_]) => DocumentOp::Kind(place(given)?),
            ("JSON.OBJKEYS", [] | [_]) => DocumentOp::Keys(place(given)?),
            _ => return Err(OpError::misuse(METHODS, method)),
        };
        Ok(op)
    }

    fn method(op: &DocumentOp) -> &'static Method {
        let at = |void: usize, returning: bool| &METHODS[void + usize::from(returning)];
        match op {
            DocumentOp::Set(..) => &METHODS[0],
            DocumentOp::Get(_) => &METHODS[1],
            DocumentOp::Delete { returning, .. } => at(2, *returning),
            DocumentOp::Add { returning, .. } => at(4, *returning),
            DocumentOp::AppendText { returning, .. } => at(6, *returning),
            DocumentOp::AppendItems { returning, .. } => at(8, *returning),
            DocumentOp::Kind(_) => &METHODS[10],
            DocumentOp::Keys(_) => &METHODS[11],
            DocumentOp::Merge(..) => &METHODS[12],
            DocumentOp::Refused { method, .. } => crate::method_named(METHODS, method),
        }
    }

    fn arguments(op: &DocumentOp) -> Few<Bytes> {
        match op {
            DocumentOp::Set(path, value) | DocumentOp::Merge(path, value) => {
                few([path.text().clone(), value.to_text()])
            }
            DocumentOp::Add { path, amount, .. } => few([path.text().clone(), amount.to_text()]),
            DocumentOp::AppendText { path, text, .. } => {
                few([path.text().clone(), Bytes::from(json::quoted(text))])
            }
            DocumentOp::AppendItems { path, items, .. } => {
                std::iter::once(path.text().clone()).chain(items.iter().map(Json::to_text)).collect()
            }
            DocumentOp::Get(path)
            | DocumentOp::Delete { path, .. }
            | DocumentOp::Kind(path)
            | DocumentOp::Keys(path) => few([path.text().clone()]),
            DocumentOp::Refused { .. } => Few::new(),
        }
    }

    fn check(op: &DocumentOp) -> Result<(), OpError> {
        match op {
            DocumentOp::Refused { error, .. } => Err(error.clone()),
            DocumentOp::Set(path, value) | DocumentOp::Merge(path, value) => {
                check_fits(path, value)?;
                check_finite(value)
            }
            DocumentOp::AppendItems { path, items, .. } => items.iter().try_for_each(|item| {
                check_item(path, item)?;
                check_finite(item)
            }),
            DocumentOp::Add { amount: Number::Float(amount), .. } if !amount.is_finite() => {
                Err(not_a_number(&amount.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// All the fields that are written, with their names.
    fn size(op: &DocumentOp) -> usize {
        match op {
            DocumentOp::Set(path, value) | DocumentOp::Merge(path, value) => {
                let mut size = 0;
                let mut each = |place: &Path, part: &Json| {
                    size += place.text().len()
                        + if let Json::Object(_) = part { 2 } else { part.to_text().len() };
                };
                // One that does not fit is refused for that.
                deciding::visit(path, value, &mut each).map_or(0, |()| size)
            }
            // The value that it grows to, of which this is the bound.
            DocumentOp::AppendText { text, .. } => text.len().max(deciding::GROWN_BYTES_MAX),
            DocumentOp::AppendItems { items, .. } => {
                let items: usize = items.iter().map(|item| item.to_text().len()).sum();
                items.max(deciding::GROWN_BYTES_MAX)
            }
            _ => 0,
        }
    }

    fn is_absent(state: &DocumentState) -> bool {
        state.is_empty()
    }

    fn footprint(op: &DocumentOp) -> Claims {
        let mut claims = Claims::none();
        let mut at = |path: &Path, modes: &[Mode]| deciding::at_most(&mut claims, path, modes);
        match op {
            DocumentOp::Set(path, _) => at(path, &[WRITE, READ]),
            DocumentOp::AppendText { path, .. } => {
                deciding::at_most_of_change(&mut claims, path, &[WRITE, READ]);
            }
            DocumentOp::AppendItems { path, .. } => {
                deciding::at_most_of_change(&mut claims, path, &[WRITE]);
            }
            DocumentOp::Get(path) => at(path, &[READ, PIN_ABSENT]),
            DocumentOp::Kind(path) => at(path, &[PIN_KIND, PIN_ABSENT]),
            DocumentOp::Keys(path) => at(path, &[KEYS, PIN_KIND, PIN_ABSENT]),
            DocumentOp::Delete { path, returning } => {
                let mode = if *returning && !path.is_root() { WRITE } else { deciding::removal(path) };
                at(path, &[mode, PIN_ABSENT]);
            }
            DocumentOp::Add { path, amount: Number::Int(_), returning: false } => {
                deciding::at_most_of_change(&mut claims, path, &[ADD, WRITE]);
                return claims.drawing(Draw { down: NEAR, up: NEAR });
            }
            DocumentOp::Add { path, .. } => {
                deciding::at_most_of_change(&mut claims, path, &[WRITE]);
            }
            DocumentOp::Merge(path, patch) => deciding::at_most_of_merge(&mut claims, path, patch),
            DocumentOp::Refused { .. } => {}
        }
        claims
    }

    fn execute(
        state: &DocumentState,
        op: &DocumentOp,
        _: Unique,
    ) -> Result<Execution<DocumentEffect>, OpError> {
        match op {
            DocumentOp::Set(path, value) => deciding::set(state, path, value),
            DocumentOp::Get(path) => deciding::get(state, path),
            DocumentOp::Delete { path, returning } => deciding::delete(state, path, *returning),
            DocumentOp::Add { path, amount, returning } => deciding::add(state, path, *amount, *returning),
            DocumentOp::AppendText { path, text, returning } => {
                deciding::append_text(state, path, text, *returning)
            }
            DocumentOp::AppendItems { path, items, returning } => {
                deciding::append_items(state, path, items, *returning)
            }
            DocumentOp::Kind(path) => deciding::kind(state, path),
            DocumentOp::Keys(path) => deciding::keys(state, path),
            DocumentOp::Merge(path, patch) => deciding::merge(state, path, patch),
            DocumentOp::Refused { error, .. } => Err(error.clone()),
        }
    }

    fn room(_: &DocumentState) -> Room {
        Room { down: NEAR, up: NEAR }
    }

    fn apply(state: &mut DocumentState, effect: DocumentEffect) -> DocumentEffect {
        let (mut restored, mut unmade) = (Few::new(), Few::new());
        let mut undo = |field: Bytes, before: Option<Node>| match before {
            Some(node) => restored.push((field, node)),
            None => unmade.push(field),
        };
        match effect {
            DocumentEffect::Add(field, amount) => {
                let value = match state.get(&field) {
                    Some(Node::Int(value)) => *value,
                    // Of a record in a server a field can expire by itself; there, too, the sum begins anew.
                    None => 0,
                    Some(other) => panic!("an integer stays one while it is added to, and is now {other:?}"),
                };
                let sum = value.checked_add(amount).expect("the draw kept the room");
                let before = state.insert(field.clone(), Node::Int(sum));
                undo(field, before);
            }
            DocumentEffect::Change { put, removed } => {
                // Of two transactions that remove one place, the second finds it gone: nothing to undo.
                for field in removed {
                    if let Some(before) = state.remove(&field) {
                        undo(field, Some(before));
                    }
                }
                for (field, node) in put {
                    let before = state.insert(field.clone(), node);
                    undo(field, before);
                }
            }
        }
        DocumentEffect::Change { put: restored, removed: unmade }
    }

    /// What is at a place, from what is around it.
    fn combine(held: &DocumentOp, answer: &Reply, op: &DocumentOp) -> Option<Reply> {
        if held == op {
            return Some(answer.clone());
        }
        let DocumentOp::Get(around) = held else { return None };
        let (DocumentOp::Get(path) | DocumentOp::Kind(path) | DocumentOp::Keys(path)) = op else {
            return None;
        };
        let names = path.below(around)?;
        let whole = match answer {
            Reply::Bytes(text) => Some(Json::parse(text).ok()?),
            _ => None,
        };
        let Some(value) = whole.as_ref().and_then(|whole| whole.at(names)) else { return Some(Reply::Nil) };
        match (op, value) {
            (DocumentOp::Get(_), value) => Some(Reply::Bytes(value.to_text())),
            (DocumentOp::Kind(_), value) => Some(Reply::Bytes(Bytes::from(value.kind()))),
            (_, Json::Object(members)) => {
                Some(Reply::Array(members.keys().map(|name| Reply::Bytes(Bytes::from(name))).collect()))
            }
            _ => Some(Reply::Nil),
        }
    }
}

/// The one path that may be given; without one the root.
fn place(given: Arguments<'_>) -> Result<Path, OpError> {
    given.first().map_or_else(|| Ok(Path::root()), |path| Path::parse(path))
}

/// A value that fits into its place.
fn placed(path: &Bytes, json: &Bytes) -> Result<(Path, Json), OpError> {
    let (path, value) = (Path::parse(path)?, Json::parse(json)?);
    check_fits(&path, &value)?;
    Ok((path, value))
}

fn check_fits(path: &Path, value: &Json) -> Result<(), OpError> {
    check_depth(path.depth() - 1 + value.depth())?;
    deciding::visit(path, value, &mut |_, _| {})
}

/// It is in an array at that place.
fn check_item(path: &Path, item: &Json) -> Result<(), OpError> {
    check_depth(path.depth() + item.depth())
}

fn check_finite(value: &Json) -> Result<(), OpError> {
    value.not_finite().map_or(Ok(()), |float| Err(not_a_number(&float.to_string())))
}

fn check_depth(depth: usize) -> Result<(), OpError> {
    if depth <= DEPTH_MAX { Ok(()) } else { Err(path::too_deep(depth)) }
}

fn number(given: &Bytes) -> Result<Number, OpError> {
    match Json::parse(given) {
        Ok(Json::Int(value)) => Ok(Number::Int(value)),
        Ok(Json::Float(value)) => Ok(Number::Float(value)),
        _ => Err(not_a_number(&given.to_string())),
    }
}

fn not_a_number(given: &str) -> OpError {
    OpError::Argument { given: given.to_owned(), expected: "a number in JSON".into() }
}

fn string(given: &Bytes) -> Result<String, OpError> {
    match Json::parse(given)? {
        Json::Text(text) => Ok(text),
        _ => Err(OpError::Argument {
            given: given.to_string(),
            expected: "a string in JSON, such as \"text\"".into(),
        }),
    }
}
