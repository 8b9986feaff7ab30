//! What changes behind the shard's back: records that expire, are evicted or flushed (trap 18), and rights that change.
//!
//! It is noted at once and told to the shard before anything else goes into it: the server calls in the midst of its own
//! work, where nothing may be read or written. Until then nobody has seen more of the shard than before.

use std::collections::BTreeSet;
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use claret_core::message::Refusal;
use claret_core::{Shard, Time};
use claret_types::Bytes;
use redis_module::raw;

use crate::ffi::{Arg, Ctx, OnMainThread, Text, api, guarded};
use crate::node::admission::lists_changed;
use crate::node::{HOST, is_barred, mend};

/// Something that the shard has to hear of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Change {
    /// This record is gone.
    Record(Bytes),
    /// All are.
    Everything,
    /// An access control list changes: whatever has not voted is tried again, and asked again.
    Rights,
}

impl Change {
    fn record(self) -> Option<Bytes> {
        match self {
            Change::Record(key) => Some(key),
            Change::Everything | Change::Rights => None,
        }
    }
}

/// What the shard was not told yet. `None` where nothing ever happened.
static NOTED: OnMainThread<BTreeSet<Change>> = OnMainThread::new();

/// Whether a key is looked at for a transaction at this moment. The server deletes it then if its time is over.
static LOOKING: AtomicBool = AtomicBool::new(false);

/// Looks at a key for a transaction.
pub(crate) fn look<R>(open: impl FnOnce() -> R) -> R {
    LOOKING.store(true, Ordering::Relaxed);
    let opened = open();
    LOOKING.store(false, Ordering::Relaxed);
    opened
}

/// Whether the key ended before anybody of those came who hold it when the shard is told: who looks at it just now found it
/// gone, and whoever had held it would have had its end noted.
fn is_found_gone(key: &Bytes) -> bool {
    LOOKING.load(Ordering::Relaxed) && MORTAL.with(|mortal| !mortal.is_ripe(key)) == Some(true)
}

/// Asks to be told.
pub(crate) fn subscribe(ctx: Ctx) -> Result<(), ()> {
    NOTED.set(Some(BTreeSet::new()));
    MORTAL.set(Some(Mortal::default()));
    let kinds = raw::REDISMODULE_NOTIFY_EXPIRED | raw::REDISMODULE_NOTIFY_EVICTED;
    let first_version = |id| raw::RedisModuleEvent { id, dataver: 1 };
    // SAFETY: the functions stay as long as the module.
    unsafe {
        Ctx::accepted(api!(RedisModule_SubscribeToKeyspaceEvents)(ctx.raw(), kinds, Some(key_vanished)))?;
        let (flush, swap) =
            (first_version(raw::REDISMODULE_EVENT_FLUSHDB), first_version(raw::REDISMODULE_EVENT_SWAPDB));
        Ctx::accepted(api!(RedisModule_SubscribeToServerEvent)(ctx.raw(), flush, Some(flushed)))?;
        Ctx::accepted(api!(RedisModule_SubscribeToServerEvent)(ctx.raw(), swap, Some(swapped)))
    }
}

/// Notes a change, and sees that the shard hears of it soon if nothing else happens.
pub(crate) fn note(ctx: Ctx, change: Change) {
    NOTED.with(|noted| noted.insert(change));
    // Where the host is busy it looks for itself before it is done.
    HOST.with(|host| host.come_back(ctx, 0));
}

/// Held keys that are going to expire, by the server's own clock: one that is due is touched before anything else in an
/// entry, so that it does not vanish behind a decision about it.
static MORTAL: OnMainThread<Mortal> = OnMainThread::new();

/// See [`MORTAL`].
#[derive(Default)]
struct Mortal {
    /// With the milliseconds of the day of their ends.
    by_end: BTreeSet<(i64, Bytes)>,
    /// At so many, those are forgotten that nobody holds.
    prune_at: usize,
}

/// Fewer are kept whether they are held or not.
const MORTAL_MIN: usize = 1_024;

/// A key that is about to be decided on expires at this millisecond.
pub(crate) fn note_mortal(key: &Bytes, end: i64) {
    MORTAL.with(|mortal| mortal.by_end.insert((end, key.clone())));
}

