//! Lives of the shard, and the periodic check.
//!
//! A shard begins when the node serves slots as a primary. It restarts as another incarnation when the node becomes a
//! primary or has panicked, because what it has in memory may be wrong then. When slots leave, even all of them, it
//! goes on as another incarnation that remembers its votes.

use std::sync::atomic::Ordering;

use claret_core::message::Refusal;
use claret_core::{Incarnation, SessionId, Shard, ShardId, Survives, Time};
use claret_planted::{Bug, is_planted};

use super::serving::replicas_may_leave;
use super::timers::Stopped;
use super::{Node, limits, settings, unix_time};
use crate::ffi::{Ctx, Flag, Log};
use crate::parts::incarnations::Incarnations;
use crate::parts::owner::Name;
use crate::parts::slots::Namesake;
use crate::parts::stranded::Stranded;

impl Node {
    /// Looks who owns what, and whether the shard has to begin, begin anew, or end.
    pub(crate) fn look_around(&mut self, ctx: Ctx) {
        let before = self.keyspace.renew(ctx);
        let took = before
            .as_ref()
            .is_some_and(|before| self.keyspace.view(|view| view.takes(before)).unwrap_or(false));
        self.note_whom_it_follows();
        if (ctx.is(Flag::Replica) || ctx.is(Flag::Loading)) && !is_planted(Bug::ReplicaServes) {
            return self.end(ctx);
        }
        // Of an older view nothing follows.
        if before.is_some() {
            self.forget_who_goes_on();
        }
        // What comes to a shard that served nothing is as new to it as to one that begins.
        let lost = before.is_some_and(|before| {
            self.keyspace
                .view(|view| !view.keeps(&before) || view.serves_some() && !before.serves_some())
                .unwrap_or(false)
        });
        let (serves, id) =
            self.keyspace.view(|view| (view.serves_some(), view.shard())).unwrap_or((false, Ok(None)));
        match (&mut self.shard, id) {
            (None, _) if serves => self.begin(ctx),
            // The node has another id: it was reset, and is another one to everybody.
            (Some(shard), Ok(Some(id))) if shard.id() != id => {
                self.end(ctx);
                self.forget_backup();
                self.begin(ctx);
            }
            (Some(_), _) if lost => self.go_on(ctx),
            (Some(_), _) | (None, _) => {}
        }
        if lost || took {
            // Other nodes may have changed them.
            self.keyspace.all_changed();
        }
        self.tell_owners();
        self.note_slots_on_their_way(ctx);
        let now = self.now();
        // On the keys that came, and on those that are gone, timestamps were used that this node does not know (P86).
        if let Some(shard) = self.shard.as_mut().filter(|_| took) {
            shard.take_over_unasked(now);
        }
    }

    /// Slots left, even all of them: what was voted stays, and whoever asks hears of it.
    fn go_on(&mut self, ctx: Ctx) {
        let (now, next) = (self.now(), self.lives.incarnations.next(unix_time()));
        let Some(shard) = &mut self.shard else { return };
        shard.restart(
            now,
            next,
            if is_planted(Bug::VotesForgotten) { Survives::Records } else { Survives::Votes },
        );
        self.become_one(ctx, next);
        self.counts.incarnations += 1;
        self.dismiss();
        self.begin_to_tell(ctx);
        ctx.log(Log::Notice, &format!("slots left or came: the shard goes on as incarnation {}", next.0));
    }

    fn begin(&mut self, ctx: Ctx) {
        self.lives.limits = limits();
        self.keyspace.all_changed();
        self.keyspace.forget_changes();
        self.learn_incarnations(ctx);
        let begun = match settings::is_strict() {
            true => self.begin_strict(ctx),
            false => self.begin_anew(ctx),
        };
        let Some(shard) = begun else { return };
        let (id, incarnation) = (shard.id(), shard.incarnation());
        self.become_one(ctx, incarnation);
        self.counts.incarnations += 1;
        self.shard = Some(shard);
        self.tells_anew();
        self.begin_to_tell(ctx);
        self.begin_to_look(ctx);
        ctx.log(Log::Notice, &format!("shard {id} begins as incarnation {}", incarnation.0));
        if let Some(leave) = replicas_may_leave(ctx) {
            ctx.log(Log::Warning, &leave);
        }
    }

