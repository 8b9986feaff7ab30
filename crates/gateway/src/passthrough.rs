//! What is done by one node on a connection that nobody else uses meanwhile: MULTI with commands that are no operations of Claret's
//! types, scripts, commands that may block, and those that may have to wait for a key.

use std::cell::Cell;
use std::time::{Duration, Instant};

use bytes::{Bytes as Word, BytesMut};
use claret::Caller;
use claret_commands::{Answer, Command, NoKeys};
use claret_redis::{ConnectError, Raw};
use claret_types::{Bytes, KeyspaceOp, Operation, Reply};

use crate::client::{Client, crosses_slots};
use crate::fault::{Ended, Fault};
use crate::queue::{Queue, Slots};
use crate::request;
use crate::resp::Protocol;
use crate::session::{Nodes, Session};
use crate::waits::WaitsAt;

/// How long something is sent again to a node whose keys are held or whose slots move.
const PATIENCE: Duration = Duration::from_secs(5);

/// And how long it rests between.
const REST: Duration = Duration::from_millis(2);

/// How long a node may take for an EXEC, or to say whether a key is there.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// How long somebody waits, and whether it is still there.
pub(crate) struct Patience<'a> {
    until: Instant,
    wait: Duration,
    caller: &'a Caller,
}

impl<'a> Patience<'a> {
    pub(crate) fn new(wait: Duration, caller: &'a Caller) -> Self {
        Patience { until: Instant::now() + wait, wait, caller }
    }

    /// Whether nothing more is begun: a quarter of the time is left for the answer to what was sent.
    fn is_over(&self) -> bool {
        Instant::now() + self.wait / 4 >= self.until || self.caller.is_gone()
    }
}

/// What WATCH saw of keys, and what has to be so besides.
pub(crate) type Seen = (Vec<(Bytes, Reply)>, Vec<(Bytes, Operation)>);

/// MULTI and EXEC on the node of its keys. What is watched has to be there, too: it is watched on the node as well, then compared,
/// so that nothing can change between.
pub(crate) async fn exec(
    session: &Session,
    protocol: Protocol,
    queue: &Queue,
    seen: &Seen,
    patience: &Patience<'_>,
) -> Ended {
    let nodes = session.nodes().expect("it was queued for a node");
    let watched = &seen.0;
    let mut slot = match queue.slots {
        Slots::One(slot) => Some(slot),
        Slots::None | Slots::Several => None,
    };
    for (key, _) in watched {
        let its = claret_redis::slot_of(key);
        if *slot.get_or_insert(its) != its {
            return Err(Fault::told(format!(
                "CROSSSLOT key '{key}' is watched, and this is done by the node of another slot: give all its keys a common {{tag}}"
            )));
        }
    }
    let is_sent = Cell::new(false);
    let work = async {
        loop {
            is_sent.set(false);
            let plain = nodes.plain(protocol).await.map_err(away)?;
            let node = plain.node_of(slot.unwrap_or_default()).ok_or_else(no_node)?;
            let mut raw = nodes.borrow(protocol, &node).await.map_err(away)?;
            let asked = exec_at(session, &mut raw, queue, seen, &is_sent).await?;
            nodes.give_back(protocol, &node, raw);
            // The keys are held by a transaction, or their slot moves: nothing was done.
            match asked {
                Asked::Answered(answer) => return Err(Fault::Done(Box::new(Answer::Raw(answer)))),
                Asked::Changed => {
                    return Err(Fault::Changed(watched.first().map(|it| it.0.clone()).unwrap_or_default()));
                }
                Asked::Refused(text) => return Err(Fault::told(text)),
                Asked::Later(text) if patience.is_over() => return Err(Fault::Late(text)),
                Asked::Later(_) => {
                    let queued =
                        queue.all.iter().find_map(|queued| first_key(queued.command, queued.words()));
                    find_out(nodes, protocol, queued.or(watched.first().map(|(key, _)| &**key))).await;
                }
            }
        }
    };
    match tokio::time::timeout_at(patience.until.into(), work).await {
        Ok(ended) => ended,
        Err(_) if is_sent.get() => Err(Fault::told(format!(
            "UNKNOWN the node has been silent for {:?}; it may have been done; look whether it was",
            patience.wait
        ))),
        Err(_) => Err(Fault::Late(format!(
            "TRYAGAIN nothing was done within {:?}: the node is silent, or the keys are held or on their way",
            patience.wait
        ))),
    }
}

