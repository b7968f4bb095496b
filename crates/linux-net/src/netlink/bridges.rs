//! Requests about bridges, family `AF_BRIDGE`: forwarding entries and ports.

use super::bridge_links::{announce_port, change_port, change_vlans, set_port_state};
pub(super) use super::fdb::AF_BRIDGE;
use super::fdb::{FdbWanted, age};
use super::links::IFINFOMSG;
use super::message::{MULTI, Message, Request, To, attribute};
use super::neighbours::{NDA_LLADDR, NDMSG};
use super::policies;
use super::policy::{LIBERAL, Policy};
use super::refusal::{Refusal, invalid, refusal};
use super::vxlan_links::{add_vxlan_fdb, delete_vxlan_fdb, flush_vxlan_fdb, vxlan_entries};
use crate::Admin;
use belljar_linux_abi::{Errno, c};
use belljar_netstack::devices::bridge::{FdbEntry, PortState};
use belljar_netstack::interface::{Attachment, DeviceKind};
use belljar_netstack::{LO, devices, interface_index};

const NDA_CACHEINFO: u16 = 3;
/// `NDA_VLAN`.
const NDA_VLAN: u16 = 5;
const NDA_IFINDEX: u16 = 8;
const NDA_MASTER: u16 = 9;
const NDA_FLAGS_EXT: u16 = 15;
/// `NTF_STICKY`.
const NTF_STICKY: u8 = 0x40;
/// `VLAN_VID_MASK`, which is no VLAN either.
const LAST_VID: u16 = 4_095;
/// `NDA_*` without types.
const ANY: Policy = Policy { attributes: &[], strict_from: 0, ..policies::NEIGHBOUR };
/// `IFLA_PROTINFO`, `IFLA_AF_SPEC` and in it `IFLA_BRIDGE_FLAGS`.
const PROTINFO: u16 = 12;
const AF_SPEC: u16 = 26;
const BRIDGE_FLAGS: u16 = 0;
/// `BRIDGE_FLAGS_MASTER` and `BRIDGE_FLAGS_SELF`.
const FLAGS_MASTER: u16 = 1;
const FLAGS_SELF: u16 = 2;

/// True if Linux has handlers of bridges for this type of message.
pub(super) fn are_meant(kind: u16, family: i32) -> bool {
    let handled = [c::RTM_NEWNEIGH, c::RTM_DELNEIGH, c::RTM_SETLINK, c::RTM_DELLINK];
    family == AF_BRIDGE && handled.contains(&kind)
}

/// Handles a request about bridges.
pub(super) fn change_bridges(admin: &mut Admin<'_>, request: &Request<'_>) -> Result<(), Refusal> {
    if [c::RTM_SETLINK, c::RTM_DELLINK].contains(&request.kind) {
        return change_bridge_link(admin, request);
    }
    let adds = request.kind == c::RTM_NEWNEIGH;
    let wanted = fdb_wanted(admin, request, adds)?;
    let master = admin.net.interfaces[wanted.number].master;
    let of_port = master.filter(|master| devices::bridge(admin.net, *master).is_some());
    let mut done = Err(Errno::EOPNOTSUPP.into());
    if let Some(bridge) = of_port
        && (wanted.flags & !NTF_STICKY & !c::NTF_EXT_LEARNED & !c::NTF_USE == 0
            || wanted.flags & c::NTF_MASTER != 0)
    {
        done = match adds {
            true => add_fdb(admin, request, bridge, Some(wanted.number), &wanted),
            false => delete_fdb(admin, bridge, Some(wanted.number), &wanted),
        };
        done?;
    }
    if wanted.flags & c::NTF_SELF != 0 {
        done = match (admin.net.interfaces[wanted.number].attachment, adds) {
            (Attachment::Made(DeviceKind::Bridge), true) => {
                add_fdb(admin, request, wanted.number, None, &wanted)
            }
            (Attachment::Made(DeviceKind::Bridge), false) => delete_fdb(admin, wanted.number, None, &wanted),
            (Attachment::Made(DeviceKind::Vxlan), true) => add_vxlan_fdb(admin, request, &wanted),
            (Attachment::Made(DeviceKind::Vxlan), false) => delete_vxlan_fdb(admin, request, &wanted),
            _ => {
                admin.warn("netlink: address filters of interfaces (bridge fdb ... admin) are not supported and refused");
                Err(Errno::EOPNOTSUPP.into())
            }
        };
    }
    done
}

