//! Traps of clocks that are not what they were, of final timestamps, and of elders in a line, where calls are ordered (P73, P77, P79,
//! P81, P85, P87, P88): each with the planted bug that springs it. Seeds of the simulator rarely have what it takes.
//!
//! Records `x`, `y` and `z` are sets, on the shards 0, 1 and 2.

use claret_core::message::{
    Asks, Call, KeyedCall, Link, Listed, Members, Output, PeerMessage, Refusal, Request, Response,
    owners_digest,
};
use claret_core::ways::WaySwitches;
use claret_core::{
    AttemptId, Birth, CallNo, Client, Event, Incarnation, Limits, Member, Node, Ordered, Pacing, Sequence,
    SessionId, Shard, ShardId, SlotRange, Survives, Switches, Time, Timestamp, TxId,
};
use claret_types::{Operation, Reply};

use super::ordered::{ALWAYS, placed, told};
use crate::harness::{Kind, Tx, World, incr_returning, sadd, sadd_returning, scard};

const HOT: Switches = Switches::claret(Ordered::Adaptive, false, WaySwitches::ROUNDS);

const OWNERS: [ShardId; 2] = [ShardId(0), ShardId(1)];

// --- restarts (P85) ---

/// Two shards that know each other. The second one's time is far ahead of the first one's.
fn two_shards() -> [Shard; 2] {
    OWNERS.map(|id| {
        let mut shard = Shard::new(id, Incarnation(1), ALWAYS, Limits::default());
        shard.know_owners(OWNERS);
        shard
    })
}

/// A prepare to the first shard alone.
fn prepare(sequence: u64) -> Request {
    let tx = TxId { session: SessionId(1), sequence: Sequence(sequence) };
    let call = Call { no: CallNo(0), op: sadd("a"), member: Member(0), reserve: None };
    Request::Prepare {
        attempt: AttemptId { tx, attempt: 1 },
        birth: Birth { time: Time(1), tx },
        participants: [Listed { shard: OWNERS[0], incarnation: None }].into_iter().collect(),
        relies_on: 0,
        calls: vec![KeyedCall { key: "x".into(), call }],
        members: Members::All,
        asks: Asks::Place(Timestamp(1)),
        undone: Default::default(),
    }
}

/// What a shard says to others; and with which timestamp it carried something out meanwhile.
fn drain(shard: &mut Shard) -> (Vec<PeerMessage>, Option<Timestamp>) {
    let (mut said, mut done) = (Vec::new(), None);
    while let Some(output) = shard.poll_output() {
        match output {
            Output::Tell { message, .. } => said.push(message),
            Output::Respond { response: Response::Done { at, .. }, .. } => done = Some(at),
            Output::Respond { .. } => {}
        }
    }
    shard.check_invariants();
    (said, done)
}

/// A shard lost its memory, and gives keys to another whose time is behind its own. That one loses its memory, too. How far the
/// giver's clock was, and with which timestamp the taker carries out what comes next: before the giver has answered, and after that.
fn both_lose_their_memory() -> (Timestamp, [Option<Timestamp>; 2]) {
    let (slow, fast) = (Time(1_000), Time(5_000_000));
    let link = Link { session: SessionId(1), connection: 1 };
    let [mut taker, mut giver] = two_shards();
    giver.restart(fast, Incarnation(2), Survives::Records);
    let published = giver.clock();
    taker.take_over(giver.hand_over());
    drain(&mut giver);
    taker.restart(slow, Incarnation(2), Survives::Records);
    let (asks, _) = drain(&mut taker);
    // What was said before to an earlier incarnation comes late, and says nothing.
    let owners = owners_digest(OWNERS.into_iter());
    let late =
        PeerMessage::Clock { from: OWNERS[1], incarnation: Incarnation(1), clock: Timestamp(1), owners };
    taker.handle_peer(slow, late);
    taker.handle(slow, link, prepare(1));
    let (_, early) = drain(&mut taker);
    for ask in asks {
        giver.handle_peer(fast, ask);
    }
    for answer in drain(&mut giver).0 {
        taker.handle_peer(slow, answer);
    }
    taker.handle(slow, link, prepare(2));
    (published, [early, drain(&mut taker).1])
}

