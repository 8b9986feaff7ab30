//! Plain commands beside transactions (R17). `docs/plain-commands.md` has the rules, and what happens with each command.
//!
//! A filter looks at every command of a client. One that uses nothing held, or whose use commutes with all that is
//! held, passes untouched. Any other has `CLARET.READ` or `CLARET.WRITE` put before it: these wait for their turn
//! ([`crate::parts::queue`]), or, where they cannot wait, answer `-TRYAGAIN`. Commands of a MULTI are looked at when they are queued
//! and again at EXEC ([`crate::parts::open_multis`]); blocking pops are waited for here ([`pops`]).
//!
//! Not seen by the filter: what is read at replicas, FLUSHALL and its kin (an event tells: `vanish`), SCAN and KEYS,
//! and what a client's own cache keeps.

use std::ffi::{c_int, c_void};

use claret_core::message::Response;
use claret_core::{Shard, Time};
use claret_types::{Access, Bytes, Operation};
use redis_module::raw;

use crate::entries::config;
use crate::entries::locks::Owner;
use crate::entries::pops::{self, PassedOver};
use crate::entries::set_slot::{self as leaving, Leaving};
use crate::ffi::{Arg, Blocked, Ctx, Filtered, Flag, OnMainThread, Text, Timer, User, caught, guarded};
use crate::node::admission::{self, Name};
use crate::node::vanish::{self, Change};
use crate::node::{HOST, Host, is_barred, mend};
use crate::parts::command_table::{Keys, Row, Special, Table};
use crate::parts::error::{Error, Outcome};
use crate::parts::open_multis::{OpenMultis, Queued};
use crate::parts::plain;
pub(crate) use crate::parts::queue::OWN;
use crate::parts::queue::{Left, Queue, Stage, Want, wants_of};
use crate::parts::sleepers::Asleep;

/// What is known of commands.
pub(crate) static GUARD_TABLE: OnMainThread<Table> = OnMainThread::new();

/// For questions from within the filter, which is given no context.
static DETACHED: OnMainThread<Ctx> = OnMainThread::new();

/// How often those who wait are looked after, in milliseconds.
const TICK_MS: u64 = 10;

/// Every so many ticks it is asked whether any MULTI is open.
const TICKS_BETWEEN_LOOKS: u32 = 10;

/// Once something was held, so many commands are looked at without asking whether it still is: to ask takes as long as
/// to look, and to look in vain does no harm.
const LOOKS: u32 = 16;

/// What the guard remembers.
#[derive(Default)]
pub(crate) struct Guard {
    queue: Queue,
    pub(crate) open: OpenMultis,
    pub(crate) passed_over: PassedOver,
    pub(crate) asleep: Asleep,
    pub(crate) leaving: Leaving,
    tick: Option<Timer>,
    ticks: u32,
    /// So many commands are looked at before it is asked again whether anything is held.
    looks: u32,
    counts: Counts,
}

/// What the guard counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Commands that had `CLARET.READ` or `CLARET.WRITE` put before them.
    pub(crate) guarded: u64,
    /// Of them, those that had to wait.
    pub(crate) waited: u64,
    /// Commands that were answered -TRYAGAIN.
    pub(crate) try_again: u64,
    /// EXECs that were refused.
    pub(crate) exec_aborts: u64,
}

/// Begins to look at commands.
pub(crate) fn begin(ctx: Ctx) -> Result<(), ()> {
    GUARD_TABLE.set(Some(Table::of(ctx)));
    DETACHED.set(Some(ctx.detached()));
    ctx.filter(filter)
}

impl Guard {
    pub(crate) fn counts(&self) -> Counts {
        Counts { waited: self.queue.waited, ..self.counts }
    }

    /// Whose a plain command is that goes by this number among those that wait.
    pub(crate) fn owner_of(&self, number: u64) -> Option<Owner> {
        self.queue.owner_of(number)
    }

    /// Plain commands and reservations that wait or are about to run.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// MULTIs whose keys are noted.
    pub(crate) fn multis(&self) -> usize {
        self.open.len()
    }

    /// A response of the shard to one of the node's own attempts.
    pub(crate) fn hear(&mut self, now: Time, shard: &mut Shard, response: Response) {
        self.queue.hear(now, shard, response);
    }

    /// A client's connection closed.
    pub(crate) fn closed(&mut self, client: u64) {
        self.open.end(Some(client));
    }

