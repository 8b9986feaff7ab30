//! What belongs to transactions, by their sequence numbers.
//!
//! A process numbers its transactions one after another and most are over soon, so the open ones have numbers that are near
//! each other. Each stands at its number modulo the number of places: nothing is hashed, and nothing searched. One that is
//! open for so long that another one gets its place moves to an ordered map.

use std::collections::BTreeMap;
use std::fmt;

/// Places at first, and at most.
const PLACES_MIN: usize = 1 << 8;
const PLACES_MAX: usize = 1 << 16;

/// See the module's text.
#[derive(Clone)]
pub(super) struct BySequence<T> {
    /// With their numbers. A power of two.
    recent: Vec<Option<(u64, T)>>,
    /// So many of them are taken: about half, at most, while there can be more places.
    taken: usize,
    /// Whose places others got.
    older: BTreeMap<u64, T>,
}

impl<T> Default for BySequence<T> {
    fn default() -> Self {
        BySequence { recent: empty(PLACES_MIN), taken: 0, older: BTreeMap::new() }
    }
}

fn empty<T>(places: usize) -> Vec<Option<(u64, T)>> {
    std::iter::repeat_with(|| None).take(places).collect()
}

impl<T> BySequence<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.taken == 0 && self.older.is_empty()
    }

    /// Puts what belongs to a number that has nothing yet.
    pub(super) fn insert(&mut self, number: u64, value: T) {
        if self.taken * 2 >= self.recent.len() && self.recent.len() < PLACES_MAX {
            self.grow();
        }
        self.put(number, value);
    }

    fn put(&mut self, number: u64, value: T) {
        let place = self.place(number);
        match self.recent[place].replace((number, value)) {
            Some((older, value)) => drop(self.older.insert(older, value)),
            None => self.taken += 1,
        }
    }

    fn grow(&mut self) {
        let places = self.recent.len() * 2;
        let all = std::mem::replace(&mut self.recent, empty(places));
        self.taken = 0;
        all.into_iter().flatten().for_each(|(number, value)| self.put(number, value));
    }

    #[inline]
    fn place(&self, number: u64) -> usize {
        number as usize & (self.recent.len() - 1)
    }

    #[inline]
    pub(super) fn get(&self, number: u64) -> Option<&T> {
        match &self.recent[self.place(number)] {
            Some((known, value)) if *known == number => Some(value),
            _ => self.older.get(&number),
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let place = self.place(number);
        match &mut self.recent[place] {
            Some((known, value)) if *known == number => Some(value),
            _ => self.older.get_mut(&number),
        }
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<T> {
        let place = self.place(number);
        match self.recent[place].take_if(|(known, _)| *known == number) {
            Some((_, value)) => {
                self.taken -= 1;
                Some(value)
            }
            None => self.older.remove(&number),
        }
    }

    /// All, in no useful order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        let recent = self.recent.iter().flatten().map(|(number, value)| (*number, value));
        recent.chain(self.older.iter().map(|(number, value)| (*number, value)))
    }
}

/// In their order: where each stands says nothing.
impl<T: fmt::Debug> fmt::Debug for BySequence<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sorted: BTreeMap<u64, &T> = self.iter().collect();
        sorted.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some stay open while thousands of others come and go, as many at a time as fit, and more.
    #[test]
    fn each_is_found_however_many_came_since() {
        for open in [1, 100, 1_000, 2 * PLACES_MAX as u64] {
            let mut all = BySequence::default();
            let stays = |number: u64| number.is_multiple_of(1_009);
            let last = 3 * open + 10_000;
            for number in 0..last {
                all.insert(number, Box::new(number));
                if let Some(over) = number.checked_sub(open).filter(|over| !stays(*over)) {
                    assert_eq!(all.remove(over), Some(Box::new(over)));
                    assert_eq!(all.get(over), None);
                    assert_eq!(all.remove(over), None);
                }
            }
            let are_open: Vec<u64> =
                (0..last).filter(|number| stays(*number) || number + open >= last).collect();
            let mut found: Vec<u64> = all.iter().map(|(number, _)| number).collect();
            found.sort_unstable();
            assert_eq!(found, are_open, "{open}");
            for number in are_open {
                assert_eq!(all.get(number), Some(&Box::new(number)));
                assert_eq!(all.get_mut(number), Some(&mut Box::new(number)));
                assert!(!all.is_empty());
                assert_eq!(all.remove(number), Some(Box::new(number)));
            }
            assert!(all.is_empty());
        }
    }
}
