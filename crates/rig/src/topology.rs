//! What the nodes of a cluster say about it.

use redis::Connection;

use crate::server::query;
use crate::{RigError, SLOTS};

/// A node, as another one sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its id.
    pub id: String,
    /// Its host, as its peers know it.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The id of its master, if it is a replica.
    pub master: Option<String>,
    /// Whether it is known to have failed.
    pub has_failed: bool,
    /// Whether it is suspected, or not known well enough.
    pub is_uncertain: bool,
    /// The slots that it serves: first and last of each range.
    pub slots: Vec<(u16, u16)>,
}

impl Node {
    /// How many slots it serves.
    pub fn slot_count(&self) -> u32 {
        self.slots.iter().map(|(first, last)| u32::from(last - first) + 1).sum()
    }

    /// Reads a line of `CLUSTER NODES`.
    fn parse(line: &str) -> Option<Node> {
        let words: Vec<&str> = line.split(' ').collect();
        let [id, address, flags, master, _, _, _, _, slots @ ..] = words.as_slice() else { return None };
        let (host, port) = address.split_once('@')?.0.rsplit_once(':')?;
        let has = |flag: &str| flags.split(',').any(|it| it == flag);
        let range = |word: &&str| {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            Some((first.parse().ok()?, last.parse().ok()?))
        };
        Some(Node {
            id: (*id).to_owned(),
            host: host.to_owned(),
            port: port.parse().ok()?,
            master: (*master != "-").then(|| (*master).to_owned()),
            has_failed: has("fail"),
            is_uncertain: has("fail?") || has("handshake") || has("noaddr"),
            // Slots on their way stand in brackets.
            slots: slots.iter().filter(|word| !word.starts_with('[')).map(range).collect::<Option<_>>()?,
        })
    }
}

/// All nodes that the one behind this connection knows, by id.
///
/// # Errors
/// It does not answer, or is no node of a cluster.
pub fn nodes(connection: &mut Connection) -> Result<Vec<Node>, RigError> {
    let text: String = query(connection, &["CLUSTER", "NODES"])?;
    Ok(parse(&text))
}

fn parse(text: &str) -> Vec<Node> {
    let mut nodes: Vec<Node> = text.lines().filter_map(Node::parse).collect();
    nodes.sort_by(|a, b| a.id.cmp(&b.id));
    nodes
}

/// The slot of a key: the CRC16 (XMODEM) of what stands between its first braces, or of all of it.
pub fn slot_of(key: &str) -> u16 {
    let tagged = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    let hashed = tagged.filter(|tag| !tag.is_empty()).unwrap_or(key);
    let crc = hashed.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 }
        })
    });
    crc % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_read() {
        let text = "\
            bb 127.0.0.1:7001@17001,name master,fail? - 0 1 2 connected 0-99 200 [5->-cc]\n\
            aa 127.0.0.1:7000@17000 myself,slave bb 0 1 2 connected\n\
            cc :0@0 master,fail,noaddr - 0 1 2 disconnected\n";
        let [replica, master, lost] = parse(text).try_into().expect("three nodes");
        assert_eq!((replica.port, replica.master.as_deref(), replica.slot_count()), (7000, Some("bb"), 0));
        assert_eq!((master.port, master.slots.as_slice()), (7001, [(0, 99), (200, 200)].as_slice()));
        assert_eq!((master.slot_count(), master.is_uncertain, master.has_failed), (101, true, false));
        assert_eq!((lost.port, lost.is_uncertain, lost.has_failed), (0, true, true));
    }

    #[test]
    fn slots_are_those_of_redis() {
        // From the cluster's specification, and by CLUSTER KEYSLOT.
        assert_eq!(slot_of("123456789"), 0x31c3);
        assert_eq!(slot_of("{user}:a"), slot_of("user"));
        assert_eq!(slot_of("foo{}{bar}"), 8363);
    }
}
