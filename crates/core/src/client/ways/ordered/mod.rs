//! What a client process knows of the shards' clocks: with which timestamps it stamps, and when callers may be told (P73, P78,
//! P79).
//!
//! A suggestion is what the shards' own clocks are going to say when the prepare is looked at there, as far as the process can
//! tell: its own time, how far the shard that is furthest ahead was ahead of it, and how long prepares took lately. One that is too
//! small is lifted at some shards and not at others, which costs a round trip; one that is too large makes its caller wait.

mod clocks;

use smallvec::SmallVec;

use crate::ids::{ShardId, Time, Timestamp};
use crate::planted::{Bug, is_planted};
use crate::switches::{Ordered, Switches};

/// How long a prepare is taken to need at first, and at most, in microseconds.
const LEAD_US: u64 = 400;
const LEAD_US_MAX: u64 = 4_000;

/// A clock that is so much beyond its shard's own time waits for what others say, and not for time: less than four times what nodes' clocks
/// are apart at most, by default (P88). In microseconds.
const BEYOND_US: u64 = 2_000_000;

/// How long shards take to hear each other, on some hosts, in microseconds.
const HEARS_US: u64 = 20_000;

/// How long a process that has stopped to stamp is refused without stamping again, in microseconds: until shards have heard each other,
/// what others stamped is not settled. With 64 processes of one transaction on two cores that takes more than 100 ms.
const SETTLES_US: u64 = 300_000;

/// How long one that had to stamp again does not try to stop, at first and at most, in microseconds.
const STAYS_US: u64 = 2_000_000;
const STAYS_US_MAX: u64 = 32_000_000;

/// Those who stay try to stop so long after a full two seconds of the shards' time, in microseconds: all at once, and between two trials.
const STOPS_AT_US: u64 = 500_000;

/// What one shard said last.
#[derive(Clone, Debug)]
struct Heard {
    shard: ShardId,
    clock: Timestamp,
    /// Which shards own keys, as far as it knows.
    owners: u64,
    /// How far its time is ahead of the process's own, in microseconds. Words take their time, so that is rather more.
    ahead_us: i64,
    orders: bool,
    /// Up to where it was asked to come, and when it is asked again, if it has not.
    asked: Timestamp,
    asks_at: Time,
    /// It has refused what had no timestamp, and has taken nothing without since.
    refuses: bool,
    /// What was used there, as after a restart (P85), is not going to be settled soon.
    is_ahead: bool,
}

impl Heard {
    /// Of a shard that has said nothing and was asked nothing.
    fn new(shard: ShardId) -> Self {
        Heard {
            shard,
            clock: Timestamp::default(),
            owners: 0,
            ahead_us: i64::MIN,
            orders: false,
            asked: Timestamp::default(),
            asks_at: Time(0),
            refuses: false,
            is_ahead: false,
        }
    }
}

/// See the module's text.
#[derive(Clone, Debug)]
pub(in crate::client) struct Stamps {
    /// Few.
    heard: SmallVec<[Heard; 4]>,
    lead_us: u64,
    /// Every call is ordered that can be, whatever shards say.
    is_always: bool,
    /// What commits is stamped.
    pub(in crate::client) are_needed: bool,
    /// It has stopped: until then what is refused goes again without.
    settles_until: Option<Time>,
    /// It goes on until then at least.
    stays_until: Time,
    /// How long it goes on the next time that it has to.
    stays_us: u64,
    /// Some attempt had a timestamp, and its caller may still wait for a clock.
    pub(in crate::client) were_needed: bool,
    /// The largest timestamp that somebody waits for.
    pub(in crate::client) want: Timestamp,
    /// Up to here no vote comes any more, whoever is silent (P79).
    pub(in crate::client) passed: Timestamp,
    /// Who was asked is not asked again for so long at most, in microseconds.
    again_us: u64,
}

