//! Settings, each declared once: the registration and `docs/commands.md` come from here.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use claret_types::{Bytes, OpError, Operation, Schema, SchemaDigest};

use super::ways;
use crate::ffi::{OnMainThread, Text};

/// One setting.
pub(crate) struct Setting {
    /// Without the module's name, which the server puts before it.
    pub(crate) name: &'static str,
    pub(crate) value: AtomicI64,
    pub(crate) default: i64,
    pub(crate) min: i64,
    pub(crate) max: i64,
    /// Only at load; after it, the value that it has is all it takes.
    pub(crate) fixed: bool,
    /// One of these words, each of which stands for its place; if there are none, a number.
    pub(crate) words: &'static [&'static CStr],
    #[cfg_attr(not(test), expect(dead_code, reason = "the page shows it"))]
    pub(crate) summary: &'static str,
}

impl Setting {
    const fn new(
        name: &'static str,
        default: i64,
        bounds: (i64, i64),
        fixed: bool,
        summary: &'static str,
    ) -> Self {
        Setting {
            name,
            value: AtomicI64::new(default),
            default,
            min: bounds.0,
            max: bounds.1,
            fixed,
            words: &[],
            summary,
        }
    }

    /// One of some words, the first by default; only at load.
    pub(super) const fn of_words(
        name: &'static str,
        words: &'static [&'static CStr],
        summary: &'static str,
    ) -> Self {
        Setting { words, ..Setting::new(name, 0, (0, words.len() as i64 - 1), true, summary) }
    }

    /// The value; within its bounds, none of which is negative.
    pub(crate) fn get(&self) -> u64 {
        self.value.load(Ordering::Relaxed).unsigned_abs()
    }
}

const MINUTE_MS: i64 = 60_000;

pub(crate) static LEASE_MS: Setting = Setting::new(
    "lease-ms",
    10_000,
    (50, 60 * MINUTE_MS),
    true,
    "how long an attempt that has not voted is kept without a sign of life, in milliseconds; an attempt that has \
     voted then asks the other shards",
);
pub(crate) static INQUIRE_MS: Setting = Setting::new(
    "inquire-ms",
    100,
    (1, MINUTE_MS),
    true,
    "how long an attempt in doubt waits after it first asked the other shards, in milliseconds; twice as long after \
     each further time, up to five seconds",
);
pub(crate) static FRAME_BYTES_MAX: Setting = Setting::new(
    "frame-bytes-max",
    64 << 20,
    (1 << 10, 512 << 20),
    false,
    "the longest frame of requests, in bytes; a longer one is refused as a whole",
);
pub(crate) static OUTBOX_MAX: Setting = Setting::new(
    "outbox-max",
    1 << 16,
    (16, 1 << 24),
    false,
    "responses that wait for one session; beyond that the oldest are dropped, and the client asks for them again",
);
pub(crate) static OUTBOX_BYTES_MAX: Setting = Setting::new(
    "outbox-bytes-max",
    16 << 20,
    (1 << 10, 1 << 30),
    false,
    "bytes of responses that wait for one session; beyond that the oldest are dropped, and the client asks for them \
     again",
);
pub(crate) static ANSWERS_BYTES_MAX: Setting = Setting::new(
    "answers-bytes-max",
    1 << 20,
    (0, 1 << 30),
    true,
    "bytes of answers kept of one session's committed transactions, for a commit that is sent again; beyond that the \
     oldest are dropped, and such a commit hears that its outcome is unknown",
);
pub(crate) static OUTBOXES_BYTES_MAX: Setting = Setting::new(
    "outboxes-bytes-max",
    1 << 30,
    (1 << 20, 1 << 40),
    false,
    "bytes of responses that wait for all sessions; beyond that each session has an equal share, the oldest beyond \
     the share are dropped, and the client asks for them again",
);
pub(crate) static CALLS_MAX: Setting = Setting::new(
    "calls-max",
    1 << 20,
    (1, 1 << 30),
    false,
    "operations of one transaction at this node; a transaction with more is refused",
);
pub(crate) static WHOLE_ELEMENTS_MAX: Setting = Setting::new(
    "whole-elements-max",
    1 << 17,
    (1 << 10, 1 << 30),
    false,
    "elements of a key that are read at once for an operation which answers less of them, as a rank after changes of the \
     same transaction, or a place in a document; on a key with more, or with more than 256 bytes of memory for each of so many \
     (`MEMORY USAGE`), it is refused",
);
pub(crate) static USER_BYTES_MAX: Setting = Setting::new(
    "user-bytes-max",
    1 << 30,
    (1 << 16, 1 << 40),
    false,
    "bytes kept for all sessions of one user: operations and answers of open transactions, and what is remembered of \
     finished ones; requests beyond that are refused",
);
pub(crate) static SHARD_BYTES_MAX: Setting =
    Setting::new("shard-bytes-max", 4 << 30, (1 << 16, 1 << 44), false, "the same for all users");