    /// From now on there are transactions at this node.
    pub(crate) fn transactions_come(&mut self) {
        self.asleep.come();
    }

    /// Whether it matters which keys transactions come to.
    pub(crate) fn minds_who_comes(&self) -> bool {
        !self.asleep.is_used() || self.asleep.is_any()
    }

    /// Something is carried out that no client's command asked for.
    pub(crate) fn stir(&mut self) {
        self.asleep.stir();
    }

    /// There is a shard, and commands are looked at.
    pub(crate) fn shard_begins(&mut self, ctx: Ctx) {
        self.open.begin_to_look(ctx);
        self.asleep.begin_to_look(ctx);
        self.tick_soon(ctx);
    }

    /// The shard is another one from now on.
    pub(crate) fn clear(&mut self) {
        self.queue.clear();
    }

    /// Whether anything may be held, or a MULTI be open.
    fn is_busy(&mut self, shard: &Shard) -> bool {
        if self.looks > 0 {
            self.looks -= 1;
            return true;
        }
        let is_held = !shard.is_idle();
        if is_held {
            self.looks = LOOKS;
        }
        is_held || self.open.is_any()
    }

    pub(crate) fn come_back(&mut self, ctx: Ctx) {
        let idle = self.queue.is_quiet() && !self.open.is_any() && !self.passed_over.is_any();
        if !idle || self.leaving.is_any() {
            self.tick_soon(ctx);
        }
    }

    fn tick_soon(&mut self, ctx: Ctx) {
        if self.tick.is_none() {
            self.tick = Some(ctx.timer(TICK_MS, ticked));
        }
    }
}

unsafe extern "C" fn ticked(ctx: *mut raw::RedisModuleCtx, _: *mut c_void) {
    // SAFETY: the server's context, for the time of this call.
    let ctx = unsafe { Ctx::new(ctx) };
    guarded(ctx, "the guard's timer", mend, |ctx| {
        let free = HOST.with(|host| {
            host.guard.tick = None;
            host.tick_guard(ctx)
        });
        // Whoever is served runs a command, and so nobody may be at the host.
        for key in free.unwrap_or_default() {
            ctx.signal(&key);
        }
    });
}

impl Host {
    /// A client was made to wait: it is let go when its time is over.
    pub(crate) fn look_after(&mut self, ctx: Ctx) {
        self.guard.tick_soon(ctx);
    }

    /// Looks after those who wait; keys to be signalled.
    fn tick_guard(&mut self, ctx: Ctx) -> Vec<Bytes> {
        let now = self.now();
        self.guard.queue.expire(now);
        if self.expire_blocked(now) {
            self.guard.tick_soon(ctx);
        }
        self.look_after_leaving(ctx);
        if is_barred(ctx) {
            // Whoever is let in may write.
            self.guard.come_back(ctx);
            return Vec::new();
        }
        self.drain(now);
        self.guard.ticks += 1;
        if self.guard.ticks.is_multiple_of(TICKS_BETWEEN_LOOKS) {
            self.guard.open.look(ctx);
        }
        if let Some(shard) = &mut self.shard
            && !self.guard.queue.is_quiet()
        {
            self.guard.queue.tick(now, shard);
        }
        self.carry_out(ctx, None);
        let shard = self.shard.as_ref();
        let free = self.guard.passed_over.take(|key| shard.is_none_or(|shard| !shard.is_held(key)));
        self.guard.come_back(ctx);
        free
    }
}

// --- what conflicts ---

/// Whether using the whole of a key conflicts with what is held, reservations aside. Reads no key.
pub(crate) fn conflict_of(host: &Host, key: &[u8], access: Access) -> bool {
    let Some(shard) = &host.shard else { return false };
    let Some(kind) = shard.held_as(key) else { return false };
    if host.guard.queue.is_reserved(key) {
        return false;
    }
    let op = match access {
        Access::Read => plain::whole_read(kind),
        // What is brought would go to who sleeps, while somebody relies on the key.
        Access::Write if host.guard.asleep.is_on(key) => return true,
        Access::Write => plain::whole(Access::Write),
    };
    shard.conflicts_with(key, kind_of(&op, kind), &op.footprint())
}

