//! `ioctl(2)` requests on interfaces, routes and neighbours, as made by `ifconfig`, `route` and `arp`,
//! netdevice(7). The caller copies the structures in and out.

use crate::Admin;
use crate::netlink::ipvlan_links::check_ipvlan_ip;
use belljar_linux_abi::{Errno, c};
use belljar_net::InterfaceAddress;
use belljar_net::neighbour::{NeighbourState, NoAddress};
use belljar_net::routes::{NextHop, Prefix, Route, RouteKind, protocol};
use belljar_netstack::interface::{Attachment, Interface};
use belljar_netstack::lifetimes::Lifetime;
use belljar_netstack::own_addresses::{AddressAttributes, AddressConflict};
use belljar_netstack::{LO, Stack, interface_index};
use belljar_wire::ethernet::Address;
use std::net::Ipv4Addr;

/// `IFNAMSIZ`.
pub const NAME_LEN: usize = 16;
/// `sizeof(struct ifreq)`.
pub const IFREQ_LEN: usize = 40;
/// `sizeof(struct rtentry)`.
pub const RTENTRY_LEN: usize = 120;
/// `sizeof(struct arpreq)`.
pub const ARPREQ_LEN: usize = 68;

/// `sizeof(struct vlan_ioctl_args)`.
pub const VLAN_LEN: usize = 56;

/// Requests, `SIOC*`.
pub mod request {
    /// Flags.
    pub const GIFFLAGS: u64 = 0x8913;
    /// First address.
    pub const GIFADDR: u64 = 0x8915;
    /// Peer address.
    pub const GIFDSTADDR: u64 = 0x8917;
    /// Broadcast address.
    pub const GIFBRDADDR: u64 = 0x8919;
    /// Netmask of the first address.
    pub const GIFNETMASK: u64 = 0x891b;
    /// The metric.
    pub const GIFMETRIC: u64 = 0x891d;
    /// The MTU.
    pub const GIFMTU: u64 = 0x8921;
    /// Hardware address.
    pub const GIFHWADDR: u64 = 0x8927;
    /// Interface index.
    pub const GIFINDEX: u64 = 0x8933;
    /// Transmit queue length.
    pub const GIFTXQLEN: u64 = 0x8942;
    /// Adds a route.
    pub const ADDRT: u64 = 0x890b;
    /// Removes a route.
    pub const DELRT: u64 = 0x890c;
    /// Sets flags.
    pub const SIFFLAGS: u64 = 0x8914;
    /// Sets the first address.
    pub const SIFADDR: u64 = 0x8916;
    /// Sets the broadcast address.
    pub const SIFBRDADDR: u64 = 0x891a;
    /// Sets the netmask of the first address.
    pub const SIFNETMASK: u64 = 0x891c;
    /// Sets the MTU.
    pub const SIFMTU: u64 = 0x8922;
    /// Sets the name.
    pub const SIFNAME: u64 = 0x8923;
    /// Sets the hardware address.
    pub const SIFHWADDR: u64 = 0x8924;
    /// Sets the transmit queue length.
    pub const SIFTXQLEN: u64 = 0x8943;
    /// Removes a neighbour.
    pub const DARP: u64 = 0x8953;
    /// Reads a neighbour.
    pub const GARP: u64 = 0x8954;
    /// Adds a neighbour.
    pub const SARP: u64 = 0x8955;
}

/// True if the request makes a change or concerns a neighbour.
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

/// True if the request reads a property of one interface.
pub fn is_question(number: u64) -> bool {
    use request::*;
    matches!(
        number,
        GIFFLAGS
            | GIFADDR
            | GIFDSTADDR
            | GIFBRDADDR
            | GIFNETMASK
            | GIFMETRIC
            | GIFMTU
            | GIFHWADDR
            | GIFINDEX
            | GIFTXQLEN
    )
}

fn name_of(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    &bytes[..end]
}

