//! Creation and deletion of interfaces by rtnetlink: `RTM_NEWLINK` with a kind, and `RTM_DELLINK`.

use super::attributes;
use super::links::{IFINFOMSG, IFLA_GROUP, IFLA_LINK, IFLA_LINKINFO, NAME_MAX, bare, check_addresses};
use super::message::{Request, attribute};
use super::networks::PeerWanted;
use super::policies;
use super::policy::LIBERAL;
use super::refusal::{Refusal, refusal};
use crate::Admin;
use crate::interfaces::LEAST_MTU;
use belljar_linux_abi::{Errno, c};
use belljar_netstack::interface::{Attachment, Interface};
use belljar_netstack::virtual_links::{TAGGED, add_virtual_at};

/// Nested attributes of `IFLA_LINKINFO`.
pub(super) const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
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

fn put(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
    out.extend(((value.len() + 4) as u16).to_ne_bytes());
    out.extend(kind.to_ne_bytes());
    out.extend(value);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// `IFLA_LINKINFO` of an interface of namespace `own`, and the number of its underlying interface or peer.
pub(super) fn link_info(interface: &Interface, own: u32) -> Option<(Vec<u8>, Option<usize>)> {
    let mut info = Vec::new();
    match interface.attachment {
        Attachment::Dummy => put(&mut info, INFO_KIND, b"dummy\0"),
        Attachment::Veth { network, peer } => {
            put(&mut info, INFO_KIND, b"veth\0");
            return Some((info, Some(peer).filter(|_| network == own)));
        }
        Attachment::Vlan { below, id } => {
            let mut data = Vec::new();
            put(&mut data, VLAN_PROTOCOL, &TAGGED.to_be_bytes());
            put(&mut data, VLAN_ID, &id.to_ne_bytes());
            put(&mut data, VLAN_FLAGS, &[REORDER_HDR.to_ne_bytes(), u32::MAX.to_ne_bytes()].concat());
            put(&mut info, INFO_KIND, b"vlan\0");
            put(&mut info, INFO_DATA, &data);
            return Some((info, Some(below)));
        }
        _ => return None,
    }
    Some((info, None))
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

/// Kind of an interface, as in `IFLA_INFO_KIND`; empty without one.
pub(super) fn kind_of(interface: &Interface) -> &'static str {
    match interface.attachment {
        Attachment::Dummy => "dummy",
        Attachment::Veth { .. } => "veth",
        Attachment::Vlan { .. } => "vlan",
        _ => "",
    }
}

/// Kind of interface in a request, with its data.
pub(super) struct KindWanted {
    kind: Option<String>,
    /// True if the request has data for the kind, of whichever kind.
    pub(super) has_data: bool,
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
    pub(super) fn kind_wanted(&self, request: &Request<'_>) -> Result<KindWanted, Refusal> {
        let mut wanted = KindWanted { kind: None, has_data: false, peer: None };
        let Some(info) = request.attribute(IFINFOMSG, IFLA_LINKINFO) else { return Ok(wanted) };
        // Without an extended ack, as in Linux.
        policies::LINK_INFO.validate(&request.silent(), info, 0, LIBERAL).map_err(|r| r.errno)?;
        wanted.kind = attribute(info, INFO_KIND).map(text);
        let data = attribute(info, INFO_DATA);
        wanted.has_data = data.is_some();
        match wanted.kind.as_deref() {
            Some("veth") => {
                if let Some(data) = data {
                    policies::VETH.validate(request, data, request.offset_of(data), LIBERAL)?;
                }
                let mac = request.attribute(IFINFOMSG, c::IFLA_ADDRESS);
                check_ethernet(mac, request.number(IFINFOMSG, c::IFLA_MTU)?)?;
                wanted.peer = Some(self.peer_wanted(request, data)?);
            }
            Some("dummy") => {
                check_ethernet(request.attribute(IFINFOMSG, c::IFLA_ADDRESS), None)?;
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
        self.set_link_settings(request, number)?;
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
            Attachment::Dummy | Attachment::Vlan { .. } | Attachment::Veth { .. } => {
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
