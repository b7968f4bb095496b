//! Frames made whole that the sending stack left unfinished for the hardware.
//!
//! Between two local stacks no hardware follows, so frames arrive with checksums left open, as one large segment
//! instead of many, and with the VLAN tag beside the frame. The virtio-net header in front of each frame says what is
//! missing; here it is done.

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

/// The virtio-net header in the machine's byte order, as packet sockets and TAPs have it unless told otherwise.
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

/// A VLAN tag that the kernel took out of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tag {
    pub protocol: u16,
    pub control: u16,
}

const TAG_LEN: usize = 4;
const ADDRESSES_LEN: usize = 12;

/// Failure to make a frame whole: it is of a kind that is not supported, or malformed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unfit;

/// A maker of whole frames, and the room it does it in.
#[derive(Debug, Default)]
pub(crate) struct Finisher {
    segment: Vec<u8>,
}

impl Finisher {
    /// Hands the whole frames that `buffer` stands for to `each`: a virtio-net header and what follows it. Returns
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

/// Puts a tag behind the addresses of the frame that starts [`TAG_LEN`] bytes into `room`.
fn insert_tag(room: &mut [u8], tag: Tag) -> &mut [u8] {
    room.copy_within(TAG_LEN..TAG_LEN + ADDRESSES_LEN, 0);
    room[ADDRESSES_LEN..ADDRESSES_LEN + 2].copy_from_slice(&tag.protocol.to_be_bytes());
    room[ADDRESSES_LEN + 2..ADDRESSES_LEN + 4].copy_from_slice(&tag.control.to_be_bytes());
    room
}

/// Fills in a checksum whose field holds the sum of the pseudo header.
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
    // 0 would mean "no checksum" to UDP; the two are equal in one's complement.
    let sum = if sum == 0 { 0xffff } else { sum };
    frame[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    Ok(())
}

/// Fills in the TCP or UDP checksum of a frame whose field holds the bare sum of the pseudo header, for sources that
/// do not mark such frames. The one whole frame in 65,536 that looks like one is left as it was: its checksum comes
/// out as it stands there.
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
        // Padding behind the packet is not part of the segment.
        let _ = fill_checksum(&mut frame[..layers.end], &header);
    }
}

#[cfg(test)]
mod tests;