impl Mortal {
    /// Whether the key is among those whose time has come.
    fn is_ripe(&self, key: &Bytes) -> bool {
        let later = (Ctx::millis() + 1, Bytes::default());
        self.by_end.range(..later).any(|(_, ripe)| ripe == key)
    }

    /// Takes those whose time has come.
    fn ripe(&mut self, shard: &Shard) -> Vec<Bytes> {
        let is_ripe = |(end, _): &&(i64, Bytes)| *end <= Ctx::millis();
        if self.by_end.first().filter(is_ripe).is_none() && self.by_end.len() <= self.prune_at {
            return Vec::new();
        }
        let later = self.by_end.split_off(&(Ctx::millis() + 1, Bytes::default()));
        let ripe = std::mem::replace(&mut self.by_end, later);
        if self.by_end.len() > self.prune_at {
            self.by_end.retain(|(_, key)| shard.is_held(key));
            self.prune_at = MORTAL_MIN.max(2 * self.by_end.len());
        }
        ripe.into_iter().map(|(_, key)| key).filter(|key| shard.is_held(key)).collect()
    }
}

/// Touches held keys whose time has come. In the very millisecond of its end a key is there still, so it is touched again
/// next time: nothing is rounded up, or it would be gone for a while and nobody would know.
fn touch(shard: &Shard) {
    for key in MORTAL.with(|mortal| mortal.ripe(shard)).unwrap_or_default() {
        if let Some(end) = Ctx::current().open(&Text::new(&key)).and_then(|key| key.expires_at()) {
            note_mortal(&key, end);
        }
    }
}

/// Tells the shard what has changed. Before anything else goes into it, within every entry.
pub(crate) fn tell(now: Time, shard: &mut Shard) {
    touch(shard);
    // It lets others in, who may write. A timer comes back to it, if they may not.
    let is_any = || NOTED.with(|noted| !noted.is_empty()) == Some(true);
    while is_any() && !is_barred(Ctx::current()) {
        let noted = NOTED.with(std::mem::take).unwrap_or_default();
        let have_rights_changed = noted.contains(&Change::Rights);
        // All that is gone, before anybody is let in for any of these reasons.
        let gone: Vec<Bytes> = match noted.contains(&Change::Everything) {
            true => shard.held_keys().cloned().collect(),
            false => noted.into_iter().filter_map(Change::record).collect(),
        };
        shard.gone(now, &gone);
        // Whoever may not change them may try to.
        if have_rights_changed && lists_changed(Ctx::current()) {
            shard.refuse_unvoted(now, &Refusal::LostLocks);
        }
    }
}

unsafe extern "C" fn key_vanished(
    ctx: *mut raw::RedisModuleCtx,
    _: c_int,
    _: *const c_char,
    key: *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the server's context and the key, for the time of this call.
    let (ctx, key) = unsafe { (Ctx::new(ctx), Arg::new(key)) };
    guarded(ctx, "a vanishing key", mend, |ctx| {
        let key = key.to_bytes();
        if ctx.database() == 0 && !is_found_gone(&key) {
            note(ctx, Change::Record(key));
        }
    });
    raw::REDISMODULE_OK as c_int
}

unsafe extern "C" fn flushed(
    ctx: *mut raw::RedisModuleCtx,
    _: raw::RedisModuleEvent,
    _: u64,
    what: *mut c_void,
) {
    // SAFETY: the server's context, and what it says of a flush, for the time of this call.
    let (ctx, database) = unsafe { (Ctx::new(ctx), (*what.cast::<raw::RedisModuleFlushInfo>()).dbnum) };
    // A negative number is all of them.
    if database <= 0 {
        guarded(ctx, "a flush", mend, |ctx| note(ctx, Change::Everything));
    }
}

unsafe extern "C" fn swapped(
    ctx: *mut raw::RedisModuleCtx,
    _: raw::RedisModuleEvent,
    _: u64,
    what: *mut c_void,
) {
    // SAFETY: the server's context, and what it says of a swap, for the time of this call.
    let (ctx, swap) = unsafe { (Ctx::new(ctx), &*what.cast::<raw::RedisModuleSwapDbInfo>()) };
    if swap.dbnum_first == 0 || swap.dbnum_second == 0 {
        guarded(ctx, "a swap of databases", mend, |ctx| note(ctx, Change::Everything));
    }
}
