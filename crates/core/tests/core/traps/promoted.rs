//! Traps of replicas that go on as a shard that orders calls (S8, S17): each with the planted bug that springs it. Seeds of the
//! simulator rarely have what some of them take.
//!
//! The record is a set, on the shard 0. Other participants are shard 1, which says nothing.

use claret_core::message::{
    Asks, Call, KeyedCall, Link, Listed, Members, Output, PeerMessage, Request, Response, owners_digest,
};
use claret_core::{
    AttemptId, Backup, Birth, CallNo, Change, Incarnation, Limits, Member, Sequence, SessionId, Shard,
    ShardId, Time, Timestamp, TxId,
};
use claret_types::{Operation, Reply};

use super::ordered::ALWAYS;
use crate::harness::{sadd, scard};

const LINK: Link = Link { session: SessionId(1), connection: 1 };

/// A shard, and what its replica has.
struct Pair {
    shard: Shard,
    backup: Backup,
    now: Time,
}

/// Who was carried out, with which timestamp, and the answers that came with that.
type Done = (u64, Timestamp, Option<Vec<Reply>>);

fn attempt(sequence: u64) -> AttemptId {
    let tx = TxId { session: LINK.session, sequence: Sequence(sequence) };
    AttemptId { tx, attempt: 1 }
}

fn limits() -> Limits {
    // Each timestamp is told when it is used.
    Limits { told_ahead_us: 0, ..Limits::default() }
}

impl Pair {
    fn new() -> Pair {
        let mut shard = Shard::new(ShardId(0), Incarnation(1), ALWAYS, limits());
        shard.know_owners([ShardId(0)]);
        shard.replicate();
        let mut pair = Pair { shard, backup: Backup::default(), now: Time(100) };
        pair.replicate();
        pair
    }

    /// A prepare with this suggestion, for the shard and others. What it says at once.
    fn prepare(&mut self, sequence: u64, op: Operation, at: u64, shards: &[u32]) -> Vec<Response> {
        let attempt = attempt(sequence);
        let call = Call { no: CallNo(0), op, member: Member(0), reserve: None };
        let listed = |shard: &u32| Listed { shard: ShardId(*shard), incarnation: None };
        let request = Request::Prepare {
            attempt,
            birth: Birth { time: Time(1), tx: attempt.tx },
            participants: shards.iter().map(listed).collect(),
            relies_on: 0,
            calls: vec![KeyedCall { key: "x".into(), call }],
            members: Members::All,
            asks: Asks::Place(Timestamp(at)),
            undone: Default::default(),
        };
        self.handle(request)
    }

    fn apply(&mut self, sequence: u64, at: u64) -> Vec<Response> {
        self.handle(Request::ApplyAt { attempt: attempt(sequence), at: Timestamp(at) })
    }

    fn handle(&mut self, request: Request) -> Vec<Response> {
        self.shard.handle(self.now, LINK, request);
        self.said()
    }

    fn said(&mut self) -> Vec<Response> {
        let mut said = Vec::new();
        while let Some(output) = self.shard.poll_output() {
            if let Output::Respond { response, .. } = output {
                said.push(response);
            }
        }
        self.shard.check_invariants();
        said
    }

    /// The replica has all that was written. What has waited for that.
    fn replicate(&mut self) -> Vec<Response> {
        while let Some((batch, changes)) = self.shard.poll_changes() {
            changes.into_iter().for_each(|change| self.backup.take(change));
            self.shard.replicated(batch);
        }
        self.said()
    }

    /// The replica goes on as the shard, in time for others to have come further.
    fn fail_over(&mut self) {
        let mut told_on = Backup::default();
        self.backup.changes().for_each(|change| told_on.take(change));
        let next = Incarnation(self.shard.incarnation().0 + 10);
        let promoted = Shard::promote(told_on, None, self.now, next, ALWAYS, limits());
        self.shard = promoted.expect("it is of a shard");
        self.shard.check_invariants();
        self.shard.know_owners([ShardId(0)]);
        self.shard.replicate();
        self.replicate();
    }

    /// The first input after that. What was carried out.
    fn wake(&mut self) -> Vec<Response> {
        if self.shard.poll_timeout().is_some_and(|due| due <= self.now) {
            self.shard.handle_timeout(self.now);
        }
        let mut said = self.said();
        said.extend(self.replicate());
        said
    }
}

/// The votes among some responses.
fn votes(said: &[Response]) -> Vec<Timestamp> {
    let vote = |response: &Response| match response {
        Response::Placed { at, .. } | Response::Done { at, .. } => Some(*at),
        _ => None,
    };
    said.iter().filter_map(vote).collect()
}

