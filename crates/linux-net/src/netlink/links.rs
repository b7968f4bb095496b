//! Interfaces in rtnetlink: `RTM_NEWLINK`, `RTM_GETLINK`.

use super::addresses::LEAST_MTU;
use super::attributes;
use super::bridge_links::set_master;
use super::group;
use super::ipvlan_links::stays_with_lower;
use super::message::{MULTI, Message, Request, To, attribute};
use super::new_links::{INFO_DATA, INFO_KIND, INFO_SLAVE_DATA, KindWanted, kind_of, link_info};
use super::policies;
use super::policy::{CLOSED, LIBERAL};
use super::refusal::{Refusal, invalid, refusal};
use crate::Admin;
use crate::counters::InterfaceCounters;
use crate::ioctl::interface_flags;
use belljar_linux_abi::{Errno, c};
use belljar_netstack::devices::{ip_tunnel_state, wireguard};
use belljar_netstack::interface::{Attachment, DeviceKind, Interface};
use belljar_netstack::interface_index;
use belljar_netstack::v6;

pub(super) const IFLA_LINK: u16 = 5;
pub(super) const IFLA_LINKINFO: u16 = 18;
const IFLA_STATS: u16 = 7;
const IFLA_TXQLEN: u16 = 13;
pub(super) const IFLA_OPERSTATE: u16 = 16;
const IFLA_LINKMODE: u16 = 17;
const IFLA_IFALIAS: u16 = 20;
pub(super) const IFLA_GROUP: u16 = 27;
const IFLA_PROMISCUITY: u16 = 30;
const IFLA_ALLMULTI: u16 = 61;
pub(super) const IFLA_MASTER: u16 = 10;
const IFLA_EXT_MASK: u16 = 29;
const IFLA_CARRIER: u16 = 33;
const IFLA_PROTO_DOWN: u16 = 39;
const IFLA_TARGET_NETNSID: u16 = 46;
const IFLA_ALT_IFNAME: u16 = 53;
/// Maximum length of an interface name in bytes.
pub(super) const NAME_MAX: usize = 15;
const IFLA_STATS64: u16 = 23;
/// Values of `IFLA_OPERSTATE`.
const IF_OPER_UNKNOWN: u8 = 0;
const IF_OPER_DOWN: u8 = 2;
const IF_OPER_LOWERLAYERDOWN: u8 = 3;
const IF_OPER_UP: u8 = 6;
/// Length of `struct ifinfomsg` in bytes.
pub(super) const IFINFOMSG: usize = 16;

/// `IFLA_OPERSTATE` of an interface.
pub(super) fn oper_state(interface: &Interface) -> u8 {
    let unknown = match interface.attachment {
        Attachment::Loopback | Attachment::Tun(_) | Attachment::Tap(_) => true,
        Attachment::Dummy | Attachment::Ifb => true,
        // A bridge gets the state of its ports once it has had one.
        Attachment::Made(DeviceKind::Bridge) => interface.carrier_changes == (0, 0),
        Attachment::Made(kind) => !kind.has_carrier(),
        _ => false,
    };
    match (unknown, interface.is_running()) {
        (true, true) => IF_OPER_UNKNOWN,
        (false, true) => IF_OPER_UP,
        (_, false) if interface.settings.held_state != 0 => interface.settings.held_state,
        (_, false) if interface.waits_for_below() => IF_OPER_LOWERLAYERDOWN,
        (_, false) => IF_OPER_DOWN,
    }
}

/// Checks the lengths of hardware addresses in a request (`validate_linkmsg`).
pub(super) fn check_addresses(request: &Request<'_>) -> Result<(), Errno> {
    let short = |kind| request.attribute(IFINFOMSG, kind).is_some_and(|value| value.len() < 6);
    if short(c::IFLA_ADDRESS) || short(c::IFLA_BROADCAST) { Err(Errno::EINVAL) } else { Ok(()) }
}

/// Interface index in a request, signed as in Linux.
fn index_given(request: &Request<'_>) -> Result<i32, Errno> {
    Ok(request.word(4)? as i32)
}

/// Name of the interface that a request asks for, by `IFLA_IFNAME` or else `IFLA_ALT_IFNAME`.
fn name_given<'a>(request: &Request<'a>) -> Option<&'a [u8]> {
    let name = request.attribute(IFINFOMSG, c::IFLA_IFNAME);
    name.or(request.attribute(IFINFOMSG, IFLA_ALT_IFNAME)).map(bare)
}

