//! What a client process runs its transactions with: a coordinator for each, or one frontend that combines them.
//! The rest of the simulator does not care which.

use std::collections::{BTreeMap, BTreeSet};

use claret_core::message::{KeyedCall, Request, Response};
use claret_core::{
    AttemptId, CallNo, Closed, Coordinator, Event, Frontend, Heat, Incarnation, Limits, Sequence, Session,
    SessionId, ShardId, Switches, Time, TxHandle, TxId,
};
use claret_types::{Bytes, Claims, Operation};

use crate::plant::Plant;

/// See the module's text.
#[derive(Debug)]
pub(crate) enum Desk {
    Own(Box<Own>),
    Shared(Box<Frontend>),
}

/// A coordinator for each transaction; its handle is its sequence.
#[derive(Debug)]
pub(crate) struct Own {
    session: Session,
    switches: Switches,
    limits: Limits,
    plant: Plant,
    met: BTreeMap<ShardId, Incarnation>,
    heat: Heat,
    /// Coordinators of transactions that are over, and whose they were.
    spare: Vec<(TxHandle, Coordinator)>,
    /// Whose coordinator serves whom now.
    heirs: BTreeMap<TxHandle, TxHandle>,
    coordinators: BTreeMap<TxHandle, Coordinator>,
    /// Transactions whose users know the end.
    ended: BTreeSet<TxHandle>,
    /// Coordinators that may have something to say.
    stirred: BTreeSet<TxHandle>,
}

impl Desk {
    pub(crate) fn new(id: SessionId, shared: bool, switches: Switches, limits: Limits, plant: Plant) -> Self {
        let session = Session::new(id);
        if shared {
            return Desk::Shared(Box::new(plant.in_frontend(Frontend::new(session, switches, limits))));
        }
        Desk::Own(Box::new(Own {
            session,
            switches,
            limits,
            plant,
            met: BTreeMap::new(),
            heat: Heat::new(switches, limits),
            spare: Vec::new(),
            heirs: BTreeMap::new(),
            coordinators: BTreeMap::new(),
            ended: BTreeSet::new(),
            stirred: BTreeSet::new(),
        }))
    }

    // --- getters ---

    pub(crate) fn attempt(&self, tx: TxHandle) -> Option<AttemptId> {
        match self {
            Desk::Own(own) => own.coordinators.get(&tx).map(Coordinator::attempt),
            Desk::Shared(frontend) => frontend.attempt(tx),
        }
    }

    /// Whether calls of a transaction are unanswered.
    pub(crate) fn awaits_answers(&self, tx: TxHandle) -> bool {
        match self {
            Desk::Own(own) => own.coordinators.get(&tx).is_some_and(Coordinator::awaits_answers),
            Desk::Shared(frontend) => frontend.awaits_answers(tx),
        }
    }

    pub(crate) fn live(&self) -> Vec<AttemptId> {
        match self {
            Desk::Own(own) => own.coordinators.values().flat_map(Coordinator::live).collect(),
            Desk::Shared(frontend) => frontend.live().collect(),
        }
    }

    pub(crate) fn floor(&self) -> Sequence {
        match self {
            Desk::Own(own) => own.session.floor(),
            Desk::Shared(frontend) => frontend.floor(),
        }
    }

