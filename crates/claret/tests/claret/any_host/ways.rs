//! A case for transactions in both ways to read: under locks, and looking without them.

use claret::{Store, TxOptions};

pub(crate) struct Case<'a> {
    pub(crate) store: &'a Store,
    pub(crate) options: TxOptions,
    keys: String,
}

impl<'a> Case<'a> {
    /// One of each, with keys of its own that begin like this.
    pub(crate) fn both(store: &'a Store, keys: &str) -> [Case<'a>; 2] {
        let ways = [("locks", TxOptions::new()), ("looks", TxOptions::new().optimistic())];
        ways.map(|(way, options)| Case { store, options, keys: format!("{keys}{way}:") })
    }

    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.keys)
    }
}
