//! The whole: a shard is these parts, takes inputs, and gives outputs.

use claret_types::Bytes;

use super::accounts::Accounts;
use super::attempts::Attempts;
use super::budget::Budget;
use super::config::Config;
use super::history::Decided;
use super::lock_table::LockTable;
use super::memory::Memory;
use super::outputs::Outputs;
use super::participant::Participant;
use super::picture::Stats;
use super::recovery::written_of;
use super::step::Step;
use super::ways::Ways;
use crate::asked::{Told, Written};
use crate::backup::Change;
use crate::digest::digest;
use crate::ids::{AttemptId, Incarnation, SessionId, ShardId, Time};
use crate::limits::Limits;
use crate::message::{Link, Output, PeerMessage, Refusal, Request, Status};
use crate::records::{External, Records};
use crate::shard::ways::ordered::adaptive::Adaptive;
use crate::shard::ways::ordered::safe_time::SafeTime;
use crate::switches::Switches;

/// A shard, the participant's side of the protocol: it locks records for attempts, votes, and applies or drops what they did.
/// Requests go in with the time ([`Shard::handle`]), outputs are drained ([`Shard::poll_output`]). The same inputs give
/// the same outputs.
#[derive(Clone, Debug)]
pub struct Shard {
    config: Config,
    /// Records and locks.
    table: LockTable,
    /// Who is here and not decided.
    attempts: Attempts,
    /// What is kept for whom.
    accounts: Accounts,
    /// What is over.
    memory: Memory,
    /// What the input may still do, and who goes on with later ones.
    budget: Budget,
    /// The clocks.
    safe_time: SafeTime,
    /// Whether it asks for timestamps.
    adaptive: Adaptive,
    /// What the ways to commit keep.
    ways: Ways,
    out: Outputs,
    stats: Stats,
}

/// The parts of a shard, to be looked at.
pub(super) struct View<'a> {
    pub(super) config: &'a Config,
    pub(super) table: &'a LockTable,
    pub(super) attempts: &'a Attempts,
    pub(super) memory: &'a Memory,
    pub(super) safe_time: &'a SafeTime,
    pub(super) ways: &'a Ways,
    pub(super) out: &'a Outputs,
}

/// The parts.
impl Shard {
    /// An empty shard.
    pub fn new(id: ShardId, incarnation: Incarnation, switches: Switches, limits: Limits) -> Self {
        Shard::with(Config::new(id, incarnation, switches, limits))
    }

    fn with(config: Config) -> Self {
        Shard {
            config,
            table: LockTable::new(*config.switches(), *config.limits(), config.unique_base()),
            attempts: Attempts::default(),
            accounts: Accounts::default(),
            memory: Memory::since(config.incarnation()),
            budget: Budget::default(),
            safe_time: SafeTime::default(),
            adaptive: Adaptive::default(),
            ways: Ways::default(),
            out: Outputs::of(config.id()),
            stats: Stats::default(),
        }
    }

    /// A shard over records that are not in its memory. It has no instant transactions, and [`Shard::state`] knows
    /// of nothing.
    ///
    /// Incarnations are to be at least as far apart as the number of times that anything was executed in between,
    /// as microseconds of a clock are: the unique numbers of one begin there.
    pub fn over(
        records: &'static dyn Records,
        id: ShardId,
        incarnation: Incarnation,
        switches: Switches,
        limits: Limits,
    ) -> Self {
        let mut shard = Shard::new(id, incarnation, switches, limits);
        shard.attach(Some(External(records)));
        shard
    }

    /// Takes the external store of an earlier incarnation, if there was one.
    fn attach(&mut self, external: Option<External>) {
        self.table.attach(external);
        self.table.count_unique_from(self.config.unique_base_over(external));
    }