impl Stamps {
    pub(in crate::client) fn new(switches: Switches, again_us: u64) -> Self {
        let is_always = switches.ordering() == Ordered::Always;
        Stamps {
            heard: SmallVec::new(),
            lead_us: LEAD_US,
            is_always,
            are_needed: is_always,
            settles_until: None,
            stays_until: Time::default(),
            stays_us: STAYS_US,
            were_needed: is_always,
            want: Timestamp::default(),
            passed: Timestamp::default(),
            again_us,
        }
    }

    /// About when a prepare that leaves now is looked at, by the clock of the shard that is furthest ahead. The process's own time
    /// may be anything, so before a shard has said its time nothing is suggested but to be the first.
    pub(in crate::client) fn suggest(&self, now: Time) -> Option<Timestamp> {
        let ahead_us = self.heard.iter().map(|heard| heard.ahead_us).max();
        let about = |ahead_us| now.plus(self.lead_us).0.saturating_add_signed(ahead_us);
        let unheard = if is_planted(Bug::SuggestsUnheard) { about(0) } else { 0 };
        self.are_needed.then(|| Timestamp(ahead_us.map_or(unheard, about)))
    }

    /// A shard said what its clock is.
    pub(in crate::client) fn hear(&mut self, now: Time, shard: ShardId, ticked: Ticked) {
        let Ticked { clock, now: its_time, passed, orders, owners } = ticked;
        self.passed = self.passed.max(passed);
        let ahead_us = (its_time.0 as i64).wrapping_sub(now.0 as i64);
        match self.heard.iter_mut().find(|heard| heard.shard == shard) {
            Some(heard) => {
                let clock = clock.max(heard.clock);
                // A late word is no sign that the clock went back; in time it is forgotten.
                let ahead_us = ahead_us.max(heard.ahead_us.saturating_sub(1));
                (heard.clock, heard.owners, heard.ahead_us, heard.orders) = (clock, owners, ahead_us, orders);
                heard.is_ahead = clock.0 > its_time.0.saturating_add(SETTLES_US);
                // It comes no further than its own time allows (P88), and so in so much time at the soonest; or, where that is no matter of
                // its time, once it has heard how far others are.
                let missing = heard.asked.0.saturating_sub(clock.0);
                let is_beyond = clock.0 > its_time.0.saturating_add(BEYOND_US);
                let waits =
                    if is_beyond && !is_planted(Bug::AskedBeforeItHears) { HEARS_US } else { missing };
                heard.asks_at = now.plus(waits.min(self.again_us));
            }
            None => {
                self.heard.push(Heard { clock, owners, ahead_us, orders, asks_at: now, ..Heard::new(shard) });
            }
        }
        self.follow(now);
    }

    /// Stamps as long as a shard asks for timestamps (P87).
    fn follow(&mut self, now: Time) {
        let asked_for = self.is_always || self.heard.iter().any(|heard| heard.orders);
        let is_needed = asked_for || self.are_needed && is_planted(Bug::StampsForEver);
        match (is_needed, self.are_needed) {
            (true, _) => {
                self.are_needed = true;
                self.were_needed = true;
                self.settles_until = None;
            }
            (false, true) if now >= self.stays_until => {
                self.are_needed = false;
                self.settles_until = Some(now.plus(SETTLES_US));
            }
            (false, false)
                if self.settles_until.is_some_and(|until| until <= now)
                    && (!self.is_any_refusing() || is_planted(Bug::SettledThoughRefused)) =>
            {
                // Nobody had to stamp again.
                self.settles_until = None;
                self.stays_us = STAYS_US;
            }
            (false, _) => {}
        }
    }

    /// Whether it wants to hear with each frame what the shard says.
    pub(in crate::client) fn listen(&self) -> bool {
        self.are_needed || self.want > Timestamp::default() || self.settles_until.is_some()
    }

    /// When a shard is to be asked for its clock. `None`: it is far enough.
    pub(in crate::client) fn asks_at(&self, shard: ShardId) -> Option<Time> {
        let is_behind = self.clock_of(shard) < self.want;
        let asked = |heard: &&Heard| heard.asked >= self.want;
        is_behind.then(|| self.find(shard).filter(asked).map_or(Time(0), |heard| heard.asks_at))
    }

