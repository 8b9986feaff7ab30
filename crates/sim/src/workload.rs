//! What transactions do: programs over keys of every built-in type, drawn from the seed.
//!
//! A program is a fixed list of steps, so a restarted attempt runs the same one again; what some steps write
//! depends on what the attempt has just read. Operations are the examples that each type gives for the
//! oracle, on the few elements where they meet.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use claret_types::{
    Bytes, Examples, Few, KeyspaceOp, Moment, Operation, Register, RegisterOp, Reply, Set, SetOp, Unique,
    builtin_examples,
};

use crate::book::BidBook;
use crate::config::{Config, ProgramConfig};
use crate::demands::Demand;
use crate::probe::{BITS_MAX, Probe, ProbeKind};
use crate::random::{Random, Stream};
use crate::run::RunId;

/// The operations that fit one kind of key.
#[derive(Clone, Debug)]
pub(crate) struct Family {
    name: &'static str,
    operations: Vec<Operation>,
    /// How many at the start of `operations` bring the record into being.
    begins: usize,
}

/// A record that programs use.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) name: Bytes,
    family: usize,
    /// A record for the judge of observed results, instead of one of a family.
    pub(crate) probe: Option<ProbeKind>,
}

/// All keys of a run.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    families: Vec<&'static Family>,
    pub(crate) keys: Vec<Key>,
    /// The next bit of each counter that is a probe.
    bits: BTreeMap<Bytes, u64>,
}

/// One operation of a step.
#[derive(Clone, Debug)]
pub(crate) struct Action {
    pub(crate) key: Bytes,
    what: StepKind,
    /// The operation whose claims are to be reserved besides.
    pub(crate) reserve: Option<Operation>,
    /// What it is to answer, or it cannot be done.
    pub(crate) demand: Option<Demand>,
}

#[derive(Clone, Debug)]
enum StepKind {
    Fixed(Operation),
    /// Adds a member, or sets a register, named by the last answer.
    Named {
        set: bool,
    },
    /// Writes to a probe record something that nobody else writes, the same in every run if `bit` says what.
    Unique {
        kind: ProbeKind,
        bit: Option<u64>,
        returning: bool,
    },
    /// Reads a probe record.
    Whole(ProbeKind),
}

/// How many of a thousand programs have a pause, where there are any.
const PAUSE_PERMILLE: u64 = 100;

/// One step of a program.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Kept until the commit.
    Buffer(Action),
    /// Executed at once, side by side.
    Execute(Vec<Action>),
    /// Nothing for so many microseconds.
    Think(u64),
    /// The same, in the first run alone.
    Pause(u64),
    /// What comes next may be undone.
    Savepoint,
    RollBack(RollBack),
    /// Forgets this one of the savepoints that are open, and later ones: what was done since then stands.
    Release(usize),
    /// Executes what waits for the commit.
    Settle,
}

/// Undoes what was done since a savepoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RollBack {
    /// Which one of those that are open.
    pub(crate) to: usize,
    /// Calls that are not answered by then, in microseconds, are not waited for.
    pub(crate) hasty_us: Option<u64>,
    /// The savepoint stays.
    pub(crate) keeps: bool,
}

/// How a program ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ending {
    #[default]
    Commit,
    Abort,
    /// Commits, and takes that back after so many microseconds, if it still can.
    CommitThenAbort(u64),
}

/// A transaction's program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    pub(crate) steps: Vec<Step>,
    pub(crate) ending: Ending,
}

impl Action {
    /// One that is known.
    pub(crate) fn fixed(key: Bytes, op: Operation) -> Action {
        Action { key, what: StepKind::Fixed(op), reserve: None, demand: None }
    }

    /// The operation, if it is the same in each run.
    pub(crate) fn known(&self) -> Option<&Operation> {
        match &self.what {
            StepKind::Fixed(op) => Some(op),
            StepKind::Named { .. } | StepKind::Unique { .. } | StepKind::Whole(_) => None,
        }
    }

