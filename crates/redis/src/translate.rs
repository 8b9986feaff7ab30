//! Translates operations to plain Redis commands, for mode `none`, and their replies back.
//!
//! Most operations are the command of the same name. An operation that Redis lacks becomes the nearest command that
//! costs about the same; if there is none it is refused.

use bytes::BytesMut;
use claret_types::{Bytes, OpError, Operation, Reply};

use crate::command::Command;
use crate::resp;
use crate::topology::slot_of;

impl Command {
    /// The command that the mode `none` sends for an operation. [`reply_of`] reads what comes back.
    ///
    /// # Errors
    /// No plain command comes near it.
    pub fn of(key: &Bytes, op: &Operation) -> Result<Command, OpError> {
        command_of(key, slot_of(key), op)
    }
}

/// Appends the command for an operation on a key to what is sent: what `command_of` makes, without making it.
///
/// # Errors
/// No plain command comes near it; nothing is appended.
pub fn encode_operation(key: &Bytes, op: &Operation, out: &mut BytesMut) -> Result<(), OpError> {
    match same_name(op) {
        Some(name) => {
            let given = op.arguments();
            resp::encode_words(out, 2 + given.len(), [name.as_bytes(), key].into_iter(), &given);
        }
        None => resp::encode(out, command_of(key, 0, op)?.words()),
    }
    Ok(())
}

/// Whether there is a command for an operation.
///
/// # Errors
/// No plain command comes near it.
pub fn check_operation(key: &Bytes, op: &Operation) -> Result<(), OpError> {
    match same_name(op) {
        Some(_) => Ok(()),
        None => command_of(key, 0, op).map(drop),
    }
}

/// The command of an operation that is its key and its arguments, whatever they are.
fn same_name(op: &Operation) -> Option<&'static str> {
    match op.type_info().name {
        "bounded-counter" | "topk" | "summary-bag" | "keyspace" | "uid-generator" => None,
        _ => {
            let name = op.method().name;
            let name = name.strip_suffix(".RETURNING").unwrap_or(name);
            (!name.contains('.')).then_some(name)
        }
    }
}

/// The command for an operation on a key in a slot.
fn command_of(key: &Bytes, slot: u16, op: &Operation) -> Result<Command, OpError> {
    let method = op.method().name;
    let given = op.arguments();
    let text = |at: usize| given[at].clone();
    let on = |name: &'static str| Command::new(name).arg(key.clone()).with_slot(slot);
    let all = |command: Command| given.iter().fold(command, |command, word| command.arg(word.clone()));
    let negated = |at: usize| match given[at].strip_prefix(b"-") {
        Some(amount) => Bytes::copy_from(amount),
        None => [b"-", &given[at][..]].concat().into(),
    };
    Ok(match (op.type_info().name, method) {
        ("bounded-counter", "BCREATE") => {
            on("HSET").arg("value").arg(text(0)).arg("min").arg(text(1)).arg("max").arg(text(2))
        }
        ("bounded-counter", "BINCRBY" | "BINCRBY.RETURNING") => on("HINCRBY").arg("value").arg(text(0)),
        ("bounded-counter", "BDECRBY" | "BDECRBY.RETURNING" | "BDECRBY.WRAP") => {
            on("HINCRBY").arg("value").arg(negated(0))
        }
        ("bounded-counter", "BGET") => on("HGET").arg("value"),
        ("bounded-counter", "BBOUNDS") => on("HMGET").arg("min").arg("max"),
        ("topk", "TOPK.ADD") => on("ZADD").arg("GT").arg(text(1)).arg(text(2)),
        ("topk", "TOPK.MAX") => on("ZRANGE").arg("0").arg("0").arg("REV").arg("WITHSCORES"),
        ("topk", "TOPK.LIST") => on("ZRANGE").arg("0").arg(before(&given[0])).arg("REV").arg("WITHSCORES"),
        ("topk", "TOPK.COUNT") => on("ZCARD"),
        ("summary-bag", "BAG.ADD") => on("HINCRBYFLOAT").arg("sum").arg(text(0)),
        ("summary-bag", "BAG.SUM" | "BAG.MEAN") => on("HGET").arg("sum"),
        ("summary-bag", "BAG.COUNT") => on("HGET").arg("count"),
        ("summary-bag", "BAG.MIN") => on("HGET").arg("min"),
        ("summary-bag", "BAG.MAX") => on("HGET").arg("max"),
        ("summary-bag", "BAG.SUMMARY") => on("HMGET").arg("count").arg("sum").arg("min").arg("max"),
        ("keyspace", "PSETEXAT") => on("SET").arg(text(1)).arg("PXAT").arg(text(0)),
        ("document", _)
        | ("keyspace", "RECORD.CONTENT" | "RECORD.PUT" | "RECORD.DIGEST" | "RECORD.VERSION") => {
            return Err(OpError::NoPlainCommand { method: method.into() });
        }
        ("bounded-counter", "BRESIZE") => on("HSET").arg("min").arg(text(0)).arg("max").arg(text(1)),
        ("uid-generator", "UID.NEXT") => on("INCR"),
        ("uid-generator", "UID.ISSUED") => on("GET"),
        (_, name) if !name.contains('.') => all(on(name)),
        (_, name) => match name.strip_suffix(".RETURNING") {
            Some(name) => all(Command::new(name).arg(key.clone()).with_slot(slot)),
            None => return Err(OpError::NoPlainCommand { method: method.into() }),
        },
    })
}

