//! The server's keys as the shard sees them. It also answers and notes what comes up while the node is at work
//! further up the stack: questions of the shard from within, and events in the middle of a command that the node
//! runs.
//!
//! The module's own commands ask it too, because the server wants to know their keys while the filter looks at them.
//! So what is known of the server's commands is also here.
//!
//! Each piece is borrowed by one caller at a time, and only for a moment. An event that comes while the node is busy
//! is noted here, and the shard hears of it before any other input: the server calls in the middle of its own work,
//! where nothing may be read or written. Until then nobody has seen more of the shard than before.

use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, Ordering};

use claret_core::message::Refusal;
use claret_core::{Applied, AttemptId, HeldEnd, Incarnation, Read, Records, Shard, ShardId, Time};
use claret_planted::{Bug, is_planted};
use claret_types::{Bytes, Effect, OpError, Operation, Reply, Run, State, TypeInfo};
use smallvec::SmallVec;

use super::caller::Caller;
use super::settings;
use super::told_versions::Told;
use crate::ffi::{Answer, Ctx, Flag, Key, Kind, Log, OnMainThread, Side, Text};
use crate::parts::adding::{Adding, Kept, amount_of, effect_of};
use crate::parts::command_table::{Keys, Row, Table};
use crate::parts::error::{Error, Outcome};
use crate::parts::native::{self, HeldEnds, OpenKey, Server};
use crate::parts::slots::{Closed, Slots, slot_of};
use crate::parts::users::Users;
use crate::parts::vanished::{Change, Changes, Expiring};

/// See the module's text.
pub(crate) struct Keyspace {
    /// What is known of the server's commands: asked once, and never again.
    commands: OnMainThread<&'static Table>,
    /// This node's view, of the moment.
    slots: OnMainThread<Slots>,
    /// What the shard was not told yet.
    changes: OnMainThread<Changes>,
    expiring: OnMainThread<Expiring>,
    held_ends: OnMainThread<HeldEnds>,
    /// What the frame that is carried out adds to counters, and is not in them yet.
    adding: OnMainThread<Adding>,
    /// What was read of records since the shard asked last.
    read: OnMainThread<Read>,
    /// A key is looked at for a transaction at this moment. The server deletes it then if its time is over.
    is_looking: AtomicBool,
    /// The server may throw keys away when memory is short.
    is_evicting: AtomicBool,
    pub(super) users: OnMainThread<Users>,
    /// See `node/versions.rs`.
    pub(super) told: OnMainThread<Told>,
    /// For whom operations are admitted now.
    pub(super) caller: OnMainThread<Caller>,
}

impl Keyspace {
    pub(crate) const fn new() -> Self {
        Keyspace {
            commands: OnMainThread::new(),
            slots: OnMainThread::new(),
            changes: OnMainThread::new(),
            expiring: OnMainThread::new(),
            held_ends: OnMainThread::new(),
            adding: OnMainThread::new(),
            read: OnMainThread::new(),
            is_looking: AtomicBool::new(false),
            is_evicting: AtomicBool::new(false),
            users: OnMainThread::new(),
            told: OnMainThread::new(),
            caller: OnMainThread::new(),
        }
    }

    /// Nothing happened and nobody was seen until now.
    pub(crate) fn begin(&self, commands: &'static Table, told: Told) {
        self.commands.set(Some(commands));
        self.changes.set(Some(Changes::default()));
        self.expiring.set(Some(Expiring::default()));
        self.held_ends.set(Some(HeldEnds::default()));
        self.adding.set(Some(Adding::default()));
        self.read.set(Some(Read::default()));
        self.users.set(Some(Users::default()));
        self.told.set(Some(told));
    }

    /// What is known of a command of this name.
    pub(crate) fn row(&self, name: &[u8]) -> Option<Row> {
        self.commands.with(|commands| commands.find(name)).flatten()
    }

    // --- slots ---

