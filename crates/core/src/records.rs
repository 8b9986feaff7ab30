//! Records that are not in a shard's memory but in an external store of the host, such as a Redis server.
//!
//! The shard keeps locks, queues and votes, and nothing of the records. Each time it decides whether a call gets its
//! lock it asks for a **partial state**, which holds what the call needs and no more. When the attempt is applied it
//! hands the decided effects back. Nothing is kept in between, so nothing can go stale.
//!
//! What the host must do: between two calls of the shard, a record that somebody holds ([`Shard::is_held`]) changes
//! only by [`Records::apply`], or by commands that do not conflict with what is held ([`Shard::conflicts`]). If a
//! record vanishes otherwise, the host reports it with [`Shard::vanished`] before anybody sees it. The shard hears
//! nothing while it handles an input: so a host whose records expire reads the clock once for each input, and first
//! reports which held records have expired by then. A record that nobody held, and that the host finds expired when
//! the shard asks for it, was gone before. The host does not report that, or the shard would order whoever asked
//! before the expiry.
//!
//! [`Shard::is_held`]: crate::Shard::is_held
//! [`Shard::conflicts`]: crate::Shard::conflicts
//! [`Shard::vanished`]: crate::Shard::vanished

use std::fmt;

use claret_types::{Bytes, Effect, OpError, Operation, Reply, Run, State, TypeInfo};

use crate::message::Refusal;

/// Where a shard's records are when they are not in its own memory: the host hands out parts of their states, and applies
/// what was decided. Between two calls of the shard, a record that somebody holds changes only by [`Records::apply`] or by
/// what does not conflict with it; a record that vanishes otherwise is reported by
/// [`Shard::vanished`](crate::Shard::vanished) first.
pub trait Records: Sync {
    /// What the unique numbers of this shard begin with: 14 bits that no other shard with records of the same host has
    /// now, and none had before with a later incarnation. Asked when an incarnation begins.
    fn tag(&self) -> u16;

    /// Whether an operation may be done here at all: permission, placement, memory, a server that only reads. Asked
    /// for each call when it arrives with an execute or a prepare, before it queues; once for calls of one message that are
    /// alike in key and method.
    ///
    /// # Errors
    /// Written as the attempt's no.
    fn admit(&self, key: &Bytes, op: &Operation) -> Result<(), Refusal>;

    /// Whether the host's schema has such an operation on this record. Asked as [`Records::admit`] is, but for each call: arguments
    /// count. By default there is no schema.
    ///
    /// # Errors
    /// What it breaks. Written as the attempt's no.
    fn judge(&self, key: &Bytes, op: &Operation) -> Result<(), OpError> {
        let _ = (key, op);
        Ok(())
    }

    /// A state in which `op`, once its owner's pending effects `own` are added to it in this order, executes exactly
    /// as in the whole record; `None` if there is no such key. What it must hold is said where each type's partial states are
    /// made ([`SetState::partial`](claret_types::SetState::partial) and so on); the whole record always will do.
    ///
    /// Where an effect in `own` is of another type than `op`, the partial state is the whole record, as a state of the first
    /// effect's type: whether the types agree shows once the effects are added.
    ///
    /// # Errors
    /// `WrongType` when `own` is empty and the key holds something that `op` does not work on; anything else that makes
    /// the operation impossible on this record.
    fn partial_state(&self, key: &Bytes, op: &Operation, own: &[&Effect]) -> Result<Option<State>, OpError>;

    /// The same for calls that are executed one after the other, each on top of the effects of those before it: a state in
    /// which the first of `ops` are, and of how many of them that is true, at least of one. So the effects in `own` are
    /// looked up once and not once for each call.
    ///
    /// # Errors
    /// As [`Records::partial_state`], for the first of `ops`.
    fn partial_state_for_all(
        &self,
        key: &Bytes,
        ops: &[&Operation],
        own: &[&Effect],
    ) -> Result<(Option<State>, usize), OpError> {
        Ok((self.partial_state(key, ops[0], own)?, 1))
    }

    /// What was read of records since this was asked last, for whatever the shard asked.
    fn take_read(&self) -> Read {
        Read::default()
    }

