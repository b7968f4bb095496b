//! Node of the world as run by the engine: a host or a device.

use crate::device::DeviceNode;
use crate::message::Message;
use crate::node::HostNode;
use belljar_base::{EventKey, Footprint, SimTime};
use belljar_engine::{Node, Outgoing};

/// Node of the world.
pub enum WorldNode {
    /// Host with a kernel and programs, or with traffic models.
    Host(Box<HostNode>),
    /// Device, such as a switch or router.
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
            WorldNode::Device(device) => device.next_run(),
        }
    }
    fn attend(&mut self, since: SimTime) {
        match self {
            WorldNode::Host(host) => host.attend(since),
            WorldNode::Device(device) => device.attend(),
        }
    }
    fn footprint(&self, footprint: &mut Footprint) {
        if let WorldNode::Host(host) = self {
            host.footprint(footprint);
        }
    }
    /// Time at which the node became idle for good; see [`DeviceNode::finished_at`] for devices.
    fn finished_at(&self) -> Option<SimTime> {
        match self {
            WorldNode::Host(host) => host.finished_at(),
            WorldNode::Device(device) => device.finished_at(),
        }
    }
}
