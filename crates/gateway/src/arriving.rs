//! Commands that take effect only once a node has them on a connection of their own: SUBSCRIBE and its kin, and those that block.
//! What the gateway read from other clients after one of them, and what could tell the difference, waits until it has arrived (G2).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes as Word;
use claret_commands::{Command, Way};
use claret_planted::{Bug, is_planted};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::queue::Slots;

/// How long others wait for one that does not arrive: its node may be away.
const WAIT_MAX: Duration = Duration::from_millis(200);

/// Commands that are followed at once. Others wait for no further one.
const ARRIVING_MAX: usize = 1_024;

/// What such a command is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    /// Channels: who speaks there waits.
    Channels,
    /// Keys of this slot: who uses them waits.
    Slot(u16),
}

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Arriving {
    told: Mutex<Told>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Told {
    last: u64,
    /// In the order in which they were read.
    all: BTreeMap<u64, About>,
}

/// One that has not arrived, until it is dropped.
#[derive(Debug)]
pub(crate) struct Arrival {
    no: u64,
    of: Arc<Arriving>,
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.of.told.lock().all.remove(&self.no);
        self.of.changed.notify_waiters();
    }
}

impl Arriving {
    /// A command was read that has to arrive, if it is one.
    pub(crate) fn enter(self: &Arc<Self>, command: &Command, words: &[Word]) -> Option<Arrival> {
        let about = match command.way {
            Way::PubSub if !command.name.contains("UNSUBSCRIBE") => About::Channels,
            Way::Blocking if command.may_wait(words) => About::Slot(command.slot(words).ok()??),
            _ => return None,
        };
        let mut told = self.told.lock();
        if told.all.len() >= ARRIVING_MAX {
            return None;
        }
        told.last += 1;
        let no = told.last;
        told.all.insert(no, about);
        Some(Arrival { no, of: Arc::clone(self) })
    }

    /// Those for which a command has to wait that was read now. `queued`: the slots of what EXEC carries out.
    pub(crate) fn before(&self, command: &Command, words: &[Word], queued: Option<Slots>) -> Vec<u64> {
        let told = self.told.lock();
        if told.all.is_empty() {
            return Vec::new();
        }
        // A script, and what is queued, may do anything.
        let speaks =
            matches!(command.name, "PUBLISH" | "SPUBLISH" | "PUBSUB" | "EXEC") || command.way == Way::Script;
        let slots = match (queued, command.slot(words)) {
            (Some(slots), _) => slots,
            (None, Ok(Some(slot))) => Slots::One(slot),
            (None, Ok(None)) => Slots::None,
            (None, Err(_)) => Slots::Several,
        };
        let concerns = |about: &About| match (about, slots) {
            (About::Channels, _) => speaks,
            (About::Slot(_), Slots::None) => false,
            (About::Slot(_), Slots::Several) => true,
            (About::Slot(its), Slots::One(slot)) => *its == slot,
        };
        told.all
            .iter()
            .filter(|(_, about)| concerns(about) && !is_planted(Bug::ArrivalsPassed))
            .map(|(no, _)| *no)
            .collect()
    }

    /// Waits until these have arrived, for a bounded time.
    pub(crate) async fn arrived(&self, those: &[u64]) {
        let is_arrived = || {
            let told = self.told.lock();
            !those.iter().any(|no| told.all.contains_key(no))
        };
        let all = async {
            loop {
                let changed = self.changed.notified();
                if is_arrived() {
                    return;
                }
                changed.await;
            }
        };
        let _ = tokio::time::timeout(WAIT_MAX, all).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<Word> {
        line.split(' ').map(|word| Word::copy_from_slice(word.as_bytes())).collect()
    }

    #[test]
    fn only_what_could_tell_the_difference_waits() {
        let arriving = Arc::<Arriving>::default();
        let enter = |line: &str| {
            let words = words(line);
            arriving.enter(claret_commands::named(&words[0]).expect("a command"), &words)
        };
        let waits = |line: &str| {
            let words = words(line);
            !arriving.before(claret_commands::named(&words[0]).expect("a command"), &words, None).is_empty()
        };
        assert!(
            enter("GET k").is_none()
                && enter("XREAD STREAMS k 0").is_none()
                && enter("UNSUBSCRIBE a").is_none()
        );
        let subscribed = enter("SUBSCRIBE a").expect("it has to arrive");
        assert!(waits("PUBLISH a x") && waits("EVAL x 0") && !waits("SET {s}k v") && !waits("SUBSCRIBE b"));
        let blocked = enter("BLPOP {s}k 0").expect("it has to arrive");
        drop(subscribed);
        assert!(!waits("PUBLISH a x"));
        assert!(waits("LPUSH {s}k v") && waits("BLPOP {s}l 0") && waits("MGET {s}k other"));
        assert!(!waits("LPUSH {t}k v") && !waits("PING"));
        let exec = claret_commands::named(b"EXEC").expect("a command");
        assert_eq!(arriving.before(exec, &words("EXEC"), Some(Slots::Several)).len(), 1);
        drop(blocked);
        assert!(!waits("LPUSH {s}k v"));
    }
}
