//! AODV messages (RFC 3561, sections 5 and 6.9). A UDP datagram carries one message.

use crate::contract::DecodeError;
use crate::reader::Reader;
use std::net::Ipv4Addr;
use std::time::Duration;

mod kind {
    pub const RREQ: u8 = 1;
    pub const RREP: u8 = 2;
    pub const RERR: u8 = 3;
    pub const RREP_ACK: u8 = 4;
}

/// Type of the Hello interval extension.
const HELLO_INTERVAL: u8 = 1;
/// Largest number of destinations in one RERR.
pub const MOST_UNREACHABLE: usize = 255;

/// Route request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rreq {
    /// Join flag (J), for multicast.
    pub join: bool,
    /// Repair flag (R), for multicast.
    pub repair: bool,
    /// Gratuitous flag (G): an intermediate node that replies also sends an RREP to the destination.
    pub gratuitous: bool,
    /// Destination-only flag (D): only the destination may reply.
    pub destination_only: bool,
    /// Unknown-sequence-number flag (U).
    pub unknown_sequence: bool,
    /// Number of hops from the originator to the node that sent this message.
    pub hop_count: u8,
    /// RREQ ID; together with the originator it identifies the request.
    pub id: u32,
    /// The destination.
    pub destination: Ipv4Addr,
    /// The last known sequence number of the destination.
    pub destination_sequence: u32,
    /// The node that originated the request.
    pub originator: Ipv4Addr,
    /// Sequence number of the originator.
    pub originator_sequence: u32,
}

/// Route reply; with TTL 1 and a hop count of 0, a Hello message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rrep {
    /// Repair flag (R), for multicast.
    pub repair: bool,
    /// Acknowledgment flag (A): the receiver must return an RREP-ACK.
    pub acknowledge: bool,
    /// If not zero, the same next hop leads to all addresses with the destination's prefix of this length.
    pub prefix_size: u8,
    /// Number of hops from the node that sent this message to the destination.
    pub hop_count: u8,
    /// The destination.
    pub destination: Ipv4Addr,
    /// Sequence number of the destination.
    pub destination_sequence: u32,
    /// The node that originated the request.
    pub originator: Ipv4Addr,
    /// Lifetime of the route.
    pub lifetime: Duration,
    /// Hello interval extension, which Hello messages may carry.
    pub hello_interval: Option<Duration>,
}

/// Route error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rerr {
    /// No-delete flag (N): the route was repaired; receivers keep theirs.
    pub no_delete: bool,
    /// Unreachable destinations with their sequence numbers.
    pub unreachable: Vec<(Ipv4Addr, u32)>,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Route request.
    Rreq(Rreq),
    /// Route reply or Hello.
    Rrep(Rrep),
    /// Route error.
    Rerr(Rerr),
    /// Route reply acknowledgment.
    RrepAck,
}

impl Message {
    /// Parses the payload of a datagram.
    pub fn decode(payload: &[u8]) -> Result<Message, DecodeError> {
        let mut reader = Reader::new(payload);
        match reader.u8()? {
            kind::RREQ => decode_rreq(&mut reader).map(Message::Rreq),
            kind::RREP => decode_rrep(&mut reader).map(Message::Rrep),
            kind::RERR => decode_rerr(&mut reader).map(Message::Rerr),
            kind::RREP_ACK => reader.u8().map(|_| Message::RrepAck),
            _ => Err(DecodeError::Unknown),
        }
    }

    /// Emits the payload of a datagram.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Message::Rreq(rreq) => encode_rreq(rreq),
            Message::Rrep(rrep) => encode_rrep(rrep),
            Message::Rerr(rerr) => encode_rerr(rerr),
            Message::RrepAck => vec![kind::RREP_ACK, 0],
        }
    }
}

fn decode_rreq(reader: &mut Reader<'_>) -> Result<Rreq, DecodeError> {
    let flags = reader.u8()?;
    reader.u8()?;
    let rreq = Rreq {
        join: flags & 0x80 != 0,
        repair: flags & 0x40 != 0,
        gratuitous: flags & 0x20 != 0,
        destination_only: flags & 0x10 != 0,
        unknown_sequence: flags & 0x08 != 0,
        hop_count: reader.u8()?,
        id: reader.u32()?,
        destination: reader.ipv4()?,
        destination_sequence: reader.u32()?,
        originator: reader.ipv4()?,
        originator_sequence: reader.u32()?,
    };
    skip_extensions(reader)?;
    Ok(rreq)
}

fn encode_rreq(rreq: &Rreq) -> Vec<u8> {
    let bits = [rreq.join, rreq.repair, rreq.gratuitous, rreq.destination_only, rreq.unknown_sequence];
    let flags = bits.iter().enumerate().fold(0, |flags, (n, bit)| flags | (u8::from(*bit) << (7 - n)));
    let mut out = vec![kind::RREQ, flags, 0, rreq.hop_count];
    out.extend(rreq.id.to_be_bytes());
    out.extend(rreq.destination.octets());
    out.extend(rreq.destination_sequence.to_be_bytes());
    out.extend(rreq.originator.octets());
    out.extend(rreq.originator_sequence.to_be_bytes());
    out
}

fn decode_rrep(reader: &mut Reader<'_>) -> Result<Rrep, DecodeError> {
    let (flags, prefix) = (reader.u8()?, reader.u8()?);
    let mut rrep = Rrep {
        repair: flags & 0x80 != 0,
        acknowledge: flags & 0x40 != 0,
        prefix_size: prefix & 0x1f,
        hop_count: reader.u8()?,
        destination: reader.ipv4()?,
        destination_sequence: reader.u32()?,
        originator: reader.ipv4()?,
        lifetime: Duration::from_millis(u64::from(reader.u32()?)),
        hello_interval: None,
    };
    while let Some((kind, data)) = next_extension(reader)? {
        if kind == HELLO_INTERVAL {
            rrep.hello_interval = Some(Duration::from_millis(u64::from(Reader::new(data).u32()?)));
        }
    }
    Ok(rrep)
}