/// Bug: a shard that lost its memory goes by its own time. Consequence: another one whose time is ahead had lost its memory, too, and
/// had given it keys; votes on them become smaller than what was published for them, and carried out. Mend: it asks the others, and
/// lets nobody in before they have answered (P85).
#[test]
fn trap_31_a_shard_that_lost_its_memory_was_further_ahead_than_its_own_time() {
    let (published, [early, after]) = both_lose_their_memory();
    assert_eq!(early, None, "nobody is let in");
    assert!(after.expect("it is let in") > published);
}

#[test]
fn who_is_not_answered_goes_on_when_its_own_time_is_beyond_all_that_was() {
    let limits = Limits::default();
    let link = Link { session: SessionId(1), connection: 1 };
    let [mut shard, _] = two_shards();
    shard.restart(Time(1_000), Incarnation(2), Survives::Nothing);
    let asked = |shard: &mut Shard| drain(shard).0.len();
    assert_eq!(asked(&mut shard), 1);
    let mut now = shard.poll_timeout().expect("it asks again");
    shard.handle_timeout(now);
    assert_eq!(asked(&mut shard), 1, "once more");
    // Another one owns all other keys now.
    shard.know_owners([OWNERS[0], ShardId(7)]);
    shard.handle_timeout(now);
    assert_eq!(asked(&mut shard), 1);
    while let Some(due) = shard.poll_timeout() {
        now = due;
        shard.handle_timeout(now);
        drain(&mut shard);
    }
    assert_eq!(now, Time(1_000).plus(limits.skew_us_max));
    shard.handle(now, link, prepare(1));
    assert!(drain(&mut shard).1.expect("it is let in").0 > now.plus(limits.ahead_us_max).0);
}

#[test]
fn who_lost_its_memory_asks_nothing_else_before_it_is_answered() {
    let mut shard = Shard::new(OWNERS[0], Incarnation(1), HOT, Limits::default());
    shard.know_owners(OWNERS);
    shard.restart(Time(1_000), Incarnation(2), Survives::Records);
    drain(&mut shard);
    let link = Link { session: SessionId(1), connection: 1 };
    shard.handle(Time(9_000), link, Request::Tick { want: Timestamp(0) });
    assert!(drain(&mut shard).0.is_empty(), "what is said to that would be taken for the answer");
}

/// A shard that knows no other carries something out, loses its memory, and carries something else out. With which timestamps.
fn alone_loses_its_memory() -> [Timestamp; 2] {
    let mut w = World::with(1, ALWAYS, Limits::default());
    let carry_out = |w: &mut World, suggested: u64| {
        let tx = placed(w, suggested, &[(0, sadd("a"))]);
        w.run();
        w.shards[0].final_timestamp(w.attempt(tx)).expect("it is carried out")
    };
    let before = carry_out(&mut w, 500_000);
    w.restart_shard_with(0, Survives::Records);
    [before, carry_out(&mut w, 1)]
}

#[test]
fn who_lost_its_memory_begins_beyond_all_that_was_suggested() {
    let [before, after] = alone_loses_its_memory();
    assert!(before < after);
}

// --- clocks that are forgotten (P73, P77) ---

/// A writer was carried out and is not settled. The clocks of its record are forgotten, since the shard's own has passed them. What a
/// reader that comes then is told while it has to wait.
fn behind_what_was_forgotten() -> Option<Vec<Reply>> {
    let mut w = World::with(2, ALWAYS, Limits::default());
    placed(&mut w, 5_000, &[(0, sadd("a"))]);
    w.run();
    let link = Link { session: SessionId(8), connection: 0 };
    for _ in 0..2 {
        w.shards[0].handle(w.now, link, Request::Tick { want: Timestamp(1_100_000) });
        while w.shards[0].poll_output().is_some() {}
    }
    let reader = placed(&mut w, 1_100_001, &[(0, scard())]);
    w.run();
    let early = told(&mut w, reader);
    w.tick_all(5_000);
    assert!(early.is_some() || told(&mut w, reader).is_some(), "it is told in the end");
    early
}

// --- who knows other owners (P79) ---

