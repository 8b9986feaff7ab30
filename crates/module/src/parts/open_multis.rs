//! Keys of commands that were queued in a MULTI. The server shows a command to the filter when it is queued, not when
//! it runs, so its keys are checked again at EXEC.
//!
//! Where the server names the client to the filter, each client has its own keys. Redis 7.0 does not: there the keys
//! of all commands count that pass while any client has an open MULTI, so an EXEC may be refused for the key of
//! another client. There, too, once a key conflicts, the module finds out who sent the EXEC: keys that its user may
//! not use are not its own.
//!
//! Before there is a shard nothing is noted. A MULTI that is older than the shard may use any key. So until all such
//! MULTIs are closed, an EXEC is refused while anything is held.

use claret_core::Limits;
use claret_planted::{Bug, is_planted};
use claret_types::{Access, Bytes};
use hashbrown::HashMap;

/// What the keys of one MULTI may take, in bytes; of one with more any key counts.
const BYTES_MAX: usize = 4 << 20;

/// What those of all may take.
const ALL_BYTES_MAX: usize = 64 << 20;

/// What a key takes besides itself, about.
const ENTRY_BYTES: usize = 64;

type Used = HashMap<Bytes, Access, foldhash::fast::FixedState>;

/// What an EXEC is going to use.
#[derive(Default)]
struct Multi {
    used: Used,
    /// What they take.
    bytes: usize,
    /// There are more.
    is_overfull: bool,
    /// Something is going to change and nobody tells: its keys, or anything.
    is_silent: bool,
    is_silent_of_anything: bool,
}

/// See the module's text.
#[derive(Default)]
pub(crate) struct OpenMultis {
    by_client: HashMap<u64, Multi, foldhash::fast::FixedState>,
    pooled: Multi,
    /// What all of them take.
    bytes: usize,
    /// Somebody may have one open, and who is not known.
    pool_is_open: bool,
    unseen: Unseen,
    /// A change of the access control lists was queued in one of them.
    changes_rights: bool,
}

/// Who may have one open that began before anybody looked: what is in it is not known.
#[derive(Default)]
enum Unseen {
    /// That could not be asked yet.
    Anybody,
    /// These had one open whenever it was asked.
    Clients(Vec<u64>),
    #[default]
    Nobody,
}

impl Unseen {
    fn is_any(&self) -> bool {
        !matches!(self, Unseen::Nobody)
    }
}

/// What an EXEC is going to use, as far as that is known.
pub(crate) enum Queued<'a> {
    Keys(&'a Used),
    /// Too many to tell.
    Anything,
}

impl OpenMultis {
    /// Whether keys have to be noted at all.
    pub(crate) fn is_any(&self) -> bool {
        self.pool_is_open || self.unseen.is_any() || !self.by_client.is_empty()
    }

    /// How many there are, as far as that is known.
    pub(crate) fn len(&self) -> usize {
        self.by_client.len() + usize::from(self.pool_is_open)
    }

    /// Whether those of this client have.
    pub(crate) fn is_open(&self, client: Option<u64>) -> bool {
        match client {
            Some(client) => self.by_client.contains_key(&client),
            None => self.pool_is_open,
        }
    }

    /// Commands are looked at from now on, and were not before.
    pub(crate) fn begin_to_look(&mut self) {
        // What was known of an earlier shard's time may be over.
        *self = OpenMultis {
            unseen: if is_planted(Bug::OlderMultiUnseen) { Unseen::default() } else { Unseen::Anybody },
            ..OpenMultis::default()
        };
    }

    pub(crate) fn begin(&mut self, client: Option<u64>) {
        match client {
            Some(client) => {
                self.by_client.entry(client).or_default();
            }
            None => self.pool_is_open = true,
        }
    }

