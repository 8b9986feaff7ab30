//! Pops that block answer as in a server without the module, byte by byte: both before the first session came to the
//! node, and afterwards while no transaction is near.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::common::beside::{Waits, bulk, commit, hold, ok, rig, run};
use crate::common::{Process, Server, wait_until};
use redis::{Connection, Value};

/// A client that sees bytes.
struct Raw {
    stream: TcpStream,
    bytes: Vec<u8>,
}

impl Raw {
    fn to(server: &Server) -> Raw {
        let stream = TcpStream::connect(("127.0.0.1", server.port)).expect("the server answers");
        stream.set_read_timeout(Some(Duration::from_millis(5))).expect("a socket");
        Raw { stream, bytes: Vec::new() }
    }

    fn send(&mut self, words: &[&str]) {
        let mut text = format!("*{}\r\n", words.len());
        for word in words {
            text += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.stream.write_all(text.as_bytes()).expect("it is sent");
    }

    /// An answer that has come.
    fn answered(&mut self) -> Option<String> {
        let mut buffer = [0; 4096];
        match self.stream.read(&mut buffer) {
            Ok(0) => panic!("the connection closed"),
            Ok(length) => self.bytes.extend_from_slice(&buffer[..length]),
            Err(_) => {}
        }
        let length = length(&self.bytes)?;
        Some(String::from_utf8_lossy(&self.bytes.drain(..length).collect::<Vec<_>>()).into_owned())
    }

    fn answer(&mut self) -> String {
        let mut answer = None;
        wait_until("it is answered", || {
            answer = self.answered();
            answer.is_some()
        });
        answer.expect("just seen")
    }

    fn ask(&mut self, line: &str) -> String {
        self.send(&line.split(' ').collect::<Vec<_>>());
        self.answer()
    }
}

/// The length of the first answer, once all of it is there.
fn length(bytes: &[u8]) -> Option<usize> {
    let line = bytes.windows(2).position(|pair| pair == b"\r\n")? + 2;
    let number = || std::str::from_utf8(&bytes[1..line - 2]).ok()?.parse::<i64>().ok();
    let parts = match bytes[0] {
        b'$' | b'=' => {
            return usize::try_from(number()?).map_or(Some(line), |length| {
                (bytes.len() >= line + length + 2).then_some(line + length + 2)
            });
        }
        b'*' | b'~' | b'>' => number()?.max(0),
        b'%' => number()?.max(0) * 2,
        _ => 0,
    };
    (0..parts).try_fold(line, |at, _| Some(at + length(&bytes[at..])?))
}

/// What happens while a pop may be asleep, and what is seen of it.
struct Story {
    /// Done before.
    before: &'static [&'static str],
    pop: &'static str,
    /// Done once it sleeps; nothing of it if it is answered at once.
    after: &'static [&'static str],
}

const fn story(before: &'static [&'static str], pop: &'static str, after: &'static [&'static str]) -> Story {
    Story { before, pop, after }
}