    /// Looks at the view of who owns which slot.
    pub(crate) fn view<R>(&self, look: impl FnOnce(&Slots) -> R) -> Option<R> {
        self.slots.with(|slots| look(slots))
    }

    /// A node says which shard it is, and as which incarnation.
    pub(super) fn learn(&self, node: &str, bears: Option<(ShardId, Incarnation)>) {
        self.slots.with(|slots| slots.learn(node, bears));
    }

    /// Whether an operation on a key may be done here.
    pub(crate) fn serves(&self, key: &[u8]) -> bool {
        self.view(|slots| slots.serves(key)).unwrap_or(false)
    }

    /// Whether a key's slot is this node's, on its way to another one or not.
    pub(super) fn is_mine(&self, key: &[u8]) -> bool {
        self.view(|slots| slots.is_mine(slot_of(key))).unwrap_or(false)
    }

    /// Puts a newer view in place; the one before, if there was one.
    pub(super) fn renew(&self, ctx: Ctx) -> Option<Slots> {
        self.is_evicting.store(ctx.is(Flag::Evicts), Ordering::Relaxed);
        let view = slots_of(ctx);
        let before = self.slots.replace(None);
        let Some(mut view) = view else {
            // That nothing is known now is no news of anybody.
            self.slots.set(Some(before.unwrap_or_else(Slots::nowhere)));
            return None;
        };
        view.follow(before.as_ref());
        self.slots.set(Some(view));
        before
    }

    /// Keeps newcomers away from a slot that is about to leave.
    pub(super) fn close(&self, slot: u16) -> Option<Closed> {
        self.view(|slots| slots.close(slot))
    }

    /// Whether the server would carry out a write on a key of this node's now. In a cluster that is down it would not, and
    /// an effect that is decided has to be; so nothing is decided then.
    pub(crate) fn may_write(&self, ctx: Ctx) -> Outcome {
        // Writes nothing, and is refused as any write would be.
        let asked = self.view(|slots| {
            let key = slots.probe()?.as_bytes();
            Some(ctx.run(c"SETRANGE", false, &[key, b"0", b""]))
        });
        match asked.flatten().unwrap_or(Answer::Nil) {
            Answer::Error(error) if !error.starts_with("WRONGTYPE") => Err(Error::NoWrites(error)),
            _ => Ok(()),
        }
    }

    /// Whether what is decided now could not be carried out: clients are paused, which nobody but a client may ignore, or
    /// the cluster is down. A write from a timer or from the bus would end a server whose clients are paused.
    pub(crate) fn is_barred(&self, ctx: Ctx) -> bool {
        (Ctx::must_not_write() || self.may_write(ctx).is_err()) && !is_planted(Bug::WritesWhilePaused)
    }

    // --- what changes behind the shard's back ---

    /// Notes a change. Somebody has to see that the shard hears of it soon, if nothing else happens.
    pub(crate) fn note(&self, change: Change) {
        self.changes.with(|changes| changes.insert(change));
    }

    /// What changed before a shard begins concerns nobody: of what a replica's primary has lost its votes say so themselves.
    pub(super) fn forget_changes(&self) {
        if !is_planted(Bug::VanishedBeforePromotion) {
            self.changes.with(std::mem::take);
        }
        self.nobody_waits();
    }

    /// Whether the key ended before anybody of those came who hold it when the shard is told: who looks at it just now found
    /// it gone, and whoever had held it would have had its end noted.
    pub(crate) fn is_found_gone(&self, key: &Bytes) -> bool {
        let is_ripe = |expiring: &mut Expiring| expiring.is_ripe(Ctx::millis(), key);
        self.is_looking.load(Ordering::Relaxed)
            && self.expiring.with(is_ripe) == Some(false)
            && !is_planted(Bug::FoundGoneTold)
    }

