//! Channels.

use crate::support::{apart, gateway};

#[test]
fn messages_come_through() {
    let gateway = gateway();
    let (mut listens, mut says) = (gateway.client(), gateway.client());
    let said = listens.asks(["SUBSCRIBE news", "PSUBSCRIBE new*", "PING"]);
    assert_eq!(said, ["[\"subscribe\", \"news\", 1]", "[\"psubscribe\", \"new*\", 2]", "[\"pong\", \"\"]"]);
    assert!(listens.ask("GET k").contains("only (P|S)SUBSCRIBE"));
    says.ask("PUBLISH news hello");
    let mut heard = [listens.hear(), listens.hear()];
    heard.sort();
    assert_eq!(
        heard,
        ["[\"message\", \"news\", \"hello\"]", "[\"pmessage\", \"new*\", \"news\", \"hello\"]"]
    );
    // All of a pipeline is confirmed before the next command is looked at.
    listens.say("UNSUBSCRIBE\r\nPUNSUBSCRIBE\r\nGET none");
    assert_eq!(
        [listens.hear(), listens.hear(), listens.hear()],
        ["[\"unsubscribe\", \"news\", 1]", "[\"punsubscribe\", \"new*\", 0]", "nil"]
    );
    assert_eq!(listens.ask("UNSUBSCRIBE"), "[\"unsubscribe\", nil, 0]");
    listens.ask("HELLO 3");
    assert_eq!(listens.ask("PUNSUBSCRIBE a b"), "push[\"punsubscribe\", \"a\", 0]");
    assert_eq!(listens.hear(), "push[\"punsubscribe\", \"b\", 0]");
}

#[test]
fn in_resp3_messages_are_pushes_beside_commands() {
    let gateway = gateway();
    let (mut listens, mut says) = (gateway.client(), gateway.client());
    listens.ask("HELLO 3");
    assert_eq!(listens.ask("SUBSCRIBE a:3 b:3"), "push[\"subscribe\", \"a:3\", 1]");
    assert_eq!(listens.hear(), "push[\"subscribe\", \"b:3\", 2]");
    assert_eq!(listens.ask("SET listening:3 1"), "OK");
    says.ask("PUBLISH b:3 x");
    assert_eq!(listens.hear(), "push[\"message\", \"b:3\", \"x\"]");
    assert_eq!(listens.ask("RESET"), "RESET");
    assert_eq!(listens.ask("GET listening:3"), "\"1\"");
}

#[test]
fn channels_of_slots_are_listened_to_at_one_node() {
    let gateway = gateway();
    let (mut listens, mut says) = (gateway.client(), gateway.client());
    let [a, b, _] = apart("listening:slot:");
    assert_eq!(listens.ask(&format!("SSUBSCRIBE {a}")), format!("[\"ssubscribe\", \"{a}\", 1]"));
    assert!(listens.ask(&format!("SSUBSCRIBE {b}")).starts_with("-CROSSSLOT"));
    assert_eq!(says.ask(&format!("SPUBLISH {a} x")), "1");
    assert_eq!(listens.hear(), format!("[\"smessage\", \"{a}\", \"x\"]"));
}