impl Client {
    /// A command on a connection of its own: what waits there is in nobody's way, and if the client goes, so does that.
    pub(crate) async fn apart(
        &mut self,
        session: &Session,
        command: &Command,
        words: &[Word],
    ) -> Result<Answer, Fault> {
        let slot = match command.slot(words) {
            Ok(slot) => slot,
            Err(NoKeys::SeveralSlots) => return Err(crosses_slots(command)),
            Err(NoKeys::Malformed) => None,
        };
        let nodes = session.nodes().expect("it is at nodes");
        let protocol = self.state.protocol;
        let entry = std::sync::Arc::clone(&self.entry);
        let waits_at = async |place| entry.waits_at(place).await;
        let answer = self.unless_gone(ask_apart(nodes, protocol, command, slot, words, &waits_at)).await;
        answer.unwrap_or_else(|| Err(Fault::told("ERR the client is gone"))).map(Answer::Raw)
    }
}

/// What an EXEC at a node came to.
enum Asked {
    /// As the node says it.
    Answered(bytes::Bytes),
    /// Something that is watched is not as it was.
    Changed,
    /// A command was not taken.
    Refused(String),
    /// Nothing was done, and it may be later, or elsewhere.
    Later(String),
}

/// Watches, compares, and sends all of it. The connection is as before then, unless an error comes back.
async fn exec_at(
    session: &Session,
    raw: &mut Raw,
    queue: &Queue,
    (watched, expected): &Seen,
    is_sent: &Cell<bool>,
) -> Result<Asked, Fault> {
    if !watched.is_empty() {
        let mut words: Vec<&[u8]> = vec![b"WATCH"];
        words.extend(watched.iter().map(|(key, _)| &**key));
        let answer = ask(raw, &words).await?;
        if let Some(text) = error_of(&answer) {
            return Ok(later_or_refused(text));
        }
        if !is_as_watched(session, watched, expected).await? {
            unwatch(raw).await?;
            return Ok(Asked::Changed);
        }
    }
    // Alone first: whom the node does not let have a MULTI, it would do the rest for one by one.
    if let Some(text) = error_of(&ask(raw, &[b"MULTI"]).await?) {
        if !watched.is_empty() {
            unwatch(raw).await?;
        }
        return Ok(later_or_refused(text));
    }
    let mut out = BytesMut::new();
    queue.all.iter().for_each(|queued| out.extend_from_slice(&queued.request.raw));
    // A transaction that has voted on what is watched, and has not written it yet, holds it: then this EXEC is refused.
    watched.iter().for_each(|(key, _)| request::write(&mut out, &[&b"EXISTS"[..], key]));
    request::write(&mut out, &[b"EXEC"]);
    is_sent.set(true);
    send(raw, &out).await?;
    let mut refused = None;
    for _ in 0..queue.all.len() + watched.len() {
        let said = next(raw).await?;
        if let Some(text) = error_of(&said) {
            refused.get_or_insert(text);
        }
    }
    let answer = next(raw).await?;
    if matches!(&answer[..], b"*-1\r\n" | b"_\r\n") {
        // Something changed after it was compared.
        return Ok(Asked::Changed);
    }
    Ok(match (error_of(&answer), refused) {
        // Which command was not taken tells more than that EXEC did nothing.
        (Some(_), Some(text)) => later_or_refused(text),
        // The module can refuse an EXEC by one of the server's own errors alone, which says nothing of why.
        (Some(text), None) if text.starts_with("EXECABORT") => {
            Asked::Later("TRYAGAIN nothing was done: transactions hold the keys".to_owned())
        }
        (Some(text), None) => Asked::Later(text),
        (None, _) => Asked::Answered(without_last(&answer, watched.len())),
    })
}

/// A connection that goes on watching cannot be used by others.
async fn unwatch(raw: &mut Raw) -> Result<(), Fault> {
    match error_of(&ask(raw, &[b"UNWATCH"]).await?) {
        Some(text) => Err(Fault::told(text)),
        None => Ok(()),
    }
}

