//! What a command answers.

use claret_types::{Bytes, Reply};

use crate::fault::of_operation;

/// What an element of a record or an answer counts as, in bytes, where it is worked on.
pub const ELEMENT_BYTES: usize = 64;

/// An answer, as a value. An error is one, too.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// It was done.
    Ok,
    /// A word that servers write as a status: `PONG`, a type.
    Simple(&'static str),
    /// Another status.
    Status(String),
    /// A truth that RESP3 writes as one; in RESP2 1, or no value.
    Bool(bool),
    /// An integer; a truth is 0 or 1.
    Int(i64),
    /// A string.
    Bulk(Bytes),
    /// No value.
    Nil,
    /// No array: RESP2 tells it from no value.
    NilArray,
    /// Answers in an order.
    Array(Vec<Answer>),
    /// Key, value, key, value.
    Map(Vec<Answer>),
    /// Members, in no order that counts.
    Set(Vec<Answer>),
    /// Member, score, member, score: in RESP2 flat, in RESP3 an array of pairs.
    Pairs(Vec<Answer>),
    /// A float.
    Double(f64),
    /// A float that is a string in RESP3, too.
    Score(f64),
    /// A text for people.
    Verbatim(Bytes),
    /// With its code: `ERR syntax error`.
    Error(String),
    /// What a server answered, in the protocol of whoever asked; no command of this crate makes it.
    Raw(bytes::Bytes),
}

impl Answer {
    /// 1 or 0.
    pub fn bool(value: bool) -> Self {
        Answer::Int(i64::from(value))
    }

    /// So many.
    pub fn count(value: usize) -> Self {
        Answer::Int(value as i64)
    }

    /// A string.
    pub fn text(text: impl Into<Bytes>) -> Self {
        Answer::Bulk(text.into())
    }

    /// An error, which begins with its code.
    pub fn error(text: impl Into<String>) -> Self {
        Answer::Error(text.into())
    }

    /// An array of strings.
    pub fn strings(all: impl IntoIterator<Item = Bytes>) -> Self {
        Answer::Array(all.into_iter().map(Answer::Bulk).collect())
    }

    /// What it has, in bytes, as far as this bound: more is not counted. O(elements within the bound).
    pub fn bytes_up_to(&self, bound: usize) -> usize {
        let beside = match self {
            Answer::Bulk(bytes) | Answer::Verbatim(bytes) => bytes.len(),
            Answer::Raw(bytes) => bytes.len(),
            Answer::Error(text) | Answer::Status(text) => text.len(),
            Answer::Array(all) | Answer::Map(all) | Answer::Set(all) | Answer::Pairs(all) => {
                if all.len() >= bound / ELEMENT_BYTES {
                    return bound;
                }
                let mut sum = 0;
                for answer in all {
                    if sum >= bound {
                        return bound;
                    }
                    sum += answer.bytes_up_to(bound - sum);
                }
                sum
            }
            _ => 0,
        };
        (ELEMENT_BYTES + beside).min(bound)
    }

    /// Whether it is an error.
    pub fn is_error(&self) -> bool {
        match self {
            Answer::Error(_) => true,
            Answer::Raw(bytes) => matches!(bytes.first(), Some(b'-' | b'!')),
            _ => false,
        }
    }
}

/// What an operation of Claret answers, where nothing has to be done to it.
impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Nil => Answer::Nil,
            Reply::Ok => Answer::Ok,
            Reply::Int(number) => Answer::Int(number),
            Reply::Float(number) => Answer::Double(number),
            Reply::Bytes(bytes) => Answer::Bulk(bytes),
            Reply::Array(all) => Answer::Array(all.into_iter().map(Answer::from).collect()),
            Reply::Failed(error) => Answer::Error(of_operation(&error)),
        }
    }
}
