//! The ledger: what an all-seeing observer notes about a run, and the checks on it.
//!
//! A transaction takes effect when it is decided: when the last of its participants writes yes. At that moment it
//! holds all its locks, and it keeps them until it is applied; so of two transactions that conflict, the one decided
//! first was applied before the other got its lock, and the order of decisions is a serial order. It agrees with real
//! time, because a decision lies between a transaction's begin and the moment its user hears of it. Replaying all
//! committed transactions in that order on the sequential model must give every answer that was heard, and the final
//! records (P64, `check/serial.rs`). Records that vanish by themselves have a place in that order too (`check/vanished.rs`).
//!
//! Also checked, as it happens: registers are written once (P2); no user is told what did not happen (P65);
//! of a transaction's runs at most one commits (trap 2); an answer never changes.
//!
//! A restart that loses votes may tear a transaction that has not been applied everywhere (docs/protocol.md, "What
//! is promised"): its answers are not checked and it counts only where it was applied. Everything else must hold.

mod open;
mod order;
mod outcomes;
mod precedence;
mod refusals;
mod replay;
mod serial;
mod stamps;
#[cfg(test)]
mod tests;
mod undone;
mod vanished;
mod violation;
mod votes;

use std::collections::{BTreeMap, BTreeSet};

use claret_core::message::{Refusal, Request, Response, Status};
use claret_core::{AttemptId, CallNo, Incarnation, SessionId, ShardId, Survives, Time, Timestamp, TxHandle};
use claret_types::{Bytes, Operation, Reply};

use crate::probe::Probe;
use crate::run::{Issued, RunId, RunLog, Told};

use refusals::Refusals;
pub(crate) use serial::LedgerEnd;
use stamps::Stamps;
pub(crate) use violation::Violation;
use votes::Votes;

/// All that is known of one attempt.
#[derive(Debug, Default)]
struct AttemptEntry {
    replies: BTreeMap<CallNo, Reply>,
    /// With the incarnations that its list names.
    participants: Option<BTreeMap<ShardId, Option<Incarnation>>>,
    /// Runs that commit together under this attempt, known when its first prepare leaves.
    members: Vec<RunId>,
    /// Where prepares have left for.
    asked: BTreeSet<ShardId>,
    /// Where each record was asked for: its slot may move, and a shard forget.
    sites: BTreeMap<Bytes, ShardId>,
    votes: Votes,
    stamps: Stamps,
    applied: BTreeSet<ShardId>,
    /// Records on which it was carried out at a shard that restarted before it was done.
    carried_out: BTreeSet<Bytes>,
    /// A shard that applied it does not know its answers any more.
    unanswered: bool,
    decided: Option<Decision>,
}

/// That an attempt is committed.
#[derive(Clone, Copy, Debug)]
struct Decision {
    /// How many decisions were there before.
    place: usize,
    at: Time,
}

impl AttemptEntry {
    fn is_decided(&self) -> bool {
        self.decided.is_some()
    }

    /// Some of its votes were lost before they were carried out: it may be committed in part, or not at all.
    fn is_torn(&self) -> bool {
        self.votes.is_torn()
    }
}

/// What shows in the order of things.
#[derive(Debug)]
enum Moment {
    Decided(AttemptId),
    /// A shard lost its records, and begins with this clock.
    Wiped(ShardId, Timestamp),
    /// A run was refused because an operation on this record cannot be done, as it stood behind this timestamp.
    Failed(RunId, Bytes, Timestamp),
}

