//! How long and how often a transaction is tried, and how long its answer is kept.

use std::time::Duration;

/// Bounds of a transaction: attempts, and time; and for how long a transaction that is done once keeps its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct TxOptions {
    pub(crate) attempts: u32,
    pub(crate) deadline: Duration,
    pub(crate) keep_answer: Duration,
    /// `None`: for ever.
    pub(crate) keep_mark: Option<Duration>,
    pub(crate) is_optimistic: bool,
    pub(crate) optimistic_only: bool,
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl Default for TxOptions {
    fn default() -> Self {
        TxOptions {
            attempts: 100,
            deadline: Duration::from_secs(10),
            keep_answer: DAY,
            keep_mark: None,
            is_optimistic: false,
            optimistic_only: false,
        }
    }
}

impl TxOptions {
    /// 100 attempts within 10 seconds; answers are kept for 24 hours.
    pub fn new() -> Self {
        Self::default()
    }

    /// The largest number of attempts (at least 1).
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// The longest time, over all attempts.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// For how long a transaction with an id ([`TxBuilder::once`](crate::TxBuilder::once)) can be asked again for the answer; 24 hours by
    /// default, with `Duration::MAX` for ever. After that a call with the same id answers
    /// [`BeginError::AlreadyDone`](crate::errors::BeginError::AlreadyDone): that it was done is not forgotten, unless [`Self::keep_mark`] says so.
    pub fn keep_answer(mut self, time: Duration) -> Self {
        self.keep_answer = time;
        self
    }

    /// For how long the store knows that a transaction with an id was done; for ever if this is not said. **After that a call with the
    /// same id does it again.** So it has to be longer than any caller tries, over all its restarts, and any queue delivers again. The
    /// time begins with the commit. Marks that are there for ever take memory for each id: about a hundred bytes.
    pub fn keep_mark(mut self, time: Duration) -> Self {
        self.keep_mark = Some(time);
        self
    }

    /// The transaction looks without locks: it stands in nobody's way however long it thinks, and survives failovers and moved slots
    /// meanwhile. When it commits, every operation is executed again under its lock, and has to answer what was seen; otherwise the
    /// closure is run again. So `contains("x")` bears that others add `"y"`, and a take from a counter that others take. It is as
    /// strictly serializable as any other, also where its closure returns an error: that is believed once what was seen is checked.
    ///
    /// After three attempts to which something had changed, what had changed is locked, and the rest is still only looked at.
    /// [`Tx::execute_for_update`](crate::Tx::execute_for_update) locks in any case. Where the closure panics or loops, what it saw may
    /// never have been true together. In the mode `none` there are no locks anyway.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use claret::{Records, Store};
    /// let store = Store::in_memory();
    /// store.bounded_counter("seats").create(10, 0, 10).await?;
    /// let bought = store.tx().optimistic().run(async |tx| {
    ///     let bought = tx.bounded_counter("seats").try_take(2).await?;
    ///     // Here a person thinks, or a payment is made: others buy meanwhile.
    ///     Ok(bought)
    /// });
    /// assert!(bought.await?);
    /// # Ok::<_, claret::Error>(()) }).unwrap();
    /// ```
    pub fn optimistic(mut self) -> Self {
        self.is_optimistic = true;
        self
    }

    /// See [`crate::lab`].
    pub(crate) fn optimistic_only(mut self) -> Self {
        (self.is_optimistic, self.optimistic_only) = (true, true);
        self
    }
}
