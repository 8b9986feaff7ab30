//! Pops that sleep in the server itself.
//!
//! The server serves them at the end of the command that brings something, without asking the guard. Until the first
//! session or transaction comes to this node that is right, and the module only notes such pops. From then on, pops
//! sleep in the module ([`crate::entries::pops`]), and those that slept before stay where they are as long as that is
//! safe:
//!
//! - Only one transaction at a time holds a key on which a pop may sleep. A plain command that writes such a key
//!   waits until the transaction is over, so nothing reaches a blocked client while anybody relies on the key. What the
//!   transaction itself adds reaches it after the locks are released.
//! - If a second transaction comes to such a key, or any transaction to a key to which a blocked client would move
//!   something, all pops that sleep in the server are told that their time is over, before that transaction gets
//!   anything. This happens once in the life of a server.

use claret_core::TxId;
use claret_planted::{Bug, is_planted};
use claret_types::Bytes;
use hashbrown::HashMap;

use crate::ffi::ClientInfo;

/// More keys than these are not told apart.
const KEYS_MAX: usize = 16_384;

/// See the module's text.
#[derive(Default)]
pub(crate) struct BlockedClients {
    /// A session or a transaction has come to this node.
    is_used: bool,
    /// On any key.
    is_anywhere: bool,
    /// Counts entries: what two transactions do in one of them comes to a blocked client only at its end.
    entry: u64,
    /// Something was carried out to which the server may not have woken blocked clients yet.
    is_stirred: bool,
    keys: HashMap<Bytes, PopKey, foldhash::fast::FixedState>,
}

/// A key on which some may sleep.
#[derive(Clone, Copy, Default)]
struct PopKey {
    /// Something may be moved to it.
    is_target: bool,
    /// The transaction that came to it last, and in which entry.
    last: Option<(TxId, u64)>,
}

impl BlockedClients {
    pub(crate) fn come(&mut self) {
        self.is_used = true;
    }

    pub(crate) fn is_used(&self) -> bool {
        self.is_used
    }

    /// Whether a pop may sleep on this key in the server.
    pub(crate) fn is_on(&self, key: &[u8]) -> bool {
        self.is_anywhere || (!self.keys.is_empty() && self.keys.contains_key(key))
    }

    pub(crate) fn is_any(&self) -> bool {
        self.is_anywhere || !self.keys.is_empty()
    }

    /// A pop is going to sleep in the server.
    pub(crate) fn note(&mut self, key: &[u8], is_target: bool) {
        if self.keys.len() >= KEYS_MAX {
            self.is_anywhere = true;
            self.keys.clear();
        }
        if !self.is_anywhere {
            self.keys.entry(Bytes::copy_from(key)).or_default().is_target |= is_target;
        }
    }

    /// Nobody has looked until now.
    /// These are the clients there are; `None` where the server does not say.
    pub(crate) fn begin_to_look(&mut self, clients: Option<&[ClientInfo]>) {
        let is_anywhere = clients.is_none_or(|clients| clients.iter().any(sleeps));
        *self = BlockedClients { is_used: self.is_used, is_anywhere, ..BlockedClients::default() };
    }

    /// Whether it matters which keys transactions come to.
    pub(crate) fn minds_who_comes(&self) -> bool {
        !self.is_used || self.is_any()
    }

    /// Transactions come to these keys; `in_multi`: within an EXEC. Whether all that sleep in the server have to be woken
    /// first: they are taken for woken then.
    pub(crate) fn come_to<'a>(
        &mut self,
        mut keys: impl Iterator<Item = (&'a Bytes, TxId)>,
        in_multi: bool,
        is_held: impl Fn(&Bytes) -> bool,
    ) -> bool {
        // The server looks after blocked clients when a command is over, and all of an EXEC is one.
        if !in_multi {
            self.entry += 1;
        }
        let wakes = keys.any(|(key, tx)| self.comes(key, tx, is_held(key)));
        if wakes {
            *self = BlockedClients { is_used: true, ..BlockedClients::default() };
        }
        self.is_stirred &= in_multi;
        wakes
    }

    /// Something is carried out that no client's command asked for.
    pub(crate) fn stir(&mut self) {
        self.is_stirred |= self.is_any();
    }

    /// A transaction comes to a key. Whether it may not while pops sleep in the server.
    fn comes(&mut self, key: &Bytes, tx: TxId, is_held: bool) -> bool {
        self.is_used = true;
        if self.is_anywhere {
            return true;
        }
        let (entry, is_stirred) = (self.entry, self.is_stirred);
        let Some(known) = self.keys.get_mut(key) else { return false };
        let other = known.last.replace((tx, entry)).filter(|(last, _)| *last != tx);
        let is_in_the_way = |(_, at): (TxId, u64)| is_held || is_stirred || at == entry;
        known.is_target && !is_planted(Bug::TargetsLetBe)
            || other.is_some_and(is_in_the_way) && !is_planted(Bug::SecondComerLetBe)
    }
}