fn error_of(answer: &[u8]) -> Option<String> {
    let text = answer.strip_prefix(b"-")?;
    Some(String::from_utf8_lossy(text).trim_end().to_owned())
}

fn later_or_refused(text: String) -> Asked {
    let is_later =
        ["MOVED ", "ASK ", "TRYAGAIN", "CLUSTERDOWN", "LOADING"].iter().any(|code| text.starts_with(code));
    if is_later { Asked::Later(format!("TRYAGAIN nothing was done: {text}")) } else { Asked::Refused(text) }
}

/// Whether all that was seen since WATCH is still so, at one moment; and what WATCH saw.
async fn is_as_watched(
    session: &Session,
    watched: &[(Bytes, Reply)],
    expected: &[(Bytes, Operation)],
) -> Result<bool, Fault> {
    let store = session.store().await.map_err(away)?;
    let versions =
        watched.iter().map(|(key, seen)| (key.clone(), Operation::from(KeyspaceOp::Version).demanding(seen)));
    match store.run_all(versions.chain(expected.iter().cloned())).await {
        Ok(_) => Ok(true),
        Err(error) if error.op_error().is_some() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// An array without its last elements, each of which is `:0` or `:1`.
fn without_last(answer: &bytes::Bytes, count: usize) -> bytes::Bytes {
    let line_end = answer.windows(2).position(|two| two == b"\r\n");
    let head = line_end
        .and_then(|end| Some((end, std::str::from_utf8(answer.get(1..end)?).ok()?.parse::<usize>().ok()?)));
    let is_so = |(end, all): &(usize, usize)| {
        count > 0 && *all >= count && answer.starts_with(b"*") && answer.len() >= end + 2 + 4 * count
    };
    let Some((end, all)) = head.filter(is_so) else { return answer.clone() };
    let mut out = BytesMut::new();
    out.extend_from_slice(format!("*{}\r\n", all - count).as_bytes());
    out.extend_from_slice(&answer[end + 2..answer.len() - 4 * count]);
    out.freeze()
}

/// Asks on a connection of its own, and once more where a node says that the keys are elsewhere. `waits_at` is told where it waits.
pub(crate) async fn ask_apart(
    nodes: &Nodes,
    protocol: Protocol,
    command: &Command,
    slot: Option<u16>,
    words: &[Word],
    waits_at: &impl AsyncFn(Option<WaitsAt>),
) -> Result<bytes::Bytes, Fault> {
    // From a redirection on: before, it may have waited for an element for long.
    let mut until = None;
    // The node to which the keys of this slot are on their way.
    let mut importing: Option<String> = None;
    loop {
        let plain = nodes.plain(protocol).await.map_err(away)?;
        let is_asking = importing.is_some();
        let owner = || plain.node_of(slot.unwrap_or_default()).ok_or_else(no_node);
        let node = importing.take().map_or_else(owner, Ok)?;
        let mut raw = nodes.borrow(protocol, &node).await.map_err(away)?;
        let asked_at = Instant::now();
        let answer = ask_once(&mut raw, command, words, is_asking, waits_at).await?;
        if asked_at.elapsed() > PATIENCE {
            until = None;
        }
        let redirection = redirection(&mut raw, command, words, is_asking, &answer).await?;
        let Some((key, told)) = redirection else {
            nodes.give_back(protocol, &node, raw);
            return Ok(answer);
        };
        importing = match importing_node(&told).filter(|_| !is_asking) {
            Some(node) if plain.nodes().contains(&node) => Some(node),
            // One that has no slot yet is none of those. What no node of the cluster is, is not logged in at.
            Some(node) => {
                let listing = ask(&mut raw, &[&b"CLUSTER"[..], b"NODES"]).await?;
                is_listed(&listing, &node).then_some(node)
            }
            None => None,
        };
        nodes.give_back(protocol, &node, raw);
        if Instant::now() >= *until.get_or_insert_with(|| Instant::now() + PATIENCE) {
            return Err(Fault::told("TRYAGAIN the slot of the keys moves; nothing was done"));
        }
        if importing.is_none() {
            find_out(nodes, protocol, Some(key)).await;
        }
    }
}

/// Whether the answer says that the keys are elsewhere: the first key, and what the node says of it. A script may say so, too, and then
/// it was done: so the node is asked about the key, and has to name the same slot.
async fn redirection<'a>(
    raw: &mut Raw,
    command: &Command,
    words: &'a [Word],
    is_asking: bool,
    answer: &[u8],
) -> Result<Option<(&'a [u8], bytes::Bytes)>, Fault> {
    let Some((key, slot)) = first_key(command, words).zip(slot_elsewhere(answer)) else { return Ok(None) };
    if is_asking {
        ask(raw, &[b"ASKING"]).await?;
    }
    let told = ask(raw, &[&b"EXISTS"[..], key]).await?;
    Ok((slot_elsewhere(&told) == Some(slot)).then_some((key, told)))
}

/// The answer of a node to a command, on a connection that it may keep waiting.
async fn ask_once(
    raw: &mut Raw,
    command: &Command,
    words: &[Word],
    is_asking: bool,
    waits_at: &impl AsyncFn(Option<WaitsAt>),
) -> Result<bytes::Bytes, Fault> {
    let mut out = BytesMut::new();
    let may_wait = command.may_wait(words);
    if may_wait {
        request::write(&mut out, &[&b"CLIENT"[..], b"ID"]);
    }
    if is_asking {
        request::write(&mut out, &[b"ASKING"]);
    }
    request::write(&mut out, words);
    raw.send(&out).await.map_err(lost)?;
    if may_wait {
        // By this others can have the node end it.
        let id = next(raw).await?;
        let id = id.strip_prefix(b":").and_then(|id| std::str::from_utf8(id).ok()?.trim_end().parse().ok());
        waits_at(id.map(|id| WaitsAt::Node(raw.node().to_string(), id))).await;
    }
    let answer = match is_asking {
        true => match next(raw).await {
            Ok(_) => heard(raw, command.changes_nothing()).await,
            Err(fault) => Err(fault),
        },
        false => heard(raw, command.changes_nothing()).await,
    };
    if may_wait {
        waits_at(None).await;
    }
    answer
}

/// `-ASK slot host:port`: where.
fn importing_node(answer: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(answer).ok()?.strip_prefix("-ASK ")?;
    Some(text.trim_end().split(' ').nth(1)?.to_owned())
}

/// Whether `CLUSTER NODES` has a node of this address: `id host:port@bus,name flags ...`.
fn is_listed(listing: &[u8], node: &str) -> bool {
    let listing = String::from_utf8_lossy(listing);
    let mut places = listing.lines().filter_map(|line| line.split(' ').nth(1)?.split_once('@'));
    places.any(|(address, rest)| {
        let named = rest.split(',').nth(1).zip(address.rsplit_once(':'));
        address == node || named.is_some_and(|(name, (_, port))| node == format!("{name}:{port}"))
    })
}

/// The slot of an answer that says that it is elsewhere.
fn slot_elsewhere(answer: &[u8]) -> Option<&[u8]> {
    let rest = answer.strip_prefix(b"-MOVED ").or_else(|| answer.strip_prefix(b"-ASK "))?;
    rest.split(|byte| *byte == b' ').next()
}

/// A question that is sent after its key finds out where its slot is. It rests a little, so that whoever asks again asks later.
async fn find_out(nodes: &Nodes, protocol: Protocol, key: Option<&[u8]>) {
    tokio::time::sleep(REST).await;
    if let (Ok(plain), Some(key)) = (nodes.plain(protocol).await, key) {
        let slot = claret_redis::slot_of(key);
        let words = [&b"EXISTS"[..], key];
        let asked = crate::query::at_slot(plain, Some(slot), &words, true);
        let _ = tokio::time::timeout(PATIENCE, asked).await;
    }
}

fn first_key<'a>(command: &Command, words: &'a [Word]) -> Option<&'a [u8]> {
    let at = command.keys.of(words).ok()?.next()?;
    Some(&words[at])
}

