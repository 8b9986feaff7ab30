//! What commands are made of: reads, reads under a lock for a write that follows, and writes, in one transaction.

use claret::{Error, Tx};
use claret::{errors::ExecuteError, lab::Limits};
use claret_types::{
    Bytes, CONTENT_BYTES_MAX, Dict, DictOp, Few, FromReply, KeyspaceOp, List, ListOp, Moment, OpError,
    Operation, Register, RegisterOp, Reply, ScoredSet, ScoredSetOp, Set, SetOp, TypeInfo, builtin_types,
};

use crate::answer::Answer;
use crate::calls::{Chain, taken};
use crate::fault::{Fault, of_operation};
use crate::kind::Kind;
use crate::runner::{Later, Runner};

/// What a command answers.
pub(crate) type Answered = Result<Answer, Fault>;

/// The same, later.
pub(crate) type Answering<'a> = Later<'a, Answered>;

/// Operations of the types that commands use.
pub(crate) fn text(op: RegisterOp) -> Operation {
    Operation::new::<Register>(op)
}

pub(crate) fn dict(op: DictOp) -> Operation {
    Operation::new::<Dict>(op)
}

pub(crate) fn list(op: ListOp) -> Operation {
    Operation::new::<List>(op)
}

pub(crate) fn set(op: SetOp) -> Operation {
    Operation::new::<Set>(op)
}

pub(crate) fn scored(op: ScoredSetOp) -> Operation {
    Operation::new::<ScoredSet>(op)
}

pub(crate) fn any(op: KeyspaceOp) -> Operation {
    Operation::from(op)
}

/// Removes a record, whatever it is.
pub(crate) fn delete() -> Operation {
    any(KeyspaceOp::Delete { returning: false })
}

/// Sets an expiry.
pub(crate) fn expire(at: Moment) -> Operation {
    any(KeyspaceOp::Expire { at, only_later: false, returning: false })
}

/// What a word counts against [`CONTENT_BYTES_MAX`] beside its bytes, and the name of the type.
const BESIDE: usize = 64;

/// Puts a string in place of whatever there is; it does not expire. `RECORD.PUT` does that in one step, and has a bound.
pub(crate) fn put_text(value: &Bytes) -> Result<Chain, Fault> {
    if value.len() + BESIDE > CONTENT_BYTES_MAX {
        return Ok(Chain::from_iter([delete(), text(RegisterOp::Set(value.clone()))]));
    }
    let keyspace = builtin_types().iter().find(|kind| kind.name == "keyspace").expect("a built-in type");
    Ok(Chain::from_iter([operation_of(keyspace, "RECORD.PUT", &["register".into(), value.clone()])?]))
}

/// An operation of a type, from its words.
///
/// # Errors
/// What is wrong with them.
pub(crate) fn operation_of(kind: &TypeInfo, method: &str, words: &[Bytes]) -> Result<Operation, Fault> {
    (kind.parse)(method, words).map_err(|error| Fault::Told(of_operation(&error)))
}

/// A transaction, as the steps of a command use it.
#[derive(Clone, Copy)]
pub(crate) struct Steps<'a> {
    pub(crate) tx: &'a Tx,
    pub(crate) runner: &'a dyn Runner,
}

/// What an operation costs that a transaction keeps, beside its own bytes.
pub(crate) const OPERATION_BYTES: usize = 128;

