//! Errands at this node (docs/errands.md): it is the client process of those that were given to it, and one of the shards of those that
//! were given to others. Letters between the two are sealed and go over the cluster bus; those to its own shard are taken at once.

use claret_core::message::Link;
use claret_core::ways::WaySwitches;
use claret_core::{Client, Ordered, Pacing, SessionId, Shard, Switches, wire};
use claret_planted::{Bug, is_planted};

use super::exec::is_here;
use super::frames::session_bounds;
use super::{Caller, Node, limits, settings};
use crate::ffi::{Blocked, Ctx};
use crate::parts::errands::{New, Once};
use crate::parts::error::Error;
use crate::parts::letters::{Letter, Says};
use crate::parts::one_shots::{Calls, Ended};
use crate::parts::owner::Name;
use crate::parts::queue::OWN;
use crate::parts::seals::Envelope;
use crate::parts::slots::{SLOTS, Slots, slot_of};

/// Requests in one letter, at most.
const LETTER_REQUESTS_MAX: usize = 128;

/// So many times in one turn of the server's loop helpers go on with what the own shard answered.
const ROUNDS_MAX: usize = 16;

/// A helper of which nothing was heard for so many leases is over.
const SILENT_LEASES: u64 = 2;

impl Node {
    /// Whether all keys of these are here: then they are a transaction of one go.
    pub(crate) fn has_all(&mut self, ctx: Ctx, calls: &Calls) -> bool {
        if self.shard.is_none() {
            self.look_around(ctx);
        }
        self.keyspace.view(|slots| is_here(slots, calls)).unwrap_or(true)
    }

    /// Begins an errand, whose client is to wait, with [`Node::errand_waits`]; the number it goes by. `may_wait`: it can be made to.
    pub(crate) fn begin_errand(
        &mut self,
        ctx: Ctx,
        (once, mut calls): (Option<Once>, Calls),
        caller: &Caller,
        may_wait: bool,
    ) -> Result<u64, Error> {
        if let Some(once) = &once {
            calls.splice(..0, once.before());
        }
        if settings::is_strict() {
            return Err(Error::ErrandStrict);
        }
        // What is done once may have all its keys here.
        if !self.takes_errands() && !self.has_all(ctx, &calls) {
            return Err(Error::ErrandsOff);
        }
        if !may_wait {
            return Err(Error::ErrandWaits);
        }
        if self.shard.as_ref().is_none_or(Shard::is_in_doubt) {
            return Err(Error::NotReady);
        }
        self.keyspace
            .view(|slots| self.do_all_take_errands(slots, &calls))
            .unwrap_or(Err(Error::NotReady))?;
        let places = self.keyspace.view(Slots::places).unwrap_or_default();
        let (now, patience_us) = (self.now(), settings::PLAIN_WAIT_MS.get() * 1_000);
        self.plain.errands.adopt(now, places);
        let new = New { user: caller.name(), calls, once, patience_us };
        let number = self.plain.errands.begin(now, new, || {
            let session = SessionId(ctx.random());
            // The nodes say what is ordered.
            let switches = Switches::claret(Ordered::Never, true, WaySwitches::ROUNDS);
            let pacing = Pacing { frame_requests_max: LETTER_REQUESTS_MAX, ..Pacing::default() };
            (session, Client::new(session, switches, limits(), SLOTS, pacing))
        })?;
        self.send_mail_soon(ctx);
        Ok(number)
    }

    /// Whether this node takes letters.
    pub(super) fn takes_errands(&self) -> bool {
        settings::ERRANDS.get() == 1 && self.peers.have_secret() && !settings::is_strict()
    }

