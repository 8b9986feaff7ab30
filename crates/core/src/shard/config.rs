//! Which shard it is, in which life, and how it is set.

use crate::ids::{Incarnation, ShardId};
use crate::limits::Limits;
use crate::message::Listed;
use crate::records::External;
use crate::switches::{Ordered, Switches};

/// See the module's text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Config {
    id: ShardId,
    incarnation: Incarnation,
    switches: Switches,
    limits: Limits,
}

impl Config {
    pub(super) fn new(id: ShardId, incarnation: Incarnation, switches: Switches, limits: Limits) -> Self {
        Config { id, incarnation, switches, limits }
    }

    /// The same shard in another life.
    pub(super) fn reborn(self, incarnation: Incarnation) -> Self {
        Config { incarnation: self.incarnation.next(incarnation), ..self }
    }

    #[inline]
    pub(super) fn id(&self) -> ShardId {
        self.id
    }

    #[inline]
    pub(super) fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    #[inline]
    pub(super) fn switches(&self) -> &Switches {
        &self.switches
    }

    #[inline]
    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Takes over the bounds that may change while the shard runs.
    pub(super) fn set_bounds(&mut self, limits: Limits) {
        let Limits { calls_max, user_bytes_max, shard_bytes_max, strangers_max, asks_for_timestamps, .. } =
            limits;
        self.limits = Limits {
            calls_max,
            user_bytes_max,
            shard_bytes_max,
            strangers_max,
            asks_for_timestamps,
            ..self.limits
        };
    }

    /// Numbers that no other shard gives, and no other life of this one: 20 bits of shard, 12 of incarnation, 31 counted.
    pub(super) fn unique_base(&self) -> u64 {
        u64::from(self.id.0) << 43 | (self.incarnation.0 & 0xfff) << 31
    }

    /// The same over external records, whose tag tells shards apart: 14 bits of the host's, and 49 of incarnation, from which it is
    /// counted.
    pub(super) fn unique_base_over(&self, external: Option<External>) -> u64 {
        let Some(External(records)) = external else { return self.unique_base() };
        let tag = u64::from(records.tag() & ((1 << 14) - 1));
        tag << 49 | self.incarnation.0 & ((1 << 49) - 1)
    }

    /// Whether callers are in the same process: nothing is late, and nothing is remembered.
    #[inline]
    pub(super) fn is_direct(&self) -> bool {
        self.switches.is_direct()
    }

    /// Whether who has to wait does so in the record's queue.
    #[inline]
    pub(super) fn has_phases(&self) -> bool {
        self.switches.is_phased()
    }

    /// Whether calls can be ordered here at all.
    #[inline]
    pub(super) fn can_order(&self) -> bool {
        self.switches.ordering() != Ordered::Never
    }

    /// Whether no other shard is listed.
    pub(super) fn is_only_one(&self, listed: &[Listed]) -> bool {
        listed.iter().all(|listed| listed.shard == self.id)
    }
}
