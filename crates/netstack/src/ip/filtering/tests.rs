//! Rules on the router between two hosts, or on a host, given by the batches that `nft` has sent for them
//! (`crates/netfilter/recordings`).

use super::answer;
use crate::account::DropCause;
use crate::effects::Effect;
use crate::ip::hooks::HookPoint;
use crate::testing::{A, B, ETH, R, TestNetwork, far, own, v4};
use crate::{Stack, address, interface_index};
use belljar_base::SimDuration;
use belljar_conntrack::proc;
use belljar_linux_abi::{Errno, c};
use belljar_netfilter::NetfilterSender;
use std::net::{IpAddr, SocketAddr};

/// The batches of a recording.
fn batches(text: &str) -> Vec<Vec<u8>> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let text: Vec<&str> = lines.collect();
    let hex = text.join("\n");
    let batches = hex.split("\n\n").map(|batch| batch.replace('\n', ""));
    let bytes = |hex: String| {
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        (0..hex.len()).step_by(2).map(byte).collect()
    };
    batches.filter(|hex| !hex.is_empty()).map(bytes).collect()
}

/// Loads the rules of a recording.
fn load(stack: &mut Stack, text: &str) {
    let requester = NetfilterSender { port: 1, may_change: true, ..NetfilterSender::default() };
    for batch in batches(text) {
        let answers = answer(stack, &batch, &requester);
        for reply in answers.replies {
            assert_eq!(reply[16..20], [0; 4], "an error: {reply:?}");
        }
    }
}

macro_rules! rules {
    ($name:literal) => {
        include_str!(concat!("../../../../netfilter/recordings/", $name, ".hex"))
    };
}

/// The senders of the datagrams that a socket has received.
fn received(network: &mut TestNetwork, host: usize, key: crate::SocketKey) -> Vec<SocketAddr> {
    let mut senders = Vec::new();
    while let Ok(Some(from)) = network.stacks[host].receive_from(key, &mut Vec::new()) {
        senders.push(from);
    }
    senders
}

fn seconds(n: u64) -> SimDuration {
    SimDuration::from_secs(n)
}

fn network() -> TestNetwork {
    let mut network = TestNetwork::new();
    network.warm_up();
    network
}

#[test]
fn a_router_masquerades_both_directions_of_a_flow() {
    let mut network = network();
    load(&mut network.stacks[R], rules!("masquerade"));
    let (client, server) = (network.udp_socket(A, false, 4_000), network.udp_socket(B, false, 9));
    network.send(client, far(false), 10);
    network.pass(seconds(1));
    let seen = received(&mut network, B, server);
    assert_eq!(seen, [SocketAddr::new(v4(2, 2).into(), 4_000)]);
    // The answer to the router's address reaches the client from the server's.
    assert_eq!(network.stacks[B].send_to(server, seen[0], &[1; 5]), Ok(true));
    network.pass(seconds(1));
    assert_eq!(received(&mut network, A, client), [SocketAddr::new(far(false), 9)]);
    let rules = network.stacks[R].hooks.rules().unwrap();
    let now = network.stacks[R].clock.now();
    let text = proc::nf_conntrack(rules.netfilter.conntrack(), now);
    assert!(
        text.contains("src=10.0.1.1 dst=10.0.2.1 sport=4000 dport=9 src=10.0.2.1 dst=10.0.2.2"),
        "{text}"
    );
}

#[test]
fn fragments_are_translated_as_one_datagram() {
    let mut network = network();
    load(&mut network.stacks[R], rules!("masquerade"));
    let (client, server) = (network.udp_socket(A, false, 4_000), network.udp_socket(B, false, 9));
    let options = network.stacks[A].socket(client).ip_options_mut().unwrap();
    options.mtu_discover = 0;
    network.send(client, far(false), 1_900);
    network.pass(seconds(1));
    assert_eq!(received(&mut network, B, server), [SocketAddr::new(v4(2, 2).into(), 4_000)]);
}

