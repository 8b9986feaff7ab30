//! A cluster of the run's own: its nodes are killed, stopped, failed over and started again, one shard after the other.
//!
//! What a fault may cost in a cluster that keeps what Redis keeps is noted as a waiver; with `claret.durability strict` nothing is
//! waived. A failover of a drained node, a node that stops for a moment and a dead replica cost nothing in either.

use std::time::{Duration, Instant};

use rand::RngExt;

use super::children::Process;
use super::cuts::Cut;
use super::disk::{FULL, NO_ROOM};
use super::plan::Durability;
use super::run::Run;
use super::servers::{FAILOVER_TIME, HEAL_TIME, LOOK, Servers, text};
use super::slots::Shift;
use super::url::{start, stop, strike_clients};
use super::waivers::Slots;

/// How long clients work between two faults, in milliseconds.
const BETWEEN_MS: (u64, u64) = (800, 3_500);

/// How long a node is drained before it hands over (docs/operations.md).
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// So much of a node's log is shown.
const LOG_LINES: usize = 12;

/// What strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// A primary is killed; when a replica has taken over, it comes back.
    Kill,
    /// A primary is killed and started again at once.
    Restart,
    /// All nodes of a shard are killed, and come back.
    Shard,
    /// All nodes are.
    Everybody,
    /// A node stops, for less than would count as failed.
    Stop,
    /// A primary stops until a replica has taken over, and goes on.
    Freeze,
    /// `CLUSTER FAILOVER`, of a node that was not drained.
    Failover,
    /// The same of a node that was drained.
    Drained,
    /// `CLUSTER FAILOVER TAKEOVER`: nobody is asked.
    Takeover,
    /// A replica is killed, and comes back.
    Replica,
    /// A process with clients is killed or stopped.
    Clients,
    /// The network fails.
    Cut(Cut),
    /// Slots move.
    Shift(Shift),
    /// The disk of a node is full for a while.
    Disk,
    /// The same, and not even what it knows of the cluster can be written: a node may end by that.
    NoRoom,
    /// The clock of a node jumps, and jumps back.
    Clock,
}

/// All of them.
const ALL: [Fault; 26] = [
    Fault::Kill,
    Fault::Restart,
    Fault::Shard,
    Fault::Everybody,
    Fault::Stop,
    Fault::Freeze,
    Fault::Failover,
    Fault::Drained,
    Fault::Takeover,
    Fault::Replica,
    Fault::Clients,
    Fault::Cut(Cut::Slow),
    Fault::Cut(Cut::Closed),
    Fault::Cut(Cut::Clients),
    Fault::Cut(Cut::Late),
    Fault::Cut(Cut::Blink),
    Fault::Cut(Cut::Shard),
    Fault::Cut(Cut::Mute),
    Fault::Cut(Cut::Deaf),
    Fault::Cut(Cut::Link),
    Fault::Cut(Cut::Off),
    Fault::Shift(Shift::Slots),
    Fault::Shift(Shift::Killed),
    Fault::Disk,
    Fault::NoRoom,
    Fault::Clock,
];

impl Fault {
    fn name(self) -> &'static str {
        match self {
            Fault::Kill => "primary killed, replica took over",
            Fault::Restart => "primary killed and started again",
            Fault::Shard => "all nodes of a shard killed",
            Fault::Everybody => "all nodes killed",
            Fault::Stop => "node stopped",
            Fault::Freeze => "primary stopped, replica took over",
            Fault::Failover => "failover by hand",
            Fault::Drained => "failover by hand of a drained node",
            Fault::Takeover => "takeover",
            Fault::Replica => "replica killed",
            Fault::Clients => "clients",
            Fault::Cut(cut) => cut.name(),
            Fault::Shift(shift) => shift.name(),
            Fault::Disk => "disk full",
            Fault::NoRoom => "nothing can be written",
            Fault::Clock => "clock jumped",
        }
    }

    /// Whether it may cost what was acknowledged, where the cluster keeps what Redis keeps.
    fn may_lose(self) -> bool {
        match self {
            Fault::Kill | Fault::Restart | Fault::Freeze | Fault::Failover | Fault::Takeover => true,
            Fault::Shard | Fault::Everybody => true,
            Fault::Stop | Fault::Drained | Fault::Replica | Fault::Clients => false,
            // A node that ends by it is noted by itself.
            Fault::Disk | Fault::NoRoom | Fault::Clock => false,
            Fault::Cut(cut) => cut.may_lose(),
            // What was hit on its way is noted by itself.
            Fault::Shift(_) => false,
        }
    }

    /// Whether it can strike where nodes have no replicas.
    fn strikes_alone(self) -> bool {
        match self {
            Fault::Restart | Fault::Stop | Fault::Clients => true,
            Fault::Disk | Fault::NoRoom | Fault::Clock => true,
            Fault::Shift(shift) => shift == Shift::Slots,
            Fault::Cut(cut) => !cut.needs_replica(),
            _ => false,
        }
    }
}

