//! Accounts of the stacks of network namespaces that end.

use super::*;
use belljar_netstack::interface::Attachment;
use belljar_netstack::veth::PeerNews;

/// A host with a further namespace, whose only veth interface, of this number, holds a frame.
fn with_namespace() -> (TestHost, usize) {
    let mut test = TestHost::new(1);
    test.host.make_network(1);
    let peer = test.host.net.add_virtual("veth", Attachment::Dummy, None, None);
    let peer = Attachment::Veth { network: 0, peer };
    let far = test.host.stack_mut(1).add_virtual("veth", peer, None, None);
    test.host.tell_interface(0, (1, far), PeerNews::Frame(Packet::new(vec![0; 60])));
    assert_eq!(test.host.stack(1).packet_account().held, 1);
    (test, far)
}

#[test]
fn packets_in_a_removed_namespace_are_drops_of_the_first_stack() {
    let (mut test, far) = with_namespace();
    test.host.networks.left = true;
    test.host.leave_networks();
    assert!(!test.host.networks.has(1));
    // So are those for a namespace that no longer exists.
    test.host.tell_interface(0, (1, far), PeerNews::Frame(Packet::new(vec![0; 60])));
    let account = test.host.net.packet_account();
    assert_eq!((account.received, account.dropped["interface_down"]), (2, 2));
}

#[test]
fn a_crash_ends_all_stacks() {
    let (mut test, _) = with_namespace();
    let fd = test.udp4();
    test.send_to(fd, b"on lo", loopback(9)).unwrap();
    let before = test.host.net.packet_account();
    assert_eq!(before.held, 1);
    test.host.crash(belljar_machine::CrashFiles::Kept);
    let account = test.host.net.packet_account();
    assert_eq!((account.received, account.dropped["host_down"], account.held), (1, 2, 0));
    assert_eq!((account.sent, account.originated), (before.sent, before.originated));
}

#[test]
fn frames_of_packet_sockets_that_no_medium_carries_are_counted() {
    let mut test = TestHost::new(1);
    let socket = test.call(c::SYS_socket, &[c::AF_PACKET as u64, c::SOCK_RAW as u64, 0]).expect("a socket");
    // `struct sockaddr_ll` of `lo`.
    let name = [c::AF_PACKET as u32, 1, 0, 0, 0].map(u32::to_ne_bytes);
    let (address, data) = (test.put(ADDRESS, name.as_flattened()), test.put(BUFFER, &[0x88; 60]));
    test.call(c::SYS_sendto, &[socket, data, 60, 0, address, 20]).unwrap();
    let account = test.host.net.packet_account();
    assert_eq!((account.originated["packet_socket"], account.dropped["unknown_protocol"]), (1, 1));
}
