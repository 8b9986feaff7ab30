//! The clock of a node jumps, forward or back, and jumps to the right time again. Sometimes the node dies and starts again meanwhile.

use std::time::Duration;

use super::children::Process;
use super::run::Run;
use super::servers::{Servers, text};

/// How far it jumps, in milliseconds: up to a power of ten of them, each as often as the others.
const JUMPS_MS: [u64; 5] = [100, 1_000, 10_000, 100_000, 10_000_000];

/// A node may be so far ahead of the others while calls are ordered: less than `claret.clock-skew-ms`, a second by default. Its own time
/// does not go back, so that one that was further ahead starts again.
const AHEAD_MAX: Duration = Duration::from_millis(400);

/// How long it is wrong, in milliseconds.
const WRONG_MS: (u64, u64) = (300, 6_000);

impl Servers {
    /// Strikes once; whom.
    ///
    /// # Errors
    /// The node's, or a client says what is wrong.
    pub(super) fn shift_clock(
        &mut self,
        (shard, primary): (usize, usize),
        run: &mut Run<'_>,
        processes: &mut [Process],
    ) -> Result<String, String> {
        let node = self.any_node(shard, run);
        let may_restart = node != primary || self.outlives_restart();
        let most = JUMPS_MS[if may_restart { run.below(JUMPS_MS.len()) } else { 0 }];
        let (by, is_back) = (Duration::from_millis(1 + run.below(most as usize) as u64), run.below(2) == 0);
        let is_killed = run.below(2) == 0 && may_restart;
        self.set_ordering(0)?;
        self.rig.servers()[node].shift_clock(by, is_back).map_err(text)?;
        run.rest(WRONG_MS, processes)?;
        let stays_ahead = !is_back && by > AHEAD_MAX;
        if node == primary && (is_killed || stays_ahead) {
            self.homes.note_hit(&self.rig, shard);
        }
        if is_killed {
            self.rig.server_mut(node).restart().map_err(text)?;
            run.rest(WRONG_MS, processes)?;
        }
        self.rig.servers()[node].shift_clock(Duration::ZERO, false).map_err(text)?;
        if stays_ahead {
            self.rig.server_mut(node).restart().map_err(text)?;
        }
        let how = if is_back { "back" } else { "forward" };
        let also = if is_killed { ", and started again meanwhile" } else { "" };
        Ok(format!("node {node}, {by:?} {how}{also}"))
    }
}
