//! The node: the one shard that it hosts, everything around it, and its clock.
//!
//! Commands, the bus, events and timers enter the node (`entries`). Each entry hands in what it has. The node then
//! carries out the shard's outputs (answers, pushes, messages to peers), and sets a timer for what is due next.
//!
//! **One entry at a time.** While the node is at work the server may call in again, and finds it busy:
//!
//! - An event, such as that of a key that expires when it is read. It is noted in the [`Keyspace`], and the shard
//!   hears of it before any other input.
//! - The filter, within a command that the module runs. The filter skips the module's own commands (`ffi/filter.rs`).
//!   But a client's command may be a script, and the filter must check the script's commands: so clients' commands
//!   run when no entry is using the node (`entries`).
//! - The module's own command, when the server asks for its keys while the filter looks at it. It answers from what
//!   the keyspace knows of commands.

pub(crate) mod keyspace;
mod rights;
pub(crate) mod settings;

pub(crate) mod caller;
mod clock;
mod errands;
mod exec;
mod files;
mod following;
mod frames;
mod hello;
mod leaving;
mod life;
mod look;
mod operator;
mod peer_links;
mod peers;
mod plain;
mod plain_clients;
mod safe_time;
mod serving;
mod telling;
mod timers;
mod told_versions;
mod top;
mod versions;
mod ways;

use claret_core::{Limits, SessionId, Shard, Time};
use claret_identity::PeerSecret;

use crate::ffi::Ctx;
use crate::parts::command_table::Table;
use crate::parts::following::Following;
use crate::parts::incarnations::Incarnations;
use crate::parts::leaving::Leaving;
use crate::parts::one_shots::OneShots;
use crate::parts::questions::Questions;
use crate::parts::queue::Queue;
use crate::parts::replicas::Telling;
use crate::parts::seals::Seals;
use crate::parts::sessions::Sessions;
use crate::parts::stranded::Stranded;
use caller::Caller;
use clock::{Clock, unix_time};
use keyspace::Keyspace;
use peer_links::PeerLinks;
use plain_clients::PlainClients;
use safe_time::SafeTime;
use timers::Timers;
use told_versions::Told;

use crate::node::ways::ordered::asks_for_timestamps;
pub(crate) use exec::{Begun, check_placement};
pub(crate) use hello::{Hello, Polled, Welcome};
pub(crate) use leaving::Taking;
pub(crate) use operator::{Asked, Shown, ShownAttempt};
pub(crate) use plain::{Judged, Waited};
pub(crate) use serving::SERVED;
pub(crate) use timers::TimerProcs;
pub(crate) use top::{HotKey, ShownWait, Top};

/// How long an attempt in doubt waits at most before it asks the other shards again, in microseconds.
const INQUIRE_US_MAX: u64 = 5_000_000;

/// How long a timer waits that found that nothing can be written, in milliseconds.
const BARRED_MS: u64 = 10;

/// How far ahead of now a client may want its timestamp, in microseconds: some round trips.
const AHEAD_US_MAX: u64 = 50_000;

/// How long a phase takes in joiners once somebody waits for its end: about two round trips of a busy client.
const PHASE_US_MAX: u64 = 500;

/// See the module's text.
pub(crate) struct Node {
    clock: Clock,
    pub(crate) keyspace: &'static Keyspace,
    timers: Timers,
    server: Server,
    pub(crate) shard: Option<Shard>,
    lives: Lives,
    pub(crate) sessions: Sessions,
    pub(crate) one_shots: OneShots,
    pub(crate) plain: PlainClients,
    safe_time: SafeTime,
    moving: MovingSlots,
    pub(crate) strict: Strict,
    peers: PeerLinks,
    serving: Serving,
    pub(crate) counts: Counts,
}

/// The server that has the node.
struct Server {
    /// For questions from within the filter, which is given no context.
    detached: Ctx,
    /// What is known of its commands.
    commands: &'static Table,
    /// It may make the client of a `CLUSTER SETSLOT` wait for replicas.
    may_wait_itself: bool,
}

/// The lives of the shard.
struct Lives {
    incarnations: Incarnations,
    /// Of the one that runs.
    limits: Limits,
    /// Where the next look for keys that somebody waits for long begins, in whichever of them.
    looked_through: usize,
}

/// Slots that are about to leave, or were.
#[derive(Default)]
struct MovingSlots {
    /// They are closed, and their commands wait.
    leaving: Leaving,
    /// They were on their way when the former primary died.
    stranded: Stranded,
}

/// The durability `strict`.
#[derive(Default)]
pub(crate) struct Strict {
    /// As a primary.
    telling: Telling,
    /// Whoever waits for replicas.
    questions: Questions,
    /// As a replica.
    pub(crate) following: Following,
}

