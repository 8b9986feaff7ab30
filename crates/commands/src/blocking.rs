//! Pops that wait until there is something to take (`BLPOP` and its kin), on keys wherever they are.
//!
//! First what is there is taken, in the order of the keys, as the command without its *B* does. If there is nothing, a transaction sleeps
//! on each key (P91), and holds nothing. Whoever is woken first takes; the others go on sleeping, or, where they were woken as well,
//! leave what they found to the next. So one value wakes one, whoever has waited longest, and whatever process it belongs to.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use claret::{Error, Store, Tx, TxOptions, errors::CommitError};
use claret_planted::{Bug, is_planted};
use claret_types::{Bytes, End, ListOp, Operation, Reply, ScoredSetOp, few};

use crate::answer::Answer;
use crate::fault::Fault;
use crate::runner::Runner;
use crate::steps::{list, scored};
use crate::table::{Command, named};
use crate::words::{Words, is, key_count, number};

/// A transaction sleeps for so long; then another one does in its place. Else the shards would keep what became of all later ones of
/// this process until it wakes (P28).
const SLEEP: Duration = Duration::from_secs(10);

/// So many keys are waited for at once.
const KEYS_MAX: usize = 1_024;

/// How a pop waits: until when is said by whoever waits for it.
#[derive(Debug, Default)]
pub struct Waiting {
    is_over: Cell<bool>,
    /// The key whose transaction takes.
    taking: Cell<Option<usize>>,
    /// Who waits until it has taken, or not: one task carries all keys out.
    idle: RefCell<Option<Waker>>,
}

impl Waiting {
    /// One that has no end yet.
    pub fn new() -> Self {
        Waiting::default()
    }

    /// It is over: nothing is taken any more, but what is being taken. Whether something is: then the answer is to be awaited.
    pub fn end(&self) -> bool {
        self.is_over.set(true);
        self.taking.get().is_some()
    }

    fn take(&self, at: usize) -> bool {
        let is_free = self.taking.get().is_none_or(|taking| taking == at);
        let may = (!self.is_over.get() || is_planted(Bug::PopTakesLate))
            && (is_free || is_planted(Bug::PopTakesTwice));
        if may {
            self.taking.set(Some(at));
        }
        may
    }

    fn give_up(&self, at: usize) {
        if self.taking.get() == Some(at) {
            self.taking.set(None);
            self.idle.take().into_iter().for_each(Waker::wake);
        }
    }

    /// Until nobody takes.
    async fn idle(&self) {
        poll_fn(|cx: &mut Context<'_>| match self.taking.get() {
            None => Poll::Ready(()),
            Some(_) => {
                *self.idle.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            }
        })
        .await;
    }
}

/// What is taken, from which keys, in the client's order.
#[derive(Debug)]
struct Pop {
    keys: Vec<Bytes>,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    /// One value of a list.
    Value(End),
    /// One value of a list, put into another one.
    Move { from: End, to: Bytes, into: End },
    /// So many values of a list.
    Values(End, Bytes),
    /// The first member of a sorted set, or the last.
    Member { is_last: bool },
    /// So many.
    Members { is_last: bool, count: Bytes },
}

/// Why a transaction on one key did not take.
enum Woken {
    /// Another one of the same command takes.
    Another,
    Fault(Fault),
}

impl From<Error> for Woken {
    fn from(error: Error) -> Self {
        Woken::Fault(Fault::Store(error))
    }
}

impl From<Fault> for Woken {
    fn from(fault: Fault) -> Self {
        Woken::Fault(fault)
    }
}

impl Command {
    /// Whether it is a pop that waits, which is carried out here as well ([`Command::wait`]).
    pub fn is_waiting_pop(&self) -> bool {
        self.blocks && matches!(self.group, "list" | "sorted-set")
    }

    /// How long such a pop waits; `None`: for ever.
    ///
    /// # Errors
    /// What is wrong with its words.
    pub fn waits_for(&self, words: &[Bytes]) -> Result<Option<Duration>, Fault> {
        let is_first = matches!(self.name, "BLMPOP" | "BZMPOP");
        let word = if is_first { words.first() } else { words.last() };
        let seconds = word.and_then(|word| number(word));
        let seconds = seconds.ok_or_else(|| Fault::told("ERR timeout is not a float or out of range"))?;
        if seconds < 0.0 {
            return Err(Fault::told("ERR timeout is negative"));
        }
        let time = Duration::try_from_secs_f64(seconds);
        let time = time.map_err(|_| Fault::told("ERR timeout is out of range"))?;
        Ok((!time.is_zero()).then_some(time))
    }

    /// Such a pop, with the words behind its name, as a transaction that takes what is there, in the order of the keys. `None`: there is
    /// nothing.
    ///
    /// # Errors
    /// What is wrong with its words, or why it cannot be done; nothing is taken then.
    pub async fn take_now(
        &self,
        store: &Store,
        runner: &dyn Runner,
        words: &[Bytes],
    ) -> Result<Option<Answer>, Fault> {
        self.waits_for(words)?;
        let pop = Pop::of(Words { name: self.name, rest: words })?;
        let answer = pop.take_now(store, runner).await?;
        Ok((!matches!(answer, Answer::Nil | Answer::NilArray)).then_some(answer))
    }

