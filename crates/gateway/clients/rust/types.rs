//! What redis-rs makes of answers, in its own types. Each check is a function of the connection and a prefix of keys.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::thread::sleep;
use std::time::{Duration, Instant};

use redis::{
    Client, Commands, Connection, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value, cmd, pipe,
};

use crate::Report;

/// Of the client; the workspace's lock file says which of its versions.
pub(crate) const VERSION: &str = "1.8";

/// What a check says when something is not as it should be.
type Checked = Result<(), Box<dyn std::error::Error>>;

/// A check, of a client, a connection and a prefix of keys.
type Check = fn(&Client, &mut Connection, &str) -> Checked;

const CHECKS: [(&str, Check); 15] = [
    ("strings", strings),
    ("integers", integers),
    ("hashes", hashes),
    ("sets", sets),
    ("sorted sets", sorted_sets),
    ("lists", lists),
    ("nils", nils),
    ("errors", errors),
    ("pipelines", pipelines),
    ("binary", binary),
    ("blocking pop", blocking_pop),
    ("publish and subscribe", publish_and_subscribe),
    ("scan", scan),
    ("scripts", scripts),
    ("expiry", expiry),
];

fn same<T: PartialEq + Debug>(found: T, expected: T) -> Checked {
    if found == expected { Ok(()) } else { Err(format!("{found:?} instead of {expected:?}").into()) }
}

/// The answer is to be an error with these words.
fn fails<T: Debug>(answer: RedisResult<T>, words: &str) -> Checked {
    match answer {
        Err(error) if error.to_string().contains(words) => Ok(()),
        other => Err(format!("{other:?} instead of an error with {words:?}").into()),
    }
}

fn strings(_: &Client, r: &mut Connection, p: &str) -> Checked {
    let key = |name: &str| format!("{p}:{name}");
    same(r.set::<_, _, String>(key("s"), "a")?, "OK".into())?;
    same(r.append::<_, _, i64>(key("s"), "bc")?, 3)?;
    same(r.get::<_, String>(key("s"))?, "abc".into())?;
    same(r.getrange::<_, String>(key("s"), 1, 2)?, "bc".into())?;
    same(r.set_nx::<_, _, bool>(key("s"), "other")?, false)?;
    same(r.getset::<_, _, String>(key("s"), "new")?, "abc".into())?;
    let pairs = [(key("m1"), "1"), (key("m2"), "2"), (key("m3"), "3")];
    same(r.mset::<_, _, String>(&pairs)?, "OK".into())?;
    let read: Vec<Option<i64>> = r.mget(&[key("m1"), key("absent"), key("m3")])?;
    same(read, vec![Some(1), None, Some(3)])?;
    same(r.exists::<_, i64>(&[key("m1"), key("m2"), key("absent")])?, 2)?;
    same(r.del::<_, i64>(&[key("m1"), key("m2"), key("m3")])?, 3)
}

fn integers(_: &Client, r: &mut Connection, p: &str) -> Checked {
    same(r.incr::<_, _, i64>(format!("{p}:i"), 1)?, 1)?;
    same(r.incr::<_, _, i64>(format!("{p}:i"), 41)?, 42)?;
    same(r.decr::<_, _, i64>(format!("{p}:i"), 1)?, 41)?;
    same(r.incr::<_, _, f64>(format!("{p}:f"), 1.5)?, 1.5)?;
    r.set::<_, _, ()>(format!("{p}:big"), i64::MAX)?;
    fails(r.incr::<_, _, i64>(format!("{p}:big"), 1), "overflow")
}

