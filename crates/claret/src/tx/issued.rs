//! What a transaction has issued, as far as it is only counted.

/// Of one attempt.
#[derive(Debug, Default)]
pub(super) struct Issued {
    /// Operations, against the limit.
    calls: u32,
    /// Whether any of them may change a record.
    writes: bool,
    /// Whether any of them was sent, so that something may be held.
    was_sent: bool,
}

impl Issued {
    /// One more. `false`: there are as many as there may be.
    #[inline]
    pub(super) fn add(&mut self, limit: u32, writes: bool) -> bool {
        let is_let_in = self.calls < limit;
        if is_let_in {
            self.calls += 1;
            self.writes |= writes;
        }
        is_let_in
    }

    /// Some that do not count against the limit.
    #[inline]
    pub(super) fn note_writes(&mut self, writes: bool) {
        self.writes |= writes;
    }

    /// None of them can have changed anything.
    pub(super) fn changed_nothing(&mut self) {
        self.writes = false;
    }

    /// One of them is sent.
    #[inline]
    pub(super) fn note_sent(&mut self) {
        self.was_sent = true;
    }

    #[inline]
    pub(super) fn writes(&self) -> bool {
        self.writes
    }

    #[inline]
    pub(super) fn was_sent(&self) -> bool {
        self.was_sent
    }
}
