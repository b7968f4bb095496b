//! Account of the frames of the controller.
//!
//! The boundary to the wire is [`Device::receive`] and [`Device::poll_wire`]. The boundary to the host is
//! where a frame begins and ceases to exist outside of host memory. A frame to be transmitted originates when
//! the data of its last descriptor, or of its last byte if it is a segment, has been read; descriptors and
//! data that a restart of the ring discards before are no frame. A received frame is consumed when the
//! write-back of its last descriptor is passed to the bus: before, the host cannot know of it.

use super::{Device, Direction, Event};
use belljar_base::PacketAccount;

/// Counters of the account.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flow {
    /// Frames received from the wire.
    pub received: u64,
    /// Frames assembled from descriptors.
    pub assembled: u64,
    /// Frames returned by [`Device::poll_wire`].
    pub sent: u64,
    /// Frames written to the host, with their descriptors.
    pub written: u64,
    /// Dropped frames, by [`Loss`].
    losses: [u64; Loss::ALL.len()],
}

/// Reason for dropping a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// The PHY is powered down.
    PhyOff,
    /// The frame arrived from the wire while transmitted frames are looped back.
    Loopback,
    /// The receiver is disabled.
    Disabled,
    /// The receive filters refused the frame.
    Filtered,
    /// The received frame exceeds the maximum length.
    TooLong,
    /// The receive FIFO was full, for lack of descriptors.
    NoDescriptor,
    /// The transmitted frame is shorter than an Ethernet header.
    TooShort,
    /// The controller was reset.
    Reset,
}

impl Loss {
    const ALL: [Loss; 8] = [
        Loss::PhyOff,
        Loss::Loopback,
        Loss::Disabled,
        Loss::Filtered,
        Loss::TooLong,
        Loss::NoDescriptor,
        Loss::TooShort,
        Loss::Reset,
    ];

    fn name(self) -> &'static str {
        match self {
            Loss::PhyOff => "phy_off",
            Loss::Loopback => "loopback",
            Loss::Disabled => "disabled",
            Loss::Filtered => "filtered",
            Loss::TooLong => "too_long",
            Loss::NoDescriptor => "no_descriptor",
            Loss::TooShort => "too_short",
            Loss::Reset => "reset",
        }
    }
}

impl Flow {
    pub fn lose(&mut self, reason: Loss, frames: u64) {
        self.losses[reason as usize] += frames;
    }
}

impl Device {
    /// Account of the frames since the controller was created; resets do not clear it.
    ///
    /// Frames and segments assembled from descriptors originate as `host`; frames written to the host with
    /// their descriptors are consumed as `host`, and those that the address filter rejects as `other_address`. A
    /// frame that is looped back passes from the one to the other.
    ///
    /// Drop reasons: `phy_off`, the PHY is powered down; `loopback`, a frame from the wire during loopback;
    /// `disabled`, the receiver is disabled; `too_long`; `no_descriptor`, the receive FIFO was full
    /// for lack of descriptors; `too_short`, shorter than an Ethernet header; `reset`, received but not written
    /// when the controller was reset.
    pub fn packet_account(&self) -> PacketAccount {
        let mut account = PacketAccount {
            received: self.flow.received,
            sent: self.flow.sent,
            held: self.receiving() + self.to_wire.len() as u64,
            ..PacketAccount::default()
        };
        account.originate("host", self.flow.assembled);
        account.consume("host", self.flow.written);
        for reason in Loss::ALL {
            let frames = self.flow.losses[reason as usize];
            match reason {
                // Not a drop: the frame is for another station.
                Loss::Filtered => account.consume("other_address", frames),
                _ => account.drop_for(reason.name(), frames),
            }
        }
        account
    }

    /// Number of received frames that are not yet written to the host.
    pub(super) fn receiving(&self) -> u64 {
        let is_last =
            |event: &&Event| matches!(event, Event::WriteBack { delayed: Some(Direction::Receive), .. });
        (self.fifo.len() + self.events.values().filter(is_last).count()) as u64
    }
}
