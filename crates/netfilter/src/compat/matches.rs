//! Matches on the bytes and attributes of packets.

use super::connection_matches::{Connection, ConnectionLimit, ConnectionMark};
use super::field::Fields;
use super::{Extends, Outcome};
use crate::attributes::NetfilterError;
use crate::environment::FibQuestion;
use crate::expression::packet_type;
use crate::family::FilterHook;
use crate::operation::Passing;
use crate::packet::{destination, source};
use crate::stateful::Number;
use belljar_wire::protocol;
use std::net::IpAddr;

/// A condition on a packet.
struct Condition<F>(F);

impl<F> std::fmt::Debug for Condition<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Condition")
    }
}

impl<F: Fn(&mut Passing<'_>) -> bool + Send + Sync> Extends for Condition<F> {
    fn apply(&self, passing: &mut Passing<'_>) -> Outcome {
        Outcome::given((self.0)(passing))
    }
}

/// Boxes a condition.
fn when(condition: impl Fn(&mut Passing<'_>) -> bool + Send + Sync + 'static) -> Option<Box<dyn Extends>> {
    Some(Box::new(Condition(condition)))
}

/// Reads a match; `None` if an option of it is not supported.
pub(super) fn read(name: &str, info: &[u8], v6: bool) -> Result<Option<Box<dyn Extends>>, NetfilterError> {
    let fields = Fields(info);
    Ok(match name {
        "comment" => when(|_| true),
        "conntrack" | "state" => Some(Box::new(Connection::read(fields)?)),
        "connmark" => Some(Box::new(ConnectionMark::read(fields)?)),
        "connlimit" => Some(Box::new(ConnectionLimit::read(fields)?)),
        "mark" => {
            let (mark, mask, inverted) = (fields.u32(0)?, fields.u32(4)?, fields.u8(8)? != 0);
            when(move |passing| (passing.packet.mark() & mask == mark) != inverted)
        }
        "addrtype" => address_type(fields)?,
        "iprange" => address_range(fields, v6)?,
        "icmp" | "icmp6" => icmp(fields, v6)?,
        "multiport" => multiport(fields)?,
        "tcp" => tcp(fields)?,
        "udp" => {
            let (sources, destinations, inverted) = (range(fields, 0)?, range(fields, 4)?, fields.u8(8)?);
            when(move |passing| in_ports(passing, sources, destinations, inverted))
        }
        "length" => {
            let (low, high, inverted) = (fields.u16(0)?, fields.u16(2)?, fields.u8(4)? != 0);
            when(move |passing| {
                (usize::from(low)..=usize::from(high)).contains(&passing.headers.end) != inverted
            })
        }
        "ttl" | "hl" => {
            let (mode, wanted) = (fields.u8(0)?, fields.u8(1)?);
            when(move |passing| {
                let ttl = passing.bytes()[if passing.headers.v6 { 7 } else { 8 }];
                match mode {
                    0 => ttl == wanted,
                    1 => ttl != wanted,
                    2 => ttl < wanted,
                    _ => ttl > wanted,
                }
            })
        }
        "dscp" => {
            let (wanted, inverted) = (fields.u8(0)?, fields.u8(1)? != 0);
            when(move |passing| (traffic_class(passing) >> 2 == wanted) != inverted)
        }
        "tos" => {
            let (mask, wanted, inverted) = (fields.u8(0)?, fields.u8(1)?, fields.u8(2)? != 0);
            when(move |passing| (traffic_class(passing) & mask == wanted) != inverted)
        }
        "pkttype" => {
            let (wanted, inverted) = (fields.u32(0)?, fields.u32(4)? != 0);
            when(move |passing| (u32::from(packet_type(passing)) == wanted) != inverted)
        }
        "owner" => owner(fields)?,
        "statistic" => statistic(fields)?,
        "limit" => limit(fields)?,
        "quota" => {
            let (inverted, left) = (fields.u32(0)? & 1 != 0, Number::new(fields.u64(8)?));
            when(move |passing| {
                let len = passing.headers.end as u64;
                let enough = left.get() >= len;
                left.set(if enough { left.get() - len } else { 0 });
                enough != inverted
            })
        }
        "tcpmss" => {
            let (low, high, inverted) = (fields.u16(0)?, fields.u16(2)?, fields.u8(4)? != 0);
            when(move |passing| match mss(passing) {
                Some(mss) => (low..=high).contains(&mss) != inverted,
                None => inverted,
            })
        }
        _ => None,
    })
}

/// TOS byte or traffic class.
fn traffic_class(passing: &Passing<'_>) -> u8 {
    let bytes = passing.bytes();
    if passing.headers.v6 { bytes[0] << 4 | bytes[1] >> 4 } else { bytes[1] }
}

/// Half word of the transport header.
fn transport(passing: &Passing<'_>, at: usize) -> Option<u16> {
    if passing.headers.fragment_offset != 0 {
        return None;
    }
    let at = passing.headers.transport + at;
    let bytes = passing.bytes().get(at..at + 2)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// The MSS option of a TCP segment.
fn mss(passing: &Passing<'_>) -> Option<u16> {
    let (headers, bytes) = (passing.headers, passing.bytes());
    let (at, len) = crate::expression::tcp_option(bytes, &headers, 2)?;
    (len == 4).then(|| u16::from_be_bytes([bytes[at + 2], bytes[at + 3]]))
}

/// `XT_ADDRTYPE_*`.
fn address_type(fields: Fields<'_>) -> Result<Option<Box<dyn Extends>>, NetfilterError> {
    let (sources, destinations, flags) = (fields.u16(0)?, fields.u16(2)?, fields.u32(4)?);
    let matches = move |passing: &mut Passing<'_>, to: IpAddr, types: u16, inverted: bool| {
        let interface = match flags {
            flags if flags & 4 != 0 => passing.input,
            flags if flags & 8 != 0 => passing.output,
            _ => None,
        };
        let question = FibQuestion { to, from: None, mark: 0, tos: 0, interface };
        let kind = passing.environment.fib(&question).kind;
        (types == 0 || types >> kind & 1 != 0) != (inverted && types != 0)
    };
    Ok(when(move |passing| {
        let (from, to) = (source(passing.bytes()), destination(passing.bytes()));
        matches(passing, from, sources, flags & 1 != 0) && matches(passing, to, destinations, flags & 2 != 0)
    }))
}

fn address_range(fields: Fields<'_>, v6: bool) -> Result<Option<Box<dyn Extends>>, NetfilterError> {
    let address = |at| -> Result<IpAddr, NetfilterError> {
        Ok(if v6 { fields.bytes::<16>(at)?.into() } else { fields.bytes::<4>(at)?.into() })
    };
    let sources = address(0)?..=address(16)?;
    let destinations = address(32)?..=address(48)?;
    let flags = fields.u8(64)?;
    Ok(when(move |passing| {
        let (from, to) = (source(passing.bytes()), destination(passing.bytes()));
        let within = |flag, inverted, range: &std::ops::RangeInclusive<IpAddr>, ip| {
            flags & flag == 0 || range.contains(&ip) != (flags & inverted != 0)
        };
        within(1, 16, &sources, from) && within(2, 32, &destinations, to)
    }))
}

fn icmp(fields: Fields<'_>, v6: bool) -> Result<Option<Box<dyn Extends>>, NetfilterError> {
    let [kind, low, high, inverted] = fields.bytes(0)?;
    let number = if v6 { protocol::ICMPV6 } else { protocol::ICMP };
    Ok(when(move |passing| {
        if passing.headers.protocol != Some(number) {
            return false;
        }
        let Some(word) = transport(passing, 0) else { return false };
        let [found, code] = word.to_be_bytes();
        let any = kind == 0xff && !v6;
        (any || found == kind && (low..=high).contains(&code)) != (inverted & 1 != 0)
    }))
}

/// A range of ports.
fn range(fields: Fields<'_>, at: usize) -> Result<(u16, u16), NetfilterError> {
    Ok((fields.u16(at)?, fields.u16(at + 2)?))
}

/// True if the ports of a packet are in two ranges; bits 1 and 2 of `inverted` invert each.
fn in_ports(passing: &Passing<'_>, sources: (u16, u16), destinations: (u16, u16), inverted: u8) -> bool {
    let (Some(from), Some(to)) = (transport(passing, 0), transport(passing, 2)) else { return false };
    let within = |port, (low, high): (u16, u16), bit| (low..=high).contains(&port) != (inverted & bit != 0);
    within(from, sources, 1) && within(to, destinations, 2)
}

fn tcp(fields: Fields<'_>) -> Result<Option<Box<dyn Extends>>, NetfilterError> {
    let (sources, destinations) = (range(fields, 0)?, range(fields, 4)?);
    let [option, mask, wanted, inverted] = fields.bytes(8)?;
    Ok(when(move |passing| {
        if passing.headers.protocol != Some(protocol::TCP)
            || !in_ports(passing, sources, destinations, inverted)
        {
            return false;
        }
        let flags = transport(passing, 12).map_or(0, |word| word as u8);
        let flags_match = (flags & mask == wanted) != (inverted & 4 != 0);
        let has_option = option == 0
            || crate::expression::tcp_option(passing.bytes(), &passing.headers, option).is_some()
                != (inverted & 8 != 0);
        flags_match && has_option
    }))
}

fn multiport(fields: Fields<'_>) -> Result<Option<Box<dyn Extends>>, NetfilterError> {
    let (side, count) = (fields.u8(0)?, usize::from(fields.u8(1)?).min(15));
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < count {
        let low = fields.u16(2 + 2 * at)?;
        let has_end = fields.u8(32 + at)? != 0;
        at += usize::from(has_end);
        ranges.push((low, if has_end { fields.u16(2 + 2 * at.min(14))? } else { low }));
        at += 1;
    }
    let inverted = fields.u8(47)? != 0;
    Ok(when(move |passing| {
        let (Some(from), Some(to)) = (transport(passing, 0), transport(passing, 2)) else { return false };
        let listed = |port| ranges.iter().any(|(low, high)| (*low..=*high).contains(&port));
        let found = match side {
            0 => listed(from),
            1 => listed(to),
            _ => listed(from) || listed(to),
        };
        found != inverted
    }))
}

/// The owner of the sending socket, by user.
#[derive(Debug)]
struct Owner {
    low: u32,
    high: u32,
    /// `XT_OWNER_*`: what is matched, and what of it is inverted.
    matched: u8,
    inverted: u8,
}

const OWNER_UID: u8 = 1;
const OWNER_SOCKET: u8 = 4;

fn owner(fields: Fields<'_>) -> Result<Option<Box<dyn Extends>>, NetfilterError> {
    let (low, high, matched, inverted) = (fields.u32(0)?, fields.u32(4)?, fields.u8(16)?, fields.u8(17)?);
    // Groups of sockets are not known.
    if matched & !(OWNER_UID | OWNER_SOCKET) != 0 {
        return Ok(None);
    }
    Ok(Some(Box::new(Owner { low, high, matched, inverted })))
}

impl Extends for Owner {
    fn apply(&self, passing: &mut Passing<'_>) -> Outcome {
        let Some(owner) = passing.environment.socket_owner(passing.packet.cookie()) else {
            return Outcome::given((self.matched ^ self.inverted) & self.matched == 0);
        };
        let uid = (self.low..=self.high).contains(&owner.uid) != (self.inverted & OWNER_UID != 0);
        let socket = self.matched & OWNER_SOCKET == 0 || self.inverted & OWNER_SOCKET == 0;
        Outcome::given(socket && (self.matched & OWNER_UID == 0 || uid))
    }
    fn hooks(&self) -> &'static [FilterHook] {
        &[FilterHook::Output, FilterHook::Postrouting]
    }
}

