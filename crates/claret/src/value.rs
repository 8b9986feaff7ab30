//! Values: what Rust types are as the bytes of a record, and back.
//!
//! A record holds bytes: the value of a register or a field, a member, an element of a list. [`IntoValue`] makes them of a
//! Rust value, [`FromValue`] makes a Rust value of them. Implement both for a type of your own, or wrap it in `Json`.
//!
//! Numbers are written in decimal, as Redis writes them: `register("k").set(5)` leaves a string that `INCR` can count on.

#[cfg(feature = "json")]
mod json;

use std::borrow::Cow;
use std::fmt::{self, Write};

use claret_types::Bytes;

#[cfg(feature = "json")]
pub use json::Json;

use crate::error::{Error, ExecuteError};

/// A Rust value that can be written to a record.
///
/// ```
/// use claret::{Bytes, FromValue, IntoValue, Records, Store, errors::ValueError};
///
/// #[derive(Debug, PartialEq)]
/// struct Seat { row: char, number: u8 }
///
/// impl IntoValue for Seat {
///     fn into_value(self) -> Result<Bytes, ValueError> {
///         format!("{}{}", self.row, self.number).into_value()
///     }
/// }
///
/// impl FromValue for Seat {
///     fn from_value(value: Bytes) -> Result<Self, ValueError> {
///         let text = String::from_value(value)?;
///         let seat = text.chars().next().zip(text.get(1..).and_then(|number| number.parse().ok()));
///         let (row, number) = seat.ok_or_else(|| ValueError::new("text", "a seat, such as C12"))?;
///         Ok(Seat { row, number })
///     }
/// }
///
/// let store = Store::in_memory().blocking();
/// store.set("seats:taken").add(Seat { row: 'C', number: 12 })?;
/// assert_eq!(store.set("seats:taken").members::<Seat>()?, [Seat { row: 'C', number: 12 }]);
/// # Ok::<_, claret::Error>(())
/// ```
pub trait IntoValue {
    /// The bytes to write.
    ///
    /// # Errors
    /// If the value has no form as bytes. Nothing is written then, and a transaction is doomed.
    fn into_value(self) -> Result<Bytes, ValueError>;
}

/// A Rust value that can be read from a record. [`IntoValue`] has an example.
pub trait FromValue: Sized + 'static {
    /// Whether all bytes are a value of this type, so that reading cannot fail. A store then need not look at the value
    /// before it commits an operation that takes it, such as `LPOP`.
    const ACCEPTS_ALL: bool = false;

    /// The value of these bytes: always the same, for it may be asked twice.
    ///
    /// # Errors
    /// If they are not of this type. The caller gets [`ExecuteError::Value`](crate::errors::ExecuteError::Value), which names the key.
    fn from_value(value: Bytes) -> Result<Self, ValueError>;
}

/// A value is not of the Rust type that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueError {
    found: String,
    asked: String,
}

impl ValueError {
    /// An error that names what was found and what was asked for, both with their articles: `text`, `an integer`.
    pub fn new(found: impl Into<String>, asked: impl Into<String>) -> Self {
        ValueError { found: found.into(), asked: asked.into() }
    }

    /// The error of an operation on this key.
    pub(crate) fn at(self, key: Bytes) -> Error {
        Error::Execute(ExecuteError::Value { key, found: self.found, asked: self.asked })
    }

    /// Says what kind of value was found. It names its kind and length and keeps its content to itself, because errors
    /// end in logs.
    fn of(value: &[u8], asked: impl Into<String>) -> Self {
        let len = value.len();
        let found = match std::str::from_utf8(value) {
            Ok("") => "an empty value".to_owned(),
            Ok(text) if is_integer(value) && text.parse::<i128>().is_ok() => "an integer".to_owned(),
            Ok(text) if text.parse().is_ok_and(|number: f64| !number.is_nan()) => "a number".to_owned(),
            Ok(_) => format!("text of {len} bytes"),
            Err(_) => format!("{len} bytes that are not UTF-8"),
        };
        ValueError { found, asked: asked.into() }
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the value is {}, and {} was asked for", self.found, self.asked)
    }
}

impl std::error::Error for ValueError {}

// --- bytes and text ---

macro_rules! into_bytes {
    ($($kind:ty),*) => {$(
        impl IntoValue for $kind {
            #[inline]
            fn into_value(self) -> Result<Bytes, ValueError> {
                Ok(self.into())
            }
        }
    )*};
}

