//! Commands on the bits of strings.

use claret_types::{Bytes, RegisterOp};

use super::{checked_length, grown};
use crate::answer::Answer;
use crate::fault::Fault;
use crate::steps::{Answered, Steps, delete, put_text, text};
use crate::words::{Words, int, integer, is};

/// A place in a string, in bits from the left.
fn offset(word: &Bytes) -> Result<u64, Fault> {
    let bits = integer(word).and_then(|bits| u64::try_from(bits).ok()).filter(|bits| bits >> 3 < 512 << 20);
    bits.ok_or_else(|| Fault::told("ERR bit offset is not an integer or out of range"))
}

fn bit_of(value: &[u8], at: u64) -> u8 {
    value.get((at >> 3) as usize).map_or(0, |byte| byte >> (7 - (at & 7)) & 1)
}

pub(crate) async fn getbit(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let [key, at] = words.exactly()?;
    let at = offset(at)?;
    let value: Option<Bytes> = steps.read(key, text(RegisterOp::Get)).await?;
    Ok(Answer::Int(bit_of(&value.unwrap_or_default(), at).into()))
}

pub(crate) async fn setbit(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let [key, at, bit] = words.exactly()?;
    let at = offset(at)?;
    let is_set = match integer(bit) {
        Some(0) => false,
        Some(1) => true,
        _ => return Err(Fault::told("ERR bit is not an integer or out of range")),
    };
    let (value, expires_at) = steps.text_to_change(key).await?;
    let value = value.unwrap_or_default();
    let before = bit_of(&value, at);
    let byte = (at >> 3) as usize;
    let mask = 0x80 >> (at & 7);
    let set = move |value: &mut [u8]| {
        value[byte] = if is_set { value[byte] | mask } else { value[byte] & !mask };
    };
    let made = grown(steps, value, checked_length(at >> 3, 1)?, set).await?;
    steps.set_text(key, made, expires_at)?;
    Ok(Answer::Int(before.into()))
}

/// A range of bits.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Range {
    start: i64,
    end: Option<i64>,
    in_bits: bool,
}

impl Range {
    fn of(words: &[Bytes]) -> Result<Self, Fault> {
        let (start, rest) = match words {
            [] => return Ok(Range { start: 0, end: None, in_bits: false }),
            [start, rest @ ..] => (int(start)?, rest),
        };
        let in_bits = match rest {
            [] | [_] => false,
            [_, unit] if is(unit, "BIT") => true,
            [_, unit] if is(unit, "BYTE") => false,
            _ => return Err(Fault::syntax()),
        };
        let end = rest.first().map(int).transpose()?;
        Ok(Range { start, end, in_bits })
    }

    /// The bits of a value of so many bytes; `None`: there are none.
    fn within(self, bytes: usize) -> Option<std::ops::Range<u64>> {
        let total = if self.in_bits { bytes as i64 * 8 } else { bytes as i64 };
        let from_front = |index: i64| if index < 0 { index.saturating_add(total).max(0) } else { index };
        let start = from_front(self.start);
        let end = from_front(self.end.unwrap_or(-1)).min(total - 1);
        if start > end {
            return None;
        }
        let width = if self.in_bits { 1 } else { 8 };
        Some(start as u64 * width..(end as u64 + 1) * width)
    }
}

fn count_ones(value: &[u8], bits: std::ops::Range<u64>) -> u64 {
    let (first, last) = (bits.start.div_ceil(8), bits.end / 8);
    if first > last {
        return bits.map(|at| u64::from(bit_of(value, at))).sum();
    }
    let whole: u64 =
        value[first as usize..last as usize].iter().map(|byte| u64::from(byte.count_ones())).sum();
    let edges = (bits.start..first * 8).chain(last * 8..bits.end);
    whole + edges.map(|at| u64::from(bit_of(value, at))).sum::<u64>()
}

