//! Helpers: protocols that announce further connections in their payload, so that these are expected.
//!
//! A helper acts on connections that a rule assigned it to ([`Conntrack::set_helper`],
//! [`Template::helper`](crate::Template)), never by itself, as on Linux since 6.0.

mod ftp;
#[cfg(test)]
mod tests;
mod tftp;

pub(crate) use ftp::FtpState;

use crate::conn::{ConnKey, CtInfo, CtStatus};
use crate::conntrack::{Conntrack, TrackContext, TrackVerdict};
use crate::parse::Datagram;
use crate::seqadj::SequenceAdjustment;
use crate::tuple::{L3, protocol};
use belljar_wire::{ipv4, tcp};
use std::ops::Range;

/// Helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Helper {
    /// File transfer protocol (RFC 959, RFC 2428): data connections.
    Ftp,
    /// Trivial file transfer protocol (RFC 1350): the server's port of a transfer.
    Tftp,
}

impl Helper {
    /// All helpers.
    pub const ALL: [Helper; 2] = [Helper::Ftp, Helper::Tftp];

    /// Name in rules and listings.
    pub const fn name(self) -> &'static str {
        match self {
            Helper::Ftp => "ftp",
            Helper::Tftp => "tftp",
        }
    }

    /// Helper of a name.
    pub fn by_name(name: &str) -> Option<Helper> {
        Helper::ALL.into_iter().find(|helper| helper.name() == name)
    }

    /// Transport protocol of the connections that it helps.
    pub const fn protocol(self) -> u8 {
        match self {
            Helper::Ftp => protocol::TCP,
            Helper::Tftp => protocol::UDP,
        }
    }

    /// Number of expectations that a connection may have, and the seconds that each lasts.
    pub(crate) const fn policy(self) -> (usize, u32) {
        match self {
            Helper::Ftp => (1, 300),
            Helper::Tftp => (1, 300),
        }
    }
}

impl Conntrack {
    /// Calls the helper of a packet's connection, then adjusts TCP's sequence numbers for changes that it has
    /// made.
    pub(crate) fn help(
        &mut self,
        packet: &mut Vec<u8>,
        key: ConnKey,
        info: CtInfo,
        context: &TrackContext,
    ) -> TrackVerdict {
        let Some(datagram) = Datagram::parse(packet) else { return TrackVerdict::Accept };
        let Some(conn) = self.table.get(key) else { return TrackVerdict::Accept };
        if datagram.protocol != conn.original().protocol {
            return TrackVerdict::Accept;
        }
        let adjusts = conn.is(CtStatus::SEQ_ADJUST);
        let verdict = match conn.helper {
            Some(Helper::Ftp) => self.help_ftp(packet, &datagram, key, info, context.now),
            Some(Helper::Tftp) => self.help_tftp(packet, &datagram, key, context.now),
            None => TrackVerdict::Accept,
        };
        if verdict == TrackVerdict::Accept && adjusts {
            self.adjust_sequence(packet, key, info);
        }
        verdict
    }
}

impl Conntrack {
    /// Shifts the numbers of a segment by what helpers have added to the payloads before it
    /// (`nf_ct_seq_adjust`).
    fn adjust_sequence(&mut self, packet: &mut [u8], key: ConnKey, info: CtInfo) {
        let Some(datagram) = Datagram::parse(packet) else { return };
        let Some(extra) = self.table.get(key).and_then(|conn| conn.extra.as_ref()) else { return };
        let own = extra.adjustments[info.direction() as usize];
        let other = extra.adjustments[info.direction().opposite() as usize];
        let range = datagram.transport.clone();
        if datagram.protocol != protocol::TCP || tcp::Packet::new_checked(&packet[range.clone()]).is_err() {
            return;
        }
        let segment = &mut packet[range];
        let seq = word(segment, 4);
        put(segment, 4, seq.wrapping_add(own.shift(seq) as u32));
        if segment[13] & tcp::Flags::ACK.bits() != 0 {
            let ack = word(segment, 8);
            put(segment, 8, unshift(&other, ack));
            adjust_sack(segment, &other);
        }
        let (from, to) = (datagram.source.to_ip(datagram.l3), datagram.destination.to_ip(datagram.l3));
        tcp::fill_checksum(from, to, segment);
    }
}

/// Number as the sender of the acknowledged data has it.
fn unshift(adjustment: &SequenceAdjustment, ack: u32) -> u32 {
    ack.wrapping_sub(adjustment.shift_seen(ack) as u32)
}

/// Shifts the edges of SACK blocks (RFC 2018).
fn adjust_sack(segment: &mut [u8], adjustment: &SequenceAdjustment) {
    const SACK: u8 = 5;
    let end = usize::from(segment[12] >> 4) * 4;
    let mut at = tcp::HEADER_LEN;
    while at + 1 < end {
        let (kind, len) = (segment[at], usize::from(segment[at + 1]));
        match kind {
            0 => return,
            1 => at += 1,
            _ if len < 2 || at + len > end => return,
            _ => {
                if kind == SACK && len >= 10 && (len - 2) % 8 == 0 {
                    for edge in (at + 2..at + len).step_by(4) {
                        let number = word(segment, edge);
                        put(segment, edge, unshift(adjustment, number));
                    }
                }
                at += len;
            }
        }
    }
}

/// Sequence number of a segment, and the range of its payload in the packet.
fn payload(packet: &[u8], datagram: &Datagram) -> Option<(u32, Range<usize>)> {
    let segment = datagram.transport_of(packet);
    let header = tcp::Packet::new_checked(segment).ok()?;
    let start = datagram.transport.start + header.header_len();
    Some((word(segment, 4), start..datagram.transport.end))
}

/// Brings the length fields and checksums of a TCP packet in line with its bytes.
fn fix_lengths(packet: &mut [u8]) {
    let len = packet.len();
    match packet.first().map(|first| first >> 4) {
        Some(4) if len >= ipv4::HEADER_LEN => {
            packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            let header_len = usize::from(packet[0] & 15) * 4;
            if let Some(header) = packet.get_mut(..header_len) {
                ipv4::fill_checksum(header);
            }
        }
        Some(6) if len >= 40 => packet[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes()),
        _ => return,
    }
    if let Some(datagram) = Datagram::parse(packet)
        && datagram.transport.len() >= tcp::HEADER_LEN
    {
        let l3: L3 = datagram.l3;
        let (from, to) = (datagram.source.to_ip(l3), datagram.destination.to_ip(l3));
        tcp::fill_checksum(from, to, &mut packet[datagram.transport]);
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}