const STORIES: &[Story] = &[
    // A key of another type is slept through.
    story(&[], "BLPOP k 0", &["ZADD k 1 a", "DEL k", "RPUSH k x"]),
    story(&[], "BZPOPMIN k 0", &["RPUSH k x", "DEL k", "ZADD k 1 a"]),
    story(&[], "BRPOP k l 0", &["ZADD k 1 a", "RPUSH l x y"]),
    story(&[], "BLMPOP 0 2 k l LEFT COUNT 2", &["ZADD k 1 a", "RPUSH l x y z"]),
    story(&["ZADD k 1 a"], "BLPOP k 0", &[]),
    story(&["ZADD k 1 a"], "BLPOP l k 0", &[]),
    // The order of keys.
    story(&[], "BLPOP k l 0", &["MULTI", "RPUSH l b", "RPUSH k a", "EXEC"]),
    story(&[], "BZPOPMAX k l 0", &["MULTI", "ZADD l 1 b", "ZADD k 2 a 3 c", "EXEC"]),
    story(&[], "BZMPOP 0 2 k l MIN COUNT 5", &["MULTI", "ZADD l 1 b", "ZADD k 2 a 3 c", "EXEC"]),
    story(&["RPUSH l 1", "RPUSH k 2"], "BLPOP k l 0", &[]),
    // Moves.
    story(&[], "BLMOVE k l LEFT RIGHT 0", &["RPUSH k a b"]),
    story(&[], "BRPOPLPUSH k l 0", &["RPUSH k a b"]),
    story(&[], "BLMOVE k l LEFT RIGHT 0", &["SET l text", "RPUSH k a"]),
    story(&["SET l text"], "BLMOVE k l LEFT RIGHT 0", &["RPUSH k a"]),
    story(
        &["RPUSH {k}t x"],
        "BLMOVE {k} {k}l LEFT RIGHT 0",
        &["CONFIG SET maxmemory 1", "RENAME {k}t {k}", "CONFIG SET maxmemory 0"],
    ),
    // Times.
    story(&[], "BLPOP k 0.02", &[]),
    story(&[], "BRPOP k l 0.02", &[]),
    story(&[], "BLMOVE k l LEFT RIGHT 0.02", &[]),
    story(&[], "BRPOPLPUSH k l 0.02", &[]),
    story(&[], "BLMPOP 0.02 1 k LEFT", &[]),
    story(&[], "BZPOPMIN k 0.02", &[]),
    story(&[], "BZMPOP 0.02 1 k MIN", &[]),
    story(&[], "BLPOP k 0x0.08", &[]),
    story(&[], "BLPOP k 0x1000", &["RPUSH k x"]),
    story(&[], "BLPOP k 1e12", &["RPUSH k x"]),
    story(&[], "BLPOP k 1e-9", &[]),
    story(&[], "BLPOP k 9000000000000", &["RPUSH k x"]),
    story(&[], "BLPOP k 9223372036854775", &["RPUSH k x"]),
    story(&[], "BLPOP k 9223372036854775807", &["RPUSH k x"]),
    story(&[], "BLPOP k 1e300", &["RPUSH k x"]),
    story(&[], "BLPOP k inf", &["RPUSH k x"]),
    story(&[], "BLPOP k nan", &["RPUSH k x"]),
    story(&[], "BLPOP k -1", &[]),
    story(&[], "BLPOP k -0x1p-3", &[]),
    story(&[], "BLPOP k soon", &[]),
    story(&["RPUSH k a"], "BLPOP k soon", &[]),
    // What the server refuses.
    story(&[], "BLPOP k", &[]),
    story(&[], "BLPOP", &[]),
    story(&[], "BLMPOP 0 0 k LEFT", &[]),
    story(&[], "BLMPOP 0 1 k UP", &[]),
    story(&[], "BLMOVE k l UP DOWN 0", &["RPUSH k x"]),
    // Served at once.
    story(&["RPUSH k a b"], "BLPOP k 0", &[]),
    story(&["ZADD k 1 a 2.5 b"], "BZPOPMAX k 0", &[]),
    story(&["RPUSH k a b"], "BLMOVE k l LEFT RIGHT 0", &[]),
];

fn is_blocked(other: &mut Connection) -> bool {
    let info: String = redis::cmd("INFO").arg("clients").query(other).expect("its numbers");
    !info.contains("blocked_clients:0")
}

/// All that is seen of it.
fn tell(server: &Server, story: &Story, protocol: &str) -> Vec<String> {
    let (mut blocked_client, mut other) = (Raw::to(server), Raw::to(server));
    let mut looks = server.connect();
    let mut seen = vec![other.ask("FLUSHALL")];
    if protocol == "3" {
        blocked_client.ask("HELLO 3");
    }
    seen.extend(story.before.iter().map(|line| other.ask(line)));
    blocked_client.send(&story.pop.split(' ').collect::<Vec<_>>());
    let mut answer = None;
    let mut slept = false;
    wait_until(&format!("{} sleeps or is answered", story.pop), || {
        answer = blocked_client.answered();
        slept = answer.is_none() && is_blocked(&mut looks);
        answer.is_some() || (slept && !story.after.is_empty())
    });
    // One that is answered when its time is over may have been seen asleep or not.
    if !story.after.is_empty() {
        seen.push(format!("slept: {slept}"));
    }
    if slept {
        seen.extend(story.after.iter().map(|line| other.ask(line)));
    }
    seen.push(answer.unwrap_or_else(|| blocked_client.answer()));
    for key in ["k", "l", "{k}", "{k}l"] {
        seen.push(other.ask(&format!("TYPE {key}")));
    }
    seen
}

#[test]
fn pops_answer_byte_by_byte_as_without_the_module() {
    let bare = Server::start_without_module();
    let unused = Server::start(&[]);
    let used = Server::start(&[]);
    let _session = Process::hello(&used, 7);
    for protocol in ["2", "3"] {
        for story in STORIES {
            let wanted = tell(&bare, story, protocol);
            assert_eq!(
                tell(&unused, story, protocol),
                wanted,
                "no session came: {} {:?}",
                story.pop,
                story.after
            );
            assert_eq!(
                tell(&used, story, protocol),
                wanted,
                "a session came: {} {:?}",
                story.pop,
                story.after
            );
        }
    }
}

