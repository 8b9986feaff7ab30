//! What a host reads for calls is taken from what one input may do (P38): elements and bytes are counted, so nothing here depends on
//! the speed of a machine.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use claret_core::message::{
    Asks, Call, KeyedCall, Link, Listed, Members, Output, Refusal, Request, Response, Seen, Status,
};
use claret_core::{
    Applied, AttemptId, Birth, CallNo, Incarnation, Limits, LookNo, Member, Read, Records, Sequence,
    SessionId, Shard, ShardId, Switches, Time, TxId,
};
use claret_types::{Bytes, Effect, OpError, Operation, Set, SetOp, SetState, State};

const NOW: Time = Time(1);
const LINK: Link = Link { session: SessionId(7), connection: 1 };
const TX: TxId = TxId { session: LINK.session, sequence: Sequence(1) };
const ATTEMPT: AttemptId = AttemptId { tx: TX, attempt: 1 };

/// A host whose records are sets, all of which it reads for each call.
struct Host {
    elements: u64,
    reads: AtomicU64,
    uncharged: Mutex<Read>,
}

impl Host {
    fn new(elements: u64) -> &'static Host {
        Box::leak(Box::new(Host { elements, reads: AtomicU64::new(0), uncharged: Mutex::default() }))
    }

    fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }
}

impl Records for Host {
    fn tag(&self) -> u16 {
        1
    }

    fn admit(&self, _: &Bytes, _: &Operation) -> Result<(), Refusal> {
        Ok(())
    }

    fn partial_state(&self, _: &Bytes, _: &Operation, _: &[&Effect]) -> Result<Option<State>, OpError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        *self.uncharged.lock().expect("nobody panics") += Read { elements: self.elements, bytes: 0 };
        Ok(Some(State::new::<Set>(SetState::partial([Bytes::from("a")], self.elements as usize))))
    }

    fn take_read(&self) -> Read {
        std::mem::take(&mut self.uncharged.lock().expect("nobody panics"))
    }

    fn apply(&self, _: &Bytes, _: &[&Effect]) -> Applied {
        Applied::Done
    }
}

fn shard(host: &'static Host) -> Shard {
    Shard::over(host, ShardId(1), Incarnation(1), Switches::CLARET, Limits::default())
}

fn contains() -> Operation {
    Operation::new::<Set>(SetOp::Contains("a".into()))
}

fn call(no: u32) -> Call {
    Call { no: CallNo(no), op: contains(), member: Member(0), reserve: None }
}

fn execute(key: &str, calls: u32) -> Request {
    Request::Execute {
        attempt: ATTEMPT,
        birth: Birth { time: NOW, tx: TX },
        incarnation: None,
        key: key.into(),
        calls: (0..calls).map(call).collect(),
        undone: Default::default(),
    }
}

fn look(no: u64, ops: usize) -> Request {
    Request::Look {
        look: LookNo(no),
        key: "k".into(),
        ops: (0..ops).map(|_| contains()).collect(),
        at_once: false,
    }
}

fn responses(shard: &mut Shard) -> Vec<Response> {
    std::iter::from_fn(|| shard.poll_output())
        .filter_map(|output| match output {
            Output::Respond { response, .. } => Some(response),
            Output::Tell { .. } => None,
        })
        .collect()
}