fn hashes(_: &Client, r: &mut Connection, p: &str) -> Checked {
    let key = format!("{p}:h");
    let map = |pairs: &[(&str, i64)]| -> BTreeMap<String, i64> {
        pairs.iter().map(|(field, value)| ((*field).to_owned(), *value)).collect()
    };
    same(r.hset_multiple::<_, _, _, String>(&key, &[("a", 1), ("b", 2)])?, "OK".into())?;
    same(r.hgetall::<_, BTreeMap<String, i64>>(&key)?, map(&[("a", 1), ("b", 2)]))?;
    same(r.hmget::<_, _, Vec<Option<i64>>>(&key, &["b", "absent"])?, vec![Some(2), None])?;
    same(r.hincr::<_, _, _, i64>(&key, "a", 4)?, 5)?;
    same(r.hexists::<_, _, bool>(&key, "a")?, true)?;
    same(r.hdel::<_, _, i64>(&key, &["a", "absent"])?, 1)?;
    same(r.hlen::<_, i64>(&key)?, 1)?;
    same(r.hgetall::<_, BTreeMap<String, i64>>(format!("{p}:absent"))?, BTreeMap::new())
}

fn sets(_: &Client, r: &mut Connection, p: &str) -> Checked {
    let (one, two) = (format!("{p}:set"), format!("{p}:set2"));
    let set = |members: &[&str]| -> BTreeSet<String> { members.iter().map(|it| (*it).to_owned()).collect() };
    same(r.sadd::<_, _, i64>(&one, &["a", "b", "c"])?, 3)?;
    same(r.smembers::<_, BTreeSet<String>>(&one)?, set(&["a", "b", "c"]))?;
    same(r.sismember::<_, _, bool>(&one, "z")?, false)?;
    r.sadd::<_, _, ()>(&two, &["b", "c", "d"])?;
    same(r.sinter::<_, BTreeSet<String>>(&[&one, &two])?, set(&["b", "c"]))?;
    same(r.sunion::<_, BTreeSet<String>>(&[&one, &two])?, set(&["a", "b", "c", "d"]))?;
    same(r.srem::<_, _, i64>(&one, "a")?, 1)
}

fn sorted_sets(_: &Client, r: &mut Connection, p: &str) -> Checked {
    let key = format!("{p}:z");
    same(r.zadd_multiple::<_, _, _, i64>(&key, &[(1.0, "one"), (0.5, "half"), (f64::INFINITY, "much")])?, 3)?;
    let ordered: Vec<(String, f64)> = r.zrange_withscores(&key, 0, -1)?;
    same(ordered, vec![("half".into(), 0.5), ("one".into(), 1.0), ("much".into(), f64::INFINITY)])?;
    same(r.zscore::<_, _, Option<f64>>(&key, "half")?, Some(0.5))?;
    same(r.zscore::<_, _, Option<f64>>(&key, "absent")?, None)?;
    same(r.zincr::<_, _, _, f64>(&key, "half", 0.25)?, 0.75)?;
    same(r.zrank::<_, _, Option<i64>>(&key, "one")?, Some(1))?;
    same(r.zcount::<_, _, _, i64>(&key, "-inf", "(1")?, 1)
}

fn lists(_: &Client, r: &mut Connection, p: &str) -> Checked {
    let key = format!("{p}:l");
    same(r.rpush::<_, _, i64>(&key, &["a", "b", "c"])?, 3)?;
    same(r.lrange::<_, Vec<String>>(&key, 0, -1)?, vec!["a".into(), "b".into(), "c".into()])?;
    same(r.lindex::<_, String>(&key, -1)?, "c".into())?;
    same(r.lpop::<_, String>(&key, None)?, "a".into())?;
    let moved: String = r.lmove(&key, format!("{p}:l2"), redis::Direction::Left, redis::Direction::Right)?;
    same(moved, "b".into())?;
    same(r.llen::<_, i64>(&key)?, 1)
}

fn nils(_: &Client, r: &mut Connection, p: &str) -> Checked {
    let absent = format!("{p}:absent");
    same(r.get::<_, Option<String>>(&absent)?, None)?;
    same(r.hget::<_, _, Option<String>>(&absent, "f")?, None)?;
    same(r.lpop::<_, Option<String>>(&absent, None)?, None)?;
    same(r.lindex::<_, Option<String>>(&absent, 0)?, None)?;
    same(cmd("TTL").arg(&absent).query::<i64>(r)?, -2)?;
    same(r.lrange::<_, Vec<String>>(&absent, 0, -1)?, Vec::new())
}

