//! What types read from the words that describe the content of a record (`content.rs`): pairs, scores and counts. Whoever sends
//! words may be hostile.

use crate::data_type::arguments;
use crate::{Bytes, OpError, Ranking};

/// The members that words describe, each after its score.
pub(crate) fn ranking(words: &[Bytes]) -> Result<Ranking, OpError> {
    pairs(words)?.map(|pair| Ok((pair[1].clone(), arguments::float(&pair[0], "score")?))).collect()
}

/// Words two by two.
pub(crate) fn pairs(words: &[Bytes]) -> Result<std::slice::ChunksExact<'_, Bytes>, OpError> {
    match words.len() % 2 {
        0 => Ok(words.chunks_exact(2)),
        _ => Err(malformed(format_args!("{} words, which are no pairs", words.len()))),
    }
}

/// What is counted one by one never gets there.
const COUNT_MAX: u64 = 1 << 62;

/// What is counted one by one, and not nothing.
pub(crate) fn positive(word: &Bytes) -> Result<u64, OpError> {
    let number = arguments::unsigned(word)?;
    if number == 0 || number > COUNT_MAX {
        return Err(malformed(format_args!("a count of {number}")));
    }
    Ok(number)
}

/// A float that is a number.
pub(crate) fn finite(word: &Bytes) -> Result<f64, OpError> {
    let number = arguments::float(word, "sum")?;
    if number.is_finite() { Ok(number) } else { Err(malformed(format_args!("a sum of {number}"))) }
}

/// What is given is no content of a record.
pub(crate) fn malformed(given: impl std::fmt::Display) -> OpError {
    OpError::Argument { given: given.to_string(), expected: "the content of a record".into() }
}
