//! `CLARET.HELLO` and `CLARET.FRAME`: a client process speaks to the shard.

use claret_core::message::Link;
use claret_core::{SessionId, wire};

use crate::admission::Caller;
use crate::commands::Outcome;
use crate::config;
use crate::ffi::{Arg, Ctx, Flag};
use crate::guard::OWN;
use crate::host::{HOST, not_ready};
use crate::sessions::Way;
use crate::slots;

/// `CLARET.HELLO wire-version session connection [PUSH channel | POLL]`
pub(crate) fn hello(ctx: Ctx, arguments: &[Arg<'_>]) -> Outcome {
    let [_, version, session, connection, way @ ..] = arguments else { return Err(syntax()) };
    let version: u16 = version.number().ok_or_else(syntax)?;
    if version != wire::VERSION {
        let own = wire::VERSION;
        return Err(format!(
            "WIREVERSION this module speaks version {own} and you speak {version}; use matching ones"
        ));
    }
    let session = SessionId(session.number().ok_or_else(syntax)?);
    if session == OWN {
        return Err("ERR session 0 is the node's own; draw one at random".to_owned());
    }
    let link = Link { session, connection: connection.number().ok_or_else(syntax)? };
    let caller = Caller::of(ctx);
    let way = match way {
        [] => None,
        [word] if word.is("POLL") => Some(Way::Poll),
        [word, channel] if word.is("PUSH") => Some(push_to(ctx, &caller, *channel)?),
        _ => return Err(syntax()),
    };
    if caller.is(Flag::Multi) {
        return Err("ERR CLARET.HELLO cannot be part of MULTI".to_owned());
    }
    let pushes = matches!(way, Some(Way::Push(_)));
    let greeting = HOST.with(|host| {
        if host.shard.is_none() {
            host.look_around(ctx);
        }
        let shard = host.shard.as_ref().ok_or_else(not_ready)?;
        let greeting = (shard.id(), shard.incarnation());
        host.sessions.hello(ctx.client(), link, caller.name(), way)?;
        Ok(greeting)
    });
    let (shard, incarnation) = greeting.unwrap_or_else(|| Err(not_ready()))?;
    ctx.reply_array(14);
    let text = |name: &str, value: &str| {
        ctx.reply_bytes(name.as_bytes());
        ctx.reply_bytes(value.as_bytes());
    };
    text("server", &ctx.server_version());
    text("module", env!("CARGO_PKG_VERSION"));
    let number = |name: &str, value: u64| {
        ctx.reply_bytes(name.as_bytes());
        ctx.reply_int(value as i64);
    };
    number("wire", u64::from(wire::VERSION));
    number("shard", u64::from(shard.0));
    number("incarnation", incarnation.0);
    number("lease_us", config::LEASE_MS.get() * 1_000);
    number("push", u64::from(pushes));
    Ok(())
}

/// A channel reaches the subscriber only if its slot is served here. It must be one of the user's own, and one that the
/// user may hear.
fn push_to(ctx: Ctx, caller: &Caller, channel: Arg<'_>) -> Result<Way, String> {
    let (name, user) = (channel.to_bytes(), caller.name());
    let own = own_channels(ctx.user().bytes());
    if !name.starts_with(own.as_bytes()) {
        return Err(format!(
            "NOPERM user '{user}' is told of grants on channels whose names begin with '{own}', and '{name}' does not"
        ));
    }
    if !caller.may_subscribe(&name) {
        return Err(format!("NOPERM user '{user}' may not hear channel '{name}'; it needs '&{own}*'"));
    }
    if !slots::serves(&name) {
        return Err(format!(
            "ERR channel '{name}' is of a slot that this node does not serve; choose another name"
        ));
    }
    Ok(Way::Push(name.to_vec()))
}

/// How the names of a user's channels begin. Of the user's name letters, digits and `-._~` stand for themselves, and any
/// other byte is written as in URLs: the beginning of one user's is that of no other's, it holds no hash tag, and it is
/// a pattern of the access control lists that stands for itself.
fn own_channels(user: &[u8]) -> String {
    let mut own = String::from("claret:");
    for byte in user {
        match byte {
            b'-' | b'.' | b'_' | b'~' => own.push(char::from(*byte)),
            _ if byte.is_ascii_alphanumeric() => own.push(char::from(*byte)),
            _ => own.push_str(&format!("%{byte:02X}")),
        }
    }
    own.push(':');
    own
}

/// `CLARET.FRAME requests`
pub(crate) fn frame(ctx: Ctx, arguments: &[Arg<'_>]) -> Outcome {
    let [_, bytes] = arguments else { return Err("ERR CLARET.FRAME takes one argument".to_owned()) };
    let bytes = bytes.bytes();
    let limit = config::FRAME_BYTES_MAX.get();
    if bytes.len() as u64 > limit {
        let size = bytes.len();
        return Err(format!(
            "ERR a frame of {size} bytes is over claret.frame-bytes-max, {limit}; divide it"
        ));
    }
    let caller = Caller::of(ctx);
    if caller.is(Flag::Multi) {
        return Err("ERR CLARET.FRAME cannot be part of MULTI".to_owned());
    }
    let requests =
        wire::decode_requests(bytes, &crate::host::limits()).map_err(|error| format!("ERR {error}"))?;
    slots::may_write(ctx)?;
    let client = ctx.client();
    let reply = HOST.with(|host| {
        let link = host.sessions.link(client, caller.name())?;
        let _calling = caller.enter();
        host.counts.frame_bytes += bytes.len() as u64;
        host.frame(ctx, link, requests)
    });
    let reply = reply.unwrap_or_else(|| Err(not_ready()))?;
    ctx.reply_bytes(&wire::encode_responses(&reply));
    Ok(())
}

fn syntax() -> String {
    "ERR usage: CLARET.HELLO wire-version session connection [PUSH channel | POLL]".to_owned()
}
