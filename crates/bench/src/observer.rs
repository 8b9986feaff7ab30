//! Who watches a comparison.

use crate::measure::Slice;

/// Who is told how far a comparison has come. Nothing of this is said while a slice runs.
pub trait Observer {
    /// The store of a mode is to be loaded.
    fn loads(&mut self, _workload: &str, _mode: &str) {}

    /// So many more operations are loaded.
    fn loaded(&mut self, _operations: usize) {}

    /// The slices begin; there are so many, of all modes together.
    fn runs(&mut self, _workload: &str, _slices: usize) {}

    /// A slice of this mode begins.
    fn measures(&mut self, _mode: &str) {}

    /// A slice is over.
    fn measured(&mut self, _slice: &Slice) {}
}

/// Nobody.
impl Observer for () {}