fn statistic(fields: Fields<'_>) -> Result<Option<Box<dyn Extends>>, NetfilterError> {
    let (mode, inverted) = (fields.u16(0)?, fields.u16(2)? & 1 != 0);
    let (first, packet) = (fields.u32(4)?, fields.u32(8)?);
    Ok(match mode {
        0 => when(move |passing| ((passing.environment.random() & 0x7fff_ffff) < first) != inverted),
        1 => {
            let count = Number::new(u64::from(packet));
            when(move |_| {
                let next = if count.get() == u64::from(first) { 0 } else { count.get() + 1 };
                count.set(next);
                (next == 0) != inverted
            })
        }
        _ => return Err(belljar_linux_abi::Errno::EINVAL.into()),
    })
}

/// `struct xt_rateinfo`: a token bucket of packets.
fn limit(fields: Fields<'_>) -> Result<Option<Box<dyn Extends>>, NetfilterError> {
    /// Nanoseconds of a unit of `avg` (`XT_LIMIT_SCALE`).
    const UNIT: u64 = 100_000;
    let (cost, burst) = (u64::from(fields.u32(0)?) * UNIT, u64::from(fields.u32(4)?));
    if burst == 0 || cost == 0 {
        return Err(belljar_linux_abi::Errno::ERANGE.into());
    }
    let capacity = cost.saturating_mul(burst);
    let (credit, last) = (Number::new(capacity), Number::new(0));
    Ok(when(move |passing| {
        let now = passing.environment.now().as_nanos();
        let gained = now.saturating_sub(last.get());
        last.set(now);
        let tokens = credit.get().saturating_add(gained).min(capacity);
        credit.set(tokens.checked_sub(cost).unwrap_or(tokens));
        tokens >= cost
    }))
}
