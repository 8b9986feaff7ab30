//! Where the keys of a command are.

use std::ops::Range;

/// Where the keys are among the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// It has none.
    None,
    /// From a word to another (counted from the end, if negative), each `step`-th.
    Range {
        /// The place of the first.
        first: usize,
        /// That of the last; below zero, from the end.
        last: i32,
        /// How far they are apart.
        step: usize,
    },
    /// As many as a word says, behind it; and perhaps the first word.
    Counted {
        /// The place of the number.
        at: usize,
        /// The first word is one, too.
        and_first: bool,
    },
    /// The first word, and that behind STORE.
    Sort,
    /// Half of what is behind STREAMS.
    Streams,
    /// The first word, and that behind STORE or STOREDIST.
    Georadius,
}

/// Why the keys, or their slot, are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoKeys {
    /// A number of keys that is none, or more than there are words.
    Malformed,
    /// The keys are in several slots.
    SeveralSlots,
}

impl Keys {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let range = |first, last, step| Some(Keys::Range { first, last, step });
        match text {
            "-" => return Some(Keys::None),
            "sort" => return Some(Keys::Sort),
            "streams" => return Some(Keys::Streams),
            "georadius" => return Some(Keys::Georadius),
            _ => {}
        }
        if let Some(at) = text.strip_prefix("1,n") {
            return Some(Keys::Counted { at: at.parse().ok()?, and_first: true });
        }
        if let Some(at) = text.strip_prefix('n') {
            return Some(Keys::Counted { at: at.parse().ok()?, and_first: false });
        }
        let Some((first, rest)) = text.split_once("..") else {
            let at = text.parse().ok()?;
            return range(at, at as i32, 1);
        };
        let (last, step) = rest.split_once('/').unwrap_or((rest, "1"));
        let last = if last.is_empty() { -1 } else { last.parse().ok()? };
        range(first.parse().ok()?, last, step.parse().ok()?)
    }

    /// The places of the keys among the words of a command. O(words).
    ///
    /// # Errors
    /// The words do not say which are keys.
    pub fn of<W: AsRef<[u8]>>(self, words: &[W]) -> Result<Places, NoKeys> {
        let none = Places { first: None, range: 0..0, step: 1, last: None };
        let count = words.len();
        match self {
            Keys::None => Ok(none),
            Keys::Range { first, last, step } => {
                let last = if last < 0 { (count as i32 + last).max(0) as usize } else { last as usize };
                let end = (last + 1).min(count);
                Ok(Places { range: first.min(end)..end, step, ..none })
            }
            Keys::Counted { at, and_first } => {
                let word = words.get(at).ok_or(NoKeys::Malformed)?;
                let keys =
                    number(word.as_ref()).filter(|keys| *keys < count - at).ok_or(NoKeys::Malformed)?;
                Ok(Places { first: and_first.then_some(1), range: at + 1..at + 1 + keys, ..none })
            }
            Keys::Sort => Ok(Places { first: Some(1), last: sort(words).store, ..none }),
            Keys::Georadius => {
                let last = behind(words, 5, b"STORE").max(behind(words, 5, b"STOREDIST"));
                Ok(Places { first: Some(1), last, ..none })
            }
            Keys::Streams => {
                // A group or a consumer may have that name.
                let from = if words[0].as_ref().eq_ignore_ascii_case(b"XREADGROUP") { 4 } else { 1 };
                let at = behind(words, from, b"STREAMS").ok_or(NoKeys::Malformed)?;
                let (keys, left) = ((count - at) / 2, (count - at) % 2);
                if left != 0 || keys == 0 {
                    return Err(NoKeys::Malformed);
                }
                Ok(Places { range: at..at + keys, ..none })
            }
        }
    }
}

