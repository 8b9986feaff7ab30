//! The parts of the hosts in which bugs are planted.

/// Where a bug is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// The client of a cluster, `crates/claret`, and its connections, `crates/redis`.
    Client,
    /// Plain commands beside transactions, `crates/module`.
    Guard,
    /// Native effects, and their way to replicas and the append-only file.
    Records,
    /// Sessions, rights, errands, keys that expire, and the shard's life.
    Sessions,
    /// The durability `strict` of the module.
    Replicas,
    /// The log of a store in a folder, `crates/log` and its threads in `crates/claret`.
    Log,
    /// The server for any Redis client, `crates/gateway`, with `crates/commands`.
    Gateway,
}

impl Room {
    /// All of them.
    pub const ALL: &[Room] =
        &[Room::Client, Room::Guard, Room::Records, Room::Sessions, Room::Replicas, Room::Log, Room::Gateway];

    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Room::Client => "The client of a cluster",
            Room::Guard => "The guard",
            Room::Records => "Native effects and replication",
            Room::Sessions => "Sessions, rights, errands, expiry",
            Room::Replicas => "The durability strict",
            Room::Log => "The log of a store in a folder",
            Room::Gateway => "The gateway",
        }
    }
}
