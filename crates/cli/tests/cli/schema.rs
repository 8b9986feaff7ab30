//! `claret schema`: checked, applied to every node of a cluster, kept, and shown; and the example of docs/schemas.md, run as it stands.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use claret_rig::{Cluster, Module, Server};

const PAGE: &str = include_str!("../../../../docs/schemas.md");

fn claret(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_claret")).args(arguments).output().expect("the program starts")
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Goes with the test.
struct SchemaFile(PathBuf);

impl SchemaFile {
    fn new(name: &str, text: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("claret-{name}-{}.schema", std::process::id()));
        fs::write(&path, text).expect("written");
        SchemaFile(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("UTF-8")
    }
}

impl Drop for SchemaFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The blocks of the page that are no Rust.
fn blocks() -> Vec<&'static str> {
    let blocks = PAGE.split("```text\n").skip(1);
    blocks.map(|block| block.split("```").next().expect("it ends")).collect()
}

#[test]
fn the_example_of_the_page_is_a_schema_that_a_shell_has() {
    let file = SchemaFile::new("page", blocks()[0].as_bytes());
    let checked = claret(&["schema", "check", file.path()]);
    assert!(checked.status.success(), "{}", err(&checked));
    assert!(out(&checked).starts_with(&format!("{}: 5 prefixes, digest ", file.path())), "{}", out(&checked));
    let transcript = blocks()[1];
    let lines: Vec<&str> = transcript.lines().filter_map(|line| line.strip_prefix("> ")).collect();
    let shell = claret(&["shell", "--echo", "--schema", file.path(), "-c", &lines.join("\n")]);
    assert_eq!(out(&shell), transcript, "{}", err(&shell));
}

/// A name that several types have is meant as the schema's type has it.
#[test]
fn a_shell_takes_names_as_the_schema_has_them() {
    let file = SchemaFile::new("names", b"prefix visits: counter");
    let shell = claret(&[
        "shell",
        "--schema",
        file.path(),
        "-c",
        "GET visits:1; INCR visits:1; GET visits:1; SET visits:1 x",
    ]);
    let said = out(&shell);
    assert!(said.contains("(integer) 0") && said.contains("(integer) 1"), "{said}");
    assert!(said.contains("holds a counter, and this is an operation of a register"), "{said}");
}

#[test]
fn a_file_that_is_no_schema_is_named_with_its_line() {
    let no_node = "redis://127.0.0.1:1";
    for (text, says) in [
        (&b"prefix a: set\nprefix a: list"[..], "line 2: the prefix 'a:' is a set above already"),
        (b"prefix a: sett\x1b[2J", "line 1: there is no type 'sett\\x1b[2J'"),
        (b"table a", "line 1: 'table' begins no line of a schema"),
        (&[b'x'; (64 << 10) + 1], "a schema in bytes of 65537 is over the limit of 65536"),
        (b"prefix \xff set", "valid UTF-8"),
    ] {
        let file = SchemaFile::new("wrong", text);
        for words in [
            &["schema", "check"][..],
            &["schema", "apply", "--store", no_node],
            &["shell", "-c", "SADD k x", "--schema"],
        ] {
            let output = claret(&[words, &[file.path()]].concat());
            let told = err(&output);
            assert!(!output.status.success() && out(&output).is_empty(), "{words:?}");
            assert!(told.contains(says) && told.contains(file.path()), "{words:?}: {told}");
        }
    }
    let missing = claret(&["schema", "check", "/nowhere/shop.schema"]);
    assert!(err(&missing).contains("/nowhere/shop.schema") && !missing.status.success(), "{}", err(&missing));
    let file = SchemaFile::new("nobody", b"prefix a: set");
    let nobody = claret(&["schema", "apply", file.path(), "--store", no_node]);
    assert!(
        err(&nobody).contains("127.0.0.1:1 cannot be reached") && !nobody.status.success(),
        "{}",
        err(&nobody)
    );
    let embedded = claret(&["schema", "show", "--store", "embedded"]);
    assert!(err(&embedded).contains("'embedded' is no cluster"), "{}", err(&embedded));
}

