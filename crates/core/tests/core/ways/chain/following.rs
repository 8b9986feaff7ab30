//! Followers (K16 to K18 of `docs/chains.md`): blind calls of chains that are granted behind others, tokens that name these, and what
//! is carried out after what. Traps 49 to 55.

use claret_core::message::{PeerMessage, Request};
use claret_core::ways::chain::Token;
use claret_core::{Limits, Sequence, ShardId};
use claret_types::{
    Bytes, Dict, DictOp, End, KeyspaceOp, List, ListOp, Moment, Operation, Register, Reply, State,
};

use super::chained;
use crate::harness::{Kind, Tx, World, get, incr_returning, set};

fn hset(value: &str) -> Operation {
    let field: (Bytes, Bytes) = ("f".into(), value.into());
    Operation::new::<Dict>(DictOp::Set([field].into_iter().collect()))
}

fn hget() -> Operation {
    Operation::new::<Dict>(DictOp::Get("f".into()))
}

fn push(value: &str) -> Operation {
    Operation::new::<List>(ListOp::Push(End::Back, [Bytes::from(value)].into_iter().collect()))
}

fn items() -> Operation {
    Operation::new::<List>(ListOp::Range { start: 0, stop: -1 })
}

/// Does this to one record of each of these shards, and commits: its prepares are under way.
fn everywhere(w: &mut World, shards: &[u32], op: &Operation) -> Tx {
    let tx = w.begin();
    for shard in shards {
        w.buffer(tx, *shard, "k", op.clone());
    }
    w.commit(tx);
    tx
}

/// What is written at a shard.
fn text(w: &World, shard: usize) -> Option<String> {
    let state = w.shards[shard].state(b"k").and_then(State::downcast::<Register>)?;
    state.to_bytes().map(|bytes| bytes.to_string())
}

/// What an operation answers to a transaction of its own.
fn answer(w: &mut World, shard: u32, op: Operation) -> Reply {
    let tx = w.holder(shard, "k", op);
    let answer = w.answers(tx).pop().expect("nobody is in its way");
    w.abort(tx);
    w.run();
    answer
}

/// Two that write at both shards: both have voted at the first one, and their tokens are under way.
fn two(w: &mut World) -> [Tx; 2] {
    let both = ["1", "2"].map(|value| everywhere(w, &[0, 1], &set(value)));
    for shard in [0, 0, 1, 1] {
        w.deliver(Kind::Prepare, shard);
    }
    assert_eq!(w.count(Kind::Way, 1), 2, "the second one did not wait: {:#?}", w.bag);
    both
}

/// K16: the second writer does not wait at the first shard, and comes second everywhere.
#[test]
fn a_blind_write_follows_one_that_has_voted() {
    let mut w = chained(2);
    let [one, other] = two(&mut w);
    w.deliver(Kind::Way, 1);
    w.deliver(Kind::Way, 1);
    assert_eq!(text(&w, 1).as_deref(), Some("2"), "both are decided, in this order");
    assert_eq!(text(&w, 0), None);
    w.run();
    assert!(w.committed(one) && w.committed(other));
    assert_eq!(text(&w, 0).as_deref(), Some("2"));
    w.assert_quiet();
}

/// K16: any number of them, and each comes after all before it.
#[test]
fn many_follow_one_another() {
    let mut w = chained(2);
    let all = ["a", "b", "c", "d", "e"].map(|value| everywhere(&mut w, &[0, 1], &push(value)));
    for shard in [0, 1] {
        (0..5).for_each(|_| w.deliver(Kind::Prepare, shard));
    }
    // The tokens arrive last first.
    for _ in 0..5 {
        let at = w.bag.iter().rposition(|message| message.kind() == Kind::Way).expect("one is left");
        let token = w.bag.remove(at);
        w.hand_over(token);
    }
    w.run();
    assert!(all.iter().all(|tx| w.committed(*tx)));
    assert_eq!(answer(&mut w, 0, items()), answer(&mut w, 1, items()), "one order");
    w.assert_quiet();
}

