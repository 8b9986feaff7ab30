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
mod exec;
mod files;
mod following;
mod frames;
mod leaving;
mod life;
mod look;
mod operator;
mod output;
mod peers;
mod plain;
mod serving;
mod telling;
mod told_versions;
mod top;
mod versions;
mod ways;

use std::cell::Cell;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use claret_core::{Limits, SessionId, Shard, Time};
use claret_identity::PeerSecret;

use crate::ffi::{Ctx, Links, Timer, TimerProc};
use crate::parts::blocked_clients::BlockedClients;
use crate::parts::command_table::Table;
use crate::parts::following::Following;
use crate::parts::incarnations::Incarnations;
use crate::parts::leaving::Leaving;
use crate::parts::mail::Mail;
use crate::parts::one_shots::OneShots;
use crate::parts::open_multis::OpenMultis;
use crate::parts::passed_over::PassedOver;
use crate::parts::questions::Questions;
use crate::parts::queue::Queue;
use crate::parts::replicas::Telling;
use crate::parts::seals::Seals;
use crate::parts::sessions::Sessions;
use crate::parts::stranded::Stranded;
use caller::Caller;
use keyspace::Keyspace;
use told_versions::Told;

use crate::node::ways::ordered::meets_min;
pub(crate) use exec::{Begun, check_placement};
pub(crate) use frames::{Hello, Polled, Welcome};
pub(crate) use leaving::Taking;
pub(crate) use operator::{Asked, Shown, ShownAttempt};
pub(crate) use plain::{Judged, Waited};
pub(crate) use serving::SERVED;
pub(crate) use top::{HotKey, ShownWait, Top};

/// How long an attempt in doubt waits at most before it asks the other shards again, in microseconds.
const INQUIRE_US_MAX: u64 = 5_000_000;

/// If the time of day is so much later than the node's own, the node catches up, in microseconds.
const CATCHES_UP_US: u64 = 100_000;

/// How long a timer waits that found that nothing can be written, in milliseconds.
const BARRED_MS: u64 = 10;

/// How far ahead of now a client may want its timestamp, in microseconds: some round trips.
const AHEAD_US_MAX: u64 = 50_000;

/// How long a phase takes in joiners once somebody waits for its end: about two round trips of a busy client.
const PHASE_US_MAX: u64 = 500;

/// What timers call: entries, of which the node knows no more.
#[derive(Clone, Copy)]
pub(crate) struct TimerProcs {
    /// [`Node::deadline_fired`].
    pub(crate) deadline: TimerProc,
    /// [`Node::soon_fired`].
    pub(crate) soon: TimerProc,
    /// [`Node::tick`].
    pub(crate) tick: TimerProc,
    /// [`Node::check`].
    pub(crate) check: TimerProc,
    /// [`Node::replicas_fired`].
    pub(crate) replicas: TimerProc,
    /// [`Node::ack_fired`].
    pub(crate) ack: TimerProc,
    /// [`Node::mail_fired`].
    pub(crate) mail: TimerProc,
}

