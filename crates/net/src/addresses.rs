//! IPv4 addresses and names of hosts, and automatic IPv6 addresses.

use crate::Prefix;
use belljar_base::{HostId, Map};
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

/// First address that is assigned automatically.
const FIRST_AUTOMATIC: Ipv4Addr = Ipv4Addr::new(11, 0, 0, 1);

/// Network of the automatic IPv6 addresses, reserved for documentation by RFC 3849.
const NETWORK_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0);

/// Automatic IPv6 address of a host on the graph: its IPv4 address within 2001:db8::/64.
pub fn automatic6(address: Ipv4Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits(NETWORK_V6.to_bits() | u128::from(u32::from(address)))
}

/// IPv4 address of the host with an automatic IPv6 address; `None` for other IPv6 addresses.
pub fn of_automatic6(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let low = address.to_bits() as u32;
    (address.to_bits() >> 32 == NETWORK_V6.to_bits() >> 32).then(|| low.into())
}

/// Automatic IPv6 network of a link: 2001:db8:a00:100::/64 for the IPv4 network 10.0.1.0/24.
pub fn automatic6_network(network: Prefix) -> Prefix<Ipv6Addr> {
    let bits = NETWORK_V6.to_bits() | u128::from(u32::from(network.address())) << 64;
    Prefix::new(Ipv6Addr::from_bits(bits), 64)
}

/// Kind of an IPv6 address that is not valid for an interface of a host, with its article; `None` for valid
/// addresses.
pub fn unusable_kind6(address: Ipv6Addr) -> Option<&'static str> {
    match address {
        ip if ip.is_unspecified() => Some("the unspecified address"),
        ip if ip.is_loopback() => Some(LOOPBACK),
        ip if ip.is_multicast() => Some("a multicast address"),
        ip if ip.is_unicast_link_local() => Some("link-local, which interfaces have anyway"),
        ip if ip.to_ipv4_mapped().is_some() => Some("an IPv4 address in disguise"),
        _ => None,
    }
}

/// Error of the assignment of addresses to hosts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Two hosts have the same address.
    #[error("hosts '{first}' and '{second}' both have the address {address}")]
    Duplicate {
        /// Duplicate address.
        address: Ipv4Addr,
        /// First host with the address, in name order.
        first: String,
        /// Second host with the address.
        second: String,
    },
    /// The address is not valid for an interface of a host.
    #[error("host '{host}' cannot have the address {address}: it is {kind}")]
    Unusable {
        /// Name of the host.
        host: String,
        /// Invalid address.
        address: Ipv4Addr,
        /// Kind of special address, with its article.
        kind: &'static str,
    },
    /// Two hosts have the same name.
    #[error("there are two hosts with the name '{0}'")]
    DuplicateName(String),
    /// All automatic addresses from 11.0.0.1 upwards are in use.
    #[error("there is no address left for host '{0}'")]
    Exhausted(String),
}

/// Addresses and names of all hosts, by [`HostId`].
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    names: Vec<String>,
    by_host: Vec<Ipv4Addr>,
    by_address: Map<Ipv4Addr, HostId>,
    /// Hosts by offset from the first automatic address: a fast path for the lookup of each packet.
    automatic: Vec<Option<HostId>>,
    by_name: Map<String, HostId>,
}

