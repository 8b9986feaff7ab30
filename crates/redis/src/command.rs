//! A plain command, and the errors instead of its reply.

use claret_types::Bytes;
use smallvec::SmallVec;
use thiserror::Error;

use crate::error::ConnectError;
use crate::resp::ServerError;
use crate::topology::slot_of;

/// A Redis command: words, and the key that says which node it goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a command does nothing until it is sent"]
pub struct Command {
    pub(crate) words: SmallVec<[Bytes; 4]>,
    pub(crate) slot: Option<u16>,
}

impl Command {
    /// A command without arguments.
    pub fn new(name: impl Into<Bytes>) -> Self {
        Command { words: SmallVec::from_iter([name.into()]), slot: None }
    }

    /// Adds an argument.
    pub fn arg(mut self, word: impl Into<Bytes>) -> Self {
        self.words.push(word.into());
        self
    }

    /// Adds a key. The first one says which node the command goes to.
    pub fn key(mut self, key: impl Into<Bytes>) -> Self {
        let key = key.into();
        self.slot.get_or_insert_with(|| slot_of(&key));
        self.words.push(key);
        self
    }

    pub(crate) fn with_slot(mut self, slot: u16) -> Self {
        self.slot = Some(slot);
        self
    }

    /// Its words: the name, then the arguments.
    pub fn words(&self) -> &[Bytes] {
        &self.words
    }
}

/// Why a plain command has no reply.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CommandError {
    /// The server answered with an error.
    #[error("{0}")]
    Server(ServerError),
    /// The connection broke before the reply came: the command may have been carried out.
    #[error("the connection broke before the reply came ({reason}); the command may have been carried out")]
    Lost {
        /// Where it went.
        node: String,
        /// Why it broke, as far as it is known.
        reason: String,
    },
    /// It was not sent.
    #[error("not sent: {0}")]
    Away(ConnectError),
    /// Nobody of that name is a node of the cluster.
    #[error("'{0}' is not a node of the cluster; name one of `Cluster::nodes`")]
    NoSuchNode(String),
}
