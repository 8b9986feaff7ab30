//! Slots: which slot a key belongs to, which slots this node owns, and who owns the others.
//!
//! In a cluster a node's view comes from `CLUSTER NODES`, asked again every `claret.topology-ms` and whenever
//! something hints at a change. Without a cluster one node owns everything. A shard is identified by its node, not
//! its slots: slots move, votes stay (P56).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use claret_core::{Incarnation, ShardId};
use claret_planted::{Bug, is_planted};

use crate::parts::members::Members;

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

fn probe_of(slot: u16) -> String {
    let keys = (0_u32..).map(|number| format!("{{{number}}}claret:probe"));
    let mut keys = keys.filter(|key| slot_of(key.as_bytes()) == slot);
    keys.next().expect("every slot has a number")
}

/// Another node whose shard would have the same name, by its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Namesake(pub(crate) String);

/// Slots that are closed to newcomers since they are about to leave, each as often as somebody wants that.
#[derive(Clone, Debug, Default)]
struct ClosedSlots(Rc<RefCell<Vec<u16>>>);

/// A slot is closed for as long as this lives, however it ends.
#[derive(Debug)]
pub(crate) struct Closed {
    slot: u16,
    all: ClosedSlots,
}

impl Closed {
    pub(crate) fn slot(&self) -> u16 {
        self.slot
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        let mut all = self.all.0.borrow_mut();
        if let Some(at) = all.iter().position(|closed| *closed == self.slot) {
            all.swap_remove(at);
        }
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
pub(crate) struct Primary {
    /// Its id on the cluster bus.
    pub(crate) id: String,
    /// `host:port` for clients.
    pub(crate) address: String,
    /// Its port on the cluster bus.
    bus_port: Option<u16>,
    pub(crate) myself: bool,
    /// The others agreed that it is dead.
    has_failed: bool,
    /// First and last.
    pub(crate) ranges: Vec<(u16, u16)>,
    /// The shard that it said it is, where a shard may outlive its node (S13).
    bears: Option<ShardId>,
    /// Only what it said counts.
    is_strict: bool,
}

impl Primary {
    /// The name of its shard.
    fn shard(&self) -> Option<ShardId> {
        if self.is_strict { self.bears } else { self.name() }
    }

    /// The name of a shard that begins there: as much of the node's id as fits.
    fn name(&self) -> Option<ShardId> {
        u32::from_str_radix(self.id.get(..8)?, 16).ok().map(ShardId)
    }
}

/// A primary, and the slots that it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its id on the cluster bus.
    pub(crate) node: String,
    /// First and last.
    pub(crate) ranges: Vec<(u16, u16)>,
}

/// Who is to be asked for a shard.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Bearer<'a> {
    /// This node, or one that may come back.
    Primary(&'a Primary),
    /// There was one, and it is no primary any more: a replica took its place, or it left the cluster. What its shard
    /// had in memory is gone.
    Gone,
    /// Nobody that this node ever heard of.
    Unknown,
}

/// Who owns which slot.
#[derive(Debug)]
pub(crate) struct Slots {
    clustered: bool,
    /// For each slot the place of its owner in `nodes`, plus one; 0 is nobody.
    owners: Box<[u16; SLOTS]>,
    nodes: Vec<Primary>,
    /// Of this node, with keys on their way to another one, or from it.
    moving: Vec<u16>,
    /// The slots that are here and not on their way: asked for each operation.
    served: Box<[bool; SLOTS]>,
    /// In a cluster: a key of a slot of this node's that stays here, at which nothing is.
    probe: Option<String>,
    /// The shards of all primaries that were ever in view.
    heard_of: Vec<ShardId>,
    closed: ClosedSlots,
    /// Tests of one node vote as if there were others.
    has_planted_shards: bool,
    members: Members,
    /// A shard may outlive its node: each node says which one it is, by its id, and as which incarnation.
    said: Option<BTreeMap<String, (ShardId, Incarnation)>>,
}

impl Slots {
    /// A view without a cluster: everything is here.
    pub(crate) fn alone() -> Slots {
        Slots { clustered: false, ..Slots::nowhere() }
    }

