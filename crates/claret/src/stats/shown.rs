//! Counts as a person reads them.

use std::fmt;

use super::{Latency, RestartKey, RestartReasons, Stats};

/// So many keys are shown.
const KEYS_SHOWN: usize = 5;

impl RestartKey {
    /// What helps against it. Which of these fits, the closure tells: what it reads of the record, and what it writes.
    pub fn hint(&self) -> &'static str {
        "do at commit what needs no answer before (Tx::at_commit), read with execute_for_update what is written later, or use a type \
         whose operations commute, as a bounded counter for what is in stock"
    }
}

impl fmt::Debug for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latency")
            .field("count", &self.count())
            .field("p50", &self.p50())
            .field("p99", &self.p99())
            .field("max", &self.max())
            .finish()
    }
}

/// Names with numbers, those that are not zero.
fn list(f: &mut fmt::Formatter<'_>, counts: &[(&str, u64)]) -> fmt::Result {
    let mut counts = counts.iter().filter(|(_, count)| *count > 0);
    match counts.next() {
        None => f.write_str("none"),
        Some((name, count)) => {
            write!(f, "{count} {name}")?;
            counts.try_for_each(|(name, count)| write!(f, ", {count} {name}"))
        }
    }
}

/// A few lines for a person: what is zero is left out. Programs read the fields.
impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stats { commits, aborts, dropped, deadlines, failures, unknown, restarts, .. } = *self;
        f.write_str("transactions: ")?;
        let ended = [
            ("committed", commits),
            ("aborted", aborts),
            ("dropped", dropped),
            ("past their deadline", deadlines),
            ("failed", failures),
            ("unknown", unknown),
        ];
        list(f, &ended)?;
        if self.latency.count() > 0 {
            let (p50, p99, max) = (self.latency.p50(), self.latency.p99(), self.latency.max());
            write!(f, "\ntime: p50 {p50:?}, p99 {p99:?}, longest {max:?}")?;
        }
        if restarts > 0 {
            let RestartReasons { gave_way, busy, parted, moved, vanished, read_only, lost } =
                self.restart_reasons;
            let a_commit = restarts as f64 / commits.max(1) as f64;
            write!(f, "\nrestarts: {restarts}, {a_commit:.1} a commit: ")?;
            let reasons = [
                ("gave way", gave_way),
                ("busy", busy),
                ("parted", parted),
                ("moved", moved),
                ("vanished", vanished),
                ("of a shard that takes nothing", read_only),
                ("lost", lost),
            ];
            list(f, &reasons)?;
            for RestartKey { key, restarts } in self.restart_keys.iter().take(KEYS_SHOWN) {
                write!(f, "\n  for key '{}': {restarts}", key.escape_ascii())?;
            }
            if let Some(key) = self.restart_keys.first() {
                write!(f, "\n  against that: {}", key.hint())?;
            }
        }
        let now = [
            ("lock waits", self.lock_waits),
            ("phases", self.phases),
            ("reads combined", self.combined),
            ("records locked now", self.locked_records),
            ("attempts open now", self.open_attempts),
        ];
        f.write_str("\nlocks: ")?;
        list(f, &now)
    }
}

#[cfg(test)]
mod tests {
    use crate::store::Store;

    use super::*;

    #[test]
    fn counts_are_printed_for_a_person() {
        let key = RestartKey { key: "stock:7".into(), restarts: 11 };
        let stats = Stats {
            commits: 4,
            deadlines: 1,
            restarts: 12,
            restart_reasons: RestartReasons { gave_way: 11, lost: 1, ..RestartReasons::default() },
            restart_keys: vec![key.clone()],
            lock_waits: 30,
            ..Stats::default()
        };
        let shown = stats.to_string();
        let expected = format!(
            "transactions: 4 committed, 1 past their deadline\n\
             restarts: 12, 3.0 a commit: 11 gave way, 1 lost\n  for key 'stock:7': 11\n  against that: {}\n\
             locks: 30 lock waits",
            key.hint()
        );
        assert_eq!(shown, expected);
        assert_eq!(Stats::default().to_string(), "transactions: none\nlocks: none");
    }

    /// Not each of hundreds of buckets.
    #[test]
    fn latency_is_shown_by_a_few_numbers() {
        let store = Store::in_memory();
        pollster::block_on(store.transaction(async |_| Ok(()))).expect("nobody is in the way");
        let shown = format!("{:?}", store.stats());
        assert!(shown.len() < 900 && shown.contains("latency: Latency { count: "), "{shown}");
    }
}
