//! Explicit topologies: switches, routers, and the links between named interfaces.

mod p4;
mod pci;

pub(crate) use p4::ManagementAddress;
pub use p4::{LoadedProgram, P4Management, P4Setup, P4Source, P4Switch};
pub use pci::{Memory, NEAR, Nic, PCI_PORT, PciConnection, PciDriver, PciDriverKind, PciRole};

use crate::model::{CaptureFilter, Experiment};
use belljar_base::{HostId, Map, SimDuration};
use belljar_net::{InterfaceAddress, Loss, MssClamp, Prefix, QueueConfig, Reordering, TokenBucket};
use belljar_radio::{RandomWaypoint, Settings, Track};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

/// Everything of the network that is not the graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Topology {
    /// The devices: switches in the order of their names, then routers, other simulators, radios, gateways and network controllers in the order of theirs. Their
    /// node ids follow those of the hosts.
    pub devices: Vec<Device>,
    /// The links in the order of the file.
    pub links: Vec<Link>,
    /// The frames of devices are captured.
    pub pcap_enabled: bool,
    /// Bytes of each frame that a capture keeps.
    pub pcap_capture_size: u64,
    /// The frames to capture.
    pub pcap_filter: CaptureFilter,
}

/// A device: a node at the ends of links that is no host.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Its interfaces; the ports of a switch.
    pub interfaces: Vec<Interface>,
    /// Its kind, with the settings that only that has.
    pub kind: DeviceKind,
}

/// The kind of a device. What the rest of the system asks of a kind are its properties, by the methods; only
/// whoever reads, writes or builds a device looks at the variant.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceKind {
    /// A learning switch.
    Switch(Switch),
    /// A router.
    Router(Router),
    /// Another simulator.
    Simulator(Simulator),
    /// A switch that a P4 program makes.
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
    /// After how long without a frame a station is forgotten.
    pub ageing: SimDuration,
}

/// The settings of a router.
#[derive(Clone, Debug, PartialEq)]
pub struct Router {
    /// Source of its routes.
    pub routing: Routing,
    /// Limit of the MSS option of passing SYNs.
    pub clamp_mss: Option<MssClamp>,
}

/// Another simulator, with which frames are exchanged over channels: one for each of its ports.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulator {
    /// The program and its arguments, in which [`place`](Self::place) puts the ports' addresses; empty: somebody else
    /// starts it.
    pub command: Vec<String>,
    /// Variables added to its environment.
    pub environment: Map<String, String>,
    /// Its working directory.
    pub working_directory: PathBuf,
    /// True if its clock and that of the simulation are kept in step.
    pub sync: bool,
    /// Latency of its channels: each side adds it to the time of what it sends.
    pub latency: SimDuration,
    /// The longest time between two messages of a channel.
    pub sync_interval: SimDuration,
    /// The longest real time until all its channels are set up.
    pub start_timeout: SimDuration,
    /// By the number of the interface.
    pub ports: Vec<SimulatorPort>,
}

/// An interface of this machine at the end of a link, with which frames are exchanged in real time.
#[derive(Clone, Debug, PartialEq)]
pub struct Gateway {
    /// The interface by its name; `tap:NAME` is a TAP interface, `unix:PATH` a socket of frames.
    pub interface: String,
    /// The machine's address at a TAP interface that the run makes.
    pub address: Option<InterfaceAddress>,
    /// The network namespace of the interface, as `ip netns` names it; `None`: that of the program.
    pub namespace: Option<String>,
    /// A frame that leaves later than this ends the run.
    pub hard_limit: Option<SimDuration>,
}

/// A port of another simulator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SimulatorPort {
    /// The simulator creates the socket and the shared memory.
    pub listens: bool,
    /// The path of the socket; `None`: one that is made for the run.
    pub socket: Option<PathBuf>,
    /// The other end of its link is a simulator too: their channel is wired directly, with the link's latency.
    pub wired: bool,
    /// A PCI connection or one to a memory ends here.
    pub pci: Option<PciPort>,
}

/// A simulator's end of a PCI connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PciPort {
    /// Latency of the channel.
    pub latency: SimDuration,
    /// What the simulator is.
    pub role: PciRole,
}

impl Simulator {
    /// Puts what `value` gives for `NAME` or `NAME.socket` and the like in the place of `{NAME}` in an argument. The error is
    /// the name that `value` does not know.
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
    /// How frames are sent and how far they are heard.
    pub settings: Settings,
    /// How stations without a track move.
    pub movement: Option<RandomWaypoint>,
    /// The tracks of the stations, by interface; `None`: it is drawn from the seed.
    pub tracks: Vec<Option<Track>>,
}

/// Treatment of the frames of the links that a device joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bridging {
    /// It ends them: each of its links is a network of its own.
    Separate,
    /// Its links are one network, and it takes part in the spanning tree.
    SpanningTree,
    /// Its links are one network, as far as is known here: what becomes of frames is for another simulator, a program, the distance or this machine to say.
    Unknown,
}

impl DeviceKind {
    /// The name of the kind, in the singular and in the plural: that of its section in the file and of its folder
    /// in the results.
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
    /// Where its IP routes come from; `None` if it has no IP address.
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
    /// True if it passes IP packets on by those routes.
    pub fn forwards(&self) -> bool {
        matches!(self, DeviceKind::Router(_))
    }
    /// True if it waits for a clock outside of the simulation.
    pub fn waits_outside(&self) -> bool {
        matches!(self, DeviceKind::Simulator(_) | DeviceKind::Gateway(_))
    }
    /// The treatment of the frames of the link at one of its interfaces.
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

/// Where a host or router has its routes from, besides its own networks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Routing {
    /// True if shortest paths over the links give it routes.
    pub computed: bool,
    /// Routes of the experiment file.
    pub routes: Vec<StaticRoute>,
    /// IPv6 routes of the experiment file.
    pub routes6: Vec<StaticRoute<Ipv6Addr>>,
}

