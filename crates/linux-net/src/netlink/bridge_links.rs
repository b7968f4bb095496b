//! Bridges and their ports in rtnetlink: `IFLA_INFO_DATA` and `IFLA_INFO_SLAVE_DATA`, and the master of an interface.

use super::bridges::fdb_message;
use super::group;
use super::links::oper_state;
use super::message::{Message, Request, attribute, attributes, put};
use super::policies;
use super::policy::LIBERAL;
use super::refusal::{Refusal, invalid, refusal};
use super::vxlan_links::announce_vxlan;
use crate::Admin;
use crate::interfaces::{enslave_to_bond, release};
use crate::ioctl::interface_flags;
use belljar_base::{SimDuration, SimTime};
use belljar_linux_abi::{Errno, c};
use belljar_netstack::devices::bridge::{Bridge, Port, PortFlags, PortState};
use belljar_netstack::devices::state::DeviceNews;
use belljar_netstack::devices::vlans::VlanSet;
use belljar_netstack::devices::{self, bond, ipvlan, macvlan, vrf};
use belljar_netstack::interface::{Attachment, DeviceKind};
use belljar_netstack::{LO, interface_index};

/// `IFLA_PROTINFO` with `NLA_F_NESTED`.
const PROTINFO: u16 = 12 | 0x8000;
/// `IFLA_AF_SPEC`.
const AF_SPEC: u16 = 26;
/// `IFLA_BRIDGE_VLAN_INFO`.
pub(super) const VLAN_INFO: u16 = 2;
/// Flags of `struct bridge_vlan_info`.
pub(super) mod vlan_flag {
    pub const PVID: u16 = 2;
    pub const UNTAGGED: u16 = 4;
    pub const RANGE_BEGIN: u16 = 8;
    pub const RANGE_END: u16 = 16;
}
/// `RTEXT_FILTER_BRVLAN` and `RTEXT_FILTER_BRVLAN_COMPRESSED`.
pub(super) const FILTER_VLANS: u32 = 2;
pub(super) const FILTER_COMPRESSED: u32 = 4;
/// `IFLA_BR_*` with numbers only: attribute, length in bytes, and the value that is accepted without effect since it is
/// the only one that is supported.
const FIXED: [(u16, usize, u64); 22] = [
    (22, 1, 1),
    (23, 1, 1),
    (24, 1, 0),
    (25, 1, 0),
    (42, 1, 0),
    (26, 4, 16),
    (27, 4, 4_096),
    (28, 4, 2),
    (29, 4, 2),
    (43, 1, 2),
    (44, 1, 1),
    (30, 8, 100),
    (31, 8, 26_000),
    (32, 8, 25_500),
    (33, 8, 12_500),
    (34, 8, 1_000),
    (35, 8, 3_124),
    (36, 1, 0),
    (37, 1, 0),
    (38, 1, 0),
    (41, 1, 0),
    (45, 1, 0),
];
/// `IFLA_BRPORT_NEIGH_SUPPRESS`.
const NEIGH_SUPPRESS: u16 = 32;
/// `IFLA_BRPORT_*` of settings that are supported with their default alone.
const FIXED_OF_PORT: [(u16, u64); 9] =
    [(7, 0), (10, 0), (11, 0), (12, 0), (25, 1), (28, 0), (29, 0), (36, 0), (42, 0)];

/// Remaining time of a timer in hundredths of a second.
fn remaining(timer: Option<SimTime>, now: SimTime) -> [u8; 8] {
    let left = timer.map_or(SimDuration::ZERO, |at| at.max(now).since(now));
    (left.as_millis() / 10).to_ne_bytes()
}

