//! What people do with Redis today where they want a transaction: the baselines on real servers.
//!
//! They run the workloads' own clients: a stage's calls become plain Redis commands, the same ones that the mode `none`
//! sends, over connections of the same library.
//!
//! | mode | where | a transaction is | what it takes |
//! |---|---|---|---|
//! | `redis-lock` | cluster | a lock for each key (`SET NX PX`), the commands, the locks' release | two round trips |
//! | `redis-watch` | one server | `WATCH` of all keys, the reads, `MULTI`, the writes, `EXEC` | two round trips |
//! | `redis-multi` | one server | `MULTI`, the commands, `EXEC` | one, not interactive |
//! | `errand` | cluster with the module | `CLARET.DO` of its operations, given to one node by each client | one, not interactive |
//! | `redis-lua` | one server | `EVALSHA` of a script that runs the commands | one, not interactive |
//!
//! Unique numbers are drawn with a plain `INCR` beforehand in all of them: a gap does no harm. Where a stage needs the
//! answers of another one, `errand`, `redis-multi` and `redis-lua` run them one after the other, each for itself: then only single
//! operations are promised, and only those are checked.

mod at_once;
mod backoff;
mod lock;
mod watch;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use claret::types::{Access, List, UidGenerator, UidOp};
use claret::{Reply, Store};
use claret_redis::{Cluster, Command, CommandError, Dedicated, reply_of};

use crate::measure::Counts;
use crate::mode::Scheme;
use crate::pace::Pace;
use crate::schedule::{Outcome, Schedule};
use crate::workload::{Call, Client, Promise, Stage};
pub(crate) use backoff::Backoff;

/// How long a transaction may take, all attempts together, as in a store.
const DEADLINE: Duration = Duration::from_secs(10);

/// The shortest and the longest backoff between tries that served best, in microseconds (`docs/performance.md`).
fn best_backoff_us(scheme: Scheme) -> (u64, u64) {
    match scheme {
        Scheme::Lock => (1_000, 64_000),
        Scheme::Watch | Scheme::Multi | Scheme::Lua | Scheme::Errand => (4_000, 64_000),
    }
}

/// One mode's connections, and what its clients count together.
#[derive(Debug)]
pub(crate) struct RedisBaseline {
    scheme: Scheme,
    plain: Cluster,
    /// By their digests.
    scripts: Scripts,
    backoff: (u64, u64),
    retries: AtomicU64,
    refused: AtomicU64,
    /// A stage needed the answers of another one, and they were not of one transaction.
    was_torn: AtomicBool,
}

/// The digests of the scripts that a baseline uses.
#[derive(Debug, Default)]
struct Scripts {
    release: String,
    run: String,
    /// By their text.
    shaped: Mutex<HashMap<String, String>>,
}

/// Why a transaction did not commit.
enum Failed {
    /// Its user wanted that.
    RolledBack,
    /// Its time is over; it has no effect.
    GaveUp,
    /// It may have an effect, or a part of it.
    Unknown,
    /// The run cannot go on.
    Broken(String),
}

impl From<CommandError> for Failed {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Lost { .. } => Failed::Unknown,
            other => Failed::Broken(other.to_string()),
        }
    }
}

impl RedisBaseline {
    pub(crate) async fn connect(
        scheme: Scheme,
        url: String,
        backoff: Option<(u64, u64)>,
    ) -> Result<Self, String> {
        let plain = Store::cluster(&url).connections().connect().await.map_err(|error| error.to_string())?;
        if scheme.is_single() && plain.nodes().len() > 1 {
            return Err(format!("{url} is a cluster, and single-server modes need a server that is none"));
        }
        let mut baseline = RedisBaseline {
            scheme,
            plain,
            scripts: Scripts::default(),
            backoff: backoff.unwrap_or(best_backoff_us(scheme)),
            retries: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            was_torn: AtomicBool::new(false),
        };
        baseline.scripts = match scheme {
            Scheme::Lock => {
                Scripts { release: baseline.load_script(lock::RELEASE).await?, ..Scripts::default() }
            }
            Scheme::Lua => Scripts { run: baseline.load_script(at_once::RUN).await?, ..Scripts::default() },
            Scheme::Watch | Scheme::Multi | Scheme::Errand => Scripts::default(),
        };
        Ok(baseline)
    }

    /// Makes a script known to all nodes; its digest.
    async fn load_script(&self, script: &str) -> Result<String, String> {
        let mut digest = String::new();
        for node in self.plain.nodes() {
            let load = Command::new("SCRIPT").arg("LOAD").arg(script);
            match self.plain.ask_at(&node, load).await.map_err(|error| error.to_string())? {
                Reply::Bytes(found) => digest = found.to_string(),
                other => return Err(format!("SCRIPT LOAD was answered {other}")),
            }
        }
        Ok(digest)
    }

    /// What may be checked of what it did.
    pub(crate) fn promise(&self) -> Promise {
        match self.was_torn.load(Ordering::Relaxed) {
            false => Promise::Transactions,
            true => Promise::Operations,
        }
    }

    /// Attempts run again, and refusals of a lock.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.retries.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed))
    }

    /// Carries out calls, each alone.
    pub(crate) async fn run_alone(&self, calls: &[Call]) -> Result<Vec<Reply>, String> {
        let run = async {
            let commands = commands(calls)?;
            shape(calls, self.plain.run(commands).await.into_iter().collect::<Result<Vec<_>, _>>()?)
        };
        run.await.map_err(|failed| match failed {
            Failed::RolledBack | Failed::GaveUp | Failed::Unknown => "the connection broke".to_owned(),
            Failed::Broken(why) => why,
        })
    }
}

