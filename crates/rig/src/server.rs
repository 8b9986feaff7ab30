//! One server process.

use std::collections::HashSet;
use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use redis::{Connection, FromRedisValue};
use rustix::process::Signal;

use crate::folder::{Folder, quoted, write_private};
use crate::guard::Guard;
use crate::program::runnable;
use crate::{
    BUS_OFFSET, Certificates, Module, RigError, ShiftedClock, clock, is_free, ports, process, server_program,
    tls,
};

/// How long a server may take until it answers.
const START_TIME: Duration = Duration::from_secs(30);

/// How long a server that was asked to end may take before it is killed.
const STOP_TIME: Duration = Duration::from_secs(5);

/// How often something is looked at that is waited for.
pub(crate) const LOOK: Duration = Duration::from_millis(10);

/// How long an answer may take.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// How many lines of a log are shown.
const LOG_LINES: usize = 15;

/// How often another port is tried when somebody else took the one that was free.
const PORT_TRIES: usize = 5;

const LOG_FILE: &str = "redis.log";

/// How to start a server. What is not said is chosen: a free port, a temporary directory, nothing written to disk.
#[derive(Clone, Debug, Default)]
pub struct ServerOptions {
    program: Option<PathBuf>,
    dir: Option<PathBuf>,
    port: Option<u16>,
    module: Option<Module>,
    password: Option<String>,
    tls: Option<Certificates>,
    config: Vec<String>,
    bears_limits: bool,
    clock: Option<ShiftedClock>,
}

impl ServerOptions {
    /// This program instead of [`server_program`].
    #[must_use]
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = Some(program.into());
        self
    }

    /// This directory, which stays when the server ends.
    #[must_use]
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// This port.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// With this module loaded.
    #[must_use]
    pub fn module(mut self, module: Module) -> Self {
        self.module = Some(module);
        self
    }

    /// With this password, for clients and between replicas. Letters and digits only.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        assert!(password.chars().all(|c| c.is_ascii_alphanumeric()), "letters and digits only");
        self.password = Some(password.to_owned());
        self
    }

    /// With TLS and nothing else, by these certificates; clients need theirs.
    #[must_use]
    pub fn tls(mut self, certificates: Certificates) -> Self {
        self.tls = Some(certificates);
        self
    }

    /// With this line more in its configuration, such as `appendonly yes`.
    #[must_use]
    pub fn config(mut self, line: &str) -> Self {
        self.config.push(line.to_owned());
        self
    }

    /// As one that goes on, as with a full disk, where a file becomes longer than [it may](Server::limit_files). By default the
    /// system ends such a process.
    #[must_use]
    pub fn bears_limits(mut self) -> Self {
        self.bears_limits = true;
        self
    }

    /// With a clock that can be [shifted](Server::shift_clock).
    #[must_use]
    pub fn clock(mut self, clock: ShiftedClock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Starts it and waits until it answers.
    ///
    /// # Errors
    /// See [`RigError`]; nothing is left running.
    pub fn start(&self) -> Result<Server, RigError> {
        for _ in 1..PORT_TRIES {
            match self.launch().and_then(Server::ready) {
                Err(error) if self.port.is_none() && error.is_about_port() => {}
                started => return started,
            }
        }
        self.launch().and_then(Server::ready)
    }

    /// Starts a server that has ended again, with the configuration and the files in its [directory](ServerOptions::dir); waits until
    /// it answers. What was configured is there already: only the port, and how to connect, is to be said once more.
    ///
    /// # Errors
    /// As [`ServerOptions::start`].
    pub fn start_again(&self) -> Result<Server, RigError> {
        let mut server = self.prepare()?;
        server.spawn()?;
        server.ready()
    }

    /// Starts it and does not wait. It may yet find that somebody else has taken its port.
    pub(crate) fn launch(&self) -> Result<Server, RigError> {
        let mut server = self.prepare()?;
        let path = server.config_file();
        write_private(&path, &self.lines(server.port, server.dir()))
            .map_err(|error| RigError::io("writing", &path, error))?;
        server.spawn()?;
        Ok(server)
    }

    /// The server with its program, port and directory; it does not run.
    fn prepare(&self) -> Result<Server, RigError> {
        let program = match &self.program {
            Some(program) => runnable(program)
                .ok_or_else(|| RigError::NoServer(format!("there is no {}", program.display())))?,
            None => server_program()?,
        };
        let port = match self.port {
            Some(port) if port > crate::PORT_MAX => return Err(RigError::PortTooHigh(port)),
            Some(port) if !is_free(port) || !is_free(port + BUS_OFFSET) => {
                return Err(RigError::PortInUse(port, port + BUS_OFFSET));
            }
            Some(port) => port,
            None => ports::free(&HashSet::new())?,
        };
        let folder = match &self.dir {
            Some(dir) => Folder::given(dir)?,
            None => Folder::temporary()?,
        };
        let (password, tls, bears_limits) = (self.password.clone(), self.tls.clone(), self.bears_limits);
        Ok(Server {
            program,
            port,
            announced: port,
            folder,
            password,
            tls,
            bears_limits,
            clock: self.clock.clone(),
            child: None,
            guard: None,
        })
    }

    fn lines(&self, port: u16, folder: &Path) -> String {
        let file = |name: &str| quoted(&folder.join(name));
        let mut lines = vec![
            "bind 127.0.0.1".to_owned(),
            format!("dir {}", quoted(folder)),
            format!("pidfile {}", file("redis.pid")),
            format!("logfile {}", file(LOG_FILE)),
            "save \"\"".to_owned(),
            "shutdown-timeout 0".to_owned(),
        ];
        match &self.tls {
            None => lines.push(format!("port {port}")),
            Some(certificates) => lines.extend(certificates.config(port)),
        }
        if let Some(password) = &self.password {
            lines.extend([format!("requirepass {password}"), format!("masterauth {password}")]);
        }
        lines.extend(self.config.iter().cloned());
        if let Some(module) = &self.module {
            lines.push(format!("loadmodule {} {}", quoted(&module.path), module.args.join(" ")));
            // Whatever is run on servers can be run with calls ordered everywhere, or nowhere.
            lines.extend(
                env::var("CLARET_ORDERING").ok().map(|ordering| format!("claret.ordering {ordering}")),
            );
        }
        lines.join("\n") + "\n"
    }
}

