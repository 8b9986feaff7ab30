//! The keys of all nodes of a cluster: `SCAN` on each, over a connection of its own.

use std::collections::VecDeque;
use std::time::Instant;

use claret_planted::{Bug, is_planted};
use claret_redis::connection::Connection;
use claret_redis::{Address, ConnectError, Settings};
use claret_types::{Bytes, Reply};
use tokio::runtime::Handle;

use crate::error::{BeginError, CommitError, Error, ExecuteError, Reason};
use crate::pages::{PAGE, PageFuture, Pages};

/// A listing, on whatever runtime its user is. A page that was given up halfway is fetched again.
#[derive(Debug)]
pub(super) struct Listing {
    runtime: Handle,
    settings: Settings,
    pattern: Bytes,
    /// Those that are not done, the one that is asked first.
    nodes: VecDeque<Address>,
    /// To that one, if there is one.
    connection: Option<Connection>,
    /// Where it goes on.
    cursor: Bytes,
}

impl Listing {
    pub(super) fn new(runtime: Handle, settings: Settings, nodes: Vec<Address>, pattern: Bytes) -> Self {
        let cursor = Bytes::from(FIRST);
        Listing { runtime, settings, pattern, nodes: nodes.into(), connection: None, cursor }
    }

    async fn page(&mut self) -> Result<Option<Vec<Bytes>>, Error> {
        let Some(node) = self.nodes.front().cloned() else { return Ok(None) };
        let ask = ask(
            self.settings.clone(),
            node,
            self.connection.take(),
            self.pattern.clone(),
            self.cursor.clone(),
        );
        // A runtime that has ended answers nothing.
        let answered = self.runtime.spawn(ask).await.map_err(|_| Error::Begin(BeginError::Closed))?;
        let (connection, page) = answered?;
        self.cursor = page.cursor;
        self.connection = Some(connection);
        if self.cursor == Bytes::from(FIRST) {
            self.nodes.pop_front();
            if is_planted(Bug::FirstNodeListed) {
                self.nodes.clear();
            }
            self.connection = None;
        }
        Ok(Some(page.keys))
    }
}

impl Pages for Listing {
    fn next_page(&mut self) -> PageFuture<'_> {
        Box::pin(self.page())
    }
}

/// The cursor that begins, and ends.
const FIRST: &str = "0";

/// Asks a node for a page.
async fn ask(
    settings: Settings,
    node: Address,
    connection: Option<Connection>,
    pattern: Bytes,
    cursor: Bytes,
) -> Result<(Connection, Page), Error> {
    let began = Instant::now();
    let silent = |error: ConnectError| {
        Error::Commit(CommitError::NoAnswer { after: began.elapsed(), reason: Reason::new(error) })
    };
    let refused =
        |why: &dyn std::fmt::Display| Error::Execute(ExecuteError::Refused(format!("{node}: {why}")));
    let mut connection = match connection {
        Some(connection) => connection,
        None => {
            let mut connection = Connection::open(&settings, &node).await.map_err(silent)?;
            connection.set_bounds(settings.limits().of_work());
            connection
        }
    };
    let count = Bytes::from(PAGE.to_string());
    let words = ["SCAN".into(), cursor, "MATCH".into(), pattern, "COUNT".into(), count];
    let reply = connection.ask(&words).await.map_err(silent)?.map_err(|error| refused(&error))?;
    let page = Page::read(reply).ok_or_else(|| refused(&"a malformed answer to SCAN"))?;
    Ok((connection, page))
}

struct Page {
    cursor: Bytes,
    keys: Vec<Bytes>,
}

impl Page {
    fn read(reply: Reply) -> Option<Self> {
        let Reply::Array(parts) = reply else { return None };
        let [Reply::Bytes(cursor), Reply::Array(keys)] = <[Reply; 2]>::try_from(parts).ok()? else {
            return None;
        };
        let key = |key| if let Reply::Bytes(key) = key { Some(key) } else { None };
        Some(Page { cursor, keys: keys.into_iter().map(key).collect::<Option<_>>()? })
    }
}
