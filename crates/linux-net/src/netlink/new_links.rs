//! Creation and deletion of interfaces by rtnetlink: `RTM_NEWLINK` with a kind, and `RTM_DELLINK`.

use super::attributes;
use super::bond_links::{bond_data, bond_port_data, change_bond, check_bond_data};
use super::bridge_links::{bridge_data, port_data};
use super::bridge_links::{change_bridge, change_port, check_bridge_data, set_master};
use super::ipvlan_links::{change_ipvlan, ipvlan_wanted, make_ipvlan};
use super::ipvlan_links::{ipvlan_data, stays_with_lower};
use super::links::{
    IFINFOMSG, IFLA_GROUP, IFLA_LINK, IFLA_LINKINFO, IFLA_MASTER, NAME_MAX, bare, check_addresses,
};
use super::macvlan_links::{below, macvlan_data};
use super::macvlan_links::{change_macvlan, macvlan_wanted, make_macvlan};
use super::message::{Request, attribute, put};
use super::networks::PeerWanted;
use super::policies;
use super::policy::LIBERAL;
use super::refusal::{Refusal, refusal};
use super::tunnel_links::tunnel_data;
use super::tunnel_links::{change_tunnel, check_tunnel_data, make_tunnel};
use super::vxlan_links::vxlan_data;
use super::vxlan_links::{change_vxlan, check_vxlan_data, make_vxlan};
use crate::Admin;
use crate::interfaces::LEAST_MTU;
use belljar_linux_abi::{Errno, c};
use belljar_netstack::Stack;
use belljar_netstack::devices::{self, bond, ipvlan, vrf, wireguard};
use belljar_netstack::interface::{Attachment, DeviceKind, Interface};
use belljar_netstack::virtual_links::{TAGGED, add_virtual_at};

/// Nested attributes of `IFLA_LINKINFO`.
pub(super) const INFO_KIND: u16 = 1;
pub(super) const INFO_DATA: u16 = 2;
const INFO_SLAVE_KIND: u16 = 4;
/// `IFLA_VRF_TABLE`, and `IFLA_VRF_PORT_TABLE` of a port.
const VRF_TABLE: u16 = 1;
/// `IP6_MAX_MTU`, the MTU of a VRF.
const VRF_MTU: usize = 65_575;
pub(super) const INFO_SLAVE_DATA: u16 = 5;
/// Nested attributes of a VLAN's `IFLA_INFO_DATA`.
const VLAN_ID: u16 = 1;
const VLAN_FLAGS: u16 = 2;
const VLAN_PROTOCOL: u16 = 5;
/// Maximum nesting depth of VLANs (`MAX_NEST_DEV` in Linux).
const MAX_NEST_DEV: usize = 8;
/// Highest index that a request for an interface may choose, as the interfaces are an array.
const LAST_CHOSEN_INDEX: u32 = 4_096;
/// Highest VLAN id.
const LAST_VLAN: u16 = 4_094;
/// `VLAN_FLAG_REORDER_HDR`: packet sockets see frames without the tag.
const REORDER_HDR: u32 = 1;

/// Text up to its NUL byte.
pub(super) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// `IFLA_LINKINFO` of an interface, and the number of its underlying interface or peer.
pub(super) fn link_info(net: &Stack, number: usize) -> Option<(Vec<u8>, Option<usize>)> {
    let (mut info, below) = kind_info(net, number);
    if let Some((_, port)) = devices::port_of(net, number) {
        put(&mut info, INFO_SLAVE_KIND, b"bridge\0");
        put(&mut info, INFO_SLAVE_DATA, &port_data(port, net.clock.now()));
    }
    if let Some(port) = bond::port(net, number) {
        put(&mut info, INFO_SLAVE_KIND, b"bond\0");
        put(&mut info, INFO_SLAVE_DATA, &bond_port_data(port));
    }
    if let Some(table) = net.interfaces[number].master.and_then(|master| vrf::table(net, master)) {
        let mut data = Vec::new();
        put(&mut data, VRF_TABLE, &table.to_ne_bytes());
        put(&mut info, INFO_SLAVE_KIND, b"vrf\0");
        put(&mut info, INFO_SLAVE_DATA, &data);
    }
    (!info.is_empty() || below.is_some()).then_some((info, below))
}

