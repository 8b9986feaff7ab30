//! What a shard remembers: of each session what is over, and up to which attempt; of sessions that are gone, what others may
//! still ask for (P28, P52, P58, P59).
//!
//! Invariants: nothing is remembered below a session's low-water mark; what a history takes is counted under its account.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use smallvec::SmallVec;

use super::accounts::Accounts;
use super::config::Config;
use super::departed::AllDeparted;
use super::history::{Decided, History, OLDER_MAX, Place, Remembered};
use super::replication::changes_of;
use crate::backup::{Change, Known};
use crate::ids::{AttemptId, Incarnation, Sequence, SessionId, Time, TxId};
use crate::message::{Link, Participants, Refusal};
use crate::planted::{Bug, is_planted};

/// A deserted session whose leases are being ended: after which attempt, and up to which.
#[derive(Clone, Debug)]
struct Deserted {
    session: SessionId,
    after: Bound<Place>,
    last: Place,
}

/// Whether an attempt gets in.
pub(super) enum Admission {
    LetIn {
        account: u64,
        /// The incarnation that the shard is to the session.
        own: Incarnation,
        /// Earlier attempts of the same transaction that are here.
        older: SmallVec<[u32; 2]>,
    },
    Refused(Refusal),
    /// Without a word: a refusal that is not written would be taken for a recorded no.
    Dropped,
}

/// What a heartbeat changed.
pub(super) struct Heartbeat {
    /// The session's attempts that are here.
    pub(super) open: Vec<AttemptId>,
    /// The low-water mark is higher than before.
    pub(super) is_raised: bool,
}

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    /// Votes and decisions since the beginning of this incarnation are all here; of earlier ones none may be.
    remembers_since: Incarnation,
    sessions: BTreeMap<SessionId, History>,
    deserted: VecDeque<Deserted>,
    departed: AllDeparted,
    /// Refused, and their coordinators did not say yet that they know. Empty wherever decisions are remembered.
    refused: BTreeSet<AttemptId>,
}

fn place_of(attempt: AttemptId) -> Place {
    (attempt.tx.sequence, attempt.attempt)
}

fn attempt_at(session: SessionId, (sequence, attempt): Place) -> AttemptId {
    AttemptId { tx: TxId { session, sequence }, attempt }
}

impl Memory {
    pub(super) fn since(remembers_since: Incarnation) -> Self {
        Memory {
            remembers_since,
            sessions: BTreeMap::new(),
            deserted: VecDeque::new(),
            departed: AllDeparted::default(),
            refused: BTreeSet::new(),
        }
    }
}

/// What is over.
impl Memory {
    /// How an attempt ended, if that is remembered.
    pub(super) fn decided(&self, attempt: AttemptId) -> Option<&Decided> {
        self.sessions.get(&attempt.tx.session)?.end_of(place_of(attempt))
    }

    /// Whether the session's low-water mark has passed an attempt.
    pub(super) fn is_below_low_water(&self, attempt: AttemptId) -> bool {
        let history = self.sessions.get(&attempt.tx.session);
        history.is_some_and(|history| attempt.tx.sequence < history.low_water())
    }

    /// Whether what an incarnation wrote that was listed may be forgotten: a no of this one says nothing of that (P55).
    pub(super) fn may_have_lost(&self, listed: Option<Incarnation>) -> bool {
        listed.is_some_and(|listed| listed < self.remembers_since)
    }

    /// The first incarnation whose votes and decisions are remembered for a session.
    pub(super) fn remembers_for(&self, session: SessionId) -> Incarnation {
        let since = self.sessions.get(&session).and_then(History::since);
        since.map_or(self.remembers_since, |since| since.max(self.remembers_since))
    }

    /// Whether what was decided of a session may be forgotten, and a no written since because another one asked. `greets`: as of
    /// [`Shard::tell_written`](super::Shard::tell_written).
    pub(super) fn is_gone(&self, session: SessionId, greets: bool) -> bool {
        self.departed.has(session)
            || match self.sessions.get(&session) {
                Some(history) if greets => history.met_as().is_none(),
                Some(_) => self.departed.is_stranger(session),
                None => greets,
            }
    }

