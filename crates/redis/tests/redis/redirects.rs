//! Nodes that redirect commands: no command is lost on the way, and none is sent where it is not accepted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use claret_redis::{Builder, Command};
use claret_rig::fake::{Asked, Fake, Say, slots};
use claret_types::Reply;

use crate::time::in_time;

const V: Reply = Reply::Ok;

/// Two nodes with half of the slots each. `say` hears of the ports of both.
fn pair(say: impl Fn(&Asked, [u16; 2]) -> Say + Send + Sync + 'static) -> [Fake; 2] {
    let ports = Arc::new([AtomicU16::new(0), AtomicU16::new(0)]);
    let say = Arc::new(say);
    [0, 1].map(|at| {
        let (ports, say) = (Arc::clone(&ports), Arc::clone(&say));
        let fake = Fake::start({
            let ports = Arc::clone(&ports);
            move |asked| {
                let known = [0, 1].map(|at: usize| ports[at].load(Ordering::Acquire));
                match say(asked, known) {
                    Say::Usual if asked.name == "CLUSTER" => halves(known),
                    other => other,
                }
            }
        });
        ports[at].store(fake.port, Ordering::Release);
        fake
    })
}

fn halves([one, other]: [u16; 2]) -> Say {
    slots(&[(0, 8191, "127.0.0.1", one.into()), (8192, 16383, "127.0.0.1", other.into())])
}

/// A key in the first half of the slots: that of "k" is 7629.
fn set() -> Command {
    Command::new("SET").key("k").arg("v")
}

fn sets_of(fake: &Fake) -> Vec<String> {
    let heard = fake.heard();
    let of_them = |line: &&String| line.starts_with("SET") || line.starts_with("ASKING");
    heard.iter().filter(of_them).cloned().collect()
}

#[tokio::test]
async fn what_is_asked_for_elsewhere_is_announced_there() {
    let [one, other] = pair(|asked, ports| match asked.name.as_str() {
        "SET" if asked.port == ports[0] => Say::Text(format!("-ASK 7629 127.0.0.1:{}\r\n", ports[1])),
        _ => Say::Usual,
    });
    let plain = in_time(Builder::new(one.url()).connect()).await.expect("connected");
    for _ in 0..2 {
        assert_eq!(in_time(plain.ask(set())).await, Ok(V));
    }
    // The slot has not moved yet: it is asked for at its own node each time.
    assert_eq!(sets_of(&one), ["SET k v"; 2]);
    assert_eq!(sets_of(&other), ["ASKING", "SET k v", "ASKING", "SET k v"]);
}

#[tokio::test]
async fn what_moved_is_sent_where_it_moved_to_and_answered() {
    let [one, other] = pair(|asked, ports| match asked.name.as_str() {
        "SET" if asked.port == ports[0] => Say::Text(format!("-MOVED 7629 127.0.0.1:{}\r\n", ports[1])),
        _ => Say::Usual,
    });
    let plain = in_time(Builder::new(one.url()).connect()).await.expect("connected");
    let all = in_time(plain.run((0..100).map(|_| set()).collect())).await;
    assert!(all.iter().all(|reply| *reply == Ok(V)), "{all:?}");
    assert_eq!(sets_of(&other), ["SET k v"; 100]);
}

/// The node that it moved to is not known yet: it waits for the next topology.
#[tokio::test]
async fn what_moved_to_a_node_that_is_new_gets_there() {
    let is_known = Arc::new(AtomicBool::new(false));
    let [one, other] = pair({
        let is_known = Arc::clone(&is_known);
        move |asked, ports| match asked.name.as_str() {
            // All slots have gone to the other one, and it is a node of the same cluster.
            "CLUSTER" if asked.arguments == ["NODES"] => {
                let [one, other] =
                    ports.map(|port| format!("{port:08x}{:032x} 127.0.0.1:{port}@1 master\n", 1));
                Say::Text(format!("${}\r\n{one}{other}\r\n", one.len() + other.len()))
            }
            "CLUSTER" if !is_known.load(Ordering::Acquire) => {
                slots(&[(0, 16383, "127.0.0.1", ports[0].into())])
            }
            "CLUSTER" => slots(&[(0, 16383, "127.0.0.1", ports[1].into())]),
            "SET" if asked.port == ports[0] => {
                is_known.store(true, Ordering::Release);
                Say::Text(format!("-MOVED 7629 127.0.0.1:{}\r\n", ports[1]))
            }
            _ => Say::Usual,
        }
    });
    let plain = in_time(Builder::new(one.url()).connect()).await.expect("connected");
    assert_eq!(in_time(plain.ask(set())).await, Ok(V));
    assert_eq!(sets_of(&other), ["SET k v"]);
}

/// For ever sent to and fro: that is an error in the end.
#[tokio::test]
async fn what_is_sent_in_circles_comes_back_as_the_error_that_it_is() {
    let [one, _other] = pair(|asked, ports| {
        let to = if asked.port == ports[0] { ports[1] } else { ports[0] };
        match asked.name.as_str() {
            "SET" => Say::Text(format!("-MOVED 7629 127.0.0.1:{to}\r\n")),
            _ => Say::Usual,
        }
    });
    let plain = in_time(Builder::new(one.url()).connect()).await.expect("connected");
    let error = in_time(plain.ask(set())).await.expect_err("it is nowhere");
    assert!(error.to_string().starts_with("MOVED 7629"), "{error}");
}

/// A cluster that fails over contradicts itself: who is not named by a part of it is not gone.
#[tokio::test]
async fn a_topology_with_holes_is_not_believed() {
    let has_holes = Arc::new(AtomicBool::new(false));
    let [one, other] = pair({
        let has_holes = Arc::clone(&has_holes);
        move |asked, ports| match asked.name.as_str() {
            "CLUSTER" if has_holes.load(Ordering::Acquire) => {
                slots(&[(8192, 16383, "127.0.0.1", ports[1].into())])
            }
            "PING" => Say::Text("-TRYAGAIN later\r\n".into()),
            _ => Say::Usual,
        }
    });
    let plain = in_time(Builder::new(one.url()).connect()).await.expect("connected");
    let asked = |fake: &Fake| fake.heard().iter().filter(|line| line.starts_with("CLUSTER")).count();
    has_holes.store(true, Ordering::Release);
    let before = asked(&one) + asked(&other);
    // That it is to come again makes the client doubt the topology.
    in_time(async {
        while asked(&one) + asked(&other) < before + 3 {
            plain.ask(Command::new("PING")).await.expect_err("later");
        }
    })
    .await;
    assert_eq!(plain.nodes(), [one.address(), other.address()]);
    assert_eq!(in_time(plain.ask(set())).await, Ok(V));
    assert_eq!(sets_of(&one), ["SET k v"]);
}
