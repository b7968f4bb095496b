//! `AF_XDP` sockets: the frames of one queue of an interface, intercepted before the kernel's stack.
//!
//! Frames are stored in chunks of memory shared with the kernel (the UMEM). Half of the chunks are for
//! receiving: each is in the fill ring, in the receive ring or being delivered. The other half is for
//! sending: each is free, in the transmit ring or in the completion ring.

mod program;
mod ring;

use crate::interface::{Interface, ROOT};
use crate::{Counters, Error, Frame, MIN_FRAME, Port, Result, Sent, offload, sys};
use belljar_wire::ethernet::Address;
use program::{Addresses, Place, Program, SocketMap};
use ring::Ring;
use rustix::io::Errno;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING,
    XDP_UMEM_PGOFF_FILL_RING, XdpDesc, XdpDescOptions, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{RecvFlags, SendFlags, sockopt};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Headroom in bytes that the kernel reserves before a received frame (`XDP_PACKET_HEADROOM`).
const HEADROOM: usize = 256;
const VLAN_TAG: usize = 4;
const BPF_REMEDY: &str =
    "run as root: the kernel lets nobody else load XDP programs; a PacketRing needs only CAP_NET_RAW";

/// Attachment mode of the XDP program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpMode {
    /// Native if the driver supports it, otherwise generic.
    #[default]
    Auto,
    /// In the driver. A veth requires an MTU of at most about 3,500 bytes.
    Native,
    /// In the kernel's generic code, which supports every interface and is slower. Large segments sent by the
    /// peer of a veth are dropped: disable its segmentation offload (`ethtool -K PEER tso off gso off`, or
    /// `ip link set dev PEER gso_max_segs 1`).
    Generic,
}

/// Options of an [`Xdp`].
#[derive(Clone, Debug)]
pub struct XdpOptions {
    /// Attachment mode.
    pub mode: XdpMode,
    /// Queue index; `None` requires an interface with a single queue.
    pub queue: Option<u32>,
    /// Number of entries of each ring, a power of two.
    pub ring: u32,
    /// Receive frames addressed to other stations too.
    pub promiscuous: bool,
    /// Complete TCP and UDP checksums that a local sender left open. The kernel does not mark such frames for
    /// XDP; they are recognized by the pseudo-header sum in the checksum field.
    pub fill_checksums: bool,
    /// Divert only packets that a router forwards: unicast IPv4 packets without options, with a TTL above 1,
    /// whose destination is none of these local addresses. The kernel's stack receives all other frames.
    /// [`Xdp::set_own_addresses`] changes the addresses.
    pub only_forwarded: Option<Vec<Ipv4Addr>>,
}

impl Default for XdpOptions {
    fn default() -> XdpOptions {
        XdpOptions {
            mode: XdpMode::Auto,
            queue: None,
            ring: 2048,
            promiscuous: true,
            fill_checksums: true,
            only_forwarded: None,
        }
    }
}

/// `AF_XDP` socket in copy mode on one queue of an existing interface.
///
/// The kernel's stack does not receive the frames of the queue. A VLAN tag that the sending side of a veth,
/// or the hardware, stores outside the frame is lost: disable VLAN offload (`ethtool -K PEER txvlan off`,
/// `ethtool -K DEV rxvlan off`). Dropping the port returns the traffic to the interface's stack.
#[derive(Debug)]
pub struct Xdp {
    interface: Interface,
    // Dropped first, so that no frame is redirected to a socket that is being closed.
    _program: Program,
    /// Local addresses, if only forwarded packets are diverted.
    own: Option<Addresses>,
    /// Socket that keeps the interface in promiscuous mode.
    _promiscuous: Option<OwnedFd>,
    native: bool,
    rings: Rings,
    socket: OwnedFd,
    umem: Umem,
    /// Free chunks for sending.
    free: Vec<u64>,
    fill_checksums: bool,
    counters: Counters,
    gone: bool,
}

