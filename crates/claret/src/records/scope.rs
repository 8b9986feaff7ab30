//! Where operations are issued, by whom ([`Record`]), and what they give back there.
//!
//! | scope | void operations | answers |
//! |---|---|---|
//! | [`Store`] | an [`Answer<()>`](Answer): a future | an [`Answer`]: a future |
//! | [`Tx`] | a `Result`, at once | an [`Answer`]: a future |
//! | [`AtCommit`](crate::AtCommit) | a `Result`, at once | a [`Ticket`] |
//! | [`Batch`](crate::Batch), [`blocking::Batch`](crate::blocking::Batch) | nothing | a [`Ticket`] |
//! | [`blocking::Store`](crate::blocking::Store), [`blocking::Tx`](crate::blocking::Tx) | a `Result` | a `Result` |

use std::future::Future;
use std::marker::PhantomData;

use claret_types::{Bytes, DataType, Few, FromReply, Operation, Reply};

use crate::answer::Answer;
use crate::batch::{Batch, Ticket};
use crate::decode::{Decode, Keys};
use crate::error::Error;
use crate::store::Store;
use crate::tx::{Tx, strange, writes};
use crate::value::ValueError;

/// A record of any type, your own included: issue its operations as they are.
pub struct Record<S, T> {
    pub(super) scope: S,
    pub(super) key: Bytes,
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

impl<S: Scope, T: DataType> Record<S, T> {
    pub(super) fn new(scope: S, key: Bytes) -> Self {
        Record { scope, key, kind: PhantomData }
    }

    /// Issues an operation that returns nothing.
    pub fn issue(&self, op: T::Op) -> S::Void {
        self.scope.void(self.key.clone(), Operation::new::<T>(op))
    }

    /// Issues an operation that returns an `R`.
    pub fn run<R: FromReply>(&self, op: T::Op) -> AnswerIn<S, R> {
        self.read(op, Decode::plain())
    }

    pub(super) fn read<R: 'static>(&self, op: T::Op, read: Decode<R>) -> AnswerIn<S, R> {
        self.scope.answer(self.key.clone(), Operation::new::<T>(op), read)
    }

    // --- with values ---

    pub(super) fn issue_checked(&self, op: Result<T::Op, ValueError>) -> S::Void {
        match op {
            Ok(op) => self.issue(op),
            Err(error) => self.scope.refuse_void(self.key.clone(), error),
        }
    }

    pub(super) fn run_checked<R: FromReply>(&self, op: Result<T::Op, ValueError>) -> AnswerIn<S, R> {
        self.read_checked(op, Decode::plain())
    }

    pub(super) fn read_checked<R: 'static>(
        &self,
        op: Result<T::Op, ValueError>,
        read: Decode<R>,
    ) -> AnswerIn<S, R> {
        match op {
            Ok(op) => self.read(op, read),
            Err(error) => self.scope.refuse(self.key.clone(), error),
        }
    }

    /// One operation for all that is given; none for nothing.
    pub(super) fn issue_many<V>(
        &self,
        given: Result<Few<V>, ValueError>,
        op: impl FnOnce(Few<V>) -> T::Op,
    ) -> S::Void {
        match given {
            Ok(given) if given.is_empty() => self.scope.void_many(Vec::new()),
            given => self.issue_checked(given.map(op)),
        }
    }

    /// The same with an answer; that of nothing is an empty array.
    pub(super) fn read_many<V, R: 'static>(
        &self,
        given: Result<Few<V>, ValueError>,
        op: impl FnOnce(Few<V>) -> T::Op,
        read: Decode<R>,
    ) -> AnswerIn<S, R> {
        match given {
            Ok(given) if given.is_empty() => self.scope.answer_many(Vec::new(), read),
            given => self.read_checked(given.map(op), read),
        }
    }
}

impl<S: TxScope, T: DataType> Record<S, T> {
    pub(super) fn read_for_update<R: 'static>(&self, op: T::Op, read: Decode<R>) -> AnswerIn<S, R> {
        self.scope.answer_for_update(self.key.clone(), Operation::new::<T>(op), read)
    }
}

/// A place where operations are issued: a store (each is a transaction of one), a transaction, a batch, and their
/// blocking mirrors. Nobody outside this crate can name it, and so implement it: users see it as `Records`.
pub trait Scope: Clone + Send + Sync {
    /// What a void operation gives back.
    type Void;
    /// What operations that answer give back.
    type Answers: Answers;

