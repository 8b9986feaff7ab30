//! What the oracle found, as values and as text.

use std::fmt;

use super::bounds::Bounds;

/// What the oracle found out about one type.
#[derive(Clone, Debug)]
pub struct Report {
    /// The type.
    pub name: &'static str,
    /// How far was enumerated.
    pub bounds: Bounds,
    /// Example states.
    pub examples: usize,
    /// Distinct states that were met.
    pub states: usize,
    /// Example operations.
    pub operations: usize,
    /// Distinct configurations that were checked: a committed state with what is pending there.
    pub configurations: u64,
    /// Orders of configurations that were walked.
    pub cases: u64,
    /// How often the type's own code was run; the orders are walked over what it answered.
    pub executions: u64,
    /// Up to this many pending operations, every history within the bounds was covered.
    pub complete: usize,
    /// The smallest counterexample; `None` when the specification holds.
    pub verdict: Option<Counterexample>,
    /// Pairs of operations in an example state, both possible there.
    pub pairs: u64,
    /// Those of them that are admitted together.
    pub admitted: u64,
    /// Those that commute and are not admitted together, by methods, the most frequent first.
    pub lost: Vec<Lost>,
}

/// Pairs of operations that commute and that the lock keeps apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The two methods.
    pub methods: (&'static str, &'static str),
    /// Pairs of operations in an example state.
    pub count: u64,
    /// One of the states.
    pub state: String,
    /// The two operations there.
    pub operations: (String, String),
}

/// The promise that a type breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// Modes conflict symmetrically, and their tables agree.
    Modes,
    /// `parse` makes the same operation of its method's name and its `arguments`.
    Arguments,
    /// `execute` depends on its arguments alone, and equal states answer alike.
    Function,
    /// Reads have no effect.
    Reading,
    /// Methods that return nothing answer OK.
    Void,
    /// The effect that `apply` returns undoes it.
    Inverse,
    /// What is admitted together commutes, for every subset, in every order.
    Commutativity,
    /// `footprint` claims at least what `execute` does, and footprints that do not conflict commute.
    Footprint,
    /// Total operations can be done in every state of their type, and draw nothing.
    Total,
    /// Lasting operations can be done after whatever others of their type, where there is ample room.
    Lasting,
    /// Blind operations are total and void, and do the same whatever is there.
    Blind,
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Law::Modes => "lock modes conflict symmetrically",
            Law::Arguments => "parse reads back what arguments writes",
            Law::Function => "execute depends on its arguments alone",
            Law::Reading => "reads have no effect",
            Law::Void => "methods that return nothing answer OK",
            Law::Inverse => "the effect that apply returns undoes it exactly",
            Law::Commutativity => "operations that are admitted together commute",
            Law::Footprint => "footprint claims at least as much as execute in any state",
            Law::Total => "total operations can be done in every state, and draw nothing",
            Law::Lasting => "lasting operations can be done after whatever others of their type",
            Law::Blind => "blind operations are total and void, and do the same whatever is there",
        })
    }
}

/// A case in which a type breaks a promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counterexample {
    /// The promise.
    pub law: Law,
    /// How many operations are pending.
    pub pending: usize,
    /// How many steps lead there.
    pub steps: usize,
    /// The state that it starts from.
    pub state: String,
    /// The steps, with replies and claims.
    pub history: Vec<String>,
    /// What two orders of what is pending come to.
    pub orders: Vec<String>,
    /// What is wrong.
    pub difference: String,
}

/// Why to stop early.
#[derive(Debug)]
pub(super) enum Stop {
    /// A promise is broken.
    Refused(Box<Counterexample>),
    /// This operation depends on its number and was not known to.
    Numbered(usize),
}

impl Report {
    /// Of nothing found yet.
    pub(super) fn new(name: &'static str, bounds: Bounds, examples: usize, operations: usize) -> Self {
        Report {
            name,
            bounds,
            examples,
            states: examples,
            operations,
            configurations: 0,
            cases: 0,
            executions: 0,
            complete: 0,
            verdict: None,
            pairs: 0,
            admitted: 0,
            lost: Vec::new(),
        }
    }

    /// Whether the specification holds in all that was checked.
    pub fn holds(&self) -> bool {
        self.verdict.is_none()
    }
}

/// The report on several lines, without a newline at the end.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.holds() { "holds" } else { "REFUSED" };
        writeln!(f, "{}: {verdict}", self.name)?;
        writeln!(
            f,
            "  {} example states, {} operations; {} states, {} configurations, \
             {} cases checked ({} executions)",
            self.examples, self.operations, self.states, self.configurations, self.cases, self.executions
        )?;
        if let Some(counterexample) = &self.verdict {
            return write!(f, "{counterexample}");
        }
        let Bounds { pending, depth, cases, .. } = self.bounds;
        if self.complete == pending {
            write!(f, "  every history of up to {pending} pending operations and {depth} steps")?;
        } else {
            write!(
                f,
                "  every history of up to {} pending operations and {depth} steps; \
                 of {}, up to the limit of {cases} cases",
                self.complete,
                self.complete + 1,
            )?;
        }
        write!(
            f,
            "\n  of {} pairs in an example state, {} are admitted together",
            self.pairs, self.admitted
        )?;
        let lost: u64 = self.lost.iter().map(|lost| lost.count).sum();
        if lost > 0 {
            write!(f, "; lost concurrency: {lost} commute and are kept apart")?;
        }
        for lost in &self.lost {
            write!(f, "\n    {lost}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (a, b) = self.methods;
        let (first, second) = &self.operations;
        write!(f, "{a} / {b}: {}, as {first} and {second} in {}", self.count, self.state)
    }
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  broken: {}", self.law)?;
        if !self.state.is_empty() {
            write!(f, "\n  state: {}", self.state)?;
        }
        for (i, step) in self.history.iter().enumerate() {
            write!(f, "\n    {}. {step}", i + 1)?;
        }
        for order in &self.orders {
            write!(f, "\n  {order}")?;
        }
        write!(f, "\n  wrong: {}", self.difference)
    }
}
