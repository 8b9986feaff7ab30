//! How operations travel between processes: their serde forms, where a derive is not enough. That of answers is in `reply.rs`.
//!
//! An [`Operation`] travels as the index of its type in [`BUILTIN`], the index of its method in the type's `METHODS`,
//! and the arguments as one would type them. The receiver uses the type's own `parse`, so a type describes its
//! operations only once.
//!
//! Whatever the bytes are, reading them ends and does not panic. It takes memory in proportion to the bytes that are
//! there, not to a length that they claim.

use std::fmt;

use serde::de::{DeserializeSeed, Error as _, SeqAccess, Visitor};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::SmallVec;

use crate::bounded_serde::AWAITED_MAX;
pub use crate::bounded_serde::{long_list, one_line, short_list};
use crate::claim::MODES_MAX;
use crate::data_type::{Access, Arguments, DataType, Execution, Few, Method, Unique};
use crate::expecting::Expected;
use crate::registry::BUILTIN;
use crate::{Bytes, Claims, Mode, Modes, OpError, Operation};

/// Added to the number of a type: the operation must give a certain answer, and its last argument says which.
const EXPECTS: u8 = 0x80;

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Content;

        impl Visitor<'_> for Content {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(Bytes::copy_from(bytes))
            }
        }

        deserializer.deserialize_bytes(Content)
    }
}

/// Only modes that can exist: others would have no bit.
impl<'de> Deserialize<'de> for Mode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = u8::deserialize(deserializer)?;
        if usize::from(number) < MODES_MAX {
            Ok(Mode(number))
        } else {
            Err(D::Error::custom(format_args!("there is no lock mode {number}")))
        }
    }
}

impl Operation {
    /// Whether its type is built in: only such operations travel between processes.
    pub fn is_builtin(&self) -> bool {
        self.kind_no().is_some()
    }

    /// As it travels: the place of its type in [`BUILTIN`], the place of its method in the type, and its arguments. What is no
    /// operation becomes one that fails its check ([`Operation::check`]).
    pub fn of_numbers(kind: u8, method: u8, arguments: Arguments<'_>) -> Self {
        if kind & EXPECTS > 0 {
            let split = arguments.split_last();
            let read = split.and_then(|(last, rest)| Some((Expected::of_argument(last)?, rest)));
            let Some((expected, rest)) = read else {
                return Operation::new::<Unread>(OpError::UnknownMethod("one without its answer".to_owned()));
            };
            return Operation::of_numbers(kind & !EXPECTS, method, rest).expecting(expected);
        }
        let unknown = || OpError::UnknownMethod(format!("number {method} of type number {kind}"));
        let found = BUILTIN
            .get(usize::from(kind))
            .and_then(|kind| Some((kind, kind.methods.get(usize::from(method))?)))
            .ok_or_else(unknown);
        let op = found.and_then(|(kind, method)| (kind.parse)(method.name, arguments));
        op.unwrap_or_else(Operation::new::<Unread>)
    }

    fn kind_no(&self) -> Option<usize> {
        let id = self.type_info().id;
        BUILTIN.iter().position(|kind| kind.id == id)
    }

    /// The numbers of its type and its method.
    fn numbers(&self) -> Option<(u8, u8)> {
        let kind = self.kind_no()?;
        let (methods, name) = (BUILTIN[kind].methods, self.method().name);
        // Mostly it is the very same text, which is seen sooner than that it is an equal one.
        let place = methods.iter().position(|it| std::ptr::eq(it.name, name));
        let method = place.or_else(|| methods.iter().position(|it| it.name == name))?;
        Some((u8::try_from(kind).ok()?, u8::try_from(method).ok()?))
    }
}

impl Serialize for Operation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some((kind, method)) = self.numbers() else {
            let (name, method) = (self.type_info().name, self.method().name);
            return Err(S::Error::custom(format_args!("{method} of type {name} is not built in")));
        };
        let mut arguments = self.arguments();
        let Some(expected) = self.expected() else {
            return (kind, method, &arguments[..]).serialize(serializer);
        };
        arguments.push(expected.to_argument());
        (kind | EXPECTS, method, &arguments[..]).serialize(serializer)
    }
}

/// Input that is no operation is read as an operation that fails its check, with an error that names the input.
/// Formats do not keep the text of an error, and receivers check operations anyway.
impl<'de> Deserialize<'de> for Operation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Parts;

        impl<'de> Visitor<'de> for Parts {
            type Value = Operation;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the numbers of a type and of a method, and arguments")
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut parts: S) -> Result<Operation, S::Error> {
                let short = || S::Error::custom("an operation has three parts");
                let kind: u8 = parts.next_element()?.ok_or_else(short)?;
                let method: u8 = parts.next_element()?.ok_or_else(short)?;
                let mut arguments = SmallVec::new();
                parts.next_element_seed(ArgumentsInto(&mut arguments))?.ok_or_else(short)?;
                Ok(Operation::of_numbers(kind, method, &arguments))
            }
        }

        deserializer.deserialize_tuple(3, Parts)
    }
}

/// Reads arguments directly into their place: many operations come at once, and moving them costs more than reading
/// them.
struct ArgumentsInto<'a>(&'a mut SmallVec<[Bytes; 4]>);

impl<'de> DeserializeSeed<'de> for ArgumentsInto<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for ArgumentsInto<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("arguments")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut elements: S) -> Result<(), S::Error> {
        self.0.reserve(elements.size_hint().unwrap_or(0).min(AWAITED_MAX.0));
        while let Some(element) = elements.next_element()? {
            self.0.push(element);
        }
        Ok(())
    }
}

/// The type of input that is no operation.
struct Unread;

const UNREAD: &[Method] = &[Method {
    name: "UNREAD",
    arguments: "",
    summary: "what came as an operation and is none",
    access: Access::Write,
    returns: true,
    complexity: "O(1)",
}];

impl DataType for Unread {
    const NAME: &'static str = "unread";
    const SUMMARY: &'static str = "what came as an operation and is none";
    const NATIVE: &'static str = "none";
    const MODES: Modes = Modes { names: &[], conflicts: &[], removing: 0, clearing: 0 };
    const METHODS: &'static [Method] = UNREAD;

    type State = ();
    type Op = OpError;
    type Effect = ();

    fn parse(method: &str, _: Arguments<'_>) -> Result<OpError, OpError> {
        Err(OpError::UnknownMethod(method.to_owned()))
    }

    fn method(_: &OpError) -> &'static Method {
        &UNREAD[0]
    }

    fn arguments(_: &OpError) -> Few<Bytes> {
        Few::new()
    }

    fn check(error: &OpError) -> Result<(), OpError> {
        Err(error.clone())
    }

    fn is_absent((): &()) -> bool {
        true
    }

    fn footprint(_: &OpError) -> Claims {
        Claims::record(Mode::EXCLUSIVE)
    }

    fn execute((): &(), error: &OpError, _: Unique) -> Result<Execution<()>, OpError> {
        Err(error.clone())
    }

    fn apply((): &mut (), (): ()) {}
}
