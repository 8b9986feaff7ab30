//! Traps of commands of the server as steps (A19 to A25 of `docs/scripts.md`), each with the planted bug that springs it. On records in
//! memory `APPEND` and `STRLEN` stand for them.

use claret_core::{Backup, Bug, CallNo, Event, Incarnation, Limits, Shard, ShardId, Switches, with_bug};
use claret_types::{Access, Bytes, Command, KeyspaceOp, Operation, Register, Reply, Text};

use crate::harness::{Kind, Tx, World, incr, set};

fn command(access: Access, words: &[&str]) -> Operation {
    let words: Vec<Bytes> = words.iter().map(|word| Bytes::from(*word)).collect();
    Operation::from(KeyspaceOp::Run(Command::new(access, &words)))
}

fn append(key: &str, more: &str) -> Operation {
    command(Access::Write, &["APPEND", key, more])
}

fn strlen(key: &str) -> Operation {
    command(Access::Read, &["STRLEN", key])
}

fn text(w: &World, shard: usize, key: &str) -> Option<Bytes> {
    let state = w.shards[shard].state(key.as_bytes())?;
    state.downcast::<Register>().and_then(Text::to_bytes)
}

/// Calls of one transaction, which is about to commit.
fn committing(w: &mut World, calls: &[(u32, &str, Operation)]) -> Tx {
    let tx = w.begin();
    for shard in calls.iter().map(|(shard, ..)| *shard) {
        w.coordinator_mut(tx).meet(ShardId(shard), Incarnation(1));
    }
    for (shard, key, op) in calls {
        w.buffer(tx, *shard, key, op.clone());
    }
    w.commit(tx);
    tx
}

/// What its caller was told, in the order of the calls.
fn answers(w: &mut World, tx: Tx) -> Vec<Reply> {
    let mut answers = unsorted_answers(w, tx);
    answers.sort_by_key(|(no, _)| *no);
    answers.into_iter().map(|(_, reply)| reply).collect()
}

fn unsorted_answers(w: &mut World, tx: Tx) -> Vec<(CallNo, Reply)> {
    let told = w.events(tx).into_iter().find_map(|event| match event {
        Event::Committed { replies } => Some(replies),
        _ => None,
    });
    told.unwrap_or_default()
}

/// Bug: a command answers what it would have answered when it was locked, or its caller is told before it has. What another command of
/// the same transaction does before it counts, and so does what is carried out first.
fn answers_of_two_shards() -> Option<Vec<Reply>> {
    let mut w = World::new(2);
    let calls =
        [(0, "x", set("ab")), (0, "x", append("x", "c")), (1, "y", append("y", "de")), (1, "y", strlen("y"))];
    let tx = committing(&mut w, &calls);
    for shard in [0, 1] {
        w.deliver(Kind::Prepare, shard);
        w.deliver(Kind::Voted, shard);
    }
    if w.committed(tx) {
        return None;
    }
    w.run();
    assert!(w.committed(tx), "all have answered");
    assert_eq!(text(&w, 0, "x"), Some("abc".into()));
    w.assert_quiet();
    Some(answers(&mut w, tx))
}

#[test]
fn trap_57_a_caller_hears_what_commands_answered_when_they_were_carried_out() {
    let right = Some(vec![Reply::Int(3), Reply::Int(2), Reply::Int(2)]);
    assert_eq!(answers_of_two_shards(), right);
    for bug in [Bug::CommandsAnswerEarly, Bug::ToldBeforeLateAnswers] {
        assert_ne!(with_bug(Some(bug), answers_of_two_shards), right, "{bug:?}");
    }
}

/// Bug: what commands answered is told once. The acknowledgement is lost, and the caller waits for ever, or hears nothing of it.
fn answer_that_was_lost() -> (Option<Vec<Reply>>, Option<Bytes>) {
    let mut w = World::new(2);
    let tx = committing(&mut w, &[(0, "x", append("x", "ab")), (1, "y", append("y", "c"))]);
    for shard in [0, 1] {
        w.deliver(Kind::Prepare, shard);
        w.deliver(Kind::Voted, shard);
    }
    w.deliver(Kind::Apply, 0);
    w.lose_all();
    w.pass(Limits::default().resend_us);
    w.run();
    let told = w.committed(tx).then(|| answers(&mut w, tx));
    (told, text(&w, 0, "x"))
}

#[test]
fn trap_58_an_answer_that_is_lost_is_said_again_and_the_command_is_not_carried_out_again() {
    let right = (Some(vec![Reply::Int(2), Reply::Int(1)]), Some(Bytes::from("ab")));
    assert_eq!(answer_that_was_lost(), right);
    for bug in [Bug::LateAnswersOnce, Bug::CommandsRunTwice] {
        assert_ne!(with_bug(Some(bug), answer_that_was_lost), right, "{bug:?}");
    }
}

/// A shard votes for commands, dies, and whoever is promoted hears the apply.
#[test]
fn trap_59_whoever_is_promoted_between_vote_and_apply_carries_commands_out_once() {
    let mut w = World::new(2);
    w.shards[0].replicate();
    let tx = committing(
        &mut w,
        &[(0, "x", append("x", "ab")), (0, "x", append("x", "c")), (1, "y", append("y", "d"))],
    );
    for shard in [0, 1] {
        w.deliver(Kind::Prepare, shard);
    }
    let mut backup = Backup::default();
    w.replicate(0, &mut backup);
    let promoted = Shard::promote(backup, None, w.now, Incarnation(2), Switches::CLARET, Limits::default());
    w.shards[0] = promoted.expect("it is of a shard");
    w.run();
    assert!(w.committed(tx));
    assert_eq!(answers(&mut w, tx), [Reply::Int(2), Reply::Int(3), Reply::Int(1)]);
    assert_eq!(text(&w, 0, "x"), Some("abc".into()));
    w.assert_quiet();
}

