//! Planted bugs of the gateway, as in `crates/claret/src/cluster/planted.rs`.

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