#[test]
fn a_port_of_the_router_leads_to_the_host_behind_it() {
    let mut network = network();
    load(&mut network.stacks[R], rules!("port_forward"));
    let (client, server) = (network.udp_socket(A, false, 4_000), network.udp_socket(B, false, 9));
    let public = SocketAddr::new(v4(1, 2).into(), 5_000);
    assert_eq!(network.stacks[A].send_to(client, public, &[1; 10]), Ok(true));
    network.pass(seconds(1));
    let seen = received(&mut network, B, server);
    assert_eq!(seen, [SocketAddr::new(own(false), 4_000)]);
    assert_eq!(network.stacks[B].send_to(server, seen[0], &[1; 5]), Ok(true));
    network.pass(seconds(1));
    assert_eq!(received(&mut network, A, client), [public]);
}

#[test]
fn a_stateful_firewall_lets_answers_in_and_nothing_else() {
    for v6 in [false, true] {
        let mut network = network();
        load(&mut network.stacks[R], rules!("firewall"));
        let (inside, outside) = (network.udp_socket(A, v6, 4_000), network.udp_socket(B, v6, 9));
        let to_inside = SocketAddr::new(own(v6), 4_000);
        assert_eq!(network.stacks[B].send_to(outside, to_inside, &[1; 5]), Ok(true));
        network.pass(seconds(1));
        assert_eq!(received(&mut network, A, inside), []);
        let drops = network.stacks[R].counters.hook_drops[HookPoint::Forward as usize];
        assert_eq!(drops[usize::from(v6)], 1);
        network.send(inside, far(v6), 10);
        network.pass(seconds(1));
        assert_eq!(received(&mut network, B, outside).len(), 1);
        assert_eq!(network.stacks[B].send_to(outside, to_inside, &[1; 5]), Ok(true));
        network.pass(seconds(1));
        assert_eq!(received(&mut network, A, inside), [SocketAddr::new(far(v6), 9)]);
        let dropped = network.stacks[R].packet_account();
        assert_eq!(dropped.dropped.get(DropCause::Hook.name()), Some(&1));
    }
}

#[test]
fn a_rejected_datagram_is_logged_and_answered() {
    for v6 in [false, true] {
        let mut network = network();
        load(&mut network.stacks[R], rules!("reject"));
        let client = network.udp_socket(A, v6, 4_000);
        network.stacks[A]
            .udp_connect(
                client,
                &address::emit(if v6 { c::AF_INET6 } else { c::AF_INET }, SocketAddr::new(far(v6), 9)),
            )
            .unwrap();
        network.send(client, far(v6), 10);
        network.pass(seconds(1));
        assert_eq!(network.stacks[A].socket(client).error, Some(Errno::ECONNREFUSED));
        let mut effects = Vec::new();
        network.stacks[R].take_effects(&mut effects);
        let lines = effects.iter().filter_map(|effect| match effect {
            Effect::KernelLog(4, line) => Some(line.to_string()),
            _ => None,
        });
        let lines: Vec<String> = lines.collect();
        assert_eq!(lines.len(), 1, "{effects:?}");
        assert!(lines[0].starts_with("no IN=eth0 OUT=eth1 MAC= SRC="), "{lines:?}");
        assert!(lines[0].contains("PROTO=UDP SPT=4000 DPT=9 LEN=18"), "{lines:?}");
    }
}

#[test]
fn sets_and_verdict_maps_decide() {
    let mut network = network();
    load(&mut network.stacks[A], rules!("drop_sets"));
    let client = network.udp_socket(A, false, 4_000);
    let mut send = |ip: IpAddr, port| network.stacks[A].send_to(client, SocketAddr::new(ip, port), &[1]);
    assert_eq!(send(far(false), 9), Err(Errno::EPERM));
    assert_eq!(send(far(false), 10), Ok(true));
    assert_eq!(send(v4(2, 16).into(), 9), Ok(true));
    assert_eq!(interface_index(ETH), 2);
}
