//! Messages between nodes, and the nodes themselves as the engine has them.

use crate::device::DeviceNode;
use crate::node::HostNode;
use belljar_base::{EventKey, Footprint, SimTime};
use belljar_engine::{Node, Outgoing};
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

/// A node of the world.
pub enum WorldNode {
    /// A host, with a kernel and programs.
    Host(Box<HostNode>),
    /// A device: a switch, a router.
    Device(Box<DeviceNode>),
}

impl Node for WorldNode {
    type Message = Message;

    fn deliver(&mut self, key: EventKey, message: Message) {
        match self {
            WorldNode::Host(host) => host.deliver(key, message),
            WorldNode::Device(device) => device.deliver(key, message),
        }
    }
    fn run_until(&mut self, limit: SimTime, out: &mut Vec<Outgoing<Message>>) {
        match self {
            WorldNode::Host(host) => host.run_until(limit, out),
            WorldNode::Device(device) => device.run_until(limit, out),
        }
    }
    fn next_event(&self) -> Option<SimTime> {
        match self {
            WorldNode::Host(host) => host.next_event(),
            WorldNode::Device(device) => device.next_event(),
        }
    }
    fn attend(&mut self) {
        match self {
            WorldNode::Host(host) => host.attend(),
            WorldNode::Device(device) => device.attend(),
        }
    }
    fn footprint(&self, footprint: &mut Footprint) {
        if let WorldNode::Host(host) = self {
            host.footprint(footprint);
        }
    }
    /// Devices are at rest whenever nobody sends anything.
    fn finished_at(&self) -> Option<SimTime> {
        match self {
            WorldNode::Host(host) => host.finished_at(),
            WorldNode::Device(device) => device.finished_at(),
        }
    }
}
