//! Plain commands beside transactions (P37), as the commands that the filter puts before them run them, and blocking pops:
//! what happens to each, who waits, and who is let go. `docs/plain-commands.md` has the rules.

use claret_core::TxId;
use claret_core::message::Request;
use claret_planted::{Bug, is_planted};
use claret_types::{Access, Bytes};

use super::{Node, limits, settings, unix_time};
use crate::ffi::{Blocked, Ctx, Flag, Text};
use crate::parts::blocked_clients::sleeps;
use crate::parts::command_table::Row;
use crate::parts::error::Error;
use crate::parts::owner::{Name, Owner};
use crate::parts::plain;
use crate::parts::queue::{Asking, Left, Stage, Want, is_in_use, take_alone, wants_of};
use crate::parts::verdict::{Asked, Look, Standing, Verdict};

/// Every so many ticks it is asked whether any MULTI is open.
const TICKS_BETWEEN_LOOKS: u32 = 10;

/// A command over more keys asks for those alone that are held: most are not, and each costs.
const ASKED_AT_ONCE: usize = 64;

/// What becomes of a command.
pub(crate) enum Judged {
    /// It is run, now.
    Runs,
    /// See `entries/pops.rs`.
    Pops,
    /// See `entries/set_slot.rs`.
    TakesSlot,
    /// It is queued under this number, and its client is to wait, with [`Node::plain_waits`].
    Waits(u64),
    /// It was queued under this number, and does not wait any more: it ends with [`Node::plain_granted`].
    Decided(u64),
    Refused(Error),
}

/// How the wait of a command ended.
pub(crate) enum Waited {
    /// All its keys are granted, and nothing of them is in its way until [`Node::plain_ran`].
    Granted,
    Refused(Error),
}

impl Node {
    /// Judges a command that its client sends, or a script. What has to wait is queued.
    pub(crate) fn judge(&mut self, ctx: Ctx, row: Row, words: &[Text], standing: Standing) -> Judged {
        let Some(name) = words.first() else { return Judged::Refused(Error::NoCommand) };
        let asked = Asked { row, name: name.bytes(), words: words.len(), standing };
        let mut wanted = None;
        let verdict = asked.verdict(|| {
            let shard = self.shard.as_ref()?;
            let keys = keys_here(ctx, row, words);
            let (wants, locks) = (self.wants(&keys, words), self.plain.locks_of(shard));
            let in_conflict =
                |want: &&Want| locks.conflict(&want.key, want.access, Some(&want.op), Look::Records);
            let key = wants.iter().find(in_conflict)?.key.clone();
            let rest = if keys.len() > ASKED_AT_ONCE { &keys[..] } else { &[] };
            let rest = rest.iter().map(|(key, access)| (Bytes::copy_from(key), *access)).collect();
            wanted = Some(Asking { wants, rest, owner: Some(owner_of(ctx)) });
            Some(key)
        });
        match (verdict, wanted) {
            (Verdict::Refused(error), _) => Judged::Refused(error),
            (Verdict::Pops, _) => Judged::Pops,
            (Verdict::TakesSlot, _) => Judged::TakesSlot,
            (Verdict::Waits(_), Some(asking)) => self.ask(ctx, asking),
            (Verdict::TriesAgain(key), Some(Asking { wants, owner, .. })) => {
                self.counts.try_again += 1;
                self.reserve(wants.into_iter().map(|want| want.key), owner);
                self.carry_out(ctx, None);
                Judged::Refused(Error::HeldKey(key))
            }
            (Verdict::Passes | Verdict::Waits(_) | Verdict::TriesAgain(_), _) => Judged::Runs,
        }
    }

    /// What a command wants of its keys, or, of many, of those that are held: as an operation, where it is one.
    fn wants(&self, keys: &[(&[u8], Access)], words: &[Text]) -> Vec<Want> {
        let Some(shard) = &self.shard else { return Vec::new() };
        if keys.len() > ASKED_AT_ONCE {
            let mut wants = wants_of(keys.iter().copied().filter(|(key, _)| is_in_use(shard, key)));
            take_alone(&mut wants, shard);
            return wants;
        }
        let mut wants = wants_of(keys.iter().copied());
        if let ([want], [_]) = (&mut wants[..], keys)
            && words.get(1).is_some_and(|word| *word.bytes() == *want.key)
        {
            let arguments: Vec<Bytes> =
                words[2..].iter().map(|word| Bytes::copy_from(word.bytes())).collect();
            let op = plain::operation(words[0].bytes(), &arguments, shard.held_as(&want.key), Ctx::unix_ms);
            want.op = op.unwrap_or_else(|| plain::whole(want.access));
        }
        wants
    }

    /// A command has to wait: perhaps for what was ordered to be settled.
    fn waits_for_safe_time(&mut self) {
        self.safe_time.seek(self.shard.as_ref());
    }

