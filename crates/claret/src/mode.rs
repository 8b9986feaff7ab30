//! How a store isolates transactions from each other.

use std::fmt;

use claret_core::ways::WaySwitches;
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
    /// The same, in a way to commit that is there for comparison: [`Mode::ways`].
    Way(Way),
}

/// A way to commit that is there for comparison, such as combining: transactions of one process share locks and answers, which saves
/// messages. An embedded store has none to save, and there combining costs more than it saves (`docs/performance.md`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Way {
    name: &'static str,
    switches: WaySwitches,
}

impl Way {
    /// As `claret bench` names it.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// How the protocol is switched to it.
    #[doc(hidden)]
    pub fn switches(self) -> WaySwitches {
        self.switches
    }
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Mode {
    /// The modes of all ways to commit that are there for comparison, and can be asked for as a mode.
    pub fn ways() -> impl Iterator<Item = Mode> {
        let all = WaySwitches::OF_PROCESSES.iter().copied().flatten();
        all.map(|named| Mode::Way(Way { name: named.name, switches: named.ways }))
    }

    pub(crate) fn switches(self, delivery: Delivery) -> Switches {
        let (locks, phasing) = match self {
            Mode::None | Mode::Commuting => (Locks::Abstract, false),
            Mode::ReaderWriter => (Locks::ReaderWriter, false),
            Mode::ReaderWriterPhased => (Locks::ReaderWriter, true),
            Mode::CommutingPhased | Mode::Way(_) => (Locks::Abstract, true),
        };
        Switches {
            locks,
            phasing,
            delivery,
            batching: locks == Locks::Abstract && phasing,
            ways: if let Mode::Way(way) = self { way.switches } else { WaySwitches::ROUNDS },
            ..Switches::CLARET
        }
    }
}
