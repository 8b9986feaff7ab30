//! Hellos, connections, outboxes and polls, without a server.

use claret_core::message::{Link, Response};
use claret_core::{AttemptId, Sequence, SessionId, ShardId, Time, TxId, wire};
use claret_identity::{Challenge, Identity, Statement};

use super::{Delivery, Handshake, Name, OutboxBounds, SessionBounds, Sessions, Way};
use crate::parts::error::Error;
use crate::parts::testing::client as handle;

const SHARD: ShardId = ShardId(4);
const MANY: SessionBounds = SessionBounds { sessions_max: 10, user_sessions_max: 10 };
const WIDE: OutboxBounds = OutboxBounds { count_max: 100, bytes_max: 1 << 20, all_bytes_max: 1 << 20 };

fn identity(seed: u8) -> Identity {
    Identity::of_seed(&[seed; 32])
}

fn ada() -> Name {
    Name::new(b"ada")
}

fn handshake<'a>(client: u64, user: &'a Name, identity: &Identity, connection: u32) -> Handshake<'a> {
    Handshake { client, user, key: identity.public(), connection, words: &[b"POLL"] }
}

fn signed(
    handshake: &Handshake<'_>,
    identity: &Identity,
    challenge: Challenge,
    shard: ShardId,
) -> claret_identity::Signature {
    let session = identity.session();
    let Handshake { connection, words, .. } = *handshake;
    identity.sign(&Statement { version: wire::VERSION, shard, challenge, session, connection, way: words })
}

/// A connection of a session proves it, and is bound or refused.
fn hello(
    sessions: &mut Sessions,
    client: u64,
    user: &Name,
    (seed, connection): (u8, u32),
    way: Option<Way>,
    bounds: SessionBounds,
) -> Result<SessionId, Error> {
    let identity = identity(seed);
    let handshake = handshake(client, user, &identity, connection);
    let challenge = Challenge([client as u8; 32]);
    sessions.ask(client, challenge)?;
    sessions.prove(&handshake, SHARD, &signed(&handshake, &identity, challenge, SHARD))?;
    sessions.hello(&handshake, way, bounds)?;
    Ok(identity.session())
}

fn polls(sessions: &mut Sessions, client: u64, seed: u8, connection: u32) -> SessionId {
    hello(sessions, client, &ada(), (seed, connection), Some(Way::Poll), MANY).expect("let in")
}

fn response(session: SessionId, number: u64) -> Response {
    let tx = TxId { session, sequence: Sequence(number) };
    Response::Queued { attempt: AttemptId { tx, attempt: 1 }, no: None }
}

#[test]
fn a_connection_has_one_proof_and_one_session() {
    let (mut sessions, ada) = (Sessions::default(), ada());
    let (own, other) = (identity(1), identity(2));
    let shakes = |client| handshake(client, &ada, &own, 1);
    let proof = |client, challenge, shard| signed(&shakes(client), &own, challenge, shard);
    let challenge = Challenge([7; 32]);
    assert_eq!(sessions.prove(&shakes(1), SHARD, &proof(1, challenge, SHARD)), Err(Error::NothingToProve));
    for wrong in [
        proof(1, Challenge([8; 32]), SHARD),
        proof(1, challenge, ShardId(5)),
        signed(&shakes(1), &other, challenge, SHARD),
    ] {
        let mut sessions = Sessions::default();
        sessions.ask(1, challenge).expect("the first time");
        assert_eq!(sessions.prove(&shakes(1), SHARD, &wrong), Err(Error::HelloFailed));
        assert_eq!(sessions.ask(1, challenge), Err(Error::HelloFailed), "and not again");
        assert_eq!(sessions.prove(&shakes(1), SHARD, &proof(1, challenge, SHARD)), Err(Error::HelloFailed));
    }
    polls(&mut sessions, 1, 1, 1);
    assert_eq!(sessions.ask(1, challenge), Err(Error::HelloTwice));
    assert!(sessions.link(1, &ada).is_ok());
    assert_eq!(sessions.link(2, &ada), Err(Error::NoSession));
    assert_eq!(sessions.link(1, &Name::new(b"bob")), Err(Error::OtherUser));
}

