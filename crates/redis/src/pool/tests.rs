//! Queues driven by hand, without connections: where commands wait, and what happens to them when nodes come and go.

use std::collections::BTreeSet;

use super::*;
use crate::command::Command;
use crate::gather::Gather;
use crate::topology::Range;

fn node(port: u16) -> Address {
    Address::new("h", port)
}

fn pool() -> Arc<Pool> {
    Arc::new(Pool::new(crate::settings::settings("redis://h:1")))
}

/// Each node has as many slots as the others, in this order.
fn shared_by(ports: &[u16]) -> Topology {
    let each = SLOTS / ports.len();
    let ranges = ports.iter().enumerate().map(|(at, port)| {
        let last = if at + 1 == ports.len() { SLOTS } else { (at + 1) * each };
        Range { first: (at * each) as u16, last: last as u16 - 1, node: node(*port), id: None }
    });
    Topology { ranges: ranges.collect(), members: BTreeSet::new() }
}

/// In the last slot.
fn command() -> Command {
    Command::new("GET").arg("k").with_slot(SLOTS as u16 - 1)
}

fn waiting(command: Command) -> (Arc<Gather>, Waiting) {
    let gather = Arc::new(Gather::new(vec![command]));
    let waiting = gather.waiting().next().expect("one command");
    (gather, waiting)
}

