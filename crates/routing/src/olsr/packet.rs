//! OLSR packets and messages (RFC 3626, sections 3.3, 5.1, 6.1, 9.1, 12.1 and 18).

use crate::contract::DecodeError;
use crate::reader::Reader;
use std::net::Ipv4Addr;
use std::time::Duration;

/// Length of a packet header.
pub const PACKET_HEADER_LEN: usize = 4;
/// Length of a message header.
pub const MESSAGE_HEADER_LEN: usize = 12;
/// Largest willingness.
pub const WILL_ALWAYS: u8 = 7;
/// Willingness of a node that never forwards traffic of other nodes.
pub const WILL_NEVER: u8 = 0;

/// Message types of section 18.4.
pub mod kind {
    /// HELLO.
    pub const HELLO: u8 = 1;
    /// Topology control.
    pub const TC: u8 = 2;
    /// Multiple interface declaration.
    pub const MID: u8 = 3;
    /// Host and network association.
    pub const HNA: u8 = 4;
}

/// Offset of the TTL in a message; forwarding changes it and the hop count behind it.
pub(super) const TTL_AT: usize = 8;

/// `C` of section 18.3, 1/16 s, in nanoseconds.
const C: u128 = 62_500_000;

/// Encodes a validity time or interval in 8 bits (section 3.3.2): `C * (1 + a/16) * 2^b` with `a` in the four
/// high bits, rounded up to the next representable value.
pub fn encode_time(span: Duration) -> u8 {
    let ns = span.as_nanos();
    let b = (0..16).rev().find(|&b| ns >= C << b).unwrap_or(0);
    let a = (ns * 16).div_ceil(C << b).saturating_sub(16);
    match (a, b) {
        (0..16, b) => ((a as u8) << 4) | b as u8,
        (_, 15) => 0xff,
        (_, b) => b as u8 + 1,
    }
}

/// Decodes a duration encoded by [`encode_time`].
pub fn decode_time(code: u8) -> Duration {
    let (a, b) = (u64::from(code >> 4), code & 15);
    Duration::from_nanos(((C as u64 * (16 + a)) << b) / 16)
}

/// A message with its header parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Message type, see [`kind`].
    pub kind: u8,
    /// Validity time of the content.
    pub validity: Duration,
    /// Main address of the originator.
    pub originator: Ipv4Addr,
    /// Time to live: remaining hops.
    pub ttl: u8,
    /// Hop count: hops from the originator.
    pub hop_count: u8,
    /// Message sequence number of the originator.
    pub seq: u16,
    /// Body of the message.
    pub body: &'a [u8],
    /// The whole message, including its header.
    pub bytes: &'a [u8],
}

/// Parses a packet into its sequence number and messages.
pub fn decode_packet(payload: &[u8]) -> Result<(u16, Messages<'_>), DecodeError> {
    let mut reader = Reader::new(payload);
    let len = usize::from(reader.u16()?);
    let seq = reader.u16()?;
    if len < PACKET_HEADER_LEN || len > payload.len() {
        return Err(DecodeError::Length);
    }
    Ok((seq, Messages(Reader::new(&payload[PACKET_HEADER_LEN..len]))))
}

/// Iterator over the messages of a packet. It ends after an error.
#[derive(Clone, Copy, Debug)]
pub struct Messages<'a>(Reader<'a>);

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, DecodeError>;
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let message = decode_message(&mut self.0);
        if message.is_err() {
            self.0 = Reader::new(&[]);
        }
        Some(message)
    }
}

fn decode_message<'a>(packet: &mut Reader<'a>) -> Result<Message<'a>, DecodeError> {
    let mut header = *packet;
    let (kind, vtime, size) = (header.u8()?, header.u8()?, usize::from(header.u16()?));
    if size < MESSAGE_HEADER_LEN || size > packet.len() {
        return Err(DecodeError::Length);
    }
    let (originator, ttl, hop_count, seq) = (header.ipv4()?, header.u8()?, header.u8()?, header.u16()?);
    let bytes = packet.take(size)?;
    let body = &bytes[MESSAGE_HEADER_LEN..];
    Ok(Message { kind, validity: decode_time(vtime), originator, ttl, hop_count, seq, body, bytes })
}

/// Fields of a message header that the originator sets.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// Message type, see [`kind`].
    pub kind: u8,
    /// Validity time of the content.
    pub validity: Duration,
    /// Main address of the originator.
    pub originator: Ipv4Addr,
    /// Time to live: remaining hops.
    pub ttl: u8,
    /// Message sequence number.
    pub seq: u16,
}

