use super::round_trip::round_trip;
use super::*;
use crate::topology::{DeviceKind, Simulator, SimulatorEnd};
use belljar_net::link::LinkProperties;
use belljar_net::nic::Limit;
use belljar_net::{Loss, QueueConfig, Reordering, TokenBucket};

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
  c: { cpu: { syscall: 1 us, byte: 0.25 ns, backlog: 64 }, processes: [] }
links:
- { between: ["a:wan7", s], rate: 10 Mbit, latency: 3 ms, jitter: 1 ms, packet_loss: 0.25, queue: { bytes: 9 KB }, overhead: 24 B }
- { between: [s, b], reverse: { rate: unlimited, token_bucket: { rate: 9 Mbit, burst: 9 KB }, queue: { codel: { packets: 7, target: 1 ms } } } }
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
    // The first network of 10.0.0.0/8 without overlaps in the file; r's interface at s is unspecified.
    let expected = [
        "a eth0=10.0.1.1/24 wan7=10.0.0.1/24",
        "b eth0=10.0.0.2/24 eth1=",
        "c eth0=10.4.0.2/16",
        "s p1= p2= p3=",
        "r eth0=10.0.0.3/24 eth1=10.4.0.1/16+192.168.9.1/24",
    ];
    assert_eq!(shown, expected);
    assert_eq!(e.hosts[0].address.to_string(), "10.0.1.1");
    let line = &e.topology.links[0].ends[1].properties;
    assert_eq!((line.rate, line.jitter), (Some(10_000_000), SimDuration::from_millis(1)));
    assert_eq!(line.loss, Loss::Independent(0.25));
    assert_eq!((&line.queue, line.overhead), (&QueueConfig::bytes(9_000), 24));
    let [there, back] = [0, 1].map(|end| e.topology.links[1].ends[end].properties.clone());
    assert_eq!((there, back.rate), (LinkProperties::default(), None));
    assert!(matches!(back.queue, QueueConfig::Codel { packets: 7, .. }));
    assert!(
        e.hosts[1].forwarding
            && e.topology.pcap_enabled
            && e.topology.devices[1].kind.routing().unwrap().computed
    );
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

/// Every kind of queue and impairment, in links and in events.
const KINDS: &str = r#"
general: { stop_time: 9 s }
routers: [r]
hosts: { a: { processes: [] }, b: { processes: [] } }
links:
- name: one
  between: [a, r]
  packet_loss: { gilbert_elliott: { to_bad: 0.01, to_good: 0.3, loss_good: 0.001 } }
  reordering: { probability: 0.02, delay: 3 ms }
  duplication: 0.03
  corruption: 0.04
  queue: { packets: 1000, ecn_threshold: 65 }
  token_bucket: { rate: 10 Mbit, burst: 32 KB }
  reverse: { packet_loss: 0, reordering: none, queue: { bytes: 1 MB, ecn_threshold: { packets: 9 } }, token_bucket: none }
- { name: two, between: [r, b], queue: { fq_codel: { packets: 500, flows: 16, quantum: 300 B, ce_threshold: 1 ms } } }
events:
- { at: 1 s, link_change: one, packet_loss: { gilbert_elliott: { to_bad: 0.5, to_good: 0.5 } }, duplication: 1 }
- { at: 2 s, link_change: one, reordering: none, corruption: 0, token_bucket: { rate: 1 Mbit, burst: 2 KB } }
- { at: 3 s, link_change: two, token_bucket: none, queue: { red: { min: 30 KB, max: 90 KB, limit: 400 KB, ecn: true } } }
- at: 4 s
  link_change: two
  queue: { priority: { bands: [{ packets: 5 }, { codel: { ecn: true } }], dscp: { 46: 0, 0: 1 }, default: 1 } }
- { at: 5 s, link_change: two, queue: { priority: { bands: [{ packets: 5 }, { bytes: 5 KB }, { fq_codel: {} }] } } }
"#;

