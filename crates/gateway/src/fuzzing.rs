//! Any bytes as what clients say, for the fuzzers in `fuzz/` and for a short run of the same in the ordinary tests. What must hold
//! is asserted here.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::BytesMut;
use claret::Store;
use claret_commands::{Answer, named};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::LocalSet;

use crate::client::Client;
use crate::limits::{GatewayLimits, RequestLimits};
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::queue::Queue;
use crate::registry::{Ends, Registry};
use crate::request::{self, ProtocolError, Request, RequestReader};
use crate::session::{Backing, Session};
use crate::shared::{Draining, Identity, Shared, Times};
use crate::stream::Stream;
use crate::users::Users;

#[cfg(test)]
mod tests;

const LIMITS: GatewayLimits = GatewayLimits {
    connections_max: 4,
    request_bytes_max: 2_048,
    request_words_max: 64,
    queued_max: 16,
    queued_bytes_max: 4_096,
    watched_max: 4,
    watched_bytes_max: 1_024,
    pipelined_max: 8,
    unread_bytes_max: 1_024,
    client_bytes_max: 16 << 20,
    total_bytes_max: 64 << 20,
    unread_messages_max: 1_024,
    users_max: 2,
    logins_max: 4,
    idle: Duration::ZERO,
};

/// A conversation that takes longer hangs.
const TIME_MAX: Duration = Duration::from_secs(20);

/// How long WATCH queues for a hot key.
const WATCH: Duration = Duration::from_millis(1);

/// What is requested, as far as these bytes go, when they come in pieces of this length; and what is wrong at their end.
fn read(bytes: &[u8], piece: usize, limits: &RequestLimits) -> (Vec<Request>, Option<ProtocolError>) {
    let (mut reader, mut buffer, mut all) = (RequestReader::default(), BytesMut::new(), Vec::new());
    for piece in bytes.chunks(piece) {
        buffer.extend_from_slice(piece);
        loop {
            match reader.next(&mut buffer, limits) {
                Ok(Some(request)) => all.push(request),
                Ok(None) => break,
                Err(error) => return (all, Some(error)),
            }
        }
    }
    (all, None)
}

/// The bytes are requests, in pieces whose length the first byte gives. They are the same as in one piece, within the bounds, and
/// sent on as they came; and whatever their words are, the table and the operations bear them.
///
/// # Panics
/// When something of that does not hold.
pub fn requests(input: &[u8]) {
    let Some((piece, bytes)) = input.split_first() else { return };
    let limits = RequestLimits { bytes_max: 1_024, words_max: 32, line_max: 64 };
    let (whole, wrong) = read(bytes, bytes.len().max(1), &limits);
    let (cut, wrong_when_cut) = read(bytes, 1 + usize::from(*piece) % 16, &limits);
    // Which bound is exceeded first depends on how much is there.
    assert_eq!(wrong.is_some(), wrong_when_cut.is_some(), "{wrong:?} and {wrong_when_cut:?}");
    assert_eq!(whole.len(), cut.len());
    let mut queue = Queue::default();
    for (request, again) in whole.into_iter().zip(cut) {
        assert!(request.raw == again.raw && request.words == again.words, "{request:?} and {again:?}");
        let mut raw = BytesMut::new();
        request::write(&mut raw, &request.words);
        assert_eq!(raw, request.raw, "what is sent to a node has the same words");
        assert!(!request.words.is_empty() && request.words.len() <= limits.words_max.max(limits.line_max));
        assert!(request.words.iter().map(|word| word.len()).sum::<usize>() <= limits.bytes_max);
        judge(request, &mut queue);
    }
    let _ = queue.plans(Vec::new(), |_| Answer::Ok, VecDeque::new());
}

