//! What is of all nodes: gathered, or sent to each of them.

use bytes::{Bytes as Word, BytesMut};
use claret::Store;
use claret_commands::{Answer, Command, Kind, check_cursor};
use claret_redis::Cluster;
use claret_types::Bytes;

use crate::client::Client;
use crate::fault::Fault;
use crate::passthrough::ask_beside;
use crate::query;
use crate::resp::Protocol;
use crate::session::{Backing, Nodes, Session};

/// What becomes of the answers of all nodes.
enum Gather {
    /// The first node is asked alone.
    First,
    /// Each is asked; the first error counts, else the first answer.
    Same,
    /// They are added up.
    Sum,
    /// Arrays one behind the other.
    Join,
}

/// Keys that one KEYS of records in this process answers at most.
const KEYS_MAX: usize = 1 << 20;

impl Client {
    pub(crate) async fn fan_out(&mut self, command: &Command, words: &[Word]) -> Answer {
        let Some(session) = self.session.clone() else {
            return Answer::error("NOAUTH Authentication required.");
        };
        if command.name == "PUBSUB" && session.nodes().is_none() {
            return self.shared.here.channels.about(words).unwrap_or_else(Answer::from);
        }
        let asker = (self.state.protocol, self.state.has_logged_in);
        fan_out(&session, asker, command, words).await.unwrap_or_else(Answer::from)
    }
}

/// The answer of all nodes to somebody who speaks a protocol, and may have logged in.
pub(crate) async fn fan_out(
    session: &Session,
    (protocol, has_logged_in): (Protocol, bool),
    command: &Command,
    words: &[Word],
) -> Result<Answer, Fault> {
    match &session.backing {
        Backing::Here(store) => in_process(store, command, words).await,
        Backing::Nodes(nodes) => match nodes.plain(protocol).await {
            Ok(plain) if is_kill(command, words) => kill_script(nodes, plain, protocol, words).await,
            Ok(plain) => {
                let answered = at_nodes(plain, command, words).await;
                // What strangers may read is no way in for them.
                match is_config_get(command, words) && !has_logged_in {
                    true => answered.map(without_secrets),
                    false => answered,
                }
            }
            Err(error) => Err(Fault::told(crate::fault::no_connection(&error))),
        },
    }
}

/// An answer of nodes as a value, if it is a string, a status, or an array of such or of such arrays: others stay as they are.
pub(crate) fn as_value(answer: Answer) -> Answer {
    let value = match &answer {
        Answer::Raw(bytes) => value(bytes).map(|(value, _)| value),
        _ => None,
    };
    value.unwrap_or(answer)
}

fn value(bytes: &[u8]) -> Option<(Answer, &[u8])> {
    if let Some((length, text)) = number(bytes, b'$') {
        let Ok(length) = usize::try_from(length) else { return Some((Answer::Nil, text)) };
        let rest = text.get(length + 2..)?;
        return Some((Answer::Bulk(Bytes::copy_from(&text[..length])), rest));
    }
    if let Some(line) = bytes.strip_prefix(b"+") {
        let end = line.windows(2).position(|two| two == b"\r\n")?;
        return Some((Answer::Status(String::from_utf8_lossy(&line[..end]).into_owned()), &line[end + 2..]));
    }
    if let Some(rest) = bytes.strip_prefix(b"_\r\n") {
        return Some((Answer::Nil, rest));
    }
    let (count, mut rest) = number(bytes, b'*')?;
    let mut all = Vec::new();
    for _ in 0..count {
        let (one, behind) = value(rest)?;
        all.push(one);
        rest = behind;
    }
    Some((Answer::Array(all), rest))
}

/// The nodes, in an order that stays.
fn sorted_nodes(plain: &Cluster) -> Result<Vec<String>, Fault> {
    let mut nodes = plain.nodes();
    nodes.sort();
    match nodes.is_empty() {
        true => Err(Fault::told("CLUSTERDOWN no node is known")),
        false => Ok(nodes),
    }
}