/// A route of the experiment file.
#[derive(Clone, Debug, PartialEq)]
pub struct StaticRoute<A = Ipv4Addr> {
    /// Where to.
    pub to: Prefix<A>,
    /// The next routers; flows spread over several. None: the destination is on the link of `device`.
    pub via: Vec<A>,
    /// The interface's number among the node's, where `via` is empty.
    pub device: Option<usize>,
    /// Less is better.
    pub metric: u32,
}

/// An interface at the end of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct Interface {
    /// Its name, unique on its node.
    pub name: String,
    /// Its hardware address, if the file says so.
    pub mac: Option<[u8; 6]>,
    /// Its addresses, given or assigned; a switch's port has none, its management interface has.
    pub addresses: Vec<InterfaceAddress>,
    /// Its IPv6 addresses but for the link-local one, given or assigned.
    pub addresses6: Vec<InterfaceAddress<Ipv6Addr>>,
    /// A host's: it makes itself addresses of what routers announce.
    pub slaac: bool,
    /// A router's: it announces itself and its networks.
    pub advertise: bool,
    /// Its link, by its place among all links.
    pub link: usize,
    /// The end of it: 0 or 1.
    pub end: usize,
}

/// A link between two interfaces.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Its name, unique.
    pub name: String,
    /// Its ends.
    pub ends: [LinkEnd; 2],
    /// The longest IP packet that it carries.
    pub mtu: usize,
    /// Cost of using it, for shortest paths.
    pub cost: u32,
    /// The PCI connection that it is, if it is no link of a network.
    pub pci: Option<PciConnection>,
}

/// An end of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkEnd {
    /// The host or device that it belongs to.
    pub node: HostId,
    /// The number of the interface among those of the node that are on links.
    pub port: usize,
    /// The direction from here to the other end.
    pub line: Line,
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Bits per second; `None` is unlimited.
    pub rate: Option<u64>,
    /// Latency: the time that the last bit travels.
    pub latency: SimDuration,
    /// Jitter: how much more or less that may be.
    pub jitter: SimDuration,
    /// Loss of frames.
    pub loss: Loss,
    /// Reordering of frames.
    pub reordering: Option<Reordering>,
    /// The probability that a frame arrives twice.
    pub duplication: f64,
    /// The probability that one bit of a frame arrives wrong.
    pub corruption: f64,
    /// The queue before it.
    pub queue: QueueConfig,
    /// Token bucket that limits the rate in the long run.
    pub token_bucket: Option<TokenBucket>,
    /// Bytes that each frame takes on the wire besides its own.
    pub overhead: u64,
}

impl Default for Line {
    fn default() -> Line {
        Line {
            rate: Some(1_000_000_000),
            latency: SimDuration::from_micros(10),
            jitter: SimDuration::ZERO,
            loss: Loss::Independent(0.0),
            reordering: None,
            duplication: 0.0,
            corruption: 0.0,
            queue: QueueConfig::default(),
            token_bucket: None,
            overhead: 0,
        }
    }
}

impl Experiment {
    /// The device with this node id; `None` for a host.
    pub fn device(&self, id: HostId) -> Option<&Device> {
        self.topology.devices.get(id.index().checked_sub(self.hosts.len())?)
    }
    /// The name of a host or device.
    pub fn node_name(&self, id: HostId) -> &str {
        self.device(id).map_or_else(|| &*self.hosts[id.index()].name, |device| &device.name)
    }
    /// The interfaces of a host or device that are on links.
    pub fn node_interfaces(&self, id: HostId) -> &[Interface] {
        self.device(id).map_or_else(|| &*self.hosts[id.index()].interfaces, |device| &device.interfaces)
    }
    /// Source of a node's IP routes; `None` for a device without an IP address.
    pub fn node_routing(&self, id: HostId) -> Option<&Routing> {
        match self.device(id) {
            Some(device) => device.kind.routing(),
            None => Some(&self.hosts[id.index()].routing),
        }
    }
    /// Treatment of a link's frames at one of its ends; a host ends them.
    pub fn bridging(&self, end: &LinkEnd) -> Bridging {
        self.device(end.node).map_or(Bridging::Separate, |device| device.kind.bridging(end.port))
    }
    /// Numbers of other simulators that are started and keep in step with it, which they do by spinning as a rule: of each
    /// group of [those together](Self::simulators_together).
    pub fn started_simulators(&self) -> Vec<usize> {
        let started = |id: &&HostId| match self.device(**id).map(|device| &device.kind) {
            Some(DeviceKind::Simulator(simulator)) => simulator.sync && !simulator.command.is_empty(),
            _ => false,
        };
        self.simulators_together().iter().map(|group| group.iter().filter(started).count()).collect()
    }
    /// Groups of simulators that have channels with each other, directly or by others.
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
    /// True if it exchanges frames with this machine, and so runs in real time.
    pub fn has_gateways(&self) -> bool {
        self.topology.devices.iter().any(|device| matches!(device.kind, DeviceKind::Gateway(_)))
    }
    /// Number of hosts and devices.
    pub fn node_count(&self) -> usize {
        self.hosts.len() + self.topology.devices.len()
    }
    /// The names of all hosts and devices, in the order of their ids.
    pub fn node_names(&self) -> impl Iterator<Item = &str> {
        let hosts = self.hosts.iter().map(|host| host.name.as_str());
        hosts.chain(self.topology.devices.iter().map(|device| device.name.as_str()))
    }
}
