//! Planted bugs of the gateway, as in `crates/claret/src/cluster/planted.rs`.

use std::time::Duration;

use claret_planted::{Bug, is_planted};

/// What has to be so for an EXEC: [`Bug::WatchChecksNothing`].
pub(crate) fn expected<T>(mut expected: Vec<T>) -> Vec<T> {
    if is_planted(Bug::WatchChecksNothing) {
        expected.clear();
    }
    expected
}

/// [`Bug::ExecInPieces`].
pub(crate) fn comes_in_pieces() -> bool {
    is_planted(Bug::ExecInPieces)
}

/// Whether what EXEC has to find is that of keys, and not of answers alone: [`Bug::AnswersAloneCount`].
pub(crate) fn is_of_keys(is: bool) -> bool {
    is && !is_planted(Bug::AnswersAloneCount)
}

/// Whether a turn holds a key, so that nothing of it has to be compared: [`Bug::TurnTrustsAll`].
pub(crate) fn holds(does: bool) -> bool {
    does || is_planted(Bug::TurnTrustsAll)
}

/// [`Bug::IdForgotten`].
pub(crate) fn forgets_ids() -> bool {
    is_planted(Bug::IdForgotten)
}

// --- turns ---

/// [`Bug::TurnKeepsItsKeys`].
pub(crate) fn keeps_keys_of_turns() -> bool {
    is_planted(Bug::TurnKeepsItsKeys)
}

/// Whether an elder waits for a key: [`Bug::EldersPassed`].
pub(crate) fn is_wanted(is: bool) -> bool {
    is && !is_planted(Bug::EldersPassed)
}

/// Whether a turn has lasted for long enough: [`Bug::TurnsWithoutEnd`].
pub(crate) fn is_over(is: bool) -> bool {
    is && !is_planted(Bug::TurnsWithoutEnd)
}

/// How long keys rest after locks: [`Bug::KeysNeverRest`].
pub(crate) fn rest(rest: Duration) -> Duration {
    if is_planted(Bug::KeysNeverRest) { Duration::ZERO } else { rest }
}

/// [`Bug::TurnsInVain`].
pub(crate) fn insists_on_turns() -> bool {
    is_planted(Bug::TurnsInVain)
}

// --- bounds ---

/// Whether all connections together keep too much: [`Bug::SumUnbounded`].
pub(crate) fn is_over_the_sum(is: bool) -> bool {
    is && !is_planted(Bug::SumUnbounded)
}

/// Whether one keeps too much: [`Bug::ConnectionUnbounded`].
pub(crate) fn is_over_its_own(is: bool) -> bool {
    is && !is_planted(Bug::ConnectionUnbounded)
}

/// What is kept of what is gone: [`Bug::GoneStillCharged`].
pub(crate) fn left(none: usize, all: usize) -> usize {
    if is_planted(Bug::GoneStillCharged) { all } else { none }
}

/// Whether work is for another thread: [`Bug::AllWorkOnOneThread`].
pub(crate) fn is_long(is: bool) -> bool {
    is && !is_planted(Bug::AllWorkOnOneThread)
}

/// How many logins wait at most: [`Bug::LoginsUnbounded`].
pub(crate) fn logins(most: usize) -> usize {
    if is_planted(Bug::LoginsUnbounded) { 1 << 16 } else { most }
}

/// How long a transaction may take: [`Bug::ExecWaitsForEver`].
pub(crate) fn deadline(most: Duration) -> Duration {
    if is_planted(Bug::ExecWaitsForEver) { 1_000 * most } else { most }
}

/// Those who wait for nodes: [`Bug::NodesAwaitedForEver`].
pub(crate) fn waiting<T>(all: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    all.take(if is_planted(Bug::NodesAwaitedForEver) { 0 } else { usize::MAX })
}

// --- who comes and goes ---

/// Whether a command has to wait for one that has not arrived: [`Bug::ArrivalsPassed`].
pub(crate) fn concerns(does: bool) -> bool {
    does && !is_planted(Bug::ArrivalsPassed)
}

/// [`Bug::DeletedUserStays`].
pub(crate) fn keeps_who_is_deleted() -> bool {
    is_planted(Bug::DeletedUserStays)
}