    /// Whether every participant of every attempt knows the end of it.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Desk::Own(own) => own.coordinators.is_empty(),
            Desk::Shared(frontend) => frontend.is_over(),
        }
    }

    /// Answers that were shared.
    pub(crate) fn combined(&self) -> u64 {
        match self {
            Desk::Own(_) => 0,
            Desk::Shared(frontend) => frontend.stats().combined,
        }
    }

    pub(crate) fn check_invariants(&self) {
        match self {
            Desk::Own(_) => {}
            Desk::Shared(frontend) => frontend.check_invariants(),
        }
    }

    // --- the application's calls ---

    pub(crate) fn meet(&mut self, shard: ShardId, incarnation: Incarnation) {
        match self {
            Desk::Own(own) => {
                own.met.insert(shard, incarnation);
                own.coordinators.values_mut().for_each(|it| it.meet(shard, incarnation));
            }
            Desk::Shared(frontend) => frontend.meet(shard, incarnation),
        }
    }

    pub(crate) fn begin(&mut self, now: Time, seed: u64) -> TxHandle {
        match self {
            Desk::Own(own) => {
                let birth = own.session.begin(now);
                let tx = TxHandle(birth.tx.sequence.0);
                let coordinator = match own.spare.pop() {
                    Some((before, mut coordinator)) => {
                        own.heirs.insert(before, tx);
                        let met: Vec<(ShardId, Incarnation)> =
                            own.met.iter().map(|(shard, incarnation)| (*shard, *incarnation)).collect();
                        coordinator.renew(birth, seed, &met);
                        coordinator
                    }
                    None => {
                        let coordinator = Coordinator::new(birth, own.switches, own.limits, seed);
                        let mut coordinator = own.plant.in_coordinator(coordinator);
                        own.met
                            .iter()
                            .for_each(|(shard, incarnation)| coordinator.meet(*shard, *incarnation));
                        coordinator
                    }
                };
                own.coordinators.insert(tx, coordinator);
                tx
            }
            Desk::Shared(frontend) => frontend.begin(now, seed),
        }
    }

    pub(crate) fn execute(
        &mut self,
        now: Time,
        (tx, run): (TxHandle, u32),
        place: (ShardId, Bytes),
        op: Operation,
        reserve: Option<Claims>,
    ) -> Result<CallNo, Closed> {
        let (shard, key) = place;
        match self {
            Desk::Own(own) => {
                let attempt = own.named(tx, run);
                own.stir(tx)?.execute(now, attempt, shard, key, op, reserve)
            }
            Desk::Shared(frontend) => frontend.execute(now, (tx, run), shard, key, op, reserve),
        }
    }

    pub(crate) fn buffer(
        &mut self,
        now: Time,
        (tx, run): (TxHandle, u32),
        place: (ShardId, Bytes),
        op: Operation,
    ) -> Result<CallNo, Closed> {
        let (shard, key) = place;
        match self {
            Desk::Own(own) => {
                let attempt = own.named(tx, run);
                own.stir(tx)?.buffer(attempt, shard, key, op)
            }
            Desk::Shared(frontend) => frontend.buffer(now, (tx, run), shard, key, op),
        }
    }

    pub(crate) fn commit(&mut self, now: Time, (tx, run): (TxHandle, u32)) -> Result<(), Closed> {
        match self {
            Desk::Own(own) => own.commit(now, tx, run),
            Desk::Shared(frontend) => frontend.commit(now, (tx, run)),
        }
    }

    pub(crate) fn abort(&mut self, now: Time, tx: TxHandle) {
        match self {
            Desk::Own(own) => {
                own.stirred.insert(tx);
                if let Some(coordinator) = own.coordinators.get_mut(&tx) {
                    coordinator.abort(now);
                }
            }
            Desk::Shared(frontend) => frontend.abort(now, tx),
        }
    }

    pub(crate) fn restart(&mut self, now: Time, (tx, ended): (TxHandle, u32)) -> Result<(), Closed> {
        match self {
            Desk::Own(own) => {
                let met = own.met.clone();
                let attempt = own.named(tx, ended);
                let coordinator = own.stir(tx)?;
                coordinator.restart(attempt)?;
                met.into_iter().for_each(|(shard, incarnation)| coordinator.meet(shard, incarnation));
                Ok(())
            }
            Desk::Shared(frontend) => frontend.restart(now, (tx, ended)).map(|_| ()),
        }
    }

    /// Takes the calls of a transaction that has sent nothing, to be carried out at once.
    pub(crate) fn take_buffered(&mut self, (tx, run): (TxHandle, u32)) -> Option<Vec<(ShardId, KeyedCall)>> {
        match self {
            Desk::Own(own) => {
                let attempt = own.named(tx, run);
                own.stir(tx).ok()?.take_buffered(attempt)
            }
            Desk::Shared(_) => None,
        }
    }

    pub(crate) fn put_back(
        &mut self,
        (tx, run): (TxHandle, u32),
        calls: Vec<(ShardId, KeyedCall)>,
    ) -> Result<(), Closed> {
        match self {
            Desk::Own(own) => {
                let attempt = own.named(tx, run);
                own.stir(tx)?.put_back(attempt, calls)
            }
            Desk::Shared(_) => unreachable!("nothing was taken"),
        }
    }

    /// The world carried the whole transaction out by itself.
    pub(crate) fn close_instantly(&mut self, (tx, run): (TxHandle, u32)) -> Result<(), Closed> {
        match self {
            Desk::Own(own) => {
                let attempt = own.named(tx, run);
                own.stir(tx)?.close_instantly(attempt)?;
                own.ended.insert(tx);
                own.bury(tx);
                Ok(())
            }
            Desk::Shared(_) => unreachable!("nothing was taken"),
        }
    }

    // --- the rest of the protocol ---

    pub(crate) fn handle_response(&mut self, now: Time, from: ShardId, response: Response) {
        match self {
            Desk::Own(own) => {
                let tx = TxHandle(response.attempt().tx.sequence.0);
                if let Some(coordinator) = own.coordinators.get(&tx) {
                    own.heat.learn(coordinator, from, &response);
                    if let Ok(coordinator) = own.stir(tx) {
                        coordinator.handle_response(now, from, response);
                    }
                }
            }
            Desk::Shared(frontend) => frontend.handle_response(now, from, response),
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        match self {
            Desk::Own(own) => {
                for (tx, coordinator) in &mut own.coordinators {
                    if coordinator.poll_timeout().is_some_and(|due| due <= now) {
                        coordinator.handle_timeout(now);
                        own.stirred.insert(*tx);
                    }
                }
            }
            Desk::Shared(frontend) => frontend.handle_timeout(now),
        }
    }

    pub(crate) fn poll_send(&mut self) -> Option<(ShardId, Request)> {
        match self {
            Desk::Own(own) => own.stirred.iter().find_map(|tx| own.coordinators.get_mut(tx)?.poll_send()),
            Desk::Shared(frontend) => frontend.poll_send(),
        }
    }

    pub(crate) fn poll_event(&mut self) -> Option<(TxHandle, Event)> {
        match self {
            Desk::Own(own) => own.poll_event(),
            Desk::Shared(frontend) => frontend.poll_event(),
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        match self {
            Desk::Own(own) => own.coordinators.values().filter_map(Coordinator::poll_timeout).min(),
            Desk::Shared(frontend) => frontend.poll_timeout(),
        }
    }
}

impl Own {
    /// An attempt, as the shards know it.
    fn named(&self, tx: TxHandle, run: u32) -> AttemptId {
        let id = TxId { session: self.session.id(), sequence: Sequence(tx.0) };
        AttemptId { tx: id, attempt: run }
    }

    /// Who has the coordinator that this transaction had: the worst that a host could take for it.
    fn heir(&self, mut tx: TxHandle) -> TxHandle {
        while let Some(heir) = self.heirs.get(&tx) {
            tx = *heir;
        }
        tx
    }

    fn stir(&mut self, tx: TxHandle) -> Result<&mut Coordinator, Closed> {
        let tx = self.heir(tx);
        self.stirred.insert(tx);
        self.coordinators.get_mut(&tx).ok_or(Closed)
    }

    fn commit(&mut self, now: Time, tx: TxHandle, run: u32) -> Result<(), Closed> {
        let attempt = self.named(tx, run);
        let heir = self.heir(tx);
        let coordinator = self.coordinators.get_mut(&heir).ok_or(Closed)?;
        coordinator.check_commit(attempt)?;
        let hot = self.heat.arrange(coordinator);
        self.stir(tx)?.commit(now, attempt, &hot)
    }

    fn poll_event(&mut self) -> Option<(TxHandle, Event)> {
        while let Some(tx) = self.stirred.first().copied() {
            if let Some(event) = self.coordinators.get_mut(&tx).and_then(Coordinator::poll_event) {
                if matches!(
                    event,
                    Event::Committed { .. } | Event::Aborted | Event::Failed { .. } | Event::Unknown
                ) {
                    self.ended.insert(tx);
                }
                return Some((tx, event));
            }
            self.bury(tx);
            self.stirred.remove(&tx);
        }
        None
    }

    /// Forgets a transaction whose user and participants all know the end.
    fn bury(&mut self, tx: TxHandle) {
        let over = self.coordinators.get(&tx).is_some_and(Coordinator::is_over) && self.ended.contains(&tx);
        if over && let Some(mut coordinator) = self.coordinators.remove(&tx) {
            self.session.end(coordinator.birth().tx);
            self.ended.remove(&tx);
            if coordinator.vacate() {
                self.spare.push((tx, coordinator));
            }
        }
    }
}
