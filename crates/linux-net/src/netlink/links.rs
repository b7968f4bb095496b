//! Interfaces in rtnetlink: `RTM_NEWLINK`, `RTM_GETLINK`.

use super::attributes;
use super::group;
use super::message::{Message, Request, To};
use super::new_links::{checked_name, link_info};
use super::refusal::{Refusal, refusal};
use crate::Admin;
use crate::counters::InterfaceCounters;
use crate::ioctl::interface_flags;
use belljar_linux_abi::{Errno, c};
use belljar_netstack::interface::Attachment;
use belljar_netstack::interface_index;

pub(super) const IFLA_LINK: u16 = 5;
pub(super) const IFLA_LINKINFO: u16 = 18;
const IFLA_STATS: u16 = 7;
const IFLA_TXQLEN: u16 = 13;
const IFLA_OPERSTATE: u16 = 16;
const IFLA_LINKMODE: u16 = 17;
const IFLA_IFALIAS: u16 = 20;
const IFLA_GROUP: u16 = 27;
const IFLA_PROMISCUITY: u16 = 30;
const IFLA_ALLMULTI: u16 = 61;
/// Maximum length of an alias (`IFALIASZ` without the NUL).
const ALIAS_MAX: usize = 255;
const IFLA_STATS64: u16 = 23;
/// Values of `IFLA_OPERSTATE`.
const IF_OPER_UNKNOWN: u8 = 0;
const IF_OPER_DOWN: u8 = 2;
const IF_OPER_LOWERLAYERDOWN: u8 = 3;
const IF_OPER_UP: u8 = 6;
/// Length of `struct ifinfomsg` in bytes.
pub(super) const IFINFOMSG: usize = 16;

