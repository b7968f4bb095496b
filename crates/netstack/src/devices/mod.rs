//! Devices made inside a host, besides those of [`virtual_links`](crate::virtual_links): bridges and the devices that
//! forward frames and packets of others.
//!
//! The state of each kind is a value in [`Devices`], which exists once the host has such a device. This file connects them
//! with the interfaces: frames that a port receives ([`receive`]), frames that a device sends ([`output`]), and changes of
//! the states of interfaces ([`state_changed`]). A packet that passes a device stays the same packet; copies originate
//! ([`Origin::DeviceCopies`]).

pub mod bond;
pub mod bond_state;
#[cfg(test)]
mod bond_tests;
pub mod bridge;
mod forward;
mod ip_tunnel;
pub mod ip_tunnel_state;
pub mod ipvlan;
pub mod ipvlan_state;
pub mod macvlan;
pub mod macvlan_state;
pub mod state;
pub mod stp;
#[cfg(test)]
mod stp_tests;
mod tunnel;
pub mod vlans;
pub mod vrf;
pub mod vxlan;
pub mod vxlan_state;
pub mod wireguard;

use crate::account::{DropCause, Origin, PacketDisposition};
use crate::carrier::pass_carrier;
use crate::interface::{Attachment, DeviceKind};
use crate::ip::Inbound;
use crate::veth::cross_now;
use crate::virtual_links::TAGGED;
use crate::{Effect, PacketDirection, Stack, StackTimer, link};
use belljar_net::Packet;
use belljar_wire::ethernet::HEADER_LEN;
use bridge::{Bridge, BridgeOutput, Port};
use state::{DeviceNews, Devices};
use std::net::IpAddr;
use tunnel::take_over;

/// `XMIT_RECURSION_LIMIT`: number of devices that a packet may pass within one call.
const NEST_LIMIT: u32 = 8;

/// The devices of a stack, which exist from now on.
pub fn of(stack: &mut Stack) -> &mut Devices {
    stack.devices.get_or_insert_default()
}

/// The bridge of an interface number.
pub fn bridge(stack: &Stack, number: usize) -> Option<&Bridge> {
    stack.devices.as_ref()?.bridges.get(&number)
}

/// The bridge of an interface number.
pub fn bridge_mut(stack: &mut Stack, number: usize) -> Option<&mut Bridge> {
    stack.devices.as_mut()?.bridges.get_mut(&number)
}

/// The bridge of which an interface is a port, with the port.
pub fn port_of(stack: &Stack, interface: usize) -> Option<(&Bridge, &Port)> {
    let bridge = bridge(stack, stack.interfaces[interface].master?)?;
    Some((bridge, bridge.port(interface)?))
}

/// The macvlans, ipvlans and VXLAN interfaces on an interface, which are deleted with it.
pub fn uppers_of(stack: &Stack, number: usize) -> Vec<usize> {
    let Some(devices) = &stack.devices else { return Vec::new() };
    let macvlans =
        devices.macvlans.iter().filter(|(_, macvlan)| macvlan.below == number).map(|(upper, _)| *upper);
    let vxlans =
        devices.vxlans.iter().filter(|(_, vxlan)| vxlan.link == Some(number)).map(|(upper, _)| *upper);
    macvlans.chain(vxlans).chain(ipvlan::on(stack, number)).collect()
}

/// True if an interface lies upon another one, directly or with others between them.
pub fn lies_upon(stack: &Stack, upper: usize, lower: usize) -> bool {
    let mut below = stack.interfaces.ports_of(upper);
    if let Attachment::Vlan { below: link, .. } = stack.interfaces[upper].attachment {
        below.push(link);
    }
    if let Some(devices) = &stack.devices {
        below.extend(devices.macvlans.get(&upper).map(|macvlan| macvlan.below));
        below.extend(devices.ipvlans.get(&upper).map(|ipvlan| ipvlan.below));
        below.extend(devices.vxlans.get(&upper).and_then(|vxlan| vxlan.link));
    }
    below.into_iter().any(|next| next == lower || lies_upon(stack, next, lower))
}

