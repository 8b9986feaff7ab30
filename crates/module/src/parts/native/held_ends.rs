//! What is noted of keys whose ends are put off (`ends.rs`).

use std::collections::BTreeMap;

use claret_types::{Bytes, Expiry};

/// The keys whose ends are put off.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldEnds(pub(super) BTreeMap<Bytes, Held>);

/// The end of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// For so many votes.
    pub(super) holders: u32,
    /// When the key ends for transactions; `None`: no more.
    pub(super) end: Option<Expiry>,
    /// When it does in the server. A key of this name that ends at another time is another key.
    pub(super) put_off: i64,
}

impl HeldEnds {
    /// When a key ends for transactions, if its end is put off.
    pub(crate) fn get(&self, key: &Bytes) -> Option<Option<Expiry>> {
        if self.0.is_empty() {
            return None; // Nearly always.
        }
        self.0.get(key).map(|held| held.end)
    }

    /// One vote is over. With the last one: what was held.
    pub(super) fn leave(&mut self, key: &Bytes) -> Option<Held> {
        let held = self.0.get_mut(key)?;
        held.holders -= 1;
        if held.holders > 0 {
            return None;
        }
        self.0.remove(key)
    }
}
