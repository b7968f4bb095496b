//! Interfaces whose other end is a program. A TUN interface carries IP packets, a TAP interface Ethernet frames.

use super::Effect;
use super::PacketDirection;
use crate::Stack;
use crate::interfaces::Interfaces;
use crate::readiness::{EPOLLERR, READABLE, WRITABLE};
use belljar_linux_abi::Errno;
use belljar_net::Packet;
use belljar_wire::ethernet;
use std::collections::VecDeque;

/// `txqueuelen` of such interfaces: packets that wait for the program.
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

/// A program's end.
#[derive(Debug)]
pub struct Tun {
    /// The stack that it belongs to, by its number.
    pub network: u32,
    /// The number of its interface.
    pub interface: Option<usize>,
    /// Flags of `TUNSETIFF`.
    pub flags: u16,
    /// The length of the offload header: `TUNSETVNETHDRSZ`.
    pub header_len: usize,
    /// Its interface stays when the program goes.
    pub persistent: bool,
    /// Packets that the program has not read.
    pub packets: VecDeque<Vec<u8>>,
    /// Packets and bytes to the program and from it, and those dropped.
    pub counters: TunCounters,
}

/// Counters of a program's end.
#[derive(Clone, Copy, Debug, Default)]
pub struct TunCounters {
    /// Packets and bytes that the host has sent.
    pub sent: (u64, u64),
    /// The same that the program has written.
    pub received: (u64, u64),
    /// Packets lost because the program did not read.
    pub dropped: u64,
}

impl Tun {
    /// Its readiness.
    pub fn readiness(&self) -> u32 {
        match self.interface {
            None => EPOLLERR,
            Some(_) => WRITABLE | if self.packets.is_empty() { 0 } else { READABLE },
        }
    }
    /// True if it takes Ethernet frames.
    pub fn is_tap(&self) -> bool {
        self.flags & flag::TAP != 0
    }
}

impl Stack {
    /// A new end, attached to nothing; its offload header has this length.
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

    /// Hands a packet (of a TAP interface a frame) to the program; false if it is lost.
    #[inline(never)]
    pub fn tun_output(&mut self, n: usize, mut packet: Packet) -> bool {
        let now = self.clock.now();
        let Some(interface) = self.tuns[n].interface else { return false };
        self.seen(now, interface, &mut packet, PacketDirection::Out);
        let (cookie, bytes) = (packet.cookie(), packet.into_bytes());
        let tun = &mut self.tuns[n];
        if tun.packets.len() >= QUEUE_PACKETS {
            tun.counters.dropped += 1;
            return false;
        }
        let (packets, octets) = tun.counters.sent;
        tun.counters.sent = (packets + 1, octets + bytes.len() as u64);
        let len = bytes.len();
        tun.packets.push_back(bytes);
        self.effects.push(Effect::ProgramReady(n, READABLE));
        if cookie != 0 {
            // Whoever sends must not be told within the call that sends.
            self.taken_over.push_back((cookie, len));
        }
        true
    }

    /// Receives a packet that a program has written, by the device's interface: `EBADFD` if it has none, `EINVAL` if a
    /// frame is shorter than its header.
    pub fn tun_input(&mut self, n: usize, bytes: Vec<u8>) -> Result<(), Errno> {
        let tun = &mut self.tuns[n];
        let interface = tun.interface.ok_or(Errno::EBADFD)?;
        let (packets, octets) = tun.counters.received;
        tun.counters.received = (packets + 1, octets + bytes.len() as u64);
        if tun.is_tap() {
            if bytes.len() < ethernet::HEADER_LEN {
                return Err(Errno::EINVAL);
            }
            self.frame_input(interface, Packet::new(bytes));
        } else {
            let mut packet = Packet::new(bytes);
            self.seen(self.clock.now(), interface, &mut packet, PacketDirection::In);
            self.arrived_as_one = true;
            self.ip_input(interface, packet);
        }
        Ok(())
    }
}

impl Interfaces {
    /// A name that no interface has, for one that `TUNSETIFF` makes with these flags.
    pub fn free_tun_name(&self, flags: u16) -> String {
        let stem = if flags & flag::TAP != 0 { "tap" } else { "tun" };
        let taken = |n: &u32| self.by_name(format!("{stem}{n}").as_bytes()).is_some();
        let n = (0..).find(|n| !taken(n)).unwrap_or(0);
        format!("{stem}{n}")
    }
}
