//! State of ipvlans: see [`ipvlan`](super::ipvlan).

/// Mode of the ipvlans on an interface, `IPVLAN_MODE_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum IpvlanMode {
    /// Frames leave by the lower interface, and those to groups are copied to the other ipvlans.
    L2 = 0,
    /// Packets are routed by the lower interface's routes. There are no groups and no neighbours.
    L3 = 1,
    /// As `L3`, and packet hooks see received packets on the lower interface.
    L3s = 2,
}

impl IpvlanMode {
    /// The mode of a number.
    pub fn of(number: u16) -> Option<IpvlanMode> {
        use IpvlanMode::*;
        [L2, L3, L3s].into_iter().find(|mode| *mode as u16 == number)
    }
    /// True if the ipvlans have no neighbours (`IFF_NOARP`).
    pub fn is_routed(self) -> bool {
        self != IpvlanMode::L2
    }
}

/// `IPVLAN_F_PRIVATE`: packets to other ipvlans on the same interface are dropped.
pub const PRIVATE: u16 = 1;
/// `IPVLAN_F_VEPA`: packets to other ipvlans on the same interface leave by it.
pub const VEPA: u16 = 2;

/// An ipvlan.
#[derive(Clone, Copy, Debug)]
pub struct Ipvlan {
    /// Number of the lower interface.
    pub below: usize,
    /// Number among the ipvlans of the lower interface, which all have its hardware address (`dev_id`).
    pub id: u16,
}

/// Settings that the ipvlans on an interface have in common.
#[derive(Clone, Copy, Debug)]
pub struct IpvlanPort {
    /// Mode.
    pub mode: IpvlanMode,
    /// Flags, [`PRIVATE`] or [`VEPA`].
    pub flags: u16,
    /// `id` of the next ipvlan.
    pub next_id: u16,
}

impl Default for IpvlanPort {
    fn default() -> IpvlanPort {
        IpvlanPort { mode: IpvlanMode::L3, flags: 0, next_id: 1 }
    }
}
