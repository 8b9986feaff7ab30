//! Changes within a list: `LSET`, `LINSERT`, `LREM`, `LTRIM`.
//!
//! A list has pushes and pops at its ends. A change near an end pops as far as there and pushes what comes back, so on a cluster
//! little is sent; one farther within makes the list anew, with its expiry.

use claret_types::{Bytes, End, KeyspaceOp, ListOp, Operation};

use crate::answer::Answer;
use crate::calls::taken;
use crate::fault::Fault;
use crate::steps::{Answered, Steps, any, delete, few_of, list};
use crate::words::{Words, int, is, span};

/// Farther from an end, a list is made anew.
const POPS_MAX: usize = 128;

/// All of a list that is to be changed, and when it expires.
async fn whole(steps: Steps<'_>, key: &Bytes) -> Result<(Vec<Bytes>, Option<u64>), Fault> {
    let values = steps.tx.execute_for_update(key.clone(), list(ListOp::Range { start: 0, stop: -1 }));
    let ends = steps.tx.execute_for_update(key.clone(), any(KeyspaceOp::ExpiryTime));
    let values = steps.taken(values.await?).await?;
    Ok((values, u64::try_from(taken::<i64>(ends.await?)?).ok()))
}

/// How a list becomes another one.
#[derive(Clone, Debug, PartialEq)]
enum Way {
    Nothing,
    /// So many are popped at this end, and then these pushed, one after the other.
    AtEnd(End, usize, Vec<Bytes>),
    Anew,
}

fn way(old: &[Bytes], new: &[Bytes]) -> Way {
    if old == new {
        return Way::Nothing;
    }
    let shorter = old.len().min(new.len());
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count().min(shorter);
    let (left, right) = (old.len() - tail, old.len() - head);
    // Something stays there throughout: an empty list has no expiry.
    if tail > 0 && left <= POPS_MAX && (left <= right || head == 0) {
        Way::AtEnd(End::Front, left, new[..new.len() - tail].iter().rev().cloned().collect())
    } else if head > 0 && right <= POPS_MAX {
        Way::AtEnd(End::Back, right, new[head..].to_vec())
    } else {
        Way::Anew
    }
}

impl Way {
    fn operations(self, new: &[Bytes]) -> Option<(Vec<Operation>, bool)> {
        match self {
            Way::Nothing => None,
            Way::AtEnd(end, pops, pushed) => {
                let mut all = vec![list(ListOp::Pop(end)); pops];
                if !pushed.is_empty() {
                    all.push(list(ListOp::Push(end, pushed.into_iter().collect())));
                }
                Some((all, false))
            }
            Way::Anew => Some((vec![delete(), list(ListOp::Push(End::Back, few_of(new)))], true)),
        }
    }
}

/// Makes a list another one: how long that is. `change` makes it of the old one; `None`: it stays.
async fn rewrite(
    steps: Steps<'_>,
    key: &Bytes,
    old: Vec<Bytes>,
    expires_at: Option<u64>,
    change: impl FnOnce(&[Bytes]) -> Option<Vec<Bytes>> + Send + 'static,
) -> Result<Option<usize>, Fault> {
    let elements = old.len();
    let make = move || {
        let new = change(&old)?;
        let operations = match new.is_empty() {
            true => Some((vec![delete()], false)),
            false => way(&old, &new).operations(&new),
        };
        Some((new.len(), operations))
    };
    let Some((length, operations)) = steps.runner.over(elements, make).await else { return Ok(None) };
    if let Some((operations, is_anew)) = operations {
        operations.into_iter().try_for_each(|op| steps.write(key, op))?;
        if is_anew {
            steps.expire_at(key, expires_at)?;
        }
    }
    Ok(Some(length))
}

pub(crate) async fn lset(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let [key, index, value] = words.exactly()?;
    let (old, expires_at) = whole(steps, key).await?;
    if old.is_empty() {
        return Err(Fault::told("ERR no such key"));
    }
    let index = int(index)?;
    let at = if index < 0 { index.saturating_add(old.len() as i64) } else { index };
    let at = usize::try_from(at).ok().filter(|at| *at < old.len());
    let at = at.ok_or_else(|| Fault::told("ERR index out of range"))?;
    let value = value.clone();
    let change = move |old: &[Bytes]| {
        let mut new = old.to_vec();
        new[at] = value;
        Some(new)
    };
    rewrite(steps, key, old, expires_at, change).await?;
    Ok(Answer::Ok)
}