/// `IFLA_INFO_DATA` of a bridge (`br_fill_info`).
pub(super) fn bridge_data(bridge: &Bridge, now: SimTime) -> Vec<u8> {
    let mut data = Vec::new();
    for (kind, timer) in [
        (16, bridge.hello_timer),
        (17, bridge.tcn_timer),
        (18, bridge.topology_change_timer),
        (19, bridge.gc_timer),
    ] {
        put(&mut data, kind, &remaining(timer, now));
    }
    let timing = bridge.timing;
    let numbers = [timing.forward_delay, timing.hello_time, timing.max_age, bridge.ageing_time];
    for (kind, number) in (1..).zip(numbers.into_iter().chain([u32::from(bridge.stp)])) {
        put(&mut data, kind, &number.to_ne_bytes());
    }
    put(&mut data, 6, &bridge.id.priority().to_ne_bytes());
    put(&mut data, 7, &[u8::from(bridge.vlan_filtering)]);
    put(&mut data, 9, &bridge.group_fwd_mask.to_ne_bytes());
    put(&mut data, 11, &bridge.id.0);
    put(&mut data, 10, &bridge.designated_root.0);
    put(&mut data, 12, &bridge.root_port.to_ne_bytes());
    put(&mut data, 13, &bridge.root_path_cost.to_ne_bytes());
    put(&mut data, 14, &[u8::from(bridge.topology_change)]);
    put(&mut data, 15, &[u8::from(bridge.topology_change_detected)]);
    put(&mut data, 20, &bridge.group_address);
    let options = u32::from(bridge.no_linklocal_learn);
    put(&mut data, 46, &[options.to_ne_bytes(), 0x1f_u32.to_ne_bytes()].concat());
    put(&mut data, 48, &bridge.learned().to_ne_bytes());
    put(&mut data, 49, &bridge.fdb_max_learned.to_ne_bytes());
    put(&mut data, 8, &bridge.vlan_protocol.to_be_bytes());
    put(&mut data, 39, &bridge.default_pvid.to_ne_bytes());
    put(&mut data, 41, &[0]);
    put(&mut data, 45, &[0]);
    for (kind, len, value) in FIXED.iter().filter(|(kind, ..)| ![41, 45].contains(kind)) {
        put(&mut data, *kind, &value.to_ne_bytes()[..*len]);
    }
    data
}

/// `IFLA_BRPORT_*` of a port (`br_port_fill_attrs`).
pub(super) fn port_data(port: &Port, now: SimTime) -> Vec<u8> {
    let mut data = Vec::new();
    let flags = port.flags;
    put(&mut data, 1, &[port.state as u8]);
    put(&mut data, 2, &u16::from(port.priority).to_ne_bytes());
    put(&mut data, 3, &port.cost.to_ne_bytes());
    let bits = [
        (4, flags.hairpin),
        (5, flags.bpdu_guard),
        (6, flags.root_block),
        (7, false),
        (28, false),
        (8, flags.learning),
        (9, flags.unicast_flood),
        (27, flags.multicast_flood),
        (30, flags.broadcast_flood),
        (10, false),
        (12, false),
    ];
    for (kind, on) in bits {
        put(&mut data, kind, &[u8::from(on)]);
    }
    put(&mut data, 13, &port.designated_root.0);
    put(&mut data, 14, &port.designated_bridge.0);
    put(&mut data, 15, &port.designated_port.to_ne_bytes());
    put(&mut data, 16, &(port.designated_cost as u16).to_ne_bytes());
    put(&mut data, 17, &port.id().to_ne_bytes());
    put(&mut data, 18, &port.number.to_ne_bytes());
    put(&mut data, 19, &[u8::from(port.topology_change_ack)]);
    put(&mut data, 20, &[u8::from(port.config_pending)]);
    put(&mut data, 29, &[0]);
    put(&mut data, 31, &port.group_fwd_mask.to_ne_bytes());
    for (kind, on) in [
        (NEIGH_SUPPRESS, flags.neigh_suppress),
        (35, false),
        (36, false),
        (33, flags.isolated),
        (39, flags.locked),
        (40, false),
        (43, false),
    ] {
        put(&mut data, kind, &[u8::from(on)]);
    }
    for (kind, timer) in [(21, port.message_age_timer), (22, port.forward_delay_timer), (23, port.hold_timer)]
    {
        put(&mut data, kind, &remaining(timer, now));
    }
    put(&mut data, 25, &[1]);
    for (kind, number) in [(37, 512_u32), (38, 0), (41, 1), (42, 0)] {
        put(&mut data, kind, &number.to_ne_bytes());
    }
    data
}

