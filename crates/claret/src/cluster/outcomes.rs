//! Asks all nodes what they have written for an attempt (P89): `CLARET.OUTCOME` on each, over a connection of its own.

use std::time::Duration;

use claret_core::{Asked, Incarnation, Known, ShardId, Told, Written};
use claret_redis::connection::Connection;
use claret_redis::net::{Net, Service};
use claret_redis::{Address, Settings};
use claret_types::Reply;
use tokio::time::timeout;

use crate::backend::Asking;
use crate::error::{BeginError, Error};
use crate::outcome::Outcome;

/// Asks, on whatever runtime the user is.
pub(super) fn ask<S: Service>(net: &Net<S>, asked: Asked) -> Asking {
    let (settings, nodes) = (net.settings().clone(), net.nodes());
    let patience = settings.response_timeout();
    let asking = net.runtime().spawn(ask_all(settings, nodes, asked, patience));
    // A runtime that has ended answers nothing.
    Box::pin(async { asking.await.map_err(|_| Error::Begin(BeginError::Closed)) })
}

async fn ask_all(settings: Settings, nodes: Vec<Address>, asked: Asked, patience: Duration) -> Outcome {
    let questions: Vec<_> = nodes
        .into_iter()
        .map(|node| {
            let (settings, attempt) = (settings.clone(), asked.attempt.to_string());
            tokio::spawn(timeout(patience, ask_one(settings, node, attempt)))
        })
        .collect();
    let (mut told, mut is_missing) = (Vec::new(), false);
    for question in questions {
        match question.await {
            Ok(Ok(Some(answer))) => told.push(answer),
            _ => is_missing = true,
        }
    }
    if !is_missing {
        told.extend(gone(&asked, &told));
    }
    match asked.known(&told) {
        Known::Committed => Outcome::Committed,
        Known::Aborted => Outcome::Aborted,
        Known::NotYet => Outcome::NotYet,
        Known::Forgotten => Outcome::Forgotten,
    }
}

/// Shards that none of the nodes is, all of which have answered: nobody remembers what they wrote (P56).
fn gone(asked: &Asked, told: &[Told]) -> Vec<Told> {
    let is_there = |shard: ShardId| told.iter().any(|told| told.shard == shard);
    let missing = asked.participants.iter().map(|listed| listed.shard).filter(|shard| !is_there(*shard));
    missing.map(|shard| Told { shard, written: Written::Lost, since: Incarnation(u64::MAX) }).collect()
}

/// What a node says; `None` if it does not.
async fn ask_one(settings: Settings, node: Address, attempt: String) -> Option<Told> {
    let mut connection = Connection::open(&settings, &node).await.ok()?;
    connection.set_bounds(settings.limits().of_work());
    let reply = connection.ask(&["CLARET.OUTCOME".to_owned(), attempt]).await.ok()?.ok()?;
    read(reply)
}

fn read(reply: Reply) -> Option<Told> {
    let Reply::Array(parts) = reply else { return None };
    let [Reply::Int(shard), Reply::Bytes(since), Reply::Bytes(word)] = parts.as_slice() else { return None };
    Some(Told {
        shard: ShardId(u32::try_from(*shard).ok()?),
        written: Written::of_word(word.as_str()?)?,
        since: Incarnation(since.as_str()?.parse().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_and_others_are_none() {
        let answer = |shard: i64, since: &str, word: &str| {
            read(Reply::Array(vec![Reply::Int(shard), Reply::Bytes(since.into()), Reply::Bytes(word.into())]))
        };
        let told = Told { shard: ShardId(3), written: Written::Prepared, since: Incarnation(u64::MAX) };
        assert_eq!(answer(3, "18446744073709551615", "prepared"), Some(told));
        for (shard, since, word) in [(-1, "1", "nothing"), (3, "x", "nothing"), (3, "1", "perhaps")] {
            assert_eq!(answer(shard, since, word), None, "{shard} {since} {word}");
        }
        assert_eq!(read(Reply::Nil), None);
    }

    #[test]
    fn shards_that_no_node_is_are_lost_once_all_have_answered() {
        let asked: Asked = "7.9/2@1:5,3".parse().expect("an attempt");
        let one = Told { shard: ShardId(1), written: Written::Nothing, since: Incarnation(6) };
        let gone = gone(&asked, &[one]);
        assert_eq!(gone.iter().map(|told| told.shard).collect::<Vec<_>>(), [ShardId(3)]);
        assert_eq!(asked.known(&[one, gone[0]]), Known::Forgotten);
    }
}
