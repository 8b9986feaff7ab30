//! `HSCAN`, `SSCAN` and `ZSCAN`: all elements in one page, whose cursor is 0. A record is read in one step of a transaction
//! anyway, so a page each would read it as often as there are pages.

use claret::keys::Pattern;
use claret_types::Bytes;

use crate::answer::Answer;
use crate::fault::Fault;
use crate::steps::{Answered, Steps};
use crate::words::{int, is, pattern};

/// What a scan asks for.
struct Scan {
    pattern: Option<Pattern>,
    /// Elements without what belongs to each.
    only_names: bool,
}

/// Checks a cursor.
///
/// # Errors
/// It is none.
pub fn check_cursor(cursor: &Bytes) -> Result<(), Fault> {
    let digits = cursor.as_str().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    match digits.and_then(|text| text.parse::<u64>().ok()) {
        Some(_) => Ok(()),
        None => Err(Fault::told("ERR invalid cursor")),
    }
}

/// The page: each element with what belongs to it. Options are looked at where there are elements, as servers do.
pub(crate) async fn page<T: Send + 'static>(
    steps: Steps<'_>,
    name: &str,
    elements: Vec<T>,
    parts: fn(T) -> (Bytes, Option<Answer>),
    options: &[Bytes],
) -> Answered {
    let scan = if elements.is_empty() {
        Scan { pattern: None, only_names: false }
    } else {
        Scan::of(name, options)?
    };
    let choose = move |elements: Vec<T>| {
        let is_meant = |name: &Bytes| scan.pattern.as_ref().is_none_or(|pattern| pattern.matches(name));
        let chosen = elements.into_iter().map(parts).filter(|(name, _)| is_meant(name));
        let words = chosen
            .flat_map(|(name, beside)| [Some(Answer::Bulk(name)), beside.filter(|_| !scan.only_names)])
            .flatten();
        Answer::Array(vec![Answer::text("0"), Answer::Array(words.collect())])
    };
    Ok(steps.runner.over(elements.len(), move || choose(elements)).await)
}

impl Scan {
    fn of(name: &str, options: &[Bytes]) -> Result<Self, Fault> {
        let mut scan = Scan { pattern: None, only_names: false };
        let mut rest = options.iter();
        while let Some(option) = rest.next() {
            if is(option, "COUNT") {
                if int(rest.next().ok_or_else(Fault::syntax)?)? < 1 {
                    return Err(Fault::syntax());
                }
            } else if is(option, "MATCH") {
                scan.pattern = Some(pattern(rest.next().ok_or_else(Fault::syntax)?)?);
            } else if is(option, "NOVALUES") {
                if name != "HSCAN" {
                    return Err(Fault::told("ERR NOVALUES option can only be used in HSCAN"));
                }
                scan.only_names = true;
            } else if is(option, "NOSCORES") {
                if name != "ZSCAN" {
                    return Err(Fault::told("ERR NOSCORES option can only be used in ZSCAN"));
                }
                scan.only_names = true;
            } else {
                return Err(Fault::syntax());
            }
        }
        Ok(scan)
    }
}
