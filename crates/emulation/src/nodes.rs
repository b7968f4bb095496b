//! Namespaces of an emulation: one for each host, switch and router, and the hub, which holds the far ends
//! of all links whose frames pass through this process.

use crate::error::{Doing, Error, Result};
use crate::freeze::Freezer;
use crate::netlink::{Hop, Netlink, RouteSpec};
use crate::protocol::{self as messages, Freezing, HostSetup, News, Request};
use belljar_base::HostId;
use belljar_config::Experiment;
use belljar_config::topology::{DeviceKind, Interface};
use belljar_net::Prefix;
use belljar_net::routes::{Ip, protocol};
use belljar_plan::PlannedRoute;
use nix::sched::{CloneFlags, unshare};
use std::fs::{self, File};
use std::io::BufReader;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::mpsc::Sender;

/// Hidden subcommand that becomes the first process of a host.
pub const INIT_COMMAND: &str = "emulate-host";

/// Host, switch or router.
pub struct Node {
    /// Id in the experiment.
    pub id: HostId,
    /// Name in the experiment.
    pub name: String,
    /// Network namespace.
    pub namespace: OwnedFd,
    /// Netlink connection for the interfaces.
    pub netlink: Netlink,
    /// Indices of the interfaces on links, by port.
    pub ports: Vec<u32>,
    /// Index of the interface on the graph.
    pub graph: Option<u32>,
    /// Current routes over links.
    pub routes: Vec<RouteSpec>,
    /// TCP properties that the routes must set, because the namespace does not have them.
    named: Named,
    /// Connection to the first process, if the node is a host.
    pub connection: Option<UnixStream>,
    /// Id of the first process.
    pub first: Option<u32>,
    /// Freezer of the processes, if the node is a host that is frozen by signals.
    pub freezer: Option<Freezer>,
}

/// Event of a host: index of the node and message of its first process.
pub type HostNews = (usize, News);

