//! Explicit topologies: switches, routers, and the links between named interfaces.

mod p4;
mod pci;

pub(crate) use p4::ManagementAddress;
pub use p4::{LoadedProgram, P4Management, P4Setup, P4Source, P4Switch};
pub use pci::{Memory, NEAR, Nic, PCI_PORT, PciConnection, PciDriver, PciDriverKind, PciRole};

use crate::model::{CaptureFilter, Experiment};
use belljar_base::{HostId, Map, SimDuration};
use belljar_net::link::LinkProperties;
use belljar_net::{InterfaceAddress, MssClamp, Prefix};
use belljar_radio::{RandomWaypoint, Settings, Track};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

/// The network except for the graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Topology {
    /// Devices: switches sorted by name, then routers, other simulators, radios, gateways and network
    /// controllers, each sorted by name. Their node ids follow those of the hosts.
    pub devices: Vec<Device>,
    /// Links in the order of the file.
    pub links: Vec<Link>,
    /// True to capture the frames of devices.
    pub pcap_enabled: bool,
    /// Number of bytes captured of each frame.
    pub pcap_capture_size: u64,
    /// Filter of the captured frames.
    pub pcap_filter: CaptureFilter,
}

impl Topology {
    /// Device with this id, which is at least the number of hosts; `None` for a host.
    pub fn device(&self, id: HostId, hosts: usize) -> Option<&Device> {
        self.devices.get(id.index().checked_sub(hosts)?)
    }
    /// True if a link joins two simulators: it is a channel over which they exchange frames directly.
    pub fn is_channel(&self, link: &Link, hosts: usize) -> bool {
        let is_simulator = |end: &LinkEnd| {
            self.device(end.node, hosts).is_some_and(|device| matches!(device.kind, DeviceKind::Simulator(_)))
        };
        link.ends.iter().all(is_simulator)
    }
}

/// A device: a node at the ends of links other than a host.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Name of the device.
    pub name: String,
    /// Interfaces; the ports of a switch.
    pub interfaces: Vec<Interface>,
    /// Kind with its specific settings.
    pub kind: DeviceKind,
}

/// Kind of a device. Other modules use its properties through the methods; only code that loads, emits or
/// builds a device matches the variants.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceKind {
    /// A learning switch.
    Switch(Switch),
    /// A router.
    Router(Router),
    /// Another simulator.
    Simulator(Simulator),
    /// A switch that runs a P4 program.
    P4(Box<P4Switch>),
    /// A radio channel, whose stations are at the other ends of its links.
    Radio(Box<Radio>),
    /// An interface of this machine.
    Gateway(Gateway),
    /// A network controller.
    Nic(Nic),
    /// A memory.
    Memory(Memory),
}

/// The settings of a learning switch.
#[derive(Clone, Debug, PartialEq)]
pub struct Switch {
    /// Time without a frame after which a station is removed.
    pub ageing: SimDuration,
}

/// The settings of a router.
#[derive(Clone, Debug, PartialEq)]
pub struct Router {
    /// Computed and static routes.
    pub routing: Routing,
    /// Clamp of the MSS option in forwarded SYNs.
    pub clamp_mss: Option<MssClamp>,
}

/// Another simulator, with which frames are exchanged over channels, one for each of its ports.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulator {
    /// Program and arguments, in which [`place`](Self::place) substitutes the ports' addresses; empty if the
    /// simulator is started externally.
    pub command: Vec<String>,
    /// Additional environment variables.
    pub environment: Map<String, String>,
    /// Working directory.
    pub working_directory: PathBuf,
    /// True to synchronise its clock with the simulation.
    pub sync: bool,
    /// Latency of its channels, which each side adds to the time of the messages it sends.
    pub latency: SimDuration,
    /// Longest time between two messages of a channel.
    pub sync_interval: SimDuration,
    /// Longest real time for the set-up of all its channels.
    pub start_timeout: SimDuration,
    /// Time at which it may end.
    pub ends: SimulatorEnd,
    /// Ports, by the index of the interface.
    pub ports: Vec<SimulatorPort>,
}

