//! Batches recorded from `nft`, as they are and with bytes changed at random.

use crate::{
    Environment, FibAnswer, FibQuestion, FilterHook, HookState, InterfaceFacts, Netfilter, NetfilterSender,
    SocketOwner,
};
use belljar_base::{Seed, SimTime, Stream};
use belljar_linux_abi::Errno;
use belljar_net::Packet;
use belljar_wire::{ipv4, protocol, udp};
use std::net::{IpAddr, Ipv4Addr};

/// A host without routes.
struct Nowhere(Stream);

impl Environment for Nowhere {
    fn now(&self) -> SimTime {
        SimTime::from_secs(1)
    }
    fn realtime(&self) -> u64 {
        0
    }
    fn interface(&self, number: usize) -> InterfaceFacts {
        InterfaceFacts { index: number as u32 + 1, name: format!("eth{number}"), ..InterfaceFacts::default() }
    }
    fn random(&mut self) -> u32 {
        self.0.next_u32()
    }
    fn fib(&mut self, _: &FibQuestion) -> FibAnswer {
        FibAnswer { kind: 1, interface: None, gateway: None }
    }
    fn masquerade_address(&mut self, _: usize, _: IpAddr) -> Option<IpAddr> {
        Some(Ipv4Addr::new(10, 9, 9, 9).into())
    }
    fn redirect_address(&mut self, _: usize, _: bool) -> Option<IpAddr> {
        None
    }
    fn mtu(&self, _: usize) -> usize {
        1_500
    }
    fn socket_owner(&self, _: u64) -> Option<SocketOwner> {
        None
    }
}

const RECORDINGS: [&str; 5] = [
    include_str!("../../recordings/masquerade.hex"),
    include_str!("../../recordings/port_forward.hex"),
    include_str!("../../recordings/firewall.hex"),
    include_str!("../../recordings/reject.hex"),
    include_str!("../../recordings/drop_sets.hex"),
];

fn bytes(recording: &str) -> Vec<u8> {
    let lines = recording.lines().filter(|line| !line.starts_with('#'));
    let hex: String = lines.collect();
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn sender() -> NetfilterSender {
    NetfilterSender { port: 7, extended: true, may_change: true, process: 7, ..NetfilterSender::default() }
}

fn datagram() -> Packet {
    let (from, to) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 2, 1));
    let mut packet = vec![0; ipv4::HEADER_LEN];
    let mut segment = Vec::new();
    udp::Repr::append((from.into(), 5), (to.into(), 9), b"datagram", &mut segment);
    ipv4::Repr::new(from, to, protocol::UDP, segment.len()).emit(&mut packet);
    packet.extend(segment);
    Packet::new(packet)
}

/// Passes a datagram by all hooks.
fn pass_all(netfilter: &mut Netfilter, environment: &mut Nowhere) {
    for hook in FilterHook::ALL {
        let mut packet = datagram();
        let state = HookState { hook, input: Some(0), output: Some(1) };
        netfilter.pass(&state, &mut packet, environment, &mut Vec::new());
    }
}

#[test]
fn a_batch_without_rights_changes_nothing() {
    let mut netfilter = Netfilter::new(Seed(1).stream(&["conntrack"]));
    let unprivileged = NetfilterSender { may_change: false, ..sender() };
    let environment = &mut Nowhere(Seed(1).stream(&["rules"]));
    let answers = netfilter.answer(&bytes(RECORDINGS[0]), &unprivileged, environment);
    let code = i32::from_ne_bytes(answers.replies[0][16..20].try_into().unwrap());
    assert_eq!(code, -i32::from(Errno::EPERM.0));
    assert!(netfilter.is_empty() && !netfilter.is_active());
}

#[test]
fn recorded_batches_are_committed_and_announced() {
    for recording in RECORDINGS {
        let mut netfilter = Netfilter::new(Seed(1).stream(&["conntrack"]));
        let environment = &mut Nowhere(Seed(1).stream(&["rules"]));
        let answers = netfilter.answer(&bytes(recording), &sender(), environment);
        assert!(answers.replies.iter().all(|reply| reply[16..20] == [0; 4]), "{recording}");
        assert!(answers.warnings.is_empty() && answers.announcements.len() > 2);
        assert!(netfilter.is_active());
        pass_all(&mut netfilter, environment);
    }
}

#[test]
fn changed_bytes_are_refused_or_taken_without_a_panic() {
    let mut stream = Seed(7).stream(&["fuzz"]);
    let environment = &mut Nowhere(Seed(1).stream(&["rules"]));
    let mut netfilter = Netfilter::new(Seed(1).stream(&["conntrack"]));
    for turn in 0..20_000 {
        let mut batch = bytes(RECORDINGS[stream.below(RECORDINGS.len() as u64) as usize]);
        for _ in 0..1 + stream.below(4) {
            let at = stream.below(batch.len() as u64) as usize;
            batch[at] = match stream.below(3) {
                0 => stream.next_u32() as u8,
                1 => batch[at] ^ 1 << stream.below(8),
                _ => 0,
            };
        }
        netfilter.answer(&batch, &sender(), environment);
        pass_all(&mut netfilter, environment);
        if turn % 50 == 0 {
            netfilter = Netfilter::new(Seed(1).stream(&["conntrack"]));
        }
    }
}