#[test]
fn connections_are_numbered_upwards_and_are_of_one_user() {
    let mut sessions = Sessions::default();
    let again = |sessions: &mut Sessions, client, user: &str, connection| {
        hello(sessions, client, &Name::new(user.as_bytes()), (1, connection), Some(Way::Waits), MANY)
    };
    let session = again(&mut sessions, 1, "ada", 5).expect("new");
    assert_eq!(again(&mut sessions, 2, "ada", 4), Err(Error::OldConnection { newer: 5 }));
    assert_eq!(again(&mut sessions, 3, "bob", 6), Err(Error::OtherUser));
    assert!(again(&mut sessions, 4, "ada", 6).is_ok());
    assert_eq!(sessions.owner_of(session).and_then(|owner| owner.client), Some(4), "its newest");
    assert_eq!(sessions.closed(Time(1), 1), None, "one is left");
    assert_eq!(sessions.closed(Time(1), 2), None, "it was never let in");
    assert_eq!(sessions.closed(Time(1), 4), Some(session));
    assert!(sessions.is_known(session) && !sessions.is_bound(session));
}

#[test]
fn there_are_so_many_sessions_and_so_many_of_a_user() {
    let mut sessions = Sessions::default();
    let bounds = SessionBounds { sessions_max: 3, user_sessions_max: 2 };
    let mut new = |client: u64, user: &str| {
        let user = Name::new(user.as_bytes());
        hello(&mut sessions, client, &user, (client as u8, 1), Some(Way::Poll), bounds).err()
    };
    assert_eq!((new(1, "ada"), new(2, "ada")), (None, None));
    assert_eq!(new(3, "ada"), Some(Error::TooManySessionsOfUser(2)));
    assert_eq!((new(4, "bob"), new(5, "bob")), (None, Some(Error::TooManySessions(3))));
    let ada = [1, 2].map(|client| sessions.closed(Time(0), client).expect("its only one"));
    assert_eq!(sessions.forget(Time(9), 10), []);
    let mut forgotten = sessions.forget(Time(10), 10);
    forgotten.sort_unstable();
    let mut wanted = ada.to_vec();
    wanted.sort_unstable();
    assert_eq!((forgotten, sessions.len()), (wanted, 1));
    assert!(hello(&mut sessions, 6, &Name::new(b"ada"), (6, 1), Some(Way::Poll), bounds).is_ok());
}

#[test]
fn who_listens_sends_no_frames_and_keeps_no_session() {
    let mut sessions = Sessions::default();
    let listen = |sessions: &mut Sessions, client| hello(sessions, client, &ada(), (1, 1), None, MANY);
    assert_eq!(listen(&mut sessions, 1), Err(Error::NoSession), "of nobody");
    let session = polls(&mut sessions, 2, 1, 1);
    assert_eq!(listen(&mut sessions, 3), Ok(session));
    assert_eq!(sessions.link(3, &ada()), Err(Error::NoSession));
    assert!(sessions.may_poll(3, session, &ada()).is_ok());
    assert_eq!(sessions.may_poll(9, session, &ada()), Err(Error::NoSession));
    assert_eq!(listen(&mut sessions, 4), Ok(session));
    assert_eq!((sessions.closed(Time(0), 4), sessions.is_bound(session)), (None, true), "a listener is gone");
    assert_eq!(sessions.closed(Time(0), 2), Some(session), "only a listener is left");
}

