//! Every bound of the protocol, with its unit last in the name.

/// Bounds of the protocol. All of them are enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest key, in bytes. Redis allows 512 MB.
    pub key_bytes_max: usize,
    /// The largest value, member or field in one operation, in bytes.
    pub value_bytes_max: usize,
    /// Operations of one transaction at its coordinator, and of one attempt at a shard.
    pub calls_max: u32,
    /// Bytes that a shard over a network keeps for one user: calls and answers of open attempts, and what it
    /// remembers of finished ones.
    // P60.
    pub user_bytes_max: usize,
    /// The same for all users.
    pub shard_bytes_max: usize,
    /// Sessions that never said hello but that other shards asked about; beyond that a shard does not answer such
    /// questions.
    // P60.
    pub strangers_max: usize,
    /// Calls that one input executes, or locks that it releases, before others get their turn: a fraction of a
    /// millisecond.
    // P38.
    pub at_once_max: usize,
    /// Bytes of answers that a shard keeps of one session's applied transactions; beyond that the oldest are dropped.
    // P10.
    pub answers_bytes_max: usize,
    /// Bytes of answers that one input repeats.
    // P38.
    pub again_bytes_max: usize,
    /// What a shard keeps, in bytes, of the keys in its own memory whose versions were asked for; beyond that those that were asked
    /// for longest ago are as if they had changed.
    // O10.
    pub versions_bytes_max: usize,
    /// How many may join a phase once somebody waits for its end.
    // P17.
    pub phase_joins_max: u32,
    /// How long a phase takes in joiners once somebody waits for its end, in microseconds.
    // P17.
    pub phase_us_max: u64,
    /// Waiters on one record; more are refused.
    pub waiters_max: usize,
    /// How many refused waiters of one mode a release skips before it gives up on that mode.
    pub settle_misses_max: u32,
    /// How long a participant keeps an unprepared attempt without a sign of life, in microseconds.
    // P23.
    pub lease_us: u64,
    /// How long a participant in doubt waits after its first round of asking, in microseconds; twice as long after
    /// each further round.
    // P23.
    pub inquire_us: u64,
    /// The longest wait between two rounds of asking, in microseconds.
    pub inquire_us_max: u64,
    /// How long a process keeps shards from forgetting a transaction whose outcome it did not hear, in microseconds: so long
    /// others can ask for it.
    // P89.
    pub outcome_us: u64,
    /// How long a coordinator that is blocked waits before it gives way to an elder, in microseconds: about a
    /// round trip.
    // P21.
    pub give_way_us: u64,
    /// How many must have waited for a record recently before it counts as hot and its shard is asked last; with 0
    /// every record is hot.
    // P49.
    pub hot_waits_min: u32,
    /// How far a suggested timestamp may be ahead of a shard's own time, in microseconds.
    // P88.
    pub ahead_us_max: u64,
    /// How far the clocks of two nodes may be apart, in microseconds, for transactions over both to have one order.
    // P88.
    pub skew_us_max: u64,
    /// What is so long ago by a shard's own time, in microseconds, no vote can be before any more, wherever it comes from: more than
    /// the clocks of any two nodes are apart. By default nothing is.
    // P79.
    pub passed_us: u64,
    /// How far ahead of its own time a shard tells its replicas that timestamps may be used, in microseconds.
    // S17.
    pub told_ahead_us: u64,
    /// Whether a shard asks for timestamps. `None`: while it carries out more with than without.
    // P87.
    pub asks_for_timestamps: Option<bool>,
    /// How long a shard does one of the two at least before it tries the other one, in microseconds; in time up to 32 times as long.
    // P87.
    pub order_trial_us: u64,
    /// How many calls have to be carried out in a twentieth of that for it to be tried at all.
    // P87.
    pub order_trial_calls_min: u64,
    /// How long a coordinator waits for an answer before it sends again, in microseconds.
    pub resend_us: u64,
    /// Without phases: the shortest pause before a refused lock is asked for again, in microseconds.
    pub backoff_us_min: u64,
    /// Without phases: the longest such pause, in microseconds.
    pub backoff_us_max: u64,
    /// Without phases: the number of refusals of one lock after which the attempt restarts.
    pub lock_tries_max: u32,
    /// Transactions in one combined group.
    // C6.
    pub group_members_max: u16,
    /// Held reads of one record that a read tries before it gives up on combining.
    // C6.
    pub combine_misses_max: u32,
    /// How long a group waits for its slowest member once one member wants to commit, in microseconds.
    // C10.
    pub group_wait_us_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            key_bytes_max: 64 * 1024,
            value_bytes_max: 64 * 1024 * 1024,
            calls_max: 1 << 20,
            user_bytes_max: 1 << 30,
            shard_bytes_max: 4 << 30,
            strangers_max: 1 << 16,
            at_once_max: 1 << 10,
            again_bytes_max: 1 << 20,
            answers_bytes_max: 1 << 20,
            versions_bytes_max: 16 << 20,
            phase_joins_max: 64,
            phase_us_max: 5_000,
            waiters_max: 1 << 20,
            settle_misses_max: 8,
            lease_us: 10_000_000,
            inquire_us: 100_000,
            inquire_us_max: 5_000_000,
            outcome_us: 60_000_000,
            give_way_us: 200,
            hot_waits_min: 16,
            ahead_us_max: 1_000_000,
            skew_us_max: 10_000_000,
            passed_us: u64::MAX,
            told_ahead_us: 1_000_000,
            asks_for_timestamps: None,
            order_trial_us: 1_000_000,
            order_trial_calls_min: 64,
            resend_us: 50_000,
            backoff_us_min: 50,
            backoff_us_max: 10_000,
            lock_tries_max: 12,
            group_members_max: 32,
            combine_misses_max: 16,
            group_wait_us_max: 1_000,
        }
    }
}
