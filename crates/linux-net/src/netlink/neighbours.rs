//! The neighbour cache in rtnetlink: `RTM_NEWNEIGH`, `RTM_GETNEIGH`.

use super::attributes;
use super::gateways::address_type;
use super::group;
use super::message::{MULTI, Message, Request, To};
use super::policies;
use super::policy::{CLOSED, LIBERAL};
use super::refusal::{Refusal, invalid, refusal};
use super::requests::{ip_bytes, parse_ip};
use crate::Admin;
use belljar_base::SimTime;
use belljar_linux_abi::{Errno, c};
use belljar_net::InterfaceAddress;
use belljar_net::neighbour::{Neighbour, NeighbourState, Neighbours, NoAddress};
use belljar_net::routes::Ip;
use belljar_netstack::v6;
use belljar_netstack::{LO, Stack, interface_index};
use belljar_wire::ethernet::Address;
use std::net::{IpAddr, Ipv4Addr};

/// Length of `struct ndmsg` in bytes.
pub(super) const NDMSG: usize = 12;
const NDA_DST: u16 = 1;
pub(super) const NDA_LLADDR: u16 = 2;
const NDA_IFINDEX: u16 = 8;
const NDA_MASTER: u16 = 9;

/// State as a `NUD_*` bit.
pub fn nud(state: NeighbourState) -> u16 {
    match state {
        NeighbourState::None => 0,
        NeighbourState::Incomplete => 0x01,
        NeighbourState::Reachable => 0x02,
        NeighbourState::Stale => 0x04,
        NeighbourState::Delay => 0x08,
        NeighbourState::Probe => 0x10,
        NeighbourState::Failed => 0x20,
        NeighbourState::NoArp => 0x40,
        NeighbourState::Permanent => 0x80,
    }
}

/// State of a `NUD_*` mask.
fn state_of(nud: u16) -> NeighbourState {
    const ALL: [NeighbourState; 8] = [
        NeighbourState::Permanent,
        NeighbourState::NoArp,
        NeighbourState::Reachable,
        NeighbourState::Probe,
        NeighbourState::Stale,
        NeighbourState::Delay,
        NeighbourState::Incomplete,
        NeighbourState::Failed,
    ];
    let found = ALL.into_iter().find(|state| self::nud(*state) & nud != 0);
    found.unwrap_or(NeighbourState::None)
}

/// Message of type `kind` about a neighbour; `to` is the sequence number, the flags and the receiver's port
/// id.
fn message<A: Ip>(net: &Stack, neighbour: Neighbour<A>, kind: u16, to: To) -> Vec<u8> {
    let (sequence, flags, port) = to;
    let ip: IpAddr = neighbour.ip.into();
    let family = if ip.is_ipv4() { c::AF_INET } else { c::AF_INET6 };
    let message = Message::new(kind, flags, sequence, port)
        .put(&[family as u8, 0, 0, 0])
        .put(&interface_index(neighbour.interface).to_ne_bytes())
        .put(&nud(neighbour.state).to_ne_bytes())
        .put(&[0, kind_of(net, neighbour.interface, ip)])
        .attribute(NDA_DST, &ip_bytes(ip));
    match neighbour.address.filter(|_| neighbour.state.is_valid()) {
        Some(address) => message.attribute(NDA_LLADDR, &address.0).finish(),
        None => message.finish(),
    }
}

/// `ndm_type` of a neighbour: that of its address when it was new.
fn kind_of(net: &Stack, interface: usize, ip: IpAddr) -> u8 {
    net.neighbour_types.get(&(interface, ip)).copied().unwrap_or_else(|| type_of(net, interface, ip))
}

/// `RTN_*` of a new neighbour's address.
fn type_of(net: &Stack, interface: usize, ip: IpAddr) -> u8 {
    match ip {
        IpAddr::V4(ip) => address_type(net, ip),
        IpAddr::V6(ip) if ip.is_multicast() => c::RTN_MULTICAST,
        IpAddr::V6(_) if interface == LO => c::RTN_LOCAL,
        IpAddr::V6(_) => c::RTN_UNICAST,
    }
}

/// Records the types of new neighbours, which stay when the host's addresses change.
pub(super) fn record_types(net: &mut Stack) {
    let v4 = net.neighbours.iter().map(|each| (each.interface, IpAddr::from(each.ip)));
    let v6 = net.v6.neighbours.iter().map(|each| (each.interface, IpAddr::from(each.ip)));
    let all: Vec<_> = v4.chain(v6).collect();
    net.neighbour_types.retain(|key, _| all.contains(key));
    for key in all {
        let kind = type_of(net, key.0, key.1);
        net.neighbour_types.entry(key).or_insert(kind);
    }
}

/// Refusal of a state that requires a link-layer address.
fn no_address(_: NoAddress) -> Refusal {
    refusal(Errno::EINVAL, "No link layer address given")
}

