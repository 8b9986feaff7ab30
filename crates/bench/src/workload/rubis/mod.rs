//! RUBiS, the auction service (`claret-2015` s.6.2, dissertation s.4.5.2).
//!
//! Eight transactions on auctions whose bids follow a power law by item and come exponentially faster
//! toward the close (`board.rs`). The records:
//!
//! | key | type | holds |
//! |---|---|---|
//! | `item:I` | Dict | name, seller, region, category, state, bids (their number), winner and price once closed |
//! | `bids:I` | TopK | the highest bids: member `USER-AMOUNT`, scored by amount |
//! | `region:R`, `category:C` | ScoredSet | the open items, by when they close |
//! | `user:U` | Dict | name, comments (their number) |
//! | `bidder:U` | Set | all bids of a user: `ITEM-AMOUNT` |
//! | `selling:U`, `won:U` | Set | items opened by the user, items won |
//! | `comments:U` | ScoredSet | comments on a user, newest last |
//! | `ratings:U` | SummaryBag | what those comments rate the user |
//! | `comment:X` | Dict | one comment |
//! | `uid:items`, `uid:users` | UidGenerator | numbers for what is made during the run |
//!
//! Bids and comments are named by the client that makes them; items and users that are made during a run
//! get a number from the store, and `n` before it to tell them from those loaded.

mod board;
mod client;
mod tally;

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use claret_types::{Bytes, Reply};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, RngExt, SeedableRng};

use super::id::Id;
use super::{Batches, Call, Client, Kind, Mix, Promise, Run, Violation, Workload, Zipf};
use super::{batches, names, ops};
use board::{Auction, Board};
use client::RubisClient;
use tally::Tally;

/// How many of the highest bids `bids:I` keeps.
const TOP: u32 = 5;

/// The lowest price that a loaded item has.
const PRICE_START: u64 = 1_000;

/// Its name.
pub(super) const NAME: &str = "rubis";

/// Kinds, in the order of [`Action`].
const KINDS: &[Kind] = &[
    Kind::action("view-auction"),
    Kind::action("browse"),
    Kind::action("bid"),
    Kind::action("open-auction"),
    Kind::action("close-auction"),
    Kind::action("add-comment"),
    Kind::action("add-user"),
    Kind::action("view-user"),
];

/// The transactions, by their index in [`Workload::kinds`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Action {
    ViewAuction,
    Browse,
    Bid,
    OpenAuction,
    CloseAuction,
    AddComment,
    AddUser,
    ViewUser,
}

/// The two mixes of Table 4.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RubisMix {
    /// 10 % bids.
    ReadHeavy,
    /// 45 % bids.
    BidHeavy,
}

impl RubisMix {
    /// The shares in percent. The table gives View and Browse together, Open and Close together, and
    /// NewUser and ViewUser together; how they are split is said in `docs/workloads.md`.
    pub fn shares(self) -> [(Action, f64); 8] {
        let [looks, bids, auctions, comments, users] = match self {
            RubisMix::BidHeavy => [52.0, 45.0, 1.0, 1.0, 1.0],
            RubisMix::ReadHeavy => [82.0, 10.0, 4.0, 2.0, 2.0],
        };
        [
            (Action::ViewAuction, 0.8 * looks),
            (Action::Browse, 0.2 * looks),
            (Action::Bid, bids),
            (Action::OpenAuction, 0.5 * auctions),
            (Action::CloseAuction, 0.5 * auctions),
            (Action::AddComment, comments),
            (Action::AddUser, 0.5 * users),
            (Action::ViewUser, 0.5 * users),
        ]
    }
}

/// Parameters.
#[derive(Clone, Debug)]
pub struct Options {
    /// Before every key.
    pub prefix: String,
    /// The mix of transactions.
    pub mix: RubisMix,
    /// Open auctions at the start.
    pub items: usize,
    /// Registered users at the start.
    pub users: usize,
    /// Regions.
    pub regions: usize,
    /// Categories.
    pub categories: usize,
    /// Bids that an item has at the start, on average.
    pub bids_per_item: f64,
    /// Skew of the bids by item.
    pub alpha: f64,
    /// In which part of an auction's window the rate of bids grows e-fold.
    pub decay: f64,
    /// What the loaded items are made from.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            prefix: "rubis:".to_owned(),
            mix: RubisMix::BidHeavy,
            items: 30_000,
            users: 100_000,
            regions: 62,
            categories: 40,
            bids_per_item: 10.0,
            alpha: 1.0,
            decay: 0.1,
            seed: 1,
        }
    }
}

