//! The errors that a client may get, one for each thing that it can do about it. Each knows its Redis code, and
//! displays the text behind the code.

use std::fmt;

use claret_core::AttemptId;
use claret_core::message::Refusal;
use claret_core::wire::{self, WireError};
use claret_types::{Bytes, OpError};
use thiserror::Error;

use crate::parts::owner::Name;

/// What a command's handler answers by itself, or an error.
pub(crate) type Outcome = Result<(), Error>;

/// See the module's text.
#[derive(Clone, Debug, PartialEq, Error)]
pub(crate) enum Error {
    // --- words ---
    /// The words are not those that the command takes.
    #[error("usage: {0}")]
    Usage(&'static str),
    #[error("CLARET.FRAME takes one argument")]
    FrameWords,
    #[error("{0} cannot be part of MULTI")]
    InMulti(&'static str),
    #[error("Claret uses database 0 only, and database {0} is selected; SELECT 0")]
    OtherDatabase(i32),
    #[error("{0}")]
    Unreadable(WireError),
    #[error("a frame of {size} bytes is over claret.frame-bytes-max, {limit}; split it")]
    FrameTooLong { size: usize, limit: u64 },

    // --- sessions ---
    #[error("this module speaks version {own} and you speak {theirs}; use matching versions", own = wire::VERSION)]
    WireVersion { theirs: u16 },
    #[error("say CLARET.HELLO on this connection first")]
    NoSession,
    #[error("connection {newer} of the session is newer; say hello with a higher one")]
    OldConnection { newer: u32 },
    #[error(
        "the proof of this connection is wrong, or its session was not let in; say CLARET.HELLO on another connection"
    )]
    HelloFailed,
    #[error("a connection says CLARET.HELLO once, and this one has; say it on another connection")]
    HelloTwice,
    #[error("nothing was asked of this connection; say CLARET.HELLO without PROOF first")]
    NothingToProve,
    #[error("this session is the node's own; draw another key")]
    OwnSession,
    #[error("the session belongs to another user")]
    OtherUser,
    #[error("the session belongs to another key")]
    OtherKey,
    #[error("the frame speaks for another session")]
    OtherSession,
    #[error(
        "there are {0} sessions known here; raise claret.sessions-max, or end client processes, which are forgotten after \
         claret.forget-ms"
    )]
    TooManySessions(u64),
    #[error(
        "the user has {0} sessions known here; raise claret.user-sessions-max, or end client processes, which are forgotten \
         after claret.forget-ms"
    )]
    TooManySessionsOfUser(u64),
    #[error("user '{user}' gets grants on channels whose names begin with '{own}', and '{channel}' does not")]
    OthersChannel { user: Name, own: String, channel: Bytes },
    #[error("user '{user}' may not subscribe to channel '{channel}'; it needs '&{own}*'")]
    DeafToChannel { user: Name, own: String, channel: Bytes },
    #[error(
        "channel '{0}' is in a slot that this node does not serve now; look at CLUSTER SLOTS, and try again or choose \
         another name"
    )]
    ChannelElsewhere(Bytes),

    // --- the node ---
    #[error("this node serves no slots as a primary; look at CLUSTER SLOTS and try again")]
    NotReady,
    /// The same, to an operator: why.
    #[error("{0}")]
    NotServed(String),
    /// The server would not carry out a write now; what it says of that.
    #[error("this node accepts no writes now: {0}")]
    NoWrites(String),
    #[error(
        "{there} replicas of this node are connected and acknowledge, and claret.replicas is {configured}: no transactions are \
         served until they are there"
    )]
    NoReplicas { there: usize, configured: u64 },
    #[error(
        "another node gives a key to this one, which waits for its replicas; nothing was done, try again"
    )]
    Takes,
    #[error(
        "the key is here, and not all replicas of this node have it; it stays where it came from: MIGRATE it again, with REPLACE"
    )]
    TakenUnconfirmed,
    /// What a replica is told.
    #[error("this node has just started, and waits for what its replicas know; try again")]
    Unproven,
    #[error("only a primary of this module says that, to its replicas")]
    NotForClients,
    #[error("nobody serves slot {0}")]
    NobodyServes(u16),
    #[error("{slot} {address}")]
    Moved { slot: u16, address: String },
    #[error("all keys of one CLARET.EXEC must be on one node; a Claret client has no such limit")]
    CrossSlot,
    #[error("the module panicked; see the log of the server; the shard restarts")]
    Panicked,
    /// The same, of a command that waited.
    #[error("the module panicked; see the log of the server")]
    PanickedWaiting,

    // --- rights ---
    #[error("Authentication required.")]
    NoAuth,
    #[error("only operators may run this: users who may run CONFIG")]
    NoOperator,
    #[error("user '{user}' may not run {command} on '{}'", key.escape_ascii())]
    Denied { user: Name, command: String, key: Bytes },

    // --- transactions of one go ---
    #[error("put the number of its words before each operation: CLARET.EXEC 3 SADD tags red 2 INCR hits")]
    ExecWords,
    #[error("no operation is given")]
    ExecEmpty,
    #[error(
        "in the durability strict the answer waits for replicas, and here nothing can wait; send the command by itself, outside MULTI \
         and scripts"
    )]
    WaitsForAnswer,
    #[error("{0}")]
    Operation(OpError),
    #[error("over claret.calls-max, which is {0} operations; split the transaction")]
    TooManyCalls(u32),
    #[error("its locks were not free within {0} ms; nothing was done")]
    LocksNotFree(u64),
    #[error("a key is held by a transaction; nothing was done")]
    KeyHeld,
    /// What the shard says.
    #[error("{}", RefusalText(.0))]
    Refused(Refusal),
    #[error(
        "{0} is not in doubt here: it has not voted, or is decided; what has not voted is ended by ABORT"
    )]
    NotInDoubt(AttemptId),

    // --- errands ---
    #[error(
        "the keys are on several nodes, and for those CLARET.DO needs claret.peer-secret-file and claret.errands yes on all nodes; \
         without, give it the keys of this node, or use a gateway or a Claret client"
    )]
    ErrandsOff,
    #[error(
        "the keys are on several nodes, and in the durability strict CLARET.DO takes those of one; use a gateway or a Claret client"
    )]
    ErrandStrict,
    #[error(
        "the keys are on several nodes, which have to be waited for; send CLARET.DO by itself, outside MULTI and scripts"
    )]
    ErrandWaits,
    #[error(
        "node {0} has keys of it, and takes no operations that were given to other nodes: it has claret.errands no, another secret, or \
         another version of the module; nothing was done"
    )]
    ErrandsNotAt(String),
    #[error("user is unknown or off at node {0}, which has keys of it; nothing was done")]
    NoUserThere(String),
    #[error("node {0} has not answered; nothing was done, try again")]
    NodeSilent(String),
    #[error(
        "one CLARET.DO over several nodes has {calls} operations of {bytes} bytes, and {calls_max} of {bytes_max} at most; split it"
    )]
    ErrandTooLarge { calls: usize, bytes: usize, calls_max: usize, bytes_max: usize },
    #[error(
        "{0} transactions over several nodes are under way at this one; nothing was done, try again or at another node"
    )]
    TooManyErrands(usize),
    #[error(
        "{0} transactions of this user over several nodes are under way at this node; nothing was done, try again or at another node"
    )]
    TooManyErrandsOfUser(usize),
    #[error(
        "it is not known whether it was done; with ONCE give it again with the same id, without look whether it was"
    )]
    ErrandUnknown,
    #[error("{0}")]
    Once(OnceError),

    // --- plain commands ---
    #[error("name a command")]
    NoCommand,
    #[error("'{}' is no command that waits for keys", .0.escape_ascii())]
    NotWaiting(Bytes),
    #[error("{} writes; use CLARET.WRITE", .0.escape_ascii())]
    Writes(Bytes),
    #[error("{} is not allowed in scripts", .0.escape_ascii())]
    NoScript(Bytes),
    #[error("it names no keys")]
    NoKeys,
    #[error("a transaction holds key '{0}'; nothing was done, try again")]
    HeldKey(Bytes),
    #[error(
        "transactions hold keys of the command; nothing was done within {0} ms (claret.plain-wait-ms), try again"
    )]
    NotFree(u64),
    #[error(
        "slots left this node, or its shard began anew, while the command waited; nothing was done, try again"
    )]
    BeganAnew,
    #[error("clients are paused; nothing was done")]
    Paused,
    #[error("an operator ended it; nothing was done")]
    EndedByOperator,
    #[error("a transaction holds key '{0}' of the slot, or is about to; nothing was changed, try again")]
    SlotInUse(Bytes),
    #[error(
        "the replicas do not have all of the slot yet; nothing was changed, try again, outside MULTI and scripts"
    )]
    SlotUnconfirmed,
    #[error(
        "transactions held keys of the slot, or replicas lacked something of it; neither is so now, and the slot is closed to \
         transactions for {0} ms (claret.plain-wait-ms): send the command again"
    )]
    SlotClosed(u64),
    #[error(
        "CLUSTER SETSLOT waits for replicas here, and a command of a module cannot wait for them; send it by itself, \
         outside MULTI and scripts"
    )]
    WaitsForReplicas,
}