/// One record vanished.
#[derive(Debug)]
struct Vanished {
    shard: ShardId,
    key: Bytes,
    at: Time,
    /// So many decisions were there by then.
    place: usize,
    /// Who had voted on it, decided or not.
    voted: Vec<AttemptId>,
    /// It ended by its time, at this millisecond by the shard's clock.
    by_time: Option<u64>,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Votes carry timestamps, and these are the serial order (P75).
    is_stamped: bool,
    /// How far the clocks of all shards are that own keys.
    safe_time: Timestamp,
    /// So many bytes of a session's latest answers a shard remembers.
    answers_bytes_max: usize,
    runs: BTreeMap<RunId, RunLog>,
    attempts: BTreeMap<AttemptId, AttemptEntry>,
    /// The attempt that a run committed under, once it was asked to.
    under: BTreeMap<RunId, AttemptId>,
    order: Vec<Moment>,
    vanished: Vec<Vanished>,
    /// How far it was settled anywhere, as shards with replicas know.
    settled: Timestamp,
    refusals: Refusals,
    /// Shards that restarted without their votes.
    forgetful: BTreeSet<ShardId>,
    /// Departed sessions, as a shard was told.
    departed: BTreeSet<(ShardId, SessionId)>,
    /// The committed run of each transaction.
    committed: BTreeMap<(SessionId, TxHandle), RunId>,
    /// What was done before the run.
    prepared: Vec<(Bytes, Operation)>,
}

impl Ledger {
    pub(crate) fn new(is_stamped: bool, answers_bytes_max: usize) -> Self {
        Ledger { is_stamped, answers_bytes_max, ..Ledger::default() }
    }
}

/// What users do and hear.
impl Ledger {
    /// An operation that was done before the run.
    pub(crate) fn note_preparation(&mut self, key: &Bytes, op: &Operation) {
        self.prepared.push((key.clone(), op.clone()));
    }

    pub(crate) fn note_begin(&mut self, run: RunId, now: Time) {
        self.runs.insert(run, RunLog { began: now, ..RunLog::default() });
    }

    /// A user issues an operation. Returns its place in the run.
    pub(crate) fn note_issued(
        &mut self,
        run: RunId,
        key: &Bytes,
        op: &Operation,
        probe: Option<Probe>,
    ) -> usize {
        let issued = &mut self.runs.entry(run).or_default().issued;
        issued.push(Issued {
            key: key.clone(),
            op: op.clone(),
            probe,
            reply: None,
            fails: false,
            undone_at: None,
        });
        issued.len() - 1
    }

    /// A user hears an answer.
    pub(crate) fn note_heard(&mut self, run: RunId, at: usize, reply: &Reply) -> Result<(), Violation> {
        let issued = &mut self.runs.entry(run).or_default().issued[at];
        match issued.reply.replace(reply.clone()) {
            Some(before) if before != *reply => {
                Err(format!("{run}: {:?} was answered {before} and then {reply}", issued.op))
            }
            _ => Ok(()),
        }
    }

    /// A user hears that a transaction committed.
    pub(crate) fn told_committed(&mut self, run: RunId, now: Time) -> Result<(), Violation> {
        let log = self.runs.entry(run).or_default();
        log.told = Told::Committed(now);
        // A transaction without operations has no attempt at any shard, and commits.
        let decided = match self.under.get(&run) {
            Some(attempt) => self.attempts[attempt].is_decided(),
            None => log.issued.iter().all(Issued::is_unsent),
        };
        let lacks_reply = |it: &&Issued| it.op.returns() && it.reply.is_none() && it.undone_at.is_none();
        let unanswered = log.issued.iter().find(lacks_reply);
        match unanswered {
            _ if !decided => {
                Err(format!("{run}: its user hears that it committed, and not all have written yes"))
            }
            Some(issued) => {
                Err(format!("{run}: its user hears that it committed, and no answer to {:?}", issued.op))
            }
            None => Ok(()),
        }
    }

    /// A user hears that what it saw was so, and that nothing was done.
    pub(crate) fn told_checked(&mut self, run: RunId) -> Result<(), Violation> {
        let decided = match self.under.get(&run) {
            Some(attempt) => self.attempts[attempt].is_decided(),
            None => self.runs[&run].checked.as_ref().is_some_and(Vec::is_empty),
        };
        match decided {
            true => Ok(()),
            false => Err(format!("{run}: its user hears that it was checked, and not all have written yes")),
        }
    }

    /// A user, or its next run, hears that a run is over without effect.
    pub(crate) fn told_over(&mut self, run: RunId) -> Result<(), Violation> {
        self.runs.entry(run).or_default().told = Told::Void;
        // A vote that was lost unheard may be followed by a recorded no.
        let decided =
            |attempt: &AttemptId| self.attempts[attempt].is_decided() && !self.attempts[attempt].is_torn();
        match self.under.get(&run).is_some_and(decided) {
            true => Err(format!("{run}: its user hears that it is void, and it is committed")),
            false => Ok(()),
        }
    }

