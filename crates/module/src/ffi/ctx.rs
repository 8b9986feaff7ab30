//! A context: how the module calls the server while the server is calling the module.

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_longlong, c_void};
use std::ptr::{null_mut, without_provenance_mut};

use claret_types::Reply;
use redis_module::raw;

use super::{Arg, Text, api};

/// A context of the server's. Valid until the entry that brought it returns.
#[derive(Clone, Copy)]
pub(crate) struct Ctx(*mut raw::RedisModuleCtx);

/// What the server can be asked of the moment.
#[derive(Clone, Copy)]
pub(crate) enum Flag {
    /// Within MULTI.
    Multi = 1 << 1,
    /// Within a script.
    Lua = 1,
    /// In cluster mode.
    Cluster = 1 << 5,
    /// A replica.
    Replica = 1 << 3,
    /// Refuses writes: mostly a replica.
    ReadOnly = 1 << 4,
    /// Writes an append-only file.
    Aof = 1 << 6,
    /// Has a `maxmemory`, and may throw keys away for it.
    Evicts = 1 << 9,
    /// Over `maxmemory`.
    OutOfMemory = 1 << 10,
    /// The caller cannot be blocked.
    DenyBlocking = 1 << 21,
    /// Reading its data from disk or from its primary.
    Loading = 1 << 13,
    /// Within a command that the primary passed on.
    Replicated = 1 << 12,
}

/// Levels of the server's log.
#[derive(Clone, Copy)]
pub(crate) enum Log {
    Notice,
    Warning,
}

/// A timer that runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timer(u64);

/// A client that was made to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocked(*mut raw::RedisModuleBlockedClient);

/// The server did not take what it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rejected;

/// What a timer calls.
pub(crate) type TimerProc = unsafe extern "C" fn(*mut raw::RedisModuleCtx, *mut c_void);

impl Ctx {
    /// # Safety
    /// The context is what the server just called with, and this value does not outlive that call.
    pub(crate) unsafe fn new(raw: *mut raw::RedisModuleCtx) -> Self {
        Ctx(raw)
    }

    pub(crate) fn raw(self) -> *mut raw::RedisModuleCtx {
        self.0
    }

    /// The arguments of a command, its name first.
    ///
    /// # Safety
    /// They are what the server just called with.
    pub(crate) unsafe fn arguments<'a>(argv: *mut *mut raw::RedisModuleString, argc: c_int) -> Vec<Arg<'a>> {
        // SAFETY: as the caller promises, `argv` has `argc` strings; they live while the command runs (string rule).
        unsafe {
            let list = std::slice::from_raw_parts(argv, usize::try_from(argc).unwrap_or(0));
            list.iter().map(|raw| Arg::new(*raw)).collect()
        }
    }

    // --- the server ---

    pub(crate) fn flags(self) -> u32 {
        // SAFETY: context rule; nothing is kept of it.
        unsafe { api!(RedisModule_GetContextFlags)(self.0) as u32 }
    }

    pub(crate) fn is(self, flag: Flag) -> bool {
        self.flags() & flag as u32 != 0
    }

    /// Whether clients are paused so that replicas see a fixed data set. Writing from anywhere but a client's command
    /// ends the server then (an assertion of its own).
    pub(crate) fn must_not_write() -> bool {
        // SAFETY: function rule; it takes nothing.
        unsafe { api!(RedisModule_AvoidReplicaTraffic)() != 0 }
    }

    /// Whether there is any key in the database of the records.
    pub(crate) fn has_keys(self) -> bool {
        // SAFETY: context rule; nothing is kept of it. The number is of the selected database, and the caller's is the first.
        unsafe { api!(RedisModule_DbSize)(self.0) != 0 }
    }

    /// As in `INFO`.
    pub(crate) fn server_version(self) -> String {
        // SAFETY: function rule; it takes nothing.
        let version = unsafe { api!(RedisModule_GetServerVersion)() };
        format!("{}.{}.{}", version >> 16 & 0xff, version >> 8 & 0xff, version & 0xff)
    }

    /// The server's time of day in milliseconds, by which keys expire.
    pub(crate) fn millis() -> i64 {
        // SAFETY: function rule; it takes nothing.
        unsafe { api!(RedisModule_Milliseconds)() }
    }

    /// The same, for operations.
    pub(crate) fn unix_ms() -> u64 {
        Ctx::millis().unsigned_abs()
    }

    /// The first number of its version.
    pub(crate) fn server_release(self) -> i32 {
        // SAFETY: function rule; it takes nothing.
        unsafe { api!(RedisModule_GetServerVersion)() >> 16 }
    }

    /// From the server's source of random numbers, which nobody guesses.
    pub(crate) fn random(self) -> u64 {
        u64::from_le_bytes(self.random_bytes())
    }