/// Kind of the device that receives the frames of an interface: its bridge or bond, or the macvlans or ipvlans on it
/// (`rx_handler`).
pub fn handler(stack: &Stack, interface: usize) -> Option<DeviceKind> {
    if !macvlan::on(stack, interface).is_empty() {
        return Some(DeviceKind::Macvlan);
    }
    if ipvlan::port(stack, interface).is_some() {
        return Some(DeviceKind::Ipvlan);
    }
    match stack.interfaces[stack.interfaces[interface].master?].attachment {
        Attachment::Made(kind @ (DeviceKind::Bridge | DeviceKind::Bond)) => Some(kind),
        _ => None,
    }
}

/// Passes a received frame to the device whose port the interface is. Returns a frame that continues to the interface, or
/// the disposition of another one.
#[cold]
#[inline(never)]
pub(crate) fn receive(
    stack: &mut Stack,
    interface: usize,
    frame: Packet,
) -> Result<Packet, PacketDisposition> {
    let Some(handler) = handler(stack, interface) else { return Ok(frame) };
    // VLANs on the interface come first.
    if let Some([a, b, c, d]) = frame.open_bytes().get(HEADER_LEN - 2..HEADER_LEN + 2)
        && u16::from_be_bytes([*a, *b]) == TAGGED
        && stack.interfaces.vlan(interface, u16::from_be_bytes([*c, *d]) & 0xfff).is_some()
    {
        return Ok(frame);
    }
    match (handler, stack.interfaces[interface].master) {
        (DeviceKind::Macvlan, _) => macvlan::receive(stack, interface, frame),
        (DeviceKind::Ipvlan, _) => ipvlan::receive(stack, interface, frame),
        (DeviceKind::Bond, Some(master)) => Err(bond::receive(stack, (master, interface), frame)),
        (DeviceKind::Bridge, Some(master)) => forward::receive(stack, (master, interface), frame),
        _ => Ok(frame),
    }
}

/// Passes a received datagram to the tunnel of its port; `None` if the port has none.
#[cold]
#[inline(never)]
pub(crate) fn receive_udp(stack: &mut Stack, inbound: &Inbound, port: u16) -> Option<PacketDisposition> {
    let end = vxlan::receive(stack, inbound, port);
    let end = end.or_else(|| ip_tunnel::receive_geneve(stack, inbound, port));
    end.or_else(|| wireguard::receive(stack, inbound, port))
}

/// Passes a received packet of a tunnel's protocol to its tunnel; `None` if there is none.
#[cold]
#[inline(never)]
pub(crate) fn receive_ip(stack: &mut Stack, inbound: &Inbound) -> Option<PacketDisposition> {
    ip_tunnel::receive(stack, inbound)
}

/// Sends an IP packet on a tunnel.
#[inline(never)]
pub(crate) fn tunnel_output(
    stack: &mut Stack,
    interface: usize,
    gateway: Option<IpAddr>,
    packet: Packet,
) -> PacketDisposition {
    nested(stack, |stack| ip_tunnel::output(stack, interface, gateway, packet))
}

/// Sends an IP packet on a WireGuard interface.
#[inline(never)]
pub(crate) fn wireguard_output(stack: &mut Stack, interface: usize, packet: Packet) -> PacketDisposition {
    nested(stack, |stack| wireguard::output(stack, interface, packet))
}

/// True if an interface receives frames to an address besides its own.
#[cold]
pub(crate) fn accepts(stack: &Stack, interface: usize, address: [u8; 6]) -> bool {
    let Some(bridge) = bridge(stack, interface) else { return false };
    bridge.ports.iter().any(|port| stack.interfaces[port.interface].mac == address)
}

/// Sends a frame on a device.
#[inline(never)]
pub(crate) fn output(
    stack: &mut Stack,
    interface: usize,
    kind: DeviceKind,
    frame: Packet,
) -> PacketDisposition {
    nested(stack, |stack| match kind {
        DeviceKind::Bridge => forward::output(stack, interface, frame),
        DeviceKind::Bond => bond::output(stack, interface, frame),
        DeviceKind::Vxlan => vxlan::output(stack, interface, frame),
        DeviceKind::Macvlan => macvlan::output(stack, interface, frame),
        DeviceKind::Ipvlan => ipvlan::output(stack, interface, frame),
        DeviceKind::Gretap | DeviceKind::Geneve => ip_tunnel::output(stack, interface, None, frame),
        // These have no frames.
        _ => PacketDisposition::dropped(DropCause::UnknownProtocol),
    })
}

