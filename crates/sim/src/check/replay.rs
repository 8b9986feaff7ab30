//! Carries out on the sequential model what committed, and compares the answers.

use std::collections::BTreeSet;

use claret_types::{Bytes, Effect, Reply, Unique};

use super::open::Open;
use super::precedence::Precedence;
use super::violation::Violation;
use crate::reference::Reference;
use crate::run::{Issued, RunId};

/// The sequential model while everything is carried out on it once more.
#[derive(Debug)]
pub(super) struct Replay<'a> {
    pub(super) reference: Reference,
    /// Unique numbers that were given out.
    pub(super) ids: BTreeSet<(&'a Bytes, u64)>,
    /// What has to come before what, where the order of decisions does not show it.
    pub(super) precedence: Option<Precedence>,
}

impl<'a> Replay<'a> {
    pub(super) fn precedes(&mut self, note: impl FnOnce(&mut Precedence)) {
        self.precedence.as_mut().map(note);
    }

    /// Everything that was seen has to be so, and what was said to fail fails. Nothing of it is done.
    pub(super) fn check(
        &mut self,
        run: RunId,
        issued: &'a [Issued],
        checked: &[usize],
        torn: bool,
    ) -> Result<(), Violation> {
        let (mut undo, mut open) = (Vec::new(), Open::default());
        for at in checked {
            let it = &issued[*at];
            open.end_before(*at, &mut self.reference);
            let inverse = self.take(run, it, torn)?;
            match it.undone_at {
                Some(_) => open.add(it, inverse),
                None => undo.extend(inverse.map(|inverse| (&it.key, inverse))),
            }
        }
        open.end_before(usize::MAX, &mut self.reference);
        while let Some((key, inverse)) = undo.pop() {
            self.reference.apply(key, inverse);
        }
        Ok(())
    }

    /// Carries out one operation as its user knows of it: done, impossible, or undone before it was heard of. Returns the effect's
    /// inverse.
    pub(super) fn take(
        &mut self,
        run: RunId,
        issued: &'a Issued,
        torn: bool,
    ) -> Result<Option<Effect>, Violation> {
        if !issued.fails && !issued.is_unsent() {
            return self.run(run, issued, torn);
        }
        let executed = self.reference.run(&issued.key, &issued.op, Unique(0));
        let (reply, inverse) = match executed {
            Ok(done) => done,
            Err(_) if issued.fails && issued.undone_at.is_some() => {
                self.precedes(|it| it.note_error(&issued.key));
                return Ok(None);
            }
            Err(_) => return Ok(None),
        };
        match issued.fails && !torn {
            true => {
                Err(format!("{run}: {:?} on '{}' was to fail, and answers {reply}", issued.op, issued.key))
            }
            false => Ok(inverse),
        }
    }

    /// Carries out one operation on the model and compares the answers. Returns the effect's inverse.
    pub(super) fn run(
        &mut self,
        run: RunId,
        issued: &'a Issued,
        torn: bool,
    ) -> Result<Option<Effect>, Violation> {
        let Issued { key, op, reply, .. } = issued;
        if op.is_command() && reply.as_ref().is_some_and(says_that_it_vanished) {
            return Ok(None);
        }
        // Unique numbers are the store's to choose, but it must choose well.
        let unique = match reply {
            Some(Reply::Int(number)) => Unique(*number as u64),
            _ => Unique(0),
        };
        if op.method().name == "UID.NEXT" && reply.is_some() && !self.ids.insert((key, unique.0)) {
            return Err(format!("{run}: number {} was given out twice for '{key}'", unique.0));
        }
        let claims = self.reference.claims(key, op);
        let (expected, inverse) = match self.reference.run(key, op, unique) {
            Ok(done) => done,
            Err(_) if torn => return Ok(None),
            Err(error) => return Err(format!("{run}: {op:?} on '{key}' cannot be done: {error}")),
        };
        self.precedes(|it| it.claim(key, op.type_info(), claims));
        match reply {
            Some(reply) if op.returns() && !torn && *reply != expected => {
                Err(format!("{run}: {op:?} on '{key}' was answered {reply}, and should be {expected}"))
            }
            _ => Ok(inverse),
        }
    }
}

/// Whether a command was not carried out, as its record had vanished since the vote (A25).
fn says_that_it_vanished(reply: &Reply) -> bool {
    matches!(reply, Reply::Failed(error) if error.to_string().starts_with("ERR the key expired or was removed"))
}
