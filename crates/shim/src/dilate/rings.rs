//! Packet rings in memory (`PACKET_RX_RING`), from which programs like tcpdump read packet timestamps: the
//! kernel writes the machine's.
//!
//! A process that requests a ring gets an additional filter ([`RINGS`]), which intercepts its `mmap` and its
//! waits. The process receives memory of its own instead of the ring; the ring itself is mapped behind it.
//! Whenever the process waits, packets that the kernel has put into the ring are copied, with the host's
//! times, as far as the process has released slots.

use super::calls::{When, nr};
use super::clock::Now;
use super::filter::{FEW, Filter};
use super::memory::{native, read, result, write};
use super::{error, layout, waits};

/// Level of the packet-socket options.
pub const SOL_PACKET: u64 = 263;
/// The option that creates a ring.
pub const RX_RING: u32 = 5;
const VERSION: u64 = 10;

/// Calls intercepted once a process has a ring.
pub const RINGS: &[(u64, When)] =
    &[(nr::MMAP, When::OneOf(3, &[1])), (nr::POLL, When::Always), (nr::PPOLL, When::Always)];

/// Upper bound on the rings of a process.
const MOST: u64 = 16;
/// Status of a slot: owned by the kernel, and the bit that gives it to the process.
const OF_KERNEL: u32 = 0;
const OF_USER: u32 = 1;
const POLLIN: u16 = 1;

/// A ring, as stored in the page at [`layout::RINGS`].
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Ring {
    /// The socket's descriptor, plus 1.
    socket: u64,
    version: u64,
    /// Size of a slot: of a frame, or of a block.
    size: u64,
    count: u64,
    /// Address of the process's copy; 0 before it is mapped.
    at: u64,
    /// Index of the slot that the kernel fills next.
    next: u64,
}

// SAFETY: integers without padding.
unsafe impl super::memory::Plain for Ring {}

/// The rings of the process with their addresses in the list; the last entry is the first free one.
fn all() -> impl Iterator<Item = (u64, Ring)> {
    let places = (0..MOST).map(|n| layout::RINGS + n * size_of::<Ring>() as u64);
    let mut is_free = false;
    let known = places.map_while(|at| Some((at, read::<Ring>(at).ok()?)));
    known.take_while(move |(_, ring)| !core::mem::replace(&mut is_free, ring.socket == 0))
}

/// The ring of a socket, with its address in the list.
fn of(socket: u64) -> Option<(u64, Ring)> {
    let socket = (socket & 0xffff_ffff) + 1;
    all().find(|(_, ring)| ring.socket == socket)
}

/// `setsockopt(PACKET_RX_RING)`.
pub fn set(args: [u64; 6]) -> i64 {
    let [socket, _, _, value, len, _] = args;
    result((|| {
        let request: [u32; 4] = read(value)?;
        let mut version = 0u32;
        let mut size = 4u32;
        let asked = [socket, SOL_PACKET, VERSION, &raw mut version as u64, &raw mut size as u64, 0];
        native(nr::GETSOCKOPT, asked);
        // The retirement timeout of version-3 blocks is in milliseconds.
        let mut longer: [u32; 7] = [request[0], request[1], request[2], request[3], 0, 0, 0];
        let is_third = version == 2 && len >= 28;
        if is_third {
            longer = read(value)?;
            longer[4] = Now::read().page.kernel().real_span(u64::from(longer[4])).min(60_000) as u32;
        }
        let value = if is_third { longer.as_ptr() as u64 } else { value };
        let done = native(nr::SETSOCKOPT, [socket, SOL_PACKET, u64::from(RX_RING), value, len, 0]);
        if done != 0 || request[1] == 0 || version == 0 {
            return Ok(done);
        }
        let is_first = all().all(|(_, ring)| ring.socket == 0);
        let (size, count) = if is_third { (request[0], request[1]) } else { (request[2], request[3]) };
        let socket = (socket & 0xffff_ffff) + 1;
        let Some((at, _)) = all().find(|(_, ring)| ring.socket == 0 || ring.socket == socket) else {
            return Ok(done);
        };
        let (version, size, count) = (u64::from(version), u64::from(size), u64::from(count));
        write(at, Ring { socket, version, size, count, at: 0, next: 0 })?;
        if is_first {
            Filter::<FEW>::new(RINGS).install(true);
        }
        Ok(done)
    })())
}

