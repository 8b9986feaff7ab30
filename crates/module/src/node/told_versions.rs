//! The versions that were told to those who WATCH, and the keys for whose changes somebody waits, for as long as the server says what
//! changes.

use std::collections::BTreeSet;

use claret_core::Versions;
use claret_planted::{Bug, is_planted};
use claret_types::Bytes;

use super::settings;
use crate::ffi::{Ctx, Flag};

/// The versions that were told, and how events are asked for.
pub(crate) struct Told {
    pub(super) versions: Versions,
    /// Keys for whose changes somebody waits (P91).
    pub(super) awaited: BTreeSet<Bytes>,
    /// Asks the server for its events.
    subscribe: fn(Ctx) -> bool,
    /// They come.
    is_subscribed: bool,
}

impl Told {
    pub(super) fn new(epoch: u64, subscribe: fn(Ctx) -> bool) -> Self {
        let bytes_max = settings::VERSIONS_BYTES_MAX.get() as usize;
        let versions = Versions::new(epoch, bytes_max);
        Told { versions, awaited: BTreeSet::new(), subscribe, is_subscribed: false }
    }

    /// Asks the server for its events, once.
    pub(super) fn hear(&mut self, ctx: Ctx) {
        self.is_subscribed = self.is_subscribed || (self.subscribe)(ctx);
    }

    pub(super) fn of(&mut self, ctx: Ctx, key: &[u8]) -> Bytes {
        self.hear(ctx);
        let sees_next = self.is_subscribed
            && !Ctx::must_not_write()
            && ![Flag::Multi, Flag::Lua].into_iter().any(|flag| ctx.is(flag));
        self.versions.set_bytes_max(if is_planted(Bug::VersionsUnbounded) {
            usize::MAX
        } else {
            settings::VERSIONS_BYTES_MAX.get() as usize
        });
        match sees_next || is_planted(Bug::VersionWhereNobodyLooks) {
            true => self.versions.of(key),
            false => self.versions.of_nothing(),
        }
    }
}
