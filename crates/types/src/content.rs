//! The content of a record of any built-in type as words: what `RECORD.CONTENT` answers and `RECORD.PUT` takes. So a record can
//! move to another key, which may be on another shard.
//!
//! | type | words after its name |
//! |---|---|
//! | `register` (also counters of both kinds) | the string |
//! | `bounded-counter` | value, min, max |
//! | `set`, `list` | the members; the values from the front |
//! | `dict` | field and value, each |
//! | `document` | path and JSON text, each |
//! | `scored-set` | score and member, each |
//! | `topk` | the capacity, then score and member, each |
//! | `summary-bag` | count, sum, min, max |
//! | `uid-generator` | how many were taken |
//!
//! Whoever sends words may be hostile: what they say is a state that the type allows, or an error that names the word.

use sha2::{Digest as _, Sha256};

use crate::erased::State;
use crate::rows::{ROWS, Row};
use crate::words::malformed;
use crate::{Bytes, DataType, Expiry, FromReply, OpError, Register, Reply, Stream, TopK};

/// A record with more bytes cannot be moved: the words are counted, and 16 for each.
pub const CONTENT_BYTES_MAX: usize = 1 << 20;

/// What a word counts beside its bytes.
const WORD_BYTES: usize = 16;

/// So many elements no record has that can be moved: a host need not read more.
pub const CONTENT_ELEMENTS_MAX: usize = CONTENT_BYTES_MAX / WORD_BYTES;

/// Of a record with more elements no digest is made: a host reads them all in one step.
pub const DIGEST_ELEMENTS_MAX: usize = 1 << 16;

/// The same of a record with more bytes.
pub const DIGEST_BYTES_MAX: usize = 4 << 20;

/// The content of a record of any built-in type, at one moment; without its expiry.
#[derive(Clone, Debug, PartialEq)]
pub struct Content(State);

impl Content {
    /// The content of a record.
    ///
    /// # Errors
    /// It has too much of it, or a type that is not built in.
    pub fn of(state: &State) -> Result<Self, OpError> {
        Content::of_words(&words_of(state)?)
    }

    pub(crate) fn of_words(words: &[Bytes]) -> Result<Self, OpError> {
        state_of(words).map(Content)
    }

    pub(crate) fn words(&self) -> Vec<Bytes> {
        words_of(&self.0).expect("it was made of words")
    }

    pub(crate) fn state(&self) -> State {
        self.0.clone()
    }

    /// Whether it is that of a [`TopK`], which is two keys in Redis.
    pub fn is_topk(&self) -> bool {
        self.0.downcast::<TopK>().is_some()
    }

    /// Whether it is that of a string: to put it is what `SET` does.
    pub fn is_string(&self) -> bool {
        self.0.downcast::<Register>().is_some()
    }

    /// In bytes, as it counts against bounds.
    pub(crate) fn size(&self) -> usize {
        size_of_words(&self.words())
    }
}

impl FromReply for Content {
    fn from_reply(reply: Reply) -> Option<Self> {
        Content::of_words(&Vec::from_reply(reply)?).ok()
    }
}

/// The content of a record in words.
///
/// # Errors
/// It has too much of it, or a type that is not built in.
pub(crate) fn words_of(state: &State) -> Result<Vec<Bytes>, OpError> {
    // Before anything is copied and sorted.
    let elements = elements_of(state);
    if elements > CONTENT_ELEMENTS_MAX {
        let size = elements * WORD_BYTES;
        return Err(OpError::TooLarge { what: "record".into(), size, limit: CONTENT_BYTES_MAX });
    }
    let words = any_words_of(state)?;
    check_size(&words)?;
    Ok(words)
}

/// 32 bytes that two records have in common only if they are alike: SHA-256 over the expiry, in milliseconds or 0, and over each of
/// [`any_words_of`] it; all with their lengths, in eight bytes from the least. O(size).
///
/// # Errors
/// It has more than [`DIGEST_ELEMENTS_MAX`] elements or [`DIGEST_BYTES_MAX`] bytes, or a type that is not built in.
pub(crate) fn digest_of(state: &State) -> Result<[u8; 32], OpError> {
    check_digestible(elements_of(state), bytes_of(state))?;
    let mut hash = Sha256::new();
    hash.update(state.expiry().map_or(0, Expiry::ms).to_le_bytes());
    let mut add = |word: &[u8]| {
        hash.update((word.len() as u64).to_le_bytes());
        hash.update(word);
    };
    match state.foreign() {
        Some(dump) => [FOREIGN, &dump[..]].into_iter().for_each(&mut add),
        None => {
            let words = any_words_of(state).map_err(of_digest)?;
            check_digestible(0, words.iter().map(|word| word.len()).sum())?;
            words.iter().for_each(|word| add(&word[..]));
        }
    }
    Ok(hash.finalize().into())
}

/// In place of the name of a type that is none of Claret's. No type has such a name.
const FOREIGN: &[u8] = b"(dump)";

fn of_digest(error: OpError) -> OpError {
    match error {
        OpError::WrongType { found, expected, .. } => {
            OpError::WrongType { found, expected, method: "RECORD.DIGEST".into() }
        }
        other => other,
    }
}

