//! The interfaces of a host by number, with the attributes of their IPv4 addresses.

use crate::interface::{Attachment, Interface};
use crate::own_addresses::AddressAttributes;
use crate::tun::TunCounters;
use belljar_base::Map;
use belljar_linux_abi::c;
use belljar_net::InterfaceAddress;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::{Deref, DerefMut};

/// The interfaces of a host by number, `lo` first. The number of a deleted interface stays unused, unless an index is
/// asked for.
#[derive(Debug)]
#[repr(C)] // Frequently read fields come first: see `belljar_base::Footprint`.
pub struct Interfaces {
    list: Vec<Interface>,
    /// Non-default attributes of IPv4 addresses, by interface and address.
    pub(crate) address_attributes: Map<(usize, InterfaceAddress), AddressAttributes>,
    /// Counters of the interfaces created by the administrator.
    pub(crate) counters: Map<usize, TunCounters>,
    /// The number of the first interface at a link.
    first_link: usize,
    /// The number from which the next unused one is searched.
    next: usize,
    /// True once there has been a veth interface.
    pub(crate) has_pairs: bool,
    /// True once there has been a VRF.
    pub(crate) has_vrfs: bool,
}

impl Deref for Interfaces {
    type Target = Vec<Interface>;
    #[inline(always)]
    fn deref(&self) -> &Vec<Interface> {
        &self.list
    }
}

impl DerefMut for Interfaces {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Vec<Interface> {
        &mut self.list
    }
}

impl Interfaces {
    /// Creates the initial interfaces of a host. Those from `first_link` on are link interfaces.
    pub fn new(list: Vec<Interface>, first_link: usize) -> Interfaces {
        let next = list.len();
        Interfaces {
            list,
            address_attributes: Map::new(),
            counters: Map::new(),
            first_link,
            next,
            has_pairs: false,
            has_vrfs: false,
        }
    }
    /// Allocates the number of a new interface (`dev_index_reserve` of Linux).
    pub fn unused(&mut self) -> usize {
        while self.list.get(self.next).is_some_and(Interface::exists) {
            self.next += 1;
        }
        self.next += 1;
        self.next - 1
    }
    /// Sets the interface of an unused number. Numbers below it may stay unused.
    pub(crate) fn put(&mut self, number: usize, interface: Interface) {
        while self.list.len() <= number {
            self.list.push(Interface::program("", [0; 6], Attachment::Gone));
        }
        self.list[number] = interface;
        self.counters.remove(&number);
    }
    /// The MTU of an interface.
    #[inline]
    pub fn mtu(&self, interface: usize) -> usize {
        self.list[interface].mtu
    }

    /// The interface that owns an address.
    pub fn with_address(&self, ip: Ipv4Addr) -> Option<usize> {
        self.list.iter().position(|interface| interface.addresses.iter().any(|own| own.ip == ip))
    }

    /// The interface with an index visible to guests.
    pub fn by_index(&self, index: u32) -> Option<usize> {
        (0..self.list.len()).find(|n| crate::interface_index(*n) == index && self.list[*n].exists())
    }

    /// The interface of this name.
    pub fn by_name(&self, name: &[u8]) -> Option<usize> {
        self.list.iter().position(|interface| interface.exists() && interface.name.as_bytes() == name)
    }

    /// Source address for packets to `next` on an interface (`inet_select_addr`): a primary address whose
    /// scope is at least as wide as `scope`, in the network of `next`, else the first one, else one of
    /// another interface.
    pub fn source_on(&self, interface: usize, next: Option<Ipv4Addr>, scope: u8) -> Option<Ipv4Addr> {
        let fits = |number, own: &&InterfaceAddress| {
            self.scope_of(number, own).min(c::RT_SCOPE_HOST) <= scope && self.primary_of(number, own) == **own
        };
        let own = &self.list[interface].addresses;
        // The cheaper check comes first, since a host may have many addresses.
        let is_near = |own: &InterfaceAddress| {
            next.is_none_or(|next| self.address_network(interface, own).contains(next))
        };
        let near = own.iter().find(|own| is_near(own) && fits(interface, own));
        let first = || own.iter().find(|own| fits(interface, own));
        let others = || {
            let every = self.list.iter().enumerate();
            let mut all =
                every.flat_map(|(number, other)| other.addresses.iter().map(move |own| (number, own)));
            let usable = |(number, own): &(usize, &InterfaceAddress)| {
                self.scope_of(*number, own) != c::RT_SCOPE_LINK && fits(*number, own)
            };
            all.find(usable).map(|(_, own)| own)
        };
        near.or_else(first).or_else(others).map(|own| own.ip)
    }

    /// True for the limited broadcast address and for the broadcast addresses of links of this host.
    #[inline]
    pub fn is_broadcast(&self, ip: Ipv4Addr) -> bool {
        // The broadcast address of a network has at least two host bits, all set.
        (u32::from(ip) & 3 == 3 || !self.address_attributes.is_empty()) && self.finds_broadcast(ip)
    }

    fn finds_broadcast(&self, ip: Ipv4Addr) -> bool {
        ip.is_broadcast()
            || (1..self.list.len())
                .any(|number| self.list[number].is_link() && self.broadcast_on(number, ip).is_some())
    }

    /// True for multicast and broadcast addresses.
    #[inline]
    pub fn is_multipoint(&self, ip: IpAddr) -> bool {
        is_multipoint(ip) || matches!(ip, IpAddr::V4(v4) if self.is_broadcast(v4))
    }

    /// The number of the interface at the end of a link.
    pub fn at_link(&self, link: usize) -> usize {
        self.first_link + link
    }

    /// True if an address is a broadcast address on an interface.
    pub(crate) fn is_broadcast_on(&self, interface: usize, ip: Ipv4Addr) -> bool {
        ip.is_broadcast() || self.broadcast_on(interface, ip).is_some()
    }

    pub(crate) fn has_address(&self, interface: usize, ip: IpAddr) -> bool {
        let interface = &self.list[interface];
        match ip {
            IpAddr::V4(ip) => interface.addresses.iter().any(|own| own.ip == ip),
            IpAddr::V6(ip) => interface.addresses6.iter().any(|own| own.ip == ip),
        }
    }

    /// The local address of a received packet: for a multicast or broadcast destination the interface's own
    /// address.
    pub fn own_address(&self, interface: usize, destination: IpAddr) -> IpAddr {
        match destination {
            IpAddr::V4(v4) if self.is_multipoint(destination) => {
                self.source_on(interface, Some(v4), c::RT_SCOPE_LINK).unwrap_or(Ipv4Addr::UNSPECIFIED).into()
            }
            _ => destination,
        }
    }
}

/// True for multicast addresses and the limited broadcast address.
pub fn is_multipoint(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_broadcast() || v4.is_multicast(),
        IpAddr::V6(v6) => v6.is_multicast(),
    }
}
