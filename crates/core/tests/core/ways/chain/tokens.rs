//! Chains (`docs/chains.md`): tokens that are lost, doubled, early, or of one who has no right to them; deaths on the way; and
//! what becomes of answers. Traps 46 to 48.

use claret_core::message::Refusal;
use claret_core::ways::chain::WaitingTokens;
use claret_core::{
    AttemptId, Cause, Event, Incarnation, Limits, Sequence, SessionId, Shard, ShardId, Switches, Time,
    Timestamp, TxId,
};
use claret_types::Reply;

use super::{CHAIN, chained, token};
use crate::harness::{Kind, Tx, World, get, incr, incr_returning};

/// A transaction over three shards, its prepares under way.
fn spread(w: &mut World) -> Tx {
    let tx = w.begin();
    for shard in [0, 1, 2] {
        w.coordinator_mut(tx).meet(ShardId(shard), Incarnation(1));
        w.buffer(tx, shard, "k", incr(1));
    }
    w.commit(tx);
    tx
}

fn counters(w: &World) -> [i64; 3] {
    [0, 1, 2].map(|shard| w.counter(shard, "k"))
}

fn leases_run_out(w: &mut World) {
    w.pass_without_coordinators(Limits::default().lease_us);
}

/// K3, K5, K6: the client hears of the decision, and then that it is carried out; nobody else votes aloud.
#[test]
fn a_chain_commits_and_the_client_hears_of_the_decision_alone() {
    let mut w = chained(3);
    let tx = spread(&mut w);
    w.deliver(Kind::Prepare, 2);
    w.deliver(Kind::Prepare, 1);
    assert_eq!([1, 2].map(|shard| w.shards[shard].locked_records()), [0, 0], "deposits hold nothing");
    assert_eq!(w.bag.len(), 1, "and say nothing: {:?}", w.bag);
    w.deliver(Kind::Prepare, 0);
    w.deliver(Kind::Way, 1);
    assert_eq!([0, 1, 2].map(|shard| w.count(Kind::Voted, shard)), [0, 0, 0]);
    assert_eq!(counters(&w), [0, 0, 0]);
    w.deliver(Kind::Way, 2);
    assert_eq!(counters(&w), [0, 0, 1], "the last one decides");
    w.deliver(Kind::Committed, 2);
    assert!(w.committed(tx));
    assert_eq!([0, 1].map(|shard| w.count(Kind::Apply, shard)), [0, 0], "the last one tells the others");
    w.run();
    assert_eq!(counters(&w), [1, 1, 1]);
    assert!(w.coordinator(tx).is_over());
    w.assert_quiet();
}

/// K15: nothing that one shard says to the next one arrives, and the client, which reaches all, goes in two rounds from then on.
#[test]
fn a_chain_whose_tokens_are_always_lost_goes_in_two_rounds() {
    let mut w = chained(3);
    let tx = spread(&mut w);
    for _ in 0..100 {
        w.run_until(|message| message.kind() == Kind::Way);
        w.lose_all();
        if w.restarts(tx) > 0 {
            break;
        }
        w.pass(Limits::default().resend_us);
    }
    assert_eq!(w.restarts(tx), 1, "it does not stand for ever");
    w.restart(tx);
    for shard in [0, 1, 2] {
        w.buffer(tx, shard, "k", incr(1));
    }
    w.commit(tx);
    w.run();
    assert!(w.committed(tx), "in two rounds no token is needed");
    assert_eq!(counters(&w), [1, 1, 1]);
}

/// K6: what is carried out elsewhere is told in any order.
#[test]
fn acknowledgements_may_come_before_the_decision() {
    let mut w = chained(3);
    let tx = spread(&mut w);
    w.run_until(|message| message.kind() == Kind::Committed);
    assert!(!w.committed(tx));
    w.run();
    assert!(w.committed(tx) && w.coordinator(tx).is_over());
}

/// K5, K6: answers come with votes, and a decision does not stand for those that are under way.
#[test]
fn answers_of_all_are_waited_for() {
    let mut w = chained(3);
    let tx = w.begin();
    for shard in [0, 1, 2] {
        w.buffer(tx, shard, "k", incr_returning(i64::from(shard) + 1));
    }
    w.commit(tx);
    w.run_until(|message| message.kind() == Kind::Voted && message.shard() == 0);
    assert!(!w.committed(tx), "the first one's answer is not there");
    w.run();
    let answers = w.events(tx).into_iter().find_map(|event| match event {
        Event::Committed { replies } => Some(replies),
        _ => None,
    });
    let mut answers = answers.expect("it commits");
    answers.sort_by_key(|(no, _)| *no);
    let answers: Vec<Reply> = answers.into_iter().map(|(_, reply)| reply).collect();
    assert_eq!(answers, [Reply::Int(1), Reply::Int(2), Reply::Int(3)]);
}

