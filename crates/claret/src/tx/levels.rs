//! Which savepoints and nested transactions of an attempt are open, and which of its calls may fail (`docs/nesting.md`).

use claret_core::{CallNo, Place};
use claret_types::{Bytes, Reply};
use smallvec::SmallVec;

use super::answers::Answers;
use crate::call::Call;
use crate::error::{Error, ExecuteError, NestError};

/// So many may be open at once.
pub(super) const LEVELS_MAX: usize = 16;

/// Numbers of looks begin here; calls of a driver have smaller ones.
const LOOKS: CallNo = CallNo(1 << 31);

/// A savepoint, or a nested transaction.
#[derive(Clone, Debug)]
pub(super) struct Level {
    /// Never given twice in an attempt, and not 0, which is the transaction itself.
    pub(super) id: u32,
    /// It is a nested transaction, with a handle of its own.
    pub(super) is_nested: bool,
    /// The calls from this one on are its.
    pub(super) first: CallNo,
    /// The same of those that an optimistic transaction looks at, or keeps.
    pub(super) observed: Option<Place>,
    /// So many of those that run last are not its.
    pub(super) last: usize,
    /// The same of those that take their locks later, where the transaction began within another one's closure.
    pub(super) noted: usize,
    /// What cannot be done in it.
    pub(super) doomed: Option<Error>,
}

/// What a transaction has done before a level is opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    pub(super) buffered: usize,
    pub(super) observed: Option<Place>,
    pub(super) last: usize,
    pub(super) noted: usize,
}

/// A call whose answer may be that it cannot be done, and that has none.
#[derive(Clone, Debug)]
struct Tried {
    no: CallNo,
    key: Bytes,
    /// It came with this one, which somebody may wait for.
    with: CallNo,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Levels {
    pub(super) open: Vec<Level>,
    /// The latest id.
    last: u32,
    /// The number of the next call that the driver is given.
    pub(super) next_call: u32,
    /// As the driver was told.
    pub(super) told_inside: Option<CallNo>,
    /// Calls that the driver buffers and that may fail.
    buffered: Vec<(CallNo, Bytes)>,
    tried: Vec<Tried>,
    /// What cannot be done, for who waits for its answer.
    errors: Vec<(CallNo, Error)>,
    /// Calls that are undone and whose answers somebody may wait for.
    abandoned: Vec<CallNo>,
    /// Where the ranges of calls begin that are undone: one that is undone once more with others is of their range.
    ranges: Vec<CallNo>,
}

impl Levels {
    /// Opens one.
    pub(super) fn open(&mut self, is_nested: bool, before: Before) -> Result<u32, Error> {
        if self.open.len() >= LEVELS_MAX {
            return Err(Error::Nest(NestError::TooDeep { limit: LEVELS_MAX }));
        }
        self.last += 1;
        let Before { buffered, observed, last, noted } = before;
        let first = CallNo(self.next_call + buffered as u32);
        self.open.push(Level { id: self.last, is_nested, first, observed, last, noted, doomed: None });
        Ok(self.last)
    }

    /// The nested transaction whose handle may be used; 0: the transaction's own.
    pub(super) fn scope(&self) -> u32 {
        self.open.iter().rev().find(|level| level.is_nested).map_or(0, |level| level.id)
    }

    pub(super) fn is_open(&self, id: u32) -> bool {
        id == 0 || self.open.iter().any(|level| level.id == id)
    }

    /// What some level that is open cannot do.
    pub(super) fn doomed(&self) -> Option<&Error> {
        self.open.iter().find_map(|level| level.doomed.as_ref())
    }

    /// From which call on one that cannot be done is an answer.
    pub(super) fn inside(&self) -> Option<CallNo> {
        self.open.first().map(|level| level.first)
    }

    /// The innermost one cannot be done. `false`: there is none.
    pub(super) fn doom_innermost(&mut self, error: &Error) -> bool {
        let Some(level) = self.open.last_mut() else { return false };
        level.doomed.get_or_insert_with(|| error.clone());
        true
    }

    /// A call cannot be done that stands there: that ends the innermost level which it is of. `false`: it is of none.
    pub(super) fn doom_at(&mut self, is_of: impl Fn(&Level) -> bool, error: &Error) -> bool {
        let Some(level) = self.open.iter_mut().rev().find(|level| is_of(level)) else { return false };
        level.doomed.get_or_insert_with(|| error.clone());
        true
    }

