//! The interfaces as programs see them, and the state of `lo` and `eth0`. `lo` is the first interface, followed
//! by `eth0` on a host attached to the graph.

use crate::TimerId;
use crate::link::LinkConfig;
use belljar_base::SimTime;
use belljar_linux_abi::c;
use belljar_net::{InterfaceAddress, Nic, Packet};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// The MTU of `lo`.
pub const LO_MTU: usize = 65_536;
/// Length of the graph's `eth0` netmask shown to programs. Routing does not depend on it: every host is
/// on-link.
pub const GRAPH_PREFIX: u8 = 24;
/// Length of the graph's `eth0` IPv6 prefix shown to programs.
pub const GRAPH_PREFIX6: u8 = 64;
/// The MTU of the graph's `eth0`.
pub const ETH0_MTU: usize = 1_500;
/// The number of the interface to the graph, if there is one.
pub const GRAPH: usize = super::ETH0;
/// Number of packets over `lo` at one instant that are free. Each further one is charged like a system call,
/// so that two sockets of one host cannot stop the clock.
const LO_FREE_PACKETS: u32 = 10_000;

/// The interface `lo`: packets are received at the instant of their transmission, but never within the
/// sending call.
#[derive(Debug, Default)]
pub struct Loopback {
    /// Queued packets with their input interface: `lo`, or the interface that has sent them to a group of
    /// which this host is a member.
    pub queue: VecDeque<(Packet, usize)>,
    pub(crate) scheduled: bool,
    instant: SimTime,
    in_this_instant: u32,
    /// Number of packets carried.
    pub packets: u64,
    /// Number of bytes carried.
    pub bytes: u64,
}

impl Loopback {
    /// Counts a packet delivered within the owner at `now`. True beyond the free number at one instant: the
    /// packet is charged like a call.
    pub(crate) fn exceeds_free_packets(&mut self, now: SimTime) -> bool {
        if self.instant != now {
            self.instant = now;
            self.in_this_instant = 0;
        }
        self.in_this_instant += 1;
        self.in_this_instant > LO_FREE_PACKETS
    }
}

/// The interface to the graph, `eth0`.
#[derive(Debug)]
pub struct Ethernet {
    /// The queues and the transmitter.
    pub nic: Nic,
    pub(crate) timer: Option<TimerId>,
}

impl Ethernet {
    /// Creates an idle interface.
    pub fn new(nic: Nic) -> Ethernet {
        Ethernet { nic, timer: None }
    }
}

/// The medium that an interface is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// The host itself.
    Loopback,
    /// The graph.
    Graph,
    /// A link of the experiment, by its number on the host.
    Link(usize),
    /// A program that exchanges IP packets, by its number in `Stack::tuns`.
    Tun(usize),
    /// A program that exchanges Ethernet frames, by its number in `Stack::tuns`.
    Tap(usize),
    /// No medium: transmitted packets are discarded.
    Dummy,
    /// A VLAN on another interface.
    Vlan {
        /// The number of the lower interface.
        below: usize,
        /// The VLAN ID.
        id: u16,
    },
    /// A veth pair, by its other end.
    Veth {
        /// The number of the peer's network namespace.
        network: u32,
        /// The number of the peer there.
        peer: usize,
    },
    /// A device that forwards frames or packets of others: see [`devices`](crate::devices).
    Made(DeviceKind),
    /// An intermediate functional block: it carries packets that actions of traffic control pass to it.
    Ifb,
    /// A program that has detached and may return.
    Unplugged {
        /// True if the program exchanges Ethernet frames.
        tap: bool,
    },
    /// The interface is deleted. Its number is not reused.
    Gone,
}

/// Kind of a device whose state is in [`Devices`](crate::devices::Devices).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// A bridge (IEEE 802.1D).
    Bridge,
    /// An interface of interfaces that carry its frames.
    Bond,
    /// A VXLAN tunnel end point.
    Vxlan,
    /// A VRF: an interface of interfaces with a routing table of their own.
    Vrf,
    /// A GRE tunnel for IP packets.
    Gre,
    /// A GRE tunnel for Ethernet frames.
    Gretap,
    /// A tunnel for IPv4 over IPv4.
    Ipip,
    /// A tunnel for IPv6 over IPv4.
    Sit,
    /// A tunnel over IPv6.
    Ip6tnl,
    /// A Geneve tunnel.
    Geneve,
    /// An interface with a hardware address of its own on another one.
    Macvlan,
    /// An interface with IP addresses of its own on another one.
    Ipvlan,
    /// A WireGuard tunnel.
    Wireguard,
}