pub(crate) async fn bitcount(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let ([key], range) = words.split()?;
    // One bound alone is none, as servers say it: alone and in a transaction the same.
    if range.len() == 1 {
        return Err(Fault::syntax());
    }
    let range = Range::of(range)?;
    let value: Option<Bytes> = steps.read(key, text(RegisterOp::Get)).await?;
    let value = value.unwrap_or_default();
    let is_backwards = range.start < 0 && range.end.is_some_and(|end| end < 0 && range.start > end);
    let bits = range.within(value.len()).filter(|_| !is_backwards);
    let bytes = value.len();
    let count = move || bits.map_or(0, |bits| count_ones(&value, bits));
    Ok(Answer::Int(steps.runner.aside(bytes, count).await as i64))
}

pub(crate) async fn bitpos(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let ([key, bit], range) = words.split()?;
    let wanted = match int(bit)? {
        0 => 0,
        1 => 1,
        _ => return Err(Fault::told("ERR The bit argument must be 1 or 0.")),
    };
    let range = Range::of(range)?;
    let value: Option<Bytes> = steps.read(key, text(RegisterOp::Get)).await?;
    // What is not there is zeros without end.
    let Some(value) = value else { return Ok(Answer::Int(if wanted == 1 { -1 } else { 0 })) };
    let Some(bits) = range.within(value.len()) else { return Ok(Answer::Int(-1)) };
    let after = bits.end;
    let bytes = value.len();
    let found = steps.runner.aside(bytes, move || find(&value, bits, wanted)).await;
    // Behind the last byte there are zeros, unless an end was given.
    let found = found.or((wanted == 0 && range.end.is_none()).then_some(after));
    Ok(Answer::Int(found.map_or(-1, |at| at as i64)))
}

/// The first bit of this kind. Bytes of the other kind alone are passed at once.
fn find(value: &[u8], bits: std::ops::Range<u64>, wanted: u8) -> Option<u64> {
    let other = if wanted == 1 { 0x00 } else { 0xff };
    let mut at = bits.start;
    while at < bits.end {
        if at & 7 == 0 && value[(at >> 3) as usize] == other {
            at += 8;
        } else if bit_of(value, at) == wanted {
            return Some(at);
        } else {
            at += 1;
        }
    }
    None
}

pub(crate) async fn bitop(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let ([op, target], sources) = words.split_before(1)?;
    let is_not = is(op, "NOT");
    let combine: fn(u8, u8) -> u8 = match () {
        () if is(op, "AND") => |a, b| a & b,
        () if is(op, "OR") => |a, b| a | b,
        () if is(op, "XOR") => |a, b| a ^ b,
        () if is_not && sources.len() > 1 => {
            return Err(Fault::told("ERR BITOP NOT must be called with a single source key."));
        }
        () if is_not => |_, b| !b,
        () => return Err(Fault::syntax()),
    };
    let replies = steps.read_each(sources, &text(RegisterOp::Get), Some(target)).await?;
    let mut values = Vec::with_capacity(replies.len());
    for reply in replies {
        values.push(steps.taken::<Option<Bytes>>(reply).await?.unwrap_or_default());
    }
    let length = values.iter().map(|value| value.len()).max().unwrap_or(0);
    if length == 0 {
        steps.write(target, delete())?;
        return Ok(Answer::Int(0));
    }
    steps.runner.take(length)?;
    let read = length.saturating_mul(values.len());
    let make = move || {
        let byte = |value: &Bytes, at: usize| value.get(at).copied().unwrap_or(0);
        let (first, rest) = if is_not { (&values[0], &values[..]) } else { (&values[0], &values[1..]) };
        let bits_at =
            |at: usize| rest.iter().fold(byte(first, at), |made, value| combine(made, byte(value, at)));
        Bytes::from((0..length).map(bits_at).collect::<Vec<u8>>())
    };
    let made = steps.runner.aside(read, make).await;
    steps.write_all(target, put_text(&made)?)?;
    Ok(Answer::count(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_counted_as_one_by_one() {
        let value = [0b1010_0101, 0xff, 0x00, 0b0000_0001];
        for start in 0..32 {
            for end in start..=32 {
                let slow: u64 = (start..end).map(|at| u64::from(bit_of(&value, at))).sum();
                assert_eq!(count_ones(&value, start..end), slow, "{start}..{end}");
                for wanted in [0, 1] {
                    let slow = (start..end).find(|at| bit_of(&value, *at) == wanted);
                    assert_eq!(find(&value, start..end, wanted), slow, "{start}..{end} {wanted}");
                }
            }
        }
    }
}