into_bytes!(Bytes, &Bytes, Vec<u8>, &[u8], String, &String, &str);

/// Nothing, as the empty value: the answer of a transaction that answers nothing.
impl IntoValue for () {
    #[inline]
    fn into_value(self) -> Result<Bytes, ValueError> {
        Ok(Bytes::from(""))
    }
}

impl FromValue for () {
    fn from_value(value: Bytes) -> Result<Self, ValueError> {
        if value.is_empty() { Ok(()) } else { Err(ValueError::of(&value, "nothing, as ()")) }
    }
}

impl IntoValue for &Vec<u8> {
    #[inline]
    fn into_value(self) -> Result<Bytes, ValueError> {
        Ok(self.as_slice().into())
    }
}

impl<const N: usize> IntoValue for &[u8; N] {
    #[inline]
    fn into_value(self) -> Result<Bytes, ValueError> {
        Ok(self.into())
    }
}

impl<const N: usize> IntoValue for [u8; N] {
    #[inline]
    fn into_value(self) -> Result<Bytes, ValueError> {
        Ok((&self).into())
    }
}

impl IntoValue for Cow<'_, str> {
    fn into_value(self) -> Result<Bytes, ValueError> {
        match self {
            Cow::Borrowed(text) => text.into_value(),
            Cow::Owned(text) => text.into_value(),
        }
    }
}

impl FromValue for Bytes {
    const ACCEPTS_ALL: bool = true;

    #[inline]
    fn from_value(value: Bytes) -> Result<Self, ValueError> {
        Ok(value)
    }
}

impl FromValue for Vec<u8> {
    const ACCEPTS_ALL: bool = true;

    fn from_value(value: Bytes) -> Result<Self, ValueError> {
        Ok(value.into())
    }
}

impl FromValue for String {
    fn from_value(value: Bytes) -> Result<Self, ValueError> {
        String::from_utf8(value.into()).map_err(|error| ValueError::of(error.as_bytes(), "text (a String)"))
    }
}

// --- numbers and truth ---

/// Whether this is an integer as Redis writes one: without a plus sign and leading zeros.
fn is_integer(value: &[u8]) -> bool {
    match value.strip_prefix(b"-").unwrap_or(value) {
        b"0" => value == b"0",
        digits => digits.first().is_some_and(|first| *first != b'0') && digits.iter().all(u8::is_ascii_digit),
    }
}

macro_rules! integers {
    ($($kind:ident),*) => {$(
        /// In decimal.
        impl IntoValue for $kind {
            #[inline]
            fn into_value(self) -> Result<Bytes, ValueError> {
                Ok(written(format_args!("{self}")))
            }
        }

        /// In decimal, as Redis writes integers: `007` and `+7` are none.
        impl FromValue for $kind {
            fn from_value(value: Bytes) -> Result<Self, ValueError> {
                let number = value.as_str().filter(|_| is_integer(&value)).and_then(|text| text.parse().ok());
                number.ok_or_else(|| {
                    let (kind, min, max) = (stringify!($kind), $kind::MIN, $kind::MAX);
                    ValueError::of(&value, format!("an integer from {min} to {max} ({kind})"))
                })
            }
        }
    )*};
}

integers!(i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize);

macro_rules! floats {
    ($($kind:ident),*) => {$(
        /// The shortest decimal that reads back as the same number, without an exponent: what a `FloatCounter` writes.
        /// NaN is refused.
        impl IntoValue for $kind {
            #[inline]
            fn into_value(self) -> Result<Bytes, ValueError> {
                if self.is_nan() {
                    return Err(ValueError::new("NaN", "a number"));
                }
                Ok(written(format_args!("{self}")))
            }
        }

        impl FromValue for $kind {
            fn from_value(value: Bytes) -> Result<Self, ValueError> {
                let number = value.as_str().and_then(|text| text.parse::<$kind>().ok());
                number
                    .filter(|number| !number.is_nan())
                    .ok_or_else(|| ValueError::of(&value, concat!("a number (", stringify!($kind), ")")))
            }
        }
    )*};
}

floats!(f32, f64);

/// `1` or `0`, as Redis answers.
impl IntoValue for bool {
    #[inline]
    fn into_value(self) -> Result<Bytes, ValueError> {
        Ok(if self { "1" } else { "0" }.into())
    }
}

