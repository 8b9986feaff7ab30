//! Real servers with the module in them, for the tests: free ports, a directory of their own, ended with the test, or when that
//! takes too long.
//!
//! `CLARET_SERVER` names another server than `redis-server`, `CLARET_MODULE` a module that is built already.

// Each test file is a crate of its own and uses a part of this.
#![allow(dead_code, unreachable_pub)]

pub(crate) mod beside;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use claret_core::message::{Asks, Call, KeyedCall, Listed, Members, Request, Response};
use claret_core::{
    AttemptId, Birth, CallNo, Incarnation, Member, Sequence, SessionId, ShardId, Time, TxId, wire,
};
use claret_identity::{Challenge, Identity, Statement};
use claret_rig::TestLimit;
use claret_types::{BUILTIN, Bytes, Method, Operation, TypeInfo};
use redis::{Connection, Value};

/// The module, built once for all tests of a file.
pub(crate) fn module() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        if let Some(path) = std::env::var_os("CLARET_MODULE") {
            return PathBuf::from(path);
        }
        let profile = if cfg!(debug_assertions) { "dev" } else { "release" };
        let arguments = ["build", "-p", "claret-module", "--profile", profile, "--message-format", "json"];
        let built = Command::new(env!("CARGO")).args(arguments).stderr(Stdio::inherit()).output();
        let built = built.expect("cargo runs");
        assert!(built.status.success(), "the module does not build");
        let messages = String::from_utf8(built.stdout).expect("text");
        let mut paths = messages.split('"').filter(|word| word.ends_with("libclaret_module.so"));
        PathBuf::from(paths.next_back().expect("cargo names what it built"))
    })
}

/// A server of the test's own.
pub(crate) struct Server {
    process: Child,
    pub(crate) port: u16,
    dir: PathBuf,
    _limit: TestLimit,
}

impl Server {
    /// A node without a cluster.
    pub(crate) fn start(options: &[&str]) -> Server {
        Server::start_with(&[], options)
    }

    /// One with these variables in its environment.
    pub(crate) fn start_with(environment: &[(&str, &str)], options: &[&str]) -> Server {
        Server::start_as(Some(module()), environment, options)
    }

    /// One that the module can be loaded into later.
    pub(crate) fn start_without_module() -> Server {
        Server::start_as(None, &[], &["--enable-module-command", "yes"])
    }

    /// The same, in cluster mode.
    pub(crate) fn start_in_cluster_without_module() -> Server {
        Server::start_as(None, &[], &["--enable-module-command", "yes", "--cluster-enabled", "yes"])
    }

    /// One that the module can be loaded into later, where a command has another name; none takes it away.
    pub(crate) fn start_renamed(command: &str, name: &str) -> Server {
        let options = ["--enable-module-command", "yes", "--rename-command", command, name];
        Server::start_as(None, &[], &options)
    }

    fn start_as(module: Option<&Path>, environment: &[(&str, &str)], options: &[&str]) -> Server {
        let mut tries = 0;
        loop {
            if let Some(server) = Server::try_start(module, environment, options) {
                return server;
            }
            tries += 1;
            assert!(tries < 5, "no server starts");
        }
    }

    fn try_start(module: Option<&Path>, environment: &[(&str, &str)], options: &[&str]) -> Option<Server> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let port = free_port();
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("claret-{}-{number}-{port}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let binary = std::env::var("CLARET_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
        let mut command = Command::new(binary);
        command.current_dir(&dir).args(["--port", &port.to_string(), "--save", "", "--logfile", "log"]);
        // One node alone votes in tests as if there were others.
        command.env("CLARET_PLANTED_SHARDS", "1").envs(environment.iter().copied());
        if let Some(module) = module {
            command.args(["--loadmodule", module.to_str().expect("a path")]);
        }
        command.args(options);
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the server starts");
        let _limit = TestLimit::over(process.id());
        let mut server = Server { process, port, dir, _limit };
        let until = Instant::now() + Duration::from_secs(10);
        while Instant::now() < until {
            if server.process.try_wait().expect("its state").is_some() {
                eprintln!("{}", server.log());
                return None;
            }
            if let Some(mut connection) = server.try_connect()
                && redis::cmd("PING").query::<String>(&mut connection).is_ok()
            {
                return Some(server);
            }
            sleep(Duration::from_millis(10));
        }
        None
    }

