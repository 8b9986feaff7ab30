//! Errands that are done at most once for an id, and are answered as the first time (E11).
//!
//! Such an errand writes two records besides what it was told, as every transaction of Claret that has an id: the mark, which
//! stays, and the answers, which expire. It sets the mark and reads the answers before anything else, under locks: what was done may
//! not be possible any more.

use claret_core::Limits;
use claret_planted::{Bug, is_planted};
use claret_types::{Bytes, KeyspaceOp, Moment, Operation, Register, RegisterOp, Reply};

use crate::parts::error::{Error, OnceError};
use crate::parts::one_shots::{Calls, Ended};

/// How long the answers are there, in milliseconds.
const KEPT_MS: u64 = 24 * 60 * 60 * 1_000;

/// What answers begin with that `CLARET.DO` has kept: others use the same names.
const WRITTEN_BY: &[u8] = b"claret.do 1\n";

/// What an errand that is done once has besides its calls.
pub(crate) struct Once {
    id: Bytes,
    /// In milliseconds since 1970.
    kept_until: u64,
    value_bytes_max: usize,
}

/// The mark and the answers of an earlier one, or that there is none.
pub(super) enum Earlier {
    Unheard,
    None,
    Answered(Ended),
}

impl Once {
    /// So many calls stand before those of the client.
    pub(super) const BEFORE: usize = 2;

    /// For this id, at so many milliseconds since 1970.
    ///
    /// # Errors
    /// It is no id.
    pub(crate) fn new(id: Bytes, unix_ms: u64, limits: &Limits) -> Result<Self, Error> {
        let is_empty = id.is_empty();
        let once =
            Once { id, kept_until: unix_ms.saturating_add(KEPT_MS), value_bytes_max: limits.value_bytes_max };
        let is_key = once.answers_key().len() <= limits.key_bytes_max;
        if is_empty || !is_key { Err(Error::Once(OnceError::NoId)) } else { Ok(once) }
    }

    fn key(&self, what: &str) -> Bytes {
        [b"claret:", what.as_bytes(), b":", &self.id].concat().into()
    }

    fn answers_key(&self) -> Bytes {
        self.key("answer")
    }

    /// The calls that stand before those of the client: the mark, and what is kept of an earlier one.
    pub(crate) fn before(&self) -> Calls {
        let mark = match is_planted(Bug::OnceUnmarked) {
            true => RegisterOp::Get,
            false => RegisterOp::SetIfAbsentReturning("1".into()),
        };
        let mark = Operation::new::<Register>(mark);
        let answers = Operation::new::<Register>(RegisterOp::Get);
        vec![(self.key("done"), mark), (self.answers_key(), answers)]
    }

    /// What the first calls have said.
    pub(super) fn earlier(&self, mark: Option<&Reply>, answers: Option<&Reply>) -> Earlier {
        match (mark, answers) {
            (None, _) | (_, None) => Earlier::Unheard,
            (Some(Reply::Int(0)), Some(Reply::Bytes(kept))) => {
                let read = kept.strip_prefix(WRITTEN_BY).and_then(|kept| postcard::from_bytes(kept).ok());
                Earlier::Answered(
                    read.ok_or_else(|| Error::Once(OnceError::AnswersOfOthers(self.answers_key()))),
                )
            }
            (Some(Reply::Int(0)), Some(_)) => {
                Earlier::Answered(Err(Error::Once(OnceError::AlreadyDone(self.id.clone()))))
            }
            (Some(_), Some(_)) => Earlier::None,
        }
    }

    /// The call that keeps these answers.
    ///
    /// # Errors
    /// They are too large for a value.
    pub(super) fn keep(&self, answers: &[Reply]) -> Result<(Bytes, Operation), Error> {
        let value = postcard::to_extend(answers, WRITTEN_BY.to_vec());
        let value = value.expect("memory takes all, and answers can be written").into();
        let op = Operation::from(KeyspaceOp::SetUntil { value, at: Moment::At(self.kept_until) });
        op.check(self.value_bytes_max).map_err(Error::Operation)?;
        Ok((self.answers_key(), op))
    }
}

#[cfg(test)]
mod tests {
    use claret_core::Limits;
    use claret_types::{Bytes, Reply};

    use super::{Earlier, Once, WRITTEN_BY};
    use crate::parts::error::{Error, OnceError};

    fn once() -> Once {
        let limits = Limits { value_bytes_max: 100, ..Limits::default() };
        Once::new("7".into(), 1_000, &limits).expect("it is one")
    }

    fn kept(answers: &[Reply]) -> Reply {
        let (key, op) = once().keep(answers).expect("it fits");
        assert_eq!((key, op.method().name), ("claret:answer:7".into(), "PSETEXAT"));
        Reply::Bytes(op.arguments().last().cloned().expect("the value"))
    }

    #[test]
    fn an_earlier_one_is_answered_as_the_first_time() {
        let answers = vec![
            Reply::Ok,
            Reply::Nil,
            Reply::Int(-7),
            Reply::Float(0.1),
            Reply::Bytes(Bytes::from(b"\xff\0".as_slice())),
            Reply::Array(vec![Reply::Nil, Reply::Array(vec![])]),
        ];
        let kept = kept(&answers);
        let heard = once().earlier(Some(&Reply::Int(0)), Some(&kept));
        assert!(matches!(heard, Earlier::Answered(Ok(heard)) if heard == answers));
        assert!(matches!(once().earlier(Some(&Reply::Int(1)), Some(&Reply::Nil)), Earlier::None));
        for (mark, answers) in [(None, Some(&kept)), (Some(&Reply::Int(0)), None)] {
            assert!(matches!(once().earlier(mark, answers), Earlier::Unheard));
        }
    }

    #[test]
    fn what_is_gone_or_of_others_is_said_by_name() {
        let of = |answers: &[u8]| match once()
            .earlier(Some(&Reply::Int(0)), Some(&Reply::Bytes(answers.into())))
        {
            Earlier::Answered(Err(error)) => error,
            _ => panic!("it is none of ours"),
        };
        for kept in [&b""[..], b"*1\r\n", &[WRITTEN_BY, b"\xff\xff\xff\xff"].concat()] {
            let others = OnceError::AnswersOfOthers("claret:answer:7".into());
            assert_eq!(of(kept), Error::Once(others));
        }
        let gone = once().earlier(Some(&Reply::Int(0)), Some(&Reply::Nil));
        assert!(
            matches!(gone, Earlier::Answered(Err(Error::Once(OnceError::AlreadyDone(id)))) if &id[..] == b"7")
        );
    }

    #[test]
    fn an_id_is_part_of_a_key() {
        let limits = Limits { key_bytes_max: 19, ..Limits::default() };
        assert!(Once::new("12345".into(), 0, &limits).is_ok());
        for id in ["", "123456"] {
            assert!(matches!(Once::new(id.into(), 0, &limits), Err(Error::Once(OnceError::NoId))), "{id}");
        }
    }

    #[test]
    fn answers_that_are_too_large_to_be_kept_are_refused() {
        let large = Reply::Bytes(vec![0; 100].into());
        assert!(matches!(once().keep(&[large]), Err(Error::Operation(_))));
    }
}