/// `IFLA_AF_SPEC` with the VLANs of a port (`br_fill_ifvlaninfo`).
fn vlan_data(vlans: &VlanSet, compressed: bool) -> Vec<u8> {
    let mut data = Vec::new();
    let flags = |vid: u16, untagged: bool| {
        let pvid = if vlans.pvid == Some(vid) { vlan_flag::PVID } else { 0 };
        pvid | if untagged { vlan_flag::UNTAGGED } else { 0 }
    };
    let mut add =
        |vid: u16, flags: u16| put(&mut data, VLAN_INFO, &[flags.to_ne_bytes(), vid.to_ne_bytes()].concat());
    let all: Vec<(u16, u16)> = vlans.iter().map(|(vid, untagged)| (vid, flags(vid, untagged))).collect();
    let mut at = 0;
    while at < all.len() {
        let (vid, flags) = all[at];
        let same = |step: &usize| all.get(at + step).is_some_and(|next| *next == (vid + *step as u16, flags));
        let more = if compressed { (1..).take_while(same).count() } else { 0 };
        match more {
            0 => add(vid, flags),
            _ => {
                add(vid, flags | vlan_flag::RANGE_BEGIN);
                add(vid + more as u16, flags | vlan_flag::RANGE_END);
            }
        }
        at += more + 1;
    }
    data
}

fn number(value: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let len = value.len().min(8);
    bytes[..len].copy_from_slice(&value[..len]);
    u64::from_ne_bytes(bytes)
}

impl Admin<'_> {
    /// Carries out a device's notification.
    pub fn announce_device(&mut self, news: &DeviceNews) {
        match news {
            DeviceNews::Link(number) if self.net.interfaces[*number].exists() => self.link_changed(*number),
            DeviceNews::Port(number) if self.net.interfaces[*number].exists() => announce_port(self, *number),
            DeviceNews::Link(_) | DeviceNews::Port(_) => {}
            DeviceNews::Vxlan { device, mac, entry, there } => {
                if self.net.interfaces[*device].exists() {
                    announce_vxlan(self, *device, mac, entry, *there);
                }
            }
            DeviceNews::Fdb { bridge, key, entry, there } => {
                if self.net.interfaces[*bridge].exists() {
                    let message = fdb_message(self, *bridge, (key, entry), *there, (0, 0, 0));
                    self.announce(group::NEIGHBOUR, &message);
                }
            }
        }
    }
}

/// Notifies the netlink group of a port (`br_ifinfo_notify`).
pub(super) fn announce_port(admin: &mut Admin<'_>, number: usize) {
    let message = port_message(admin, c::RTM_NEWLINK, number, 0, (0, 0, 0));
    admin.announce(group::LINK, &message);
}

