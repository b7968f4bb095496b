//! Tunnels in rtnetlink: `IFLA_GRE_*`, `IFLA_IPTUN_*` and `IFLA_GENEVE_*`.

use super::message::{Request, attribute, attributes, ip_bytes, parse_ip, put};
use super::policies;
use super::policy::LIBERAL;
use super::refusal::{Refusal, invalid, refusal};
use belljar_linux_abi::{Errno, c};
use belljar_netstack::devices::ip_tunnel_state::{GRE_KEY, IpTunnel};
use belljar_netstack::interface::DeviceKind;
use belljar_netstack::interface_index;
use belljar_netstack::{Stack, devices};
use std::net::IpAddr;

/// Default UDP port of Geneve.
const GENEVE_PORT: u16 = 6_081;
/// `IPV6_DEFAULT_TNL_ENCAP_LIMIT`.
const DEFAULT_LIMIT: u8 = 4;
/// `IP6_TNL_F_IGN_ENCAP_LIMIT`.
const NO_LIMIT: u32 = 1;
/// Kinds of tunnels by the layout of their attributes.
fn is_gre(kind: DeviceKind) -> bool {
    matches!(kind, DeviceKind::Gre | DeviceKind::Gretap)
}

fn be16(value: &[u8]) -> u16 {
    value.first_chunk().map_or(0, |bytes| u16::from_be_bytes(*bytes))
}
fn be32(value: &[u8]) -> u32 {
    value.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}