/// Decodes a request about a forwarding entry, with the checks of `rtnl_fdb_add` and `rtnl_fdb_del`.
fn fdb_wanted(admin: &mut Admin<'_>, request: &Request<'_>, adds: bool) -> Result<FdbWanted, Refusal> {
    request.validate(NDMSG, &ANY, LIBERAL)?;
    let index = request.word(4)?;
    if index == 0 {
        return invalid("invalid ifindex");
    }
    let unknown = refusal(Errno::ENODEV, "unknown ifindex");
    let number = admin.net.interfaces.by_index(index).ok_or(unknown)?;
    let address = request.attribute(NDMSG, NDA_LLADDR);
    let Some(mac) = address.and_then(|address| <[u8; 6]>::try_from(address).ok()) else {
        return invalid("invalid address");
    };
    let not_ethernet = match adds {
        true => "FDB add only supported for Ethernet devices",
        false => "FDB delete only supported for Ethernet devices",
    };
    let is_ethernet = number != LO;
    if adds && !is_ethernet {
        return invalid(not_ethernet);
    }
    let mut vid = 0;
    if let Some(given) = request.attribute(NDMSG, NDA_VLAN) {
        let Some(bytes) = given.first_chunk().filter(|_| given.len() == 2) else {
            return invalid("invalid vlan attribute size");
        };
        vid = u16::from_ne_bytes(*bytes);
        if !(1..LAST_VID).contains(&vid) {
            return invalid("invalid vlan id");
        }
    }
    if !is_ethernet {
        return invalid(not_ethernet);
    }
    let state = u16::from_ne_bytes([request.body[8], request.body[9]]);
    Ok(FdbWanted { number, mac, vid, state, flags: request.body[NDMSG - 2] })
}

/// Adds or changes an entry (`br_fdb_add`).
fn add_fdb(
    admin: &mut Admin<'_>,
    request: &Request<'_>,
    number: usize,
    port: Option<usize>,
    wanted: &FdbWanted,
) -> Result<(), Refusal> {
    let &FdbWanted { mac, vid, state, flags, .. } = wanted;
    if state & (c::NUD_PERMANENT | c::NUD_NOARP | c::NUD_REACHABLE) == 0 || mac == [0; 6] {
        return Err(Errno::EINVAL.into());
    }
    for vid in fdb_vlans(admin, number, port, vid)? {
        let (now, create) = (admin.net.clock.now(), i32::from(request.flags));
        let Some(bridge) = devices::bridge_mut(admin.net, number) else { return Ok(()) };
        let learns = port.is_none_or(|port| {
            let state = bridge.port(port).map(|port| port.state);
            matches!(state, Some(PortState::Learning | PortState::Forwarding))
        });
        if flags & c::NTF_USE != 0 {
            let port = port.ok_or(Errno::EINVAL)?;
            bridge.learn(port, mac, vid, now);
            continue;
        }
        let external = flags & c::NTF_EXT_LEARNED != 0;
        if !external {
            check_entry((port, learns), state, flags)?;
        }
        let known = bridge.fdb.get(&(mac, vid)).copied();
        match known {
            None if create & c::NLM_F_CREATE == 0 && !external => return Err(Errno::ENOENT.into()),
            Some(_) if create & c::NLM_F_EXCL != 0 && !external => return Err(Errno::EEXIST.into()),
            _ => {}
        }
        let new = known.unwrap_or_else(|| bridge.new_entry(port, now));
        let local = state & c::NUD_PERMANENT != 0 && !external || external && port.is_none();
        let entry = FdbEntry {
            port,
            local,
            is_static: local || !external && state & c::NUD_NOARP != 0,
            sticky: flags & NTF_STICKY != 0,
            external,
            by_user: !external || new.by_user,
            used: now,
            updated: now,
            ..new
        };
        bridge.put((mac, vid), entry);
    }
    devices::settle(admin.net, number);
    Ok(())
}