async fn at_nodes(plain: &Cluster, command: &Command, words: &[Word]) -> Result<Answer, Fault> {
    let nodes = sorted_nodes(plain)?;
    if command.name == "SCAN" {
        return scan(plain, &nodes, words).await;
    }
    if command.name == "RANDOMKEY" {
        return random_key(plain, &nodes).await;
    }
    check_subcommand(command, words)?;
    let gather = gather_of(command, words);
    let asked = match gather {
        Gather::First => &nodes[..1],
        Gather::Same | Gather::Sum | Gather::Join => &nodes[..],
    };
    let mut answers = Vec::new();
    for node in asked {
        let answer = query::at(plain, node, words, command.changes_nothing() && is_question(words)).await?;
        if answer.starts_with(b"-") {
            return Ok(Answer::Raw(answer));
        }
        answers.push(answer);
    }
    match gather {
        Gather::First | Gather::Same => Ok(Answer::Raw(answers.swap_remove(0))),
        Gather::Sum => {
            let sum = answers.iter().map(|answer| number(answer, b':').unwrap_or_default().0).sum();
            Ok(Answer::Int(sum))
        }
        Gather::Join => Ok(Answer::Raw(joined(&answers))),
    }
}

fn is_config_get(command: &Command, words: &[Word]) -> bool {
    command.name == "CONFIG" && words.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"GET"))
}

/// Settings whose values are passwords.
const SECRETS: [&[u8]; 5] =
    [b"requirepass", b"masterauth", b"primaryauth", b"tls-key-file-pass", b"tls-client-key-file-pass"];

/// An answer of CONFIG GET in which passwords are empty.
fn without_secrets(answer: Answer) -> Answer {
    let Answer::Raw(bytes) = &answer else { return answer };
    let Some((sign, (count, mut rest))) =
        [b'*', b'%'].into_iter().find_map(|sign| Some((sign, number(bytes, sign)?)))
    else {
        return answer;
    };
    let mut out = BytesMut::from(&bytes[..bytes.len() - rest.len()]);
    let words = if sign == b'%' { 2 * count } else { count };
    let mut is_secret = false;
    for at in 0..words {
        let Some((length, text)) = number(rest, b'$') else { return answer };
        let Some(text_end) = usize::try_from(length).ok().filter(|end| end + 2 <= text.len()) else {
            return answer;
        };
        let (word, whole) = (&text[..text_end], rest.len() - text.len() + text_end + 2);
        match at % 2 == 1 && is_secret {
            true => out.extend_from_slice(b"$0\r\n\r\n"),
            false => out.extend_from_slice(&rest[..whole]),
        }
        is_secret = at % 2 == 0 && SECRETS.iter().any(|secret| word.eq_ignore_ascii_case(secret));
        rest = &rest[whole..];
    }
    Answer::Raw(out.freeze())
}

fn is_kill(command: &Command, words: &[Word]) -> bool {
    matches!(command.name, "SCRIPT" | "FUNCTION")
        && words.len() == 2
        && words[1].eq_ignore_ascii_case(b"KILL")
}

/// Ends the scripts that run, on all nodes: a node that runs none says so, and that counts only if all do.
async fn kill_script(
    nodes: &Nodes,
    plain: &Cluster,
    protocol: Protocol,
    words: &[Word],
) -> Result<Answer, Fault> {
    let (mut killed, mut refused, mut none, mut lost) = (None, None, None, None);
    for node in sorted_nodes(plain)? {
        let answer = match ask_beside(nodes, protocol, &node, words).await {
            Ok(answer) => answer,
            Err(fault) => {
                lost.get_or_insert(fault);
                continue;
            }
        };
        let place = match &answer[..] {
            said if said.starts_with(b"-NOTBUSY") => &mut none,
            said if said.starts_with(b"-") => &mut refused,
            _ => &mut killed,
        };
        place.get_or_insert(answer);
    }
    // Who was not asked may run one still.
    match (refused.or(killed), lost, none) {
        (Some(told), ..) | (None, None, Some(told)) => Ok(Answer::Raw(told)),
        (None, Some(fault), _) => Err(fault),
        (None, None, None) => Err(Fault::told("CLUSTERDOWN no node is known")),
    }
}