/// The last of so many positions.
fn before(count: &Bytes) -> Bytes {
    let count: i64 = count.as_str().and_then(|text| text.parse().ok()).unwrap_or(i64::MAX);
    Bytes::from((count - 1).max(0).to_string())
}

/// A reply to [`Command::of`] as the operation answers it.
pub fn reply_of(op: &Operation, reply: Reply) -> Reply {
    if !op.returns() {
        return Reply::Ok;
    }
    match (op.type_info().name, op.method().name) {
        ("counter" | "uid-generator", "GET" | "UID.ISSUED") => instead_of_nil(Reply::Int(0), int(reply)),
        ("float-counter", _) => instead_of_nil(Reply::Float(0.0), float(reply)),
        ("bounded-counter", "BGET") => int(reply),
        ("bounded-counter", "BBOUNDS") => each(reply, int),
        // Whether there was room, which nobody asked Redis.
        ("bounded-counter", "BINCRBY.RETURNING" | "BDECRBY.RETURNING") => Reply::bool(true),
        ("topk", "TOPK.MAX") => match flat(reply) {
            Reply::Array(items) if items.is_empty() => Reply::Nil,
            other => other,
        },
        ("topk", "TOPK.LIST") => flat(reply),
        ("summary-bag", "BAG.COUNT") => instead_of_nil(Reply::Int(0), int(reply)),
        ("summary-bag", "BAG.SUM") => instead_of_nil(Reply::Float(0.0), float(reply)),
        ("summary-bag", "BAG.SUMMARY") => summary(reply),
        ("summary-bag", _) => float(reply),
        ("scored-set", "ZRANGE" | "ZRANGEBYSCORE") => flat(reply),
        _ => reply,
    }
}

fn number<T: std::str::FromStr>(reply: &Reply) -> Option<T> {
    match reply {
        Reply::Bytes(text) => text.as_str().and_then(|text| text.parse().ok()),
        _ => None,
    }
}

fn int(reply: Reply) -> Reply {
    number(&reply).map_or(reply, Reply::Int)
}

fn float(reply: Reply) -> Reply {
    number(&reply).map_or(reply, Reply::Float)
}

fn instead_of_nil(nothing: Reply, reply: Reply) -> Reply {
    if reply == Reply::Nil { nothing } else { reply }
}

/// Count, sum, least and greatest.
fn summary(reply: Reply) -> Reply {
    let Reply::Array(parts) = reply else { return reply };
    let part = |(at, part): (usize, Reply)| match at {
        0 => instead_of_nil(Reply::Int(0), int(part)),
        1 => instead_of_nil(Reply::Float(0.0), float(part)),
        _ => float(part),
    };
    Reply::Array(parts.into_iter().enumerate().map(part).collect())
}

fn each(reply: Reply, of: impl Fn(Reply) -> Reply) -> Reply {
    match reply {
        Reply::Array(items) => Reply::Array(items.into_iter().map(of).collect()),
        other => other,
    }
}

/// Pairs of RESP3 stand in arrays of their own.
fn flat(reply: Reply) -> Reply {
    let Reply::Array(items) = reply else { return reply };
    let mut flat = Vec::with_capacity(items.len() * 2);
    for item in items {
        match item {
            Reply::Array(pair) => flat.extend(pair),
            other => flat.push(other),
        }
    }
    Reply::Array(flat)
}

#[cfg(test)]
mod tests {
    use claret_types::{
        BUILTIN, BoundedCounter, BoundedCounterOp, Method, Set, SetOp, TypeInfo, builtin_examples,
    };

