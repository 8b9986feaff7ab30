//! What the program prints: never a password, and nothing that a terminal would obey.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;

use claret_rig::{Cluster, Module};

const PASSWORD: &str = "hunter2";

/// What it prints on both outputs.
fn printed(arguments: &[&str]) -> String {
    let program = env!("CARGO_BIN_EXE_claret");
    let output = Command::new(program).args(arguments).output().expect("it runs");
    [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat()
}

#[test]
fn no_password_is_printed_whatever_is_wrong_with_the_url() {
    let urls = [
        "redis://ada:hunter2@127.0.0.1:1",
        "redis://ada:hunter2@127.0.0.1:1/3",
        "redis://:hunter2@127.0.0.1:99999",
        "redis://hunter2@127.0.0.1:1",
        "redis://ada:1/hunter2@127.0.0.1:1",
        "redis://ada:hunter2",
        "redis://127.0.0.1:1/?password=hunter2",
        "redis:/ada:hunter2@127.0.0.1:1",
        "ada:hunter2@127.0.0.1:1",
        "valkey://ada:hunter2@127.0.0.1:1",
    ];
    for url in urls {
        for arguments in [
            &["shell", "--store", url, "-c", "GET k"][..],
            &["bench", "rawmix", "--json", "--seconds", "0.1", "--store", url],
            &["bench", "rawmix", "--shards", "2", "--store", url],
            &["demo", "auction", "--store", url],
            &["check-store", "--seconds", "1", "--store", url],
            &["shell", url],
            &["shell", &format!("--nothing={url}")],
            &[url],
        ] {
            let said = printed(arguments);
            assert!(said.contains("error"), "{arguments:?}: {said}");
            assert!(!said.contains(PASSWORD), "{arguments:?}: {said}");
        }
    }
}

#[test]
fn no_password_is_printed_when_all_is_well() {
    let module = Module::of_sources().expect("the module");
    let cluster = Cluster::options(3, 0).module(module).password(PASSWORD).start().expect("a cluster");
    let url = cluster.url();
    assert!(url.contains(PASSWORD));
    let bench = ["bench", "rawmix", "--seconds", "0.2", "--clients", "2", "--keys", "10", "--store", &url];
    for (arguments, expected) in [
        ([&bench[..], &["--json"]].concat(), "\"type\":\"check\""),
        (bench.to_vec(), "checks:"),
        (vec!["shell", "--store", &url, "-c", "SET k v; GET k"], "\"v\""),
    ] {
        let said = printed(&arguments);
        assert!(said.contains(expected), "{said}");
        assert!(!said.contains(PASSWORD), "{said}");
    }
}

#[test]
fn a_server_does_not_command_the_terminal() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("redis://{}", listener.local_addr().expect("its address"));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            std::thread::spawn(move || {
                let mut bytes = [0; 4_096];
                // Whoever is there may go at any time.
                while let Ok(length @ 1..) = stream.read(&mut bytes) {
                    let commands = bytes[..length].iter().filter(|byte| **byte == b'*').count();
                    let said = b"-ERR \x1b[31m\x1b]0;owned\x07 \xc2\x9b2J evil\r\n".repeat(commands);
                    let _ = stream.write_all(&said);
                }
            });
        }
    });
    for arguments in [
        &["shell", "--store", &url, "-c", "GET k"][..],
        &["bench", "rawmix", "--seconds", "0.1", "--store", &url],
        &["check-store", "--seconds", "1", "--store", &url],
    ] {
        let said = printed(arguments);
        assert!(said.contains("evil"), "{said}");
        let is_command = |it: char| it.is_control() && !matches!(it, '\n' | '\t');
        assert!(!said.contains(is_command), "{said:?}");
    }
}