    /// Issues an operation that returns nothing.
    fn void(&self, key: Bytes, op: Operation) -> Self::Void;

    /// Issues operations that return nothing, together.
    fn void_many(&self, calls: Vec<(Bytes, Operation)>) -> Self::Void;

    /// Issues an operation that answers.
    fn answer<R: 'static>(&self, key: Bytes, op: Operation, read: Decode<R>) -> AnswerIn<Self, R>;

    /// Issues operations that answer, together. Their answer is an array of their answers.
    fn answer_many<R: 'static>(&self, calls: Vec<(Bytes, Operation)>, read: Decode<R>) -> AnswerIn<Self, R>;

    /// A void operation is not issued, because a value for it has no form as bytes.
    fn refuse_void(&self, key: Bytes, error: ValueError) -> Self::Void;

    /// An operation that answers is not issued, because a value for it has no form as bytes.
    fn refuse<R: 'static>(&self, key: Bytes, error: ValueError) -> AnswerIn<Self, R>;
}

/// What an operation that answers with an `R` gives back, by where it is issued: an [`Answer`](crate::Answer) of a store and a
/// transaction, a [`Ticket`](crate::Ticket) of a batch and at the commit, a `Result` of the blocking mirrors.
pub type AnswerIn<S, R> = <<S as Scope>::Answers as Answers>::Of<R>;

/// What answers are in a [`Scope`].
pub trait Answers {
    /// An answer of this type.
    type Of<R>;
}

/// Answers that are awaited.
#[derive(Debug)]
pub enum Awaited {}

impl Answers for Awaited {
    type Of<R> = Answer<R>;
}

/// Answers for which the thread has waited.
#[derive(Debug)]
pub enum Waited {}

impl Answers for Waited {
    type Of<R> = Result<R, Error>;
}

/// Answers that are there when a batch has committed.
#[derive(Debug)]
pub enum Ticketed {}

impl Answers for Ticketed {
    type Of<R> = Ticket<R>;
}

/// A [`Store`] or a [`Tx`]: answers are awaited.
///
/// ```
/// use claret::{AsyncScope, Error, Records, Store};
///
/// /// Works on a store, where each line is a transaction of its own, and in a transaction.
/// async fn visit(scope: &impl AsyncScope, name: &str) -> Result<i64, Error> {
///     scope.done(scope.set("visitors").add(name)).await?;
///     scope.counter("visits").add_returning(1).await
/// }
///
/// # pollster::block_on(async {
/// let store = Store::in_memory();
/// assert_eq!(visit(&store, "ada").await?, 1);
/// let visits = store.transaction(|tx| async move { Ok(visit(&tx, "bob").await?) }).await?;
/// assert_eq!(visits, 2);
/// # Ok::<_, Error>(()) }).unwrap();
/// ```
pub trait AsyncScope: Scope<Void: VoidAnswer, Answers = Awaited> {
    /// Waits until a store has done an operation that answers nothing. A transaction does it when it commits, so there this is
    /// ready at once.
    fn done(&self, void: Self::Void) -> impl Future<Output = Result<(), Error>> + Send {
        void.done()
    }
}

impl<S: Scope<Void: VoidAnswer, Answers = Awaited>> AsyncScope for S {}

/// A [`blocking::Store`](crate::blocking::Store) or a [`blocking::Tx`](crate::blocking::Tx): operations give results.
pub trait BlockingScope: Scope<Void = Result<(), Error>, Answers = Waited> {}

impl<S: Scope<Void = Result<(), Error>, Answers = Waited>> BlockingScope for S {}

/// What a void operation gives back where answers are awaited, as one thing: a future of a result.
pub trait VoidAnswer: Send {
    fn done(self) -> impl Future<Output = Result<(), Error>> + Send;
}

/// Of a transaction.
impl VoidAnswer for Result<(), Error> {
    fn done(self) -> impl Future<Output = Result<(), Error>> + Send {
        std::future::ready(self)
    }
}

/// Of a store.
impl VoidAnswer for Answer<()> {
    fn done(self) -> impl Future<Output = Result<(), Error>> + Send {
        self
    }
}

/// A transaction, async or blocking: it can lock what it reads for the write that follows.
pub trait TxScope: Scope {
    /// Runs a reading operation and takes the record's lock exclusively, so that a later write of this transaction to
    /// it neither waits nor restarts.
    fn answer_for_update<R: 'static>(&self, key: Bytes, op: Operation, read: Decode<R>) -> AnswerIn<Self, R>;
}

