//! The durability `strict`, at a replica: what it is told of its primary's shard, and how it goes on as that
//! (`docs/replication.md`). And how a primary that has just started learns whether it may begin.

use claret_core::wire::{self, WireError};
use claret_core::{Backup, Change, Incarnation, Shard};
use claret_planted::{Bug, is_planted};

use super::files::FORM;
use super::{Node, settings, unix_time};
use crate::ffi::{Ctx, Flag, Log, Text};
use crate::parts::error::{Error, Outcome};
use crate::parts::following::Following;
use crate::parts::seals::{Envelope, Position};
use crate::parts::stranded::is_any_unnoted;

/// Whoever is promoted is a later incarnation than its primary can have been by so much, in microseconds: a primary counts
/// incarnations by the clock, and a session a time more.
const INCARNATIONS_AHEAD: u64 = 3_600_000_000;

impl Node {
    /// The primary tells what the shard has written.
    pub(crate) fn take_changes(
        &mut self,
        ctx: Ctx,
        form: u64,
        (source, position): (&[u8], Position),
        bytes: &[u8],
    ) -> Outcome {
        if !settings::is_strict() || ctx.is(Flag::Loading) && is_planted(Bug::FilesHaveNothing) {
            return Ok(());
        }
        if position.is_of_no_shard() {
            self.acknowledge(ctx);
            return Ok(());
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let other_form = || WireError::Malformed {
                at: 0,
                problem: format!("it has form {form}, and this module reads form {FORM}"),
            };
            let read = if form == FORM { wire::decode_change(rest) } else { Err(other_form()) };
            let (change, behind) = read.map_err(|error| {
                self.forget_backup();
                let text = format!("what was told of the shard cannot be read, and is forgotten: {error}");
                ctx.log(Log::Warning, &text);
                // It would acknowledge what it does not know. When it is connected again, it is told everything.
                let words = [b"KILL".as_slice(), b"TYPE", b"master"].map(Text::new);
                ctx.call(c"CLIENT", c"Ev", &words);
                Error::Unreadable(error)
            })?;
            // All is told; or it was when the file was written.
            if matches!(change, Change::Began { .. }) {
                self.strict.following.is_of_file = ctx.is(Flag::Loading);
            }
            self.strict.following.backup.take(change);
            rest = behind;
        }
        self.strict.following.position = Some(position);
        self.strict.following.source = Some(String::from_utf8_lossy(source).into_owned());
        self.note_heirs();
        self.counts.batches_taken += 1;
        self.acknowledge(ctx);
        Ok(())
    }

    pub(super) fn acknowledge(&mut self, ctx: Ctx) {
        if !self.timers.is_ack_set() && !ctx.is(Flag::Loading) {
            self.timers.set_ack(ctx);
        }
    }

    /// The primary hears at once how much was carried out.
    pub(crate) fn ack_fired(&mut self, ctx: Ctx) {
        self.timers.ack_fired();
        // It answers nothing; and without a primary it does nothing.
        ctx.call(c"REPLCONF", c"v", &[Text::new(b"GETACK"), Text::new(b"*")]);
    }

    /// Everything that is there is about to be replaced, or is of no use.
    pub(crate) fn forget_backup(&mut self) {
        self.strict.following.backup = Backup::default();
        self.strict.following.heirs.clear();
        self.strict.following.is_of_file = false;
        (self.strict.following.source, self.strict.following.position) = (None, None);
    }

    /// What a look at the cluster shows of whom this node follows.
    pub(super) fn note_whom_it_follows(&mut self) {
        let follows = self.keyspace.view(|view| view.members().follows.clone()).flatten();
        if follows.is_some() {
            self.strict.following.followed = follows;
        }
    }

    /// This node was the shard, and is not any more. What it knows may be all that is left of it.
    pub(super) fn keep_backup(&mut self, shard: &Shard) {
        let mut backup = Backup::default();
        shard.all_changes().for_each(|change| backup.take(change));
        let members = self.keyspace.view(|view| view.members().clone()).unwrap_or_default();
        let position = Position { incarnation: shard.incarnation(), batch: self.strict.telling.told.last() };
        self.strict.following.backup = backup;
        self.strict.following.is_of_file = false;
        self.strict.following.heirs = members.followers.into_iter().map(|(id, _)| id).collect();
        (self.strict.following.source, self.strict.following.position) = (Some(members.own), Some(position));
    }

    /// A primary without a shard, where a shard may outlive its node: it goes on as that of which it knows most, or begins if nobody
    /// knows anything. `None`: not yet (S14).
    pub(super) fn begin_strict(&mut self, ctx: Ctx) -> Option<Shard> {
        let serves = self.keyspace.view(|view| view.serves_some()).unwrap_or(false);
        if !serves || ctx.is(Flag::Replica) || ctx.is(Flag::Loading) {
            return None;
        }
        if self.strict.following.whole().is_none() && !self.knows_most(ctx) {
            return None;
        }
        let Some(position) = self.strict.following.complete() else {
            let name = self.keyspace.view(|view| view.shard())?;
            let id = self.named(ctx, name)?;
            return Some(self.new_shard(ctx, id));
        };
        let backup = std::mem::take(&mut self.strict.following.backup);
        self.forget_backup();
        let heard_of = backup.incarnation().unwrap_or(position.incarnation).max(position.incarnation);
        let incarnation =
            self.lives.incarnations.next(unix_time()).max(Incarnation(heard_of.0 + INCARNATIONS_AHEAD));
        self.strand(ctx, backup.of_host());
        let is_any_unnoted = self.keyspace.view(|view| is_any_unnoted(backup.of_host(), view));
        let (votes, decisions) = (backup.votes(), backup.decisions());
        let (records, now, switches) = (
            self.keyspace,
            self.now(),
            super::ways::ordered::switches(ctx.is(Flag::Cluster), self.peers.have_secret()),
        );
        let mut shard = Shard::promote(backup, Some(records), now, incarnation, switches, self.lives.limits)?;
        shard.know_owners(self.owners());
        if is_any_unnoted != Some(false) {
            shard.take_over_unasked(now); // S17.
        }
        let text = format!(
            "goes on as shard {} in incarnation {}, with {votes} votes and {decisions} decisions of its former primary",
            shard.id(),
            incarnation.0
        );
        ctx.log(Log::Notice, &text);
        Some(shard)
    }

