//! Dumps of routes, with their filters (`ip_valid_fib_dump_req` of Linux).

use super::Announced;
use super::local_table::{self, in_order, local_entries, local_entries6};
use super::message::{MULTI, Request, To};
use super::policies;
use super::policy::{CLOSED, LIBERAL};
use super::refusal::{Refusal, invalid, refusal};
use super::routes::{Entry, RTM_F_NOTIFY, RTMSG, all_routes, message, type_of};
use crate::Admin;
use belljar_linux_abi::{Errno, c};
use belljar_net::policy::table;
use belljar_netstack::{Stack, interface_index};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// `RTM_F_CLONED`: results of lookups rather than entries of the tables.
const CLONED: u32 = 0x200;
/// `RTM_F_PREFIX`: prefixes from router advertisements.
const PREFIX: u32 = 0x800;

/// Filter of a dump; zeros stand for any value.
#[derive(Clone, Copy, Debug, Default)]
struct Filter {
    flags: u32,
    table: u32,
    protocol: u8,
    kind: u8,
    interface: u32,
}

impl Filter {
    fn read(net: &Stack, request: &Request<'_>) -> Result<Filter, Refusal> {
        let Some(head) = request.body.get(..RTMSG) else {
            return if request.strict {
                invalid("Invalid header for FIB dump request")
            } else {
                Ok(Filter::default())
            };
        };
        let flags = request.word(8)?;
        if !request.strict {
            return Ok(Filter { flags: flags & (CLONED | PREFIX), ..Filter::default() });
        }
        if head[1] != 0 || head[2] != 0 || head[3] != 0 || head[6] != 0 {
            return invalid("Invalid values in header for FIB dump request");
        }
        if flags & !(CLONED | PREFIX) != 0 {
            return invalid("Invalid flags for FIB dump request");
        }
        let mut filter =
            Filter { flags, table: head[4].into(), protocol: head[5], kind: head[7], interface: 0 };
        // The policy is that of IPv4 for both families.
        request.validate(RTMSG, &policies::ROUTE, CLOSED)?;
        // By type, as Linux looks them up.
        for kind in 0..=policies::ROUTE.max {
            let Some(value) = request.attribute(RTMSG, kind) else { continue };
            let number = || value.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
            match kind {
                c::RTA_TABLE => filter.table = number(),
                c::RTA_OIF => {
                    filter.interface = number();
                    net.interfaces.by_index(filter.interface).ok_or(Errno::ENODEV)?;
                }
                _ => return invalid("Unsupported attribute in dump request"),
            }
        }
        Ok(filter)
    }

    /// True if a route with these properties is shown.
    fn shows(&self, table: u32, protocol: u8, kind: u8, mut interfaces: impl Iterator<Item = usize>) -> bool {
        (self.table == 0 || self.table == table)
            && (self.protocol == 0 || self.protocol == protocol)
            && (self.kind == 0 || self.kind == kind)
            && (self.interface == 0 || interfaces.any(|number| interface_index(number) == self.interface))
    }

    fn shows_entry<A: Announced>(&self, entry: &Entry<A>) -> bool {
        let kind = type_of(entry.route.kind);
        // Routes that refuse packets are over `lo`, but of IPv4 those alone that a next-hop object makes so.
        let over_lo = entry.route.hops.is_empty() && (A::AF == c::AF_INET6 || entry.route.object.is_some());
        let lo = over_lo.then_some(belljar_netstack::LO);
        let interfaces = entry.route.hops.iter().map(|hop| hop.interface).chain(lo);
        self.shows(entry.table, entry.route.protocol, kind, interfaces)
    }
}

/// Words of the errors of a query, by family.
const WORDS: [[&str; 5]; 2] = [
    [
        "ipv4: Invalid header for route get request",
        "ipv4: Invalid values in header for route get request",
        "ipv4: Unsupported rtm_flags for route get request",
        "ipv4: rtm_src_len and rtm_dst_len must be 32 for IPv4",
        "ipv4: Unsupported attribute in route get request",
    ],
    [
        "ipv6: Invalid header for get route request",
        "ipv6: Invalid values in header for get route request",
        "ipv6: Invalid flags for get route request",
        "ipv6: rtm_src_len and rtm_dst_len must be 128 for IPv6",
        "ipv6: Unsupported attribute in get route request",
    ],
];