    /// A shard is asked for its clock.
    pub(in crate::client) fn note_asked(&mut self, now: Time, shard: ShardId) {
        let (asked, asks_at) = (self.want, now.plus(self.again_us.max(1)));
        match self.heard.iter_mut().find(|heard| heard.shard == shard) {
            Some(heard) => (heard.asked, heard.asks_at) = (asked, asks_at),
            None if is_planted(Bug::AskedWithEachFrame) => {}
            // It may keep its clock to itself until its replicas know that (S17).
            None => {
                self.heard.push(Heard { asked, asks_at, ..Heard::new(shard) });
            }
        }
    }

    /// A shard takes nothing without a timestamp: it asks for them, or what has one is not settled (P87). That will be soon, if all have
    /// stopped at about the same time.
    pub(in crate::client) fn begin(&mut self, now: Time, shard: ShardId) {
        let (was_refused, is_ahead) = (self.is_any_refusing(), self.is_ahead(shard));
        self.note(shard, true);
        let settles = self.settles_until.is_some_and(|until| now < until);
        if settles && !is_ahead && !is_planted(Bug::StampsAgainAtOnce) {
            return;
        }
        // Who was refused before has waited for others, and they did not stop.
        let stays = was_refused || is_ahead || is_planted(Bug::IdleStays);
        if self.settles_until.is_some() && stays && !is_planted(Bug::StopsAgainAtOnce) {
            self.stays_until = self.stop_together(now.plus(self.stays_us));
            self.stays_us = (self.stays_us * 2).min(STAYS_US_MAX);
        }
        (self.are_needed, self.were_needed, self.settles_until) = (true, true, None);
    }

    /// The next time after this one at which all try to stop that stay: one that does not would keep the others.
    fn stop_together(&self, after: Time) -> Time {
        let ahead_us =
            self.heard.iter().map(|heard| heard.ahead_us).max().filter(|_| !is_planted(Bug::StopsAlone));
        let by_shards = after.0.saturating_add_signed(ahead_us.unwrap_or_default());
        let waits = STAYS_US - by_shards % STAYS_US + STOPS_AT_US;
        after.plus(if is_planted(Bug::StopsAlone) { 0 } else { waits })
    }

    /// A shard has taken something without a timestamp: what was there before is settled.
    pub(in crate::client) fn note_taken(&mut self, shard: ShardId) {
        if self.settles_until.is_some() && !is_planted(Bug::TakenUnnoted) {
            self.note(shard, false);
        }
    }

    fn note(&mut self, shard: ShardId, refuses: bool) {
        if let Some(heard) = self.heard.iter_mut().find(|heard| heard.shard == shard) {
            heard.refuses = refuses;
        }
    }

    fn is_ahead(&self, shard: ShardId) -> bool {
        self.find(shard).is_some_and(|heard| heard.is_ahead) && !is_planted(Bug::AheadUnseen)
    }

    fn is_any_refusing(&self) -> bool {
        self.heard.iter().any(|heard| heard.refuses)
    }

    /// A vote was so far above what was suggested: prepares need longer than was thought, or not as long.
    pub(in crate::client) fn learn(&mut self, lifted_us: u64) {
        self.lead_us = match lifted_us {
            0 => self.lead_us - self.lead_us / 1_024,
            some => (self.lead_us + some / 8 + 1).min(LEAD_US_MAX),
        };
    }

    /// The clock of a shard, as far as it said.
    fn clock_of(&self, shard: ShardId) -> Timestamp {
        self.find(shard).map(|heard| heard.clock).unwrap_or_default()
    }

