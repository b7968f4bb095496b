//! ICMPv6 (RFC 4443) and neighbour discovery (RFC 4861).

use crate::ethernet::Address;
use crate::{be16, be32, checksum, protocol};
use std::net::Ipv6Addr;

/// Message types.
pub mod kind {
    #![allow(missing_docs)]
    pub const UNREACHABLE: u8 = 1;
    pub const PACKET_TOO_BIG: u8 = 2;
    pub const TIME_EXCEEDED: u8 = 3;
    pub const PARAMETER_PROBLEM: u8 = 4;
    pub const ECHO_REQUEST: u8 = 128;
    pub const ECHO_REPLY: u8 = 129;
    pub const MLD_QUERY: u8 = 130;
    pub const MLD_REPORT: u8 = 131;
    pub const ROUTER_SOLICIT: u8 = 133;
    pub const ROUTER_ADVERT: u8 = 134;
    pub const NEIGHBOUR_SOLICIT: u8 = 135;
    pub const NEIGHBOUR_ADVERT: u8 = 136;
    pub const REDIRECT: u8 = 137;
    pub const MLDV2_REPORT: u8 = 143;
}

/// Length of the header of the messages represented here, in bytes.
pub const HEADER_LEN: usize = 8;
/// Hop limit of neighbour discovery messages; a lower one proves that the sender is not on the link.
pub const DISCOVERY_HOP_LIMIT: u8 = 255;

mod option {
    pub const SOURCE: u8 = 1;
    pub const TARGET: u8 = 2;
    pub const PREFIX: u8 = 3;
    pub const MTU: u8 = 5;
}

/// Prefix Information option: a network announced by a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixInformation {
    /// First address of the network.
    pub prefix: Ipv6Addr,
    /// Prefix length in bits.
    pub len: u8,
    /// True if the addresses are on the link.
    pub on_link: bool,
    /// True if nodes may configure addresses from the prefix.
    pub autonomous: bool,
    /// Valid lifetime in seconds.
    pub valid: u32,
    /// Preferred lifetime in seconds.
    pub preferred: u32,
}

/// Neighbour discovery message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Discovery {
    /// Router Solicitation.
    RouterSolicit {
        /// The sender's hardware address.
        source: Option<Address>,
    },
    /// Router Advertisement.
    RouterAdvert {
        /// Hop limit for nodes on the link; 0 if unspecified.
        hop_limit: u8,
        /// Flags M and O: addresses or other configuration are available by DHCPv6.
        flags: u8,
        /// Lifetime as a default router in seconds.
        lifetime: u16,
        /// Reachable time of neighbours in milliseconds; 0 if unspecified.
        reachable: u32,
        /// Retransmission time of neighbour solicitations in milliseconds; 0 if unspecified.
        retransmit: u32,
        /// Hardware address of the router.
        source: Option<Address>,
        /// MTU of the link.
        mtu: Option<u32>,
        /// Prefixes of the link.
        prefixes: Vec<PrefixInformation>,
    },
    /// Neighbour Solicitation.
    NeighbourSolicit {
        /// Address to resolve.
        target: Ipv6Addr,
        /// The sender's hardware address.
        source: Option<Address>,
    },
    /// Neighbour Advertisement.
    NeighbourAdvert {
        /// Address of the node.
        target: Ipv6Addr,
        /// True if the node is a router.
        router: bool,
        /// True for the reply to a solicitation.
        solicited: bool,
        /// Override flag: replaces a cached hardware address.
        overrides: bool,
        /// Hardware address of the node.
        address: Option<Address>,
    },
}

impl Discovery {
    /// Parses a message; `None` for other types and for messages that fail the validation of RFC 4861
    /// (sections 6.1 and 7.1).
    pub fn parse(message: &[u8]) -> Option<Discovery> {
        let (kind, code) = (*message.first()?, *message.get(1)?);
        let fixed = match kind {
            kind::ROUTER_SOLICIT => 8,
            kind::ROUTER_ADVERT => 16,
            kind::NEIGHBOUR_SOLICIT | kind::NEIGHBOUR_ADVERT => 24,
            _ => return None,
        };
        if code != 0 || message.len() < fixed {
            return None;
        }
        let options = Options::parse(&message[fixed..])?;
        let target = || -> Option<Ipv6Addr> {
            let octets: [u8; 16] = message[8..24].try_into().ok()?;
            Some(Ipv6Addr::from(octets)).filter(|ip| !ip.is_multicast())
        };
        Some(match kind {
            kind::ROUTER_SOLICIT => Discovery::RouterSolicit { source: options.source },
            kind::ROUTER_ADVERT => Discovery::RouterAdvert {
                hop_limit: message[4],
                flags: message[5],
                lifetime: be16(message, 6),
                reachable: be32(message, 8),
                retransmit: be32(message, 12),
                source: options.source,
                mtu: options.mtu,
                prefixes: options.prefixes,
            },
            kind::NEIGHBOUR_SOLICIT => {
                Discovery::NeighbourSolicit { target: target()?, source: options.source }
            }
            _ => Discovery::NeighbourAdvert {
                target: target()?,
                router: message[4] & 0x80 != 0,
                solicited: message[4] & 0x40 != 0,
                overrides: message[4] & 0x20 != 0,
                address: options.target,
            },
        })
    }

