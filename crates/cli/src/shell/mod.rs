//! `claret shell`: several sessions on one store, so that one can see who waits for whom.
//!
//! [`Shell::feed`] takes a line and leaves what it brought about in [`Shell::take_output`], in this order: the
//! answer to the line, or that it waits; then what it made happen in the other sessions (a grant, a transaction
//! that gave way), by the number of the session, until nothing moves any more. Same lines, same output: an embedded
//! store is set up so that no clock has a say ([`Shell::new`]). On a cluster ([`Shell::connect`]) answers are waited
//! for, and what others bring about later is shown with the next line.
//!
//! The language is in `syntax.rs`, names and help in `catalog.rs`, a session's transaction in `session.rs`; lines
//! come from a person (`terminal.rs`) or from a script (`script.rs`).

mod catalog;
pub(crate) mod script;
mod session;
mod syntax;
pub(crate) mod terminal;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use claret::{
    Error, Store, StoreBuilder, TxOptions,
    errors::{AttemptError, CommitError},
    lab::{Limits, Mode, StoreLab},
};
use claret_types::{Bytes, OpError, Operation, Schema};

use crate::reading::Reading;
use session::{Deed, Happened, Outcome, Session, once};
use syntax::{SESSIONS_MAX, Statement};
use tokio::runtime::{Builder, Runtime};

/// How long an answer of a cluster is waited for before the statement is said to wait for a lock.
const ANSWER_TIME: Duration = Duration::from_millis(500);

/// `KEYS` shows no further page once it has so many.
const KEYS_MAX: usize = 1000;

/// How long other sessions are given to go on with what a line made possible.
const REST_TIME: Duration = Duration::from_millis(100);

/// What a piece of output is, for colours and exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An answer.
    Answer,
    /// Something that could not be done.
    Error,
    /// A statement waits for a lock.
    Waiting,
    /// A statement that waited has gone on.
    Granted,
}

/// A piece of output, of one line or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Output {
    /// What it is.
    pub(crate) kind: Kind,
    /// What it says, without the last line's end.
    pub(crate) text: String,
}

/// Whether to go on after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Flow {
    /// Read the next one.
    Continue,
    /// The user wants to leave.
    Quit,
}

/// See the module's text.
pub(crate) struct Shell {
    store: Store,
    limits: Limits,
    sessions: BTreeMap<u32, Session>,
    current: u32,
    output: Vec<Output>,
    /// Where the connections live, on a cluster.
    runtime: Option<Runtime>,
    /// The store outlives the process.
    is_kept: bool,
    /// What operations are held against.
    schema: Option<Schema>,
}

/// A store's settings next to a person's time.
fn of_a_person(schema: &Option<Schema>) -> StoreBuilder {
    let builder = Store::builder().mode(Mode::CommutingPhased).protocol_limits(of_a_person_limits());
    let builder = builder.transactions(session::patient());
    match schema {
        Some(schema) => builder.schema(schema.clone()),
        None => builder,
    }
}

fn of_a_person_limits() -> Limits {
    Limits { phase_us_max: 0, give_way_us: 0, ..Limits::default() }
}

impl Default for Shell {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Shell {
    /// A shell on an empty store, in session 1.
    ///
    /// Next to a person's time all times of the protocol are nought, and so they are here: a phase that others
    /// wait for takes in no joiners but elder ones, and who has to give way does so at once. Combining is left
    /// out: two sessions whose reads share a lock would commit together, and one would wait for the other's
    /// COMMIT.
    pub(crate) fn new(schema: Option<Schema>) -> Self {
        let shell = Shell::on(of_a_person(&schema).build(), of_a_person_limits(), None);
        Shell { schema, ..shell }
    }

    /// The same on the store in this folder, which is begun if there is none. If reading it takes long, a bar shows how far it is.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(crate) fn open(folder: &Path, schema: Option<Schema>) -> Result<Self, String> {
        let mut reading = Reading::begin();
        let store = of_a_person(&schema).open_with_progress(folder, |progress| reading.is_at(progress));
        drop(reading);
        let store = store.map_err(|error| error.to_string())?;
        let shell = Shell::on(store, of_a_person_limits(), None);
        Ok(Shell { is_kept: true, schema, ..shell })
    }

