//! Typed records: `tx.set("tags").add("red")`.
//!
//! Operations can be issued in several places: on the store itself (each is a transaction of one), in a transaction,
//! in a batch, and in the blocking mirrors. One set of handles serves them all. Each place is a [`Scope`], which says
//! what void and returning operations give back there.

mod collections;
mod lists;
mod numbers;
mod scored;

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;

use claret_types::{Bytes, DataType, FromReply, Operation};

pub use collections::{DictRecord, SetRecord};
pub use lists::{ListRecord, QueueRecord, StackRecord};
pub use numbers::{BoundedRecord, CounterRecord, FloatRecord, RegisterRecord, UidRecord};
pub use scored::{ScoredSetRecord, SummaryBagRecord, TopKRecord};

use crate::batch::{Batch, Ticket};
use crate::error::Error;
use crate::store::Store;
use crate::tx::{Answer, Tx, strange, writes};

/// A place where operations are issued.
pub trait Scope: Clone {
    /// What a void operation gives back.
    type Void;
    /// What an operation that returns an `R` gives back.
    type Value<R: FromReply>;

    /// Issues an operation that returns nothing.
    fn void(&self, key: Bytes, op: Operation) -> Self::Void;

    /// Issues an operation that returns something.
    fn value<R: FromReply>(&self, key: Bytes, op: Operation) -> Self::Value<R>;
}

/// A single operation on the store, under way when awaited: a transaction of one.
#[must_use = "nothing happens until it is awaited"]
pub struct Single<R> {
    future: Pin<Box<dyn Future<Output = Result<R, Error>> + Send>>,
}

impl<R> std::fmt::Debug for Single<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Single").finish_non_exhaustive()
    }
}

impl<R> Future for Single<R> {
    type Output = Result<R, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> std::task::Poll<Self::Output> {
        self.future.as_mut().poll(cx)
    }
}

impl Scope for Store {
    type Void = Single<()>;
    type Value<R: FromReply> = Single<R>;

    fn void(&self, key: Bytes, op: Operation) -> Single<()> {
        self.single(key, op)
    }

    fn value<R: FromReply>(&self, key: Bytes, op: Operation) -> Single<R> {
        self.single(key, op)
    }
}

impl Store {
    fn single<R: FromReply>(&self, key: Bytes, op: Operation) -> Single<R> {
        let store = self.clone();
        let future = async move {
            let writes = writes(&op);
            let reply = store.run_all([(key, op)]).await?.pop();
            reply.and_then(R::from_reply).ok_or_else(|| strange(writes))
        };
        Single { future: Box::pin(future) }
    }
}

impl Scope for Tx {
    type Void = Result<(), Error>;
    type Value<R: FromReply> = Answer<R>;

    fn void(&self, key: Bytes, op: Operation) -> Self::Void {
        self.issue(key, op)
    }

    fn value<R: FromReply>(&self, key: Bytes, op: Operation) -> Answer<R> {
        self.execute_as(key, op)
    }
}

impl Scope for Batch {
    type Void = ();
    type Value<R: FromReply> = Ticket<R>;

    fn void(&self, key: Bytes, op: Operation) {
        let _: Ticket<()> = self.push(key, op);
    }

    fn value<R: FromReply>(&self, key: Bytes, op: Operation) -> Ticket<R> {
        self.push(key, op)
    }
}

/// A record of any type, your own included: issue its operations as they are.
pub struct Record<S, T> {
    scope: S,
    key: Bytes,
    kind: PhantomData<fn() -> T>,
}

impl<S: Clone, T> Clone for Record<S, T> {
    fn clone(&self) -> Self {
        Record { scope: self.scope.clone(), key: self.key.clone(), kind: PhantomData }
    }
}

impl<S, T> std::fmt::Debug for Record<S, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Record").field(&self.key).finish()
    }
}

impl<S, T: DataType> Record<S, T> {
    fn operation(&self, op: T::Op) -> Operation {
        Operation::new::<T>(op)
    }
}

impl<S: Scope, T: DataType> Record<S, T> {
    /// Issues an operation that returns nothing.
    pub fn issue(&self, op: T::Op) -> S::Void {
        self.scope.void(self.key.clone(), Operation::new::<T>(op))
    }

    /// Issues an operation that returns an `R`.
    pub fn run<R: FromReply>(&self, op: T::Op) -> S::Value<R> {
        self.scope.value(self.key.clone(), Operation::new::<T>(op))
    }
}

/// Typed records of a [`Scope`].
pub trait Records: Scope {
    /// A record of any type, your own included.
    fn record<T: DataType>(&self, key: impl Into<Bytes>) -> Record<Self, T> {
        Record { scope: self.clone(), key: key.into(), kind: PhantomData }
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
