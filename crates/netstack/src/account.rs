//! Account of the packets in a stack: the origin and the disposition of each.
//!
//! The location is the interior of one stack, between its network interface cards
//! ([`Nic`](belljar_net::Nic)) and its sockets. Between two calls of the stack its account balances:
//! received + originated = sent + consumed + dropped + held ([`PacketAccount`]).
//!
//! *Entry.* A packet is received from a card, after the card has counted it in `packets_in`, or from the
//! stack of another network namespace over a veth pair. Other packets originate in the stack ([`Origin`]). A
//! message of a program that fails before its packet is complete (no route, `EMSGSIZE`) is not a packet.
//!
//! *Disposition.* The functions of the packet path return the [`PacketDisposition`] of their packet, and the
//! entry point counts it. A new branch therefore cannot omit it. Packets in queues
//! ([`PacketDisposition::HELD`]) are counted when they leave the queue; their present number is the sum of the
//! queue lengths.
//!
//! *Single packets.* A forwarded packet stays the same packet, as does a packet that passes a VLAN or a veth
//! pair within the stack. A datagram that is fragmented continues as one of its fragments; the others
//! originate ([`Origin::Fragments`]). A reassembled datagram continues one of its fragments; the others are
//! consumed ([`Receiver::Reassembly`]). Coalesced datagrams over `lo` are one packet, as is a datagram of
//! which several sockets receive copies.
//!
//! *Exclusions.* Not packets of the stack: drops by a card, copies for packet sockets and captures, frames
//! that arrive while the host or the interface is down, and packets in transit.

use belljar_base::{Footprint, PacketAccount};
use belljar_linux_abi::Errno;

/// Origin of a packet made in the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Origin {
    /// Additional fragments of a packet, local or forwarded.
    Fragments,
    /// Copies of multicast and broadcast packets for this host.
    LoopbackCopies,
    /// Responses of the name server of a host that is not attached to the graph, as received.
    Resolver,
    /// Copies of frames that devices made inside the host send to several ports.
    DeviceCopies,
    /// BPDUs of bridges.
    Stp,
    /// Packets that leave a tunnel, and those that carry others through one.
    Tunnel,
    /// Duplicates of netem, and copies that actions of traffic control make.
    TrafficControl,
    /// Packets and frames written to TUN and TAP interfaces by programs.
    Tun,
    /// Frames of packet sockets.
    PacketSocket,
    /// Neighbour discovery messages, with router solicitations and advertisements.
    Ndp,
    /// ARP requests and replies.
    Arp,
    /// MLD reports.
    Mld,
    /// IGMP reports.
    Igmp,
    /// Packets of raw sockets.
    Raw,
    /// ICMP and ICMPv6 errors and replies, and echo requests of ping sockets.
    Icmp,
    /// TCP segments, with resets and SYN cookies.
    Tcp,
    /// Datagrams of UDP and UDP-Lite sockets.
    Udp,
}

impl Origin {
    /// All origins, in the order of their values.
    pub const ALL: [Origin; 17] = [
        Origin::Fragments,
        Origin::LoopbackCopies,
        Origin::Resolver,
        Origin::DeviceCopies,
        Origin::Stp,
        Origin::Tunnel,
        Origin::TrafficControl,
        Origin::Tun,
        Origin::PacketSocket,
        Origin::Ndp,
        Origin::Arp,
        Origin::Mld,
        Origin::Igmp,
        Origin::Raw,
        Origin::Icmp,
        Origin::Tcp,
        Origin::Udp,
    ];

    /// The origin's name in results.
    pub fn name(self) -> &'static str {
        match self {
            Origin::Fragments => "fragments",
            Origin::LoopbackCopies => "loopback_copies",
            Origin::Resolver => "resolver",
            Origin::DeviceCopies => "device_copies",
            Origin::Stp => "stp",
            Origin::Tunnel => "tunnel",
            Origin::TrafficControl => "traffic_control",
            Origin::Tun => "tun",
            Origin::PacketSocket => "packet_socket",
            Origin::Ndp => "ndp",
            Origin::Arp => "arp",
            Origin::Mld => "mld",
            Origin::Igmp => "igmp",
            Origin::Raw => "raw",
            Origin::Icmp => "icmp",
            Origin::Tcp => "tcp",
            Origin::Udp => "udp",
        }
    }
}

