//! Configuration that a stack is built from.

use super::{InitialRoute6, LinkConfig, Resolver};
use belljar_base::{HostId, Seed, SimTime};
use belljar_net::routes::{Prefix, Route};
use belljar_net::{MssClamp, NicConfig};
use std::net::{Ipv4Addr, Ipv6Addr};

/// A route that a host has from the start: where to, with which metric, how.
pub type InitialRoute = (Prefix, u32, Route);

/// Configuration of a stack: its settings at the start, and those that the experiment changes while it runs.
#[derive(Clone, Debug)]
#[repr(C)] // What is read often comes first: see `belljar_base::Footprint`.
pub struct StackConfig {
    /// The name server, if there is one.
    pub resolver: Option<Resolver>,
    /// True if to keep the packets that pass `eth0` and `lo` for [`Stack::drain_captured`](super::Stack::drain_captured).
    pub capture: bool,
    /// True if to keep the changes of the main routing tables for [`Stack::take_route_log`](super::Stack::take_route_log).
    pub log_routes: bool,
    /// Fetches bytes into the cache that are about to be read.
    pub prefetch: fn(&[u8]),
    /// The node's place among the experiment's nodes in name order.
    pub id: HostId,
    /// Its name.
    pub name: String,
    /// The experiment's seed.
    pub seed: Seed,
    /// Its address on the graph, or that by which others know it.
    pub address: Ipv4Addr,
    /// True if it has IPv6 besides `::1`.
    pub ipv6: bool,
    /// Its IPv6 address on the graph.
    pub address6: Option<Ipv6Addr>,
    /// IPv6 routes besides those to the networks of its addresses.
    pub routes6: Vec<InitialRoute6>,
    /// True if it is attached to the graph, by `eth0`.
    pub on_graph: bool,
    /// Its interfaces at the ends of links.
    pub links: Vec<LinkConfig>,
    /// Routes besides those to the networks of its addresses.
    pub routes: Vec<InitialRoute>,
    /// True if it passes packets of others on.
    pub forwarding: bool,
    /// Clamping of the MSS option of SYNs that it passes on.
    pub clamp_mss: Option<MssClamp>,
    /// Settings, with their values as sysctl(8) writes them.
    pub sysctls: Vec<(crate::sysctl::Sysctl, String)>,
    /// Settings of interfaces.
    pub interface_settings: Vec<(crate::conf::GivenSetting, i32)>,
    /// Queues and bandwidths of `eth0`.
    pub nic: NicConfig,
    /// Until then `eth0` can send and receive whatever comes.
    pub bootstrap_end: SimTime,
    /// Initial sizes of the buffers of TCP sockets, and whether they are tuned automatically.
    pub buffers: TcpBufferSizes,
}

impl StackConfig {
    /// A stack without any interface but `lo`.
    pub fn new(id: HostId, name: &str, seed: Seed) -> StackConfig {
        StackConfig {
            resolver: None,
            capture: false,
            log_routes: false,
            prefetch: |_| (),
            id,
            name: name.into(),
            seed,
            address: Ipv4Addr::UNSPECIFIED,
            ipv6: false,
            address6: None,
            routes6: Vec::new(),
            on_graph: false,
            links: Vec::new(),
            routes: Vec::new(),
            forwarding: false,
            clamp_mss: None,
            sysctls: Vec::new(),
            interface_settings: Vec::new(),
            nic: NicConfig::default(),
            bootstrap_end: SimTime::ZERO,
            buffers: TcpBufferSizes::default(),
        }
    }
}

/// The buffers of TCP sockets, where they are not to be Linux's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpBufferSizes {
    /// Bytes of the receive buffer at first.
    pub receive: Option<u32>,
    /// It stays as it is.
    pub receive_fixed: bool,
    /// Bytes of the send buffer at first.
    pub send: Option<u32>,
    /// It stays as it is.
    pub send_fixed: bool,
}

/// A packet on its way out of an interface.
#[derive(Debug)]
pub struct Departure {
    /// When its last bit leaves.
    pub at: SimTime,
    /// The link that it leaves by, by its number among the host's; `None`: to the graph.
    pub link: Option<usize>,
    /// Where it is going, over the graph: its header has gone cold when that is asked for.
    pub to: Option<std::net::IpAddr>,
    /// The packet: an IP datagram, or on a link an Ethernet frame.
    pub packet: belljar_net::Packet,
}
