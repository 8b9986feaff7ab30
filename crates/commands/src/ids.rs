//! Ids of streams that are made before the commit, for scripts that look at what `XADD` answers (A18). The stream's lock is held from
//! then on, so the id is the next one when the server carries the command out.

use std::collections::HashMap;

use claret_types::{Access, Bytes, Command, KeyspaceOp, Operation, Reply};

use crate::fault::{Fault, of_operation};

/// Milliseconds since 1970, and a number.
pub(crate) type Id = (u64, u64);

/// Those that one script has made.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    /// The last one of each stream.
    made: HashMap<Bytes, Id>,
    /// One was left to a server.
    pub(crate) is_late: bool,
}

impl Ids {
    /// The last one that was made for a stream.
    pub(crate) fn last_of(&self, key: &Bytes) -> Option<Id> {
        self.made.get(key).copied()
    }

    /// The stream may have another last one now.
    pub(crate) fn forget(&mut self, key: &Bytes) {
        self.made.remove(key);
    }

    pub(crate) fn note(&mut self, key: Bytes, id: Id) {
        self.made.insert(key, id);
    }
}

/// Where `*` stands in the words of an `XADD` behind its name; `None`: there is none, or perhaps no entry.
pub(crate) fn to_be_made(words: &[Bytes]) -> Option<usize> {
    let mut at = 1;
    loop {
        match words.get(at)?.to_ascii_lowercase().as_slice() {
            b"*" => return Some(at),
            b"maxlen" | b"minid" => {
                let has_sign = matches!(&words.get(at + 1)?[..], b"=" | b"~");
                at += if has_sign { 3 } else { 2 };
            }
            b"limit" => at += 2,
            _ => return None,
        }
    }
}

/// What tells the last id of a stream.
pub(crate) fn ask(key: &Bytes) -> Operation {
    let words = [Bytes::from("XINFO"), Bytes::from("STREAM"), key.clone()];
    Operation::from(KeyspaceOp::Ask(Command::new(Access::Read, &words))).tried()
}

/// The last id, by the answer to that.
///
/// # Errors
/// It is no stream.
pub(crate) fn last_of(told: Reply) -> Result<Id, Fault> {
    let about = match told {
        Reply::Array(about) => about,
        Reply::Failed(error) if error.to_string().contains("no such key") => return Ok((0, 0)),
        Reply::Failed(error) => return Err(Fault::Told(of_operation(&error))),
        _ => Vec::new(),
    };
    let is_name = |reply: &Reply| matches!(reply, Reply::Bytes(name) if &name[..] == b"last-generated-id");
    let last = about.iter().position(is_name).and_then(|at| match about.get(at + 1) {
        Some(Reply::Bytes(id)) => parse(id.as_str()?),
        _ => None,
    });
    last.ok_or_else(|| Fault::told("ERR the server does not tell the last id of a stream"))
}

fn parse(text: &str) -> Option<Id> {
    let (ms, number) = text.split_once('-')?;
    Some((ms.parse().ok()?, number.parse().ok()?))
}

/// The id behind another one, at a time in seconds and microseconds.
pub(crate) fn next(last: Id, (secs, micros): (u64, u32)) -> Id {
    let now = (secs * 1000 + u64::from(micros / 1000), 0);
    match last {
        (ms, u64::MAX) => now.max((ms.saturating_add(1), 0)),
        (ms, number) => now.max((ms, number + 1)),
    }
}

pub(crate) fn text((ms, number): Id) -> String {
    format!("{ms}-{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_behind_the_last_one_and_not_before_its_time() {
        let now = (7, 5_999);
        assert_eq!(next((0, 0), now), (7_005, 0));
        assert_eq!(next((7_005, 0), now), (7_005, 1));
        assert_eq!(next((9_000, 3), now), (9_000, 4), "a clock behind the stream's");
        assert_eq!(next((9_000, u64::MAX), now), (9_001, 0));
    }

    #[test]
    fn an_id_is_made_where_a_star_stands_and_an_entry_is_sure() {
        let place = |words: &str| to_be_made(&words.split(' ').map(Bytes::from).collect::<Vec<_>>());
        assert_eq!(place("s * f v"), Some(1));
        assert_eq!(place("s MAXLEN ~ 10 LIMIT 5 * f v"), Some(6));
        assert_eq!(place("s minid 7 * f v"), Some(3));
        for left in ["s 1-1 f *", "s 7-* f v", "s NOMKSTREAM * f v", "s", "s MAXLEN"] {
            assert_eq!(place(left), None, "{left}");
        }
    }
}