/// K6: the answers are lost, and the shards have carried it out since.
#[test]
fn answers_that_are_lost_come_again() {
    let mut w = chained(2);
    let tx = w.begin();
    for shard in [0, 1] {
        w.buffer(tx, shard, "k", incr_returning(1));
    }
    w.commit(tx);
    w.run_until(|message| matches!(message.kind(), Kind::Voted | Kind::Committed));
    w.lose_all();
    w.pass(Limits::default().resend_us);
    w.run();
    assert!(w.committed(tx) && w.coordinator(tx).is_over());
    assert_eq!([0, 1].map(|shard| w.counter(shard, "k")), [1, 1]);
}

/// Bug: a participant that heard of the decision from the last one kept its answers as if its client had heard them. Consequence: answers
/// of others came after it, it forgot its own, and the outcome of what was carried out was unknown. Mend (K6): they stay until the
/// low-water mark has passed the attempt.
#[test]
fn answers_that_are_lost_come_again_however_many_came_after_them() {
    let mut w = World::with(2, CHAIN, Limits { answers_bytes_max: 0, ..Limits::default() });
    let tx = w.begin();
    for shard in [0, 1] {
        w.buffer(tx, shard, "k", incr_returning(1));
    }
    w.commit(tx);
    w.run_until(|message| message.kind() == Kind::Voted);
    w.lose_all();
    assert_eq!([0, 1].map(|shard| w.counter(shard, "k")), [1, 1], "it is carried out");
    assert!(!w.committed(tx), "an answer is missing");
    w.pass(Limits::default().resend_us);
    w.run();
    assert!(w.committed(tx), "{:?}", w.events(tx));
}

/// K2: one order, whoever was used first; hot shards come last.
#[test]
fn a_chain_goes_by_number_and_ends_where_it_is_hot() {
    let mut w = chained(3);
    let tx = w.begin();
    for shard in [2, 0, 1] {
        w.buffer(tx, shard, "k", incr(1));
    }
    w.commit_with_last(tx, 0);
    for shard in [0, 1, 2] {
        w.deliver(Kind::Prepare, shard);
    }
    assert_eq!([0, 1, 2].map(|shard| w.shards[shard].locked_records()), [0, 1, 0]);
    w.deliver(Kind::Way, 2);
    w.deliver(Kind::Way, 0);
    assert_eq!(counters(&w), [1, 0, 0], "the hot one decides");
    w.run();
    assert_eq!(counters(&w), [1, 1, 1]);
}

/// Tokens of everybody but who is right before the last one: what that one carries out.
fn with_tokens_of_strangers() -> i64 {
    let mut w = chained(3);
    let tx = spread(&mut w);
    let attempt = w.attempt(tx);
    let forged = |w: &mut World, from: u32| {
        let message = token(attempt, ShardId(from));
        let now = w.now;
        w.shards[2].handle_peer(now, message);
    };
    // Before the prepare, and after it; of a participant, of itself and of a stranger.
    for from in [0, 2, 9] {
        forged(&mut w, from);
    }
    w.deliver(Kind::Prepare, 2);
    for from in [0, 2, 9] {
        forged(&mut w, from);
    }
    w.counter(2, "k")
}

/// K10.
#[test]
fn trap_46_a_token_of_another_shard_does_not_count() {
    assert_eq!(with_tokens_of_strangers(), 0);
}

/// K11.
#[test]
fn trap_47_a_token_waits_for_its_prepare() {
    let mut w = chained(3);
    let tx = spread(&mut w);
    w.run_until(|message| message.kind() == Kind::Prepare && message.shard() == 1);
    let late = w.hold(Kind::Prepare, 1);
    assert_eq!(w.shards[1].waiting_tokens(), 1);
    assert_eq!(w.shards[1].open_attempts(), 0, "it is no attempt");
    w.hand_over(late);
    assert_eq!(w.shards[1].waiting_tokens(), 0);
    w.run();
    assert!(w.committed(tx));
    assert_eq!(counters(&w), [1, 1, 1]);
}

