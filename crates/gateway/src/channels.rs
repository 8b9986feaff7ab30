//! Channels of this process: who listens, and messages to them. Before servers these do it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{Bytes as Word, BytesMut};
use claret::keys::Pattern;
use claret_commands::{Answer, Command, pattern};
use claret_planted::{Bug, is_planted};
use claret_types::Bytes;

use crate::fault::Fault;
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::registry::Entry;
use crate::replies::Replies;
use crate::resp::{Protocol, write};

/// Those of all connections.
#[derive(Default)]
pub(crate) struct Channels(RefCell<BTreeMap<u64, Listener>>);

/// Somebody who listens.
struct Listener {
    replies: Arc<Replies>,
    entry: Arc<Entry>,
    memory: Arc<Memory>,
    protocol: Protocol,
    unread_max: usize,
    names: BTreeSet<Word>,
    patterns: BTreeMap<Word, Pattern>,
    /// Of `SSUBSCRIBE`: by themselves, though all slots are here.
    of_slots: BTreeSet<Word>,
}

/// That a client listens here. Dropping it ends that.
pub(crate) struct ListeningHere {
    channels: Rc<Channels>,
    id: u64,
    metrics: Arc<Metrics>,
}

impl Drop for ListeningHere {
    fn drop(&mut self) {
        if let Some(listener) = self.channels.0.borrow_mut().remove(&self.id) {
            listener.entry.note_listens([0, 0]);
        }
        self.metrics.subscribed.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Channels {
    /// A client begins to listen, to nothing so far.
    pub(crate) fn begin(
        self: &Rc<Self>,
        replies: &Arc<Replies>,
        entry: &Arc<Entry>,
        memory: &Arc<Memory>,
        (protocol, unread_max): (Protocol, usize),
    ) -> ListeningHere {
        let metrics = Arc::clone(memory.metrics());
        metrics.subscribed.fetch_add(1, Ordering::Relaxed);
        let listener = Listener {
            replies: Arc::clone(replies),
            entry: Arc::clone(entry),
            memory: Arc::clone(memory),
            protocol,
            unread_max,
            names: BTreeSet::new(),
            patterns: BTreeMap::new(),
            of_slots: BTreeSet::new(),
        };
        self.0.borrow_mut().insert(entry.id, listener);
        ListeningHere { channels: Rc::clone(self), id: entry.id, metrics }
    }

    /// Sends a message to all who listen to the channel: how many. O(who listens to anything).
    pub(crate) fn publish(&self, is_of_slot: bool, channel: &Word, text: &Word) -> i64 {
        let mut heard = 0;
        for listener in self.0.borrow().values() {
            let mut tell = |parts: &[&[u8]]| {
                heard += 1;
                let all = parts.iter().map(|part| Answer::Bulk(Bytes::copy_from(part)));
                listener.tell(all);
            };
            if is_of_slot {
                if listener.of_slots.contains(channel) {
                    tell(&[b"smessage", channel, text]);
                }
                continue;
            }
            if listener.names.contains(channel) {
                tell(&[b"message", channel, text]);
            }
            for (pattern, _) in listener
                .patterns
                .iter()
                .filter(|(_, pattern)| pattern.matches(channel) || is_planted(Bug::PatternsMatchAll))
            {
                tell(&[b"pmessage", pattern, channel, text]);
            }
        }
        heard
    }

    /// `PUBSUB`.
    pub(crate) fn about(&self, words: &[Word]) -> Result<Answer, Fault> {
        let sub = words.get(1).map(|word| word.to_ascii_uppercase()).unwrap_or_default();
        let all = self.0.borrow();
        let names = |is_of_slots: bool| {
            all.values().flat_map(move |it| if is_of_slots { &it.of_slots } else { &it.names })
        };
        let list = |is_of_slots, wanted: &[u8]| -> Result<Answer, Fault> {
            let wanted = pattern(wanted)?;
            let found: BTreeSet<&Word> = names(is_of_slots).filter(|name| wanted.matches(name)).collect();
            Ok(Answer::strings(found.into_iter().map(|name| Bytes::copy_from(name))))
        };
        let count = |is_of_slots, asked: &[Word]| {
            let of = |name: &Word| {
                let count = names(is_of_slots).filter(|known| *known == name).count();
                [Answer::Bulk(Bytes::copy_from(name)), Answer::count(count)]
            };
            Answer::Array(asked.iter().flat_map(of).collect())
        };
        match (&sub[..], &words[2.min(words.len())..]) {
            (b"CHANNELS", []) => list(false, b"*"),
            (b"CHANNELS", [wanted]) => list(false, wanted),
            (b"SHARDCHANNELS", []) => list(true, b"*"),
            (b"SHARDCHANNELS", [wanted]) => list(true, wanted),
            (b"NUMSUB", asked) => Ok(count(false, asked)),
            (b"SHARDNUMSUB", asked) => Ok(count(true, asked)),
            (b"NUMPAT", []) => {
                let all: BTreeSet<&Word> = all.values().flat_map(|it| it.patterns.keys()).collect();
                Ok(Answer::count(all.len()))
            }
            _ => Err(Fault::told(
                "ERR of PUBSUB there are CHANNELS [pattern], NUMSUB [channel ...], NUMPAT, SHARDCHANNELS [pattern] and SHARDNUMSUB \
                 [channel ...] here",
            )),
        }
    }
}

impl ListeningHere {
    /// `SUBSCRIBE` and its kin: each channel is confirmed. How many it listens to then.
    pub(crate) fn change(&self, command: &Command, channels: &[Word]) -> Result<usize, Fault> {
        let read: Vec<Pattern> = match command.name {
            "PSUBSCRIBE" => channels.iter().map(|word| pattern(word)).collect::<Result<_, _>>()?,
            _ => Vec::new(),
        };
        let mut all = self.channels.0.borrow_mut();
        let listener = all.get_mut(&self.id).expect("it listens");
        let mut changed: Vec<Option<Word>> = channels.iter().cloned().map(Some).collect();
        if channels.is_empty() {
            changed = match command.name {
                "UNSUBSCRIBE" => listener.names.iter().cloned().map(Some).collect(),
                "PUNSUBSCRIBE" => listener.patterns.keys().cloned().map(Some).collect(),
                _ => listener.of_slots.iter().cloned().map(Some).collect(),
            };
            if changed.is_empty() {
                changed.push(None);
            }
        }
        let mut read = read.into_iter();
        for channel in changed {
            match (command.name, &channel) {
                ("SUBSCRIBE", Some(name)) => drop(listener.names.insert(name.clone())),
                ("PSUBSCRIBE", Some(name)) => {
                    let pattern = read.next().expect("each was read");
                    listener.patterns.insert(name.clone(), pattern);
                }
                ("SSUBSCRIBE", Some(name)) => drop(listener.of_slots.insert(name.clone())),
                ("UNSUBSCRIBE", Some(name)) => drop(listener.names.remove(name)),
                ("PUNSUBSCRIBE", Some(name)) => drop(listener.patterns.remove(name)),
                (_, Some(name)) => drop(listener.of_slots.remove(name)),
                (_, None) => {}
            }
            let [of_names, of_slots] = listener.counts();
            let count = if command.name.starts_with('S') && command.name != "SUBSCRIBE" {
                of_slots
            } else {
                of_names
            };
            let name = Answer::text(command.name.to_ascii_lowercase());
            let channel = channel.map_or(Answer::Nil, |channel| Answer::Bulk(Bytes::copy_from(&channel)));
            listener.tell([name, channel, Answer::count(count)]);
        }
        let counts = listener.counts();
        listener.entry.note_listens(counts.map(|count| i64::try_from(count).unwrap_or(i64::MAX)));
        Ok(counts.iter().sum())
    }
}

impl Listener {
    /// Of channels and patterns, and of channels of slots.
    fn counts(&self) -> [usize; 2] {
        [self.names.len() + self.patterns.len(), self.of_slots.len()]
    }

    fn tell(&self, parts: impl IntoIterator<Item = Answer, IntoIter: ExactSizeIterator>) {
        let parts = parts.into_iter();
        let sign = if self.protocol == Protocol::Resp3 { '>' } else { '*' };
        let mut out = BytesMut::from(format!("{sign}{}\r\n", parts.len()).as_bytes());
        parts.for_each(|part| write(&part, &mut out, self.protocol));
        self.replies.push(&out);
        // Who reads too slowly is dropped, as a server drops it.
        if self.replies.load().unread_bytes > self.unread_max {
            let why = format!("over {} bytes of messages wait for it: read them sooner", self.unread_max);
            self.memory.close(&self.entry, why);
        }
    }
}