/// K16: a call that answers, one that is not last but one, and one that another shard decides wait.
#[test]
fn others_wait_as_ever() {
    let last = |w: &mut World, shards: &[u32], op: &Operation| {
        let first = everywhere(w, &[0, 1], &set("1"));
        w.deliver(Kind::Prepare, 0);
        let tx = everywhere(w, shards, op);
        w.run_until(|message| message.kind() == Kind::Way);
        let waits = w.count(Kind::Way, 1) == 1 && w.shards[0].locked_records() == 1;
        w.run();
        assert!(w.committed(first) && w.committed(tx));
        waits
    };
    let getset = Operation::new::<Register>(claret_types::RegisterOp::GetSet("2".into()));
    let append = Operation::new::<Register>(claret_types::RegisterOp::Append("2".into()));
    assert!(last(&mut chained(3), &[0, 1], &getset), "it answers");
    assert!(last(&mut chained(3), &[0, 1], &append), "it may fail");
    assert!(last(&mut chained(3), &[0, 2], &set("2")), "another shard decides");
    assert!(last(&mut chained(3), &[0, 1, 2], &set("2")), "it is not last but one");
    assert!(last(&mut chained(3), &[0], &set("2")), "it is no chain");
}

/// Two whose ways cross before they meet at the shard that decides both. Whether both are held up.
fn crossing() -> bool {
    let mut w = chained(3);
    let [one, other] = ["1", "2"].map(|value| {
        let tx = w.begin();
        for shard in [0, 1, 2] {
            w.buffer(tx, shard, "k", set(value));
        }
        tx
    });
    let now = w.now;
    for (tx, hot) in [(one, [1, 2]), (other, [0, 2])] {
        let attempt = w.attempt(tx);
        w.coordinator_mut(tx).commit(now, attempt, &hot.map(ShardId)).expect("it runs");
    }
    w.pass(0);
    w.run();
    w.pass(Limits::default().give_way_us);
    w.run();
    !w.committed(one) && !w.committed(other)
}

/// K16: otherwise each awaits the other one at the shard that decides both, and nobody is told.
#[test]
fn nobody_follows_one_that_has_further_to_go() {
    assert!(!crossing());
}

/// K16: nobody follows one that has not voted.
#[test]
fn nobody_follows_one_that_may_still_change() {
    let mut w = chained(2);
    let holder = w.holder(0, "k", get());
    let tx = everywhere(&mut w, &[0, 1], &set("2"));
    w.run();
    assert!(!w.committed(tx));
    w.commit(holder);
    w.run();
    assert!(w.committed(tx));
}

/// K16: what a follower does beside its blind calls waits for those whom it follows.
#[test]
fn a_follower_reads_once_it_is_the_first() {
    let mut w = chained(2);
    let first = everywhere(&mut w, &[0, 1], &hset("1"));
    w.deliver(Kind::Prepare, 0);
    let tx = w.begin();
    w.buffer(tx, 0, "k", hset("2"));
    w.buffer(tx, 0, "k", hget());
    w.buffer(tx, 1, "k", hset("2"));
    w.commit(tx);
    w.deliver(Kind::Prepare, 0);
    assert_eq!(w.count(Kind::Way, 1), 1, "it has not voted");
    w.run();
    assert!(w.committed(first) && w.committed(tx));
}

/// K17: whom it follows is refused, and it goes on.
#[test]
fn a_follower_of_one_that_is_refused_goes_on() {
    let mut w = chained(2);
    let [one, other] = two(&mut w);
    let attempt = w.attempt(one);
    w.hold(Kind::Way, 1);
    w.deliver(Kind::Way, 1);
    assert!(text(&w, 1).is_none(), "it awaits the first one");
    w.send(1, Request::Withdraw { attempt });
    w.deliver(Kind::Withdraw, 1);
    assert_eq!(text(&w, 1).as_deref(), Some("2"));
    w.run();
    assert!(w.committed(other) && !w.committed(one));
    assert_eq!(text(&w, 0).as_deref(), Some("2"));
}