    /// Tells the shard what has changed, and refuses the attempts of clients that left. Before anything else goes into it, within every
    /// entry ([`Node::catch_up`](super::Node::catch_up)): who is let in may be carried out at once, and on a record that was there when it
    /// was looked at.
    pub(super) fn tell(&self, ctx: Ctx, now: Time, shard: &mut Shard, left: &[AttemptId]) {
        let mut left = left;
        self.touch(ctx, shard);
        // It lets others in, who may write. A timer comes back to it, if they may not.
        let is_any = || self.changes.with(|changes| !changes.is_empty()) == Some(true);
        while is_any() && !self.is_barred(ctx) {
            let changes = self.changes.with(std::mem::take).unwrap_or_default();
            let is_of_rights = changes.contains(&Change::Rights);
            let awaited: Vec<Bytes> = changes.iter().filter_map(Change::awaited).collect();
            // All that is gone, before anybody is let in for any of these reasons.
            let gone: Vec<Bytes> = match changes.contains(&Change::Everything) {
                true => shard.held_keys().cloned().collect(),
                false => changes.into_iter().filter_map(Change::record).collect(),
            };
            shard.vanished_and_left(now, &gone, std::mem::take(&mut left));
            // Whoever may not change them may try to.
            if is_of_rights
                && (self.have_rights_changed(ctx) || is_planted(Bug::RefusedChangeCounts))
                && !is_planted(Bug::LostRightsUntold)
            {
                shard.refuse_unvoted(now, &Refusal::LostLocks);
            }
            if !awaited.is_empty() {
                shard.stirred(now, &awaited);
            }
        }
        if !left.is_empty() {
            shard.refuse_these(now, left, &Refusal::LostLocks);
        }
    }

    /// Touches held keys whose time has come. In the very millisecond of its end a key is there still, so it is touched again
    /// next time: nothing is rounded up, or it would be gone for a while and nobody would know.
    fn touch(&self, ctx: Ctx, shard: &Shard) {
        if self.expiring.with(|it| it.is_empty()) != Some(false) {
            return; // Mostly: then nobody need know what time it is.
        }
        let is_held = |key: &Bytes| shard.is_held(key);
        let ripe = self.expiring.with(|it| it.take_ripe(Ctx::millis(), is_held)).unwrap_or_default();
        for key in ripe.into_iter().filter(|_| !is_planted(Bug::EndsUntouched)) {
            if let Some(end) = ctx.open(&Text::new(&key)).and_then(|key| key.expires_at()) {
                self.note_end(&key, end);
            }
        }
    }

    /// A key that is about to be decided on expires at this millisecond.
    fn note_end(&self, key: &Bytes, end: i64) {
        self.expiring.with(|expiring| expiring.note(key, end));
    }

    // --- what is kept back of a frame ---

    /// What is added to counters is kept back as sums, as long as this lives. Nothing but the shard may look at records
    /// meanwhile.
    pub(super) fn keep_sums(&'static self) -> Sums {
        self.adding.with(Adding::begin);
        Sums(self)
    }

    /// Keeps what is added to a counter. Its end must not be put off: then what is done to it has a place before the end.
    fn keeps(&self, key: &Bytes, effects: &[&Effect]) -> bool {
        let Some(amount) = amount_of(effects) else { return false };
        if self.held_ends.with(|held| held.get(key).is_some()) != Some(false) {
            return false;
        }
        match self.adding.with(|adding| adding.keep(key, amount)) {
            Some(Kept::Here) => true,
            Some(Kept::InPlaceOf(other, sum)) => {
                self.add(&other, sum);
                true
            }
            Some(Kept::No) | None => false,
        }
    }

    /// Somebody is about to look at a record, or to do something else to it.
    fn carry_out_sum(&self, key: &Bytes) {
        if let Some(sum) = self.adding.with(|adding| adding.take(key)).flatten() {
            self.add(key, sum);
        }
    }