/// Why what is to be done once for an id is not carried out. Nothing was done now.
#[derive(Clone, Debug, PartialEq, Error)]
pub(crate) enum OnceError {
    #[error("ONCE wants an id, which is not empty and with which 'claret:answer:id' is a key")]
    NoId,
    #[error("'{0}' was done before, and its answers are not kept any more; nothing was done now")]
    AlreadyDone(Bytes),
    #[error(
        "what is kept in '{0}' was not written by CLARET.DO: its id is that of something else that was done; nothing was done now"
    )]
    AnswersOfOthers(Bytes),
}

impl OnceError {
    /// The word that an error of Redis begins with.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            OnceError::AlreadyDone(_) => "DONE",
            OnceError::NoId | OnceError::AnswersOfOthers(_) => "ERR",
        }
    }
}

impl Error {
    /// The word that an error of Redis begins with.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Error::Usage(_)
            | Error::FrameWords
            | Error::InMulti(_)
            | Error::OtherDatabase(_)
            | Error::Unreadable(_)
            | Error::FrameTooLong { .. }
            | Error::TooManySessions(_)
            | Error::TooManySessionsOfUser(_)
            | Error::Panicked
            | Error::PanickedWaiting
            | Error::ExecWords
            | Error::ExecEmpty
            | Error::WaitsForAnswer
            | Error::Operation(_)
            | Error::TooManyCalls(_)
            | Error::NotInDoubt(_)
            | Error::NoCommand
            | Error::NotWaiting(_)
            | Error::Writes(_)
            | Error::NoScript(_)
            | Error::NoKeys
            | Error::ErrandWaits
            | Error::ErrandTooLarge { .. }
            | Error::EndedByOperator
            | Error::WaitsForReplicas => "ERR",
            Error::WireVersion { .. } => "WIREVERSION",
            Error::NoSession | Error::OldConnection { .. } => "NOSESSION",
            Error::HelloFailed
            | Error::HelloTwice
            | Error::NothingToProve
            | Error::OwnSession
            | Error::OtherUser
            | Error::OtherKey
            | Error::OtherSession
            | Error::OthersChannel { .. }
            | Error::DeafToChannel { .. }
            | Error::NoOperator
            | Error::NotForClients
            | Error::NoUserThere(_)
            | Error::Denied { .. } => "NOPERM",
            Error::NotReady | Error::NotServed(_) => "NOTREADY",
            // A replica takes that for a reason to come again.
            Error::Unproven => "LOADING",
            Error::NoWrites(_) | Error::NobodyServes(_) | Error::NoReplicas { .. } => "CLUSTERDOWN",
            Error::Moved { .. } => "MOVED",
            Error::CrossSlot | Error::ErrandsOff | Error::ErrandStrict => "CROSSSLOT",
            Error::ErrandUnknown => "UNKNOWN",
            Error::Once(error) => error.code(),
            Error::NoAuth => "NOAUTH",
            Error::ChannelElsewhere(_)
            | Error::LocksNotFree(_)
            | Error::KeyHeld
            | Error::HeldKey(_)
            | Error::NotFree(_)
            | Error::BeganAnew
            | Error::Paused
            | Error::SlotInUse(_)
            | Error::SlotUnconfirmed
            | Error::Takes
            | Error::TakenUnconfirmed
            | Error::ErrandsNotAt(_)
            | Error::NodeSilent(_)
            | Error::TooManyErrands(_)
            | Error::TooManyErrandsOfUser(_)
            | Error::SlotClosed(_) => "TRYAGAIN",
            Error::Refused(refusal) => refusal_code(refusal),
        }
    }

    /// The line that a client gets: the code, and what comes behind it.
    pub(crate) fn line(&self) -> String {
        format!("{} {self}", self.code())
    }
}

