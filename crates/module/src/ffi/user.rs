//! Users of the server's access control lists.

use std::ffi::c_int;

use redis_module::raw;

use super::{Ctx, Text, api};

/// A user, looked up for the time of one command and never kept: the lists may change between two commands.
pub(crate) struct User(*mut raw::RedisModuleUser);

impl Ctx {
    /// The name of the user that a client speaks as; `None` when the client is gone.
    pub(crate) fn user_of(self, client: u64) -> Option<Text> {
        // SAFETY: context rule; what comes back is null, or a count of the name that is the caller's (string rule).
        unsafe { Text::take(api!(RedisModule_GetClientUserNameById)(self.raw(), client)) }
    }
}

impl User {
    /// `None` when there is no such user any more.
    pub(crate) fn named(name: &Text) -> Option<User> {
        // SAFETY: the name lives (string rule); what comes back is null, or the caller's to free, as `Drop` does.
        let raw = unsafe { api!(RedisModule_GetModuleUserFromUserName)(name.raw()) };
        (!raw.is_null()).then(|| User(raw))
    }

    /// The user's rules, as `ACL LIST` shows them; `None` where the server cannot tell.
    pub(crate) fn rules(&self) -> Option<Text> {
        // SAFETY: function rule: null where the server lacks it.
        let get = unsafe { raw::RedisModule_GetModuleUserACLString }?;
        // SAFETY: `self` is a user until its `Drop`; what comes back is null, or a count that is the caller's (string rule).
        unsafe { Text::take(get(self.0)) }
    }

    /// Whether the user may run this command with these arguments, its keys among them.
    pub(crate) fn may_run(&self, command: &[&Text]) -> bool {
        let mut list: Vec<*mut raw::RedisModuleString> = command.iter().map(|text| text.raw()).collect();
        // SAFETY: `self` is a user until its `Drop`; the list has so many strings, which live (string rule).
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
        // SAFETY: `self` is a user until its `Drop`; the key lives (string rule).
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
        // SAFETY: context rule; the context of every entry has a client, that of a timer or an event one of the module's own, and the
        // server notes what it is. `self` is a user until its `Drop`; the server keeps a count of its own of the text.
        unsafe { api!(RedisModule_ACLAddLogEntry)(ctx.raw(), self.0, object.raw(), reason) };
    }

    /// Whether the user may subscribe to this channel.
    pub(crate) fn may_subscribe(&self, channel: &Text) -> bool {
        let flags = raw::REDISMODULE_CMD_CHANNEL_SUBSCRIBE as c_int;
        // SAFETY: `self` is a user until its `Drop`; the channel's name lives (string rule).
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
        // SAFETY: `self` was given to the caller, and is not used after this; the server's own user stays.
        unsafe { api!(RedisModule_FreeModuleUser)(self.0) }
    }
}
