use super::round_trip::round_trip;
use super::*;
use crate::topology::Line;
use belljar_net::QueueConfig;

const LAB: &str = r#"
general: { stop_time: 9 s }
host_option_defaults: { pcap_enabled: true, pcap_capture_size: 128 B }
switches: { s: { ageing: 30 s } }
routers:
  r:
    interfaces: { eth1: [10.4.0.1/16, 192.168.9.1/24] }
    routes: [ { to: 172.16.0.0/12, via: [192.168.9.2, 10.4.0.9], metric: 3 }, { to: default, dev: eth0 } ]
    routing: shortest_path
hosts:
  b: { processes: [], forwarding: true, interfaces: { eth0: { mac: "02:00:00:00:00:0a" }, eth1: { addresses: [] } } }
  a: { processes: [] }
  c: { processes: [] }
links:
- { between: ["a:wan7", s], rate: 10 Mbit, latency: 3 ms, jitter: 1 ms, packet_loss: 0.25, queue: { bytes: 9 KB }, overhead: 24 B }
- { between: [s, b], reverse: { rate: unlimited, queue: { codel: { packets: 7, target: 1 ms } } } }
- { name: back bone, between: [s, r], mtu: 9000, cost: 5 }
- { between: [r, c] }
- { between: [b, a] }
events:
- { at: 1 s, link_down: "*wan7*", for: 2 s }
- { at: 2 s, link_change: { link: back bone, from: r }, rate: 3 Mbit, latency: 1 us }
- { at: 3 s, partition: [[a, s], [r]] }
"#;

#[test]
fn a_topology_with_addresses_given_and_assigned() {
    let e = parse(LAB);
    let shown: Vec<String> = (0..e.node_count() as u32)
        .map(HostId)
        .map(|id| {
            let interface = |i: &crate::topology::Interface| {
                let own: Vec<String> = i.addresses.iter().map(|own| own.to_string()).collect();
                format!("{}={}", i.name, own.join("+"))
            };
            let all: Vec<String> = e.node_interfaces(id).iter().map(interface).collect();
            format!("{} {}", e.node_name(id), all.join(" "))
        })
        .collect();
    // The first network of 10.0.0.0/8 that nothing in the file overlaps; r's interface at s says nothing.
    let expected = [
        "a eth0=10.0.1.1/24 wan7=10.0.0.1/24",
        "b eth0=10.0.0.2/24 eth1=",
        "c eth0=10.4.0.2/16",
        "s p1= p2= p3=",
        "r eth0=10.0.0.3/24 eth1=10.4.0.1/16+192.168.9.1/24",
    ];
    assert_eq!(shown, expected);
    assert_eq!(e.hosts[0].address.to_string(), "10.0.1.1");
    let line = &e.topology.links[0].ends[1].line;
    assert_eq!((line.rate, line.jitter, line.loss), (Some(10_000_000), SimDuration::from_millis(1), 0.25));
    assert_eq!((line.queue, line.overhead), (QueueConfig::Bytes(9_000), 24));
    let [there, back] = [0, 1].map(|end| e.topology.links[1].ends[end].line);
    assert_eq!((there, back.rate), (Line::default(), None));
    assert!(matches!(back.queue, QueueConfig::Codel { packets: 7, .. }));
    assert!(e.hosts[1].forwarding && e.topology.pcap_enabled && e.topology.routers[0].routing.computed);
}

#[test]
fn the_resolved_topology_loads_again() {
    round_trip(LAB);
    round_trip(
        &format!("{LAB}network: {{ graph: {{ type: 1_gbit_switch }} }}\n").replace(
            "  c: { processes: [] }",
            "  c: { processes: [], network_node_id: 0, forwarding: true }",
        ),
    );
}