/// Filter of a dump.
struct DumpFilter {
    proxies: bool,
    interface: Option<u32>,
    /// True if only neighbours of an interface with a master are asked for; there are none.
    enslaved: bool,
}

impl DumpFilter {
    /// Checks the header and attributes of a dump (`neigh_valid_dump_req`).
    fn read(request: &Request<'_>) -> Result<DumpFilter, Refusal> {
        let head = request.body.get(..NDMSG);
        let proxies = head.is_some_and(|head| head[NDMSG - 2] == c::NTF_PROXY);
        let mut filter = DumpFilter { proxies, interface: None, enslaved: false };
        if request.strict {
            let Some(head) = head else { return invalid("Invalid header for neighbor dump request") };
            if head[1..10] != [0; 9] || head[11] != 0 {
                return invalid("Invalid values in header for neighbor dump request");
            }
            if head[10] & !c::NTF_PROXY != 0 {
                return invalid("Invalid flags in header for neighbor dump request");
            }
            request.validate(NDMSG, &policies::NEIGHBOUR, CLOSED)?;
        } else if let Err(refusal) = request.validate(NDMSG, &policies::NEIGHBOUR, LIBERAL) {
            refusal.words.iter().for_each(|words| request.note(words));
            return Ok(filter);
        }
        for (kind, value) in request.attributes(NDMSG) {
            let number = value.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
            match kind {
                NDA_IFINDEX => filter.interface = Some(number).filter(|index| *index != 0),
                NDA_MASTER => filter.enslaved = number != 0 && number != u32::MAX,
                0 => {}
                _ if request.strict && kind <= policies::NEIGHBOUR.max => {
                    return invalid("Unsupported attribute in neighbor dump request");
                }
                _ => {}
            }
        }
        Ok(filter)
    }
}

