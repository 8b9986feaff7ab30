//! Injects one fault, and reports what it did to the history.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use claret::Reply;
use claret_redis::{Cluster, Command, CommandError};
use claret_rig::{RigError, SLOTS, pause_process, resume_process, slot_of};
use rand::RngExt;
use rand::rngs::SmallRng;
use tokio::runtime::Handle;

use super::cluster::{FaultyCluster, LEASE, USER};
use crate::clock::Clock;
use crate::fault::Fault;
use crate::history::{Entry, Outcome, Reason, Step, Why};
use crate::intent::Keys;
use crate::moves::{Move, Moved, move_slot};
use crate::processes::Processes;

/// How long a fault of many small blows lasts.
const BLOWS: Duration = Duration::from_millis(1_000);

/// The server keeps time by the millisecond.
const TICK_US: u64 = 5_000;

/// How long a node may go on refusing for a reason that is over.
const AFTER_US: u64 = 1_500_000;

/// What a fault did to the history.
#[derive(Clone, Debug, Default)]
pub(crate) struct Injected {
    /// Whether it struck at all.
    pub(crate) did: bool,
    pub(super) expiries: Vec<Entry>,
    pub(super) flushes: Vec<Flush>,
    /// Slots, and from when to when they were on their way.
    pub(super) moves: Vec<(u16, u64, u64)>,
    pub(super) reasons: Vec<Reason>,
}

/// All records of a node.
#[derive(Clone, Debug)]
pub(super) struct Flush {
    pub(super) began: u64,
    /// `None`: nobody knows whether it was done.
    pub(super) ended: Option<u64>,
    /// What the node served.
    pub(super) slots: BTreeSet<u16>,
}

/// Who strikes, once.
pub(crate) struct Injector {
    pub(crate) cluster: Arc<FaultyCluster>,
    pub(crate) processes: Arc<Mutex<Processes>>,
    pub(crate) plain: Cluster,
    pub(crate) keys: Keys,
    pub(crate) clock: Clock,
    pub(crate) random: SmallRng,
    pub(crate) runtime: Handle,
}

type Done = Result<Injected, String>;

fn text(error: RigError) -> String {
    error.to_string()
}

impl Injector {
    /// Strikes, and returns when it is over.
    ///
    /// # Errors
    /// A node that does not do what it is told, by an operator.
    pub(crate) fn inject(mut self, fault: Fault) -> Done {
        self.rest(100, 900);
        match fault {
            Fault::Stop => self.stop(),
            Fault::Kill => self.kill(),
            Fault::Freeze => self.freeze(),
            Fault::Cut => self.cut(),
            Fault::Expire => Ok(self.expire()),
            Fault::Flush => Ok(self.flush()),
            Fault::Rights => self.rights(),
            Fault::Slots => self.slots(),
            Fault::Scripts => self.scripts(),
            Fault::Memory => self.memory(),
        }
        .map_err(|error| format!("{fault}: {error}"))
    }

    fn rest(&mut self, least_ms: u64, most_ms: u64) {
        sleep(Duration::from_millis(self.random.random_range(least_ms..=most_ms)));
    }

    fn master(&mut self) -> usize {
        self.random.random_range(0..self.cluster.masters())
    }

    fn stop(&mut self) -> Done {
        let servers = self.cluster.rig.servers().len();
        let node = self.random.random_range(0..servers);
        self.cluster.rig.servers()[node].pause();
        self.rest(100, 2_200);
        self.cluster.rig.servers()[node].resume();
        Ok(Injected { did: true, ..Injected::default() })
    }

    fn kill(&mut self) -> Done {
        let mut processes = self.processes.lock().expect("nobody panics with it");
        let at = self.random.random_range(0..processes.len());
        processes.kill(at)?;
        Ok(Injected { did: true, ..Injected::default() })
    }

    fn freeze(&mut self) -> Done {
        let pid = {
            let processes = self.processes.lock().expect("nobody panics with it");
            processes.pid(self.random.random_range(0..processes.len()))
        };
        // Nobody else ends it in this round, so the pid is its own.
        pause_process(pid);
        sleep(LEASE);
        self.rest(50, 800);
        resume_process(pid);
        Ok(Injected { did: true, ..Injected::default() })
    }

    fn cut(&mut self) -> Done {
        for _ in 0..self.random.random_range(3..8) {
            let node = self.master();
            match self.random.random_range(0..4) {
                0 => self.cluster.say(node, &["CLIENT", "KILL", "TYPE", "pubsub"])?,
                1 => self.cluster.say(node, &["CLIENT", "KILL", "TYPE", "normal"])?,
                _ => self.cluster.proxies[node].cut(None, &mut self.random),
            }
            self.rest(20, 250);
        }
        Ok(Injected { did: true, ..Injected::default() })
    }

    /// An end lies so many milliseconds behind the moment at which the command was carried out.
    fn expire(&mut self) -> Injected {
        let mut injected = Injected::default();
        let mut known = BTreeSet::new();
        let since = Instant::now();
        while since.elapsed() < BLOWS {
            self.rest(0, 3);
            let key = self.keys.in_use(self.clock.now(), &mut self.random);
            let millis = self.random.random_range(1..300_u64);
            if !known.insert(key.clone()) {
                continue;
            }
            let began = self.clock.now();
            let command = Command::new("PEXPIRE").key(key.as_str()).arg(millis.to_string());
            let outcome = match self.runtime.block_on(self.plain.ask(command)) {
                Ok(Reply::Int(1)) => Outcome::Committed,
                Err(CommandError::Lost { .. }) => Outcome::Unknown,
                Ok(_) | Err(_) => {
                    known.remove(&key);
                    continue;
                }
            };
            injected.did |= outcome == Outcome::Committed;
            let (began, ended) = (
                began + millis * 1_000 - TICK_US.min(millis * 1_000),
                self.clock.now() + millis * 1_000 + TICK_US,
            );
            let steps = vec![Step::End(key, outcome == Outcome::Committed)];
            injected.expiries.push(Entry { client: u64::MAX, began, ended, outcome, plain: true, steps });
        }
        injected
    }