impl Servers {
    /// Strikes until the time is over.
    ///
    /// # Errors
    /// What is wrong: the cluster does not heal, or a client says so.
    pub(super) fn strike(&mut self, run: &mut Run<'_>) -> Result<(), String> {
        let mut processes = start(run)?;
        let mut primaries = self.primaries()?;
        // Faults that have not struck since all have.
        let mut remaining = Vec::new();
        while !run.is_over() {
            run.rest(BETWEEN_MS, &mut processes)?;
            if run.is_over() {
                break;
            }
            let ordering = self.order(run)?;
            let fault = self.draw(run, &mut remaining)?;
            let (shard, began) = (run.below(self.rig.masters()), run.clock.now());
            if fault == Fault::Clients {
                strike_clients(run, &mut processes)?;
            } else {
                let whom = self.inject(fault, shard, run, &mut processes)?;
                self.rig.wait_until_ok(HEAL_TIME).map_err(text)?;
                self.wait_until_known()?;
                run.note(fault.name(), began, format!("{whom} (claret.ordering {ordering})"));
            }
            primaries = self.look(run, &primaries, (fault, shard), began)?;
        }
        self.network.release();
        // What is in doubt is decided, and nobody is down.
        self.rig.wait_until_ok(HEAL_TIME).map_err(text)?;
        stop(processes)
    }

    /// From now on calls are ordered on no record, on hot ones, or on all.
    fn order(&self, run: &mut Run<'_>) -> Result<usize, String> {
        let ordering = run.below(3);
        self.set_ordering(ordering)?;
        Ok(ordering)
    }

