//! State of tunnels over IP: see [`ip_tunnel`](super::ip_tunnel).

use crate::interface::DeviceKind;
use belljar_wire::ethernet::HEADER_LEN;
use belljar_wire::udp;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A GRE header has a checksum.
pub const GRE_CSUM: u16 = 0x8000;
/// A GRE header has a key.
pub const GRE_KEY: u16 = 0x2000;
/// A GRE header has a sequence number.
pub const GRE_SEQ: u16 = 0x1000;
/// Length of the header of Geneve in bytes.
pub(super) const GENEVE_LEN: usize = 8;
/// Tunnel encapsulation limit of IPv6 tunnels, a destination option (RFC 2473): its length in bytes.
const LIMIT_LEN: usize = 8;

/// A tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpTunnel {
    /// Kind of the device.
    pub kind: DeviceKind,
    /// Address of this end, if it is given.
    pub local: Option<IpAddr>,
    /// Address of the far end; `None` if each packet has its own.
    pub remote: Option<IpAddr>,
    /// Number of the interface by which packets leave, if it is given.
    pub link: Option<usize>,
    /// TTL; 0 for that of the inner packet.
    pub ttl: u8,
    /// True if the TTL is that of the inner packet (Geneve).
    pub ttl_inherit: bool,
    /// Type of service; 1 for that of the inner packet.
    pub tos: u8,
    /// True if packets over IPv4 must not be fragmented.
    pub pmtudisc: bool,
    /// Flags of received and sent GRE headers.
    pub flags: (u16, u16),
    /// Keys of received and sent packets (GRE); network identifier twice (Geneve).
    pub keys: (u32, u32),
    /// Protocol of inner packets: 4, 41 or 0 for both.
    pub proto: u8,
    /// UDP port (Geneve).
    pub port: u16,
    /// True if UDP datagrams have a checksum (Geneve).
    pub udp_csum: bool,
    /// Encapsulation limit (IPv6 tunnels); `None` for packets without the option.
    pub limit: Option<u8>,
    /// Sequence number of the next packet.
    pub sequence: u32,
}

impl IpTunnel {
    /// Length of the headers that the tunnel adds to a packet or frame, in bytes.
    pub fn overhead(&self) -> usize {
        let v6 = self.remote.or(self.local).is_some_and(|ip| ip.is_ipv6());
        let ip = if v6 || self.kind == DeviceKind::Ip6tnl { 40 } else { 20 };
        let words = (self.flags.1 & (GRE_CSUM | GRE_KEY | GRE_SEQ)).count_ones() as usize;
        ip + match self.kind {
            DeviceKind::Gre => 4 + 4 * words,
            DeviceKind::Gretap => 4 + 4 * words + HEADER_LEN,
            DeviceKind::Geneve => udp::HEADER_LEN + GENEVE_LEN + HEADER_LEN,
            DeviceKind::Ip6tnl if self.limit.is_some() => LIMIT_LEN,
            _ => 0,
        }
    }
    /// True if packets of this IP protocol with these addresses and key enter here, with the number of addresses that
    /// match.
    pub(super) fn rank(&self, (from, to): (IpAddr, IpAddr), key: Option<u32>) -> Option<usize> {
        let fits = |own: Option<IpAddr>, ip: IpAddr| own.is_none_or(|own| own == ip);
        let key_fits = match self.flags.0 & GRE_KEY != 0 {
            true => key == Some(self.keys.0),
            false => key.is_none(),
        };
        let is_gre = matches!(self.kind, DeviceKind::Gre | DeviceKind::Gretap);
        let fits = fits(self.remote, from) && fits(self.local, to) && (key_fits || !is_gre);
        fits.then(|| usize::from(self.remote.is_some()) * 2 + usize::from(self.local.is_some()))
    }
}

/// The hardware address of a tunnel's interface: that of its end. Empty without one.
pub fn address_bytes(tunnel: &IpTunnel, ip: Option<IpAddr>) -> Vec<u8> {
    let v6 = tunnel.kind == DeviceKind::Ip6tnl;
    match ip {
        Some(IpAddr::V4(ip)) => ip.octets().to_vec(),
        Some(IpAddr::V6(ip)) => ip.octets().to_vec(),
        None if v6 => Ipv6Addr::UNSPECIFIED.octets().to_vec(),
        None => Ipv4Addr::UNSPECIFIED.octets().to_vec(),
    }
}
