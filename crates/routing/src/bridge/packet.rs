//! Frames between bridges. All fields are big-endian; the Ethernet header in front has the type [`ETHERTYPE`].
//!
//! | bytes | HELLO (type 1) | link state (2) | unicast data (3) | flooded data (4) |
//! |---|---|---|---|---|
//! | 1 | version, 1 | version | version | version |
//! | 1 | type | type | type | type |
//! | 6 | bridge | originator | egress bridge | ingress bridge |
//! | 4 | hold time, ms | sequence number | | sequence number |
//! | 4 | | lifetime, ms | | |
//! | 1 | | part | hop limit | hop limit |
//! | 6 | | | ingress bridge | |
//! | 2 | number of addresses | number of neighbours | | |
//! | 6 each | interfaces heard here | neighbour bridges | | |
//! | 2 | | number of stations | | |
//! | 6 each | | stations | | |
//! | rest | | | client's frame | client's frame |

use crate::contract::DecodeError;
use crate::reader::Reader;
use belljar_wire::ethernet::Address;
use std::time::Duration;

/// EtherType: the first one that IEEE 802 reserves for local experiments.
pub const ETHERTYPE: u16 = 0x88b5;
/// Length of the longest header before a client's frame.
pub const ENCAPSULATION: usize = 15;
/// Group address of HELLO, link state and flooded frames: locally administered.
pub const ALL_BRIDGES: Address = Address([0x03, 0xbe, 0x11, 0x1a, 0x12, 0x00]);

const VERSION: u8 = 1;
const HELLO: u8 = 1;
const LINK_STATE: u8 = 2;
const UNICAST: u8 = 3;
const FLOOD: u8 = 4;

/// Announcement of a bridge to its neighbours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Address of the bridge.
    pub bridge: Address,
    /// Time after which the bridge counts as lost unless it is heard again.
    pub hold: Duration,
    /// Addresses of the interfaces that the bridge hears on this link.
    pub heard: Vec<Address>,
}

/// A part of a bridge's link state, flooded to all bridges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// Address of the announcing bridge.
    pub originator: Address,
    /// Sequence number of this part; a higher one replaces it.
    pub sequence: u32,
    /// Lifetime of the part.
    pub lifetime: Duration,
    /// Index of the part.
    pub part: u8,
    /// Bridges with a symmetric link to the originator.
    pub neighbors: Vec<Address>,
    /// Stations at the originator's client ports.
    pub stations: Vec<Address>,
}

/// A frame between bridges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// HELLO, for neighbours.
    Hello(Hello),
    /// Link state, flooded to all bridges.
    LinkState(LinkState),
    /// A client's frame, forwarded to the bridge of its destination.
    Unicast {
        /// The bridge that delivers the frame.
        egress: Address,
        /// Remaining hops.
        hop_limit: u8,
        /// The bridge that received the frame from a client.
        ingress: Address,
        /// The client's frame.
        frame: &'a [u8],
    },
    /// A client's frame for all stations, or for a station with unknown bridge.
    Flood {
        /// The bridge that received the frame from a client.
        ingress: Address,
        /// Sequence number assigned by the ingress bridge.
        sequence: u32,
        /// Remaining hops.
        hop_limit: u8,
        /// The client's frame.
        frame: &'a [u8],
    },
}

fn addresses(reader: &mut Reader<'_>) -> Result<Vec<Address>, DecodeError> {
    let count = reader.u16()?;
    (0..count).map(|_| reader.ethernet()).collect()
}

fn put_addresses(out: &mut Vec<u8>, addresses: &[Address]) {
    out.extend((addresses.len() as u16).to_be_bytes());
    addresses.iter().for_each(|address| out.extend(address.0));
}

fn millis(span: Duration) -> [u8; 4] {
    u32::try_from(span.as_millis()).unwrap_or(u32::MAX).to_be_bytes()
}