/// `IFLA_LINKINFO` about the kind of an interface.
fn kind_info(net: &Stack, number: usize) -> (Vec<u8>, Option<usize>) {
    let (interface, own) = (&net.interfaces[number], net.number);
    let mut info = Vec::new();
    match interface.attachment {
        Attachment::Dummy => put(&mut info, INFO_KIND, b"dummy\0"),
        Attachment::Ifb => put(&mut info, INFO_KIND, b"ifb\0"),
        Attachment::Veth { network, peer } => {
            put(&mut info, INFO_KIND, b"veth\0");
            return (info, Some(peer).filter(|_| network == own));
        }
        Attachment::Vlan { below, id } => {
            let mut data = Vec::new();
            put(&mut data, VLAN_PROTOCOL, &TAGGED.to_be_bytes());
            put(&mut data, VLAN_ID, &id.to_ne_bytes());
            put(&mut data, VLAN_FLAGS, &[REORDER_HDR.to_ne_bytes(), u32::MAX.to_ne_bytes()].concat());
            put(&mut info, INFO_KIND, b"vlan\0");
            put(&mut info, INFO_DATA, &data);
            return (info, Some(below));
        }
        Attachment::Made(kind) => {
            put(&mut info, INFO_KIND, &[kind.name().as_bytes(), &[0]].concat());
            let data = match kind {
                DeviceKind::Bridge => {
                    devices::bridge(net, number).map(|bridge| bridge_data(bridge, net.clock.now()))
                }
                DeviceKind::Bond => bond::bond(net, number).map(bond_data),
                DeviceKind::Macvlan => {
                    net.devices.as_ref().and_then(|devices| devices.macvlans.get(&number)).map(macvlan_data)
                }
                DeviceKind::Ipvlan => ipvlan::settings(net, number).as_ref().map(ipvlan_data),
                DeviceKind::Vrf => vrf::table(net, number).map(|table| {
                    let mut data = Vec::new();
                    put(&mut data, VRF_TABLE, &table.to_ne_bytes());
                    data
                }),
                DeviceKind::Gre
                | DeviceKind::Gretap
                | DeviceKind::Ipip
                | DeviceKind::Sit
                | DeviceKind::Ip6tnl
                | DeviceKind::Geneve => {
                    net.devices.as_ref().and_then(|devices| devices.tunnels.get(&number)).map(tunnel_data)
                }
                DeviceKind::Vxlan => {
                    net.devices.as_ref().and_then(|devices| devices.vxlans.get(&number)).map(vxlan_data)
                }
                // Its settings are those of a family of generic netlink.
                DeviceKind::Wireguard => None,
            };
            data.iter().for_each(|data| put(&mut info, INFO_DATA, data));
            return (info, below(net, number).or_else(|| ipvlan::below(net, number)));
        }
        _ => {}
    }
    (info, None)
}

/// Checks a hardware address and MTU of an Ethernet interface (`veth_validate`).
pub(super) fn check_ethernet(mac: Option<&[u8]>, mtu: Option<u32>) -> Result<(), Errno> {
    if let Some(mac) = mac {
        let mac: [u8; 6] = mac.try_into().map_err(|_| Errno::EINVAL)?;
        if mac[0] & 1 != 0 || mac == [0; 6] {
            return Err(Errno::EADDRNOTAVAIL);
        }
    }
    if mtu.is_some_and(|mtu| !(LEAST_MTU..=65_535).contains(&mtu)) { Err(Errno::EINVAL) } else { Ok(()) }
}

