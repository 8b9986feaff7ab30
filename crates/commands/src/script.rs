//! Scripts: Redis's Lua as transactions over any keys ([docs/scripts.md](../../../docs/scripts.md)).
//!
//! A script runs here, by an interpreter without I/O ([`claret_program`]), and pauses at each `redis.call`: the command is carried out in
//! the script's transaction, under its locks, and the script goes on with the answer. What only a server can do is carried out with the
//! commit (A19): its answer is a value that the script may keep and return, and that is filled then. When the transaction gives way, the
//! script runs again from its start (A7).

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use claret::{AtCommit, Error, Tx, errors::ExecuteError};
use claret_planted::{Bug, is_planted};
use claret_program::{self as program, Call, FailureKind, Given, Limits, Pause, Program, Run, Start};
use claret_types::{Bytes, Reply};

use crate::answer::Answer;
use crate::by_server::ByServer;
use crate::fault::{Fault, of_operation};
use crate::ids::{self, Ids};
use crate::question::{Question, Written, is_of_keys};
use crate::runner::Runner;
use crate::sites::Sites;
use crate::steps::OPERATION_BYTES;
use crate::table::{Command, Keys, Way, named};
use crate::words::decimal;

/// After so many steps others get their turn: about a millisecond.
const STEPS_AT_ONCE: u64 = 20_000;

/// So many steps one script may take: about an eighth of a second.
const STEPS_MAX: u64 = 10_000_000;

/// Up to this Lua's numbers hold each integer.
const EXACT_MAX: u64 = 1 << 53;

/// So many commands one script calls.
const CALLS_MAX: usize = 100_000;

/// A script that was compiled, or a function of a library. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Script {
    code: Code,
    text: Arc<[u8]>,
    digest: Arc<str>,
    /// Each key of each command that it calls is sure to be one that is declared, as far as the text tells.
    has_sure_keys: bool,
    /// It has looked at an id that `XADD` answers: from then on ids are made before the commit.
    looks_at_ids: Arc<AtomicBool>,
    sites: Arc<Sites>,
    /// Its text names `DBSIZE`, so what it writes is looked at before.
    counts_keys: bool,
}

/// What is carried out.
#[derive(Clone, Debug)]
enum Code {
    Script(Arc<Program>),
    Function(Arc<program::Library>, Arc<str>),
}

impl Code {
    fn run(&self, start: Start) -> Run {
        match self {
            Code::Script(program) => Run::new(Arc::clone(program), start),
            Code::Function(library, name) => {
                Run::function(Arc::clone(library), name, start).expect("the library has it")
            }
        }
    }

    fn only_reads(&self) -> bool {
        match self {
            Code::Script(program) => program.flags().no_writes,
            Code::Function(library, name) => {
                library.functions().iter().any(|it| it.name == **name && it.flags.no_writes)
            }
        }
    }
}

/// A library of functions. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Library {
    library: Arc<program::Library>,
    text: Arc<[u8]>,
    /// In the order in which they were registered.
    functions: Arc<[Script]>,
}

impl Library {
    /// Compiles a library, and runs its text once, which registers its functions.
    ///
    /// # Errors
    /// It is no library, or uses what is not there.
    pub fn load(text: &[u8]) -> Result<Library, Fault> {
        let limits = Limits { steps: STEPS_MAX, ..Limits::default() };
        let library = program::Library::load(text, &limits).map_err(|error| match error {
            program::LoadError::Compile(error) => {
                Fault::told(format!("ERR Error compiling function: user_function:{error}"))
            }
            program::LoadError::Refused(why) if why.starts_with("ERR ") => {
                Fault::told(format!("ERR Error registering functions: {}", &why[4..]))
            }
            program::LoadError::Refused(why) => Fault::told(format!("ERR {why}")),
        })?;
        let (library, text): (_, Arc<[u8]>) = (Arc::new(library), text.into());
        let (looks_at_ids, counts_keys) = (Arc::<AtomicBool>::default(), names_dbsize(&text));
        let function = |it: &program::Function| {
            let name: Arc<str> = it.name.as_str().into();
            Script {
                code: Code::Function(Arc::clone(&library), Arc::clone(&name)),
                text: Arc::clone(&text),
                digest: name,
                has_sure_keys: false,
                looks_at_ids: Arc::clone(&looks_at_ids),
                sites: Arc::default(),
                counts_keys,
            }
        };
        let functions = library.functions().iter().map(function).collect();
        Ok(Library { library, text, functions })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.library.name()
    }

