//! What a plain command asks of a record's lock: if it is an operation, the claims of that operation; otherwise it
//! reads or writes the whole record.

use claret_types::{
    Access, BUILTIN, Bytes, Claims, DataType, Examples, Execution, Few, Method, Mode, Modes, OpError,
    Operation, Reply, TypeInfo, Unique,
};

use crate::parts::stored::Stored;

/// A command that is no operation of any type. It has no content of its own and changes nothing itself: the command runs
/// while its claims are held.
pub(crate) struct Plain;

/// How it uses the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlainOp {
    Read,
    Write,
}

const fn method(name: &'static str, access: Access) -> Method {
    Method { name, arguments: "", summary: "a plain command", access, returns: true, complexity: "O(1)" }
}

const METHODS: &[Method] = &[method("READ", Access::Read), method("WRITE", Access::Write)];

impl DataType for Plain {
    const NAME: &'static str = "plain";
    const SUMMARY: &'static str = "any key, used by a plain command";
    const NATIVE: &'static str = "any";
    const MODES: Modes = Modes { names: &[], conflicts: &[], removing: 0, clearing: 0 };
    const METHODS: &'static [Method] = METHODS;

    type State = ();
    type Op = PlainOp;
    type Effect = ();

    fn parse(method: &str, _: &[Bytes]) -> Result<PlainOp, OpError> {
        match method {
            "READ" => Ok(PlainOp::Read),
            "WRITE" => Ok(PlainOp::Write),
            _ => Err(OpError::misuse(METHODS, method)),
        }
    }

    fn arguments(_: &PlainOp) -> Few<Bytes> {
        Few::new()
    }

    fn method(op: &PlainOp) -> &'static Method {
        &METHODS[*op as usize]
    }

    fn is_absent(_: &()) -> bool {
        true
    }

    fn footprint(op: &PlainOp) -> Claims {
        Claims::record(match op {
            PlainOp::Read => Mode::SHARED,
            PlainOp::Write => Mode::EXCLUSIVE,
        })
    }

    fn execute(_: &(), op: &PlainOp, _: Unique) -> Result<Execution<()>, OpError> {
        Ok(Execution::read(Reply::Nil, Self::footprint(op)))
    }

    fn apply(_: &mut (), (): ()) {}
}

/// The operation that a plain command is on its only key, its answer seen; `None` when it is none. Of several types
/// that have it, the one as which the key is held.
pub(crate) fn operation(
    name: &[u8],
    arguments: &[Bytes],
    held: Option<&'static TypeInfo>,
    unix_ms: impl FnOnce() -> u64,
) -> Option<Operation> {
    let name = std::str::from_utf8(name).ok()?.to_ascii_uppercase();
    // SET answers OK whatever was there; an operation whose grant is waited for has to answer something.
    let name = if name == "SET" { "GETSET".to_owned() } else { name };
    let seen = format!("{name}.RETURNING");
    let of = |kind: &'static TypeInfo| {
        let known = kind.methods.iter().find(|method| method.name == seen);
        let known = known.or_else(|| kind.methods.iter().find(|method| method.name == name))?;
        // On a server the commands of these names are those of a JSON module, on keys of its own.
        if Stored::of(kind) == Stored::Document {
            return None;
        }
        // One that changes when a key expires, or removes it, concerns whoever holds the key.
        let is_about_the_key = Stored::of(kind) == Stored::Keyspace && known.access == Access::Write;
        // What answers nothing as an operation, and something as a command, shows more than its claims cover.
        let is_one = known.returns && !is_about_the_key;
        is_one.then(|| (kind.parse)(known.name, arguments).ok()).flatten()
    };
    let mut op = held.and_then(of).or_else(|| BUILTIN.iter().find_map(|kind| of(kind)))?;
    op.resolve(unix_ms);
    Some(op)
}

/// Whether a command of this name takes from one key and brings to another.
pub(crate) fn is_move(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"BLMOVE") || name.eq_ignore_ascii_case(b"BRPOPLPUSH")
}

/// Reading all of a record, in terms of the type whose lock it has.
pub(crate) fn whole_read(kind: &TypeInfo) -> Operation {
    kind.reads_all().unwrap_or_else(|| whole(Access::Read))
}

/// Using all of a record of which nothing is known.
pub(crate) fn whole(access: Access) -> Operation {
    Operation::new::<Plain>(match access {
        Access::Read => PlainOp::Read,
        Access::Write => PlainOp::Write,
    })
}

impl Examples for Plain {
    fn states() -> Vec<()> {
        vec![()]
    }

    fn operations() -> Vec<PlainOp> {
        vec![PlainOp::Read, PlainOp::Write]
    }
}

#[cfg(test)]
mod tests {
    use claret_types::{BUILTIN, Bytes};

    use super::operation;

    fn named(words: &[&str]) -> Option<&'static str> {
        let rest: Vec<Bytes> = words[1..].iter().map(|word| Bytes::from(*word)).collect();
        operation(words[0].as_bytes(), &rest, None, || 1).map(|op| op.method().name)
    }

    #[test]
    fn a_plain_command_is_the_operation_whose_answer_it_gives() {
        assert_eq!(named(&["sadd", "x"]), Some("SADD.RETURNING"));
        assert_eq!(named(&["GET"]), Some("GET"));
        assert_eq!(named(&["SET", "v"]), Some("GETSET"));
        assert_eq!(named(&["incrby", "3"]), Some("INCRBY.RETURNING"));
        assert_eq!(named(&["SET", "v", "NX"]), None, "options say more than the operation");
        assert_eq!(named(&["APPEND", "v"]), None, "it answers the length");
        assert_eq!(named(&["DEL"]), None, "of a list, too");
        assert_eq!(named(&["GETRANGE", "0", "1"]), None);
        assert_eq!(named(&["JSON.GET", "$"]), None, "it is on keys of a JSON module");
    }

    #[test]
    fn of_several_types_it_is_the_one_as_which_the_key_is_held() {
        for kind in BUILTIN.iter().copied().filter(|kind| kind.methods.iter().any(|it| it.name == "GET")) {
            let read = operation(b"get", &[], Some(kind), || 1).expect("it has GET");
            assert_eq!(read.type_info().name, kind.name);
        }
    }
}
