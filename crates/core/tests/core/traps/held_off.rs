//! Trap 25: a command of the host over many keys asks for those that are held, and the others are taken before it runs.
//!
//! Bug: it has all that it asked for, and what it did not ask for is free, but the command runs with the host's next turn,
//! and others come in between. Consequence: it sees one half of what a transaction did. Mend: until it has run nobody gets a
//! record that nobody holds, neither who comes nor who was woken and goes on to further records (P63).

use claret_core::message::{Asks, Call, KeyedCall, Link, Listed, Members, Request, Status};
use claret_core::{
    AttemptId, Birth, CallNo, Incarnation, Limits, Member, Sequence, SessionId, Shard, ShardId, Survives,
    Switches, Time, TxId,
};

use crate::harness::incr_returning;

const NOW: Time = Time(1);
const SHARD: ShardId = ShardId(1);

fn link(session: u64) -> Link {
    Link { session: SessionId(session), connection: 1 }
}

fn birth(session: u64) -> Birth {
    Birth { time: NOW, tx: TxId { session: SessionId(session), sequence: Sequence(1) } }
}

fn attempt(session: u64) -> AttemptId {
    AttemptId { tx: birth(session).tx, attempt: 1 }
}

fn call(no: u32) -> Call {
    Call { no: CallNo(no), op: incr_returning(1), member: Member(0), reserve: None }
}

fn execute(session: u64, key: &str) -> Request {
    Request::Execute {
        attempt: attempt(session),
        birth: birth(session),
        incarnation: None,
        key: key.into(),
        calls: [call(0)].into_iter().collect(),
        undone: Default::default(),
    }
}

fn prepare(session: u64, keys: &[&str]) -> Request {
    let keyed = |(no, key): (usize, &&str)| KeyedCall { key: (**key).into(), call: call(no as u32) };
    Request::Prepare {
        attempt: attempt(session),
        birth: birth(session),
        participants: [Listed { shard: SHARD, incarnation: None }].into_iter().collect(),
        relies_on: 0,
        calls: keys.iter().enumerate().map(keyed).collect(),
        members: Members::All,
        asks: Asks::Decision,
        undone: Default::default(),
    }
}

fn shard() -> Shard {
    Shard::new(SHARD, Incarnation(1), Switches::CLARET, Limits::default())
}

#[test]
fn trap_25_nobody_comes_between_a_command_and_the_keys_that_it_did_not_ask_for() {
    let mut shard = shard();
    shard.handle(NOW, link(1), execute(1, "held"));
    // Waits for what is held, and goes on to what is free.
    shard.handle(NOW, link(2), prepare(2, &["held", "free"]));
    shard.hold_off();
    shard.handle(NOW, link(3), prepare(3, &["free", "other"]));
    shard.handle(NOW, link(4), execute(4, "other"));
    shard.handle(NOW, link(1), Request::Withdraw { attempt: attempt(1) });
    shard.handle_timeout(NOW);
    shard.check_invariants();
    let held = |shard: &Shard| ["held", "free", "other"].map(|key| shard.is_held(key.as_bytes()));
    assert_eq!(
        held(&shard),
        [true, false, false],
        "what was held goes from one to the next, and that is all"
    );
    assert_eq!(shard.poll_timeout().filter(|due| *due <= NOW), None, "there is nothing to come back for");

    shard.let_on();
    assert_eq!(shard.poll_timeout(), Some(NOW), "they go on");
    shard.handle_timeout(NOW);
    shard.check_invariants();
    shard.handle(NOW, link(4), Request::Withdraw { attempt: attempt(4) });
    shard.handle_timeout(NOW);
    for session in [2, 3] {
        assert_eq!(shard.written(attempt(session)), Some(Status::Applied), "{session}");
    }
    assert_eq!(held(&shard), [false; 3]);
}

#[test]
fn two_commands_that_are_about_to_run_are_both_waited_for() {
    let mut shard = shard();
    shard.hold_off();
    shard.hold_off();
    shard.handle(NOW, link(1), prepare(1, &["k"]));
    shard.let_on();
    shard.handle_timeout(NOW);
    assert_eq!(shard.written(attempt(1)), None, "one of them did not run yet");
    shard.let_on();
    shard.handle_timeout(NOW);
    assert_eq!(shard.written(attempt(1)), Some(Status::Applied));
    // Said once too often it does nothing.
    shard.let_on();
    shard.hold_off();
    shard.handle(NOW, link(2), prepare(2, &["k"]));
    assert_eq!(shard.written(attempt(2)), None);
}

#[test]
fn another_incarnation_holds_nobody_off() {
    for survives in [Survives::Votes, Survives::Records, Survives::Nothing] {
        let mut shard = shard();
        shard.hold_off();
        shard.restart(NOW, Incarnation(2), survives);
        shard.handle(NOW, link(1), prepare(1, &["k"]));
        assert_eq!(shard.written(attempt(1)), Some(Status::Applied), "{survives:?}");
    }
}