/// How many commands wait in the queue of a node.
fn queued(pool: &Pool, port: u16) -> usize {
    let queues = pool.inner.lock();
    queues.named(&node(port).to_string()).map_or(0, |at| queues.queues[at].queued.len())
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
    assert!(matches!(told[..], [Err(CommandError::NoSuchNode(_))]), "{told:?}");
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
    let queues = pool.inner.lock();
    let at = queues.named("h:1").expect("a queue");
    assert_eq!(&queues.queues[at].commands[..], b"*1\r\n$6\r\nASKING\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
    assert_eq!(queues.queues[at].queued.len(), 2);
}

#[test]
fn lines_are_as_many_as_nodes_however_many_come_and_go() {
    let pool = pool();
    for port in 1..2_000 {
        pool.adopt(&shared_by(&[port, port + 1]));
        pool.is_gone(&node(port - 1));
    }
    assert!(pool.inner.lock().queues.len() <= 3);
}

#[test]
fn where_a_slot_moved_to_is_kept() {
    let pool = pool();
    pool.adopt(&shared_by(&[1, 2]));
    let (_moved, one) = waiting(command());
    assert!(pool.redirect(one, &ServerError::new(b"MOVED 16383 h:1")).is_none());
    let (_next, other) = waiting(command());
    pool.send([other]);
    assert_eq!((queued(&pool, 1), queued(&pool, 2)), (2, 0));
    // What is asked for elsewhere stays where it is.
    let (_asked, one) = waiting(command());
    assert!(pool.redirect(one, &ServerError::new(b"ASK 16383 h:2")).is_none());
    let (_later, other) = waiting(command());
    pool.send([other]);
    assert_eq!(
        (queued(&pool, 1), queued(&pool, 2)),
        (3, 2),
        "ASKING and the command; the next one as before"
    );
}

/// Whether somebody rang since this was last asked.
async fn is_in_doubt(pool: &Pool) -> bool {
    tokio::time::timeout(Duration::from_secs(1), pool.doubts().notified()).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn what_moved_is_a_reason_to_ask_who_serves_what() {
    let pool = pool();
    pool.adopt(&shared_by(&[1, 2]));
    for (said, doubts) in
        [("MOVED 16383 h:1", true), ("TRYAGAIN x", true), ("CLUSTERDOWN x", true), ("ASK 16383 h:1", false)]
    {
        let (_gather, it) = waiting(command());
        assert!(pool.redirect(it, &ServerError::new(said.as_bytes())).is_none(), "{said}");
        assert_eq!(is_in_doubt(&pool).await, doubts, "{said}");
    }
}

#[test]
fn a_command_is_sent_elsewhere_so_often() {
    let pool = pool();
    pool.adopt(&shared_by(&[1]));
    let (_gather, mut it) = waiting(command());
    let moved = ServerError::new(b"MOVED 16383 h:1");
    for at in 0..TRIES_MAX {
        assert!(pool.redirect(it, &moved).is_none(), "{at}");
        it = pool.inner.lock().queues[0].queued.pop_front().expect("it is sent again");
    }
    assert!(pool.redirect(it, &moved).is_some(), "that is the reply, then");
}

#[test]
fn what_waits_for_a_node_that_is_away_hears_why() {
    let pool = pool();
    pool.adopt(&shared_by(&[1]));
    let told = |error: &ConnectError| {
        let (gather, it) = waiting(command());
        pool.send([it]);
        pool.is_away(&node(1), error);
        gather.take(Waker::noop())
    };
    let silent = ConnectError::Unreachable { node: "h:1".into(), reason: "silent".into() };
    assert!(told(&silent).is_none(), "it may be there again in time");
    let final_one = ConnectError::NoModule { node: "h:1".into() };
    let told = told(&final_one).expect("nothing will change that");
    assert_eq!(told, [Err(CommandError::Away(final_one))]);
}

/// Carries the commands of the only node over a connection that is bytes alone.
fn connected(pool: &Arc<Pool>) -> CommandHandler {
    pool.inner.lock().queues[0].connection = Some(1);
    CommandHandler {
        pool: Arc::clone(pool),
        node: node(1),
        queue: 0,
        connection: 1,
        taken: VecDeque::new(),
        in_flight: VecDeque::new(),
        heard: None,
        broken: None,
    }
}

fn reader() -> Reader {
    Reader::new(crate::bounds::ReplyLimits::default().of_work())
}

#[test]
fn replies_go_to_commands_in_their_order() {
    let pool = pool();
    pool.adopt(&shared_by(&[1]));
    let (gathers, all): (Vec<_>, Vec<_>) = (0..3).map(|_| waiting(command())).unzip();
    pool.send(all);
    let mut commands = connected(&pool);
    let mut out = BytesMut::new();
    assert!(!commands.fill(Waker::noop(), &mut out));
    assert_eq!(out.len(), 3 * b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n".len());
    assert_eq!(commands.take(b":0\r\n:1\r\n-ERR 2\r\n:3", &mut reader()), Ok(16));
    let replies: Vec<_> = gathers.iter().filter_map(|gather| gather.take(Waker::noop())).flatten().collect();
    let error = CommandError::Server(ServerError::new(b"ERR 2"));
    assert_eq!(replies, [Ok(Reply::Int(0)), Ok(Reply::Int(1)), Err(error)]);
    assert!(commands.take(b":3\r\n", &mut reader()).is_err(), "nobody waits for it");
}

/// Bug: what waited behind commands that took long counted as owed since it was written. Consequence: a server that answered one after
/// the other was given up as silent. Mend: it counts from when something was heard last.
#[test]
fn a_server_that_answers_is_not_silent() {
    let pool = pool();
    pool.adopt(&shared_by(&[1]));
    let (_gathers, all): (Vec<_>, Vec<_>) = (0..2).map(|_| waiting(command())).unzip();
    pool.send(all);
    let mut commands = connected(&pool);
    commands.fill(Waker::noop(), &mut BytesMut::new());
    let long_ago = Instant::now() - Duration::from_secs(3_600);
    commands.in_flight.iter_mut().for_each(|(since, _)| *since = long_ago);
    assert!(commands.waits() >= Some(Duration::from_secs(3_600)));
    assert_eq!(commands.take(b":0\r\n", &mut reader()), Ok(4));
    assert!(commands.waits() < Some(Duration::from_secs(3_000)));
}

/// It may have been carried out: to send it again could do it twice.
#[test]
fn what_had_no_reply_when_its_connection_broke_is_not_sent_again() {
    let pool = pool();
    pool.adopt(&shared_by(&[1]));
    let (gather, it) = waiting(command());
    pool.send([it]);
    let mut commands = connected(&pool);
    commands.fill(Waker::noop(), &mut BytesMut::new());
    let (_later, other) = waiting(command());
    pool.send([other]);
    commands.give_up(&ConnectError::Unreachable { node: "h:1".into(), reason: "it broke".into() });
    drop(commands);
    assert_eq!(queued(&pool, 1), 1, "what was not sent yet waits for the next connection");
    let told = gather.take(Waker::noop()).expect("nobody will answer");
    assert!(
        matches!(&told[..], [Err(CommandError::Lost { reason, .. })] if reason.contains("it broke")),
        "{told:?}"
    );
}

/// Locks the pool when it is forgotten, as the last handle of a store does.
struct Holder(Arc<Pool>);

impl Receiver for Holder {
    fn encode(&self, _no: u32, out: &mut BytesMut) {
        out.extend_from_slice(b"*1\r\n$4\r\nPING\r\n");
    }

    fn receive(&self, _no: u32, _reply: Result<Reply, CommandError>, _woken: &mut Wakers) {}
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.0.farewell();
    }
}

/// Bug: what waited for a node that was away was forgotten while the queues were locked. If that was the last handle of
/// the store, the thread waited for itself.
#[test]
fn what_is_told_of_its_end_may_be_the_last_that_knows_the_store() {
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let pool = pool();
        pool.adopt(&shared_by(&[1]));
        let holder: Arc<dyn Receiver> = Arc::new(Holder(Arc::clone(&pool)));
        pool.send([Waiting::new(holder, 0, command().slot)]);
        pool.is_away(&node(1), &ConnectError::NoModule { node: "h:1".into() });
        done.send(queued(&pool, 1)).expect("it is waited for");
    });
    assert_eq!(is_done.recv_timeout(Duration::from_secs(60)), Ok(0));
}

