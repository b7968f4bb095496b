//! The host's sockets as a model uses them.

use crate::host::Host;
use crate::ids::SocketKey;
use crate::net::tcp;
use crate::net::udp::Protocol;
use crate::timer::TimerAction;
use crate::wait::Waiter;
use belljar_base::{SimTime, Stream};
use belljar_linux_abi::{Errno, c};
use belljar_models::{Failure, Flow, Network, Received, Socket};
use belljar_net::dns::Zone;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

/// A listener's queue: `SOMAXCONN`.
const BACKLOG: usize = 4_096;

/// The host, to one of its models.
pub struct Sockets<'a> {
    pub host: &'a mut Host,
    pub model: u32,
}

impl Sockets<'_> {
    /// Lets the model own a socket: it is told of its changes.
    fn own(&mut self, key: SocketKey) -> Socket {
        self.host.carry_out_effects();
        let queue = self.host.socket_queue(key);
        self.host.waits.enter(queue, Waiter::Model { model: self.model, socket: key });
        if let Some(running) = self.host.models.running.get_mut(&self.model) {
            running.sockets.insert(key, false);
        }
        Socket(key.0)
    }
    /// Makes a socket that `prepare` could not make use of go away.
    fn prepared<T>(&mut self, key: SocketKey, prepared: Result<T, Errno>) -> Result<Socket, Failure> {
        match prepared {
            Ok(_) => Ok(self.own(key)),
            Err(errno) => {
                self.host.close_socket(key);
                Err(failure(errno))
            }
        }
    }
}

fn failure(errno: Errno) -> Failure {
    match errno {
        Errno::ECONNREFUSED => Failure::Refused,
        Errno::ECONNRESET | Errno::EPIPE | Errno::ECONNABORTED => Failure::Reset,
        Errno::ETIMEDOUT => Failure::TimedOut,
        Errno::ENETUNREACH | Errno::EHOSTUNREACH => Failure::Unreachable,
        Errno::EADDRINUSE => Failure::PortInUse,
        Errno(number) => Failure::Errno(number.into()),
    }
}

fn v4(address: SocketAddr) -> SocketAddrV4 {
    match address {
        SocketAddr::V4(address) => address,
        SocketAddr::V6(address) => SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, address.port()),
    }
}

impl Network for Sockets<'_> {
    fn now(&self) -> SimTime {
        self.host.net.clock.now()
    }
    fn wall_clock_ns(&self) -> u64 {
        self.host.net.clock.realtime_ns()
    }
    fn random(&mut self) -> &mut Stream {
        &mut self.host.models.running.get_mut(&self.model).expect("a model that is called runs").random
    }
    fn zone(&self) -> Option<&Zone> {
        self.host.net.config.resolver.as_ref().map(|resolver| &*resolver.zone)
    }

    fn listen(&mut self, port: u16) -> Result<Socket, Failure> {
        let key = tcp::create(&mut self.host.net, c::AF_INET).map_err(failure)?;
        self.host.net.socket(key).options.reuse_address = true;
        let listening =
            self.host.net.tcp_bind(key, None, port).and_then(|()| self.host.net.tcp_listen(key, BACKLOG));
        self.prepared(key, listening)
    }
    fn accept(&mut self, listener: Socket) -> Option<(Socket, SocketAddrV4)> {
        let child = self.host.net.tcp_accept(SocketKey(listener.0)).ok()??;
        let remote = self.host.net.tcp(child).connection().map(|connection| v4(connection.remote()));
        let nobody = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
        Some((self.own(child), remote.unwrap_or(nobody)))
    }
    fn connect(&mut self, to: SocketAddrV4) -> Result<Socket, Failure> {
        let key = tcp::create(&mut self.host.net, c::AF_INET).map_err(failure)?;
        let begun = self.host.net.tcp_connect(key, to.into());
        self.host.net.flush_network();
        self.prepared(key, begun)
    }
    fn is_connected(&mut self, socket: Socket) -> Result<bool, Failure> {
        self.host.net.tcp_connected(SocketKey(socket.0)).map_err(failure)
    }
    fn send(&mut self, socket: Socket, data: &[u8]) -> Result<usize, Failure> {
        self.host.net.tcp_write(SocketKey(socket.0), data).map_err(failure)
    }
    fn receive(&mut self, socket: Socket, out: &mut [u8]) -> Result<Received, Failure> {
        let len = out.len();
        let read =
            self.host.net.tcp_read(SocketKey(socket.0), len, |connection, now| connection.recv(out, now));
        read.map(received).map_err(failure)
    }
    fn discard(&mut self, socket: Socket, most: u64) -> Result<Received, Failure> {
        let len = usize::try_from(most).unwrap_or(usize::MAX);
        let read =
            self.host.net.tcp_read(SocketKey(socket.0), len, |connection, now| connection.discard(len, now));
        read.map(received).map_err(failure)
    }
    fn finish(&mut self, socket: Socket) {
        let now = self.host.net.clock.now();
        if let Some(connection) = self.host.net.tcp(SocketKey(socket.0)).connection() {
            connection.shutdown_write(now);
        }
        self.host.net.tcp_pump(SocketKey(socket.0));
        self.host.net.flush_network();
    }
    fn close(&mut self, socket: Socket) {
        let key = SocketKey(socket.0);
        if let Some(running) = self.host.models.running.get_mut(&self.model) {
            running.sockets.remove(&key);
        }
        let queue = self.host.socket_queue(key);
        self.host.waits.leave(queue, Waiter::Model { model: self.model, socket: key });
        self.host.close_socket(key);
    }

    fn bind_udp(&mut self, port: u16) -> Result<Socket, Failure> {
        let key = crate::net::udp::create(&mut self.host.net, c::AF_INET, Protocol::Udp).map_err(failure)?;
        let bound = self.host.net.udp_bind(key, None, port, true);
        self.prepared(key, bound)
    }
    fn send_to(&mut self, socket: Socket, to: SocketAddrV4, payload: &[u8]) -> Result<bool, Failure> {
        self.host.net.udp_send(SocketKey(socket.0), to.into(), payload).map_err(failure)
    }
    fn receive_from(&mut self, socket: Socket, out: &mut Vec<u8>) -> Result<Option<SocketAddrV4>, Failure> {
        let source = self.host.net.udp_receive(SocketKey(socket.0), out).map_err(failure)?;
        Ok(source.map(v4))
    }

    fn wake_at(&mut self, at: SimTime, token: u64) {
        let Some(running) = self.host.models.running.get(&self.model) else { return };
        let action = TimerAction::WakeModel { model: self.model, generation: running.generation, token };
        self.host.add_timer(at.max(self.host.net.clock.now()), action);
    }
    fn record(&mut self, flow: Flow) {
        self.host.models.flows.push((self.model, flow));
    }
}

fn received(bytes: Option<usize>) -> Received {
    match bytes {
        Some(0) => Received::Nothing,
        Some(n) => Received::Bytes(n),
        None => Received::End,
    }
}
