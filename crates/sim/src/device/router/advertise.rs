//! Router advertisements (RFC 4861) of a router. On Linux a program with a raw socket sends them, such as
//! radvd(8); this module takes its role.

use super::FIRST_INTERFACE;
use belljar_base::{SimDuration, SimTime, Stream};
use belljar_linux_abi::c;
use belljar_net::InterfaceAddress;
use belljar_netstack::v6::link_local;
use belljar_netstack::{SocketKey, Stack, raw};
use belljar_wire::ethernet::Address;
use belljar_wire::icmpv6::{DISCOVERY_HOP_LIMIT, Discovery, PrefixInformation, kind};
use belljar_wire::ipv6;
use std::net::Ipv6Addr;

/// `MinRtrAdvInterval` and `MaxRtrAdvInterval` of RFC 4861, section 6.2.1, in seconds.
const INTERVAL: (u64, u64) = (200, 600);
/// `MAX_INITIAL_RTR_ADVERT_INTERVAL`: maximum interval between the first `INITIAL_ADVERTS` advertisements.
pub const INITIAL_INTERVAL: SimDuration = SimDuration::from_secs(16);
const INITIAL_ADVERTS: u8 = 3;
/// `MAX_RA_DELAY_TIME` in milliseconds.
const ANSWER_DELAY_MS: u64 = 500;
/// `AdvDefaultLifetime` in seconds: three times the maximum interval.
const LIFETIME: u16 = 1_800;
/// `AdvValidLifetime` and `AdvPreferredLifetime` in seconds: 30 and 7 days.
const VALID: u32 = 2_592_000;
const PREFERRED: u32 = 604_800;

/// Sender of router advertisements on some of a router's links.
pub struct Advertiser {
    /// Raw socket that receives solicitations.
    socket: SocketKey,
    /// Random stream of delays.
    stream: Stream,
    adverts: Vec<Advert>,
}

/// Advertisement state of an interface.
struct Advert {
    /// Interface number in the stack.
    interface: usize,
    /// Time of the next advertisement.
    at: SimTime,
    /// Number of advertisements sent.
    sent: u8,
}

impl Advertiser {
    /// Creates the advertiser of these ports.
    pub fn new(stack: &mut Stack, ports: &[usize], mut stream: Stream) -> Advertiser {
        let socket = raw::create(stack, c::AF_INET6, c::IPPROTO_ICMPV6).expect("ICMPv6 is a protocol");
        // `ICMP6_FILTER`: passes solicitations only.
        let filter = &mut stack.sockets.raw(socket).icmp6_filter;
        *filter = [u32::MAX; 8];
        filter[usize::from(kind::ROUTER_SOLICIT / 32)] &= !(1 << (kind::ROUTER_SOLICIT % 32));
        let mut advert = |port: &usize| {
            let at = SimTime::ZERO + SimDuration::from_millis(stream.below(ANSWER_DELAY_MS));
            Advert { interface: port + FIRST_INTERFACE, at, sent: 0 }
        };
        let adverts = ports.iter().map(&mut advert).collect();
        Advertiser { socket, stream, adverts }
    }

    /// Time at which [`announce`](Self::announce) is next due.
    pub fn next_event(&self) -> Option<SimTime> {
        self.adverts.iter().map(|advert| advert.at).min()
    }

    /// Takes received solicitations. One advertisement after a short random delay answers all of them (RFC
    /// 4861, section 6.2.6).
    pub fn hear(&mut self, stack: &mut Stack) {
        let now = stack.clock.now();
        let socket = stack.sockets.ip_socket(self.socket);
        socket.queued_charge = 0;
        while let Some(message) = socket.queue.pop_front() {
            let is_sound = matches!(Discovery::parse(&message.bytes), Some(Discovery::RouterSolicit { .. }));
            if !is_sound || message.ttl != DISCOVERY_HOP_LIMIT {
                continue;
            }
            let soon = now + SimDuration::from_millis(self.stream.below(ANSWER_DELAY_MS));
            if let Some(advert) = self.adverts.iter_mut().find(|a| a.interface == message.interface) {
                advert.at = soon.min(advert.at);
            }
        }
    }

    /// Sends the advertisements that are due.
    pub fn announce(&mut self, stack: &mut Stack) {
        let now = stack.clock.now();
        for advert in self.adverts.iter_mut().filter(|advert| advert.at <= now) {
            let (least, most) = INTERVAL;
            let next = SimDuration::from_millis(least * 1_000 + self.stream.below((most - least) * 1_000));
            advert.sent = advert.sent.saturating_add(1);
            advert.at = now + if advert.sent < INITIAL_ADVERTS { next.min(INITIAL_INTERVAL) } else { next };
            let own = &stack.interfaces[advert.interface];
            let source = link_local(own.mac).ip;
            let message = Discovery::RouterAdvert {
                hop_limit: 64,
                flags: 0,
                lifetime: LIFETIME,
                reachable: 0,
                retransmit: 0,
                source: Some(Address(own.mac)),
                mtu: Some(own.mtu as u32),
                prefixes: own.addresses6.iter().filter(|own| own.ip != source).map(prefix).collect(),
            };
            stack.send_discovery(advert.interface, source, ipv6::ALL_NODES, None, &message);
            stack.flush_network();
        }
    }
}

/// Prefix information of an address: on link, and usable for autoconfiguration if the prefix has 64 bits.
fn prefix(own: &InterfaceAddress<Ipv6Addr>) -> PrefixInformation {
    PrefixInformation {
        prefix: own.network().address(),
        len: own.len,
        on_link: true,
        autonomous: own.len == 64,
        valid: VALID,
        preferred: PREFERRED,
    }
}
