//! What the gateway answers by itself.

use std::collections::HashSet;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes as Word;
use claret_commands::{Answer, Command};

use crate::client::{Client, Wants};
use crate::fault::Fault;
use crate::passthrough::ask_beside;
use crate::registry::Entry;
use crate::resp::Protocol;
use crate::session::Session;
use crate::users::NoEntry;
use crate::waits::{Ending, WaitsAt};
use crate::watch::WatchMode;

impl Client {
    pub(crate) async fn local(&mut self, command: &'static Command, words: &[Word]) -> Option<Answer> {
        Some(match command.name {
            "AUTH" => Box::pin(self.auth(words)).await,
            "HELLO" => Box::pin(self.hello(words)).await,
            "QUIT" => {
                self.state.is_closing = true;
                Answer::Ok
            }
            "RESET" => {
                self.reset();
                Box::pin(self.become_stranger()).await;
                Answer::Simple("RESET")
            }
            "CLIENT" if words[1].eq_ignore_ascii_case(b"UNBLOCK") => {
                Box::pin(self.client_unblock(words)).await
            }
            "CLIENT" => return self.client(words),
            "COMMAND" => crate::about::answer(words),
            "INFO" => Box::pin(self.info(words)).await,
            "GATEWAY" => Box::pin(self.gateway(words)).await,
            _ => self.answer_of_here(command, words),
        })
    }

    /// Those that change nothing, also in MULTI.
    pub(crate) fn answer_of_here(&self, command: &Command, words: &[Word]) -> Answer {
        match (command.name, words) {
            ("PING", [_]) if self.is_listening_in_resp2() => Answer::strings(["pong".into(), "".into()]),
            ("PING", [_]) => Answer::Simple("PONG"),
            ("PING", [_, text]) if self.is_listening_in_resp2() => {
                Answer::Array(vec![Answer::text("pong"), bulk(text)])
            }
            ("PING", [_, text]) => bulk(text),
            ("PING", _) => Answer::error("ERR wrong number of arguments for 'ping' command"),
            ("ECHO", [_, text]) => bulk(text),
            ("SELECT", [_, database]) => {
                match std::str::from_utf8(database).ok().and_then(|it| it.parse::<i64>().ok()) {
                    Some(0) => Answer::Ok,
                    Some(_) => Answer::error(
                        "ERR DB index is out of range: the gateway has database 0 only, as a cluster has",
                    ),
                    None => Answer::error("ERR value is not an integer or out of range"),
                }
            }
            ("TIME", _) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Answer::strings([now.as_secs().to_string().into(), now.subsec_micros().to_string().into()])
            }
            ("LOLWUT", _) => {
                Answer::Verbatim(format!("Claret gateway {}\n", env!("CARGO_PKG_VERSION")).into())
            }
            // An id for the MULTI that it is in.
            ("UNWATCH" | "GATEWAY", _) => Answer::Ok,
            ("COMMAND", _) => crate::about::answer(words),
            (name, _) => Answer::Error(format!(
                "ERR Command not allowed inside a transaction: '{}'",
                name.to_ascii_lowercase()
            )),
        }
    }

    fn is_listening_in_resp2(&self) -> bool {
        self.state.listening.is_some() && self.state.protocol == Protocol::Resp2
    }

    fn reset(&mut self) {
        self.state.queue = None;
        self.unwatch();
        self.state.watch.mode = self.shared.modes.watch;
        self.state.listening = None;
        self.state.wants = Wants::All;
        self.set_protocol(Protocol::Resp2);
        self.entry.note_listens([0, 0]);
        self.entry.set_name("");
    }

    /// It has not said who it is: so it is whom the nodes let in without.
    pub(crate) async fn become_stranger(&mut self) {
        // What was gathered is sent as who sent it.
        self.settled().await;
        let stranger = self.shared.users.stranger().await;
        self.state.is_known = stranger.is_sure;
        self.state.has_logged_in = false;
        self.entry.set_user("default");
        self.become_user(stranger.session);
    }

    /// Whose its commands are from now on.
    pub(crate) fn become_user(&mut self, session: Option<Rc<Session>>) {
        if let Some(before) = &self.session {
            before.dismiss(&self.entry);
        }
        if let Some(session) = &session {
            session.admit(&self.entry);
        }
        self.session = session;
    }

    pub(crate) fn set_protocol(&mut self, protocol: Protocol) {
        self.state.protocol = protocol;
        self.replies.set_protocol(protocol);
        self.entry.set_protocol(if protocol == Protocol::Resp3 { 3 } else { 2 });
    }
}

