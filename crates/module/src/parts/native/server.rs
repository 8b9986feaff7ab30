//! The server, as far as records are read from it and written to it. [`KeyspaceServer`](crate::node::keyspace)
//! implements it; tests have a small model of one.

use std::ffi::CStr;

use claret_types::Bytes;

use super::held_ends::HeldEnds;
use crate::ffi::{Answer, Kind, Side};
use crate::parts::command_table::Row;

/// A server with keys.
pub(crate) trait Server {
    /// A string of its own.
    type Text: AsRef<[u8]>;
    /// A key that is open.
    type Key: OpenKey;

    fn text(&self, bytes: &[u8]) -> Self::Text;

    /// Opens a key; `None` when it is not there.
    fn open(&self, name: &Self::Text) -> Option<Self::Key>;

    /// A key that was opened expires at this time. Whoever holds it hears of that when it comes.
    fn note_end(&self, key: &Bytes, end: i64);

    /// Runs a command that reads, on a key.
    fn read<'a>(
        &self,
        command: &CStr,
        name: &Self::Text,
        arguments: impl IntoIterator<Item = &'a [u8]>,
    ) -> Answer;

    /// So many elements and bytes were read of a key for a call.
    fn note_read(&self, elements: usize, bytes: usize);

    /// The memory that a key takes, in bytes, with each of its elements. O(elements), and nothing is copied.
    fn memory(&self, name: &Self::Text) -> usize;

    /// So many elements are read at most for an operation that answers less than it reads.
    fn whole_elements_max(&self) -> usize;

    /// Runs a command that writes, on a key, and passes it on to the replicas and the append-only file. Of its answer an error
    /// counts alone.
    fn write<'a>(&self, command: &CStr, key: &Bytes, arguments: impl IntoIterator<Item = &'a [u8]>)
    -> Answer;

    /// The same with words that the server keeps as they are: it makes nothing compact of them.
    fn write_as_is<'a>(
        &self,
        command: &CStr,
        key: &Bytes,
        arguments: impl IntoIterator<Item = &'a [u8]>,
    ) -> Answer;

    /// Runs a command of any kind, whole; `passes_on`: to the replicas and the append-only file.
    fn command(&self, words: &[Bytes], passes_on: bool) -> Answer;

    /// Where the keys of a command are among its words.
    fn key_places(&self, words: &[Bytes]) -> Vec<usize>;

    /// What is known of a command of this name.
    fn row(&self, name: &[u8]) -> Option<Row>;

    /// A command was run that may have changed when the key expires. Whether it is still there: its time may be over.
    fn expiry_changed(&self, key: &Bytes, name: &Self::Text) -> bool;

    /// Gives a key that is there another end, which replicas and the append-only file do not hear of. Whether it is there.
    fn set_end_here(&self, name: &Self::Text, end: i64) -> bool;

    /// Whether a key that is not there was when somebody looked at it last, and its time has come since.
    fn has_come_to_its_end(&self, key: &Bytes) -> bool;

    /// Lends the notes of ends that are put off.
    fn held_ends<R>(&self, use_them: impl FnOnce(&mut HeldEnds) -> R) -> R;

    /// What time it is by the server's clock, in milliseconds since 1970.
    fn now_ms(&self) -> i64;

    /// The longest string that the server appends to, in bytes.
    fn append_bytes_max(&self) -> Option<usize>;

    /// Tells the operator.
    fn warn(&self, text: &str);
}

/// A key that is there, and open.
pub(crate) trait OpenKey {
    /// What the server hands out.
    type Text: AsRef<[u8]>;

    fn kind(&self) -> Kind;

    /// In milliseconds since 1970, if it expires.
    fn expires_at(&self) -> Option<i64>;

    /// Elements, or bytes of a string.
    fn len(&self) -> usize;

    /// The bytes of a string; one that is kept in a compact way becomes an ordinary one.
    fn string(&self) -> &[u8];

    /// The value of a hash's field.
    fn field(&self, name: &[u8]) -> Option<Self::Text>;

    /// The score of a sorted set's member.
    fn score(&self, member: &[u8]) -> Option<f64>;

    /// So many members of a sorted set with their scores, from an end of it.
    fn outermost(&self, end: Side, count: usize) -> Vec<(Bytes, f64)>;
}
