//! IPv4 addresses of interfaces (`net/ipv4/devinet.c` of Linux).
//!
//! An interface's list has the primary addresses first. An address is *secondary* (`IFA_F_SECONDARY`) if a
//! primary one of the same network precedes it. A secondary address has no route of its own to the network,
//! and is removed with the primary one unless `promote_secondaries` makes it the next primary. The flag thus
//! follows from the order, and only attributes that cannot be derived from an address are stored beside the
//! list.

use crate::interfaces::Interfaces;
use belljar_linux_abi::c;
use belljar_net::{InterfaceAddress, Prefix};
use std::net::Ipv4Addr;

/// `IFA_F_NOPREFIXROUTE`.
pub(crate) const NO_PREFIX_ROUTE: u32 = 0x200;

/// Longest label of an address in bytes (`IFNAMSIZ` without the end).
const MAX_LABEL: usize = 15;

/// Attributes of an address other than its network, as set by the administrator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressAttributes {
    /// `RT_SCOPE_*`: the scope of the address.
    pub scope: u8,
    /// `IFA_BROADCAST`.
    pub broadcast: Option<Ipv4Addr>,
    /// `IFA_LABEL`, if it is not the name of the interface.
    pub label: Option<Box<str>>,
    /// `IFA_ADDRESS` of a point-to-point link: the peer's address, with the prefix length.
    pub peer: Option<InterfaceAddress>,
    /// The `IFA_F_*` flags that are reported as set.
    pub flags: u32,
    /// `IFA_RT_PRIORITY`: the metric of the route to the network.
    pub metric: u32,
    /// `IFA_PROTO`: the originator of the address.
    pub origin: u8,
}

impl AddressAttributes {
    /// True if the address has a route to its network.
    pub fn is_routed(&self) -> bool {
        self.flags & NO_PREFIX_ROUTE == 0
    }
}

/// Reason for which an address cannot be added to an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressConflict {
    /// The interface already has the address.
    Present,
    /// The interface has an address of the same network with another scope.
    Scope,
}

impl Interfaces {
    /// The attributes of an address; the defaults if none were set.
    pub fn address_attributes(&self, number: usize, own: &InterfaceAddress) -> AddressAttributes {
        if let Some(given) = self.address_attributes.get(&(number, *own)) {
            return given.clone();
        }
        let scope = self.scope_of(number, own);
        let broadcast = own.network().broadcast().filter(|_| number != crate::LO);
        AddressAttributes { scope, broadcast, ..AddressAttributes::default() }
    }

    /// The scope of an address: `RT_SCOPE_*`.
    pub fn scope_of(&self, number: usize, own: &InterfaceAddress) -> u8 {
        let usual = if own.ip.is_loopback() { c::RT_SCOPE_HOST } else { c::RT_SCOPE_UNIVERSE };
        self.address_attributes.get(&(number, *own)).map_or(usual, |given| given.scope)
    }

    /// The network of an address: that of its peer if it has one.
    pub fn address_network(&self, number: usize, own: &InterfaceAddress) -> Prefix {
        let peer = self.address_attributes.get(&(number, *own)).and_then(|given| given.peer);
        peer.unwrap_or(*own).network()
    }

    /// The primary address of an address's network: the address itself if it is primary.
    pub fn primary_of(&self, number: usize, own: &InterfaceAddress) -> InterfaceAddress {
        let network = self.address_network(number, own);
        let same = |other: &&InterfaceAddress| self.address_network(number, other) == network;
        self[number].addresses.iter().find(same).copied().unwrap_or(*own)
    }

    /// The broadcast addresses of an address: the one set with it, and that of the network if the address is
    /// primary.
    pub fn broadcasts(
        &self,
        number: usize,
        own: &InterfaceAddress,
    ) -> impl Iterator<Item = Ipv4Addr> + use<> {
        let of_network = self.address_network(number, own).broadcast();
        let given = match self.address_attributes.get(&(number, *own)) {
            Some(given) => given.broadcast.filter(|ip| !ip.is_broadcast() && !ip.is_unspecified()),
            None => of_network.filter(|_| number != crate::LO),
        };
        let of_primary = of_network.filter(|ip| given != Some(*ip) && self.primary_of(number, own) == *own);
        given.into_iter().chain(of_primary)
    }

