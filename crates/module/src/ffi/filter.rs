//! The command filter: what a module can see and change of each command before the server looks the command up.

use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::ptr::null_mut;

use redis_module::raw;

use super::call::text_of;
use super::{Arg, Ctx, Flag, Rejected, Text, api};

/// What a command answered that was run for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    Nil,
    Error,
    Value,
}

/// The command that a filter looks at. Its words may be replaced and added to.
#[derive(Clone, Copy)]
pub(crate) struct Filtered(*mut raw::RedisModuleCommandFilterCtx);

/// Where a key is among the words of a command, and how it is used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) at: usize,
    flags: c_int,
}

impl Place {
    /// Whether the key is only read.
    pub(crate) fn is_read(self) -> bool {
        self.flags.unsigned_abs() & raw::REDISMODULE_CMD_KEY_RO != 0
    }
}

impl Filtered {
    /// # Safety
    /// What the server just called a filter with.
    pub(crate) unsafe fn new(raw: *mut raw::RedisModuleCommandFilterCtx) -> Self {
        Filtered(raw)
    }

    /// How many words it has.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        // SAFETY: `self` is made by the filter of what it is called with, and does not leave that call.
        usize::try_from(unsafe { api!(RedisModule_CommandFilterArgsCount)(self.0) }).unwrap_or(0)
    }

    /// One of its words.
    #[inline]
    pub(crate) fn word(&self, at: usize) -> Option<&[u8]> {
        // SAFETY: the same; a place that is none gives null, and a string that is not null lives while the filter runs, as long as
        // `self` is borrowed: [`Filtered::insert`] only adds.
        unsafe {
            let word = api!(RedisModule_CommandFilterArgGet)(self.0, at as c_int);
            (!word.is_null()).then(|| Arg::new(word).bytes())
        }
    }

    /// All of them, to ask the server about.
    pub(crate) fn words(&self) -> Vec<Text> {
        (0..self.len()).filter_map(|at| self.word(at)).map(Text::new).collect()
    }

    /// Puts a word in.
    pub(crate) fn insert(&self, at: usize, word: &[u8]) {
        let word = Text::new(word).into_raw();
        // SAFETY: the same; the place is at most the number of words, which the server checks; the count of the string is the server's
        // from now on (`into_raw`).
        unsafe { api!(RedisModule_CommandFilterArgInsert)(self.0, at as c_int, word) };
    }

    /// The server's number of the client, where it tells: Valkey 8 and Redis 7.2.
    pub(crate) fn client(&self) -> Option<u64> {
        // SAFETY: function rule: null where the server lacks it; `self` is the filter's, which runs.
        unsafe { raw::RedisModule_CommandFilterGetClientId.map(|ask| ask(self.0)) }
    }
}

/// Whose command runs within the module, if any does. The server has a flag by which a filter is not shown what its
/// module runs; a second filter for what scripts then call would cost every command of every client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runs {
    Nothing,
    /// The module's own.
    Own,
    /// A client's, which may be a script.
    ForClient,
}

struct RunningCommand(Cell<Runs>);

// SAFETY: thread rule: a `Cell` that one thread alone reaches.
unsafe impl Sync for RunningCommand {}

static RUNNING: RunningCommand = RunningCommand(Cell::new(Runs::Nothing));

/// Puts back what was so before.
pub(super) struct Running(Runs);

impl Running {
    /// The module runs a command of its own.
    pub(super) fn own() -> Self {
        Running(RUNNING.0.replace(Runs::Own))
    }

    fn for_client() -> Self {
        Running(RUNNING.0.replace(Runs::ForClient))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.0.set(self.0);
    }
}

impl Ctx {
    /// From now on every command is seen by this function first.
    pub(crate) fn filter(
        self,
        filter: unsafe extern "C" fn(*mut raw::RedisModuleCommandFilterCtx),
    ) -> Result<(), Rejected> {
        // SAFETY: context and callback rules.
        let made = unsafe { api!(RedisModule_RegisterCommandFilter)(self.raw(), Some(filter), 0) };
        if made.is_null() { Err(Rejected) } else { Ok(()) }
    }

    /// A context that belongs to nobody, for where the server gives none. Good for questions and for the log; nothing
    /// may be written with it, and nothing read that could expire.
    pub(crate) fn detached(self) -> Ctx {
        // SAFETY: context rule; the new one is never freed, so it is valid as long as the server.
        unsafe { Ctx::new(api!(RedisModule_GetDetachedThreadSafeContext)(self.raw())) }
    }

