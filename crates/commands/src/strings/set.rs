//! `SET` with options, `GETEX`, and the times of both.

use claret_types::{Bytes, KeyspaceOp, Moment, RegisterOp};

use crate::answer::Answer;
use crate::fault::Fault;
use crate::steps::{Answered, Steps, any, expire, put_text, text};
use crate::words::{Words, int, is, is_in_range};

/// Under which condition `SET` writes.
#[derive(Clone, Debug, Default, PartialEq)]
enum When {
    #[default]
    Always,
    IfAbsent,
    IfThere,
    /// The value is this one.
    IfEqual(Bytes),
}

/// What becomes of the expiry.
#[derive(Clone, Debug, Default, PartialEq)]
enum Ends {
    #[default]
    Never,
    AsBefore,
    /// By the option `EX`, `PX`, `EXAT` or `PXAT`, and its word.
    At(&'static str, Bytes),
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Options {
    when: When,
    ends: Ends,
    gets: bool,
}

const TIMES: [&str; 4] = ["EX", "PX", "EXAT", "PXAT"];

/// Takes an option with a time, or says that it is none.
fn time_option(word: &Bytes, rest: &mut std::slice::Iter<'_, Bytes>, ends: &mut Ends) -> Result<bool, Fault> {
    let Some(option) = TIMES.into_iter().find(|option| is(word, option)) else { return Ok(false) };
    let allowed = match ends {
        Ends::Never => true,
        Ends::AsBefore => false,
        Ends::At(before, _) => *before == option,
    };
    match rest.next().filter(|_| allowed) {
        Some(time) => *ends = Ends::At(option, time.clone()),
        None => return Err(Fault::syntax()),
    }
    Ok(true)
}

impl Options {
    fn of(words: &[Bytes]) -> Result<Self, Fault> {
        let mut options = Options::default();
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            let when = &options.when;
            if is(word, "NX") && matches!(when, When::Always | When::IfAbsent) {
                options.when = When::IfAbsent;
            } else if is(word, "XX") && matches!(when, When::Always | When::IfThere) {
                options.when = When::IfThere;
            } else if is(word, "IFEQ") && *when == When::Always {
                options.when = When::IfEqual(rest.next().cloned().ok_or_else(Fault::syntax)?);
            } else if is(word, "GET") {
                options.gets = true;
            } else if is(word, "KEEPTTL") && !matches!(options.ends, Ends::At(..)) {
                options.ends = Ends::AsBefore;
            } else if !time_option(word, &mut rest, &mut options.ends)? {
                return Err(Fault::syntax());
            }
        }
        Ok(options)
    }
}

/// The moment that a word says, after an option of this name, in a command of that name.
///
/// # Errors
/// It is no integer, or no time in the future of 1970.
pub(super) fn moment(command: &str, option: &str, word: &Bytes) -> Result<Moment, Fault> {
    let invalid =
        || Fault::Told(format!("ERR invalid expire time in '{}' command", command.to_ascii_lowercase()));
    let time = int(word)?;
    let (is_in_seconds, is_absolute) = (option.starts_with('E'), option.ends_with("AT"));
    let ms = if is_in_seconds { time.checked_mul(1000) } else { Some(time) };
    let ms = ms.filter(|ms| *ms > 0 && (is_absolute || is_in_range(*ms))).ok_or_else(invalid)?;
    let ms = ms.unsigned_abs();
    Ok(if is_absolute { Moment::At(ms) } else { Moment::In(ms) })
}

pub(crate) async fn set(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let ([key, value], options) = words.split()?;
    let options = Options::of(options)?;
    let moment = match &options.ends {
        Ends::At(option, word) => Some(moment(words.name, option, word)?),
        Ends::Never | Ends::AsBefore => None,
    };
    let needs_value = options.gets || matches!(options.when, When::IfEqual(_));
    let before: Option<Bytes> =
        if needs_value { steps.lock(key, text(RegisterOp::Get)).await? } else { None };
    let is_there = match &options.when {
        When::Always => true,
        _ if needs_value => before.is_some(),
        _ => steps.is_there(key).await?,
    };
    let writes = match &options.when {
        When::Always => true,
        When::IfAbsent => !is_there,
        When::IfThere => is_there,
        When::IfEqual(value) => before.as_ref() == Some(value),
    };
    let answer = match (options.gets, writes) {
        (true, _) => before.map_or(Answer::Nil, Answer::Bulk),
        (false, true) => Answer::Ok,
        (false, false) => Answer::Nil,
    };
    if !writes {
        return Ok(answer);
    }
    let kept = if options.ends == Ends::AsBefore { steps.expiry(key).await? } else { None };
    // A value that was read is a string, and so is what comes where nothing is.
    match needs_value || options.when == When::IfAbsent {
        true => steps.write(key, text(RegisterOp::Set(value.clone())))?,
        false => steps.write_all(key, put_text(value)?)?,
    }
    if let Some(at) = moment.or(kept.map(Moment::At)) {
        steps.write(key, expire(at))?;
    }
    Ok(answer)
}

pub(crate) async fn getex(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let ([key], options) = words.split()?;
    let (mut ends, mut persists) = (Ends::Never, false);
    let mut rest = options.iter();
    while let Some(word) = rest.next() {
        if is(word, "PERSIST") && ends == Ends::Never {
            persists = true;
        } else if persists || !time_option(word, &mut rest, &mut ends)? {
            return Err(Fault::syntax());
        }
    }
    let value: Option<Bytes> = steps.lock(key, text(RegisterOp::Get)).await?;
    let Some(value) = value else { return Ok(Answer::Nil) };
    if let Ends::At(option, word) = &ends {
        steps.write(key, expire(moment(words.name, option, word)?))?;
    } else if persists {
        steps.write(key, any(KeyspaceOp::Persist { returning: false }))?;
    }
    Ok(Answer::Bulk(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Result<Options, Fault> {
        Options::of(&line.split_whitespace().map(Bytes::from).collect::<Vec<_>>())
    }

    #[test]
    fn options_that_exclude_each_other_are_a_syntax_error() {
        for line in [
            "NX XX",
            "XX NX",
            "EX",
            "EX 1 PX 1",
            "KEEPTTL EX 1",
            "PX 1 KEEPTTL",
            "NX IFEQ a",
            "IFEQ",
            "what",
            "EX 1 EXAT 2",
        ] {
            assert_eq!(options(line), Err(Fault::syntax()), "{line}");
        }
        assert!(options("nx get ex 5").is_ok());
        assert_eq!(options("KEEPTTL KEEPTTL XX XX").unwrap().when, When::IfThere);
    }

    #[test]
    fn times_are_in_the_future_of_1970() {
        let told = |word: &str| moment("SETEX", "EX", &word.into()).unwrap_err().text();
        assert_eq!(told("0"), "ERR invalid expire time in 'setex' command");
        assert_eq!(told("-5"), "ERR invalid expire time in 'setex' command");
        assert_eq!(told("9223372036854775807"), "ERR invalid expire time in 'setex' command");
        assert_eq!(told("soon"), "ERR value is not an integer or out of range");
        assert_eq!(moment("SET", "EX", &"5".into()), Ok(Moment::In(5000)));
        assert_eq!(moment("SET", "PXAT", &"5".into()), Ok(Moment::At(5)));
        assert_eq!(moment("SET", "PXAT", &i64::MAX.to_string().into()), Ok(Moment::At(i64::MAX as u64)));
        assert!(moment("SET", "PX", &i64::MAX.to_string().into()).is_err(), "now is added to it");
    }
}
