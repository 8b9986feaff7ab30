//! Lines of a log, which a thread of their own writes: whoever has something to say goes on at once, whether somebody reads it, reads
//! slowly or has stopped reading.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use crate::output::escaped;

/// Lines that wait to be written; further ones are left out, and counted.
const WAITING_MAX: usize = 1_024;

/// How long the last lines have to be written when the program ends.
const PARTING: Duration = Duration::from_millis(500);

/// Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    waiting: SyncSender<Line>,
    left_out: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Line {
    Text(String),
    /// Told once all before it is written.
    Flush(SyncSender<()>),
}

impl Lines {
    /// Written to `out`. Where nobody reads, they are gone.
    pub(super) fn to(out: impl Write + Send + 'static) -> Self {
        let (waiting, lines) = sync_channel(WAITING_MAX);
        let left_out = Arc::<AtomicU64>::default();
        let their = Arc::clone(&left_out);
        std::thread::spawn(move || write_all(out, &lines, &their));
        Lines { waiting, left_out }
    }

    /// Never waits.
    pub(super) fn say(&self, line: &str) {
        if let Err(TrySendError::Full(_)) = self.waiting.try_send(Line::Text(escaped(line))) {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until what was said is written, for a moment at most.
    pub(super) fn flush(&self) {
        let (written, is_written) = sync_channel(1);
        if self.waiting.try_send(Line::Flush(written)).is_ok() {
            let _ = is_written.recv_timeout(PARTING);
        }
    }
}

fn write_all(mut out: impl Write, lines: &Receiver<Line>, left_out: &AtomicU64) {
    for line in lines {
        match line {
            Line::Text(text) => drop(writeln!(out, "{text}")),
            Line::Flush(written) => drop(written.send(())),
        }
        match left_out.swap(0, Ordering::Relaxed) {
            0 => {}
            count => drop(writeln!(out, "{count} lines were left out: they were not read fast enough")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// Lets nothing through until it is told to.
    struct Stuck {
        begun: Sender<()>,
        go_on: Receiver<()>,
        written: Sender<String>,
    }

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.begun.send(());
            let _ = self.go_on.recv();
            let _ = self.written.send(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn who_says_something_waits_for_no_reader_and_hears_what_was_left_out() {
        let ((begun, has_begun), (go, go_on), (written, read)) = (channel(), channel(), channel());
        let lines = Lines::to(Stuck { begun, go_on, written });
        lines.say("first");
        has_begun.recv().expect("the thread writes");
        // The thread is stuck in the first: so many wait, and the rest is counted.
        (0..WAITING_MAX + 7).for_each(|_| lines.say("a line"));
        drop(go);
        let is_told = |text: String| text.starts_with('7') || text.contains("7 lines were left out");
        assert!(read.into_iter().any(is_told), "it is said how many");
    }

    #[test]
    fn where_nobody_reads_nothing_breaks() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let lines = Lines::to(Gone);
        (0..3).for_each(|_| lines.say("nobody reads this"));
        lines.flush();
        lines.say("nor this");
    }
}
