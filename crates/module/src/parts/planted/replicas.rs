//! Planted bugs of the durability `strict`: what replicas are told and have, and what nodes say to each other.

use claret_planted::{Bug, is_planted};

// --- what replicas have ---

/// Whether all is told to a replica that came: [`Bug::NewcomerUntold`].
pub(crate) fn is_whole_due(is_due: bool) -> bool {
    is_due && !is_planted(Bug::NewcomerUntold)
}

/// The first batch that counts for all: [`Bug::WholeUncounted`].
pub(crate) fn whole(batch: u64) -> u64 {
    if is_planted(Bug::WholeUncounted) { 0 } else { batch }
}

/// Where a batch ends: [`Bug::EndUnsought`].
pub(crate) fn end(offset: u64) -> u64 {
    if is_planted(Bug::EndUnsought) { 0 } else { offset }
}

/// What all have: [`Bug::FastestDecides`].
pub(crate) fn least(least: Option<u64>, most: Option<u64>) -> Option<u64> {
    if is_planted(Bug::FastestDecides) { most } else { least }
}

/// Whether all who follow are connected: [`Bug::AwayUncounted`].
pub(crate) fn are_connected(are: bool) -> bool {
    are || is_planted(Bug::AwayUncounted)
}

/// Whether they are as many as the operator wants: [`Bug::ConfiguredIgnored`].
pub(crate) fn are_enough(are: bool) -> bool {
    are || is_planted(Bug::ConfiguredIgnored)
}

/// What a replica has: [`Bug::AnybodyCounts`].
pub(crate) fn acked(of_it: Option<u64>, of_anybody: Option<u64>) -> Option<u64> {
    if is_planted(Bug::AnybodyCounts) { of_anybody } else { of_it }
}

/// Whether replicas keep something waiting for too long: [`Bug::ServesWithoutReplicas`].
pub(crate) fn are_late(are: bool) -> bool {
    are && !is_planted(Bug::ServesWithoutReplicas)
}

// --- letters ---

/// Whether a signature is right: [`Bug::LetterUnsigned`].
pub(crate) fn is_signed(is: bool) -> bool {
    is || is_planted(Bug::LetterUnsigned)
}

/// Whether a letter came before: [`Bug::LetterCountsAgain`].
pub(crate) fn came_before(did: bool) -> bool {
    did && !is_planted(Bug::LetterCountsAgain)
}

/// Whether a life of a sender is over: [`Bug::PastLifeCounts`].
pub(crate) fn is_over(is: bool) -> bool {
    is && !is_planted(Bug::PastLifeCounts)
}

/// Whether a letter is for the present life of its receiver: [`Bug::OtherLifeMeant`].
pub(crate) fn is_meant(is: bool) -> bool {
    is || is_planted(Bug::OtherLifeMeant)
}

/// Whether all replicas have what is asked for: [`Bug::OutcomeToldAtOnce`].
pub(crate) fn is_confirmed(is: bool) -> bool {
    is || is_planted(Bug::OutcomeToldAtOnce)
}

// --- who goes on ---

/// Whether a primary tells changes: [`Bug::ClientsTellChanges`].
pub(crate) fn is_told(is: bool) -> bool {
    is || is_planted(Bug::ClientsTellChanges)
}

/// Whether a file may know less than others: [`Bug::FileSaysAll`].
pub(crate) fn may_be_old(may: bool) -> bool {
    may && !is_planted(Bug::FileSaysAll)
}

/// Whether what a file has of the shard is of use: [`Bug::FilesHaveNothing`].
pub(crate) fn is_of_use(is: bool) -> bool {
    is && !is_planted(Bug::FilesHaveNothing)
}

/// Whether a file is rewritten that begins with records alone: [`Bug::RewriteUntold`].
pub(crate) fn is_to_be_told(is: bool) -> bool {
    is && !is_planted(Bug::RewriteUntold)
}

/// Whether changes are kept that came before a shard: [`Bug::VanishedBeforePromotion`].
pub(crate) fn are_forgotten() -> bool {
    !is_planted(Bug::VanishedBeforePromotion)
}

/// Whether a replica is held off that may know more: [`Bug::ReplicaLetIn`].
pub(crate) fn is_held_off(is: bool) -> bool {
    is && !is_planted(Bug::ReplicaLetIn)
}

/// Whether who gives a key away waits until the replicas have it: [`Bug::TakenAtOnce`].
pub(crate) fn waits_to_take(does: bool) -> bool {
    does && !is_planted(Bug::TakenAtOnce)
}

/// Whether somebody may know more who has not said so: [`Bug::BeginsUnproven`].
pub(crate) fn may_know_more(may: bool) -> bool {
    may && !is_planted(Bug::BeginsUnproven)
}

/// Why a node that has a shard refuses transactions, as it tells: [`Bug::RefusesInSilence`].
pub(crate) fn why_refused(why: Option<String>) -> Option<String> {
    why.filter(|_| !is_planted(Bug::RefusesInSilence))
}