    /// Where the keys of a command are, and how each is used. Empty for what is no command, or has none.
    pub(crate) fn keys_of(self, words: &[Text]) -> Vec<Place> {
        let list: Vec<*mut raw::RedisModuleString> = words.iter().map(Text::raw).collect();
        let (mut count, mut flags) = (0, std::ptr::null_mut());
        // SAFETY: context and string rules; `list` and the strings in it live in `words` beyond the call. What comes back is null, or an
        // array of `count` numbers, and so is `flags`; both are the caller's to free, once, below.
        unsafe {
            let found = api!(RedisModule_GetCommandKeysWithFlags)(
                self.raw(),
                list.as_ptr().cast_mut(),
                list.len() as c_int,
                &mut count,
                &mut flags,
            );
            if found.is_null() {
                return Vec::new();
            }
            let length = usize::try_from(count).unwrap_or(0);
            let places = std::slice::from_raw_parts(found, length);
            let use_of = |at: usize| if flags.is_null() { 0 } else { *flags.add(at) };
            let keys = places.iter().enumerate();
            let keys = keys.map(|(at, place)| Place { at: *place as usize, flags: use_of(at) }).collect();
            api!(RedisModule_Free)(found.cast());
            if !flags.is_null() {
                api!(RedisModule_Free)(flags.cast());
            }
            keys
        }
    }

    /// Whether the server only asks for the places of the keys; then they are named.
    pub(crate) fn asks_for_keys(self) -> bool {
        // SAFETY: context rule; nothing is kept of it.
        unsafe { api!(RedisModule_IsKeysPositionRequest)(self.raw()) != 0 }
    }

    /// Names the place of a key, so many words further on, and its use: what its user needs a right to.
    pub(crate) fn key_at(self, place: Place, further: usize) {
        let at = (place.at + further) as c_int;
        // SAFETY: context rule; it does nothing but in answer to the question.
        unsafe { api!(RedisModule_KeyAtPosWithFlags)(self.raw(), at, place.flags) };
    }

    /// The database that the client has selected.
    pub(crate) fn database(self) -> i32 {
        // SAFETY: context rule; nothing is kept of it.
        unsafe { api!(RedisModule_GetSelectedDb)(self.raw()) }
    }

