//! The channel of the nodes that pushes of a process come on: in a slot of the node, and in the user's name.

use claret_planted::{Bug, is_planted};
use claret_redis::Address;
use claret_redis::slot_of;
use claret_redis::topology::{SLOTS, Topology};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Of a user's name these bytes stand for themselves in the names of its channels; any other is written as in URLs. So
/// nothing of it is taken for a hash tag, for the end of the name, or for a pattern of an access control list.
const UNCHANGED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A channel for pushes that is in the slots of a node: shard channels live where their slot does. It is the user's by
/// its beginning, which access control lists tell apart. The number is not to be guessed, for another process of the same
/// user may hear and say there what it wants.
pub(super) fn channel_at(topology: &Topology, node: &Address, user: &str, secret: u64) -> Option<String> {
    let serves = |slot: u16| {
        topology.ranges().iter().any(|it| it.node == *node && (it.first..=it.last).contains(&slot))
    };
    topology.slot_at(node)?;
    // Each try hits a node of n slots with the chance n / 16384.
    let tags = (0..SLOTS as u32 * 16).map(|tag| format!("{tag:x}"));
    let tag =
        tags.into_iter().find(|tag| serves(slot_of(tag.as_bytes())) || is_planted(Bug::ChannelElsewhere))?;
    let user = if is_planted(Bug::UserUnescaped) {
        user.to_owned()
    } else {
        utf8_percent_encode(user, UNCHANGED).to_string()
    };
    Some(format!("claret:{user}:{{{tag}}}:{secret:016x}"))
}

#[cfg(test)]
mod tests {
    use claret_redis::ReplyLimits;
    use claret_types::Reply;

    use super::*;

    /// Two nodes, each with half of the slots.
    fn topology() -> Topology {
        let node = |first: i64, last: i64, host: &str, port: i64| {
            let id = Reply::Bytes(format!("{port:08x}{:032x}", 1).as_str().into());
            let node = Reply::Array(vec![Reply::Bytes(host.into()), Reply::Int(port), id]);
            Reply::Array(vec![Reply::Int(first), Reply::Int(last), node])
        };
        let reply = Reply::Array(vec![node(8192, 16383, "", 7002), node(0, 8191, "h", 7001)]);
        Topology::parse(&reply, &Address::new("10.0.0.1", 7002), &ReplyLimits::default()).unwrap()
    }

    #[test]
    fn a_channel_is_its_users_and_in_a_slot_of_its_node_whatever_the_name() {
        let topology = topology();
        let address = |port: u16| Address::new("10.0.0.1", port);
        let at = |user: &str| channel_at(&topology, &address(7002), user, 1).unwrap();
        for (user, shown) in [
            ("default", "default"),
            ("Shop-1.a_b~", "Shop-1.a_b~"),
            ("{a}", "%7Ba%7D"),
            ("a:b*?[]\\", "a%3Ab%2A%3F%5B%5D%5C"),
            ("s\u{fc}\u{df}%", "s%C3%BC%C3%9F%25"),
            ("", ""),
        ] {
            let channel = at(user);
            assert!(channel.starts_with(&format!("claret:{shown}:{{")), "{channel}");
            assert!(slot_of(channel.as_bytes()) >= 8192, "{channel}");
        }
        let other = Address::new("h", 7001);
        let channel = channel_at(&topology, &other, "default", 1).unwrap();
        assert!(slot_of(channel.as_bytes()) < 8192, "{channel}");
        assert_eq!(channel_at(&topology, &address(9), "default", 1), None);
    }
}
