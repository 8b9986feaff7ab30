//! A moment: work during which no key ends.
//!
//! As long as a command runs, the server looks at the clock once. Outside of one, in a timer or with a message of another node, Redis
//! 7.0 looks again for each key that is opened and each command that is run, so a key could end in the midst of a transaction's commit.
//! So such work is done within a command of the module's own.

use std::cell::Cell;

use super::Ctx;

type Work = dyn FnMut(Ctx);

struct Waiting(Cell<Option<*mut Work>>);

// SAFETY: thread rule: a `Cell` that one thread alone reaches.
unsafe impl Sync for Waiting {}

/// What the command is to do.
static WAITING: Waiting = Waiting(Cell::new(None));

impl Ctx {
    /// Does this within `CLARET.DUE`, which has to call [`Ctx::run_waiting`]. `None` when that panicked.
    pub(crate) fn at_one_moment<R>(self, run: impl FnOnce(Ctx) -> R) -> Option<R> {
        let (mut run, mut result) = (Some(run), None);
        let mut work = |ctx: Ctx| {
            if let Some(run) = run.take() {
                result = Some(run(ctx));
            }
        };
        let work: *mut (dyn FnMut(Ctx) + '_) = &mut work;
        // SAFETY: the two differ in the lifetime alone. It is taken out of the cell below at the latest, before what it points to ends;
        // nothing unwinds out of the call, since each command of the module catches its panics.
        WAITING.0.set(Some(unsafe { std::mem::transmute::<*mut (dyn FnMut(Ctx) + '_), *mut Work>(work) }));
        // Passed on: otherwise nothing is that it writes. It is no line of a file itself: the server passes on no command of a module.
        self.call(c"CLARET.DUE", c"!Ev", &[]);
        WAITING.0.set(None);
        result
    }

    /// Does what waits, once. Whether there was any: a client has none.
    pub(crate) fn run_waiting(self) -> bool {
        let Some(work) = WAITING.0.take() else { return false };
        // SAFETY: it was put there by `at_one_moment`, which waits for this, and nobody else has it: it was taken out.
        unsafe { (*work)(self) };
        true
    }
}
