//! Who follows whom: a Kronecker graph as in the Graph 500 benchmark.
//!
//! Each edge falls into one of the four quadrants of the adjacency matrix with the probabilities A, B, C
//! and D, then into a quadrant of that quadrant, down to a single cell. Vertices are then renumbered at
//! random, so that a number says nothing about a degree. Loops and duplicate edges are left out, as a user
//! follows another once. The same seed gives the same graph.

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

const A: f64 = 0.57;
const B: f64 = 0.19;
const C: f64 = 0.19;

/// A directed graph: an edge from the follower to the followed.
#[derive(Clone, Debug)]
pub struct Graph {
    followers: Adjacency,
    following: Adjacency,
}

/// The neighbours of each vertex, one list after another.
#[derive(Clone, Debug, PartialEq)]
struct Adjacency {
    starts: Vec<u32>,
    neighbours: Vec<u32>,
}

impl Adjacency {
    /// From edges `(vertex, neighbour)`, sorted and without duplicates.
    fn new(vertices: usize, edges: &[(u32, u32)]) -> Self {
        let mut starts = vec![0; vertices + 1];
        for (vertex, _) in edges {
            starts[*vertex as usize + 1] += 1;
        }
        for i in 0..vertices {
            starts[i + 1] += starts[i];
        }
        Adjacency { starts, neighbours: edges.iter().map(|(_, neighbour)| *neighbour).collect() }
    }

    fn of(&self, vertex: usize) -> &[u32] {
        &self.neighbours[self.starts[vertex] as usize..self.starts[vertex + 1] as usize]
    }
}

impl Graph {
    /// A graph of `2^scale` users and `edge_factor` times as many edges, before loops and duplicates are
    /// left out. O(edges * scale).
    ///
    /// # Panics
    /// When `scale` is over 31.
    pub fn kronecker(scale: u32, edge_factor: usize, seed: u64) -> Self {
        assert!(scale <= 31, "a scale of {scale} is over 31, the largest that user numbers reach");
        let users = 1usize << scale;
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut numbers: Vec<u32> = (0..users as u32).collect();
        numbers.shuffle(&mut rng);
        let mut edges: Vec<(u32, u32)> = (0..users * edge_factor)
            .map(|_| cell(scale, &mut rng))
            .map(|(from, to)| (numbers[from as usize], numbers[to as usize]))
            .filter(|(from, to)| from != to)
            .collect();
        let following = sorted(users, &mut edges);
        edges.iter_mut().for_each(|edge| *edge = (edge.1, edge.0));
        let followers = sorted(users, &mut edges);
        Graph { followers, following }
    }

    /// How many users.
    pub fn users(&self) -> usize {
        self.followers.starts.len() - 1
    }

    /// How many edges.
    pub fn edges(&self) -> usize {
        self.followers.neighbours.len()
    }

    /// Who follows a user, in the order of their numbers.
    pub fn followers(&self, user: usize) -> &[u32] {
        self.followers.of(user)
    }

    /// Whom a user follows, in the order of their numbers.
    pub fn following(&self, user: usize) -> &[u32] {
        self.following.of(user)
    }
}

fn cell(scale: u32, rng: &mut SmallRng) -> (u32, u32) {
    let (mut from, mut to) = (0, 0);
    for _ in 0..scale {
        let at: f64 = rng.random();
        let is_lower = at >= A + B;
        let is_right = (A..A + B).contains(&at) || at >= A + B + C;
        from = from << 1 | u32::from(is_lower);
        to = to << 1 | u32::from(is_right);
    }
    (from, to)
}

fn sorted(users: usize, edges: &mut Vec<(u32, u32)>) -> Adjacency {
    edges.sort_unstable();
    edges.dedup();
    Adjacency::new(users, edges)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCALE: u32 = 14;

    fn degrees(graph: &Graph) -> Vec<usize> {
        let mut degrees: Vec<_> = (0..graph.users()).map(|user| graph.followers(user).len()).collect();
        degrees.sort_unstable_by(|a, b| b.cmp(a));
        degrees
    }

    #[test]
    fn a_seed_decides_the_graph() {
        let (one, same, other) =
            (Graph::kronecker(10, 16, 1), Graph::kronecker(10, 16, 1), Graph::kronecker(10, 16, 2));
        assert_eq!(one.followers, same.followers);
        assert_ne!(one.followers, other.followers);
    }

    #[test]
    fn both_directions_have_the_same_edges() {
        let graph = Graph::kronecker(8, 16, 1);
        for user in 0..graph.users() {
            for follower in graph.followers(user) {
                assert!(graph.following(*follower as usize).contains(&(user as u32)));
                assert_ne!(*follower as usize, user, "nobody follows himself");
            }
        }
        let following: usize = (0..graph.users()).map(|user| graph.following(user).len()).sum();
        assert_eq!(following, graph.edges());
    }

    /// The share of all followers that the top hundredth of the users has: 1/100 in a random graph.
    #[test]
    fn few_users_have_most_followers() {
        let graph = Graph::kronecker(SCALE, 16, 1);
        let degrees = degrees(&graph);
        let top: usize = degrees[..degrees.len() / 100].iter().sum();
        let share = top as f64 / graph.edges() as f64;
        assert!((0.2..0.6).contains(&share), "the top hundredth has {share} of the followers");
        let mean = graph.edges() as f64 / graph.users() as f64;
        assert!((11.0..16.0).contains(&mean), "{mean} followers on average, after duplicates are left out");
        assert!(degrees[0] as f64 > 50.0 * mean, "the most followed user has {}", degrees[0]);
    }

    /// On a log-log plot of how many users have more than `d` followers, each fourfold `d` falls by a
    /// factor (by steps: a Kronecker graph has favoured degrees); a random (Poisson) graph would have no
    /// user at all with five times the mean.
    #[test]
    fn degrees_fall_by_a_power() {
        let degrees = degrees(&Graph::kronecker(SCALE, 16, 1));
        let more_than = |bound: usize| degrees.iter().filter(|degree| **degree > bound).count() as f64;
        for bound in [8, 32, 128] {
            let fall = more_than(bound) / more_than(4 * bound);
            assert!((1.5..40.0).contains(&fall), "from {bound} to {} the users fall {fall} times", 4 * bound);
        }
    }
}
