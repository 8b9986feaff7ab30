//! Keys as strings of the server. A record is read when a call is decided and written when its transaction ends, mostly soon
//! after, and to make the string costs as much as to look into the record: so the latest ones are kept.

use std::hash::BuildHasher;

use claret_types::Bytes;

use crate::ffi::{OnMainThread, Text};

/// So many are kept at most, one for each value that a part of their hash has.
const KEPT: usize = 256;

/// Longer ones are not kept.
const LENGTH_MAX: usize = 128;

static LATEST: OnMainThread<Latest> = OnMainThread::new();

/// Strings, by a part of the hash of what they say.
struct Latest(Box<[Option<Text>; KEPT]>);

/// From now on strings are kept.
pub(super) fn begin() {
    LATEST.set(Some(Latest(Box::new([const { None }; KEPT]))));
}

/// A key as the server takes it. O(its length).
pub(super) fn of(key: &Bytes) -> Text {
    if key.len() > LENGTH_MAX {
        return Text::new(key);
    }
    LATEST.with(|latest| latest.of(key)).unwrap_or_else(|| Text::new(key))
}

impl Latest {
    fn of(&mut self, key: &Bytes) -> Text {
        let hash = foldhash::fast::FixedState::default().hash_one(&key[..]);
        let place = &mut self.0[hash as usize % KEPT];
        match place {
            Some(name) if *name.bytes() == key[..] => Text::of(name.arg()),
            _ => Text::of(place.insert(Text::new(key)).arg()),
        }
    }
}