/// Bug: a command that was not sent when the store was closed waited for ever, and kept the store alive.
#[test]
fn what_is_not_sent_when_the_store_is_closed_is_told_so() {
    let pool = pool();
    pool.adopt(&shared_by(&[1]));
    let (before, one) = waiting(command());
    pool.send([one]);
    pool.farewell();
    let (afterwards, other) = waiting(command());
    pool.send([other]);
    for told in [before, afterwards] {
        let told = told.take(Waker::noop()).expect("it is told");
        assert!(matches!(told[..], [Err(CommandError::Away(_))]), "{told:?}");
    }
}

type Heard = Vec<(u32, Result<Vec<u8>, CommandError>)>;

/// Keeps what it hears, and looks whether the queues are free then.
struct Listener {
    pool: Arc<Pool>,
    heard: Mutex<Heard>,
}

impl Listener {
    fn new(pool: &Arc<Pool>) -> Arc<Self> {
        Arc::new(Listener { pool: Arc::clone(pool), heard: Mutex::default() })
    }

    fn heard(&self) -> Heard {
        std::mem::take(&mut self.heard.lock())
    }
}

impl Forward for Listener {
    fn encode(&self, no: u32, out: &mut BytesMut) {
        resp::encode(out, &["ECHO", &no.to_string()]);
    }

    fn receive(&self, no: u32, reply: Result<&[u8], CommandError>) {
        assert!(self.pool.inner.try_lock().is_some(), "no lock is held");
        self.heard.lock().push((no, reply.map(<[u8]>::to_vec)));
    }
}

fn raw(listener: &Arc<Listener>, no: u32) -> Waiting {
    Waiting::raw(Arc::clone(listener) as Arc<dyn Forward>, no, Some(SLOTS as u16 - 1))
}

#[test]
fn replies_are_handed_over_as_they_came_beside_those_that_are_decoded() {
    let pool = pool();
    pool.adopt(&shared_by(&[1]));
    let listener = Listener::new(&pool);
    let (gather, decoded) = waiting(command());
    pool.send([raw(&listener, 0), raw(&listener, 1), decoded, raw(&listener, 2), raw(&listener, 3)]);
    let mut commands = connected(&pool);
    let mut out = BytesMut::new();
    assert!(!commands.fill(Waker::noop(), &mut out));
    assert!(out.starts_with(b"*2\r\n$4\r\nECHO\r\n$1\r\n0\r\n"));
    let said = [
        ">1\r\n+x\r\n",
        "%1\r\n+a\r\n,1.5\r\n",
        "-ERR x\r\n",
        ">1\r\n+x\r\n",
        ":7\r\n",
        "_\r\n",
        "$2\r\nab\r\n",
    ];
    let said = said.concat().into_bytes();
    // Byte by byte.
    let (mut reader, mut begin) = (reader(), 0);
    for end in 1..=said.len() {
        begin += commands.take(&said[begin..end], &mut reader).expect("well formed");
    }
    assert_eq!(begin, said.len());
    assert_eq!(gather.take(Waker::noop()), Some(vec![Ok(Reply::Int(7))]));
    let expected = ["%1\r\n+a\r\n,1.5\r\n", "-ERR x\r\n", "_\r\n", "$2\r\nab\r\n"];
    let expected = (0..).zip(expected).map(|(no, said)| (no, Ok(said.as_bytes().to_vec())));
    assert_eq!(listener.heard(), expected.collect::<Vec<_>>());
}

