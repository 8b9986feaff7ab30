//! Planted bugs outside the code of the protocol. Whoever carries messages between the state machines, or hosts one,
//! changes a message, loses it, repeats it, sends it in another's name, or forgets to report something. To all others
//! it looks as if a state machine broke its rule. The other planted bugs are in `crates/core/src/planted.rs`.

use std::collections::{BTreeMap, BTreeSet};

use claret_core::message::{
    Asks, Link, Listed, Participants, PeerMessage, Refusal, Request, Response, Status,
};
use claret_core::{AttemptId, CallNo, Incarnation, Sequence, SessionId, ShardId, TxId};

/// Defines [`Tampering`]: the variants with what is wrong, their names, and the rule that each takes out.
macro_rules! tamperings {
    ($($(#[doc = $doc:literal])+ $tampering:ident $name:literal $rule:literal;)+) => {
        /// A bug that shows in messages, or in what a host tells.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Tampering {
            $($(#[doc = $doc])+ $tampering,)+
        }

        impl Tampering {
            /// All of them.
            pub const ALL: &[Tampering] = &[$(Tampering::$tampering),+];

            /// Its name, in words with hyphens.
            pub fn name(self) -> &'static str {
                match self {
                    $(Tampering::$tampering => $name,)+
                }
            }

            /// The rule that it takes out.
            pub fn rule(self) -> &'static str {
                match self {
                    $(Tampering::$tampering => $rule,)+
                }
            }
        }
    };
}

tamperings! {
    // --- votes, refusals, attempts ---
    /// An attempt whose prepares have left is aborted without a refusal, and prepared participants obey.
    AbortByFiat "abort-by-fiat" "P6, P7";
    /// The same at the coordinator alone: it begins its next attempt and never asked for a refusal.
    RestartUnrefused "restart-unrefused" "P8";
    /// A vote of an earlier attempt counts for this one.
    StaleVoteCounts "stale-vote-counts" "P8";
    /// Votes are counted, not voters: a doubled one stands for another's.
    DoubledVoteCounts "doubled-vote-counts" "P3, P10";
    /// The user is told when one vote is still missing.
    ToldBeforeLastVote "told-before-last-vote" "P3";
    /// Votes that come after a withdraw was sent are ignored.
    WithdrawingDeafToVotes "withdrawing-deaf-to-votes" "P6";
    /// Every participant is told that all others have voted.
    EverybodyIsLast "everybody-is-last" "P9";
    /// A participant that was only read is not waited for.
    ReadersDoNotVote "readers-do-not-vote" "P5";
    /// A participant applies and releases when it votes.
    ReleaseAtVote "release-at-vote" "P5";
    /// What is applied is remembered without its answers.
    ForgetsAnswers "forgets-answers" "P10";
    /// Calls on one record may overtake each other.
    CallsOvertake "calls-overtake" "P10";

    // --- client processes ---
    /// A heartbeat does not list transactions that wait for no answer.
    HeartbeatOmitsIdle "heartbeat-omits-idle" "P23, P46";
    /// A connection begins without a heartbeat.
    SilentConnection "silent-connection" "P40";
    /// What an earlier connection brings counts.
    OldConnectionHeard "old-connection-heard" "P40";
    /// The end of an earlier connection is taken for that of the present one.
    UnbindsNewer "unbinds-newer" "P40";
    /// Frames that were sent besides the one that was taken are not counted.
    FramesUncounted "frames-uncounted" "P41";
    /// Slots stay where they were when the first connection was made.
    SlotsStay "slots-stay" "P44";

    // --- failure ---
    /// An execute that relies on another incarnation is let in.
    ExecuteOfAnyIncarnation "execute-of-any-incarnation" "P26";
    /// A prepare that lists another incarnation is let in.
    PrepareOfAnyIncarnation "prepare-of-any-incarnation" "P26";
    /// The list names no incarnations.
    ListNamesNoIncarnation "list-names-no-incarnation" "P26";
    /// A recoverer's question is answered with no, and no is not written.
    QuestionWritesNothing "question-writes-nothing" "P24";
    /// A recoverer that heard one prepared participant takes it for all.
    SomePreparedIsAll "some-prepared-is-all" "P25";
    /// A participant in doubt asks once.
    AsksOnce "asks-once" "P23";
    /// The low-water mark passes the eldest open transaction.
    LowWaterPassesOpen "low-water-passes-open" "P28";
    /// A transaction is over when its user is told, though applies are unacknowledged.
    OverWhenTold "over-when-told" "P28";
    /// An abort is sent once.
    AbortNotResent "abort-not-resent" "P28";
    /// An apply is sent once.
    ApplyNotResent "apply-not-resent" "P28";
    /// A prepare is sent once.
    PrepareNotResent "prepare-not-resent" "P1";

    // --- records that vanish ---
    /// Of records that vanish together each lets others in before the next one is gone.
    VanishedOneByOne "vanished-one-by-one" "P36";

    // --- phases ---
    /// Nobody hears of an elder.
    ElderNeverTold "elder-never-told" "P20";
    /// Word of an elder is not sent again.
    ElderToldOnce "elder-told-once" "P20";
}

/// What becomes of a request that leaves a process.
pub(crate) struct Sent {
    /// Whether it goes its way.
    pub(crate) passes: bool,
    /// What comes back in the name of the shard.
    pub(crate) forged: Option<Response>,
}

impl Sent {
    /// As it should be.
    pub(crate) const PASSES: Sent = Sent { passes: true, forged: None };

    /// It vanishes, and this comes back.
    pub(crate) fn answered(response: Response) -> Sent {
        Sent { passes: false, forged: Some(response) }
    }
}

/// Which message of an attempt, where it matters that it comes once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Once {
    Prepare,
    Apply,
    Abort,
    Voted,
    Committed,
    Elder,
}

