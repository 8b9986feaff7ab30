//! `LPOS`.

use claret_types::{Bytes, ListOp};

use crate::answer::Answer;
use crate::fault::Fault;
use crate::steps::{Answered, Steps, list};
use crate::words::{Words, int, is};

struct Options {
    /// From the front, or below zero from the back.
    rank: i64,
    count: Option<usize>,
    /// Zero: all.
    looked_at: usize,
}

impl Options {
    fn of(words: &[Bytes]) -> Result<Self, Fault> {
        let mut options = Options { rank: 1, count: None, looked_at: 0 };
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            let known = ["RANK", "COUNT", "MAXLEN"].into_iter().find(|option| is(word, option));
            let (Some(option), Some(number)) = (known, rest.next()) else { return Err(Fault::syntax()) };
            let not_negative = |said: &str| {
                let number = int(number).ok().and_then(|number| usize::try_from(number).ok());
                number.ok_or_else(|| Fault::told(said))
            };
            match option {
                "RANK" => options.rank = rank(number)?,
                "COUNT" => options.count = Some(not_negative("ERR COUNT can't be negative")?),
                _ => options.looked_at = not_negative("ERR MAXLEN can't be negative")?,
            }
        }
        Ok(options)
    }

    /// The places of a value, as they are asked for.
    fn found(&self, value: &Bytes, all: &[Bytes]) -> Answer {
        let looked_at = if self.looked_at == 0 { all.len() } else { self.looked_at.min(all.len()) };
        let places: Box<dyn Iterator<Item = usize>> = match self.rank {
            0.. => Box::new(0..looked_at),
            _ => Box::new((all.len() - looked_at..all.len()).rev()),
        };
        let passed = usize::try_from(self.rank.unsigned_abs() - 1).unwrap_or(usize::MAX);
        let mut found = places.filter(|at| all[*at] == *value).skip(passed);
        match self.count {
            None => found.next().map_or(Answer::Nil, Answer::count),
            Some(0) => Answer::Array(found.map(Answer::count).collect()),
            Some(count) => Answer::Array(found.take(count).map(Answer::count).collect()),
        }
    }
}

fn rank(word: &Bytes) -> Result<i64, Fault> {
    match int(word)? {
        i64::MIN => {
            let (min, max) = (-i64::MAX, i64::MAX);
            Err(Fault::Told(format!("ERR value is out of range, value must between {min} and {max}")))
        }
        0 => Err(Fault::told(
            "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start \
             from the end of the list",
        )),
        rank => Ok(rank),
    }
}

pub(crate) async fn lpos(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let ([key, value], options) = words.split()?;
    let options = Options::of(options)?;
    let all: Vec<Bytes> = steps.read(key, list(ListOp::Range { start: 0, stop: -1 })).await?;
    let (count, value) = (all.len(), value.clone());
    Ok(steps.runner.over(count, move || options.found(&value, &all)).await)
}
