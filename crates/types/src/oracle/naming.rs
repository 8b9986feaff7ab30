//! Operations and claims in words: as one types them, by the names of their modes and elements.

use crate::data_type::{DataType, Examples};
use crate::{Bytes, Claims, Draw, Scope};

/// An operation as one would type it: `SADD x`.
pub(super) fn operation<T: DataType>(op: &T::Op) -> String {
    let mut typed = T::method(op).name.to_owned();
    for argument in T::arguments(op) {
        typed.push(' ');
        typed.push_str(&word(&argument));
    }
    typed
}

/// An argument as one would type it: quoted where it is not plainly one word.
fn word(argument: &Bytes) -> String {
    let is_plain =
        !argument.is_empty() && argument.iter().all(u8::is_ascii_graphic) && !argument.contains(&b'"');
    if is_plain { argument.to_string() } else { format!("{argument:?}") }
}

/// The name of an element, which claims have by its hash: one of the arguments of the examples. If it is none, the hash.
fn element<T: Examples>(hash: u64) -> String {
    let arguments = T::operations().into_iter().flat_map(|op| T::arguments(&op));
    let named = arguments.into_iter().find(|argument| Scope::element(argument) == Scope::Element(hash));
    named.map_or_else(|| format!("{:04x}", hash >> 48), |name| word(&name))
}

/// Claims by the names of their modes and elements.
pub(super) fn claims<T: Examples>(claims: &Claims) -> String {
    let mut parts: Vec<String> = claims
        .list
        .iter()
        .map(|claim| {
            let mode = T::MODES.name_of(claim.mode);
            match claim.scope {
                Scope::Record => format!("{mode} on the record"),
                Scope::Element(hash) => format!("{mode} on element {}", element::<T>(hash)),
            }
        })
        .collect();
    let Draw { down, up } = claims.draw;
    for (amount, direction) in [(down, "down"), (up, "up")] {
        if amount > 0 {
            parts.push(format!("a draw of {amount} {direction}"));
        }
    }
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}
