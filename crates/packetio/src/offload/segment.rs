//! Segmentation of large TCP and UDP segments, as by hardware (TSO, USO).

use super::layers::Layers;
use super::{GSO_TCPV4, GSO_TCPV6, GSO_UDP, Unfit, VnetHeader};
use belljar_wire::{checksum, protocol};

const TCP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

/// Passes the segments of `frame` to `each`; all are built in `room`, one at a time. Returns their number.
pub(super) fn cut(
    room: &mut Vec<u8>,
    frame: &[u8],
    header: &VnetHeader,
    mut each: impl FnMut(&[u8]),
) -> Result<usize, Unfit> {
    // Packets above 64 KiB (BIG TCP) have no length in the header and are rejected.
    let layers = Layers::of(frame).ok_or(Unfit)?;
    let tcp = match (header.gso_type, layers.protocol) {
        (GSO_TCPV4 | GSO_TCPV6, protocol::TCP) => true,
        (GSO_UDP, protocol::UDP) => false,
        _ => return Err(Unfit),
    };
    let transport = &frame[layers.transport..layers.end];
    let header_len = if tcp {
        let words = transport.get(12).ok_or(Unfit)? >> 4;
        usize::from(words) * 4
    } else {
        UDP_HEADER
    };
    let least = if tcp { TCP_HEADER } else { UDP_HEADER };
    if header.gso_size == 0 || header_len < least || transport.len() <= header_len {
        return Err(Unfit);
    }
    let (headers, payload) = frame[..layers.end].split_at(layers.transport + header_len);
    let segments = payload.len().div_ceil(header.gso_size);
    for (i, part) in payload.chunks(header.gso_size).enumerate() {
        room.clear();
        room.extend_from_slice(headers);
        room.extend_from_slice(part);
        fix_network(room, &layers, i);
        if tcp {
            fix_tcp(&mut room[layers.transport..], i * header.gso_size, i == 0, i + 1 == segments);
        } else {
            let len = (UDP_HEADER + part.len()) as u16;
            room[layers.transport + 4..layers.transport + 6].copy_from_slice(&len.to_be_bytes());
        }
        fix_checksum(room, &layers, if tcp { 16 } else { 6 });
        each(room);
    }
    Ok(segments)
}

/// Sets the length of segment number `i` and, for IPv4, its identification and header checksum.
fn fix_network(frame: &mut [u8], layers: &Layers, i: usize) {
    let len = frame.len() - layers.network;
    let header = &mut frame[layers.network..layers.transport];
    if layers.v6 {
        header[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
        return;
    }
    header[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    let id = u16::from_be_bytes([header[4], header[5]]).wrapping_add(i as u16);
    header[4..6].copy_from_slice(&id.to_be_bytes());
    header[10..12].fill(0);
    let sum = checksum::internet(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Advances the sequence number by `offset`. FIN and PSH are kept in the last segment only, CWR in the first
/// only.
fn fix_tcp(segment: &mut [u8], offset: usize, first: bool, last: bool) {
    let sequence = u32::from_be_bytes([segment[4], segment[5], segment[6], segment[7]]);
    segment[4..8].copy_from_slice(&sequence.wrapping_add(offset as u32).to_be_bytes());
    if !last {
        segment[13] &= !FIN_PSH;
    }
    if !first {
        segment[13] &= !CWR;
    }
}

fn fix_checksum(frame: &mut [u8], layers: &Layers, offset: usize) {
    let field = layers.transport + offset;
    frame[field..field + 2].fill(0);
    let len = frame.len() - layers.transport;
    let sum = layers.pseudo_header(frame, len).add_bytes(&frame[layers.transport..]).finish();
    let sum = if sum == 0 { 0xffff } else { sum };
    frame[field..field + 2].copy_from_slice(&sum.to_be_bytes());
}
