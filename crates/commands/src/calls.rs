//! A command as operations that are known up front, and what it answers.

use claret::{Error, Tx, errors::ExecuteError};
use claret_types::{Access, Bytes, Counter, CounterOp, FromReply, OpError, Operation, Reply};
use smallvec::SmallVec;

use crate::answer::Answer;
use crate::fault::{Fault, of_operation};
use crate::runner::Runner;
use crate::words::decimal;

/// Operations on one record, one after the other.
pub(crate) type Chain = SmallVec<[Operation; 2]>;

/// A command as operations. They are done in this order, and each has one reply, those that answer nothing too.
#[derive(Clone, Debug)]
pub struct Calls {
    all: SmallVec<[(Bytes, Operation); 2]>,
    shape: Shape,
}

/// What a command answers of the replies of its operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The first reply.
    First,
    /// The same, of a field that holds a number: that it holds none is told in words of its own.
    Field,
    /// The last one.
    Last,
    /// That it was done.
    Ok,
    /// An array of all.
    Each,
    /// The sum of all.
    Sum,
    /// A set of what is in the first.
    Set,
    /// A map of what is in the first.
    Map,
    /// Member and score, of the first.
    Pairs,
    /// Every second one in the first: values of a map.
    Values,
    /// How long the first is, in bytes.
    Length,
    /// A float as text.
    Decimal,
    /// A time in milliseconds, in seconds.
    Seconds,
    /// An array of all, with nil for keys of another type (they were tried).
    NilOfOtherType,
    /// The first, which is 0 for a key of another type (it was tried).
    ZeroOfOtherType,
}

impl Calls {
    /// None so far.
    pub(crate) fn of(shape: Shape) -> Self {
        Calls { all: SmallVec::new(), shape }
    }

    /// One more.
    pub(crate) fn call(&mut self, key: &Bytes, op: Operation) {
        self.all.push((key.clone(), op));
    }

    /// One operation.
    pub(crate) fn one(key: &Bytes, op: Operation, shape: Shape) -> Self {
        let mut calls = Calls::of(shape);
        calls.call(key, op);
        calls
    }

    /// Several on one key.
    pub(crate) fn chain(key: &Bytes, ops: Chain, shape: Shape) -> Self {
        Calls { all: ops.into_iter().map(|op| (key.clone(), op)).collect(), shape }
    }

    /// The same operation on each key.
    pub(crate) fn each(keys: &[Bytes], op: &Operation, shape: Shape) -> Self {
        Calls { all: keys.iter().map(|key| (key.clone(), op.clone())).collect(), shape }
    }

    /// Adds to a number; the sum.
    pub(crate) fn count(key: &Bytes, by: i64) -> Self {
        Calls::one(key, Operation::new::<Counter>(CounterOp::AddReturning(by)), Shape::First)
    }

    /// The operations with their keys, in their order.
    pub fn all(&self) -> &[(Bytes, Operation)] {
        &self.all
    }

    /// Carries them out in a transaction.
    pub(crate) async fn run(self, tx: &Tx, runner: &dyn Runner) -> Result<Answer, Fault> {
        self.run_as(tx, runner, false).await
    }

    /// The same of such that read. `locks`: for writes that follow.
    pub(crate) async fn run_as(self, tx: &Tx, runner: &dyn Runner, locks: bool) -> Result<Answer, Fault> {
        let Calls { all, shape } = self;
        let mut answers: SmallVec<[_; 2]> = SmallVec::with_capacity(all.len());
        for (no, (key, op)) in all.into_iter().enumerate() {
            answers.push(match locks {
                true => tx.execute_for_update(key, op),
                false => tx.execute(key, op),
            });
            runner.rest_after(no).await;
        }
        let mut replies = Vec::with_capacity(answers.len());
        for answer in answers {
            replies.push(answer.await.map_err(|error| shape.fault(error))?);
        }
        let (bytes, answer) =
            runner.over(elements(&replies), move || (size(&replies), shape.answer(replies))).await;
        runner.take(bytes)?;
        Ok(answer)
    }

    /// Whether all of them write.
    pub(crate) fn write(&self) -> bool {
        self.all.iter().all(|(_, op)| op.method().access != Access::Read)
    }

