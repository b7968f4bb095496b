//! Software completion of offloads that the sending stack left to the hardware.
//!
//! Between two local stacks no hardware completes a frame: checksums are unset, a large segment stands for
//! many, and the VLAN tag is stored separately. The virtio-net header before each frame describes the missing
//! steps, which this module performs.

mod layers;
mod segment;

use crate::{Count, Frame, MIN_FRAME, Timestamp};
use belljar_wire::{checksum::Checksum, protocol};
use layers::Layers;

/// Length of the virtio-net header that precedes each frame.
pub(crate) const VNET_LEN: usize = 10;

const NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP: u8 = 5;
const GSO_ECN: u8 = 0x80;
const SCTP: u8 = 132;
/// Offset of the checksum in an SCTP header.
const SCTP_CHECKSUM: usize = 8;

/// virtio-net header in host byte order, the default of packet sockets and TAPs.
#[derive(Clone, Copy, Debug, Default)]
struct VnetHeader {
    flags: u8,
    gso_type: u8,
    gso_size: usize,
    checksum_start: usize,
    checksum_offset: usize,
}

impl VnetHeader {
    fn parse(bytes: &[u8]) -> VnetHeader {
        let u16_at = |at| usize::from(u16::from_ne_bytes([bytes[at], bytes[at + 1]]));
        VnetHeader {
            flags: bytes[0],
            gso_type: bytes[1] & !GSO_ECN,
            gso_size: u16_at(4),
            checksum_start: u16_at(6),
            checksum_offset: u16_at(8),
        }
    }
}

/// VLAN tag that the kernel removed from a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tag {
    pub protocol: u16,
    pub control: u16,
}

const TAG_LEN: usize = 4;
const ADDRESSES_LEN: usize = 12;

/// Error: the frame is malformed or of an unsupported kind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unfit;

/// Offload processor with its buffers.
#[derive(Debug, Default)]
pub(crate) struct Finisher {
    segment: Vec<u8>,
}

impl Finisher {
    /// Passes the complete frames of `buffer`, which starts with a virtio-net header, to `each`. Returns
    /// their number.
    #[inline]
    pub fn finish(
        &mut self,
        buffer: &mut [u8],
        tag: Option<Tag>,
        time: Option<Timestamp>,
        count: &mut Count,
        each: &mut dyn FnMut(Frame<'_>),
    ) -> Result<usize, Unfit> {
        if buffer.len() < VNET_LEN + MIN_FRAME {
            return Err(Unfit);
        }
        if buffer[0] & NEEDS_CHECKSUM == 0 && buffer[1] == GSO_NONE && tag.is_none() {
            let bytes = &buffer[VNET_LEN..];
            count.add(bytes.len());
            each(Frame { bytes, time });
            return Ok(1);
        }
        let mut header = VnetHeader::parse(buffer);
        let frame = match tag {
            Some(tag) => {
                header.checksum_start += TAG_LEN;
                insert_tag(&mut buffer[VNET_LEN - TAG_LEN..], tag)
            }
            None => &mut buffer[VNET_LEN..],
        };
        if header.gso_type != GSO_NONE {
            return segment::cut(&mut self.segment, frame, &header, |bytes| {
                count.add(bytes.len());
                each(Frame { bytes, time });
            });
        }
        if header.flags & NEEDS_CHECKSUM != 0 {
            fill_checksum(frame, &header)?;
        }
        count.add(frame.len());
        each(Frame { bytes: frame, time });
        Ok(1)
    }
}

/// Inserts a tag after the addresses of the frame that starts [`TAG_LEN`] bytes into `room`.
fn insert_tag(room: &mut [u8], tag: Tag) -> &mut [u8] {
    room.copy_within(TAG_LEN..TAG_LEN + ADDRESSES_LEN, 0);
    room[ADDRESSES_LEN..ADDRESSES_LEN + 2].copy_from_slice(&tag.protocol.to_be_bytes());
    room[ADDRESSES_LEN + 2..ADDRESSES_LEN + 4].copy_from_slice(&tag.control.to_be_bytes());
    room
}

/// Completes a checksum whose field contains the pseudo-header sum.
fn fill_checksum(frame: &mut [u8], header: &VnetHeader) -> Result<(), Unfit> {
    let field = header.checksum_start + header.checksum_offset;
    if header.checksum_start < MIN_FRAME || field + 2 > frame.len() {
        return Err(Unfit);
    }
    if header.checksum_offset == SCTP_CHECKSUM
        && Layers::of(frame).is_some_and(|l| l.protocol == SCTP && l.transport == header.checksum_start)
    {
        let end = field + 4;
        frame.get_mut(field..end).ok_or(Unfit)?.fill(0);
        let sum = crc32c::crc32c(&frame[header.checksum_start..]);
        frame[field..end].copy_from_slice(&sum.to_le_bytes());
        return Ok(());
    }
    let sum = Checksum::new().add_bytes(&frame[header.checksum_start..]).finish();
    // 0 would mean "no checksum" in UDP; 0xffff is its one's complement equivalent.
    let sum = if sum == 0 { 0xffff } else { sum };
    frame[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    Ok(())
}

/// Completes the TCP or UDP checksum of a frame whose field contains only the pseudo-header sum, for sources
/// that do not mark such frames. One in 65,536 complete frames looks the same and is unchanged by the
/// computation.
pub(crate) fn fill_bare_checksum(frame: &mut [u8]) {
    let Some(layers) = Layers::of(frame) else { return };
    let checksum_offset = match layers.protocol {
        protocol::TCP => 16,
        protocol::UDP => 6,
        _ => return,
    };
    let field = layers.transport + checksum_offset;
    if layers.end < field + 2 {
        return;
    }
    let stored = u16::from_be_bytes([frame[field], frame[field + 1]]);
    let bare = !layers.pseudo_header(frame, layers.end - layers.transport).finish();
    if stored == bare {
        let header =
            VnetHeader { checksum_start: layers.transport, checksum_offset, ..VnetHeader::default() };
        // Padding after the packet is not part of the segment.
        let _ = fill_checksum(&mut frame[..layers.end], &header);
    }
}

#[cfg(test)]
mod tests;