/// VLANs of the entries that a request concerns: that of the request, or none and each of the port.
fn fdb_vlans(admin: &Admin<'_>, number: usize, port: Option<usize>, vid: u16) -> Result<Vec<u16>, Refusal> {
    let bridge = devices::bridge(admin.net, number).ok_or(Errno::EINVAL)?;
    let vlans = match port {
        Some(port) => &bridge.port(port).ok_or(Errno::EINVAL)?.vlans,
        None => &bridge.vlans,
    };
    match vid {
        0 => Ok(std::iter::once(0).chain(vlans.iter().map(|(vid, _)| vid)).collect()),
        vid if vlans.has(vid) => Ok(vec![vid]),
        _ => invalid("RTM_NEWNEIGH with unconfigured vlan"),
    }
}

/// Deletes an entry (`br_fdb_delete`).
fn delete_fdb(
    admin: &mut Admin<'_>,
    number: usize,
    port: Option<usize>,
    wanted: &FdbWanted,
) -> Result<(), Refusal> {
    let mut any = false;
    for vid in fdb_vlans(admin, number, port, wanted.vid).map_err(|_| Errno::EINVAL)? {
        let Some(bridge) = devices::bridge_mut(admin.net, number) else { return Ok(()) };
        let key = (wanted.mac, vid);
        if bridge.fdb.get(&key).is_some_and(|entry| entry.port == port) {
            any |= bridge.remove(key);
        }
    }
    devices::settle(admin.net, number);
    if any { Ok(()) } else { Err(Errno::ENOENT.into()) }
}

/// `RTM_NEWNEIGH` or `RTM_DELNEIGH` about an entry of a bridge (`fdb_fill_info`).
pub(super) fn fdb_message(
    admin: &Admin<'_>,
    bridge: usize,
    (key, entry): (&([u8; 6], u16), &FdbEntry),
    there: bool,
    to: To,
) -> Vec<u8> {
    let (sequence, flags, port) = to;
    let now = admin.net.clock.now();
    let state = match (entry.local, entry.is_static) {
        (true, _) => c::NUD_PERMANENT,
        (_, true) => c::NUD_NOARP,
        _ => c::NUD_REACHABLE,
    };
    let of_entry =
        if entry.external { c::NTF_EXT_LEARNED } else { 0 } | if entry.sticky { NTF_STICKY } else { 0 };
    let ages = [0, age(entry.used, now), age(entry.updated, now), 0].map(u32::to_ne_bytes).concat();
    let kind = if there { c::RTM_NEWNEIGH } else { c::RTM_DELNEIGH };
    let message = Message::new(kind, flags, sequence, port)
        .put(&[AF_BRIDGE as u8, 0, 0, 0])
        .put(&interface_index(entry.port.unwrap_or(bridge)).to_ne_bytes())
        .put(&state.to_ne_bytes())
        .put(&[of_entry, 0])
        .attribute(NDA_LLADDR, &key.0)
        .attribute(NDA_MASTER, &interface_index(bridge).to_ne_bytes())
        .attribute(NDA_FLAGS_EXT, &[0; 4])
        .attribute(NDA_CACHEINFO, &ages);
    match key.1 {
        0 => message.finish(),
        vid => message.attribute(NDA_VLAN, &vid.to_ne_bytes()).finish(),
    }
}