#[test]
fn what_waits_is_pushed_polled_or_taken_along_and_never_twice() {
    let mut sessions = Sessions::default();
    let push = Way::Push(b"channel".to_vec());
    let pushed = hello(&mut sessions, 1, &ada(), (1, 1), Some(push), MANY).expect("let in");
    let polled = polls(&mut sessions, 2, 2, 1);
    sessions.put(pushed, response(pushed, 1), WIDE);
    sessions.put(pushed, response(pushed, 2), WIDE);
    sessions.put(polled, response(polled, 1), WIDE);
    sessions.put(SessionId(99), response(polled, 1), WIDE);
    let Some((session, Delivery::Push(channel, responses))) = sessions.next_delivery() else { panic!("one") };
    assert_eq!((session, &channel[..], responses.len()), (pushed, &b"channel"[..], 2));
    assert!(sessions.next_delivery().is_none(), "nobody polls");
    sessions.put_back(pushed, responses);
    assert_eq!(
        (sessions.take(pushed), sessions.waiting()),
        (vec![response(pushed, 1), response(pushed, 2)], 1)
    );
    sessions.wait(polled, handle(1), Time(100));
    sessions.put(polled, response(polled, 2), WIDE);
    let Some((_, Delivery::Wake(poller))) = sessions.next_delivery() else { panic!("it polls") };
    assert_eq!((poller, sessions.stop_waiting(handle(1))), (handle(1), false), "it was let go");
    assert_eq!((sessions.take(polled).len(), sessions.waiting_bytes()), (2, 0));
}

#[test]
fn what_nobody_took_is_told_before_what_came_since() {
    let mut sessions = Sessions::default();
    let session = polls(&mut sessions, 1, 1, 1);
    (0..2).for_each(|number| sessions.put(session, response(session, number), WIDE));
    let taken = sessions.take(session);
    sessions.put(session, response(session, 2), WIDE);
    sessions.put_back(session, taken);
    assert_eq!(sessions.take(session), [0, 1, 2].map(|number| response(session, number)));
}

#[test]
fn a_poller_waits_for_so_long_and_one_at_a_time() {
    let mut sessions = Sessions::default();
    let session = polls(&mut sessions, 1, 1, 1);
    assert!(!sessions.is_polled());
    assert_eq!(sessions.wait(session, handle(1), Time(50)), None);
    assert_eq!(sessions.wait(session, handle(2), Time(100)), Some(handle(1)));
    assert_eq!(sessions.late(Time(99)), []);
    assert!(sessions.is_polled());
    assert_eq!(sessions.late(Time(100)), [(session, handle(2))]);
    assert!(!sessions.is_polled());
    sessions.wait(session, handle(3), Time(200));
    assert!(sessions.stop_waiting(handle(3)) && !sessions.stop_waiting(handle(3)));
    sessions.wait(session, handle(4), Time(200));
    assert_eq!((sessions.clear(), sessions.len()), (vec![handle(4)], 0));
}

#[test]
fn of_more_than_may_wait_the_oldest_go() {
    let mut sessions = Sessions::default();
    let (first, second) = (polls(&mut sessions, 1, 1, 1), polls(&mut sessions, 2, 2, 1));
    let few = OutboxBounds { count_max: 3, ..WIDE };
    (0..5).for_each(|number| sessions.put(first, response(first, number), few));
    assert_eq!(
        (sessions.dropped, sessions.take(first)),
        (2, [2, 3, 4].map(|it| response(first, it)).to_vec())
    );
    // Over what may wait for all, each has the same share.
    let size = response(first, 0).size() as u64;
    let tight = OutboxBounds { all_bytes_max: 4 * size, ..WIDE };
    (0..4).for_each(|number| sessions.put(first, response(first, number), tight));
    assert_eq!(sessions.dropped, 2, "it fits");
    sessions.put(second, response(second, 0), tight);
    assert_eq!(sessions.dropped, 2, "the share is not used up");
    sessions.put(first, response(first, 4), tight);
    assert_eq!((sessions.waiting(), sessions.waiting_bytes() as u64), (3, 3 * size));
}