/// Time at which another simulator may end, with exit status 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SimulatorEnd {
    /// The end of the run: an earlier one fails the run. A run in which only simulators act ends with them.
    #[default]
    WithRun,
    /// Any time: the run continues without it, and waits for it at the end.
    WithPeer,
}

impl SimulatorEnd {
    /// Values with their names in the file.
    pub const ALL: [(&str, SimulatorEnd); 2] =
        [("with run", SimulatorEnd::WithRun), ("with peer", SimulatorEnd::WithPeer)];

    /// Name in the file.
    pub fn name(self) -> &'static str {
        match self {
            SimulatorEnd::WithRun => "with run",
            SimulatorEnd::WithPeer => "with peer",
        }
    }
}

/// An interface of this machine at the end of a link, with which frames are exchanged in real time.
#[derive(Clone, Debug, PartialEq)]
pub struct Gateway {
    /// Name of the interface; `tap:NAME` for a TAP interface, `unix:PATH` for a socket of frames.
    pub interface: String,
    /// The machine's address on a TAP interface created by the run.
    pub address: Option<InterfaceAddress>,
    /// Network namespace of the interface, by its name for `ip netns`; `None` for that of the program.
    pub namespace: Option<String>,
    /// Lateness of a frame beyond which the run ends.
    pub hard_limit: Option<SimDuration>,
}

/// A port of another simulator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SimulatorPort {
    /// True if the simulator creates the socket and the shared memory.
    pub listens: bool,
    /// Path of the socket; `None` for one created by the run.
    pub socket: Option<PathBuf>,
    /// True if the other end of its link is a simulator too: their channel is direct, with the link's
    /// latency.
    pub wired: bool,
    /// The PCI or memory connection that ends here.
    pub pci: Option<PciPort>,
}

/// A simulator's end of a PCI connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PciPort {
    /// Latency of the channel.
    pub latency: SimDuration,
    /// Role of the simulator.
    pub role: PciRole,
}

impl Simulator {
    /// Substitutes the values of `NAME`, `NAME.socket` and the like for `{NAME}` in an argument. The error is
    /// the first unknown name.
    pub fn place(argument: &str, value: impl Fn(&str) -> Option<String>) -> Result<String, String> {
        let (mut out, mut rest) = (String::new(), argument);
        while let Some((before, after)) = rest.split_once('{') {
            let Some((name, behind)) = after.split_once('}') else { break };
            let is_name =
                !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
            out.push_str(before);
            match is_name {
                true => out.push_str(&value(name).ok_or_else(|| name.to_owned())?),
                false => {
                    out.push('{');
                    rest = after;
                    continue;
                }
            }
            rest = behind;
        }
        out.push_str(rest);
        Ok(out)
    }
}

/// The settings of a radio channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Radio {
    /// Propagation, rates and channel access.
    pub settings: Settings,
    /// Random movement of stations without a track.
    pub movement: Option<RandomWaypoint>,
    /// Tracks of the stations, by interface; `None` for a track drawn from the seed.
    pub tracks: Vec<Option<Track>>,
}

/// Handling of the frames on the links attached to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bridging {
    /// The device terminates frames: each of its links is a network of its own.
    Separate,
    /// The device's links form one network, and it takes part in the spanning tree.
    SpanningTree,
    /// The device's links form one network as far as is known here: another simulator, a program, the radio
    /// range or this machine decides on frames.
    Unknown,
}

