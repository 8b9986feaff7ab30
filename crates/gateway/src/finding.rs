//! What all nodes are asked for a transaction, outside of it: how many keys there are, which, a setting; and flushes (G3 of docs/gateway.md).

use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes as Word;
use claret_commands::{Answer, Command, Later, named};
use claret_types::Bytes;

use crate::client::Client;
use crate::fan_out::{as_value, fan_out};
use crate::fault::Fault;
use crate::replies::late_at_node;
use crate::resp::Protocol;
use crate::session::Session;
use crate::work::Finds;

/// So many random keys are found for a transaction that may remove some.
const RANDOM_KEYS: usize = 8;

/// Asks for a client.
pub(crate) struct Finder {
    session: Rc<Session>,
    protocol: Protocol,
    has_logged_in: bool,
    /// The longest that it waits.
    wait: Duration,
}

impl Client {
    /// Whoever asks nodes for this client, which its commands use as well.
    pub(crate) fn finds(&self, session: &Rc<Session>) -> Rc<Finder> {
        let finder = Rc::new(Finder {
            session: Rc::clone(session),
            protocol: self.state.protocol,
            has_logged_in: self.state.has_logged_in,
            wait: self.shared.times.wait,
        });
        self.work.finds_by(Rc::clone(&finder) as Rc<dyn Finds>);
        finder
    }
}

impl Finder {
    /// What all nodes answer, in what is left of the time since this began.
    pub(crate) async fn ask(
        &self,
        command: &Command,
        words: &[Word],
        is_read: bool,
        began: Instant,
    ) -> Result<Answer, Fault> {
        let asked = fan_out(&self.session, (self.protocol, self.has_logged_in), command, words);
        let asked = tokio::time::timeout(self.wait.saturating_sub(began.elapsed()), Box::pin(asked)).await;
        let answer = asked.map_err(|_| Fault::Late(late_at_node(is_read, self.wait)))?;
        let text = match answer {
            Ok(Answer::Error(text)) => text,
            Ok(Answer::Raw(bytes)) if bytes.starts_with(b"-") => {
                String::from_utf8_lossy(&bytes[1..]).trim_end().to_owned()
            }
            Ok(answer) => return Ok(answer),
            Err(fault) => fault.text(),
        };
        match is_read && text.starts_with("UNKNOWN ") {
            true => Err(Fault::told("TRYAGAIN nothing was changed: a node did not answer")),
            false => Err(Fault::told(text)),
        }
    }

    /// What a [`Question`](claret_commands::Question) wants to be told. `writes`: its transaction may remove keys.
    pub(crate) async fn find(
        &self,
        command: &Command,
        words: &[Bytes],
        writes: bool,
        began: Instant,
    ) -> Result<Answer, Fault> {
        let name = std::iter::once(Word::from_static(command.name.as_bytes()));
        let words: Vec<Word> = name.chain(words.iter().map(|word| Word::copy_from_slice(word))).collect();
        let found = as_value(self.ask(command, &words, true, began).await?);
        if command.name != "RANDOMKEY" {
            return Ok(found);
        }
        let mut keys = vec![found];
        while writes && keys.len() < RANDOM_KEYS {
            keys.push(as_value(self.ask(command, &words, true, began).await?));
        }
        Ok(Answer::Array(keys))
    }
}

impl Finds for Finder {
    fn for_script(
        &self,
        name: &'static str,
        words: Vec<Bytes>,
    ) -> Later<'_, Result<Answer, claret_commands::Fault>> {
        Box::pin(async move {
            let command = named(name.as_bytes()).expect("a command of the table");
            let found = self.find(command, &words, true, Instant::now()).await;
            found.map_err(|fault| claret_commands::Fault::Told(fault.text()))
        })
    }
}