    /// A user hears that a transaction failed for good; `is_for_operation`: because something in it cannot be done.
    pub(crate) fn told_failed(
        &mut self,
        run: RunId,
        is_for_operation: bool,
        now: Time,
    ) -> Result<(), Violation> {
        let is_said = self.refusals.note_told(run, now);
        if is_for_operation && !is_said {
            return Err(format!("{run}: its user hears that it failed, and no shard said so"));
        }
        self.told_over(run)
    }

    /// A shard cannot read what a transaction asks for: it will never write yes.
    pub(crate) fn note_unreadable(&mut self, attempt: AttemptId, shard: ShardId) {
        // Where nothing renumbers them (`ways`), a handle is the place in the session.
        self.refusals.note_unreadable(attempt.tx.session, TxHandle(attempt.tx.sequence.0));
        let entry = self.attempts.entry(attempt).or_default();
        entry.members.iter().for_each(|run| self.refusals.note_unreadable(run.session, run.tx));
        entry.votes.note_no(shard);
    }

    /// A user hears that nobody knows what became of a transaction: only where votes were lost, or its answers.
    pub(crate) fn told_unknown(&mut self, run: RunId) -> Result<(), Violation> {
        // What cannot be read is refused in the name of the incarnation that is connected, which may be another one.
        let is_unreadable = self.refusals.is_unreadable(run);
        if is_unreadable || self.under.get(&run).is_some_and(|attempt| self.attempts[attempt].unanswered) {
            return Ok(());
        }
        let listed = self.under.get(&run).and_then(|attempt| self.participants(*attempt));
        // Its prepares may not have left the process: whom they were for is not known here.
        let forgot = listed.map_or(!self.forgetful.is_empty(), |listed| !listed.is_disjoint(&self.forgetful));
        match forgot {
            true => Ok(()),
            false => {
                Err(format!("{run}: its user hears that its end is unknown, and no shard lost its votes"))
            }
        }
    }

    /// Somebody who asked a shard what became of an attempt is answered.
    pub(crate) fn told_asked(
        &self,
        from: ShardId,
        attempt: AttemptId,
        status: &Status,
        since: Incarnation,
    ) -> Result<(), Violation> {
        let Some(entry) = self.attempts.get(&attempt) else { return Ok(()) };
        if self.departed.contains(&(from, attempt.tx.session)) {
            return Ok(()); // The host lets nobody ask about that (P58).
        }
        // A single participant decides when it votes, and says so when it is carried out.
        let is_single = entry.participants.as_ref().is_some_and(|listed| listed.len() == 1);
        let wrong = match status {
            Status::AppliedAt(_) if is_single => false,
            Status::Applied | Status::AppliedAt(_) => !entry.is_decided(),
            Status::Refused => entry.is_decided() && !entry.is_torn() && !self.forgot(attempt, from, since),
            Status::Prepared | Status::PreparedAt(_) | Status::Forgotten | Status::Lost => false,
        };
        match wrong {
            true => {
                let decided = entry.is_decided();
                Err(format!("{attempt}: {from} says {status:?} to one who asks; decided: {decided}"))
            }
            false => Ok(()),
        }
    }
}

