//! The oracle can fail: it refuses specifications with typical mistakes, each with the smallest counterexample, and
//! accepts the right ones beside them.
//!
//! Most wrong types are a right one with one thing changed ([`Variation`]); those that need operations of
//! their own are small types in `oracle/`.

mod account;
mod bag;
pub(crate) mod variation;

use account::Account;
use bag::Bag;
use claret_types::oracle::{self, Bounds, Counterexample, Law, Report};
use claret_types::{
    Bytes, Claims, Counter, CounterOp, DataType, Dict, DictOp, Draw, Examples, Execution, Few, FloatCounter,
    FloatCounterOp, List, ListOp, Mode, Modes, OpError, Register, RegisterOp, Reply, Set, SetOp, Unique, few,
    modes,
};
use variation::{Unchanged, Variation, Varied};

type CounterState = <Counter as DataType>::State;
type CounterEffect = <Counter as DataType>::Effect;
type CounterExecution = Result<Execution<CounterEffect>, OpError>;
type SetState = <Set as DataType>::State;
type SetExecution = Result<Execution<<Set as DataType>::Effect>, OpError>;

fn check<T: Examples>() -> Report {
    oracle::check::<T>(Bounds { cases: 300_000, ..Bounds::default() })
}

#[track_caller]
fn refused<T: Examples>() -> Counterexample {
    let report = check::<T>();
    let shown = report.to_string();
    assert!(!report.holds() && shown.contains("REFUSED"), "accepted:\n{shown}");
    report.verdict.expect("it does not hold")
}

#[track_caller]
fn holds<T: Examples>() -> Report {
    let report = check::<T>();
    assert!(report.holds(), "{report}");
    report
}

#[test]
fn built_in_types_hold_and_cases_are_counted() {
    for check in oracle::builtin() {
        let report = (check.run)(Bounds { cases: 100_000, ..Bounds::default() });
        assert!(report.holds(), "{report}");
        assert_eq!(report.name, check.name);
        assert!(report.complete >= 1 && report.cases > 1_000, "{report}");
    }
}

#[test]
fn a_variation_that_changes_nothing_changes_no_count() {
    let (base, varied) = (holds::<Set>(), holds::<Varied<Unchanged<Set>>>());
    assert_eq!((base.cases, base.configurations), (varied.cases, varied.configurations));
    assert_eq!((base.pairs, base.admitted), (varied.pairs, varied.admitted));
}

/// One TAKE that can be had once, and nothing else: the configurations can be counted by hand. From
/// `[1]`: one pending TAKE, in one order; from `[]`, TAKEs that find nothing, one to four of them.
#[test]
fn cases_are_counted_exactly() {
    let report = oracle::check::<bag::One>(Bounds { own: 1, ..Bounds::default() });
    assert!(report.holds(), "{report}");
    assert_eq!((report.states, report.configurations, report.cases), (2, 5, 5), "{report}");
    assert_eq!(report.complete, 4);
}

const ADD: Mode = Mode(0);
const ADD_SEEN: Mode = Mode(1);
const REMOVE: Mode = Mode(2);
const REMOVE_SEEN: Mode = Mode(3);
const PIN_PRESENT: Mode = Mode(4);
const PIN_ABSENT: Mode = Mode(5);
const READ_ALL: Mode = Mode(6);

/// Table 2's Set is stated for a void `add`; here the add that answers "was it new" shares its mode.
struct ReturningAddSharesMode;

fn shared(mut claims: Claims) -> Claims {
    for claim in &mut claims.list {
        if claim.mode == ADD_SEEN {
            claim.mode = ADD;
        }
    }
    claims
}

impl Variation for ReturningAddSharesMode {
    type Base = Set;

    fn footprint(op: &SetOp) -> Claims {
        shared(Set::footprint(op))
    }

