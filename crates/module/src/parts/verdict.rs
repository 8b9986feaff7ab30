//! The verdict on a plain command beside transactions (`docs/plain-commands.md` has the rules). The filter asks for
//! it when it sees a command, and `CLARET.READ` and its kin when they run it.
//!
//! [`Locks::conflict`] answers the question beneath it: whether the use of a key conflicts with what is held. EXEC
//! and pops that wake ask only that.

use claret_core::Shard;
use claret_planted::{Bug, is_planted};
use claret_types::{Access, Bytes, Mode, Operation, Scope, TypeInfo};

use crate::parts::blocked_clients::BlockedClients;
use crate::parts::command_table::{Row, Special};
use crate::parts::error::Error;
use crate::parts::plain::{self, Plain};
use crate::parts::queue::Queue;

/// What is held, by whom it may be used all the same, and where blocked clients take what comes.
#[derive(Clone, Copy)]
pub(crate) struct Locks<'a> {
    pub(crate) shard: &'a Shard,
    pub(crate) queue: &'a Queue,
    pub(crate) blocked_clients: &'a BlockedClients,
}

/// How far one may look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// At locks alone: by what an operation claims whatever is in the record. The filter may read no key, which could
    /// expire.
    Locks,
    /// Into the record: by what the operation would claim in it.
    Records,
}

impl Locks<'_> {
    /// Whether a use of a key conflicts with what others hold; with what is kept for the next try of a command nothing
    /// does. `op`: the operation that the use is, if it is one; otherwise the whole record is used, and what is in it
    /// does not matter, which may be much.
    pub(crate) fn conflict(&self, key: &[u8], access: Access, op: Option<&Operation>, look: Look) -> bool {
        let is_reserved = || self.queue.is_reserved(key) && !is_planted(Bug::ReservedInTheWay);
        let Some(held) = self.shard.held_as(key) else {
            return !self.shard.is_settled_on(key) && !is_reserved();
        };
        if is_reserved() {
            return false;
        }
        self.is_unsettled(key, op) || self.is_held_in_conflict(key, held, access, op, look)
    }

    /// Whether something that was ordered on a key, and that a use of it may tell of, is not settled (P83).
    fn is_unsettled(&self, key: &[u8], op: Option<&Operation>) -> bool {
        !match op {
            Some(op) => self.shard.is_settled_for(key, op),
            None => self.shard.is_settled_on(key),
        }
    }

    fn is_held_in_conflict(
        &self,
        key: &[u8],
        held: &'static TypeInfo,
        access: Access,
        op: Option<&Operation>,
        look: Look,
    ) -> bool {
        // What is brought would go to who sleeps, while somebody relies on the key.
        let brings = |access| {
            access == Access::Write
                && self.blocked_clients.is_on(key)
                && !is_planted(Bug::BlockedClientGetsHeld)
        };
        match op {
            // By its own type's table.
            Some(op) if op.type_info().common_modes(held).is_some() && !brings(op.method().access) => {
                match look {
                    Look::Locks => {
                        self.shard.conflicts_with(key, op.type_info(), &op.footprint_with_expiry())
                    }
                    Look::Records => self.shard.conflicts(key, op),
                }
            }
            _ => {
                brings(access)
                    || self.conflicts_as_a_whole(key, held, access) && !is_planted(Bug::OtherTypesPass)
            }
        }
    }

    fn conflicts_as_a_whole(&self, key: &[u8], held: &'static TypeInfo, access: Access) -> bool {
        let op = match access {
            Access::Read if !is_planted(Bug::ReadsExclude) => plain::whole_read(held),
            Access::Read | Access::Write => plain::whole(Access::Write),
        };
        // Its claims are in the modes of its type; where it has none of its own, in the holder's.
        let is_plain = op.type_info().id == TypeInfo::of::<Plain>().id;
        let modes = if is_plain { held } else { op.type_info() };
        // It may show when the record expires, whatever it is.
        let claims = op.footprint().and(Scope::Record, Mode::READ_EXPIRY);
        self.shard.conflicts_with(key, modes, &claims)
    }
}