/// What shards say and do.
impl Ledger {
    /// A request leaves for a shard, of these runs if it is a prepare.
    pub(crate) fn note_request(
        &mut self,
        to: ShardId,
        request: &Request,
        members: impl FnOnce(AttemptId) -> Vec<RunId>,
    ) {
        match request {
            Request::Execute { attempt, key, .. } => {
                self.attempts.entry(*attempt).or_default().sites.insert(key.clone(), to);
            }
            Request::Prepare { attempt, participants, calls, .. } => {
                let entry = self.attempts.entry(*attempt).or_default();
                entry.sites.extend(calls.iter().map(|call| (call.key.clone(), to)));
                entry.asked.insert(to);
                if entry.participants.is_none() {
                    let listed = participants.iter().map(|it| (it.shard, it.incarnation));
                    entry.participants = Some(listed.collect());
                    entry.members = members(*attempt);
                    self.under.extend(entry.members.iter().map(|run| (*run, *attempt)));
                }
            }
            // A participant that was never asked for its vote will not give it (P6).
            Request::Abort { attempt, refused_by: Some(refuser) } => {
                let entry = self.attempts.entry(*attempt).or_default();
                if !entry.asked.contains(refuser) {
                    entry.votes.note_void();
                }
            }
            Request::Apply { .. }
            | Request::Withdraw { .. }
            | Request::Abort { .. }
            | Request::Heartbeat { .. }
            | Request::Ask { .. }
            | Request::AskBehind { .. }
            | Request::ApplyAt { .. }
            | Request::Tick { .. }
            | Request::Look { .. } => {}
        }
    }

    /// How far the clocks of all shards are that own keys.
    pub(crate) fn note_clocks(&mut self, clocks: impl Iterator<Item = Timestamp>) {
        if self.is_stamped {
            self.safe_time = self.safe_time.max(clocks.min().unwrap_or_default());
        }
    }

    /// A response leaves a shard; `written` is what the shard has written for the attempt now.
    pub(crate) fn note_response(
        &mut self,
        from: ShardId,
        response: &Response,
        written: Option<Status>,
        now: Time,
    ) -> Result<(), Violation> {
        match response {
            Response::Granted { attempt, no, reply, .. } => {
                // With direct delivery a double that follows a no is executed anew, for nobody.
                let over = self.attempts.get(attempt).is_some_and(|entry| entry.votes.is_no(from));
                if over { Ok(()) } else { self.note_reply(*attempt, *no, reply) }
            }
            Response::Voted { attempt, replies, .. } | Response::Committed { attempt, replies } => {
                self.note_replies(*attempt, replies)?;
                self.note_yes(*attempt, from, now)?;
                if matches!(response, Response::Committed { .. }) {
                    self.attempts.entry(*attempt).or_default().applied.insert(from);
                }
                Ok(())
            }
            Response::Placed { attempt, at, replies, is_tentative, .. } => {
                let replies = replies.as_deref().unwrap_or_default();
                self.note_place(*attempt, from, *at, now, (replies, *is_tentative))
            }
            Response::Done { attempt, at, replies, .. } => {
                self.note_done(*attempt, from, *at, now, replies.as_deref().unwrap_or_default())
            }
            Response::Applied { attempt, .. } => {
                // Also the answer to an apply that found nothing; with direct delivery nothing is written.
                let entry = self.attempts.entry(*attempt).or_default();
                if matches!(written, None | Some(Status::Applied)) && entry.votes.is_yes(from) {
                    entry.applied.insert(from);
                }
                match entry.is_decided() {
                    true => Ok(()),
                    false => Err(format!("{attempt}: {from} applies, and not all have written yes")),
                }
            }
            Response::Refused { attempt, refusal: Refusal::Vanished { key }, .. }
                if !self.has_vanished(from, key) =>
            {
                Err(format!("{attempt}: {from} refuses it because '{key}' vanished, and it never did"))
            }
            Response::Refused { attempt, refusal: Refusal::Unknown, .. }
                if written == Some(Status::Applied) =>
            {
                self.note_unanswered(*attempt, from)
            }
            Response::Refused { attempt, refusal, since, .. } => {
                self.note_no(*attempt, from, refusal, *since)
            }
            Response::Behind { attempt, records } => self.note_behind(*attempt, records, from),
            Response::Queued { .. }
            | Response::Busy { .. }
            | Response::Aborted { .. }
            | Response::Elder { .. }
            | Response::Asked { .. }
            | Response::Ticked { .. }
            | Response::Looked { .. } => Ok(()),
        }
    }

