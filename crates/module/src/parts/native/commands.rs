//! Commands of the server as steps of a transaction (A19 to A26 of `docs/scripts.md`): whether one can be done, which is looked at
//! before the vote, and carrying it out.
//!
//! Whether its words are right the server says itself: the command is tried on a key that is not there, of which nothing is passed on
//! and which is removed again. Whether the record lets it be done is looked at here.

use std::borrow::Cow;

use claret_planted::{Bug, is_planted};
use claret_types::{
    Access, Bytes, Command, Effect, Expiry, KeyspaceEffect, Native, OpError, Reply, Run, State,
};

use super::held_ends::Held;
use super::{OpenKey, Record, Server};
use crate::ffi::{Answer, Kind};
use crate::parts::command_table::{Row, Special};

/// An answer of more elements, or more bytes, is an error, and is not sent.
const ANSWER_ELEMENTS_MAX: usize = 100_000;
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// What a command is told for a key of another type, as the server words it.
const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

/// What it is told for a string that counts nothing, as the server words it.
const NO_HLL: &str = "WRONGTYPE Key is not a valid HyperLogLog string value.";

/// A string of so many bytes is no count of elements: those of the server have 12,304 at most. So little is copied.
const HLL_BYTES_MAX: usize = 64 << 10;

/// Commands that use keys which they do not name, or which the server does not carry out within another command.
const REFUSED: [&str; 5] = ["sort", "sort_ro", "migrate", "debug", "restore-asking"];

/// Why a command may not be a step of a transaction, whatever the record is. `keys`: those that it uses.
pub(crate) fn refusal(row: Option<Row>, command: &Command, key: &[u8], keys: &[&[u8]]) -> Option<String> {
    let name = command.words().first().map(Bytes::to_string).unwrap_or_default();
    let Some(row) = row else { return Some(format!("ERR unknown command '{name}'")) };
    if !row.fits(command.words().len()) {
        return Some(format!("ERR wrong number of arguments for '{}' command", name.to_lowercase()));
    }
    let is_refused = REFUSED.iter().any(|refused| name.eq_ignore_ascii_case(refused));
    if is_refused || row.no_script || row.special != Special::Nothing || row.is_anothers {
        return Some(format!("ERR '{name}' cannot be a step of a transaction over several keys or nodes"));
    }
    if keys.is_empty() || keys.iter().any(|used| *used != key) {
        return Some(format!(
            "ERR '{name}' is a step of a transaction on one key alone, and it is sent for '{}'",
            Bytes::copy_from(key)
        ));
    }
    if row.writes && command.access() == Access::Read && !is_planted(Bug::WritesShareLocks) {
        return Some(format!("ERR '{name}' may write, so it answers with the commit, as RECORD.RUN"));
    }
    None
}

/// [`Records::partial_state`](claret_core::Records::partial_state) of a command, whose words were admitted: that it can be done,
/// behind what its transaction did to the record before.
pub(super) fn partial_state(
    record: &Record<'_, impl Server>,
    command: &Command,
    own: &[&Effect],
) -> Result<Option<State>, OpError> {
    if is_planted(Bug::CommandsUnchecked) {
        return Ok(Some(State::opaque()));
    }
    let found = found(record, own);
    let row = record.server.row(&command.words()[0]);
    let error = match (row.and_then(|row| row.kind), &found) {
        (Some(wanted), Some(Found::Kind(found))) if wanted != found => Some(WRONG_TYPE.to_owned()),
        _ => None,
    };
    let error = error.or_else(|| tried(record, command, found.is_some()));
    let error = error.or_else(|| found.as_ref().and_then(|_| in_its_way(record, command, own)));
    match error {
        Some(error) => Err(OpError::Told(error)),
        None => Ok(Some(State::opaque())),
    }
}

/// The same of one that is asked now ([`claret_types::KeyspaceOp::Ask`]): what the server answers, of what is committed.
pub(super) fn ask(
    record: &Record<'_, impl Server>,
    command: &Command,
    own: &[&Effect],
) -> Result<Option<State>, OpError> {
    let server = record.server;
    if own.iter().any(|effect| effect.run().is_none_or(|run| run.writes)) {
        let (name, key) = (&command.words()[0], record.key);
        return Err(OpError::Told(format!(
            "ERR '{name}' asks the server of key '{key}', which this transaction has changed: ask before that, or have it answer with the commit"
        )));
    }
    let mut words = command.words().to_vec();
    // What it counts it would keep in the record.
    let counts = words[0].eq_ignore_ascii_case(b"pfcount") && !is_planted(Bug::CountedInPlace);
    let counted = record.open_any().filter(|key| counts && key.kind() == Kind::String).map(|key| key.len());
    let answer = match counted {
        // Of another type, or not there: the server says so, and keeps nothing.
        None => server.command(&words, false),
        Some(HLL_BYTES_MAX..) => Answer::Error(NO_HLL.to_owned()),
        Some(_) => {
            let copy = unused_key(record);
            let copied = server.command(&["COPY".into(), record.key.clone(), copy.clone()], false);
            if let Answer::Error(error) = copied {
                return Err(OpError::Told(error));
            }
            for place in server.key_places(&words) {
                words[place] = copy.clone();
            }
            let answer = server.command(&words, false);
            server.command(&["DEL".into(), copy], false);
            answer
        }
    };
    let (elements, bytes) = answer.size();
    server.note_read(elements, bytes);
    match bounded(answer, false) {
        Reply::Failed(error) => Err(*error),
        answer => Ok(Some(State::of_answer(answer))),
    }
}

