//! Libraries of functions: which there are, and `FUNCTION` as far as the gateway has to do with it (G15 of docs/gateway.md).
//!
//! Nodes keep libraries themselves. Where the records are in this process, a record has them.

use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes as Word;
use claret::keys::matches_pattern;
use claret_commands::{Answer, Command, Library, Script, digest_of};
use claret_types::Bytes;

use crate::client::Client;
use crate::fan_out::{as_value, fan_out};
use crate::fault::Fault;
use crate::passthrough::away;
use crate::query::at_slot;
use crate::resp::Protocol;
use crate::scripts::ScriptsMode;
use crate::session::Session;

/// Where the records are in this process: a hash, by the libraries' names.
const LIBRARIES: &str = "claret:functions";

impl Client {
    /// A function; `None`: there is none that could run here, or the user may not see which there are, so a node is to say.
    pub(crate) async fn function(
        &mut self,
        session: &Session,
        name: &Bytes,
    ) -> Result<Option<Script>, Fault> {
        if self.shared.functions.borrow().is_fresh()
            && let Some(function) = self.shared.functions.borrow().find(name)
        {
            return Ok(Some(function));
        }
        let (began, shared) = (Instant::now(), Rc::clone(&self.shared));
        let turn = shared.scripts.turn_to_list().await;
        // Many may have come with it, and one of them has asked for all.
        if !shared.functions.borrow().is_known_since(began) {
            let changes = shared.functions.borrow().changes();
            match self.library_texts(session).await {
                Ok(texts) => self.know(texts, changes).await,
                Err(fault) if fault.text().starts_with("NOPERM") => return Ok(None),
                Err(fault) => return Err(fault),
            }
        }
        drop(turn);
        match self.shared.functions.borrow().find(name) {
            None if session.nodes().is_none() => Err(Fault::told("ERR Function not found")),
            function => Ok(function),
        }
    }

    /// The texts of all libraries.
    async fn library_texts(&mut self, session: &Session) -> Result<Vec<Bytes>, Fault> {
        let Some(nodes) = session.nodes() else {
            let store = self.shared.store_for(session, &self.caller).await?;
            let Answer::Array(texts) = self.of_record(&store, LIBRARIES, "HVALS", Vec::new()).await? else {
                return Ok(Vec::new());
            };
            return Ok(texts.into_iter().filter_map(of_bulk).collect());
        };
        let plain = nodes.plain(Protocol::Resp2).await.map_err(away)?;
        let told = at_slot(plain, None, &["FUNCTION", "LIST", "WITHCODE"], true).await?;
        if told.starts_with(b"-") {
            return Err(Fault::told(String::from_utf8_lossy(&told[1..]).trim_end()));
        }
        let Answer::Array(libraries) = as_value(Answer::Raw(told)) else {
            return Err(Fault::told("ERR a node does not tell which functions it has"));
        };
        let text = |library: Answer| match library {
            Answer::Array(about) => {
                let at = about
                    .iter()
                    .position(|it| matches!(it, Answer::Bulk(name) if &name[..] == b"library_code"));
                about.into_iter().nth(at? + 1).and_then(of_bulk)
            }
            _ => None,
        };
        Ok(libraries.into_iter().filter_map(text).collect())
    }

    /// These are the libraries that there were when they had changed so often. One that does not compile here has no functions here.
    async fn know(&self, texts: Vec<Bytes>, changes: u64) {
        let _turn = self.shared.scripts.turn().await;
        let known = self.shared.functions.borrow().by_digest().clone();
        let compile = move || {
            let library = |text: Bytes| {
                let digest = digest_of(&text);
                let library = known.get(&digest).cloned().unwrap_or_else(|| Library::load(&text).ok());
                (digest, library)
            };
            texts.into_iter().map(library).collect()
        };
        if let Ok(libraries) = tokio::task::spawn_blocking(compile).await {
            self.shared.functions.borrow_mut().know(libraries, changes);
        }
    }

    /// `FUNCTION`, as far as the gateway has to do with it; `None`: it is the nodes' alone.
    pub(crate) async fn function_command(&mut self, command: &Command, words: &[Word]) -> Option<Answer> {
        let session = self.session.clone()?;
        let at_nodes = session.nodes().is_some();
        if self.shared.modes.scripts == ScriptsMode::Node && at_nodes {
            return None;
        }
        let name = words.get(1)?.to_ascii_uppercase();
        let changes = matches!(&name[..], b"LOAD" | b"DELETE" | b"FLUSH" | b"RESTORE");
        if at_nodes && !changes {
            return None;
        }
        let done = match at_nodes {
            true => self.change_at_nodes(&session, command, words).await,
            false => self.function_here(&session, &name, &words[2..]).await,
        };
        self.shared.functions.borrow_mut().may_have_changed();
        Some(done.unwrap_or_else(Answer::from))
    }