    /// A shard that applied an attempt does not know its answers any more: there were too many after it, of its session.
    /// Who is named as a holder is another one, and is not over at that shard.
    fn note_behind(
        &self,
        attempt: AttemptId,
        records: &[(Bytes, Option<AttemptId>)],
        from: ShardId,
    ) -> Result<(), Violation> {
        for (key, holder) in records {
            let Some(holder) = holder else { continue };
            let entry = self.attempts.get(holder);
            if *holder == attempt
                || entry.is_some_and(|it| it.votes.is_no(from) || it.applied.contains(&from))
            {
                return Err(format!(
                    "{attempt}: {from} says that {holder} holds '{key}', which is over there"
                ));
            }
        }
        Ok(())
    }

    fn note_unanswered(&mut self, attempt: AttemptId, from: ShardId) -> Result<(), Violation> {
        let of_session = self.attempts.iter().filter(|(id, _)| id.tx.session == attempt.tx.session);
        let replies =
            of_session.filter(|(_, entry)| entry.applied.contains(&from)).flat_map(|(_, it)| &it.replies);
        let bytes: usize = replies.map(|(_, reply)| size_of::<CallNo>() + reply.size()).sum();
        if bytes <= self.answers_bytes_max {
            return Err(format!(
                "{attempt}: {from} does not know its answers, and all of them are {bytes} bytes"
            ));
        }
        self.attempts.entry(attempt).or_default().unanswered = true;
        Ok(())
    }

    fn note_no(
        &mut self,
        attempt: AttemptId,
        from: ShardId,
        refusal: &Refusal,
        since: Incarnation,
    ) -> Result<(), Violation> {
        // It forgot its yes when all had carried it out (P58); if one had not, it shows there.
        let departed = self.departed.contains(&(from, attempt.tx.session));
        if departed && self.attempts.get(&attempt).is_some_and(|entry| entry.votes.is_yes(from)) {
            return Ok(());
        }
        // Of what a forgotten incarnation wrote it says nothing, and the others may give up; or they have.
        let forgot = *refusal == Refusal::Unknown || self.forgot(attempt, from, since);
        let entry = self.attempts.entry(attempt).or_default();
        if forgot {
            entry.votes.note_void();
            return Ok(());
        }
        // Written when a live session did not list the attempt; below the low-water mark nothing is written, and nobody
        // listens.
        if *refusal == Refusal::Stale {
            if !entry.is_decided() && !entry.votes.is_yes(from) {
                entry.votes.note_no(from);
            }
            return Ok(());
        }
        // One that was prepared and then aborted may say no, because another wrote no before.
        let alone = !entry.votes.is_void() && entry.votes.is_yes(from) && !entry.is_torn();
        entry.votes.note_no(from);
        match alone || entry.is_decided() && !entry.is_torn() {
            true => Err(format!("{attempt}: {from} says no and has written yes")),
            false => Ok(()),
        }
    }

    fn note_replies(&mut self, attempt: AttemptId, replies: &[(CallNo, Reply)]) -> Result<(), Violation> {
        replies.iter().try_for_each(|(no, reply)| self.note_reply(attempt, *no, reply))
    }

    fn note_reply(&mut self, attempt: AttemptId, no: CallNo, reply: &Reply) -> Result<(), Violation> {
        let entry = self.attempts.entry(attempt).or_default();
        let torn = entry.is_torn();
        let known = entry.replies.entry(no).or_insert_with(|| reply.clone());
        match known == reply || torn {
            true => Ok(()),
            false => Err(format!("{attempt}: call {} was answered {known} and then {reply}", no.0)),
        }
    }

    pub(crate) fn note_yes(&mut self, attempt: AttemptId, from: ShardId, now: Time) -> Result<(), Violation> {
        let entry = self.attempts.entry(attempt).or_default();
        if entry.votes.is_no(from) {
            return Err(format!("{attempt}: {from} says yes and has written no"));
        }
        entry.votes.note_yes(from);
        let all = |listed: &BTreeMap<ShardId, _>| listed.keys().all(|shard| entry.votes.was_yes(*shard));
        if entry.is_decided() || !entry.participants.as_ref().is_some_and(all) {
            return Ok(());
        }
        entry.decided = Some(Decision { place: self.order.len(), at: now });
        if self.is_stamped {
            entry.stamps.decide(self.safe_time);
        }
        self.order.push(Moment::Decided(attempt));
        let entry = &self.attempts[&attempt];
        for run in &entry.members {
            if self.runs[run].told == Told::Void && !entry.is_torn() {
                return Err(format!("{run} commits, and its user was told that it is void"));
            }
            let other = self.committed.insert((run.session, run.tx), *run);
            if let Some(other) = other.filter(|other| !self.attempts[&self.under[other]].is_torn()) {
                return Err(format!("{run} commits, and so did {other}"));
            }
        }
        Ok(())
    }