/// All that was ordered at a shard is settled as far as another one says, which does not know who owns keys now. Whether an attempt
/// without a timestamp is taken.
fn beside_clocks_of_other_owners() -> bool {
    let mut w = World::with(2, HOT, Limits::default());
    w.shards.iter_mut().for_each(|shard| shard.know_owners(OWNERS));
    placed(&mut w, 5_000, &[(0, sadd("a"))]);
    w.run();
    let link = Link { session: SessionId(8), connection: 0 };
    w.shards[0].handle(w.now, link, Request::Tick { want: Timestamp(5_000) });
    while w.shards[0].poll_output().is_some() {}
    let say = |w: &mut World, owners: &[ShardId]| {
        let (clock, owners) = (Timestamp(9_000), owners_digest(owners.iter().copied()));
        let said = PeerMessage::Clock { from: OWNERS[1], incarnation: Incarnation(1), clock, owners };
        w.shards[0].handle_peer(w.now, said);
    };
    let is_taken = |w: &mut World| {
        let tx = w.begin();
        w.buffer(tx, 0, "x", sadd("b"));
        w.commit(tx);
        w.run();
        w.committed(tx)
    };
    say(&mut w, &[ShardId(1), ShardId(2)]);
    let early = is_taken(&mut w);
    say(&mut w, &OWNERS);
    assert!(is_taken(&mut w), "it is taken in the end");
    early
}

// --- going over (P87) ---

/// A shard, and what it refused last.
struct Hot {
    shard: Shard,
    sequence: u64,
    refused: Option<Refusal>,
    /// Whether it answered last with a place.
    is_placed: bool,
}

impl Hot {
    fn new(asks_for_timestamps: Option<bool>) -> Self {
        let limits = Limits { asks_for_timestamps, ..Limits::default() };
        let mut shard = Shard::new(OWNERS[0], Incarnation(1), HOT, limits);
        shard.know_owners(OWNERS);
        let mut hot = Hot { shard, sequence: 1, refused: None, is_placed: false };
        // The record is there: who makes one has it alone.
        let mut first = prepare(1);
        let Request::Prepare { asks, calls, .. } = &mut first else { unreachable!("it is one") };
        *asks = Asks::Decision;
        calls[0].call.op = sadd("z");
        hot.handle(1, 1, first);
        hot
    }

    /// An attempt of a process on the one record, with another shard.
    fn attempt(&mut self, now: u64, process: u64, op: Operation, asked: Asks) -> AttemptId {
        self.sequence += 1;
        let tx = TxId { session: SessionId(process), sequence: Sequence(self.sequence) };
        let mut request = prepare(self.sequence);
        let Request::Prepare { attempt, birth, participants, calls, asks, .. } = &mut request else {
            unreachable!("it is one")
        };
        (attempt.tx, birth.tx, *asks) = (tx, tx, asked);
        calls[0].call.op = op;
        *participants =
            OWNERS.map(|shard| Listed { shard, incarnation: Some(Incarnation(1)) }).into_iter().collect();
        self.handle(now, process, request);
        AttemptId { tx, attempt: 1 }
    }

    fn abort(&mut self, now: u64, attempt: AttemptId) {
        self.handle(now, attempt.tx.session.0, Request::Abort { attempt, refused_by: Some(OWNERS[1]) });
    }

    fn handle(&mut self, now: u64, process: u64, request: Request) {
        (self.refused, self.is_placed) = (None, false);
        self.shard.handle(Time(now), Link { session: SessionId(process), connection: 1 }, request);
        while let Some(output) = self.shard.poll_output() {
            match output {
                Output::Respond { response: Response::Refused { refusal, .. }, .. } => {
                    self.refused = Some(refusal);
                }
                Output::Respond { response: Response::Placed { .. }, .. } => self.is_placed = true,
                _ => {}
            }
        }
    }

    /// Whether the shard asks for timestamps: an attempt of this process without one is refused.
    fn asks(&mut self, now: u64, process: u64) -> bool {
        let attempt = self.attempt(now, process, sadd("b"), Asks::Vote);
        let refused = self.refused.clone();
        assert!(matches!(refused, None | Some(Refusal::Unstamped)), "{refused:?}");
        if refused.is_none() {
            self.abort(now, attempt);
        }
        refused.is_some()
    }
}

/// What has no timestamp comes after all that has one: it is refused while the shard asks for them, and as long as that is not settled.
#[test]
fn what_has_no_timestamp_is_refused_where_it_is_asked_for_and_before_all_is_settled() {
    assert!(Hot::new(Some(true)).asks(10, 1));
    let mut hot = Hot::new(Some(false));
    assert!(!hot.asks(10, 1));
    let stamped = hot.attempt(11, 2, sadd("a"), Asks::Place(Timestamp(11)));
    assert!(hot.is_placed && hot.asks(12, 1), "it is here");
    hot.abort(13, stamped);
    assert!(hot.asks(14, 1), "what another shard voted meanwhile is not known");
}

