//! Lines by hand, without connections: where commands wait, and what becomes of them when nodes come and go.

use super::super::topology::Range;
use super::*;

fn node(port: u16) -> Address {
    Address { host: "h".into(), port }
}

fn pool() -> Arc<Pool> {
    Arc::new(Pool::new(super::super::options::settings("redis://h:1")))
}

/// Each node has as many slots as the others, in this order.
fn shared_by(ports: &[u16]) -> Topology {
    let each = SLOTS / ports.len();
    let ranges = ports.iter().enumerate().map(|(at, port)| {
        let last = if at + 1 == ports.len() { SLOTS } else { (at + 1) * each };
        Range { first: (at * each) as u16, last: last as u16 - 1, node: node(*port), shard: None }
    });
    Topology { ranges: ranges.collect() }
}

/// In the last slot.
fn command() -> Command {
    Command::new("GET").arg("k").with_slot(SLOTS as u16 - 1)
}

fn waiting(command: Command) -> (Arc<Gather>, Waiting) {
    let gather = Arc::new(Gather::new(1));
    let receiver: Arc<dyn Receiver> = Arc::clone(&gather) as Arc<dyn Receiver>;
    (gather, Waiting::new(command, receiver, 0))
}

/// How many commands wait in the line of a node.
fn queued(pool: &Pool, port: u16) -> usize {
    let lines = pool.inner.lock();
    lines.named(&node(port).to_string()).map_or(0, |at| lines.lines[at].queued.len())
}

#[test]
fn what_waits_for_a_node_that_left_goes_to_those_who_have_its_slots() {
    let pool = pool();
    pool.adopt(&shared_by(&[1, 2]));
    let (by_key, one) = waiting(command());
    let (by_name, other) = waiting(Command::new("PING"));
    pool.send([one]);
    assert!(pool.send_to("h:2", other));
    assert_eq!(queued(&pool, 2), 2);
    pool.adopt(&shared_by(&[1]));
    pool.is_gone(&node(2));
    assert_eq!(queued(&pool, 1), 1, "its key is there now");
    assert!(by_key.take(Waker::noop()).is_none(), "it waits for its reply");
    let told = by_name.take(Waker::noop()).expect("it was for that node alone");
    assert!(matches!(told[..], [Err(PlainError::NoSuchNode(_))]), "{told:?}");
}

/// Another node may still believe that it is there.
#[tokio::test(start_paused = true)]
async fn nothing_is_sent_to_a_node_that_left_whoever_says_so() {
    let pool = pool();
    pool.adopt(&shared_by(&[1, 2]));
    let moved = ServerError::new(b"MOVED 16383 h:2");
    pool.adopt(&shared_by(&[1]));
    // While it is parted with, it may be believed.
    let (_early, one) = waiting(command());
    assert!(pool.redirect(one, &moved).is_none());
    assert_eq!(queued(&pool, 2), 1);
    pool.is_gone(&node(2));
    assert_eq!(queued(&pool, 1), 1);
    let (_late, other) = waiting(command());
    assert!(pool.redirect(other, &moved).is_none());
    tokio::time::sleep(REST * 2).await;
    assert_eq!(queued(&pool, 1), 2, "it rested, and is where its slot is");
}

#[tokio::test(start_paused = true)]
async fn what_moved_or_is_to_come_again_is_kept() {
    for said in
        ["MOVED 16383 h:1", "MOVED 16383 h:9", "ASK 16383 h:9", "TRYAGAIN x", "CLUSTERDOWN x", "LOADING x"]
    {
        let pool = pool();
        pool.adopt(&shared_by(&[1]));
        let (_gather, it) = waiting(command());
        assert!(pool.redirect(it, &ServerError::new(said.as_bytes())).is_none(), "{said}");
        tokio::time::sleep(REST * 2).await;
        assert_eq!(queued(&pool, 1), 1, "{said}");
    }
}

#[test]
fn to_ask_is_announced_before_it_is_asked() {
    let pool = pool();
    pool.adopt(&shared_by(&[1, 2]));
    let (_gather, it) = waiting(command());
    assert!(pool.redirect(it, &ServerError::new(b"ASK 16383 h:1")).is_none());
    let lines = pool.inner.lock();
    let at = lines.named("h:1").expect("a line");
    let words: Vec<&Bytes> = lines.lines[at].queued.iter().map(|it| &it.command.words()[0]).collect();
    assert_eq!(words, ["ASKING", "GET"].map(Bytes::from).iter().collect::<Vec<_>>());
}

#[test]
fn lines_are_as_many_as_nodes_however_many_come_and_go() {
    let pool = pool();
    for port in 1..2_000 {
        pool.adopt(&shared_by(&[port, port + 1]));
        pool.is_gone(&node(port - 1));
    }
    assert!(pool.inner.lock().lines.len() <= 3);
}
