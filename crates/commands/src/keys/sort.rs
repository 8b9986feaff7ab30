//! `SORT` and `SORT_RO`.

mod pattern;

use std::cmp::Ordering;
use std::sync::Arc;

use claret_types::{Bytes, End, ListOp, ScoredSetOp, SetOp};

use self::pattern::Pattern;
use crate::answer::Answer;
use crate::fault::Fault;
use crate::kind::Kind;
use crate::steps::{Answered, Steps, list, scored, set};
use crate::words::{Words, int, is, number};

#[derive(Clone, Debug, Default)]
struct Options {
    descends: bool,
    by_text: bool,
    /// By what is read for each element.
    by: Option<Pattern>,
    gets: Vec<Pattern>,
    limit: Option<(i64, i64)>,
    store: Option<Bytes>,
}

impl Options {
    fn of(name: &str, words: &[Bytes]) -> Result<Self, Fault> {
        let mut options = Options::default();
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            match () {
                () if is(word, "ASC") => options.descends = false,
                () if is(word, "DESC") => options.descends = true,
                () if is(word, "ALPHA") => options.by_text = true,
                () if is(word, "LIMIT") => {
                    let (Some(start), Some(count)) = (rest.next(), rest.next()) else {
                        return Err(Fault::syntax());
                    };
                    options.limit = Some((int(start)?, int(count)?));
                }
                () if is(word, "STORE") && name == "SORT" => {
                    options.store = Some(rest.next().cloned().ok_or_else(Fault::syntax)?);
                }
                () if is(word, "BY") => {
                    options.by = Some(Pattern::of(rest.next().ok_or_else(Fault::syntax)?))
                }
                () if is(word, "GET") => {
                    options.gets.push(Pattern::of(rest.next().ok_or_else(Fault::syntax)?))
                }
                () => return Err(Fault::syntax()),
            }
        }
        Ok(options)
    }
}

/// `SORT` and `SORT_RO`.
pub(crate) async fn sort(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let ([key], options) = words.split()?;
    let mut options = Options::of(words.name, options)?;
    let kind = steps.kind(key, options.store.as_ref() == Some(key)).await?;
    let elements = elements(steps, key, &kind).await?;
    // What has no order gets one before it is stored.
    if options.by == Some(Pattern::Nothing) && kind == Kind::Set && options.store.is_some() {
        (options.by, options.by_text) = (None, true);
    }
    let elements = sorted(steps, Arc::new(elements), &options, kind != Kind::Set).await?;
    let found = gotten(steps, elements, &options.gets).await?;
    let count = found.len();
    let Some(target) = options.store else {
        let answer = |it: Option<Bytes>| it.map_or(Answer::Nil, Answer::Bulk);
        let answers = move || Answer::Array(found.into_iter().map(answer).collect());
        return Ok(steps.runner.over(count, answers).await);
    };
    let values = move || found.into_iter().map(Option::unwrap_or_default).collect();
    let push = move || (count > 0).then(|| list(ListOp::Push(End::Back, values())));
    let made = steps.runner.over(count, push).await;
    steps.replace(&target, made)?;
    Ok(Answer::count(count))
}

/// What is sorted.
async fn elements(steps: Steps<'_>, key: &Bytes, kind: &Kind) -> Result<Vec<Bytes>, Fault> {
    let all = ScoredSetOp::Range { start: 0, stop: -1, reverse: false, scores: false };
    match kind {
        Kind::None => Ok(Vec::new()),
        Kind::List => steps.read(key, list(ListOp::Range { start: 0, stop: -1 })).await,
        Kind::Set => steps.read(key, set(SetOp::Members)).await,
        Kind::Zset => steps.read(key, scored(all)).await,
        Kind::String | Kind::Hash | Kind::Other(_) => Err(Fault::wrong_type()),
    }
}