fn word(value: &[u8]) -> u32 {
    value.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

/// Address of an end as an attribute, zeros without one.
fn end(ip: Option<IpAddr>, v6: bool) -> Vec<u8> {
    ip.map_or(vec![0; if v6 { 16 } else { 4 }], ip_bytes)
}

/// `IFLA_INFO_DATA` of a tunnel (`ipgre_fill_info`, `ipip_fill_info`, `ipip6_fill_info`, `ip6_tnl_fill_info`,
/// `geneve_fill_info`).
pub(super) fn tunnel_data(tunnel: &IpTunnel) -> Vec<u8> {
    let mut data = Vec::new();
    let link = tunnel.link.map_or(0, interface_index);
    let v6 = tunnel.kind == DeviceKind::Ip6tnl;
    match tunnel.kind {
        DeviceKind::Geneve => {
            put(&mut data, 1, &tunnel.keys.0.to_ne_bytes());
            if let Some(remote) = tunnel.remote {
                put(&mut data, if remote.is_ipv4() { 2 } else { 7 }, &ip_bytes(remote));
            }
            let over_v6 = tunnel.remote.is_some_and(|ip| ip.is_ipv6());
            match over_v6 {
                false => put(&mut data, 8, &[u8::from(tunnel.udp_csum)]),
                true => put(&mut data, 9, &[u8::from(!tunnel.udp_csum)]),
            }
            put(&mut data, 12, &[u8::from(tunnel.ttl_inherit)]);
            put(&mut data, 3, &[tunnel.ttl]);
            put(&mut data, 4, &[tunnel.tos]);
            put(&mut data, 13, &[0]);
            put(&mut data, 11, &[0; 4]);
            put(&mut data, 5, &tunnel.port.to_be_bytes());
        }
        kind if is_gre(kind) => {
            put(&mut data, 1, &link.to_ne_bytes());
            put(&mut data, 2, &tunnel.flags.0.to_be_bytes());
            put(&mut data, 3, &tunnel.flags.1.to_be_bytes());
            put(&mut data, 4, &tunnel.keys.0.to_be_bytes());
            put(&mut data, 5, &tunnel.keys.1.to_be_bytes());
            put(&mut data, 6, &end(tunnel.local, false));
            put(&mut data, 7, &end(tunnel.remote, false));
            put(&mut data, 8, &[tunnel.ttl]);
            put(&mut data, 9, &[tunnel.tos]);
            put(&mut data, 10, &[u8::from(tunnel.pmtudisc)]);
            put(&mut data, 20, &[0; 4]);
            for kind in [14, 16, 17, 15] {
                put(&mut data, kind, &[0; 2]);
            }
            put(&mut data, 19, &[0]);
        }
        kind => {
            put(&mut data, 1, &link.to_ne_bytes());
            put(&mut data, 2, &end(tunnel.local, v6));
            put(&mut data, 3, &end(tunnel.remote, v6));
            put(&mut data, 4, &[tunnel.ttl]);
            if kind == DeviceKind::Ip6tnl {
                put(&mut data, 6, &[tunnel.limit.unwrap_or(0)]);
                put(&mut data, 7, &[0; 4]);
                let flags = if tunnel.limit.is_none() { NO_LIMIT } else { 0 };
                put(&mut data, 8, &flags.to_ne_bytes());
                put(&mut data, 9, &[tunnel.proto]);
            } else {
                put(&mut data, 5, &[tunnel.tos]);
                put(&mut data, 9, &[tunnel.proto]);
                put(&mut data, 10, &[u8::from(tunnel.pmtudisc)]);
            }
            put(&mut data, 20, &[0; 4]);
            for kind in [15, 17, 18, 16] {
                put(&mut data, kind, &[0; 2]);
            }
        }
    }
    data
}

/// Checks the `IFLA_INFO_DATA` of a tunnel.
/// A setting that is not supported is passed to `warn`.
pub(super) fn check_tunnel_data(
    warn: &mut dyn FnMut(String),
    request: &Request<'_>,
    kind: DeviceKind,
    data: Option<&[u8]>,
) -> Result<(), Refusal> {
    let Some(data) = data else {
        return match kind {
            DeviceKind::Geneve => {
                invalid("Either netlink attributes (IFLA_GENEVE_ID) or collect_md mode is required")
            }
            _ => Ok(()),
        };
    };
    let policy = match kind {
        DeviceKind::Geneve => &policies::GENEVE,
        kind if is_gre(kind) => &policies::GRE,
        _ => &policies::IP_TUNNEL,
    };
    policy.validate(request, data, request.offset_of(data), LIBERAL)?;
    // Encapsulation in UDP, 6rd and metadata are not supported.
    let unsupported: &[u16] = match kind {
        DeviceKind::Geneve => &[6, 14],
        kind if is_gre(kind) => &[18],
        _ => &[11, 12, 13, 14, 19],
    };
    let encapsulation = if is_gre(kind) { 14 } else { 15 };
    let udp =
        kind != DeviceKind::Geneve && attribute(data, encapsulation).is_some_and(|value| word_of(value) != 0);
    if udp || unsupported.iter().any(|kind| attribute(data, *kind).is_some()) {
        warn(format!(
            "{}: metadata mode, 6rd and encapsulation in UDP are not supported and refused",
            kind.name()
        ));
        return Err(refusal(Errno::EOPNOTSUPP, "attribute not supported"));
    }
    if is_gre(kind) {
        let flags = [2, 3].map(|kind| attribute(data, kind).map_or(0, be16));
        // GRE_VERSION and GRE_ROUTING.
        if flags.iter().any(|flags| flags & (7 | 0x4000) != 0) {
            return Err(Errno::EINVAL.into());
        }
    }
    if kind == DeviceKind::Geneve && attribute(data, 1).is_some_and(|vni| word(vni) >= 1 << 24) {
        return Err(refusal(Errno::ERANGE, "Geneve ID must be lower than 16777216"));
    }
    Ok(())
}

/// Settings of a tunnel in a request.
fn tunnel_wanted(
    net: &Stack,
    kind: DeviceKind,
    data: &[u8],
    before: Option<&IpTunnel>,
) -> Result<IpTunnel, Refusal> {
    let fresh = IpTunnel {
        kind,
        local: None,
        remote: None,
        link: None,
        ttl: 0,
        ttl_inherit: false,
        tos: 0,
        pmtudisc: true,
        flags: (0, 0),
        keys: (0, 0),
        proto: match kind {
            DeviceKind::Ipip => 4,
            DeviceKind::Sit => 41,
            _ => 0,
        },
        port: GENEVE_PORT,
        udp_csum: true,
        limit: Some(DEFAULT_LIMIT).filter(|_| kind == DeviceKind::Ip6tnl),
        sequence: 0,
    };
    let mut wanted = match before {
        // Settings that a change does not name have their defaults again (`ipgre_netlink_parms`).
        Some(before) if kind != DeviceKind::Geneve => IpTunnel { sequence: before.sequence, ..fresh },
        Some(before) => before.clone(),
        None => fresh,
    };
    for (attribute, value) in attributes(data) {
        match kind {
            DeviceKind::Geneve => read_geneve(&mut wanted, attribute, value, before.is_some())?,
            kind if is_gre(kind) => read_gre(net, &mut wanted, attribute, value)?,
            _ => read_ip_tunnel(net, &mut wanted, attribute, value)?,
        }
    }
    if is_gre(kind) && wanted.flags.0 & GRE_KEY == 0 {
        wanted.keys.0 = 0;
    }
    if kind == DeviceKind::Geneve && wanted.remote.is_none_or(|remote| remote.is_multicast()) {
        return invalid("Remote IPv4 address cannot be Multicast");
    }
    Ok(wanted)
}

fn link_of(net: &Stack, value: &[u8]) -> Option<usize> {
    net.interfaces.by_index(word(value))
}

fn read_gre(net: &Stack, wanted: &mut IpTunnel, kind: u16, value: &[u8]) -> Result<(), Errno> {
    match kind {
        1 => wanted.link = link_of(net, value),
        2 => wanted.flags.0 = be16(value),
        3 => wanted.flags.1 = be16(value),
        4 => wanted.keys.0 = be32(value),
        5 => wanted.keys.1 = be32(value),
        6 => wanted.local = address(value, false)?,
        7 => wanted.remote = address(value, false)?,
        8 => wanted.ttl = value[0],
        9 => wanted.tos = value[0],
        10 => wanted.pmtudisc = value[0] != 0,
        _ => {}
    }
    Ok(())
}

fn read_ip_tunnel(net: &Stack, wanted: &mut IpTunnel, kind: u16, value: &[u8]) -> Result<(), Errno> {
    match kind {
        1 => wanted.link = link_of(net, value),
        2 => wanted.local = address(value, wanted.kind == DeviceKind::Ip6tnl)?,
        3 => wanted.remote = address(value, wanted.kind == DeviceKind::Ip6tnl)?,
        4 => wanted.ttl = value[0],
        5 => wanted.tos = value[0],
        6 => wanted.limit = Some(value[0]),
        8 if wanted.kind == DeviceKind::Ip6tnl && word(value) & NO_LIMIT != 0 => wanted.limit = None,
        9 => wanted.proto = value[0],
        10 => wanted.pmtudisc = value[0] != 0,
        _ => {}
    }
    Ok(())
}

/// Creates the state of a new tunnel. `mtu_given` is true for an MTU in the request.
pub(super) fn make_tunnel(
    net: &mut Stack,
    number: usize,
    kind: DeviceKind,
    data: &[u8],
    mtu_given: bool,
) -> Result<(), Refusal> {
    let made = tunnel_wanted(net, kind, data, None)?;
    let same = |other: &IpTunnel| {
        let ends = (other.local, other.remote, other.link, other.keys)
            == (made.local, made.remote, made.link, made.keys);
        other.kind == made.kind && ends && (kind != DeviceKind::Geneve || other.port == made.port)
    };
    if devices::of(net).tunnels.values().any(same) {
        return Err(Errno::EEXIST.into());
    }
    put_tunnel(net, number, made, mtu_given);
    Ok(())
}

/// Changes a tunnel.
pub(super) fn change_tunnel(net: &mut Stack, number: usize, data: &[u8]) -> Result<(), Refusal> {
    let Some(before) = devices::of(net).tunnels.get(&number).cloned() else { return Ok(()) };
    let wanted = tunnel_wanted(net, before.kind, data, Some(&before))?;
    put_tunnel(net, number, wanted, false);
    Ok(())
}

/// Sets a tunnel, and the MTU and flags of its interface that follow from it (`ip_tunnel_bind_dev`).
fn put_tunnel(net: &mut Stack, number: usize, tunnel: IpTunnel, mtu_given: bool) {
    let over = tunnel.link.or_else(|| {
        let route = net.route(tunnel.remote?, tunnel.local, None).ok()?;
        Some(route.interface)
    });
    let mtu = over.map_or(1_500, |over| net.interfaces[over].mtu).saturating_sub(tunnel.overhead());
    let least = if tunnel.kind == DeviceKind::Ip6tnl { 1_280 } else { 68 };
    let interface = &mut net.interfaces[number];
    if !mtu_given {
        interface.mtu = mtu.clamp(least, 65_535);
    }
    let to_one = c::IFF_POINTOPOINT as u32;
    interface.settings.toggled &= !to_one;
    if !tunnel.kind.is_ethernet() && tunnel.remote.is_some() {
        interface.settings.toggled |= to_one;
    }
    devices::of(net).tunnels.insert(number, tunnel);
}

fn word_of(value: &[u8]) -> u16 {
    value.first_chunk().map_or(0, |bytes| u16::from_ne_bytes(*bytes))
}

/// Address of an end in an attribute; `None` for zeros.
fn address(value: &[u8], v6: bool) -> Result<Option<IpAddr>, Errno> {
    let value = value.get(..if v6 { 16 } else { 4 }).ok_or(Errno::ERANGE)?;
    Ok(Some(parse_ip(value)?).filter(|ip| !ip.is_unspecified()))
}

fn read_geneve(wanted: &mut IpTunnel, kind: u16, value: &[u8], changes: bool) -> Result<(), Refusal> {
    let refused = |words| Err(refusal(Errno::EOPNOTSUPP, words));
    match kind {
        1 if changes && wanted.keys.0 != word(value) => return refused("Changing VNI is not supported"),
        1 => wanted.keys = (word(value), word(value)),
        2 | 7 => wanted.remote = address(value, kind == 7)?,
        3 => wanted.ttl = value[0],
        4 => wanted.tos = value[0],
        5 if changes && wanted.port != be16(value) => return refused("Changing port is not supported"),
        5 => wanted.port = be16(value),
        8 => wanted.udp_csum = value[0] != 0,
        9 => wanted.udp_csum = value[0] == 0,
        12 => wanted.ttl_inherit = value[0] != 0,
        13 if value[0] != 0 => return Err(refusal(Errno::EOPNOTSUPP, "attribute not supported")),
        _ => {}
    }
    Ok(())
}
