//! Commands that are carried out together: all or nothing.

use claret::{AtCommit, Error, OpError, Store, Tx, errors::ExecuteError};
use claret_planted::{Bug, is_planted};
use claret_types::{Bytes, Operation, Reply};

use crate::answer::Answer;
use crate::calls::{Calls, elements};
use crate::fault::Fault;
use crate::runner::Runner;
use crate::table::Command;

/// Commands that are carried out together, in their order, if something is as it was.
#[derive(Debug)]
pub struct Plan {
    /// What has to be so: operations that demand their answers.
    expected: Vec<(Bytes, Operation)>,
    steps: Vec<Step>,
}

/// A command of a plan.
#[derive(Clone, Debug)]
enum Step {
    Calls(Calls),
    Computed(&'static Command, Vec<Bytes>),
    /// It is answered already; nothing is done.
    Answered(Answer),
}

impl Plan {
    /// Nothing so far, with room for so many commands, if what these operations demand is so ([`Operation::expects`]).
    pub fn new(expected: Vec<(Bytes, Operation)>, commands: usize) -> Self {
        Plan { expected, steps: Vec::with_capacity(commands) }
    }

    /// A further command, with the words behind its name.
    ///
    /// # Errors
    /// It has words that it cannot have.
    pub fn command(&mut self, command: &'static Command, words: Vec<Bytes>) -> Result<(), Fault> {
        self.steps.push(match command.calls(&words) {
            Some(calls) => Step::Calls(calls?),
            None => Step::Computed(command, words),
        });
        Ok(())
    }

    /// A further command, which does nothing and is answered already.
    pub fn answered(&mut self, answer: Answer) {
        self.steps.push(Step::Answered(answer));
    }

    /// What has to be so.
    pub fn expected(&self) -> &[(Bytes, Operation)] {
        &self.expected
    }

    /// What was expected of these keys is so: nobody looks any more.
    pub fn trust(&mut self, is_so: impl Fn(&Bytes) -> bool) {
        self.expected.retain(|(key, _)| !is_so(key));
    }

    /// Carries it out as a transaction: the answers.
    ///
    /// # Errors
    /// [`Fault::Changed`] if something that was watched is not as it was; otherwise why nothing was done.
    pub async fn commit(self, store: &Store, runner: &dyn Runner) -> Result<Vec<Answer>, Fault> {
        if !is_planted(Bug::ExecInPieces) {
            return self.commit_whole(store, runner).await;
        }
        let (mut expected, mut answers) = (self.expected, Vec::new());
        for step in self.steps {
            let piece = Plan { expected: std::mem::take(&mut expected), steps: vec![step] };
            answers.extend(piece.commit_whole(store, runner).await?);
        }
        Ok(answers)
    }

    async fn commit_whole(self, store: &Store, runner: &dyn Runner) -> Result<Vec<Answer>, Fault> {
        let is_known = self.steps.iter().all(|step| !matches!(step, Step::Computed(..)));
        if is_known {
            return self.commit_at_once(store, runner).await;
        }
        let plan = &self;
        let told = store.try_transaction(|tx| async move { plan.again().run(&tx, runner).await });
        Box::pin(told).await?.all()
    }

    /// All operations are known: one step.
    async fn commit_at_once(self, store: &Store, runner: &dyn Runner) -> Result<Vec<Answer>, Fault> {
        let batch = store.batch();
        for (key, op) in self.expected {
            let _ = batch.push::<Reply>(key, op);
        }
        let seen = batch.len();
        for step in &self.steps {
            if let Step::Calls(calls) = step {
                for (key, op) in calls.all() {
                    let _ = batch.push::<Reply>(key.clone(), op.clone());
                }
            }
        }
        if batch.is_empty() {
            return Ok(self.steps.into_iter().map(|step| step.answer(&mut std::iter::empty())).collect());
        }
        let replies = batch.commit().await.map_err(changed)?.into_inner();
        let (elements, steps) = (elements(&replies), self.steps);
        let answers = move || {
            let mut replies = replies.into_iter().skip(seen);
            steps.into_iter().map(|step| step.answer(&mut replies)).collect()
        };
        Ok(runner.over(elements, answers).await)
    }