/// Who the client is.
impl Client {
    async fn auth(&mut self, words: &[Word]) -> Answer {
        let (user, password) = match words {
            [_, password] => (None, password),
            [_, user, password] => (Some(user), password),
            _ => return Answer::error("ERR syntax error"),
        };
        match self.log_in(user.map(|user| &user[..]), password).await {
            Ok(()) => Answer::Ok,
            Err(error) => error,
        }
    }

    /// Without a user it is the default one.
    async fn log_in(&mut self, user: Option<&[u8]>, password: &[u8]) -> Result<(), Answer> {
        if self.state.listening.is_some() {
            return Err(Answer::error(
                "ERR a connection that listens to channels cannot change its user: RESET it first",
            ));
        }
        let shared = Rc::clone(&self.shared);
        let log_in = tokio::time::timeout(shared.times.wait, shared.users.log_in(user, password));
        let Some(judged) = self.unless_gone(log_in).await else {
            return Err(Answer::error("ERR it has gone"));
        };
        let judged = judged.map_err(|_| {
            let wait = shared.times.wait;
            shared.late(format!("TRYAGAIN no node has judged the login within {wait:?}: one is silent"))
        })?;
        let session = judged.map_err(|error| match error {
            NoEntry::Told(said) => Answer::Error(said),
            NoEntry::TooManyUsers => Answer::Error(format!(
                "ERR over {} users are logged in at the gateway: try again later, or raise --users",
                self.shared.limits.users_max
            )),
            NoEntry::TooManyPasswords(most) => Answer::Error(format!(
                "ERR {most} passwords of this user are in use at the gateway: close its connections with old ones"
            )),
            NoEntry::TooManyLogins(most) => Answer::Error(format!(
                "ERR over {most} logins wait at the gateway: try again later, or raise --logins"
            )),
            NoEntry::Away(error) => Answer::Error(crate::fault::no_connection(&error)),
        })?;
        // What it watches is still to be as it was; its turn is the old user's.
        self.end_turn_if(true);
        self.entry.set_user(&user.map_or("default".into(), String::from_utf8_lossy));
        (self.state.is_known, self.state.has_logged_in) = (true, true);
        self.become_user(Some(session));
        Ok(())
    }

    async fn hello(&mut self, words: &[Word]) -> Answer {
        let asked = match Hello::of(&words[1..], self.state.protocol) {
            Ok(asked) => asked,
            Err(error) => return Answer::Error(error),
        };
        if let Some((user, password)) = &asked.login
            && let Err(error) = self.log_in(Some(&user[..]), password).await
        {
            return error;
        }
        if self.session.is_none() {
            return Answer::error(
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option \
                 can be used to authenticate the client and select the RESP protocol version at the same time",
            );
        }
        if self.state.listening.is_some() && asked.protocol != self.state.protocol {
            return Answer::error(
                "ERR a connection that listens to channels cannot change its protocol: RESET it first",
            );
        }
        if let Some(name) = &asked.name {
            match valid_name(name) {
                Some(name) => self.entry.set_name(name),
                None => return bad_name(),
            }
        }
        self.set_protocol(asked.protocol);
        let number = if asked.protocol == Protocol::Resp3 { 3 } else { 2 };
        let text = |text: &'static str| Answer::text(text);
        let (name, version) = match self.shared.users.server() {
            Some(server) => (server.name, server.version),
            None => ("redis".to_owned(), crate::about::SERVER_VERSION.to_owned()),
        };
        let mut map = vec![text("server"), Answer::text(name), text("version"), Answer::text(version)];
        map.extend([text("proto"), Answer::Int(number), text("id"), Answer::Int(self.entry.id as i64)]);
        map.extend([text("mode"), text("standalone"), text("role"), text("master")]);
        map.extend([text("modules"), Answer::Array(Vec::new())]);
        Answer::Map(map)
    }
}

