//! How far the oracle enumerates.

/// How far to enumerate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Most operations that are pending at once, at most [`PENDING_MAX`].
    pub pending: usize,
    /// Most steps of a history: grants, extensions, combinations, applies and aborts.
    pub depth: usize,
    /// Most operations of one owner: 2 reads its own write, 1 leaves overlays out.
    pub own: usize,
    /// Stop after this many cases.
    pub cases: u64,
}

/// The most operations pending at once that [`Bounds::pending`] can ask for: 720 orders each.
pub const PENDING_MAX: usize = 6;
/// The longest history that [`Bounds::depth`] can ask for, in steps.
pub const DEPTH_MAX: usize = 64;

impl Default for Bounds {
    fn default() -> Self {
        Bounds { pending: 4, depth: 8, own: 2, cases: 4_000_000 }
    }
}

impl Bounds {
    pub(super) fn clamped(self) -> Self {
        Bounds {
            pending: self.pending.clamp(1, PENDING_MAX),
            depth: self.depth.clamp(1, DEPTH_MAX),
            own: self.own.max(1),
            cases: self.cases,
        }
    }
}
