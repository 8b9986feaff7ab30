//! Handles of the list: the list itself, the queue and the stack. All three are the same type on the same record, so
//! you can also use a queue as a list.

use claret_types::{End, List, ListOp};

use super::living::living;
use super::{AnswerIn, Record, Scope, many, one};
use crate::decode;
use crate::value::{FromValue, IntoValue};

living!(ListRecord.0, QueueRecord.0, StackRecord.0);

/// Values in order, with two ends. See [`List`].
#[derive(Clone, Debug)]
pub struct ListRecord<S>(pub(super) Record<S, List>);

impl<S: Scope> ListRecord<S> {
    /// `LPUSH`: puts a value at the front.
    pub fn push_front(&self, value: impl IntoValue) -> S::Void {
        push(&self.0, End::Front, value)
    }

    /// `RPUSH`: puts a value at the back.
    pub fn push_back(&self, value: impl IntoValue) -> S::Void {
        push(&self.0, End::Back, value)
    }

    /// `LPUSH`: puts values at the front, one after another, so that the last one is in front.
    pub fn push_front_many(&self, values: impl IntoIterator<Item = impl IntoValue>) -> S::Void {
        self.0.issue_many(many(values), |values| ListOp::Push(End::Front, values))
    }

    /// `RPUSH`: puts values at the back, one after another.
    pub fn push_back_many(&self, values: impl IntoIterator<Item = impl IntoValue>) -> S::Void {
        self.0.issue_many(many(values), |values| ListOp::Push(End::Back, values))
    }

    /// `LPUSH.RETURNING`: puts a value at the front; the new length.
    pub fn push_front_returning(&self, value: impl IntoValue) -> AnswerIn<S, u64> {
        self.0.run_checked(one(value).map(|value| ListOp::PushReturning(End::Front, value)))
    }

    /// `RPUSH.RETURNING`: puts a value at the back; the new length.
    pub fn push_back_returning(&self, value: impl IntoValue) -> AnswerIn<S, u64> {
        self.0.run_checked(one(value).map(|value| ListOp::PushReturning(End::Back, value)))
    }

    /// `LPOP`: takes the value at the front, if there is one.
    pub fn pop_front<V: FromValue>(&self) -> AnswerIn<S, Option<V>> {
        self.0.read(ListOp::Pop(End::Front), decode::optional())
    }

    /// `RPOP`: takes the value at the back, if there is one.
    pub fn pop_back<V: FromValue>(&self) -> AnswerIn<S, Option<V>> {
        self.0.read(ListOp::Pop(End::Back), decode::optional())
    }

    /// `LLEN`: how many values.
    pub fn len(&self) -> AnswerIn<S, u64> {
        self.0.run(ListOp::Len)
    }

    /// `LRANGE`: the values from position `start` to `stop`, both included; negative ones count from the back.
    pub fn range<V: FromValue>(&self, start: i64, stop: i64) -> AnswerIn<S, Vec<V>> {
        self.0.read(ListOp::Range { start, stop }, decode::each())
    }

    /// `LRANGE 0 -1`: all values, the front one first.
    pub fn all<V: FromValue>(&self) -> AnswerIn<S, Vec<V>> {
        self.range(0, -1)
    }

    /// `LINDEX`: the value at a position, if there is one; negative ones count from the back.
    pub fn get<V: FromValue>(&self, index: i64) -> AnswerIn<S, Option<V>> {
        self.0.read(ListOp::Index(index), decode::optional())
    }
}

/// A list whose values leave in the order in which they came. See [`List`].
#[derive(Clone, Debug)]
pub struct QueueRecord<S>(pub(super) Record<S, List>);

impl<S: Scope> QueueRecord<S> {
    /// `RPUSH`: puts a value behind all others.
    pub fn enqueue(&self, value: impl IntoValue) -> S::Void {
        push(&self.0, End::Back, value)
    }

    /// `LPOP`: takes the value that came first, if there is one.
    pub fn dequeue<V: FromValue>(&self) -> AnswerIn<S, Option<V>> {
        self.0.read(ListOp::Pop(End::Front), decode::optional())
    }

    /// `LINDEX 0`: the value that came first, if there is one; it stays.
    pub fn peek<V: FromValue>(&self) -> AnswerIn<S, Option<V>> {
        self.0.read(ListOp::Index(0), decode::optional())
    }

    /// `LLEN`: how many values.
    pub fn len(&self) -> AnswerIn<S, u64> {
        self.0.run(ListOp::Len)
    }
}

/// A list whose last value leaves first. See [`List`].
#[derive(Clone, Debug)]
pub struct StackRecord<S>(pub(super) Record<S, List>);

impl<S: Scope> StackRecord<S> {
    /// `LPUSH`: puts a value on top.
    pub fn push(&self, value: impl IntoValue) -> S::Void {
        push(&self.0, End::Front, value)
    }

    /// `LPOP`: takes the value on top, if there is one.
    pub fn pop<V: FromValue>(&self) -> AnswerIn<S, Option<V>> {
        self.0.read(ListOp::Pop(End::Front), decode::optional())
    }

    /// `LINDEX 0`: the value on top, if there is one; it stays.
    pub fn peek<V: FromValue>(&self) -> AnswerIn<S, Option<V>> {
        self.0.read(ListOp::Index(0), decode::optional())
    }

    /// `LLEN`: how many values.
    pub fn len(&self) -> AnswerIn<S, u64> {
        self.0.run(ListOp::Len)
    }
}

fn push<S: Scope>(record: &Record<S, List>, end: End, value: impl IntoValue) -> S::Void {
    record.issue_checked(one(value).map(|value| ListOp::Push(end, value)))
}
