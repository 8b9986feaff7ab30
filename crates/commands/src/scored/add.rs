//! `ZADD`.

use std::collections::HashMap;

use claret_types::{Bytes, Few, ScoredSetOp};

use crate::answer::Answer;
use crate::calls::{Calls, Shape, taken};
use crate::fault::Fault;
use crate::steps::{Answered, Steps, scored};
use crate::words::{Words, is, score};

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Options {
    only_new: bool,
    only_there: bool,
    only_greater: bool,
    only_less: bool,
    changed: bool,
    increments: bool,
}

impl Options {
    /// Those that come first, and the rest.
    fn of(words: &[Bytes]) -> (Self, &[Bytes]) {
        let mut options = Options::default();
        let mut rest = words;
        while let [word, after @ ..] = rest {
            match () {
                () if is(word, "NX") => options.only_new = true,
                () if is(word, "XX") => options.only_there = true,
                () if is(word, "GT") => options.only_greater = true,
                () if is(word, "LT") => options.only_less = true,
                () if is(word, "CH") => options.changed = true,
                () if is(word, "INCR") => options.increments = true,
                () => break,
            }
            rest = after;
        }
        (options, rest)
    }

    fn check(self, elements: usize) -> Result<(), Fault> {
        let Options { only_new, only_there, only_greater, only_less, .. } = self;
        let told = |text: &str| Err(Fault::told(text));
        match () {
            () if only_new && only_there => told("ERR XX and NX options at the same time are not compatible"),
            () if (only_greater || only_less) && only_new || only_greater && only_less => {
                told("ERR GT, LT, and/or NX options at the same time are not compatible")
            }
            () if self.increments && elements > 1 => {
                told("ERR INCR option supports a single increment-element pair")
            }
            () => Ok(()),
        }
    }

    /// The score that a member gets, if any.
    fn score(self, before: Option<f64>, given: f64) -> Result<Option<f64>, Fault> {
        let Some(before) = before else { return Ok((!self.only_there).then_some(given)) };
        if self.only_new {
            return Ok(None);
        }
        let score = if self.increments { before + given } else { given };
        if score.is_nan() {
            return Err(Fault::told("ERR resulting score is not a number (NaN)"));
        }
        let is_refused = self.only_greater && score <= before || self.only_less && score >= before;
        Ok((!is_refused).then_some(score))
    }
}

fn pairs(words: &[Bytes]) -> Result<Few<(Bytes, f64)>, Fault> {
    if words.is_empty() || !words.len().is_multiple_of(2) {
        return Err(Fault::syntax());
    }
    words.chunks_exact(2).map(|pair| Ok((pair[1].clone(), score(&pair[0])?))).collect()
}

/// `ZADD` without options.
pub(crate) fn without_options(words: Words<'_>) -> Option<Result<Calls, Fault>> {
    let ([key], rest) = words.split().ok()?;
    let (options, rest) = Options::of(rest);
    let add = |pairs| Calls::one(key, scored(ScoredSetOp::AddReturning(pairs)), Shape::First);
    (options == Options::default()).then(|| pairs(rest).map(add))
}

pub(crate) async fn zadd(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let ([key], rest) = words.split()?;
    let (options, rest) = Options::of(rest);
    if rest.is_empty() || !rest.len().is_multiple_of(2) {
        return Err(Fault::syntax());
    }
    options.check(rest.len() / 2)?;
    let pairs = pairs(rest)?;
    let asked: Vec<_> = pairs
        .iter()
        .map(|(member, _)| {
            steps.tx.execute_for_update(key.clone(), scored(ScoredSetOp::Score(member.clone())))
        })
        .collect();
    let mut scores: HashMap<&Bytes, Option<f64>> = HashMap::new();
    for ((member, _), answer) in pairs.iter().zip(asked) {
        scores.insert(member, taken(answer.await?)?);
    }
    let (mut added, mut updated, mut last) = (0, 0, None);
    let mut changes: Few<(Bytes, f64)> = Few::new();
    for (member, given) in &pairs {
        let before = scores[member];
        last = options.score(before, *given)?;
        let Some(score) = last else { continue };
        added += usize::from(before.is_none());
        updated += usize::from(before.is_some_and(|before| before != score));
        scores.insert(member, Some(score));
        changes.push((member.clone(), score));
    }
    if added + updated > 0 {
        steps.write(key, scored(ScoredSetOp::Add(changes)))?;
    }
    Ok(match options.increments {
        true => last.map_or(Answer::Nil, Answer::Double),
        false => Answer::count(if options.changed { added + updated } else { added }),
    })
}
