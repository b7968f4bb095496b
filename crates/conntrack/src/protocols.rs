//! Packets by transport protocol: validity, state and timeout (`nf_conntrack_handle_packet`).
//!
//! | protocol | tracked by | timeout |
//! |---|---|---|
//! | TCP | [`tcp`](crate::tcp) | by state, `nf_conntrack_tcp_timeout_*` |
//! | SCTP | [`sctp`](crate::sctp) | by state, `nf_conntrack_sctp_timeout_*` |
//! | UDP | ports; a stream once both sides have sent for two seconds | 30 s, 120 s for streams |
//! | UDP-Lite | ports; a stream once both sides have sent | as UDP |
//! | ICMP, ICMPv6 | identifier; queries begin connections | 30 s |
//! | GRE | addresses, or the call of PPTP | 30 s, 180 s once both sides have sent |
//! | all others | addresses | 600 s |

use crate::conn::{ConnKey, CtInfo, CtStatus, Jiffies, ProtocolState, seconds};
use crate::conntrack::{Conntrack, Disposition, InetHook, TrackContext};
use crate::event::{Reporter, change};
use crate::parse::Datagram;
use crate::sctp::{SctpPacket, SctpTrack};
use crate::tcp::{Segment, TcpContext, TcpDisposition, TcpTrack};
use crate::tuple::{L3, protocol};

/// Time of two-sided traffic after which UDP counts as a stream.
const STREAM_AFTER: Jiffies = seconds(2);

impl Conntrack {
    /// Takes a packet of a connection.
    pub(crate) fn packet(
        &mut self,
        key: ConnKey,
        info: CtInfo,
        packet: &[u8],
        datagram: &Datagram,
        context: &TrackContext,
    ) -> Disposition {
        let bytes = datagram.transport.end;
        let confirmed = self.table.get(key).is_some_and(|conn| conn.is(CtStatus::CONFIRMED));
        match datagram.protocol {
            protocol::TCP => self.tcp_packet(key, info, packet, datagram, context),
            protocol::SCTP => self.sctp_packet(key, info, packet, datagram, context),
            protocol::UDP | protocol::UDP_LITE => self.udp_packet(key, info, packet, datagram, context),
            protocol::ICMP | protocol::ICMPV6 => {
                let v4 = datagram.protocol == protocol::ICMP;
                let kind = datagram.transport_of(packet).first().copied().unwrap_or_default();
                let family = if v4 { L3::V4 } else { L3::V6 };
                if datagram.l3 != family || !confirmed && !begins_query(v4, kind) {
                    return Disposition::Invalid;
                }
                let timeout = if v4 { self.settings.icmp_timeout } else { self.settings.icmpv6_timeout };
                self.refresh(key, info, seconds(timeout), bytes, context.now);
                Disposition::Accept
            }
            protocol::GRE => {
                let (once, stream) = (self.settings.gre_timeout, self.settings.gre_timeout_stream);
                self.two_sided(key, info, (once, stream), bytes, context);
                Disposition::Accept
            }
            _ => {
                let timeout = seconds(self.settings.generic_timeout);
                self.refresh(key, info, timeout, bytes, context.now);
                Disposition::Accept
            }
        }
    }

    /// True if the transport checksum has to be verified and is wrong.
    pub(crate) fn has_wrong_checksum(
        &self,
        packet: &[u8],
        datagram: &Datagram,
        context: &TrackContext,
    ) -> bool {
        self.settings.checksum != 0
            && context.hook == InetHook::Prerouting
            && !context.checksum_verified
            && !datagram.checksum_is_right(packet)
    }

    /// Timeouts of protocols that are assured once both sides have sent.
    fn two_sided(
        &mut self,
        key: ConnKey,
        info: CtInfo,
        (once, stream): (u32, u32),
        bytes: usize,
        context: &TrackContext,
    ) {
        let Some(conn) = self.table.get_mut(key) else { return };
        let answered = conn.is(CtStatus::SEEN_REPLY);
        let becomes_assured = answered && !conn.status.intersects(CtStatus::ASSURED | CtStatus::NAT_CLASH);
        if becomes_assured {
            conn.status.insert(CtStatus::ASSURED);
            self.note(key, change::ASSURED);
        }
        self.refresh(key, info, seconds(if answered { stream } else { once }), bytes, context.now);
    }

    fn udp_packet(
        &mut self,
        key: ConnKey,
        info: CtInfo,
        packet: &[u8],
        datagram: &Datagram,
        context: &TrackContext,
    ) -> Disposition {
        let lite = datagram.protocol == protocol::UDP_LITE;
        let segment = datagram.transport_of(packet);
        if !udp_is_valid(segment, lite) || self.has_wrong_checksum(packet, datagram, context) {
            return Disposition::Invalid;
        }
        let (once, stream) = (self.settings.udp_timeout, self.settings.udp_timeout_stream);
        let bytes = datagram.transport.end;
        if lite {
            self.two_sided(key, info, (once, stream), bytes, context);
            return Disposition::Accept;
        }
        let now = context.now.jiffies();
        let Some(conn) = self.table.get_mut(key) else { return Disposition::Invalid };
        if !conn.is(CtStatus::CONFIRMED) {
            conn.protocol = ProtocolState::Udp { stream_after: now + STREAM_AFTER };
        }
        let lasts = matches!(conn.protocol, ProtocolState::Udp { stream_after } if now > stream_after);
        let streams = conn.is(CtStatus::SEEN_REPLY) && lasts;
        let becomes_assured = streams && !conn.status.intersects(CtStatus::ASSURED | CtStatus::NAT_CLASH);
        self.refresh(key, info, seconds(if streams { stream } else { once }), bytes, context.now);
        if becomes_assured && let Some(conn) = self.table.get_mut(key) {
            conn.status.insert(CtStatus::ASSURED);
            self.note(key, change::ASSURED);
        }
        Disposition::Accept
    }

