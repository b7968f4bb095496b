//! Flows in the captures of hosts as XML in the format of ns-3's FlowMonitor, for scripts that read that
//! format.
//!
//! A flow is the set of packets with the same addresses, protocol and ports; as in FlowMonitor, only UDP and
//! TCP have flows. Packets are counted when their source sends them and when their destination receives them,
//! with the bytes of the IP packets, as in FlowMonitor. Sent and received packets are matched by IP
//! identification and content: delays are wrong after a loss if both repeat. Fragments are ignored.

use crate::names;
use crate::read::{CapturedPacket, ReadError, Results, files, packets};
use crate::topology::Topology;
use belljar_base::{Map, Set, SimTime};
use belljar_wire::{ethernet, protocol};
use std::fmt::Write;
use std::net::Ipv4Addr;

type Tuple = (Ipv4Addr, Ipv4Addr, u8, u16, u16);
/// Identity of a packet: flow, IP identification and content.
type Name = (Tuple, (u16, Vec<u8>));

#[derive(Default)]
struct Flow {
    first_sent: Option<SimTime>,
    last_sent: SimTime,
    first_received: Option<SimTime>,
    last_received: SimTime,
    /// Sum of the delays in nanoseconds.
    delay_sum: u64,
    jitter_sum: u64,
    last_delay: Option<u64>,
    delays: Option<(u64, u64)>,
    sent: (u64, u64),
    received: (u64, u64),
    forwarded: u64,
    /// Number of packets by traffic class.
    dscp: Map<u8, u64>,
}

/// A packet of a flow.
struct Seen {
    at: SimTime,
    flow: Tuple,
    /// Identity of the packet within its flow.
    name: (u16, Vec<u8>),
    bytes: u64,
    ttl: u8,
    dscp: u8,
}

/// The FlowMonitor XML of a run.
pub fn flow_monitor(results: &Results) -> Result<String, ReadError> {
    let topology =
        results.text(names::TOPOLOGY).and_then(|text| Topology::from_json(&text)).unwrap_or_default();
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    for host in &topology.hosts {
        let own: Set<Ipv4Addr> =
            host.addresses.iter().chain([&host.address]).filter_map(|own| own.parse().ok()).collect();
        for (interface, path) in files(&results.host(&host.name), "pcap") {
            if interface == "lo" {
                continue;
            }
            for packet in packets(&path, topology.epoch_secs)? {
                let Some(seen) = seen(&packet) else { continue };
                match (own.contains(&seen.flow.0), own.contains(&seen.flow.1)) {
                    (true, false) => sent.push(seen),
                    (false, true) => received.push(seen),
                    _ => {}
                }
            }
        }
    }
    sent.sort_by_key(|seen| seen.at);
    received.sort_by_key(|seen| seen.at);
    let mut flows: Map<Tuple, Flow> = Map::new();
    let mut under_way: Map<Name, Vec<(SimTime, u8)>> = Map::new();
    for seen in sent {
        let flow = flows.entry(seen.flow).or_default();
        flow.first_sent.get_or_insert(seen.at);
        flow.last_sent = seen.at;
        flow.sent = (flow.sent.0 + 1, flow.sent.1 + seen.bytes);
        *flow.dscp.entry(seen.dscp).or_default() += 1;
        under_way.entry((seen.flow, seen.name)).or_default().push((seen.at, seen.ttl));
    }
    for mut seen in received {
        let key = (seen.flow, std::mem::take(&mut seen.name));
        let Some(waiting) = under_way.get_mut(&key) else { continue };
        let Some(at) = waiting.iter().position(|(at, _)| *at <= seen.at) else { continue };
        let (sent_at, ttl) = waiting.remove(at);
        let Some(flow) = flows.get_mut(&seen.flow) else { continue };
        flow.receive(&seen, sent_at, ttl);
    }
    Ok(xml(flows))
}

impl Flow {
    fn receive(&mut self, seen: &Seen, sent_at: SimTime, ttl: u8) {
        let delay = seen.at.since(sent_at).as_nanos();
        self.first_received.get_or_insert(seen.at);
        self.last_received = seen.at;
        self.delay_sum += delay;
        self.jitter_sum += self.last_delay.map_or(0, |last| last.abs_diff(delay));
        self.last_delay = Some(delay);
        let (least, most) = self.delays.unwrap_or((delay, delay));
        self.delays = Some((least.min(delay), most.max(delay)));
        self.received = (self.received.0 + 1, self.received.1 + seen.bytes);
        self.forwarded += u64::from(ttl.saturating_sub(seen.ttl));
    }
}

