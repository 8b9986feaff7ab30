//! Which keys make attempts run again: those with the most, in a table that has a bound.

use claret_types::Bytes;
use parking_lot::Mutex;

use super::RestartKey;

/// So many keys are counted at once. Another one takes the place of the one with the fewest, and its count: so a key that has more than
/// this part of all restarts is there, and none is counted too low.
const KEYS_MAX: usize = 64;

/// A longer key is not counted.
const KEY_BYTES_MAX: usize = 1 << 10;

/// The first count at which somebody is told; and at each doubling.
const TOLD_FROM: u64 = 1_024;

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct RestartKeys {
    counts: Mutex<Vec<RestartKey>>,
}

impl RestartKeys {
    /// An attempt is run again for this key: how often, if that is to be told. O(keys that are counted).
    pub(super) fn add(&self, key: &Bytes) -> Option<u64> {
        if key.len() > KEY_BYTES_MAX {
            return None;
        }
        let mut counts = self.counts.lock();
        let at = match counts.iter().position(|it| it.key == *key) {
            Some(at) => at,
            None if counts.len() < KEYS_MAX => {
                counts.push(RestartKey { key: key.clone(), restarts: 0 });
                counts.len() - 1
            }
            None => {
                let (at, fewest) = counts.iter_mut().enumerate().min_by_key(|(_, it)| it.restarts)?;
                fewest.key = key.clone();
                at
            }
        };
        let restarts = &mut counts[at].restarts;
        *restarts += 1;
        (*restarts >= TOLD_FROM && restarts.is_power_of_two()).then_some(*restarts)
    }

    /// All, the most first.
    pub(super) fn read(&self) -> Vec<RestartKey> {
        let mut counts = self.counts.lock().clone();
        counts.sort_by(|one, other| (other.restarts, &one.key).cmp(&(one.restarts, &other.key)));
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However many keys there are: the table has a bound, and what is hot is in it, with at least its count.
    #[test]
    fn the_key_with_the_most_restarts_is_found_among_many() {
        let keys = RestartKeys::default();
        for at in 0..50_000u32 {
            keys.add(&format!("key:{at}").into());
            if at % 4 == 0 {
                keys.add(&"hot".into());
            }
        }
        let read = keys.read();
        assert_eq!(read.len(), KEYS_MAX);
        assert_eq!(read[0].key.to_string(), "hot");
        assert!(
            (12_500..=12_500 + 62_500 / KEYS_MAX as u64).contains(&read[0].restarts),
            "{}",
            read[0].restarts
        );
        keys.add(&"k".repeat(KEY_BYTES_MAX + 1).into());
        assert!(keys.read().iter().all(|it| it.key.len() <= KEY_BYTES_MAX));
    }

    #[test]
    fn a_hot_key_is_told_of_at_each_doubling() {
        let keys = RestartKeys::default();
        let told: Vec<u64> = (0..5_000).filter_map(|_| keys.add(&"hot".into())).collect();
        assert_eq!(told, [1_024, 2_048, 4_096]);
    }
}
