//! Commands as transactions of the store: one alone, and those of MULTI.

use bytes::BytesMut;
use claret::{AtCommit, Error, OpError, Store, Tx, errors::ExecuteError};
use claret_planted::{Bug, is_planted};
use claret_types::{Bytes, Operation, Reply};

use crate::answer::{Answer, Protocol};
use crate::commands::{self, Direct};
use crate::fault::Fault;
use crate::queue::Queued;
use crate::table::{Command, Way};
use crate::work::Work;

/// How a transaction of commands ended: the answers, or why nothing was done.
pub(crate) type Ended = Result<Vec<Answer>, Fault>;

/// The operation whose answer is another one after every change of a key.
pub(crate) fn version() -> Operation {
    Operation::from(claret_types::KeyspaceOp::Version)
}

/// Words as the store takes them, without the name.
pub(crate) fn arguments(words: &[bytes::Bytes]) -> Vec<Bytes> {
    words[1..].iter().map(|word| Bytes::copy_from(word)).collect()
}

/// A command alone, as a transaction of its own.
pub(crate) async fn alone(store: &Store, command: &Command, words: &[bytes::Bytes]) -> Result<Answer, Fault> {
    let words = arguments(words);
    if let Some(direct) = commands::direct(command.name, &words) {
        let direct = direct?;
        let replies = store.run_all(direct.calls.iter().cloned()).await?;
        let work = Work::current();
        let elements = commands::elements(&replies);
        let answer = work.over(elements, move || (commands::size(&replies), direct.answer(replies)));
        let (bytes, answer) = answer.await;
        if command.changes_nothing() {
            work.take(bytes)?;
        }
        return Ok(answer);
    }
    let words = &words;
    store.try_transaction(|tx| async move { step(&tx, command.name, words).await }).await
}

/// A command in a transaction that is open.
pub(crate) async fn step(tx: &Tx, name: &'static str, words: &[Bytes]) -> Result<Answer, Fault> {
    match commands::run(tx, name, words).await {
        Some(answer) => answer,
        None => Err(Fault::told(format!("ERR '{}' is not done in a transaction", name.to_ascii_lowercase()))),
    }
}

/// What is to be done by one EXEC.
pub(crate) struct Plan {
    /// What has to be so: operations that demand their answers.
    pub(crate) expected: Vec<(Bytes, Operation)>,
    pub(crate) steps: Vec<Step>,
}

/// A command of it.
pub(crate) enum Step {
    Direct(Direct),
    Computed(&'static str, Vec<Bytes>),
    /// The gateway answers it; nothing is done.
    Answered(Answer),
}

impl Plan {
    /// # Errors
    /// A command has words that it cannot have.
    pub(crate) fn of(
        queued: &[Queued],
        expected: Vec<(Bytes, Operation)>,
        here: impl Fn(&Queued) -> Answer,
    ) -> Result<Self, Fault> {
        let mut steps = Vec::with_capacity(queued.len());
        for queued in queued {
            if queued.command.way == Way::Here {
                steps.push(Step::Answered(here(queued)));
                continue;
            }
            let words = arguments(queued.words());
            steps.push(match commands::direct(queued.command.name, &words) {
                Some(direct) => Step::Direct(direct?),
                None => Step::Computed(queued.command.name, words),
            });
        }
        Ok(Plan { expected, steps })
    }

    /// Carries it out as a transaction: the answers.
    ///
    /// # Errors
    /// [`Fault::Changed`] if something that was watched is not as it was; otherwise why nothing was done.
    pub(crate) async fn commit(self, store: &Store) -> Ended {
        if !is_planted(Bug::ExecInPieces) {
            return self.commit_whole(store).await;
        }
        let (mut expected, mut answers) = (self.expected, Vec::new());
        for step in self.steps {
            let piece = Plan { expected: std::mem::take(&mut expected), steps: vec![step] };
            answers.extend(piece.commit_whole(store).await?);
        }
        Ok(answers)
    }

    async fn commit_whole(self, store: &Store) -> Ended {
        let is_known = self.steps.iter().all(|step| !matches!(step, Step::Computed(..)));
        if is_known {
            return self.commit_at_once(store).await;
        }
        let plan = &self;
        let told = store.try_transaction(|tx| async move { plan.again().run(&tx).await });
        Box::pin(told).await?.all()
    }

    /// All operations are known: one step.
    async fn commit_at_once(self, store: &Store) -> Ended {
        let batch = store.batch();
        for (key, op) in self.expected {
            let _ = batch.push::<Reply>(key, op);
        }
        let seen = batch.len();
        for step in &self.steps {
            if let Step::Direct(direct) = step {
                for (key, op) in &direct.calls {
                    let _ = batch.push::<Reply>(key.clone(), op.clone());
                }
            }
        }
        if batch.is_empty() {
            return Ok(self.steps.into_iter().map(|step| step.answer(&mut std::iter::empty())).collect());
        }
        let replies = batch.commit().await.map_err(changed)?.into_inner();
        let (elements, steps) = (commands::elements(&replies), self.steps);
        let answers = move || {
            let mut replies = replies.into_iter().skip(seen);
            steps.into_iter().map(|step| step.answer(&mut replies)).collect()
        };
        Ok(Work::current().over(elements, answers).await)
    }

