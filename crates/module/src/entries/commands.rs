//! Every command, declared once as data: the registration, `COMMAND DOCS` and `docs/commands.md` come from here.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::{null, null_mut};

use redis_module::raw;

use super::{exec, frame, key_import, keyspace, locks, outcome, plain, poll, replicas, top};
use crate::ffi::{Arg, Ctx, Denial, Rejected, api};
use crate::parts::error::{Error, Outcome};

/// What the server calls.
type Entry = unsafe extern "C" fn(*mut raw::RedisModuleCtx, *mut *mut raw::RedisModuleString, c_int) -> c_int;

/// One command.
pub(crate) struct Command {
    pub(crate) name: &'static CStr,
    /// As `RM_CreateCommand` takes them.
    pub(crate) flags: &'static CStr,
    /// Categories of the access control lists. Redis 7.0 knows none for commands of modules: there a user has them by
    /// name, or with `+@all`.
    pub(crate) categories: &'static CStr,
    /// The number of words, the name among them; at least so many when negative.
    pub(crate) arity: i32,
    pub(crate) arguments: &'static [Argument],
    pub(crate) summary: &'static str,
    pub(crate) complexity: &'static str,
    /// What it answers, for the page.
    #[cfg_attr(not(test), expect(dead_code, reason = "the page shows it"))]
    pub(crate) answers: &'static str,
    pub(crate) since: &'static str,
    entry: Entry,
}

/// One argument, or several that belong together.
pub(crate) struct Argument {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) optional: bool,
    pub(crate) repeated: bool,
}

