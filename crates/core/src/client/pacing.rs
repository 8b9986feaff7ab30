//! When frames and heartbeats leave, and how large frames are.

/// When frames and heartbeats leave, and how large frames are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pacing {
    /// Frames on the way to one shard that it has not answered, at most.
    pub frames_in_flight_max: usize,
    /// While the shard owes an answer, requests gather until they are so many. A frame costs both sides as much as
    /// several requests, and what leaves sooner would mostly wait at the shard.
    pub frame_requests_worth: usize,
    /// Requests in one frame, at most: what a shard does without looking up.
    pub frame_requests_max: usize,
    /// So many transactions that are over everywhere are told before the next heartbeat is due. What a shard remembers of
    /// them is in its way: its caches hold little.
    pub over_worth: u64,
}

impl Default for Pacing {
    fn default() -> Self {
        Pacing {
            frames_in_flight_max: 16,
            frame_requests_worth: 12,
            frame_requests_max: 512,
            over_worth: 512,
        }
    }
}
