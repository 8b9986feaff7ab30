//! The durability `strict`, at a primary: the shard's changes go to the replicas, and what counts waits for them
//! (`docs/replication.md`).
//!
//! A batch leaves with `CLARET.CHANGES`, which the server passes on in one piece with what the same entry did to records. Each
//! replica acknowledges as soon as it has carried it out; the filter sees that, and the server is asked who has how much.

use claret_core::{Shard, Time};
use claret_planted::{Bug, is_planted};
use claret_types::Bytes;

use super::{BARRED_MS, Node, files, settings};
use crate::ffi::{Ctx, Filtered, Flag, Log};
use crate::parts::error::{Error, Outcome};
use crate::parts::questions::Owed;
use crate::parts::replicas::{Replicas, Telling, Told};
use crate::parts::seals::Position;

impl Node {
    /// Hands to the server what the shard has to tell its replicas. Last in an entry: what it did to records goes before.
    pub(super) fn tell_replicas(&mut self, ctx: Ctx) {
        let own = self.own();
        let Some(shard) = self.shard.as_mut().filter(|shard| shard.is_replicated()) else { return };
        if Ctx::must_not_write() {
            return self.come_back(ctx, BARRED_MS);
        }
        let mut is_whole = self.strict.telling.told.is_whole_due();
        if is_whole {
            shard.replicate();
        }
        let incarnation = shard.incarnation();
        while let Some((batch, changes)) = shard.poll_changes() {
            let position = Position { incarnation, batch };
            // All parts arrive together, as everything that an entry writes. One without changes asks whether the replicas are there (S5).
            if changes.is_empty() {
                files::pass_on(ctx, &own, position, b"");
            }
            files::in_parts(changes.into_iter(), |part| files::pass_on(ctx, &own, position, part));
            self.strict.telling.told.told(batch, std::mem::take(&mut is_whole));
            self.counts.batches_told += 1;
        }
        if self.strict.telling.told.waiting() > 0 {
            let now = self.now();
            self.strict.telling.waits_since.get_or_insert(now);
        }
        if self.strict.telling.told.is_place_sought() {
            self.look_at_replicas_soon(ctx, 0);
        }
    }

    pub(super) fn look_at_replicas_soon(&mut self, ctx: Ctx, millis: u64) {
        self.timers.set_replicas(ctx, millis);
    }

    /// The timer: the server is asked who has how much.
    pub(crate) fn replicas_fired(&mut self, ctx: Ctx) {
        self.timers.replicas_fired();
        if self.keyspace.is_barred(ctx) {
            return self.look_at_replicas_soon(ctx, BARRED_MS);
        }
        self.catch_up(ctx);
        if self.look_at_replicas(ctx) {
            self.carry_out(ctx, None);
        }
    }

    /// Whether something is confirmed that was not before.
    pub(super) fn look_at_replicas(&mut self, ctx: Ctx) -> bool {
        let tells = match &self.shard {
            Some(shard) => shard.is_replicated(),
            None => self.strict.telling.told.waiting() > 0,
        };
        tells && self.see_replicas(ctx)
    }

    fn see_replicas(&mut self, ctx: Ctx) -> bool {
        let seals = &self.peers.seals;
        let is_strict = |id: &str| {
            seals.as_ref().and_then(|seals| seals.greeting_of(id)).is_some_and(|greeting| greeting.is_strict)
        };
        let followers = self.keyspace.view(|view| view.members().followers.clone()).unwrap_or_default();
        // Who keeps nothing of what it is told is as good as away.
        let addresses =
            followers.into_iter().map(|(id, address)| if is_strict(&id) { address } else { String::new() });
        let role = ctx.call(c"ROLE", c"Ev", &[]);
        let Some(seen) = Replicas::of(role, addresses) else { return false };
        let configured = settings::REPLICAS.get() as usize;
        let confirmed = self.strict.telling.told.look(seen, configured);
        if let Some(batch) = confirmed {
            if let Some(shard) = &mut self.shard {
                shard.replicated(batch);
            }
            self.strict.questions.confirmed(batch);
            self.release_questions();
        }
        let now = self.now();
        if self.strict.telling.told.waiting() == 0 {
            self.strict.telling.waits_since = None;
        } else if confirmed.is_some() {
            self.strict.telling.waits_since = Some(now);
        }
        match self.strict.telling.told.are_all_there(configured) {
            true => self.strict.telling.missing_since = None,
            false => _ = self.strict.telling.missing_since.get_or_insert(now),
        }
        let is_late = self.are_replicas_late(now);
        if is_late != std::mem::replace(&mut self.strict.telling.is_said, is_late) {
            let acked = &self.strict.telling.told.seen().acked;
            let (there, all) = (acked.iter().flatten().count(), acked.len());
            let text = match is_late {
                true => format!(
                    "no transactions are served: {there} of {all} replicas are connected and acknowledge, and claret.replicas is \
                     {configured}"
                ),
                false => format!("transactions are served again: {there} of {all} replicas acknowledge"),
            };
            ctx.log(if is_late { Log::Warning } else { Log::Notice }, &text);
        }
        confirmed.is_some()
    }

    /// Whether the replicas are away, or keep what was told waiting, for too long.
    fn are_replicas_late(&self, now: Time) -> bool {
        let is_long = |since: Time| now.since(since) > settings::REPLICA_MS.get() * 1_000;
        let Telling { waits_since, missing_since, .. } = self.strict.telling;
        [waits_since, missing_since].into_iter().flatten().any(is_long)
            && !is_planted(Bug::ServesWithoutReplicas)
    }