    /// A transaction that was carried out at once, without messages.
    pub(crate) fn note_instant(
        &mut self,
        run: RunId,
        attempt: AttemptId,
        shards: BTreeSet<ShardId>,
        now: Time,
    ) {
        let entry = self.attempts.entry(attempt).or_default();
        entry.decided = Some(Decision { place: self.order.len(), at: now });
        entry.members = vec![run];
        entry.applied = shards;
        self.under.insert(run, attempt);
        self.committed.insert((run.session, run.tx), run);
        self.order.push(Moment::Decided(attempt));
    }

    /// A shard forgets of a session what it may.
    pub(crate) fn note_forgotten(&mut self, shard: ShardId, session: SessionId) {
        self.departed.insert((shard, session));
    }

    /// A shard is about to restart: what of those under way it has carried out was seen, and stays until its records are lost.
    pub(crate) fn note_carried_out(
        &mut self,
        shard: ShardId,
        survives: Survives,
        is_carried_out: impl Fn(AttemptId, &Bytes) -> bool,
    ) {
        if !self.is_stamped || survives == Survives::Votes {
            return;
        }
        for (attempt, entry) in &mut self.attempts {
            let here = entry.sites.iter().filter(|(_, site)| **site == shard).map(|(key, _)| key);
            entry.carried_out.extend(here.filter(|key| is_carried_out(*attempt, key)).cloned());
        }
    }

    /// A shard restarts.
    pub(crate) fn note_restart(&mut self, shard: ShardId, survives: Survives, clock: Timestamp) {
        if survives == Survives::Votes {
            return;
        }
        self.forgetful.insert(shard);
        for entry in self.attempts.values_mut() {
            // Whoever is in doubt elsewhere asks here, and is told that nobody knows.
            let all = entry.participants.as_ref().map_or(0, BTreeMap::len);
            entry.votes.forget(shard, entry.applied.len() >= all);
        }
        if survives == Survives::Nothing {
            // All that it carried out was before that, however far ahead (P85).
            let is_here = |entry: &&AttemptEntry| entry.sites.values().any(|site| *site == shard);
            let done = self.attempts.values().filter(is_here).filter_map(|entry| self.final_of(entry));
            let at = done.fold(clock, Timestamp::max);
            self.order.push(Moment::Wiped(shard, at));
        }
    }
}

/// The end.
impl Ledger {
    /// Who takes part in an attempt, once its first prepare has left.
    pub(crate) fn participants(&self, attempt: AttemptId) -> Option<BTreeSet<ShardId>> {
        Some(self.attempts.get(&attempt)?.participants.as_ref()?.keys().copied().collect())
    }

    /// Whether a shard that remembers what it wrote since an incarnation does not remember what the listed one wrote.
    fn forgot(&self, attempt: AttemptId, shard: ShardId, since: Incarnation) -> bool {
        let listed =
            self.attempts.get(&attempt).and_then(|entry| *entry.participants.as_ref()?.get(&shard)?);
        listed.is_some_and(|listed| listed < since)
    }

    /// How many transactions were decided.
    pub(crate) fn committed(&self) -> usize {
        self.committed.len()
    }

    /// How many transactions were torn by restarts that lost votes.
    pub(crate) fn torn(&self) -> usize {
        let torn = |entry: &&AttemptEntry| entry.is_decided() && entry.is_torn();
        self.attempts.values().filter(torn).map(|entry| entry.members.len()).sum()
    }

    /// Whether some shard lost its records.
    pub(crate) fn is_wiped(&self) -> bool {
        self.order.iter().any(|moment| matches!(moment, Moment::Wiped(..)))
    }

    pub(crate) fn runs(&self) -> &BTreeMap<RunId, RunLog> {
        &self.runs
    }
}