impl DeviceKind {
    /// All kinds.
    pub const ALL: [DeviceKind; 13] = [
        DeviceKind::Bridge,
        DeviceKind::Bond,
        DeviceKind::Vxlan,
        DeviceKind::Vrf,
        DeviceKind::Gre,
        DeviceKind::Gretap,
        DeviceKind::Ipip,
        DeviceKind::Sit,
        DeviceKind::Ip6tnl,
        DeviceKind::Geneve,
        DeviceKind::Macvlan,
        DeviceKind::Ipvlan,
        DeviceKind::Wireguard,
    ];
    /// Name of the kind in rtnetlink.
    pub fn name(self) -> &'static str {
        match self {
            DeviceKind::Bridge => "bridge",
            DeviceKind::Bond => "bond",
            DeviceKind::Vxlan => "vxlan",
            DeviceKind::Vrf => "vrf",
            DeviceKind::Gre => "gre",
            DeviceKind::Gretap => "gretap",
            DeviceKind::Ipip => "ipip",
            DeviceKind::Sit => "sit",
            DeviceKind::Ip6tnl => "ip6tnl",
            DeviceKind::Geneve => "geneve",
            DeviceKind::Macvlan => "macvlan",
            DeviceKind::Ipvlan => "ipvlan",
            DeviceKind::Wireguard => "wireguard",
        }
    }
    /// True if the device sends and receives Ethernet frames.
    pub fn is_ethernet(self) -> bool {
        match self {
            DeviceKind::Bridge | DeviceKind::Bond | DeviceKind::Vxlan => true,
            DeviceKind::Macvlan | DeviceKind::Ipvlan => true,
            DeviceKind::Gretap | DeviceKind::Geneve => true,
            DeviceKind::Vrf | DeviceKind::Wireguard => false,
            DeviceKind::Gre | DeviceKind::Ipip | DeviceKind::Sit | DeviceKind::Ip6tnl => false,
        }
    }
    /// True if the device has a carrier of its own, which may be lost.
    pub fn has_carrier(self) -> bool {
        matches!(
            self,
            DeviceKind::Bridge
                | DeviceKind::Bond
                | DeviceKind::Vrf
                | DeviceKind::Macvlan
                | DeviceKind::Ipvlan
        )
    }
    fn hardware_type(self) -> u16 {
        match self {
            DeviceKind::Gre => 778,
            DeviceKind::Ipip => 768,
            DeviceKind::Sit => 776,
            DeviceKind::Ip6tnl => 769,
            DeviceKind::Wireguard => 0xfffe,
            _ => 1,
        }
    }
    fn flags(self) -> i32 {
        match self {
            DeviceKind::Gre | DeviceKind::Ipip | DeviceKind::Sit | DeviceKind::Ip6tnl => c::IFF_NOARP,
            DeviceKind::Wireguard => c::IFF_POINTOPOINT | c::IFF_NOARP,
            DeviceKind::Vrf => c::IFF_MASTER | c::IFF_NOARP,
            DeviceKind::Bond => c::IFF_MASTER | c::IFF_BROADCAST | c::IFF_MULTICAST,
            _ => c::IFF_BROADCAST | c::IFF_MULTICAST,
        }
    }
}

impl Attachment {
    /// True if Linux copies the packets of `MSG_ZEROCOPY` sends on this medium: local delivery, and delivery to
    /// programs.
    pub fn copies_zero_copy(self) -> bool {
        !matches!(self, Attachment::Graph | Attachment::Link(_))
    }
}

/// Settings of the administrator that override the defaults of the interface's kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkSettings {
    /// The `IFF_*` flags that differ from the kind's.
    pub toggled: u32,
    /// `IFLA_IFALIAS`: a description.
    pub alias: Option<Box<[u8]>>,
    /// `IFLA_GROUP`: the interface group.
    pub group: u32,
    /// `IFLA_TXQLEN`, if it differs from the kind's.
    pub queue_len: Option<u32>,
    /// `IFLA_BROADCAST`, if it differs from the kind's.
    pub broadcast: Option<[u8; 6]>,
    /// `IFLA_LINKMODE`.
    pub link_mode: u8,
    /// `IFLA_OPERSTATE` of an interface with a carrier whose link mode keeps it from being up; 0 for others.
    pub held_state: u8,
    /// Time at which the interface was taken down, if it was in use.
    pub taken_down: Option<SimTime>,
}

