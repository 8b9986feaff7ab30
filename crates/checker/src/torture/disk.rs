//! The disk of a node is full for a while, and has room again.

use std::time::Instant;

use super::children::Process;
use super::run::Run;
use super::servers::{HEAL_TIME, LOOK, Servers, text};

/// No file of a node becomes longer meanwhile. What the server cannot live without is shorter than the first: what it knows of the
/// cluster. With the second nothing can be written at all.
pub(super) const FULL: u64 = 16 << 10;
pub(super) const NO_ROOM: u64 = 0;

impl Servers {
    /// Strikes once; whom. A replica that cannot write ends by itself (`replica-ignore-disk-write-errors`), and is started again.
    ///
    /// # Errors
    /// The node cannot write after it, or a client says what is wrong.
    pub(super) fn fill_disk(
        &mut self,
        most: u64,
        (shard, primary): (usize, usize),
        run: &mut Run<'_>,
        processes: &mut [Process],
    ) -> Result<String, String> {
        let node = self.any_node(shard, run);
        if !self.rig.servers()[node].limit_files(Some(most)) {
            return Ok(format!("node {node}: not on this system"));
        }
        let rested = run.rest((500, 5_000), processes);
        self.rig.servers()[node].limit_files(None);
        rested?;
        let since = Instant::now();
        loop {
            // It may end a moment later than it could write again.
            if !self.rig.server_mut(node).is_running() {
                self.rig.server_mut(node).restart().map_err(text)?;
                if node == primary {
                    self.homes.note_hit(&self.rig, shard);
                }
                return Ok(format!("node {node}, which ended"));
            }
            let state = self.rig.servers()[node].info("persistence", "aof_last_write_status");
            if state.is_ok_and(|state| state.as_deref() == Some("ok")) {
                return Ok(format!("node {node}"));
            }
            if since.elapsed() > HEAL_TIME {
                return Err(format!("node {node} does not write, though its disk has room again"));
            }
            std::thread::sleep(LOOK);
        }
    }
}
