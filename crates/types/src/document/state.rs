//! The content of a document: its fields, which are the places that hold something.

use std::collections::BTreeMap;
use std::ops::Bound;

use serde::{Deserialize, Serialize};

use super::json::Json;
use super::path::{Field, Path, ROOT};
use crate::text::is_canonical_integer;
use crate::{Bytes, OpError};

/// What a place holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Node {
    /// An object; its members have fields of their own.
    Object,
    /// An integer: no parsing, no allocation.
    Int(i64),
    /// Any other value that has no members: its JSON text, an array's with all that is in it.
    Leaf(Bytes),
}

/// The text of [`Node::Object`], in whose place nothing else is ever written.
const OBJECT: &str = "{}";

impl Node {
    /// What holds this value, apart from its members.
    pub(super) fn of(value: &Json) -> Self {
        match value {
            Json::Object(_) => Node::Object,
            Json::Int(value) => Node::Int(*value),
            other => Node::Leaf(other.to_text()),
        }
    }

    /// Reads the value of a field.
    fn read(field: &Bytes, text: &Bytes) -> Result<Self, OpError> {
        let wrong = |why: String| {
            let text = format!("the document's field '{field}' holds '{text}', {why}; correct it with HSET");
            Err(OpError::Mismatch(text))
        };
        match Json::parse(text) {
            Err(OpError::Argument { expected, .. }) => wrong(format!("which is not {expected}")),
            Err(error) => Err(error),
            Ok(Json::Object(members)) if !members.is_empty() => {
                wrong("and each member of an object has a field of its own".into())
            }
            // The server does not add to ` 5`.
            Ok(Json::Int(_)) if !is_canonical_integer(text) => {
                wrong("which is not how an integer is written".into())
            }
            Ok(value) => Ok(Node::of(&value)),
        }
    }

    /// What its field shows.
    pub fn to_bytes(&self) -> Bytes {
        match self {
            Node::Object => Bytes::from(OBJECT),
            Node::Int(value) => Bytes::from(value.to_string()),
            Node::Leaf(text) => text.clone(),
        }
    }

    /// The value, of an object without its members.
    pub(super) fn json(&self) -> Result<Json, OpError> {
        match self {
            Node::Object => Ok(Json::Object(BTreeMap::new())),
            Node::Int(value) => Ok(Json::Int(*value)),
            Node::Leaf(text) => Json::parse(text),
        }
    }

    /// As [`Json::kind`].
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Node::Object => "object",
            Node::Int(_) => "integer",
            Node::Leaf(text) => match text.first() {
                Some(b'n') => "null",
                Some(b't' | b'f') => "boolean",
                Some(b'"') => "string",
                Some(b'[') => "array",
                _ => "number",
            },
        }
    }
}

/// The content of a document, or a partial state of it. No field: no record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DocumentState {
    /// By canonical paths, so what is in an object is in two ranges: behind `path.` and behind `path[`.
    nodes: BTreeMap<Bytes, Node>,
}

impl DocumentState {
    /// All fields of a document with their texts. O(size).
    ///
    /// # Errors
    /// They are no document: a field is no path, holds no JSON, or is in nothing.
    pub fn whole(fields: impl IntoIterator<Item = (Bytes, Bytes)>) -> Result<Self, OpError> {
        let state = DocumentState::partial(fields)?;
        // Parents come before what is in them, so each field needs a look at its last step alone.
        for field in state.nodes.keys().filter(|field| field[..] != *ROOT.as_bytes()) {
            match Field::read(field) {
                Some(Field { parent, .. }) if state.get(parent) == Some(&Node::Object) => {}
                Some(Field { parent, .. }) if parent == ROOT.as_bytes() || Field::read(parent).is_some() => {
                    return Err(in_nothing(field, parent));
                }
                _ => {
                    let text = format!(
                        "the hash has the field '{field}', which is no path of a document; remove it"
                    );
                    return Err(OpError::Mismatch(text));
                }
            }
        }
        Ok(state)
    }