    /// Bytes that nobody can guess.
    pub(crate) fn random_bytes<const N: usize>(self) -> [u8; N] {
        let mut bytes = [0; N];
        // SAFETY: it writes so many bytes to the array, which is that long.
        unsafe { api!(RedisModule_GetRandomBytes)(bytes.as_mut_ptr(), bytes.len()) };
        bytes
    }

    pub(crate) fn log(self, level: Log, text: &str) {
        let level = match level {
            Log::Notice => c"notice",
            Log::Warning => c"warning",
        };
        let text = CString::new(text.replace('\0', "\\0")).unwrap_or_default();
        // SAFETY: context rule (null is allowed here); the format `%s` takes the one C string that follows, which lives.
        unsafe { api!(RedisModule_Log)(self.0, level.as_ptr(), c"%s".as_ptr(), text.as_ptr()) }
    }

    /// Calls `proc` in so many milliseconds.
    pub(crate) fn timer(self, millis: u64, proc: TimerProc) -> Timer {
        // SAFETY: context and callback rules; the data is null, and nobody follows it.
        Timer(unsafe { api!(RedisModule_CreateTimer)(self.0, millis as c_longlong, Some(proc), null_mut()) })
    }

    pub(crate) fn stop(self, timer: Timer) {
        // SAFETY: context rule; a timer is a number, and one that fired already is not found. The place for its data may be null.
        unsafe { api!(RedisModule_StopTimer)(self.0, timer.0, null_mut()) };
    }

    /// Publishes within the shard: to subscribers at this node and its replicas. How many hear it here.
    pub(crate) fn publish(self, channel: &[u8], message: &[u8]) -> u64 {
        let (channel, message) = (Text::new(channel), Text::new(message));
        // SAFETY: context and string rules: the server keeps counts of its own of what it queues.
        let heard = unsafe { api!(RedisModule_PublishMessageShard)(self.0, channel.raw(), message.raw()) };
        u64::try_from(heard).unwrap_or(0)
    }

    /// Passes a command on to replicas and the append-only file, behind what was passed on before, in one piece with it. It is not run
    /// here.
    pub(crate) fn replicate(self, command: &CStr, words: &[&[u8]]) {
        let texts: Vec<Text> = words.iter().map(|word| Text::new(word)).collect();
        let list: Vec<*mut raw::RedisModuleString> = texts.iter().map(Text::raw_borrowed).collect();
        // SAFETY: context rule; the format's `v` reads so many strings of `list`, which live beyond the call, and of which the server
        // keeps counts of its own (string rule). The command is one of the module's.
        unsafe {
            api!(RedisModule_Replicate)(
                self.raw(),
                command.as_ptr(),
                c"v".as_ptr(),
                list.as_ptr(),
                list.len(),
            )
        };
    }

    // --- the client ---

    pub(crate) fn client(self) -> u64 {
        // SAFETY: context rule; nothing is kept of it.
        unsafe { api!(RedisModule_GetClientId)(self.0) }
    }

    /// Where a client is connected from; `None` when it is gone.
    pub(crate) fn address_of(self, client: u64) -> Option<String> {
        // SAFETY: the structure has integers and arrays of them alone, of which all zero is a value.
        let mut info: raw::RedisModuleClientInfo = unsafe { std::mem::zeroed() };
        info.version = u64::from(raw::REDISMODULE_CLIENTINFO_VERSION);
        // SAFETY: the server writes what a structure of the version has that its first field names: this one.
        let status = unsafe { api!(RedisModule_GetClientInfoById)((&raw mut info).cast::<c_void>(), client) };
        if status != raw::REDISMODULE_OK as c_int {
            return None;
        }
        let address = info.addr.map(|byte| byte as u8);
        let end = address.iter().position(|byte| *byte == 0).unwrap_or(address.len());
        Some(format!("{}:{}", address[..end].escape_ascii(), info.port))
    }

    /// The name of the ACL user whose command runs; empty, which nobody's is, where there is none.
    pub(crate) fn user(self) -> Text {
        // SAFETY: context rule; the server gives the caller a count of the name, or null (string rule).
        let name = unsafe { Text::take(api!(RedisModule_GetCurrentUserName)(self.0)) };
        name.unwrap_or_else(|| Text::new(b""))
    }

    /// Whether a client is there and waits for something.
    pub(crate) fn is_blocked(self, client: u64) -> bool {
        let mut info =
            raw::RedisModuleClientInfo { version: 1, flags: 0, id: 0, addr: [0; 46], port: 0, db: 0 };
        // SAFETY: the server writes what a structure of the version has that its first field names: this one.
        let status = unsafe { api!(RedisModule_GetClientInfoById)((&raw mut info).cast::<c_void>(), client) };
        status == raw::REDISMODULE_OK as c_int
            && info.flags & u64::from(raw::REDISMODULE_CLIENTINFO_FLAG_BLOCKED) != 0
    }

