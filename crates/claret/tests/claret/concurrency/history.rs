//! Checks a history of appends and whole reads of lists for strict serializability, from its results alone.
//!
//! Every appended value is unique, so a read tells which appends came before it and in what order. From that
//! follow the edges that any serial order must respect: who wrote after whom, who read from whom, who read
//! before whom wrote, and who had ended before who began. There is such an order exactly when they form no
//! cycle. (The idea is that of Kingsbury and Alvaro's Elle, VLDB 2020, s.3.)

use std::collections::HashMap;

/// A committed transaction: what it appended and what it read, by key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Done {
    pub(crate) began: u64,
    pub(crate) ended: u64,
    pub(crate) appended: Vec<(usize, u64)>,
    pub(crate) read: Vec<(usize, Vec<u64>)>,
}

/// What is wrong with a history, if anything is. `last` is the content of each key in the end. A transaction
/// reads a key before it appends to it.
pub(crate) fn check(history: &[Done], last: &[Vec<u64>]) -> Result<(), String> {
    let mut writers: HashMap<(usize, u64), usize> = HashMap::new();
    for (tx, done) in history.iter().enumerate() {
        for append in &done.appended {
            writers.insert(*append, tx);
        }
    }
    let mut edges = vec![Vec::new(); history.len()];
    for (key, content) in last.iter().enumerate() {
        let order: Vec<usize> = content
            .iter()
            .map(|value| writers.get(&(key, *value)).copied().ok_or(format!("{value} was never committed")))
            .collect::<Result<_, _>>()?;
        let committed = writers.keys().filter(|(at, _)| *at == key).count();
        if order.len() != committed {
            return Err(format!("key {key} has {committed} values appended, and holds {content:?}"));
        }
        order.windows(2).for_each(|pair| edges[pair[0]].push(pair[1]));
        for (tx, done) in history.iter().enumerate() {
            for (_, seen) in done.read.iter().filter(|(at, _)| *at == key) {
                if !content.starts_with(seen) {
                    return Err(format!(
                        "key {key}: {seen:?} was read, which is no beginning of {content:?}"
                    ));
                }
                edges[tx].extend(order.get(seen.len()));
                if let Some(before) = seen.len().checked_sub(1) {
                    edges[order[before]].push(tx);
                }
            }
        }
    }
    for (tx, done) in history.iter().enumerate() {
        let later = history.iter().enumerate().filter(|(_, other)| done.ended < other.began);
        edges[tx].extend(later.map(|(other, _)| other));
    }
    match in_a_cycle(&edges) {
        Some(tx) => Err(format!("no serial order: {:?} is part of a cycle, or behind one", history[tx])),
        None => Ok(()),
    }
}

/// Takes away, again and again, what has nothing before it (Kahn, 1962). Returns one that is left.
fn in_a_cycle(edges: &[Vec<usize>]) -> Option<usize> {
    let mut before = vec![0; edges.len()];
    let onward = |tx: usize| edges[tx].iter().copied().filter(move |next| *next != tx);
    (0..edges.len()).flat_map(onward).for_each(|next| before[next] += 1);
    let mut free: Vec<usize> = (0..edges.len()).filter(|tx| before[*tx] == 0).collect();
    while let Some(tx) = free.pop() {
        for next in onward(tx) {
            before[next] -= 1;
            if before[next] == 0 {
                free.push(next);
            }
        }
    }
    before.iter().position(|left| *left > 0)
}

#[test]
fn the_checker_tells_good_from_bad() {
    let done = |began, ended, appended: &[(usize, u64)], read: &[(usize, &[u64])]| Done {
        began,
        ended,
        appended: appended.to_vec(),
        read: read.iter().map(|(key, seen)| (*key, seen.to_vec())).collect(),
    };
    let append = done(0, 1, &[(0, 7), (1, 8)], &[]);
    let both = [vec![7], vec![8]];
    assert_eq!(check(&[append.clone(), done(2, 3, &[], &[(0, &[7]), (1, &[8])])], &both), Ok(()));
    let overlapping = done(0, 3, &[], &[(0, &[]), (1, &[])]);
    assert_eq!(check(&[append.clone(), overlapping], &both), Ok(()));
    let stale = done(2, 3, &[], &[(0, &[])]);
    assert!(check(&[append.clone(), stale], &both).is_err(), "read the past after it was over");
    let torn = done(0, 3, &[], &[(0, &[7]), (1, &[])]);
    assert!(check(&[append.clone(), torn], &both).is_err(), "half a transaction");
    let skewed = [done(0, 9, &[(0, 1)], &[(1, &[])]), done(0, 9, &[(1, 2)], &[(0, &[])])];
    assert!(check(&skewed, &[vec![1], vec![2]]).is_err(), "write skew");
    assert!(check(std::slice::from_ref(&append), &[vec![7], vec![]]).is_err(), "a lost append");
    assert!(check(&[append], &[vec![7, 9], vec![8]]).is_err(), "an append of nobody");
}
