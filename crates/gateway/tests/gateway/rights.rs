//! Rights that change, and logins that come by the hundred (G9): with nodes of their own.

use std::time::{Duration, Instant};

use claret::Store;
use claret_gateway::{Behind, Door, Gateway, GatewayError, GatewayHandle, GatewayLimits};
use claret_rig::{Cluster, Module};

use crate::support::{Client, Running};

fn nodes(masters: u16, password: Option<&str>) -> Cluster {
    let options = Cluster::options(masters, 0).module(Module::of_sources().expect("the module"));
    let options = password.map_or(options.clone(), |word| options.password(word));
    options.start().expect("a cluster")
}

/// On all nodes, as an operator does it there.
fn on_all(cluster: &Cluster, words: &[&str]) {
    (0..cluster.masters())
        .for_each(|node| cluster.query::<String>(node, words).map(drop).expect("it is done"));
}

/// Asks anew, each time by a new client, until this is the answer.
fn until(gateway: &Running, line: &str, wanted: &str) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let said = gateway.client().ask(line);
        if said.starts_with(wanted) {
            return;
        }
        assert!(Instant::now() < until, "{line} is answered {said}, and not {wanted}");
    }
}

#[test]
fn a_password_that_is_set_while_it_runs_keeps_strangers_out() {
    let cluster = nodes(2, None);
    let gateway = Running::before(&cluster.url());
    let (mut before, mut logged_in) = (gateway.client(), gateway.client());
    assert_eq!(before.ask("SET k 1"), "OK");
    assert_eq!(logged_in.asks(["AUTH default any", "GET k"]), ["OK", "\"1\""]);
    on_all(&cluster, &["CONFIG", "SET", "requirepass", "sekret"]);
    until(&gateway, "GET k", "-NOAUTH Authentication required.");
    // Who was there before stays, as on a node, and reads no password.
    assert_eq!(before.ask("GET k"), "\"1\"");
    assert_eq!(before.ask("CONFIG GET requirepass"), "[\"requirepass\", \"\"]");
    assert!(!before.ask("CONFIG GET *").contains("sekret"));
    assert_eq!(before.asks(["RESET", "GET k"])[1], "-NOAUTH Authentication required.");
    assert!(before.ask("AUTH any").starts_with("-WRONGPASS"));
    assert_eq!(before.asks(["AUTH sekret", "GET k"]), ["OK", "\"1\""]);
    assert_eq!(logged_in.ask("GET k"), "\"1\"");
    // The same with `off`, and back again.
    assert_eq!(logged_in.ask("ACL SETUSER default off"), "OK");
    assert!(gateway.client().ask("AUTH sekret").starts_with("-WRONGPASS"));
    assert!(gateway.client().ask("GET k").starts_with("-NOAUTH"));
    assert_eq!(logged_in.ask("ACL SETUSER default on nopass"), "OK");
    until(&gateway, "GET k", "\"1\"");
}

#[test]
fn who_is_logged_in_stays_as_on_a_node() {
    let cluster = nodes(2, Some("sekret"));
    let gateway = Running::before(&cluster.url());
    let mut admin = gateway.client();
    let rules = "on >word ~* resetchannels +@all";
    assert_eq!(admin.asks(["AUTH sekret", &format!("ACL SETUSER ann {rules}")]), ["OK", "OK"]);
    let mut ann = gateway.client();
    assert_eq!(ann.asks(["AUTH ann word", "SET k 1"]), ["OK", "OK"]);
    // Another password: of those who come now.
    assert_eq!(admin.ask("ACL SETUSER ann resetpass >other"), "OK");
    assert!(gateway.client().ask("AUTH ann word").starts_with("-WRONGPASS"));
    assert_eq!(ann.ask("GET k"), "\"1\"");
    // Other rules count at once.
    assert_eq!(admin.ask("ACL SETUSER ann -get"), "OK");
    assert!(ann.ask("GET k").starts_with("-NOPERM"));
    // A user that is deleted is cut off, whatever it is at, and others are not.
    let mut waits = gateway.client();
    assert_eq!(waits.ask("AUTH ann other"), "OK");
    waits.say("BLPOP nothing 0");
    assert_eq!(admin.ask("ACL DELUSER ann"), "1");
    assert!(ann.is_closed(), "it goes on");
    assert!(waits.is_closed(), "it waits on");
    assert!(gateway.client().ask("AUTH ann other").starts_with("-WRONGPASS"));
    assert_eq!(admin.ask("GET k"), "\"1\"");
    assert_eq!(admin.ask("ACL SETUSER ann on >new ~* +@all"), "OK");
    assert_eq!(gateway.client().asks(["AUTH ann new", "GET k"]), ["OK", "\"1\""]);
}