    /// The same once more.
    pub fn again(&self) -> Plan {
        Plan { expected: self.expected.clone(), steps: self.steps.clone() }
    }

    /// Carries it out in a transaction that is open: the answers, before it commits.
    ///
    /// # Errors
    /// As of [`Plan::run`].
    pub async fn run_now(self, tx: &Tx, runner: &dyn Runner) -> Result<Vec<Answer>, Fault> {
        for (key, op) in self.expected {
            tx.execute(key, op).await.map_err(changed)?;
        }
        let mut answers = Vec::with_capacity(self.steps.len());
        for next in self.steps {
            answers.push(match next {
                Step::Answered(answer) => answer,
                Step::Computed(command, words) => command.run(tx, runner, &words).await?,
                Step::Calls(calls) => calls.run(tx, runner).await?,
            });
        }
        Ok(answers)
    }

    /// Carries it out in a transaction that is open. What is known up front at its end goes with the commit, and costs no round trip of
    /// its own: its answers are told after it.
    ///
    /// # Errors
    /// [`Fault::Changed`] if something that was watched is not as it was; otherwise why it cannot be done.
    pub async fn run(self, tx: &Tx, runner: &dyn Runner) -> Result<Told, Fault> {
        runner.begin_attempt(tx.attempt());
        // All are sent before the first is waited for.
        let asked: Vec<_> = self.expected.into_iter().map(|(key, op)| tx.execute(key, op)).collect();
        for found in asked {
            found.await.map_err(changed)?;
        }
        let computed = self.steps.iter().rposition(|step| matches!(step, Step::Computed(..)));
        let mut steps = self.steps;
        let rest = steps.split_off(computed.map_or(0, |at| at + 1));
        let mut answers = Vec::with_capacity(steps.len() + rest.len());
        for next in steps {
            answers.push(match next {
                Step::Answered(answer) => answer,
                Step::Computed(command, words) => command.run(tx, runner, &words).await?,
                Step::Calls(calls) => calls.run(tx, runner).await?,
            });
        }
        let last = tx.at_commit();
        for step in &rest {
            if let Step::Calls(calls) = step {
                for (key, op) in calls.all() {
                    let _ = last.push::<Reply>(key.clone(), op.clone());
                }
            }
        }
        Ok(Told { answers, rest, last })
    }
}

/// What a plan is answered, once its transaction has committed.
#[derive(Debug)]
pub struct Told {
    answers: Vec<Answer>,
    rest: Vec<Step>,
    last: AtCommit,
}

impl Told {
    /// The answers.
    ///
    /// # Errors
    /// It has not committed.
    pub fn all(self) -> Result<Vec<Answer>, Fault> {
        let mut replies = self.last.replies()?.into_inner().into_iter();
        let mut answers = self.answers;
        answers.extend(self.rest.into_iter().map(|step| step.answer(&mut replies)));
        Ok(answers)
    }
}

impl Step {
    /// The answer of what was done at once.
    fn answer(self, replies: &mut impl Iterator<Item = Reply>) -> Answer {
        match self {
            Step::Answered(answer) => answer,
            Step::Calls(calls) => {
                let own: Vec<Reply> = replies.by_ref().take(calls.all().len()).collect();
                calls.answer(own)
            }
            Step::Computed(..) => unreachable!("all operations are known"),
        }
    }
}

/// What the store says of what was expected.
fn changed(error: Error) -> Fault {
    match error {
        Error::Execute(ExecuteError::Invalid { key, error: OpError::Unexpected { .. } }) => {
            Fault::Changed(key)
        }
        other => Fault::Store(other),
    }
}
