//! Pops that sleep in the server itself.
//!
//! The server serves them at the end of whatever command brings something, without a look at the guard. While no
//! session and no transaction ever came to this node that is as it should be, and nothing of them is touched: they are
//! noted in passing. From the first one on, pops sleep in the module ([`crate::entries::pops`]), and those that slept before stay where they are
//! as long as that is safe:
//!
//! - Only one transaction at a time has a key on which one may sleep. A plain command that writes such a key waits until
//!   it is over, so nothing comes to a sleeper while anybody relies on the key; what the transaction itself brings comes
//!   when it has let go.
//! - Should a second transaction come to such a key, or any to a key to which a sleeper would move something, all that
//!   sleep in the server are told that their time is over, before it gets anything. Once in the life of a server.

use claret_core::TxId;
use claret_core::message::Request;
use claret_types::Bytes;
use hashbrown::HashMap;

use crate::ffi::{Ctx, Flag, Listed, Text};
use crate::node::Host;

/// More keys than these are not told apart.
const KEYS_MAX: usize = 16_384;

/// See the module's text.
#[derive(Default)]
pub(crate) struct Asleep {
    /// A session or a transaction has come to this node.
    is_used: bool,
    /// On any key.
    is_anywhere: bool,
    /// Counts entries: what two transactions do in one of them comes to a sleeper only at its end.
    entry: u64,
    /// Something was carried out to which the server may not have woken sleepers yet.
    is_stirred: bool,
    keys: HashMap<Bytes, Key, foldhash::fast::FixedState>,
}

/// A key on which some may sleep.
#[derive(Clone, Copy, Default)]
struct Key {
    /// Something may be moved to it.
    is_target: bool,
    /// The transaction that came to it last, and in which entry.
    last: Option<(TxId, u64)>,
}

impl Asleep {
    pub(crate) fn come(&mut self) {
        self.is_used = true;
    }

    pub(crate) fn is_used(&self) -> bool {
        self.is_used
    }

    /// Whether a pop may sleep on this key in the server.
    pub(crate) fn is_on(&self, key: &[u8]) -> bool {
        self.is_anywhere || (!self.keys.is_empty() && self.keys.contains_key(key))
    }

    pub(crate) fn is_any(&self) -> bool {
        self.is_anywhere || !self.keys.is_empty()
    }

    /// A pop is going to sleep in the server.
    pub(crate) fn note(&mut self, key: &[u8], is_target: bool) {
        if self.keys.len() >= KEYS_MAX {
            self.is_anywhere = true;
            self.keys.clear();
        }
        if !self.is_anywhere {
            self.keys.entry(Bytes::copy_from(key)).or_default().is_target |= is_target;
        }
    }

    /// Nobody has looked until now.
    pub(crate) fn begin_to_look(&mut self, ctx: Ctx) {
        *self = Asleep { is_used: self.is_used, ..Asleep::default() };
        self.is_anywhere = ctx.clients().is_none_or(|clients| clients.iter().any(sleeps));
    }

    /// Something is carried out that no client's command asked for.
    pub(crate) fn stir(&mut self) {
        self.is_stirred |= self.is_any();
    }

    /// A transaction comes to a key. Whether it may not while pops sleep in the server.
    fn comes(&mut self, key: &Bytes, tx: TxId, is_held: bool) -> bool {
        self.is_used = true;
        if self.is_anywhere {
            return true;
        }
        let (entry, is_stirred) = (self.entry, self.is_stirred);
        let Some(known) = self.keys.get_mut(key) else { return false };
        let other = known.last.replace((tx, entry)).filter(|(last, _)| *last != tx);
        known.is_target || other.is_some_and(|(_, at)| is_held || is_stirred || at == entry)
    }
}

impl Host {
    /// Transactions come to keys with a frame.
    pub(crate) fn come_with(&mut self, ctx: Ctx, requests: &[Request]) {
        if !self.guard.minds_who_comes() {
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
    pub(crate) fn come<'a>(&mut self, ctx: Ctx, mut keys: impl Iterator<Item = (&'a Bytes, TxId)>) {
        if !self.guard.minds_who_comes() {
            return;
        }
        let asleep = &mut self.guard.asleep;
        // The server looks after sleepers when a command is over, and all of an EXEC is one.
        if !ctx.is(Flag::Multi) {
            asleep.entry += 1;
        }
        let shard = self.shard.as_ref();
        let is_held = |key: &Bytes| shard.is_some_and(|shard| shard.is_held(key));
        if keys.any(|(key, tx)| asleep.comes(key, tx, is_held(key))) {
            wake_all(ctx);
            *asleep = Asleep { is_used: true, ..Asleep::default() };
        }
        asleep.is_stirred &= ctx.is(Flag::Multi);
    }
}

/// The time of all who sleep in the server is over. O(clients), once in the life of a server.
fn wake_all(ctx: Ctx) {
    for client in ctx.clients().unwrap_or_default().iter().filter(|client| sleeps(client)) {
        let number = client.id.to_string();
        ctx.call(c"CLIENT", c"Ev", &[Text::new(b"UNBLOCK"), Text::new(number.as_bytes())]);
    }
}

/// Whether it is a pop that sleeps in the server.
fn sleeps(client: &Listed) -> bool {
    let pops = ["blpop", "brpop", "blmove", "brpoplpush", "blmpop", "bzpopmin", "bzpopmax", "bzmpop"];
    client.is_blocked && pops.contains(&client.command.as_str())
}
