//! The papers' workloads: what is run, apart from the store that runs it.
//!
//! A [`Workload`] is a set of parameters and the tables made from them (keys, distributions, a graph). It
//! loads a store, then starts a [`Run`]: all that the clients of one store share, and the sum of what they
//! were told. A [`Client`] is a state machine: it draws a transaction, hands out the calls of each stage, is
//! given the replies and is told how it ended. At the end the run reads the store and compares it with
//! what was acknowledged.
//!
//! Invariants:
//! - a client has one transaction at a time; `restart` begins the *same* transaction again, with the same
//!   random choices;
//! - nothing here knows a store, a clock, a thread or a lock mode: whoever drives the clients does;
//! - the same seed gives the same choices, as long as the replies are the same;
//! - keys are made beforehand wherever they can be, so that formatting them is not what gets measured.
//!
//! `docs/workloads.md` says where each number comes from and what was chosen where the papers are silent.

mod alias;
mod check;
pub mod checkout;
pub mod fair;
pub mod hot;
mod id;
mod mix;
pub(crate) mod names;
pub mod objects;
pub mod ops;
pub mod rawmix;
pub mod retwis;
pub mod rubis;
pub mod sequential;
pub(crate) mod simulated;
mod spec;
pub mod tpcc;

pub(crate) use alias::Zipf;
pub(crate) use check::Checker;
pub use check::{Promise, VIOLATIONS_MAX, Violation};
pub(crate) use mix::Mix;
pub use spec::WorkloadSpec;

use std::time::Duration;

use claret_types::{Bytes, Operation, Reply};

/// One operation on one key.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Where.
    pub key: Bytes,
    /// What.
    pub op: Operation,
}

impl Call {
    /// An operation on a key.
    pub fn new(key: &Bytes, op: Operation) -> Self {
        Call { key: key.clone(), op }
    }
}

/// What is to be done with the calls of a stage. The calls of one stage are known up front and may be
/// issued together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Run them and ask for the next stage with their replies.
    Read,
    /// The last stage: run them and commit.
    Commit,
}

/// A kind of transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// Whether it counts as an action in the paper's mix. One that does not is part of another action
    /// (loading one post of a timeline).
    pub is_action: bool,
}

impl Kind {
    const fn action(name: &'static str) -> Self {
        Kind { name, is_action: true }
    }

    const fn part(name: &'static str) -> Self {
        Kind { name, is_action: false }
    }
}

/// Calls to be carried out in any order, each alone, before a run.
pub type Batches<'a> = Box<dyn Iterator<Item = Vec<Call>> + Send + 'a>;

/// How many calls a batch of [`Workload::load`] holds at most.
pub const BATCH_MAX: usize = 256;

/// A workload with its parameters. One workload may be run on several stores at once.
pub trait Workload: Send + Sync {
    /// The name, as in `claret bench NAME`.
    fn name(&self) -> &'static str;

    /// Its kinds of transactions; [`Client::draw`] answers with an index into them.
    fn kinds(&self) -> &'static [Kind];

    /// What has to be in the store before a run. Empty for workloads that start from nothing.
    fn load(&self) -> Batches<'_>;

    /// Starts a run on a store that holds exactly what [`Workload::load`] says.
    fn run(&self) -> Box<dyn Run>;
}

/// One run of a workload on one store.
pub trait Run: Send + Sync {
    /// A client with choices of its own. Clients of one run must have different seeds.
    fn client(&self, seed: u64) -> Box<dyn Client>;

    /// Compares what the store holds with what the clients were told, once all have
    /// [finished](Client::finish). Reads through `read`, one operation at a time; nothing else may be
    /// running. At most [`VIOLATIONS_MAX`] violations are returned; an empty list is a pass.
    fn verify(&self, promise: Promise, read: &mut dyn FnMut(Call) -> Reply) -> Vec<Violation>;
}

/// Someone who issues one transaction after another.
pub trait Client: Send {
    /// Draws the next transaction; an index into [`Workload::kinds`]. The previous one must have ended
    /// (`committed`, `gave_up` or `unknown`).
    fn draw(&mut self) -> usize;

    /// Adds the calls of the next stage to `calls`, which is empty. `replies` are those of the previous
    /// stage, one for each call in its order; none for the first.
    fn stage(&mut self, replies: &[Reply], calls: &mut Vec<Call>) -> Stage;

    /// How long the application works after a stage that is not the last, whatever else the run asks for. Of the transaction that
    /// was drawn.
    fn thinks(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether the transaction that was drawn is better off if it looks without locks (`docs/optimistic.md`): it reads what many change,
    /// and its user waits for nothing. Asked where a mode has a choice.
    fn looks(&self) -> bool {
        false
    }

    /// Whether its user wants the transaction rolled back: asked once the last stage is known, whose calls are run or not.
    /// It is then [given up](Client::gave_up), and counts as done.
    fn rolls_back(&self) -> bool {
        false
    }

    /// Begins the transaction that was drawn again, from its first stage: for a retry.
    fn restart(&mut self);

    /// It committed; `replies` are those of the last stage, one for each call.
    fn committed(&mut self, replies: &[Reply]);

    /// It was given up and has no effect.
    fn gave_up(&mut self);

    /// Whether it committed is not known. A run in which that happened cannot be verified, and
    /// [`Run::verify`] says so.
    fn unknown(&mut self);

    /// Hands what it was told over to its run.
    fn finish(self: Box<Self>);
}

/// The integer in a reply.
///
/// # Panics
/// When it is none: the store answered an operation with something of another shape.
fn integer(reply: &Reply) -> i64 {
    match reply {
        Reply::Int(value) => *value,
        other => panic!("an operation that answers an integer was answered {other}"),
    }
}

/// The replies in an array.
///
/// # Panics
/// As [`integer`].
fn array(reply: &Reply) -> &[Reply] {
    match reply {
        Reply::Array(items) => items,
        other => panic!("an operation that answers an array was answered {other}"),
    }
}

/// The bytes in a reply, if it is not nil.
///
/// # Panics
/// As [`integer`].
fn bytes(reply: &Reply) -> Option<&Bytes> {
    match reply {
        Reply::Bytes(bytes) => Some(bytes),
        Reply::Nil => None,
        other => panic!("an operation that answers bytes was answered {other}"),
    }
}

/// Splits a stream of calls into batches.
fn batches<'a>(calls: impl Iterator<Item = Call> + Send + 'a) -> Batches<'a> {
    let mut calls = calls.peekable();
    Box::new(std::iter::from_fn(move || {
        calls.peek()?;
        Some(calls.by_ref().take(BATCH_MAX).collect())
    }))
}
