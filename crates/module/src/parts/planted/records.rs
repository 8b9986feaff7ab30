//! Planted bugs of native records: partial states, effects as plain commands, and their way to replicas and the append-only file.

use std::ffi::CStr;

use claret_planted::{Bug, is_planted};

use claret_types::{Bytes, Expiry, OpError};

use crate::ffi::Answer;

// --- what is passed on ---

/// Whether a write is passed on: [`Bug::HdelUnreplicated`], [`Bug::SremUnreplicated`], [`Bug::DelUnreplicated`].
pub(crate) fn is_passed_on(command: &CStr) -> bool {
    let stays = |bug, name: &CStr| is_planted(bug) && command == name;
    let stays_here = stays(Bug::HdelUnreplicated, c"HDEL")
        || stays(Bug::SremUnreplicated, c"SREM")
        || stays(Bug::DelUnreplicated, c"DEL");
    !stays_here
}

/// Whether the server may throw keys away: [`Bug::EvictedOrdered`].
pub(crate) fn is_evicting(is_evicting: bool) -> bool {
    is_evicting && !is_planted(Bug::EvictedOrdered)
}

/// What is about to vanish and is looked at before: [`Bug::FlushedUnseen`].
pub(crate) fn vanishing(held: Vec<Bytes>) -> Vec<Bytes> {
    if is_planted(Bug::FlushedUnseen) { Vec::new() } else { held }
}

/// Whether what is decided now could not be carried out: [`Bug::WritesWhilePaused`].
pub(crate) fn is_barred(is_barred: bool) -> bool {
    is_barred && !is_planted(Bug::WritesWhilePaused)
}

/// Whether a command may add to the memory: [`Bug::SortedSetsOverMemory`].
pub(crate) fn adds(adds: bool, command: &str) -> bool {
    adds && !(is_planted(Bug::SortedSetsOverMemory) && command.starts_with('Z'))
}

// --- effects ---

/// The effects that are carried out: [`Bug::FirstEffectAlone`].
pub(crate) fn carried_out<T>(effects: &[T]) -> &[T] {
    if is_planted(Bug::FirstEffectAlone) { &effects[..1] } else { effects }
}

/// The portions in which much is written: [`Bug::FirstPortionAlone`].
pub(crate) fn written<T>(portions: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    portions.take(if is_planted(Bug::FirstPortionAlone) { 1 } else { usize::MAX })
}

/// What the server said of a write: [`Bug::RefusalUntold`].
pub(crate) fn said(answer: Answer) -> Answer {
    if is_planted(Bug::RefusalUntold) { Answer::Nil } else { answer }
}

/// A value, and that its time to live stays: [`Bug::FloatLosesEnd`].
pub(crate) fn keeping_end(words: [&[u8]; 2]) -> impl Iterator<Item = &[u8]> {
    words.into_iter().take(if is_planted(Bug::FloatLosesEnd) { 1 } else { 2 })
}

/// When a record expires: [`Bug::ExpiryUnseen`].
pub(crate) fn expiry<T>(expiry: Option<T>) -> Option<T> {
    expiry.filter(|_| !is_planted(Bug::ExpiryUnseen))
}

/// Whether ends wait for votes about them: [`Bug::EndsPassVotes`].
pub(crate) fn holds_ends() -> bool {
    !is_planted(Bug::EndsPassVotes)
}

/// Whether an end that a transaction sets is written while others hold the key's: [`Bug::HeldEndsUnwritten`].
pub(crate) fn writes_held_ends() -> bool {
    !is_planted(Bug::HeldEndsUnwritten)
}

/// Whether it is the record whose end was held: [`Bug::HeldEndsOfOthers`].
pub(crate) fn is_same_record(is: bool) -> bool {
    is || is_planted(Bug::HeldEndsOfOthers)
}

/// The end of a key that was held: [`Bug::HeldEndsStay`].
pub(crate) fn end_after(end: Expiry) -> Expiry {
    let later = || Expiry::at_ms(end.ms() + 600_000);
    if is_planted(Bug::HeldEndsStay) { later().unwrap_or(end) } else { end }
}

