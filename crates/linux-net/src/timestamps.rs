//! Control messages with the timestamps of packets, and reports of sent packets: socket(7), Linux's
//! `Documentation/networking/timestamping.rst`.

use crate::control::ControlMessage;
use belljar_base::SimTime;
use belljar_linux_abi::socket::{In6Pktinfo, InPktinfo, TimePair};
use belljar_linux_abi::{Errno, c};
use belljar_netstack::clock::Clock;
use belljar_netstack::interface_index;
use belljar_netstack::timestamps::{PacketTimes, ReceiveStamps, SentStamp, Stamping, Timestamping};
use std::net::IpAddr;
use zerocopy::IntoBytes;

/// Options and types of control messages with 64-bit times, missing in `libc`.
#[allow(missing_docs)]
pub mod option {
    pub const TIMESTAMP_NEW: i32 = 63;
    pub const TIMESTAMPNS_NEW: i32 = 64;
    pub const TIMESTAMPING_NEW: i32 = 65;
    /// `SCM_TIMESTAMPING_PKTINFO`.
    pub const PKTINFO: i32 = 58;
    /// `SCM_TS_OPT_ID`.
    pub const STAMP_ID: i32 = 81;
}
/// Length of an Ethernet header.
const LINK_HEADER: usize = 14;
/// `SO_EE_ORIGIN_TIMESTAMPING`.
const ORIGIN: u8 = 4;

/// A received packet, as its timestamps describe it.
#[derive(Clone, Copy, Debug)]
pub struct PacketArrival {
    /// Time of arrival.
    pub at: SimTime,
    /// Timestamp by the adapter's clock, or 0.
    pub hardware: i64,
    /// Index of the interface, and length of the packet without the link's header.
    pub packet: (u32, usize),
}

impl PacketArrival {
    /// Control messages with the timestamps that a socket has asked for.
    #[inline]
    pub fn messages(self, stamps: ReceiveStamps, clock: &Clock) -> Vec<ControlMessage> {
        if stamps.is_off() { Vec::new() } else { self.present(stamps, clock) }
    }

    #[inline(never)]
    fn present(self, stamps: ReceiveStamps, clock: &Clock) -> Vec<ControlMessage> {
        let software = clock.realtime_at(self.at) as i64;
        let times = PacketTimes { software, hardware: self.hardware, is_error: false };
        messages(stamps, times, self.packet)
    }
}

/// Control messages for the times of a packet (`__sock_recv_timestamp`).
fn messages(stamps: ReceiveStamps, times: PacketTimes, (index, len): (u32, usize)) -> Vec<ControlMessage> {
    let mut all = Vec::new();
    let mut push = |type_, data: &[u8]| {
        all.push(ControlMessage { level: c::SOL_SOCKET, type_, data: data.to_vec() });
    };
    let pair = |ns: i64| TimePair { secs: ns / 1_000_000_000, fraction: ns % 1_000_000_000 };
    let named = |old, new| if stamps.is_new { new } else { old };
    match stamps.plain {
        Timestamping::Off => {}
        Timestamping::Micros => {
            let time = pair(times.software);
            let micros = TimePair { fraction: time.fraction / 1_000, ..time };
            push(named(c::SO_TIMESTAMP, option::TIMESTAMP_NEW), micros.as_bytes());
        }
        Timestamping::Nanos => {
            push(named(c::SO_TIMESTAMPNS, option::TIMESTAMPNS_NEW), pair(times.software).as_bytes());
        }
    }
    if stamps.reports_interface(times) {
        push(option::PKTINFO, [index, (len + LINK_HEADER) as u32, 0, 0].as_bytes());
    }
    if let Some(reported) = stamps.reported(times) {
        push(named(c::SO_TIMESTAMPING, option::TIMESTAMPING_NEW), reported.map(pair).as_bytes());
    }
    all
}

/// Control messages with the timestamps of a sent packet.
pub fn of_sent(stamp: &SentStamp, stamps: ReceiveStamps) -> Vec<ControlMessage> {
    let times = PacketTimes { software: stamp.software, hardware: stamp.hardware, is_error: true };
    messages(stamps, times, (0, 0))
}

/// `struct sock_extended_err` of a timestamp without an offender: errno; origin, type, code, padding; `ee_info`,
/// `ee_data`.
pub fn extended_error(stamp: &SentStamp) -> (u32, [u8; 4], [u32; 2]) {
    (u32::from(Errno::ENOMSG.0), [ORIGIN, 0, 0, 0], [stamp.event as u32, stamp.id])
}

/// Length of `struct sock_extended_err` with an IPv6 address.
pub const ERROR_LEN6: usize = 44;