/// What an argument is.
pub(crate) enum Shape {
    Text,
    Int,
    Key,
    /// This very word.
    Word(&'static str),
    /// All of these, one after the other.
    Block(&'static [Argument]),
    /// One of these.
    OneOf(&'static [Argument]),
}

const fn one(name: &'static str, shape: Shape) -> Argument {
    Argument { name, shape, optional: false, repeated: false }
}

const fn optional(name: &'static str, shape: Shape) -> Argument {
    Argument { name, shape, optional: true, repeated: false }
}

/// Makes an entry of a handler. With `true` it is for operators: whoever calls it needs the right to run `CONFIG`, also
/// where commands of modules have no categories.
macro_rules! entry {
    ($handler:path) => {
        entry!($handler, false)
    };
    ($handler:path, $operators:literal) => {{
        unsafe extern "C" fn entry(
            ctx: *mut raw::RedisModuleCtx,
            argv: *mut *mut raw::RedisModuleString,
            argc: c_int,
        ) -> c_int {
            // SAFETY: the context and the arguments are what the server just called with.
            unsafe { run(ctx, argv, argc, stringify!($handler), $operators, $handler) }
        }
        entry
    }};
}

/// A plain command with its arguments.
const PLAIN: &[Argument] = &[
    one("command", Shape::Text),
    Argument { name: "argument", shape: Shape::Text, optional: true, repeated: true },
];

/// All commands, in the order of the page.
pub(crate) const COMMANDS: &[Command] = &[
    Command {
        name: c"claret.hello",
        flags: c"write deny-script fast",
        categories: c"write fast",
        arity: -4,
        arguments: &[
            one("wire-version", Shape::Int),
            one("public-key", Shape::Text),
            one("connection", Shape::Int),
            optional(
                "way",
                Shape::OneOf(&[
                    one(
                        "push",
                        Shape::Block(&[one("push", Shape::Word("PUSH")), one("channel", Shape::Text)]),
                    ),
                    one("poll", Shape::Word("POLL")),
                    one("listen", Shape::Word("LISTEN")),
                ]),
            ),
            optional(
                "proof",
                Shape::Block(&[one("proof", Shape::Word("PROOF")), one("signature", Shape::Text)]),
            ),
        ],
        summary: "With a proof, binds this connection to a session of a client process and to its user; without a \
                  proof, asks for the challenge to sign. A channel for pushes must begin with `claret:USER:`.",
        complexity: "O(1); checking a proof takes longer than a plain command, and a connection has one",
        answers: "an array of names and values: `wire`, `shard`, `challenge`; with a proof `server`, `module`, `wire`, `shard`, \
                  `incarnation`, `lease_us`, `push`, `bears`, `durability`, `schema`",
        since: "0.1.0",
        entry: entry!(frame::hello),
    },
    Command {
        name: c"claret.frame",
        flags: c"write deny-script",
        categories: c"write",
        arity: 2,
        arguments: &[one("requests", Shape::Text)],
        summary: "Takes all requests that a client process has for this shard; answers the responses that are ready \
                  at once.",
        complexity: "O(N) with N the operations in it and the waiters that they let in",
        answers: "a frame of responses, as bytes",
        since: "0.1.0",
        entry: entry!(frame::frame),
    },
    Command {
        name: c"claret.poll",
        flags: c"readonly deny-script",
        categories: c"read blocking",
        arity: 3,
        arguments: &[one("session", Shape::Int), one("milliseconds", Shape::Int)],
        summary: "Waits until there are responses for a session; for clients without pushes.",
        complexity: "O(N) with N the number of waiting responses",
        answers: "a frame of responses, as bytes; empty when the time is over",
        since: "0.1.0",
        entry: entry!(poll::poll),
    },
    Command {
        name: c"claret.read",
        flags: c"readonly getkeys-api no-slowlog",
        categories: c"read blocking",
        arity: -2,
        arguments: PLAIN,
        summary: "Internal: do not send it. The module puts it before a plain command that reads and may have to \
                  wait, where the server cannot tell the module who calls (the default user with a password or off; \
                  on Redis 7.0 then every user). It runs the command when no transaction holds its keys in \
                  conflict.",
        complexity: "that of the command",
        answers: "what the command answers; `-TRYAGAIN` if it may not wait, or not any longer",
        since: "0.1.0",
        entry: entry!(plain::read),
    },
    Command {
        name: c"claret.write",
        flags: c"write getkeys-api no-slowlog",
        categories: c"write blocking",
        arity: -2,
        arguments: PLAIN,
        summary: "Internal: do not send it. The module puts it before a plain command that may have to wait, where \
                  the server cannot tell the module who calls (the default user with a password or off; on Redis \
                  7.0 then every user). It runs the command when no transaction holds its keys in conflict.",
        complexity: "that of the command",
        answers: "what the command answers; `-TRYAGAIN` if it may not wait, or not any longer",
        since: "0.1.0",
        entry: entry!(plain::write),
    },
    Command {
        name: c"claret.read-any",
        flags: c"readonly getkeys-api no-slowlog no-auth",
        categories: c"read blocking",
        arity: -2,
        arguments: PLAIN,
        summary: "Internal: do not send it. The module puts it before a plain command that reads and may have to \
                  wait, and runs the command when no transaction holds its keys in conflict. It is the usual form \
                  of `CLARET.READ`: the right to run the command is enough.",
        complexity: "that of the command",
        answers: "what the command answers; `-TRYAGAIN` if it may not wait, or not any longer",
        since: "0.1.0",
        entry: entry!(plain::read_any),
    },
    Command {
        name: c"claret.write-any",
        flags: c"write getkeys-api no-slowlog no-auth",
        categories: c"write blocking",
        arity: -2,
        arguments: PLAIN,
        summary: "Internal: do not send it. The module puts it before a plain command that may have to wait, and \
                  runs the command when no transaction holds its keys in conflict. It is the usual form of \
                  `CLARET.WRITE`: the right to run the command is enough.",
        complexity: "that of the command",
        answers: "what the command answers; `-TRYAGAIN` if it may not wait, or not any longer",
        since: "0.1.0",
        entry: entry!(plain::write_any),
    },
    Command {
        name: c"claret.exec",
        flags: c"write",
        categories: c"write blocking",
        arity: -4,
        arguments: &[Argument {
            name: "operation",
            shape: Shape::Block(&[
                one("words", Shape::Int),
                one("method", Shape::Text),
                one("key", Shape::Key),
                Argument { name: "argument", shape: Shape::Text, optional: true, repeated: true },
            ]),
            optional: false,
            repeated: true,
        }],
        summary: "Runs operations on keys of this node as one transaction: all of them, or none.",
        complexity: "O(N) with N the operations and the waiters that they let in",
        answers: "an array with the answer of each operation; or one error, and nothing is done",
        since: "0.1.0",
        entry: entry!(exec::exec),
    },
    Command {
        name: c"claret.do",
        flags: c"write",
        categories: c"write blocking",
        arity: -4,
        arguments: &[
            optional("once", Shape::Block(&[one("once", Shape::Word("ONCE")), one("id", Shape::Text)])),
            Argument {
                name: "operation",
                shape: Shape::Block(&[
                    one("words", Shape::Int),
                    one("method", Shape::Text),
                    one("key", Shape::Text),
                    Argument { name: "argument", shape: Shape::Text, optional: true, repeated: true },
                ]),
                optional: false,
                repeated: true,
            },
        ],
        summary: "Runs operations on keys of any nodes as one transaction: all of them, or none. For keys of other nodes it needs \
                  `claret.peer-secret-file` and `claret.errands yes` ([errands](errands.md)). With `ONCE id` it is done at most once \
                  for this id, whichever node it is given to and however often, and is answered as the first time for a day.",
        complexity: "O(N) with N the operations and the waiters that they let in",
        answers: "an array with the answer of each operation; or one error, and nothing is done; or `UNKNOWN`; with `ONCE`, `DONE` where it was done before and the answers are gone",
        since: "0.1.0",
        entry: entry!(exec::errand),
    },
    Command {
        name: c"claret.outcome",
        flags: c"readonly fast",
        categories: c"read fast",
        arity: 2,
        arguments: &[one("attempt", Shape::Text)],
        summary: "Tells what this shard has written for an attempt (`session.sequence/attempt`), and changes nothing by it: for \
                  whoever heard that an outcome is unknown, and asks all participants.",
        complexity: "O(log N) with N the transactions that are remembered",
        answers: "in the durability `strict` when its replicas have it, too: the shard; since which incarnation it remembers; `nothing`, `prepared`, `applied`, `refused`, `forgotten` or `lost`",
        since: "0.1.0",
        entry: entry!(outcome::outcome),
    },
    Command {
        name: c"claret.locks",
        flags: c"readonly admin",
        categories: c"read admin dangerous",
        arity: -1,
        arguments: &[optional("key", Shape::Key)],
        summary: "Shows who holds keys and who waits for them.",
        complexity: "O(N) with N the keys that are held",
        answers: "for each key: the key, its holders, its waiters, each as `session.sequence/attempt open|voted user=NAME \
                  client=ID addr=HOST:PORT`, with `-` for what is not known (a plain command that waits, a client \
                  that is gone)",
        since: "0.1.0",
        entry: entry!(locks::locks, true),
    },
    Command {
        name: c"claret.top",
        flags: c"readonly admin",
        categories: c"read admin dangerous",
        arity: -1,
        arguments: &[optional(
            "count",
            Shape::Block(&[one("count", Shape::Word("COUNT")), one("n", Shape::Int)]),
        )],
        summary: "Shows what is slow at this node: the `n` keys (16, at most 128) for which operations had to wait most often \
                  lately, as many that somebody has waited for longest, who waits there for whom, and counters, from which \
                  whoever asks twice has rates. `claret top` shows it for a cluster. Keys over 1 KiB are left out.",
        complexity: "O(n log n), beside a constant: at most 2048 of the keys that are held are looked at, others the next time",
        answers: "an array of names and values: `state` (as `claret_state` in `INFO claret`), `shard`, `incarnation`, `now_us` (of the node's clock), `counters` and `gauges` \
                  (each names and values as in `INFO claret`), `held_keys`, `looked_at` (so many of these), `hidden` (hot keys that \
                  the user may not see), `keys`. Each key is an array of names and values: `key`, `type`, `waits` (for each \
                  operation its name, waits of the last ten to twenty seconds, waits since it is counted), `held` and `wanted` \
                  (for each mode its name and how many claims), `holders`, `waiters`, `joined` (in this phase since somebody \
                  waits), `waited_us` (for the end of this phase), `in_line` (ordered entries), `behind` (for the eldest who wait: \
                  the attempt, its operation, an attempt that is in its way or nil; as in `CLARET.LOCKS`)",
        since: "0.1.0",
        entry: entry!(top::top, true),
    },
    Command {
        name: c"claret.resolve",
        flags: c"write admin deny-script",
        categories: c"write admin dangerous",
        arity: -3,
        arguments: &[
            one(
                "what",
                Shape::OneOf(&[
                    one("attempt", Shape::Text),
                    one("user", Shape::Block(&[one("user", Shape::Word("USER")), one("name", Shape::Text)])),
                ]),
            ),
            one(
                "decision",
                Shape::OneOf(&[one("commit", Shape::Word("COMMIT")), one("abort", Shape::Word("ABORT"))]),
            ),
        ],
        summary: "Ends an attempt that has not voted, or all of a user (`ABORT`). As a last resort, decides an \
                  attempt in doubt, whatever the other shards have. It is logged.",
        complexity: "O(N) with N the keys that are held",
        answers: "`OK`; for a user, how many attempts it ended",
        since: "0.1.0",
        entry: entry!(locks::resolve, true),
    },
    Command {
        name: c"claret.changes",
        flags: c"write deny-script no-slowlog",
        categories: c"write dangerous",
        arity: 6,
        arguments: &[
            one("form", Shape::Int),
            one("node", Shape::Text),
            one("incarnation", Shape::Int),
            one("batch", Shape::Int),
            one("changes", Shape::Text),
        ],
        summary: "Internal: with it a primary tells its replicas what its shard has written, in the durability `strict`. Clients are \
                  refused.",
        complexity: "O(N) with N the changes",
        answers: "`OK`",
        since: "0.1.0",
        entry: entry!(replicas::changes),
    },
    Command {
        name: c"claret.take",
        flags: c"write deny-script no-slowlog",
        categories: c"write blocking",
        arity: -2,
        arguments: PLAIN,
        summary: "Internal: the module puts it before `RESTORE-ASKING`, with which another node's `MIGRATE` brings a key, in the \
                  durability `strict`. The answer waits until the replicas of this node have the key, too. Meanwhile the module puts \
                  it before `MIGRATE` as well, which it refuses.",
        complexity: "that of the command",
        answers: "what the command answers; `-TRYAGAIN` if the replicas do not say in time that they have it",
        since: "0.1.0",
        entry: entry!(key_import::take),
    },
    Command {
        name: c"claret.unproven",
        flags: c"readonly deny-script no-slowlog allow-stale",
        categories: c"read fast",
        arity: -1,
        arguments: &[Argument { name: "word", shape: Shape::Text, optional: true, repeated: true }],
        summary: "Internal: the module puts it before `PSYNC` and `SYNC` of a replica that may know more than this node, which has just \
                  started.",
        complexity: "O(1)",
        answers: "an error that has the replica come again",
        since: "0.1.0",
        entry: entry!(replicas::unproven),
    },
    Command {
        name: c"claret.due",
        flags: c"write deny-script no-slowlog",
        categories: c"write fast",
        arity: 1,
        arguments: &[],
        summary: "Internal: with it the module does what its timers and other nodes ask for. As long as a command runs, no key ends. \
                  Clients are refused.",
        complexity: "that of what is due",
        answers: "`OK`",
        since: "0.1.0",
        entry: entry!(super::due),
    },
];

/// Runs a handler within the guard.
///
/// # Safety
/// The context and the arguments are what the server just called with.
unsafe fn run(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
    name: &str,
    operators: bool,
    handler: fn(Ctx, &[Arg<'_>]) -> Outcome,
) -> c_int {
    // SAFETY: as the caller promises; both are used within this call alone.
    let (ctx, arguments) = unsafe { (Ctx::new(ctx), Ctx::arguments(argv, argc)) };
    let allowed = |ctx: Ctx| {
        let caller = operators.then(|| keyspace().caller(ctx));
        if let Some(caller) = caller.filter(|caller| !caller.is_operator()) {
            caller.log_denial(ctx, b"config", Denial::Command);
            return Err(Error::NoOperator);
        }
        Ok(())
    };
    match super::entry(ctx, name, |ctx| allowed(ctx).and_then(|()| handler(ctx, &arguments))) {
        Some(Ok(())) => {}
        Some(Err(error)) => ctx.reply_error(&error.line()),
        None => ctx.reply_error(&Error::Panicked.line()),
    }
    raw::REDISMODULE_OK as c_int
}

/// Registers all commands.
pub(super) fn register(ctx: Ctx) -> Result<(), Rejected> {
    for command in COMMANDS {
        // SAFETY: the context is that of loading; the strings end in a zero and are copied; the entry is never unloaded, since the
        // module refuses that.
        Ctx::accepted(unsafe {
            api!(RedisModule_CreateCommand)(
                ctx.raw(),
                command.name.as_ptr(),
                Some(command.entry),
                command.flags.as_ptr(),
                0,
                0,
                0,
            )
        })?;
        document(ctx, command)?;
    }
    Ok(())
}

/// Tells the server what `COMMAND DOCS` shows.
fn document(ctx: Ctx, command: &Command) -> Result<(), Rejected> {
    static VERSION: raw::RedisModuleCommandInfoVersion = raw::RedisModuleCommandInfoVersion {
        version: 1,
        sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
        sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
        sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
    };
    let mut kept = Kept::default();
    let info = raw::RedisModuleCommandInfo {
        version: &VERSION,
        summary: kept.text(command.summary),
        complexity: kept.text(command.complexity),
        since: kept.text(command.since),
        history: null_mut(),
        tips: null(),
        arity: command.arity,
        key_specs: null_mut(),
        args: kept.arguments(command.arguments),
    };
    // SAFETY: the command was just made, so the server finds it; all pointers of the description lead into `kept`, which lives
    // until this returns, and the server copies what is there. The list of arguments ends in one that is all zero.
    unsafe {
        let made = api!(RedisModule_GetCommand)(ctx.raw(), command.name.as_ptr());
        if let Some(set_categories) = raw::RedisModule_SetCommandACLCategories {
            Ctx::accepted(set_categories(made, command.categories.as_ptr()))?;
        }
        Ctx::accepted(api!(RedisModule_SetCommandInfo)(made, &info))
    }
}

/// Keeps what a description points to.
#[derive(Default)]
struct Kept {
    texts: Vec<CString>,
    lists: Vec<Box<[raw::RedisModuleCommandArg]>>,
}

impl Kept {
    fn text(&mut self, text: &str) -> *const c_char {
        self.texts.push(CString::new(text).expect("a constant without zeros"));
        self.texts.last().expect("just put there").as_ptr()
    }

    /// A list of arguments, with the empty one at its end that the server looks for.
    fn arguments(&mut self, list: &[Argument]) -> *mut raw::RedisModuleCommandArg {
        if list.is_empty() {
            return null_mut();
        }
        let mut made: Vec<raw::RedisModuleCommandArg> =
            list.iter().map(|argument| self.argument(argument)).collect();
        // SAFETY: the structure has pointers and numbers alone, for which zero is a value: the mark of the end.
        made.push(unsafe { std::mem::zeroed() });
        self.lists.push(made.into_boxed_slice());
        self.lists.last_mut().expect("just put there").as_mut_ptr()
    }

    fn argument(&mut self, argument: &Argument) -> raw::RedisModuleCommandArg {
        use raw::{
            RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK as BLOCK,
            RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER as INTEGER,
            RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF as ONE_OF,
            RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN as TOKEN,
            RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING as STRING,
        };
        let (kind, token, parts) = match argument.shape {
            // Keys have no fixed place in these commands, so to the server they are strings.
            Shape::Text | Shape::Key => (STRING, null(), null_mut()),
            Shape::Int => (INTEGER, null(), null_mut()),
            Shape::Word(word) => (TOKEN, self.text(word), null_mut()),
            Shape::Block(parts) => (BLOCK, null(), self.arguments(parts)),
            Shape::OneOf(parts) => (ONE_OF, null(), self.arguments(parts)),
        };
        let optional = if argument.optional { raw::REDISMODULE_CMD_ARG_OPTIONAL } else { 0 };
        let repeated = if argument.repeated { raw::REDISMODULE_CMD_ARG_MULTIPLE } else { 0 };
        raw::RedisModuleCommandArg {
            name: self.text(argument.name),
            type_: kind,
            key_spec_index: -1,
            token,
            summary: null(),
            since: null(),
            flags: (optional | repeated) as c_int,
            deprecated_since: null(),
            subargs: parts,
            display_text: null(),
        }
    }
}

#[cfg(test)]
mod page;
