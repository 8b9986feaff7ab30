//! Slots that leave: none leaves while its keys are held, because the other node would not know of that (trap 17), or before the
//! replicas of this node have what was written in it (S16).
//!
//! The slot is first closed to newcomers, and `CLUSTER SETSLOT` waits until nobody uses a key of it. Valkey 8 makes
//! the client of this very command wait for the replicas; it cannot do that with a module's command, and the server
//! would end. So there the server runs the command itself, and the module only closes the slot, from its look at the
//! command until the command has run. If it had to wait, its client must send it again, and then finds the slot
//! closed and free.

use claret_core::{Shard, Time};
use claret_planted::{Bug, is_planted};
use claret_types::Bytes;

use super::{Node, settings};
use crate::ffi::{Blocked, Ctx, Filtered, Log, Text, User};
use crate::parts::error::Error;
use crate::parts::leaving::{LeaveStage, Uses, slot_that_leaves, slot_that_stays};
use crate::parts::slots::{Closed, slot_of};
use crate::parts::stranded::Stranded;

/// From this version on Valkey may make a client wait in `CLUSTER SETSLOT`.
const WAITS_SINCE: i32 = 8;

/// What becomes of a command that takes a slot away.
pub(crate) enum Taking {
    /// Nobody uses a key of it, or it is none of this node's.
    Runs,
    /// This key of it is in use; or none, and the replicas do not have all that was written.
    Waits { slot: u16, key: Option<Bytes> },
    /// Nobody knows what was written: the shard is about to go on, here or elsewhere.
    NotReady,
}

impl Node {
    /// The filter is shown a `CLUSTER` command. Whether the module is to run it.
    pub(super) fn looks_at_slot(&mut self, ctx: Ctx, filtered: &Filtered, client: Option<u64>) -> bool {
        let runs_itself = client.filter(|client| {
            self.server.may_wait_itself
                && !Ctx::filters_in_script()
                && !self.plain.open_multis.is_open(Some(*client))
        });
        if let Some(slot) =
            slot_that_stays(|at| filtered.word(at)).filter(|slot| self.moving.stranded.has(*slot))
        {
            let Some(client) = runs_itself else { return true };
            if may_run(ctx, client, &filtered.words()) {
                self.slot_stays(ctx, slot);
            }
            return false;
        }
        let Some(slot) = slot_that_leaves(|at| filtered.word(at)).filter(|slot| self.is_mine(*slot)) else {
            return false;
        };
        let Some(shard) = &self.shard else { return settings::is_strict() };
        let Some(client) = runs_itself else { return true };
        // Where the server itself makes the client wait for the replicas, they have all that was told them when the command runs.
        let lacks =
            self.lacks(slot) && !self.strict.telling.told.are_all_there(settings::REPLICAS.get() as usize);
        if key_in_use(shard, slot).is_some() || lacks {
            return true;
        }
        // The server refuses whoever may not.
        if may_run(ctx, client, &filtered.words()) {
            self.close(ctx, slot, LeaveStage::Server(client));
        }
        false
    }

    fn is_mine(&self, slot: u16) -> bool {
        self.keyspace.view(|view| view.is_mine(slot)) == Some(true)
    }

    /// What becomes of a command with these words.
    pub(crate) fn takes_slot(&self, words: &[&[u8]]) -> Taking {
        let slot = slot_that_leaves(|at| words.get(at).copied()).filter(|slot| self.is_mine(*slot));
        let Some(slot) = slot else { return Taking::Runs };
        if self.is_unknown() && !is_planted(Bug::SlotLeavesUnknown) {
            return Taking::NotReady;
        }
        match self
            .shard
            .as_ref()
            .and_then(|shard| key_in_use(shard, slot))
            .filter(|_| !is_planted(Bug::SlotLeavesInUse))
        {
            None if !self.lacks(slot) => Taking::Runs,
            key => Taking::Waits { slot, key },
        }
    }

