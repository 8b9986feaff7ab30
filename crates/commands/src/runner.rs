//! What a program that runs commands gives them: bounds on what they make and read, a place for long work, and turns for others.

use std::any::Any;
use std::pin::Pin;

use claret_types::Bytes;

use crate::answer::{Answer, ELEMENT_BYTES};
use crate::fault::Fault;

/// Operations that are sent before others get their turn.
const OPERATIONS_AT_ONCE_MAX: usize = 1_024;

/// What long work makes.
pub type Made = Box<dyn Any + Send>;

/// What a runner does later, for whoever waits for it.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Of a program that runs commands, for one of its clients. [`Unbounded`] is the one that does nothing.
pub trait Runner {
    /// An attempt of a transaction begins: what an earlier attempt made and read is let go.
    fn begin_attempt(&self, attempt: u32);

    /// The same, if it is another attempt than the one before.
    fn go_on(&self, attempt: u32);

    /// So many bytes are made, read or answered.
    ///
    /// # Errors
    /// They are too many: the command cannot be done.
    fn take(&self, bytes: usize) -> Result<(), Fault>;

    /// Whether what goes over so many bytes is long work, which another thread does.
    fn is_long(&self, bytes: usize) -> bool;

    /// Long work, on another thread.
    fn elsewhere(&self, work: Box<dyn FnOnce() -> Made + Send>) -> Later<'_, Made>;

    /// A message is to leave once the transaction has committed: its words with the name. [`Self::begin_attempt`] forgets it.
    ///
    /// # Errors
    /// Nobody here sends any.
    fn publish(&self, message: Vec<Bytes>) -> Result<(), Fault> {
        let _ = message;
        Err(Fault::told("ERR no server is here that sends messages"))
    }

    /// What is found outside of the transaction of the keys that there are: `KEYS`, `SCAN`, `DBSIZE`, `RANDOMKEY`, with what
    /// [`Question::tell`](crate::Question::tell) wants.
    fn find(&self, name: &'static str, words: Vec<Bytes>) -> Later<'_, Result<Answer, Fault>> {
        let _ = words;
        let name = name.to_ascii_lowercase();
        Box::pin(std::future::ready(Err(Fault::told(format!("ERR nobody here finds what '{name}' asks")))))
    }

    /// Others get their turn.
    fn rest(&self) -> Later<'_, ()>;
}

impl dyn Runner + '_ {
    /// Does something that goes over so many bytes: at once if they are few, otherwise on another thread.
    pub async fn aside<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        if !self.is_long(bytes) {
            return work();
        }
        let made = self.elsewhere(Box::new(move || Box::new(work()))).await;
        *made.downcast().expect("a runner answers what the work has made")
    }

    /// The same for so many elements.
    pub async fn over<T: Send + 'static>(
        &self,
        elements: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        self.aside(elements.saturating_mul(ELEMENT_BYTES), work).await
    }

    /// Others get their turn after each so many operations. `count`: those before this one.
    pub(crate) async fn rest_after(&self, count: usize) {
        if count % OPERATIONS_AT_ONCE_MAX == OPERATIONS_AT_ONCE_MAX - 1 {
            self.rest().await;
        }
    }
}

/// Bounds nothing, and does all work at once: for a program whose only client is itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unbounded;

impl Runner for Unbounded {
    fn begin_attempt(&self, _: u32) {}

    fn go_on(&self, _: u32) {}

    fn take(&self, _: usize) -> Result<(), Fault> {
        Ok(())
    }

    fn is_long(&self, _: usize) -> bool {
        false
    }

    fn elsewhere(&self, work: Box<dyn FnOnce() -> Made + Send>) -> Later<'_, Made> {
        Box::pin(std::future::ready(work()))
    }

    fn rest(&self) -> Later<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