/// The order of two that have voted is not kept by a number that a commit forgets: whoever may not follow waits.
#[test]
fn trap_49_an_order_is_not_forgotten_with_a_commit() {
    let mut w = chained(3);
    let slow = everywhere(&mut w, &[0, 2], &set("3"));
    w.deliver(Kind::Prepare, 0);
    let token = w.hold(Kind::Way, 2);
    let first = everywhere(&mut w, &[0, 1], &set("1"));
    w.run();
    assert!(
        !w.committed(first),
        "it may not come after the slow one at one shard and be forgotten at another"
    );
    let second = everywhere(&mut w, &[1, 2], &set("2"));
    w.run();
    assert!(w.committed(second));
    w.hand_over(token);
    w.run();
    assert!(w.committed(slow) && w.committed(first));
    assert_eq!([0, 1, 2].map(|shard| text(&w, shard).unwrap_or_default()), ["1", "1", "3"]);
}

/// Whether one is told that comes after another which is not decided, and then a third one before that.
fn told_before_its_turn() -> bool {
    let mut w = chained(2);
    let [_, other] = two(&mut w);
    w.hold(Kind::Way, 1);
    w.deliver(Kind::Way, 1);
    w.run();
    w.committed(other)
}

/// Who follows is told once all before it are decided, and who is no chain once these are carried out.
#[test]
fn trap_50_nobody_is_told_before_those_whom_it_follows() {
    assert!(!told_before_its_turn());
    let mut w = chained(3);
    let slow = everywhere(&mut w, &[0, 2], &set("3"));
    w.deliver(Kind::Prepare, 0);
    let token = w.hold(Kind::Way, 2);
    let alone = everywhere(&mut w, &[0], &set("1"));
    w.run();
    assert!(!w.committed(alone), "one that begins now and ends at the third shard would come before both");
    w.hand_over(token);
    w.run();
    assert!(w.committed(slow) && w.committed(alone));
}

/// What a follower takes at the last shard it takes after those whom it follows.
#[test]
fn trap_51_a_follower_takes_nothing_from_those_whom_it_follows() {
    let mut w = chained(2);
    let [one, other] = ["1", "2"].map(|value| {
        let tx = w.begin();
        w.buffer(tx, 0, "k", set(value));
        w.buffer(tx, 1, "r", incr_returning(1));
        w.commit(tx);
        tx
    });
    for shard in [0, 0, 1, 1] {
        w.deliver(Kind::Prepare, shard);
    }
    let first = w.hold(Kind::Way, 1);
    w.deliver(Kind::Way, 1);
    assert_eq!(w.shards[1].locked_records(), 0, "it takes nothing yet");
    w.hand_over(first);
    w.run();
    assert!(w.committed(one) && w.committed(other));
    assert_eq!(w.counter(1, "r"), 2);
}

/// Tokens of one attempt that name others than it follows by now, in any order and twice.
#[test]
fn trap_52_a_token_of_an_earlier_moment_changes_nothing() {
    let mut w = chained(2);
    let [one, other] = two(&mut w);
    let [first, second] = [0, 0].map(|_| w.hold(Kind::Way, 1));
    w.hand_over(second.clone());
    w.hand_over(second.clone());
    w.hand_over(first.clone());
    w.hand_over(second.clone());
    w.hand_over(first);
    w.run();
    w.hand_over(second);
    w.run();
    assert!(w.committed(one) && w.committed(other));
    assert_eq!([0, 1].map(|shard| text(&w, shard).unwrap_or_default()), ["2", "2"]);
    w.assert_quiet();
}

/// What is said again names those who are not decided by then.
#[test]
fn trap_52_what_is_said_again_names_less() {
    let mut w = chained(2);
    let [one, other] = two(&mut w);
    w.deliver(Kind::Way, 1);
    w.hold(Kind::Way, 1);
    w.run();
    assert!(w.committed(one));
    w.pass(Limits::default().resend_us);
    w.deliver(Kind::Prepare, 0);
    let token = w.bag.iter().find_map(|message| match &message.body {
        crate::harness::Body::Peer(_, PeerMessage::Way { words, .. }) => {
            Token::read(words).map(|token| token.follows)
        }
        _ => None,
    });
    assert_eq!(token, Some(Vec::new()));
    w.run();
    assert!(w.committed(other));
}

