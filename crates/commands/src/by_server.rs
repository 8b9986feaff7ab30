//! Which commands of a transaction the servers of their keys carry out, with its commit (A19, A22).

use std::collections::BTreeSet;

use claret_planted::{Bug, is_planted};
use claret_types::{Access, Bytes, KeyspaceOp, Operation};

use crate::fault::Fault;
use crate::table::Command;

/// Keys on which servers carry out commands: whatever comes behind them there is carried out by servers, too.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByServer {
    run_on: BTreeSet<Bytes>,
    /// Keys that the transaction may have changed otherwise.
    changed: BTreeSet<Bytes>,
}

impl ByServer {
    /// The command as a server carries it out, if it does: since no operation is that, or since it comes behind such a one on its key
    /// (A22).
    ///
    /// # Errors
    /// It would have to be, and cannot be.
    pub(crate) fn step(
        &mut self,
        command: &Command,
        words: &[Bytes],
    ) -> Result<Option<(Bytes, Operation)>, Fault> {
        if !command.is_run_by_server() && self.run_on.is_empty() {
            return Ok(None); // Mostly.
        }
        let mut all = vec![Bytes::from(command.name)];
        all.extend_from_slice(words);
        let keys: BTreeSet<Bytes> = command.keys_in(&all).map(Bytes::copy_from).collect();
        let is_behind =
            !is_planted(Bug::CommandsPassCommands) && keys.iter().any(|key| self.run_on.contains(key));
        if !command.is_run_by_server() && !is_behind {
            return Ok(None);
        }
        let shown = command.name.to_ascii_lowercase();
        if command.is_own {
            return Err(Fault::told(format!(
                "ERR '{shown}' is an operation of Claret, and an earlier command of this transaction is carried out by the server of its \
                 key: use another key, or another transaction"
            )));
        }
        let mut keys = keys.into_iter();
        let (Some(key), None) = (keys.next(), keys.next()) else {
            return Err(Fault::told(format!(
                "ERR '{shown}' has several keys, and a step that is carried out by the server of its key has one: send it for each key, or \
                 use another transaction"
            )));
        };
        // It may keep what it has counted in the record.
        let reads = !command.writes && command.name != "PFCOUNT";
        let access = if reads { Access::Read } else { Access::Write };
        let op = Operation::from(KeyspaceOp::Run(claret_types::Command::new(access, &all)));
        self.note(&key);
        Ok(Some((key, op)))
    }

    /// The command as a question to the server of its key, if one is asked now: it only reads, is no operation, and the transaction has
    /// not changed the key, of which the server would know nothing (A18).
    pub(crate) fn question(&self, command: &Command, words: &[Bytes]) -> Option<(Bytes, Operation)> {
        if command.writes || !command.is_run_by_server() {
            return None; // Mostly.
        }
        let mut all = vec![Bytes::from(command.name)];
        all.extend_from_slice(words);
        let key = match command.keys_in(&all).collect::<BTreeSet<&[u8]>>().into_iter().collect::<Vec<_>>()[..]
        {
            [key] => Bytes::copy_from(key),
            _ => return None,
        };
        (!self.has_changed(&key) || is_planted(Bug::AsksBehindWrites)).then(|| {
            let asked = claret_types::Command::new(Access::Read, &all);
            (key, Operation::from(KeyspaceOp::Ask(asked)))
        })
    }

    /// Whether the transaction may have changed this key.
    pub(crate) fn has_changed(&self, key: &Bytes) -> bool {
        self.run_on.contains(key) || self.changed.contains(key)
    }

    /// The transaction may have changed this key.
    pub(crate) fn note_changed(&mut self, key: Bytes) {
        self.changed.insert(key);
    }

    /// The first of these keys on which a server carries out a command.
    pub(crate) fn first_of<'a>(&self, keys: &'a [Bytes]) -> Option<&'a Bytes> {
        keys.iter().find(|key| self.run_on.contains(*key))
    }

    /// A server carries out a command on this key.
    pub(crate) fn note(&mut self, key: &Bytes) {
        self.run_on.insert(key.clone());
    }
}
