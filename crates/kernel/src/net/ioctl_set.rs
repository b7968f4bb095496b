//! `ioctl(2)` requests that change interfaces, routes and neighbours, as `ifconfig`, `route` and `arp` make
//! them, netdevice(7).

use super::LO;
use crate::call::Call;
use crate::credentials::capability;
use crate::host::Host;
use belljar_linux_abi::{Errno, c};
use belljar_net::InterfaceAddress;
use belljar_net::neighbour::{NeighbourState, NoAddress};
use belljar_net::routes::{NextHop, Prefix, Route, RouteKind, protocol};
use belljar_wire::ethernet::Address;
use std::net::Ipv4Addr;

/// `IFNAMSIZ`.
const NAME_LEN: usize = 16;
/// `sizeof(struct ifreq)`, `struct rtentry`, `struct arpreq`.
const IFREQ_LEN: usize = 40;
const RTENTRY_LEN: usize = 120;
const ARPREQ_LEN: usize = 68;

/// Requests.
pub mod request {
    pub const ADDRT: u64 = 0x890b;
    pub const DELRT: u64 = 0x890c;
    pub const SIFFLAGS: u64 = 0x8914;
    pub const SIFADDR: u64 = 0x8916;
    pub const SIFBRDADDR: u64 = 0x891a;
    pub const SIFNETMASK: u64 = 0x891c;
    pub const SIFMTU: u64 = 0x8922;
    pub const SIFNAME: u64 = 0x8923;
    pub const SIFHWADDR: u64 = 0x8924;
    pub const SIFTXQLEN: u64 = 0x8943;
    pub const DARP: u64 = 0x8953;
    pub const GARP: u64 = 0x8954;
    pub const SARP: u64 = 0x8955;
}

/// True if a request is one of these.
pub fn is_change(number: u64) -> bool {
    use request::*;
    matches!(
        number,
        ADDRT
            | DELRT
            | SIFFLAGS
            | SIFADDR
            | SIFBRDADDR
            | SIFNETMASK
            | SIFMTU
            | SIFNAME
            | SIFHWADDR
            | SIFTXQLEN
            | DARP
            | GARP
            | SARP
    )
}

/// Carries a request out.
pub fn change(call: &mut Call<'_>, number: u64, arg: u64) -> Result<(), Errno> {
    if number != request::GARP {
        call.host.require(call.process, capability::NET_ADMIN)?;
    }
    match number {
        request::ADDRT | request::DELRT => change_route(call, number == request::ADDRT, arg)?,
        request::SARP | request::DARP | request::GARP => neighbour(call, number, arg)?,
        _ => change_interface(call, number, arg)?,
    }
    call.host.net.flush_network();
    Ok(())
}

fn name_of(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    &bytes[..end]
}

/// The IPv4 address of a `struct sockaddr`.
fn ip_of(bytes: &[u8]) -> Result<Ipv4Addr, Errno> {
    if i32::from(u16::from_ne_bytes([bytes[0], bytes[1]])) != c::AF_INET {
        return Err(Errno::EINVAL);
    }
    Ok(Ipv4Addr::new(bytes[4], bytes[5], bytes[6], bytes[7]))
}

/// The length of the prefix that a netmask stands for: `EINVAL` if it has holes.
fn prefix_len(mask: Ipv4Addr) -> Result<u8, Errno> {
    let bits = u32::from(mask);
    let len = bits.leading_ones();
    if bits.checked_shl(len).unwrap_or(0) != 0 { Err(Errno::EINVAL) } else { Ok(len as u8) }
}

fn change_interface(call: &mut Call<'_>, number: u64, arg: u64) -> Result<(), Errno> {
    let mut entry = [0; IFREQ_LEN];
    call.read_bytes(arg, &mut entry)?;
    let (name, value) = entry.split_at(NAME_LEN);
    let interface = call.host.net.interface_by_name(name_of(name)).ok_or(Errno::ENODEV)?;
    let word = i32::from_ne_bytes(value[..4].try_into().expect("four bytes"));
    let host = &mut *call.host;
    match number {
        request::SIFFLAGS => host.set_interface_up(interface, word & c::IFF_UP != 0),
        request::SIFMTU => host.set_mtu(interface, word as u32)?,
        request::SIFHWADDR => {
            host.net.interfaces[interface].mac = value[2..8].try_into().expect("six bytes");
        }
        request::SIFADDR => return host.set_first_address(interface, ip_of(value)?),
        request::SIFNETMASK => return host.set_first_netmask(interface, prefix_len(ip_of(value)?)?),
        // The broadcast address follows from the mask, and queues are as the experiment has them.
        request::SIFBRDADDR | request::SIFTXQLEN => return Ok(()),
        _ => {
            host.warn("interfaces cannot be renamed while a host runs");
            return Err(Errno::EBUSY);
        }
    }
    host.link_changed(interface);
    Ok(())
}

/// Classes of addresses, which `SIOCSIFADDR` still goes by (`inet_abc_len`).
fn class_len(ip: Ipv4Addr) -> u8 {
    match ip.octets()[0] {
        0 => 0,
        1..=127 => 8,
        128..=191 => 16,
        192..=223 => 24,
        _ => 32,
    }
}

impl Host {
    /// `SIOCSIFADDR`: takes the place of the first address; 0.0.0.0 takes it away. The interface goes up.
    fn set_first_address(&mut self, interface: usize, ip: Ipv4Addr) -> Result<(), Errno> {
        if let Some(old) = self.net.interfaces[interface].addresses.first().copied() {
            if old.ip == ip {
                return Ok(());
            }
            self.delete_address(interface, old)?;
        }
        if !ip.is_unspecified() {
            self.set_interface_up(interface, true);
            self.insert_address(interface, InterfaceAddress { ip, len: class_len(ip) })?;
            let addresses = &mut self.net.interfaces[interface].addresses;
            addresses.rotate_right(1);
        }
        self.link_changed(interface);
        Ok(())
    }