#[derive(Debug)]
struct Umem {
    memory: sys::Mapping,
    chunk: usize,
}

#[derive(Debug)]
struct Rings {
    fill: Ring<u64>,
    completion: Ring<u64>,
    receive: Ring<XdpDesc>,
    transmit: Ring<XdpDesc>,
}

impl Xdp {
    /// Opens a port that diverts the frames of the interface `name` in the calling thread's network
    /// namespace.
    pub fn open(name: &str, options: &XdpOptions) -> Result<Xdp> {
        let interface = Interface::open(name)?;
        interface.check_up()?;
        let invalid = |what| Error::Invalid { name: name.to_string(), what };
        if !options.ring.is_power_of_two() || !(64..=1 << 16).contains(&options.ring) {
            return Err(invalid(format!(
                "rings of {} entries: use a power of two, 64 to 65536",
                options.ring
            )));
        }
        let queue = choose_queue(&interface, options.queue)?;
        let socket = sys::socket(libc::AF_XDP, libc::SOCK_RAW, 0).map_err(|e| match e.raw_os_error() {
            Some(libc::EAFNOSUPPORT) => Error::Unsupported {
                name: name.to_string(),
                what: "the kernel has no AF_XDP sockets: use a PacketRing".to_string(),
            },
            _ => Error::privileged(format!("opening an AF_XDP socket on '{name}'"), "CAP_NET_RAW", ROOT, e),
        })?;
        let umem = Umem::register(&interface, &socket, options.ring)?;
        let size = options.ring;
        let mut rings = Rings::map(&socket, size)
            .map_err(|e| Error::system(format!("making the rings of an AF_XDP socket on '{name}'"), e))?;
        for i in 0..size {
            assert!(rings.fill.push(umem.chunk_at(i)), "the fill ring holds all chunks for receiving");
        }
        rings.fill.publish();
        let promiscuous = options.promiscuous.then(|| promiscuous(&interface)).transpose()?;
        let own = options.only_forwarded.as_ref().map(|own| own_addresses(&interface, own)).transpose()?;
        let (program, native) = bind_and_divert(&interface, &socket, queue, options.mode, own.as_ref())?;
        Ok(Xdp {
            _program: program,
            own,
            _promiscuous: promiscuous,
            native,
            rings,
            free: (size..2 * size).rev().map(|i| umem.chunk_at(i)).collect(),
            socket,
            umem,
            fill_checksums: options.fill_checksums,
            counters: Counters::default(),
            gone: false,
            interface,
        })
    }

    /// True in native mode, false in generic mode.
    pub fn is_native(&self) -> bool {
        self.native
    }

    /// Replaces the addresses of [`XdpOptions::only_forwarded`]; without that option it does nothing.
    pub fn set_own_addresses(&self, addresses: &[Ipv4Addr]) -> Result<()> {
        let Some(own) = &self.own else { return Ok(()) };
        own.replace(addresses)
            .map_err(|e| map_failed(self.interface.name(), "entering an address into a BPF map", e))
    }

    fn failed<T>(&mut self, doing: &str, source: std::io::Error) -> Result<T> {
        let error = self.interface.failed(doing, source);
        self.gone |= error.is_fatal();
        Err(error)
    }

    fn check_gone(&self) -> Result<()> {
        if self.gone { Err(Error::Gone { name: self.interface.name().to_string() }) } else { Ok(()) }
    }

    /// Reclaims the chunks of transmitted frames.
    fn reap(&mut self) {
        while let Some(chunk) = self.rings.completion.pop() {
            self.free.push(chunk);
        }
        self.rings.completion.release();
    }
}