impl DeviceKind {
    /// Name of the kind in the singular and the plural: the plural is the name of its section in the file and
    /// of its folder in the results.
    pub fn noun(&self) -> (&'static str, &'static str) {
        match self {
            DeviceKind::Switch(_) | DeviceKind::P4(_) => ("switch", "switches"),
            DeviceKind::Router(_) => ("router", "routers"),
            DeviceKind::Simulator(_) => ("simulator", "simulators"),
            DeviceKind::Radio(_) => ("radio", "radios"),
            DeviceKind::Gateway(_) => ("gateway", "gateways"),
            DeviceKind::Nic(_) => ("nic", "nics"),
            DeviceKind::Memory(_) => ("memory", "memories"),
        }
    }
    /// IP routes of the device; `None` if it has no IP address.
    pub fn routing(&self) -> Option<&Routing> {
        match self {
            DeviceKind::Router(router) => Some(&router.routing),
            DeviceKind::P4(p4) => p4.management.as_ref().map(|management| &management.routing),
            DeviceKind::Switch(_)
            | DeviceKind::Simulator(_)
            | DeviceKind::Radio(_)
            | DeviceKind::Gateway(_)
            | DeviceKind::Nic(_)
            | DeviceKind::Memory(_) => None,
        }
    }
    /// True if it forwards IP packets by those routes.
    pub fn forwards(&self) -> bool {
        matches!(self, DeviceKind::Router(_))
    }
    /// True if it waits for a clock outside of the simulation.
    pub fn waits_outside(&self) -> bool {
        matches!(self, DeviceKind::Simulator(_) | DeviceKind::Gateway(_))
    }
    /// Handling of the frames on the link at one of its interfaces.
    pub fn bridging(&self, interface: usize) -> Bridging {
        match self {
            DeviceKind::Switch(_) => Bridging::SpanningTree,
            DeviceKind::Router(_) => Bridging::Separate,
            DeviceKind::P4(p4) if p4.management.as_ref().is_some_and(|m| m.interface == interface) => {
                Bridging::Separate
            }
            DeviceKind::P4(_)
            | DeviceKind::Simulator(_)
            | DeviceKind::Radio(_)
            | DeviceKind::Gateway(_)
            | DeviceKind::Nic(_)
            | DeviceKind::Memory(_) => Bridging::Unknown,
        }
    }
}

/// Routes of a host or router, besides those to its own networks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Routing {
    /// True to compute shortest paths over the links.
    pub computed: bool,
    /// Routes in the experiment file.
    pub routes: Vec<StaticRoute>,
    /// IPv6 routes in the experiment file.
    pub routes6: Vec<StaticRoute<Ipv6Addr>>,
}

/// A route in the experiment file.
#[derive(Clone, Debug, PartialEq)]
pub struct StaticRoute<A = Ipv4Addr> {
    /// Destination network.
    pub to: Prefix<A>,
    /// Next hops; flows are spread over several. Empty for a destination on the link of `device`.
    pub via: Vec<A>,
    /// Index of the outgoing interface, if `via` is empty.
    pub device: Option<usize>,
    /// Metric; the lowest is preferred.
    pub metric: u32,
}

/// An interface at the end of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct Interface {
    /// Name, unique on its node.
    pub name: String,
    /// Hardware address, if specified.
    pub mac: Option<[u8; 6]>,
    /// IPv4 addresses, specified or assigned. Ports of a switch have none; its management interface does.
    pub addresses: Vec<InterfaceAddress>,
    /// IPv6 addresses except the link-local one, specified or assigned.
    pub addresses6: Vec<InterfaceAddress<Ipv6Addr>>,
    /// True for a host's interface that configures addresses from router advertisements.
    pub slaac: bool,
    /// True for a router's interface that sends router advertisements.
    pub advertise: bool,
    /// Index of its link.
    pub link: usize,
    /// Index of its end of the link: 0 or 1.
    pub end: usize,
}

/// A link between two interfaces.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Unique name of the link.
    pub name: String,
    /// Ends of the link.
    pub ends: [LinkEnd; 2],
    /// Length of the longest IP packet that it carries.
    pub mtu: usize,
    /// Cost for shortest paths.
    pub cost: u32,
    /// The PCI connection, if the link is one rather than part of a network.
    pub pci: Option<PciConnection>,
}

