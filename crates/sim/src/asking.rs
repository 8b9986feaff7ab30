//! Somebody who only wants to know what became of attempts that dead processes left, or whose users heard that it is unknown. He
//! looks at one shard after another, so that what he knows of one is older than what he knows of the next, and ends nothing (P89).

use std::collections::VecDeque;

use claret_core::{Asked, Known, ShardId, Told};

use crate::check::Violation;
use crate::world::World;

/// So many attempts are looked at, at most: the latest.
const ASKED_MAX: usize = 8;

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Asking(VecDeque<Question>);

#[derive(Debug)]
struct Question {
    asked: Asked,
    told: Vec<Told>,
    /// What was concluded last, for good.
    known: Option<Known>,
}

impl World {
    /// From now on he asks about this one.
    pub(crate) fn ask_for_outcome(&mut self, asked: Option<Asked>) {
        // With replicas an answer waits for them, as votes do (S2); where shards are a call away nothing is remembered.
        if self.config.is_replicated() || self.config.direct {
            return;
        }
        if self.asking.0.len() == ASKED_MAX {
            self.asking.0.pop_front();
        }
        self.asking.0.extend(asked.map(|asked| Question { asked, told: Vec::new(), known: None }));
    }

    /// He looks at a shard that has just done something.
    pub(crate) fn look_for_outcomes(&mut self, at: ShardId) -> Result<(), Violation> {
        if self.removed.contains(&at) {
            return Ok(());
        }
        let shard = &self.hosts[at.0 as usize].shard;
        for question in &mut self.asking.0 {
            let Question { asked, told, known } = question;
            if asked.participants.iter().all(|listed| listed.shard != at) {
                continue;
            }
            told.retain(|told| told.shard != at);
            told.push(shard.tell_written(asked.attempt, false));
            let concluded = asked.known(told);
            self.ledger.told_outcome(asked, told, *known)?;
            if matches!(concluded, Known::Committed | Known::Aborted) {
                *known = Some(concluded);
            }
        }
        Ok(())
    }
}
