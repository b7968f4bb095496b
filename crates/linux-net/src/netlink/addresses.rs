//! Addresses of interfaces in rtnetlink: `RTM_NEWADDR`, `RTM_GETADDR`.

use super::attributes;
use super::group;
use super::ipvlan_links::check_ipvlan_ip;
use super::links::bare;
use super::message::{MULTI, Message, Request, To};
use super::policies;
use super::policy::{CLOSED, LIBERAL};
use super::refusal::{Refusal, invalid, refusal};
use crate::Admin;
use belljar_base::{SimDuration, SimTime};
use belljar_linux_abi::{Errno, c};
use belljar_net::InterfaceAddress;
use belljar_netstack::lifetimes::{Lifetime, OwnAddress};
use belljar_netstack::own_addresses::{AddressAttributes, AddressConflict};
use belljar_netstack::v6::{self, AddressAttributes6};
use belljar_netstack::{LO, interface_index};
use std::net::{Ipv4Addr, Ipv6Addr};

const IFA_F_PERMANENT: u8 = 0x80;
const IFA_F_TENTATIVE: u8 = 0x40;
const IFA_F_DADFAILED: u8 = 0x08;
const IFA_F_NODAD: u8 = 0x02;
const IFA_F_DEPRECATED: u8 = 0x20;
const IFA_F_TEMPORARY: u8 = 0x01;
/// Secondary IPv4 address; the bit is also `IFA_F_TEMPORARY`.
const IFA_F_SECONDARY: u8 = 0x01;
const IFA_F_NOPREFIXROUTE: u32 = 0x200;
/// IPv6 prefix announced by a router, for which temporary addresses are created.
const IFA_F_MANAGETEMPADDR: u32 = 0x100;
const IFA_F_HOMEADDRESS: u32 = 0x10;
/// Flags of IPv6 addresses that are reported as they were set.
const LASTING_FLAGS6: u32 =
    IFA_F_NODAD as u32 | IFA_F_HOMEADDRESS | IFA_F_MANAGETEMPADDR | IFA_F_NOPREFIXROUTE;
/// `IFA_CACHEINFO`.
const IFA_CACHEINFO: u16 = 6;
/// Length of `struct ifaddrmsg` in bytes.
const IFADDRMSG: usize = 8;
/// Address flags that have no effect here.
const UNKNOWN_FLAGS: [(u32, &str); 3] = [
    (IFA_F_HOMEADDRESS, "IFA_F_HOMEADDRESS"),
    (IFA_F_MANAGETEMPADDR, "IFA_F_MANAGETEMPADDR"),
    (IFA_F_MCAUTOJOIN, "IFA_F_MCAUTOJOIN"),
];
/// `IFA_FLAGS`.
const IFA_FLAGS: u16 = 8;
const IFA_RT_PRIORITY: u16 = 9;
/// Least MTU of an interface with IPv6 (RFC 8200).
const LEAST_MTU6: usize = 1_280;
/// Least MTU of an interface with IPv4 (RFC 791).
pub(super) const LEAST_MTU: usize = 68;
/// `IFAPROT_KERNEL_RA`: originator of addresses from router advertisements.
const ORIGIN_ROUTER: u8 = 2;
const IFA_TARGET_NETNSID: u16 = 10;
const IFA_PROTO: u16 = 11;
const IFA_F_MCAUTOJOIN: u32 = 0x400;
const IFA_F_OPTIMISTIC: u32 = 0x04;
const IFA_F_STABLE_PRIVACY: u32 = 0x800;
/// Flags that IPv4 addresses do not have, whatever a request says (`IPV6ONLY_FLAGS` of Linux).
const FLAGS6_ONLY: u32 = IFA_F_NODAD as u32
    | IFA_F_OPTIMISTIC
    | IFA_F_DADFAILED as u32
    | IFA_F_HOMEADDRESS
    | IFA_F_TENTATIVE as u32
    | IFA_F_MANAGETEMPADDR
    | IFA_F_STABLE_PRIVACY;