/// Receiver of a packet in the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Receiver {
    /// A UDP or UDP-Lite socket.
    Udp,
    /// A TCP connection or listener.
    Tcp,
    /// ICMP or ICMPv6, with raw and ping sockets.
    Icmp,
    /// IGMP.
    Igmp,
    /// MLD: queries.
    Mld,
    /// ARP, for requests and replies of all hosts. Includes requests of packet sockets to the graph.
    Arp,
    /// Neighbour discovery.
    Ndp,
    /// A raw socket, for a protocol that the stack does not implement.
    Raw,
    /// A packet socket, for an EtherType that the stack does not implement. Approximate: any frame of such a
    /// type while packet sockets are open.
    PacketSocket,
    /// The name server of a host that is not attached to the graph.
    Resolver,
    /// The queue of a program at a TUN or TAP interface.
    Tun,
    /// STP of a bridge: BPDUs.
    Stp,
    /// A tunnel, which carries the packet in others or takes it out of them.
    Tunnel,
    /// An action of traffic control, which consumes the packet.
    TrafficControl,
    /// A dummy interface, which discards the packets that it transmits.
    Dummy,
    /// None: the address filter of the interface rejected the packet. A frame to the hardware address of
    /// another station or to a VLAN without an interface, a multicast packet without members.
    OtherAddress,
    /// A datagram in reassembly that other fragments complete.
    Reassembly,
}

impl Receiver {
    /// All receivers, in the order of their values.
    pub const ALL: [Receiver; 17] = [
        Receiver::Udp,
        Receiver::Tcp,
        Receiver::Icmp,
        Receiver::Igmp,
        Receiver::Mld,
        Receiver::Arp,
        Receiver::Ndp,
        Receiver::Raw,
        Receiver::PacketSocket,
        Receiver::Resolver,
        Receiver::Tun,
        Receiver::Stp,
        Receiver::Tunnel,
        Receiver::TrafficControl,
        Receiver::Dummy,
        Receiver::OtherAddress,
        Receiver::Reassembly,
    ];

    /// The receiver's name in results.
    pub fn name(self) -> &'static str {
        match self {
            Receiver::Udp => "udp",
            Receiver::Tcp => "tcp",
            Receiver::Icmp => "icmp",
            Receiver::Igmp => "igmp",
            Receiver::Mld => "mld",
            Receiver::Arp => "arp",
            Receiver::Ndp => "ndp",
            Receiver::Raw => "raw",
            Receiver::PacketSocket => "packet_socket",
            Receiver::Resolver => "resolver",
            Receiver::Tun => "tun",
            Receiver::Stp => "stp",
            Receiver::Tunnel => "tunnel",
            Receiver::TrafficControl => "traffic_control",
            Receiver::Dummy => "dummy",
            Receiver::OtherAddress => "other_address",
            Receiver::Reassembly => "reassembly",
        }
    }
}

