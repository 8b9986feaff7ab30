//! Plain commands that wait their turn. Each is a transaction of one operation over all its keys, with a coordinator
//! of its own that never prepares. Once all its keys are granted the command runs, and then everything is released.
//!
//! A command over many keys asks only for those that somebody holds. When it has these it checks the **rest** again,
//! asks for what is held of it by now, and so on. When none of the rest is held, the shard holds off everybody until
//! the command has run (P63), which is within the next turn of the server's loop.
//!
//! A **reservation** is the same without a command. If a plain command could not wait, its keys are queued for it all
//! the same and, once granted, kept for a moment, so that the client's next try finds them free.
//!
//! Nothing here reaches a client: [`Queue::poll_released`] hands out clients to let go. Rights are not checked here:
//! the server checks what the client may do when the command runs.

use std::collections::{BTreeMap, VecDeque};

use claret_core::message::{Link, Refusal, Request, Response};
use claret_core::{Cause, Coordinator, Event, Limits, Session, SessionId, Shard, ShardId, Switches, Time};
use claret_planted::{Bug, is_planted};
use claret_types::{Access, Bytes, Operation};
use hashbrown::{HashMap, HashSet};

use crate::ffi::Blocked;
use crate::parts::owner::Owner;
use crate::parts::plain::whole;

/// The session of the node's own transactions. No client can say hello with it.
pub(crate) const OWN: SessionId = SessionId(0);
const LINK: Link = Link { session: OWN, connection: 0 };

/// What a command asks of one key.
#[derive(Clone, Debug)]
pub(crate) struct Want {
    pub(crate) key: Bytes,
    pub(crate) op: Operation,
    /// If the operation cannot be done, the command will say so itself: it then asks for the whole record.
    pub(crate) access: Access,
}

/// A command that asks for keys.
pub(crate) struct Asking {
    /// What it asks for at once.
    pub(crate) wants: Vec<Want>,
    /// Of one over many keys all of them: what is held of these it asks for when it has the others.
    pub(crate) rest: Vec<(Bytes, Access)>,
    /// Who sent it, as far as that is known.
    pub(crate) owner: Option<Owner>,
}

/// Where one of them is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// So many keys are not granted.
    Waits(usize),
    /// All are granted, and something that was ordered on them is not settled.
    Settles,
    Granted,
    /// Too many wait for one of its keys, or the shard is another one now.
    Refused,
    /// An operator has ended it.
    Resolved,
    /// Everything is let go.
    Over,
}

/// Where a client was when it left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// It waited, and is to be let go.
    Waiting,
    /// It was let go, and its command did not run yet.
    Released,
}

struct Waiting {
    /// Who sent it, as far as that is known.
    owner: Option<Owner>,
    coordinator: Coordinator,
    /// What it asked for.
    wants: Vec<Want>,
    /// Of a command over many keys all of them: it asks for those that are held.
    rest: Vec<(Bytes, Access)>,
    /// The shard holds off everybody else for it.
    holds_off: bool,
    stage: Stage,
    client: Option<(Blocked, Left)>,
    /// How long its client waits.
    until: Time,
    reservation: Option<Reservation>,
    /// It is over, and is let go as soon as somebody may write.
    ends: bool,
}

/// Keys that are kept for a command's next try.
struct Reservation {
    /// How long, from the moment at which they are granted.
    hold_us: u64,
    ends: Time,
    /// Whether it is granted, and its keys count as reserved.
    counts: bool,
}

/// All that wait.
pub(crate) struct Queue {
    session: Session,
    waiting: BTreeMap<u64, Waiting>,
    /// Keys of granted reservations, and how many have each.
    reserved: Reserved,
    /// How many do not wait, and have keys kept for them, or queued for.
    reservations: u64,
    /// Clients that are let go, each with the number of its command.
    released: VecDeque<(Blocked, u64)>,
    /// Whether the shard was told that the last of them is over.
    is_tidy: bool,
    pub(crate) waited: u64,
}

impl Default for Queue {
    fn default() -> Self {
        Queue {
            session: Session::new(OWN),
            waiting: BTreeMap::new(),
            reserved: HashMap::default(),
            reservations: 0,
            released: VecDeque::new(),
            is_tidy: true,
            waited: 0,
        }
    }
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether there is nothing to come back for.
    pub(crate) fn is_quiet(&self) -> bool {
        self.waiting.is_empty() && self.is_tidy
    }