/// CLIENT and the like.
impl Client {
    fn client(&mut self, words: &[Word]) -> Option<Answer> {
        let name = words[1].to_ascii_uppercase();
        if let Some(shown) = SHOWN.iter().find(|shown| words[1].eq_ignore_ascii_case(shown.as_bytes())) {
            self.entry.note_sub(shown);
        }
        Some(match (&name[..], &words[2..]) {
            (b"ID", []) => Answer::Int(self.entry.id as i64),
            (b"GETNAME", []) => match self.entry.name() {
                name if name.is_empty() => Answer::Nil,
                name => Answer::text(name),
            },
            (b"SETNAME", [name]) => match valid_name(name) {
                Some(name) => {
                    self.entry.set_name(name);
                    Answer::Ok
                }
                None => bad_name(),
            },
            (b"SETINFO", [what, text]) => match (what.to_ascii_uppercase().as_slice(), valid_name(text)) {
                (b"LIB-NAME", Some(text)) => {
                    self.entry.set_library(Some(text), None);
                    Answer::Ok
                }
                (b"LIB-VER", Some(text)) => {
                    self.entry.set_library(None, Some(text));
                    Answer::Ok
                }
                (b"LIB-NAME" | b"LIB-VER", None) => {
                    let what = String::from_utf8_lossy(what).to_ascii_lowercase();
                    Answer::Error(format!(
                        "ERR {what} cannot contain spaces, newlines or special characters."
                    ))
                }
                (_, _) => Answer::Error(format!("ERR Unrecognized option '{}'", what.escape_ascii())),
            },
            (b"INFO", []) => Answer::Verbatim((self.entry.line() + "\n").into()),
            (b"LIST", filter) => self.client_list(filter),
            (b"KILL", filter) => self.client_kill(filter),
            (b"REPLY", [how]) => return self.client_reply(how),
            (b"NO-EVICT" | b"NO-TOUCH", [_]) => Answer::Ok,
            (b"GETREDIR", []) => Answer::Int(-1),
            (b"HELP", []) => Answer::strings(
                [
                    "CLIENT GETNAME|ID|INFO",
                    "CLIENT LIST [TYPE type | ID id ...]",
                    "CLIENT SETNAME name",
                    "CLIENT SETINFO LIB-NAME|LIB-VER text",
                    "CLIENT KILL ID id | ADDR ip:port",
                    "CLIENT REPLY ON|OFF|SKIP",
                    "CLIENT UNBLOCK id [TIMEOUT|ERROR]",
                ]
                .map(Into::into),
            ),
            (b"TRACKING" | b"CACHING" | b"TRACKINGINFO" | b"PAUSE" | b"UNPAUSE", _) => {
                let shown = String::from_utf8_lossy(&name).to_ascii_lowercase();
                if self.shared.metrics.refuse("CLIENT") {
                    self.shared.log(&format!("client {shown} is refused: it is of one server"));
                }
                Answer::Error(format!(
                    "ERR 'client {shown}' is not for the gateway: it is of one server: connect to a node for it"
                ))
            }
            _ => Answer::Error(format!(
                "ERR unknown subcommand or wrong number of arguments for '{}'. Try CLIENT HELP.",
                words[1].escape_ascii()
            )),
        })
    }

    /// Of its own user.
    fn client_list(&self, filter: &[Word]) -> Answer {
        let user = self.entry.user();
        let list = |is_meant: &dyn Fn(&Entry) -> bool| {
            Answer::Verbatim(self.shared.registry.list(&user, is_meant).into())
        };
        match filter {
            [] => list(&|_| true),
            [what, kind] if what.eq_ignore_ascii_case(b"TYPE") => {
                match kind.to_ascii_uppercase().as_slice() {
                    b"NORMAL" => list(&|entry| !entry.listens()),
                    b"PUBSUB" => list(&Entry::listens),
                    b"MASTER" | b"REPLICA" | b"SLAVE" => list(&|_| false),
                    _ => Answer::Error(format!("ERR Unknown client type '{}'", kind.escape_ascii())),
                }
            }
            [what, ids @ ..] if what.eq_ignore_ascii_case(b"ID") && !ids.is_empty() => {
                let id = |word: &Word| std::str::from_utf8(word).ok()?.parse::<u64>().ok();
                match ids.iter().map(id).collect::<Option<HashSet<u64>>>() {
                    Some(ids) => list(&|entry| ids.contains(&entry.id)),
                    None => Answer::error("ERR Invalid client ID"),
                }
            }
            _ => Answer::error("ERR syntax error"),
        }
    }