fn errors(_: &Client, r: &mut Connection, p: &str) -> Checked {
    let list = format!("{p}:list");
    r.rpush::<_, _, ()>(&list, "a")?;
    let code = |answer: RedisResult<String>| answer.err().and_then(|error| error.code().map(str::to_owned));
    same(code(r.get(&list)), Some("WRONGTYPE".into()))?;
    same(code(r.incr(&list, 1)), Some("WRONGTYPE".into()))?;
    fails(cmd("NOSUCHCOMMAND").query::<Value>(r), "unknown command")?;
    fails(cmd("GET").query::<Value>(r), "wrong number of arguments")
}

fn pipelines(_: &Client, r: &mut Connection, p: &str) -> Checked {
    let (mut writing, mut reading) = (pipe(), pipe());
    for number in 0..1000 {
        writing.set(format!("{p}:p:{number}"), number);
        reading.get(format!("{p}:p:{number}"));
    }
    same(writing.query::<Vec<String>>(r)?, vec!["OK".to_owned(); 1000])?;
    same(reading.query::<Vec<i64>>(r)?, (0..1000).collect::<Vec<i64>>())?;
    let counter = format!("{p}:n");
    let mut mixed = pipe();
    mixed.incr(&counter, 1).lpush(&counter, "a").incr(&counter, 1);
    fails(mixed.query::<Vec<Value>>(r), "WRONGTYPE")?;
    // What stood behind the error was done, and the connection is in step.
    same(r.get::<_, i64>(&counter)?, 2)
}

fn binary(_: &Client, r: &mut Connection, p: &str) -> Checked {
    let mut value: Vec<u8> = (0..=255).collect();
    value.extend_from_slice(b"\r\n$-1\r\n");
    let mut key = p.as_bytes().to_vec();
    key.extend_from_slice(b":\x00\xff\r\n");
    r.set::<_, _, ()>(&key, &value)?;
    same(r.get::<_, Vec<u8>>(&key)?, value.clone())?;
    r.hset::<_, _, _, ()>(format!("{p}:hb"), &value, &value)?;
    same(
        r.hgetall::<_, BTreeMap<Vec<u8>, Vec<u8>>>(format!("{p}:hb"))?,
        BTreeMap::from([(value.clone(), value)]),
    )?;
    let long = "x".repeat(1_000_000);
    r.set::<_, _, ()>(format!("{p}:long"), &long)?;
    same(r.get::<_, String>(format!("{p}:long"))? == long, true)
}

fn blocking_pop(client: &Client, r: &mut Connection, p: &str) -> Checked {
    let queue = format!("{p}:queue");
    let began = Instant::now();
    same(r.blpop::<_, Option<(String, String)>>(&queue, 0.2)?, None)?;
    let took = began.elapsed();
    same(took > Duration::from_millis(100) && took < Duration::from_secs(5), true)?;
    let (mut other, to) = (client.get_connection()?, queue.clone());
    let pushing = std::thread::spawn(move || {
        sleep(Duration::from_millis(200));
        other.rpush::<_, _, ()>(to, "job")
    });
    same(r.blpop::<_, Option<(String, String)>>(&queue, 10.0)?, Some((queue.clone(), "job".into())))?;
    pushing.join().expect("it does not panic")?;
    Ok(())
}

fn publish_and_subscribe(client: &Client, r: &mut Connection, p: &str) -> Checked {
    let mut own = client.get_connection()?;
    let mut subscription = own.as_pubsub();
    subscription.set_read_timeout(Some(Duration::from_secs(5)))?;
    subscription.subscribe(format!("{p}:news"))?;
    same(r.publish::<_, _, i64>(format!("{p}:news"), "hello")?, 1)?;
    let message = subscription.get_message()?;
    same(
        (message.get_channel_name().to_owned(), message.get_payload::<String>()?),
        (format!("{p}:news"), "hello".into()),
    )
}

