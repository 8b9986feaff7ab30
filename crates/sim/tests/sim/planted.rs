//! Every bug that can be planted in the protocol is noticed by the simulator, within a bounded number of seeds.
//!
//! `cargo test --workspace --locked --test sim planted::`
//!
//! `noticed.txt` has the seed that noticed each bug last; it is tried first. A change of what seeds draw makes some of them
//! useless: then the search is as long as without the file, until `UPDATE=1` writes it anew.

use std::collections::BTreeMap;
use std::sync::Mutex;

use claret_sim::{Bug, hunt};

use crate::ways;

/// Some bugs need a rare configuration: `examples/planted.rs` prints how many seeds each takes.
const SEEDS_MAX: u64 = 4_000;

/// Where the search begins, and begins again.
const STARTS: [u64; 3] = [0, 100_000, 200_000];

const NOTICED_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sim/noticed.txt");

const NOTICED_HEAD: &str = "# The seed that noticed each planted bug last, which tests/sim/planted.rs tries first and UPDATE=1 writes anew";

/// A bug, the script that shows it, and how it plants it.
pub(crate) type Scripted = (&'static str, &'static str, &'static str);

/// What takes so many things to come together that few seeds have them, and the script that shows it each time.
const SCRIPTED: [Scripted; 78] = [
    ("parted-count", MEMBERS, "with_bug(Some(Bug::PartedCount),"),
    ("parted-waits", MEMBERS, "with_bug(Some(Bug::PartedWaits),"),
    ("never-capped", LOCKS, "with_bug(Some(Bug::NeverCapped),"),
    ("calls-of-one-record-part", MOVED, "with_bug(Some(Bug::CallsOfOneRecordPart),"),
    ("unsettled-counts", TOLD, "with_bug(Some(Bug::UnsettledCounts),"),
    ("present-is-settled", TOLD, "with_bug(Some(Bug::PresentIsSettled),"),
    ("behind-below-final", TOLD, "with_bug(Some(Bug::BehindBelowFinal),"),
    ("vote-below-clock", TOLD, "with_bug(Some(Bug::VoteBelowClock),"),
    ("clock-not-kept", TOLD, "with_bug(Some(Bug::ClockNotKept),"),
    ("error-unnoted", TOLD, "with_bug(Some(Bug::ErrorUnnoted),"),
    ("one-clock-is-safe-time", TOLD, "with_bug(Some(Bug::OneClockIsSafeTime),"),
    ("error-told-at-once", TOLD, "with_bug(Some(Bug::ErrorToldAtOnce),"),
    ("unheard-left-out", TOLD, "with_bug(Some(Bug::UnheardLeftOut),"),
    ("restarts-at-own-time", CLOCKS, "with_bug(Some(Bug::RestartsAtOwnTime),"),
    ("begins-unasked", CLOCKS, "with_bug(Some(Bug::BeginsUnasked),"),
    ("no-floor", CLOCKS, "with_bug(Some(Bug::NoFloor),"),
    ("votes-in-the-past", CLOCKS, "with_bug(Some(Bug::VotesInThePast),"),
    ("other-owners-count", CLOCKS, "with_bug(Some(Bug::OtherOwnersCount),"),
    ("unstamped-votes-beside", CLOCKS, "with_bug(Some(Bug::UnstampedVotesBeside),"),
    ("any-final-believed", CLOCKS, "with_bug(Some(Bug::AnyFinalBelieved),"),
    ("own-birth-kept", CLOCKS, "with_bug(Some(Bug::OwnBirthKept),"),
    ("elder-not-passed-on", CLOCKS, "with_bug(Some(Bug::ElderNotPassedOn),"),
    ("clock-before-replicas", PROMOTED, "with_bug(Some(Bug::ClockBeforeReplicas),"),
    ("used-untold", PROMOTED, "with_bug(Some(Bug::UsedUntold),"),
    ("promoted-forgets-places", PROMOTED, "with_bug(Some(Bug::PromotedForgetsPlaces),"),
    ("final-told-as-voted", PROMOTED, "with_bug(Some(Bug::FinalToldAsVoted),"),
    ("looks-past-votes", OPTIMISTIC, "with_bug(Some(Bug::LooksPastVotes),"),
    ("drawn-anew", OPTIMISTIC, "Some(Bug::DrawnAnew)"),
    ("never-locks", OPTIMISTIC, "with_bug(Some(Bug::NeverLocks),"),
    ("looks-beside-lock", OPTIMISTIC, "with_bug(Some(Bug::LooksBesideLock),"),
    ("undone-reads-dropped", NESTING, "with_bug(Some(Bug::UndoneReadsDropped),"),
    ("undone-applied", NESTING, "with_bug(Some(Bug::UndoneApplied),"),
    ("late-undone-executed", NESTING, "with_bug(Some(Bug::LateUndoneExecuted),"),
    ("undone-relied-on", NESTING, "with_bug(Some(Bug::UndoneReliedOn),"),
    ("seen-undone-unchecked", NESTING, "with_bug(Some(Bug::SeenUndoneUnchecked),"),
    ("checked-undone-applied", NESTING, "with_bug(Some(Bug::CheckedUndoneApplied),"),
    ("seen-counts-as-unheard", NESTING, "with_bug(Some(Bug::SeenCountsAsUnheard),"),
    ("ordered-though-impossible", LASTING, "with_bug(Some(Bug::OrderedThoughImpossible),"),
    ("ordered-near-bounds", LASTING, "with_bug(Some(Bug::OrderedNearBounds),"),
    ("draws-in-order-forgotten", LASTING, "with_bug(Some(Bug::DrawsInOrderForgotten),"),
    ("little-draws-unordered", LASTING, "with_bug(Some(Bug::LittleDrawsUnordered),"),
    ("commands-by-record", COMMANDS, "with_bug(Some(Bug::CommandsByRecord),"),
    ("late-answers-forgotten", COMMANDS, "with_bug(Some(Bug::LateAnswersForgotten),"),
    ("late-answers-once", COMMANDS, "Bug::LateAnswersOnce,"),
    ("sleepers-forgotten", SLEEPING, "Bug::SleepersForgotten,"),
    ("all-sleepers-woken", SLEEPING, "Bug::AllSleepersWoken,"),
    ("youngest-sleeper-first", SLEEPING, "Bug::YoungestSleeperFirst]"),
    ("sleepers-hold", SLEEPING, "with_bug(Some(Bug::SleepersHold),"),
    ("undone-sleep", SLEEPING, "with_bug(Some(Bug::UndoneSleep),"),
    ("sleepers-pass-nothing-on", SLEEPING, "with_bug(Some(Bug::SleepersPassNothingOn),"),
    ("operations-behind-commands", COMMANDS, "with_bug(Some(Bug::OperationsBehindCommands),"),
    ("promoted-answers-anew", PROMOTED, "with_bug(Some(Bug::PromotedAnswersAnew),"),
    ("mixed-trial-counts", ADAPTIVE, "Bug::MixedTrialCounts,"),
    ("unequal-trial-counts", ADAPTIVE, "Bug::UnequalTrialCounts,"),
    ("one-trial-suffices", ADAPTIVE, "Bug::OneTrialSuffices,"),
    ("left-tried-at-once", ADAPTIVE, "Bug::LeftTriedAtOnce,"),
    ("saves-nothing-and-stays", ADAPTIVE, "Bug::SavesNothingAndStays,"),
    ("never-tried-back", ADAPTIVE, "Bug::NeverTriedBack,"),
    ("tried-without-need", ADAPTIVE, "Bug::TriedWithoutNeed,"),
    ("lost-trials-stay-frequent", ADAPTIVE, "Bug::LostTrialsStayFrequent,"),
    ("mixed-trials-stay-frequent", ADAPTIVE, "Bug::MixedTrialsStayFrequent,"),
    ("rare-trials-stay-rare", ADAPTIVE, "Bug::RareTrialsStayRare,"),
    ("idle-shard-asks", ADAPTIVE, "Bug::IdleShardAsks,"),
    ("operator-unheard", ADAPTIVE, "Bug::OperatorUnheard,"),
    ("stamps-for-ever", STAMPS, "Bug::StampsForEver,"),
    ("stamps-again-at-once", STAMPS, "Bug::StampsAgainAtOnce,"),
    ("stops-again-at-once", STAMPS, "Bug::StopsAgainAtOnce,"),
    ("suggests-unheard", STAMPS, "Bug::SuggestsUnheard,"),
    ("asked-with-each-frame", STAMPS, "Bug::AskedWithEachFrame,"),
    ("asked-before-it-hears", STAMPS, "Bug::AskedBeforeItHears,"),
    ("settled-though-refused", STAMPS, "Bug::SettledThoughRefused,"),
    ("taken-unnoted", STAMPS, "Bug::TakenUnnoted,"),
    ("stops-alone", STAMPS, "Bug::StopsAlone,"),
    ("idle-stays", STAMPS, "Bug::IdleStays,"),
    ("ahead-unseen", STAMPS, "Bug::AheadUnseen,"),
    ("suggestion-stays", BATCHES, "Bug::SuggestionStays,"),
    ("unstamped-taken-apart", BATCHES, "Bug::UnstampedTakenApart,"),
    ("unstamped-without-end", BATCHES, "Bug::UnstampedWithoutEnd,"),
];

const ADAPTIVE: &str = include_str!("../../../core/src/shard/ways/ordered/adaptive.rs");
const BATCHES: &str = include_str!("../../../core/src/client/tests/batches.rs");
const STAMPS: &str = include_str!("../../../core/src/client/ways/ordered/mod.rs");
const MEMBERS: &str = include_str!("../../../core/tests/core/members.rs");
const LOCKS: &str = include_str!("../../../core/tests/core/locks.rs");
const MOVED: &str = include_str!("../../../core/tests/core/moved.rs");
const CLOCKS: &str = include_str!("../../../core/tests/core/traps/clocks.rs");
const NESTING: &str = include_str!("../../../core/tests/core/nesting.rs");
const OPTIMISTIC: &str = include_str!("../../../core/tests/core/optimistic.rs");
const SLEEPING: &str = include_str!("../../../core/tests/core/traps/sleeping.rs");
const COMMANDS: &str = include_str!("../../../core/tests/core/traps/commands.rs");
const LASTING: &str = include_str!("../../../core/tests/core/traps/lasting.rs");
const PROMOTED: &str = include_str!("../../../core/tests/core/traps/promoted.rs");
const TOLD: &str = include_str!("../../../core/tests/core/traps/told.rs");

#[test]
fn every_planted_bug_is_noticed() {
    let scripted = || SCRIPTED.iter().chain(ways::SCRIPTED.iter().copied().flatten());
    for (name, script, plants) in scripted() {
        assert!(script.contains(*plants), "no script shows {name}");
    }
    let is_hunted = |bug: &Bug| scripted().all(|(name, ..)| *name != bug.name());
    let bugs: Vec<Bug> = Bug::all().into_iter().filter(is_hunted).collect();
    let known = known_seeds();
    let noticed_by = hunt::silently(|| seeds_that_notice(&bugs, &known));
    let missed: Vec<&str> =
        bugs.iter().map(|bug| bug.name()).filter(|name| !noticed_by.contains_key(name)).collect();
    assert!(missed.is_empty(), "nobody noticed {missed:?}");

    let others = noticed_by.iter().filter(|(name, seed)| known.get(**name) != Some(*seed)).count();
    if std::env::var_os("UPDATE").is_some() {
        let lines: String = noticed_by.iter().map(|(name, seed)| format!("{name} {seed}\n")).collect();
        std::fs::write(NOTICED_FILE, format!("{NOTICED_HEAD}\n{lines}")).expect("the folder is there");
    } else if others > 0 {
        println!("{others} bugs were noticed by other seeds than noticed.txt has: UPDATE=1 writes them");
    }
}

/// The first seed found for each bug that one notices. Two threads take the next bug as they come free.
fn seeds_that_notice(bugs: &[Bug], known: &BTreeMap<String, u64>) -> BTreeMap<&'static str, u64> {
    let next = Mutex::new(bugs.iter());
    let noticed_by = Mutex::new(BTreeMap::new());
    let hunt = || {
        while let Some(bug) = take(&next) {
            let at_once = known.get(bug.name()).and_then(|seed| hunt::first_failure(*bug, *seed, 1));
            let search = || STARTS.iter().find_map(|start| hunt::first_failure(*bug, *start, SEEDS_MAX));
            if let Some(catch) = at_once.or_else(search) {
                noticed_by.lock().expect("no thread panics").insert(bug.name(), catch.seed);
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(hunt);
        scope.spawn(hunt);
    });
    noticed_by.into_inner().expect("no thread panics")
}

fn take<'a>(bugs: &Mutex<std::slice::Iter<'a, Bug>>) -> Option<&'a Bug> {
    bugs.lock().expect("no thread panics").next()
}

/// Lines of a bug and a seed. A bug that is no longer there does no harm.
fn known_seeds() -> BTreeMap<String, u64> {
    let lines = std::fs::read_to_string(NOTICED_FILE).unwrap_or_default();
    let pair =
        |line: &str| line.split_once(' ').and_then(|(bug, seed)| Some((bug.to_owned(), seed.parse().ok()?)));
    lines.lines().filter_map(pair).collect()
}