impl Addresses {
    /// Assigns the addresses of all hosts. `hosts` are in name order, so that a host's index is its
    /// [`HostId`]. A host without a configured address gets the lowest free one from 11.0.0.1 upwards that
    /// does not end in .0 or .255, as in Shadow.
    pub fn assign<'a>(
        hosts: impl IntoIterator<Item = (&'a str, Option<Ipv4Addr>)>,
    ) -> Result<Addresses, AddressError> {
        let hosts: Vec<_> = hosts.into_iter().collect();
        let mut table = Addresses::default();
        for (index, (name, wanted)) in hosts.iter().enumerate() {
            let id = HostId(index as u32);
            table.names.push((*name).to_owned());
            if table.by_name.insert((*name).to_owned(), id).is_some() {
                return Err(AddressError::DuplicateName((*name).to_owned()));
            }
            let Some(address) = *wanted else { continue };
            check_usable(name, address)?;
            if let Some(first) = table.by_address.insert(address, id) {
                let first = table.names[first.index()].clone();
                return Err(AddressError::Duplicate { address, first, second: (*name).to_owned() });
            }
        }
        let mut next = u32::from(FIRST_AUTOMATIC);
        for (index, (name, wanted)) in hosts.iter().enumerate() {
            let address = match wanted {
                Some(address) => *address,
                None => {
                    let free =
                        table.next_free(&mut next).ok_or(AddressError::Exhausted((*name).to_owned()))?;
                    table.by_address.insert(free, HostId(index as u32));
                    free
                }
            };
            table.by_host.push(address);
        }
        // Addresses count whether configured or automatic: an earlier assignment may be passed as
        // configuration.
        let offsets = table.by_host.iter().map(|address| automatic_offset(*address));
        let len = offsets.filter(|at| *at < 2 * (hosts.len() + 256)).max().map_or(0, |last| last + 1);
        table.automatic = vec![None; len];
        for (index, address) in table.by_host.iter().enumerate() {
            if let Some(entry) = table.automatic.get_mut(automatic_offset(*address)) {
                *entry = Some(HostId(index as u32));
            }
        }
        Ok(table)
    }

    fn next_free(&self, next: &mut u32) -> Option<Ipv4Addr> {
        loop {
            let candidate = Ipv4Addr::from(*next);
            if unusable_kind(candidate).is_some_and(|kind| kind != LOOPBACK) {
                return None;
            }
            *next += 1;
            let skipped = matches!(candidate.octets()[3], 0 | 255) || candidate.is_loopback();
            if !skipped && !self.by_address.contains_key(&candidate) {
                return Some(candidate);
            }
        }
    }

    /// Number of hosts.
    pub fn len(&self) -> usize {
        self.by_host.len()
    }
    /// True if there are no hosts.
    pub fn is_empty(&self) -> bool {
        self.by_host.is_empty()
    }
    /// Address of a host.
    pub fn address(&self, host: HostId) -> Ipv4Addr {
        self.by_host[host.index()]
    }
    /// Name of a host.
    pub fn name(&self, host: HostId) -> &str {
        &self.names[host.index()]
    }
    /// Host with an address.
    pub fn host_by_address(&self, address: Ipv4Addr) -> Option<HostId> {
        match self.automatic.get(automatic_offset(address)) {
            Some(host) => *host,
            None => self.by_address.get(&address).copied(),
        }
    }
    /// Host with a name.
    pub fn host_by_name(&self, name: &str) -> Option<HostId> {
        self.by_name.get(name).copied()
    }
    /// Iterates over all hosts in the order of [`HostId`], with names and addresses.
    pub fn iter(&self) -> impl Iterator<Item = (HostId, &str, Ipv4Addr)> {
        self.names.iter().zip(&self.by_host).enumerate().map(|(i, (n, a))| (HostId(i as u32), n.as_str(), *a))
    }
    /// Content of `/etc/hosts` (hosts(5)): `localhost` and all hosts.
    pub fn hosts_file(&self) -> String {
        let mut text = String::from("127.0.0.1 localhost\n");
        for (_, name, address) in self.iter() {
            let _ = writeln!(text, "{address} {name}");
        }
        text
    }
}

/// Offset of an address from the first automatic one.
fn automatic_offset(address: Ipv4Addr) -> usize {
    u32::from(address).wrapping_sub(u32::from(FIRST_AUTOMATIC)) as usize
}

const LOOPBACK: &str = "a loopback address";

/// Fails if `address` is not valid for an interface of a host.
pub fn check_usable(host: &str, address: Ipv4Addr) -> Result<(), AddressError> {
    match unusable_kind(address) {
        None => Ok(()),
        Some(kind) => Err(AddressError::Unusable { host: host.to_owned(), address, kind }),
    }
}