pub(crate) static STRANGERS_MAX: Setting = Setting::new(
    "strangers-max",
    1 << 16,
    (16, 1 << 24),
    false,
    "sessions about which other nodes asked and that never came; beyond that such questions are not answered until \
     some sessions are forgotten",
);
pub(crate) static FORGET_MS: Setting = Setting::new(
    "forget-ms",
    10_000,
    (10, 60 * MINUTE_MS),
    false,
    "how long a session without a connection is remembered, in milliseconds; if it comes back later, it cannot learn \
     the outcome of its earlier commits",
);
pub(crate) static RESERVATIONS_MAX: Setting = Setting::new(
    "reservations-max",
    1_024,
    (0, 1 << 20),
    false,
    "keys reserved at a time for the next try of plain commands; beyond that none are reserved",
);
pub(crate) static VERSIONS_BYTES_MAX: Setting = Setting::new(
    "versions-bytes-max",
    16 << 20,
    (0, 1 << 40),
    false,
    "bytes kept for keys whose RECORD.VERSION was asked for; beyond that those that were asked for longest ago are as if \
     they had changed",
);
pub(crate) static USER_SESSIONS_MAX: Setting = Setting::new(
    "user-sessions-max",
    8_000,
    (1, 1 << 20),
    false,
    "client processes of one user known at a time; more are refused",
);
pub(crate) static SESSIONS_MAX: Setting = Setting::new(
    "sessions-max",
    10_000,
    (1, 1 << 20),
    false,
    "client processes known at a time; more are refused",
);
pub(crate) static POLL_MS_MAX: Setting = Setting::new(
    "poll-ms-max",
    MINUTE_MS,
    (1, 60 * MINUTE_MS),
    false,
    "the longest time that CLARET.POLL waits, in milliseconds",
);
pub(crate) static PLAIN_WAIT_MS: Setting = Setting::new(
    "plain-wait-ms",
    5_000,
    (1, 60 * MINUTE_MS),
    false,
    "how long CLARET.EXEC and plain commands wait for locks before they give up, in milliseconds",
);
pub(crate) static RESERVATION_MS: Setting = Setting::new(
    "reservation-ms",
    20,
    (1, MINUTE_MS),
    false,
    "how long keys stay reserved for the next try of a plain command that was answered -TRYAGAIN, in milliseconds",
);
pub(crate) static TOPOLOGY_MS: Setting = Setting::new(
    "topology-ms",
    100,
    (10, MINUTE_MS),
    false,
    "how often a node of a cluster checks who owns which slots, in milliseconds",
);
pub(crate) static DRAIN: Setting = Setting::new(
    "drain",
    0,
    (0, 1),
    false,
    "1: transactions are refused here and run again elsewhere or later, so that when nothing is in doubt a planned \
     failover loses nothing; 0 again when the node becomes a replica",
);

pub(crate) static ORDERING: Setting = Setting::new(
    "ordering",
    1,
    (0, 2),
    false,
    "calls are ordered instead of locked where they can be: 0 never by itself, 1 while that carries out more, which it tries, 2 always",
);
pub(crate) static CLOCK_SKEW_MS: Setting = Setting::new(
    "clock-skew-ms",
    1_000,
    (1, MINUTE_MS),
    true,
    "how far the clocks of two nodes may be apart, in milliseconds, the same on all nodes; if they are further apart, \
     transactions on ordered records of one node may seem to come before those of another that ended earlier. For so \
     long a silent node delays answers about what was ordered",
);

pub(crate) static DURABILITY: Setting = Setting::of_words(
    "durability",
    &[c"async", c"strict"],
    "what a failover that nobody planned may lose: `async`, what was reported last; `strict`, nothing that was reported, \
     since every configured replica has it before, and a replica that takes over goes on as the same shard. The same on \
     all nodes; `strict` needs a cluster and claret.peer-secret-file",
);
pub(crate) static ERRANDS: Setting = Setting::of_words(
    "errands",
    &[c"no", c"yes"],
    "whether `CLARET.DO` takes keys of other nodes, and this node operations that were given to others ([errands](errands.md)): \
     whoever breaks into one node can then act as any user at the others. It needs claret.peer-secret-file, and the same on all nodes",
);
pub(crate) static REPLICAS: Setting = Setting::new(
    "replicas",
    1,
    (1, 64),
    false,
    "so many replicas each primary has in the durability `strict`, at least; with fewer that are connected it serves no \
     transactions",
);
pub(crate) static REPLICA_MS: Setting = Setting::new(
    "replica-ms",
    1_000,
    (10, MINUTE_MS),
    false,
    "how long a primary waits in the durability `strict` for its replicas before it refuses further transactions, in \
     milliseconds",
);

