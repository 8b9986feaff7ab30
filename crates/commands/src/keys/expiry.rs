//! `EXPIRE` and its kin, with their conditions.

use claret_types::{Bytes, KeyspaceOp, Moment};

use crate::answer::Answer;
use crate::calls::{Calls, Shape};
use crate::fault::Fault;
use crate::steps::{Answered, Steps, any};
use crate::words::{Words, int, is, is_in_range};

/// A time as a command says it: relative to now or to 1970, in milliseconds. It may be over.
fn milliseconds(name: &str, time: &Bytes) -> Result<i64, Fault> {
    let invalid =
        || Fault::Told(format!("ERR invalid expire time in '{}' command", name.to_ascii_lowercase()));
    let time = int(time)?;
    let ms = if name.starts_with('P') { Some(time) } else { time.checked_mul(1000) };
    ms.filter(|ms| is_absolute(name) || is_in_range(*ms)).ok_or_else(invalid)
}

fn is_absolute(name: &str) -> bool {
    name.ends_with("AT")
}

fn moment(name: &str, ms: i64) -> Moment {
    match u64::try_from(ms) {
        Err(_) => Moment::OVER,
        Ok(ms) if is_absolute(name) => Moment::At(ms),
        Ok(ms) => Moment::In(ms),
    }
}

fn set(at: Moment, only_later: bool) -> KeyspaceOp {
    KeyspaceOp::Expire { at, only_later, returning: true }
}

/// Without a condition, or only if that is later than the record expires.
pub(crate) fn at_once(words: Words<'_>) -> Option<Result<Calls, Fault>> {
    let (key, time, only_later) = match words.rest {
        [key, time] => (key, time, false),
        [key, time, option] if is(option, "GT") => (key, time, true),
        _ => return None,
    };
    let expire = |ms| Calls::one(key, any(set(moment(words.name, ms), only_later)), Shape::First);
    Some(milliseconds(words.name, time).map(expire))
}

pub(crate) fn ttl(words: Words<'_>) -> Result<Calls, Fault> {
    about(words, KeyspaceOp::TimeLeft { in_seconds: true, now: None }, Shape::First)
}

pub(crate) fn pttl(words: Words<'_>) -> Result<Calls, Fault> {
    about(words, KeyspaceOp::TimeLeft { in_seconds: false, now: None }, Shape::First)
}

pub(crate) fn expiretime(words: Words<'_>) -> Result<Calls, Fault> {
    about(words, KeyspaceOp::ExpiryTime, Shape::Seconds)
}

pub(crate) fn pexpiretime(words: Words<'_>) -> Result<Calls, Fault> {
    about(words, KeyspaceOp::ExpiryTime, Shape::First)
}

pub(crate) fn persist(words: Words<'_>) -> Result<Calls, Fault> {
    about(words, KeyspaceOp::Persist { returning: true }, Shape::First)
}

/// One operation on the only word, a key.
fn about(words: Words<'_>, op: KeyspaceOp, shape: Shape) -> Result<Calls, Fault> {
    let [key] = words.exactly()?;
    Ok(Calls::one(key, any(op), shape))
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Conditions {
    never: bool,
    expires: bool,
    later: bool,
    earlier: bool,
}

impl Conditions {
    fn of(options: &[Bytes]) -> Result<Self, Fault> {
        let mut all = Conditions::default();
        for option in options {
            match () {
                () if is(option, "NX") => all.never = true,
                () if is(option, "XX") => all.expires = true,
                () if is(option, "GT") => all.later = true,
                () if is(option, "LT") => all.earlier = true,
                () => {
                    return Err(Fault::Told(format!(
                        "ERR Unsupported option {}",
                        String::from_utf8_lossy(option)
                    )));
                }
            }
        }
        if all.never && (all.expires || all.later || all.earlier) {
            return Err(Fault::told("ERR NX and XX, GT or LT options at the same time are not compatible"));
        }
        if all.later && all.earlier {
            return Err(Fault::told("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(all)
    }

    /// Whether they allow a time, where the record expires then; both are from the same moment on.
    fn allow(self, ms: i64, ends: Option<i64>) -> bool {
        match ends {
            None => !self.expires && !self.later,
            Some(ends) => !self.never && (!self.later || ms > ends) && (!self.earlier || ms < ends),
        }
    }
}

pub(crate) async fn under_conditions(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let ([key, time], options) = words.split()?;
    let name = words.name;
    let conditions = Conditions::of(options)?;
    let ms = milliseconds(name, time)?;
    // What is relative to now is compared with what is left from now on.
    let ask = match is_absolute(name) {
        true => KeyspaceOp::ExpiryTime,
        false => KeyspaceOp::TimeLeft { in_seconds: false, now: None },
    };
    let ends: i64 = steps.lock(key, any(ask)).await?;
    if ends == -2 || !conditions.allow(ms, Some(ends).filter(|ends| *ends >= 0)) {
        return Ok(Answer::Int(0));
    }
    Ok(Answer::from(steps.tx.execute(key.clone(), any(set(moment(name, ms), false))).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_those_of_servers() {
        let of = |line: &str| Conditions::of(&line.split_whitespace().map(Bytes::from).collect::<Vec<_>>());
        assert_eq!(
            of("nx gt").unwrap_err().text(),
            "ERR NX and XX, GT or LT options at the same time are not compatible"
        );
        assert_eq!(
            of("gt lt").unwrap_err().text(),
            "ERR GT and LT options at the same time are not compatible"
        );
        assert_eq!(of("zz").unwrap_err().text(), "ERR Unsupported option zz");
        for (line, ends, allowed) in [
            ("nx", None, true),
            ("nx", Some(5), false),
            ("xx", None, false),
            ("xx", Some(5), true),
            ("gt", None, false),
            ("gt", Some(5), true),
            ("gt", Some(10), false),
            ("lt", None, true),
            ("lt", Some(10), false),
            ("lt", Some(11), true),
            ("xx lt", None, false),
        ] {
            assert_eq!(of(line).unwrap().allow(10, ends), allowed, "{line} {ends:?}");
        }
    }
}