fn unusable_kind(address: Ipv4Addr) -> Option<&'static str> {
    match address.octets() {
        [0, ..] => Some("in 0.0.0.0/8, which means \"this host\""),
        [127, ..] => Some(LOOPBACK),
        [224..=239, ..] => Some("a multicast address"),
        [255, 255, 255, 255] => Some("the broadcast address"),
        [240..=255, ..] => Some("in 240.0.0.0/4, which is reserved"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> Ipv4Addr {
        text.parse().unwrap()
    }

    #[test]
    fn automatic_addresses_follow_name_order_and_skip_taken_ones() {
        let table = Addresses::assign([("a", None), ("b", Some(ip("11.0.0.2"))), ("c", None)]).unwrap();
        assert_eq!(table.address(HostId(0)), ip("11.0.0.1"));
        assert_eq!(table.address(HostId(1)), ip("11.0.0.2"));
        assert_eq!(table.address(HostId(2)), ip("11.0.0.3"));
        assert_eq!(table.host_by_address(ip("11.0.0.3")), Some(HostId(2)));
        assert_eq!(table.host_by_name("b"), Some(HostId(1)));
        let again = table.iter().map(|(_, name, address)| (name, Some(address)));
        let again = Addresses::assign(again.chain([("d", Some(ip("10.9.8.7")))])).unwrap();
        assert_eq!(again.automatic.len(), 3);
        let found =
            ["11.0.0.1", "11.0.0.3", "10.9.8.7", "11.0.0.4"].map(|text| again.host_by_address(ip(text)));
        assert_eq!(found, [Some(HostId(0)), Some(HostId(2)), Some(HostId(3)), None]);
        assert_eq!(table.hosts_file(), "127.0.0.1 localhost\n11.0.0.1 a\n11.0.0.2 b\n11.0.0.3 c\n");
    }

    #[test]
    fn ipv6_addresses_follow_from_ipv4_ones() {
        assert_eq!(automatic6(ip("11.0.0.1")).to_string(), "2001:db8::b00:1");
        assert_eq!(of_automatic6(automatic6(ip("11.0.0.1"))), Some(ip("11.0.0.1")));
        assert_eq!(of_automatic6("2001:db8:0:0:1::1".parse().unwrap()), None);
        let network = automatic6_network(Prefix::new(ip("10.0.1.0"), 24));
        assert_eq!(network.to_string(), "2001:db8:a00:100::/64");
        assert!(unusable_kind6("::1".parse().unwrap()).is_some());
        assert!(unusable_kind6("2001:db8::1".parse().unwrap()).is_none());
    }

    #[test]
    fn network_and_broadcast_endings_are_skipped() {
        let names: Vec<String> = (0..600).map(|i| format!("h{i:03}")).collect();
        let table = Addresses::assign(names.iter().map(|n| (n.as_str(), None))).unwrap();
        assert_eq!(table.address(HostId(253)), ip("11.0.0.254"));
        assert_eq!(table.address(HostId(254)), ip("11.0.1.1"));
        assert!(table.iter().all(|(_, _, a)| !matches!(a.octets()[3], 0 | 255)));
    }

    #[test]
    fn impossible_addresses_are_errors() {
        let duplicate = Addresses::assign([("a", Some(ip("1.2.3.4"))), ("b", Some(ip("1.2.3.4")))]);
        assert_eq!(duplicate.unwrap_err().to_string(), "hosts 'a' and 'b' both have the address 1.2.3.4");
        // Exhaustion itself would take millions of hosts.
        let none_left = AddressError::Exhausted("z".to_owned());
        assert_eq!(none_left.to_string(), "there is no address left for host 'z'");
        for (address, why) in [
            ("0.0.0.0", "in 0.0.0.0/8, which means \"this host\""),
            ("127.0.0.1", "a loopback address"),
            ("224.0.0.1", "a multicast address"),
            ("255.255.255.255", "the broadcast address"),
            ("240.0.0.1", "in 240.0.0.0/4, which is reserved"),
        ] {
            let error = Addresses::assign([("a", Some(ip(address)))]).unwrap_err();
            assert_eq!(error.to_string(), format!("host 'a' cannot have the address {address}: it is {why}"));
        }
        let names = Addresses::assign([("a", None), ("a", None)]);
        assert_eq!(names.unwrap_err().to_string(), "there are two hosts with the name 'a'");
    }
}