    use super::*;

    fn words(op: &Operation) -> Vec<String> {
        let command = command_of(&"k".into(), 1, op).unwrap();
        command.words().iter().map(Bytes::to_string).collect()
    }

    #[test]
    fn what_is_absent_is_nought_of_its_kind() {
        let answer = |type_name: &str, method: &str, reply| {
            let kind = BUILTIN.iter().find(|kind| kind.name == type_name).expect("a type");
            reply_of(&(kind.parse)(method, &[]).expect("it takes no arguments"), reply)
        };
        assert_eq!(answer("summary-bag", "BAG.SUM", Reply::Nil), Reply::Float(0.0));
        assert_eq!(answer("float-counter", "GET", Reply::Nil), Reply::Float(0.0));
        assert_eq!(answer("counter", "GET", Reply::Nil), Reply::Int(0));
        let absent = Reply::Array(vec![Reply::Nil; 4]);
        let nought = Reply::Array(vec![Reply::Int(0), Reply::Float(0.0), Reply::Nil, Reply::Nil]);
        assert_eq!(answer("summary-bag", "BAG.SUMMARY", absent), nought);
    }

    #[test]
    fn operations_are_the_commands_of_their_names() {
        let op = Operation::new::<Set>(SetOp::AddReturning(vec!["a".into(), "b".into()].into()));
        assert_eq!(words(&op), ["SADD", "k", "a", "b"]);
        let op = Operation::new::<BoundedCounter>(BoundedCounterOp::Take(5));
        assert_eq!(words(&op), ["HINCRBY", "k", "value", "-5"]);
        // As the others it asks nobody for the bounds.
        let op = Operation::new::<BoundedCounter>(BoundedCounterOp::TakeWrapping(5));
        assert_eq!(words(&op), ["HINCRBY", "k", "value", "-5"]);
        let op = (BUILTIN[6].parse)("ZRANGE", &["0".into(), "-1".into(), "WITHSCORES".into()]).unwrap();
        assert_eq!(words(&op), ["ZRANGE", "k", "0", "-1", "WITHSCORES"]);
        let pair = Reply::Array(vec![Reply::Bytes("m".into()), Reply::Float(1.0)]);
        let lies_flat = Reply::Array(vec![Reply::Bytes("m".into()), Reply::Float(1.0)]);
        assert_eq!(reply_of(&op, Reply::Array(vec![pair])), lies_flat);
    }

    /// The two ways to say the same.
    fn said(op: &Operation) -> [BytesMut; 2] {
        let mut outs = [BytesMut::new(), BytesMut::new()];
        encode_operation(&"k".into(), op, &mut outs[0]).expect("a command");
        resp::encode(&mut outs[1], command_of(&"k".into(), 1, op).expect("a command").words());
        outs
    }

    /// The operations of a type, with the arguments that each has to have; those that answer a content left out.
    fn required(kind: &TypeInfo) -> Vec<Operation> {
        let methods = kind.methods.iter().filter(|method| !method.name.starts_with("RECORD."));
        let read = |method: &Method| {
            let words = method.arguments.split(' ').filter(|word| !word.is_empty());
            let given: Vec<Bytes> = words.take_while(|word| !word.starts_with('[')).map(example).collect();
            (kind.parse)(method.name, &given).unwrap_or_else(|error| panic!("{error}"))
        };
        methods.map(read).collect()
    }

    #[test]
    fn every_operation_of_every_type_has_a_command() {
        // Those of documents are of a JSON module, on keys of its own. A type that came later has all or none.
        let older = BUILTIN.iter().position(|kind| kind.name == "document").expect("a type");
        for (place, kind) in BUILTIN.iter().enumerate() {
            let examples = || builtin_examples().find(|(it, _)| it.name == kind.name).expect("a type").1;
            let ops = if place < older { required(kind) } else { examples() };
            if place >= older && ops.iter().all(|op| command_of(&"k".into(), 1, op).is_err()) {
                continue;
            }
            for op in ops {
                assert!(command_of(&"k".into(), 1, &op).is_ok(), "{op:?}");
                assert_eq!(check_operation(&"k".into(), &op), Ok(()));
                let [short, long] = said(&op);
                assert_eq!(short, long, "{op:?}");
            }
        }
    }

    /// An argument that goes by such a name.
    fn example(name: &str) -> Bytes {
        match name {
            "max" => "9".into(),
            _ => "1".into(),
        }
    }
}