    fn execute(state: &SetState, op: &SetOp, unique: Unique) -> SetExecution {
        let execution = Set::execute(state, op, unique)?;
        Ok(Execution { claims: shared(execution.claims.clone()), ..execution })
    }
}

#[test]
fn two_adds_that_both_answer_new_are_refused() {
    let found = refused::<Varied<ReturningAddSharesMode>>();
    assert_eq!((found.law, found.pending, found.steps), (Law::Commutativity, 2, 2), "{found}");
    let shown = found.to_string();
    assert!(shown.contains("T2 executes SADD.RETURNING x: (integer) 1; holds add on element x\n"), "{shown}");
    assert!(shown.contains("no longer answers (integer)"), "{shown}");
    assert_eq!(found.orders.len(), 2, "{shown}");
}

#[test]
fn withdrawals_that_fit_pair_by_pair_and_overdraw_together_are_refused() {
    let found = refused::<Account<false>>();
    assert_eq!((found.law, found.pending, found.steps), (Law::Commutativity, 3, 3), "{found}");
    assert_eq!(found.state, "5");
    let pairs_only = oracle::check::<Account<false>>(Bounds { pending: 2, ..Bounds::default() });
    assert!(pairs_only.holds(), "pairs alone do not show it: {pairs_only}");
}

#[test]
fn withdrawals_under_escrow_hold() {
    let report = holds::<Account<true>>();
    assert!(report.admitted > 0, "{report}");
}

#[test]
fn an_effect_that_chooses_again_at_apply_is_refused() {
    let found = refused::<Bag<true>>();
    assert_eq!((found.law, found.pending), (Law::Commutativity, 2), "{found}");
}

#[test]
fn an_effect_that_names_its_choice_holds_and_numbers_are_kept_over_orders() {
    let report = holds::<Bag<false>>();
    assert!(report.cases > 100, "takes of different elements are admitted together: {report}");
}

/// An inverse that adds once more instead of taking away.
struct WrongInverse;

impl Variation for WrongInverse {
    type Base = Counter;

    fn apply(state: &mut CounterState, effect: CounterEffect) -> CounterEffect {
        Counter::apply(state, effect.clone());
        effect
    }
}

#[test]
fn an_inverse_that_does_not_restore_is_refused() {
    let found = refused::<Varied<WrongInverse>>();
    assert_eq!((found.law, found.pending), (Law::Inverse, 1), "{found}");
}

/// `move` conflicts with `read`, and `read` does not conflict with `move`.
struct OneSidedModes;

impl Variation for OneSidedModes {
    type Base = Counter;
    const MODES: Modes = Modes {
        names: &["move", "move-seen", "read"],
        conflicts: &[modes(&[Mode(1), Mode(2)]), modes(&[Mode(0), Mode(1), Mode(2)]), modes(&[Mode(1)])],
        removing: 0,
        clearing: 0,
    };
}

#[test]
fn one_sided_modes_are_refused() {
    let found = refused::<Varied<OneSidedModes>>();
    assert_eq!(found.law, Law::Modes, "{found}");
    assert!(found.difference.contains("'move' conflicts with 'read'"), "{found}");
}

/// Forgets that an add changes anything.
struct FootprintTooSmall;

impl Variation for FootprintTooSmall {
    type Base = Set;

    fn footprint(op: &SetOp) -> Claims {
        let mut claims = Set::footprint(op);
        claims.list.retain(|claim| claim.mode != ADD);
        claims
    }
}

#[test]
fn a_footprint_that_is_too_small_is_refused() {
    let found = refused::<Varied<FootprintTooSmall>>();
    assert_eq!((found.law, found.pending), (Law::Footprint, 1), "{found}");
    assert!(found.to_string().contains("SADD"), "{found}");
}

/// Claims nothing, in any state: no footprints conflict, and the operations do not commute.
struct NoClaimsAlone;

impl Variation for NoClaimsAlone {
    type Base = bag::One;

    fn footprint((): &()) -> Claims {
        Claims::none()
    }

