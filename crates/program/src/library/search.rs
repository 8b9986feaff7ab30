//! `string.find`, `match`, `gmatch` and `gsub`.

use crate::fault::Raise;
use crate::heap::Closure;
use crate::machine::{
    Frame, Machine, NativeFrame, NativeState, Replacement, Replied, Substitution, of_pattern,
};
use crate::pattern::{self, PatternError, SEARCH_STEPS_MAX};
use crate::value::Value;

use super::Arguments;
use super::texts::place;

/// A function of `string`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Search {
    Find,
    Match,
    Each,
    Substitute,
}

pub(super) const FUNCTIONS: &[(&str, Search)] = &[
    ("find", Search::Find),
    ("match", Search::Match),
    ("gmatch", Search::Each),
    ("gfind", Search::Each),
    ("gsub", Search::Substitute),
];

pub(super) fn reply(machine: &mut Machine, function: Search, given: Arguments) -> Result<Replied, Raise> {
    match function {
        Search::Find => find(machine, given, true),
        Search::Match => find(machine, given, false),
        Search::Each => {
            let (text, pattern) = (machine.text_given(given, 1)?, machine.text_given(given, 2)?);
            let closure = machine.heap.closure(Closure::Matches { text, pattern, position: 0 })?;
            machine.one_result(Value::Closure(closure))
        }
        Search::Substitute => substitute(machine, given),
    }
}

fn find(machine: &mut Machine, given: Arguments, with_places: bool) -> Result<Replied, Raise> {
    let (text, pattern) = (machine.text_given(given, 1)?, machine.text_given(given, 2)?);
    let length = machine.heap.bytes(text).len();
    let start =
        place(machine.integer_or(given, 3, 1)?, length).saturating_sub(1).clamp(0, length as i64) as usize;
    let is_plain = with_places
        && (machine.truth(machine.given(given, 4))? || !pattern::has_specials(machine.heap.bytes(pattern)));
    if is_plain {
        return plain(machine, text, pattern, start);
    }
    // One search holds the thread.
    let most = machine.meter.left.clamp(0, SEARCH_STEPS_MAX);
    let mut fuel = most as u64;
    let found = pattern::find(machine.heap.bytes(text), machine.heap.bytes(pattern), start, &mut fuel);
    machine.meter.left -= most - fuel as i64;
    if matches!(found, Err(PatternError::Fuel)) && machine.meter.left > 0 {
        return Err(Raise::called("pattern too complex"));
    }
    let Some(found) = found.map_err(of_pattern)? else { return machine.one_result(Value::Nil) };
    if with_places {
        machine.results.extend([Value::Number((found.start + 1) as f64), Value::Number(found.end as f64)]);
    }
    let captures = if with_places { found.captures.len() } else { found.captures.len().max(1) };
    for index in 0..captures {
        if let Some(value) = machine.captured(text, &found, index)? {
            machine.results.push(value);
        }
    }
    Ok(Replied::Now)
}

fn plain(
    machine: &mut Machine,
    text: crate::value::TextId,
    wanted: crate::value::TextId,
    start: usize,
) -> Result<Replied, Raise> {
    let (haystack, needle) = (machine.heap.bytes(text), machine.heap.bytes(wanted));
    let rest = haystack.get(start..).unwrap_or_default();
    let (mut looked, mut found) = (0usize, None);
    if needle.is_empty() {
        found = Some(0);
    } else {
        // Each start whose first byte fits may cost as much as the text that is looked for.
        for (at, window) in rest.windows(needle.len()).enumerate() {
            looked += 1;
            if window.first() == needle.first() {
                looked += needle.len();
                if window == needle {
                    found = Some(at);
                    break;
                }
            }
            if looked as i64 > machine.meter.left.saturating_mul(16) {
                break;
            }
        }
    }
    let length = needle.len();
    machine.charge_bytes(looked)?;
    match found {
        Some(at) => {
            let first = start + at + 1;
            machine.results.extend([Value::Number(first as f64), Value::Number((first + length - 1) as f64)]);
            if length == 0 {
                machine.results.truncate(0);
                machine.results.extend([Value::Number(first as f64), Value::Number((first - 1) as f64)]);
            }
            Ok(Replied::Now)
        }
        None => machine.one_result(Value::Nil),
    }
}

/// The next match of what `gmatch` gave. The closure is what was called.
pub(super) fn next_match(machine: &mut Machine, given: Arguments) -> Result<Replied, Raise> {
    let called = machine.stack.get(given.place.wrapping_sub(1)).copied().unwrap_or_default();
    let Value::Closure(id) = called else { return machine.one_result(Value::Nil) };
    let Closure::Matches { text, pattern, position } = *machine.heap.closure_of(id) else {
        return machine.one_result(Value::Nil);
    };
    let length = machine.heap.bytes(text).len();
    for start in position..=length {
        machine.charge(1)?;
        let Some(found) = machine.match_at(text, (pattern, 0), start)? else { continue };
        let next = if found.end == start { found.end + 1 } else { found.end };
        if let Closure::Matches { position, .. } = machine.heap.closure_mut(id) {
            *position = next;
        }
        for index in 0..found.captures.len().max(1) {
            if let Some(value) = machine.captured(text, &found, index)? {
                machine.results.push(value);
            }
        }
        return Ok(Replied::Now);
    }
    if let Closure::Matches { position, .. } = machine.heap.closure_mut(id) {
        *position = length + 1;
    }
    machine.one_result(Value::Nil)
}

fn substitute(machine: &mut Machine, given: Arguments) -> Result<Replied, Raise> {
    let (text, pattern) = (machine.text_given(given, 1)?, machine.text_given(given, 2)?);
    let replacement = match machine.given(given, 3) {
        Value::Table(table) => Replacement::Table(table),
        function @ (Value::Closure(_) | Value::Native(_)) => Replacement::Function(function),
        Value::Text(_) | Value::Number(_) => Replacement::Text(machine.text_given(given, 3)?),
        _ => return Err(machine.wrong_type(given, 3, "string/function/table")),
    };
    let limit = machine.integer_or(given, 4, i64::MAX)? as f64;
    let work = Substitution {
        text,
        pattern,
        replacement,
        limit,
        position: 0,
        count: 0.0,
        out: Vec::new(),
        asked: None,
        is_done: false,
        taken: 0,
    };
    let place = machine.stack.len();
    let state = NativeState::Substitute(Box::new(work));
    machine.push_frame(Frame::Native(NativeFrame { state, place, deliver: given.deliver }))?;
    Ok(Replied::Later)
}
