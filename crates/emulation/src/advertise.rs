//! Router advertisements (RFC 4861) of routers with `advertise` interfaces. On Linux a daemon such as radvd
//! sends them; here this process does.

use crate::clock::ExperimentClock;
use crate::error::Result;
use crate::nodes::Node;
use belljar_config::Experiment;
use belljar_config::topology::Interface;
use belljar_packetio::{Namespace, PacketOptions, PacketRing, Port};
use belljar_wire::checksum;
use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Interval between advertisements, in naps of [`NAP`]: 3 s, the minimum of RFC 4861.
const INTERVAL: u64 = 150;
const NAP: Duration = Duration::from_millis(20);
/// Router lifetime, and valid and preferred lifetimes of prefixes, in seconds.
const ROUTER_LIFETIME: u16 = 1_800;
const VALID: u32 = 2_592_000;
const PREFERRED: u32 = 604_800;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ICMPV6: u8 = 58;

/// Sender of router advertisements: advertising interfaces, each with its frame.
pub struct Advertiser(Vec<(PacketRing, Vec<u8>)>);

impl Advertiser {
    /// Opens the advertising interfaces of the experiment's routers.
    pub fn open(experiment: &Experiment, nodes: &[Node]) -> Result<Advertiser> {
        let mut all = Vec::new();
        for (device, node) in experiment.topology.devices.iter().zip(&nodes[experiment.hosts.len()..]) {
            for interface in device.interfaces.iter().filter(|i| i.advertise && !i.addresses6.is_empty()) {
                let options =
                    PacketOptions { ring_bytes: 64 << 10, promiscuous: false, ..PacketOptions::default() };
                let port = Namespace::Fd(node.fd()).run(|| PacketRing::open(&interface.name, &options))?;
                let mac = belljar_plan::mac(experiment, &device.name, interface);
                let mtu = experiment.topology.links[interface.link].mtu;
                all.push((port, advertisement(interface, mac, mtu)));
            }
        }
        Ok(Advertiser(all))
    }

    /// True if no interface advertises.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sends advertisements until `stop` is set, with additional ones shortly after the start, as a router
    /// does whose interface becomes an advertising one.
    pub fn run(mut self, clock: &ExperimentClock, stop: &AtomicBool) {
        let mut naps = 0;
        while !stop.load(Relaxed) {
            let passed = clock.time().as_nanos() / NAP.as_nanos() as u64;
            let is_due = |nap: u64| nap.is_multiple_of(INTERVAL) || matches!(nap, 25 | 50);
            if (naps..=passed).any(is_due) {
                for (port, frame) in &mut self.0 {
                    // Sending on an interface that is down fails, without consequence.
                    let _ = port.send(frame).and_then(|_| port.flush());
                }
            }
            for (port, _) in &mut self.0 {
                let _ = port.receive(usize::MAX, &mut |_| {});
            }
            naps = naps.max(passed + 1);
            std::thread::sleep(NAP);
        }
    }
}

/// Link-local address derived from a hardware address (RFC 4291, appendix A).
fn link_local(mac: [u8; 6]) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac;
    Ipv6Addr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

/// Ethernet frame of a router advertisement.
fn advertisement(interface: &Interface, mac: [u8; 6], mtu: usize) -> Vec<u8> {
    let mut body = vec![134, 0, 0, 0, 64, 0];
    body.extend(ROUTER_LIFETIME.to_be_bytes());
    body.extend([0; 8]);
    body.extend([1, 1]);
    body.extend(mac);
    body.extend([5, 1, 0, 0]);
    body.extend((mtu as u32).to_be_bytes());
    for own in &interface.addresses6 {
        let prefix = own.network();
        // On-link flag; the autonomous flag as well if the prefix length permits SLAAC.
        let flags = if prefix.bits() == 64 { 0xc0 } else { 0x80 };
        body.extend([3, 4, prefix.bits(), flags]);
        body.extend(VALID.to_be_bytes());
        body.extend(PREFERRED.to_be_bytes());
        body.extend([0; 4]);
        body.extend(prefix.address().octets());
    }
    let source = link_local(mac);
    let sum = checksum::transport(source.into(), ALL_NODES.into(), ICMPV6, &body);
    body[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut frame = vec![0x33, 0x33, 0, 0, 0, 1];
    frame.extend(mac);
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
    frame.extend((body.len() as u16).to_be_bytes());
    frame.extend([ICMPV6, 255]);
    frame.extend(source.octets());
    frame.extend(ALL_NODES.octets());
    frame.extend(body);
    frame
}