/// A server process of this one. It ends when this is dropped, unless it was [left running](Server::leave_running).
#[derive(Debug)]
pub struct Server {
    program: PathBuf,
    port: u16,
    /// The port at which other nodes and clients of its cluster know it.
    announced: u16,
    folder: Folder,
    password: Option<String>,
    tls: Option<Certificates>,
    bears_limits: bool,
    clock: Option<ShiftedClock>,
    child: Option<Child>,
    guard: Option<Guard>,
}

impl Server {
    /// How to start one.
    pub fn options() -> ServerOptions {
        ServerOptions::default()
    }

    /// One with nothing special about it.
    ///
    /// # Errors
    /// See [`ServerOptions::start`].
    pub fn start() -> Result<Server, RigError> {
        ServerOptions::default().start()
    }

    /// Its port on the loopback interface.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The port at which its cluster knows it: its own, or one that was [announced](Server::announce).
    pub fn announced_port(&self) -> u16 {
        self.announced
    }

    /// Sets a setting, for now and for each start to come.
    ///
    /// # Errors
    /// It does not answer, or refuses; or its configuration cannot be written.
    pub fn configure(&self, name: &str, value: &str) -> Result<(), RigError> {
        self.query::<()>(&["CONFIG", "SET", name, value])?;
        let path = self.config_file();
        let opened = OpenOptions::new().append(true).open(&path);
        let written = opened.and_then(|mut file| writeln!(file, "{name} \"{value}\""));
        written.map_err(|error| RigError::io("writing", &path, error))
    }

    /// Has it tell its primary from the next connection on that it is reached at this port of this host: that of a proxy before it.
    /// It connects to others from an address of the loopback interface of its own, by which these proxies know it.
    ///
    /// # Errors
    /// As [`Server::configure`].
    pub fn announce_to_primary(&mut self, port: u16, own: IpAddr) -> Result<(), RigError> {
        self.configure("bind-source-addr", &own.to_string())?;
        self.configure("replica-announce-ip", "127.0.0.1")?;
        self.configure("replica-announce-port", &port.to_string())
    }

