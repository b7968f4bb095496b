//! Calls on UDP sockets, except for sending and receiving.

use super::{Datagram, Protocol, UdpSocket};
use crate::SocketKey;
use crate::Stack;
use crate::address;
use crate::address::RawAddress;
use crate::buffers;
use crate::devices::wireguard;
use crate::endpoint::{Bound, Reach, choose_port};
use crate::ip::route::Through;
use crate::readiness::{EPOLLHUP, EPOLLIN, EPOLLRDHUP, EPOLLRDNORM, READABLE, WRITABLE};
use crate::send_charge::charge;
use crate::socket::SocketKind;
use crate::timestamps::error_bits;
use belljar_linux_abi::{Errno, c};
use std::net::{IpAddr, SocketAddr};

/// Creates a UDP or UDP-Lite socket.
pub fn create(net: &mut Stack, domain: i32, protocol: Protocol) -> Result<SocketKey, Errno> {
    let kind = SocketKind::Udp(Box::new(UdpSocket { protocol, ..UdpSocket::default() }));
    Ok(net.add_socket(domain, c::SOCK_DGRAM, protocol.number().into(), kind))
}

/// The address returned by `getsockname`.
pub fn local_name(net: &mut Stack, key: SocketKey) -> Result<RawAddress, Errno> {
    let domain = net.socket(key).domain;
    let shown = net.sockets.udp(key).bound.map(|bound| bound.shown(domain));
    let shown = shown.unwrap_or(SocketAddr::new(address::unspecified(domain), 0));
    Ok(address::emit_on(domain, shown, net.socket(key).options.bound_device))
}

/// The address returned by `getpeername`. Fails with `ENOTCONN` if there is no peer.
pub fn peer_name(net: &mut Stack, key: SocketKey) -> Result<RawAddress, Errno> {
    let domain = net.socket(key).domain;
    let device = net.socket(key).options.bound_device;
    // A socket connected to port 0 counts as unconnected.
    let peer = net.sockets.udp(key).peer.filter(|peer| peer.port() != 0);
    peer.map(|peer| address::emit_on(domain, peer, device)).ok_or(Errno::ENOTCONN)
}

/// The `EPOLL*` bits currently set: `udp_poll` of Linux.
pub fn readiness(net: &Stack, key: SocketKey) -> u32 {
    let socket = &net.sockets[key.0];
    let SocketKind::Udp(udp) = &socket.kind else { return 0 };
    let mut ready = 0;
    if !udp.queue.is_empty() {
        ready |= READABLE;
    }
    if udp.read_closed {
        ready |= EPOLLIN | EPOLLRDNORM | EPOLLRDHUP;
    }
    if udp.read_closed && udp.write_closed {
        ready |= EPOLLHUP;
    }
    if socket.error.is_some() || !udp.errors.is_empty() {
        ready |= error_bits(&socket.options);
    }
    if udp.is_writable(socket.options.send_buffer) {
        ready |= WRITABLE;
    }
    ready
}

/// `FIONREAD`: length of the next datagram's payload in bytes.
pub fn readable_bytes(net: &mut Stack, key: SocketKey) -> Result<usize, Errno> {
    Ok(net.sockets.udp(key).queue.front().map_or(0, |datagram| datagram.payload.len()))
}

/// `SIOCOUTQ`: charge of the datagrams in the interface's queue and of a corked one, in bytes.
pub fn unsent_bytes(net: &mut Stack, key: SocketKey) -> Result<usize, Errno> {
    let udp = net.sockets.udp(key);
    Ok((udp.sending.bytes + udp.corked_charge) as usize)
}

/// Closes a socket: its last file was closed.
pub fn close(net: &mut Stack, key: SocketKey) {
    let udp = net.sockets.udp(key);
    if let (Some(bound), table) = (udp.bound, udp.protocol.index()) {
        net.udp_ports[table].remove(bound.port, key);
    }
    net.leave_all_groups(key);
    net.remove_socket(key);
}

impl Stack {
    /// Binds an unbound socket to a local endpoint; `port` 0 allocates an ephemeral port.
    #[cold]
    pub fn udp_bind(
        &mut self,
        key: SocketKey,
        ip: Option<IpAddr>,
        port: u16,
        by_program: bool,
    ) -> Result<(), Errno> {
        let domain = self.socket(key).domain;
        let reach = Reach::new(domain, self.sockets.udp(key).ip.v6_only, ip);
        let table = self.sockets.udp(key).protocol.index();
        let taken = &self.udp_ports[table];
        let is_free = |port| {
            let devices = self.devices.as_ref().filter(|_| table == Protocol::Udp.index());
            !devices.is_some_and(|devices| wireguard::listens(devices, port))
                && taken.is_free(&self.sockets, key, &reach, port)
        };
        let chosen = match port {
            0 => choose_port(&mut self.ports, self.sysctls.local_ports, is_free)?,
            port if is_free(port) => port,
            _ => return Err(Errno::EADDRINUSE),
        };
        let udp = self.sockets.udp(key);
        udp.bound = Some(Bound {
            reach,
            port: chosen,
            address_chosen: by_program && ip.is_some(),
            port_chosen: by_program && port != 0,
            port_named: by_program && port != 0,
        });
        // `inet6_bind`: a socket bound to an IPv6 address is restricted to IPv6.
        udp.ip.v6_only |= by_program && matches!(ip, Some(IpAddr::V6(_)));
        self.udp_ports[table].add(chosen, key);
        Ok(())
    }