/// Message of family `AF_BRIDGE` about a bridge or a port (`br_fill_ifinfo`).
fn port_message(admin: &Admin<'_>, kind: u16, number: usize, filter: u32, to: super::message::To) -> Vec<u8> {
    let (sequence, flags, port) = to;
    let interface = &admin.net.interfaces[number];
    let of_port = devices::port_of(admin.net, number);
    let bridge = of_port.map_or(number, |(bridge, _)| bridge.interface);
    let message = Message::new(kind, flags, sequence, port)
        .put(&[super::bridges::AF_BRIDGE as u8, 0])
        .put(&interface.hardware_type().to_ne_bytes())
        .put(&interface_index(number).to_ne_bytes())
        .put(&interface_flags(interface).to_ne_bytes())
        .put(&[0; 4])
        .attribute(c::IFLA_IFNAME, &[interface.name.as_bytes(), &[0]].concat())
        .attribute(super::links::IFLA_MASTER, &interface_index(bridge).to_ne_bytes())
        .attribute(c::IFLA_MTU, &(interface.mtu as u32).to_ne_bytes())
        .attribute(super::links::IFLA_OPERSTATE, &[oper_state(interface)])
        .attribute(c::IFLA_ADDRESS, &interface.mac);
    let below = super::new_links::link_info(admin.net, number).and_then(|(_, below)| below);
    let message = match below {
        Some(below) => message.attribute(super::links::IFLA_LINK, &interface_index(below).to_ne_bytes()),
        None => message,
    };
    let message = match of_port {
        Some((_, port)) if kind == c::RTM_NEWLINK => {
            message.attribute(PROTINFO, &port_data(port, admin.net.clock.now()))
        }
        _ => message,
    };
    if filter & (FILTER_VLANS | FILTER_COMPRESSED) == 0 {
        return message.finish();
    }
    let own = devices::bridge(admin.net, number).map(|bridge| &bridge.vlans);
    match of_port.map(|(_, port)| &port.vlans).or(own) {
        Some(vlans) => {
            message.attribute(AF_SPEC, &vlan_data(vlans, filter & FILTER_COMPRESSED != 0)).finish()
        }
        None => message.finish(),
    }
}

/// Handles a dump of bridges and ports (`rtnl_bridge_getlink`).
pub(super) fn dump_bridges(
    admin: &Admin<'_>,
    request: &Request<'_>,
    port: u32,
) -> Result<Vec<Vec<u8>>, Refusal> {
    const EXT_MASK: u16 = 29;
    if request.strict {
        let Some(head) = request.body.get(..super::links::IFINFOMSG) else {
            return invalid("Invalid header for bridge link dump");
        };
        if head[1..8] != [0; 7] || head[8..] != [0; 8] {
            return invalid("Invalid values in header for bridge link dump request");
        }
        if request.attributes(super::links::IFINFOMSG).any(|(kind, _)| kind != EXT_MASK) {
            return invalid("Unsupported attribute in bridge link dump request");
        }
    }
    let filter = request.number(super::links::IFINFOMSG, EXT_MASK)?.unwrap_or(0);
    let shown = |number: &usize| {
        devices::port_of(admin.net, *number).is_some()
            || devices::bridge(admin.net, *number).is_some()
                && filter & (FILTER_VLANS | FILTER_COMPRESSED) != 0
    };
    let all = (0..admin.net.interfaces.len()).filter(shown);
    let to = (request.sequence, super::message::MULTI, port);
    Ok(all.map(|number| port_message(admin, c::RTM_NEWLINK, number, filter, to)).collect())
}

/// Makes an interface a port of the device of an index, or of none for 0 (`do_set_master`).
pub(super) fn set_master(admin: &mut Admin<'_>, number: usize, index: u32) -> Result<(), Refusal> {
    let before = admin.net.interfaces[number].master;
    if before.map_or(0, interface_index) == index {
        return Ok(());
    }
    leave_master(admin, number);
    if index == 0 {
        return Ok(());
    }
    let master = admin.net.interfaces.by_index(index).ok_or(Errno::EINVAL)?;
    let is = |number: usize, kind| admin.net.interfaces[number].attachment == Attachment::Made(kind);
    // It has no handler of frames (`IFF_NO_RX_HANDLER`).
    if is(number, DeviceKind::Ipvlan) && is(master, DeviceKind::Bridge) {
        return Err(Errno::EINVAL.into());
    }
    if devices::lies_upon(admin.net, number, master) {
        return Err(Errno::EBUSY.into());
    }
    match admin.net.interfaces[master].attachment {
        Attachment::Made(DeviceKind::Bond) => enslave_to_bond(admin, master, number),
        Attachment::Made(DeviceKind::Bridge) => enslave_to_bridge(admin, master, number),
        Attachment::Made(DeviceKind::Vrf) => {
            let interface = &admin.net.interfaces[number];
            if number == LO {
                return invalid("Can not enslave a loopback device to VRF");
            }
            if interface.attachment == Attachment::Made(DeviceKind::Vrf) {
                return invalid("Can not enslave an L3 master device to a VRF");
            }
            change_vrf(admin, number, Some(master));
            Ok(())
        }
        _ => Err(Errno::EOPNOTSUPP.into()),
    }
}