fn scan(_: &Client, r: &mut Connection, p: &str) -> Checked {
    let names: BTreeSet<String> = (0..1000).map(|number| format!("{p}:scan:{number}")).collect();
    let mut writing = pipe();
    for name in &names {
        writing.set(name, 1).ignore();
    }
    writing.exec(r)?;
    let found: RedisResult<BTreeSet<String>> = r.scan_match(format!("{p}:scan:*"))?.collect();
    same(found?, names)
}

fn scripts(_: &Client, r: &mut Connection, p: &str) -> Checked {
    let (script, key) =
        (format!("return redis.call('INCRBY', KEYS[1], ARGV[1]) -- {p}"), format!("{p}:script"));
    // By its digest first, and by its text where the server does not know it. The digest of a text that nobody has loaded is of
    // another one than any that is.
    let unknown = cmd("EVALSHA").arg("0".repeat(40)).arg(1).arg(&key).arg(1).query::<i64>(r);
    same(unknown.map_err(|error| error.kind()), Err(ErrorKind::Server(ServerErrorKind::NoScript)))?;
    let digest: String = cmd("SCRIPT").arg("LOAD").arg(&script).query(r)?;
    same(cmd("EVALSHA").arg(&digest).arg(1).arg(&key).arg(5).query::<i64>(r)?, 5)?;
    same(cmd("EVAL").arg(&script).arg(1).arg(&key).arg(2).query::<i64>(r)?, 7)?;
    let mixed = cmd("EVAL").arg("return {1, 'two', false}").arg(1).arg(&key).query(r)?;
    same::<(i64, String, Option<i64>)>(mixed, (1, "two".into(), None))
}

fn expiry(_: &Client, r: &mut Connection, p: &str) -> Checked {
    let (short, kept) = (format!("{p}:e"), format!("{p}:k"));
    same(r.pset_ex::<_, _, String>(&short, "a", 150)?, "OK".into())?;
    let left: i64 = cmd("PTTL").arg(&short).query(r)?;
    same(left > 0 && left <= 150, true)?;
    same(r.expire::<_, bool>(format!("{p}:absent"), 10)?, false)?;
    r.set_ex::<_, _, ()>(&kept, "a", 100)?;
    same(r.persist::<_, bool>(&kept)?, true)?;
    same(cmd("TTL").arg(&kept).query::<i64>(r)?, -1)?;
    sleep(Duration::from_millis(400));
    same(r.get::<_, Option<String>>(&short)?, None)
}

fn authentication(host: &str, port: &str) -> Checked {
    let stranger = Client::open(format!("redis://nobody:wrong@{host}:{port}/"))?;
    let refused = stranger.get_connection().err().map(|error: RedisError| error.kind());
    same(refused, Some(ErrorKind::AuthenticationFailed))
}

/// All checks, in both protocols.
pub(crate) fn tour(host: &str, port: &str, prefix: &str, report: &mut Report) {
    let mut conclude = |name: String, checked: Checked| {
        report.attempts += 1;
        match checked {
            Ok(()) => report.committed += 1,
            Err(error) => report.errors.push(format!("{name}: {error}")),
        }
    };
    for protocol in ["resp2", "resp3"] {
        let connected = Client::open(format!("redis://{host}:{port}/?protocol={protocol}"))
            .and_then(|client| crate::connect(&client).map(|connection| (client, connection)));
        let (client, mut connection) = match connected {
            Ok(it) => it,
            Err(error) => return conclude(format!("connecting in {protocol}"), Err(error.into())),
        };
        for (name, check) in CHECKS {
            let name = format!("{name} in {protocol}");
            conclude(name, check(&client, &mut connection, &format!("{prefix}:{protocol}")));
        }
    }
    conclude("authentication".to_owned(), authentication(host, port));
}
