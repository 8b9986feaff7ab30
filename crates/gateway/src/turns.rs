//! Who may try next on keys on which loops meet (G7 of docs/gateway.md): turns within this gateway. A state machine: no I/O, no clock.
//!
//! A turn is of all keys that a WATCH names, and is given all at once: nobody has some of them and waits for others, so nobody waits in a
//! circle. Of those who want one key the one who has tried for longest comes first. A turn holds nothing in the store. Only who fails
//! though it has its turn, because others write, takes locks there, too ([`crate::turn`]); while it does, writers of this gateway wait
//! here, and then the keys rest.
//!
//! Work is in proportion to the keys that somebody names or has, whatever others wait for.
//!
//! Invariants: a key is of one turn at most. Whoever waits shares a key with a turn, or with an elder that waits. `check` says them all.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::time::{Duration, Instant};

use claret_planted::{Bug, is_planted};
use claret_types::Bytes;
use tokio::sync::Notify;

/// A connection in this gateway.
pub(crate) type Id = u64;

/// After locks were held for some time, the keys rest for so many times that, so that writers get most of it.
const REST: u32 = 2;

/// And for this long at most.
const REST_MAX: Duration = Duration::from_millis(500);

/// Whoever waits: since when it has tried, and its name. The eldest is the smallest.
type Elder = (Instant, Id);

/// Turns on keys of one user.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// Keys that somebody has or waits for.
    keys: HashMap<Bytes, Wanted>,
    turns: HashMap<Id, Taken>,
    waiting: HashMap<Elder, Waiting>,
    /// When locks may be taken on a key again; what is past stays until the next sweep.
    rests: HashMap<Bytes, Instant>,
    /// When `rests` was swept.
    swept: Option<Instant>,
    /// Keys on which turns were too short for what was tried.
    late: HashMap<Bytes, Late>,
    /// How many keys were looked at, in all; counted in tests.
    looked_at: usize,
}

/// Who has a key, and who waits for it.
#[derive(Debug, Default)]
struct Wanted {
    by: BTreeSet<Elder>,
    taken: Option<Id>,
}

impl Wanted {
    /// Who may have it next.
    fn next(&self) -> Option<Elder> {
        self.by.first().copied().filter(|_| self.taken.is_none())
    }
}

/// That turns on a key end before those who have them are done.
#[derive(Debug)]
struct Late {
    /// So often in a row.
    times: u32,
    /// There are none until then.
    until: Instant,
}

/// So many turns in a row have to be too short before there are none for a while,
const LATE_TIMES: u32 = 3;

/// which lasts this long at first, twice as long each time that the next one is too short, too,
const LATE_FIRST: Duration = Duration::from_secs(1);

/// and so often at most.
const LATE_DOUBLED: u32 = 5;

/// So many keys are remembered.
const LATE_KEYS_MAX: usize = 1_024;

#[derive(Debug)]
struct Taken {
    keys: Rc<[Bytes]>,
    since: Instant,
    /// So many of its keys somebody waits for.
    wanted: usize,
    /// Since when it has locks in the store, or asks for them; and who waits for their end.
    locked: Option<(Instant, Rc<Notify>)>,
}

#[derive(Debug)]
struct Waiting {
    keys: Rc<[Bytes]>,
    /// Of so many of them it is next.
    next_of: usize,
    granted: Rc<Notify>,
}

impl Turns {
    /// Asks for a turn on keys, each named once: `None` if it has it at once, else what tells of it. `since`: when it began to try.
    pub(crate) fn ask(
        &mut self,
        id: Id,
        since: Instant,
        keys: Rc<[Bytes]>,
        now: Instant,
    ) -> Option<Rc<Notify>> {
        let me = (since, id);
        self.look_at(&keys);
        let is_wanted = |key: &Bytes| {
            self.keys.get(key).is_some_and(|key| {
                key.taken.is_some()
                    || key.by.first().is_some_and(|elder| *elder < me) && !is_planted(Bug::EldersPassed)
            })
        };
        if !keys.iter().any(is_wanted) {
            self.grant(id, keys, now);
            return None;
        }
        let granted = Rc::new(Notify::new());
        let mut next_of = 0;
        for key in keys.iter() {
            let key = self.keys.entry(key.clone()).or_default();
            let before = key.next();
            if key.by.is_empty()
                && let Some(turn) = key.taken.and_then(|id| self.turns.get_mut(&id))
            {
                turn.wanted += 1;
            }
            key.by.insert(me);
            if key.next() == Some(me) {
                next_of += 1;
                if let Some(other) = before.and_then(|other| self.waiting.get_mut(&other)) {
                    other.next_of -= 1;
                }
            }
        }
        self.waiting.insert(me, Waiting { keys, next_of, granted: Rc::clone(&granted) });
        Some(granted)
    }

