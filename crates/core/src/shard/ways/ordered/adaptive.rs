//! Whether the shard asks for timestamps (P87): it does while it carries out more with than without.
//!
//! What order saves is waiting, and what it costs is messages. Which is more depends on the keys, on how many processes there are, and on
//! whether servers or round trips are what is short. So it is not computed but tried: at the beginning of some *cycles* a shard does
//! the other thing for five *slots*, and compares what it carried out in three of them with the three before and the three after.
//!
//! ```text
//!   slot   17 18 19   | 0  1         2  3  4     | 5  6         7  8  9      | 10 ... 16         of 20 in a cycle
//!          before     | goes over    trial       | goes back    after        | is it as it was?
//! ```
//!
//! To go over takes as long as processes need to hear of it. One with a single transaction hears when that ends, and so two slots are left
//! for it: with one, most trials of 64 such processes were mixed and said nothing.
//!
//! What trials in a row gained is summed up, without [`WORTH`] of each, and at [`ENOUGH`] the shard goes over: one trial that gains much,
//! or several that gain a little. One trial alone may gain a little by chance. After one that gains nothing the next comes after twice as
//! many cycles, and so it does after one that says nothing, up to a few. When it goes over, what it leaves has lost a trial. As soon as
//! more or less is carried out than at the trial, or ordered calls meet more or less often, the next cycle has one.
//!
//! Where less than one attempt in [`WAITING`] has to wait before its vote, order has nothing to save, and is not tried. Who waits while it
//! executes is not counted: it locks, whatever is ordered. Where ordered calls meet another one on less than one record in [`MEETING`], a trial
//! that loses less than [`WORTH`] is enough to go back.
//!
//! A process stamps everything or nothing, so all shards have to try at the same time: cycles begin by the time of day, and rarer
//! ones are among the others. Whether what came was stamped a shard sees; where it was not what it tried, nothing is concluded.

use crate::ids::Time;
use crate::limits::Limits;
use crate::planted::{Bug, is_planted};
use crate::shard::picture::Trials;

/// Slots of a cycle.
const SLOTS: u64 = 20;

/// The trial, without the slots in which traffic goes over.
const TRIAL: std::ops::RangeInclusive<u64> = 2..=4;

/// What it is compared with, besides the last three of the cycle before.
const AFTER: std::ops::RangeInclusive<u64> = 7..=9;

/// The first of those last three.
const BEFORE: u64 = 17;

/// Where it is looked at whether it is as it was.
const STEADY: std::ops::RangeInclusive<u64> = 10..=16;

/// What a trial has to gain to count, and all of those in a row together, in thousandths of what is carried out otherwise.
const WORTH: u64 = 50;
const ENOUGH: u64 = 300;

/// A trial that carries out less than so many thousandths of it is lost for longer.
const LOST: u64 = 700;

/// Before and after are no more apart than this, in parts of a hundred, or the load has changed meanwhile.
const ALIKE: u64 = 60;

/// A trial comes after 2 to this power cycles at most.
const RARER_MAX: u32 = 5;

/// The same after trials that said nothing.
const RARER_MAX_OF_NOTHING: u32 = 3;

/// One attempt in so many has to wait before its vote, or order is not tried.
const WAITING: u64 = 8;

/// On one record in so many that an ordered call takes a place on, it has to meet another one, or order saves nothing.
const MEETING: u64 = 16;

/// Cycles from one change to the next, at least.
const CHANGES_APART: u64 = 2;

/// Cycles in which nearly nothing is carried out until a shard asks for timestamps no more.
const IDLE: u64 = 2;

/// What was carried out.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    stamped: u64,
    unstamped: u64,
    /// So many records took a place, and on so many somebody was met.
    placed: u64,
    met: u64,
    /// So many attempts were carried out, and so many had to wait before their vote.
    attempts: u64,
    waited: u64,
}

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(in crate::shard) struct Adaptive {
    orders: bool,
    /// A trial comes after 2 to this power cycles.
    rarer: u32,
    /// What trials in a row gained.
    gained: u64,
    /// The trial of this cycle is on.
    tries: bool,
    /// The slot, counted since the time of day began.
    slot: u64,
    slot_ends: Time,
    now: Done,
    before: Done,
    tried: Done,
    after: Done,
    steady: Done,
    /// What was steady in the cycle of the last trial.
    was_steady: Option<Done>,
    /// In which cycle it began to do what it does.
    changed_in: u64,
    idle: u64,
    counts: Trials,
}

