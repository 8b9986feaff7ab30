//! Planted bugs of the client's side of a cluster, as in [`crate::planted`].

use std::collections::VecDeque;
use std::time::Duration;

use claret_planted::{Bug, is_planted};

// --- keys ---

/// The nodes whose keys are still to be listed: [`Bug::FirstNodeListed`].
pub(super) fn nodes_left<T>(nodes: VecDeque<T>) -> VecDeque<T> {
    if is_planted(Bug::FirstNodeListed) { VecDeque::new() } else { nodes }
}

// --- plain commands ---

/// Whether a command is announced where it is asked for: [`Bug::AskUnannounced`].
pub(super) fn is_announced(is_announced: bool) -> bool {
    is_announced && !is_planted(Bug::AskUnannounced)
}

/// What is sent where it moved to: [`Bug::MovedLost`].
pub(super) fn moved<T>(command: Option<T>) -> Option<T> {
    command.filter(|_| !is_planted(Bug::MovedLost))
}

/// The queue of a slot that moved: [`Bug::MovedForgotten`].
pub(super) fn queue_of_moved(now: usize, before: usize) -> usize {
    if is_planted(Bug::MovedForgotten) { before } else { now }
}

/// Whether an error is a reason to doubt the topology: [`Bug::MovedUndoubted`].
pub(super) fn is_doubtful(is_doubtful: bool) -> bool {
    is_doubtful && !is_planted(Bug::MovedUndoubted)
}

/// Whether a command was sent elsewhere too often: [`Bug::CirclesForEver`].
pub(super) fn is_too_often(is: bool) -> bool {
    is && !is_planted(Bug::CirclesForEver)
}

/// What rested and is sent again: [`Bug::RestingForgotten`].
pub(super) fn rested<T>(mut resting: Vec<T>) -> Vec<T> {
    if is_planted(Bug::RestingForgotten) {
        resting.clear();
    }
    resting
}

/// What waits for a node that is gone: [`Bug::QueueGoesWithNode`].
pub(super) fn queued<T>(mut queued: VecDeque<T>) -> VecDeque<T> {
    if is_planted(Bug::QueueGoesWithNode) {
        queued.clear();
    }
    queued
}

/// Whose queue it is when its node is gone: [`Bug::GoneKeepsQueue`].
pub(super) fn queue_owner<T: Clone>(owner: Option<T>, gone: &T) -> Option<T> {
    if is_planted(Bug::GoneKeepsQueue) { Some(gone.clone()) } else { owner }
}

/// Whether what waits for a node hears that it is away: [`Bug::AwayUntold`].
pub(super) fn is_told(is_told: bool) -> bool {
    is_told && !is_planted(Bug::AwayUntold)
}

/// The command that a reply is for: [`Bug::LastAskedAnswered`].
pub(super) fn answered<T>(first: Option<T>, behind: &mut VecDeque<T>) -> Option<T> {
    match first {
        Some(first) if is_planted(Bug::LastAskedAnswered) => {
            behind.push_front(first);
            behind.pop_back()
        }
        first => first,
    }
}

/// What sends a command elsewhere: [`Bug::RedirectionHandedOver`].
pub(super) fn redirection<T>(redirection: Option<T>) -> Option<T> {
    redirection.filter(|_| !is_planted(Bug::RedirectionHandedOver))
}

/// Whether what may overtake is counted: [`Bug::OvertakingUncounted`].
pub(super) fn is_counted(may_overtake: bool) -> bool {
    may_overtake && !is_planted(Bug::OvertakingUncounted)
}

/// [`Bug::LostSentAgain`].
pub(super) fn sends_lost_again() -> bool {
    is_planted(Bug::LostSentAgain)
}

// --- connections and replies ---

/// Whether a server was silent for too long: [`Bug::SilenceIgnored`].
pub(super) fn is_silent(is_silent: bool) -> bool {
    is_silent && !is_planted(Bug::SilenceIgnored)
}

/// Whether a reply is nested too deeply: [`Bug::DepthUnbounded`].
pub(super) fn is_too_deep(is: bool) -> bool {
    is && !is_planted(Bug::DepthUnbounded)
}

/// Whether a reply is too long: [`Bug::BytesUnbounded`].
pub(super) fn is_too_long(is: bool) -> bool {
    is && !is_planted(Bug::BytesUnbounded)
}

/// Whether a reply has too many values: [`Bug::ElementsUnbounded`].
pub(super) fn has_too_many(has: bool) -> bool {
    has && !is_planted(Bug::ElementsUnbounded)
}

/// Whether too many pushes came: [`Bug::PushesUncounted`].
pub(super) fn are_too_many(are: bool) -> bool {
    are && !is_planted(Bug::PushesUncounted)
}

/// Whether a character is shown escaped: [`Bug::ControlsShown`].
pub(super) fn is_escaped(is_escaped: bool) -> bool {
    is_escaped && !is_planted(Bug::ControlsShown)
}

/// A login as it is shown: [`Bug::PasswordShown`].
pub(super) fn shown(hidden: String, login: &str) -> String {
    if is_planted(Bug::PasswordShown) { login.to_owned() } else { hidden }
}

/// The first pause, doubled so often: [`Bug::PausesStayShort`].
pub(super) fn doubled(doubled: u64, first: u64) -> u64 {
    if is_planted(Bug::PausesStayShort) { first } else { doubled }
}

/// How many tries count after one that worked: [`Bug::PausesStayLong`].
pub(super) fn tries(anew: u32, before: u32) -> u32 {
    if is_planted(Bug::PausesStayLong) { before } else { anew }
}

// --- topology ---

/// Whether two ranges have a slot in common: [`Bug::TwoServeOneSlot`].
pub(super) fn overlap(overlap: bool) -> bool {
    overlap && !is_planted(Bug::TwoServeOneSlot)
}

