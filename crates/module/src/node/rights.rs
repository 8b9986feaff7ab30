//! Who calls, and whether an operation may be done here at all. This is checked when the operation arrives, before it
//! queues. So a later promise, a vote, cannot fail for any of these reasons.
//!
//! The rules are those of the plain command that does the same: the calling user needs the permission for it and for
//! the key (P35), `maxmemory` refuses it if it may add, a server that accepts no writes refuses it if it writes. Only
//! one thing is remembered from one command to the next: which users may do everything.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Instant;

use claret_core::message::{KeyedCall, Refusal, Request};
use claret_planted::{Bug, is_planted};
use claret_types::{Access, Bytes, KeyspaceOp, Method, OpError, Operation};
use smallvec::SmallVec;

use super::keyspace::Keyspace;
use super::settings;
use crate::ffi::{Ctx, Denial, Flag, Kind, Text, User};
use crate::parts::equivalent::{Equivalent, adds};
use crate::parts::error::Error;
use crate::parts::native::{equivalent, side_key};
use crate::parts::owner::Name;
use crate::parts::slots::Slots;

/// Who calls, and how the server is, for the time of one command.
pub(crate) struct Caller {
    user: Option<User>,
    name: Name,
    flags: u32,
    /// May do everything with every key.
    is_almighty: bool,
    /// The node itself: the plain command that it asks for is checked by the server when it runs.
    is_server: bool,
    /// What one who may do everything was admitted for, whatever the key. Nothing that this depends on changes while a command
    /// runs.
    admitted: SmallVec<[&'static Method; ADMITTED_MAX]>,
}

/// So many methods of a caller are kept in mind.
const ADMITTED_MAX: usize = 8;

/// For as long as this lives, operations are admitted for the caller that entered; then for the one before.
pub(crate) struct Calling {
    keyspace: &'static Keyspace,
    before: Option<Caller>,
}

impl Drop for Calling {
    fn drop(&mut self) {
        self.keyspace.caller.replace(self.before.take());
    }
}

/// The user whom everybody is who has not said otherwise.
const DEFAULT_USER: &[u8] = b"default";

impl Keyspace {
    /// Whoever sent the command that runs.
    pub(crate) fn caller(&self, ctx: Ctx) -> Caller {
        self.caller_with(ctx, ctx.user())
    }

    /// Whoever has this name now.
    pub(crate) fn caller_named(&self, ctx: Ctx, name: &Name) -> Caller {
        self.caller_with(ctx, Text::new(name.bytes()))
    }

    fn caller_with(&self, ctx: Ctx, name: Text) -> Caller {
        let shown = Name::new(name.bytes());
        let user = User::named(&name);
        let is_almighty = user.as_ref().is_some_and(|user| self.is_almighty(ctx, user, &name));
        let (flags, admitted) = (ctx.flags(), SmallVec::new());
        Caller { user, name: shown, flags, is_almighty, is_server: false, admitted }
    }

    /// Operations are admitted for this caller now.
    pub(crate) fn enter(&'static self, caller: Caller) -> Calling {
        Calling { keyspace: self, before: self.caller.replace(Some(caller)) }
    }

    /// Whether a user may run every command on every key.
    fn is_almighty(&self, ctx: Ctx, user: &User, name: &Text) -> bool {
        let now = Instant::now();
        let seen = self.users.with(|users| users.seen(name.bytes(), now)).flatten();
        if let Some((Some(is_almighty), _)) = seen {
            return is_almighty;
        }
        let about = ctx.call(c"ACL", c"Ev", [&Text::new(b"GETUSER"), name]).items();
        let is = |field: &str, wanted: &str| {
            let pair = about.chunks_exact(2).find(|pair| pair[0].is(field));
            pair.is_some_and(|pair| pair[1].is(wanted))
        };
        let is_almighty = is("commands", "+@all") && is("keys", "~*");
        let rights = seen.map_or_else(|| rights_of(ctx, user, name.bytes()), |(_, rights)| rights);
        self.users.with(|users| users.note(name.bytes(), is_almighty, rights, now));
        is_almighty
    }

    /// An access control list is about to change.
    pub(crate) fn rights_change(&self) {
        self.users.with(|users| users.forget());
    }

    /// Whether any user that came lately may do other things than when that was last asked. Within a MULTI the change may be
    /// yet to come, so there it is one. O(those users, and their rules).
    pub(super) fn have_rights_changed(&self, ctx: Ctx) -> bool {
        let rights_of = |name: &[u8]| Some(rights_of(ctx, &User::named(&Text::new(name))?, name));
        self.users.with(|users| users.have_changed(rights_of)) != Some(false) || ctx.is(Flag::Multi)
    }

    /// Whether the client of the command that runs has said who it is, or need not. Of the default user with a password the
    /// server does not tell, so that is a no.
    pub(crate) fn is_known(&self, ctx: Ctx) -> bool {
        let name = ctx.user();
        let is_known = !name.bytes().is_empty() && (name.bytes() != DEFAULT_USER || lets_everybody_in(ctx));
        is_known || is_planted(Bug::StrangersKnown)
    }

