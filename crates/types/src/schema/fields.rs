//! The fields of a dict and the places of a document in a schema, and which operations break them.

use std::collections::BTreeMap;

use super::{Breach, FieldType, Fields, SchemaError};
use crate::document::{DocumentOp, Number};
use crate::text::integer_of;
use crate::{Bytes, DictOp, DictState, DocumentPath, DocumentState, JsonValue};

/// One place of a document: what it holds, and what is named of what is in it.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) of: FieldType,
    /// Otherwise it is there because of what is in it.
    pub(super) is_named: bool,
    pub(super) members: BTreeMap<String, Place>,
}

/// Whether an object was named makes no difference where its members were.
impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.of == other.of && self.members == other.members
    }
}

impl Place {
    fn of_members() -> Self {
        Place { of: FieldType::Object, is_named: false, members: BTreeMap::new() }
    }

    /// Whether whatever is in it is free.
    fn is_free(&self) -> bool {
        self.of == FieldType::Any || self.of == FieldType::Object && self.members.is_empty()
    }
}

impl FieldType {
    /// With its article.
    fn shown(self) -> &'static str {
        match self {
            FieldType::String => "a string",
            FieldType::Integer => "an integer",
            FieldType::Number => "a number",
            FieldType::Boolean => "a boolean",
            FieldType::Array => "an array",
            FieldType::Object => "an object",
            FieldType::Any => "anything",
        }
    }

    /// Whether a dict's field may hold these bytes.
    fn fits_bytes(self, value: &Bytes) -> bool {
        match self {
            FieldType::String | FieldType::Any => true,
            FieldType::Integer => integer_of(value).is_ok(),
            FieldType::Number => {
                let number = value.as_str().and_then(|text| text.parse::<f64>().ok());
                number.is_some_and(f64::is_finite)
            }
            FieldType::Boolean => matches!(&value[..], b"0" | b"1"),
            FieldType::Array | FieldType::Object => false,
        }
    }

    fn fits_json(self, value: &JsonValue) -> bool {
        match self {
            FieldType::String => matches!(value, JsonValue::Text(_)),
            FieldType::Integer => matches!(value, JsonValue::Int(_)),
            FieldType::Number => matches!(value, JsonValue::Int(_) | JsonValue::Float(_)),
            FieldType::Boolean => matches!(value, JsonValue::Bool(_)),
            FieldType::Array => matches!(value, JsonValue::Array(_)),
            FieldType::Object => matches!(value, JsonValue::Object(_)),
            FieldType::Any => true,
        }
    }

    /// Whether integers may be added to it.
    fn may_be_added_to(self) -> bool {
        matches!(self, FieldType::Integer | FieldType::Number | FieldType::Any)
    }
}

/// Adds a field of a dict; its name as it is written.
pub(super) fn add_to_dict(fields: &mut Fields, name: Bytes, of: FieldType) -> Result<Bytes, SchemaError> {
    if matches!(of, FieldType::Array | FieldType::Object) {
        return Err(SchemaError::NotInDict { field: name.to_string(), of: of.shown() });
    }
    if *fields == Fields::None {
        *fields = Fields::OfDict(BTreeMap::new());
    }
    let Fields::OfDict(fields) = fields else { unreachable!("a dict has fields of a dict") };
    if let Some(first) = fields.get(&name) {
        return Err(SchemaError::FieldTwice { field: name.to_string(), first: first.shown() });
    }
    fields.insert(name.clone(), of);
    Ok(name)
}

/// Adds a path of a document; as it is written.
pub(super) fn add_to_document(
    fields: &mut Fields,
    name: &Bytes,
    of: FieldType,
) -> Result<Bytes, SchemaError> {
    let wrong = |reason: String| SchemaError::Path { field: name.to_string(), reason };
    let path = DocumentPath::parse(name).map_err(|error| wrong(error.to_string()))?;
    if *fields == Fields::None {
        *fields = Fields::OfDocument(Place::of_members());
    }
    let Fields::OfDocument(root) = fields else { unreachable!("a document has places") };
    let mut place = root;
    for (depth, step) in path.names().iter().enumerate() {
        if place.of != FieldType::Object {
            return Err(wrong(format!(
                "{} is {}, and has no members",
                above(&path, depth),
                place.of.shown()
            )));
        }
        place = place.members.entry(step.clone()).or_insert_with(Place::of_members);
    }
    if place.is_named {
        return Err(SchemaError::FieldTwice { field: path.to_string(), first: place.of.shown() });
    }
    if of != FieldType::Object && !place.members.is_empty() {
        return Err(wrong(format!(
            "fields in it were named above, so it is an object and not {}",
            of.shown()
        )));
    }
    (place.of, place.is_named) = (of, true);
    Ok(path.text().clone())
}

