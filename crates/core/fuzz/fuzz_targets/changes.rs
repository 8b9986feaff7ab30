//! Any bytes as what a primary tells its replicas: refused, or a backup that can be told on; and a shard goes on with it.
#![no_main]

use claret_core::message::{PeerMessage, Status};
use claret_core::wire::{decode_change, encode_change};
use claret_core::{Backup, Change, Incarnation, Limits, Shard, Switches, Time, Vote};
use libfuzzer_sys::fuzz_target;

/// All that a backup knows, as a primary would tell it.
fn told(backup: &Backup) -> Vec<u8> {
    backup.changes().flat_map(|change| encode_change(&change).expect("it was read")).collect()
}

/// What bytes tell; `None` if something among them cannot be read.
fn taken(mut rest: &[u8]) -> Option<Backup> {
    let mut backup = Backup::default();
    while !rest.is_empty() {
        let (change, behind) = decode_change(rest).ok()?;
        backup.take(change);
        rest = behind;
    }
    Some(backup)
}

fn vote(change: Change) -> Option<Vote> {
    if let Change::Voted(vote) = change { Some(*vote) } else { None }
}

fuzz_target!(|bytes: &[u8]| {
    let Some(backup) = taken(bytes) else { return };
    // Of a session of which nothing is known but a vote, the vote is told, and with it there is a session. A NaN is not equal to
    // itself, so bytes are compared.
    let again = |all: &[u8]| told(&taken(all).expect("a backup can be told"));
    let all = again(&told(&backup));
    assert_eq!(again(&all), all);
    let votes: Vec<Vote> = backup.changes().filter_map(vote).collect();
    let (incarnation, switches) = (Incarnation(u64::MAX / 2), Switches::CLARET);
    let promoted = Shard::promote(backup, None, Time(1), incarnation, switches, Limits::default());
    let Some(mut shard) = promoted else { return };
    // It asks, and hears that all of them were refused: then nothing is held. Before that they may be in conflict, if it was lied to.
    shard.handle_timeout(Time(u64::MAX / 4));
    let own = shard.id();
    for Vote { attempt, participants, .. } in votes {
        for listed in participants.iter().filter(|listed| listed.shard != own) {
            let answer = PeerMessage::Answer { attempt, from: listed.shard, status: Status::Refused };
            shard.handle_peer(Time(u64::MAX / 4), answer);
        }
    }
    while shard.poll_output().is_some() {}
    assert_eq!((shard.open_attempts(), shard.held_keys().count()), (0, 0));
    shard.check_invariants();
    shard.handle_timeout(Time(u64::MAX / 2));
    shard.check_invariants();
});