/// What the table and the operations say of a request.
fn judge(request: Request, queue: &mut Queue) {
    let words = &request.words;
    let Some(command) = claret_commands::named(&words[0]).filter(|command| command.takes(words.len())) else {
        return;
    };
    if let Ok(mut places) = command.keys.of(words) {
        assert!(places.all(|at| at > 0 && at < words.len()), "{} has keys beyond its words", command.name);
    }
    if let Ok(slot) = command.slot(words) {
        assert!(slot.is_none_or(|slot| slot < 16_384));
    }
    if let Some(Ok(calls)) = command.calls(&request::arguments(words)) {
        assert!(calls.all().iter().all(|(key, _)| words.iter().any(|word| word[..] == key[..])));
    }
    if !Queue::is_for_now(command.name) {
        let _ = queue.add(command, request, &LIMITS, false, false);
    }
}

/// The bytes are what one client says to a gateway with records of its own, or, by the first of them, what two say at once. Every
/// answer is one whole value, each request has one, nothing is left locked, and another client can go on.
///
/// # Panics
/// When something of that does not hold.
pub fn conversation(input: &[u8]) {
    let Some((options, bytes)) = input.split_first() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let talk = LocalSet::new();
    let all = async {
        let store = Store::in_memory();
        let shared = gateway(&store);
        let piece = 1 + usize::from(options & 0x7f);
        if options & 0x80 == 0 {
            judge_answers(bytes, &client(&shared, bytes, piece).await, &shared);
        } else {
            let (one, other) = bytes.split_at(bytes.len() / 2);
            let heard = tokio::join!(client(&shared, one, piece), client(&shared, other, piece));
            judge_answers(one, &heard.0, &shared);
            judge_answers(other, &heard.1, &shared);
        }
        // Only what nobody holds any more can be had at once.
        let last = b"PING\r\nMULTI\r\nDEL k\r\nSET k 1\r\nGET k\r\nEXEC\r\n";
        let heard = client(&shared, last, last.len()).await;
        let heard = String::from_utf8_lossy(&heard);
        assert!(
            heard.starts_with("+PONG\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n:")
                && heard.ends_with("\r\n+OK\r\n$1\r\n1\r\n"),
            "{heard}"
        );
        store.check_invariants();
    };
    let all = async { tokio::time::timeout(TIME_MAX, talk.run_until(all)).await };
    assert!(runtime.block_on(all).is_ok(), "the conversation hangs");
}

/// A gateway before this store.
fn gateway(store: &Store) -> Rc<Shared> {
    let session = Session::new(Backing::Here(store.clone()));
    let (registry, metrics) = (Arc::<Registry>::default(), Arc::<Metrics>::default());
    let memory = Memory::new(&LIMITS, Arc::clone(&registry), Arc::clone(&metrics), Arc::new(|_| {}));
    Rc::new(Shared {
        users: Users::local(session, None),
        limits: LIMITS,
        times: Times::of(WATCH, Duration::from_secs(3)),
        modes: Default::default(),
        scripts: Default::default(),
        functions: Default::default(),
        waiting: Default::default(),
        metrics,
        registry,
        memory: Arc::new(memory),
        arriving: Arc::default(),
        here: Default::default(),
        draining: Arc::<Draining>::default(),
        identity: Identity::new(0),
        logger: Arc::new(|_| {}),
    })
}

/// What a client hears that says these bytes, in pieces, and then that it has said everything.
async fn client(shared: &Rc<Shared>, bytes: &[u8], piece: usize) -> Vec<u8> {
    let (ours, theirs) = tokio::io::duplex(256);
    let entry = shared.registry.enter(Ends {
        address: "memory:0".to_owned(),
        local: "memory:0".to_owned(),
        file: -1,
        is_unix: false,
    });
    let id = entry.id;
    let serving =
        tokio::task::spawn_local(Client::new(Stream::Memory(theirs), Rc::clone(shared), entry).serve());
    let (mut from, mut to) = tokio::io::split(ours);
    let saying = say(&mut to, bytes, piece);
    let mut heard = Vec::new();
    let (_, read) = tokio::join!(saying, from.read_to_end(&mut heard));
    assert!(read.is_ok());
    serving.await.expect("it serves to the end");
    shared.registry.leave(id);
    heard
}

