//! Slots that are about to leave (`CLUSTER SETSLOT`), each closed to newcomers until it has left or its command gives up.

use claret_core::Time;
use claret_planted::{Bug, is_planted};
use claret_types::Bytes;

use crate::ffi::Blocked;
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
    /// The replicas must have this batch first (S16).
    batch: Option<u64>,
    stage: LeaveStage,
}

/// What the shard says of slots.
pub(crate) trait Uses {
    /// Whether a key is held.
    fn is_held(&self, key: &Bytes) -> bool;

    /// A key of the slot that is held, or is about to be. O(keys in use).
    fn key_in_use(&self, slot: u16) -> Option<Bytes>;

    /// The batch that the replicas must have, so that they have all that was written up to now; `None`: they need not.
    fn ask_replicas(&mut self) -> Option<u64>;

    /// Whether the replicas have this batch.
    fn have_replicas(&self, batch: u64) -> bool;
}

/// How far one is.
pub(crate) enum LeaveStage {
    /// The command's client waits; this key was in use when that was last looked at. Without one it waits for the replicas.
    Waits(Blocked, Option<Bytes>),
    /// It is let go, and its answer runs soon, unless it is gone before.
    Released(Blocked),
    /// The server runs the command of this client, at once or when replicas have acknowledged it.
    Server(u64),
    /// The server has run it: its client has sent another command.
    Ran,
    /// The command may be sent again.
    Again,
}

impl Leave {
    pub(crate) fn slot(&self) -> u16 {
        self.slot.slot()
    }

    /// The batch that the replicas must have before it leaves.
    pub(crate) fn batch(&self) -> Option<u64> {
        self.batch
    }

    /// Whether its client has to wait longer: somebody uses a key of its slot, or the replicas lack something of it.
    fn goes_on_waiting(&mut self, uses: &mut impl Uses) -> bool {
        if self.batch.is_some_and(|batch| !uses.have_replicas(batch)) {
            return true; // The slot is closed, and nobody uses a key of it.
        }
        let slot = self.slot();
        let LeaveStage::Waits(_, key) = &mut self.stage else { return true };
        if key.as_ref().is_some_and(|key| uses.is_held(key)) {
            return true;
        }
        *key = uses.key_in_use(slot);
        if key.is_some() {
            self.batch = None;
            return true;
        }
        if self.batch.is_none() {
            self.batch = uses.ask_replicas().filter(|_| !is_planted(Bug::SlotLeavesUnconfirmed));
        }
        self.batch.is_some_and(|batch| !uses.have_replicas(batch))
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
        self.list.push(Leave { number: self.last, slot, until, batch: None, stage });
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
            LeaveStage::Released(blocked) => *blocked == client && !is_planted(Bug::GoneLeavesSlotClosed),
            LeaveStage::Server(_) | LeaveStage::Ran | LeaveStage::Again => false,
        };
        let left: Vec<Leave> = self.list.extract_if(.., is_its).collect();
        left.iter().any(|leave| matches!(leave.stage, LeaveStage::Waits(..)))
    }

    /// Clients that are to be let go, with the numbers of what they wait for: their time is over, or nobody uses a key of
    /// their slots and the replicas have what was written there.
    pub(crate) fn release(&mut self, now: Time, uses: &mut impl Uses) -> Vec<(Blocked, u64)> {
        let mut released = Vec::new();
        for leave in &mut self.list {
            let LeaveStage::Waits(client, _) = leave.stage else { continue };
            if leave.until <= now || !leave.goes_on_waiting(uses) {
                released.push((client, leave.number));
                leave.stage = LeaveStage::Released(client);
            }
        }
        released
    }

    /// A client sends a command: what the server ran for it before has run, though it may wait now for something else.
    pub(crate) fn sends(&mut self, client: Option<u64>) {
        for leave in &mut self.list {
            if matches!(leave.stage, LeaveStage::Server(before) if Some(before) == client) {
                leave.stage = LeaveStage::Ran;
            }
        }
    }

    /// Whether a slot was found free, and is closed until its command is sent again.
    pub(crate) fn is_free(&self, slot: u16) -> bool {
        self.list.iter().any(|leave| leave.slot() == slot && matches!(leave.stage, LeaveStage::Again))
    }

    /// Those that a command has closed.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u16> {
        self.list.iter().map(Leave::slot)
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
            LeaveStage::Ran => true,
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

/// The slot of a command that says that it stays where it is.
pub(crate) fn slot_that_stays<'a>(word: impl Fn(usize) -> Option<&'a [u8]>) -> Option<u16> {
    slot_of_command(word, &["STABLE"])
}