impl Admin<'_> {
    /// All neighbours of a family, or of every family. There are no proxy entries (`ip neigh show proxy`).
    pub(crate) fn neighbours(
        &self,
        request: &Request<'_>,
        family: i32,
        port: u32,
    ) -> Result<Vec<Vec<u8>>, Refusal> {
        let filter = DumpFilter::read(request)?;
        if filter.proxies || filter.enslaved {
            return Ok(Vec::new());
        }
        let to = (request.sequence, MULTI, port);
        let here = |number: usize| filter.interface.is_none_or(|index| interface_index(number) == index);
        let v4 = self.net.neighbours.iter().filter(|each| here(each.interface));
        let v4 = v4.map(|each| message(self.net, each, c::RTM_NEWNEIGH, to));
        let v6 = self.net.v6.neighbours.iter().filter(|each| here(each.interface));
        let v6 = v6.map(|each| message(self.net, each, c::RTM_NEWNEIGH, to));
        Ok(match family {
            c::AF_INET => v4.collect(),
            c::AF_INET6 => v6.collect(),
            c::AF_UNSPEC => v4.chain(v6).collect(),
            _ => Vec::new(),
        })
    }

    /// Handles `ip neigh get` (`neigh_get`).
    pub(crate) fn neighbour(&self, request: &Request<'_>, port: u32) -> Result<Vec<u8>, Refusal> {
        let Some(head) = request.body.get(..NDMSG) else {
            return invalid("Invalid header for neighbor get request");
        };
        if head[1..4] != [0; 3] || head[8..10] != [0; 2] || head[11] != 0 {
            return invalid("Invalid values in header for neighbor get request");
        }
        if head[10] & !c::NTF_PROXY != 0 {
            return invalid("Invalid flags in header for neighbor get request");
        }
        if head[10] & c::NTF_PROXY == 0 && head[4..8] == [0; 4] {
            return invalid("No device specified");
        }
        request.validate(NDMSG, &policies::NEIGHBOUR, CLOSED)?;
        let missing = Refusal { missing: Some(NDA_DST), ..Errno::EINVAL.into() };
        let destination = request.attribute(NDMSG, NDA_DST).ok_or(missing)?;
        if request.attributes(NDMSG).any(|(kind, _)| kind != NDA_DST) {
            return invalid("Unsupported attribute in neighbor get request");
        }
        let family = match i32::from(head[0]) {
            c::AF_INET => 4,
            c::AF_INET6 => 16,
            _ => {
                return Err(refusal(
                    Errno::EAFNOSUPPORT,
                    "Unsupported family in header for neighbor get request",
                ));
            }
        };
        if destination.len() != family {
            return invalid("Invalid network address in neighbor get request");
        }
        let ip = parse_ip(destination)?;
        let index = request.word(4)?;
        let interface = match index {
            0 => None,
            index => Some(
                self.net
                    .interfaces
                    .by_index(index)
                    .ok_or(refusal(Errno::ENODEV, "Unknown device ifindex"))?,
            ),
        };
        if head[10] & c::NTF_PROXY != 0 {
            return Err(refusal(Errno::ENOENT, "Proxy neighbour entry not found"));
        }
        let Some(interface) = interface else { return invalid("No device specified") };
        let to = (request.sequence, 0, port);
        let found = match ip {
            IpAddr::V4(ip) => self
                .net
                .neighbours
                .get(interface, ip)
                .map(|each| message(self.net, each, c::RTM_NEWNEIGH, to)),
            IpAddr::V6(ip) => self
                .net
                .v6
                .neighbours
                .get(interface, ip)
                .map(|each| message(self.net, each, c::RTM_NEWNEIGH, to)),
        };
        found.ok_or(refusal(Errno::ENOENT, "Neighbour entry not found"))
    }

    /// Handles `ip neigh add`, `replace` and `change`: `neigh_add` in Linux.
    pub(crate) fn add_neighbour(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        request.validate(NDMSG, &policies::NEIGHBOUR, LIBERAL)?;
        self.look_through(request, &attributes::NEIGHBOUR)?;
        let Some(destination) = request.attribute(NDMSG, NDA_DST) else {
            return Err(refusal(Errno::EINVAL, "Network address not specified"));
        };
        let interface = self.neighbour_interface(request)?;
        let short = |value: &[u8]| value.len() < 6;
        if interface.is_some() && request.attribute(NDMSG, NDA_LLADDR).is_some_and(short) {
            return Err(refusal(Errno::EINVAL, "Invalid link address"));
        }
        let ip = neighbour_ip(request, destination)?;
        let address = request.attribute(NDMSG, NDA_LLADDR).and_then(|value| value.first_chunk().copied());
        let address = address.map(Address);
        let [.., low, high, ntf, _] = request.body.get(..NDMSG).ok_or(Errno::EINVAL)? else {
            return Err(Errno::EINVAL.into());
        };
        if ntf & c::NTF_PROXY != 0 {
            self.warn("netlink: answering for neighbours (ip neigh add proxy) is not supported");
            return Err(Errno::EOPNOTSUPP.into());
        }
        let Some(interface) = interface else {
            return Err(refusal(Errno::EINVAL, "Device not specified"));
        };
        if ip.is_ipv6() && !v6::is_possible(self.net, interface) {
            return invalid("IPv6 is disabled on this device");
        }
        let mut state = u16::from_ne_bytes([*low, *high]);
        let flags = i32::from(request.flags);
        let now = self.net.clock.now();
        let use_it = ntf & c::NTF_USE != 0;
        let known = match ip {
            IpAddr::V4(ip) => self.net.neighbours.get(interface, ip).map(|n| n.address),
            IpAddr::V6(ip) => self.net.v6.neighbours.get(interface, ip).map(|n| n.address),
        };
        let asked = ip;
        let ip = stored_as(interface, ip);
        let address = match known {
            None if flags & c::NLM_F_CREATE == 0 => return Err(Errno::ENOENT.into()),
            Some(_) if flags & c::NLM_F_EXCL != 0 => return Err(Errno::EEXIST.into()),
            // A different address is ignored unless the request replaces it.
            Some(Some(old))
                if !use_it
                    && flags & c::NLM_F_REPLACE == 0
                    && state_of(state).is_valid()
                    && address.is_some_and(|new| new != old) =>
            {
                return Ok(());
            }
            // That of all addresses of `lo` may exist.
            None if ip != asked && self.net.neighbours.get(interface, Ipv4Addr::UNSPECIFIED).is_some() => {
                address
            }
            None => {
                if let Some(own) = group_address(self.net, interface, ip) {
                    let state = NeighbourState::NoArp;
                    match ip {
                        IpAddr::V4(ip) => self.net.neighbours.assign(now, interface, ip, Some(own), state),
                        IpAddr::V6(ip) => self.net.v6.neighbours.assign(now, interface, ip, Some(own), state),
                    }
                    .map_err(no_address)?;
                }
                address
            }
            _ => address,
        };
        if use_it {
            state = 0;
        }
        let state = state_of(state);
        match ip {
            IpAddr::V4(ip) if use_it => self.net.neighbours.make_use(now, interface, ip),
            IpAddr::V6(ip) if use_it => self.net.v6.neighbours.make_use(now, interface, ip),
            IpAddr::V4(ip) => {
                self.net.neighbours.assign(now, interface, ip, address, state).map_err(no_address)?
            }
            IpAddr::V6(ip) => {
                self.net.v6.neighbours.assign(now, interface, ip, address, state).map_err(no_address)?
            }
        }
        Ok(())
    }

    /// Handles `ip neigh del` (`neigh_delete`): the neighbour enters the failed state and is then removed.
    pub(crate) fn remove_neighbour(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let head = request.body.get(..NDMSG).ok_or(Errno::EINVAL)?;
        // The first of several, unlike elsewhere (`nlmsg_find_attr`).
        let mut named = request.attributes(NDMSG).filter(|(kind, _)| *kind == NDA_DST);
        let Some((_, destination)) = named.next() else {
            return Err(refusal(Errno::EINVAL, "Network address not specified"));
        };
        let interface = self.neighbour_interface(request)?;
        let ip = neighbour_ip(request, destination)?;
        if head[NDMSG - 2] & c::NTF_PROXY != 0 {
            return Err(Errno::ENOENT.into());
        }
        let interface = interface.ok_or(Errno::EINVAL)?;
        let now = self.net.clock.now();
        let removed = match ip {
            IpAddr::V4(ip) => remove(&mut self.net.neighbours, now, interface, ip),
            IpAddr::V6(ip) => remove(&mut self.net.v6.neighbours, now, interface, ip),
        };
        removed.then_some(()).ok_or(Errno::ENOENT.into())
    }

    /// Interface in a request; `None` without an index.
    fn neighbour_interface(&self, request: &Request<'_>) -> Result<Option<usize>, Errno> {
        match request.word(4)? {
            0 => Ok(None),
            index => self.net.interfaces.by_index(index).map(Some).ok_or(Errno::ENODEV),
        }
    }

    /// Deletes the unresolved neighbours at the broadcast addresses of a new address (`arp_invalidate`).
    pub(crate) fn forget_broadcasts(&mut self, number: usize, own: &InterfaceAddress) {
        if !self.net.interfaces[number].up {
            return;
        }
        let of_network = self.net.interfaces.address_network(number, own);
        let given = self.net.interfaces.address_attributes(number, own).broadcast;
        for ip in self.net.interfaces.broadcasts(number, own) {
            // A network that begins with 0.0.0.0 has no broadcast address of its own (`fib_add_ifaddr`).
            if of_network.address().is_unspecified() && given != Some(ip) {
                continue;
            }
            let known = self.net.neighbours.get(number, ip);
            if known.is_some_and(|neighbour| !neighbour.state.is_valid()) {
                remove(&mut self.net.neighbours, self.net.clock.now(), number, ip);
            }
        }
    }

    /// Notifies the netlink group of a neighbour's state, or of its removal.
    pub fn announce_neighbour<A: Ip>(&mut self, neighbour: Neighbour<A>, there: bool) {
        let kind = if there { c::RTM_NEWNEIGH } else { c::RTM_DELNEIGH };
        let message = message(self.net, neighbour, kind, (0, 0, 0));
        self.announce(group::NEIGHBOUR, &message);
    }
}

