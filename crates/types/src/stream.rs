//! Streams of records in memory (A35 of `docs/scripts.md`): what `XADD`, `XLEN`, `XRANGE`, `XREVRANGE`, `XDEL`, `XTRIM`, `XREAD` and `XINFO STREAM`
//! mean where no server is that carries them out.
//!
//! A stream is no type with operations of its own: each command claims it whole (A20). So here is only what a record holds, and what a
//! command does to it. Before a server none of this is used.

use std::ops::Bound;
use std::sync::Arc;

use rpds::RedBlackTreeMapSync;

use crate::builtin::{BuiltIn, Native};
use crate::data_type::{Arguments, DataType, Examples, Execution, Few, Method, Unique};
use crate::erased::State;
use crate::words::malformed;
use crate::{Bytes, Claims, Modes, OpError, Reply};

/// What streams are. It has no operations: commands are carried out on it.
pub struct Stream;

/// Milliseconds since 1970, and a number.
type Id = (u64, u64);

/// Fields and their values.
type Fields = Arc<[Bytes]>;

/// A stream: entries in the order of their ids. To copy it is O(1), to change it O(log entries).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entries {
    by_id: RedBlackTreeMapSync<Id, Fields>,
    /// The last id that any entry has had.
    last: Id,
    /// The greatest that was removed.
    removed: Id,
    /// So many were ever added.
    added: u64,
}

/// There is no operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Never {}

/// The commands that are carried out here.
pub(crate) const NAMES: [&str; 8] =
    ["XADD", "XLEN", "XRANGE", "XREVRANGE", "XDEL", "XTRIM", "XREAD", "XINFO"];

/// The words with which `XADD ... *` is carried out whenever that is, by the clock of whoever was given it; `None`: they are well as
/// they are.
pub(crate) fn at_time(words: &[Bytes], now: impl FnOnce() -> u64) -> Option<Vec<Bytes>> {
    let [_, _, rest @ ..] = words else { return None };
    let at = 2 + options(rest).ok()?.1;
    (&words.get(at)?[..] == b"*").then(|| {
        let mut words = words.to_vec();
        words[at] = Bytes::from(format!("*{}", now()));
        words
    })
}

/// Carries a command out.
///
/// # Errors
/// As servers tell them.
pub(crate) fn carry_out(slot: &mut Option<State>, words: &[Bytes]) -> Result<Reply, OpError> {
    let [name, rest @ ..] = words else { return Err(told("ERR a command has a name")) };
    let command = name.as_str().unwrap_or_default().to_ascii_uppercase();
    let command = &command[..];
    if command == "XREAD" {
        return read(slot, rest);
    }
    let rest = match (command, rest) {
        ("XINFO", [sub, rest @ ..]) if sub.eq_ignore_ascii_case(b"STREAM") => rest,
        ("XINFO", _) => return Err(told("ERR of XINFO there is STREAM alone where records are in memory")),
        (_, rest) => rest,
    };
    let wrong =
        || told(format!("ERR wrong number of arguments for '{}' command", command.to_ascii_lowercase()));
    let [_, rest @ ..] = rest else { return Err(wrong()) };
    let stream = stream_of(slot, command)?;
    match (command, rest) {
        ("XLEN", []) => Ok(Reply::count(stream.map_or(0, |it| it.by_id.size()))),
        ("XINFO", []) => about(&stream.ok_or_else(|| told("ERR no such key"))?),
        ("XRANGE", [from, to, options @ ..]) => range(stream, from, to, false, options),
        ("XREVRANGE", [to, from, options @ ..]) => range(stream, from, to, true, options),
        ("XADD", rest) if rest.len() >= 3 => {
            let (stream, reply) = add(stream, rest, wrong)?;
            put(slot, stream);
            Ok(reply)
        }
        ("XDEL", [_, ..]) => {
            let ids = rest.iter().map(|id| whole_id(id, 0)).collect::<Result<Vec<Id>, _>>()?;
            let Some(mut stream) = stream else { return Ok(Reply::Int(0)) };
            let removed = ids.into_iter().filter(|id| stream.remove(*id)).count();
            put(slot, Some(stream));
            Ok(Reply::count(removed))
        }
        ("XTRIM", [_, _, ..]) => {
            let (options, taken) = options(rest)?;
            let (Some(trim), true) = (options.trim, taken == rest.len()) else { return Err(syntax()) };
            let Some(mut stream) = stream else { return Ok(Reply::Int(0)) };
            let removed = stream.trim(&trim);
            put(slot, Some(stream));
            Ok(Reply::count(removed))
        }
        _ => Err(wrong()),
    }
}