fn done(said: &[Response]) -> Vec<Done> {
    let done = |response: &Response| match response {
        Response::Done { attempt, at, replies, .. } => {
            let replies = replies.as_ref().map(|it| it.iter().map(|(_, reply)| reply.clone()).collect());
            Some((attempt.tx.sequence.0, *at, replies))
        }
        _ => None,
    };
    said.iter().filter_map(done).collect()
}

/// A clock is published, and a replica that was not told goes on. What was published, and how the next one votes.
fn clock_and_next_vote() -> (Option<Timestamp>, Timestamp) {
    let mut pair = Pair::new();
    let said = pair.handle(Request::Tick { want: Timestamp(50_000) });
    let clock = said.iter().find_map(|response| match response {
        Response::Ticked { clock, .. } => Some(*clock),
        _ => None,
    });
    pair.fail_over();
    let mut said = pair.prepare(1, sadd("a"), 1, &[0]);
    said.extend(pair.replicate());
    (clock, votes(&said)[0])
}

/// A clock is published once the replica knows, as a vote is. Both, and how the next one votes at whoever is promoted.
fn told_and_next_vote() -> ([Timestamp; 2], Timestamp) {
    let mut pair = Pair::new();
    pair.handle(Request::Tick { want: Timestamp(50_000) });
    let ticked = pair.replicate();
    let Some(Response::Ticked { clock, .. }) = ticked.first() else { panic!("{ticked:?}") };
    let clock = *clock;
    pair.prepare(1, sadd("a"), 60_000, &[0, 1]);
    let voted = votes(&pair.replicate())[0];
    pair.handle(Request::Abort { attempt: attempt(1), refused_by: Some(ShardId(1)) });
    pair.replicate();
    pair.fail_over();
    let mut said = pair.prepare(2, sadd("b"), 1, &[0]);
    said.extend(pair.replicate());
    ([clock, voted], votes(&said)[0])
}

/// One stands first and is not final, three are final behind it. The third one voted before the fourth, and is final behind it. Then a
/// replica goes on, and the first one is decided. Who was carried out before that and after it.
fn line_of_three() -> [Vec<Done>; 2] {
    let mut pair = Pair::new();
    pair.prepare(1, sadd("a"), 1_000, &[0, 1]);
    pair.prepare(2, scard(), 2_000, &[0]);
    pair.prepare(3, scard(), 3_000, &[0, 1]);
    pair.prepare(4, sadd("b"), 5_000, &[0, 1]);
    pair.apply(3, 9_000);
    pair.apply(4, 5_000);
    pair.replicate();
    pair.fail_over();
    let before = done(&pair.wake());
    pair.apply(1, 1_000);
    let after = done(&pair.replicate());
    [before, after]
}

/// A reader voted alone, with its answer. A replica goes on. It is final further on, behind one that came meanwhile.
fn answers_of_one_that_moved() -> Vec<Done> {
    let mut pair = Pair::new();
    pair.prepare(1, scard(), 1_000, &[0, 1]);
    pair.replicate();
    pair.fail_over();
    pair.prepare(2, sadd("a"), 2_000, &[0, 1]);
    pair.apply(2, 2_000);
    pair.apply(1, 7_000);
    done(&pair.replicate())
}

/// Bug: the clock of a shard with replicas left at once. Consequence: whoever was promoted voted below it, and callers had been told by
/// then who come behind that. Mend: replicas know a bound, and a clock above it waits (S17).
#[test]
fn trap_33_a_clock_is_published_when_every_replica_knows() {
    let (clock, next) = clock_and_next_vote();
    assert!(clock.is_none_or(|clock| next > clock), "{clock:?} was published");
    assert_eq!(clock, None);
    let (told, next) = told_and_next_vote();
    assert!(told.into_iter().all(|it| next > it), "{told:?}, and then {next:?}");
}

/// Bug: replicas knew of locks alone. Consequence: whoever was promoted had nothing in its lines, and carried out what is final before
/// what it stands behind. Mend: the lines outlive the shard (S8).
#[test]
fn trap_34_lines_outlive_the_shard() {
    let [before, after] = line_of_three();
    assert_eq!(before, [], "the first one may be final anywhere yet");
    let count = |count| Some(vec![Reply::Int(count)]);
    let should = [(1, 1_000, None), (2, 2_000, count(1)), (4, 5_000, None), (3, 9_000, count(2))];
    let after = after.into_iter().map(|(who, at, replies)| (who, at.0, replies.filter(|it| !it.is_empty())));
    assert_eq!(after.collect::<Vec<_>>(), should);
}

