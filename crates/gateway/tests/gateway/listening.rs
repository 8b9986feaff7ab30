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

/// Bug: the first SUBSCRIBE of a connection opened one to a node first, and a PUBLISH that another client said later came before it. Mend:
/// what is read later waits until the node has it.
#[test]
fn a_publish_does_not_overtake_a_subscribe_that_was_read_before() {
    let gateway = gateway();
    let mut says = gateway.client();
    for no in 0..40 {
        let mut listens = gateway.client();
        let id = listens.ask("CLIENT ID");
        listens.say(&format!("SUBSCRIBE early:{no}"));
        says.waits_until_read(&id, "subscribe");
        says.ask(&format!("PUBLISH early:{no} x"));
        assert_eq!(listens.hear(), format!("[\"subscribe\", \"early:{no}\", 1]"));
        assert_eq!(listens.hear(), format!("[\"message\", \"early:{no}\", \"x\"]"));
    }
}

/// Bug: blocking commands of several connections came to a node in any order. Mend: each waits for those of its slot that were read before.
#[test]
fn blocking_commands_are_served_in_the_order_in_which_they_were_read() {
    let gateway = gateway();
    let mut says = gateway.client();
    let [key, ..] = apart("listening:order:");
    let mut waiting: Vec<_> = (0..24)
        .map(|_| {
            let mut client = gateway.client();
            let id = client.ask("CLIENT ID");
            client.say(&format!("BLPOP {key} 20"));
            says.waits_until_read(&id, "blpop");
            client
        })
        .collect();
    // It may not overtake them either.
    let values: Vec<String> = (0..24).map(|no| no.to_string()).collect();
    says.ask(&format!("RPUSH {key} {}", values.join(" ")));
    for (client, value) in waiting.iter_mut().zip(values) {
        assert_eq!(client.hear(), format!("[\"{key}\", \"{value}\"]"));
    }
}