/// Runs `make` on a thread that has moved to new namespaces of these kinds.
fn apart<T: Send>(flags: CloneFlags, make: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let work = || {
        unshare(flags).doing("making namespaces")?;
        make()
    };
    std::thread::scope(|scope| match scope.spawn(work).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// Network namespace of the calling thread.
fn own_namespace() -> Result<OwnedFd> {
    Ok(File::open("/proc/thread-self/ns/net").doing("opening a network namespace")?.into())
}

impl Node {
    /// Creates the namespace of a switch or router, or of the hub.
    pub fn device(id: HostId, name: &str, settings: &[(String, String)]) -> Result<Node> {
        let namespace = apart(CloneFlags::CLONE_NEWNET, || {
            write_settings(settings);
            own_namespace()
        })?;
        Node::new(id, name, namespace, Named::default(), None)
    }

    /// Creates the namespaces of a host and starts its first process, whose messages are sent to `news`.
    pub fn host(
        id: HostId,
        setup: &HostSetup,
        settings: &[(String, String)],
        news: Sender<HostNews>,
    ) -> Result<Node> {
        let (ours, theirs) = UnixStream::pair().doing("making a connection to a host")?;
        let flags = CloneFlags::CLONE_NEWNET
            | CloneFlags::CLONE_NEWNS
            | CloneFlags::CLONE_NEWUTS
            | CloneFlags::CLONE_NEWIPC
            | CloneFlags::CLONE_NEWPID;
        let program = std::env::current_exe().doing("finding this program")?;
        // Without control groups, the first process stops the others.
        let (orders, obedience) = match setup.dilated.as_ref().map(|dilated| &dilated.freezing) {
            Some(Freezing::Signals) => {
                let (ours, theirs) = UnixStream::pair().doing("making a connection to a host")?;
                (Some(Freezer::Host(ours)), Stdio::from(OwnedFd::from(theirs)))
            }
            _ => (None, Stdio::null()),
        };
        let (namespace, mut named, first) = apart(flags, || {
            write_settings(settings);
            let named = Named::missing(settings);
            let mut command = Command::new(program);
            command.arg(INIT_COMMAND).stdin(Stdio::from(OwnedFd::from(theirs))).stdout(obedience);
            let child = command.spawn().doing("starting the first process of a host")?;
            Ok((own_namespace()?, named, child.id()))
        })?;
        // The experiment's own choice takes precedence.
        let chosen = setup.sysctls.iter().any(|(name, _)| name == "net.ipv4.tcp_congestion_control");
        named.congestion = named.congestion.filter(|_| !chosen);
        messages::send(&ours, setup)?;
        let mut reader = BufReader::new(ours.try_clone().doing("sharing a connection")?);
        let index = id.index();
        std::thread::spawn(move || {
            while let Some(message) = messages::receive::<News>(&mut reader) {
                if news.send((index, message)).is_err() {
                    return;
                }
            }
            let _ = news.send((index, News::Unfit("its first process ended".into())));
        });
        let node = Node::new(id, &setup.name, namespace, named, Some(ours))?;
        Ok(Node { first: Some(first), freezer: orders, ..node })
    }

    fn new(
        id: HostId,
        name: &str,
        namespace: OwnedFd,
        named: Named,
        connection: Option<UnixStream>,
    ) -> Result<Node> {
        let mut netlink = Netlink::open(namespace.as_fd())?;
        let lo = netlink.index("lo")?;
        netlink.set_up(lo, true)?;
        let name = name.to_owned();
        let (ports, graph, routes) = (Vec::new(), None, Vec::new());
        let (first, freezer) = (None, None);
        Ok(Node { id, name, namespace, netlink, ports, graph, routes, named, connection, first, freezer })
    }

    /// Network namespace of the node.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.namespace.as_fd()
    }

    /// Sends a request to the first process; does nothing for nodes without one.
    pub fn tell(&self, request: &Request) -> Result<()> {
        match &self.connection {
            Some(connection) => messages::send(connection, request)
                .map_err(|error| Error::new(format!("host '{}': {error}", self.name))),
            None => Ok(()),
        }
    }

    /// Adds the addresses and brings the interfaces up, initially or again after [`down`](Self::down).
    pub fn configure(&mut self, experiment: &Experiment) -> Result<()> {
        if let (Some(index), Some(host)) = (self.graph, experiment.hosts.get(self.id.index())) {
            self.netlink.set_up(index, true)?;
            self.add_address(index, host.address.into(), GRAPH_PREFIX)?;
            let v4 = self.route_to_all(index, host.address.into());
            self.netlink.set_route(&v4)?;
            if let Some(address) = host.address6.filter(|_| host.ipv6) {
                self.add_address(index, address.into(), GRAPH_PREFIX6)?;
                let v6 = self.route_to_all(index, address.into());
                self.netlink.set_route(&v6)?;
            }
        }
        let interfaces = experiment.node_interfaces(self.id);
        for (interface, index) in interfaces.iter().zip(self.ports.clone()) {
            self.netlink.set_up(index, true)?;
            for own in &interface.addresses {
                self.add_address(index, own.ip.into(), own.len)?;
            }
            for own in &interface.addresses6 {
                self.add_address(index, own.ip.into(), own.len)?;
            }
        }
        Ok(())
    }

    /// Default route on the graph interface: all hosts of the graph are on-link.
    fn route_to_all(&self, index: u32, source: IpAddr) -> RouteSpec {
        let v4 = source.is_ipv4();
        RouteSpec {
            to: if v4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() },
            prefix: 0,
            metric: if v4 { 0 } else { USUAL_METRIC6 },
            protocol: protocol::BOOT,
            hops: vec![(index, None)],
            source: Some(source),
            congestion: self.named.congestion,
            rto_min: self.named.rto_min,
        }
    }

    /// Adds an address, and the route to its network.
    fn add_address(&mut self, index: u32, address: IpAddr, len: u8) -> Result<()> {
        self.netlink.add_address(index, address, len, self.named == Named::default())?;
        if self.named == Named::default() {
            return Ok(());
        }
        let (to, metric): (IpAddr, u32) = match address {
            IpAddr::V4(v4) => (Prefix::new(v4, len).address().into(), 0),
            IpAddr::V6(v6) => (Prefix::new(v6, len).address().into(), KERNELS_METRIC6),
        };
        self.netlink.set_route(&RouteSpec {
            to,
            prefix: len,
            metric,
            protocol: protocol::KERNEL,
            hops: vec![(index, None)],
            source: Some(address).filter(IpAddr::is_ipv4),
            congestion: self.named.congestion,
            rto_min: self.named.rto_min,
        })
    }

    /// Brings the interfaces down.
    pub fn down(&mut self) -> Result<()> {
        for index in self.graph.into_iter().chain(self.ports.clone()) {
            self.netlink.set_up(index, false)?;
        }
        Ok(())
    }

    /// Replaces the routes over links of one family.
    pub fn set_routes(&mut self, family4: bool, routes: Vec<RouteSpec>) -> Result<()> {
        let (own, others): (Vec<_>, Vec<_>) =
            self.routes.clone().into_iter().partition(|route| route.to.is_ipv4() == family4);
        let key = |route: &RouteSpec| (route.to, route.prefix, route.metric);
        for old in own.iter().filter(|old| !routes.iter().any(|new| key(new) == key(old))) {
            self.netlink.remove_route(old)?;
        }
        for new in routes.iter().filter(|new| !own.contains(new)) {
            // Replacing an IPv6 multipath route leaves some of its old next hops.
            if let Some(old) = own.iter().find(|old| !family4 && key(old) == key(new)) {
                self.netlink.remove_route(old)?;
            }
            self.netlink.set_route(new)?;
        }
        self.routes = others.into_iter().chain(routes).collect();
        Ok(())
    }

    /// Converts planned routes to those of the kernel.
    pub fn specs<A: Ip + Into<IpAddr>>(&self, routes: &[PlannedRoute<A>]) -> Vec<RouteSpec> {
        let spec = |(prefix, metric, route): &PlannedRoute<A>| RouteSpec {
            to: prefix.address().into(),
            prefix: prefix.bits(),
            metric: *metric,
            protocol: route.protocol,
            hops: route
                .hops
                .iter()
                .map(|hop| -> Hop { (self.ports[hop.interface], hop.gateway.map(Into::into)) })
                .collect(),
            source: None,
            congestion: self.named.congestion,
            rto_min: self.named.rto_min,
        };
        routes.iter().map(spec).collect()
    }
}

