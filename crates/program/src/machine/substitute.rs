//! `string.gsub`: a match, its replacement, and on. The replacement may be a function of the script.

use crate::fault::{Fatal, Raise};
use crate::pattern::{self, Capture, Match, PatternError, SEARCH_STEPS_MAX};
use crate::value::{TableId, TextId, Value};

use super::{Deliver, Machine, NativeState};

/// What stands for a match.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Replacement {
    /// A text with `%1` and the like.
    Text(TextId),
    /// The value of the first capture.
    Table(TableId),
    /// What a function answers to the captures.
    Function(Value),
}

/// A substitution under way.
#[derive(Debug)]
pub(crate) struct Substitution {
    pub text: TextId,
    pub pattern: TextId,
    pub replacement: Replacement,
    /// Matches at most.
    pub limit: f64,
    pub position: usize,
    pub count: f64,
    pub out: Vec<u8>,
    /// The match whose replacement was asked for.
    pub asked: Option<(usize, usize)>,
    pub is_done: bool,
    /// What `out` counts for.
    pub taken: u64,
}

impl Substitution {
    pub(super) fn held(&self) -> u64 {
        self.taken
    }

    pub(super) fn each(&self, mut mark: impl FnMut(Value)) {
        mark(Value::Text(self.text));
        mark(Value::Text(self.pattern));
        match self.replacement {
            Replacement::Text(text) => mark(Value::Text(text)),
            Replacement::Table(table) => mark(Value::Table(table)),
            Replacement::Function(function) => mark(function),
        }
    }
}

impl Machine {
    /// A match at a place of a text, in which `^` has been understood.
    ///
    /// # Errors
    ///
    /// The pattern is malformed, or there are no more steps.
    pub(crate) fn match_at(
        &mut self,
        text: TextId,
        pattern: (TextId, usize),
        position: usize,
    ) -> Result<Option<Match>, Raise> {
        let most = self.meter.left.clamp(0, SEARCH_STEPS_MAX);
        let mut fuel = most as u64;
        let (id, skipped) = pattern;
        let pattern = self.heap.bytes(id).get(skipped..).unwrap_or_default();
        let found = pattern::match_at(self.heap.bytes(text), pattern, position, &mut fuel);
        self.meter.left -= most - fuel as i64;
        if matches!(found, Err(PatternError::Fuel)) && self.meter.left > 0 {
            return Err(Raise::called("pattern too complex"));
        }
        found.map_err(of_pattern)
    }

    /// What a match captured, or all of it, as values.
    ///
    /// # Errors
    ///
    /// Not enough memory.
    pub(crate) fn captured(
        &mut self,
        text: TextId,
        found: &Match,
        index: usize,
    ) -> Result<Option<Value>, Raise> {
        let capture = match found.captures.get(index) {
            Some(capture) => *capture,
            None if index == 0 => Capture::Span(found.start, found.end),
            None => return Ok(None),
        };
        Ok(Some(match capture {
            Capture::Position(position) => Value::Number(position as f64),
            Capture::Span(from, to) => {
                self.charge_bytes(to.saturating_sub(from))?;
                let part = self.heap.bytes(text).get(from..to).unwrap_or_default().to_vec();
                Value::Text(self.heap.text(&part)?)
            }
        }))
    }

    pub(super) fn step_substitution(
        &mut self,
        mut work: Box<Substitution>,
        place: usize,
        deliver: Deliver,
    ) -> Result<(), Raise> {
        if let Some((start, end)) = work.asked.take() {
            let value = self.results.first().copied().unwrap_or_default();
            self.replace(&mut work, start, end, value)?;
        }
        let skipped = usize::from(self.heap.bytes(work.pattern).first() == Some(&b'^'));
        while !work.is_done && work.count < work.limit {
            self.meter.left -= 1;
            let (text, position) = (work.text, work.position);
            let found = self.match_at(text, (work.pattern, skipped), position)?;
            if let Some(found) = &found {
                work.count += 1.0;
                if !self.replacement(&mut work, found)? {
                    self.advance(&mut work, Some(found.end), skipped)?;
                    work.asked = Some((found.start, found.end));
                    let call = self.ask(&work, found)?;
                    self.keep(NativeState::Substitute(work));
                    let (function, arguments) = call;
                    return self.call_values(function, &arguments, Deliver::Native);
                }
            }
            self.advance(&mut work, found.map(|found| found.end), skipped)?;
            if self.meter.left <= self.meter.rest_at {
                self.keep(NativeState::Substitute(work));
                return Ok(());
            }
        }
        self.finish(work, place, deliver)
    }

    fn finish(&mut self, mut work: Box<Substitution>, place: usize, deliver: Deliver) -> Result<(), Raise> {
        let rest = self.heap.bytes(work.text).get(work.position..).unwrap_or_default().to_vec();
        self.add(&mut work, &rest)?;
        let joined = self.heap.text(&work.out)?;
        self.heap.give_back(work.taken);
        self.results.clear();
        self.results.extend([Value::Text(joined), Value::Number(work.count)]);
        self.leave_native(place, deliver)
    }

