//! Forwarding entries in rtnetlink: what those of bridges and VXLAN interfaces share.

use belljar_base::SimTime;

/// `AF_BRIDGE`.
pub(super) const AF_BRIDGE: i32 = 7;

/// A request about a forwarding entry.
pub(super) struct FdbWanted {
    pub(super) number: usize,
    pub(super) mac: [u8; 6],
    pub(super) vid: u16,
    pub(super) state: u16,
    pub(super) flags: u8,
}

/// Age in hundredths of a second.
pub(super) fn age(at: SimTime, now: SimTime) -> u32 {
    (now.since(at).as_millis() / 10) as u32
}
