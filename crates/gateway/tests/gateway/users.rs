//! Who may do what (G9).

use claret::Store;
use claret_gateway::{Behind, Gateway};
use claret_rig::{Cluster, Module};

use crate::support::Running;

#[test]
fn users_are_those_of_the_nodes() {
    let module = Module::of_sources().expect("the module");
    let cluster = Cluster::options(2, 0).module(module).password("secret").start().expect("a cluster");
    let gateway = Running::before(&cluster.url());
    let mut client = gateway.client();
    assert_eq!(client.ask("GET k"), "-NOAUTH Authentication required.");
    assert!(client.ask("AUTH wrong").starts_with("-WRONGPASS"));
    assert!(client.ask("HELLO 3 AUTH default wrong").starts_with("-WRONGPASS"));
    assert!(client.ask("HELLO 3").starts_with("-NOAUTH"));
    assert_eq!(client.asks(["AUTH secret", "SET k 1", "ACL WHOAMI"]), ["OK", "OK", "\"default\""]);
    // A user with rights to some keys, on all nodes.
    let rules = "on >word ~mine:* resetchannels +@all -@dangerous";
    assert_eq!(client.ask(&format!("ACL SETUSER ann {rules}")), "OK");
    let mut ann = gateway.client();
    assert_eq!(ann.asks(["AUTH ann word", "SET mine:a 1", "ACL WHOAMI"]), ["OK", "OK", "\"ann\""]);
    assert!(ann.ask("GET k").starts_with("-NOPERM"), "the nodes judge plain commands");
    for line in ["SET mine:a 2", "SET k 2"] {
        ann.asks(["MULTI", "SET mine:b 1", line]);
        let said = ann.ask("EXEC");
        match line {
            "SET k 2" => {
                assert!(said.contains("NOPERM") || said.contains("permission"), "and transactions: {said}")
            }
            _ => assert_eq!(said, "[OK, OK]"),
        }
    }
    assert_eq!(client.ask("GET k"), "\"1\"");
    // Bug: a node that refused MULTI did the rest one by one. Mend: MULTI is answered first.
    client.ask("ACL SETUSER ann -multi");
    let by_a_node = ["PFADD mine:{s}1 x", "PFMERGE mine:{s}2 mine:{s}1"];
    assert!(ann.asks(["MULTI", by_a_node[0], by_a_node[1], "EXEC"])[3].contains("NOPERM"));
    client.ask("ACL SETUSER ann +multi");
    assert_eq!(ann.ask("EXISTS mine:{s}1"), "0");
    // Each sees the connections of its own user.
    assert!(!ann.ask("CLIENT LIST").contains("user=default") && ann.ask("CLIENT LIST").contains("user=ann"));
    let id = client.ask("CLIENT ID");
    assert_eq!(ann.ask(&format!("CLIENT KILL ID {id}")), "0");
    let id = ann.ask("CLIENT ID");
    ann.say("BLPOP mine:list 0");
    while !client.ask("INFO gateway").contains("gateway_blocked_clients:1") {
        std::thread::yield_now();
    }
    // It may be on its way to the node at first.
    (0..200).for_each(|_| assert_eq!(client.ask(&format!("CLIENT UNBLOCK {id}")), "0"));
    client.ask("RPUSH mine:list x");
    assert_eq!(ann.hear(), "[\"mine:list\", \"x\"]");
    assert!(gateway.client().ask("AUTH ann \"\"").starts_with("-WRONGPASS"));
    // A password that was changed lets nobody in, though somebody is in with it.
    assert_eq!(client.ask("ACL SETUSER ann resetpass >other"), "OK");
    assert!(gateway.client().ask("AUTH ann word").starts_with("-WRONGPASS"));
    assert_eq!(gateway.client().ask("AUTH ann other"), "OK");
    assert_eq!(ann.ask("RESET"), "RESET");
    assert_eq!(ann.ask("GET mine:a"), "-NOAUTH Authentication required.");
}

#[test]
fn an_open_gateway_lends_its_own_user() {
    let module = Module::of_sources().expect("the module");
    let cluster = Cluster::options(1, 0).module(module).password("secret").start().expect("a cluster");
    let behind = Behind::Servers(Box::new(Store::cluster(cluster.url())));
    let gateway = Running::start(Gateway::new(behind).open());
    assert_eq!(gateway.client().asks(["SET k 1", "MULTI", "INCR k", "EXEC"])[3], "[2]");
}
