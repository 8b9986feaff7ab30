//! The board: which auctions are open, when each closes, and which of them people look at.
//!
//! Time is counted in closings: the auction with close number `c` is the next to close once `c` others
//! have closed since the start, so a window of as many closings as there are items is how long an auction
//! stays open. Each auction has a popularity (Zipf by rank), and the rate at which people come to it is
//!
//! ```text
//! popularity * exp(-(closings until it closes) / decay)
//! ```
//!
//! Hence bids per item follow the power law over an auction's life, and come exponentially faster toward
//! its close (`claret-2015` s.6.2, figure 8). As all rates grow by the same factor from one closing to the
//! next, the proportions between open auctions stay; so the table to pick from is made once a block of
//! auctions, not once a closing.
//!
//! Invariants: close numbers are handed out without gaps; blocks stand in the order of closing; an auction
//! is in one block or in the tail, never in both. Nothing here is in the store: it stands for what the
//! users of the service know.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use claret_types::Bytes;
use rand::{Rng, RngExt};

use crate::workload::id::Id;

/// Into how many blocks a window is split.
const BLOCKS: usize = 128;

/// How often picking starts over when it hits an auction that has closed meanwhile.
const PICKS_MAX: usize = 16;

/// An auction.
#[derive(Debug)]
pub(super) struct Auction {
    pub(super) id: Id,
    /// The keys of its records.
    pub(super) item_key: Bytes,
    pub(super) bids_key: Bytes,
    pub(super) region: usize,
    pub(super) category: usize,
    pub(super) seller: u32,
    /// How many people come to it, relative to others.
    pub(super) popularity: f64,
    /// The price that people see before they bid: the highest bid offered so far. No two bids on an item
    /// offer the same.
    pub(super) price: AtomicU64,
}

impl Auction {
    /// What a bidder offers who goes `raise` over the price.
    pub(super) fn outbid(&self, raise: u64) -> u64 {
        self.price.fetch_add(raise, Ordering::Relaxed) + raise
    }
}

/// Auctions that close one after another.
#[derive(Debug)]
struct Block {
    /// The close number of the first.
    first: u64,
    auctions: Vec<Arc<Auction>>,
    /// Sums of the rates up to and with each, as of `first`.
    sums: Vec<f64>,
}

impl Block {
    fn new(first: u64, auctions: Vec<Arc<Auction>>, decay: f64) -> Self {
        let mut sum = 0.0;
        let rate = |(ahead, auction): (usize, &Arc<Auction>)| {
            sum += auction.popularity * (-(ahead as f64) / decay).exp();
            sum
        };
        let sums = auctions.iter().enumerate().map(rate).collect();
        Block { first, auctions, sums }
    }

    fn end(&self) -> u64 {
        self.first + self.auctions.len() as u64
    }

    fn sum(&self) -> f64 {
        self.sums.last().copied().unwrap_or(0.0)
    }
}

/// The blocks at one time, to pick from without a lock.
#[derive(Debug)]
pub(super) struct Snapshot {
    version: u64,
    blocks: Vec<Arc<Block>>,
    sums: Vec<f64>,
}

impl Snapshot {
    fn new(version: u64, blocks: &VecDeque<Arc<Block>>, decay: f64) -> Self {
        let blocks: Vec<_> = blocks.iter().cloned().collect();
        let start = blocks.first().map_or(0, |block| block.first);
        let mut sum = 0.0;
        let rate = |block: &Arc<Block>| {
            sum += block.sum() * (-((block.first - start) as f64) / decay).exp();
            sum
        };
        let sums = blocks.iter().map(rate).collect();
        Snapshot { version, blocks, sums }
    }

    fn pick(&self, rng: &mut impl Rng) -> (u64, &Arc<Auction>) {
        let block = &self.blocks[index_of(&self.sums, rng)];
        let at = index_of(&block.sums, rng);
        (block.first + at as u64, &block.auctions[at])
    }
}

/// Picks an index by the sums of weights up to and with each.
fn index_of(sums: &[f64], rng: &mut impl Rng) -> usize {
    let at = rng.random::<f64>() * sums[sums.len() - 1];
    sums.partition_point(|sum| *sum <= at).min(sums.len() - 1)
}

#[derive(Debug)]
struct Queue {
    blocks: VecDeque<Arc<Block>>,
    /// The auctions opened last, not yet a block.
    tail: Vec<Arc<Auction>>,
    snapshot: Arc<Snapshot>,
}

/// The board of one run, shared by its clients.
#[derive(Debug)]
pub(super) struct Board {
    decay: f64,
    block_len: usize,
    /// How many have closed: the time.
    closed: AtomicU64,
    version: AtomicU64,
    queue: Mutex<Queue>,
}

