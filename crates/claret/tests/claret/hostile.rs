//! Broken and hostile servers: whatever one sends, the process that connected to it goes on, at a bounded cost, and
//! its error names the server and the problem.

mod fake;
mod posing;
mod redirects;

use std::time::Duration;

use claret::cluster::{Command, ConnectError, Plain, PlainError, ReplyLimits};
use claret::{
    Bytes, Error, Records, Store,
    errors::ExecuteError,
    lab::{Mode, StoreLab},
};

use crate::time::in_time;
use fake::{Asked, Fake, Say, slots};

/// What a client reads beyond a bound before it sees that: the buffers of the system and of its own.
const SLACK_BYTES: u64 = 64 << 20;

/// A server that says this to commands of one name.
fn saying(name: &'static str, say: impl Fn(&Asked) -> Say + Send + Sync + 'static) -> Fake {
    Fake::start(move |asked| if asked.name == name { say(asked) } else { Say::Usual })
}

async fn refused(fake: &Fake) -> ConnectError {
    let builder = Store::cluster(fake.url()).connect_timeout(Duration::from_secs(20));
    let error = in_time(builder.connect_plain()).await.expect_err("no connection");
    assert!(error.to_string().contains(&fake.address()), "{error}");
    error
}

async fn plain(fake: &Fake) -> Plain {
    in_time(Store::cluster(fake.url()).connect_plain()).await.expect("connected")
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
        assert!(matches!(error, PlainError::Lost { .. }), "{error}");
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
                let builder = Store::cluster(fake.url()).reply_limits(limits);
                let plain = in_time(builder.connect_plain()).await.expect("connected");
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
    assert!(matches!(got, claret::Reply::Bytes(value) if value.len() == BYTES));
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

#[tokio::test]
async fn no_errors_of_a_server_reach_a_terminal_as_they_are() {
    let evil = "-ERR \x1b[31m\x1b]0;owned\x07 evil\r\n";
    let mut shown = Vec::new();
    for name in ["HELLO", "CLUSTER"] {
        shown.push(refused(&saying(name, move |_| Say::Text(evil.to_owned()))).await.to_string());
    }
    let fake = saying("GET", move |_| Say::Text(evil.to_owned()));
    let plain = plain(&fake).await;
    shown.push(in_time(plain.ask(Command::new("GET").key("k"))).await.expect_err("an error").to_string());
    let store = in_time(Store::cluster(fake.url()).mode(Mode::None).connect()).await.expect("a store");
    shown.push(in_time(store.register("k").get::<Bytes>()).await.expect_err("an error").to_string());
    for shown in shown {
        assert!(shown.contains("evil") && !shown.contains(char::is_control), "{shown:?}");
    }
}

/// What is answered is not what the operation answers.
#[tokio::test]
async fn an_answer_of_another_kind_is_an_error_and_no_panic() {
    let fake = saying("GET", |_| Say::Text("*2\r\n:1\r\n:2\r\n".to_owned()));
    let store = in_time(Store::cluster(fake.url()).mode(Mode::None).connect()).await.expect("a store");
    let single = in_time(store.register("k").get::<Bytes>()).await;
    assert!(matches!(single, Err(Error::Execute(ExecuteError::Refused(_)))), "{single:?}");
    let batch = store.batch();
    let _wanted = batch.register("k").get::<Bytes>();
    let all = in_time(batch.commit()).await.map(|_| ());
    assert!(matches!(all, Err(Error::Execute(ExecuteError::Refused(_)))), "{all:?}");
    let within = store.transaction(|tx| async move { Ok(tx.register("k").get::<Bytes>().await?) });
    let within = in_time(within).await;
    assert!(matches!(within, Err(Error::Execute(ExecuteError::Refused(_)))), "{within:?}");
}

/// No test may wait for ever, and a server that is silent is not waited for longer than was said.
#[tokio::test]
async fn a_server_that_never_answers_is_given_up_after_the_time_that_was_set() {
    let fake = saying("GET", |_| Say::Nothing);
    let builder = Store::cluster(fake.url()).response_timeout(Duration::from_millis(250));
    let plain = in_time(builder.connect_plain()).await.expect("connected");
    let error = in_time(plain.ask(Command::new("GET").key("k"))).await.expect_err("silent");
    assert!(
        matches!(error, PlainError::Lost { .. }) && error.to_string().contains("no answer for 250ms"),
        "{error}"
    );
}

/// Everything that may be printed, of a store whose URL has a password.
#[tokio::test]
async fn a_password_is_in_nothing_that_is_printed() {
    const PASSWORD: &str = "hunter2";
    let fake = Fake::start(|asked| match asked.arguments.get(1).map(String::as_str) {
        Some("AUTH") if asked.arguments.get(3).map(String::as_str) != Some(PASSWORD) => {
            Say::Text("-WRONGPASS no\r\n".into())
        }
        _ => Say::Usual,
    });
    let url = |word: &str| format!("redis://ada:{word}@{}", fake.address());
    let builder = Store::cluster(url(PASSWORD));
    let mut shown = vec![format!("{builder:?} {builder:#?}")];
    let plain = in_time(builder.clone().connect_plain()).await.expect("connected");
    let own = in_time(plain.dedicated("k")).await.expect("connected");
    shown.push(format!("{plain:?} {plain:#?} {own:?}"));
    let store = in_time(builder.clone().mode(Mode::None).connect()).await.expect("a store");
    shown.push(format!("{store:?} {:?} {:?}", store.batch(), store.register("k")));
    shown.push(in_time(store.transaction(|tx| async move { Ok(format!("{tx:?}")) })).await.expect("run"));
    let errors = ["x", "x/hunter2", "x?hunter2=1", "x#hunter2", "hunter2@", "%ffhunter2"].map(url);
    for wrong in errors {
        let error = in_time(Store::connect(&wrong)).await.expect_err("wrong");
        shown.push(format!("{error} {error:?}"));
        let error = claret::blocking::Store::connect(&wrong).expect_err("wrong");
        shown.push(format!("{error} {error:?}"));
    }
    for shown in shown {
        assert!(!shown.contains(PASSWORD), "{shown}");
    }
}

#[tokio::test]
async fn a_dead_seed_does_not_matter() {
    let fake = Fake::start(|_| Say::Usual);
    // Nobody listens at port 1.
    let url = format!("redis://127.0.0.1:1,{}", fake.address());
    let plain = in_time(Store::cluster(url).connect_plain()).await.expect("the other one answers");
    assert_eq!(plain.nodes(), [fake.address()]);
}

#[tokio::test]
async fn the_user_of_the_url_logs_in() {
    let fake = Fake::start(|_| Say::Usual);
    let login = |url: String| {
        let (fake, before) = (&fake, fake.heard().len());
        async move {
            drop(in_time(Store::cluster(url).connect_plain()).await.expect("connected"));
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
    assert_eq!(in_time(plain.ask(set)).await, Ok(claret::Reply::Ok));
}

/// What was not sent yet waits for the next connection; what was is not sent again, for it may have been carried out.
#[tokio::test]
async fn a_connection_that_broke_is_made_anew() {
    let fake = saying("INCR", |_| Say::End);
    let plain = plain(&fake).await;
    for _ in 0..3 {
        let lost = in_time(plain.ask(Command::new("INCR").key("k"))).await.expect_err("it broke");
        assert!(matches!(lost, PlainError::Lost { .. }), "{lost}");
        assert!(in_time(plain.ask(Command::new("GET").key("k"))).await.is_ok(), "over the next one");
    }
    assert_eq!(fake.heard().iter().filter(|line| line.starts_with("INCR")).count(), 3, "each once");
}
