//! The wire: what is encoded decodes to the same, and all other input is refused without harm.
//!
//! The fuzzers (`crates/core/fuzz`) ask the same of far more bytes; what they find becomes a test here.

pub(crate) mod samples;
pub(crate) mod told;

use std::fmt::Debug;

use claret_core::message::{Call, Link, Listed, Members, Refusal, Request, Response};
use claret_core::wire::{
    self, CLAIMS_MAX, FRAME_BYTES_MAX, PARTICIPANTS_MAX, WireError, append_peer, decode_peer, decode_peers,
    decode_requests, decode_responses, encode_frames, encode_peer, encode_requests, encode_responses,
};
use claret_core::{Incarnation, Limits, SessionId, Shard, ShardId, Switches, Time};
use claret_types::{BUILTIN, Bytes, Claims, Mode, OpError, Operation, Reply, Scope};
use samples::{attempt, call, op};

fn decode(frame: &[u8]) -> Result<Vec<Request>, WireError> {
    decode_requests(frame, &Limits::default())
}

/// The frame of one execute with this call.
fn execute(key: &str, call: Call) -> Vec<u8> {
    let attempt = attempt(1, 1, 1);
    let birth = claret_core::Birth { time: Time(1), tx: attempt.tx };
    let calls = [call].into_iter().collect();
    encode_requests(&[Request::Execute {
        attempt,
        birth,
        incarnation: None,
        key: key.into(),
        calls,
        undone: Default::default(),
    }])
}

#[track_caller]
fn refused(frame: &[u8]) -> String {
    decode(frame).expect_err("it must be refused").to_string()
}

/// What is the same, and looks the same: equality alone does not tell 0 from -0.
#[track_caller]
fn same<T: Debug + PartialEq>(came: &T, sent: &T) {
    assert_eq!(came, sent);
    assert_eq!(format!("{came:?}"), format!("{sent:?}"));
}

// --- what is sent comes back ---

#[test]
fn requests_come_back() {
    let mut all = samples::requests();
    all.iter_mut().for_each(|request| {
        if let Request::Prepare { members: Members::Only(list), .. } = request {
            assert!(list.len() <= usize::from(Limits::default().group_members_max));
        }
    });
    for request in &all {
        let frame = encode_requests(std::slice::from_ref(request));
        same(&decode(&frame).expect("it is a frame"), &vec![request.clone()]);
    }
    same(&decode(&encode_requests(&all)).expect("it is a frame"), &all);
    assert_eq!(decode(&[]), Ok(Vec::new()));
}

#[test]
fn responses_come_back() {
    let all = samples::responses();
    for response in &all {
        let frame = encode_responses(std::slice::from_ref(response));
        same(&decode_responses(&frame).expect("it is a frame"), &vec![response.clone()]);
    }
    same(&decode_responses(&encode_responses(&all)).expect("it is a frame"), &all);
}

#[test]
fn peers_messages_come_back() {
    for message in samples::peers() {
        let mut bytes = encode_peer(&message);
        same(&decode_peer(&bytes).expect("it is a message"), &message);
        bytes.push(0);
        assert_eq!(decode_peer(&bytes), Err(WireError::Trailing(1)));
    }
    assert!(decode_peer(&[]).is_err());
    // Several together, up to the last one that is whole.
    let mut bytes = Vec::new();
    samples::peers().iter().for_each(|message| append_peer(message, &mut bytes));
    assert_eq!(decode_peers(&bytes), Ok(samples::peers()));
    assert_eq!(decode_peers(&[]), Ok(Vec::new()));
    assert!(decode_peers(&bytes[..bytes.len() - 1]).is_err());
}

/// A response that refuses for this reason.
fn refused_by(refusal: Refusal) -> Response {
    Response::Refused { attempt: attempt(1, 1, 1), shard: ShardId(0), refusal, since: Incarnation(1) }
}

/// As it is, whichever variant it is, and it reads the same.
#[test]
fn errors_of_operations_come_back_as_they_are() {
    for error in samples::op_errors() {
        let came = through_the_wire(error.clone());
        assert_eq!((&came, came.to_string()), (&error, error.to_string()));
        assert!(came.size() >= error.size(), "{came:?}");
    }
}