    /// Goes behind a match, or one byte further. What follows an asked replacement comes behind it: so that byte waits.
    fn advance(&mut self, work: &mut Substitution, end: Option<usize>, skipped: usize) -> Result<(), Raise> {
        let length = self.heap.bytes(work.text).len();
        match end {
            Some(end) if end > work.position => work.position = end,
            _ if work.position < length => {
                if end.is_none()
                    || !matches!(work.replacement, Replacement::Function(_) | Replacement::Table(_))
                {
                    let byte = self.heap.bytes(work.text).get(work.position).copied().unwrap_or_default();
                    self.add(work, &[byte])?;
                }
                work.position += 1;
            }
            _ => work.is_done = true,
        }
        work.is_done |= skipped > 0;
        Ok(())
    }

    /// Adds the replacement of a match, if no function is needed for it.
    fn replacement(&mut self, work: &mut Substitution, found: &Match) -> Result<bool, Raise> {
        match work.replacement {
            Replacement::Text(text) => self.expand(work, text, found).map(|()| true),
            Replacement::Function(_) | Replacement::Table(_) => Ok(false),
        }
    }

    /// The call that answers the replacement of a match. A table is asked as an index would ask it.
    fn ask(&mut self, work: &Substitution, found: &Match) -> Result<(Value, Vec<Value>), Raise> {
        match work.replacement {
            Replacement::Function(function) => {
                let mut arguments = Vec::new();
                while let Some(value) = self.captured(work.text, found, arguments.len())? {
                    arguments.push(value);
                }
                Ok((function, arguments))
            }
            Replacement::Table(table) => {
                let key = self.captured(work.text, found, 0)?.unwrap_or_default();
                Ok((Value::Native(crate::library::Native::Index), vec![Value::Table(table), key]))
            }
            Replacement::Text(_) => Ok((Value::Nil, Vec::new())),
        }
    }

    /// Adds what was answered for a match.
    fn replace(
        &mut self,
        work: &mut Substitution,
        start: usize,
        end: usize,
        value: Value,
    ) -> Result<(), Raise> {
        self.looked(value)?;
        let added = match value {
            Value::Nil | Value::Bool(false) => {
                self.heap.bytes(work.text).get(start..end).unwrap_or_default().to_vec()
            }
            Value::Text(_) | Value::Number(_) => self.shown(value),
            other => {
                let message = format!("invalid replacement value (a {})", other.type_name());
                return Err(Raise::called(message));
            }
        };
        self.add(work, &added)?;
        // Behind an empty match, the byte that was passed over.
        if end == start && work.position > end {
            let byte = self.heap.bytes(work.text).get(end).copied().unwrap_or_default();
            self.add(work, &[byte])?;
        }
        Ok(())
    }

    fn expand(&mut self, work: &mut Substitution, replacement: TextId, found: &Match) -> Result<(), Raise> {
        let replacement = self.heap.bytes(replacement).to_vec();
        self.charge_bytes(replacement.len())?;
        let mut bytes = replacement.into_iter();
        let mut plain = Vec::new();
        while let Some(byte) = bytes.next() {
            if byte != b'%' {
                plain.push(byte);
                continue;
            }
            let added = match bytes.next() {
                Some(digit @ b'1'..=b'9') => {
                    match self.captured(work.text, found, usize::from(digit - b'1'))? {
                        Some(value) => self.shown(value),
                        None => return Err(Raise::called("invalid capture index")),
                    }
                }
                Some(b'0') => {
                    self.heap.bytes(work.text).get(found.start..found.end).unwrap_or_default().to_vec()
                }
                Some(other) => vec![other],
                None => Vec::new(),
            };
            self.add(work, &plain)?;
            plain.clear();
            self.add(work, &added)?;
        }
        self.add(work, &plain)
    }

    fn add(&mut self, work: &mut Substitution, bytes: &[u8]) -> Result<(), Raise> {
        let needed = work.out.len() as u64 + bytes.len() as u64;
        if needed > work.taken {
            let more = needed.max(work.taken * 2).max(64) - work.taken;
            if more > self.heap.left() {
                return Err(Raise::Fatal(Fatal::Memory));
            }
            self.heap.take(more)?;
            work.taken += more;
        }
        self.charge_bytes(bytes.len())?;
        work.out.extend_from_slice(bytes);
        Ok(())
    }
}

/// Why a pattern gave no answer.
pub(crate) fn of_pattern(error: PatternError) -> Raise {
    match error {
        PatternError::Malformed(message) => Raise::called(message),
        PatternError::Fuel => Raise::Fatal(Fatal::Steps),
    }
}
