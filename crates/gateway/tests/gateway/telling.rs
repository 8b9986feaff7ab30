//! What a server says of itself, its commands and its clients: programs read it when they start.

use claret_rig::Server;

use crate::support::{Running, apart, cluster, gateway, in_process};

/// The value of a field of INFO, in an answer as text.
fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = info.split_once(&format!("\\n{name}:"))?;
    rest.split("\\r\\n").next()
}

/// redis-py up to 6 reads most of them as numbers, whether they are there or not, and a worker of RQ does so when it starts.
#[test]
fn client_info_has_every_field_of_a_server() {
    let node: String = cluster().query(0, &["CLIENT", "INFO"]).expect("a node says it");
    let mut names: Vec<&str> =
        node.split_whitespace().filter_map(|field| Some(field.split_once('=')?.0)).collect();
    // Of Valkey 8.
    names.retain(|name| !["tot-net-in", "tot-net-out", "tot-cmds", "capa"].contains(name));
    assert!(names.len() > 25, "{node}");
    for gateway in [gateway(), in_process()] {
        let mut client = gateway.client();
        client.asks(["CLIENT SETNAME shop", "MULTI", "PING"]);
        let said = client.asks(["DISCARD", "WATCH a", "CLIENT INFO"])[2].clone();
        for name in &names {
            assert!(
                said.contains(&format!(" {name}=")) || said.contains(&format!("\"{name}=")),
                "{name}: {said}"
            );
        }
        assert!(said.contains(" name=shop ") && said.contains(" cmd=client|info "), "{said}");
        assert!(said.contains(" multi=-1 ") && said.contains(" watch=1 "), "{said}");
        let port = gateway.address.port();
        assert!(said.contains(&format!(" laddr=127.0.0.1:{port} ")), "{said}");
        // What another one is at.
        let mut other = gateway.client();
        let id = other.ask("CLIENT ID");
        other.asks(["MULTI", "PING", "PING"]);
        let line = client.ask(&format!("CLIENT LIST ID {id}"));
        assert!(
            line.contains(&format!("id={id} ")) && line.contains(" multi=2 ") && line.contains(" flags=x "),
            "{line}"
        );
        assert!(!line.contains(" name=shop "), "{line}");
        assert!(client.ask("CLIENT LIST TYPE normal").contains(" name=shop "));
        assert_eq!(client.ask("CLIENT LIST TYPE pubsub"), "\"\"");
        assert_eq!(client.ask("CLIENT LIST TYPE x"), "-ERR Unknown client type 'x'");
        assert_eq!(client.ask("CLIENT LIST x"), "-ERR syntax error");
    }
}

/// It said 7.2.4 before nodes of any version, so that programs used commands which those do not have.
#[test]
fn info_and_hello_say_what_the_nodes_say() {
    let gateway = gateway();
    let mut client = gateway.client();
    client.ask("SET telling 1 EX 1000");
    let node = |section: &str, name: &str| {
        let said = cluster().servers()[0].info(section, name).expect("a node says it");
        said.unwrap_or_else(|| panic!("no {name}")).trim().to_owned()
    };
    let info = client.ask("INFO");
    for name in ["redis_version", "arch_bits", "os", "multiplexing_api"] {
        assert_eq!(field(&info, name).map(str::to_owned), Some(node("server", name)), "{name}");
    }
    assert_eq!(field(&info, "maxmemory_policy"), Some("noeviction"));
    assert_eq!(field(&info, "tcp_port"), Some(gateway.address.port().to_string().as_str()));
    assert_eq!(field(&info, "run_id").map(str::len), Some(40));
    for name in [
        "uptime_in_days",
        "used_memory",
        "used_memory_human",
        "used_memory_peak_human",
        "total_commands_processed",
        "total_connections_received",
        "instantaneous_ops_per_sec",
        "keyspace_hits",
        "rdb_last_bgsave_status",
        "loading",
        "role",
        "master_replid",
        "blocked_clients",
        "cluster_enabled",
    ] {
        assert!(field(&info, name).is_some_and(|value| !value.is_empty()), "{name}: {info}");
    }
    let keys = field(&info, "db0").expect("there are keys");
    assert!(!keys.contains("expires=0,"), "{keys}");
    assert!(!info.contains("p99_usec=3600000000"), "{info}");
    // Some sections.
    let some = client.asks(["INFO clients", "INFO server memory"]);
    assert!(some[0].starts_with("\"# Clients") && !some[0].contains("redis_version"), "{}", some[0]);
    assert!(some[1].contains("# Server") && some[1].contains("# Memory") && !some[1].contains("# Stats"));
    let said = cluster().servers()[0].info("server", "valkey_version").expect("a node says it");
    let version = said.map_or_else(|| node("server", "redis_version"), |said| said.trim().to_owned());
    let hello = client.ask("HELLO");
    assert!(hello.contains(&format!("\"version\", \"{version}\"")), "{hello}");
}

