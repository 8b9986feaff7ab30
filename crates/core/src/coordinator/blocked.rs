//! What an attempt knows of waiting: since when it waits for others, and the eldest who waits for what it holds (P20, P21).

use crate::ids::Time;

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(super) struct Blocked {
    /// When the eldest began that waits for what this attempt holds. A shard tells of elders only (P20), so whoever is told of has
    /// precedence, whatever the clocks say.
    elder: Option<Time>,
    /// Since when the attempt waits for others. Set only while a call or a prepare does.
    since: Option<Time>,
}

impl Blocked {
    /// An elder that began at this time waits for what the attempt holds.
    pub(super) fn hear_elder(&mut self, birth: Time) {
        self.elder = Some(self.elder.map_or(birth, |known| known.min(birth)));
    }

    /// When the eldest began that waits for what the attempt holds.
    pub(super) fn elder(&self) -> Option<Time> {
        self.elder
    }

    /// A call or a prepare waits.
    pub(super) fn begin(&mut self, now: Time) {
        self.since.get_or_insert(now);
    }

    /// Nothing waits any more.
    pub(super) fn end(&mut self) {
        self.since = None;
    }

    /// Since when the attempt waits.
    pub(super) fn since(&self) -> Option<Time> {
        self.since
    }

    /// Whether an elder waits, and the attempt has waited for others for so many microseconds.
    pub(super) fn keeps_elder_waiting(&self, now: Time, patience_us: u64) -> bool {
        self.elder.is_some() && self.since.is_some_and(|since| now.since(since) >= patience_us)
    }

    /// When that will be.
    pub(super) fn poll_timeout(&self, patience_us: u64) -> Option<Time> {
        self.elder.and(self.since).map(|since| since.plus(patience_us))
    }

    /// Nobody waits for the next attempt, which holds nothing yet.
    pub(super) fn begin_next(&mut self) {
        self.elder = None;
    }
}
