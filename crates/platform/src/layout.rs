//! Where things lie in the simulator's address space.
//!
//! ```text
//! 0x1_0000 ..               fixed addresses of ET_EXEC images, claimed one by one
//! 0x1010_0000_0000 ..       the guest area: slots of equal size
//! 0x5000_0000_0000 ..       the simulator: system calls from here are native
//! ```
//! A slot, from its lower end: an unmapped guard, room for stubs, what the kernel may hand out,
//! room for stubs, an unmapped guard. Rewritten call sites reach their stubs by a 32-bit jump, so
//! sites within 2 GiB of either end of a slot can be rewritten; others keep trapping.

use crate::InitError;
use std::ops::Range;

pub use belljar_shim::layout::{FAR_FIXED_AREA, FIXED_AREA, GUEST_AREA, HOST_AREA, PAGE};

const LARGEST_SLOT: u64 = 64 << 30;
const SMALLEST_SLOT: u64 = 256 << 20;
const GUARD: u64 = 1 << 20;
/// Room for stubs at either end of a slot.
pub const STUB_ROOM: u64 = 1 << 20;

/// How the guest area is cut into slots: by the number of hosts alone, so that a guest's pointers
/// depend on nothing else.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    size: u64,
    host_index: u64,
    host_count: u64,
}

/// One slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// All of it.
    pub whole: Range<u64>,
    /// What the kernel may hand out.
    pub usable: Range<u64>,
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
        Some(Slot { whole: start..end, usable: start + margin..end - margin })
    }
}

impl Slot {
    /// Room for stubs below what is usable.
    pub fn low_stubs(&self) -> u64 {
        self.usable.start - STUB_ROOM
    }
    /// Room for stubs above what is usable.
    pub fn high_stubs(&self) -> u64 {
        self.usable.end
    }
}

fn area() -> u64 {
    GUEST_AREA.end - GUEST_AREA.start
}

/// Whether `inner` lies in `outer`.
pub fn contains(outer: &Range<u64>, inner: &Range<u64>) -> bool {
    outer.start <= inner.start && inner.start <= inner.end && inner.end <= outer.end
}

/// Whether two ranges have an address in common.
pub fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

/// Checks that nothing of the simulator lies outside [`HOST_AREA`].
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
