//! Slots that are about to leave (`CLUSTER SETSLOT`), each closed to newcomers until it has left or its command gives up.

use claret_core::Time;
use claret_types::Bytes;

use crate::ffi::Blocked;
use crate::parts::planted::guard as planted;
use crate::parts::slots::{Closed, SLOTS};

/// See the module's text.
#[derive(Default)]
pub(crate) struct Leaving {
    list: Vec<Leave>,
    last: u64,
}

/// One of them.
pub(crate) struct Leave {
    number: u64,
    slot: Closed,
    until: Time,
    stage: LeaveStage,
}

/// How far one is.
pub(crate) enum LeaveStage {
    /// The command's client waits; this key was in use when that was last looked at.
    Waits(Blocked, Bytes),
    /// It is let go, and its answer runs soon, unless it is gone before.
    Released(Blocked),
    /// The server runs the command of this client, at once or when replicas have acknowledged it.
    Server(u64),
    /// The command may be sent again.
    Again,
}

impl Leave {
    pub(crate) fn slot(&self) -> u16 {
        self.slot.slot()
    }

    /// Its slot, which is closed for as long as that is kept.
    pub(crate) fn into_slot(self) -> Closed {
        self.slot
    }
}

impl Leaving {
    pub(crate) fn is_any(&self) -> bool {
        !self.list.is_empty()
    }

    pub(crate) fn begin(&mut self, slot: Closed, until: Time, stage: LeaveStage) {
        self.last += 1;
        self.list.push(Leave { number: self.last, slot, until, stage });
    }

    /// Takes one out. Its slot is closed for as long as it is kept.
    pub(crate) fn take(&mut self, number: u64) -> Option<Leave> {
        let at = self.list.iter().position(|leave| leave.number == number)?;
        Some(self.list.swap_remove(at))
    }

    /// Its client is gone. Whether it still waited: one that was let go already is not answered any more.
    pub(crate) fn leave(&mut self, client: Blocked) -> bool {
        let is_its = |leave: &mut Leave| match &leave.stage {
            LeaveStage::Waits(blocked, _) => *blocked == client,
            LeaveStage::Released(blocked) => planted::is_gone(*blocked == client),
            LeaveStage::Server(_) | LeaveStage::Again => false,
        };
        let left: Vec<Leave> = self.list.extract_if(.., is_its).collect();
        left.iter().any(|leave| matches!(leave.stage, LeaveStage::Waits(..)))
    }

    /// Clients that are to be let go, with the numbers of what they wait for: their time is over, or nobody uses a key of
    /// their slots. `is_held`: whether that key still is, which mostly is the same; `find` finds another one of the slot,
    /// which takes long among many.
    pub(crate) fn release(
        &mut self,
        now: Time,
        is_held: impl Fn(&Bytes) -> bool,
        find: impl Fn(u16) -> Option<Bytes>,
    ) -> Vec<(Blocked, u64)> {
        let mut released = Vec::new();
        for leave in &mut self.list {
            let LeaveStage::Waits(client, key) = &mut leave.stage else { continue };
            if leave.until > now && is_held(key) {
                continue;
            }
            match Some(leave.slot.slot()).filter(|_| leave.until > now).and_then(&find) {
                Some(other) => *key = other,
                None => {
                    released.push((*client, leave.number));
                    leave.stage = LeaveStage::Released(*client);
                }
            }
        }
        released
    }

    /// Slots whose commands wait for who uses a key of them.
    pub(crate) fn waits_for(&self) -> impl Iterator<Item = u16> {
        let waits = |leave: &&Leave| matches!(leave.stage, LeaveStage::Waits(..));
        self.list.iter().filter(waits).map(Leave::slot)
    }

    /// Those whose commands have run, or that need not stay closed any longer.
    pub(crate) fn over(&self, now: Time, is_blocked: impl Fn(u64) -> bool) -> Vec<u64> {
        let is_over = |leave: &&Leave| match leave.stage {
            LeaveStage::Server(client) => !is_blocked(client),
            LeaveStage::Again => leave.until <= now,
            LeaveStage::Waits(..) | LeaveStage::Released(_) => false,
        };
        self.list.iter().filter(is_over).map(|leave| leave.number).collect()
    }

    /// Opens the slots of these again.
    pub(crate) fn open(&mut self, over: &[u64]) {
        self.list.retain(|leave| !over.contains(&leave.number));
    }
}