    /// What an input does to the parts.
    #[inline]
    pub(super) fn step(&mut self, now: Time) -> Step<'_> {
        Step {
            now,
            config: &self.config,
            table: &mut self.table,
            attempts: &mut self.attempts,
            accounts: &mut self.accounts,
            memory: &mut self.memory,
            budget: &mut self.budget,
            safe_time: &mut self.safe_time,
            adaptive: &mut self.adaptive,
            ways: &mut self.ways,
            out: &mut self.out,
            stats: &mut self.stats,
        }
    }

    /// The same at the time of the latest input, for what takes no time.
    #[inline]
    pub(super) fn parts(&mut self) -> Step<'_> {
        self.step(self.budget.latest())
    }

    /// The parts, to be looked at.
    #[inline]
    pub(super) fn view(&self) -> View<'_> {
        View {
            config: &self.config,
            table: &self.table,
            attempts: &self.attempts,
            memory: &self.memory,
            safe_time: &self.safe_time,
            ways: &self.ways,
            out: &self.out,
        }
    }

    /// Another life begins, with nothing but what others said of their clocks. What was in the table.
    pub(super) fn begin_empty(&mut self, incarnation: Incarnation) -> LockTable {
        let mut fresh = Shard::with(self.config.reborn(incarnation));
        fresh.attach(self.table.external());
        fresh.safe_time = std::mem::take(&mut self.safe_time);
        fresh.safe_time.forget_own();
        std::mem::replace(self, fresh).table
    }

    /// Another life begins, with everything but what was not said.
    pub(super) fn begin_again(&mut self, incarnation: Incarnation) {
        self.config = self.config.reborn(incarnation);
        let unique = self.config.unique_base_over(self.table.external());
        self.table.count_unique_from(unique);
        self.out.drop_all();
    }

    /// Since when everything is remembered, of a shard that is new here.
    pub(super) fn remember_since(&mut self, incarnation: Incarnation) {
        self.memory = Memory::since(incarnation);
    }

    /// Other bounds from now on: of calls, of bytes, and of strangers.
    pub fn set_bounds(&mut self, limits: Limits) {
        self.config.set_bounds(limits);
    }
}

/// Inputs and outputs.
impl Shard {
    /// An input begins: a request, or what came together, and is taken with [`Self::handle_further`].
    pub fn begin(&mut self, now: Time) {
        self.budget.begin(now, &self.config);
    }

    /// Takes one request.
    pub fn handle(&mut self, now: Time, link: Link, request: Request) {
        self.begin(now);
        self.handle_further(now, link, request);
    }

    /// Takes one request more of what came together, as a frame: from [`Self::begin`] on all of it shares what one input may
    /// do (P38).
    pub fn handle_further(&mut self, now: Time, link: Link, request: Request) {
        self.step(now).take(link, request);
    }

    /// Takes one message of another shard.
    pub fn handle_peer(&mut self, now: Time, message: PeerMessage) {
        self.begin(now);
        self.handle_further_peer(now, message);
    }

    /// Takes one message more of what came together, after [`Self::begin`] (P38).
    pub fn handle_further_peer(&mut self, now: Time, message: PeerMessage) {
        self.step(now).take_peer(message);
    }

    /// Ends leases, asks about attempts in doubt, ends what deserted sessions left, and goes on with those who were put
    /// off. Of each what is more than [`Limits::at_once_max`] is left to the next call, which is due at once; none of
    /// them takes from another.
    pub fn handle_timeout(&mut self, now: Time) {
        self.step(now).take_time();
    }

    /// When the time of one attempt is over.
    pub fn timeout_of(&self, attempt: AttemptId) -> Option<Time> {
        self.attempts.timeout_of(attempt)
    }

    /// What [`Self::handle_timeout`] does, for one attempt, whose time need not be over: clocks serve liveness only,
    /// so a search lets a lease run out, or a question be asked again, whenever it likes.
    pub fn handle_timeout_of(&mut self, now: Time, attempt: AttemptId) {
        self.begin(now);
        if self.timeout_of(attempt).is_some() {
            let mut step = self.step(now);
            step.end_wait(attempt);
            step.drain();
        }
    }

    /// The next output. What waits for replicas comes later.
    pub fn poll_output(&mut self) -> Option<Output> {
        if self.out.is_replicated() {
            self.tell_used();
        }
        self.out.poll()
    }