    fn client_kill(&mut self, filter: &[Word]) -> Answer {
        let text = |word: &Word| String::from_utf8_lossy(word).into_owned();
        // Those of other users are not this one's to see, or to end.
        let user = self.entry.user();
        match filter {
            [address] => {
                let address = text(address);
                match self.shared.registry.kill(|entry| entry.address == address && entry.user() == user) {
                    0 => Answer::error("ERR No such client"),
                    _ => Answer::Ok,
                }
            }
            [what, id] if what.eq_ignore_ascii_case(b"ID") => match text(id).parse::<u64>() {
                Ok(id) => {
                    let found = self.shared.registry.find(id).filter(|entry| entry.user() == user);
                    found.iter().for_each(|entry| entry.kill());
                    Answer::count(found.iter().count())
                }
                Err(_) => Answer::error("ERR client-id should be greater than 0"),
            },
            [what, address] if what.eq_ignore_ascii_case(b"ADDR") => {
                let address = text(address);
                Answer::count(
                    self.shared.registry.kill(|entry| entry.address == address && entry.user() == user),
                )
            }
            _ => Answer::error("ERR syntax error"),
        }
    }

    /// Has the node end the blocking command in which another connection waits.
    async fn client_unblock(&mut self, words: &[Word]) -> Answer {
        let [_, _, id, how @ ..] = words else {
            return Answer::error("ERR wrong number of arguments for 'client|unblock' command");
        };
        let how = match how {
            [] => &b"TIMEOUT"[..],
            [how] if how.eq_ignore_ascii_case(b"TIMEOUT") || how.eq_ignore_ascii_case(b"ERROR") => how,
            _ => return Answer::error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"),
        };
        let Some(id) = std::str::from_utf8(id).ok().and_then(|id| id.parse::<u64>().ok()) else {
            return claret_commands::Fault::not_an_integer().into();
        };
        // Those of other users are not this one's.
        let user = self.entry.user();
        let found = self.shared.registry.find(id).filter(|entry| entry.user() == user);
        let (Some(found), Some(session)) = (found, self.session.clone()) else { return Answer::Int(0) };
        let protocol = self.state.protocol;
        let asked = async {
            let waits = found.waiting().await;
            let (node, number) = match &*waits {
                Some(WaitsAt::Node(node, number)) => (node, number),
                Some(WaitsAt::Here(wait)) => {
                    let is_error = how.eq_ignore_ascii_case(b"ERROR");
                    return Ok(Answer::bool(wait.end(if is_error {
                        Ending::Error
                    } else {
                        Ending::Timeout
                    })));
                }
                None => return Ok(Answer::Int(0)),
            };
            let Some(nodes) = session.nodes() else { return Ok(Answer::Int(0)) };
            let number = number.to_string();
            let asked = [&b"CLIENT"[..], b"UNBLOCK", number.as_bytes(), how];
            // The other one has its answer no sooner than this.
            ask_beside(nodes, protocol, node, &asked).await.map(Answer::Raw)
        };
        let wait = self.shared.times.wait;
        match tokio::time::timeout(wait, asked).await {
            Ok(told) => told.unwrap_or_else(Answer::from),
            Err(_) => self.shared.late(format!("TRYAGAIN its node has been silent for {wait:?}")),
        }
    }

    fn client_reply(&mut self, how: &Word) -> Option<Answer> {
        self.state.wants = match how.to_ascii_uppercase().as_slice() {
            b"ON" => {
                self.state.wants = Wants::All;
                return Some(Answer::Ok);
            }
            b"OFF" => Wants::None,
            // This command itself has no answer, and is not counted: what comes next is the one.
            b"SKIP" if self.state.wants != Wants::None => Wants::NotThis,
            b"SKIP" => Wants::None,
            _ => return Some(Answer::error("ERR syntax error")),
        };
        None
    }

