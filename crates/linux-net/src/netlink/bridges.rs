//! Requests about bridges, family `AF_BRIDGE`: forwarding entries and ports. No interface of a host is a port, so
//! each is refused, after Linux's checks (`rtnl_fdb_add`, `rtnl_fdb_del`, `rtnl_bridge_setlink`).

use super::links::IFINFOMSG;
use super::message::Request;
use super::neighbours::{NDA_LLADDR, NDMSG};
use super::policies;
use super::policy::{LIBERAL, Policy};
use super::refusal::{Refusal, invalid, refusal};
use crate::Admin;
use belljar_linux_abi::{Errno, c};
use belljar_netstack::LO;

/// `AF_BRIDGE`.
pub(super) const AF_BRIDGE: i32 = 7;
/// `NDA_VLAN`.
const NDA_VLAN: u16 = 5;
/// `NTF_SELF`: the entry is that of the interface, not of its bridge.
const NTF_SELF: u8 = 2;
/// `VLAN_VID_MASK`, which is no VLAN either.
const LAST_VID: u16 = 4_095;
/// `NDA_*` without types.
const ANY: Policy = Policy { attributes: &[], strict_from: 0, ..policies::NEIGHBOUR };

/// True if Linux has handlers of bridges for this type of message.
pub(super) fn are_meant(kind: u16, family: i32) -> bool {
    let handled = [c::RTM_NEWNEIGH, c::RTM_DELNEIGH, c::RTM_SETLINK, c::RTM_DELLINK];
    family == AF_BRIDGE && handled.contains(&kind)
}

impl Admin<'_> {
    /// Refuses a request about bridges.
    pub(super) fn refuse_bridge(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let unknown = refusal(Errno::ENODEV, "unknown ifindex");
        if [c::RTM_SETLINK, c::RTM_DELLINK].contains(&request.kind) {
            if request.body.len() < IFINFOMSG {
                return Err(Errno::EINVAL.into());
            }
            self.net.interfaces.by_index(request.word(4)?).ok_or(unknown)?;
            return Err(Errno::EOPNOTSUPP.into());
        }
        let adds = request.kind == c::RTM_NEWNEIGH;
        request.validate(NDMSG, &ANY, LIBERAL)?;
        let index = request.word(4)?;
        if index == 0 {
            return invalid("invalid ifindex");
        }
        let number = self.net.interfaces.by_index(index).ok_or(unknown)?;
        if request.attribute(NDMSG, NDA_LLADDR).is_none_or(|address| address.len() != 6) {
            return invalid("invalid address");
        }
        let not_ethernet = match adds {
            true => "FDB add only supported for Ethernet devices",
            false => "FDB delete only supported for Ethernet devices",
        };
        let is_ethernet = number != LO;
        if adds && !is_ethernet {
            return invalid(not_ethernet);
        }
        if let Some(vid) = request.attribute(NDMSG, NDA_VLAN) {
            let Some(vid) = vid.first_chunk().filter(|_| vid.len() == 2) else {
                return invalid("invalid vlan attribute size");
            };
            if !(1..LAST_VID).contains(&u16::from_ne_bytes(*vid)) {
                return invalid("invalid vlan id");
            }
        }
        if !is_ethernet {
            return invalid(not_ethernet);
        }
        if request.body[NDMSG - 2] & NTF_SELF != 0 {
            self.warn("netlink: forwarding entries of interfaces (bridge fdb) are not supported and refused");
        }
        Err(Errno::EOPNOTSUPP.into())
    }
}