/// Text up to its NUL byte, as long as an interface name may be.
pub(super) fn bare(name: &[u8]) -> &[u8] {
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    &name[..end.min(NAME_MAX)]
}

/// Refuses references to network namespaces in requests that take none or only one (`rtnl_ensure_unique_netns`).
pub(super) fn check_namespaces(request: &Request<'_>, by_id_only: bool) -> Result<(), Refusal> {
    let named = [c::IFLA_NET_NS_PID, c::IFLA_NET_NS_FD, IFLA_TARGET_NETNSID];
    let given = |kind: &&u16| request.attribute(IFINFOMSG, **kind).is_some();
    if by_id_only && named[..2].iter().any(|kind| given(&kind)) {
        return Err(refusal(Errno::EOPNOTSUPP, "specified netns attribute not supported"));
    }
    match named.iter().filter(given).count() {
        0 | 1 => Ok(()),
        _ => Err(refusal(Errno::EINVAL, "multiple netns identifying attributes specified")),
    }
}

impl Admin<'_> {
    /// Handles a dump of the interfaces (`rtnl_dump_ifinfo`).
    pub(crate) fn dump_links(&self, request: &Request<'_>, port: u32) -> Result<Vec<Vec<u8>>, Refusal> {
        let mut wanted_master = 0;
        let mut wanted_kind = None;
        if request.strict {
            let head = request.body.get(..IFINFOMSG);
            let head = head.ok_or(refusal(Errno::EINVAL, "Invalid header for link dump"))?;
            if head[1..4] != [0; 3] || head[8..] != [0; 8] {
                return Err(refusal(Errno::EINVAL, "Invalid values in header for link dump request"));
            }
            if head[4..8] != [0; 4] {
                return Err(refusal(Errno::EINVAL, "Filter by device index not supported for link dumps"));
            }
        }
        let header = if request.body.len() < IFINFOMSG { 1 } else { IFINFOMSG };
        let degree = if request.strict { CLOSED } else { LIBERAL };
        // Messages of a liberal check are lost: the extended ack is that of the last part of the dump.
        let silent = request.silent();
        let checked = if request.strict { request } else { &silent };
        match checked.validate(header, &policies::LINK, degree) {
            Err(refusal) if request.strict => return Err(refusal),
            Err(_) => {}
            Ok(()) => {
                for (kind, value) in request.attributes(header.next_multiple_of(4)) {
                    match kind {
                        IFLA_MASTER => {
                            wanted_master = value.first_chunk().map_or(0, |index| u32::from_ne_bytes(*index))
                        }
                        IFLA_LINKINFO => wanted_kind = attribute(value, INFO_KIND).map(bare),
                        IFLA_TARGET_NETNSID | IFLA_EXT_MASK => {}
                        0 => {}
                        _ if request.strict && kind <= policies::LINK.max => {
                            let words = "Unsupported attribute in link dump request";
                            return Err(refusal(Errno::EINVAL, words));
                        }
                        _ => {}
                    }
                }
            }
        }
        let shown = |number: &usize| {
            let interface = &self.net.interfaces[*number];
            let kind = kind_of(interface);
            // Interfaces of kinds that do not exist are not filtered.
            let known = |wanted: &[u8]| {
                [&b"veth"[..], b"dummy", b"vlan", b"ifb"].contains(&wanted)
                    || DeviceKind::ALL.iter().any(|kind| kind.name().as_bytes() == wanted)
            };
            let master = interface.master.map_or(0, interface_index);
            interface.exists()
                && (wanted_master == 0 || wanted_master == master)
                && wanted_kind.is_none_or(|wanted| !known(wanted) || kind.as_bytes() == wanted)
        };
        let all = (0..self.net.interfaces.len()).filter(shown);
        Ok(all.map(|number| self.link(number, request.sequence, MULTI, port)).collect())
    }

    /// Handles `ip link show dev` (`rtnl_getlink`).
    pub(crate) fn get_link(&self, request: &Request<'_>, port: u32) -> Result<Vec<u8>, Refusal> {
        let Some(head) = request.body.get(..IFINFOMSG) else {
            return invalid("Invalid header for get link");
        };
        if request.strict && (head[1..4] != [0; 3] || head[8..] != [0; 8]) {
            return invalid("Invalid values in header for get link request");
        }
        request.validate(IFINFOMSG, &policies::LINK, if request.strict { CLOSED } else { LIBERAL })?;
        let allowed = [c::IFLA_IFNAME, IFLA_ALT_IFNAME, IFLA_EXT_MASK, IFLA_TARGET_NETNSID];
        if request.strict && request.attributes(IFINFOMSG).any(|(kind, _)| !allowed.contains(&kind)) {
            return invalid("Unsupported attribute in get link request");
        }
        check_namespaces(request, true)?;
        let number = self.link_named(request)?;
        Ok(self.link(number, request.sequence, 0, port))
    }

    /// Interface that a request names, by index or name.
    pub(crate) fn link_named(&self, request: &Request<'_>) -> Result<usize, Errno> {
        let found = match (index_given(request)?, name_given(request)) {
            (index @ 1.., _) => self.net.interfaces.by_index(index as u32),
            (_, Some(name)) => self.net.interfaces.by_name(name),
            (_, None) => return Err(Errno::EINVAL),
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
        let usual = if loopback { [0; 6] } else { [0xff; 6] };
        let broadcast = interface.settings.broadcast.unwrap_or(usual);
        let name = [interface.name.as_bytes(), &[0]].concat();
        let state = oper_state(interface);
        let info = link_info(self.net, number);
        let qdisc = [self.qdisc(number).as_bytes(), &[0]].concat();
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
            .attribute(IFLA_LINKMODE, &[interface.settings.link_mode])
            .attribute(c::IFLA_MTU, &(interface.mtu as u32).to_ne_bytes())
            .attribute(IFLA_GROUP, &interface.settings.group.to_ne_bytes())
            .attribute(IFLA_PROMISCUITY, &(promiscuous + given(c::IFF_PROMISC)).to_ne_bytes())
            .attribute(IFLA_ALLMULTI, &(all_groups + given(c::IFF_ALLMULTI)).to_ne_bytes());
        let (info, below) = info.unzip();
        let message = match interface.master {
            Some(master) => message.attribute(IFLA_MASTER, &interface_index(master).to_ne_bytes()),
            None => message,
        };
        let message = message.attribute(c::IFLA_QDISC, &qdisc);
        let message = match &interface.settings.alias {
            Some(alias) => message.attribute(IFLA_IFALIAS, &[alias, &[0][..]].concat()),
            None => message,
        };
        let message = message.attribute(IFLA_PROTO_DOWN, &[0]);
        let message = match interface.attachment {
            Attachment::Tun(_) | Attachment::Made(DeviceKind::Wireguard) => message,
            Attachment::Made(DeviceKind::Gre | DeviceKind::Ipip | DeviceKind::Sit | DeviceKind::Ip6tnl) => {
                let tunnel = self.net.devices.as_ref().and_then(|devices| devices.tunnels.get(&number));
                let ends = tunnel.map(|tunnel| {
                    [tunnel.local, tunnel.remote].map(|ip| ip_tunnel_state::address_bytes(tunnel, ip))
                });
                let [local, remote] = ends.unwrap_or_default();
                message.attribute(c::IFLA_ADDRESS, &local).attribute(c::IFLA_BROADCAST, &remote)
            }
            _ => message.attribute(c::IFLA_ADDRESS, &interface.mac).attribute(c::IFLA_BROADCAST, &broadcast),
        };
        let message = message.attribute(IFLA_STATS64, &stats64).attribute(IFLA_STATS, &stats);
        let message = info.iter().fold(message, |message, info| message.attribute(IFLA_LINKINFO, info));
        match below.flatten() {
            Some(below) => message.attribute(IFLA_LINK, &interface_index(below).to_ne_bytes()),
            None => message,
        }
        .finish()
    }

    /// Handles `RTM_NEWLINK`: a change of an interface, of a group, or a new interface (`rtnl_newlink`).
    pub(crate) fn change_link(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        request.validate(IFINFOMSG, &policies::LINK, LIBERAL)?;
        let wanted = self.kind_wanted(request)?;
        check_namespaces(request, false)?;
        let index = index_given(request)?;
        if index < 0 {
            return Err(refusal(Errno::EINVAL, "ifindex can't be negative"));
        }
        let has = |flag: i32| i32::from(request.flags) & flag != 0;
        match self.link_named(request) {
            Ok(_) if has(c::NLM_F_EXCL) => Err(Errno::EEXIST.into()),
            Ok(_) if has(c::NLM_F_REPLACE) => Err(Errno::EOPNOTSUPP.into()),
            Ok(number) => self.change_existing(request, number, &wanted),
            Err(_) if has(c::NLM_F_CREATE) => self.new_link(request, wanted),
            Err(Errno::EINVAL) => match request.number(IFINFOMSG, IFLA_GROUP)? {
                Some(group) => self.change_group(request, group),
                None => Err(Errno::ENODEV.into()),
            },
            Err(errno) => Err(errno.into()),
        }
    }

    /// Applies a request with the data of a kind to an interface (`rtnl_changelink`).
    fn change_existing(
        &mut self,
        request: &Request<'_>,
        number: usize,
        wanted: &KindWanted,
    ) -> Result<(), Refusal> {
        let data = request.attribute(IFINFOMSG, IFLA_LINKINFO);
        if let Some(data) = data.and_then(|info| attribute(info, INFO_DATA)) {
            self.change_device(request, number, (wanted, data))?;
        }
        if let Some(data) = data.and_then(|info| attribute(info, INFO_SLAVE_DATA)) {
            self.change_port_data(request, number, data)?;
        }
        self.change_one_link(request, number)
    }

    /// Applies a request to the interfaces of a group.
    fn change_group(&mut self, request: &Request<'_>, group: u32) -> Result<(), Refusal> {
        for number in 0..self.net.interfaces.len() {
            let interface = &self.net.interfaces[number];
            if interface.exists() && interface.settings.group == group {
                self.change_one_link(request, number)?;
            }
        }
        Ok(())
    }

    /// Handles `RTM_SETLINK` (`rtnl_setlink`).
    pub(crate) fn set_link_named(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        request.validate(IFINFOMSG, &policies::LINK, LIBERAL)?;
        check_namespaces(request, false)?;
        let number = self.link_named(request)?;
        self.change_one_link(request, number)
    }

    /// Applies a request to an interface (`do_setlink`): each change in turn, so that those before an error
    /// remain.
    fn change_one_link(&mut self, request: &Request<'_>, number: usize) -> Result<(), Refusal> {
        check_addresses(request)?;
        self.look_through(request, &attributes::LINK)?;
        let network = self.network_asked(request)?;
        let attachment = self.net.interfaces[number].attachment;
        let movable = matches!(attachment, Attachment::Dummy | Attachment::Veth { .. } | Attachment::Ifb);
        let renamable = movable || matches!(attachment, Attachment::Made(_));
        if network.is_some() && !movable {
            if stays_with_lower(attachment)
                || !matches!(attachment, Attachment::Loopback | Attachment::Made(_))
            {
                self.warn(
                    "rtnetlink: interfaces of the experiment, VLANs, macvlans and ipvlans stay in their network namespace",
                );
            }
            return Err(refusal(Errno::EINVAL, "The interface netns is immutable"));
        }
        let name = request.attribute(IFINFOMSG, c::IFLA_IFNAME).map(bare).filter(|name| !name.is_empty());
        let renamed = name.filter(|_| request.word(4).is_ok_and(|index| index != 0));
        if let Some(network) = network {
            let name = renamed.unwrap_or(self.net.interfaces[number].name.as_bytes());
            self.check_free(&String::from_utf8_lossy(name), Some(network))?;
        }
        if let Some(mac) = request.attribute(IFINFOMSG, c::IFLA_ADDRESS) {
            if self.net.interfaces[number].mac != mac[..6] {
                self.set_mac(number, &mac[..6])?;
            }
            self.forget_neighbours(number);
        }
        if let Some(mtu) = request.number(IFINFOMSG, c::IFLA_MTU)? {
            self.change_mtu(number, mtu)?;
        }
        if let Some(group) = request.number(IFINFOMSG, IFLA_GROUP)? {
            self.net.interfaces[number].settings.group = group;
        }
        if let Some(name) = renamed {
            self.rename(number, name, renamable)?;
        }
        self.set_alias(request, number);
        if let Some(broadcast) = request.attribute(IFINFOMSG, c::IFLA_BROADCAST) {
            self.net.interfaces[number].settings.broadcast = broadcast[..6].try_into().ok();
            self.forget_neighbours(number);
        }
        if let Some(master) = request.number(IFINFOMSG, IFLA_MASTER)? {
            set_master(self, number, master)?;
        }
        self.set_flags_given(request, number)?;
        if request.attribute(IFINFOMSG, IFLA_CARRIER).is_some() {
            return Err(Errno::EOPNOTSUPP.into());
        }
        let mode = self.net.interfaces[number].settings.link_mode;
        self.set_later_settings(request, number)?;
        let noticed = [c::IFLA_ADDRESS, IFLA_GROUP, IFLA_IFALIAS];
        if self.net.interfaces[number].settings.link_mode != mode
            || noticed.iter().any(|kind| request.attribute(IFINFOMSG, *kind).is_some())
        {
            self.interface_changed(number);
        }
        self.link_changed(number);
        if let Some(network) = network {
            self.move_link(number, network);
        }
        Ok(())
    }

    /// Sets the flags in a request (`rtnl_dev_combine_flags`): without a change mask, as from old programs, all
    /// flags apply.
    pub(super) fn set_flags_given(&mut self, request: &Request<'_>, number: usize) -> Result<(), Errno> {
        let (flags, change) = (request.word(8)?, request.word(12)?);
        if flags != 0 || change != 0 {
            let before = interface_flags(&self.net.interfaces[number]);
            let flags = if change == 0 { flags } else { flags & change | before & !change };
            // A port that is taken keeps the interface down.
            let starts = flags & c::IFF_UP as u32 != 0 && before & c::IFF_UP as u32 == 0;
            if starts && let Some(port) = wireguard::device(self.net, number).map(|device| device.port) {
                wireguard::claim_port(self.net, number, port, true)?;
            }
            self.set_flags(number, flags);
        }
        Ok(())
    }

    /// Changes the MTU, with Linux's messages of refusal.
    fn change_mtu(&mut self, number: usize, mtu: u32) -> Result<(), Refusal> {
        let words = match mtu as i32 >= 0 && mtu as usize > self.net.interfaces[number].mtu {
            true => "mtu greater than device maximum",
            false => "mtu less than device minimum",
        };
        let before = self.net.interfaces[number].mtu;
        // A limit of the device itself has no words.
        let of_kind = (LEAST_MTU..=65_535).contains(&(mtu as usize));
        self.set_mtu(number, mtu)
            .map_err(|errno| if of_kind { errno.into() } else { refusal(errno, words) })?;
        v6::mtu_changed(self.net, number, before);
        if (mtu as usize) < LEAST_MTU {
            for own in self.net.interfaces[number].addresses.clone().into_iter().rev() {
                // The address exists.
                let _ = self.delete_address(number, own);
            }
        }
        Ok(())
    }

    /// Renames an interface (`netif_change_name`).
    fn rename(&mut self, number: usize, name: &[u8], movable: bool) -> Result<(), Refusal> {
        if name == self.net.interfaces[number].name.as_bytes() {
            return Ok(());
        }
        let name = self.name_wanted(&String::from_utf8_lossy(name), None)?;
        if !movable {
            self.warn("interfaces of the experiment and VLANs cannot be renamed while a host runs");
            return Err(Errno::EBUSY.into());
        }
        self.net.interfaces[number].name = name.into();
        self.net.interfaces.relabel(number);
        for own in self.net.interfaces[number].addresses.clone() {
            self.announce_address(number, &own, true);
        }
        Ok(())
    }

    fn set_alias(&mut self, request: &Request<'_>, number: usize) {
        let Some(alias) = request.attribute(IFINFOMSG, IFLA_IFALIAS) else { return };
        let end = alias.iter().position(|byte| *byte == 0).unwrap_or(alias.len());
        self.net.interfaces[number].settings.alias = (end > 0).then(|| alias[..end].into());
    }

    /// Sets the queue length, operational state and link mode in a request.
    fn set_later_settings(&mut self, request: &Request<'_>, number: usize) -> Result<(), Refusal> {
        let length = request.number(IFINFOMSG, IFLA_TXQLEN)?;
        let byte = |kind| request.attribute(IFINFOMSG, kind).and_then(|value| value.first().copied());
        let settings = &mut self.net.interfaces[number].settings;
        settings.queue_len = length.or(settings.queue_len);
        settings.link_mode = byte(IFLA_LINKMODE).unwrap_or(settings.link_mode);
        if byte(IFLA_PROTO_DOWN).is_some() {
            return Err(refusal(Errno::EOPNOTSUPP, "Protodown not supported by device"));
        }
        Ok(())
    }

    /// Sets the group, queue length and alias of a new interface.
    pub(super) fn set_link_settings(&mut self, request: &Request<'_>, number: usize) -> Result<(), Refusal> {
        let group = request.number(IFINFOMSG, IFLA_GROUP)?;
        let length = request.number(IFINFOMSG, IFLA_TXQLEN)?;
        let mode = request.attribute(IFINFOMSG, IFLA_LINKMODE).and_then(|value| value.first().copied());
        let broadcast = request.attribute(IFINFOMSG, c::IFLA_BROADCAST);
        let settings = &mut self.net.interfaces[number].settings;
        settings.group = group.unwrap_or(settings.group);
        settings.queue_len = length.or(settings.queue_len);
        settings.link_mode = mode.unwrap_or(settings.link_mode);
        settings.broadcast = broadcast.and_then(|value| value[..6].try_into().ok());
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