/// The answer of a node to something that does not wait there, also while a script keeps the connections that others use.
pub(crate) async fn ask_beside<W: AsRef<[u8]>>(
    nodes: &Nodes,
    protocol: Protocol,
    node: &str,
    words: &[W],
) -> Result<bytes::Bytes, Fault> {
    let mut raw = nodes.borrow(protocol, node).await.map_err(away)?;
    let answer = ask(&mut raw, words).await?;
    nodes.give_back(protocol, node, raw);
    Ok(answer)
}

async fn ask<W: AsRef<[u8]>>(raw: &mut Raw, words: &[W]) -> Result<bytes::Bytes, Fault> {
    let mut out = BytesMut::new();
    request::write(&mut out, words);
    send(raw, &out).await?;
    next(raw).await
}

/// Sends something that has to be taken soon.
async fn send(raw: &mut Raw, bytes: &[u8]) -> Result<(), Fault> {
    match tokio::time::timeout(SILENCE_MAX, raw.send(bytes)).await {
        Ok(sent) => sent.map_err(lost),
        Err(_) => Err(silent(raw)),
    }
}

/// The next answer, which has to come soon.
async fn next(raw: &mut Raw) -> Result<bytes::Bytes, Fault> {
    match tokio::time::timeout(SILENCE_MAX, heard(raw, false)).await {
        Ok(heard) => heard,
        Err(_) => Err(silent(raw)),
    }
}