/// An attempt with a timestamp pays for the order: it is ordered wherever it comes, and locks nothing beside that.
#[test]
fn who_has_a_timestamp_is_ordered_whether_or_not_the_shard_asks_for_it() {
    let mut hot = Hot::new(Some(false));
    hot.attempt(10, 1, sadd("a"), Asks::Place(Timestamp(10)));
    assert!(hot.is_placed);
    hot.attempt(11, 2, scard(), Asks::Place(Timestamp(11)));
    assert!(hot.is_placed, "it does not wait for the other one");
}

/// An attempt without a timestamp waits for a lock. Meanwhile somebody votes with one. Whether the attempt votes beside that.
fn beside_who_was_ordered_meanwhile() -> bool {
    let mut w = World::with(2, HOT, Limits::default());
    w.shards.iter_mut().for_each(|shard| shard.know_owners(OWNERS));
    let holder = w.holder(0, "k", incr_returning(1));
    let unstamped = w.begin();
    w.buffer(unstamped, 0, "k", incr_returning(1));
    w.commit(unstamped);
    w.run();
    let stamped = placed(&mut w, 5_000, &[(0, sadd("a")), (1, sadd("a"))]);
    w.deliver(Kind::Prepare, 0);
    w.abort(holder);
    w.run_until(|message| message.shard() == 1);
    let votes = w.committed(unstamped);
    assert_eq!(w.restarts(unstamped), usize::from(!votes));
    w.run();
    w.tick_all(5_000);
    assert!(w.committed(stamped));
    votes
}

// --- final timestamps (P88) ---

/// Somebody says of an attempt, whose votes are about 2,000, that its final timestamp is very large. What it is.
fn placed_by_a_liar() -> Timestamp {
    let mut w = World::with(2, ALWAYS, Limits::default());
    let tx = placed(&mut w, 2_000, &[(0, sadd("a")), (1, sadd("a"))]);
    w.deliver(Kind::Prepare, 0);
    w.deliver(Kind::Prepare, 1);
    let attempt = w.attempt(tx);
    w.client_dies();
    for shard in 0..2 {
        w.send(shard, Request::ApplyAt { attempt, at: Timestamp(u64::MAX - 1) });
    }
    w.run();
    let at = [0, 1].map(|shard: usize| w.shards[shard].final_timestamp(attempt).expect("it is carried out"));
    assert_eq!(at[0], at[1]);
    at[0]
}

/// What a shard says its clock is to whoever wants so much, when the others have answered what it asks them.
fn clock_of(shards: &mut [Shard; 2], which: usize, now: Time, want: Timestamp) -> Timestamp {
    let link = Link { session: SessionId(7), connection: 1 };
    let mut clock = Timestamp::default();
    // The second time it has heard the other.
    for now in [now, now.plus(50_000)] {
        shards[which].handle(now, link, Request::Tick { want });
        let mut said = Vec::new();
        while let Some(output) = shards[which].poll_output() {
            match output {
                Output::Respond { response: Response::Ticked { clock: its, .. }, .. } => clock = its,
                Output::Tell { message, .. } => said.push(message),
                Output::Respond { .. } => {}
            }
        }
        said.into_iter().for_each(|message| shards[1 - which].handle_peer(now, message));
        for answer in drain(&mut shards[1 - which]).0 {
            shards[which].handle_peer(now, answer);
        }
    }
    clock
}

/// Bug: a shard whose clock was an hour ahead voted, and remembered that over its restart with the right time. No shard raised its clock
/// beyond what its own time allows. Consequence: what was ordered there was not settled before the time of day had come there, and
/// plain commands and transactions on such records waited for that hour. Mend: shards believe each other how far somebody is (P88).
#[test]
fn trap_56_a_time_that_was_wrong_is_not_waited_for() {
    let (wrong, right) = (Time(3_600_000_000), Time(1_000));
    let mut shards = two_shards();
    shards[0].handle(wrong, Link { session: SessionId(1), connection: 1 }, prepare(1));
    let (_, at) = drain(&mut shards[0]);
    let at = at.expect("it is carried out");
    assert!(at.0 >= wrong.0);
    shards[0].restart(right, Incarnation(2), Survives::Votes);
    for which in [0, 1] {
        assert!(clock_of(&mut shards, which, right, at) >= at, "shard {which}");
    }
}

