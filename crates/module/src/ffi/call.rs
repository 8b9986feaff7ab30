//! Commands that the module runs, and their replies.

use std::ffi::{CStr, c_char};

use claret_types::Bytes;
use redis_module::raw;
use smallvec::SmallVec;

use super::filter::Running;
use super::{Ctx, Text, api};

/// What a command answered.
pub(crate) struct CallReply(*mut raw::RedisModuleCallReply);

/// The answer, read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Nil,
    Int(i64),
    Bytes(Bytes),
    Array(Vec<Answer>),
    /// With its code first, as clients see it.
    Error(String),
}

impl Ctx {
    /// Runs a command. `flags` are those of `RM_Call`; errors come back as answers, also those of the call itself.
    pub(crate) fn call<'a>(
        self,
        command: &CStr,
        flags: &CStr,
        arguments: impl IntoIterator<Item = &'a Text>,
    ) -> Answer {
        let list: SmallVec<[*mut raw::RedisModuleString; 8]> = arguments.into_iter().map(Text::raw).collect();
        let _running = Running::own();
        // SAFETY: context rule; each format with which this is called ends in `v`, which reads so many strings of `list`. They live
        // beyond the call (string rule).
        let reply = unsafe {
            api!(RedisModule_Call)(self.raw(), command.as_ptr(), flags.as_ptr(), list.as_ptr(), list.len())
        };
        CallReply::answer(reply)
    }

    /// What a directive of the server's configuration is set to.
    pub(crate) fn config(self, name: &str) -> Option<Bytes> {
        let words = [b"GET", name.as_bytes()].map(Text::new);
        self.call(c"CONFIG", c"Ev", &words).list().nth(1)
    }

    /// The value of a field of `INFO`, which has a section; an empty one if it has no such field.
    pub(crate) fn info(self, section: &str, field: &str) -> Option<String> {
        let Answer::Bytes(info) = self.call(c"INFO", c"Ev", &[Text::new(section.as_bytes())]) else {
            return None;
        };
        let text = String::from_utf8_lossy(&info);
        let value = text.lines().find_map(|line| line.trim_end().strip_prefix(field)?.strip_prefix(':'));
        Some(value.unwrap_or_default().to_owned())
    }

    /// Runs a command for what it does, and passes it on if it is to be: of its answer only an error is read, and anything else is
    /// nil. The server makes strings of the words that are its alone. Of such a one it makes what it is kept as, such as a number;
    /// of one that a module holds as well it would make nothing compact.
    pub(crate) fn run(self, command: &CStr, passes_on: bool, words: &[&[u8]]) -> Answer {
        let (ctx, name) = (self.raw(), command.as_ptr());
        let start = |at: usize| words[at].as_ptr().cast::<c_char>();
        let length = |at: usize| words[at].len();
        let format = |passing: &'static CStr, staying: &'static CStr| {
            if passes_on { passing.as_ptr() } else { staying.as_ptr() }
        };
        let _running = Running::own();
        // SAFETY: context rule; each `b` of a format reads the beginning and the length of a word, which follow in this order and live
        // beyond the call.
        let reply = unsafe {
            let call = api!(RedisModule_Call);
            match words.len() {
                1 => call(ctx, name, format(c"!Eb", c"Eb"), start(0), length(0)),
                2 => call(ctx, name, format(c"!Ebb", c"Ebb"), start(0), length(0), start(1), length(1)),
                3 => {
                    let format = format(c"!Ebbb", c"Ebbb");
                    call(ctx, name, format, start(0), length(0), start(1), length(1), start(2), length(2))
                }
                _ => {
                    let texts: Vec<Text> = words.iter().map(|word| Text::new(word)).collect();
                    return self.call(command, format_of_many(passes_on), &texts);
                }
            }
        };
        CallReply::error(reply)
    }
}

/// The flags of `RM_Call` with a list of strings.
fn format_of_many(passes_on: bool) -> &'static CStr {
    if passes_on { c"!Ev" } else { c"Ev" }
}

impl CallReply {
    fn answer(reply: *mut raw::RedisModuleCallReply) -> Answer {
        if reply.is_null() {
            return Answer::Error(format!("ERR {}", std::io::Error::last_os_error()));
        }
        CallReply(reply).read()
    }

