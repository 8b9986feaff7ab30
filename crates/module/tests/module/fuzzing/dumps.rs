//! Damaged `DUMP`s of every kind of record that Claret uses, restored with right checksums, and used by transactions.

use claret_core::ShardId;
use claret_rig::{Module, Server};

use super::bystanders::Bystanders;
use super::dice::Dice;
use super::eve::Eve;
use super::keys::Keys;
use super::link::{Batch, Link};
use super::{Finding, Options, Progress, Trace};

/// Payloads that leave together, at most.
const PAYLOADS_MAX: usize = 24;

/// Bytes behind which a length of 32 or 64 bits stands. For a set that says that it has billions of members Redis makes room, also
/// without the module, and stands still for many seconds.
const LARGE: [u8; 2] = [0x80, 0x81];

/// So many payloads until it is looked whether all is well.
const CHECK_EVERY: u64 = 5_000;

/// Behind a payload: two bytes of its version, eight of its checksum.
const CHECKSUM_BYTES: usize = 8;

/// How kinds of values are numbered that Claret uses, as far as any server has them; not streams, and not those of modules.
const KINDS: [u8; 16] = [0, 1, 2, 3, 4, 5, 9, 10, 11, 12, 13, 14, 16, 17, 18, 20];

const SETTINGS: [&str; 6] = [
    "sanitize-dump-payload yes",
    "proto-max-bulk-len 1mb",
    "claret.plain-wait-ms 1",
    "claret.forget-ms 50",
    "slowlog-max-len 16",
    "client-output-buffer-limit normal 64mb 64mb 60",
];

/// Records in all their encodings, each by the commands that make it.
const RECORDS: &[&[&str]] = &[
    &["SET k value"],
    &["SET k 7"],
    &["SET k -9223372036854775808"],
    &["SET k 1.5"],
    &["SET k 70000", "PEXPIRE k 100000000"],
    &["SETRANGE k 3000 abcabcabc"],
    &["RPUSH k a b 3"],
    &[
        "RPUSH k a",
        "CONFIG SET list-max-listpack-size 2",
        "RPUSH k b 3 d e 1000000 g",
        "CONFIG SET list-max-listpack-size -2",
    ],
    &["SADD k 1 2 3"],
    &["SADD k 1 70000 5000000000"],
    &["SADD k a b c 1 2 3"],
    &["HSET k f v g 7"],
    &["HSET k value 3 min 0 max 10"],
    &[
        "CONFIG SET hash-max-listpack-entries 1",
        "HSET k f v g 7 h 1.5",
        "CONFIG SET hash-max-listpack-entries 128",
    ],
    &["ZADD k 1 a 2 b 2.5 c"],
    &["ZADD k inf a -inf b"],
    &[
        "CONFIG SET zset-max-listpack-entries 1",
        "ZADD k 1 a 2 b 2.5 c -inf d",
        "CONFIG SET zset-max-listpack-entries 128",
    ],
    &["CLARET.EXEC 5 BCREATE k 5 0 10"],
    &["CLARET.EXEC 5 TOPK.ADD k 3 1.5 a 5 TOPK.ADD k 3 2 b"],
    &["CLARET.EXEC 3 BAG.ADD k 1.5 3 BAG.ADD k -7"],
    &["CLARET.EXEC 2 UID.NEXT k"],
];

/// See the module's text.
pub(crate) fn run(options: &Options, progress: &mut Progress) -> Result<(), Finding> {
    let mut trace = Trace::default();
    let server = start(options).map_err(Finding::untraced)?;
    let ran = fuzz(&server, options, progress, &mut trace);
    ran.map_err(|what| Finding { what, seed: options.seed, trace, log: server.log(200) })
}

fn start(options: &Options) -> Result<Server, String> {
    let module = Module::of_sources().map_err(|error| error.to_string())?;
    let mut server = Server::options().module(module);
    for line in SETTINGS {
        server = server.config(line);
    }
    if let Some(program) = &options.server {
        server = server.program(program);
    }
    server.start().map_err(|error| error.to_string())
}

fn fuzz(
    server: &Server,
    options: &Options,
    progress: &mut Progress,
    trace: &mut Trace,
) -> Result<(), String> {
    let keys = Keys::new();
    let mut others = Bystanders::at(&[server], &keys, None)?;
    let mut dice = Dice::new(options.seed);
    let mut link = Link::to(server.port())?;
    let mut dumps = dumps(&mut link, &keys)?;
    let mut eve = Eve::hello(&mut link, 1_000, ShardId(9), &["POLL"], &mut dice)?;
    let mut checked = 0;
    while progress.done < options.executions {
        let mut batch = Batch::default();
        let payloads = 1 + dice.roll(PAYLOADS_MAX);
        for _ in 0..payloads {
            use_one(&mut batch, &mut dumps, &keys, &mut eve, &mut dice);
        }
        trace.note(0, &batch.bytes);
        let replies = link.exchange_counted(batch)?;
        progress.add(payloads as u64, replies.errors);
        if progress.done - checked >= CHECK_EVERY {
            others.check()?;
            checked = progress.done;
            trace.clear();
        }
    }
    others.check()?;
    drop(link);
    others.settle()
}