/// A client wants more than any shard can have, of one shard and the other in turn, and both take keys from each other that nobody told
/// of. Their times differ by as much as they may, and perhaps one of them was an hour ahead before. How far that takes them.
fn taken_by_liars(was_wrong: bool) -> (Timestamp, Timestamp) {
    let limits = Limits::default();
    let mut shards = two_shards();
    let (mut now, mut named) = (Time(1_000), Timestamp::default());
    if was_wrong {
        let wrong = Time(3_600_000_000);
        shards[0].handle(wrong, Link { session: SessionId(1), connection: 1 }, prepare(1));
        named = drain(&mut shards[0]).1.expect("it is carried out");
    }
    for round in 0..40 {
        let which = round % 2;
        let its = now.plus(if which == 1 { limits.skew_us_max } else { 0 });
        clock_of(&mut shards, which, its, Timestamp(u64::MAX - 1));
        shards[which].take_over_unasked(its);
        drain(&mut shards[which]);
        now = now.plus(100_000);
    }
    let furthest = shards.iter().map(Shard::clock).max().expect("two");
    // Of the one whose time is ahead.
    let honest = now.plus(limits.ahead_us_max + 3 * limits.skew_us_max);
    (furthest, Timestamp(honest.0).max(named))
}

#[test]
fn liars_take_two_shards_no_further_than_one() {
    for was_wrong in [false, true] {
        let (furthest, most) = taken_by_liars(was_wrong);
        assert!(furthest <= most, "{furthest:?} {most:?}");
    }
}

// --- asking for clocks (P79) ---

/// Bug: a process asked a shard for its clock as soon as it had answered. Consequence: while a shard's own time does not allow it to come
/// as far as somebody waits (P88), frames went to and fro without end. Mend: it is asked when it can have come there.
#[test]
fn who_cannot_come_as_far_yet_is_not_asked_without_end() {
    let (start, shard, resend_us) = (Time(1), OWNERS[0], Limits::default().resend_us);
    let mut client = Client::new(SessionId(1), ALWAYS, Limits::default(), 1, Pacing::default());
    let node: Node = "first:1".into();
    client.adopt(start, vec![SlotRange { first: 0, last: 0, node: node.clone() }]);
    client.connected(start, 0, &node, (shard, Incarnation(1)), 1_000_000_000);
    let tx = client.begin(start, 1);
    client.buffer(start, (tx, 1), (0, "x".into()), sadd("a")).expect("it runs");
    client.commit(start, (tx, 1)).expect("it runs");
    client.settle(start);
    let attempt = client.attempt(tx).expect("it runs");
    // What leaves by then, answered with this.
    let exchange = |client: &mut Client, now: Time, responses: Vec<Response>| {
        let mut requests = Vec::new();
        client.take(shard, 0, &mut requests);
        if !requests.is_empty() {
            client.deliver(now, (shard, 0), 1, responses.into_iter());
            client.settle(now);
        }
        requests.len()
    };
    let ticked = |now: Time, clock| {
        let owners = owners_digest([shard].into_iter());
        Response::Ticked { clock: Timestamp(clock), now, passed: Timestamp::default(), orders: true, owners }
    };
    let (at, behind, replies) = (Timestamp(3 * resend_us), Timestamp(3 * resend_us - 1), Some(Vec::new()));
    let done = Response::Done { attempt, shard, at, behind, replies };
    assert!(exchange(&mut client, start, vec![ticked(start, 0), done]) > 1, "heartbeat and prepare");
    assert_eq!(exchange(&mut client, start, vec![ticked(start, 1)]), 1, "it is asked for its clock");
    assert_eq!(exchange(&mut client, start, vec![ticked(start, 1)]), 0, "not again at once");
    let due = client.poll_timeout().expect("it is asked again");
    assert_eq!(due, start.plus(resend_us));
    client.handle_timeout(due);
    client.settle(due);
    assert_eq!(exchange(&mut client, due, vec![ticked(due, behind.0)]), 1);
    let is_told = |(_, event)| matches!(event, Event::Committed { .. });
    assert!(std::iter::from_fn(|| client.poll_event()).any(is_told));
    client.check_invariants();
}

// --- elders (P81) ---

