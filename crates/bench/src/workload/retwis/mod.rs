//! Retwis, the Twitter clone (`claret-2015` s.6.3, dissertation s.4.5.3).
//!
//! Every post is put on the timeline of every follower of its author in one transaction. Who follows whom
//! is a Kronecker graph (`graph.rs`), what is reposted is decided by a simple model of readers
//! (`client.rs`). The records:
//!
//! | key | type | holds |
//! |---|---|---|
//! | `user:U` | Dict | name |
//! | `followers:U`, `following:U` | Set | users |
//! | `post:P` | Dict | author, text |
//! | `reposts:P` | Set | who has reposted it |
//! | `timeline:U` | ScoredSet | posts, by when they were last posted or reposted to it |
//! | `uid:posts`, `uid:users` | UidGenerator | numbers for what is made during the run |
//!
//! Users and posts that are made during a run get a number from the store, and `n` before it to tell them
//! from those loaded.

mod client;
mod graph;
mod tally;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use claret_types::{Bytes, Operation, Reply};

use super::id::Id;
use super::{Batches, Call, Client, Kind, Mix, Promise, Run, Violation, Workload};
use super::{batches, names, ops};
use client::RetwisClient;
pub use graph::Graph;
use tally::Tally;

/// How many members one `SADD` of the load adds at most.
const MEMBERS_MAX: usize = 256;

/// Its name.
pub(super) const NAME: &str = "retwis";

/// Kinds, in the order of [`Action`].
const KINDS: &[Kind] = &[
    Kind::action("timeline"),
    Kind::action("repost"),
    Kind::action("post"),
    Kind::action("follow"),
    Kind::action("new-user"),
    Kind::part("load-post"),
];

/// The transactions, by their index in [`Workload::kinds`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Action {
    Timeline,
    Repost,
    Post,
    Follow,
    NewUser,
    LoadPost,
}

/// The two mixes of Table 4.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetwisMix {
    /// 5 % reposts, 2 % posts.
    ReadHeavy,
    /// 8 % reposts, 6 % posts. The table's row is named `bid-heavy`, the text calls it post-heavy.
    PostHeavy,
}

impl RetwisMix {
    /// The shares in percent. "<1%" is taken as the one percent that the others leave.
    pub fn shares(self) -> [(Action, f64); 5] {
        let [timelines, reposts, posts, follows, users] = match self {
            RetwisMix::PostHeavy => [82.0, 8.0, 6.0, 3.0, 1.0],
            RetwisMix::ReadHeavy => [91.0, 5.0, 2.0, 1.0, 1.0],
        };
        [
            (Action::Timeline, timelines),
            (Action::Repost, reposts),
            (Action::Post, posts),
            (Action::Follow, follows),
            (Action::NewUser, users),
        ]
    }

    /// How many reposts follow a timeline on average.
    fn reposts_per_timeline(self) -> f64 {
        let [(_, timelines), (_, reposts), ..] = self.shares();
        reposts / timelines
    }
}

/// Parameters.
#[derive(Clone, Debug)]
pub struct Options {
    /// Before every key.
    pub prefix: String,
    /// The mix of transactions.
    pub mix: RetwisMix,
    /// There are `2^scale` users at the start.
    pub scale: u32,
    /// Edges per user, before duplicates are left out.
    pub edge_factor: usize,
    /// Of how many users one has posted before the start.
    pub users_per_post: usize,
    /// How many posts a timeline shows.
    pub page: usize,
    /// What the graph is made from.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            prefix: "retwis:".to_owned(),
            mix: RetwisMix::PostHeavy,
            scale: 16,
            edge_factor: 16,
            users_per_post: 8,
            page: 10,
            seed: 1,
        }
    }
}

/// The tables made from the parameters.
#[derive(Debug)]
struct Tables {
    options: Options,
    graph: Graph,
    /// What is drawn: all but reposts, which follow timelines.
    mix: Mix<Action>,
    users: Vec<Bytes>,
    followers: Vec<Bytes>,
    following: Vec<Bytes>,
    timelines: Vec<Bytes>,
    uid_posts: Bytes,
    uid_users: Bytes,
}

