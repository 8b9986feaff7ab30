//! The keys of shards in this process.

use std::future::ready;
use std::sync::Arc;

use claret_types::{Bytes, State};

use super::{Embedded, unix_ms};
use crate::error::Error;
use crate::glob::Pattern;
use crate::pages::{PAGE, PageFuture, Pages};

/// A listing: which shard comes next, and from which of its places on.
#[derive(Debug)]
pub(super) struct Listing {
    store: Arc<Embedded>,
    pattern: Pattern,
    shard: u32,
    place: usize,
}

impl Listing {
    pub(super) fn new(store: Arc<Embedded>, pattern: Bytes) -> Self {
        Listing { store, pattern: Pattern::new(&pattern), shard: 0, place: 0 }
    }

    fn page(&mut self) -> Result<Option<Vec<Bytes>>, Error> {
        if self.shard as usize >= self.store.shards.len() {
            return Ok(None);
        }
        let now = unix_ms();
        let is_over = |state: &State| state.expiry().is_some_and(|expiry| expiry.ms() <= now);
        let shard = self.store.shards[self.shard as usize].lock();
        let (contents, next) = shard.contents_at(self.place..self.place + PAGE);
        let mut keys: Vec<Bytes> =
            contents.filter(|(_, state)| !is_over(state)).map(|(key, _)| key.clone()).collect();
        drop(shard);
        // A pattern may take its time.
        keys.retain(|key| self.pattern.matches(key));
        match next {
            Some(place) => self.place = place,
            None => (self.shard, self.place) = (self.shard + 1, 0),
        }
        Ok(Some(keys))
    }
}

impl Pages for Listing {
    fn next_page(&mut self) -> PageFuture<'_> {
        Box::pin(ready(self.page()))
    }
}
