//! Which node serves which slot, as `CLUSTER SLOTS` says, and which slot a key is in.

use std::collections::{BTreeSet, HashSet};

use claret_planted::{Bug, is_planted};
use claret_types::Reply;

use crate::address::Address;
use crate::bounds::{Bound, HOST_BYTES_MAX, ReplyLimits};
use crate::resp::{Unreadable, shown};

/// Of a reply that is no topology so much is shown, in bytes.
const SHOWN_BYTES_MAX: usize = 200;

/// The id of a node has so many hexadecimal digits.
const ID_DIGITS: usize = 40;

/// Slots of a cluster.
pub const SLOTS: usize = 16_384;

/// The slot of a key, or of the part of it in braces: CRC16 of it, modulo 16,384 (Redis Cluster specification, *Key distribution
/// model* and *Hash tags*). O(length of the key).
pub fn slot_of(key: &[u8]) -> u16 {
    crc16(if is_planted(Bug::TagsIgnored) { key } else { tag_of(key) }) % SLOTS as u16
}

/// Four bytes at a time, each by what it comes to with those behind it.
fn crc16(bytes: &[u8]) -> u16 {
    let (fours, rest) = bytes.as_chunks();
    let crc = fours.iter().fold(0, |crc: u16, [first, second, third, last]| {
        let [high, low] = crc.to_be_bytes();
        CRC16[3][usize::from(high ^ first)]
            ^ CRC16[2][usize::from(low ^ second)]
            ^ CRC16[1][usize::from(*third)]
            ^ CRC16[0][usize::from(*last)]
    });
    rest.iter().fold(crc, |crc, byte| (crc << 8) ^ CRC16[0][usize::from((crc >> 8) as u8 ^ byte)])
}

/// What is hashed: between the first brace and the next closing one, where that is not empty; otherwise the key.
fn tag_of(key: &[u8]) -> &[u8] {
    let Some(begin) = key.iter().position(|byte| *byte == b'{') else { return key };
    let tag = &key[begin + 1..];
    match tag.iter().position(|byte| *byte == b'}') {
        None | Some(0) => key,
        Some(end) => &tag[..end],
    }
}

/// CRC16 of each byte with so many zeros behind it, as Redis Cluster has it: XMODEM, the polynomial 0x1021.
static CRC16: [[u16; 256]; 4] = {
    let mut tables = [[0; 256]; 4];
    let mut at = 0;
    while at < 256 {
        let mut crc = (at as u16) << 8;
        let mut zeros = 0;
        while zeros < 4 {
            let mut bit = 0;
            while bit < 8 {
                crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
                bit += 1;
            }
            tables[zeros][at] = crc;
            zeros += 1;
        }
        at += 1;
    }
    tables
};

/// As much of a node's id as fits: its first eight digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// Slots that follow each other and are served by one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first slot.
    pub first: u16,
    /// The last one.
    pub last: u16,
    /// Who serves them.
    pub node: Address,
    /// A server that is no part of a cluster has no id.
    pub id: Option<NodeId>,
}

/// Who serves what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// In the order of slots.
    pub(crate) ranges: Vec<Range>,
    /// All nodes, replicas among them. Servers that are no part of a cluster have no id.
    pub(crate) members: BTreeSet<NodeId>,
}

impl Topology {
    /// A server that is no part of a cluster serves everything.
    pub fn alone(node: Address) -> Self {
        let ranges = vec![Range { first: 0, last: SLOTS as u16 - 1, node, id: None }];
        Topology { ranges, members: BTreeSet::new() }
    }