    fn execute(state: &Vec<u64>, (): &(), unique: Unique) -> Result<Execution<bag::BagEffect>, OpError> {
        let execution = bag::One::execute(state, &(), unique)?;
        Ok(Execution { claims: Claims::none(), ..execution })
    }
}

/// One pending operation at a time never shows what only combining would.
#[test]
fn footprints_that_do_not_conflict_must_commute() {
    let report = oracle::check::<Varied<NoClaimsAlone>>(Bounds { pending: 1, ..Bounds::default() });
    let found = report.verdict.as_ref().expect("two takes of one element");
    assert_eq!((found.law, found.pending), (Law::Footprint, 2), "{report}");
}

/// "A sum is always possible."
struct SumsAreTotal;

impl Variation for SumsAreTotal {
    type Base = Counter;

    fn is_total(_: &CounterOp) -> bool {
        true
    }
}

#[test]
fn a_total_operation_that_can_fail_is_refused() {
    let found = refused::<Varied<SumsAreTotal>>();
    assert_eq!(found.law, Law::Total, "{found}");
    assert!(found.to_string().contains("cannot be done"), "{found}");
}

/// "A read of a counter is always possible." Not where `SET` left what is no number.
struct ReadsOfNumbersAreTotal;

impl Variation for ReadsOfNumbersAreTotal {
    type Base = Counter;

    fn is_total(op: &CounterOp) -> bool {
        *op == CounterOp::Get
    }
}

#[test]
fn a_read_that_fails_on_what_another_type_left_is_not_total() {
    let found = refused::<Varied<ReadsOfNumbersAreTotal>>();
    assert_eq!((found.law, found.state.as_str()), (Law::Total, "Bytes(\"seven\")"), "{found}");
}

/// "However much is added, it can be added again."
struct LargeAmountsLast;

impl Variation for LargeAmountsLast {
    type Base = Counter;

    fn footprint(op: &CounterOp) -> Claims {
        let claims = Counter::footprint(op);
        match claims.draw == Draw::default() {
            true => claims,
            false => claims.drawing(Draw { down: 1 << 32, up: 1 << 32 }),
        }
    }

    fn is_lasting(_: &CounterOp) -> bool {
        true
    }
}

/// "What could be added once can be added later."
struct AddsLast;

impl Variation for AddsLast {
    type Base = Dict;

    fn is_lasting(op: &DictOp) -> bool {
        matches!(op, DictOp::Add(..))
    }
}

/// "Who could read can read." Not a seven.
struct SevenIsSecret;

impl Variation for SevenIsSecret {
    type Base = Counter;

    fn execute(
        state: &<Counter as DataType>::State,
        op: &CounterOp,
        unique: Unique,
    ) -> Result<Execution<<Counter as DataType>::Effect>, OpError> {
        match (state.as_int(), op) {
            (Ok(7), CounterOp::Get) => Err(OpError::Overflow("the secret".into(), "7".into())),
            _ => Counter::execute(state, op, unique),
        }
    }
}

#[test]
fn a_lasting_operation_that_may_fail_later_is_refused() {
    let found = refused::<Varied<SevenIsSecret>>();
    assert_eq!(found.law, Law::Lasting, "{found}");
    assert!(found.to_string().contains("it cannot be done"), "{found}");
    let found = refused::<Varied<LargeAmountsLast>>();
    assert_eq!(found.law, Law::Lasting, "{found}");
    assert!(found.to_string().contains("it draws much"), "{found}");
    let found = refused::<Varied<AddsLast>>();
    assert_eq!(found.law, Law::Lasting, "{found}");
    assert!(found.to_string().contains("others of its type are total"), "{found}");
}

#[test]
fn what_is_counted_lasts_if_it_is_little() {
    let lasts = |op| Counter::is_lasting(&op);
    assert!(lasts(CounterOp::Get) && lasts(CounterOp::Add(1 << 31)) && lasts(CounterOp::AddReturning(-1)));
    assert!(!lasts(CounterOp::Add((1 << 31) + 1)));
}

