//! `CLARET.HELLO` and `CLARET.FRAME`: how a client process speaks to the shard.

use claret_core::wire;
use claret_identity::{PublicKey, Signature};
use claret_planted::{Bug, is_planted};

use super::{keyspace, with_node};
use crate::ffi::{Arg, Ctx, Denial, Flag};
use crate::node::caller::Caller;
use crate::node::{Hello, Welcome, limits, settings};
use crate::parts::error::{Error, Outcome};
use crate::parts::sessions::{Handshake, Way};

/// `CLARET.HELLO wire-version public-key connection [PUSH channel | POLL | LISTEN] [PROOF signature]`
///
/// Without a proof it answers with what is to be signed.
pub(super) fn hello(ctx: Ctx, arguments: &[Arg<'_>]) -> Outcome {
    let [_, version, key, connection, rest @ ..] = arguments else { return Err(SYNTAX) };
    let version: u16 = version.number().ok_or(SYNTAX)?;
    if version != wire::VERSION {
        return Err(Error::WireVersion { theirs: version });
    }
    let key = PublicKey::parse(key.bytes()).ok_or(SYNTAX)?;
    let connection: u32 = connection.number().ok_or(SYNTAX)?;
    let (way, proof) = match rest {
        [way @ .., word, signature] if word.is("PROOF") => {
            (way, Some(Signature::parse(signature.bytes()).ok_or(SYNTAX)?))
        }
        way => (way, None),
    };
    let words: Vec<&[u8]> = way.iter().map(|word| word.bytes()).collect();
    let caller = keyspace().caller(ctx);
    let way = match way {
        [] => Some(Way::Waits),
        [word] if word.is("POLL") => Some(Way::Poll),
        [word] if word.is("LISTEN") => None,
        [word, channel] if word.is("PUSH") => Some(push_to(ctx, &caller, *channel)?),
        _ => return Err(SYNTAX),
    };
    if caller.is(Flag::Multi) {
        return Err(Error::InMulti("CLARET.HELLO"));
    }
    let handshake = Handshake { client: ctx.client(), user: caller.name(), key, connection, words: &words };
    let welcome = with_node(|node| node.hello(ctx, &caller, Hello { handshake, way, proof }));
    reply(ctx, welcome.unwrap_or(Err(Error::NotReady))?);
    Ok(())
}

/// Names and values in turn.
fn reply(ctx: Ctx, welcome: Welcome) {
    let text = |name: &str, value: &str| {
        ctx.reply_bytes(name.as_bytes());
        ctx.reply_bytes(value.as_bytes());
    };
    let number = |name: &str, value: u64| {
        ctx.reply_bytes(name.as_bytes());
        ctx.reply_int(value as i64);
    };
    match welcome {
        Welcome::Prove { shard, challenge } => {
            ctx.reply_array(6);
            number("wire", u64::from(wire::VERSION));
            number("shard", u64::from(shard.0));
            text("challenge", &challenge.to_string());
        }
        Welcome::In { shard, bears, incarnation, pushes } => {
            ctx.reply_array(20);
            text("server", &ctx.server_version());
            text("module", env!("CARGO_PKG_VERSION"));
            number("wire", u64::from(wire::VERSION));
            number("shard", u64::from(shard.0));
            number("incarnation", incarnation.0);
            number("lease_us", settings::LEASE_MS.get() * 1_000);
            number("push", u64::from(pushes));
            number("bears", u64::from(bears.0));
            text("durability", if settings::is_strict() { "strict" } else { "async" });
            text("schema", &settings::SCHEMA.digest().to_string());
        }
    }
}

/// A channel reaches the subscriber only if its slot is served here. It must be one of the user's own, and one that the
/// user may hear.
fn push_to(ctx: Ctx, caller: &Caller, channel: Arg<'_>) -> Result<Way, Error> {
    let (channel, user) = (channel.to_bytes(), caller.name());
    let own = own_channels(ctx.user().bytes());
    if !(channel.starts_with(own.as_bytes()) || is_planted(Bug::ChannelsOfOthers)) {
        return Err(Error::OthersChannel { user: user.clone(), own, channel });
    }
    if !caller.may_subscribe(&channel) {
        caller.log_denial(ctx, &channel, Denial::Channel);
        return Err(Error::DeafToChannel { user: user.clone(), own, channel });
    }
    if !keyspace().serves(&channel) {
        // Its slot may have come since the node looked last.
        with_node(|node| node.look_around(ctx));
    }
    if !keyspace().serves(&channel) {
        return Err(Error::ChannelElsewhere(channel));
    }
    Ok(Way::Push(channel.to_vec()))
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

/// Records are those of the first database alone.
pub(super) fn in_first_database(ctx: Ctx) -> Outcome {
    match if is_planted(Bug::AnyDatabaseTaken) { 0 } else { ctx.database() } {
        0 => Ok(()),
        other => Err(Error::OtherDatabase(other)),
    }
}

/// `CLARET.FRAME requests`
pub(super) fn frame(ctx: Ctx, arguments: &[Arg<'_>]) -> Outcome {
    let [_, bytes] = arguments else { return Err(Error::FrameWords) };
    in_first_database(ctx)?;
    let bytes = bytes.bytes();
    let limit = if is_planted(Bug::FramesUnbounded) { u64::MAX } else { settings::FRAME_BYTES_MAX.get() };
    if bytes.len() as u64 > limit {
        return Err(Error::FrameTooLong { size: bytes.len(), limit });
    }
    let caller = keyspace().caller(ctx);
    if caller.is(Flag::Multi) {
        return Err(Error::InMulti("CLARET.FRAME"));
    }
    let requests = wire::decode_requests(bytes, &limits()).map_err(Error::Unreadable)?;
    keyspace().may_write(ctx)?;
    let reply = with_node(|node| node.frame(ctx, caller, requests, bytes.len()));
    let reply = reply.unwrap_or(Err(Error::NotReady))?;
    ctx.reply_bytes(&wire::encode_responses(&reply));
    Ok(())
}

const SYNTAX: Error = Error::Usage(
    "CLARET.HELLO wire-version public-key connection [PUSH channel | POLL | LISTEN] [PROOF signature]",
);
