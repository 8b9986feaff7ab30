//! A small model of a server with keys, for tests. It has only the commands that read and write records.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::CStr;

use claret_types::Bytes;

use super::held_ends::HeldEnds;
use super::server::{OpenKey, Server};
use crate::ffi::{Answer, Kind, Side};
use crate::parts::command_table::Row;

/// A key's value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Text(Vec<u8>),
    List(VecDeque<Bytes>),
    Hash(BTreeMap<Bytes, Bytes>),
    Set(BTreeSet<Bytes>),
    Zset(BTreeMap<Bytes, f64>),
    /// Another module's, which has this name.
    Foreign(&'static str),
}

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    keys: RefCell<BTreeMap<Bytes, Value>>,
    /// Keys that expire, by the millisecond of their end.
    expiring: RefCell<BTreeMap<Bytes, i64>>,
    held_ends: RefCell<HeldEnds>,
    /// What time it is. Unless a test says so, earlier than all that tests set.
    pub(super) now: Cell<i64>,
    /// How many elements and bytes were read.
    pub(super) read: Cell<(usize, usize)>,
    /// The longest string that is appended to; by default 512 MiB.
    pub(super) append_max: Option<usize>,
    /// Commands that wrote, in order.
    pub(super) written: RefCell<Vec<String>>,
    /// What the operator was told.
    pub(super) told: RefCell<Vec<String>>,
}

impl Model {
    pub(super) fn get(&self, key: &str) -> Option<Value> {
        self.keys.borrow().get(key.as_bytes()).cloned()
    }

    pub(super) fn put_value(&self, key: &str, value: Value) {
        self.keys.borrow_mut().insert(Bytes::from(key), value);
    }

    /// A key goes by itself.
    pub(super) fn lose(&self, key: &str) {
        self.keys.borrow_mut().remove(key.as_bytes());
        self.expiring.borrow_mut().remove(key.as_bytes());
    }

    /// Gives a key an end.
    pub(super) fn expire(&self, key: &str, end: i64) {
        self.expiring.borrow_mut().insert(Bytes::from(key), end);
    }

    pub(super) fn expires_at(&self, key: &str) -> Option<i64> {
        self.expiring.borrow().get(key.as_bytes()).copied()
    }

    fn run(&self, command: &CStr, key: &Bytes, arguments: &[&[u8]]) -> Answer {
        let name = command.to_str().expect("a name");
        let mut keys = self.keys.borrow_mut();
        let mut value = keys.remove(key);
        let answer = match name {
            "DEL" => {
                value = None;
                Answer::Int(1)
            }
            "PEXPIREAT" | "PERSIST" => {
                let ends = &mut *self.expiring.borrow_mut();
                match (name, arguments) {
                    ("PERSIST", _) => {
                        ends.remove(key);
                    }
                    (_, [end, b"GT"]) => {
                        if let Some(held) = ends.get_mut(key) {
                            *held = number(end).max(Some(*held)).expect("a time");
                        }
                    }
                    (_, [end]) if value.is_some() => {
                        ends.insert(key.clone(), number(end).expect("a time"));
                    }
                    _ => {}
                }
                Answer::Int(1)
            }
            "TYPE" => match &value {
                Some(Value::Foreign(name)) => Answer::Bytes(Bytes::from(*name)),
                other => panic!("nobody asks for the type of {other:?}"),
            },
            "DUMP" => match &value {
                Some(Value::Foreign(name)) => Answer::Bytes(Bytes::from(format!("what {name} keeps"))),
                other => panic!("nobody asks for a dump of {other:?}"),
            },
            "GET" | "SET" | "APPEND" | "INCRBY" => text(name, &mut value, arguments),
            "LPUSH" | "RPUSH" | "LPOP" | "RPOP" | "LRANGE" => list(name, &mut value, arguments),
            "HSET" | "HDEL" | "HINCRBY" | "HGETALL" => hash(name, &mut value, arguments),
            "SADD" | "SREM" | "SMEMBERS" | "SMISMEMBER" => set(name, &mut value, arguments),
            "ZADD" | "ZINCRBY" | "ZREM" | "ZREMRANGEBYRANK" | "ZRANGE" | "ZRANGEBYSCORE" | "ZCOUNT"
            | "ZRANK" => zset(name, &mut value, arguments),
            other => panic!("the model knows no {other}"),
        };
        let value = value.filter(|value| !is_empty(value));
        if value.is_none() || name == "SET" && !arguments.contains(&&b"KEEPTTL"[..]) {
            self.expiring.borrow_mut().remove(key);
        }
        if let ("SET", [_, b"PXAT", end]) = (name, arguments) {
            self.expiring.borrow_mut().insert(key.clone(), number(end).expect("a time"));
        }
        keys.extend(value.map(|value| (key.clone(), value)));
        answer
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Text(_) | Value::Foreign(_) => false,
        Value::List(list) => list.is_empty(),
        Value::Hash(hash) => hash.is_empty(),
        Value::Set(set) => set.is_empty(),
        Value::Zset(zset) => zset.is_empty(),
    }
}