/// What a key holds.
#[derive(Clone, Debug, PartialEq)]
enum Found {
    /// As `TYPE` names it.
    Kind(Cow<'static, str>),
    /// Something that a command has put there.
    Something,
}

/// What the key holds once these effects are carried out; `None`: nothing.
fn found(record: &Record<'_, impl Server>, own: &[&Effect]) -> Option<Found> {
    let of = |name: &'static str| Some(Found::Kind(Cow::Borrowed(name)));
    let mut found = record.open_any().and_then(|key| match key.kind() {
        Kind::Other => {
            drop(key);
            let name = record.read(c"TYPE", []).bytes();
            Some(Found::Kind(name.map_or(Kind::Other.name().into(), |name| name.to_string().into())))
        }
        kind => of(kind.name()),
    });
    for effect in own {
        found = match effect.keyspace() {
            Some(KeyspaceEffect::Remove) => None,
            Some(KeyspaceEffect::Put(state)) => of(native_of(state)),
            Some(KeyspaceEffect::Run(run)) if !run.writes => found,
            Some(KeyspaceEffect::Run(run)) if is_about_end(run) => found,
            Some(KeyspaceEffect::Run(run)) if removes(run) => None,
            Some(KeyspaceEffect::Run(run)) => match record.server.row(&run.words[0]).map(|row| row.kind) {
                // Of what takes things out something may be left.
                Some(Some(kind)) => of(kind),
                _ => Some(Found::Something),
            },
            Some(KeyspaceEffect::ExpireAt(_) | KeyspaceEffect::Extend(_) | KeyspaceEffect::Persist) => found,
            None => of(effect.type_info().native),
        };
    }
    found
}

fn removes(run: &Run) -> bool {
    [&b"del"[..], b"unlink", b"getdel"].iter().any(|name| run.words[0].eq_ignore_ascii_case(name))
}

/// It changes nothing but when the record ends, unless that is now.
fn is_about_end(run: &Run) -> bool {
    ["EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT", "PERSIST"]
        .iter()
        .any(|name| run.words[0].eq_ignore_ascii_case(name.as_bytes()))
}

fn native_of(state: &State) -> &'static str {
    match state.native() {
        Some(Native::String(_)) | None => "string",
        Some(Native::Set(_)) => "set",
        Some(Native::List(_)) => "list",
        Some(Native::Hash(_)) => "hash",
        Some(Native::Zset(_)) => "zset",
    }
}

/// What the server says to the command on a key of its own; `None`: no error. Where the record is there, that it is not is no error.
fn tried(record: &Record<'_, impl Server>, command: &Command, is_there: bool) -> Option<String> {
    let (server, writes) = (record.server, command.access() == Access::Write);
    let absent = unused_key(record);
    let mut words = command.words().to_vec();
    for place in server.key_places(&words) {
        words[place] = absent.clone();
    }
    let try_it = || match server.command(&words, false) {
        Answer::Error(error) => Some(error),
        _ => None,
    };
    let remove = || server.command(&[Bytes::from("DEL"), absent.clone()], false);
    let mut error = None;
    // They look for the stream, and its group, before they look at their words.
    if looks_first(&words) {
        let group = group_of(&words).map_or_else(
            || Bytes::from("g"),
            |group| match is_create(&words) {
                true => Bytes::copy_from(&[&group[..], b":"].concat()),
                false => group.clone(),
            },
        );
        server.command(
            &["XGROUP".into(), "CREATE".into(), absent.clone(), group, "$".into(), "MKSTREAM".into()],
            false,
        );
        error = try_it();
        remove();
    }
    if error.is_none() && !(is_there && looks_first(&words)) {
        error = try_it().filter(|error| !is_there || !is_about_absence(error));
        if writes {
            remove();
        }
    }
    error
}

/// A key of the same slot that nobody uses.
fn unused_key(record: &Record<'_, impl Server>) -> Bytes {
    let mut number = 0_u32;
    loop {
        let name =
            [&super::side_key(record.key)[..], b":claret:try:", number.to_string().as_bytes()].concat();
        if record.server.open(&record.server.text(&name)).is_none() {
            return Bytes::from(name);
        }
        number += 1;
    }
}

