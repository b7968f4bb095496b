//! Interfaces in rtnetlink: `RTM_NEWLINK`, `RTM_GETLINK`.

use super::group;
use super::message::{Message, Request};
use crate::host::Host;
use crate::net::interface::Attachment;
use crate::net::interface_index;
use crate::net::ioctl::interface_flags;
use belljar_linux_abi::{Errno, c};

const IFLA_TXQLEN: u16 = 13;
const IFLA_OPERSTATE: u16 = 16;
const IFLA_LINKMODE: u16 = 17;
/// Values of `IFLA_OPERSTATE`.
const IF_OPER_UNKNOWN: u8 = 0;
const IF_OPER_DOWN: u8 = 2;
const IF_OPER_UP: u8 = 6;
/// `ETH_MIN_MTU`.
const LEAST_MTU: u32 = 68;
/// The length of `struct ifinfomsg`.
const IFINFOMSG: usize = 16;

impl Host {
    pub(super) fn links(&self, request: &Request<'_>, flags: u16, port: u32) -> Result<Vec<Vec<u8>>, Errno> {
        let message = |interface| self.link(interface, request.sequence, flags, port);
        if request.is_dump() {
            return Ok((0..self.net.interfaces.len()).map(message).collect());
        }
        self.link_named(request).map(|interface| vec![message(interface)])
    }

    /// The interface that a request is about, by index or by name.
    pub(super) fn link_named(&self, request: &Request<'_>) -> Result<usize, Errno> {
        let index = request.body.get(4..8).ok_or(Errno::EINVAL)?;
        let index = u32::from_ne_bytes(index.try_into().expect("four bytes"));
        let name = request.attribute(IFINFOMSG, c::IFLA_IFNAME).map(|name| {
            let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
            &name[..end]
        });
        let found = match name {
            Some(name) if index == 0 => self.net.interface_by_name(name),
            _ => self.net.interface_by_index(index),
        };
        found.ok_or(Errno::ENODEV)
    }

    /// `RTM_NEWLINK`: what an interface is like.
    pub(super) fn link(&self, number: usize, sequence: u32, flags: u16, port: u32) -> Vec<u8> {
        let interface = &self.net.interfaces[number];
        let loopback = interface.attachment == Attachment::Loopback;
        let broadcast = if loopback { [0; 6] } else { [0xff; 6] };
        let name = [interface.name.as_bytes(), &[0]].concat();
        let queue_len: u32 = 1_000;
        let state = match (loopback, interface.is_running()) {
            (true, true) => IF_OPER_UNKNOWN,
            (false, true) => IF_OPER_UP,
            (_, false) => IF_OPER_DOWN,
        };
        let qdisc: &[u8] = if loopback { b"noqueue\0" } else { b"pfifo\0" };
        Message::new(c::RTM_NEWLINK, flags, sequence, port)
            .put(&[c::AF_UNSPEC as u8, 0])
            .put(&interface.hardware_type().to_ne_bytes())
            .put(&interface_index(number).to_ne_bytes())
            .put(&interface_flags(interface).to_ne_bytes())
            .put(&[0; 4])
            .attribute(c::IFLA_IFNAME, &name)
            .attribute(IFLA_TXQLEN, &queue_len.to_ne_bytes())
            .attribute(IFLA_OPERSTATE, &[state])
            .attribute(IFLA_LINKMODE, &[0])
            .attribute(c::IFLA_MTU, &(interface.mtu as u32).to_ne_bytes())
            .attribute(c::IFLA_QDISC, qdisc)
            .attribute(c::IFLA_ADDRESS, &interface.mac)
            .attribute(c::IFLA_BROADCAST, &broadcast)
            .finish()
    }

    /// `ip link set`: up and down, the MTU, the hardware address.
    pub(super) fn change_link(&mut self, request: &Request<'_>) -> Result<(), Errno> {
        let number = match self.link_named(request) {
            Err(Errno::ENODEV) if request.flags & c::NLM_F_CREATE as u16 != 0 => {
                self.warn("interfaces cannot be added while a host runs");
                return Err(Errno::EOPNOTSUPP);
            }
            other => other?,
        };
        let (flags, change) = (request.word(8)?, request.word(12)?);
        if let Some(mtu) = request.number(IFINFOMSG, c::IFLA_MTU)? {
            if !(LEAST_MTU..=65_535).contains(&mtu) {
                return Err(Errno::EINVAL);
            }
            self.net.interfaces[number].mtu = mtu as usize;
        }
        if let Some(mac) = request.attribute(IFINFOMSG, c::IFLA_ADDRESS) {
            self.net.interfaces[number].mac = mac.try_into().map_err(|_| Errno::EINVAL)?;
        }
        let up = (flags & c::IFF_UP as u32 != 0) as u8;
        // Without a mask, as old programs ask, flags count if they are set.
        if change & c::IFF_UP as u32 != 0 || (change == 0 && flags != 0) {
            self.set_interface_up(number, up != 0);
        }
        self.link_changed(number);
        Ok(())
    }

    /// Takes an interface into use or out of it; its routes go and come with it.
    fn set_interface_up(&mut self, number: usize, up: bool) {
        if self.net.interfaces[number].up == up {
            return;
        }
        self.net.interfaces[number].up = up;
        if up {
            self.net.interface_is_up(number, &self.config.routes);
        } else {
            self.net.routes.retain(|_, _, route| {
                let had = !route.hops.is_empty();
                route.hops.retain(|hop| hop.interface != number);
                !had || !route.hops.is_empty()
            });
            self.net.neighbours.flush(number, true);
        }
    }

    /// Tells who wants to know that an interface has changed.
    pub(in crate::net) fn link_changed(&mut self, number: usize) {
        let message = self.link(number, 0, 0, 0);
        self.netlink_announce(group::LINK, &message);
    }
}