/// A setting that is text, only at load.
pub(crate) struct TextSetting {
    /// As in [`Setting`].
    pub(crate) name: &'static str,
    pub(crate) value: OnMainThread<Text>,
    #[cfg_attr(not(test), expect(dead_code, reason = "the page shows it"))]
    pub(crate) summary: &'static str,
}

impl TextSetting {
    /// Empty where it is not set.
    pub(crate) fn get(&self) -> Vec<u8> {
        self.value.with(|value| value.bytes().to_vec()).unwrap_or_default()
    }
}

pub(crate) static PEER_SECRET_FILE: TextSetting = TextSetting {
    name: "peer-secret-file",
    value: OnMainThread::new(),
    summary: "a file with a secret that all nodes have and nobody else, of 16 bytes at least: with it nodes sign what they \
              tell each other, and take nothing that is not signed",
};

/// The setting that is a schema.
pub(crate) struct SchemaSetting {
    /// As in [`Setting`].
    pub(crate) name: &'static str,
    value: OnMainThread<InForce>,
    /// Whether it has any prefix: mostly there is none, and then this is all that is asked.
    has_prefixes: AtomicBool,
    #[cfg_attr(not(test), expect(dead_code, reason = "the page shows it"))]
    pub(crate) summary: &'static str,
}

/// A schema, and what is told of it.
struct InForce {
    schema: Schema,
    digest: SchemaDigest,
    /// As the server shows and keeps it.
    text: Text,
}

impl SchemaSetting {
    /// Reads a text, and puts it in force.
    ///
    /// # Errors
    /// It is no schema; the one before stays in force.
    pub(crate) fn set(&self, text: &[u8]) -> Result<(), String> {
        let text = std::str::from_utf8(text).map_err(|error| {
            format!("no UTF-8 from byte {} on; write \\xHH in quotes", error.valid_up_to())
        })?;
        let schema = Schema::parse(text).map_err(|error| error.to_string())?;
        self.has_prefixes.store(!schema.is_empty(), Ordering::Relaxed);
        let text = Text::new(schema.to_string().as_bytes());
        self.value.set(Some(InForce { digest: schema.digest(), schema, text }));
        Ok(())
    }

    /// Looks at the text as it is kept, which is the same for equal schemas.
    pub(crate) fn with_text<R>(&self, look: impl FnOnce(&Text) -> R) -> Option<R> {
        self.value.with(|value| look(&value.text))
    }

    pub(crate) fn digest(&self) -> SchemaDigest {
        self.value.with(|value| value.digest).unwrap_or_default()
    }

    /// How many prefixes it has.
    pub(crate) fn prefixes(&self) -> u64 {
        self.value.with(|value| value.schema.len() as u64).unwrap_or_default()
    }

    /// Whether an operation on this key may be done.
    #[inline]
    pub(crate) fn check(&self, key: &Bytes, op: &Operation) -> Result<(), OpError> {
        if !self.has_prefixes.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.value.with(|value| value.schema.check(key, op)).unwrap_or(Ok(()))
    }
}

pub(crate) static SCHEMA: SchemaSetting = SchemaSetting {
    name: "schema",
    value: OnMainThread::new(),
    has_prefixes: AtomicBool::new(false),
    summary: "which types the keys with some prefixes have, and the fields of dicts and documents there \
              ([schemas](schemas.md)): operations of transactions that break it are refused. The same on all nodes, of at most \
              64 KiB; `claret schema apply` sets it on all",
};

/// Whether [`DURABILITY`] is `strict`.
#[inline]
pub(crate) fn is_strict() -> bool {
    DURABILITY.value.load(Ordering::Relaxed) == 1
}

/// All of them, but for [`PEER_SECRET_FILE`] and [`SCHEMA`].
pub(crate) fn all() -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().chain(ways::SETTINGS.iter().copied().flatten()).copied()
}

/// Those that are of no way to commit.
static SETTINGS: [&Setting; 28] = [
    &LEASE_MS,
    &INQUIRE_MS,
    &FRAME_BYTES_MAX,
    &WHOLE_ELEMENTS_MAX,
    &OUTBOX_MAX,
    &OUTBOX_BYTES_MAX,
    &OUTBOXES_BYTES_MAX,
    &CALLS_MAX,
    &USER_BYTES_MAX,
    &SHARD_BYTES_MAX,
    &STRANGERS_MAX,
    &FORGET_MS,
    &RESERVATIONS_MAX,
    &VERSIONS_BYTES_MAX,
    &USER_SESSIONS_MAX,
    &ANSWERS_BYTES_MAX,
    &SESSIONS_MAX,
    &POLL_MS_MAX,
    &PLAIN_WAIT_MS,
    &RESERVATION_MS,
    &TOPOLOGY_MS,
    &DRAIN,
    &ORDERING,
    &CLOCK_SKEW_MS,
    &DURABILITY,
    &ERRANDS,
    &REPLICAS,
    &REPLICA_MS,
];
