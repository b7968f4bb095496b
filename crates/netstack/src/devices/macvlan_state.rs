//! State of macvlans: see [`macvlan`](super::macvlan).

/// Mode of a macvlan, `MACVLAN_MODE_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MacvlanMode {
    /// Frames of others on the same interface are not received.
    Private = 1,
    /// Frames to others on the same interface leave, and return by a switch.
    Vepa = 2,
    /// Frames to others on the same interface are passed on here.
    Bridge = 4,
    /// The interface has this macvlan alone, which receives all its frames.
    Passthru = 8,
}

impl MacvlanMode {
    /// The mode of a number.
    pub fn of(number: u32) -> Option<MacvlanMode> {
        use MacvlanMode::*;
        [Private, Vepa, Bridge, Passthru].into_iter().find(|mode| *mode as u32 == number)
    }
}

/// A macvlan.
#[derive(Clone, Copy, Debug)]
pub struct Macvlan {
    /// Number of the lower interface.
    pub below: usize,
    /// Mode.
    pub mode: MacvlanMode,
    /// Flags, `MACVLAN_FLAG_*`.
    pub flags: u16,
}