    /// Has it tell its cluster that it is reached at these ports of this host, for clients and for other nodes: those of
    /// proxies before it. Replicas then connect anew, so all nodes are to know [what they tell](Self::announce_to_primary) before.
    ///
    /// # Errors
    /// As [`Server::configure`].
    pub fn announce(&mut self, port: u16, bus_port: u16) -> Result<(), RigError> {
        self.configure("cluster-announce-ip", "127.0.0.1")?;
        self.configure("cluster-announce-bus-port", &bus_port.to_string())?;
        self.configure("cluster-announce-port", &port.to_string())?;
        self.announced = port;
        Ok(())
    }

    /// Its address, `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// What clients connect to.
    pub fn url(&self) -> String {
        url_of(self.port, self.password.as_deref(), self.tls.as_ref())
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        self.folder.path()
    }

    /// Its process, if it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Whether its process is there (stopped or not).
    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// A new connection.
    ///
    /// # Errors
    /// It does not answer.
    pub fn connection(&self) -> Result<Connection, RigError> {
        connect(&self.url())
    }

    /// One command of these words, on a connection of its own.
    ///
    /// # Errors
    /// It does not answer, answers with an error, or with something of another type.
    pub fn query<T: FromRedisValue>(&self, words: &[&str]) -> Result<T, RigError> {
        query(&mut self.connection()?, words)
    }

    /// A field of `INFO SECTION`.
    ///
    /// # Errors
    /// It does not answer.
    pub fn info(&self, section: &str, field: &str) -> Result<Option<String>, RigError> {
        let text: String = self.query(&["INFO", section])?;
        Ok(self::field(&text, field))
    }

    /// Stops the process in its tracks (SIGSTOP): it keeps its connections and says nothing.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets a paused process go on.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// From now on none of its files becomes longer than this, or any length: as if its disk were full. Whether this system can
    /// do that.
    pub fn limit_files(&self, bytes_max: Option<u64>) -> bool {
        self.pid().is_some_and(|pid| process::limit_files(pid, bytes_max))
    }

    /// Shifts its clock against that of this host, from now on and over its next starts: the time of day jumps. Zero puts it right.
    ///
    /// # Errors
    /// It was started without a clock that can be [shifted](ServerOptions::clock), or the file that tells it cannot be written.
    pub fn shift_clock(&self, by: Duration, is_back: bool) -> Result<(), RigError> {
        match &self.clock {
            Some(_) => clock::shift(self.dir(), by, is_back),
            None => Err(RigError::NoLibrary("the server was started without a clock to shift".to_owned())),
        }
    }

