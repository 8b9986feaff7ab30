//! Settings: `CONFIG SET claret.*`, or `claret.* value` after `loadmodule` in the configuration file.

use std::ffi::{CString, c_char, c_int, c_longlong, c_uint, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use redis_module::raw;

use crate::ffi::{Ctx, Rejected, Text, api};
use crate::node::settings::{SETTINGS, Setting};

/// The configuration file has been read: from here on, what is fixed is fixed. The server's own flag for that
/// (`REDISMODULE_CONFIG_IMMUTABLE`) refuses the present value too, and so whoever sets each setting to what it is.
static LOADED: AtomicBool = AtomicBool::new(false);

/// Registers all settings and takes over what the configuration file says.
pub(crate) fn register(ctx: Ctx) -> Result<(), Rejected> {
    for setting in SETTINGS {
        let name = CString::new(setting.name).expect("a constant without zeros");
        let place: *const Setting = setting;
        // SAFETY: context and callback rules; the name ends in a zero, and is copied; the setting is static, and `get` and `set`, which
        // get it back, take it for a `Setting`.
        let status = unsafe {
            api!(RedisModule_RegisterNumericConfig)(
                ctx.raw(),
                name.as_ptr(),
                setting.default,
                raw::REDISMODULE_CONFIG_DEFAULT as c_uint,
                setting.min,
                setting.max,
                Some(get),
                Some(set),
                None,
                place.cast_mut().cast::<c_void>(),
            )
        };
        Ctx::accepted(status)?;
    }
    // SAFETY: context rule; all settings are registered, which the server asks for.
    Ctx::accepted(unsafe { api!(RedisModule_LoadConfigs)(ctx.raw()) })?;
    LOADED.store(true, Ordering::Relaxed);
    Ok(())
}

unsafe extern "C" fn get(_: *const c_char, setting: *mut c_void) -> c_longlong {
    // SAFETY: it is what this function was registered with: a `Setting`, which is static and shared.
    unsafe { &*setting.cast::<Setting>() }.value.load(Ordering::Relaxed)
}

unsafe extern "C" fn set(
    _: *const c_char,
    value: c_longlong,
    setting: *mut c_void,
    refusal: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: it is what this function was registered with: a `Setting`, which is static and shared.
    let setting = unsafe { &*setting.cast::<Setting>() };
    if setting.fixed && LOADED.load(Ordering::Relaxed) && setting.value.load(Ordering::Relaxed) != value {
        // SAFETY: the place is the server's, and may be written until this returns; the count of the string is the server's then.
        unsafe { *refusal = Text::new(b"can't set immutable config").into_raw() };
        return raw::REDISMODULE_ERR as c_int;
    }
    setting.value.store(value, Ordering::Relaxed);
    raw::REDISMODULE_OK as c_int
}
