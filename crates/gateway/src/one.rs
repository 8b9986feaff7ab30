//! A command that uses keys and is not just sent on, outside of MULTI.

use std::time::Instant;

use bytes::Bytes as Word;
use claret_commands::{Answer, Command, NoKeys, Plan, Way};

use crate::client::{Client, crosses_slots};
use crate::fault::Fault;
use crate::place;
use crate::publish::publish;
use crate::queue::is_publish;
use crate::request::arguments;
use crate::session::Session;

impl Client {
    /// A command that uses keys: within what is watched, at its node, or as a transaction.
    pub(crate) async fn one(&mut self, command: &'static Command, words: &[Word]) -> Answer {
        if self.state.watch.concerns(command, words)
            && let Some(answered) = self.between_watch_and_multi(command, words).await
        {
            return answered.unwrap_or_else(Answer::from);
        }
        let Some(session) = self.session.clone() else {
            return Answer::error("NOAUTH Authentication required.");
        };
        if command.way == Way::Blocking {
            return self.block(command, words).await;
        }
        if command.way == Way::Script {
            return self.script(command, words).await;
        }
        if session.nodes().is_some() && !command.is_own && command.slot(words) != Err(NoKeys::SeveralSlots) {
            return self.apart(&session, command, words).await.unwrap_or_else(Answer::from);
        }
        if is_publish(command) {
            return publish(&self.shared, &session, self.state.protocol, words, Instant::now()).await;
        }
        if command.is_step(words) {
            return self.stepped(&session, command, words).await.unwrap_or_else(Answer::from);
        }
        if !command.way.is_transactional() {
            return crosses_slots(command).into();
        }
        let (shared, caller, id) = (self.shared.clone(), self.caller.clone(), self.entry.id);
        let runner = self.work.clone();
        let work = async {
            let began = Instant::now();
            let mut store = shared.store_for(&session, &caller).await?;
            let keys = || command.keys_in(words);
            if command.writes
                && place::pass(&session.turns, (id, &caller), keys, shared.times.passing()).await?
            {
                store = shared.for_the_rest(&store, began);
            }
            Ok(command.alone(&store, &runner, &arguments(words)).await?)
        };
        let done = self.until_gone(work).await;
        done.unwrap_or_else(|fault: Fault| {
            self.shared.note_fault(&fault);
            Answer::from(fault)
        })
    }

    /// A command that servers carry out, or in this process who keeps the records, as a transaction (A19, A34).
    pub(crate) async fn stepped(
        &mut self,
        session: &Session,
        command: &'static Command,
        words: &[Word],
    ) -> Result<Answer, Fault> {
        let mut plan = Plan::new(Vec::new(), 1);
        plan.command(command, arguments(words))?;
        let store = self.shared.store_for(session, &self.caller).await?;
        let work = self.work.clone();
        let answers = self.until_gone(plan.commit(&store, &work)).await?;
        if command.writes {
            self.shared.here.over.notify_waiters();
        }
        Ok(answers.into_iter().next().unwrap_or(Answer::NilArray))
    }
}