    /// A view in which nobody owns anything.
    pub(crate) fn nowhere() -> Slots {
        let (owners, served) = (Box::new([0; SLOTS]), Box::new([false; SLOTS]));
        Slots {
            clustered: true,
            owners,
            nodes: Vec::new(),
            moving: Vec::new(),
            served,
            probe: None,
            heard_of: Vec::new(),
            closed: ClosedSlots::default(),
            has_planted_shards: false,
            members: Members::default(),
            said: None,
        }
    }

    /// In this view a shard may outlive its node, and be borne by another.
    pub(crate) fn strict(self) -> Slots {
        Slots { said: Some(BTreeMap::new()), ..self }
    }

    /// Votes may name shards that do not exist, as tests of one node have them.
    pub(crate) fn with_planted_shards(self, has_planted_shards: bool) -> Slots {
        Slots { has_planted_shards, ..self }
    }

    /// Reads `CLUSTER NODES`.
    pub(crate) fn parse(listing: &str) -> Slots {
        let mut slots = Slots { members: Members::parse(listing), ..Slots::nowhere() };
        for line in listing.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [id, address, flags, _, _, _, _, _, owned @ ..] = &words[..] else { continue };
            let flags: Vec<&str> = flags.split(',').collect();
            if !flags.contains(&"master") {
                continue;
            }
            let mut parts = address.split(['@', ',']);
            let address = parts.next().unwrap_or_default().to_owned();
            let bus_port = parts.next().and_then(|port| port.parse().ok());
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
            let id = (*id).to_owned();
            let (bears, is_strict) = (None, false);
            slots.nodes.push(Primary { id, address, bus_port, myself, has_failed, ranges, bears, is_strict });
        }
        for slot in 0..SLOTS as u16 {
            slots.served[usize::from(slot)] = slots.is_mine(slot);
        }
        for slot in slots.moving.iter().filter(|slot| usize::from(**slot) < SLOTS) {
            slots.served[usize::from(*slot)] = is_planted(Bug::SlotOnItsWayServed);
        }
        slots
    }

    /// Who owns a slot; `None` without a cluster, or if nobody does.
    pub(crate) fn owner(&self, slot: u16) -> Option<&Primary> {
        let place = usize::from(self.owners[usize::from(slot)]);
        self.nodes.get(place.checked_sub(1)?)
    }

    /// Whether this node serves a slot.
    pub(crate) fn is_mine(&self, slot: u16) -> bool {
        !self.clustered || self.owner(slot).is_some_and(|node| node.myself)
    }

