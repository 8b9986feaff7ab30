//! Faults planted on purpose, to see that the checks notice: each breaks one promise of the protocol.

use claret_core::ShardId;
use claret_core::message::{Request, Response};
use claret_types::Reply;

use crate::tamper::{Sent, Tampering};

/// A fault that every run with it must be able to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plant {
    /// None: the protocol as it is.
    #[default]
    None,
    /// The last shard never gets an apply, and its coordinator hears that it did. (Recovery mends some of
    /// these, not those whose session's low-water mark has passed.)
    ForgeApplied,
    /// The last shard, where it is one of several participants, never gets a prepare, and the coordinator hears
    /// a yes.
    ForgeVote,
    /// Every integer that a shard answers is one too high.
    AlterAnswers,
    /// The sequential model forgets every seventh effect.
    ForgetEffects,
    /// Nothing that the first shard says arrives.
    SilenceShard,
    /// A bug that shows in messages, or in what a host tells.
    Tampering(Tampering),
    /// A bug in the protocol itself.
    #[cfg(feature = "planted-bugs")]
    Bug(claret_core::Bug),
}

impl Plant {
    /// Runs something with the bug in the protocol, if it is one.
    pub(crate) fn during<T>(self, run: impl FnOnce() -> T) -> T {
        #[cfg(feature = "planted-bugs")]
        let run = || {
            let bug = if let Plant::Bug(bug) = self { Some(bug) } else { None };
            claret_core::with_bug(bug, run)
        };
        run()
    }

    /// What is done to messages, if anything is.
    pub(crate) fn tampering(self) -> Option<Tampering> {
        match self {
            Plant::Tampering(what) => Some(what),
            _ => None,
        }
    }

    /// Looks at a request that leaves for `to`.
    pub(crate) fn on_request(self, to: ShardId, last: ShardId, request: &Request) -> Sent {
        let at_last = last == to;
        match (self, request) {
            (Plant::ForgeApplied, Request::Apply { attempt }) if at_last => {
                Sent::answered(Response::Applied { attempt: *attempt, shard: to })
            }
            (Plant::ForgeVote, Request::Prepare { attempt, participants, .. })
                if at_last && participants.len() > 1 =>
            {
                Sent::answered(Response::Voted { attempt: *attempt, shard: to, replies: Vec::new() })
            }
            _ => Sent::PASSES,
        }
    }

    /// Looks at a response that leaves `from`. `None`: it vanishes.
    pub(crate) fn on_response(self, from: ShardId, mut response: Response) -> Option<Response> {
        match (self, &mut response) {
            (Plant::SilenceShard, _) if from == ShardId(0) => return None,
            (Plant::AlterAnswers, Response::Granted { reply: Reply::Int(number), .. }) => {
                *number = number.wrapping_add(1);
            }
            _ => {}
        }
        Some(response)
    }
}