/// Whether an operation is compared as such with what is held: by its own type's table. Otherwise it uses the whole key.
fn is_comparable(host: &Host, key: &[u8], op: &Operation) -> bool {
    let held = host.shard.as_ref().and_then(|shard| shard.held_as(key));
    held.is_none_or(|held| held.name == op.type_info().name)
        && !host.guard.queue.is_reserved(key)
        && (op.method().access == Access::Read || !host.guard.asleep.is_on(key))
}

/// The modes that an operation's claims are in: where it has none of its own, the holder's.
fn kind_of(op: &Operation, held: &'static claret_types::TypeInfo) -> &'static claret_types::TypeInfo {
    if op.type_info().name == "plain" { held } else { op.type_info() }
}

/// A command over more keys asks for those alone that are held: most are not, and each costs.
const ASKED_AT_ONCE: usize = 64;

/// What a command wants of its keys, or, of many, of those that are held: as an operation, where it is one.
fn wants(host: &Host, keys: &[(&[u8], Access)], words: &[Text]) -> Vec<Want> {
    let Some(shard) = &host.shard else { return Vec::new() };
    if keys.len() > ASKED_AT_ONCE {
        return wants_of(keys.iter().copied().filter(|(key, _)| shard.is_held(key)));
    }
    let mut wants = wants_of(keys.iter().copied());
    if let ([want], [_]) = (&mut wants[..], keys)
        && words.get(1).is_some_and(|word| *word.bytes() == *want.key)
    {
        let arguments: Vec<Bytes> = words[2..].iter().map(|word| Bytes::copy_from(word.bytes())).collect();
        let op = plain::operation(words[0].bytes(), &arguments, shard.held_as(&want.key));
        want.op = op.unwrap_or_else(|| plain::whole(want.access));
    }
    wants
}

/// The first key whose use conflicts with what is held, reservations aside. Looks into records: for commands.
fn conflict<'a>(host: &Host, wants: &'a [Want]) -> Option<&'a Bytes> {
    let shard = host.shard.as_ref()?;
    let in_conflict = |want: &&Want| match is_comparable(host, &want.key, &want.op) {
        true => shard.conflicts(&want.key, &want.op),
        // What all of a record is used for does not depend on what is in it, which may be much.
        false => conflict_of(host, &want.key, want.access),
    };
    wants.iter().find(in_conflict).map(|want| &want.key)
}

// --- the filter ---

unsafe extern "C" fn filter(filtered: *mut raw::RedisModuleCommandFilterCtx) {
    if !Ctx::filters_for_client() {
        return;
    }
    // SAFETY: what the server called with, for the time of this call.
    let filtered = unsafe { Filtered::new(filtered) };
    // Nothing unwinds out of the module from here either; where nothing panics that costs nothing.
    let row = match caught(|| glance(&filtered)) {
        Ok(Some(row)) => Ok(row),
        Ok(None) => return,
        Err(said) => Err(said),
    };
    let Some(ctx) = DETACHED.with(|ctx| *ctx) else { return };
    guarded(ctx, "the filter", mend, |ctx| match row {
        Ok(row) => look(ctx, &filtered, row),
        Err(said) => panic!("{said}"),
    });
}

/// What is known of a command that needs a closer look. Every command of every client passes here, so this only reads, and
/// asks what is cheap to know first: mostly nothing is held, and else mostly other keys.
fn glance(filtered: &Filtered) -> Option<Row> {
    let name = filtered.word(0)?;
    // The module itself may be at work further up the stack.
    let found = HOST.with(|host| {
        let shard = host.shard.as_ref()?;
        if !host.guard.is_busy(shard) && !is_never_passed(name) {
            return None;
        }
        let row = GUARD_TABLE.with(|table| table.find(name))??;
        let Keys::Fixed { .. } = row.keys else {
            return (row.keys != Keys::None || row.special != Special::Nothing).then_some(row);
        };
        let is_held = |place| filtered.word(place).is_some_and(|key| shard.is_held(key));
        let is_concerned = row.special != Special::Nothing
            || host.guard.open.is_any()
            || row.places(filtered.len()).any(is_held);
        is_concerned.then_some(row)
    });
    found.flatten()
}

/// Commands that are looked at when nothing is held, too, by the looks of their names: MULTI, blocking pops, ACL, CLUSTER.
fn is_never_passed(name: &[u8]) -> bool {
    matches!(name.first().map(u8::to_ascii_lowercase), Some(b'm' | b'b' | b'a' | b'c'))
        && matches!(name.len(), 3 | 5..=7 | 8 | 10)
}

