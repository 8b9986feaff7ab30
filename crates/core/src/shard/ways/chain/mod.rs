//! Chains, on the side that takes part (K3 to K11 and K16 to K18 of `docs/chains.md`): prepares that wait for a token, tokens that wait
//! for a prepare, and what goes on to the next one on the list; and followers, whose token went on though others come before them on
//! their records (`following`).
//!
//! A deposited prepare is a participant that prepares, has all its records still before it, and waits for no lock. So whatever
//! ends attempts that have not voted ends it, too.
//!
//! Invariants: a token that waits is of no attempt that is decided here, or whose prepare is here. Who awaits others is deposited,
//! and its token is here; nobody awaits what is decided here.

mod awaited;
mod following;
mod tokens;

use super::{Decision, Heard, Occasion, Vote};
use crate::ids::{AttemptId, SessionId, ShardId, Time};
use crate::message::{Listed, PeerMessage, Refusal, Status, WayWords};
use crate::planted::{Bug, is_planted};
use crate::shard::Shard;
use crate::shard::asking_ways::Way;
use crate::shard::lock_table::LockTable;
use crate::shard::machine::View;
use crate::shard::memory::Memory;
use crate::shard::participant::{Participant, Round, Stage};
use crate::shard::step::Step;
use crate::ways::chain::{Switch, Token, WaitingTokens};
use awaited::Awaited;
use tokens::Tokens;

/// A prepare of more records follows nobody.
const RECORDS_MAX: usize = 128;

/// A token that names more is as if it was lost: on each record a call follows a few.
const NAMED_MAX: usize = RECORDS_MAX * LockTable::FOLLOWED_MAX;

/// The chains of a shard. See the module's text.
#[derive(Clone, Debug, Default)]
pub(in crate::shard) struct Chain {
    tokens: Tokens,
    awaited: Awaited,
}

/// A place in a chain (K2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Who passes the token to this shard; the first one needs none.
    before: Option<ShardId>,
    /// To whom it passes it on.
    next: Option<ShardId>,
    /// Who decides.
    last: ShardId,
    /// It said that it waits, and is going to say its vote (K5).
    said_waits: bool,
}

impl Standing {
    /// On a list of several; `None`: the shard is not on it.
    fn on(list: &[Listed], own: ShardId) -> Option<Standing> {
        let at = list.iter().position(|listed| listed.shard == own)?;
        Some(Standing {
            before: at.checked_sub(1).map(|before| list[before].shard),
            next: list.get(at + 1).map(|next| next.shard),
            last: list.last()?.shard,
            said_waits: false,
        })
    }

    /// Whether a token comes from who may pass it on to this participant (K10).
    fn takes_token_of(&self, from: ShardId) -> bool {
        self.before == Some(from) || is_planted(Bug::AnyTokenCounts)
    }

    /// Whether the next one decides.
    fn is_last_but_one(&self) -> bool {
        self.next == Some(self.last)
    }
}

/// Where an attempt stands, if it is a chain and its prepare is here.
fn standing(participant: &Participant) -> Option<Standing> {
    match participant.round()?.way {
        Some(super::Standing::Chain(standing)) => Some(standing),
        _ => None,
    }
}

/// Whether an attempt is decided here, or the low-water mark has passed it.
fn is_over(memory: &Memory, attempt: AttemptId) -> bool {
    memory.decided(attempt).is_some() || memory.is_below_low_water(attempt)
}

fn round_mut(participant: &mut Participant) -> Option<&mut Round> {
    match &mut participant.stage {
        Stage::Open => None,
        Stage::Preparing(round) | Stage::Prepared { round, .. } | Stage::Placed { round, .. } => Some(round),
    }
}

impl Way for Chain {
    fn prepares(
        step: &mut Step<'_>,
        attempt: AttemptId,
        _: &WayWords,
        records: Option<usize>,
    ) -> Result<(), Refusal> {
        if !step.takes_chains() {
            return Err(Refusal::OnlyRounds);
        }
        let Some(records) = records else { return Ok(()) };
        let own = step.config.id();
        let Some(round) = step.attempts.get_mut(attempt).and_then(round_mut) else { return Ok(()) };
        let standing = Standing::on(&round.participants, own).ok_or(Refusal::OnlyRounds)?;
        round.way = Some(super::Standing::Chain(standing));
        round.waits_to_lock = standing.before.is_some() && !is_planted(Bug::LocksWithoutToken);
        step.let_follow(attempt, standing, records);
        step.look_for_token(attempt, standing);
        Ok(())
    }

