//! Broken and hostile servers: whatever one sends, the process that connected to it goes on, at a bounded cost, and
//! its error names the server and the problem.

use std::time::Duration;

use claret_redis::{Builder, Cluster, Command, CommandError, ConnectError, ReplyLimits};
use claret_rig::fake::{Asked, Fake, Say, slots};
use claret_types::Reply;

use crate::time::in_time;

/// What a client reads beyond a bound before it sees that: the buffers of the system and of its own.
const SLACK_BYTES: u64 = 64 << 20;

/// A server that says this to commands of one name.
fn saying(name: &'static str, say: impl Fn(&Asked) -> Say + Send + Sync + 'static) -> Fake {
    Fake::start(move |asked| if asked.name == name { say(asked) } else { Say::Usual })
}

async fn refused(fake: &Fake) -> ConnectError {
    let builder = Builder::new(fake.url()).connect_timeout(Duration::from_secs(20));
    let error = in_time(builder.connect()).await.expect_err("no connection");
    assert!(error.to_string().contains(&fake.address()), "{error}");
    error
}

async fn plain(fake: &Fake) -> Cluster {
    in_time(Builder::new(fake.url()).connect()).await.expect("connected")
}

#[track_caller]
fn over(error: &ConnectError, expected: &str) {
    assert!(matches!(error, ConnectError::OverBound { bound, .. } if *bound == expected), "{error}");
    assert!(error.to_string().contains(expected), "{error}");
}

fn nested(levels: usize) -> Vec<u8> {
    [&b"*1\r\n".repeat(levels)[..], b":1\r\n"].concat()
}

#[tokio::test]
async fn nested_arrays_do_not_overflow_the_stack_not_even_before_login() {
    for levels in [2_000, 1_000_000] {
        for name in ["HELLO", "CLUSTER"] {
            let fake = saying(name, move |_| Say::Bytes(nested(levels)));
            over(&refused(&fake).await, "reply_depth_max");
        }
        let fake = saying("GET", move |_| Say::Bytes(nested(levels)));
        let error =
            in_time(plain(&fake).await.ask(Command::new("GET").key("k"))).await.expect_err("too deep");
        assert!(matches!(error, CommandError::Lost { .. }), "{error}");
        assert!(error.to_string().contains("reply_depth_max"), "{error}");
        assert!(error.to_string().contains(&fake.address()), "{error}");
    }
}

#[tokio::test]
async fn what_has_no_end_is_cut_off_before_it_costs_much() {
    let endless = |head: &str, piece: &str| (head.as_bytes().to_vec(), piece.repeat(4_096).into_bytes());
    let cases = [
        (endless("$9000000000\r\n", "x"), "_bytes_max"),
        (endless("+", "x"), "_bytes_max"),
        (endless("*100000000\r\n", "+x\r\n"), "_elements_max"),
        (endless("", ">1\r\n+a\r\n"), "pushes_max"),
        (endless("", "|1\r\n+a\r\n+b\r\n"), "_max"),
    ];
    for (case, ((head, piece), bound)) in cases.into_iter().enumerate() {
        for name in ["HELLO", "CLUSTER", "GET"] {
            let (head, piece) = (head.clone(), piece.clone());
            let fake = saying(name, move |_| Say::Endless(head.clone(), piece.clone()));
            let error = if name == "GET" {
                let mut limits = ReplyLimits::default();
                limits.reply_bytes_max = 1 << 20;
                let builder = Builder::new(fake.url()).reply_limits(limits);
                let plain = in_time(builder.connect()).await.expect("connected");
                in_time(plain.ask(Command::new("GET").key("k"))).await.expect_err("endless").to_string()
            } else {
                refused(&fake).await.to_string()
            };
            assert!(error.contains(bound) && error.contains(&fake.address()), "{case} {name}: {error}");
            assert!(fake.bytes_said() < SLACK_BYTES, "{case} {name}: {} bytes", fake.bytes_said());
        }
    }
}

#[tokio::test]
async fn a_large_value_is_no_attack() {
    const BYTES: usize = 40 << 20;
    let value = [format!("${BYTES}\r\n").as_bytes(), &vec![b'x'; BYTES], b"\r\n"].concat();
    let fake = saying("GET", move |_| Say::Bytes(value.clone()));
    let got = in_time(plain(&fake).await.ask(Command::new("GET").key("k"))).await.expect("got");
    assert!(matches!(got, Reply::Bytes(value) if value.len() == BYTES));
}

