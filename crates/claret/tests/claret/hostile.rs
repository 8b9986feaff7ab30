//! Broken and hostile servers: whatever one sends, the process that connected to it goes on, at a bounded cost, and
//! its error names the server and the problem.

mod hello;
mod posing;

use std::time::Duration;

use claret::errors::ExecuteError;
use claret::{Bytes, Error, Records, Store, lab::Mode};
use claret::{cluster::ConnectError, lab::StoreLab};
use claret_redis::{Builder, Cluster, Command};

use crate::time::in_time;
use claret_rig::fake::{Asked, Fake, Say};

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
    let plain = in_time(builder.connections().connect()).await.expect("connected");
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
