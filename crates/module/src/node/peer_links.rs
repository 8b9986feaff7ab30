//! What is for other nodes, and what goes over the links to them.

use claret_core::message::PeerMessage;

use crate::ffi::Links;
use crate::parts::letters::Letter;
use crate::parts::mail::Mail;
use crate::parts::seals::{Envelope, Seals};

/// The node looks at most so often, in checks, at all files that the server has open, for links that it made anew.
const LOOKED_AT_EACH: u64 = 5;

/// See the module's text.
pub(super) struct PeerLinks {
    /// With what nodes sign; `None` without a secret.
    pub(super) seals: Option<Seals>,
    /// What is for other nodes, until the end of this turn of the server's loop.
    mail: Mail,
    /// Letters, each with the node that it is for, until then.
    letters: Vec<(String, Letter)>,
    links: Links,
    /// Messages to other shards.
    said: u64,
    /// How many these were when links were looked at last, and at which check.
    looked_at: Option<(u64, u64)>,
    /// Another node does not sign as this one does, and that was logged.
    is_forged_said: bool,
}

impl PeerLinks {
    pub(super) fn new(seals: Option<Seals>) -> Self {
        PeerLinks {
            seals,
            mail: Mail::default(),
            letters: Vec::new(),
            links: Links::default(),
            said: 0,
            looked_at: None,
            is_forged_said: false,
        }
    }

    /// Nodes know each other by a secret.
    pub(super) fn have_secret(&self) -> bool {
        self.seals.is_some()
    }

    /// Something is said to another shard.
    pub(super) fn note_said(&mut self) {
        self.said += 1;
    }

    /// Whether links were ever looked at.
    pub(super) fn were_looked_at(&self) -> bool {
        self.looked_at.is_some()
    }

    /// Makes links to these ports quick, if anything was said and they are not. `false`: for the first time it could not look.
    pub(super) fn quicken(&mut self, ports: &[u16], checks: u64) -> bool {
        let is_idle = self.looked_at.is_some_and(|(before, _)| self.said == before);
        if is_idle || self.links.are_quick(ports) {
            return true;
        }
        let is_early = self.looked_at.is_some_and(|(_, then)| checks < then + LOOKED_AT_EACH);
        if is_early {
            return true;
        }
        let has_looked = self.links.quicken(ports) || self.looked_at.is_some();
        self.looked_at = Some((self.said, checks));
        has_looked
    }

    /// How many links are quick.
    pub(super) fn quick(&self) -> usize {
        self.links.count()
    }

    /// Whether a message goes with others: without seals there are no envelopes.
    pub(super) fn may_wait(&self, message: &PeerMessage) -> bool {
        self.have_secret() && Mail::may_wait(message)
    }

    /// Puts a message with others for this node. Whether nobody is going to take them yet.
    pub(super) fn put(&mut self, node: String, message: &PeerMessage) -> bool {
        self.mail.put(node, message)
    }

    pub(super) fn put_letter(&mut self, node: String, letter: Letter) {
        self.letters.push((node, letter));
    }

    pub(super) fn take_letters(&mut self) -> Vec<(String, Letter)> {
        std::mem::take(&mut self.letters)
    }

    /// Whether something is to leave.
    pub(super) fn has_mail(&self) -> bool {
        self.mail.is_awaited()
    }

    /// Takes all that is to leave now.
    pub(super) fn take_mail(&mut self) -> impl Iterator<Item = (String, Vec<u8>)> + use<> {
        self.mail.take()
    }

    /// What leaves for another node as this envelope; `None`: without a secret, or a greeting of that one, it cannot leave.
    pub(super) fn seal(&mut self, own: &str, to: &str, envelope: &Envelope) -> Option<Vec<u8>> {
        match (&mut self.seals, envelope) {
            (Some(seals), envelope) => seals.seal(own, to, envelope),
            (None, Envelope::Peer(message)) => Some(message.clone()),
            (
                None,
                Envelope::Greeting(_)
                | Envelope::Knows { .. }
                | Envelope::TakeOver
                | Envelope::Peers(_)
                | Envelope::Letter(_),
            ) => None,
        }
    }

    /// Another node does not sign as this one does. Whether that is to be logged: it is once.
    pub(super) fn note_forged(&mut self) -> bool {
        !std::mem::replace(&mut self.is_forged_said, true)
    }
}