/// Passes a packet on by a device, unless devices pass it on in a circle.
fn nested(stack: &mut Stack, pass: impl FnOnce(&mut Stack) -> PacketDisposition) -> PacketDisposition {
    let devices = of(stack);
    if devices.nesting >= NEST_LIMIT {
        return PacketDisposition::dropped(DropCause::DeviceLoop);
    }
    devices.nesting += 1;
    let end = pass(stack);
    of(stack).nesting -= 1;
    end
}

/// Receives a frame at a device.
fn frame_received(stack: &mut Stack, number: usize, frame: Packet) -> PacketDisposition {
    stack.interfaces.count_virtual(number, frame.len(), PacketDirection::In);
    stack.frame_input(number, frame)
}

/// Passes a frame that is sent on a device to another interface of the host.
fn cross(stack: &mut Stack, (number, to): (usize, usize), frame: Packet) -> PacketDisposition {
    let (checksum, mark) = (frame.checksum(), frame.mark());
    let bytes = take_over(stack, number, frame);
    cross_now(stack, to, Packet::new(bytes).with_checksum(checksum).with_mark(mark));
    PacketDisposition::HELD
}

/// Copy of a packet, which counts as one of its own. Only the original is charged to its sender.
fn copy(packet: &Packet) -> Packet {
    Packet::new(packet.open_bytes().to_vec()).with_checksum(packet.checksum()).with_mark(packet.mark())
}

/// Creates the state of a new device.
pub fn create(stack: &mut Stack, number: usize, kind: DeviceKind) {
    let mac = stack.interfaces[number].mac;
    match kind {
        DeviceKind::Bridge => {
            let now = stack.clock.now();
            let mut made = Bridge::new(number, mac);
            made.add_own_address(None, mac, now);
            made.outputs.clear();
            of(stack).bridges.insert(number, made);
        }
        DeviceKind::Bond => {
            of(stack).bonds.insert(number, bond_state::Bond::default());
            stack.interfaces[number].carrier = false;
        }
        DeviceKind::Wireguard => wireguard::create(stack, number),
        _ => {
            of(stack);
        }
    }
}

/// Removes the state of a device, whose ports have left.
pub fn delete(stack: &mut Stack, number: usize) {
    wireguard::delete(stack, number);
    ipvlan::delete(stack, number);
    if let Some(devices) = &mut stack.devices {
        devices.bonds.remove(&number);
        devices.bridges.remove(&number);
        devices.vxlans.remove(&number);
        devices.vrfs.remove(&number);
        devices.macvlans.remove(&number);
        devices.tunnels.remove(&number);
    }
    set_timer(stack);
}

/// Makes an interface a port of a bridge (`br_add_if`). False if the bridge has no port number left.
pub fn attach(stack: &mut Stack, number: usize, port: usize) -> bool {
    let (now, mac) = (stack.clock.now(), stack.interfaces[port].mac);
    let cost = path_cost(link::speed(&stack.eth0, &stack.links, &stack.interfaces[port]));
    let Some(bridge) = bridge_mut(stack, number) else { return false };
    if !bridge.add_port(port, mac, cost, now) {
        return false;
    }
    stack.interfaces[port].master = Some(number);
    recalculate(stack, number);
    port_state_changed(stack, port);
    settle(stack, number);
    true
}

/// Takes a port out of its bridge (`br_del_if`).
pub fn detach(stack: &mut Stack, port: usize) {
    let now = stack.clock.now();
    let Some(number) = stack.interfaces[port].master.take() else { return };
    let macs = macs_of_ports(stack, number);
    let mac = stack.interfaces[port].mac;
    let Some(bridge) = bridge_mut(stack, number) else { return };
    bridge.disable_port(port, now);
    bridge.ports.retain(|other| other.interface != port);
    bridge.remove_own_address(Some(port), mac, now, &macs);
    bridge.forget_port(port, true);
    recalculate(stack, number);
    settle(stack, number);
}