#[test]
fn answers_of_a_vote_that_is_not_final_are_given_anew_by_whoever_is_promoted() {
    let told = answers_of_one_that_moved();
    assert_eq!(told.last().and_then(|(.., replies)| replies.clone()), Some(vec![Reply::Int(1)]));
}

/// Of a record that vanished, whoever stands in its line sees what it held, with what was carried out since (P86): also at a replica that
/// goes on.
#[test]
fn who_stands_in_the_line_of_a_record_that_vanished_sees_it_at_whoever_is_promoted() {
    let mut pair = Pair::new();
    pair.prepare(1, sadd("a"), 1_000, &[0]);
    pair.prepare(2, sadd("b"), 2_000, &[0, 1]);
    pair.prepare(3, scard(), 3_000, &[0, 1]);
    pair.shard.vanished(pair.now, &["x".into()]);
    pair.apply(2, 2_000);
    pair.replicate();
    pair.fail_over();
    pair.apply(3, 9_000);
    let told = done(&pair.replicate());
    assert_eq!(told, [(3, Timestamp(9_000), Some(vec![Reply::Int(2)]))]);
    pair.prepare(4, scard(), 1, &[0]);
    let told = done(&pair.replicate());
    assert_eq!(told.last().and_then(|(.., replies)| replies.clone()), Some(vec![Reply::Int(0)]));
    assert_eq!(pair.shard.locked_records(), 0);
}

/// Nobody hears before the replica knows: neither a vote, nor that somebody was carried out, nor a clock between shards above the bound.
#[test]
fn what_is_said_of_timestamps_waits_for_the_replicas() {
    let mut pair = Pair::new();
    assert_eq!(votes(&pair.prepare(1, sadd("a"), 1_000, &[0])), []);
    assert_eq!(votes(&pair.replicate()).len(), 1);
    let ask =
        PeerMessage::AskClock { from: ShardId(1), incarnation: Incarnation(1), want: Timestamp(70_000) };
    pair.shard.handle_peer(pair.now, ask);
    assert!(pair.shard.poll_output().is_none(), "it is above the bound");
    while let Some((batch, changes)) = pair.shard.poll_changes() {
        changes.into_iter().for_each(|change| pair.backup.take(change));
        pair.shard.replicated(batch);
    }
    let owners = owners_digest([ShardId(0)].into_iter());
    let Some(Output::Tell { message: PeerMessage::Clock { clock, owners: said, .. }, .. }) =
        pair.shard.poll_output()
    else {
        panic!("it is said now")
    };
    assert_eq!((clock, said), (Timestamp(70_000), owners));
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_replica_that_stands_elsewhere_is_noticed() {
    use claret_core::{Bug, with_bug};
    let (clock, next) = with_bug(Some(Bug::ClockBeforeReplicas), clock_and_next_vote);
    assert!(clock.is_some_and(|clock| next <= clock));
    let (told, next) = with_bug(Some(Bug::UsedUntold), told_and_next_vote);
    assert!(told.into_iter().any(|it| next <= it));
    let [before, _] = with_bug(Some(Bug::PromotedForgetsPlaces), line_of_three);
    assert!(!before.is_empty(), "they do not wait for the first one");
    let [_, after] = with_bug(Some(Bug::FinalToldAsVoted), line_of_three);
    assert!(after.iter().any(|(who, at, _)| (*who, at.0) == (3, 3_000)), "{after:?}");
    let told = with_bug(Some(Bug::PromotedAnswersAnew), answers_of_one_that_moved);
    assert_ne!(told.last().and_then(|(.., replies)| replies.clone()), Some(vec![Reply::Int(1)]));
}

/// Bug: what another shard says of clocks, or asks, had a promoted shard carry out whose turn had come. A host takes that where nothing
/// may be written, as in a cluster that is down. Consequence: the write failed there, and the transaction was reported. Mend: it is
/// carried out with the next other input.
#[test]
fn what_is_said_of_clocks_carries_nothing_out() {
    let mut pair = Pair::new();
    pair.prepare(1, sadd("a"), 1_000, &[0, 1]);
    pair.replicate();
    pair.backup.take(Change::Placed { attempt: attempt(1), at: Timestamp(1_000) });
    pair.fail_over();
    let (from, incarnation, clock) = (ShardId(1), Incarnation(1), Timestamp(2_000));
    for message in [
        PeerMessage::AskClock { from, incarnation, want: clock },
        PeerMessage::Clock { from, incarnation, clock, owners: 0 },
    ] {
        pair.shard.handle_peer(pair.now, message);
        pair.replicate();
        assert_eq!(pair.shard.contents().count(), 0, "nothing is written");
    }
    assert_eq!(done(&pair.wake()).len(), 1);
    assert_eq!(pair.shard.contents().count(), 1);
}
