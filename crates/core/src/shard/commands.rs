//! Commands of the server as steps of an attempt (A19 to A25 of `docs/scripts.md`): they are carried out when the attempt is applied, and
//! answer then.

use claret_types::{OpError, Reply, Run};
use smallvec::SmallVec;

use super::history::Decided;
use super::lock_table::RecordIx;
use super::step::Step;
use crate::ids::{AttemptId, CallNo};
use crate::message::Members;
use crate::planted::{Bug, is_planted};

/// What the commands of one attempt answer at a shard, in bytes: an answer with which it is more is an error (A26).
const ANSWERS_BYTES_MAX: usize = 32 << 20;

const TOO_MUCH: &str =
    "ERR the commands of one transaction answer over 32 MiB at one node; this one was carried out";

impl Step<'_> {
    /// An attempt that is committed runs commands, if it has any: what else it did is carried out on these of its records (all, if none
    /// are named), then the commands in the order of their calls, and only then is any of the records left. One command may use
    /// several of them. What they answer is among its answers from then on.
    pub(super) fn run_commands(&mut self, attempt: AttemptId, held: Option<&[RecordIx]>, members: &Members) {
        let Some(participant) =
            self.attempts.get(attempt).filter(|participant| participant.granted.has_commands)
        else {
            return; // Mostly.
        };
        let held: SmallVec<[RecordIx; 4]> = held.unwrap_or(&participant.held).into();
        let mut runs: Vec<(RecordIx, Run)> = Vec::new();
        for record in held {
            let mut here = Vec::new();
            self.table.apply_before_commands(record, attempt, members, &mut here);
            runs.extend(here.into_iter().map(|run| (record, run)));
        }
        if !is_planted(Bug::CommandsByRecord) {
            runs.sort_by_key(|(_, run)| run.no);
        }
        let before = self.table.dearness();
        let mut bytes = 0;
        for (record, run) in runs {
            let mut reply = self.table.run(record, &run);
            bytes += reply.size();
            if bytes > ANSWERS_BYTES_MAX {
                reply = Reply::Failed(Box::new(OpError::Told(TOO_MUCH.into())));
            }
            self.budget.charge(1);
            if is_planted(Bug::CommandsRunTwice) {
                self.table.run(record, &run);
            }
            let participant = &mut self.attempts[attempt];
            participant.replies.push((CallNo(run.no), reply));
        }
        let dearness = (self.table.dearness() - before) as usize;
        self.budget.charge(dearness);
    }

    /// Whether an attempt that is over was carried out, and its coordinator may not have heard what it answered then.
    pub(super) fn answered_late(&self, attempt: AttemptId) -> bool {
        let decided = self.memory.decided(attempt);
        matches!(decided, Some(Decided::Applied { replies: Some(_), at: None, is_unacknowledged: true }))
            && !is_planted(Bug::LateAnswersOnce)
    }
}
