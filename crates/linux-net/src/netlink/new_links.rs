//! Creation and deletion of interfaces by rtnetlink: `RTM_NEWLINK` with a kind, and `RTM_DELLINK`.

use super::links::{IFINFOMSG, IFLA_LINK, IFLA_LINKINFO};
use super::message::{Request, attribute};
use super::refusal::{Refusal, refusal};
use crate::Admin;
use crate::interfaces::LEAST_MTU;
use belljar_linux_abi::{Errno, c};
use belljar_netstack::interface::{Attachment, Interface};
use belljar_netstack::virtual_links::TAGGED;

/// Nested attributes of `IFLA_LINKINFO`.
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
/// Nested attributes of a VLAN's `IFLA_INFO_DATA`.
const VLAN_ID: u16 = 1;
const VLAN_FLAGS: u16 = 2;
const VLAN_PROTOCOL: u16 = 5;
/// Maximum nesting depth of VLANs (`MAX_NEST_DEV` in Linux).
const MAX_NEST_DEV: usize = 8;
/// Highest VLAN id.
const LAST_VLAN: u16 = 4_094;
/// `VLAN_FLAG_REORDER_HDR`: packet sockets see frames without the tag.
const REORDER_HDR: u32 = 1;
/// Maximum length of an interface name in bytes.
const NAME_MAX: usize = 15;

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

/// Checks that an interface name is valid: `EINVAL`.
pub(super) fn checked_name(name: &str) -> Result<(), Errno> {
    let valid = name.len() <= NAME_MAX && !name.contains(['/', ':']) && name != "." && name != "..";
    if valid && !name.chars().any(|c| c.is_ascii_whitespace()) { Ok(()) } else { Err(Errno::EINVAL) }
}

impl Admin<'_> {
    /// Unused interface name of a stem and a number.
    pub(super) fn free_name(&self, stem: &str) -> String {
        let free = |n: &u32| self.net.interfaces.by_name(format!("{stem}{n}").as_bytes()).is_none();
        format!("{stem}{}", (0..).find(free).unwrap_or(0))
    }

    /// Handles `ip link add`: dummy, VLAN and veth interfaces.
    pub(crate) fn new_link(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let info = request.attribute(IFINFOMSG, IFLA_LINKINFO).ok_or(Errno::EOPNOTSUPP)?;
        let kind = attribute(info, INFO_KIND).map(text).ok_or(Errno::EOPNOTSUPP)?;
        let data = attribute(info, INFO_DATA);
        let network = self.network_asked(request)?;
        let mut peer = None;
        let (attachment, stem) = match &*kind {
            "dummy" => (Attachment::Dummy, "dummy"),
            "veth" => {
                peer = Some(self.peer_wanted(data)?);
                (Attachment::Dummy, "veth")
            }
            "vlan" => {
                let (below, id) = self.vlan_wanted(request, data)?;
                (Attachment::Vlan { below, id }, "vlan")
            }
            kind => {
                self.warn(format!("rtnetlink: interfaces of kind '{kind}' are not supported and refused"));
                return Err(refusal(Errno::EOPNOTSUPP, "Unknown device type"));
            }
        };
        let name = match request.attribute(IFINFOMSG, c::IFLA_IFNAME).map(text) {
            Some(name) if !name.is_empty() => name,
            _ => self.free_name(stem),
        };
        checked_name(&name)?;
        self.check_free(&name, network)?;
        let mac = match request.attribute(IFINFOMSG, c::IFLA_ADDRESS) {
            Some(mac) => Some(mac.try_into().map_err(|_| Errno::EINVAL)?),
            None => None,
        };
        let mtu = request.number(IFINFOMSG, c::IFLA_MTU)?;
        if mtu.is_some_and(|mtu| !(LEAST_MTU..=65_535).contains(&mtu)) {
            return Err(Errno::EINVAL.into());
        }
        let mtu = mtu.map(|mtu| mtu as usize);
        if let (Attachment::Vlan { below, .. }, Some(mtu)) = (attachment, mtu)
            && mtu > self.net.interfaces[below].mtu
        {
            return Err(Errno::ERANGE.into());
        }
        let number = self.net.add_virtual(&name, attachment, mac, mtu);
        if let Some(peer) = &peer {
            self.make_peer(number, peer);
        }
        self.set_link_settings(request, number)?;
        if request.word(8)? & c::IFF_UP as u32 != 0 {
            self.set_interface_up(number, true);
        }
        self.link_changed(number);
        if let Some(network) = network {
            self.move_link(number, network);
        }
        Ok(())
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
        let number = self.link_named(request)?;
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
