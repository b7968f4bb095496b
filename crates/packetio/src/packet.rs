//! `AF_PACKET` sockets: frames of an existing interface, in parallel to the kernel's stack.
//!
//! The kernel writes received frames to a mapped ring, so receiving needs no system call per frame; many
//! frames are sent in one system call. [`RingKind`] trades latency against CPU time.

mod blocks;
mod frames;
mod ring;

use crate::interface::{Interface, ROOT};
use crate::offload::{Finisher, VNET_LEN};
use crate::outgoing::Outgoing;
use crate::{Counters, Error, Filter, Frame, Port, Remainder, Result, Sent, Timestamps, sys};
use belljar_wire::ethernet::Address;
use blocks::BlockRing;
use frames::FrameRing;
pub use frames::slot_len;
use libc::c_int;
use ring::Delivery;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Layout of the receive ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RingKind {
    /// `TPACKET_V2`: one slot per frame, visible at once. Frames longer than a slot take one system call
    /// each.
    #[default]
    Frames,
    /// `TPACKET_V3`: frames of any length packed into blocks. A block becomes visible when it is full or
    /// after a timeout, which adds latency at low rates: a round trip between two ports over a veth takes
    /// 1,000 us, compared to 12 us with a ring of frames. A frame takes 6 % less CPU time.
    Blocks {
        /// Timeout in milliseconds, at least 1; the kernel's timer may round it up.
        timeout_ms: u32,
    },
}

/// Fanout group: packet sockets among which the kernel distributes the frames of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fanout {
    /// Group number, unique in the network namespace.
    pub group: u16,
    /// Distribution rule.
    pub mode: FanoutMode,
}

/// Rule by which the kernel distributes frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FanoutMode {
    /// Hash of addresses and ports: the order within a flow is preserved.
    Hash,
    /// Round robin.
    RoundRobin,
    /// Receiving processor.
    Cpu,
    /// The next socket once the ring of the first is full.
    Rollover,
}

/// Options of a [`PacketRing`].
#[derive(Clone, Debug)]
pub struct PacketOptions {
    /// Layout of the receive ring.
    pub ring: RingKind,
    /// Size of the receive ring in bytes, rounded up to whole slots or blocks.
    pub ring_bytes: usize,
    /// Receive frames addressed to other stations too.
    pub promiscuous: bool,
    /// Receive the frames that this machine sends on the interface too, except those of the port itself.
    pub outgoing: bool,
    /// Filter of received frames; `None` accepts all.
    pub filter: Option<Filter>,
    /// Fanout group.
    pub fanout: Option<Fanout>,
    /// Timestamps of received frames.
    pub timestamps: Timestamps,
    /// Bypass the interface's queueing discipline: faster, but not shaped, and a frame fails at once if the
    /// driver's queue is full.
    pub bypass_qdisc: bool,
}

impl Default for PacketOptions {
    fn default() -> PacketOptions {
        PacketOptions {
            ring: RingKind::Frames,
            ring_bytes: 8 << 20,
            promiscuous: true,
            outgoing: false,
            filter: None,
            fanout: None,
            timestamps: Timestamps::Off,
            bypass_qdisc: false,
        }
    }
}

#[derive(Debug)]
enum Ring {
    Frames(FrameRing),
    Blocks(BlockRing),
}

/// Packet socket on an existing interface.
///
/// The kernel's stack receives the frames too. To keep it from answering, give the interface no addresses, or
/// use [`Xdp`](crate::Xdp).
#[derive(Debug)]
pub struct PacketRing {
    interface: Interface,
    // Fields are dropped in order: the ring is unmapped before the socket is closed.
    ring: Ring,
    socket: OwnedFd,
    finisher: Finisher,
    outgoing: Outgoing,
    counters: Counters,
    /// Packets that the kernel passed to the socket, including those that it dropped.
    offered: u64,
    stamped: bool,
    hardware: Option<HardwareClock>,
    gone: bool,
}

/// Previous timestamping configuration of a network card.
#[derive(Debug)]
struct HardwareClock {
    before: libc::hwtstamp_config,
}
// SAFETY: integers alone.
unsafe impl sys::Plain for libc::hwtstamp_config {}

