//! Whether an operation may be done here at all: asked when it arrives, before it queues. What is promised later, with
//! a vote, cannot fail for any of this.
//!
//! The rules are those of the plain command that does the same: the calling user needs the permission for it and for
//! the key (R18), `maxmemory` refuses it if it may add, a server that takes no writes refuses it if it writes. Nothing
//! is remembered from one command to the next but who is almighty.

use std::cell::RefCell;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use claret_core::key_hash;
use claret_core::message::{KeyedCall, Refusal, Request};
use claret_types::{Access, Bytes, Operation};
use hashbrown::HashMap;

use crate::entries::config;
use crate::ffi::{Ctx, Denial, Flag, OnMainThread, Text, User};
use crate::parts::error::Error;
use crate::parts::native::side_key;
use crate::parts::slots;

/// Who calls, and how the server is, for the time of one command.
pub(crate) struct Caller {
    user: Option<User>,
    name: Name,
    flags: u32,
    /// May do everything with every key.
    is_almighty: bool,
    /// The node itself: the plain command that it asks for is checked by the server when it runs.
    is_server: bool,
}

/// What a user is called: any bytes. Two names that look alike are two.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Name(Bytes);

impl Name {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Name(Bytes::copy_from(bytes))
    }

    /// Under which number it is counted what is kept for the user. Two users that have one share what they may have.
    pub(crate) fn account(&self) -> u64 {
        key_hash(&self.0).max(1)
    }
}

/// For people: what is no printable ASCII is escaped.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

/// What was seen of a user.
#[derive(Clone, Copy)]
struct Seen {
    is_almighty: bool,
    /// When that was looked at; `None` once the lists may be others.
    at: Option<Instant>,
    /// What was on the lists of the user before the last change, as a hash.
    rights: u64,
}

/// Users that came lately. Asking for each operation by itself what a user may do costs as much as the operation.
#[derive(Default)]
struct Users {
    seen: HashMap<Bytes, Seen, foldhash::fast::FixedState>,
    /// Whether everybody is let in, and when that was looked at.
    lets_in: Option<(bool, Instant)>,
    /// There were more than [`USERS_MAX`] since the lists changed last: what some of them might do then is forgotten.
    are_more: bool,
}

static USERS: OnMainThread<Users> = OnMainThread::new();

/// Of so many users it is known what they might do. Of more a change of the lists counts as one for all.
const USERS_MAX: usize = 1_024;

/// How long what was seen of a user counts. The filter sees most changes of the lists and forgets it at once
/// ([`rights_changed`]); not one that a paused client sent, which later servers show to the filter when it comes and not
/// when it runs.
const COUNTS_FOR: Duration = Duration::from_secs(1);

/// Whether what was seen then counts still.
fn counts(at: Option<Instant>, now: Instant) -> bool {
    at.is_some_and(|at| now.duration_since(at) < COUNTS_FOR)
}

/// Nobody was seen yet.
pub(crate) fn begin() {
    USERS.set(Some(Users::default()));
}

/// An access control list is about to change.
pub(crate) fn rights_changed() {
    USERS.with(|users| {
        users.lets_in = None;
        // In any order: each by itself.
        users.seen.values_mut().for_each(|seen| seen.at = None);
    });
}