/// Interface of a label, whose name precedes the colon.
fn labelled_interface(stack: &Stack, label: &[u8]) -> Result<usize, Errno> {
    let name = label.split(|byte| *byte == b':').next().unwrap_or(label);
    stack.interfaces.by_name(name).ok_or(Errno::ENODEV)
}

/// First address of an interface with this label; the default label is the interface's name.
fn labelled(stack: &Stack, interface: usize, label: &[u8]) -> Option<InterfaceAddress> {
    let has = |own: &&InterfaceAddress| label_of(stack, interface, own).as_bytes() == label;
    stack.interfaces[interface].addresses.iter().find(has).copied()
}
fn label_of(stack: &Stack, interface: usize, own: &InterfaceAddress) -> Box<str> {
    let label = stack.interfaces.address_attributes(interface, own).label;
    label.unwrap_or_else(|| (&*stack.interfaces[interface].name).into())
}

/// The IPv4 address of a `struct sockaddr`.
fn ip_of(bytes: &[u8]) -> Result<Ipv4Addr, Errno> {
    if i32::from(u16::from_ne_bytes([bytes[0], bytes[1]])) != c::AF_INET {
        return Err(Errno::EINVAL);
    }
    Ok(Ipv4Addr::new(bytes[4], bytes[5], bytes[6], bytes[7]))
}

/// Prefix length of a netmask: `EINVAL` if it is not contiguous.
fn prefix_len(mask: Ipv4Addr) -> Result<u8, Errno> {
    let bits = u32::from(mask);
    let len = bits.leading_ones();
    if bits.checked_shl(len).unwrap_or(0) != 0 { Err(Errno::EINVAL) } else { Ok(len as u8) }
}

/// Executes a request that changes an interface, with its `struct ifreq`.
pub fn change_interface(admin: &mut Admin<'_>, number: u64, entry: &[u8; IFREQ_LEN]) -> Result<(), Errno> {
    let (name, value) = entry.split_at(NAME_LEN);
    let name = name_of(name);
    let interface = labelled_interface(admin.net, name)?;
    let word = i32::from_ne_bytes(value[..4].try_into().expect("four bytes"));
    match number {
        request::SIFFLAGS if name.contains(&b':') => {
            let own = labelled(admin.net, interface, name).ok_or(Errno::EADDRNOTAVAIL)?;
            return if word & c::IFF_UP != 0 { Ok(()) } else { admin.delete_address(interface, own) };
        }
        request::SIFFLAGS => {
            let flags = u16::from_ne_bytes([value[0], value[1]]);
            admin.set_flags(interface, flags.into());
        }
        request::SIFMTU => admin.set_mtu(interface, word as u32)?,
        request::SIFHWADDR => {
            admin.set_mac(interface, &value[2..8])?;
        }
        request::SIFADDR => return admin.set_labelled_address(interface, name, ip_of(value)?),
        request::SIFNETMASK => {
            return admin.set_labelled_netmask(interface, name, prefix_len(ip_of(value)?)?);
        }
        request::SIFBRDADDR => {
            let own = labelled(admin.net, interface, name).ok_or(Errno::EADDRNOTAVAIL)?;
            admin.net.interfaces.set_broadcast(interface, own, ip_of(value)?);
            admin.announce_address(interface, &own, true);
            return Ok(());
        }
        // The length is stored and reported; queues are as the experiment configures them.
        request::SIFTXQLEN => {
            let length = u32::try_from(word).map_err(|_| Errno::EINVAL)?;
            admin.net.interfaces[interface].settings.queue_len = Some(length);
        }
        _ => {
            admin.warn("interfaces cannot be renamed while a host runs");
            return Err(Errno::EBUSY);
        }
    }
    admin.link_changed(interface);
    Ok(())
}

/// Prefix length of the address class, which `SIOCSIFADDR` still uses (`inet_abc_len`).
fn class_len(ip: Ipv4Addr) -> u8 {
    match ip.octets()[0] {
        0 => 0,
        1..=127 => 8,
        128..=191 => 16,
        192..=223 => 24,
        _ => 32,
    }
}

