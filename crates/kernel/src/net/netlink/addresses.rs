//! Addresses of interfaces in rtnetlink: `RTM_NEWADDR`, `RTM_GETADDR`.

use super::group;
use super::message::{Message, Request};
use super::route::{ip_bytes, parse_ip};
use crate::host::Host;
use crate::net::{LO, interface_index};
use belljar_linux_abi::{Errno, c};
use belljar_net::InterfaceAddress;
use std::net::{IpAddr, Ipv6Addr};

const IFA_F_PERMANENT: u8 = 0x80;
/// The length of `struct ifaddrmsg`.
const IFADDRMSG: usize = 8;
/// `IFA_FLAGS`.
const IFA_FLAGS: u16 = 8;

impl Host {
    pub(super) fn addresses(&self, family: i32, sequence: u32, flags: u16, port: u32) -> Vec<Vec<u8>> {
        let mut messages = Vec::new();
        if family != c::AF_INET6 {
            for (number, interface) in self.net.interfaces.iter().enumerate() {
                let message =
                    |own| self.address_message(number, own, c::RTM_NEWADDR, (sequence, flags, port));
                messages.extend(interface.addresses.iter().map(message));
            }
        }
        if family != c::AF_INET {
            let own = Ipv6Addr::LOCALHOST.octets();
            let message = Message::new(c::RTM_NEWADDR, flags, sequence, port)
                .put(&[c::AF_INET6 as u8, 128, IFA_F_PERMANENT, c::RT_SCOPE_HOST])
                .put(&interface_index(LO).to_ne_bytes())
                .attribute(c::IFA_ADDRESS, &own)
                .attribute(IFA_FLAGS, &u32::from(IFA_F_PERMANENT).to_ne_bytes())
                .finish();
            messages.push(message);
        }
        messages
    }

    /// A message of `kind` about an address; `to` is its sequence number, flags and receiver's port id.
    pub(super) fn address_message(
        &self,
        number: usize,
        own: &InterfaceAddress,
        kind: u16,
        to: (u32, u16, u32),
    ) -> Vec<u8> {
        let (sequence, flags, port) = to;
        let scope = if number == LO { c::RT_SCOPE_HOST } else { c::RT_SCOPE_UNIVERSE };
        let bytes = ip_bytes(IpAddr::V4(own.ip));
        let mut message = Message::new(kind, flags, sequence, port)
            .put(&[c::AF_INET as u8, own.len, IFA_F_PERMANENT, scope])
            .put(&interface_index(number).to_ne_bytes())
            .attribute(c::IFA_ADDRESS, &bytes)
            .attribute(c::IFA_LOCAL, &bytes);
        if let Some(broadcast) = own.network().broadcast().filter(|_| number != LO) {
            message = message.attribute(c::IFA_BROADCAST, &broadcast.octets());
        }
        let name = [self.net.interfaces[number].name.as_bytes(), &[0]].concat();
        let message = message.attribute(c::IFA_LABEL, &name);
        message.attribute(IFA_FLAGS, &u32::from(IFA_F_PERMANENT).to_ne_bytes()).finish()
    }

    /// `ip addr add`.
    pub(super) fn add_address(&mut self, request: &Request<'_>) -> Result<(), Errno> {
        let (number, own) = self.address_named(request)?;
        let addresses = &mut self.net.interfaces[number].addresses;
        if addresses.contains(&own) {
            return Err(Errno::EEXIST);
        }
        addresses.push(own);
        if self.net.interfaces[number].up && self.net.interfaces[number].is_link() {
            self.net.add_connected(number);
        }
        let message = self.address_message(number, &own, c::RTM_NEWADDR, (0, 0, 0));
        self.netlink_announce(group::IPV4_ADDRESS, &message);
        Ok(())
    }

    /// `ip addr del`: the routes from that address go with it.
    pub(super) fn remove_address(&mut self, request: &Request<'_>) -> Result<(), Errno> {
        let (number, own) = self.address_named(request)?;
        let interface = &mut self.net.interfaces[number];
        let at = interface.addresses.iter().position(|other| *other == own).ok_or(Errno::EADDRNOTAVAIL)?;
        let message = self.address_message(number, &own, c::RTM_DELADDR, (0, 0, 0));
        self.net.interfaces[number].addresses.remove(at);
        self.net.routes.retain(|_, _, route| route.source != Some(own.ip));
        if self.net.interfaces[number].up && self.net.interfaces[number].is_link() {
            self.net.add_connected(number);
        }
        self.netlink_announce(group::IPV4_ADDRESS, &message);
        Ok(())
    }

    /// The interface and the address that a request is about.
    fn address_named(&self, request: &Request<'_>) -> Result<(usize, InterfaceAddress), Errno> {
        let [family, len, ..] = request.body else { return Err(Errno::EINVAL) };
        if i32::from(*family) != c::AF_INET {
            return Err(Errno::EOPNOTSUPP);
        }
        let number = self.net.interface_by_index(request.word(4)?).ok_or(Errno::ENODEV)?;
        let local = request.attribute(IFADDRMSG, c::IFA_LOCAL);
        let local = local.or(request.attribute(IFADDRMSG, c::IFA_ADDRESS)).ok_or(Errno::EINVAL)?;
        match parse_ip(local)? {
            IpAddr::V4(ip) if *len <= 32 => Ok((number, InterfaceAddress { ip, len: *len })),
            _ => Err(Errno::EINVAL),
        }
    }
}