/// A bid: who, and how much. Ordered by the amount first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Bid {
    amount: u64,
    user: u32,
}

impl Bid {
    /// Its name in `bids:I`, and in the field `winner`.
    fn name(self) -> Bytes {
        names::pair(u64::from(self.user), self.amount)
    }
}

/// An item as it is loaded.
#[derive(Clone, Debug)]
struct Loaded {
    region: usize,
    category: usize,
    seller: u32,
    popularity: f64,
    bids: u64,
    /// How many close before it.
    closes: u64,
}

/// The tables made from the parameters.
#[derive(Debug)]
struct Tables {
    options: Options,
    mix: Mix<Action>,
    items: Vec<Loaded>,
    popularities: Vec<f64>,
    users: Vec<Bytes>,
    bidders: Vec<Bytes>,
    comments: Vec<Bytes>,
    ratings: Vec<Bytes>,
    regions: Vec<Bytes>,
    categories: Vec<Bytes>,
    uid_items: Bytes,
    uid_users: Bytes,
}

impl Tables {
    fn new(options: Options) -> Self {
        let table = |kind: &str, count| names::table(&format!("{}{kind}:", options.prefix), count);
        let popularities = Zipf::shares(options.items, options.alpha);
        Tables {
            mix: Mix::new(&options.mix.shares()),
            items: loaded_items(&options, &popularities),
            popularities,
            users: table("user", options.users),
            bidders: table("bidder", options.users),
            comments: table("comments", options.users),
            ratings: table("ratings", options.users),
            regions: table("region", options.regions),
            categories: table("category", options.categories),
            uid_items: Bytes::from(format!("{}uid:items", options.prefix)),
            uid_users: Bytes::from(format!("{}uid:users", options.prefix)),
            options,
        }
    }

    /// The key of a record of one kind.
    fn key(&self, kind: &str, id: Id) -> Bytes {
        let mut key = Bytes::from(&self.options.prefix);
        key.extend(kind.as_bytes());
        key.extend(b":");
        key.extend(&id.name());
        key
    }

    fn auction(&self, id: Id, region: usize, category: usize, seller: u32, popularity: f64) -> Auction {
        Auction {
            id,
            item_key: self.key("item", id),
            bids_key: self.key("bids", id),
            region,
            category,
            seller,
            popularity,
            price: AtomicU64::new(PRICE_START),
        }
    }

    /// The `n`-th bid (from one) that an item is loaded with.
    fn loaded_bid(&self, item: u32, n: u64) -> Bid {
        let hash = foldhash::fast::FixedState::with_seed(self.options.seed).hash_one((item, n));
        Bid { amount: PRICE_START + n, user: (hash % self.options.users as u64) as u32 }
    }

    /// How many bids an item had at the start, and the highest.
    fn bids_at_start(&self, id: Id) -> (u64, Option<Bid>) {
        let Id::Loaded(item) = id else { return (0, None) };
        let bids = self.items[item as usize].bids;
        (bids, (bids > 0).then(|| self.loaded_bid(item, bids)))
    }

    fn board(&self) -> Board {
        let mut auctions: Vec<_> = self.items.iter().enumerate().collect();
        auctions.sort_by_key(|(_, item)| item.closes);
        let listed = auctions.into_iter().map(|(id, item)| {
            let auction =
                self.auction(Id::Loaded(id as u32), item.region, item.category, item.seller, item.popularity);
            auction.price.store(PRICE_START + item.bids, Ordering::Relaxed);
            Arc::new(auction)
        });
        Board::new(listed.collect(), self.options.decay * self.options.items as f64)
    }

    fn item_calls(&self, id: usize) -> impl Iterator<Item = Call> + '_ {
        let (item, number, id) = (&self.items[id], id as u32, Id::Loaded(id as u32));
        let fields = item_fields(id, item.seller, item.region, item.category, item.bids);
        let name = id.name();
        let listed = [
            Call::new(&self.key("item", id), fields),
            Call::new(&self.regions[item.region], ops::zadd(name.clone(), item.closes as f64)),
            Call::new(&self.categories[item.category], ops::zadd(name.clone(), item.closes as f64)),
            Call::new(&self.key("selling", Id::Loaded(item.seller)), ops::sadd(name)),
        ];
        let kept = item.bids.saturating_sub(u64::from(TOP)) + 1..=item.bids;
        let bids_key = self.key("bids", id);
        let bids = kept.map(move |n| {
            let bid = self.loaded_bid(number, n);
            Call::new(&bids_key, ops::topk_add(TOP, bid.amount as f64, bid.name()))
        });
        listed.into_iter().chain(bids)
    }
}