    /// What this node has been before it started, and the server with it.
    fn learn_incarnations(&mut self, ctx: Ctx) {
        if let Err(error) = self.lives.incarnations.go_on_in(Incarnations::file_of(&self.own())) {
            let advice =
                "if the clock of this machine is behind what it was, set it right and start the server again";
            ctx.log(
                Log::Warning,
                &format!("it is not known which incarnations the shard has been; {advice}: {error}"),
            );
        }
    }

    /// From now on the shard is this incarnation, to some session at least.
    fn become_one(&mut self, ctx: Ctx, incarnation: Incarnation) {
        if let Err(error) = self.lives.incarnations.become_one(incarnation) {
            let so = "a server that starts again while its clock is behind would be an earlier one";
            ctx.log(Log::Warning, &format!("the incarnation of the shard is not kept; {so}: {error}"));
        }
    }

    fn begin_anew(&mut self, ctx: Ctx) -> Option<Shard> {
        let id = self.keyspace.view(|view| view.serves_some().then(|| view.shard())).flatten()?;
        let id = self.named(ctx, id)?;
        self.keyspace.let_all_end();
        Some(self.new_shard(ctx, id))
    }

    /// A shard that remembers nothing.
    pub(super) fn new_shard(&self, ctx: Ctx, id: ShardId) -> Shard {
        let switches = super::ways::ordered::switches(ctx.is(Flag::Cluster), self.peers.have_secret());
        let incarnation = self.lives.incarnations.next(unix_time());
        let mut shard = Shard::over(self.keyspace, id, incarnation, switches, self.lives.limits);
        shard.know_owners(self.owners());
        // Where nothing is, nothing was ordered; else nobody knows what was (P85).
        if ctx.has_keys() {
            shard.begin_clock(self.now());
        }
        shard
    }

    /// The name of a shard that may begin here, unless another one has it.
    pub(super) fn named(&mut self, ctx: Ctx, name: Result<Option<ShardId>, Namesake>) -> Option<ShardId> {
        match name {
            Ok(name) => {
                self.serving.is_namesake = false;
                name
            }
            Err(Namesake(other)) => {
                // Said once and not with each check.
                if !std::mem::replace(&mut self.serving.is_namesake, true) {
                    let advice = "give this one another with CLUSTER RESET HARD";
                    let text = format!("no shard begins: the id of node {other} begins alike; {advice}");
                    ctx.log(Log::Warning, &text);
                }
                None
            }
        }
    }

    /// Another node goes on as the shard of this one, which does not know yet that it was replaced.
    pub(super) fn heed_successor(&mut self, ctx: Ctx) {
        let Some((id, own)) = self.shard.as_ref().map(|shard| (shard.id(), shard.incarnation())) else {
            return;
        };
        let successor = self.keyspace.view(|view| view.successor(id, own).map(str::to_owned)).flatten();
        if let Some(node) = successor {
            ctx.log(Log::Warning, &format!("the shard ends: node {node} goes on as it"));
            self.end(ctx);
        }
    }

    /// What comes before anything else in an entry that puts something into the shard: it hears what has changed meanwhile, and from the
    /// first look on that sees the setting nobody has a lock that it could still vote for. What time it is.
    pub(crate) fn catch_up(&mut self, ctx: Ctx) -> Time {
        self.tell_shard(ctx);
        let now = self.now();
        let is_draining = settings::DRAIN.get() == 1 && !is_planted(Bug::DrainIgnored);
        if let Some(shard) = self.shard.as_mut().filter(|_| is_draining && !self.serving.is_drained) {
            shard.refuse_unvoted(now, &Refusal::ReadOnly);
        }
        self.serving.is_drained = is_draining;
        now
    }

    /// The shard's memory goes. Its sessions have to say hello again.
    fn end(&mut self, ctx: Ctx) {
        self.dismiss();
        self.end_errands();
        self.moving.stranded = Stranded::default();
        if let Some(shard) = self.shard.take() {
            if settings::is_strict() {
                self.keep_backup(&shard);
            }
            self.bears_nothing();
            settings::DRAIN.value.store(0, Ordering::Relaxed);
            ctx.log(Log::Notice, "the shard ends: this node serves no slots as a primary");
        }
    }

    /// Whoever speaks to another incarnation has to know, so everybody says hello again.
    fn dismiss(&mut self) {
        self.one_shots.clear();
        self.release_one_shots();
        for poller in self.sessions.clear() {
            poller.release(0);
        }
        self.with_queue(|queue, _, _| queue.clear());
    }

    /// After a panic nothing in memory can be trusted.
    pub(crate) fn restart_after_panic(&mut self, ctx: Ctx) {
        self.counts.panics += 1;
        self.dismiss();
        self.end_errands();
        self.shard = None;
        self.bears_nothing();
        self.begin(ctx);
    }