/// Each of them opened a connection to a node: 400 of them, and nobody else had one.
#[test]
fn wrong_logins_open_no_connection_each() {
    const CLIENTS: usize = 40;
    const EACH: usize = 20;
    let cluster = nodes(1, Some("sekret"));
    let gateway = Running::before(&cluster.url());
    let mut good = gateway.client();
    assert_eq!(good.asks(["AUTH sekret", "SET k 1"]), ["OK", "OK"]);
    let opened = || -> u64 {
        let said = cluster.servers()[0].info("stats", "total_connections_received").expect("INFO");
        said.and_then(|text| text.trim().parse().ok()).expect("a number")
    };
    // Asking is a connection, too.
    let asking = opened();
    let asking = opened() - asking;
    let mut strangers: Vec<Client> = (0..CLIENTS).map(|_| gateway.client()).collect();
    strangers.iter_mut().for_each(|it| assert!(it.ask("GET k").starts_with("-NOAUTH")));
    let before = opened();
    let many = "AUTH bob wrong\r\n".repeat(EACH);
    strangers.iter_mut().for_each(|it| it.send(many.as_bytes()));
    // A right one comes in between.
    assert_eq!(gateway.client().ask("AUTH default sekret"), "OK");
    for stranger in &mut strangers {
        (0..EACH).for_each(|_| assert!(stranger.hear().starts_with("-WRONGPASS")));
    }
    // That which judges, what was learned of strangers meanwhile, and what the new user needs.
    let opened = opened() - before - asking;
    assert!(opened <= (CLIENTS / 2) as u64, "{opened} connections for {} logins", CLIENTS * EACH);
    let info = good.ask("INFO gateway");
    let refused = format!("gateway_logins_refused_total:{}", CLIENTS * EACH);
    assert!(info.contains(&refused) && info.contains("gateway_logins_over_total:0"), "{info}");
}

#[test]
fn logins_that_wait_are_bounded() {
    let cluster = nodes(1, Some("sekret"));
    let limits = GatewayLimits { logins_max: 2, ..GatewayLimits::default() };
    let behind = Behind::Servers(Box::new(Store::cluster(cluster.url())));
    let gateway = Running::start(Gateway::new(behind).limits(limits));
    let mut sees = gateway.client();
    assert_eq!(sees.ask("AUTH sekret"), "OK");
    let mut clients: Vec<Client> = (0..8).map(|_| gateway.client()).collect();
    clients.iter_mut().for_each(|it| assert!(it.ask("GET k").starts_with("-NOAUTH")));
    // The node says nothing until all have asked.
    cluster.servers()[0].pause();
    clients.iter_mut().for_each(|it| it.say("AUTH sekret"));
    while !sees.ask("INFO gateway").contains("gateway_logins_total:9") {
        std::thread::yield_now();
    }
    cluster.servers()[0].resume();
    let said: Vec<String> = clients.iter_mut().map(Client::hear).collect();
    let over = said.iter().filter(|said| said.contains("over 2 logins wait at the gateway")).count();
    // One is under way, or a few that came first, and two wait.
    assert!((1..=6).contains(&over), "{said:?}");
    // Where that took longer than a node has to answer, it counts as away.
    let is_other = |said: &&String| *said == "OK" || said.starts_with("-CLUSTERDOWN");
    assert_eq!(said.iter().filter(is_other).count() + over, 8, "{said:?}");
    assert!(sees.ask("INFO gateway").contains(&format!("gateway_logins_over_total:{over}")));
    assert_eq!(gateway.client().ask("AUTH sekret"), "OK");
}

