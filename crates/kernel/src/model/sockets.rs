//! The host's sockets as a model uses them.

use crate::host::Host;
use crate::ids::SocketKey;
use crate::timer::TimerAction;
use crate::wait::Waiter;
use belljar_base::{SimTime, Stream};
use belljar_linux_abi::Errno;
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
    /// Lets the model own a socket that could be made.
    fn owned(&mut self, made: Result<SocketKey, Errno>) -> Result<Socket, Failure> {
        made.map(|key| self.own(key)).map_err(failure)
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
        let at = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port);
        let made = self.host.net.listen(at, BACKLOG);
        self.owned(made)
    }
    fn accept(&mut self, listener: Socket) -> Option<(Socket, SocketAddrV4)> {
        let (child, remote) = self.host.net.accept(SocketKey(listener.0)).ok()??;
        Some((self.own(child), v4(remote)))
    }
    fn connect(&mut self, to: SocketAddrV4) -> Result<Socket, Failure> {
        let made = self.host.net.connect(to.into());
        self.owned(made)
    }
    fn is_connected(&mut self, socket: Socket) -> Result<bool, Failure> {
        self.host.net.is_connected(SocketKey(socket.0)).map_err(failure)
    }
    fn send(&mut self, socket: Socket, data: &[u8]) -> Result<usize, Failure> {
        self.host.net.write(SocketKey(socket.0), data).map_err(failure)
    }
    fn receive(&mut self, socket: Socket, out: &mut [u8]) -> Result<Received, Failure> {
        self.host.net.read(SocketKey(socket.0), out).map(received).map_err(failure)
    }
    fn discard(&mut self, socket: Socket, most: u64) -> Result<Received, Failure> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        self.host.net.discard(SocketKey(socket.0), most).map(received).map_err(failure)
    }
    fn finish(&mut self, socket: Socket) {
        self.host.net.finish(SocketKey(socket.0));
    }
    fn close(&mut self, socket: Socket) {
        let key = SocketKey(socket.0);
        if let Some(running) = self.host.models.running.get_mut(&self.model) {
            running.sockets.remove(&key);
        }
        let queue = self.host.socket_queue(key);
        self.host.waits.leave(queue, Waiter::Model { model: self.model, socket: key });
        self.host.net.close(key);
    }

    fn bind_udp(&mut self, port: u16) -> Result<Socket, Failure> {
        let made = self.host.net.bind_udp(port);
        self.owned(made)
    }
    fn send_to(&mut self, socket: Socket, to: SocketAddrV4, payload: &[u8]) -> Result<bool, Failure> {
        self.host.net.send_to(SocketKey(socket.0), to.into(), payload).map_err(failure)
    }
    fn receive_from(&mut self, socket: Socket, out: &mut Vec<u8>) -> Result<Option<SocketAddrV4>, Failure> {
        let source = self.host.net.receive_from(SocketKey(socket.0), out).map_err(failure)?;
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
