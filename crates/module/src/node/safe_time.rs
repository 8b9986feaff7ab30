//! Whether somebody waits for what was ordered at this node to be settled (P79).

use claret_core::Shard;

/// See the module's text.
#[derive(Default)]
pub(super) struct SafeTime {
    /// Somebody waits for that, or was sent away because it is not.
    is_sought: bool,
    /// The others' clocks are too far ahead, and that was logged.
    is_behind_others: bool,
}

impl SafeTime {
    pub(super) fn is_sought(&self) -> bool {
        self.is_sought
    }

    /// Somebody waits for it from now on, if that is so.
    pub(super) fn seek_if(&mut self, waits: bool) {
        self.is_sought |= waits;
    }

    /// Somebody waits for all that was ordered, unless it is settled.
    pub(super) fn seek(&mut self, shard: Option<&Shard>) {
        self.seek_if(shard.is_some_and(|shard| !shard.is_settled()));
    }

    /// Whether anybody waits still.
    pub(super) fn set_sought(&mut self, is_sought: bool) {
        self.is_sought = is_sought;
    }

    /// The others' clocks are too far ahead. Whether that is to be logged: it is once.
    pub(super) fn note_behind_others(&mut self) -> bool {
        !std::mem::replace(&mut self.is_behind_others, true)
    }
}
