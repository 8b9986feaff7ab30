//! A record moves to another key, which may be on another shard.

use claret_planted::{Bug, is_planted};
use claret_types::{Bytes, Content, ExpiresAt, KeyspaceOp, Moment, Operation};

use crate::blocking;
use crate::decode::Decode;
use crate::error::Error;
use crate::records::TxScope;
use crate::store::Store;
use crate::tx::Tx;

/// What is read of a record that moves.
fn content() -> Operation {
    Operation::from(KeyspaceOp::Content)
}

fn expiry() -> Operation {
    Operation::from(KeyspaceOp::ExpiryTime)
}

/// Issues what makes the record `to` out of what was read of `from`; whether there was a record.
fn put(tx: &Tx, from: Bytes, to: Bytes, content: Option<Content>, expires: ExpiresAt) -> Result<bool, Error> {
    let Some(content) = content else { return Ok(false) };
    if from == to {
        return Ok(true);
    }
    tx.issue(from, Operation::from(KeyspaceOp::Delete { returning: false }))?;
    tx.issue(to.clone(), Operation::from(KeyspaceOp::Put(content)))?;
    if let ExpiresAt::At(expiry) = expires
        && !is_planted(Bug::ExpiryLeftBehind)
    {
        let at = Moment::At(expiry.ms());
        tx.issue(to, Operation::from(KeyspaceOp::Expire { at, only_later: false, returning: false }))?;
    }
    Ok(true)
}

impl Tx {
    /// Moves a record of a built-in type to another key, on whatever shard, in place of what is there. It expires when it did
    /// before. Returns whether there was a record; if not, nothing is done (where Redis's `RENAME` answers an error). Takes both
    /// keys for itself. The content goes through this process.
    ///
    /// On a cluster a record is what Redis has: what this transaction does to the new key afterwards has to be of the same type
    /// as a hash, a string or a list is by itself ([`DictRecord`](crate::handles::DictRecord), [`RegisterRecord`](crate::handles::RegisterRecord),
    /// [`ListRecord`](crate::handles::ListRecord)); later transactions are free.
    ///
    /// # Errors
    /// [`ExecuteError::Invalid`](crate::errors::ExecuteError::Invalid) if the record is of a custom type, or over 1 MiB: each of its words counts, and 16 bytes beside.
    /// Otherwise see [`Error`]. O(size).
    pub async fn rename(&self, from: impl Into<Bytes>, to: impl Into<Bytes>) -> Result<bool, Error> {
        let (from, to) = (from.into(), to.into());
        let read = self.answer_for_update(from.clone(), content(), Decode::plain());
        let expires = self.answer_for_update(from.clone(), expiry(), Decode::plain());
        put(self, from, to, read.await?, expires.await?)
    }
}

impl Store {
    /// [`Tx::rename`] as a transaction of its own.
    ///
    /// # Errors
    /// See [`Tx::rename`] and [`Error`].
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use claret::{Records, Store};
    /// let store = Store::in_memory();
    /// store.set("cart:guest").add("book").await?;
    /// assert!(store.rename("cart:guest", "cart:ada").await?);
    /// assert!(store.set("cart:ada").contains("book").await?);
    /// assert!(!store.rename("cart:guest", "cart:ada").await?, "there is none any more");
    /// # Ok::<_, claret::Error>(()) }).unwrap();
    /// ```
    pub async fn rename(&self, from: impl Into<Bytes>, to: impl Into<Bytes>) -> Result<bool, Error> {
        let (from, to) = (from.into(), to.into());
        let moved = |tx: Tx| {
            let (from, to) = (from.clone(), to.clone());
            async move { tx.rename(from, to).await }
        };
        self.try_transaction(moved).await
    }
}

impl blocking::Tx {
    /// See [`crate::Tx::rename`].
    ///
    /// # Errors
    /// See [`Error`].
    pub fn rename(&self, from: impl Into<Bytes>, to: impl Into<Bytes>) -> Result<bool, Error> {
        let (from, to) = (from.into(), to.into());
        let read = self.answer_for_update(from.clone(), content(), Decode::plain())?;
        let expires = self.answer_for_update(from.clone(), expiry(), Decode::plain())?;
        put(&self.inner, from, to, read, expires)
    }
}

impl blocking::Store {
    /// See [`crate::Store::rename`].
    ///
    /// # Errors
    /// See [`Error`].
    pub fn rename(&self, from: impl Into<Bytes>, to: impl Into<Bytes>) -> Result<bool, Error> {
        self.wait(self.inner.rename(from, to))
    }
}