impl<'a> Frame<'a> {
    /// Parses the payload of an Ethernet frame. Bytes behind HELLO and link state are padding.
    pub fn decode(payload: &'a [u8]) -> Result<Frame<'a>, DecodeError> {
        let mut reader = Reader::new(payload);
        if reader.u8()? != VERSION {
            return Err(DecodeError::Unknown);
        }
        let kind = reader.u8()?;
        let bridge = reader.ethernet()?;
        let span = |ms: u32| Duration::from_millis(u64::from(ms));
        match kind {
            HELLO => {
                let hold = span(reader.u32()?);
                Ok(Frame::Hello(Hello { bridge, hold, heard: addresses(&mut reader)? }))
            }
            LINK_STATE => Ok(Frame::LinkState(LinkState {
                originator: bridge,
                sequence: reader.u32()?,
                lifetime: span(reader.u32()?),
                part: reader.u8()?,
                neighbors: addresses(&mut reader)?,
                stations: addresses(&mut reader)?,
            })),
            UNICAST => {
                let (hop_limit, ingress) = (reader.u8()?, reader.ethernet()?);
                Ok(Frame::Unicast { egress: bridge, hop_limit, ingress, frame: reader.rest() })
            }
            FLOOD => {
                let (sequence, hop_limit) = (reader.u32()?, reader.u8()?);
                Ok(Frame::Flood { ingress: bridge, sequence, hop_limit, frame: reader.rest() })
            }
            _ => Err(DecodeError::Unknown),
        }
    }

    /// Emits the payload of an Ethernet frame.
    pub fn encode(&self) -> Vec<u8> {
        let head = |kind, bridge: &Address| [&[VERSION, kind], &bridge.0[..]].concat();
        match self {
            Frame::Hello(hello) => {
                let mut out = head(HELLO, &hello.bridge);
                out.extend(millis(hello.hold));
                put_addresses(&mut out, &hello.heard);
                out
            }
            Frame::LinkState(state) => {
                let mut out = head(LINK_STATE, &state.originator);
                out.extend(state.sequence.to_be_bytes());
                out.extend(millis(state.lifetime));
                out.push(state.part);
                put_addresses(&mut out, &state.neighbors);
                put_addresses(&mut out, &state.stations);
                out
            }
            Frame::Unicast { egress, hop_limit, ingress, frame } => {
                let mut out = head(UNICAST, egress);
                out.push(*hop_limit);
                out.extend(ingress.0);
                out.extend(*frame);
                out
            }
            Frame::Flood { ingress, sequence, hop_limit, frame } => {
                let mut out = head(FLOOD, ingress);
                out.extend(sequence.to_be_bytes());
                out.push(*hop_limit);
                out.extend(*frame);
                out
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Address = Address([2, 0, 0, 0, 0, 1]);
    const B: Address = Address([2, 0, 0, 0, 0, 2]);

    fn check(frame: Frame<'_>, bytes: &[u8]) {
        assert_eq!(frame.encode(), bytes);
        assert_eq!(Frame::decode(bytes), Ok(frame));
    }

    #[test]
    fn frames_byte_for_byte() {
        let hello = Hello { bridge: A, hold: Duration::from_secs(3), heard: vec![B] };
        check(Frame::Hello(hello), &[1, 1, 2, 0, 0, 0, 0, 1, 0, 0, 0x0b, 0xb8, 0, 1, 2, 0, 0, 0, 0, 2]);
        let lifetime = Duration::from_millis(256);
        let state =
            LinkState { originator: A, sequence: 5, lifetime, part: 1, neighbors: vec![B], stations: vec![] };
        #[rustfmt::skip]
        check(Frame::LinkState(state), &[
            1, 2, 2, 0, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 1, 0, 1, 0, 1, 2, 0, 0, 0, 0, 2, 0, 0,
        ]);
        let unicast = Frame::Unicast { egress: A, hop_limit: 9, ingress: B, frame: &[7, 8] };
        check(unicast, &[1, 3, 2, 0, 0, 0, 0, 1, 9, 2, 0, 0, 0, 0, 2, 7, 8]);
        let flood = Frame::Flood { ingress: B, sequence: 1, hop_limit: 9, frame: &[7, 8] };
        check(flood, &[1, 4, 2, 0, 0, 0, 0, 2, 0, 0, 0, 1, 9, 7, 8]);
    }

    #[test]
    fn what_is_cut_or_unknown_is_refused() {
        let hello = Frame::Hello(Hello { bridge: A, hold: Duration::from_secs(3), heard: vec![B] }).encode();
        assert!((0..hello.len()).all(|len| Frame::decode(&hello[..len]) == Err(DecodeError::Truncated)));
        assert_eq!(Frame::decode(&[2, 1, 0, 0, 0, 0, 0, 0]), Err(DecodeError::Unknown));
        assert_eq!(Frame::decode(&[1, 9, 0, 0, 0, 0, 0, 0]), Err(DecodeError::Unknown));
    }
}