    /// Queues for all keys: those that a command asks for at once, and what is held of the rest then.
    fn ask(&mut self, ctx: Ctx, mut asking: Asking) -> Judged {
        if let Some(shard) = &self.shard {
            take_alone(&mut asking.wants, shard);
        }
        self.waits_for_safe_time();
        let number = self
            .with_queue(|queue, now, shard| Some(queue.begin(now, unix_time(), limits(), shard?, asking)));
        let Some(number) = number else { return Judged::Runs };
        self.carry_out(ctx, None);
        self.tick_again(ctx);
        match self.plain.queue.stage(number) {
            Stage::Waits(_) | Stage::Settles => Judged::Waits(number),
            Stage::Granted | Stage::Refused | Stage::Resolved | Stage::Over => Judged::Decided(number),
        }
    }

    /// The client of a command that is queued waits from now on.
    pub(crate) fn plain_waits(&mut self, number: u64, client: Blocked) {
        let until = self.waits_until();
        self.plain.queue.wait(number, client, until);
    }

    /// Whether a command has got what it waited for.
    pub(crate) fn plain_granted(&mut self, ctx: Ctx, number: u64) -> Waited {
        let stage = self.plain.queue.stage(number);
        // Clients may have been paused since it was let go, and a write would end the server.
        let is_paused = Ctx::must_not_write() && ctx.blocked_answers() && !is_planted(Bug::GrantedInPause);
        if stage == Stage::Granted && !is_paused {
            // What it uses is its own meanwhile, also where a script uses it.
            self.plain.queue.lend(number);
            return Waited::Granted;
        }
        self.counts.try_again += 1;
        Waited::Refused(match stage {
            Stage::Resolved => Error::EndedByOperator,
            Stage::Waits(_) | Stage::Settles | Stage::Granted | Stage::Refused | Stage::Over if is_paused => {
                Error::Paused
            }
            // The queue knows nothing of it: the shard that had it is gone.
            Stage::Over => Error::BeganAnew,
            Stage::Waits(_) | Stage::Settles | Stage::Granted | Stage::Refused => {
                Error::NotFree(settings::PLAIN_WAIT_MS.get())
            }
        })
    }

    /// A command that was granted has run.
    pub(crate) fn plain_ran(&mut self, number: u64) {
        self.plain.queue.take_back(number);
    }

    /// A command lets everything go. It may let in others, who write: later, if nothing can be written.
    pub(crate) fn plain_ends(&mut self, ctx: Ctx, number: u64) {
        if self.keyspace.is_barred(ctx) {
            self.with_queue(|queue, _, shard| queue.end_later(shard, number));
            self.tick_again(ctx);
            return;
        }
        self.tell_shard(ctx);
        if self.shard.is_some() {
            self.with_queue(|queue, now, shard| shard.map(|shard| queue.end(now, shard, number)));
            self.carry_out(ctx, None);
        }
    }

    /// The client of a command leaves before that has run. It may have been let go already.
    pub(crate) fn plain_left(&mut self, ctx: Ctx, client: Blocked) -> Left {
        self.counts.try_again += 1;
        let Some((number, left)) = self.plain.queue.leave(client) else { return Left::Released };
        self.plain_ends(ctx, number);
        left
    }

    /// Queues for keys on behalf of a command that could not wait. Its next try finds them free.
    pub(super) fn reserve(&mut self, keys: impl Iterator<Item = Bytes>, owner: Option<Owner>) {
        let want = |key| Want { key, op: plain::whole(Access::Write), access: Access::Write };
        let wants: Vec<Want> = keys.map(want).collect();
        if wants.is_empty()
            || !self.plain.queue.may_reserve(settings::RESERVATIONS_MAX.get())
            || wants.iter().any(|want| self.plain.queue.is_reserved(&want.key))
        {
            return;
        }
        self.waits_for_safe_time();
        let ends = self.waits_until();
        let asking = Asking { wants, rest: Vec::new(), owner };
        self.with_queue(|queue, now, shard| {
            let Some(shard) = shard else { return };
            let number = queue.begin(now, unix_time(), limits(), shard, asking);
            queue.reserve(number, settings::RESERVATION_MS.get() * 1_000, ends);
        });
    }

    // --- pops ---

    /// Whether no key of a pop is held in conflict; those that are will be signalled when they are free.
    pub(crate) fn may_pop(&mut self, ctx: Ctx, keys: &[(Bytes, Access)]) -> bool {
        // A write would end the server.
        let is_paused = Ctx::must_not_write() && ctx.blocked_answers();
        let locks = self.shard.as_ref().map(|shard| self.plain.locks_of(shard));
        let in_conflict = |(key, access): &&(Bytes, Access)| {
            is_paused || locks.is_some_and(|locks| locks.conflict(key, *access, None, Look::Locks))
        };
        let held: Vec<Bytes> = keys.iter().filter(in_conflict).map(|(key, _)| key.clone()).collect();
        let is_free = held.is_empty();
        if !is_free {
            self.waits_for_safe_time();
        }
        self.plain.passed_over.note(held);
        self.tick_again(ctx);
        is_free
    }

