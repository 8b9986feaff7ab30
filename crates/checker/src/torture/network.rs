//! The network of a cluster of the run's own, and what goes wrong with it. Clients and nodes reach each node through proxies, one
//! before its port for clients and replicas and one before that of the cluster bus. Each node connects from an address of its own
//! on the loopback interface: so a proxy knows who it is, and the way between any two nodes can be cut while clients reach both.

use std::net::{IpAddr, Ipv4Addr};
use std::thread::sleep;
use std::time::{Duration, Instant};

use claret_rig::{BUS_OFFSET, Cluster};
use rand::Rng;

use crate::proxy::{Directions, Proxy};

/// Where clients connect from.
const CLIENTS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// How long all nodes may take to hear of the proxies.
const JOIN_TIME: Duration = Duration::from_secs(60);

/// The proxies of all nodes, in the order of the cluster's servers.
#[derive(Debug)]
pub(super) struct Network {
    ports: Vec<Proxy>,
    buses: Vec<Proxy>,
}

/// Where a node connects from.
fn address(node: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(127, 0, 1, node as u8 + 1))
}

impl Network {
    /// Puts proxies before all nodes, and waits until everybody goes through them.
    ///
    /// # Errors
    /// A node's.
    pub(super) fn start(rig: &mut Cluster) -> Result<Self, String> {
        let start = |offset: u16| -> Result<Vec<Proxy>, String> {
            rig.servers().iter().map(|server| Proxy::start(server.port() + offset)).collect()
        };
        let network = Network { ports: start(0)?, buses: start(BUS_OFFSET)? };
        // A replica that connects anew before it knows its proxy is known by another address than the cluster has of it, and counts
        // for nothing where primaries wait for their replicas.
        for (node, port) in network.ports.iter().enumerate() {
            let announced = rig.server_mut(node).announce_to_primary(port.port(), address(node));
            announced.map_err(|error| error.to_string())?;
        }
        for (node, (port, bus)) in network.ports.iter().zip(&network.buses).enumerate() {
            let announced = rig.server_mut(node).announce(port.port(), bus.port());
            announced.map_err(|error| error.to_string())?;
        }
        network.wait_until_known(rig)?;
        rig.wait_until_ok(JOIN_TIME).map_err(|error| error.to_string())?;
        Ok(network)
    }

    fn wait_until_known(&self, rig: &Cluster) -> Result<(), String> {
        let since = Instant::now();
        let pairs = || self.ports.iter().zip(&self.buses);
        let knows = |node: usize| -> Result<bool, String> {
            let nodes: String = rig.query(node, &["CLUSTER", "NODES"]).map_err(|error| error.to_string())?;
            let has = |(port, bus): (&Proxy, &Proxy)| {
                nodes.contains(&format!("127.0.0.1:{}@{}", port.port(), bus.port()))
            };
            Ok(pairs().all(has))
        };
        for node in 0..self.ports.len() {
            while !knows(node)? {
                if since.elapsed() > JOIN_TIME {
                    return Err("the nodes do not hear of their proxies".into());
                }
                sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    /// Where clients reach the nodes.
    pub(super) fn hosts(&self) -> Vec<String> {
        self.ports.iter().map(|proxy| format!("127.0.0.1:{}", proxy.port())).collect()
    }

    /// Cuts the ways between each of these nodes and each of those, or restores them. Clients reach all of them.
    pub(super) fn part(&self, these: &[usize], those: &[usize], is_cut: bool) {
        for (one, other) in these.iter().flat_map(|one| those.iter().map(move |other| (*one, *other))) {
            for (node, who) in [(one, other), (other, one)] {
                self.pull(node, who, Directions::Both, is_cut);
            }
        }
    }

    /// The same for what this node sends to those alone: they do not hear it, and it hears them.
    pub(super) fn mute(&self, node: usize, those: &[usize], is_cut: bool) {
        for other in those {
            self.pull(*other, node, Directions::Requests, is_cut);
            self.pull(node, *other, Directions::Answers, is_cut);
        }
    }

    /// The same for what those send to this node alone.
    pub(super) fn deafen(&self, node: usize, those: &[usize], is_cut: bool) {
        for other in those {
            self.pull(*other, node, Directions::Answers, is_cut);
            self.pull(node, *other, Directions::Requests, is_cut);
        }
    }

    /// Of the connections that somebody makes to a node.
    fn pull(&self, node: usize, who: usize, directions: Directions, is_cut: bool) {
        self.ports[node].pull(address(who), directions, is_cut);
        self.buses[node].pull(address(who), directions, is_cut);
    }

    /// What clients and this node send each other waits for up to so long from now on.
    pub(super) fn delay_clients(&self, node: usize, delay_max: Duration) {
        self.ports[node].delay(CLIENTS, delay_max);
    }

    /// Cuts the ways between clients and this node in these directions, or restores them.
    pub(super) fn part_from_clients(&self, node: usize, directions: Directions, is_cut: bool) {
        self.ports[node].pull(CLIENTS, directions, is_cut);
    }

    /// Closes the connections of clients to this node, some of them in the middle of a message.
    pub(super) fn close_clients(&self, node: usize, random: &mut impl Rng) {
        self.ports[node].cut(Some(CLIENTS), random);
    }

    /// Holds what clients send to this node over the connections that they have, until this moment.
    pub(super) fn hold(&self, node: usize, until: Instant) -> usize {
        self.ports[node].hold(CLIENTS, until)
    }

    /// Delivers now what is held anywhere.
    pub(super) fn release(&self) {
        self.ports.iter().for_each(Proxy::release);
    }
}
