//! VXLAN interfaces in rtnetlink: `IFLA_VXLAN_*` and forwarding entries.

use super::fdb::{AF_BRIDGE, FdbWanted, age};
use super::message::{Message, Request, To, attribute, attributes, ip_bytes, parse_ip, put};
use super::policies;
use super::policy::LIBERAL;
use super::refusal::{Refusal, invalid, refusal};
use crate::Admin;
use belljar_base::Map;
use belljar_linux_abi::{Errno, c};
use belljar_netstack::devices::vxlan::{self, ANY, Remote, Vxlan, VxlanEntry};
use belljar_netstack::{devices, interface_index};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Length of `struct ndmsg` in bytes.
const NDMSG: usize = 12;
/// `RTNLGRP_NEIGH`: the multicast group of neighbours.
const NEIGHBOUR_GROUP: u32 = 3;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NDA_CACHEINFO: u16 = 3;
const NDA_PORT: u16 = 6;
const NDA_VNI: u16 = 7;
const NDA_IFINDEX: u16 = 8;
/// Settings of which only the value 0 is supported, with their names in `ip link`.
const UNSUPPORTED: [(u16, &str); 12] = [
    (11, "proxy"),
    (12, "rsc"),
    (13, "l2miss"),
    (14, "l3miss"),
    (21, "remcsumtx"),
    (22, "remcsumrx"),
    (23, "gbp"),
    (24, "remcsum_nopartial"),
    (25, "external"),
    (27, "gpe"),
    (30, "vnifilter"),
    (33, "reserved_bits"),
];
/// Number of bytes that VXLAN adds to a frame over IPv4 and IPv6.
const HEADROOM: usize = 50;
const HEADROOM6: usize = 70;

/// `IFLA_INFO_DATA` of a VXLAN interface (`vxlan_fill_info`).
pub(super) fn vxlan_data(vxlan: &Vxlan) -> Vec<u8> {
    let mut data = Vec::new();
    put(&mut data, 1, &vxlan.vni.to_ne_bytes());
    if let Some(remote) = vxlan.remote {
        put(&mut data, if remote.is_ipv4() { 2 } else { 16 }, &ip_bytes(remote));
    }
    if let Some(link) = vxlan.link {
        put(&mut data, 3, &interface_index(link).to_ne_bytes());
    }
    if let Some(local) = vxlan.local {
        put(&mut data, if local.is_ipv4() { 4 } else { 17 }, &ip_bytes(local));
    }
    put(&mut data, 5, &[vxlan.ttl]);
    put(&mut data, 28, &[u8::from(vxlan.ttl_inherit)]);
    put(&mut data, 6, &[vxlan.tos]);
    put(&mut data, 29, &[vxlan.df]);
    put(&mut data, 26, &vxlan.label.to_be_bytes());
    put(&mut data, 32, &[0; 4]);
    put(&mut data, 7, &[u8::from(vxlan.learning)]);
    for kind in [11, 12, 13, 14, 25] {
        put(&mut data, kind, &[0]);
    }
    put(&mut data, 8, &vxlan.ageing.to_ne_bytes());
    put(&mut data, 9, &vxlan.limit.to_ne_bytes());
    put(&mut data, 15, &vxlan.port.to_be_bytes());
    put(&mut data, 18, &[u8::from(vxlan.udp_csum)]);
    put(&mut data, 19, &[u8::from(vxlan.zero_csum6_tx)]);
    put(&mut data, 20, &[u8::from(vxlan.zero_csum6_rx)]);
    put(&mut data, 21, &[0]);
    put(&mut data, 22, &[0]);
    put(&mut data, 31, &[1]);
    let (low, high) = vxlan.source_ports;
    put(&mut data, 10, &[low.to_be_bytes(), high.to_be_bytes()].concat());
    data
}