fn wrong_type() -> Answer {
    Answer::Error("WRONGTYPE Operation against a key holding the wrong kind of value".to_owned())
}

fn number<N: std::str::FromStr>(text: &[u8]) -> Option<N> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// As the server adds to an integer that it holds: `007` and `+7` are none.
fn sum(held: &[u8], by: &[u8]) -> Option<i64> {
    let before: i64 = number(held)?;
    (before.to_string().as_bytes() == held).then_some(())?;
    before.checked_add(number(by)?)
}

fn texts(list: impl IntoIterator<Item = Bytes>) -> Answer {
    Answer::Array(list.into_iter().map(Answer::Bytes).collect())
}

fn no_integer() -> Answer {
    Answer::Error("ERR value is not an integer or out of range".to_owned())
}

fn text(name: &str, value: &mut Option<Value>, arguments: &[&[u8]]) -> Answer {
    if name == "SET" {
        *value = Some(Value::Text(arguments[0].to_vec()));
        return Answer::Int(1);
    }
    let is_absent = value.is_none();
    let Value::Text(held) = value.get_or_insert(Value::Text(Vec::new())) else { return wrong_type() };
    match name {
        "GET" if is_absent => {
            *value = None;
            Answer::Nil
        }
        "GET" => Answer::Bytes(Bytes::copy_from(held)),
        "APPEND" => {
            held.extend_from_slice(arguments[0]);
            Answer::Int(held.len() as i64)
        }
        _ => match sum(if is_absent { b"0" } else { held }, arguments[0]) {
            Some(sum) => {
                *held = sum.to_string().into_bytes();
                Answer::Int(sum)
            }
            None => no_integer(),
        },
    }
}

/// The positions `start..=stop` of so many.
fn span(arguments: &[&[u8]], length: usize) -> std::ops::Range<usize> {
    let at = |argument: &[u8]| {
        let at: i64 = number(argument).expect("a position");
        if at < 0 { at + length as i64 } else { at }
    };
    let (start, stop) = (at(arguments[0]).max(0) as usize, at(arguments[1]) + 1);
    start.min(length)..(stop.max(0) as usize).clamp(start.min(length), length)
}

fn list(name: &str, value: &mut Option<Value>, arguments: &[&[u8]]) -> Answer {
    let Value::List(held) = value.get_or_insert(Value::List(VecDeque::new())) else { return wrong_type() };
    match name {
        "LPUSH" => arguments.iter().for_each(|it| held.push_front(Bytes::copy_from(it))),
        "RPUSH" => arguments.iter().for_each(|it| held.push_back(Bytes::copy_from(it))),
        "LRANGE" => return texts(held.range(span(arguments, held.len())).cloned()),
        _ => {
            for _ in 0..number(arguments[0]).expect("a count") {
                if name == "LPOP" {
                    held.pop_front()
                } else {
                    held.pop_back()
                };
            }
        }
    }
    Answer::Int(held.len() as i64)
}

fn hash(name: &str, value: &mut Option<Value>, arguments: &[&[u8]]) -> Answer {
    let Value::Hash(held) = value.get_or_insert(Value::Hash(BTreeMap::new())) else { return wrong_type() };
    let bytes = |argument: &[u8]| Bytes::copy_from(argument);
    match name {
        "HGETALL" => texts(held.iter().flat_map(|(field, value)| [field.clone(), value.clone()])),
        "HDEL" => {
            arguments.iter().for_each(|field| drop(held.remove(*field)));
            Answer::Int(1)
        }
        "HSET" => {
            arguments.chunks(2).for_each(|pair| drop(held.insert(bytes(pair[0]), bytes(pair[1]))));
            Answer::Int(1)
        }
        _ => match sum(held.get(arguments[0]).map_or(b"0", |held| held), arguments[1]) {
            Some(sum) => {
                held.insert(bytes(arguments[0]), Bytes::from(sum.to_string()));
                Answer::Int(sum)
            }
            None => no_integer(),
        },
    }
}