fn is_about_absence(error: &str) -> bool {
    error.contains("no such key")
}

fn name_of(words: &[Bytes]) -> Vec<u8> {
    words[0].to_ascii_lowercase()
}

fn looks_first(words: &[Bytes]) -> bool {
    matches!(
        &name_of(words)[..],
        b"xdel"
            | b"xack"
            | b"xclaim"
            | b"xautoclaim"
            | b"xreadgroup"
            | b"xgroup"
            | b"xpending"
            | b"xsetid"
            | b"xtrim"
    )
}

/// `XGROUP CREATE`.
fn is_create(words: &[Bytes]) -> bool {
    is_of_groups(words, b"create")
}

fn is_of_groups(words: &[Bytes], what: &[u8]) -> bool {
    name_of(words) == b"xgroup" && words.get(1).is_some_and(|word| word.eq_ignore_ascii_case(what))
}

/// The group that a command names.
fn group_of(words: &[Bytes]) -> Option<&Bytes> {
    match &name_of(words)[..] {
        b"xgroup" | b"xinfo" => words.get(3),
        b"xreadgroup" | b"xclaim" | b"xautoclaim" | b"xpending" | b"xack" => words.get(2),
        _ => None,
    }
}

/// What is in the way of a command on a record that is there, of the right type.
fn in_its_way(record: &Record<'_, impl Server>, command: &Command, own: &[&Effect]) -> Option<String> {
    let words = command.words();
    let mut changed = own.iter().filter(|effect| !is_of_expiry(effect));
    // What is stored there is what the command finds, or has been changed by commands alone.
    let is_stored = changed.clone().all(|effect| effect.run().is_some_and(|run| !removes(run)));
    let is_as_stored = changed.clone().all(|effect| effect.run().is_some_and(|run| !run.writes));
    match &name_of(words)[..] {
        b"xadd" if is_stored => {
            let (id, last) = (id_of(words)?, last_id(record)?);
            let is_small = id.1.map_or(id.0 < last.0, |sequence| (id.0, sequence) <= last);
            is_small.then(|| {
                "ERR The ID specified in XADD is equal or smaller than the target stream top item".to_owned()
            })
        }
        b"xsetid" if is_as_stored => {
            let id = id(words.get(2)?.as_str()?)?;
            let newest = record.command_on(&["XREVRANGE", "", "+", "-", "COUNT", "1"]).items().pop()?;
            let newest = self::id(newest.list().next()?.as_str()?)?;
            ((id.0, id.1?) < (newest.0, newest.1?)).then(|| {
                "ERR The ID specified in XSETID is smaller than the target stream top item".to_owned()
            })
        }
        b"xgroup" if is_create(words) => {
            let is_there = groups(record, own).contains(words.get(3)?);
            is_there.then(|| "BUSYGROUP Consumer Group name already exists".to_owned())
        }
        b"xgroup" if is_of_groups(words, b"destroy") => None,
        b"xinfo" if !words.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"consumers")) => None,
        b"xgroup" | b"xinfo" | b"xreadgroup" | b"xclaim" | b"xautoclaim" | b"xpending" => {
            let group = group_of(words)?;
            let is_there = groups(record, own).contains(group);
            (!is_there)
                .then(|| format!("NOGROUP No such consumer group '{group}' for key name '{}'", record.key))
        }
        b"restore" => {
            let replaces = words.iter().skip(4).any(|word| word.eq_ignore_ascii_case(b"replace"));
            (!replaces).then(|| "BUSYKEY Target key name already exists.".to_owned())
        }
        b"pfadd" | b"pfcount" => {
            let is_counted = match changed.next_back() {
                None => {
                    let first = record.read(c"GETRANGE", [&b"0"[..], b"3"]).bytes()?;
                    *first == *b"HYLL"
                }
                Some(last) => last.run().is_some(),
            };
            (!is_counted).then(|| NO_HLL.to_owned())
        }
        _ => None,
    }
}

fn is_of_expiry(effect: &Effect) -> bool {
    matches!(
        effect.keyspace(),
        Some(KeyspaceEffect::ExpireAt(_) | KeyspaceEffect::Extend(_) | KeyspaceEffect::Persist)
    )
}

/// The names of a stream's groups, behind what the transaction did to it.
fn groups(record: &Record<'_, impl Server>, own: &[&Effect]) -> Vec<Bytes> {
    let stored = record.command_on(&["XINFO", "GROUPS", ""]).items();
    let mut groups: Vec<Bytes> = stored.into_iter().filter_map(|group| group.list().nth(1)).collect();
    for effect in own {
        match effect.run() {
            Some(run) if is_create(&run.words) => groups.extend(run.words.get(3).cloned()),
            Some(run) if is_of_groups(&run.words, b"destroy") => {
                groups.retain(|group| Some(group) != run.words.get(3));
            }
            Some(run) if removes(run) => groups.clear(),
            Some(_) => {}
            None if is_of_expiry(effect) => {}
            None => groups.clear(),
        }
    }
    groups
}