/// See the module's text.
pub(crate) struct Node {
    began: Instant,
    /// What is added to the time since then: it is about the time of day, and never goes back.
    ahead_us: Cell<u64>,
    pub(crate) keyspace: &'static Keyspace,
    procs: TimerProcs,
    /// For questions from within the filter, which is given no context.
    detached: Ctx,
    /// What is known of the server's commands.
    commands: &'static Table,
    pub(crate) shard: Option<Shard>,
    incarnations: Incarnations,
    pub(crate) sessions: Sessions,
    pub(crate) one_shots: OneShots,
    /// Plain commands that wait for keys.
    pub(crate) queue: Queue,
    pub(crate) open_multis: OpenMultis,
    /// Of the shard that runs.
    limits: Limits,
    /// Somebody waits for what was ordered here to be settled, or was sent away because it is not.
    seeks_safe_time: bool,
    /// The others' clocks are too far ahead, and that was logged.
    is_behind_others: bool,
    passed_over: PassedOver,
    blocked_clients: BlockedClients,
    leaving: Leaving,
    /// The server may make the client of a `CLUSTER SETSLOT` wait for replicas.
    may_wait_itself: bool,
    stranded: Stranded,
    /// As a primary of the durability `strict`, and as a replica of one.
    telling: Telling,
    questions: Questions,
    pub(crate) following: Following,
    /// With what nodes sign; `None` without a secret.
    seals: Option<Seals>,
    /// What is for other nodes, until the end of this turn of the server's loop.
    mail: Mail,
    links: Links,
    /// Messages to other shards.
    said: u64,
    /// How many these were when links were looked at last, and at which check.
    links_looked_at: Option<(u64, u64)>,
    /// Sessions whose last connection closed since the last entry.
    deserted: Vec<SessionId>,
    /// Set for the shard's next deadline.
    timer: Option<(Timer, Time)>,
    /// Set for what an event left to do.
    soon: Option<Timer>,
    /// Set while somebody waits.
    tick: Option<Timer>,
    ticks: u32,
    /// So many commands are looked at before it is asked again whether anything is held.
    looks: u32,
    /// Where the next look for keys that somebody waits for long begins.
    looked_through: usize,
    /// What had not voted was refused, since the node is drained.
    is_drained: bool,
    /// Another node has the same name, and that was logged.
    is_namesake: bool,
    /// What the server said at the last check of a write that would carry out a decision, if it refused it.
    no_writes: Option<String>,
    /// Another node does not sign as this one does, and that was logged.
    is_forged_said: bool,
    /// The timer of the periodic check is set; otherwise the server's cron sees when there is something to look after.
    check: Option<(Timer, Instant)>,
    /// What is for other nodes leaves then.
    mailing: Option<Timer>,
    pub(crate) counts: Counts,
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
        Node {
            began: Instant::now(),
            ahead_us: Cell::new(unix_time().0),
            limits: limits(),
            seeks_safe_time: false,
            is_behind_others: false,
            keyspace,
            procs,
            detached: ctx.detached(),
            commands,
            shard: None,
            incarnations: Incarnations::default(),
            sessions: Sessions::default(),
            one_shots: OneShots::new(own),
            queue: Queue::default(),
            open_multis: OpenMultis::default(),
            passed_over: PassedOver::default(),
            blocked_clients: BlockedClients::default(),
            leaving: Leaving::default(),
            may_wait_itself: leaving::may_wait_itself(ctx),
            stranded: Stranded::default(),
            telling: Telling::default(),
            questions: Questions::default(),
            following: Following::default(),
            seals: secret.map(|secret| Seals::new(secret, ctx.random().max(1))),
            mail: Mail::default(),
            links: Links::default(),
            said: 0,
            links_looked_at: None,
            deserted: Vec::new(),
            timer: None,
            soon: None,
            tick: None,
            ticks: 0,
            looks: 0,
            looked_through: 0,
            is_drained: false,
            is_namesake: false,
            no_writes: None,
            is_forged_said: false,
            check: None,
            mailing: None,
            counts: Counts::default(),
        }
    }

    /// The time of day, as far as that never goes back: timestamps are compared between nodes (P79). A machine that was suspended
    /// catches up; one whose time is set back waits for nothing, and is ahead from then on.
    pub(crate) fn now(&self) -> Time {
        let (elapsed, unix) = (self.began.elapsed().as_micros() as u64, unix_time());
        let now = Time(elapsed + self.ahead_us.get());
        if unix.since(now) < CATCHES_UP_US {
            return now;
        }
        self.ahead_us.set(unix.0.saturating_sub(elapsed));
        unix
    }

    pub(crate) fn detached(&self) -> Ctx {
        self.detached
    }

    /// Until when a command may wait for locks that comes now.
    fn waits_until(&self) -> Time {
        self.now().plus(settings::PLAIN_WAIT_MS.get() * 1_000)
    }

    /// With the queue of plain commands: they come to the shard as the node's own, and clients that they let go are released.
    fn with_queue<R>(&mut self, run: impl FnOnce(&mut Queue, Time, Option<&mut Shard>) -> R) -> R {
        let now = self.now();
        let _calling = self.keyspace.enter(Caller::server());
        let result = run(&mut self.queue, now, self.shard.as_mut());
        while let Some((client, number)) = self.queue.poll_released() {
            client.release(number);
        }
        result
    }
}

/// The time of day: births of transactions are compared between processes.
pub(crate) fn unix_time() -> Time {
    Time(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64)
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
        ordered_meets_min: meets_min(),
        ..Limits::default()
    }
}