    /// Runs a plain command for its client and with the client's rights, passes it on, and hands its answer through.
    /// One of this kind is not handed on.
    pub(crate) fn run_for_client(self, words: &[Arg<'_>], withheld: Option<Answered>) -> Answered {
        self.run_with(c"!0CEMv", words, withheld)
    }

    /// The same for one that slept: Redis 7.0 does not ask again whether there is memory for it. Nothing if it is a nil.
    pub(crate) fn run_for_blocked_client(self, words: &[Arg<'_>]) -> bool {
        let format = if Ctx::is_before_7_2() { c"!0CEv" } else { c"!0CEMv" };
        self.run_with(format, words, Some(Answered::Nil)) != Answered::Nil
    }

    fn run_with(self, format: &CStr, words: &[Arg<'_>], withheld: Option<Answered>) -> Answered {
        let Some((name, rest)) = words.split_first() else { return Answered::Nil };
        let Ok(command) = std::ffi::CString::new(name.bytes()) else {
            self.reply_error("ERR unknown command");
            return Answered::Error;
        };
        let list: Vec<*mut raw::RedisModuleString> = rest.iter().map(|word| word.raw()).collect();
        // Within a script there is no other one.
        let _running = if self.is(Flag::Lua) { Running::own() } else { Running::for_client() };
        // SAFETY: context rule; the format's `v` reads so many strings of `list`, which live as long as the command's words (string
        // rule). The reply is null, or the caller's and freed once, at the end; nothing of it is used after that.
        unsafe {
            let reply = api!(RedisModule_Call)(
                self.raw(),
                command.as_ptr(),
                format.as_ptr(),
                list.as_ptr(),
                list.len(),
            );
            if reply.is_null() {
                self.reply_error(&format!("ERR {}", std::io::Error::last_os_error()));
                return Answered::Error;
            }
            let kind = api!(RedisModule_CallReplyType)(reply) as isize;
            let answered = match kind {
                raw::REDISMODULE_REPLY_NULL => Answered::Nil,
                _ if kind == raw::REDISMODULE_REPLY_ERROR => Answered::Error,
                _ => Answered::Value,
            };
            if let Some(line) = as_for_clients(reply, name.bytes()) {
                self.reply_error(&line);
            } else if withheld != Some(answered) {
                api!(RedisModule_ReplyWithCallReply)(self.raw(), reply);
            }
            api!(RedisModule_FreeCallReply)(reply);
            answered
        }
    }

    /// Whether the command that a filter is shown is a client's: not one that the module runs, but one of a script that
    /// [`run_for_client`](Ctx::run_for_client) began.
    pub(crate) fn filters_for_client() -> bool {
        match RUNNING.0.get() {
            Runs::Nothing => true,
            Runs::Own => false,
            Runs::ForClient => Ctx::filters_in_script(),
        }
    }

    /// Whether the server is Redis 7.0, which serves who slept without running the command again.
    pub(crate) fn is_before_7_2() -> bool {
        // SAFETY: function rule; it is looked at, and not called.
        let ask = unsafe { raw::RedisModule_CommandFilterGetClientId };
        ask.is_none()
    }

    /// Whether the command that a filter is shown is a script's.
    pub(crate) fn filters_in_script() -> bool {
        // SAFETY: function rule; it takes nothing.
        let flags = unsafe { api!(RedisModule_GetContextFlags)(null_mut()) };
        flags & Flag::Lua as c_int != 0
    }

    /// Makes the client wait until something happens to one of the keys. `answer` is asked then, and says with its result
    /// whether that was it.
    pub(crate) fn block_on_keys(
        self,
        keys: &[Text],
        answer: raw::RedisModuleCmdFunc,
        late: raw::RedisModuleCmdFunc,
        millis: u64,
    ) {
        let mut list: Vec<*mut raw::RedisModuleString> = keys.iter().map(Text::raw).collect();
        // SAFETY: context and callback rules; so many strings are read of `list`, which live beyond the call, and of which the server
        // keeps counts of its own (string rule); no data is given that would have to be freed.
        unsafe {
            api!(RedisModule_BlockClientOnKeys)(
                self.raw(),
                answer,
                late,
                None,
                millis as i64,
                list.as_mut_ptr(),
                list.len() as c_int,
                std::ptr::null_mut(),
            )
        };
    }

    /// Has those who wait for a key asked again.
    pub(crate) fn signal(self, key: &[u8]) {
        let key = Text::new(key);
        // SAFETY: context and string rules; the server keeps a count of its own.
        unsafe { api!(RedisModule_SignalKeyAsReady)(self.raw(), key.raw()) };
    }

    /// The nil of a command that answers with an array.
    pub(crate) fn reply_nil_array(self) {
        // SAFETY: context rule; nothing is kept of it.
        unsafe { api!(RedisModule_ReplyWithNullArray)(self.raw()) };
    }
}

const SLOT_LEFT: &str = "TRYAGAIN the slot of the command's keys left this node, or is leaving it, while the command waited; nothing was done, try again";

/// What the server tells a module that ran a client's command and would not tell the client: that it may not run it (Redis 7.0
/// has other words for modules), and that the keys are not here any more. A client is then to ask again: the server looks
/// at the slot of a command when it comes, not once more when it has waited, and redirects.
///
/// # Safety
/// The reply is alive.
unsafe fn as_for_clients(reply: *mut raw::RedisModuleCallReply, name: &[u8]) -> Option<String> {
    // SAFETY: as the caller promises, the reply is alive; its text lives as long as that, and does not leave this call.
    let said = unsafe {
        let is_error = api!(RedisModule_CallReplyType)(reply) as isize == raw::REDISMODULE_REPLY_ERROR;
        if !is_error {
            return None;
        }
        text_of(reply)
    };
    if said == b"ERR Attempted to access a non local key in a cluster node" {
        return Some(SLOT_LEFT.to_owned());
    }
    let why = said.strip_prefix(b"ERR acl verification failed, ")?;
    let what = if why.starts_with(b"can't run") {
        format!("run the '{}' command", name.escape_ascii().to_string().to_lowercase())
    } else if why.starts_with(b"can't access at least one of the channels") {
        "access one of the channels used as arguments".to_owned()
    } else {
        "access one of the keys used as arguments".to_owned()
    };
    Some(format!("NOPERM this user has no permissions to {what}"))
}