/// K11: the client is dead, and its prepare never comes.
#[test]
fn trap_47_a_token_whose_prepare_never_comes_ends_with_a_no() {
    let mut w = chained(3);
    let tx = spread(&mut w);
    let attempt = w.attempt(tx);
    w.run_until(|message| message.kind() == Kind::Prepare && message.shard() == 1);
    let late = w.hold(Kind::Prepare, 1);
    w.client_dies();
    w.time_out_shard(1, Limits::default().lease_us);
    assert_eq!(w.shards[1].waiting_tokens(), 0);
    assert!(w.shards[1].written(attempt).is_some(), "a no is written");
    leases_run_out(&mut w);
    w.run();
    w.hand_over(late);
    w.run();
    assert_eq!(counters(&w), [0, 0, 0]);
    w.assert_quiet();
}

/// K11: so many wait, a 64th of them of one session, and one more is as if it was lost.
#[test]
fn trap_47_only_so_many_tokens_wait() {
    const ALL: usize = 1 << 16;
    const OF_SESSION: usize = ALL / 64;
    let limits = Limits::default();
    let mut shard = Shard::new(ShardId(1), Incarnation(1), CHAIN, limits);
    let mut w = chained(1);
    let tx = w.begin();
    let own = w.attempt(tx);
    for session in 1..=66 {
        for sequence in 1..=OF_SESSION as u64 / 2 + 1 {
            let tx = TxId { session: SessionId(session), sequence: Sequence(sequence) };
            for from in [0, 2] {
                let attempt = AttemptId { tx, ..own };
                shard.handle_peer(Time(1), token(attempt, ShardId(from)));
            }
        }
        shard.check_invariants();
        let most = ALL.min(OF_SESSION * session as usize);
        assert_eq!(shard.waiting_tokens(), most, "a 64th of each session, and so many in all");
    }
    let late = Time(2).plus(limits.lease_us);
    while shard.poll_timeout().is_some_and(|due| due <= late) {
        shard.handle_timeout(late); // So many at once.
    }
    shard.check_invariants();
    assert_eq!(shard.waiting_tokens(), 0);
}

/// The vote of the first one is known, and its token is lost. Whether it commits.
fn with_a_token_lost_behind_a_vote() -> bool {
    let mut w = chained(2);
    let tx = w.begin();
    for shard in [0, 1] {
        w.buffer(tx, shard, "k", incr_returning(1));
    }
    w.commit(tx);
    w.run_until(|message| message.kind() == Kind::Way);
    w.lose_all();
    w.pass(Limits::default().resend_us);
    w.run();
    w.committed(tx)
}

/// K8.
#[test]
fn trap_48_a_token_is_lost_behind_a_vote_that_is_known() {
    assert!(with_a_token_lost_behind_a_vote());
}

#[cfg(feature = "planted-bugs")]
#[test]
fn tokens_that_are_wrong_are_noticed() {
    use claret_core::{Bug, with_bug};
    assert_eq!(with_bug(Some(Bug::AnyTokenCounts), with_tokens_of_strangers), 1);
    assert!(!with_bug(Some(Bug::ResentToUnvoted), with_a_token_lost_behind_a_vote));
    assert!(!with_bug(Some(Bug::TokenSentOnce), with_a_token_lost_behind_a_vote));
}

/// K8: a token that comes twice, before the prepare and after the vote.
#[test]
fn a_doubled_token_changes_nothing() {
    let mut w = chained(3);
    let tx = spread(&mut w);
    w.deliver(Kind::Prepare, 0);
    let token = w.hold(Kind::Way, 1);
    w.hand_over(token.clone());
    w.hand_over(token.clone());
    w.deliver(Kind::Prepare, 1);
    w.hand_over(token.clone());
    assert_eq!(w.count(Kind::Way, 2), 1);
    w.run();
    w.hand_over(token);
    assert!(w.committed(tx));
    assert_eq!(counters(&w), [1, 1, 1]);
    assert_eq!([0, 1, 2].map(|shard| w.shards[shard].waiting_tokens()), [0, 0, 0]);
}

/// K7: who has voted lets go before the client says so.
#[test]
fn a_no_goes_back_along_the_chain() {
    let mut w = chained(3);
    let holder = w.holder(2, "k", incr_returning(1));
    let tx = spread(&mut w);
    w.run();
    assert_eq!([0, 1].map(|shard| w.shards[shard].locked_records()), [1, 1]);
    w.now = w.now.plus(1);
    let (now, attempt) = (w.now, w.attempt(tx));
    w.shards[2].refuse_these(now, &[attempt], &Refusal::Resolved);
    w.pass(0);
    w.run_until(|message| !matches!(message.kind(), Kind::Answer));
    assert_eq!([0, 1].map(|shard| w.shards[shard].locked_records()), [0, 0]);
    w.run();
    assert!(w.events(tx).iter().any(|event| matches!(event, Event::Failed { .. })));
    w.commit(holder);
    w.run();
    assert_eq!(counters(&w), [0, 0, 1]);
    w.assert_quiet();
}

