//! How effects and records are written to a log: their serde forms.
//!
//! An [`Effect`] is written as the index of its type in [`BUILTIN`](crate::BUILTIN), and as its type derives it. A [`State`] is written as its
//! expiry and the words that describe its content (`content.rs`), without a bound. Types that are not built in have no such form.
//!
//! Whatever the bytes are, reading them ends and does not panic, in memory in proportion to the bytes that are there.

use std::fmt;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::ser::{Error as _, SerializeTuple};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::bounded_serde::long_list;
use crate::content::{any_state_of, any_words_of, of_row};
use crate::keyspace::KeyspaceEffect;
use crate::rows::{ROWS, Row};
use crate::{Bytes, DataType, Effect, Expiry, OpError, State};

macro_rules! effects_of {
    ($($place:literal $kind:ident),* $(,)?) => {
        impl Serialize for Effect {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if let Some(effect) = self.keyspace() {
                    return (KEYSPACE_PLACE, effect).serialize(serializer);
                }
                $(if let Some(effect) = self.downcast::<crate::$kind>() {
                    return ($place as u8, effect).serialize(serializer);
                })*
                let name = self.type_info().name;
                Err(S::Error::custom(format_args!("effects of type {name} are not written: it is not built in")))
            }
        }

        /// Reads what comes after the place of its type.
        fn read_effect<'de, A: SeqAccess<'de>>(place: u8, parts: &mut A) -> Result<Effect, A::Error> {
            fn next<'de, A: SeqAccess<'de>, T: Deserialize<'de>>(parts: &mut A) -> Result<T, A::Error> {
                parts.next_element()?.ok_or_else(|| A::Error::custom("an effect has two parts"))
            }
            match place {
                $($place => next::<A, <crate::$kind as DataType>::Effect>(parts).map(Effect::new::<crate::$kind>),)*
                KEYSPACE_PLACE => next::<A, KeyspaceEffect>(parts).map(Effect::from),
                _ => Err(A::Error::custom(format_args!("there is no type number {place}"))),
            }
        }

        #[cfg(test)]
        const PLACES: &[(usize, &str)] = &[$(($place, <crate::$kind as DataType>::NAME)),*];
    };
}

/// The place of operations on records of any type in [`BUILTIN`](crate::BUILTIN).
const KEYSPACE_PLACE: u8 = 11;

crate::with_types!(effects_of);

impl<'de> Deserialize<'de> for Effect {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Parts;

        impl<'de> Visitor<'de> for Parts {
            type Value = Effect;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the number of a type, and an effect of it")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Effect, A::Error> {
                let place = parts.next_element()?.ok_or_else(|| A::Error::custom("an effect has a type"))?;
                read_effect(place, &mut parts)
            }
        }

        deserializer.deserialize_tuple(2, Parts)
    }
}

impl State {
    /// The type's name, and the words that describe the content, without the expiry: what `RECORD.CONTENT` answers, also of
    /// records that are too large for that. O(content).
    ///
    /// # Errors
    /// It has a type that is not built in.
    pub fn words(&self) -> Result<Vec<Bytes>, OpError> {
        any_words_of(self)
    }
}

impl Serialize for State {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let words = any_words_of(self).map_err(S::Error::custom)?;
        let number = shared().position(|row| row.info.name == self.type_info().name);
        let mut parts = serializer.serialize_tuple(3)?;
        // Texts and numbers have the same words, and not the same type.
        parts.serialize_element(&number.map_or(0, |at| at as u8 + 1))?;
        parts.serialize_element(&self.expiry())?;
        parts.serialize_element(&words)?;
        parts.end()
    }
}

/// Types whose records are described by the name of another one. Their order is that of the registry.
fn shared() -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(|row| !row.is_described_by_itself())
}

impl<'de> Deserialize<'de> for State {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Parts(u8, Option<Expiry>, #[serde(deserialize_with = "long_list")] Vec<Bytes>);

        let Parts(number, expiry, words) = Parts::deserialize(deserializer)?;
        let state = match number.checked_sub(1) {
            None => any_state_of(&words),
            Some(at) => {
                let row = shared().nth(usize::from(at));
                let row = row
                    .filter(|row| words.first().is_some_and(|name| name[..] == *row.described_as.as_bytes()));
                let none = || D::Error::custom(format_args!("number {number} is no type of such a record"));
                of_row(row.ok_or_else(none)?, &words)
            }
        };
        let state = state.map_err(D::Error::custom)?;
        Ok(state.expiring(expiry))
    }
}

impl<'de> Deserialize<'de> for Expiry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let ms = u64::deserialize(deserializer)?;
        Expiry::at_ms(ms).ok_or_else(|| D::Error::custom(format_args!("a record that expires at {ms} ms")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BUILTIN;

    #[test]
    fn places_of_effects_are_those_of_their_types() {
        let names: Vec<_> = BUILTIN.iter().map(|info| info.name).collect();
        assert!(PLACES.iter().all(|(place, name)| names[*place] == *name));
        assert_eq!(PLACES.len() + 1, BUILTIN.len());
        assert!(PLACES.iter().all(|(place, _)| *place != usize::from(KEYSPACE_PLACE)));
        assert!(BUILTIN[usize::from(KEYSPACE_PLACE)].is_of_any());
    }
}