    /// Whether there is a next output.
    #[inline]
    pub fn has_output(&self) -> bool {
        self.out.has_any()
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<Time> {
        let others = [self.memory.departed().poll_timeout(), self.safe_time.poll_timeout(), self.ways.due()];
        let due = self.attempts.poll_timeout().into_iter().chain(others.into_iter().flatten()).min();
        let goes_on = self.budget.has_turns() || self.budget.lets_on() && self.memory.has_deserted();
        // Whose turn has come waits for an input only after a promotion.
        let at_once = (goes_on || self.table.has_ready()).then_some(self.budget.latest());
        at_once.or(due)
    }

    /// From now on, and until it is said as often that [`Self::let_on`], nobody gets a record that nobody holds (P63): a
    /// command of the host is about to run, in the same turn of the host's loop or the next.
    pub fn hold_off(&mut self) {
        self.budget.hold_off();
    }

    /// See [`Self::hold_off`]. Those who were put off go on with [`Shard::handle_timeout`].
    pub fn let_on(&mut self) {
        self.budget.let_on();
    }

    /// The host refuses an attempt instead of handing its request in: writes no, unless something is written, and
    /// answers with what is.
    pub fn turn_away(&mut self, now: Time, link: Link, attempt: AttemptId, refusal: Refusal) {
        if !self.memory.hears(attempt.tx.session, link) {
            return; // As every request of an old connection.
        }
        let mut step = self.step(now);
        step.write_no(attempt, refusal);
        step.drain();
    }

    /// Refuses every attempt that has not voted: rights have changed, or keys are another shard's now.
    pub fn refuse_unvoted(&mut self, now: Time, refusal: &Refusal) {
        let open = self.attempts.sorted(|participant| !participant.is_prepared());
        self.step(now).refuse_all(&open, refusal);
    }

    /// The same for these attempts alone, all of them before any lets others in.
    pub fn refuse_these(&mut self, now: Time, attempts: &[AttemptId], refusal: &Refusal) {
        self.step(now).refuse_all(attempts, refusal);
    }
}

/// Sessions.
impl Shard {
    /// A session comes, of which nobody speaks from before. It is counted under this account, and the shard is to it the
    /// incarnation that it is told, which is later than any that was told before: what it knows of an earlier one
    /// may be forgotten (P59).
    pub fn greet(&mut self, session: SessionId, account: u64, incarnation: Incarnation) {
        let since = self.memory.greet(&mut self.accounts, session, account, incarnation);
        self.out.tell_replicas(|| Some(Change::Incarnation(incarnation)));
        self.out.tell_replicas(|| Some(Change::Greeted { session, account, since }));
    }

    /// As which incarnation the shard speaks with a session.
    pub fn incarnation_to(&self, session: SessionId) -> Incarnation {
        self.memory.incarnation_to(&self.config, session)
    }

    /// The host learned that a session is gone, from its last connection: its leases are over at once (P52). What has
    /// not voted is refused, what has asks the others, with the next timeouts (P38).
    pub fn deserted(&mut self, now: Time, session: SessionId) {
        self.budget.note_time(now);
        self.memory.desert(session);
    }

    /// The host knows that no connection of a session is open and none was for long. Nothing of it is under way, and it is to
    /// be greeted anew if it comes back. It is forgotten with the next timeouts, as far as that harms nobody (P58).
    pub fn forget(&mut self, now: Time, session: SessionId) {
        self.budget.note_time(now);
        self.memory.forget(now, session);
    }

    /// The same for sessions that nobody has greeted for so long.
    pub fn forget_strangers(&mut self, now: Time, after_us: u64) {
        if self.memory.forget_strangers(now, after_us) {
            self.budget.note_time(now);
        }
    }

    /// Departed sessions, and of which something is kept.
    pub fn departed(&self) -> usize {
        self.memory.departed().len()
    }

    /// Sessions of which anything is known.
    pub fn sessions(&self) -> usize {
        self.memory.sessions()
    }

    /// Bytes that are kept for all.
    pub fn kept_bytes(&self) -> usize {
        self.accounts.kept()
    }

