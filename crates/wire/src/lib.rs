//! Protocol headers as bytes and as plain values. Each protocol is one module of the same form:
//!
//! * the offsets of its fields,
//! * a *view* (`Packet<T>` or `Frame<T>`) over bytes, checked once for length and then read by getters,
//! * a *representation* (`Repr`): the fields used by Belljar as a plain value, with `parse` from a view and
//!   `emit` into bytes.
//!
//! | module | protocol | not covered |
//! |---|---|---|
//! | [`ethernet`] | Ethernet II | 802.3 length frames, VLAN tags |
//! | [`arp`] | ARP for IPv4 over Ethernet | other hardware or protocol addresses |
//! | [`ipv4`] | IPv4 (RFC 791), fragment fields included | options are skipped, never emitted |
//! | [`icmpv4`] | echo, destination unreachable, time exceeded | other types parse as unsupported |
//! | [`ipv6`] | IPv6 (RFC 8200) with its extension headers, which are read over | options are not acted on |
//! | [`icmpv6`] | neighbour discovery (RFC 4861); the types of other messages | |
//! | [`udp`] | UDP (RFC 768) | |
//! | [`tcp`] | TCP (RFC 9293) with the options of RFC 7323 and RFC 2018 | urgent data is carried, unknown options are skipped |
//!
//! The crate reads no clock, allocates nothing per packet and is independent of senders and receivers.
#![forbid(unsafe_code)]

pub mod arp;
pub mod checksum;
mod ecn;
mod error;
pub mod ethernet;
pub mod icmpv4;
pub mod icmpv6;
pub mod ipv4;
pub mod ipv6;
pub mod tcp;
pub mod udp;

pub use ecn::Ecn;
pub use error::ParseError;

/// Values of the IPv4 `protocol` field, as assigned by IANA.
pub mod protocol {
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// UDP-Lite.
    pub const UDP_LITE: u8 = 136;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
}

/// Big-endian 16-bit word at offset `at`, whose presence the view has checked.
fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Big-endian 32-bit word at offset `at`.
fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Writes `value` at offset `at` in network byte order.
fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Writes `value` at offset `at` in network byte order.
fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}