impl Admin<'_> {
    pub(crate) fn links(&self, request: &Request<'_>, flags: u16, port: u32) -> Result<Vec<Vec<u8>>, Errno> {
        let message = |interface| self.link(interface, request.sequence, flags, port);
        if request.is_dump() {
            let all = 0..self.net.interfaces.len();
            return Ok(all.filter(|n| self.net.interfaces[*n].exists()).map(message).collect());
        }
        self.link_named(request).map(|interface| vec![message(interface)])
    }

    /// Interface that a request names, by index or name.
    pub(crate) fn link_named(&self, request: &Request<'_>) -> Result<usize, Errno> {
        let index = request.body.get(4..8).ok_or(Errno::EINVAL)?;
        let index = u32::from_ne_bytes(index.try_into().expect("four bytes"));
        let name = request.attribute(IFINFOMSG, c::IFLA_IFNAME).map(|name| {
            let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
            &name[..end]
        });
        let found = match name {
            Some(name) if index == 0 => self.net.interfaces.by_name(name),
            _ => self.net.interfaces.by_index(index),
        };
        found.ok_or(Errno::ENODEV)
    }

    /// `RTM_NEWLINK` message that describes an interface.
    pub(crate) fn link(&self, number: usize, sequence: u32, flags: u16, port: u32) -> Vec<u8> {
        self.link_message(c::RTM_NEWLINK, number, (sequence, flags, port))
    }

    fn link_message(&self, kind: u16, number: usize, to: To) -> Vec<u8> {
        let (sequence, flags, port) = to;
        let interface = &self.net.interfaces[number];
        let loopback = interface.attachment == Attachment::Loopback;
        let broadcast = if loopback { [0; 6] } else { [0xff; 6] };
        let name = [interface.name.as_bytes(), &[0]].concat();
        let unknown = matches!(
            interface.attachment,
            Attachment::Loopback | Attachment::Tun(_) | Attachment::Tap(_) | Attachment::Dummy
        );
        let state = match (unknown, interface.is_running()) {
            (true, true) => IF_OPER_UNKNOWN,
            (false, true) => IF_OPER_UP,
            (_, false) if interface.waits_for_below() => IF_OPER_LOWERLAYERDOWN,
            (_, false) => IF_OPER_DOWN,
        };
        let info = link_info(interface, self.net.number);
        let qdisc: &[u8] = if loopback || info.is_some() { b"noqueue\0" } else { b"pfifo\0" };
        let counters = InterfaceCounters::of(self.net, interface).link_stats64();
        let stats64: Vec<u8> = counters.iter().flat_map(|count| count.to_ne_bytes()).collect();
        let stats: Vec<u8> = counters.iter().flat_map(|count| (*count as u32).to_ne_bytes()).collect();
        let (promiscuous, all_groups) = self.listeners.memberships(self.net, number);
        let given = |flag: i32| u32::from(interface.lasting_flags() & flag as u32 != 0);
        let message = Message::new(kind, flags, sequence, port)
            .put(&[c::AF_UNSPEC as u8, 0])
            .put(&interface.hardware_type().to_ne_bytes())
            .put(&interface_index(number).to_ne_bytes())
            .put(&interface_flags(interface).to_ne_bytes())
            .put(&[0; 4])
            .attribute(c::IFLA_IFNAME, &name)
            .attribute(IFLA_TXQLEN, &interface.queue_capacity().to_ne_bytes())
            .attribute(IFLA_OPERSTATE, &[state])
            .attribute(IFLA_LINKMODE, &[0])
            .attribute(c::IFLA_MTU, &(interface.mtu as u32).to_ne_bytes())
            .attribute(IFLA_GROUP, &interface.settings.group.to_ne_bytes())
            .attribute(IFLA_PROMISCUITY, &(promiscuous + given(c::IFF_PROMISC)).to_ne_bytes())
            .attribute(IFLA_ALLMULTI, &(all_groups + given(c::IFF_ALLMULTI)).to_ne_bytes())
            .attribute(c::IFLA_QDISC, qdisc)
            .attribute(IFLA_STATS64, &stats64)
            .attribute(IFLA_STATS, &stats);
        let message = match &info {
            Some((info, below)) => {
                let message = message.attribute(IFLA_LINKINFO, info);
                match below {
                    Some(below) => message.attribute(IFLA_LINK, &interface_index(*below).to_ne_bytes()),
                    None => message,
                }
            }
            None => message,
        };
        let message = match &interface.settings.alias {
            Some(alias) => message.attribute(IFLA_IFALIAS, &[alias, &[0][..]].concat()),
            None => message,
        };
        match interface.attachment {
            Attachment::Tun(_) => message,
            _ => message.attribute(c::IFLA_ADDRESS, &interface.mac).attribute(c::IFLA_BROADCAST, &broadcast),
        }
        .finish()
    }

    /// Handles `ip link set`: flags, MTU, hardware address and others. Without an interface, the request
    /// applies to a group.
    pub(crate) fn change_link(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let named = request.word(4)? != 0 || request.attribute(IFINFOMSG, c::IFLA_IFNAME).is_some();
        let group = request.number(IFINFOMSG, IFLA_GROUP)?;
        match group {
            Some(group) if !named && request.flags & c::NLM_F_CREATE as u16 == 0 => {
                self.look_through(request, &attributes::LINK)?;
                for number in 0..self.net.interfaces.len() {
                    let interface = &self.net.interfaces[number];
                    if interface.exists() && interface.settings.group == group {
                        self.set_link(request, number)?;
                    }
                }
                Ok(())
            }
            _ => self.change_one_link(request),
        }
    }

    fn change_one_link(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let number = match self.link_named(request) {
            Err(Errno::ENODEV) if request.flags & c::NLM_F_CREATE as u16 != 0 => {
                self.look_through(request, &attributes::NEW_LINK)?;
                return self.new_link(request);
            }
            Ok(_) if request.flags & c::NLM_F_EXCL as u16 != 0 => return Err(Errno::EEXIST.into()),
            other => other?,
        };
        self.look_through(request, &attributes::LINK)?;
        let network = self.network_asked(request)?;
        let movable =
            matches!(self.net.interfaces[number].attachment, Attachment::Dummy | Attachment::Veth { .. });
        if network.is_some() && !movable {
            if !matches!(self.net.interfaces[number].attachment, Attachment::Loopback) {
                self.warn(
                    "rtnetlink: interfaces of the experiment and VLANs stay in their network namespace",
                );
            }
            return Err(refusal(Errno::EINVAL, "The interface netns is immutable"));
        }
        let name =
            request.attribute(IFINFOMSG, c::IFLA_IFNAME).map(|name| name.strip_suffix(&[0]).unwrap_or(name));
        let name =
            name.map(String::from_utf8_lossy).filter(|name| **name != *self.net.interfaces[number].name);
        if name.is_some() && !movable {
            self.warn("interfaces of the experiment and VLANs cannot be renamed while a host runs");
            return Err(Errno::EBUSY.into());
        }
        if network.is_some() || name.is_some() {
            let name = name.as_deref().unwrap_or(&self.net.interfaces[number].name);
            checked_name(name)?;
            self.check_free(name, network)?;
        }
        if let Some(name) = name {
            self.net.interfaces[number].name = name.into();
        }
        self.set_link(request, number)?;
        if let Some(network) = network {
            self.move_link(number, network);
        }
        Ok(())
    }

    /// Applies a request to an interface, except name and network namespace.
    fn set_link(&mut self, request: &Request<'_>, number: usize) -> Result<(), Refusal> {
        if let Some(mtu) = request.number(IFINFOMSG, c::IFLA_MTU)? {
            let words = match mtu as usize > self.net.interfaces[number].mtu {
                true => "mtu greater than device maximum",
                false => "mtu less than device minimum",
            };
            self.set_mtu(number, mtu).map_err(|errno| refusal(errno, words))?;
        }
        if let Some(mac) = request.attribute(IFINFOMSG, c::IFLA_ADDRESS) {
            self.set_mac(number, mac)?;
        }
        self.set_link_settings(request, number)?;
        let (flags, change) = (request.word(8)?, request.word(12)?);
        if flags != 0 || change != 0 {
            let before = interface_flags(&self.net.interfaces[number]);
            // Without a change mask, as from old programs, all flags apply.
            let flags = if change == 0 { flags } else { flags & change | before & !change };
            self.set_flags(number, flags);
        }
        self.link_changed(number);
        Ok(())
    }

    /// Sets the group, queue length and alias in a request.
    pub(super) fn set_link_settings(&mut self, request: &Request<'_>, number: usize) -> Result<(), Refusal> {
        let alias = request.attribute(IFINFOMSG, IFLA_IFALIAS);
        let alias = alias.map(|alias| alias.strip_suffix(&[0]).unwrap_or(alias));
        if alias.is_some_and(|alias| alias.len() > ALIAS_MAX) {
            return Err(Errno::EINVAL.into());
        }
        let (group, length) =
            (request.number(IFINFOMSG, IFLA_GROUP)?, request.number(IFINFOMSG, IFLA_TXQLEN)?);
        let settings = &mut self.net.interfaces[number].settings;
        settings.group = group.unwrap_or(settings.group);
        settings.queue_len = length.or(settings.queue_len);
        if let Some(alias) = alias {
            settings.alias = (!alias.is_empty()).then(|| alias.into());
        }
        Ok(())
    }

    /// Notifies the netlink group that an interface was deleted.
    pub(crate) fn link_gone(&mut self, number: usize) {
        let message = self.link_message(c::RTM_DELLINK, number, (0, 0, 0));
        self.announce(group::LINK, &message);
    }

    /// Notifies the netlink group that an interface has changed.
    pub fn link_changed(&mut self, number: usize) {
        let message = self.link(number, 0, 0, 0);
        self.announce(group::LINK, &message);
    }
}