impl Admin<'_> {
    /// `SIOCSIFADDR`: replaces the first address with this label, or deletes it if `ip` is 0.0.0.0. Brings
    /// the interface up.
    fn set_labelled_address(&mut self, interface: usize, name: &[u8], ip: Ipv4Addr) -> Result<(), Errno> {
        if let Some(old) = labelled(self.net, interface, name) {
            if old.ip == ip {
                return Ok(());
            }
            self.delete_address(interface, old)?;
        }
        if !ip.is_unspecified() {
            self.set_interface_up(interface, true);
            let own = InterfaceAddress::new(ip, class_len(ip));
            let label = name.contains(&b':').then(|| String::from_utf8_lossy(name).into());
            let usual = self.net.interfaces.address_attributes(interface, &own);
            let given = label.is_some().then_some(AddressAttributes { label, ..usual });
            self.give_address(interface, own, given, None)?;
        }
        self.link_changed(interface);
        Ok(())
    }

    /// `SIOCSIFNETMASK`: reinserts the first address with this label with another prefix length, keeping its
    /// attributes. A broadcast address derived from the old mask is derived anew.
    fn set_labelled_netmask(&mut self, interface: usize, name: &[u8], len: u8) -> Result<(), Errno> {
        let old = labelled(self.net, interface, name).ok_or(Errno::EADDRNOTAVAIL)?;
        let mut given = self.net.interfaces.address_attributes(interface, &old);
        let before = given.peer.map_or(old.len, |peer| peer.len);
        if before == len {
            return Ok(());
        }
        let all = |len| InterfaceAddress { len, ..old }.network().broadcast();
        if len < 31 && given.broadcast.is_some() && given.broadcast == all(before) {
            given.broadcast = all(len);
        }
        let own = if given.peer.is_some() { old } else { InterfaceAddress { len, ..old } };
        given.peer = given.peer.map(|peer| InterfaceAddress { len, ..peer });
        let lifetime = self.net.lifetimes.lifetime(interface, old);
        self.delete_address(interface, old)?;
        self.give_address(interface, own, Some(given), lifetime)
    }

    fn give_address(
        &mut self,
        interface: usize,
        own: InterfaceAddress,
        given: Option<AddressAttributes>,
        lifetime: Option<Lifetime>,
    ) -> Result<(), Errno> {
        check_ipvlan_ip(self.net, interface, own.ip.into()).map_err(|refusal| refusal.errno)?;
        self.insert_address(interface, own, given, lifetime).map_err(|conflict| match conflict {
            AddressConflict::Present => Errno::EEXIST,
            AddressConflict::Scope => Errno::EINVAL,
        })
    }
}

/// Guest address of the device name in a `struct rtentry`, if there is one.
pub fn device_name_at(entry: &[u8; RTENTRY_LEN]) -> Option<u64> {
    let at = u64::from_ne_bytes(entry[88..96].try_into().expect("eight bytes"));
    (at != 0).then_some(at)
}