    /// The smallest clock of these shards, which own all keys: counted are those that know the same owners (P79).
    pub(in crate::client) fn safe_time(&self, owners: &[ShardId], digest: u64) -> Timestamp {
        let clock_of = |shard: &ShardId| {
            // One that gave keys away may be further ahead than who has them now.
            let knows_owners = |heard: &&Heard| heard.owners == digest || is_planted(Bug::OtherOwnersCount);
            let heard = self.find(*shard).filter(knows_owners);
            heard.map(|heard| heard.clock).unwrap_or_default()
        };
        // One that said nothing yet has none.
        let is_left_out =
            |clock: &Timestamp| *clock == Timestamp::default() && is_planted(Bug::UnheardLeftOut);
        let clocks = owners.iter().map(clock_of).filter(|clock| !is_left_out(clock));
        let safe_time = if is_planted(Bug::OneClockIsSafeTime) { clocks.max() } else { clocks.min() };
        safe_time.unwrap_or_default()
    }

    fn find(&self, shard: ShardId) -> Option<&Heard> {
        self.heard.iter().find(|heard| heard.shard == shard)
    }
}

/// What [`Response::Ticked`](crate::message::Response) says.
pub(in crate::client) struct Ticked {
    pub(in crate::client) clock: Timestamp,
    pub(in crate::client) now: Time,
    pub(in crate::client) passed: Timestamp,
    pub(in crate::client) orders: bool,
    pub(in crate::client) owners: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ways::WaySwitches;

    /// Bug: a shard that had said no clock yet was asked with every frame. Consequence: one with replicas keeps its clock to itself until
    /// they know, and answers frames without it; its client asked again at once, for as long as that took. Mend: it is asked again in
    /// time, as any other.
    #[test]
    fn who_has_said_no_clock_yet_is_asked_again_in_time() {
        let switches = Switches::claret(Ordered::Always, false, WaySwitches::ROUNDS);
        let mut stamps = Stamps::new(switches, 1_000);
        let shard = ShardId(0);
        stamps.want = Timestamp(50);
        assert_eq!(stamps.suggest(Time(100)), Some(Timestamp(0)), "no shard has said its time");
        assert_eq!(stamps.asks_at(shard), Some(Time(0)));
        stamps.note_asked(Time(100), shard);
        assert_eq!(stamps.asks_at(shard), Some(Time(1_100)));
        assert_eq!(stamps.suggest(Time(100)), Some(Timestamp(0)), "its time is not known");
        let ticked =
            Ticked { clock: Timestamp(50), now: Time(90), passed: Timestamp(0), orders: true, owners: 1 };
        stamps.hear(Time(200), shard, ticked);
        assert_eq!(stamps.asks_at(shard), None);
        assert!(stamps.suggest(Time(200)) > Some(Timestamp(90)));
    }

    /// Bug: what a shard lacked of a timestamp was taken for the time that it needs. Consequence: one that follows another with a wrong clock
    /// lacks a microsecond, for as long as it has not heard from that one, and was asked with each round trip. Mend: it is asked when it
    /// can have heard.
    #[test]
    fn who_follows_a_clock_that_was_wrong_is_asked_again_when_it_can_have_heard() {
        let switches = Switches::claret(Ordered::Always, false, WaySwitches::ROUNDS);
        let (shard, hour) = (ShardId(0), 3_600_000_000);
        for (clock, waits) in [(100, 1), (hour, HEARS_US)] {
            let mut stamps = Stamps::new(switches, 500_000);
            let ticked = || Ticked {
                clock: Timestamp(clock),
                now: Time(90),
                passed: Timestamp(0),
                orders: true,
                owners: 1,
            };
            stamps.hear(Time(90), shard, ticked());
            stamps.want = Timestamp(clock + 1);
            stamps.note_asked(Time(100), shard);
            stamps.hear(Time(100), shard, ticked());
            assert_eq!(stamps.asks_at(shard), Some(Time(100 + waits)));
        }
    }

    fn hears(stamps: &mut Stamps, now: u64, shard: u32, orders: bool) {
        let (clock, passed) = (Timestamp(now), Timestamp(0));
        stamps.hear(Time(now), ShardId(shard), Ticked { clock, now: Time(now), passed, orders, owners: 1 });
    }

    fn adaptive() -> Stamps {
        Stamps::new(Switches::claret(Ordered::Adaptive, true, WaySwitches::ROUNDS), 1_000)
    }