/// Sent again where it is to be, so often; then that is the reply.
#[test]
fn what_is_passed_on_is_sent_again_where_it_moved_to() {
    let pool = pool();
    pool.adopt(&shared_by(&[1]));
    let listener = Listener::new(&pool);
    let version = pool.version();
    pool.send([raw(&listener, 5)]);
    let mut commands = connected(&pool);
    let moved = b"-MOVED 16383 h:1\r\n";
    for at in 0..=TRIES_MAX {
        let mut out = BytesMut::new();
        commands.fill(Waker::noop(), &mut out);
        assert_eq!(out, "*2\r\n$4\r\nECHO\r\n$1\r\n5\r\n", "{at}");
        assert_eq!(listener.heard(), []);
        assert_eq!(commands.take(moved, &mut reader()), Ok(moved.len()));
    }
    assert_eq!(listener.heard(), [(5, Ok(moved.to_vec()))]);
    assert_eq!(pool.version(), version, "it is where it was");
    let for_node = Waiting::raw_for_node(Arc::clone(&listener) as Arc<dyn Forward>, 6);
    assert!(pool.send_to("h:1", for_node));
    commands.fill(Waker::noop(), &mut BytesMut::new());
    assert_eq!(commands.take(moved, &mut reader()), Ok(moved.len()));
    assert_eq!(listener.heard(), [(6, Ok(moved.to_vec()))], "what the node says is the reply");
}

/// What may put a command before an earlier one is counted, and nothing is sent by who has not heard of it.
#[tokio::test(start_paused = true)]
async fn whatever_may_overtake_is_counted() {
    let pool = pool();
    let counted = |before: &mut u64| {
        let version = pool.version();
        std::mem::replace(before, version) != version
    };
    let mut version = 0;
    pool.adopt(&shared_by(&[1, 2]));
    assert!(counted(&mut version));
    pool.adopt(&shared_by(&[1, 2]));
    assert!(!counted(&mut version), "nothing changed");
    let listener = Listener::new(&pool);
    let say = |said: &str| pool.redirect(raw(&listener, 0), &ServerError::new(said.as_bytes()));
    for (said, counts) in [
        ("MOVED 16383 h:2", false),
        ("MOVED 16383 h:1", true),
        ("ASK 16383 h:2", false),
        ("MOVED 16383 h:9", true),
        ("TRYAGAIN x", true),
        ("CLUSTERDOWN x", true),
    ] {
        assert!(say(said).is_none());
        assert_eq!(counted(&mut version), counts, "{said}");
    }
    // The topology is the same, and the slot is not where it was.
    pool.adopt(&shared_by(&[1, 2]));
    assert!(counted(&mut version));
    assert!(!pool.send_since(version - 1, [raw(&listener, 1)]));
    let before = queued(&pool, 2);
    assert!(pool.send_since(version, [raw(&listener, 1)]));
    assert_eq!(queued(&pool, 2), before + 1);
    assert_eq!(pool.node_of(SLOTS as u16 - 1), Some(node(2)));
    assert_eq!(pool.node_of(SLOTS as u16), None);
}

#[test]
fn what_was_passed_on_hears_of_its_end_with_no_lock_held() {
    let pool = pool();
    pool.adopt(&shared_by(&[1, 2]));
    let listener = Listener::new(&pool);
    let for_node = |no| Waiting::raw_for_node(Arc::clone(&listener) as Arc<dyn Forward>, no);
    let anywhere = Waiting::raw(Arc::clone(&listener) as Arc<dyn Forward>, 9, None);
    pool.send([anywhere]);
    assert!(pool.send_to("h:2", for_node(0)));
    pool.adopt(&shared_by(&[1]));
    pool.is_gone(&node(2));
    assert_eq!(listener.heard(), [(0, Err(CommandError::NoSuchNode("h:2".into())))]);
    assert_eq!(queued(&pool, 1), 1, "another does it as well");
    let final_one = ConnectError::NoModule { node: "h:1".into() };
    pool.is_away(&node(1), &final_one);
    assert_eq!(listener.heard(), [(9, Err(CommandError::Away(final_one)))]);
    pool.send([raw(&listener, 1)]);
    let mut commands = connected(&pool);
    commands.fill(Waker::noop(), &mut BytesMut::new());
    pool.send([raw(&listener, 2)]);
    drop(commands);
    assert!(matches!(&listener.heard()[..], [(1, Err(CommandError::Lost { .. }))]));
    pool.farewell();
    assert!(matches!(&listener.heard()[..], [(2, Err(CommandError::Away(_)))]));
}

/// Without a slot it goes anywhere: to one that is there.
#[test]
fn what_may_go_anywhere_does_not_end_with_a_node() {
    let pool = pool();
    pool.adopt(&shared_by(&[1, 2]));
    let listener = Listener::new(&pool);
    pool.send([Waiting::raw(Arc::clone(&listener) as Arc<dyn Forward>, 0, None)]);
    pool.adopt(&shared_by(&[2]));
    pool.is_gone(&node(1));
    assert_eq!((listener.heard(), queued(&pool, 2)), (Vec::new(), 1));
}
