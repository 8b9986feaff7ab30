//! Carrying out commands: one by its words, or several together, all or nothing.

use std::ops::Range;

use claret::{AtCommit, Error, OpError, Store, Tx, errors::ExecuteError};
use claret_planted::{Bug, is_planted};
use claret_types::{Access, Bytes, Operation, Reply};

use crate::answer::Answer;
use crate::by_server::{ByServer, Run, joined};
use crate::calls::{Calls, Shape, elements, size};
use crate::fault::Fault;
use crate::question::{Question, Written};
use crate::runner::Runner;
use crate::script::{Evaluation, of_script};
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
            Handler::None if self.is_waiting_pop() => {
                runner.go_on(tx.attempt());
                Box::pin(self.take_at_once(tx, runner, words)).await
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

/// Commands that are carried out together, in their order, if something is as it was.
#[derive(Debug)]
pub struct Plan {
    /// What has to be so: operations that demand their answers.
    expected: Vec<(Bytes, Operation)>,
    steps: Vec<Step>,
    by_server: ByServer,
}

/// A command of a plan.
#[derive(Clone, Debug)]
enum Step {
    Calls(Calls),
    Computed(&'static Command, Vec<Bytes>),
    /// It is carried out by the server of its key, with the commit, and answered then (A19); of several streams, by that of each (A34).
    Run(Run),
    Script(Box<Evaluation>),
    /// It is not about a key of its own.
    Asked(Box<Question>),
    /// It is answered already; nothing is done.
    Answered(Answer),
}

impl Plan {
    /// Nothing so far, with room for so many commands, if what these operations demand is so ([`Operation::expects`]).
    pub fn new(expected: Vec<(Bytes, Operation)>, commands: usize) -> Self {
        Plan { expected, steps: Vec::with_capacity(commands), by_server: ByServer::default() }
    }

    /// A further command, with the words behind its name.
    ///
    /// # Errors
    /// It has words that it cannot have.
    pub fn command(&mut self, command: &'static Command, words: Vec<Bytes>) -> Result<(), Fault> {
        let step = match self.by_server.step(command, &words)? {
            Some(run) => Step::Run(run),
            None => match command.calls(&words) {
                Some(calls) => Step::Calls(calls?),
                None => Step::Computed(command, words),
            },
        };
        self.steps.push(step);
        Ok(())
    }

    /// A further command, which is a script.
    pub fn script(&mut self, evaluation: Evaluation) {
        self.steps.push(Step::Script(Box::new(evaluation)));
    }

    /// A further command, which does nothing and is answered already.
    pub fn answered(&mut self, answer: Answer) {
        self.steps.push(Step::Answered(answer));
    }

    /// A further command, which asks something that is found outside of the transaction, before it is carried out.
    pub fn question(&mut self, command: &'static Command, words: Vec<Bytes>) {
        self.steps.push(Step::Asked(Box::new(Question::new(command, words))));
    }

    /// Those questions, in their order: each is to be told what was found.
    pub fn questions(&mut self) -> impl Iterator<Item = &mut Question> {
        self.steps.iter_mut().filter_map(|step| match step {
            Step::Asked(question) => Some(&mut **question),
            _ => None,
        })
    }

    /// Whether anything of it may write.
    pub fn writes(&self) -> bool {
        self.steps.iter().any(|step| !step.writes().is_empty())
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
        if is_planted(Bug::ExecInPieces) && self.steps.len() > 1 {
            return self.in_pieces(store, runner).await;
        }
        if self.steps.iter().all(Step::is_known) {
            return self.commit_at_once(store, runner).await;
        }
        let plan = &self;
        // Each of its scripts may ask once that all is run again ([`Evaluation::run`]).
        let mut again = self.steps.len();
        loop {
            let told = store.try_transaction(|tx| async move { plan.again().run(&tx, runner).await });
            match Box::pin(told).await {
                Err(Fault::Store(Error::Restart)) if again > 0 => again -= 1,
                Err(fault) => return Err(self.steps.iter().fold(fault, |fault, step| step.told(fault))),
                told => return told?.all(),
            }
        }
    }

    /// What [`Bug::ExecInPieces`] does.
    async fn in_pieces(self, store: &Store, runner: &dyn Runner) -> Result<Vec<Answer>, Fault> {
        let (mut expected, mut answers) = (self.expected, Vec::new());
        for step in self.steps {
            let piece = Plan {
                expected: std::mem::take(&mut expected),
                steps: vec![step],
                by_server: ByServer::default(),
            };
            answers.extend(Box::pin(piece.commit(store, runner)).await?);
        }
        Ok(answers)
    }

    /// All operations are known: one step.
    async fn commit_at_once(self, store: &Store, runner: &dyn Runner) -> Result<Vec<Answer>, Fault> {
        let batch = store.batch();
        for (key, op) in self.expected {
            let _ = batch.push::<Reply>(key, op);
        }
        let seen = batch.len();
        for (key, op) in self.steps.iter().flat_map(Step::known) {
            let _ = batch.push::<Reply>(key.clone(), op.clone());
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
        Plan { expected: self.expected.clone(), steps: self.steps.clone(), by_server: self.by_server.clone() }
    }

    /// Carries it out in a transaction that is open: the answers, before it commits.
    ///
    /// # Errors
    /// As of [`Plan::run`].
    pub async fn run_now(self, tx: &Tx, runner: &dyn Runner) -> Result<Vec<Answer>, Fault> {
        for (key, op) in self.expected {
            tx.execute(key, op).await.map_err(changed)?;
        }
        let written = written(tx, &self.steps).await?;
        let mut answers = Vec::with_capacity(self.steps.len());
        for next in self.steps {
            answers.push(next.run(tx, runner, &written).await?);
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
        let unknown = self.steps.iter().rposition(|step| !step.is_known());
        let mut steps = self.steps;
        let rest = steps.split_off(unknown.map_or(0, |at| at + 1));
        let mut written = written(tx, &steps).await?;
        let mut answers = Vec::with_capacity(steps.len() + rest.len());
        let (last, mut by_server) = (tx.at_commit(), ByServer::default());
        // So many go with the commit.
        let mut pushed = 0;
        let has_scripts = steps.iter().any(|step| matches!(step, Step::Script(_)));
        let counts =
            steps.iter().any(|step| matches!(step, Step::Script(script) if script.script().counts_keys()));
        for next in steps {
            if has_scripts {
                let writes = next.writes();
                written.add(tx, writes.iter().cloned(), counts).await?;
                writes.into_iter().for_each(|key| by_server.note_changed(key));
            }
            answers.push(match next {
                Step::Run(run) => {
                    let first = pushed;
                    for (key, op) in run {
                        written.note_run(&key, &op);
                        by_server.note(&key);
                        let _ = last.push::<Reply>(key, op);
                        pushed += 1;
                    }
                    Known::Late(first..pushed)
                }
                Step::Script(script) => Known::OfScript(
                    script.run(tx, runner, &last, &mut pushed, (&mut by_server, &mut written)).await?,
                ),
                next => {
                    if let Some(key) = by_server.first_of(&next.uses()) {
                        return Err(behind_a_script(key));
                    }
                    Known::Now(next.run(tx, runner, &written).await?)
                }
            });
        }
        for (key, op) in rest.iter().flat_map(Step::known) {
            let _ = last.push::<Reply>(key.clone(), op.clone());
        }
        Ok(Told { answers, pushed, rest, last })
    }
}

/// What a plan is answered, once its transaction has committed.
#[derive(Debug)]
pub struct Told {
    /// Of those before the last one that is not known up front.
    answers: Vec<Known>,
    /// So many of `last` are of those.
    pushed: usize,
    rest: Vec<Step>,
    last: AtCommit,
}

impl Told {
    /// The answers.
    ///
    /// # Errors
    /// It has not committed.
    pub fn all(self) -> Result<Vec<Answer>, Fault> {
        let mut late = self.last.replies()?.into_inner();
        let mut replies = late.split_off(self.pushed.min(late.len())).into_iter();
        let known = |known| match known {
            Known::Now(answer) => answer,
            Known::Late(own) => joined(late.get(own).unwrap_or_default().iter().cloned()),
            Known::OfScript(answer) => of_script(answer, &late),
        };
        let mut answers: Vec<Answer> = self.answers.into_iter().map(known).collect();
        answers.extend(self.rest.into_iter().map(|step| step.answer(&mut replies)));
        Ok(answers)
    }
}

/// What is known of an answer before the commit.
#[derive(Debug)]
enum Known {
    Now(Answer),
    /// It is these of those that come with the commit.
    Late(Range<usize>),
    /// Parts of it may be such ones.
    OfScript(claret_program::Answer),
}

/// The keys that steps write before the last question, as they are before.
async fn written(tx: &Tx, steps: &[Step]) -> Result<Written, Fault> {
    let asked = steps.iter().rposition(|step| matches!(step, Step::Asked(it) if it.is_of_keys()));
    let before = &steps[..asked.unwrap_or(0)];
    Written::before(tx, before.iter().flat_map(Step::writes)).await
}

impl Step {
    /// Whether all its operations are known up front.
    fn is_known(&self) -> bool {
        match self {
            Step::Computed(..) | Step::Script(_) => false,
            Step::Asked(question) => question.found().is_some(),
            Step::Calls(_) | Step::Run(..) | Step::Answered(_) => true,
        }
    }

    /// Its operations, if they are known up front.
    fn known(&self) -> &[(Bytes, Operation)] {
        match self {
            Step::Calls(calls) => calls.all(),
            Step::Run(run) => run,
            Step::Computed(..) | Step::Script(_) | Step::Asked(_) | Step::Answered(_) => &[],
        }
    }

    /// A fault of the commit, as it is told of this step.
    fn told(&self, fault: Fault) -> Fault {
        match self {
            Step::Script(script) => script.told(fault),
            _ => fault,
        }
    }

    /// The keys that it may write.
    fn writes(&self) -> Vec<Bytes> {
        match self {
            Step::Calls(calls) => {
                let writes = |(_, op): &&(Bytes, Operation)| op.method().access != Access::Read;
                calls.all().iter().filter(writes).map(|(key, _)| key.clone()).collect()
            }
            Step::Run(run) => {
                let writes = |(_, op): &&(Bytes, Operation)| op.method().access == Access::Write;
                run.iter().filter(writes).map(|(key, _)| key.clone()).collect()
            }
            Step::Computed(command, words) if command.writes => {
                let name = Bytes::from(command.name);
                let all: Vec<&[u8]> = std::iter::once(&name).chain(words).map(|word| &word[..]).collect();
                command.keys_in(&all).map(Bytes::copy_from).collect()
            }
            // What a script writes nobody knows before.
            Step::Computed(..) | Step::Script(_) | Step::Asked(_) | Step::Answered(_) => Vec::new(),
        }
    }

    /// The keys that it uses, as far as its words tell.
    fn uses(&self) -> Vec<Bytes> {
        match self {
            Step::Calls(calls) => calls.all().iter().map(|(key, _)| key.clone()).collect(),
            Step::Computed(command, words) => {
                let name = Bytes::from(command.name);
                let all: Vec<&[u8]> = std::iter::once(&name).chain(words).map(|word| &word[..]).collect();
                command.keys_in(&all).map(Bytes::copy_from).collect()
            }
            Step::Run(..) | Step::Script(_) | Step::Asked(_) | Step::Answered(_) => Vec::new(),
        }
    }

    /// Carries it out in a transaction that is open. `written`: see [`written`].
    async fn run(self, tx: &Tx, runner: &dyn Runner, written: &Written) -> Result<Answer, Fault> {
        match self {
            Step::Answered(answer) => Ok(answer),
            Step::Computed(command, words) => command.run(tx, runner, &words).await,
            Step::Calls(calls) => calls.run(tx, runner).await,
            Step::Run(run) => {
                let named = run.first().and_then(|(_, op)| op.command()?.words().first());
                let name = named.map(Bytes::to_string).unwrap_or_default();
                Err(Fault::told(format!(
                    "ERR '{name}' is answered with the commit, and its answer is needed before"
                )))
            }
            Step::Script(_) => Err(Fault::told("ERR a script may have answers that come with the commit")),
            Step::Asked(question) => {
                let answer = question.answer(tx, runner, written).await?;
                runner.take(answer.bytes_up_to(usize::MAX / 2))?;
                Ok(answer)
            }
        }
    }

    /// The answer of what was done at once.
    fn answer(self, replies: &mut impl Iterator<Item = Reply>) -> Answer {
        match self {
            Step::Answered(answer) => answer,
            Step::Calls(calls) => {
                let own: Vec<Reply> = replies.by_ref().take(calls.all().len()).collect();
                calls.answer(own)
            }
            Step::Asked(question) => question.found().expect("it is known").clone(),
            Step::Run(run) => joined(replies.by_ref().take(run.len())),
            Step::Computed(..) | Step::Script(_) => unreachable!("all operations are known"),
        }
    }
}

/// A22: a script has had a server carry out a command on this key, and that comes with the commit.
fn behind_a_script(key: &Bytes) -> Fault {
    Fault::told(format!(
        "ERR a script of this MULTI has a command on '{key}' that its server carries out with the commit, and this one comes behind it: do it \
         in the script, or in another MULTI"
    ))
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
