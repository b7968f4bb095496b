//! Common part of both receive ring layouts.

use crate::interface::Interface;
use crate::offload::{Finisher, Tag};
use crate::{Counters, Error, Frame, TimeSource, Timestamp, sys};
use std::os::fd::BorrowedFd;

/// Delivery of received frames from the ring.
pub(super) struct Delivery<'a> {
    pub finisher: &'a mut Finisher,
    pub counters: &'a mut Counters,
    /// True if frames carry timestamps.
    pub stamped: bool,
    pub each: &'a mut dyn FnMut(Frame<'_>),
}

/// Header fields common to both layouts.
pub(super) struct Header {
    pub status: u32,
    /// Length of the frame in bytes.
    pub len: u32,
    /// Bytes of the frame in the ring.
    pub snaplen: u32,
    pub seconds: u32,
    pub nanos: u32,
    pub tag_control: u16,
    pub tag_protocol: u16,
}

impl Delivery<'_> {
    /// Passes on the frames of `buffer`, which starts with a virtio-net header. Returns their number: 0 if the frame
    /// cannot be finished, which is counted as dropped.
    #[inline]
    pub fn deliver(&mut self, buffer: &mut [u8], header: &Header) -> usize {
        let protocol = match header.status & libc::TP_STATUS_VLAN_TPID_VALID {
            0 => 0x8100,
            _ => header.tag_protocol,
        };
        let tagged = header.status & libc::TP_STATUS_VLAN_VALID != 0;
        let tag = tagged.then_some(Tag { protocol, control: header.tag_control });
        let time = self.stamped.then(|| Timestamp {
            nanos: u64::from(header.seconds) * 1_000_000_000 + u64::from(header.nanos),
            source: if header.status & libc::TP_STATUS_TS_RAW_HARDWARE != 0 {
                TimeSource::Hardware
            } else {
                TimeSource::Kernel
            },
        });
        match self.finisher.finish(buffer, tag, time, &mut self.counters.received, self.each) {
            Ok(frames) => {
                self.counters.packets += 1;
                frames
            }
            Err(crate::offload::Unfit) => {
                self.counters.dropped_port += 1;
                0
            }
        }
    }
}

/// Sets the ring version, requests the ring and maps its memory.
pub(super) fn map<T: sys::Plain>(
    interface: &Interface,
    fd: BorrowedFd<'_>,
    version: libc::tpacket_versions,
    request: T,
    bytes: usize,
) -> Result<sys::Mapping, Error> {
    let name = interface.name();
    sys::set_option(fd, libc::SOL_PACKET, libc::PACKET_VERSION, version as libc::c_int)
        .map_err(|e| Error::system(format!("choosing the layout of the receive ring of '{name}'"), e))?;
    sys::set_option(fd, libc::SOL_PACKET, libc::PACKET_RX_RING, request).map_err(|e| {
        Error::system(format!("making a receive ring of {bytes} bytes on '{name}' (try a smaller ring)"), e)
    })?;
    sys::Mapping::of(fd, bytes, 0)
        .map_err(|e| Error::system(format!("mapping the receive ring of '{name}'"), e))
}
