//! A client of the Twitter clone: readers, and the transactions they cause.
//!
//! A reader loads the newest posts of a timeline (one transaction), then each post in a transaction of its
//! own, as the dissertation says. The posts are then ranked by how often they were reposted, a number is
//! drawn from a geometric distribution, and as many from the top are reposted. The mean of the distribution
//! is the ratio of reposts to timelines in the mix; a timeline with too few posts leaves the rest to the
//! next one, so that the mix comes out as asked.
//!
//! Post and Repost read the followers first and then write to all of their timelines, in one transaction.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use claret_types::{Bytes, Reply};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Geometric};

use super::tally::Tally;
use super::{Action, Tables, post_fields, user_fields};
use crate::workload::id::Id;
use crate::workload::{Call, Client, Stage, array, bytes, integer, names, ops};

/// A transaction as drawn, with what its first stage was answered.
#[derive(Debug)]
enum Current {
    None,
    Timeline { reader: usize },
    LoadPost { post: Id },
    Repost { by: usize, post: Id, score: u64, readers: Vec<u32> },
    Post { by: usize, post: Option<Id>, score: u64, readers: Vec<u32> },
    Follow { follower: usize, followed: usize },
    NewUser { id: Option<Id> },
}

/// What is left to do of a timeline that was loaded.
#[derive(Debug, Default)]
struct Reading {
    reader: usize,
    to_load: VecDeque<Id>,
    /// Posts that were loaded, with their reposts.
    loaded: Vec<(Id, i64)>,
    to_repost: VecDeque<Id>,
}

pub(super) struct RetwisClient {
    tables: Arc<Tables>,
    clock: Arc<AtomicU64>,
    rng: SmallRng,
    reposts: Geometric,
    /// Reposts that were drawn and had no post yet.
    owed: u64,
    reading: Reading,
    current: Current,
    is_second: bool,
    tally: Tally,
    total: Arc<Mutex<Tally>>,
}

impl RetwisClient {
    pub(super) fn new(
        tables: Arc<Tables>,
        clock: Arc<AtomicU64>,
        total: Arc<Mutex<Tally>>,
        seed: u64,
    ) -> Self {
        let mean = tables.options.mix.reposts_per_timeline();
        RetwisClient {
            tables,
            clock,
            rng: SmallRng::seed_from_u64(seed),
            reposts: Geometric::new(1.0 / (1.0 + mean)).expect("the mean is positive and finite"),
            owed: 0,
            reading: Reading::default(),
            current: Current::None,
            is_second: false,
            tally: Tally::default(),
            total,
        }
    }

    fn any_user(&mut self) -> usize {
        self.rng.random_range(0..self.tables.graph.users())
    }

    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    fn draw_new(&mut self) -> (Action, Current) {
        let action = self.tables.mix.draw(&mut self.rng);
        let current = match action {
            Action::Timeline => Current::Timeline { reader: self.any_user() },
            Action::Post => {
                Current::Post { by: self.any_user(), post: None, score: self.now(), readers: Vec::new() }
            }
            Action::Follow => {
                let follower = self.any_user();
                // Anyone but himself.
                let step = self.rng.random_range(1..self.tables.graph.users());
                Current::Follow { follower, followed: (follower + step) % self.tables.graph.users() }
            }
            Action::NewUser => Current::NewUser { id: None },
            Action::Repost | Action::LoadPost => unreachable!("they follow timelines and are not in the mix"),
        };
        (action, current)
    }

    /// Decides what is reposted once the last post of a timeline is loaded.
    fn rank(&mut self) {
        let mut loaded = std::mem::take(&mut self.reading.loaded);
        loaded.sort_by_key(|(_, reposts)| Reverse(*reposts));
        self.owed += self.reposts.sample(&mut self.rng);
        let count = self.owed.min(loaded.len() as u64);
        self.owed -= count;
        self.reading.to_repost.extend(loaded[..count as usize].iter().map(|(post, _)| *post));
    }

    fn post_calls(&mut self, replies: &[Reply], calls: &mut Vec<Call>) -> Stage {
        let tables = &*self.tables;
        let Current::Post { by, post, score, readers } = &mut self.current else {
            unreachable!("only asked for a post")
        };
        if !self.is_second {
            calls.push(Call::new(&tables.followers[*by], ops::smembers()));
            calls.push(Call::new(&tables.uid_posts, ops::uid_next()));
            return Stage::Read;
        }
        let new = *post.insert(Id::new(&replies[1]));
        calls.push(Call::new(&tables.key("post", new), post_fields(*by, new)));
        *readers = readers_of(*by, &replies[0]);
        put_on_timelines(tables, new, *score, readers, calls);
        Stage::Commit
    }

    fn repost_calls(&mut self, replies: &[Reply], calls: &mut Vec<Call>) -> Stage {
        let tables = &*self.tables;
        let Current::Repost { by, post, score, readers } = &mut self.current else {
            unreachable!("only asked for a repost")
        };
        if !self.is_second {
            calls.push(Call::new(&tables.followers[*by], ops::smembers()));
            return Stage::Read;
        }
        calls.push(Call::new(&tables.key("reposts", *post), ops::sadd(names::decimal(*by as u64))));
        *readers = readers_of(*by, &replies[0]);
        put_on_timelines(tables, *post, *score, readers, calls);
        Stage::Commit
    }