    #[test]
    fn a_process_stamps_as_long_as_a_shard_asks_for_it_and_suggests_nothing_afterwards() {
        let mut stamps = adaptive();
        assert_eq!(stamps.suggest(Time(1)), None);
        stamps.begin(Time(1), ShardId(0));
        hears(&mut stamps, 2, 0, true);
        hears(&mut stamps, 2, 1, false);
        assert!(stamps.suggest(Time(3)).is_some());
        hears(&mut stamps, 4, 0, false);
        assert_eq!(stamps.suggest(Time(5)), None);
    }

    /// Bug: a process stamped until nothing with a timestamp was left anywhere. Consequence: while processes work there always is, and
    /// none of them ever stopped. Mend: all stop when no shard asks, and go again without for a while.
    #[test]
    fn who_has_stopped_is_refused_for_a_while_before_it_stamps_again_and_then_for_longer() {
        let mut stamps = adaptive();
        stamps.begin(Time(1), ShardId(0));
        hears(&mut stamps, 10, 0, false);
        stamps.begin(Time(10 + SETTLES_US - 1), ShardId(0));
        assert!(!stamps.are_needed && stamps.listen(), "others are about to stop");
        stamps.begin(Time(10 + SETTLES_US), ShardId(0));
        assert!(stamps.are_needed, "they do not");
        let stays_until = 2 * STAYS_US + STOPS_AT_US;
        hears(&mut stamps, stays_until - 1, 0, false);
        assert!(stamps.are_needed);
        hears(&mut stamps, stays_until, 0, false);
        assert!(!stamps.are_needed);
    }

    /// Bug: when a shard said its clock as the time was over in which others were to stop, all counted as settled, though everything had been
    /// refused. Consequence: next to a shard that was restarted, whose clock is ahead, nothing was stamped and nothing taken, for as long as
    /// clocks may differ (seed 2132 with `ordering=1`). Mend: who was refused meanwhile stamps, and stays with that.
    #[test]
    fn who_is_refused_until_others_must_have_stopped_stamps_again() {
        let mut stamps = adaptive();
        stamps.begin(Time(1), ShardId(0));
        hears(&mut stamps, 10, 0, false);
        stamps.begin(Time(20), ShardId(0));
        hears(&mut stamps, 20, 0, false);
        let over = 10 + SETTLES_US;
        hears(&mut stamps, over, 0, false);
        stamps.begin(Time(over + 10), ShardId(0));
        hears(&mut stamps, over + 10, 0, false);
        assert!(stamps.are_needed, "what is refused goes again with a timestamp");
    }

    /// Bug: who had stopped and said nothing until the next trial took that for others that do not stop. Consequence: it stamped for seconds,
    /// and kept the others refused. Mend: so does only who was refused meanwhile.
    #[test]
    fn who_rests_from_one_trial_to_the_next_does_not_stamp_for_longer() {
        let mut stamps = adaptive();
        stamps.begin(Time(1), ShardId(0));
        hears(&mut stamps, 2, 0, true);
        hears(&mut stamps, 10, 0, false);
        stamps.begin(Time(2_000_000), ShardId(0));
        hears(&mut stamps, 2_000_000, 0, true);
        assert!(stamps.are_needed);
        hears(&mut stamps, 2_200_000, 0, false);
        assert!(!stamps.are_needed, "the trial is over");
    }

    /// A shard that was restarted is ahead by what clocks may differ. To wait until all have stopped helps nobody there.
    #[test]
    fn beside_a_shard_whose_clock_is_ahead_a_process_stamps_with_the_first_refusal() {
        let mut stamps = adaptive();
        let hears = |stamps: &mut Stamps, now: u64| {
            let clock = Timestamp(now + 10_000_000);
            let ticked = Ticked { clock, now: Time(now), passed: Timestamp(0), orders: false, owners: 1 };
            stamps.hear(Time(now), ShardId(0), ticked);
        };
        stamps.begin(Time(1), ShardId(0));
        [10, 20].into_iter().for_each(|now| hears(&mut stamps, now));
        assert!(!stamps.are_needed, "no shard asks");
        stamps.begin(Time(30), ShardId(0));
        hears(&mut stamps, 30);
        assert!(stamps.are_needed);
    }

