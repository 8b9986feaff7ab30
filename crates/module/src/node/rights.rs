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
use claret_types::{Access, Bytes, OpError, Operation};
use smallvec::SmallVec;

use super::caller::Caller;
use super::keyspace::Keyspace;
use super::settings;
use crate::ffi::{Ctx, Flag, Text, User};
use crate::parts::native::commands;
use crate::parts::owner::Name;
use crate::parts::slots::Slots;
use crate::parts::users::Standing;

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
        let is_almighty = user.as_ref().is_some_and(|user| self.standing(ctx, user, &name).is_almighty);
        let (flags, admitted) = (ctx.flags(), SmallVec::new());
        Caller { user, name: shown, flags, is_almighty, is_server: false, admitted }
    }

    /// Whoever has this name, if it may log in now; nobody, otherwise (E5).
    pub(crate) fn caller_by_letter(&self, ctx: Ctx, name: &Name) -> Caller {
        let caller = self.caller_named(ctx, name);
        match self.is_on(ctx, name) || is_planted(Bug::OffUserActs) {
            true => caller,
            false => Caller { user: None, is_almighty: false, ..caller },
        }
    }

    /// Whether a user of this name may log in here now.
    pub(crate) fn is_on(&self, ctx: Ctx, name: &Name) -> bool {
        let name = Text::new(name.bytes());
        User::named(&name).is_some_and(|user| self.standing(ctx, &user, &name).is_on)
    }

    /// Operations are admitted for this caller now.
    pub(crate) fn enter(&'static self, caller: Caller) -> Calling {
        Calling { keyspace: self, before: self.caller.replace(Some(caller)) }
    }

    /// What a user may do at all.
    fn standing(&self, ctx: Ctx, user: &User, name: &Text) -> Standing {
        let now = Instant::now();
        let seen = self.users.with(|users| users.seen(name.bytes(), now)).flatten();
        if let Some((Some(standing), _)) = seen {
            return standing;
        }
        let about = ctx.call(c"ACL", c"Ev", [&Text::new(b"GETUSER"), name]).items();
        let is = |field: &str, wanted: &str| {
            let pair = about.chunks_exact(2).find(|pair| pair[0].is(field));
            pair.is_some_and(|pair| pair[1].is(wanted))
        };
        let flags = about.chunks_exact(2).find(|pair| pair[0].is("flags")).map(|pair| pair[1].clone());
        let is_on = flags.is_some_and(|flags| flags.list().any(|flag| *flag == *b"on"));
        let standing = Standing { is_almighty: is("commands", "+@all") && is("keys", "~*"), is_on };
        let rights = seen.map_or_else(|| rights_of(ctx, user, name.bytes()), |(_, rights)| rights);
        self.users.with(|users| users.note(name.bytes(), standing, rights, now));
        standing
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
                Some(true)
                    if op.is_command() || op.command().is_some() && !is_planted(Bug::QuestionsUnadmitted) =>
                {
                    self.admits_command(ctx, caller, key, op)
                }
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

/// Commands as steps of a transaction.
impl Keyspace {
    /// Whether a command may be a step on this key, and its caller may send it (A21).
    fn admits_command(&self, ctx: Ctx, caller: &Caller, key: &Bytes, op: &Operation) -> Result<(), Refusal> {
        let Some(command) = op.command() else { return Ok(()) };
        let words: Vec<Text> = command.words().iter().map(|word| Text::new(word)).collect();
        let row = self.row(&command.words()[0]);
        let keys = row.map_or_else(Vec::new, |row| row.keys(&words, |words| ctx.keys_of(words)));
        let keys: Vec<&[u8]> = keys.into_iter().map(|(key, _)| key).collect();
        let may = caller.is_almighty || caller.may(&words) || is_planted(Bug::CommandRightsUnasked);
        if !may {
            let name = command.words()[0].to_string();
            let reason = caller.denied(ctx, &name, key, command.access()).line();
            return Err(Refusal::Denied { key: key.clone(), reason });
        }
        if op.is_command() && op.expects() && !op.is_tried() {
            let error = OpError::Told(
                "ERR a command answers when it is carried out: nothing can be expected of it".into(),
            );
            return Err(Refusal::Operation { key: key.clone(), error: Box::new(error) });
        }
        if let Some(error) = commands::refusal(row, command, key, &keys) {
            return Err(Refusal::Operation { key: key.clone(), error: Box::new(OpError::Told(error)) });
        }
        let writes = command.access() == Access::Write;
        if settings::DRAIN.get() == 1 || writes && caller.is(Flag::ReadOnly) {
            return Err(Refusal::ReadOnly);
        }
        if row.is_some_and(|row| row.adds) && caller.is(Flag::OutOfMemory) && !is_planted(Bug::MemoryIgnored)
        {
            return Err(Refusal::NoMemory { key: key.clone() });
        }
        Ok(())
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
