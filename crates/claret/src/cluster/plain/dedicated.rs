//! A dedicated connection, for commands that a shared one cannot carry.

use claret_types::Reply;

use super::command::{Command, PlainError};
use crate::cluster::address::Address;
use crate::cluster::connection::Connection;
use crate::cluster::error::ConnectError;
use crate::cluster::resp::ServerError;
use crate::cluster::settings::Settings;

/// A dedicated connection, as WATCH needs it.
#[derive(Debug)]
pub struct Dedicated {
    connection: Connection,
}

impl Dedicated {
    pub(super) async fn open(settings: &Settings, node: &Address) -> Result<Self, ConnectError> {
        let mut connection = Connection::open(settings, node).await?;
        connection.set_bounds(settings.limits.of_work());
        Ok(Dedicated { connection })
    }

    /// Sends a command and waits for its reply.
    ///
    /// # Errors
    /// See [`PlainError`].
    pub async fn ask(&mut self, command: &Command) -> Result<Reply, PlainError> {
        let asked = self.connection.ask(command.words()).await;
        asked.map_err(|error| self.lost(&error))?.map_err(PlainError::Server)
    }

    /// Sends commands in one piece and waits for all replies, each of which may be an error of its own.
    ///
    /// # Errors
    /// When the connection breaks.
    pub async fn run(&mut self, commands: &[Command]) -> Result<Vec<Result<Reply, ServerError>>, PlainError> {
        let words = commands.iter().map(Command::words);
        self.connection.ask_all(words).await.map_err(|error| self.lost(&error))
    }

    fn lost(&self, error: &ConnectError) -> PlainError {
        PlainError::Lost { node: self.node(), reason: error.to_string() }
    }

    /// The node at the other end.
    pub fn node(&self) -> String {
        self.connection.node.to_string()
    }
}
