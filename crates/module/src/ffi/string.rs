//! The server's strings: arguments of a command, and those made to call the server.

use std::ffi::c_char;
use std::marker::PhantomData;
use std::ptr::null_mut;

use claret_types::Bytes;
use redis_module::raw;

use super::api;

/// An argument of a command: the server's, for as long as the command runs.
#[derive(Clone, Copy)]
pub(crate) struct Arg<'a> {
    raw: *mut raw::RedisModuleString,
    command: PhantomData<&'a ()>,
}

impl<'a> Arg<'a> {
    /// # Safety
    /// The string lives as long as `'a`.
    pub(crate) unsafe fn new(raw: *mut raw::RedisModuleString) -> Self {
        Arg { raw, command: PhantomData }
    }

    pub(super) fn raw(self) -> *mut raw::RedisModuleString {
        self.raw
    }

    #[inline]
    pub(crate) fn bytes(self) -> &'a [u8] {
        // SAFETY: string rule: it lives as long as `'a`, and nobody writes to it.
        unsafe { slice(self.raw) }
    }

    pub(crate) fn text(self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()).ok()
    }

    /// The number that it writes out.
    pub(crate) fn number<N: std::str::FromStr>(self) -> Option<N> {
        self.text()?.parse().ok()
    }

    /// The number that the server reads in it, whichever way it is written.
    pub(crate) fn float(self) -> Option<f64> {
        let mut number = 0.0;
        // SAFETY: string rule; the number is written only if there is one.
        let status = unsafe { api!(RedisModule_StringToDouble)(self.raw, &mut number) };
        (status == redis_module::raw::REDISMODULE_OK as std::ffi::c_int).then_some(number)
    }

    pub(crate) fn is(self, word: &str) -> bool {
        self.bytes().eq_ignore_ascii_case(word.as_bytes())
    }

    pub(crate) fn to_bytes(self) -> Bytes {
        Bytes::copy_from(self.bytes())
    }
}

/// A string of the server's that the module made, or was given to keep.
pub(crate) struct Text(*mut raw::RedisModuleString);

impl Text {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        // SAFETY: so many bytes are read, and copied; without a context the count is the caller's, which is `self` (string rule).
        Text(unsafe {
            api!(RedisModule_CreateString)(null_mut(), bytes.as_ptr().cast::<c_char>(), bytes.len())
        })
    }

    /// The same string, kept for longer than the command that it came with.
    pub(crate) fn of(arg: Arg<'_>) -> Self {
        // SAFETY: string rule: it lives; without a context the new count is the caller's, which is `self`.
        unsafe { api!(RedisModule_RetainString)(null_mut(), arg.raw) };
        Text(arg.raw)
    }

    /// # Safety
    /// The string is the caller's to free, or null.
    pub(super) unsafe fn take(raw: *mut raw::RedisModuleString) -> Option<Self> {
        (!raw.is_null()).then(|| Text(raw))
    }

    pub(super) fn raw(&self) -> *mut raw::RedisModuleString {
        self.0
    }

    /// The same string, for the server to read at once.
    pub(crate) fn raw_borrowed(&self) -> *mut raw::RedisModuleString {
        self.0
    }

    /// As an argument of a command.
    pub(crate) fn arg(&self) -> Arg<'_> {
        Arg { raw: self.0, command: PhantomData }
    }

    /// The server's from now on.
    pub(crate) fn into_raw(self) -> *mut raw::RedisModuleString {
        std::mem::ManuallyDrop::new(self).0
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: string rule: it lives as long as `self`, and nobody writes to it.
        unsafe { slice(self.0) }
    }
}

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        // SAFETY: string rule: this gives back the one count, which was made without a context.
        unsafe { api!(RedisModule_FreeString)(null_mut(), self.0) }
    }
}

/// # Safety
/// The string lives as long as `'a`.
#[inline]
unsafe fn slice<'a>(raw: *const raw::RedisModuleString) -> &'a [u8] {
    let mut length = 0;
    // SAFETY: as the caller promises, the string lives; the server says where its bytes are and how many.
    unsafe {
        let start = api!(RedisModule_StringPtrLen)(raw, &mut length);
        std::slice::from_raw_parts(start.cast::<u8>(), length)
    }
}
