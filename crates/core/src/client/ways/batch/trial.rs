//! Whether batches pay, from what is observed (B9, B10): how many may be under way, and whether one-shot transactions leave
//! together at all.

use std::mem::replace;

/// As many batches under way as there would be without a bound.
const WINDOW_MAX: u32 = 64;

/// So many times as many as may be under way have to wait for nobody until one more may: at most.
const NEED_MAX: u32 = 128;

/// How many batches may be under way: fewer where they have to wait, since those of one process then wait for each other.
#[derive(Clone, Copy, Debug)]
pub(in crate::client) struct Window {
    most: u32,
    /// So many in a row waited for nobody.
    free: u32,
    /// So many times as many as may be under way are to be free until one more may. Four times as many whenever that was too many,
    /// and half as many when it grows, so that what is too many is not tried again and again.
    need: u32,
    /// How often it was halved. Who left before the last time is no reason to halve it again.
    halved: u32,
}

impl Default for Window {
    fn default() -> Self {
        Window { most: WINDOW_MAX, free: 0, need: 1, halved: 0 }
    }
}

impl Window {
    pub(in crate::client) fn most(&self) -> u32 {
        self.most
    }

    /// How often it was halved so far.
    pub(in crate::client) fn halved(&self) -> u32 {
        self.halved
    }

    /// One of them had to wait for a lock, and left after the window was halved so many times.
    pub(in crate::client) fn shrink(&mut self, halved: u32) {
        if halved != self.halved {
            return;
        }
        let need = if self.most > 1 { (4 * self.need).min(NEED_MAX) } else { self.need };
        *self = Window { most: (self.most / 2).max(1), free: 0, need, halved: halved.wrapping_add(1) };
    }

    /// One ended that had to wait for nobody.
    pub(in crate::client) fn grow(&mut self) {
        self.free = self.free.saturating_add(1);
        if self.free >= self.most * self.need && self.most < WINDOW_MAX {
            *self = Window { most: self.most + 1, free: 0, need: (self.need / 2).max(1), ..*self };
        }
    }
}

/// What was learned of how transactions leave. What is stamped waits for other things than what is not, so each has its own.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::client) struct Learned {
    pub(in crate::client) window: Window,
    pub(in crate::client) trial: Trial,
}

impl Learned {
    /// Goes on after the other. Who left meanwhile, or leaves now, says nothing about this.
    pub(in crate::client) fn resume_after(&mut self, other: &Learned) {
        self.window.halved = self.window.halved.max(other.window.halved).wrapping_add(1);
        (self.trial.ended, self.trial.took_us, self.trial.mixed) = (0, 0, MIXED);
    }
}

/// Calls of a batch: at first, at least and at most.
const CALLS_FIRST: u32 = 512;
const CALLS_MIN: u32 = 16;
const CALLS_MAX: u32 = 1024;

/// How many calls a batch may have: fewer after one that failed, of which each goes alone, or had long answers.
#[derive(Clone, Copy, Debug)]
pub(in crate::client) struct Size {
    calls_max: u32,
}

impl Default for Size {
    fn default() -> Self {
        Size { calls_max: CALLS_FIRST }
    }
}

impl Size {
    pub(in crate::client) fn calls_max(&self) -> u32 {
        self.calls_max
    }

    pub(in crate::client) fn grow(&mut self) {
        self.calls_max = (self.calls_max + self.calls_max / 8).min(CALLS_MAX);
    }

    pub(in crate::client) fn shrink(&mut self) {
        self.calls_max = (self.calls_max / 4).max(CALLS_MIN);
    }
}

/// Transactions whose times are compared.
const ROUND: u32 = 512;

/// After a change so many do not count: those that were under way, and those that waited for them.
const MIXED: u32 = 512;

/// Rounds between two trials: after one that was won, and at most; and before the first.
const REST_MIN: u32 = 8;
const REST_MAX: u32 = 256;
const REST_FIRST: u32 = 4;

/// How long a batch waits for locks before its transactions go alone: so many times as long as one takes mostly, and in
/// microseconds at least and at most.
const PATIENCE_TIMES: u64 = 4;
const PATIENCE_US_MIN: u64 = 5_000;
const PATIENCE_US_MAX: u64 = 1_000_000;

/// What one takes mostly, before any is over; and how slowly it follows.
const TYPICAL_US_FIRST: u64 = 10_000;
const TYPICAL_OF: u64 = 16;

/// To go alone, in hundredths of the time together, has to save so much: it costs everybody more work.
const ALONE_WORTH: u64 = 85;

/// Whether transactions leave together or alone. Now and then the other way is tried for a round, the less often the more
/// often it was worse; what took less time stays.
#[derive(Clone, Copy, Debug)]
pub(in crate::client) struct Trial {
    is_together: bool,
    /// Of this round: how many ended, and how long they took, in microseconds.
    ended: u32,
    took_us: u64,
    /// So many that end next do not count.
    mixed: u32,
    /// About how long one takes, in microseconds.
    typical_us: u64,
    /// A transaction's time before this trial; `None`: none is under way.
    before: Option<u64>,
    /// Rounds until the next trial, and between two.
    rest: u32,
    pause: u32,
}

impl Default for Trial {
    fn default() -> Self {
        Trial {
            is_together: true,
            ended: 0,
            took_us: 0,
            mixed: 0,
            typical_us: TYPICAL_US_FIRST,
            before: None,
            rest: REST_FIRST,
            pause: REST_MIN,
        }
    }
}

