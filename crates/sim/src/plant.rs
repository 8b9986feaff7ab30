//! Faults planted on purpose, to see that the checks notice: each breaks one promise of the protocol.

use claret_core::message::{Request, Response};
use claret_core::{Client, Pipeline, Shard, ShardId};
use claret_types::Reply;

/// A fault that every run with it must be able to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plant {
    /// None: the protocol as it is.
    #[default]
    None,
    /// The last shard never gets an apply, and its coordinator hears that it did. (Recovery mends some of
    /// these, not those whose session's floor has passed.)
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
    /// A bug in the protocol itself.
    #[cfg(feature = "planted-bugs")]
    Bug(claret_core::Bug),
}

/// What becomes of a request under a plant.
pub(crate) enum Planted {
    /// It goes its way.
    Passes,
    /// It vanishes, and this comes back.
    Answered(Response),
}

impl Plant {
    /// A new shard, with the bug in it if there is one.
    #[cfg_attr(not(feature = "planted-bugs"), allow(unused_mut, reason = "no bug to plant"))]
    pub(crate) fn in_shard(self, mut shard: Shard) -> Shard {
        #[cfg(feature = "planted-bugs")]
        if let Plant::Bug(bug) = self {
            shard.plant(bug);
        }
        shard
    }

    /// A new client, with the bug in it if there is one.
    #[cfg_attr(not(feature = "planted-bugs"), allow(unused_mut, reason = "no bug to plant"))]
    pub(crate) fn in_client(self, mut client: Client) -> Client {
        #[cfg(feature = "planted-bugs")]
        if let Plant::Bug(bug) = self {
            client.plant(bug);
        }
        client
    }

    /// A new connection's frames, with the bug in them if there is one.
    #[cfg_attr(not(feature = "planted-bugs"), allow(unused_mut, reason = "no bug to plant"))]
    pub(crate) fn in_pipeline(self, mut pipeline: Pipeline) -> Pipeline {
        #[cfg(feature = "planted-bugs")]
        if let Plant::Bug(bug) = self {
            pipeline.plant(bug);
        }
        pipeline
    }

    /// Looks at a request that leaves for `to`.
    pub(crate) fn on_request(self, to: ShardId, last: ShardId, request: &Request) -> Planted {
        let at_last = last == to;
        match (self, request) {
            (Plant::ForgeApplied, Request::Apply { attempt }) if at_last => {
                Planted::Answered(Response::Applied { attempt: *attempt, shard: to })
            }
            (Plant::ForgeVote, Request::Prepare { attempt, participants, .. })
                if at_last && participants.len() > 1 =>
            {
                Planted::Answered(Response::Voted { attempt: *attempt, shard: to, replies: Vec::new() })
            }
            _ => Planted::Passes,
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
