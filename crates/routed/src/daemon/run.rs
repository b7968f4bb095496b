//! Event loop: passes inputs to the protocol and processes its output.

use super::data_plane::{DataPlane, Passed};
use super::interfaces::Interfaces;
use super::socket::{PortSocket, bind_port};
use super::status::Status;
use crate::cli;
use crate::clock::Clock;
use crate::control::{Listener, listen};
use crate::error::{Doing, Error, warn};
use crate::netlink::{KernelRoute, Link, Monitor, News};
use crate::plane::{Kind, Plane};
use crate::signals::Signals;
use crate::updater::{RouteSink, TableChange};
use belljar_base::Map;
use belljar_routing::{
    DataPlaneEvent, Interface, InterfaceEvent, InterfaceId, Prefix, Received, RouteChange, Time,
};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use std::net::Ipv4Addr;
use std::time::Duration;

/// Largest number of packets handled from one socket before the others get their turn.
const BATCH: usize = 64;
/// Interval at which the data plane's flow counts are read.
const FLOWS: Duration = Duration::from_millis(500);

/// Settings that differ between protocols.
pub struct Settings<'a> {
    pub network: &'a cli::Network,
    pub port: u16,
    /// Route protocol number (`rtm_protocol`).
    pub routes: u8,
    /// Source address of routes.
    pub source: Option<Ipv4Addr>,
    /// Name of the TUN interface for packets without a route; `None` for proactive protocols.
    pub tun: Option<&'a str>,
    /// True if destinations in the interfaces' own networks also need a route of the protocol.
    pub mesh: bool,
}

/// An interface on which the protocol runs.
struct Active {
    link: Link,
    /// Error of the last packet that could not be sent; reported once.
    trouble: Option<String>,
}

/// A running daemon.
pub struct Daemon<'a, P> {
    protocol: P,
    clock: Clock,
    settings: Settings<'a>,
    interfaces: Interfaces,
    active: Map<u32, Active>,
    socket: PortSocket,
    sink: RouteSink,
    /// Data plane of a reactive protocol.
    data_plane: Option<DataPlane>,
    /// Destinations of the routes into the data plane.
    catching: Vec<Prefix>,
    plane: Plane,
    /// Time of the next read of flow counts; `None` if they are not counted or not needed.
    flows_at: Option<Time>,
    monitor: Monitor,
    signals: Signals,
    control: Listener,
    buffer: Vec<u8>,
}