/// The fields of an item that is opened.
fn item_fields(id: Id, seller: u32, region: usize, category: usize, bids: u64) -> claret_types::Operation {
    ops::hset([
        ("name", id.titled("item ")),
        ("seller", names::decimal(u64::from(seller))),
        ("region", names::decimal(region as u64)),
        ("category", names::decimal(category as u64)),
        ("bids", names::decimal(bids)),
        ("state", Bytes::from("open")),
    ])
}

/// The fields of a new user.
fn user_fields(id: Id) -> claret_types::Operation {
    ops::hset([("name", id.titled("user ")), ("comments", names::decimal(0))])
}

fn loaded_items(options: &Options, popularities: &[f64]) -> Vec<Loaded> {
    let mut rng = SmallRng::seed_from_u64(options.seed);
    let mut order: Vec<u64> = (0..options.items as u64).collect();
    order.shuffle(&mut rng);
    let item = |(closes, popularity): (u64, &f64)| Loaded {
        region: rng.random_range(0..options.regions),
        category: rng.random_range(0..options.categories),
        seller: rng.random_range(0..options.users as u32),
        popularity: *popularity,
        bids: (popularity * options.bids_per_item * options.items as f64).round() as u64,
        closes,
    };
    order.into_iter().zip(popularities).map(item).collect()
}

/// The workload.
#[derive(Debug)]
pub struct Rubis {
    tables: Arc<Tables>,
}

impl Rubis {
    /// With these parameters. O(items + users).
    ///
    /// # Panics
    /// When a number of things is zero.
    pub fn new(options: Options) -> Self {
        Rubis { tables: Arc::new(Tables::new(options)) }
    }
}

impl Workload for Rubis {
    fn name(&self) -> &'static str {
        NAME
    }

    fn kinds(&self) -> &'static [Kind] {
        KINDS
    }

    fn load(&self) -> Batches<'_> {
        let tables = &*self.tables;
        let users = tables
            .users
            .iter()
            .enumerate()
            .map(|(id, key)| Call::new(key, user_fields(Id::Loaded(id as u32))));
        let items = (0..tables.items.len()).flat_map(|id| tables.item_calls(id));
        batches(users.chain(items))
    }

    fn run(&self) -> Box<dyn Run> {
        Box::new(RubisRun {
            tables: self.tables.clone(),
            board: Arc::new(self.tables.board()),
            clients: AtomicU64::new(0),
            total: Arc::default(),
        })
    }
}

struct RubisRun {
    tables: Arc<Tables>,
    board: Arc<Board>,
    /// How many clients there have been: they name comments by their number.
    clients: AtomicU64,
    total: Arc<Mutex<Tally>>,
}

impl Run for RubisRun {
    fn client(&self, seed: u64) -> Box<dyn Client> {
        let number = self.clients.fetch_add(1, Ordering::Relaxed);
        let (tables, board, total) = (self.tables.clone(), self.board.clone(), self.total.clone());
        Box::new(RubisClient::new(tables, board, total, number, seed))
    }

    fn verify(&self, promise: Promise, read: &mut dyn FnMut(Call) -> Reply) -> Vec<Violation> {
        self.total.lock().unwrap_or_else(PoisonError::into_inner).verify(&self.tables, promise, read)
    }
}

/// A user picked uniformly among those loaded.
fn any_user(tables: &Tables, rng: &mut impl Rng) -> u32 {
    rng.random_range(0..tables.options.users as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loaded_bids_follow_the_power_law_and_average_ten() {
        let tables = Tables::new(Options { users: 100, ..Options::default() });
        let mut bids: Vec<u64> = tables.items.iter().map(|item| item.bids).collect();
        let mean = bids.iter().sum::<u64>() as f64 / bids.len() as f64;
        assert!((mean - 10.0).abs() < 0.2, "{mean} bids per item");
        bids.sort_unstable_by(|a, b| b.cmp(a));
        for rank in [1, 10, 100, 1_000] {
            let ratio = bids[0] as f64 / bids[rank - 1] as f64;
            assert!((ratio / rank as f64 - 1.0).abs() < 0.05, "rank {rank} has a {ratio}-th of the first");
        }
    }

    /// The ranks are spread over the window: the popular do not all close first.
    #[test]
    fn popular_items_close_at_any_time() {
        let tables = Tables::new(Options { users: 100, ..Options::default() });
        let early = tables.items[..1_000].iter().filter(|item| item.closes < 15_000).count();
        assert!((400..600).contains(&early), "{early} of the 1,000 most popular close in the first half");
    }
}
