//! Where the server calls in: nothing unwinds out of the module.
//!
//! A panic is caught at every entry, logged, and answered with an error. It may have left the shard's memory of locks
//! half done, so the shard becomes another incarnation, as after a restart.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Ctx, Log};

/// What a panic said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Panicked(String);

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Runs.
///
/// # Errors
/// When it panics.
pub(crate) fn caught<R>(run: impl FnOnce() -> R) -> Result<R, Panicked> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| Panicked(said(&*panic)))
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a word").to_owned()
}

/// Runs an entry of the server's: the context is the current one meanwhile, and `restart` runs after a panic.
pub(crate) fn guarded<R>(ctx: Ctx, name: &str, restart: fn(Ctx), run: impl FnOnce(Ctx) -> R) -> Option<R> {
    let _current = Current::enter(ctx);
    match caught(|| run(ctx)) {
        Ok(result) => Some(result),
        Err(said) => {
            ctx.log(Log::Warning, &format!("{name} panicked: {said}; the shard begins anew"));
            if let Err(said) = caught(|| restart(ctx)) {
                ctx.log(Log::Warning, &format!("and cannot begin anew: {said}"));
            }
            None
        }
    }
}

struct CurrentCtx(Cell<Option<Ctx>>);

// SAFETY: thread rule: a `Cell` that one thread alone reaches.
unsafe impl Sync for CurrentCtx {}

static CURRENT: CurrentCtx = CurrentCtx(Cell::new(None));

/// Puts the context before back when it is dropped.
struct Current(Option<Ctx>);

impl Current {
    fn enter(ctx: Ctx) -> Self {
        Current(CURRENT.0.replace(Some(ctx)))
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        CURRENT.0.set(self.0);
    }
}

impl Ctx {
    /// The context of the entry that runs: for the records, which the shard asks from within.
    pub(crate) fn current() -> Ctx {
        CURRENT.0.get().expect("the shard runs within an entry")
    }
}

#[cfg(test)]
mod tests {
    use super::{Panicked, caught};

    #[test]
    fn a_panic_ends_at_the_entry_and_says_what_it_said() {
        assert_eq!(caught(|| 1), Ok(1));
        let index = std::hint::black_box(3);
        let panicked: Result<i32, Panicked> = caught(|| [1, 2][index]);
        assert_eq!(
            panicked,
            Err(Panicked("index out of bounds: the len is 2 but the index is 3".to_owned()))
        );
        assert_eq!(
            caught(|| -> i32 { std::panic::panic_any(7_u8) }),
            Err(Panicked("without a word".to_owned()))
        );
    }
}
