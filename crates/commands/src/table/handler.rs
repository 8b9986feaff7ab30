//! What carries a command out: the sixth column of the table.

use claret_types::TypeInfo;

use super::Way;
use crate::calls::Calls;
use crate::fault::Fault;
use crate::steps::{Answering, Steps};
use crate::words::Words;

/// What carries a command out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Handler {
    /// Its words say all of its operations up front.
    Calls(fn(Words<'_>) -> Result<Calls, Fault>),
    /// It is steps of a transaction.
    Steps(for<'a> fn(Steps<'a>, Words<'a>) -> Answering<'a>),
    /// The first with some words, the second with all others.
    Either(fn(Words<'_>) -> Option<Result<Calls, Fault>>, for<'a> fn(Steps<'a>, Words<'a>) -> Answering<'a>),
    /// It is an operation of this type, by the operation's own name.
    Own(&'static TypeInfo),
    /// Nothing here does.
    None,
}

/// The cell of a row: how the command is carried out, and by what.
pub(super) type Cell = (Way, Handler);

pub(super) const fn calls(function: fn(Words<'_>) -> Result<Calls, Fault>) -> Cell {
    (Way::Operation, Handler::Calls(function))
}

/// The cell of an async function of steps and words. The future is in a box: few are under way at once, and whoever waits for a command
/// would keep room for the largest.
macro_rules! steps {
    ($function:path) => {
        (
            $crate::table::Way::Steps,
            $crate::table::handler::Handler::Steps(|steps, words| Box::pin($function(steps, words))),
        )
    };
}

/// The cell of a function that makes calls of some words, and an async one for all others.
macro_rules! either {
    ($calls:path, $function:path) => {
        (
            $crate::table::Way::Operation,
            $crate::table::handler::Handler::Either($calls, |steps, words| Box::pin($function(steps, words))),
        )
    };
}

pub(super) use {either, steps};

pub(super) const NODE: Cell = (Way::Node, Handler::None);
pub(super) const BLOCKING: Cell = (Way::Blocking, Handler::None);
pub(super) const PUBSUB: Cell = (Way::PubSub, Handler::None);
pub(super) const SCRIPT: Cell = (Way::Script, Handler::None);
pub(super) const FAN_OUT: Cell = (Way::FanOut, Handler::None);
pub(super) const LOCAL: Cell = (Way::Local, Handler::None);
pub(super) const REFUSED: Cell = (Way::Refused, Handler::None);
