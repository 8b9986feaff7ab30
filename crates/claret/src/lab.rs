//! Knobs for measuring: other ways to isolate and to commit transactions than the default ones, and the bounds of the protocol. The
//! benchmark, the checker and the figures need them. Programs do not, and no version promises anything of them.

pub use claret_core::Limits;

#[cfg(feature = "cluster")]
use crate::cluster::ClusterBuilder;
#[cfg(feature = "cluster")]
pub use crate::cluster::Grants;
#[cfg(feature = "cluster")]
#[allow(unreachable_pub, unused_imports, reason = "there may be no ways")]
pub use crate::cluster::ways::*;
pub use crate::mode::{Mode, Way};
use crate::open::StoreBuilder;
use crate::options::TxOptions;

/// Knobs of any store.
pub trait StoreLab {
    /// How transactions are isolated.
    #[must_use]
    fn mode(self, mode: Mode) -> Self;

    /// All bounds of the protocol on this side, in place of those of [`Limits`](crate::Limits).
    #[must_use]
    fn protocol_limits(self, limits: Limits) -> Self;
}

impl StoreLab for StoreBuilder {
    fn mode(self, mode: Mode) -> Self {
        StoreBuilder::mode(self, mode)
    }

    fn protocol_limits(self, limits: Limits) -> Self {
        StoreBuilder::protocol_limits(self, limits)
    }
}

#[cfg(feature = "cluster")]
impl StoreLab for ClusterBuilder {
    fn mode(self, mode: Mode) -> Self {
        ClusterBuilder::mode(self, mode)
    }

    fn protocol_limits(self, limits: Limits) -> Self {
        ClusterBuilder::protocol_limits(self, limits)
    }
}

/// Knobs of a store on a cluster, which the URL has as well: `grants`, `batches`.
#[cfg(feature = "cluster")]
pub trait ClusterLab {
    /// How later grants reach this process.
    #[must_use]
    fn grants(self, grants: Grants) -> Self;

    /// One-shot transactions of this process leave one by one and not in batches (`docs/batches.md`).
    #[must_use]
    fn without_batches(self) -> Self;
}

#[cfg(feature = "cluster")]
impl ClusterLab for ClusterBuilder {
    fn grants(self, grants: Grants) -> Self {
        ClusterBuilder::grants(self, grants)
    }

    fn without_batches(self) -> Self {
        ClusterBuilder::without_batches(self)
    }
}

/// Knobs of a transaction.
pub trait TxLab {
    /// As [`TxOptions::optimistic`], and the transaction locks nothing before it commits, however often something has changed. Where
    /// that is too often, the error ([`CommitError::Attempts`](crate::errors::CommitError::Attempts)) names the key. Only where a lock or the commit shows
    /// that an operation cannot be done is everything locked in the next attempt: otherwise the error might tell of what has changed.
    #[must_use]
    fn optimistic_only(self) -> Self;
}

impl TxLab for TxOptions {
    fn optimistic_only(self) -> Self {
        TxOptions::optimistic_only(self)
    }
}