impl PacketRing {
    /// Opens the interface `name` of the calling thread's network namespace.
    pub fn open(name: &str, options: &PacketOptions) -> Result<PacketRing> {
        let interface = Interface::open(name)?;
        interface.check_up()?;
        // Protocol 0 receives no frame before the setup is complete.
        let socket = open_socket(name)?;
        let fd = socket.as_fd();
        let set = |option, value: c_int, what: &str| {
            sys::set_option(fd, libc::SOL_PACKET, option, value)
                .map_err(|e| Error::system(format!("setting {what} on a packet socket of '{name}'"), e))
        };
        set(libc::PACKET_VNET_HDR, 1, "PACKET_VNET_HDR")?;
        let ring = match options.ring {
            RingKind::Frames => Ring::Frames(FrameRing::map(&interface, fd, options.ring_bytes)?),
            RingKind::Blocks { timeout_ms } => {
                Ring::Blocks(BlockRing::map(&interface, fd, options.ring_bytes, timeout_ms)?)
            }
        };
        if !options.outgoing {
            set(libc::PACKET_IGNORE_OUTGOING, 1, "PACKET_IGNORE_OUTGOING")?;
        }
        if options.bypass_qdisc {
            set(libc::PACKET_QDISC_BYPASS, 1, "PACKET_QDISC_BYPASS")?;
        }
        if let Some(filter) = &options.filter {
            sys::attach_filter(fd, &mut filter.program())
                .map_err(|e| Error::system(format!("attaching the filter of frames from '{name}'"), e))?;
        }
        let hardware = match options.timestamps {
            Timestamps::Off => None,
            kind => stamp(&interface, fd, kind)?,
        };
        let outgoing = Outgoing::new(VNET_LEN, interface.max_frame().min(1 << 16));
        let port = PacketRing {
            interface,
            ring,
            socket,
            finisher: Finisher::default(),
            outgoing,
            counters: Counters::default(),
            offered: 0,
            stamped: options.timestamps != Timestamps::Off,
            hardware,
            gone: false,
        };
        port.start(options)?;
        Ok(port)
    }

    /// Binds the socket; reception starts.
    fn start(&self, options: &PacketOptions) -> Result<()> {
        let (fd, index) = (self.socket.as_fd(), self.interface.index());
        let failed = |doing: &str, e| self.interface.failed(doing, e);
        if options.promiscuous {
            self.interface.enter_promiscuous_mode(fd)?;
        }
        sys::bind_packet(fd, index, libc::ETH_P_ALL as u16)
            .map_err(|e| failed("binding a packet socket", e))?;
        if let Some(e) = sys::take_error(fd) {
            return Err(failed("binding a packet socket", e));
        }
        if let Some(fanout) = options.fanout {
            let mode = match fanout.mode {
                FanoutMode::Hash => libc::PACKET_FANOUT_HASH,
                FanoutMode::RoundRobin => libc::PACKET_FANOUT_LB,
                FanoutMode::Cpu => libc::PACKET_FANOUT_CPU,
                FanoutMode::Rollover => libc::PACKET_FANOUT_ROLLOVER,
            };
            let value = (u32::from(fanout.group) | mode << 16) as c_int;
            let doing = format!(
                "joining fanout group {} (its sockets must have one mode and one interface)",
                fanout.group
            );
            sys::set_option(fd, libc::SOL_PACKET, libc::PACKET_FANOUT, value)
                .map_err(|e| failed(&doing, e))?;
        }
        Ok(())
    }

    /// Returns the pending error of the socket.
    fn pending_error(&mut self) -> Result<()> {
        let Some(e) = sys::take_error(self.socket.as_fd()) else { return Ok(()) };
        self.note(e, "receiving")
    }

    fn note(&mut self, source: std::io::Error, doing: &str) -> Result<()> {
        let error = self.interface.failed(doing, source);
        self.gone |= error.is_fatal();
        Err(error)
    }

    fn check_gone(&self) -> Result<()> {
        if self.gone { Err(Error::Gone { name: self.interface.name().to_string() }) } else { Ok(()) }
    }
}

/// Opens a packet socket that does not receive yet.
pub(crate) fn open_socket(name: &str) -> Result<OwnedFd> {
    sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0).map_err(|e| {
        Error::privileged(format!("opening a packet socket on '{name}'"), "CAP_NET_RAW", ROOT, e)
    })
}

