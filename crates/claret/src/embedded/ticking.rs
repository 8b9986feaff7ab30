//! What makes the coarse timer of a store with a log tick: a thread, which rests while nobody waits for the disk.

use std::sync::Arc;
use std::task::Waker;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::coarse_timer::{CoarseTimer, TICK};
use crate::durability::OpenError;

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Ticking {
    timer: CoarseTimer,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Somebody waits for the next tick.
    is_asked: bool,
    is_closing: bool,
}

impl Ticking {
    /// Begins to tick.
    pub(super) fn start(self: &Arc<Self>) -> Result<JoinHandle<()>, OpenError> {
        let ticking = Arc::clone(self);
        let thread = Builder::new().name("claret-ticks".into()).spawn(move || ticking.run());
        thread.map_err(|source| OpenError::Io { doing: "start", path: "a thread".into(), source })
    }

    /// [`CoarseTimer::join`].
    pub(super) fn join(&self, time: Duration, waker: &Waker) -> Option<u64> {
        self.timer.join(time, waker, || {
            self.state.lock().is_asked = true;
            self.changed.notify_one();
        })
    }

    /// Ticks for the last time.
    pub(super) fn close(&self) {
        self.state.lock().is_closing = true;
        self.changed.notify_one();
    }

    fn run(&self) {
        let mut state = self.state.lock();
        while !state.is_closing {
            if !state.is_asked {
                self.changed.wait(&mut state);
                continue;
            }
            state.is_asked = false;
            self.changed.wait_while_for(&mut state, |state| !state.is_closing, TICK);
            drop(state);
            self.timer.tick(false);
            state = self.state.lock();
        }
        drop(state);
        self.timer.tick(true);
    }
}
