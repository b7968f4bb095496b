//! Layout of the simulator's address space.
//!
//! ```text
//! 0x1_0000 ..               fixed addresses of ET_EXEC images, claimed one by one
//! 0x1010_0000_0000 ..       the guest area: slots of equal size
//! 0x5000_0000_0000 ..       the simulator: system calls from here are native
//! ```
//! A slot consists, from its lower end, of an unmapped guard, room for stubs, the usable range from which the
//! kernel allocates, room for stubs, and an unmapped guard. Rewritten call sites reach their stubs by a
//! 32-bit jump, so sites within 2 GiB of either end of a slot can be rewritten; others keep trapping.
//!
//! A program that assumes Linux's own layout gets it in a far process: images at 0x5555_5555_4000, where
//! Linux loads them without randomisation, dynamic mappings below the stack, and all other addresses
//! available for fixed mappings. The rooms for stubs lie below the images and above the stack.

use crate::InitError;
use std::ops::Range;

pub use belljar_shim::layout::{FIXED_AREA, GUEST_AREA, HOST_AREA, PAGE, SHIM_AREA, USER_END};

/// Size of a huge page.
pub const HUGE_PAGE: u64 = 2 << 20;

const LARGEST_SLOT: u64 = 64 << 30;
const SMALLEST_SLOT: u64 = 256 << 20;
const GUARD: u64 = 1 << 20;
/// Upper bound on the stagger of a slot.
const LARGEST_STAGGER: u64 = 2 << 20;
/// Size of the room for stubs at either end of a slot.
pub const STUB_ROOM: u64 = 1 << 20;
/// `ELF_ET_DYN_BASE`: the address at which Linux loads position-independent programs without randomisation.
const LINUX_IMAGES: u64 = 0x5555_5555_4000;
/// Address of the room for stubs below `LINUX_IMAGES`.
const LINUX_LOW_STUBS: u64 = 0x5555_5500_0000;
/// Addresses for mappings that do not fit into a slot; only in far processes.
pub const BEYOND_SLOTS: Range<u64> = SHIM_AREA.end..USER_END;

/// Offset of a position-independent image in the usable range of a slot.
const IMAGE_OFFSET: u64 = 4 << 20;

/// A host's slots of the guest area. They follow from the host's index and the number of hosts alone, so that
/// a guest's pointers depend on nothing else.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    size: u64,
    host_index: u64,
    host_count: u64,
}

/// One slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The slot with its guards and rooms for stubs.
    pub whole: Range<u64>,
    /// Addresses from which the kernel allocates.
    pub usable: Range<u64>,
    /// Load address of position-independent programs.
    pub images: u64,
    /// Index among all slots; `None` for Linux's own layout.
    pub index: Option<u64>,
    low_stubs: u64,
}

impl Slots {
    /// The slots of host `host_index` among `host_count`.
    pub fn new(host_index: u32, host_count: u32) -> Slots {
        let host_count = u64::from(host_count.max(host_index.saturating_add(1)));
        let mut size = LARGEST_SLOT;
        while size > SMALLEST_SLOT && area() / size < 4 * host_count {
            size /= 2;
        }
        Slots { size, host_index: u64::from(host_index), host_count }
    }

    /// Slot `n` of the host, `None` beyond the last one.
    pub fn get(&self, n: u32) -> Option<Slot> {
        let index = u64::from(n).checked_mul(self.host_count)?.checked_add(self.host_index)?;
        if index >= area() / self.size {
            return None;
        }
        let start = GUEST_AREA.start + index * self.size;
        let end = start + self.size;
        let margin = GUARD + STUB_ROOM;
        let (low, high) = self.stagger(index);
        let usable = start + margin + low..end - margin - high;
        Some(Slot {
            images: usable.start + IMAGE_OFFSET,
            index: Some(index),
            low_stubs: usable.start - STUB_ROOM,
            whole: start..end,
            usable,
        })
    }

    /// Offsets of slot `index`'s usable range from the slot's two ends, different in each slot.
    ///
    /// Slots are powers of two apart, and guests that run the same program have their pages at the same
    /// offsets. Without the stagger, all their stacks, for instance, would compete for the few entries of one
    /// TLB set, and their page tables for one cache set: with a hundred hosts, the first access to each page
    /// cost six times as much.
    fn stagger(&self, index: u64) -> (u64, u64) {
        let most = (self.size / 16).min(LARGEST_STAGGER);
        // Multiplicative hashing by the golden ratio's fraction spreads consecutive indices evenly.
        let spread = index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let pages = |bits: u64| (bits % (most / PAGE)) * PAGE;
        (pages(spread >> 40), pages(spread >> 8 & 0xff_ffff))
    }
}

