//! Schemas: which type the keys with a prefix have, and which types the fields of a dict or a document have there.
//!
//! A schema judges an operation by itself, before any record is looked at. So a client can refuse it without a message, and a node
//! when it arrives. It says nothing about records that are there already. The longest prefix counts: to find it takes a binary
//! search and the length of the key.
//!
//! [`Schema::parse`] reads the text that people write and nodes keep, and [`Schema`]'s `Display` writes it, in one way for equal
//! schemas. Whoever sends a text may be hostile: its size and all that comes of it is bounded.

use std::collections::BTreeMap;
use std::fmt;

use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::data_type::Access;
use crate::erased::{Operation, TypeInfo};
use crate::keyspace::KeyspaceOp;
use crate::{Bytes, Content, Dict, Document, OpError, Register};

mod fields;
mod text;

use fields::Place;

/// So many prefixes a schema may have.
pub const SCHEMA_PREFIXES_MAX: usize = 1024;

/// The longest prefix, in bytes.
pub const SCHEMA_PREFIX_BYTES_MAX: usize = 256;

/// The longest text of a schema, in bytes, as it is read and as it is written.
pub const SCHEMA_BYTES_MAX: usize = 64 << 10;

/// The longest name of a field, in bytes; that of a path in a document.
const FIELD_BYTES_MAX: usize = crate::DOCUMENT_PATH_BYTES_MAX;

macro_rules! type_names {
    ($($place:literal $name:ident),* $(,)?) => {
        /// A built-in type, as a schema names it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum TypeName {
            $(#[doc = concat!("[`", stringify!($name), "`](crate::", stringify!($name), ").")] $name),*
        }

        impl TypeName {
            /// All of them.
            pub const ALL: &'static [TypeName] = &[$(TypeName::$name),*];

            /// The type.
            pub fn info(self) -> &'static TypeInfo {
                match self {
                    $(TypeName::$name => TypeInfo::of::<crate::$name>()),*
                }
            }
        }
    };
}

crate::with_types!(type_names);

impl TypeName {
    /// As in `claret check-type NAME`: `scored-set`.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// The type of this name. A `queue` and a `stack` are lists.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "queue" | "stack" => Some(TypeName::List),
            _ => TypeName::ALL.iter().copied().find(|it| it.name() == name),
        }
    }
}

/// What a field of a dict, or a place in a document, holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// Any bytes, which nothing is added to; in a document a string.
    String,
    /// A 64-bit integer in decimal.
    Integer,
    /// An integer or another finite number.
    Number,
    /// `1` or `0`, as `bool` is written; in a document `true` or `false`.
    Boolean,
    /// An array; in documents alone.
    Array,
    /// An object; in documents alone. Where none of its members is named it may have any.
    Object,
    /// Anything, also `null`.
    Any,
}

impl FieldType {
    /// All of them.
    pub const ALL: &'static [FieldType] = &[
        FieldType::String,
        FieldType::Integer,
        FieldType::Number,
        FieldType::Boolean,
        FieldType::Array,
        FieldType::Object,
        FieldType::Any,
    ];

    /// As a schema's text has it.
    pub fn name(self) -> &'static str {
        match self {
            FieldType::String => "string",
            FieldType::Integer => "integer",
            FieldType::Number => "number",
            FieldType::Boolean => "boolean",
            FieldType::Array => "array",
            FieldType::Object => "object",
            FieldType::Any => "any",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        FieldType::ALL.iter().copied().find(|it| it.name() == name)
    }
}