    /// Whether each node that has keys of these does (E10).
    fn do_all_take_errands(&self, slots: &Slots, calls: &Calls) -> Result<(), Error> {
        for (key, _) in calls {
            let slot = slot_of(key);
            if slots.is_mine(slot) {
                continue;
            }
            let node = slots.owner(slot).ok_or(Error::NobodyServes(slot))?;
            let greeting = self.peers.seals.as_ref().and_then(|seals| seals.greeting_of(&node.id));
            if !greeting.is_some_and(|greeting| greeting.takes_errands) {
                return Err(Error::ErrandsNotAt(node.address.clone()));
            }
        }
        Ok(())
    }

    /// The client of one waits from now on.
    pub(crate) fn errand_waits(&mut self, ctx: Ctx, number: u64, client: Blocked) {
        self.plain.errands.wait(number, client);
        self.tick_soon(ctx);
    }

    /// What became of one whose client was let go.
    pub(crate) fn errand_ended(&mut self, number: u64) -> Ended {
        self.plain.errands.take(number).unwrap_or(Err(Error::NotReady))
    }

    /// The client of one is gone. Whether it still waited.
    pub(crate) fn errand_left(&mut self, ctx: Ctx, client: Blocked) -> bool {
        let now = self.now();
        let waited = self.plain.errands.give_up(now, client);
        self.send_mail_soon(ctx);
        waited
    }

    /// Lets clients go whose errands have ended.
    pub(super) fn release_errands(&mut self) {
        while let Some((client, number)) = self.plain.errands.poll_released() {
            client.release(number);
        }
    }

    /// Writes what helpers have to say, and hears what the own shard answers, until nobody has anything to say.
    pub(super) fn write_letters(&mut self, ctx: Ctx) {
        let own = self.own();
        for _ in 0..ROUNDS_MAX {
            let now = self.now();
            if !self.plain.errands.is_due(now) {
                break;
            }
            for (to, letter) in self.plain.errands.take_letters(now) {
                match to == own {
                    true => self.hear_letter(ctx, &own, letter),
                    false => self.send_letter(ctx, &to, &letter),
                }
            }
            if self.plain.errands.take_doubt() {
                self.look_around(ctx);
                self.tell_helpers();
            }
        }
        self.release_errands();
        self.set_timer(ctx);
    }

    /// This node is no home any more, or has to begin anew.
    pub(super) fn end_errands(&mut self) {
        self.plain.errands.clear();
        self.release_errands();
    }

    /// Helpers hear who has keys.
    pub(super) fn tell_helpers(&mut self) {
        if self.plain.errands.is_any() {
            let now = self.now();
            let places = self.keyspace.view(Slots::places).unwrap_or_default();
            self.plain.errands.adopt(now, places);
        }
    }

    /// Helpers of other nodes that are silent are over, and own ones that have nothing to do.
    pub(super) fn look_after_helpers(&mut self) {
        self.tell_helpers();
        let now = self.now();
        self.sessions.end_silent_helpers(now, SILENT_LEASES * settings::LEASE_MS.get() * 1_000);
        self.plain.errands.end_idle(now);
    }

    /// A letter that is lost is missed by the next one (E4).
    fn send_letter(&mut self, ctx: Ctx, to: &str, letter: &Letter) {
        self.peers.note_said();
        if !self.peers.were_looked_at() {
            self.quicken_links(ctx);
        }
        let mut bytes = Vec::new();
        letter.write(&mut bytes);
        self.counts.letters_out += u64::from(self.send_envelope(ctx, to, &Envelope::Letter(bytes)));
    }

    /// To whoever wrote from there: to another node with what else is for it, to a helper of this one at once.
    pub(super) fn answer_letter(&mut self, ctx: Ctx, to: String, letter: Letter) {
        if to == self.own() {
            let now = self.now();
            self.plain.errands.hear(now, &to, letter);
            self.release_errands();
        } else {
            self.peers.put_letter(to, letter);
        }
        self.send_mail_soon(ctx);
    }

    /// Letters of shards to homes leave.
    pub(super) fn send_letters(&mut self, ctx: Ctx) {
        for (to, letter) in self.peers.take_letters() {
            self.send_letter(ctx, &to, &letter);
        }
    }

