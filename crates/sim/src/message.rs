//! Messages between nodes.

use belljar_net::Packet;

/// Something on its way from one node to another.
#[derive(Debug)]
pub struct Message {
    /// The interface that it comes by, by its number among those of the receiver that are on links;
    /// `None`: a packet over the graph.
    pub port: Option<usize>,
    /// An IP packet, or on links an Ethernet frame.
    pub packet: Packet,
}