    /// The address of an interface of which `ip` is a broadcast address. It is the source of packets to `ip`.
    #[inline]
    pub fn broadcast_on(&self, number: usize, ip: Ipv4Addr) -> Option<Ipv4Addr> {
        let addresses = &self[number].addresses;
        if self.address_attributes.is_empty() && !addresses.iter().any(|own| own.has_broadcast(ip)) {
            return None;
        }
        self.find_broadcast_on(number, ip)
    }

    #[inline(never)]
    fn find_broadcast_on(&self, number: usize, ip: Ipv4Addr) -> Option<Ipv4Addr> {
        let of = |own: &&InterfaceAddress| match self.address_attributes.is_empty() {
            true => own.has_broadcast(ip),
            false => self.broadcasts(number, own).any(|all| all == ip),
        };
        let own = self[number].addresses.iter().find(of)?;
        Some(self.primary_of(number, own).ip)
    }

    /// The link interface on which `ip` was set as a broadcast address, if it is up.
    pub fn given_broadcast(&self, ip: Ipv4Addr) -> Option<usize> {
        let given = self
            .address_attributes
            .iter()
            .filter(|(_, given)| given.broadcast == Some(ip) && !ip.is_broadcast());
        let usable = |number: &usize| self[*number].up && self[*number].is_link();
        given.map(|((number, _), _)| *number).find(usable)
    }

    /// The secondary addresses of a primary one; empty for a secondary one.
    pub fn secondaries_of(&self, number: usize, own: &InterfaceAddress) -> Vec<InterfaceAddress> {
        if self.primary_of(number, own) != *own {
            return Vec::new();
        }
        let network = self.address_network(number, own);
        let own_addresses = self[number].addresses.iter();
        own_addresses
            .filter(|other| *other != own && self.address_network(number, other) == network)
            .copied()
            .collect()
    }

    /// The address with a turn by which it differs from the interface's equal addresses.
    pub fn distinct(&self, number: usize, own: InterfaceAddress) -> InterfaceAddress {
        let turns = (0..=u8::MAX).map(|turn| InterfaceAddress { turn, ..own });
        turns.into_iter().find(|own| !self[number].addresses.contains(own)).unwrap_or(own)
    }

    /// Adds an address to an interface: after the last primary one whose scope is no wider, or at the end if
    /// it is secondary. Without attributes it has the defaults.
    pub fn add_address(
        &mut self,
        number: usize,
        own: InterfaceAddress,
        attributes: Option<AddressAttributes>,
    ) -> Result<(), AddressConflict> {
        let peer = attributes.as_ref().and_then(|given| given.peer);
        let network = peer.unwrap_or(own).network();
        let scope = attributes.as_ref().map_or_else(|| self.scope_of(number, &own), |given| given.scope);
        let (mut place, mut secondary) = (0, false);
        let list = &self[number].addresses;
        for (at, other) in list.iter().enumerate() {
            let of_other = self.scope_of(number, other);
            if scope <= of_other && self.primary_of(number, other) == *other {
                place = at + 1;
            }
            if *other == own {
                return Err(AddressConflict::Present);
            }
            if self.address_network(number, other) == network {
                if scope != of_other {
                    return Err(AddressConflict::Scope);
                }
                secondary = true;
            }
        }
        let place = if secondary { list.len() } else { place };
        self[number].addresses.insert(place, own);
        if let Some(given) = attributes {
            self.address_attributes.insert((number, own), given);
        }
        Ok(())
    }

    /// Sets the metric of the route to an address's network, and the originator of the address. Returns the
    /// previous metric.
    pub fn set_address_metric(
        &mut self,
        number: usize,
        own: InterfaceAddress,
        metric: u32,
        origin: u8,
    ) -> u32 {
        let given = self.address_attributes(number, &own);
        let before = given.metric;
        self.address_attributes.insert((number, own), AddressAttributes { metric, origin, ..given });
        before
    }