    /// The same of a client by its number, where the server tells it. What is seen of the default user counts for a moment:
    /// whoever relies on the answer asks again.
    pub(crate) fn will_be_known(&self, ctx: Ctx, client: Option<u64>) -> bool {
        let name = client.and_then(|client| ctx.user_of(client));
        if name.is_some_and(|name| name.bytes() != DEFAULT_USER) {
            return true;
        }
        let now = Instant::now();
        if let Some(lets_in) = self.users.with(|users| users.lets_in(now)).flatten() {
            return lets_in;
        }
        let lets_in = lets_everybody_in(ctx);
        self.users.with(|users| users.note_lets_in(lets_in, now));
        lets_in
    }

    /// Claims that a request takes besides those of its operations are for who is going to write: of those that only read a
    /// key they keep out nobody. They are taken in advance of what would be waited for anyway, so nothing depends on them.
    pub(super) fn drop_reserves(&self, request: &mut Request) {
        let may_change = |key: &Bytes| self.caller.with(|caller| caller.may_change(key)).unwrap_or(false);
        match request {
            Request::Execute { key, calls, .. }
                if calls.iter().any(|call| call.reserve.is_some()) && !may_change(key) =>
            {
                calls.iter_mut().for_each(|call| call.reserve = None);
            }
            Request::Prepare { calls, .. } => {
                for KeyedCall { key, call } in calls.iter_mut().filter(|keyed| keyed.call.reserve.is_some()) {
                    if !may_change(key) {
                        call.reserve = None;
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether the node's schema has such an operation on a key. A plain command that is carried out as one is no transaction's.
    #[inline]
    pub(super) fn fits_schema(&self, key: &Bytes, op: &Operation) -> Result<(), OpError> {
        match settings::SCHEMA.check(key, op) {
            Err(_) if self.caller.with(|caller| caller.is_server) == Some(true) => Ok(()),
            fits => fits,
        }
    }

    /// Whether an operation may be done on a key, here, now and by the caller that entered.
    pub(super) fn admits(&self, ctx: Ctx, key: &Bytes, op: &Operation) -> Result<(), Refusal> {
        let admitted = self.caller.with(|caller| {
            let is_here = |slots: &Slots| match caller.is_server {
                true => slots.has_key(key),
                false => slots.serves(key),
            };
            match self.view(is_here) {
                Some(true) if caller.is_server => Ok(()),
                Some(true) => caller.admits(ctx, key, op),
                Some(false) | None => Err(Refusal::Elsewhere { key: key.clone() }),
            }
        });
        admitted.unwrap_or_else(|| match self.serves(key) {
            true => Err(Refusal::Denied { key: key.clone(), reason: "nobody asks for it".to_owned() }),
            false => Err(Refusal::Elsewhere { key: key.clone() }),
        })
    }
}

/// All that a user may do, as a hash.
fn rights_of(ctx: Ctx, user: &User, name: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    match user.rules() {
        Some(rules) => rules.bytes().hash(&mut hasher),
        // The first servers of version 7.0 tell it with a command only.
        None => {
            let about = ctx.call(c"ACL", c"Ev", &[Text::new(b"GETUSER"), Text::new(name)]);
            format!("{about:?}").hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// Whether everybody is let in: then nobody has to say who it is. Asked anew each time.
fn lets_everybody_in(ctx: Ctx) -> bool {
    let words = [&b"GETUSER"[..], DEFAULT_USER].map(Text::new);
    let mut about = ctx.call(c"ACL", c"Ev", &words).items().into_iter();
    let flags = about.by_ref().find(|it| it.is("flags")).and_then(|_| about.next());
    let flags: Vec<Bytes> = flags.map_or_else(Vec::new, |flags| flags.list().collect());
    let has = |flag: &[u8]| flags.iter().any(|known| **known == *flag);
    has(b"on") && has(b"nopass")
}

impl Caller {
    /// The node, on behalf of a plain command.
    pub(crate) fn server() -> Caller {
        let (name, admitted) = (Name::new(b""), SmallVec::new());
        Caller { user: None, name, flags: 0, is_almighty: false, is_server: true, admitted }
    }

    pub(crate) fn name(&self) -> &Name {
        &self.name
    }

    pub(crate) fn is(&self, flag: Flag) -> bool {
        self.flags & flag as u32 != 0
    }

    pub(crate) fn may_subscribe(&self, channel: &[u8]) -> bool {
        self.user.as_ref().is_some_and(|user| user.may_subscribe(&Text::new(channel)))
    }

    /// Whether the caller may see to the server itself.
    pub(crate) fn is_operator(&self) -> bool {
        let words = [b"CONFIG".as_slice(), b"GET", b"claret.*"].map(Text::new);
        self.user.as_ref().is_some_and(|user| user.may_run(&words.each_ref()))
            || is_planted(Bug::AnybodyOperates)
    }

    /// Whether the caller may run this command.
    pub(crate) fn may(&self, words: &[Text]) -> bool {
        self.user.as_ref().is_some_and(|user| user.may_run(&words.iter().collect::<Vec<_>>()))
    }

    /// Whether the caller may run a command on a key.
    pub(crate) fn may_run(&self, command: &'static str, key: &[u8]) -> bool {
        if self.is_almighty {
            return true;
        }
        let (command, key) = (Text::new(command.as_bytes()), Text::new(key));
        self.user.as_ref().is_some_and(|user| user.may_run(&[&command, &key]))
    }

    fn may_look_at(&self, key: &Bytes) -> bool {
        self.is_almighty || self.user.as_ref().is_some_and(|user| user.may_look_at(&Text::new(key)))
    }

    fn may_change(&self, key: &Bytes) -> bool {
        let may = |user: &User| user.may_change(&Text::new(key));
        self.is_server
            || self.is_almighty
            || self.user.as_ref().is_some_and(may)
            || is_planted(Bug::ReadersReserve)
    }

    fn admits(&mut self, ctx: Ctx, key: &Bytes, op: &Operation) -> Result<(), Refusal> {
        let (method, is_draining) = (op.method(), settings::DRAIN.get() == 1);
        if !is_draining && self.admitted.iter().any(|admitted| std::ptr::eq(*admitted, method)) {
            return Ok(());
        }
        let Equivalent { command, also, beside } = match op.keyspace() {
            // What is put is what counts.
            Some(KeyspaceOp::Put(content)) if content.is_string() => Equivalent::of("SET"),
            _ => equivalent(op.type_info(), method.name),
        };
        if is_draining || (op.method().access == Access::Write && self.is(Flag::ReadOnly)) {
            return Err(Refusal::ReadOnly);
        }
        if adds(command) && self.is(Flag::OutOfMemory) && !is_planted(Bug::MemoryIgnored) {
            return Err(Refusal::NoMemory { key: key.clone() });
        }
        let denied = |command: &str, denied: &[u8]| {
            let reason = self.denied(ctx, command, denied, op.method().access).line();
            Err(Refusal::Denied { key: key.clone(), reason })
        };
        for command in std::iter::once(command).chain(also) {
            // Who watches a key has to be allowed to look at it, by whatever command.
            let may = if op.asks_version() { self.may_look_at(key) } else { self.may_run(command, key) };
            if !(may || is_planted(Bug::RightsUnasked)) {
                return denied(command, key);
            }
        }
        let beside = beside.or_else(|| beside_content(ctx, key, op));
        if let Some(command) = beside.filter(|_| !is_planted(Bug::SideRightUnasked)) {
            let side = side_key(key);
            if !self.may_run(command, &side) {
                return denied(command, &side);
            }
        }
        // What is put may be of any type.
        if self.is_almighty && op.keyspace().is_none() && self.admitted.len() < ADMITTED_MAX {
            self.admitted.push(method);
        }
        Ok(())
    }

    /// What is answered where the caller may not run a command on a key. The denial is put into the server's log, as the
    /// server does with its own.
    pub(crate) fn denied(&self, ctx: Ctx, command: &str, key: &[u8], access: Access) -> Error {
        if let Some(user) = self.user.as_ref().filter(|_| !is_planted(Bug::DenialUnlogged)) {
            let (name, text) = (Text::new(command.as_bytes()), Text::new(key));
            let has_key = match access {
                Access::Read => user.may_look_at(&text),
                Access::Write => user.may_look_at(&text) && user.may_change(&text),
            };
            match has_key {
                false => user.log_denial(ctx, &text, Denial::Key),
                true => user.log_denial(ctx, &name, Denial::Command),
            }
        }
        Error::Denied { user: self.name.clone(), command: command.to_owned(), key: Bytes::copy_from(key) }
    }

    /// Puts another denial into the server's log.
    pub(crate) fn log_denial(&self, ctx: Ctx, object: &[u8], denial: Denial) {
        if let Some(user) = &self.user {
            user.log_denial(ctx, &Text::new(object), denial);
        }
    }
}

/// What is done to the key beside a record that is read or put as a whole, if it is a TopK.
fn beside_content(ctx: Ctx, key: &Bytes, op: &Operation) -> Option<&'static str> {
    match op.keyspace()? {
        KeyspaceOp::Put(content) => content.is_topk().then_some("SET"),
        KeyspaceOp::Content | KeyspaceOp::Digest => {
            let is_zset = ctx.open(&Text::new(key)).is_some_and(|key| key.kind() == Kind::Zset);
            let has_beside = || ctx.open(&Text::new(&side_key(key))).is_some();
            (is_zset && has_beside()).then_some("GET")
        }
        _ => None,
    }
}