impl Trial {
    pub(in crate::client) fn is_together(&self) -> bool {
        self.is_together
    }

    /// How long a batch may wait for locks.
    pub(in crate::client) fn patience_us(&self) -> u64 {
        self.typical_us.saturating_mul(PATIENCE_TIMES).clamp(PATIENCE_US_MIN, PATIENCE_US_MAX)
    }

    /// A one-shot transaction committed, in so many microseconds.
    pub(in crate::client) fn note(&mut self, us: u64) {
        self.typical_us = self.typical_us.saturating_mul(TYPICAL_OF - 1).saturating_add(us) / TYPICAL_OF;
        if self.mixed > 0 {
            self.mixed -= 1;
            return;
        }
        self.ended += 1;
        self.took_us = self.took_us.saturating_add(us);
        // A trial that took longer than all of a round before is lost, and need not go on.
        let is_lost =
            self.before.is_some_and(|before| self.took_us > before.saturating_mul(u64::from(ROUND)));
        if self.ended < ROUND && !is_lost {
            return;
        }
        let each = replace(&mut self.took_us, 0) / u64::from(replace(&mut self.ended, 0));
        match self.before.take() {
            Some(before) => self.judge(before, each),
            None => {
                self.rest = self.rest.saturating_sub(1);
                if self.rest == 0 {
                    self.before = Some(each);
                    self.turn();
                }
            }
        }
    }

    /// What waited together for too long goes alone, and so do others until that was compared.
    pub(in crate::client) fn part(&mut self) {
        if self.is_together {
            (self.ended, self.took_us, self.before) = (0, 0, None);
            self.rest = 1;
            self.turn();
        }
    }

    fn judge(&mut self, before: u64, each: u64) {
        let (together, alone) = if self.is_together { (each, before) } else { (before, each) };
        let alone_pays = alone.saturating_mul(100) < together.saturating_mul(ALONE_WORTH);
        if alone_pays == self.is_together {
            self.turn();
            self.pause = (2 * self.pause).min(REST_MAX);
        } else {
            self.pause = REST_MIN;
        }
        self.rest = self.pause;
    }

    fn turn(&mut self) {
        self.is_together = !self.is_together;
        self.mixed = MIXED;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs rounds whose transactions take so long together, and so long alone; how many of them were alone.
    fn run(trial: &mut Trial, rounds: u32, together: u64, alone: u64) -> u32 {
        let mut were_alone = 0;
        for _ in 0..rounds {
            were_alone += u32::from(!trial.is_together());
            (0..ROUND).for_each(|_| trial.note(if trial.is_together() { together } else { alone }));
        }
        were_alone
    }

    #[test]
    fn what_takes_less_time_stays_and_the_other_is_tried_less_and_less() {
        for (together, alone, is_together) in [(100, 300, true), (300, 100, false), (100, 90, true)] {
            let mut trial = Trial::default();
            let were_alone = run(&mut trial, 2_000, together, alone);
            let other = if is_together { were_alone } else { 2_000 - were_alone };
            assert_eq!(trial.is_together(), is_together, "{together} and {alone}");
            assert!((2..40).contains(&other), "{other} rounds the other way");
        }
    }

    #[test]
    fn it_follows_when_things_change() {
        let mut trial = Trial::default();
        run(&mut trial, 1_000, 300, 100);
        assert!(!trial.is_together());
        run(&mut trial, 1_000, 100, 300);
        assert!(trial.is_together());
    }

    #[test]
    fn the_window_falls_by_halves_and_grows_by_one() {
        let mut window = Window::default();
        (0..6).for_each(|_| window.shrink(window.halved()));
        assert_eq!(window.most(), 1);
        let grow = |window: &mut Window, times| (0..times).for_each(|_| window.grow());
        grow(&mut window, NEED_MAX - 1);
        assert_eq!(window.most(), 1, "it was too many six times");
        grow(&mut window, 1);
        assert_eq!(window.most(), 2);
        grow(&mut window, 2 * NEED_MAX / 2 - 1);
        assert_eq!(window.most(), 2, "half of that for each that may be under way");
        grow(&mut window, 1);
        assert_eq!(window.most(), 3);
        grow(&mut window, 100_000);
        assert_eq!(window.most(), WINDOW_MAX);
    }

    #[test]
    fn those_that_left_together_halve_it_once() {
        let mut window = Window::default();
        let halved = window.halved();
        (0..6).for_each(|_| window.shrink(halved));
        assert_eq!(window.most(), WINDOW_MAX / 2);
    }

    #[test]
    fn where_one_batch_in_twelve_fails_they_do_not_grow() {
        let mut size = Size::default();
        for _ in 0..100 {
            size.shrink();
            (0..11).for_each(|_| size.grow());
        }
        assert!((CALLS_MIN..CALLS_FIRST).contains(&size.calls_max()), "{size:?}");
        (0..40).for_each(|_| size.grow());
        assert_eq!(size.calls_max(), CALLS_MAX);
    }

    #[test]
    fn what_was_too_many_is_tried_less_and_less() {
        let mut window = Window::default();
        (0..6).for_each(|_| window.shrink(window.halved()));
        let mut tried = 0;
        for _ in 0..100_000 {
            window.grow();
            if window.most() > 1 {
                tried += 1;
                window.shrink(window.halved());
            }
        }
        assert!((700..900).contains(&tried), "{tried} of 100,000 batches were beside another");
        assert_eq!(window.most(), 1);
    }
}
