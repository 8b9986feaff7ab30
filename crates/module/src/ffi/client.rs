//! Clients of the server by id: who they are, and whether they have an open MULTI.

use redis_module::raw;

use super::{Answer, Arg, Ctx, Text, api};

/// A client, as the list of all of them shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientInfo {
    pub(crate) id: u64,
    /// How many commands are queued in its MULTI, if one is open.
    pub(crate) queued: Option<u64>,
    /// Its next command is read, and did not run yet: while a filter looks at a command, its client's.
    pub(crate) has_words: bool,
    pub(crate) is_blocked: bool,
    /// Its last command.
    pub(crate) command: String,
    pub(crate) user: Vec<u8>,
}

impl ClientInfo {
    fn parse(line: &[u8]) -> ClientInfo {
        let mut found = ClientInfo::default();
        for field in line.split(|byte| *byte == b' ') {
            let Some(at) = field.iter().position(|byte| *byte == b'=') else { continue };
            let (name, value) = (&field[..at], &field[at + 1..]);
            let text = String::from_utf8_lossy(value);
            match name {
                b"id" => found.id = text.parse().unwrap_or(0),
                // Negative is none.
                b"multi" => found.queued = text.parse().ok(),
                b"argv-mem" => found.has_words = text != "0",
                b"flags" => found.is_blocked = text.contains('b'),
                b"cmd" => found.command = text.into_owned(),
                b"user" => found.user = value.to_vec(),
                _ => {}
            }
        }
        found
    }
}

impl Ctx {
    /// All clients. O(clients). `None`: the server does not say.
    pub(crate) fn clients(self) -> Option<Vec<ClientInfo>> {
        let Answer::Bytes(list) = self.call(c"CLIENT", c"Ev", &[Text::new(b"LIST")]) else { return None };
        Some(
            list.split(|byte| *byte == b'\n')
                .filter(|line| !line.is_empty())
                .map(ClientInfo::parse)
                .collect(),
        )
    }

    /// Whether a client has a MULTI open: the server let it, so it has said who it is.
    pub(crate) fn has_open_multi(client: u64) -> bool {
        let mut info = raw::RedisModuleClientInfo {
            version: u64::from(raw::REDISMODULE_CLIENTINFO_VERSION),
            flags: 0,
            id: 0,
            addr: [0; 46],
            port: 0,
            db: 0,
        };
        // SAFETY: the server writes what a structure of the version has that its first field names: this one.
        let status = unsafe { api!(RedisModule_GetClientInfoById)((&raw mut info).cast(), client) };
        status == raw::REDISMODULE_OK as std::ffi::c_int
            && info.flags & u64::from(raw::REDISMODULE_CLIENTINFO_FLAG_MULTI) != 0
    }

    /// The key of which a client that was made to wait for keys is told: in its answer.
    pub(crate) fn ready_key<'a>(self) -> Option<Arg<'a>> {
        // SAFETY: context rule; what comes back is null, or a string that lives as long as the callback in which it is asked.
        unsafe {
            let key = api!(RedisModule_GetBlockedClientReadyKey)(self.raw());
            (!key.is_null()).then(|| Arg::new(key))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ClientInfo;

    #[test]
    fn a_line_of_the_list_is_read() {
        let line = b"id=7 addr=127.0.0.1:1 name= flags=b multi=-1 argv-mem=12 cmd=blpop user=\xff resp=2";
        let read = ClientInfo::parse(line);
        let wanted = ClientInfo {
            id: 7,
            queued: None,
            has_words: true,
            is_blocked: true,
            command: "blpop".into(),
            user: b"\xff".to_vec(),
        };
        assert_eq!(read, wanted);
        let open = ClientInfo::parse(b"id=8 flags=x multi=2 argv-mem=0 cmd=get user=default");
        assert_eq!((open.queued, open.has_words, open.is_blocked), (Some(2), false, false));
    }
}