pub(crate) async fn linsert(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let [key, side, pivot, value] = words.exactly()?;
    let beside = match () {
        () if is(side, "BEFORE") => 0,
        () if is(side, "AFTER") => 1,
        () => return Err(Fault::syntax()),
    };
    let (old, expires_at) = whole(steps, key).await?;
    if old.is_empty() {
        return Ok(Answer::Int(0));
    }
    let (pivot, value) = (pivot.clone(), value.clone());
    let change = move |old: &[Bytes]| {
        let at = old.iter().position(|it| *it == pivot)?;
        let mut new = old.to_vec();
        new.insert(at + beside, value);
        Some(new)
    };
    let length = rewrite(steps, key, old, expires_at, change).await?;
    Ok(length.map_or(Answer::Int(-1), Answer::count))
}

pub(crate) async fn lrem(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let [key, count, value] = words.exactly()?;
    let count = int(count)?;
    if count == i64::MIN {
        let (min, max) = (-i64::MAX, i64::MAX);
        return Err(Fault::Told(format!("ERR value is out of range, value must between {min} and {max}")));
    }
    let (old, expires_at) = whole(steps, key).await?;
    let most =
        if count == 0 { usize::MAX } else { usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX) };
    let (value, length) = (value.clone(), old.len());
    let change = move |old: &[Bytes]| {
        let mut left = most;
        let mut stays = |it: &&Bytes| {
            let goes = **it == value && left > 0;
            left -= usize::from(goes);
            !goes
        };
        let new: Vec<Bytes> = if count < 0 {
            let mut new: Vec<Bytes> = old.iter().rev().filter(&mut stays).cloned().collect();
            new.reverse();
            new
        } else {
            old.iter().filter(&mut stays).cloned().collect()
        };
        (new.len() < old.len()).then_some(new)
    };
    let left = rewrite(steps, key, old, expires_at, change).await?;
    Ok(Answer::count(length - left.unwrap_or(length)))
}

pub(crate) async fn ltrim(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let [key, start, stop] = words.exactly()?;
    let (start, stop) = (int(start)?, int(stop)?);
    let length: i64 = steps.lock(key, list(ListOp::Len)).await?;
    let length = usize::try_from(length).unwrap_or(0);
    let kept = span(start, stop, length);
    let (front, back) = (kept.start, length - kept.end);
    if length == 0 || front + back == 0 && !kept.is_empty() {
        return Ok(Answer::Ok);
    }
    if kept.is_empty() {
        steps.write(key, delete())?;
    } else if front + back <= POPS_MAX.max(kept.len()) {
        steps.write_times(key, &list(ListOp::Pop(End::Front)), front).await?;
        steps.write_times(key, &list(ListOp::Pop(End::Back)), back).await?;
    } else {
        let (from, to) = (kept.start as i64, kept.end as i64 - 1);
        let values: Vec<Bytes> = steps.read(key, list(ListOp::Range { start: from, stop: to })).await?;
        let expires_at = steps.expiry(key).await?;
        let push = || list(ListOp::Push(End::Back, values.into_iter().collect()));
        let made = steps.runner.over(kept.len(), push).await;
        steps.replace(key, Some(made))?;
        steps.expire_at(key, expires_at)?;
    }
    Ok(Answer::Ok)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Whatever way it takes, the list is the new one afterwards, and is never empty in between.
    #[test]
    fn a_way_leads_from_the_one_list_to_the_other() {
        let lists: Vec<Vec<Bytes>> = (0..1 << 8)
            .map(|bits| {
                (0..8)
                    .filter(|at| bits >> at & 1 == 1)
                    .map(|at| Bytes::from(["a", "b", "c"][at % 3]))
                    .collect()
            })
            .filter(|list: &Vec<Bytes>| !list.is_empty())
            .collect();
        for old in &lists {
            for new in &lists {
                let mut now: VecDeque<Bytes> = old.iter().cloned().collect();
                match way(old, new) {
                    Way::Nothing => {}
                    Way::Anew => now = new.iter().cloned().collect(),
                    Way::AtEnd(End::Front, pops, pushed) => {
                        now.drain(..pops);
                        assert!(!now.is_empty(), "{old:?} {new:?}");
                        pushed.into_iter().for_each(|it| now.push_front(it));
                    }
                    Way::AtEnd(End::Back, pops, pushed) => {
                        now.truncate(now.len() - pops);
                        assert!(!now.is_empty(), "{old:?} {new:?}");
                        now.extend(pushed);
                    }
                }
                assert_eq!(&Vec::from(now), new, "from {old:?}");
            }
        }
    }
}