fn kept(server: &Server) -> String {
    server.query::<Vec<String>>(&["CONFIG", "GET", "claret.schema"]).expect("a setting")[1].clone()
}

#[test]
fn a_schema_is_put_on_every_node_and_outlives_them() {
    let module = Module::of_sources().expect("the module");
    let mut cluster = Cluster::options(2, 1).module(module).start().expect("a cluster");
    let url = cluster.url();
    let file = SchemaFile::new("applied", b"# A shop.\nprefix seen: set");
    let applied = claret(&["schema", "apply", file.path(), "--store", &url]);
    let said = out(&applied);
    assert!(applied.status.success(), "{said}{}", err(&applied));
    assert_eq!(said.matches(" (primary): schema none became ").count(), 2, "{said}");
    assert_eq!(said.matches(" (replica): schema none became ").count(), 2, "{said}");
    assert_eq!(said.matches(", and it is in the node's configuration file").count(), 4, "{said}");
    for number in 0..cluster.servers().len() {
        let server = cluster.server_mut(number);
        assert!(said.contains(&server.address()), "{said}");
        server.restart().expect("it starts");
        assert_eq!(kept(server), "prefix seen: set\n");
    }
    let again = claret(&["schema", "apply", file.path(), "--store", &url]);
    assert_eq!(
        out(&again).matches(" before, and it is in the node's configuration file").count(),
        4,
        "{}",
        out(&again)
    );
    let shown = claret(&["schema", "show", "--store", &url]);
    assert!(shown.status.success() && out(&shown).ends_with("prefix seen: set\n"), "{}", out(&shown));

    // Nodes that differ are told apart, and a node that is down keeps all as they are.
    cluster.query::<()>(1, &["CONFIG", "SET", "claret.schema", "prefix a: list"]).expect("set");
    let shown = claret(&["schema", "show", "--store", &url]);
    assert!(!shown.status.success() && out(&shown).contains("prefix a: list"), "{}", out(&shown));
    assert!(err(&shown).contains("the nodes have different schemas"), "{}", err(&shown));
    cluster.server_mut(3).kill();
    let none = SchemaFile::new("none", b"# nothing");
    let refused = claret(&["schema", "apply", none.path(), "--store", &url]);
    let told = err(&refused);
    assert!(!refused.status.success() && told.contains("nothing was changed on any"), "{told}");
    assert!(told.contains(&cluster.servers()[3].address()), "{told}");
    assert_eq!(kept(&cluster.servers()[0]), "prefix seen: set\n");
}

/// A server that was started without a configuration file.
struct Bare {
    process: Child,
    port: u16,
    url: String,
}

impl Bare {
    fn start(module: &Module) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port();
        let program = std::env::var("CLARET_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
        let mut command = Command::new(program);
        command.args(["--port", &port.to_string(), "--save", "", "--loadmodule"]).arg(&module.path);
        command.current_dir(env!("CARGO_TARGET_TMPDIR")); // It leaves its file of incarnations there.
        let process = command.stdout(Stdio::null()).spawn().expect("the server starts");
        Bare { process, port, url: format!("redis://127.0.0.1:{port}") }
    }