#[test]
fn queues_and_what_befalls_frames() {
    let e = parse(KINDS);
    let [there, back] = [0, 1].map(|end| e.topology.links[0].ends[end].properties.clone());
    let Loss::GilbertElliott(model) = there.loss else { panic!("{there:?}") };
    assert_eq!([model.to_bad, model.to_good, model.loss_bad, model.loss_good], [0.01, 0.3, 1.0, 0.001]);
    let delay = SimDuration::from_millis(3);
    assert_eq!(there.reordering, Some(Reordering { probability: 0.02, delay }));
    assert_eq!((there.duplication, there.corruption), (0.03, 0.04));
    assert_eq!(there.token_bucket, Some(TokenBucket { rate: 10_000_000, burst: 32_000 }));
    let threshold = |queue: &QueueConfig| match queue {
        QueueConfig::Fifo { ecn_threshold, .. } => *ecn_threshold,
        other => panic!("{other:?}"),
    };
    assert_eq!(threshold(&there.queue), Some(Limit::Packets(65)));
    assert_eq!(threshold(&back.queue), Some(Limit::Packets(9)));
    assert_eq!((back.loss, back.reordering, back.token_bucket), (Loss::Independent(0.0), None, None));
    assert_eq!((back.duplication, back.corruption), (0.03, 0.04), "as in the other direction");
    round_trip(KINDS);
}

const DUAL: &str = r#"
general: { stop_time: 9 s }
belljar: { ipv6: true }
network: { graph: { type: 1_gbit_switch } }
routers:
  r:
    interfaces:
      eth0: { addresses: [10.0.1.254/24, "2001:db8:1::fe/64"], advertise: true }
    routes: [ { to: default, via: 10.0.1.1 }, { to: default, via: "2001:db8:1::5" }, { to: "2001:db8:9::/48", dev: eth1 } ]
switches: [s]
hosts:
  a: { network_node_id: 0, processes: [], forwarding: true, interfaces: { eth1: ["2001:db8:1::5/64", 10.0.1.1/24] } }
  b: { processes: [] }
  c: { processes: [], ipv6: false }
  d: { processes: [], interfaces: { eth0: [10.0.1.9/24, slaac] } }
  e: { processes: [] }
  f: { network_node_id: 0, processes: [], ip6_addr: "2001:db8:77::1" }
links:
- { between: ["a:eth1", s] }
- { between: [b, s] }
- { between: [c, s] }
- { between: [d, s] }
- { between: [r, s] }
- { between: [r, e] }
"#;

#[test]
fn ipv6_addresses_given_and_assigned() {
    let e = parse(DUAL);
    let shown: Vec<String> = (0..e.node_count() as u32)
        .map(HostId)
        .filter(|id| e.node_name(*id) != "s")
        .map(|id| {
            let interface = |i: &crate::topology::Interface| {
                let own: Vec<String> = i.addresses6.iter().map(|own| own.to_string()).collect();
                format!(
                    "{}={}{}{}",
                    i.name,
                    own.join("+"),
                    [" ", " slaac"][usize::from(i.slaac)].trim_end(),
                    ["", "!"][usize::from(i.advertise)]
                )
            };
            let all: Vec<String> = e.node_interfaces(id).iter().map(interface).collect();
            let known = e.hosts.get(id.index()).and_then(|host| host.address6);
            format!("{} {} {}", e.node_name(id), all.join(" "), known.map_or("-".into(), |ip| ip.to_string()))
        })
        .collect();
    // Unspecified addresses have the same host number as the IPv4 address; in a segment without an IPv6
    // network, the prefix is derived from the IPv4 network.
    let expected = [
        "a eth1=2001:db8:1::5/64 2001:db8::b00:1",
        "b eth0=2001:db8:1::2/64 2001:db8:1::2",
        "c eth0= -",
        "d eth0= slaac -",
        "e eth0=2001:db8:a00::2/64 2001:db8:a00::2",
        "f  2001:db8:77::1",
        "r eth0=2001:db8:1::fe/64! eth1=2001:db8:a00::1/64 -",
    ];
    assert_eq!(shown, expected);
    let routing = e.topology.devices.iter().find_map(|device| device.kind.routing()).unwrap();
    assert_eq!((routing.routes.len(), routing.routes6.len(), routing.routes6[0].via.len()), (1, 2, 1));
    round_trip(DUAL);
    // IPv4 is unaffected.
    let without = DUAL.lines().filter(|line| !line.contains("f: {")).collect::<Vec<_>>().join("\n");
    let off = without
        .replace("ipv6: true", "ipv6: false")
        .replace("\"2001:db8:1::fe/64\"", "")
        .replace("\"2001:db8:1::5/64\", ", "")
        .replace(", advertise: true", "")
        .replace(", slaac", "")
        .replace(", { to: default, via: \"2001:db8:1::5\" }, { to: \"2001:db8:9::/48\", dev: eth1 }", "");
    let (on, off) = (parse(&without), parse(&off));
    for id in (0..on.node_count() as u32).map(HostId) {
        let v4 =
            |e: &Experiment| e.node_interfaces(id).iter().map(|i| i.addresses.clone()).collect::<Vec<_>>();
        assert_eq!(v4(&on), v4(&off), "{}", on.node_name(id));
    }
}

