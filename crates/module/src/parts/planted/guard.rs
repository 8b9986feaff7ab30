//! Planted bugs of the guard: queues, verdicts, keys of MULTI, pops, slots that leave.

use claret_planted::{Bug, is_planted};
use claret_types::{Access, Operation};

use crate::parts::plain::{is_move, whole};

// --- verdicts ---

/// Whether a command is left to its EXEC: [`Bug::JudgedAgainInExec`].
pub(crate) fn passes_in_exec(passes: bool) -> bool {
    passes && !is_planted(Bug::JudgedAgainInExec)
}

/// Whether a command takes a slot away: [`Bug::SlotLeavesInExec`].
pub(crate) fn takes_slot(takes: bool) -> bool {
    takes && !is_planted(Bug::SlotLeavesInExec)
}

/// Whether a command has as many words as the server takes: [`Bug::ArityUnchecked`].
pub(crate) fn fits(fits: bool) -> bool {
    fits || is_planted(Bug::ArityUnchecked)
}

/// Whether the user may run a command: [`Bug::ForbiddenWaits`].
pub(crate) fn is_allowed(is_allowed: bool) -> bool {
    is_allowed || is_planted(Bug::ForbiddenWaits)
}

/// Whether a client can be made to wait: [`Bug::AlwaysWaits`].
pub(crate) fn may_wait(may_wait: bool) -> bool {
    may_wait || is_planted(Bug::AlwaysWaits)
}

/// Whether what stands behind a command of the module's may only read: [`Bug::WritesBehindRead`].
pub(crate) fn only_reads(only_reads: bool) -> bool {
    only_reads && !is_planted(Bug::WritesBehindRead)
}

/// Whether a script may not run a command: [`Bug::ScriptRunsForbidden`].
pub(crate) fn is_forbidden(is_forbidden: bool) -> bool {
    is_forbidden && !is_planted(Bug::ScriptRunsForbidden)
}

/// Whether a key is kept for the next try of a command: [`Bug::ReservedInTheWay`].
pub(crate) fn is_kept(is_kept: bool) -> bool {
    is_kept && !is_planted(Bug::ReservedInTheWay)
}

/// Whether what was ordered on a key is settled: [`Bug::UnsettledTold`].
pub(crate) fn is_settled(is_settled: bool) -> bool {
    is_settled || is_planted(Bug::UnsettledTold)
}

/// Whether a use brings something to one who sleeps: [`Bug::SleeperGetsHeld`].
pub(crate) fn brings(brings: bool) -> bool {
    brings && !is_planted(Bug::SleeperGetsHeld)
}

/// Whether a use of the whole record conflicts: [`Bug::OtherTypesPass`].
pub(crate) fn conflicts_as_a_whole(conflicts: bool) -> bool {
    conflicts && !is_planted(Bug::OtherTypesPass)
}

/// What a plain read is to the lock: [`Bug::ReadsExclude`].
pub(crate) fn read(read: Operation) -> Operation {
    if is_planted(Bug::ReadsExclude) { whole(Access::Write) } else { read }
}

// --- keys of commands ---

/// The keys that are judged: [`Bug::FirstHeldKeyAlone`].
pub(crate) fn judged<T>(mut held: Vec<T>) -> Vec<T> {
    if is_planted(Bug::FirstHeldKeyAlone) {
        held.truncate(1);
    }
    held
}

/// The places of a command's keys: [`Bug::SourceAlone`].
pub(crate) fn places<'a>(
    places: impl Iterator<Item = usize>,
    name: impl FnOnce() -> &'a [u8],
) -> impl Iterator<Item = usize> {
    let moves = |name: &[u8]| is_move(name) || ["SMOVE", "LMOVE", "RPOPLPUSH"].iter().any(|it| is(name, it));
    places.take(if is_planted(Bug::SourceAlone) && moves(name()) { 1 } else { usize::MAX })
}

fn is(name: &[u8], known: &str) -> bool {
    name.eq_ignore_ascii_case(known.as_bytes())
}

/// The place of the last key, counted from the end: [`Bug::LastKeysUnseen`].
pub(crate) fn last(last: i32, first: i32) -> i32 {
    if is_planted(Bug::LastKeysUnseen) { first } else { last }
}

/// Whether a command uses the records' database: [`Bug::OtherDatabasesWait`].
pub(crate) fn is_of_records(is_of_records: bool) -> bool {
    is_of_records || is_planted(Bug::OtherDatabasesWait)
}

