//! Accounts of virtual interfaces, and of frames between network namespaces.

use super::*;
use crate::tun::{Tun, flag};
use crate::veth::PeerNews;
use crate::{Effect, LO};

#[test]
fn virtual_interfaces() {
    let mut network = TestNetwork::new();
    let key = network.udp_socket(A, false, 9);
    let stack = &mut network.stacks[A];
    let to = |net, host| SocketAddr::new(v4(net, host).into(), 9);
    interface(stack, "dummy0", Attachment::Dummy, 31);
    stack.send_to(key, to(31, 2), b"to a dummy").unwrap();
    assert_eq!(counts(stack, "udp", "dummy", ""), [1, 1, 0, 0]);

    let n = stack.tuns.insert(Tun::new(0, 0));
    let tun = interface(stack, "tun0", Attachment::Tun(n), 32);
    stack.tuns[n].interface = Some(tun);
    (0..501).for_each(|_| assert_eq!(stack.send_to(key, to(32, 2), b"to a program"), Ok(true)));
    assert_eq!(counts(stack, "udp", "tun", "tun_queue_full"), [502, 500, 1, 0]);
    let header = IpHeader::new(v4(32, 2).into(), v4(32, 1).into(), protocol::UDP);
    stack.tun_input(n, packet(header, &datagram(9))).unwrap();
    assert_eq!(counts(stack, "tun", "udp", ""), [1, 1, 0, 0]);
    stack.interfaces[tun].attachment = Attachment::Unplugged { tap: false };
    stack.send_to(key, to(32, 2), b"to a program that has left").unwrap();
    assert_eq!(dropped(stack, "interface_down"), 1);

    let t = stack.tuns.insert(Tun::new(0, 0));
    let tap = interface(stack, "tap0", Attachment::Tap(t), 33);
    stack.tuns[t].interface = Some(tap);
    stack.tuns[t].flags = flag::TAP;
    stack.send_to(key, to(33, 2), b"to a station").unwrap();
    assert_eq!(counts(stack, "arp", "tun", ""), [1, 501, 0, 1]);
    let answer = |stack: &Stack, interface: usize, ip: Ipv4Addr, own: Ipv4Addr| {
        let mac = Address(stack.interfaces[interface].mac);
        let question = frame::arp_request(mac, own, ip);
        frame::arp_frame(mac, &frame::arp_reply(&question, Address([2, 9, 9, 9, 9, 9])))
    };
    let reply = answer(stack, tap, v4(33, 2), v4(33, 1));
    stack.tun_input(t, reply).unwrap();
    stack.flush_network();
    assert_eq!(counts(stack, "tun", "arp", ""), [2, 1, 0, 0]);
    assert_eq!(consumed(stack, "tun"), 502);

    let vlan = interface(stack, "vlan5", Attachment::Vlan { below: tap, id: 5 }, 34);
    stack.send_to(key, to(34, 2), b"tagged").unwrap();
    let mut reply = answer(stack, vlan, v4(34, 2), v4(34, 1));
    reply.splice(12..12, [0x81, 0, 0, 5]);
    stack.tun_input(t, reply.clone()).unwrap();
    stack.flush_network();
    assert_eq!(counts(stack, "tun", "arp", ""), [3, 2, 0, 0]);
    assert_eq!(consumed(stack, "tun"), 504);
    reply[15] = 6;
    let before = consumed(stack, "other_address");
    stack.tun_input(t, reply.clone()).unwrap();
    assert_eq!(consumed(stack, "other_address"), before + 1, "another VLAN");
    reply[15] = 5;
    stack.interfaces[vlan].up = false;
    stack.tun_input(t, reply).unwrap();
    assert_eq!(dropped(stack, "interface_down"), 2);
    stack.interfaces[vlan].up = true;
    stack.interfaces[tap].up = false;
    stack.send_to(key, to(34, 2), b"over an interface that is down").unwrap();
    assert_eq!(dropped(stack, "interface_down"), 3);
    assert!(stack.transmit(Origin::PacketSocket, LO, packet(header, &datagram(9))));
    assert_eq!(originated(stack, "packet_socket"), 1);
    network.pass(secs(5));
}

#[test]
fn veth_pairs_and_namespaces() {
    let mut network = TestNetwork::new();
    let key = network.udp_socket(A, false, 9);
    let first = &mut network.stacks[A];
    let ends = [41, 42].map(|net| interface(first, "veth", Attachment::Dummy, net));
    first.interfaces.join_ends(0, ends[0], ends[1]);
    let to = SocketAddr::new(v4(41, 2).into(), 9);
    first.send_to(key, to, b"within a namespace").unwrap();
    assert_eq!(counts(first, "arp", "", "neighbour"), [1, 0, 0, 2], "a datagram and a request");
    first.interfaces[ends[1]].up = false;
    first.pass_until(first.clock.now());
    assert_eq!(counts(first, "", "", "interface_down"), [0, 0, 1, 1]);
    first.interfaces[ends[0]].carrier = false;
    first.pass_until(first.clock.now() + secs(5));
    assert_eq!(counts(first, "", "", "no_carrier")[2], 2, "further requests");

    let mut second = first.another(1);
    let near = interface(first, "near", Attachment::Veth { network: 1, peer: 1 }, 43);
    let far = interface(&mut second, "far", Attachment::Veth { network: 0, peer: near }, 43);
    first.take_effects(&mut Vec::new());
    let before = first.packet_account();
    first.send_to(key, SocketAddr::new(v4(43, 2).into(), 9), b"to another namespace").unwrap();
    assert_eq!(first.packet_account().sent, before.sent + 1);
    let mut effects = Vec::new();
    first.take_effects(&mut effects);
    let mut frames = effects.into_iter().filter_map(|effect| match effect {
        Effect::Peer(1, 1, news) => Some(*news),
        _ => None,
    });
    let Some(PeerNews::Frame(request)) = frames.next() else { panic!("a request") };
    let timer = first.timers.name(first.clock.now());
    second.clock = first.clock.clone();
    second.receive_from_peer(far, request.clone(), timer);
    assert_eq!((held(&second), second.packet_account().received), (1, 1));
    second.pass_until(second.clock.now());
    assert_eq!(counts(&second, "", "arp", ""), [0, 1, 0, 0]);
    // The namespace is removed while it holds a frame.
    second.receive_from_peer(far, request, timer);
    let held = second.packet_account().held;
    first.account.absorb(&second.account, held, DropCause::InterfaceDown);
    assert_eq!(counts(first, "", "arp", "interface_down")[1..3], [1, 2]);
    // The fixture compares with the cards.
    drop(std::mem::replace(first, stack_at(Ipv4Addr::new(11, 0, 0, 1))));
}