/// Changes the VRF of an interface; one that is up loses its routes and gets them in the new table (`cycle_netdev`).
fn change_vrf(admin: &mut Admin<'_>, number: usize, vrf: Option<usize>) {
    let up = admin.net.interfaces[number].up;
    admin.set_interface_up(number, false);
    vrf::enslave(admin.net, number, vrf);
    admin.set_interface_up(number, up);
}

fn enslave_to_bridge(admin: &mut Admin<'_>, bridge: usize, number: usize) -> Result<(), Refusal> {
    let interface = &admin.net.interfaces[number];
    if !interface.is_link() || interface.hardware_type() != 1 || interface.mac == [0; 6] {
        return Err(Errno::EINVAL.into());
    }
    if interface.attachment == Attachment::Made(DeviceKind::Bridge) {
        return Err(refusal(Errno::ELOOP, "Can not enslave a bridge to a bridge"));
    }
    // It could not receive for both (`netdev_rx_handler_register`).
    if !macvlan::on(admin.net, number).is_empty() || ipvlan::port(admin.net, number).is_some() {
        return Err(Errno::EBUSY.into());
    }
    if !devices::attach(admin.net, bridge, number) {
        return Err(Errno::ENOBUFS.into());
    }
    announce_port(admin, number);
    admin.link_changed(bridge);
    Ok(())
}

/// Takes an interface out of the device of which it is a port.
pub(crate) fn leave_master(admin: &mut Admin<'_>, number: usize) {
    let Some(master) = admin.net.interfaces[number].master else { return };
    if vrf::of_interface(admin.net, master).is_some() {
        change_vrf(admin, number, None);
        return;
    }
    if bond::of_port(admin.net, number).is_some() {
        release(admin, number);
        return;
    }
    let message = port_message(admin, c::RTM_DELLINK, number, 0, (0, 0, 0));
    devices::detach(admin.net, number);
    admin.announce(group::LINK, &message);
    admin.link_changed(master);
}

/// Checks the `IFLA_INFO_DATA` of a bridge (`br_validate`).
pub(super) fn check_bridge_data(
    admin: &mut Admin<'_>,
    request: &Request<'_>,
    data: &[u8],
) -> Result<(), Refusal> {
    policies::BRIDGE.validate(request, data, request.offset_of(data), LIBERAL)?;
    if let Some(protocol) = attribute(data, 8)
        && ![0x8100, 0x88a8].contains(&u16::from_be_bytes([protocol[0], protocol[1]]))
    {
        return Err(Errno::EPROTONOSUPPORT.into());
    }
    if attribute(data, 39).is_some_and(|pvid| number(pvid) >= 4_095) {
        return Err(Errno::EINVAL.into());
    }
    for (kind, value) in attributes(data) {
        if let Some((_, len, only)) = FIXED.iter().find(|(fixed, ..)| *fixed == kind)
            && number(&value[..*len]) != *only
            && kind != 22
        {
            admin.warn(format!(
                "bridge: attribute {kind} (IFLA_BR_*) with another value than its default is refused"
            ));
            return Err(refusal(Errno::EOPNOTSUPP, "attribute not supported"));
        }
    }
    Ok(())
}

/// Changes the settings of a bridge (`br_changelink`).
pub(super) fn change_bridge(admin: &mut Admin<'_>, number: usize, data: &[u8]) -> Result<(), Refusal> {
    for (kind, value) in attributes(data) {
        change_bridge_setting(admin, number, kind, value)?;
    }
    devices::settle(admin.net, number);
    Ok(())
}

