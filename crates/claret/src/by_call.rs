//! What belongs to single calls of an attempt: answers that nobody took yet, tasks that wait for one.

use claret_core::CallNo;
use hashbrown::HashMap;
use smallvec::SmallVec;

/// So many are searched one by one, which is faster than a table.
const FEW: usize = 8;

/// See the module's text. At most one for each call. O(1), however many there are.
#[derive(Debug)]
pub(crate) struct ByCall<T> {
    few: SmallVec<[(CallNo, T); 1]>,
    /// Empty unless `few` was full.
    many: HashMap<CallNo, T, foldhash::fast::FixedState>,
}

impl<T> Default for ByCall<T> {
    fn default() -> Self {
        ByCall { few: SmallVec::new(), many: HashMap::default() }
    }
}

impl<T> ByCall<T> {
    /// Puts what belongs to a call in the place of what did.
    pub(crate) fn put(&mut self, no: CallNo, value: T) {
        if let Some((_, known)) = self.few.iter_mut().find(|(known, _)| *known == no) {
            *known = value;
        } else if self.few.len() < FEW && !self.many.contains_key(&no) {
            self.few.push((no, value));
        } else {
            self.many.insert(no, value);
        }
    }

    pub(crate) fn take(&mut self, no: CallNo) -> Option<T> {
        match self.few.iter().position(|(known, _)| *known == no) {
            Some(at) => Some(self.few.swap_remove(at).1),
            None if self.many.is_empty() => None,
            None => self.many.remove(&no),
        }
    }

    /// Takes out what belongs to some calls: which. In any order. O(all).
    pub(crate) fn take_where(&mut self, is_meant: impl Fn(CallNo) -> bool) -> Vec<CallNo> {
        let few = self.few.iter().map(|(no, _)| *no);
        let taken: Vec<CallNo> = few.chain(self.many.keys().copied()).filter(|no| is_meant(*no)).collect();
        taken.iter().for_each(|no| drop(self.take(*no)));
        taken
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.few.is_empty() && self.many.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.few.clear();
        self.many.clear();
    }

    /// Takes all, in any order.
    pub(crate) fn take_all(&mut self, mut take: impl FnMut(T)) {
        while let Some((_, value)) = self.few.pop() {
            take(value);
        }
        if !self.many.is_empty() {
            self.many.drain().for_each(|(_, value)| take(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_has_what_was_put_last() {
        let mut all = ByCall::default();
        for round in 0..2 {
            for no in 0..100 {
                all.put(CallNo(no), (round, no));
            }
        }
        for no in (0..100).rev().step_by(2) {
            assert_eq!(all.take(CallNo(no)), Some((1, no)));
            assert_eq!(all.take(CallNo(no)), None);
        }
        // There is room among the few again, and this one is still in the table.
        all.put(CallNo(98), (2, 98));
        assert_eq!(all.take(CallNo(98)), Some((2, 98)));
        let mut left = 0;
        all.take_all(|_| left += 1);
        assert_eq!(left, 49);
        assert!(all.take(CallNo(0)).is_none());
    }
}