    /// A letter came from another node.
    pub(super) fn open_letter(&mut self, ctx: Ctx, from: &str, bytes: &[u8]) {
        let is_primary = self.keyspace.view(|view| view.shard_of(from.as_bytes())).flatten().is_some();
        match Letter::read(bytes) {
            Ok(letter) if is_primary && self.takes_errands() && !self.keyspace.is_barred(ctx) => {
                self.counts.letters_in += 1;
                self.hear_letter(ctx, from, letter);
            }
            Ok(_) | Err(_) => self.counts.peer_messages_refused += 1,
        }
    }

    fn hear_letter(&mut self, ctx: Ctx, from: &str, letter: Letter) {
        let link = letter.link;
        match letter.says {
            Says::Hello { user } => {
                let says = self.welcome(ctx, from, link, &user);
                self.answer_letter(ctx, from.to_owned(), Letter { link, says });
            }
            Says::Asks { number, frame } => self.hear_frame(ctx, from, link, (number, &frame)),
            Says::Over if self.plain.errands.user_of(link.session).is_none() => {
                let now = self.now();
                self.sessions.end_helpers(now, from, Some(link.session));
                self.come_back(ctx, 0);
            }
            Says::Welcome { .. }
            | Says::Answers { .. }
            | Says::Refuses { .. }
            | Says::Over
            | Says::NoUser => {
                let now = self.now();
                self.plain.errands.hear(now, from, letter);
                // At once: whoever waits for its answer may be gone by the next turn.
                self.release_errands();
                self.send_mail_soon(ctx);
            }
        }
    }

    /// The frame of this number came by letter.
    fn hear_frame(&mut self, ctx: Ctx, from: &str, link: Link, (number, frame): (u32, &[u8])) {
        let now = self.now();
        let Some(user) = self.sessions.hear_letter(now, from, link, number) else {
            return self.answer_letter(ctx, from.to_owned(), Letter { link, says: Says::Over });
        };
        let taken = wire::decode_requests(frame, &limits()).map_err(Error::Unreadable).and_then(|requests| {
            let caller = self.keyspace.caller_by_letter(ctx, &user);
            self.take_requests(ctx, caller, link, requests)
        });
        match taken {
            Ok(_calling) => self.carry_out(ctx, None),
            Err(error @ Error::Unreadable(_)) => {
                self.sessions.refuse_letter(link, number);
                let says = Says::Refuses { number, reason: error.to_string() };
                self.answer_letter(ctx, from.to_owned(), Letter { link, says });
            }
            // What speaks for another session counts for nothing, and where there is no shard hello is said again.
            Err(_) => {
                self.counts.peer_messages_refused += 1;
                self.sessions.end_helpers(now, from, Some(link.session));
                self.come_back(ctx, 0);
            }
        }
    }

    /// What is said to a helper that says hello.
    fn welcome(&mut self, ctx: Ctx, home: &str, link: Link, user: &Name) -> Says {
        if !(self.keyspace.is_on(ctx, user) || is_planted(Bug::OffUserActs)) {
            return Says::NoUser;
        }
        let is_known = self.sessions.is_known(link.session);
        let is_own = [OWN, self.one_shots.session()].contains(&link.session);
        let now = self.now();
        let is_let_in = !is_own
            && self.shard.is_some()
            && self.sessions.hello_by_letter(now, home, link, user, session_bounds()).is_ok();
        let greeted = match is_known {
            true => self.shard.as_ref().map(|shard| shard.incarnation_to(link.session)),
            false if is_let_in => self.greet(link.session, user),
            false => None,
        };
        let shard = self.shard.as_ref().map(Shard::id).filter(|_| is_let_in);
        // From now on there are transactions at this node.
        self.plain.blocked.come();
        match (shard, greeted) {
            (Some(shard), Some(incarnation)) => {
                Says::Welcome { shard, incarnation, lease_us: settings::LEASE_MS.get() * 1_000 }
            }
            _ => Says::Over,
        }
    }
}