    /// Its text.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Its functions, as scripts whose [digest](Script::digest) is the function's name.
    pub fn functions(&self) -> &[Script] {
        &self.functions
    }

    /// What it keeps in memory, in bytes.
    pub fn bytes(&self) -> usize {
        self.library.bytes() + self.text.len()
    }

    /// What `FUNCTION LIST` says of it; with its text, if that is wanted.
    pub fn about(&self, with_text: bool) -> Answer {
        let function = |it: &program::Function| {
            let description = it.description.as_deref().map_or(Answer::Nil, Answer::text);
            let flags = [
                (it.flags.no_writes, "no-writes"),
                (it.flags.allow_oom, "allow-oom"),
                (it.flags.allow_stale, "allow-stale"),
                (it.flags.no_cluster, "no-cluster"),
                (it.flags.allow_cross_slot_keys, "allow-cross-slot-keys"),
            ];
            let flags = flags.into_iter().filter(|(is, _)| *is).map(|(_, name)| Answer::text(name)).collect();
            Answer::Map(vec![
                Answer::text("name"),
                Answer::text(&it.name),
                Answer::text("description"),
                description,
                Answer::text("flags"),
                Answer::Set(flags),
            ])
        };
        let functions = self.library.functions().iter().map(function).collect();
        let mut about = vec![
            Answer::text("library_name"),
            Answer::text(self.name()),
            Answer::text("engine"),
            Answer::text("LUA"),
            Answer::text("functions"),
            Answer::Array(functions),
        ];
        if with_text {
            about.extend([Answer::text("library_code"), Answer::Bulk(Bytes::copy_from(&self.text))]);
        }
        Answer::Map(about)
    }
}

/// Whether a text has the name of the command that counts keys.
fn names_dbsize(text: &[u8]) -> bool {
    text.to_ascii_lowercase().windows(6).any(|word| word == b"dbsize")
}

impl Script {
    /// Compiles a text.
    ///
    /// # Errors
    /// It is no script, or uses what is not there: line, column, and what to write instead.
    pub fn compile(text: &[u8]) -> Result<Script, Fault> {
        let program = Program::compile(text).map_err(|error| {
            Fault::told(format!("ERR Error compiling script (new function): user_script:{error}"))
        })?;
        let has_sure_keys = program.calls().is_some_and(|calls| calls.iter().all(|call| has_sure_keys(call)));
        Ok(Script {
            code: Code::Script(Arc::new(program)),
            text: text.into(),
            digest: digest_of(text).into(),
            has_sure_keys,
            looks_at_ids: Arc::default(),
            sites: Arc::default(),
            counts_keys: names_dbsize(text),
        })
    }

    /// The SHA-1 of its text, in lower-case hexadecimal digits, by which `EVALSHA` names it.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Its text.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// What it keeps in memory, in bytes.
    pub fn bytes(&self) -> usize {
        let code = match &self.code {
            Code::Script(program) => program.bytes(),
            Code::Function(library, _) => library.bytes(),
        };
        code + self.text.len()
    }

    /// Whether its text names `DBSIZE`.
    pub(crate) fn counts_keys(&self) -> bool {
        self.counts_keys
    }

    /// Whether it says that it writes nothing.
    pub fn only_reads(&self) -> bool {
        self.code.only_reads()
    }
}