/// Subcommands that may go over a connection that others use: none of them changes it, or waits.
const SUBCOMMANDS: [(&str, &[&str]); 7] = [
    ("SCRIPT", &["LOAD", "EXISTS", "FLUSH", "KILL", "HELP"]),
    ("FUNCTION", &["LOAD", "DELETE", "FLUSH", "KILL", "LIST", "DUMP", "RESTORE", "STATS", "HELP"]),
    ("CONFIG", &["GET", "SET", "RESETSTAT", "REWRITE", "HELP"]),
    (
        "ACL",
        &[
            "CAT", "DELUSER", "DRYRUN", "GENPASS", "GETUSER", "HELP", "LIST", "LOAD", "LOG", "SAVE",
            "SETUSER", "USERS", "WHOAMI",
        ],
    ),
    ("SLOWLOG", &["GET", "LEN", "RESET", "HELP"]),
    ("LATENCY", &["DOCTOR", "GRAPH", "HELP", "HISTOGRAM", "HISTORY", "LATEST", "RESET"]),
    ("PUBSUB", &["CHANNELS", "HELP", "NUMPAT", "NUMSUB", "SHARDCHANNELS", "SHARDNUMSUB"]),
];

fn check_subcommand(command: &Command, words: &[Word]) -> Result<(), Fault> {
    let known = SUBCOMMANDS.iter().find(|(name, _)| *name == command.name);
    let (Some((_, known)), Some(word)) = (known, words.get(1)) else { return Ok(()) };
    match known.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes())) {
        true => Ok(()),
        false => Err(Fault::told(format!(
            "ERR '{} {}' is not for the gateway, which has {}: connect to a node for it",
            command.name.to_ascii_lowercase(),
            word[..word.len().min(64)].escape_ascii().to_string().to_ascii_lowercase(),
            known.join(", ").to_ascii_lowercase()
        ))),
    }
}

/// Whether a command with subcommands only asks.
fn is_question(words: &[Word]) -> bool {
    let changes: [&[u8]; 3] = [b"LOAD", b"FLUSH", b"RESET"];
    !words.get(1).is_some_and(|word| changes.iter().any(|change| word.eq_ignore_ascii_case(change)))
}

fn gather_of(command: &Command, words: &[Word]) -> Gather {
    let sub = words.get(1).map(|word| word.to_ascii_uppercase()).unwrap_or_default();
    match (command.name, &sub[..]) {
        ("DBSIZE", _) => Gather::Sum,
        ("KEYS", _) => Gather::Join,
        ("FLUSHALL" | "FLUSHDB" | "SAVE" | "BGSAVE" | "BGREWRITEAOF", _) => Gather::Same,
        ("SCRIPT", b"LOAD" | b"FLUSH") => Gather::Same,
        ("FUNCTION", b"LOAD" | b"DELETE" | b"FLUSH" | b"RESTORE") => Gather::Same,
        ("CONFIG", b"SET" | b"RESETSTAT" | b"REWRITE") => Gather::Same,
        ("ACL", b"SETUSER" | b"DELUSER" | b"LOAD" | b"SAVE") => Gather::Same,
        ("SLOWLOG" | "LATENCY", b"RESET") => Gather::Same,
        ("ACL", b"LOG") if words.len() == 3 && words[2].eq_ignore_ascii_case(b"RESET") => Gather::Same,
        ("PUBSUB", b"CHANNELS" | b"SHARDCHANNELS") => Gather::Join,
        ("PUBSUB", b"NUMPAT") => Gather::Sum,
        _ => Gather::First,
    }
}

