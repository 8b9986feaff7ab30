//! Patterns of Lua 5.1 over bytes.
//!
//! A pattern is not compiled: what is malformed in it is an error only where matching reaches it, as in Lua. A byte 0 ends a pattern, as
//! there. Where Lua recurses, the matcher here keeps a stack of choices: no group repeats, so that it is no longer than the pattern.

mod class;

use class::{class_end, is_single};

/// Captures that a pattern may have, as in Lua.
const CAPTURES_MAX: usize = 32;

/// Choices that may be open at once. Lua 5.1 has no such bound, and overflows its stack.
const CHOICES_MAX: usize = 10_000;

/// Where a pattern matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Match {
    /// The first byte, from 0.
    pub start: usize,
    /// Behind the last byte.
    pub end: usize,
    /// What the pattern captures; empty if it has no captures, which callers take for the whole match.
    pub captures: Vec<Capture>,
}

/// What a capture took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capture {
    /// The bytes from the first to before the second, from 0.
    Span(usize, usize),
    /// `()`: a place in the text, from 1.
    Position(usize),
}

/// Steps that one search may take: it holds its thread.
pub(crate) const SEARCH_STEPS_MAX: i64 = 2_000_000;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PatternError {
    /// The pattern is wrong, in Lua's words.
    Malformed(String),
    /// The fuel is spent.
    Fuel,
}