    pub(crate) fn note(&mut self, client: Option<u64>, key: &[u8], access: Access) {
        if key.len() > Limits::default().key_bytes_max {
            return; // No record has such a key.
        }
        let multi = match client {
            Some(client) => match self.by_client.get_mut(&client) {
                Some(multi) => multi,
                None => return,
            },
            None => &mut self.pooled,
        };
        if let Some(known) = multi.used.get_mut(key) {
            if access == Access::Write && !is_planted(Bug::ReadThenWrittenIsRead) {
                *known = access;
            }
            return;
        }
        let bytes = key.len() + ENTRY_BYTES;
        if multi.bytes + bytes > BYTES_MAX || self.bytes + bytes > ALL_BYTES_MAX {
            multi.is_overfull = !is_planted(Bug::OverfullForgotten);
            return;
        }
        multi.used.insert(Bytes::copy_from(key), access);
        multi.bytes += bytes;
        self.bytes += bytes;
    }

    /// A command came of whose changes nobody tells: of its keys, or of anything. It is carried out at once, or with an EXEC.
    pub(crate) fn note_silent(&mut self, client: Option<u64>, of_anything: bool) {
        let multi = match client {
            Some(client) => self.by_client.get_mut(&client),
            None => Some(&mut self.pooled).filter(|_| self.pool_is_open),
        };
        if let Some(multi) = multi {
            multi.is_silent = true;
            multi.is_silent_of_anything |= of_anything;
        }
    }