    /// Whether nobody knows what was written in the slots of this node: replicas may know more than it does.
    fn is_unknown(&self) -> bool {
        settings::is_strict() && self.shard.is_none()
    }

    /// Whether the replicas may lack something that was written in a slot, or do not know that it is about to leave.
    fn lacks(&self, slot: u16) -> bool {
        self.shard.as_ref().is_some_and(Shard::is_replicated) && !self.moving.leaving.is_free(slot)
    }

    /// The client of such a command waits from now on, until nobody uses a key of its slot, and the replicas have what was written.
    pub(crate) fn slot_waits(&mut self, ctx: Ctx, slot: u16, key: Option<Bytes>, client: Blocked) {
        self.close(ctx, slot, LeaveStage::Waits(client, key));
        self.note_slots_on_their_way(ctx);
    }

    /// A client was let go that waited under this number. Its command may run as long as what this returns lives.
    pub(crate) fn slot_waited(&mut self, ctx: Ctx, number: u64) -> Result<Closed, Error> {
        let waited = self.may_leave(ctx, number);
        if waited.is_err() {
            self.note_slots_on_their_way(ctx);
        }
        waited
    }

    fn may_leave(&mut self, ctx: Ctx, number: u64) -> Result<Closed, Error> {
        let leave = self.moving.leaving.take(number).filter(|_| !self.is_unknown()).ok_or(Error::NotReady)?;
        if let Some(shard) = &self.shard {
            if let Some(key) = key_in_use(shard, leave.slot()) {
                return Err(Error::SlotInUse(key));
            }
            let is_there = match leave.batch() {
                Some(batch) => shard.is_replicated_to(batch),
                None => !shard.is_replicated() || is_planted(Bug::SlotLeavesUnconfirmed),
            };
            if !is_there {
                return Err(Error::SlotUnconfirmed);
            }
        }
        if self.would_wait(ctx) {
            self.close(ctx, leave.slot(), LeaveStage::Again);
            return Err(Error::SlotClosed(settings::PLAIN_WAIT_MS.get()));
        }
        Ok(leave.into_slot())
    }

    /// The client of such a command is gone. Whether it still waited.
    pub(crate) fn slot_left(&mut self, ctx: Ctx, client: Blocked) -> bool {
        let waited = self.moving.leaving.leave(client);
        self.note_slots_on_their_way(ctx);
        waited
    }

    fn close(&mut self, ctx: Ctx, slot: u16, stage: LeaveStage) {
        let until = if let LeaveStage::Server(_) = stage { self.now() } else { self.waits_until() };
        if let Some(closed) = self.keyspace.close(slot) {
            self.moving.leaving.begin(closed, until, stage);
        }
        self.tick_again(ctx);
    }

    /// Whether the server would make the client of a `CLUSTER SETSLOT` wait now: if it has replicas.
    pub(crate) fn would_wait(&self, ctx: Ctx) -> bool {
        self.server.may_wait_itself
            && ctx.info("replication", "connected_slaves").as_deref() != Some("0")
            && !is_planted(Bug::SlotWaitsForReplicas)
    }

    /// The slots that a note of the former primary names are nobody's here, until their moves go on.
    pub(super) fn strand(&mut self, ctx: Ctx, note: &[u8]) {
        self.moving.stranded = self.keyspace.view(|view| Stranded::of_note(note, view)).unwrap_or_default();
        if self.moving.stranded.len() > 0 {
            let text = format!(
                "slots {:?} were on their way when the primary died, and are served to no transaction: let the move go on \
                 (CLUSTER SETSLOT slot MIGRATING node), or give it up (CLUSTER SETSLOT slot STABLE)",
                self.moving.stranded.list()
            );
            ctx.log(Log::Warning, &text);
        }
    }

