//! Bugs that can be planted in the protocol, to see that its tests notice: a check that cannot fail proves nothing.
//!
//! A bug stands at the line that it breaks, as [`is_planted`], which is a constant `false` without the feature `planted-bugs`: no bug is
//! in the code that is shipped. With the feature one is planted for a thread by `with_bug`.
//!
//! What a bug takes out is a rule of `docs/protocol.md` (P), `docs/combining.md` (C), `docs/batches.md` (B),
//! or `docs/replication.md` (S). Bugs of a way to commit stand in its folder (`ways/`). Faults of messages and of hosts are no code of
//! the protocol: the simulator makes them (`crates/sim/src/tamper.rs`).
//! `crates/sim/examples/planted.rs` says which check catches each, and how soon.

#[cfg(feature = "planted-bugs")]
pub use planting::with_bug;
#[cfg(feature = "planted-bugs")]
pub(crate) use planting::{heir_of, is_planted, note_heir};

/// Defines [`Bug`]: the variants with what is wrong, their names, and the rule that each takes out.
macro_rules! bugs {
    ($($(#[doc = $doc:literal])+ $bug:ident $name:literal $rule:literal;)+) => {
        /// A bug that an implementer could make.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Bug {
            $($(#[doc = $doc])+ $bug,)+
        }

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
        }
    };
}

/// Adds the bugs of each way to those of two rounds: the list of a way is a macro `bugs` in its folder, which hands on what is there
/// with its own behind it.
macro_rules! add_bugs_of {
    ($($kind:ident $way:ident: $Way:ident;)*) => { add_bugs_of! { [$($way)*] } };
    ([$way:ident $($others:ident)*] $($bugs:tt)*) => {
        crate::ways::$way::bugs! { add_bugs_of [$($others)*] $($bugs)* }
    };
    ([] $($bugs:tt)*) => { add_bugs_of_rounds! { $($bugs)* } };
}

macro_rules! add_bugs_of_rounds {
    ($($of_ways:tt)*) => {
        bugs! {
            // --- votes, refusals, attempts ---
            /// Withdraw turns a yes into a no.
            WithdrawUnvotes "withdraw-unvotes" "P2, P6";
            /// All attempts of a transaction bear one number.
            AttemptsShareNumber "attempts-share-number" "P8";
            /// A participant votes when the first of its waiting calls is granted.
            VoteBeforeLastGrant "vote-before-last-grant" "P1, P2";
            /// Of several records at a participant only the first gets its effects.
            ApplySkipsRecords "apply-skips-records" "P3";
            /// A command of the server is answered with the vote, by what it would have done then.
            CommandsAnswerEarly "commands-answer-early" "A23";
            /// Commands of a shard are carried out record after record.
            CommandsByRecord "commands-by-record" "A22";
            /// An operation is executed behind a command of the server.
            OperationsBehindCommands "operations-behind-commands" "A22";
            /// A command is carried out, and then once more.
            CommandsRunTwice "commands-run-twice" "A24";
            /// What commands answered is said once.
            LateAnswersOnce "late-answers-once" "A23";
            /// Whoever is promoted does not know that what commands answered may not have been heard.
            LateAnswersForgotten "late-answers-forgotten" "A24";
            /// The caller is told before commands have answered.
            ToldBeforeLateAnswers "told-before-late-answers" "A23";
            /// What changes a record wakes nobody who sleeps there.
            SleepersForgotten "sleepers-forgotten" "P91";
            /// Whatever comes to a record wakes all who sleep there.
            AllSleepersWoken "all-sleepers-woken" "P91";
            /// Who came last is woken first.
            YoungestSleeperFirst "youngest-sleeper-first" "P91";
            /// Who sleeps keeps what it holds.
            SleepersHold "sleepers-hold" "P91";
            /// A call that is undone goes on sleeping.
            UndoneSleep "undone-sleep" "P91, N1";
            /// What wakes one is used up, whatever becomes of that one.
            SleepersPassNothingOn "sleepers-pass-nothing-on" "P91";
            /// A withdraw that comes before its prepare leaves nothing behind.
            NoTombstone "no-tombstone" "P6, P28";
            /// What is refused is not remembered.
            ForgetsRefused "forgets-refused" "P28";
            /// What is remembered as refused is let in again.
            RefusedLetIn "refused-let-in" "P2, P28";
            /// What is applied is not remembered.
            ForgetsApplied "forgets-applied" "P10, P28";
            /// A call that came twice is executed twice.
            ExecuteTwice "execute-twice" "P10";
            /// A prepare of what is applied is carried out again.
            PrepareTwice "prepare-twice" "P10";
            /// A claim on a queue outlives the attempt that waited there.
            QueuePlacesStay "queue-places-stay" "P30";
            /// What was granted in the very step that ends the attempt stays granted.
            StepGrantStays "step-grant-stays" "P30";

            // --- replicas ---
            /// What counts leaves before the replicas have what it stands for.
            AnswersBeforeReplicas "answers-before-replicas" "S1, S2";
            /// A promoted replica holds nothing of what had voted.
            PromotedForgetsVotes "promoted-forgets-votes" "S3";
            /// A promoted replica holds nothing of what had voted and only read.
            PromotedForgetsReads "promoted-forgets-reads" "S3";
            /// A promoted replica knows nothing of what was decided.
            PromotedForgetsDecisions "promoted-forgets-decisions" "S3";
            /// A promoted replica does not know where entries stand that are not final.
            PromotedForgetsPlaces "promoted-forgets-places" "S8";
            /// A promoted replica takes answers that counted only at the vote's place for final ones.
            PromotedAnswersAnew "promoted-answers-anew" "S8, P76";
            /// Replicas hear that an attempt is final where it voted, wherever it is.
            FinalToldAsVoted "final-told-as-voted" "S8, P74";
            /// Replicas do not hear up to where timestamps may be used.
            UsedUntold "used-untold" "S17";
            /// A clock leaves before the replicas know that it may be used.
            ClockBeforeReplicas "clock-before-replicas" "S17";

            // --- optimistic transactions ---
            /// A look does not wait for who has voted.
            LooksPastVotes "looks-past-votes" "O2";
            /// What was seen goes to the commit without its answer.
            SeenUnchecked "seen-unchecked" "O3";
            /// A unique number is drawn anew when an operation is checked.
            DrawnAnew "drawn-anew" "O7";
            /// The same question is answered as before, though the transaction has changed the record.
            KnownThoughChanged "known-though-changed" "O6";
            /// A record that is locked is looked at without what was done under the lock.
            LooksBesideLock "looks-beside-lock" "O8";
            /// A look counts whose record was locked before it had its answer.
            OutrunLookCounts "outrun-look-counts" "O8";
            /// An error is believed though what was seen has changed.
            ErrorsUnchecked "errors-unchecked" "O5";
            /// What changes however often is never locked.
            NeverLocks "never-locks" "O8";
            /// What is only to be checked is carried out.
            ChecksApplied "checks-applied" "O5";
            /// What a look did on the way stays on the record.
            LookStays "look-stays" "O1";
            /// What is read and compared is not locked until the decision.
            ComparedUnlocked "compared-unlocked" "O3";
            /// What was done on a record before it was locked is not done.
            OwnLeftBehind "own-left-behind" "O8";

            // --- savepoints and nested transactions ---
            /// What was seen and is undone is not locked any more.
            UndoneReadsDropped "undone-reads-dropped" "N2";
            /// What is undone is carried out.
            UndoneApplied "undone-applied" "N3";
            /// A call that comes after it was undone is executed.
            LateUndoneExecuted "late-undone-executed" "N4";
            /// A prepare relies on calls that are undone.
            UndoneReliedOn "undone-relied-on" "N4";
            /// What was looked at and is undone is not checked.
            SeenUndoneUnchecked "seen-undone-unchecked" "N6";
            /// What was looked at, and is undone before its record is locked, counts as not heard.
            SeenCountsAsUnheard "seen-counts-as-unheard" "N4, N6";
            /// What is undone and only to be checked is carried out.
            CheckedUndoneApplied "checked-undone-applied" "N6";

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
            /// A coordinator that serves another transaction is not told which incarnations are known.
            RecycledUnmet "recycled-unmet" "P26, P45";
            /// A coordinator that serves another transaction is taken for that of a user who knows the end.
            RecycledStaysEnded "recycled-stays-ended" "P45";
            /// The timer of the transaction before is taken for one of this.
            RecycledKeepsTimer "recycled-keeps-timer" "P45";
            /// A transaction leaves the table when its user is told, though shards do not know its end.
            ForgottenWhenTold "forgotten-when-told" "P28, P45";
            /// A transaction whose user has left goes on.
            AbandonedNotAborted "abandoned-not-aborted" "P39";
            /// The calls of a batch are carried out in the opposite order.
            BatchReversed "batch-reversed" "B3";
            /// Who is carried gets answers by the leader's numbers.
            BatchNumbersShared "batch-numbers-shared" "B4";
            /// Where the end of a batch is unknown, each goes alone.
            BatchUnknownAgain "batch-unknown-again" "B6";
            /// Who is given up in a batch is told so at once.
            RegretToldAtOnce "regret-told-at-once" "B7";
            /// Who left, and is over before it is told, counts as under way for ever.
            BatchEndUncounted "batch-end-uncounted" "B9";
            /// Transactions are not told that a connection is new.
            NotMet "not-met" "P26, P40";
            /// A handshake that took long takes the place of a later connection.
            OlderHandshakeWins "older-handshake-wins" "P29, P40";
            /// What waited for an earlier connection goes over the next one.
            OutboxOutlivesConnection "outbox-outlives-connection" "P40";
            /// After the first time all that is sent is taken for sent before.
            AllIsRepetition "all-is-repetition" "P42";
            /// Of a refused frame the first request is blamed.
            FirstIsBlamed "first-is-blamed" "P43";
            /// A request that is refused alone is sent again.
            RefusedAloneAgain "refused-alone-again" "P43";
            /// A heartbeat of a refused frame is sent again.
            HeartbeatSentAgain "heartbeat-sent-again" "P43";
            /// Calls of one attempt on one record go to two shards when its slot moves in between.
            CallsOfOneRecordPart "calls-of-one-record-part" "P44";
            /// Nobody answers for a removed shard.
            RemovedUnanswered "removed-unanswered" "P56";
            /// The client goes on to answer for a shard that is back.
            ReturnedStaysRemoved "returned-stays-removed" "P56, P44";
            /// What is answered for a removed shard is answered as its last incarnation.
            RemovedKeepsIncarnation "removed-keeps-incarnation" "P56";

            // --- failure ---
            /// A shard that restarts keeps its incarnation.
            SilentRestart "silent-restart" "P26";
            /// Unique numbers begin anew with each incarnation.
            UniqueStartsAnew "unique-starts-anew" "P26";
            /// A lease that runs out refuses what has voted.
            LeaseEndsPrepared "lease-ends-prepared" "P23";
            /// A heartbeat that does not list an attempt refuses it though it has voted.
            UnlistedPreparedEnds "unlisted-prepared-ends" "P23";
            /// What is below the low-water mark is taken for new.
            BelowLowWaterIsNew "below-low-water-is-new" "P28";

            // --- records that vanish, departed sessions ---
            /// Who has not voted on a record that vanished goes on.
            VanishedRefusesNobody "vanished-refuses-nobody" "P36";
            /// Who has voted on a record that vanished is refused with the others.
            VanishedRefusesVoted "vanished-refuses-voted" "P36";
            /// What was voted on a record before it vanished is carried out on what comes after it.
            VanishedTakesEffects "vanished-takes-effects" "P36";
            /// Whoever comes after a record vanished is let in beside those who had voted.
            VanishedLetsIn "vanished-lets-in" "P36";
            /// Those who had voted on a record that vanished leave, and nobody who waits is let in.
            VanishedWakesNobody "vanished-wakes-nobody" "P36";
            /// A record whose expiry was changed vanishes when it would have before.
            VanishesAsBefore "vanishes-as-before" "P71";
            /// A record whose end a vote is about ends by its time before that is decided.
            VoteHoldsNoEnd "vote-holds-no-end" "P71";
            /// A prepare of what is applied, whose answers are gone, is answered without them.
            ForgottenAnswersAreNone "forgotten-answers-are-none" "P57";
            /// A departed session is forgotten with decisions that its low-water mark has not passed.
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
            /// Whoever is granted a record that an elder waits for is not told.
            GrantTellsNoElder "grant-tells-no-elder" "P20";
            /// Word of an elder counts only while the attempt is blocked.
            ElderForgotten "elder-forgotten" "P20, P21";
            /// Who has one vote gives way no more.
            OneVoteStays "one-vote-stays" "P21";
            /// An instant transaction looks at no lock.
            InstantPassesHolders "instant-passes-holders" "P32";
            /// An instant transaction is undone first one first.
            InstantUndoneForwards "instant-undone-forwards" "P31";

            // --- ordered calls: votes and clocks ---
            /// A vote need not be larger than the shard's clock.
            VoteBelowClock "vote-below-clock" "P73, P79";
            /// A vote need not be larger than the clocks of its records.
            VoteBelowRecords "vote-below-records" "P73";
            /// Clocks are raised for what a locked call claims in the state that it met, not for what it claims in any.
            ClocksOfTheMoment "clocks-of-the-moment" "P73";
            /// Those who draw have no order among each other.
            DrawsUnordered "draws-unordered" "P73, P4";
            /// Who draws little in order has no order with those who draw by a lock.
            LittleDrawsUnordered "little-draws-unordered" "P73, P82";
            /// Who uses a record as another type looks at no clock of it.
            OtherTypeUnordered "other-type-unordered" "P73, P14";
            /// Locked claims raise no clocks.
            LockedRaiseNothing "locked-raise-nothing" "P73, P75";
            /// Locked claims raise clocks to their vote, not to what is final.
            LockedKeepVote "locked-keep-vote" "P75, P84";
            /// A shard says what its clock is, and votes below that.
            ClockNotKept "clock-not-kept" "P79";
            /// A shard that lost its memory begins at its own time.
            RestartsAtOwnTime "restarts-at-own-time" "P85";
            /// A shard that lost its memory does not wait for what the others say that was used.
            BeginsUnasked "begins-unasked" "P85";
            /// Records' clocks are forgotten, and nobody notes how far they were.
            NoFloor "no-floor" "P73, P77";
            /// A shard takes keys over, and its clock stays below timestamps that were used there.
            TakerStaysLow "taker-stays-low" "P86";
            /// Whoever uses a record after it vanished stands behind those alone that conflict by their modes.
            VanishedUnsealed "vanished-unsealed" "P86";
            /// An error that tells of all of a record leaves no mark in its clocks.
            ErrorUnnoted "error-unnoted" "P78";

            // --- ordered calls: places and answers ---
            /// The smallest vote is final.
            SmallestVoteIsFinal "smallest-vote-is-final" "P74";
            /// A coordinator is believed what the final timestamp is, however far ahead.
            AnyFinalBelieved "any-final-believed" "P88";
            /// Who came without a timestamp votes though somebody was ordered while it waited.
            UnstampedVotesBeside "unstamped-votes-beside" "P87";
            /// Participants whose coordinator died carry out each at its own vote.
            OwnVoteAfterDeath "own-vote-after-death" "P84";
            /// Answers that came with a vote count though the final place is another.
            TentativeCounts "tentative-counts" "P76";
            /// An entry passes those that have voted and are not final.
            PassesVoted "passes-voted" "P75";
            /// An entry passes those that are final and wait.
            PassesFinal "passes-final" "P75";
            /// Who stood behind an entry is not looked at when that is carried out.
            WatchersForgotten "watchers-forgotten" "P75";
            /// Who is final and hears of an elder tells nobody who stands before it.
            ElderNotPassedOn "elder-not-passed-on" "P81";
            /// Who is final tells those who stand before it who waits for it, and not that it is elder itself.
            OwnBirthKept "own-birth-kept" "P81";
            /// An ordered call is let in beside a lock that conflicts.
            OrderedPassesLocks "ordered-passes-locks" "P80";
            /// A lock is granted beside entries that conflict.
            LocksPassOrdered "locks-pass-ordered" "P80";
            /// What is ordered need not be possible where it is let in.
            OrderedThoughImpossible "ordered-though-impossible" "P82";
            /// What draws is ordered wherever its bounds are.
            OrderedNearBounds "ordered-near-bounds" "P82";
            /// Whoever draws by a lock leaves no room for those in order.
            DrawsInOrderForgotten "draws-in-order-forgotten" "P82, P4";

            // --- ordered calls: telling ---
            /// The caller is told once all have voted and answered, wherever the safe time is.
            ToldBeforeSafeTime "told-before-safe-time" "P78";
            /// Who stands at its vote and met nobody is told, though what it stands behind is not settled.
            UnsettledCounts "unsettled-counts" "P77, P78";
            /// What a vote stands behind counts though it is not the final one.
            BehindBelowFinal "behind-below-final" "P77";
            /// Those who are present and conflict count as settled.
            PresentIsSettled "present-is-settled" "P77";
            /// An error is told, though what it was seen behind is not settled.
            ErrorToldAtOnce "error-told-at-once" "P78";
            /// A shard that owns keys and has not said what its clock is does not count for the safe time.
            UnheardLeftOut "unheard-left-out" "P78, P79";
            /// The clocks count of shards that know other owners of keys.
            OtherOwnersCount "other-owners-count" "P79";
            /// A vote may be before the shard's own time.
            VotesInThePast "votes-in-the-past" "P73, P79";
            /// The safe time is where the first shard is.
            OneClockIsSafeTime "one-clock-is-safe-time" "P78";

            // --- ordered calls: going over and back ---
            /// A trial counts of which not all was as it was tried.
            MixedTrialCounts "mixed-trial-counts" "P87";
            /// A trial counts though the load has changed meanwhile.
            UnequalTrialCounts "unequal-trial-counts" "P87";
            /// One trial with any gain is enough to go over.
            OneTrialSuffices "one-trial-suffices" "P87";
            /// Who has gone over tries what it has left two cycles later.
            LeftTriedAtOnce "left-tried-at-once" "P87";
            /// Who orders though few meet stays, unless it gains much to go back.
            SavesNothingAndStays "saves-nothing-and-stays" "P87";
            /// Who has gone over never tries to go back.
            NeverTriedBack "never-tried-back" "P87";
            /// Order is tried though nobody waits.
            TriedWithoutNeed "tried-without-need" "P87";
            /// Trials without gain come as often as others.
            LostTrialsStayFrequent "lost-trials-stay-frequent" "P87";
            /// Trials that say nothing come as often as others.
            MixedTrialsStayFrequent "mixed-trials-stay-frequent" "P87";
            /// Trials that have become rare stay so, whatever changes.
            RareTrialsStayRare "rare-trials-stay-rare" "P87";
            /// A shard with nothing to do goes on to ask for timestamps.
            IdleShardAsks "idle-shard-asks" "P87";
            /// What the operator says of order counts for nothing.
            OperatorUnheard "operator-unheard" "P87";
            /// Who has begun to stamp never stops.
            StampsForEver "stamps-for-ever" "P87";
            /// Who has stopped to stamp begins again with the first refusal.
            StampsAgainAtOnce "stamps-again-at-once" "P87";
            /// Who had to stamp again stops as soon as the first time.
            StopsAgainAtOnce "stops-again-at-once" "P87";
            /// Who is refused until others must have stopped takes all for settled.
            SettledThoughRefused "settled-though-refused" "P87";
            /// Who had stopped and rested takes the next trial for others that do not stop.
            IdleStays "idle-stays" "P87";
            /// That a shard's clock is far ahead of its time is not seen.
            AheadUnseen "ahead-unseen" "P87, P85";
            /// Those who stay with timestamps stop each at its own time.
            StopsAlone "stops-alone" "P87";
            /// That others have stopped is not noted.
            TakenUnnoted "taken-unnoted" "P87";
            /// What was suggested last stays when nobody asks for timestamps.
            SuggestionStays "suggestion-stays" "P87";
            /// A process suggests its own time before it has heard a shard's.
            SuggestsUnheard "suggests-unheard" "P88";
            /// A shard that keeps its clock to itself is asked with every frame.
            AskedWithEachFrame "asked-with-each-frame" "P79";
            /// A shard whose clock waits for others is asked as if it waited for time.
            AskedBeforeItHears "asked-before-it-hears" "P79, P88";
            /// A batch that lacks a timestamp is taken apart.
            UnstampedTakenApart "unstamped-taken-apart" "P87, B5";
            /// A batch that lacks a timestamp goes again without end.
            UnstampedWithoutEnd "unstamped-without-end" "B5";

            // --- members of an attempt ---
            /// Effects of a member that left are applied.
            PartedCount "parted-count" "C13";
            /// What a member that left waited for stays in the queue.
            PartedWaits "parted-waits" "C13";

            $($of_ways)*
        }
    };
}

crate::each_way!(add_bugs_of);

/// Never.
#[cfg(not(feature = "planted-bugs"))]
#[inline(always)]
pub(crate) const fn is_planted(_: Bug) -> bool {
    false
}

/// Each of these tests fails with its bug, and is a promise without it.
#[cfg(all(test, feature = "planted-bugs"))]
pub(crate) fn assert_noticed<const N: usize>(noticed: [(Bug, fn()); N]) {
    for (bug, promise) in noticed {
        let kept = with_bug(Some(bug), || std::panic::catch_unwind(promise).is_ok());
        assert!(!kept, "nobody noticed {}", bug.name());
    }
}

/// What is planted, and what some bugs remember.
#[cfg(feature = "planted-bugs")]
mod planting {
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeMap;

    use super::Bug;
    use crate::ids::{SessionId, TxId};

    /// Who is served under the handle of a transaction that is over.
    type Heirs = BTreeMap<(SessionId, u64), u64>;

    thread_local! {
        /// What is planted in the state machines that this thread runs: they do not know of it themselves.
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
        static HEIRS: RefCell<Heirs> = const { RefCell::new(BTreeMap::new()) };
    }

    /// Does something with a bug planted in all that the protocol does meanwhile, in this thread.
    pub fn with_bug<T>(bug: Option<Bug>, run: impl FnOnce() -> T) -> T {
        /// Puts back what was planted before, also when the run panics.
        struct Before(Option<Bug>);
        impl Drop for Before {
            fn drop(&mut self) {
                PLANTED.set(self.0);
            }
        }
        HEIRS.with_borrow_mut(BTreeMap::clear);
        let _before = Before(PLANTED.replace(bug));
        run()
    }

    /// Whether this bug is planted.
    pub(crate) fn is_planted(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }

    /// Of [`Bug::RenewedTakesStale`]: a coordinator is renewed for another transaction.
    pub(crate) fn note_heir(before: TxId, now: TxId) {
        if before != now && is_planted(Bug::RenewedTakesStale) {
            HEIRS.with_borrow_mut(|heirs| heirs.insert((before.session, before.sequence.0), now.sequence.0));
        }
    }

    /// The handle, or with [`Bug::RenewedTakesStale`] that of whoever is served in its place.
    pub(crate) fn heir_of(session: SessionId, handle: u64) -> u64 {
        let mut place = handle;
        if is_planted(Bug::RenewedTakesStale) {
            HEIRS.with_borrow(|heirs| {
                while let Some(heir) = heirs.get(&(session, place)) {
                    place = *heir;
                }
            });
        }
        place
    }
}