fn stream_of(slot: &Option<State>, method: &str) -> Result<Option<Entries>, OpError> {
    let Some(state) = slot else { return Ok(None) };
    let wrong = || OpError::WrongType {
        found: state.type_info().name.into(),
        expected: Stream::NAME.into(),
        method: method.to_owned().into(),
    };
    state.downcast::<Stream>().cloned().map(Some).ok_or_else(wrong)
}

/// Puts it in place of what was there, with its end.
fn put(slot: &mut Option<State>, stream: Option<Entries>) {
    if let Some(stream) = stream {
        let expiry = slot.as_ref().and_then(State::expiry);
        *slot = Some(State::new::<Stream>(stream).expiring(expiry));
    }
}

fn told(text: impl Into<String>) -> OpError {
    OpError::Told(text.into())
}

fn syntax() -> OpError {
    told("ERR syntax error")
}

/// What is removed from the front.
enum Trim {
    /// All but so many.
    Length(u64),
    /// What is before.
    Before(Id),
}

#[derive(Default)]
struct Options {
    trim: Option<Trim>,
    only_there: bool,
}

/// Options of `XADD` and `XTRIM` that come first, and how many words they are.
fn options(words: &[Bytes]) -> Result<(Options, usize), OpError> {
    let mut options = Options::default();
    let (mut at, mut is_about, mut has_limit) = (0, false, false);
    while let Some(word) = words.get(at) {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if is("NOMKSTREAM") {
            options.only_there = true;
            at += 1;
        } else if is("MAXLEN") || is("MINID") {
            let sign = words.get(at + 1).filter(|sign| matches!(&sign[..], b"=" | b"~"));
            is_about = sign.is_some_and(|sign| &sign[..] == b"~");
            at += 1 + usize::from(sign.is_some());
            let threshold = words.get(at).ok_or_else(syntax)?;
            options.trim = Some(match is("MAXLEN") {
                true => Trim::Length(length(threshold, "ERR The MAXLEN argument must be >= 0.")?),
                false => Trim::Before(whole_id(threshold, 0)?),
            });
            at += 1;
        } else if is("LIMIT") {
            length(words.get(at + 1).ok_or_else(syntax)?, "ERR The LIMIT argument must be >= 0.")?;
            has_limit = true;
            at += 2;
        } else {
            break;
        }
    }
    if has_limit && !is_about {
        return Err(told("ERR syntax error, LIMIT cannot be used without the special ~ option"));
    }
    Ok((options, at))
}

fn length(word: &Bytes, negative: &str) -> Result<u64, OpError> {
    let number: Option<i64> = word.as_str().and_then(|word| word.parse().ok());
    let number = number.ok_or_else(|| told("ERR value is not an integer or out of range"))?;
    u64::try_from(number).map_err(|_| told(negative))
}

fn invalid_id() -> OpError {
    told("ERR Invalid stream ID specified as stream command argument")
}

/// `ms-number`, or `ms` with this number.
fn whole_id(word: &[u8], number: u64) -> Result<Id, OpError> {
    let text = std::str::from_utf8(word).map_err(|_| invalid_id())?;
    let digits = |text: &str| {
        let is_one = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_one.then(|| text.parse().ok()).flatten().ok_or_else(invalid_id)
    };
    match text.split_once('-') {
        Some((ms, number)) => Ok((digits(ms)?, digits(number)?)),
        None => Ok((digits(text)?, number)),
    }
}

fn text_of((ms, number): Id) -> Bytes {
    Bytes::from(format!("{ms}-{number}"))
}