    pub(crate) fn has(&self, id: Id) -> bool {
        self.turns.contains_key(&id)
    }

    /// Whether somebody waits for a key of this turn.
    pub(crate) fn is_wanted(&self, id: Id) -> bool {
        self.turns.get(&id).is_some_and(|turn| turn.wanted > 0)
    }

    /// Its keys, which nobody has, are its own, whoever waits for them.
    fn grant(&mut self, id: Id, keys: Rc<[Bytes]>, now: Instant) {
        self.look_at(&keys);
        let mut wanted = 0;
        for key in keys.iter() {
            let key = self.keys.entry(key.clone()).or_default();
            if let Some(other) = key.next().and_then(|other| self.waiting.get_mut(&other)) {
                other.next_of -= 1;
            }
            key.taken = Some(id);
            wanted += usize::from(!key.by.is_empty());
        }
        self.turns.insert(id, Taken { keys, since: now, wanted, locked: None });
    }

    /// The turn takes locks in the store from now on, if all its keys have rested; else when they have, and it lasts from then on: whoever
    /// came next would find them rested, and pass it again and again. `None`: it has no turn.
    pub(crate) fn lock(&mut self, id: Id, now: Instant) -> Option<Result<(), Instant>> {
        let rests = &self.rests;
        let turn = self.turns.get_mut(&id)?;
        let rest = turn.keys.iter().filter_map(|key| rests.get(key)).filter(|until| **until > now).max();
        if let Some(until) = rest {
            turn.since = *until;
            return Some(Err(*until));
        }
        turn.locked.get_or_insert_with(|| (now, Rc::default()));
        Some(Ok(()))
    }