    /// A `CLUSTER SETSLOT` was run, or refused by the server.
    pub(crate) fn slot_set(&mut self, ctx: Ctx, words: &[&[u8]], is_done: bool) {
        if let Some(slot) = slot_that_stays(|at| words.get(at).copied()).filter(|_| is_done) {
            self.slot_stays(ctx, slot);
        }
        self.look_around(ctx);
        // Before any key of the slot goes.
        self.tell_replicas(ctx);
    }

    fn slot_stays(&mut self, ctx: Ctx, slot: u16) {
        if self.moving.stranded.stays(slot) {
            ctx.log(Log::Notice, &format!("slot {slot}, whose move is given up, is served again"));
            self.note_slots_on_their_way(ctx);
        }
    }

    pub(crate) fn slots_stranded(&self) -> u64 {
        self.moving.stranded.len() as u64
    }

    /// Whoever is promoted has to know which slots are on their way, or were about to be.
    pub(super) fn note_slots_on_their_way(&mut self, ctx: Ctx) {
        let now = self.now();
        let is_told = self.shard.as_ref().is_some_and(Shard::is_replicated);
        let (stranded, leaving) = (&mut self.moving.stranded, &self.moving.leaving);
        let note = self.keyspace.view(|view| {
            stranded.look(now, view, leaving.slots().chain(view.leaving()));
            is_told.then(|| stranded.note(view))
        });
        if let (Some(shard), Some(note)) = (&mut self.shard, note.flatten())
            && shard.note_of_host(note)
        {
            self.come_back(ctx, 0);
        }
    }

    /// Who uses a key of a slot for which a command waits is asked for it, again and again (P35).
    pub(super) fn ask_back(&mut self, now: Time) {
        let slots: Vec<u16> = self.moving.leaving.waits_for().collect();
        if let Some(shard) = self.shard.as_mut().filter(|_| !slots.is_empty()) {
            shard.ask_back(now, |key| slots.contains(&slot_of(key)));
        }
    }

    /// Lets those go whose slots are free, or whose time is over, and opens slots again whose commands have run.
    pub(super) fn look_after_leaving(&mut self, ctx: Ctx) {
        let now = self.now();
        for (client, number) in self.moving.leaving.release(now, &mut self.shard.as_mut()) {
            client.release(number);
        }
        let over = self.moving.leaving.over(now, |client| ctx.is_blocked(client));
        if !over.is_empty() {
            // First it is known where the slots are, then they are open again.
            self.look_around(ctx);
            self.moving.leaving.open(&over);
            self.note_slots_on_their_way(ctx);
        }
    }
}

impl Uses for Option<&mut Shard> {
    fn is_held(&self, key: &Bytes) -> bool {
        self.as_ref().is_some_and(|shard| shard.is_held(key))
    }

    fn key_in_use(&self, slot: u16) -> Option<Bytes> {
        key_in_use(self.as_ref()?, slot)
    }

    fn ask_replicas(&mut self) -> Option<u64> {
        self.as_mut()?.ask_replicas()
    }

    fn have_replicas(&self, batch: u64) -> bool {
        self.as_ref().is_none_or(|shard| shard.is_replicated_to(batch))
    }
}

/// A key of the slot that is held, or is about to be.
fn key_in_use(shard: &Shard, slot: u16) -> Option<Bytes> {
    shard.keys_in_use().find(|key| slot_of(key) == slot).cloned()
}

fn may_run(ctx: Ctx, client: u64, words: &[Text]) -> bool {
    let user = ctx.user_of(client).and_then(|name| User::named(&name));
    user.is_some_and(|user| user.may_run(&words.iter().collect::<Vec<_>>()))
}

/// Whether the server may make the client of a `CLUSTER SETSLOT` wait: Valkey does, and Redis of the same version does not.
pub(super) fn may_wait_itself(ctx: Ctx) -> bool {
    ctx.server_release() >= WAITS_SINCE
        && ctx.info("server", "server_name").is_none_or(|name| name == "valkey")
}