/// Who asks for a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// The filter, which sees what a client sends before the server does.
    Filter,
    /// A command of the module's that runs it.
    Command {
        /// It is put before what only reads.
        only_reads: bool,
        /// It is known who its client is, or nobody has to say.
        is_known: bool,
    },
}

/// In what circumstances a command is sent. What the filter cannot know is as if the command would run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    pub(crate) asker: Asker,
    /// It is queued for an EXEC, or run by one: EXEC looks at all its keys.
    pub(crate) in_exec: bool,
    pub(crate) in_script: bool,
    /// Its client can be made to wait.
    pub(crate) may_wait: bool,
    /// Its client's user may run it.
    pub(crate) is_allowed: bool,
    /// Pops wait in the module by now, and not in the server.
    pub(crate) pops_wait_here: bool,
}

/// What becomes of a command.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict<K> {
    /// The server runs it as it is: nothing is in its way, or the server refuses it itself.
    Passes,
    /// It waits its turn: the first key that is held in conflict.
    Waits(K),
    /// It takes what there is, or waits in the module until there is something.
    Pops,
    /// It takes a slot away, and waits for those who use keys of it.
    TakesSlot,
    /// It would have to wait and cannot: nothing is done, and its keys are kept for its next try.
    TriesAgain(K),
    /// The module may not run it.
    Refused(Error),
}

/// A command that somebody asks about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) row: Row,
    pub(crate) name: &'a [u8],
    /// How many words it has, its name among them.
    pub(crate) words: usize,
    pub(crate) standing: Standing,
}

impl Asked<'_> {
    /// `conflict` finds the first of the command's keys that is held in conflict; it is asked only if that matters.
    pub(crate) fn verdict<K>(self, conflict: impl FnOnce() -> Option<K>) -> Verdict<K> {
        let Asked { row, words, standing, .. } = self;
        if let Some(error) = self.refusal() {
            return Verdict::Refused(error);
        }
        // EXEC does not look at the keys of a slot.
        let takes_slot = row.special == Special::Cluster && !is_planted(Bug::SlotLeavesInExec);
        let is_looked_at = standing.in_exec && !takes_slot && !is_planted(Bug::JudgedAgainInExec);
        // The server refuses at once what it can never run; and who may not run a command makes nobody wait, and does not
        // learn what is held.
        let is_run = (row.fits(words) || is_planted(Bug::ArityUnchecked))
            && (standing.is_allowed || is_planted(Bug::ForbiddenWaits));
        if is_looked_at || row.special == Special::Own || !is_run {
            return Verdict::Passes;
        }
        match row.special {
            Special::Cluster => Verdict::TakesSlot,
            Special::Pop if !standing.pops_wait_here => Verdict::Passes,
            Special::Pop if !standing.in_script => Verdict::Pops,
            Special::Pop => conflict().map_or(Verdict::Passes, |_| Verdict::Pops),
            Special::Nothing
            | Special::Multi
            | Special::Exec
            | Special::Discard
            | Special::Rights
            | Special::Own => match conflict() {
                None => Verdict::Passes,
                Some(key) if standing.may_wait || is_planted(Bug::AlwaysWaits) => Verdict::Waits(key),
                Some(key) => Verdict::TriesAgain(key),
            },
        }
    }

    /// What a command of the module's may not be put before.
    fn refusal(&self) -> Option<Error> {
        let Asker::Command { only_reads, is_known } = self.standing.asker else { return None };
        if !is_known {
            return Some(Error::NoAuth);
        }
        if only_reads && !is_planted(Bug::WritesBehindRead) && self.row.access == Access::Write {
            return Some(Error::Writes(Bytes::copy_from(self.name)));
        }
        // The server does not look, and a script within a script ends it.
        let is_forbidden =
            self.row.no_script && self.standing.in_script && !is_planted(Bug::ScriptRunsForbidden);
        is_forbidden.then(|| Error::NoScript(Bytes::copy_from(self.name)))
    }
}

