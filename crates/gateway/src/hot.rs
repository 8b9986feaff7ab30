//! Which keys are hot: those on which EXECs failed lately. There WATCH takes turns (G7 of docs/gateway.md).

use std::collections::HashMap;
use std::time::{Duration, Instant};

use claret_types::Bytes;

/// A key stays hot for so long after the last sign of it.
const HOT_FOR: Duration = Duration::from_secs(1);

/// Keys that are remembered at once.
const KEYS_MAX: usize = 4_096;

/// So many EXECs have to fail on a key within [`HOT_FOR`].
const FAILURES: u32 = 2;

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct HotKeys {
    known: HashMap<Bytes, Hot>,
}

#[derive(Debug)]
struct Hot {
    failures: u32,
    until: Instant,
    /// Until then it is known that others than those who take turns write it.
    others: Option<Instant>,
}

impl HotKeys {
    /// Whether WATCH is to queue for it.
    pub(crate) fn is_hot(&self, key: &Bytes, now: Instant) -> bool {
        self.known.get(key).is_some_and(|known| known.failures >= FAILURES && known.until > now)
    }

    /// Whether none ever was.
    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Whether others than those who take turns write it.
    pub(crate) fn is_of_others(&self, key: &Bytes, now: Instant) -> bool {
        self.known.get(key).is_some_and(|known| known.others.is_some_and(|until| until > now))
    }

    /// An EXEC failed because it had changed; `in_turn`: though its connection had its turn.
    pub(crate) fn note_failure(&mut self, key: &Bytes, in_turn: bool, now: Instant) {
        if self.known.len() >= KEYS_MAX && !self.known.contains_key(key) {
            self.known.retain(|_, known| known.until > now);
            if self.known.len() >= KEYS_MAX {
                return;
            }
        }
        let known = self.known.entry(key.clone()).or_insert(Hot { failures: 0, until: now, others: None });
        if known.until <= now {
            known.failures = 0;
        }
        known.failures = known.failures.saturating_add(1);
        known.until = now + HOT_FOR;
        if in_turn {
            known.others = Some(known.until);
        }
    }

    /// A WATCH had to wait for its turn: so it stays hot, though no EXEC fails any more.
    pub(crate) fn note_wait(&mut self, key: &Bytes, now: Instant) {
        if let Some(known) = self.known.get_mut(key) {
            known.until = now + HOT_FOR;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_hot_while_execs_fail_or_watches_wait() {
        let (mut keys, key, now) = (HotKeys::default(), Bytes::from("k"), Instant::now());
        keys.note_failure(&key, false, now);
        assert!(!keys.is_hot(&key, now), "one failure is chance");
        keys.note_failure(&key, false, now);
        assert!(keys.is_hot(&key, now));
        let later = now + HOT_FOR - Duration::from_millis(1);
        keys.note_wait(&key, later);
        assert!(keys.is_hot(&key, now + HOT_FOR) && !keys.is_hot(&key, later + HOT_FOR));
        keys.note_failure(&key, true, later + HOT_FOR);
        assert!(keys.is_of_others(&key, later + HOT_FOR) && !keys.is_of_others(&key, later + 2 * HOT_FOR));
        assert!(!keys.is_hot(&key, later + HOT_FOR), "old failures are forgotten");
        for no in 0..2 * KEYS_MAX {
            keys.note_failure(&Bytes::from(format!("{no}")), false, now);
        }
        assert!(keys.known.len() <= KEYS_MAX);
    }
}