fn change_bridge_setting(
    admin: &mut Admin<'_>,
    number: usize,
    kind: u16,
    value: &[u8],
) -> Result<(), Refusal> {
    let now = admin.net.clock.now();
    let given = self::number(value);
    let Some(bridge) = devices::bridge_mut(admin.net, number) else { return Ok(()) };
    let within = |least: u64, most: u64| match (least..=most).contains(&given) {
        true => Ok(given as u32),
        false => Err(Refusal::from(Errno::ERANGE)),
    };
    let is_root = bridge.is_root();
    match kind {
        // Without STP any delay is accepted.
        1 => {
            if bridge.stp {
                within(200, 3_000)?;
            }
            bridge.own_timing.forward_delay = given as u32;
            if is_root {
                bridge.timing.forward_delay = given as u32;
            }
        }
        2 => {
            bridge.own_timing.hello_time = within(100, 1_000)?;
            if is_root {
                bridge.timing.hello_time = given as u32;
            }
        }
        3 => {
            bridge.own_timing.max_age = within(600, 4_000)?;
            if is_root {
                bridge.timing.max_age = given as u32;
            }
        }
        4 => {
            (bridge.ageing_time, bridge.own_ageing_time) = (given as u32, given as u32);
            bridge.age(now);
        }
        5 => bridge.set_stp(given != 0, now),
        6 => bridge.set_priority(given as u16, now),
        7 => bridge.vlan_filtering = given != 0,
        8 => bridge.vlan_protocol = u16::from_be_bytes([value[0], value[1]]),
        9 if given & 7 != 0 => return Err(Errno::EINVAL.into()),
        9 => bridge.group_fwd_mask = given as u16,
        20 => {
            let group: [u8; 6] = value.try_into().map_err(|_| Errno::EINVAL)?;
            if group[..5] != [0x01, 0x80, 0xc2, 0, 0] || group[5] & 0xf0 != 0 || [1, 2, 3].contains(&group[5])
            {
                return Err(Errno::EINVAL.into());
            }
            bridge.group_address = group;
        }
        // IFLA_BR_FDB_FLUSH.
        21 => {
            let gone = bridge.fdb.iter().filter(|(_, entry)| !entry.is_static).map(|(key, _)| *key);
            for key in gone.collect::<Vec<_>>() {
                bridge.remove(key);
            }
        }
        39 => set_default_pvid(admin, number, given as u16),
        46 => {
            let [options, mask] = [0, 4].map(|at| self::number(value.get(at..at + 4).unwrap_or_default()));
            if options & mask & !1 != 0 {
                admin.warn(
                    "bridge: of the options of IFLA_BR_MULTI_BOOLOPT only no_linklocal_learn is supported",
                );
                return Err(refusal(Errno::EOPNOTSUPP, "attribute not supported"));
            }
            if mask & 1 != 0 {
                bridge.no_linklocal_learn = options & 1 != 0;
            }
        }
        49 => bridge.fdb_max_learned = given as u32,
        _ => {}
    }
    Ok(())
}

/// Changes the VLAN of untagged frames of ports that have the former one (`__br_vlan_set_default_pvid`).
fn set_default_pvid(admin: &mut Admin<'_>, number: usize, pvid: u16) {
    let Some(bridge) = devices::bridge_mut(admin.net, number) else { return };
    let before = std::mem::replace(&mut bridge.default_pvid, pvid);
    let sets = std::iter::once(&mut bridge.vlans).chain(bridge.ports.iter_mut().map(|port| &mut port.vlans));
    for vlans in sets.filter(|vlans| before == 0 && vlans.pvid.is_none() || vlans.pvid == Some(before)) {
        vlans.remove(before);
        if pvid != 0 {
            vlans.add(pvid, true, true);
        }
    }
    readdress_bridge(admin, number);
}