    fn flush(&mut self) -> Injected {
        let node = self.master();
        let slots = (0..SLOTS).filter(|slot| self.cluster.owner(*slot) == node).collect();
        let began = self.clock.now();
        let done = self.cluster.say_once(node, &["FLUSHALL"]);
        let flush = Flush { began, ended: done.is_ok().then(|| self.clock.now()), slots };
        Injected { did: done.is_ok(), flushes: vec![flush], ..Injected::default() }
    }

    /// Every change of what a user at work may do makes a node refuse what has not voted. A right that is withdrawn refuses for good.
    fn rights(&mut self) -> Done {
        let mut injected = Injected { did: true, ..Injected::default() };
        let since = Instant::now();
        while since.elapsed() < BLOWS {
            let node = self.master();
            if self.random.random_range(0..3) > 0 {
                // What stays as it was is no change.
                let more = format!("(~{} +get)", self.random.random::<u64>());
                self.cluster.say(node, &["ACL", "SETUSER", USER, "clearselectors", &more])?;
                self.rest(5, 60);
                continue;
            }
            // Scripts of clients do the same to both keys, so that they have the right to both, or to none.
            let withdrawn: &[&str] = match self.random.random_range(0..4) {
                0 => &["-sadd"],
                1 => &["-rpush", "-lrange"],
                2 => &["-set", "-getset"],
                _ => &["resetkeys"],
            };
            let began = self.clock.now();
            self.cluster.say(node, &[&["ACL", "SETUSER", USER], withdrawn].concat())?;
            self.rest(20, 200);
            self.cluster.say(node, &["ACL", "SETUSER", USER, "+@all", "~*"])?;
            let ended = self.clock.now() + AFTER_US;
            injected.reasons.push(Reason { why: Why::Denied, began, ended });
        }
        Ok(injected)
    }

    /// As `redis-cli --cluster reshard` does it, with one slot that has records in use.
    fn slots(&mut self) -> Done {
        let tags = self.keys.tags();
        let slot = slot_of(&format!("{{{}}}", tags[self.random.random_range(0..tags.len())]));
        let from = self.cluster.owner(slot);
        // To and fro: what is away goes home half the time.
        let other = (from + self.random.random_range(1..self.cluster.masters())) % self.cluster.masters();
        let home = (0..self.cluster.masters()).find(|node| slot <= self.cluster.rig.slots(*node).1);
        let to = home.filter(|home| *home != from && self.random.random()).unwrap_or(other);
        let began = self.clock.now();
        let moved = self.move_slot(slot, from, to)?;
        let moves = vec![(slot, began, self.clock.now())];
        Ok(Injected { did: moved, moves, ..Injected::default() })
    }

    fn move_slot(&self, slot: u16, from: usize, to: usize) -> Result<bool, String> {
        let port = self.cluster.rig.servers()[to].port();
        let primaries: Vec<usize> = (0..self.cluster.masters()).collect();
        let it = Move { slot, from, to, port, primaries: &primaries, steps_max: usize::MAX };
        let is_there = move_slot(&*self.cluster, &it)? == Moved::There;
        if is_there {
            self.cluster.moved.lock().expect("nobody panics with it").insert(slot, to);
        }
        Ok(is_there)
    }

    fn scripts(&mut self) -> Done {
        let node = self.master();
        let began = self.clock.now();
        let mut connection = self.cluster.rig.servers()[node].connection().map_err(text)?;
        // It ends with an error when it is killed.
        let script = thread::spawn(move || {
            let words = ["EVAL", "while true do end", "0"];
            drop(claret_rig::query::<redis::Value>(&mut connection, &words));
        });
        self.rest(100, 900);
        let since = Instant::now();
        // It may not have begun.
        while !script.is_finished() {
            let killed = self.cluster.rig.query::<redis::Value>(node, &["SCRIPT", "KILL"]);
            if since.elapsed() > Duration::from_secs(10) {
                return Err(format!("the script does not end: {killed:?}"));
            }
            sleep(Duration::from_millis(5));
        }
        script.join().map_err(|_| "the script's thread panicked".to_owned())?;
        let reason = Reason { why: Why::Busy, began, ended: self.clock.now() + AFTER_US };
        Ok(Injected { did: true, reasons: vec![reason], ..Injected::default() })
    }

    fn memory(&mut self) -> Done {
        let node = self.master();
        let began = self.clock.now();
        self.cluster.say(node, &["CONFIG", "SET", "maxmemory", "1mb"])?;
        self.rest(100, 900);
        self.cluster.say(node, &["CONFIG", "SET", "maxmemory", "0"])?;
        let reason = Reason { why: Why::NoMemory, began, ended: self.clock.now() + AFTER_US };
        Ok(Injected { did: true, reasons: vec![reason], ..Injected::default() })
    }
}