/// By how much trials become rarer after one that carried out so many thousandths of what is carried out otherwise.
fn rarer_after(permille: u64) -> u32 {
    if permille < LOST { 2 } else { 1 }
}

impl Done {
    fn all(&self) -> u64 {
        self.stamped + self.unstamped
    }

    fn add(&mut self, other: &Done) {
        self.stamped += other.stamped;
        self.unstamped += other.unstamped;
        self.placed += other.placed;
        self.met += other.met;
        self.attempts += other.attempts;
        self.waited += other.waited;
    }

    /// Whether nearly all of it was stamped, or nearly nothing.
    fn is(&self, stamped: bool) -> bool {
        let other = if stamped { self.unstamped } else { self.stamped };
        other * 8 <= self.all()
    }

    /// Whether much less or more is carried out, or met.
    fn differs(&self, other: &Done) -> bool {
        let apart = |one: u64, other: u64, percent: u64| one.min(other) * 100 < one.max(other) * percent;
        let met = |done: &Done| done.met * 1_000 / done.placed.max(1);
        apart(self.all(), other.all(), 70)
            || self.placed > 0 && other.placed > 0 && apart(met(self).max(10), met(other).max(10), 50)
    }
}

impl Adaptive {
    /// Whether everything that comes is to have a timestamp.
    #[inline]
    pub(in crate::shard) fn asks(&self, limits: &Limits) -> bool {
        let goes_over = self.tries && self.slot % SLOTS <= *TRIAL.end();
        let says = limits.asks_for_timestamps.filter(|_| !is_planted(Bug::OperatorUnheard));
        says.unwrap_or(self.orders != goes_over)
    }

    /// What became of trials.
    pub(in crate::shard) fn trials(&self) -> Trials {
        self.counts
    }

    /// An attempt has to wait before its vote.
    #[inline]
    pub(in crate::shard) fn note_wait(&mut self) {
        self.now.waited += 1;
    }

    /// An attempt with so many calls was carried out.
    #[inline]
    pub(in crate::shard) fn note_done(&mut self, now: Time, limits: &Limits, calls: usize, stamped: bool) {
        self.pass(now, limits);
        self.now.attempts += 1;
        match stamped {
            true => self.now.stamped += calls as u64,
            false => self.now.unstamped += calls as u64,
        }
    }

    /// An attempt took its place on so many records, and on so many of them met another one with which it conflicts.
    #[inline]
    pub(in crate::shard) fn note_met(&mut self, placed: usize, met: usize) {
        self.now.placed += placed as u64;
        self.now.met += met as u64;
    }

    /// Time passes.
    #[inline]
    pub(in crate::shard) fn pass(&mut self, now: Time, limits: &Limits) {
        if now >= self.slot_ends {
            self.end_slots(now, limits);
        }
    }

    #[cold]
    fn end_slots(&mut self, now: Time, limits: &Limits) {
        let slot_us = (limits.order_trial_us / SLOTS).max(1);
        let slot = now.0 / slot_us;
        self.slot_ends = Time(slot.saturating_add(1).saturating_mul(slot_us));
        if slot > self.slot {
            self.end_slot(slot, limits);
        }
    }

    fn end_slot(&mut self, next: u64, limits: &Limits) {
        let (ended, done) = (self.slot, std::mem::take(&mut self.now));
        let at = ended % SLOTS;
        if at == BEFORE {
            self.before = done;
        } else if at > BEFORE {
            self.before.add(&done);
        } else if TRIAL.contains(&at) {
            self.tried.add(&done);
        } else if AFTER.contains(&at) {
            self.after.add(&done);
        } else if STEADY.contains(&at) {
            self.before = Done::default();
            self.steady.add(&done);
        }
        self.slot = next;
        if next - ended > SLOTS / 2 {
            // Nothing came: what was there before says nothing.
            (self.before, self.tries) = (Done::default(), false);
        }
        if self.tries && next % SLOTS > *AFTER.end() {
            self.conclude(next / SLOTS);
        }
        if at <= *STEADY.end() && (next % SLOTS > *STEADY.end() || next / SLOTS > ended / SLOTS) {
            self.look_back(ended / SLOTS, limits);
        }
        if next / SLOTS > ended / SLOTS {
            self.begin_cycle(next / SLOTS, limits);
        }
    }

