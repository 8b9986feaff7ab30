//! What a store is built on: shards in this process ([`crate::embedded`]), or those of a cluster (`cluster`).
//!
//! A [`Backend`] begins transactions, and runs at once those that need neither a message nor a lock. All other steps
//! of a transaction go through its [`Driver`]. Nothing above these two traits names a host. What differs and shows is asked of the
//! backend by what it does, as [`Backend::applies_at_once`] and [`Backend::checks_answers`].

use std::fmt;
use std::future::{Future, ready};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use claret_core::message::{Refusal, Seen, Undone};
use claret_core::{AttemptId, CallNo, Closed, Event, Limits, Time, Waits};
use claret_types::{Bytes, Claims, OpError, Operation, Reply, Schema, State};
use smallvec::SmallVec;

use crate::call::Call;
use crate::durability::{BackupError, LogStatus};
use crate::error::{BeginError, BlockedOn, Error};
use crate::mailbox::Mailbox;
use crate::mode::Mode;
use crate::outcome::{Outcome, OutcomeId};
use crate::pages::Pages;
use crate::stats::{Counts, Stats};

/// A record that a transaction waits for, and one of its holders that are in the way, if that is known.
pub(crate) type Behind = (Bytes, Option<AttemptId>);

/// A future without a value.
pub(crate) type Task<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Ends when a store is closed.
pub(crate) type Closing<'a> = Pin<Box<dyn Future<Output = Result<(), Error>> + Send + 'a>>;

/// Ends when what was committed is durable.
pub(crate) type UntilDurable = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// Ends when it is known what became of a transaction.
pub(crate) type Asking = Pin<Box<dyn Future<Output = Result<Outcome, Error>> + Send>>;
/// Ends when a backup is whole.
pub(crate) type Backup = Pin<Box<dyn Future<Output = Result<(), BackupError>> + Send>>;

/// What a transaction of known calls came to, where it was to be done at once.
#[derive(Debug)]
pub(crate) enum InstantOutcome {
    Done(Vec<Reply>),
    /// Somebody's claims are in the way, or a message is needed; nothing was done.
    Blocked,
    Failed {
        key: Bytes,
        error: OpError,
    },
}

/// What calls came to that were sent as they are.
#[derive(Debug)]
pub(crate) enum SentOutcome {
    /// Their answers, in their order.
    Done(Vec<Reply>),
    /// One of them was refused. Others may have been carried out.
    Failed(Refusal),
    /// Some of them may have been carried out or not.
    Unknown,
}

/// Calls that were sent as they are, each for itself and outside of transactions.
pub(crate) trait Sent: fmt::Debug + Send + Sync {
    /// What they came to, once; until then this task is woken when that is known.
    fn take(&self, waker: &Waker) -> Option<SentOutcome>;

    /// Sends the same calls once more.
    fn again(&self) -> Arc<dyn Sent>;
}

/// See the module's text. Shared by all handles of a store.
pub(crate) trait Backend: fmt::Debug + Send + Sync {
    // --- what it is ---

    fn mode(&self) -> Mode;

    fn limits(&self) -> &Limits;

    /// Adds to what is shown of a store: its shards, or its nodes.
    fn describe(&self, out: &mut fmt::DebugStruct<'_, '_>);

    /// What is counted of transactions, wherever they run.
    fn counts(&self) -> &Counts;

    fn stats(&self) -> Stats;

    /// # Panics
    /// When an inner invariant does not hold.
    fn check_invariants(&self);

    /// Looks at a record's committed content, outside any transaction.
    ///
    /// # Errors
    /// The records are not in this process.
    fn peek(&self, _key: &Bytes, _at: &mut dyn FnMut(&State)) -> Result<(), Error> {
        Err(Error::Begin(BeginError::Unsupported {
            asked: "view of records outside transactions",
            host: "on a cluster",
            instead: "read the record in a transaction, or ask the server",
        }))
    }

    /// Whether operations of this type can be done here.
    ///
    /// # Errors
    /// When they cannot: what to do instead.
    fn knows(&self, op: &Operation) -> Result<(), OpError>;

    /// What the user's schema is, which every operation is held against before anything else is done.
    fn schema(&self) -> Option<&Schema> {
        None
    }

    /// Makes times absolute that are relative to now, where the shards are in this process (P71, A35). Elsewhere the shard does it.
    fn resolve(&self, _op: &mut Operation) {}

    /// Whether each operation is carried out when it is issued: mode `none` in this process.
    fn applies_at_once(&self) -> bool {
        false
    }

    /// Whether answers come from other processes, which may be wrong or hostile.
    fn checks_answers(&self) -> bool;