/// An interface as visible to programs.
#[derive(Clone, Debug)]
pub struct Interface {
    /// The interface's name.
    pub name: Arc<str>,
    /// The interface's hardware address.
    pub mac: [u8; 6],
    /// MTU in bytes.
    pub mtu: usize,
    /// The interface's IPv4 addresses, primary ones first.
    pub addresses: Vec<InterfaceAddress>,
    /// The interface's IPv6 addresses, those of the widest scope first.
    pub addresses6: Vec<InterfaceAddress<Ipv6Addr>>,
    /// `IFF_UP`: the interface is administratively up.
    pub up: bool,
    /// True if the medium is connected.
    pub carrier: bool,
    /// Numbers of times that the carrier came and went.
    pub carrier_changes: (u32, u32),
    /// The medium of the interface.
    pub attachment: Attachment,
    /// Further settings of the administrator.
    pub settings: LinkSettings,
    /// Number of the device of which the interface is a port.
    pub master: Option<usize>,
}

/// Sorts addresses as an interface stores them: primary ones first. An address in the network of an earlier
/// one is secondary.
fn primary_first(addresses: &[InterfaceAddress]) -> Vec<InterfaceAddress> {
    let is_first = |at: usize| addresses[..at].iter().all(|own| own.network() != addresses[at].network());
    let (primary, secondary): (Vec<_>, Vec<_>) = (0..addresses.len()).partition(|at| is_first(*at));
    primary.into_iter().chain(secondary).map(|at| addresses[at]).collect()
}