    /// Ends it at once (SIGKILL), as a crash would.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.reap();
    }

    /// Asks it to end, and kills it if it does not.
    pub fn stop(&mut self) {
        self.signal(Signal::CONT);
        self.signal(Signal::TERM);
        let began = Instant::now();
        while self.is_running() && began.elapsed() < STOP_TIME {
            sleep(LOOK);
        }
        self.kill();
    }

    /// Ends it if it runs and starts it anew with the same directory, port and configuration; waits until it answers.
    ///
    /// # Errors
    /// As [`ServerOptions::start`].
    pub fn restart(&mut self) -> Result<(), RigError> {
        self.kill();
        self.spawn()?;
        self.wait_ready()
    }

    /// Leaves the process and its directory alone from now on; answers the pid.
    pub fn leave_running(mut self) -> Option<u32> {
        self.folder.keep();
        self.guard = None;
        self.child.take().map(|child| child.id())
    }

    /// The last lines of its log, and of what it wrote to its standard output.
    pub fn log(&self, lines: usize) -> String {
        let text = fs::read(self.dir().join(LOG_FILE)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    fn config_file(&self) -> PathBuf {
        self.dir().join("redis.conf")
    }

    fn spawn(&mut self) -> Result<(), RigError> {
        let log = self.dir().join(LOG_FILE);
        let opened: Result<(File, File), _> = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .and_then(|file| file.try_clone().map(|other| (file, other)));
        let (out, err) = opened.map_err(|error| RigError::io("opening", &log, error))?;
        let mut command = match self.bears_limits {
            true => {
                let mut shell = Command::new("sh");
                shell.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]).arg(&self.program);
                shell
            }
            false => Command::new(&self.program),
        };
        if let Some(clock) = &self.clock {
            clock.beneath(&mut command, self.dir())?;
        }
        let mut guard = Guard::begin(self.folder.temporary_path())?;
        let child = command
            .arg(self.config_file())
            .current_dir(self.dir())
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            // Ctrl-C is for this process, which then decides about the server.
            .process_group(0)
            .spawn()
            .map_err(|error| RigError::io("running", &self.program, error))?;
        let pid = child.id();
        self.child = Some(child);
        // Nothing comes in between: whoever kills this process must not leave a server.
        let watched = guard.watch(pid);
        self.guard = Some(guard);
        watched
    }

    fn ready(mut self) -> Result<Self, RigError> {
        self.wait_ready()?;
        Ok(self)
    }

    /// Waits until it answers, has loaded what it had on disk, and is this process and no other.
    pub(crate) fn wait_ready(&mut self) -> Result<(), RigError> {
        let began = Instant::now();
        loop {
            if !self.is_running() {
                self.reap();
                return Err(RigError::Ended { port: self.port, log: self.log(LOG_LINES) });
            }
            if self.answers() {
                return Ok(());
            }
            if began.elapsed() > START_TIME {
                let log = format!("; the end of its log:\n{}", self.log(LOG_LINES));
                let what = format!("starting a server on port {}", self.port);
                return Err(RigError::TooLong { what, seconds: START_TIME.as_secs(), log });
            }
            sleep(LOOK);
        }
    }

    fn answers(&self) -> bool {
        let Ok(text) = self.query::<String>(&["INFO", "everything"]) else { return false };
        let is_own = field(&text, "process_id") == self.pid().map(|pid| pid.to_string());
        is_own && field(&text, "loading").as_deref() == Some("0")
    }

    fn signal(&self, signal: Signal) {
        // A child that was not waited for keeps its pid: no other process can be meant.
        if let Some(pid) = self.pid() {
            process::signal(pid, signal);
        }
    }

    /// Forgets a process that was killed or has ended.
    fn reap(&mut self) {
        self.guard = None;
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() && self.child.is_some() && !self.is_running() {
            eprintln!("the server on port {} has ended; its log:\n{}", self.port, self.log(LOG_LINES));
        }
        self.kill();
    }
}

/// What clients connect to of a server on loopback.
pub fn url_of(port: u16, password: Option<&str>, tls: Option<&Certificates>) -> String {
    let login = password.map_or(String::new(), |password| format!(":{password}@"));
    match tls {
        None => format!("redis://{login}127.0.0.1:{port}"),
        Some(certificates) => format!("rediss://{login}127.0.0.1:{port}/{}", certificates.parameters()),
    }
}

/// A connection to a server that may not be ours.
///
/// # Errors
/// It does not answer.
pub fn connect(url: &str) -> Result<Connection, RigError> {
    connect_within(url, ANSWER_TIME)
}

/// The same. Nothing is waited for longer than this, neither now nor later.
///
/// # Errors
/// It does not answer.
pub fn connect_within(url: &str, time: Duration) -> Result<Connection, RigError> {
    let failed = |error| RigError::Redis { what: format!("connecting to {url}"), error };
    let client = match url.starts_with("rediss://") {
        true => tls::client(url),
        false => redis::Client::open(url),
    }
    .map_err(failed)?;
    let connection = client.get_connection_with_timeout(time).map_err(failed)?;
    connection.set_read_timeout(Some(time)).map_err(failed)?;
    connection.set_write_timeout(Some(time)).map_err(failed)?;
    Ok(connection)
}

/// A command of these words.
///
/// # Errors
/// The server does not answer, answers with an error, or with something of another type.
pub fn query<T: FromRedisValue>(connection: &mut Connection, words: &[&str]) -> Result<T, RigError> {
    let mut command = redis::cmd(words[0]);
    for word in &words[1..] {
        command.arg(*word);
    }
    command.query(connection).map_err(|error| RigError::Redis { what: words.join(" "), error })
}

/// A field of the text that `INFO` and `CLUSTER INFO` answer.
pub fn field(text: &str, name: &str) -> Option<String> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(field, _)| *field == name).map(|(_, value)| value.trim_end().to_owned())
}
