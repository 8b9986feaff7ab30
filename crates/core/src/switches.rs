//! Switches for measuring (P70): the combinations that ship, and those that figures need.

use crate::ways::{ProcessWay, WaySwitches};

/// What a lock sees as a conflict, and what becomes of a call that meets one: the four curves of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// Reads share, writes exclude; a refused call is retried after a pause: the papers' baseline.
    ReaderWriter,
    /// Reads share, writes exclude; waiters queue in phases.
    ReaderWriterPhased,
    /// What the type says commutes, shares (boosting); a refused call is retried after a pause.
    Abstract,
    /// What the type says commutes, shares; waiters queue in phases.
    AbstractPhased,
}

impl Discipline {
    /// Whether what commutes shares; otherwise only reads do.
    #[inline]
    pub(crate) const fn is_abstract(self) -> bool {
        matches!(self, Discipline::Abstract | Discipline::AbstractPhased)
    }

    #[inline]
    const fn is_phased(self) -> bool {
        matches!(self, Discipline::ReaderWriterPhased | Discipline::AbstractPhased)
    }
}

/// Whether calls are ordered instead of locked (P73 to P88).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordered {
    /// Never.
    Never,
    /// While more is carried out so (P87).
    Adaptive,
    /// Wherever a call can be.
    Always,
}

/// What is switched on (P70). Each constructor takes what can be combined with all else that it takes; no other combination can be
/// made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switches {
    discipline: Discipline,
    is_direct: bool,
    batches: bool,
    ordering: Ordered,
    ways: WaySwitches,
    process_way: Option<ProcessWay>,
}

impl Switches {
    /// What Claret does over a network, but for batches and order.
    pub const CLARET: Switches = Switches::over_network(Discipline::AbstractPhased);

    /// Shards are called in the same process: no message is lost, doubled or late. Shards keep no record of what is over, and no
    /// leases: a dropped transaction says so itself.
    pub const fn in_process(discipline: Discipline) -> Self {
        Switches { is_direct: true, ..Switches::over_network(discipline) }
    }

    /// The same with abstract locks in phases, where a way has all transactions.
    pub const fn in_process_by(way: ProcessWay) -> Self {
        Switches { process_way: Some(way), ..Switches::in_process(Discipline::AbstractPhased) }
    }

    /// Messages reach shards over a network.
    pub const fn over_network(discipline: Discipline) -> Self {
        Switches {
            discipline,
            is_direct: false,
            batches: false,
            ordering: Ordered::Never,
            ways: WaySwitches::ROUNDS,
            process_way: None,
        }
    }

    /// The same with abstract locks in phases, where a way has all transactions. Calls may be ordered, and commits go in these ways.
    pub const fn over_network_by(way: ProcessWay, ordering: Ordered, ways: WaySwitches) -> Self {
        Switches { process_way: Some(way), ..Switches::claret(ordering, false, ways) }
    }

    /// Over a network, with abstract locks in phases. Calls may be ordered, one-shot transactions of one process that leave together
    /// commit as one attempt if `batches` (B1), and commits go in these ways.
    pub const fn claret(ordering: Ordered, batches: bool, ways: WaySwitches) -> Self {
        Switches { batches, ordering, ways, ..Switches::CLARET }
    }

    /// What a lock sees as a conflict.
    #[inline]
    pub fn discipline(&self) -> Discipline {
        self.discipline
    }

    /// Whether waiters queue in phases; otherwise a refused call is retried after a pause.
    #[inline]
    pub fn is_phased(&self) -> bool {
        self.discipline.is_phased()
    }

    /// Whether shards are called in the same process.
    #[inline]
    pub fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Whether one-shot transactions leave in batches.
    #[inline]
    pub fn batches(&self) -> bool {
        self.batches
    }

    /// Whether calls are ordered.
    #[inline]
    pub fn ordering(&self) -> Ordered {
        self.ordering
    }

    /// Which transactions commit in other ways than in two rounds.
    #[inline]
    pub fn ways(&self) -> &WaySwitches {
        &self.ways
    }

    /// The way that has all transactions of a process.
    #[inline]
    pub fn process_way(&self) -> Option<ProcessWay> {
        self.process_way
    }
}