/// The code of the error that a plain command would be answered, for what a shard refused.
fn refusal_code(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Operation { error, .. } | Refusal::OperationBehind { error, .. }
            if matches!(**error, OpError::WrongType { .. }) =>
        {
            WRONG_TYPE
        }
        Refusal::Denied { .. } => NO_PERMISSION,
        Refusal::NoMemory { .. } => "OOM",
        Refusal::ReadOnly => "READONLY",
        Refusal::Elsewhere { .. } | Refusal::Crowded(_) => "TRYAGAIN",
        Refusal::Operation { .. }
        | Refusal::OperationBehind { .. }
        | Refusal::AgainstSchema { .. }
        | Refusal::Withdrawn
        | Refusal::Recovered
        | Refusal::LeaseExpired
        | Refusal::LostLocks
        | Refusal::Unknown
        | Refusal::Stale
        | Refusal::Vanished { .. }
        | Refusal::Unlisted
        | Refusal::Changed { .. }
        | Refusal::Unstamped
        | Refusal::OnlyRounds
        | Refusal::Resolved
        | Refusal::TooMuch { .. } => "ERR",
    }
}

const WRONG_TYPE: &str = "WRONGTYPE";
const NO_PERMISSION: &str = "NOPERM";

/// What a shard's refusal says to a client of Redis. Two of them have their code in their text already.
struct RefusalText<'a>(&'a Refusal);

