//! What each operation of a document decides: answer, effect and claims.

use super::json::Json;
use super::path::{Field, Path};
use super::state::{DocumentState, Node};
use super::{
    ADD, DocumentEffect, END, INNER, KEYS, MEMBER, NEAR, Number, PIN_ABSENT, PIN_KIND, READ, REMOVE, THROUGH,
    WRITE,
};
use crate::data_type::{Execution, Few};
use crate::{Bytes, Claim, Claims, Draw, Mode, OpError, Reply, Scope};

type Decided = Result<Execution<DocumentEffect>, OpError>;

/// What is claimed of the object that a place is in, and of each object around that.
#[derive(Clone, Copy)]
struct Around(Mode, Mode);

/// Something below is read.
const READS: Around = Around(THROUGH, THROUGH);
/// Something below changes.
const CHANGES: Around = Around(INNER, INNER);
/// A member comes or goes.
const COMES: Around = Around(MEMBER, INNER);

fn claim(claims: &mut Claims, path: &Path, mode: Mode, around: Around) {
    claims.push(Scope::element(path.text()), mode);
    for (at, ancestor) in path.ancestors().enumerate() {
        claims.push(Scope::element(ancestor), if at == 0 { around.0 } else { around.1 });
    }
}

fn claims(path: &Path, mode: Mode, around: Around) -> Claims {
    let mut claims = Claims::none();
    self::claim(&mut claims, path, mode, around);
    claims
}

/// Patches that count for more claim the place that they merge into, as a whole, for claims are compared one by one. An object
/// with members counts as one, anything else with all places that are around it.
const PATCH_CLAIMS_MAX: usize = 512;

// --- changes ---

/// What an operation changes so far, and claims.
struct Changes {
    method: &'static str,
    put: Few<(Bytes, Node)>,
    removed: Few<Bytes>,
    claims: Claims,
    /// What is claimed is known already.
    is_claimed: bool,
}

impl Changes {
    fn of(method: &'static str) -> Self {
        let claims = Claims::none();
        Changes { method, put: Few::new(), removed: Few::new(), claims, is_claimed: false }
    }

    fn decided(self, reply: Reply) -> Execution<DocumentEffect> {
        let Changes { put, removed, claims, .. } = self;
        let is_change = !(put.is_empty() && removed.is_empty());
        Execution { reply, effect: is_change.then_some(DocumentEffect::Change { put, removed }), claims }
    }

    fn claim(&mut self, path: &Path, mode: Mode, around: Around) {
        if !self.is_claimed {
            claim(&mut self.claims, path, mode, around);
        }
    }

    /// Whether there was something.
    fn delete(&mut self, state: &DocumentState, path: &Path, is_seen: bool) -> bool {
        if state.get(path.text()).is_none() {
            self.claim(path, PIN_ABSENT, READS);
            return false;
        }
        let mode = match (path.is_root(), is_seen) {
            (true, _) => END,
            (false, true) => WRITE,
            (false, false) => REMOVE,
        };
        self.claim(path, mode, COMES);
        self.removed.push(path.text().clone());
        self.removed.extend(state.inside(path).map(|(field, _)| field.clone()));
        true
    }

    fn set(&mut self, state: &DocumentState, path: &mut Path, value: &Json) -> Result<(), OpError> {
        check_parent(state, path, self.method)?;
        let mut new = Vec::new();
        visit_from(path, value, &mut |place, part| new.push((place.text().clone(), Node::of(part))))?;
        new.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let is_new = |field: &Bytes| new.binary_search_by(|(it, _)| it.cmp(field)).is_ok();
        let gone: Few<Bytes> =
            state.inside(path).map(|(field, _)| field).filter(|field| !is_new(field)).cloned().collect();
        let is_there = state.get(path.text()).is_some();
        new.retain(|(field, node)| state.get(field) != Some(node));
        match (is_there, new.is_empty() && gone.is_empty()) {
            (true, true) => self.claim(path, READ, READS),
            (true, false) => self.claim(path, WRITE, CHANGES),
            (false, _) => self.claim(path, WRITE, COMES),
        }
        self.removed.extend(gone);
        self.put.extend(new);
        Ok(())
    }