/// An end of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkEnd {
    /// Id of the host or device.
    pub node: HostId,
    /// Index of the interface among the node's interfaces on links.
    pub port: usize,
    /// Properties of the direction from here to the other end.
    pub properties: LinkProperties,
}

impl Experiment {
    /// The device with this node id; `None` for a host.
    pub fn device(&self, id: HostId) -> Option<&Device> {
        self.topology.device(id, self.hosts.len())
    }
    /// Name of a host or device.
    pub fn node_name(&self, id: HostId) -> &str {
        self.device(id).map_or_else(|| &*self.hosts[id.index()].name, |device| &device.name)
    }
    /// Interfaces of a host or device on links.
    pub fn node_interfaces(&self, id: HostId) -> &[Interface] {
        self.device(id).map_or_else(|| &*self.hosts[id.index()].interfaces, |device| &device.interfaces)
    }
    /// IP routes of a node; `None` for a device without an IP address.
    pub fn node_routing(&self, id: HostId) -> Option<&Routing> {
        match self.device(id) {
            Some(device) => device.kind.routing(),
            None => Some(&self.hosts[id.index()].routing),
        }
    }
    /// Handling of a link's frames at one of its ends; a host terminates them.
    pub fn bridging(&self, end: &LinkEnd) -> Bridging {
        self.device(end.node).map_or(Bridging::Separate, |device| device.kind.bridging(end.port))
    }
    /// For each group of [connected simulators](Self::simulators_together), the number of those that the run
    /// starts and synchronises, which usually spin.
    pub fn started_simulators(&self) -> Vec<usize> {
        let started = |id: &&HostId| match self.device(**id).map(|device| &device.kind) {
            Some(DeviceKind::Simulator(simulator)) => simulator.sync && !simulator.command.is_empty(),
            _ => false,
        };
        self.simulators_together().iter().map(|group| group.iter().filter(started).count()).collect()
    }
    /// Groups of simulators connected by channels, directly or through others.
    pub fn simulators_together(&self) -> Vec<Vec<HostId>> {
        let ids = (self.hosts.len() as u32..).map(HostId).zip(&self.topology.devices);
        let mut groups: Vec<Vec<HostId>> = ids
            .filter(|(_, device)| matches!(device.kind, DeviceKind::Simulator(_)))
            .map(|(id, _)| vec![id])
            .collect();
        for link in &self.topology.links {
            let places =
                link.ends.each_ref().map(|end| groups.iter().position(|group| group.contains(&end.node)));
            if let [Some(one), Some(other)] = places
                && one != other
            {
                let moved = groups.remove(one.max(other));
                groups[one.min(other)].extend(moved);
            }
        }
        groups.iter_mut().for_each(|group| group.sort_unstable());
        groups
    }
    /// True if the experiment exchanges frames with this machine, and so runs in real time.
    pub fn has_gateways(&self) -> bool {
        self.topology.devices.iter().any(|device| matches!(device.kind, DeviceKind::Gateway(_)))
    }
    /// Number of hosts and devices.
    pub fn node_count(&self) -> usize {
        self.hosts.len() + self.topology.devices.len()
    }
    /// Names of all hosts and devices, ordered by id.
    pub fn node_names(&self) -> impl Iterator<Item = &str> {
        let hosts = self.hosts.iter().map(|host| host.name.as_str());
        hosts.chain(self.topology.devices.iter().map(|device| device.name.as_str()))
    }
}

/// True if an interface of a host has a PTP hardware clock: all at the ends of links have, except for stations of a
/// radio channel and those of PCI controllers.
pub fn has_hardware_clock(topology: &Topology, hosts: usize, interface: &Interface) -> bool {
    let link = &topology.links[interface.link];
    let is_without = |kind: &DeviceKind| matches!(kind, DeviceKind::Radio(_) | DeviceKind::Nic(_));
    let device = |end: &LinkEnd| topology.device(end.node, hosts);
    link.pci.is_none() && !link.ends.iter().filter_map(device).any(|device| is_without(&device.kind))
}
