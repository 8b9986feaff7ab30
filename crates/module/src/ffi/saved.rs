//! What the module puts into RDB files beside the records, and gets back from them.

use std::ffi::{CStr, c_char, c_int, c_void};

use redis_module::raw;

use super::{Ctx, Rejected, api};

/// What the server calls, with a file and a place in it, when it saves or loads one.
pub(crate) type Save = unsafe extern "C" fn(*mut raw::RedisModuleIO, c_int);
pub(crate) type Load = unsafe extern "C" fn(*mut raw::RedisModuleIO, c_int, c_int) -> c_int;

/// A file that is being saved. It does not leave the call that brought it.
pub(crate) struct Saved(*mut raw::RedisModuleIO);

/// A file that is being loaded. It does not leave the call that brought it.
pub(crate) struct Loaded(*mut raw::RedisModuleIO);

impl Ctx {
    /// Registers the part of RDB files that has this name, of nine envelopes. It follows the records. Without `save` there is none in the
    /// files of this node, and it reads those of others.
    pub(crate) fn keep_in_files(self, name: &CStr, save: Option<Save>, load: Load) -> Result<(), Rejected> {
        let mut methods = raw::RedisModuleTypeMethods {
            version: 4, // The largest that Redis 7.0 has.
            rdb_load: None,
            rdb_save: None,
            aof_rewrite: None,
            mem_usage: None,
            digest: None,
            free: None,
            aux_load: Some(load),
            aux_save: save,
            aux_save_triggers: raw::REDISMODULE_AUX_AFTER_RDB as c_int,
            free_effort: None,
            unlink: None,
            copy: None,
            defrag: None,
            mem_usage2: None,
            free_effort2: None,
            unlink2: None,
            copy2: None,
            aux_save2: None,
        };
        // SAFETY: the context is that of loading; the name ends in a zero, and the methods are copied. Their functions are never
        // unloaded (callback rule).
        let kind = unsafe { api!(RedisModule_CreateDataType)(self.raw(), name.as_ptr(), 0, &mut methods) };
        if kind.is_null() { Err(Rejected) } else { Ok(()) }
    }
}

impl Saved {
    /// # Safety
    /// It is what the server just called with, and this value does not outlive that call.
    pub(crate) unsafe fn new(raw: *mut raw::RedisModuleIO) -> Self {
        Saved(raw)
    }

    pub(crate) fn ctx(&self) -> Ctx {
        // SAFETY: the file is the server's current one (see `new`), and its context lives as long as this.
        unsafe { Ctx::new(api!(RedisModule_GetContextFromIO)(self.0)) }
    }

    pub(crate) fn number(&self, number: u64) {
        // SAFETY: the file is the server's current one (see `new`).
        unsafe { api!(RedisModule_SaveUnsigned)(self.0, number) }
    }

    pub(crate) fn bytes(&self, bytes: &[u8]) {
        // SAFETY: the file is the server's current one (see `new`); so many bytes are copied.
        unsafe { api!(RedisModule_SaveStringBuffer)(self.0, bytes.as_ptr().cast::<c_char>(), bytes.len()) }
    }
}

impl Loaded {
    /// # Safety
    /// It is what the server just called with, and this value does not outlive that call.
    pub(crate) unsafe fn new(raw: *mut raw::RedisModuleIO) -> Self {
        Loaded(raw)
    }

    pub(crate) fn ctx(&self) -> Ctx {
        // SAFETY: the file is the server's current one (see `new`), and its context lives as long as this.
        unsafe { Ctx::new(api!(RedisModule_GetContextFromIO)(self.0)) }
    }

    /// The next number; `None`: the file ends, or has something else.
    pub(crate) fn number(&self) -> Option<u64> {
        // SAFETY: the file is the server's current one (see `new`).
        let number = unsafe { api!(RedisModule_LoadUnsigned)(self.0) };
        self.is_well().then_some(number)
    }

    /// The next bytes; `None`: the file ends, or has something else.
    pub(crate) fn bytes(&self) -> Option<Vec<u8>> {
        let mut length = 0;
        // SAFETY: the file is the server's current one (see `new`). What comes back is null, or so many bytes that are the caller's, and
        // are given back once.
        unsafe {
            let start = api!(RedisModule_LoadStringBuffer)(self.0, &mut length);
            if start.is_null() {
                return None;
            }
            let bytes = std::slice::from_raw_parts(start.cast::<u8>(), length).to_vec();
            api!(RedisModule_Free)(start.cast::<c_void>());
            self.is_well().then_some(bytes)
        }
    }

    fn is_well(&self) -> bool {
        // SAFETY: the file is the server's current one (see `new`).
        unsafe { api!(RedisModule_IsIOError)(self.0) == 0 }
    }
}