/// Why something is no schema. Nothing of it is in force.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// A line of a text: which one, counted from 1, and what is wrong with it.
    #[error("line {line}: {error}")]
    Line {
        /// The line.
        line: usize,
        /// What is wrong.
        error: Box<SchemaError>,
    },
    /// A prefix for the second time.
    #[error("the prefix '{prefix}' is a {first} above already; a prefix has one type")]
    PrefixTwice {
        /// The prefix.
        prefix: String,
        /// The type that it has.
        first: &'static str,
    },
    /// A field for the second time.
    #[error("the field '{field}' is {first} above already; a field has one type")]
    FieldTwice {
        /// The field.
        field: String,
        /// The type that it has.
        first: &'static str,
    },
    /// No such type of records.
    #[error("there is no type '{0}'; the types are {types}", types = names(TypeName::ALL, TypeName::name))]
    UnknownType(String),
    /// No such type of fields.
    #[error("there is no type '{0}' of fields; their types are {types}", types = names(FieldType::ALL, FieldType::name))]
    UnknownFieldType(String),
    /// A type that fields of dicts cannot have.
    #[error("the field '{field}' of a dict cannot be {of}; arrays and objects are in documents")]
    NotInDict {
        /// The field.
        field: String,
        /// The type.
        of: &'static str,
    },
    /// A line that begins with another word than `prefix` and `field`.
    #[error(
        "'{0}' begins no line of a schema; a line is 'prefix PREFIX TYPE [closed]', 'field NAME TYPE' or a # comment"
    )]
    UnknownWord(String),
    /// The wrong number of words, or quotes that do not end.
    #[error("{0}")]
    Malformed(String),
    /// A field before any prefix.
    #[error("the field '{0}' belongs to no prefix; name the prefix in a line above")]
    NoPrefix(String),
    /// Fields, or `closed`, of what has no fields.
    #[error("a {kind} has no fields; only dicts and documents have")]
    NoFields {
        /// The type.
        kind: &'static str,
    },
    /// `closed` without any field.
    #[error(
        "'{prefix}' is closed and has no field, so nothing could be in it; name its fields, or leave 'closed' out"
    )]
    ClosedWithoutFields {
        /// The prefix.
        prefix: String,
    },
    /// A field of a document that is no path, or in a place that holds no object.
    #[error("the field '{field}' of a document: {reason}")]
    Path {
        /// The field.
        field: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Over a bound.
    #[error("{what} of {size} is over the limit of {limit}")]
    TooLarge {
        /// What it is, with its unit.
        what: &'static str,
        /// How much there is.
        size: usize,
        /// How much there may be.
        limit: usize,
    },
}

fn names<T: Copy>(all: &[T], name: fn(T) -> &'static str) -> String {
    all.iter().map(|it| name(*it)).collect::<Vec<_>>().join(", ")
}

/// Tells schemas apart without their texts: of equal schemas it is the same in all versions. The first 64 bits of the text's SHA-256;
/// that of the schema without prefixes is shown as `none`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchemaDigest(pub u64);

impl SchemaDigest {
    /// What [`Display`](fmt::Display) wrote.
    pub fn parse(text: &str) -> Option<Self> {
        let is_digits = text.len() == 16 && text.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'));
        match text {
            "none" => Some(SchemaDigest(0)),
            _ if is_digits => u64::from_str_radix(text, 16).ok().map(SchemaDigest),
            _ => None,
        }
    }
}

impl fmt::Display for SchemaDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("none"),
            digest => write!(f, "{digest:016x}"),
        }
    }
}

/// Which type the keys with a prefix have. Keys without one of the prefixes may have any.
///
/// ```
/// use claret_types::{FieldType, Schema, SchemaError, TypeName};
/// let schema = Schema::new()
///     .prefix("seen:", TypeName::Set)?
///     .prefix("cart:", TypeName::Dict)?
///     .field("total", FieldType::Integer)?
///     .closed()?;
/// assert_eq!(schema.to_string(), "prefix cart: dict closed\n  field total integer\nprefix seen: set\n");
/// assert_eq!(Schema::parse(&schema.to_string()), Ok(schema));
/// # Ok::<_, SchemaError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// In bytewise order of their prefixes.
    entries: Vec<Entry>,
    /// To which of them fields are added.
    last: usize,
    /// No less than the bytes of the text.
    size: usize,
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    prefix: Bytes,
    kind: TypeName,
    fields: Fields,
    is_closed: bool,
    /// The entry with the longest prefix of this one's prefix.
    within: Option<usize>,
}

#[derive(Clone, Debug, PartialEq)]
enum Fields {
    None,
    OfDict(BTreeMap<Bytes, FieldType>),
    OfDocument(Place),
}

/// What an operation breaks.
struct Breach {
    /// What the schema has there.
    expected: String,
    /// What the operation would do.
    found: String,
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
    }
}

impl Schema {
    /// Without prefixes: nothing is refused.
    pub fn new() -> Self {
        Schema::default()
    }