/// Reason for which the stack drops a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DropCause {
    /// Truncated, or a header or message is not valid.
    Malformed,
    /// A wrong checksum, none where the protocol requires one, or one that covers less than the socket
    /// requires (UDP-Lite).
    Checksum,
    /// No socket of the port, connection or protocol, which an ICMP error or a reset may report. Includes ESP
    /// in UDP without a security association.
    NoSocket,
    /// An EtherType, or a version of IP, that the stack or the medium does not support.
    UnknownProtocol,
    /// The receive buffer of the socket was full.
    ReceiveBufferFull,
    /// The filter of the socket (`SO_ATTACH_FILTER`) rejected the packet.
    SocketFilter,
    /// A SYN or a completed handshake found the queue of its listener full.
    ListenOverflow,
    /// The TTL or the hop limit expired. Includes multicast and broadcast packets sent with TTL 0, which do
    /// not leave the host.
    TtlExpired,
    /// A packet to be forwarded has no route, or one that rejects it.
    NoRoute,
    /// A packet to be forwarded exceeds the MTU and must not be fragmented.
    TooBig,
    /// Reverse path filtering (`rp_filter`) rejected the source address.
    ReversePath,
    /// A packet to be forwarded is a martian: an address is not that of a host, or the packet was received by
    /// link-layer multicast or broadcast.
    Martian,
    /// A packet for another host, on an interface that does not forward.
    ForwardingOff,
    /// IPv6 is disabled on the interface.
    Ipv6Disabled,
    /// Fragments that did not make a datagram: timeout, overlap, duplicate, contradiction, or no memory.
    Reassembly,
    /// Packets that waited for a neighbour: its resolution failed, its queue was full, or its entry was
    /// deleted.
    Neighbour,
    /// The interface was down or deleted, or its program had detached.
    InterfaceDown,
    /// A veth interface had no carrier.
    NoCarrier,
    /// A packet hook dropped the packet ([`hooks`](crate::ip::hooks)).
    Hook,
    /// A queueing discipline of traffic control dropped the packet: a full queue, a control of the delay, a rate.
    Discipline,
    /// The loss of netem.
    NetemLoss,
    /// An action of traffic control dropped the packet, or passed it to an interface that was down.
    TrafficFilter,
    /// A bridge does not forward the frame: by the states of its ports, its VLANs or flags, or for lack of another port.
    Bridge,
    /// A bond has no port for the frame, or received it by a port that is not active.
    Bond,
    /// An ipvlan does not pass the packet on: to another one in private mode, or to a group in mode l3.
    Ipvlan,
    /// A tunnel has no destination or no route for the packet, or does not take the one received.
    Tunnel,
    /// No peer of a WireGuard interface has the network of the destination.
    WireguardNoPeer,
    /// The address of the peer of a WireGuard interface is not known yet.
    WireguardNoEndpoint,
    /// The packet waited for a session with a WireGuard peer in vain: the peer does not answer, its queue was full,
    /// or it was removed.
    WireguardNoSession,
    /// A handshake message of WireGuard that is not authentic, is replayed or has no cookie where one is due.
    WireguardHandshake,
    /// Data of WireGuard without a key, with one that has expired, or not authentic.
    WireguardKey,
    /// Data of WireGuard that were received before.
    WireguardReplay,
    /// A packet through WireGuard whose source is not one of its peer's networks.
    WireguardSource,
    /// Devices inside the host pass the packet on in a circle.
    DeviceLoop,
    /// The queue of the program at a TUN or TAP interface was full.
    TunQueueFull,
    /// The power cut of the host found the packet in the stack.
    HostDown,
    /// The receive ring of a host with a processor was full ([`cpu`](crate::cpu)): packets of `eth0` alone.
    /// Frames of links that find the ring full are not received by the stack.
    Backlog,
}

impl DropCause {
    /// All reasons, in the order of their values.
    pub const ALL: [DropCause; 37] = [
        DropCause::Malformed,
        DropCause::Checksum,
        DropCause::NoSocket,
        DropCause::UnknownProtocol,
        DropCause::ReceiveBufferFull,
        DropCause::SocketFilter,
        DropCause::ListenOverflow,
        DropCause::TtlExpired,
        DropCause::NoRoute,
        DropCause::TooBig,
        DropCause::ReversePath,
        DropCause::Martian,
        DropCause::ForwardingOff,
        DropCause::Ipv6Disabled,
        DropCause::Reassembly,
        DropCause::Neighbour,
        DropCause::InterfaceDown,
        DropCause::NoCarrier,
        DropCause::Hook,
        DropCause::Discipline,
        DropCause::NetemLoss,
        DropCause::TrafficFilter,
        DropCause::Bridge,
        DropCause::Bond,
        DropCause::Ipvlan,
        DropCause::Tunnel,
        DropCause::WireguardNoPeer,
        DropCause::WireguardNoEndpoint,
        DropCause::WireguardNoSession,
        DropCause::WireguardHandshake,
        DropCause::WireguardKey,
        DropCause::WireguardReplay,
        DropCause::WireguardSource,
        DropCause::DeviceLoop,
        DropCause::TunQueueFull,
        DropCause::HostDown,
        DropCause::Backlog,
    ];

