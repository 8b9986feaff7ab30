//! A client of the auction service: the eight transactions as stages of calls.
//!
//! Whatever is known up front goes into one stage. Three transactions have two: those that need a number
//! from the store first (OpenAuction, AddUser) and CloseAuction, which has to know the highest bid.
//!
//! Bid reads the item's state along with its writes, so that it stays a single stage. One that comes after
//! the close is told so (`closed`) and cannot win; it is counted as made.

use std::sync::{Arc, Mutex, PoisonError};

use claret_types::{Bytes, Reply};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::board::{Auction, Board, Snapshot};
use super::tally::Tally;
use super::{Action, Bid, TOP, Tables, any_user, item_fields, user_fields};
use crate::workload::id::Id;
use crate::workload::{Call, Client, Stage, bytes, names, ops};

/// How many items or comments a page shows.
const PAGE: i64 = 20;

/// The most that a bid goes over the price.
const RAISE_MAX: u64 = 10;

/// A transaction as drawn, with what its first stage was answered.
enum Current {
    None,
    ViewAuction(Arc<Auction>),
    Browse(Bytes),
    Bid { auction: Arc<Auction>, bid: Bid },
    OpenAuction { seller: u32, region: usize, category: usize, popularity: f64, id: Option<Id> },
    CloseAuction { auction: Arc<Auction>, winner: Option<Bytes> },
    AddComment { from: u32, auction: Arc<Auction>, number: u64, rating: u8 },
    AddUser { id: Option<Id> },
    ViewUser(u32),
}

pub(super) struct RubisClient {
    tables: Arc<Tables>,
    board: Arc<Board>,
    snapshot: Arc<Snapshot>,
    rng: SmallRng,
    /// Which client of the run this is.
    number: u64,
    comments: u64,
    /// OpenAuction and CloseAuction take turns, so that as many are open as were at the start.
    closes_next: bool,
    current: Current,
    is_second: bool,
    tally: Tally,
    total: Arc<Mutex<Tally>>,
}

impl RubisClient {
    pub(super) fn new(
        tables: Arc<Tables>,
        board: Arc<Board>,
        total: Arc<Mutex<Tally>>,
        number: u64,
        seed: u64,
    ) -> Self {
        RubisClient {
            snapshot: board.snapshot(),
            tables,
            board,
            rng: SmallRng::seed_from_u64(seed),
            number,
            comments: 0,
            closes_next: number.is_multiple_of(2),
            current: Current::None,
            is_second: false,
            tally: Tally::default(),
            total,
        }
    }

    fn pick(&mut self) -> Arc<Auction> {
        self.board.pick(&mut self.snapshot, &mut self.rng).1
    }

    fn draw_open(&mut self) -> (Action, Current) {
        let options = &self.tables.options;
        let current = Current::OpenAuction {
            seller: any_user(&self.tables, &mut self.rng),
            region: self.rng.random_range(0..options.regions),
            category: self.rng.random_range(0..options.categories),
            popularity: self.tables.popularities[self.rng.random_range(0..options.items)],
            id: None,
        };
        (Action::OpenAuction, current)
    }

    fn draw_open_or_close(&mut self) -> (Action, Current) {
        let closes = self.closes_next;
        self.closes_next = !closes;
        match if closes { self.board.close_next() } else { None } {
            Some(auction) => (Action::CloseAuction, Current::CloseAuction { auction, winner: None }),
            None => self.draw_open(),
        }
    }

    fn draw_bid(&mut self) -> Current {
        let auction = self.pick();
        let amount = auction.outbid(self.rng.random_range(1..=RAISE_MAX));
        Current::Bid { auction, bid: Bid { amount, user: any_user(&self.tables, &mut self.rng) } }
    }

    fn draw_browse(&mut self) -> Current {
        let indexes = if self.rng.random_bool(0.5) { &self.tables.regions } else { &self.tables.categories };
        Current::Browse(indexes[self.rng.random_range(0..indexes.len())].clone())
    }

    fn draw_comment(&mut self) -> Current {
        self.comments += 1;
        Current::AddComment {
            from: any_user(&self.tables, &mut self.rng),
            auction: self.pick(),
            number: self.comments,
            rating: self.rng.random_range(1..=5),
        }
    }

    fn open_calls(&mut self, replies: &[Reply], calls: &mut Vec<Call>) -> Stage {
        let Current::OpenAuction { seller, region, category, id, .. } = &mut self.current else {
            unreachable!("only asked for an auction to open")
        };
        let tables = &self.tables;
        if !self.is_second {
            calls.push(Call::new(&tables.uid_items, ops::uid_next()));
            return Stage::Read;
        }
        let new = *id.insert(Id::new(&replies[0]));
        let (name, closes) = (new.name(), self.board.next_number() as f64);
        calls.push(Call::new(&tables.key("item", new), item_fields(new, *seller, *region, *category, 0)));
        calls.push(Call::new(&tables.regions[*region], ops::zadd(name.clone(), closes)));
        calls.push(Call::new(&tables.categories[*category], ops::zadd(name.clone(), closes)));
        calls.push(Call::new(&tables.key("selling", Id::Loaded(*seller)), ops::sadd(name)));
        Stage::Commit
    }

