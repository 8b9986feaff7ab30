//! Errands: transactions that clients gave to this node whole, and that have keys at other nodes (docs/errands.md). This node is the
//! client process for them: a helper for each user.
//!
//! Nothing here reaches a shard or a client. Letters go in and come out, the own shard's among them; [`Errands::poll_released`] hands
//! out clients to let go.

mod helper;
mod once;

use std::collections::VecDeque;

use claret_core::{Client, SessionId, Time};
use claret_planted::{Bug, is_planted};
use hashbrown::HashMap;

use crate::ffi::Blocked;
use crate::parts::error::Error;
use crate::parts::letters::Letter;
use crate::parts::one_shots::{Calls, Ended};
use crate::parts::owner::Name;
use crate::parts::slots::Place;
use helper::{AllEnded, Helper};
pub(crate) use once::Once;

/// So many are open at most.
const OPEN_MAX: usize = 4_096;

/// And so many of one user (E7).
const OPEN_OF_USER_MAX: usize = OPEN_MAX / 4;

/// Operations of one at most (E1).
pub(crate) const CALLS_MAX: usize = 1_024;

/// Bytes of the words of one at most (E1): what is much larger is in the way of what the servers themselves say over the bus.
pub(crate) const BYTES_MAX: usize = 64 * 1024;

/// A helper that had nothing to do for so long ends.
const IDLE_US: u64 = 60_000_000;

/// See the module's text.
#[derive(Default)]
pub(crate) struct Errands {
    /// By user.
    helpers: HashMap<Name, Helper, foldhash::fast::FixedState>,
    /// Where keys are.
    places: Vec<Place>,
    /// The number of the last one.
    last: u64,
    open: usize,
    /// With the client that is going to be answered.
    ended: HashMap<u64, (Ended, Blocked), foldhash::fast::FixedState>,
    /// Clients that are let go, each with the number of its errand.
    released: VecDeque<(Blocked, u64)>,
    /// What helpers said on their way out.
    last_words: Vec<(String, Letter)>,
    pub(crate) count: u64,
    /// Those of which nobody knows whether they were carried out.
    pub(crate) unknown: u64,
}

/// One that begins.
pub(crate) struct New<'a> {
    pub(crate) user: &'a Name,
    pub(crate) calls: Calls,
    /// It is done at most once for an id (E11), and its calls begin with [`Once::before`].
    pub(crate) once: Option<Once>,
    /// How long its client waits, in microseconds.
    pub(crate) patience_us: u64,
}

impl Errands {
    /// How many are open.
    pub(crate) fn len(&self) -> usize {
        self.open
    }

    /// One begins; the number it goes by. `begin` makes the helper of a user that has none.
    ///
    /// # Errors
    /// There are too many.
    pub(crate) fn begin(
        &mut self,
        now: Time,
        new: New<'_>,
        begin: impl FnOnce() -> (SessionId, Client),
    ) -> Result<u64, Error> {
        if self.open >= OPEN_MAX && !is_planted(Bug::ErrandsUnbounded) {
            return Err(Error::TooManyErrands(OPEN_MAX));
        }
        let of_user = self.helpers.get(new.user).map_or(0, Helper::len);
        if of_user >= OPEN_OF_USER_MAX && !is_planted(Bug::ErrandsUnbounded) {
            return Err(Error::TooManyErrandsOfUser(OPEN_OF_USER_MAX));
        }
        self.last += 1;
        self.count += 1;
        self.open += 1;
        if !self.helpers.contains_key(new.user) {
            let (session, client) = begin();
            let mut helper = Helper::new(session, client);
            helper.adopt(now, &self.places);
            self.helpers.insert(new.user.clone(), helper);
        }
        let helper = self.helpers.get_mut(new.user).expect("it is there, or was just made");
        helper.begin(now, self.last, new);
        Ok(self.last)
    }

    /// Where keys are, as it is seen now.
    pub(crate) fn adopt(&mut self, now: Time, places: Vec<Place>) {
        if places != self.places {
            self.places = places;
            self.helpers.values_mut().for_each(|helper| helper.adopt(now, &self.places));
        }
    }

    /// Whose a session is, if it is a helper's of this node.
    pub(crate) fn user_of(&self, session: SessionId) -> Option<&Name> {
        self.helpers.iter().find(|(_, helper)| helper.session() == session).map(|(user, _)| user)
    }

