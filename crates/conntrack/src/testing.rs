//! Fixture of the unit tests: packets by hand, and a tracker with its packet path.

use crate::tuple::protocol;
use crate::{
    Attached, Conntrack, CtInfo, InetHook, Manip, NatRange, Template, TrackContext, TrackVerdict, Tracked,
    Tuple,
};
use belljar_base::{Seed, SimDuration, SimTime};
use belljar_wire::tcp::Flags;
use belljar_wire::{checksum, icmpv4, ipv4, udp};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Address `10.0.NET.HOST`.
pub(crate) fn v4(net: u8, host: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, net, host).into()
}

/// Address `2001:db8:NET::HOST`.
pub(crate) fn v6(net: u16, host: u16) -> IpAddr {
    Ipv6Addr::new(0x2001, 0xdb8, net, 0, 0, 0, 0, host).into()
}

/// IP packet with a transport whose checksum is right.
pub(crate) fn ip(from: IpAddr, to: IpAddr, protocol: u8, transport: &[u8]) -> Vec<u8> {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut packet = vec![0; ipv4::HEADER_LEN];
            packet.extend_from_slice(transport);
            ipv4::Repr::new(from, to, protocol, transport.len()).emit(&mut packet);
            packet
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let mut packet = vec![0x60, 0, 0, 0];
            packet.extend((transport.len() as u16).to_be_bytes());
            packet.extend([protocol, 64]);
            packet.extend(from.octets());
            packet.extend(to.octets());
            packet.extend_from_slice(transport);
            packet
        }
        _ => panic!("one family"),
    }
}

/// UDP datagram.
pub(crate) fn udp(from: (IpAddr, u16), to: (IpAddr, u16), payload: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::new();
    udp::Repr::append(from, to, payload, &mut datagram);
    ip(from.0, to.0, protocol::UDP, &datagram)
}

/// TCP segment with a window of 1,000 bytes.
pub(crate) fn tcp(
    from: (IpAddr, u16),
    to: (IpAddr, u16),
    flags: Flags,
    (seq, ack): (u32, u32),
    payload: &[u8],
) -> Vec<u8> {
    let mut segment = Vec::new();
    segment.extend(from.1.to_be_bytes());
    segment.extend(to.1.to_be_bytes());
    segment.extend(seq.to_be_bytes());
    segment.extend(ack.to_be_bytes());
    segment.extend([0x50, flags.bits(), 0x03, 0xe8, 0, 0, 0, 0]);
    segment.extend_from_slice(payload);
    belljar_wire::tcp::fill_checksum(from.0, to.0, &mut segment);
    ip(from.0, to.0, protocol::TCP, &segment)
}

/// ICMP or ICMPv6 message of a type and code, with its second word and data.
pub(crate) fn icmp(from: IpAddr, to: IpAddr, (kind, code): (u8, u8), word: [u8; 4], data: &[u8]) -> Vec<u8> {
    let mut message = vec![kind, code, 0, 0];
    message.extend(word);
    message.extend_from_slice(data);
    let number = if from.is_ipv4() { protocol::ICMP } else { protocol::ICMPV6 };
    let sum = match from.is_ipv4() {
        true => checksum::internet(&message),
        false => checksum::transport(from, to, number, &message),
    };
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    ip(from, to, number, &message)
}

/// Echo request or reply.
pub(crate) fn echo(from: IpAddr, to: IpAddr, request: bool, ident: u16) -> Vec<u8> {
    let kind = match (from.is_ipv4(), request) {
        (true, true) => 8,
        (true, false) => 0,
        (false, true) => 128,
        (false, false) => 129,
    };
    let [high, low] = ident.to_be_bytes();
    icmp(from, to, (kind, 0), [high, low, 0, 1], b"data")
}

/// Port unreachable that quotes a packet.
pub(crate) fn unreachable(from: IpAddr, quoted: &[u8]) -> Vec<u8> {
    let to = tuple_of(quoted).source.to_ip(tuple_of(quoted).l3);
    let (kind, most) = if from.is_ipv4() { ((3, 3), icmpv4::MAX_QUOTE) } else { ((1, 4), 1_000) };
    icmp(from, to, kind, [0; 4], &quoted[..quoted.len().min(most)])
}