fn encode_rrep(rrep: &Rrep) -> Vec<u8> {
    let flags = (u8::from(rrep.repair) << 7) | (u8::from(rrep.acknowledge) << 6);
    let mut out = vec![kind::RREP, flags, rrep.prefix_size & 0x1f, rrep.hop_count];
    out.extend(rrep.destination.octets());
    out.extend(rrep.destination_sequence.to_be_bytes());
    out.extend(rrep.originator.octets());
    out.extend(millis(rrep.lifetime).to_be_bytes());
    if let Some(interval) = rrep.hello_interval {
        out.extend([HELLO_INTERVAL, 4]);
        out.extend(millis(interval).to_be_bytes());
    }
    out
}

fn decode_rerr(reader: &mut Reader<'_>) -> Result<Rerr, DecodeError> {
    let flags = reader.u8()?;
    reader.u8()?;
    let count = reader.u8()?;
    // "DestCount: [...] MUST be at least 1."
    if count == 0 {
        return Err(DecodeError::Value);
    }
    let unreachable =
        (0..count).map(|_| Ok((reader.ipv4()?, reader.u32()?))).collect::<Result<_, DecodeError>>()?;
    skip_extensions(reader)?;
    Ok(Rerr { no_delete: flags & 0x80 != 0, unreachable })
}

fn encode_rerr(rerr: &Rerr) -> Vec<u8> {
    let count = rerr.unreachable.len().min(MOST_UNREACHABLE);
    let mut out = vec![kind::RERR, u8::from(rerr.no_delete) << 7, 0, count as u8];
    for (address, sequence) in &rerr.unreachable[..count] {
        out.extend(address.octets());
        out.extend(sequence.to_be_bytes());
    }
    out
}

/// Section 5.5 (extensions): a type, a length and as many bytes.
fn next_extension<'a>(reader: &mut Reader<'a>) -> Result<Option<(u8, &'a [u8])>, DecodeError> {
    if reader.is_empty() {
        return Ok(None);
    }
    let (kind, len) = (reader.u8()?, usize::from(reader.u8()?));
    Ok(Some((kind, reader.take(len)?)))
}

fn skip_extensions(reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    while next_extension(reader)?.is_some() {}
    Ok(())
}

fn millis(span: Duration) -> u32 {
    u32::try_from(span.as_millis()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: Message, bytes: &[u8]) {
        assert_eq!(message.encode(), bytes);
        assert_eq!(Message::decode(bytes), Ok(message));
        for len in 0..bytes.len() {
            // A truncated message is an error, unless exactly the extension is missing.
            let cut = Message::decode(&bytes[..len]);
            assert!(cut.is_err() || (bytes[0] == 2 && len == 20), "{len} bytes: {cut:?}");
        }
    }

    #[test]
    fn rreq_byte_for_byte() {
        let rreq = Rreq {
            join: false,
            repair: false,
            gratuitous: true,
            destination_only: false,
            unknown_sequence: true,
            hop_count: 3,
            id: 0x0102_0304,
            destination: Ipv4Addr::new(10, 0, 0, 9),
            destination_sequence: 0xffff_fffe,
            originator: Ipv4Addr::new(10, 0, 0, 1),
            originator_sequence: 7,
        };
        #[rustfmt::skip]
        check(Message::Rreq(rreq), &[
            1, 0b0010_1000, 0, 3,
            1, 2, 3, 4,
            10, 0, 0, 9, 0xff, 0xff, 0xff, 0xfe,
            10, 0, 0, 1, 0, 0, 0, 7,
        ]);
    }

    #[test]
    fn rrep_and_hello_byte_for_byte() {
        let rrep = Rrep {
            repair: false,
            acknowledge: true,
            prefix_size: 24,
            hop_count: 2,
            destination: Ipv4Addr::new(10, 0, 0, 9),
            destination_sequence: 5,
            originator: Ipv4Addr::new(10, 0, 0, 1),
            lifetime: Duration::from_millis(6000),
            hello_interval: None,
        };
        check(Message::Rrep(rrep), &[2, 0x40, 24, 2, 10, 0, 0, 9, 0, 0, 0, 5, 10, 0, 0, 1, 0, 0, 0x17, 0x70]);
        let hello = Rrep {
            acknowledge: false,
            prefix_size: 0,
            hop_count: 0,
            hello_interval: Some(Duration::from_secs(1)),
            ..rrep
        };
        check(
            Message::Rrep(hello),
            &[2, 0, 0, 0, 10, 0, 0, 9, 0, 0, 0, 5, 10, 0, 0, 1, 0, 0, 0x17, 0x70, 1, 4, 0, 0, 3, 0xe8],
        );
    }

    #[test]
    fn rerr_and_ack_byte_for_byte() {
        let rerr =
            Rerr { no_delete: true, unreachable: vec![([10, 0, 0, 9].into(), 6), ([10, 0, 0, 8].into(), 1)] };
        check(Message::Rerr(rerr), &[3, 0x80, 0, 2, 10, 0, 0, 9, 0, 0, 0, 6, 10, 0, 0, 8, 0, 0, 0, 1]);
        check(Message::RrepAck, &[4, 0]);
        assert_eq!(Message::decode(&[3, 0, 0, 0]), Err(DecodeError::Value));
        assert_eq!(Message::decode(&[9, 0]), Err(DecodeError::Unknown));
    }
}