    /// A letter of a shard, the own one among them, to a helper. Whether there is such a helper.
    pub(crate) fn hear(&mut self, now: Time, from: &str, letter: Letter) -> bool {
        let mut helpers = self.helpers.values_mut();
        let helper = helpers.find(|helper| helper.session() == letter.link.session);
        let mut ended = Vec::new();
        let is_there = helper.map(|helper| helper.hear(now, from, letter, &mut ended)).is_some();
        self.end_all(ended);
        is_there
    }

    /// Whether there may be anything to be written.
    pub(crate) fn is_any(&self) -> bool {
        !self.helpers.is_empty() || !self.last_words.is_empty()
    }

    /// Whether anything is to be written, or is due.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        !self.last_words.is_empty()
            || self
                .helpers
                .values()
                .any(|helper| helper.is_stirred() || helper.due().is_some_and(|due| due <= now))
    }

    /// When something is due.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.helpers.values().filter_map(Helper::due).min()
    }

    /// Brings about what follows from what went in, and takes the letters that are to leave, each with the node that it is for.
    pub(crate) fn take_letters(&mut self, now: Time) -> Vec<(String, Letter)> {
        let mut letters = std::mem::take(&mut self.last_words);
        let mut ended = Vec::new();
        // In any order: each has a session of its own.
        for (user, helper) in &mut self.helpers {
            helper.go_on(now, &mut ended);
            helper.write(now, user, &mut letters);
        }
        self.end_all(ended);
        letters
    }

    /// Whether some shard said since the last time what gives a reason to look who owns what.
    pub(crate) fn take_doubt(&mut self) -> bool {
        let doubts = self.helpers.values_mut().filter_map(|helper| helper.take_doubt().then_some(()));
        doubts.count() > 0
    }

    fn end_all(&mut self, all: AllEnded) {
        for (number, client, ended) in all {
            self.open -= 1;
            self.unknown += u64::from(matches!(ended, Err(Error::ErrandUnknown)));
            if let Some(client) = client {
                self.ended.insert(number, (ended, client));
                self.released.push_back((client, number));
            }
        }
    }

    /// The client of one waits from now on.
    pub(crate) fn wait(&mut self, number: u64, client: Blocked) {
        let mut helpers = self.helpers.values_mut();
        if !helpers.any(|helper| helper.wait(number, client)) {
            client.release(number);
        }
    }

    /// What became of one that has ended: once.
    pub(crate) fn take(&mut self, number: u64) -> Option<Ended> {
        self.ended.remove(&number).map(|(ended, _)| ended)
    }

    /// The next client that is let go, with the number of its errand: once each.
    pub(crate) fn poll_released(&mut self) -> Option<(Blocked, u64)> {
        self.released.pop_front()
    }

    /// A client is gone. Whether it still waited: it may have been let go already.
    pub(crate) fn give_up(&mut self, now: Time, client: Blocked) -> bool {
        self.ended.retain(|_, (_, whose)| *whose != client);
        let gave_up = self.helpers.values_mut().any(|helper| helper.give_up(now, client));
        self.open -= usize::from(gave_up);
        gave_up
    }

    /// Whose time is over is aborted; whether any other one waits.
    pub(crate) fn expire(&mut self, now: Time) -> bool {
        let mut ended = Vec::new();
        self.helpers.values_mut().for_each(|helper| helper.expire(now, &mut ended));
        self.end_all(ended);
        self.open > 0
    }

    /// Helpers that had nothing to do for long end, and say so.
    pub(crate) fn end_idle(&mut self, now: Time) {
        let idle = self.helpers.extract_if(|_, helper| helper.is_idle(now, IDLE_US));
        for (_, helper) in idle {
            helper.say_goodbye(&mut self.last_words);
        }
    }

    /// This node is no primary any more, or began anew: what became of those that are open, nobody knows here.
    pub(crate) fn clear(&mut self) {
        let mut ended = Vec::new();
        for (_, mut helper) in self.helpers.drain() {
            helper.end_all(&mut ended);
            helper.say_goodbye(&mut self.last_words);
        }
        self.end_all(ended);
    }
}

#[cfg(test)]
mod tests;