    /// A call is about to be executed, behind those that are buffered: those on its record go with it. Which of all these may fail.
    pub(super) fn note_execute(&mut self, buffered: &[Call], key: &Bytes, is_tried: bool) -> Vec<CallNo> {
        let no = CallNo(self.next_call + buffered.len() as u32);
        let first = self.next_call;
        self.next_call = no.0 + 1;
        let Some(inside) = self.inside() else { return Vec::new() };
        let fresh =
            buffered.iter().zip(first..).filter(|(call, at)| CallNo(*at) >= inside && !call.op.expects());
        self.buffered.extend(fresh.map(|(call, at)| (CallNo(at), call.key.clone())));
        let (going, staying): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.buffered).into_iter().partition(|(_, of)| of == key);
        self.buffered = staying;
        let mut tried: Vec<CallNo> = going.into_iter().map(|(at, _)| at).collect();
        tried.extend(is_tried.then_some(no));
        self.tried.extend(tried.iter().map(|at| Tried { no: *at, key: key.clone(), with: no }));
        tried
    }

    /// The driver executes what is buffered, and answers these.
    pub(super) fn note_settle(&mut self, buffered: usize, settled: &[(CallNo, Bytes)]) {
        self.next_call += buffered as u32;
        self.buffered.clear();
        self.tried.extend(settled.iter().map(|(no, key)| Tried { no: *no, key: key.clone(), with: *no }));
    }

    /// A call that may fail was answered: its record, and which one it came with.
    fn take_tried(&mut self, no: CallNo) -> Option<(Bytes, CallNo)> {
        if self.tried.is_empty() {
            return None; // Mostly.
        }
        let at = self.tried.iter().position(|it| it.no == no)?;
        let it = self.tried.swap_remove(at);
        Some((it.key, it.with))
    }

    /// The answer of a call. What it ends, if it cannot be done and is of no level.
    pub(super) fn hear(
        &mut self,
        no: CallNo,
        reply: Reply,
        answers: &mut Answers,
        answered: &mut SmallVec<[CallNo; 8]>,
    ) -> Option<Error> {
        let Some((key, with)) = self.take_tried(no) else {
            answers.put(no, reply);
            answered.push(no);
            return None;
        };
        answered.push(with);
        let error = match reply {
            Reply::Failed(error) => Error::Execute(ExecuteError::Invalid { key, error: *error }),
            reply => {
                if no == with {
                    answers.put(no, reply);
                }
                return None;
            }
        };
        self.errors.push((with, error.clone()));
        let is_inside = self.doom_at(|level| level.first <= no, &error);
        (!is_inside).then_some(error)
    }

    /// The error that stands for an answer.
    pub(super) fn error_of(&mut self, no: CallNo) -> Option<Error> {
        if self.abandoned.contains(&no) {
            return Some(Error::Nest(NestError::RolledBack));
        }
        let at = self.errors.iter().position(|(known, _)| *known == no)?;
        Some(self.errors.swap_remove(at).1)
    }

    /// Something was seen to be impossible that stands there. What it ends, if it is of no level.
    pub(super) fn hear_seen(&mut self, error: Error, at: Place) -> Option<Error> {
        let is_of = |level: &Level| level.observed.is_some_and(|from| from <= at);
        (!self.doom_at(is_of, &error)).then_some(error)
    }

    /// Whether something that came with a call has no answer: then nobody knows whether that call's is good.
    pub(super) fn is_held_back(&self, no: CallNo) -> bool {
        self.tried.iter().any(|it| it.with == no)
    }

    /// The calls from this one on are undone.
    pub(super) fn undo(&mut self, from: CallNo) {
        self.buffered.retain(|(no, _)| *no < from);
        self.tried.retain(|it| it.no < from);
        self.errors.retain(|(no, _)| *no < from);
    }

    /// The driver undoes the calls from this one on. How many ranges that makes, in all.
    pub(super) fn note_range(&mut self, from: CallNo) -> usize {
        self.ranges.retain(|known| *known < from);
        self.ranges.push(from);
        self.ranges.len()
    }

    /// Nobody gets an answer to these any more.
    pub(super) fn abandon(&mut self, calls: Vec<CallNo>) {
        self.abandoned.extend(calls);
    }

    /// Whether a number is that of a call from this one on, and of no look.
    pub(super) fn is_call_from(no: CallNo, from: CallNo) -> bool {
        from <= no && no < LOOKS
    }

    /// The levels from this one on end. That one, if it was open.
    pub(super) fn close(&mut self, id: u32) -> Option<Level> {
        let at = self.open.iter().position(|level| level.id == id)?;
        let level = self.open[at].clone();
        self.open.truncate(at);
        if self.open.is_empty() {
            self.buffered.clear();
        }
        Some(level)
    }

    /// It is open again, and nothing was done in it.
    pub(super) fn reopen(&mut self, level: Level) {
        self.open.push(Level { doomed: None, ..level });
    }

    /// Another attempt begins.
    pub(super) fn begin_again(&mut self) {
        *self = Levels { last: self.last, ..Levels::default() };
    }
}