    pub(crate) fn is_reserved(&self, key: &[u8]) -> bool {
        !self.reserved.is_empty() && self.reserved.contains_key(key)
    }

    /// Asks for all that a command wants, and for what is held of the rest when it has that; the number it goes by.
    /// Its birth is the time of day, which is compared between processes.
    pub(crate) fn begin(
        &mut self,
        now: Time,
        birth: Time,
        limits: Limits,
        shard: &mut Shard,
        asking: Asking,
    ) -> u64 {
        let birth = self.session.begin(birth);
        let number = birth.tx.sequence.0;
        let mut coordinator = Coordinator::new(birth, Switches::CLARET, limits, number);
        coordinator.meet(shard.id(), shard.incarnation());
        let Asking { wants, rest, owner } = asking;
        let stage = Stage::Waits(wants.len());
        let mut waiting = Waiting {
            owner,
            coordinator,
            wants,
            rest,
            holds_off: false,
            stage,
            client: None,
            until: now,
            reservation: None,
            ends: false,
        };
        waiting.ask(now, shard);
        self.waiting.insert(number, waiting);
        self.is_tidy = false;
        self.waited += 1;
        number
    }

    /// Who sent the command that waits under this number.
    pub(crate) fn owner_of(&self, number: u64) -> Option<Owner> {
        self.waiting.get(&number)?.owner.clone()
    }

    pub(crate) fn stage(&self, number: u64) -> Stage {
        self.waiting.get(&number).map_or(Stage::Over, |waiting| waiting.stage)
    }

    /// Its client waits from now on.
    pub(crate) fn wait(&mut self, number: u64, client: Blocked, until: Time) {
        if let Some(waiting) = self.waiting.get_mut(&number) {
            (waiting.client, waiting.until) = (Some((client, Left::Waiting)), until);
        }
    }

    /// Lets those go whose time is over.
    pub(crate) fn expire(&mut self, now: Time) {
        let is_late = |waiting: &Waiting| waiting.until <= now && !is_planted(Bug::WaitsForEver);
        for (number, waiting) in self.waiting.iter_mut().filter(|(_, waiting)| is_late(waiting)) {
            waiting.let_go(*number, &mut self.released);
        }
    }

    /// The next client that is let go, with the number of its command: once each.
    pub(crate) fn poll_released(&mut self) -> Option<(Blocked, u64)> {
        self.released.pop_front()
    }

    /// The number of what a client waits for, whose time is over, or whose connection closed.
    pub(crate) fn leave(&mut self, client: Blocked) -> Option<(u64, Left)> {
        let is_its = |waiting: &Waiting| waiting.client.is_some_and(|(known, _)| known == client);
        let (number, waiting) = self.waiting.iter_mut().find(|(_, waiting)| is_its(waiting))?;
        let (_, left) = waiting.client.take()?;
        Some((*number, left))
    }

    /// Its command runs now, and what it has waited for is in nobody's way.
    pub(crate) fn lend(&mut self, number: u64) {
        if let Some(waiting) = self.waiting.get(&number) {
            reserve_all(&mut self.reserved, &waiting.wants);
        }
    }

    pub(crate) fn take_back(&mut self, number: u64) {
        if let Some(waiting) = self.waiting.get(&number) {
            unreserve_all(&mut self.reserved, &waiting.wants);
        }
    }

    /// Lets everything go, at the next tick at which somebody may write.
    pub(crate) fn end_later(&mut self, shard: Option<&mut Shard>, number: u64) {
        if let Some(waiting) = self.waiting.get_mut(&number) {
            (waiting.client, waiting.ends) = (None, true);
            if let Some(shard) = shard.filter(|_| !is_planted(Bug::LeaverHoldsOff)) {
                waiting.let_on(shard);
            }
        }
    }

    /// Lets everything go.
    pub(crate) fn end(&mut self, now: Time, shard: &mut Shard, number: u64) {
        let Some(waiting) = self.waiting.get_mut(&number) else { return };
        if let Some(reservation) = waiting.reservation.take() {
            self.reservations -= u64::from(!is_planted(Bug::ReservationsStayCounted));
            if reservation.counts {
                unreserve_all(&mut self.reserved, &waiting.wants);
            }
        }
        waiting.client = None;
        waiting.stage = Stage::Over;
        waiting.let_on(shard);
        waiting.coordinator.abort(now);
        waiting.pump(now, shard);
        self.forget(number);
    }

