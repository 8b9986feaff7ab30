//! A local cluster that outlives the command that started it (`claret cluster`).
//!
//! What is known of it stands in `claret-cluster.json` in its directory, beside a directory for each server.
//!
//! Invariants:
//! - the file is written before the first server is started, and removed after the last one has ended: whatever
//!   happens in between, `stop` finds what there is to stop;
//! - who starts or stops, one node or all, holds a lock on the file;
//! - nothing is removed that `start` did not make;
//! - files with a password or a key are for their owner alone.

mod access;
mod again;
mod ports;
mod status;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use claret_rig::{Certificates, ClusterOptions, Module, RigError};
use serde::{Deserialize, Serialize};

pub(crate) use access::{Access, Password, read_users};
pub(crate) use again::Say;
pub(crate) use status::{NodeStatus, Status, Told};

/// What is written about a cluster.
const FILE: &str = "claret-cluster.json";

/// The directory of the certificates, beside those of the servers.
const TLS: &str = "tls";

/// What nodes sign with.
const SECRET: &str = "claret-peer-secret";

/// How to start a cluster.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Masters.
    pub(crate) shards: u16,
    /// Replicas of each.
    pub(crate) replicas: u16,
    /// The first of its ports; `None` for one that suits.
    pub(crate) port: Option<u16>,
    /// The server program; `None` for the one that is found.
    pub(crate) server: Option<PathBuf>,
    /// The module's file; `None` for the one that is found.
    pub(crate) module: Option<PathBuf>,
    /// Who may connect, and how.
    pub(crate) access: Access,
    /// In the durability strict, with all of its replicas.
    pub(crate) is_strict: bool,
}

/// The directory of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct ClusterDir(PathBuf);

/// What a cluster is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Description {
    /// Masters.
    pub(crate) shards: u16,
    /// Replicas of each.
    pub(crate) replicas: u16,
    /// Its ports, the masters' first.
    pub(crate) ports: Vec<u16>,
    /// Whether the directory itself was made for it.
    made_directory: bool,
    /// The default user's password, if it has one.
    #[serde(default)]
    password: Option<Password>,
    /// The certificates that clients need, if it speaks TLS.
    #[serde(default)]
    tls: Option<PathBuf>,
    /// The server program, if it was started by a version that writes it down.
    #[serde(default)]
    server: Option<PathBuf>,
}

impl Description {
    /// What clients connect to, with the password in it.
    pub(crate) fn url(&self) -> String {
        self.url_at(self.ports.first().copied().unwrap_or_default())
    }

    /// The same, of the server at this port.
    pub(crate) fn url_at(&self, port: u16) -> String {
        let password = self.password.as_ref().map(Password::as_str);
        claret_rig::url_of(port, password, self.certificates().as_ref())
    }

    /// The certificates that clients need, if it speaks TLS.
    pub(crate) fn certificates(&self) -> Option<Certificates> {
        self.tls.as_ref().map(Certificates::of)
    }

    /// The default user's password, if it has one.
    pub(crate) fn password(&self) -> Option<&str> {
        self.password.as_ref().map(Password::as_str)
    }
}

impl ClusterDir {
    /// The directory that was given, else one for the user's programs to keep their state in.
    ///
    /// # Errors
    /// None was given, and the environment names no home.
    pub(crate) fn new(given: Option<PathBuf>) -> Result<Self, String> {
        let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let own = || named("XDG_STATE_HOME").or_else(|| named("HOME").map(|home| home.join(".local/state")));
        let path = given.or_else(|| own().map(|state| state.join("claret/cluster")));
        path.map(ClusterDir).ok_or_else(|| "there is neither HOME nor XDG_STATE_HOME; say --dir DIR".into())
    }

    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    fn file(&self) -> PathBuf {
        self.0.join(FILE)
    }

    fn node(&self, port: u16) -> PathBuf {
        self.0.join(port.to_string())
    }

