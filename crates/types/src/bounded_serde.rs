//! Lists and texts of other processes, read without trusting the length or the characters that they claim: for
//! `#[serde(deserialize_with)]`.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use smallvec::{Array, SmallVec};

/// How many elements are allocated before they are read: for a short list, and for a long one.
pub(crate) const AWAITED_MAX: (usize, usize) = (64, 1 << 17);

/// A short list, read without trusting the length that it claims. For `#[serde(deserialize_with)]`.
///
/// # Errors
/// When an element cannot be read.
pub fn short_list<'de, D, A>(deserializer: D) -> Result<SmallVec<A>, D::Error>
where
    D: Deserializer<'de>,
    A: Array<Item: Deserialize<'de>>,
{
    struct Elements<A>(PhantomData<A>);

    impl<'de, A: Array<Item: Deserialize<'de>>> Visitor<'de> for Elements<A> {
        type Value = SmallVec<A>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_seq<S: SeqAccess<'de>>(self, mut elements: S) -> Result<SmallVec<A>, S::Error> {
            let mut list = SmallVec::with_capacity(elements.size_hint().unwrap_or(0).min(AWAITED_MAX.0));
            while let Some(element) = elements.next_element()? {
                list.push(element);
            }
            Ok(list)
        }
    }

    deserializer.deserialize_seq(Elements(PhantomData))
}

/// A list that may be long. Growing its memory would cost more than reading the elements, so it is allocated at once,
/// as far as the format bounds the length by the bytes that are left.
///
/// # Errors
/// When an element cannot be read.
pub fn long_list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Elements<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Elements<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_seq<S: SeqAccess<'de>>(self, mut elements: S) -> Result<Vec<T>, S::Error> {
            let mut list = Vec::with_capacity(elements.size_hint().unwrap_or(0).min(AWAITED_MAX.1));
            while let Some(element) = elements.next_element()? {
                list.push(element);
            }
            Ok(list)
        }
    }

    deserializer.deserialize_seq(Elements(PhantomData))
}

/// A text of another process, as one line that harms no terminal and no reply: what is a control character becomes a space.
/// So it is no longer than what came. For `#[serde(deserialize_with)]`.
///
/// # Errors
/// When it is no text.
pub fn one_line<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: From<String>,
{
    let came = String::deserialize(deserializer)?;
    let harms = came.contains(char::is_control);
    Ok(T::from(if harms { came.replace(char::is_control, " ") } else { came }))
}
