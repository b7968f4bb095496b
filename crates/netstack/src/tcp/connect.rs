//! Binding and connecting of TCP sockets: `bind` and `connect`.

use super::options::PathProperties;
use super::{Role, TcpSocket, errno};
use crate::devices::vrf;
use crate::endpoint::{Bound, Reach, choose_port};
use crate::ip::route::{ResolvedRoute, Through};
use crate::socket::SocketKind;
use crate::tcp::options::apply;
use crate::{SocketKey, Stack, address};
use belljar_base::SimTime;
use belljar_linux_abi::{Errno, c};
use belljar_tcp::{Connection, State};
use std::net::{IpAddr, SocketAddr};

impl Stack {
    /// True if the handshake begun by `connect` is complete. Fails once with the error of a failed handshake.
    pub fn tcp_connected(&mut self, key: SocketKey) -> Result<bool, Errno> {
        let tcp = self.sockets.tcp(key);
        let Some(connection) = tcp.connection() else { return Err(Errno::ENOTCONN) };
        match connection.state() {
            State::SynSent | State::SynReceived => Ok(false),
            State::Closed => {
                let error = connection.take_error().map_or(Errno::ECONNABORTED, errno);
                self.tcp_forget_connection(key);
                Err(error)
            }
            _ => {
                tcp.connecting = false;
                Ok(true)
            }
        }
    }

    /// Decodes the peer address passed to `connect`.
    pub fn tcp_peer(&mut self, key: SocketKey, raw: &[u8]) -> Result<SocketAddr, Errno> {
        let domain = self.socket(key).domain;
        let least = if domain == c::AF_INET6 { address::SIN6_LEN_MIN } else { 16 };
        if raw.len() < least {
            return Err(Errno::EINVAL);
        }
        if address::family(raw)? != domain {
            return Err(Errno::EAFNOSUPPORT);
        }
        self.inet_destination(key, raw)
    }

    /// Binds a socket to a local endpoint; `port` 0 allocates an ephemeral port.
    pub fn tcp_bind(&mut self, key: SocketKey, ip: Option<IpAddr>, port: u16) -> Result<(), Errno> {
        let domain = self.socket(key).domain;
        let reach = Reach::new(domain, self.sockets.tcp(key).ip.v6_only, ip);
        let chosen = match port {
            // An allocated port is not shared, whatever the options permit.
            0 => choose_port(&mut self.ports, self.sysctls.local_ports, |port| {
                self.tcp.at_port(port).next().is_none()
            })?,
            port if self.tcp.is_free(&self.sockets, key, &reach, port, false) => port,
            _ => return Err(Errno::EADDRINUSE),
        };
        let tcp = self.sockets.tcp(key);
        tcp.bound = Some(Bound {
            reach,
            port: chosen,
            address_chosen: ip.is_some(),
            port_chosen: true,
            port_named: port != 0,
        });
        // A socket bound to an IPv6 address is restricted to IPv6 (`__inet6_bind`).
        tcp.ip.v6_only |= matches!(ip, Some(IpAddr::V6(_)));
        self.tcp.add_bound(chosen, key);
        Ok(())
    }

    /// Starts the handshake with `peer`.
    pub fn tcp_connect(&mut self, key: SocketKey, peer: SocketAddr) -> Result<(), Errno> {
        self.tcp_connect_with(key, peer, None).map(|_| ())
    }

    /// Starts the handshake with `peer`, with data that the SYN may carry (Fast Open). Returns the number of
    /// bytes that it carries.
    pub fn tcp_connect_with(
        &mut self,
        key: SocketKey,
        peer: SocketAddr,
        data: Option<&[u8]>,
    ) -> Result<usize, Errno> {
        let socket = self.socket(key);
        let domain = socket.domain;
        let device = self.socket_device(key, peer.ip(), None)?;

        let bound = self.sockets.tcp(key).bound;
        let bound_ip = bound.and_then(|bound| bound.reach.ip);
        let through = Through::of(&self.sockets[key.0], device).to_port(peer.port());
        let route = self.route(peer.ip(), bound_ip, through);
        let mut route = self.counters.count_no_route(&peer.ip(), route)?;
        if bound_ip.is_none() && !self.is_plainly_routed() {
            // A rule may match the selected source address and yield another route.
            route = self.route(peer.ip(), Some(route.source), through)?;
        }
        if self.interfaces.is_multipoint(route.destination) {
            return Err(Errno::ENETUNREACH);
        }
        let remote = SocketAddr::new(route.destination, peer.port());
        let port = match bound {
            Some(bound) => bound.port,
            None => self.tcp_choose_port(&route, remote)?,
        };
        let local = SocketAddr::new(route.source, port);
        if self.tcp.connection(local, remote).is_some() {
            return Err(Errno::EADDRNOTAVAIL);
        }
        let v6_only = self.sockets.tcp(key).ip.v6_only;
        if bound.is_none() {
            self.tcp.add_bound(port, key);
        }
        let (isn, offset) = (self.isns.next_u32(), self.isns.next_u32());
        let (now, path) = (self.clock.local(), self.tcp_path(&route, self.clock.now()));
        let socket = &mut self.sockets[key.0];
        let SocketKind::Tcp(tcp) = &mut socket.kind else { return Err(Errno::EINVAL) };
        let settings = &self.sysctls.tcp;
        let config = tcp.options.config(settings, &socket.options, path, route.destination, offset);
        let connection = Connection::connect(config, local, remote, isn, now);
        tcp.role = Role::Connection(Box::new(connection));
        tcp.connecting = true;
        socket.error = None;
        self.counters.tcp_active_opens += 1;
        tcp.bound = Some(Bound {
            reach: Reach::new(domain, v6_only, Some(route.source)),
            port,
            address_chosen: bound.is_some_and(|bound| bound.address_chosen),
            port_chosen: bound.is_some_and(|bound| bound.port_chosen),
            port_named: bound.is_some_and(|bound| bound.port_named),
        });
        self.tcp.add_connection(local, remote, key);
        let taken = self.tcp_prepare_fast_open(key, data);
        self.tcp_apply_options(key);
        self.tcp_pump(key);
        Ok(taken)
    }