    /// The reason's name in results.
    pub fn name(self) -> &'static str {
        match self {
            DropCause::Malformed => "malformed",
            DropCause::Checksum => "checksum",
            DropCause::NoSocket => "no_socket",
            DropCause::UnknownProtocol => "unknown_protocol",
            DropCause::ReceiveBufferFull => "receive_buffer_full",
            DropCause::SocketFilter => "socket_filter",
            DropCause::ListenOverflow => "listen_overflow",
            DropCause::TtlExpired => "ttl_expired",
            DropCause::NoRoute => "no_route",
            DropCause::TooBig => "too_big",
            DropCause::ReversePath => "reverse_path",
            DropCause::Martian => "martian",
            DropCause::ForwardingOff => "forwarding_off",
            DropCause::Ipv6Disabled => "ipv6_disabled",
            DropCause::Reassembly => "reassembly",
            DropCause::Neighbour => "neighbour",
            DropCause::InterfaceDown => "interface_down",
            DropCause::NoCarrier => "no_carrier",
            DropCause::Hook => "hook",
            DropCause::Discipline => "qdisc",
            DropCause::NetemLoss => "netem_loss",
            DropCause::TrafficFilter => "tc_filter",
            DropCause::Bridge => "bridge",
            DropCause::Bond => "bond",
            DropCause::Ipvlan => "ipvlan",
            DropCause::Tunnel => "tunnel",
            DropCause::WireguardNoPeer => "wireguard_no_peer",
            DropCause::WireguardNoEndpoint => "wireguard_no_endpoint",
            DropCause::WireguardNoSession => "wireguard_no_session",
            DropCause::WireguardHandshake => "wireguard_handshake",
            DropCause::WireguardKey => "wireguard_key",
            DropCause::WireguardReplay => "wireguard_replay",
            DropCause::WireguardSource => "wireguard_source",
            DropCause::DeviceLoop => "device_loop",
            DropCause::TunQueueFull => "tun_queue_full",
            DropCause::HostDown => "host_down",
            DropCause::Backlog => "backlog",
        }
    }
}

/// Disposition of a packet that a function of the packet path has processed.
///
/// It is the index of a counter, so that an entry point counts it without a branch. The dispositions up to
/// the last receiver are those of packets that were transmitted or accepted; see
/// [`is_queued`](Self::is_queued).
#[must_use = "the packet is missing from the account"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketDisposition(u8);

/// Index of the first receiver's counter; the others follow in the order of [`Receiver::ALL`].
const FIRST_RECEIVER: u8 = 3;
/// Index of the counter of packets that a card refused; those of the drop causes follow.
const REFUSED: u8 = FIRST_RECEIVER + Receiver::ALL.len() as u8;
/// Number of counters: a power of two, so that a mask bounds the index.
const COUNTERS: usize = 64;
const _: () = assert!(REFUSED as usize + DropCause::ALL.len() < COUNTERS);

impl PacketDisposition {
    /// Offered to a card, which has queued the packet, or sent to the stack of another network namespace.
    pub const SENT: PacketDisposition = PacketDisposition(0);
    /// Queued in the stack: on `lo`, for a neighbour, in reassembly, or between veth peers.
    pub const HELD: PacketDisposition = PacketDisposition(1);
    /// Already counted, as several packets.
    pub const COUNTED: PacketDisposition = PacketDisposition(2);
    /// Offered to a card, which has refused the packet and counted the drop.
    pub const REFUSED: PacketDisposition = PacketDisposition(REFUSED);

    /// Consumed by a receiver.
    pub const fn consumed(by: Receiver) -> PacketDisposition {
        PacketDisposition(FIRST_RECEIVER + by as u8)
    }
    /// Dropped by the stack.
    pub const fn dropped(cause: DropCause) -> PacketDisposition {
        PacketDisposition(REFUSED + 1 + cause as u8)
    }
    /// True for a packet that a card, a queue or a receiver has accepted.
    #[inline(always)]
    pub const fn is_queued(self) -> bool {
        self.0 < REFUSED
    }
    /// Error that the sender of a dropped packet notices, if there is one.
    #[cold]
    pub(crate) fn errno(self) -> Option<Errno> {
        let is = |cause| self == PacketDisposition::dropped(cause);
        match self {
            _ if is(DropCause::Hook) => Some(Errno::EPERM),
            _ if is(DropCause::WireguardNoPeer) => Some(Errno::ENOKEY),
            _ if is(DropCause::WireguardNoEndpoint) => Some(Errno::EDESTADDRREQ),
            _ => None,
        }
    }
    /// The disposition of a packet of which several sockets were offered a copy: that of a copy that was
    /// accepted, else that of the last copy.
    pub fn or(self, other: PacketDisposition) -> PacketDisposition {
        if self.is_queued() { self } else { other }
    }
    /// The disposition of a transmission by a card, which returns refused packets.
    #[inline(always)]
    pub(crate) fn of_card<T>(sent: Result<(), T>) -> PacketDisposition {
        if sent.is_ok() { PacketDisposition::SENT } else { PacketDisposition::REFUSED }
    }
}