/// Says again what has no answer, and lets the younger one give way.
fn give_way(w: &mut World) {
    for micros in [Limits::default().resend_us, Limits::default().give_way_us] {
        w.pass(micros);
        w.run();
    }
}

/// A follower has voted, and an elder waits for it: it is held up itself, and gives way.
#[test]
fn trap_53_a_follower_gives_way_to_an_elder() {
    let mut w = chained(2);
    let elder = w.begin();
    w.execute(elder, 1, "y", incr_returning(1));
    w.run();
    let first = w.begin();
    w.buffer(first, 0, "k", set("1"));
    w.buffer(first, 1, "y", incr_returning(1));
    w.commit(first);
    w.run();
    let follower = w.begin();
    w.buffer(follower, 0, "k", set("2"));
    w.buffer(follower, 0, "w", incr_returning(1));
    w.buffer(follower, 1, "z", incr_returning(1));
    w.commit(follower);
    w.run();
    w.execute(elder, 0, "w", get());
    w.run();
    assert_eq!(w.answers(elder).len(), 1, "it waits for the follower, that for the first one, that for it");
    give_way(&mut w);
    assert_eq!(w.restarts(follower), 1);
    assert_eq!(w.answers(elder).len(), 2);
    w.commit(elder);
    w.run();
    assert!(w.committed(elder) && w.committed(first));
    w.assert_quiet();
}

/// The other way round: whom it follows is the youngest, and hears of it.
#[test]
fn trap_53_who_is_followed_hears_of_an_elder() {
    let mut w = chained(2);
    let [follower, between] = [w.begin(), w.begin()];
    w.execute(between, 1, "y", incr_returning(1));
    w.run();
    let youngest = w.begin();
    w.buffer(youngest, 0, "k", set("1"));
    w.buffer(youngest, 1, "y", incr_returning(1));
    w.commit(youngest);
    w.run();
    w.buffer(follower, 0, "k", set("2"));
    w.buffer(follower, 0, "w", incr_returning(1));
    w.buffer(follower, 1, "z", incr_returning(1));
    w.commit(follower);
    w.run();
    w.execute(between, 0, "w", get());
    w.run();
    assert_eq!(w.answers(between).len(), 1, "it waits for the follower, that for the youngest, that for it");
    give_way(&mut w);
    assert_eq!(w.restarts(youngest), 1);
    assert!(w.committed(follower));
    assert_eq!(w.answers(between).len(), 2);
}

/// What two leave at the first shard, of which the second one writes what was there.
fn rewritten() -> Reply {
    let mut w = chained(2);
    for shard in [0, 1] {
        w.set_up(shard, "k", hset("a"));
    }
    let [one, other] = ["b", "a"].map(|value| everywhere(&mut w, &[0, 1], &hset(value)));
    w.run();
    assert!(w.committed(one) && w.committed(other));
    answer(&mut w, 0, hget())
}

/// A follower writes what is there, and does not know that it will be there no more.
#[test]
fn trap_54_blind_is_not_idle() {
    assert_eq!(rewritten(), Reply::Bytes("a".into()));
}

/// Whether a write follows one that does this before.
fn is_followed(changes: &[Operation]) -> bool {
    let mut w = chained(2);
    let first = w.begin();
    for change in changes {
        w.buffer(first, 0, "k", change.clone());
    }
    w.buffer(first, 1, "k", set("1"));
    w.commit(first);
    w.deliver(Kind::Prepare, 0);
    everywhere(&mut w, &[0, 1], &set("2"));
    w.deliver(Kind::Prepare, 0);
    w.count(Kind::Way, 1) == 2
}

/// Another one makes the record one of another type.
fn change_of_type() -> [Operation; 2] {
    [Operation::new::<Register>(claret_types::RegisterOp::Get), hset("1")]
}

