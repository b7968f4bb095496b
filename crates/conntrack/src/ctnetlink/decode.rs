//! Tuples, zones and filters of requests.

use super::attribute::{cta, filter, ip, nat, proto, tuple};
use super::message::Attributes;
use crate::conn::{Conn, CtZone};
use crate::nat::{NatFlags, NatRange};
use crate::tuple::{InetAddress, L3, Tuple, TupleDirection, protocol};
use belljar_linux_abi::Errno;

/// Parts of a tuple that count: `CTA_FILTER_F_*`.
mod part {
    pub const IP_SRC: u32 = 1 << 0;
    pub const IP_DST: u32 = 1 << 1;
    pub const TUPLE_ZONE: u32 = 1 << 2;
    pub const PROTO_NUM: u32 = 1 << 3;
    pub const SRC_PORT: u32 = 1 << 4;
    pub const DST_PORT: u32 = 1 << 5;
    pub const ICMP_TYPE: u32 = 1 << 6;
    pub const ICMP_CODE: u32 = 1 << 7;
    pub const ICMP_ID: u32 = 1 << 8;
    pub const ICMPV6_TYPE: u32 = 1 << 9;
    pub const ICMPV6_CODE: u32 = 1 << 10;
    pub const ICMPV6_ID: u32 = 1 << 11;
    pub const ALL: u32 = (1 << 12) - 1;
}

/// Zone of a request's attribute `kind`, the default one if it has none.
pub(super) fn zone(attributes: &Attributes<'_>, kind: u16) -> Result<CtZone, Errno> {
    Ok(attributes.be16(kind)?.map_or(CtZone::DEFAULT, CtZone::both))
}

/// Tuple of the attribute `kind` (`ctnetlink_parse_tuple`). A zone of the tuple's own goes to `zone`; without
/// one it is refused.
pub(super) fn tuple(
    attributes: &Attributes<'_>,
    kind: u16,
    family: u8,
    zone: Option<&mut CtZone>,
) -> Result<Tuple, Errno> {
    tuple_parts(attributes, kind, family, zone, part::ALL)
}

fn tuple_parts(
    attributes: &Attributes<'_>,
    kind: u16,
    family: u8,
    zone: Option<&mut CtZone>,
    parts: u32,
) -> Result<Tuple, Errno> {
    let held = attributes.nested(kind, tuple::MAX)?.ok_or(Errno::EINVAL)?;
    let l3 = L3::from_family(family).ok_or(Errno::EOPNOTSUPP)?;
    let mut parsed = Tuple { l3, ..Tuple::default() };
    if parts & (part::IP_SRC | part::IP_DST) != 0 {
        let addresses = held.nested(tuple::IP, ip::MAX)?.ok_or(Errno::EINVAL)?;
        let (source, destination) = match l3 {
            L3::V4 => (ip::V4_SRC, ip::V4_DST),
            L3::V6 => (ip::V6_SRC, ip::V6_DST),
        };
        if parts & part::IP_SRC != 0 {
            parsed.source = address(&addresses, source, l3)?.ok_or(Errno::EINVAL)?;
        }
        if parts & part::IP_DST != 0 {
            parsed.destination = address(&addresses, destination, l3)?.ok_or(Errno::EINVAL)?;
        }
    }
    if parts & part::PROTO_NUM != 0 {
        let transport = held.nested(tuple::PROTO, proto::MAX)?.ok_or(Errno::EINVAL)?;
        parsed.protocol = transport.u8(proto::NUM)?.ok_or(Errno::EINVAL)?;
        ports(&transport, &mut parsed, parts)?;
    } else if parts & !(part::IP_SRC | part::IP_DST | part::TUPLE_ZONE) != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    if parts & part::TUPLE_ZONE != 0
        && let Some(id) = held.be16(tuple::ZONE)?
    {
        let zone = zone.ok_or(Errno::EINVAL)?;
        let bits = if kind == cta::TUPLE_REPLY { CtZone::REPLY } else { CtZone::ORIGINAL };
        // One zone for all, and one for a direction, exclude each other.
        if zone.id != 0 {
            return Err(Errno::EINVAL);
        }
        *zone = CtZone { id, directions: bits };
    }
    Ok(parsed)
}