/// Checks the MTU of a new interface (`dev_validate_mtu`).
pub(super) fn check_mtu(mtu: Option<u32>) -> Result<(), Refusal> {
    match mtu {
        Some(mtu) if mtu < LEAST_MTU || mtu as i32 <= 0 => {
            Err(refusal(Errno::EINVAL, "mtu less than device minimum"))
        }
        Some(mtu) if mtu > 65_535 => Err(refusal(Errno::EINVAL, "mtu greater than device maximum")),
        _ => Ok(()),
    }
}

/// Checks that an interface name is valid: `EINVAL`.
pub(super) fn checked_name(name: &str) -> Result<(), Errno> {
    let valid = !name.is_empty()
        && name.len() <= NAME_MAX
        && !name.contains(['/', ':'])
        && name != "."
        && name != "..";
    if valid && !name.chars().any(|c| c.is_ascii_whitespace()) { Ok(()) } else { Err(Errno::EINVAL) }
}

/// Kind of a tunnel with two ends, by its name in rtnetlink.
fn tunnel_kind(name: &str) -> Option<DeviceKind> {
    let kind = DeviceKind::ALL.into_iter().find(|kind| kind.name() == name)?;
    use DeviceKind::{Bond, Bridge, Ipvlan, Macvlan, Vrf, Vxlan, Wireguard};
    (!matches!(kind, Bridge | Bond | Vxlan | Vrf | Macvlan | Ipvlan | Wireguard)).then_some(kind)
}

/// Kind of an interface, as in `IFLA_INFO_KIND`; empty without one.
pub(super) fn kind_of(interface: &Interface) -> &'static str {
    match interface.attachment {
        Attachment::Dummy => "dummy",
        Attachment::Ifb => "ifb",
        Attachment::Made(kind) => kind.name(),
        Attachment::Veth { .. } => "veth",
        Attachment::Vlan { .. } => "vlan",
        _ => "",
    }
}

/// Kind of interface in a request, with its data.
pub(super) struct KindWanted {
    kind: Option<String>,
    /// Peer of a veth pair.
    peer: Option<PeerWanted>,
}