    /// A trial is over.
    fn conclude(&mut self, cycle: u64) {
        self.tries = false;
        let (before, after, tried) = (self.before.all(), self.after.all(), self.tried.all());
        let is_alike =
            before.min(after) * 100 >= before.max(after) * ALIKE || is_planted(Bug::UnequalTrialCounts);
        let is_pure =
            self.tried.is(!self.orders) && self.before.is(self.orders) && self.after.is(self.orders)
                || is_planted(Bug::MixedTrialCounts);
        if !is_alike || !is_pure {
            self.counts.mixed += u64::from(!is_pure);
            self.counts.unequal += u64::from(is_pure);
            if !is_planted(Bug::MixedTrialsStayFrequent) {
                self.rarer = self.rarer.max((self.rarer + 1).min(RARER_MAX_OF_NOTHING));
            }
            return;
        }
        self.counts.compared += 1;
        self.was_steady = None;
        let permille = tried * 2 * 1_000 / (before + after).max(1);
        self.gained = (self.gained + permille).saturating_sub(1_000 + WORTH);
        let saves_nothing = self.orders
            && self.before.met * MEETING < self.before.placed
            && permille + WORTH >= 1_000
            && !is_planted(Bug::SavesNothingAndStays);
        if saves_nothing || self.gained >= ENOUGH || self.gained > 0 && is_planted(Bug::OneTrialSuffices) {
            (self.orders, self.changed_in, self.gained) = (!self.orders, cycle, 0);
            self.counts.changes += 1;
            // What it leaves has been tried, too, before and after.
            let left = 1_000_000 / permille.max(1);
            self.rarer = if is_planted(Bug::LeftTriedAtOnce) { 0 } else { rarer_after(left) };
        } else if self.gained > 0 || is_planted(Bug::LostTrialsStayFrequent) {
            self.rarer = 0;
        } else {
            self.rarer = (self.rarer + rarer_after(permille)).min(RARER_MAX);
        }
    }

    /// A cycle is nearly over: is it as it was after the last trial?
    fn look_back(&mut self, cycle: u64, limits: &Limits) {
        let steady = std::mem::take(&mut self.steady);
        if steady.all() <= limits.order_trial_calls_min {
            self.idle += 1;
            if self.idle >= IDLE && !is_planted(Bug::IdleShardAsks) {
                self.counts.changes += u64::from(std::mem::take(&mut self.orders));
            }
            return;
        }
        self.idle = 0;
        match &self.was_steady {
            Some(was) if steady.differs(was) && !is_planted(Bug::RareTrialsStayRare) => {
                (self.rarer, self.was_steady) = (0, Some(steady));
            }
            Some(_) => {}
            // In the cycle in which it goes over, that takes some of these slots.
            None if cycle == self.changed_in => {}
            None => self.was_steady = Some(steady),
        }
    }

