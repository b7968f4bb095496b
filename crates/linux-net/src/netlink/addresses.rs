//! Addresses of interfaces in rtnetlink: `RTM_NEWADDR`, `RTM_GETADDR`.

use super::group;
use super::message::{Message, Request, To};
use super::refusal::{Refusal, refusal};
use super::requests::parse_ip;
use crate::Admin;
use crate::ioctl::NAME_LEN;
use belljar_base::{SimDuration, SimTime};
use belljar_linux_abi::{Errno, c};
use belljar_net::InterfaceAddress;
use belljar_netstack::interface_index;
use belljar_netstack::lifetimes::Lifetime;
use belljar_netstack::own_addresses::{AddressAttributes, AddressConflict};
use belljar_netstack::v6::AddressAttributes6;
use std::net::{IpAddr, Ipv6Addr};

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
    (0x400, "IFA_F_MCAUTOJOIN"),
];
/// `IFA_FLAGS`.
const IFA_FLAGS: u16 = 8;
const IFA_RT_PRIORITY: u16 = 9;
const IFA_PROTO: u16 = 11;

/// Flags of an address in a request: the attribute if present, else the eight bits of the header.
fn flags_given(request: &Request<'_>) -> Result<u32, Errno> {
    let of_header = request.body.get(2).map_or(0, |flags| (*flags).into());
    Ok(request.number(IFADDRMSG, IFA_FLAGS)?.unwrap_or(of_header))
}

/// Protocol (`IFA_PROTO`) that created an address, from a request.
fn origin_given(request: &Request<'_>) -> u8 {
    request.attribute(IFADDRMSG, IFA_PROTO).and_then(|value| value.first().copied()).unwrap_or(0)
}