/// Whether a record with so many elements and bytes may have a digest.
///
/// # Errors
/// They are more than [`DIGEST_ELEMENTS_MAX`] or [`DIGEST_BYTES_MAX`].
pub fn check_digestible(elements: usize, bytes: usize) -> Result<(), OpError> {
    if elements > DIGEST_ELEMENTS_MAX {
        return Err(OpError::TooLarge {
            what: "record, of which each element counts 16,".into(),
            size: elements.saturating_mul(WORD_BYTES),
            limit: DIGEST_ELEMENTS_MAX * WORD_BYTES,
        });
    }
    if bytes > DIGEST_BYTES_MAX {
        let what = "record of which a digest is made".into();
        return Err(OpError::TooLarge { what, size: bytes, limit: DIGEST_BYTES_MAX });
    }
    Ok(())
}

/// How many bytes a record has that is one string. O(1).
fn bytes_of(state: &State) -> usize {
    match state.foreign() {
        Some(dump) => dump.len(),
        None => ROWS.iter().find_map(|row| (row.bytes)(state)).unwrap_or(0),
    }
}

fn size_of_words(words: &[Bytes]) -> usize {
    words.iter().map(|word| word.len() + WORD_BYTES).sum()
}

/// # Errors
/// The words are more than a record may have that is moved.
fn check_size(words: &[Bytes]) -> Result<(), OpError> {
    let size = size_of_words(words);
    if size > CONTENT_BYTES_MAX {
        return Err(OpError::TooLarge { what: "record".into(), size, limit: CONTENT_BYTES_MAX });
    }
    Ok(())
}

/// How many elements a record has, if it may have many. O(1).
fn elements_of(state: &State) -> usize {
    ROWS.iter().find_map(|row| (row.elements)(state)).unwrap_or(1)
}

/// [`words_of`] without a bound.
///
/// # Errors
/// It has a type that is not built in.
pub(crate) fn any_words_of(state: &State) -> Result<Vec<Bytes>, OpError> {
    ROWS.iter().find_map(|row| (row.words)(state)).ok_or_else(|| {
        let (found, expected) = (state.type_info().name.into(), "record of a built-in type".into());
        OpError::WrongType { found, expected, method: "RECORD.CONTENT".into() }
    })
}

/// The record that words describe.
///
/// # Errors
/// They describe none.
pub(crate) fn state_of(words: &[Bytes]) -> Result<State, OpError> {
    check_size(words)?;
    // A server is given no stream in words: it has commands for that.
    match words.first() {
        Some(name) if *name == Bytes::from(Stream::NAME) => {
            Err(malformed(format_args!("{name} with {} words", words.len() - 1)))
        }
        _ => any_state_of(words),
    }
}

/// [`state_of`] without a bound.
///
/// # Errors
/// They describe none.
pub(crate) fn any_state_of(words: &[Bytes]) -> Result<State, OpError> {
    let [name, rest @ ..] = words else { return Err(malformed("nothing")) };
    let name = name.as_str().unwrap_or_default();
    match ROWS.iter().find(|row| row.info.name == name && row.is_described_by_itself()) {
        Some(row) => of_row(row, words),
        None => Err(malformed(format_args!("{name} with {} words", rest.len()))),
    }
}

/// The record of a type that words describe, of which the first is the name by which the type is described.
///
/// # Errors
/// They describe none.
pub(crate) fn of_row(row: &Row, words: &[Bytes]) -> Result<State, OpError> {
    let rest = words.get(1..).unwrap_or_default();
    let none = || malformed(format_args!("{} with {} words", row.described_as, rest.len()));
    (row.of_words)(rest)?.ok_or_else(none)
}