    /// Takes a response of the shard.
    pub(crate) fn hear(&mut self, now: Time, shard: &mut Shard, response: Response) {
        let Some(number) = response.attempt().map(|attempt| attempt.tx.sequence.0) else { return };
        let Some(waiting) = self.waiting.get_mut(&number) else { return };
        let from = shard.id();
        waiting.coordinator.handle_response(now, from, response);
        waiting.pump(now, shard);
        self.heard(now, number);
    }

    /// Whether some have all their keys, and wait for what was ordered on them to be settled.
    pub(crate) fn settles(&self) -> bool {
        self.waiting.values().any(|waiting| waiting.stage == Stage::Settles)
    }

    /// More is settled by now. O(those who wait).
    pub(crate) fn settle(&mut self, now: Time, shard: &Shard) {
        let mut settled = Vec::new();
        for (number, waiting) in &mut self.waiting {
            if waiting.stage == Stage::Settles {
                waiting.settle(shard);
                settled.extend((waiting.stage == Stage::Granted).then_some(*number));
            }
        }
        settled.into_iter().for_each(|number| self.heard(now, number));
    }

    /// One is further than it was, or not: its client goes on, and what is kept counts.
    fn heard(&mut self, now: Time, number: u64) {
        let Some(waiting) = self.waiting.get_mut(&number) else { return };
        if matches!(waiting.stage, Stage::Granted | Stage::Refused | Stage::Resolved) {
            waiting.let_go(number, &mut self.released);
        }
        if let Some(reservation) = &mut waiting.reservation {
            let granted = waiting.stage == Stage::Granted;
            if granted && !reservation.counts {
                reservation.ends = if is_planted(Bug::KeptFromTheAsking) {
                    reservation.ends
                } else {
                    now.plus(reservation.hold_us)
                };
                reserve_all(&mut self.reserved, &waiting.wants);
            } else if reservation.counts && !granted {
                unreserve_all(&mut self.reserved, &waiting.wants);
            }
            reservation.counts = granted;
        }
        self.forget(number);
    }

    /// Whether keys may be kept for one more that does not wait.
    pub(crate) fn may_reserve(&self, reservations_max: u64) -> bool {
        self.reservations < reservations_max || is_planted(Bug::ReservationsUnbounded)
    }

    /// Makes a reservation of it, which is given up if it is not granted by `ends`.
    pub(crate) fn reserve(&mut self, number: u64, hold_us: u64, ends: Time) {
        if let Some(waiting) = self.waiting.get_mut(&number) {
            waiting.reservation = Some(Reservation { hold_us, ends, counts: false });
            self.reservations += 1;
        }
    }

    /// Does what is due, and tells the shard who is alive.
    pub(crate) fn tick(&mut self, now: Time, shard: &mut Shard) {
        let over: Vec<u64> = self
            .waiting
            .iter()
            .filter(|(_, waiting)| {
                waiting.ends || waiting.reservation.as_ref().is_some_and(|it| it.ends <= now)
            })
            .map(|(number, _)| *number)
            .collect();
        for number in over {
            self.end(now, shard, number);
        }
        for waiting in self.waiting.values_mut() {
            if waiting.coordinator.poll_timeout().is_some_and(|due| due <= now) {
                waiting.coordinator.handle_timeout(now);
                waiting.pump(now, shard);
            }
        }
        let live = self.waiting.values().flat_map(|waiting| waiting.coordinator.live()).collect();
        shard.handle(now, LINK, Request::Heartbeat { live, low_water: self.session.low_water() });
        self.is_tidy = self.waiting.is_empty();
    }

    /// The shard is gone: clients are told, and nothing is held any more.
    pub(crate) fn clear(&mut self) {
        for (number, mut waiting) in std::mem::take(&mut self.waiting) {
            self.session.end(waiting.coordinator.birth().tx);
            waiting.let_go(number, &mut self.released);
        }
        self.reserved.clear();
        self.reservations = 0;
    }

    fn forget(&mut self, number: u64) {
        if let Some(waiting) = self.waiting.get(&number)
            && waiting.stage == Stage::Over
            && waiting.coordinator.is_over()
        {
            self.session.end(waiting.coordinator.birth().tx);
            self.waiting.remove(&number);
        }
    }
}

/// Keys, and how often each is reserved.
type Reserved = HashMap<Bytes, usize, foldhash::fast::FixedState>;

