use crate::{Failure, Network};
use belljar_base::SimTime;
use std::fmt;
use std::net::SocketAddrV4;

/// Record of a flow between a model and a peer: a transfer, a request with its response, a query, or a stream
/// of datagrams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRecord {
    /// Peer address.
    pub peer: SocketAddrV4,
    /// Start time.
    pub started: SimTime,
    /// Time at which the connection was established, if the flow has its own.
    pub connected: Option<SimTime>,
    /// Time of the first byte from the peer.
    pub first_byte: Option<SimTime>,
    /// End time.
    pub ended: SimTime,
    /// Bytes passed to the host for sending.
    pub bytes_out: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Datagrams sent, or received by a sink.
    pub datagrams: u64,
    /// Datagrams missed by a sink.
    pub lost: u64,
    /// Mean delay in nanoseconds of the datagrams that a sink received.
    pub mean_delay_ns: Option<u64>,
    /// Outcome of the flow.
    pub outcome: FlowOutcome,
}

/// Outcome of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowOutcome {
    /// Completed.
    Done,
    /// Ended early because the model or the simulation was stopped.
    Cut,
    /// Failed.
    Failed(Failure),
}

impl fmt::Display for FlowOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlowOutcome::Done => f.write_str("done"),
            FlowOutcome::Cut => f.write_str("cut"),
            FlowOutcome::Failed(why) => why.fmt(f),
        }
    }
}

impl FlowRecord {
    /// Starts a record now.
    pub(crate) fn new(peer: SocketAddrV4, net: &dyn Network) -> FlowRecord {
        let now = net.now();
        FlowRecord {
            peer,
            started: now,
            connected: None,
            first_byte: None,
            ended: now,
            bytes_out: 0,
            bytes_in: 0,
            datagrams: 0,
            lost: 0,
            mean_delay_ns: None,
            outcome: FlowOutcome::Cut,
        }
    }
    /// Accounts for received bytes.
    pub(crate) fn received(&mut self, bytes: usize, net: &dyn Network) {
        self.first_byte.get_or_insert(net.now());
        self.bytes_in += bytes as u64;
    }
    /// Ends the flow now and records it in the results.
    pub(crate) fn end(mut self, outcome: FlowOutcome, net: &mut dyn Network) {
        self.ended = net.now();
        self.outcome = outcome;
        net.record(self);
    }
}

impl From<Result<(), Failure>> for FlowOutcome {
    fn from(result: Result<(), Failure>) -> FlowOutcome {
        match result {
            Ok(()) => FlowOutcome::Done,
            Err(why) => FlowOutcome::Failed(why),
        }
    }
}
