//! Every operation of every built-in type has a method on a handle.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use claret_types::{Bytes, Content, FromReply, Method, Operation, Reply, ScoreBound, builtin_types};

use super::Records;
use super::scope::{AnswerIn, Answers, Scope, TxScope};
use crate::decode::Decode;
use crate::value::ValueError;

/// A scope that does nothing and notes the operations.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<BTreeSet<(&'static str, &'static str)>>>);

/// Answers that nobody gets.
enum Nothing {}

impl Answers for Nothing {
    type Of<R> = ();
}

impl Recorder {
    fn note(&self, op: &Operation) {
        self.0.lock().unwrap().insert((op.type_info().name, op.method().name));
    }
}

impl Scope for Recorder {
    type Void = ();
    type Answers = Nothing;

    fn void(&self, _: Bytes, op: Operation) {
        assert!(!op.returns(), "{op:?} answers");
        self.note(&op);
    }

    fn void_many(&self, calls: Vec<(Bytes, Operation)>) {
        calls.into_iter().for_each(|(key, op)| self.void(key, op));
    }

    fn answer<R: 'static>(&self, _: Bytes, op: Operation, _: Decode<R>) -> AnswerIn<Self, R> {
        assert!(op.returns(), "{op:?} answers nothing");
        self.note(&op);
    }

    fn answer_many<R: 'static>(&self, calls: Vec<(Bytes, Operation)>, read: Decode<R>) -> AnswerIn<Self, R> {
        calls.into_iter().for_each(|(key, op)| self.answer(key, op, read));
    }

    fn refuse_void(&self, _: Bytes, error: ValueError) {
        panic!("{error}");
    }

    fn refuse<R: 'static>(&self, _: Bytes, error: ValueError) -> AnswerIn<Self, R> {
        panic!("{error}");
    }
}

impl TxScope for Recorder {
    fn answer_for_update<R: 'static>(&self, key: Bytes, op: Operation, read: Decode<R>) -> AnswerIn<Self, R> {
        self.answer(key, op, read);
    }
}

fn strings_and_numbers(scope: &impl TxScope) {
    let register = scope.register("k");
    register.set(1);
    register.replace::<Bytes>(1);
    register.get::<Bytes>();
    register.get_for_update::<Bytes>();
    register.append("a");
    register.len();
    register.delete();
    register.initialize(1);
    register.set_if_absent(1);
    let counter = scope.counter("k");
    counter.add(1);
    counter.add_returning(1);
    counter.get();
    counter.get_for_update();
    let float = scope.float_counter("k");
    float.add(1.0);
    float.add_returning(1.0);
    float.get();
    let bounded = scope.bounded_counter("k");
    bounded.create(0, 0, 1);
    bounded.add(1);
    bounded.take(1);
    bounded.take_wrapping(1);
    bounded.try_add(1);
    bounded.try_take(1);
    bounded.get();
    bounded.bounds();
    scope.uid_generator("k").next();
    scope.uid_generator("k").issued();
}

fn collections(scope: &impl TxScope) {
    let set = scope.set("k");
    set.add(1);
    set.add_returning(1);
    set.remove(1);
    set.remove_returning(1);
    set.contains(1);
    set.len();
    set.members::<Bytes>();
    let dict = scope.dict("k");
    dict.set("a", 1);
    dict.set_returning("a", 1);
    dict.remove("a");
    dict.remove_returning("a");
    dict.add("a", 1);
    dict.add_returning("a", 1);
    dict.get::<Bytes>("a");
    dict.get_many::<Bytes>(["a"]);
    dict.contains("a");
    dict.len();
    dict.fields::<Bytes>();
    dict.all::<Bytes, Bytes>();
    let document = scope.document("k");
    document.set_json("$", "{}");
    document.merge_json("$", "{}");
    document.get_json("$");
    document.remove("$.a");
    document.remove_returning("$.a");
    document.add("$.a", 1);
    document.add_returning::<i64>("$.a", 0.5);
    document.append("$.a", "x");
    document.append_returning("$.a", "x");
    document.push_json("$.a", ["1"]);
    document.push_json_returning("$.a", ["1"]);
    document.kind("$");
    document.keys("$");
    let list = scope.list("k");
    list.push_front(1);
    list.push_back(1);
    list.push_front_returning(1);
    list.push_back_returning(1);
    list.pop_front::<Bytes>();
    list.pop_back::<Bytes>();
    list.len();
    list.range::<Bytes>(0, 1);
    list.get::<Bytes>(0);
}

