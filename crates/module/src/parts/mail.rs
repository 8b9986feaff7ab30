//! What shards say to each other and what can go together: what ways to commit say, and decisions. All that
//! is for one node in one turn of the server's loop goes in as few envelopes as it can. An envelope costs a node more than what is in it.

use std::collections::BTreeMap;

use claret_core::message::PeerMessage;
use claret_core::wire;

/// An envelope ends with the first message beyond so many bytes.
const ENVELOPE_BYTES: usize = 32 * 1024;

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Mail {
    /// By the node that it is for: envelopes, the last of which is not full.
    envelopes: BTreeMap<String, Vec<Vec<u8>>>,
    /// Somebody is going to take them.
    is_awaited: bool,
}

impl Mail {
    /// Whether a message may wait for others. What is said of clocks, and questions of who is in doubt, go at once.
    pub(crate) fn may_wait(message: &PeerMessage) -> bool {
        match message {
            PeerMessage::Way { .. } | PeerMessage::Answer { .. } => true,
            PeerMessage::Inquire { .. } | PeerMessage::AskClock { .. } | PeerMessage::Clock { .. } => false,
        }
    }

    /// Puts a message with others for this node. Whether nobody is going to take them yet.
    pub(crate) fn put(&mut self, node: String, message: &PeerMessage) -> bool {
        let envelopes = self.envelopes.entry(node).or_default();
        match envelopes.last_mut().filter(|envelope| envelope.len() < ENVELOPE_BYTES) {
            Some(envelope) => wire::append_peer(message, envelope),
            None => envelopes.push(wire::encode_peer(message)),
        }
        !std::mem::replace(&mut self.is_awaited, true)
    }

    /// Whether something is to be taken.
    pub(crate) fn is_awaited(&self) -> bool {
        self.is_awaited
    }

    /// Takes all.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = (String, Vec<u8>)> + use<> {
        self.is_awaited = false;
        let envelopes = std::mem::take(&mut self.envelopes);
        envelopes
            .into_iter()
            .flat_map(|(node, envelopes)| envelopes.into_iter().map(move |it| (node.clone(), it)))
    }
}

#[cfg(test)]
mod tests {
    use claret_core::message::WayWords;
    use claret_core::{AttemptId, Sequence, SessionId, ShardId, TxId};

    use super::*;

    fn message(sequence: u64) -> PeerMessage {
        let tx = TxId { session: SessionId(7), sequence: Sequence(sequence) };
        let words = WayWords { number: 1, body: b"words".to_vec().into() };
        PeerMessage::Way { attempt: AttemptId { tx, attempt: 1 }, from: ShardId(1), words }
    }

    #[test]
    fn what_is_for_one_node_goes_together_and_in_its_order() {
        let mut mail = Mail::default();
        assert!(mail.put("b".to_owned(), &message(1)));
        assert!(!mail.put("a".to_owned(), &message(2)));
        assert!(!mail.put("b".to_owned(), &message(3)));
        let read =
            |(node, envelope): (String, Vec<u8>)| (node, wire::decode_peers(&envelope).expect("messages"));
        let taken: Vec<_> = mail.take().map(read).collect();
        assert_eq!(
            taken,
            [("a".to_owned(), vec![message(2)]), ("b".to_owned(), vec![message(1), message(3)])]
        );
        assert_eq!(mail.take().count(), 0);
        assert!(mail.put("a".to_owned(), &message(4)), "somebody is to take it");
    }

    #[test]
    fn an_envelope_is_no_longer_than_it_need_be() {
        let mut mail = Mail::default();
        for sequence in 0..10_000 {
            mail.put("a".to_owned(), &message(sequence));
        }
        let envelopes: Vec<_> = mail.take().collect();
        assert!(envelopes.len() > 3 && envelopes.iter().all(|(_, it)| it.len() < ENVELOPE_BYTES + 100));
        let messages = envelopes.iter().map(|(_, it)| wire::decode_peers(it).expect("messages").len());
        assert_eq!(messages.sum::<usize>(), 10_000);
    }
}