/// Default metric of IPv6 routes, and metric of those that the kernel adds for addresses.
const USUAL_METRIC6: u32 = 1_024;
const KERNELS_METRIC6: u32 = 256;
/// Prefix length of a graph interface, as in a simulation.
const GRAPH_PREFIX: u8 = 24;
const GRAPH_PREFIX6: u8 = 64;

/// Writes settings of the calling thread's network namespace. Settings that the kernel lacks, such as those
/// of IPv6, are skipped.
fn write_settings(settings: &[(String, String)]) {
    for (name, value) in settings {
        let _ = fs::write(format!("/proc/sys/{name}"), value);
    }
}

/// TCP properties that routes set where the namespace did not accept them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Named {
    /// Congestion control: a namespace can only use those that the machine allows to all users; a route can
    /// name any available one.
    congestion: Option<&'static str>,
    /// Minimum retransmission timeout in milliseconds: not every kernel has a setting for it.
    rto_min: Option<u32>,
}

impl Named {
    /// Returns the settings among these that the calling thread's namespace has not accepted.
    fn missing(settings: &[(String, String)]) -> Named {
        let read = |name: &str| fs::read_to_string(format!("/proc/sys/{name}")).unwrap_or_default();
        let wanted = |name: &str| settings.iter().find(|(n, _)| n == name).map(|(_, value)| &**value);
        let available = read("net/ipv4/tcp_available_congestion_control");
        let congestion = CONGESTION_CONTROLS.into_iter().find(|name| {
            wanted(CONGESTION) == Some(name)
                && available.split_whitespace().any(|there| there == *name)
                && read(CONGESTION).trim() != *name
        });
        let rto_min = wanted(RTO_MIN).filter(|value| read(RTO_MIN).trim() != *value);
        Named { congestion, rto_min: rto_min.and_then(|us| us.parse::<u32>().ok()).map(|us| us / 1_000) }
    }
}

/// Setting of the congestion control, and its values: for hosts as simulated, and for dilated ones, whose
/// clock the kernel's CUBIC does not use.
const CONGESTION: &str = "net/ipv4/tcp_congestion_control";
const CONGESTION_CONTROLS: [&str; 2] = ["cubic", "reno"];
/// Setting of TCP's minimum retransmission timeout in microseconds, and its default.
const RTO_MIN: &str = "net/ipv4/tcp_rto_min_us";
const USUAL_RTO_MIN_US: f64 = 200_000.0;

/// Settings of a node's network namespace that make it resemble a simulated node. They must be written
/// before the node has interfaces.
pub fn settings(experiment: &Experiment, id: HostId, tdf: Option<f64>) -> Vec<(String, String)> {
    let device = experiment.device(id);
    let host = experiment.hosts.get(id.index());
    let ipv6 = match (host, device.map(|d| &d.kind)) {
        (Some(host), _) => host.ipv6,
        (_, Some(DeviceKind::Router(_))) => experiment.belljar.ipv6,
        (_, Some(DeviceKind::P4(switch))) => experiment.belljar.ipv6 && switch.management.is_some(),
        _ => false,
    };
    let is_router = matches!(device.map(|d| &d.kind), Some(DeviceKind::Router(_)));
    let forwards = host.map_or(is_router, |h| h.forwarding);
    let mut all = vec![("net/ipv4/ping_group_range".to_owned(), "0 2147483647".to_owned())];
    let mut set = |name: &str, value: &str| all.push((name.to_owned(), value.to_owned()));
    for scope in ["all", "default"] {
        set(&format!("net/ipv6/conf/{scope}/disable_ipv6"), if ipv6 { "0" } else { "1" });
        set(&format!("net/ipv6/conf/{scope}/accept_dad"), "0");
        set(&format!("net/ipv6/conf/{scope}/accept_ra"), "0");
        set(&format!("net/ipv4/conf/{scope}/rp_filter"), "0");
        if forwards && ipv6 {
            set(&format!("net/ipv6/conf/{scope}/forwarding"), "1");
        }
    }
    if forwards {
        set("net/ipv4/ip_forward", "1");
    }
    if is_router {
        set("net/ipv4/fib_multipath_hash_policy", "1");
        set("net/ipv6/fib_multipath_hash_policy", "1");
    }
    // Defaults of the simulator, which are those of Linux; machines may differ.
    set(CONGESTION, CONGESTION_CONTROLS[usize::from(tdf.is_some())]);
    set("net/ipv4/tcp_rmem", "4096 131072 6291456");
    set("net/ipv4/tcp_wmem", "4096 16384 4194304");
    all.extend(tdf.into_iter().flat_map(slow_settings));
    all
}

