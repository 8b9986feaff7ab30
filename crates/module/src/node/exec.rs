//! One-shot transactions at this node (`CLARET.EXEC`). Like every transaction with one participant, each is a prepare
//! that is the whole commit. It waits for locks for a bounded time.

use claret_core::Shard;
use claret_planted::{Bug, is_planted};
use claret_types::Reply;

use super::{Caller, Node, unix_time};
use crate::ffi::{Blocked, Ctx};
use crate::parts::error::{Error, Outcome};
use crate::parts::one_shots::{Calls, Ended};
use crate::parts::slots::{Slots, slot_of};

/// How one began.
pub(crate) enum Begun {
    /// It is over already.
    Ended(Result<Vec<Reply>, Error>),
    /// Its client is to wait, with [`Node::exec_waits`].
    Waits(u64),
}

impl Node {
    /// Begins one. `may_wait`: its client can be made to wait.
    pub(crate) fn exec(&mut self, ctx: Ctx, calls: Calls, caller: &Caller, may_wait: bool) -> Begun {
        if self.shard.is_none() {
            self.look_around(ctx);
        }
        // One that nobody was let in to would be lost, and is not sent again.
        if self.shard.as_ref().is_none_or(Shard::is_in_doubt) {
            return Begun::Ended(Err(Error::NotReady));
        }
        if let Err(error) = self.are_replicas_there() {
            return Begun::Ended(Err(error));
        }
        // Its answer comes when the replicas have it, and nobody could say before that nothing was done.
        if !may_wait && self.shard.as_ref().is_some_and(Shard::is_replicated) {
            return Begun::Ended(Err(Error::WaitsForAnswer));
        }
        self.tell_shard(ctx);
        let number = self.one_shots.begin(unix_time(), calls, (caller.name(), ctx.client()));
        self.prepare_one(ctx, number);
        self.carry_out(ctx, None);
        match self.one_shots.take(number) {
            Some(ended) => Begun::Ended(ended),
            None if may_wait => Begun::Waits(number),
            None => {
                self.one_shots.leave(number);
                self.come_back(ctx, 0);
                Begun::Ended(Err(Error::KeyHeld))
            }
        }
    }

    /// The client of one waits from now on.
    pub(crate) fn exec_waits(&mut self, ctx: Ctx, number: u64, client: Blocked) {
        let until = self.waits_until();
        self.one_shots.wait(number, client, until);
        self.tick_soon(ctx);
    }

    /// What became of one whose client was let go.
    pub(crate) fn exec_ended(&mut self, number: u64) -> Ended {
        self.one_shots.take(number).unwrap_or(Err(Error::NotReady))
    }

    /// The client of one is gone. Whether it still waited. The transaction is refused from a timer, or before whatever comes
    /// into the shard first, since that may let others in, who write: the server may have answered for it, because the cluster
    /// is down, and then it must never be carried out.
    pub(crate) fn exec_left(&mut self, ctx: Ctx, client: Blocked) -> bool {
        self.come_back(ctx, 0);
        self.one_shots.give_up(client)
    }

    /// Hands the present attempt of one to the shard.
    pub(super) fn prepare_one(&mut self, ctx: Ctx, number: u64) {
        let now = self.now();
        self.come_with_one(ctx, number);
        let Some(shard) = &mut self.shard else { return };
        let link = self.one_shots.link();
        let Some((request, user)) = self.one_shots.prepare(number, shard.id(), shard.incarnation()) else {
            return;
        };
        let _calling = self.keyspace.enter(self.keyspace.caller_named(ctx, user));
        shard.handle(now, link, request);
    }

    /// It comes to its keys.
    fn come_with_one(&mut self, ctx: Ctx, number: u64) {
        if self.plain.blocked.minds_who_comes() {
            let tx = self.one_shots.tx(number);
            let keys: Vec<_> = self.one_shots.keys(number).cloned().collect();
            self.come(ctx, keys.iter().map(|key| (key, tx)));
        }
    }

    /// The heartbeat of the module's own session.
    pub(super) fn beat(&mut self) {
        let (now, link) = (self.now(), self.one_shots.link());
        if let Some(shard) = &mut self.shard
            && let Some(request) = self.one_shots.heartbeat()
        {
            shard.handle(now, link, request);
        }
    }

    /// Lets clients go whose transactions of one go have ended.
    pub(super) fn release_one_shots(&mut self) {
        while let Some((client, number)) = self.one_shots.poll_released() {
            client.release(number);
        }
    }
}

/// Whether all keys are of this node.
pub(super) fn is_here(slots: &Slots, calls: &Calls) -> bool {
    calls.iter().all(|(key, _)| slots.is_mine(slot_of(key)))
}

/// Whether all keys are of this node; if they are of another one, that is said as the server says it.
pub(crate) fn check_placement(slots: &Slots, calls: &Calls) -> Outcome {
    let mut elsewhere = calls
        .iter()
        .map(|(key, _)| slot_of(key))
        .filter(|slot| !(slots.is_mine(*slot) || is_planted(Bug::PlacementUnchecked)));
    let Some(slot) = elsewhere.next() else { return Ok(()) };
    let owner = slots.owner(slot).ok_or(Error::NobodyServes(slot))?;
    let together = calls.iter().all(|(key, _)| slots.owner(slot_of(key)) == Some(owner));
    Err(match together {
        true => Error::Moved { slot, address: owner.address.clone() },
        false => Error::CrossSlot,
    })
}