#[test]
fn a_password_is_any_bytes() {
    let cluster = nodes(1, Some("sekret"));
    let gateway = Running::before(&cluster.url());
    let mut client = gateway.client();
    assert_eq!(client.ask("AUTH sekret"), "OK");
    client.send(b"*7\r\n$3\r\nACL\r\n$7\r\nSETUSER\r\n$3\r\nbin\r\n$2\r\non\r\n$4\r\n>\xff\x00\xfe\r\n$2\r\n~*\r\n$5\r\n+@all\r\n");
    assert_eq!(client.hear(), "OK");
    let mut bin = gateway.client();
    bin.send(b"*3\r\n$4\r\nAUTH\r\n$3\r\nbin\r\n$3\r\n\xff\x00\xfe\r\n");
    assert_eq!(bin.hear(), "OK");
    // On connections of its own, too.
    assert_eq!(bin.asks(["SET k 1", "ACL WHOAMI", "MSET a 1 b 2"]), ["OK", "\"bin\"", "OK"]);
    bin.send(b"*3\r\n$4\r\nAUTH\r\n$3\r\nbin\r\n$3\r\n\xff\x00\xfd\r\n");
    assert!(bin.hear().starts_with("-WRONGPASS"));
}

fn open_door() -> Door {
    Door::Tcp(std::net::TcpListener::bind("0.0.0.0:0").expect("a port"))
}

/// Whoever reached the machine could do everything.
#[test]
fn strangers_of_other_machines_are_served_only_where_that_is_said() {
    let here = || Gateway::new(Behind::Store(Store::in_memory()));
    let refused = |gateway: Gateway| {
        let ran = gateway.run(vec![open_door()], &GatewayHandle::default(), || panic!("it serves"));
        match ran.expect_err("it is refused") {
            GatewayError::Unprotected { at, .. } => assert!(at.starts_with("0.0.0.0:"), "{at}"),
            other => panic!("{other}"),
        }
    };
    refused(here());
    // What ends at once has been let in.
    let served = |gateway: Gateway| {
        let handle = GatewayHandle::default();
        gateway.run(vec![open_door()], &handle, || handle.stop()).expect("it serves");
    };
    served(here().unprotected());
    served(here().password("sekret"));
    let cluster = nodes(1, None);
    let before = || Gateway::new(Behind::Servers(Box::new(Store::cluster(cluster.url()))));
    refused(before());
    served(before().unprotected());
    on_all(&cluster, &["CONFIG", "SET", "requirepass", "sekret"]);
    let url = cluster.url().replace("redis://", "redis://:sekret@");
    let before = || Gateway::new(Behind::Servers(Box::new(Store::cluster(&url))));
    served(before());
    refused(before().open());
}

#[test]
fn records_in_the_process_may_have_a_password() {
    let gateway = Gateway::new(Behind::Store(Store::in_memory())).password(b"p\xff".as_slice());
    let gateway = Running::start(gateway);
    let mut client = gateway.client();
    assert_eq!(client.ask("SET k 1"), "-NOAUTH Authentication required.");
    assert!(client.ask("AUTH p").starts_with("-WRONGPASS"));
    client.send(b"*3\r\n$4\r\nAUTH\r\n$3\r\nann\r\n$2\r\np\xff\r\n");
    assert!(client.hear().starts_with("-WRONGPASS"));
    client.send(b"*2\r\n$4\r\nAUTH\r\n$2\r\np\xff\r\n");
    assert_eq!(client.hear(), "OK");
    assert_eq!(client.asks(["SET k 1", "RESET", "GET k"])[2], "-NOAUTH Authentication required.");
}