    /// A part of a document: some of its fields with their texts.
    ///
    /// What it must hold, of what is there: the root; what [`DocumentOp::looks_at`](super::DocumentOp::looks_at) names; and
    /// the fields that its owner's effects write, add to or remove.
    ///
    /// # Errors
    /// A field holds no JSON.
    pub fn partial(fields: impl IntoIterator<Item = (Bytes, Bytes)>) -> Result<Self, OpError> {
        let read = |(field, text)| Node::read(&field, &text).map(|node| (field, node));
        Ok(DocumentState { nodes: fields.into_iter().map(read).collect::<Result<_, _>>()? })
    }

    /// The part of it with these fields alone: what [`DocumentState::partial`] makes of them.
    #[must_use]
    pub fn only(&self, is_in: impl Fn(&Bytes) -> bool) -> Self {
        let nodes = self.nodes.iter().filter(|(field, _)| is_in(field));
        DocumentState { nodes: nodes.map(|(field, node)| (field.clone(), node.clone())).collect() }
    }

    /// How many fields. O(1).
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no record. O(1).
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// What a place holds, by its canonical path. O(log n).
    pub fn get(&self, field: &[u8]) -> Option<&Node> {
        self.nodes.get(field)
    }

    /// All fields that are here, in bytewise order.
    pub fn fields(&self) -> impl Iterator<Item = (&Bytes, &Node)> {
        self.nodes.iter()
    }

    /// Whether there is a record.
    pub(super) fn has_root(&self) -> bool {
        self.nodes.contains_key(ROOT.as_bytes())
    }

    pub(super) fn insert(&mut self, field: Bytes, node: Node) -> Option<Node> {
        self.nodes.insert(field, node)
    }

    pub(super) fn remove(&mut self, field: &[u8]) -> Option<Node> {
        self.nodes.remove(field)
    }

    /// The fields within an object, at whatever depth; each behind the object that it is in.
    pub(super) fn inside(&self, path: &Path) -> impl Iterator<Item = (&Bytes, &Node)> {
        let range = |from: u8| {
            let bound = |last: u8| [&path.text()[..], &[last]].concat();
            let (from, to) = (bound(from), bound(from + 1));
            self.nodes.range::<[u8], _>((Bound::Included(&from[..]), Bound::Excluded(&to[..])))
        };
        range(b'.').chain(range(b'['))
    }

    /// The value at a place where there is something. O(its size).
    ///
    /// # Errors
    /// A field in it was written by other hands, and is in nothing.
    pub(super) fn value(&self, path: &Path, node: &Node) -> Result<Json, OpError> {
        if *node != Node::Object {
            return node.json();
        }
        // What is in an object comes behind it, so from the last one on it is complete when the object comes.
        let inside: Vec<(&Bytes, &Node)> = self.inside(path).collect();
        let mut members: BTreeMap<&[u8], BTreeMap<String, Json>> = BTreeMap::new();
        for (field, node) in inside.iter().rev() {
            let Some(Field { parent, name }) = Field::read(field) else {
                return Err(Path::parse(field).map_or_else(|error| error, |_| in_nothing(field, field)));
            };
            let value = match node {
                Node::Object => Json::Object(members.remove(&field[..]).unwrap_or_default()),
                leaf => leaf.json()?,
            };
            members.entry(parent).or_default().insert(name, value);
        }
        let value = Json::Object(members.remove(&path.text()[..]).unwrap_or_default());
        if members.is_empty() {
            return Ok(value);
        }
        // In order, so that of several it is always the same one.
        let mut fields = inside.iter().filter_map(|(field, _)| Some((field, Field::read(field)?.parent)));
        let lost = fields.find(|(_, parent)| members.contains_key(parent));
        Err(lost.map_or_else(
            || in_nothing(path.text(), path.text()),
            |(field, parent)| in_nothing(field, parent),
        ))
    }
}

fn in_nothing(field: &Bytes, parent: &[u8]) -> OpError {
    let parent = Bytes::from(parent);
    OpError::Mismatch(format!(
        "the hash has the field '{field}', and '{parent}' is no object that it could be in; remove it"
    ))
}
