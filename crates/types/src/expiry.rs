//! When a record ends.

use std::num::NonZeroU64;

use serde::Serialize;

/// When a record ends: milliseconds since the beginning of 1970, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Expiry(NonZeroU64);

impl Expiry {
    /// The last one that servers have: they count in signed milliseconds.
    pub const MAX: Expiry = Expiry(NonZeroU64::new(i64::MAX as u64).expect("not zero"));

    /// The first one.
    pub(crate) const MIN: Expiry = Expiry(NonZeroU64::MIN);

    /// At so many milliseconds since 1970; `None` when that is zero or past [`Expiry::MAX`].
    pub fn at_ms(ms: u64) -> Option<Self> {
        NonZeroU64::new(ms).map(Expiry).filter(|expiry| *expiry <= Expiry::MAX)
    }

    /// Milliseconds since 1970.
    pub fn ms(self) -> u64 {
        self.0.get()
    }
}