    fn try_connect(&self) -> Option<Connection> {
        redis::Client::open(format!("redis://127.0.0.1:{}", self.port)).ok()?.get_connection().ok()
    }

    pub(crate) fn connect(&self) -> Connection {
        let connection = self.try_connect().expect("the server answers");
        connection.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
        connection
    }

    /// As another user.
    pub(crate) fn connect_as(&self, user: &str, password: &str) -> Connection {
        let mut connection = self.connect();
        let () = redis::cmd("AUTH").arg(user).arg(password).query(&mut connection).expect("it may");
        connection
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ends");
    }

    /// Whether it is still alive.
    pub(crate) fn runs(&mut self) -> bool {
        self.process.try_wait().expect("its state").is_none()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let died =
            self.process.try_wait().is_ok_and(|state| state.is_some_and(|state| state.code().is_some()));
        if std::thread::panicking() || died {
            eprintln!("--- log of the server at port {}\n{}", self.port, self.log());
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// A port at which nobody listens; in a cluster the bus takes the one 10000 above.
fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let step = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut port = 20_000 + (std::process::id() * 37 + step * 7) % 30_000;
    loop {
        let both = [port, port + 10_000].map(|port| TcpListener::bind(("127.0.0.1", port as u16)).is_ok());
        if both == [true, true] {
            return port as u16;
        }
        port = 20_000 + (port - 20_000 + 1) % 30_000;
    }
}

/// So many primaries, the slots divided evenly.
pub(crate) fn cluster(primaries: usize, options: &[&str]) -> Vec<Server> {
    let mut all = vec!["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];
    all.extend(options);
    let servers: Vec<Server> = (0..primaries).map(|_| Server::start(&all)).collect();
    let mut connections: Vec<Connection> = servers.iter().map(Server::connect).collect();
    for (at, connection) in connections.iter_mut().enumerate() {
        let (first, last) = (at * 16_384 / primaries, (at + 1) * 16_384 / primaries - 1);
        let () = redis::cmd("CLUSTER")
            .arg("ADDSLOTSRANGE")
            .arg(first)
            .arg(last)
            .query(connection)
            .expect("its slots");
        let () =
            redis::cmd("CLUSTER").arg("SET-CONFIG-EPOCH").arg(at + 1).query(connection).expect("an epoch");
    }
    for server in &servers[1..] {
        let () = redis::cmd("CLUSTER")
            .arg("MEET")
            .arg("127.0.0.1")
            .arg(server.port)
            .query(&mut connections[0])
            .expect("they meet");
    }
    for connection in &mut connections {
        wait_until("the cluster is whole", || {
            let state: String = redis::cmd("CLUSTER").arg("INFO").query(connection).expect("its state");
            state.contains("cluster_state:ok") && state.contains(&format!("cluster_known_nodes:{primaries}"))
        });
    }
    servers
}

/// Waits for what comes in time.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < until, "{what}: not in time");
        sleep(Duration::from_millis(5));
    }
}

/// A client process, as far as a test needs one.
pub(crate) struct Process {
    pub(crate) connection: Connection,
    pub(crate) session: SessionId,
    pub(crate) shard: ShardId,
    pub(crate) incarnation: Incarnation,
    pub(crate) next: u64,
}

impl Process {
    /// Says hello as the first connection of a session.
    pub(crate) fn hello(server: &Server, person: u64) -> Process {
        Process::over(server.connect(), person, 1, &["POLL"])
    }

