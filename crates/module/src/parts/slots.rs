//! Slots: where a key belongs, which slots this node owns, and who has the others.
//!
//! In a cluster a node's view comes from `CLUSTER NODES`, asked again every `claret.topology-ms` and whenever something
//! hints at a change; without a cluster one node owns everything. The shard is named after its node, and not after what
//! it owns: slots come and go, and what was voted stays with the node that voted (P26b).

use claret_core::ShardId;
use claret_types::Bytes;

use crate::ffi::{Answer, Ctx, Flag, OnMainThread, Text};
use crate::parts::error::{Error, Outcome};

/// How many slots there are.
pub(crate) const SLOTS: usize = 16_384;

/// The part of a key between its first braces: what is hashed, if there is one.
pub(crate) fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let start = key.iter().position(|byte| *byte == b'{')? + 1;
    let length = key[start..].iter().position(|byte| *byte == b'}')?;
    (length > 0).then(|| &key[start..start + length])
}

/// The slot of a key, as every Redis client computes it.
pub(crate) fn slot_of(key: &[u8]) -> u16 {
    let mut crc = 0;
    for byte in key {
        if *byte == b'{' {
            return crc16(hash_tag(key).unwrap_or(key)) % SLOTS as u16;
        }
        crc = longer(crc, *byte);
    }
    crc % SLOTS as u16
}

/// This node's view, of the moment: asked from within the shard, too.
static VIEW: OnMainThread<Slots> = OnMainThread::new();

/// Puts a newer view in place; the one before, if there was one.
pub(crate) fn renew(ctx: Ctx) -> Option<Slots> {
    let view = Slots::of(ctx);
    let before = VIEW.with(|old| std::mem::replace(old, Slots::nowhere()));
    let Some(mut view) = view else {
        // That nothing is known now is no news of anybody.
        VIEW.set(Some(before.unwrap_or_else(Slots::nowhere)));
        return None;
    };
    view.probe = view.lowest().map(|slot| {
        let same = before.as_ref().and_then(|before| before.probe.clone());
        same.filter(|key| slot_of(key.as_bytes()) == slot).unwrap_or_else(|| probe_of(slot))
    });
    view.remember(before.as_ref());
    VIEW.set(Some(view));
    before
}

fn probe_of(slot: u16) -> String {
    let keys = (0_u32..).map(|number| format!("{{{number}}}claret:probe"));
    let mut keys = keys.filter(|key| slot_of(key.as_bytes()) == slot);
    keys.next().expect("every slot has a number")
}

/// Looks at the view.
pub(crate) fn view<R>(look: impl FnOnce(&Slots) -> R) -> Option<R> {
    VIEW.with(|slots| look(slots))
}

/// Whether an operation on a key may be done here. Keys of a slot on its way from one node to another are nobody's
/// until it has arrived: whether an absent one is here or there is decided key by key (trap 17).
pub(crate) fn serves(key: &Bytes) -> bool {
    let is_served = |slots: &Slots| {
        if !slots.clustered && slots.closed.is_empty() {
            return true;
        }
        let slot = slot_of(key);
        slots.has(slot) && !slots.closed.contains(&slot)
    };
    view(is_served).unwrap_or(false)
}

/// Whether a plain command may be run here: in a slot that is closed, too.
pub(crate) fn has(key: &Bytes) -> bool {
    view(|slots| !slots.clustered || slots.has(slot_of(key))).unwrap_or(false)
}

/// Keeps newcomers away from a slot that is about to leave, until it is opened as often again.
pub(crate) fn close(slot: u16) {
    VIEW.with(|slots| slots.closed.push(slot));
}

/// See [`close`].
pub(crate) fn reopen(slot: u16) {
    VIEW.with(|slots| {
        if let Some(at) = slots.closed.iter().position(|closed| *closed == slot) {
            slots.closed.swap_remove(at);
        }
    });
}