/// A UDP or TCP packet over IPv4, unless it is a fragment.
fn seen(packet: &CapturedPacket) -> Option<Seen> {
    let ip = match packet.ethernet {
        true => {
            let frame = ethernet::Frame::new_checked(&packet.bytes[..]).ok()?;
            (frame.ethertype() == ethernet::ethertype::IPV4).then(|| &packet.bytes[ethernet::HEADER_LEN..])?
        }
        false => &packet.bytes[..],
    };
    let address = |at: usize| <[u8; 4]>::try_from(ip.get(at..at + 4)?).ok().map(Ipv4Addr::from);
    let short = |bytes: &[u8]| u16::from_be_bytes([bytes[0], bytes[1]]);
    if ip.len() < 20 || ip[0] >> 4 != 4 || short(&ip[6..]) & 0x3fff != 0 {
        return None;
    }
    let payload = ip.get(usize::from(ip[0] & 0xf) * 4..)?;
    let ports = match (ip[9], payload) {
        (protocol::TCP | protocol::UDP, [_, _, _, _, ..]) => (short(payload), short(&payload[2..])),
        _ => return None,
    };
    let (source, destination) = (address(12)?, address(16)?);
    Some(Seen {
        at: packet.at,
        flow: (source, destination, ip[9], ports.0, ports.1),
        name: (short(&ip[4..]), payload.to_vec()),
        bytes: short(&ip[2..]).into(),
        ttl: ip[8],
        dscp: ip[1] >> 2,
    })
}

fn xml(flows: Map<Tuple, Flow>) -> String {
    let mut flows: Vec<(Tuple, Flow)> = flows.into_iter().collect();
    flows.sort_by_key(|(tuple, flow)| (flow.first_sent, *tuple));
    let mut out = String::from("<?xml version=\"1.0\" ?>\n<FlowMonitor>\n  <FlowStats>\n");
    let ns = |ns: u64| format!("+{ns}.0ns");
    let time = |at: SimTime| ns(at.as_nanos());
    for (n, (_, flow)) in flows.iter().enumerate() {
        let (least, most) = flow.delays.unwrap_or_default();
        let _ = writeln!(
            out,
            "    <Flow flowId=\"{}\" timeFirstTxPacket=\"{}\" timeFirstRxPacket=\"{}\" timeLastTxPacket=\"{}\" \
             timeLastRxPacket=\"{}\" delaySum=\"{}\" jitterSum=\"{}\" lastDelay=\"{}\" maxDelay=\"{}\" \
             minDelay=\"{}\" txBytes=\"{}\" rxBytes=\"{}\" txPackets=\"{}\" rxPackets=\"{}\" lostPackets=\"{}\" \
             timesForwarded=\"{}\">\n    </Flow>",
            n + 1,
            time(flow.first_sent.unwrap_or(SimTime::ZERO)),
            time(flow.first_received.unwrap_or(SimTime::ZERO)),
            time(flow.last_sent),
            time(flow.last_received),
            ns(flow.delay_sum),
            ns(flow.jitter_sum),
            ns(flow.last_delay.unwrap_or(0)),
            ns(most),
            ns(least),
            flow.sent.1,
            flow.received.1,
            flow.sent.0,
            flow.received.0,
            flow.sent.0 - flow.received.0,
            flow.forwarded,
        );
    }
    out += "  </FlowStats>\n  <Ipv4FlowClassifier>\n";
    for (n, ((source, destination, protocol, from, to), flow)) in flows.iter().enumerate() {
        let _ = writeln!(
            out,
            "    <Flow flowId=\"{}\" sourceAddress=\"{source}\" destinationAddress=\"{destination}\" \
             protocol=\"{protocol}\" sourcePort=\"{from}\" destinationPort=\"{to}\">",
            n + 1
        );
        for (dscp, count) in &flow.dscp {
            let _ = writeln!(out, "      <Dscp value=\"0x{dscp:x}\" packets=\"{count}\" />");
        }
        out += "    </Flow>\n";
    }
    out + "  </Ipv4FlowClassifier>\n  <Ipv6FlowClassifier>\n  </Ipv6FlowClassifier>\n  <FlowProbes>\n  </FlowProbes>\n</FlowMonitor>\n"
}
