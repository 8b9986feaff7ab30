//! SUBSCRIBE and its kin.

use std::sync::Arc;

use bytes::{Bytes as Word, BytesMut};
use claret_commands::{Answer, Command, NoKeys};

use crate::client::{Client, crosses_slots};
use crate::pubsub::{Listening, ListeningAtNode};
use crate::resp::{Protocol, write};

impl Client {
    /// SUBSCRIBE and its kin. The node confirms, so the gateway answers nothing.
    pub(crate) async fn subscribe(&mut self, command: &'static Command, words: &[Word]) -> Option<Answer> {
        if self.session.as_ref().is_some_and(|session| session.nodes().is_none()) {
            return self.subscribe_here(command, words);
        }
        let slot = match command.slot(words) {
            Ok(slot) => slot,
            Err(NoKeys::SeveralSlots) => return Some(crosses_slots(command).into()),
            Err(NoKeys::Malformed) => None,
        };
        if self.state.listening.is_none() {
            if command.name.contains("UNSUBSCRIBE") {
                return Some(nothing_left(command, words, self.state.protocol));
            }
            if let Err(error) = self.begin_listening(slot).await {
                return Some(Answer::Error(error));
            }
        }
        let node = self.node_of(slot).await;
        let Some(Listening::AtNode(listening)) = &self.state.listening else {
            unreachable!("it was begun at a node")
        };
        if slot.is_some() && node.is_some_and(|node| node != listening.node) {
            return Some(Answer::error(
                "CROSSSLOT a connection listens at one node, and the slot of this channel is on another: use a connection for each, or \
                 SUBSCRIBE, whose messages come from everywhere",
            ));
        }
        let asked = listening.say(words);
        let asked = tokio::time::timeout(self.shared.times.wait, asked);
        match self.unless_gone(asked).await? {
            Ok(Some(0)) => self.state.listening = None,
            Ok(Some(_)) => {}
            // The node is gone, and with it what was listened to: the client has to begin again.
            Ok(None) => self.state.is_closing = true,
            Err(_) => {
                self.state.is_closing = true;
                let wait = self.shared.times.wait;
                return Some(self.shared.late(format!(
                    "TRYAGAIN the node of these channels has not confirmed within {wait:?}: connect, and listen anew"
                )));
            }
        }
        None
    }

    async fn node_of(&self, slot: Option<u16>) -> Option<String> {
        let nodes = self.session.as_ref()?.nodes()?;
        nodes.plain(self.state.protocol).await.ok()?.node_of(slot.unwrap_or_default())
    }

    /// An error is the line for the client.
    async fn begin_listening(&mut self, slot: Option<u16>) -> Result<(), String> {
        let session = self.session.clone().ok_or("NOAUTH Authentication required.")?;
        let nodes = session.nodes().ok_or("CLUSTERDOWN there is no node")?;
        let plain = self.shared.connected(nodes.plain(self.state.protocol)).await?;
        let node = plain.node_of(slot.unwrap_or_default()).ok_or("CLUSTERDOWN no node is known")?;
        let raw = self.shared.connected(nodes.raw(self.state.protocol, &node)).await?;
        let (replies, entry) = (Arc::clone(&self.replies), Arc::clone(&self.entry));
        let memory = Arc::clone(&self.shared.memory);
        let unread_max = self.shared.limits.unread_messages_max;
        let listening = ListeningAtNode::begin(raw, replies, entry, memory, unread_max);
        self.state.listening = Some(Listening::AtNode(listening));
        Ok(())
    }

    /// The same with the channels of this process, which confirm as a node does.
    fn subscribe_here(&mut self, command: &'static Command, words: &[Word]) -> Option<Answer> {
        let begun = self.state.listening.is_some();
        if !begun && command.name.contains("UNSUBSCRIBE") {
            return Some(nothing_left(command, words, self.state.protocol));
        }
        let shared = &self.shared;
        let listening = match self.state.listening.take() {
            Some(Listening::Here(listening)) => listening,
            _ => {
                let form = (self.state.protocol, shared.limits.unread_messages_max);
                shared.here.channels.begin(&self.replies, &self.entry, &shared.memory, form)
            }
        };
        let changed = listening.change(command, &words[1..]);
        self.state.listening = match changed {
            Ok(0) => None,
            Err(_) if !begun => None,
            _ => Some(Listening::Here(listening)),
        };
        changed.err().map(Answer::from)
    }
}

/// UNSUBSCRIBE by somebody who listens to nothing: each channel is confirmed, or none.
fn nothing_left(command: &Command, words: &[Word], protocol: Protocol) -> Answer {
    let name = command.name.to_ascii_lowercase();
    let mut out = BytesMut::new();
    let mut confirm = |channel: Answer| {
        out.extend_from_slice(if protocol == Protocol::Resp3 { b">3\r\n" } else { b"*3\r\n" });
        for part in [Answer::text(name.clone()), channel, Answer::Int(0)] {
            write(&part, &mut out, protocol);
        }
    };
    match &words[1..] {
        [] => confirm(Answer::Nil),
        channels => {
            channels.iter().for_each(|channel| confirm(Answer::Bulk(claret_types::Bytes::copy_from(channel))))
        }
    }
    Answer::Raw(out.freeze())
}