/// What is blind holds in any state of its type, and outlives no end of the record that comes after it.
#[test]
fn trap_54_nobody_follows_a_change_of_type_or_of_expiry() {
    assert!(is_followed(&[set("1")]));
    assert!(!is_followed(&change_of_type()));
    let at = Moment::At(1_000_000);
    assert!(!is_followed(&[KeyspaceOp::SetUntil { value: "1".into(), at }.into()]));
    let expire = KeyspaceOp::Expire { at, only_later: false, returning: false };
    assert!(!is_followed(&[set("1"), expire.into()]));
}

/// A call that claims much is compared with nobody.
#[test]
fn who_claims_much_follows_nobody() {
    let many = |from: usize| {
        let members = (from..from + 100).map(|at| Bytes::from(format!("{at}").as_str()));
        Operation::new::<claret_types::Set>(claret_types::SetOp::Add(members.collect()))
    };
    let remove = Operation::new::<claret_types::Set>(claret_types::SetOp::Remove(
        (0..100).map(|at| Bytes::from(format!("{at}").as_str())).collect(),
    ));
    let mut w = chained(2);
    [0, 1].into_iter().for_each(|shard| w.set_up(shard, "k", many(0)));
    let first = everywhere(&mut w, &[0, 1], &remove);
    w.deliver(Kind::Prepare, 0);
    let second = everywhere(&mut w, &[0, 1], &many(50));
    w.deliver(Kind::Prepare, 0);
    assert_eq!(w.count(Kind::Way, 1), 1);
    w.run();
    assert!(w.committed(first) && w.committed(second));
}

/// The last one has decided both and lost its memory; one shard has carried both out, the other one knows of the second alone.
#[test]
fn trap_55_what_is_committed_stays_so_though_others_forgot_it() {
    let mut w = chained(3);
    let both = ["1", "2"].map(|value| {
        let tx = w.begin();
        w.buffer(tx, 0, value, set(value));
        w.buffer(tx, 1, "k", set(value));
        w.buffer(tx, 2, "k", set(value));
        w.commit(tx);
        tx
    });
    w.run_until(|message| matches!(message.kind(), Kind::Answer | Kind::Committed | Kind::Applied));
    w.deliver(Kind::Answer, 0);
    w.deliver(Kind::Answer, 0);
    w.hold(Kind::Answer, 1);
    w.deliver(Kind::Answer, 1);
    assert_eq!(text(&w, 1), None, "it comes after the first one");
    w.client_dies();
    w.restart_shard(2);
    let second = w.attempt(both[1]);
    w.send(1, Request::Abort { attempt: second, refused_by: Some(ShardId(2)) });
    for _ in 0..4 {
        w.run();
        w.pass_without_coordinators(Limits::default().lease_us);
    }
    w.run();
    assert_eq!(text(&w, 1).as_deref(), Some("2"));
    assert_eq!(w.shards[1].open_attempts(), 0);
}

/// Two are decided, and the first shard hears of the second one alone. What it has then, and in the end.
fn second_first() -> [Option<String>; 2] {
    let mut w = chained(2);
    two(&mut w);
    w.deliver(Kind::Way, 1);
    w.deliver(Kind::Way, 1);
    w.hold(Kind::Answer, 0);
    w.deliver(Kind::Answer, 0);
    let then = text(&w, 0);
    w.run();
    w.pass(Limits::default().resend_us);
    w.run();
    w.assert_quiet();
    [then, text(&w, 0)]
}

/// Who hears of the end of a follower first asks about the others, and carries all out in their order.
#[test]
fn trap_55_a_follower_is_carried_out_after_the_others() {
    assert_eq!(second_first(), [None, Some("2".into())]);
}

/// Somebody knows the end of the others, so it is asked for at once: no time passes here.
#[test]
fn trap_55_who_keeps_a_follower_asks_about_the_others() {
    let mut w = chained(2);
    two(&mut w);
    w.deliver(Kind::Way, 1);
    w.deliver(Kind::Way, 1);
    w.hold(Kind::Answer, 0);
    w.client_is_gone = true;
    w.run();
    assert_eq!(text(&w, 0).as_deref(), Some("2"));
    w.assert_quiet();
}

