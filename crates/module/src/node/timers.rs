//! The node's timers. Each is set at most once at a time, and is not set any more when it fires.

use std::time::{Duration, Instant};

use claret_core::Time;

use crate::ffi::{Ctx, Timer, TimerProc};

/// How often those who wait are looked after, in milliseconds.
const TICK_MS: u64 = 10;

/// How late a timer is that stands still.
const TIMERS_LATE: Duration = Duration::from_secs(1);

/// What timers call: entries, of which the node knows no more.
#[derive(Clone, Copy)]
pub(crate) struct TimerProcs {
    /// [`Node::deadline_fired`](super::Node::deadline_fired).
    pub(crate) deadline: TimerProc,
    /// [`Node::soon_fired`](super::Node::soon_fired).
    pub(crate) soon: TimerProc,
    /// [`Node::tick`](super::Node::tick).
    pub(crate) tick: TimerProc,
    /// [`Node::check`](super::Node::check).
    pub(crate) check: TimerProc,
    /// [`Node::replicas_fired`](super::Node::replicas_fired).
    pub(crate) replicas: TimerProc,
    /// [`Node::ack_fired`](super::Node::ack_fired).
    pub(crate) ack: TimerProc,
    /// [`Node::mail_fired`](super::Node::mail_fired).
    pub(crate) mail: TimerProc,
}

/// See the module's text.
pub(super) struct Timers {
    procs: TimerProcs,
    /// Set for the shard's next deadline.
    deadline: Option<(Timer, Time)>,
    /// Set for what an event left to do.
    soon: Option<Timer>,
    /// Set while somebody waits.
    tick: Option<Timer>,
    ticks: u32,
    /// The timer of the periodic check is set; otherwise the server's cron sees when there is something to look after.
    check: Option<(Timer, Instant)>,
    /// Set while replicas are to be asked who has how much.
    replicas: Option<Timer>,
    /// Set while the primary is to hear that everything was carried out.
    ack: Option<Timer>,
    /// What is for other nodes leaves then.
    mail: Option<Timer>,
    /// It leaves now, with whatever comes to it meanwhile.
    mail_leaves: bool,
}

/// Which timers were set before they were stopped.
pub(super) struct Stopped {
    pub(super) soon: bool,
    pub(super) tick: bool,
    pub(super) replicas: bool,
    pub(super) ack: bool,
    pub(super) mail: bool,
}

impl Timers {
    pub(super) fn new(procs: TimerProcs) -> Self {
        Timers {
            procs,
            deadline: None,
            soon: None,
            tick: None,
            ticks: 0,
            check: None,
            replicas: None,
            ack: None,
            mail: None,
            mail_leaves: false,
        }
    }

    /// A timer that is early only looks again, so it is moved when something is due earlier, and not otherwise.
    pub(super) fn set_deadline(&mut self, ctx: Ctx, due: Time, now: impl FnOnce() -> Time) {
        if let Some((timer, at)) = self.deadline {
            if at <= due {
                return;
            }
            ctx.stop(timer);
        }
        let millis = due.since(now()) / 1_000 + 1;
        self.deadline = Some((ctx.timer(millis, self.procs.deadline), due));
    }

    pub(super) fn deadline_fired(&mut self) {
        self.deadline = None;
    }

    pub(super) fn set_soon(&mut self, ctx: Ctx, millis: u64) {
        let Timers { procs, soon, .. } = self;
        soon.get_or_insert_with(|| ctx.timer(millis, procs.soon));
    }

    pub(super) fn soon_fired(&mut self) {
        self.soon = None;
    }

    pub(super) fn set_tick(&mut self, ctx: Ctx) {
        let Timers { procs, tick, .. } = self;
        tick.get_or_insert_with(|| ctx.timer(TICK_MS, procs.tick));
    }

    pub(super) fn tick_fired(&mut self) {
        self.tick = None;
    }

    /// Counts a tick. Whether it is one of those that come once in so many.
    pub(super) fn is_nth_tick(&mut self, each: u32) -> bool {
        self.ticks += 1;
        self.ticks.is_multiple_of(each)
    }

    pub(super) fn set_check(&mut self, ctx: Ctx, millis: u64) {
        let Timers { procs, check, .. } = self;
        check.get_or_insert_with(|| {
            let due = Instant::now() + Duration::from_millis(millis);
            (ctx.timer(millis, procs.check), due)
        });
    }

    pub(super) fn check_fired(&mut self) {
        self.check = None;
    }

    pub(super) fn is_check_set(&self) -> bool {
        self.check.is_some()
    }

    /// Whether the periodic check should have come long ago.
    pub(super) fn stand_still(&self) -> bool {
        self.check.is_some_and(|(_, due)| due.elapsed() > TIMERS_LATE)
    }

    pub(super) fn set_replicas(&mut self, ctx: Ctx, millis: u64) {
        let Timers { procs, replicas, .. } = self;
        replicas.get_or_insert_with(|| ctx.timer(millis, procs.replicas));
    }

    pub(super) fn replicas_fired(&mut self) {
        self.replicas = None;
    }

    pub(super) fn set_ack(&mut self, ctx: Ctx) {
        let Timers { procs, ack, .. } = self;
        ack.get_or_insert_with(|| ctx.timer(0, procs.ack));
    }

    pub(super) fn is_ack_set(&self) -> bool {
        self.ack.is_some()
    }

    pub(super) fn ack_fired(&mut self) {
        self.ack = None;
    }

    /// Not while mail leaves: a timer that a timer sets comes a millisecond later at least, and what comes from the bus before that would
    /// wait for it.
    pub(super) fn set_mail(&mut self, ctx: Ctx) {
        let Timers { procs, mail, mail_leaves, .. } = self;
        if !*mail_leaves {
            mail.get_or_insert_with(|| ctx.timer(0, procs.mail));
        }
    }

    pub(super) fn mail_fired(&mut self) {
        (self.mail, self.mail_leaves) = (None, true);
    }

    /// It has left.
    pub(super) fn mail_left(&mut self) {
        self.mail_leaves = false;
    }

    /// Stops all.
    pub(super) fn stop(&mut self, ctx: Ctx) -> Stopped {
        let deadline = self.deadline.take().map(|(timer, _)| timer);
        let check = self.check.take().map(|(timer, _)| timer);
        let stop = |timer: Option<Timer>| {
            timer.into_iter().for_each(|timer| ctx.stop(timer));
            timer.is_some()
        };
        stop(deadline);
        stop(check);
        Stopped {
            soon: stop(self.soon.take()),
            tick: stop(self.tick.take()),
            replicas: stop(self.replicas.take()),
            ack: stop(self.ack.take()),
            mail: stop(self.mail.take()),
        }
    }
}