/// What is so many steps from the root on the way to a place.
fn above(path: &DocumentPath, depth: usize) -> Bytes {
    path.ancestors().nth(path.names().len() - 1 - depth).map_or_else(|| path.text().clone(), Bytes::from)
}

// --- dicts ---

type DictFields = BTreeMap<Bytes, FieldType>;

pub(super) fn check_dict(fields: &DictFields, is_closed: bool, op: &DictOp) -> Result<(), Breach> {
    let is_known = |field: &Bytes| named(fields, is_closed, field).map(drop);
    match op {
        DictOp::Set(pairs) | DictOp::SetReturning(pairs) => {
            pairs.iter().try_for_each(|(field, value)| check_value(fields, is_closed, field, value))
        }
        DictOp::Add(field, _) | DictOp::AddReturning(field, _) => match named(fields, is_closed, field)? {
            Some(of) if !of.may_be_added_to() => Err(in_field(of, field, "an addition".to_owned())),
            Some(_) | None => Ok(()),
        },
        DictOp::Get(field) | DictOp::Contains(field) => is_known(field),
        DictOp::GetMany(many) => many.iter().try_for_each(is_known),
        // What is there and should not be can be removed.
        DictOp::Remove(_) | DictOp::RemoveReturning(_) => Ok(()),
        DictOp::Len | DictOp::Fields | DictOp::All => Ok(()),
    }
}

pub(super) fn check_dict_content(
    fields: &DictFields,
    is_closed: bool,
    content: Option<&DictState>,
) -> Result<(), Breach> {
    let all = content.map(DictState::sorted).unwrap_or_default();
    all.into_iter().try_for_each(|(field, value)| check_value(fields, is_closed, field, &value.to_bytes()))
}

fn check_value(fields: &DictFields, is_closed: bool, field: &Bytes, value: &Bytes) -> Result<(), Breach> {
    match named(fields, is_closed, field)? {
        Some(of) if !of.fits_bytes(value) => Err(in_field(of, field, format!("'{value}'"))),
        Some(_) | None => Ok(()),
    }
}

fn named(fields: &DictFields, is_closed: bool, field: &Bytes) -> Result<Option<FieldType>, Breach> {
    match fields.get(field) {
        None if is_closed => {
            Err(Breach { expected: format!("no field '{field}'"), found: "a use of it".to_owned() })
        }
        of => Ok(of.copied()),
    }
}

fn in_field(of: FieldType, field: &Bytes, found: String) -> Breach {
    Breach { expected: format!("{} in the field '{field}'", of.shown()), found }
}

// --- documents ---

pub(super) fn check_document(root: &Place, is_closed: bool, op: &DocumentOp) -> Result<(), Breach> {
    match op {
        DocumentOp::Set(path, value) => check_json(root, is_closed, path, value, false),
        // That removes it.
        DocumentOp::Merge(_, JsonValue::Null) => Ok(()),
        DocumentOp::Merge(path, value) => check_json(root, is_closed, path, value, true),
        DocumentOp::Get(path) | DocumentOp::Kind(path) | DocumentOp::Keys(path) => {
            find(root, is_closed, path).map(drop)
        }
        DocumentOp::Add { path, amount, .. } => check_holds(root, is_closed, path, "an addition", |of| {
            of.may_be_added_to() && (of != FieldType::Integer || matches!(amount, Number::Int(_)))
        }),
        DocumentOp::AppendText { path, .. } => {
            let fits = |of| matches!(of, FieldType::String | FieldType::Any);
            check_holds(root, is_closed, path, "an append to a string", fits)
        }
        DocumentOp::AppendItems { path, .. } => {
            let fits = |of| matches!(of, FieldType::Array | FieldType::Any);
            check_holds(root, is_closed, path, "an append to an array", fits)
        }
        DocumentOp::Delete { .. } | DocumentOp::Refused { .. } => Ok(()),
    }
}

