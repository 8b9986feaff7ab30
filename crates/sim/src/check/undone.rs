//! What a user has undone, and what it heard that cannot be done: nothing of it is done, and what was answered is true all the same
//! (`docs/nesting.md`).

use claret_types::{Bytes, OpError, Unique};

use super::open::Open;
use super::{Ledger, Violation};
use crate::reference::Reference;
use crate::run::RunId;

impl Ledger {
    /// How many operations a run has issued.
    pub(crate) fn issued(&self, run: RunId) -> usize {
        self.runs.get(&run).map_or(0, |log| log.issued.len())
    }

    /// A user undoes what it issued from this place on.
    pub(crate) fn note_undone(&mut self, run: RunId, from: usize) {
        let issued = &mut self.runs.entry(run).or_default().issued;
        let to = issued.len();
        for it in &mut issued[from..] {
            it.undone_at.get_or_insert(to);
        }
    }

    /// A user hears that an operation cannot be done. Whether it is not undone.
    pub(crate) fn note_failing(&mut self, run: RunId, at: usize) -> Result<bool, Violation> {
        let issued = &mut self.runs.entry(run).or_default().issued[at];
        if let Some(reply) = &issued.reply {
            return Err(format!("{run}: {:?} was answered {reply} and then cannot be done", issued.op));
        }
        issued.fails = true;
        Ok(issued.undone_at.is_none())
    }

    /// A run is about to be checked, and to do nothing: what its user heard, and what was done on the same records before.
    pub(crate) fn note_check(&mut self, run: RunId) {
        let log = self.runs.entry(run).or_default();
        let is_heard = |at: usize| log.issued[at].reply.is_some() || log.issued[at].fails;
        let counts = |at: &usize| {
            let mut later =
                (*at..log.issued.len()).filter(|later| log.issued[*later].key == log.issued[*at].key);
            later.any(is_heard)
        };
        log.checked = Some((0..log.issued.len()).filter(counts).collect());
    }

    /// Some operation of the run on the record must fail here, too, and not one that is undone.
    pub(super) fn check_failed(
        &self,
        reference: &mut Reference,
        run: RunId,
        key: &Bytes,
    ) -> Result<(), Violation> {
        let (mut undo, mut open) = (Vec::new(), Open::default());
        let mut fails = None;
        let all = self.runs[&run].issued.iter().enumerate();
        for (at, issued) in all.filter(|(_, issued)| issued.key == *key) {
            open.end_before(at, reference);
            match reference.run(key, &issued.op, Unique(0)) {
                Ok((_, inverse)) if issued.undone_at.is_some() => open.add(issued, inverse),
                Ok((_, inverse)) => undo.extend(inverse),
                Err(_) if issued.undone_at.is_some() => {}
                Err(error) => {
                    fails = Some(error);
                    break;
                }
            }
        }
        open.end_before(usize::MAX, reference);
        while let Some(inverse) = undo.pop() {
            reference.apply(key, inverse);
        }
        match (fails, self.refusals.found(run)) {
            (Some(OpError::Unexpected { found, .. }), Some(said)) if *found != *said => {
                Err(format!("{run}: was refused for '{key}', which answers {said}, and it answers {found}"))
            }
            (Some(_), _) => Ok(()),
            (None, _) => {
                Err(format!("{run}: was refused for '{key}', and all it asked for there can be done"))
            }
        }
    }
}
