//! Network: the non-blocking socket calls of a model.

use crate::FlowRecord;
use belljar_base::{SimTime, Stream};
use belljar_net::dns::Zone;
use std::fmt;
use std::net::SocketAddrV4;

/// Socket of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModelSocket(pub usize);

/// Result of a receiving call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Number of bytes received, at least one.
    Bytes(usize),
    /// No data available.
    Nothing,
    /// The peer has closed its side and all data has been read.
    End,
}

/// Failure of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// Connection refused: no socket listens at the address.
    Refused,
    /// The peer or its host reset the connection.
    Reset,
    /// No answer in time.
    TimedOut,
    /// No route to the peer.
    Unreachable,
    /// The peer closed the connection before the flow was complete.
    Closed,
    /// The port is in use.
    PortInUse,
    /// The response violates the protocol.
    Malformed,
    /// HTTP status of 400 or above.
    Status(u16),
    /// A DNS response code other than 0.
    ResponseCode(u8),
    /// Other socket error, by errno.
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

/// Host interface of a model. No call blocks; [`Model::ready`](crate::Model::ready) notifies the model when a
/// retry may succeed.
pub trait Network {
    /// Simulated time.
    fn now(&self) -> SimTime;
    /// The host's wall clock in nanoseconds since 1970.
    fn wall_clock_ns(&self) -> u64;
    /// Random stream of the model.
    fn random(&mut self) -> &mut Stream;
    /// Names of the network.
    fn zone(&self) -> Option<&Zone>;

    /// Creates a TCP socket that listens at `port` of every address.
    fn listen(&mut self, port: u16) -> Result<ModelSocket, Failure>;
    /// Accepts the next connection of a listening socket.
    fn accept(&mut self, listener: ModelSocket) -> Option<(ModelSocket, SocketAddrV4)>;
    /// Starts a TCP connection.
    fn connect(&mut self, to: SocketAddrV4) -> Result<ModelSocket, Failure>;
    /// True if the connection is established.
    fn is_connected(&mut self, socket: ModelSocket) -> Result<bool, Failure>;
    /// Sends data over a connection; returns the number of bytes accepted.
    fn send(&mut self, socket: ModelSocket, data: &[u8]) -> Result<usize, Failure>;
    /// Receives data from a connection.
    fn receive(&mut self, socket: ModelSocket, out: &mut [u8]) -> Result<Received, Failure>;
    /// Receives and discards at most `most` bytes from a connection.
    fn discard(&mut self, socket: ModelSocket, most: u64) -> Result<Received, Failure>;
    /// Shuts down the sending side of a connection.
    fn finish(&mut self, socket: ModelSocket);
    /// Closes a socket of any kind.
    fn close(&mut self, socket: ModelSocket);

    /// Creates a UDP socket; with port 0, the host chooses the port.
    fn bind_udp(&mut self, port: u16) -> Result<ModelSocket, Failure>;
    /// Sends a datagram; false if the host had no room for it.
    fn send_to(&mut self, socket: ModelSocket, to: SocketAddrV4, payload: &[u8]) -> Result<bool, Failure>;
    /// Receives the next datagram into `out`; returns its sender.
    fn receive_from(
        &mut self,
        socket: ModelSocket,
        out: &mut Vec<u8>,
    ) -> Result<Option<SocketAddrV4>, Failure>;

    /// Requests a wake-up at `at` with `token`. It cannot be cancelled.
    fn wake_at(&mut self, at: SimTime, token: u64);
    /// Adds a completed flow to the results.
    fn record(&mut self, flow: FlowRecord);
}

/// Filler bytes.
static FILLER: [u8; 16_384] = [b'.'; 16_384];

/// Filler bytes to be sent over a connection, after which its sending side is shut down.
pub(crate) struct Filler {
    left: u64,
    /// True if everything has been sent.
    pub(crate) finished: bool,
}

impl Filler {
    pub(crate) fn new(left: u64) -> Filler {
        Filler { left, finished: false }
    }

    /// Sends as much as possible; returns the number of bytes.
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

/// Sends up to `most` filler bytes; returns the number accepted.
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