    /// The keys that begin like this are of this type. The empty prefix is that of all keys. O(prefixes).
    ///
    /// # Errors
    /// The prefix has a type already, or is too long, or there are too many.
    pub fn prefix(mut self, prefix: impl Into<Bytes>, kind: TypeName) -> Result<Self, SchemaError> {
        let prefix = prefix.into();
        let size = prefix.len();
        if size > SCHEMA_PREFIX_BYTES_MAX {
            return Err(too_large("a prefix in bytes", size, SCHEMA_PREFIX_BYTES_MAX));
        }
        let place = match self.entries.binary_search_by(|entry| entry.prefix.cmp(&prefix)) {
            Err(place) => place,
            Ok(at) => {
                let first = self.entries[at].kind.name();
                return Err(SchemaError::PrefixTwice { prefix: prefix.to_string(), first });
            }
        };
        if self.entries.len() == SCHEMA_PREFIXES_MAX {
            return Err(too_large("a number of prefixes", SCHEMA_PREFIXES_MAX + 1, SCHEMA_PREFIXES_MAX));
        }
        self.grow(text::size_of_prefix(&prefix, kind))?;
        let entry = Entry { prefix, kind, fields: Fields::None, is_closed: false, within: None };
        self.entries.insert(place, entry);
        self.last = place;
        self.nest();
        Ok(self)
    }

    /// A field of the dict, or a path of the document, whose prefix was named last, has this type. O(log fields).
    ///
    /// # Errors
    /// There is no such prefix, its type has no fields, the field has a type already, or the text would be too long; of a
    /// document, the field is no path to one place, or in a place that holds no object.
    pub fn field(mut self, name: impl Into<Bytes>, of: FieldType) -> Result<Self, SchemaError> {
        let name = name.into();
        if name.len() > FIELD_BYTES_MAX {
            return Err(too_large("the name of a field in bytes", name.len(), FIELD_BYTES_MAX));
        }
        let Some(entry) = self.entries.get_mut(self.last) else {
            return Err(SchemaError::NoPrefix(name.to_string()));
        };
        let written = match entry.kind {
            TypeName::Dict => fields::add_to_dict(&mut entry.fields, name, of)?,
            TypeName::Document => fields::add_to_document(&mut entry.fields, &name, of)?,
            kind => return Err(SchemaError::NoFields { kind: kind.name() }),
        };
        self.grow(text::size_of_field(&written, of))?;
        Ok(self)
    }

    /// What was named last has no other fields than those: operations that write or read one are refused, and such that remove one
    /// are not. To be called behind [`Schema::field`].
    ///
    /// # Errors
    /// There is no prefix, its type has no fields, or none was named.
    pub fn closed(mut self) -> Result<Self, SchemaError> {
        let Some(entry) = self.entries.get_mut(self.last) else {
            return Err(SchemaError::NoPrefix("closed".to_owned()));
        };
        if !matches!(entry.kind, TypeName::Dict | TypeName::Document) {
            return Err(SchemaError::NoFields { kind: entry.kind.name() });
        }
        if entry.fields == Fields::None {
            return Err(SchemaError::ClosedWithoutFields { prefix: entry.prefix.to_string() });
        }
        entry.is_closed = true;
        Ok(self)
    }

    fn grow(&mut self, by: usize) -> Result<(), SchemaError> {
        self.size += by;
        if self.size > SCHEMA_BYTES_MAX {
            return Err(too_large("a schema in bytes", self.size, SCHEMA_BYTES_MAX));
        }
        Ok(())
    }

    /// Finds for each entry the one that it is in.
    fn nest(&mut self) {
        let mut around: Vec<usize> = Vec::new();
        for at in 0..self.entries.len() {
            let is_in = |outer: &usize| self.entries[at].prefix.starts_with(&self.entries[*outer].prefix);
            while around.last().is_some_and(|outer| !is_in(outer)) {
                around.pop();
            }
            self.entries[at].within = around.last().copied();
            around.push(at);
        }
    }

    /// Whether it has no prefixes, and so refuses nothing.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many prefixes it has.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The longest of the prefixes that a key begins with, and its type. O(log prefixes, and the length of the key).
    pub fn of_key(&self, key: &[u8]) -> Option<(&Bytes, TypeName)> {
        self.entry(key).map(|entry| (&entry.prefix, entry.kind))
    }

    fn entry(&self, key: &[u8]) -> Option<&Entry> {
        // All that is between a prefix of the key and the key begins like that prefix. So the last entry that is not behind the key
        // has the longest prefix, or is in it.
        let behind = self.entries.partition_point(|entry| entry.prefix[..] <= *key);
        let mut at = behind.checked_sub(1)?;
        let shared = self.entries[at].prefix.iter().zip(key).take_while(|(own, other)| own == other).count();
        loop {
            let entry = &self.entries[at];
            if entry.prefix.len() <= shared {
                return Some(entry);
            }
            at = entry.within?;
        }
    }