impl Umem {
    /// Allocates `ring` chunks for each direction and registers them with the socket.
    fn register(interface: &Interface, socket: &OwnedFd, ring: u32) -> Result<Umem> {
        let name = interface.name();
        let needed = interface.max_frame() + VLAN_TAG + HEADROOM;
        let chunk = needed.next_power_of_two().max(2048);
        if chunk > 4096 {
            let mtu = 4096 - HEADROOM - VLAN_TAG - MIN_FRAME;
            return Err(Error::Unsupported {
                name: name.to_string(),
                what: format!(
                    "its MTU of {} bytes is too large for AF_XDP: set it to at most {mtu}, or use a PacketRing",
                    interface.mtu()
                ),
            });
        }
        let failed = |e| Error::system(format!("making the frame memory of an AF_XDP socket on '{name}'"), e);
        let len = 2 * ring as usize * chunk;
        let memory = sys::Mapping::anonymous(len).map_err(failed)?;
        let request = XdpUmemReg {
            addr: memory.at(0, len) as u64,
            len: len as u64,
            chunk_size: chunk as u32,
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        sockopt::set_xdp_umem_reg(socket, request).map_err(|e| match e {
            Errno::NOBUFS => Error::Invalid {
                name: name.to_string(),
                what: format!("{len} bytes of frame memory exceed the limit of locked memory: raise it (`ulimit -l`), or use smaller rings"),
            },
            _ => failed(e.into()),
        })?;
        Ok(Umem { memory, chunk })
    }

    /// The offset of chunk `i`.
    fn chunk_at(&self, i: u32) -> u64 {
        u64::from(i) * self.chunk as u64
    }

    /// Bytes of a frame.
    ///
    /// # Safety
    /// The caller must own the chunk: taken from a ring, or free.
    unsafe fn frame(&mut self, at: u64, len: usize) -> &mut [u8] {
        let start = self.memory.at(at as usize, len);
        // SAFETY: the bytes are mapped, and the caller owns the chunk, so that the kernel does not access
        // them.
        unsafe { std::slice::from_raw_parts_mut(start, len) }
    }
}

impl Rings {
    fn map(socket: &OwnedFd, size: u32) -> std::io::Result<Rings> {
        sockopt::set_xdp_umem_fill_ring_size(socket, size)?;
        sockopt::set_xdp_umem_completion_ring_size(socket, size)?;
        sockopt::set_xdp_rx_ring_size(socket, size)?;
        sockopt::set_xdp_tx_ring_size(socket, size)?;
        let at = sockopt::xdp_mmap_offsets(socket)?;
        let fd = socket.as_fd();
        Ok(Rings {
            fill: Ring::map(fd, &at.fr, size, XDP_UMEM_PGOFF_FILL_RING)?,
            completion: Ring::map(fd, &at.cr, size, XDP_UMEM_PGOFF_COMPLETION_RING)?,
            receive: Ring::map(fd, &at.rx, size, XDP_PGOFF_RX_RING)?,
            transmit: Ring::map(fd, &at.tx, size, XDP_PGOFF_TX_RING)?,
        })
    }
}

/// Opens a socket that only keeps the interface in promiscuous mode.
fn promiscuous(interface: &Interface) -> Result<OwnedFd> {
    let socket = crate::packet::open_socket(interface.name())?;
    interface.enter_promiscuous_mode(socket.as_fd())?;
    Ok(socket)
}

/// Queue to use: the requested one, or the only one.
fn choose_queue(interface: &Interface, asked: Option<u32>) -> Result<u32> {
    /// The kernel's `struct ethtool_channels`.
    #[repr(C)]
    #[derive(Clone, Copy, Default)]
    struct Channels {
        command: u32,
        max_rx: u32,
        max_tx: u32,
        max_other: u32,
        max_combined: u32,
        rx: u32,
        tx: u32,
        other: u32,
        combined: u32,
    }
    // SAFETY: integers alone.
    unsafe impl sys::Plain for Channels {}
    const ETHTOOL_GCHANNELS: u32 = 0x3c;

    let mut channels = Channels { command: ETHTOOL_GCHANNELS, ..Channels::default() };
    let queues = match interface.driver_request(libc::SIOCETHTOOL, &mut channels) {
        Ok(()) => (channels.rx + channels.combined).max(1),
        // A driver without this request has one queue, or the kernel rejects others later.
        Err(_) => asked.unwrap_or(0) + 1,
    };
    let invalid = |what| Err(Error::Invalid { name: interface.name().to_string(), what });
    match asked {
        Some(queue) if queue >= queues => {
            invalid(format!("has no queue {queue}: its last is {}", queues - 1))
        }
        Some(queue) => Ok(queue),
        None if queues > 1 => invalid(format!(
            "has {queues} receive queues, and a port takes the frames of one: leave it one (`ethtool -L {} combined 1`), or choose a queue",
            interface.name()
        )),
        None => Ok(0),
    }
}

fn own_addresses(interface: &Interface, own: &[Ipv4Addr]) -> Result<Addresses> {
    let addresses = Addresses::create().and_then(|addresses| addresses.replace(own).map(|()| addresses));
    addresses.map_err(|e| map_failed(interface.name(), "making a BPF map of addresses", e))
}

fn map_failed(name: &str, doing: &str, e: std::io::Error) -> Error {
    Error::privileged(format!("{doing} for '{name}'"), "CAP_BPF", BPF_REMEDY, e)
}

/// Binds the socket to the queue and attaches the program. Returns true if it runs in native mode.
fn bind_and_divert(
    interface: &Interface,
    socket: &OwnedFd,
    queue: u32,
    mode: XdpMode,
    own: Option<&Addresses>,
) -> Result<(Program, bool)> {
    let name = interface.name();
    let busy = |why: String| Error::Busy { name: name.to_string(), why };
    let bpf_failed = |doing: &str, e| map_failed(name, doing, e);
    // The operation that needs the rarer privilege comes first.
    let create = || SocketMap::create(queue).map_err(|e| bpf_failed("making a BPF map of sockets", e));
    let mut map = create()?;
    bind(interface, socket, queue)?;
    let places: &[Place] = match mode {
        XdpMode::Auto => &[Place::Native, Place::Generic],
        XdpMode::Native => &[Place::Native],
        XdpMode::Generic => &[Place::Generic],
    };
    for (i, place) in places.iter().enumerate() {
        map.insert(queue, socket.as_fd()).map_err(|e| bpf_failed("entering a socket into a BPF map", e))?;
        match Program::attach(map, own, interface.index(), *place) {
            Ok(program) => return Ok((program, *place == Place::Native)),
            Err(e) if matches!(e.raw_os_error(), Some(libc::EBUSY | libc::EEXIST)) => {
                let why = format!(
                    "it has an XDP program already: end its owner, or remove it (`ip link set dev {name} xdp off`)"
                );
                return Err(busy(why));
            }
            Err(e) if i + 1 == places.len() => {
                return Err(match e.raw_os_error() {
                    Some(libc::EOPNOTSUPP | libc::ERANGE | libc::EINVAL) => Error::Unsupported {
                        name: name.to_string(),
                        what: format!(
                            "its driver takes no XDP program with its present MTU, queues and offloads ({e}): use XdpMode::Generic, or a PacketRing"
                        ),
                    },
                    _ => bpf_failed("attaching an XDP program", e),
                });
            }
            Err(_) => map = create()?,
        }
    }
    unreachable!("the last place returns")
}

/// Binds the socket to the queue. The kernel releases the queue of a closed socket with a delay, so a busy
/// queue is retried for half a second.
fn bind(interface: &Interface, socket: &OwnedFd, queue: u32) -> Result<()> {
    const TRIES: u32 = 100;
    const PAUSE: Duration = Duration::from_millis(5);
    let flags = SocketAddrXdpFlags::XDP_COPY | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
    let address = SocketAddrXdp::new(flags, interface.index(), queue);
    for _ in 0..TRIES {
        match rustix::net::bind(socket, &address) {
            Ok(()) => return Ok(()),
            Err(Errno::BUSY) => std::thread::sleep(PAUSE),
            Err(e) => return Err(interface.failed("binding an AF_XDP socket", e.into())),
        }
    }
    let why = format!("another AF_XDP socket has queue {queue}: end its process");
    Err(Error::Busy { name: interface.name().to_string(), why })
}

impl Port for Xdp {
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
        let mut received = 0;
        while received < limit {
            let Some(descriptor) = self.rings.receive.pop() else { break };
            // SAFETY: the kernel gave us this chunk.
            let bytes = unsafe { self.umem.frame(descriptor.addr, descriptor.len as usize) };
            if self.fill_checksums {
                offload::fill_bare_checksum(bytes);
            }
            self.counters.received.add(bytes.len());
            self.counters.packets += 1;
            each(Frame { bytes, time: None });
            // The fill ring has room for every receive chunk; the kernel rounds the address down.
            let returned = self.rings.fill.push(descriptor.addr);
            debug_assert!(returned);
            received += 1;
        }
        if received == 0 {
            self.check_gone()?;
            if let Some(e) = sys::take_error(self.socket.as_fd()) {
                return self.failed("receiving", e);
            }
            return Ok(0);
        }
        self.rings.receive.release();
        self.rings.fill.publish();
        if self.rings.fill.needs_wakeup() {
            // Device errors recur when there is nothing to receive.
            let _ = rustix::net::recv(&self.socket, &mut [0u8; 0][..], RecvFlags::DONTWAIT);
        }
        Ok(received)
    }