    /// The same once more.
    pub(crate) fn again(&self) -> Plan {
        let steps = self.steps.iter().map(|step| match step {
            Step::Direct(direct) => Step::Direct(direct.clone()),
            Step::Computed(name, words) => Step::Computed(name, words.clone()),
            Step::Answered(answer) => Step::Answered(answer.clone()),
        });
        Plan { expected: self.expected.clone(), steps: steps.collect() }
    }

    /// Carries it out in a transaction that is open: the answers, before it commits.
    ///
    /// # Errors
    /// As of [`Plan::run`].
    async fn run_now(self, tx: &Tx) -> Result<Vec<Answer>, Fault> {
        for (key, op) in self.expected {
            tx.execute(key, op).await.map_err(changed)?;
        }
        let mut answers = Vec::with_capacity(self.steps.len());
        for next in self.steps {
            answers.push(match next {
                Step::Answered(answer) => answer,
                Step::Computed(name, words) => step(tx, name, &words).await?,
                Step::Direct(direct) => direct.run(tx).await?,
            });
        }
        Ok(answers)
    }

    /// Carries it out in a transaction that is open. What is known up front at its end goes with the commit, and costs no round trip of
    /// its own: its answers are told after it.
    ///
    /// # Errors
    /// [`Fault::Changed`] if something that was watched is not as it was; otherwise why it cannot be done.
    pub(crate) async fn run(self, tx: &Tx) -> Result<Told, Fault> {
        Work::current().begin_attempt(tx.attempt());
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
                Step::Computed(name, words) => step(tx, name, &words).await?,
                Step::Direct(direct) => direct.run(tx).await?,
            });
        }
        let last = tx.at_commit();
        for step in &rest {
            if let Step::Direct(direct) = step {
                for (key, op) in &direct.calls {
                    let _ = last.push::<Reply>(key.clone(), op.clone());
                }
            }
        }
        Ok(Told { answers, rest, last })
    }
}

/// Carries a plan out at most once for an id, and answers as the first time. What is watched counts the first time alone: afterwards it
/// has changed, by that very plan.
pub(crate) async fn once(store: &Store, id: &[u8], plan: &Plan, protocol: Protocol) -> Ended {
    let id = String::from_utf8_lossy(id);
    let done = store.tx().once(&id).try_run(|tx| async move {
        let answer = Answer::Array(plan.again().run_now(&tx).await?);
        Ok::<_, Fault>(claret_types::Bytes::from(kept(&answer)))
    });
    let kept = Box::pin(done).await?.into_value();
    Err(Fault::Done(Box::new(Answer::Raw(of_kept(&kept, protocol)?))))
}

/// An answer as it is kept: in both protocols, because who asks again may speak another one.
fn kept(answer: &Answer) -> Vec<u8> {
    let (mut old, mut new) = (BytesMut::new(), BytesMut::new());
    answer.write(&mut old, Protocol::Resp2);
    answer.write(&mut new, Protocol::Resp3);
    let mut all = (old.len() as u32).to_be_bytes().to_vec();
    all.extend_from_slice(&old);
    all.extend_from_slice(&new);
    all
}

fn of_kept(kept: &[u8], protocol: Protocol) -> Result<bytes::Bytes, Fault> {
    let strange = || Fault::told("ERR what is kept for this id was written by something else than a gateway");
    let (length, rest) = kept.split_first_chunk::<4>().ok_or_else(strange)?;
    let (old, new) = rest.split_at_checked(u32::from_be_bytes(*length) as usize).ok_or_else(strange)?;
    let answer = if protocol == Protocol::Resp2 { old } else { new };
    if answer.first() == Some(&b'*') { Ok(bytes::Bytes::copy_from_slice(answer)) } else { Err(strange()) }
}

/// What a plan is answered, once its transaction has committed.
pub(crate) struct Told {
    answers: Vec<Answer>,
    rest: Vec<Step>,
    last: AtCommit,
}

impl Told {
    /// The answers.
    ///
    /// # Errors
    /// It has not committed.
    pub(crate) fn all(self) -> Ended {
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
            Step::Direct(direct) => {
                let own: Vec<Reply> = replies.by_ref().take(direct.calls.len()).collect();
                direct.answer(own)
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

/// How an EXEC ended. An operation that demands an answer may fail in a way of its own, where its key holds another type now: so after an
/// error of one of these keys it is asked whether all that was expected is still so.
pub(crate) async fn change_or(ended: Ended, store: &Store, expected: Vec<(Bytes, Operation)>) -> Ended {
    let key = match &ended {
        Err(Fault::Store(Error::Execute(ExecuteError::Invalid { key, .. })))
            if expected.iter().any(|(known, _)| known == key) =>
        {
            key.clone()
        }
        _ => return ended,
    };
    match store.run_all(expected).await {
        Ok(_) => ended,
        Err(_) => Err(Fault::Changed(key)),
    }
}

#[cfg(test)]
mod tests {
    use crate::{commands, table};

    #[test]
    fn each_command_that_the_table_has_in_transactions_can_be_done_in_one() {
        for command in table::all().iter().filter(|command| command.way.is_transactional()) {
            assert!(commands::is_known(command.name), "{}", command.name);
        }
    }
}