    /// Waits until what has committed so far is durable, where the store has a log; `None`: it is, as far as is promised.
    fn until_durable(&self) -> Option<UntilDurable> {
        None
    }

    /// How far the log was noted, where there is one.
    fn noted(&self) -> u64 {
        0
    }

    /// Names a transaction that was noted in the log behind this position, and by now.
    fn name_in_log(&self, _from: u64) -> OutcomeId {
        OutcomeId::nobody()
    }

    /// Asks what became of a transaction (P89).
    fn outcome(&self, _id: &OutcomeId) -> Asking {
        Box::pin(std::future::ready(Ok(Outcome::Forgotten)))
    }

    /// Whether commits are written to a log.
    fn has_log(&self) -> bool {
        false
    }

    /// How the store's log stands.
    ///
    /// # Errors
    /// It has none.
    fn log_status(&self) -> Result<LogStatus, Error> {
        Err(Error::Begin(BeginError::Unsupported {
            asked: "log of its own",
            host: "on a cluster",
            instead: "ask the server (`INFO persistence`)",
        }))
    }

    /// Copies the store into a folder. Elsewhere than in a folder of its own: never.
    fn back_up(&self, _folder: &Path) -> Backup {
        Box::pin(ready(Err(BackupError::OnACluster)))
    }

    /// Whether the store's log takes something that writes, or does not.
    ///
    /// # Errors
    /// When it does not: why.
    fn check_log(&self, _writes: bool) -> Result<(), Error> {
        Ok(())
    }

    /// Whether it was closed, or the runtime that it lives on has ended: nothing is begun any more. Asked for each operation.
    fn is_closed(&self) -> bool;

    /// The keys that match a pattern, as they are from now on, outside of transactions.
    fn keys(self: Arc<Self>, pattern: Bytes) -> Box<dyn Pages>;

    // --- transactions ---

    /// Carries out calls that are all known, if nobody's claims are in the way and no message is needed for it. All or
    /// nothing.
    fn instant(&self, calls: &[Call]) -> InstantOutcome;

    /// The same of calls that are executed and not carried out (O5 of `docs/optimistic.md`).
    fn check_instantly(&self, _calls: &[Call]) -> InstantOutcome {
        InstantOutcome::Blocked
    }

    /// Whether there are locks, so that a transaction may do without them.
    fn observes(&self) -> bool {
        false
    }

    /// Looks what the last of these operations on a record would answer, behind the others (O1). `None`: [`Event::Seen`] comes with
    /// this number. Only where [it observes](Self::observes).
    fn look(
        &self,
        _mailbox: &Arc<Mailbox>,
        _no: CallNo,
        _key: &Bytes,
        _ops: SmallVec<[Operation; 1]>,
    ) -> Option<Seen> {
        Some(Seen::Refused(Refusal::ReadOnly))
    }

    /// Nobody waits any more for what was looked at.
    fn leave_looks(&self, _mailbox: &Arc<Mailbox>) {}

    /// Sends calls that are all known as they are, where there are no locks: mode `none` on a cluster. Elsewhere they come
    /// back, and need a transaction.
    fn send(&self, calls: Vec<Call>) -> Result<Arc<dyn Sent>, Vec<Call>> {
        Err(calls)
    }

    /// Whether others bring about what becomes of a commit, and put it into the mailbox: whoever waits for it has nothing to do.
    fn commits_by_itself(&self) -> bool {
        false
    }

    /// A transaction that has something to hold or to wait for begins. `since`: it is as old as what began then.
    fn begin(self: Arc<Self>, mailbox: &Arc<Mailbox>, since: Option<Time>) -> Box<dyn Driver>;

    /// The shortest and the longest pause before an attempt that was refused like this is run again, in microseconds;
    /// `None`: at once.
    fn pause_after(&self, refusal: &Refusal) -> Option<(u64, u64)>;

    // --- time ---

    fn now(&self) -> Time;

    /// How long the end of an attempt is waited for that was withdrawn; `None`: it comes, since shards are a call away.
    fn patience(&self) -> Option<Duration> {
        None
    }

    /// The deadline passed, or the store was closed; who is known to be in the way.
    fn too_late(&self, after: Duration) -> Error;

    /// Wakes this task at the next tick of a coarse timer, well before a time is over that begins now: the tick's number.
    /// `None`: there is no such timer, or it ticks too seldom for that.
    fn join_tick(&self, _time: Duration, _waker: &Waker) -> Option<u64> {
        None
    }

