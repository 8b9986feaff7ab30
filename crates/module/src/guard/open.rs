//! Keys of commands that were queued in a MULTI: the server shows a command to the filter when it is queued, and not when
//! it runs, so they are looked at again at EXEC.
//!
//! Where the server names the client to the filter, each has keys of its own. Redis 7.0 does not: there the keys of all
//! commands count that pass while any client has a MULTI open, so an EXEC may be refused for the key of another.
//!
//! Nobody looks before there is a shard. A MULTI that is older than it may use any key, so until none is open that was
//! not seen, an EXEC is refused while anything is held.

use claret_types::{Access, Bytes};
use hashbrown::HashMap;

use crate::ffi::{Answer, Ctx, Text};
use crate::host::limits;

/// More keys than these are not told apart: then every EXEC is refused while anything is held.
const KEYS_MAX: usize = 65_536;

type Used = HashMap<Bytes, Access, foldhash::fast::FixedState>;

/// See the module's text.
#[derive(Default)]
pub(super) struct OpenMultis {
    by_client: HashMap<u64, Used, foldhash::fast::FixedState>,
    pooled: Used,
    /// Somebody may have one open, and who is not known.
    pool_is_open: bool,
    unseen: Unseen,
    is_overfull: bool,
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
pub(super) enum Queued<'a> {
    Keys(&'a Used),
    /// Too many to tell.
    Anything,
}

impl OpenMultis {
    /// Whether keys have to be noted at all.
    pub(super) fn is_any(&self) -> bool {
        self.pool_is_open || self.unseen.is_any() || !self.by_client.is_empty()
    }

    /// Whether those of this client have.
    pub(super) fn is_open(&self, client: Option<u64>) -> bool {
        match client {
            Some(client) => self.by_client.contains_key(&client),
            None => self.pool_is_open,
        }
    }

    /// Commands are looked at from now on, and were not before.
    pub(super) fn begin_to_look(&mut self, ctx: Ctx) {
        // What was known of an earlier shard's time may be over.
        *self = OpenMultis { unseen: Unseen::Anybody, ..OpenMultis::default() };
        self.look(ctx);
    }

    pub(super) fn begin(&mut self, client: Option<u64>) {
        match client {
            Some(client) => {
                self.by_client.entry(client).or_default();
            }
            None => self.pool_is_open = true,
        }
    }

    pub(super) fn note(&mut self, client: Option<u64>, key: &[u8], access: Access) {
        if key.len() > limits().key_bytes_max {
            return; // No record has such a key.
        }
        let used = match client {
            Some(client) => match self.by_client.get_mut(&client) {
                Some(used) => used,
                None => return,
            },
            None => &mut self.pooled,
        };
        if used.len() >= KEYS_MAX {
            self.is_overfull = true;
            return;
        }
        match used.get_mut(key) {
            Some(known) if access == Access::Write => *known = Access::Write,
            Some(_) => {}
            None => {
                used.insert(Bytes::copy_from(key), access);
            }
        }
    }

    /// A change of the access control lists came: it is carried out at once, or with an EXEC.
    pub(super) fn note_rights(&mut self, client: Option<u64>) {
        self.changes_rights |= self.is_open(client);
    }

    /// Whether an EXEC may change them.
    pub(super) fn changes_rights(&self) -> bool {
        self.changes_rights
    }

    /// What this client's EXEC is going to use.
    pub(super) fn queued(&self, client: Option<u64>) -> Option<Queued<'_>> {
        let used = match client {
            Some(client) => self.by_client.get(&client),
            None => Some(&self.pooled).filter(|_| !self.unseen.is_any()),
        };
        match used {
            None => self.unseen.is_any().then_some(Queued::Anything),
            Some(_) if self.is_overfull => Some(Queued::Anything),
            Some(used) => Some(Queued::Keys(used)),
        }
    }

    /// This client's MULTI is over, one way or the other. A pool stays open for the others.
    pub(super) fn end(&mut self, client: Option<u64>) {
        if let Some(client) = client {
            self.by_client.remove(&client);
        }
    }

    pub(super) fn closed(&mut self, client: u64) {
        self.by_client.remove(&client);
    }

    /// Looks whether anybody has a MULTI open still, and forgets the pool if not. O(clients), while a pool is open.
    pub(super) fn look(&mut self, ctx: Ctx) {
        if let Some(open) =
            (self.pool_is_open || self.unseen.is_any()).then(|| clients_in_multi(ctx)).flatten()
        {
            if open.is_empty() {
                self.pool_is_open = false;
                self.pooled = Used::default();
                self.is_overfull = false;
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
            self.is_overfull = false;
            self.changes_rights = false;
        }
    }
}

/// `None`: the server does not say.
fn clients_in_multi(ctx: Ctx) -> Option<Vec<u64>> {
    let Answer::Bytes(list) = ctx.call(c"CLIENT", c"Ev", &[Text::new(b"LIST")]) else { return None };
    let list = String::from_utf8_lossy(&list).into_owned();
    let field = |line: &str, name: &str| {
        line.split(' ').find_map(|field| field.strip_prefix(name)).and_then(|value| value.parse::<i64>().ok())
    };
    let open = list.lines().filter(|line| field(line, "multi=").is_some_and(|commands| commands >= 0));
    Some(open.filter_map(|line| u64::try_from(field(line, "id=")?).ok()).collect())
}