fn reserve_all(reserved: &mut Reserved, wants: &[Want]) {
    wants.iter().for_each(|want| *reserved.entry(want.key.clone()).or_default() += 1);
}

fn unreserve_all(reserved: &mut Reserved, wants: &[Want]) {
    for Want { key, .. } in wants {
        if let Some(count) = reserved.get_mut(key) {
            *count -= 1;
            if *count == 0 || is_planted(Bug::FreeAtFirstEnd) {
                reserved.remove(key);
            }
        }
    }
}

impl Waiting {
    /// Its client is answered soon.
    fn let_go(&mut self, number: u64, released: &mut VecDeque<(Blocked, u64)>) {
        if let Some((client, left @ Left::Waiting)) = &mut self.client {
            *left = Left::Released;
            released.push_back((*client, number));
        }
    }

    fn ask(&mut self, now: Time, shard: &mut Shard) {
        self.call_all(now, shard.id(), 0);
        self.pump(now, shard);
    }

    /// Calls for what it wants, from this place on.
    fn call_all(&mut self, now: Time, shard: ShardId, from: usize) {
        let attempt = self.coordinator.attempt();
        for Want { key, op, .. } in &self.wants[from..] {
            if self.coordinator.execute(now, attempt, shard, key.clone(), op.clone(), None).is_err() {
                self.stage = Stage::Refused;
            }
        }
    }

    /// It has all that it asked for: asks for what is held of the rest by now. If that is nothing, nobody else comes in
    /// before the command runs. O(keys of the command).
    fn ask_further(&mut self, now: Time, shard: &mut Shard) {
        if self.rest.is_empty() || self.holds_off {
            return;
        }
        let asked = self.wants.len();
        let mut more = held_of(&self.rest, shard);
        if is_planted(Bug::RestUnasked) {
            more.clear();
        }
        if !more.is_empty() {
            let known: HashSet<&Bytes, foldhash::fast::FixedState> =
                self.wants.iter().map(|want| &want.key).collect();
            more.retain(|want| !known.contains(&want.key));
        }
        if more.is_empty() {
            shard.hold_off();
            self.holds_off = true;
            return;
        }
        self.stage = Stage::Waits(more.len());
        self.wants.append(&mut more);
        self.call_all(now, shard.id(), asked);
    }

    /// Its command runs when all that was ordered on its keys is settled (P83). Nothing is ordered there any more.
    fn settle(&mut self, shard: &Shard) {
        let keys = || {
            let wanted = self.wants.iter().map(|want| &want.key);
            wanted.chain(self.rest.iter().map(|(key, _)| key))
        };
        if matches!(self.stage, Stage::Granted | Stage::Settles) {
            let is_settled = shard.is_settled() || keys().all(|key| shard.is_settled_on(key));
            self.stage = if is_settled { Stage::Granted } else { Stage::Settles };
        }
    }

    fn let_on(&mut self, shard: &mut Shard) {
        if std::mem::take(&mut self.holds_off) {
            shard.let_on();
        }
    }

    /// Hands on what the coordinator wants sent, and takes note of what it says.
    fn pump(&mut self, now: Time, shard: &mut Shard) {
        // All of it is one input, which may do so much and no more (P38).
        shard.begin(now);
        loop {
            while let Some((_, request)) = self.coordinator.poll_send() {
                shard.handle_further(now, LINK, request);
            }
            let Some(event) = self.coordinator.poll_event() else { return };
            match event {
                Event::Answer { .. } => {
                    if let Stage::Waits(left) = self.stage {
                        self.stage = if left > 1 { Stage::Waits(left - 1) } else { Stage::Granted };
                    }
                    if self.stage == Stage::Granted {
                        self.ask_further(now, shard);
                        self.settle(shard);
                    }
                }
                // It is another node's: the server will say so.
                Event::Restart { cause: Cause::Refused(Refusal::Elsewhere { .. }) } => {
                    self.stage = Stage::Refused;
                }
                // It gave way to an elder, or the record vanished: from the beginning, with the same birth.
                Event::Restart { .. } if self.stage != Stage::Over && !is_planted(Bug::VanishedUnasked) => {
                    self.begin_again(now, shard);
                }
                // The command will fail by itself, once it may run: as one that uses the whole record.
                Event::Failed { refusal: Refusal::Operation { .. } } if !self.uses_all_as_a_whole() => {
                    for want in &mut self.wants {
                        want.op = whole(want.access);
                    }
                    self.begin_again(now, shard);
                }
                Event::Failed { refusal: Refusal::Resolved } => self.stage = Stage::Resolved,
                Event::Failed { .. } | Event::Unknown => self.stage = Stage::Refused,
                Event::Restart { .. }
                | Event::Aborted
                | Event::Committed { .. }
                | Event::Behind { .. }
                | Event::Seen { .. } => {}
            }
        }
    }

