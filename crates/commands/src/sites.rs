//! Which reads of a script are for a write that follows (A7): learnt by what its runs do, line by line. It is about speed alone.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// What was seen of a line's reads.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    reads: u32,
    /// Those whose key was written later in the same run.
    written: u32,
}

/// So many reads count; then what was seen counts half.
const READS_MAX: u32 = 256;

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Sites(Mutex<HashMap<u32, Seen>>);

impl Sites {
    /// A read of this line. Whether it takes the lock of a write: of those before, a quarter was for one.
    pub(crate) fn note_read(&self, line: u32) -> bool {
        let mut sites = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = sites.entry(line).or_default();
        let locks = seen.written > 0 && seen.written * 4 >= seen.reads;
        seen.reads += 1;
        if seen.reads >= READS_MAX {
            (seen.reads, seen.written) = (seen.reads / 2, seen.written / 2);
        }
        locks
    }

    /// What a read of this line has read is written.
    pub(crate) fn note_written(&self, line: u32) {
        let mut sites = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = sites.entry(line).or_default();
        seen.written = (seen.written + 1).min(seen.reads);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_lock_where_a_quarter_is_written_later() {
        let sites = Sites::default();
        assert!(!sites.note_read(1), "nothing is known");
        sites.note_written(1);
        for _ in 0..3 {
            assert!(sites.note_read(1));
        }
        assert!(sites.note_read(1), "one of four");
        assert!(!sites.note_read(1), "one of five");
        assert!(!sites.note_read(2), "another line");
        for _ in 0..10_000 {
            sites.note_read(2);
            sites.note_written(2);
        }
        assert!(sites.note_read(2));
    }
}
