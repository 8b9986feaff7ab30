//! How a store isolates transactions from each other.

use claret_core::{Delivery, Locks, Switches};

/// What the store does about concurrency. The default is what serves best; the others exist for measuring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mode {
    /// No transactions: each operation is applied at once, by itself. Promises nothing. On a cluster these are plain
    /// Redis commands, over connections that are multiplexed and pipelined like those of transactions.
    None,
    /// Reader/writer locks; a refused lock is retried after a pause.
    ReaderWriter,
    /// Reader/writer locks with phases.
    ReaderWriterPhase,
    /// Abstract locks; a refused lock is retried after a pause.
    Boost,
    /// Abstract locks with phases: the default.
    #[default]
    BoostPhase,
    /// Abstract locks, phases and combining, which spares messages. In the process there are none to spare, and it
    /// costs more than it saves (`docs/performance.md`).
    BoostPhaseCombine,
}

impl Mode {
    pub(crate) fn switches(self, delivery: Delivery) -> Switches {
        let (locks, phasing) = match self {
            Mode::None | Mode::Boost => (Locks::Abstract, false),
            Mode::ReaderWriter => (Locks::ReaderWriter, false),
            Mode::ReaderWriterPhase => (Locks::ReaderWriter, true),
            Mode::BoostPhase | Mode::BoostPhaseCombine => (Locks::Abstract, true),
        };
        Switches { locks, phasing, combining: self == Mode::BoostPhaseCombine, delivery }
    }
}