    /// Encodes the message between two nodes, with its checksum.
    pub fn emit(&self, src: Ipv6Addr, dst: Ipv6Addr) -> Vec<u8> {
        let mut m = Vec::with_capacity(32);
        match self {
            Discovery::RouterSolicit { source } => {
                m.extend([kind::ROUTER_SOLICIT, 0, 0, 0, 0, 0, 0, 0]);
                put_address(&mut m, option::SOURCE, *source);
            }
            Discovery::RouterAdvert {
                hop_limit,
                flags,
                lifetime,
                reachable,
                retransmit,
                source,
                mtu,
                prefixes,
            } => {
                m.extend([kind::ROUTER_ADVERT, 0, 0, 0, *hop_limit, *flags]);
                m.extend(lifetime.to_be_bytes());
                m.extend(reachable.to_be_bytes());
                m.extend(retransmit.to_be_bytes());
                for p in prefixes {
                    let flags = u8::from(p.on_link) << 7 | u8::from(p.autonomous) << 6;
                    m.extend([option::PREFIX, 4, p.len, flags]);
                    m.extend(p.valid.to_be_bytes());
                    m.extend(p.preferred.to_be_bytes());
                    m.extend([0; 4]);
                    m.extend(p.prefix.octets());
                }
                if let Some(mtu) = mtu {
                    m.extend([option::MTU, 1, 0, 0]);
                    m.extend(mtu.to_be_bytes());
                }
                put_address(&mut m, option::SOURCE, *source);
            }
            Discovery::NeighbourSolicit { target, source } => {
                m.extend([kind::NEIGHBOUR_SOLICIT, 0, 0, 0, 0, 0, 0, 0]);
                m.extend(target.octets());
                put_address(&mut m, option::SOURCE, *source);
            }
            Discovery::NeighbourAdvert { target, router, solicited, overrides, address } => {
                let flags = u8::from(*router) << 7 | u8::from(*solicited) << 6 | u8::from(*overrides) << 5;
                m.extend([kind::NEIGHBOUR_ADVERT, 0, 0, 0, flags, 0, 0, 0]);
                m.extend(target.octets());
                put_address(&mut m, option::TARGET, *address);
            }
        }
        fill_checksum(src, dst, &mut m);
        m
    }
}

fn put_address(message: &mut Vec<u8>, kind: u8, address: Option<Address>) {
    if let Some(address) = address {
        message.extend([kind, 1]);
        message.extend(address.0);
    }
}

#[derive(Default)]
struct Options {
    source: Option<Address>,
    target: Option<Address>,
    mtu: Option<u32>,
    prefixes: Vec<PrefixInformation>,
}

impl Options {
    /// Parses options; `None` if one has length zero or is truncated, in which case RFC 4861 requires the
    /// message to be dropped.
    fn parse(mut rest: &[u8]) -> Option<Options> {
        let mut options = Options::default();
        while let [kind, units, ..] = *rest {
            let len = usize::from(units) * 8;
            if len == 0 || len > rest.len() {
                return None;
            }
            let (this, next) = rest.split_at(len);
            match kind {
                option::SOURCE | option::TARGET => {
                    let address = this[2..8].try_into().ok().map(Address);
                    *(if kind == option::SOURCE { &mut options.source } else { &mut options.target }) =
                        address;
                }
                option::PREFIX if len == 32 => {
                    let octets: [u8; 16] = this[16..32].try_into().ok()?;
                    options.prefixes.push(PrefixInformation {
                        prefix: octets.into(),
                        len: this[2],
                        on_link: this[3] & 0x80 != 0,
                        autonomous: this[3] & 0x40 != 0,
                        valid: be32(this, 4),
                        preferred: be32(this, 8),
                    });
                }
                option::MTU => options.mtu = Some(be32(this, 4)),
                _ => {}
            }
            rest = next;
        }
        rest.is_empty().then_some(options)
    }
}

/// Computes and stores the checksum of a message.
pub fn fill_checksum(src: Ipv6Addr, dst: Ipv6Addr, message: &mut [u8]) {
    message[2..4].fill(0);
    let sum = checksum::transport(src.into(), dst.into(), protocol::ICMPV6, message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_as_they_were_written() {
        let (src, dst) = ("fe80::1".parse().unwrap(), "ff02::1".parse().unwrap());
        let mac = Some(Address([2, 0, 0, 0, 0, 1]));
        let target = "2001:db8::7".parse().unwrap();
        let prefix = PrefixInformation {
            prefix: "2001:db8::".parse().unwrap(),
            len: 64,
            on_link: true,
            autonomous: true,
            valid: 86_400,
            preferred: 14_400,
        };
        for message in [
            Discovery::RouterSolicit { source: mac },
            Discovery::RouterAdvert {
                hop_limit: 64,
                flags: 0x40,
                lifetime: 1_800,
                reachable: 1,
                retransmit: 2,
                source: mac,
                mtu: Some(1_400),
                prefixes: vec![prefix, PrefixInformation { on_link: false, ..prefix }],
            },
            Discovery::NeighbourSolicit { target, source: None },
            Discovery::NeighbourAdvert {
                target,
                router: true,
                solicited: false,
                overrides: true,
                address: mac,
            },
        ] {
            let bytes = message.emit(src, dst);
            assert_eq!(checksum::transport(src.into(), dst.into(), protocol::ICMPV6, &bytes), 0);
            assert_eq!(Discovery::parse(&bytes), Some(message));
        }
    }

    #[test]
    fn what_is_cut_short_or_has_no_length_is_refused() {
        let (src, dst) = ("fe80::1".parse().unwrap(), "ff02::1".parse().unwrap());
        let message = Discovery::NeighbourSolicit { target: src, source: Some(Address([2; 6])) };
        let mut bytes = message.emit(src, dst);
        assert!((0..bytes.len()).all(|len| len == 24 || Discovery::parse(&bytes[..len]).is_none()));
        bytes[25] = 0;
        assert_eq!(Discovery::parse(&bytes), None);
        bytes[25] = 1;
        bytes[8] = 0xff;
        assert_eq!(Discovery::parse(&bytes), None, "a group is nobody's address");
    }
}