    /// RFC 7396.
    fn merge(&mut self, state: &DocumentState, path: &mut Path, patch: &Json) -> Result<(), OpError> {
        match (patch, state.get(path.text())) {
            (Json::Null, _) => drop(self.delete(state, path, false)),
            (Json::Object(members), Some(Node::Object)) => {
                if members.is_empty() {
                    self.claim(path, PIN_KIND, READS);
                }
                for (name, patch) in members {
                    path.push(name)?;
                    self.merge(state, path, patch)?;
                    path.pop();
                }
            }
            _ => self.set(state, path, &without_nulls(patch))?,
        }
        Ok(())
    }
}

/// Calls `each` with a place and what is in it, and all within.
///
/// # Errors
/// A path is too long, or too deep.
pub(super) fn visit(path: &Path, value: &Json, each: &mut impl FnMut(&Path, &Json)) -> Result<(), OpError> {
    visit_from(&mut path.clone(), value, each)
}

/// The same; the path is as it was unless there is an error.
fn visit_from(path: &mut Path, value: &Json, each: &mut impl FnMut(&Path, &Json)) -> Result<(), OpError> {
    each(path, value);
    if let Json::Object(members) = value {
        for (name, member) in members {
            path.push(name)?;
            visit_from(path, member, each)?;
            path.pop();
        }
    }
    Ok(())
}

/// A patch as a value: members that it would remove are not there.
fn without_nulls(patch: &Json) -> Json {
    match patch {
        Json::Object(members) => {
            let stay = members.iter().filter(|(_, member)| **member != Json::Null);
            Json::Object(stay.map(|(name, member)| (name.clone(), without_nulls(member))).collect())
        }
        other => other.clone(),
    }
}

/// A value can be written at the root, and as a member of an object that is there.
fn check_parent(state: &DocumentState, path: &Path, method: &'static str) -> Result<(), OpError> {
    let Some(parent) = path.ancestors().next() else { return Ok(()) };
    if !state.has_root() {
        return Err(OpError::Missing { method: method.into(), create: "JSON.SET key $ {}".into() });
    }
    match state.get(parent) {
        Some(Node::Object) => Ok(()),
        other => Err(no_object(path, parent, other)),
    }
}

fn no_object(path: &Path, parent: &[u8], found: Option<&Node>) -> OpError {
    let (found, parent) = (shown(found), Bytes::from(parent));
    OpError::Mismatch(format!(
        "the document holds {found} at {parent}, so nothing can be set at {path}; set an object at {parent} first"
    ))
}

fn wrong_kind(path: &Path, found: Option<&Node>, method: &'static str, expected: &'static str) -> OpError {
    let found = shown(found);
    OpError::Mismatch(format!(
        "the document holds {found} at {path}, and {method} works on {expected}; nothing was changed"
    ))
}

fn shown(found: Option<&Node>) -> String {
    found.map_or("nothing".into(), |node| format!("a value of type {}", node.kind()))
}

// --- operations that change ---

pub(super) fn set(state: &DocumentState, path: &Path, value: &Json) -> Decided {
    let mut changes = Changes::of("JSON.SET");
    changes.set(state, &mut path.clone(), value)?;
    Ok(changes.decided(Reply::Ok))
}

pub(super) fn delete(state: &DocumentState, path: &Path, returning: bool) -> Decided {
    let mut changes = Changes::of("JSON.DEL");
    let was_there = changes.delete(state, path, returning);
    Ok(changes.decided(if returning { Reply::bool(was_there) } else { Reply::Ok }))
}

pub(super) fn merge(state: &DocumentState, path: &Path, patch: &Json) -> Decided {
    let mut changes = Changes::of("JSON.MERGE");
    if is_large(path, patch) {
        let around = if state.get(path.text()).is_some() { CHANGES } else { COMES };
        changes = Changes { claims: claims(path, WRITE, around), is_claimed: true, ..changes };
    }
    changes.merge(state, &mut path.clone(), patch)?;
    Ok(changes.decided(Reply::Ok))
}