    /// Whether an operation on this key may be done. O(log prefixes, the length of the key, and what the operation writes).
    ///
    /// # Errors
    /// [`OpError::AgainstSchema`]: the key's prefix has another type, or a field that the operation names has.
    pub fn check(&self, key: &[u8], op: &Operation) -> Result<(), OpError> {
        let Some(entry) = self.entry(key) else { return Ok(()) };
        entry.check(op).map_err(|Breach { expected, found }| OpError::AgainstSchema {
            prefix: entry.prefix.to_string().into(),
            expected: expected.into(),
            found: found.into(),
            method: op.method().name.into(),
        })
    }

    /// Tells it from other schemas. O(size of the text).
    pub fn digest(&self) -> SchemaDigest {
        if self.is_empty() {
            return SchemaDigest::default();
        }
        let digest = Sha256::digest(self.to_string());
        let first = digest.first_chunk().expect("it has 32 bytes");
        SchemaDigest(u64::from_be_bytes(*first))
    }
}

impl Entry {
    fn check(&self, op: &Operation) -> Result<(), Breach> {
        if let Some(op) = op.keyspace() {
            return match op {
                KeyspaceOp::Put(content) => self.check_content(content),
                KeyspaceOp::SetUntil { .. } => self.is_of(TypeInfo::of::<Register>()),
                KeyspaceOp::Delete { .. }
                | KeyspaceOp::Exists
                | KeyspaceOp::Expire { .. }
                | KeyspaceOp::Persist { .. }
                | KeyspaceOp::TimeLeft { .. }
                | KeyspaceOp::ExpiryTime
                | KeyspaceOp::Content
                | KeyspaceOp::Digest
                | KeyspaceOp::Version
                | KeyspaceOp::Run(_)
                | KeyspaceOp::Ask(_) => Ok(()),
            };
        }
        if !self.has_method_of(op) {
            self.is_of(op.type_info())?;
        }
        match &self.fields {
            Fields::None => Ok(()),
            Fields::OfDict(fields) => match op.downcast::<Dict>() {
                Some(op) => fields::check_dict(fields, self.is_closed, op),
                None => Ok(()),
            },
            Fields::OfDocument(root) => match op.downcast::<Document>() {
                Some(op) => fields::check_document(root, self.is_closed, op),
                None => Ok(()),
            },
        }
    }

    fn is_of(&self, found: &TypeInfo) -> Result<(), Breach> {
        if found.id == self.kind.info().id {
            return Ok(());
        }
        let expected = format!("a {}", self.kind.name());
        Err(Breach { expected, found: format!("an operation of a {}", found.name) })
    }

    /// `GET` on a counter: types that share records share what only reads them, and words that name a method say nothing of a type.
    fn has_method_of(&self, op: &Operation) -> bool {
        let (own, others, method) = (self.kind.info(), op.type_info(), op.method());
        method.access == Access::Read
            && own.native == others.native
            && own.methods.iter().any(|it| it.name == method.name)
    }

    /// What is put in place of a record as a whole.
    fn check_content(&self, content: &Content) -> Result<(), Breach> {
        let state = content.state();
        let found = state.type_info();
        if let Some(text) = state.downcast::<Register>() {
            // A counter's content is called that, too.
            let fits = match self.kind {
                TypeName::Counter => text.as_int().is_ok(),
                TypeName::FloatCounter => text.as_float().is_ok(),
                _ => found.id == self.kind.info().id,
            };
            let breach =
                || Breach { expected: format!("a {}", self.kind.name()), found: "another string".to_owned() };
            return if fits { Ok(()) } else { self.is_of(found).map_err(|_| breach()) };
        }
        self.is_of(found)?;
        match &self.fields {
            Fields::OfDict(fields) => {
                fields::check_dict_content(fields, self.is_closed, state.downcast::<Dict>())
            }
            Fields::OfDocument(root) => {
                fields::check_document_content(root, self.is_closed, state.downcast::<Document>())
            }
            Fields::None => Ok(()),
        }
    }
}

fn too_large(what: &'static str, size: usize, limit: usize) -> SchemaError {
    SchemaError::TooLarge { what, size, limit }
}

#[cfg(test)]
mod tests;
