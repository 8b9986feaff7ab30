//! What makes the coarse timer of a store in this process tick: one exact timer, set while somebody waits.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use futures_timer::Delay;
use parking_lot::Mutex;

use crate::coarse_timer::{CoarseTimer, TICK};

/// See the module's text. As a waker, it ticks.
#[derive(Debug, Default)]
pub(super) struct Ticking {
    timer: CoarseTimer,
    next: Mutex<Option<Delay>>,
}

impl Ticking {
    /// [`CoarseTimer::join`].
    pub(super) fn join(self: &Arc<Self>, time: Duration, waker: &Waker) -> Option<u64> {
        self.timer.join(time, waker, || self.set())
    }

    /// Ticks for the last time.
    pub(super) fn close(&self) {
        self.timer.tick(true);
        self.next.lock().take();
    }

    /// Ticks once, a tick from now; or sooner, which does no harm.
    fn set(self: &Arc<Self>) {
        let ticks = Waker::from(Arc::clone(self));
        let mut next = self.next.lock();
        let delay = next.insert(Delay::new(TICK));
        while Pin::new(&mut *delay).poll(&mut Context::from_waker(&ticks)).is_ready() {
            delay.reset(TICK);
        }
    }
}

impl Wake for Ticking {
    fn wake(self: Arc<Self>) {
        self.timer.tick(false);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// Far away.
    const FAR: Duration = Duration::from_secs(9);

    /// Longer than a tick takes on any machine.
    const LONG: Duration = Duration::from_secs(60);

    struct Tell(Sender<()>);

    impl Wake for Tell {
        fn wake(self: Arc<Self>) {
            let _ = self.0.send(()); // A test that has failed hears nothing more.
        }
    }

    #[test]
    fn whoever_waits_in_this_process_is_woken_at_the_next_tick_and_when_it_closes() {
        let (ticking, (tell, told)) = (Arc::<Ticking>::default(), channel());
        let waker = Waker::from(Arc::new(Tell(tell)));
        let first = ticking.join(FAR, &waker).expect("it ticks");
        told.recv_timeout(LONG).expect("the next tick");
        let second = ticking.join(FAR, &waker).expect("it ticks again");
        assert!(second > first, "it is another tick");
        told.recv_timeout(LONG).expect("the tick after it");
        assert!(ticking.join(FAR, &waker).is_some(), "and again");
        ticking.close();
        told.recv_timeout(LONG).expect("the last tick");
        assert_eq!(ticking.join(FAR, &waker), None, "it ticks no more");
    }
}