/// The same once it was carried out: the answers are known there, and whoever is promoted says them again.
fn answers_that_outlive() -> Option<Vec<Reply>> {
    let mut w = World::new(2);
    w.shards[0].replicate();
    let tx = committing(&mut w, &[(0, "x", append("x", "ab")), (1, "y", append("y", "d"))]);
    let mut backup = Backup::default();
    for shard in [0, 1] {
        w.deliver(Kind::Prepare, shard);
    }
    w.replicate(0, &mut backup);
    for shard in [0, 1] {
        w.deliver(Kind::Voted, shard);
    }
    w.deliver(Kind::Apply, 0);
    w.replicate(0, &mut backup);
    w.lose_all();
    let mut again = Backup::default();
    backup.changes().for_each(|change| again.take(change));
    let promoted = Shard::promote(again, None, w.now, Incarnation(2), Switches::CLARET, Limits::default());
    w.shards[0] = promoted.expect("it is of a shard");
    w.pass(Limits::default().resend_us);
    w.run();
    w.committed(tx).then(|| answers(&mut w, tx))
}

#[test]
fn trap_59_answers_outlive_the_shard_that_gave_them() {
    let right = Some(vec![Reply::Int(2), Reply::Int(1)]);
    assert_eq!(answers_that_outlive(), right);
    assert_ne!(with_bug(Some(Bug::LateAnswersForgotten), answers_that_outlive), right);
}

/// Bug: commands are carried out record after record. One may depend on what another did on another record of the shard; here their
/// answers come in another order than their calls.
fn order_of_commands() -> Vec<CallNo> {
    let mut w = World::new(1);
    let calls = [(0, "x", append("x", "a")), (0, "y", append("y", "bc")), (0, "x", append("x", "d"))];
    let tx = committing(&mut w, &calls);
    w.run();
    unsorted_answers(&mut w, tx).into_iter().map(|(no, _)| no).collect()
}

#[test]
fn trap_60_commands_of_a_shard_are_carried_out_in_the_order_of_their_calls() {
    let right = [CallNo(0), CallNo(1), CallNo(2)];
    assert_eq!(order_of_commands(), right);
    assert_ne!(with_bug(Some(Bug::CommandsByRecord), order_of_commands), right);
}

/// Bug: an operation is executed behind a command of which nobody knows what it leaves: it is carried out before it.
fn behind_a_command() -> Option<Bytes> {
    let mut w = World::new(1);
    committing(&mut w, &[(0, "x", append("x", "a")), (0, "x", set("b"))]);
    w.run();
    text(&w, 0, "x")
}

#[test]
fn trap_61_behind_a_command_there_are_commands_alone() {
    assert_eq!(behind_a_command(), None, "it is refused as a whole");
    assert_eq!(with_bug(Some(Bug::OperationsBehindCommands), behind_a_command), Some("ba".into()));
}

/// Several operations are decided on one view of the record, and so are several behind a command.
#[test]
fn trap_61_behind_a_command_no_operation_is_decided_on_a_view() {
    for calls in [
        vec![append("x", "a"), set("b"), Operation::from(KeyspaceOp::Exists)],
        vec![append("x", "a"), set("b"), set("c")],
        vec![append("x", "a"), set("b"), strlen("x")],
    ] {
        let mut w = World::new(1);
        let calls: Vec<_> = calls.into_iter().map(|op| (0, "x", op)).collect();
        committing(&mut w, &calls);
        w.run();
        assert_eq!(text(&w, 0, "x"), None, "it is refused as a whole");
    }
}

#[test]
fn a_command_excludes_others_or_shares_with_who_reads() {
    let mut w = World::new(1);
    w.set_up(0, "x", set("12"));
    let reader = w.holder(0, "x", Operation::from(KeyspaceOp::Content));
    let asks = committing(&mut w, &[(0, "x", strlen("x"))]);
    w.run();
    assert_eq!(answers(&mut w, asks), [Reply::Int(2)], "both read");
    let writes = committing(&mut w, &[(0, "x", append("x", "3"))]);
    w.run();
    assert!(!w.committed(writes), "it waits for who has read");
    w.commit(reader);
    w.run();
    assert_eq!((w.committed(writes), text(&w, 0, "x")), (true, Some("123".into())));
}

/// A shard alone that has commands is asked last, and decides: its answers cost no message more.
#[test]
fn who_alone_has_commands_decides() {
    let mut w = World::new(3);
    let tx = committing(&mut w, &[(0, "a", incr(1)), (1, "x", append("x", "ab")), (2, "b", incr(1))]);
    assert_eq!(w.count(Kind::Prepare, 1), 0, "it is asked when the others have voted");
    for shard in [0, 2] {
        w.deliver(Kind::Prepare, shard);
        w.deliver(Kind::Voted, shard);
    }
    w.deliver(Kind::Prepare, 1);
    assert_eq!(text(&w, 1, "x"), Some("ab".into()), "its yes was the decision");
    w.run();
    assert_eq!(answers(&mut w, tx), [Reply::Int(2)]);
    w.assert_quiet();
}