/// Whether the server would carry out a write on a key of this node's now. In a cluster that is down it would not, and
/// an effect that is decided has to be; so nothing is decided then.
pub(crate) fn may_write(ctx: Ctx) -> Outcome {
    let Some(Some(key)) = view(|slots| slots.probe.as_ref().map(|key| Text::new(key.as_bytes()))) else {
        return Ok(());
    };
    // Writes nothing, and is refused as any write would be.
    match ctx.call(c"SETRANGE", c"Ev", &[key, Text::new(b"0"), Text::new(b"")]) {
        Answer::Error(error) if !error.starts_with("WRONGTYPE") => Err(Error::NoWrites(error)),
        _ => Ok(()),
    }
}

/// CRC-16/XMODEM, as Redis Cluster has it.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| longer(crc, *byte))
}

/// The sum with one byte more.
fn longer(crc: u16, byte: u8) -> u16 {
    crc << 8 ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)]
}

const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { crc << 1 ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// A primary of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// Its id on the cluster bus.
    pub(crate) id: String,
    /// `host:port` for clients.
    pub(crate) address: String,
    pub(crate) myself: bool,
    /// The others agreed that it is dead.
    has_failed: bool,
    /// First and last.
    pub(crate) ranges: Vec<(u16, u16)>,
}

impl Node {
    /// The name of its shard: as much of the node's id as fits.
    fn shard(&self) -> Option<ShardId> {
        u32::from_str_radix(self.id.get(..8)?, 16).ok().map(ShardId)
    }
}

/// Who is to be asked for a shard.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Bearer<'a> {
    /// This node, or one that may come back.
    Node(&'a Node),
    /// There was one, and it is no primary any more: a replica took its place, or it left the cluster. What its shard
    /// had in memory is gone.
    Gone,
    /// Nobody that this node ever heard of.
    Unheard,
}

/// Who owns which slot.
#[derive(Debug)]
pub(crate) struct Slots {
    clustered: bool,
    /// For each slot the place of its owner in `nodes`, plus one; 0 is nobody.
    owners: Box<[u16; SLOTS]>,
    nodes: Vec<Node>,
    /// Of this node, with keys on their way to another one, or from it.
    moving: Vec<u16>,
    /// The slots that are here and not on their way: asked for each operation.
    served: Box<[bool; SLOTS]>,
    /// In a cluster: a key of a slot of this node's, at which nothing is.
    probe: Option<String>,
    /// The shards of all primaries that were ever in view.
    heard_of: Vec<ShardId>,
    /// Slots that are about to leave: as often as somebody wants that.
    closed: Vec<u16>,
}

impl Slots {
    /// The node's view. Without a cluster everything is here. `None`: the server does not say.
    pub(crate) fn of(ctx: Ctx) -> Option<Slots> {
        if !ctx.is(Flag::Cluster) {
            return Some(Slots { clustered: false, ..Slots::nowhere() });
        }
        match ctx.call(c"CLUSTER", c"Ev", &[Text::new(b"NODES")]) {
            Answer::Bytes(listing) => Some(Slots::parse(&String::from_utf8_lossy(&listing))),
            _ => None,
        }
    }

    /// A view in which nobody owns anything.
    fn nowhere() -> Slots {
        let (owners, served) = (Box::new([0; SLOTS]), Box::new([false; SLOTS]));
        Slots {
            clustered: true,
            owners,
            nodes: Vec::new(),
            moving: Vec::new(),
            served,
            probe: None,
            heard_of: Vec::new(),
            closed: Vec::new(),
        }
    }