fn silent(raw: &Raw) -> Fault {
    Fault::told(format!(
        "UNKNOWN {} has been silent for {SILENCE_MAX:?}; it may have been done; look whether it was",
        raw.node()
    ))
}

/// The next answer; what a node says of its own accord is none.
async fn heard(raw: &mut Raw, is_read: bool) -> Result<bytes::Bytes, Fault> {
    loop {
        let said =
            raw.next().await.map_err(|error| Fault::told(crate::replies::of_plain(&error, is_read)))?;
        if !said.is_push {
            return Ok(said.bytes);
        }
    }
}

fn no_node() -> Fault {
    Fault::told("CLUSTERDOWN no node is known for the slot")
}

pub(crate) fn away(error: ConnectError) -> Fault {
    Fault::told(crate::fault::no_connection(&error))
}

fn lost(error: claret_redis::CommandError) -> Fault {
    Fault::told(crate::replies::of_plain(&error, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_elements_are_taken_off() {
        let of = |text: &str, count| {
            String::from_utf8(without_last(&bytes::Bytes::copy_from_slice(text.as_bytes()), count).to_vec())
                .unwrap()
        };
        assert_eq!(of("*3\r\n+OK\r\n:1\r\n:0\r\n", 2), "*1\r\n+OK\r\n");
        assert_eq!(of("*1\r\n:1\r\n", 1), "*0\r\n");
        assert_eq!(of("*-1\r\n", 1), "*-1\r\n");
        assert_eq!(of("_\r\n", 1), "_\r\n");
        assert_eq!(of("*1\r\n+OK\r\n", 0), "*1\r\n+OK\r\n");
        assert_eq!(of("*1\r\n_\r\n", 1), "*1\r\n_\r\n", "what is no number stays");
    }

    #[test]
    fn where_keys_are_is_read_from_answers() {
        assert_eq!(importing_node(b"-ASK 7 10.0.0.1:7001\r\n").as_deref(), Some("10.0.0.1:7001"));
        assert_eq!((importing_node(b"-ASK 7\r\n"), importing_node(b"-MOVED 7 h:1\r\n")), (None, None));
        assert_eq!(slot_elsewhere(b"-MOVED 7 h:1\r\n"), Some(&b"7"[..]));
        assert_eq!((slot_elsewhere(b"-ASKED 7 h:1\r\n"), slot_elsewhere(b"+OK\r\n")), (None, None));
        let listing = b"aa 10.0.0.1:7001@17001 master - 0 1 1 connected\n\
                        bb 10.0.0.2:7002@17002,host.example master - 0 1 2 connected 0-9";
        for (node, is_one) in [
            ("10.0.0.1:7001", true),
            ("host.example:7002", true),
            ("host.example:7001", false),
            ("10.0.0.3:7001", false),
        ] {
            assert_eq!(is_listed(listing, node), is_one, "{node}");
        }
    }
}