/// The first match at `init` (from 0) or later. A `^` in front of the pattern lets it match at `init` only. No match begins behind the
/// end of the text.
///
/// # Errors
/// The pattern is malformed where matching reached it, or the fuel is spent: each step costs some, and so does each byte looked at.
pub(crate) fn find(
    text: &[u8],
    pattern: &[u8],
    init: usize,
    fuel: &mut u64,
) -> Result<Option<Match>, PatternError> {
    if let Some(anchored) = pattern.strip_prefix(b"^") {
        return match_at(text, anchored, init, fuel);
    }
    let mut matcher = Matcher::new(text, pattern, fuel);
    for start in init..=text.len() {
        let found = matcher.at(start)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// A match that begins at `init` (from 0). A `^` in the pattern is a byte like others.
///
/// # Errors
/// As of [`find`].
pub(crate) fn match_at(
    text: &[u8],
    pattern: &[u8],
    init: usize,
    fuel: &mut u64,
) -> Result<Option<Match>, PatternError> {
    if init > text.len() {
        return Ok(None);
    }
    Matcher::new(text, pattern, fuel).at(init)
}

/// Whether a pattern has bytes that stand for something else than themselves. If not, a search for its bytes does what [`find`] does.
pub(crate) fn has_specials(pattern: &[u8]) -> bool {
    pattern.iter().take_while(|&&byte| byte != 0).any(|byte| b"^$*+?.([%-".contains(byte))
}

fn malformed<T>(what: &str) -> Result<T, PatternError> {
    Err(PatternError::Malformed(what.to_owned()))
}

/// A capture while matching.
#[derive(Clone, Copy)]
struct Group {
    start: usize,
    extent: Extent,
}

#[derive(Clone, Copy, PartialEq)]
enum Extent {
    Open,
    To(usize),
    Position,
}

impl Group {
    fn taken(&self) -> Result<Capture, PatternError> {
        match self.extent {
            Extent::Open => malformed("unfinished capture"),
            Extent::To(end) => Ok(Capture::Span(self.start, end)),
            Extent::Position => Ok(Capture::Position(self.start.saturating_add(1))),
        }
    }
}

/// Where matching is: the next byte of the text, and of the pattern.
#[derive(Clone, Copy)]
struct At {
    text: usize,
    pattern: usize,
}

/// What to do when what follows does not match.
enum Choice {
    /// Of an item that took as many bytes as it could: `at` is behind the item, and before its bytes; take one less than `taken`.
    Fewer { at: At, taken: usize },
    /// Of an item that took as few bytes as it could: take one more. `at` is before the item, which ends at `end`.
    More { at: At, end: usize },
    /// Go on from elsewhere.
    Instead(At),
    /// The last capture is undone.
    Unopened,
    /// The capture is open again.
    Unclosed(usize),
}

/// What a step leads to.
enum Step {
    To(At),
    Failed,
    Matched(usize),
}

struct Matcher<'a> {
    text: &'a [u8],
    pattern: &'a [u8],
    fuel: &'a mut u64,
    captures: Vec<Group>,
    choices: Vec<Choice>,
}

impl<'a> Matcher<'a> {
    fn new(text: &'a [u8], pattern: &'a [u8], fuel: &'a mut u64) -> Self {
        Self { text, pattern, fuel, captures: Vec::new(), choices: Vec::new() }
    }

    /// The match that begins at `start`.
    fn at(&mut self, start: usize) -> Result<Option<Match>, PatternError> {
        self.captures.clear();
        self.choices.clear();
        let Some(end) = self.run(start)? else { return Ok(None) };
        let captures = self.captures.iter().map(Group::taken).collect::<Result<_, _>>()?;
        Ok(Some(Match { start, end, captures }))
    }

    /// Where a match that begins at `init` ends.
    fn run(&mut self, init: usize) -> Result<Option<usize>, PatternError> {
        let mut at = At { text: init, pattern: 0 };
        loop {
            self.spend(1)?;
            at = match self.step(at)? {
                Step::To(next) => next,
                Step::Matched(end) => return Ok(Some(end)),
                Step::Failed => match self.retreat()? {
                    Some(next) => next,
                    None => return Ok(None),
                },
            };
        }
    }

    fn spend(&mut self, steps: usize) -> Result<(), PatternError> {
        let left = self.fuel.checked_sub(steps as u64);
        *self.fuel = left.unwrap_or_default();
        left.map(|_| ()).ok_or(PatternError::Fuel)
    }

    /// The byte of the pattern, 0 at its end.
    fn byte(&self, place: usize) -> u8 {
        self.pattern.get(place).copied().unwrap_or_default()
    }

    fn choose(&mut self, choice: Choice) -> Result<(), PatternError> {
        if self.choices.len() >= CHOICES_MAX {
            return malformed("pattern too complex");
        }
        self.choices.push(choice);
        Ok(())
    }

    /// The next way to go on from the last choice that has one left.
    fn retreat(&mut self) -> Result<Option<At>, PatternError> {
        while let Some(choice) = self.choices.pop() {
            self.spend(1)?;
            match choice {
                Choice::Fewer { at, taken } => {
                    let Some(taken) = taken.checked_sub(1) else { continue };
                    self.choices.push(Choice::Fewer { at, taken });
                    return Ok(Some(At { text: at.text.saturating_add(taken), ..at }));
                }
                Choice::More { at, end } => {
                    if self.takes(at, end)? {
                        let text = at.text.saturating_add(1);
                        self.choices.push(Choice::More { at: At { text, ..at }, end });
                        return Ok(Some(At { text, pattern: end.saturating_add(1) }));
                    }
                }
                Choice::Instead(at) => return Ok(Some(at)),
                Choice::Unopened => {
                    self.captures.pop();
                }
                Choice::Unclosed(index) => {
                    if let Some(group) = self.captures.get_mut(index) {
                        group.extent = Extent::Open;
                    }
                }
            }
        }
        Ok(None)
    }

    fn step(&mut self, at: At) -> Result<Step, PatternError> {
        let next = at.pattern.saturating_add(1);
        match self.byte(at.pattern) {
            0 => Ok(Step::Matched(at.text)),
            b'(' if self.byte(next) == b')' => {
                self.open(at.text, Extent::Position)?;
                Ok(Step::To(At { pattern: next.saturating_add(1), ..at }))
            }
            b'(' => {
                self.open(at.text, Extent::Open)?;
                Ok(Step::To(At { pattern: next, ..at }))
            }
            b')' => {
                self.close(at.text)?;
                Ok(Step::To(At { pattern: next, ..at }))
            }
            b'$' if self.byte(next) == 0 => {
                Ok(if at.text == self.text.len() { Step::Matched(at.text) } else { Step::Failed })
            }
            b'%' => match self.byte(next) {
                b'b' => self.balanced(At { pattern: next.saturating_add(1), ..at }),
                b'f' => self.frontier(At { pattern: next.saturating_add(1), ..at }),
                digit @ b'0'..=b'9' => self.again(At { pattern: next.saturating_add(1), ..at }, digit),
                _ => self.item(at),
            },
            _ => self.item(at),
        }
    }

    /// One byte, class or set, with what may stand behind it.
    fn item(&mut self, at: At) -> Result<Step, PatternError> {
        let end = class_end(self.pattern, at.pattern)?;
        let behind = end.saturating_add(1);
        match self.byte(end) {
            b'?' => {
                let without = At { pattern: behind, ..at };
                if !self.takes(at, end)? {
                    return Ok(Step::To(without));
                }
                self.choose(Choice::Instead(without))?;
                Ok(Step::To(At { text: at.text.saturating_add(1), pattern: behind }))
            }
            b'*' => self.most(at, at, end),
            b'+' if self.takes(at, end)? => self.most(At { text: at.text.saturating_add(1), ..at }, at, end),
            b'+' => Ok(Step::Failed),
            b'-' => {
                self.choose(Choice::More { at, end })?;
                Ok(Step::To(At { pattern: behind, ..at }))
            }
            _ if self.takes(at, end)? => Ok(Step::To(At { text: at.text.saturating_add(1), pattern: end })),
            _ => Ok(Step::Failed),
        }
    }

    /// As many bytes as the item at `item` takes, from `from` on.
    fn most(&mut self, from: At, item: At, end: usize) -> Result<Step, PatternError> {
        let mut text = from.text;
        while self.takes(At { text, ..item }, end)? {
            text = text.saturating_add(1);
        }
        let pattern = end.saturating_add(1);
        if let Some(taken) = text.checked_sub(from.text).filter(|taken| *taken > 0) {
            self.choose(Choice::Fewer { at: At { text: from.text, pattern }, taken })?;
        }
        Ok(Step::To(At { text, pattern }))
    }

    /// Whether the item that ends at `end` takes the next byte.
    fn takes(&mut self, at: At, end: usize) -> Result<bool, PatternError> {
        let item = self.pattern.get(at.pattern..end).unwrap_or_default();
        self.spend(1 + item.len() / 4)?;
        Ok(self.text.get(at.text).is_some_and(|byte| is_single(*byte, item)))
    }

    fn open(&mut self, start: usize, extent: Extent) -> Result<(), PatternError> {
        if self.captures.len() >= CAPTURES_MAX {
            return malformed("too many captures");
        }
        self.captures.push(Group { start, extent });
        self.choose(Choice::Unopened)
    }

    fn close(&mut self, end: usize) -> Result<(), PatternError> {
        let Some(index) = self.captures.iter().rposition(|group| group.extent == Extent::Open) else {
            return malformed("invalid pattern capture");
        };
        if let Some(group) = self.captures.get_mut(index) {
            group.extent = Extent::To(end);
        }
        self.choose(Choice::Unclosed(index))
    }

    /// `%bxy`; the pattern stands at `x`.
    fn balanced(&mut self, at: At) -> Result<Step, PatternError> {
        let (open, close) = (self.byte(at.pattern), self.byte(at.pattern.saturating_add(1)));
        if open == 0 || close == 0 {
            return malformed("unbalanced pattern");
        }
        let rest = self.text.get(at.text..).unwrap_or_default();
        if rest.first() != Some(&open) {
            return Ok(Step::Failed);
        }
        let mut depth = 1usize;
        for (place, &byte) in rest.iter().enumerate().skip(1) {
            self.spend(1)?;
            if byte == close {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    let text = at.text.saturating_add(place).saturating_add(1);
                    return Ok(Step::To(At { text, pattern: at.pattern.saturating_add(2) }));
                }
            } else if byte == open {
                depth = depth.saturating_add(1);
            }
        }
        Ok(Step::Failed)
    }

    /// `%f[set]`; the pattern stands at the set. Before and behind the text there is a byte 0.
    fn frontier(&mut self, at: At) -> Result<Step, PatternError> {
        if self.byte(at.pattern) != b'[' {
            return malformed("missing '[' after '%f' in pattern");
        }
        let end = class_end(self.pattern, at.pattern)?;
        let set = self.pattern.get(at.pattern..end).unwrap_or_default();
        self.spend(1 + set.len() / 2)?;
        let before = at.text.checked_sub(1).and_then(|place| self.text.get(place));
        let here = self.text.get(at.text);
        let is_in = |byte: Option<&u8>| is_single(byte.copied().unwrap_or_default(), set);
        Ok(if is_in(here) && !is_in(before) { Step::To(At { pattern: end, ..at }) } else { Step::Failed })
    }

    /// `%1`: what a capture took, once more.
    fn again(&mut self, at: At, digit: u8) -> Result<Step, PatternError> {
        let group = digit.checked_sub(b'1').and_then(|index| self.captures.get(usize::from(index)));
        let taken = match group.map(|group| (group.start, group.extent)) {
            None | Some((_, Extent::Open)) => return malformed("invalid capture index"),
            Some((_, Extent::Position)) => return Ok(Step::Failed),
            Some((start, Extent::To(end))) => self.text.get(start..end).unwrap_or_default(),
        };
        let rest = self.text.get(at.text..).unwrap_or_default();
        if rest.len() < taken.len() {
            return Ok(Step::Failed);
        }
        self.spend(taken.len() / 16)?;
        let next = At { text: at.text.saturating_add(taken.len()), ..at };
        Ok(if rest.starts_with(taken) { Step::To(next) } else { Step::Failed })
    }
}

#[cfg(test)]
mod tests;