/// What keeps the node from serving, as it was seen last.
#[derive(Default)]
struct Serving {
    /// What had not voted was refused, since the node is drained.
    is_drained: bool,
    /// Another node has the same name, and that was logged.
    is_namesake: bool,
    /// What the server said at the last check of a write that would carry out a decision, if it refused it.
    no_writes: Option<String>,
}

/// What the node counts, besides the shard.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) frames: u64,
    pub(crate) requests: u64,
    pub(crate) operations: u64,
    pub(crate) frame_bytes: u64,
    pub(crate) replies: u64,
    pub(crate) pushes: u64,
    pub(crate) pushes_unheard: u64,
    pub(crate) polls: u64,
    pub(crate) elders_told: u64,
    pub(crate) deserted: u64,
    pub(crate) peer_messages_in: u64,
    pub(crate) peer_messages_out: u64,
    pub(crate) peer_envelopes_out: u64,
    pub(crate) peer_messages_unsent: u64,
    pub(crate) peer_messages_refused: u64,
    pub(crate) letters_in: u64,
    pub(crate) letters_out: u64,
    pub(crate) incarnations: u64,
    pub(crate) batches_told: u64,
    pub(crate) batches_taken: u64,
    pub(crate) panics: u64,
    pub(crate) checks: u64,
    pub(crate) resolved: u64,
    /// Commands that had `CLARET.READ` or `CLARET.WRITE` put before them.
    pub(crate) guarded: u64,
    /// Commands that were answered -TRYAGAIN.
    pub(crate) try_again: u64,
    /// EXECs that were refused.
    pub(crate) exec_aborts: u64,
}

impl Node {
    /// `own` is the number of the session under which transactions of one go run: random, so that nobody guesses it. `subscribe` asks
    /// the server to tell of every change of a key.
    pub(crate) fn new(
        ctx: Ctx,
        keyspace: &'static Keyspace,
        procs: TimerProcs,
        subscribe: fn(Ctx) -> bool,
        own: SessionId,
        secret: Option<PeerSecret>,
    ) -> Self {
        // It is there as long as the server: the module is never unloaded.
        let commands: &'static Table = Box::leak(Box::new(Table::of(ctx.call(c"COMMAND", c"E", &[]))));
        keyspace.begin(commands, Told::new(ctx.random(), subscribe));
        let may_wait_itself = leaving::may_wait_itself(ctx);
        Node {
            clock: Clock::begin(),
            keyspace,
            timers: Timers::new(procs),
            server: Server { detached: ctx.detached(), commands, may_wait_itself },
            shard: None,
            lives: Lives { incarnations: Incarnations::default(), limits: limits(), looked_through: 0 },
            sessions: Sessions::default(),
            one_shots: OneShots::new(own),
            plain: PlainClients::default(),
            safe_time: SafeTime::default(),
            moving: MovingSlots::default(),
            strict: Strict::default(),
            peers: PeerLinks::new(secret.map(|secret| Seals::new(secret, ctx.random().max(1)))),
            serving: Serving::default(),
            counts: Counts::default(),
        }
    }

    /// By the node's clock.
    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    pub(crate) fn detached(&self) -> Ctx {
        self.server.detached
    }

    /// Until when a command may wait for locks that comes now.
    fn waits_until(&self) -> Time {
        self.now().plus(settings::PLAIN_WAIT_MS.get() * 1_000)
    }

    /// With the queue of plain commands: they come to the shard as the node's own, and clients that they let go are released.
    fn with_queue<R>(&mut self, run: impl FnOnce(&mut Queue, Time, Option<&mut Shard>) -> R) -> R {
        let now = self.now();
        let _calling = self.keyspace.enter(Caller::server());
        let result = run(&mut self.plain.queue, now, self.shard.as_mut());
        while let Some((client, number)) = self.plain.queue.poll_released() {
            client.release(number);
        }
        result
    }
}

/// The bounds of a shard that begins now.
pub(crate) fn limits() -> Limits {
    Limits {
        lease_us: settings::LEASE_MS.get() * 1_000,
        inquire_us: settings::INQUIRE_MS.get() * 1_000,
        inquire_us_max: INQUIRE_US_MAX,
        phase_us_max: PHASE_US_MAX,
        answers_bytes_max: settings::ANSWERS_BYTES_MAX.get() as usize,
        calls_max: settings::CALLS_MAX.get() as u32,
        user_bytes_max: settings::USER_BYTES_MAX.get() as usize,
        shard_bytes_max: settings::SHARD_BYTES_MAX.get() as usize,
        strangers_max: settings::STRANGERS_MAX.get() as usize,
        ahead_us_max: AHEAD_US_MAX,
        skew_us_max: settings::CLOCK_SKEW_MS.get() * 1_000,
        passed_us: settings::CLOCK_SKEW_MS.get() * 1_000,
        asks_for_timestamps: asks_for_timestamps(),
        ..Limits::default()
    }
}