async fn sorted(
    steps: Steps<'_>,
    elements: Arc<Vec<Bytes>>,
    options: &Options,
    has_order: bool,
) -> Result<Arc<Vec<Bytes>>, Fault> {
    let (limit, count) = (options.limit, elements.len());
    if options.by == Some(Pattern::Nothing) {
        let reverses = options.descends && has_order;
        let cut = move || {
            let mut elements = Arc::unwrap_or_clone(elements);
            if reverses {
                elements.reverse();
            }
            Arc::new(limited(&elements, limit).to_vec())
        };
        return Ok(steps.runner.over(count, cut).await);
    }
    let weights = options.by.as_ref().unwrap_or(&Pattern::Itself).read(steps, &elements).await?;
    let (by_text, descends) = (options.by_text, options.descends);
    let sort = move || {
        let sorted = by_weight(weights, &elements, by_text, descends)?;
        Ok(Arc::new(limited(&sorted, limit).to_vec()))
    };
    steps.runner.over(count, sort).await
}

fn by_weight(
    weights: Vec<Option<Bytes>>,
    elements: &[Bytes],
    by_text: bool,
    descends: bool,
) -> Result<Vec<Bytes>, Fault> {
    let mut weighed: Vec<(Weight, Bytes)> = Vec::with_capacity(elements.len());
    for (weight, element) in weights.into_iter().zip(elements) {
        weighed.push((Weight::of(weight, by_text)?, element.clone()));
    }
    weighed.sort_unstable_by(|a, b| a.0.order(&b.0).then_with(|| a.1.cmp(&b.1)));
    if descends {
        weighed.reverse();
    }
    Ok(weighed.into_iter().map(|(_, element)| element).collect())
}

/// What an element is sorted by.
enum Weight {
    /// What is not there comes first.
    Text(Option<Bytes>),
    Number(f64),
}

impl Weight {
    fn of(value: Option<Bytes>, is_text: bool) -> Result<Self, Fault> {
        if is_text {
            return Ok(Weight::Text(value));
        }
        let value = value.unwrap_or_default();
        // To a zero, where a text ends for servers.
        let text = value.split(|byte| *byte == 0).next().unwrap_or_default().trim_ascii_start();
        let number = if text.is_empty() { Some(0.0) } else { number(text) };
        number
            .map(Weight::Number)
            .ok_or_else(|| Fault::told("ERR One or more scores can't be converted into double"))
    }

    fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Weight::Text(a), Weight::Text(b)) => a.cmp(b),
            (Weight::Number(a), Weight::Number(b)) => a.partial_cmp(b).unwrap_or(Ordering::Equal),
            // They are all of one kind.
            (Weight::Text(_), Weight::Number(_)) => Ordering::Less,
            (Weight::Number(_), Weight::Text(_)) => Ordering::Greater,
        }
    }
}

fn limited(elements: &[Bytes], limit: Option<(i64, i64)>) -> &[Bytes] {
    let Some((start, count)) = limit else { return elements };
    let start = usize::try_from(start).unwrap_or(0).min(elements.len());
    let rest = &elements[start..];
    // Below zero: all.
    &rest[..usize::try_from(count).unwrap_or(rest.len()).min(rest.len())]
}

/// What is answered of each element.
async fn gotten(
    steps: Steps<'_>,
    elements: Arc<Vec<Bytes>>,
    gets: &[Pattern],
) -> Result<Vec<Option<Bytes>>, Fault> {
    if gets.is_empty() {
        return Pattern::Itself.read(steps, &elements).await;
    }
    let mut columns = Vec::with_capacity(gets.len());
    for get in gets {
        columns.push(get.read(steps, &elements).await?);
    }
    let (rows, cells) = (elements.len(), elements.len().saturating_mul(gets.len()));
    let all = move || {
        let row = |at: usize| columns.iter().map(move |column: &Vec<Option<Bytes>>| column[at].clone());
        (0..rows).flat_map(row).collect()
    };
    Ok(steps.runner.over(cells, all).await)
}
