//! A mix of kinds of transactions by shares.

use rand::{Rng, RngExt};

/// Kinds and their shares. The shares need not add up to one.
#[derive(Clone, Debug)]
pub(crate) struct Mix<K> {
    /// Each kind with the sum of the shares up to and with it.
    bounds: Vec<(f64, K)>,
}

impl<K: Copy> Mix<K> {
    /// A mix by shares; kinds with a share of zero are never drawn.
    ///
    /// # Panics
    /// When a share is negative or all are zero.
    pub(crate) fn new(shares: &[(K, f64)]) -> Self {
        let mut sum = 0.0;
        let mut bounds = Vec::with_capacity(shares.len());
        for (kind, share) in shares {
            assert!(*share >= 0.0, "a share is {share}; it must be zero or more");
            sum += share;
            bounds.push((sum, *kind));
        }
        assert!(sum > 0.0, "every share is zero; one must be more");
        Mix { bounds }
    }

    /// Draws a kind. O(kinds).
    pub(crate) fn draw(&self, rng: &mut impl Rng) -> K {
        let (sum, last) = self.bounds[self.bounds.len() - 1];
        let at = rng.random::<f64>() * sum;
        self.bounds.iter().find(|(bound, _)| at < *bound).map_or(last, |(_, kind)| *kind)
    }
}
