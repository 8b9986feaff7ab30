//! Bugs that can be planted in the protocol, to see that its tests notice: a check that cannot fail proves nothing.
//!
//! Only with the feature `planted-bugs` can one be planted, with `Shard::plant`, `Coordinator::plant` or
//! `Frontend::plant`. Without it [`Planted`] is nothing, [`Planted::is`] is always false, and no bug is in the code
//! that is shipped. Each bug is one line or one condition in the protocol's code, found by its name there; what it
//! takes out is a rule of `docs/protocol.md` (P) or `docs/combining.md` (C). `crates/sim/examples/planted.rs` says
//! which check catches it, and how soon.

/// Defines [`Bug`]: the variants with what is wrong, their names, and the rule that each takes out.
macro_rules! bugs {
    ($($(#[doc = $doc:literal])+ $bug:ident $name:literal $rule:literal;)+) => {
        /// A bug that an implementer could make.
        #[cfg_attr(not(feature = "planted-bugs"), allow(unreachable_pub, dead_code, reason = "nobody can plant it"))]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Bug {
            $($(#[doc = $doc])+ $bug,)+
        }

        #[cfg(feature = "planted-bugs")]
        impl Bug {
            /// All of them.
            pub const ALL: &[Bug] = &[$(Bug::$bug),+];

            /// Its name, in words with hyphens.
            pub fn name(self) -> &'static str {
                match self {
                    $(Bug::$bug => $name,)+
                }
            }

            /// The rule that it takes out.
            pub fn rule(self) -> &'static str {
                match self {
                    $(Bug::$bug => $rule,)+
                }
            }

            /// The bug of that name.
            pub fn parse(name: &str) -> Option<Bug> {
                Bug::ALL.iter().copied().find(|bug| bug.name() == name)
            }
        }
    };
}

bugs! {
    // --- votes, refusals, attempts ---
    /// An attempt whose prepares have left is aborted without a refusal, and prepared participants obey.
    AbortByFiat "abort-by-fiat" "P6, P7";
    /// The same at the coordinator alone: it begins its next attempt and never asked for a refusal.
    RestartUnrefused "restart-unrefused" "P8";
    /// Withdraw turns a yes into a no.
    WithdrawUnvotes "withdraw-unvotes" "P2, P6";
    /// A vote of an earlier attempt counts for this one.
    StaleVoteCounts "stale-vote-counts" "P8";
    /// All attempts of a transaction bear one number.
    AttemptsShareNumber "attempts-share-number" "P8";
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
    /// A participant votes when the first of its waiting calls is granted.
    VoteBeforeLastGrant "vote-before-last-grant" "P1, P2";
    /// A participant applies and releases when it votes.
    ReleaseAtVote "release-at-vote" "P5";
    /// Of several records at a participant only the first gets its effects.
    ApplySkipsRecords "apply-skips-records" "P3";
    /// A withdraw that comes before its prepare leaves nothing behind.
    NoTombstone "no-tombstone" "P6, P28";
    /// What is refused is not remembered.
    ForgetsRefused "forgets-refused" "P28";
    /// What is remembered as refused is let in again.
    RefusedLetIn "refused-let-in" "P2, P28";
    /// What is applied is not remembered.
    ForgetsApplied "forgets-applied" "P10, P28";
    /// What is applied is remembered without its answers.
    ForgetsAnswers "forgets-answers" "P10";
    /// Calls on one record may overtake each other.
    CallsOvertake "calls-overtake" "P10";
    /// A call that came twice is executed twice.
    ExecuteTwice "execute-twice" "P10";
    /// A prepare of what is applied is carried out again.
    PrepareTwice "prepare-twice" "P10";
    /// A claim on a queue outlives the attempt that waited there.
    QueuePlacesStay "queue-places-stay" "P30";
    /// What was granted in the very step that ends the attempt stays granted.
    StepGrantStays "step-grant-stays" "P30";

    // --- attempts that are over ---
    /// A call or a commit of an attempt that is over is taken.
    ClosedTakesCalls "closed-takes-calls" "P61";
    /// A commit of an attempt that is over is taken, though calls are not.
    ClosedCommits "closed-commits" "P61";
    /// A call or a commit of an earlier attempt is taken for one of this.
    EarlierTakenForThis "earlier-taken-for-this" "P61, P8";
    /// A coordinator that serves another transaction takes what is of the one before.
    RenewedTakesStale "renewed-takes-stale" "P61";

    // --- client processes ---
    /// A heartbeat does not list transactions that wait for no answer.
    HeartbeatOmitsIdle "heartbeat-omits-idle" "P23, P46";
    /// A coordinator that serves another transaction is not told which incarnations are known.
    RecycledUnmet "recycled-unmet" "P26, P45";
    /// A coordinator that serves another transaction is taken for that of a user who knows the end.
    RecycledStaysEnded "recycled-stays-ended" "P45";
    /// The timer of the transaction before is taken for one of this.
    RecycledKeepsTimer "recycled-keeps-timer" "P45";
    /// A transaction leaves the table when its user is told, though shards do not know its end.
    ForgottenWhenTold "forgotten-when-told" "P28, P45";
    /// A transaction whose user is gone goes on.
    AbandonedNotAborted "abandoned-not-aborted" "P39";
    /// A connection begins without a heartbeat.
    SilentConnection "silent-connection" "P40";
    /// Transactions are not told that a connection is new.
    NotMet "not-met" "P26, P40";
    /// What an earlier connection brings counts.
    OldConnectionHeard "old-connection-heard" "P40";
    /// The end of an earlier connection is taken for that of the present one.
    UnbindsNewer "unbinds-newer" "P40";
    /// A handshake that took long takes the place of a later connection.
    OlderHandshakeWins "older-handshake-wins" "P29, P40";
    /// What waited for an earlier connection goes over the next one.
    OutboxOutlivesConnection "outbox-outlives-connection" "P40";
    /// Frames that were sent besides the one that was taken are not counted.
    FramesUncounted "frames-uncounted" "P41";
    /// After the first time all that is sent is taken for sent before.
    AllIsRepetition "all-is-repetition" "P42";
    /// Of a refused frame the first request is blamed.
    FirstIsBlamed "first-is-blamed" "P43";
    /// A request that is refused alone is sent again.
    RefusedAloneAgain "refused-alone-again" "P43";
    /// A heartbeat of a refused frame is sent again.
    HeartbeatSentAgain "heartbeat-sent-again" "P43";
    /// Slots stay where they were when the first connection was made.
    SlotsStay "slots-stay" "P44";
    /// Calls of one attempt on one record go to two shards when its slot moves in between.
    CallsOfOneRecordPart "calls-of-one-record-part" "P44";
    /// Nobody answers for a shard that is gone.
    GoneUnanswered "gone-unanswered" "P56";
    /// The client goes on to answer for a shard that is back.
    ReturnedStaysGone "returned-stays-gone" "P56, P44";
    /// What is answered for a shard that is gone is answered as its last incarnation.
    GoneKeepsIncarnation "gone-keeps-incarnation" "P56";

    // --- failure ---
    /// A shard that restarts keeps its incarnation.
    SilentRestart "silent-restart" "P26";
    /// An execute that relies on another incarnation is let in.
    ExecuteOfAnyIncarnation "execute-of-any-incarnation" "P26";
    /// A prepare that lists another incarnation is let in.
    PrepareOfAnyIncarnation "prepare-of-any-incarnation" "P26";
    /// The list names no incarnations.
    ListNamesNoIncarnation "list-names-no-incarnation" "P26";
    /// Unique numbers begin anew with each incarnation.
    UniqueStartsAnew "unique-starts-anew" "P26";
    /// A recoverer's question is answered with no, and no is not written.
    QuestionWritesNothing "question-writes-nothing" "P24";
    /// A recoverer that heard one prepared participant takes it for all.
    SomePreparedIsAll "some-prepared-is-all" "P25";
    /// A participant in doubt asks once.
    AsksOnce "asks-once" "P23";
    /// A lease that runs out refuses what has voted.
    LeaseEndsPrepared "lease-ends-prepared" "P23";
    /// A heartbeat that does not list an attempt refuses it though it has voted.
    UnlistedPreparedEnds "unlisted-prepared-ends" "P23";
    /// What is below the floor is taken for new.
    BelowFloorIsNew "below-floor-is-new" "P28";
    /// The floor passes the eldest open transaction.
    FloorPassesOpen "floor-passes-open" "P28";
    /// A transaction is over when its user is told, though applies are unacknowledged.
    OverWhenTold "over-when-told" "P28";
    /// The frontend forgets an id while participants do not know its end.
    BuriesEarly "buries-early" "P28, C14";
    /// An abort is sent once.
    AbortNotResent "abort-not-resent" "P28";
    /// An apply is sent once.
    ApplyNotResent "apply-not-resent" "P28";
    /// A prepare is sent once.
    PrepareNotResent "prepare-not-resent" "P1";

    // --- records that vanish, sessions that are gone ---
    /// Who has not voted on a record that vanished goes on.
    GoneRefusesNobody "gone-refuses-nobody" "P36";
    /// Who has voted on a record that vanished is refused with the others.
    GoneRefusesVoted "gone-refuses-voted" "P36";
    /// What was voted on a record before it vanished is carried out on what comes after it.
    GoneTakesEffects "gone-takes-effects" "P36";
    /// Whoever comes after a record vanished is let in beside those who had voted.
    GoneLetsIn "gone-lets-in" "P36";
    /// Of records that vanish together each lets others in before the next one is gone.
    GoneOneByOne "gone-one-by-one" "P36";
    /// Those who had voted on a record that vanished leave, and nobody who waits is let in.
    GoneWakesNobody "gone-wakes-nobody" "P36";
    /// A prepare of what is applied, whose answers are gone, is answered without them.
    AnswersGoneAreNone "answers-gone-are-none" "P57";
    /// A session that is gone is forgotten with decisions that its floor has not passed.
    ForgetsWithSession "forgets-with-session" "P58";

    // --- locks and phases ---
    /// A transaction does not read its own writes.
    NoOverlay "no-overlay" "P12";
    /// The first of a transaction's own effects is not undone after a call was executed on them.
    OverlayStays "overlay-stays" "P12";
    /// A transaction's own effects are undone first one first.
    OverlayUndoneForwards "overlay-undone-forwards" "P12";
    /// Operations of two types on one key are compared by the first one's table.
    TwoTypesShare "two-types-share" "P14";
    /// That an operation cannot be done counts, whoever holds the record.
    ErrorCountsAtOnce "error-counts-at-once" "P15";
    /// Each draw is checked against the room, not their sum.
    DrawsNotSummed "draws-not-summed" "P4";
    /// Room that a pending deposit will make is drawn already.
    DepositsCount "deposits-count" "P4";
    /// A phase takes in whoever commutes, for ever.
    NeverCapped "never-capped" "P17";
    /// Whoever holds a record and wants more of it stands behind all who wait.
    HoldersQueue "holders-queue" "P16, P17";
    /// After a release the queue is looked at once, though somebody moved.
    SettlesOnce "settles-once" "P16";
    /// A second call on a record that its transaction waits for stands beside the first.
    WaitsTwice "waits-twice" "P19";
    /// Nobody hears of an elder.
    ElderNeverTold "elder-never-told" "P20";
    /// Whoever is granted a record that an elder waits for is not told.
    GrantTellsNoElder "grant-tells-no-elder" "P20";
    /// Word of an elder is not sent again.
    ElderToldOnce "elder-told-once" "P20";
    /// Word of an elder counts only while the attempt is blocked.
    ElderForgotten "elder-forgotten" "P20, P21";
    /// Who has one vote gives way no more.
    OneVoteStays "one-vote-stays" "P21";
    /// An instant transaction looks at no lock.
    InstantPassesHolders "instant-passes-holders" "P32";
    /// An instant transaction is undone first one first.
    InstantUndoneForwards "instant-undone-forwards" "P31";

    // --- combining ---
    /// Members need not commute.
    MembersUnchecked "members-unchecked" "C3";
    /// A member that has written a record shares a read there.
    OwnWriterShares "own-writer-shares" "C4";
    /// A group is open until it is over.
    GroupStaysOpen "group-stays-open" "C5";
    /// What a joiner has buffered does not move with it.
    JoinerLosesBuffered "joiner-loses-buffered" "C2";
    /// Effects of a member that left are applied.
    PartedCount "parted-count" "C13";
    /// What a member that left waited for stays in the queue.
    PartedWaits "parted-waits" "C13";
    /// A founder that left goes on under the id of the group.
    FounderKeepsId "founder-keeps-id" "C14";
    /// The prepare names the eldest member alone.
    MatesLeftBehind "mates-left-behind" "C9";
}

/// The bug that a state machine was given, if any.
#[cfg(feature = "planted-bugs")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planted(Option<Bug>);

/// No bug: see the module's text.
#[cfg(not(feature = "planted-bugs"))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planted;

impl Planted {
    /// The protocol as it is.
    #[cfg(feature = "planted-bugs")]
    pub(crate) const NONE: Planted = Planted(None);

    /// The protocol as it is.
    #[cfg(not(feature = "planted-bugs"))]
    pub(crate) const NONE: Planted = Planted;

    /// Whether this bug is planted.
    #[cfg(feature = "planted-bugs")]
    pub(crate) fn is(self, bug: Bug) -> bool {
        self.0 == Some(bug)
    }

    /// Never.
    #[cfg(not(feature = "planted-bugs"))]
    pub(crate) const fn is(self, _: Bug) -> bool {
        false
    }
}

#[cfg(feature = "planted-bugs")]
impl crate::Shard {
    /// Plants a bug, before the shard is given anything.
    pub fn plant(&mut self, bug: Bug) {
        self.planted = Planted(Some(bug));
        self.table.planted = self.planted;
    }
}

#[cfg(feature = "planted-bugs")]
impl crate::Coordinator {
    /// Plants a bug, before the transaction does anything.
    pub fn plant(&mut self, bug: Bug) {
        self.planted = Planted(Some(bug));
    }
}

#[cfg(feature = "planted-bugs")]
impl crate::Frontend {
    /// Plants a bug in all transactions that begin from now on.
    pub fn plant(&mut self, bug: Bug) {
        self.planted = Planted(Some(bug));
    }
}

#[cfg(feature = "planted-bugs")]
impl crate::Client {
    /// Plants a bug, before anything goes in.
    pub fn plant(&mut self, bug: Bug) {
        self.plant_in_all(Planted(Some(bug)));
    }
}

#[cfg(feature = "planted-bugs")]
impl crate::Pipeline {
    /// Plants a bug, before anything goes in.
    pub fn plant(&mut self, bug: Bug) {
        self.planted = Planted(Some(bug));
    }
}

#[cfg(all(test, feature = "planted-bugs"))]
mod tests {
    use super::Bug;

    #[test]
    fn names_are_kebab_case_of_the_variants_and_parse_back() {
        for bug in Bug::ALL {
            let kebab: String = format!("{bug:?}")
                .char_indices()
                .flat_map(|(at, letter)| {
                    let hyphen = (at > 0 && letter.is_uppercase()).then_some('-');
                    hyphen.into_iter().chain(letter.to_lowercase())
                })
                .collect();
            assert_eq!(bug.name(), kebab);
            assert_eq!(Bug::parse(bug.name()), Some(*bug));
        }
        assert_eq!(Bug::parse("none"), None);
    }
}