impl Tables {
    fn new(options: Options) -> Self {
        let graph = Graph::kronecker(options.scale, options.edge_factor, options.seed);
        let table = |kind: &str| names::table(&format!("{}{kind}:", options.prefix), graph.users());
        let drawn = options.mix.shares().into_iter().filter(|(action, _)| *action != Action::Repost);
        Tables {
            mix: Mix::new(&drawn.collect::<Vec<_>>()),
            users: table("user"),
            followers: table("followers"),
            following: table("following"),
            timelines: table("timeline"),
            uid_posts: Bytes::from(format!("{}uid:posts", options.prefix)),
            uid_users: Bytes::from(format!("{}uid:users", options.prefix)),
            graph,
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

    /// How many posts there are at the start. The `p`-th is by the user `p * users_per_post`.
    fn loaded_posts(&self) -> usize {
        self.graph.users().div_ceil(self.options.users_per_post)
    }

    fn author(&self, post: usize) -> usize {
        post * self.options.users_per_post
    }

    fn user_calls(&self, user: usize) -> impl Iterator<Item = Call> + '_ {
        let lists = [
            (&self.followers[user], self.graph.followers(user)),
            (&self.following[user], self.graph.following(user)),
        ];
        let adds = lists.into_iter().flat_map(|(key, list)| {
            let members =
                |chunk: &[u32]| ops::sadd_all(chunk.iter().map(|user| names::decimal(u64::from(*user))));
            list.chunks(MEMBERS_MAX).map(move |chunk| Call::new(key, members(chunk)))
        });
        std::iter::once(Call::new(&self.users[user], user_fields(Id::Loaded(user as u32)))).chain(adds)
    }

    fn post_calls(&self, post: usize) -> impl Iterator<Item = Call> + '_ {
        let (author, id) = (self.author(post), Id::Loaded(post as u32));
        let record = Call::new(&self.key("post", id), post_fields(author, id));
        let readers = self.graph.followers(author).iter().copied().chain([author as u32]);
        let put =
            move |reader: u32| Call::new(&self.timelines[reader as usize], ops::zadd(id.name(), post as f64));
        std::iter::once(record).chain(readers.map(put))
    }
}

fn user_fields(id: Id) -> Operation {
    ops::hset([("name", id.titled("user "))])
}

fn post_fields(author: usize, id: Id) -> Operation {
    ops::hset([("author", names::decimal(author as u64)), ("text", id.titled("this is post "))])
}

/// The workload.
#[derive(Debug)]
pub struct Retwis {
    tables: Arc<Tables>,
}

impl Retwis {
    /// With these parameters. O(edges * scale).
    pub fn new(options: Options) -> Self {
        Retwis { tables: Arc::new(Tables::new(options)) }
    }

    /// Who follows whom at the start.
    pub fn graph(&self) -> &Graph {
        &self.tables.graph
    }
}

impl Workload for Retwis {
    fn name(&self) -> &'static str {
        NAME
    }

    fn kinds(&self) -> &'static [Kind] {
        KINDS
    }

    fn load(&self) -> Batches<'_> {
        let tables = &*self.tables;
        let users = (0..tables.graph.users()).flat_map(|user| tables.user_calls(user));
        let posts = (0..tables.loaded_posts()).flat_map(|post| tables.post_calls(post));
        batches(users.chain(posts))
    }

    fn run(&self) -> Box<dyn Run> {
        let clock = Arc::new(AtomicU64::new(self.tables.loaded_posts() as u64));
        Box::new(RetwisRun { tables: self.tables.clone(), clock, total: Arc::default() })
    }
}

struct RetwisRun {
    tables: Arc<Tables>,
    /// How many posts and reposts there have been: when one was made.
    clock: Arc<AtomicU64>,
    total: Arc<Mutex<Tally>>,
}

impl Run for RetwisRun {
    fn client(&self, seed: u64) -> Box<dyn Client> {
        let (tables, clock, total) = (self.tables.clone(), self.clock.clone(), self.total.clone());
        Box::new(RetwisClient::new(tables, clock, total, seed))
    }

    fn verify(&self, promise: Promise, read: &mut dyn FnMut(Call) -> Reply) -> Vec<Violation> {
        self.total.lock().unwrap_or_else(PoisonError::into_inner).verify(&self.tables, promise, read)
    }
}
