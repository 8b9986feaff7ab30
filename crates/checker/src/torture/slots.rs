//! Slots go from one shard to another while clients use their keys, and primaries die meanwhile.

use std::collections::BTreeMap;

use claret_rig::{Cluster, SLOTS, nodes, slot_of};

use super::children::Process;
use super::records::GENERATION_US;
use super::run::Run;
use super::servers::{HEAL_TIME, Servers, text};
use super::waivers::Slots;
use crate::moves::{Move, Moved, Operator, move_slot, stop_slot};

/// So many slots go at a time, at most.
const SLOTS_MAX: usize = 4;

/// A slot is left under way after so many commands at most: when it is given away.
const STEPS_MAX: usize = 5;

/// What strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shift {
    /// Slots in use go to another shard.
    Slots,
    /// A slot is on its way when the primary of one of both shards is killed. When a replica has taken over, it goes on.
    Killed,
}

impl Shift {
    pub(super) fn name(self) -> &'static str {
        match self {
            Shift::Slots => "slots moved",
            Shift::Killed => "primary killed while a slot moved",
        }
    }
}

impl Operator for Cluster {
    fn ask<T: redis::FromRedisValue>(&self, node: usize, words: &[&str]) -> Result<T, String> {
        self.query(node, words).map_err(text)
    }
}

/// Which shard has which slots.
#[derive(Clone, Debug, Default)]
pub(super) struct Homes {
    /// Those that are not where they began.
    moved: BTreeMap<u16, usize>,
    /// Slots that were on their way when a primary died, or of a node that ended by itself, since somebody asked for them.
    hit: Vec<Slots>,
}

impl Homes {
    fn of(&self, rig: &Cluster, slot: u16) -> usize {
        let began = |shard: &usize| slot <= rig.slots(*shard).1;
        let moved = self.moved.get(&slot).copied();
        moved.unwrap_or_else(|| (0..rig.masters()).find(began).expect("all slots have a shard"))
    }

    /// The slots of a shard.
    pub(super) fn slots(&self, rig: &Cluster, shard: usize) -> Vec<Slots> {
        let mut ranges: Vec<Slots> = Vec::new();
        for slot in (0..SLOTS).filter(|slot| self.of(rig, *slot) == shard) {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == slot => *last = slot,
                _ => ranges.push((slot, slot)),
            }
        }
        ranges
    }

    /// A shard was hit, whatever the fault.
    pub(super) fn note_hit(&mut self, rig: &Cluster, shard: usize) {
        let mut slots = self.slots(rig, shard);
        self.hit.append(&mut slots);
    }

    /// What was hit since somebody asked for it.
    pub(super) fn take_hit(&mut self) -> Vec<Slots> {
        std::mem::take(&mut self.hit)
    }
}

impl Servers {
    /// Strikes once; which slots.
    ///
    /// # Errors
    /// A slot cannot be moved, nobody takes over in time, or a client says what is wrong.
    pub(super) fn shift(
        &mut self,
        shift: Shift,
        run: &mut Run<'_>,
        processes: &mut [Process],
    ) -> Result<String, String> {
        let count = if shift == Shift::Slots { 1 + run.below(SLOTS_MAX) } else { 1 };
        let mut whom = Vec::new();
        for _ in 0..count {
            let slot = self.slot_in_use(run);
            let from = self.homes.of(&self.rig, slot);
            let to = (from + 1 + run.below(self.rig.masters() - 1)) % self.rig.masters();
            let steps_max = if shift == Shift::Slots { usize::MAX } else { 1 + run.below(STEPS_MAX) };
            let mut moved = self.move_from_to(slot, (from, to), steps_max)?;
            whom.push(format!("slot {slot} from shard {from} to {to}"));
            if shift == Shift::Killed {
                let shard = if run.below(2) == 0 { from } else { to };
                whom.push(format!("{moved:?} when shard {shard} lost its primary"));
                self.homes.hit.push((slot, slot));
                self.kill_primary(shard, (slot, from, to), run, processes)?;
                moved = self.move_from_to(slot, (from, to), usize::MAX)?;
            }
            if moved == Moved::There {
                self.homes.moved.insert(slot, to);
            }
            run.rest((0, 300), processes)?;
        }
        Ok(whom.join(", "))
    }

    /// The slot of a key that clients use now.
    fn slot_in_use(&self, run: &mut Run<'_>) -> u16 {
        let records = run.records(run.clock.now() / GENERATION_US);
        let keys: Vec<String> = records.lists().chain(records.sets()).chain(records.accounts()).collect();
        slot_of(&keys[run.below(keys.len())])
    }

    /// Also one that was left under way.
    fn move_from_to(&self, slot: u16, (from, to): (usize, usize), steps_max: usize) -> Result<Moved, String> {
        let primaries = self.primaries()?;
        let (from, to) = (primaries[from], primaries[to]);
        let server = &self.rig.servers()[to];
        let its: String = self.rig.query(to, &["CLUSTER", "MYID"]).map_err(text)?;
        let known = nodes(&mut server.connection().map_err(text)?).map_err(text)?;
        let has_it = |(first, last): &Slots| (*first..=*last).contains(&slot);
        if known.iter().any(|node| node.id == its && node.slots.iter().any(has_it)) {
            return Ok(Moved::There);
        }
        let it = Move { slot, from, to, port: server.port(), primaries: &primaries, steps_max };
        move_slot(&self.rig, &it).map_err(|error| format!("moving slot {slot}: {error}"))
    }

    /// Kills a primary, and starts it again when a replica has taken over and all is well.
    fn kill_primary(
        &mut self,
        shard: usize,
        (slot, from, to): (u16, usize, usize),
        run: &mut Run<'_>,
        processes: &mut [Process],
    ) -> Result<(), String> {
        let primary = self.primaries()?[shard];
        self.rig.server_mut(primary).kill();
        self.wait_for_another(shard, primary, run, processes)?;
        if shard == from {
            let taker = self.primary_but(to, None).ok_or_else(|| format!("shard {to} has no primary"))?;
            stop_slot(&self.rig, slot, taker)?;
        }
        self.rig.server_mut(primary).restart().map_err(text)?;
        self.rig.wait_until_ok(HEAL_TIME).map_err(text)
    }
}