    /// Transactions come to keys with a frame.
    pub(super) fn come_with(&mut self, ctx: Ctx, requests: &[Request]) {
        if !self.plain.blocked.minds_who_comes() {
            return;
        }
        let keys = requests.iter().flat_map(|request| {
            let (tx, one, several) = match request {
                Request::Execute { attempt, key, .. } => (Some(attempt.tx), Some(key), &[][..]),
                Request::Prepare { attempt, calls, .. } => (Some(attempt.tx), None, &calls[..]),
                _ => (None, None, &[][..]),
            };
            one.into_iter()
                .chain(several.iter().map(|call| &call.key))
                .filter_map(move |key| Some((key, tx?)))
        });
        self.come(ctx, keys);
    }

    /// Transactions come to keys.
    pub(super) fn come<'a>(&mut self, ctx: Ctx, keys: impl Iterator<Item = (&'a Bytes, TxId)>) {
        let shard = self.shard.as_ref();
        let is_held = |key: &Bytes| shard.is_some_and(|shard| shard.is_held(key));
        if self.plain.blocked.minds_who_comes()
            && self.plain.blocked.come_to(keys, ctx.is(Flag::Multi), is_held)
        {
            wake_all(ctx);
        }
    }

    // --- time ---

    /// There is a shard, and commands are looked at.
    pub(super) fn begin_to_look(&mut self, ctx: Ctx) {
        self.plain.open_multis.begin_to_look();
        self.look_for_multis(ctx);
        self.plain.blocked.begin_to_look(ctx.clients().as_deref());
        self.tick_soon(ctx);
    }

    /// Looks whether anybody has a MULTI open still. O(clients), while anybody may.
    fn look_for_multis(&mut self, ctx: Ctx) {
        let clients = if self.plain.open_multis.wants_look() { ctx.clients() } else { None };
        let open = clients.map(|clients| {
            clients.into_iter().filter(|client| client.queued.is_some()).map(|client| client.id).collect()
        });
        self.plain.open_multis.look(open);
    }

    /// Looks after those who wait; keys to be signalled, when nobody is at the node: who is served runs a command.
    pub(crate) fn tick(&mut self, ctx: Ctx) -> Vec<Bytes> {
        self.timers.tick_fired();
        let now = self.now();
        self.with_queue(|queue, now, _| queue.expire(now));
        if self.expire_blocked(now) {
            self.tick_soon(ctx);
        }
        self.look_after_leaving(ctx);
        if self.keyspace.is_barred(ctx) {
            // Whoever is let in may write.
            self.tick_again(ctx);
            return Vec::new();
        }
        let now = self.catch_up(ctx);
        if self.timers.is_nth_tick(TICKS_BETWEEN_LOOKS) {
            self.look_for_multis(ctx);
            self.ask_back(now);
        }
        if !self.plain.queue.is_quiet() {
            self.with_queue(|queue, now, shard| shard.map(|shard| queue.tick(now, shard)));
        }
        self.carry_out(ctx, None);
        let shard = self.shard.as_ref();
        let free = self.plain.passed_over.take(|key| shard.is_none_or(|shard| !is_in_use(shard, key)));
        self.tick_again(ctx);
        if is_planted(Bug::PassedOverForgotten) { Vec::new() } else { free }
    }

    /// Looks after them again soon, if anybody waits.
    pub(super) fn tick_again(&mut self, ctx: Ctx) {
        if self.plain.is_any_waiting() || self.moving.leaving.is_any() {
            self.tick_soon(ctx);
        }
    }

    pub(super) fn tick_soon(&mut self, ctx: Ctx) {
        self.timers.set_tick(ctx);
    }
}

/// Whoever sent the command that runs.
fn owner_of(ctx: Ctx) -> Owner {
    Owner { user: Name::new(ctx.user().bytes()), client: Some(ctx.client()) }
}

/// The keys of a command that are of the records' database.
fn keys_here(ctx: Ctx, row: Row, words: &[Text]) -> Vec<(&[u8], Access)> {
    // These two write keys of other databases.
    let writes_elsewhere = |name: &Text| {
        name.bytes().eq_ignore_ascii_case(b"MOVE") || name.bytes().eq_ignore_ascii_case(b"COPY")
    };
    match ctx.database() == 0
        || is_planted(Bug::OtherDatabasesWait)
        || words.first().is_some_and(writes_elsewhere)
    {
        true => row.keys(words, |words| ctx.keys_of(words)),
        false => Vec::new(),
    }
}

/// The time of all who sleep in the server is over. O(clients), once in the life of a server.
fn wake_all(ctx: Ctx) {
    for client in ctx.clients().unwrap_or_default().iter().filter(|client| sleeps(client)) {
        let number = client.id.to_string();
        ctx.call(c"CLIENT", c"Ev", &[Text::new(b"UNBLOCK"), Text::new(number.as_bytes())]);
    }
}
