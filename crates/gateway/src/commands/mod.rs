//! Commands, as operations of Claret's types or as steps of a transaction.
//!
//! Some are operations that are known up front (`direct.rs`). The others a server does in one step, and here they are steps: they
//! read under a lock (`execute_for_update`, because a write follows), compute, and issue what changes. So all of it is done, or
//! nothing.
//!
//! An operation that cannot be done dooms its transaction. So a command does none that may fail where a server would succeed:
//! what holds another type is put anew, or asked by an operation that is *tried*, whose failure is an answer.

use claret::Tx;
use claret_types::{Bytes, Operation, TypeInfo, builtin_types};

use crate::answer::Answer;
use crate::fault::Fault;
use crate::work::Work;

#[cfg(test)]
mod against_server;
mod by_name;
mod direct;
mod hashes;
mod keys;
mod lists;
mod random;
mod scan;
mod scored;
mod sets;
mod steps;
mod strings;
#[cfg(test)]
mod tests;
mod words;

pub(crate) use by_name::direct;
pub(crate) use direct::{Direct, elements, size};
pub(crate) use scan::check_cursor;
pub(crate) use steps::Kind;
use steps::Steps;
pub(crate) use words::pattern;

/// What a command answers.
pub(crate) type Answered = Result<Answer, Fault>;

/// Runs a command in a transaction, by its name in upper case and its further words, whose count is right; `None`: it is not one of
/// these.
pub(crate) async fn run(tx: &Tx, name: &str, words: &[Bytes]) -> Option<Answered> {
    match direct(name, words) {
        Some(Ok(direct)) if !has_own_words(name) => return Some(direct.run(tx).await),
        Some(Err(fault)) => return Some(Err(fault)),
        _ => {}
    }
    let work = Work::current();
    work.go_on(tx.attempt());
    let steps = Steps { tx, work: &work };
    // In a box: few of them are under way at once, and whoever waits for a command keeps room for the largest.
    Some(match () {
        () if strings::NAMES.contains(&name) => Box::pin(strings::run(steps, name, words)).await,
        () if hashes::NAMES.contains(&name) => Box::pin(hashes::run(steps, name, words)).await,
        () if lists::NAMES.contains(&name) => Box::pin(lists::run(steps, name, words)).await,
        () if sets::NAMES.contains(&name) => Box::pin(sets::run(steps, name, words)).await,
        () if scored::NAMES.contains(&name) => Box::pin(scored::run(steps, name, words)).await,
        () if keys::NAMES.contains(&name) => Box::pin(keys::run(steps, name, words)).await,
        () if by_name::NAMES.contains(&name) => Err(words::arity(name)),
        () => return None,
    })
}

/// Whether a command of this name is one of these.
#[cfg(test)]
pub(crate) fn is_known(name: &str) -> bool {
    let of_steps = [strings::NAMES, hashes::NAMES, lists::NAMES, sets::NAMES, scored::NAMES, keys::NAMES];
    by_name::NAMES.contains(&name)
        || of_steps.iter().any(|names| names.contains(&name))
        || by_name::owner(name).is_some()
}

/// Whether a command says in words of its own why its operation cannot be done.
fn has_own_words(name: &str) -> bool {
    name == "HINCRBY"
}

/// An operation of a type, from its words.
///
/// # Errors
/// What is wrong with them.
pub(crate) fn operation(kind: &str, method: &str, words: &[Bytes]) -> Result<Operation, Fault> {
    let known = builtin_types().iter().find(|known| known.name == kind).expect("a built-in type");
    operation_of(known, method, words)
}

fn operation_of(kind: &TypeInfo, method: &str, words: &[Bytes]) -> Result<Operation, Fault> {
    (kind.parse)(method, words).map_err(|error| Fault::Told(crate::fault::of_operation(&error)))
}
