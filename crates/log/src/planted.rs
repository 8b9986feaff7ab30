//! What planted bugs do in the log (`claret_planted`). Functions are named for what happens while their bug is planted, and
//! return `false` otherwise.

use claret_planted::{Bug, is_planted};

/// [`Bug::SyncSkipped`].
pub(crate) fn skips_sync() -> bool {
    is_planted(Bug::SyncSkipped)
}

/// [`Bug::FirstLineUnchecked`].
pub(crate) fn takes_any_first_line() -> bool {
    is_planted(Bug::FirstLineUnchecked)
}

/// [`Bug::NamesUnsynced`].
pub(crate) fn leaves_names_unsynced() -> bool {
    is_planted(Bug::NamesUnsynced)
}

/// [`Bug::ManifestUnsynced`].
pub(crate) fn leaves_manifest_unsynced() -> bool {
    is_planted(Bug::ManifestUnsynced)
}

/// [`Bug::NewestFileNotMissed`].
pub(crate) fn misses_no_newest_file() -> bool {
    is_planted(Bug::NewestFileNotMissed)
}

/// Who may enter a folder that is made: [`Bug::FoldersForAll`].
#[cfg(unix)]
pub(crate) fn folder_mode() -> u32 {
    if is_planted(Bug::FoldersForAll) { 0o755 } else { 0o700 }
}

/// [`Bug::LockFileAlone`].
pub(crate) fn locks_the_file_alone() -> bool {
    is_planted(Bug::LockFileAlone)
}

/// [`Bug::HalfAGroupLeft`].
pub(crate) fn leaves_half_a_group() -> bool {
    is_planted(Bug::HalfAGroupLeft)
}

/// [`Bug::TornGroupTaken`].
pub(crate) fn takes_torn_groups() -> bool {
    is_planted(Bug::TornGroupTaken)
}

/// [`Bug::DamageTakenForTorn`].
pub(crate) fn takes_damage_for_torn() -> bool {
    is_planted(Bug::DamageTakenForTorn)
}

/// [`Bug::CutPassesOpenCommit`].
pub(crate) fn passes_open_commits() -> bool {
    is_planted(Bug::CutPassesOpenCommit)
}

/// [`Bug::PartsAtEndAgain`].
pub(crate) fn forgets_parts_at_end() -> bool {
    is_planted(Bug::PartsAtEndAgain)
}

/// [`Bug::VanishedCarriedOut`].
pub(crate) fn carries_out_vanished() -> bool {
    is_planted(Bug::VanishedCarriedOut)
}

/// [`Bug::SnapshotCarriedOutAgain`].
pub(crate) fn carries_out_snapshot_again() -> bool {
    is_planted(Bug::SnapshotCarriedOutAgain)
}

/// [`Bug::OldFilesStay`].
pub(crate) fn keeps_old_files() -> bool {
    is_planted(Bug::OldFilesStay)
}

/// [`Bug::DoubtfulNotWrittenAgain`].
pub(crate) fn trusts_what_is_doubtful() -> bool {
    is_planted(Bug::DoubtfulNotWrittenAgain)
}

/// [`Bug::UnfinishedBackupOpened`].
pub(crate) fn opens_unfinished_backups() -> bool {
    is_planted(Bug::UnfinishedBackupOpened)
}

/// From where on the log is copied: [`Bug::BackupPassesOpenCommit`].
pub(crate) fn copied_from(log_from: u64, base: u64) -> u64 {
    if is_planted(Bug::BackupPassesOpenCommit) { base } else { log_from }
}
