//! What the clients of the Twitter clone were told, and what must hold in the store because of it.
//!
//! Checked of the whole store:
//! - a timeline holds exactly the posts that acknowledged posts and reposts put on it, each once. On whose
//!   timelines those are is known from the followers that the same transaction read, so that follows which
//!   come and go at the same time do not matter;
//! - followers and following are those of the graph and the acknowledged follows, in both directions;
//! - a post's set of reposts holds those who were acknowledged; a new post and a new user are there.
//!
//! While it runs (with transactions only): a post that is on a timeline exists.

use std::collections::{HashMap, HashSet};

use claret_types::{Bytes, Reply};

use super::Tables;
use crate::workload::check::Witness;
use crate::workload::id::Id;
use crate::workload::{Call, Checker, Promise, Violation, names, ops};

type Seed = foldhash::fast::FixedState;

/// Posts that were put on timelines: whose, one list after another.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Post, and how many readers it has in `readers`.
    put: Vec<(Id, u32)>,
    readers: Vec<u32>,
    /// New posts and their authors.
    posts: Vec<(Id, u32)>,
    /// Posts and who reposted them.
    reposts: Vec<(Id, u32)>,
    /// Follower and followed.
    follows: Vec<(u32, u32)>,
    new_users: Vec<Id>,
    witness: Witness,
}

impl Tally {
    pub(super) fn post(&mut self, by: usize, post: Id, readers: &[u32]) {
        self.posts.push((post, by as u32));
        self.put(post, readers);
    }

    pub(super) fn repost(&mut self, by: usize, post: Id, readers: &[u32]) {
        self.reposts.push((post, by as u32));
        self.put(post, readers);
    }

    fn put(&mut self, post: Id, readers: &[u32]) {
        self.put.push((post, readers.len() as u32));
        self.readers.extend_from_slice(readers);
    }

    pub(super) fn follow(&mut self, follower: u32, followed: u32) {
        self.follows.push((follower, followed));
    }

    pub(super) fn user(&mut self, id: Id) {
        self.new_users.push(id);
    }

    pub(super) fn unknown(&mut self) {
        self.witness.unknown += 1;
    }

    /// A post was on a timeline and did not exist.
    pub(super) fn torn_post(&mut self, tables: &Tables, post: Id) {
        let key = tables.key("post", post);
        self.witness.seen_in_transactions.push(&key, "a post seen on a timeline", "it there", "none");
    }

    pub(super) fn merge(&mut self, other: Tally) {
        self.put.extend(other.put);
        self.readers.extend(other.readers);
        self.posts.extend(other.posts);
        self.reposts.extend(other.reposts);
        self.follows.extend(other.follows);
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
        self.verify_timelines(&mut checker, tables);
        self.verify_follows(&mut checker, tables);
        self.verify_reposts(&mut checker, tables);
        for (post, author) in &self.posts {
            let author = Reply::Bytes(names::decimal(u64::from(*author)));
            checker.expect(&tables.key("post", *post), ops::hget("author"), "author", &author);
        }
        for id in &self.new_users {
            let name = Reply::Bytes(id.titled("user "));
            checker.expect(&tables.key("user", *id), ops::hget("name"), "name of a user", &name);
        }
        checker.finish()
    }

    /// The posts that each timeline should hold.
    fn timelines(&self, tables: &Tables) -> Vec<Vec<Id>> {
        let mut timelines = vec![Vec::new(); tables.graph.users()];
        for post in 0..tables.loaded_posts() {
            let author = tables.author(post);
            timelines[author].push(Id::Loaded(post as u32));
            for reader in tables.graph.followers(author) {
                timelines[*reader as usize].push(Id::Loaded(post as u32));
            }
        }
        let mut readers = self.readers.iter();
        for (post, count) in &self.put {
            for reader in readers.by_ref().take(*count as usize) {
                timelines[*reader as usize].push(*post);
            }
        }
        for timeline in &mut timelines {
            timeline.sort_unstable();
            timeline.dedup();
        }
        timelines
    }

    fn verify_timelines(&self, checker: &mut Checker<'_>, tables: &Tables) {
        for (key, expected) in tables.timelines.iter().zip(self.timelines(tables)) {
            let found = members(&checker.ask(key, ops::zrange(0, -1)));
            let mut posts: Vec<Id> = found.iter().filter_map(Id::of_name).collect();
            posts.sort_unstable();
            if posts.len() != found.len() || posts != expected {
                report_difference(checker, key, "posts on the timeline", &expected, &posts);
            }
        }
    }

    fn verify_follows(&self, checker: &mut Checker<'_>, tables: &Tables) {
        let mut followers: HashMap<u32, Vec<u32>, Seed> = HashMap::default();
        let mut following: HashMap<u32, Vec<u32>, Seed> = HashMap::default();
        for (follower, followed) in &self.follows {
            followers.entry(*followed).or_default().push(*follower);
            following.entry(*follower).or_default().push(*followed);
        }
        for user in 0..tables.graph.users() {
            let lists = [
                (&tables.followers[user], tables.graph.followers(user), &followers, "followers"),
                (&tables.following[user], tables.graph.following(user), &following, "following"),
            ];
            for (key, loaded, added, what) in lists {
                let added = added.get(&(user as u32)).map_or(&[][..], Vec::as_slice);
                let mut expected: Vec<Id> =
                    loaded.iter().chain(added).map(|user| Id::Loaded(*user)).collect();
                expected.sort_unstable();
                expected.dedup();
                let found = members(&checker.ask(key, ops::smembers()));
                let mut users: Vec<Id> = found.iter().filter_map(Id::of_name).collect();
                users.sort_unstable();
                if users.len() != found.len() || users != expected {
                    report_difference(checker, key, what, &expected, &users);
                }
            }
        }
    }

    fn verify_reposts(&self, checker: &mut Checker<'_>, tables: &Tables) {
        let mut reposters: HashMap<Id, HashSet<u32, Seed>, Seed> = HashMap::default();
        for (post, by) in &self.reposts {
            reposters.entry(*post).or_default().insert(*by);
        }
        let mut posts: Vec<_> = reposters.into_iter().collect();
        posts.sort_unstable_by_key(|(post, _)| *post);
        for (post, by) in posts {
            let key = tables.key("reposts", post);
            checker.expect(&key, ops::scard(), "users who reposted it", &Reply::count(by.len()));
        }
    }
}

fn members(reply: &Reply) -> Vec<Bytes> {
    crate::workload::array(reply).iter().filter_map(crate::workload::bytes).cloned().collect()
}

/// Names what is missing and what is too much, and not the whole lists, which may be long.
fn report_difference(
    checker: &mut Checker<'_>,
    key: &Bytes,
    what: &'static str,
    expected: &[Id],
    found: &[Id],
) {
    let lacking = |of: &[Id], from: &[Id]| -> Vec<String> {
        let from: HashSet<Id, Seed> = from.iter().copied().collect();
        let missing = of.iter().filter(|id| !from.contains(id));
        missing.take(5).map(|id| id.name().to_string()).collect()
    };
    let (missing, extra) = (lacking(expected, found), lacking(found, expected));
    let expected = format!("{} with {}", expected.len(), missing.join(" "));
    checker.report(key, what, expected, format!("{} with {}", found.len(), extra.join(" ")));
}