    /// Remembers how an attempt ended, and who may be in doubt. Whether a no is written for a range of the session's attempts
    /// instead, because there is no room (P60).
    pub(super) fn remember(
        &mut self,
        config: &Config,
        accounts: &mut Accounts,
        attempt: AttemptId,
        decided: Decided,
        listed: Option<Participants>,
    ) -> bool {
        let session = attempt.tx.session;
        let barred = match &decided {
            Decided::Refused(_) if listed.is_none() => {
                let account = self.sessions.get(&session).map_or(0, History::account);
                accounts.full(config, account)
            }
            Decided::Refused(_) | Decided::Applied { .. } => None,
        };
        let is_range = barred.is_some();
        let history = self.sessions.entry(session).or_default();
        let place = place_of(attempt);
        history.close(place);
        // A decision is kept until the low-water mark passes it (P28).
        let is_forgotten = match decided {
            Decided::Applied { .. } => is_planted(Bug::ForgetsApplied),
            Decided::Refused(_) => is_planted(Bug::ForgetsRefused),
        };
        if attempt.tx.sequence < history.low_water() || is_forgotten {
            return false;
        }
        let before = history.bytes();
        match barred {
            Some(refusal) => history.bar(place, refusal),
            None => {
                let entry = Remembered { decided, listed: listed.filter(|listed| listed.len() > 1) };
                history.decide(place, entry, config.limits().answers_bytes_max);
            }
        }
        accounts.recount(history.account(), before, history.bytes());
        is_range
    }

    /// Whether what another shard asks about is known, or may be noted: to write a no takes room.
    pub(super) fn may_note(
        &mut self,
        now: Time,
        config: &Config,
        accounts: &Accounts,
        attempt: AttemptId,
        is_open: bool,
    ) -> bool {
        let Some(history) = self.sessions.get(&attempt.tx.session) else {
            let is_room = self.departed.strangers() < config.limits().strangers_max;
            if is_room {
                self.departed.note_stranger(now, attempt.tx.session);
            }
            return is_room;
        };
        let is_known = attempt.tx.sequence < history.low_water()
            || is_open
            || history.end_of(place_of(attempt)).is_some();
        is_known || accounts.full(config, history.account()).is_none()
    }

    /// With direct calls what is over is not remembered: nothing is late. But without phases a coordinator asks again by itself,
    /// maybe before it has heard of a refusal. That stays one until it says that it knows.
    pub(super) fn note_refused(&mut self, attempt: AttemptId) {
        self.refused.insert(attempt);
    }

    pub(super) fn is_refused(&self, attempt: AttemptId) -> bool {
        self.refused.contains(&attempt)
    }

    /// Its coordinator knows.
    pub(super) fn forget_refused(&mut self, attempt: AttemptId) {
        self.refused.remove(&attempt);
    }
}

/// Who comes.
impl Memory {
    /// Keeps out what is late: of an old connection, below the low-water mark, decided already (traps 2, 6, 19).
    pub(super) fn admit(&mut self, config: &Config, link: Link, attempt: AttemptId) -> Admission {
        let place = place_of(attempt);
        let history = self.sessions.entry(attempt.tx.session).or_default();
        if history.is_old(link.connection) {
            return Admission::Dropped;
        }
        if attempt.tx.sequence < history.low_water() && !is_planted(Bug::BelowLowWaterIsNew) {
            return Admission::Refused(Refusal::Stale);
        }
        match history.bars(place) {
            Some(Decided::Refused(refusal)) => return Admission::Refused(refusal.clone()),
            Some(Decided::Applied { .. }) => return Admission::Dropped,
            None => {}
        }
        history.hear_by(link.connection);
        history.open(place);
        // A newer attempt says that the older ones are over: the coordinator starts it after a recorded no. So there are few.
        let older = history.open_before(place).take(OLDER_MAX).collect();
        Admission::LetIn { account: history.account(), own: history.own(config.incarnation()), older }
    }