    /// Applies a schema once it is up.
    fn apply(&self, file: &SchemaFile) -> Output {
        let began = Instant::now();
        loop {
            let applied = claret(&["schema", "apply", file.path(), "--store", &self.url]);
            if applied.status.success() {
                return applied;
            }
            assert!(began.elapsed() < Duration::from_secs(20), "{}{}", out(&applied), err(&applied));
            sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_server_without_a_file_and_one_without_the_module_are_told_of() {
    let server = Bare::start(&Module::of_sources().expect("the module"));
    let file = SchemaFile::new("alone", b"prefix seen: set");
    let said = out(&server.apply(&file));
    assert!(
        said.contains("(primary): schema none became ") && said.contains("has no configuration file"),
        "{said}"
    );
    let shown = claret(&["schema", "show", "--store", &server.url]);
    assert!(out(&shown).ends_with("prefix seen: set\n"), "{}", out(&shown));
    let plain = Server::start().expect("a server");
    let refused = claret(&["schema", "apply", file.path(), "--store", &plain.url()]);
    let told = err(&refused);
    assert!(
        !refused.status.success() && told.contains("has no setting claret.schema: load the module there"),
        "{told}"
    );
}

/// Where a connection breaks that asks for another schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Breaks {
    /// Behind the change, whose answer is lost.
    Once,
    /// Before it, and nobody gets through any more.
    ForGood,
}

/// A proxy before a server.
fn breaking(server: u16, breaks: Breaks) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let own = listener.local_addr().expect("bound").port();
    let has_broken = Arc::new(AtomicBool::new(false));
    spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            if breaks == Breaks::ForGood && has_broken.load(Ordering::SeqCst) {
                continue;
            }
            let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
            let (has_broken, breaks_here) = (Arc::clone(&has_broken), Arc::new(AtomicBool::new(false)));
            let copy = |it: &TcpStream| it.try_clone().expect("a copy of a socket");
            let (back, forth) = ((copy(&server), copy(&client)), (client, server));
            let answers_lost = Arc::clone(&breaks_here);
            spawn(move || carry(back.0, back.1, |_| !answers_lost.load(Ordering::SeqCst)));
            spawn(move || {
                carry(forth.0, forth.1, |bytes| {
                    let text = String::from_utf8_lossy(bytes);
                    let changes = text.contains("\r\nSET\r\n") && text.contains("claret.schema");
                    let is_here = changes && !has_broken.swap(true, Ordering::SeqCst);
                    breaks_here.fetch_or(is_here, Ordering::SeqCst);
                    !(is_here && breaks == Breaks::ForGood)
                });
            });
        }
    });
    own
}

/// Until something may not pass.
fn carry(mut from: TcpStream, mut to: TcpStream, passes: impl Fn(&[u8]) -> bool) {
    let mut room = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut room) {
        if !passes(&room[..read]) || to.write_all(&room[..read]).is_err() {
            break;
        }
    }
    for socket in [&from, &to] {
        // It may be closed already.
        let _ = socket.shutdown(Shutdown::Both);
    }
}

/// Bug: of a node whose connection broke it was said that it still had the schema from before, and nobody had asked it.
#[test]
fn a_node_whose_connection_breaks_says_what_it_has_or_is_named() {
    let server = Bare::start(&Module::of_sources().expect("the module"));
    let [first, second, third] = ["prefix a: set\n", "prefix b: set\n", "prefix c: set\n"];
    let files = [first, second, third].map(|text| SchemaFile::new(&text[7..8], text.as_bytes()));
    server.apply(&files[0]);
    let shown = || out(&claret(&["schema", "show", "--store", &server.url]));
    let through = |breaks| {
        let port = breaking(server.port, breaks);
        (format!("127.0.0.1:{port}"), format!("redis://127.0.0.1:{port}"))
    };

    let (_, url) = through(Breaks::Once);
    let applied = claret(&["schema", "apply", files[1].path(), "--store", &url]);
    assert!(applied.status.success(), "{}{}", out(&applied), err(&applied));
    assert!(out(&applied).contains(" became "), "{}", out(&applied));
    assert!(shown().ends_with(second), "{}", shown());

    let (address, url) = through(Breaks::ForGood);
    let lost = claret(&["schema", "apply", files[2].path(), "--store", &url]);
    let (said, told) = (out(&lost), err(&lost));
    assert!(!lost.status.success(), "{said}{told}");
    assert!(said.contains("was lost, and has schema ") && said.contains(" or still "), "{said}");
    assert!(
        told.contains(&format!("not put on {address}")) && told.contains("run the command again"),
        "{told}"
    );
    assert!(shown().ends_with(second), "{}", shown());
}
