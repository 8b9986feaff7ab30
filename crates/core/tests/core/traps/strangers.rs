//! Trap 24: a shard speaks of a transaction in which it takes no part, or of calls that another one has.
//!
//! Bug: whoever speaks of an attempt becomes a participant of it. Consequence: the vote of one that was never asked is waited for
//! and counted, its no ends the attempt, and an answer of one shard is taken for that of another. Mend: the word of one
//! that is no participant, and an answer to a call that it was not asked, count for nothing.

use claret_core::message::{Refusal, Response, Status};
use claret_core::{CallNo, Event, Incarnation, ShardId, Time};
use claret_types::Reply;

use crate::harness::{Kind, Tx, World, get, incr_returning};

/// All that a shard can say of an attempt.
fn said(w: &World, tx: Tx, shard: u32) -> Vec<Response> {
    let (attempt, shard) = (w.attempt(tx), ShardId(shard));
    let (since, incarnation) = (Incarnation(9), Incarnation(9));
    let replies = || vec![(CallNo(0), Reply::Int(13))];
    let asked = |status| Response::Asked { attempt, status, since };
    vec![
        Response::Granted { attempt, no: CallNo(0), reply: Reply::Int(13), granted: 7, incarnation },
        Response::Queued { attempt, no: None },
        Response::Busy { attempt },
        Response::Elder { attempt, shard, birth: Time(0) },
        Response::Voted { attempt, shard, replies: replies() },
        Response::Committed { attempt, replies: replies() },
        Response::Refused { attempt, shard, refusal: Refusal::Withdrawn, since },
        Response::Refused { attempt, shard, refusal: Refusal::Unknown, since },
        Response::Applied { attempt, shard },
        Response::Aborted { attempt, shard },
        asked(Status::Prepared),
        asked(Status::Refused),
        asked(Status::Lost),
    ]
}

fn assert_unheard(w: &mut World, tx: Tx) {
    let now = w.now;
    for response in said(w, tx, 2) {
        let coordinator = w.coordinator_mut(tx);
        let before = coordinator.digest();
        coordinator.handle_response(now, ShardId(2), response.clone());
        assert_eq!(coordinator.digest(), before, "{response:?}");
        assert_eq!((coordinator.poll_send(), coordinator.poll_event()), (None, None), "{response:?}");
    }
}

#[test]
fn trap_24_who_takes_no_part_is_not_heard() {
    let mut w = World::new(3);
    let tx = w.begin();
    w.execute(tx, 0, "k", get());
    assert_unheard(&mut w, tx);
    w.run();
    w.buffer(tx, 1, "k", incr_returning(5));
    w.commit(tx);
    assert_unheard(&mut w, tx);
    // It is to be withdrawn, and nobody who was not asked may say no for those who were.
    let other = w.begin();
    w.buffer(other, 0, "x", incr_returning(1));
    w.buffer(other, 1, "y", incr_returning(1));
    w.commit(other);
    w.abort(other);
    assert_unheard(&mut w, other);
    w.run();
    assert!(w.committed(tx));
    assert!(w.committed(other), "both voted before they heard that it was to end");
    w.assert_quiet();
}

#[test]
fn trap_24_a_shard_answers_its_own_calls_alone() {
    let mut w = World::new(2);
    let tx = w.begin();
    w.execute(tx, 0, "k", get());
    w.run();
    w.execute(tx, 1, "k", get());
    w.run();
    let (asked, now) = (w.execute(tx, 0, "other", get()), w.now);
    let forged = Response::Granted {
        attempt: w.attempt(tx),
        no: asked,
        reply: Reply::Int(13),
        granted: 2,
        incarnation: Incarnation(1),
    };
    w.coordinator_mut(tx).handle_response(now, ShardId(1), forged);
    assert!(w.coordinator(tx).awaits_answers(), "another shard was asked");
    w.run();
    let (first, second) = (w.buffer(tx, 0, "k", incr_returning(5)), w.buffer(tx, 1, "k", incr_returning(5)));
    w.commit(tx);
    w.run_until(|message| message.kind() == Kind::Voted && message.shard() == 1);
    let vote = Response::Voted {
        attempt: w.attempt(tx),
        shard: ShardId(1),
        replies: vec![(first, Reply::Int(13)), (second, Reply::Int(5)), (CallNo(99), Reply::Int(13))],
    };
    w.coordinator_mut(tx).handle_response(now, ShardId(1), vote);
    w.run();
    let ended = w.events(tx);
    let replies = ended.iter().find_map(|it| match it {
        Event::Committed { replies } => Some(replies.clone()),
        _ => None,
    });
    let mut replies = replies.expect("it is committed");
    replies.sort_unstable_by_key(|(no, _)| *no);
    assert_eq!(replies, [(first, Reply::Int(5)), (second, Reply::Int(5))]);
    w.assert_quiet();
}