/// Whether each key of a command is sure to be one that its script declares, by what it is given as it is written.
fn has_sure_keys(call: &[Given]) -> bool {
    let Some(Given::Text(name)) = call.first() else { return false };
    let Some(command) = named(name) else { return false };
    // Of several keys each word may be one, or say which are: all have to be known.
    let is_known = match command.keys {
        Keys::None => return matches!(command.name, "TIME" | "PING" | "ECHO" | "PUBLISH"),
        Keys::Range { first, last, .. } => last == first as i32,
        Keys::Counted { .. } | Keys::Sort | Keys::Streams | Keys::Georadius => false,
    };
    if !command.takes(call.len()) || !is_known && call.contains(&Given::Other) {
        return false;
    }
    let word = |given: &Given| match given {
        Given::Text(text) => text.to_vec(),
        Given::Key | Given::Keys | Given::Other => b"0".to_vec(),
    };
    let words: Vec<Vec<u8>> = call.iter().map(word).collect();
    let Ok(mut places) = command.keys.of(&words) else { return false };
    let is_key = |at: usize| matches!(call.get(at), Some(Given::Key | Given::Keys));
    !command.makes_keys(&words) && places.all(is_key)
}

/// The SHA-1 of a text, in lower-case hexadecimal digits.
pub fn digest_of(text: &[u8]) -> String {
    program::sha1_hex(text)
}

/// A script with its arguments, to be carried out once or in each attempt of a transaction.
#[derive(Clone, Debug)]
pub struct Evaluation {
    script: Script,
    keys: Vec<Bytes>,
    args: Vec<Bytes>,
    only_reads: bool,
    /// What `TIME` says in it.
    began: (u64, u32),
    /// Where it left what for the commit.
    issued: Arc<Mutex<HashMap<Bytes, u32>>>,
}

impl Evaluation {
    /// Of a script with its keys and arguments. `only_reads`: it may not write (`EVAL_RO`).
    pub fn new(script: Script, keys: Vec<Bytes>, args: Vec<Bytes>, only_reads: bool) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let began = (since.as_secs(), since.subsec_micros());
        let only_reads = only_reads || script.only_reads();
        Evaluation { script, keys, args, only_reads, began, issued: Arc::default() }
    }

    /// The script.
    pub fn script(&self) -> &Script {
        &self.script
    }

    /// Whether keys are declared, and each key of each command that it calls is sure to be one of those, as far as the text tells.
    pub fn has_sure_keys(&self) -> bool {
        !self.keys.is_empty() && self.script.has_sure_keys
    }

    /// Carries it out in a transaction. What servers carry out with the commit goes to `last`, of which `pushed` are there already.
    pub(crate) async fn run(
        &self,
        tx: &Tx,
        runner: &dyn Runner,
        last: &AtCommit,
        pushed: &mut usize,
        (by_server, written): (&mut ByServer, &mut Written),
    ) -> Result<program::Answer, Fault> {
        let words = |all: &[Bytes]| all.iter().map(|word| word.to_vec()).collect();
        let limits = Limits { steps: STEPS_MAX, ..Limits::default() };
        let (keys, args) = (words(&self.keys), words(&self.args));
        let start = Start { keys, args, limits, seed: rand::random() };
        self.issued.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let mut run = self.script.code.run(start);
        // What it has in memory counts, as whatever is made for a client.
        let mut charged = 0;
        let makes_ids = self.script.looks_at_ids.load(Ordering::Relaxed);
        let mut host = Host {
            reads: HashMap::new(),
            of: self,
            tx,
            runner,
            last,
            pushed,
            by_server,
            written,
            calls: 0,
            makes_ids,
            ids: Ids::default(),
        };
        loop {
            let pause = run.resume(STEPS_AT_ONCE);
            let has = run.bytes_used();
            if has > charged {
                runner.take((has - charged) as usize)?;
                charged = has;
            }
            match pause {
                Pause::Rested => runner.rest().await,
                Pause::Call(call) => run.answered(host.call(call).await?),
                Pause::Done(answer) => {
                    each_once(&answer, &mut BTreeSet::new())?;
                    return Ok(answer);
                }
                Pause::Failed(failure) => {
                    if failure.kind == FailureKind::Looked && host.ids.is_late && !makes_ids {
                        // Once more, with ids that it may look at.
                        self.script.looks_at_ids.store(true, Ordering::Relaxed);
                        return Err(Fault::Store(Error::Restart));
                    }
                    return Err(Fault::Told(self.failed(&failure)));
                }
            }
        }
    }

    /// The same fault, told with the line, if it is about what the script left for the commit.
    pub(crate) fn told(&self, fault: Fault) -> Fault {
        let Fault::Store(Error::Execute(ExecuteError::Invalid { key, .. })) = &fault else { return fault };
        match self.issued.lock().unwrap_or_else(PoisonError::into_inner).get(key) {
            Some(line) => Fault::Told(self.told_at(&fault.text(), *line)),
            None => fault,
        }
    }

    /// As a server tells that a script has failed.
    fn failed(&self, failure: &program::Failure) -> String {
        self.told_at(&failure.message, failure.line)
    }

    fn told_at(&self, message: &str, line: u32) -> String {
        let digest = self.script.digest();
        let text = match self.script.code {
            Code::Script(_) => "user_script",
            Code::Function(..) => "user_function",
        };
        format!("{message} script: {digest}, on @{text}:{line}.")
    }
}

