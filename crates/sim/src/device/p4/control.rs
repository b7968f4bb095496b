//! Management interface of a P4 switch: a TCP/IP stack of its own with servers of P4Runtime and Thrift.

use crate::accounts;
use crate::device::DeviceAccount;
use crate::fabric::Fabric;
use crate::host_config::link_of_node;
use belljar_base::{EventClass, EventKey, HostId, Map, SimTime};
use belljar_config::Experiment;
use belljar_config::topology::{self, P4Management, P4Source};
use belljar_net::routes::Ip;
use belljar_net::{Counters, Packet};
use belljar_netstack::clock::{Clock, CpuModel};
use belljar_netstack::{Departure, Effect, SocketKey, Stack, StackConfig};
use belljar_p4::SwitchDevice;
use belljar_p4::servers::{Connections, ControlServers, CreateServers};
use belljar_plan::{LinkChange, PlannedRoute};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// Maximum number of connections; further ones are closed at once.
const MAX_CONNECTIONS: usize = 256;
/// Maximum number of connections that wait to be accepted.
const BACKLOG: usize = 64;
/// Index of the management interface in the stack, after `lo`.
const INTERFACE: usize = 1;

/// Protocol of a connection.
#[derive(Clone, Copy)]
enum Protocol {
    P4Runtime,
    Thrift,
}

/// Server of a protocol.
fn server(servers: &mut ControlServers, protocol: Protocol) -> &mut dyn Connections {
    match protocol {
        Protocol::P4Runtime => &mut *servers.p4runtime,
        Protocol::Thrift => &mut *servers.thrift,
    }
}

/// Servers with their stack.
pub struct Control {
    id: HostId,
    stack: Stack,
    servers: ControlServers,
    listeners: Vec<(SocketKey, Protocol)>,
    connections: Map<SocketKey, Connection>,
    /// Number of frames received.
    sequence: u64,
    departures: VecDeque<Departure>,
    /// True if anything was received since the last run.
    pending: bool,
    effects: Vec<Effect>,
    /// Number of connections accepted so far.
    pub accepted: u64,
}

struct Connection {
    protocol: Protocol,
    /// Number of the connection at its server.
    number: usize,
    input_ended: bool,
    /// Bytes from the server that the stack has not accepted yet.
    rest: Vec<u8>,
}

/// Replaces the interface of the routes' next hops by the management interface's index in the stack.
fn numbered<A: Ip>(mut routes: Vec<PlannedRoute<A>>) -> Vec<PlannedRoute<A>> {
    let hops = routes.iter_mut().flat_map(|(_, _, route)| &mut route.hops);
    hops.for_each(|hop| hop.interface = INTERFACE);
    routes
}