#[test]
fn records_in_the_process_are_told_of_in_the_same_form() {
    let info = in_process().client().ask("INFO");
    for name in ["redis_version", "arch_bits", "used_memory_human", "maxmemory_policy", "loading", "role"] {
        assert!(field(&info, name).is_some_and(|value| !value.is_empty()), "{name}: {info}");
    }
}

/// They answered OK: a program with a password learned nothing of a server that has none.
#[test]
fn a_password_where_none_is_set_is_an_error() {
    for gateway in [gateway(), in_process()] {
        let mut client = gateway.client();
        assert!(
            client
                .ask("AUTH secret")
                .starts_with("-ERR AUTH <password> called without any password configured"),
        );
        // As a server has it: with the user's name any password is right.
        assert_eq!(client.asks(["AUTH default secret", "PING"]), ["OK", "PONG"]);
        assert!(client.ask("AUTH nobody secret").starts_with("-WRONGPASS"));
        assert!(client.ask("HELLO 2 AUTH default secret").contains("proto"));
    }
}

/// By the categories that a server has.
#[test]
fn commands_are_listed_by_their_categories() {
    let server = Server::start().expect("a server");
    let version = server.info("server", "redis_version").expect("INFO").unwrap_or_default();
    let gateway = in_process();
    let mut client = gateway.client();
    let words = |said: &str| -> Vec<String> {
        let mut words: Vec<String> =
            said.trim_matches(['[', ']']).split(", ").map(|word| word.trim_matches('"').to_owned()).collect();
        words.retain(|word| !word.is_empty());
        words.sort();
        words
    };
    let all = words(&client.ask("COMMAND LIST"));
    let of_server: Vec<String> = server.query(&["COMMAND", "LIST"]).expect("its commands");
    let both = |words: Vec<String>| -> Vec<String> {
        words.into_iter().filter(|word| all.contains(word) && of_server.contains(word)).collect()
    };
    let categories: Vec<String> = server.query(&["ACL", "CAT"]).expect("its categories");
    for category in categories {
        let mut its: Vec<String> =
            server.query(&["COMMAND", "LIST", "FILTERBY", "ACLCAT", &category]).expect("a list");
        its.sort();
        let ours = words(&client.ask(&format!("COMMAND LIST FILTERBY ACLCAT {category}")));
        assert!(category == "hyperloglog" || !ours.is_empty(), "{category}");
        // Others have moved a few of them.
        if version.trim().starts_with("7.0") {
            assert_eq!(both(ours), both(its), "{category}");
        }
    }
    assert_eq!(client.ask("COMMAND LIST FILTERBY ACLCAT nosuch"), "[]");
    assert_eq!(client.ask("COMMAND LIST FILTERBY nosuch x"), "-ERR syntax error");
    let info = client.ask("COMMAND INFO sort");
    assert!(
        info.contains("\"@write\"") && info.contains("\"@dangerous\"") && info.contains("\"@list\""),
        "{info}"
    );
}

/// The same command, alone at its node and in a MULTI over several.
fn alone_and_in_a_multi(gateway: &Running, line: &str, elsewhere: &str) -> (String, String) {
    let mut client = gateway.client();
    let alone = client.ask(line);
    let said = client.asks(["MULTI", line, &format!("SET {elsewhere} 1"), "EXEC"]);
    let in_multi = match said[3].strip_prefix('[').and_then(|rest| rest.strip_suffix(", OK]")) {
        Some(answer) => answer.to_owned(),
        None => said[3].clone(),
    };
    (alone, in_multi)
}