fn after((ms, number): Id) -> Option<Id> {
    match number.checked_add(1) {
        Some(number) => Some((ms, number)),
        None => Some((ms.checked_add(1)?, 0)),
    }
}

/// `XADD`, behind its key: the stream that there is then, and the answer.
fn add(
    stream: Option<Entries>,
    words: &[Bytes],
    wrong: impl Fn() -> OpError,
) -> Result<(Option<Entries>, Reply), OpError> {
    let (options, at) = options(words)?;
    let [id, fields @ ..] = &words[at..] else { return Err(wrong()) };
    if fields.is_empty() || !fields.len().is_multiple_of(2) {
        return Err(wrong());
    }
    let last = stream.as_ref().map_or((0, 0), |it| it.last);
    let exhausted = || told("ERR The stream has exhausted the last possible ID, unable to add more items");
    let too_small =
        || told("ERR The ID specified in XADD is equal or smaller than the target stream top item");
    let id = match &id[..] {
        // By the clock, unless the last entry is of later.
        [b'*', ms @ ..] => {
            let (ms, _) = whole_id(ms, 0)?;
            if ms > last.0 { (ms, 0) } else { after(last).ok_or_else(exhausted)? }
        }
        [ms @ .., b'-', b'*'] => {
            let (ms, _) = whole_id(ms, 0)?;
            match ms.cmp(&last.0) {
                std::cmp::Ordering::Greater => (ms, 0),
                std::cmp::Ordering::Equal => (ms, last.1.checked_add(1).ok_or_else(too_small)?),
                std::cmp::Ordering::Less => return Err(too_small()),
            }
        }
        whole => match whole_id(whole, 0)? {
            (0, 0) => return Err(told("ERR The ID specified in XADD must be greater than 0-0")),
            id => id,
        },
    };
    if stream.is_none() && options.only_there {
        return Ok((None, Reply::Nil));
    }
    if last == (u64::MAX, u64::MAX) {
        return Err(exhausted());
    }
    if id <= last {
        return Err(too_small());
    }
    let mut stream = stream.unwrap_or_default();
    stream.by_id.insert_mut(id, fields.into());
    stream.last = id;
    stream.added += 1;
    if let Some(trim) = &options.trim {
        stream.trim(trim);
    }
    Ok((Some(stream), Reply::Bytes(text_of(id))))
}

impl Entries {
    fn remove(&mut self, id: Id) -> bool {
        let is_there = self.by_id.remove_mut(&id);
        if is_there {
            self.removed = self.removed.max(id);
        }
        is_there
    }

    /// Removes from the front; how many.
    fn trim(&mut self, trim: &Trim) -> usize {
        let mut removed = 0;
        while let Some((id, _)) = self.by_id.first() {
            let is_over = match trim {
                Trim::Length(most) => self.by_id.size() as u64 > *most,
                Trim::Before(first) => id < first,
            };
            if !is_over {
                break;
            }
            let id = *id;
            self.remove(id);
            removed += 1;
        }
        removed
    }
}

fn entry((id, fields): (&Id, &Fields)) -> Reply {
    let fields = fields.iter().cloned().map(Reply::Bytes).collect();
    Reply::Array(vec![Reply::Bytes(text_of(*id)), Reply::Array(fields)])
}

/// `XRANGE` and `XREVRANGE`, behind the key.
fn range(
    stream: Option<Entries>,
    from: &Bytes,
    to: &Bytes,
    is_backwards: bool,
    options: &[Bytes],
) -> Result<Reply, OpError> {
    let bound = |word: &Bytes, number| match &word[..] {
        b"-" => Ok(Bound::Included((0, 0))),
        b"+" => Ok(Bound::Included((u64::MAX, u64::MAX))),
        [b'(', id @ ..] => whole_id(id, number).map(Bound::Excluded),
        id => whole_id(id, number).map(Bound::Included),
    };
    let (from, to) = (bound(from, 0)?, bound(to, u64::MAX)?);
    if from == Bound::Excluded((u64::MAX, u64::MAX)) {
        return Err(told("ERR invalid start ID for the interval"));
    }
    if to == Bound::Excluded((0, 0)) {
        return Err(told("ERR invalid end ID for the interval"));
    }
    let count = match options {
        [] => None,
        [option, count] if option.eq_ignore_ascii_case(b"COUNT") => Some(limit(count)?),
        _ => return Err(syntax()),
    };
    let (Some(stream), true) = (stream, count != Some(0)) else {
        return Ok(if count == Some(0) { Reply::Nil } else { Reply::Array(Vec::new()) });
    };
    let is_empty = match (from, to) {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => {
            from >= to
        }
        _ => false,
    };
    if is_empty {
        return Ok(Reply::Array(Vec::new()));
    }
    let most = count.unwrap_or(usize::MAX);
    let found = stream.by_id.range((from, to));
    Ok(Reply::Array(match is_backwards {
        true => found.rev().take(most).map(entry).collect(),
        false => found.take(most).map(entry).collect(),
    }))
}

