//! `payload`: loads bytes of the packet, or replaces them and updates checksums.

use super::arithmetic::byte_len;
use crate::attributes::{Attributes, NetfilterError, Writer};
use crate::operation::{DumpScope, Operation, Outcome, Passing, Scope};
use crate::packet::{Headers, update_checksum};
use crate::registers::{Register, Registers};
use belljar_linux_abi::Errno;
use belljar_wire::protocol;

/// Header from which an offset counts, `NFT_PAYLOAD_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    Network,
    Transport,
    Inner,
}

impl Base {
    fn read(number: u32, scope: &mut dyn Scope) -> Result<Base, NetfilterError> {
        match number {
            // The hooks of the IP layer see no link-layer header here.
            0 => Err(scope.refuse("link-layer headers in rules".into()).into()),
            1 => Ok(Base::Network),
            2 => Ok(Base::Transport),
            3 => Ok(Base::Inner),
            _ => Err(Errno::EOPNOTSUPP.into()),
        }
    }
    fn number(self) -> u32 {
        match self {
            Base::Network => 1,
            Base::Transport => 2,
            Base::Inner => 3,
        }
    }
    /// Offset of the header in a packet.
    fn offset(self, headers: &Headers, packet: &[u8]) -> Option<usize> {
        match self {
            Base::Network => Some(0),
            _ if headers.protocol.is_none() || headers.fragment_offset != 0 => None,
            Base::Transport => Some(headers.transport),
            Base::Inner => headers.inner(packet),
        }
    }
}

/// Load of bytes.
#[derive(Debug)]
pub(super) struct Load {
    to: Register,
    base: Base,
    offset: usize,
    len: usize,
}

/// Reads a load or a store.
pub(super) fn read(
    attributes: Attributes<'_>,
    scope: &mut dyn Scope,
) -> Result<std::sync::Arc<dyn Operation>, NetfilterError> {
    let base = Base::read(attributes.need(2)?.u32()?, scope)?;
    let offset = attributes.need(3)?.u32()?;
    if offset > 0xffff {
        return Err(Errno::ERANGE.into());
    }
    let (offset, len) = (offset as usize, byte_len(attributes.need(4)?.u32()?)?);
    match (attributes.get(1), attributes.get(5)) {
        (Some(register), None) => {
            Ok(std::sync::Arc::new(Load { to: Register::read(register, len)?, base, offset, len }))
        }
        (None, Some(register)) => {
            let from = Register::read(register, len)?;
            let checksum = match attributes.u32(6)?.unwrap_or(0) {
                0 => None,
                1 => Some(attributes.u32(7)?.unwrap_or(0) as usize & 0xffff),
                _ => return Err(scope.refuse("SCTP checksums in rules".into()).into()),
            };
            let pseudo_header = match attributes.u32(8)?.unwrap_or(0) {
                flags @ 0..=1 => flags == 1,
                _ => return Err(Errno::EINVAL.into()),
            };
            Ok(std::sync::Arc::new(Store { from, base, offset, len, checksum, pseudo_header }))
        }
        (Some(_), Some(_)) => Err(Errno::EINVAL.into()),
        (None, None) => Err(Errno::EOPNOTSUPP.into()),
    }
}

impl Operation for Load {
    fn name(&self) -> &'static str {
        "payload"
    }
    fn dump(&self, _: &dyn DumpScope, out: &mut Writer) {
        out.u32(1, self.to.number());
        out.u32(2, self.base.number());
        out.u32(3, self.offset as u32);
        out.u32(4, self.len as u32);
    }
    fn evaluate(&self, registers: &mut Registers, passing: &mut Passing<'_>) -> Outcome {
        let packet = &passing.packet.bytes()[..passing.headers.end];
        let Some(base) = self.base.offset(&passing.headers, packet) else { return Outcome::Break };
        let at = base + self.offset;
        let Some(bytes) = packet.get(at..at + self.len) else { return Outcome::Break };
        registers.store(self.to, bytes);
        Outcome::Continue
    }
}

/// Replacement of bytes.
#[derive(Debug)]
struct Store {
    from: Register,
    base: Base,
    offset: usize,
    len: usize,
    /// Offset of the checksum in the header, if it covers the bytes.
    checksum: Option<usize>,
    /// True if the bytes are part of the pseudo header of the transport protocol.
    pseudo_header: bool,
}

impl Operation for Store {
    fn name(&self) -> &'static str {
        "payload"
    }
    fn dump(&self, _: &dyn DumpScope, out: &mut Writer) {
        out.u32(5, self.from.number());
        out.u32(2, self.base.number());
        out.u32(3, self.offset as u32);
        out.u32(4, self.len as u32);
        out.u32(6, u32::from(self.checksum.is_some()));
        out.u32(7, self.checksum.unwrap_or(0) as u32);
        out.u32(8, u32::from(self.pseudo_header));
    }
    fn evaluate(&self, registers: &mut Registers, passing: &mut Passing<'_>) -> Outcome {
        let headers = passing.headers;
        let Some(base) = self.base.offset(&headers, passing.packet.bytes()) else { return Outcome::Break };
        let at = base + self.offset;
        let packet = passing.packet.bytes_mut();
        if at + self.len > headers.end {
            return Outcome::Break;
        }
        let value = registers.load(self.from, self.len).to_vec();
        // The sum covers whole words.
        let range = at & !1..(at + self.len).next_multiple_of(2).min(headers.end);
        let before = packet[range.clone()].to_vec();
        packet[at..at + self.len].copy_from_slice(&value);
        let after = packet[range].to_vec();
        if let Some(offset) = self.checksum {
            update_checksum(packet, base + offset, &before, &after);
        }
        if self.pseudo_header
            && headers.fragment_offset == 0
            && let Some(at) = headers.checksum_offset()
            && !(headers.protocol == Some(protocol::UDP) && packet.get(at..at + 2) == Some(&[0, 0]))
        {
            update_checksum(packet, at, &before, &after);
        }
        passing.headers = Headers::of(passing.packet.bytes());
        Outcome::Continue
    }
}