    /// What this client's EXEC may change without that anybody tells.
    pub(crate) fn silent(&self, client: Option<u64>) -> Option<Queued<'_>> {
        let multi = match client {
            Some(client) => self.by_client.get(&client),
            None => Some(&self.pooled),
        };
        match multi {
            Some(multi) if multi.is_silent_of_anything => Some(Queued::Anything),
            // Also where all is known, and where nothing is.
            Some(multi) if !multi.is_silent && !multi.is_overfull && !self.unseen.is_any() => None,
            _ => self.queued(client),
        }
    }

    /// A change of the access control lists came: it is carried out at once, or with an EXEC.
    pub(crate) fn note_rights(&mut self, client: Option<u64>) {
        self.changes_rights |= self.is_open(client);
    }

    /// Whether an EXEC may change them.
    pub(crate) fn changes_rights(&self) -> bool {
        self.changes_rights
    }

    /// What this client's EXEC is going to use.
    pub(crate) fn queued(&self, client: Option<u64>) -> Option<Queued<'_>> {
        let multi = match client {
            Some(client) => self.by_client.get(&client),
            None => Some(&self.pooled).filter(|_| !self.unseen.is_any()),
        };
        match multi {
            None => self.unseen.is_any().then_some(Queued::Anything),
            Some(multi) if multi.is_overfull => Some(Queued::Anything),
            Some(multi) => Some(Queued::Keys(&multi.used)),
        }
    }

    /// This client's MULTI is over, one way or the other. A pool stays open for the others.
    pub(crate) fn end(&mut self, client: Option<u64>) {
        if let Some(over) = client.and_then(|client| self.by_client.remove(&client)) {
            self.bytes -= over.bytes;
        }
    }

    /// Nobody has one open of whom it is not known.
    pub(crate) fn end_all(&mut self) {
        self.pool_is_open = false;
        self.bytes -= std::mem::take(&mut self.pooled).bytes;
    }

    /// Whether it is worth asking who has a MULTI open.
    pub(crate) fn wants_look(&self) -> bool {
        self.pool_is_open || self.unseen.is_any()
    }

    /// Is told who has a MULTI open, `None` where nobody asked or the server does not say, and forgets what is over.
    pub(crate) fn look(&mut self, open: Option<Vec<u64>>) {
        if let Some(open) = open.filter(|_| self.wants_look()) {
            if open.is_empty() {
                self.end_all();
            }
            let suspects = match std::mem::take(&mut self.unseen) {
                Unseen::Anybody => open,
                Unseen::Clients(known) => known.into_iter().filter(|client| open.contains(client)).collect(),
                Unseen::Nobody => Vec::new(),
            };
            if !suspects.is_empty() {
                self.unseen = Unseen::Clients(suspects);
            }
        }
        if !self.is_any() {
            self.changes_rights = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use claret_types::Access;

    use super::{ALL_BYTES_MAX, BYTES_MAX, ENTRY_BYTES, OpenMultis, Queued};

    fn names(open: &OpenMultis, client: Option<u64>) -> Option<usize> {
        match open.queued(client)? {
            Queued::Keys(used) => Some(used.len()),
            Queued::Anything => None,
        }
    }

    #[test]
    fn what_is_noted_is_bounded_for_each_and_for_all_and_goes_with_its_multi() {
        let mut open = OpenMultis::default();
        let key = |number: usize| format!("{number:01000}");
        let mut client = 0;
        while open.bytes + BYTES_MAX <= ALL_BYTES_MAX {
            client += 1;
            open.begin(Some(client));
            (0..)
                .take_while(|number| {
                    open.note(Some(client), key(*number).as_bytes(), Access::Read);
                    names(&open, Some(client)).is_some()
                })
                .for_each(drop);
        }
        assert!(open.bytes > ALL_BYTES_MAX / 2 && open.bytes <= ALL_BYTES_MAX, "{}", open.bytes);
        assert!(client >= 15, "each has its own bound");
        // One with little in it is told apart still, until there is room for nothing.
        open.begin(Some(99));
        open.note(Some(99), b"k", Access::Read);
        assert_eq!(names(&open, Some(99)), Some(1));
        for over in 1..=client {
            open.end(Some(over));
            assert!(!open.is_open(Some(over)));
        }
        open.end(Some(99));
        assert_eq!((open.bytes, open.is_any()), (0, false));
    }

    #[test]
    fn of_a_multi_with_too_many_keys_any_counts() {
        let mut open = OpenMultis::default();
        open.begin(Some(1));
        (0..=BYTES_MAX / ENTRY_BYTES).for_each(|number| {
            open.note(Some(1), number.to_string().as_bytes(), Access::Read);
        });
        assert!(matches!(open.queued(Some(1)), Some(Queued::Anything)));
    }

    #[test]
    fn a_key_that_is_written_once_is_written() {
        let mut open = OpenMultis::default();
        open.begin(Some(1));
        for access in [Access::Read, Access::Write, Access::Read] {
            open.note(Some(1), b"k", access);
        }
        let Some(Queued::Keys(used)) = open.queued(Some(1)) else { panic!("its keys") };
        assert_eq!(used.iter().map(|(_, access)| *access).collect::<Vec<_>>(), [Access::Write]);
    }

    #[test]
    fn who_began_before_anybody_looked_may_use_anything_until_it_is_done() {
        let mut open = OpenMultis::default();
        open.begin_to_look();
        assert!(open.is_any() && matches!(open.queued(Some(1)), Some(Queued::Anything)));
        open.look(None);
        assert!(matches!(open.queued(None), Some(Queued::Anything)), "the server did not say");
        open.look(Some(vec![1, 2]));
        open.look(Some(vec![2, 3]));
        assert!(open.is_any(), "2 had one open whenever that was asked");
        open.look(Some(vec![3]));
        assert!(!open.is_any() && open.queued(Some(3)).is_none(), "3 began when it was looked at");
    }

    #[test]
    fn where_nobody_is_named_all_keys_count_until_no_multi_is_open() {
        let mut open = OpenMultis::default();
        open.note(None, b"before", Access::Read);
        open.begin(None);
        open.note(None, b"k", Access::Read);
        open.note_rights(None);
        open.end(None);
        assert!(open.is_open(None) && open.changes_rights(), "somebody else may have one open");
        open.look(Some(vec![9]));
        assert!(open.is_open(None));
        open.look(Some(Vec::new()));
        assert_eq!((open.is_any(), open.changes_rights(), open.bytes), (false, false, 0));
    }

    #[test]
    fn no_record_has_a_key_so_long_and_none_is_kept() {
        let mut open = OpenMultis::default();
        open.begin(Some(1));
        open.note(Some(1), &vec![b'x'; 1 << 20], Access::Write);
        open.note(Some(2), b"k", Access::Write);
        assert_eq!((names(&open, Some(1)), open.bytes), (Some(0), 0), "and 2 has no MULTI open");
    }
}