    /// The operation, given the last answer of the attempt. `place` tells it from others of the run.
    pub(crate) fn operation(&self, last: &Reply, run: RunId, place: u64) -> (Operation, Option<Probe>) {
        let named = || {
            let mut name = Bytes::from(last.to_string());
            name.truncate(12);
            name
        };
        match &self.what {
            StepKind::Fixed(op) => match &self.demand {
                Some(demand) => (demand.of(op, last), None),
                None => (op.clone(), None),
            },
            StepKind::Named { set: true } => {
                (Operation::new::<Set>(SetOp::Add(Few::from_iter([named()]))), None)
            }
            StepKind::Named { set: false } => (Operation::new::<Register>(RegisterOp::Set(named())), None),
            StepKind::Unique { kind, bit, returning } => {
                let element = bit.unwrap_or_else(|| unique(run, place));
                let probe = Probe::Write { element, returning: *returning };
                (kind.operation(probe), Some(probe))
            }
            StepKind::Whole(kind) => (kind.operation(Probe::Read), Some(Probe::Read)),
        }
    }
}

/// A number for what one run writes at one place.
fn unique(run: RunId, place: u64) -> u64 {
    run.session.0 << 48 | run.tx.0 << 32 | u64::from(run.run) << 16 | place
}

impl Workload {
    pub(crate) fn random(seed: u64, config: &Config, random: &mut Random) -> Workload {
        static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(Catalogue::new);
        let mut chosen: Vec<usize> = (0..CATALOGUE.first.len()).collect();
        while chosen.len() > config.families as usize {
            chosen.swap_remove(random.below(chosen.len() as u64) as usize);
        }
        let families: Vec<&'static Family> = chosen.into_iter().map(|at| &CATALOGUE.first[at]).collect();
        let keys = (0..config.keys).map(|number| {
            let family = random.below(families.len() as u64) as usize;
            let probe = random.chance(config.probes_permille).then(|| ProbeKind::random(random));
            let kind = probe.map_or(families[family].name, ProbeKind::name);
            Key { name: Bytes::from(format!("{kind}{number}")), family, probe }
        });
        let mut workload = Workload { keys: keys.collect(), families, bits: BTreeMap::new() };
        if config.added_permille > 0 {
            workload.add(&CATALOGUE.added, config.added_permille, &mut Random::new(seed, Stream::Added));
        }
        workload
    }

    /// Gives so many of a thousand keys to other families, probes left out.
    fn add(&mut self, added: &'static [Family], permille: u64, random: &mut Random) {
        let from = self.families.len();
        self.families.extend(added);
        for (number, key) in self.keys.iter_mut().enumerate().filter(|(_, key)| key.probe.is_none()) {
            if random.chance(permille) {
                key.family = from + random.below(added.len() as u64) as usize;
                key.name = Bytes::from(format!("{}{number}", self.families[key.family].name));
            }
        }
    }

    /// Records on which others than programs of this kind work.
    pub(crate) fn of_keys(keys: Vec<Bytes>) -> Workload {
        let keys = keys.into_iter().map(|name| Key { name, family: 0, probe: None });
        Workload { families: Vec::new(), keys: keys.collect(), bits: BTreeMap::new() }
    }

    /// The records for the judge of observed results.
    pub(crate) fn probes(&self) -> BTreeMap<Bytes, ProbeKind> {
        self.keys.iter().filter_map(|key| Some((key.name.clone(), key.probe?))).collect()
    }

    /// Operations that a key may find done before the run, those that bring it into being first.
    pub(crate) fn preparation(&self, key: &Key, random: &mut Random) -> Vec<Operation> {
        let family = self.families[key.family];
        let mut operations = Vec::new();
        if key.probe.is_some() {
            return operations;
        }
        if family.begins > 0 && random.chance(800) {
            operations.push(random.pick(&family.operations[..family.begins]).clone());
        }
        for _ in 0..random.below(4) {
            operations.push(random.pick(&family.operations).clone());
        }
        operations
    }