fn scores(scope: &impl TxScope) {
    let scored = scope.scored_set("k");
    let (min, max) = (ScoreBound::Included(0.0), ScoreBound::Excluded(1.0));
    scored.add("a", 1.0);
    scored.add_returning("a", 1.0);
    scored.remove("a");
    scored.remove_returning("a");
    scored.increment("a", 1.0);
    scored.increment_returning("a", 1.0);
    scored.score("a");
    scored.rank("a");
    scored.len();
    scored.range::<Bytes>(0, 1);
    scored.between::<Bytes>(min, max);
    scored.count(min, max);
    let top = scope.top_k("k", 1);
    top.add("a", 1.0);
    top.max::<Bytes>();
    top.list::<Bytes>();
    top.count();
    let bag = scope.summary_bag("k");
    bag.add(1.0);
    bag.count();
    bag.sum();
    bag.mean();
    bag.min();
    bag.max();
    bag.summary();
}

/// Arguments that a method takes: numbers where it asks for numbers.
fn examples(arguments: &str) -> Vec<Bytes> {
    if arguments == "type words" {
        return vec!["list".into(), "a".into()];
    }
    let required = arguments.split(" [").next().unwrap_or_default().split_whitespace();
    let required = required.filter(|word| !word.starts_with('['));
    let example = |word| match word {
        "path" => "$",
        "json-string" => "\"1\"",
        _ => "1",
    };
    required.map(|word| Bytes::from(example(word))).collect()
}

fn any_type(scope: &Recorder) {
    let (time, at) = (Duration::from_secs(1), SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000));
    let key = scope.key("k");
    key.delete();
    key.delete_returning();
    key.exists();
    key.expire_in(time);
    key.expire_in_returning(time);
    key.expire_at(at);
    key.expire_at_returning(at);
    key.persist();
    key.persist_returning();
    key.ttl();
    key.expires_at();
    key.content();
    key.digest();
    key.version();
    let words = ["list", "a"].map(|word| Reply::Bytes(word.into()));
    key.put(Content::from_reply(Reply::Array(words.into())).expect("a list of one"));
    scope.register("k").set_for("v", time);
    scope.register("k").set_until("v", at);
    scope.bounded_counter("k").resize(0, 9);
}

/// What the files of `src/records` say.
fn sources_of_handles() -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/records");
    let files = std::fs::read_dir(folder).expect("the handles").map(|entry| entry.expect("a file").path());
    files.map(|path| std::fs::read_to_string(path).expect("a source")).collect()
}

#[test]
fn every_operation_of_every_type_has_a_method_on_a_handle() {
    let recorder = Recorder::default();
    strings_and_numbers(&recorder);
    collections(&recorder);
    scores(&recorder);
    any_type(&recorder);
    let issued = recorder.0.lock().unwrap().clone();
    let mut missing = Vec::new();
    let handles = sources_of_handles();
    for info in builtin_types() {
        // A type that nobody calls above: its handle says at each method which operation that is.
        if issued.iter().all(|(name, _)| *name != info.name) {
            let is_said = |method: &&Method| handles.contains(&format!("/// `{}`", method.name));
            missing.extend(
                info.methods.iter().filter(|it| !is_said(it)).map(|it| format!("{} {}", info.name, it.name)),
            );
            continue;
        }
        for method in info.methods {
            // Short forms, such as INCR, are other operations once they are read.
            let arguments = examples(method.arguments);
            let op = (info.parse)(method.name, &arguments).expect("the arguments of its help");
            // The server's commands are no handle's: `Batch::command`, `Tx::ask`. TTL a handle has in milliseconds.
            let is_elsewhere = op.is_command() || ["RECORD.ASK", "TTL"].contains(&op.method().name);
            if !is_elsewhere && !issued.contains(&(info.name, op.method().name)) {
                missing.push(format!("{} {}", info.name, method.name));
            }
        }
    }
    assert_eq!(missing, [""; 0], "give them a method, and call it above");
}