    async fn gateway(&mut self, words: &[Word]) -> Answer {
        let name = words[1].to_ascii_uppercase();
        match (&name[..], &words[2..]) {
            (b"OUTCOME", [id]) => self.outcome(id).await,
            (b"WATCH", [mode]) => match mode.to_ascii_uppercase().as_slice() {
                b"KEYS" => self.watch_by(WatchMode::Keys),
                b"ANSWERS" => self.watch_by(WatchMode::Answers),
                _ => Answer::error("ERR GATEWAY WATCH is of KEYS or of ANSWERS"),
            },
            (b"ONCE", [_]) => Answer::error("ERR GATEWAY ONCE belongs between MULTI and EXEC"),
            (b"HELP", []) => Answer::strings(
                [
                    "GATEWAY OUTCOME id",
                    "    What became of a transaction that was answered with UNKNOWN: committed, aborted, not-yet or forgotten.",
                    "GATEWAY ONCE id",
                    "    Between MULTI and EXEC: all of it is done at most once for this id, by whomever it is sent, and whoever sends it \
                     again is answered as the first one was.",
                    "GATEWAY WATCH KEYS|ANSWERS",
                    "    What WATCH of this connection is of from now on: all of a key, or what the connection reads of it. RESET ends it.",
                    "GATEWAY HELP",
                    "    This text. INFO gateway has the counters; COMMAND DOCS says what becomes of each command.",
                ]
                .map(Into::into),
            ),
            _ => Answer::Error(format!(
                "ERR unknown subcommand '{}'. Try GATEWAY HELP.",
                words[1].escape_ascii()
            )),
        }
    }

    fn watch_by(&mut self, mode: WatchMode) -> Answer {
        if !self.state.watch.is_empty() {
            // What was read of it before would count, or not, as the mode was then.
            return Answer::error("ERR GATEWAY WATCH comes before WATCH: UNWATCH first");
        }
        self.state.watch.mode = mode;
        Answer::Ok
    }

    async fn outcome(&mut self, id: &Word) -> Answer {
        let text = String::from_utf8_lossy(id);
        let id = match text.parse::<claret::OutcomeId>() {
            Ok(id) => id,
            Err(error) => return Answer::Error(format!("ERR {error}")),
        };
        let Some(session) = self.session.clone() else {
            return Answer::error("NOAUTH Authentication required.");
        };
        let store = match self.shared.connected(session.store()).await {
            Ok(store) => store,
            Err(error) => return Answer::Error(error),
        };
        let wait = self.shared.times.wait;
        match tokio::time::timeout(wait, store.outcome(&id)).await {
            Ok(Ok(outcome)) => Answer::text(format!("{outcome:?}").to_ascii_lowercase()),
            Ok(Err(error)) => Fault::Store(error).into(),
            Err(_) => self.shared.late(format!("TRYAGAIN no node has told within {wait:?}: one is silent")),
        }
    }
}

/// What HELLO asks for.
struct Hello {
    protocol: Protocol,
    login: Option<(Word, Word)>,
    name: Option<Word>,
}

impl Hello {
    fn of(mut rest: &[Word], protocol: Protocol) -> Result<Self, String> {
        let mut asked = Hello { protocol, login: None, name: None };
        if let Some((version, behind)) = rest.split_first() {
            asked.protocol = match &version[..] {
                b"2" => Protocol::Resp2,
                b"3" => Protocol::Resp3,
                other if !other.is_empty() && other.iter().all(u8::is_ascii_digit) => {
                    return Err("NOPROTO unsupported protocol version".to_owned());
                }
                _ => return Err("ERR Protocol version is not an integer or out of range".to_owned()),
            };
            rest = behind;
        }
        while let Some((option, behind)) = rest.split_first() {
            rest = match behind {
                [user, password, behind @ ..] if option.eq_ignore_ascii_case(b"AUTH") => {
                    asked.login = Some((user.clone(), password.clone()));
                    behind
                }
                [given, behind @ ..] if option.eq_ignore_ascii_case(b"SETNAME") => {
                    asked.name = Some(given.clone());
                    behind
                }
                _ => return Err(format!("ERR Syntax error in HELLO option '{}'", option.escape_ascii())),
            };
        }
        Ok(asked)
    }
}

/// Subcommands of CLIENT that lists of connections show.
const SHOWN: [&str; 9] = ["id", "info", "list", "getname", "setname", "setinfo", "kill", "reply", "no-evict"];

fn bulk(word: &Word) -> Answer {
    Answer::Bulk(claret_types::Bytes::copy_from(word))
}

/// Names go into lists with one line a connection.
fn valid_name(name: &[u8]) -> Option<&str> {
    let is_plain = name.len() <= 256 && name.iter().all(|byte| (b'!'..=b'~').contains(byte));
    is_plain.then(|| std::str::from_utf8(name).expect("it is ASCII"))
}

fn bad_name() -> Answer {
    Answer::error("ERR Client names cannot contain spaces, newlines or special characters.")
}
