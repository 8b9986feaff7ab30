//! Shows the progress of a comparison as a bar on the standard error. The bar disappears before anything else is printed.

use std::time::Duration;

use claret_bench::{Observer, Slice};
use indicatif::{ProgressBar, ProgressStyle};

/// While the stores are loaded.
const LOADING: &str = "{spinner} loading {prefix}: {human_pos} operations, {elapsed}";
/// While they are measured.
const RUNNING: &str = "{prefix} {wide_bar} {percent} % {msg:20}";

/// See the module's text.
pub(super) struct Bar(ProgressBar);

impl Bar {
    pub(super) fn new() -> Self {
        let bar = ProgressBar::new_spinner();
        bar.enable_steady_tick(Duration::from_millis(100));
        Bar(bar)
    }

    /// What was measured is being checked.
    pub(super) fn checks(&self) {
        self.0.set_message("checking");
    }
}

impl Observer for Bar {
    fn loads(&mut self, workload: &str, mode: &str) {
        self.0.set_style(style(LOADING));
        self.0.set_prefix(format!("{workload} for {mode}"));
        self.0.set_position(0);
    }

    fn loaded(&mut self, operations: usize) {
        self.0.inc(operations as u64);
    }

    fn runs(&mut self, workload: &str, slices: usize) {
        self.0.set_style(style(RUNNING));
        self.0.set_prefix(workload.to_owned());
        self.0.set_position(0);
        self.0.set_length(slices as u64);
    }

    fn measures(&mut self, mode: &str) {
        self.0.set_message(mode.to_owned());
    }

    fn measured(&mut self, _: &Slice) {
        self.0.inc(1);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is well-formed")
}