/// Their client is dead, and so is what the last shard told; each shard asks.
#[test]
fn trap_55_recovery_keeps_the_order() {
    let mut w = chained(2);
    two(&mut w);
    w.deliver(Kind::Way, 1);
    w.deliver(Kind::Way, 1);
    w.client_dies();
    w.pass_without_coordinators(Limits::default().lease_us);
    // The second one asks first.
    let at = w.bag.iter().rposition(|message| message.kind() == Kind::Inquire).expect("they ask");
    let question = w.bag.remove(at);
    w.hand_over(question);
    w.run();
    assert_eq!([0, 1].map(|shard| text(&w, shard).unwrap_or_default()), ["2", "2"]);
    w.assert_quiet();
}

/// The last one is gone before it decided, and its successor knows of none of them.
#[test]
fn trap_55_nobody_is_left_when_the_last_one_forgot_all() {
    let mut w = chained(2);
    two(&mut w);
    w.client_dies();
    w.restart_shard(1);
    for _ in 0..4 {
        w.pass_without_coordinators(Limits::default().lease_us);
        w.run();
    }
    assert_eq!([0, 1].map(|shard| text(&w, shard)), [None, None]);
    w.assert_quiet();
}

/// Three that push to both shards, and the token of the third one is there first. What each shard has in the end.
fn three() -> [Reply; 2] {
    let mut w = chained(2);
    let all = ["1", "2", "3"].map(|value| everywhere(&mut w, &[0, 1], &push(value)));
    for shard in [0, 0, 0, 1, 1, 1] {
        w.deliver(Kind::Prepare, shard);
    }
    let [first, second] = [0, 0].map(|_| w.hold(Kind::Way, 1));
    for token in [None, Some(first), Some(second)] {
        match token {
            None => w.deliver(Kind::Way, 1),
            Some(token) => w.hand_over(token),
        }
    }
    w.run();
    assert!(all.into_iter().all(|tx| w.committed(tx)));
    [0, 1].map(|shard| answer(&mut w, shard, items()))
}

/// K17: all whom it follows count.
#[test]
fn who_follows_two_awaits_both() {
    let [here, there] = three();
    assert_eq!(here, there);
}

#[cfg(feature = "planted-bugs")]
#[test]
fn followers_that_are_wrong_are_noticed() {
    use claret_core::{Bug, with_bug};
    let [here, there] = with_bug(Some(Bug::FollowsOne), three);
    assert_ne!(here, there);
    assert!(with_bug(Some(Bug::FollowsAnyVoted), crossing));
    assert!(with_bug(Some(Bug::FollowedUnnamed), told_before_its_turn));
    assert!(with_bug(Some(Bug::FollowsAnyChange), || is_followed(&change_of_type())));
    assert_eq!(with_bug(Some(Bug::FollowerLooks), rewritten), Reply::Bytes("b".into()));
    assert_eq!(with_bug(Some(Bug::FollowerFirst), second_first)[1], Some("1".into()));
}

/// K17: what a peer may name is bounded; more is as if the token was lost.
#[test]
fn a_token_that_names_too_many_is_as_if_lost() {
    let mut w = chained(2);
    let tx = everywhere(&mut w, &[0, 1], &set("1"));
    w.deliver(Kind::Prepare, 1);
    let (now, attempt) = (w.now, w.attempt(tx));
    let follows = vec![attempt; 2_000];
    w.shards[1].handle_peer(now, Token { follows }.of(attempt, ShardId(0)));
    assert_eq!(text(&w, 1), None);
    w.run();
    assert!(w.committed(tx));
}