    fn uses_all_as_a_whole(&self) -> bool {
        self.wants.iter().all(|want| want.op == whole(want.access))
    }

    fn begin_again(&mut self, now: Time, shard: &mut Shard) {
        if self.coordinator.restart(self.coordinator.attempt()).is_err() {
            self.stage = Stage::Refused;
            return;
        }
        self.let_on(shard);
        self.stage = Stage::Waits(self.wants.len());
        self.call_all(now, shard.id(), 0);
    }
}

/// What a command wants of those of its keys that are in use, each once. O(keys).
pub(crate) fn held_of(keys: &[(Bytes, Access)], shard: &Shard) -> Vec<Want> {
    let used = keys.iter().filter(|(key, _)| is_in_use(shard, key));
    let mut wants = wants_of(used.map(|(key, access)| (&key[..], *access)));
    take_alone(&mut wants, shard);
    wants
}

/// Whether a command that uses a key may have to wait: somebody holds it, or what was ordered on it is not settled.
pub(crate) fn is_in_use(shard: &Shard, key: &[u8]) -> bool {
    shard.is_held(key) || !(shard.is_settled_on(key) || is_planted(Bug::UnsettledTold))
}

/// While calls are ordered, a command takes its keys alone: others that it let in would go on being ordered, and what it waits for
/// would never be settled.
pub(crate) fn take_alone(wants: &mut [Want], shard: &Shard) {
    if !shard.is_settled() {
        wants.iter_mut().for_each(|want| want.op = whole(Access::Write));
    }
}

/// What a command wants of these keys, each once: as one that is written where it is that as well.
pub(crate) fn wants_of<'a>(keys: impl Iterator<Item = (&'a [u8], Access)>) -> Vec<Want> {
    let mut wants: Vec<Want> = Vec::new();
    let mut places: HashMap<Bytes, usize, foldhash::fast::FixedState> = HashMap::default();
    for (key, access) in keys {
        if let Some(known) = places.get(key) {
            if access == Access::Write && !is_planted(Bug::ReadAndWrittenAskedAsRead) {
                let known = &mut wants[*known];
                (known.access, known.op) = (access, whole(access));
            }
            continue;
        }
        let key = Bytes::copy_from(key);
        places.insert(key.clone(), wants.len());
        wants.push(Want { key, op: whole(access), access });
    }
    wants
}

#[cfg(test)]
mod policy;

#[cfg(test)]
mod tests {
    use claret_types::{Access, Bytes};

    use super::{Reserved, Want, reserve_all, unreserve_all, wants_of, whole};

    #[test]
    fn a_key_that_is_read_and_written_is_asked_for_once_and_to_write() {
        use Access::{Read, Write};
        let keys: [(&[u8], Access); 5] =
            [(b"a", Read), (b"b", Write), (b"a", Write), (b"b", Read), (b"c", Read)];
        let wants = wants_of(keys.into_iter());
        let shown: Vec<_> = wants.iter().map(|want| (want.key.to_string(), want.access)).collect();
        assert_eq!(shown, [("a", Write), ("b", Write), ("c", Read)].map(|(key, it)| (key.to_owned(), it)));
        assert!(wants.iter().all(|want| want.op == whole(want.access)));
    }

    #[test]
    fn a_key_that_is_reserved_twice_is_free_when_both_are_over() {
        let want =
            |key: &str| Want { key: Bytes::from(key), op: whole(Access::Write), access: Access::Write };
        let (first, second) = ([want("a"), want("b")], [want("b"), want("c")]);
        let mut reserved = Reserved::default();
        reserve_all(&mut reserved, &first);
        reserve_all(&mut reserved, &second);
        unreserve_all(&mut reserved, &first);
        let mut kept: Vec<String> = reserved.keys().map(ToString::to_string).collect();
        kept.sort();
        assert_eq!(kept, ["b", "c"], "the first one's end frees what it alone had");
        unreserve_all(&mut reserved, &second);
        assert!(reserved.is_empty());
    }
}
