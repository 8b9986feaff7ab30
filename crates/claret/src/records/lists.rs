//! Handles of the list: the list itself, the queue and the stack. All three are the same type on the same record, so
//! you can also use a queue as a list.

use claret_types::{Bytes, End, Few, List, ListOp};

use super::{Record, Scope};

fn one(value: impl Into<Bytes>) -> Few<Bytes> {
    Few::from_elem(value.into(), 1)
}

/// Values in order, with two ends. See [`List`].
#[derive(Clone, Debug)]
pub struct ListRecord<S>(pub(super) Record<S, List>);

impl<S: Scope> ListRecord<S> {
    /// `LPUSH`: puts a value at the front.
    pub fn push_front(&self, value: impl Into<Bytes>) -> S::Void {
        self.0.issue(ListOp::Push(End::Front, one(value)))
    }

    /// `RPUSH`: puts a value at the back.
    pub fn push_back(&self, value: impl Into<Bytes>) -> S::Void {
        self.0.issue(ListOp::Push(End::Back, one(value)))
    }

    /// `RPUSH`: puts values at the back, one after another.
    pub fn push_all<V: Into<Bytes>>(&self, values: impl IntoIterator<Item = V>) -> S::Void {
        self.0.issue(ListOp::Push(End::Back, values.into_iter().map(Into::into).collect()))
    }

    /// `LPUSH.RETURNING`: puts a value at the front; the new length.
    pub fn push_front_returning(&self, value: impl Into<Bytes>) -> S::Value<u64> {
        self.0.run(ListOp::PushReturning(End::Front, one(value)))
    }

    /// `RPUSH.RETURNING`: puts a value at the back; the new length.
    pub fn push_back_returning(&self, value: impl Into<Bytes>) -> S::Value<u64> {
        self.0.run(ListOp::PushReturning(End::Back, one(value)))
    }

    /// `LPOP`: takes the value at the front, if there is one.
    pub fn pop_front(&self) -> S::Value<Option<Bytes>> {
        self.0.run(ListOp::Pop(End::Front))
    }

    /// `RPOP`: takes the value at the back, if there is one.
    pub fn pop_back(&self) -> S::Value<Option<Bytes>> {
        self.0.run(ListOp::Pop(End::Back))
    }

    /// `LLEN`: how many values.
    pub fn len(&self) -> S::Value<u64> {
        self.0.run(ListOp::Len)
    }

    /// `LRANGE`: the values from position `start` to `stop`, both included; negative ones count from the back.
    pub fn range(&self, start: i64, stop: i64) -> S::Value<Vec<Bytes>> {
        self.0.run(ListOp::Range { start, stop })
    }

    /// `LRANGE 0 -1`: all values, the front one first.
    pub fn all(&self) -> S::Value<Vec<Bytes>> {
        self.range(0, -1)
    }

    /// `LINDEX`: the value at a position, if there is one; negative ones count from the back.
    pub fn get(&self, index: i64) -> S::Value<Option<Bytes>> {
        self.0.run(ListOp::Index(index))
    }
}

/// A list whose values leave in the order in which they came. See [`List`].
#[derive(Clone, Debug)]
pub struct QueueRecord<S>(pub(super) Record<S, List>);

impl<S: Scope> QueueRecord<S> {
    /// `RPUSH`: puts a value behind all others.
    pub fn enqueue(&self, value: impl Into<Bytes>) -> S::Void {
        self.0.issue(ListOp::Push(End::Back, one(value)))
    }

    /// `LPOP`: takes the value that came first, if there is one.
    pub fn dequeue(&self) -> S::Value<Option<Bytes>> {
        self.0.run(ListOp::Pop(End::Front))
    }

    /// `LINDEX 0`: the value that came first, if there is one; it stays.
    pub fn peek(&self) -> S::Value<Option<Bytes>> {
        self.0.run(ListOp::Index(0))
    }

    /// `LLEN`: how many values.
    pub fn len(&self) -> S::Value<u64> {
        self.0.run(ListOp::Len)
    }
}

/// A list whose last value leaves first. See [`List`].
#[derive(Clone, Debug)]
pub struct StackRecord<S>(pub(super) Record<S, List>);

impl<S: Scope> StackRecord<S> {
    /// `LPUSH`: puts a value on top.
    pub fn push(&self, value: impl Into<Bytes>) -> S::Void {
        self.0.issue(ListOp::Push(End::Front, one(value)))
    }

    /// `LPOP`: takes the value on top, if there is one.
    pub fn pop(&self) -> S::Value<Option<Bytes>> {
        self.0.run(ListOp::Pop(End::Front))
    }

    /// `LINDEX 0`: the value on top, if there is one; it stays.
    pub fn peek(&self) -> S::Value<Option<Bytes>> {
        self.0.run(ListOp::Index(0))
    }

    /// `LLEN`: how many values.
    pub fn len(&self) -> S::Value<u64> {
        self.0.run(ListOp::Len)
    }
}
