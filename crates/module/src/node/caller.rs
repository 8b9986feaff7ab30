//! Who calls, and whether an operation may be done for them here: by the rules that `rights` names.

use claret_core::message::Refusal;
use claret_planted::{Bug, is_planted};
use claret_types::{Access, Bytes, KeyspaceOp, Method, Operation};
use smallvec::SmallVec;

use super::settings;
use crate::ffi::{Ctx, Denial, Flag, Kind, Text, User};
use crate::parts::equivalent::{Equivalent, adds};
use crate::parts::error::Error;
use crate::parts::native::{equivalent, side_key};
use crate::parts::owner::Name;

/// Who calls, and how the server is, for the time of one command.
pub(crate) struct Caller {
    pub(super) user: Option<User>,
    pub(super) name: Name,
    pub(super) flags: u32,
    /// May do everything with every key.
    pub(super) is_almighty: bool,
    /// The node itself: the plain command that it asks for is checked by the server when it runs.
    pub(super) is_server: bool,
    /// What one who may do everything was admitted for, whatever the key. Nothing that this depends on changes while a command
    /// runs.
    pub(super) admitted: SmallVec<[&'static Method; ADMITTED_MAX]>,
}

/// So many methods of a caller are kept in mind.
pub(super) const ADMITTED_MAX: usize = 8;

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

    pub(super) fn may_look_at(&self, key: &Bytes) -> bool {
        self.is_almighty || self.user.as_ref().is_some_and(|user| user.may_look_at(&Text::new(key)))
    }

    pub(super) fn may_change(&self, key: &Bytes) -> bool {
        let may = |user: &User| user.may_change(&Text::new(key));
        self.is_server
            || self.is_almighty
            || self.user.as_ref().is_some_and(may)
            || is_planted(Bug::ReadersReserve)
    }

    pub(super) fn admits(&mut self, ctx: Ctx, key: &Bytes, op: &Operation) -> Result<(), Refusal> {
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