    // --- answers ---

    pub(crate) fn reply_error(self, text: &str) {
        let text = CString::new(text.replace(['\0', '\r', '\n'], " ")).unwrap_or_default();
        // SAFETY: context rule; the text ends in a zero, and is copied.
        unsafe { api!(RedisModule_ReplyWithError)(self.0, text.as_ptr()) };
    }

    pub(crate) fn reply_ok(self) {
        // SAFETY: context rule; the text is a constant that ends in a zero, and is copied.
        unsafe { api!(RedisModule_ReplyWithSimpleString)(self.0, c"OK".as_ptr()) };
    }

    pub(crate) fn reply_nil(self) {
        // SAFETY: context rule; nothing is kept of it.
        unsafe { api!(RedisModule_ReplyWithNull)(self.0) };
    }

    pub(crate) fn reply_int(self, value: i64) {
        // SAFETY: context rule; nothing is kept of it.
        unsafe { api!(RedisModule_ReplyWithLongLong)(self.0, value) };
    }

    fn reply_float(self, value: f64) {
        // SAFETY: context rule; nothing is kept of it.
        unsafe { api!(RedisModule_ReplyWithDouble)(self.0, value) };
    }

    pub(crate) fn reply_bytes(self, bytes: &[u8]) {
        // SAFETY: context rule; so many bytes are read, and copied.
        unsafe {
            api!(RedisModule_ReplyWithStringBuffer)(self.0, bytes.as_ptr().cast::<c_char>(), bytes.len())
        };
    }

    /// An operation's answer.
    pub(crate) fn reply(self, reply: &Reply) {
        match reply {
            Reply::Nil => self.reply_nil(),
            Reply::Ok => self.reply_ok(),
            Reply::Int(value) => self.reply_int(*value),
            Reply::Float(value) => self.reply_float(*value),
            Reply::Bytes(bytes) => self.reply_bytes(bytes),
            Reply::Array(items) => {
                self.reply_array(items.len());
                items.iter().for_each(|item| self.reply(item));
            }
            Reply::Failed(error) => self.reply_error(&error.to_string()),
        }
    }

    /// So many answers follow.
    pub(crate) fn reply_array(self, length: usize) {
        // SAFETY: context rule; nothing is kept of it.
        unsafe { api!(RedisModule_ReplyWithArray)(self.0, length as c_long) };
    }

    // --- waiting ---

    /// Makes the client wait. `answer` runs when it is let go. The server is not asked to look at the time: a client
    /// whose time ends just when it was let go would never be answered.
    pub(crate) fn block(self, answer: raw::RedisModuleCmdFunc) -> Blocked {
        // SAFETY: context and callback rules; no data is given that would have to be freed.
        Blocked(unsafe { api!(RedisModule_BlockClient)(self.0, answer, None, None, 0) })
    }

    /// Whether this answers a client that waited, and is no command of its own.
    pub(crate) fn blocked_answers(self) -> bool {
        // SAFETY: context rule; nothing is kept of it.
        unsafe { api!(RedisModule_IsBlockedReplyRequest)(self.0) != 0 }
    }

    /// The number with which the client was released: in its answer.
    pub(crate) fn released_with(self) -> u64 {
        // SAFETY: context rule; the pointer is the number that the client was released with, and is never followed.
        unsafe { api!(RedisModule_GetBlockedClientPrivateData)(self.0).addr() as u64 }
    }

    /// A configuration, event or command registration of the server's answered no.
    pub(crate) fn accepted(status: c_int) -> Result<(), Rejected> {
        if status == raw::REDISMODULE_OK as c_int { Ok(()) } else { Err(Rejected) }
    }
}

impl Blocked {
    /// Lets it go: its answer runs soon, in the main loop, and finds this number with
    /// [`Ctx::released_with`]. After the end of its connection nothing runs, and the handle is freed.
    pub(crate) fn release(self, number: u64) {
        // SAFETY: the handle is one of `block`, and is released once: a part hands out each client once (`poll_released` and its
        // kin take it from its place), and who is told by `on_disconnect` that it is gone takes it from there, too. The number is
        // never followed.
        unsafe { api!(RedisModule_UnblockClient)(self.0, without_provenance_mut(number as usize)) };
    }

    /// Calls `gone` when the client's connection is closed meanwhile.
    pub(crate) fn on_disconnect(self, gone: raw::RedisModuleDisconnectFunc) {
        // SAFETY: callback rule; the handle is one of `block`, whose client is not released yet: it is called right after that.
        unsafe { api!(RedisModule_SetDisconnectCallback)(self.0, gone) };
    }

    /// The handle that the server names.
    pub(crate) fn from_raw(raw: *mut raw::RedisModuleBlockedClient) -> Self {
        Blocked(raw)
    }
}
