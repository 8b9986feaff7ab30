//! What is done on the sequential model and undone before it ends (`docs/nesting.md`).

use claret_types::{Bytes, Effect};

use crate::reference::Reference;
use crate::run::Issued;

/// Inverses of what was done and is undone later.
#[derive(Debug, Default)]
pub(super) struct Open<'a>(Vec<(usize, &'a Bytes, Effect)>);

impl<'a> Open<'a> {
    /// An operation that is undone was carried out.
    pub(super) fn add(&mut self, issued: &'a Issued, inverse: Option<Effect>) {
        let until = issued.undone_at.unwrap_or(usize::MAX);
        self.0.extend(inverse.map(|inverse| (until, &issued.key, inverse)));
    }

    /// Undoes what the operation at this place does not see any more.
    pub(super) fn end_before(&mut self, at: usize, reference: &mut Reference) {
        // All of a range stand behind each other, and nothing behind them.
        while let Some((_, key, inverse)) = self.0.pop_if(|(until, ..)| *until <= at) {
            reference.apply(key, inverse);
        }
    }
}