// --- MULTI ---

/// For whose EXEC keys are noted: [`Bug::AskedKeysUnnoted`], [`Bug::UnlinkUnnoted`].
pub(crate) fn noted_for<'a>(
    client: Option<Option<u64>>,
    is_asked: bool,
    name: impl FnOnce() -> &'a [u8],
) -> Option<Option<u64>> {
    client
        .filter(|_| !(is_asked && is_planted(Bug::AskedKeysUnnoted)))
        .filter(|_| !(is_planted(Bug::UnlinkUnnoted) && is(name(), "UNLINK")))
}

/// Whether a user's command may be noted: [`Bug::NotedWhoeverAsks`].
pub(crate) fn may_note(may: bool) -> bool {
    may || is_planted(Bug::NotedWhoeverAsks)
}

/// Whether the sender of an EXEC may know of a key: [`Bug::KeysOfOthersRefuse`].
pub(crate) fn may_see(may: bool) -> bool {
    may || is_planted(Bug::KeysOfOthersRefuse)
}

/// Whether a command is queued: [`Bug::QueuedPopsJudged`].
pub(crate) fn is_queued(is_queued: bool, is_pop: bool) -> bool {
    is_queued && !(is_pop && is_planted(Bug::QueuedPopsJudged))
}

/// Whose MULTI is over with its EXEC: [`Bug::RefusedExecKeepsKeys`].
pub(crate) fn ended_by_exec(client: Option<u64>, is_refused: bool) -> Option<u64> {
    client.filter(|_| !(is_refused && is_planted(Bug::RefusedExecKeepsKeys)))
}

/// Whose MULTI is over with its connection: [`Bug::ClosedMultiStays`].
pub(crate) fn ended_by_close(client: Option<u64>) -> Option<u64> {
    client.filter(|_| !is_planted(Bug::ClosedMultiStays))
}

/// Whether a key becomes one that is written: [`Bug::ReadThenWrittenIsRead`].
pub(crate) fn becomes_written(is_written: bool) -> bool {
    is_written && !is_planted(Bug::ReadThenWrittenIsRead)
}

/// What is known at first of those that nobody looked at: [`Bug::OlderMultiUnseen`].
pub(crate) fn at_first<T: Default>(unseen: T) -> T {
    if is_planted(Bug::OlderMultiUnseen) { T::default() } else { unseen }
}

/// Whether there are more keys than are noted: [`Bug::OverfullForgotten`].
pub(crate) fn is_overfull(is_overfull: bool) -> bool {
    is_overfull && !is_planted(Bug::OverfullForgotten)
}

// --- the queue ---

/// Whether a key is free again: [`Bug::FreeAtFirstEnd`].
pub(crate) fn is_free(is_free: bool) -> bool {
    is_free || is_planted(Bug::FreeAtFirstEnd)
}

/// What is held of the rest: [`Bug::RestUnasked`].
pub(crate) fn held_of_rest<T>(mut held: Vec<T>) -> Vec<T> {
    if is_planted(Bug::RestUnasked) {
        held.clear();
    }
    held
}

/// The shard at which somebody who does not run after all lets others on at once: [`Bug::LeaverHoldsOff`].
pub(crate) fn lets_on<T>(shard: Option<T>) -> Option<T> {
    shard.filter(|_| !is_planted(Bug::LeaverHoldsOff))
}

/// Until when granted keys are kept: [`Bug::KeptFromTheAsking`].
pub(crate) fn kept_until<T>(from_grant: T, from_asking: T) -> T {
    if is_planted(Bug::KeptFromTheAsking) { from_asking } else { from_grant }
}

/// How many reservations are over: [`Bug::ReservationsStayCounted`].
pub(crate) fn over(over: u64) -> u64 {
    if is_planted(Bug::ReservationsStayCounted) { 0 } else { over }
}

/// Whether the time of one who waits is over: [`Bug::WaitsForEver`].
pub(crate) fn is_late(is_late: bool) -> bool {
    is_late && !is_planted(Bug::WaitsForEver)
}

/// Whether a command whose record vanished asks again: [`Bug::VanishedUnasked`].
pub(crate) fn asks_again(asks: bool) -> bool {
    asks && !is_planted(Bug::VanishedUnasked)
}

/// Whether a want becomes one to write: [`Bug::ReadAndWrittenAskedAsRead`].
pub(crate) fn wants_to_write(writes: bool) -> bool {
    writes && !is_planted(Bug::ReadAndWrittenAskedAsRead)
}

