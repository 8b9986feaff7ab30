//! What a client process does for optimistic transactions: looks that have no answer yet, and checks (O1, O2, O5 of
//! `docs/optimistic.md`).
//!
//! A look belongs to no attempt, and a shard keeps nothing of it. So it is asked again until there is an answer, wherever the record's
//! slot is by then, over whatever connection.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use claret_types::{Bytes, Operation};
use smallvec::SmallVec;

use crate::client::{Client, is_about_places};
use crate::coordinator::Closed;
use crate::ids::{CallNo, LookNo, ShardId, Time, TxHandle};
use crate::limits::Limits;
use crate::message::{Refusal, Request, Seen, Undone};

/// So often whoever has voted is waited for, with pauses that double. Then what is there counts.
const LATERS_MAX: u32 = 8;

/// One that has no answer.
#[derive(Clone, Debug)]
struct Look {
    slot: u16,
    key: Bytes,
    ops: SmallVec<[Operation; 1]>,
    /// How often it was told to ask later.
    laters: u32,
    /// Whom it asked last, and that it has no answer from there.
    asked: ShardId,
    is_asked: bool,
    /// When it asks again.
    due: Time,
}

/// See the module's text.
#[derive(Clone, Debug)]
pub(in crate::client) struct Looks {
    next: u64,
    open: BTreeMap<LookNo, Look>,
    /// When each asks again.
    due: BTreeSet<(Time, LookNo)>,
    seen: VecDeque<(LookNo, Seen)>,
    resend_us: u64,
    pause_us_min: u64,
    pause_us_max: u64,
}

impl Looks {
    pub(in crate::client) fn new(limits: &Limits) -> Self {
        Looks {
            next: 0,
            open: BTreeMap::new(),
            due: BTreeSet::new(),
            seen: VecDeque::new(),
            resend_us: limits.resend_us,
            pause_us_min: limits.backoff_us_min,
            pause_us_max: limits.backoff_us_max,
        }
    }

    /// When some are to be asked again.
    pub(in crate::client) fn poll_timeout(&self) -> Option<Time> {
        self.due.first().map(|(due, _)| *due)
    }

    /// A connection is new: what was asked may be lost.
    pub(in crate::client) fn ask_again(&mut self, now: Time) {
        self.due = self.open.keys().map(|look| (now, *look)).collect();
        self.open.values_mut().for_each(|look| (look.due, look.is_asked) = (now, false));
    }

    fn set(&mut self, look: LookNo, due: Time) {
        let Some(it) = self.open.get_mut(&look) else { return };
        self.due.remove(&(it.due, look));
        it.due = due;
        self.due.insert((due, look));
    }

    fn end(&mut self, look: LookNo) {
        if let Some(it) = self.open.remove(&look) {
            self.due.remove(&(it.due, look));
        }
    }

    /// # Panics
    /// When one is not due at its time.
    pub(in crate::client) fn check_invariants(&self) {
        let due: BTreeSet<_> = self.open.iter().map(|(look, it)| (it.due, *look)).collect();
        assert_eq!(due, self.due, "looks that are due");
    }

    fn pause(&self, laters: u32) -> u64 {
        (self.pause_us_min << laters.min(20)).min(self.pause_us_max)
    }
}

impl Client {
    /// Asks what the last of these operations on a record would answer, behind the others: see [`Request::Look`].
    /// [`Self::poll_looked`] has the answer, once.
    pub fn look(&mut self, now: Time, (slot, key): (u16, Bytes), ops: SmallVec<[Operation; 1]>) -> LookNo {
        let look = LookNo(self.looks.next);
        self.looks.next += 1;
        let asked = self.shard_of(slot);
        let it = Look { slot, key, ops, laters: 0, asked, is_asked: false, due: now };
        self.looks.open.insert(look, it);
        self.looks.due.insert((now, look));
        self.ask_looks(now);
        look
    }

    /// Nobody waits for this one any more.
    pub fn leave_look(&mut self, look: LookNo) {
        self.looks.end(look);
    }

    /// The next look that has its answer. It is never [`Seen::Later`].
    pub fn poll_looked(&mut self) -> Option<(LookNo, Seen)> {
        self.looks.seen.pop_front()
    }

