//! Options of the levels `IPPROTO_IP` and `IPPROTO_IPV6`, common to all INET sockets.

use super::ident::Idents;
use super::membership::Membership;
use std::net::{Ipv4Addr, Ipv6Addr};

/// IP-level options of a socket: header fields of sent packets, and control messages requested for received
/// ones.
#[derive(Clone, Debug)]
pub struct IpOptions {
    /// The next IPv4 identification of the socket, once it has sent a packet to a peer.
    pub ident: Option<u16>,
    /// `IP_TOS`, `IPV6_TCLASS`.
    pub tos: u8,
    /// `IP_TTL`; `None` for the default of 64.
    pub ttl: Option<u8>,
    /// `IPV6_UNICAST_HOPS`; `None` for the default.
    pub hop_limit: Option<u8>,
    /// `IP_MTU_DISCOVER`: `IP_PMTUDISC_*`.
    pub mtu_discover: i32,
    /// `IPV6_AUTOFLOWLABEL`: IPv6 packets carry a flow label.
    pub flow_label: bool,
    /// `IPV6_V6ONLY`.
    pub v6_only: bool,
    /// `IP_PKTINFO`.
    pub receive_pktinfo: bool,
    /// `IPV6_RECVPKTINFO`.
    pub receive_pktinfo6: bool,
    /// `IP_RECVTTL`, `IPV6_RECVHOPLIMIT`.
    pub receive_ttl: bool,
    /// `IP_RECVTOS`, `IPV6_RECVTCLASS`.
    pub receive_tos: bool,
    /// `IP_RECVORIGDSTADDR`.
    pub receive_destination: bool,
    /// `IP_RECVERR`, `IPV6_RECVERR`.
    pub receive_errors: bool,
    /// `IP_FREEBIND`.
    pub free_bind: bool,
    /// `IP_BIND_ADDRESS_NO_PORT`.
    pub bind_address_no_port: bool,
    /// `IP_MULTICAST_TTL`.
    pub multicast_ttl: u8,
    /// `IP_MULTICAST_LOOP`.
    pub multicast_loop: bool,
    /// `IP_MULTICAST_IF`: output interface and source address of multicast packets.
    pub multicast_interface: (Option<usize>, Ipv4Addr),
    /// `IP_MULTICAST_ALL`: a socket without a membership receives all groups that the host receives.
    pub multicast_all: bool,
    /// Memberships: `IP_ADD_MEMBERSHIP` and `IP_ADD_SOURCE_MEMBERSHIP`.
    pub groups: Vec<Membership>,
    /// `IPV6_MULTICAST_HOPS`.
    pub multicast_hops: u8,
    /// `IPV6_MULTICAST_LOOP`.
    pub multicast_loop6: bool,
    /// `IPV6_MULTICAST_IF`: the interface's index.
    pub multicast_if6: Option<u32>,
    /// Memberships: `IPV6_JOIN_GROUP`, by interface number and group.
    pub groups6: Vec<(usize, Ipv6Addr)>,
    /// Options that are only stored: level, name and value.
    pub kept: Vec<(i32, i32, i32)>,
}

impl IpOptions {
    /// True if the socket ignores ICMP errors about the path MTU (`IP_PMTUDISC_DONT`).
    pub fn ignores_path_mtu(&self) -> bool {
        self.mtu_discover == belljar_linux_abi::c::IP_PMTUDISC_DONT
    }
    /// Allocates the IPv4 identifications of the next `packets` packets. Returns the first.
    pub fn next_ident(&mut self, idents: &mut Idents, packets: usize) -> u16 {
        let ident = *self.ident.get_or_insert_with(|| idents.random());
        self.ident = Some(ident.wrapping_add(packets as u16));
        ident
    }
}

impl Default for IpOptions {
    fn default() -> IpOptions {
        IpOptions {
            ident: None,
            tos: 0,
            ttl: None,
            hop_limit: None,
            mtu_discover: belljar_linux_abi::c::IP_PMTUDISC_WANT,
            flow_label: true,
            v6_only: false,
            receive_pktinfo: false,
            receive_pktinfo6: false,
            receive_ttl: false,
            receive_tos: false,
            receive_destination: false,
            receive_errors: false,
            free_bind: false,
            bind_address_no_port: false,
            multicast_ttl: 1,
            multicast_loop: true,
            multicast_interface: (None, Ipv4Addr::UNSPECIFIED),
            multicast_all: true,
            groups: Vec::new(),
            multicast_hops: 1,
            multicast_loop6: true,
            multicast_if6: None,
            groups6: Vec::new(),
            kept: Vec::new(),
        }
    }
}