/// What `words_of` and `state_of` say of each other.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BuiltIn, List, Set, SetState, Text};

    fn there_and_back<T: BuiltIn>() {
        for content in T::states().into_iter().filter(|content| !T::is_absent(content)) {
            let state = State::new::<T>(content);
            let words = words_of(&state).expect("it is built in, and small");
            assert_eq!(
                words_of(&state_of(&words).expect("words of a record")),
                Ok(words.clone()),
                "{words:?}"
            );
        }
    }

    #[test]
    fn every_content_is_the_same_after_it_was_words() {
        macro_rules! each {
            ($($place:literal $kind:ident),* $(,)?) => { $(there_and_back::<crate::$kind>();)* };
        }
        crate::with_types!(each);
    }

    #[test]
    fn words_that_are_no_content_are_refused_by_name() {
        for (line, says) in [
            ("", "nothing"),
            ("stream a", "stream with 1 words"),
            ("register", "register with 0 words"),
            ("register a b", "register with 2 words"),
            ("set", "set with 0 words"),
            ("dict a", "1 words, which are no pairs"),
            ("document $", "1 words, which are no pairs"),
            ("document $.a 1", "'$' is no object"),
            ("document $ 1 $.a 1", "'$' is no object"),
            ("document $ {} a 1", "'a', which is no path"),
            ("document $ {} $['a'] 1", "which is no path"),
            ("document $ {", "is not JSON"),
            ("document $ {\"a\":1}", "a field of its own"),
            ("scored-set nan a", "NaN"),
            ("scored-set x a", "'x'"),
            ("bounded-counter 5 0 4", "5 (with min 0, max 4)"),
            ("bounded-counter 1 4 0", "min 4, max 0"),
            ("topk 0 1 a", "topk of capacity 0"),
            ("topk 70000 1 a", "topk of capacity 70000"),
            ("topk 3", "topk with 1 words"),
            ("summary-bag 0 0 0 0", "a count of 0"),
            ("summary-bag 1 inf 0 0", "a sum of inf"),
            ("summary-bag 2 3 2 1", "a least of 2 and a greatest of 1"),
            ("uid-generator 18446744073709551615", "a count of 18446744073709551615"),
        ] {
            let words: Vec<Bytes> = line.split_whitespace().map(Bytes::from).collect();
            let error = state_of(&words).expect_err(line).to_string();
            assert!(error.contains(says), "{line}: {error}");
        }
        let words = [Bytes::from("register"), Bytes::from("x".repeat(CONTENT_BYTES_MAX))];
        assert!(matches!(state_of(&words), Err(OpError::TooLarge { .. })));
    }

    fn digest(state: &State) -> [u8; 32] {
        digest_of(state).expect("it is built in, and small")
    }

    fn digests_of<T: BuiltIn>() -> Vec<([u8; 32], String)> {
        let there = T::states().into_iter().filter(|content| !T::is_absent(content));
        let ends = [None, Expiry::at_ms(1), Expiry::at_ms(1 << 40)];
        let states = there.flat_map(|content| ends.map(|end| State::new::<T>(content.clone()).expiring(end)));
        states.map(|state| (digest(&state), format!("{:?} {:?}", words_of(&state), state.expiry()))).collect()
    }

    /// Whatever differs in type, content or expiry differs in its digest, and nothing else does.
    #[test]
    fn digests_are_the_same_where_the_records_are() {
        macro_rules! each {
            ($($place:literal $kind:ident),* $(,)?) => { [$(digests_of::<crate::$kind>()),*] };
        }
        // A type that is described as another one has its records, too.
        let all = crate::with_types!(each).concat();
        for (digest, shown) in &all {
            for (other, other_shown) in &all {
                assert_eq!(digest == other, shown == other_shown, "{shown} and {other_shown}");
            }
        }
        let [ab, ba] = [["a", "b"], ["b", "a"]];
        let set =
            |members: [&'static str; 2]| State::new::<Set>(SetState::partial(members.map(Bytes::from), 0));
        let list =
            |values: [&'static str; 2]| State::new::<List>(values.map(Bytes::from).into_iter().collect());
        assert_eq!(digest(&set(ab)), digest(&set(ba)), "it has no order");
        assert_ne!(digest(&list(ab)), digest(&list(ba)));
        assert_ne!(digest(&list(["a", "bc"])), digest(&list(["ab", "c"])), "words have an end");
        assert_ne!(digest(&set(ab)), digest(&list(ab)));
    }

    /// As anybody computes it who knows the rule: what is kept of a digest holds with the next version.
    #[test]
    fn a_digest_is_what_the_rule_says() {
        let state =
            State::new::<Set>(SetState::partial(["b", "a"].map(Bytes::from), 0)).expiring(Expiry::at_ms(258));
        let mut said = vec![2, 1, 0, 0, 0, 0, 0, 0];
        for word in ["set", "a", "b"] {
            said.extend([word.len() as u8, 0, 0, 0, 0, 0, 0, 0]);
            said.extend(word.bytes());
        }
        assert_eq!(digest(&state), <[u8; 32]>::from(Sha256::digest(said)));
    }

    #[test]
    fn what_is_large_has_a_digest_and_what_is_huge_has_none() {
        let text = State::new::<Register>(Text::Bytes("x".repeat(CONTENT_BYTES_MAX + 1).into()));
        assert!(words_of(&text).is_err() && digest_of(&text).is_ok());
        let list = |count: usize| State::new::<List>(std::iter::repeat_n(Bytes::from("x"), count).collect());
        assert!(digest_of(&list(DIGEST_ELEMENTS_MAX)).is_ok());
        let error = digest_of(&list(DIGEST_ELEMENTS_MAX + 1)).expect_err("too many").to_string();
        assert!(error.contains("each element counts 16") && error.contains("1048576"), "{error}");
        let text = |bytes: usize| State::new::<Register>(Text::Bytes("x".repeat(bytes).into()));
        assert!(digest_of(&text(DIGEST_BYTES_MAX - 8)).is_ok());
        let error = digest_of(&text(DIGEST_BYTES_MAX + 1)).expect_err("too long").to_string();
        assert!(error.contains("4194304"), "{error}");
        let wide = State::new::<List>(
            ["x", "y"].map(|it| it.repeat(DIGEST_BYTES_MAX / 2).into()).into_iter().collect(),
        );
        digest_of(&wide).expect_err("too long, with all of it");
    }
}
