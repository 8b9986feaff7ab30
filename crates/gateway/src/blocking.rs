//! Commands that block: at the node of their slot, or, where pops have keys in several slots or the records are in this process, as
//! transactions that sleep (G14 of docs/gateway.md).

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes as Word;
use claret::Caller;
use claret_commands::{Answer, Command, NoKeys, Waiting};

use crate::client::Client;
use crate::fault::Fault;
use crate::request::arguments;
use crate::session::Session;
use crate::waits::{Ending, Unblock, WaitsAt};

impl Client {
    /// A command that may block.
    pub(crate) async fn block(&mut self, command: &'static Command, words: &[Word]) -> Answer {
        let session = self.session.clone().expect("it was admitted");
        let metrics = Arc::clone(&self.shared.metrics);
        let is_for_a_node = session.nodes().is_some() && command.slot(words) != Err(NoKeys::SeveralSlots);
        metrics.blocked.fetch_add(1, Ordering::Relaxed);
        let answer = match () {
            () if is_for_a_node => self.apart(&session, command, words).await,
            () if command.is_of_streams() => Box::pin(self.read_streams(&session, command, words)).await,
            () => self.sleep(&session, command, words).await,
        };
        metrics.blocked.fetch_sub(1, Ordering::Relaxed);
        answer.unwrap_or_else(Answer::from)
    }

    /// A pop on keys wherever they are, which waits until there is something.
    async fn sleep(&mut self, session: &Session, command: &Command, words: &[Word]) -> Result<Answer, Fault> {
        let words = arguments(words);
        let time = command.waits_for(&words)?;
        // Its age says who is served first. It is its own: to wait is no try of a loop with WATCH.
        let caller = Caller::new();
        caller.tries();
        let store = self.shared.store_for(session, &caller).await?;
        let (runner, waiting, unblock) = (self.work.clone(), Waiting::new(), Arc::new(Unblock::default()));
        let entry = Arc::clone(&self.entry);
        // What is there is taken and answered, however short the time is.
        let began = Instant::now();
        let tried = std::mem::replace(&mut self.caller, caller.clone());
        let found = self.until_gone(command.take_now(&store, &runner, &words)).await;
        self.caller = tried;
        if let Some(answer) = found? {
            return Ok(answer);
        }
        let time = time.map(|time| time.saturating_sub(began.elapsed()));
        let mut work = pin!(command.wait(&store, &runner, &words, &waiting));
        entry.waits_at(Some(WaitsAt::Here(Arc::clone(&unblock)))).await;
        let waits = async {
            tokio::select! {
                biased;
                done = &mut work => Ok(done),
                () = over(time) => Err(Ending::Timeout),
                how = unblock.told() => Err(how),
            }
        };
        let ended = self.unless_gone(waits).await;
        let is_taking = waiting.end();
        if ended.is_none() {
            // The client has gone: what waits for others ends without effect, and what is decided is carried out.
            caller.leave();
        }
        let taken = match &ended {
            Some(Ok(_)) => Ok(None),
            // What is being taken is taken, and answered.
            _ if is_taking => work.await,
            _ => Ok(None),
        };
        entry.waits_at(None).await;
        match (ended, taken?) {
            (Some(Ok(done)), _) => Ok(done?.unwrap_or_else(|| command.nothing_taken())),
            (_, Some(taken)) => Ok(taken),
            (Some(Err(Ending::Error)), None) => {
                Ok(Answer::error("UNBLOCKED client unblocked via CLIENT UNBLOCK"))
            }
            (_, None) => Ok(command.nothing_taken()),
        }
    }
}

/// Until that time is over; for ever if there is none.
async fn over(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}
