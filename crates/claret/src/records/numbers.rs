//! Handles of the types that are native strings (value, numbers, unique ids), and of the bounded counter.

use claret_types::{
    Bounded, BoundedCounter, BoundedCounterOp, Bytes, Counter, CounterOp, FloatCounter, FloatCounterOp,
    Register, RegisterOp, UidGenerator, UidOp,
};

use super::{Record, Scope};

/// A value that is read and overwritten. See [`Register`].
#[derive(Clone, Debug)]
pub struct RegisterRecord<S>(pub(super) Record<S, Register>);

impl<S: Scope> RegisterRecord<S> {
    /// `SET`: writes the value.
    pub fn set(&self, value: impl Into<Bytes>) -> S::Void {
        self.0.issue(RegisterOp::Set(value.into()))
    }

    /// `GETSET`: writes the value; returns the one before.
    pub fn replace(&self, value: impl Into<Bytes>) -> S::Value<Option<Bytes>> {
        self.0.run(RegisterOp::GetSet(value.into()))
    }

    /// `GET`: the value.
    pub fn get(&self) -> S::Value<Option<Bytes>> {
        self.0.run(RegisterOp::Get)
    }

    /// `APPEND`: appends to the value.
    pub fn append(&self, tail: impl Into<Bytes>) -> S::Void {
        self.0.issue(RegisterOp::Append(tail.into()))
    }

    /// `STRLEN`: its length in bytes.
    pub fn len(&self) -> S::Value<u64> {
        self.0.run(RegisterOp::Len)
    }

    /// `DEL`: removes it.
    pub fn delete(&self) -> S::Void {
        self.0.issue(RegisterOp::Delete)
    }

    /// `SETNX.RETURNING`: writes the value if there is none; returns whether it did.
    pub fn set_if_absent(&self, value: impl Into<Bytes>) -> S::Value<bool> {
        self.0.run(RegisterOp::SetIfAbsentReturning(value.into()))
    }
}

impl RegisterRecord<crate::Tx> {
    /// Reads, and locks the record for the write that follows: two transactions that read and then write one
    /// register neither deadlock nor restart.
    pub fn get_for_update(&self) -> crate::Answer<Option<Bytes>> {
        self.0.scope.execute_for_update_as(self.0.key.clone(), self.0.operation(RegisterOp::Get))
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
    pub fn add_returning(&self, amount: i64) -> S::Value<i64> {
        self.0.run(CounterOp::AddReturning(amount))
    }

    /// `GET`: the number, 0 if there is none.
    pub fn get(&self) -> S::Value<i64> {
        self.0.run(CounterOp::Get)
    }
}

impl CounterRecord<crate::Tx> {
    /// Reads, and locks the record for the change that follows.
    pub fn get_for_update(&self) -> crate::Answer<i64> {
        self.0.scope.execute_for_update_as(self.0.key.clone(), self.0.operation(CounterOp::Get))
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
    pub fn add_returning(&self, amount: f64) -> S::Value<f64> {
        self.0.run(FloatCounterOp::AddReturning(amount))
    }

    /// `GET`: the number, 0 if there is none.
    pub fn get(&self) -> S::Value<f64> {
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

    /// `BINCRBY`: adds; an error if it does not fit.
    pub fn add(&self, amount: i64) -> S::Void {
        self.0.issue(BoundedCounterOp::Add(amount))
    }

    /// `BDECRBY`: takes; an error if there is not enough.
    pub fn take(&self, amount: i64) -> S::Void {
        self.0.issue(BoundedCounterOp::Take(amount))
    }

    /// `BINCRBY.RETURNING`: adds if it fits; returns whether it did.
    pub fn try_add(&self, amount: i64) -> S::Value<bool> {
        self.0.run(BoundedCounterOp::AddReturning(amount))
    }

    /// `BDECRBY.RETURNING`: takes if there is enough; returns whether it did.
    pub fn try_take(&self, amount: i64) -> S::Value<bool> {
        self.0.run(BoundedCounterOp::TakeReturning(amount))
    }

    /// `BGET`: the value.
    pub fn get(&self) -> S::Value<Option<i64>> {
        self.0.run(BoundedCounterOp::Get)
    }
}

/// Unique numbers without order. See [`UidGenerator`].
#[derive(Clone, Debug)]
pub struct UidRecord<S>(pub(super) Record<S, UidGenerator>);

impl<S: Scope> UidRecord<S> {
    /// `UID.NEXT`: a number that nobody else ever gets from this record. Numbers of aborted transactions are lost.
    pub fn next(&self) -> S::Value<i64> {
        self.0.run(UidOp::Next)
    }

    /// `UID.ISSUED`: how many numbers were taken by transactions that committed.
    pub fn issued(&self) -> S::Value<u64> {
        self.0.run(UidOp::Issued)
    }
}