/// What a helper's frames count for, and that its session is nobody else's (E4 of docs/errands.md).
#[test]
fn a_helper_speaks_over_its_newest_connection_without_a_gap() {
    let mut sessions = Sessions::default();
    let session = SessionId(77);
    let link = |connection| Link { session, connection };
    sessions.hello_by_letter(Time(1), "a", link(1), &ada(), MANY).expect("let in");
    assert_eq!(sessions.hear_letter(Time(2), "a", link(1), 1), Some(ada()));
    for (from, connection, number) in [("b", 1, 2), ("a", 2, 2), ("a", 1, 1), ("a", 1, 3)] {
        assert_eq!(
            sessions.hear_letter(Time(2), from, link(connection), number),
            None,
            "{from} {connection} {number}"
        );
    }
    let answered = |sessions: &mut Sessions| match sessions.next_delivery() {
        Some((_, Delivery::Letter { home, link, answered, responses })) => {
            Some((home, link.connection, answered, responses.len()))
        }
        _ => None,
    };
    assert_eq!(answered(&mut sessions), Some(("a".to_owned(), 1, 1, 0)), "also where nothing is answered");
    assert_eq!(answered(&mut sessions), None);
    sessions.put(session, response(session, 1), WIDE);
    assert_eq!(answered(&mut sessions), Some(("a".to_owned(), 1, 1, 1)));
    sessions.hello_by_letter(Time(1), "a", link(2), &ada(), MANY).expect("let in");
    assert_eq!(sessions.hear_letter(Time(2), "a", link(1), 2), None, "an earlier connection");
    assert_eq!(sessions.hear_letter(Time(2), "a", link(2), 1), Some(ada()), "frames are counted anew");
    for (home, user) in [("b", ada()), ("a", Name::new(b"bob"))] {
        assert!(sessions.hello_by_letter(Time(1), home, link(3), &user, MANY).is_err(), "{home} as {user}");
    }
    assert_eq!(sessions.owner_of(session).and_then(|owner| owner.client), None);
    sessions.end_helpers(Time(5), "b", None);
    assert_eq!(sessions.take_deserted(), []);
    sessions.end_helpers(Time(5), "a", None);
    assert_eq!(sessions.take_deserted(), [session]);
    assert_eq!(sessions.forget(Time(15), 10), [session]);
    assert_eq!(sessions.hear_letter(Time(2), "a", link(2), 2), None);
}

#[test]
fn a_session_of_a_client_is_no_helpers_and_the_other_way_round() {
    let mut sessions = Sessions::default();
    let client = polls(&mut sessions, 1, 1, 1);
    let link = Link { session: client, connection: 9 };
    assert_eq!(sessions.hello_by_letter(Time(1), "a", link, &ada(), MANY), Err(Error::OtherKey));
    let helper = identity(2).session();
    let link = Link { session: helper, connection: 1 };
    sessions.hello_by_letter(Time(1), "a", link, &ada(), MANY).expect("let in");
    assert_eq!(hello(&mut sessions, 2, &ada(), (2, 2), Some(Way::Poll), MANY), Err(Error::OtherKey));
}

#[test]
fn a_helper_that_is_silent_for_long_is_over_and_is_heard_no_more() {
    let mut sessions = Sessions::default();
    let link = Link { session: SessionId(77), connection: 1 };
    sessions.hello_by_letter(Time(1), "a", link, &ada(), MANY).expect("let in");
    assert_eq!(sessions.hear_letter(Time(100), "a", link, 1), Some(ada()));
    sessions.end_silent_helpers(Time(149), 50);
    assert_eq!(sessions.take_deserted(), []);
    sessions.end_silent_helpers(Time(150), 50);
    assert_eq!(sessions.take_deserted(), [link.session]);
    assert_eq!(sessions.hear_letter(Time(151), "a", link, 2), None, "nobody would answer it");
    let again = Link { connection: 2, ..link };
    sessions.hello_by_letter(Time(152), "a", again, &ada(), MANY).expect("let in");
    assert_eq!(sessions.hear_letter(Time(153), "a", again, 1), Some(ada()));
}

#[test]
fn a_frame_that_is_refused_is_not_answered_besides() {
    let mut sessions = Sessions::default();
    let link = Link { session: SessionId(77), connection: 1 };
    sessions.hello_by_letter(Time(1), "a", link, &ada(), MANY).expect("let in");
    assert_eq!(sessions.hear_letter(Time(2), "a", link, 1), Some(ada()));
    sessions.refuse_letter(link, 1);
    assert!(sessions.next_delivery().is_none());
    assert_eq!(sessions.hear_letter(Time(3), "a", link, 2), Some(ada()));
}
