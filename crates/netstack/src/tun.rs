//! TUN and TAP interfaces, whose other end is a program. A TUN interface carries IP packets, a TAP interface
//! Ethernet frames.

use crate::PacketDirection;
use crate::interfaces::Interfaces;
use crate::readiness::{EPOLLERR, READABLE, WRITABLE};
use std::collections::VecDeque;

/// `txqueuelen` of these interfaces: maximum number of packets queued for the program.
const QUEUE_PACKETS: usize = 500;

/// Flags of `TUNSETIFF`.
#[allow(missing_docs)]
pub mod flag {
    pub const TUN: u16 = 0x0001;
    pub const TAP: u16 = 0x0002;
    pub const PERSIST: u16 = 0x0800;
    pub const NO_PI: u16 = 0x1000;
    pub const ONE_QUEUE: u16 = 0x2000;
    pub const VNET_HDR: u16 = 0x4000;
    pub const TUN_EXCL: u16 = 0x8000;
}

/// The program's end of a TUN or TAP interface.
#[derive(Debug)]
pub struct Tun {
    /// The number of the stack that it belongs to.
    pub network: u32,
    /// The number of the attached interface, if any.
    pub interface: Option<usize>,
    /// The flags set by `TUNSETIFF`.
    pub flags: u16,
    /// Length of the offload header in bytes: `TUNSETVNETHDRSZ`.
    pub header_len: usize,
    /// True if the interface persists when the program detaches.
    pub persistent: bool,
    /// Packets not yet read by the program.
    pub packets: VecDeque<Vec<u8>>,
    /// Traffic counters.
    pub counters: TunCounters,
}

/// Traffic counters of a virtual interface, from the host's point of view.
#[derive(Clone, Copy, Debug, Default)]
pub struct TunCounters {
    /// Packets and bytes transmitted by the host.
    pub sent: (u64, u64),
    /// Packets and bytes received by the host.
    pub received: (u64, u64),
    /// Packets dropped because the program's queue was full.
    pub dropped: u64,
}

impl TunCounters {
    /// Counts a packet or frame of `len` bytes.
    pub(crate) fn count(&mut self, direction: PacketDirection, len: usize) {
        let (packets, octets) = match direction {
            PacketDirection::In => &mut self.received,
            PacketDirection::Out => &mut self.sent,
        };
        (*packets, *octets) = (*packets + 1, *octets + len as u64);
    }
}

impl Tun {
    /// Creates an unattached end, in the network namespace of this number, with an offload header of this
    /// length.
    pub fn new(network: u32, header_len: usize) -> Tun {
        Tun {
            network,
            interface: None,
            flags: 0,
            header_len,
            persistent: false,
            packets: VecDeque::new(),
            counters: TunCounters::default(),
        }
    }
    /// Queues a packet for the program. Returns false if the queue is full; the packet is counted.
    pub(crate) fn push(&mut self, packet: Vec<u8>) -> bool {
        if self.packets.len() >= QUEUE_PACKETS {
            self.counters.dropped += 1;
            return false;
        }
        self.counters.count(PacketDirection::Out, packet.len());
        self.packets.push_back(packet);
        true
    }
    /// The readiness of the program's descriptor, as `EPOLL*` bits.
    pub fn readiness(&self) -> u32 {
        match self.interface {
            None => EPOLLERR,
            Some(_) => WRITABLE | if self.packets.is_empty() { 0 } else { READABLE },
        }
    }
    /// True for a TAP interface.
    pub fn is_tap(&self) -> bool {
        self.flags & flag::TAP != 0
    }
}

impl Interfaces {
    /// An unused interface name for `TUNSETIFF` with these flags.
    pub fn free_tun_name(&self, flags: u16) -> String {
        let stem = if flags & flag::TAP != 0 { "tap" } else { "tun" };
        let taken = |n: &u32| self.by_name(format!("{stem}{n}").as_bytes()).is_some();
        let n = (0..).find(|n| !taken(n)).unwrap_or(0);
        format!("{stem}{n}")
    }
}