/// How a script calls a command.
#[derive(Clone, Copy, Debug)]
struct Site {
    line: u32,
    is_dropped: bool,
    is_tried: bool,
}

/// What the commands of a script are carried out in.
struct Host<'a> {
    of: &'a Evaluation,
    tx: &'a Tx,
    runner: &'a dyn Runner,
    last: &'a AtCommit,
    pushed: &'a mut usize,
    by_server: &'a mut ByServer,
    /// Keys that the transaction has written.
    written: &'a mut Written,
    calls: usize,
    /// Whether ids of `XADD` are made before the commit.
    makes_ids: bool,
    ids: Ids,
    /// Where keys were read that it has not written.
    reads: HashMap<Bytes, u32>,
}

impl Host<'_> {
    /// Carries out a command: its answer, or an error that the script hears. `Err`: the transaction is over.
    async fn call(&mut self, call: Call) -> Result<program::Answer, Fault> {
        // Words of commands that are kept count; the script's own memory does not have them any more.
        self.runner.take(call.words.iter().map(|word| word.len() + 64).sum())?;
        self.calls += 1;
        if self.calls > CALLS_MAX {
            return Err(Fault::told(format!(
                "ERR a script calls {CALLS_MAX} commands at most (line {}): split it",
                call.line
            )));
        }
        self.runner.rest_after(self.calls).await;
        let mut words = call.words.into_iter().map(Bytes::from);
        let name = words.next().unwrap_or_default();
        let words: Vec<Bytes> = words.collect();
        let site = Site { line: call.line, is_dropped: call.is_dropped, is_tried: call.is_tried };
        match self.carry_out(&name, &words, site).await {
            Ok(answer) => Ok(answer),
            Err(fault) if is_heard(&fault) => Ok(program::Answer::Error(fault.text().into_bytes())),
            Err(fault) => Err(fault),
        }
    }

    async fn carry_out(
        &mut self,
        name: &Bytes,
        words: &[Bytes],
        site: Site,
    ) -> Result<program::Answer, Fault> {
        let command =
            named(name).ok_or_else(|| Fault::told("ERR Unknown Redis command called from script"))?;
        if !command.takes(words.len() + 1) {
            return Err(Fault::told("ERR Wrong number of args calling Redis command from script"));
        }
        if self.of.only_reads && (command.writes || command.group == "pubsub") {
            return Err(Fault::told("ERR Write commands are not allowed from read-only scripts."));
        }
        if let Some(answer) = self.answered(command, words)? {
            return Ok(answer);
        }
        if is_of_keys(command) {
            return self.find(command, words).await;
        }
        if let Some(answer) = self.ask_server(command, words).await? {
            return Ok(answer);
        }
        self.note_written(command, words).await?;
        if command.name == "XADD"
            && let Some(answer) = self.add_to_stream(command, words).await?
        {
            return Ok(answer);
        }
        if let Some(answer) = self.push(command, words)? {
            return Ok(answer);
        }
        if !command.way.is_transactional() && !command.is_waiting_pop() {
            return Err(Fault::told(format!(
                "ERR This Redis command is not allowed from script: '{}'",
                command.name.to_ascii_lowercase()
            )));
        }
        let answer = match site.is_tried {
            // An error is heard, and undoes what the command did.
            true => {
                let nested = self.tx.nested(|tx| async move {
                    let answer = command.run(&tx, self.runner, words).await?;
                    tx.settle().await?;
                    Ok::<_, Fault>(answer)
                });
                nested.await?
            }
            false => match self.known(command, words, site).await? {
                Some(answer) => answer,
                None => command.run(self.tx, self.runner, words).await?,
            },
        };
        Ok(match answer {
            // Lua's numbers would make another one of it: unique numbers would be there twice.
            Answer::Int(number) if command.is_own && number.unsigned_abs() > EXACT_MAX => {
                program::Answer::Bulk(number.to_string().into_bytes())
            }
            answer => to_script(answer),
        })
    }

    /// What is an operation up front, and not tried: one whose answer is dropped is left for the commit, and one that reads
    /// what this script mostly writes later takes the lock for that at once.
    async fn known(
        &mut self,
        command: &Command,
        words: &[Bytes],
        site: Site,
    ) -> Result<Option<Answer>, Fault> {
        let Some(calls) = command.calls(words) else { return Ok(None) };
        let calls = calls?;
        if command.writes {
            if !site.is_dropped || !calls.write() {
                return Ok(None);
            }
            for (key, _) in calls.all() {
                self.of.issued.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), site.line);
            }
            self.runner.take(calls.all().iter().map(|(_, op)| OPERATION_BYTES + 2 * op.size()).sum())?;
            calls.issue(self.tx)?;
            return Ok(Some(Answer::Nil));
        }
        let locks = self.of.script.sites.note_read(site.line) && !self.of.only_reads;
        for (key, _) in calls.all() {
            self.reads.entry(key.clone()).or_insert(site.line);
        }
        calls.run_as(self.tx, self.runner, locks).await.map(Some)
    }

    /// What the server of a key answers now, if it is asked now.
    async fn ask_server(
        &mut self,
        command: &Command,
        words: &[Bytes],
    ) -> Result<Option<program::Answer>, Fault> {
        let Some((key, ask)) = self.by_server.question(command, words) else { return Ok(None) };
        match self.tx.execute(key, ask.tried()).await? {
            // An error of the server is the script's.
            Reply::Failed(error) => Err(Fault::Told(of_operation(&error))),
            told => {
                self.runner.take(told.size())?;
                Ok(Some(to_script(Answer::from(told))))
            }
        }
    }

    /// A command is about to write.
    async fn note_written(&mut self, command: &Command, words: &[Bytes]) -> Result<(), Fault> {
        if !command.writes {
            return Ok(());
        }
        let name = Bytes::from(command.name);
        let all: Vec<&[u8]> = std::iter::once(&name).chain(words).map(|word| &word[..]).collect();
        let keys: Vec<Bytes> = command.keys_in(&all).map(Bytes::copy_from).collect();
        self.written.add(self.tx, keys.iter().cloned(), self.of.script.counts_keys).await?;
        for key in keys {
            if let Some(line) = self.reads.remove(&key) {
                self.of.script.sites.note_written(line);
            }
            if !command.is_run_by_server() {
                self.by_server.note_changed(key);
            }
        }
        Ok(())
    }

    /// What keys there are: found outside of the transaction, but what that has written counts.
    async fn find(&mut self, command: &'static Command, words: &[Bytes]) -> Result<program::Answer, Fault> {
        if command.name == "DBSIZE" && !self.written.is_counted() {
            return Err(Fault::told(
                "ERR DBSIZE behind a write is counted where the script's text has its name: write redis.call('DBSIZE')",
            ));
        }
        let mut question = Question::new(command, words.to_vec());
        let found = self.runner.find(command.name, words.to_vec()).await?;
        self.runner.take(found.bytes_up_to(usize::MAX / 2))?;
        question.tell(found);
        Ok(to_script(question.answer(self.tx, self.runner, self.written).await?))
    }

    /// Leaves a command to the server of its key, if that carries it out with the commit.
    fn push(&mut self, command: &Command, words: &[Bytes]) -> Result<Option<program::Answer>, Fault> {
        let Some(run) = self.by_server.step(command, words)? else { return Ok(None) };
        let Ok([(key, op)]) = <[_; 1]>::try_from(run.into_vec()) else {
            return Err(Fault::told(format!(
                "ERR '{}' of several streams in a script: send it for each stream",
                command.name.to_ascii_lowercase()
            )));
        };
        self.written.note_run(&key, &op);
        // Whatever it is, it may give the stream another last id.
        self.ids.forget(&key);
        let _ = self.last.push::<Reply>(key, op);
        *self.pushed += 1;
        Ok(Some(program::Answer::Later(*self.pushed as u32 - 1)))
    }

    /// `XADD key ... *`, where the script looks at the id: it is made now, under the lock. `None`: the server makes it, or there is none
    /// to be made.
    async fn add_to_stream(
        &mut self,
        command: &Command,
        words: &[Bytes],
    ) -> Result<Option<program::Answer>, Fault> {
        let Some(place) = ids::to_be_made(words) else { return Ok(None) };
        let key = &words[0];
        if !self.makes_ids {
            self.ids.is_late = true;
            return Ok(None);
        }
        let last = match self.ids.last_of(key) {
            Some(last) => last,
            // What the transaction has put there is not known.
            None if self.by_server.has_changed(key) => return Ok(None),
            None if is_planted(Bug::IdsByTime) => (0, 0),
            None => ids::last_of(self.tx.execute_for_update(key.clone(), ids::ask(key)).await?)?,
        };
        let id = ids::next(last, self.of.began);
        let mut words = words.to_vec();
        words[place] = Bytes::from(ids::text(id));
        self.push(command, &words)?;
        self.ids.note(key.clone(), id);
        Ok(Some(program::Answer::Bulk(words[place].to_vec())))
    }

    /// What is answered here.
    fn answered(&self, command: &Command, words: &[Bytes]) -> Result<Option<program::Answer>, Fault> {
        let bulk = |text: &[u8]| program::Answer::Bulk(text.to_vec());
        Ok(Some(match (command.name, words) {
            ("TIME", _) => {
                let (secs, micros) = self.of.began;
                program::Answer::Array(vec![
                    bulk(secs.to_string().as_bytes()),
                    bulk(micros.to_string().as_bytes()),
                ])
            }
            ("PING", []) => program::Answer::Status(b"PONG".to_vec()),
            ("PING" | "ECHO", [text, ..]) => bulk(text),
            ("SELECT", [number]) if &number[..] == b"0" => program::Answer::Status(b"OK".to_vec()),
            ("PUBLISH" | "SPUBLISH", _) => {
                let message = std::iter::once(Bytes::from(command.name)).chain(words.iter().cloned());
                self.runner.publish(message.collect())?;
                // Nobody has heard it yet.
                program::Answer::Int(0)
            }
            _ if command.way == Way::Local => {
                return Err(Fault::told("ERR This Redis command is not allowed from script"));
            }
            _ => return Ok(None),
        }))
    }
}