    /// Whether further transactions may come: a primary without its replicas takes none, which would only wait.
    pub(crate) fn are_replicas_there(&self) -> Outcome {
        if self.shard.as_ref().is_none_or(|shard| !shard.is_replicated())
            || !self.are_replicas_late(self.now())
        {
            return Ok(());
        }
        let there = self.strict.telling.told.seen().acked.iter().flatten().count();
        Err(Error::NoReplicas { there, configured: settings::REPLICAS.get() })
    }

    pub(crate) fn replicas_seen(&self) -> u64 {
        self.strict.telling.told.seen().acked.iter().flatten().count() as u64
    }

    pub(crate) fn do_replicas_know(&self) -> bool {
        self.strict.telling.told.do_replicas_know(settings::REPLICAS.get() as usize)
    }

    pub(crate) fn batches_waiting(&self) -> u64 {
        self.strict.telling.told.waiting() as u64
    }

    /// A replica came, or comes back: it is told everything.
    pub(crate) fn replica_came(&mut self, ctx: Ctx) {
        if self.shard.as_ref().is_some_and(Shard::is_replicated) {
            self.strict.telling.told.came();
            self.come_back(ctx, 0);
        }
    }

    /// Whether a key may come from another node, which removes it when it hears that it is here (S16).
    pub(crate) fn may_take(&mut self, ctx: Ctx, key: &[u8]) -> Outcome {
        match &self.shard {
            Some(shard) if self.concerns(shard, key) => Err(Error::HeldKey(Bytes::copy_from(key))),
            Some(_) => self.are_replicas_there(),
            // Its replicas may know more than it does.
            None if self.keyspace.view(|view| view.serves_some()) != Some(false) => Err(Error::NotReady),
            None => {
                self.see_replicas(ctx);
                let (there, configured) = (self.replicas_seen() as usize, settings::REPLICAS.get());
                let are_there = self.strict.telling.told.are_all_there(configured as usize);
                match are_there && !self.are_replicas_late(self.now()) {
                    true => Ok(()),
                    false => Err(Error::NoReplicas { there, configured }),
                }
            }
        }
    }

    /// It came, in the entry that runs. Its client hears that when the replicas have it: the number under which it waits.
    pub(crate) fn record_taken(&mut self, ctx: Ctx) -> u64 {
        let batch = match self.shard.as_mut().and_then(Shard::ask_replicas) {
            Some(batch) => {
                self.tell_replicas(ctx);
                batch
            }
            None => {
                let batch = self.strict.telling.told.last() + 1;
                files::pass_on(ctx, &self.own(), Position::of_no_shard(batch), b"");
                self.strict.telling.told.told(batch, true);
                let now = self.now();
                self.strict.telling.waits_since.get_or_insert(now);
                self.look_at_replicas_soon(ctx, 0);
                batch
            }
        };
        let until = self.now().plus(settings::REPLICA_MS.get() * 1_000);
        self.strict.questions.ask(batch, Owed::Taken, until)
    }

    /// The filter sees what another node says. A replica is not to be let in where it would lose what it knows, and who gives a key away
    /// waits for the replicas of this one. Meanwhile this one gives no key away: who gives one hears nothing while it waits, and two that
    /// give to each other would wait for ever.
    pub(crate) fn sees_node(&mut self, ctx: Ctx, filtered: &Filtered) {
        let Some(name) = filtered.word(0) else { return };
        let is = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
        let acknowledges = || filtered.word(1).is_some_and(|it| it.eq_ignore_ascii_case(b"ACK"));
        if is("REPLCONF") && acknowledges() && self.strict.telling.told.waiting() > 0 {
            self.look_at_replicas_soon(ctx, 0);
        } else if (is("PSYNC") || is("SYNC"))
            && self.is_unproven()
            && !ctx.is(Flag::Replica)
            && !is_planted(Bug::ReplicaLetIn)
        {
            filtered.insert(0, b"CLARET.UNPROVEN");
        } else if is("RESTORE-ASKING") && !ctx.is(Flag::Replica) && !is_planted(Bug::TakenAtOnce)
            || is("MIGRATE") && self.strict.questions.is_any_taken()
        {
            filtered.insert(0, b"CLARET.TAKE");
        }
    }

    /// A shard begins, or goes on, and tells its replicas everything.
    pub(super) fn begin_to_tell(&mut self, ctx: Ctx) {
        let Some(shard) = self.shard.as_mut().filter(|_| settings::is_strict()) else { return };
        shard.replicate();
        let bears = Some((shard.id(), shard.incarnation()));
        self.strict.telling.told.came();
        let own = self.own();
        self.keyspace.learn(&own, bears);
        self.note_slots_on_their_way(ctx);
        self.greet_nodes(ctx, true);
    }

    /// Nobody waits any more for what was told.
    pub(super) fn tells_anew(&mut self) {
        self.strict.questions.end();
        self.release_questions();
        self.strict.telling.told = Told::default();
        (self.strict.telling.waits_since, self.strict.telling.missing_since) = (None, None);
    }

    /// This node is no shard any more.
    pub(super) fn bears_nothing(&mut self) {
        self.tells_anew();
        let own = self.own();
        self.keyspace.learn(&own, None);
        self.ask_anew();
    }
}