    /// Whether a request comes by a connection that is not an old one. From now on those before it are.
    pub(super) fn hears(&mut self, session: SessionId, link: Link) -> bool {
        let history = self.sessions.entry(session).or_default();
        let is_heard = !history.is_old(link.connection);
        if is_heard {
            history.hear_by(link.connection);
        }
        is_heard
    }

    /// Whether no newer connection of its session was heard of.
    pub(super) fn is_newest(&self, link: Link) -> bool {
        !self.sessions.get(&link.session).is_some_and(|history| history.is_old(link.connection))
    }

    /// Raises the low-water mark of a session that lives, and forgets decisions below it.
    pub(super) fn raise(&mut self, accounts: &mut Accounts, link: Link, low_water: Sequence) -> Heartbeat {
        let session = link.session;
        let history = self.sessions.entry(session).or_default();
        history.hear_by(link.connection);
        let before = history.bytes();
        let is_raised = low_water > history.low_water();
        history.raise(low_water);
        accounts.recount(history.account(), before, history.bytes());
        let open = history.open_after(Bound::Unbounded).map(|place| attempt_at(session, place)).collect();
        Heartbeat { open, is_raised }
    }

    /// As which incarnation the shard speaks with a session.
    pub(super) fn incarnation_to(&self, config: &Config, session: SessionId) -> Incarnation {
        let own = config.incarnation();
        self.sessions.get(&session).map_or(own, |history| history.own(own))
    }

    /// A session comes, of which nobody speaks from before (P59). Since which incarnation nothing of it was forgotten too soon.
    pub(super) fn greet(
        &mut self,
        accounts: &mut Accounts,
        session: SessionId,
        account: u64,
        incarnation: Incarnation,
    ) -> Option<Incarnation> {
        let is_forgotten = self.departed.end(session) || !self.sessions.contains_key(&session);
        let history = self.sessions.entry(session).or_default();
        let bytes = history.bytes();
        accounts.recount(history.account(), bytes, 0);
        history.meet(account, incarnation, is_forgotten);
        accounts.recount(account, 0, bytes);
        history.since()
    }
}

/// Who is gone.
impl Memory {
    /// The host learned that a session is gone, from its last connection: its leases are over at once (P52). It may connect again
    /// before all is ended: what it begins then is none of it.
    pub(super) fn desert(&mut self, session: SessionId) {
        let last = self.sessions.get(&session).and_then(History::last_open);
        self.deserted.extend(last.map(|last| Deserted { session, after: Bound::Unbounded, last }));
    }

    pub(super) fn has_deserted(&self) -> bool {
        !self.deserted.is_empty()
    }

    /// The next attempt whose lease is over because its session is deserted.
    pub(super) fn next_deserted(&mut self) -> Option<AttemptId> {
        while let Some(Deserted { session, after, last }) = self.deserted.front() {
            let history = self.sessions.get(session);
            let next = history.and_then(|history| history.open_after(*after).next());
            match next.filter(|open| open <= last) {
                Some(place) => return Some(attempt_at(*session, place)),
                None => drop(self.deserted.pop_front()),
            }
        }
        None
    }

    /// The lease of the attempt that is next is ended.
    pub(super) fn skip_deserted(&mut self, attempt: AttemptId) {
        if let Some(deserted) = self.deserted.front_mut() {
            deserted.after = Bound::Excluded(place_of(attempt));
        }
    }

    /// The session has departed: it is forgotten with the next timeouts, as far as that harms nobody (P58).
    pub(super) fn forget(&mut self, now: Time, session: SessionId) {
        if let Some(history) = self.sessions.get_mut(&session) {
            history.part();
            self.departed.begin(now, session);
        }
    }