/// P25 and K8: the client dies, and nobody has decided.
#[test]
fn a_client_dies_before_the_last_one_has_the_token() {
    let mut w = chained(3);
    spread(&mut w);
    w.run_until(|message| message.kind() == Kind::Way && message.shard() == 2);
    w.client_dies();
    leases_run_out(&mut w);
    w.run();
    assert_eq!(counters(&w), [0, 0, 0]);
    w.assert_quiet();
}

/// P25, row 1, and K8: the last one has decided, and what it told the others is lost.
#[test]
fn a_client_dies_after_the_last_one_has_decided() {
    let mut w = chained(3);
    spread(&mut w);
    w.run_until(|message| matches!(message.kind(), Kind::Answer | Kind::Committed));
    w.client_dies();
    leases_run_out(&mut w);
    w.run();
    assert_eq!(counters(&w), [1, 1, 1]);
    w.assert_quiet();
}

/// K4, P21: two chains in opposite orders, because they know of different hot shards; the younger one gives way.
#[test]
fn chains_in_opposite_orders_do_not_stop_each_other() {
    let mut w = chained(2);
    let [elder, younger] = [w.begin(), w.begin()];
    for tx in [elder, younger] {
        for shard in [0, 1] {
            w.buffer(tx, shard, "k", incr_returning(1));
        }
    }
    w.commit_with_last(elder, 1);
    w.commit_with_last(younger, 0);
    w.run();
    assert!(!w.committed(elder) && !w.committed(younger), "each waits for the other one");
    w.pass(Limits::default().give_way_us);
    w.run();
    assert!(w.committed(elder));
    assert_eq!(w.restarts(younger), 1);
    w.restart(younger);
    for shard in [0, 1] {
        w.buffer(younger, shard, "k", incr_returning(1));
    }
    w.commit(younger);
    w.run();
    assert!(w.committed(younger));
    assert_eq!([0, 1].map(|shard| w.counter(shard, "k")), [2, 2]);
    w.assert_quiet();
}

/// K9.
#[test]
fn who_meets_a_shard_without_chains_commits_in_two_rounds() {
    let mut w = chained(2);
    w.shards[1] = Shard::new(ShardId(1), Incarnation(1), Switches::CLARET, Limits::default());
    let tx = w.begin();
    for shard in [0, 1] {
        w.buffer(tx, shard, "k", incr(1));
    }
    w.commit(tx);
    w.run();
    let cause = w.events(tx).into_iter().find_map(|event| match event {
        Event::Restart { cause } => Some(cause),
        _ => None,
    });
    assert_eq!(cause, Some(Cause::Refused(Refusal::OnlyRounds)));
    w.restart(tx);
    for shard in [0, 1] {
        w.buffer(tx, shard, "k", incr(1));
    }
    w.commit(tx);
    w.run();
    assert!(w.committed(tx));
    assert_eq!([0, 1].map(|shard| w.counter(shard, "k")), [1, 1]);
    w.assert_quiet();
}

/// K13: a stamped attempt is no chain.
#[test]
fn who_is_stamped_commits_in_two_rounds() {
    let mut w = chained(2);
    let tx = w.begin();
    for shard in [0, 1] {
        w.buffer(tx, shard, "k", incr(1));
    }
    w.coordinator_mut(tx).stamp(Timestamp(5));
    w.commit(tx);
    for shard in [0, 1] {
        w.deliver(Kind::Prepare, shard);
    }
    assert_eq!([0, 1].map(|shard| w.count(Kind::Voted, shard)), [1, 1]);
    assert_eq!([0, 1].map(|shard| w.count(Kind::Way, shard)), [0, 0]);
}

/// K3, K12: what was locked before the commit stays locked, and another transaction passes a deposit.
#[test]
fn a_deposit_is_passed_by_everybody() {
    let mut w = chained(2);
    let tx = w.begin();
    w.execute(tx, 1, "held", get());
    w.run();
    for shard in [0, 1] {
        w.buffer(tx, shard, "k", incr_returning(1));
    }
    w.commit(tx);
    w.deliver(Kind::Prepare, 1);
    w.set_up(1, "k", incr_returning(10));
    w.run();
    assert!(w.committed(tx));
    assert_eq!([0, 1].map(|shard| w.counter(shard, "k")), [1, 11]);
    w.assert_quiet();
}