    pub(crate) fn over(mut connection: Connection, person: u64, number: u32, way: &[&str]) -> Process {
        let mut welcome = Value::Nil;
        wait_until("the shard begins", || match hello(&mut connection, person, number, way) {
            Ok(value) => {
                welcome = value;
                true
            }
            Err(error) => {
                assert!(error.to_string().contains("NOTREADY"), "{error}");
                false
            }
        });
        let number = |name: &str| match told(&welcome, name) {
            Value::Int(number) => *number as u64,
            _ => panic!("{name} is a number"),
        };
        let session = identity(person).session();
        let (shard, incarnation) = (ShardId(number("shard") as u32), Incarnation(number("incarnation")));
        Process { connection, session, shard, incarnation, next: 1 }
    }

    /// A new transaction's first attempt.
    pub(crate) fn begin(&mut self) -> AttemptId {
        let tx = TxId { session: self.session, sequence: Sequence(self.next) };
        self.next += 1;
        AttemptId { tx, attempt: 1 }
    }

    pub(crate) fn try_frame(&mut self, requests: &[Request]) -> redis::RedisResult<Vec<Response>> {
        let bytes: Vec<u8> =
            redis::cmd("CLARET.FRAME").arg(wire::encode_requests(requests)).query(&mut self.connection)?;
        Ok(wire::decode_responses(&bytes).expect("a frame"))
    }

    pub(crate) fn frame(&mut self, requests: &[Request]) -> Vec<Response> {
        self.try_frame(requests).expect("a frame is taken")
    }

    /// The commit of a transaction with this shard alone.
    pub(crate) fn prepare(&self, attempt: AttemptId, calls: &[(&str, &str)]) -> Request {
        self.prepare_with(attempt, 0, calls, &[(self.shard, Some(self.incarnation))])
    }

    pub(crate) fn prepare_with(
        &self,
        attempt: AttemptId,
        relies_on: u32,
        calls: &[(&str, &str)],
        participants: &[(ShardId, Option<Incarnation>)],
    ) -> Request {
        let calls = calls.iter().enumerate().map(|(at, (key, words))| KeyedCall {
            key: Bytes::from(*key),
            call: call(at as u32 + 1 + relies_on, operation(words)),
        });
        let listed = participants
            .iter()
            .map(|(shard, incarnation)| Listed { shard: *shard, incarnation: *incarnation });
        Request::Prepare {
            attempt,
            birth: birth(attempt),
            participants: listed.collect(),
            relies_on,
            calls: calls.collect(),
            members: Members::All,
            asks: if participants.len() == 1 { Asks::Decision } else { Asks::Vote },
            undone: Default::default(),
        }
    }

    pub(crate) fn execute(&self, attempt: AttemptId, no: u32, key: &str, words: &str) -> Request {
        Request::Execute {
            attempt,
            birth: birth(attempt),
            incarnation: Some(self.incarnation),
            key: Bytes::from(key),
            calls: [call(no, operation(words))].into_iter().collect(),
            undone: Default::default(),
        }
    }

    /// One operation as a transaction of its own.
    pub(crate) fn commit(&mut self, key: &str, words: &str) -> Vec<Response> {
        let attempt = self.begin();
        let prepare = self.prepare(attempt, &[(key, words)]);
        self.frame(&[prepare])
    }
}

/// What a welcome says of something.
pub(crate) fn told<'a>(welcome: &'a Value, name: &str) -> &'a Value {
    let Value::Array(items) = welcome else { panic!("a welcome, not {welcome:?}") };
    let at = items.iter().position(|it| *it == Value::BulkString(name.as_bytes().to_vec()));
    &items[at.expect("it is told") + 1]
}

/// The key pair of a client process that goes by this number in a test.
pub(crate) fn identity(person: u64) -> Identity {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&person.to_le_bytes());
    Identity::of_seed(&seed)
}

/// The number of its session.
pub(crate) fn session(person: u64) -> SessionId {
    identity(person).session()
}

/// Asks for a challenge, and proves.
pub(crate) fn hello(
    connection: &mut Connection,
    person: u64,
    number: u32,
    way: &[&str],
) -> redis::RedisResult<Value> {
    let identity = identity(person);
    let mut command = redis::cmd("CLARET.HELLO");
    command.arg(wire::VERSION).arg(identity.public().to_string()).arg(number).arg(way);
    let asked = command.query(connection)?;
    let proof = identity.sign(&statement(&identity, &asked, number, way).as_statement());
    command.arg("PROOF").arg(proof.to_string()).query(connection)
}