impl<'a, P: Status<Address = Ipv4Addr, Destination = Prefix>> Daemon<'a, P> {
    /// Opens all resources of the daemon. On failure, all changes are undone.
    pub fn start(
        settings: Settings<'a>,
        interfaces: Interfaces,
        protocol: impl FnOnce(Time) -> P,
    ) -> Result<Daemon<'a, P>, Error> {
        let signals = Signals::open()?;
        let monitor = Monitor::open().doing("ask the kernel for news")?;
        let network = settings.network;
        let mut sink = match &network.updater {
            Some(_) if network.data_plane != Kind::Kernel => {
                return Err(Error::PlaneHere(network.data_plane.name()));
            }
            Some(path) => RouteSink::updater(path, network.namespace.as_deref())?,
            None => RouteSink::kernel(settings.routes)?,
        };
        let fd = sink.lend_port(settings.port).map_or_else(|| bind_port(settings.port), Ok)?;
        let socket = PortSocket::new(fd, settings.port);
        let control = listen(&network.common.control, "--control")?;
        let plane = Plane::start(network.data_plane, &network.common.interfaces)?;
        let counted = settings.tun.is_some() && (plane.counts() || sink.flows()?.is_some());
        let data_plane = match settings.tun {
            Some(tun) => Some(DataPlane::new(sink.reactive(tun)?, tun, &interfaces, counted)?),
            None => None,
        };
        let clock = Clock::start();
        let flows_at = counted.then(|| clock.now());
        let protocol = protocol(clock.now());
        let (active, buffer) = (Map::new(), vec![0; 65_536]);
        let mut daemon = Daemon {
            protocol,
            clock,
            settings,
            interfaces,
            active,
            socket,
            sink,
            data_plane,
            catching: Vec::new(),
            plane,
            flows_at,
            monitor,
            signals,
            control,
            buffer,
        };
        let links: Vec<Link> =
            daemon.interfaces.now.iter().flatten().filter(|link| link.running).cloned().collect();
        for link in links {
            daemon.bring_up(link)?;
        }
        daemon.catch_packets()?;
        Ok(daemon)
    }

    /// Sets the routes by which packets without another route reach a reactive protocol, and removes outdated
    /// ones.
    fn catch_packets(&mut self) -> Result<(), Error> {
        let Some(plane) = &self.data_plane else { return Ok(()) };
        let Settings { source, mesh, .. } = self.settings;
        let routes = plane.routes(source, &self.interfaces, mesh);
        for old in std::mem::take(&mut self.catching) {
            if !routes.iter().any(|route| route.prefix() == old) {
                self.sink.remove(old)?;
            }
        }
        for route in routes {
            self.catching.push(route.prefix());
            self.sink.set(route)?;
        }
        Ok(())
    }

    /// Runs until a signal arrives, and removes the daemon's routes.
    pub fn run(mut self) -> Result<(), Error> {
        let result = self.turns();
        self.sink.clear();
        result
    }

    fn turns(&mut self) -> Result<(), Error> {
        loop {
            self.carry_out()?;
            let ready = self.wait()?;
            if ready.signal {
                return Ok(());
            }
            if ready.news {
                self.take_news()?;
            }
            if ready.control {
                let now = self.clock.now();
                let state = || {
                    let mut state = self.protocol.status(now, &self.interfaces);
                    state["routes_set"] = self.sink.len().into();
                    state["data_plane"] = self.settings.network.data_plane.name().into();
                    state
                };
                self.control.answer(state);
            }
            // First the inputs that prove a neighbour alive: after a pause, its packets are still queued.
            if ready.passing || ready.missed {
                self.watch_data_plane(&ready)?;
            }
            if ready.packets {
                self.receive();
            }
            let now = self.clock.now();
            if self.flows_at.is_some_and(|at| at <= now) {
                self.take_flows(now)?;
            }
            if self.protocol.next_timer().is_some_and(|at| at <= now) {
                self.protocol.on_timer(now);
            }
        }
    }

    /// Polls the descriptors until one is ready or the protocol's timer expires.
    fn wait(&self) -> Result<Ready, Error> {
        let fixed = [self.signals.fd(), self.monitor.fd(), self.control.fd(), self.socket.fd()];
        let plane = self.data_plane.iter().flat_map(DataPlane::fds);
        let mut fds: Vec<_> =
            fixed.into_iter().chain(plane).map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let next = [self.protocol.next_timer(), self.flows_at].into_iter().flatten().min();
        let timeout = next.map(|at| TimeSpec::from(self.clock.until(at)));
        match ppoll(&mut fds, timeout, None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error).doing("wait"),
        }
        let is = |n: usize| fds[n].any().unwrap_or(false);
        let plane = |n: usize| fds.len() > fixed.len() && is(fixed.len() + n);
        Ok(Ready {
            signal: is(0),
            news: is(1),
            control: is(2),
            packets: is(3),
            missed: plane(0),
            passing: plane(1),
        })
    }

    /// Processes the protocol's output: routes first, because packets may use them.
    fn carry_out(&mut self) -> Result<(), Error> {
        let mut changes = Vec::new();
        while let Some(change) = self.protocol.poll_route() {
            changes.push(self.table_change(change));
        }
        if !changes.is_empty() {
            self.sink.carry_out(&changes)?;
        }
        while let Some(packet) = self.protocol.poll_transmit() {
            let Some(active) = self.active.get_mut(&packet.interface.0) else { continue };
            match self.socket.send(&packet) {
                Ok(()) => active.trouble = None,
                Err(error) => {
                    let trouble = error.to_string();
                    if active.trouble.as_ref() != Some(&trouble) {
                        warn(format_args!("cannot send on '{}': {trouble}", active.link.name));
                    }
                    active.trouble = Some(trouble);
                }
            }
        }
        while let Some(released) = self.protocol.poll_released() {
            if let Some(plane) = &self.data_plane {
                plane.release(&released);
            }
        }
        Ok(())
    }

    /// Converts a change of the protocol's table to one of the kernel's.
    fn table_change(&self, change: RouteChange<Prefix, Ipv4Addr>) -> TableChange {
        let log = self.settings.network.log_routes;
        match change {
            RouteChange::Set(route) => {
                let direct = route.destination == Prefix::host(route.next_hop);
                if log {
                    let (name, at) =
                        (self.interfaces.name(route.interface.0), self.clock.now().as_nanos() as f64 / 1e9);
                    println!(
                        "{at:.6} route {} via {} dev {name} hops {}",
                        route.destination, route.next_hop, route.distance
                    );
                }
                TableChange::Set(KernelRoute {
                    destination: route.destination.address(),
                    bits: route.destination.bits(),
                    gateway: (!direct).then_some(route.next_hop),
                    interface: route.interface.0,
                    metric: self.settings.network.metric,
                    source: self.settings.source,
                })
            }
            RouteChange::Remove(destination) => {
                if log {
                    println!("{:.6} route {destination} gone", self.clock.now().as_nanos() as f64 / 1e9);
                }
                TableChange::Remove(destination)
            }
        }
    }

    fn receive(&mut self) {
        for _ in 0..BATCH {
            let datagram = match self.socket.receive(&mut self.buffer) {
                Ok(Some(datagram)) => datagram,
                // An error caused by an earlier packet of this socket says nothing about the next one.
                Ok(None) | Err(_) => return,
            };
            let payload = &self.buffer[..datagram.len];
            let (interface, source, ttl) = (InterfaceId(datagram.interface), datagram.source, datagram.ttl);
            // The protocol counts malformed packets.
            let _ = self.protocol.on_packet(self.clock.now(), Received { interface, source, ttl, payload });
        }
    }

    /// Reports the flows forwarded by the data plane to the protocol (RFC 3561, section 6.2).
    fn take_flows(&mut self, now: Time) -> Result<(), Error> {
        let mut flows: Vec<_> = self.plane.take_flows().into_iter().map(|(flow, _)| flow).collect();
        flows.extend(self.sink.flows()?.into_iter().flatten());
        for (source, destination) in flows {
            self.protocol.on_data_plane(now, DataPlaneEvent::Used { source, destination });
        }
        self.flows_at = Some(now + FLOWS);
        Ok(())
    }

    fn watch_data_plane(&mut self, ready: &Ready) -> Result<(), Error> {
        let Some(plane) = &mut self.data_plane else { return Ok(()) };
        let now = self.clock.now();
        let passed = if ready.passing { plane.used(self.settings.port) } else { Passed::default() };
        for (interface, neighbor) in passed.neighbors {
            let event = DataPlaneEvent::LinkAlive { interface: InterfaceId(interface), neighbor };
            self.protocol.on_data_plane(now, event);
        }
        for (source, destination) in passed.pairs {
            self.protocol.on_data_plane(now, DataPlaneEvent::Used { source, destination });
        }
        for _ in 0..if ready.missed { BATCH } else { 0 } {
            match plane.next_packet(&mut self.buffer).doing("read from the TUN interface")? {
                Some(len) => {
                    self.protocol.on_data_plane(now, DataPlaneEvent::NoRoute { packet: &self.buffer[..len] })
                }
                None => break,
            }
        }
        Ok(())
    }

    fn take_news(&mut self) -> Result<(), Error> {
        let news = self.monitor.take().doing("read news of the kernel")?;
        let now = self.clock.now();
        for item in &news {
            if let News::NeighborFailed { interface, address } = *item
                && !self.settings.network.no_link_layer
            {
                let event = DataPlaneEvent::LinkLost { interface: InterfaceId(interface), neighbor: address };
                self.protocol.on_data_plane(now, event);
            }
        }
        if !news.contains(&News::Links) {
            return Ok(());
        }
        self.interfaces.look()?;
        if let Some(plane) = &mut self.data_plane {
            plane.look(&self.interfaces)?;
        }
        self.catch_packets()?;
        let usable = |link: &&Link| link.running && link.address.is_some();
        let next: Vec<Link> = self.interfaces.now.iter().flatten().filter(usable).cloned().collect();
        let gone: Vec<u32> = self
            .active
            .keys()
            .filter(|index| !next.iter().any(|link| link.index == **index))
            .copied()
            .collect();
        for index in gone {
            self.active.remove(&index);
            self.protocol.on_interface(now, InterfaceEvent::Down(InterfaceId(index)));
        }
        for link in next {
            if self.active.get(&link.index).is_none_or(|active| active.link != link) {
                self.bring_up(link)?;
            }
        }
        Ok(())
    }

    /// Adds an interface that is up, or updates its address.
    fn bring_up(&mut self, link: Link) -> Result<(), Error> {
        let Some(address) = link.address else { return Ok(()) };
        self.sink.switch_redirects_off(&link.name)?;
        let interface = Interface { id: InterfaceId(link.index), address, mtu: link.mtu };
        self.active.insert(link.index, Active { link, trouble: None });
        self.protocol.on_interface(self.clock.now(), InterfaceEvent::Up(interface));
        Ok(())
    }
}

/// Sources with data to read, each true if its descriptor is ready.
struct Ready {
    signal: bool,
    news: bool,
    control: bool,
    packets: bool,
    /// Source of packets without a route.
    missed: bool,
    /// Source of captured packets.
    passing: bool,
}