/// Emits a message from a header and a body.
pub fn encode_message(head: Head, body: &[u8]) -> Vec<u8> {
    let size = (MESSAGE_HEADER_LEN + body.len()) as u16;
    let mut out = vec![head.kind, encode_time(head.validity)];
    out.extend(size.to_be_bytes());
    out.extend(head.originator.octets());
    out.extend([head.ttl, 0]);
    out.extend(head.seq.to_be_bytes());
    out.extend(body);
    out
}

/// Emits a packet from messages.
pub fn encode_packet(seq: u16, messages: &[Vec<u8>]) -> Vec<u8> {
    let len = PACKET_HEADER_LEN + messages.iter().map(Vec::len).sum::<usize>();
    let mut out = Vec::with_capacity(len);
    out.extend((len as u16).to_be_bytes());
    out.extend(seq.to_be_bytes());
    messages.iter().for_each(|message| out.extend(message));
    out
}

/// Link types of section 18.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkType {
    /// No information about the link.
    Unspecified = 0,
    /// The neighbour is heard.
    Asymmetric = 1,
    /// Both sides hear each other.
    Symmetric = 2,
    /// The link is lost.
    Lost = 3,
}

/// Neighbour types of section 18.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NeighborType {
    /// Not a symmetric neighbour.
    Not = 0,
    /// Neighbour with at least one symmetric link.
    Symmetric = 1,
    /// Symmetric neighbour selected as multipoint relay.
    Mpr = 2,
}

/// Link code: state of a link and type of the neighbour, as HELLO messages carry them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkCode {
    /// Type of the link.
    pub link: LinkType,
    /// Type of the neighbour.
    pub neighbor: NeighborType,
}

impl LinkCode {
    /// Encodes the link code in 8 bits.
    pub fn encode(self) -> u8 {
        ((self.neighbor as u8) << 2) | self.link as u8
    }
    /// Decodes an 8-bit link code. `None` for "any other link code" (section 6.1.1) and for a symmetric link
    /// to a node that is not a neighbour.
    pub fn decode(code: u8) -> Option<LinkCode> {
        let link = [LinkType::Unspecified, LinkType::Asymmetric, LinkType::Symmetric, LinkType::Lost]
            [usize::from(code & 3)];
        let neighbor = match code >> 2 {
            0 => NeighborType::Not,
            1 => NeighborType::Symmetric,
            2 => NeighborType::Mpr,
            _ => return None,
        };
        (link != LinkType::Symmetric || neighbor != NeighborType::Not).then_some(LinkCode { link, neighbor })
    }
}

/// Body of a HELLO message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// HELLO interval of the sender on this interface.
    pub interval: Duration,
    /// Willingness of the sender to forward traffic of other nodes.
    pub willingness: u8,
    /// Addresses of neighbours' interfaces with their link codes.
    pub links: Vec<(LinkCode, Ipv4Addr)>,
}

impl Hello {
    /// Parses a body. Link messages with invalid link codes are skipped.
    pub fn decode(body: &[u8]) -> Result<Hello, DecodeError> {
        let mut reader = Reader::new(body);
        reader.u16()?;
        let (interval, willingness) = (decode_time(reader.u8()?), reader.u8()?);
        let mut links = Vec::new();
        while !reader.is_empty() {
            let code = LinkCode::decode(reader.u8()?);
            reader.u8()?;
            let size = usize::from(reader.u16()?).checked_sub(4).ok_or(DecodeError::Length)?;
            let mut addresses = Reader::new(reader.take(size)?);
            while !addresses.is_empty() {
                let address = addresses.ipv4()?;
                links.extend(code.map(|code| (code, address)));
            }
        }
        Ok(Hello { interval, willingness: willingness.min(WILL_ALWAYS), links })
    }
    /// Emits a body. Consecutive links with the same code share a link message.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0, 0, encode_time(self.interval), self.willingness];
        for group in self.links.chunk_by(|(a, _), (b, _)| a == b) {
            out.extend([group[0].0.encode(), 0]);
            out.extend((4 + 4 * group.len() as u16).to_be_bytes());
            group.iter().for_each(|(_, address)| out.extend(address.octets()));
        }
        out
    }
}

/// Body of a TC message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tc {
    /// Advertised neighbour sequence number.
    pub ansn: u16,
    /// Main addresses of the advertised neighbours.
    pub neighbors: Vec<Ipv4Addr>,
}

impl Tc {
    /// Parses a body.
    pub fn decode(body: &[u8]) -> Result<Tc, DecodeError> {
        let mut reader = Reader::new(body);
        let ansn = reader.u16()?;
        reader.u16()?;
        Ok(Tc { ansn, neighbors: decode_addresses(reader.rest())? })
    }
    /// Emits a body.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.ansn.to_be_bytes().to_vec();
        out.extend([0, 0]);
        self.neighbors.iter().for_each(|address| out.extend(address.octets()));
        out
    }
}