/// "What a write of an absent value does it does wherever it is done." Not where there is a value.
struct WritesOfAbsentValuesAreBlind;

impl Variation for WritesOfAbsentValuesAreBlind {
    type Base = Register;

    fn is_blind(op: &RegisterOp) -> bool {
        matches!(op, RegisterOp::SetIfAbsent(_))
    }
}

/// "To remove a member is to remove it." It does nothing to an absent record, and that is not what it does to others.
struct RemovalsAreBlind;

impl Variation for RemovalsAreBlind {
    type Base = Set;

    fn is_blind(op: &SetOp) -> bool {
        matches!(op, SetOp::Remove(_))
    }
}

/// "An append is as blind as a write." It adds the same, but a host may have no room for it.
struct AppendsAreBlind;

impl Variation for AppendsAreBlind {
    type Base = Register;

    fn is_blind(op: &RegisterOp) -> bool {
        matches!(op, RegisterOp::Append(_))
    }
}

#[test]
fn an_operation_that_depends_on_what_is_there_is_not_blind() {
    for found in [
        refused::<Varied<WritesOfAbsentValuesAreBlind>>(),
        refused::<Varied<RemovalsAreBlind>>(),
        refused::<Varied<AppendsAreBlind>>(),
    ] {
        assert_eq!(found.law, Law::Blind, "{found}");
        assert!(found.to_string().contains("is blind"), "{found}");
    }
}

/// "A pop answers nothing where there is nothing, so it can always be done." It draws, and which draws fit depends on the
/// state.
struct PopsAreTotal;

impl Variation for PopsAreTotal {
    type Base = List;

    fn is_total(_: &ListOp) -> bool {
        true
    }
}

#[test]
fn a_total_operation_that_draws_is_refused() {
    let found = refused::<Varied<PopsAreTotal>>();
    assert_eq!(found.law, Law::Total, "{found}");
    assert!(found.to_string().contains("it draws"), "{found}");
}

/// "An add that answers is granted only when the member is out, and holds everybody off; a remove only when
/// it is in: the two never meet." True of two operations that are granted in one state, and of nothing more.
struct NeverMeet;

impl Variation for NeverMeet {
    type Base = Set;
    const MODES: Modes = Modes {
        names: Set::MODES.names,
        conflicts: &[
            modes(&[ADD_SEEN, REMOVE, REMOVE_SEEN, PIN_ABSENT, READ_ALL]),
            modes(&[ADD, ADD_SEEN, REMOVE_SEEN, PIN_PRESENT, PIN_ABSENT, READ_ALL]),
            modes(&[ADD, REMOVE_SEEN, PIN_PRESENT, READ_ALL]),
            modes(&[ADD, ADD_SEEN, REMOVE, REMOVE_SEEN, PIN_PRESENT, PIN_ABSENT, READ_ALL]),
            modes(&[ADD_SEEN, REMOVE, REMOVE_SEEN, PIN_ABSENT]),
            modes(&[ADD, ADD_SEEN, REMOVE_SEEN, PIN_PRESENT]),
            modes(&[ADD, ADD_SEEN, REMOVE, REMOVE_SEEN]),
        ],
        ..Set::MODES
    };
}

#[test]
fn an_apply_between_two_grants_shows_what_one_state_does_not() {
    let grants_alone = oracle::check::<Varied<NeverMeet>>(Bounds { depth: 3, own: 1, ..Bounds::default() });
    assert!(grants_alone.holds(), "{grants_alone}");
    let found = refused::<Varied<NeverMeet>>();
    assert_eq!((found.law, found.pending, found.steps), (Law::Commutativity, 2, 4), "{found}");
    assert!(found.history.iter().any(|step| step.contains("is applied")), "{found}");
}