    /// A shell on a cluster, in session 1.
    ///
    /// # Errors
    /// The cluster cannot be reached, or is no cluster for Claret.
    pub(crate) fn connect(url: &str, schema: Option<Schema>) -> Result<Self, String> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| format!("no runtime for the connections: {error}"))?;
        let mut builder = Store::cluster(url).mode(Mode::CommutingPhased).transactions(session::patient());
        if let Some(schema) = &schema {
            builder = builder.schema(schema.clone());
        }
        let store = runtime.block_on(builder.connect()).map_err(|error| error.to_string())?;
        let shell = Shell::on(store, Limits::default(), Some(runtime));
        Ok(Shell { schema, ..shell })
    }

    fn on(store: Store, limits: Limits, runtime: Option<Runtime>) -> Self {
        let sessions = BTreeMap::from([(1, Session::default())]);
        Shell {
            store,
            limits,
            sessions,
            current: 1,
            output: Vec::new(),
            runtime,
            is_kept: false,
            schema: None,
        }
    }
}

/// Getters.
impl Shell {
    /// What a person should know of the store.
    pub(crate) fn welcome(&self) -> &'static str {
        match self.runtime {
            None if self.is_kept => {
                "The store in this folder; what you commit stays. HELP lists what you can type."
            }
            None => {
                "An empty store in this process; it is gone when you leave. HELP lists what you can type."
            }
            Some(_) => {
                "The records of the cluster. HELP lists what you can type; Enter shows what has happened since."
            }
        }
    }

    /// The prompt: the session, `*` in a transaction, and whether it waits.
    pub(crate) fn prompt(&self) -> String {
        let session = &self.sessions[&self.current];
        let open = if session.is_open() { "*" } else { "" };
        let waits = if session.waits_with().is_some() { " (waiting)" } else { "" };
        format!("claret {}{open}{waits}> ", self.current)
    }

    /// Takes what there is to show.
    pub(crate) fn take_output(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.output)
    }
}

/// Input.
impl Shell {
    /// Carries out a line. When a statement fails, those after it on the line are carried out nevertheless.
    pub(crate) fn feed(&mut self, line: &[u8]) -> Flow {
        self.run_woken();
        match syntax::statements(line) {
            Ok(statements) => {
                for statement in statements {
                    if self.statement(statement) == Flow::Quit {
                        return Flow::Quit;
                    }
                }
            }
            Err(error) => self.say(self.current, Kind::Error, &error.to_string()),
        }
        Flow::Continue
    }

    /// Ctrl-C: gives up the current session's wait, if it waits.
    pub(crate) fn interrupt(&mut self) {
        if self.sessions[&self.current].waits_with().is_some() {
            self.abort(self.current);
        } else if self.sessions[&self.current].is_open() {
            self.say(self.current, Kind::Answer, "(the transaction stays open; ABORT drops it)");
        } else {
            self.say(self.current, Kind::Answer, "(EXIT or Ctrl-D ends the shell)");
        }
    }

    /// The end: aborts what is open, and says so.
    pub(crate) fn finish(&mut self) {
        let numbers: Vec<u32> = self.sessions.keys().copied().collect();
        for number in &numbers {
            let session = &self.sessions[number];
            let left = match session.waits_with() {
                // It may have been done, and waited for the disk.
                Some(text) if self.is_kept => {
                    format!("'{text}' still waited; look whether it was done when you open the store again")
                }
                Some(text) => format!("'{text}' still waited; it is aborted and nothing of it was applied"),
                None if session.is_open() => "the transaction was still open; it is aborted".to_owned(),
                None => continue,
            };
            self.say(*number, Kind::Error, &left);
        }
        self.sessions.values_mut().for_each(Session::abort);
        if let Some(runtime) = &self.runtime {
            // The servers are to hear of it before this process is gone.
            if let Err(error) = runtime.block_on(self.store.clone().close()) {
                self.say(1, Kind::Error, &error.to_string());
            }
        }
    }
}