/// Adds or removes the route of a `struct rtentry`. `device` is the name at [`device_name_at`], or the error
/// of reading it.
pub fn change_route(
    admin: &mut Admin<'_>,
    add: bool,
    entry: &[u8; RTENTRY_LEN],
    device: Option<Result<Vec<u8>, Errno>>,
) -> Result<(), Errno> {
    const RTF_GATEWAY: u16 = 2;
    const RTF_HOST: u16 = 4;
    const RTF_REJECT: u16 = 0x200;
    let flags = u16::from_ne_bytes([entry[56], entry[57]]);
    let metric = i32::from(i16::from_ne_bytes([entry[80], entry[81]]));
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
        None => None,
        Some(name) => Some(admin.net.interfaces.by_name(name_of(&name?)).ok_or(Errno::ENODEV)?),
    };
    let gateway = if flags & RTF_GATEWAY != 0 { Some(ip_of(&entry[24..40])?) } else { None };
    // The field is the metric plus one; 0 stands for none.
    let metric = u32::try_from(metric - 1).unwrap_or(0);
    if !add {
        let found = admin.net.routes.iter().find(|(p, m, route)| {
            let hop = |hop: &NextHop| {
                device.is_none_or(|device| device == hop.interface)
                    && gateway.is_none_or(|gateway| Some(gateway) == hop.gateway)
            };
            *p == prefix
                && route.tos == 0
                && (metric == 0 || *m == metric)
                && (route.object.is_none() || device.is_none() && gateway.is_none())
                && (route.hops.is_empty() || route.hops.iter().any(hop))
        });
        let (prefix, metric, route) = found.map(|(p, m, r)| (p, m, r.clone())).ok_or(Errno::ESRCH)?;
        admin.net.routes.remove(prefix, metric);
        admin.announce_route(prefix, metric, &route, false);
        return Ok(());
    }
    if admin.net.routes.get(prefix, metric).is_some() {
        return Err(Errno::EEXIST);
    }
    let route = match flags & RTF_REJECT {
        0 => {
            let hop = admin.net.hop(gateway, device)?;
            Route::by(hop.interface, hop.gateway, protocol::BOOT)
        }
        _ => Route { kind: RouteKind::Unreachable, hops: Vec::new(), ..Route::by(LO, None, protocol::BOOT) },
    };
    admin.announce_route(prefix, metric, &route, true);
    admin.net.routes.insert(prefix, metric, route);
    Ok(())
}

/// Executes a request on the neighbour of a `struct arpreq`; `GARP` fills it in.
pub fn neighbour(stack: &mut Stack, number: u64, entry: &mut [u8; ARPREQ_LEN]) -> Result<(), Errno> {
    const ATF_COM: i32 = 2;
    const ATF_PERM: i32 = 4;
    let ip = ip_of(&entry[..16])?;
    let flags = i32::from_ne_bytes(entry[32..36].try_into().expect("four bytes"));
    let net = &*stack;
    let interface = match name_of(&entry[52..68]) {
        [] => net.route(ip.into(), None, None)?.interface,
        name => net.interfaces.by_name(name).ok_or(Errno::ENODEV)?,
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
            Ok(())
        }
        _ if !net.interfaces[interface].is_link() => Err(Errno::EINVAL),
        request::SARP => {
            let address = Address(entry[18..24].try_into().expect("six bytes"));
            let state = if flags & ATF_PERM != 0 { NeighbourState::Permanent } else { NeighbourState::Stale };
            let (now, neighbours) = (stack.clock.now(), &mut stack.neighbours);
            neighbours.assign(now, interface, ip, Some(address), state).map_err(|NoAddress| Errno::EINVAL)
        }
        _ => stack.neighbours.remove(interface, ip).then_some(()).ok_or(Errno::ENXIO),
    }
}

/// `IFF_*` flags of an interface.
pub fn interface_flags(interface: &Interface) -> u32 {
    const LOWER_UP: i32 = 0x10000;
    let up = if interface.up { c::IFF_UP } else { 0 };
    let carrier = if interface.has_lower_up() { LOWER_UP } else { 0 };
    let running = if interface.is_running() { c::IFF_RUNNING } else { 0 };
    (up | carrier | running) as u32 | interface.lasting_flags()
}

fn ifreq(name: &str) -> [u8; IFREQ_LEN] {
    let mut bytes = [0; IFREQ_LEN];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    bytes
}

fn put_address(ifreq: &mut [u8; IFREQ_LEN], address: Ipv4Addr) {
    ifreq[NAME_LEN..NAME_LEN + 2].copy_from_slice(&(c::AF_INET as u16).to_ne_bytes());
    ifreq[NAME_LEN + 4..NAME_LEN + 8].copy_from_slice(&address.octets());
}