    /// Ends after some time, by a millisecond more or less; `None`: the backend has no timers of its own.
    fn timer(&self, _after: Duration) -> Option<Task<'static>> {
        None
    }

    /// From now on [it is closed](Self::is_closed), and who waits for an answer is woken. Ends once what was committing is over
    /// and told, and connections are closed.
    fn close(&self) -> Closing<'_>;
}

/// Speaks to the shards for one transaction. It is made when there is something to hold or to wait for: a transaction
/// that does everything instantly has none.
///
/// Each call names the attempt that it is of. One that is over takes nothing, whatever its user does with it (P61).
pub(crate) trait Driver: fmt::Debug + Send {
    /// Executes a call behind those that are buffered, which go with it.
    fn execute(
        &mut self,
        attempt: u32,
        buffered: &mut Vec<Call>,
        call: Call,
        reserve: Option<Claims>,
    ) -> Result<CallNo, Closed>;

    /// Whether an operation of another transaction may wait for what this one has executed.
    fn conflicts_with(&self, key: &Bytes, op: &Operation) -> bool;

    /// Under which name the shards know the attempt, if they do.
    fn name(&self) -> Option<AttemptId> {
        None
    }

    /// Names the attempt that is committing, or whose outcome nobody knows, for who asks later.
    fn outcome_id(&mut self) -> Option<OutcomeId> {
        None
    }

    /// Asks who is in the way of the transaction, where another process knows: [`Event::Behind`] follows, unless it is lost.
    /// Whether there is anything to wait for.
    fn ask_behind(&mut self) -> bool {
        false
    }

    /// Whether it waits for other transactions, as far as it has heard.
    fn is_blocked(&self) -> bool {
        false
    }

    /// The records that it waits for, if it does; of a commit, all that it may wait for.
    fn waits_for(&self) -> Vec<Bytes> {
        Vec::new()
    }

    /// What the transaction waits for, if that is known. `told`: what came of [`Driver::ask_behind`].
    fn wait(&self, _told: Option<&Behind>) -> Option<BlockedOn> {
        None
    }

    /// Commits, with what is buffered.
    fn commit(&mut self, attempt: u32, buffered: &mut Vec<Call>) -> Result<(), Closed>;

    /// Checks, with what is buffered, and does nothing: [`Event::Committed`] says that all can be done together (O5).
    fn check(&mut self, _attempt: u32, _buffered: &mut Vec<Call>) -> Result<(), Closed> {
        Err(Closed)
    }

    /// The attempt cannot commit, and is to be run again: [`Event::Restart`] follows.
    fn renounce(&mut self, _attempt: u32, _refusal: Refusal) -> Result<(), Closed> {
        Err(Closed)
    }

    /// From this call on, one that cannot be done is an answer (N5 of `docs/nesting.md`).
    fn may_fail_from(&mut self, _attempt: u32, _inside: Option<CallNo>) -> Result<(), Closed> {
        Ok(())
    }

    /// Undoes the calls from this one on (N1). Where nothing is promised, nothing is undone.
    fn undo(&mut self, _attempt: u32, _from: CallNo) -> Result<(), Closed> {
        Ok(())
    }

    /// Executes what is buffered: the calls that are answered, with their records (N8).
    fn settle(&mut self, _attempt: u32, _buffered: &mut Vec<Call>) -> Result<Vec<(CallNo, Bytes)>, Closed> {
        Ok(Vec::new())
    }

    /// Calls with these numbers, which come with the commit, are executed and not carried out (N6).
    fn only_check(&mut self, _attempt: u32, _ranges: &[Undone]) -> Result<(), Closed> {
        Err(Closed)
    }

    /// Commits a transaction of calls that are all known. They may be needed again.
    fn commit_all(&mut self, attempt: u32, calls: &[Call]) -> Result<(), Closed> {
        self.commit(attempt, &mut calls.to_vec())
    }

    fn abort(&mut self);

    /// Begins the next attempt after this one.
    fn restart(&mut self, ended: u32) -> Result<(), Closed>;

    /// Exchanges messages and hands on what they brought. By default others do that, and put it into the mailbox.
    fn exchange(&mut self, mailbox: &Mailbox, note: &mut dyn FnMut(Event)) {
        mailbox.take_events().into_iter().for_each(note);
    }

    /// When [`Self::handle_timeout`] has something to do. By default others see to that.
    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn handle_timeout(&mut self, _now: Time) {}

    /// Nobody is interested in the transaction any more: nothing for it arrives, and it is given up if it was not over.
    /// `is_over`: it said so by its last event.
    fn end(&mut self, is_over: bool);
}

/// The keys of records that a transaction waits for.
pub(crate) fn keys_of(waits: Waits) -> Vec<Bytes> {
    waits.records.into_iter().map(|(_, key)| key).collect()
}
