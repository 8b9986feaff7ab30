//! What a coordinator has to say: requests to shards, and events for the application.

use std::collections::VecDeque;

use super::Event;
use crate::ids::ShardId;
use crate::message::Request;

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(super) struct Out {
    sends: VecDeque<(ShardId, Request)>,
    events: VecDeque<Event>,
}

/// Room for so many of each is kept.
const ROOM_MAX: usize = 64;

impl Out {
    #[inline]
    pub(super) fn send(&mut self, shard: ShardId, request: Request) {
        self.sends.push_back((shard, request));
    }

    #[inline]
    pub(super) fn tell(&mut self, event: Event) {
        self.events.push_back(event);
    }

    #[inline]
    pub(super) fn poll_send(&mut self) -> Option<(ShardId, Request)> {
        self.sends.pop_front()
    }

    #[inline]
    pub(super) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sends.is_empty() && self.events.is_empty()
    }

    /// Another transaction begins.
    pub(super) fn reset(&mut self) {
        self.sends.clear();
        self.sends.shrink_to(ROOM_MAX);
        self.events.clear();
        self.events.shrink_to(ROOM_MAX);
    }
}
