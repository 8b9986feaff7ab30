//! Compares, at the end of a run, what the store holds with what was acknowledged.

use std::fmt;

use claret_types::{Bytes, Operation, Reply};

use super::Call;

/// How many violations are kept; the first ones tell what is wrong.
pub const VIOLATIONS_MAX: usize = 100;

/// What the store promised in a run, and so what may be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Strictly serializable transactions.
    Transactions,
    /// Each operation alone is atomic and none is lost (the mode without transactions).
    Operations,
}

/// Something that is not as it was acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Where.
    pub key: Bytes,
    /// What was looked at.
    pub what: &'static str,
    /// What follows from the acknowledged transactions.
    pub expected: String,
    /// What the store answered.
    pub found: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation { key, what, expected, found } = self;
        write!(f, "{key}: {what}: expected {expected}, found {found}")
    }
}

/// Violations, the first [`VIOLATIONS_MAX`] of them.
#[derive(Debug, Default)]
pub(crate) struct Violations(Vec<Violation>);

impl Violations {
    pub(crate) fn push(
        &mut self,
        key: &Bytes,
        what: &'static str,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) {
        let (expected, found) = (expected.to_string(), found.to_string());
        self.take(Violation { key: key.clone(), what, expected, found });
    }

    fn take(&mut self, violation: Violation) {
        if self.0.len() < VIOLATIONS_MAX {
            self.0.push(violation);
        }
    }

    pub(crate) fn append(&mut self, other: Violations) {
        let room = VIOLATIONS_MAX - self.0.len();
        self.0.extend(other.0.into_iter().take(room));
    }

    pub(crate) fn as_slice(&self) -> &[Violation] {
        &self.0
    }
}

/// What every tally has: transactions that ended unknown, and contradictions that a client saw itself.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    pub(crate) unknown: u64,
    /// Contradict even operations that are atomic alone.
    pub(crate) seen: Violations,
    /// Contradict transactions only.
    pub(crate) seen_in_transactions: Violations,
}

impl Witness {
    pub(crate) fn merge(&mut self, other: Witness) {
        self.unknown += other.unknown;
        self.seen.append(other.seen);
        self.seen_in_transactions.append(other.seen_in_transactions);
    }
}

/// Reads a store and collects what is wrong.
pub(crate) struct Checker<'a> {
    promise: Promise,
    read: &'a mut dyn FnMut(Call) -> Reply,
    violations: Violations,
}

impl<'a> Checker<'a> {
    /// Reads through `read`.
    pub(crate) fn new(promise: Promise, read: &'a mut dyn FnMut(Call) -> Reply) -> Self {
        Checker { promise, read, violations: Violations::default() }
    }

    /// Whether checks that hold for transactions alone are to be made.
    pub(crate) fn is_transactional(&self) -> bool {
        self.promise == Promise::Transactions
    }

    /// Takes over what the clients saw while they ran.
    pub(crate) fn witness(&mut self, witness: &Witness) {
        if witness.unknown > 0 {
            self.report(&Bytes::default(), "transactions whose outcome is unknown", 0, witness.unknown);
        }
        for violation in witness.seen.as_slice() {
            self.violations.take(violation.clone());
        }
        if self.is_transactional() {
            for violation in witness.seen_in_transactions.as_slice() {
                self.violations.take(violation.clone());
            }
        }
    }

    /// Reads one thing.
    pub(crate) fn ask(&mut self, key: &Bytes, op: Operation) -> Reply {
        (self.read)(Call::new(key, op))
    }

    /// Reads one thing that must be `expected`.
    pub(crate) fn expect(&mut self, key: &Bytes, op: Operation, what: &'static str, expected: &Reply) {
        let found = self.ask(key, op);
        if found != *expected {
            self.report(key, what, expected, found);
        }
    }

    /// Notes a violation.
    pub(crate) fn report(
        &mut self,
        key: &Bytes,
        what: &'static str,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) {
        self.violations.push(key, what, expected, found);
    }

    /// What was wrong.
    pub(crate) fn finish(self) -> Vec<Violation> {
        self.violations.0
    }
}
