//! Clients that ask what is written, and hear it when the shard's replicas have it (S2 of `docs/replication.md`).
//!
//! What is answered is what was written when they asked. A client waits with one question at a time: there are no more of them than
//! connections.

use std::collections::{BTreeMap, VecDeque};

use claret_core::{Time, Told};

use crate::ffi::Blocked;
use crate::parts::planted::replicas as planted;

/// How one was answered; `None`: the replicas did not say in time that they have it, or the shard ended.
pub(crate) type Answer = Option<Told>;

struct Question {
    /// The batch that the replicas must have.
    batch: u64,
    told: Told,
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
    pub(crate) fn ask(&mut self, batch: u64, told: Told, until: Time) -> u64 {
        self.last += 1;
        self.waiting.insert(self.last, Question { batch, told, until, client: None });
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
        self.answer(|question| planted::is_confirmed(question.batch <= batch).then_some(Some(question.told)));
    }

    /// Whose time is over.
    pub(crate) fn expire(&mut self, now: Time) {
        self.answer(|question| (question.until <= now).then_some(None));
    }

    /// The shard ends: nobody knows what it would have said.
    pub(crate) fn end(&mut self) {
        self.answer(|_| Some(None));
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
        self.answered.remove(&number)?.1
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

    use super::Questions;
    use crate::ffi::Blocked;

    fn client(number: usize) -> Blocked {
        Blocked::from_raw(without_provenance_mut(number))
    }

    fn told(shard: u32) -> Told {
        Told { shard: ShardId(shard), written: Written::Applied, since: Incarnation(1) }
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
        assert_eq!((questions.take(1), questions.take(1)), (Some(told(0)), None));
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
        assert_eq!(questions.take(1), None);
        let mut questions = asked(&[3]);
        questions.end();
        assert_eq!((questions.poll_released(), questions.take(1)), (Some((client(1), 1)), None));
    }

    #[test]
    fn who_is_gone_waits_no_more_and_is_let_go_once() {
        let mut questions = asked(&[3, 3]);
        assert!(questions.left(client(1)) && !questions.left(client(1)));
        questions.confirmed(3);
        assert_eq!(questions.poll_released(), Some((client(2), 2)));
        assert!(!questions.left(client(2)), "it was let go");
        assert_eq!((questions.poll_released(), questions.take(2)), (None, None));
    }
}
