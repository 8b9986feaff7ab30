//! How a store isolates transactions from each other.

use std::fmt;

use claret_core::ways::{ProcessWay, WaySwitches};
use claret_core::{Discipline, Ordered, Switches};

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
    /// The same, in a way to commit that is there for comparison: [`Mode::ways`].
    Way(Way),
}

/// A way to commit that is there for comparison, such as combining: transactions of one process share locks and answers, which saves
/// messages. An embedded store has none to save, and there combining costs more than it saves (`docs/performance.md`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Way(ProcessWay);

impl Way {
    /// As `claret bench` names it.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// As the protocol knows it.
    #[doc(hidden)]
    pub fn process_way(self) -> ProcessWay {
        self.0
    }
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Mode {
    /// The modes of all ways to commit that are there for comparison, and can be asked for as a mode.
    pub fn ways() -> impl Iterator<Item = Mode> {
        ProcessWay::ALL.iter().map(|way| Mode::Way(Way(*way)))
    }

    /// What locks see as a conflict; without transactions there are none.
    fn discipline(self) -> Discipline {
        match self {
            Mode::ReaderWriter => Discipline::ReaderWriter,
            Mode::ReaderWriterPhased => Discipline::ReaderWriterPhased,
            Mode::None | Mode::Commuting => Discipline::Abstract,
            Mode::CommutingPhased | Mode::Way(_) => Discipline::AbstractPhased,
        }
    }

    pub(crate) fn in_process(self) -> Switches {
        match self {
            Mode::Way(Way(way)) => Switches::in_process_by(way),
            _ => Switches::in_process(self.discipline()),
        }
    }

    /// Batches, and ways to commit, are for the default and what is compared with it alone. The nodes say what is ordered.
    pub(crate) fn over_network(self, batches: bool, ways: WaySwitches) -> Switches {
        match self {
            Mode::CommutingPhased => Switches::claret(Ordered::Never, batches, ways),
            Mode::Way(Way(way)) => Switches::over_network_by(way, Ordered::Never, ways),
            _ => Switches::over_network(self.discipline()),
        }
    }
}
