//! Configuration of a stack.

use crate::link::LinkConfig;
use crate::resolver::Resolver;
use crate::v6::InitialRoute6;
use belljar_base::{HostId, Seed, SimTime};
use belljar_net::routes::{Prefix, Route};
use belljar_net::{MssClamp, NicConfig};
use std::net::{Ipv4Addr, Ipv6Addr};

/// An initial route of a host: its prefix, metric and next hops.
pub type InitialRoute = (Prefix, u32, Route);

/// Configuration of a stack: its initial settings, and those that the experiment changes during the run.
#[derive(Clone, Debug)]
#[repr(C)] // Frequently read fields come first: see `belljar_base::Footprint`.
pub struct StackConfig {
    /// The name server, if there is one.
    pub resolver: Option<Resolver>,
    /// True to capture the packets that pass `eth0` and `lo` for
    /// [`Stack::drain_captured`](super::Stack::drain_captured).
    pub capture: bool,
    /// True to log the changes of the main routing tables for
    /// [`Stack::route_log`](super::Stack::route_log).
    pub log_routes: bool,
    /// Prefetches bytes that are about to be read into the cache.
    pub prefetch: fn(&[u8]),
    /// The node's rank in the name order of the experiment's nodes.
    pub id: HostId,
    /// The node's name.
    pub name: String,
    /// The experiment's seed.
    pub seed: Seed,
    /// The node's address on the graph, or the address by which other nodes know it.
    pub address: Ipv4Addr,
    /// True if the node has IPv6 in addition to `::1`.
    pub ipv6: bool,
    /// The node's IPv6 address on the graph.
    pub address6: Option<Ipv6Addr>,
    /// IPv6 routes in addition to those to the networks of its addresses.
    pub routes6: Vec<InitialRoute6>,
    /// True if the node is attached to the graph by `eth0`.
    pub on_graph: bool,
    /// The node's interfaces at the ends of links.
    pub links: Vec<LinkConfig>,
    /// IPv4 routes in addition to those to the networks of its addresses.
    pub routes: Vec<InitialRoute>,
    /// True if the node forwards IPv4 packets.
    pub forwarding: bool,
    /// Clamping of the MSS option of forwarded SYNs.
    pub clamp_mss: Option<MssClamp>,
    /// Host-wide settings, with their values in the format of sysctl(8).
    pub sysctls: Vec<(crate::sysctl::Sysctl, String)>,
    /// Per-interface settings.
    pub interface_settings: Vec<(crate::conf::GivenSetting, i32)>,
    /// Queues and bandwidths of `eth0`.
    pub nic: NicConfig,
    /// End of the bootstrap phase, in which `eth0` has unlimited bandwidth and buffers.
    pub bootstrap_end: SimTime,
    /// Initial sizes and autotuning of the buffers of TCP sockets.
    pub buffers: TcpBufferSizes,
    /// Frequency error of the node's oscillator in parts per billion.
    pub oscillator_ppb: i64,
}

impl StackConfig {
    /// A configuration with `lo` as the only interface.
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
            oscillator_ppb: 0,
        }
    }
}

/// Buffers of TCP sockets, if they differ from Linux's defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpBufferSizes {
    /// Initial size of the receive buffer in bytes.
    pub receive: Option<u32>,
    /// True to disable autotuning of the receive buffer.
    pub receive_fixed: bool,
    /// Initial size of the send buffer in bytes.
    pub send: Option<u32>,
    /// True to disable autotuning of the send buffer.
    pub send_fixed: bool,
}

/// A packet that departs from an interface.
#[derive(Debug)]
pub struct Departure {
    /// Time at which its last bit departs.
    pub at: SimTime,
    /// The outgoing link, by its number on the host; `None` for the graph.
    pub link: Option<usize>,
    /// Destination on the graph, kept apart since the header has left the cache by the time it is needed.
    pub to: Option<std::net::IpAddr>,
    /// The packet: an IP datagram, or on a link an Ethernet frame.
    pub packet: belljar_net::Packet,
}