fn address(attributes: &Attributes<'_>, kind: u16, l3: L3) -> Result<Option<InetAddress>, Errno> {
    let Some(bytes) = attributes.get(kind) else { return Ok(None) };
    InetAddress::read(l3, bytes).map(Some).ok_or(Errno::ERANGE)
}

fn ports(transport: &Attributes<'_>, parsed: &mut Tuple, parts: u32) -> Result<(), Errno> {
    let word = |kind, bit: u32| match parts & bit {
        0 => Ok(0),
        _ => transport.be16(kind)?.ok_or(Errno::EINVAL),
    };
    let byte = |kind, bit: u32| match parts & bit {
        0 => Ok(0),
        _ => transport.u8(kind)?.ok_or(Errno::EINVAL),
    };
    match parsed.protocol {
        protocol::ICMP => {
            parsed.source_port = word(proto::ICMP_ID, part::ICMP_ID)?;
            let kind = byte(proto::ICMP_TYPE, part::ICMP_TYPE)?;
            let code = byte(proto::ICMP_CODE, part::ICMP_CODE)?;
            parsed.destination_port = u16::from_be_bytes([kind, code]);
            // Errors begin no connection.
            if parts & part::ICMP_TYPE != 0 && parsed.inverse().is_none() {
                return Err(Errno::EINVAL);
            }
        }
        protocol::ICMPV6 => {
            parsed.source_port = word(proto::ICMPV6_ID, part::ICMPV6_ID)?;
            let kind = byte(proto::ICMPV6_TYPE, part::ICMPV6_TYPE)?;
            let code = byte(proto::ICMPV6_CODE, part::ICMPV6_CODE)?;
            parsed.destination_port = u16::from_be_bytes([kind, code]);
            if parts & part::ICMPV6_TYPE != 0 && parsed.inverse().is_none() {
                return Err(Errno::EINVAL);
            }
        }
        protocol::TCP | protocol::UDP | protocol::UDP_LITE | protocol::SCTP | protocol::GRE => {
            parsed.source_port = word(proto::SRC_PORT, part::SRC_PORT)?;
            parsed.destination_port = word(proto::DST_PORT, part::DST_PORT)?;
        }
        _ => {}
    }
    Ok(())
}

/// Range of a translation in an attribute `CTA_NAT_SRC` or `CTA_NAT_DST` (`nfnetlink_parse_nat`).
pub(super) fn nat_range(bytes: &[u8], l3: L3) -> Result<NatRange, Errno> {
    let attributes = Attributes::parse(bytes, nat::MAX)?;
    let (min, max) = match l3 {
        L3::V4 => (nat::V4_MINIP, nat::V4_MAXIP),
        L3::V6 => (nat::V6_MINIP, nat::V6_MAXIP),
    };
    let mut range = NatRange::default();
    if let Some(least) = address(&attributes, min, l3)? {
        range.min_address = least;
        range.flags |= NatFlags::MAP_IPS;
    }
    range.max_address = address(&attributes, max, l3)?.unwrap_or(range.min_address);
    if let Some(ports) = attributes.nested(nat::PROTO, nat::PORT_MAX)? {
        if let Some(port) = ports.be16(nat::PORT_MIN)? {
            range = range.with_ports(port, port);
        }
        if let Some(port) = ports.be16(nat::PORT_MAX)? {
            range = range.with_ports(range.min_port, port);
        }
    }
    Ok(range)
}

/// Selection of connections for a dump or a flush (`struct ctnetlink_filter`).
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    family: u8,
    zone: Option<u16>,
    /// Tuple of each direction, with the parts that count.
    tuples: [Option<(Tuple, u32)>; 2],
    /// Value and mask.
    mark: (u32, u32),
    status: (u32, u32),
}