/// Whether there are too many nodes: [`Bug::NodesUnbounded`].
pub(super) fn are_too_many_nodes(are: bool) -> bool {
    are && !is_planted(Bug::NodesUnbounded)
}

/// Whether a node's durability is not that of the others: [`Bug::DurabilitiesMixed`].
pub(super) fn is_mixed(is: bool) -> bool {
    is && !is_planted(Bug::DurabilitiesMixed)
}

/// Whether a node's schema is not the program's: [`Bug::SchemasDiffer`].
pub(super) fn is_another_schema(is: bool) -> bool {
    is && !is_planted(Bug::SchemasDiffer)
}

/// Whether slots at the end have nobody: [`Bug::LastSlotsUnmissed`].
pub(super) fn are_missing(are: bool) -> bool {
    are && !is_planted(Bug::LastSlotsUnmissed)
}

/// Whether a topology has no holes: [`Bug::HolesBelieved`].
pub(super) fn is_whole(is_whole: bool) -> bool {
    is_whole || is_planted(Bug::HolesBelieved)
}

/// What of a key is hashed: [`Bug::TagsIgnored`].
pub(super) fn hashed<'a>(tag: &'a [u8], key: &'a [u8]) -> &'a [u8] {
    if is_planted(Bug::TagsIgnored) { key } else { tag }
}

/// Whether a node serves the slot of a channel: [`Bug::ChannelElsewhere`].
pub(super) fn is_served(is_served: bool) -> bool {
    is_served || is_planted(Bug::ChannelElsewhere)
}

/// A user's name in the name of a channel: [`Bug::UserUnescaped`].
pub(super) fn in_channel(escaped: String, user: &str) -> String {
    if is_planted(Bug::UserUnescaped) { user.to_owned() } else { escaped }
}

/// The nodes that were named at the beginning, to be asked: [`Bug::OtherSeedsUnasked`].
pub(super) fn seeds<T>(seeds: &[T]) -> &[T] {
    if is_planted(Bug::OtherSeedsUnasked) { &seeds[..1] } else { seeds }
}

/// Whether nodes are of two clusters: [`Bug::AnotherClusterBelieved`].
pub(super) fn is_of_another_cluster(is: bool) -> bool {
    is && !is_planted(Bug::AnotherClusterBelieved)
}

// --- handshake and settings ---

/// The shard that is to be at the other end: [`Bug::SignsForOthers`].
pub(super) fn expected<T>(shard: Option<T>) -> Option<T> {
    shard.filter(|_| !is_planted(Bug::SignsForOthers))
}

/// Whether a module speaks this version: [`Bug::VersionUnchecked`].
pub(super) fn is_of_this_version(is: bool) -> bool {
    is || is_planted(Bug::VersionUnchecked)
}

/// Whether a number is one that can be: [`Bug::NumbersUnchecked`].
pub(super) fn can_be(can_be: bool) -> bool {
    can_be || is_planted(Bug::NumbersUnchecked)
}

/// What was pushed: [`Bug::PushUnread`].
pub(super) fn pushed(payload: &[u8]) -> &[u8] {
    if is_planted(Bug::PushUnread) { &[] } else { payload }
}

/// Whether the channel of grants has moved: [`Bug::ChannelMovedUnheard`].
pub(super) fn has_moved(has_moved: bool) -> bool {
    has_moved && !is_planted(Bug::ChannelMovedUnheard)
}

/// Whether an error is about one frame alone: [`Bug::RefusedFrameBreaks`].
pub(super) fn is_of_frame(is: bool) -> bool {
    is && !is_planted(Bug::RefusedFrameBreaks)
}

/// The lease that a node gave, in microseconds; an hour with [`Bug::LeaseUnheard`].
pub(super) fn lease(lease_us: u64) -> u64 {
    if is_planted(Bug::LeaseUnheard) { 3_600_000_000 } else { lease_us }
}

/// Whether the timer is to look sooner: [`Bug::TimerUntold`].
pub(super) fn is_sooner(is_sooner: bool) -> bool {
    is_sooner && !is_planted(Bug::TimerUntold)
}

/// The time that was set for a response: [`Bug::ResponseTimeUnset`].
pub(super) fn response_time<T>(set: Option<T>) -> Option<T> {
    set.filter(|_| !is_planted(Bug::ResponseTimeUnset))
}

/// As whom this process logs in: [`Bug::UserUnsent`].
pub(super) fn user(user: Option<&str>) -> Option<&str> {
    user.filter(|_| !is_planted(Bug::UserUnsent))
}

/// The name in a server's certificate: [`Bug::CertificateNameIgnored`].
pub(super) fn name_in_certificate(name: Option<&str>) -> Option<&str> {
    name.filter(|_| !is_planted(Bug::CertificateNameIgnored))
}

/// The certificate that servers see: [`Bug::CertificateUnsent`].
pub(super) fn certificate<T>(certificate: Option<T>) -> Option<T> {
    certificate.filter(|_| !is_planted(Bug::CertificateUnsent))
}

/// How much of what was to be written is written: [`Bug::RestUnwritten`].
pub(super) fn written(written: usize, all: usize) -> usize {
    if is_planted(Bug::RestUnwritten) { all } else { written }
}

/// How long to pause before a node is connected to again; an hour with [`Bug::NeverConnectedAgain`].
pub(super) fn pause(pause: Duration) -> Duration {
    if is_planted(Bug::NeverConnectedAgain) { Duration::from_secs(3_600) } else { pause }
}

/// The file of certificates that are trusted: [`Bug::AuthorityIgnored`].
pub(super) fn authority(path: Option<&str>) -> Option<&str> {
    path.filter(|_| !is_planted(Bug::AuthorityIgnored))
}
