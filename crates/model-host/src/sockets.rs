//! Socket calls of a model on the stack.

use crate::models::{ModelTimer, Owner};
use belljar_base::{SimTime, Stream};
use belljar_linux_abi::Errno;
use belljar_models::{Failure, FlowRecord, ModelSocket, Network, Received};
use belljar_net::dns::Zone;
use belljar_netstack::SocketKey;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

/// Backlog of a listening socket: `SOMAXCONN`.
const BACKLOG: usize = 4_096;

/// Owner of the stack, as seen by one of its models.
pub(crate) struct Sockets<'a, O> {
    pub owner: &'a mut O,
    pub model: u32,
}

impl<O: Owner> Sockets<'_, O> {
    /// Accounts for the system call that a program would make.
    fn call(&mut self) {
        self.owner.stack_mut().clock.work_of_model(false);
    }
    /// Assigns a socket to the model, which is then notified of its changes.
    fn own(&mut self, key: SocketKey) -> ModelSocket {
        self.owner.carry_out_effects();
        self.owner.watch(key);
        self.owner.models_mut().own(self.model, key);
        ModelSocket(key.0)
    }
    /// Assigns a socket to the model if its creation succeeded.
    fn owned(&mut self, made: Result<SocketKey, Errno>) -> Result<ModelSocket, Failure> {
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

impl<O: Owner> Network for Sockets<'_, O> {
    fn now(&self) -> SimTime {
        self.owner.stack().clock.now()
    }
    fn wall_clock_ns(&self) -> u64 {
        self.owner.stack().clock.realtime_ns()
    }
    fn random(&mut self) -> &mut Stream {
        self.owner.models_mut().random(self.model)
    }
    fn zone(&self) -> Option<&Zone> {
        self.owner.stack().config.resolver.as_ref().map(|resolver| &*resolver.zone)
    }

    fn listen(&mut self, port: u16) -> Result<ModelSocket, Failure> {
        self.call();
        let at = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port);
        let made = self.owner.stack_mut().listen(at, BACKLOG);
        self.owned(made)
    }
    fn accept(&mut self, listener: ModelSocket) -> Option<(ModelSocket, SocketAddrV4)> {
        self.call();
        let (child, remote) = self.owner.stack_mut().accept(SocketKey(listener.0)).ok()??;
        Some((self.own(child), v4(remote)))
    }
    fn connect(&mut self, to: SocketAddrV4) -> Result<ModelSocket, Failure> {
        self.call();
        let made = self.owner.stack_mut().connect(to.into());
        self.owned(made)
    }
    fn is_connected(&mut self, socket: ModelSocket) -> Result<bool, Failure> {
        self.owner.stack_mut().is_connected(SocketKey(socket.0)).map_err(failure)
    }
    fn send(&mut self, socket: ModelSocket, data: &[u8]) -> Result<usize, Failure> {
        self.call();
        self.owner.stack_mut().write(SocketKey(socket.0), data).map_err(failure)
    }
    fn receive(&mut self, socket: ModelSocket, out: &mut [u8]) -> Result<Received, Failure> {
        self.call();
        self.owner.stack_mut().read(SocketKey(socket.0), out).map(received).map_err(failure)
    }
    fn discard(&mut self, socket: ModelSocket, most: u64) -> Result<Received, Failure> {
        self.call();
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        self.owner.stack_mut().discard(SocketKey(socket.0), most).map(received).map_err(failure)
    }
    fn finish(&mut self, socket: ModelSocket) {
        self.call();
        self.owner.stack_mut().finish(SocketKey(socket.0));
    }
    fn close(&mut self, socket: ModelSocket) {
        self.call();
        let key = SocketKey(socket.0);
        self.owner.models_mut().disown(key);
        self.owner.unwatch(key);
        self.owner.stack_mut().close(key);
    }

    fn bind_udp(&mut self, port: u16) -> Result<ModelSocket, Failure> {
        self.call();
        let made = self.owner.stack_mut().bind_udp(port);
        self.owned(made)
    }
    fn send_to(&mut self, socket: ModelSocket, to: SocketAddrV4, payload: &[u8]) -> Result<bool, Failure> {
        self.call();
        self.owner.stack_mut().send_to(SocketKey(socket.0), to.into(), payload).map_err(failure)
    }
    fn receive_from(
        &mut self,
        socket: ModelSocket,
        out: &mut Vec<u8>,
    ) -> Result<Option<SocketAddrV4>, Failure> {
        self.call();
        let source = self.owner.stack_mut().receive_from(SocketKey(socket.0), out).map_err(failure)?;
        Ok(source.map(v4))
    }

    fn wake_at(&mut self, at: SimTime, token: u64) {
        let Some(generation) = self.owner.models().generation(self.model) else { return };
        let timer = ModelTimer::Wake { model: self.model, generation, token };
        let now = self.owner.stack().clock.now();
        self.owner.add_timer(at.max(now), timer);
    }
    fn record(&mut self, flow: FlowRecord) {
        self.owner.models_mut().record(self.model, flow);
    }
}

fn received(bytes: Option<usize>) -> Received {
    match bytes {
        Some(0) => Received::Nothing,
        Some(n) => Received::Bytes(n),
        None => Received::End,
    }
}