/// `:7\r\n` or `*7\r\n`: the number, and what is behind it.
fn number(answer: &[u8], sign: u8) -> Option<(i64, &[u8])> {
    let line = answer.strip_prefix(&[sign])?;
    let end = line.windows(2).position(|two| two == b"\r\n")?;
    let number = std::str::from_utf8(&line[..end]).ok()?.parse().ok()?;
    Some((number, &line[end + 2..]))
}

/// Arrays one behind the other.
fn joined(answers: &[bytes::Bytes]) -> bytes::Bytes {
    let parts: Vec<_> = answers.iter().filter_map(|answer| number(answer, answer[0])).collect();
    let mut out = BytesMut::new();
    let count: i64 = parts.iter().map(|(count, _)| count.max(&0)).sum();
    out.extend_from_slice(format!("*{count}\r\n").as_bytes());
    parts.iter().for_each(|(_, rest)| out.extend_from_slice(rest));
    out.freeze()
}

/// A page of SCAN. Its cursor says which node is next, and that node's own cursor: `own * nodes + place`.
async fn scan(plain: &Cluster, nodes: &[String], words: &[Word]) -> Result<Answer, Fault> {
    let invalid = || Fault::told("ERR invalid cursor");
    let cursor: u64 =
        std::str::from_utf8(&words[1]).ok().and_then(|it| it.parse().ok()).ok_or_else(invalid)?;
    let count = nodes.len() as u64;
    let (own, place) = (cursor / count, (cursor % count) as usize);
    let mut asked = words.to_vec();
    asked[1] = own.to_string().into();
    let answer = query::at(plain, &nodes[place], &asked, true).await?;
    let Some((2, rest)) = number(&answer, b'*') else { return Ok(Answer::Raw(answer)) };
    let Some((length, text)) = number(rest, b'$') else { return Ok(Answer::Raw(answer)) };
    let length = usize::try_from(length).unwrap_or_default().min(text.len());
    let next: u64 =
        std::str::from_utf8(&text[..length]).ok().and_then(|it| it.parse().ok()).ok_or_else(invalid)?;
    let keys = text.get(length + 2..).unwrap_or_default();
    let next = match (next, place + 1 < nodes.len()) {
        (0, true) => place as u64 + 1,
        (0, false) => 0,
        (own, _) => {
            own.checked_mul(count).and_then(|own| own.checked_add(place as u64)).ok_or_else(|| {
                Fault::told("ERR the node's cursor is too large for the gateway: scan the nodes one by one")
            })?
        }
    };
    let mut out = BytesMut::new();
    let next = next.to_string();
    out.extend_from_slice(format!("*2\r\n${}\r\n{next}\r\n", next.len()).as_bytes());
    out.extend_from_slice(keys);
    Ok(Answer::Raw(out.freeze()))
}

async fn random_key(plain: &Cluster, nodes: &[String]) -> Result<Answer, Fault> {
    let first = rand::random_range(0..nodes.len());
    let mut last = Answer::Nil;
    for at in 0..nodes.len() {
        let node = &nodes[(first + at) % nodes.len()];
        let answer = query::at(plain, node, &[b"RANDOMKEY"], true).await?;
        let is_nothing = answer.starts_with(b"$-1") || answer.starts_with(b"_");
        last = Answer::Raw(answer);
        if !is_nothing {
            break;
        }
    }
    Ok(last)
}