    /// Allocates an ephemeral port for a connection: a port that no program has chosen and that has no
    /// connection to the same peer.
    fn tcp_choose_port(&mut self, route: &ResolvedRoute, remote: SocketAddr) -> Result<u16, Errno> {
        let source = route.source;
        choose_port(&mut self.ports, self.sysctls.local_ports, |port| {
            self.tcp.connection(SocketAddr::new(source, port), remote).is_none()
                && !self.tcp.at_port(port).any(|other| match &self.sockets[other.0].kind {
                    SocketKind::Tcp(tcp) => tcp.bound.is_some_and(|bound| bound.port_chosen),
                    _ => false,
                })
        })
        .map_err(|_| Errno::EADDRNOTAVAIL)
    }

    /// `connect` to `AF_UNSPEC`: resets the connection, or closes the listener.
    pub fn tcp_disconnect(&mut self, key: SocketKey) {
        let now = self.clock.local();
        self.sockets.tcp(key).shut = (false, false);
        self.sockets.tcp(key).disconnecting = false;
        if let Some(connection) = self.sockets.tcp(key).connection() {
            // An aborted connection reports ECONNRESET, as if the peer had reset it.
            let error = match connection.state() {
                State::TimeWait | State::Closing | State::LastAck => None,
                State::Closed => connection.error().map(errno),
                _ => Some(Errno::ECONNRESET),
            };
            connection.abort(now);
            self.tcp_pump(key);
            self.tcp_forget_connection(key);
            self.socket(key).error = error;
        } else {
            self.tcp_stop_listening(key);
        }
        self.flush_network();
    }

    /// Removes a connection from the table and from its socket, which can connect again.
    pub fn tcp_forget_connection(&mut self, key: SocketKey) {
        let tcp = self.sockets.tcp(key);
        let role = std::mem::take(&mut tcp.role);
        tcp.connecting = false;
        tcp.is_renamed = false;
        tcp.ready = 0;
        let timer = tcp.timer.take();
        if let Some(timer) = timer {
            self.timers.cancel(timer);
        }
        if let Role::Connection(connection) = role {
            self.tcp.remove_connection(connection.local(), connection.remote(), key);
        }
        self.tcp_give_up_name(key);
    }

    /// Releases the parts of the local endpoint that the program did not choose, after the end of a
    /// connection or listener. `getsockname` still returns the port (`inet_put_port`).
    pub fn tcp_give_up_name(&mut self, key: SocketKey) {
        let domain = self.socket(key).domain;
        let tcp = self.sockets.tcp(key);
        let v6_only = tcp.ip.v6_only;
        let Some(mut bound) = tcp.bound else { return };
        if !bound.address_chosen {
            bound.reach = Reach::new(domain, v6_only, None);
        }
        if bound.port_named {
            tcp.bound = Some(bound);
        } else {
            (tcp.bound, tcp.former_name) = (None, Some(bound.shown(domain)));
            self.tcp.remove_bound(bound.port, key);
        }
    }

    /// The path properties of a route.
    pub fn tcp_path(&self, route: &ResolvedRoute, now: SimTime) -> PathProperties {
        PathProperties { mtu: self.path_mtu(route, now), advmss: route.metrics.advmss }
    }

    /// The path properties for a connection opened by a peer through `interface`.
    pub fn tcp_path_back(
        &self,
        interface: usize,
        (local, remote): (SocketAddr, SocketAddr),
        now: SimTime,
    ) -> PathProperties {
        let known =
            self.route(remote.ip(), Some(local.ip()), vrf::answer_device(self, remote.ip(), interface));
        match known {
            Ok(route) => self.tcp_path(&route, now),
            Err(_) => PathProperties { mtu: self.mtu_to(interface, remote.ip(), now), advmss: None },
        }
    }

    /// Applies the options that can change later to a new connection.
    pub fn tcp_apply_options(&mut self, key: SocketKey) {
        let now = self.clock.local();
        let socket = self.socket(key);
        let (keep_alive, low_water) = (socket.options.keep_alive, socket.options.receive_low_water);
        let inline = socket.options.out_of_band_inline;
        let tcp: &mut TcpSocket = self.sockets.tcp(key);
        let options = tcp.options.clone();
        let Some(connection) = tcp.connection() else { return };
        connection.set_urgent_inline(inline);
        apply(connection, &options, keep_alive, low_water, now);
    }
}
