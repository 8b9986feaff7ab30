//! What the clients of the auction service were told, and what must hold in the store because of it.
//!
//! Checked of every item, user and comment list that the run touched:
//! - the top bid of an item is the highest acknowledged one, the loaded ones included;
//! - its number of bids is theirs; each bidder's set holds as many as were acknowledged;
//! - a closed auction is off the indexes, and its winner is the highest of the bids that were told `open`:
//!   those that came before the close (with transactions only);
//! - an opened auction is on the indexes; a new user is there;
//! - comments and ratings of a user are as many as were acknowledged, and the ratings add up.

use std::collections::HashMap;

use claret_types::{Bytes, Reply};

use super::board::Auction;
use super::{Bid, Tables};
use crate::workload::check::Witness;
use crate::workload::id::Id;
use crate::workload::{Call, Checker, Promise, Violation, names, ops};

type Map<K, V> = HashMap<K, V, foldhash::fast::FixedState>;

#[derive(Debug, Default)]
struct ItemTally {
    bids: u64,
    best: Option<Bid>,
    /// The best of those that came before the close.
    best_in_time: Option<Bid>,
    /// Region and category, where it was opened or closed in the run.
    listed: Option<(usize, usize)>,
    is_closed: bool,
}

#[derive(Debug, Default)]
struct UserTally {
    bids: u64,
    comments: u64,
    ratings: u64,
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    items: Map<Id, ItemTally>,
    users: Map<u32, UserTally>,
    new_users: Vec<Id>,
    witness: Witness,
}

impl Tally {
    pub(super) fn bid(&mut self, item: Id, bid: Bid, is_in_time: bool) {
        let tally = self.items.entry(item).or_default();
        tally.bids += 1;
        tally.best = tally.best.max(Some(bid));
        if is_in_time {
            tally.best_in_time = tally.best_in_time.max(Some(bid));
        }
        self.users.entry(bid.user).or_default().bids += 1;
    }

    pub(super) fn opened(&mut self, auction: &Auction) {
        self.items.entry(auction.id).or_default().listed = Some((auction.region, auction.category));
    }

    pub(super) fn closed(&mut self, auction: &Auction) {
        let tally = self.items.entry(auction.id).or_default();
        tally.is_closed = true;
        tally.listed = Some((auction.region, auction.category));
    }

    pub(super) fn comment(&mut self, to: u32, rating: u8) {
        let tally = self.users.entry(to).or_default();
        tally.comments += 1;
        tally.ratings += u64::from(rating);
    }

    pub(super) fn user(&mut self, id: Id) {
        self.new_users.push(id);
    }

    pub(super) fn unknown(&mut self) {
        self.witness.unknown += 1;
    }

    pub(super) fn merge(&mut self, other: Tally) {
        for (id, more) in other.items {
            let tally = self.items.entry(id).or_default();
            tally.bids += more.bids;
            tally.best = tally.best.max(more.best);
            tally.best_in_time = tally.best_in_time.max(more.best_in_time);
            tally.listed = tally.listed.or(more.listed);
            tally.is_closed |= more.is_closed;
        }
        for (id, more) in other.users {
            let tally = self.users.entry(id).or_default();
            tally.bids += more.bids;
            tally.comments += more.comments;
            tally.ratings += more.ratings;
        }
        self.new_users.extend(other.new_users);
        self.witness.merge(other.witness);
    }

    pub(super) fn verify(
        &self,
        tables: &Tables,
        promise: Promise,
        read: &mut dyn FnMut(Call) -> Reply,
    ) -> Vec<Violation> {
        let mut checker = Checker::new(promise, read);
        checker.witness(&self.witness);
        let mut items: Vec<_> = self.items.iter().collect();
        items.sort_unstable_by_key(|(id, _)| **id);
        for (id, tally) in items {
            verify_bids(&mut checker, tables, *id, tally);
            verify_listing(&mut checker, tables, *id, tally);
        }
        let mut users: Vec<_> = self.users.iter().collect();
        users.sort_unstable_by_key(|(id, _)| **id);
        for (id, tally) in users {
            verify_user(&mut checker, tables, *id as usize, tally);
        }
        for id in &self.new_users {
            let name = Reply::Bytes(id.titled("user "));
            checker.expect(&tables.key("user", *id), ops::hget("name"), "name of a new user", &name);
        }
        checker.finish()
    }
}

fn verify_bids(checker: &mut Checker<'_>, tables: &Tables, id: Id, tally: &ItemTally) {
    let (loaded, loaded_best) = tables.bids_at_start(id);
    let best = tally.best.max(loaded_best);
    let bids_key = tables.key("bids", id);
    let found = checker.ask(&bids_key, ops::topk_max());
    let expected = best.map(Bid::name);
    if ops::topk_max_member(&found) != expected.as_ref() {
        checker.report(&bids_key, "the highest acknowledged bid", shown(expected), found);
    }
    let bids = Reply::Bytes(names::decimal(loaded + tally.bids));
    let what = "bids after the acknowledged ones";
    checker.expect(&tables.key("item", id), ops::hget("bids"), what, &bids);
}

fn verify_listing(checker: &mut Checker<'_>, tables: &Tables, id: Id, tally: &ItemTally) {
    let key = tables.key("item", id);
    let state = if tally.is_closed { "closed" } else { "open" };
    checker.expect(&key, ops::hget("state"), "state", &Reply::Bytes(state.into()));
    if let Some((region, category)) = tally.listed {
        for index in [&tables.regions[region], &tables.categories[category]] {
            let found = checker.ask(index, ops::zscore(id.name()));
            if (found == Reply::Nil) != tally.is_closed {
                let expected = if tally.is_closed { "it gone" } else { "it there" };
                checker.report(index, "an auction on the index", format!("{} {expected}", id.name()), found);
            }
        }
    }
    if tally.is_closed && checker.is_transactional() {
        let (_, loaded_best) = tables.bids_at_start(id);
        let winner = tally.best_in_time.max(loaded_best).map(Bid::name).unwrap_or_default();
        let what = "winner: the highest bid before the close";
        checker.expect(&key, ops::hget("winner"), what, &Reply::Bytes(winner));
    }
}

fn verify_user(checker: &mut Checker<'_>, tables: &Tables, user: usize, tally: &UserTally) {
    let bids = Reply::Int(tally.bids as i64);
    checker.expect(&tables.bidders[user], ops::scard(), "acknowledged bids of the user", &bids);
    let comments = Reply::Int(tally.comments as i64);
    checker.expect(&tables.comments[user], ops::zcard(), "acknowledged comments on the user", &comments);
    let counted = Reply::Bytes(names::decimal(tally.comments));
    checker.expect(&tables.users[user], ops::hget("comments"), "comments counted", &counted);
    let ratings = Reply::Float(tally.ratings as f64);
    checker.expect(&tables.ratings[user], ops::bag_sum(), "sum of the ratings", &ratings);
}

fn shown(bid: Option<Bytes>) -> String {
    bid.map_or_else(|| "no bid".to_owned(), |bid| bid.to_string())
}