/// Flags that follow from the state of an address.
const FOLLOWING_FLAGS: u32 = IFA_F_SECONDARY as u32 | IFA_F_DEPRECATED as u32 | IFA_F_PERMANENT as u32;
/// Flags of IPv6 addresses that a request can set.
const FLAGS6: u32 = LASTING_FLAGS6 | IFA_F_MCAUTOJOIN | IFA_F_OPTIMISTIC;

/// Flags of an address in a request: the attribute if present, else the eight bits of the header.
fn flags_given(request: &Request<'_>) -> Result<u32, Errno> {
    let of_header = request.body.get(2).map_or(0, |flags| (*flags).into());
    Ok(request.number(IFADDRMSG, IFA_FLAGS)?.unwrap_or(of_header))
}

/// Protocol (`IFA_PROTO`) that created an address, from a request.
fn origin_given(request: &Request<'_>) -> u8 {
    request.attribute(IFADDRMSG, IFA_PROTO).and_then(|value| value.first().copied()).unwrap_or(0)
}

/// Checks a dump's header and attributes (`inet_valid_dump_ifaddr_req`); returns the interface whose addresses
/// are asked for, or `None` for all.
fn dump_filter(request: &Request<'_>, v6: bool) -> Result<Option<u32>, Refusal> {
    let (policy, words) = match v6 {
        true => (
            &policies::ADDRESS6,
            [
                "ipv6: Invalid header for address dump request",
                "ipv6: Invalid values in header for address dump request",
                "ipv6: Unsupported attribute in dump request",
            ],
        ),
        false => (
            &policies::ADDRESS,
            [
                "ipv4: Invalid header for address dump request",
                "ipv4: Invalid values in header for address dump request",
                "ipv4: Unsupported attribute in dump request",
            ],
        ),
    };
    if !request.strict {
        return Ok(None);
    }
    let [header, values, attribute] = words.map(|words| refusal(Errno::EINVAL, words));
    let head = request.body.get(..IFADDRMSG).ok_or(header)?;
    if head[1..4] != [0; 3] {
        return Err(values);
    }
    request.validate(IFADDRMSG, policy, CLOSED)?;
    if request.attributes(IFADDRMSG).any(|(kind, _)| kind != IFA_TARGET_NETNSID) {
        return Err(attribute);
    }
    Ok(Some(request.word(4)?).filter(|index| *index != 0))
}

