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
        let (ctx, command) = (self.raw(), command.as_ptr());
        // SAFETY: context rule; each format with which this is called ends in `v`, which reads so many strings of `list`; and each `s`
        // in place of it reads one. They live beyond the call (string rule).
        let reply = unsafe {
            // For `v` the server makes its list anew.
            match (flags.to_bytes(), &list[..]) {
                (b"!Ev", [one]) => api!(RedisModule_Call)(ctx, command, c"!Es".as_ptr(), *one),
                (b"!Ev", [one, two]) => api!(RedisModule_Call)(ctx, command, c"!Ess".as_ptr(), *one, *two),
                (b"!Ev", [one, two, three]) => {
                    api!(RedisModule_Call)(ctx, command, c"!Esss".as_ptr(), *one, *two, *three)
                }
                _ => api!(RedisModule_Call)(ctx, command, flags.as_ptr(), list.as_ptr(), list.len()),
            }
        };
        CallReply::answer(reply)
    }
}

impl Ctx {
    /// Runs a command of a key and a value, and passes it on. The value is the server's alone, which makes of it what it is
    /// kept as: of a string that a module holds as well it would make nothing compact.
    pub(crate) fn call_with_value(self, command: &CStr, key: &Text, value: &[u8]) -> Answer {
        let _running = Running::own();
        // SAFETY: context rule; the format's `s` reads a string, and `b` bytes and their number, which follow in this order and live
        // beyond the call (string rule).
        let reply = unsafe {
            api!(RedisModule_Call)(
                self.raw(),
                command.as_ptr(),
                c"!Esb".as_ptr(),
                key.raw(),
                value.as_ptr().cast::<c_char>(),
                value.len(),
            )
        };
        CallReply::answer(reply)
    }
}

impl CallReply {
    fn answer(reply: *mut raw::RedisModuleCallReply) -> Answer {
        if reply.is_null() {
            return Answer::Error(format!("ERR {}", std::io::Error::last_os_error()));
        }
        CallReply(reply).read()
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