    fn votes(step: &mut Step<'_>, attempt: AttemptId, vote: Vote) -> bool {
        match vote {
            Vote::Waits => {
                step.say_waits_in_chain(attempt);
                false
            }
            Vote::YesAgain => {
                // The token may be lost (K8).
                if !is_planted(Bug::TokenSentOnce) {
                    step.pass_token(attempt);
                }
                true
            }
            Vote::Yes => {
                step.pass_token(attempt);
                step.lead(attempt);
                // The client hears of a vote only where it would not do without (K5).
                let participant = &step.attempts[attempt];
                let said_waits = standing(participant).is_some_and(|standing| standing.said_waits);
                said_waits || !participant.voted_answers().is_empty()
            }
        }
    }

    fn decides(step: &mut Step<'_>, attempt: AttemptId, decision: Decision) -> bool {
        match decision {
            Decision::No => step.tell_those_before(attempt),
            Decision::Yes => step.tell_all(attempt),
            Decision::Apply => return !step.is_held_back(attempt),
        }
        true
    }

    fn hears(step: &mut Step<'_>, heard: &Heard<'_>) {
        match *heard {
            Heard::Words { attempt, from, words } => {
                if let Some(token) = Token::read(words) {
                    step.take_token(attempt, from, token.follows);
                }
            }
            Heard::InRounds(attempt) => drop(step.ways.chain.tokens.take(attempt)),
            Heard::Over(attempt) => step.ways.chain.end(attempt),
            Heard::Passed(session) => step.ways.chain.end_passed(session, step.memory),
        }
    }

    fn goes_on(step: &mut Step<'_>, occasion: Occasion) -> bool {
        match occasion {
            // One that followed others, as these are decided now.
            Occasion::Input => {
                let free = step.ways.chain.awaited.pop_free();
                free.is_some_and(|attempt| {
                    step.go_on_with_token(attempt);
                    true
                })
            }
            Occasion::Time => step.drop_token(),
        }
    }

    fn due(&self) -> Option<Time> {
        self.tokens.poll_timeout()
    }

    fn check(&self, shard: &View<'_>) {
        self.tokens.check();
        for ((attempt, _), _) in self.tokens.waiting() {
            let is_decided = shard.memory.decided(*attempt).is_some();
            assert!(!is_decided, "{attempt} is decided, and a token of it waits");
            let waits = shard.attempts.get(*attempt).is_none_or(|it| matches!(it.stage, Stage::Open));
            assert!(waits, "the prepare of {attempt} is here, and a token of it waits");
        }
        self.awaited.check();
        shard.table.check_followers();
        for (attempt, awaited) in self.awaited.waiting() {
            let is_deposited = shard.attempts.get(attempt).is_some_and(|it| it.waits_to_lock());
            assert!(is_deposited, "{attempt} awaits others, and is not deposited");
            for it in awaited {
                let is_decided = shard.memory.decided(*it).is_some();
                assert!(!is_decided, "{attempt} awaits {it}, which is decided");
            }
        }
    }
}

impl Chain {
    /// Something is written of an attempt: nobody waits for its tokens any more, nobody awaits it, and it awaits nobody.
    fn end(&mut self, attempt: AttemptId) {
        self.tokens.take(attempt);
        self.awaited.end(attempt);
    }

    /// Of this session more is decided or forgotten than attempts that were named: who awaited these goes on. A no may have been written
    /// for a range of them (P60): it is of those, too, whose tokens wait. O(tokens of the session).
    fn end_passed(&mut self, session: SessionId, memory: &Memory) {
        for attempt in self.awaited.awaited_of(session) {
            if is_over(memory, attempt) {
                self.awaited.decide(attempt);
            }
        }
        if self.tokens.len() == 0 {
            return; // Mostly.
        }
        let of_session = self.tokens.waiting().filter(|((attempt, _), _)| attempt.tx.session == session);
        let barred: Vec<AttemptId> = of_session
            .map(|((attempt, _), _)| *attempt)
            .filter(|attempt| memory.decided(*attempt).is_some())
            .collect();
        barred.into_iter().for_each(|attempt| self.end(attempt));
    }
}

impl WaitingTokens for Shard {
    fn waiting_tokens(&self) -> usize {
        self.view().ways.chain.tokens.len()
    }
}