    /// Reads the reply to `CLUSTER SLOTS` of the node `asked`, whose own address may be missing in it. It is taken as a
    /// whole or not at all: every range is one, no slot is served twice, and the nodes are not too many. Slots may be
    /// [missing](Self::missing): who adopts a topology looks at that.
    ///
    /// # Errors
    /// It is no topology, or over a bound.
    pub fn parse(reply: &Reply, asked: &Address, limits: &ReplyLimits) -> Result<Self, Unreadable> {
        let malformed = |what: &Reply| {
            let text = shown(what.to_string().as_bytes(), SHOWN_BYTES_MAX);
            Unreadable::Malformed(format!("CLUSTER SLOTS: {text}"))
        };
        let Reply::Array(entries) = reply else { return Err(malformed(reply)) };
        if entries.len() > SLOTS {
            return Err(Unreadable::Malformed(format!("CLUSTER SLOTS: {} ranges of slots", entries.len())));
        }
        let ranges = entries.iter().map(|entry| range(entry, asked).ok_or_else(|| malformed(entry)));
        let mut ranges = ranges.collect::<Result<Vec<_>, _>>()?;
        ranges.sort_by_key(|range| range.first);
        if let Some(two) =
            ranges.windows(2).find(|two| two[0].last >= two[1].first && !is_planted(Bug::TwoServeOneSlot))
        {
            let (node, other) = (&two[0].node, &two[1].node);
            let text = format!("CLUSTER SLOTS: slot {} is served by {node} and by {other}", two[1].first);
            return Err(Unreadable::Malformed(text));
        }
        let limit = limits.topology_nodes_max;
        let nodes: HashSet<&Address> = ranges.iter().map(|range| &range.node).collect();
        if nodes.len() > limit && !is_planted(Bug::NodesUnbounded) {
            return Err(Bound { name: "topology_nodes_max", limit }.into());
        }
        let members = entries.iter().flat_map(members).collect();
        Ok(Topology { ranges, members })
    }

    /// Whether nobody of these nodes is one of those that were known, and they are elsewhere: they are of another cluster then, or all
    /// slots have gone to other nodes of the same one. A node that knows of no slots is of none yet.
    pub(crate) fn may_be_of_another_cluster(&self, known: &Topology) -> bool {
        if self.ranges.is_empty() || known.ranges.is_empty() {
            return false;
        }
        let (nodes, before) = (self.nodes(), known.nodes());
        match (self.members.is_empty(), known.members.is_empty()) {
            // Two servers, or one that has two addresses: nothing tells.
            (true, true) => false,
            // A cluster that was made anew, in the same place, has other ids.
            _ => self.members.is_disjoint(&known.members) && !before.iter().all(|node| nodes.contains(node)),
        }
    }

    /// Whether the reply to `CLUSTER NODES`, in which are nodes without slots too, names one of these nodes.
    pub(crate) fn has_one_of(&self, reply: &Reply) -> bool {
        let Reply::Bytes(text) = reply else { return false };
        let mut ids = text.split(|byte| *byte == b'\n').filter_map(|line| line.get(..ID_DIGITS));
        ids.any(|id| id_of(id).is_some_and(|id| self.members.contains(&id)))
    }

    /// The slots that are served, in their order.
    pub fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    /// The nodes, each once.
    pub fn nodes(&self) -> Vec<Address> {
        let mut nodes: Vec<Address> = Vec::new();
        for range in &self.ranges {
            if !nodes.contains(&range.node) {
                nodes.push(range.node.clone());
            }
        }
        nodes
    }

    /// Some slot of a node's.
    pub fn slot_at(&self, node: &Address) -> Option<u16> {
        self.ranges.iter().find(|range| range.node == *node).map(|range| range.first)
    }

    /// The id of a node, if it is named here.
    pub fn id_at(&self, node: &Address) -> Option<NodeId> {
        self.ranges.iter().find(|range| range.node == *node)?.id
    }

    /// Slots that nobody serves, as first and last.
    pub fn missing(&self) -> Vec<(u16, u16)> {
        let mut missing = Vec::new();
        let mut next = 0;
        for range in &self.ranges {
            if range.first > next {
                missing.push((next, range.first - 1));
            }
            next = next.max(range.last + 1);
        }
        if usize::from(next) < SLOTS && !is_planted(Bug::LastSlotsUnmissed) {
            missing.push((next, SLOTS as u16 - 1));
        }
        missing
    }
}

