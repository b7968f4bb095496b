//! Environment: the parts of a host that rules ask for, and the requests that they leave for it.

use belljar_base::SimTime;
use std::net::IpAddr;

/// Attributes of an interface that rules match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceFacts {
    /// Index, as programs see it.
    pub index: u32,
    /// Name.
    pub name: String,
    /// `ARPHRD_*`.
    pub hardware: u16,
    /// Group.
    pub group: u32,
    /// `rtnl_link_ops` kind, such as `veth`; empty for none.
    pub kind: &'static str,
}

/// Question to the routing tables (`fib`).
#[derive(Clone, Copy, Debug)]
pub struct FibQuestion {
    /// The address that is looked up as a destination.
    pub to: IpAddr,
    /// The other address of the packet.
    pub from: Option<IpAddr>,
    /// Packet mark, 0 if it is not used.
    pub mark: u32,
    /// TOS byte.
    pub tos: u8,
    /// Number of the interface to which the answer is restricted.
    pub interface: Option<usize>,
}

/// Answer of the routing tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FibAnswer {
    /// Type of the address, `RTN_*`.
    pub kind: u8,
    /// Number of the interface of the route.
    pub interface: Option<usize>,
    /// The next hop.
    pub gateway: Option<IpAddr>,
}

/// Owner of the socket that sent a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketOwner {
    /// User id.
    pub uid: u32,
}

/// The host around a ruleset.
pub trait Environment {
    /// The time.
    fn now(&self) -> SimTime;
    /// Nanoseconds of `CLOCK_REALTIME` now.
    fn realtime(&self) -> u64;
    /// An interface by number.
    fn interface(&self, number: usize) -> InterfaceFacts;
    /// A random number.
    fn random(&mut self) -> u32;
    /// A look-up in the routing tables.
    fn fib(&mut self, question: &FibQuestion) -> FibAnswer;
    /// Address of an interface that packets to a destination get by masquerading.
    fn masquerade_address(&mut self, interface: usize, to: IpAddr) -> Option<IpAddr>;
    /// First address of an interface, for redirection of packets of the version.
    fn redirect_address(&mut self, interface: usize, v6: bool) -> Option<IpAddr>;
    /// MTU of an interface in bytes.
    fn mtu(&self, interface: usize) -> usize;
    /// Owner of the socket that sent a packet with a cookie.
    fn socket_owner(&self, cookie: u64) -> Option<SocketOwner>;
}

/// Answer to a packet that a rule rejects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// A TCP segment with RST.
    Reset,
    /// An ICMP or ICMPv6 error Destination Unreachable with this code.
    Unreachable(u8),
}

/// Request of a rule to the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleRequest {
    /// A line for the kernel's log, with its level.
    Log(u8, String),
    /// An answer to the packet.
    Reject(Rejection),
    /// A message for a netlink multicast group of `NETLINK_NETFILTER`.
    Announce(u32, Vec<u8>),
}