impl Selection {
    /// Reads the selection of a request; `None` if it selects everything.
    pub fn parse(attributes: &Attributes<'_>, family: u8) -> Result<Option<Selection>, Errno> {
        let selects = [cta::MARK, cta::FILTER, cta::STATUS, cta::ZONE];
        if family == 0 && !selects.iter().any(|kind| attributes.has(*kind)) {
            return Ok(None);
        }
        let mut selection = Selection { family, ..Selection::default() };
        match (attributes.be32(cta::MARK)?, attributes.be32(cta::MARK_MASK)?) {
            (Some(value), mask) => selection.mark = (value, mask.unwrap_or(u32::MAX)),
            (None, Some(_)) => return Err(Errno::EINVAL),
            (None, None) => {}
        }
        match (attributes.be32(cta::STATUS)?, attributes.be32(cta::STATUS_MASK)?) {
            (Some(value), mask) => {
                let mask = mask.unwrap_or(value);
                if mask == 0 {
                    return Err(Errno::EINVAL);
                }
                selection.status = (value, mask);
            }
            (None, Some(_)) => return Err(Errno::EINVAL),
            (None, None) => {}
        }
        selection.zone = attributes.be16(cta::ZONE)?;
        let Some(parts) = attributes.nested(cta::FILTER, filter::MAX)? else { return Ok(Some(selection)) };
        let directions = [(filter::ORIG_FLAGS, cta::TUPLE_ORIG), (filter::REPLY_FLAGS, cta::TUPLE_REPLY)];
        for (n, (flags, kind)) in directions.into_iter().enumerate() {
            // The flags are in the byte order of the machine.
            let wanted = parts.fixed(flags)?.map_or(0, u32::from_ne_bytes);
            if wanted & !part::ALL != 0 {
                return Err(Errno::ERANGE);
            }
            if wanted != 0 {
                let mut own = CtZone::DEFAULT;
                let parsed = tuple_parts(attributes, kind, family, Some(&mut own), wanted)?;
                selection.tuples[n] = Some((parsed, wanted));
            }
        }
        Ok(Some(selection))
    }

    /// True if a connection is selected.
    pub fn matches(&self, conn: &Conn) -> bool {
        let family = self.family == 0 || self.family == conn.original().l3.family();
        let zone = self.zone.is_none_or(|id| conn.zone().id == id);
        let tuples = self.tuples.iter().zip(TupleDirection::BOTH).all(|(wanted, direction)| {
            wanted.is_none_or(|(tuple, parts)| parts_match(&tuple, conn.tuple(direction), parts))
        });
        family
            && zone
            && tuples
            && conn.mark() & self.mark.1 == self.mark.0
            && conn.status().bits() & self.status.1 == self.status.0
    }
}

/// True if the parts of a tuple that count are equal (`ctnetlink_filter_match_tuple`).
fn parts_match(wanted: &Tuple, tuple: &Tuple, parts: u32) -> bool {
    let differs = |bits: u32, equal: bool| parts & bits != 0 && !equal;
    let (mut source, mut kind, mut code) = (0, 0, 0);
    let mut destination = 0;
    match tuple.protocol {
        protocol::TCP | protocol::UDP => (source, destination) = (part::SRC_PORT, part::DST_PORT),
        protocol::ICMP => (source, kind, code) = (part::ICMP_ID, part::ICMP_TYPE, part::ICMP_CODE),
        protocol::ICMPV6 => (source, kind, code) = (part::ICMPV6_ID, part::ICMPV6_TYPE, part::ICMPV6_CODE),
        _ => {}
    }
    !(differs(part::IP_SRC, wanted.source == tuple.source)
        || differs(part::IP_DST, wanted.destination == tuple.destination)
        || differs(part::PROTO_NUM, wanted.protocol == tuple.protocol)
        || differs(source, wanted.source_port == tuple.source_port)
        || differs(destination, wanted.destination_port == tuple.destination_port)
        || differs(kind, wanted.icmp_type() == tuple.icmp_type())
        || differs(code, wanted.icmp_code() == tuple.icmp_code()))
}