impl Admin<'_> {
    /// Unused interface name of a stem and a number.
    pub(super) fn free_name(&self, stem: &str, rest: &str) -> String {
        let name = |n: u32| format!("{stem}{n}{rest}");
        let free = |n: &u32| self.net.interfaces.by_name(name(*n).as_bytes()).is_none();
        name((0..).find(free).unwrap_or(0))
    }

    /// Name for an interface (`dev_get_valid_name`): one with `%d` gets a number, another must be free here or
    /// in another network namespace.
    pub(super) fn name_wanted(&self, name: &str, network: Option<u32>) -> Result<String, Errno> {
        checked_name(name)?;
        if let Some((stem, rest)) = name.split_once('%') {
            let rest = rest.strip_prefix('d').filter(|rest| !rest.contains('%')).ok_or(Errno::EINVAL)?;
            return Ok(self.free_name(stem, rest));
        }
        self.check_free(name, network)?;
        Ok(name.to_owned())
    }

    /// Decodes the kind of interface in a request, and validates its data.
    pub(super) fn kind_wanted(&mut self, request: &Request<'_>) -> Result<KindWanted, Refusal> {
        let mut wanted = KindWanted { kind: None, peer: None };
        let Some(info) = request.attribute(IFINFOMSG, IFLA_LINKINFO) else { return Ok(wanted) };
        // Without an extended ack, as in Linux.
        policies::LINK_INFO.validate(&request.silent(), info, 0, LIBERAL).map_err(|r| r.errno)?;
        wanted.kind = attribute(info, INFO_KIND).map(text);
        let data = attribute(info, INFO_DATA);
        match wanted.kind.as_deref() {
            Some("veth") => {
                if let Some(data) = data {
                    policies::VETH.validate(request, data, request.offset_of(data), LIBERAL)?;
                }
                let mac = request.attribute(IFINFOMSG, c::IFLA_ADDRESS);
                check_ethernet(mac, request.number(IFINFOMSG, c::IFLA_MTU)?)?;
                wanted.peer = Some(self.peer_wanted(request, data)?);
            }
            Some("dummy" | "ifb") => {
                check_ethernet(request.attribute(IFINFOMSG, c::IFLA_ADDRESS), None)?;
            }
            Some(kind) if let Some(kind) = tunnel_kind(kind) => {
                if kind.is_ethernet() {
                    check_ethernet(request.attribute(IFINFOMSG, c::IFLA_ADDRESS), None)?;
                }
                check_tunnel_data(&mut |text| self.warn(text), request, kind, data)?;
            }
            Some("macvlan") => {
                check_ethernet(request.attribute(IFINFOMSG, c::IFLA_ADDRESS), None)?;
                macvlan_wanted(&mut |text| self.warn(text), data)?;
            }
            Some("ipvlan") => {
                check_ethernet(request.attribute(IFINFOMSG, c::IFLA_ADDRESS), None)?;
                ipvlan_wanted(request, data)?;
            }
            Some("vrf") => {
                check_ethernet(request.attribute(IFINFOMSG, c::IFLA_ADDRESS), None)?;
                let table = data.and_then(|data| attribute(data, VRF_TABLE));
                match table.and_then(|table| table.first_chunk().copied()).map(u32::from_ne_bytes) {
                    None => return Err(refusal(Errno::EINVAL, "VRF table id is missing")),
                    Some(0) => return Err(refusal(Errno::EINVAL, "Invalid VRF table id")),
                    _ => {}
                }
            }
            Some("vxlan") => {
                let mac = request.attribute(IFINFOMSG, c::IFLA_ADDRESS);
                check_ethernet(mac, None)?;
                check_vxlan_data(self, request, data)?;
            }
            Some("bond") => {
                check_ethernet(request.attribute(IFINFOMSG, c::IFLA_ADDRESS), None)?;
                if let Some(data) = data {
                    check_bond_data(&mut |text| self.warn(text), request, data)?;
                }
            }
            Some("bridge") => {
                check_ethernet(request.attribute(IFINFOMSG, c::IFLA_ADDRESS), None)?;
                if let Some(data) = data {
                    check_bridge_data(self, request, data)?;
                }
            }
            _ => {}
        }
        Ok(wanted)
    }

    /// Handles `ip link add`: dummy, VLAN and veth interfaces (`rtnl_newlink_create`).
    pub(super) fn new_link(&mut self, request: &Request<'_>, wanted: KindWanted) -> Result<(), Refusal> {
        const IFLA_MAP: u16 = 14;
        const IFLA_PROTINFO: u16 = 12;
        if [IFLA_MAP, IFLA_PROTINFO].iter().any(|kind| request.attribute(IFINFOMSG, *kind).is_some()) {
            return Err(Errno::EOPNOTSUPP.into());
        }
        let kind = wanted.kind.unwrap_or_default();
        let network = self.network_asked(request)?;
        let data = request.attribute(IFINFOMSG, IFLA_LINKINFO).and_then(|info| attribute(info, INFO_DATA));
        let attachment = match &*kind {
            "dummy" | "veth" => Attachment::Dummy,
            "ifb" => Attachment::Ifb,
            "bridge" => Attachment::Made(DeviceKind::Bridge),
            "bond" => Attachment::Made(DeviceKind::Bond),
            "vxlan" => Attachment::Made(DeviceKind::Vxlan),
            "vrf" => Attachment::Made(DeviceKind::Vrf),
            "macvlan" => Attachment::Made(DeviceKind::Macvlan),
            "ipvlan" => Attachment::Made(DeviceKind::Ipvlan),
            "wireguard" => Attachment::Made(DeviceKind::Wireguard),
            kind if let Some(kind) = tunnel_kind(kind) => Attachment::Made(kind),
            "vlan" => {
                let (below, id) = self.vlan_wanted(request, data)?;
                Attachment::Vlan { below, id }
            }
            _ => {
                if !kind.is_empty() {
                    self.warn(format!(
                        "rtnetlink: interfaces of kind '{kind}' are not supported and refused"
                    ));
                }
                return Err(refusal(Errno::EOPNOTSUPP, "Unknown device type"));
            }
        };
        if network.is_some() && stays_with_lower(attachment) {
            self.warn(format!(
                "{kind}: interfaces in another network namespace than their lower one are refused"
            ));
            return Err(refusal(Errno::EOPNOTSUPP, "attribute not supported"));
        }
        check_addresses(request)?;
        self.look_through(request, &attributes::NEW_LINK)?;
        let mtu = request.number(IFINFOMSG, c::IFLA_MTU)?;
        check_mtu(mtu)?;
        let mac = request.attribute(IFINFOMSG, c::IFLA_ADDRESS).and_then(|mac| mac.first_chunk().copied());
        let mtu = mtu.map(|mtu| mtu as usize);
        let index = Some(request.word(4)?).filter(|index| *index != 0);
        // As in Linux, the index of the peer counts only beside that of the interface.
        let peer_index = wanted.peer.as_ref().and_then(|peer| peer.index).filter(|_| index.is_some());
        if [index, peer_index].into_iter().flatten().any(|index| index > LAST_CHOSEN_INDEX) {
            self.warn(format!("rtnetlink: chosen indices of interfaces are at most {LAST_CHOSEN_INDEX}"));
            return Err(refusal(Errno::EOPNOTSUPP, "index not supported"));
        }
        let peer_network = wanted.peer.as_ref().and_then(|peer| peer.network);
        let peer = match wanted.peer {
            Some(peer) => {
                let of_pair = if peer.given { peer.mtu } else { mtu };
                Some(self.make_peer(&peer, of_pair, peer_index)?)
            }
            None => None,
        };
        let name = request.attribute(IFINFOMSG, c::IFLA_IFNAME).map(|name| text(bare(name)));
        let name = self.name_wanted(&name.unwrap_or(format!("{kind}%d")), network);
        let (name, number) = match name.and_then(|name| Ok((name, self.claim_index(index)?))) {
            Ok(claimed) => claimed,
            Err(errno) => {
                if let Some(peer) = peer {
                    self.remove_interface(peer);
                }
                return Err(errno.into());
            }
        };
        if let (Attachment::Vlan { below, .. }, Some(mtu)) = (attachment, mtu)
            && mtu > self.net.interfaces[below].mtu
        {
            return Err(Errno::ERANGE.into());
        }
        add_virtual_at(self.net, number, &name, attachment, (mac, mtu));
        if let Some(peer) = peer {
            self.net.interfaces.join_ends(self.net.number, number, peer);
            self.link_changed(peer);
        }
        if let Attachment::Made(kind) = attachment {
            self.make_device(request, (number, kind), (mac.is_some(), mtu.is_some()), data)?;
        }
        self.set_link_settings(request, number)?;
        if let Some(master) = request.number(IFINFOMSG, IFLA_MASTER)? {
            set_master(self, number, master)?;
        }
        self.set_flags_given(request, number)?;
        self.link_changed(number);
        if let (Some(peer), Some(network)) = (peer, peer_network) {
            self.move_link(peer, network);
        }
        if let Some(network) = network {
            self.move_link(number, network);
        }
        Ok(())
    }

    /// Creates the state of a new device; `given` is true for a hardware address and an MTU in the request.
    fn make_device(
        &mut self,
        request: &Request<'_>,
        (number, kind): (usize, DeviceKind),
        given: (bool, bool),
        data: Option<&[u8]>,
    ) -> Result<(), Refusal> {
        devices::create(self.net, number, kind);
        let made = match kind {
            DeviceKind::Bridge => {
                if let Some(bridge) = devices::bridge_mut(self.net, number) {
                    (bridge.mac_is_set, bridge.mtu_is_set) = given;
                }
                data.map_or(Ok(()), |data| change_bridge(self, number, data))
            }
            DeviceKind::Bond => {
                if let Some(bond) = bond::bond_mut(self.net, number) {
                    bond.mac_is_set = given.0;
                }
                data.map_or(Ok(()), |data| change_bond(self.net, request, number, data))
            }
            DeviceKind::Vrf => {
                let table = data.and_then(|data| attribute(data, VRF_TABLE));
                let table =
                    table.and_then(|table| table.first_chunk().copied()).map_or(0, u32::from_ne_bytes);
                vrf::create(self.net, number, table);
                if !given.1 {
                    self.net.interfaces[number].mtu = VRF_MTU;
                }
                Ok(())
            }
            DeviceKind::Gre
            | DeviceKind::Gretap
            | DeviceKind::Ipip
            | DeviceKind::Sit
            | DeviceKind::Ip6tnl
            | DeviceKind::Geneve => make_tunnel(self.net, number, kind, data.unwrap_or_default(), given.1),
            DeviceKind::Macvlan => make_macvlan(self.net, request, number, data, given.1),
            DeviceKind::Ipvlan => make_ipvlan(self.net, request, number, data, given.1)
                .map(|changed| self.links_changed(changed)),
            DeviceKind::Wireguard => {
                let interface = &mut self.net.interfaces[number];
                interface.mac = [0; 6];
                if !given.1 {
                    interface.mtu -= wireguard::OVERHEAD;
                }
                Ok(())
            }
            DeviceKind::Vxlan => make_vxlan(self, number, data.unwrap_or_default(), given.1),
        };
        if made.is_err() {
            self.withdraw_interface(number);
        }
        made
    }

    /// Changes a device by the data of its kind.
    pub(super) fn change_device(
        &mut self,
        request: &Request<'_>,
        number: usize,
        (wanted, data): (&KindWanted, &[u8]),
    ) -> Result<(), Refusal> {
        match self.net.interfaces[number].attachment {
            Attachment::Made(kind) if Some(kind.name()) == wanted.kind.as_deref() => match kind {
                DeviceKind::Bridge => change_bridge(self, number, data),
                DeviceKind::Bond => change_bond(self.net, request, number, data),
                DeviceKind::Vxlan => change_vxlan(self, number, data),
                DeviceKind::Macvlan => change_macvlan(self.net, number, data),
                DeviceKind::Ipvlan => {
                    change_ipvlan(self.net, request, number, data).map(|changed| self.links_changed(changed))
                }
                DeviceKind::Vrf | DeviceKind::Wireguard => Err(Errno::EOPNOTSUPP.into()),
                _ => change_tunnel(self.net, number, data),
            },
            _ => Err(Errno::EOPNOTSUPP.into()),
        }
    }

    /// Notifies of changed interfaces.
    pub(crate) fn links_changed(&mut self, changed: Vec<usize>) {
        changed.into_iter().for_each(|number| self.link_changed(number));
    }

    /// Changes a port by `IFLA_INFO_SLAVE_DATA`.
    pub(super) fn change_port_data(
        &mut self,
        request: &Request<'_>,
        number: usize,
        data: &[u8],
    ) -> Result<(), Refusal> {
        match devices::port_of(self.net, number) {
            Some(_) => change_port(self, request, number, data),
            None => Err(Errno::EOPNOTSUPP.into()),
        }
    }

    /// Number of a new interface: that of the index asked for, or an unused one.
    pub(super) fn claim_index(&mut self, index: Option<u32>) -> Result<usize, Errno> {
        match index {
            None => Ok(self.net.interfaces.unused()),
            Some(index) if self.net.interfaces.by_index(index).is_some() => Err(Errno::EBUSY),
            Some(index) => Ok(index as usize - 1),
        }
    }

    /// Underlying interface and id of a VLAN in a request.
    fn vlan_wanted(&self, request: &Request<'_>, data: Option<&[u8]>) -> Result<(usize, u16), Refusal> {
        let data = data.ok_or(refusal(Errno::EINVAL, "VLAN properties not specified"))?;
        let two = |kind| attribute(data, kind).and_then(|value| value.first_chunk::<2>().copied());
        if two(VLAN_PROTOCOL).is_some_and(|protocol| u16::from_be_bytes(protocol) != TAGGED) {
            return Err(refusal(Errno::EPROTONOSUPPORT, "Invalid VLAN protocol"));
        }
        let id = two(VLAN_ID).map(u16::from_ne_bytes);
        if id.is_some_and(|id| id > LAST_VLAN) {
            return Err(refusal(Errno::ERANGE, "Invalid VLAN id"));
        }
        let id = id.ok_or(refusal(Errno::EINVAL, "VLAN id not specified"))?;
        let below = request.number(IFINFOMSG, IFLA_LINK)?;
        let below = below.ok_or(refusal(Errno::EINVAL, "link not specified"))?;
        let below =
            self.net.interfaces.by_index(below).ok_or(refusal(Errno::ENODEV, "link does not exist"))?;
        if !self.net.interfaces[below].is_link() {
            return Err(refusal(Errno::EOPNOTSUPP, "VLANs not supported on device"));
        }
        let mut at = below;
        for depth in 1.. {
            if depth > MAX_NEST_DEV {
                return Err(Errno::EMLINK.into());
            }
            let Attachment::Vlan { below, .. } = self.net.interfaces[at].attachment else { break };
            at = below;
        }
        match self.net.interfaces.vlan(below, id) {
            Some(_) => Err(refusal(Errno::EEXIST, "VLAN device already exists")),
            None => Ok((below, id)),
        }
    }

    /// Handles `ip link del`: deletes an interface created by `ip link add`, and the VLANs on it.
    pub(crate) fn remove_link(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        request.validate(IFINFOMSG, &policies::LINK, LIBERAL)?;
        super::links::check_namespaces(request, true)?;
        let number = match self.link_named(request) {
            Err(Errno::EINVAL) => match request.number(IFINFOMSG, IFLA_GROUP)? {
                Some(group) => return self.remove_group(group),
                None => return Err(Errno::EINVAL.into()),
            },
            named => named?,
        };
        self.remove_one_link(number)
    }

    /// Deletes the interfaces of a group (`rtnl_group_dellink`).
    fn remove_group(&mut self, group: u32) -> Result<(), Refusal> {
        if group == 0 {
            return Err(Errno::EPERM.into());
        }
        let interfaces = &self.net.interfaces;
        let of_group =
            |number: &usize| interfaces[*number].exists() && interfaces[*number].settings.group == group;
        let members: Vec<usize> = (0..interfaces.len()).filter(of_group).collect();
        if members.is_empty() {
            return Err(Errno::ENODEV.into());
        }
        if members.iter().any(|number| kind_of(&interfaces[*number]).is_empty()) {
            return Err(Errno::EOPNOTSUPP.into());
        }
        for number in members {
            if self.net.interfaces[number].exists() {
                self.remove_one_link(number)?;
            }
        }
        Ok(())
    }

    fn remove_one_link(&mut self, number: usize) -> Result<(), Refusal> {
        match self.net.interfaces[number].attachment {
            Attachment::Dummy
            | Attachment::Vlan { .. }
            | Attachment::Veth { .. }
            | Attachment::Made(_)
            | Attachment::Ifb => {
                let mut all = vec![number];
                let mut next = 0;
                while let Some(below) = all.get(next) {
                    all.extend(self.net.interfaces.vlans_of(*below));
                    next += 1;
                }
                all.into_iter().rev().for_each(|each| self.remove_interface(each));
                Ok(())
            }
            _ => Err(Errno::EOPNOTSUPP.into()),
        }
    }
}