    /// Bug: each stayed from when it was refused. Consequence: with 64 processes one of them always stamped, and kept the others refused, so that
    /// all stamped on though no shard asked. Mend: they try to stop at one time.
    #[test]
    fn those_who_stay_stop_together() {
        let stops = |refused: u64, own_time: u64| {
            let mut stamps = adaptive();
            let at = |time: u64| Time(time - own_time);
            let hears = |stamps: &mut Stamps, time: u64| {
                let ticked = Ticked {
                    clock: Timestamp(time),
                    now: Time(time),
                    passed: Timestamp(0),
                    orders: false,
                    owners: 1,
                };
                stamps.hear(at(time), ShardId(0), ticked);
            };
            stamps.begin(at(refused), ShardId(0));
            hears(&mut stamps, refused);
            stamps.begin(at(refused + 1), ShardId(0));
            stamps.begin(at(refused + SETTLES_US), ShardId(0));
            (1..100).map(|tenth| refused + tenth * 100_000).find(|time| {
                hears(&mut stamps, *time);
                !stamps.are_needed && *time > refused + SETTLES_US
            })
        };
        assert_eq!(stops(10_000_000, 3_000_000).map(|time| time / 1_000_000), Some(14));
        assert_eq!(stops(10_700_000, 9_123_456).map(|time| time / 1_000_000), Some(14));
    }

    /// As at the end of each trial: who took that for others that do not stop stamped for seconds after the next one.
    #[test]
    fn who_is_refused_until_others_have_stopped_does_not_stamp_for_longer() {
        let mut stamps = adaptive();
        stamps.begin(Time(1), ShardId(0));
        hears(&mut stamps, 10, 0, false);
        stamps.begin(Time(20), ShardId(0));
        stamps.note_taken(ShardId(0));
        hears(&mut stamps, 10 + SETTLES_US, 0, false);
        stamps.begin(Time(500_000), ShardId(0));
        hears(&mut stamps, 500_010, 0, true);
        hears(&mut stamps, 600_000, 0, false);
        assert!(!stamps.are_needed, "the trial is over");
    }

    #[cfg(feature = "planted-bugs")]
    #[test]
    fn processes_that_stamp_or_ask_as_they_should_not_are_noticed() {
        let noticed: [(Bug, fn()); 11] = [
            (Bug::IdleStays, who_rests_from_one_trial_to_the_next_does_not_stamp_for_longer),
            (Bug::AheadUnseen, beside_a_shard_whose_clock_is_ahead_a_process_stamps_with_the_first_refusal),
            (Bug::StopsAlone, those_who_stay_stop_together),
            (Bug::TakenUnnoted, who_is_refused_until_others_have_stopped_does_not_stamp_for_longer),
            (Bug::SettledThoughRefused, who_is_refused_until_others_must_have_stopped_stamps_again),
            (
                Bug::StampsForEver,
                a_process_stamps_as_long_as_a_shard_asks_for_it_and_suggests_nothing_afterwards,
            ),
            (
                Bug::StampsAgainAtOnce,
                who_has_stopped_is_refused_for_a_while_before_it_stamps_again_and_then_for_longer,
            ),
            (
                Bug::StopsAgainAtOnce,
                who_has_stopped_is_refused_for_a_while_before_it_stamps_again_and_then_for_longer,
            ),
            (Bug::SuggestsUnheard, who_has_said_no_clock_yet_is_asked_again_in_time),
            (Bug::AskedWithEachFrame, who_has_said_no_clock_yet_is_asked_again_in_time),
            (
                Bug::AskedBeforeItHears,
                who_follows_a_clock_that_was_wrong_is_asked_again_when_it_can_have_heard,
            ),
        ];
        crate::planted::assert_noticed(noticed);
    }
}