    /// Sends those that are due.
    pub(in crate::client) fn ask_looks(&mut self, now: Time) {
        self.outputs.now = now;
        while let Some((due, look)) = self.looks.due.first().copied().filter(|(due, _)| *due <= now) {
            let again = now.plus(self.looks.resend_us.max(1));
            let Some(it) = self.looks.open.get_mut(&look) else {
                self.looks.due.remove(&(due, look));
                continue;
            };
            it.asked = self.routes.shard_of(it.slot);
            let (key, ops, at_once) = (it.key.clone(), it.ops.clone(), it.laters >= LATERS_MAX);
            // What is on its way still is of use (P42).
            let is_repeated = std::mem::replace(&mut it.is_asked, true);
            let (shard, request) = (it.asked, Request::Look { look, key, ops, at_once });
            self.looks.set(look, again);
            self.outputs.repeats_after = is_repeated.then_some(self.resend_us);
            self.outputs.send_look(shard, request);
            self.outputs.repeats_after = None;
        }
    }

    /// A shard has answered one.
    pub(in crate::client) fn looked(&mut self, now: Time, from: ShardId, look: LookNo, seen: Seen) {
        // An answer to an earlier question may come late, and is as good; not one of somebody who was not asked.
        let Some(it) = self.looks.open.get_mut(&look).filter(|it| it.asked == from) else { return };
        let is_final = match &seen {
            Seen::Later => false,
            Seen::Refused(refusal) => {
                self.doubts_topology |= is_about_places(refusal);
                // Whoever holds something may be what a slot waits for.
                !refusal.is_retryable() || it.laters >= LATERS_MAX
            }
            Seen::Answer { .. } | Seen::Fails { .. } => true,
        };
        if is_final {
            self.looks.end(look);
            return self.looks.seen.push_back((look, seen));
        }
        let laters = it.laters;
        (it.laters, it.is_asked) = (laters + 1, false);
        let due = now.plus(self.looks.pause(laters));
        self.looks.set(look, due);
    }

    /// As [`Self::commit`], of calls that are executed and not carried out: [`Event::Committed`](crate::Event::Committed) says that
    /// all of them can be done together, in real time, and nothing is done (O5).
    ///
    /// # Errors
    /// As of [`Self::commit`].
    pub fn check(&mut self, now: Time, tx: (TxHandle, u32)) -> Result<(), Closed> {
        self.suggest(now);
        let (keeper, process) = self.transactions.keeper_mut();
        keeper.check(process, now, tx)
    }

    /// From this call on, one that is executed and cannot be done is an answer, and no end of the attempt (N5 of `docs/nesting.md`).
    ///
    /// # Errors
    /// [`Closed`] when that attempt does not run (any more), or is run again first: an event tells of that.
    pub fn may_fail_from(
        &mut self,
        now: Time,
        tx: (TxHandle, u32),
        inside: Option<CallNo>,
    ) -> Result<(), Closed> {
        let (keeper, process) = self.transactions.keeper_mut();
        keeper.may_fail_from(process, now, tx, inside)
    }

    /// Undoes the calls from this one on (N1).
    ///
    /// # Errors
    /// [`Closed`] when that attempt does not run (any more).
    pub fn undo(&mut self, now: Time, tx: (TxHandle, u32), from: CallNo) -> Result<(), Closed> {
        let (keeper, process) = self.transactions.keeper_mut();
        keeper.undo(process, now, tx, from)
    }

    /// Executes what is buffered (N8): the calls that are answered, with their records.
    ///
    /// # Errors
    /// As of [`Self::may_fail_from`].
    pub fn settle_buffered(
        &mut self,
        now: Time,
        tx: (TxHandle, u32),
    ) -> Result<Vec<(CallNo, Bytes)>, Closed> {
        let (keeper, process) = self.transactions.keeper_mut();
        keeper.settle_buffered(process, now, tx)
    }

    /// Calls with these numbers, which go with the commit, are executed and not carried out (N6).
    ///
    /// # Errors
    /// As of [`Self::may_fail_from`].
    pub fn only_check(&mut self, now: Time, tx: (TxHandle, u32), ranges: &[Undone]) -> Result<(), Closed> {
        let (keeper, process) = self.transactions.keeper_mut();
        keeper.only_check(process, now, tx, ranges)
    }

    /// The attempt's user has found that it cannot commit, and may run it again: [`Event::Restart`](crate::Event::Restart) follows.
    ///
    /// # Errors
    /// [`Closed`] when that attempt does not run (any more).
    pub fn renounce(&mut self, now: Time, tx: (TxHandle, u32), refusal: Refusal) -> Result<(), Closed> {
        let (keeper, process) = self.transactions.keeper_mut();
        keeper.renounce(process, now, tx, refusal)
    }
}