pub(super) fn check_document_content(
    root: &Place,
    is_closed: bool,
    content: Option<&DocumentState>,
) -> Result<(), Breach> {
    for (field, node) in content.into_iter().flat_map(DocumentState::fields) {
        // It was read as a document: its fields are paths, and hold JSON.
        if let (Ok(path), Ok(value)) = (DocumentPath::parse(field), JsonValue::parse(&node.to_bytes())) {
            check_json(root, is_closed, &path, &value, false)?;
        }
    }
    Ok(())
}

fn check_holds(
    root: &Place,
    is_closed: bool,
    path: &DocumentPath,
    does: &str,
    fits: impl Fn(FieldType) -> bool,
) -> Result<(), Breach> {
    match find(root, is_closed, path)? {
        Some(place) if !fits(place.of) => {
            Err(Breach { expected: format!("{} at {path}", place.of.shown()), found: does.to_owned() })
        }
        Some(_) | None => Ok(()),
    }
}

fn check_json(
    root: &Place,
    is_closed: bool,
    path: &DocumentPath,
    value: &JsonValue,
    merges: bool,
) -> Result<(), Breach> {
    match find(root, is_closed, path)? {
        Some(place) => check_in(place, (path, &mut Vec::new()), is_closed, value, merges),
        None => Ok(()),
    }
}

/// What is said of a place. `None`: nothing.
fn find<'a>(root: &'a Place, is_closed: bool, path: &DocumentPath) -> Result<Option<&'a Place>, Breach> {
    let mut place = root;
    for (depth, name) in path.names().iter().enumerate() {
        if place.is_free() {
            return Ok(None);
        }
        if place.of != FieldType::Object {
            let expected = format!("{} at {}", place.of.shown(), above(path, depth));
            return Err(Breach { expected, found: format!("a use of {path} in it") });
        }
        match place.members.get(name) {
            Some(next) => place = next,
            None if is_closed => return Err(closed(&above_or_at(path, depth + 1))),
            None => return Ok(None),
        }
    }
    Ok(Some(place))
}

fn above_or_at(path: &DocumentPath, depth: usize) -> Bytes {
    if depth == path.names().len() { path.text().clone() } else { above(path, depth) }
}

fn closed(at: &Bytes) -> Breach {
    Breach { expected: format!("nothing at {at}"), found: "a use of it".to_owned() }
}

/// Whether a value may be at a place, with all that is in it. `trail`: from which path it is reached how. With `merges`, `null` is not
/// written but removes. As deep as the schema's paths are.
fn check_in<'a>(
    place: &Place,
    trail: (&DocumentPath, &mut Vec<&'a str>),
    is_closed: bool,
    value: &'a JsonValue,
    merges: bool,
) -> Result<(), Breach> {
    let (path, names) = trail;
    if merges && *value == JsonValue::Null {
        return Ok(());
    }
    if !place.of.fits_json(value) {
        let expected = format!("{} at {}", place.of.shown(), reached(path, names));
        return Err(Breach { expected, found: kind_of(value).to_owned() });
    }
    let JsonValue::Object(members) = value else { return Ok(()) };
    if place.is_free() {
        return Ok(());
    }
    for (name, member) in members {
        names.push(name);
        match place.members.get(name) {
            Some(inner) => check_in(inner, (path, &mut *names), is_closed, member, merges)?,
            None if is_closed && !(merges && *member == JsonValue::Null) => {
                return Err(closed(&reached(path, names)));
            }
            None => {}
        }
        names.pop();
    }
    Ok(())
}

/// The path to what is reached so; as much of it as there may be of a path.
fn reached(path: &DocumentPath, names: &[&str]) -> Bytes {
    let mut reached = path.clone();
    for name in names {
        match reached.member(name) {
            Ok(member) => reached = member,
            Err(_) => break,
        }
    }
    reached.text().clone()
}

fn kind_of(value: &JsonValue) -> &'static str {
    match value {
        JsonValue::Null => "null",
        JsonValue::Bool(_) => "a boolean",
        JsonValue::Int(_) => "an integer",
        JsonValue::Float(_) => "a number with a fraction or out of 64 bits",
        JsonValue::Text(_) => "a string",
        JsonValue::Array(_) => "an array",
        JsonValue::Object(_) => "an object",
    }
}
