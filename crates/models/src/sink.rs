//! Sinks that discard received data, like RFC 863's discard service, and record it.

use crate::datagrams::DatagramHeader;
use crate::{Failure, FlowOutcome, FlowRecord, Model, ModelSocket, Network, Received};
use belljar_base::Map;
use std::net::SocketAddrV4;

/// TCP sink, which closes a connection after its peer.
pub struct Tcp {
    port: u16,
    listener: Option<ModelSocket>,
    peers: Map<ModelSocket, FlowRecord>,
}

impl Tcp {
    pub fn new(port: u16) -> Tcp {
        Tcp { port, listener: None, peers: Map::new() }
    }
}

impl Model for Tcp {
    fn start(&mut self, net: &mut dyn Network) -> Result<(), Failure> {
        self.listener = Some(net.listen(self.port)?);
        Ok(())
    }
    fn ready(&mut self, socket: ModelSocket, net: &mut dyn Network) {
        if self.listener == Some(socket) {
            while let Some((peer, from)) = net.accept(socket) {
                self.peers.insert(peer, FlowRecord::new(from, net));
                self.ready(peer, net);
            }
            return;
        }
        let Some(flow) = self.peers.get_mut(&socket) else { return };
        let ended = loop {
            match net.discard(socket, u64::MAX) {
                Ok(Received::Bytes(n)) => flow.received(n, net),
                Ok(Received::Nothing) => return,
                Ok(Received::End) => break Ok(()),
                Err(why) => break Err(why),
            }
        };
        net.close(socket);
        if let Some(flow) = self.peers.remove(&socket) {
            flow.end(ended.into(), net);
        }
    }
    fn is_finished(&self) -> bool {
        false
    }
    fn stop(&mut self, net: &mut dyn Network) {
        for flow in std::mem::take(&mut self.peers).into_values() {
            flow.end(FlowOutcome::Cut, net);
        }
    }
}

/// UDP sink, which determines loss and delay from the header written by the datagram model and iperf.
pub struct Udp {
    port: u16,
    socket: Option<ModelSocket>,
    buffer: Vec<u8>,
    peers: Map<SocketAddrV4, Peer>,
}

struct Peer {
    flow: FlowRecord,
    /// Highest number seen, plus one.
    expected: u64,
    delays_ns: u64,
    delays: u64,
}

impl Udp {
    pub fn new(port: u16) -> Udp {
        Udp { port, socket: None, buffer: Vec::new(), peers: Map::new() }
    }
}

impl Model for Udp {
    fn start(&mut self, net: &mut dyn Network) -> Result<(), Failure> {
        self.socket = Some(net.bind_udp(self.port)?);
        Ok(())
    }
    fn ready(&mut self, socket: ModelSocket, net: &mut dyn Network) {
        // Errors concern answers that could not be delivered.
        while let Some(from) = net.receive_from(socket, &mut self.buffer).unwrap_or_default() {
            let header = DatagramHeader::parse(&self.buffer);
            let peer = self.peers.entry(from).or_insert_with(|| Peer {
                flow: FlowRecord::new(from, net),
                expected: 0,
                delays_ns: 0,
                delays: 0,
            });
            peer.receive(self.buffer.len(), header.as_ref(), net);
            if header.is_some_and(|header| header.is_last) {
                // The sender waits for the echo.
                let _ = net.send_to(socket, from, &self.buffer);
                if let Some(peer) = self.peers.remove(&from)
                    && peer.flow.datagrams > 0
                {
                    peer.end(FlowOutcome::Done, net);
                }
            }
        }
    }
    fn is_finished(&self) -> bool {
        false
    }
    fn stop(&mut self, net: &mut dyn Network) {
        for peer in std::mem::take(&mut self.peers).into_values() {
            peer.end(FlowOutcome::Cut, net);
        }
    }
}

impl Peer {
    fn receive(&mut self, bytes: usize, header: Option<&DatagramHeader>, net: &dyn Network) {
        if let Some(header) = header {
            // A late datagram was counted as lost.
            let number = header.number;
            if number >= self.expected {
                self.flow.lost += number - self.expected;
                self.expected = number + 1;
            } else {
                self.flow.lost = self.flow.lost.saturating_sub(1);
            }
            if header.is_last {
                return;
            }
            if let Some(delay) = net.wall_clock_ns().checked_sub(header.sent_ns) {
                self.delays_ns = self.delays_ns.saturating_add(delay);
                self.delays += 1;
            }
        }
        self.flow.received(bytes, net);
        self.flow.datagrams += 1;
    }
    fn end(mut self, outcome: FlowOutcome, net: &mut dyn Network) {
        self.flow.mean_delay_ns = self.delays_ns.checked_div(self.delays);
        self.flow.end(outcome, net);
    }
}