/// Bug: the pop was put behind a command of the module's before the server had looked at it, so a MULTI with one that can
/// never run was carried out in part. Mend: what is queued stays as it is, and so does what the server is going to refuse.
#[test]
fn a_multi_with_a_pop_that_cannot_run_does_nothing() {
    let bare = Server::start_without_module();
    let unused = Server::start(&[]);
    let used = Server::start(&[]);
    let _session = Process::hello(&used, 7);
    let names_clients = ok(&mut used.connect(), "INFO server");
    let names_clients = !format!("{names_clients:?}").contains("redis_version:7.0");
    for server in [&unused, &used, &bare] {
        let mut plain = server.connect();
        ok(&mut plain, "ACL SETUSER few on >pw ~* +@all -blpop");
        ok(&mut plain, "ACL SETUSER own on >pw ~a +@all");
    }
    let lines = ["BLPOP k", "BLPOP k 0", "BLMOVE k l LEFT", "BLMPOP 0 1 k LEFT", "BZPOPMIN k 0"];
    for user in ["default", "few", "own"] {
        for line in lines {
            // Redis 7.0 does not tell the module who sends a command, nor whether it is going to be queued.
            if user == "few" && line == "BLPOP k 0" && !names_clients {
                continue;
            }
            let told = [&bare, &unused, &used].map(|server| {
                let mut client = Raw::to(server);
                if user != "default" {
                    client.ask(&format!("AUTH {user} pw"));
                }
                let all = ["MULTI", "SET a 1", line, "EXEC", "GET a"].map(|line| client.ask(line));
                client.ask("DEL a");
                all
            });
            assert_eq!(told[1], told[0], "no session came: {user}: {line}");
            assert_eq!(told[2], told[0], "a session came: {user}: {line}");
        }
    }
}

/// Whoever may run the pop may wait with it, and nobody else: no right to anything of the module's is needed.
#[test]
fn who_may_pop_may_wait_without_a_right_to_the_modules_commands() {
    let (server, _process, mut plain) = rig();
    ok(&mut plain, "ACL SETUSER worker on >pw ~q* -@all +blpop +client|id");
    ok(&mut plain, "ACL SETUSER lists on >pw ~q* -@all +@list +@blocking");
    ok(&mut plain, "ACL SETUSER other on >pw ~q* -@all +get");
    for user in ["worker", "lists"] {
        let mut waits = Raw::to(&server);
        waits.ask(&format!("AUTH {user} pw"));
        waits.send(&["BLPOP", "q", "0"]);
        wait_until("it sleeps", || is_blocked(&mut plain));
        ok(&mut plain, "RPUSH q x");
        assert_eq!(waits.answer(), "*2\r\n$1\r\nq\r\n$1\r\nx\r\n", "{user}");
    }
    let bare = Server::start_without_module();
    ok(&mut bare.connect(), "ACL SETUSER other on >pw ~q* -@all +get");
    ok(&mut bare.connect(), "ACL SETUSER worker on >pw ~q* -@all +blpop");
    for (user, line) in
        [("other", "BLPOP q 0"), ("worker", "BLPOP secret 0"), ("worker", "BLMOVE q qq LEFT LEFT 0")]
    {
        let told = [&bare, &server].map(|server| {
            let mut client = Raw::to(server);
            client.ask(&format!("AUTH {user} pw"));
            client.ask(line)
        });
        assert_eq!(told[0], told[1], "{user}: {line}");
        assert!(told[0].starts_with("-NOPERM"), "{}", told[0]);
    }
}

/// A pop counts once, under its own name.
#[test]
fn a_pop_is_counted_once() {
    for session in [false, true] {
        let server = Server::start(&[]);
        let _session = session.then(|| Process::hello(&server, 7));
        let mut plain = server.connect();
        ok(&mut plain, "CONFIG SET slowlog-log-slower-than 0");
        let waits = Waits::on(&server, "BLPOP k 0");
        wait_until("it sleeps", || is_blocked(&mut plain));
        if !session {
            let list: String = redis::cmd("CLIENT").arg("LIST").query(&mut plain).expect("all clients");
            assert!(list.contains("cmd=blpop") && !list.contains("claret"), "{list}");
        }
        ok(&mut plain, "RPUSH k x");
        assert_eq!(waits.answer(), Value::Array(vec![bulk("k"), bulk("x")]));
        let slow =
            format!("{:?}", redis::cmd("SLOWLOG").arg("GET").arg(-1).query::<Vec<redis::Value>>(&mut plain));
        let times = |word: &str| slow.matches(&format!("{:?}", bulk(word))).count();
        assert_eq!((times("BLPOP"), times("CLARET.WRITE-ANY")), (1, 0), "{slow}");
        let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut plain).expect("its numbers");
        assert!(stats.contains("cmdstat_blpop:calls=1,"), "{stats}");
        assert_eq!(stats.contains("claret.write"), session, "{stats}");
    }
}