#[tokio::test]
async fn what_is_no_topology_is_refused_as_a_whole() {
    let own = |ranges: Vec<(i64, i64, &'static str, i64)>| {
        saying("CLUSTER", move |asked| {
            let port = i64::from(asked.port);
            let all = ranges.iter().map(|it| (it.0, it.1, it.2, if it.3 == 7 { port } else { it.3 }));
            slots(&all.collect::<Vec<_>>())
        })
    };
    // The port 7 stands for the server's own.
    let here = "127.0.0.1";
    for ranges in [
        vec![(0, 16383, here, 7), (100, 5, here, 7)],
        vec![(0, 16383, here, 7), (5, 6, here, 1)],
        vec![(0, 16383, here, 0)],
        vec![(0, 16383, here, 65_536 + 7)],
        vec![(0, 16384, here, 7)],
        vec![(-1, 16383, here, 7)],
        vec![(0, 16383, "\x1b[31m", 7)],
    ] {
        let error = refused(&own(ranges.clone())).await;
        assert!(matches!(error, ConnectError::NotUnderstood { .. }), "{ranges:?}: {error}");
        assert!(!error.to_string().contains('\x1b'), "{error:?}");
    }
    let many = saying("CLUSTER", |_| {
        slots(&(0..16_384).map(|slot| (slot, slot, "127.0.0.1", 1 + slot % 2_000)).collect::<Vec<_>>())
    });
    over(&refused(&many).await, "topology_nodes_max");
    for said in [":1\r\n", "*1\r\n+x\r\n", "*1\r\n*2\r\n:0\r\n:5\r\n", "+\r\n"] {
        let error = refused(&saying("CLUSTER", move |_| Say::Text(said.to_owned()))).await;
        assert!(matches!(error, ConnectError::NotUnderstood { .. }), "{said:?}: {error}");
    }
}

/// No test may wait for ever, and a server that is silent is not waited for longer than was said.
#[tokio::test]
async fn a_server_that_never_answers_is_given_up_after_the_time_that_was_set() {
    let fake = saying("GET", |_| Say::Nothing);
    let builder = Builder::new(fake.url()).response_timeout(Duration::from_millis(250));
    let plain = in_time(builder.connect()).await.expect("connected");
    let error = in_time(plain.ask(Command::new("GET").key("k"))).await.expect_err("silent");
    assert!(
        matches!(error, CommandError::Lost { .. }) && error.to_string().contains("no answer for 250ms"),
        "{error}"
    );
}

#[tokio::test]
async fn a_dead_seed_does_not_matter() {
    let fake = Fake::start(|_| Say::Usual);
    // Nobody listens at port 1.
    let url = format!("redis://127.0.0.1:1,{}", fake.address());
    let plain = in_time(Builder::new(url).connect()).await.expect("the other one answers");
    assert_eq!(plain.nodes(), [fake.address()]);
}

#[tokio::test]
async fn the_user_of_the_url_logs_in() {
    let fake = Fake::start(|_| Say::Usual);
    let login = |url: String| {
        let (fake, before) = (&fake, fake.heard().len());
        async move {
            drop(in_time(Builder::new(url).connect()).await.expect("connected"));
            fake.heard()[before].clone()
        }
    };
    assert_eq!(login(format!("redis://ada:hunter2@{}", fake.address())).await, "HELLO 3 AUTH ada hunter2");
    assert_eq!(login(format!("redis://:hunter2@{}", fake.address())).await, "HELLO 3 AUTH default hunter2");
    assert_eq!(login(fake.url()).await, "HELLO 3");
}

/// More than a socket takes at once.
#[tokio::test]
async fn a_large_command_is_written_whole() {
    const BYTES: usize = 16 << 20;
    let fake = saying("SET", |asked| match asked.arguments[1].len() {
        BYTES => Say::Usual,
        other => Say::Text(format!("-ERR {other} bytes\r\n")),
    });
    let plain = plain(&fake).await;
    let set = Command::new("SET").key("k").arg(vec![b'x'; BYTES]);
    assert_eq!(in_time(plain.ask(set)).await, Ok(Reply::Ok));
}

/// What was not sent yet waits for the next connection; what was is not sent again, for it may have been carried out.
#[tokio::test]
async fn a_connection_that_broke_is_made_anew() {
    let fake = saying("INCR", |_| Say::End);
    let plain = plain(&fake).await;
    for _ in 0..3 {
        let lost = in_time(plain.ask(Command::new("INCR").key("k"))).await.expect_err("it broke");
        assert!(matches!(lost, CommandError::Lost { .. }), "{lost}");
        assert!(in_time(plain.ask(Command::new("GET").key("k"))).await.is_ok(), "over the next one");
    }
    assert_eq!(fake.heard().iter().filter(|line| line.starts_with("INCR")).count(), 3, "each once");
}