    /// In the durability strict a shard outlives one fault at a time: the next one waits until its replicas know everything again.
    fn wait_until_known(&self) -> Result<(), String> {
        if self.secret.is_none() {
            return Ok(());
        }
        let began = Instant::now();
        loop {
            let primaries = self.primaries()?;
            let knows = |node: &usize| {
                let known = self.rig.servers()[*node].info("claret", "claret_replicas_know");
                known.ok().flatten().as_deref() == Some("1")
            };
            if primaries.iter().all(knows) {
                return Ok(());
            }
            if began.elapsed() > HEAL_TIME {
                return Err("replicas do not know what their primaries do".to_owned());
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Each fault strikes before one strikes again.
    fn draw(&self, run: &mut Run<'_>, remaining: &mut Vec<Fault>) -> Result<Fault, String> {
        if remaining.is_empty() {
            let only = &run.plan.only;
            let is_meant = |fault: &Fault| only.is_empty() || only.iter().any(|it| fault.name().contains(it));
            *remaining = ALL.into_iter().filter(|it| self.can_strike(*it) && is_meant(it)).collect();
            if remaining.is_empty() {
                return Err(format!("no fault that can strike this cluster has one of {only:?} in its name"));
            }
        }
        let at = run.below(remaining.len());
        Ok(remaining.swap_remove(at))
    }

    fn can_strike(&self, fault: Fault) -> bool {
        // A primary that has no files is a shard without records when it is back before anybody took its place, as in Redis; but
        // in the durability strict.
        let loses_all = match fault {
            Fault::Restart => !self.outlives_restart(),
            Fault::Shard => !self.has_files,
            // Where it may lose something it may lose something everywhere, and nothing would be left to judge.
            Fault::Everybody => !self.has_files || self.secret.is_none(),
            _ => false,
        };
        let lacks = match fault {
            Fault::Disk | Fault::NoRoom => !self.has_files,
            Fault::Clock => !self.has_clocks,
            _ => false,
        };
        if loses_all || lacks {
            return false;
        }
        let is_one = self.rig.masters() == 1;
        (self.replicas > 0 || fault.strikes_alone()) && !(is_one && matches!(fault, Fault::Shift(_)))
    }

    /// Counts failovers, also those that nobody asked for, and notes what may be lost.
    fn look(
        &mut self,
        run: &mut Run<'_>,
        before: &[usize],
        (fault, shard): (Fault, usize),
        began: u64,
    ) -> Result<Vec<usize>, String> {
        let now = self.primaries()?;
        let changed: Vec<usize> = (0..now.len()).filter(|at| now[*at] != before[*at]).collect();
        run.strikes.note_failovers(changed.len());
        let is_asked = |at: &usize| fault == Fault::Drained && *at == shard;
        let mut hit: Vec<usize> = changed.into_iter().filter(|at| !is_asked(at)).collect();
        if fault.may_lose() && !hit.contains(&shard) {
            hit.push(shard);
        }
        let mut slots: Vec<Slots> = hit.into_iter().flat_map(|at| self.homes.slots(&self.rig, at)).collect();
        slots.append(&mut self.homes.take_hit());
        if run.plan.durability == Durability::Async && !slots.is_empty() {
            run.waivers.note_hit((began, run.clock.now()), slots);
        }
        Ok(now)
    }
}

/// Faults.
impl Servers {
    /// They come back in any order.
    fn kill_all(&mut self, nodes: &[usize]) -> Result<(), String> {
        nodes.iter().for_each(|node| self.rig.server_mut(*node).kill());
        nodes.iter().try_for_each(|node| self.rig.server_mut(*node).restart().map_err(text))
    }

    /// Strikes once; whom.
    fn inject(
        &mut self,
        fault: Fault,
        shard: usize,
        run: &mut Run<'_>,
        processes: &mut [Process],
    ) -> Result<String, String> {
        let primary = self.primary_but(shard, None);
        let primary = primary.ok_or_else(|| format!("shard {shard} has no primary that answers"))?;
        let others: Vec<usize> = self.nodes(shard).into_iter().filter(|node| *node != primary).collect();
        let other = others.get(run.below(others.len().max(1))).copied();
        let whom = format!("shard {shard}, node {primary}");
        let wait_ms = run.random.random_range(0..1_500);
        match (fault, other) {
            (Fault::Disk, _) => return self.fill_disk(FULL, (shard, primary), run, processes),
            (Fault::NoRoom, _) => return self.fill_disk(NO_ROOM, (shard, primary), run, processes),
            (Fault::Clock, _) => return self.shift_clock((shard, primary), run, processes),
            (Fault::Shift(shift), _) => return self.shift(shift, run, processes),
            (Fault::Cut(cut), _) => return self.cut(cut, (shard, primary), run, processes),
            (Fault::Kill, Some(_)) => {
                self.rig.server_mut(primary).kill();
                self.wait_for_another(shard, primary, run, processes)?;
                std::thread::sleep(Duration::from_millis(wait_ms));
                self.rig.server_mut(primary).restart().map_err(text)?;
            }
            (Fault::Restart, _) => {
                self.rig.server_mut(primary).kill();
                self.rig.server_mut(primary).restart().map_err(text)?;
            }
            (Fault::Shard, Some(_)) => self.kill_all(&self.nodes(shard))?,
            (Fault::Everybody, _) => {
                self.kill_all(&(0..self.rig.servers().len()).collect::<Vec<_>>())?;
                return Ok("everybody".to_owned());
            }
            (Fault::Freeze, Some(_)) => {
                self.rig.servers()[primary].pause();
                let waited = self.wait_for_another(shard, primary, run, processes);
                self.rig.servers()[primary].resume();
                waited?;
            }
            (Fault::Failover, Some(other)) => self.fail_over(other, &[], run, processes)?,
            (Fault::Takeover, Some(other)) => self.fail_over(other, &["TAKEOVER"], run, processes)?,
            (Fault::Drained, Some(other)) => {
                self.say(primary, &["CONFIG", "SET", "claret.drain", "1"])?;
                std::thread::sleep(DRAIN_TIME);
                let is_settled = || {
                    let number = self.rig.servers()[primary].info("claret", "claret_in_doubt");
                    number.is_ok_and(|number| number.as_deref() == Some("0"))
                };
                self.wait(run, processes, FAILOVER_TIME, "a drained node has nothing in doubt", is_settled)?;
                self.fail_over(other, &[], run, processes)?;
            }
            (Fault::Replica, Some(other)) => {
                self.rig.server_mut(other).kill();
                std::thread::sleep(Duration::from_millis(wait_ms));
                self.rig.server_mut(other).restart().map_err(text)?;
                return Ok(format!("shard {shard}, node {other}"));
            }
            _ => {
                let node = self.any_node(shard, run);
                self.rig.servers()[node].pause();
                std::thread::sleep(Duration::from_millis(100 + wait_ms / 2));
                self.rig.servers()[node].resume();
                return Ok(format!("shard {shard}, node {node}"));
            }
        }
        Ok(whom)
    }

    pub(super) fn wait_for_another(
        &self,
        shard: usize,
        primary: usize,
        run: &mut Run<'_>,
        processes: &mut [Process],
    ) -> Result<(), String> {
        let what = format!("another node takes over from node {primary}");
        let is_there = || self.primary_but(shard, Some(primary)).is_some();
        self.wait(run, processes, FAILOVER_TIME, &what, is_there).map_err(|error| {
            let log = |node: usize| format!("\nnode {node}:\n{}", self.rig.servers()[node].log(LOG_LINES));
            format!(
                "{error}; the end of each log:{}",
                self.nodes(shard).into_iter().map(log).collect::<String>()
            )
        })
    }

    fn fail_over(
        &self,
        replica: usize,
        words: &[&str],
        run: &mut Run<'_>,
        processes: &mut [Process],
    ) -> Result<(), String> {
        self.say(replica, &[&["CLUSTER", "FAILOVER"], words].concat())?;
        let what = format!("node {replica} takes over");
        self.wait(run, processes, FAILOVER_TIME, &what, || {
            let role = self.rig.servers()[replica].info("replication", "role");
            role.is_ok_and(|role| role.as_deref() == Some("master"))
        })
    }

    fn say(&self, node: usize, words: &[&str]) -> Result<(), String> {
        self.rig.query::<redis::Value>(node, words).map(drop).map_err(text)
    }
}