/// How many at most; below 0 it is 0.
fn limit(word: &Bytes) -> Result<usize, OpError> {
    let number: Option<i64> = word.as_str().and_then(|word| word.parse().ok());
    let number = number.ok_or_else(|| told("ERR value is not an integer or out of range"))?;
    Ok(usize::try_from(number).unwrap_or(0))
}

/// `XREAD` of one stream, which never waits.
fn read(slot: &Option<State>, mut words: &[Bytes]) -> Result<Reply, OpError> {
    let mut most = usize::MAX;
    let (key, id) = loop {
        words = match words {
            [option, count, rest @ ..] if option.eq_ignore_ascii_case(b"COUNT") => {
                // 0 is all of them, too.
                most = Some(limit(count)?).filter(|count| *count > 0).unwrap_or(usize::MAX);
                rest
            }
            [option, _, rest @ ..] if option.eq_ignore_ascii_case(b"BLOCK") => rest,
            [option, key, id] if option.eq_ignore_ascii_case(b"STREAMS") => break (key, id),
            _ => return Err(syntax()),
        };
    };
    let stream = stream_of(slot, "XREAD")?;
    let behind = match &id[..] {
        b"$" => return Ok(Reply::Nil),
        b">" => {
            return Err(told(
                "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
            ));
        }
        id => whole_id(id, 0)?,
    };
    let Some(stream) = stream else { return Ok(Reply::Nil) };
    let behind = (Bound::Excluded(behind), Bound::Unbounded);
    let found: Vec<Reply> = stream.by_id.range(behind).take(most).map(entry).collect();
    Ok(match found.is_empty() {
        true => Reply::Nil,
        false => Reply::Array(vec![Reply::Array(vec![Reply::Bytes(key.clone()), Reply::Array(found)])]),
    })
}

/// `XINFO STREAM`.
fn about(stream: &Entries) -> Result<Reply, OpError> {
    let id = |id| Reply::Bytes(text_of(id));
    let first = stream.by_id.first();
    let told = [
        ("length", Reply::count(stream.by_id.size())),
        ("last-generated-id", id(stream.last)),
        ("max-deleted-entry-id", id(stream.removed)),
        ("entries-added", Reply::Int(stream.added.cast_signed())),
        ("recorded-first-entry-id", id(first.map_or((0, 0), |(id, _)| *id))),
        ("groups", Reply::Int(0)),
        ("first-entry", first.map_or(Reply::Nil, entry)),
        ("last-entry", stream.by_id.last().map_or(Reply::Nil, entry)),
    ];
    Ok(Reply::Array(told.into_iter().flat_map(|(name, value)| [Reply::Bytes(name.into()), value]).collect()))
}

impl DataType for Stream {
    const NAME: &'static str = "stream";
    const SUMMARY: &'static str = "entries in the order of their ids; commands are carried out on it whole";
    const NATIVE: &'static str = "stream";
    const METHODS: &'static [Method] = &[];
    const MODES: Modes = Modes { names: &[], conflicts: &[], removing: 0, clearing: 0 };

    type State = Entries;
    type Op = Never;
    type Effect = Never;

    fn parse(method: &str, _: Arguments<'_>) -> Result<Never, OpError> {
        Err(OpError::misuse(Self::METHODS, method))
    }

