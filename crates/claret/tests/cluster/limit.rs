//! A limit on each test: what hangs fails, and says so. It holds where a thread hangs in a call, too.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use claret_rig::Module;

/// Far longer than any test takes that works, on a machine that has much else to do.
const LIMIT: Duration = Duration::from_secs(300);

/// Until it is dropped, the test may go on, for so long.
pub(crate) struct Limit {
    _ends: Sender<()>,
}

/// Begins when the module is built, which takes as long as it takes.
pub(crate) fn of_test() -> Limit {
    Module::of_sources().expect("the module");
    let (ends, ended) = channel();
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    std::thread::spawn(move || {
        if ended.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{name} hangs: it is not over after {LIMIT:?}");
            std::process::exit(101);
        }
    });
    Limit { _ends: ends }
}
