//! A command by its words: as operations that are known up front, in a transaction that is open, or alone.

use claret::{Store, Tx};
use claret_types::Bytes;

use crate::answer::Answer;
use crate::calls::{Calls, Shape, elements, size};
use crate::fault::Fault;
use crate::runner::Runner;
use crate::steps::{Steps, operation_of};
use crate::table::{Command, Handler};
use crate::words::Words;

/// What is carried out has words behind its name alone, and the caller has looked whether it [takes](Command::takes) so many.
impl Command {
    /// The operations that it is, if they are known up front: a transaction of such ones alone commits in one step. `None`: they depend
    /// on what others answer, or it is none that is carried out here.
    ///
    /// # Errors
    /// What is wrong with the words.
    pub fn calls(&self, words: &[Bytes]) -> Option<Result<Calls, Fault>> {
        let words = Words { name: self.name, rest: words };
        match self.handler {
            Handler::Calls(calls) => Some(calls(words)),
            Handler::Either(calls, _) => calls(words),
            Handler::Own(kind) => Some(words.split().and_then(|([key], rest)| {
                Ok(Calls::one(key, operation_of(kind, self.name, rest)?, Shape::First))
            })),
            Handler::Steps(_) | Handler::None => None,
        }
    }

    /// Carries it out in a transaction that is open.
    ///
    /// # Errors
    /// Why it cannot be done; then the transaction can only be rolled back.
    pub async fn run(&self, tx: &Tx, runner: &dyn Runner, words: &[Bytes]) -> Result<Answer, Fault> {
        if let Some(calls) = self.calls(words) {
            return calls?.run(tx, runner).await;
        }
        match self.handler {
            Handler::Steps(steps) | Handler::Either(_, steps) => {
                runner.go_on(tx.attempt());
                steps(Steps { tx, runner }, Words { name: self.name, rest: words }).await
            }
            Handler::Calls(_) | Handler::Own(_) | Handler::None => Err(self.is_not_done()),
        }
    }

    /// Carries it out as a transaction of its own.
    ///
    /// # Errors
    /// Why nothing was done.
    pub async fn alone(&self, store: &Store, runner: &dyn Runner, words: &[Bytes]) -> Result<Answer, Fault> {
        let Some(calls) = self.calls(words) else {
            return store.try_transaction(|tx| async move { self.run(&tx, runner, words).await }).await;
        };
        let calls = calls?;
        let replies = store.run_all(calls.all().iter().cloned()).await.map_err(|error| calls.fault(error))?;
        let answer = runner.over(elements(&replies), move || (size(&replies), calls.answer(replies)));
        let (bytes, answer) = answer.await;
        // What is done is done, and is answered.
        if self.changes_nothing() {
            runner.take(bytes)?;
        }
        Ok(answer)
    }

    fn is_not_done(&self) -> Fault {
        Fault::told(format!("ERR '{}' is not done in a transaction", self.name.to_ascii_lowercase()))
    }
}
