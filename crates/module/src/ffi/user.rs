//! Users of the server's access control lists.

use std::ffi::c_int;

use redis_module::raw;

use super::{Ctx, Text, api};

/// A user, looked up for the time of one command and never kept: the lists may change between two commands.
pub(crate) struct User(*mut raw::RedisModuleUser);

impl Ctx {
    /// The name of the user that a client speaks as; `None` when the client is gone.
    pub(crate) fn user_of(self, client: u64) -> Option<Text> {
        // SAFETY: the context is valid; the name is the caller's to free.
        unsafe { Text::take(api!(RedisModule_GetClientUserNameById)(self.raw(), client)) }
    }
}

impl User {
    /// `None` when there is no such user any more.
    pub(crate) fn named(name: &Text) -> Option<User> {
        // SAFETY: the name lives; what comes back is the caller's to free.
        let raw = unsafe { api!(RedisModule_GetModuleUserFromUserName)(name.raw()) };
        (!raw.is_null()).then(|| User(raw))
    }

    /// The user's rules, as `ACL LIST` shows them; `None` where the server cannot tell.
    pub(crate) fn rules(&self) -> Option<Text> {
        // SAFETY: the function, where there is one, is never changed after loading.
        let get = unsafe { raw::RedisModule_GetModuleUserACLString }?;
        // SAFETY: the user lives; what comes back is the caller's to free.
        unsafe { Text::take(get(self.0)) }
    }

    /// Whether the user may run this command with these arguments, its keys among them.
    pub(crate) fn may_run(&self, command: &[&Text]) -> bool {
        let mut list: Vec<*mut raw::RedisModuleString> = command.iter().map(|text| text.raw()).collect();
        // SAFETY: so many strings, which live; the user does.
        let status = unsafe {
            api!(RedisModule_ACLCheckCommandPermissions)(self.0, list.as_mut_ptr(), list.len() as c_int)
        };
        status == raw::REDISMODULE_OK as c_int
    }

    /// Whether the user may read or write this key at all.
    pub(crate) fn may_see(&self, key: &Text) -> bool {
        self.may_look_at(key) || self.may_change(key)
    }

    /// Whether the user may change a key, by whatever command.
    pub(crate) fn may_change(&self, key: &Text) -> bool {
        self.has(key, raw::REDISMODULE_CMD_KEY_UPDATE)
    }

    /// Whether the user may look at a key, by whatever command.
    pub(crate) fn may_look_at(&self, key: &Text) -> bool {
        self.has(key, raw::REDISMODULE_CMD_KEY_ACCESS)
    }

    fn has(&self, key: &Text, flag: u32) -> bool {
        // SAFETY: the key lives; the user does.
        let status = unsafe { api!(RedisModule_ACLCheckKeyPermissions)(self.0, key.raw(), flag as c_int) };
        status == raw::REDISMODULE_OK as c_int
    }

    /// Puts into the server's log that the user was denied something: a command, key or channel by its name.
    pub(crate) fn log_denial(&self, ctx: Ctx, object: &Text, denial: Denial) {
        use raw::{
            RedisModuleACLLogEntryReason_REDISMODULE_ACL_LOG_AUTH as AUTH,
            RedisModuleACLLogEntryReason_REDISMODULE_ACL_LOG_CHANNEL as CHANNEL,
            RedisModuleACLLogEntryReason_REDISMODULE_ACL_LOG_CMD as CMD,
            RedisModuleACLLogEntryReason_REDISMODULE_ACL_LOG_KEY as KEY,
        };
        let reason = match denial {
            Denial::Login => AUTH,
            Denial::Command => CMD,
            Denial::Key => KEY,
            Denial::Channel => CHANNEL,
        };
        // SAFETY: the context is valid and has a client, as that of every entry; the user lives, and the text is copied.
        unsafe { api!(RedisModule_ACLAddLogEntry)(ctx.raw(), self.0, object.raw(), reason) };
    }

    /// Whether the user may subscribe to this channel.
    pub(crate) fn may_subscribe(&self, channel: &Text) -> bool {
        let flags = raw::REDISMODULE_CMD_CHANNEL_SUBSCRIBE as c_int;
        // SAFETY: the channel's name lives; the user does.
        let status = unsafe { api!(RedisModule_ACLCheckChannelPermissions)(self.0, channel.raw(), flags) };
        status == raw::REDISMODULE_OK as c_int
    }
}

/// What a user is denied.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Denial {
    Login,
    Command,
    Key,
    Channel,
}

impl Drop for User {
    fn drop(&mut self) {
        // SAFETY: looked up once, freed once; the server's own user stays.
        unsafe { api!(RedisModule_FreeModuleUser)(self.0) }
    }
}
