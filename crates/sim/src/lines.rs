//! The network between client processes and shards, and what became of the connections over it.

use std::collections::{BTreeMap, BTreeSet};

use claret_core::message::{Link, Response};
use claret_core::{SessionId, ShardId, Time};

use crate::network::{Endpoint, Network};

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(crate) network: Network,
    /// The connection over which a shard last heard of a session.
    heard: BTreeMap<(ShardId, SessionId), u32>,
    /// Up to which connection between two ends all is torn: what was on its way is lost.
    torn: BTreeMap<(SessionId, ShardId), u32>,
    /// Connections over which a heartbeat came, or was refused.
    pub(crate) begun: BTreeSet<(SessionId, ShardId, u32)>,
    /// While a shard handles a frame: whose it is, and what goes into the answer.
    pub(crate) answering: Option<(SessionId, Vec<Response>)>,
}

impl Lines {
    pub(crate) fn new(network: Network) -> Self {
        Lines {
            network,
            heard: BTreeMap::new(),
            torn: BTreeMap::new(),
            begun: BTreeSet::new(),
            answering: None,
        }
    }

    /// When what leaves now over a connection arrives. Where the ends do not see each other it is lost, and all that comes
    /// behind it.
    pub(crate) fn stream(
        &mut self,
        now: Time,
        from: Endpoint,
        to: Endpoint,
        connection: u32,
    ) -> Option<Time> {
        let arrival = self.network.stream(now, from, to, connection);
        if arrival.is_none()
            && let (Endpoint::Session(session), Endpoint::Shard(shard))
            | (Endpoint::Shard(shard), Endpoint::Session(session)) = (from, to)
        {
            self.tear_up_to(session, shard, connection);
        }
        arrival
    }

    /// What is on its way over the last connection between two ends is lost, both ways.
    pub(crate) fn tear(&mut self, session: SessionId, shard: ShardId, connection: u32) {
        self.torn.insert((session, shard), connection);
    }

    /// The same of one that need not be the last.
    pub(crate) fn tear_up_to(&mut self, session: SessionId, shard: ShardId, connection: u32) {
        let torn = self.torn.entry((session, shard)).or_insert(connection);
        *torn = connection.max(*torn);
    }

    /// Whether what arrives over a connection was lost with it.
    pub(crate) fn is_torn(&self, session: SessionId, shard: ShardId, connection: u32) -> bool {
        self.torn.get(&(session, shard)).is_some_and(|torn| connection <= *torn)
    }

    /// A shard hears of a session over a connection.
    pub(crate) fn note_heard(&mut self, shard: ShardId, link: Link) {
        let known = self.heard.entry((shard, link.session)).or_insert(link.connection);
        *known = link.connection.max(*known);
    }

    /// The connection over which a shard last heard of a session.
    pub(crate) fn last_heard(&self, shard: ShardId, session: SessionId) -> u32 {
        self.heard.get(&(shard, session)).copied().unwrap_or(0)
    }
}