    /// As a replica, or as a primary that was one, the node remembers nothing that counts.
    pub(crate) fn role_changed(&mut self, ctx: Ctx, is_replica: bool) {
        if is_replica {
            self.follows_anew();
        }
        // What was said to this node in another role is not what is so now.
        self.ask_anew();
        self.end(ctx);
        // Whoever waits here without a shard waits for replicas that it has no more.
        self.tells_anew();
    }

    /// A session comes that was not known, and the shard is another incarnation to it than to any that came before.
    pub(crate) fn greet(&mut self, session: SessionId, user: &Name) -> Option<Incarnation> {
        let next = self.lives.incarnations.next(unix_time());
        self.shard.as_mut()?.greet(session, user.account(), next);
        self.become_one(self.detached(), next);
        Some(next)
    }
}

/// The periodic check: looks around every `claret.topology-ms`, as long as there is something that changes without an entry.
/// A server alone with its clients, none of which is a session, is not woken for it.
impl Node {
    pub(crate) fn check(&mut self, ctx: Ctx) {
        self.counts.checks += 1;
        self.look_around(ctx);
        self.greet_nodes(ctx, false);
        if self.peers.were_looked_at() {
            self.quicken_links(ctx);
        }
        self.see_whether_it_writes(ctx);
        let is_barred = self.keyspace.is_barred(ctx);
        if !is_barred {
            self.catch_up(ctx);
        }
        if self.look_at_replicas(ctx) && !is_barred {
            self.carry_out(ctx, None);
        }
        let (now, after_us) = (self.now(), settings::FORGET_MS.get() * 1_000);
        self.strict.questions.expire(now);
        self.release_questions();
        let forgotten = self.sessions.forget(now, after_us);
        if let Some(shard) = &mut self.shard {
            shard.set_bounds(limits());
            shard.pass(now);
            shard.forget_strangers(now, after_us);
            forgotten.into_iter().for_each(|session| shard.forget(now, session));
        }
        self.look_after_helpers();
        if !is_barred {
            self.beat();
            self.carry_out(ctx, None);
        }
    }

    /// After a check, however it ended.
    pub(crate) fn checked(&mut self, ctx: Ctx) {
        self.timers.check_fired();
        if !self.is_quiet(ctx) {
            self.check_again(ctx, settings::TOPOLOGY_MS.get());
        }
    }

    /// Whether nothing has to be looked after: no slots, no client process, no transaction, and the shard is there where
    /// one should be.
    fn is_quiet(&self, ctx: Ctx) -> bool {
        let is_primary = !ctx.is(Flag::Replica) && !ctx.is(Flag::Loading);
        !ctx.is(Flag::Cluster)
            && self.shard.is_some() == is_primary
            && self.serving.no_writes.is_none()
            && self.serving.is_drained == (settings::DRAIN.get() == 1)
            && self.sessions.len() == 0
            && self.one_shots.len() == 0
            && self.plain.errands.len() == 0
            && self.plain.queue.len() == 0
            && self.shard.as_ref().is_none_or(|shard| shard.open_attempts() == 0)
    }

    pub(crate) fn check_again(&mut self, ctx: Ctx, millis: u64) {
        self.timers.set_check(ctx, millis);
    }

    /// The server's timers go by the time of day. Where that was set back, those that were set before stand still until it is there again,
    /// and if it is, the server may look at none of them for as long. Only its own rounds go on.
    fn set_timers_anew(&mut self, ctx: Ctx) {
        ctx.log(Log::Warning, "the time of day was set back, and timers stood still: they are set anew");
        let Stopped { soon, tick, replicas, ack, mail } = self.timers.stop(ctx);
        self.check_again(ctx, 0);
        self.set_timer(ctx);
        if soon {
            self.come_back(ctx, 0);
        }
        if tick {
            self.tick_soon(ctx);
        }
        if mail {
            self.send_mail_soon(ctx);
        }
        if replicas {
            self.look_at_replicas_soon(ctx, 0);
        }
        if ack {
            self.acknowledge(ctx);
        }
    }

    /// The server's own round, for which it wakes anyway.
    pub(crate) fn server_looked_around(&mut self, ctx: Ctx) {
        if self.timers.stand_still() {
            self.set_timers_anew(ctx);
        }
        if !self.timers.is_check_set() && !self.is_quiet(ctx) {
            self.check_again(ctx, 0);
        }
    }
}
