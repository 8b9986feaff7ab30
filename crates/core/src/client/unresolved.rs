//! Transactions whose callers heard that nobody knows their outcome: what can be asked about them (P89).

use std::collections::VecDeque;

use crate::asked::Asked;
use crate::ids::TxHandle;

/// So many are kept, at most, until their callers take them.
const UNRESOLVED_MAX: usize = 256;

/// See the module's text. The oldest go first.
#[derive(Clone, Debug, Default)]
pub(super) struct Unresolved(VecDeque<(TxHandle, Asked)>);

impl Unresolved {
    /// The caller is going to hear it.
    pub(super) fn note(&mut self, tx: TxHandle, asked: Asked) {
        if self.0.len() >= UNRESOLVED_MAX {
            self.0.pop_front();
        }
        self.0.push_back((tx, asked));
    }

    /// The caller has heard it, and wants to ask. O(what is kept).
    pub(super) fn take(&mut self, tx: TxHandle) -> Option<Asked> {
        let at = self.0.iter().position(|(of, _)| *of == tx)?;
        self.0.remove(at).map(|(_, asked)| asked)
    }
}