/// Handles a dump of forwarding entries (`rtnl_fdb_dump`).
pub(super) fn dump_fdb(admin: &Admin<'_>, request: &Request<'_>, port: u32) -> Result<Vec<Vec<u8>>, Refusal> {
    let index = if request.body.len() >= NDMSG { request.word(4)? } else { 0 };
    let master = request.number(NDMSG, NDA_MASTER)?.or(request.number(IFINFOMSG, 10)?).unwrap_or(0);
    let here = |number: usize| interface_index(number);
    let to = (request.sequence, MULTI, port);
    let mut all = Vec::new();
    for number in 0..admin.net.interfaces.len() {
        let interface = &admin.net.interfaces[number];
        if !interface.exists() || index != 0 && here(number) != index {
            continue;
        }
        let of_port = interface.master.filter(|master| devices::bridge(admin.net, *master).is_some());
        let bridge = of_port.unwrap_or(number);
        if master != 0 && here(bridge) != master {
            continue;
        }
        let Some(state) = devices::bridge(admin.net, bridge) else {
            all.extend(vxlan_entries(admin, number, to));
            continue;
        };
        let mine = of_port.map(|_| number);
        let mut entries: Vec<_> = state.fdb.iter().filter(|(_, entry)| entry.port == mine).collect();
        entries.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.serial));
        all.extend(entries.into_iter().map(|entry| fdb_message(admin, bridge, entry, true, to)));
        all.extend(vxlan_entries(admin, number, to));
    }
    Ok(all)
}

/// Handles `bridge fdb get` (`rtnl_fdb_get`).
pub(super) fn get_fdb(admin: &Admin<'_>, request: &Request<'_>, port: u32) -> Result<Vec<u8>, Refusal> {
    request.validate(NDMSG, &ANY, LIBERAL)?;
    let Some(mac) = request.attribute(NDMSG, NDA_LLADDR).and_then(|mac| <[u8; 6]>::try_from(mac).ok()) else {
        return invalid("Missing lookup address for fdb get request");
    };
    let vlan = request.attribute(NDMSG, NDA_VLAN).and_then(|vlan| vlan.first_chunk().copied());
    let vid = vlan.map_or(0, u16::from_ne_bytes);
    let master = request.number(NDMSG, NDA_MASTER)?.filter(|index| *index != 0);
    let index = Some(request.word(4)?).filter(|index| *index != 0).or(master);
    let Some(index) = index else { return invalid("No device or bridge specified for fdb get request") };
    let unknown = refusal(Errno::ENODEV, "Unknown device ifindex");
    let number = admin.net.interfaces.by_index(index).ok_or(unknown)?;
    let bridge = admin.net.interfaces[number].master.unwrap_or(number);
    let Some(state) = devices::bridge(admin.net, bridge) else {
        return Err(refusal(Errno::EOPNOTSUPP, "Get operation not supported by device"));
    };
    let missing = refusal(Errno::ENOENT, "Fdb entry not found");
    let (key, entry) = state.fdb.get_key_value(&(mac, vid)).ok_or(missing)?;
    Ok(fdb_message(admin, bridge, (key, entry), true, (request.sequence, 0, port)))
}

