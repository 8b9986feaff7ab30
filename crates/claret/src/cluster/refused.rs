//! What a server says instead of a reply, as the embedded store says it of the same operation on the same record.
//!
//! Redis and Valkey say less: they name neither what the key holds nor the value that is no number.

use claret_core::message::Refusal;
use claret_redis::{CommandError, ServerError};
use claret_types::{Bytes, OpError, Operation};

/// Why an operation of mode `none` was not done.
pub(super) fn refusal_of(key: Bytes, op: &Operation, error: &CommandError) -> Refusal {
    let CommandError::Server(said) = error else {
        return Refusal::Operation { key, error: OpError::Told(error.to_string()).into() };
    };
    match said.code() {
        "NOPERM" => Refusal::Denied { key, reason: said.to_string() },
        "OOM" => Refusal::NoMemory { key },
        _ => Refusal::Operation { key, error: error_of(op, said).into() },
    }
}

fn error_of(op: &Operation, said: &ServerError) -> OpError {
    let kind = op.type_info().name;
    let arguments = || op.arguments().iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let text = said.to_string();
    match text.split_once(' ').map_or("", |(_, text)| text) {
        _ if said.code() == "WRONGTYPE" => OpError::WrongType {
            found: "value of another type".into(),
            expected: kind.into(),
            method: op.method().name.into(),
        },
        "value is not an integer or out of range" | "hash value is not an integer" => {
            OpError::NotNumeric(String::new(), "an integer".into())
        }
        "value is not a valid float" | "hash value is not a float" => {
            OpError::NotNumeric(String::new(), "a number".into())
        }
        "increment or decrement would overflow"
        | "increment would produce NaN or Infinity"
        | "value is NaN or Infinity" => {
            let what = match kind {
                "dict" => "the field",
                "float-counter" => "the float counter",
                "summary-bag" => "the sum",
                _ => "the counter",
            };
            OpError::Overflow(what.into(), format!("{} {}", op.method().name, arguments()))
        }
        "resulting score is not a number (NaN)" => OpError::NotANumber("score (inf plus -inf)".into()),
        said if said.starts_with("invalid expire time") => OpError::Bound {
            what: "a time to live".into(),
            given: arguments(),
            expected: "one that ends after 1970 and at most 9223372036854775807 milliseconds later".into(),
        },
        _ => OpError::Told(text),
    }
}