    fn committed_load(&mut self, post: Id, replies: &[Reply]) {
        if array(&replies[0]).is_empty() {
            self.tally.torn_post(&self.tables, post);
        }
        self.reading.loaded.push((post, integer(&replies[1])));
        if self.reading.to_load.is_empty() {
            self.rank();
        }
    }
}

/// Whose timelines a user's posts are put on: the followers', and the user's own.
fn readers_of(user: usize, followers: &Reply) -> Vec<u32> {
    let followers = array(followers);
    let mut readers = Vec::with_capacity(followers.len() + 1);
    readers.extend(followers.iter().map(user_of));
    readers.push(user as u32);
    readers
}

fn put_on_timelines(tables: &Tables, post: Id, score: u64, readers: &[u32], calls: &mut Vec<Call>) {
    let name = post.name();
    let put =
        |reader: &u32| Call::new(&tables.timelines[*reader as usize], ops::zadd(name.clone(), score as f64));
    calls.extend(readers.iter().map(put));
}

/// The user that a member of a followers' set names.
///
/// # Panics
/// When it names none: something else wrote to the set.
fn user_of(member: &Reply) -> u32 {
    bytes(member)
        .and_then(names::number)
        .and_then(|number| u32::try_from(number).ok())
        .unwrap_or_else(|| panic!("a set of followers holds {member}, which is no user"))
}

impl Client for RetwisClient {
    fn draw(&mut self) -> usize {
        let (action, current) = if let Some(post) = self.reading.to_load.pop_front() {
            (Action::LoadPost, Current::LoadPost { post })
        } else if let Some(post) = self.reading.to_repost.pop_front() {
            let (by, score) = (self.reading.reader, self.now());
            (Action::Repost, Current::Repost { by, post, score, readers: Vec::new() })
        } else {
            self.draw_new()
        };
        self.current = current;
        self.is_second = false;
        action as usize
    }

    fn stage(&mut self, replies: &[Reply], calls: &mut Vec<Call>) -> Stage {
        let tables = &*self.tables;
        let stage = match &mut self.current {
            Current::None => unreachable!("a transaction is drawn first"),
            Current::Timeline { reader } => {
                let newest = ops::zrange_rev(0, tables.options.page as i64 - 1);
                calls.push(Call::new(&tables.timelines[*reader], newest));
                Stage::Commit
            }
            Current::LoadPost { post } => {
                calls.push(Call::new(&tables.key("post", *post), ops::hgetall()));
                calls.push(Call::new(&tables.key("reposts", *post), ops::scard()));
                Stage::Commit
            }
            Current::Post { .. } => self.post_calls(replies, calls),
            Current::Repost { .. } => self.repost_calls(replies, calls),
            Current::Follow { follower, followed } => {
                let (from, to) = (names::decimal(*follower as u64), names::decimal(*followed as u64));
                calls.push(Call::new(&tables.followers[*followed], ops::sadd(from)));
                calls.push(Call::new(&tables.following[*follower], ops::sadd(to)));
                Stage::Commit
            }
            Current::NewUser { .. } if !self.is_second => {
                calls.push(Call::new(&tables.uid_users, ops::uid_next()));
                Stage::Read
            }
            Current::NewUser { id } => {
                let new = *id.insert(Id::new(&replies[0]));
                calls.push(Call::new(&tables.key("user", new), user_fields(new)));
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
            Current::None => {}
            Current::Timeline { reader } => {
                self.reading.reader = reader;
                let posts = array(&replies[0]).iter().filter_map(bytes);
                self.reading.to_load.extend(posts.map(post_of));
                if self.reading.to_load.is_empty() {
                    self.rank();
                }
            }
            Current::LoadPost { post } => self.committed_load(post, replies),
            Current::Post { by, post: Some(post), readers, .. } => self.tally.post(by, post, &readers),
            Current::Repost { by, post, readers, .. } => self.tally.repost(by, post, &readers),
            Current::Follow { follower, followed } => self.tally.follow(follower as u32, followed as u32),
            Current::NewUser { id: Some(id) } => self.tally.user(id),
            Current::Post { post: None, .. } | Current::NewUser { id: None } => {
                unreachable!("it has its number since its second stage")
            }
        }
    }

    fn gave_up(&mut self) {
        // The rest of a timeline goes on without the post that could not be loaded.
        if let Current::LoadPost { .. } = std::mem::replace(&mut self.current, Current::None)
            && self.reading.to_load.is_empty()
        {
            self.rank();
        }
    }

    fn unknown(&mut self) {
        self.tally.unknown();
        self.gave_up();
    }

    fn finish(self: Box<Self>) {
        self.total.lock().unwrap_or_else(PoisonError::into_inner).merge(self.tally);
    }
}

/// The post that a member of a timeline names.
///
/// # Panics
/// As [`user_of`].
fn post_of(member: &Bytes) -> Id {
    Id::of_name(member).unwrap_or_else(|| panic!("a timeline holds {member}, which is no post"))
}