/// Kernel timeouts that are lengthened for dilated hosts, where the kernel has settings for them.
pub fn slow_settings(tdf: f64) -> Vec<(String, String)> {
    /// Settings of durations, with their defaults.
    const SPANS: [(&str, f64); 8] = [
        (RTO_MIN, USUAL_RTO_MIN_US),
        ("net/ipv4/tcp_comp_sack_delay_ns", 1e6),
        ("net/ipv4/tcp_comp_sack_slack_ns", 1e5),
        ("net/ipv4/tcp_fin_timeout", 60.0),
        ("net/ipv4/tcp_keepalive_time", 7_200.0),
        ("net/ipv4/tcp_keepalive_intvl", 75.0),
        ("net/ipv4/tcp_min_rtt_wlen", 300.0),
        ("net/ipv4/ipfrag_time", 30.0),
    ];
    /// Settings of retransmission counts, with their defaults; the timeout doubles with each
    /// retransmission.
    const RETRIES: [(&str, f64); 3] = [
        ("net/ipv4/tcp_syn_retries", 6.0),
        ("net/ipv4/tcp_synack_retries", 5.0),
        ("net/ipv4/tcp_retries2", 15.0),
    ];
    let spans = SPANS.iter().map(|(name, usual)| (*name, (usual * tdf).min(f64::from(i32::MAX))));
    let retries = RETRIES.iter().map(|(name, usual)| (*name, usual + tdf.log2().ceil()));
    spans.chain(retries).map(|(name, value)| (name.to_owned(), format!("{value:.0}"))).collect()
}

/// Settings of one interface, written after its creation. Timeouts of ARP and neighbour discovery have no
/// default per namespace, only a value per interface.
pub fn interface_settings(interface: &Interface, tdf: Option<f64>) -> Vec<(String, String)> {
    /// Settings of neighbour timeouts, with their defaults.
    const NEIGHBOURS: [(&str, f64); 3] =
        [("base_reachable_time_ms", 30_000.0), ("retrans_time_ms", 1_000.0), ("delay_first_probe_time", 5.0)];
    let name = &interface.name;
    let mut all = Vec::new();
    if interface.slaac {
        all.push((format!("net/ipv6/conf/{name}/accept_ra"), "2".to_owned()));
        all.push((format!("net/ipv6/conf/{name}/autoconf"), "1".to_owned()));
    }
    if let Some(tdf) = tdf {
        for (setting, usual) in NEIGHBOURS {
            for family in ["ipv4", "ipv6"] {
                all.push((format!("net/{family}/neigh/{name}/{setting}"), format!("{:.0}", usual * tdf)));
            }
        }
    }
    all
}

/// Settings of a P4 port of a switch with a management interface: the kernel of the switch answers no frame
/// there. It replies to no ARP request, and drops packets whose source is not reached by the port, which has
/// no route.
pub fn p4_port_settings(interface: &Interface) -> Vec<(String, String)> {
    let setting = |family: &str, setting: &str, value: &str| {
        (format!("net/{family}/conf/{}/{setting}", interface.name), value.to_owned())
    };
    vec![
        setting("ipv4", "arp_ignore", "8"),
        setting("ipv4", "rp_filter", "1"),
        setting("ipv6", "disable_ipv6", "1"),
    ]
}

/// Writes settings in a node's namespace.
pub fn apply_settings(node: &Node, settings: Vec<(String, String)>) -> Result<()> {
    if !settings.is_empty() {
        belljar_packetio::Namespace::Fd(node.fd()).run(|| {
            write_settings(&settings);
            Ok(())
        })?;
    }
    Ok(())
}
