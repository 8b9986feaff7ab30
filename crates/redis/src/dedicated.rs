//! A dedicated connection, for commands that a shared one cannot carry.

use claret_types::Reply;

use crate::address::Address;
use crate::bounds::ReplyLimits;
use crate::command::{Command, CommandError};
use crate::connection::Connection;
use crate::error::ConnectError;
use crate::net::topology_of;
use crate::resp::ServerError;
use crate::secret::without_passwords;
use crate::settings::Settings;

/// A dedicated connection to one node, as WATCH needs it, or whoever asks each node for itself.
#[derive(Debug)]
pub struct Dedicated {
    connection: Connection,
    limits: ReplyLimits,
}

impl Dedicated {
    pub(crate) async fn open(settings: &Settings, node: &Address) -> Result<Self, ConnectError> {
        let mut connection = Connection::open(settings, node).await?;
        connection.set_bounds(settings.limits.of_work());
        Ok(Dedicated { connection, limits: settings.limits })
    }

    /// To this node, or to the first of those that the settings name and that answers.
    pub(crate) async fn to(settings: &Settings, node: Option<&str>) -> Result<Self, ConnectError> {
        if let Some(node) = node {
            let reason = || "name a node as host:port".to_owned();
            let url = || ConnectError::Url { url: without_passwords(node), reason: reason() };
            return Self::open(settings, &Address::parse(node).ok_or_else(url)?).await;
        }
        let mut failed = None;
        for seed in &settings.seeds {
            match Self::open(settings, seed).await {
                Ok(open) => return Ok(open),
                // Of several errors the first final one tells most.
                Err(error) if failed.as_ref().is_none_or(ConnectError::is_retryable) => failed = Some(error),
                Err(_) => {}
            }
        }
        Err(failed.expect("a URL names a node"))
    }

    pub(crate) fn into_connection(self) -> Connection {
        self.connection
    }

    /// The addresses of the nodes that serve slots, as this one sees it: also of those that are down.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn nodes(&mut self) -> Result<Vec<String>, ConnectError> {
        let topology = topology_of(&mut self.connection, &self.limits).await;
        self.connection.set_bounds(self.limits.of_work());
        Ok(topology?.nodes().iter().map(ToString::to_string).collect())
    }

    /// Sends a command and waits for its reply.
    ///
    /// # Errors
    /// See [`CommandError`].
    pub async fn ask(&mut self, command: &Command) -> Result<Reply, CommandError> {
        let asked = self.connection.ask(command.words()).await;
        asked.map_err(|error| self.lost(&error))?.map_err(CommandError::Server)
    }

    /// Sends commands in one piece and waits for all replies, each of which may be an error of its own.
    ///
    /// # Errors
    /// When the connection breaks.
    pub async fn run(
        &mut self,
        commands: &[Command],
    ) -> Result<Vec<Result<Reply, ServerError>>, CommandError> {
        let words = commands.iter().map(Command::words);
        self.connection.ask_all(words).await.map_err(|error| self.lost(&error))
    }

    fn lost(&self, error: &ConnectError) -> CommandError {
        CommandError::Lost { node: self.node(), reason: error.to_string() }
    }

    /// The node at the other end.
    pub fn node(&self) -> String {
        self.connection.node().to_string()
    }
}