fn word(value: &[u8]) -> u32 {
    value.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

fn port(value: &[u8]) -> u16 {
    value.first_chunk().map_or(0, |bytes| u16::from_be_bytes(*bytes))
}

/// Checks the `IFLA_INFO_DATA` of a VXLAN interface (`vxlan_validate`).
pub(super) fn check_vxlan_data(
    admin: &mut Admin<'_>,
    request: &Request<'_>,
    data: Option<&[u8]>,
) -> Result<(), Refusal> {
    let required = "Required attributes not provided to perform the operation";
    let data = data.ok_or(refusal(Errno::EINVAL, required))?;
    policies::VXLAN.validate(request, data, request.offset_of(data), LIBERAL)?;
    if attribute(data, 1).is_some_and(|vni| word(vni) >= 1 << 24) {
        return Err(refusal(Errno::ERANGE, "VXLAN ID must be lower than 16777216"));
    }
    if let Some(range) = attribute(data, 10)
        && port(&range[2..]) < port(range)
    {
        return invalid("Invalid source port range");
    }
    if attribute(data, 29).is_some_and(|df| df[0] > 2) {
        return invalid("Invalid DF attribute");
    }
    for (kind, name) in UNSUPPORTED {
        if attribute(data, kind).is_some_and(|value| value.iter().any(|byte| *byte != 0) || value.is_empty())
        {
            admin.warn(format!("vxlan: '{name}' is not supported and refused"));
            return Err(refusal(Errno::EOPNOTSUPP, "attribute not supported"));
        }
    }
    Ok(())
}

/// Settings of a VXLAN interface in a request, from those that it has (`vxlan_nl2conf`).
fn vxlan_wanted(admin: &Admin<'_>, data: &[u8], before: Option<&Vxlan>) -> Result<Vxlan, Refusal> {
    let mut wanted = before.cloned().unwrap_or(Vxlan {
        vni: 0,
        remote: None,
        link: None,
        local: None,
        v6: false,
        ttl: 0,
        ttl_inherit: false,
        tos: 0,
        df: 0,
        label: 0,
        learning: true,
        ageing: 300,
        limit: 0,
        port: 8_472,
        source_ports: (0, 0),
        udp_csum: true,
        zero_csum6_tx: false,
        zero_csum6_rx: false,
        fdb: Map::new(),
        serial: 0,
    });
    let changes = before.is_some();
    for (kind, value) in attributes(data) {
        match kind {
            1 if changes && word(value) != wanted.vni => return refused("Cannot change VNI"),
            1 => wanted.vni = word(value),
            2 | 16 => {
                let ip = parse_ip(value)?;
                if changes && wanted.v6 != ip.is_ipv6() {
                    return refused("New group address family does not match old group");
                }
                wanted.remote = Some(ip).filter(|ip| !ip.is_unspecified());
            }
            4 | 17 => {
                let ip = parse_ip(value)?;
                if ip.is_multicast() {
                    return invalid("Local address can not be multicast");
                }
                wanted.local = Some(ip).filter(|ip| !ip.is_unspecified());
            }
            3 => {
                let missing = refusal(Errno::ENODEV, "Invalid local interface, device not found");
                let number = admin.net.interfaces.by_index(word(value)).ok_or(missing);
                wanted.link = if word(value) == 0 { None } else { Some(number?) };
            }
            5 => wanted.ttl = value[0],
            6 => wanted.tos = value[0],
            7 => wanted.learning = value[0] != 0,
            8 => wanted.ageing = word(value),
            9 => wanted.limit = word(value),
            10 if changes => return refused("Cannot change port range"),
            10 => wanted.source_ports = (port(value), port(&value[2..])),
            15 if changes && port(value) != wanted.port => return refused("Cannot change port"),
            15 if port(value) != 0 => wanted.port = port(value),
            18 => wanted.udp_csum = value[0] != 0,
            19 => wanted.zero_csum6_tx = value[0] != 0,
            20 => wanted.zero_csum6_rx = value[0] != 0,
            26 => wanted.label = u32::from_be_bytes(*value.first_chunk().ok_or(Errno::EINVAL)?),
            28 => wanted.ttl_inherit = value.first().is_none_or(|on| *on != 0),
            29 => wanted.df = value[0],
            _ => {}
        }
    }
    if wanted.remote.zip(wanted.local).is_some_and(|(remote, local)| remote.is_ipv4() != local.is_ipv4()) {
        return invalid("Local and remote address must be from the same family");
    }
    if wanted.remote.is_some_and(|remote| remote.is_multicast()) && wanted.link.is_none() {
        return invalid("Local interface required for multicast remote destination");
    }
    wanted.v6 = wanted.remote.or(wanted.local).is_some_and(|ip| ip.is_ipv6());
    Ok(wanted)
}

/// Creates the state of a new VXLAN interface (`vxlan_newlink`). `mtu_given` is true for an MTU in the request.
pub(super) fn make_vxlan(
    admin: &mut Admin<'_>,
    number: usize,
    data: &[u8],
    mtu_given: bool,
) -> Result<(), Refusal> {
    let mut made = vxlan_wanted(admin, data, None)?;
    if made.link == Some(number) {
        return Err(refusal(Errno::ENODEV, "Invalid local interface, device not found"));
    }
    let devices = devices::of(admin.net);
    let same = |other: &Vxlan| (other.vni, other.port, other.v6) == (made.vni, made.port, made.v6);
    if devices.vxlans.values().any(|other| same(other) && other.link == made.link) {
        return Err(refusal(Errno::EEXIST, "A VXLAN device with the specified VNI already exists"));
    }
    if let Some(link) = made.link.filter(|_| !mtu_given) {
        let headroom = if made.v6 { HEADROOM6 } else { HEADROOM };
        admin.net.interfaces[number].mtu = admin.net.interfaces[link].mtu.saturating_sub(headroom);
    }
    let now = admin.net.clock.now();
    if let Some(ip) = made.remote {
        let remote = Remote { link: made.link, ..made.remote_at(ip) };
        let entry = made.new_entry(remote, c::NUD_REACHABLE | c::NUD_PERMANENT, c::NTF_SELF, now);
        made.fdb.insert(ANY, entry.clone());
        devices::of(admin.net).vxlans.insert(number, made);
        vxlan::report(admin.net, number, ANY, &entry, true);
    } else {
        devices::of(admin.net).vxlans.insert(number, made);
    }
    Ok(())
}

/// Changes a VXLAN interface (`vxlan_changelink`).
pub(super) fn change_vxlan(admin: &mut Admin<'_>, number: usize, data: &[u8]) -> Result<(), Refusal> {
    let Some(before) = devices::of(admin.net).vxlans.get(&number).cloned() else { return Ok(()) };
    let mut wanted = vxlan_wanted(admin, data, Some(&before))?;
    if wanted.link.is_some_and(|link| link == number || devices::lies_upon(admin.net, link, number)) {
        return Err(Errno::EBUSY.into());
    }
    let now = admin.net.clock.now();
    if wanted.remote != before.remote {
        let former = before.remote.map(|ip| Remote { link: before.link, ..before.remote_at(ip) });
        let new = wanted.remote.map(|ip| Remote { link: wanted.link, ..wanted.remote_at(ip) });
        let mut remotes = wanted.fdb.get(&ANY).map_or(Vec::new(), |entry| entry.remotes.clone());
        remotes.retain(|remote| Some(*remote) != former);
        remotes.extend(new.filter(|new| !remotes.contains(new)));
        match (remotes.is_empty(), wanted.fdb.get_mut(&ANY)) {
            (true, _) => {
                wanted.fdb.remove(&ANY);
            }
            (false, Some(entry)) => entry.remotes = remotes,
            (false, None) => {
                let entry =
                    wanted.new_entry(remotes[0], c::NUD_REACHABLE | c::NUD_PERMANENT, c::NTF_SELF, now);
                wanted.fdb.insert(ANY, entry);
            }
        }
    }
    devices::of(admin.net).vxlans.insert(number, wanted);
    Ok(())
}

/// Largest MTU of a VXLAN interface (`vxlan_change_mtu`).
pub(crate) fn vxlan_mtu(admin: &Admin<'_>, number: usize) -> Option<usize> {
    let vxlan = admin.net.devices.as_ref()?.vxlans.get(&number)?;
    let headroom = if vxlan.v6 { HEADROOM6 } else { HEADROOM };
    Some(admin.net.interfaces[vxlan.link?].mtu.saturating_sub(headroom))
}

/// Destination in a request about a forwarding entry (`vxlan_fdb_parse`).
fn remote_wanted(admin: &Admin<'_>, request: &Request<'_>, number: usize) -> Result<Remote, Refusal> {
    let Some(vxlan) = admin.net.devices.as_ref().and_then(|devices| devices.vxlans.get(&number)) else {
        return Err(Errno::EOPNOTSUPP.into());
    };
    let none: IpAddr = if vxlan.v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    let ip = request.attribute(NDMSG, NDA_DST).map(parse_ip).transpose();
    let ip = ip.map_err(|_| refusal(Errno::EAFNOSUPPORT, "Unsupported address family"))?.unwrap_or(none);
    let mut remote = vxlan.remote_at(ip);
    if let Some(value) = request.attribute(NDMSG, NDA_PORT) {
        if value.len() != 2 {
            return invalid("Invalid vxlan port");
        }
        remote.port = port(value);
    }
    if let Some(value) = request.attribute(NDMSG, NDA_VNI) {
        if value.len() != 4 {
            return invalid("Invalid vni");
        }
        remote.vni = word(value);
    }
    if let Some(value) = request.attribute(NDMSG, NDA_IFINDEX) {
        let unknown = refusal(Errno::EADDRNOTAVAIL, "Device not found");
        remote.link = Some(admin.net.interfaces.by_index(word(value)).ok_or(unknown)?);
    }
    if vxlan.v6 != ip.is_ipv6() {
        return Err(Errno::EAFNOSUPPORT.into());
    }
    Ok(remote)
}

/// Adds a forwarding entry (`vxlan_fdb_add`).
pub(super) fn add_vxlan_fdb(
    admin: &mut Admin<'_>,
    request: &Request<'_>,
    wanted: &FdbWanted,
) -> Result<(), Refusal> {
    let &FdbWanted { number, mac, state, flags, .. } = wanted;
    if state & (c::NUD_PERMANENT | c::NUD_REACHABLE) == 0 {
        return Err(Errno::EINVAL.into());
    }
    let remote = remote_wanted(admin, request, number)?;
    let has = |flag: i32| i32::from(request.flags) & flag != 0;
    let (now, to_many) = (admin.net.clock.now(), mac == ANY || mac[0] & 1 != 0);
    let Some(vxlan) = devices::of(admin.net).vxlans.get_mut(&number) else { return Ok(()) };
    let full = vxlan.limit != 0 && vxlan.fdb.len() >= vxlan.limit as usize;
    let entry = match vxlan.fdb.get_mut(&mac) {
        Some(_) if has(c::NLM_F_EXCL) => return Err(Errno::EEXIST.into()),
        Some(_) if has(c::NLM_F_REPLACE) && to_many => {
            return refused("Cannot replace non-unicast fdb entries");
        }
        Some(entry) => {
            (entry.state, entry.flags) = (state, flags & !c::NTF_MASTER);
            entry.updated = now;
            if has(c::NLM_F_REPLACE) {
                entry.remotes = vec![remote];
            }
            if has(c::NLM_F_APPEND) && to_many && !entry.remotes.contains(&remote) {
                entry.remotes.push(remote);
            }
            entry.clone()
        }
        None if !has(c::NLM_F_CREATE) => return Err(Errno::ENOENT.into()),
        None if has(c::NLM_F_REPLACE) && to_many => return Err(Errno::EOPNOTSUPP.into()),
        None if remote.ip.is_unspecified() => return Err(Errno::EINVAL.into()),
        None if full => return Err(Errno::ENOSPC.into()),
        None => {
            let entry = vxlan.new_entry(remote, state, flags & !c::NTF_MASTER, now);
            vxlan.fdb.insert(mac, entry.clone());
            entry
        }
    };
    vxlan::report(admin.net, number, mac, &entry, true);
    devices::set_timer(admin.net);
    Ok(())
}

/// Deletes a forwarding entry, or one of its destinations (`vxlan_fdb_delete`).
pub(super) fn delete_vxlan_fdb(
    admin: &mut Admin<'_>,
    request: &Request<'_>,
    wanted: &FdbWanted,
) -> Result<(), Refusal> {
    let &FdbWanted { number, mac, .. } = wanted;
    let remote = remote_wanted(admin, request, number)?;
    let Some(vxlan) = devices::of(admin.net).vxlans.get_mut(&number) else { return Ok(()) };
    let entry = vxlan.fdb.get_mut(&mac).ok_or(Errno::ENOENT)?;
    let named = !remote.ip.is_unspecified();
    if named && !entry.remotes.contains(&remote) {
        return Ok(());
    }
    let gone = entry.clone();
    if named && entry.remotes.len() > 1 {
        entry.remotes.retain(|other| *other != remote);
        let gone = VxlanEntry { remotes: vec![remote], ..gone };
        vxlan::report(admin.net, number, mac, &gone, false);
    } else {
        vxlan.fdb.remove(&mac);
        vxlan::report(admin.net, number, mac, &gone, false);
    }
    Ok(())
}

/// Deletes the entries of a VXLAN interface, except for those of the default destination (`vxlan_fdb_delete_bulk`).
pub(super) fn flush_vxlan_fdb(admin: &mut Admin<'_>, number: usize) {
    let Some(vxlan) = devices::of(admin.net).vxlans.get_mut(&number) else { return };
    let kept = vxlan.remote.is_some();
    let gone: Vec<_> = vxlan.fdb.iter().filter(|(mac, _)| !(kept && **mac == ANY)).collect();
    let gone: Vec<_> = gone.into_iter().map(|(mac, entry)| (*mac, entry.clone())).collect();
    vxlan.fdb.retain(|mac, _| kept && *mac == ANY);
    for (mac, entry) in gone {
        vxlan::report(admin.net, number, mac, &entry, false);
    }
}

/// Message about a destination of a forwarding entry (`vxlan_fdb_info`).
fn vxlan_message(
    admin: &Admin<'_>,
    number: usize,
    (mac, entry, remote): (&[u8; 6], &VxlanEntry, &Remote),
    there: bool,
    to: To,
) -> Vec<u8> {
    let (sequence, flags, port) = to;
    let now = admin.net.clock.now();
    let devices = admin.net.devices.as_ref();
    let vxlan = devices.and_then(|devices| devices.vxlans.get(&number));
    let kind = if there { c::RTM_NEWNEIGH } else { c::RTM_DELNEIGH };
    let mut message = Message::new(kind, flags, sequence, port)
        .put(&[AF_BRIDGE as u8, 0, 0, 0])
        .put(&interface_index(number).to_ne_bytes())
        .put(&entry.state.to_ne_bytes())
        .put(&[entry.flags, c::RTN_UNICAST])
        .attribute(NDA_LLADDR, mac);
    if !remote.ip.is_unspecified() {
        message = message.attribute(NDA_DST, &ip_bytes(remote.ip));
    }
    if vxlan.is_none_or(|vxlan| vxlan.port != remote.port) {
        message = message.attribute(NDA_PORT, &remote.port.to_be_bytes());
    }
    if vxlan.is_none_or(|vxlan| vxlan.vni != remote.vni) {
        message = message.attribute(NDA_VNI, &remote.vni.to_ne_bytes());
    }
    if let Some(link) = remote.link {
        message = message.attribute(NDA_IFINDEX, &interface_index(link).to_ne_bytes());
    }
    let ages = [0, age(entry.used, now), age(entry.updated, now), 0].map(u32::to_ne_bytes).concat();
    message.attribute(NDA_CACHEINFO, &ages).finish()
}

/// Entries of a VXLAN interface for a dump.
pub(super) fn vxlan_entries(admin: &Admin<'_>, number: usize, to: To) -> Vec<Vec<u8>> {
    let devices = admin.net.devices.as_ref();
    let Some(vxlan) = devices.and_then(|devices| devices.vxlans.get(&number)) else { return Vec::new() };
    let mut entries: Vec<_> = vxlan.fdb.iter().collect();
    entries.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.serial));
    let mut all = Vec::new();
    for (mac, entry) in entries {
        all.extend(
            entry.remotes.iter().map(|remote| vxlan_message(admin, number, (mac, entry, remote), true, to)),
        );
    }
    all
}

/// Notifies the netlink group of a forwarding entry.
pub(super) fn announce_vxlan(
    admin: &mut Admin<'_>,
    number: usize,
    mac: &[u8; 6],
    entry: &VxlanEntry,
    there: bool,
) {
    for remote in &entry.remotes {
        let message = vxlan_message(admin, number, (mac, entry, remote), there, (0, 0, 0));
        admin.announce(NEIGHBOUR_GROUP, &message);
    }
}

fn refused<T>(words: &'static str) -> Result<T, Refusal> {
    Err(refusal(Errno::EOPNOTSUPP, words))
}