    /// Reads `CLUSTER NODES`.
    fn parse(listing: &str) -> Slots {
        let mut slots = Slots::nowhere();
        for line in listing.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [id, address, flags, _, _, _, _, _, owned @ ..] = &words[..] else { continue };
            let flags: Vec<&str> = flags.split(',').collect();
            if !flags.contains(&"master") {
                continue;
            }
            let address = address.split(['@', ',']).next().unwrap_or_default().to_owned();
            let myself = flags.contains(&"myself");
            let mut ranges = Vec::new();
            for word in owned {
                if let Some(moving) = word.strip_prefix('[') {
                    slots.moving.extend(moving.split('-').next().and_then(|slot| slot.parse::<u16>().ok()));
                } else if let Some(range) = range(word) {
                    ranges.push(range);
                }
            }
            let place = slots.nodes.len() as u16 + 1;
            for (first, last) in &ranges {
                slots.owners[usize::from(*first)..=usize::from(*last)].fill(place);
            }
            let has_failed = flags.contains(&"fail");
            slots.nodes.push(Node { id: (*id).to_owned(), address, myself, has_failed, ranges });
        }
        for slot in 0..SLOTS as u16 {
            slots.served[usize::from(slot)] = slots.is_mine(slot);
        }
        for slot in slots.moving.iter().filter(|slot| usize::from(**slot) < SLOTS) {
            slots.served[usize::from(*slot)] = false;
        }
        slots
    }

    /// Who owns a slot; `None` without a cluster, or if nobody does.
    pub(crate) fn owner(&self, slot: u16) -> Option<&Node> {
        let place = usize::from(self.owners[usize::from(slot)]);
        self.nodes.get(place.checked_sub(1)?)
    }

    /// Whether this node serves a slot.
    pub(crate) fn is_mine(&self, slot: u16) -> bool {
        !self.clustered || self.owner(slot).is_some_and(|node| node.myself)
    }

    fn has(&self, slot: u16) -> bool {
        !self.clustered || self.served[usize::from(slot)]
    }

    fn myself(&self) -> Option<&Node> {
        self.nodes.iter().find(|node| node.myself)
    }

    /// The lowest slot of this node's, in a cluster.
    pub(crate) fn lowest(&self) -> Option<u16> {
        self.myself()?.ranges.iter().map(|(first, _)| *first).min()
    }

    /// Whether this node serves anything.
    pub(crate) fn serves_some(&self) -> bool {
        !self.clustered || self.lowest().is_some()
    }

    /// The name of this node's shard.
    ///
    /// # Errors
    /// The id of another node whose name would be the same: one in four milliards has it.
    pub(crate) fn shard(&self) -> Result<Option<ShardId>, String> {
        if !self.clustered {
            return Ok(Some(ShardId(0)));
        }
        let name = self.myself().and_then(Node::shard);
        let mut others = self.nodes.iter().filter(|node| !node.myself && node.shard() == name);
        others.next().map_or(Ok(name), |other| Err(other.id.clone()))
    }

    /// Whether every slot that `before` had here is here still.
    pub(crate) fn keeps(&self, before: &Slots) -> bool {
        (0..SLOTS as u16).all(|slot| self.is_mine(slot) || !before.is_mine(slot))
    }

    /// Whom to ask for a shard. A primary that serves nothing may have given its slots away, and remembers; one that
    /// is dead as well had them taken.
    pub(crate) fn bearer(&self, shard: ShardId) -> Bearer<'_> {
        let node = self.nodes.iter().find(|node| node.shard() == Some(shard));
        match node.filter(|node| !node.has_failed || !node.ranges.is_empty()) {
            Some(node) => Bearer::Node(node),
            None if self.heard_of.contains(&shard) => Bearer::Gone,
            None => Bearer::Unheard,
        }
    }

    /// Whether a shard is one of this cluster's, or was.
    pub(crate) fn knows(&self, shard: ShardId) -> bool {
        match self.clustered {
            true => self.heard_of.binary_search(&shard).is_ok(),
            // Tests of one node vote as if there were others: in builds for tests the environment allows it.
            false => {
                let planted = || std::env::var("CLARET_PLANTED_SHARDS").is_ok_and(|planted| planted == "1");
                shard == ShardId(0) || cfg!(debug_assertions) && planted()
            }
        }
    }

    /// The shard of the other primary with this id on the cluster bus.
    pub(crate) fn shard_of(&self, id: &[u8]) -> Option<ShardId> {
        self.nodes.iter().find(|node| !node.myself && node.id.as_bytes() == id).and_then(Node::shard)
    }

    fn remember(&mut self, before: Option<&Slots>) {
        self.heard_of = before.map(|before| before.heard_of.clone()).unwrap_or_default();
        self.closed = before.map(|before| before.closed.clone()).unwrap_or_default();
        self.heard_of.extend(self.nodes.iter().filter_map(Node::shard));
        self.heard_of.sort_unstable();
        self.heard_of.dedup();
    }
}