impl Admin<'_> {
    pub(crate) fn addresses(&self, family: i32, sequence: u32, flags: u16, port: u32) -> Vec<Vec<u8>> {
        let mut messages = Vec::new();
        if family != c::AF_INET6 {
            for (number, interface) in self.net.interfaces.iter().enumerate() {
                let message =
                    |own| self.address_message(number, own, c::RTM_NEWADDR, (sequence, flags, port));
                messages.extend(interface.addresses.iter().map(message));
            }
        }
        if family != c::AF_INET {
            for (number, interface) in self.net.interfaces.iter().enumerate() {
                let message =
                    |own| self.address_message6(number, own, c::RTM_NEWADDR, (sequence, flags, port));
                messages.extend(interface.addresses6.iter().map(message));
            }
        }
        messages
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
        let (stage, cache) = self.stage(number, own.ip.into(), None);
        let mut state = u32::from(stage);
        if self.net.interfaces.primary_of(number, own) != *own {
            state |= u32::from(IFA_F_SECONDARY);
        }
        if given.no_prefix_route {
            state |= IFA_F_NOPREFIXROUTE;
        }
        let far = given.peer.unwrap_or(*own);
        let mut message = Message::new(kind, flags, sequence, port)
            .put(&[c::AF_INET as u8, far.len, state as u8, given.scope])
            .put(&interface_index(number).to_ne_bytes())
            .attribute(c::IFA_ADDRESS, &far.ip.octets())
            .attribute(c::IFA_LOCAL, &own.ip.octets());
        if let Some(broadcast) = given.broadcast {
            message = message.attribute(c::IFA_BROADCAST, &broadcast.octets());
        }
        let name = given.label.as_deref().unwrap_or(&self.net.interfaces[number].name);
        message = message.attribute(c::IFA_LABEL, &[name.as_bytes(), &[0]].concat());
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
    fn stage(&self, number: usize, ip: IpAddr, announced: Option<SimTime>) -> (u8, Vec<u8>) {
        let lifetime = self.net.lifetimes.lifetime(number, ip);
        let valid = lifetime.map_or(SimTime::MAX, |lifetime| lifetime.valid);
        let valid = announced.unwrap_or(SimTime::MAX).min(valid);
        let preferred = lifetime.map_or(valid, |lifetime| lifetime.preferred);
        let mut state = if valid == SimTime::MAX && announced.is_none() { IFA_F_PERMANENT } else { 0 };
        if self.net.is_deprecated(number, ip) {
            state |= IFA_F_DEPRECATED;
        }
        if self.net.lifetimes.is_temporary(number, ip) {
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

    /// Handles `ip addr add`.
    pub(crate) fn add_address(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let flags = request.number(IFADDRMSG, IFA_FLAGS)?.unwrap_or(0);
        for (_, name) in UNKNOWN_FLAGS.into_iter().filter(|(flag, _)| flags & flag != 0) {
            self.warn(format!("rtnetlink: {name} of addresses is accepted without effect"));
        }
        if i32::from(request.body.first().copied().unwrap_or(0)) == c::AF_INET6 {
            let number = self.net.interfaces.by_index(request.word(4)?).ok_or(Errno::ENODEV)?;
            return self.add_address6(request, number);
        }
        let (number, own, given) = self.address_given(request)?;
        let lifetime = self.lifetime_given(request)?;
        if self.is_replaced(request) && self.net.interfaces[number].addresses.contains(&own) {
            self.change_metric(number, own, &given);
            self.net.set_lifetime(number, own.ip.into(), lifetime);
            self.announce_address(number, &own, true);
            return Ok(());
        }
        self.insert_address(number, own, Some(given), lifetime).map_err(|conflict| match conflict {
            AddressConflict::Present => refusal(Errno::EEXIST, "ipv4: Address already assigned"),
            AddressConflict::Scope => refusal(Errno::EINVAL, "ipv4: Invalid scope value"),
        })
    }

    /// Interface, address and attributes of a request. An address with a peer has no network at its own end;
    /// the prefix is that of the peer.
    fn address_given(
        &self,
        request: &Request<'_>,
    ) -> Result<(usize, InterfaceAddress, AddressAttributes), Refusal> {
        let [family, len, _, scope, ..] = *request.body else { return Err(Errno::EINVAL.into()) };
        if i32::from(family) != c::AF_INET {
            return Err(Errno::EOPNOTSUPP.into());
        }
        if len > 32 {
            return Err(refusal(Errno::EINVAL, "ipv4: Invalid prefix length"));
        }
        let v4 = |kind: u16| match request.attribute(IFADDRMSG, kind).map(parse_ip).transpose()? {
            Some(IpAddr::V6(_)) => Err(Errno::EINVAL),
            Some(IpAddr::V4(ip)) => Ok(Some(ip)),
            None => Ok(None),
        };
        let ip = v4(c::IFA_LOCAL)?.ok_or(refusal(Errno::EINVAL, "ipv4: Local address is not supplied"))?;
        let number = self.net.interfaces.by_index(request.word(4)?);
        let number = number.ok_or(refusal(Errno::ENODEV, "ipv4: Device not found"))?;
        let peer = v4(c::IFA_ADDRESS)?.filter(|peer| *peer != ip).map(|ip| InterfaceAddress { ip, len });
        let flags = flags_given(request)?;
        let label = request.attribute(IFADDRMSG, c::IFA_LABEL).unwrap_or_default();
        let label = std::str::from_utf8(label).map_err(|_| Errno::EINVAL)?.trim_end_matches('\0');
        if label.len() >= NAME_LEN {
            return Err(Errno::ERANGE.into());
        }
        let named = !label.is_empty() && label != &*self.net.interfaces[number].name;
        let given = AddressAttributes {
            scope,
            broadcast: v4(c::IFA_BROADCAST)?,
            label: named.then(|| label.into()),
            peer,
            no_prefix_route: flags & IFA_F_NOPREFIXROUTE != 0,
            metric: request.number(IFADDRMSG, IFA_RT_PRIORITY)?.unwrap_or(0),
            origin: origin_given(request),
        };
        Ok((number, InterfaceAddress { ip, len: if peer.is_some() { 32 } else { len } }, given))
    }

    /// True if the request replaces an existing address: `ip addr change` and `replace`, as DHCP clients do
    /// on renewal.
    fn is_replaced(&self, request: &Request<'_>) -> bool {
        let flags = i32::from(request.flags);
        flags & c::NLM_F_REPLACE != 0 && flags & c::NLM_F_EXCL == 0
    }

    /// Lifetime in a request; `None` for an unlimited one. `EINVAL` if it is invalid.
    fn lifetime_given(&self, request: &Request<'_>) -> Result<Option<Lifetime>, Errno> {
        let Some(cache) = request.attribute(IFADDRMSG, IFA_CACHEINFO) else { return Ok(None) };
        let (Some(preferred), Some(valid)) = (cache.first_chunk::<4>(), cache.get(4..8)) else {
            return Err(Errno::EINVAL);
        };
        let preferred = u32::from_ne_bytes(*preferred);
        let valid = u32::from_ne_bytes(valid.try_into().expect("four bytes"));
        if valid == 0 || preferred > valid {
            return Err(Errno::EINVAL);
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
    pub fn address_expired(&mut self, number: usize, ip: IpAddr) {
        let interface = &self.net.interfaces[number];
        match ip {
            IpAddr::V4(ip) => {
                let own = interface.addresses.iter().find(|own| own.ip == ip).copied();
                // The address exists.
                let _ = own.map(|own| self.delete_address(number, own));
            }
            IpAddr::V6(ip) => {
                let own = interface.addresses6.iter().find(|own| own.ip == ip).copied();
                if let Some(own) = own {
                    self.delete_address6(number, own);
                }
            }
        }
    }

    /// Handles the end of an address's preferred lifetime: it becomes deprecated.
    pub fn address_deprecated(&mut self, number: usize, ip: IpAddr) {
        let interface = &self.net.interfaces[number];
        match ip {
            IpAddr::V4(ip) => {
                let own = interface.addresses.iter().find(|own| own.ip == ip).copied();
                if let Some(own) = own {
                    self.announce_address(number, &own, true);
                }
            }
            IpAddr::V6(ip) => {
                let own = interface.addresses6.iter().find(|own| own.ip == ip).copied();
                if let Some(own) = own {
                    let message = self.address_message6(number, &own, c::RTM_NEWADDR, (0, 0, 0));
                    self.announce(group::IPV6_ADDRESS, &message);
                }
            }
        }
    }

    /// Handles `ip addr del`: deletes the address and the routes with it as their source.
    pub(crate) fn remove_address(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        if i32::from(request.body.first().copied().unwrap_or(0)) == c::AF_INET6 {
            let number = self.net.interfaces.by_index(request.word(4)?).ok_or(Errno::ENODEV)?;
            return self.remove_address6(request, number);
        }
        let number = self.net.interfaces.by_index(request.word(4)?);
        let number = number.ok_or(refusal(Errno::ENODEV, "ipv4: Device not found"))?;
        let own = self.address_to_remove(request, number)?;
        let own = own.ok_or(refusal(Errno::EADDRNOTAVAIL, "ipv4: Address not found"))?;
        self.delete_address(number, own).map_err(Refusal::from)
    }

    /// First address that matches a deletion request (`inet_rtm_deladdr` in Linux).
    fn address_to_remove(
        &self,
        request: &Request<'_>,
        number: usize,
    ) -> Result<Option<InterfaceAddress>, Errno> {
        let len = *request.body.get(1).ok_or(Errno::EINVAL)?;
        let named = |kind: u16| request.attribute(IFADDRMSG, kind).map(parse_ip).transpose();
        let (local, address) = (named(c::IFA_LOCAL)?, named(c::IFA_ADDRESS)?);
        let label = request.attribute(IFADDRMSG, c::IFA_LABEL);
        let label = label.map(|label| label.strip_suffix(&[0]).unwrap_or(label));
        let like = |own: &&InterfaceAddress| {
            let given = self.net.interfaces.address_attributes(number, own);
            let name = given.label.as_deref().unwrap_or(&self.net.interfaces[number].name).as_bytes();
            let far = given.peer.unwrap_or(**own);
            local.is_none_or(|ip| ip == IpAddr::V4(own.ip))
                && label.is_none_or(|label| label == name)
                && address.is_none_or(
                    |ip| matches!(ip, IpAddr::V4(ip) if far.len == len && far.network().contains(ip)),
                )
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
        let by_router = announced.is_some() && !self.net.lifetimes.is_temporary(number, own.ip.into());
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
        if given.origin != 0 {
            message = message.attribute(IFA_PROTO, &[given.origin]);
        }
        message.finish()
    }

    fn add_address6(&mut self, request: &Request<'_>, number: usize) -> Result<(), Refusal> {
        let own = self.address_named6(request)?;
        let lifetime = self.lifetime_given(request)?;
        let flags = flags_given(request)?;
        let given = self.attributes_given6(request, own.ip, flags)?;
        let interface = &self.net.interfaces[number];
        let connected = interface.is_link() && interface.up;
        if self.net.interfaces[number].addresses6.iter().any(|other| other.ip == own.ip) {
            if self.is_replaced(request) {
                self.net.v6.set_attributes(&self.net.interfaces, number, own, given);
                if connected {
                    self.net.v6.connect_address(number, own);
                }
                self.net.set_lifetime(number, own.ip.into(), lifetime);
                let message = self.address_message6(number, &own, c::RTM_NEWADDR, (0, 0, 0));
                self.announce(group::IPV6_ADDRESS, &message);
                return Ok(());
            }
            return Err(refusal(Errno::EEXIST, "ipv6: address already assigned"));
        }
        if (!self.net.v6.on || self.net.interface_settings.disables6(number)) && !own.ip.is_loopback() {
            // As with net.ipv6.conf.all.disable_ipv6.
            return Err(Errno::EACCES.into());
        }
        let ask = flags & u32::from(IFA_F_NODAD) == 0;
        self.net.v6.set_attributes(&self.net.interfaces, number, own, given);
        self.net.new_address6(number, own, ask, connected);
        self.net.set_lifetime(number, own.ip.into(), lifetime);
        let message = self.address_message6(number, &own, c::RTM_NEWADDR, (0, 0, 0));
        self.announce(group::IPV6_ADDRESS, &message);
        Ok(())
    }

    /// Attributes of an IPv6 address in a request.
    fn attributes_given6(
        &self,
        request: &Request<'_>,
        ip: Ipv6Addr,
        flags: u32,
    ) -> Result<AddressAttributes6, Errno> {
        let peer = match request.attribute(IFADDRMSG, c::IFA_ADDRESS).map(parse_ip).transpose()? {
            Some(IpAddr::V6(peer)) => Some(peer).filter(|peer| *peer != ip),
            _ => None,
        };
        Ok(AddressAttributes6 {
            flags: flags & LASTING_FLAGS6,
            metric: request.number(IFADDRMSG, IFA_RT_PRIORITY)?.unwrap_or(0),
            peer,
            origin: origin_given(request),
        })
    }

    fn remove_address6(&mut self, request: &Request<'_>, number: usize) -> Result<(), Refusal> {
        let own = self.address_named6(request)?;
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

    fn address_named6(&self, request: &Request<'_>) -> Result<InterfaceAddress<Ipv6Addr>, Errno> {
        let len = *request.body.get(1).ok_or(Errno::EINVAL)?;
        let local = request.attribute(IFADDRMSG, c::IFA_LOCAL);
        let local = local.or(request.attribute(IFADDRMSG, c::IFA_ADDRESS)).ok_or(Errno::EINVAL)?;
        match parse_ip(local)? {
            IpAddr::V6(ip) if len <= 128 && !ip.is_multicast() && !ip.is_unspecified() => {
                Ok(InterfaceAddress { ip, len })
            }
            _ => Err(Errno::EINVAL),
        }
    }
}