/// Brings the entries of the host's addresses in line with the VLANs of the ports.
fn readdress_bridge(admin: &mut Admin<'_>, number: usize) {
    let now = admin.net.clock.now();
    let own = admin.net.interfaces[number].mac;
    let Some(bridge) = devices::bridge(admin.net, number) else { return };
    let ports: Vec<usize> = bridge.ports.iter().map(|port| port.interface).collect();
    let macs: Vec<(usize, [u8; 6])> =
        ports.iter().map(|port| (*port, admin.net.interfaces[*port].mac)).collect();
    let Some(bridge) = devices::bridge_mut(admin.net, number) else { return };
    let is_member = |bridge: &Bridge, port: Option<usize>, vid: u16| match port {
        Some(port) => bridge.port(port).is_some_and(|port| port.vlans.has(vid)),
        None => bridge.vlans.has(vid),
    };
    let gone = bridge.fdb.iter().filter(|((mac, vid), entry)| {
        let is_own =
            macs.contains(&(entry.port.unwrap_or(usize::MAX), *mac)) || entry.port.is_none() && *mac == own;
        is_own && entry.local && *vid != 0 && !is_member(bridge, entry.port, *vid)
    });
    let gone: Vec<_> = gone.map(|(key, _)| *key).collect();
    for key in gone {
        bridge.remove(key);
    }
    for (port, mac) in macs {
        bridge.add_own_address(Some(port), mac, now);
    }
    bridge.add_own_address(None, own, now);
    devices::settle(admin.net, number);
}

/// Sets the state of a port by the old form of `IFLA_PROTINFO`, a byte.
pub(super) fn set_port_state(admin: &mut Admin<'_>, number: usize, state: u8) -> Result<(), Refusal> {
    const STATE: u16 = 1;
    let Some((bridge, _)) = devices::port_of(admin.net, number) else { return Err(Errno::EINVAL.into()) };
    let master = bridge.interface;
    change_port_setting(admin, master, number, STATE, state.into())?;
    devices::settle(admin.net, master);
    Ok(())
}

/// Changes the settings of a port, `IFLA_BRPORT_*` (`br_setport`).
pub(super) fn change_port(
    admin: &mut Admin<'_>,
    request: &Request<'_>,
    number: usize,
    data: &[u8],
) -> Result<(), Refusal> {
    policies::BRIDGE_PORT.validate(request, data, request.offset_of(data), LIBERAL)?;
    for (kind, value) in attributes(data) {
        if let Some((_, only)) = FIXED_OF_PORT.iter().find(|(fixed, _)| *fixed == kind)
            && self::number(value) != *only
        {
            admin.warn(format!(
                "bridge: attribute {kind} of ports (IFLA_BRPORT_*) is supported with its default alone"
            ));
            return Err(refusal(Errno::EOPNOTSUPP, "attribute not supported"));
        }
    }
    let Some((bridge, _)) = devices::port_of(admin.net, number) else { return Err(Errno::EINVAL.into()) };
    let master = bridge.interface;
    for (kind, value) in attributes(data) {
        if kind == NEIGH_SUPPRESS && self::number(value) != 0 {
            admin.warn("bridge: neigh_suppress of ports is accepted without effect".to_owned());
        }
        change_port_setting(admin, master, number, kind, self::number(value))?;
    }
    devices::settle(admin.net, master);
    announce_port(admin, number);
    Ok(())
}