/// Source address of a sent packet, and the control messages `IP_PKTINFO` and `IPV6_PKTINFO` of its `interface`,
/// where they are asked for.
pub fn sent_source(
    stamp: &SentStamp,
    interface: Option<usize>,
    (info4, info6): (bool, bool),
) -> (Option<IpAddr>, Option<ControlMessage>) {
    let Some(interface) = interface else { return (None, None) };
    let ifindex = interface_index(interface) as i32;
    let octets = |from: usize, len: usize| stamp.frame.get(LINK_HEADER + from..LINK_HEADER + from + len);
    match stamp.frame.get(LINK_HEADER).map(|first| first >> 4) {
        Some(4) => {
            let octets4 = |from| octets(from, 4).and_then(|octets| <[u8; 4]>::try_from(octets).ok());
            let (Some(source), Some(to)) = (octets4(12), octets4(16)) else { return (None, None) };
            let info = InPktinfo { ifindex, spec_dst: source, addr: to };
            let data = info.as_bytes().to_vec();
            let message = ControlMessage { level: c::IPPROTO_IP, type_: c::IP_PKTINFO, data };
            (Some(source.into()), info4.then_some(message))
        }
        Some(6) => {
            let octets6 = |from| octets(from, 16).and_then(|octets| <[u8; 16]>::try_from(octets).ok());
            let (Some(source), Some(to)) = (octets6(8), octets6(24)) else { return (None, None) };
            let data = In6Pktinfo { addr: to, ifindex }.as_bytes().to_vec();
            let message = ControlMessage { level: c::IPPROTO_IPV6, type_: c::IPV6_PKTINFO, data };
            (Some(source.into()), info6.then_some(message))
        }
        _ => (None, None),
    }
}

/// `struct so_timestamping` of a socket: flags and the bound clock, which there is none of. A program that reads
/// the option of the other name sees zeros.
pub fn option_value(stamping: Option<&Stamping>, is_set_by_name: bool) -> [u32; 2] {
    [stamping.filter(|_| is_set_by_name).map_or(0, |stamping| stamping.flags), 0]
}

/// Timestamps to take of a datagram and their identifier, by its control messages.
pub fn requested(messages: &[ControlMessage]) -> (Option<u32>, Option<u32>) {
    let of = |types: [i32; 2]| {
        let mut own = messages.iter().filter(|m| m.level == c::SOL_SOCKET && types.contains(&m.type_));
        own.next_back().and_then(|m| Some(u32::from_ne_bytes(m.data[..].try_into().ok()?)))
    };
    (of([c::SO_TIMESTAMPING, option::TIMESTAMPING_NEW]), of([option::STAMP_ID; 2]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_netstack::timestamps::{StampEvent, flag};

    const NS: i64 = 1_000_000_007;

    fn stamps(plain: Timestamping, flags: u32, is_new: bool) -> ReceiveStamps {
        ReceiveStamps { plain, flags, is_new }
    }

    #[test]
    fn every_option_has_its_message() {
        let times = PacketTimes { software: NS, hardware: 2 * NS, is_error: false };
        let flags = flag::SOFTWARE | flag::RAW_HARDWARE | flag::RX_SOFTWARE | flag::OPT_PKTINFO;
        let types = |stamps| -> Vec<(i32, usize)> {
            messages(stamps, times, (3, 46)).iter().map(|m| (m.type_, m.data.len())).collect()
        };
        assert_eq!(types(stamps(Timestamping::Off, 0, false)), []);
        assert_eq!(types(stamps(Timestamping::Micros, 0, false)), [(c::SO_TIMESTAMP, 16)]);
        let both = stamps(Timestamping::Nanos, flags, true);
        assert_eq!(
            types(both),
            [(option::TIMESTAMPNS_NEW, 16), (option::PKTINFO, 16), (option::TIMESTAMPING_NEW, 48)]
        );
        let all = messages(both, times, (3, 46));
        assert_eq!(all[1].data[..8], [3, 0, 0, 0, 60, 0, 0, 0]);
        assert_eq!(all[2].data[32..], [2i64.to_ne_bytes(), 14i64.to_ne_bytes()].concat());
    }

    #[test]
    fn sent_packets_are_reported_with_their_events() {
        let (frame, interface) = (Vec::new(), None);
        let stamp =
            SentStamp { event: StampEvent::Scheduled, id: 9, software: NS, hardware: 0, frame, interface };
        assert_eq!(extended_error(&stamp), (42, [4, 0, 0, 0], [1, 9]));
        let all = of_sent(&stamp, stamps(Timestamping::Off, flag::SOFTWARE, false));
        assert_eq!((all.len(), all[0].type_), (1, c::SO_TIMESTAMPING));
        assert_eq!(of_sent(&stamp, stamps(Timestamping::Off, flag::TX_SOFTWARE, false)), []);
    }
}