/// The slot that a command takes away from whoever has it, if it is such a one.
pub(crate) fn slot_that_leaves<'a>(word: impl Fn(usize) -> Option<&'a [u8]>) -> Option<u16> {
    slot_of_command(word, &["MIGRATING", "NODE"])
}

fn slot_of_command<'a>(word: impl Fn(usize) -> Option<&'a [u8]>, what: &[&str]) -> Option<u16> {
    let is =
        |at: usize, known: &str| word(at).is_some_and(|word| word.eq_ignore_ascii_case(known.as_bytes()));
    if !is(1, "SETSLOT") || !what.iter().any(|what| is(3, what)) {
        return None;
    }
    let slot: usize = std::str::from_utf8(word(2)?).ok()?.parse().ok()?;
    u16::try_from(slot).ok().filter(|_| slot < SLOTS)
}

#[cfg(test)]
mod tests {
    use claret_core::Time;
    use claret_types::Bytes;

    use super::{Blocked, LeaveStage, Leaving, Uses, slot_that_leaves, slot_that_stays};
    use crate::parts::slots::Slots;

    fn client(number: usize) -> Blocked {
        Blocked::from_raw(std::ptr::without_provenance_mut(number))
    }

    fn waits(number: usize) -> LeaveStage {
        LeaveStage::Waits(client(number), Some(Bytes::from("k")))
    }

    /// What a shard would say.
    #[derive(Default)]
    struct Said {
        held: &'static [&'static str],
        taken: u64,
        confirmed: u64,
        has_replicas: bool,
    }

    impl Uses for Said {
        fn is_held(&self, key: &Bytes) -> bool {
            self.held.iter().any(|held| **key == *held.as_bytes())
        }

        fn key_in_use(&self, _: u16) -> Option<Bytes> {
            self.held.first().map(|key| Bytes::from(*key))
        }

        fn ask_replicas(&mut self) -> Option<u64> {
            self.has_replicas.then_some(self.taken + 1)
        }

        fn have_replicas(&self, batch: u64) -> bool {
            batch <= self.confirmed
        }
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
        let mut held = Said { held: &["k"], ..Said::default() };
        assert_eq!(leaving.release(Time(0), &mut held), []);
        held.held = &["other"];
        assert_eq!(leaving.release(Time(0), &mut held), []);
        held.held = &["another", "other"];
        assert_eq!(leaving.release(Time(0), &mut held), [], "that one is in use now");
        assert_eq!(leaving.release(Time(10), &mut held), [(client(8), 1)], "its time is over");
        assert_eq!(leaving.release(Time(10), &mut Said::default()), [(client(16), 2)], "each once");
        assert_eq!(leaving.take(2).map(|leave| leave.slot()), Some(2));
        assert_eq!(leaving.over(Time(99), |_| false), [] as [u64; 0], "an answer is still to run");
    }

    #[test]
    fn a_slot_leaves_when_the_replicas_have_what_was_written() {
        let (slots, mut leaving) = (Slots::alone(), Leaving::default());
        leaving.begin(slots.close(1), Time(10), waits(8));
        let mut said = Said { held: &["k"], taken: 3, confirmed: 3, has_replicas: true };
        assert_eq!(leaving.release(Time(0), &mut said), []);
        // Whoever held it has written once more.
        (said.held, said.taken) = (&[], 5);
        assert_eq!(leaving.release(Time(0), &mut said), []);
        (said.taken, said.confirmed) = (9, 5);
        assert_eq!(leaving.release(Time(0), &mut said), [], "they lack the sixth");
        said.confirmed = 6;
        assert_eq!(
            leaving.release(Time(0), &mut said),
            [(client(8), 1)],
            "what others wrote since then is of no account"
        );
        assert_eq!(leaving.take(1).and_then(|leave| leave.batch()), Some(6));
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

    /// Bug: whether the server had run the command was told from its client alone, which was blocked in what it sent next.
    /// Consequence: the slot stayed closed for as long as that client went on with commands that wait.
    #[test]
    fn a_slot_is_opened_though_its_client_waits_for_something_else() {
        let (slots, mut leaving) = (Slots::alone(), Leaving::default());
        leaving.begin(slots.close(1), Time(0), LeaveStage::Server(7));
        leaving.begin(slots.close(2), Time(0), LeaveStage::Server(8));
        leaving.sends(Some(7));
        leaving.sends(None);
        let over = leaving.over(Time(9), |_| true);
        assert_eq!(over, [1], "the other's command still waits");
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
        let line = "cluster setslot 9 stable";
        assert_eq!(slot_that_stays(|at| line.split(' ').map(str::as_bytes).nth(at)), Some(9));
        assert_eq!(slot("CLUSTER SETSLOT x NODE y"), None);
        assert_eq!(slot("CLUSTER NODES"), None);
    }
}