fn through_the_wire(error: OpError) -> OpError {
    let frame = encode_responses(&[refused_by(Refusal::Operation { key: "k".into(), error: error.into() })]);
    let came = decode_responses(&frame).expect("it is a frame");
    let [Response::Refused { refusal: Refusal::Operation { error, .. }, .. }] = came.as_slice() else {
        panic!("{came:?}")
    };
    assert!(error.size() <= frame.len(), "no more than what came: {error:?}");
    (**error).clone()
}

/// What a terminal would obey, and what would end a line, does not get through: not in any text of any error.
#[test]
fn what_another_process_says_is_one_line() {
    let evil = || "a\r\n+OK\u{1b}[2J\0\u{9b}b".to_owned();
    let words = || evil().into();
    let errors = [
        OpError::WrongType { found: words(), expected: words(), method: words() },
        OpError::UnknownMethod(evil()),
        OpError::Arity { method: words(), usage: words() },
        OpError::Argument { given: evil(), expected: words() },
        OpError::NotANumber(words()),
        OpError::NotNumeric(evil(), words()),
        OpError::Overflow(words(), evil()),
        OpError::Bound { what: words(), given: evil(), expected: words() },
        OpError::Insufficient { method: words(), amount: 1, value: 1, min: 1, max: 1 },
        OpError::Missing { method: words(), create: words() },
        OpError::Mismatch(evil()),
        OpError::TooLarge { what: words(), size: 1, limit: 1 },
        OpError::Panicked { method: words(), message: evil() },
        OpError::Custom(words()),
        OpError::NotOnCluster { kind: words(), nodes: evil() },
        OpError::NoPlainCommand { method: words() },
        OpError::AgainstSchema {
            prefix: evil().into(),
            expected: evil().into(),
            found: evil().into(),
            method: words(),
        },
        OpError::Told(evil()),
    ];
    for error in errors {
        let came = through_the_wire(error);
        let said = came.to_string();
        assert!(!said.contains(char::is_control) && said.contains("a  +OK [2J  b"), "{came:?}");
    }
    let denied = refused_by(Refusal::Denied { key: "k".into(), reason: evil() });
    let came = decode_responses(&encode_responses(&[denied])).expect("it is a frame");
    assert!(format!("{came:?}").contains("a  +OK [2J  b"), "{came:?}");
}

#[test]
fn floats_keep_their_bits() {
    let mut random = Random(1);
    for _ in 0..20_000 {
        let sent = f64::from_bits(random.next());
        let frame = encode_responses(&[Response::Granted {
            attempt: attempt(1, 1, 1),
            no: claret_core::CallNo(0),
            reply: Reply::Float(sent),
            granted: 1,
            incarnation: Incarnation(1),
        }]);
        let came = decode_responses(&frame).expect("it is a frame");
        let [Response::Granted { reply: Reply::Float(came), .. }] = came.as_slice() else { panic!() };
        assert_eq!(came.to_bits(), sent.to_bits());
        if sent.is_nan() {
            continue;
        }
        let sent = Operation::new::<claret_types::TopK>(claret_types::TopKOp::Add {
            capacity: 1,
            score: sent,
            member: "m".into(),
        });
        let came = decode(&execute("k", call(0, sent.clone()))).expect("it is a frame");
        let [Request::Execute { calls, .. }] = came.as_slice() else { panic!() };
        same(&calls[0].op, &sent);
    }
}

/// Pins the numbers of the wire. Whoever has to change this changes `VERSION`, unless it only grew longer: then `UPDATE=1` writes it.
#[test]
fn types_and_methods_keep_their_numbers() {
    let mut table = String::new();
    for kind in BUILTIN {
        let methods: Vec<&str> = kind.methods.iter().map(|method| method.name).collect();
        table += &format!("{}: {}\n", kind.name, methods.join(" "));
    }
    let pinned = include_str!("wire/numbers.txt");
    let grown = |(old, new): (&str, &str)| {
        new.strip_prefix(old).is_some_and(|more| more.is_empty() || more.starts_with(' '))
    };
    let only_grew =
        pinned.lines().count() <= table.lines().count() && pinned.lines().zip(table.lines()).all(grown);
    if only_grew && std::env::var_os("UPDATE").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/core/wire/numbers.txt");
        std::fs::write(path, &table).expect("written");
    } else {
        assert_eq!(table, pinned, "wire version {}", wire::VERSION);
    }
}