/// Whether an error is the script's, which may go on. Others are the transaction's, which is tried again or over.
fn is_heard(fault: &Fault) -> bool {
    match fault {
        Fault::Told(_) => true,
        Fault::Store(error) => matches!(error, Error::Execute(ExecuteError::Invalid { .. })),
        Fault::Changed(_) => false,
    }
}

/// An answer of a command, as a script has it.
fn to_script(answer: Answer) -> program::Answer {
    let all = |answers: Vec<Answer>| answers.into_iter().map(to_script).collect();
    match answer {
        Answer::Ok => program::Answer::Status(b"OK".to_vec()),
        Answer::Simple(word) => program::Answer::Status(word.as_bytes().to_vec()),
        Answer::Int(number) => program::Answer::Int(number),
        Answer::Bulk(bytes) => program::Answer::Bulk(bytes.to_vec()),
        Answer::Nil | Answer::NilArray => program::Answer::Nil,
        Answer::Array(answers) | Answer::Pairs(answers) => program::Answer::Array(all(answers)),
        Answer::Map(answers) => {
            let mut pairs = Vec::with_capacity(answers.len() / 2);
            let mut answers = answers.into_iter();
            while let (Some(key), Some(value)) = (answers.next(), answers.next()) {
                pairs.push((to_script(key), to_script(value)));
            }
            program::Answer::Map(pairs)
        }
        Answer::Set(answers) => program::Answer::Set(all(answers)),
        Answer::Double(number) => program::Answer::Double(number),
        Answer::Score(number) => program::Answer::Bulk(decimal(number).to_vec()),
        Answer::Verbatim(text) => program::Answer::Verbatim { format: *b"txt", text: text.to_vec() },
        Answer::Error(text) => program::Answer::Error(text.into_bytes()),
        Answer::Raw(bytes) => program::Answer::Bulk(bytes.to_vec()),
        Answer::Status(text) => program::Answer::Status(text.into_bytes()),
        Answer::Bool(value) => program::Answer::Bool(value),
    }
}