/// `mmap` of a potential ring. A mapping that also covers a transmit ring is passed on unchanged.
pub fn map(args: [u64; 6]) -> i64 {
    let [_, len, prot, flags, socket, offset] = args;
    let Some((at, ring)) = of(socket).filter(|(_, ring)| len == ring.size * ring.count) else {
        return native(nr::MMAP, args);
    };
    let len = len.next_multiple_of(layout::PAGE);
    let own = native(nr::MMAP, [args[0], 2 * len, 3, 0x22, u64::MAX, 0]);
    if own < 0 {
        return own;
    }
    match native(nr::MMAP, [own as u64 + len, len, prot, flags | 0x10, socket, offset]) {
        failed @ ..0 => {
            native(nr::MUNMAP, [own as u64, 2 * len, 0, 0, 0, 0]);
            failed
        }
        _ => write(at, Ring { at: own as u64, next: 0, ..ring }).err().unwrap_or(own),
    }
}

/// Copies the packets that the kernel has put into a ring. Returns true if there were any.
fn copy(at: u64, mut ring: Ring) -> Result<bool, i64> {
    let behind = (ring.size * ring.count).next_multiple_of(layout::PAGE);
    let third = ring.version == 2;
    // Offset of the status: the first word of a frame, in a block after version and offset.
    let status = if third { 8 } else { 0 };
    let page = Now::read().page;
    let stamp = |at: u64| -> Result<(), i64> {
        let [seconds, ns] = read::<[u32; 2]>(at)?.map(u64::from);
        let time = page.wall_of_real(seconds * 1_000_000_000 + ns);
        write(at, [(time / 1_000_000_000) as u32, (time % 1_000_000_000) as u32])
    };
    let mut moved = false;
    loop {
        let to = ring.at + ring.next * ring.size;
        let from = to + behind;
        let [given, free] = [read::<u32>(from + status)?, read::<u32>(to + status)?];
        if given & OF_USER == 0 || free != OF_KERNEL {
            break;
        }
        // The whole block, or a frame's header and the captured bytes of its packet.
        let len = match third {
            true => u64::from(read::<u32>(from + 20)?),
            false => u64::from(read::<u16>(from + 12)?) + u64::from(read::<u32>(from + 8)?),
        };
        let len = len.min(ring.size);
        // Everything but the status, which is written last.
        let after = status + 4;
        // SAFETY: both ranges are mapped, or the failure is detected.
        let all = unsafe {
            crate::copy::copy(to as *mut u8, from as *const u8, status as usize)
                && crate::copy::copy(
                    (to + after) as *mut u8,
                    (from + after) as *const u8,
                    (len - after) as usize,
                )
        };
        if !all {
            return Err(error::FAULT);
        }
        if third {
            stamp(to + 32)?;
            stamp(to + 40)?;
            let mut packet = to + u64::from(read::<u32>(to + 16)?);
            for _ in 0..read::<u32>(to + 12)? {
                stamp(packet + 4)?;
                packet += u64::from(read::<u32>(packet)?);
            }
        } else {
            stamp(to + 16)?;
        }
        write(to + status, given)?;
        write(from + status, OF_KERNEL)?;
        ring.next = (ring.next + 1) % ring.count;
        moved = true;
    }
    write(at, ring)?;
    Ok(moved)
}

/// `poll` and `ppoll` of a process with rings: rings that contain packets are ready.
pub fn poll(number: u64, args: [u64; 6]) -> i64 {
    let plain = |args| waits::poll_any(number, args);
    if all().all(|(_, ring)| ring.socket == 0) {
        return plain(args);
    }
    let is_ready = |n: u64| -> bool {
        let entry = args[0] + 8 * n;
        let Ok(socket) = read::<u32>(entry) else { return false };
        match of(u64::from(socket)) {
            Some((at, ring)) if ring.at != 0 => copy(at, ring).unwrap_or(false),
            _ => false,
        }
    };
    let count = args[1].min(1_024);
    let some = (0..count).filter(|n| is_ready(*n)).count();
    if some == 0 {
        let done = plain(args);
        (0..count).for_each(|n| {
            is_ready(n);
        });
        return done;
    }
    // Other descriptors are polled without waiting.
    let no_time = [0u64; 2];
    let mut done = native(nr::PPOLL, [args[0], args[1], no_time.as_ptr() as u64, 0, 0, 0]);
    for n in 0..count {
        let entry = args[0] + 8 * n;
        let (Ok(socket), Ok([events, found])) = (read::<u32>(entry), read::<[u16; 2]>(entry + 4)) else {
            continue;
        };
        let has_frames = of(u64::from(socket)).is_some_and(|(_, ring)| ring.at != 0) && events & POLLIN != 0;
        if has_frames && found & POLLIN == 0 && done >= 0 {
            done += i64::from(found == 0);
            let _ = write(entry + 6, found | POLLIN);
        }
    }
    done
}