impl Admin<'_> {
    /// Handles a dump of the addresses of a family, or of both.
    pub(crate) fn addresses(
        &self,
        request: &Request<'_>,
        family: i32,
        port: u32,
    ) -> Result<Vec<Vec<u8>>, Refusal> {
        let to = (request.sequence, MULTI, port);
        let mut messages = Vec::new();
        for v6 in [false, true] {
            if family == if v6 { c::AF_INET } else { c::AF_INET6 } {
                continue;
            }
            let index = dump_filter(request, v6)?;
            let only =
                index.map(|index| self.net.interfaces.by_index(index).ok_or(Errno::ENODEV)).transpose()?;
            let interfaces = self.net.interfaces.iter().enumerate();
            let shown = interfaces.filter(|(number, _)| only.is_none_or(|only| only == *number));
            for (number, interface) in shown {
                let of_v4 = |own| self.address_message(number, own, c::RTM_NEWADDR, to);
                let of_v6 = |own| self.address_message6(number, own, c::RTM_NEWADDR, to);
                match v6 {
                    false => messages.extend(interface.addresses.iter().map(of_v4)),
                    true => messages.extend(interface.addresses6.iter().map(of_v6)),
                }
            }
        }
        Ok(messages)
    }

    /// Handles a query for one IPv6 address (`inet6_rtm_getaddr`).
    pub(crate) fn address6(&self, request: &Request<'_>, port: u32) -> Result<Vec<u8>, Refusal> {
        if request.strict {
            let Some(head) = request.body.get(..IFADDRMSG) else {
                return invalid("ipv6: Invalid header for get address request");
            };
            if head[1..4] != [0; 3] {
                return invalid("ipv6: Invalid values in header for get address request");
            }
        }
        request.validate(IFADDRMSG, &policies::ADDRESS6, if request.strict { CLOSED } else { LIBERAL })?;
        let allowed = [IFA_TARGET_NETNSID, c::IFA_ADDRESS, c::IFA_LOCAL];
        if request.strict && request.attributes(IFADDRMSG).any(|(kind, _)| !allowed.contains(&kind)) {
            return invalid("ipv6: Unsupported attribute in get address request");
        }
        let (ip, _) = address_named6(request).ok_or(Errno::EINVAL)?;
        let only = self.net.interfaces.by_index(request.word(4)?);
        let mut interfaces = self.net.interfaces.iter().enumerate();
        let found = interfaces.find_map(|(number, interface)| {
            let here = only.is_none_or(|only| only == number);
            let own = interface.addresses6.iter().find(|own| own.ip == ip).filter(|_| here)?;
            Some(self.address_message6(number, own, c::RTM_NEWADDR, (request.sequence, 0, port)))
        });
        found.ok_or(Errno::EADDRNOTAVAIL.into())
    }

    /// Message of type `kind` about an address; `to` is the sequence number, the flags and the receiver's
    /// port id.
    pub(crate) fn address_message(
        &self,
        number: usize,
        own: &InterfaceAddress,
        kind: u16,
        to: To,
    ) -> Vec<u8> {
        let (sequence, flags, port) = to;
        let given = self.net.interfaces.address_attributes(number, own);
        let (stage, mut cache) = self.stage(number, (*own).into(), None);
        if stage & IFA_F_PERMANENT != 0 {
            cache[..8].fill(0xff);
        }
        let mut state = u32::from(stage);
        if self.net.interfaces.primary_of(number, own) != *own {
            state |= u32::from(IFA_F_SECONDARY);
        }
        state |= given.flags;
        let far = given.peer.unwrap_or(*own);
        let mut message = Message::new(kind, flags, sequence, port)
            .put(&[c::AF_INET as u8, far.len, state as u8, given.scope])
            .put(&interface_index(number).to_ne_bytes());
        if !far.ip.is_unspecified() {
            message = message.attribute(c::IFA_ADDRESS, &far.ip.octets());
        }
        message = message.attribute(c::IFA_LOCAL, &own.ip.octets());
        if let Some(broadcast) = given.broadcast {
            message = message.attribute(c::IFA_BROADCAST, &broadcast.octets());
        }
        let name = given.label.as_deref().unwrap_or(&self.net.interfaces[number].name);
        if !name.is_empty() {
            message = message.attribute(c::IFA_LABEL, &[name.as_bytes(), &[0]].concat());
        }
        if given.origin != 0 {
            message = message.attribute(IFA_PROTO, &[given.origin]);
        }
        message = message.attribute(IFA_FLAGS, &state.to_ne_bytes());
        if given.metric != 0 {
            message = message.attribute(IFA_RT_PRIORITY, &given.metric.to_ne_bytes());
        }
        message.attribute(IFA_CACHEINFO, &cache).finish()
    }

    /// Flags of an address that follow from its lifetime, and its `struct ifa_cacheinfo`. An autoconfigured
    /// address has the lifetime announced by the router.
    fn stage(&self, number: usize, own: OwnAddress, announced: Option<SimTime>) -> (u8, Vec<u8>) {
        let lifetime = self.net.lifetimes.lifetime(number, own);
        let valid = lifetime.map_or(SimTime::MAX, |lifetime| lifetime.valid);
        let valid = announced.unwrap_or(SimTime::MAX).min(valid);
        let preferred = lifetime.map_or(valid, |lifetime| lifetime.preferred);
        let mut state = if valid == SimTime::MAX && announced.is_none() { IFA_F_PERMANENT } else { 0 };
        if self.net.lifetimes.is_deprecated(number, own, self.net.clock.now()) {
            state |= IFA_F_DEPRECATED;
        }
        if self.net.lifetimes.is_temporary(number, own) {
            state |= IFA_F_TEMPORARY;
        }
        let now = self.net.clock.now();
        let left = |until: SimTime| match until {
            SimTime::MAX => u32::MAX,
            until => until.since(now.min(until)).as_secs_f64() as u32,
        };
        // Creation and update times are not recorded.
        (state, [left(preferred).to_ne_bytes(), left(valid).to_ne_bytes(), [0; 4], [0; 4]].concat())
    }

    /// Handles `ip addr add` for IPv4 (`inet_rtm_newaddr`).
    pub(crate) fn add_address(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        request.validate(IFADDRMSG, &policies::ADDRESS, LIBERAL)?;
        self.look_through(request, &attributes::ADDRESS)?;
        let Some((number, own, given)) = self.address_given(request)? else { return Ok(()) };
        let lifetime = self.lifetime_given(request, "ipv4: address lifetime invalid")?;
        let own = self.net.interfaces.distinct(number, own);
        let far = given.peer.unwrap_or(own);
        let existing = self.net.interfaces[number].addresses.iter().copied().find(|other| {
            let far_of_other = self.net.interfaces.address_attributes(number, other).peer.unwrap_or(*other);
            other.ip == own.ip && far_of_other.len == far.len && far_of_other.network() == far.network()
        });
        if let Some(existing) = existing {
            if !self.is_replaced(request) {
                return Err(refusal(Errno::EEXIST, "ipv4: Address already assigned"));
            }
            self.change_metric(number, existing, &given);
            self.net.set_lifetime(number, existing, lifetime);
            self.announce_address(number, &existing, true);
            return Ok(());
        }
        let flags = flags_given(request)?;
        if flags & IFA_F_MCAUTOJOIN != 0 && !far.ip.is_multicast() {
            return Err(refusal(Errno::EINVAL, "ipv4: Multicast auto join failed"));
        }
        check_ipvlan_ip(self.net, number, own.ip.into())?;
        self.warn_of_flags(flags);
        self.insert_address(number, own, Some(given), lifetime).map_err(|conflict| match conflict {
            AddressConflict::Present => refusal(Errno::EEXIST, "ipv4: Address already assigned"),
            AddressConflict::Scope => refusal(Errno::EINVAL, "ipv4: Invalid scope value"),
        })
    }

    fn warn_of_flags(&mut self, flags: u32) {
        for (_, name) in UNKNOWN_FLAGS.into_iter().filter(|(flag, _)| flags & flag != 0) {
            self.warn(format!("rtnetlink: {name} of addresses is accepted without effect"));
        }
    }

    /// Interface, address and attributes of a request (`inet_validate_rtm`, `inet_rtm_to_ifa`). An address with
    /// a peer has no network at its own end; the prefix is that of the peer. `None` for the unspecified address,
    /// which is not added.
    fn address_given(
        &self,
        request: &Request<'_>,
    ) -> Result<Option<(usize, InterfaceAddress, AddressAttributes)>, Refusal> {
        let [_, len, _, scope, ..] = *request.body else { return Err(Errno::EINVAL.into()) };
        if len > 32 {
            return Err(refusal(Errno::EINVAL, "ipv4: Invalid prefix length"));
        }
        let v4 = |kind: u16| {
            let value = request.attribute(IFADDRMSG, kind)?;
            Some(Ipv4Addr::from(*value.first_chunk::<4>().expect("a checked length")))
        };
        let ip = v4(c::IFA_LOCAL).ok_or(refusal(Errno::EINVAL, "ipv4: Local address is not supplied"))?;
        self.lifetime_given(request, "ipv4: address lifetime invalid")?;
        if ip.is_unspecified() {
            return Ok(None);
        }
        let number = self.net.interfaces.by_index(request.word(4)?);
        let number = number.ok_or(refusal(Errno::ENODEV, "ipv4: Device not found"))?;
        if self.net.interfaces[number].mtu < LEAST_MTU {
            return Err(Errno::ENOBUFS.into());
        }
        let peer = v4(c::IFA_ADDRESS).filter(|peer| *peer != ip).map(|ip| InterfaceAddress::new(ip, len));
        let flags = flags_given(request)?;
        let label = bare(request.attribute(IFADDRMSG, c::IFA_LABEL).unwrap_or_default());
        let named = request.attribute(IFADDRMSG, c::IFA_LABEL).is_some()
            && label != self.net.interfaces[number].name.as_bytes();
        let given = AddressAttributes {
            scope,
            broadcast: v4(c::IFA_BROADCAST).filter(|ip| !ip.is_unspecified()),
            label: named.then(|| String::from_utf8_lossy(label).into()),
            peer,
            flags: flags & !(FLAGS6_ONLY | FOLLOWING_FLAGS),
            metric: request.number(IFADDRMSG, IFA_RT_PRIORITY)?.unwrap_or(0),
            origin: origin_given(request),
        };
        Ok(Some((number, InterfaceAddress::new(ip, if peer.is_some() { 32 } else { len }), given)))
    }

    /// True if the request replaces an existing address: `ip addr change` and `replace`, as DHCP clients do
    /// on renewal.
    fn is_replaced(&self, request: &Request<'_>) -> bool {
        let flags = i32::from(request.flags);
        flags & c::NLM_F_REPLACE != 0 && flags & c::NLM_F_EXCL == 0
    }

    /// Lifetime in a request; `None` for an unlimited one. `EINVAL` if it is invalid.
    fn lifetime_given(
        &self,
        request: &Request<'_>,
        words: &'static str,
    ) -> Result<Option<Lifetime>, Refusal> {
        let Some(cache) = request.attribute(IFADDRMSG, IFA_CACHEINFO) else { return Ok(None) };
        let (Some(preferred), Some(valid)) = (cache.first_chunk::<4>(), cache.get(4..8)) else {
            return Err(Errno::EINVAL.into());
        };
        let preferred = u32::from_ne_bytes(*preferred);
        let valid = u32::from_ne_bytes(valid.try_into().expect("four bytes"));
        if valid == 0 || preferred > valid {
            return Err(refusal(Errno::EINVAL, words));
        }
        let now = self.net.clock.now();
        let until = |seconds: u32| match seconds {
            u32::MAX => SimTime::MAX,
            seconds => now.saturating_add(SimDuration::from_secs(u64::from(seconds))),
        };
        let lifetime = Lifetime { preferred: until(preferred), valid: until(valid), temporary: false };
        Ok(Some(lifetime).filter(|_| preferred != u32::MAX))
    }

    /// Deletes an address whose valid lifetime has ended.
    pub fn address_expired(&mut self, number: usize, own: OwnAddress) {
        let interface = &self.net.interfaces[number];
        match own {
            // The address may be gone.
            OwnAddress::V4(own) => drop(self.delete_address(number, own)),
            OwnAddress::V6(ip) => {
                let own = interface.addresses6.iter().find(|own| own.ip == ip).copied();
                if let Some(own) = own {
                    self.delete_address6(number, own);
                }
            }
        }
    }

    /// Handles the end of an address's preferred lifetime: it becomes deprecated.
    pub fn address_deprecated(&mut self, number: usize, own: OwnAddress) {
        let interface = &self.net.interfaces[number];
        match own {
            OwnAddress::V4(own) if interface.addresses.contains(&own) => {
                self.announce_address(number, &own, true);
            }
            OwnAddress::V4(_) => {}
            OwnAddress::V6(ip) => {
                let own = interface.addresses6.iter().find(|own| own.ip == ip).copied();
                if let Some(own) = own {
                    let message = self.address_message6(number, &own, c::RTM_NEWADDR, (0, 0, 0));
                    self.announce(group::IPV6_ADDRESS, &message);
                }
            }
        }
    }

    /// Handles `ip addr del` for IPv4: deletes the address and the routes with it as their source
    /// (`inet_rtm_deladdr`).
    pub(crate) fn remove_address(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        request.validate(IFADDRMSG, &policies::ADDRESS, LIBERAL)?;
        let number = self.net.interfaces.by_index(request.word(4)?);
        // A shorter MTU takes IPv4 from an interface.
        let number = number.filter(|number| self.net.interfaces[*number].mtu >= LEAST_MTU);
        let number = number.ok_or(refusal(Errno::ENODEV, "ipv4: Device not found"))?;
        let own = self.address_to_remove(request, number)?;
        let own = own.ok_or(refusal(Errno::EADDRNOTAVAIL, "ipv4: Address not found"))?;
        self.delete_address(number, own).map_err(Refusal::from)
    }

    /// First address that matches a deletion request.
    fn address_to_remove(
        &self,
        request: &Request<'_>,
        number: usize,
    ) -> Result<Option<InterfaceAddress>, Errno> {
        let len = *request.body.get(1).ok_or(Errno::EINVAL)?;
        let named = |kind: u16| {
            let value = request.attribute(IFADDRMSG, kind)?;
            Some(Ipv4Addr::from(*value.first_chunk::<4>().expect("a checked length")))
        };
        let (local, address) = (named(c::IFA_LOCAL), named(c::IFA_ADDRESS));
        let label = request.attribute(IFADDRMSG, c::IFA_LABEL);
        let label = label.map(|label| label.strip_suffix(&[0]).unwrap_or(label));
        let like = |own: &&InterfaceAddress| {
            let given = self.net.interfaces.address_attributes(number, own);
            let name = given.label.as_deref().unwrap_or(&self.net.interfaces[number].name).as_bytes();
            let far = given.peer.unwrap_or(**own);
            local.is_none_or(|ip| ip == own.ip)
                && label.is_none_or(|label| label == name)
                && address.is_none_or(|ip| far.len == len && far.network().contains(ip))
        };
        Ok(self.net.interfaces[number].addresses.iter().find(like).copied())
    }

    /// Notifies the netlink group of a new or deleted address.
    pub(crate) fn announce_address(&mut self, number: usize, own: &InterfaceAddress, new: bool) {
        let kind = if new { c::RTM_NEWADDR } else { c::RTM_DELADDR };
        let message = self.address_message(number, own, kind, (0, 0, 0));
        self.announce(group::IPV4_ADDRESS, &message);
    }

    /// Message of type `kind` about an IPv6 address; `to` is the sequence number, the flags and the
    /// receiver's port id.
    fn address_message6(
        &self,
        number: usize,
        own: &InterfaceAddress<Ipv6Addr>,
        kind: u16,
        to: To,
    ) -> Vec<u8> {
        let (sequence, flags, port) = to;
        let announced = self.net.v6.valid_until(number, own.ip);
        let (mut state, cache) = self.stage(number, own.ip.into(), announced);
        if self.net.v6.is_tentative(number, own.ip) {
            state |= IFA_F_TENTATIVE;
        }
        if self.net.v6.is_duplicate(number, own.ip) {
            state |= IFA_F_DADFAILED;
        }
        let by_router = announced.is_some() && !self.net.lifetimes.is_temporary(number, own.ip);
        let managed = if by_router { IFA_F_MANAGETEMPADDR } else { 0 };
        let scope = match own.ip {
            ip if ip.is_loopback() => c::RT_SCOPE_HOST,
            ip if ip.is_unicast_link_local() => c::RT_SCOPE_LINK,
            _ => c::RT_SCOPE_UNIVERSE,
        };
        let given = self.net.v6.attributes(number, own.ip);
        let state = u32::from(state) | managed | given.flags;
        let mut message = Message::new(kind, flags, sequence, port)
            .put(&[c::AF_INET6 as u8, own.len, state as u8, scope])
            .put(&interface_index(number).to_ne_bytes());
        message = match given.peer {
            Some(peer) => {
                message.attribute(c::IFA_LOCAL, &own.ip.octets()).attribute(c::IFA_ADDRESS, &peer.octets())
            }
            None => message.attribute(c::IFA_ADDRESS, &own.ip.octets()),
        };
        if given.metric != 0 {
            message = message.attribute(IFA_RT_PRIORITY, &given.metric.to_ne_bytes());
        }
        message = message.attribute(IFA_CACHEINFO, &cache).attribute(IFA_FLAGS, &state.to_ne_bytes());
        let origin = if announced.is_some() { ORIGIN_ROUTER } else { given.origin };
        if origin != 0 {
            message = message.attribute(IFA_PROTO, &[origin]);
        }
        message.finish()
    }

    /// Handles `ip addr add` for IPv6 (`inet6_rtm_newaddr`).
    pub(crate) fn add_address6(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        request.validate(IFADDRMSG, &policies::ADDRESS6, LIBERAL)?;
        self.look_through(request, &attributes::ADDRESS)?;
        let (ip, peer) = address_named6(request).ok_or(Errno::EINVAL)?;
        let lifetime = self.lifetime_given(request, "ipv6: address lifetime invalid")?;
        let number = self.net.interfaces.by_index(request.word(4)?);
        let number = number.ok_or(refusal(Errno::ENODEV, "ipv6: Unable to find the interface"))?;
        if number != LO && self.net.interfaces[number].mtu < LEAST_MTU6 {
            return Err(Errno::EINVAL.into());
        }
        let flags = flags_given(request)? & FLAGS6;
        let len = *request.body.get(1).ok_or(Errno::EINVAL)?;
        let own = InterfaceAddress::new(ip, len);
        let given = AddressAttributes6 {
            flags: flags & LASTING_FLAGS6,
            metric: request.number(IFADDRMSG, IFA_RT_PRIORITY)?.unwrap_or(0),
            peer: peer.filter(|peer| !peer.is_unspecified()),
            origin: origin_given(request),
            peer_missed: false,
        };
        let existing = self.net.interfaces[number].addresses6.iter().copied().find(|other| other.ip == ip);
        if let Some(existing) = existing {
            if !self.is_replaced(request) {
                return Err(refusal(Errno::EEXIST, "ipv6: address already assigned"));
            }
            if flags & IFA_F_MANAGETEMPADDR != 0 && existing.len != 64 {
                return invalid("ipv6: Address with \"mngtmpaddr\" flag must have a prefix length of 64");
            }
            v6::modify_address(self.net, number, existing, (given, peer), lifetime);
            let message = self.address_message6(number, &existing, c::RTM_NEWADDR, (0, 0, 0));
            self.announce(group::IPV6_ADDRESS, &message);
            return Ok(());
        }
        if len > 128 {
            return invalid("ipv6: Invalid prefix length");
        }
        if flags & IFA_F_MANAGETEMPADDR != 0 && len != 64 {
            return invalid("ipv6: address with \"mngtmpaddr\" flag must have a prefix length of 64");
        }
        self.check_new_address6(number, ip, flags)?;
        check_ipvlan_ip(self.net, number, ip.into())?;
        self.warn_of_flags(flags);
        let interface = &self.net.interfaces[number];
        let connected = (interface.routes_networks6() || number == LO) && interface.up;
        let ask = flags & u32::from(IFA_F_NODAD) == 0;
        self.net.v6.set_attributes(number, ip, given);
        self.net.new_address6(number, own, ask, connected);
        self.net.set_lifetime(number, own.ip, lifetime);
        let message = self.address_message6(number, &own, c::RTM_NEWADDR, (0, 0, 0));
        self.announce(group::IPV6_ADDRESS, &message);
        Ok(())
    }

    /// Checks that an interface may have a new IPv6 address (`addrconf_add_dev`, `ipv6_add_addr`).
    fn check_new_address6(&mut self, number: usize, ip: Ipv6Addr, flags: u32) -> Result<(), Refusal> {
        if !v6::is_possible(self.net, number) {
            return Err(refusal(Errno::EACCES, "ipv6: IPv6 is disabled on this device"));
        }
        // Packets to groups are routed by an interface with addresses (`addrconf_add_mroute`).
        if number != LO && self.net.interfaces[number].up && self.net.interfaces[number].is_link() {
            self.net.v6.route_groups(number);
        }
        let unavailable = |words| Err(refusal(Errno::EADDRNOTAVAIL, words));
        if flags & IFA_F_MCAUTOJOIN != 0 && !ip.is_multicast() {
            return invalid("ipv6: Multicast auto join failed");
        }
        if ip.is_unspecified() {
            return unavailable("ipv6: Invalid address");
        }
        if ip.is_multicast() && flags & IFA_F_MCAUTOJOIN == 0 {
            return unavailable("ipv6: Cannot assign multicast address without \"IFA_F_MCAUTOJOIN\" flag");
        }
        if ip.is_loopback() && number != LO {
            return unavailable("ipv6: Cannot assign loopback address on this device");
        }
        Ok(())
    }

    /// Handles `ip addr del` for IPv6 (`inet6_rtm_deladdr`).
    pub(crate) fn remove_address6(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        request.validate(IFADDRMSG, &policies::ADDRESS6, LIBERAL)?;
        let (ip, _) = address_named6(request).ok_or(Errno::EINVAL)?;
        let len = *request.body.get(1).ok_or(Errno::EINVAL)?;
        if len > 128 {
            return Err(refusal(Errno::EINVAL, "ipv6: Invalid prefix length"));
        }
        let number = self.net.interfaces.by_index(request.word(4)?);
        let number = number.ok_or(refusal(Errno::ENODEV, "ipv6: Unable to find the interface"))?;
        if number != LO && self.net.interfaces[number].mtu < LEAST_MTU6 {
            return Err(refusal(Errno::ENXIO, "ipv6: IPv6 is disabled on this device"));
        }
        let own = InterfaceAddress::new(ip, len);
        if !self.net.interfaces[number].addresses6.contains(&own) {
            return Err(refusal(Errno::EADDRNOTAVAIL, "ipv6: address not found"));
        }
        self.delete_address6(number, own);
        Ok(())
    }

    fn delete_address6(&mut self, number: usize, own: InterfaceAddress<Ipv6Addr>) {
        let message = self.address_message6(number, &own, c::RTM_DELADDR, (0, 0, 0));
        self.net.drop_address6(number, own);
        self.announce(group::IPV6_ADDRESS, &message);
    }
}

/// Address and peer in a request about an IPv6 address (`extract_addr`). A local address with trailing bytes
/// differs from every peer.
fn address_named6(request: &Request<'_>) -> Option<(Ipv6Addr, Option<Ipv6Addr>)> {
    let value = |kind| request.attribute(IFADDRMSG, kind);
    let ip = |value: &[u8]| Some(Ipv6Addr::from(*value.first_chunk::<16>()?));
    let (local, far) = (value(c::IFA_LOCAL), value(c::IFA_ADDRESS).and_then(ip));
    match local {
        Some(local) => {
            let same = |far: &Ipv6Addr| local == far.octets();
            Some((ip(local)?, far.filter(|far| !same(far))))
        }
        None => far.map(|far| (far, None)),
    }
}