    fn method(op: &Never) -> &'static Method {
        match *op {}
    }

    fn arguments(op: &Never) -> Few<Bytes> {
        match *op {}
    }

    /// A server keeps a stream without entries, too.
    fn is_absent(_: &Entries) -> bool {
        false
    }

    fn footprint(op: &Never) -> Claims {
        match *op {}
    }

    fn execute(_: &Entries, op: &Never, _: Unique) -> Result<Execution<Never>, OpError> {
        match *op {}
    }

    fn apply(_: &mut Entries, effect: Never) -> Never {
        effect
    }
}

impl Examples for Stream {
    fn states() -> Vec<Entries> {
        let of = |lines: &[&str]| {
            let mut slot = None;
            for line in lines {
                let words: Vec<Bytes> = line.split(' ').map(Bytes::from).collect();
                carry_out(&mut slot, &words).expect("an example");
            }
            slot.and_then(|state| state.downcast::<Stream>().cloned()).unwrap_or_default()
        };
        vec![
            of(&["XADD s 1-1 f v"]),
            of(&["XADD s 1-1 f v", "XADD s 1-2 f w g x", "XADD s 7-0 f v"]),
            of(&["XADD s 1-1 f v", "XADD s 2-1 f v", "XDEL s 1-1 2-1"]),
        ]
    }

    fn operations() -> Vec<Never> {
        Vec::new()
    }
}

impl BuiltIn for Stream {
    const SHARING: &'static str = "nothing";

    /// A server is never given one: `Content::of_words` takes none.
    fn native(stream: &Entries) -> Native {
        Native::List(Self::words(stream))
    }

    /// The last id, the greatest that was removed, how many were added; then each entry: its id, how many words it has, and these.
    fn words(stream: &Entries) -> Vec<Bytes> {
        let head = [text_of(stream.last), text_of(stream.removed), Bytes::from(stream.added.to_string())];
        let of_entry = |(id, fields): (&Id, &Fields)| {
            let head = [text_of(*id), Bytes::from(fields.len().to_string())];
            head.into_iter().chain(fields.iter().cloned()).collect::<Vec<_>>()
        };
        head.into_iter().chain(stream.by_id.iter().flat_map(of_entry)).collect()
    }

    fn of_words(words: &[Bytes]) -> Result<Option<Entries>, OpError> {
        let id = |word: &Bytes| whole_id(word, 0).map_err(|_| malformed(word));
        let number =
            |word: &Bytes| word.as_str().and_then(|it| it.parse::<u64>().ok()).ok_or_else(|| malformed(word));
        let [last, removed, added, rest @ ..] = words else { return Ok(None) };
        let mut stream =
            Entries { last: id(last)?, removed: id(removed)?, added: number(added)?, ..Entries::default() };
        let (mut rest, mut before) = (rest, None);
        while let [own, count, fields @ ..] = rest {
            let (own_id, count) = (id(own)?, number(count)?);
            let Some((fields, behind)) =
                usize::try_from(count).ok().and_then(|count| fields.split_at_checked(count))
            else {
                return Ok(None);
            };
            if before.is_some_and(|before| own_id <= before) || own_id > stream.last || fields.len() % 2 != 0
            {
                return Err(malformed(own));
            }
            before = Some(own_id);
            stream.by_id.insert_mut(own_id, fields.into());
            rest = behind;
        }
        Ok(rest.is_empty().then_some(stream))
    }

