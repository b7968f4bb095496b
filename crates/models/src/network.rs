//! Network: the socket calls of a model, which never block.

use crate::FlowRecord;
use belljar_base::{SimTime, Stream};
use belljar_net::dns::Zone;
use std::fmt;
use std::net::SocketAddrV4;

/// A socket of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModelSocket(pub usize);

/// Result of a receiving call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Number of bytes received, at least one.
    Bytes(usize),
    /// Nothing now.
    Nothing,
    /// The peer has closed its side, and all has been read.
    End,
}

/// The failure of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// Nobody listens there.
    Refused,
    /// The peer, or its host, gave the connection up.
    Reset,
    /// No answer in time.
    TimedOut,
    /// There is no way there.
    Unreachable,
    /// The peer closed before all was said.
    Closed,
    /// The port is another's.
    PortInUse,
    /// An answer that is not of the protocol.
    Malformed,
    /// An HTTP status from 400 on.
    Status(u16),
    /// A DNS response code other than 0.
    ResponseCode(u8),
    /// Another error of the socket, by its number.
    Errno(i32),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Refused => f.write_str("refused"),
            Failure::Reset => f.write_str("reset"),
            Failure::TimedOut => f.write_str("timed out"),
            Failure::Unreachable => f.write_str("unreachable"),
            Failure::Closed => f.write_str("closed early"),
            Failure::PortInUse => f.write_str("port in use"),
            Failure::Malformed => f.write_str("malformed answer"),
            Failure::Status(status) => write!(f, "status {status}"),
            Failure::ResponseCode(3) => f.write_str("no such name"),
            Failure::ResponseCode(code) => write!(f, "response code {code}"),
            Failure::Errno(number) => write!(f, "error {number}"),
        }
    }
}

/// The host as a model meets it. No call waits; a model is told by [`Model::ready`](crate::Model::ready)
/// when it is worth trying again.
pub trait Network {
    /// The simulated time.
    fn now(&self) -> SimTime;
    /// The host's wall clock in nanoseconds since 1970.
    fn wall_clock_ns(&self) -> u64;
    /// The model's own random numbers.
    fn random(&mut self) -> &mut Stream;
    /// The names of the network.
    fn zone(&self) -> Option<&Zone>;

    /// A TCP socket that listens at `port` of every address.
    fn listen(&mut self, port: u16) -> Result<ModelSocket, Failure>;
    /// The next connection that has been made to a listener.
    fn accept(&mut self, listener: ModelSocket) -> Option<(ModelSocket, SocketAddrV4)>;
    /// Begins a TCP connection.
    fn connect(&mut self, to: SocketAddrV4) -> Result<ModelSocket, Failure>;
    /// True if the connection that was begun is established.
    fn is_connected(&mut self, socket: ModelSocket) -> Result<bool, Failure>;
    /// Sends over a connection; how many bytes there was room for.
    fn send(&mut self, socket: ModelSocket, data: &[u8]) -> Result<usize, Failure>;
    /// Receives over a connection.
    fn receive(&mut self, socket: ModelSocket, out: &mut [u8]) -> Result<Received, Failure>;
    /// Receives over a connection what nobody wants to see, at most `most` bytes.
    fn discard(&mut self, socket: ModelSocket, most: u64) -> Result<Received, Failure>;
    /// Nothing more will be sent over a connection.
    fn finish(&mut self, socket: ModelSocket);
    /// Closes a socket of any kind.
    fn close(&mut self, socket: ModelSocket);

    /// A UDP socket; port 0 lets the host choose.
    fn bind_udp(&mut self, port: u16) -> Result<ModelSocket, Failure>;
    /// Sends a datagram; false if the host had no room for it.
    fn send_to(&mut self, socket: ModelSocket, to: SocketAddrV4, payload: &[u8]) -> Result<bool, Failure>;
    /// The next datagram, in `out`, and who sent it.
    fn receive_from(
        &mut self,
        socket: ModelSocket,
        out: &mut Vec<u8>,
    ) -> Result<Option<SocketAddrV4>, Failure>;

    /// Has the model woken at `at`, with `token`. It cannot be taken back.
    fn wake_at(&mut self, at: SimTime, token: u64);
    /// Puts something that has ended into the results.
    fn record(&mut self, flow: FlowRecord);
}

/// Bytes that mean nothing.
static FILLER: [u8; 16_384] = [b'.'; 16_384];

/// Bytes that mean nothing and are still to be sent on a connection, which is finished after them.
pub(crate) struct Filler {
    left: u64,
    /// True if everything is sent.
    pub(crate) finished: bool,
}

impl Filler {
    pub(crate) fn new(left: u64) -> Filler {
        Filler { left, finished: false }
    }

    /// Sends what there is room for; how much that was.
    pub(crate) fn send(&mut self, net: &mut dyn Network, socket: ModelSocket) -> Result<u64, Failure> {
        let sent = send_filler(net, socket, self.left)?;
        self.left -= sent;
        if self.left == 0 && !self.finished {
            self.finished = true;
            net.finish(socket);
        }
        Ok(sent)
    }
}

/// Sends up to `most` bytes that mean nothing; how many there was room for.
pub(crate) fn send_filler(net: &mut dyn Network, socket: ModelSocket, most: u64) -> Result<u64, Failure> {
    let mut sent = 0;
    while sent < most {
        let chunk = (most - sent).min(FILLER.len() as u64) as usize;
        let n = net.send(socket, &FILLER[..chunk])?;
        sent += n as u64;
        if n < chunk {
            break;
        }
    }
    Ok(sent)
}