/// Enables timestamps. Returns the configuration to restore, if one was changed.
fn stamp(interface: &Interface, fd: BorrowedFd<'_>, kind: Timestamps) -> Result<Option<HardwareClock>> {
    let failed = |e| interface.failed("turning on timestamps", e);
    let mut flags = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    let mut hardware = None;
    if kind == Timestamps::Hardware {
        flags |= libc::SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
        let unsupported = |e: std::io::Error| match e.raw_os_error() {
            Some(libc::EPERM) => {
                Error::privileged("turning on hardware timestamps", "CAP_NET_ADMIN", ROOT, e)
            }
            _ => Error::Unsupported {
                name: interface.name().to_string(),
                what: format!("the driver stamps no received frames ({e}): ask for timestamps by the kernel"),
            },
        };
        let mut before = libc::hwtstamp_config { flags: 0, tx_type: 0, rx_filter: 0 };
        interface.driver_request(SIOCGHWTSTAMP, &mut before).map_err(unsupported)?;
        let mut config = libc::hwtstamp_config {
            flags: 0,
            tx_type: before.tx_type,
            rx_filter: libc::HWTSTAMP_FILTER_ALL as c_int,
        };
        interface.driver_request(libc::SIOCSHWTSTAMP, &mut config).map_err(unsupported)?;
        hardware = Some(HardwareClock { before });
    }
    sys::set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags as c_int).map_err(failed)?;
    sys::set_option(fd, libc::SOL_PACKET, libc::PACKET_TIMESTAMP, flags as c_int).map_err(failed)?;
    Ok(hardware)
}

/// Interval between two readings of a socket's counts at its end, and their maximum number.
const SETTLE: Duration = Duration::from_micros(100);
const SETTLING: usize = 20;
/// Absent from libc.
const SIOCGHWTSTAMP: libc::c_ulong = 0x89b1;

impl Port for PacketRing {
    fn name(&self) -> &str {
        self.interface.name()
    }
    fn mac(&self) -> Address {
        self.interface.mac()
    }
    fn mtu(&self) -> usize {
        self.interface.mtu()
    }
    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn receive(&mut self, limit: usize, each: &mut dyn FnMut(Frame<'_>)) -> Result<usize> {
        let mut delivery = Delivery {
            finisher: &mut self.finisher,
            counters: &mut self.counters,
            stamped: self.stamped,
            each,
        };
        let received = match &mut self.ring {
            Ring::Frames(ring) => ring.receive(self.socket.as_fd(), limit, &mut delivery),
            Ring::Blocks(ring) => ring.receive(limit, &mut delivery),
        };
        if received == 0 {
            self.check_gone()?;
            self.pending_error()?;
        }
        Ok(received)
    }

    fn room(&self) -> usize {
        match &self.ring {
            Ring::Frames(ring) => ring.room(),
            // Blocks have no fixed number of frames.
            Ring::Blocks(_) => 0,
        }
    }

    fn send(&mut self, frame: &[u8]) -> Result<Sent> {
        self.check_gone()?;
        self.interface.check_frame(frame)?;
        if self.outgoing.is_full() && !self.flush()? && self.outgoing.is_full() {
            self.counters.refused += 1;
            return Ok(Sent::Full);
        }
        self.outgoing.push(frame);
        Ok(Sent::Queued)
    }

    fn flush(&mut self) -> Result<bool> {
        let failed = self.counters.failed;
        match self.outgoing.flush(self.socket.as_fd(), &mut self.counters) {
            Ok(empty) => {
                if self.counters.failed > failed && !self.interface.has_carrier() {
                    self.counters.failed_down += self.counters.failed - failed;
                }
                Ok(empty)
            }
            Err(e) => self.note(e, "sending").map(|()| true),
        }
    }

    fn counters(&mut self) -> Counters {
        // Reading resets the kernel's counters.
        let statistics = sys::option::<libc::tpacket_stats_v3>(
            self.socket.as_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
        );
        self.counters.dropped_kernel += statistics.as_ref().map_or(0, |s| u64::from(s.tp_drops));
        // The kernel's number of packets includes the dropped ones.
        self.offered += statistics.map_or(0, |s| u64::from(s.tp_packets));
        self.counters
    }

    fn finish(&mut self) -> Remainder {
        // A processor may still be running the filter before this one: the counts are final once they stand.
        let _ = sys::attach_filter(self.socket.as_fd(), &mut Filter::none().program());
        let mut offered = None;
        for _ in 0..SETTLING {
            let before = offered.replace({
                self.counters();
                self.offered
            });
            if before == offered {
                break;
            }
            std::thread::sleep(SETTLE);
        }
        let unsent = self.outgoing.len() as u64;
        match &self.ring {
            Ring::Frames(ring) => Remainder { offered, unread: ring.filled(), unsent },
            // The kernel keeps the last block, whose frames cannot be counted.
            Ring::Blocks(_) => Remainder { unsent, ..Remainder::default() },
        }
    }
}

impl Drop for PacketRing {
    fn drop(&mut self) {
        if let Some(HardwareClock { mut before }) = self.hardware.take() {
            // If the interface is gone, there is nothing to restore.
            let _ = self.interface.driver_request(libc::SIOCSHWTSTAMP, &mut before);
        }
    }
}