/// How often the host reads for each input until all is done: the first one, and each timeout behind it.
fn reads_by_input(host: &'static Host, shard: &mut Shard, first: impl FnOnce(&mut Shard)) -> Vec<u64> {
    let mut reads = vec![host.reads()];
    first(shard);
    reads.push(host.reads());
    while shard.poll_timeout() == Some(NOW) {
        shard.handle_timeout(NOW);
        reads.push(host.reads());
    }
    reads.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// More than one input may read.
const LARGE: u64 = 20_000;

#[test]
fn ten_looks_at_a_large_record_in_one_frame_read_it_once() {
    let host = Host::new(LARGE);
    let mut shard = shard(host);
    let by_input = reads_by_input(host, &mut shard, |shard| {
        shard.begin(NOW);
        (0..10).for_each(|no| shard.handle_further(NOW, LINK, look(no, 1)));
    });
    assert_eq!(by_input, [1]);
    let later = responses(&mut shard)
        .into_iter()
        .filter(|response| matches!(response, Response::Looked { seen: Seen::Later, .. }));
    assert_eq!(later.count(), 9, "they are looked for again");
}

#[test]
fn one_look_of_ten_operations_on_a_large_record_reads_for_the_first_and_the_last() {
    let host = Host::new(LARGE);
    let mut shard = shard(host);
    let by_input = reads_by_input(host, &mut shard, |shard| shard.handle(NOW, LINK, look(1, 10)));
    assert_eq!(by_input, [2]);
    let told = responses(&mut shard);
    assert!(matches!(&told[..], [Response::Looked { seen: Seen::Answer { .. }, .. }]), "{told:?}");
}

#[test]
fn an_execute_of_ten_calls_on_a_large_record_reads_it_once_for_an_input() {
    let host = Host::new(LARGE);
    let mut shard = shard(host);
    let by_input = reads_by_input(host, &mut shard, |shard| shard.handle(NOW, LINK, execute("k", 10)));
    assert_eq!(by_input, [1; 10]);
    assert_eq!(responses(&mut shard).len(), 10, "all are answered in the end");
}

#[test]
fn executes_that_come_in_one_frame_share_what_it_may_read() {
    let host = Host::new(LARGE);
    let mut shard = shard(host);
    let by_input = reads_by_input(host, &mut shard, |shard| {
        shard.begin(NOW);
        for no in 0..10 {
            let mut request = execute(&format!("k{no}"), 1);
            if let Request::Execute { calls, .. } = &mut request {
                calls[0].no = CallNo(no);
            }
            shard.handle_further(NOW, LINK, request);
        }
    });
    assert_eq!(by_input, [1; 10]);
}

/// As that of `CLARET.EXEC`, which is a prepare too.
#[test]
fn a_prepare_over_ten_large_records_reads_one_for_an_input() {
    for shards in [1, 2] {
        let host = Host::new(LARGE);
        let mut shard = shard(host);
        let calls = (0..10).map(|no| KeyedCall { key: format!("k{no}").as_str().into(), call: call(no) });
        let listed = |shard| Listed { shard: ShardId(shard), incarnation: None };
        let request = Request::Prepare {
            attempt: ATTEMPT,
            birth: Birth { time: NOW, tx: TX },
            participants: (1..=shards).map(listed).collect(),
            relies_on: 0,
            calls: calls.collect(),
            members: Members::All,
            asks: if shards == 1 { Asks::Decision } else { Asks::Vote },
            undone: Default::default(),
        };
        let by_input = reads_by_input(host, &mut shard, |shard| shard.handle(NOW, LINK, request));
        assert_eq!(by_input, [1; 10]);
        let written = if shards == 1 { Status::Applied } else { Status::Prepared };
        assert_eq!(shard.written(ATTEMPT), Some(written));
    }
}

/// Twice as much is read in twice as many inputs.
#[test]
fn what_is_read_in_all_is_divided_among_inputs() {
    for elements in [500, 1_000, 2_000] {
        let host = Host::new(elements);
        let mut shard = shard(host);
        let by_input = reads_by_input(host, &mut shard, |shard| {
            shard.begin(NOW);
            (0..100).for_each(|no| shard.handle_further(NOW, LINK, look(no, 1)));
        });
        let (most, read) = (Limits::default().at_once_max as u64, by_input[0] * elements / 8);
        assert!(read <= most + elements / 8 && read >= most / 2, "{elements}: {by_input:?}");
        let stats = shard.stats();
        assert_eq!((stats.elements_read, stats.bytes_read), (by_input[0] * elements, 0));
    }
}