/// Parses a body of addresses, as in MID messages.
pub fn decode_addresses(body: &[u8]) -> Result<Vec<Ipv4Addr>, DecodeError> {
    let mut reader = Reader::new(body);
    let mut out = Vec::with_capacity(body.len() / 4);
    while !reader.is_empty() {
        out.push(reader.ipv4()?);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_rfc() {
        // Section 18.3 defines the constants, 3.3.2 the form: 2 s = C * 2^5, 6 s = C * 1.5 * 2^6.
        for (seconds, code) in [(2, 0x05), (5, 0x46), (6, 0x86), (15, 0xe7), (30, 0xe8)] {
            assert_eq!(encode_time(Duration::from_secs(seconds)), code, "{seconds} s");
            assert_eq!(decode_time(code), Duration::from_secs(seconds));
        }
        assert_eq!(decode_time(0), Duration::from_micros(62_500));
        assert_eq!(decode_time(0xff), Duration::from_secs(3968));
        assert_eq!((encode_time(Duration::ZERO), encode_time(Duration::from_secs(100_000))), (0, 0xff));
        // Rounding up crosses into the next power of two.
        assert_eq!(encode_time(Duration::from_millis(124)), 0x01);
    }

    #[test]
    fn every_time_code_survives() {
        for code in 0..=255 {
            assert_eq!(encode_time(decode_time(code)), code);
        }
    }

    #[test]
    fn a_packet_byte_for_byte() {
        let sym = LinkCode { link: LinkType::Symmetric, neighbor: NeighborType::Symmetric };
        let mpr = LinkCode { link: LinkType::Symmetric, neighbor: NeighborType::Mpr };
        let hello = Hello {
            interval: Duration::from_secs(2),
            willingness: 3,
            links: vec![
                (sym, [10, 0, 0, 2].into()),
                (sym, [10, 0, 0, 3].into()),
                (mpr, [10, 0, 0, 4].into()),
            ],
        };
        let head = Head {
            kind: kind::HELLO,
            validity: Duration::from_secs(6),
            originator: [10, 0, 0, 1].into(),
            ttl: 1,
            seq: 0x0102,
        };
        let message = encode_message(head, &hello.encode());
        let packet = encode_packet(0xfffe, std::slice::from_ref(&message));
        #[rustfmt::skip]
        let want = [
            0, 40, 0xff, 0xfe,                      // packet length, packet sequence number
            1, 0x86, 0, 36,                         // type, Vtime, message size
            10, 0, 0, 1, 1, 0, 1, 2,                // originator, TTL, hop count, message sequence number
            0, 0, 0x05, 3,                          // reserved, Htime, willingness
            0b0110, 0, 0, 12, 10, 0, 0, 2, 10, 0, 0, 3, // SYM_NEIGH, SYM_LINK
            0b1010, 0, 0, 8, 10, 0, 0, 4,           // MPR_NEIGH, SYM_LINK
        ];
        assert_eq!(packet, want);
        let (seq, mut messages) = decode_packet(&packet).unwrap();
        let read = messages.next().unwrap().unwrap();
        assert_eq!((seq, read.kind, read.ttl, read.seq), (0xfffe, 1, 1, 0x0102));
        assert_eq!(Hello::decode(read.body).unwrap(), hello);
        assert!(messages.next().is_none());
    }

    #[test]
    fn tc_byte_for_byte() {
        let tc = Tc { ansn: 7, neighbors: vec![[10, 0, 0, 9].into()] };
        assert_eq!(tc.encode(), [0, 7, 0, 0, 10, 0, 0, 9]);
        assert_eq!(Tc::decode(&tc.encode()).unwrap(), tc);
        assert_eq!(Tc::decode(&[0, 7, 0, 0, 10]), Err(DecodeError::Truncated));
    }

    #[test]
    fn link_codes_that_are_not_allowed() {
        assert_eq!(LinkCode::decode(2), None, "a symmetric link to no neighbour");
        assert_eq!(LinkCode::decode(0b1100), None);
        assert_eq!(LinkCode::decode(16), None);
        for code in [0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11] {
            assert_eq!(LinkCode::decode(code).unwrap().encode(), code);
        }
    }

    #[test]
    fn lengths_that_do_not_fit() {
        assert_eq!(decode_packet(&[0, 4]).unwrap_err(), DecodeError::Truncated);
        assert_eq!(decode_packet(&[0, 5, 0, 0]).unwrap_err(), DecodeError::Length);
        let (_, mut messages) = decode_packet(&[0, 16, 0, 0, 1, 0, 0, 13, 10, 0, 0, 1, 1, 0, 0, 0]).unwrap();
        assert_eq!(messages.next(), Some(Err(DecodeError::Length)));
        assert_eq!(messages.next(), None);
        assert_eq!(Hello::decode(&[0, 0, 5, 3, 6, 0, 0, 3]), Err(DecodeError::Length));
    }
}
