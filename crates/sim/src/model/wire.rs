//! Frames: everything that one side has for another at one instant.

use claret_core::AttemptId;
use claret_core::message::{Request, Response};
use claret_types::{Bytes, Operation, Reply};

/// An operation without a transaction; the number is the caller's.
#[derive(Debug)]
pub(super) struct Plain {
    pub(super) terminal: usize,
    pub(super) at: usize,
    pub(super) hash: u64,
    pub(super) key: Bytes,
    pub(super) op: Operation,
}

/// Operations of a stage between `MULTI` and `EXEC`; a single one needs neither.
#[derive(Debug)]
pub(super) struct Multi {
    pub(super) terminal: usize,
    /// Each with its key's hash.
    pub(super) calls: Vec<(u64, Bytes, Operation)>,
}

impl Multi {
    /// How many commands it takes.
    pub(super) fn commands(&self) -> u64 {
        match self.calls.len() as u64 {
            1 => 1,
            operations => operations + 2,
        }
    }
}

/// From a process to a shard.
#[derive(Debug)]
pub(super) enum Asked {
    Request(Request),
    Plain(Plain),
    Multi(Multi),
}

/// From a shard to a process.
#[derive(Debug)]
pub(super) enum ShardMessage {
    Response(Response),
    Plain {
        terminal: usize,
        at: usize,
        reply: Reply,
    },
    /// What `EXEC` answers.
    Exec {
        terminal: usize,
        replies: Vec<Reply>,
    },
}

/// Work for a shard.
#[derive(Debug)]
pub(super) struct AskFrame {
    pub(super) process: usize,
    pub(super) parts: Vec<Asked>,
}

/// Work for a process.
#[derive(Debug)]
pub(super) struct TellFrame {
    pub(super) shard: usize,
    pub(super) parts: Vec<ShardMessage>,
    /// It answers a frame of the process's, and is no push.
    pub(super) is_answer: bool,
}

impl AskFrame {
    /// Puts what frees locks first (P41), behind nothing but earlier parts of its own attempt.
    pub(super) fn put_releases_first(&mut self) {
        let mut seen: Vec<AttemptId> = Vec::new();
        let (mut first, mut rest) = (Vec::new(), Vec::new());
        for part in self.parts.drain(..) {
            match &part {
                Asked::Request(Request::Apply { .. }) => first.push(part),
                Asked::Request(Request::Abort { attempt, .. } | Request::Withdraw { attempt })
                    if !seen.contains(attempt) =>
                {
                    first.push(part);
                }
                Asked::Request(Request::Execute { attempt, .. } | Request::Prepare { attempt, .. }) => {
                    seen.push(*attempt);
                    rest.push(part);
                }
                Asked::Request(_) | Asked::Plain(_) | Asked::Multi(_) => rest.push(part),
            }
        }
        first.append(&mut rest);
        self.parts = first;
    }
}

/// How many messages a part counts for at the process: each operation, and otherwise one.
pub(super) fn asked_weight(part: &Asked) -> u64 {
    match part {
        Asked::Request(Request::Execute { calls, .. }) => calls.len() as u64,
        Asked::Request(Request::Prepare { calls, .. }) => calls.len().max(1) as u64,
        Asked::Multi(multi) => multi.commands(),
        Asked::Request(_) | Asked::Plain(_) => 1,
    }
}