/// The shard that answered a hello.
pub(crate) fn shard(asked: &Value) -> ShardId {
    match told(asked, "shard") {
        Value::Int(shard) => ShardId(*shard as u32),
        other => panic!("a shard, not {other:?}"),
    }
}

/// What an identity has to sign.
pub(crate) struct Said<'a> {
    pub(crate) shard: ShardId,
    challenge: Challenge,
    session: SessionId,
    connection: u32,
    way: Vec<&'a [u8]>,
}

impl Said<'_> {
    pub(crate) fn as_statement(&self) -> Statement<'_> {
        let Said { shard, challenge, session, connection, ref way } = *self;
        Statement { version: wire::VERSION, shard, challenge, session, connection, way }
    }
}

/// The answer to a hello without a proof, as what is to be signed.
pub(crate) fn statement<'a>(
    identity: &Identity,
    asked: &Value,
    connection: u32,
    way: &'a [&str],
) -> Said<'a> {
    let Value::BulkString(challenge) = told(asked, "challenge") else { panic!("a challenge, not {asked:?}") };
    Said {
        shard: shard(asked),
        challenge: Challenge::parse(challenge).expect("a challenge"),
        session: identity.session(),
        connection,
        way: way.iter().map(|word| word.as_bytes()).collect(),
    }
}

/// Waits at the server for what arises later, as a connection that does nothing else.
pub(crate) fn poll(connection: &mut Connection, person: u64, millis: u64) -> Vec<Response> {
    hello(connection, person, 1, &["LISTEN"]).expect("it may listen");
    let asked = redis::cmd("CLARET.POLL").arg(session(person).0).arg(millis).query(connection);
    wire::decode_responses(&asked.map(|bytes: Vec<u8>| bytes).expect("it may be polled")).expect("a frame")
}

/// In the order of sequences, whichever session it is; older ones than the server takes would all be as old.
pub(crate) fn birth(attempt: AttemptId) -> Birth {
    static BEGAN: OnceLock<u64> = OnceLock::new();
    let began = BEGAN.get_or_init(|| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after it began");
        now.as_micros() as u64
    });
    Birth { time: Time(began.saturating_add(attempt.tx.sequence.0)), tx: attempt.tx }
}

pub(crate) fn call(no: u32, op: Operation) -> Call {
    Call { no: CallNo(no), op, member: Member::default(), reserve: None }
}

/// A call of a method that is well-formed, as [`operation`] reads it.
pub(crate) fn example(kind: &TypeInfo, method: &Method) -> String {
    let is_required = |word: &&str| !word.is_empty() && !word.starts_with('[');
    let arguments = match method.name {
        "BCREATE" => " 1 0 2".to_owned(),
        "RECORD.PUT" => " set 1".to_owned(),
        "RECORD.RUN" | "RECORD.RUN_RO" => " STRLEN b:1".to_owned(),
        _ => method.arguments.split(' ').filter(is_required).map(argument).collect(),
    };
    format!("{}:{}{arguments}", kind.name, method.name)
}

fn argument(name: &str) -> &'static str {
    match name {
        "path" => " $",
        "json-string" => " \"1\"",
        _ => " 1",
    }
}

/// `SADD red`, or `set:SADD red` where several types have the name.
pub(crate) fn operation(words: &str) -> Operation {
    let mut words = words.split(' ');
    let name = words.next().expect("a name");
    let (kind, name) = name.split_once(':').map_or((None, name), |(kind, name)| (Some(kind), name));
    let arguments: Vec<Bytes> = words.map(Bytes::from).collect();
    let info = BUILTIN.iter().find(|info| {
        kind.is_none_or(|kind| kind == info.name) && info.methods.iter().any(|method| method.name == name)
    });
    (info.expect("a type has it").parse)(name, &arguments).expect("it is well-formed")
}
