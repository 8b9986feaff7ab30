//! The trace of a run: a hash that tells two runs apart, and on request the last lines in words.

use std::collections::VecDeque;

use claret_core::Time;

/// How many lines are kept for a failure.
const LINES_MAX: usize = 400_000;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Trace {
    hash: u64,
    lines: Option<VecDeque<String>>,
}

impl Trace {
    pub(crate) fn new(in_words: bool) -> Self {
        Trace { hash: 0xcbf2_9ce4_8422_2325, lines: in_words.then(VecDeque::new) }
    }

    /// Takes one step into the hash (FNV-1a over words), and its description if lines are kept.
    pub(crate) fn note(&mut self, now: Time, words: &[u64], description: impl FnOnce() -> String) {
        for word in std::iter::once(&now.0).chain(words) {
            self.hash = (self.hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
        }
        if let Some(lines) = &mut self.lines {
            if lines.len() == LINES_MAX {
                lines.pop_front();
            }
            lines.push_back(format!("{:>9} {}", now.0, description()));
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.iter().flatten().cloned().collect()
    }
}