/// Removes a neighbour by its failed state. Returns false if there is none.
fn remove<A: Ip>(all: &mut Neighbours<A>, now: SimTime, interface: usize, ip: A) -> bool {
    let known = all.get(interface, ip).is_some();
    known && all.assign(now, interface, ip, None, NeighbourState::Failed).is_ok() && all.remove(interface, ip)
}

/// Address under which a neighbour is stored: `lo` has one IPv4 neighbour for all addresses
/// (`arp_constructor`).
fn stored_as(interface: usize, ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) if interface == LO => Ipv4Addr::UNSPECIFIED.into(),
        ip => ip,
    }
}

/// Hardware address of a multicast or broadcast address, which needs no resolution (`arp_constructor`,
/// `ndisc_constructor`).
fn group_address(net: &Stack, interface: usize, ip: IpAddr) -> Option<Address> {
    let asks = interface != LO && net.interfaces[interface].asks_neighbours();
    let own = Some(Address(net.interfaces[interface].mac)).filter(|_| !asks);
    match ip {
        IpAddr::V4(ip) => match address_type(net, ip) {
            c::RTN_MULTICAST => {
                let [_, b, c, d] = ip.octets();
                Some(Address([0x01, 0, 0x5e, b & 0x7f, c, d]))
            }
            c::RTN_BROADCAST => own.or(Some(Address([0xff; 6]))),
            _ => own,
        },
        IpAddr::V6(ip) if ip.is_multicast() => {
            let [.., a, b, c, d] = ip.octets();
            Some(Address([0x33, 0x33, a, b, c, d]))
        }
        IpAddr::V6(_) => own,
    }
}

/// Address of a neighbour in a request.
fn neighbour_ip(request: &Request<'_>, destination: &[u8]) -> Result<IpAddr, Refusal> {
    let invalid = refusal(Errno::EINVAL, "Invalid network address");
    let first = |len| destination.get(..len).ok_or(invalid);
    match i32::from(request.body[0]) {
        c::AF_INET => Ok(parse_ip(first(4)?)?),
        c::AF_INET6 => Ok(parse_ip(first(16)?)?),
        _ => Err(Errno::EAFNOSUPPORT.into()),
    }
}