    pub(crate) fn program(&mut self, config: &ProgramConfig, random: &mut Random) -> Program {
        let single = random.chance(config.single_permille);
        let count = if single { 1 } else { random.between(1, config.steps_max) };
        let mut steps = Vec::new();
        for _ in 0..count {
            if !single && config.think_us_max > 0 && random.chance(300) {
                steps.push(Step::Think(random.below(config.think_us_max)));
            }
            steps.push(self.step(config, random));
        }
        let ending = if random.chance(config.abort_permille) {
            let late = Ending::CommitThenAbort(random.below(2_000));
            *random.pick(&[Ending::Abort, late])
        } else {
            Ending::Commit
        };
        // After all else: what a seed draws besides stays as it was.
        if config.pause_us_max > 0 && random.chance(PAUSE_PERMILLE) {
            let at = random.below(steps.len() as u64 + 1) as usize;
            steps.insert(at, Step::Pause(random.below(config.pause_us_max)));
        }
        Program { steps, ending }
    }

    fn step(&mut self, config: &ProgramConfig, random: &mut Random) -> Step {
        if !random.chance(config.interactive_permille) {
            return Step::Buffer(self.action(config, random));
        }
        // Side by side; those on one record are executed in this order.
        let mut actions = vec![self.action(config, random)];
        while random.chance(250) {
            actions.push(self.action(config, random));
        }
        Step::Execute(actions)
    }

    fn action(&mut self, config: &ProgramConfig, random: &mut Random) -> Action {
        let key = random.pick(&self.keys).clone();
        if let Some(kind) = key.probe {
            return self.probe(&key.name, kind, random);
        }
        let mistaken = random.chance(config.mistaken_permille);
        let source = if mistaken { random.pick(&self.keys).family } else { key.family };
        let family = self.families[source];
        let named = (family.name == "set" || family.name == "register") && random.chance(200);
        let what = if named {
            StepKind::Named { set: family.name == "set" }
        } else {
            StepKind::Fixed(random.pick(&family.operations).clone())
        };
        let reserve = random.chance(config.reserve_permille).then(|| random.pick(&family.operations).clone());
        if config.keyspace_permille > 0 && random.chance(config.keyspace_permille) {
            let op = on_any_record(self.families[key.family].name, random);
            return Action::fixed(key.name, op);
        }
        Action { key: key.name, what, reserve, demand: None }
    }

    fn probe(&mut self, key: &Bytes, kind: ProbeKind, random: &mut Random) -> Action {
        let mut writes = random.chance(600);
        let mut bit = None;
        if writes && kind == ProbeKind::Bits {
            let next = self.bits.entry(key.clone()).or_insert(0);
            writes = *next < BITS_MAX;
            bit = Some(*next);
            *next += u64::from(writes);
        }
        let what = match writes {
            true => StepKind::Unique { kind, bit, returning: random.chance(300) },
            false => StepKind::Whole(kind),
        };
        Action { key: key.clone(), what, reserve: None, demand: None }
    }
}

/// An operation on a record of any type. Times are relative, and made absolute when it is issued.
fn on_any_record(family: &str, random: &mut Random) -> Operation {
    let (returning, only_later) = (random.chance(300), random.chance(400));
    let at = Moment::In(*random.pick(&[0, 1, 3, 10, 50, 200, 5_000]));
    let is_string = matches!(family, "register" | "counter" | "float" | "text");
    Operation::from(match random.below(10) {
        0 => KeyspaceOp::Delete { returning },
        1 => KeyspaceOp::Exists,
        2 => KeyspaceOp::Persist { returning },
        3 => KeyspaceOp::TimeLeft { in_seconds: false, now: None },
        4 => KeyspaceOp::ExpiryTime,
        5 if is_string => KeyspaceOp::SetUntil { value: "5".into(), at },
        _ => KeyspaceOp::Expire { at, only_later, returning },
    })
}

/// All families.
#[derive(Debug)]
struct Catalogue {
    first: Vec<Family>,
    /// Those of types that [`FIRST`] does not have.
    added: Vec<Family>,
}