/// Whether any user that came lately may do other things than when that was last asked: of the others nothing is
/// under way. Within a MULTI the change may be yet to come, so there it is one. O(those users, and their rules); at most
/// [`USERS_MAX`] are looked at.
pub(crate) fn lists_changed(ctx: Ctx) -> bool {
    let changed = USERS.with(|users| {
        let mut is_any = std::mem::take(&mut users.are_more);
        // In any order: each by itself.
        users.seen.retain(|name, seen| match User::named(&Text::new(name)) {
            Some(user) => {
                let now = rights_of(ctx, &user, name);
                is_any |= std::mem::replace(&mut seen.rights, now) != now;
                true
            }
            None => {
                is_any = true;
                false
            }
        });
        is_any
    });
    changed != Some(false) || ctx.is(Flag::Multi)
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

/// Whether a user may run every command on every key.
fn is_almighty(ctx: Ctx, user: &User, name: &Text) -> bool {
    let now = Instant::now();
    let seen = USERS.with(|users| users.seen.get(name.bytes()).copied()).flatten();
    if let Some(seen) = seen.filter(|seen| counts(seen.at, now)) {
        return seen.is_almighty;
    }
    let about = ctx.call(c"ACL", c"Ev", [&Text::new(b"GETUSER"), name]).items();
    let is = |field: &str, wanted: &str| {
        let pair = about.chunks_exact(2).find(|pair| pair[0].is(field));
        pair.is_some_and(|pair| pair[1].is(wanted))
    };
    let is_almighty = is("commands", "+@all") && is("keys", "~*");
    let rights = seen.map_or_else(|| rights_of(ctx, user, name.bytes()), |seen| seen.rights);
    USERS.with(|users| {
        if users.seen.len() >= USERS_MAX && !users.seen.contains_key(name.bytes()) {
            users.seen.clear();
            users.are_more = true;
        }
        users.seen.insert(Bytes::copy_from(name.bytes()), Seen { is_almighty, at: Some(now), rights });
    });
    is_almighty
}

/// The user whom everybody is who has not said otherwise.
const DEFAULT_USER: &[u8] = b"default";

/// Whether everybody is let in: then nobody has to say who it is. Asked anew each time.
fn lets_everybody_in(ctx: Ctx) -> bool {
    let words = [&b"GETUSER"[..], DEFAULT_USER].map(Text::new);
    let mut about = ctx.call(c"ACL", c"Ev", &words).items().into_iter();
    let flags = about.by_ref().find(|it| it.is("flags")).and_then(|_| about.next());
    let flags: Vec<Bytes> = flags.map_or_else(Vec::new, |flags| flags.list().collect());
    let has = |flag: &[u8]| flags.iter().any(|known| **known == *flag);
    has(b"on") && has(b"nopass")
}

/// Whether the client of the command that runs has said who it is, or need not. Of the default user with a password the
/// server does not tell, so that is a no.
pub(crate) fn is_known(ctx: Ctx) -> bool {
    let name = ctx.user();
    !name.bytes().is_empty() && (name.bytes() != DEFAULT_USER || lets_everybody_in(ctx))
}

/// The same of a client by its number, where the server tells it. What is seen of the default user counts for a moment:
/// whoever relies on the answer asks again.
pub(crate) fn will_be_known(ctx: Ctx, client: Option<u64>) -> bool {
    let name = client.and_then(|client| ctx.user_of(client));
    if name.is_some_and(|name| name.bytes() != DEFAULT_USER) {
        return true;
    }
    let now = Instant::now();
    let seen = USERS.with(|users| users.lets_in).flatten();
    if let Some((lets_in, _)) = seen.filter(|(_, at)| counts(Some(*at), now)) {
        return lets_in;
    }
    let lets_in = lets_everybody_in(ctx);
    USERS.with(|users| users.lets_in = Some((lets_in, now)));
    lets_in
}

struct CurrentCaller(RefCell<Option<Caller>>);

// SAFETY: of the main thread's, as everything here.
unsafe impl Sync for CurrentCaller {}

static CALLER: CurrentCaller = CurrentCaller(RefCell::new(None));

/// For as long as this lives, operations are admitted for the caller that entered; then for the one before.
pub(crate) struct Calling(Option<Caller>);

impl Caller {
    /// Whoever sent the command that runs.
    pub(crate) fn of(ctx: Ctx) -> Caller {
        Caller::with(ctx, ctx.user())
    }

    /// Whoever has this name now.
    pub(crate) fn named(ctx: Ctx, name: &Name) -> Caller {
        Caller::with(ctx, Text::new(&name.0))
    }

    fn with(ctx: Ctx, name: Text) -> Caller {
        let shown = Name::new(name.bytes());
        let user = User::named(&name);
        let is_almighty = user.as_ref().is_some_and(|user| is_almighty(ctx, user, &name));
        Caller { user, name: shown, flags: ctx.flags(), is_almighty, is_server: false }
    }

    /// The node, on behalf of a plain command.
    pub(crate) fn server() -> Caller {
        Caller { user: None, name: Name(Bytes::default()), flags: 0, is_almighty: false, is_server: true }
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

    pub(crate) fn enter(self) -> Calling {
        Calling(CALLER.0.replace(Some(self)))
    }

    /// Whether the caller may see to the server itself.
    pub(crate) fn is_operator(&self) -> bool {
        let words = [b"CONFIG".as_slice(), b"GET", b"claret.*"].map(Text::new);
        self.user.as_ref().is_some_and(|user| user.may_run(&words.each_ref()))
    }

    /// Whether the caller may run this command.
    pub(crate) fn may(&self, words: &[Text]) -> bool {
        self.user.as_ref().is_some_and(|user| user.may_run(&words.iter().collect::<Vec<_>>()))
    }

    /// What is answered where the caller may not run a command on a key. The denial is put into the server's log, as the server
    /// does with its own.
    pub(crate) fn denied(&self, command: &str, key: &[u8], access: Access) -> Error {
        if let Some(user) = &self.user {
            let (name, text) = (Text::new(command.as_bytes()), Text::new(key));
            let has_key = match access {
                Access::Read => user.may_look_at(&text),
                Access::Write => user.may_look_at(&text) && user.may_change(&text),
            };
            match has_key {
                false => user.log_denial(Ctx::current(), &text, Denial::Key),
                true => user.log_denial(Ctx::current(), &name, Denial::Command),
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

    /// Whether the caller may run a command on a key.
    pub(crate) fn may_run(&self, command: &'static str, key: &[u8]) -> bool {
        if self.is_almighty {
            return true;
        }
        let (command, key) = (Text::new(command.as_bytes()), Text::new(key));
        self.user.as_ref().is_some_and(|user| user.may_run(&[&command, &key]))
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        CALLER.0.replace(self.0.take());
    }
}

/// Claims that a request takes besides those of its operations are for who is going to write: of those that only read a key
/// they keep out nobody. They are taken in advance of what would be waited for anyway, so nothing depends on them.
pub(crate) fn drop_reserves(request: &mut Request) {
    let may_change = |key: &Bytes| {
        let caller = CALLER.0.borrow();
        caller.as_ref().is_some_and(|caller| {
            let may = |user: &User| user.may_change(&Text::new(key));
            caller.is_server || caller.is_almighty || caller.user.as_ref().is_some_and(may)
        })
    };
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

/// Whether an operation may be done on a key, here, now and by the caller.
pub(crate) fn admit(key: &Bytes, op: &Operation) -> Result<(), Refusal> {
    let caller = CALLER.0.borrow();
    let is_server = caller.as_ref().is_some_and(|caller| caller.is_server);
    if !if is_server { slots::has(key) } else { slots::serves(key) } {
        return Err(Refusal::Elsewhere { key: key.clone() });
    }
    let Some(caller) = &*caller else {
        let reason = "nobody asks for it".to_owned();
        return Err(Refusal::Denied { key: key.clone(), reason });
    };
    if is_server {
        return Ok(());
    }
    let (command, beside) = equivalent(op.method().name);
    let is_draining = config::DRAIN.get() == 1;
    if is_draining || (op.method().access == Access::Write && caller.is(Flag::ReadOnly)) {
        return Err(Refusal::ReadOnly);
    }
    if adds(command) && caller.is(Flag::OutOfMemory) {
        return Err(Refusal::NoMemory { key: key.clone() });
    }
    let denied = |command: &str, denied: &[u8]| {
        let reason = caller.denied(command, denied, op.method().access).line();
        Err(Refusal::Denied { key: key.clone(), reason })
    };
    if !caller.may_run(command, key) {
        return denied(command, key);
    }
    if let Some(command) = beside {
        let side = side_key(key);
        if !caller.may_run(command, &side) {
            return denied(command, &side);
        }
    }
    Ok(())
}

/// The plain command that does the same as an operation; and what is done to the key beside it, for a TopK.
fn equivalent(method: &'static str) -> (&'static str, Option<&'static str>) {
    let command = match method {
        "BCREATE" | "BAG.ADD" => "HSET",
        "BINCRBY" | "BINCRBY.RETURNING" | "BDECRBY" | "BDECRBY.RETURNING" => "HINCRBY",
        "BGET" => "HGET",
        "BBOUNDS" | "BAG.COUNT" | "BAG.SUM" | "BAG.MEAN" | "BAG.MIN" | "BAG.MAX" | "BAG.SUMMARY" => "HMGET",
        "TOPK.ADD" => return ("ZADD", Some("SET")),
        "TOPK.MAX" | "TOPK.LIST" => return ("ZRANGE", Some("GET")),
        "TOPK.COUNT" => return ("ZCARD", Some("GET")),
        "UID.NEXT" => "INCR",
        "UID.ISSUED" => "GET",
        plain => plain.strip_suffix(".RETURNING").unwrap_or(plain),
    };
    (command, None)
}

/// Whether a plain command is refused over `maxmemory`.
fn adds(command: &str) -> bool {
    matches!(
        command,
        "SET" | "GETSET" | "APPEND" | "SETNX" | "INCR" | "INCRBY" | "INCRBYFLOAT" | "HSET" | "HINCRBY"
    ) || matches!(command, "SADD" | "ZADD" | "ZINCRBY" | "LPUSH" | "RPUSH")
}

#[cfg(test)]
mod tests {
    use claret_types::{Access, BUILTIN};

    use super::{adds, equivalent};

    #[test]
    fn every_method_has_a_plain_command_of_its_own_kind() {
        let reads = [
            "GET",
            "STRLEN",
            "HGET",
            "HMGET",
            "HEXISTS",
            "HLEN",
            "HKEYS",
            "HGETALL",
            "SISMEMBER",
            "SCARD",
            "SMEMBERS",
            "ZSCORE",
            "ZCARD",
            "ZRANGE",
            "ZRANGEBYSCORE",
            "ZCOUNT",
            "ZRANK",
            "LLEN",
            "LRANGE",
            "LINDEX",
        ];
        let takes = ["DEL", "HDEL", "SREM", "ZREM", "LPOP", "RPOP", "DECR", "DECRBY"];
        for method in BUILTIN.iter().flat_map(|kind| kind.methods) {
            let (command, _) = equivalent(method.name);
            match method.access {
                Access::Read => assert!(reads.contains(&command), "{} reads with {command}", method.name),
                Access::Write => {
                    assert!(
                        adds(command) || takes.contains(&command),
                        "{} writes with {command}",
                        method.name
                    );
                }
            }
        }
    }
}
