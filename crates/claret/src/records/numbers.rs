//! Handles of the types that are native strings (value, numbers, unique ids), and of the bounded counter.

use claret_types::{
    Bounded, BoundedCounter, BoundedCounterOp, Counter, CounterOp, FloatCounter, FloatCounterOp, Register,
    RegisterOp, UidGenerator, UidOp,
};

use super::living::living;
use super::{AnswerIn, Record, Scope, TxScope};
use crate::decode::{self, Decode};
use crate::value::{FromValue, IntoValue};

living!(RegisterRecord.0, CounterRecord.0, FloatRecord.0, BoundedRecord.0, UidRecord.0);

/// A value that is read and overwritten. See [`Register`].
#[derive(Clone, Debug)]
pub struct RegisterRecord<S>(pub(super) Record<S, Register>);

impl<S: Scope> RegisterRecord<S> {
    /// `SET`: writes the value.
    pub fn set(&self, value: impl IntoValue) -> S::Void {
        self.0.issue_checked(value.into_value().map(RegisterOp::Set))
    }

    /// `GETSET`: writes the value; returns the one before.
    pub fn replace<V: FromValue>(&self, value: impl IntoValue) -> AnswerIn<S, Option<V>> {
        self.0.read_checked(value.into_value().map(RegisterOp::GetSet), decode::optional())
    }

    /// `GET`: the value.
    pub fn get<V: FromValue>(&self) -> AnswerIn<S, Option<V>> {
        self.0.read(RegisterOp::Get, decode::optional())
    }

    /// `APPEND`: appends to the value.
    pub fn append(&self, tail: impl IntoValue) -> S::Void {
        self.0.issue_checked(tail.into_value().map(RegisterOp::Append))
    }

    /// `STRLEN`: its length in bytes.
    pub fn len(&self) -> AnswerIn<S, u64> {
        self.0.run(RegisterOp::Len)
    }

    /// `SETNX`: writes the value if there is none.
    pub fn initialize(&self, value: impl IntoValue) -> S::Void {
        self.0.issue_checked(value.into_value().map(RegisterOp::SetIfAbsent))
    }

    /// `SETNX.RETURNING`: writes the value if there is none; returns whether it did.
    pub fn set_if_absent(&self, value: impl IntoValue) -> AnswerIn<S, bool> {
        self.0.run_checked(value.into_value().map(RegisterOp::SetIfAbsentReturning))
    }
}

impl<S: TxScope> RegisterRecord<S> {
    /// Reads, and locks the record for the write that follows: two transactions that read and then write one
    /// register neither deadlock nor restart.
    pub fn get_for_update<V: FromValue>(&self) -> AnswerIn<S, Option<V>> {
        self.0.read_for_update(RegisterOp::Get, decode::optional())
    }
}

/// An integer that many add to. See [`Counter`].
#[derive(Clone, Debug)]
pub struct CounterRecord<S>(pub(super) Record<S, Counter>);

impl<S: Scope> CounterRecord<S> {
    /// `INCRBY`: adds; a negative amount subtracts.
    pub fn add(&self, amount: i64) -> S::Void {
        self.0.issue(CounterOp::Add(amount))
    }

    /// `INCRBY.RETURNING`: adds; returns the sum.
    pub fn add_returning(&self, amount: i64) -> AnswerIn<S, i64> {
        self.0.run(CounterOp::AddReturning(amount))
    }

    /// `GET`: the number, 0 if there is none.
    pub fn get(&self) -> AnswerIn<S, i64> {
        self.0.run(CounterOp::Get)
    }
}

impl<S: TxScope> CounterRecord<S> {
    /// Reads, and locks the record for the change that follows.
    pub fn get_for_update(&self) -> AnswerIn<S, i64> {
        self.0.read_for_update(CounterOp::Get, Decode::plain())
    }
}

/// A float that many add to. See [`FloatCounter`].
#[derive(Clone, Debug)]
pub struct FloatRecord<S>(pub(super) Record<S, FloatCounter>);

impl<S: Scope> FloatRecord<S> {
    /// `INCRBYFLOAT`: adds.
    pub fn add(&self, amount: f64) -> S::Void {
        self.0.issue(FloatCounterOp::Add(amount))
    }

    /// `INCRBYFLOAT.RETURNING`: adds; returns the sum.
    pub fn add_returning(&self, amount: f64) -> AnswerIn<S, f64> {
        self.0.run(FloatCounterOp::AddReturning(amount))
    }

    /// `GET`: the number, 0 if there is none.
    pub fn get(&self) -> AnswerIn<S, f64> {
        self.0.run(FloatCounterOp::Get)
    }
}

/// An integer that stays within bounds. See [`BoundedCounter`].
#[derive(Clone, Debug)]
pub struct BoundedRecord<S>(pub(super) Record<S, BoundedCounter>);

impl<S: Scope> BoundedRecord<S> {
    /// `BCREATE`: creates it with its bounds.
    pub fn create(&self, value: i64, min: i64, max: i64) -> S::Void {
        self.0.issue(BoundedCounterOp::Create(Bounded { value, min, max }))
    }

    /// `BRESIZE`: gives it other bounds; an error if its value is outside of them, or if there is no record. Needs the record
    /// alone.
    pub fn resize(&self, min: i64, max: i64) -> S::Void {
        self.0.issue(BoundedCounterOp::Resize { min, max })
    }

    /// `BINCRBY`: adds; an error if it does not fit.
    pub fn add(&self, amount: i64) -> S::Void {
        self.0.issue(BoundedCounterOp::Add(amount))
    }

    /// `BDECRBY`: takes; an error if there is not enough.
    pub fn take(&self, amount: i64) -> S::Void {
        self.0.issue(BoundedCounterOp::Take(amount))
    }

    /// `BDECRBY.WRAP`: takes; below the minimum it goes on from the maximum, as a clock does. An error if there is no record.
    pub fn take_wrapping(&self, amount: i64) -> S::Void {
        self.0.issue(BoundedCounterOp::TakeWrapping(amount))
    }

    /// `BINCRBY.RETURNING`: adds if it fits; returns whether it did.
    pub fn try_add(&self, amount: i64) -> AnswerIn<S, bool> {
        self.0.run(BoundedCounterOp::AddReturning(amount))
    }

    /// `BDECRBY.RETURNING`: takes if there is enough; returns whether it did.
    pub fn try_take(&self, amount: i64) -> AnswerIn<S, bool> {
        self.0.run(BoundedCounterOp::TakeReturning(amount))
    }

    /// `BGET`: the value.
    pub fn get(&self) -> AnswerIn<S, Option<i64>> {
        self.0.run(BoundedCounterOp::Get)
    }

    /// `BBOUNDS`: the minimum and the maximum; an error if there is no record.
    pub fn bounds(&self) -> AnswerIn<S, (i64, i64)> {
        self.0.run(BoundedCounterOp::Bounds)
    }
}

/// Unique numbers without order. See [`UidGenerator`].
#[derive(Clone, Debug)]
pub struct UidRecord<S>(pub(super) Record<S, UidGenerator>);

impl<S: Scope> UidRecord<S> {
    /// `UID.NEXT`: a number that nobody else ever gets from this record. Numbers of aborted transactions are lost.
    pub fn next(&self) -> AnswerIn<S, i64> {
        self.0.run(UidOp::Next)
    }

    /// `UID.ISSUED`: how many numbers were taken by transactions that committed.
    pub fn issued(&self) -> AnswerIn<S, u64> {
        self.0.run(UidOp::Issued)
    }
}