/// What is tampered with, and what has to be known for it. Without a bug it knows of nothing.
#[derive(Debug, Default)]
pub(crate) struct Tamper {
    what: Option<Tampering>,
    /// The participants of attempts whose prepares have left.
    listed: BTreeMap<AttemptId, Participants>,
    /// The latest attempt of each transaction that asked for anything.
    latest: BTreeMap<TxId, u32>,
    /// Attempts that are being withdrawn.
    withdrawn: BTreeSet<AttemptId>,
    /// Messages to and from a shard.
    seen: BTreeSet<(ShardId, AttemptId, Once)>,
    /// Calls that were sent to be executed.
    executed: BTreeSet<(AttemptId, CallNo)>,
    /// Connections over which a heartbeat went.
    greeted: BTreeSet<(SessionId, ShardId, u32)>,
    /// Who asked whom about what.
    asked: BTreeSet<(ShardId, ShardId, AttemptId)>,
}

impl Tamper {
    pub(crate) fn new(what: Option<Tampering>) -> Tamper {
        Tamper { what, ..Tamper::default() }
    }

    /// Whether this is what goes wrong.
    pub(crate) fn is(&self, what: Tampering) -> bool {
        self.what == Some(what)
    }

    /// Whether a message is the first of its kind to or from a shard.
    fn is_first(&mut self, shard: ShardId, attempt: AttemptId, kind: Once) -> bool {
        self.seen.insert((shard, attempt, kind))
    }

    // --- from a process to a shard ---

    /// A request leaves a process.
    pub(crate) fn send(&mut self, to: ShardId, link: Link, request: &mut Request) -> Sent {
        let Some(what) = self.what else { return Sent::PASSES };
        self.note(request);
        match request {
            Request::Execute { attempt, incarnation, calls, .. } => {
                if what == Tampering::ExecuteOfAnyIncarnation {
                    *incarnation = None;
                }
                let fresh = calls.iter().any(|call| !self.executed.contains(&(*attempt, call.no)));
                if what == Tampering::CallsOvertake && fresh {
                    // Those that are repeated keep the order of the calls.
                    calls.retain(|call| !self.executed.contains(&(*attempt, call.no)));
                }
                self.executed.extend(calls.iter().map(|call| (*attempt, call.no)));
                Sent::PASSES
            }
            Request::Prepare { .. } => self.send_prepare(what, to, request),
            Request::Apply { attempt } => {
                let attempt = *attempt;
                let is_first = self.is_first(to, attempt, Once::Apply);
                let applied = Response::Applied { attempt, shard: to };
                Sent {
                    passes: is_first || what != Tampering::ApplyNotResent,
                    forged: (what == Tampering::OverWhenTold).then_some(applied),
                }
            }
            Request::Withdraw { attempt } => match what {
                Tampering::AbortByFiat | Tampering::RestartUnrefused => Sent::answered(Response::Refused {
                    attempt: *attempt,
                    shard: to,
                    refusal: Refusal::Withdrawn,
                    since: Incarnation(0),
                }),
                _ => Sent::PASSES,
            },
            Request::Abort { attempt, refused_by } => {
                if what == Tampering::RestartUnrefused {
                    *refused_by = None;
                }
                let is_first = self.is_first(to, *attempt, Once::Abort);
                Sent { passes: is_first || what != Tampering::AbortNotResent, forged: None }
            }
            Request::Heartbeat { low_water, .. } => {
                if what == Tampering::LowWaterPassesOpen {
                    *low_water = Sequence(low_water.0 + 1);
                }
                let is_first = self.greeted.insert((link.session, to, link.connection));
                Sent { passes: !(is_first && what == Tampering::SilentConnection), forged: None }
            }
            Request::Ask { .. }
            | Request::AskBehind { .. }
            | Request::ApplyAt { .. }
            | Request::Tick { .. }
            | Request::Look { .. } => Sent::PASSES,
        }
    }

