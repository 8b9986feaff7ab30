//! The distributions of the workloads, which the papers draw in figures 8 and 12: nothing is measured, only drawn and counted.

use std::collections::HashMap;

use claret_bench::workload::retwis::{Graph, RetwisMix};
use claret_bench::workload::rubis::RubisMix;
use claret_bench::workload::sequential::{Fate, Sequential};
use claret_bench::workload::{Call, WorkloadSpec};

use super::runs::Load;
use super::scale::Scale;

/// Clients that draw in turn.
const CLIENTS: u64 = 16;
/// Parts of an auction's time.
const PARTS: usize = 20;
/// Auctions where bids are counted over time: so few that many of them are open from the start of a run to their end.
const ITEMS: usize = 300;

type Points = Vec<(f64, f64)>;

/// Bids per item by the item's rank, and the share of bids in each part of an auction's time.
pub(super) fn bids(scale: &Scale, seed: u64) -> Result<(Points, Points), String> {
    let items = ITEMS.min(scale.items);
    let scale = Scale { items, ..scale.clone() };
    let spec = Load::Rubis(RubisMix::BidHeavy).spec(&scale, seed);
    // For each item, at how many closings its bids came; a closed one moves to its place in `parts`.
    let mut open: HashMap<Vec<u8>, Vec<usize>> = HashMap::new();
    let (mut totals, mut parts, mut closings) = (HashMap::<Vec<u8>, usize>::new(), [0usize; PARTS], 0usize);
    let mut see = |kind: &str, call: &Call| {
        if !call.key.starts_with(b"rubis:bids:") {
            return;
        }
        if kind == "bid" {
            *totals.entry(call.key.to_vec()).or_default() += 1;
            open.entry(call.key.to_vec()).or_default().push(closings);
        } else if kind == "close-auction" {
            closings += 1;
            let bids = open.remove(call.key.as_ref()).unwrap_or_default();
            // What was open before the run began was not seen from its start.
            for at in bids.into_iter().filter(|_| closings > items) {
                let before_end = (closings - at).min(items) as f64 / items as f64;
                parts[(((1.0 - before_end) * PARTS as f64) as usize).min(PARTS - 1)] += 1;
            }
        }
    };
    draw(&spec, scale.drawn.max(items * 1_000), &mut see)?;
    let mut counts: Vec<usize> = totals.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let sum: usize = parts.iter().sum();
    let share = |count: usize| 100.0 * count as f64 / sum.max(1) as f64;
    let part = |at: usize| 100.0 * (at as f64 + 0.5) / PARTS as f64;
    let over_time = parts.iter().enumerate().map(|(at, count)| (part(at), share(*count)));
    Ok((ranked(&counts), over_time.collect()))
}

/// For numbers of followers, and for numbers of reposts: how many users, and posts, have at least so many; and what they are on
/// average and at most, in words.
pub(super) fn followers_and_reposts(scale: &Scale, seed: u64) -> Result<[(Points, String); 2], String> {
    let graph = Graph::kronecker(scale.users, 16, seed);
    let followers: Vec<usize> = (0..graph.users()).map(|user| graph.followers(user).len()).collect();
    let spec = Load::Retwis(RetwisMix::PostHeavy, scale.workshop_users).spec(scale, seed);
    let mut reposts: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut see = |kind: &str, call: &Call| {
        if kind == "repost" && call.key.starts_with(b"retwis:reposts:") {
            *reposts.entry(call.key.to_vec()).or_default() += 1;
        }
    };
    draw(&spec, scale.drawn, &mut see)?;
    let reposts: Vec<usize> = reposts.into_values().collect();
    let mean = followers.iter().sum::<usize>() as f64 / followers.len().max(1) as f64;
    let most = reposts.iter().max().unwrap_or(&0);
    let users = 1usize << scale.workshop_users;
    Ok([
        (at_least(&followers), format!("On average a user has {mean:.1} followers.")),
        (
            at_least(&reposts),
            format!("The post with most reposts has {most} of them, in a graph of {users} users."),
        ),
    ])
}

/// Draws transactions of a workload and carries them out one at a time.
fn draw(spec: &WorkloadSpec, transactions: usize, see: &mut dyn FnMut(&str, &Call)) -> Result<(), String> {
    let workload = spec.make("");
    let refused = |error: claret_types::OpError| format!("{}: {error}", spec.name());
    let mut store = Sequential::loaded(workload.as_ref()).map_err(refused)?;
    let run = workload.run();
    let mut clients: Vec<_> = (0..CLIENTS).map(|seed| run.client(seed)).collect();
    let mut calls = Vec::new();
    for turn in 0..transactions {
        let client = clients[turn % CLIENTS as usize].as_mut();
        let mut note = |call: &Call| {
            calls.push(call.clone());
            Fate::Done
        };
        let kind = store.transaction(client, &mut note).map_err(refused)?;
        let name = workload.kinds()[kind].name;
        calls.drain(..).for_each(|call| see(name, &call));
    }
    Ok(())
}

/// The counts, which fall, by their rank; of the later ones some, for a line of a page needs no more.
fn ranked(counts: &[usize]) -> Points {
    let step = |rank: usize| (rank as f64 * 1.15).ceil() as usize;
    let mut points = Points::new();
    let mut rank = 1;
    while rank <= counts.len() {
        points.push((rank as f64, counts[rank - 1] as f64));
        rank = step(rank).max(rank + 1);
    }
    points
}

/// How many counts are at least 1, 2, 4 and so on.
fn at_least(counts: &[usize]) -> Points {
    let bounds = (0..32).map(|power| 1usize << power);
    let points =
        bounds.map(|bound| (bound as f64, counts.iter().filter(|count| **count >= bound).count() as f64));
    points.take_while(|(_, count)| *count > 0.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_become_points() {
        assert_eq!(ranked(&[9, 5, 1]), [(1.0, 9.0), (2.0, 5.0), (3.0, 1.0)]);
        assert!(ranked(&vec![1; 10_000]).len() < 80);
        assert_eq!(at_least(&[0, 1, 3, 4]), [(1.0, 3.0), (2.0, 2.0), (4.0, 1.0)]);
    }

    /// As the papers have it: a few items draw most bids, and bids come late.
    #[test]
    fn bids_follow_a_power_law_and_come_late() {
        let (by_item, over_time) = bids(&Scale::TINY, 1).expect("drawn");
        assert!(by_item[0].1 > 10.0 * by_item.last().expect("some").1, "{by_item:?}");
        assert_eq!(over_time.len(), PARTS);
        assert!(over_time[PARTS - 1].1 > 3.0 * over_time[PARTS / 2].1, "{over_time:?}");
        let sum: f64 = over_time.iter().map(|(_, share)| share).sum();
        assert!((sum - 100.0).abs() < 1e-6, "{sum}");
    }
}