fn look(ctx: Ctx, filtered: &Filtered, row: Row) {
    let client = filtered.client();
    match row.special {
        Special::Nothing | Special::Pop | Special::Own => look_at_use(ctx, filtered, row, client),
        Special::Multi => {
            HOST.with(|host| {
                host.guard.open.begin(client);
                host.guard.come_back(ctx);
            });
        }
        Special::Exec => look_at_exec(ctx, filtered, client),
        Special::Discard => {
            HOST.with(|host| host.guard.open.end(client));
        }
        Special::Cluster => leaving::look(ctx, filtered, client),
        Special::Rights => {
            let changes = filtered.word(1).is_some_and(|word| {
                [&b"setuser"[..], b"deluser", b"load"].iter().any(|known| word.eq_ignore_ascii_case(known))
            });
            if changes {
                rights_change(ctx);
                HOST.with(|host| host.guard.open.note_rights(client));
            }
        }
    }
}

/// Whether a command is queued for an EXEC, and not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queues {
    Yes,
    No,
    /// Somebody has a MULTI open, and the server does not tell who sent this.
    Perhaps,
}

fn queues(client: Option<u64>) -> Queues {
    let is_open = HOST.with(|host| host.guard.open.is_open(client)) == Some(true);
    match client {
        // What scripts run is never queued.
        _ if !is_open || Ctx::filters_in_script() => Queues::No,
        None => Queues::Perhaps,
        Some(client) if Ctx::has_open_multi(client) => Queues::Yes,
        Some(_) => {
            // The server refused it, or it is over.
            HOST.with(|host| host.guard.open.end(client));
            Queues::No
        }
    }
}

/// Looks at a command that has keys.
fn look_at_use(ctx: Ctx, filtered: &Filtered, row: Row, client: Option<u64>) {
    let queues = queues(client);
    let notes = match (queues, client) {
        (Queues::No, _) => false,
        // What its user may not run is not queued, and its keys are nobody's concern.
        (Queues::Yes, Some(client)) => {
            let user = ctx.user_of(client).and_then(|name| User::named(&name));
            user.is_some_and(|user| user.may_run(&filtered.words().iter().collect::<Vec<_>>()))
        }
        (Queues::Yes | Queues::Perhaps, _) => true,
    };
    let is_in_conflict = in_conflict(filtered, ctx, row, notes.then_some(client));
    // What is queued is looked at again at EXEC, and the server refuses at once what it can never run.
    if queues == Queues::Yes || row.special == Special::Own || !row.fits(filtered.len()) {
        return;
    }
    let waits = match row.special {
        Special::Pop => {
            pops::sleeps_here(ctx, filtered, row) && (is_in_conflict || !Ctx::filters_in_script())
        }
        _ => is_in_conflict,
    };
    if waits {
        put_before(ctx, filtered, client, row.access);
        HOST.with(|host| host.guard.counts.guarded += u64::from(row.special == Special::Nothing));
    }
}

/// Has the module look at a command itself. Its user needs no right to that where the server can be asked who it is.
pub(crate) fn put_before(ctx: Ctx, filtered: &Filtered, client: Option<u64>, access: Access) {
    let name: &[u8] = match (access, admission::will_be_known(ctx, client)) {
        (Access::Read, false) => b"CLARET.READ",
        (Access::Write, false) => b"CLARET.WRITE",
        (Access::Read, true) => b"CLARET.READ-ANY",
        (Access::Write, true) => b"CLARET.WRITE-ANY",
    };
    filtered.insert(0, name);
}