    fn send_prepare(&mut self, what: Tampering, to: ShardId, request: &mut Request) -> Sent {
        let Request::Prepare { attempt, participants, calls, asks, .. } = request else {
            return Sent::PASSES;
        };
        let attempt = *attempt;
        if what == Tampering::EverybodyIsLast {
            *asks = Asks::Decision;
        }
        let names_none = |shard| match what {
            Tampering::ListNamesNoIncarnation => true,
            Tampering::PrepareOfAnyIncarnation => shard == to,
            _ => false,
        };
        let incarnation = |listed: &Listed| listed.incarnation.filter(|_| !names_none(listed.shard));
        let named = participants.iter().map(|it| Listed { shard: it.shard, incarnation: incarnation(it) });
        *participants = named.collect();
        let has_others = participants.len() > 1;
        let is_forged = match what {
            Tampering::ReadersDoNotVote => has_others && calls.is_empty(),
            Tampering::ToldBeforeLastVote => {
                has_others && participants.last().is_some_and(|listed| listed.shard == to)
            }
            _ => false,
        };
        let is_first = self.is_first(to, attempt, Once::Prepare);
        let voted = Response::Voted { attempt, shard: to, replies: Vec::new() };
        Sent { passes: is_first || what != Tampering::PrepareNotResent, forged: is_forged.then_some(voted) }
    }

    fn note(&mut self, request: &Request) {
        match request {
            Request::Prepare { attempt, participants, .. } => {
                self.listed.insert(*attempt, participants.clone());
                self.note_attempt(*attempt);
            }
            Request::Execute { attempt, .. } => self.note_attempt(*attempt),
            Request::Withdraw { attempt } => drop(self.withdrawn.insert(*attempt)),
            Request::Apply { .. }
            | Request::Abort { .. }
            | Request::Heartbeat { .. }
            | Request::Ask { .. }
            | Request::AskBehind { .. }
            | Request::ApplyAt { .. }
            | Request::Tick { .. }
            | Request::Look { .. } => {}
        }
    }

    fn note_attempt(&mut self, attempt: AttemptId) {
        let latest = self.latest.entry(attempt.tx).or_default();
        *latest = attempt.attempt.max(*latest);
    }

    // --- from a shard to a process ---

    /// A response leaves a shard. Whether it goes its way.
    pub(crate) fn respond(&mut self, from: ShardId, response: &mut Response) -> bool {
        match (self.what, response) {
            (Some(Tampering::ElderNeverTold), Response::Elder { .. }) => false,
            (Some(Tampering::ElderToldOnce), Response::Elder { attempt, .. }) => {
                self.is_first(from, *attempt, Once::Elder)
            }
            (Some(Tampering::ForgetsAnswers), Response::Committed { attempt, replies }) => {
                if !self.is_first(from, *attempt, Once::Committed) {
                    replies.clear();
                }
                true
            }
            _ => true,
        }
    }

    /// A response arrives at a process: in whose name. `None`: it vanishes.
    pub(crate) fn hear(&mut self, from: ShardId, response: &mut Response) -> Option<ShardId> {
        match (self.what, response) {
            (
                Some(Tampering::WithdrawingDeafToVotes),
                Response::Voted { attempt, .. } | Response::Committed { attempt, .. },
            ) if self.withdrawn.contains(attempt) => None,
            (Some(Tampering::StaleVoteCounts), Response::Voted { attempt, .. }) => {
                attempt.attempt = self.latest.get(&attempt.tx).copied().unwrap_or(attempt.attempt);
                Some(from)
            }
            (Some(Tampering::DoubledVoteCounts), Response::Voted { attempt, shard, .. }) => {
                if !self.is_first(from, *attempt, Once::Voted)
                    && let Some(silent) = self.has_not_voted(*attempt)
                {
                    *shard = silent;
                }
                Some(*shard)
            }
            _ => Some(from),
        }
    }

    fn has_not_voted(&self, attempt: AttemptId) -> Option<ShardId> {
        let mut listed = self.listed.get(&attempt)?.iter().map(|listed| listed.shard);
        listed.find(|shard| !self.seen.contains(&(*shard, attempt, Once::Voted)))
    }

    // --- between shards ---

    /// A message leaves a shard for another. Whether it goes its way.
    pub(crate) fn tell(&mut self, from: ShardId, to: ShardId, message: &PeerMessage) -> bool {
        match (self.what, message) {
            (Some(Tampering::AsksOnce), PeerMessage::Inquire { attempt, .. }) => {
                self.asked.insert((from, to, *attempt))
            }
            _ => true,
        }
    }

    /// A shard's answer arrives at another: what arrives besides.
    pub(crate) fn forge_answers(&self, to: ShardId, message: &PeerMessage) -> Vec<PeerMessage> {
        let (
            Some(Tampering::SomePreparedIsAll),
            PeerMessage::Answer { attempt, status: Status::Prepared, .. },
        ) = (self.what, message)
        else {
            return Vec::new();
        };
        let listed = self.listed.get(attempt).into_iter().flat_map(|listed| listed.iter());
        let others = listed.map(|listed| listed.shard).filter(|shard| *shard != to);
        others.map(|from| PeerMessage::Answer { attempt: *attempt, from, status: Status::Prepared }).collect()
    }
}