/// The place behind a keyword, if there is a word.
fn behind<W: AsRef<[u8]>>(words: &[W], from: usize, keyword: &[u8]) -> Option<usize> {
    let at = words.iter().skip(from).position(|word| word.as_ref().eq_ignore_ascii_case(keyword))?;
    let at = from + at + 1;
    (at < words.len()).then_some(at)
}

/// What SORT uses beside its first key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sorts {
    /// The place of the key in which it leaves the result: of several the last.
    store: Option<usize>,
    /// It may read keys whose names are made of a pattern: behind BY with a `*` for each element, or behind GET, which a node refuses
    /// whatever it is.
    pub(super) reads_others: bool,
}

pub(super) fn sort<W: AsRef<[u8]>>(words: &[W]) -> Sorts {
    let mut sorts = Sorts::default();
    let mut at = 2;
    while let Some(word) = words.get(at) {
        at += match word.as_ref().to_ascii_uppercase().as_slice() {
            b"BY" => {
                sorts.reads_others |=
                    words.get(at + 1).is_some_and(|pattern| pattern.as_ref().contains(&b'*'));
                2
            }
            b"GET" => {
                sorts.reads_others = true;
                2
            }
            b"STORE" => {
                sorts.store = Some(at + 1).filter(|at| *at < words.len()).or(sorts.store);
                2
            }
            b"LIMIT" => 3,
            _ => 1,
        };
    }
    sorts
}

fn number(word: &[u8]) -> Option<usize> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// The places of keys, in their order.
#[derive(Clone, Debug)]
pub struct Places {
    first: Option<usize>,
    range: Range<usize>,
    step: usize,
    last: Option<usize>,
}

impl Iterator for Places {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        if !self.range.is_empty() {
            let at = self.range.start;
            self.range.start = at.saturating_add(self.step);
            return Some(at);
        }
        self.last.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(keys: &str, command: &str) -> Result<Vec<usize>, NoKeys> {
        let words: Vec<&str> = command.split(' ').collect();
        Keys::parse(keys).unwrap().of(&words).map(Iterator::collect)
    }

    #[test]
    fn keys_are_where_each_command_has_them() {
        let found = [
            ("-", "PING", vec![]),
            ("1", "GET k", vec![1]),
            ("1", "GET", vec![]),
            ("1..", "DEL a b c", vec![1, 2, 3]),
            ("1../2", "MSET a 1 b 2", vec![1, 3]),
            ("1..-2", "BLPOP a b 0", vec![1, 2]),
            ("n2", "EVAL s 2 a b c", vec![3, 4]),
            ("n2", "EVAL s 0", vec![]),
            ("1,n2", "ZUNIONSTORE d 2 a b WEIGHTS 1 2", vec![1, 3, 4]),
            ("sort", "SORT k LIMIT 0 1 STORE d", vec![1, 6]),
            ("sort", "SORT k STORE", vec![1]),
            ("sort", "SORT k BY STORE STORE store", vec![1, 5]),
            ("sort", "SORT k STORE a STORE d", vec![1, 5]),
            ("streams", "XREAD COUNT 1 STREAMS a b 0 0", vec![4, 5]),
            ("streams", "XREADGROUP GROUP streams c NOACK STREAMS s >", vec![6]),
            ("georadius", "GEORADIUS k 1 2 3 km STOREDIST d", vec![1, 7]),
            ("2..", "BITOP AND d a b", vec![2, 3, 4]),
        ];
        for (keys, command, expected) in found {
            assert_eq!(places(keys, command), Ok(expected), "{command}");
        }
        for (keys, command) in [
            ("n2", "EVAL s x a"),
            ("n2", "EVAL s 3 a b"),
            ("n2", "EVAL s -1"),
            ("n2", "EVAL s 99999999999999999999"),
            ("n2", "EVAL s"),
            ("streams", "XREAD COUNT 1"),
            ("streams", "XREAD STREAMS a b 0"),
        ] {
            assert_eq!(places(keys, command), Err(NoKeys::Malformed), "{command}");
        }
    }
}