fn set(name: &str, value: &mut Option<Value>, arguments: &[&[u8]]) -> Answer {
    let Value::Set(held) = value.get_or_insert(Value::Set(BTreeSet::new())) else { return wrong_type() };
    match name {
        "SMEMBERS" => texts(held.iter().cloned()),
        "SMISMEMBER" => {
            Answer::Array(arguments.iter().map(|it| Answer::Int(i64::from(held.contains(*it)))).collect())
        }
        "SADD" => {
            held.extend(arguments.iter().map(|it| Bytes::copy_from(it)));
            Answer::Int(1)
        }
        _ => {
            held.retain(|member| !arguments.contains(&&member[..]));
            Answer::Int(1)
        }
    }
}

/// From the lowest.
fn ranked(zset: &BTreeMap<Bytes, f64>) -> Vec<(Bytes, f64)> {
    let mut all: Vec<(Bytes, f64)> = zset.iter().map(|(member, score)| (member.clone(), *score)).collect();
    all.sort_by(|a, b| a.1.total_cmp(&b.1).then_with(|| a.0.cmp(&b.0)));
    all
}

fn with_scores(list: impl IntoIterator<Item = (Bytes, f64)>) -> Answer {
    texts(list.into_iter().flat_map(|(member, score)| [member, Bytes::from(format!("{score:?}"))]))
}

fn zset(name: &str, value: &mut Option<Value>, arguments: &[&[u8]]) -> Answer {
    let Value::Zset(held) = value.get_or_insert(Value::Zset(BTreeMap::new())) else { return wrong_type() };
    let score = |text: &[u8]| number::<f64>(text).expect("a score");
    match name {
        "ZADD" => {
            held.extend(arguments.chunks(2).map(|pair| (Bytes::copy_from(pair[1]), score(pair[0]))));
        }
        "ZINCRBY" => *held.entry(Bytes::copy_from(arguments[1])).or_default() += score(arguments[0]),
        "ZREM" => held.retain(|member, _| !arguments.contains(&&member[..])),
        "ZREMRANGEBYRANK" => {
            let all = ranked(held);
            let gone = &all[span(arguments, all.len())];
            held.retain(|member, _| gone.iter().all(|(it, _)| it != member));
        }
        "ZRANGE" => {
            let mut all = ranked(held);
            if arguments.contains(&&b"REV"[..]) {
                all.reverse();
            }
            let span = span(arguments, all.len());
            return with_scores(all[span].iter().cloned());
        }
        "ZRANGEBYSCORE" | "ZCOUNT" => {
            let bound = |text: &[u8], is_within: fn(f64, f64, bool) -> bool| match text.strip_prefix(b"(") {
                Some(text) => (score(text), true, is_within),
                None => (score(text), false, is_within),
            };
            let min = bound(arguments[0], |it, min, excluded| it > min || !excluded && it == min);
            let max = bound(arguments[1], |it, max, excluded| it < max || !excluded && it == max);
            let is_in = |it: f64| min.2(it, min.0, min.1) && max.2(it, max.0, max.1);
            let found = ranked(held).into_iter().filter(|(_, score)| is_in(*score));
            return match name {
                "ZCOUNT" => Answer::Int(found.count() as i64),
                _ => with_scores(found),
            };
        }
        _ => {
            let at = ranked(held).iter().position(|(member, _)| **member == *arguments[0]);
            return at.map_or(Answer::Nil, |at| Answer::Int(at as i64));
        }
    }
    Answer::Int(1)
}

impl Server for Model {
    type Text = Bytes;
    type Key = Opened;

    fn text(&self, bytes: &[u8]) -> Bytes {
        Bytes::copy_from(bytes)
    }

    fn open(&self, name: &Bytes) -> Option<Opened> {
        let value = self.keys.borrow().get(name).cloned()?;
        Some(Opened { value, end: self.expiring.borrow().get(name).copied() })
    }

    fn note_end(&self, _: &Bytes, _: i64) {}

