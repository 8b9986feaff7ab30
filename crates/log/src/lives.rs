//! The lives of a store: each time that it was opened, and where the log ended then. So it can be said later whether something that
//! a life noted is there, though the log was torn when that life ended (D13).

use std::collections::VecDeque;

/// So many are known, at most: the latest.
const LIVES_MAX: usize = 1_024;

/// The latest lives of a store, and where its log ended when each began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lives {
    /// In their order: a number that no other life has, and where the log ended when it began.
    all: VecDeque<(u64, u64)>,
}

/// What is left of a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOf {
    /// All that it noted up to this position.
    UpTo(u64),
    /// Nothing: not even its beginning.
    Nothing,
    /// It is the last one.
    Lives,
    /// It may be one of those that are not known any more.
    Unknown,
}

impl Lives {
    /// Another one begins. One that is known already is the same.
    pub fn add(&mut self, life: u64, at: u64) {
        if self.all.iter().any(|(known, _)| *known == life) {
            return;
        }
        self.all.push_back((life, at));
        if self.all.len() > LIVES_MAX {
            self.all.pop_front();
        }
    }

    /// What is left of a life, now that another one is the last.
    pub fn left_of(&self, life: u64) -> LeftOf {
        let Some(at) = self.all.iter().position(|(known, _)| *known == life) else {
            return if self.all.len() < LIVES_MAX { LeftOf::Nothing } else { LeftOf::Unknown };
        };
        self.all.get(at + 1).map_or(LeftOf::Lives, |(_, end)| LeftOf::UpTo(*end))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.all.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_ends_where_the_next_one_found_the_log() {
        let mut lives = Lives::default();
        for (life, at) in [(7, 0), (8, 50), (9, 50), (8, 50)] {
            lives.add(life, at);
        }
        assert_eq!(
            [7, 8, 9, 5].map(|life| lives.left_of(life)),
            [LeftOf::UpTo(50), LeftOf::UpTo(50), LeftOf::Lives, LeftOf::Nothing]
        );
    }

    #[test]
    fn of_lives_that_are_too_many_nothing_is_said() {
        let mut lives = Lives::default();
        (0..=LIVES_MAX as u64).for_each(|life| lives.add(life, life));
        assert_eq!(lives.left_of(0), LeftOf::Unknown);
        assert_eq!(lives.left_of(1), LeftOf::UpTo(2));
    }
}