    fn close_calls(&mut self, replies: &[Reply], calls: &mut Vec<Call>) -> Stage {
        let Current::CloseAuction { auction, winner } = &mut self.current else {
            unreachable!("only asked for an auction to close")
        };
        let tables = &self.tables;
        if !self.is_second {
            calls.push(Call::new(&auction.bids_key, ops::topk_max()));
            return Stage::Read;
        }
        *winner = ops::topk_max_member(&replies[0]).cloned();
        let name = auction.id.name();
        let won = winner.clone().unwrap_or_default();
        let fields = [("state", Bytes::from("closed")), ("winner", won)];
        calls.push(Call::new(&auction.item_key, ops::hset(fields)));
        calls.push(Call::new(&tables.regions[auction.region], ops::zrem(name.clone())));
        calls.push(Call::new(&tables.categories[auction.category], ops::zrem(name.clone())));
        if let Some(user) = winner.as_ref().and_then(user_of) {
            calls.push(Call::new(&tables.key("won", Id::Loaded(user)), ops::sadd(name)));
        }
        Stage::Commit
    }
}

/// Who made a bid, from its name.
fn user_of(bid: &Bytes) -> Option<u32> {
    bid.as_str()?.split_once('-')?.0.parse().ok()
}

impl Client for RubisClient {
    fn draw(&mut self) -> usize {
        let action = self.tables.mix.draw(&mut self.rng);
        let (action, current) = match action {
            Action::ViewAuction => (action, Current::ViewAuction(self.pick())),
            Action::Browse => (action, self.draw_browse()),
            Action::Bid => (action, self.draw_bid()),
            Action::OpenAuction | Action::CloseAuction => self.draw_open_or_close(),
            Action::AddComment => (action, self.draw_comment()),
            Action::AddUser => (action, Current::AddUser { id: None }),
            Action::ViewUser => (action, Current::ViewUser(any_user(&self.tables, &mut self.rng))),
        };
        self.current = current;
        self.is_second = false;
        action as usize
    }

    fn stage(&mut self, replies: &[Reply], calls: &mut Vec<Call>) -> Stage {
        let tables = &self.tables;
        let stage = match &mut self.current {
            Current::None => unreachable!("a transaction is drawn first"),
            Current::ViewAuction(auction) => {
                calls.push(Call::new(&auction.item_key, ops::hgetall()));
                calls.push(Call::new(&auction.bids_key, ops::topk_max()));
                Stage::Commit
            }
            Current::Browse(index) => {
                calls.push(Call::new(index, ops::zrange(0, PAGE - 1)));
                Stage::Commit
            }
            Current::Bid { auction, bid } => {
                let user = bid.user as usize;
                let mut made = auction.id.name();
                made.extend(b"-");
                made.extend(names::Digits::of(bid.amount).as_bytes());
                calls.push(Call::new(&auction.bids_key, ops::topk_add(TOP, bid.amount as f64, bid.name())));
                calls.push(Call::new(&auction.item_key, ops::hincrby("bids", 1)));
                calls.push(Call::new(&tables.bidders[user], ops::sadd(made)));
                calls.push(Call::new(&auction.item_key, ops::hget("state")));
                Stage::Commit
            }
            Current::OpenAuction { .. } => self.open_calls(replies, calls),
            Current::CloseAuction { .. } => self.close_calls(replies, calls),
            Current::AddComment { from, auction, number, rating } => {
                let name = names::pair(self.number, *number);
                let mut key = Bytes::from(&tables.options.prefix);
                key.extend(b"comment:");
                key.extend(&name);
                let to = auction.seller as usize;
                let text = ("text", auction.id.titled("a comment on item "));
                calls.push(Call::new(&key, ops::hset([("from", names::decimal(u64::from(*from))), text])));
                calls.push(Call::new(&tables.comments[to], ops::zadd(name, *number as f64)));
                calls.push(Call::new(&tables.ratings[to], ops::bag_add(f64::from(*rating))));
                calls.push(Call::new(&tables.users[to], ops::hincrby("comments", 1)));
                Stage::Commit
            }
            Current::AddUser { .. } if !self.is_second => {
                calls.push(Call::new(&tables.uid_users, ops::uid_next()));
                Stage::Read
            }
            Current::AddUser { id } => {
                let new = *id.insert(Id::new(&replies[0]));
                calls.push(Call::new(&tables.key("user", new), user_fields(new)));
                Stage::Commit
            }
            Current::ViewUser(user) => {
                let user = *user as usize;
                calls.push(Call::new(&tables.users[user], ops::hgetall()));
                calls.push(Call::new(&tables.comments[user], ops::zrange_rev(0, PAGE - 1)));
                calls.push(Call::new(&tables.ratings[user], ops::bag_mean()));
                Stage::Commit
            }
        };
        self.is_second = true;
        stage
    }

    fn restart(&mut self) {
        self.is_second = false;
    }

    fn committed(&mut self, replies: &[Reply]) {
        match std::mem::replace(&mut self.current, Current::None) {
            Current::Bid { auction, bid } => {
                let is_open = bytes(&replies[3]).is_some_and(|state| **state == *b"open");
                self.tally.bid(auction.id, bid, is_open);
            }
            Current::OpenAuction { seller, region, category, popularity, id: Some(id) } => {
                let auction = Arc::new(self.tables.auction(id, region, category, seller, popularity));
                self.tally.opened(&auction);
                self.board.open(auction);
            }
            Current::CloseAuction { auction, .. } => self.tally.closed(&auction),
            Current::AddComment { auction, rating, .. } => self.tally.comment(auction.seller, rating),
            Current::AddUser { id: Some(id) } => self.tally.user(id),
            Current::OpenAuction { id: None, .. } | Current::AddUser { id: None } => {
                unreachable!("it has its number since its second stage")
            }
            Current::None | Current::ViewAuction(_) | Current::Browse(_) | Current::ViewUser(_) => {}
        }
    }

    fn gave_up(&mut self) {
        self.current = Current::None;
    }

    fn unknown(&mut self) {
        self.current = Current::None;
        self.tally.unknown();
    }

    fn finish(self: Box<Self>) {
        self.total.lock().unwrap_or_else(PoisonError::into_inner).merge(self.tally);
    }
}