    /// Whether operations of this type on this record may be given their places before they are executed (P82): it is of that type
    /// or is not there, does not expire, and does not vanish unless [`Shard::vanishing`](crate::Shard::vanishing) says so
    /// before. By default never.
    fn may_order(&self, key: &Bytes, op: &Operation) -> bool {
        let _ = (key, op);
        false
    }

    /// All of a record, which is of this type and about to vanish; `None` if there is no such key.
    fn whole(&self, key: &Bytes, kind: &'static TypeInfo) -> Option<State> {
        let _ = (key, kind);
        None
    }

    /// Carries effects of one transaction out, in this order. They were decided while their claims were held, and cannot
    /// fail.
    ///
    /// A record whose time is over by what they say ends behind all of them, not among them: what comes after an `EXPIRE` would
    /// bring another record into being.
    fn apply(&self, key: &Bytes, effects: &[&Effect]) -> Applied;

    /// Carries out a command of one transaction, behind all other effects of it: its answer. What it does to the record's expiry
    /// counts. That it cannot be done was looked at when it was decided, so an answer says so if it fails all the same.
    fn run(&self, key: &Bytes, run: &Run) -> Reply {
        let _ = (key, run);
        Reply::Failed(Box::new(OpError::Told("ERR no server is here that carries out commands".into())))
    }

    /// From now on, or no more, somebody waits for what comes to this record: whatever changes it past the shard is told to
    /// [`Shard::stirred`](crate::Shard::stirred), soon.
    fn await_changes(&self, key: &Bytes, awaits: bool) {
        let _ = (key, awaits);
    }

    /// Somebody has voted whose effects may be about when the record ends: until [`Records::let_end`] it does not end by its
    /// time. Operations see the time that it had, or what effects made of it. By default no record ends by itself.
    fn hold_end(&self, key: &Bytes) -> HeldEnd {
        let _ = key;
        HeldEnd::Free
    }

    /// One of those for whom the end was [`HeldEnd::Held`] leaves, its effects carried out or dropped. When the last of them
    /// leaves, the record ends by its time again, and at once if that is over.
    fn let_end(&self, key: &Bytes) -> Applied {
        let _ = key;
        Applied::Done
    }
}

/// What a host has read of records for calls: it is taken from what an input may do (P38).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// Members, fields, values.
    pub elements: u64,
    /// Bytes in them, and of strings.
    pub bytes: u64,
}

impl Read {
    /// So many bytes cost as much as a call.
    pub(crate) const BYTES_WORTH: u64 = 1_024;
    /// So many elements cost as much as a call.
    const ELEMENTS_WORTH: u64 = 8;

    /// What it costs, in bytes.
    pub(crate) fn cost(self) -> u64 {
        let elements = self.elements.saturating_mul(Self::BYTES_WORTH / Self::ELEMENTS_WORTH);
        elements.saturating_add(self.bytes)
    }

    /// An answer is made of as much.
    pub(crate) fn of_answer(reply: &Reply) -> Self {
        match reply {
            Reply::Array(items) => {
                let beside = items.len() * size_of::<Reply>();
                Read { elements: items.len() as u64, bytes: (reply.size() - beside) as u64 }
            }
            _ => Read { elements: 0, bytes: (reply.size() - size_of::<Reply>()) as u64 },
        }
    }
}

impl std::ops::AddAssign for Read {
    fn add_assign(&mut self, more: Read) {
        self.elements = self.elements.saturating_add(more.elements);
        self.bytes = self.bytes.saturating_add(more.bytes);
    }
}

/// Whether a record's end was put off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldEnd {
    /// Nothing has to be: the record is not there, or has no end, or one so far away that every vote is decided before.
    Free,
    /// It does not come before [`Records::let_end`].
    Held,
    /// The record was there, and its time was over before it could be put off. The shard takes it for reported.
    Over,
}

/// What became of a record when effects were carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// They were carried out, and it does not end by time before the next input.
    Done,
    /// Its time was over, and it has ended: by itself, behind those who hold it.
    Ended,
}

/// The records of a shard that has none in its memory.
#[derive(Clone, Copy)]
pub(crate) struct External(pub(crate) &'static dyn Records);

impl fmt::Debug for External {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("External")
    }
}
