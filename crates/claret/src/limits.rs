//! Bounds of what a store takes from its own program.

/// Bounds of what a store takes from its own program: what is over them is refused. All of them are enforced, and what is not set here is
/// as by default. On a cluster the nodes have bounds of their own (`CONFIG GET claret.*`).
///
/// ```
/// # pollster::block_on(async {
/// use claret::{Limits, Records, Store};
/// let store = Store::builder().limits(Limits::new().value_bytes_max(8)).build();
/// assert!(store.register("motto").set("nine long").await.is_err());
/// # });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Limits {
    key_bytes_max: Option<usize>,
    value_bytes_max: Option<usize>,
    calls_max: Option<u32>,
    waiters_max: Option<usize>,
    versions_bytes_max: Option<usize>,
    outcome_us: Option<u64>,
}

impl Limits {
    /// Those by default.
    pub fn new() -> Self {
        Self::default()
    }

    /// The longest key, in bytes; 64 KiB by default.
    pub fn key_bytes_max(mut self, bytes: usize) -> Self {
        self.key_bytes_max = Some(bytes);
        self
    }

    /// The largest value, member or field in one operation, in bytes; 64 MiB by default.
    pub fn value_bytes_max(mut self, bytes: usize) -> Self {
        self.value_bytes_max = Some(bytes);
        self
    }

    /// Operations of one transaction; 1,048,576 by default.
    pub fn calls_max(mut self, calls: u32) -> Self {
        self.calls_max = Some(calls);
        self
    }

    /// Transactions that wait for one record of a store in this process; 1,048,576 by default.
    pub fn waiters_max(mut self, waiters: usize) -> Self {
        self.waiters_max = Some(waiters);
        self
    }

    /// What a shard of a store in this process keeps, in bytes, of the keys whose versions were asked for; 16 MiB by default. Beyond
    /// that those that were asked for longest ago are as if they had changed.
    pub fn versions_bytes_max(mut self, bytes: usize) -> Self {
        self.versions_bytes_max = Some(bytes);
        self
    }

    /// How long this process keeps nodes from forgetting a transaction whose outcome it did not hear, in microseconds: so long others can
    /// [ask for it](crate::Store::outcome). A minute by default.
    pub fn outcome_us(mut self, time: u64) -> Self {
        self.outcome_us = Some(time);
        self
    }

    /// Those of the protocol, with what was set here.
    pub(crate) fn within(self, protocol: claret_core::Limits) -> claret_core::Limits {
        claret_core::Limits {
            key_bytes_max: self.key_bytes_max.unwrap_or(protocol.key_bytes_max),
            value_bytes_max: self.value_bytes_max.unwrap_or(protocol.value_bytes_max),
            calls_max: self.calls_max.unwrap_or(protocol.calls_max),
            waiters_max: self.waiters_max.unwrap_or(protocol.waiters_max),
            versions_bytes_max: self.versions_bytes_max.unwrap_or(protocol.versions_bytes_max),
            outcome_us: self.outcome_us.unwrap_or(protocol.outcome_us),
            ..protocol
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_set_is_as_it_was() {
        let protocol = claret_core::Limits { resend_us: 7, ..claret_core::Limits::default() };
        assert_eq!(Limits::new().within(protocol), protocol);
        let limits = Limits::new().calls_max(1).key_bytes_max(2).value_bytes_max(3);
        let limits = limits.waiters_max(4).versions_bytes_max(5).outcome_us(6).within(protocol);
        let claret_core::Limits {
            calls_max: 1,
            key_bytes_max: 2,
            value_bytes_max: 3,
            waiters_max: 4,
            versions_bytes_max: 5,
            outcome_us: 6,
            resend_us: 7,
            ..
        } = limits
        else {
            panic!("{limits:?}")
        };
    }
}