    /// Leaves them for the commit, where nobody wants their answers: so they cost no round trip, and share locks as what answers
    /// nothing does.
    pub(crate) fn issue(self, tx: &Tx) -> Result<(), Fault> {
        self.all.into_iter().try_for_each(|(key, op)| Ok(tx.issue(key, without_answer(op))?))
    }

    /// What the command answers, from the replies of its operations in their order.
    pub fn answer(&self, replies: Vec<Reply>) -> Answer {
        self.shape.answer(replies)
    }

    /// Why the command was not done, where the store says this of its operations.
    pub fn fault(&self, error: Error) -> Fault {
        self.shape.fault(error)
    }
}

impl Shape {
    fn fault(self, error: Error) -> Fault {
        match (self, &error) {
            (Shape::Field, Error::Execute(ExecuteError::Invalid { error: OpError::NotNumeric(..), .. })) => {
                Fault::told("ERR hash value is not an integer")
            }
            _ => Fault::Store(error),
        }
    }

    fn answer(self, mut replies: Vec<Reply>) -> Answer {
        match self {
            Shape::Ok => Answer::Ok,
            Shape::Each => Answer::Array(replies.into_iter().map(Answer::from).collect()),
            Shape::NilOfOtherType => {
                Answer::Array(replies.into_iter().map(|reply| Answer::from(without(reply))).collect())
            }
            Shape::Sum => {
                let sum: Result<i64, Fault> = replies.into_iter().map(taken::<i64>).sum();
                sum.map_or_else(Answer::from, Answer::Int)
            }
            Shape::Last => Answer::from(replies.pop().unwrap_or_default()),
            _ => self.of_one(replies.into_iter().next().unwrap_or_default()),
        }
    }

    fn of_one(self, reply: Reply) -> Answer {
        if let Reply::Failed(error) = &reply
            && self != Shape::ZeroOfOtherType
        {
            return Answer::Error(of_operation(error));
        }
        match (self, reply) {
            (Shape::Set, Reply::Array(all)) => Answer::Set(all.into_iter().map(Answer::from).collect()),
            (Shape::Map, Reply::Array(all)) => Answer::Map(all.into_iter().map(Answer::from).collect()),
            (Shape::Pairs, Reply::Array(all)) => Answer::Pairs(all.into_iter().map(Answer::from).collect()),
            (Shape::Values, Reply::Array(all)) => {
                Answer::Array(all.into_iter().skip(1).step_by(2).map(Answer::from).collect())
            }
            (Shape::Length, Reply::Bytes(bytes)) => Answer::count(bytes.len()),
            (Shape::Length, Reply::Nil) => Answer::Int(0),
            (Shape::Decimal, reply) => {
                f64::from_reply(reply).map_or(Answer::Nil, |value| Answer::Bulk(decimal(value)))
            }
            (Shape::Seconds, Reply::Int(ms @ 0..)) => Answer::Int(ms / 1000 + i64::from(ms % 1000 >= 500)),
            (Shape::ZeroOfOtherType, reply) => match without(reply) {
                Reply::Nil => Answer::Int(0),
                reply => Answer::from(reply),
            },
            (_, reply) => Answer::from(reply),
        }
    }
}

/// The same operation, answering nothing, if there is such a one.
fn without_answer(op: Operation) -> Operation {
    if op.is_tried() {
        return op;
    }
    let name = op.method().name.strip_suffix(".RETURNING");
    let parse = op.type_info().parse;
    name.and_then(|name| parse(name, &op.arguments()).ok()).unwrap_or(op)
}

/// How many there are, with those within.
pub(crate) fn elements(replies: &[Reply]) -> usize {
    let of = |reply: &Reply| if let Reply::Array(all) = reply { all.len() } else { 1 };
    replies.iter().map(of).sum()
}

/// Their bytes.
pub(crate) fn size(replies: &[Reply]) -> usize {
    replies.iter().map(Reply::size).sum()
}

/// Nil for what failed because the key holds another type.
fn without(reply: Reply) -> Reply {
    match reply {
        Reply::Failed(error) if matches!(*error, OpError::WrongType { .. }) => Reply::Nil,
        reply => reply,
    }
}

/// A reply as what it should be.
pub(crate) fn taken<T: FromReply>(reply: Reply) -> Result<T, Fault> {
    if let Reply::Failed(error) = &reply {
        return Err(Fault::Told(of_operation(error)));
    }
    T::from_reply(reply)
        .ok_or_else(|| Fault::told("ERR the store answered something else than this command reads"))
}
