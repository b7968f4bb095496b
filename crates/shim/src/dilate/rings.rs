//! Rings of packets in memory (`PACKET_RX_RING`), from which programs like tcpdump read the times of packets: the kernel writes the
//! machine's.
//!
//! A process that asks for a ring gets a filter more ([`RINGS`]), by which its `mmap` and its waits come here. It is given memory of
//! its own in the place of the ring; the ring itself lies behind it. Whenever the process waits, packets that the kernel has
//! put into the ring are copied, with the host's times, as far as the process has given places back.

use super::calls::{When, nr};
use super::clock::Now;
use super::filter::{FEW, Filter};
use super::memory::{native, read, result, write};
use super::{error, layout, waits};

/// Level and names of the socket options.
pub const SOL_PACKET: u64 = 263;
/// The option that makes a ring.
pub const RX_RING: u32 = 5;
const VERSION: u64 = 10;

/// The calls that come here once a process has a ring.
pub const RINGS: &[(u64, When)] =
    &[(nr::MMAP, When::OneOf(3, &[1])), (nr::POLL, When::Always), (nr::PPOLL, When::Always)];

/// Rings of a process.
const MOST: u64 = 16;
/// Status of a place: the kernel's, and the bit that makes it the process's.
const OF_KERNEL: u32 = 0;
const OF_USER: u32 = 1;
const POLLIN: u16 = 1;

/// A ring as the page at [`layout::RINGS`] has it.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Ring {
    /// The socket, plus 1.
    socket: u64,
    version: u64,
    /// The size of a place: of a frame, or of a block.
    size: u64,
    count: u64,
    /// The memory that the process has; 0 before it maps it.
    at: u64,
    /// The next place that the kernel fills.
    next: u64,
}

// SAFETY: whole numbers without gaps.
unsafe impl super::memory::Plain for Ring {}

/// The rings of the process and their places, one after another: the first that is free is the last.
fn all() -> impl Iterator<Item = (u64, Ring)> {
    let places = (0..MOST).map(|n| layout::RINGS + n * size_of::<Ring>() as u64);
    let mut is_free = false;
    let known = places.map_while(|at| Some((at, read::<Ring>(at).ok()?)));
    known.take_while(move |(_, ring)| !core::mem::replace(&mut is_free, ring.socket == 0))
}

/// The ring of a socket.
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
        // Blocks of version 3 are given over after some milliseconds.
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

/// `mmap` of what may be a ring. One that is mapped together with a ring for sending is left as it is.
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

/// Copies what the kernel has put into a ring. Returns true if there was something.
fn copy(at: u64, mut ring: Ring) -> Result<bool, i64> {
    let behind = (ring.size * ring.count).next_multiple_of(layout::PAGE);
    let third = ring.version == 2;
    // Place of the status: of a frame it is the first word, of a block the first behind version and offset.
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
        // All of the block, or the header of the frame and what of the packet was kept.
        let len = match third {
            true => u64::from(read::<u32>(from + 20)?),
            false => u64::from(read::<u16>(from + 12)?) + u64::from(read::<u32>(from + 8)?),
        };
        let len = len.min(ring.size);
        // All but the status, which comes last.
        let after = status + 4;
        // SAFETY: both places are mapped for that long, or it is found out.
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

/// `poll` and `ppoll` of a process that has rings: those that have packets are ready.
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
    // The others are asked without waiting.
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
