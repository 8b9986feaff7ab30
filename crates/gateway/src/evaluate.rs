//! Scripts of a client: at their node, or as a transaction here; and the texts that it loads (G15 of docs/gateway.md).

use std::time::{Duration, Instant};

use bytes::Bytes as Word;
use claret::Store;
use claret_commands::{Answer, Command, Evaluation, Plan, Script, digest_of, named};
use claret_planted::{Bug, is_planted};
use claret_types::Bytes;

use crate::client::Client;
use crate::fan_out::fan_out;
use crate::fault::Fault;
use crate::passthrough::away;
use crate::publish::publish_all;
use crate::query::at_slot;
use crate::scripts::{Called, Names, ScriptsMode, is_script};
use crate::session::Session;

/// That a user may run scripts is known for so long, as of strangers what they may.
const RIGHTS_KNOWN: Duration = Duration::from_millis(500);

/// The record in which gateways keep the texts that were loaded: a hash, by digest.
const TEXTS: &str = "claret:scripts";

impl Client {
    /// A script, outside of MULTI.
    pub(crate) async fn script(&mut self, command: &'static Command, words: &[Word]) -> Answer {
        let done = self.run_script(command, words).await;
        done.unwrap_or_else(|fault| {
            self.shared.note_fault(&fault);
            Answer::from(fault)
        })
    }

    async fn run_script(&mut self, command: &'static Command, words: &[Word]) -> Result<Answer, Fault> {
        let Some(session) = self.session.clone() else {
            return Err(Fault::told("NOAUTH Authentication required."));
        };
        let mode = self.shared.modes.scripts;
        let at_nodes = session.nodes().is_some();
        if at_nodes && (mode == ScriptsMode::Node || !is_script(command)) {
            return self.apart(&session, command, words).await;
        }
        let Some(evaluation) = self.evaluation(&session, command, words).await? else {
            return self.apart(&session, command, words).await;
        };
        if let (true, ScriptsMode::Several, Ok(slot)) = (at_nodes, mode, command.slot(words))
            && (evaluation.has_sure_keys() || is_planted(Bug::AnyScriptToNode))
        {
            return self.at_its_node(&session, command, words, slot, evaluation.script()).await;
        }
        self.may_evaluate(&session, command).await?;
        let (shared, caller, runner) = (self.shared.clone(), self.caller.clone(), self.work.clone());
        let (asker, protocol) = (session.clone(), self.state.protocol);
        self.finds(&session);
        let work = async {
            let store = shared.store_for(&asker, &caller).await?;
            let mut plan = Plan::new(Vec::new(), 1);
            plan.script(evaluation);
            let answer = plan.commit(&store, &runner).await?.pop().unwrap_or(Answer::Nil);
            shared.here.over.notify_waiters();
            publish_all(&shared, &asker, protocol, runner.take_messages()).await;
            Ok(answer)
        };
        self.until_gone(Box::pin(work)).await
    }

    /// Its node runs it. If that does not know its digest, it is sent the text.
    async fn at_its_node(
        &mut self,
        session: &Session,
        command: &'static Command,
        words: &[Word],
        slot: Option<u16>,
        script: &Script,
    ) -> Result<Answer, Fault> {
        let answer = self.apart(session, command, words).await?;
        let says_unknown = matches!(&answer, Answer::Raw(said) if said.starts_with(b"-NOSCRIPT"));
        if !says_unknown || !command.name.starts_with("EVALSHA") {
            return Ok(answer);
        }
        // A script may say so, too, and then it was run.
        let asked = [&b"SCRIPT"[..], b"EXISTS", script.digest().as_bytes()];
        if &self.of_node(session, slot, &asked).await?[..] != b"*1\r\n:0\r\n" {
            return Ok(answer);
        }
        let with_text = if command.name.ends_with("_RO") { "EVAL_RO" } else { "EVAL" };
        let with_text = named(with_text.as_bytes()).expect("it is in the table");
        let mut words = words.to_vec();
        words[0] = Word::from_static(with_text.name.as_bytes());
        words[1] = Word::copy_from_slice(script.text());
        self.apart(session, with_text, &words).await
    }

    /// What a node answers, of this slot or any.
    async fn of_node(&self, session: &Session, slot: Option<u16>, words: &[&[u8]]) -> Result<Word, Fault> {
        let nodes = session.nodes().expect("it is at nodes");
        let plain = nodes.plain(self.state.protocol).await.map_err(away)?;
        at_slot(plain, slot, words, true).await
    }

    /// Whether this user may run scripts, as a node judges: what runs here no node sees. It is asked every half second at most.
    pub(crate) async fn may_evaluate(&self, session: &Session, command: &Command) -> Result<(), Fault> {
        let Some(nodes) = session.nodes() else { return Ok(()) };
        let is_known = |since: &Instant| since.elapsed() < RIGHTS_KNOWN;
        if nodes.may_evaluate.borrow().get(command.name).is_some_and(is_known) {
            return Ok(());
        }
        let text = match Names::of(command) {
            Names::Text => &b"return 0"[..],
            Names::Digest => &[b'0'; 40],
            Names::Function => b"claret_no_function",
        };
        let said = self.of_node(session, None, &[command.name.as_bytes(), text, b"0"]).await?;
        if said.starts_with(b"-NOPERM") {
            return Err(Fault::told(String::from_utf8_lossy(&said[1..]).trim_end()));
        }
        nodes.may_evaluate.borrow_mut().insert(command.name, Instant::now());
        Ok(())
    }