/// `1` or `0`, as Redis answers.
impl FromValue for bool {
    fn from_value(value: Bytes) -> Result<Self, ValueError> {
        match &*value {
            b"1" => Ok(true),
            b"0" => Ok(false),
            _ => Err(ValueError::of(&value, "1 or 0 (a bool)")),
        }
    }
}

/// Formats without allocating: numbers are short.
fn written(number: fmt::Arguments<'_>) -> Bytes {
    let mut bytes = Bytes::default();
    bytes.write_fmt(number).expect("writing to memory does not fail");
    bytes
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;

    /// There and back again, and the bytes in between.
    #[track_caller]
    fn same<V: IntoValue + FromValue + Clone + PartialEq + Debug>(value: V, bytes: &str) {
        let written = value.clone().into_value().expect("it has a form as bytes");
        assert_eq!(written, bytes.into());
        assert_eq!(V::from_value(written), Ok(value));
    }

    #[track_caller]
    fn refused<V: FromValue + Debug>(bytes: &[u8], error: &str) {
        let refused = V::from_value(bytes.into()).expect_err("it is of another type");
        assert_eq!(refused.to_string(), error);
    }

    #[test]
    fn what_is_written_reads_back() {
        same(Bytes::from("a"), "a");
        same(b"abc".to_vec(), "abc");
        same("a text longer than what is kept inline".to_owned(), "a text longer than what is kept inline");
        same(-5_i8, "-5");
        same(i64::MIN, "-9223372036854775808");
        same(u64::MAX, "18446744073709551615");
        same(u128::MAX, "340282366920938463463374607431768211455");
        same(0_u8, "0");
        same(3.0, "3");
        same(0.1 + 0.2, "0.30000000000000004");
        same(f64::MIN_POSITIVE, &format!("{}", f64::MIN_POSITIVE));
        same(f64::NEG_INFINITY, "-inf");
        same(2.5_f32, "2.5");
        same(true, "1");
        same(false, "0");
    }

    #[test]
    fn borrowed_values_are_written_too() {
        let expected = Ok(Bytes::from("ab"));
        assert_eq!("ab".into_value(), expected);
        assert_eq!((&"ab".to_owned()).into_value(), expected);
        assert_eq!((&b"ab"[..]).into_value(), expected);
        assert_eq!(b"ab".into_value(), expected);
        assert_eq!([b'a', b'b'].into_value(), expected);
        assert_eq!((&b"ab".to_vec()).into_value(), expected);
        assert_eq!((&Bytes::from("ab")).into_value(), expected);
        assert_eq!(Cow::Borrowed("ab").into_value(), expected);
        assert_eq!(Cow::<str>::Owned("ab".into()).into_value(), expected);
    }

    #[test]
    fn a_value_of_another_type_names_both_types_and_not_its_content() {
        let u8_asked = "an integer from 0 to 255 (u8) was asked for";
        refused::<u8>(b"300", &format!("the value is an integer, and {u8_asked}"));
        refused::<u8>(b"-1", &format!("the value is an integer, and {u8_asked}"));
        refused::<u8>(b"1.5", &format!("the value is a number, and {u8_asked}"));
        refused::<u8>(b"secret", &format!("the value is text of 6 bytes, and {u8_asked}"));
        refused::<u8>(b"", &format!("the value is an empty value, and {u8_asked}"));
        refused::<u8>(b"\xff", &format!("the value is 1 bytes that are not UTF-8, and {u8_asked}"));
        for not_as_redis_writes_it in [&b"007"[..], b"+7", b"-0", b" 7", b"-", b"7 "] {
            assert!(i64::from_value(not_as_redis_writes_it.into()).is_err());
        }
        refused::<f64>(b"nan", "the value is text of 3 bytes, and a number (f64) was asked for");
        refused::<bool>(b"2", "the value is an integer, and 1 or 0 (a bool) was asked for");
        refused::<bool>(b"true", "the value is text of 4 bytes, and 1 or 0 (a bool) was asked for");
        refused::<String>(
            b"\xff\xfe",
            "the value is 2 bytes that are not UTF-8, and text (a String) was asked for",
        );
        assert_eq!(f64::NAN.into_value(), Err(ValueError::new("NaN", "a number")));
    }
}