/// The largest id that a stream has given.
fn last_id(record: &Record<'_, impl Server>) -> Option<(u64, u64)> {
    let about = record.command_on(&["XINFO", "STREAM", ""]).items();
    let at = about.iter().position(|field| field.is("last-generated-id"))?;
    let (ms, sequence) = id(about.into_iter().nth(at + 1)?.bytes()?.as_str()?)?;
    Some((ms, sequence?))
}

/// The id that an `XADD` names; `None`: the server makes it.
fn id_of(words: &[Bytes]) -> Option<(u64, Option<u64>)> {
    let mut rest = words.get(2..)?.iter();
    loop {
        let word = rest.next()?;
        match word.to_ascii_lowercase().as_slice() {
            b"nomkstream" => {}
            b"maxlen" | b"minid" => {
                let threshold = rest.next()?;
                if matches!(&threshold[..], b"=" | b"~") {
                    rest.next()?;
                }
            }
            b"limit" => drop(rest.next()?),
            _ => return id(word.as_str()?),
        }
    }
}

/// An id, and the part behind it, if the server does not make that.
fn id(text: &str) -> Option<(u64, Option<u64>)> {
    match text.split_once('-') {
        None => Some((text.parse().ok()?, Some(0))),
        Some((ms, "*")) => Some((ms.parse().ok()?, None)),
        Some((ms, sequence)) => Some((ms.parse().ok()?, Some(sequence.parse().ok()?))),
    }
}

/// [`Records::run`](claret_core::Records::run).
pub(crate) fn run(server: &impl Server, key: &Bytes, run: &Run) -> Reply {
    let record = Record::new(server, key, "a command");
    let held = server.held_ends(|held| held.0.get(key).copied());
    let now = server.now_ms();
    // It sees the end that the key has, if that has not come yet.
    let end = held.and_then(|held| held.end).and_then(|end| i64::try_from(end.ms()).ok());
    if let Some(end) = end.filter(|end| *end > now) {
        server.set_end_here(record.name(), end);
    }
    let answer = server.command(&run.words, run.writes);
    let (elements, bytes) = answer.size();
    server.note_read(elements, bytes);
    if let Some(held) = held {
        hold_again(&record, held, end, now);
    } else if run.writes {
        server.expiry_changed(key, record.name());
    }
    if let Answer::Error(error) = &answer {
        let command = &run.words[0];
        server.warn(&format!("{command} of a committed transaction failed on key '{key}': {error}"));
    }
    bounded(answer, run.writes)
}

/// The end of a key that a vote is about is put off again: to the one that it has now.
fn hold_again(record: &Record<'_, impl Server>, held: Held, end: Option<i64>, now: i64) {
    let found = record.open_any().map(|key| key.expires_at());
    // One that was over before the command came is not seen in the server: there it is put off.
    let stays = found == Some(Some(held.put_off));
    let end = match found {
        _ if stays => end,
        Some(found) => found,
        None => None,
    };
    let put_off = end.map_or(held.put_off, |end| super::ends::later(end, now));
    if end.is_some() {
        record.server.set_end_here(record.name(), put_off);
    }
    let end = end.and_then(|end| u64::try_from(end).ok()).and_then(Expiry::at_ms);
    record.server.held_ends(|all| all.0.insert(record.key.clone(), Held { end, put_off, ..held }));
}

/// An answer, unless it is longer than one may be. A status is told from a string by what it says: what writes answers `OK`.
fn bounded(answer: Answer, writes: bool) -> Reply {
    if writes && answer.is("OK") {
        return Reply::Ok;
    }
    let (elements, bytes) = answer.size();
    if elements > ANSWER_ELEMENTS_MAX || bytes > ANSWER_BYTES_MAX {
        let error = format!(
            "ERR the answer has {elements} elements and {bytes} bytes, and may have {ANSWER_ELEMENTS_MAX} and {ANSWER_BYTES_MAX}{}",
            if writes { "; the command was carried out" } else { ": ask for less" }
        );
        return Reply::Failed(Box::new(OpError::Told(error)));
    }
    reply_of(answer)
}

fn reply_of(answer: Answer) -> Reply {
    match answer {
        Answer::Nil => Reply::Nil,
        Answer::Int(value) => Reply::Int(value),
        Answer::Bytes(bytes) => Reply::Bytes(bytes),
        Answer::Array(items) => Reply::Array(items.into_iter().map(reply_of).collect()),
        Answer::Error(error) => Reply::Failed(Box::new(OpError::Told(error))),
    }
}
