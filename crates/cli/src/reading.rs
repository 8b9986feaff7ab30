//! Shows on the standard error, if that is a terminal, how far reading a store's folder is. What was read at once shows nothing.

use std::time::{Duration, Instant};

use claret::durability::Progress;
use indicatif::{ProgressBar, ProgressStyle};

/// What takes no longer shows nothing.
const SHOWN_AFTER: Duration = Duration::from_millis(300);

/// See the module's text. The bar disappears when this is dropped.
pub(crate) struct Reading {
    began: Instant,
    bar: Option<ProgressBar>,
}

impl Reading {
    /// Reading begins.
    pub(crate) fn begin() -> Self {
        Reading { began: Instant::now(), bar: None }
    }

    /// It is so far.
    pub(crate) fn is_at(&mut self, progress: Progress) {
        if self.bar.is_none() && self.began.elapsed() < SHOWN_AFTER {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            ProgressBar::new(0).with_style(
                ProgressStyle::with_template("{bar:40} {bytes} of {total_bytes}, {msg}")
                    .expect("the template is well-formed"),
            )
        });
        bar.set_length(progress.of);
        bar.set_position(progress.bytes);
        bar.set_message(format!("{} entries", progress.entries));
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}
