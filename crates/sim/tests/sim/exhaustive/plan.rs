//! What is explored: programs, bounds, faults, and what is broken on purpose.

use claret_core::ways::WaySwitches;
use claret_core::{Bug, Limits, Ordered, Survives, Switches};
use claret_types::{Counter, CounterOp, Operation, Set, SetOp};

/// The record of shard 0.
pub(crate) const X: usize = 0;
/// The record of shard 1.
pub(crate) const Y: usize = 1;
/// The record of shard 2, where there are three.
pub(crate) const Z: usize = 2;
/// Each shard has one record.
pub(crate) const KEYS: [&str; 3] = ["x", "y", "z"];

/// One operation of a program.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// The shard, and with it the record.
    pub(crate) shard: usize,
    pub(crate) op: Operation,
    pub(crate) how: How,
}

/// How an operation is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// It is executed under its lock, and its answer awaited before the next step.
    Now,
    /// It travels with the prepare.
    Later,
    /// It is looked at without a lock, and its answer awaited before the next step; with that it travels with the prepare.
    Looked,
}

/// An operation whose answer is awaited.
pub(crate) fn now(shard: usize, op: CounterOp) -> Step {
    Step { shard, op: Operation::new::<Counter>(op), how: How::Now }
}

/// An operation that travels with the prepare.
pub(crate) fn later(shard: usize, op: CounterOp) -> Step {
    Step { shard, op: Operation::new::<Counter>(op), how: How::Later }
}

/// An operation that is looked at.
pub(crate) fn looked(shard: usize, op: CounterOp) -> Step {
    Step { shard, op: Operation::new::<Counter>(op), how: How::Looked }
}

/// Adds to a set.
pub(crate) fn add(shard: usize, element: &'static str) -> Step {
    let op = SetOp::Add([element.into()].into_iter().collect());
    Step { shard, op: Operation::new::<Set>(op), how: How::Later }
}

/// Asks how large a set is.
pub(crate) fn size(shard: usize, at_once: bool) -> Step {
    let how = if at_once { How::Now } else { How::Later };
    Step { shard, op: Operation::new::<Set>(SetOp::Len), how }
}

/// How often each fault may happen in one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    /// A client dies.
    pub(crate) deaths: u8,
    /// A shard restarts.
    pub(crate) restarts: u8,
    /// A message arrives, and again later.
    pub(crate) doubles: u8,
    /// A message is lost.
    pub(crate) losses: u8,
    /// The time of one attempt at one shard is over while messages are under way. Where nothing else can happen,
    /// time passes for nothing.
    pub(crate) early_timeouts: u8,
}

/// What is broken on purpose, to see that the search finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plant {
    Nothing,
    /// Instead of asking for a refusal, a coordinator aborts and names one that nobody wrote (P6, P7).
    RefusalInvented,
    /// That a prepare waits is taken for a vote (P2).
    VoteForged,
    /// A lease that runs out ends an attempt that has voted (P23).
    LeaseEndsVoted,
    /// Nobody hears of elders (P20).
    EldersUnheard,
    /// Who asks about an attempt that was refused hears that it is prepared (P25).
    RefusalDenied,
    /// A call goes to the commit without the answer that was seen (O3).
    SeenForgotten,
    /// Coordinators do not learn incarnations with their connections (P26).
    IncarnationUnmet,
}

/// A configuration to be explored.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) name: &'static str,
    /// One for each client, the eldest first. All begin at once.
    pub(crate) programs: Vec<Vec<Step>>,
    /// The shard that everybody who prepares at both asks last (P49).
    pub(crate) hot: Option<usize>,
    /// `Limits::phase_joins_max`.
    pub(crate) joins_max: u32,
    /// After so many attempts a client asks for no other.
    pub(crate) attempts_max: u32,
    /// More attempts than any client is seen to need: the search would not end if they had no bound.
    pub(crate) attempts_seen_max: u32,
    pub(crate) faults: Faults,
    pub(crate) survives: Survives,
    pub(crate) plant: Plant,
    /// Where calls are ordered: about which timestamp each client is to have.
    pub(crate) suggested: Option<Vec<u64>>,
    /// In which ways commits go.
    pub(crate) ways: WaySwitches,
    /// Who begins only once this other client was told.
    pub(crate) after: Vec<(usize, usize)>,
    /// A bug in the machines.
    pub(crate) bug: Option<Bug>,
}

impl Plan {
    pub(crate) fn new(name: &'static str, programs: Vec<Vec<Step>>) -> Self {
        Plan {
            name,
            programs,
            hot: None,
            joins_max: 1,
            attempts_max: u32::MAX,
            attempts_seen_max: 30,
            faults: Faults::default(),
            survives: Survives::Votes,
            plant: Plant::Nothing,
            suggested: None,
            after: Vec::new(),
            ways: WaySwitches::ROUNDS,
            bug: None,
        }
    }

    /// Whether every client must commit in the end.
    pub(crate) fn all_commit(&self) -> bool {
        self.faults.deaths == 0 && self.attempts_max == u32::MAX
    }

    /// How many shards there are.
    pub(crate) fn shards(&self) -> usize {
        self.programs.iter().flatten().map(|step| step.shard + 1).max().unwrap_or_default().max(2)
    }

    /// Whether a client begins once another one was told.
    pub(crate) fn begins_later(&self, client: usize) -> bool {
        self.after.iter().any(|(later, _)| *later == client)
    }

    pub(crate) fn switches(&self) -> Switches {
        let ordering = if self.suggested.is_some() { Ordered::Always } else { Ordered::Never };
        Switches::claret(ordering, false, self.ways)
    }

    /// Time stands still at 0. Whatever waits for time has one moment of its own, so that each kind can be let
    /// happen alone: giving way and the end of a lease at 1, sending again at the end of time.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            phase_joins_max: self.joins_max,
            phase_us_max: u64::MAX,
            lease_us: 1,
            inquire_us: 1,
            inquire_us_max: 1,
            give_way_us: 1,
            resend_us: u64::MAX,
            ..Limits::default()
        }
    }
}