/// That an expiry is only put off: [`Bug::ExpiryBroughtForward`].
pub(crate) fn only_later(option: &'static [u8]) -> Option<&'static [u8]> {
    Some(option).filter(|_| !is_planted(Bug::ExpiryBroughtForward))
}

/// [`Bug::ExpiryUnnoted`].
pub(crate) fn leaves_expiry_unnoted() -> bool {
    is_planted(Bug::ExpiryUnnoted)
}

/// [`Bug::PutOnTop`].
pub(crate) fn puts_on_top() -> bool {
    is_planted(Bug::PutOnTop)
}

/// Whether a key may be gone after own effects: [`Bug::EmptiedIsThere`].
pub(crate) fn may_be_emptied(may: bool) -> bool {
    may && !is_planted(Bug::EmptiedIsThere)
}

/// What is left to add: [`Bug::LastSumUnwritten`].
pub(crate) fn left_to_add(sum: Option<i64>) -> Option<i64> {
    sum.filter(|_| !is_planted(Bug::LastSumUnwritten))
}

/// How many values a pop takes: [`Bug::PopsOne`].
pub(crate) fn popped(count: usize) -> usize {
    if is_planted(Bug::PopsOne) { 1 } else { count }
}

/// The values of a push, in order: [`Bug::PushesTurned`].
pub(crate) fn pushed<T>(mut values: Vec<T>) -> Vec<T> {
    if is_planted(Bug::PushesTurned) {
        values.reverse();
    }
    values
}

/// A score as text: [`Bug::ScoresRounded`].
pub(crate) fn digits(digits: String, score: f64) -> String {
    if is_planted(Bug::ScoresRounded) { format!("{score:.3}") } else { digits }
}

/// Whether more are in than count: [`Bug::BestUntrimmed`].
pub(crate) fn is_over(is_over: bool) -> bool {
    is_over && !is_planted(Bug::BestUntrimmed)
}

/// Whether how many count is to be written: [`Bug::CapacityUnwritten`].
pub(crate) fn is_new(is_new: bool) -> bool {
    is_new && !is_planted(Bug::CapacityUnwritten)
}

/// Whether an offer comes to nothing: [`Bug::LateOfferWritten`].
pub(crate) fn is_below(is_below: bool) -> bool {
    is_below && !is_planted(Bug::LateOfferWritten)
}

// --- what is read ---

/// Whether a key is of the kind that is asked for: [`Bug::AnyKindTaken`].
pub(crate) fn is_of_kind(is: bool) -> bool {
    is || is_planted(Bug::AnyKindTaken)
}

/// Whether all that is in an object is read: [`Bug::MembersUnread`].
pub(crate) fn looks_into(within: bool) -> bool {
    within && !is_planted(Bug::MembersUnread)
}

/// Whether a hash is a document: [`Bug::RootlessTaken`].
pub(crate) fn is_document(has_root: bool) -> bool {
    has_root || is_planted(Bug::RootlessTaken)
}

/// Whether effects are of an operation's own type: [`Bug::OtherTypesUnread`].
pub(crate) fn are_own(are_own: bool) -> bool {
    are_own || is_planted(Bug::OtherTypesUnread)
}

/// What the owner's own effects touch: [`Bug::OwnUnseen`].
pub(crate) fn touched<T>(touched: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    touched.take(if is_planted(Bug::OwnUnseen) { 0 } else { usize::MAX })
}

/// How many members a set has besides those that are looked at: [`Bug::OthersUncounted`].
pub(crate) fn elsewhere(count: usize) -> usize {
    if is_planted(Bug::OthersUncounted) { 0 } else { count }
}

/// How many fields a dict has besides those that are looked at: [`Bug::FieldsUncounted`].
pub(crate) fn other_fields(count: usize) -> usize {
    if is_planted(Bug::FieldsUncounted) { 0 } else { count }
}

/// How far into a list a position reaches: [`Bug::ReachTooShort`].
pub(crate) fn reach(reach: usize) -> usize {
    reach - usize::from(is_planted(Bug::ReachTooShort))
}

/// How many members are below: [`Bug::RanksFromZero`].
pub(crate) fn below(below: usize) -> usize {
    if is_planted(Bug::RanksFromZero) { 0 } else { below }
}

/// Whether a number is written as the server writes it: [`Bug::PaddedNumbersTaken`].
pub(crate) fn is_canonical(is_canonical: bool) -> bool {
    is_canonical || is_planted(Bug::PaddedNumbersTaken)
}

/// Whether a counter is out of its bounds: [`Bug::OutOfBoundsTaken`].
pub(crate) fn is_out_of_bounds(is_out: bool) -> bool {
    is_out && !is_planted(Bug::OutOfBoundsTaken)
}

/// Whether a string would be longer than the server makes it: [`Bug::LongAppendPromised`].
pub(crate) fn is_too_long(is_too_long: bool) -> bool {
    is_too_long && !is_planted(Bug::LongAppendPromised)
}

/// What the node's schema says of an operation: [`Bug::SchemaUnasked`].
#[inline]
pub(crate) fn judged(fits: Result<(), OpError>) -> Result<(), OpError> {
    if is_planted(Bug::SchemaUnasked) { Ok(()) } else { fits }
}

/// The key beside another one, in its slot: [`Bug::SideInOtherSlot`].
pub(crate) fn beside(mut key: Vec<u8>) -> Vec<u8> {
    if is_planted(Bug::SideInOtherSlot) {
        key.retain(|byte| !b"{}".contains(byte));
    }
    key
}

// --- what is read, and what has changed ---

/// Whether a record is small enough to be read as a whole: [`Bug::WholeReadsUnbounded`].
pub(crate) fn is_little(is: bool) -> bool {
    is || is_planted(Bug::WholeReadsUnbounded)
}

/// [`Bug::VersionOutlivesChange`].
pub(crate) fn keeps_version() -> bool {
    is_planted(Bug::VersionOutlivesChange)
}

/// What versions may take: [`Bug::VersionsUnbounded`].
pub(crate) fn versions_bytes(most: usize) -> usize {
    if is_planted(Bug::VersionsUnbounded) { usize::MAX } else { most }
}

/// Whether the next change would be seen: [`Bug::VersionWhereNobodyLooks`].
pub(crate) fn sees_next(does: bool) -> bool {
    does || is_planted(Bug::VersionWhereNobodyLooks)
}

/// Whether the server tells nothing of what a command changes: [`Bug::SilentChangesMissed`].
pub(crate) fn is_silent(is: bool) -> bool {
    is && !is_planted(Bug::SilentChangesMissed)
}
