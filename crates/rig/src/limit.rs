//! A limit on each test with real servers: what hangs fails, and says so. It holds where a thread hangs in a call, too.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use rustix::process::Signal;

use crate::process::signal;

/// Far longer than any test takes that works, on a machine that has much else to do.
const LIMIT: Duration = Duration::from_secs(300);

/// So long a test has to fail by itself when its server is gone, and to clean up.
const GRACE: Duration = Duration::from_secs(10);

/// Until it is dropped, the test of this thread may go on, for so long; then the process ends.
#[derive(Debug)]
pub struct TestLimit {
    _ends: Sender<()>,
}

impl TestLimit {
    /// Begins now. Whatever has to be built first is built before: that takes as long as it takes.
    pub fn begin() -> Self {
        Self::start(None)
    }

    /// The same for a test with a server of its own that nobody else ends: it is killed when the time is over.
    pub fn over(server: u32) -> Self {
        Self::start(Some(server))
    }

    fn start(server: Option<u32>) -> Self {
        let (ends, ended) = channel();
        let name = std::thread::current().name().unwrap_or("a test").to_owned();
        std::thread::spawn(move || {
            if ended.recv_timeout(LIMIT) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            eprintln!("{name} hangs: it is not over after {LIMIT:?}");
            if let Some(pid) = server {
                signal(pid, Signal::KILL);
                if ended.recv_timeout(GRACE) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
            std::process::exit(101);
        });
        TestLimit { _ends: ends }
    }
}