    /// Waits until there is something to take where there was nothing. `None`: it was [ended](Waiting::end) before. The store is used on behalf of a
    /// [`Caller`](claret::Caller) of its own, whose age says who is served first. O(keys) transactions that sleep, each of which begins anew
    /// every ten seconds.
    ///
    /// # Errors
    /// Why it cannot be done; nothing is taken then.
    pub async fn wait(
        &self,
        store: &Store,
        runner: &dyn Runner,
        words: &[Bytes],
        waiting: &Waiting,
    ) -> Result<Option<Answer>, Fault> {
        let pop = Pop::of(Words { name: self.name, rest: words })?;
        let sleeper = store.with_options(TxOptions::new().deadline(SLEEP));
        let sleep = |at| Box::pin(pop.sleep(&sleeper, runner, at, waiting)) as Sleeping<'_>;
        let mut sleeping: Vec<Sleeping<'_>> = (0..pop.keys.len()).map(sleep).collect();
        poll_fn(|cx| {
            let ended = sleeping.iter_mut().find_map(|it| match it.as_mut().poll(cx) {
                Poll::Ready(answer) => Some(answer),
                Poll::Pending => None,
            });
            ended.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// What such a pop answers that has taken nothing.
    pub fn nothing_taken(&self) -> Answer {
        if matches!(self.name, "BLMOVE" | "BRPOPLPUSH") { Answer::Nil } else { Answer::NilArray }
    }

    /// Such a pop in a transaction, where none waits: it takes what is there.
    pub(crate) async fn take_at_once(
        &self,
        tx: &Tx,
        runner: &dyn Runner,
        words: &[Bytes],
    ) -> Result<Answer, Fault> {
        self.waits_for(words)?;
        let pop = Pop::of(Words { name: self.name, rest: words })?;
        pop.take_in(tx, runner, &pop.keys).await
    }
}

type Sleeping<'a> = Pin<Box<dyn Future<Output = Result<Option<Answer>, Fault>> + 'a>>;

impl Pop {
    fn of(words: Words<'_>) -> Result<Pop, Fault> {
        let front = |name: &str| if name.starts_with("BL") { End::Front } else { End::Back };
        let (keys, what) = match words.name {
            "BLPOP" | "BRPOP" => (all_but_last(words)?, What::Value(front(words.name))),
            "BZPOPMIN" | "BZPOPMAX" => {
                (all_but_last(words)?, What::Member { is_last: words.name.ends_with("MAX") })
            }
            "BRPOPLPUSH" => {
                let [from, to, _] = words.exactly()?;
                (vec![from.clone()], What::Move { from: End::Back, to: to.clone(), into: End::Front })
            }
            "BLMOVE" => {
                let [from, to, from_end, to_end, _] = words.exactly()?;
                let (from_end, into) = (end(from_end)?, end(to_end)?);
                (vec![from.clone()], What::Move { from: from_end, to: to.clone(), into })
            }
            _ => return Pop::of_many(words),
        };
        Pop { keys, what }.checked()
    }

    /// `BLMPOP` and `BZMPOP`.
    fn of_many(words: Words<'_>) -> Result<Pop, Fault> {
        let ([_, count], rest) = words.split()?;
        let count = key_count(count, "ERR numkeys should be greater than 0")?;
        let Some((keys, [at, options @ ..])) = rest.split_at_checked(count) else {
            return Err(Fault::syntax());
        };
        let count = match options {
            [] => Bytes::from("1"),
            [option, count] if is(option, "COUNT") => {
                key_count(count, "ERR count should be greater than 0")?;
                count.clone()
            }
            _ => return Err(Fault::syntax()),
        };
        let what = match words.name {
            "BLMPOP" => What::Values(end(at)?, count),
            _ if is(at, "MIN") => What::Members { is_last: false, count },
            _ if is(at, "MAX") => What::Members { is_last: true, count },
            _ => return Err(Fault::syntax()),
        };
        Pop { keys: keys.to_vec(), what }.checked()
    }

    fn checked(self) -> Result<Pop, Fault> {
        match self.keys.len() {
            0..=KEYS_MAX => Ok(self),
            _ => Err(Fault::told(format!("ERR over {KEYS_MAX} keys are waited for: use several commands"))),
        }
    }

    /// The command that takes and does not wait, on some of the keys, with the words behind its name.
    fn without_waiting(&self, keys: &[Bytes]) -> (&'static str, Vec<Bytes>) {
        let side = |end: End| Bytes::from(if end == End::Front { "LEFT" } else { "RIGHT" });
        let of_first = |side: Bytes, count: Bytes| {
            let counted = [Bytes::from(keys.len().to_string())].into_iter().chain(keys.iter().cloned());
            counted.chain([side, "COUNT".into(), count]).collect()
        };
        let extreme = |is_last| Bytes::from(if is_last { "MAX" } else { "MIN" });
        match &self.what {
            What::Value(end) => ("LMPOP", of_first(side(*end), "1".into())),
            What::Values(end, count) => ("LMPOP", of_first(side(*end), count.clone())),
            What::Member { is_last } => ("ZMPOP", of_first(extreme(*is_last), "1".into())),
            What::Members { is_last, count } => ("ZMPOP", of_first(extreme(*is_last), count.clone())),
            What::Move { from, to, into } => {
                ("LMOVE", vec![keys[0].clone(), to.clone(), side(*from), side(*into)])
            }
        }
    }

    /// Takes what is there.
    async fn take_now(&self, store: &Store, runner: &dyn Runner) -> Result<Answer, Fault> {
        let (name, words) = self.without_waiting(&self.keys);
        let command = named(name.as_bytes()).expect("it is in the table");
        Ok(self.shaped(command.alone(store, runner, &words).await?))
    }

    async fn take_in(&self, tx: &Tx, runner: &dyn Runner, keys: &[Bytes]) -> Result<Answer, Fault> {
        let (name, words) = self.without_waiting(keys);
        let command = named(name.as_bytes()).expect("it is in the table");
        Ok(self.shaped(command.run(tx, runner, &words).await?))
    }

    /// As the command with its *B* answers.
    fn shaped(&self, answer: Answer) -> Answer {
        let (Answer::Array(parts), What::Value(_) | What::Member { .. }) = (&answer, &self.what) else {
            return answer;
        };
        let [key, Answer::Array(taken)] = &parts[..] else { return answer };
        let taken = match &taken[..] {
            [Answer::Array(pair)] => pair,
            values => values,
        };
        Answer::Array([key].into_iter().chain(taken).cloned().collect())
    }

    /// Sleeps on one key, again and again, until this takes something from it.
    async fn sleep(
        &self,
        store: &Store,
        runner: &dyn Runner,
        at: usize,
        waiting: &Waiting,
    ) -> Result<Option<Answer>, Fault> {
        loop {
            waiting.idle().await;
            if waiting.is_over.get() {
                return Ok(None);
            }
            let taken = store.try_transaction(|tx| async move {
                // A further attempt: what was found before may be gone.
                waiting.give_up(at);
                if waiting.is_over.get() {
                    return Err(Woken::Another);
                }
                self.woken(&tx, runner, at, waiting).await
            });
            let woken = match taken.await {
                Ok(answer) => return Ok(Some(answer)),
                Err(woken) => woken,
            };
            waiting.give_up(at);
            match woken {
                Woken::Another => {}
                Woken::Fault(fault) if is_late(&fault) => {}
                Woken::Fault(fault) => {
                    // What another one takes is taken, and answered.
                    waiting.idle().await;
                    return Err(fault);
                }
            }
        }
    }

    /// A transaction that sleeps, and then takes.
    async fn woken(
        &self,
        tx: &Tx,
        runner: &dyn Runner,
        at: usize,
        waiting: &Waiting,
    ) -> Result<Answer, Woken> {
        let key = &self.keys[at];
        let own = match &self.what {
            What::Value(end) => Some(*end),
            What::Move { from, to, .. } if to != key => Some(*from),
            _ => None,
        };
        let found = match own {
            Some(end) => tx.execute(key.clone(), list(ListOp::Pop(end)).waiting()).await?,
            None => tx.execute_for_update(key.clone(), self.first().waiting()).await?,
        };
        if !waiting.take(at) {
            return Err(Woken::Another);
        }
        let Reply::Bytes(value) = found else {
            return Ok(self.take_in(tx, runner, std::slice::from_ref(key)).await?);
        };
        match &self.what {
            What::Move { to, into, .. } => {
                tx.issue(to.clone(), list(ListOp::Push(*into, few([value.clone()]))))?;
                Ok(Answer::Bulk(value))
            }
            _ => Ok(Answer::Array(vec![Answer::Bulk(key.clone()), Answer::Bulk(value)])),
        }
    }

    /// Whether there is anything to take.
    fn first(&self) -> Operation {
        match self.what {
            What::Member { .. } | What::Members { .. } => {
                scored(ScoredSetOp::Range { start: 0, stop: 0, reverse: false, scores: false })
            }
            What::Value(_) | What::Values(..) | What::Move { .. } => {
                list(ListOp::Range { start: 0, stop: 0 })
            }
        }
    }
}

/// Keys, and then the time.
fn all_but_last(words: Words<'_>) -> Result<Vec<Bytes>, Fault> {
    match words.rest {
        [keys @ .., _] if !keys.is_empty() => Ok(keys.to_vec()),
        _ => Err(words.wrong_number()),
    }
}

fn end(word: &Bytes) -> Result<End, Fault> {
    match () {
        () if is(word, "LEFT") => Ok(End::Front),
        () if is(word, "RIGHT") => Ok(End::Back),
        () => Err(Fault::syntax()),
    }
}

/// Whether it has only slept for as long as one transaction does.
fn is_late(fault: &Fault) -> bool {
    matches!(fault, Fault::Store(Error::Commit(CommitError::Deadline { .. })))
}