impl Steps<'_> {
    /// Reads, or does what answers.
    pub(crate) async fn read<T: FromReply + Send + 'static>(
        self,
        key: &Bytes,
        op: Operation,
    ) -> Result<T, Fault> {
        self.taken(self.tx.execute(key.clone(), op).await?).await
    }

    /// A reply as what it should be. It is charged, and where it is large another thread takes it apart.
    pub(crate) async fn taken<T: FromReply + Send + 'static>(self, reply: Reply) -> Result<T, Fault> {
        let elements = if let Reply::Array(all) = &reply { all.len() } else { 0 };
        let (bytes, value) = self.runner.over(elements, move || (reply.size(), taken(reply))).await;
        self.runner.take(bytes)?;
        value
    }

    /// Reads under a lock, for a write that follows.
    pub(crate) async fn lock<T: FromReply + Send + 'static>(
        self,
        key: &Bytes,
        op: Operation,
    ) -> Result<T, Fault> {
        self.taken(self.tx.execute_for_update(key.clone(), op).await?).await
    }

    /// Reads, under a lock if this key is to be written.
    pub(crate) async fn read_of<T: FromReply + Send + 'static>(
        self,
        key: &Bytes,
        op: Operation,
        written: Option<&Bytes>,
    ) -> Result<T, Fault> {
        if written == Some(key) { self.lock(key, op).await } else { self.read(key, op).await }
    }

    /// Asks of each key, all at once; those of one that is written under a lock.
    pub(crate) async fn read_each(
        self,
        keys: &[Bytes],
        op: &Operation,
        written: Option<&Bytes>,
    ) -> Result<Vec<Reply>, Fault> {
        let start = |key: &Bytes| match written == Some(key) {
            true => self.tx.execute_for_update(key.clone(), op.clone()),
            false => self.tx.execute(key.clone(), op.clone()),
        };
        self.runner.take(keys.len().saturating_mul(OPERATION_BYTES))?;
        let mut answers = Vec::with_capacity(keys.len());
        for (no, key) in keys.iter().enumerate() {
            answers.push(start(key));
            self.runner.rest_after(no).await;
        }
        let mut replies = Vec::with_capacity(keys.len());
        for answer in answers {
            replies.push(answer.await?);
        }
        Ok(replies)
    }

    /// Does it with the commit. What comes later in the transaction sees it.
    pub(crate) fn write(self, key: &Bytes, op: Operation) -> Result<(), Fault> {
        // Kept until it commits, and then in a message.
        self.runner.take(OPERATION_BYTES + 2 * op.size())?;
        Ok(self.tx.issue(key.clone(), op)?)
    }

    /// Does the same so many times.
    pub(crate) async fn write_times(self, key: &Bytes, op: &Operation, times: usize) -> Result<(), Fault> {
        for no in 0..times {
            self.write(key, op.clone())?;
            self.runner.rest_after(no).await;
        }
        Ok(())
    }

    /// Does these with the commit.
    pub(crate) fn write_all(self, key: &Bytes, ops: Chain) -> Result<(), Fault> {
        ops.into_iter().try_for_each(|op| self.write(key, op))
    }

    /// Whether there is a record, under a lock.
    pub(crate) async fn is_there(self, key: &Bytes) -> Result<bool, Fault> {
        self.lock(key, any(KeyspaceOp::Exists)).await
    }

    /// What the key holds. A count of members answers that for a set or no record, and the error says it of any other: so
    /// nothing of the record is read, however large it is. `locks`: for a write that follows.
    pub(crate) async fn kind(self, key: &Bytes, locks: bool) -> Result<Kind, Fault> {
        let ask = set(SetOp::Len).tried();
        // Where a schema allows no set, the question itself is refused, which is to end nothing but itself.
        let before = self.tx.savepoint()?;
        let reply = match locks {
            true => self.tx.execute_for_update(key.clone(), ask).await,
            false => self.tx.execute(key.clone(), ask).await,
        };
        let error = match reply {
            Err(Error::Execute(ExecuteError::Invalid {
                error: error @ OpError::AgainstSchema { .. },
                ..
            })) => {
                self.tx.rollback_to(&before)?;
                error
            }
            Err(error) => return Err(error.into()),
            Ok(Reply::Failed(error)) => *error,
            Ok(reply) => {
                self.tx.release(&before)?;
                return Ok(if taken::<i64>(reply)? == 0 { Kind::None } else { Kind::Set });
            }
        };
        self.tx.release(&before)?;
        match error {
            OpError::WrongType { found, .. } => Ok(Kind::of(&found)),
            // What may be there is of the type that the schema has.
            OpError::AgainstSchema { expected, .. } => {
                let exists = any(KeyspaceOp::Exists);
                let is_there = if locks { self.is_there(key).await? } else { self.read(key, exists).await? };
                let name = expected.split_whitespace().last().unwrap_or_default();
                Ok(if is_there { Kind::of(name) } else { Kind::None })
            }
            error => Err(Fault::Told(of_operation(&error))),
        }
    }

    /// When the record expires, in milliseconds since 1970, under a lock: what puts it in anew sets that again.
    pub(crate) async fn expiry(self, key: &Bytes) -> Result<Option<u64>, Fault> {
        let at: i64 = self.lock(key, any(KeyspaceOp::ExpiryTime)).await?;
        Ok(u64::try_from(at).ok())
    }

    /// A string and its expiry, to be changed.
    pub(crate) async fn text_to_change(self, key: &Bytes) -> Result<(Option<Bytes>, Option<u64>), Fault> {
        let value = self.tx.execute_for_update(key.clone(), text(RegisterOp::Get));
        let at = self.tx.execute_for_update(key.clone(), any(KeyspaceOp::ExpiryTime));
        let value = self.taken(value.await?).await?;
        Ok((value, u64::try_from(taken::<i64>(at.await?)?).ok()))
    }

    /// Writes a string where there is one or none, with this expiry.
    pub(crate) fn set_text(self, key: &Bytes, value: Bytes, expires_at: Option<u64>) -> Result<(), Fault> {
        self.write(key, text(RegisterOp::Set(value)))?;
        self.expire_at(key, expires_at)
    }

    /// Sets an expiry again that a write has cleared.
    pub(crate) fn expire_at(self, key: &Bytes, at: Option<u64>) -> Result<(), Fault> {
        at.map_or(Ok(()), |ms| self.write(key, expire(Moment::At(ms))))
    }

    /// Puts what this operation makes in place of what there is, or nothing. It does not expire.
    pub(crate) fn replace(self, key: &Bytes, made: Option<Operation>) -> Result<(), Fault> {
        self.write(key, delete())?;
        made.map_or(Ok(()), |op| self.write(key, op))
    }
}

/// The longest value that a store takes.
pub(crate) fn value_bytes_max() -> usize {
    Limits::default().value_bytes_max
}

/// Words as several.
pub(crate) fn few_of(words: &[Bytes]) -> Few<Bytes> {
    words.iter().cloned().collect()
}
