//! Clients that are answered when this node's replicas have what was written (S2 and S16 of `docs/replication.md`).
//!
//! Who asks what is written hears what was written then. A client waits with one question at a time: there are no more of them than
//! connections.

use std::collections::{BTreeMap, VecDeque};

use claret_core::{Time, Told};
use claret_planted::{Bug, is_planted};

use crate::ffi::Blocked;
use crate::parts::error::Error;

/// What is said to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owed {
    /// What is written for an attempt.
    Told(Told),
    /// That a record came which another node gives away.
    Taken,
}

impl Owed {
    /// What is said instead: the replicas did not say in time that they have it, or the shard ended.
    fn unconfirmed(self) -> Error {
        match self {
            Owed::Told(_) => Error::NotReady,
            Owed::Taken => Error::TakenUnconfirmed,
        }
    }
}

/// How one was answered.
pub(crate) type Answer = Result<Owed, Error>;

struct Question {
    /// The batch that the replicas must have.
    batch: u64,
    owed: Owed,
    until: Time,
    client: Option<Blocked>,
}

/// See the module's text.
#[derive(Default)]
pub(crate) struct Questions {
    last: u64,
    waiting: BTreeMap<u64, Question>,
    answered: BTreeMap<u64, (Blocked, Answer)>,
    released: VecDeque<(Blocked, u64)>,
}

impl Questions {
    /// One that counts with this batch. Its number.
    pub(crate) fn ask(&mut self, batch: u64, owed: Owed, until: Time) -> u64 {
        self.last += 1;
        self.waiting.insert(self.last, Question { batch, owed, until, client: None });
        self.last
    }

    /// The client that waits for the answer.
    pub(crate) fn wait(&mut self, number: u64, client: Blocked) {
        match self.waiting.get_mut(&number) {
            Some(question) => question.client = Some(client),
            None => self.released.push_back((client, number)),
        }
    }

    /// All replicas have all batches up to this one.
    pub(crate) fn confirmed(&mut self, batch: u64) {
        self.answer(|question| {
            (question.batch <= batch || is_planted(Bug::OutcomeToldAtOnce)).then_some(Ok(question.owed))
        });
    }

    /// Whose time is over.
    pub(crate) fn expire(&mut self, now: Time) {
        self.answer(|question| (question.until <= now).then_some(Err(question.owed.unconfirmed())));
    }

    /// The shard ends: nobody knows what it would have said.
    pub(crate) fn end(&mut self) {
        self.answer(|question| Some(Err(question.owed.unconfirmed())));
    }

    fn answer(&mut self, answer: impl Fn(&Question) -> Option<Answer>) {
        let Questions { waiting, answered, released, .. } = self;
        waiting.retain(|number, question| {
            let Some(answer) = answer(question) else { return true };
            if let Some(client) = question.client {
                answered.insert(*number, (client, answer));
                released.push_back((client, *number));
            }
            false
        });
    }

    /// A client that is to be let go, and its question's number.
    pub(crate) fn poll_released(&mut self) -> Option<(Blocked, u64)> {
        self.released.pop_front()
    }

    /// What a client hears that was let go.
    pub(crate) fn take(&mut self, number: u64) -> Answer {
        self.answered.remove(&number).map_or(Err(Error::NotReady), |(_, answer)| answer)
    }

    /// Whether anybody waits who gives a key to this node.
    pub(crate) fn is_any_taken(&self) -> bool {
        self.waiting.values().any(|question| question.owed == Owed::Taken)
    }

    /// A client is gone. Whether it still waited: it may have been let go already.
    pub(crate) fn left(&mut self, client: Blocked) -> bool {
        self.answered.retain(|_, (of, _)| *of != client);
        let before = self.waiting.len();
        self.waiting.retain(|_, question| question.client != Some(client));
        before > self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use std::ptr::without_provenance_mut;

    use claret_core::{Incarnation, ShardId, Time, Told, Written};

    use super::{Owed, Questions};
    use crate::ffi::Blocked;
    use crate::parts::error::Error;

    fn client(number: usize) -> Blocked {
        Blocked::from_raw(without_provenance_mut(number))
    }

    fn told(shard: u32) -> Owed {
        Owed::Told(Told { shard: ShardId(shard), written: Written::Applied, since: Incarnation(1) })
    }

    fn asked(batches: &[u64]) -> Questions {
        let mut questions = Questions::default();
        for (at, batch) in batches.iter().enumerate() {
            let number = questions.ask(*batch, told(at as u32), Time(100));
            questions.wait(number, client(at + 1));
        }
        questions
    }

    #[test]
    fn who_asks_hears_it_when_the_replicas_have_what_was_written_then() {
        let mut questions = asked(&[3, 4]);
        questions.confirmed(2);
        assert_eq!(questions.poll_released(), None);
        questions.confirmed(3);
        assert_eq!(questions.poll_released(), Some((client(1), 1)));
        assert_eq!(questions.poll_released(), None);
        assert_eq!((questions.take(1), questions.take(1)), (Ok(told(0)), Err(Error::NotReady)));
        questions.confirmed(9);
        assert_eq!(questions.poll_released(), Some((client(2), 2)));
    }

    #[test]
    fn who_waits_too_long_or_for_a_shard_that_ends_hears_nothing() {
        let mut questions = asked(&[3, 4]);
        questions.expire(Time(99));
        assert_eq!(questions.poll_released(), None);
        questions.expire(Time(100));
        assert_eq!(questions.poll_released(), Some((client(1), 1)));
        assert_eq!(questions.take(1), Err(Error::NotReady));
        let mut questions = Questions::default();
        let number = questions.ask(3, Owed::Taken, Time(100));
        questions.wait(number, client(1));
        questions.end();
        assert_eq!(questions.poll_released(), Some((client(1), 1)));
        assert_eq!(questions.take(1), Err(Error::TakenUnconfirmed));
    }

    #[test]
    fn who_is_gone_waits_no_more_and_is_let_go_once() {
        let mut questions = asked(&[3, 3]);
        assert!(questions.left(client(1)) && !questions.left(client(1)));
        questions.confirmed(3);
        assert_eq!(questions.poll_released(), Some((client(2), 2)));
        assert!(!questions.left(client(2)), "it was let go");
        assert_eq!((questions.poll_released(), questions.take(2)), (None, Err(Error::NotReady)));
    }
}