/// Pins the bytes of some messages: the same for any change of the form.
#[test]
fn messages_keep_their_form() {
    let hex = |bytes: Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut shown = hex(encode_requests(&[samples::typical_prepare()])) + "\n";
    shown += &hex(encode_responses(&[samples::typical_vote()]));
    shown += "\n";
    shown += &hex(encode_peer(&samples::peers()[1]));
    shown += "\n";
    for error in samples::op_errors() {
        shown += &hex(encode_responses(&[refused_by(Refusal::Operation {
            key: "k".into(),
            error: error.into(),
        })]));
        shown += "\n";
    }
    assert_eq!(shown, include_str!("wire/form.txt"), "wire version {}", wire::VERSION);
}

#[test]
fn many_requests_are_divided_into_frames() {
    let big = |sequence| Request::Execute {
        attempt: attempt(1, sequence, 1),
        birth: claret_core::Birth { time: Time(1), tx: attempt(1, sequence, 1).tx },
        incarnation: None,
        key: "k".into(),
        calls: [call(0, op("register", "SET", &[&"v".repeat(400_000)]))].into_iter().collect(),
        undone: Default::default(),
    };
    let requests: Vec<Request> = (0..10).map(big).collect();
    let frames = encode_frames(&requests);
    assert_eq!(frames.len(), 4, "three begin within {FRAME_BYTES_MAX} bytes");
    let came: Vec<Request> = frames.iter().flat_map(|frame| decode(frame).expect("it is a frame")).collect();
    assert!(came == requests);
    let text = refused(&encode_requests(&requests));
    assert!(text.contains("message 3") && text.contains("1048576 are allowed"), "{text}");
    assert!(encode_frames(&[]).is_empty());
}

#[test]
#[should_panic(expected = "all that is sent has a form")]
fn an_operation_of_a_custom_type_is_not_sent() {
    // What cannot be read becomes an operation of a type that is not built in.
    let mut bytes = execute("k", call(0, op("register", "GET", &[])));
    let at = bytes.len() - 5;
    bytes[at] = 99;
    let came: Request = postcard::from_bytes(&bytes).expect("it has the form");
    let Request::Execute { calls, .. } = &came else { panic!("{came:?}") };
    assert!(!calls[0].op.is_builtin(), "{came:?}");
    encode_requests(&[came]);
}

// --- what cannot be is refused, by name ---

#[test]
fn operations_that_are_none_are_named() {
    // The frame ends in: type, method, number of arguments, member, no reserve, nothing undone.
    let frame = execute("k", call(0, op("register", "GET", &[])));
    assert_eq!(frame[frame.len() - 6..], [0, 2, 0, 0, 0, 0]);
    let with = |from_end: usize, byte: u8| {
        let mut frame = frame.clone();
        let at = frame.len() - 1 - from_end;
        frame[at] = byte;
        refused(&frame)
    };
    let unknown = BUILTIN.len();
    let text = with(5, unknown as u8);
    let named = format!("number 2 of type number {unknown}");
    assert!(text.contains("message 0") && text.contains(&named), "{text}");
    let text = with(4, 7);
    assert!(text.contains("number 7 of type number 0") && text.contains("(key 'k')"), "{text}");
    let text = with(4, 0);
    assert!(text.contains("wrong number of arguments for 'SET'"), "{text}");
}