#[test]
fn other_simulators_are_read_and_written() {
    let text = "general: { stop_time: 1 s }
hosts: { a: { processes: [] }, b: { processes: [] } }
simulators:
  box:
    command: [/bin/true, \"{left}\", \"{right.socket}\", \"{folder}/{}\", \"connect:x:sync=true:latency=7\"]
    environment: { KEY: value }
    working_directory: /
    latency: 20 us
    ends: with peer
    ports: { right: { role: listen, socket: /tmp/right.sock } }
links:
- { between: [a, \"box:left\"], latency: 1 ms }
- { between: [b, { simulator: box, port: right }], latency: 1 ms }
";
    round_trip(text);
    let experiment = parse(text);
    let device = &experiment.topology.devices[0];
    let DeviceKind::Simulator(simulator) = &device.kind else { panic!("a simulator") };
    assert_eq!((device.interfaces[0].name.as_str(), device.interfaces[1].name.as_str()), ("left", "right"));
    assert_eq!((simulator.ports[0].listens, simulator.ports[1].listens), (false, true));
    assert!(simulator.sync && simulator.sync_interval == SimDuration::from_micros(20));
    assert_eq!(simulator.ends, SimulatorEnd::WithPeer);
    let place =
        |argument: &str| Simulator::place(argument, |name| (name != "no").then(|| format!("<{name}>")));
    let placed: Vec<String> =
        simulator.command[1..4].iter().map(|argument| place(argument).unwrap()).collect();
    assert_eq!(placed, ["<left>", "<right.socket>", "<folder>/{}"]);
    assert_eq!(place("a{no}b"), Err("no".to_owned()));
    // Its links form one network.
    let network = |host: usize| experiment.hosts[host].interfaces[0].addresses[0].network();
    assert_eq!(network(0), network(1));
    assert_eq!(
        experiment.notes,
        [
            "simulator 'box': 'connect:x:sync=true:latency=7' has a latency of 7 ns, and 'simulators' one of 20 us: the two directions differ"
        ]
    );
}

#[test]
fn gateways_are_read_and_written() {
    let text = "general: { stop_time: 1 s }
hosts: { a: { interfaces: { eth0: 10.9.0.2/24 }, processes: [] } }
switches: [s]
gateways:
  out: { interface: \"tap:lab0\", address: 10.9.0.1/24, namespace: lab, hard_limit: 5 ms }
  sock: { interface: \"unix:/tmp/frames\" }
links:
- { between: [a, s] }
- { between: [s, out], latency: 1 ms }
- { between: [s, sock], latency: 1 ms }
";
    round_trip(text);
    let experiment = parse(text);
    assert!(experiment.has_gateways());
    let device = &experiment.topology.devices[1];
    let DeviceKind::Gateway(gateway) = &device.kind else { panic!("a gateway") };
    assert_eq!((gateway.interface.as_str(), gateway.namespace.as_deref()), ("tap:lab0", Some("lab")));
    assert_eq!(gateway.hard_limit, Some(SimDuration::from_millis(5)));
    assert!(device.interfaces[0].addresses.is_empty());
}

#[test]
fn machines_of_simulators_have_controllers_and_memories() {
    let text = "general: { stop_time: 1 s }
hosts:
  a: { processes: [], devices: [ { pci: fpga, driver: corundum, ring: 64 } ] }
  b: { processes: [] }
nics: { nic0: {} }
memories: { mem0: { size: 64 MiB, access: 30 ns } }
simulators:
  fpga: { command: [/bin/true, \"{pci}\", \"{eth.latency}\"], working_directory: / }
  m: { command: [/bin/true, \"{nic0}\", \"{mem0}\"], working_directory: /, devices: [ { pci: nic0 }, { memory: mem0, latency: 90 ns } ] }
  n: { command: [/bin/true, \"{mem0}\"], working_directory: /, devices: [ { memory: mem0 } ] }
links:
- { between: [\"fpga:eth\", b] }
- { between: [nic0, b] }
";
    round_trip(text);
    let experiment = parse(text);
    let role =
        |device: &str| match &experiment.topology.devices.iter().find(|one| one.name == device).unwrap().kind
        {
            DeviceKind::Simulator(simulator) => {
                simulator.ports.iter().filter_map(|port| Some(port.pci?.role)).collect::<Vec<_>>()
            }
            _ => panic!("a simulator"),
        };
    use crate::topology::PciRole::{Device, Host, MemoryHost};
    assert_eq!([role("fpga"), role("n")], [vec![Device], vec![MemoryHost]]);
    assert!(role("m").contains(&Host) && role("m").contains(&MemoryHost));
}

#[test]
fn simulators_that_are_linked_have_a_channel_of_their_own() {
    let text = "general: { stop_time: 1 s }
hosts: { a: { processes: [] } }
simulators:
  box: { command: [/bin/true, \"{in}\", \"{out}\"], working_directory: / }
  far: { command: [/bin/true, \"{p}\"], working_directory: /, ports: { p: { role: ROLE } } }
links:
- { between: [a, \"box:in\"] }
- { between: [\"box:out\", \"far:p\"], latency: 3 us }
";
    for (role, listens) in [("listen", true), ("connect", false)] {
        let text = text.replace("ROLE", role);
        round_trip(&text);
        let experiment = parse(&text);
        let port = |device: usize, number: usize| match &experiment.topology.devices[device].kind {
            DeviceKind::Simulator(simulator) => simulator.ports[number].clone(),
            _ => panic!("a simulator"),
        };
        assert!(!port(0, 0).wired && port(0, 1).wired && port(1, 0).wired);
        assert_eq!((port(1, 0).listens, port(0, 1).listens), (listens, !listens));
        assert_eq!(experiment.started_simulators(), [2]);
    }
}

#[test]
fn simulators_and_radios_pace_their_frames_unless_the_link_has_a_queue() {
    let rates = |keys: &str| {
        let text = format!(
            "general: {{ stop_time: 1 s }}
hosts: {{ a: {{ processes: [] }}, b: {{ processes: [] }} }}
simulators: {{ box: {{ command: [/bin/true, \"{{p}}\"], working_directory: / }} }}
radios: {{ air: {{ stations: {{ b: [0, 0] }} }} }}
links:
- {{ between: [a, \"box:p\"]{keys} }}
- {{ between: [air, b]{keys} }}
"
        );
        round_trip(&text);
        let [of_box, of_air] = &parse(&text).topology.links[..] else { panic!("two links") };
        [&of_box.ends[0], &of_box.ends[1], &of_air.ends[0], &of_air.ends[1]].map(|end| end.properties.rate)
    };
    const USUAL: Option<u64> = Some(1_000_000_000);
    assert_eq!(rates(", latency: 1 ms"), [USUAL, None, None, USUAL]);
    assert_eq!(rates(", rate: 5 Mbit"), [Some(5_000_000); 4]);
    assert_eq!(rates(", queue: { packets: 5 }"), [USUAL; 4]);
    let back = ", rate: 5 Mbit, reverse: { rate: unlimited }";
    assert_eq!(rates(back), [Some(5_000_000), None, Some(5_000_000), None]);
    let there = ", reverse: { rate: 5 Mbit }";
    assert_eq!(rates(there), [USUAL, Some(5_000_000), None, Some(5_000_000)]);
}

#[test]
fn simulators_alone_need_no_host() {
    let text = "general: { stop_time: 1 }\nsimulators: { box: { command: /bin/true, working_directory: / } }\nswitches: [s]\nlinks: [ { between: [box, s] } ]\n";
    round_trip(text);
    assert!(parse(text).hosts.is_empty() && parse(&format!("{text}hosts: {{}}\n")).hosts.is_empty());
}