/// Statements.
impl Shell {
    fn statement(&mut self, statement: Statement) -> Flow {
        let number = statement.session.unwrap_or(self.current);
        self.sessions.entry(number).or_default();
        let name = statement.words[0].to_string().to_ascii_uppercase();
        let arguments = &statement.words[1..];
        match (name.as_str(), arguments) {
            ("EXIT" | "QUIT", []) => return Flow::Quit,
            ("BEGIN", []) => self.begin(number, once()),
            ("BEGIN", [how]) if how.to_string().eq_ignore_ascii_case("OPTIMISTIC") => {
                self.begin(number, once().optimistic());
            }
            ("COMMIT", []) => self.commit(number, statement.text),
            ("ABORT" | "ROLLBACK", []) => self.abort(number),
            ("SAVEPOINT", [name]) => self.within(number, Deed::Savepoint(name.to_string()), statement.text),
            ("ROLLBACK", [to, name]) if to.to_string().eq_ignore_ascii_case("TO") => {
                self.within(number, Deed::RollbackTo(name.to_string()), statement.text);
            }
            ("RELEASE", [name]) => self.within(number, Deed::Release(name.to_string()), statement.text),
            ("SETTLE", []) => self.within(number, Deed::Settle, statement.text),
            ("SESSION", [to]) => self.switch(number, to),
            ("SESSIONS", []) => self.say(number, Kind::Answer, &self.describe_sessions()),
            ("TYPES", []) => self.say(number, Kind::Answer, &catalog::types()),
            ("TYPE", [_]) if self.runtime.is_some() => {
                self.say(number, Kind::Error, "TYPE looks into a store of this process; here ask redis-cli");
            }
            ("TYPE", [key]) => match self.store.type_of(key) {
                Ok(kind) => self.say(number, Kind::Answer, kind.unwrap_or("(none)")),
                Err(error) => self.say(number, Kind::Error, &error.to_string()),
            },
            ("KEYS", [pattern]) => self.keys(number, pattern),
            ("RENAME", [from, to]) => {
                self.rename(number, Deed::Rename(from.clone(), to.clone()), statement.text)
            }
            ("BACKUP", [folder]) => self.back_up(number, folder),
            ("STATS", []) => self.say(number, Kind::Answer, &self.describe_stats()),
            ("HELP", []) => self.say(number, Kind::Answer, &catalog::overview()),
            ("HELP", [of]) => match catalog::explain(&of.to_string()) {
                Ok(text) => self.say(number, Kind::Answer, &text),
                Err(error) => self.say(number, Kind::Error, &error),
            },
            _ => match catalog::OWN.iter().find(|own| own.name == name) {
                Some(own) => {
                    let usage = format!("{} {}", own.name, own.arguments);
                    self.say(
                        number,
                        Kind::Error,
                        &format!("wrong number of arguments for '{name}'; usage: {}", usage.trim_end()),
                    );
                }
                None => self.operation(number, &name, statement),
            },
        }
        Flow::Continue
    }

    fn begin(&mut self, number: u32, options: TxOptions) {
        if self.refuse_waiting(number) {
            return;
        }
        if self.sessions[&number].is_open() {
            return self.say(number, Kind::Error, "a transaction is open; COMMIT or ABORT it first");
        }
        let store = self.store.clone();
        self.session(number).begin(&store, options);
        self.say(number, Kind::Answer, "OK");
        self.settle(number);
    }

    fn commit(&mut self, number: u32, text: String) {
        if self.refuse_waiting(number) {
            return;
        }
        if !self.sessions[&number].is_open() {
            return self.say(number, Kind::Error, "no transaction is open; BEGIN opens one");
        }
        self.session(number).commit(text);
        self.settle(number);
    }

    /// Does what makes sense in a transaction alone.
    fn within(&mut self, number: u32, deed: Deed, text: String) {
        if self.refuse_waiting(number) {
            return;
        }
        if !self.sessions[&number].is_open() {
            return self.say(number, Kind::Error, "no transaction is open; BEGIN opens one");
        }
        let store = self.store.clone();
        self.session(number).issue(&store, deed, text);
        self.settle(number);
    }

    fn abort(&mut self, number: u32) {
        let session = &self.sessions[&number];
        let text = match session.waits_with() {
            Some(text) => format!("ABORTED: '{text}' waits no longer; nothing was applied"),
            None if session.is_open() => "ABORTED: nothing was applied".to_owned(),
            None => return self.say(number, Kind::Error, "no transaction is open; BEGIN opens one"),
        };
        self.session(number).abort();
        self.say(number, Kind::Answer, &text);
        self.settle(number);
    }

    fn switch(&mut self, number: u32, to: &Bytes) {
        let wanted = to.as_str().and_then(|text| text.parse().ok());
        match wanted.filter(|wanted| (1..=SESSIONS_MAX).contains(wanted)) {
            Some(wanted) => {
                self.sessions.entry(wanted).or_default();
                self.current = wanted;
                self.say(wanted, Kind::Answer, &format!("session {wanted}"));
            }
            None => {
                let error = format!("'{to}' is no session; sessions are 1 to {SESSIONS_MAX}");
                self.say(number, Kind::Error, &error);
            }
        }
    }