#[test]
fn bad_arguments_are_named() {
    // `INCRBY 12` with other text in place of the number.
    let with = |text: &[u8; 2]| {
        let mut frame = execute("hits", call(0, op("counter", "INCRBY", &["12"])));
        let at = frame.len() - 5;
        assert_eq!(frame[at..at + 2], *b"12");
        frame[at..at + 2].copy_from_slice(text);
        frame
    };
    assert!(refused(&with(b"1x")).contains("'1x' is not an integer (key 'hits')"));
    assert!(decode(&with(b"-1")).is_ok());
    let nan = op("float-counter", "INCRBYFLOAT", &["123"]);
    let mut frame = execute("k", call(0, nan));
    let text = frame.len() - 8;
    assert_eq!(frame[text..text + 5], *b"123.0");
    frame[text..text + 5].copy_from_slice(b"  nan");
    assert!(refused(&frame).contains("'  nan' is not a number"));
    let mut frame = execute("k", call(0, op("float-counter", "INCRBYFLOAT", &["1"])));
    let text = frame.len() - 6;
    frame[text..text + 3].copy_from_slice(b"NaN");
    assert!(refused(&frame).contains("float increment cannot be NaN"));
}

#[test]
fn limits_hold() {
    let limits = Limits { key_bytes_max: 8, value_bytes_max: 16, calls_max: 2, ..Limits::default() };
    let get = || op("register", "GET", &[]);
    let decode = |frame: &[u8]| decode_requests(frame, &limits).map_err(|error| error.to_string());
    assert!(decode(&execute("12345678", call(0, get()))).is_ok());
    assert!(decode(&execute("123456789", call(0, get()))).unwrap_err().contains("9 bytes in a key, and 8"));
    assert!(decode(&execute("", call(0, get()))).unwrap_err().contains("an empty key"));
    let set = |len: usize| op("register", "SET", &[&"v".repeat(len)]);
    assert!(decode(&execute("k", call(0, set(16)))).is_ok());
    assert!(
        decode(&execute("k", call(0, set(17)))).unwrap_err().contains("17 bytes is over the limit of 16")
    );
    let prepare = |change: &dyn Fn(&mut Request)| {
        let mut request = samples::typical_prepare();
        if let Request::Prepare { calls, .. } = &mut request {
            calls.truncate(2);
            calls.iter_mut().for_each(|keyed| keyed.key = "k".into());
            calls[1].call.op = get();
        }
        change(&mut request);
        decode(&encode_requests(&[request]))
    };
    assert!(prepare(&|_| {}).is_ok());
    let text = prepare(&|request| {
        let Request::Prepare { calls, .. } = request else { return };
        calls.push(calls[0].clone());
    });
    assert!(text.unwrap_err().contains("3 calls, and 2 are allowed"));
    let text = prepare(&|request| {
        let Request::Prepare { participants, .. } = request else { return };
        let listed = |shard| Listed { shard: ShardId(shard), incarnation: None };
        *participants = (0..=PARTICIPANTS_MAX as u32).map(listed).collect();
    });
    assert!(text.unwrap_err().contains("16385 participants"));
    let text = prepare(&|request| {
        let Request::Prepare { participants, .. } = request else { return };
        *participants = Vec::new().into();
    });
    assert!(text.unwrap_err().contains("without participants"));
    let text = prepare(&|request| {
        let Request::Prepare { participants, .. } = request else { return };
        *participants = [participants[0]; 2].into();
    });
    assert!(text.unwrap_err().contains("listed twice"));
    let text = prepare(&|request| {
        let Request::Prepare { birth, .. } = request else { return };
        birth.tx.sequence.0 += 1;
    });
    assert!(text.unwrap_err().contains("birth of another transaction"));
    let text = prepare(&|request| {
        let Request::Prepare { members, .. } = request else { return };
        *members = Members::Only(vec![claret_core::Member(0); 33].into());
    });
    assert!(text.unwrap_err().contains("33 members, and 32"));
}