    /// Whether all replicas have said what they know, and none knows more than this node. One that does is to take its place.
    fn knows_most(&mut self, ctx: Ctx) -> bool {
        let followers = self.keyspace.view(|view| view.members().followers.clone()).unwrap_or_default();
        self.strict.following.known.retain(|node, _| followers.iter().any(|(id, _)| id == node));
        let configured = settings::REPLICAS.get() as usize;
        let (said, all) = (self.strict.following.known.len(), followers.len().max(configured));
        if said < all && !is_planted(Bug::BeginsUnproven) {
            let text = format!(
                "no transactions are served: {said} of {all} replicas have said what they know (claret.replicas is {configured})"
            );
            self.say_once(ctx, &text);
            return false;
        }
        let own = self.strict.following.complete();
        let known = self.strict.following.known.iter();
        let best = known.filter_map(|(node, position)| Some(((*position)?, node.clone()))).max();
        let Some((_, node)) = best.filter(|(position, _)| Some(*position) > own) else { return true };
        self.say_once(ctx, &format!("replica {node} has what this node lacks, and is to take its place"));
        self.send_envelope(ctx, &node, &Envelope::TakeOver);
        false
    }

    /// Not with each check.
    fn say_once(&mut self, ctx: Ctx, text: &str) {
        if self.strict.following.said != text {
            self.strict.following.said = text.to_owned();
            ctx.log(Log::Warning, text);
        }
    }

    /// Whether this node would begin with nothing while a replica may know something: who follows it is not let in, since it would
    /// lose that.
    pub(super) fn is_unproven(&self) -> bool {
        settings::is_strict()
            && self.shard.is_none()
            && self.strict.following.whole().is_none()
            && !self.is_new()
    }

    /// Whether it serves nothing, and neither it nor anybody who follows it knows anything of a shard of its.
    fn is_new(&self) -> bool {
        let knows_nothing = |(id, _): &(String, String)| self.strict.following.known.get(id) == Some(&None);
        let is_new = self.keyspace.view(|view| {
            let followers = &view.members().followers;
            !view.serves_some() && !followers.is_empty() && followers.iter().all(knows_nothing)
        });
        is_new == Some(true) && self.strict.following.complete().is_none()
    }

    /// What a primary without slots knows of a shard that goes on elsewhere is of no use: the primary that it followed, or that told its
    /// file, has slots still, or is of another cluster by now. Whoever takes a primary's place has its slots from the same moment, and
    /// forgets nothing, whatever else that one has got meanwhile.
    pub(super) fn forget_who_goes_on(&mut self) {
        if self.shard.is_some() {
            return;
        }
        let Following { followed, source, .. } = &self.strict.following;
        let goes_on = self.keyspace.view(|view| {
            let has_left = followed.as_ref().is_some_and(|it| !view.members().has(it));
            !view.serves_some() && (has_left || followed.iter().chain(source).any(|it| view.goes_on(it)))
        });
        if goes_on == Some(true) {
            self.forget_backup();
            self.strict.following.followed = None;
        }
    }

    /// A replica says how much it knows.
    pub(super) fn hear_position(&mut self, from: &str, position: Option<Position>, asked: u64) {
        if asked != self.strict.following.asks {
            return;
        }
        self.strict.following.known.insert(from.to_owned(), position);
    }

    /// This node has no shard any more: what its replicas said before counts no more.
    pub(super) fn ask_anew(&mut self) {
        self.strict.following.known.clear();
        self.strict.following.said.clear();
        self.strict.following.asks += 1;
    }

    /// This node follows another one from now on, or the same again.
    pub(super) fn follows_anew(&mut self) {
        self.strict.following.followed = None;
    }

    /// The primary knows less than this node.
    pub(super) fn take_over(&mut self, ctx: Ctx, from: &str) {
        let is_primary = self.strict.following.followed.as_deref() == Some(from);
        if is_primary && ctx.is(Flag::Replica) && self.strict.following.complete().is_some() {
            let words = [&b"FAILOVER"[..], b"FORCE"].map(Text::new);
            let answer = ctx.call(c"CLUSTER", c"Ev", &words);
            ctx.log(
                Log::Notice,
                &format!("the primary has lost what this node knows, which takes its place: {answer:?}"),
            );
        }
    }

    /// What a replica tells its primary of itself; `None`: this node is none.
    pub(super) fn position_envelope(&self, ctx: Ctx, asked: u64) -> Option<(String, Envelope)> {
        let followed = self.strict.following.followed.clone().filter(|_| ctx.is(Flag::Replica))?;
        Some((followed, Envelope::Knows { position: self.strict.following.complete(), asked }))
    }
}