    /// The same for sessions that nobody has greeted for so long. Whether there are any.
    pub(super) fn forget_strangers(&mut self, now: Time, after_us: u64) -> bool {
        let mut has_any = false;
        while let Some(session) = self.departed.pop_stranger(now, after_us) {
            if self.sessions.get(&session).is_some_and(|history| history.met_as().is_none()) {
                self.forget(now, session);
                has_any = true;
            }
        }
        has_any
    }

    pub(super) fn departed(&self) -> &AllDeparted {
        &self.departed
    }

    /// The departed, and what they left.
    pub(super) fn departed_mut(&mut self) -> (&mut AllDeparted, &mut BTreeMap<SessionId, History>) {
        (&mut self.departed, &mut self.sessions)
    }
}

/// All sessions.
impl Memory {
    /// How many decisions are remembered.
    pub(super) fn decisions(&self) -> usize {
        self.sessions.values().map(History::decisions).sum::<usize>() + self.refused.len()
    }

    pub(super) fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// As which incarnation the shard speaks, at most.
    pub(super) fn highest_incarnation(&self, config: &Config) -> Incarnation {
        let highest = self.sessions.values().filter_map(History::met_as).max();
        highest.map_or(config.incarnation(), |it| it.max(config.incarnation()))
    }

    /// Since when all is remembered.
    pub(super) fn remembers_since(&self) -> Incarnation {
        self.remembers_since
    }

    /// All that a replica has to know, as changes.
    pub(super) fn changes(&self) -> impl Iterator<Item = Change> + '_ {
        self.sessions.iter().flat_map(|(session, history)| {
            let session = *session;
            let (account, since, low_water) = (history.account(), history.since(), history.low_water());
            let told = [Change::Greeted { session, account, since }, Change::Passed { session, low_water }];
            let mut after = Bound::Unbounded;
            let decided = std::iter::from_fn(move || {
                let (place, entry) = history.next_over(after)?;
                after = Bound::Excluded(place);
                Some((place, entry))
            });
            let decided = decided.filter(|(_, entry)| entry.outlives());
            let decided = decided.flat_map(move |(place, entry)| {
                changes_of(attempt_at(session, place), &entry.decided, entry.listed.as_ref())
            });
            told.into_iter().chain(decided)
        })
    }
}

/// Another life.
impl Memory {
    /// A replica goes on as the shard, and knows this of a session.
    pub(super) fn restore(
        &mut self,
        now: Time,
        config: &Config,
        accounts: &mut Accounts,
        session: SessionId,
        known: Known,
    ) {
        let history = self.sessions.entry(session).or_default();
        history.restore(known, config.limits().answers_bytes_max);
        accounts.recount(history.account(), 0, history.bytes());
        // Whoever comes again is greeted again; whoever does not is forgotten in time.
        self.departed.note_stranger(now, session);
    }

    /// Another life begins, and no attempt is here yet.
    pub(super) fn part_from_all(&mut self, now: Time) {
        self.deserted.clear();
        // Whoever comes again is greeted again; whoever does not is forgotten in time.
        self.departed = AllDeparted::default();
        for (session, history) in &mut self.sessions {
            history.part_and_close();
            self.departed.note_stranger(now, *session);
        }
    }

    /// An attempt that has voted is here again.
    pub(super) fn reopen(&mut self, attempt: AttemptId) {
        self.sessions.entry(attempt.tx.session).or_default().open(place_of(attempt));
    }

    /// Bytes that all histories take.
    pub(super) fn bytes(&self) -> usize {
        self.sessions.values().map(History::bytes).sum()
    }

    /// What influences what comes next, for a digest. Who is refused is known with direct calls only.
    pub(super) fn content(&self) -> impl std::fmt::Debug + use<'_> {
        let Memory { remembers_since, sessions, deserted, departed: _, refused: _ } = self;
        let sessions: Vec<_> = sessions.iter().filter(|(_, history)| !history.is_fresh()).collect();
        (remembers_since, sessions, deserted)
    }

    /// # Panics
    /// When an invariant does not hold.
    pub(super) fn check(&self) {
        self.sessions.values().for_each(History::check);
    }
}