/// K17: whom it awaits is never heard of there, and the low-water mark passes that one.
#[test]
fn who_is_below_the_mark_is_awaited_by_nobody() {
    let mut w = chained(2);
    let [one, other] = ["1", "2"].map(|value| everywhere(&mut w, &[0, 1], &set(value)));
    w.deliver(Kind::Prepare, 0);
    w.deliver(Kind::Prepare, 0);
    w.hold(Kind::Prepare, 1);
    w.deliver(Kind::Prepare, 1);
    w.hold(Kind::Way, 1);
    w.deliver(Kind::Way, 1);
    assert_eq!(text(&w, 1), None, "it awaits the first one");
    let (passed, live) = (w.attempt(one).tx.sequence, w.attempt(other));
    let low_water = Sequence(passed.0 + 1);
    w.send(1, Request::Heartbeat { live: vec![live], low_water });
    w.deliver(Kind::Heartbeat, 1);
    assert_eq!(text(&w, 1).as_deref(), Some("2"));
}

/// K7: a deposit that awaits others has its token, so those before it have voted, and hear of its no.
#[test]
fn a_no_of_one_that_awaits_others_goes_back() {
    let mut w = chained(2);
    let [_, other] = two(&mut w);
    w.hold(Kind::Way, 1);
    w.deliver(Kind::Way, 1);
    let attempt = w.attempt(other);
    w.send(1, Request::Withdraw { attempt });
    w.deliver(Kind::Withdraw, 1);
    assert_eq!(w.count(Kind::Answer, 0), 1);
}

/// A prepare of very many records follows nobody: a token names a bounded number.
#[test]
fn a_large_prepare_follows_nobody() {
    let mut w = chained(2);
    let first = everywhere(&mut w, &[0, 1], &set("1"));
    w.deliver(Kind::Prepare, 0);
    let large = w.begin();
    w.buffer(large, 0, "k", set("2"));
    for at in 0..200 {
        w.buffer(large, 0, &format!("k{at}"), set("2"));
    }
    w.buffer(large, 1, "k", set("2"));
    w.commit(large);
    w.deliver(Kind::Prepare, 0);
    assert_eq!(w.count(Kind::Way, 1), 1);
    w.run();
    assert!(w.committed(first) && w.committed(large));
}

/// Many chains that write a few records of four shards, in orders of their own: nobody needs what is said again when it was not lost.
#[test]
fn nobody_stands_until_something_is_said_again() {
    for seed in 0..200_u64 {
        let mut state = seed + 1;
        let mut dice = move |sides: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % sides
        };
        let mut w = chained(4);
        let (mut all, mut orders) = (Vec::new(), Vec::new());
        for at in 0..8 {
            let tx = w.begin();
            let mut shards: Vec<u32> = (0..4).filter(|_| dice(3) > 0).collect();
            if shards.len() < 2 {
                shards = vec![0, 1];
            }
            for shard in &shards {
                w.buffer(tx, *shard, "k", set(&format!("{at}")));
            }
            if dice(2) == 0 {
                shards.reverse();
            }
            let first_hot = dice(shards.len() as u64) as usize;
            let hot: Vec<_> = shards[first_hot..].iter().map(|shard| ShardId(*shard)).collect();
            let (now, attempt) = (w.now, w.attempt(tx));
            w.coordinator_mut(tx).commit(now, attempt, &hot).expect("it runs");
            w.pass(0);
            all.push(tx);
            orders.push((at + 1, shards.clone(), hot));
            for _ in 0..dice(12) {
                if w.bag.is_empty() {
                    break;
                }
                let next = dice(w.bag.len() as u64) as usize;
                let message = w.bag.remove(next);
                w.hand_over(message);
            }
        }
        for _ in 0..20 {
            w.run();
            w.pass(Limits::default().give_way_us);
        }
        w.run();
        let open: Vec<Tx> = all.into_iter().filter(|tx| !w.committed(*tx) && w.restarts(*tx) == 0).collect();
        let waits: Vec<String> = w
            .shards
            .iter()
            .map(|shard| {
                let named = |all: &[claret_core::AttemptId]| -> Vec<u64> {
                    all.iter().map(|it| it.tx.sequence.0).collect()
                };
                let all =
                    shard.waits().map(|it| format!("{:?} <- {:?}", named(&it.holders), named(&it.waiters)));
                all.collect::<Vec<_>>().join("; ")
            })
            .collect();
        assert!(open.is_empty(), "seed {seed}: {open:?} of {waits:#?} {orders:?}");
    }
}