/// A transaction that has removed a member adds it again, next to another that removes it.
#[test]
fn a_grant_on_an_overlay_shows_what_committed_states_do_not() {
    let overlays_too = oracle::check::<Varied<NeverMeet>>(Bounds { depth: 3, ..Bounds::default() });
    let found = overlays_too.verdict.as_ref().expect("refused");
    assert_eq!((found.law, found.pending, found.steps), (Law::Commutativity, 3, 3), "{found}");
    assert!(found.history.iter().any(|step| step.contains("besides")), "{found}");
}

/// Derives "is it a member" as no, whatever the members are.
struct WrongCombine;

impl Variation for WrongCombine {
    type Base = Set;

    fn combine(held: &SetOp, _: &Reply, op: &SetOp) -> Option<Reply> {
        matches!((held, op), (SetOp::Members, SetOp::Contains(_))).then_some(Reply::Int(0))
    }
}

#[test]
fn a_combiner_that_derives_a_wrong_answer_is_refused() {
    let found = refused::<Varied<WrongCombine>>();
    assert_eq!((found.law, found.pending), (Law::Commutativity, 2), "{found}");
    assert!(found.history.iter().any(|step| step.contains("combines")), "{found}");
}

/// Every mode conflicts with every mode: nothing is wrong, and much is lost.
struct TooCareful;

impl Variation for TooCareful {
    type Base = Set;
    const MODES: Modes = Modes { conflicts: &[0b111_1111; 7], ..Set::MODES };
}

#[test]
fn concurrency_that_a_specification_gives_away_is_reported_and_not_refused() {
    let set = holds::<Set>();
    assert!(set.lost.is_empty(), "{set}");
    let report = holds::<Varied<TooCareful>>();
    let adds = report.lost.iter().find(|lost| lost.methods == ("SADD", "SADD"));
    assert!(adds.is_some_and(|lost| lost.count > 0), "{report}");
    assert!(report.to_string().contains("lost concurrency"), "{report}");
    let lost: u64 = report.lost.iter().map(|lost| lost.count).sum();
    assert_eq!(report.admitted + lost, set.admitted, "what it gives away is what Set admits");
}

/// An add that finds its member there does not keep it there.
struct PinForgotten;

impl Variation for PinForgotten {
    type Base = Set;

    fn execute(state: &SetState, op: &SetOp, unique: Unique) -> SetExecution {
        let mut execution = Set::execute(state, op, unique)?;
        if matches!(op, SetOp::Add(_)) {
            execution.claims.list.retain(|claim| claim.mode != PIN_PRESENT);
        }
        Ok(execution)
    }
}

#[test]
fn a_void_add_that_does_not_keep_its_member_is_refused() {
    let found = refused::<Varied<PinForgotten>>();
    assert_eq!((found.law, found.pending), (Law::Commutativity, 2), "{found}");
    assert!(found.to_string().contains("SREM"), "{found}");
}

/// `SISMEMBER x` with x out does not keep it out.
struct AbsenceNotPinned;

impl Variation for AbsenceNotPinned {
    type Base = Set;

    fn execute(state: &SetState, op: &SetOp, unique: Unique) -> SetExecution {
        let mut execution = Set::execute(state, op, unique)?;
        if matches!(op, SetOp::Contains(_)) {
            execution.claims.list.retain(|claim| claim.mode != PIN_ABSENT);
        }
        Ok(execution)
    }
}

#[test]
fn a_read_that_does_not_keep_what_it_saw_is_refused() {
    let found = refused::<Varied<AbsenceNotPinned>>();
    assert_eq!((found.law, found.pending), (Law::Commutativity, 2), "{found}");
    assert!(found.to_string().contains("SISMEMBER"), "{found}");
}

/// Forgets what the increments of others may still do to the room (P4, trap 15).
struct NoDraws;

fn undrawn(claims: Claims) -> Claims {
    claims.drawing(Draw::default())
}

