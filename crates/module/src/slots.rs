//! Slots: where a key belongs, which slots this node owns, and who has the others.
//!
//! In a cluster a node's view comes from `CLUSTER NODES`, asked again every `claret.topology-ms` and whenever something
//! hints at a change; without a cluster one node owns everything. The shard is named after the lowest slot that the
//! node owned when its incarnation began.

use claret_core::ShardId;
use claret_types::Bytes;

use crate::ffi::{Answer, Ctx, Flag, OnMainThread, Text};

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
    crc16(hash_tag(key).unwrap_or(key)) % SLOTS as u16
}

/// This node's view, of the moment: asked from within the shard, too.
static VIEW: OnMainThread<Slots> = OnMainThread::new();

/// Puts a newer view in place; the one before, if there was one.
pub(crate) fn renew(ctx: Ctx) -> Option<Slots> {
    let mut view = Slots::of(ctx);
    let before = VIEW.with(|old| std::mem::replace(old, Slots::nowhere()));
    view.probe = view.shard().filter(|_| view.clustered).map(|ShardId(slot)| {
        let same = before.as_ref().and_then(|before| before.probe.clone());
        same.filter(|key| u32::from(slot_of(key.as_bytes())) == slot).unwrap_or_else(|| probe_of(slot))
    });
    VIEW.set(Some(view));
    before
}

fn probe_of(slot: u32) -> String {
    let keys = (0_u32..).map(|number| format!("{{{number}}}claret:probe"));
    let mut keys = keys.filter(|key| u32::from(slot_of(key.as_bytes())) == slot);
    keys.next().expect("every slot has a number")
}

/// Looks at the view.
pub(crate) fn view<R>(look: impl FnOnce(&Slots) -> R) -> Option<R> {
    VIEW.with(|slots| look(slots))
}

/// Whether an operation on a key may be done here. Keys of a slot on its way from one node to another are nobody's
/// until it has arrived: whether an absent one is here or there is decided key by key (trap 17).
pub(crate) fn serves(key: &Bytes) -> bool {
    view(|slots| !slots.clustered || slots.served[usize::from(slot_of(key))]).unwrap_or(false)
}

/// Whether the server would carry out a write on a key of this node's now. In a cluster that is down it would not, and
/// an effect that is decided has to be; so nothing is decided then.
pub(crate) fn may_write(ctx: Ctx) -> Result<(), String> {
    let Some(Some(key)) = view(|slots| slots.probe.as_ref().map(|key| Text::new(key.as_bytes()))) else {
        return Ok(());
    };
    // Writes nothing, and is refused as any write would be.
    match ctx.call(c"SETRANGE", c"Ev", &[key, Text::new(b"0"), Text::new(b"")]) {
        Answer::Error(error) if !error.starts_with("WRONGTYPE") => {
            Err(format!("CLUSTERDOWN this node carries out no writes now: {error}"))
        }
        _ => Ok(()),
    }
}

/// CRC-16/XMODEM, as Redis Cluster has it.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| crc << 8 ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
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

/// A node of the cluster that serves slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// Its id on the cluster bus.
    pub(crate) id: String,
    /// `host:port` for clients.
    pub(crate) address: String,
    pub(crate) myself: bool,
    /// First and last.
    pub(crate) ranges: Vec<(u16, u16)>,
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
}

impl Slots {
    /// The node's view. Without a cluster everything is here.
    pub(crate) fn of(ctx: Ctx) -> Slots {
        if !ctx.is(Flag::Cluster) {
            return Slots { clustered: false, ..Slots::nowhere() };
        }
        match ctx.call(c"CLUSTER", c"Ev", &[Text::new(b"NODES")]) {
            Answer::Bytes(listing) => Slots::parse(&String::from_utf8_lossy(&listing)),
            _ => Slots::parse(""),
        }
    }

    /// A view in which nobody owns anything.
    fn nowhere() -> Slots {
        let (owners, served) = (Box::new([0; SLOTS]), Box::new([false; SLOTS]));
        Slots { clustered: true, owners, nodes: Vec::new(), moving: Vec::new(), served, probe: None }
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
            slots.nodes.push(Node { id: (*id).to_owned(), address, myself, ranges });
        }
        for slot in 0..SLOTS as u16 {
            slots.served[usize::from(slot)] = slots.is_mine(slot) && !slots.moving.contains(&slot);
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

    /// The name of the shard that begins now: `None` while this node owns nothing.
    pub(crate) fn shard(&self) -> Option<ShardId> {
        if !self.clustered {
            return Some(ShardId(0));
        }
        let mine = self.nodes.iter().find(|node| node.myself)?;
        mine.ranges.iter().map(|(first, _)| ShardId(u32::from(*first))).min()
    }

    /// Whether every slot that `before` had here is here still.
    pub(crate) fn keeps(&self, before: &Slots) -> bool {
        (0..SLOTS as u16).all(|slot| self.is_mine(slot) || !before.is_mine(slot))
    }

    /// The node that serves the slot after which a shard is named.
    pub(crate) fn node_of(&self, shard: ShardId) -> Option<&Node> {
        self.owner(u16::try_from(shard.0).ok().filter(|slot| usize::from(*slot) < SLOTS)?)
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
    use super::{ShardId, Slots, hash_tag, slot_of};

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
            aa 127.0.0.1:7001@17001 myself,master - 0 1 1 connected 5-10 12 [7->-bb] [3-<-bb]\n\
            bb 127.0.0.1:7002@17002,host master - 0 1 2 connected 0-4 100-16383\n\
            cc 127.0.0.1:7003@17003 slave bb 0 1 2 connected\n";
        let slots = Slots::parse(listing);
        assert_eq!(slots.shard(), Some(ShardId(5)));
        assert!(slots.is_mine(12) && !slots.is_mine(11) && !slots.is_mine(4));
        assert_eq!(slots.moving, [7, 3]);
        assert!(slots.served[12] && !slots.served[7] && !slots.served[11]);
        let other = slots.node_of(ShardId(0)).expect("owned");
        assert_eq!((other.id.as_str(), other.address.as_str()), ("bb", "127.0.0.1:7002"));
        assert!(slots.owner(11).is_none() && slots.node_of(ShardId(20_000)).is_none());
        assert!(!Slots::parse("aa h:1@2 myself,master - 0 1 1 connected 5-9").keeps(&slots));
        assert!(Slots::parse("aa h:1@2 myself,master - 0 1 1 connected 5-90").keeps(&slots));
    }
}