    /// What a script command is to evaluate; `None`: only its node can say.
    pub(crate) async fn evaluation(
        &mut self,
        session: &Session,
        command: &Command,
        words: &[Word],
    ) -> Result<Option<Evaluation>, Fault> {
        let Called { names, named, keys, args, only_reads } = Called::of(command, words)?;
        let script = match names {
            Names::Text => self.shared.scripts.compiled(&named).await?,
            Names::Function => match self.function(session, &named).await? {
                Some(function)
                    if only_reads && !function.only_reads() && !is_planted(Bug::ReadFunctionsWrite) =>
                {
                    return Err(Fault::told(
                        "ERR Can not execute a script with write flag using *_ro command.",
                    ));
                }
                Some(function) => function,
                None => return Ok(None),
            },
            Names::Digest => {
                let digest = named.to_string().to_ascii_lowercase();
                match self.shared.scripts.get(&digest) {
                    Some(known) => known,
                    None => self.loaded(session, &digest).await?,
                }
            }
        };
        Ok(Some(Evaluation::new(script, keys, args, only_reads)))
    }

    /// A script that was loaded at another gateway, or at this one long ago.
    async fn loaded(&mut self, session: &Session, digest: &str) -> Result<Script, Fault> {
        let unknown = || Fault::told("NOSCRIPT No matching script. Please use EVAL.");
        if digest.len() != 40 {
            return Err(unknown());
        }
        let store = self.shared.store_for(session, &self.caller).await?;
        match self.of_texts(&store, "HGET", vec![Bytes::from(digest)]).await {
            // Whoever may write the record may put any text there.
            Ok(Answer::Bulk(text)) if digest_of(&text) == digest => self.shared.scripts.compiled(&text).await,
            // Who may not read it, or cannot now, is told as where there is none: a client says EVAL then.
            _ => Err(unknown()),
        }
    }

    /// A command on the texts that were loaded.
    async fn of_texts(&self, store: &Store, name: &str, words: Vec<Bytes>) -> Result<Answer, Fault> {
        self.of_record(store, TEXTS, name, words).await
    }

    /// A command on a record of the gateway's own.
    pub(crate) async fn of_record(
        &self,
        store: &Store,
        record: &'static str,
        name: &str,
        words: Vec<Bytes>,
    ) -> Result<Answer, Fault> {
        let command = named(name.as_bytes()).expect("it is in the table");
        let words: Vec<Bytes> = std::iter::once(Bytes::from(record)).chain(words).collect();
        Ok(command.alone(store, &self.work, &words).await?)
    }

    /// `SCRIPT`, as far as the gateway has to do with it; `None`: it is the nodes' alone.
    pub(crate) async fn script_command(&mut self, command: &Command, words: &[Word]) -> Option<Answer> {
        let session = self.session.clone()?;
        let at_nodes = session.nodes().is_some();
        if self.shared.modes.scripts == ScriptsMode::Node && at_nodes {
            return None;
        }
        let name = words.get(1)?.to_ascii_uppercase();
        let done = match (&name[..], &words[2..]) {
            (b"LOAD", [text]) => self.load_script(&session, command, words, text).await,
            (b"EXISTS", [_, ..]) => self.are_loaded(&session, &words[2..]).await,
            (b"FLUSH", rest) if rest.len() <= 1 => self.flush_scripts(&session, command, words).await,
            _ if !at_nodes => {
                Err(Fault::told("ERR in this process there are SCRIPT LOAD, EXISTS and FLUSH: see the page"))
            }
            _ => return None,
        };
        Some(done.unwrap_or_else(Answer::from))
    }

    async fn load_script(
        &mut self,
        session: &Session,
        command: &Command,
        words: &[Word],
        text: &Word,
    ) -> Result<Answer, Fault> {
        let script = self.shared.scripts.compiled(&Bytes::copy_from(text)).await?;
        let digest = Bytes::from(script.digest());
        if session.nodes().is_some() {
            // The nodes judge whether this user may.
            let asker = (self.state.protocol, self.state.has_logged_in);
            let told = fan_out(session, asker, command, words).await?;
            if told.is_error() {
                return Ok(told);
            }
        }
        let store = self.shared.store_for(session, &self.caller).await?;
        // Who may not write it has it at this gateway, and at the nodes.
        let _ = self.of_texts(&store, "HSET", vec![digest.clone(), Bytes::copy_from(text)]).await;
        Ok(Answer::Bulk(digest))
    }

    async fn are_loaded(&mut self, session: &Session, digests: &[Word]) -> Result<Answer, Fault> {
        let mut all = Vec::with_capacity(digests.len());
        for digest in digests {
            let digest = String::from_utf8_lossy(digest).to_ascii_lowercase();
            let is_known = match self.shared.scripts.get(&digest) {
                Some(_) => true,
                None => self.loaded(session, &digest).await.is_ok(),
            };
            all.push(Answer::bool(is_known));
        }
        Ok(Answer::Array(all))
    }

    async fn flush_scripts(
        &mut self,
        session: &Session,
        command: &Command,
        words: &[Word],
    ) -> Result<Answer, Fault> {
        if let [_, _, how] = words
            && !how.eq_ignore_ascii_case(b"SYNC")
            && !how.eq_ignore_ascii_case(b"ASYNC")
        {
            return Err(Fault::told("ERR SCRIPT FLUSH only support SYNC|ASYNC option"));
        }
        if session.nodes().is_some() {
            // The nodes judge whether this user may.
            let asker = (self.state.protocol, self.state.has_logged_in);
            let told = fan_out(session, asker, command, words).await?;
            if told.is_error() {
                return Ok(told);
            }
        }
        self.shared.scripts.forget_all();
        let store = self.shared.store_for(session, &self.caller).await?;
        self.of_texts(&store, "DEL", Vec::new()).await?;
        Ok(Answer::Ok)
    }
}
