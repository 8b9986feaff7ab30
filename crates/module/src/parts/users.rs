//! Caches users' rights for a moment: asking the server for each operation what a user may do costs as much as the
//! operation.

use std::time::{Duration, Instant};

use claret_planted::{Bug, is_planted};
use claret_types::Bytes;
use hashbrown::HashMap;

/// How a user stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// May run every command on every key.
    pub(crate) is_almighty: bool,
    /// May log in.
    pub(crate) is_on: bool,
}

/// What was seen of a user.
#[derive(Clone, Copy)]
struct Seen {
    standing: Standing,
    /// When that was looked at; `None` once the lists may be others.
    at: Option<Instant>,
    /// What was on the lists of the user before the last change, as a hash.
    rights: u64,
}

/// Users that came lately.
#[derive(Default)]
pub(crate) struct Users {
    seen: HashMap<Bytes, Seen, foldhash::fast::FixedState>,
    /// Whether everybody is let in, and when that was looked at.
    lets_in: Option<(bool, Instant)>,
    /// There were more than [`USERS_MAX`] since the lists changed last: what some of them might do then is forgotten.
    are_more: bool,
}

/// Of so many users it is known what they might do. Of more a change of the lists counts as one for all.
const USERS_MAX: usize = 1_024;

/// How long what was seen of a user counts. The filter sees most changes of the lists and forgets it at once
/// ([`Users::forget`]); not one that a paused client sent, which later servers show to the filter when it comes and not
/// when it runs.
const COUNTS_FOR: Duration = Duration::from_secs(1);

/// Whether what was seen then counts still.
fn counts(at: Option<Instant>, now: Instant) -> bool {
    at.is_some_and(|at| now.duration_since(at) < COUNTS_FOR || is_planted(Bug::RightsForEver))
}

impl Users {
    /// An access control list is about to change.
    pub(crate) fn forget(&mut self) {
        self.lets_in = None;
        // In any order: each by itself.
        self.seen.values_mut().for_each(|seen| seen.at = None);
    }

    /// Of a user that came: how it stands, if that was seen lately; and what was on its lists before they changed last, as a hash.
    pub(crate) fn seen(&self, name: &[u8], now: Instant) -> Option<(Option<Standing>, u64)> {
        let seen = self.seen.get(name)?;
        Some((counts(seen.at, now).then_some(seen.standing), seen.rights))
    }

    /// Notes what was seen of a user now.
    pub(crate) fn note(&mut self, name: &[u8], standing: Standing, rights: u64, now: Instant) {
        if self.seen.len() >= USERS_MAX && !self.seen.contains_key(name) {
            self.seen.clear();
            self.are_more = true;
        }
        self.seen.insert(Bytes::copy_from(name), Seen { standing, at: Some(now), rights });
    }

    /// Whether everybody is let in, if that was seen lately.
    pub(crate) fn lets_in(&self, now: Instant) -> Option<bool> {
        self.lets_in.filter(|(_, at)| counts(Some(*at), now)).map(|(lets_in, _)| lets_in)
    }

    pub(crate) fn note_lets_in(&mut self, lets_in: bool, now: Instant) {
        self.lets_in = Some((lets_in, now));
    }

    /// Whether any user that came lately may do other things than when that was last asked: of the others nothing is under
    /// way. `rights_of` says what a user may do, and `None` of one that is gone. O([`USERS_MAX`]).
    pub(crate) fn have_changed(&mut self, mut rights_of: impl FnMut(&[u8]) -> Option<u64>) -> bool {
        let mut is_any = std::mem::take(&mut self.are_more);
        // In any order: each by itself.
        self.seen.retain(|name, seen| match rights_of(name) {
            Some(now) => {
                is_any |= std::mem::replace(&mut seen.rights, now) != now;
                true
            }
            None => {
                is_any = true;
                false
            }
        });
        is_any
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::{COUNTS_FOR, Standing, USERS_MAX, Users};

    const ALMIGHTY: Standing = Standing { is_almighty: true, is_on: true };

    #[test]
    fn what_was_seen_counts_for_a_moment_and_not_beyond_a_change() {
        let (mut users, now) = (Users::default(), Instant::now());
        assert_eq!((users.seen(b"ada", now), users.lets_in(now)), (None, None));
        users.note(b"ada", ALMIGHTY, 7, now);
        users.note_lets_in(true, now);
        assert_eq!((users.seen(b"ada", now), users.lets_in(now)), (Some((Some(ALMIGHTY), 7)), Some(true)));
        assert_eq!(users.seen(b"bob", now), None);
        let later = now + COUNTS_FOR;
        assert_eq!((users.seen(b"ada", later), users.lets_in(later)), (Some((None, 7)), None));
        users.forget();
        let seen = users.seen(b"ada", now);
        assert_eq!(seen, Some((None, 7)), "what it might do before is compared with what it may");
        assert_eq!(users.lets_in(now), None);
    }

    #[test]
    fn a_change_is_one_of_somebody_who_came_lately() {
        let (mut users, now) = (Users::default(), Instant::now());
        users.note(b"ada", ALMIGHTY, 7, now);
        assert!(!users.have_changed(|_| Some(7)));
        assert!(users.have_changed(|_| Some(8)) && !users.have_changed(|_| Some(8)));
        assert!(users.have_changed(|_| None), "it is gone");
        assert!(!users.have_changed(|_| panic!("nobody came")));
    }

    #[test]
    fn of_more_users_than_are_kept_any_change_is_one() {
        let (mut users, now) = (Users::default(), Instant::now());
        for number in 0..=USERS_MAX {
            users.note(number.to_string().as_bytes(), ALMIGHTY, 1, now);
        }
        assert!(users.seen.len() <= USERS_MAX);
        assert!(users.have_changed(|_| Some(1)), "of some it is not known any more");
        assert!(!users.have_changed(|_| Some(1)));
    }
}
