//! Any of the layers, selected by the experiment: messages are bytes.

use crate::layer::{HEADER, Layer};
use crate::net::{Frame, Net};
use crate::requests::{MemoryDevice, PcieDevice, PcieHost};
use belljar_pci::{Codec, DeviceInfo, ToDevice, ToHost, ToMemory};

/// An end of a channel of any layer. A message of [`Net`] is its frame; one of PCIe or memory has the format
/// of [`Codec::to_bytes`].
#[derive(Clone, Debug)]
pub enum Wire {
    /// Ethernet.
    Net(Net),
    /// Host end of PCIe.
    PcieHost(PcieHost),
    /// Device end of PCIe.
    PcieDevice(PcieDevice),
    /// Memory end of a memory channel.
    MemoryDevice(MemoryDevice),
}

impl Wire {
    /// The device at the other end, if there is one.
    pub fn device(&self) -> Option<&DeviceInfo> {
        match self {
            Wire::PcieHost(host) => Some(host.device()),
            _ => None,
        }
    }
}

impl Layer for Wire {
    type Received = Vec<u8>;
    type Sent = Vec<u8>;

    fn id(&self) -> u64 {
        match self {
            Wire::Net(net) => net.id(),
            Wire::PcieHost(host) => host.id(),
            Wire::PcieDevice(device) => device.id(),
            Wire::MemoryDevice(memory) => memory.id(),
        }
    }
    fn name(&self) -> &'static str {
        match self {
            Wire::Net(net) => net.name(),
            Wire::PcieHost(host) => host.name(),
            Wire::PcieDevice(device) => device.name(),
            Wire::MemoryDevice(memory) => memory.name(),
        }
    }
    fn slot_size(&self) -> usize {
        match self {
            Wire::Net(net) => net.slot_size(),
            Wire::PcieHost(host) => host.slot_size(),
            Wire::PcieDevice(device) => device.slot_size(),
            Wire::MemoryDevice(memory) => memory.slot_size(),
        }
    }
    fn intro(&self) -> Vec<u8> {
        match self {
            Wire::Net(net) => net.intro(),
            Wire::PcieHost(host) => host.intro(),
            Wire::PcieDevice(device) => device.intro(),
            Wire::MemoryDevice(memory) => memory.intro(),
        }
    }
    fn peer_intro_len(&self) -> usize {
        match self {
            Wire::Net(net) => net.peer_intro_len(),
            Wire::PcieHost(host) => host.peer_intro_len(),
            Wire::PcieDevice(device) => device.peer_intro_len(),
            Wire::MemoryDevice(memory) => memory.peer_intro_len(),
        }
    }
    fn take_intro(&mut self, intro: &[u8]) -> Result<(), String> {
        match self {
            Wire::Net(net) => net.take_intro(intro),
            Wire::PcieHost(host) => host.take_intro(intro),
            Wire::PcieDevice(device) => device.take_intro(intro),
            Wire::MemoryDevice(memory) => memory.take_intro(intro),
        }
    }
    fn body_len(&self, kind: u8, header: &[u8; HEADER]) -> Result<usize, String> {
        match self {
            Wire::Net(net) => net.body_len(kind, header),
            Wire::PcieHost(host) => host.body_len(kind, header),
            Wire::PcieDevice(device) => device.body_len(kind, header),
            Wire::MemoryDevice(memory) => memory.body_len(kind, header),
        }
    }
    fn decode(&mut self, kind: u8, header: &[u8; HEADER], body: Vec<u8>) -> Result<Vec<u8>, String> {
        match self {
            Wire::Net(net) => net.decode(kind, header, body).map(|frame: Frame| frame.bytes),
            Wire::PcieHost(host) => host.decode(kind, header, body).map(|message: ToHost| message.to_bytes()),
            Wire::PcieDevice(device) => {
                device.decode(kind, header, body).map(|message: ToDevice| message.to_bytes())
            }
            Wire::MemoryDevice(memory) => {
                memory.decode(kind, header, body).map(|message: ToMemory| message.to_bytes())
            }
        }
    }
    fn encode<'m>(&mut self, message: &'m Vec<u8>, header: &mut [u8; HEADER]) -> (u8, &'m [u8]) {
        if let Wire::Net(_) = self {
            // As in `Net`, whose frame also has a port.
            header[..2].copy_from_slice(&(message.len() as u16).to_le_bytes());
            return (0x40, message);
        }
        // Only reads are recorded, and they have no body to copy.
        match (self, message.len() == 1 + HEADER) {
            (Wire::PcieHost(host), true) => {
                if let Ok(read) = ToDevice::from_bytes(message) {
                    host.encode(&read, header);
                }
            }
            (Wire::PcieDevice(device), true) => {
                if let Ok(read) = ToHost::from_bytes(message) {
                    device.encode(&read, header);
                }
            }
            _ => {}
        }
        let (head, body) = message.split_at(message.len().min(1 + HEADER));
        header[..head.len().saturating_sub(1)].copy_from_slice(head.get(1..).unwrap_or_default());
        (head.first().copied().unwrap_or_default(), body)
    }
}