async fn say(to: &mut tokio::io::WriteHalf<DuplexStream>, bytes: &[u8], piece: usize) {
    for piece in bytes.chunks(piece) {
        if to.write_all(piece).await.is_err() {
            return;
        }
        tokio::task::yield_now().await;
    }
    let _ = to.shutdown().await;
}

/// Every answer is whole, and there is one to each request.
fn judge_answers(said: &[u8], heard: &[u8], shared: &Shared) {
    let (mut rest, mut answers) = (heard, 0);
    while !rest.is_empty() {
        rest = behind_value(rest, 0).unwrap_or_else(|| panic!("no whole value: {}", rest.escape_ascii()));
        answers += 1;
    }
    let (requests, wrong) = read(said, said.len().max(1), &LIMITS.of_request());
    let expected = requests.len() + usize::from(wrong.is_some());
    // Some end the conversation, or want no answers; and who goes while it waits for its turn is not answered.
    let ends = |request: &Request| {
        [&b"QUIT"[..], b"CLIENT"].iter().any(|name| request.words[0].eq_ignore_ascii_case(name))
    };
    let has_waited = shared.metrics.watch_queued.load(Ordering::Relaxed) > 0;
    // It goes while it waits for something to take.
    let may_wait =
        |request: &Request| named(&request.words[0]).is_some_and(|command| command.may_wait(&request.words));
    match requests.iter().any(|it| ends(it) || may_wait(it)) || has_waited {
        true => assert!(answers <= expected, "{answers} answers to {expected} requests"),
        false => assert_eq!(answers, expected, "{}\n{}", said.escape_ascii(), heard.escape_ascii()),
    }
}

/// What is behind the first value, in RESP2 or RESP3; `None`: it is none, or not whole.
fn behind_value(bytes: &[u8], depth: usize) -> Option<&[u8]> {
    if depth > 16 {
        return None;
    }
    let end = bytes.windows(2).position(|two| two == b"\r\n")?;
    let (line, rest) = (bytes.get(1..end)?, &bytes[end + 2..]);
    let number = || std::str::from_utf8(line).ok()?.parse::<i64>().ok();
    match bytes[0] {
        b'+' | b'-' => Some(rest),
        b':' => number().map(|_| rest),
        b',' => std::str::from_utf8(line).ok()?.parse::<f64>().ok().map(|_| rest),
        b'#' => matches!(line, b"t" | b"f").then_some(rest),
        b'_' => line.is_empty().then_some(rest),
        b'$' | b'*' if line == b"-1" => Some(rest),
        b'$' | b'=' => {
            let length = usize::try_from(number()?).ok()?;
            rest.get(length..)?.strip_prefix(b"\r\n")
        }
        sign @ (b'*' | b'%' | b'~') => {
            let count = number()? * if sign == b'%' { 2 } else { 1 };
            (0..count).try_fold(rest, |rest, _| behind_value(rest, depth + 1))
        }
        _ => None,
    }
}