impl Board {
    /// A board of these auctions, in the order of closing. `decay` is in closings.
    ///
    /// # Panics
    /// When there are none.
    pub(super) fn new(auctions: Vec<Arc<Auction>>, decay: f64) -> Self {
        assert!(!auctions.is_empty(), "a board without auctions has nothing to pick");
        let block_len = auctions.len().div_ceil(BLOCKS);
        let chunks = auctions.chunks(block_len).enumerate();
        let blocks: VecDeque<_> = chunks
            .map(|(i, chunk)| Arc::new(Block::new((i * block_len) as u64, chunk.to_vec(), decay)))
            .collect();
        let snapshot = Arc::new(Snapshot::new(0, &blocks, decay));
        Board {
            decay,
            block_len,
            closed: AtomicU64::new(0),
            version: AtomicU64::new(0),
            queue: Mutex::new(Queue { blocks, tail: Vec::new(), snapshot }),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The blocks as they are now.
    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        self.queue().snapshot.clone()
    }

    /// Picks an open auction by the rates; how many close before it does, and the auction. `snapshot` is
    /// the caller's own and is brought up to date. O(log of the auctions).
    pub(super) fn pick(&self, snapshot: &mut Arc<Snapshot>, rng: &mut impl Rng) -> (u64, Arc<Auction>) {
        if snapshot.version != self.version.load(Ordering::Acquire) {
            *snapshot = self.snapshot();
        }
        let closed = self.closed.load(Ordering::Relaxed);
        let mut picked = snapshot.pick(rng);
        for _ in 1..PICKS_MAX {
            if picked.0 >= closed {
                break;
            }
            picked = snapshot.pick(rng);
        }
        (picked.0.saturating_sub(closed), picked.1.clone())
    }

    /// Takes the auction that is due to close next, and moves time on. `None` when hardly any is open.
    pub(super) fn close_next(&self) -> Option<Arc<Auction>> {
        let mut queue = self.queue();
        let head = queue.blocks.front()?.clone();
        let number = self.closed.load(Ordering::Relaxed);
        let is_last = number + 1 == head.end();
        if is_last && queue.blocks.len() == 1 {
            return None;
        }
        self.closed.store(number + 1, Ordering::Relaxed);
        if is_last {
            queue.blocks.pop_front();
            self.renew(&mut queue);
        }
        Some(head.auctions[(number - head.first) as usize].clone())
    }

    /// Puts an auction on the board that has been opened: the last to close.
    pub(super) fn open(&self, auction: Arc<Auction>) {
        let mut queue = self.queue();
        queue.tail.push(auction);
        if queue.tail.len() == self.block_len {
            let first = queue.blocks.back().map_or(0, |block| block.end());
            let auctions = std::mem::take(&mut queue.tail);
            queue.blocks.push_back(Arc::new(Block::new(first, auctions, self.decay)));
            self.renew(&mut queue);
        }
    }

    /// The close number that the next auction to be opened gets.
    pub(super) fn next_number(&self) -> u64 {
        let queue = self.queue();
        queue.blocks.back().map_or(0, |block| block.end()) + queue.tail.len() as u64
    }

    fn renew(&self, queue: &mut Queue) {
        let version = self.version.load(Ordering::Relaxed) + 1;
        queue.snapshot = Arc::new(Snapshot::new(version, &queue.blocks, self.decay));
        self.version.store(version, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    use super::*;

    const ITEMS: usize = 2_000;
    const DECAY: f64 = 200.0;

    fn auction(id: usize, popularity: f64) -> Arc<Auction> {
        Arc::new(Auction {
            id: Id::Loaded(id as u32),
            item_key: Bytes::default(),
            bids_key: Bytes::default(),
            region: 0,
            category: 0,
            seller: 0,
            popularity,
            price: AtomicU64::new(0),
        })
    }

    fn equal_board() -> Board {
        Board::new((0..ITEMS).map(|id| auction(id, 1.0)).collect(), DECAY)
    }

    /// How many picks fall on auctions that close within each `DECAY` of closings, while auctions close
    /// and open.
    fn picks_by_time_to_close(board: &Board) -> Vec<f64> {
        let mut rng = SmallRng::seed_from_u64(3);
        let mut snapshot = board.snapshot();
        let mut bins = vec![0.0; 8];
        for turn in 0..200_000 {
            let (ahead, _) = board.pick(&mut snapshot, &mut rng);
            if let Some(bin) = bins.get_mut((ahead as f64 / DECAY) as usize) {
                *bin += 1.0;
            }
            if turn % 100 == 0 {
                board.close_next().expect("as many open as close");
                board.open(auction(ITEMS + turn, 1.0));
            }
        }
        bins
    }

    #[test]
    fn picks_grow_exponentially_toward_the_close() {
        let bins = picks_by_time_to_close(&equal_board());
        for pair in bins[..4].windows(2) {
            let growth = pair[0] / pair[1];
            assert!((growth / std::f64::consts::E - 1.0).abs() < 0.1, "grew {growth} times: {bins:?}");
        }
    }

    #[test]
    fn picks_follow_popularity_between_auctions_that_close_together() {
        let auctions = (0..ITEMS).map(|id| auction(id, if id == 0 { 9.0 } else { 1.0 })).collect();
        let board = Board::new(auctions, DECAY);
        let (mut rng, mut snapshot) = (SmallRng::seed_from_u64(5), board.snapshot());
        let mut counts = [0.0_f64; 2];
        for _ in 0..400_000 {
            let (ahead, _) = board.pick(&mut snapshot, &mut rng);
            if let Some(count) = counts.get_mut(ahead as usize) {
                *count += 1.0;
            }
        }
        let ratio: f64 = counts[0] / counts[1];
        assert!((ratio - 9.0).abs() < 1.0, "nine times as popular, picked {ratio} times as often");
    }

    #[test]
    fn auctions_close_in_order_and_closed_ones_are_not_picked() {
        let board = equal_board();
        let (mut rng, mut snapshot) = (SmallRng::seed_from_u64(1), board.snapshot());
        for expected in 0..500 {
            assert_eq!(board.close_next().map(|auction| auction.id), Some(Id::Loaded(expected)));
            board.open(auction(ITEMS + expected as usize, 1.0));
            let (_, picked) = board.pick(&mut snapshot, &mut rng);
            assert!(picked.id > Id::Loaded(expected), "auction {:?} is closed", picked.id);
        }
    }

    #[test]
    fn the_last_auction_stays_open() {
        let board = Board::new((0..3).map(|id| auction(id, 1.0)).collect(), DECAY);
        let closed = std::iter::from_fn(|| board.close_next()).count();
        assert_eq!(closed, 2);
    }
}