/// `5461` or `0-5460`.
fn range(word: &str) -> Option<(u16, u16)> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last && usize::from(last) < SLOTS).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::{Bearer, ShardId, Slots, hash_tag, slot_of};

    #[test]
    fn slots_are_those_that_redis_computes() {
        for (key, slot) in [("foo", 12182), ("{user1000}.following", 3443), ("123456789", 12739), ("", 0)] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
        assert_eq!(slot_of(b"{user1000}.following"), slot_of(b"user1000"));
        assert_eq!(hash_tag(b"foo{}{bar}"), None);
        assert_eq!(hash_tag(b"foo{{bar}}zap"), Some(&b"{bar"[..]));
    }

    #[test]
    fn a_listing_says_who_owns_what() {
        let listing = "\
            aa000001ff 127.0.0.1:7001@17001 myself,master - 0 1 1 connected 5-10 12 [7->-bb] [3-<-bb]\n\
            bb000002ff 127.0.0.1:7002@17002,host master - 0 1 2 connected 0-4 100-16383\n\
            cc000003ff 127.0.0.1:7003@17003 slave bb 0 1 2 connected\n";
        let slots = Slots::parse(listing);
        assert_eq!(slots.shard(), Ok(Some(ShardId(0xaa00_0001))));
        assert_eq!(slots.lowest(), Some(5));
        assert!(slots.is_mine(12) && !slots.is_mine(11) && !slots.is_mine(4));
        assert_eq!(slots.moving, [7, 3]);
        assert!(slots.served[12] && !slots.served[7] && !slots.served[11]);
        let other = slots.owner(0).expect("owned");
        assert_eq!((other.id.as_str(), other.address.as_str()), ("bb000002ff", "127.0.0.1:7002"));
        assert!(slots.owner(11).is_none());
        assert!(!Slots::parse("aa h:1@2 myself,master - 0 1 1 connected 5-9").keeps(&slots));
        assert!(Slots::parse("aa h:1@2 myself,master - 0 1 1 connected 5-90").keeps(&slots));
    }

    #[test]
    fn the_memory_of_a_shard_is_gone_when_its_node_is_no_primary_any_more() {
        let me = "aa000001 h:1@2 myself,master - 0 1 1 connected 5-10\n";
        let with = |other: &str| {
            let mut slots = Slots::parse(&format!("{me}{other}"));
            slots.remember(None);
            slots
        };
        let other = ShardId(0xbb00_0002);
        let whole = with("bb000002 h:2@3 master - 0 1 2 connected 0-4\n");
        let is_asked = |slots: &Slots| matches!(slots.bearer(other), Bearer::Node(_));
        assert!(is_asked(&whole));
        let later = |other: &str| {
            let mut slots = with(other);
            slots.remember(Some(&whole));
            slots
        };
        assert!(is_asked(&later("bb000002 h:2@3 master,fail - 0 1 2 connected 0-4\n")), "it may come back");
        assert!(is_asked(&later("bb000002 h:2@3 master - 0 1 2 connected\n")), "it gave its slots away");
        assert_eq!(later("bb000002 h:2@3 master,fail - 0 1 2 connected\n").bearer(other), Bearer::Gone);
        assert_eq!(later("bb000002 h:2@3 slave cc 0 1 2 connected\n").bearer(other), Bearer::Gone);
        assert_eq!(later("").bearer(other), Bearer::Gone);
        assert_eq!(with("").bearer(other), Bearer::Unheard, "it may be that nobody told yet");
    }

    #[test]
    fn two_nodes_do_not_share_a_name() {
        let listing = "aa000001ff h:1@2 myself,master - 0 1 1 connected 5\n\
                       aa000001ee h:2@3 master - 0 1 1 connected 6\n";
        assert_eq!(Slots::parse(listing).shard(), Err("aa000001ee".into()));
    }
}
