//! ICMP errors, which are related to the connection of the packet that they quote
//! (`nf_conntrack_inet_error`), and ICMPv6 messages that are not tracked.

use crate::conn::{Attached, CtInfo, Template};
use crate::conntrack::{Conntrack, TrackContext};
use crate::parse::Datagram;
use crate::tuple::{L3, TupleDirection, protocol};

/// Length of the header of an ICMP error before the quoted packet, in bytes.
pub(crate) const HEADER_LEN: usize = 8;
/// Highest type of ICMP (`NR_ICMP_TYPES`).
const GREATEST_TYPE: u8 = 18;

/// Result of looking for the connection of an ICMP error.
pub(crate) enum ErrorDisposition {
    /// The message is not an error.
    Query,
    /// The attachment is decided.
    Settled(Attached),
}

/// True for ICMP errors and redirects (RFC 792): destination unreachable, source quench, redirect, time
/// exceeded and parameter problem.
const fn is_error_v4(kind: u8) -> bool {
    matches!(kind, 3 | 4 | 5 | 11 | 12)
}

/// True for ICMPv6 messages between neighbours, which are exempt from tracking: multicast listener and
/// neighbour discovery, multicast router discovery (RFC 2710, RFC 3810, RFC 4861, RFC 4286).
const fn is_exempt_v6(kind: u8) -> bool {
    matches!(kind, 130..=136 | 143 | 151 | 152)
}

/// ICMPv6 redirect (RFC 4861, section 4.5).
const REDIRECT_V6: u8 = 137;

/// Packet that an ICMPv6 redirect quotes in its redirected header option (RFC 4861, section 4.6.3).
fn redirected(message: &[u8]) -> Option<&[u8]> {
    const OPTIONS_AT: usize = 40;
    const REDIRECTED_HEADER: u8 = 4;
    let mut options = message.get(OPTIONS_AT..)?;
    loop {
        let len = usize::from(*options.get(1)?) * 8;
        if options[0] == REDIRECTED_HEADER {
            return options.get(8..len.min(options.len()));
        }
        options = options.get(len..).filter(|_| len > 0)?;
    }
}

impl Conntrack {
    /// Looks at an ICMP message before its tuple (`nf_conntrack_handle_icmp`).
    pub(crate) fn track_icmp_error(
        &mut self,
        packet: &[u8],
        datagram: &Datagram,
        template: &Template,
        context: &TrackContext,
    ) -> ErrorDisposition {
        let v4 = match (datagram.l3, datagram.protocol) {
            (L3::V4, protocol::ICMP) => true,
            (L3::V6, protocol::ICMPV6) => false,
            _ => return ErrorDisposition::Query,
        };
        let message = datagram.transport_of(packet);
        let valid = message.len() >= HEADER_LEN
            && !self.has_wrong_checksum(packet, datagram, context)
            && (!v4 || message[0] <= GREATEST_TYPE);
        if !valid {
            return self.invalid_error();
        }
        let is_error = match v4 {
            true => is_error_v4(message[0]),
            false if is_exempt_v6(message[0]) => {
                return ErrorDisposition::Settled(Attached::Untracked);
            }
            false => message[0] < 128 || message[0] == REDIRECT_V6,
        };
        if !is_error {
            return ErrorDisposition::Query;
        }
        let quote = match !v4 && message[0] == REDIRECT_V6 {
            true => redirected(message).unwrap_or_default(),
            false => &message[HEADER_LEN..],
        };
        let quoted = Datagram::parse_quoted(quote).filter(|quoted| quoted.l3 == datagram.l3);
        let tuple = quoted.and_then(|quoted| quoted.tuple(quote));
        let Some(tuple) = tuple else { return self.invalid_error() };
        // The quoted packet is one that the sender of the error received: the connection is found by the
        // tuple of the answers to it.
        let found = tuple.inverse().and_then(|inverse| self.table.find(template.zone, &inverse, context.now));
        let Some((key, direction)) = found else { return self.invalid_error() };
        let Some(conn) = self.table.get(key) else { return self.invalid_error() };
        // An error that is not addressed to the sender of the quoted packet is forged.
        if conn.tuple(direction).destination != datagram.destination {
            return self.invalid_error();
        }
        let info = match direction {
            TupleDirection::Original => CtInfo::Related,
            TupleDirection::Reply => CtInfo::RelatedReply,
        };
        ErrorDisposition::Settled(Attached::Conn { key, info })
    }

    fn invalid_error(&mut self) -> ErrorDisposition {
        self.statistics.error += 1;
        ErrorDisposition::Settled(Attached::None)
    }
}