#[cfg(test)]
mod tests {
    use claret_types::{Access, Bytes, Counter, CounterOp, Operation, Register, RegisterOp};

    use super::{Asked, Asker, Locks, Look, Standing, Verdict};
    use crate::parts::command_table::{Keys, Row, Special};
    use crate::parts::error::Error;
    use crate::parts::testing::{Beside, add, want};

    const WRITES: Row = Row {
        keys: Keys::Fixed { first: 1, last: 1, step: 1 },
        access: Access::Write,
        special: Special::Nothing,
        arity: -2,
        no_script: false,
        is_silent: false,
        adds: false,
        is_anothers: false,
        writes: true,
        kind: None,
    };

    const AT_EASE: Standing = Standing {
        asker: Asker::Filter,
        in_exec: false,
        in_script: false,
        may_wait: true,
        is_allowed: true,
        pops_wait_here: true,
    };

    const COMMAND: Standing =
        Standing { asker: Asker::Command { only_reads: false, is_known: true }, ..AT_EASE };

    fn asked(row: Row, standing: Standing) -> Asked<'static> {
        Asked { row, name: b"cmd", words: 2, standing }
    }

    fn held(row: Row, standing: Standing) -> Verdict<u8> {
        asked(row, standing).verdict(|| Some(1))
    }

    fn free(row: Row, standing: Standing) -> Verdict<u8> {
        asked(row, standing).verdict(|| None)
    }

    fn unasked(row: Row, standing: Standing) -> Verdict<u8> {
        asked(row, standing).verdict(|| panic!("the locks do not matter"))
    }

    #[test]
    fn filter_and_command_give_the_same_verdict() {
        for standing in [AT_EASE, COMMAND] {
            assert_eq!(free(WRITES, standing), Verdict::Passes);
            assert_eq!(held(WRITES, standing), Verdict::Waits(1));
            assert_eq!(held(WRITES, Standing { may_wait: false, ..standing }), Verdict::TriesAgain(1));
            assert_eq!(unasked(WRITES, Standing { in_exec: true, ..standing }), Verdict::Passes);
            assert_eq!(unasked(WRITES, Standing { is_allowed: false, ..standing }), Verdict::Passes);
            assert_eq!(unasked(Row { arity: 3, ..WRITES }, standing), Verdict::Passes, "the server says why");
            assert_eq!(unasked(Row { special: Special::Own, ..WRITES }, standing), Verdict::Passes);
        }
    }

    #[test]
    fn pops_wait_in_the_module_once_transactions_came() {
        let row = Row { special: Special::Pop, ..WRITES };
        assert_eq!(unasked(row, AT_EASE), Verdict::Pops);
        assert_eq!(unasked(row, Standing { pops_wait_here: false, ..AT_EASE }), Verdict::Passes);
        let in_script = Standing { in_script: true, ..AT_EASE };
        assert_eq!((held(row, in_script), free(row, in_script)), (Verdict::Pops, Verdict::Passes));
        assert_eq!(unasked(row, Standing { in_exec: true, ..COMMAND }), Verdict::Passes);
    }

    #[test]
    fn a_slot_is_taken_within_exec_too() {
        let row = Row { special: Special::Cluster, ..WRITES };
        assert_eq!(unasked(row, Standing { in_exec: true, ..COMMAND }), Verdict::TakesSlot);
        assert_eq!(unasked(row, Standing { is_allowed: false, ..COMMAND }), Verdict::Passes);
    }

    #[test]
    fn what_the_module_may_not_run_is_refused_before_anything_is_looked_at() {
        let refused = |row, standing| match unasked(row, standing) {
            Verdict::Refused(error) => error,
            other => panic!("{other:?}"),
        };
        let command = |only_reads, is_known| Asker::Command { only_reads, is_known };
        let unknown = Standing { asker: command(true, false), in_exec: true, ..AT_EASE };
        assert_eq!(refused(WRITES, unknown), Error::NoAuth);
        let reads = Standing { asker: command(true, true), in_exec: true, ..AT_EASE };
        assert_eq!(refused(WRITES, reads), Error::Writes(Bytes::from("cmd")));
        assert_eq!(unasked(Row { access: Access::Read, ..WRITES }, reads), Verdict::Passes);
        let row = Row { no_script: true, ..WRITES };
        let in_script = Standing { in_script: true, ..COMMAND };
        assert_eq!(refused(row, in_script), Error::NoScript(Bytes::from("cmd")));
        let in_filter = Standing { in_script: true, ..AT_EASE };
        assert_eq!(held(row, in_filter), Verdict::Waits(1), "the filter refuses nothing");
    }

    // --- locks ---

    fn conflict(beside: &Beside, key: &str, access: Access, op: Option<&Operation>) -> [bool; 2] {
        let locks =
            Locks { shard: &beside.shard, queue: &beside.queue, blocked_clients: &beside.blocked_clients };
        [Look::Locks, Look::Records].map(|look| locks.conflict(key.as_bytes(), access, op, look))
    }

    fn held_by(key: &str, op: Operation) -> Beside {
        let mut beside = Beside::new();
        beside.holds(key, op);
        beside
    }

    #[test]
    fn a_command_that_is_an_operation_is_compared_by_its_types_table() {
        let held = held_by("k", add("x"));
        assert_eq!(conflict(&held, "other", Access::Write, None), [false; 2]);
        assert_eq!(conflict(&held, "k", Access::Write, Some(&add("y"))), [false; 2]);
        assert_eq!(conflict(&held, "k", Access::Write, Some(&add("x"))), [true; 2]);
        assert_eq!(conflict(&held, "k", Access::Write, None), [true; 2], "any other uses all of it");
        assert_eq!(conflict(&held, "k", Access::Read, None), [true; 2]);
        let get = Operation::new::<Register>(RegisterOp::Get);
        assert_eq!(conflict(&held, "k", Access::Read, Some(&get)), [true; 2], "of another type, too");
    }

    #[test]
    fn readers_share_and_writers_do_not() {
        let held = held_by("k", Operation::new::<Counter>(CounterOp::Get));
        let get = Operation::new::<Counter>(CounterOp::Get);
        assert_eq!(conflict(&held, "k", Access::Read, Some(&get)), [false; 2]);
        assert_eq!(conflict(&held, "k", Access::Read, None), [false; 2]);
        assert_eq!(conflict(&held, "k", Access::Write, None), [true; 2]);
    }

    #[test]
    fn what_would_reach_a_blocked_client_waits_whatever_it_is() {
        let mut held = held_by("k", add("x"));
        held.blocked_clients.note(b"k", false);
        assert_eq!(conflict(&held, "k", Access::Write, Some(&add("y"))), [true; 2]);
        assert_eq!(conflict(&held, "other", Access::Write, Some(&add("y"))), [false; 2], "nobody holds it");
    }

    #[test]
    fn what_is_kept_for_a_next_try_is_in_nobodys_way() {
        let mut held = Beside::new();
        let holder = held.holds("k", add("x"));
        let number = held.asks(vec![want("k", Access::Write)], &[]);
        held.queue.reserve(number, 1_000, held.now.plus(1_000));
        assert_eq!(conflict(&held, "k", Access::Write, None), [true; 2], "a transaction has it");
        held.aborts(holder);
        assert!(held.shard.is_held(b"k"));
        assert_eq!(conflict(&held, "k", Access::Write, None), [false; 2]);
    }
}