    fn begin_cycle(&mut self, cycle: u64, limits: &Limits) {
        (self.tried, self.after) = (Done::default(), Done::default());
        let apart = 1 << self.rarer;
        let is_due = cycle.is_multiple_of(apart) && cycle >= self.changed_in + apart.max(CHANGES_APART);
        let enough = self.before.all() > 3 * limits.order_trial_calls_min;
        let saves = self.before.waited * WAITING >= self.before.attempts || is_planted(Bug::TriedWithoutNeed);
        let may = if self.orders { !is_planted(Bug::NeverTriedBack) } else { saves };
        self.tries = is_due && enough && may && self.before.is(self.orders);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CYCLE_US: u64 = 1_000_000;

    /// A shard of which clients get so much in a slot with timestamps and without, from one cycle until another one. Each attempt waits
    /// for a lock.
    struct Driven {
        adaptive: Adaptive,
        cycle: u64,
        /// In so many slots it asked.
        asked: u64,
        /// So many of a thousand ordered calls meet another one.
        met: usize,
        /// Of the cycle in which it goes over, the rest carries out a third.
        goes_over_slowly: bool,
    }

    impl Default for Driven {
        fn default() -> Self {
            Driven { adaptive: Adaptive::default(), cycle: 0, asked: 0, met: 300, goes_over_slowly: false }
        }
    }

    impl Driven {
        fn run(&mut self, cycles: u64, with: usize, without: usize) -> &mut Self {
            let limits = Limits::default();
            self.asked = 0;
            for slot in self.cycle * SLOTS..(self.cycle + cycles) * SLOTS {
                let now = Time(slot * CYCLE_US / SLOTS);
                self.adaptive.pass(now, &limits);
                let asks = self.adaptive.asks(&limits);
                self.asked += u64::from(asks);
                let goes_over = self.adaptive.orders && slot / SLOTS == self.adaptive.changed_in;
                let with = if self.goes_over_slowly && goes_over { with / 3 } else { with };
                self.adaptive.note_wait();
                self.adaptive.note_done(now, &limits, if asks { with } else { without }, asks);
                if asks {
                    self.adaptive.note_met(with, with * self.met / 1_000);
                }
            }
            self.cycle += cycles;
            self
        }
    }

    #[test]
    fn a_shard_does_what_carries_out_more_and_tries_the_other_ever_more_rarely() {
        for (with, without, orders) in [(3_000, 1_000, true), (1_000, 3_000, false), (1_000, 1_000, false)] {
            let mut driven = Driven::default();
            assert_eq!(driven.run(4, with, without).adaptive.orders, orders, "{with} and {without}");
            driven.run(200, with, without);
            let others = if orders { 200 * SLOTS - driven.asked } else { driven.asked };
            // Five slots each: few at first, and then one trial in 32 cycles.
            assert!((30..60).contains(&others), "{others}");
        }
    }

    /// Bug: a shard that had gone over tried what it had left two cycles later. Consequence: the third second of each load on hot keys had a
    /// trial of locks, and was a fifth slower. Mend: what was carried out before it went over has told what that is worth.
    #[test]
    fn what_a_shard_has_left_is_not_tried_at_once() {
        for goes_over_slowly in [false, true] {
            let mut driven = Driven { goes_over_slowly, ..Driven::default() };
            while !driven.adaptive.orders {
                driven.run(1, 3_000, 1_000);
            }
            driven.run(3, 3_000, 1_000);
            assert_eq!(driven.asked, 3 * SLOTS, "three seconds without a trial; slowly: {goes_over_slowly}");
        }
    }

    /// Bug: a load on hot keys became one on cold keys, where order costs a little more than it saves. Consequence: trials gained a little,
    /// came each second, and cost a tenth of it; it took ten seconds to go back. Mend: order that saves nothing is to be better, not locks.
    #[test]
    fn where_few_meet_a_trial_that_loses_little_is_enough_to_go_back() {
        for (met, with, orders) in [(200, 1_000, true), (20, 1_000, false), (20, 1_200, true)] {
            let mut driven = Driven::default();
            assert!(driven.run(4, 3_000, 1_000).adaptive.orders);
            driven.met = met;
            driven.run(8, with, 1_000);
            assert_eq!(driven.adaptive.orders, orders, "{met} of a thousand meet, and order does {with}");
        }
    }

    #[test]
    fn a_little_more_is_believed_when_it_is_seen_again() {
        let mut driven = Driven::default();
        assert!(!driven.run(4, 1_150, 1_000).adaptive.orders, "once or twice that may be chance");
        assert!(driven.run(4, 1_150, 1_000).adaptive.orders);
    }

    #[test]
    fn a_shard_follows_when_things_change() {
        let mut driven = Driven::default();
        driven.run(100, 3_000, 1_000).run(3, 2_000, 4_000);
        assert!(!driven.adaptive.orders, "within three cycles, however rare trials had become");
        driven.run(100, 2_000, 4_000).run(3, 3_000, 1_000);
        assert!(driven.adaptive.orders);
    }

    /// Another shard asks, so all is stamped: it is not its own trial that shows so much.
    #[test]
    fn nothing_is_concluded_from_what_another_shard_asked_for() {
        let limits = Limits::default();
        let mut adaptive = Adaptive::default();
        for slot in 0..100 * SLOTS {
            let at = slot % SLOTS;
            let others = if (BEFORE..).contains(&at) || at <= *AFTER.end() { 1_000 } else { 3_000 };
            adaptive.note_wait();
            adaptive.note_done(Time(slot * CYCLE_US / SLOTS), &limits, others, true);
            assert!(!adaptive.asks(&limits));
        }
    }

    /// Bug: after a trial that said nothing the next one came in the next cycle. Consequence: where all trials were mixed, a seventh of the
    /// time was spent with them. Mend: they come more rarely, and are never given up.
    #[test]
    fn trials_that_say_nothing_come_more_rarely_and_come_again() {
        let limits = Limits::default();
        let mut adaptive = Adaptive::default();
        let (mut asked, mut asked_late) = (0, 0);
        for slot in 0..200 * SLOTS {
            let now = Time(slot * CYCLE_US / SLOTS);
            adaptive.pass(now, &limits);
            let asks = adaptive.asks(&limits);
            asked += u64::from(asks);
            asked_late += u64::from(asks && slot > 100 * SLOTS);
            // Half of the clients never hear of it.
            adaptive.note_wait();
            adaptive.note_done(now, &limits, 500, asks);
            adaptive.note_done(now, &limits, 500, false);
        }
        let slots_of_a_trial = *TRIAL.end() + 1;
        assert!(adaptive.trials().mixed > 20 && adaptive.trials().compared == 0);
        assert!(asked < 40 * slots_of_a_trial && asked_late > 10 * slots_of_a_trial, "{asked} {asked_late}");
    }

    #[test]
    fn a_trial_says_nothing_if_the_load_changes_meanwhile() {
        let limits = Limits::default();
        let mut adaptive = Adaptive::default();
        for slot in 0..20 * SLOTS {
            let calls = match slot % SLOTS {
                ..5 => 2_000,
                5..BEFORE => 1_400,
                _ => 500,
            };
            let now = Time(slot * CYCLE_US / SLOTS);
            adaptive.pass(now, &limits);
            let asks = adaptive.asks(&limits);
            adaptive.note_wait();
            adaptive.note_done(now, &limits, calls, asks);
        }
        assert!(!adaptive.orders && adaptive.trials().unequal > 0, "{:?}", adaptive.trials());
    }

    /// Bug: order was tried though nobody waited. Consequence: where all calls commute a trial saved nothing, and cost its messages; and the
    /// first seconds of each load had one or two. Mend: it is tried where calls wait.
    #[test]
    fn order_is_tried_where_attempts_wait() {
        let limits = Limits::default();
        for (every, is_tried) in [(10, false), (6, true)] {
            let mut adaptive = Adaptive::default();
            for attempt in 0..10 * SLOTS * 100 {
                let asks = adaptive.asks(&limits);
                adaptive.note_done(Time(attempt * CYCLE_US / SLOTS / 100), &limits, 10, asks);
                if attempt % every == 0 && !asks {
                    adaptive.note_wait();
                }
            }
            assert_eq!(adaptive.trials().compared > 0, is_tried, "one attempt in {every} waits");
        }
    }

    #[test]
    fn a_shard_that_carries_out_nearly_nothing_asks_for_no_timestamps() {
        let mut driven = Driven::default();
        assert!(driven.run(6, 3_000, 1_000).adaptive.orders);
        assert!(!driven.run(4, 1, 1).adaptive.orders);
    }

    #[test]
    fn what_the_operator_says_goes_before_what_is_found() {
        for says in [true, false] {
            let limits = Limits { asks_for_timestamps: Some(says), ..Limits::default() };
            assert_eq!(Adaptive::default().asks(&limits), says);
        }
    }

    #[cfg(feature = "planted-bugs")]
    #[test]
    fn shards_that_go_over_and_back_as_they_should_not_are_noticed() {
        let noticed: [(Bug, fn()); 12] = [
            (Bug::MixedTrialCounts, trials_that_say_nothing_come_more_rarely_and_come_again),
            (Bug::UnequalTrialCounts, a_trial_says_nothing_if_the_load_changes_meanwhile),
            (Bug::OneTrialSuffices, a_little_more_is_believed_when_it_is_seen_again),
            (Bug::LeftTriedAtOnce, what_a_shard_has_left_is_not_tried_at_once),
            (Bug::SavesNothingAndStays, where_few_meet_a_trial_that_loses_little_is_enough_to_go_back),
            (Bug::NeverTriedBack, a_shard_follows_when_things_change),
            (Bug::TriedWithoutNeed, order_is_tried_where_attempts_wait),
            (
                Bug::LostTrialsStayFrequent,
                a_shard_does_what_carries_out_more_and_tries_the_other_ever_more_rarely,
            ),
            (Bug::MixedTrialsStayFrequent, trials_that_say_nothing_come_more_rarely_and_come_again),
            (Bug::RareTrialsStayRare, a_shard_follows_when_things_change),
            (Bug::IdleShardAsks, a_shard_that_carries_out_nearly_nothing_asks_for_no_timestamps),
            (Bug::OperatorUnheard, what_the_operator_says_goes_before_what_is_found),
        ];
        crate::planted::assert_noticed(noticed);
    }
}