#[test]
fn reserves_are_bounded_and_of_their_type() {
    let reserving = |claims: Claims| {
        let mut call = call(0, op("uid-generator", "UID.NEXT", &[]));
        call.reserve = Some(Box::new(claims));
        decode(&execute("k", call)).map_err(|error| error.to_string())
    };
    assert!(reserving(Claims::record(Mode(1)).and(Scope::Record, Mode::SHARED)).is_ok());
    assert!(
        reserving(Claims::record(Mode(2))).unwrap_err().contains("lock mode that the type does not have")
    );
    assert!(
        reserving(Claims::record(Mode(16))).unwrap_err().contains("message 0 of the frame cannot be read")
    );
    let mut many = Claims::none();
    many.list.extend(
        (0..=CLAIMS_MAX as u64)
            .map(|hash| claret_types::Claim { scope: Scope::Element(hash), mode: Mode(0) }),
    );
    assert!(reserving(many.clone()).unwrap_err().contains("65537 claims"));
    many.list.pop();
    assert!(reserving(many).is_ok());
}

#[test]
fn an_execute_has_a_call() {
    let attempt = attempt(1, 1, 1);
    let birth = claret_core::Birth { time: Time(1), tx: attempt.tx };
    let empty = Request::Execute {
        attempt,
        birth,
        incarnation: None,
        key: "k".into(),
        calls: Default::default(),
        undone: Default::default(),
    };
    assert!(refused(&encode_requests(&[empty])).contains("an execute without a call"));
}

#[test]
fn answers_are_not_nested_without_end() {
    let nested = |depth: usize| (0..depth).fold(Reply::Nil, |inner, _| Reply::Array(vec![inner]));
    let frame = |depth| {
        encode_responses(&[Response::Committed {
            attempt: attempt(1, 1, 1),
            replies: vec![(claret_core::CallNo(0), nested(depth))],
        }])
    };
    assert!(decode_responses(&frame(16)).is_ok());
    assert!(decode_responses(&frame(17)).is_err());
    // An array in an array, and so on, a million deep: too deep for any stack.
    let start = frame(0);
    let mut bytes = start[..start.len() - 1].to_vec();
    bytes.extend([5, 1].repeat(1_000_000));
    assert!(decode_responses(&bytes).is_err());
}

// --- whatever comes does no harm ---

/// Numbers that look random and are the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

#[test]
fn what_is_cut_off_is_refused() {
    for request in samples::requests() {
        let frame = encode_requests(&[request]);
        for len in (1..frame.len()).step_by(1 + frame.len() / 500) {
            assert!(decode(&frame[..len]).is_err(), "{len} of {frame:?}");
        }
    }
    for response in samples::responses() {
        let frame = encode_responses(&[response]);
        assert!((1..frame.len()).all(|len| decode_responses(&frame[..len]).is_err()));
    }
    for message in samples::peers() {
        let bytes = encode_peer(&message);
        assert!((0..bytes.len()).all(|len| decode_peer(&bytes[..len]).is_err()));
    }
}

/// A byte or two of a frame changed, a piece left out or doubled.
fn damaged(random: &mut Random, frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    for _ in 0..=random.below(3) {
        let at = random.below(frame.len());
        match random.below(5) {
            0 => frame[at] = random.next() as u8,
            1 => frame[at] ^= 1 << random.below(8),
            2 => frame[at] = frame[at].wrapping_add(1),
            3 => drop(frame.drain(at..(at + 1 + random.below(4)).min(frame.len()))),
            _ => {
                let piece: Vec<u8> = frame[at..(at + 1 + random.below(9)).min(frame.len())].to_vec();
                frame.splice(at..at, piece);
            }
        }
        if frame.is_empty() {
            frame.push(0);
        }
    }
    frame
}

/// Damaged frames are refused, or are frames: then they are the same when they are sent on, and a shard takes
/// them without a panic and without losing track of its locks.
#[test]
fn damage_does_no_harm() {
    let mut random = Random(2);
    let samples: Vec<Vec<u8>> =
        samples::requests().iter().map(|it| encode_requests(std::slice::from_ref(it))).collect();
    let fresh = || Shard::new(ShardId(0), Incarnation(1), Switches::CLARET, Limits::default());
    let (mut shard, mut now, mut read) = (fresh(), 0, 0);
    for round in 0..30_000 {
        let mut frame = samples[random.below(samples.len())].clone();
        if round % 2 == 0 {
            frame.extend(&samples[random.below(samples.len())]);
        }
        let frame = damaged(&mut random, &frame);
        let Ok(requests) = decode(&frame) else { continue };
        read += 1;
        same(&decode(&encode_requests(&requests)).expect("it is a frame"), &requests);
        for request in requests {
            now += random.next() % 100_000;
            let link = Link { session: SessionId(7), connection: 0 };
            shard.handle(Time(now), link, request);
            shard.handle_timeout(Time(now));
            while shard.poll_output().is_some() {}
        }
        if round % 100 == 0 {
            shard.check_invariants();
        }
        if round % 1000 == 0 {
            shard = fresh();
        }
    }
    assert!(read > 3000, "only {read} of the damaged frames could be read");
    let samples = encode_responses(&samples::responses());
    for _ in 0..3000 {
        if let Ok(responses) = decode_responses(&damaged(&mut random, &samples)) {
            let again = encode_responses(&responses);
            assert_eq!(encode_responses(&decode_responses(&again).expect("it is a frame")), again);
        }
    }
}

