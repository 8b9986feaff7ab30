//! Which node serves which slot, as `CLUSTER SLOTS` says, and which slot a key is in.

use claret_types::Reply;

use super::options::Address;

/// Slots of a cluster.
pub(super) const SLOTS: usize = 16_384;

/// The slot of a key, or of the part of it in braces.
pub(crate) fn slot_of(key: &[u8]) -> u16 {
    let crc =
        tag_of(key).iter().fold(0, |crc: u16, byte| (crc << 8) ^ CRC16[usize::from((crc >> 8) as u8 ^ byte)]);
    crc % SLOTS as u16
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

/// CRC16 of each byte, as Redis Cluster has it: XMODEM, the polynomial 0x1021.
const CRC16: [u16; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let mut crc = (at as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[at] = crc;
        at += 1;
    }
    table
};

/// Slots that follow each other and are served by one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) node: Address,
}

/// Who serves what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Topology {
    /// In the order of slots.
    pub(super) ranges: Vec<Range>,
}

impl Topology {
    /// A server that is no part of a cluster serves everything.
    pub(super) fn alone(node: Address) -> Self {
        Topology { ranges: vec![Range { first: 0, last: SLOTS as u16 - 1, node }] }
    }

    /// Reads the reply to `CLUSTER SLOTS` of the node `asked`, whose own address may be missing in it.
    pub(super) fn parse(reply: &Reply, asked: &Address) -> Result<Self, String> {
        let Reply::Array(entries) = reply else { return Err(format!("CLUSTER SLOTS: {reply}")) };
        let mut ranges = entries
            .iter()
            .map(|entry| range(entry, asked).ok_or_else(|| format!("CLUSTER SLOTS: {entry}")))
            .collect::<Result<Vec<_>, _>>()?;
        ranges.sort_by_key(|range| range.first);
        Ok(Topology { ranges })
    }

    /// The nodes, each once.
    pub(super) fn nodes(&self) -> Vec<Address> {
        let mut nodes: Vec<Address> = Vec::new();
        for range in &self.ranges {
            if !nodes.contains(&range.node) {
                nodes.push(range.node.clone());
            }
        }
        nodes
    }

    /// Some slot of a node's.
    pub(super) fn slot_at(&self, node: &Address) -> Option<u16> {
        self.ranges.iter().find(|range| range.node == *node).map(|range| range.first)
    }

    /// Slots that nobody serves, as first and last.
    pub(super) fn missing(&self) -> Vec<(u16, u16)> {
        let mut missing = Vec::new();
        let mut next = 0;
        for range in &self.ranges {
            if range.first > next {
                missing.push((next, range.first - 1));
            }
            next = next.max(range.last + 1);
        }
        if usize::from(next) < SLOTS {
            missing.push((next, SLOTS as u16 - 1));
        }
        missing
    }
}

fn range(entry: &Reply, asked: &Address) -> Option<Range> {
    let Reply::Array(fields) = entry else { return None };
    let [Reply::Int(first), Reply::Int(last), Reply::Array(node), ..] = &fields[..] else { return None };
    let [host, Reply::Int(port), ..] = &node[..] else { return None };
    let host = match host {
        Reply::Bytes(host) if !host.is_empty() && &host[..] != b"?" => host.as_str()?,
        Reply::Bytes(_) | Reply::Nil => &asked.host,
        _ => return None,
    };
    let slot = |number: i64| u16::try_from(number).ok().filter(|slot| usize::from(*slot) < SLOTS);
    let node = Address { host: host.to_owned(), port: u16::try_from(*port).ok()? };
    Some(Range { first: slot(*first)?, last: slot(*last)?, node })
}

/// `slot 5 and slots 7 to 9`.
pub(super) fn describe_slots(slots: &[(u16, u16)]) -> String {
    const SHOWN_MAX: usize = 8;
    let one = |(first, last): &(u16, u16)| match first == last {
        true => format!("slot {first}"),
        false => format!("slots {first} to {last}"),
    };
    let shown: Vec<String> = slots.iter().take(SHOWN_MAX).map(one).collect();
    match slots.len().saturating_sub(SHOWN_MAX) {
        0 => shown.join(" and "),
        more => format!("{} and {more} more ranges of slots", shown.join(", ")),
    }
}

/// A channel for pushes that is in the slots of a node: shard channels live where their slot does. The number is not
/// to be guessed, for whoever may subscribe to a channel hears what is said there.
pub(super) fn channel_at(topology: &Topology, node: &Address, secret: u64) -> Option<String> {
    let serves =
        |slot: u16| topology.ranges.iter().any(|it| it.node == *node && (it.first..=it.last).contains(&slot));
    topology.slot_at(node)?;
    // Each try hits a node of n slots with the chance n / 16384.
    let tags = (0..SLOTS as u32 * 16).map(|tag| format!("{tag:x}"));
    let tag = tags.into_iter().find(|tag| serves(slot_of(tag.as_bytes())))?;
    Some(format!("claret:{{{tag}}}:{secret:016x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> Address {
        Address { host: "10.0.0.1".into(), port }
    }

    fn node(host: &str, port: i64) -> Reply {
        let id = Reply::Bytes("id".into());
        Reply::Array(vec![Reply::Bytes(host.into()), Reply::Int(port), id, Reply::Array(Vec::new())])
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
        let topology = Topology::parse(&reply, &address(7002)).unwrap();
        assert_eq!(topology.nodes(), [Address { host: "h".into(), port: 7001 }, address(7002)]);
        assert_eq!(topology.missing(), []);
        let channel = channel_at(&topology, &address(7002), 1).unwrap();
        assert!(slot_of(channel.as_bytes()) >= 8192);
        assert_eq!(channel_at(&topology, &address(9), 1), None);
    }

    #[test]
    fn what_is_no_topology_is_an_error() {
        for entries in
            [entry(0, 16384, node("h", 1)), entry(-1, 5, node("h", 1)), entry(0, 5, node("h", 70000))]
        {
            assert!(Topology::parse(&Reply::Array(vec![entries]), &address(1)).is_err());
        }
        assert!(Topology::parse(&Reply::Int(1), &address(1)).is_err());
    }

    #[test]
    fn missing_slots_are_named() {
        let reply = Reply::Array(vec![entry(1, 5, node("h", 1)), entry(7, 16382, node("h", 2))]);
        let missing = Topology::parse(&reply, &address(1)).unwrap().missing();
        assert_eq!(missing, [(0, 0), (6, 6), (16383, 16383)]);
        assert_eq!(describe_slots(&missing[..2]), "slot 0 and slot 6");
        assert_eq!(Topology::default().missing(), [(0, 16383)]);
    }
}