/// `SIOCGIFCONF`: a `struct ifreq` for each IPv4 address.
pub fn list_interfaces(stack: &Stack) -> Vec<u8> {
    let mut list = Vec::new();
    for (number, interface) in stack.interfaces.iter().enumerate() {
        for own in &interface.addresses {
            let mut entry = ifreq(&label_of(stack, number, own));
            put_address(&mut entry, own.ip);
            list.extend_from_slice(&entry);
        }
    }
    list
}

/// `SIOCGIFNAME`: the name field of the `struct ifreq` for the interface with this index.
pub fn interface_name(stack: &Stack, index: u32) -> Result<[u8; NAME_LEN], Errno> {
    let interface = stack.interfaces.by_index(index).ok_or(Errno::ENODEV)?;
    let entry = ifreq(&stack.interfaces[interface].name);
    Ok(*entry.first_chunk().expect("longer than a name"))
}

/// `SIOCGIFVLAN`: writes the VLAN id, or the name of the underlying interface, to a `struct vlan_ioctl_args`.
/// `EINVAL` for other interfaces and for requests that change something.
pub fn ask_vlan(stack: &Stack, entry: &mut [u8; VLAN_LEN]) -> Result<(), Errno> {
    const GET_REALDEV_NAME: i32 = 8;
    const GET_VID: i32 = 9;
    let command = i32::from_ne_bytes(*entry.first_chunk().expect("longer than four bytes"));
    let number = stack.interfaces.by_name(name_of(&entry[4..27])).ok_or(Errno::ENODEV)?;
    let Attachment::Vlan { below, id } = stack.interfaces[number].attachment else {
        return Err(Errno::EINVAL);
    };
    match command {
        GET_REALDEV_NAME => {
            let name = stack.interfaces[below].name.as_bytes();
            entry[28..52].fill(0);
            entry[28..28 + name.len()].copy_from_slice(name);
        }
        GET_VID => entry[28..32].copy_from_slice(&i32::from(id).to_ne_bytes()),
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}

/// Fills in a `struct ifreq` with a property of the interface it names.
pub fn ask_interface(admin: &Admin<'_>, number: u64, entry: &mut [u8; IFREQ_LEN]) -> Result<(), Errno> {
    use request::*;
    let end = entry[..NAME_LEN].iter().position(|b| *b == 0).unwrap_or(NAME_LEN);
    let interface_number = labelled_interface(admin.net, &entry[..end])?;
    let own = labelled(admin.net, interface_number, &entry[..end]).ok_or(Errno::EADDRNOTAVAIL);
    let interface = &admin.net.interfaces[interface_number];
    let flags = interface_flags(interface);
    entry[NAME_LEN..].fill(0);
    let mut put = |value: &[u8]| entry[NAME_LEN..NAME_LEN + value.len()].copy_from_slice(value);
    match number {
        GIFFLAGS => put(&(flags as u16).to_ne_bytes()),
        GIFADDR => put_address(entry, own?.ip),
        GIFDSTADDR => {
            let own = own?;
            let peer = admin.net.interfaces.address_attributes(interface_number, &own).peer;
            put_address(entry, peer.unwrap_or(own).ip);
        }
        GIFBRDADDR if interface_number == LO => put_address(entry, Ipv4Addr::UNSPECIFIED),
        GIFBRDADDR => {
            let given = admin.net.interfaces.address_attributes(interface_number, &own?);
            let broadcast = given.broadcast.unwrap_or(Ipv4Addr::UNSPECIFIED);
            put_address(entry, broadcast);
        }
        GIFNETMASK => {
            put_address(entry, admin.net.interfaces.address_network(interface_number, &own?).netmask())
        }
        GIFMTU => put(&(interface.mtu as i32).to_ne_bytes()),
        GIFINDEX => put(&interface_index(interface_number).to_ne_bytes()),
        GIFTXQLEN => put(&interface.queue_capacity().to_ne_bytes()),
        GIFHWADDR => {
            put(&[&interface.hardware_type().to_ne_bytes()[..], &interface.mac].concat());
        }
        // GIFMETRIC: 0, which stands for 1.
        _ => {}
    }
    Ok(())
}