/// Whether it is a pop that sleeps in the server.
pub(crate) fn sleeps(client: &ClientInfo) -> bool {
    let pops = ["blpop", "brpop", "blmove", "brpoplpush", "blmpop", "bzpopmin", "bzpopmax", "bzmpop"];
    client.is_blocked && pops.contains(&client.command.as_str())
}

#[cfg(test)]
mod tests {
    use claret_core::{Sequence, SessionId, TxId};
    use claret_types::Bytes;

    use super::{BlockedClients, KEYS_MAX};
    use crate::ffi::ClientInfo;

    fn tx(number: u64) -> TxId {
        TxId { session: SessionId(1), sequence: Sequence(number) }
    }

    fn comes(blocked_clients: &mut BlockedClients, key: &str, number: u64, is_held: bool) -> bool {
        blocked_clients.come_to([(&Bytes::from(key), tx(number))].into_iter(), false, |_| is_held)
    }

    fn asleep_at(key: &str, is_target: bool) -> BlockedClients {
        let mut blocked_clients = BlockedClients::default();
        blocked_clients.note(key.as_bytes(), is_target);
        blocked_clients
    }

    #[test]
    fn one_transaction_at_a_time_leaves_blocked_clients_alone() {
        let mut blocked_clients = asleep_at("k", false);
        assert!(blocked_clients.minds_who_comes() && !blocked_clients.is_used());
        for number in 1..4 {
            assert!(!comes(&mut blocked_clients, "k", number, false), "the one before is over");
            assert!(!comes(&mut blocked_clients, "k", number, true), "it is its own");
        }
        assert!(blocked_clients.is_used() && blocked_clients.is_on(b"k") && !blocked_clients.is_on(b"l"));
    }

    #[test]
    fn a_second_one_at_a_held_key_wakes_all() {
        let mut blocked_clients = asleep_at("k", false);
        assert!(!comes(&mut blocked_clients, "k", 1, false));
        assert!(comes(&mut blocked_clients, "k", 2, true));
        assert!(!blocked_clients.is_any() && blocked_clients.is_used() && !blocked_clients.minds_who_comes());
    }

    #[test]
    fn a_second_one_in_the_same_entry_wakes_all() {
        let mut blocked_clients = asleep_at("k", false);
        let key = Bytes::from("k");
        assert!(blocked_clients.come_to([(&key, tx(1)), (&key, tx(2))].into_iter(), false, |_| false));
        let mut blocked_clients = asleep_at("k", false);
        assert!(!blocked_clients.come_to([(&key, tx(1))].into_iter(), true, |_| false));
        assert!(
            blocked_clients.come_to([(&key, tx(2))].into_iter(), true, |_| false),
            "an EXEC is one entry"
        );
    }

    #[test]
    fn what_a_timer_carried_out_may_not_have_reached_blocked_clients() {
        let mut blocked_clients = asleep_at("k", false);
        assert!(!comes(&mut blocked_clients, "k", 1, false));
        blocked_clients.stir();
        assert!(comes(&mut blocked_clients, "k", 2, false));
        let mut blocked_clients = asleep_at("k", false);
        assert!(!comes(&mut blocked_clients, "k", 1, false));
        blocked_clients.stir();
        assert!(!comes(&mut blocked_clients, "other", 2, false), "a command that ran since woke them");
        assert!(!comes(&mut blocked_clients, "k", 3, false));
    }

    #[test]
    fn who_comes_to_where_a_blocked_client_would_move_something_wakes_all() {
        let mut blocked_clients = asleep_at("target", true);
        blocked_clients.note(b"source", false);
        assert!(!comes(&mut blocked_clients, "source", 1, false));
        assert!(comes(&mut blocked_clients, "target", 1, false));
    }

    #[test]
    fn whoever_slept_before_anybody_looked_may_sleep_anywhere() {
        let client = |command: &str, is_blocked| ClientInfo {
            command: command.into(),
            is_blocked,
            ..ClientInfo::default()
        };
        for (clients, is_anywhere) in [
            (None, true),
            (Some(vec![client("blpop", true)]), true),
            (Some(vec![client("blpop", false), client("xread", true)]), false),
        ] {
            let mut blocked_clients = asleep_at("k", false);
            blocked_clients.begin_to_look(clients.as_deref());
            assert_eq!(blocked_clients.is_on(b"any"), is_anywhere);
            assert_eq!(comes(&mut blocked_clients, "any", 1, false), is_anywhere);
        }
    }

    #[test]
    fn more_keys_than_are_told_apart_are_all_keys() {
        let mut blocked_clients = BlockedClients::default();
        for number in 0..=KEYS_MAX {
            blocked_clients.note(number.to_string().as_bytes(), false);
        }
        assert!(blocked_clients.is_on(b"any") && blocked_clients.keys.is_empty());
    }
}