impl fmt::Display for RefusalText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let behind = |code: &str, text: &str| {
            text.strip_prefix(code).map_or(text, |rest| rest.trim_start_matches(' ')).to_owned()
        };
        match self.0 {
            Refusal::Operation { error, .. } | Refusal::OperationBehind { error, .. }
                if matches!(**error, OpError::WrongType { .. }) =>
            {
                f.write_str(&behind(WRONG_TYPE, &error.to_string()))
            }
            Refusal::Denied { reason, .. } => f.write_str(&behind(NO_PERMISSION, reason)),
            refusal => refusal.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use claret_core::message::Refusal;
    use claret_types::{Bytes, OpError};

    use super::{Error, Name};

    fn key() -> Bytes {
        Bytes::from("k")
    }

    #[test]
    fn an_error_is_one_line_with_its_code_first() {
        for (error, line) in [
            (Error::KeyHeld, "TRYAGAIN a key is held by a transaction; nothing was done"),
            (Error::Moved { slot: 7, address: "h:1".into() }, "MOVED 7 h:1"),
            (Error::NobodyServes(7), "CLUSTERDOWN nobody serves slot 7"),
            (Error::NoAuth, "NOAUTH Authentication required."),
            (Error::NotWaiting(Bytes::from("x\n")), "ERR 'x\\n' is no command that waits for keys"),
            (Error::InMulti("CLARET.HELLO"), "ERR CLARET.HELLO cannot be part of MULTI"),
            (
                Error::OldConnection { newer: 3 },
                "NOSESSION connection 3 of the session is newer; say hello with a higher one",
            ),
        ] {
            assert_eq!(error.line(), line);
        }
    }

    #[test]
    fn what_a_shard_refuses_has_the_code_of_the_plain_command() {
        let wrong =
            OpError::WrongType { found: "list".into(), expected: "set".into(), method: "SADD".into() };
        let text = wrong.to_string();
        let refused = |refusal| Error::Refused(refusal).line();
        assert_eq!(refused(Refusal::Operation { key: key(), error: wrong.into() }), text);
        assert_eq!(
            refused(Refusal::Operation { key: key(), error: OpError::NotANumber("score".into()).into() }),
            "ERR a score cannot be NaN; pass a number (key 'k')"
        );
        let user = Name::new(b"\xff");
        let denied = Error::Denied { user, command: "SADD".into(), key: key() }.line();
        assert_eq!(denied, "NOPERM user '\\xff' may not run SADD on 'k'");
        assert_eq!(refused(Refusal::Denied { key: key(), reason: denied.clone() }), denied);
        assert!(refused(Refusal::NoMemory { key: key() }).starts_with("OOM no memory for key 'k'"));
        assert_eq!(refused(Refusal::ReadOnly), "READONLY the shard takes no transactions at the moment");
        assert!(refused(Refusal::Crowded(key())).starts_with("TRYAGAIN too many wait for key 'k'"));
    }
}