    /// Bytes that are kept for one.
    pub fn kept_bytes_of(&self, account: u64) -> usize {
        self.accounts.kept_of(account)
    }
}

/// What there is.
impl Shard {
    /// Which shard.
    pub fn id(&self) -> ShardId {
        self.config.id()
    }

    /// Which life of it.
    pub fn incarnation(&self) -> Incarnation {
        self.config.incarnation()
    }

    /// What is written for an attempt, if anything is. Unlike a question that arrives, looking writes nothing.
    pub fn written(&self, attempt: AttemptId) -> Option<Status> {
        match self.memory.decided(attempt) {
            Some(Decided::Applied { .. }) => Some(Status::Applied),
            Some(Decided::Refused(_)) => Some(Status::Refused),
            None if self.memory.is_below_low_water(attempt) => Some(Status::Forgotten),
            None => self.attempts.has_voted(attempt).then_some(Status::Prepared),
        }
    }

    /// What is written for an attempt, for somebody who only wants to know (P89). Looking writes nothing. `greets`: the host
    /// greets each session that the shard does not know (P59), so that such a one can do nothing that it began before.
    pub fn tell_written(&self, attempt: AttemptId, greets: bool) -> Told {
        let session = attempt.tx.session;
        let written = match written_of(&self.attempts, &self.memory, attempt) {
            Written::Refused | Written::Nothing if self.memory.is_gone(session, greets) => Written::Lost,
            written => written,
        };
        Told { shard: self.id(), written, since: self.memory.remembers_for(session) }
    }

    /// Whether an attempt is here and not decided.
    pub fn is_open(&self, attempt: AttemptId) -> bool {
        self.attempts.has(attempt)
    }

    /// Attempts that are here and not decided.
    pub fn open_attempts(&self) -> usize {
        self.attempts.len()
    }

    /// Of these, those that have voted. O(open attempts).
    pub fn voted_attempts(&self) -> usize {
        self.attempts.count(Participant::is_prepared)
    }

    /// Those of one session that are not committed: those are here until their turn has come. O(open attempts).
    pub fn open_attempts_of(&self, session: SessionId) -> usize {
        self.attempts.uncommitted_of(session)
    }

    /// Decisions remembered until the sessions' low-water marks pass them.
    pub fn remembered(&self) -> usize {
        self.memory.decisions()
    }

    /// Counts.
    pub fn stats(&self) -> Stats {
        Stats { trials: self.adaptive.trials(), ..self.table.added_to(self.stats) }
    }

    /// Whether it asks for timestamps now (P87).
    pub fn asks_for_timestamps(&self) -> bool {
        self.adaptive.asks(self.config.limits())
    }

    /// The same for shards that behave alike.
    pub fn digest(&self) -> u64 {
        let Shard {
            config,
            table,
            attempts,
            accounts: _,
            memory,
            budget,
            safe_time,
            adaptive,
            ways,
            out,
            stats: _,
        } = self;
        digest(&(
            (config.id(), config.incarnation()),
            table.content(),
            attempts.content(table),
            memory.content(),
            budget.content(),
            (safe_time, adaptive, ways, out.content()),
        ))
    }

    /// Checks the state machine. Called after every simulated step.
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub fn check_invariants(&self) {
        let Shard {
            config: _,
            table,
            attempts,
            accounts,
            memory,
            budget,
            safe_time,
            adaptive: _,
            ways: _,
            out,
            stats: _,
        } = self;
        table.check_invariants();
        let sleeps = |key: &Bytes, attempt| {
            attempts.get(attempt).and_then(|it| it.blocked.get(key)).is_some_and(|it| it.sleeps)
        };
        table.sleepers().check(sleeps);
        assert_eq!(table.sleepers().len(), attempts.sleepers(), "some sleep whom nobody wakes");
        let is_turn_of = |turn, attempt| budget.is_turn_of(turn, attempt);
        attempts.check(is_turn_of, |attempt| memory.decided(attempt).is_some());
        budget.check(|attempt| attempts.get(attempt)?.turn);
        safe_time.check(attempts.count(Participant::is_stamped));
        accounts.check(memory.bytes() + attempts.bytes());
        memory.check();
        let view = self.view();
        view.ways.check(&view);
        out.check();
    }
}