/// A server before 7.2 writes 0.1 with 17 digits, and the gateway did not.
#[test]
fn scores_are_written_alike_alone_and_in_a_multi() {
    let gateway = gateway();
    let [key, elsewhere, _] = apart("scores");
    for hello in ["HELLO 2", "HELLO 3"] {
        let mut client = gateway.client();
        client.ask(hello);
        client.ask(&format!("DEL {key}"));
        client.ask(&format!("ZADD {key} 0.1 a 1e20 b -0 c 0x1.8p1 d 3 e 1e-7 f"));
        for line in [
            format!("ZSCORE {key} a"),
            format!("ZSCORE {key} c"),
            format!("ZRANGE {key} 0 -1 WITHSCORES"),
            format!("ZMSCORE {key} a b c d e f"),
            format!("ZINCRBY {key} 0 a"),
            format!("ZSCAN {key} 0"),
        ] {
            let alone = client.ask(&line);
            let said = client.asks(["MULTI", &line, &format!("SET {elsewhere} 1"), "EXEC"]);
            assert_eq!(said[3], format!("[{alone}, OK]"), "{hello}: {line}");
        }
    }
    // Written in a MULTI, they are read the same.
    let mut client = gateway.client();
    let said = client.asks([
        "MULTI",
        &format!("DEL {key}"),
        &format!("ZADD {key} -0 c 0x10 d"),
        &format!("SET {elsewhere} 1"),
        "EXEC",
        &format!("ZSCORE {key} c"),
        &format!("ZSCORE {key} d"),
    ]);
    assert_eq!(said[4..], ["[1, 2, OK]", "\"0\"", "\"16\""]);
}

#[test]
fn numbers_are_read_alike_alone_and_in_a_multi() {
    let gateway = gateway();
    let [key, elsewhere, _] = apart("numbers");
    let mut client = gateway.client();
    for (line, read) in [
        (format!("INCRBYFLOAT {key} 0x10"), format!("GET {key}")),
        (format!("ZADD {key} 0x10 m"), format!("ZSCORE {key} m")),
    ] {
        client.ask(&format!("DEL {key}"));
        client.asks(["MULTI", &line, &format!("SET {elsewhere} 1"), "EXEC"]);
        assert_eq!(client.ask(&read), "\"16\"", "{line}");
    }
    // One bound of BITCOUNT: a server that takes no single one says so, and so does the gateway, always.
    client.ask(&format!("SET {key} foobar"));
    let (alone, in_multi) = alone_and_in_a_multi(&gateway, &format!("BITCOUNT {key} 0"), &elsewhere);
    assert!(in_multi.contains("syntax error"), "{in_multi}");
    assert!(alone.contains("syntax error") || alone.parse::<u64>().is_ok(), "{alone}");
    assert_eq!(alone_and_in_a_multi(&gateway, &format!("BITCOUNT {key}"), &elsewhere).0, "26");
}

/// No operation of Claret's types is on it: its node does what uses it.
#[test]
fn the_empty_key_works_in_a_multi_of_its_node() {
    let gateway = gateway();
    let mut client = gateway.client();
    let said = client.asks(["DEL \"\"", "MULTI", "SET \"\" 1", "INCR \"\"", "EXEC", "GET \"\"", "DEL \"\""]);
    assert_eq!(said[1..], ["OK", "QUEUED", "QUEUED", "[OK, 2]", "\"2\"", "1"]);
    let said = client.asks(["MULTI", "XADD \"\" 1-1 f v", "EXEC", "DEL \"\""]);
    assert_eq!(said[2..], ["[\"1-1\"]", "1"], "its node does what no operation is");
    let [key, elsewhere, _] = apart("beside-nothing");
    client.ask("MULTI");
    let said = client.asks([&format!("SET {key} 1"), &format!("SET {elsewhere} 1"), "SET \"\" 1"]);
    assert!(said.iter().any(|said| said.starts_with("-CROSSSLOT 'set' is done by one node")), "{said:?}");
    assert!(client.ask("EXEC").starts_with("-EXECABORT"));
    let gateway = in_process();
    let mut client = gateway.client();
    for said in [client.ask("SET \"\" 1"), client.asks(["MULTI", "SET \"\" 1", "EXEC"])[2].clone()] {
        assert!(said.contains("a key cannot be empty"), "{said}");
    }
}
