//! What `SORT` reads of other keys, whose names are made of the elements: `BY weight_*`, `GET object_*->name`.

use std::sync::Arc;

use claret_types::{Bytes, DictOp, OpError, RegisterOp, Reply};

use crate::answer::ELEMENT_BYTES;
use crate::calls::taken;
use crate::fault::Fault;
use crate::steps::{Steps, dict, text};

/// Where something is read for each element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// `#`
    Itself,
    /// Without a `*` there is no key.
    Nothing,
    /// What stands around the element in the key, and the field of a hash.
    Key { before: Bytes, after: Bytes, field: Option<Bytes> },
}

impl Pattern {
    pub(super) fn of(word: &Bytes) -> Self {
        if **word == *b"#" {
            return Pattern::Itself;
        }
        let Some(star) = word.iter().position(|byte| *byte == b'*') else { return Pattern::Nothing };
        let rest = &word[star + 1..];
        let arrow = rest.windows(2).position(|two| two == b"->").filter(|at| at + 2 < rest.len());
        let (after, field) = match arrow {
            Some(at) => (&rest[..at], Some(Bytes::from(&rest[at + 2..]))),
            None => (rest, None),
        };
        Pattern::Key { before: word[..star].into(), after: after.into(), field }
    }

    /// What it stands for, of each of these.
    pub(super) async fn read(
        &self,
        steps: Steps<'_>,
        elements: &Arc<Vec<Bytes>>,
    ) -> Result<Vec<Option<Bytes>>, Fault> {
        // For each element and pattern, whatever is read.
        steps.runner.take(elements.len().saturating_mul(ELEMENT_BYTES))?;
        let (before, after, field) = match self {
            Pattern::Itself => {
                let (all, count) = (Arc::clone(elements), elements.len());
                return Ok(steps.runner.over(count, move || all.iter().cloned().map(Some).collect()).await);
            }
            Pattern::Nothing => return Ok(vec![None; elements.len()]),
            Pattern::Key { before, after, field } => (before, after, field),
        };
        let key = |element: &Bytes| Bytes::from([before, element, after].map(|part| &part[..]).concat());
        let made: usize = (before.len() + after.len()).saturating_mul(elements.len());
        steps.runner.take(made)?;
        let mut keys = Vec::with_capacity(elements.len());
        for (no, element) in elements.iter().enumerate() {
            keys.push(key(element));
            steps.runner.rest_after(no).await;
        }
        let op = match field {
            Some(field) => dict(DictOp::Get(field.clone())),
            None => text(RegisterOp::Get),
        };
        let replies = steps.read_each(&keys, &op.tried(), None).await?;
        let bytes: usize = replies.iter().map(Reply::size).sum();
        steps.runner.take(bytes)?;
        let count = replies.len();
        steps.runner.over(count, || replies.into_iter().map(value).collect()).await
    }
}

/// Nothing for a key of another type.
fn value(reply: Reply) -> Result<Option<Bytes>, Fault> {
    match &reply {
        Reply::Failed(error) if matches!(**error, OpError::WrongType { .. }) => Ok(None),
        _ => taken(reply),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_keys_and_fields() {
        let key = |before: &str, after: &str, field: Option<&str>| Pattern::Key {
            before: before.into(),
            after: after.into(),
            field: field.map(Bytes::from),
        };
        for (word, pattern) in [
            ("#", Pattern::Itself),
            ("nosort", Pattern::Nothing),
            ("w_*", key("w_", "", None)),
            ("w_*_x", key("w_", "_x", None)),
            ("o_*->name", key("o_", "", Some("name"))),
            ("o_*->", key("o_", "->", None)),
            ("o->a_*", key("o->a_", "", None)),
        ] {
            assert_eq!(Pattern::of(&word.into()), pattern, "{word}");
        }
    }
}