impl Scope for Store {
    type Void = Answer<()>;
    type Answers = Awaited;

    fn void(&self, key: Bytes, op: Operation) -> Answer<()> {
        self.answer(key, op, Decode::plain())
    }

    fn void_many(&self, calls: Vec<(Bytes, Operation)>) -> Answer<()> {
        self.answer_many(calls, Decode::plain())
    }

    fn answer<R: 'static>(&self, key: Bytes, op: Operation, read: Decode<R>) -> Answer<R> {
        let keys = read.keys_of(&key);
        let writes = writes(&op);
        let store = self.clone();
        if writes && read.may_fail() {
            // What cannot be read is not taken: the commit comes after the reading.
            let future = async move {
                let read = |tx: Tx| {
                    let (answer, key) = (tx.execute(key.clone(), op.clone()), key.clone());
                    async move {
                        let reply = answer.await?;
                        read.read(&Keys::One(key), reply.clone(), || strange(false))?;
                        Ok(reply)
                    }
                };
                store.transaction(read).await
            };
            return Answer::own(future, writes, read, keys);
        }
        let future = async move {
            let reply = store.run_all([(key, op)]).await?.pop();
            reply.ok_or_else(|| strange(writes))
        };
        Answer::own(future, writes, read, keys)
    }

    fn answer_many<R: 'static>(&self, calls: Vec<(Bytes, Operation)>, read: Decode<R>) -> Answer<R> {
        let keys = Keys::Many(calls.iter().map(|(key, _)| key.clone()).collect());
        let writes = calls.iter().any(|(_, op)| writes(op));
        let store = self.clone();
        let future = async move { store.run_all(calls).await.map(Reply::Array) };
        Answer::own(future, writes, read, keys)
    }

    fn refuse_void(&self, key: Bytes, error: ValueError) -> Answer<()> {
        self.refuse(key, error)
    }

    fn refuse<R: 'static>(&self, key: Bytes, error: ValueError) -> Answer<R> {
        Answer::refused(error.at(key))
    }
}

impl Scope for Batch {
    type Void = ();
    type Answers = Ticketed;

    fn void(&self, key: Bytes, op: Operation) {
        let _: Ticket<()> = self.answer(key, op, Decode::plain());
    }

    fn void_many(&self, calls: Vec<(Bytes, Operation)>) {
        calls.into_iter().for_each(|(key, op)| self.void(key, op));
    }

    fn answer<R: 'static>(&self, key: Bytes, op: Operation, read: Decode<R>) -> Ticket<R> {
        self.push_as(key, op, read)
    }

    fn answer_many<R: 'static>(&self, calls: Vec<(Bytes, Operation)>, read: Decode<R>) -> Ticket<R> {
        self.push_many(calls, read)
    }

    fn refuse_void(&self, key: Bytes, error: ValueError) {
        self.doom(error.at(key));
    }

    fn refuse<R: 'static>(&self, key: Bytes, error: ValueError) -> Ticket<R> {
        self.doom(error.at(key));
        Ticket::of_nothing()
    }
}

impl Scope for Tx {
    type Void = Result<(), Error>;
    type Answers = Awaited;

    fn void(&self, key: Bytes, op: Operation) -> Self::Void {
        self.issue(key, op)
    }

    fn void_many(&self, calls: Vec<(Bytes, Operation)>) -> Self::Void {
        calls.into_iter().try_for_each(|(key, op)| self.issue(key, op))
    }

    fn answer<R: 'static>(&self, key: Bytes, op: Operation, read: Decode<R>) -> Answer<R> {
        self.execute_as(key, op, read)
    }

    fn answer_many<R: 'static>(&self, calls: Vec<(Bytes, Operation)>, read: Decode<R>) -> Answer<R> {
        self.execute_many(calls, read)
    }

    fn refuse_void(&self, key: Bytes, error: ValueError) -> Self::Void {
        Err(self.fail(error.at(key)))
    }

    fn refuse<R: 'static>(&self, key: Bytes, error: ValueError) -> Answer<R> {
        Answer::refused(self.fail(error.at(key)))
    }
}

impl TxScope for Tx {
    fn answer_for_update<R: 'static>(&self, key: Bytes, op: Operation, read: Decode<R>) -> Answer<R> {
        self.execute_for_update_as(key, op, read)
    }
}