/// Somebody has voted at `x` and waits elsewhere for a lock. Somebody final stands behind it, and the owner of that lock waits for the
/// final one. How often who voted gave way, and whether the owner of the lock was answered. `final_is_eldest`: then it alone is elder;
/// otherwise the owner of the lock is.
fn before_who_is_final(final_is_eldest: bool) -> (usize, bool) {
    let mut w = World::with(2, ALWAYS, Limits::default());
    let behind = final_is_eldest.then(|| w.begin());
    let owner = w.holder(1, "k", incr_returning(1));
    let voted = w.begin();
    w.buffer(voted, 0, "x", sadd("a"));
    w.buffer(voted, 1, "k", incr_returning(1));
    w.commit_at(voted, 2_000);
    w.run();
    let behind: Tx = behind.unwrap_or_else(|| w.begin());
    for (shard, key) in [(0, "x"), (0, "other"), (1, "y")] {
        w.buffer(behind, shard, key, scard());
    }
    w.commit_at(behind, 3_000);
    w.run();
    w.execute(owner, 0, "other", sadd_returning("c"));
    w.run();
    w.pass(Limits::default().give_way_us);
    w.run();
    (w.restarts(voted), w.answers(owner).len() == 2)
}

#[test]
fn nobody_waits_in_a_circle_behind_who_is_final() {
    assert_eq!(before_who_is_final(true), (1, true));
    assert_eq!(before_who_is_final(false), (1, true));
}

/// A shard says up to where nobody votes any more, since that is long ago; what is suggested is earlier. Up to where, and the vote.
fn voted_after_it_passed() -> (Timestamp, Timestamp) {
    let limits = Limits { passed_us: 1_000, ..Limits::default() };
    let mut shards = OWNERS.map(|id| Shard::new(id, Incarnation(1), ALWAYS, limits));
    shards.iter_mut().for_each(|shard| shard.know_owners(OWNERS));
    let link = Link { session: SessionId(1), connection: 1 };
    let [speaker, voter] = &mut shards;
    let now = Time(10_000);
    speaker.handle(now, link, Request::Tick { want: Timestamp::default() });
    let passed = std::iter::from_fn(|| speaker.poll_output()).find_map(|output| match output {
        Output::Respond { response: Response::Ticked { passed, .. }, .. } => Some(passed),
        _ => None,
    });
    let mut request = prepare(1);
    let Request::Prepare { participants, .. } = &mut request else { unreachable!("it is one") };
    *participants = [Listed { shard: OWNERS[1], incarnation: None }].into_iter().collect();
    voter.handle(now, link, request);
    let (_, voted) = drain(voter);
    (passed.expect("it ticked"), voted.expect("it voted"))
}

#[test]
fn clocks_and_places_are_what_they_are_taken_for() {
    let (passed, voted) = voted_after_it_passed();
    assert!(passed == Timestamp(8_999) && voted > passed, "{passed:?} {voted:?}");
    assert_eq!(behind_what_was_forgotten(), None);
    assert!(!beside_clocks_of_other_owners());
    assert!(!beside_who_was_ordered_meanwhile());
    assert!(placed_by_a_liar() < Timestamp(3_000));
}

#[cfg(feature = "planted-bugs")]
#[test]
fn clocks_and_places_that_are_not_are_noticed() {
    use claret_core::{Bug, with_bug};
    let (published, [early, _]) = with_bug(Some(Bug::BeginsUnasked), both_lose_their_memory);
    assert!(early.is_some_and(|early| early < published));
    let [before, after] = with_bug(Some(Bug::RestartsAtOwnTime), alone_loses_its_memory);
    assert!(after < before);
    assert!(with_bug(Some(Bug::NoFloor), behind_what_was_forgotten).is_some());
    assert!(with_bug(Some(Bug::OtherOwnersCount), beside_clocks_of_other_owners));
    let (passed, voted) = with_bug(Some(Bug::VotesInThePast), voted_after_it_passed);
    assert!(voted < passed);
    assert!(with_bug(Some(Bug::UnstampedVotesBeside), beside_who_was_ordered_meanwhile));
    assert!(with_bug(Some(Bug::AnyFinalBelieved), placed_by_a_liar) > Timestamp(3_000));
    assert_eq!(with_bug(Some(Bug::OwnBirthKept), || before_who_is_final(true)), (0, false));
    assert_eq!(with_bug(Some(Bug::ElderNotPassedOn), || before_who_is_final(false)), (0, false));
}