/// What slept in the server before the first session came is served as ever by a transaction that has the key alone.
#[test]
fn who_slept_before_the_first_session_is_served_by_a_commit() {
    let server = Server::start(&["--claret.lease-ms", "60000"]);
    let mut plain = server.connect();
    let blocked_clients = [Waits::on(&server, "BLPOP l 0"), Waits::on(&server, "BLPOP l 0")];
    let blocked = |plain: &mut Connection, count: usize| {
        let info: String = redis::cmd("INFO").arg("clients").query(plain).expect("its numbers");
        info.contains(&format!("blocked_clients:{count}\r"))
    };
    wait_until("they sleep", || blocked(&mut plain, 2));
    let mut process = Process::hello(&server, 7);
    process.commit("l", "RPUSH a");
    wait_until("one is served", || blocked(&mut plain, 1));
    // The key is a transaction's while a plain command would bring something: it waits, and so does the blocked client.
    let attempt = hold(&mut process, "l", "LLEN");
    let push = Waits::on(&server, "RPUSH l b");
    push.still();
    commit(&mut process, attempt, 1);
    push.answer();
    let mut items: Vec<String> =
        blocked_clients.iter().map(|blocked_client| format!("{:?}", blocked_client.answer())).collect();
    items.sort();
    assert!(items[0].contains("'a'") || items[0].contains("\"a\"") || items[0].contains("97"), "{items:?}");
    assert_ne!(items[0], items[1]);
}

/// Where two transactions meet at a key on which one sleeps in the server, or a blocked client would move something to a key
/// that one holds, the blocked clients are sent away first: an item that a transaction took goes to nobody else.
#[test]
fn who_slept_before_the_first_session_takes_nothing_that_a_transaction_took() {
    for (pop, first, second) in [
        ("BLPOP l 0", ("l", "LLEN"), ("l", "LLEN")),
        ("BLMOVE {l} {l}to LEFT RIGHT 0", ("other", "GET"), ("{l}to", "LLEN")),
    ] {
        let server = Server::start(&["--claret.lease-ms", "60000"]);
        let mut plain = server.connect();
        let blocked_client = Waits::on(&server, pop);
        wait_until("it sleeps", || is_blocked(&mut plain));
        let mut process = Process::hello(&server, 7);
        let holder = hold(&mut process, first.0, first.1);
        assert!(is_blocked(&mut plain), "one transaction alone is no reason: {pop}");
        let other = hold(&mut process, second.0, second.1);
        assert_eq!(blocked_client.answer(), Value::Nil, "its time is over: {pop}");
        // It comes again, and from now on sleeps in the module.
        let again = Waits::on(&server, pop);
        wait_until("it sleeps", || is_blocked(&mut plain));
        commit(&mut process, holder, 1);
        commit(&mut process, other, 1);
        let source = pop.split(' ').nth(1).expect("a key");
        ok(&mut plain, &format!("RPUSH {source} a"));
        assert_ne!(again.answer(), Value::Nil);
    }
}

/// In one frame one transaction pushes and another one takes; the server wakes its blocked clients only afterwards.
#[test]
fn who_slept_before_the_first_session_takes_nothing_of_the_same_frame() {
    let server = Server::start(&["--claret.lease-ms", "60000"]);
    let mut plain = server.connect();
    let blocked_client = Waits::on(&server, "BLPOP l 0");
    wait_until("it sleeps", || is_blocked(&mut plain));
    let mut process = Process::hello(&server, 7);
    let (push, take) = (process.begin(), process.begin());
    let prepare = process.prepare(push, &[("l", "RPUSH a")]);
    let execute = process.execute(take, 1, "l", "LPOP");
    process.frame(&[prepare, execute]);
    commit(&mut process, take, 1);
    assert_eq!(blocked_client.answer(), Value::Nil, "it was sent away");
    assert_eq!(run(&mut plain, "LLEN l"), Ok(Value::Int(0)));
}

/// Bug of a first draft: one that names no keys was made to wait for none, and the server ended with the connection.
#[test]
fn a_pop_without_keys_does_not_sleep() {
    let (mut server, _process, mut plain) = rig();
    for line in
        ["BLMPOP 0 0 k LEFT", "BZMPOP 0 0 k MIN", "CLARET.WRITE BLMPOP 0 x k LEFT", "CLARET.WRITE BLPOP"]
    {
        assert!(run(&mut server.connect(), line).is_err(), "{line}");
        ok(&mut plain, "PING");
        assert!(server.runs(), "{line}");
    }
}