    fn set_first_netmask(&mut self, interface: usize, len: u8) -> Result<(), Errno> {
        let old = self.net.interfaces[interface].addresses.first().copied().ok_or(Errno::EADDRNOTAVAIL)?;
        if old.len != len {
            self.delete_address(interface, old)?;
            self.insert_address(interface, InterfaceAddress { len, ..old })?;
            self.net.interfaces[interface].addresses.rotate_right(1);
        }
        Ok(())
    }
}

/// `struct rtentry`.
fn change_route(call: &mut Call<'_>, add: bool, arg: u64) -> Result<(), Errno> {
    const RTF_GATEWAY: u16 = 2;
    const RTF_HOST: u16 = 4;
    const RTF_REJECT: u16 = 0x200;
    let mut entry = [0; RTENTRY_LEN];
    call.read_bytes(arg, &mut entry)?;
    let flags = u16::from_ne_bytes([entry[56], entry[57]]);
    let metric = i32::from(i16::from_ne_bytes([entry[80], entry[81]]));
    let device = u64::from_ne_bytes(entry[88..96].try_into().expect("eight bytes"));
    let to = ip_of(&entry[8..24])?;
    let len = match (flags & RTF_HOST, ip_of(&entry[40..56])) {
        (0, Ok(mask)) => prefix_len(mask)?,
        (0, Err(_)) if to.is_unspecified() => 0,
        (0, Err(_)) => class_len(to),
        _ => 32,
    };
    let prefix = Prefix::new(to, len);
    if prefix.address() != to {
        return Err(Errno::EINVAL);
    }
    let device = match device {
        0 => None,
        at => {
            let name = call.read_vec(at, NAME_LEN - 1)?;
            Some(call.host.net.interface_by_name(name_of(&name)).ok_or(Errno::ENODEV)?)
        }
    };
    let gateway = if flags & RTF_GATEWAY != 0 { Some(ip_of(&entry[24..40])?) } else { None };
    // One more than the metric, since 0 once meant that there is none.
    let metric = u32::try_from(metric - 1).unwrap_or(0);
    let host = &mut *call.host;
    if !add {
        let found = host.net.routes.iter().find(|(p, m, route)| {
            let hop = |hop: &NextHop| {
                device.is_none_or(|device| device == hop.interface)
                    && gateway.is_none_or(|gateway| Some(gateway) == hop.gateway)
            };
            *p == prefix
                && (metric == 0 || *m == metric)
                && (route.hops.is_empty() || route.hops.iter().any(hop))
        });
        let (prefix, metric, route) = found.map(|(p, m, r)| (p, m, r.clone())).ok_or(Errno::ESRCH)?;
        host.net.routes.remove(prefix, metric);
        host.announce_route(prefix, metric, &route, false);
        return Ok(());
    }
    if host.net.routes.get(prefix, metric).is_some() {
        return Err(Errno::EEXIST);
    }
    let route = match flags & RTF_REJECT {
        0 => {
            let hop = host.net.hop(gateway, device)?;
            Route::by(hop.interface, hop.gateway, protocol::BOOT)
        }
        _ => Route { kind: RouteKind::Unreachable, hops: Vec::new(), ..Route::by(LO, None, protocol::BOOT) },
    };
    host.announce_route(prefix, metric, &route, true);
    host.net.routes.insert(prefix, metric, route);
    Ok(())
}

/// `struct arpreq`.
fn neighbour(call: &mut Call<'_>, number: u64, arg: u64) -> Result<(), Errno> {
    const ATF_COM: i32 = 2;
    const ATF_PERM: i32 = 4;
    let mut entry = [0; ARPREQ_LEN];
    call.read_bytes(arg, &mut entry)?;
    let ip = ip_of(&entry[..16])?;
    let flags = i32::from_ne_bytes(entry[32..36].try_into().expect("four bytes"));
    let net = &call.host.net;
    let interface = match name_of(&entry[52..68]) {
        [] => net.route(ip.into(), None, None)?.interface,
        name => net.interface_by_name(name).ok_or(Errno::ENODEV)?,
    };
    match number {
        request::GARP => {
            let known = net.neighbours.get(interface, ip).ok_or(Errno::ENXIO)?;
            let permanent = known.state == NeighbourState::Permanent;
            let flags = match (known.address, permanent) {
                (None, _) => 0,
                (Some(_), false) => ATF_COM,
                (Some(_), true) => ATF_COM | ATF_PERM,
            };
            entry[16..18].copy_from_slice(&1u16.to_ne_bytes());
            entry[18..24].copy_from_slice(&known.address.unwrap_or_default().0);
            entry[32..36].copy_from_slice(&flags.to_ne_bytes());
            call.write_bytes(arg, &entry)
        }
        _ if !net.interfaces[interface].is_link() => Err(Errno::EINVAL),
        request::SARP => {
            let address = Address(entry[18..24].try_into().expect("six bytes"));
            let state = if flags & ATF_PERM != 0 { NeighbourState::Permanent } else { NeighbourState::Stale };
            let (now, neighbours) = (call.host.net.clock.now(), &mut call.host.net.neighbours);
            neighbours.assign(now, interface, ip, Some(address), state).map_err(|NoAddress| Errno::EINVAL)
        }
        _ => call.host.net.neighbours.remove(interface, ip).then_some(()).ok_or(Errno::ENXIO),
    }
}