    fn tcp_packet(
        &mut self,
        key: ConnKey,
        info: CtInfo,
        packet: &[u8],
        datagram: &Datagram,
        context: &TrackContext,
    ) -> Disposition {
        let Some(segment) = Segment::parse(datagram.transport_of(packet)) else {
            return Disposition::Invalid;
        };
        if self.has_wrong_checksum(packet, datagram, context) {
            return Disposition::Invalid;
        }
        let Some(conn) = self.table.get_mut(key) else { return Disposition::Invalid };
        if !conn.is(CtStatus::CONFIRMED) {
            match TcpTrack::new(&segment, &self.settings) {
                Some(track) => conn.protocol = ProtocolState::Tcp(track),
                None => return Disposition::Invalid,
            }
        }
        let direction = info.direction();
        let left = conn.ticks_left(context.now);
        let offset = conn.extra.as_ref().map_or(0, |extra| {
            let seen = segment.ack.wrapping_sub(1);
            extra.adjustments[direction.opposite() as usize].shift(seen)
        });
        let status = conn.status;
        let ProtocolState::Tcp(track) = &mut conn.protocol else { return Disposition::Invalid };
        let settings = &self.settings;
        match track.segment(&segment, offset, TcpContext { direction, status, left, settings }) {
            TcpDisposition::Invalid { shorten } => {
                if let Some(left) = shorten {
                    self.table.set_timeout(key, left, context.now);
                }
                return Disposition::Invalid;
            }
            TcpDisposition::Reopened => {
                self.kill(key, Reporter::default(), context.now);
                return Disposition::Repeat;
            }
            TcpDisposition::Ignored => {}
            TcpDisposition::Accepted { timeout, changed, assured, kill } => {
                let bytes = datagram.transport.end;
                self.note(key, if changed { change::PROTOINFO } else { 0 });
                if assured && let Some(conn) = self.table.get_mut(key) {
                    conn.status.insert(CtStatus::ASSURED);
                    self.note(key, change::ASSURED);
                }
                if let Some(left) = timeout {
                    self.refresh(key, info, left, bytes, context.now);
                }
                if kill {
                    if let Some(conn) = self.table.get_mut(key) {
                        conn.count(direction, bytes);
                    }
                    self.kill(key, Reporter::default(), context.now);
                }
            }
        }
        Disposition::Accept
    }

    fn sctp_packet(
        &mut self,
        key: ConnKey,
        info: CtInfo,
        packet: &[u8],
        datagram: &Datagram,
        context: &TrackContext,
    ) -> Disposition {
        let segment = datagram.transport_of(packet);
        let Some(parsed) = SctpPacket::parse(segment) else { return Disposition::Invalid };
        if self.settings.checksum != 0
            && context.hook == InetHook::Prerouting
            && !context.checksum_verified
            && crate::nat::sctp_checksum(segment) != segment[8..12]
        {
            return Disposition::Invalid;
        }
        let Some(conn) = self.table.get_mut(key) else { return Disposition::Invalid };
        if !conn.is(CtStatus::CONFIRMED) {
            match SctpTrack::new(&parsed) {
                Some(track) => conn.protocol = ProtocolState::Sctp(track),
                None => return Disposition::Invalid,
            }
        }
        let status = conn.status;
        let ProtocolState::Sctp(track) = &mut conn.protocol else { return Disposition::Invalid };
        let Some(accepted) = track.packet(&parsed, info.direction(), status, &self.settings) else {
            return Disposition::Invalid;
        };
        if accepted.assured {
            conn.status.insert(CtStatus::ASSURED);
            self.note(key, change::ASSURED);
        }
        self.note(key, if accepted.changed { change::PROTOINFO } else { 0 });
        if let Some(left) = accepted.timeout {
            self.refresh(key, info, left, datagram.transport.end, context.now);
        }
        Disposition::Accept
    }
}

/// True if the length of a datagram, or the coverage of one of UDP-Lite, is valid (`udp_error`,
/// `udplite_error`). A UDP-Lite datagram without a checksum is not (RFC 3828, section 3.1).
fn udp_is_valid(segment: &[u8], lite: bool) -> bool {
    const HEADER_LEN: usize = belljar_wire::udp::HEADER_LEN;
    if segment.len() < HEADER_LEN {
        return false;
    }
    let word = |at: usize| usize::from(u16::from_be_bytes([segment[at], segment[at + 1]]));
    match lite {
        false => (HEADER_LEN..=segment.len()).contains(&word(4)),
        true => (word(4) == 0 || (HEADER_LEN..=segment.len()).contains(&word(4))) && word(6) != 0,
    }
}

/// True for ICMP messages that begin a connection: echo, timestamp, information and address mask requests
/// (RFC 792, RFC 950); echo and node information queries of ICMPv6.
const fn begins_query(v4: bool, kind: u8) -> bool {
    match v4 {
        true => matches!(kind, 8 | 13 | 15 | 17),
        false => matches!(kind, 128 | 139),
    }
}
