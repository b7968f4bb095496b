//! Accounts of a machine's power, processor and name server.

use super::*;
use crate::StackConfig;
use crate::clock::{Clock, CpuModel, DEFAULT_EPOCH_SECS};
use crate::cpu::CpuCosts;
use crate::resolver::Resolver;
use belljar_base::{EventClass, EventKey, HostId, Seed, SimTime};
use belljar_net::dns::Zone;
use std::sync::Arc;

#[test]
fn power_cuts() {
    let mut network = TestNetwork::new();
    network.warm_up();
    let listener = network.stacks[B].listen(SocketAddr::new(far(false), 80), 5).unwrap();
    let client = network.stacks[A].connect(SocketAddr::new(far(false), 80)).unwrap();
    network.pass(secs(1));
    assert!(network.stacks[B].accept(listener).unwrap().is_some());
    let key = network.udp_socket(A, false, 0);
    network.send(key, v4(1, 77).into(), 10);
    network.send(key, v4(1, 78).into(), 10);
    network.send(key, own(false), 10);
    let header = IpHeader { more_fragments: true, ..IpHeader::new(far(false), own(false), protocol::UDP) };
    receive(&mut network.stacks[A], ethertype::IPV4, packet(header, &[1; 16]));
    let stack = &mut network.stacks[A];
    assert_eq!(held(stack), 4);
    let before = stack.packet_account();
    let cut = stack.cut_power();
    // What the closing of the sockets causes is discarded.
    stack.close(client);
    stack.close(key);
    stack.flush_network();
    assert_eq!(stack.packet_account().imbalance(), 0);
    stack.take_effects(&mut Vec::new());
    network.stacks[A].lose_state(cut);
    let after = network.stacks[A].packet_account();
    assert_eq!((after.dropped["host_down"], after.held), (4, 0));
    assert_eq!((after.sent, after.originated), (before.sent, before.originated));
    network.pass(secs(1));
    // Frames that arrive while the host is down are drops of its cards.
    let header = IpHeader::new(far(false), own(false), protocol::UDP);
    receive(&mut network.stacks[A], ethertype::IPV4, packet(header, &datagram(9)));
    network.check();
    network.stacks[A].restore_power();
    network.pass(secs(1));
    let key = network.udp_socket(A, false, 0);
    network.send(key, far(false), 10);
    network.pass(secs(1));
    // The stacks of further namespaces end with the first.
    let mut alone = stack_at(Ipv4Addr::new(11, 0, 0, 1));
    let mut further = alone.another(1);
    let end = interface(&mut further, "veth", Attachment::Veth { network: 0, peer: 0 }, 43);
    let timer = alone.timers.name(alone.clock.now());
    further.receive_from_peer(end, Packet::new(vec![0; 20]), timer);
    let mut cut = alone.cut_power();
    cut.end_stack(&further);
    alone.lose_state(cut);
    assert_eq!((dropped(&alone, "host_down"), alone.packet_account().received), (1, 1));
}

#[test]
fn rings_of_processors() {
    let (fast, slow) = (SimDuration::ZERO, SimDuration::from_millis(1));
    let costs = CpuCosts { syscall: fast, packet: slow, byte: fast, interrupt: fast, backlog: 3 };
    let address = Ipv4Addr::new(11, 0, 0, 1);
    let config = StackConfig { address, on_graph: true, ..StackConfig::new(HostId(0), "host", Seed(1)) };
    let model = CpuModel { costs: Some(costs), ..CpuModel::default() };
    let mut stack = Stack::new(config, Clock::new(DEFAULT_EPOCH_SECS, model));
    for sequence in 0..10 {
        let key = EventKey {
            time: SimTime::from_nanos(1 + sequence),
            class: EventClass::Arrival,
            source: HostId(1),
            sequence,
        };
        let header = IpHeader::new(Ipv4Addr::new(11, 0, 0, 2).into(), address.into(), 200);
        stack.deliver(key, None, Packet::new(packet(header, &[0; 8])));
    }
    stack.pass_until(SimTime::from_secs(1));
    let lost = stack.clock.processor().unwrap().used().dropped;
    assert!(lost > 0);
    assert_eq!((dropped(&stack, "backlog"), dropped(&stack, "no_socket")), (lost, 10 - lost));
    assert_eq!(stack.packet_account().received, stack.eth0.nic.counters().packets_in);
}

#[test]
fn name_servers() {
    let server = Ipv4Addr::new(11, 9, 9, 9);
    for on_graph in [true, false] {
        let zone = Arc::new(Zone::new(server, std::iter::empty()));
        let resolver = Some(Resolver {
            zone,
            latency: SimDuration::from_millis(1),
            down: false,
            faults: Default::default(),
        });
        let address = Ipv4Addr::new(11, 0, 0, 1);
        let links = if on_graph { Vec::new() } else { vec![link(A, "eth0", 1, 1)] };
        let config = StackConfig {
            address,
            on_graph,
            links,
            resolver,
            ..StackConfig::new(HostId(0), "host", Seed(1))
        };
        let mut stack = Stack::new(config, Clock::new(DEFAULT_EPOCH_SECS, CpuModel::default()));
        let key = stack.bind_udp(0).unwrap();
        let query = b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01";
        stack.send_to(key, SocketAddr::new(server.into(), 53), query).unwrap();
        stack.pass_until(SimTime::from_secs(1));
        assert!(stack.receive_from(key, &mut Vec::new()).unwrap().is_some());
        let account = stack.packet_account();
        assert_eq!((account.imbalance(), account.consumed["udp"]), (0, 1));
        match on_graph {
            true => {
                assert_eq!((account.sent, account.received), (1, 1));
                assert_eq!((stack.account.to_resolver, stack.account.from_resolver), (1, 1));
            }
            false => {
                assert_eq!((account.consumed["resolver"], account.originated["resolver"]), (1, 1));
                assert_eq!((stack.account.to_resolver, stack.account.from_resolver), (0, 0));
            }
        }
    }
}