/// What a script answered; `late`: what servers answered with the commit.
pub(crate) fn of_script(answer: program::Answer, late: &[Reply]) -> Answer {
    let all = |answers: Vec<program::Answer>| answers.into_iter().map(|it| of_script(it, late)).collect();
    match answer {
        program::Answer::Nil | program::Answer::Null3 => Answer::Nil,
        program::Answer::Int(number) => Answer::Int(number),
        program::Answer::Status(text) if text == b"OK" => Answer::Ok,
        program::Answer::Status(text) => Answer::Status(in_a_line(&text)),
        program::Answer::Error(text) => Answer::Error(in_a_line(&text)),
        program::Answer::Bulk(bytes) => Answer::Bulk(Bytes::from(bytes)),
        program::Answer::Array(answers) => Answer::Array(all(answers)),
        program::Answer::Map(pairs) => {
            Answer::Map(all(pairs.into_iter().flat_map(|(key, value)| [key, value]).collect()))
        }
        program::Answer::Set(answers) => Answer::Set(all(answers)),
        program::Answer::Double(number) => Answer::Double(number),
        program::Answer::Bool(value) => Answer::Bool(value),
        program::Answer::BigNumber(text) => Answer::Bulk(Bytes::from(text)),
        program::Answer::Verbatim { text, .. } => Answer::Verbatim(Bytes::from(text)),
        program::Answer::Later(at) => late.get(at as usize).cloned().map_or(Answer::Nil, Answer::from),
    }
}

/// What comes with the commit is filled in once: it may be long.
///
/// # Errors
/// It is there several times.
fn each_once(answer: &program::Answer, seen: &mut BTreeSet<u32>) -> Result<(), Fault> {
    match answer {
        program::Answer::Later(at) if !seen.insert(*at) => {
            Err(Fault::told("ERR an answer that comes with the commit can be returned once by a script"))
        }
        program::Answer::Array(all) | program::Answer::Set(all) => {
            all.iter().try_for_each(|it| each_once(it, seen))
        }
        program::Answer::Map(pairs) => pairs.iter().try_for_each(|(key, value)| {
            each_once(key, seen)?;
            each_once(value, seen)
        }),
        _ => Ok(()),
    }
}

/// A status and an error are one line each.
fn in_a_line(text: &[u8]) -> String {
    String::from_utf8_lossy(text).replace(['\r', '\n'], " ")
}