/// Whether any key is used in a way that may conflict with what is held. With `notes` the keys are noted for the EXEC of
/// that client.
fn in_conflict(filtered: &Filtered, ctx: Ctx, row: Row, notes: Option<Option<u64>>) -> bool {
    let words = filtered.len();
    let found = HOST.with(|host| {
        let Some(shard) = &host.shard else { return None };
        let mut held = Vec::new();
        match row.keys {
            Keys::None => {}
            Keys::Fixed { .. } => {
                for place in row.places(words) {
                    let Some(key) = filtered.word(place) else { continue };
                    if let Some(client) = notes {
                        host.guard.open.note(client, key, row.access);
                    }
                    if shard.is_held(key) {
                        held.push((place, row.access));
                    }
                }
            }
            Keys::Asked => {
                for place in ctx.keys_of(&filtered.words()) {
                    let Some(key) = filtered.word(place.at) else { continue };
                    let access = if place.is_read() { Access::Read } else { row.access };
                    if let Some(client) = notes {
                        host.guard.open.note(client, key, access);
                    }
                    if shard.is_held(key) {
                        held.push((place.at, access));
                    }
                }
            }
        }
        let single = row.places(words).take(2).count() == 1;
        Some(held.into_iter().any(|(place, access)| {
            let key = filtered.word(place).unwrap_or_default();
            let op = (single && place == 1).then(|| operation_of(filtered, shard.held_as(key))).flatten();
            match op {
                Some(op) if is_comparable(host, key, &op) => {
                    shard.conflicts_with(key, op.type_info(), &op.footprint())
                }
                _ => conflict_of(host, key, access),
            }
        }))
    });
    found.flatten().unwrap_or(false)
}

fn operation_of(filtered: &Filtered, held: Option<&'static claret_types::TypeInfo>) -> Option<Operation> {
    let arguments: Vec<Bytes> =
        (2..filtered.len()).filter_map(|at| filtered.word(at)).map(Bytes::copy_from).collect();
    plain::operation(filtered.word(0)?, &arguments, held)
}

/// Refuses an EXEC of which a key is held now: a word too many, and the server runs nothing of it.
fn look_at_exec(ctx: Ctx, filtered: &Filtered, client: Option<u64>) {
    if HOST.with(|host| host.guard.open.changes_rights()) == Some(true) {
        rights_change(ctx);
    }
    let held = HOST.with(|host| match host.guard.open.queued(client)? {
        Queued::Anything => host.shard.as_ref().is_some_and(|shard| !shard.is_idle()).then(Vec::new),
        Queued::Keys(used) => {
            // In any order: each is looked at.
            let held = used.iter().filter(|(key, access)| conflict_of(host, key, **access));
            let held: Vec<(Bytes, Access)> = held.map(|(key, access)| (key.clone(), *access)).collect();
            (!held.is_empty()).then_some(held)
        }
    });
    HOST.with(|host| host.guard.open.end(client));
    let Some(Some(held)) = held else { return };
    // Only what its client may know of is a reason.
    let Some((keys, is_sure)) = own_keys(ctx, client, held) else { return };
    HOST.with(|host| {
        host.guard.counts.exec_aborts += 1;
        if is_sure {
            let user = client.and_then(|client| ctx.user_of(client));
            let owner = user.map(|user| Owner { user: Name::new(user.bytes()), client });
            host.reserve(&keys, owner);
        }
        host.guard.come_back(ctx);
    });
    filtered.insert(1, b"a transaction holds a key of this MULTI; nothing was run, try again");
}

/// Which of these keys may be those of the MULTI to which an EXEC belongs, and whether it is known whose it is. `None`:
/// none of them is, or there is no such MULTI, and the server says so.
fn own_keys(
    ctx: Ctx,
    client: Option<u64>,
    keys: Vec<(Bytes, Access)>,
) -> Option<(Vec<(Bytes, Access)>, bool)> {
    if let Some(client) = client {
        return Ctx::has_open_multi(client).then_some((keys, true));
    }
    let Some(clients) = ctx.clients() else { return Some((keys, false)) };
    let open: Vec<_> = clients.into_iter().filter(|client| client.queued.is_some()).collect();
    let senders = open.iter().filter(|client| client.has_words);
    let senders: Vec<Text> = senders.map(|client| Text::new(&client.user)).collect();
    if open.len() == senders.len() && senders.len() < 2 {
        // Its own is over now, and nobody else has one.
        HOST.with(|host| host.guard.open.end_all());
    }
    let users: Vec<User> = senders.iter().filter_map(User::named).collect();
    let is_any = keys.is_empty();
    let may_see = |key: &Bytes| users.iter().any(|user| user.may_see(&Text::new(key)));
    let own: Vec<(Bytes, Access)> = keys.into_iter().filter(|(key, _)| may_see(key)).collect();
    // Where it is not known which keys are held, it is only known that somebody has a MULTI open.
    (!own.is_empty() || is_any && !users.is_empty()).then_some((own, senders.len() == 1))
}

