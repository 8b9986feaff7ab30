//! The container image, without a container engine: what its files say is done here, on this machine. Servers start with its
//! configuration and with the arguments that compose gives them, its script joins them, and a transaction runs on all three.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use claret_rig::{Module, Server};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Lines that say something.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The arguments of an instruction of the Containerfile, wherever it stands.
fn instructions<'a>(text: &'a str, name: &str) -> Vec<Vec<&'a str>> {
    let found = lines(text).filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found.map(|rest| rest.split_whitespace().filter(|word| !word.starts_with("--")).collect()).collect()
}

/// The commands of the services, in order: `command: [a, "b"]`.
fn commands(compose: &str) -> Vec<Vec<String>> {
    let found = lines(compose).filter_map(|line| line.strip_prefix("command: [")?.strip_suffix(']'));
    found.map(|list| list.split(", ").map(|word| word.trim_matches('"').to_owned()).collect()).collect()
}

/// What an image has at a path, and where in the repository that comes from.
fn copied(container: &str) -> Vec<(String, String)> {
    let copies = instructions(container, "COPY").into_iter();
    copies.filter(|words| words[0] != ".").map(|words| (words[1].to_owned(), words[0].to_owned())).collect()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn the_image_has_what_its_files_name() {
    let (container, config) = (read("container/Containerfile"), read("container/server.conf"));
    let copied = copied(&container);
    let from = |path: &str| copied.iter().find(|(to, _)| to == path).map(|(_, from)| from.as_str());
    // The module: built, copied and loaded under one name, that which cargo gives it.
    let loaded = lines(&config).find_map(|line| line.strip_prefix("loadmodule ")).expect("a module");
    let built = from(loaded).expect("the image has it");
    assert_eq!(built, "/claret/target/dist/libclaret_module.so");
    assert_eq!(from("/usr/local/bin/claret"), Some("/claret/target/dist/claret"));
    assert!(
        container.contains("WORKDIR /claret\n")
            && container.contains("cargo build --profile dist --locked -p claret-cli -p claret-module")
    );
    // All else is of the repository.
    for (_, from) in copied.iter().filter(|(_, from)| !from.starts_with('/')) {
        assert!(root().join(from).is_file(), "{from}");
    }
    assert_eq!(from("/usr/local/bin/claret-join"), Some("container/claret-join"));
    let default = container.lines().find_map(|line| line.strip_prefix("CMD ")).expect("a command");
    let config_path = "/etc/claret/server.conf";
    assert!(default.contains(config_path) && from(config_path) == Some("container/server.conf"));
    let commands = commands(&read("container/compose.yaml"));
    let [nodes @ .., join, gateway] = &commands[..] else { panic!("{commands:?}") };
    assert!(nodes.len() == 3 && nodes.iter().all(|words| words[1] == config_path), "{nodes:?}");
    assert_eq!(lines(&config).filter(|line| *line == "protected-mode yes").count(), 1);
    assert!(
        gateway[..2] == ["claret", "gateway"] && gateway.contains(&"127.0.0.1:6380".to_owned()),
        "{gateway:?}"
    );
    // Each node has a port of its own, and all of them are joined.
    let ports: Vec<&String> = nodes.iter().map(|words| option(words, "--port")).collect();
    let joined = ports.iter().map(|port| format!("127.0.0.1:{port}"));
    assert_eq!(join[1..], joined.collect::<Vec<_>>());
}

/// The value of an option of a server's command.
fn option<'a>(words: &'a [String], name: &str) -> &'a String {
    words.iter().skip_while(|word| *word != name).nth(1).unwrap_or_else(|| panic!("{words:?} has no {name}"))
}

/// A node as compose starts it, but for what belongs to the machine: its port, its directory, and where the module is.
fn start(config: &str, command: &[String]) -> Server {
    let module = Module::of_sources().expect("the module");
    let of_machine =
        |line: &&str| !["loadmodule ", "dir ", "port ", "bind "].iter().any(|name| line.starts_with(name));
    let arguments =
        command[2..].chunks(2).map(|pair| format!("{} {}", pair[0].trim_start_matches("--"), pair[1]));
    let arguments: Vec<String> = arguments.collect();
    let all = lines(config).chain(arguments.iter().map(String::as_str)).filter(of_machine);
    all.fold(Server::options().module(module), |options, line| options.config(line)).start().expect("a node")
}

#[test]
fn nodes_of_the_image_become_a_cluster_and_run_transactions() {
    let (config, compose) = (read("container/server.conf"), read("container/compose.yaml"));
    let commands = commands(&compose);
    let nodes: Vec<Server> = commands[..3].iter().map(|command| start(&config, command)).collect();
    let addresses: Vec<String> = nodes.iter().map(Server::address).collect();
    let join =
        || Command::new(root().join("container/claret-join")).args(&addresses).output().expect("it runs");
    // The second time there is nothing to do.
    for _ in 0..2 {
        let joined = join();
        assert!(joined.status.success() && text(&joined).contains(&nodes[0].url()), "{}", text(&joined));
    }
    // Keys of all three nodes.
    let script = "BEGIN; INCRBY a 1; INCRBY b 2; INCRBY c 3; SADD d x; COMMIT; GET a; GET b; GET c; SCARD d";
    let claret = Command::new(env!("CARGO_BIN_EXE_claret"))
        .args(["shell", "--strict", "--store", &nodes[0].url(), "-c", script])
        .output()
        .expect("it runs");
    assert!(
        claret.status.success() && text(&claret).contains("COMMITTED\n\"1\"\n\"2\"\n\"3\"\n(integer) 1"),
        "{}",
        text(&claret)
    );
    for node in &nodes {
        assert!(node.query::<u64>(&["DBSIZE"]).expect("a number") > 0, "a node has no part in it");
        let setting = |name: &str| -> Vec<String> { node.query(&["CONFIG", "GET", name]).expect("read") };
        assert_eq!(setting("appendonly")[1], "yes", "the image's configuration is in force");
        // Who is on another machine and has no password was served: the servers of official images have it off.
        assert_eq!(setting("protected-mode")[1], "yes");
    }
    let alone =
        Command::new(root().join("container/claret-join")).arg(&addresses[0]).output().expect("it runs");
    assert!(!alone.status.success() && text(&alone).contains("usage"), "{}", text(&alone));
}