    /// Lists keys, outside of whatever transaction is open.
    fn keys(&mut self, number: u32, pattern: &Bytes) {
        let mut listing = self.store.clone().blocking().keys(pattern.clone());
        let mut lines = Vec::new();
        let outcome = loop {
            match listing.next_page() {
                Ok(Some(page)) if lines.len() < KEYS_MAX => {
                    lines.extend(page.iter().map(|key| format!("\"{key}\"")));
                }
                Ok(Some(_)) => break Ok(format!("({} shown; there are more)", lines.len())),
                Ok(None) => break Ok(format!("({} in all)", lines.len())),
                Err(error) => break Err(error),
            }
        };
        match outcome {
            Ok(end) => {
                lines.push(end);
                self.say(number, Kind::Answer, &lines.join("\n"));
            }
            Err(error) => self.say(number, Kind::Error, &error.to_string()),
        }
    }

    fn back_up(&mut self, number: u32, folder: &Bytes) {
        let Some(folder) = folder.as_str() else {
            return self.say(number, Kind::Error, "the name of a folder is text");
        };
        match self.store.clone().blocking().backup(folder) {
            Ok(()) => self.say(number, Kind::Answer, "OK"),
            Err(error) => self.say(number, Kind::Error, &error.to_string()),
        }
    }

    fn rename(&mut self, number: u32, deed: Deed, text: String) {
        if self.refuse_waiting(number) {
            return;
        }
        let store = self.store.clone();
        self.session(number).issue(&store, deed, text);
        self.settle(number);
    }

    fn operation(&mut self, number: u32, name: &str, statement: Statement) {
        if self.refuse_waiting(number) {
            return;
        }
        match self.read_operation(number, name, &statement.words[1..]) {
            Ok((key, op)) => {
                let store = self.store.clone();
                self.session(number).issue(&store, Deed::Operation(key, op), statement.text);
                self.settle(number);
            }
            Err(error) => {
                let open = self.sessions[&number].is_open();
                let hint = if open { " (the transaction stays open)" } else { "" };
                self.say(number, Kind::Error, &(error + hint));
            }
        }
    }

    /// Reads an operation, and checks all that can be checked before it reaches a transaction, which an invalid
    /// operation would doom.
    fn read_operation(
        &self,
        number: u32,
        name: &str,
        arguments: &[Bytes],
    ) -> Result<(Bytes, Operation), String> {
        let key = arguments.first();
        let schema = self.schema.as_ref();
        let of_schema = key.and_then(|key| schema?.of_key(key)).map(|(_, kind)| kind.name());
        // On a cluster the node says so, when it refuses.
        let made_by = key.and_then(|key| self.store.type_of(key).ok().flatten());
        let used = key.and_then(|key| self.sessions[&number].used_on(key));
        let entry = catalog::resolve(name, &[of_schema, made_by, used])?;
        let arity =
            || format!("wrong number of arguments for '{}'; usage: {}", entry.method.name, entry.usage());
        let Some(key) = key else { return Err(arity()) };
        let limits = &self.limits;
        let checked = match (entry.kind.parse)(entry.method.name, &arguments[1..]) {
            Err(OpError::Arity { .. }) => return Err(arity()),
            Ok(_) if key.is_empty() => Err(OpError::EmptyKey),
            Ok(_) if key.len() > limits.key_bytes_max => {
                Err(OpError::TooLarge { what: "key".into(), size: key.len(), limit: limits.key_bytes_max })
            }
            Ok(op) => {
                let checked = op.check(limits.value_bytes_max);
                let fits = || schema.map_or(Ok(()), |schema| schema.check(key, &op));
                checked.and_then(|()| fits()).map(|()| op)
            }
            Err(error) => Err(error),
        };
        match checked {
            Ok(op) => Ok((key.clone(), op)),
            Err(OpError::EmptyKey) => Err(OpError::EmptyKey.to_string()),
            Err(error) => Err(format!("key '{key}': {error}")),
        }
    }

    /// Whether the session waits and can do nothing else; says so.
    fn refuse_waiting(&mut self, number: u32) -> bool {
        let Some(text) = self.sessions[&number].waits_with() else { return false };
        let error = format!(
            "session {number} waits with '{text}'; end the transaction that is in its way, or ABORT this one"
        );
        self.say(number, Kind::Error, &error);
        true
    }
}

