//! Records in a shard's own memory that expire (P71). The shard has no clock: its host says what time it is.

use claret_types::{Bytes, Expiry};

use super::{Shard, Time};

impl Shard {
    /// When the first of the records expires that are in the shard's own memory.
    #[inline]
    pub fn next_expiry(&self) -> Option<Expiry> {
        self.table.next_expiry()
    }

    /// What is in the shard's own memory and has expired vanishes (P36). A host with a clock says this before each input: `now_ms`
    /// is in milliseconds since 1970. Returns the keys. Where somebody has voted whose effects may be about the expiry, the
    /// record waits for that, and of very many that are due some wait for the next time.
    pub fn expire(&mut self, now: Time, now_ms: u64) -> Vec<Bytes> {
        let has_voted = |attempt| self.is_open(attempt) && !self.is_unvoted(attempt);
        let expired = self.table.expired(now_ms, self.limits.at_once_max, has_voted);
        if !expired.is_empty() {
            self.vanished(now, &expired);
        }
        expired
    }
}
