//! TUN and TAP interfaces, whose other end is a program. A TUN interface carries IP packets, a TAP interface
//! Ethernet frames.

use super::Effect;
use super::PacketDirection;
use crate::Stack;
use crate::account::{DropCause, Origin, PacketDisposition, Receiver};
use crate::interfaces::Interfaces;
use crate::readiness::{EPOLLERR, READABLE, WRITABLE};
use belljar_linux_abi::Errno;
use belljar_net::Packet;
use belljar_wire::ethernet;
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

impl Tun {
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

impl Stack {
    /// Creates an unattached end with an offload header of this length. Returns its key.
    pub fn open_tun(&mut self, header_len: usize) -> usize {
        self.tuns.insert(Tun {
            network: self.number,
            interface: None,
            flags: 0,
            header_len,
            persistent: false,
            packets: VecDeque::new(),
            counters: TunCounters::default(),
        })
    }

    /// Queues a packet, or for a TAP interface a frame, for the program.
    #[inline(never)]
    pub(crate) fn tun_output(&mut self, n: usize, mut packet: Packet) -> PacketDisposition {
        let now = self.clock.now();
        let Some(interface) = self.tuns[n].interface else {
            return PacketDisposition::dropped(DropCause::InterfaceDown);
        };
        self.seen(now, interface, &mut packet, PacketDirection::Out);
        let (cookie, bytes) = (packet.cookie(), packet.into_bytes());
        let tun = &mut self.tuns[n];
        if tun.packets.len() >= QUEUE_PACKETS {
            tun.counters.dropped += 1;
            return PacketDisposition::dropped(DropCause::TunQueueFull);
        }
        let (packets, octets) = tun.counters.sent;
        tun.counters.sent = (packets + 1, octets + bytes.len() as u64);
        let len = bytes.len();
        tun.packets.push_back(bytes);
        self.effects.push(Effect::ProgramReady(n, READABLE));
        if cookie != 0 {
            // The sender must not be notified within its own call.
            self.taken_over.push_back((cookie, len));
        }
        PacketDisposition::consumed(Receiver::Tun)
    }

    /// Receives a packet written by a program. Fails with `EBADFD` if no interface is attached, and with
    /// `EINVAL` if a frame is shorter than its header.
    pub fn tun_input(&mut self, n: usize, bytes: Vec<u8>) -> Result<(), Errno> {
        let tun = &mut self.tuns[n];
        let interface = tun.interface.ok_or(Errno::EBADFD)?;
        let (packets, octets) = tun.counters.received;
        tun.counters.received = (packets + 1, octets + bytes.len() as u64);
        let end = if tun.is_tap() {
            if bytes.len() < ethernet::HEADER_LEN {
                return Err(Errno::EINVAL);
            }
            self.frame_input(interface, Packet::new(bytes))
        } else {
            let mut packet = Packet::new(bytes);
            self.seen(self.clock.now(), interface, &mut packet, PacketDirection::In);
            self.arrived_as_one = true;
            self.ip_input(interface, packet)
        };
        self.account.originate(Origin::Tun, end);
        Ok(())
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
