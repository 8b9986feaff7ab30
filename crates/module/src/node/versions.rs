//! Versions of keys (O10 of `docs/optimistic.md`): what is answered to `RECORD.VERSION`, and what changes it.
//!
//! Whatever changes a key tells so: the server's own event of it, also for what the module does with commands; what the module does
//! past them; and, for the few commands that change a key and tell nobody, the filter, just before they run. The server's events
//! cost each command that writes a little. So they are asked for when the first version is, and a node of which nobody asks one
//! pays nothing.
//!
//! Where a command runs that the filter cannot see just then (what was queued in a MULTI, what was put off while clients were
//! paused) no version is kept: each one that is told is that of nothing.

use claret_core::Versions;
use claret_planted::{Bug, is_planted};
use claret_types::{Bytes, State};

use super::keyspace::Keyspace;
use crate::ffi::{Ctx, Filtered, Text};
use crate::parts::command_table::{Keys, Row};

impl Keyspace {
    /// What is told of a key to `RECORD.VERSION`, whatever is in it, and also if it is not there. O(1), but for the search of the
    /// versions.
    pub(super) fn version(&self, key: &Bytes) -> State {
        // One whose time is over ends now, before it is told.
        self.look_at(&Text::new(key));
        let told = self.told.with(|told| told.of(Ctx::current(), key));
        State::of_version(told.expect("nobody borrows them for longer"))
    }

    /// A key was changed, or is about to be.
    pub(crate) fn has_changed(&self, key: &[u8]) {
        if !is_planted(Bug::VersionOutlivesChange) {
            self.told.with(|told| told.versions.changed(key));
        }
    }

    /// Somebody waits for what comes to a key, or nobody does any more.
    pub(super) fn awaits(&self, key: &Bytes, awaits: bool) {
        self.told.with(|told| match awaits {
            true => {
                told.hear(Ctx::current());
                told.awaited.insert(key.clone());
            }
            false => drop(told.awaited.remove(key)),
        });
    }

    /// Whether somebody does.
    pub(crate) fn is_awaited(&self, key: &[u8]) -> bool {
        self.told.with(|told| told.awaited.contains(key)) == Some(true)
    }

    /// Another shard begins, on which nobody waits yet.
    pub(super) fn nobody_waits(&self) {
        self.told.with(|told| told.awaited.clear());
    }

    /// Whether anybody wants to hear of changes: to whom a version was told that is not over, or who waits.
    pub(crate) fn has_hearers(&self) -> bool {
        self.told.with(|told| !told.versions.is_empty() || !told.awaited.is_empty()) == Some(true)
    }

    /// All keys were, or may have been.
    pub(crate) fn all_changed(&self) {
        self.told.with(|told| told.versions.all_changed());
    }

    /// Whether any version was told that is not over.
    pub(crate) fn has_versions(&self) -> bool {
        self.told.with(|told| !told.versions.is_empty()) == Some(true)
    }

    pub(crate) fn versions<R: Default>(&self, look: impl FnOnce(&Versions) -> R) -> R {
        self.told.with(|told| look(&told.versions)).unwrap_or_default()
    }

    /// A command is about to run, of which the server may tell nothing.
    pub(crate) fn runs(&self, ctx: Ctx, row: Row, words: &[Text]) {
        match row.keys {
            _ if !row.is_silent || is_planted(Bug::SilentChangesMissed) || !self.has_versions() => {}
            Keys::None => self.all_changed(),
            Keys::Fixed { .. } | Keys::Asked => {
                row.keys(words, |words| ctx.keys_of(words)).iter().for_each(|(key, _)| self.has_changed(key));
            }
        }
    }

    /// The same of one that the filter sees.
    pub(super) fn is_about_to_run(&self, ctx: Ctx, row: Row, filtered: &Filtered) {
        if row.is_silent && !is_planted(Bug::SilentChangesMissed) && self.has_versions() {
            self.runs(ctx, row, &filtered.words());
        }
    }
}