/// Checks a query for the route to a destination (`inet_rtm_valid_getroute_req`); returns the destination and
/// the source if there is one.
pub(super) fn query(request: &Request<'_>) -> Result<(IpAddr, Option<IpAddr>), Refusal> {
    const RTM_F_LOOKUP_TABLE: u32 = 0x1000;
    const RTM_F_FIB_MATCH: u32 = 0x2000;
    const RTA_IIF: u16 = 3;
    const FURTHER: [u16; 5] = [16, 25, 27, 28, 29];
    let v4 = request.body.first().is_some_and(|family| i32::from(*family) == c::AF_INET);
    let bits = if v4 { 32 } else { 128 };
    let [header, values, flags, lengths, attribute] = WORDS[usize::from(!v4)];
    let Some(head) = request.body.get(..RTMSG) else { return invalid(header) };
    let policy = if v4 { &policies::ROUTE } else { &policies::ROUTE6 };
    if request.strict {
        let wrong = |len: u8| len != 0 && len != bits;
        if wrong(head[1]) || wrong(head[2]) || head[4..8] != [0; 4] {
            return invalid(values);
        }
        let known = RTM_F_FIB_MATCH | if v4 { RTM_F_NOTIFY | RTM_F_LOOKUP_TABLE } else { RTM_F_NOTIFY };
        if request.word(8)? & !known != 0 {
            return invalid(flags);
        }
    }
    request.validate(RTMSG, policy, if request.strict { CLOSED } else { LIBERAL })?;
    let given = |kind| request.attribute(RTMSG, kind);
    if request.strict {
        if given(c::RTA_SRC).is_some() && head[2] == 0 || given(c::RTA_DST).is_some() && head[1] == 0 {
            return invalid(lengths);
        }
        let known =
            |kind| [RTA_IIF, c::RTA_OIF, c::RTA_SRC, c::RTA_DST].contains(&kind) || FURTHER.contains(&kind);
        if request.attributes(RTMSG).any(|(kind, _)| !known(kind)) {
            return invalid(attribute);
        }
    }
    const RTA_IP_PROTO: u16 = 27;
    let icmp = if v4 { c::IPPROTO_ICMP } else { c::IPPROTO_ICMPV6 };
    if given(RTA_IP_PROTO)
        .is_some_and(|value| ![c::IPPROTO_TCP, c::IPPROTO_UDP, icmp].contains(&i32::from(value[0])))
    {
        return Err(refusal(Errno::EOPNOTSUPP, "Unsupported ip proto"));
    }
    let ip = |kind: u16| -> Result<Option<IpAddr>, Refusal> {
        let Some(value) = given(kind) else { return Ok(None) };
        Ok(Some(match v4 {
            true => IpAddr::from(*value.first_chunk::<4>().ok_or(Errno::EINVAL)?),
            false => IpAddr::from(*value.first_chunk::<16>().ok_or(Errno::EINVAL)?),
        }))
    };
    let source = ip(c::RTA_SRC)?;
    let unspecified = if v4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    Ok((ip(c::RTA_DST)?.unwrap_or(unspecified), source.filter(|ip| !ip.is_unspecified())))
}

impl Admin<'_> {
    /// Handles a dump of the routes of a family, or of both.
    pub(crate) fn routes(
        &self,
        request: &Request<'_>,
        family: i32,
        port: u32,
    ) -> Result<Vec<Vec<u8>>, Refusal> {
        let to = (request.sequence, MULTI, port);
        let mut all = Vec::new();
        if family != c::AF_INET6 {
            let filter = Filter::read(self.net, request)?;
            self.check_table::<Ipv4Addr>(filter, family == c::AF_INET, "ipv4: FIB table does not exist")?;
            if filter.flags & (PREFIX | CLONED) == 0 {
                all.extend(shown::<Ipv4Addr>(self.net, filter, to));
                let local = in_order(self.net, local_entries(self.net));
                let wanted = local
                    .iter()
                    .filter(|e| filter.shows(table::LOCAL, 2, e.kind, std::iter::once(e.interface)));
                all.extend(wanted.map(|entry| local_table::message(self.net, entry, to)));
            }
        }
        if family != c::AF_INET {
            let filter = Filter::read(self.net, request)?;
            let words = "ipv6: FIB table does not exist";
            self.check_table::<Ipv6Addr>(filter, family == c::AF_INET6, words)?;
            if filter.flags & (PREFIX | CLONED) == 0 {
                all.extend(shown::<Ipv6Addr>(self.net, filter, to));
                let local = in_order(self.net, local_entries6(self.net));
                let wanted = local
                    .iter()
                    .filter(|e| filter.shows(table::LOCAL, 2, e.kind, std::iter::once(e.interface)));
                all.extend(wanted.map(|entry| local_table::message(self.net, entry, to)));
            }
        }
        Ok(all)
    }

    fn check_table<A: Announced>(
        &self,
        filter: Filter,
        alone: bool,
        words: &'static str,
    ) -> Result<(), Refusal> {
        match filter.table == 0 || A::policy(self.net).has_table(filter.table) || !alone {
            true => Ok(()),
            false => Err(refusal(Errno::ENOENT, words)),
        }
    }
}

fn shown<A: Announced>(net: &Stack, filter: Filter, to: To) -> Vec<Vec<u8>> {
    let entries = all_routes::<A>(net).map(Entry::of);
    entries
        .filter(|entry| filter.shows_entry(entry))
        .map(|entry| message(net, &entry, c::RTM_NEWROUTE, to))
        .collect()
}