    /// Compiles a library, on another thread, one at a time.
    async fn load(&self, text: &Word) -> Result<Library, Fault> {
        let _turn = self.shared.scripts.turn().await;
        let text = text.clone();
        let loaded = tokio::task::spawn_blocking(move || Library::load(&text)).await;
        Ok(loaded.map_err(|_| Fault::told("ERR the library could not be compiled"))??)
    }

    async fn change_at_nodes(
        &mut self,
        session: &Session,
        command: &Command,
        words: &[Word],
    ) -> Result<Answer, Fault> {
        // What would not run here is not loaded.
        if words[1].eq_ignore_ascii_case(b"LOAD") {
            self.load(words.last().expect("a command has words")).await?;
        }
        fan_out(session, (self.state.protocol, self.state.has_logged_in), command, words).await
    }

    /// The same where the records are in this process.
    async fn function_here(
        &mut self,
        session: &Session,
        name: &[u8],
        words: &[Word],
    ) -> Result<Answer, Fault> {
        let store = self.shared.store_for(session, &self.caller).await?;
        let changes = self.shared.functions.borrow().changes();
        let texts = self.library_texts(session).await?;
        self.know(texts, changes).await;
        let known: Vec<Library> = self.shared.functions.borrow().libraries().cloned().collect();
        match (name, words) {
            (b"LOAD", [options @ .., text]) if options.len() <= 1 => {
                let replaces = match options {
                    [] => false,
                    [option] if option.eq_ignore_ascii_case(b"REPLACE") => true,
                    [option, ..] => {
                        return Err(Fault::told(format!(
                            "ERR Unknown option given: {}",
                            option.escape_ascii()
                        )));
                    }
                };
                let library = self.load(text).await?;
                check_new(&library, &known, replaces)?;
                let entry = vec![library.name().into(), Bytes::copy_from(text)];
                self.of_record(&store, LIBRARIES, "HSET", entry).await?;
                Ok(Answer::text(library.name()))
            }
            (b"DELETE", [name]) => {
                match self.of_record(&store, LIBRARIES, "HDEL", vec![Bytes::copy_from(name)]).await? {
                    Answer::Int(1) => Ok(Answer::Ok),
                    _ => Err(Fault::told("ERR Library not found")),
                }
            }
            (b"FLUSH", [] | [_]) => {
                self.of_record(&store, LIBRARIES, "DEL", Vec::new()).await?;
                Ok(Answer::Ok)
            }
            (b"LIST", options) => list(known, options),
            _ => Err(Fault::told("ERR in this process there are FUNCTION LOAD, DELETE, FLUSH and LIST")),
        }
    }
}

/// Whether a library can be added to these.
fn check_new(library: &Library, known: &[Library], replaces: bool) -> Result<(), Fault> {
    let name = library.name();
    if !replaces && known.iter().any(|it| it.name() == name) {
        return Err(Fault::told(format!("ERR Library '{name}' already exists")));
    }
    let others: Vec<&Script> =
        known.iter().filter(|it| it.name() != name).flat_map(Library::functions).collect();
    let is_taken = |it: &&Script| others.iter().any(|other| other.digest().eq_ignore_ascii_case(it.digest()));
    match library.functions().iter().find(is_taken) {
        Some(function) => Err(Fault::told(format!("ERR Function {} already exists", function.digest()))),
        None => Ok(()),
    }
}

fn list(mut known: Vec<Library>, mut options: &[Word]) -> Result<Answer, Fault> {
    let mut with_text = false;
    loop {
        match options {
            [] => break,
            [option, rest @ ..] if option.eq_ignore_ascii_case(b"WITHCODE") => {
                (with_text, options) = (true, rest);
            }
            [option, pattern, rest @ ..] if option.eq_ignore_ascii_case(b"LIBRARYNAME") => {
                known.retain(|library| matches_pattern(pattern, library.name().as_bytes()));
                options = rest;
            }
            [option, ..] => {
                return Err(Fault::told(format!("ERR Unknown argument {}", option.escape_ascii())));
            }
        }
    }
    known.sort_by(|one, other| one.name().cmp(other.name()));
    Ok(Answer::Array(known.iter().map(|library| library.about(with_text)).collect()))
}

fn of_bulk(answer: Answer) -> Option<Bytes> {
    match answer {
        Answer::Bulk(bytes) => Some(bytes),
        _ => None,
    }
}
