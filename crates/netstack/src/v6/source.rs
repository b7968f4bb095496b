//! Selection of the source address: RFC 6724, section 5, to the extent of Linux (`ipv6_dev_get_saddr`).

use super::state::Ipv6;
use crate::LO;
use crate::interfaces::Interfaces;
use crate::lifetimes::Lifetimes;
use belljar_base::SimTime;
use belljar_net::Prefix;
use belljar_wire::ipv6;
use std::net::Ipv6Addr;

/// Scope of an address (RFC 4007): 2 is link-local, 14 global.
pub fn scope(ip: Ipv6Addr) -> u8 {
    match ip {
        ip if ip.is_multicast() => ip.octets()[1] & 0xf,
        ip if ip.is_unicast_link_local() || ip.is_loopback() => 2,
        ip if ip.octets()[0] == 0xfe && ip.octets()[1] & 0xc0 == 0xc0 => 5,
        _ => 14,
    }
}

/// Label of an address in Linux's default policy table (`ip6addrlbl_init_table`).
fn label(ip: Ipv6Addr) -> u8 {
    let within = |net: [u16; 8], len: u8| Prefix::new(Ipv6Addr::from(net), len).contains(ip);
    match ip {
        ip if ip.is_loopback() => 0,
        _ if within([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7) => 5,
        _ if within([0x2001, 0x10, 0, 0, 0, 0, 0, 0], 28) => 7,
        _ if within([0x2001, 0, 0, 0, 0, 0, 0, 0], 32) => 6,
        _ if within([0x2002, 0, 0, 0, 0, 0, 0, 0], 16) => 2,
        _ if within([0, 0, 0, 0, 0, 0xffff, 0, 0], 96) => 4,
        _ if within([0; 8], 96) => 3,
        _ => 1,
    }
}

/// Length of the common prefix of two addresses, in bits.
fn common(one: Ipv6Addr, other: Ipv6Addr) -> u8 {
    ((one.to_bits() ^ other.to_bits()).leading_zeros() as u8).min(Ipv6Addr::BITS as u8)
}

/// Rank of an address by rules 1, 2, 3, 5, 6, 7 and 8; the greatest is selected.
type Rank = (bool, i32, bool, bool, bool, bool, u8);

impl Ipv6 {
    /// The source address of packets to `to` that leave by `interface`, at a time at which addresses have these
    /// lifetimes.
    pub fn source_for(
        &self,
        interfaces: &Interfaces,
        (lifetimes, now): (&Lifetimes, SimTime),
        prefers_temporary: bool,
        (to, interface): (Ipv6Addr, usize),
    ) -> Option<Ipv6Addr> {
        // The unspecified address has less than any scope.
        let wanted = if to.is_unspecified() { -1 } else { i32::from(scope(to)) };
        let own_link_only = ipv6::is_link_scope(to) || to.is_multicast();
        let mut best: Option<(Rank, Ipv6Addr)> = None;
        for (number, other) in interfaces.iter().enumerate() {
            // Addresses of `lo` do not depend on its state.
            if !other.up && number != LO || own_link_only && number != interface {
                continue;
            }
            for own in other.addresses6.iter().filter(|own| !self.is_tentative(number, own.ip)) {
                let reach = i32::from(scope(own.ip));
                // Rule 2: the smallest sufficient scope, or else the widest.
                let reach = if reach >= wanted { 1_000 - reach } else { reach };
                let rank = (
                    own.ip == to,
                    reach,
                    !lifetimes.is_deprecated(number, own.ip, now),
                    number == interface,
                    label(own.ip) == label(to),
                    lifetimes.is_temporary(number, own.ip) == prefers_temporary,
                    common(own.ip, to).min(own.len),
                );
                if best.is_none_or(|(best, _)| rank > best) {
                    best = Some((rank, own.ip));
                }
            }
        }
        best.map(|(_, ip)| ip)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::stack;

    #[test]
    fn rules_of_rfc_6724() {
        let mut stack = stack();
        stack.v6.on = true;
        let own = &mut stack.interfaces[1].addresses6;
        own.clear();
        for text in ["fe80::1/64", "fd00::1/64", "2001:db8:1::1/64", "2001:db8:2::1/64"] {
            crate::v6::insert_address(own, text.parse().unwrap());
        }
        let source = |to: &str| stack.source_for(to.parse().unwrap(), 1).unwrap().to_string();
        assert_eq!(source("fe80::9"), "fe80::1");
        assert_eq!(source("ff02::1"), "fe80::1");
        assert_eq!(source("fd00:1::1"), "fd00::1");
        assert_eq!(source("2001:db8:1:5::1"), "2001:db8:1::1");
        assert_eq!(source("2001:db8:2:5::1"), "2001:db8:2::1");
        assert_eq!(source("2001:db8:1::1"), "2001:db8:1::1");
        assert_eq!(source("::"), "fe80::1");
        // The address added last comes first.
        assert_eq!(source("2a00::1"), "2001:db8:2::1");
    }
}