fn macs_of_ports(stack: &Stack, number: usize) -> Vec<(usize, [u8; 6])> {
    let ports = bridge(stack, number).map_or(&[][..], |bridge| &bridge.ports);
    ports.iter().map(|port| (port.interface, stack.interfaces[port.interface].mac)).collect()
}

/// Takes over the lowest hardware address and MTU of the ports, unless an administrator has set them
/// (`br_stp_recalculate_bridge_id`, `br_mtu_auto_adjust`).
fn recalculate(stack: &mut Stack, number: usize) {
    let lowest = macs_of_ports(stack, number).into_iter().map(|(_, mac)| mac).min().unwrap_or_default();
    let Some(bridge) = bridge(stack, number) else { return };
    let mtu = bridge.ports.iter().map(|port| stack.interfaces[port.interface].mtu).min();
    if let Some(mtu) = mtu.filter(|_| !bridge.mtu_is_set) {
        stack.interfaces[number].mtu = mtu;
    }
    if self::bridge(stack, number).is_some_and(|bridge| !bridge.mac_is_set && bridge.id.mac() != lowest) {
        set_bridge_mac(stack, number, lowest);
    }
}

/// Changes the hardware address of a bridge, and of the VLANs on it that have the same.
pub fn set_bridge_mac(stack: &mut Stack, number: usize, mac: [u8; 6]) {
    let (now, before) = (stack.clock.now(), stack.interfaces[number].mac);
    let macs = macs_of_ports(stack, number);
    let Some(bridge) = bridge_mut(stack, number) else { return };
    bridge.remove_own_address(None, before, now, &macs);
    bridge.add_own_address(None, mac, now);
    bridge.set_mac(mac, now);
    let vlans = stack.interfaces.vlans_of(number);
    for each in std::iter::once(number).chain(vlans) {
        if stack.interfaces[each].mac == before {
            stack.interfaces[each].mac = mac;
        }
    }
}

/// Handles a change of the hardware address of an interface: that of a port or a bridge, or one with ipvlans on it.
pub fn mac_changed(stack: &mut Stack, number: usize, before: [u8; 6]) {
    let (now, mac) = (stack.clock.now(), stack.interfaces[number].mac);
    for upper in ipvlan::on(stack, number) {
        stack.interfaces[upper].mac = mac;
    }
    if let Some(bridge) = bridge_mut(stack, number) {
        bridge.mac_is_set = true;
        stack.interfaces[number].mac = before;
        set_bridge_mac(stack, number, mac);
        settle(stack, number);
    }
    let Some(master) = stack.interfaces[number].master else { return };
    let macs = macs_of_ports(stack, master);
    let Some(bridge) = bridge_mut(stack, master) else { return };
    bridge.remove_own_address(Some(number), before, now, &macs);
    bridge.add_own_address(Some(number), mac, now);
    recalculate(stack, master);
    settle(stack, master);
}

/// Handles a change of the MTU of an interface by an administrator.
pub fn mtu_changed(stack: &mut Stack, number: usize) {
    if let Some(bridge) = bridge_mut(stack, number) {
        bridge.mtu_is_set = true;
    }
    if let Some(master) = stack.interfaces[number].master {
        recalculate(stack, master);
    }
}

/// Path cost of a port of this speed in Mbit/s (`port_cost`).
fn path_cost(speed: Option<u32>) -> u32 {
    match speed {
        Some(10_000..) if speed != Some(u32::MAX) => 2,
        Some(1_000..=9_999) => 4,
        Some(100..=999) => 19,
        _ => 100,
    }
}