/// Conversations that work: what to begin with.
pub fn seeds() -> Vec<Vec<u8>> {
    let lines = [
        "PING\r\nECHO hi\r\nHELLO 3\r\nSET k 1\r\nGET k\r\nINCRBY k 5\r\nHELLO 2\r\nGETSET k 2\r\n",
        "MULTI\r\nSET k 1\r\nINCR k\r\nLPUSH l a b c\r\nEXEC\r\nLRANGE l 0 -1\r\nRPOPLPUSH l m\r\nLPOS l a\r\n",
        "WATCH k\r\nGET k\r\nMULTI\r\nSET k 2\r\nEXEC\r\nWATCH k l\r\nUNWATCH\r\nWATCH k\r\nSET k 3\r\nMULTI\r\nGET k\r\nEXEC\r\n",
        "SADD s a b\r\nSMEMBERS s\r\nSINTER s t\r\nSPOP s\r\nSMOVE s t a\r\nSUNIONSTORE u s t\r\nSCARD u\r\n",
        "HSET h f 1 g 2\r\nHINCRBY h f 3\r\nHGETALL h\r\nHINCRBYFLOAT h g 1.5\r\nHRANDFIELD h 2 WITHVALUES\r\nHSCAN h 0\r\n",
        "ZADD z 1 a 2 b\r\nZINCRBY z 5 a\r\nZRANGE z 0 -1 WITHSCORES\r\nZPOPMIN z\r\nZUNIONSTORE y 2 z z WEIGHTS 1 2\r\nZRANGEBYSCORE z -inf (2\r\n",
        "MSET a 1 b 2\r\nMGET a b c\r\nDEL a b\r\nEXISTS a\r\nRENAME k j\r\nCOPY j k\r\nEXPIRE k 100\r\nTTL k\r\nTYPE k\r\nSORT l ALPHA\r\n",
        "BCREATE q 5 0 9\r\nBDECRBY.RETURNING q 3\r\nBGET q\r\nUID.NEXT n\r\nSETNX.RETURNING r 1\r\n",
        "CLIENT SETNAME me\r\nCLIENT REPLY SKIP\r\nPING\r\nCLIENT REPLY OFF\r\nPING\r\nCLIENT REPLY ON\r\nCLIENT LIST\r\nINFO gateway\r\nCOMMAND COUNT\r\nRESET\r\n",
        "SCAN 0\r\nKEYS *\r\nDBSIZE\r\nRANDOMKEY\r\nFLUSHALL\r\nSELECT 0\r\nAUTH a b\r\nSUBSCRIBE c\r\nEVAL x 0\r\nXADD x * a b\r\nGATEWAY OUTCOME 1\r\nQUIT\r\n",
        "XADD x 1-1 f v\r\nXADD x MAXLEN ~ 5 * g w\r\nXRANGE x - + COUNT 2\r\nXREAD BLOCK 1 STREAMS x y $ 0\r\nXDEL x 1-1\r\nXTRIM x MINID 5\r\nXINFO STREAM x\r\n",
        "SUBSCRIBE c\r\nPSUBSCRIBE c*\r\nPING\r\nUNSUBSCRIBE\r\nPUNSUBSCRIBE\r\nPUBLISH c x\r\nPUBSUB CHANNELS\r\nPUBSUB NUMSUB c\r\n",
        "SETRANGE k 3 abc\r\nGETRANGE k 0 -1\r\nSETBIT k 7 1\r\nBITCOUNT k\r\nBITOP AND d k k\r\nLCS k d\r\nAPPEND k x\r\nSET k v EX 10 NX GET\r\n",
        "LINSERT l BEFORE a x\r\nLSET l 0 y\r\nLREM l 0 y\r\nLTRIM l 0 1\r\nLMOVE l l LEFT RIGHT\r\nLMPOP 1 l LEFT\r\nBLPOP l 0\r\nOBJECT ENCODING l\r\n",
    ];
    let mut all = Vec::new();
    for (number, text) in lines.iter().enumerate() {
        let arrays = || {
            let mut out = BytesMut::new();
            for line in text.split("\r\n").filter(|line| !line.is_empty()) {
                request::write(&mut out, &line.split(' ').collect::<Vec<_>>());
            }
            out.to_vec()
        };
        let with = |options: u8, bytes: Vec<u8>| [vec![options], bytes].concat();
        all.push(with(number as u8 * 7, text.as_bytes().to_vec()));
        all.push(with(40 + number as u8, arrays()));
        // Two who say the same at once.
        all.push(with(0x80 | number as u8, [arrays(), arrays()].concat()));
    }
    all
}