/// Tokens.
impl Step<'_> {
    /// Whether the shard takes part in chains: what is written counts at once, and whoever speaks for another shard is known (K9).
    fn takes_chains(&self) -> bool {
        self.config.switches().ways().chain != Switch::Never && !self.out.is_replicated()
    }

    /// A prepare has just come: if its token is here already, it does not wait for that (K3).
    fn look_for_token(&mut self, attempt: AttemptId, standing: Standing) {
        let came = self.ways.chain.tokens.take(attempt);
        let of_right_one = came.into_iter().find(|(from, _)| standing.takes_token_of(*from));
        let is_here = of_right_one.is_some_and(|(_, follows)| self.is_unled(attempt, &follows));
        if is_here && let Some(round) = self.attempts.get_mut(attempt).and_then(round_mut) {
            round.waits_to_lock = false;
        }
    }

    /// The token comes: its prepare goes on, or the token waits for the prepare.
    fn take_token(&mut self, attempt: AttemptId, from: ShardId, follows: Vec<AttemptId>) {
        if follows.len() > NAMED_MAX {
            return; // As if it was lost.
        }
        let Some(participant) = self.attempts.get(attempt).filter(|it| !matches!(it.stage, Stage::Open))
        else {
            return self.keep_token(attempt, from, follows);
        };
        let is_taken = matches!(participant.stage, Stage::Preparing(_))
            && participant.waits_to_lock()
            && standing(participant).is_some_and(|standing| standing.takes_token_of(from));
        // Otherwise a double, or of one who has no right to it.
        if is_taken && self.is_unled(attempt, &follows) {
            self.go_on_with_token(attempt);
        }
    }

    fn keep_token(&mut self, attempt: AttemptId, from: ShardId, follows: Vec<AttemptId>) {
        if self.takes_chains() && !is_over(self.memory, attempt) {
            let due = self.now.plus(self.config.limits().lease_us);
            self.ways.chain.tokens.keep(attempt, from, due, follows);
        }
    }

    /// Of tokens whose prepare did not come for a lease a no is written, as if somebody had asked (K11). Whether there were any.
    fn drop_token(&mut self) -> bool {
        let Some(attempt) = self.ways.chain.tokens.pop_due(self.now) else { return false };
        self.charge_for(attempt);
        if self.may_note(attempt) {
            self.status_or_refuse(attempt, None);
        }
        true
    }

    /// The token is here, and nobody comes before it who is not decided.
    fn go_on_with_token(&mut self, attempt: AttemptId) {
        let Some(participant) = self.attempts.get_mut(attempt) else { return };
        let Some(round) = round_mut(participant).filter(|round| round.waits_to_lock) else { return };
        round.waits_to_lock = false;
        let records = std::mem::take(&mut participant.behind);
        self.lock_all(attempt, records);
    }

    /// Yes is written: the token goes on (K5), and names those who come before (K17).
    fn pass_token(&mut self, attempt: AttemptId) {
        let participant = &self.attempts[attempt];
        let Some(standing @ Standing { next: Some(next), .. }) = standing(participant) else { return };
        let follows = match standing.is_last_but_one() {
            true if is_planted(Bug::FollowedUnnamed) => Vec::new(),
            true => self.table.followed(&participant.held, attempt),
            false => Vec::new(), // It follows nobody.
        };
        self.out.tell(next, Token { follows }.of(attempt, self.config.id()));
    }

    /// The last one's yes is the decision, which it tells all others (K6).
    fn tell_all(&mut self, attempt: AttemptId) {
        let Some(round) = self.attempts.get(attempt).and_then(Participant::round) else { return };
        let list = round.participants.clone();
        self.tell_listed(attempt, &list, Status::Applied);
    }

    /// A no is about to be written: those before it are to hear of it (K7). A no of an incarnation that is not the one listed says
    /// nothing of what that one wrote (P55).
    fn tell_those_before(&mut self, attempt: AttemptId) {
        let Some(Stage::Preparing(round)) = self.attempts.get(attempt).map(|it| &it.stage) else { return };
        let list = round.participants.clone();
        // Whoever has no token does not know that any of them has voted.
        let has_token = !round.waits_to_lock || self.ways.chain.awaited.has(attempt);
        let Some(at) = list.iter().position(|listed| listed.shard == self.config.id()) else { return };
        if has_token && !self.memory.may_have_lost(list[at].incarnation) {
            self.tell_listed(attempt, &list[..at], Status::Refused);
        }
    }

    /// Tells others on a list what is written here, as if they had asked.
    fn tell_listed(&mut self, attempt: AttemptId, list: &[Listed], status: Status) {
        let from = self.config.id();
        for listed in list.iter().filter(|listed| listed.shard != from) {
            self.out.tell(listed.shard, PeerMessage::Answer { attempt, from, status: status.clone() });
        }
    }
}