/// What comes of it.
impl Shell {
    /// Runs the sessions until nothing moves, the one that the line was for first.
    fn settle(&mut self, first: u32) {
        self.run(first);
        if self.waits_for_others() {
            self.run_until(Instant::now() + ANSWER_TIME, |number| number == first);
        }
        if let Some(text) = self.sessions[&first].waits_with() {
            let text = format!("(waiting: '{text}' conflicts with what another transaction holds)");
            self.session(first).told();
            self.say(first, Kind::Waiting, &text);
        }
        if self.waits_for_others() {
            self.run_until(Instant::now() + REST_TIME, |number| number != first);
        }
        self.run_woken();
    }

    /// Whether answers come by themselves, from servers or when the disk has what was done.
    fn waits_for_others(&self) -> bool {
        self.runtime.is_some() || self.is_kept
    }

    fn run_woken(&mut self) {
        while let Some(number) = self.first_woken() {
            self.run(number);
        }
    }

    /// Runs sessions while any of these waits, for so long.
    fn run_until(&mut self, end: Instant, of: impl Fn(u32) -> bool) {
        let waits = |(number, session): (&u32, &Session)| of(*number) && session.waits_with().is_some();
        while self.sessions.iter().any(waits) {
            let Some(left) = end.checked_duration_since(Instant::now()) else { return };
            match self.first_woken() {
                Some(number) => self.run(number),
                None => std::thread::park_timeout(left),
            }
        }
    }

    fn first_woken(&self) -> Option<u32> {
        self.sessions.iter().find(|(_, session)| session.is_woken()).map(|(number, _)| *number)
    }

    /// Runs a session's task, and says what came of it.
    fn run(&mut self, number: u32) {
        let Some(happened) = self.session(number).run() else { return };
        let Happened { text, waited, outcome } = happened;
        let (kind, said) = match outcome {
            Outcome::Answer(reply) => (Kind::Answer, reply.to_string()),
            Outcome::Refused(error) => (Kind::Error, error.to_string()),
            Outcome::Queued => (Kind::Answer, "QUEUED until commit".to_owned()),
            Outcome::Committed => (Kind::Answer, "COMMITTED".to_owned()),
            Outcome::Failed { error, of_many } => (Kind::Error, describe_failure(&error, of_many)),
        };
        match kind {
            Kind::Answer if waited => {
                self.say(number, Kind::Granted, &format!("(granted: '{text}') {said}"));
            }
            _ => self.say(number, kind, &said),
        }
    }

    fn session(&mut self, number: u32) -> &mut Session {
        self.sessions.get_mut(&number).expect("sessions are made when they are first named")
    }

    fn say(&mut self, number: u32, kind: Kind, text: &str) {
        let session = if number == self.current { String::new() } else { format!("{number}: ") };
        let error = if kind == Kind::Error { "(error) " } else { "" };
        self.output.push(Output { kind, text: format!("{session}{error}{text}") });
    }

    fn describe_sessions(&self) -> String {
        let line = |(number, session): (&u32, &Session)| {
            let here = if *number == self.current { '*' } else { ' ' };
            let doing = match session.waits_with() {
                Some(text) => format!("waits with '{text}'"),
                None if session.is_open() => match session.operations() {
                    1 => "in a transaction of 1 operation".to_owned(),
                    operations => format!("in a transaction of {operations} operations"),
                },
                None => "idle".to_owned(),
            };
            format!("{here} {number}: {doing}")
        };
        self.sessions.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    fn describe_stats(&self) -> String {
        let stats = self.store.stats();
        format!(
            "lock waits {}, phases that began with waiters {}, restarts {}, records locked now {}, \
             transactions that hold something now {}",
            stats.lock_waits, stats.phases, stats.restarts, stats.locked_records, stats.open_attempts
        )
    }
}

fn describe_failure(error: &Error, of_many: bool) -> String {
    match error {
        Error::Commit(CommitError::Attempts { last: last @ AttemptError::Changed { .. }, .. }) => {
            format!("{last}; your transaction was rolled back, BEGIN again")
        }
        Error::Commit(CommitError::Attempts { last, .. }) => {
            format!("your transaction {last} and was rolled back; BEGIN again")
        }
        _ if of_many => format!("{error}; your transaction was rolled back, BEGIN again"),
        _ => error.to_string(),
    }
}