    fn elements(stream: &Entries) -> usize {
        stream.by_id.size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(slot: &mut Option<State>, line: &str) -> String {
        let words: Vec<Bytes> = line.split(' ').map(Bytes::from).collect();
        let words = at_time(&words, || 1_000).unwrap_or(words);
        match carry_out(slot, &words) {
            Ok(reply) => shown(&reply),
            Err(error) => error.to_string(),
        }
    }

    fn shown(reply: &Reply) -> String {
        match reply {
            Reply::Array(all) => format!("[{}]", all.iter().map(shown).collect::<Vec<_>>().join(" ")),
            Reply::Bytes(bytes) => bytes.to_string(),
            Reply::Int(number) => number.to_string(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn ids_follow_the_clock_and_never_fall() {
        let mut slot = None;
        for (line, answer) in [
            ("XADD s NOMKSTREAM * f v", "Nil"),
            ("XADD s * f v", "1000-0"),
            ("XADD s * f v", "1000-1"),
            ("XADD s 2000-* f v", "2000-0"),
            ("XADD s * f v", "2000-1"),
            ("XADD s 2000-* f v", "2000-2"),
            ("XADD s MAXLEN ~ 10 LIMIT 5 * f v", "2000-3"),
            ("XADD s 3000 f v", "3000-0"),
        ] {
            assert_eq!(run(&mut slot, line), answer, "{line}");
        }
        for (line, error) in [
            ("XADD s 2000-* f v", "equal or smaller"),
            ("XADD s 3000-0 f v", "equal or smaller"),
            ("XADD s 0-0 f v", "greater than 0-0"),
            ("XADD s x f v", "Invalid stream ID"),
            ("XADD s * f", "wrong number of arguments for 'xadd'"),
            ("XADD s MAXLEN 3 LIMIT 1 * f v", "LIMIT cannot be used"),
            ("XADD s MAXLEN -1 * f v", "MAXLEN argument must be"),
            ("XINFO GROUPS s", "STREAM alone"),
        ] {
            assert!(run(&mut slot, line).contains(error), "{line}");
        }
        run(&mut slot, "XADD s 18446744073709551615-18446744073709551615 f v");
        assert!(run(&mut slot, "XADD s * f v").contains("exhausted"));
    }

    #[test]
    fn entries_are_read_trimmed_and_removed() {
        let mut slot = None;
        (1..=5).for_each(|no| drop(run(&mut slot, &format!("XADD s {no}-1 f {no}"))));
        for (line, answer) in [
            ("XLEN s", "5"),
            ("XRANGE s 2 (4-1", "[[2-1 [f 2]] [3-1 [f 3]]]"),
            ("XRANGE s - + COUNT 1", "[[1-1 [f 1]]]"),
            ("XRANGE s 4 2", "[]"),
            ("XRANGE s - + COUNT 0", "Nil"),
            ("XREVRANGE s + 4", "[[5-1 [f 5]] [4-1 [f 4]]]"),
            ("XREAD COUNT 1 STREAMS s 3", "[[s [[3-1 [f 3]]]]]"),
            ("XREAD BLOCK 0 STREAMS s 5-1", "Nil"),
            ("XREAD STREAMS s $", "Nil"),
            ("XDEL s 5-1 5-1 9-9", "1"),
            ("XTRIM s MAXLEN = 3", "1"),
            ("XTRIM s MINID 3", "1"),
            ("XRANGE s - +", "[[3-1 [f 3]] [4-1 [f 4]]]"),
            ("XADD s MAXLEN 1 * f v", "1000-0"),
            ("XLEN s", "1"),
        ] {
            assert_eq!(run(&mut slot, line), answer, "{line}");
        }
        let about = run(&mut slot, "XINFO STREAM s");
        assert!(
            about.contains("last-generated-id 1000-0 max-deleted-entry-id 5-1 entries-added 6"),
            "{about}"
        );
        assert!(run(&mut None, "XINFO STREAM s").contains("no such key"));
        assert!(run(&mut slot, "XREAD STREAMS s >").contains("only when calling XREADGROUP"));
    }

    #[test]
    fn words_describe_a_stream() {
        for stream in Stream::states() {
            assert_eq!(Stream::of_words(&Stream::words(&stream)).unwrap(), Some(stream));
        }
        let wrong = |line: &str| {
            let words: Vec<Bytes> = line.split(' ').map(Bytes::from).collect();
            !matches!(Stream::of_words(&words), Ok(Some(_)))
        };
        for line in ["1-1", "1-1 0-0 x", "1-1 0-0 1 2-1 2 f v", "1-1 0-0 1 1-1 4 f v", "1-1 0-0 1 1-1 1 f"] {
            assert!(wrong(line), "{line}");
        }
        assert!(!wrong("1-1 0-0 1 1-1 2 f v"));
    }
}