    fn send(&mut self, frame: &[u8]) -> Result<Sent> {
        self.check_gone()?;
        self.interface.check_frame(frame)?;
        if frame.len() > self.umem.chunk {
            let what =
                format!("its MTU grew beyond the {} bytes of a chunk: open the port anew", self.umem.chunk);
            return Err(Error::Unsupported { name: self.interface.name().to_string(), what });
        }
        if self.free.is_empty() {
            self.reap();
        }
        if self.free.is_empty() {
            self.flush()?;
        }
        let Some(chunk) = self.free.pop() else {
            self.counters.refused += 1;
            return Ok(Sent::Full);
        };
        // SAFETY: the chunk was free.
        unsafe { self.umem.frame(chunk, frame.len()) }.copy_from_slice(frame);
        let descriptor = XdpDesc { addr: chunk, len: frame.len() as u32, options: XdpDescOptions::empty() };
        let queued = self.rings.transmit.push(descriptor);
        debug_assert!(queued, "there is room for every chunk for sending");
        self.counters.sent.add(frame.len());
        Ok(Sent::Queued)
    }

    fn flush(&mut self) -> Result<bool> {
        self.rings.transmit.publish();
        let mut left = self.rings.transmit.unconsumed();
        while left > 0 {
            let kick = rustix::net::send(&self.socket, &[], SendFlags::DONTWAIT);
            let before = std::mem::replace(&mut left, self.rings.transmit.unconsumed());
            match kick {
                Ok(_) | Err(Errno::INTR) => {}
                // The driver's queue was full, and a frame was dropped.
                Err(Errno::BUSY) => self.counters.failed += 1,
                Err(Errno::AGAIN | Errno::NOBUFS) => {
                    // The kernel sends a few dozen frames per call.
                    self.reap();
                    if left == before {
                        return Ok(false);
                    }
                }
                Err(e) => return self.failed("sending", e.into()),
            }
        }
        self.reap();
        Ok(true)
    }

    fn counters(&mut self) -> Counters {
        let mut counters = self.counters;
        if let Ok(statistics) = sockopt::xdp_statistics(&self.socket) {
            counters.dropped_kernel = statistics.rx_dropped + statistics.rx_ring_full.unwrap_or(0);
            counters.failed += statistics.tx_invalid_descs;
        }
        for descriptor in self.rings.transmit.pending() {
            counters.sent.frames -= 1;
            counters.sent.bytes -= u64::from(descriptor.len);
        }
        counters
    }
}