/// An attempt's birth is the first that it named: under another one it would wait where nobody looks for it.
#[test]
fn a_birth_that_changes_is_not_believed() {
    let mut shard = Shard::new(ShardId(0), Incarnation(1), Switches::CLARET, Limits::default());
    let link = Link { session: SessionId(1), connection: 0 };
    let mut execute = |sequence, time, key: &str| {
        let attempt = attempt(1, sequence, 1);
        let birth = claret_core::Birth { time: Time(time), tx: attempt.tx };
        let calls = [call(time as u32, op("counter", "INCRBY.RETURNING", &["1"]))].into_iter().collect();
        let request = Request::Execute {
            attempt,
            birth,
            incarnation: None,
            key: key.into(),
            calls,
            undone: Default::default(),
        };
        shard.handle(Time(0), link, request);
        attempt
    };
    let holder = execute(1, 1, "k");
    let waiter = execute(2, 2, "other");
    execute(2, 3, "k");
    for attempt in [waiter, holder] {
        shard.handle(Time(0), link, Request::Abort { attempt, refused_by: None });
        shard.check_invariants();
    }
    assert_eq!((shard.open_attempts(), shard.locked_records()), (0, 0));
}

/// Lengths that promise what is not there: refused at once, and without the memory for it.
#[test]
fn lengths_are_not_believed() {
    let number = |mut value: u64| {
        let mut bytes = Vec::new();
        while value >= 0x80 {
            bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
        bytes
    };
    let frames = samples::requests().into_iter().map(|it| encode_requests(&[it])).filter(|it| it.len() < 200);
    for frame in frames {
        for at in 0..frame.len() {
            for length in [1 << 20, 1 << 32, 1 << 60, u64::MAX] {
                let mut hostile = frame[..at].to_vec();
                hostile.extend(number(length));
                hostile.extend(&frame[at + 1..]);
                let _ = decode(&hostile);
                let _ = decode_responses(&hostile);
                let _ = decode_peer(&hostile);
            }
        }
    }
    for frame in samples::refusals().into_iter().map(|it| encode_responses(&[refused_by(it)])) {
        for at in 0..frame.len() {
            let mut hostile = frame[..at].to_vec();
            hostile.extend(number(u64::MAX >> (at % 50)));
            hostile.extend(&frame[at + 1..]);
            let _ = decode_responses(&hostile);
        }
    }
    let mut key = encode_requests(&[samples::typical_prepare()]);
    key.truncate(40);
    key.extend(number(u64::MAX));
    assert!(decode(&key).is_err());
}

#[test]
fn noise_is_refused() {
    let mut random = Random(3);
    for _ in 0..20_000 {
        let noise: Bytes = (0..random.below(64)).map(|_| random.next() as u8).collect::<Vec<u8>>().into();
        let _ = decode(&noise);
        let _ = decode_responses(&noise);
        let _ = decode_peer(&noise);
    }
}

/// What is larger is copied by a call. An error of an operation made it so once, which cost interactive transactions in one process
/// 1 % of their instructions.
#[test]
fn a_message_is_copied_in_place() {
    assert!(size_of::<Response>() <= 128, "{}", size_of::<Response>());
    assert!(size_of::<Request>() <= 152, "{}", size_of::<Request>());
}