    /// What tells of the end of locks on one of these keys, if another has or asks for some.
    pub(crate) fn locked<'a>(&self, id: Id, keys: impl IntoIterator<Item = &'a [u8]>) -> Option<Rc<Notify>> {
        if self.turns.is_empty() {
            return None;
        }
        let holders = keys.into_iter().filter_map(|key| self.keys.get(key)?.taken);
        holders
            .filter(|holder| *holder != id)
            .filter_map(|holder| self.turns.get(&holder)?.locked.as_ref())
            .map(|(_, end)| Rc::clone(end))
            .next()
    }

    /// The locks of a turn are gone; writers go on.
    pub(crate) fn unlock(&mut self, id: Id, now: Instant) {
        let Some(turn) = self.turns.get_mut(&id) else { return };
        let Some((since, end)) = turn.locked.take() else { return };
        let rest = if is_planted(Bug::KeysNeverRest) {
            Duration::ZERO
        } else {
            ((now - since) * REST).min(REST_MAX)
        };
        if self.swept.is_none_or(|swept| now - swept >= REST_MAX) {
            self.swept = Some(now);
            self.rests.retain(|_, until| *until > now);
        }
        self.rests.extend(turn.keys.iter().map(|key| (key.clone(), now + rest)));
        end.notify_waiters();
    }

    /// It has no turn any more, and waits for none. Whoever is next has one.
    pub(crate) fn leave(&mut self, id: Id, since: Instant, now: Instant) {
        self.unlock(id, now);
        let mut next = self.stop_waiting((since, id));
        next.extend(self.end(id));
        self.serve(next, now);
    }

    /// A turn ends: who is next of its keys.
    fn end(&mut self, id: Id) -> BTreeSet<Elder> {
        let Some(turn) = self.turns.remove(&id) else { return BTreeSet::new() };
        if is_planted(Bug::TurnKeepsItsKeys) {
            return BTreeSet::new();
        }
        self.change(&turn.keys, |key| key.taken = None)
    }

    /// It waits no more: who is next of the keys that it waited for.
    fn stop_waiting(&mut self, elder: Elder) -> BTreeSet<Elder> {
        let Some(waiting) = self.waiting.remove(&elder) else { return BTreeSet::new() };
        self.change(&waiting.keys, |key| {
            key.by.remove(&elder);
        })
    }

    /// Keys are left by somebody who had them, or waited for them: who is next of one now, and was not.
    fn change(&mut self, keys: &[Bytes], leave: impl Fn(&mut Wanted)) -> BTreeSet<Elder> {
        self.look_at(keys);
        let mut all = BTreeSet::new();
        for name in keys {
            let Some(key) = self.keys.get_mut(name) else { continue };
            let (before, was_wanted) = (key.next(), !key.by.is_empty());
            leave(key);
            if key.next() != before
                && let Some(next) = key.next()
                && let Some(waiting) = self.waiting.get_mut(&next)
            {
                waiting.next_of += 1;
                all.insert(next);
            }
            if was_wanted
                && key.by.is_empty()
                && let Some(turn) = key.taken.and_then(|id| self.turns.get_mut(&id))
            {
                turn.wanted -= 1;
            }
            if key.by.is_empty() && key.taken.is_none() {
                self.keys.remove(name);
            }
        }
        all
    }

    /// Turns that others want end where they have lasted this long: their keys.
    pub(crate) fn expire(&mut self, now: Instant, hold: Duration) {
        let is_over = |id: &Id, turn: &Taken| {
            now - turn.since >= hold && self.is_wanted(*id) && !is_planted(Bug::TurnsWithoutEnd)
        };
        let over: Vec<Id> =
            self.turns.iter().filter(|(id, turn)| is_over(id, turn)).map(|(id, _)| *id).collect();
        let mut next = BTreeSet::new();
        for id in over {
            self.unlock(id, now);
            let keys = self.turns.get(&id).map(|turn| Rc::clone(&turn.keys));
            next.extend(self.end(id));
            keys.iter().flat_map(|keys| keys.iter()).for_each(|key| self.note_late(key, now));
        }
        self.serve(next, now);
    }

    /// Those who are next of all that they wait for have their turn. No two of them want one key.
    fn serve(&mut self, next: BTreeSet<Elder>, now: Instant) {
        for elder in next {
            if self.waiting.get(&elder).is_none_or(|waiting| waiting.next_of < waiting.keys.len()) {
                continue;
            }
            let Some(waiting) = self.waiting.remove(&elder) else { continue };
            for key in waiting.keys.iter() {
                let key = self.keys.get_mut(key).expect("somebody waits for it");
                key.by.remove(&elder);
                key.taken = Some(elder.1);
            }
            self.grant(elder.1, waiting.keys, now);
            waiting.granted.notify_one();
        }
    }

    fn look_at(&mut self, keys: &[Bytes]) {
        if cfg!(test) {
            self.looked_at += keys.len();
        }
    }

    fn note_late(&mut self, key: &Bytes, now: Instant) {
        if self.late.len() >= LATE_KEYS_MAX && !self.late.contains_key(key) {
            self.late.clear();
        }
        let late = self.late.entry(key.clone()).or_insert(Late { times: 0, until: now });
        late.times += 1;
        if late.times >= LATE_TIMES {
            late.until = now + LATE_FIRST * (1 << (late.times - LATE_TIMES).min(LATE_DOUBLED));
        }
    }

    /// A turn was long enough for what was tried.
    pub(crate) fn note_done(&mut self, keys: &[Bytes]) {
        if !self.late.is_empty() {
            for key in keys {
                self.late.remove(key);
            }
        }
    }

    /// Whether turns on these keys serve, as far as is known.
    pub(crate) fn serves(&self, keys: &[Bytes], now: Instant) -> bool {
        self.late.is_empty()
            || is_planted(Bug::TurnsInVain)
            || !keys.iter().any(|key| self.late.get(key).is_some_and(|late| late.until > now))
    }
}

/// What a loop of WATCH, MULTI and EXEC has come to so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tries {
    /// Since when it has tried, and until when it is known to have gone on.
    since: Option<(Instant, Instant)>,
    /// EXECs that answered nil since then,
    pub(crate) lost: u32,
    /// and those of them that did though nobody else of this gateway had a turn.
    pub(crate) lost_in_turn: u32,
}

/// A loop that does nothing for so long has stopped.
const STOPPED_AFTER: Duration = Duration::from_secs(1);