/// Handles `bridge fdb flush` (`rtnl_fdb_del` with `NLM_F_BULK`).
pub(super) fn flush_fdb(admin: &mut Admin<'_>, request: &Request<'_>) -> Result<(), Refusal> {
    const STATE_MASK: u16 = 16;
    const FLAGS_MASK: u16 = 17;
    request.validate(NDMSG, &ANY, LIBERAL)?;
    let unknown = refusal(Errno::ENODEV, "unknown ifindex");
    let number = admin.net.interfaces.by_index(request.word(4)?).ok_or(unknown)?;
    let of_port = request.number(NDMSG, NDA_IFINDEX)?;
    let port = of_port.map(|index| admin.net.interfaces.by_index(index).ok_or(Errno::EINVAL)).transpose()?;
    let mask = |kind| request.attribute(NDMSG, kind).map_or(0, number_of);
    let (states, flags) = (mask(STATE_MASK), mask(FLAGS_MASK));
    let state = u64::from(u16::from_ne_bytes([request.body[8], request.body[9]]));
    let wanted = u64::from(request.body[NDMSG - 2]);
    let vlan = request.attribute(NDMSG, NDA_VLAN).map(number_of);
    let only = admin.net.interfaces[number].master.map(|_| number).or(port);
    let bridge = admin.net.interfaces[number].master.unwrap_or(number);
    if admin.net.interfaces[number].attachment == Attachment::Made(DeviceKind::Vxlan) {
        flush_vxlan_fdb(admin, number);
        return Ok(());
    }
    let Some(there) = devices::bridge_mut(admin.net, bridge) else {
        return Err(refusal(Errno::EOPNOTSUPP, "Bulk delete is not supported"));
    };
    let shown = |entry: &FdbEntry| match (entry.local, entry.is_static) {
        (true, _) => u64::from(c::NUD_PERMANENT),
        (_, true) => u64::from(c::NUD_NOARP),
        _ => 0,
    };
    let bits = |entry: &FdbEntry| {
        u64::from(
            if entry.external { c::NTF_EXT_LEARNED } else { 0 } | if entry.sticky { NTF_STICKY } else { 0 },
        )
    };
    let gone = there.fdb.iter().filter(|((_, vid), entry)| {
        only.is_none_or(|only| entry.port == Some(only))
            && vlan.is_none_or(|vlan| u64::from(*vid) == vlan)
            && (shown(entry) ^ state) & states == 0
            && (bits(entry) ^ wanted) & flags == 0
    });
    for key in gone.map(|(key, _)| *key).collect::<Vec<_>>() {
        there.remove(key);
    }
    devices::settle(admin.net, bridge);
    Ok(())
}

/// Handles `bridge link set` and `bridge vlan` (`rtnl_bridge_setlink`, `rtnl_bridge_dellink`).
fn change_bridge_link(admin: &mut Admin<'_>, request: &Request<'_>) -> Result<(), Refusal> {
    if request.body.len() < IFINFOMSG {
        return Err(Errno::EINVAL.into());
    }
    let unknown = refusal(Errno::ENODEV, "unknown ifindex");
    let number = admin.net.interfaces.by_index(request.word(4)?).ok_or(unknown)?;
    let (protinfo, spec) = (request.attribute(IFINFOMSG, PROTINFO), request.attribute(IFINFOMSG, AF_SPEC));
    let flags = spec.and_then(|spec| attribute(spec, BRIDGE_FLAGS));
    let flags = match flags {
        Some(flags) => u16::from_ne_bytes(*flags.first_chunk().ok_or(Errno::EINVAL)?),
        None => 0,
    };
    let of_port = devices::port_of(admin.net, number).is_some();
    if (flags == 0 || flags & FLAGS_MASTER != 0) && !of_port {
        return Err(Errno::EOPNOTSUPP.into());
    }
    if flags & FLAGS_SELF != 0 && flags & FLAGS_MASTER == 0 && devices::bridge(admin.net, number).is_none() {
        return Err(Errno::EOPNOTSUPP.into());
    }
    let adds = request.kind == c::RTM_SETLINK;
    if adds && let Some(protinfo) = protinfo.filter(|_| of_port) {
        match protinfo {
            [state] => set_port_state(admin, number, *state)?,
            _ => change_port(admin, request, number, protinfo)?,
        }
    }
    if let Some(spec) = spec {
        change_vlans(admin, number, spec, adds)?;
    }
    let changed = if of_port || adds { number } else { return Ok(()) };
    announce_port(admin, changed);
    Ok(())
}

fn number_of(value: &[u8]) -> u64 {
    value.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Checks a new entry (`fdb_add_entry`).
fn check_entry((port, learns): (Option<usize>, bool), state: u16, flags: u8) -> Result<(), Refusal> {
    if state & (c::NUD_PERMANENT | c::NUD_NOARP) == 0 && !learns {
        return Err(Errno::EPERM.into());
    }
    if port.is_none() && state & c::NUD_PERMANENT == 0 {
        return Err(Errno::EINVAL.into());
    }
    if flags & NTF_STICKY != 0 && state & c::NUD_PERMANENT != 0 {
        return invalid("Sticky and local flags are mutually exclusive");
    }
    Ok(())
}