    /// `connect(2)` to the peer of a `struct sockaddr_*`, or to none with `AF_UNSPEC`.
    pub fn udp_connect(&mut self, key: SocketKey, raw: &[u8]) -> Result<(), Errno> {
        if address::family(raw)? == c::AF_UNSPEC {
            self.udp_disconnect(key);
            return Ok(());
        }
        // The port is bound even if the call fails (`inet_dgram_connect`).
        if self.sockets.udp(key).bound.is_none() {
            self.udp_bind(key, None, 0, false).map_err(|_| Errno::EAGAIN)?;
        }
        let (v6, v6_only) = (self.socket(key).domain == c::AF_INET6, self.sockets.udp(key).ip.v6_only);
        match address::family(raw)? {
            c::AF_INET if v6 && v6_only => return Err(Errno::EAFNOSUPPORT),
            // The length of an IPv6 address is validated before its family.
            family if v6 && family != c::AF_INET && raw.len() < address::SIN6_LEN_MIN => {
                return Err(Errno::EINVAL);
            }
            _ => {}
        }
        let peer = self.inet_destination(key, raw)?;
        let (domain, broadcast) = {
            let socket = self.socket(key);
            (socket.domain, socket.options.broadcast)
        };
        let device = self.socket_device(key, peer.ip(), address::scope(raw))?;
        if device.is_some() && matches!(peer.ip(), IpAddr::V6(ip) if ip.is_unicast_link_local()) {
            self.socket(key).options.bound_device = device;
        }
        let own_ip = self.sockets.udp(key).bound.and_then(|bound| bound.reach.ip);
        let own_ip = own_ip.filter(|ip| ip.is_ipv4() == peer.is_ipv4());
        let through = Through::of(&self.sockets[key.0], device).to_port(peer.port());
        let route = self.route(peer.ip(), own_ip, through);
        let route = self.counters.count_no_route(&peer.ip(), route)?;
        if route.broadcast && !broadcast {
            return Err(Errno::EACCES);
        }
        let udp = self.sockets.udp(key);
        let v6_only = udp.ip.v6_only;
        if let Some(bound) = &mut udp.bound
            && bound.reach.ip.is_none()
        {
            bound.reach = Reach::new(domain, v6_only, Some(route.source));
        }
        udp.peer = Some(SocketAddr::new(route.destination, peer.port()));
        // A corked datagram is redirected to the new peer.
        if let Some((to, ..)) = &mut udp.corked {
            *to = SocketAddr::new(route.destination, peer.port());
        }
        Ok(())
    }

    /// `connect` to `AF_UNSPEC`: removes the peer, and the parts of the local endpoint that the program did
    /// not choose.
    fn udp_disconnect(&mut self, key: SocketKey) {
        let domain = self.socket(key).domain;
        let udp = self.sockets.udp(key);
        udp.peer = None;
        let v6_only = udp.ip.v6_only;
        let Some(bound) = &mut udp.bound else { return };
        if !bound.address_chosen {
            bound.reach = Reach::new(domain, v6_only, None);
        }
        if !bound.port_chosen {
            let port = bound.port;
            udp.bound = None;
            let table = udp.protocol.index();
            self.udp_ports[table].remove(port, key);
        }
    }
}

impl Stack {
    /// Removes the next datagram from a socket's queue; `None` if it is empty. Fails with the pending error,
    /// if any. The caller then invokes [`udp_taken`](Self::udp_taken).
    #[inline]
    pub fn udp_take(&mut self, key: SocketKey) -> Result<Option<Datagram>, Errno> {
        self.socket(key).take_error()?;
        Ok(self.sockets.udp(key).queue.pop_front())
    }

    /// Completes the reception of a datagram, or returns it to the queue (`MSG_PEEK`).
    #[inline]
    pub fn udp_taken(&mut self, key: SocketKey, datagram: Datagram, peek: bool) {
        self.socket(key).options.last_arrival = Some(datagram.arrived);
        let udp = self.sockets.udp(key);
        if peek {
            return udp.queue.push_front(datagram);
        }
        if udp.queue.is_empty() {
            // Resets the ring to its start, whose memory is in the cache, for the next datagram.
            udp.queue.clear();
        }
        udp.queued_charge = udp.queued_charge.saturating_sub(charge(datagram.packet.len()));
        buffers::recycle(datagram.packet);
    }
}