impl Tries {
    /// Since when it has tried, if it does.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.since.map(|(since, _)| since)
    }

    /// A round begins: whether it is the first.
    pub(crate) fn begin_round(&mut self, now: Instant) -> bool {
        let is_first = self.since.is_none_or(|(_, last)| now - last >= STOPPED_AFTER);
        if is_first {
            *self = Tries { since: Some((now, now)), lost_in_turn: self.lost_in_turn, lost: 0 };
        }
        self.goes_on(now);
        is_first
    }

    /// It has waited until now, for its turn or for its EXEC: who waits has not stopped.
    pub(crate) fn goes_on(&mut self, now: Instant) {
        if let Some((_, last)) = &mut self.since {
            *last = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    fn keys(names: &str) -> Rc<[Bytes]> {
        names.split(' ').map(Bytes::from).collect()
    }

    impl Turns {
        fn is_empty(&self) -> bool {
            self.keys.is_empty() && self.turns.is_empty() && self.waiting.is_empty()
        }

        /// The invariants, and what is counted counted again.
        fn check(&self) {
            for (name, key) in &self.keys {
                assert!(key.taken.is_some() || !key.by.is_empty(), "{name} is nobody's");
                let is_of_turn = |id: Id| self.turns[&id].keys.contains(name);
                assert!(key.taken.is_none_or(is_of_turn), "{name} is of a turn that has it");
                let waits = |elder: &Elder| self.waiting[elder].keys.contains(name);
                assert!(key.by.iter().all(waits), "whoever is said to wait for {name} does");
            }
            for (id, turn) in &self.turns {
                let has = |key: &Bytes| self.keys[key].taken == Some(*id);
                assert!(turn.keys.iter().all(has), "{id} has all its keys");
                let wanted = turn.keys.iter().filter(|key| !self.keys[*key].by.is_empty()).count();
                assert_eq!(turn.wanted, wanted, "of {id}");
            }
            for (elder, waiting) in &self.waiting {
                assert!(waiting.keys.iter().all(|key| self.keys[key].by.contains(elder)));
                let is_next = |key: &&Bytes| self.keys[*key].next() == Some(*elder);
                assert_eq!(waiting.next_of, waiting.keys.iter().filter(is_next).count(), "of {elder:?}");
                assert!(waiting.next_of < waiting.keys.len(), "{elder:?} waits for nobody");
            }
        }
    }

    #[test]
    fn a_turn_is_of_all_its_keys_at_once_and_the_eldest_is_next() {
        let (mut turns, t) = (Turns::default(), Instant::now());
        let at = |ms| t + Duration::from_millis(ms);
        assert!(turns.ask(1, at(3), keys("a b"), t).is_none());
        assert!(turns.ask(2, at(2), keys("b c"), t).is_some());
        assert!(turns.ask(3, at(1), keys("c a"), t).is_some());
        assert!(turns.ask(4, at(4), keys("c"), t).is_some(), "elders want it: nobody passes them");
        assert!(turns.ask(5, at(0), keys("c d"), t).is_none(), "it is older than all who want it");
        assert!(turns.is_wanted(1) && turns.is_wanted(5));
        turns.leave(1, at(3), at(5));
        assert!(!turns.has(2) && !turns.has(3), "each of them needs what 5 has");
        turns.leave(5, at(0), at(5));
        assert!(turns.has(3) && !turns.has(2) && !turns.has(4));
        turns.leave(3, at(1), at(5));
        assert!(turns.has(2) && !turns.has(4));
        turns.leave(2, at(2), at(5));
        assert!(turns.has(4));
        turns.leave(4, at(4), at(5));
        assert!(turns.is_empty());
    }

    #[test]
    fn what_is_counted_of_turns_is_so_whatever_comes_after_what() {
        let mut rng = StdRng::seed_from_u64(1);
        let t = Instant::now();
        for _ in 0..200 {
            let mut turns = Turns::default();
            // Since when each one has tried that has a place.
            let mut places: HashMap<Id, Instant> = HashMap::new();
            for ms in 0..60 {
                let now = t + Duration::from_millis(ms);
                let id = rng.random_range(0..6);
                if let Some(since) = places.remove(&id) {
                    turns.leave(id, since, now);
                } else if rng.random_bool(0.1) {
                    turns.expire(now, Duration::from_millis(5));
                } else {
                    let since = t + Duration::from_millis(rng.random_range(0..=ms));
                    let some = (0_u8..6).filter(|_| rng.random_bool(0.4));
                    let some: Rc<[Bytes]> = some.map(|key| Bytes::from(&[key][..])).collect();
                    if !some.is_empty() {
                        turns.ask(id, since, some, now);
                        places.insert(id, since);
                    }
                }
                turns.check();
            }
            places.iter().for_each(|(id, since)| turns.leave(*id, *since, t));
            assert!(turns.is_empty());
        }
    }

    /// Bug: each key that somebody asked for was looked for among all keys of all who wait.
    #[test]
    fn work_for_turns_is_in_proportion_to_the_keys_of_whoever_asks() {
        let looks = |elders: u64, count: u32| {
            let (mut turns, t) = (Turns::default(), Instant::now());
            let at = |ms| t + Duration::from_millis(ms);
            let all: Rc<[Bytes]> = (0..count).map(|key| Bytes::from(&key.to_be_bytes()[..])).collect();
            (0..elders).for_each(|id| drop(turns.ask(id, at(id), Rc::clone(&all), t)));
            let before = turns.looked_at;
            turns.ask(elders, at(elders), all, t);
            turns.leave(0, at(0), t);
            assert!(turns.has(1) && turns.is_wanted(1));
            turns.looked_at - before
        };
        assert_eq!(looks(20, 64), looks(10, 64), "however many wait");
        assert_eq!(looks(10, 128), 2 * looks(10, 64), "twice as much for twice as many");
    }

    #[test]
    fn who_goes_while_it_waits_keeps_nothing() {
        let (mut turns, t) = (Turns::default(), Instant::now());
        assert!(turns.ask(1, t, keys("a"), t).is_none());
        assert!(turns.ask(2, t, keys("a b"), t).is_some());
        assert!(turns.ask(3, t + Duration::from_millis(1), keys("b"), t).is_some());
        turns.leave(2, t, t);
        assert!(turns.has(3), "b was free but for it");
    }

    #[test]
    fn keys_rest_after_locks_and_writers_wait_for_their_end_alone() {
        let (mut turns, t) = (Turns::default(), Instant::now());
        let at = |ms| t + Duration::from_millis(ms);
        assert!(turns.ask(1, t, keys("a b"), t).is_none());
        assert!(turns.locked(9, [&b"a"[..]]).is_none(), "a turn alone is in no writer's way");
        assert_eq!(turns.lock(1, at(0)), Some(Ok(())));
        assert!(turns.locked(9, [&b"c"[..], b"b"]).is_some() && turns.locked(9, [&b"c"[..]]).is_none());
        assert!(turns.locked(1, [&b"a"[..]]).is_none(), "it does not wait for itself");
        turns.leave(1, t, at(10));
        assert!(turns.locked(9, [&b"a"[..]]).is_none());
        assert!(turns.ask(2, t, keys("b"), t).is_none());
        assert_eq!(turns.lock(2, at(29)), Some(Err(at(30))), "writers get twice the time");
        // Bug: the eldest tried just before the keys had rested, and the next one just after it, for ten seconds.
        assert!(turns.ask(3, t, keys("b"), at(29)).is_some());
        turns.expire(at(100), Duration::from_millis(71));
        assert!(turns.has(2), "it lasts from when they have rested");
        assert_eq!((turns.lock(2, at(30)), turns.lock(9, at(30))), (Some(Ok(())), None));
    }

    #[test]
    fn a_turn_that_others_want_ends_in_time_and_turns_that_never_suffice_are_given_up_for_a_while() {
        let (mut turns, t, hold) = (Turns::default(), Instant::now(), Duration::from_millis(100));
        let at = |ms| t + Duration::from_millis(ms);
        assert!(turns.ask(1, t, keys("a"), t).is_none());
        turns.expire(at(500), hold);
        assert!(turns.has(1), "nobody wants it");
        let mut now = 500;
        for id in 2..=4 {
            assert!(turns.serves(&keys("a b"), at(now)));
            assert!(turns.ask(id, at(id), keys("a"), at(now)).is_some());
            now += 100;
            turns.expire(at(now), hold);
            assert!(turns.has(id) && !turns.has(id - 1));
        }
        assert!(!turns.serves(&keys("b a"), at(now + 999)), "three times in a row");
        assert!(turns.serves(&keys("a"), at(now + 1_000)) && turns.serves(&keys("b"), at(now)));
        turns.note_late(&"a".into(), at(now));
        assert!(!turns.serves(&keys("a"), at(now + 1_999)), "and for longer after the next one");
        turns.note_done(&keys("a"));
        assert!(turns.serves(&keys("a"), at(now)));
    }

    /// Bug: a loop that had waited in vain for a second was the youngest anew, and of sixteen that think one was never served.
    #[test]
    fn who_waits_keeps_its_age_and_who_stops_loses_it() {
        let (mut tries, t) = (Tries::default(), Instant::now());
        let at = |ms| t + Duration::from_millis(ms);
        assert!(tries.begin_round(at(0)) && !tries.begin_round(at(900)));
        tries.lost = 3;
        tries.goes_on(at(2_500));
        assert!(!tries.begin_round(at(3_400)));
        assert_eq!((tries.since(), tries.lost), (Some(at(0)), 3));
        assert!(tries.begin_round(at(4_400)), "it did nothing for a second");
        assert_eq!((tries.since(), tries.lost), (Some(at(4_400)), 0));
    }
}