/// The access control lists are going to change before anything else happens.
fn rights_change(ctx: Ctx) {
    admission::rights_changed();
    vanish::note(ctx, Change::Rights);
}

// --- CLARET.READ and CLARET.WRITE ---

/// `CLARET.READ command [argument ...]`, `CLARET.WRITE command [argument ...]`
pub(crate) fn plain(ctx: Ctx, arguments: &[Arg<'_>]) -> Outcome {
    let words = arguments.get(1..).unwrap_or_default();
    let Some(name) = words.first() else { return Err(Error::NoCommand) };
    let row = GUARD_TABLE.with(|table| table.find(name.bytes())).flatten();
    let Some(row) = row.filter(|row| row.waits(words)) else {
        return Err(Error::NotWaiting(name.to_bytes()));
    };
    if ctx.asks_for_keys() {
        let texts: Vec<Text> = words.iter().map(|word| Text::of(*word)).collect();
        // With the uses that the command itself has for them, so its user needs no other rights.
        ctx.keys_of(&texts).into_iter().for_each(|place| ctx.key_at(place, 1));
        return Ok(());
    }
    let own = arguments[0];
    if (own.is("CLARET.READ-ANY") || own.is("CLARET.WRITE-ANY")) && !admission::is_known(ctx) {
        return Err(Error::NoAuth);
    }
    if (own.is("CLARET.READ") || own.is("CLARET.READ-ANY")) && row.access == Access::Write {
        return Err(Error::Writes(name.to_bytes()));
    }
    // The server does not look, and a script within a script ends it.
    if row.no_script && ctx.is(Flag::Lua) {
        return Err(Error::NoScript(name.to_bytes()));
    }
    // EXEC has looked at all of its keys, and nothing came between.
    if ctx.is(Flag::Multi) && !ctx.is(Flag::Lua) && row.special != Special::Cluster {
        ctx.run_for_client(words, false);
        return Ok(());
    }
    // Who may not run it makes nobody wait, and does not learn what is held: the server says so.
    let texts: Vec<Text> = words.iter().map(|word| Text::of(*word)).collect();
    if !admission::Caller::of(ctx).may(&texts) {
        ctx.run_for_client(words, false);
        return Ok(());
    }
    match row.special {
        Special::Pop => return pops::pop(ctx, words),
        Special::Cluster => return leaving::set_slot(ctx, words),
        Special::Nothing
        | Special::Multi
        | Special::Exec
        | Special::Discard
        | Special::Rights
        | Special::Own => {}
    }
    // These two write keys of other databases.
    let is_here = ctx.database() == 0 || name.is("MOVE") || name.is("COPY");
    let keys = if is_here { row.keys(ctx, &texts) } else { Vec::new() };
    let held = HOST.with(|host| {
        let wants = wants(host, &keys, &texts);
        conflict(host, &wants).cloned().map(|key| (key, wants))
    });
    let Some((key, wants)) = held.flatten() else {
        ctx.run_for_client(words, false);
        return Ok(());
    };
    if [Flag::Multi, Flag::Lua, Flag::DenyBlocking].into_iter().any(|flag| ctx.is(flag)) {
        let keys: Vec<(Bytes, Access)> = wants.into_iter().map(|want| (want.key, want.access)).collect();
        HOST.with(|host| {
            host.guard.counts.try_again += 1;
            host.reserve(&keys, Some(Owner::of(ctx)));
            host.carry_out(ctx, None);
        });
        return Err(Error::HeldKey(key));
    }
    let rest = if keys.len() > ASKED_AT_ONCE { &keys[..] } else { &[] };
    wait(ctx, words, wants, rest.iter().map(|(key, access)| (Bytes::copy_from(key), *access)).collect())
}

/// Waits until all keys are granted: those that it asks for at once, and what is held of the rest then.
fn wait(ctx: Ctx, words: &[Arg<'_>], wants: Vec<Want>, rest: Vec<(Bytes, Access)>) -> Outcome {
    let begun = HOST.with(|host| {
        let now = host.now();
        let owner = Some(Owner::of(ctx));
        let number = host.guard.queue.begin(now, host.shard.as_mut()?, wants, rest, owner);
        host.carry_out(ctx, None);
        host.guard.come_back(ctx);
        Some((number, host.guard.queue.stage(number)))
    });
    let Some(Some((number, stage))) = begun else {
        ctx.run_for_client(words, false);
        return Ok(());
    };
    match stage {
        Stage::Waits(_) => {
            let client = ctx.block(Some(answer));
            client.on_disconnect(Some(gone));
            HOST.with(|host| {
                let until = host.now().plus(config::PLAIN_WAIT_MS.get() * 1_000);
                host.guard.queue.wait(number, client, until);
            });
        }
        Stage::Granted | Stage::Refused | Stage::Resolved | Stage::Over => finish(ctx, words, number),
    }
    Ok(())
}

/// Runs what was waited for, if it was granted, and lets everything go.
fn finish(ctx: Ctx, words: &[Arg<'_>], number: u64) {
    let stage = HOST.with(|host| host.guard.queue.stage(number));
    // Clients may have been paused since it was let go, and a write would end the server.
    let is_paused = Ctx::must_not_write() && ctx.blocked_answers();
    if stage == Some(Stage::Granted) && !is_paused {
        // What it uses is its own meanwhile, also where a script uses it.
        HOST.with(|host| host.guard.queue.lend(number));
        ctx.run_for_client(words, false);
        HOST.with(|host| host.guard.queue.take_back(number));
    } else {
        HOST.with(|host| host.guard.counts.try_again += 1);
        let error = match stage {
            Some(Stage::Resolved) => Error::EndedByOperator,
            _ if is_paused => Error::Paused,
            _ => Error::NotFree(config::PLAIN_WAIT_MS.get()),
        };
        ctx.reply_error(&error.line());
    }
    end(ctx, number);
}

/// It may let in others, who write: later, if nothing can be written.
fn end(ctx: Ctx, number: u64) {
    HOST.with(|host| {
        let now = host.now();
        if is_barred(ctx) {
            host.guard.queue.end_later(host.shard.as_mut(), number);
            host.guard.come_back(ctx);
            return;
        }
        host.refuse_late(now);
        if let Some(shard) = &mut host.shard {
            host.guard.queue.end(now, shard, number);
            host.carry_out(ctx, None);
        }
    });
}

/// All keys are granted, or will not be.
unsafe extern "C" fn answer(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: the server's context and arguments, for the time of this call.
    let (ctx, arguments) = unsafe { (Ctx::new(ctx), Ctx::arguments(argv, argc)) };
    let number = ctx.released_with();
    let words = arguments.get(1..).unwrap_or_default();
    if guarded(ctx, "a plain command", mend, |ctx| finish(ctx, words, number)).is_none() {
        ctx.reply_error(&Error::PanickedWaiting.line());
    }
    raw::REDISMODULE_OK as c_int
}

/// The connection closed.
unsafe extern "C" fn gone(ctx: *mut raw::RedisModuleCtx, client: *mut raw::RedisModuleBlockedClient) {
    // SAFETY: the server's context, for the time of this call.
    let ctx = unsafe { Ctx::new(ctx) };
    let client = Blocked::from_raw(client);
    if guarded(ctx, "a plain command", mend, |ctx| leave(ctx, client)) == Some(Left::Waiting) {
        client.release(0);
    }
}

/// The client leaves before its command has run. It may have been let go already.
fn leave(ctx: Ctx, client: Blocked) -> Left {
    let left = HOST.with(|host| {
        host.guard.counts.try_again += 1;
        host.guard.queue.leave(client)
    });
    let Some(Some((number, left))) = left else { return Left::Released };
    end(ctx, number);
    left
}

impl Host {
    /// Queues for keys on behalf of a command that could not wait. Its next try finds them free.
    fn reserve(&mut self, keys: &[(Bytes, Access)], owner: Option<Owner>) {
        let now = self.now();
        let Some(shard) = &mut self.shard else { return };
        let wants: Vec<Want> = keys
            .iter()
            .map(|(key, _)| Want { key: key.clone(), op: plain::whole(Access::Write), access: Access::Write })
            .collect();
        if wants.is_empty()
            || !self.guard.queue.may_reserve()
            || wants.iter().any(|want| self.guard.queue.is_reserved(&want.key))
        {
            return;
        }
        let number = self.guard.queue.begin(now, shard, wants, Vec::new(), owner);
        let ends = now.plus(config::PLAIN_WAIT_MS.get() * 1_000);
        self.guard.queue.reserve(number, config::RESERVATION_MS.get() * 1_000, ends);
    }
}
