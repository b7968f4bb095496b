//! Messages between nodes.

use belljar_net::Packet;

/// Message in flight between two nodes.
#[derive(Debug)]
pub struct Message {
    /// Index of the receiver's interface among those on links; `None` for a packet over the graph.
    pub port: Option<usize>,
    /// IP packet, or on links an Ethernet frame.
    pub packet: Packet,
}