fn range(entry: &Reply, asked: &Address) -> Option<Range> {
    let Reply::Array(fields) = entry else { return None };
    let [Reply::Int(first), Reply::Int(last), Reply::Array(node), ..] = &fields[..] else { return None };
    let [host, Reply::Int(port), Reply::Bytes(id), ..] = &node[..] else { return None };
    let host = match host {
        Reply::Bytes(host) if !host.is_empty() && &host[..] != b"?" => name_of_host(host)?,
        Reply::Bytes(_) | Reply::Nil => asked.host(),
        _ => return None,
    };
    let slot = |number: i64| u16::try_from(number).ok().filter(|slot| usize::from(*slot) < SLOTS);
    let port = u16::try_from(*port).ok().filter(|port| *port > 0)?;
    let node = Address::new(host, port);
    let range = Range { first: slot(*first)?, last: slot(*last)?, node, id: Some(id_of(id)?) };
    (range.first <= range.last).then_some(range)
}

/// The nodes that an entry names. What a replica is called matters to nothing else.
fn members(entry: &Reply) -> impl Iterator<Item = NodeId> {
    let fields: &[Reply] = if let Reply::Array(fields) = entry { fields } else { &[] };
    fields.iter().skip(2).filter_map(|node| match node {
        Reply::Array(node) => match node.get(2) {
            Some(Reply::Bytes(id)) => id_of(id),
            _ => None,
        },
        _ => None,
    })
}

/// The id of a node.
fn id_of(id: &[u8]) -> Option<NodeId> {
    let is_id = id.len() == ID_DIGITS && id.iter().all(u8::is_ascii_hexdigit);
    let digits = std::str::from_utf8(id.get(..8)?).ok().filter(|_| is_id)?;
    u32::from_str_radix(digits, 16).ok().map(NodeId)
}