/// Whether a patch claims the place that it merges into as a whole.
fn is_large(path: &Path, patch: &Json) -> bool {
    let mut claims = 0;
    let visited = visit(path, patch, &mut |place, part| {
        claims += if has_members(part) { 1 } else { place.depth() };
    });
    visited.is_err() || claims > PATCH_CLAIMS_MAX
}

fn has_members(part: &Json) -> bool {
    matches!(part, Json::Object(members) if !members.is_empty())
}

pub(super) fn add(state: &DocumentState, path: &Path, amount: Number, returning: bool) -> Decided {
    let found = state.get(path.text());
    let (Some(Node::Int(value)), Number::Int(amount)) = (found, amount) else {
        return add_float(path, found, amount, returning);
    };
    let sum = value.checked_add(amount).ok_or_else(|| overflow(path, value, amount))?;
    let effect = DocumentEffect::Add(path.text().clone(), amount);
    if returning {
        return Ok(Execution::returning(bytes(sum), effect, claims(path, WRITE, CHANGES)));
    }
    let distance = amount.unsigned_abs().min(NEAR);
    let draw = match amount {
        _ if value.unsigned_abs() > NEAR => Draw { down: NEAR, up: NEAR },
        0.. => Draw { down: 0, up: distance },
        _ => Draw { down: distance, up: 0 },
    };
    Ok(Execution::void(effect, claims(path, ADD, CHANGES).drawing(draw)))
}

/// One of the two is a float, and so is the sum.
fn add_float(path: &Path, found: Option<&Node>, amount: Number, returning: bool) -> Decided {
    let value = match found.map(Node::json).transpose()? {
        Some(Json::Int(value)) => value as f64,
        Some(Json::Float(value)) => value,
        _ => return Err(wrong_kind(path, found, "JSON.NUMINCRBY", "a number")),
    };
    let sum = value + amount.to_float();
    if !sum.is_finite() {
        return Err(overflow(path, &value, amount.to_float()));
    }
    let node = Node::of(&Json::Float(sum));
    let reply = if returning { Reply::Bytes(node.to_bytes()) } else { Reply::Ok };
    Ok(replace(path, node, reply))
}

fn overflow(path: &Path, value: &impl std::fmt::Display, amount: impl std::fmt::Display) -> OpError {
    OpError::Overflow("the number".into(), format!("'{path}' is {value}, adding {amount}"))
}

fn bytes(value: impl ToString) -> Reply {
    Reply::Bytes(Bytes::from(value.to_string()))
}

/// Another value in the place of one that is there.
fn replace(path: &Path, node: Node, reply: Reply) -> Execution<DocumentEffect> {
    let put = crate::few([(path.text().clone(), node)]);
    let effect = DocumentEffect::Change { put, removed: Few::new() };
    Execution { reply, effect: Some(effect), claims: claims(path, WRITE, CHANGES) }
}

pub(super) fn append_text(state: &DocumentState, path: &Path, text: &str, returning: bool) -> Decided {
    let found = state.get(path.text());
    let Some(Json::Text(mut whole)) = found.map(Node::json).transpose()? else {
        return Err(wrong_kind(path, found, "JSON.STRAPPEND", "a string"));
    };
    whole.push_str(text);
    let reply = if returning { Reply::count(whole.len()) } else { Reply::Ok };
    if text.is_empty() {
        return Ok(Execution::read(reply, claims(path, READ, READS)));
    }
    Ok(replace(path, grown(Node::of(&Json::Text(whole)))?, reply))
}

pub(super) fn append_items(state: &DocumentState, path: &Path, items: &[Json], returning: bool) -> Decided {
    let found = state.get(path.text());
    let Some(Json::Array(mut whole)) = found.map(Node::json).transpose()? else {
        return Err(wrong_kind(path, found, "JSON.ARRAPPEND", "an array"));
    };
    whole.extend(items.iter().cloned());
    let reply = if returning { Reply::count(whole.len()) } else { Reply::Ok };
    Ok(replace(path, grown(Node::of(&Json::Array(whole)))?, reply))
}

/// The longest text of a value that grows by appending, in bytes: each time all of it is written, and kept until the transaction
/// ends. So each append counts for as much ([`DataType::size`](crate::DataType::size)).
pub(super) const GROWN_BYTES_MAX: usize = 64 << 10;