/// A payload of each record without its checksum.
fn dumps(link: &mut Link, keys: &Keys) -> Result<Vec<Vec<u8>>, String> {
    let key = String::from_utf8_lossy(&keys.own()[0]).into_owned();
    let mut all = Vec::new();
    for lines in RECORDS {
        for line in *lines {
            let words: Vec<&str> =
                line.split(' ').map(|word| if word == "k" { &key } else { word }).collect();
            link.ask(&words)?;
        }
        let redis::Value::BulkString(mut dump) = link.ask(&["DUMP", &key])? else {
            return Err(format!("{lines:?} make nothing"));
        };
        dump.truncate(dump.len() - CHECKSUM_BYTES);
        all.push(dump);
        link.ask(&["DEL", &key])?;
    }
    Ok(all)
}

/// Restores a payload, damaged mostly, and uses what comes of it.
fn use_one(batch: &mut Batch, dumps: &mut [Vec<u8>], keys: &Keys, eve: &mut Eve, dice: &mut Dice) {
    let key = keys.own()[dice.roll(4)].clone();
    let mut payload = dice.pick(dumps).clone();
    let version = payload.split_off(payload.len() - 2);
    match dice.roll(12) {
        0 => {}
        1 => payload[0] = *dice.pick(&KINDS),
        2..=6 => payload = written(dice),
        7 | 8 => {
            // A bit of what is said, and not of how long it is.
            let at = 1 + payload.len() / 3 + dice.roll(payload.len() - payload.len() / 3 - 1);
            payload[at] ^= 1 << dice.roll(8);
        }
        _ => {
            let mut rest = payload.split_off(1);
            dice.mutate(&mut rest);
            payload.append(&mut rest);
        }
    }
    if payload.get(1).is_some_and(|byte| LARGE.contains(byte)) {
        payload[1] = 3;
    }
    payload.extend(version);
    let checksum = crc64(&payload);
    payload.extend(checksum.to_le_bytes());
    let ends = if dice.once_in(10) { b"100000".to_vec() } else { b"0".to_vec() };
    batch.add(&[b"RESTORE".to_vec(), key.clone(), ends, payload, b"REPLACE".to_vec()]);
    for _ in 0..1 + dice.roll(4) {
        let frame = eve.frame_on(&key, dice);
        batch.add(&[b"CLARET.FRAME".to_vec(), frame]);
    }
    if dice.once_in(2) {
        batch.add(&[b"DEL".to_vec(), key]);
    }
}

/// Texts that some type takes for a number, or nearly.
const NUMBERS: [&str; 24] = [
    "0",
    "1",
    "7",
    "-1",
    "10",
    "007",
    "+5",
    " 5",
    "5 ",
    "-0",
    "1.5",
    "1e3",
    "nan",
    "inf",
    "-inf",
    "",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551615",
    "0x10",
    "1e400",
    "5e-324",
    "x",
];

/// Names of fields that mean something to some type, and others.
const FIELDS: [&str; 8] = ["value", "min", "max", "sum", "count", "f", "", "m"];

/// A payload that is well-formed, and may mean nothing to the types of Claret.
fn written(dice: &mut Dice) -> Vec<u8> {
    let mut payload = Vec::new();
    let kind = *dice.pick(&[0_u8, 1, 2, 4, 5]);
    payload.push(kind);
    if kind == 0 {
        string(&mut payload, dice.one_of(&NUMBERS));
        return payload;
    }
    let count = 1 + dice.roll(6);
    payload.push(count as u8);
    let first = dice.roll(FIELDS.len());
    for at in 0..count {
        // No two alike: the server would see that.
        let name = FIELDS[(first + at) % FIELDS.len()];
        match kind {
            1 => string(&mut payload, dice.one_of(&NUMBERS)),
            2 => string(&mut payload, NUMBERS[(first + at) % NUMBERS.len()]),
            4 => {
                string(&mut payload, name);
                string(&mut payload, dice.one_of(&NUMBERS));
            }
            _ => {
                string(&mut payload, name);
                let any = f64::from_bits(dice.next());
                let scores = [
                    0.0,
                    -0.0,
                    1.5,
                    f64::NAN,
                    -f64::NAN,
                    f64::INFINITY,
                    f64::NEG_INFINITY,
                    f64::MAX,
                    5e-324,
                    any,
                ];
                payload.extend(dice.pick(&scores).to_le_bytes());
            }
        }
    }
    payload
}

fn string(payload: &mut Vec<u8>, text: &str) {
    payload.push(text.len() as u8);
    payload.extend_from_slice(text.as_bytes());
}

/// The checksum of dumps: CRC-64 with the polynomial of Jones, from the lowest bit.
fn crc64(bytes: &[u8]) -> u64 {
    const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(
            crc ^ u64::from(*byte),
            |crc, _| if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 },
        )
    })
}
