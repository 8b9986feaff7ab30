//! How commands are passed on as bytes: what [`Plain`] has for a [`Forward`].

use std::sync::Arc;

use super::Plain;
use super::forward::Forward;
use super::pool::Waiting;
use super::raw::Raw;
use crate::cluster::error::ConnectError;
use crate::cluster::topology::SLOTS;

impl Plain {
    /// Passes a command on to the node of this slot ([`slot_of`](crate::cluster::slot_of)); without a slot to any node. It is on its
    /// way when this returns.
    ///
    /// What a node sends elsewhere or cannot do for the moment (MOVED, ASK, TRYAGAIN, CLUSTERDOWN, LOADING) is sent again, up to 16
    /// times, and then that is the reply. A command must be done soon: one that waits on the server (BLPOP) would hold up the
    /// replies to all others, and the connection would be given up after the response timeout. For these there is [`Plain::raw`].
    ///
    /// # Order
    /// Commands for one slot leave in the order in which they were passed on. One that is sent again may be overtaken by a later
    /// one. Whoever must not be overtaken (a pipeline) waits for the replies to all that it has under way whenever
    /// [`Plain::topology_version`] has changed, and sends on with [`Plain::forward_all_since`]. Only what had left together with a
    /// command that rests (TRYAGAIN, CLUSTERDOWN, LOADING) may be carried out before it even so.
    ///
    /// # Panics
    /// There is no such slot.
    pub fn forward(&self, to: Arc<dyn Forward>, no: u32, slot: Option<u16>) {
        self.pool().send([waiting(to, no, slot)]);
    }

    /// Passes commands on under one lock, as [`Plain::forward`] does with each: numbers and slots.
    ///
    /// # Panics
    /// There is no such slot.
    pub fn forward_all(&self, to: &Arc<dyn Forward>, commands: impl IntoIterator<Item = (u32, Option<u16>)>) {
        self.pool().send(commands.into_iter().map(|(no, slot)| waiting(Arc::clone(to), no, slot)));
    }

    /// The same, if [`Plain::topology_version`] is still the one given. Returns whether it is; if not, nothing is passed on, and
    /// `commands` is left as it was.
    ///
    /// # Panics
    /// There is no such slot.
    #[must_use]
    pub fn forward_all_since(
        &self,
        version: u64,
        to: &Arc<dyn Forward>,
        commands: impl IntoIterator<Item = (u32, Option<u16>)>,
    ) -> bool {
        let commands = commands.into_iter().map(|(no, slot)| waiting(Arc::clone(to), no, slot));
        self.pool().send_since(version, commands)
    }

    /// Passes a command on to a node of [`Plain::nodes`], whatever its keys. Whatever that answers is the reply, also where it would
    /// send a command elsewhere. Returns whether there is such a node: if not, nothing is heard.
    #[must_use]
    pub fn forward_to(&self, node: &str, to: Arc<dyn Forward>, no: u32) -> bool {
        self.pool().send_to(node, Waiting::raw_for_node(to, no))
    }

    /// Counts what may put a command before one that was passed on earlier: each slot that turns out to have moved (MOVED), each
    /// topology that is not the one before, and each command passed on that rests before it is sent again. O(1), without a lock.
    pub fn topology_version(&self) -> u64 {
        self.pool().version()
    }

    /// The node that serves a slot, as far as it is known here. `None`: there is no such slot.
    pub fn node_of(&self, slot: u16) -> Option<String> {
        self.pool().node_of(slot).map(|node| node.to_string())
    }

    /// A connection of one's own, through which everything goes as it is, to the node of a slot; without a slot to any node.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn raw(&self, slot: Option<u16>) -> Result<Raw, ConnectError> {
        let slot = slot.unwrap_or_default();
        let node = self.pool().node_of(slot);
        let node = node.ok_or_else(|| ConnectError::Uncovered { slots: vec![(slot, slot)] })?;
        Raw::open(&self.net().settings, &node).await
    }

    /// The same to a node by its address.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn raw_at(&self, node: &str) -> Result<Raw, ConnectError> {
        Raw::to(&self.net().settings, Some(node)).await
    }
}

fn waiting(to: Arc<dyn Forward>, no: u32, slot: Option<u16>) -> Waiting {
    assert!(slot.is_none_or(|slot| usize::from(slot) < SLOTS), "slot {slot:?} of {SLOTS}");
    Waiting::raw(to, no, slot)
}