impl Interface {
    /// The interface `lo`.
    pub fn loopback() -> Interface {
        Interface {
            name: "lo".into(),
            mac: [0; 6],
            mtu: LO_MTU,
            addresses: vec![InterfaceAddress::new(Ipv4Addr::LOCALHOST, 8)],
            addresses6: vec![InterfaceAddress::new(Ipv6Addr::LOCALHOST, 128)],
            up: true,
            carrier: true,
            carrier_changes: (0, 0),
            attachment: Attachment::Loopback,
            settings: LinkSettings::default(),
            master: None,
        }
    }
    /// The interface `eth0` of a host on the graph.
    pub fn graph(mac: [u8; 6], address: Ipv4Addr, address6: Option<Ipv6Addr>) -> Interface {
        Interface {
            name: "eth0".into(),
            mac,
            mtu: ETH0_MTU,
            addresses: vec![InterfaceAddress::new(address, GRAPH_PREFIX)],
            addresses6: address6.map(|ip| InterfaceAddress::new(ip, GRAPH_PREFIX6)).into_iter().collect(),
            up: true,
            carrier: true,
            carrier_changes: (1, 1),
            attachment: Attachment::Graph,
            settings: LinkSettings::default(),
            master: None,
        }
    }
    /// The interface at the end of a link, by the number of the link on the host.
    pub fn link(number: usize, config: &LinkConfig) -> Interface {
        Interface {
            name: config.name.clone(),
            mac: config.mac,
            mtu: config.mtu,
            addresses: primary_first(&config.addresses),
            addresses6: config.addresses6.clone(),
            up: true,
            carrier: config.carrier,
            carrier_changes: (1, 1),
            attachment: Attachment::Link(number),
            settings: LinkSettings::default(),
            master: None,
        }
    }
    /// `ARPHRD_LOOPBACK`, `ARPHRD_NONE` or `ARPHRD_ETHER`.
    pub fn hardware_type(&self) -> u16 {
        match self.attachment {
            Attachment::Loopback => 772,
            Attachment::Tun(_) | Attachment::Unplugged { tap: false } => 0xfffe,
            Attachment::Made(kind) => kind.hardware_type(),
            _ => 1,
        }
    }
    /// The `IFF_*` flags of the interface's kind and of the administrator, without those of the operational
    /// state.
    pub fn lasting_flags(&self) -> u32 {
        let own = match self.attachment {
            Attachment::Loopback => c::IFF_LOOPBACK,
            Attachment::Dummy | Attachment::Ifb => c::IFF_BROADCAST | c::IFF_NOARP,
            Attachment::Made(kind) => kind.flags(),
            Attachment::Tun(_) => c::IFF_POINTOPOINT | c::IFF_NOARP | c::IFF_MULTICAST,
            _ => c::IFF_BROADCAST | c::IFF_MULTICAST,
        };
        own as u32 ^ self.settings.toggled
    }
    /// True if neighbours are resolved to hardware addresses, and requests for the interface's own are
    /// answered.
    pub fn asks_neighbours(&self) -> bool {
        self.lasting_flags() & c::IFF_NOARP as u32 == 0
    }
    /// Queue capacity in packets, as reported to programs.
    pub fn queue_capacity(&self) -> u32 {
        let usual = match self.attachment {
            Attachment::Tun(_) | Attachment::Tap(_) => 500,
            Attachment::Ifb => 32,
            _ => 1_000,
        };
        self.settings.queue_len.unwrap_or(usual)
    }
    /// `IFF_LOWER_UP`: the interface is up and has a carrier.
    pub fn has_lower_up(&self) -> bool {
        self.up && self.carrier
    }
    /// `IFF_RUNNING`: the interface is up and has a carrier, and its link mode does not keep it from use.
    pub fn is_running(&self) -> bool {
        self.has_lower_up() && self.settings.held_state == 0
    }
    /// Applies the link mode when the carrier may have changed (`rfc2863_policy`).
    pub fn apply_link_mode(&mut self) {
        const IF_OPER_TESTING: u8 = 4;
        const IF_OPER_DORMANT: u8 = 5;
        let has_carrier = match self.attachment {
            Attachment::Link(_) | Attachment::Vlan { .. } | Attachment::Veth { .. } => true,
            Attachment::Made(kind) => kind.has_carrier(),
            _ => false,
        };
        self.settings.held_state = match self.settings.link_mode {
            1 if has_carrier && self.has_lower_up() => IF_OPER_DORMANT,
            2 if has_carrier && self.has_lower_up() => IF_OPER_TESTING,
            _ => 0,
        };
    }
    /// True if the interface is up without a carrier because of its lower interface or veth peer.
    pub fn waits_for_below(&self) -> bool {
        let lies_upon = matches!(
            self.attachment,
            Attachment::Vlan { .. }
                | Attachment::Veth { .. }
                | Attachment::Made(DeviceKind::Macvlan | DeviceKind::Ipvlan)
        );
        self.up && !self.carrier && lies_upon
    }
    /// True if the interface is at the end of a link with neighbours.
    pub fn is_link(&self) -> bool {
        match self.attachment {
            Attachment::Link(_) | Attachment::Tap(_) | Attachment::Dummy => true,
            Attachment::Vlan { .. } | Attachment::Veth { .. } | Attachment::Ifb => true,
            Attachment::Made(kind) => kind.is_ethernet(),
            Attachment::Loopback | Attachment::Graph | Attachment::Tun(_) => false,
            Attachment::Unplugged { .. } | Attachment::Gone => false,
        }
    }
    /// True if the networks of the interface's IPv6 addresses are routed over it.
    pub fn routes_networks6(&self) -> bool {
        self.is_link() || matches!(self.attachment, Attachment::Made(_))
    }
    /// Sets the carrier, counts a change and applies the link mode.
    pub fn set_carrier(&mut self, carrier: bool) {
        if carrier != self.carrier {
            let (up, down) = &mut self.carrier_changes;
            *(if carrier { up } else { down }) += 1;
            self.carrier = carrier;
        }
        self.apply_link_mode();
    }
    /// True if the interface has not been deleted.
    pub fn exists(&self) -> bool {
        self.attachment != Attachment::Gone
    }
}

/// The destination address of a packet.
pub(crate) fn destination(packet: &[u8]) -> Option<IpAddr> {
    if packet.first()? >> 4 == 6 {
        let octets: [u8; 16] = packet.get(24..40)?.try_into().ok()?;
        return Some(octets.into());
    }
    let octets: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
    (packet[0] >> 4 == 4).then(|| octets.into())
}

impl Interface {
    /// Creates an interface attached to a program.
    pub fn program(name: &str, mac: [u8; 6], attachment: Attachment) -> Interface {
        Interface {
            name: name.into(),
            mac,
            mtu: 1_500,
            addresses: Vec::new(),
            addresses6: Vec::new(),
            up: false,
            carrier: true,
            carrier_changes: (0, 0),
            attachment,
            settings: LinkSettings::default(),
            master: None,
        }
    }
}
