//! Bonds: interfaces that send by one or all of their ports, and receive by them (`bond_main.c` of Linux).

use super::bond_state::{Bond, BondPort};
use super::{copy, frame_received, nested, of, originate_copy};
use crate::account::{DropCause, Origin, PacketDisposition};
use crate::carrier::pass_carrier;
use crate::devices::state::DeviceNews;
use crate::{Effect, PacketDirection, Stack};
use belljar_linux_abi::c;
use belljar_net::Packet;
use belljar_net::frame::{arp_frame, arp_request};
use belljar_wire::ethernet::Address;
use belljar_wire::icmpv6::Discovery;
use belljar_wire::ipv6;

const DROPPED: PacketDisposition = PacketDisposition::dropped(DropCause::Bond);

/// The bond of an interface number.
pub fn bond(stack: &Stack, number: usize) -> Option<&Bond> {
    stack.devices.as_ref()?.bonds.get(&number)
}

/// The bond of an interface number.
pub fn bond_mut(stack: &mut Stack, number: usize) -> Option<&mut Bond> {
    stack.devices.as_mut()?.bonds.get_mut(&number)
}

/// The port that an interface is in a bond.
pub fn port(stack: &Stack, interface: usize) -> Option<&BondPort> {
    bond(stack, stack.interfaces[interface].master?)?.port(interface)
}

/// Number of the bond of which an interface is a port.
pub fn of_port(stack: &Stack, interface: usize) -> Option<usize> {
    port(stack, interface).and(stack.interfaces[interface].master)
}

/// Receives a frame at a port (`bond_handle_frame`).
pub(super) fn receive(
    stack: &mut Stack,
    (number, interface): (usize, usize),
    frame: Packet,
) -> PacketDisposition {
    let takes = port(stack, interface).is_some_and(|port| !port.is_backup);
    if !takes || !stack.interfaces[number].up {
        return DROPPED;
    }
    nested(stack, |stack| frame_received(stack, number, frame))
}

/// Sends a frame on a bond (`bond_start_xmit`).
pub(super) fn output(stack: &mut Stack, number: usize, mut frame: Packet) -> PacketDisposition {
    stack.seen(stack.clock.now(), number, &mut frame, PacketDirection::Out);
    let Stack { devices, interfaces, .. } = stack;
    let Some(bond) = devices.as_mut().and_then(|devices| devices.bonds.get_mut(&number)) else {
        return PacketDisposition::dropped(DropCause::InterfaceDown);
    };
    let mut ports = bond.outputs(frame.open_bytes(), |port| interfaces[port].has_lower_up());
    let Some(last) = ports.pop() else { return DROPPED };
    stack.interfaces.count_virtual(number, frame.len(), PacketDirection::Out);
    for port in ports {
        let copied = copy(&frame);
        let end = stack.send_framed(port, copied);
        originate_copy(stack, end);
    }
    stack.send_framed(last, frame)
}

/// Marks an interface as a port (`IFF_SLAVE`), which has no IPv6 addresses of its own.
pub fn mark(stack: &mut Stack, port: usize, is_port: bool) {
    let slave = c::IFF_SLAVE as u32;
    let interface = &mut stack.interfaces[port];
    if (interface.lasting_flags() & slave != 0) != is_port {
        interface.settings.toggled ^= slave;
    }
}

/// Makes an interface that is up a port of a bond (`bond_enslave`). `own` is the hardware address and the MTU that it had.
pub fn attach(stack: &mut Stack, (number, port): (usize, usize), own: ([u8; 6], usize)) {
    let carrier = stack.interfaces[port].has_lower_up();
    stack.interfaces[port].master = Some(number);
    let Some(bond) = bond_mut(stack, number) else { return };
    bond.add(port, own, carrier);
    settle(stack, number, true);
}

/// Takes a port out of its bond (`__bond_release_one`). Returns the hardware address and MTU that it had before.
pub fn detach(stack: &mut Stack, port: usize) -> Option<([u8; 6], usize)> {
    let number = of_port(stack, port)?;
    stack.interfaces[port].master = None;
    mark(stack, port, false);
    let left = bond_mut(stack, number)?.remove(port)?;
    settle(stack, number, true);
    Some(left.own)
}

/// Starts or stops the monitor of a bond that is taken up or down.
pub(super) fn state_changed(stack: &mut Stack, number: usize) {
    let (now, up) = (stack.clock.now(), stack.interfaces[number].up);
    let Some(bond) = bond_mut(stack, number).filter(|bond| bond.up != up) else { return };
    bond.set_up(now, up);
    super::set_timer(stack);
}

/// Compares the carriers of ports with their states, in bonds for which that is due.
pub(super) fn on_timer(stack: &mut Stack) {
    let now = stack.clock.now();
    let due = |bond: &Bond| bond.next_timeout().is_some_and(|at| at <= now);
    let numbers: Vec<usize> =
        of(stack).bonds.iter().filter(|(_, bond)| due(bond)).map(|(number, _)| *number).collect();
    for number in numbers {
        announce(stack, number);
        let Stack { devices, interfaces, .. } = stack;
        let Some(bond) = devices.as_mut().and_then(|devices| devices.bonds.get_mut(&number)) else {
            continue;
        };
        let select = bond.check(now, |port| interfaces[port].has_lower_up());
        settle(stack, number, select);
    }
}

/// Selects the active port again, and sets the carrier of a bond.
pub fn settle(stack: &mut Stack, number: usize, select: bool) {
    let Some(bond) = bond_mut(stack, number) else { return };
    let changed = select && bond.select();
    let carrier = bond.has_carrier();
    pass_carrier(stack, number, carrier);
    if changed {
        stack.effects.push(Effect::Device(Box::new(DeviceNews::Link(number))));
        announce(stack, number);
    }
    super::set_timer(stack);
}

/// Announces the addresses of the host on a bond after a failover, if that is due: gratuitous ARP requests and unsolicited
/// neighbour advertisements (`NETDEV_NOTIFY_PEERS`).
fn announce(stack: &mut Stack, number: usize) {
    let carrier = stack.interfaces[number].has_lower_up();
    if !bond_mut(stack, number).is_some_and(|bond| bond.take_announcement(carrier)) {
        return;
    }
    for each in std::iter::once(number).chain(stack.interfaces.vlans_of(number)) {
        let interface = &stack.interfaces[each];
        let mac = Address(interface.mac);
        let (own, own6) = (interface.addresses.clone(), interface.addresses6.clone());
        for address in own {
            let request = arp_request(mac, address.ip, address.ip);
            stack.transmit_frame(Origin::Arp, each, arp_frame(Address::BROADCAST, &request));
        }
        for address in own6 {
            let message = Discovery::NeighbourAdvert {
                target: address.ip,
                router: false,
                solicited: false,
                overrides: true,
                address: Some(mac),
            };
            stack.send_discovery(each, address.ip, ipv6::ALL_NODES, None, &message);
        }
    }
}