/// What can be the name of a host, or its address.
fn name_of_host(host: &[u8]) -> Option<&str> {
    let is_name = host.len() <= HOST_BYTES_MAX && host.iter().all(u8::is_ascii_graphic);
    std::str::from_utf8(host).ok().filter(|_| is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> Address {
        Address::new("10.0.0.1", port)
    }

    fn node(host: &str, port: i64) -> Reply {
        named(host, port, &format!("{:08x}{:032x}", port as u32, 1))
    }

    fn named(host: &str, port: i64, id: &str) -> Reply {
        let id = Reply::Bytes(id.into());
        Reply::Array(vec![Reply::Bytes(host.into()), Reply::Int(port), id, Reply::Array(Vec::new())])
    }

    fn parse(reply: &Reply, asked: &Address) -> Result<Topology, Unreadable> {
        Topology::parse(reply, asked, &ReplyLimits::default())
    }

    fn entry(first: i64, last: i64, node: Reply) -> Reply {
        Reply::Array(vec![Reply::Int(first), Reply::Int(last), node.clone(), node])
    }

    #[test]
    fn slots_are_those_of_redis() {
        // From the specification of Redis Cluster.
        assert_eq!(slot_of(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b"{user1000}.following"), slot_of(b"user1000"));
        assert_eq!(slot_of(b"foo{}{bar}"), slot_of(b"foo{}{bar}"));
        assert_ne!(slot_of(b"foo{}{bar}"), slot_of(b"bar"));
        assert_eq!(slot_of(b"foo{{bar}}zap"), slot_of(b"{bar"));
        assert_eq!(slot_of(b"foo{bar}{zap}"), slot_of(b"bar"));
        for key in ["", "a", "{", "}{", "{}", "a{b", "{a}b", "a}{b}", "user:1000", "\u{fc}{\u{e4}}"] {
            assert_eq!(slot_of(key.as_bytes()), redis_protocol::redis_keyslot(key.as_bytes()), "{key}");
        }
    }

    #[test]
    fn cluster_slots_is_read() {
        let reply = Reply::Array(vec![entry(8192, 16383, node("", 7002)), entry(0, 8191, node("h", 7001))]);
        let topology = parse(&reply, &address(7002)).unwrap();
        assert_eq!(topology.nodes(), [Address::new("h", 7001), address(7002)]);
        assert_eq!(topology.missing(), []);
        assert_eq!(topology.id_at(&address(7002)), Some(NodeId(7002)));
        assert_eq!(topology.id_at(&address(7001)), None, "it is of another host");
        assert_eq!(Topology::alone(address(1)).id_at(&address(1)), None);
    }

    #[test]
    fn what_is_no_topology_is_an_error() {
        for wrong in [
            entry(0, 16384, node("h", 1)),
            entry(-1, 5, node("h", 1)),
            entry(100, 5, node("h", 1)),
            entry(i64::MAX, i64::MIN, node("h", 1)),
            entry(0, 5, node("h", 70000)),
            entry(0, 5, node("h", 0)),
            entry(0, 5, node("h", -1)),
            entry(0, 5, node("\x1b[2J", 1)),
            entry(0, 5, node("h h", 1)),
            entry(0, 5, node(&"h".repeat(256), 1)),
            entry(0, 5, named("h", 1, "")),
            entry(0, 5, named("h", 1, &"a".repeat(39))),
            entry(0, 5, named("h", 1, &"a".repeat(41))),
            entry(0, 5, named("h", 1, &format!("+{}", "a".repeat(39)))),
            entry(0, 5, Reply::Array(vec![Reply::Bytes("h".into()), Reply::Int(1)])),
            entry(0, 5, Reply::Array(Vec::new())),
            Reply::Array(Vec::new()),
            Reply::Nil,
        ] {
            // What is right beside it does not help.
            let all = Reply::Array(vec![entry(6, 16383, node("h", 1)), wrong.clone()]);
            assert!(matches!(parse(&all, &address(1)), Err(Unreadable::Malformed(_))), "{wrong}");
        }
        assert!(parse(&Reply::Int(1), &address(1)).is_err());
        let many = Reply::Array(vec![entry(0, 0, node("h", 1)); SLOTS + 1]);
        assert!(parse(&many, &address(1)).is_err());
    }

    #[test]
    fn a_slot_that_two_serve_is_believed_of_neither() {
        for (one, other) in
            [((0, 16383), (100, 5)), ((0, 100), (100, 16383)), ((0, 16383), (5, 6)), ((0, 9), (0, 9))]
        {
            let entries =
                [(one, 1), (other, 2)].map(|((first, last), port)| entry(first, last, node("h", port)));
            assert!(parse(&Reply::Array(entries.into()), &address(1)).is_err(), "{one:?} {other:?}");
        }
    }

    #[test]
    fn nodes_are_bounded() {
        let of = |nodes: i64| {
            let entries = (0..2_048).map(|slot| entry(slot, slot, node("h", slot % nodes + 1)));
            Reply::Array(entries.collect())
        };
        assert_eq!(parse(&of(1_024), &address(1)).unwrap().nodes().len(), 1_024);
        let bound = Bound { name: "topology_nodes_max", limit: 1_024 };
        assert_eq!(parse(&of(1_025), &address(1)), Err(Unreadable::Over(bound)));
    }

    /// Any reply at all: what comes out of it can be adopted.
    #[test]
    fn whatever_a_server_says_of_slots_a_topology_is_sound() {
        let mut dice = 0x0123_4567_89ab_cdef_u64;
        let mut roll = |sides: u64| {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            dice % sides
        };
        let mut taken = 0;
        for _ in 0..20_000 {
            let mut entries = Vec::new();
            for at in 0..roll(5) as i64 {
                let numbers = [0, 5, 16383, 16384, -1, i64::MAX, at * 4_000, at * 4_000 + 3_999];
                let mut number = || numbers[roll(8) as usize];
                let (first, last) = (number(), number());
                let host = ["h", "", "?", "\u{1b}", "10.0.0.1"][roll(5) as usize];
                let port = [7000, 7001, 0, -5, 65536][roll(5) as usize];
                entries.push(match roll(16) {
                    0 => Reply::Nil,
                    1 => Reply::Array(vec![Reply::Int(first), Reply::Int(last)]),
                    _ => entry(first, last, node(host, port)),
                });
            }
            let Ok(topology) = parse(&Reply::Array(entries), &address(1)) else { continue };
            taken += usize::from(!topology.ranges.is_empty());
            let mut owners = vec![0; SLOTS];
            for range in &topology.ranges {
                owners[usize::from(range.first)..=usize::from(range.last)].iter_mut().for_each(|it| *it += 1);
                assert!(range.node.port() > 0 && !range.node.host().is_empty());
            }
            assert!(owners.iter().all(|owners| *owners <= 1));
            let missing: usize =
                topology.missing().iter().map(|(first, last)| usize::from(last - first) + 1).sum();
            assert_eq!(missing, owners.iter().filter(|owners| **owners == 0).count());
        }
        assert!(taken > 100, "{taken}");
    }

    #[test]
    fn two_clusters_have_no_node_in_common() {
        let of = |ports: &[i64]| {
            let nodes = ports.iter().map(|port| node("h", *port));
            let entry = [Reply::Int(0), Reply::Int(16383)].into_iter().chain(nodes).collect();
            parse(&Reply::Array(vec![Reply::Array(entry)]), &address(1)).unwrap()
        };
        let (alone, nobody) = (|port| Topology::alone(address(port)), Topology::default());
        let may_be = |new: &Topology, known: &Topology| new.may_be_of_another_cluster(known);
        // A replica took its primary's place, and that one is gone.
        assert!(!may_be(&of(&[1, 2]), &of(&[2, 3])));
        assert!(may_be(&of(&[1, 2]), &of(&[3, 4])));
        assert!(may_be(&of(&[1]), &alone(1)) && may_be(&alone(1), &of(&[1])));
        assert!(!may_be(&alone(1), &alone(2)));
        assert!(!may_be(&nobody, &of(&[1])) && !may_be(&of(&[1]), &nobody));
        // It was made anew: its nodes are where they were.
        let anew = Reply::Array(vec![entry(0, 16383, named("h", 1, &format!("{:08x}{:032x}", 9, 1)))]);
        assert!(!may_be(&parse(&anew, &address(1)).unwrap(), &of(&[1])));
        // All slots have gone to nodes that had none.
        let nodes = |ports: &[u16]| {
            let lines =
                ports.iter().map(|port| format!("{port:08x}{:032x} h:{port}@1{port} master - 0 0 1\n", 1));
            Reply::Bytes(lines.collect::<String>().as_str().into())
        };
        assert!(of(&[1, 2]).has_one_of(&nodes(&[3, 2])) && !of(&[1, 2]).has_one_of(&nodes(&[3, 4])));
        assert!(!of(&[1]).has_one_of(&Reply::Nil) && !of(&[1]).has_one_of(&Reply::Bytes("00000001".into())));
    }

    #[test]
    fn missing_slots_are_named() {
        let reply = Reply::Array(vec![entry(1, 5, node("h", 1)), entry(7, 16382, node("h", 2))]);
        let missing = parse(&reply, &address(1)).unwrap().missing();
        assert_eq!(missing, [(0, 0), (6, 6), (16383, 16383)]);
        assert_eq!(crate::error::describe_slots(&missing[..2]), "slot 0 and slot 6");
        assert_eq!(Topology::default().missing(), [(0, 16383)]);
    }
}
