//! How a store isolates transactions from each other.

use claret_core::{Delivery, Locks, Switches};

/// How a store isolates transactions from each other. The default serves best; the others exist for comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mode {
    /// No transactions: each operation is applied at once, by itself. This promises nothing. On a cluster operations
    /// are plain Redis commands, over connections that are multiplexed and pipelined like those of transactions.
    None,
    /// Reader/writer locks; a refused lock is retried after a pause.
    ReaderWriter,
    /// Reader/writer locks with queues: readers are let in together (phases).
    ReaderWriterPhased,
    /// Operations that commute share a lock (abstract locks; "boosting" in the papers). A refused lock is retried after a
    /// pause.
    Commuting,
    /// The default: the same with queues. A refused operation waits in the lock's queue, and operations that commute
    /// are let in together (phases).
    #[default]
    CommutingPhased,
    /// The same, and transactions of one process share locks and answers (combining), which saves messages. The
    /// embedded store has none to save, and there combining costs more than it saves (`docs/performance.md`).
    CommutingPhasedCombined,
}

impl Mode {
    pub(crate) fn switches(self, delivery: Delivery) -> Switches {
        let (locks, phasing) = match self {
            Mode::None | Mode::Commuting => (Locks::Abstract, false),
            Mode::ReaderWriter => (Locks::ReaderWriter, false),
            Mode::ReaderWriterPhased => (Locks::ReaderWriter, true),
            Mode::CommutingPhased | Mode::CommutingPhasedCombined => (Locks::Abstract, true),
        };
        Switches {
            locks,
            phasing,
            combining: self == Mode::CommutingPhasedCombined,
            delivery,
            batching: locks == Locks::Abstract && phasing,
            ..Switches::CLARET
        }
    }
}