    /// What is written about the cluster here, if there is one.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn described(&self) -> Result<Option<Description>, String> {
        match fs::read_to_string(self.file()) {
            Ok(text) => self.parse(&text).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("cannot read {}: {error}", self.file().display())),
        }
    }

    fn parse(&self, text: &str) -> Result<Description, String> {
        serde_json::from_str(text).map_err(|error| {
            let what = "is not what claret wrote; end the servers below it by hand and remove it";
            format!("{} {what} ({error})", self.file().display())
        })
    }

    /// Starts a cluster here and leaves it running. `say` is told what goes on, and may say that it is enough.
    ///
    /// # Errors
    /// Says what is wrong; nothing is left behind.
    pub(crate) fn start(
        &self,
        options: &Options,
        say: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Description, String> {
        self.refuse_what_is_there()?;
        let text = |error: RigError| error.to_string();
        let server = match &options.server {
            Some(server) => server.clone(),
            None => claret_rig::server_program().map_err(text)?,
        };
        if say("finding the module (in a checkout it is built when there is none)").is_break() {
            return Err("interrupted".into());
        }
        let module = match &options.module {
            Some(path) => Module::at(path),
            None => Module::find(),
        }
        .map_err(text)?;
        let cluster = ClusterOptions::new(options.shards, options.replicas)
            .program(server.clone())
            .module(module)
            .dir(&self.0)
            .config("enable-module-command local");
        let cluster = options.access.of_servers(cluster);
        let mut first = ports::FIRST;
        loop {
            let ports = ports::choose(options.port, options.servers(), first)?;
            let error = match self.start_on(options, (server.as_path(), ports.clone()), &cluster, say)? {
                Ok(described) => return Ok(described),
                Err(error) => error,
            };
            // Another cluster may have been started at the same time.
            if options.port.is_some() || !error.is_about_port() {
                return Err(error.to_string());
            }
            first = ports[0] + ports::STEP;
        }
    }

    /// The inner error is that of the servers, and nothing is left of them.
    fn start_on(
        &self,
        options: &Options,
        (server, ports): (&Path, Vec<u16>),
        cluster: &ClusterOptions,
        say: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Result<Description, RigError>, String> {
        let made_directory = !self.0.exists();
        fs::create_dir_all(&self.0).map_err(|error| format!("cannot make {}: {error}", self.0.display()))?;
        let Options { shards, replicas, .. } = *options;
        let path =
            self.0.canonicalize().map_err(|error| format!("cannot find {}: {error}", self.0.display()))?;
        let tls = options.access.tls.then(|| path.join(TLS));
        let password = options.access.password.clone();
        // A bare name is looked for in the PATH again.
        let server = match server.components().count() {
            1 => Some(server.to_owned()),
            _ => std::path::absolute(server).ok(),
        };
        let described = Description { shards, replicas, ports, made_directory, password, tls, server };
        let mut file = self.lock(true)?;
        let written = serde_json::to_string_pretty(&described).map_err(|error| error.to_string())?;
        file.write_all(written.as_bytes())
            .map_err(|error| format!("cannot write {}: {error}", self.file().display()))?;
        let mut cluster = self.signing(cluster.clone().first_port(described.ports[0]))?;
        if options.is_strict {
            cluster = cluster.strict();
        }
        let made = described.tls.as_ref().map(|tls| Certificates::make(tls)).transpose();
        let started = made.and_then(|certificates| {
            if let Some(certificates) = certificates {
                cluster = cluster.tls(certificates);
            }
            cluster.start_seen(say)
        });
        match started {
            Ok(started) => {
                started.leave_running();
                let why = match self.settle(say) {
                    Ok(status) if status.is_ok() => return Ok(Ok(described)),
                    Ok(status) => {
                        let mut told = status.nodes.iter().filter_map(|node| node.told.as_ref());
                        let why = told.find_map(|told| told.not_served.clone());
                        format!(
                            "the cluster does not serve: {}",
                            why.unwrap_or_else(|| "a server does not answer".into())
                        )
                    }
                    Err(error) => error,
                };
                self.clear(&described)?;
                Err(why)
            }
            Err(error) => {
                self.clear(&described)?;
                Ok(Err(error))
            }
        }
    }

    /// The servers with a secret of this cluster's, without which they take no chains, no errands, and are not strict.
    fn signing(&self, cluster: ClusterOptions) -> Result<ClusterOptions, String> {
        let file = self.0.join(SECRET);
        let written = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&file);
        written
            .and_then(|mut opened| opened.write_all(Password::random().as_str().as_bytes()))
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        let file = file.canonicalize().map_err(|error| format!("cannot find {}: {error}", file.display()))?;
        // Whoever runs it here can reach all of it anyway.
        Ok(cluster
            .config(&format!("claret.peer-secret-file {}", file.display()))
            .config("claret.errands yes"))
    }

    /// Ends the cluster here, and removes it; what it was.
    ///
    /// # Errors
    /// There is none, or it cannot be removed.
    pub(crate) fn stop(&self) -> Result<Description, String> {
        let (_locked, described) = self.locked()?;
        self.clear(&described)?;
        Ok(described)
    }

    /// What the cluster here is; nobody else starts or stops it as long as the file is open.
    fn locked(&self) -> Result<(File, Description), String> {
        if self.described()?.is_none() {
            return Err(format!("there is no cluster in {}", self.0.display()));
        }
        let mut file = self.lock(false)?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(|error| format!("cannot read: {error}"))?;
        let described = self.parse(&text)?;
        Ok((file, described))
    }

    /// The file, locked.
    fn lock(&self, is_new: bool) -> Result<File, String> {
        let mut open = OpenOptions::new();
        open.read(true).write(true).create(is_new).mode(0o600);
        let file = open
            .open(self.file())
            .map_err(|error| format!("cannot open {}: {error}", self.file().display()))?;
        match file.try_lock() {
            Ok(()) if is_new && file.metadata().is_ok_and(|it| it.len() > 0) => {
                Err(format!("another cluster was started in {} just now", self.0.display()))
            }
            Ok(()) => Ok(file),
            Err(_) => Err(format!("another claret starts or stops the cluster in {} now", self.0.display())),
        }
    }

    /// A cluster that runs, or files of somebody else. What is left of a cluster that does not run any more is removed.
    fn refuse_what_is_there(&self) -> Result<(), String> {
        let dir = self.0.display();
        if let Some(there) = self.described()? {
            drop(self.lock(false)?);
            if there.ports.iter().any(|&port| claret_rig::runs_in(&self.node(port), port).is_some()) {
                let url = there.url();
                return Err(format!(
                    "a cluster is running already: {url}, in {dir}; end it with {}",
                    self.say_stop()
                ));
            }
            return self.clear(&there);
        }
        match fs::read_dir(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(format!("cannot use {dir}: {error}")),
            Ok(mut entries) => match entries.next() {
                None => Ok(()),
                Some(_) => Err(format!("{dir} is not empty; choose another directory for the cluster")),
            },
        }
    }

    /// Ends the servers and removes their directories, and this one if it was made for them and holds nothing else.
    fn clear(&self, described: &Description) -> Result<(), String> {
        for &port in &described.ports {
            let node = self.node(port);
            claret_rig::end(&node, port);
            remove(fs::remove_dir_all(&node), &node)?;
        }
        if let Some(tls) = &described.tls {
            remove(fs::remove_dir_all(tls), tls)?;
        }
        remove(fs::remove_file(self.0.join(SECRET)), &self.0.join(SECRET))?;
        remove(fs::remove_file(self.file()), &self.file())?;
        if described.made_directory {
            // Unless the user has put something there.
            let _ = fs::remove_dir(&self.0);
        }
        Ok(())
    }

    /// How to stop it, for people.
    pub(crate) fn say_stop(&self) -> String {
        self.say("stop")
    }

    /// How to do this with it, for people.
    pub(crate) fn say(&self, action: &str) -> String {
        let is_default = ClusterDir::new(None).is_ok_and(|default| default.0 == self.0);
        match is_default {
            true => format!("claret cluster {action}"),
            false => format!("claret cluster {action} --dir {}", self.0.display()),
        }
    }
}

fn remove(result: io::Result<()>, path: &Path) -> Result<(), String> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", path.display()))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

impl Options {
    /// How many servers it has.
    fn servers(&self) -> u16 {
        self.shards * (1 + self.replicas)
    }
}