impl Variation for NoDraws {
    type Base = Counter;

    fn footprint(op: &CounterOp) -> Claims {
        undrawn(Counter::footprint(op))
    }

    fn execute(state: &CounterState, op: &CounterOp, unique: Unique) -> CounterExecution {
        let execution = Counter::execute(state, op, unique)?;
        Ok(Execution { claims: undrawn(execution.claims.clone()), ..execution })
    }
}

#[test]
fn two_increments_that_each_fit_and_overflow_together_are_refused() {
    let found = refused::<Varied<NoDraws>>();
    assert_eq!((found.law, found.pending, found.steps), (Law::Commutativity, 2, 2), "{found}");
    assert!(found.difference.contains("is an error, though it was granted"), "{found}");
}

/// Cannot apply what it has granted.
struct ApplyPanics;

impl Variation for ApplyPanics {
    type Base = Counter;

    fn apply(state: &mut CounterState, effect: CounterEffect) -> CounterEffect {
        assert!(state.as_int() != Ok(7), "seven is too many");
        Counter::apply(state, effect)
    }
}

#[test]
fn an_apply_that_panics_is_a_counterexample_and_not_a_panic() {
    let found = refused::<Varied<ApplyPanics>>();
    assert_eq!((found.law, found.pending, found.steps), (Law::Commutativity, 1, 1), "{found}");
    assert!(found.difference.contains("panics"), "{found}");
}

/// Answers with the number of calls so far.
struct Moody;

impl Variation for Moody {
    type Base = Set;

    fn execute(state: &SetState, op: &SetOp, unique: Unique) -> SetExecution {
        use std::sync::atomic::{AtomicI64, Ordering};
        static CALLS: AtomicI64 = AtomicI64::new(0);
        let mut execution = Set::execute(state, op, unique)?;
        if matches!(op, SetOp::Len) {
            execution.reply = Reply::Int(CALLS.fetch_add(1, Ordering::Relaxed));
        }
        Ok(execution)
    }
}

#[test]
fn an_execute_that_is_not_a_function_is_refused() {
    let found = refused::<Varied<Moody>>();
    assert_eq!(found.law, Law::Function, "{found}");
    assert!(found.to_string().contains("SCARD"), "{found}");
}

/// Floats that travel without their fractions.
struct Rounding;

impl Variation for Rounding {
    type Base = FloatCounter;

    fn arguments(op: &FloatCounterOp) -> Few<Bytes> {
        match op {
            FloatCounterOp::Add(amount) => few([format!("{amount:.0}").into()]),
            other => FloatCounter::arguments(other),
        }
    }
}

#[test]
fn an_operation_that_does_not_travel_whole_is_refused() {
    let found = refused::<Varied<Rounding>>();
    assert_eq!((found.law, found.pending), (Law::Arguments, 0), "{found}");
    assert!(found.to_string().contains("parse makes another operation of that"), "{found}");
}

/// Arguments that parse does not take.
struct Mute;

impl Variation for Mute {
    type Base = Set;

    fn arguments(_: &SetOp) -> Few<Bytes> {
        Few::new()
    }
}

#[test]
fn an_operation_that_does_not_come_back_is_refused() {
    let found = refused::<Varied<Mute>>();
    assert_eq!(found.law, Law::Arguments, "{found}");
    assert!(found.to_string().contains("wrong number of arguments"), "{found}");
}

#[test]
fn the_limit_on_cases_is_kept_and_said() {
    let report = oracle::check::<Set>(Bounds { cases: 1_000, ..Bounds::default() });
    assert!(report.holds() && report.cases >= 1_000 && report.cases < 1_000 + 24, "{report}");
    assert!(report.complete < 4 && report.to_string().contains("limit of 1000 cases"), "{report}");
}

#[test]
fn the_same_check_counts_the_same_twice() {
    assert_eq!(holds::<Set>().to_string(), holds::<Set>().to_string());
}