/// Counters of the packets in a stack: see the [module](self).
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C)] // The last origins and the first dispositions, which most packets have, are adjacent.
pub struct StackAccount {
    originated: [u64; Origin::ALL.len()],
    received: u64,
    /// Number of packets by disposition.
    ended: [u64; COUNTERS],
    /// Packets that `eth0` of a host on the graph has passed to the name server in place of the graph.
    pub to_resolver: u64,
    /// Packets in transit from the name server to `eth0` of a host on the graph, past ones included.
    pub from_resolver: u64,
    /// Frames among those received that came from stacks of other network namespaces.
    pub from_peers: u64,
    /// Frames among those sent that went to stacks of other network namespaces.
    pub to_peers: u64,
}

impl Default for StackAccount {
    fn default() -> StackAccount {
        let (originated, ended) = ([0; Origin::ALL.len()], [0; COUNTERS]);
        StackAccount {
            originated,
            received: 0,
            ended,
            to_resolver: 0,
            from_resolver: 0,
            from_peers: 0,
            to_peers: 0,
        }
    }
}

impl StackAccount {
    /// Counts a packet received from a card, or from the stack of another network namespace.
    #[inline(always)]
    pub fn receive(&mut self, end: PacketDisposition) {
        self.received += 1;
        self.release(end);
    }
    /// Counts a frame received from the stack of another network namespace.
    pub fn receive_from_peer(&mut self, end: PacketDisposition) {
        self.from_peers += 1;
        self.receive(end);
    }
    /// Counts a packet made in the stack.
    #[inline(always)]
    pub fn originate(&mut self, origin: Origin, end: PacketDisposition) {
        self.originated[origin as usize] += 1;
        self.release(end);
    }
    /// Counts the disposition of a packet that has left a queue of the stack.
    #[inline(always)]
    pub fn release(&mut self, end: PacketDisposition) {
        self.ended[usize::from(end.0) % COUNTERS] += 1;
    }
    /// Counts the disposition of several packets that have left a queue of the stack.
    pub(crate) fn release_all(&mut self, packets: usize, end: PacketDisposition) {
        self.ended[usize::from(end.0) % COUNTERS] += packets as u64;
    }

    /// Adds the account of a stack that ends for this reason with `held` packets in it.
    pub fn absorb(&mut self, other: &StackAccount, held: u64, cause: DropCause) {
        self.originated.iter_mut().zip(other.originated).for_each(|(sum, part)| *sum += part);
        self.ended.iter_mut().zip(other.ended).for_each(|(sum, part)| *sum += part);
        self.received += other.received;
        self.to_resolver += other.to_resolver;
        self.from_resolver += other.from_resolver;
        self.from_peers += other.from_peers;
        self.to_peers += other.to_peers;
        self.release_all(held as usize, PacketDisposition::dropped(cause));
    }

    /// The account of a stack that holds this number of packets.
    pub(crate) fn with_held(&self, held: u64) -> PacketAccount {
        let ended = |end: PacketDisposition| self.ended[usize::from(end.0)];
        let mut account = PacketAccount {
            received: self.received,
            sent: ended(PacketDisposition::SENT) + ended(PacketDisposition::REFUSED),
            held,
            ..PacketAccount::default()
        };
        for (origin, packets) in Origin::ALL.into_iter().zip(self.originated) {
            account.originate(origin.name(), packets);
        }
        for receiver in Receiver::ALL {
            account.consume(receiver.name(), ended(PacketDisposition::consumed(receiver)));
        }
        for cause in DropCause::ALL {
            account.drop_for(cause.name(), ended(PacketDisposition::dropped(cause)));
        }
        account
    }

    /// Lists the counters that most packets change.
    pub(crate) fn footprint(&self, footprint: &mut Footprint) {
        footprint.object(&self.originated[Origin::Udp as usize]);
        footprint.object(&self.received);
        footprint.object(&self.ended[0]);
        footprint.object(&self.ended[usize::from(PacketDisposition::consumed(Receiver::Tcp).0)]);
    }
}

#[cfg(test)]
mod tests;