fn grown(node: Node) -> Result<Node, OpError> {
    match &node {
        Node::Leaf(text) if text.len() > GROWN_BYTES_MAX => Err(too_large_to_grow(text.len())),
        _ => Ok(node),
    }
}

fn too_large_to_grow(size: usize) -> OpError {
    OpError::Bound {
        what: "a document's value that grows by appending".into(),
        given: format!("{size} bytes long"),
        expected: format!("at most {GROWN_BYTES_MAX} bytes long, or be written with JSON.SET").into(),
    }
}

// --- operations that read ---

pub(super) fn get(state: &DocumentState, path: &Path) -> Decided {
    let Some(node) = state.get(path.text()) else { return Ok(nothing(path)) };
    let text = match node {
        Node::Object => state.value(path, node)?.to_text(),
        leaf => leaf.to_bytes(),
    };
    Ok(Execution::read(Reply::Bytes(text), claims(path, READ, READS)))
}

pub(super) fn kind(state: &DocumentState, path: &Path) -> Decided {
    let Some(node) = state.get(path.text()) else { return Ok(nothing(path)) };
    Ok(Execution::read(Reply::Bytes(Bytes::from(node.kind())), claims(path, PIN_KIND, READS)))
}

pub(super) fn keys(state: &DocumentState, path: &Path) -> Decided {
    match state.get(path.text()) {
        None => Ok(nothing(path)),
        Some(Node::Object) => {
            let mut names = Vec::new();
            for (field, _) in state.inside(path) {
                match Field::read(field) {
                    Some(Field { parent, name }) if *parent == path.text()[..] => {
                        names.push(Bytes::from(name))
                    }
                    _ => {}
                }
            }
            names.sort_unstable();
            let names = names.into_iter().map(Reply::Bytes).collect();
            Ok(Execution::read(Reply::Array(names), claims(path, KEYS, READS)))
        }
        Some(_) => Ok(Execution::read(Reply::Nil, claims(path, PIN_KIND, READS))),
    }
}

fn nothing(path: &Path) -> Execution<DocumentEffect> {
    Execution::read(Reply::Nil, claims(path, PIN_ABSENT, READS))
}

// --- what is claimed at most ---

/// Each of `modes` on a place, and all that goes with them around it.
pub(super) fn at_most(claims: &mut Claims, path: &Path, modes: &[Mode]) {
    for mode in modes {
        let around: &[Around] = match *mode {
            READ | PIN_ABSENT | PIN_KIND | KEYS => &[READS],
            ADD => &[CHANGES],
            REMOVE | END => &[COMES],
            _ => &[CHANGES, COMES],
        };
        around.iter().for_each(|around| claim(claims, path, *mode, *around));
    }
}

/// The same of what is there and stays: no member comes.
pub(super) fn at_most_of_change(claims: &mut Claims, path: &Path, modes: &[Mode]) {
    for mode in modes {
        claim(claims, path, *mode, if *mode == READ { READS } else { CHANGES });
    }
}

/// What merging a patch claims at most.
pub(super) fn at_most_of_merge(claims: &mut Claims, path: &Path, patch: &Json) {
    if is_large(path, patch) {
        return at_most(claims, path, &[WRITE]);
    }
    for ancestor in path.ancestors() {
        [THROUGH, INNER, MEMBER].into_iter().for_each(|mode| claims.push(Scope::element(ancestor), mode));
    }
    // Each place comes once, and what is around it has come before.
    let mut each = |place: &Path, part: &Json| {
        let modes: &[Mode] = match part {
            Json::Null => &[removal(place), PIN_ABSENT],
            _ if has_members(part) => &[WRITE, THROUGH, INNER, MEMBER],
            Json::Object(_) => &[WRITE, PIN_KIND],
            _ => &[WRITE, READ],
        };
        let scope = Scope::element(place.text());
        claims.list.extend(modes.iter().map(|mode| Claim { scope, mode: *mode }));
    };
    visit(path, patch, &mut each).expect("it is not large, so each path fits");
}

/// How a place is removed when nobody is told whether there was something.
pub(super) fn removal(path: &Path) -> Mode {
    if path.is_root() { END } else { REMOVE }
}