    fn add(&self, key: &Bytes, sum: i64) {
        native::apply(&self.server(), key, &[&effect_of(sum)]);
    }

    /// A shard begins, which knows of no votes: records end by their time again.
    pub(super) fn let_all_end(&self) {
        native::let_all_end(&self.server());
    }

    /// Opens a key, which ends then if its time is over.
    pub(super) fn look_at(&self, name: &Text) {
        drop(self.server().open(name));
    }

    /// For the shard, which asks from within an entry.
    fn server(&self) -> KeyspaceServer<'_> {
        KeyspaceServer { ctx: Ctx::current(), keyspace: self }
    }
}

/// See [`Keyspace::keep_sums`]. What is decided is carried out, also when the node panics.
pub(super) struct Sums(&'static Keyspace);

impl Drop for Sums {
    fn drop(&mut self) {
        for (key, sum) in self.0.adding.with(Adding::end).into_iter().flatten() {
            self.0.add(&key, sum);
        }
    }
}

/// The node's view. Without a cluster everything is here. `None`: the server does not say.
fn slots_of(ctx: Ctx) -> Option<Slots> {
    if !ctx.is(Flag::Cluster) {
        // Tests of one node vote as if there were others: in builds for tests the environment allows it.
        let planted = || std::env::var("CLARET_PLANTED_SHARDS").is_ok_and(|planted| planted == "1");
        return Some(Slots::alone().with_planted_shards(cfg!(debug_assertions) && planted()));
    }
    match ctx.call(c"CLUSTER", c"Ev", &[Text::new(b"NODES")]) {
        Answer::Bytes(listing) => {
            let slots = Slots::parse(&String::from_utf8_lossy(&listing));
            Some(if settings::is_strict() { slots.strict() } else { slots })
        }
        _ => None,
    }
}

impl Records for Keyspace {
    /// Its lowest slot: no other node has it, and one that gets it begins later.
    fn tag(&self) -> u16 {
        self.view(Slots::lowest).flatten().unwrap_or_default()
    }

    fn admit(&self, key: &Bytes, op: &Operation) -> Result<(), Refusal> {
        assert!(!panics_on(key), "planted");
        self.admits(Ctx::current(), key, op)
    }

    fn judge(&self, key: &Bytes, op: &Operation) -> Result<(), OpError> {
        if is_planted(Bug::SchemaUnasked) { Ok(()) } else { self.fits_schema(key, op) }
    }

    fn partial_state(&self, key: &Bytes, op: &Operation, own: &[&Effect]) -> Result<Option<State>, OpError> {
        self.carry_out_sum(key);
        if op.asks_version() {
            return Ok(Some(self.version(key)));
        }
        native::partial_state(&self.server(), key, op, own)
    }

    fn partial_state_for_all(
        &self,
        key: &Bytes,
        ops: &[&Operation],
        own: &[&Effect],
    ) -> Result<(Option<State>, usize), OpError> {
        self.carry_out_sum(key);
        if ops[0].asks_version() {
            return Ok((Some(self.version(key)), 1));
        }
        native::partial_state_for_all(&self.server(), key, ops, own)
    }

    fn apply(&self, key: &Bytes, effects: &[&Effect]) -> Applied {
        if is_slow_on(key) {
            wait_for_end(key);
        }
        if self.keeps(key, effects) {
            self.has_changed(key);
            return Applied::Done;
        }
        self.carry_out_sum(key);
        let applied = native::apply(&self.server(), key, effects);
        // Mostly the server has said so; not of an end that was put off.
        self.has_changed(key);
        applied
    }

    fn run(&self, key: &Bytes, run: &Run) -> Reply {
        self.carry_out_sum(key);
        let reply = native::commands::run(&self.server(), key, run);
        if run.writes {
            self.has_changed(key);
        }
        reply
    }

    fn take_read(&self) -> Read {
        self.read.with(std::mem::take).unwrap_or_default()
    }

    fn may_order(&self, key: &Bytes, op: &Operation) -> bool {
        // What the server may throw away at any moment vanishes before anybody hears of it.
        if self.is_evicting.load(Ordering::Relaxed) && !is_planted(Bug::EvictedOrdered) {
            return false;
        }
        self.carry_out_sum(key);
        native::may_order(&self.server(), key, op)
    }

    fn whole(&self, key: &Bytes, kind: &'static TypeInfo) -> Option<State> {
        self.carry_out_sum(key);
        native::whole_of(&self.server(), key, kind)
    }

    fn await_changes(&self, key: &Bytes, awaits: bool) {
        self.awaits(key, awaits);
    }

    fn hold_end(&self, key: &Bytes) -> HeldEnd {
        self.carry_out_sum(key);
        let held = native::hold_end(&self.server(), key);
        if held == HeldEnd::Over {
            // The shard hears of it just now.
            self.changes.with(|changes| changes.remove(&Change::Record(key.clone())));
        }
        held
    }

    fn let_end(&self, key: &Bytes) -> Applied {
        self.carry_out_sum(key);
        native::let_end(&self.server(), key)
    }
}

/// Whether to panic at this key, so that a test sees what becomes of it.
fn panics_on(key: &Bytes) -> bool {
    is_planted_for("CLARET_PLANTED_PANIC", key)
}

/// Whether an entry comes to this key only when its time is over.
fn is_slow_on(key: &Bytes) -> bool {
    is_planted_for("CLARET_PLANTED_DELAY", key)
}

/// The environment names a key, in builds for tests.
fn is_planted_for(variable: &str, key: &Bytes) -> bool {
    cfg!(debug_assertions) && std::env::var(variable).is_ok_and(|planted| *planted.as_bytes() == **key)
}

fn wait_for_end(key: &Bytes) {
    let end = Ctx::current().open(&Text::new(key)).and_then(|opened| opened.expires_at());
    while end.is_some_and(|end| Ctx::millis() <= end) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// The server, within an entry.
struct KeyspaceServer<'a> {
    ctx: Ctx,
    keyspace: &'a Keyspace,
}

impl Server for KeyspaceServer<'_> {
    type Text = Text;
    type Key = Key;

    fn text(&self, bytes: &[u8]) -> Text {
        Text::new(bytes)
    }

    fn open(&self, name: &Text) -> Option<Key> {
        self.keyspace.is_looking.store(true, Ordering::Relaxed);
        let opened = self.ctx.open(name);
        self.keyspace.is_looking.store(false, Ordering::Relaxed);
        opened
    }

    fn note_end(&self, key: &Bytes, end: i64) {
        if !is_planted(Bug::EndUnnoted) {
            self.keyspace.note_end(key, end);
        }
    }

    fn read<'b>(&self, command: &CStr, name: &Text, arguments: impl IntoIterator<Item = &'b [u8]>) -> Answer {
        let arguments: SmallVec<[Text; 4]> = arguments.into_iter().map(Text::new).collect();
        self.ctx.call(command, c"Ev", std::iter::once(name).chain(&arguments))
    }

    fn note_read(&self, elements: usize, bytes: usize) {
        let more = Read { elements: elements as u64, bytes: bytes as u64 };
        self.keyspace.read.with(|read| *read += more);
    }

    fn memory(&self, name: &Text) -> usize {
        let words = [b"USAGE", &b"SAMPLES"[..], b"0"].map(Text::new);
        let told = self.ctx.call(c"MEMORY", c"Ev", [&words[0], name, &words[1], &words[2]]);
        told.int().map_or(0, |bytes| bytes as usize)
    }

    fn whole_elements_max(&self) -> usize {
        settings::WHOLE_ELEMENTS_MAX.get() as usize
    }

    fn write<'b>(
        &self,
        command: &CStr,
        key: &Bytes,
        arguments: impl IntoIterator<Item = &'b [u8]>,
    ) -> Answer {
        let mut words: SmallVec<[&[u8]; 8]> = SmallVec::new();
        words.push(key);
        words.extend(arguments.into_iter().map(|word| -> &[u8] { word }));
        let stays = |bug, name: &CStr| is_planted(bug) && command == name;
        let stays_here = stays(Bug::HdelUnreplicated, c"HDEL")
            || stays(Bug::SremUnreplicated, c"SREM")
            || stays(Bug::DelUnreplicated, c"DEL");
        self.ctx.run(command, !stays_here, &words)
    }

    fn write_as_is<'b>(
        &self,
        command: &CStr,
        key: &Bytes,
        arguments: impl IntoIterator<Item = &'b [u8]>,
    ) -> Answer {
        // What a module holds as well the server leaves as it is.
        let words = std::iter::once(Text::new(key)).chain(arguments.into_iter().map(Text::new));
        let words: SmallVec<[Text; 4]> = words.collect();
        self.ctx.call(command, c"!Ev", &words)
    }

    fn command(&self, words: &[Bytes], passes_on: bool) -> Answer {
        let Some((name, rest)) = words.split_first() else { return Answer::Nil };
        let Ok(name) = CString::new(&name[..]) else { return Answer::Nil };
        let rest: SmallVec<[Text; 8]> = rest.iter().map(|word| Text::new(word)).collect();
        self.ctx.call(&name, if passes_on { c"!Ev" } else { c"Ev" }, &rest)
    }

    fn key_places(&self, words: &[Bytes]) -> Vec<usize> {
        let Some(row) = words.first().and_then(|name| self.keyspace.row(name)) else { return Vec::new() };
        match row.keys {
            Keys::Asked => {
                let words: Vec<Text> = words.iter().map(|word| Text::new(word)).collect();
                self.ctx.keys_of(&words).into_iter().map(|place| place.at).collect()
            }
            _ => row.places(words.len()).collect(),
        }
    }

    fn row(&self, name: &[u8]) -> Option<Row> {
        self.keyspace.row(name)
    }

    /// Whoever holds the key hears of its end when it comes.
    fn expiry_changed(&self, key: &Bytes, name: &Text) -> bool {
        let end = self.ctx.open(name).map(|opened| opened.expires_at());
        if let Some(Some(end)) = end {
            self.keyspace.note_end(key, end);
        }
        end.is_some()
    }

    fn set_end_here(&self, name: &Text, end: i64) -> bool {
        self.ctx.set_end_here(name, end)
    }

    fn has_come_to_its_end(&self, key: &Bytes) -> bool {
        self.keyspace.expiring.with(|expiring| expiring.is_ripe(Ctx::millis(), key)) == Some(true)
    }

    fn held_ends<R>(&self, use_them: impl FnOnce(&mut HeldEnds) -> R) -> R {
        self.keyspace.held_ends.with(use_them).expect("nobody borrows them for longer")
    }

    fn now_ms(&self) -> i64 {
        Ctx::millis()
    }

    fn append_bytes_max(&self) -> Option<usize> {
        self.ctx.config("proto-max-bulk-len")?.as_str()?.parse().ok()
    }

    fn warn(&self, text: &str) {
        self.ctx.log(Log::Warning, text);
    }
}

impl OpenKey for Key {
    type Text = Text;

    fn kind(&self) -> Kind {
        self.kind()
    }

    fn expires_at(&self) -> Option<i64> {
        self.expires_at()
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn string(&self) -> &[u8] {
        self.string()
    }

    fn field(&self, name: &[u8]) -> Option<Text> {
        self.field(&Text::new(name))
    }

    fn score(&self, member: &[u8]) -> Option<f64> {
        self.score(&Text::new(member))
    }

    fn outermost(&self, end: Side, count: usize) -> Vec<(Bytes, f64)> {
        self.outermost(end, count)
    }
}