/// The slot that a command takes away from whoever has it, if it is such a one.
pub(crate) fn slot_that_leaves<'a>(word: impl Fn(usize) -> Option<&'a [u8]>) -> Option<u16> {
    let is =
        |at: usize, known: &str| word(at).is_some_and(|word| word.eq_ignore_ascii_case(known.as_bytes()));
    if !is(1, "SETSLOT") || !is(3, "MIGRATING") && !is(3, "NODE") {
        return None;
    }
    let slot: usize = std::str::from_utf8(word(2)?).ok()?.parse().ok()?;
    u16::try_from(slot).ok().filter(|_| slot < SLOTS)
}

#[cfg(test)]
mod tests {
    use claret_core::Time;
    use claret_types::Bytes;

    use super::{Blocked, LeaveStage, Leaving, slot_that_leaves};
    use crate::parts::slots::Slots;

    fn client(number: usize) -> Blocked {
        Blocked::from_raw(std::ptr::without_provenance_mut(number))
    }

    fn waits(number: usize) -> LeaveStage {
        LeaveStage::Waits(client(number), Bytes::from("k"))
    }

    /// Bug: a client that was let go, and freed before its answer ran, left its slot closed. Consequence: transactions on
    /// the slot are sent elsewhere until the process ends. Mend: whoever was let go and is gone opens it, too.
    #[test]
    fn who_is_gone_leaves_no_slot_closed_whether_it_was_let_go_or_not() {
        let (slots, mut leaving) = (Slots::alone(), Leaving::default());
        leaving.begin(slots.close(1), Time(0), waits(8));
        leaving.begin(slots.close(2), Time(0), LeaveStage::Released(client(16)));
        assert!(!leaving.leave(client(24)), "another one");
        assert!(!leaving.leave(client(16)), "it is not to be let go twice");
        assert_eq!(leaving.list.len(), 1);
        assert!(leaving.leave(client(8)));
        assert!(!leaving.is_any());
    }

    #[test]
    fn a_client_waits_until_its_slot_is_free_or_its_time_is_over() {
        let (slots, mut leaving) = (Slots::alone(), Leaving::default());
        leaving.begin(slots.close(1), Time(10), waits(8));
        leaving.begin(slots.close(2), Time(20), waits(16));
        let none = |_| None;
        assert_eq!(leaving.release(Time(0), |_| true, none), []);
        assert_eq!(leaving.release(Time(0), |_| false, |_| Some(Bytes::from("other"))), []);
        assert_eq!(leaving.release(Time(0), |key| **key == *b"other", none), [], "that one is in use now");
        assert_eq!(leaving.release(Time(10), |_| true, none), [(client(8), 1)], "its time is over");
        assert_eq!(leaving.release(Time(10), |_| false, none), [(client(16), 2)], "each once");
        assert_eq!(leaving.take(2).map(|leave| leave.slot()), Some(2));
        assert_eq!(leaving.over(Time(99), |_| false), [] as [u64; 0], "an answer is still to run");
    }

    #[test]
    fn a_slot_is_opened_when_its_command_has_run() {
        let (slots, mut leaving) = (Slots::alone(), Leaving::default());
        leaving.begin(slots.close(1), Time(0), LeaveStage::Server(7));
        leaving.begin(slots.close(2), Time(10), LeaveStage::Again);
        assert_eq!(leaving.over(Time(9), |client| client == 7), [] as [u64; 0]);
        let over = leaving.over(Time(10), |_| false);
        assert_eq!(over, [1, 2]);
        leaving.open(&over);
        assert!(!leaving.is_any());
    }

    #[test]
    fn slots_leave_by_migrating_and_by_node_alone() {
        let slot = |line: &str| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            slot_that_leaves(|at| words.get(at).copied())
        };
        assert_eq!(slot("cluster setslot 7 migrating x"), Some(7));
        assert_eq!(slot("CLUSTER SETSLOT 16383 NODE x TIMEOUT 5"), Some(16_383));
        for line in
            ["CLUSTER SETSLOT 7 IMPORTING x", "CLUSTER SETSLOT 7 STABLE", "CLUSTER SETSLOT 16384 NODE x"]
        {
            assert_eq!(slot(line), None, "{line}");
        }
        assert_eq!(slot("CLUSTER SETSLOT x NODE y"), None);
        assert_eq!(slot("CLUSTER NODES"), None);
    }
}