    fn read<'a>(
        &self,
        command: &CStr,
        name: &Bytes,
        arguments: impl IntoIterator<Item = &'a [u8]>,
    ) -> Answer {
        self.run(command, name, &arguments.into_iter().collect::<Vec<_>>())
    }

    fn write<'a>(
        &self,
        command: &CStr,
        name: &Bytes,
        arguments: impl IntoIterator<Item = &'a [u8]>,
    ) -> Answer {
        let arguments: Vec<&[u8]> = arguments.into_iter().collect();
        let words = arguments.iter().map(|word| word.escape_ascii().to_string());
        let words: Vec<String> =
            [command.to_string_lossy().into_owned(), name.to_string()].into_iter().chain(words).collect();
        self.written.borrow_mut().push(words.join(" "));
        self.run(command, name, &arguments)
    }

    fn write_as_is<'a>(
        &self,
        command: &CStr,
        name: &Bytes,
        arguments: impl IntoIterator<Item = &'a [u8]>,
    ) -> Answer {
        self.write(command, name, arguments)
    }

    /// It knows no whole commands.
    fn command(&self, words: &[Bytes], _: bool) -> Answer {
        Answer::Error(format!("ERR unknown command {words:?}"))
    }

    fn key_places(&self, _: &[Bytes]) -> Vec<usize> {
        vec![1]
    }

    fn row(&self, _: &[u8]) -> Option<Row> {
        None
    }

    fn expiry_changed(&self, _: &Bytes, name: &Bytes) -> bool {
        self.keys.borrow().contains_key(name)
    }

    fn set_end_here(&self, name: &Bytes, end: i64) -> bool {
        self.expiring.borrow_mut().get_mut(name).map(|before| *before = end).is_some()
    }

    fn has_come_to_its_end(&self, key: &Bytes) -> bool {
        self.expiring.borrow().get(key).is_some_and(|end| *end <= self.now_ms())
    }

    fn held_ends<R>(&self, use_them: impl FnOnce(&mut HeldEnds) -> R) -> R {
        use_them(&mut self.held_ends.borrow_mut())
    }

    fn now_ms(&self) -> i64 {
        self.now.get()
    }

    fn note_read(&self, elements: usize, bytes: usize) {
        let before = self.read.get();
        self.read.set((before.0 + elements, before.1 + bytes));
    }

    fn memory(&self, name: &Bytes) -> usize {
        self.keys.borrow().get(name).map_or(0, |value| match value {
            Value::Text(bytes) => bytes.len(),
            Value::List(values) => values.iter().map(|value| value.len()).sum(),
            Value::Hash(pairs) => pairs.iter().map(|(name, value)| name.len() + value.len()).sum(),
            Value::Set(members) => members.iter().map(|member| member.len()).sum(),
            Value::Zset(scores) => scores.keys().map(|member| member.len() + 8).sum(),
            Value::Foreign(_) => 0,
        })
    }

    fn whole_elements_max(&self) -> usize {
        100_000
    }

    fn append_bytes_max(&self) -> Option<usize> {
        Some(self.append_max.unwrap_or(512 << 20))
    }

    fn warn(&self, text: &str) {
        self.told.borrow_mut().push(text.to_owned());
    }
}

/// A key that is open.
pub(super) struct Opened {
    value: Value,
    end: Option<i64>,
}

impl OpenKey for Opened {
    type Text = Bytes;

    fn kind(&self) -> Kind {
        match &self.value {
            Value::Text(_) => Kind::String,
            Value::List(_) => Kind::List,
            Value::Hash(_) => Kind::Hash,
            Value::Set(_) => Kind::Set,
            Value::Zset(_) => Kind::Zset,
            Value::Foreign(_) => Kind::Other,
        }
    }

    fn expires_at(&self) -> Option<i64> {
        self.end
    }

    fn len(&self) -> usize {
        match &self.value {
            Value::Text(text) => text.len(),
            Value::List(list) => list.len(),
            Value::Hash(hash) => hash.len(),
            Value::Set(set) => set.len(),
            Value::Zset(zset) => zset.len(),
            Value::Foreign(_) => 1,
        }
    }

    fn string(&self) -> &[u8] {
        let Value::Text(text) = &self.value else { panic!("a string") };
        text
    }

    fn field(&self, name: &[u8]) -> Option<Bytes> {
        let Value::Hash(hash) = &self.value else { panic!("a hash") };
        hash.get(name).cloned()
    }

    fn score(&self, member: &[u8]) -> Option<f64> {
        let Value::Zset(zset) = &self.value else { panic!("a sorted set") };
        zset.get(member).copied()
    }

    fn outermost(&self, end: Side, count: usize) -> Vec<(Bytes, f64)> {
        let Value::Zset(zset) = &self.value else { panic!("a sorted set") };
        let mut all = ranked(zset);
        if end == Side::Highest {
            all.reverse();
        }
        all.truncate(count);
        all
    }
}
