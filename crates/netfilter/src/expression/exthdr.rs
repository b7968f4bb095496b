//! `exthdr`: TCP options, IPv4 options and IPv6 extension headers.

use crate::attributes::{Attributes, NetfilterError, Writer};
use crate::operation::{DumpScope, Operation, Outcome, Passing, Scope};
use crate::packet::{Headers, V6_LEN, update_checksum};
use crate::registers::{Register, Registers};
use belljar_linux_abi::Errno;
use belljar_wire::protocol;
use std::sync::Arc;

/// `NFT_EXTHDR_OP_*`.
const IPV6: u32 = 0;
const TCPOPT: u32 = 1;
const IPV4: u32 = 2;

/// Header or option that an expression is about.
#[derive(Clone, Copy, Debug)]
struct Part {
    operator: u32,
    kind: u8,
    offset: usize,
    len: usize,
}

/// Load of bytes, or of the presence of the header (`present`).
#[derive(Debug)]
struct Load {
    to: Register,
    option: Part,
    present: bool,
}

/// Replacement of bytes of a TCP option.
#[derive(Debug)]
struct Store {
    from: Register,
    option: Part,
}

/// Reads a load or a store.
pub(super) fn read(
    attributes: Attributes<'_>,
    scope: &mut dyn Scope,
) -> Result<Arc<dyn Operation>, NetfilterError> {
    let kind = attributes.need(2)?.value.first().copied().ok_or(Errno::EINVAL)?;
    let (offset, len) = (attributes.need(3)?.u32()?, attributes.need(4)?.u32()?);
    if offset > 255 || len > 255 {
        return Err(Errno::ERANGE.into());
    }
    let operator = attributes.u32(6)?.unwrap_or(IPV6);
    let present = match attributes.u32(5)?.unwrap_or(0) {
        flags @ 0..=1 => flags == 1,
        _ => return Err(Errno::EINVAL.into()),
    };
    if ![IPV6, TCPOPT, IPV4].contains(&operator) {
        return Err(scope.refuse("SCTP chunks and DCCP options in rules".into()).into());
    }
    let option = Part { operator, kind, offset: offset as usize, len: len as usize };
    match (attributes.get(1), attributes.get(7)) {
        (Some(to), None) => {
            let to = Register::read(to, if present { 1 } else { option.len })?;
            Ok(Arc::new(Load { to, option, present }))
        }
        (None, Some(from)) if operator == TCPOPT && [2, 4].contains(&len) && !present => {
            Ok(Arc::new(Store { from: Register::read(from, option.len)?, option }))
        }
        (None, Some(_)) => Err(Errno::EOPNOTSUPP.into()),
        (None, None) => Err(scope.refuse("removal of TCP options by rules".into()).into()),
        (Some(_), Some(_)) => Err(Errno::EINVAL.into()),
    }
}

impl Part {
    fn dump(&self, out: &mut Writer) {
        out.u8(2, self.kind);
        out.u32(3, self.offset as u32);
        out.u32(4, self.len as u32);
        out.u32(6, self.operator);
    }
    /// Range of the header or option in a packet.
    fn find(&self, packet: &[u8], headers: &Headers) -> Option<(usize, usize)> {
        match self.operator {
            TCPOPT => tcp_option(packet, headers, self.kind),
            IPV4 if !headers.v6 => find_option(packet, 20, headers.transport, self.kind),
            IPV6 if headers.v6 => find_extension(packet, headers.end, self.kind),
            _ => None,
        }
    }
}

/// Offset and length of an option of a TCP segment.
pub(crate) fn tcp_option(packet: &[u8], headers: &Headers, kind: u8) -> Option<(usize, usize)> {
    if headers.protocol != Some(protocol::TCP) || headers.fragment_offset != 0 {
        return None;
    }
    let end = headers.transport + usize::from(packet.get(headers.transport + 12)? >> 4) * 4;
    find_option(packet, headers.transport + 20, end.min(headers.end), kind)
}

/// Offset and length of an option in a list of options.
fn find_option(packet: &[u8], start: usize, end: usize, kind: u8) -> Option<(usize, usize)> {
    let mut at = start;
    while at < end {
        let len = match packet.get(at)? {
            0 | 1 => 1,
            _ => usize::from(*packet.get(at + 1)?),
        };
        if len == 0 || at + len > end {
            return None;
        }
        if packet[at] == kind {
            return Some((at, len));
        }
        at += len;
    }
    None
}

/// Offset and length of an IPv6 extension header.
fn find_extension(packet: &[u8], end: usize, kind: u8) -> Option<(usize, usize)> {
    let (mut next, mut at) = (*packet.get(6)?, V6_LEN);
    loop {
        let len = match next {
            0 | 43 | 60 | 135 => (usize::from(*packet.get(at + 1)?) + 1) * 8,
            51 => (usize::from(*packet.get(at + 1)?) + 2) * 4,
            44 => 8,
            _ => return None,
        };
        if at + len > end {
            return None;
        }
        if next == kind {
            return Some((at, len));
        }
        next = packet[at];
        at += len;
    }
}

impl Operation for Load {
    fn name(&self) -> &'static str {
        "exthdr"
    }
    fn dump(&self, _: &dyn DumpScope, out: &mut Writer) {
        out.u32(1, self.to.number());
        self.option.dump(out);
        out.u32(5, u32::from(self.present));
    }
    fn evaluate(&self, registers: &mut Registers, passing: &mut Passing<'_>) -> Outcome {
        let found = self.option.find(passing.bytes(), &passing.headers);
        if self.present {
            registers.store(self.to, &[u8::from(found.is_some())]);
            return Outcome::Continue;
        }
        let Some((at, len)) = found else { return Outcome::Break };
        if self.option.offset + self.option.len > len {
            return Outcome::Break;
        }
        let at = at + self.option.offset;
        registers.store(self.to, &passing.bytes()[at..at + self.option.len]);
        Outcome::Continue
    }
}

impl Operation for Store {
    fn name(&self) -> &'static str {
        "exthdr"
    }
    fn dump(&self, _: &dyn DumpScope, out: &mut Writer) {
        out.u32(7, self.from.number());
        self.option.dump(out);
    }
    fn evaluate(&self, registers: &mut Registers, passing: &mut Passing<'_>) -> Outcome {
        let Some((start, len)) = self.option.find(passing.bytes(), &passing.headers) else {
            return Outcome::Break;
        };
        if self.option.offset + self.option.len > len {
            return Outcome::Break;
        }
        let value = registers.load(self.from, self.option.len).to_vec();
        let (at, transport) = (start + self.option.offset, passing.headers.transport);
        let before = &passing.bytes()[at..at + value.len()];
        // An MSS is only ever made smaller.
        if before == value || self.option.kind == MSS && self.option.len == 2 && before <= &value[..] {
            return Outcome::Continue;
        }
        write_covered(passing.packet.bytes_mut(), at, &value, transport + 16);
        Outcome::Continue
    }
}

/// The TCP option Maximum Segment Size.
const MSS: u8 = 2;

/// Replaces bytes of a segment, and updates its checksum.
pub(crate) fn write_covered(packet: &mut [u8], at: usize, value: &[u8], checksum: usize) {
    // The sum covers whole words from the start of the segment, which is at an even offset.
    let range = at & !1..(at + value.len()).next_multiple_of(2).min(packet.len());
    let before = packet[range.clone()].to_vec();
    packet[at..at + value.len()].copy_from_slice(value);
    let after = packet[range].to_vec();
    update_checksum(packet, checksum, &before, &after);
}