impl Slot {
    /// Linux's own layout, for a far process: allocations lie above the shim, up to the stack.
    pub fn linux() -> Slot {
        Slot {
            whole: BEYOND_SLOTS,
            usable: BEYOND_SLOTS.start..BEYOND_SLOTS.end - STUB_ROOM,
            images: LINUX_IMAGES,
            index: None,
            low_stubs: LINUX_LOW_STUBS,
        }
    }
    /// Additional ranges available to a process with Linux's own layout.
    pub fn linux_claims() -> Vec<Range<u64>> {
        vec![FIXED_AREA.start..LINUX_LOW_STUBS, LINUX_LOW_STUBS + STUB_ROOM..SHIM_AREA.start]
    }

    /// The rooms for stubs below and above the usable range.
    pub fn stub_rooms(&self) -> [Range<u64>; 2] {
        [self.low_stubs, self.usable.end].map(|room| room..room + STUB_ROOM)
    }
}

fn area() -> u64 {
    GUEST_AREA.end - GUEST_AREA.start
}

/// True if `inner` lies in `outer`.
pub fn contains(outer: &Range<u64>, inner: &Range<u64>) -> bool {
    outer.start <= inner.start && inner.start <= inner.end && inner.end <= outer.end
}

/// True if two ranges have an address in common.
pub fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

/// Checks that all of the simulator's mappings lie inside [`HOST_AREA`].
pub fn check() -> Result<(), InitError> {
    let maps = std::fs::read_to_string("/proc/self/maps")
        .map_err(|error| InitError::Native { what: "reading /proc/self/maps", error })?;
    for line in maps.lines() {
        let mut fields = line.split_whitespace();
        let Some((start, end)) = fields.next().and_then(|f| f.split_once('-')) else { continue };
        let parse = |hex| u64::from_str_radix(hex, 16).unwrap_or(0);
        let mapped = parse(start)..parse(end);
        let name = fields.nth(4).unwrap_or("unnamed memory");
        if name != "[vsyscall]" && !contains(&HOST_AREA, &mapped) {
            return Err(InitError::Layout { what: name.to_owned(), address: mapped.start });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_staggered_by_pages_over_the_whole_range() {
        for hosts in [100, 30_000] {
            let slots = (0..100).map(|host| Slots::new(host, hosts).get(0).unwrap());
            let places = slots.map(|s| (s.usable.start - s.whole.start, s.whole.end - s.usable.end));
            let (mut low, mut high): (Vec<u64>, Vec<u64>) = places.unzip();
            for ends in [&mut low, &mut high] {
                assert!(ends.iter().all(|at| at.is_multiple_of(PAGE) && *at >= GUARD + STUB_ROOM));
                ends.sort();
                assert!(ends.windows(2).all(|w| w[1] - w[0] < LARGEST_STAGGER / 8), "{ends:?}");
                assert!(ends[99] - ends[0] > LARGEST_STAGGER / 2, "{ends:?}");
                ends.dedup();
                assert!(ends.len() > 80);
            }
        }
    }

    #[test]
    fn slots_of_all_hosts_are_disjoint_and_inside_the_area() {
        for hosts in [1, 2, 3, 200, 1_000, 30_000] {
            let mut seen = Vec::new();
            for host in [0, 1, hosts / 2, hosts - 1] {
                for n in 0..4 {
                    let slot = Slots::new(host.min(hosts - 1), hosts).get(n).expect("four slots each");
                    assert!(contains(&GUEST_AREA, &slot.whole));
                    assert!(contains(&slot.whole, &slot.usable));
                    seen.push(slot.whole);
                }
            }
            seen.sort_by_key(|r| r.start);
            seen.dedup();
            assert!(seen.windows(2).all(|w| w[0].end <= w[1].start), "{hosts} hosts");
        }
        assert_eq!(Slots::new(0, 1).get(1023), None);
        assert_eq!(Slots::new(0, 1).get(0).unwrap().whole, 0x1010_0000_0000..0x1020_0000_0000);
    }
}