    /// The error, if it is one, and otherwise nil.
    fn error(reply: *mut raw::RedisModuleCallReply) -> Answer {
        if reply.is_null() {
            return CallReply::answer(reply);
        }
        let (reply, mut length) = (CallReply(reply), 0);
        // SAFETY: the reply is not null, and lives; the server gives the bytes of what was answered, so many, which live as long as it.
        let is_error = unsafe {
            let start = api!(RedisModule_CallReplyProto)(reply.0, &mut length).cast::<u8>();
            !start.is_null() && length > 0 && *start == b'-'
        };
        if is_error { reply.read() } else { Answer::Nil }
    }

    fn read(&self) -> Answer {
        read(self.0)
    }
}

impl Drop for CallReply {
    fn drop(&mut self) {
        // SAFETY: the reply is one of `RM_Call`, not null, and owned by `self` alone: freed here, once, with those nested in it.
        unsafe { api!(RedisModule_FreeCallReply)(self.0) }
    }
}

fn read(reply: *mut raw::RedisModuleCallReply) -> Answer {
    if reply.is_null() {
        return Answer::Nil;
    }
    // SAFETY: the reply, not null, is that of a `CallReply` which is borrowed, or a part of it; each function is asked of the type
    // that it is for.
    unsafe {
        match api!(RedisModule_CallReplyType)(reply) as isize {
            raw::REDISMODULE_REPLY_INTEGER => Answer::Int(api!(RedisModule_CallReplyInteger)(reply)),
            raw::REDISMODULE_REPLY_STRING => Answer::Bytes(Bytes::copy_from(text_of(reply))),
            raw::REDISMODULE_REPLY_ERROR => {
                Answer::Error(String::from_utf8_lossy(text_of(reply)).into_owned())
            }
            raw::REDISMODULE_REPLY_ARRAY => {
                let length = api!(RedisModule_CallReplyLength)(reply);
                let part = |at| read(api!(RedisModule_CallReplyArrayElement)(reply, at));
                Answer::Array((0..length).map(part).collect())
            }
            _ => Answer::Nil,
        }
    }
}

/// # Safety
/// The reply is a string or an error, and outlives the slice.
pub(super) unsafe fn text_of<'a>(reply: *mut raw::RedisModuleCallReply) -> &'a [u8] {
    let mut length = 0;
    // SAFETY: as the caller promises; the server gives null, or so many bytes, which live as long as the reply.
    unsafe {
        let start = api!(RedisModule_CallReplyStringPtr)(reply, &mut length);
        if start.is_null() { &[] } else { std::slice::from_raw_parts(start.cast::<u8>(), length) }
    }
}

impl Answer {
    pub(crate) fn int(self) -> Option<i64> {
        match self {
            Answer::Int(value) => Some(value),
            Answer::Nil | Answer::Bytes(_) | Answer::Array(_) | Answer::Error(_) => None,
        }
    }

    pub(crate) fn bytes(self) -> Option<Bytes> {
        match self {
            Answer::Bytes(bytes) => Some(bytes),
            Answer::Nil | Answer::Int(_) | Answer::Array(_) | Answer::Error(_) => None,
        }
    }

    /// How many elements and bytes it has.
    pub(crate) fn size(&self) -> (usize, usize) {
        match self {
            Answer::Nil | Answer::Int(_) => (0, 0),
            Answer::Bytes(bytes) => (0, bytes.len()),
            Answer::Error(text) => (0, text.len()),
            Answer::Array(items) => items
                .iter()
                .map(Answer::size)
                .fold((items.len(), 0), |all, item| (all.0 + item.0, all.1 + item.1)),
        }
    }

    /// Whether it is this text.
    pub(crate) fn is(&self, text: &str) -> bool {
        matches!(self, Answer::Bytes(bytes) if **bytes == *text.as_bytes())
    }

    /// Its items; none of anything but an array.
    pub(crate) fn items(self) -> Vec<Answer> {
        match self {
            Answer::Array(items) => items,
            Answer::Nil | Answer::Int(_) | Answer::Bytes(_) | Answer::Error(_) => Vec::new(),
        }
    }

    /// The byte strings in it.
    pub(crate) fn list(self) -> impl Iterator<Item = Bytes> {
        self.items().into_iter().filter_map(Answer::bytes)
    }
}