// --- pops and slots ---

/// Whether a second transaction is in the way of those who sleep: [`Bug::SecondComerLetBe`].
pub(crate) fn is_in_the_way(is: bool) -> bool {
    is && !is_planted(Bug::SecondComerLetBe)
}

/// Whether a sleeper would move something to a key: [`Bug::TargetsLetBe`].
pub(crate) fn is_target(is: bool) -> bool {
    is && !is_planted(Bug::TargetsLetBe)
}

/// Whether a key has what is popped: [`Bug::AnyKindWakesPop`].
pub(crate) fn is_of_kind(is: bool) -> bool {
    is || is_planted(Bug::AnyKindWakesPop)
}

/// What of a slot is in use: [`Bug::SlotLeavesInUse`].
pub(crate) fn in_use<T>(used: Option<T>) -> Option<T> {
    used.filter(|_| !is_planted(Bug::SlotLeavesInUse))
}

/// Whether nobody knows what was written in a slot: [`Bug::SlotLeavesUnknown`].
pub(crate) fn is_unknown(is: bool) -> bool {
    is && !is_planted(Bug::SlotLeavesUnknown)
}

/// The batch that the replicas must have before a slot leaves: [`Bug::SlotLeavesUnconfirmed`].
pub(crate) fn waits_for(batch: Option<u64>) -> Option<u64> {
    batch.filter(|_| !is_planted(Bug::SlotLeavesUnconfirmed))
}

/// The slots that were on their way when the primary died: [`Bug::StrandedServed`].
pub(crate) fn stranded(slots: Vec<u16>) -> Vec<u16> {
    if is_planted(Bug::StrandedServed) { Vec::new() } else { slots }
}

/// The slots that are on their way, for replicas to know: [`Bug::SlotOnItsWayUntold`].
pub(crate) fn told(slots: Vec<u16>) -> Vec<u16> {
    if is_planted(Bug::SlotOnItsWayUntold) { Vec::new() } else { slots }
}

/// Whether a client that was let go is the one that is gone: [`Bug::GoneLeavesSlotClosed`].
pub(crate) fn is_gone(is: bool) -> bool {
    is && !is_planted(Bug::GoneLeavesSlotClosed)
}

/// Whether a slot is here and not on its way: [`Bug::SlotOnItsWayServed`].
pub(crate) fn is_served(is_served: bool) -> bool {
    is_served || is_planted(Bug::SlotOnItsWayServed)
}

// --- entries ---

/// Whether clients are paused, so that nothing may be written: [`Bug::GrantedInPause`].
pub(crate) fn is_paused(is_paused: bool) -> bool {
    is_paused && !is_planted(Bug::GrantedInPause)
}

/// Whether a command is looked at also when nothing is held: [`Bug::IdleMultiUnseen`].
pub(crate) fn is_never_passed(is: bool) -> bool {
    is && !is_planted(Bug::IdleMultiUnseen)
}

/// How long a pop waits, in milliseconds: [`Bug::ShortPopsWaitForEver`].
pub(crate) fn millis(up: u64, seconds: f64) -> u64 {
    if is_planted(Bug::ShortPopsWaitForEver) { (seconds * 1e3) as u64 } else { up }
}

/// The keys at which pops were passed over, and which are free: [`Bug::PassedOverForgotten`].
pub(crate) fn signalled<T>(mut free: Vec<T>) -> Vec<T> {
    if is_planted(Bug::PassedOverForgotten) {
        free.clear();
    }
    free
}

/// Whether more keys may be kept: [`Bug::ReservationsUnbounded`].
pub(crate) fn may_reserve(may: bool) -> bool {
    may || is_planted(Bug::ReservationsUnbounded)
}

/// Whether a command has subcommands with keys: [`Bug::SubcommandsUnseen`].
pub(crate) fn have_keys(have: bool) -> bool {
    have && !is_planted(Bug::SubcommandsUnseen)
}

/// Whether a name of a command is that of one without records: [`Bug::ChannelsAreKeys`].
pub(crate) fn is_channel(is: bool) -> bool {
    is && !is_planted(Bug::ChannelsAreKeys)
}

/// Whether the server would make the client of a command wait: [`Bug::SlotWaitsForReplicas`].
pub(crate) fn would_wait(would: bool) -> bool {
    would && !is_planted(Bug::SlotWaitsForReplicas)
}