/// A client of a baseline.
pub(crate) struct RedisRunner {
    baseline: Arc<RedisBaseline>,
    client: Box<dyn Client>,
    calls: Vec<Call>,
    attempts: u32,
    backoff: Backoff,
    /// What `WATCH` and `CLARET.DO` need, for which the other commands of a connection wait.
    own: Option<Dedicated>,
    pub(crate) counts: Counts,
}

impl RedisRunner {
    pub(crate) fn new(
        baseline: Arc<RedisBaseline>,
        client: Box<dyn Client>,
        seed: u64,
        kinds: usize,
    ) -> Self {
        let backoff = Backoff::new(seed, baseline.backoff);
        RedisRunner {
            baseline,
            client,
            calls: Vec::new(),
            attempts: 0,
            backoff,
            own: None,
            counts: Counts::new(kinds),
        }
    }

    pub(crate) async fn run(&mut self, schedule: &Schedule) {
        let mut began = std::time::Instant::now();
        loop {
            let ended = self.transaction(schedule.pace).await;
            match schedule.next(began, ended, &mut self.counts).await {
                Some(next) => began = next,
                None => return,
            }
        }
    }

    pub(crate) fn finish(self) {
        self.client.finish();
    }

    async fn transaction(&mut self, pace: Pace) -> Outcome {
        let kind = self.client.draw();
        self.attempts = 1;
        let result = match self.baseline.scheme {
            Scheme::Lock => self.locked(pace).await,
            Scheme::Watch => self.watched(pace).await,
            Scheme::Multi | Scheme::Lua | Scheme::Errand => self.at_once().await,
        };
        match result {
            Ok(replies) => {
                self.client.committed(&replies);
                Outcome::Committed { kind, attempts: Some(self.attempts) }
            }
            Err(Failed::RolledBack) => {
                self.client.gave_up();
                Outcome::Committed { kind, attempts: Some(self.attempts) }
            }
            Err(Failed::GaveUp) => {
                self.client.gave_up();
                Outcome::Aborted
            }
            Err(Failed::Unknown) => {
                self.client.unknown();
                Outcome::Aborted
            }
            Err(Failed::Broken(why)) => {
                self.client.gave_up();
                self.counts.broken.get_or_insert(why);
                Outcome::Broken
            }
        }
    }

    /// The calls of the next stage, in `self.calls`. Numbers that it draws are drawn already: their places in the
    /// replies, and the numbers.
    async fn stage(&mut self, replies: &[Reply]) -> Result<(Stage, Drawn), Failed> {
        self.calls.clear();
        let stage = self.client.stage(replies, &mut self.calls);
        let may_be_both =
            |call: &Call| is_draw(call) || self.baseline.scheme == Scheme::Lock && is_of_list(call);
        if let Some(call) = self.calls.iter().find(|call| is_both(call) && !may_be_both(call)) {
            return Err(Failed::Broken(format!(
                "{:?} reads and writes: no baseline does that here",
                call.op
            )));
        }
        let draws: Vec<usize> = (0..self.calls.len()).filter(|&at| is_draw(&self.calls[at])).collect();
        if draws.is_empty() {
            return Ok((stage, Drawn::default()));
        }
        let mut drawn = Vec::with_capacity(draws.len());
        // From behind, so that the places before stay what they are.
        for &at in draws.iter().rev() {
            drawn.push((at, self.calls.remove(at)));
        }
        drawn.reverse();
        let (places, calls): (Vec<usize>, Vec<Call>) = drawn.into_iter().unzip();
        let replies: Result<Vec<_>, _> =
            self.baseline.plain.run(commands(&calls)?).await.into_iter().collect();
        Ok((stage, Drawn(places.into_iter().zip(shape(&calls, replies?)?).collect())))
    }

    /// Runs the application's part again, from its first stage.
    fn begin_again(&mut self) {
        self.baseline.retries.fetch_add(1, Ordering::Relaxed);
        self.attempts += 1;
        self.client.restart();
    }
}

/// Numbers that a stage drew, by their place among its calls.
#[derive(Default)]
struct Drawn(Vec<(usize, Reply)>);

impl Drawn {
    /// All replies of the stage: these among those of the other calls.
    fn among(self, mut replies: Vec<Reply>) -> Vec<Reply> {
        for (at, reply) in self.0 {
            replies.insert(at, reply);
        }
        replies
    }
}

/// Whether a call answers something and changes something: it can be done neither early nor late.
fn is_both(call: &Call) -> bool {
    call.op.returns() && call.op.method().access == Access::Write
}

/// Whether a call is of a list: under a lock an end can be read first and changed later.
fn is_of_list(call: &Call) -> bool {
    call.op.downcast::<List>().is_some()
}

/// Whether a call draws a unique number.
fn is_draw(call: &Call) -> bool {
    matches!(call.op.downcast::<UidGenerator>(), Some(UidOp::Next))
}

fn commands(calls: &[Call]) -> Result<Vec<Command>, Failed> {
    let command = |call: &Call| Command::of(&call.key, &call.op);
    calls.iter().map(command).collect::<Result<_, _>>().map_err(|error| Failed::Broken(error.to_string()))
}

/// Replies as the calls answer them.
fn shape(calls: &[Call], replies: Vec<Reply>) -> Result<Vec<Reply>, Failed> {
    if replies.len() != calls.len() {
        return Err(Failed::Broken(format!("{} calls and {} replies", calls.len(), replies.len())));
    }
    Ok(calls.iter().zip(replies).map(|(call, reply)| reply_of(&call.op, reply)).collect())
}