/// Handles a change of the state or carrier of an interface: ports and bridges start and stop.
pub fn state_changed(stack: &mut Stack, number: usize) {
    if stack.devices.is_none() {
        return;
    }
    let now = stack.clock.now();
    if let Attachment::Made(DeviceKind::Bridge) = stack.interfaces[number].attachment {
        let up = stack.interfaces[number].up;
        let running: Vec<usize> =
            (0..stack.interfaces.len()).filter(|n| stack.interfaces[*n].has_lower_up()).collect();
        if let Some(bridge) = bridge_mut(stack, number) {
            match (bridge.up, up) {
                (false, true) => bridge.start(now, |interface| running.contains(&interface)),
                (true, false) => bridge.stop(now),
                _ => {}
            }
        }
        settle(stack, number);
    }
    if let Attachment::Made(DeviceKind::Vxlan) = stack.interfaces[number].attachment {
        vxlan::state_changed(stack, number);
        set_timer(stack);
    }
    if let Attachment::Made(DeviceKind::Wireguard) = stack.interfaces[number].attachment {
        wireguard::state_changed(stack, number);
    }
    bond::state_changed(stack, number);
    let carrier = stack.interfaces[number].has_lower_up();
    for (upper, _) in macvlan::on(stack, number) {
        pass_carrier(stack, upper, carrier);
    }
    for upper in ipvlan::on(stack, number) {
        pass_carrier(stack, upper, carrier);
    }
    port_state_changed(stack, number);
}

fn port_state_changed(stack: &mut Stack, number: usize) {
    let now = stack.clock.now();
    let Some(master) = stack.interfaces[number].master else { return };
    let running = stack.interfaces[number].has_lower_up();
    let Some(bridge) = bridge_mut(stack, master) else { return };
    let enabled = bridge.port(number).is_some_and(|port| port.state != bridge::PortState::Disabled);
    match (enabled, running && bridge.up) {
        (false, true) => bridge.enable_port(number, now),
        (true, false) => bridge.disable_port(number, now),
        _ => return,
    }
    settle(stack, master);
}

/// Carries out the outputs of a bridge, and sets its carrier: it has one while a port forwards.
pub fn settle(stack: &mut Stack, number: usize) {
    let Some(bridge) = bridge_mut(stack, number) else { return };
    let outputs = std::mem::take(&mut bridge.outputs);
    let carrier = bridge.forwarding_ports() > 0 || !bridge.selected;
    for output in outputs {
        match output {
            BridgeOutput::Bpdu(port, bytes) => forward::send_bpdu(stack, (number, port), &bytes),
            BridgeOutput::Port(port) => stack.effects.push(Effect::Device(Box::new(DeviceNews::Port(port)))),
            BridgeOutput::Fdb(key, entry, there) => {
                let news = DeviceNews::Fdb { bridge: number, key, entry, there };
                stack.effects.push(Effect::Device(Box::new(news)));
            }
        }
    }
    pass_carrier(stack, number, carrier);
    set_timer(stack);
}

/// Handles the timer of the devices.
pub(crate) fn on_timer(stack: &mut Stack) {
    let now = stack.clock.now();
    let Some(devices) = &mut stack.devices else { return };
    devices.timer = None;
    let due = |bridge: &&mut Bridge| bridge.next_timeout().is_some_and(|at| at <= now);
    let mut bridges = Vec::new();
    for bridge in devices.bridges.values_mut().filter(due) {
        bridge.on_timeout(now);
        bridges.push(bridge.interface);
    }
    for bridge in bridges {
        settle(stack, bridge);
    }
    let mut aged = Vec::new();
    for (number, vxlan) in &mut of(stack).vxlans {
        aged.extend(vxlan.age(now, false).into_iter().map(|(mac, entry)| (*number, mac, entry)));
    }
    for (number, mac, entry) in aged {
        vxlan::report(stack, number, mac, &entry, false);
    }
    wireguard::on_timer(stack);
    bond::on_timer(stack);
    set_timer(stack);
    stack.flush_network();
}

/// Schedules the next timer of the devices.
pub fn set_timer(stack: &mut Stack) {
    let Some(devices) = &mut stack.devices else { return };
    let next = devices.next_timeout().map(|at| at.max(stack.clock.now()));
    stack.timers.set(&mut devices.timer, next, StackTimer::Devices);
}

/// Counts a copy of a packet that a device sends.
fn originate_copy(stack: &mut Stack, end: PacketDisposition) {
    stack.account.originate(Origin::DeviceCopies, end);
}
