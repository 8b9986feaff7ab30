//! Typed records: `tx.set("tags").add("red")`.
//!
//! Operations can be issued in several places: on the store itself (each is a transaction of one), in a transaction,
//! in a batch, and in the blocking mirrors. One set of handles serves them all. Each place is a [`Scope`], which says
//! what void and returning operations give back there. A [`Record`] issues its operations in one.

mod collections;
mod documents;
#[cfg(test)]
mod every_method;
mod lists;
mod living;
mod numbers;
mod scope;
mod scored;

use claret_types::{Bytes, DataType, Few, Operation, Register, RegisterOp, few};

use handles::*;
pub use scope::{AsyncScope, BlockingScope};
pub(crate) use scope::{Scope, Ticketed, TxScope, Waited};

use crate::decode;
use crate::value::{FromValue, IntoValue, ValueError};

/// The handles of records, a type for each type of data: what [`Records`] gives. A program names them where it keeps one.
pub mod handles {
    pub use super::collections::*;
    pub use super::documents::*;
    pub use super::lists::*;
    pub use super::living::KeyRecord;
    pub use super::numbers::*;
    pub use super::scope::{AnswerIn, Record};
    pub use super::scored::*;
}

fn one(value: impl IntoValue) -> Result<Few<Bytes>, ValueError> {
    Ok(few([value.into_value()?]))
}

fn many(values: impl IntoIterator<Item = impl IntoValue>) -> Result<Few<Bytes>, ValueError> {
    values.into_iter().map(IntoValue::into_value).collect()
}

/// Typed records, wherever operations are issued: of a store (each is a transaction of one), a transaction, a batch, and their blocking
/// mirrors. A function over `impl Records` works in all of them, as in `examples/helpers.rs`.
///
/// | of | an operation that answers nothing gives back (`Void`) | one that answers with an `R` ([`AnswerIn`](crate::handles::AnswerIn)) |
/// |---|---|---|
/// | [`Store`](crate::Store) | an [`Answer<()>`](crate::Answer): a future | an [`Answer<R>`](crate::Answer): a future |
/// | [`Tx`](crate::Tx) | a `Result`, at once | an [`Answer<R>`](crate::Answer): a future |
/// | [`Tx::at_commit`](crate::Tx::at_commit) | a `Result`, at once | a [`Ticket<R>`](crate::Ticket) |
/// | [`Batch`](crate::Batch), [`blocking::Batch`](crate::blocking::Batch) | nothing | a [`Ticket<R>`](crate::Ticket) |
/// | [`blocking::Store`](crate::blocking::Store), [`blocking::Tx`](crate::blocking::Tx) | a `Result` | a `Result` |
pub trait Records: Scope {
    /// The values of several registers, in the order of the keys.
    fn get_many<V: FromValue>(
        &self,
        keys: impl IntoIterator<Item = impl Into<Bytes>>,
    ) -> AnswerIn<Self, Vec<Option<V>>> {
        let get = |key: Bytes| (key, Operation::new::<Register>(RegisterOp::Get));
        let calls = keys.into_iter().map(|key| get(key.into())).collect();
        self.answer_many(calls, decode::each_optional())
    }

    /// Writes several registers.
    fn set_many(&self, values: impl IntoIterator<Item = (impl Into<Bytes>, impl IntoValue)>) -> Self::Void {
        let mut calls = Vec::new();
        for (key, value) in values {
            let key = key.into();
            match value.into_value() {
                Ok(value) => calls.push((key, Operation::new::<Register>(RegisterOp::Set(value)))),
                Err(error) => return self.refuse_void(key, error),
            }
        }
        self.void_many(calls)
    }

    /// A record of any type, your own included.
    fn record<T: DataType>(&self, key: impl Into<Bytes>) -> Record<Self, T> {
        Record::new(self.clone(), key.into())
    }

    /// A record of whatever type: whether it is there, when it expires, its end.
    fn key(&self, key: impl Into<Bytes>) -> KeyRecord<Self> {
        KeyRecord { scope: self.clone(), key: key.into() }
    }

    /// A value that is read and overwritten.
    fn register(&self, key: impl Into<Bytes>) -> RegisterRecord<Self> {
        RegisterRecord(self.record(key))
    }

    /// An integer that many add to.
    fn counter(&self, key: impl Into<Bytes>) -> CounterRecord<Self> {
        CounterRecord(self.record(key))
    }

    /// A float that many add to.
    fn float_counter(&self, key: impl Into<Bytes>) -> FloatRecord<Self> {
        FloatRecord(self.record(key))
    }

    /// An integer that stays within bounds while many take from it.
    fn bounded_counter(&self, key: impl Into<Bytes>) -> BoundedRecord<Self> {
        BoundedRecord(self.record(key))
    }

    /// Distinct members without order.
    fn set(&self, key: impl Into<Bytes>) -> SetRecord<Self> {
        SetRecord(self.record(key))
    }

    /// Fields and their values.
    fn dict(&self, key: impl Into<Bytes>) -> DictRecord<Self> {
        DictRecord(self.record(key))
    }

    /// JSON whose places are read and written one by one.
    fn document(&self, key: impl Into<Bytes>) -> DocumentRecord<Self> {
        DocumentRecord(self.record(key))
    }

    /// Distinct members in the order of their scores.
    fn scored_set(&self, key: impl Into<Bytes>) -> ScoredSetRecord<Self> {
        ScoredSetRecord(self.record(key))
    }

    /// The best `capacity` members by score.
    fn top_k(&self, key: impl Into<Bytes>, capacity: u32) -> TopKRecord<Self> {
        TopKRecord { record: self.record(key), capacity }
    }

    /// Count, sum, least and greatest of many numbers.
    fn summary_bag(&self, key: impl Into<Bytes>) -> SummaryBagRecord<Self> {
        SummaryBagRecord(self.record(key))
    }

    /// Values in order, with two ends.
    fn list(&self, key: impl Into<Bytes>) -> ListRecord<Self> {
        ListRecord(self.record(key))
    }

    /// A list whose values leave in the order in which they came.
    fn queue(&self, key: impl Into<Bytes>) -> QueueRecord<Self> {
        QueueRecord(self.record(key))
    }

    /// A list whose last value leaves first.
    fn stack(&self, key: impl Into<Bytes>) -> StackRecord<Self> {
        StackRecord(self.record(key))
    }

    /// Unique numbers without order.
    fn uid_generator(&self, key: impl Into<Bytes>) -> UidRecord<Self> {
        UidRecord(self.record(key))
    }
}

impl<S: Scope> Records for S {}