/// The same of records in this process.
async fn in_process(store: &Store, command: &Command, words: &[Word]) -> Result<Answer, Fault> {
    match (command.name, words) {
        ("KEYS", [_, pattern]) => Ok(Answer::strings(keys(store, pattern).await?)),
        ("DBSIZE", [_]) => Ok(Answer::count(keys(store, b"*").await?.len())),
        ("RANDOMKEY", [_]) => {
            let mut all = keys(store, b"*").await?;
            match all.is_empty() {
                true => Ok(Answer::Nil),
                false => Ok(Answer::Bulk(all.swap_remove(rand::random_range(0..all.len())))),
            }
        }
        ("SCAN", [_, cursor, options @ ..]) => {
            check_cursor(&Bytes::copy_from(cursor))?;
            let scan = Scan::of(options)?;
            // All keys are one page: another one has none.
            let mut found = match &cursor[..] {
                b"0" => keys(store, scan.pattern).await?,
                _ => Vec::new(),
            };
            if let Some(kind) = scan.kind {
                let mut of_kind = Vec::new();
                for key in found {
                    let its = store.type_of(key.clone())?.map(Kind::of);
                    if its.is_some_and(|its| kind.eq_ignore_ascii_case(its.word().as_bytes())) {
                        of_kind.push(key);
                    }
                }
                found = of_kind;
            }
            Ok(Answer::Array(vec![Answer::text("0"), Answer::strings(found)]))
        }
        ("FLUSHALL" | "FLUSHDB", _) => {
            for key in keys(store, b"*").await? {
                let delete = claret_types::KeyspaceOp::Delete { returning: false };
                store.run_all([(key, delete.into())]).await?;
            }
            Ok(Answer::Ok)
        }
        ("CONFIG", [_, sub, ..]) if sub.eq_ignore_ascii_case(b"GET") => Ok(Answer::Map(Vec::new())),
        ("ACL", [_, sub]) if sub.eq_ignore_ascii_case(b"WHOAMI") => Ok(Answer::text("default")),
        (name, _) => Err(Fault::told(format!(
            "ERR '{}' needs a server, and this gateway keeps its records in its own process: start it with --store \
             redis://HOST:PORT",
            name.to_ascii_lowercase()
        ))),
    }
}

/// What SCAN asks for.
struct Scan<'a> {
    pattern: &'a [u8],
    /// What `TYPE` answers of the keys.
    kind: Option<&'a [u8]>,
}

impl<'a> Scan<'a> {
    fn of(mut options: &'a [Word]) -> Result<Self, Fault> {
        let mut scan = Scan { pattern: b"*", kind: None };
        while let [option, value, rest @ ..] = options {
            let is_count =
                || std::str::from_utf8(value).is_ok_and(|it| it.parse::<i64>().is_ok_and(|it| it > 0));
            match option.to_ascii_uppercase().as_slice() {
                b"MATCH" => scan.pattern = value,
                b"TYPE" => scan.kind = Some(value),
                b"COUNT" if is_count() => {}
                b"COUNT" => return Err(claret_commands::Fault::not_an_integer().into()),
                _ => return Err(claret_commands::Fault::syntax().into()),
            }
            options = rest;
        }
        if options.is_empty() { Ok(scan) } else { Err(claret_commands::Fault::syntax().into()) }
    }
}

async fn keys(store: &Store, pattern: &[u8]) -> Result<Vec<Bytes>, Fault> {
    let mut all = Vec::new();
    let mut pages = store.keys(Bytes::copy_from(pattern));
    while let Some(page) = pages.next_page().await? {
        all.extend(page);
        if all.len() > KEYS_MAX {
            return Err(Fault::told(format!("ERR over {KEYS_MAX} keys: give a narrower pattern")));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_told_no_password() {
        let shown = |said: &str| match without_secrets(Answer::Raw(Word::copy_from_slice(said.as_bytes()))) {
            Answer::Raw(bytes) => String::from_utf8(bytes.to_vec()).expect("text"),
            other => panic!("{other:?}"),
        };
        let (name, open, shut) = ("$11\r\nrequirepass\r\n", "$2\r\npw\r\n", "$0\r\n\r\n");
        let port = "$4\r\nport\r\n$4\r\n7000\r\n";
        for (from, to) in [
            (format!("*4\r\n{name}{open}{port}"), format!("*4\r\n{name}{shut}{port}")),
            (format!("%2\r\n{port}{name}{open}"), format!("%2\r\n{port}{name}{shut}")),
            ("*0\r\n".to_owned(), "*0\r\n".to_owned()),
            ("-NOPERM no\r\n".to_owned(), "-NOPERM no\r\n".to_owned()),
        ] {
            assert_eq!(shown(&from), to);
        }
    }
}