    /// Gives the addresses of a renamed interface their labels (`inetdev_changename`): the first has the name alone,
    /// another one its suffix behind the name, or its number.
    pub fn relabel(&mut self, number: usize) {
        for (at, own) in self[number].addresses.clone().into_iter().enumerate() {
            let given = self.address_attributes(number, &own);
            let suffix = match given.label.as_deref().and_then(|label| Some(&label[label.find(':')?..])) {
                _ if at == 0 => String::new(),
                Some(suffix) => suffix.to_owned(),
                None => format!(":{}", at + 1),
            };
            let name = &self[number].name;
            let kept = name.len().min(MAX_LABEL.saturating_sub(suffix.len()));
            let label = format!("{}{suffix}", name.get(..kept).unwrap_or(name));
            let label = Some(label.into()).filter(|_| at > 0);
            self.address_attributes.insert((number, own), AddressAttributes { label, ..given });
        }
    }

    /// Sets the broadcast address of an address.
    pub fn set_broadcast(&mut self, number: usize, own: InterfaceAddress, broadcast: Ipv4Addr) {
        let given = self.address_attributes(number, &own);
        let given = AddressAttributes { broadcast: Some(broadcast), ..given };
        self.address_attributes.insert((number, own), given);
    }

    /// Removes an address. Returns the secondary one promoted by the removal, which is moved behind the other
    /// primary ones.
    pub fn remove_address(&mut self, number: usize, own: &InterfaceAddress) -> Option<InterfaceAddress> {
        let next = self.secondaries_of(number, own).first().copied();
        self[number].addresses.retain(|other| other != own && Some(*other) != next);
        self.address_attributes.remove(&(number, *own));
        let next = next?;
        // The remaining secondary addresses follow the promoted one.
        let network = self.address_network(number, &next);
        let other = |own: &InterfaceAddress| {
            self.address_network(number, own) != network && self.primary_of(number, own) == *own
        };
        let last = self[number].addresses.iter().rposition(other);
        self[number].addresses.insert(last.map_or(0, |last| last + 1), next);
        Some(next)
    }

    /// Removes all addresses of a deleted interface.
    pub fn forget_addresses(&mut self, number: usize) {
        self[number].addresses.clear();
        self.address_attributes.retain(|(interface, _), _| *interface != number);
    }
}

#[cfg(test)]
mod tests {
    use super::{AddressAttributes, NO_PREFIX_ROUTE};
    use crate::ETH0;
    use crate::testing::stack;
    use belljar_net::InterfaceAddress;

    fn own(text: &str) -> InterfaceAddress {
        text.parse().unwrap()
    }

    #[test]
    fn primary_addresses_stand_first_and_the_next_one_moves_up() {
        let mut stack = stack();
        for text in ["10.0.0.1/24", "10.0.0.2/24", "10.0.0.3/24", "10.0.0.9/25", "10.0.0.10/25"] {
            stack.interfaces.add_address(ETH0, own(text), None).unwrap();
        }
        let shown = |stack: &crate::Stack| {
            let list = stack.interfaces[ETH0].addresses.iter().filter(|own| own.ip.octets()[0] == 10);
            list.map(|own| {
                let kind = if stack.interfaces.primary_of(ETH0, own) == *own { "" } else { "s" };
                format!("{}{kind}", own.ip.octets()[3])
            })
            .collect::<Vec<_>>()
            .join(" ")
        };
        assert_eq!(shown(&stack), "1 9 2s 3s 10s");
        assert_eq!(stack.interfaces.remove_address(ETH0, &own("10.0.0.1/24")), Some(own("10.0.0.2/24")));
        assert_eq!(shown(&stack), "9 2 3s 10s");
        assert!(stack.interfaces.add_address(ETH0, own("10.0.0.2/24"), None).is_err());
        assert_eq!(stack.interfaces.remove_address(ETH0, &own("10.0.0.3/24")), None);
        assert_eq!(shown(&stack), "9 2 10s");
        assert!(stack.interfaces.add_address(ETH0, own("10.0.0.9/25"), None).is_err());
    }

    #[test]
    fn secondary_addresses_have_no_route_of_their_own() {
        let mut stack = stack();
        let given = AddressAttributes {
            flags: NO_PREFIX_ROUTE,
            ..stack.interfaces.address_attributes(ETH0, &own("10.9.0.1/24"))
        };
        stack.interfaces.add_address(ETH0, own("10.9.0.1/24"), Some(given)).unwrap();
        stack.interfaces.add_address(ETH0, own("10.9.0.2/24"), None).unwrap();
        stack.add_connected(ETH0);
        assert!(stack.routes.get(own("10.9.0.1/24").network(), 0).is_none());
    }
}