impl Control {
    /// Creates the servers of a switch, listening on their ports.
    pub fn new(
        experiment: &Experiment,
        id: HostId,
        device: &topology::Device,
        management: &P4Management,
        create_servers: CreateServers,
        fabric: &Fabric,
    ) -> Control {
        let interface = &device.interfaces[management.interface];
        let first = fabric.first();
        let config = StackConfig {
            address: interface.addresses.first().map_or(Ipv4Addr::UNSPECIFIED, |own| own.ip),
            ipv6: experiment.belljar.ipv6,
            links: vec![link_of_node(experiment, &device.name, interface)],
            routes: numbered(first.routes[id.index()].clone()),
            routes6: numbered(first.routes6[id.index()].clone()),
            bootstrap_end: experiment.general.bootstrap_end_time,
            ..StackConfig::new(id, &device.name, experiment.seed())
        };
        let mut stack = Stack::new(config, Clock::new(experiment.belljar.start_date, CpuModel::default()));
        let any = if experiment.belljar.ipv6 {
            SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))
        } else {
            SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))
        };
        // The stack has no other sockets, and the ports are distinct.
        let ports = management.ports.iter().map(|port| (*port, Protocol::P4Runtime));
        let ports = ports.chain([(management.thrift_port, Protocol::Thrift)]);
        let listen = |(port, protocol)| {
            let listener = stack.listen(SocketAddr::new(any.ip(), port), BACKLOG).ok()?;
            Some((listener, protocol))
        };
        let listeners = ports.filter_map(listen).collect();
        let mut servers = create_servers(management.device_id, management.thrift_port);
        servers.p4runtime.set_write_time(management.control_latency);
        servers.thrift.set_write_time(management.control_latency);
        Control {
            id,
            stack,
            servers,
            listeners,
            connections: Map::new(),
            sequence: 0,
            departures: VecDeque::new(),
            pending: true,
            effects: Vec::new(),
            accepted: 0,
        }
    }

    /// Installs the experiment's program through the server. The error is a message for the user.
    pub fn install(
        &mut self,
        device: &mut SwitchDevice,
        source: &P4Source,
        p4info: &[u8],
    ) -> Result<(), String> {
        let loaded = &source.loaded;
        device.know(loaded.program.clone());
        self.servers.p4runtime.install(device, loaded.program.json(), p4info)
    }

    /// Imports entries that were added by a file into the server.
    pub fn import(&mut self, device: &mut SwitchDevice) {
        self.servers.p4runtime.import(device);
    }

    /// Processes a frame that arrives at the management interface.
    pub fn receive(&mut self, now: SimTime, frame: Packet) {
        self.sequence += 1;
        let key =
            EventKey { time: now, class: EventClass::Arrival, source: self.id, sequence: self.sequence };
        self.stack.deliver(key, Some(0), frame);
        self.pending = true;
    }

    /// Applies a change of the management interface's link or routes.
    pub fn change(&mut self, now: SimTime, change: LinkChange) {
        self.stack.pass_until(now);
        self.pending = true;
        match change {
            LinkChange::Carrier(_, on) => {
                self.stack.set_carrier(0, on);
                self.stack.flush_network();
            }
            LinkChange::Nic(_, change) => self.stack.change_nic(0, &change),
            LinkChange::Routes(routes) => self.stack.set_routes(numbered(routes)),
            LinkChange::Routes6(routes) => self.stack.set_routes6(numbered(routes)),
            LinkChange::Blocked(_) => {}
        }
    }

    /// True if [`run`](Self::run) has work to do, other than notifications from the switch.
    pub fn is_due(&self, now: SimTime) -> bool {
        self.pending || self.next_event().is_some_and(|at| at <= now)
    }

    /// Processes all work due by `now`: reads requests of controllers, executes them, and sends the
    /// servers' messages.
    pub fn run(&mut self, now: SimTime, device: &mut SwitchDevice) {
        self.pending = false;
        self.stack.pass_until(now);
        device.set_time(now);
        loop {
            let mut moved = self.take_effects();
            moved |= self.receive_all();
            let epoch_ns = self.stack.clock.realtime_ns();
            // Texts of `log_msg` are part of the trace.
            self.servers.p4runtime.tell_notifications(device, epoch_ns);
            if self.servers.thrift.poll(device, epoch_ns) {
                self.servers.p4runtime.import(device);
            }
            self.servers.p4runtime.poll(device);
            moved |= self.transmit_all();
            if !moved {
                break;
            }
        }
        let mut departures = Vec::new();
        self.stack.take_departures(&mut departures);
        self.departures.extend(departures);
    }

    /// Accepts connections; returns true if there were any.
    fn take_effects(&mut self) -> bool {
        // All connections are polled, since there are few; readiness is not tracked.
        self.stack.take_effects(&mut self.effects);
        self.effects.clear();
        let mut any = false;
        for (listener, protocol) in self.listeners.clone() {
            while let Ok(Some((key, _))) = self.stack.accept(listener) {
                any = true;
                if self.connections.len() >= MAX_CONNECTIONS {
                    self.stack.close(key);
                    continue;
                }
                // Small messages are sent at once.
                if let Some(connection) = self.stack.sockets.tcp(key).connection() {
                    connection.set_nodelay(true);
                }
                self.accepted += 1;
                let number = server(&mut self.servers, protocol).accept();
                let connection = Connection { protocol, number, input_ended: false, rest: Vec::new() };
                self.connections.insert(key, connection);
            }
        }
        any
    }

    /// Passes data from controllers to their servers; returns true if there were any.
    fn receive_all(&mut self) -> bool {
        let mut any = false;
        let mut broken = Vec::new();
        let mut buffer = [0; 16 * 1024];
        for (key, connection) in &mut self.connections {
            let server = server(&mut self.servers, connection.protocol);
            while !connection.input_ended {
                let room = server.room(connection.number).min(buffer.len());
                if room == 0 {
                    break;
                }
                match self.stack.read(*key, &mut buffer[..room]) {
                    Ok(Some(0)) => break,
                    Ok(Some(length)) => server.receive(connection.number, &buffer[..length]),
                    Ok(None) => {
                        connection.input_ended = true;
                        server.end_input(connection.number);
                    }
                    Err(_) => {
                        connection.input_ended = true;
                        broken.push(*key);
                    }
                }
                any = true;
            }
        }
        for key in broken {
            self.close(key);
        }
        any
    }

    /// Sends the servers' data to controllers, and removes closed connections; returns true if anything was
    /// sent.
    fn transmit_all(&mut self) -> bool {
        let mut any = false;
        let mut over = Vec::new();
        for (key, connection) in &mut self.connections {
            let server = server(&mut self.servers, connection.protocol);
            loop {
                if connection.rest.is_empty() {
                    connection.rest = server.transmit(connection.number, 64 * 1024);
                }
                if connection.rest.is_empty() {
                    if server.is_closed(connection.number) {
                        over.push(*key);
                    }
                    break;
                }
                match self.stack.write(*key, &connection.rest) {
                    Ok(0) => break,
                    Ok(length) => drop(connection.rest.drain(..length)),
                    Err(_) => {
                        over.push(*key);
                        break;
                    }
                }
                any = true;
            }
        }
        for key in over {
            self.close(key);
        }
        any
    }

    fn close(&mut self, key: SocketKey) {
        if let Some(connection) = self.connections.remove(&key) {
            server(&mut self.servers, connection.protocol).close(connection.number);
            self.stack.close(key);
        }
    }

    /// Takes the next frame that leaves the management interface, with the departure time of its last bit.
    pub fn departure(&mut self) -> Option<(SimTime, Packet)> {
        let mut departure = self.departures.pop_front()?;
        departure.packet.fill_checksum();
        Some((departure.at, departure.packet))
    }

    /// Time of the next event of stack or servers.
    pub fn next_event(&self) -> Option<SimTime> {
        let of_servers = [self.servers.p4runtime.next_event(), self.servers.thrift.next_event()];
        of_servers.into_iter().chain([self.stack.next_event()]).flatten().min()
    }

    /// Counters of the management interface.
    pub fn counters(&self) -> Counters {
        *self.stack.links[0].nic.counters()
    }

    /// Accounts of the management interface, which is at `port`, and of the stack behind it.
    pub fn packet_accounts(&self, port: usize) -> [DeviceAccount; 2] {
        let stack =
            DeviceAccount::inside(Some("control stack"), accounts::stacks(std::iter::once(&self.stack)));
        [DeviceAccount::interface(port, &self.stack.links[0].nic), stack]
    }

    /// Number of frames queued at the management interface.
    pub fn queue_len(&self) -> usize {
        self.stack.links[0].nic.egress_queue_len()
    }
}