/// Tuple of a packet.
pub(crate) fn tuple_of(packet: &[u8]) -> Tuple {
    crate::parse::Datagram::parse(packet).unwrap().tuple(packet).unwrap()
}

/// True if the checksums of network and transport header are right.
pub(crate) fn is_intact(packet: &[u8]) -> bool {
    let network = packet[0] >> 4 == 6 || ipv4::Packet::new_checked(packet).unwrap().verify_checksum();
    network && crate::parse::Datagram::parse(packet).unwrap().checksum_is_right(packet)
}

/// Translations that the rules of a router choose: by tuple, for the destination and for the source.
pub(crate) type Rule = fn(&Tuple) -> Option<NatRange>;

/// Tracker on a router, with rules of NAT.
pub(crate) struct Router {
    pub ct: Conntrack,
    pub now: SimTime,
    pub destination: Rule,
    pub source: Rule,
    /// True if the hooks of NAT are in use.
    pub nat: bool,
    /// Settings for new connections.
    pub template: Template,
}

impl Router {
    pub fn new() -> Router {
        let ct = Conntrack::new(Seed(1).stream(&["test", "conntrack"]));
        let now = SimTime::from_secs(100);
        Router { ct, now, destination: |_| None, source: |_| None, nat: true, template: Template::default() }
    }

    pub fn wait(&mut self, seconds: u64) {
        self.now += SimDuration::from_secs(seconds);
        self.ct.expire(self.now);
    }

    pub fn context(&self, hook: InetHook) -> TrackContext {
        TrackContext { hook, now: self.now, checksum_verified: false }
    }

    /// The calls of one hook of NAT.
    fn nat(&mut self, packet: &mut [u8], attached: Attached, hook: InetHook) -> TrackVerdict {
        if !self.nat {
            return TrackVerdict::Accept;
        }
        if self.ct.nat_wanted(packet, attached, hook) {
            let manip = Manip::of(hook);
            let rule = if manip == Manip::Source { self.source } else { self.destination };
            if let Some(range) = rule(&tuple_of(packet))
                && self.ct.setup_nat(attached, &range, manip, self.now) == TrackVerdict::Drop
            {
                return TrackVerdict::Drop;
            }
        }
        self.ct.translate(packet, attached, hook, Some(2), self.now)
    }

    fn path(&mut self, packet: &[u8], hooks: [InetHook; 2]) -> Option<(Vec<u8>, Attached)> {
        let mut packet = packet.to_vec();
        let first = self.context(hooks[0]);
        let Tracked { verdict, mut attached } =
            self.ct.track(&packet, Attached::Template(self.template), &first);
        for hook in hooks {
            if verdict == TrackVerdict::Drop || self.nat(&mut packet, attached, hook) == TrackVerdict::Drop {
                self.ct.release(attached);
                return None;
            }
        }
        let last = self.context(hooks[1]);
        let confirmed = self.ct.confirm(&mut packet, attached, &last);
        attached = confirmed.attached;
        (confirmed.verdict == TrackVerdict::Accept).then_some((packet, attached))
    }

    /// Forwards a packet: what leaves, with its attachment. `None` if it is dropped.
    pub fn forward(&mut self, packet: &[u8]) -> Option<(Vec<u8>, Attached)> {
        self.path(packet, [InetHook::Prerouting, InetHook::Postrouting])
    }

    /// Sends a packet of the router itself.
    pub fn send(&mut self, packet: &[u8]) -> Option<(Vec<u8>, Attached)> {
        self.path(packet, [InetHook::Output, InetHook::Postrouting])
    }

    /// Relation of a forwarded packet to its connection.
    pub fn relation(&mut self, packet: &[u8]) -> Option<CtInfo> {
        self.forward(packet).and_then(|(_, attached)| attached.info())
    }
}
