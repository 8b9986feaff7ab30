//! What a transaction runs at its commit, behind all others, and what is answered with it (P90).
//!
//! It is kept apart until the commit begins, so that nothing else of the transaction sees it or takes it along. Then its calls are the
//! last of all. So their answers are found by number: that of the first of them, and how many are before it.

use claret_core::CallNo;
use claret_types::{Bytes, OpError, Reply};

use crate::call::Call;

/// All answers, the keys of those that may be values of another type, and which were rolled back.
pub(crate) type Answered = (Vec<Reply>, Vec<(usize, Bytes)>, Vec<usize>);

/// Of one attempt.
#[derive(Debug, Default)]
pub(super) struct Last {
    calls: Vec<Kept>,
    /// The keys of calls whose answers may be values of another type, in their order.
    keys: Vec<(usize, Bytes)>,
    /// The number of the first that is not undone, once the commit has begun.
    first: Option<CallNo>,
}

#[derive(Debug)]
struct Kept {
    /// `None`: it is undone, or is on its way with the commit.
    call: Option<Call>,
    is_undone: bool,
    answers: bool,
}

impl Last {
    /// Keeps a call. Its place.
    pub(super) fn keep(&mut self, call: Call, names_key: bool) -> usize {
        let (at, answers) = (self.calls.len(), call.op.returns());
        if names_key {
            self.keys.push((at, call.key.clone()));
        }
        self.calls.push(Kept { call: Some(call), is_undone: false, answers });
        at
    }

    /// Takes the calls out, as the commit begins: the first has this number.
    pub(super) fn take(&mut self, first: CallNo) -> impl Iterator<Item = Call> + '_ {
        self.first = Some(first);
        self.calls.iter_mut().filter_map(|kept| kept.call.take())
    }

    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Those from this one on are undone.
    pub(super) fn undo(&mut self, from: usize) {
        for kept in self.calls.iter_mut().skip(from) {
            kept.is_undone = true;
            kept.call = None;
        }
    }

    /// Once it has committed with these answers. `None`: one is missing.
    pub(super) fn replies(&self, committed: &[(CallNo, Reply)]) -> Option<Answered> {
        let first = self.first.map_or(0, |no| no.0);
        let mut came = vec![None; self.calls.len()];
        for (no, reply) in committed {
            // A shard may name calls that nobody made.
            let place = no.0.checked_sub(first).and_then(|at| came.get_mut(at as usize));
            place.into_iter().for_each(|place| *place = Some(reply));
        }
        let mut came = came.into_iter();
        let mut all = Vec::with_capacity(self.calls.len());
        for kept in &self.calls {
            if kept.is_undone {
                let error = OpError::Custom("it was rolled back".into());
                all.push(Reply::Failed(Box::new(error)));
                continue;
            }
            match came.next().flatten() {
                Some(reply) => all.push(reply.clone()),
                None if kept.answers => return None,
                None => all.push(Reply::Ok),
            }
        }
        let undone = self.calls.iter().enumerate().filter(|(_, kept)| kept.is_undone).map(|(at, _)| at);
        Some((all, self.keys.clone(), undone.collect()))
    }
}