    /// Slots on their way from here to another node.
    pub(crate) fn leaving(&self) -> impl Iterator<Item = u16> + '_ {
        let is_here = |slot: &u16| usize::from(*slot) < SLOTS && self.is_mine(*slot);
        self.moving.iter().copied().filter(is_here)
    }

    fn has(&self, slot: u16) -> bool {
        !self.clustered || self.served[usize::from(slot)]
    }

    /// Whether an operation on a key may be done here. Keys of a slot on its way from one node to another are nobody's
    /// until it has arrived: whether an absent one is here or there is decided key by key (trap 17).
    pub(crate) fn serves(&self, key: &[u8]) -> bool {
        let closed = self.closed.0.borrow();
        if !self.clustered && closed.is_empty() {
            return true;
        }
        let slot = slot_of(key);
        self.has(slot) && !closed.contains(&slot)
    }

    /// Whether a plain command may be run on a key here: in a slot that is closed or about to leave, too.
    pub(crate) fn has_key(&self, key: &[u8]) -> bool {
        self.is_mine(slot_of(key))
    }

    /// Keeps newcomers away from a slot that is about to leave.
    pub(crate) fn close(&self, slot: u16) -> Closed {
        self.closed.0.borrow_mut().push(slot);
        Closed { slot, all: self.closed.clone() }
    }

    /// In a cluster: a key of a slot of this node's that stays here, at which nothing is.
    pub(crate) fn probe(&self) -> Option<&str> {
        self.probe.as_deref()
    }

    /// All primaries that have keys, or may remember something.
    pub(crate) fn places(&self) -> Vec<Place> {
        if !self.clustered {
            return vec![Place { node: self.members().own.clone(), ranges: vec![(0, SLOTS as u16 - 1)] }];
        }
        let may_answer = |node: &&Primary| !node.has_failed || !node.ranges.is_empty();
        let place = |node: &Primary| Place { node: node.id.clone(), ranges: node.ranges.clone() };
        self.nodes.iter().filter(may_answer).map(place).collect()
    }

    fn myself(&self) -> Option<&Primary> {
        self.nodes.iter().find(|node| node.myself)
    }

    /// The lowest slot of this node's, in a cluster.
    pub(crate) fn lowest(&self) -> Option<u16> {
        self.myself()?.ranges.iter().map(|(first, _)| *first).min()
    }

    /// The slot of the probe: the lowest that is not on its way, for of one that is the server says where to ask for what is not there,
    /// and that is no answer to whether it would write. If all are on their way there is none, and nothing to write: a slot does not
    /// leave while one of its keys is in use.
    fn probed(&self) -> Option<u16> {
        let served = self.served.iter().position(|is_served| *is_served)?;
        u16::try_from(served).ok()
    }

    /// The shards of all nodes that serve something, as far as this node knows.
    pub(crate) fn owners(&self) -> impl Iterator<Item = ShardId> {
        let serving = self.nodes.iter().filter(|node| !node.ranges.is_empty()).filter_map(Primary::shard);
        serving.chain((!self.clustered).then_some(ShardId(0)))
    }

    /// Whether a slot is here that was another node's in the view before.
    pub(crate) fn takes(&self, before: &Slots) -> bool {
        let was_others = |slot| before.owner(slot).is_some_and(|owner| !owner.myself);
        (0..SLOTS as u16).any(|slot| self.is_mine(slot) && was_others(slot))
    }

    /// Whether this node serves anything.
    pub(crate) fn serves_some(&self) -> bool {
        !self.clustered || self.lowest().is_some()
    }

    /// Where other primaries hear what nodes say to each other.
    pub(crate) fn bus_ports(&self) -> Vec<u16> {
        let others = self.nodes.iter().filter(|node| !node.myself && !node.has_failed);
        others.filter_map(|node| node.bus_port).collect()
    }

    /// Whether another node serves something as a primary, and is not given up.
    pub(crate) fn goes_on(&self, id: &str) -> bool {
        let is_it = |node: &&Primary| node.id == id && !node.myself && !node.has_failed;
        self.nodes.iter().find(is_it).is_some_and(|node| !node.ranges.is_empty())
    }

    /// The name of this node's shard.
    ///
    /// # Errors
    /// The id of another node whose name would be the same: one in four milliards has it.
    pub(crate) fn shard(&self) -> Result<Option<ShardId>, Namesake> {
        if !self.clustered {
            return Ok(Some(ShardId(0)));
        }
        let own = self.myself();
        let name = own.and_then(|own| own.shard().or_else(|| own.name()));
        let mut others = self.nodes.iter().filter(|node| !node.myself && node.shard() == name);
        others.next().map_or(Ok(name), |other| Err(Namesake(other.id.clone())))
    }

    /// Whether every slot that `before` had here is here still.
    pub(crate) fn keeps(&self, before: &Slots) -> bool {
        (0..SLOTS as u16).all(|slot| self.is_mine(slot) || !before.is_mine(slot))
            || is_planted(Bug::LostSlotsUnseen)
    }

    /// Whom to ask for a shard. A primary that serves nothing may have given its slots away, and remembers; one that
    /// is dead as well had them taken.
    pub(crate) fn bearer(&self, shard: ShardId) -> Bearer<'_> {
        if let Some(said) = &self.said {
            // Two may say so as long as one does not know that it has been replaced.
            let bear = |node: &&Primary| node.bears == Some(shard);
            let latest = self.nodes.iter().filter(bear).max_by_key(|node| said.get(&node.id).map(|it| it.1));
            return latest.map_or(Bearer::Unknown, Bearer::Primary);
        }
        let node = self.nodes.iter().find(|node| node.shard() == Some(shard));
        match node.filter(|node| !node.has_failed || !node.ranges.is_empty()) {
            Some(node) => Bearer::Primary(node),
            None if self.heard_of.contains(&shard) && !is_planted(Bug::GoneUnheardOf) => Bearer::Gone,
            None => Bearer::Unknown,
        }
    }

    /// Whether a shard is one of this cluster's, or was.
    pub(crate) fn knows(&self, shard: ShardId) -> bool {
        match self.clustered {
            true => self.heard_of.binary_search(&shard).is_ok(),
            false => shard == ShardId(0) || self.has_planted_shards,
        }
    }

    /// The shard of the other primary with this id on the cluster bus.
    pub(crate) fn shard_of(&self, id: &[u8]) -> Option<ShardId> {
        self.nodes.iter().find(|node| !node.myself && node.id.as_bytes() == id).and_then(Primary::shard)
    }

    /// A node says which shard it is, and as which incarnation; `None`: none.
    pub(crate) fn learn(&mut self, node: &str, bears: Option<(ShardId, Incarnation)>) {
        let Some(said) = self.said.as_mut().filter(|_| self.members.has(node)) else { return };
        match bears {
            Some(bears) => said.insert(node.to_owned(), bears),
            None => said.remove(node),
        };
        self.name_shards();
        let named = bears.map(|(shard, _)| shard).filter(|shard| !self.heard_of.contains(shard));
        self.heard_of.extend(named);
        self.heard_of.sort_unstable();
    }

    fn name_shards(&mut self) {
        let Some(said) = &self.said else { return };
        for node in &mut self.nodes {
            (node.is_strict, node.bears) = (true, said.get(&node.id).map(|(shard, _)| *shard));
        }
    }

    /// The other node that bears a shard as a later incarnation than this one.
    pub(crate) fn successor(&self, shard: ShardId, own: Incarnation) -> Option<&str> {
        let said = self.said.as_ref()?;
        let is_later = |it: &(&String, &(ShardId, Incarnation))| {
            *it.0 != self.members.own && it.1.0 == shard && it.1.1 > own
        };
        said.iter().find(is_later).map(|(node, _)| node.as_str())
    }

    /// The name of a shard that begins here.
    pub(crate) fn own_name(&self) -> Option<ShardId> {
        match self.clustered {
            true => self.myself().and_then(Primary::name),
            false => Some(ShardId(0)),
        }
    }

    pub(crate) fn members(&self) -> &Members {
        &self.members
    }

    /// Takes over what is remembered of the view before, whatever is in view now.
    pub(crate) fn follow(&mut self, before: Option<&Slots>) {
        self.probe = self.probed().map(|slot| {
            let same = before.and_then(|before| before.probe.clone());
            same.filter(|key| slot_of(key.as_bytes()) == slot).unwrap_or_else(|| probe_of(slot))
        });
        if let (Some(said), Some(known)) = (&mut self.said, before.and_then(|before| before.said.as_ref())) {
            said.clone_from(known);
            said.retain(|id, _| self.members.has(id));
        }
        self.name_shards();
        self.heard_of = before.map(|before| before.heard_of.clone()).unwrap_or_default();
        self.closed = before.map(|before| before.closed.clone()).unwrap_or_default();
        self.heard_of.extend(self.nodes.iter().filter_map(Primary::shard));
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
    use super::{Bearer, Incarnation, Namesake, ShardId, Slots, hash_tag, slot_of};

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
        assert!(slots.goes_on("bb000002ff"));
        assert!(!slots.goes_on("aa000001ff"), "it is this node");
        assert!(!slots.goes_on("cc000003ff") && !slots.goes_on("dd"));
        let failed =
            Slots::parse("aa h:1@2 myself,master - 0 1 1 connected\nbb h:2@3 master,fail - 0 1 1 - 0-4");
        assert!(!failed.goes_on("bb"));
        let other = slots.owner(0).expect("owned");
        assert_eq!((other.id.as_str(), other.address.as_str()), ("bb000002ff", "127.0.0.1:7002"));
        assert!(slots.owner(11).is_none());
        assert!(!Slots::parse("aa h:1@2 myself,master - 0 1 1 connected 5-9").keeps(&slots));
        assert!(Slots::parse("aa h:1@2 myself,master - 0 1 1 connected 5-90").keeps(&slots));
        let nothing =
            Slots::parse("aa h:1@2 myself,master - 0 1 1 connected\nbb h:2@3 master - 0 1 1 connected 0-4");
        let takes = |listing| Slots::parse(listing).takes(&nothing);
        assert!(takes("aa h:1@2 myself,master - 0 1 1 connected 4-9"), "though it had nothing before");
        assert!(!takes("aa h:1@2 myself,master - 0 1 1 connected 5-9"), "that was nobody's");
    }

    #[test]
    fn the_memory_of_a_shard_is_gone_when_its_node_is_no_primary_any_more() {
        let me = "aa000001 h:1@2 myself,master - 0 1 1 connected 5-10\n";
        let with = |other: &str| {
            let mut slots = Slots::parse(&format!("{me}{other}"));
            slots.follow(None);
            slots
        };
        let other = ShardId(0xbb00_0002);
        let whole = with("bb000002 h:2@3 master - 0 1 2 connected 0-4\n");
        let is_asked = |slots: &Slots| matches!(slots.bearer(other), Bearer::Primary(_));
        assert!(is_asked(&whole));
        let later = |other: &str| {
            let mut slots = with(other);
            slots.follow(Some(&whole));
            slots
        };
        assert!(is_asked(&later("bb000002 h:2@3 master,fail - 0 1 2 connected 0-4\n")), "it may come back");
        assert!(is_asked(&later("bb000002 h:2@3 master - 0 1 2 connected\n")), "it gave its slots away");
        assert_eq!(later("bb000002 h:2@3 master,fail - 0 1 2 connected\n").bearer(other), Bearer::Gone);
        assert_eq!(later("bb000002 h:2@3 slave cc 0 1 2 connected\n").bearer(other), Bearer::Gone);
        assert_eq!(later("").bearer(other), Bearer::Gone);
        assert_eq!(with("").bearer(other), Bearer::Unknown, "it may be that nobody told yet");
    }

    #[test]
    fn a_strict_shard_is_where_the_latest_incarnation_says_that_it_is() {
        let listing = "aa000001 h:1@2 myself,master - 0 1 1 connected 5-10\n\
                       bb000002 h:2@3 master - 0 1 2 connected 0-4\n\
                       cc000003 h:3@4 master - 0 1 3 connected\n";
        let mut slots = Slots::parse(listing).strict();
        slots.follow(None);
        let (lineage, other) = (ShardId(0xbb00_0002), ShardId(0xcc00_0003));
        assert_eq!(slots.bearer(lineage), Bearer::Unknown, "its node did not say so");
        assert_eq!((slots.shard_of(b"cc000003"), slots.knows(lineage)), (None, false));
        slots.learn("bb000002", Some((lineage, Incarnation(5))));
        slots.learn("nobody", Some((other, Incarnation(5))));
        assert!(!slots.knows(other), "who is in no view says nothing");
        slots.learn("cc000003", Some((lineage, Incarnation(7))));
        let bearer = |slots: &Slots| match slots.bearer(lineage) {
            Bearer::Primary(node) => node.id.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(bearer(&slots), "cc000003");
        assert_eq!(slots.shard_of(b"cc000003"), Some(lineage));
        assert_eq!(slots.successor(lineage, Incarnation(6)), Some("cc000003"));
        assert_eq!(slots.successor(lineage, Incarnation(7)), None);
        let without = "aa000001 h:1@2 myself,master - 0 1 1 connected 5-10\n\
                       bb000002 h:2@3 master - 0 1 2 connected 0-4\n";
        let mut later = Slots::parse(without).strict();
        later.follow(Some(&slots));
        assert_eq!(bearer(&later), "bb000002");
        let mut alone = Slots::parse("aa000001 h:1@2 myself,master - 0 1 1 connected 5-10\n").strict();
        alone.follow(Some(&later));
        assert_eq!(alone.bearer(lineage), Bearer::Unknown, "it is never gone: its votes may be somewhere");
        assert!(alone.knows(lineage));
    }

    #[test]
    fn two_nodes_do_not_share_a_name() {
        let listing = "aa000001ff h:1@2 myself,master - 0 1 1 connected 5\n\
                       aa000001ee h:2@3 master - 0 1 1 connected 6\n";
        assert_eq!(Slots::parse(listing).shard(), Err(Namesake("aa000001ee".into())));
    }

    #[test]
    fn a_slot_is_closed_as_long_as_anybody_wants_that_also_in_a_newer_view() {
        let listing = "aa h:1@2 myself,master - 0 1 1 connected 0-16383\n";
        let old = Slots::parse(listing);
        let slot = slot_of(b"foo");
        let (first, second) = (old.close(slot), old.close(slot));
        assert!(!old.serves(b"foo") && old.serves(b"bar"));
        assert!(old.has_key(b"foo"), "a plain command may use it");
        let mut new = Slots::parse(listing);
        new.follow(Some(&old));
        drop(first);
        assert!(!new.serves(b"foo"), "somebody wants it closed still");
        assert_eq!(second.slot(), slot);
        drop(second);
        assert!(new.serves(b"foo") && old.serves(b"foo"));
    }

    #[test]
    fn a_slot_on_its_way_is_nobodys_and_without_a_cluster_all_are_here() {
        let slots = Slots::parse("aa h:1@2 myself,master - 0 1 1 connected 0-16383 [12182->-bb]\n");
        assert!(!slots.serves(b"foo") && slots.has_key(b"foo"), "a plain command still may use it here");
        let there = Slots::parse(
            "aa h:1@2 myself,master - 0 1 1 connected [12182-<-bb]\nbb h:2@3 master - 0 1 1 connected 0-16383",
        );
        assert!(!there.serves(b"foo") && !there.has_key(b"foo"));
        let alone = Slots::alone();
        assert!(alone.serves(b"foo") && alone.has_key(b"foo"));
        let closed = alone.close(slot_of(b"foo"));
        assert!(!alone.serves(b"foo") && alone.serves(b"bar"));
        drop(closed);
        assert!(alone.serves(b"foo"));
        assert!(!Slots::nowhere().serves(b"foo"));
    }

    #[test]
    fn the_probe_is_a_key_of_the_lowest_slot_and_stays_as_long_as_that() {
        let of = |slots: &str, before: Option<&Slots>| {
            let mut slots = Slots::parse(&format!("aa h:1@2 myself,master - 0 1 1 connected {slots}"));
            slots.follow(before);
            slots
        };
        let first = of("7-9", None);
        let probe = first.probe().expect("it has slots");
        assert_eq!(slot_of(probe.as_bytes()), 7);
        assert_eq!(of("7", Some(&first)).probe(), Some(probe));
        let moved = of("8-9", Some(&first));
        assert_eq!(moved.probe().map(|key| slot_of(key.as_bytes())), Some(8));
        assert_eq!(of("", Some(&first)).probe(), None);
        let leaving = of("7-9 [7->-bb] [8->-bb]", Some(&first));
        assert_eq!(
            leaving.probe().map(|key| slot_of(key.as_bytes())),
            Some(9),
            "those on their way say nothing"
        );
        assert_eq!(of("7 [7->-bb]", Some(&first)).probe(), None);
    }

    #[test]
    fn a_vote_is_asked_of_shards_that_were_ever_in_view() {
        let alone = Slots::alone();
        assert!(alone.knows(ShardId(0)) && !alone.knows(ShardId(1)));
        assert!(Slots::alone().with_planted_shards(true).knows(ShardId(1)));
        let mut first = Slots::parse(
            "aa000001 h:1@2 myself,master - 0 1 1 connected 0-9\nbb000002 h:2@3 master - 0 1 2 connected\n",
        );
        first.follow(None);
        let mut later = Slots::parse("aa000001 h:1@2 myself,master - 0 1 1 connected 0-9\n");
        later.follow(Some(&first));
        assert!(later.knows(ShardId(0xbb00_0002)) && !later.knows(ShardId(0xcc00_0003)));
    }
}
