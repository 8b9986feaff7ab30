//! Settings: `CONFIG SET claret.*`, or `claret.* value` after `loadmodule` in the configuration file.

use std::ffi::{CString, c_char, c_int, c_longlong, c_uint, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use redis_module::raw;

use crate::ffi::{Arg, Ctx, Rejected, Text, api};
use crate::node::settings::{self, PEER_SECRET_FILE, SCHEMA, Setting, TextSetting};

/// The configuration file has been read: from here on, what is fixed is fixed. The server's own flag for that
/// (`REDISMODULE_CONFIG_IMMUTABLE`) refuses the present value too, and so whoever sets each setting to what it is.
static LOADED: AtomicBool = AtomicBool::new(false);

/// Registers all settings and takes over what the configuration file says.
pub(crate) fn register(ctx: Ctx) -> Result<(), Rejected> {
    for setting in settings::all() {
        let name = CString::new(setting.name).expect("a constant without zeros");
        let place: *const Setting = setting;
        let place = place.cast_mut().cast::<c_void>();
        let flags = raw::REDISMODULE_CONFIG_DEFAULT as c_uint;
        let mut words: Vec<*const c_char> = setting.words.iter().map(|word| word.as_ptr()).collect();
        let numbers: Vec<c_int> = (0..words.len() as c_int).collect();
        // SAFETY: context and callback rules; the name ends in a zero, and is copied, and so are the words and their numbers, as many
        // of these as of those; the setting is static, and the functions, which get it back, take it for a `Setting`.
        let status = unsafe {
            match words.is_empty() {
                true => api!(RedisModule_RegisterNumericConfig)(
                    ctx.raw(),
                    name.as_ptr(),
                    setting.default,
                    flags,
                    setting.min,
                    setting.max,
                    Some(get),
                    Some(set),
                    None,
                    place,
                ),
                false => api!(RedisModule_RegisterEnumConfig)(
                    ctx.raw(),
                    name.as_ptr(),
                    setting.default as c_int,
                    flags,
                    words.as_mut_ptr(),
                    numbers.as_ptr(),
                    words.len() as c_int,
                    Some(get_word),
                    Some(set_word),
                    None,
                    place,
                ),
            }
        };
        Ctx::accepted(status)?;
    }
    register_text(ctx, &PEER_SECRET_FILE)?;
    register_schema(ctx)?;
    // SAFETY: context rule; all settings are registered, which the server asks for.
    Ctx::accepted(unsafe { api!(RedisModule_LoadConfigs)(ctx.raw()) })?;
    LOADED.store(true, Ordering::Relaxed);
    Ok(())
}

fn register_text(ctx: Ctx, setting: &'static TextSetting) -> Result<(), Rejected> {
    setting.value.set(Some(Text::new(b"")));
    let name = CString::new(setting.name).expect("a constant without zeros");
    let place: *const TextSetting = setting;
    // SAFETY: context and callback rules; the name ends in a zero, and is copied; the setting is static, and the functions, which get
    // it back, take it for a `TextSetting`.
    Ctx::accepted(unsafe {
        api!(RedisModule_RegisterStringConfig)(
            ctx.raw(),
            name.as_ptr(),
            c"".as_ptr(),
            raw::REDISMODULE_CONFIG_DEFAULT as c_uint,
            Some(get_text),
            Some(set_text),
            None,
            place.cast_mut().cast::<c_void>(),
        )
    })
}

fn register_schema(ctx: Ctx) -> Result<(), Rejected> {
    SCHEMA.set(b"").expect("it is the schema without prefixes");
    let name = CString::new(SCHEMA.name).expect("a constant without zeros");
    // SAFETY: context and callback rules; the name and the default end in zeros, and are copied; the functions take no data.
    Ctx::accepted(unsafe {
        api!(RedisModule_RegisterStringConfig)(
            ctx.raw(),
            name.as_ptr(),
            c"".as_ptr(),
            raw::REDISMODULE_CONFIG_DEFAULT as c_uint,
            Some(get_schema),
            Some(set_schema),
            None,
            std::ptr::null_mut(),
        )
    })
}

unsafe extern "C" fn get_schema(_: *const c_char, _: *mut c_void) -> *mut raw::RedisModuleString {
    // The count stays the setting's: the server copies the text at once.
    SCHEMA.with_text(Text::raw_borrowed).unwrap_or_else(std::ptr::null_mut)
}

unsafe extern "C" fn set_schema(
    _: *const c_char,
    value: *mut raw::RedisModuleString,
    _: *mut c_void,
    refusal: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the server's string lives until this returns.
    let value = unsafe { Arg::new(value) };
    match SCHEMA.set(value.bytes()) {
        Ok(()) => raw::REDISMODULE_OK as c_int,
        Err(why) => {
            // SAFETY: the place is the server's, and may be written until this returns; the count of the string is the server's then.
            unsafe { *refusal = Text::new(why.as_bytes()).into_raw() };
            raw::REDISMODULE_ERR as c_int
        }
    }
}

unsafe extern "C" fn get_text(_: *const c_char, setting: *mut c_void) -> *mut raw::RedisModuleString {
    // SAFETY: it is what this function was registered with: a `TextSetting`, which is static and shared.
    let setting = unsafe { &*setting.cast::<TextSetting>() };
    // The count stays the setting's: the server copies the text at once.
    setting.value.with(|text| text.raw_borrowed()).unwrap_or_else(std::ptr::null_mut)
}

unsafe extern "C" fn set_text(
    _: *const c_char,
    value: *mut raw::RedisModuleString,
    setting: *mut c_void,
    refusal: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: it is what this function was registered with: a `TextSetting`, which is static and shared; the server's string lives
    // until this returns.
    let (setting, value) = unsafe { (&*setting.cast::<TextSetting>(), Arg::new(value)) };
    let is_same = setting.get() == value.bytes();
    if LOADED.load(Ordering::Relaxed) && !is_same {
        // SAFETY: the place is the server's, and may be written until this returns; the count of the string is the server's then.
        unsafe { *refusal = Text::new(b"can't set immutable config").into_raw() };
        return raw::REDISMODULE_ERR as c_int;
    }
    if !is_same {
        setting.value.set(Some(Text::new(value.bytes())));
    }
    raw::REDISMODULE_OK as c_int
}

unsafe extern "C" fn get_word(name: *const c_char, setting: *mut c_void) -> c_int {
    // SAFETY: as the server calls this, so may [`get`] be called.
    unsafe { get(name, setting) as c_int }
}

unsafe extern "C" fn set_word(
    name: *const c_char,
    value: c_int,
    setting: *mut c_void,
    refusal: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: as the server calls this, so may [`set`] be called.
    unsafe { set(name, c_longlong::from(value), setting, refusal) }
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
