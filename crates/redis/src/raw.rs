//! A connection of one's own through which commands and replies go as they are.

use crate::address::Address;
use crate::command::CommandError;
use crate::connection::Connection;
use crate::dedicated::Dedicated;
use crate::error::ConnectError;
use crate::settings::Settings;

/// What a connection that is read a few bytes at a time needs, mostly.
const ROOM: usize = 4 * 1024;

/// A connection of one's own to one node, on which whatever is said is said as it is: for commands that wait on the server
/// (BLPOP), for channels (SUBSCRIBE), and for WATCH, MULTI and EXEC on one node. Made by [`Cluster::raw`](crate::Cluster::raw) and
/// [`Builder::raw`](crate::Builder::raw); it is logged in.
///
/// Nothing is followed: MOVED and ASK are replies. It ends when it is dropped, and what waits on the server with it.
#[derive(Debug)]
pub struct Raw {
    connection: Connection,
}

/// What a server said, one whole value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// As it came, in the protocol of the connection.
    pub bytes: bytes::Bytes,
    /// Whether it is no reply to a command. In RESP2 there is no such thing: messages of channels come as arrays.
    pub is_push: bool,
}

impl Raw {
    pub(crate) async fn open(settings: &Settings, node: &Address) -> Result<Self, ConnectError> {
        Dedicated::open(settings, node).await.map(Raw::of)
    }

    /// To this node, or to the first of those that the settings name and that answers.
    pub(crate) async fn to(settings: &Settings, node: Option<&str>) -> Result<Self, ConnectError> {
        Dedicated::to(settings, node).await.map(Raw::of)
    }

    fn of(dedicated: Dedicated) -> Self {
        let mut connection = dedicated.into_connection();
        connection.set_room(ROOM);
        Raw { connection }
    }

    /// The node at the other end.
    pub fn node(&self) -> String {
        self.connection.node().to_string()
    }

    /// Sends bytes: commands, whole or in parts. What is sent before goes first. If it is cancelled, all of the bytes are sent
    /// nevertheless, by the next call of this or of [`Raw::next`].
    ///
    /// A server may not read on before what it said is read, so whoever sends much calls [`Raw::queue`] and [`Raw::next`] instead.
    ///
    /// # Errors
    /// The connection broke: [`CommandError::Lost`].
    pub async fn send(&mut self, commands: &[u8]) -> Result<(), CommandError> {
        self.queue(commands);
        self.connection.flush().await.map_err(|error| self.lost(&error))
    }

    /// Has bytes sent by [`Raw::next`] while that waits.
    pub fn queue(&mut self, commands: &[u8]) {
        self.connection.queue(commands);
    }

    /// How many bytes are queued and not sent yet.
    pub fn queued(&self) -> usize {
        self.connection.queued()
    }

    /// Waits for the next thing that the server says, however long that takes, and sends meanwhile what is queued. It may be
    /// cancelled at any time without a loss.
    ///
    /// # Errors
    /// The connection broke, or the server says more than [`ReplyLimits`](crate::ReplyLimits) allow: [`CommandError::Lost`].
    /// Nothing more comes then.
    pub async fn next(&mut self) -> Result<Frame, CommandError> {
        let heard = self.connection.receive_raw().await;
        heard.map(|(bytes, is_push)| Frame { bytes, is_push }).map_err(|error| self.lost(&error))
    }

    fn lost(&self, error: &ConnectError) -> CommandError {
        CommandError::Lost { node: self.node(), reason: error.to_string() }
    }
}