fn change_port_setting(
    admin: &mut Admin<'_>,
    master: usize,
    number: usize,
    kind: u16,
    given: u64,
) -> Result<(), Refusal> {
    let now = admin.net.clock.now();
    let running = admin.net.interfaces[number].has_lower_up();
    let Some(bridge) = devices::bridge_mut(admin.net, master) else { return Ok(()) };
    let stp = bridge.stp;
    let Some(port) = bridge.port_mut(number) else { return Ok(()) };
    let PortFlags {
        hairpin,
        bpdu_guard,
        root_block,
        learning,
        unicast_flood,
        multicast_flood,
        broadcast_flood,
        isolated,
        locked,
        neigh_suppress,
    } = &mut port.flags;
    let flag = match kind {
        4 => Some(hairpin),
        5 => Some(bpdu_guard),
        6 => Some(root_block),
        8 => Some(learning),
        9 => Some(unicast_flood),
        27 => Some(multicast_flood),
        30 => Some(broadcast_flood),
        NEIGH_SUPPRESS => Some(neigh_suppress),
        33 => Some(isolated),
        39 => Some(locked),
        _ => None,
    };
    if let Some(flag) = flag {
        *flag = given != 0;
        return Ok(());
    }
    match kind {
        // br_set_port_state: not while the kernel runs STP.
        1 => {
            let state = PortState::of(given as u8).ok_or(Errno::EINVAL)?;
            if stp {
                return Err(Errno::EBUSY.into());
            }
            if !running && state != PortState::Disabled {
                return Err(Errno::ENETDOWN.into());
            }
            port.state = state;
            bridge.select_states(now);
        }
        2 if given > 63 => return Err(Errno::ERANGE.into()),
        2 => bridge.set_port_priority(number, given as u8, now),
        3 if !(1..=65_535).contains(&given) => return Err(Errno::ERANGE.into()),
        3 => bridge.set_path_cost(number, given as u32, now),
        // IFLA_BRPORT_FLUSH.
        24 => bridge.forget_port(number, false),
        31 if given & 7 != 0 => return Err(Errno::EINVAL.into()),
        31 => port.group_fwd_mask = given as u16,
        _ => {}
    }
    Ok(())
}

/// Adds or deletes the VLANs in the `IFLA_AF_SPEC` of a request (`br_afspec`).
pub(super) fn change_vlans(
    admin: &mut Admin<'_>,
    number: usize,
    spec: &[u8],
    add: bool,
) -> Result<(), Refusal> {
    let mut begin: Option<(u16, u16)> = None;
    for (kind, value) in attributes(spec) {
        let [a, b, x, y] = *value else {
            if kind == VLAN_INFO {
                return Err(Errno::EINVAL.into());
            }
            continue;
        };
        if kind != VLAN_INFO {
            continue;
        }
        let (flags, vid) = (u16::from_ne_bytes([a, b]), u16::from_ne_bytes([x, y]));
        if vid == 0 || vid >= 4_095 {
            return Err(Errno::EINVAL.into());
        }
        if flags & vlan_flag::RANGE_BEGIN != 0 {
            if begin.is_some() || flags & vlan_flag::PVID != 0 {
                return Err(Errno::EINVAL.into());
            }
            begin = Some((vid, flags));
            continue;
        }
        let (first, flags) = match begin.take() {
            Some((first, flags)) => (first, flags),
            None => (vid, flags),
        };
        for vid in first..=vid {
            change_vlan(admin, number, (vid, flags), add)?;
        }
    }
    let bridge = admin.net.interfaces[number].master.unwrap_or(number);
    readdress_bridge(admin, bridge);
    Ok(())
}

fn change_vlan(
    admin: &mut Admin<'_>,
    number: usize,
    (vid, flags): (u16, u16),
    add: bool,
) -> Result<(), Refusal> {
    let master =
        admin.net.interfaces[number].master.filter(|master| devices::bridge(admin.net, *master).is_some());
    let bridge = devices::bridge_mut(admin.net, master.unwrap_or(number)).ok_or(Errno::EOPNOTSUPP)?;
    let vlans = match master {
        Some(_) => &mut bridge.port_mut(number).ok_or(Errno::EOPNOTSUPP)?.vlans,
        None => &mut bridge.vlans,
    };
    match add {
        true => {
            vlans.add(vid, flags & vlan_flag::UNTAGGED != 0, flags & vlan_flag::PVID != 0);
        }
        false if !vlans.remove(vid) => return Err(Errno::ENOENT.into()),
        false => {
            // Learned entries of the VLAN go with it.
            let of_port = master.map(|_| number);
            let gone = bridge.fdb.iter().filter(|(key, entry)| key.1 == vid && entry.port == of_port);
            for key in gone.map(|(key, _)| *key).collect::<Vec<_>>() {
                bridge.remove(key);
            }
        }
    }
    Ok(())
}