/// The families that seeds have drawn from the beginning, in their order, with the types whose operations each has: so a seed that a
/// test names stays the same run. Types that are added to the registry have families of their own, and a setting of their own.
const FIRST: [(&str, &[&str]); 13] = [
    ("set", &["set"]),
    ("counter", &["counter"]),
    ("register", &["register"]),
    ("float", &["float-counter"]),
    ("text", &["register", "counter", "float-counter"]),
    ("dict", &["dict"]),
    ("scored", &["scored-set"]),
    ("top", &["topk"]),
    ("list", &["list"]),
    ("bag", &["summary-bag"]),
    ("uid", &["uid-generator"]),
    ("bids", &["bid-book"]),
    ("bounded", &["bounded-counter"]),
];

impl Catalogue {
    fn new() -> Catalogue {
        let mut types: BTreeMap<&str, Vec<Operation>> =
            builtin_examples().map(|(kind, operations)| (kind.name, operations)).collect();
        let added = types.iter().filter(|(name, _)| FIRST.iter().all(|(_, of)| !of.contains(name)));
        let added = added.map(|(name, operations)| Family::new(name, operations.clone())).collect();
        let bids = BidBook::operations().into_iter().map(Operation::new::<BidBook>);
        types.insert("bid-book", bids.collect());
        let family = |(name, of): (&'static str, &[&str])| {
            Family::new(name, of.iter().flat_map(|name| types[name].clone()).collect())
        };
        Catalogue { first: FIRST.map(family).into(), added }
    }
}

impl Family {
    /// Where something has to be there for some operations, those that bring it into being come first.
    fn new(name: &'static str, mut operations: Vec<Operation>) -> Family {
        let on_nothing = |op: &Operation| op.execute(None, Unique(0));
        let mut begins = 0;
        if operations.iter().any(|op| on_nothing(op).is_err()) {
            let is_begin = |op: &Operation| on_nothing(op).is_ok_and(|executed| executed.effect.is_some());
            operations.sort_by_key(|op| !is_begin(op));
            begins = operations.iter().filter(|op| is_begin(op)).count();
        }
        Family { name, operations, begins }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use claret_types::BUILTIN;

    use super::Catalogue;
    use crate::config::Config;
    use crate::plant::Plant;
    use crate::run::Told;
    use crate::seat::Stageplay;
    use crate::world::World;

    /// So many seeds have all of them.
    const SEEDS_MAX: u64 = 400;

    /// The types of which operations that a seed's programs ask for are answered and committed, and judged on the sequential model.
    fn committed(seed: u64) -> BTreeSet<&'static str> {
        let mut world = World::begun(seed, Config::small(seed), (Plant::None, Stageplay::of(None)), false);
        world.run().expect("it passes");
        let committed = world.ledger.runs().values().filter(|run| matches!(run.told, Told::Committed(_)));
        let answered = committed.flat_map(|run| &run.issued).filter(|issued| issued.reply.is_some());
        answered.map(|issued| issued.op.type_info().name).collect()
    }

    #[test]
    fn programs_of_every_built_in_type_commit() {
        let mut missing: BTreeSet<&str> = BUILTIN.iter().map(|kind| kind.name).collect();
        for seed in 0..SEEDS_MAX {
            if missing.is_empty() {
                return;
            }
            let committed = committed(seed);
            missing.retain(|name| !committed.contains(name));
        }
        assert!(missing.is_empty(), "in {SEEDS_MAX} seeds nothing of {missing:?} commits");
    }

    /// What was drawn from the beginning stays: only one of these families has operations that come first.
    #[test]
    fn families_are_made_as_seeds_have_drawn_them() {
        let catalogue = Catalogue::new();
        let begun = catalogue.first.iter().filter(|family| family.begins > 0);
        assert_eq!(begun.map(|family| family.name).collect::<Vec<_>>(), ["bounded"]);
        let added = catalogue.added.iter().map(|family| (family.name, family.begins > 0));
        assert_eq!(added.collect::<Vec<_>>().first(), Some(&("document", true)));
    }
}
